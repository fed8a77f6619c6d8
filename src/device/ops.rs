//! F1: the operations of a transformer between its linear layers, over packed rows: the sequences of a batch lie one after the other, and
//! nothing is padded.
//!
//! On the CPU each is one pass by kernels of `cpu`; elsewhere it is put together from candle's operations, which the tests compare it with.

use std::ops::{Deref, Range};

use candle_core::{D, Device, Layout, Result, Storage, Tensor, bail};
use rayon::prelude::*;

use super::cpu::attention::{Group, Output};
use super::cpu::rows::Rows;
use super::cpu::share::Columns;
use super::cpu::{Level, pointwise};
use super::linear::Compute;

mod composed;

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

impl Attention<'_> {
    /// Keys that come before those of each sequence.
    fn before(&self) -> usize {
        self.prefix.map_or(0, |(keys, _)| keys.dims().first().copied().unwrap_or(0))
    }
}

/// Attention. Queries are (rows, heads, head), keys and values (rows, kv heads, head), all f32; `heads` is a multiple of `kv heads`, and
/// neighbouring heads share keys. Rows may be strided. Gives (rows, heads * head).
///
/// # Errors
/// Shapes that disagree.
pub fn attention(query: &Tensor, key: &Tensor, value: &Tensor, how: &Attention) -> Result<Tensor> {
    if !query.device().is_cpu() {
        return composed::attention(query, key, value, how);
    }
    let ((rows, heads, head), (key_rows, kv_heads, key_head)) = (query.dims3()?, key.dims3()?);
    let is_sound = key.dims() == value.dims()
        && (key_rows, key_head) == (rows, head)
        && heads.is_multiple_of(kv_heads)
        && are_apart(how.sequences, rows)
        && how.prefix.is_none_or(|(k, v)| k.dims() == v.dims() && k.dims().get(1..) == key.dims().get(1..));
    if !is_sound {
        bail!("attention of {:?} to {:?} and {:?}", query.dims(), key.dims(), value.dims());
    }
    let mut out = vec![0.0; rows * heads * head];
    let columns = Columns::new(&mut out, heads * head);
    let views = (Heads::of(query)?, Heads::of(key)?, Heads::of(value)?);
    let prefix = how.prefix.map(|(k, v)| Ok::<_, candle_core::Error>((Heads::of(k)?, Heads::of(v)?))).transpose()?;
    let groups: Vec<(&Range<usize>, usize)> =
        how.sequences.iter().flat_map(|rows| (0..kv_heads).map(move |head| (rows, head))).collect();
    groups.into_par_iter().try_for_each(|(rows, group)| {
        let all = |own: &Heads, before: Option<&Heads>| {
            let mut values = Vec::with_capacity((how.before() + rows.len()) * head);
            if let Some(before) = before {
                (0..how.before()).try_for_each(|row| before.copy(row, group, &mut values))?;
            }
            rows.clone().try_for_each(|row| own.copy(row, group, &mut values))?;
            Ok::<_, candle_core::Error>(values)
        };
        let keys = all(&views.1, prefix.as_ref().map(|it| &it.0))?;
        let values = all(&views.2, prefix.as_ref().map(|it| &it.1))?;
        let count = how.before() + rows.len();
        let own: Vec<usize> = (group * heads / kv_heads..(group + 1) * heads / kv_heads).collect();
        let queries: Option<Vec<Rows>> = own.iter().map(|at| views.0.rows(rows, *at)).collect();
        let (Some(queries), Some(keys), Some(values)) =
            (queries, Rows::new(&keys, count, head, head), Rows::new(&values, count, head, head))
        else {
            bail!("rows that overlap")
        };
        let narrow = how.compute == Compute::Q8;
        let group = Group { queries: &queries, keys, values, causal: how.causal, scale: how.scale, narrow };
        let firsts: Vec<usize> = own.iter().map(|at| at * head).collect();
        // SAFETY: no two sequences share rows, and no two groups heads.
        unsafe { group.attend(&Output { columns: &columns, row: rows.start, heads: &firsts }, Level::best()) };
        Ok(())
    })?;
    Tensor::from_vec(out, (rows, heads * head), &Device::Cpu)
}

