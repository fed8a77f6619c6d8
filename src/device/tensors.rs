//! F1: the tensors of safetensors files, left as they lie in them and turned into f32 when they are used.
//!
//! A process that answers one question reads each weight once: a copy of them all would cost it more than the question (a page that is
//! written for the first time takes longer than converting what goes into it). Knows nothing of networks.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::SafeTensors;

pub use safetensors::Dtype;

/// The bytes of a file: compiled in, read, or mapped. Cheap to clone.
#[derive(Clone)]
pub struct Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Bytes {
    /// Maps a file, so that only what is used of it is read.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn map(path: &Path) -> std::io::Result<Self> {
        let file = open(path)?;
        // SAFETY: mapped bytes may change or vanish under us when another process writes to the file or cuts it. Model files are written
        // once and then only read; every tensor's place was compared with the file's length, any bytes are valid values of its type,
        // and no decision about memory is made twice from the same bytes. A file that is cut while it is in use ends the process.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Bytes(Arc::new(map)))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes(Arc::new(bytes))
    }
}

impl From<&'static [u8]> for Bytes {
    fn from(bytes: &'static [u8]) -> Self {
        Bytes(Arc::new(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// The types that values can be read of.
const FLOATS: [Dtype; 3] = [Dtype::F16, Dtype::BF16, Dtype::F32];

/// Opens a file that is one: a pipe would be waited for, and a device may have no end.
///
/// # Errors
/// Those of the file system; something that is no file.
pub fn open(path: &Path) -> std::io::Result<File> {
    match std::fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Values that a thread converts at a time. They fit the innermost cache.
const BLOCK: usize = 1024;

/// The longest table of contents that is read. That of a model of a thousand tensors has 150 KB, and a longer one is a way to
/// fill the memory.
const MOST_CONTENTS: u64 = 1 << 24;

/// Files whose tables of contents have been read.
pub struct TensorFile {
    tensors: HashMap<String, Stored>,
    /// What the files say of themselves.
    notes: HashMap<String, String>,
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
        let length = file.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
        if length > MOST_CONTENTS {
            return Err(safetensors::SafeTensorError::HeaderTooLarge);
        }
        let (header, contents) = SafeTensors::read_metadata(file)?;
        let base = size_of::<u64>() + header;
        let stored = |name: String| {
            let info = contents.info(&name)?;
            let (start, end) = (base + info.data_offsets.0, base + info.data_offsets.1);
            let stored = Stored { file: file.clone(), start, end, shape: info.shape.clone(), kind: info.dtype };
            Some((name, stored))
        };
        let tensors = contents.offset_keys().into_iter().filter_map(stored).collect();
        Ok(TensorFile { tensors, notes: contents.metadata().clone().unwrap_or_default() })
    }

    /// Takes over the tensors of another file.
    ///
    /// # Errors
    /// The name of a tensor that is in both.
    pub fn join(&mut self, other: TensorFile) -> Result<(), String> {
        match other.tensors.keys().find(|&name| self.tensors.contains_key(name)) {
            Some(name) => Err(name.clone()),
            None => {
                self.tensors.extend(other.tensors);
                self.notes.extend(other.notes);
                Ok(())
            }
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// What the files say of themselves under `key`.
    pub fn note(&self, key: &str) -> Option<&str> {
        self.notes.get(key).map(String::as_str)
    }

    /// All tensors by their names, which are in order.
    pub fn all(&self) -> Vec<(&str, &Stored)> {
        let mut all: Vec<_> = self.tensors.iter().map(|(name, stored)| (name.as_str(), stored)).collect();
        all.sort_unstable_by_key(|it| it.0);
        all
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// A tensor of floats of this shape.
    ///
    /// # Errors
    /// One line that names the tensor: missing, of another shape, or not of floats.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Stored, String> {
        self.get_of(name, shape, &FLOATS)
    }

    /// A tensor of this shape, of one of these types.
    ///
    /// # Errors
    /// One line that names the tensor: missing, of another shape, or of another type.
    pub fn get_of(&self, name: &str, shape: &[usize], kinds: &[Dtype]) -> Result<Stored, String> {
        let stored = self.tensors.get(name).ok_or_else(|| format!("tensor `{name}` is missing"))?;
        if stored.shape != shape {
            return Err(format!("tensor `{name}` has shape {:?} instead of {shape:?}", stored.shape));
        }
        if !kinds.contains(&stored.kind) {
            let kinds: Vec<String> = kinds.iter().map(|it| format!("{it:?}")).collect();
            return Err(format!("tensor `{name}` holds {:?} instead of {}", stored.kind, kinds.join(", ")));
        }
        Ok(stored.clone())
    }

    /// The name of a tensor that holds a value that is not finite, if one does: a single one makes every vector useless.
    pub fn non_finite(&self) -> Option<&str> {
        let found = self.tensors.par_iter().find_any(|(_, stored)| !stored.is_finite());
        found.map(|(name, _)| name.as_str())
    }
}

impl Stored {
    /// As they lie in the file, little-endian, at any alignment.
    pub fn bytes(&self) -> &[u8] {
        &self.file[self.start..self.end]
    }

    pub fn kind(&self) -> Dtype {
        self.kind
    }

    /// Whether its values can be read as f32. Others are read as not numbers.
    pub fn is_of_floats(&self) -> bool {
        FLOATS.contains(&self.kind)
    }

    /// Bytes of a value; one where a byte holds several.
    fn value_bytes(&self) -> usize {
        (self.kind.bitsize() / 8).max(1)
    }

    /// The same values in another shape; none if that has more or fewer.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let fits = shape.iter().product::<usize>() == self.len();
        fits.then(|| Stored { shape: shape.to_vec(), ..self.clone() })
    }

    /// Whether every value is; true of integers. By all threads of this pool.
    pub fn is_finite(&self) -> bool {
        !self.bytes().par_chunks(FINITE_CHUNK).any(|bytes| has_non_finite(self.kind, bytes))
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All values.
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.len()];
        self.copy_to(&mut values);
        values
    }

    /// All values, by all threads of this pool. As many as `values` is long.
    pub fn copy_to(&self, values: &mut [f32]) {
        let size = self.value_bytes();
        let parts = values.par_chunks_mut(16 * BLOCK).zip(self.bytes().par_chunks(16 * BLOCK * size));
        parts.for_each(|(values, bytes)| widen(self.kind, bytes, values));
    }

    /// Rows of a matrix from `first` on, as many as `values` has room for, by this thread. Less if there are fewer.
    pub fn copy_rows_to(&self, first: usize, inner: usize, values: &mut [f32]) {
        let size = self.value_bytes();
        let bytes = self.bytes().get(first * inner * size..).unwrap_or_default();
        let count = values.len().min(bytes.len() / size);
        widen(self.kind, &bytes[..count * size], &mut values[..count]);
    }

    /// Row `at` of a matrix. None beyond its last.
    pub fn copy_row_to(&self, at: usize, row: &mut [f32]) -> Option<()> {
        let length = row.len() * self.value_bytes();
        let start = at.checked_mul(length)?;
        widen(self.kind, self.bytes().get(start..start.checked_add(length)?)?, row);
        Some(())
    }
}

fn widen(kind: Dtype, bytes: &[u8], values: &mut [f32]) {
    match kind {
        Dtype::F16 => widen_f16(bytes, values),
        Dtype::BF16 => widen_halves(bytes, values, bf16::from_le_bytes, HalfFloatSliceExt::convert_to_f32_slice),
        Dtype::F32 => {
            for (value, &bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_le_bytes(bytes);
            }
        }
        // Nobody should ask for them; nothing that was computed from them passes for a result.
        _ => values.fill(f32::NAN),
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

/// Bytes that a thread looks through at a time; a multiple of every type's size.
const FINITE_CHUNK: usize = 1 << 18;

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
