//! F1: the operations of `ops` put together from candle's, for every device.

use std::ops::Range;

use candle_core::{D, Result, Tensor};
use candle_nn::ops::{silu, softmax_last_dim};

use super::Attention;

pub(super) fn attention(query: &Tensor, key: &Tensor, value: &Tensor, how: &Attention) -> Result<Tensor> {
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

pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    candle_nn::ops::rms_norm(&x.contiguous()?, weight, epsilon)
}

pub(super) fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    candle_nn::ops::layer_norm(&x.contiguous()?, weight, bias, epsilon)
}

pub(super) fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    candle_nn::rotary_emb::rope_thd(&x.contiguous()?.unsqueeze(0)?, cos, sin)?.squeeze(0)
}

pub(super) fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    let halves = gate_up.chunk(2, D::Minus1)?;
    silu(&halves[0])? * &halves[1]
}

pub(super) fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    x.gelu()
}

pub(super) fn gelu_erf(x: &Tensor) -> Result<Tensor> {
    x.gelu_erf()
}