/// Whether the sequences have rows, are in order, share none, and end where the rows do or before.
fn are_apart(sequences: &[Range<usize>], rows: usize) -> bool {
    let ends = std::iter::once(0).chain(sequences.iter().map(|it| it.end));
    ends.zip(sequences).all(|(before, it)| before <= it.start && it.start < it.end && it.end <= rows)
}

/// `x * weight / rms(x)` over the last dimension; `x` may be strided, the result is contiguous.
///
/// # Errors
/// Shapes that disagree.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return composed::rms_norm(x, weight, epsilon);
    }
    let width = x.dim(D::Minus1)?;
    let weight = Flat::of(weight)?.of_length(width)?;
    by_row(x, width, |_, row, out| {
        pointwise::rms_norm(Level::best(), row, weight.values(), epsilon, out);
    })
}

/// Layer normalisation over the last dimension.
///
/// # Errors
/// Shapes that disagree.
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f32) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return composed::layer_norm(x, weight, bias, epsilon);
    }
    let width = x.dim(D::Minus1)?;
    let (weight, bias) = (Flat::of(weight)?.of_length(width)?, Flat::of(bias)?.of_length(width)?);
    by_row(x, width, |_, row, out| {
        pointwise::layer_norm(Level::best(), row, weight.values(), bias.values(), epsilon, out);
    })
}

/// Rotary embedding by halves: (rows, heads, head) with a cosine and a sine for each row and each of the head's first half of values,
/// (rows, head / 2). `x` may be strided, the result is contiguous.
///
/// # Errors
/// Shapes that disagree.
pub fn rope(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return composed::rope(x, cos, sin);
    }
    let (rows, heads, head) = x.dims3()?;
    if cos.dims() != [rows, head / 2] || sin.dims() != cos.dims() || !head.is_multiple_of(2) {
        bail!("rotation of {:?} by {:?} and {:?}", x.dims(), cos.dims(), sin.dims());
    }
    let (cos, sin) = (Flat::of(cos)?, Flat::of(sin)?);
    by_row(x, head, |at, row, out| {
        let angles = at / heads * (head / 2)..(at / heads + 1) * (head / 2);
        pointwise::rope(Level::best(), row, &cos.values()[angles.clone()], &sin.values()[angles], out);
    })
}

/// `silu(gate) * up` of (rows, 2 * width), the gate's values first. Gives (rows, width).
///
/// # Errors
/// An odd width.
pub fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    if !gate_up.device().is_cpu() {
        return composed::swiglu(gate_up);
    }
    let width = gate_up.dim(D::Minus1)?;
    if !width.is_multiple_of(2) {
        bail!("gate and up of together {width} values");
    }
    by_row(gate_up, width / 2, |_, row, out| {
        let (gate, up) = row.split_at(width / 2);
        pointwise::swiglu(Level::best(), gate, up, out);
    })
}

/// GELU by the tanh approximation.
///
/// # Errors
/// Values that are not f32.
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return composed::gelu_tanh(x);
    }
    by_row(x, x.dim(D::Minus1)?, |_, row, out| pointwise::gelu_tanh_of(Level::best(), row, out))
}

/// GELU by the error function.
///
/// # Errors
/// Values that are not f32.
pub fn gelu_erf(x: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return composed::gelu_erf(x);
    }
    by_row(x, x.dim(D::Minus1)?, |_, row, out| pointwise::gelu_of(Level::best(), row, out))
}

/// The sum.
///
/// # Errors
/// Shapes that disagree.
pub fn add(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() || x.dims() != y.dims() {
        return x + y;
    }
    let width = x.dim(D::Minus1)?;
    let y = Flat::of(y)?;
    by_row(x, width, |at, row, out| pointwise::add(Level::best(), row, &y.values()[at * width..][..width], out))
}

