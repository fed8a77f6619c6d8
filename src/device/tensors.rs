//! F1: the tensors of a safetensors file, left as they lie in it and turned into f32 when they are used.
//!
//! A process that answers one question reads each weight once: a copy of them all would cost it more than the question (a page that is
//! written for the first time takes longer than converting what goes into it). Knows nothing of networks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};

/// The bytes of a file, compiled in or read.
pub type Bytes = Arc<Cow<'static, [u8]>>;

/// Values that a thread converts at a time. They fit the innermost cache.
const BLOCK: usize = 1024;

/// A file whose table of contents has been read.
pub struct TensorFile {
    tensors: HashMap<String, Stored>,
}

/// A tensor as it lies in its file. Cheap to clone.
#[derive(Clone)]
pub struct Stored {
    file: Bytes,
    start: usize,
    end: usize,
    shape: Vec<usize>,
    kind: Dtype,
}

impl TensorFile {
    /// # Errors
    /// Bytes that are no such file, or not all of it.
    pub fn open(file: &Bytes) -> Result<Self, safetensors::SafeTensorError> {
        let (header, contents) = SafeTensors::read_metadata(file)?;
        let base = size_of::<u64>() + header;
        let stored = |name: String| {
            let info = contents.info(&name)?;
            let (start, end) = (base + info.data_offsets.0, base + info.data_offsets.1);
            let stored = Stored { file: Arc::clone(file), start, end, shape: info.shape.clone(), kind: info.dtype };
            Some((name, stored))
        };
        Ok(TensorFile { tensors: contents.offset_keys().into_iter().filter_map(stored).collect() })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor of floats of this shape.
    ///
    /// # Errors
    /// One line that names the tensor: missing, of another shape, or not of floats.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Stored, String> {
        let stored = self.tensors.get(name).ok_or_else(|| format!("tensor `{name}` is missing"))?;
        if stored.shape != shape {
            return Err(format!("tensor `{name}` has shape {:?} instead of {shape:?}", stored.shape));
        }
        match stored.kind {
            Dtype::F16 | Dtype::BF16 | Dtype::F32 => Ok(stored.clone()),
            other => Err(format!("tensor `{name}` holds {other:?} instead of F16, BF16 or F32")),
        }
    }

    /// The name of a tensor that holds a value that is not finite, if one does: a single one makes every vector useless.
    pub fn non_finite(&self) -> Option<&str> {
        let found = self.tensors.par_iter().find_any(|(_, stored)| has_non_finite(stored.kind, stored.bytes()));
        found.map(|(name, _)| name.as_str())
    }
}

impl Stored {
    pub fn bytes(&self) -> &[u8] {
        &self.file[self.start..self.end]
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// All values.
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.len()];
        self.copy_to(&mut values);
        values
    }

    /// All values, by all threads of this pool. As many as `values` is long.
    pub fn copy_to(&self, values: &mut [f32]) {
        let size = self.kind.bitsize() / 8;
        let parts = values.par_chunks_mut(16 * BLOCK).zip(self.bytes().par_chunks(16 * BLOCK * size));
        parts.for_each(|(values, bytes)| widen(self.kind, bytes, values));
    }

    /// Rows of a matrix from `first` on, as many as `values` has room for, by this thread. Less if there are fewer.
    pub fn copy_rows_to(&self, first: usize, inner: usize, values: &mut [f32]) {
        let bytes = self.bytes().get(first * inner * self.kind.bitsize() / 8..).unwrap_or_default();
        widen(self.kind, bytes, values);
    }

    /// Row `at` of a matrix. None beyond its last.
    pub fn copy_row_to(&self, at: usize, row: &mut [f32]) -> Option<()> {
        let length = row.len() * self.kind.bitsize() / 8;
        let start = at.checked_mul(length)?;
        widen(self.kind, self.bytes().get(start..start.checked_add(length)?)?, row);
        Some(())
    }
}

fn widen(kind: Dtype, bytes: &[u8], values: &mut [f32]) {
    match kind {
        Dtype::F16 => widen_f16(bytes, values),
        Dtype::BF16 => widen_halves(bytes, values, bf16::from_le_bytes, HalfFloatSliceExt::convert_to_f32_slice),
        _ => {
            for (value, &bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(bytes);
            }
        }
    }
}

/// By the processor's instruction for it, if it has one.
fn widen_f16(bytes: &[u8], values: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    let done = if is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has what the function is compiled for.
        unsafe { widen_eights(bytes, values) }
    } else {
        0
    };
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    let (bytes, values) = (&bytes[2 * done..], &mut values[done..]);
    widen_halves(bytes, values, f16::from_le_bytes, HalfFloatSliceExt::convert_to_f32_slice);
}

/// As many values as are there in eights; says how many. A third of the time of the `half` crate, which calls a function for each eight
/// and needs them aligned.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn widen_eights(bytes: &[u8], values: &mut [f32]) -> usize {
    use std::arch::x86_64::{__m128i, __m256, _mm256_cvtph_ps};
    use std::mem::transmute;
    let (eights, _) = values.as_chunks_mut::<8>();
    let (halves, _) = bytes.as_chunks::<16>();
    for (values, halves) in eights.iter_mut().zip(halves) {
        // SAFETY: both types are sixteen bytes of which any are valid.
        let halves = unsafe { transmute::<[u8; 16], __m128i>(*halves) };
        // SAFETY: both types are eight f32.
        *values = unsafe { transmute::<__m256, [f32; 8]>(_mm256_cvtph_ps(halves)) };
    }
    8 * eights.len().min(halves.len())
}

/// A block at a time: the bytes need not be aligned, and the conversion of a slice uses vector instructions.
fn widen_halves<T: Copy + Default>(
    bytes: &[u8],
    values: &mut [f32],
    read: fn([u8; 2]) -> T,
    convert: fn(&[T], &mut [f32]),
) {
    let mut block = [T::default(); BLOCK];
    for (halves, values) in bytes.as_chunks::<2>().0.chunks(BLOCK).zip(values.chunks_mut(BLOCK)) {
        for (slot, &half) in block.iter_mut().zip(halves) {
            *slot = read(half);
        }
        convert(&block[..halves.len()], values);
    }
}

/// By the exponent, which is all ones in an infinity and in what is no number. Every value is read, so that the loop needs no branch.
fn has_non_finite(kind: Dtype, bytes: &[u8]) -> bool {
    let in_halves = |exponent: u16| {
        let is_found = |found: bool, half: &[u8; 2]| found | (u16::from_le_bytes(*half) & exponent == exponent);
        bytes.as_chunks::<2>().0.iter().fold(false, is_found)
    };
    match kind {
        Dtype::F16 => in_halves(0x7c00),
        Dtype::BF16 => in_halves(0x7f80),
        Dtype::F32 => {
            let is_found = |found: bool, value: &[u8; 4]| found | !f32::from_le_bytes(*value).is_finite();
            bytes.as_chunks::<4>().0.iter().fold(false, is_found)
        }
        // Not read by the network.
        _ => false,
    }
}

#[cfg(test)]
#[path = "tensors_tests.rs"]
mod tests;
