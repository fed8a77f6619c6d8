//! F1: the operations of a transformer between its linear layers, over packed rows: the sequences of a batch lie one after the other, and
//! nothing is padded.

use std::ops::Range;

use candle_core::{D, DType, Result, Tensor};
use candle_nn::ops::{rms_norm as candle_rms_norm, silu, softmax_last_dim};

use super::linear::Compute;

/// How rows attend to each other.
pub struct Attention<'a> {
    /// The rows of each sequence, which attend to those of their own sequence only.
    pub sequences: &'a [Range<usize>],
    /// Keys and values, (rows, kv heads, head) each, that come before those of every sequence.
    pub prefix: Option<(&'a Tensor, &'a Tensor)>,
    /// A row attends to itself and those before it only.
    pub causal: bool,
    /// Factor on the products of queries and keys.
    pub scale: f32,
    /// [`Compute::Q8`] allows bf16 products; sums are f32.
    pub compute: Compute,
}

/// Attention. Queries are (rows, heads, head), keys and values (rows, kv heads, head), all f32; `heads` is a multiple of `kv heads`, and
/// neighbouring heads share keys. Rows may be strided. Gives (rows, heads * head).
///
/// # Errors
/// Shapes that disagree.
pub fn attention(query: &Tensor, key: &Tensor, value: &Tensor, how: &Attention) -> Result<Tensor> {
    let of_sequence = |rows: &Range<usize>| {
        let part = |it: &Tensor| it.narrow(0, rows.start, rows.len());
        let with = |own: Tensor, before: Option<&Tensor>| match before {
            Some(before) => Tensor::cat(&[before, &own], 0),
            None => Ok(own),
        };
        let key = with(part(key)?, how.prefix.map(|it| it.0))?;
        let value = with(part(value)?, how.prefix.map(|it| it.1))?;
        attend(&part(query)?, &key, &value, how)
    };
    Tensor::cat(&how.sequences.iter().map(of_sequence).collect::<Result<Vec<_>>>()?, 0)
}

fn attend(query: &Tensor, key: &Tensor, value: &Tensor, how: &Attention) -> Result<Tensor> {
    let (rows, heads, head) = query.dims3()?;
    let (keys, kv_heads, _) = key.dims3()?;
    let shared = heads / kv_heads;
    let each = |it: &Tensor| {
        let it = it.transpose(0, 1)?.contiguous()?.unsqueeze(1)?;
        it.broadcast_as((kv_heads, shared, keys, head))?.contiguous()?.reshape((heads, keys, head))
    };
    let query = query.transpose(0, 1)?.contiguous()?;
    let mut scores = (query.matmul(&each(key)?.t()?)? * f64::from(how.scale))?;
    if how.causal {
        let before = keys - rows;
        let mask: Vec<f32> = (0..rows)
            .flat_map(|row| (0..keys).map(move |at| if at > before + row { f32::NEG_INFINITY } else { 0.0 }))
            .collect();
        scores = scores.broadcast_add(&Tensor::from_vec(mask, (1, rows, keys), query.device())?)?;
    }
    softmax_last_dim(&scores)?.matmul(&each(value)?)?.transpose(0, 1)?.reshape((rows, heads * head))
}

/// `x * weight / rms(x)` over the last dimension; `x` may be strided, the result is contiguous.
///
/// # Errors
/// Shapes that disagree.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    candle_rms_norm(&x.contiguous()?, weight, epsilon)
}

/// Layer normalisation over the last dimension.
///
/// # Errors
/// Shapes that disagree.
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    candle_nn::ops::layer_norm(&x.contiguous()?, weight, bias, epsilon)
}

/// Rotary embedding by halves: (rows, heads, head) with a cosine and a sine for each row and each of the head's first half of values,
/// (rows, head / 2). `x` may be strided, the result is contiguous.
///
/// # Errors
/// Shapes that disagree.
pub fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    candle_nn::rotary_emb::rope_thd(&x.contiguous()?.unsqueeze(0)?, cos, sin)?.squeeze(0)
}

/// `silu(gate) * up` of (rows, 2 * width), the gate's values first. Gives (rows, width).
///
/// # Errors
/// An odd width.
pub fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    let halves = gate_up.chunk(2, D::Minus1)?;
    silu(&halves[0])? * &halves[1]
}

/// GELU by the tanh approximation.
///
/// # Errors
/// None on f32.
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    x.gelu()
}

/// GELU by the error function.
///
/// # Errors
/// None on f32.
pub fn gelu_erf(x: &Tensor) -> Result<Tensor> {
    x.gelu_erf()
}

/// The sum, in place of neither.
///
/// # Errors
/// Shapes that disagree.
pub fn add(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    debug_assert_eq!(x.dtype(), DType::F32);
    x + y
}