/// Applies `row` to each row of the last dimension, by all threads: to its number, its values and `width` values of the result.
fn by_row(x: &Tensor, width: usize, row: impl Fn(usize, &[f32], &mut [f32]) + Sync) -> Result<Tensor> {
    /// Rows that a thread takes at a time.
    const STRIP: usize = 16;
    let mut shape = x.dims().to_vec();
    let inner = shape.last().copied().unwrap_or(0);
    let count = x.elem_count().checked_div(inner).unwrap_or(0);
    let heads = Heads::of(x)?;
    let mut out = vec![0.0; count * width];
    out.par_chunks_mut((STRIP * width).max(1)).enumerate().try_for_each(|(strip, out)| {
        for (at, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
            let at = strip * STRIP + at;
            let Some(values) = heads.values(at / heads.count, at % heads.count) else { bail!("no row {at}") };
            row(at, values, out);
        }
        Ok(())
    })?;
    drop(heads);
    if let Some(last) = shape.last_mut() {
        *last = width;
    }
    Tensor::from_vec(out, shape, &Device::Cpu)
}

/// What keeps a tensor's values readable; the type has no name that can be written here.
type Guard<'a> = Box<dyn Deref<Target = Storage> + Sync + 'a>;

/// Vectors of equal width, in rows of so many, (rows, count, width) or (rows, width).
struct Heads<'a> {
    storage: Guard<'a>,
    start: usize,
    /// Values between rows, and between the vectors of a row.
    strides: (usize, usize),
    rows: usize,
    count: usize,
    width: usize,
}

impl<'a> Heads<'a> {
    fn of(x: &'a Tensor) -> Result<Self> {
        let (storage, layout) = x.storage_and_layout();
        let (rows, count, width, strides) = match (layout.dims(), layout.stride()) {
            (&[rows, width], &[row, 1]) => (rows, 1, width, (row, 0)),
            (&[rows, count, width], &[row, vector, 1]) => (rows, count, width, (row, vector)),
            (dims, strides) => bail!("rows of {dims:?} with strides {strides:?}"),
        };
        let storage = Box::new(storage);
        let it = Heads { start: layout.start_offset(), storage, strides, rows, count: count.max(1), width };
        it.all()?;
        Ok(it)
    }

    fn all(&self) -> Result<&[f32]> {
        match &**self.storage {
            Storage::Cpu(storage) => storage.as_slice::<f32>(),
            _ => bail!("values that are not in this machine's memory"),
        }
    }

    fn values(&self, row: usize, at: usize) -> Option<&[f32]> {
        let start = self.start + row * self.strides.0 + at * self.strides.1;
        self.all().ok()?.get(start..start + self.width)
    }

    fn copy(&self, row: usize, at: usize, to: &mut Vec<f32>) -> Result<()> {
        match self.values(row, at) {
            Some(values) => to.extend_from_slice(values),
            None => bail!("row {row} of {}", self.rows),
        }
        Ok(())
    }

    /// One vector of each of some rows.
    fn rows(&self, rows: &Range<usize>, at: usize) -> Option<Rows<'_>> {
        let start = self.start + rows.start * self.strides.0 + at * self.strides.1;
        Rows::new(self.all().ok()?.get(start..)?, rows.len(), self.width, self.strides.0)
    }
}

/// The values of a contiguous tensor.
struct Flat<'a> {
    storage: Guard<'a>,
    range: Range<usize>,
}

impl<'a> Flat<'a> {
    fn of(x: &'a Tensor) -> Result<Self> {
        let (storage, layout): (_, &Layout) = x.storage_and_layout();
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("values with gaps") };
        let it = Flat { storage: Box::new(storage), range: start..end };
        match &**it.storage {
            Storage::Cpu(storage) => storage.as_slice::<f32>()?,
            _ => bail!("values that are not in this machine's memory"),
        };
        Ok(it)
    }

    /// # Errors
    /// Another number of values.
    fn of_length(self, length: usize) -> Result<Self> {
        match self.range.len() {
            own if own == length => Ok(self),
            own => bail!("{own} values for rows of {length}"),
        }
    }

    fn values(&self) -> &[f32] {
        match &**self.storage {
            Storage::Cpu(storage) => storage.as_slice::<f32>().map_or(&[], |values| &values[self.range.clone()]),
            _ => &[],
        }
    }
}

#[cfg(test)]
#[path = "ops_tests.rs"]
mod tests;
