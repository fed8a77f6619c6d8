//! F2: tensors by their published names, from one file or from the parts that an index lists.
//!
//! Knows nothing of what the networks do with them. A tensor is looked through for values that are not finite when it is first asked
//! for, so that nothing is read twice and that rows of the vocabulary that no text has are never read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use candle_core::{Device, Tensor};
use serde::Deserialize;

use crate::device::cpu::q8;
use crate::device::linear::StoredQuantised;
use crate::device::tensors::{Bytes, Dtype, Stored, TensorFile};
use crate::device::{Compute, Linear};
use crate::encoder::{EncoderError, one_line};

/// Parts of a model that are opened, at most.
const MOST_PARTS: usize = 1024;

/// What a file of 8-bit weights has in place of `name.weight`: tiles (U8), a scale for each output (F32), the sum of each output's
/// steps (I32).
pub(super) const TILES: &str = ".q8";
pub(super) const SCALES: &str = ".scales";
pub(super) const SUMS: &str = ".sums";
/// The form of the tiles, and the key under which a file names it.
pub(super) const FORMAT: &str = "1";
pub(super) const FORMAT_NOTE: &str = "sightline-q8";

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that the weights stand in, mapped.
pub(super) struct Files {
    pub tensors: TensorFile,
    /// In the order of their names.
    pub parts: Vec<Bytes>,
}

impl Files {
    /// Opens `model.safetensors`, or else the parts that the index lists.
    ///
    /// # Errors
    /// A file that is missing, is not all there, or lies outside of the folder; a tensor that is in two of them, or in another than
    /// the index says.
    pub(super) fn open(folder: &Path) -> Result<Self, EncoderError> {
        let index = folder.join("model.safetensors.index.json");
        if folder.join("model.safetensors").exists() || !index.exists() {
            return Self::of_parts(folder, &[String::from("model.safetensors")]);
        }
        let file = index.display().to_string();
        let damaged = |cause: String| EncoderError::Damaged { file: file.clone(), cause: one_line(&cause) };
        let bytes = std::fs::read(&index).map_err(|cause| EncoderError::Unreadable { file: file.clone(), cause })?;
        let Index { weight_map } = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let names: BTreeSet<String> = weight_map.values().cloned().collect();
        if names.is_empty() || names.len() > MOST_PARTS {
            return Err(damaged(format!("it lists {} files", names.len())));
        }
        if let Some(name) = names.iter().find(|name| !is_file_name(name)) {
            return Err(damaged(format!("it lists `{name}`, which is no file of this folder")));
        }
        let files = Self::of_parts(folder, &names.into_iter().collect::<Vec<_>>())?;
        match weight_map.keys().find(|name| !files.tensors.has(name)) {
            Some(name) => Err(damaged(format!("tensor `{name}` is in none of the files that it lists"))),
            None => Ok(files),
        }
    }

    fn of_parts(folder: &Path, names: &[String]) -> Result<Self, EncoderError> {
        let (mut tensors, mut parts) = (None::<TensorFile>, Vec::new());
        for name in names {
            let path = folder.join(name);
            let file = path.display().to_string();
            let damaged = |cause: String| EncoderError::Damaged { file: file.clone(), cause: one_line(&cause) };
            let bytes = Bytes::map(&path).map_err(|cause| EncoderError::Unreadable { file: file.clone(), cause })?;
            let own = TensorFile::open(&bytes).map_err(|error| damaged(error.to_string()))?;
            match &mut tensors {
                None => tensors = Some(own),
                Some(all) => {
                    all.join(own).map_err(|name| damaged(format!("tensor `{name}` is in another file too")))?
                }
            }
            parts.push(bytes);
        }
        let none =
            || EncoderError::Damaged { file: folder.display().to_string(), cause: "it has no weights".to_owned() };
        Ok(Files { tensors: tensors.ok_or_else(none)?, parts })
    }
}

/// Whether a name is that of a file and not of a way out of the folder.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) && !name.contains(['/', '\\', '\0'])
}

/// The tensors below a prefix of their names.
pub(super) struct Weights<'a> {
    pub tensors: &'a TensorFile,
    pub prefix: String,
    pub compute: Compute,
}

/// Layers of one input, their outputs side by side.
pub(super) struct Layers<'a> {
    /// Each with its outputs.
    pub parts: &'a [(&'a str, usize)],
    pub input: usize,
    pub has_bias: bool,
}

impl Weights<'_> {
    pub(super) fn at(&self, name: &str) -> Weights<'_> {
        Weights { tensors: self.tensors, prefix: format!("{}{name}.", self.prefix), compute: self.compute }
    }

    /// A tensor as it lies there, not looked through.
    pub(super) fn unread(&self, name: &str, shape: &[usize]) -> Result<Stored, String> {
        self.tensors.get(&format!("{}{name}", self.prefix), shape)
    }

    fn stored(&self, name: &str, shape: &[usize]) -> Result<Stored, String> {
        let stored = self.unread(name, shape)?;
        match stored.is_finite() {
            true => Ok(stored),
            false => Err(format!("tensor `{}{name}` holds values that are not finite", self.prefix)),
        }
    }

    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        Ok(self.stored(name, shape)?.values())
    }

    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor, String> {
        Tensor::from_vec(self.values(name, shape)?, shape, &Device::Cpu).map_err(|error| error.to_string())
    }

    /// The one place where matrices become layers.
    pub(super) fn linear(&self, layers: &Layers) -> Result<Linear, String> {
        let mut bias = Vec::new();
        for (name, output) in layers.parts.iter().filter(|_| layers.has_bias) {
            bias.extend(self.values(&format!("{name}.bias"), &[*output])?);
        }
        let bias = layers.has_bias.then_some(bias);
        let is_quantised =
            |(name, _): &(&str, usize)| self.tensors.has(&format!("{}{name}.weight{TILES}", self.prefix));
        let linear = if layers.parts.iter().any(is_quantised) {
            if self.compute != Compute::Q8 {
                return Err("it holds 8-bit weights, which are for `q8` products".to_owned());
            }
            let part = |(name, output): &(&str, usize)| self.quantised(name, *output, layers.input);
            Linear::of_quantised(layers.parts.iter().map(part).collect::<Result<_, _>>()?, bias)
        } else {
            let part =
                |(name, output): &(&str, usize)| self.matrix(&format!("{name}.weight"), &[*output, layers.input]);
            Linear::new(&layers.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?, bias, self.compute)
        };
        let named = || layers.parts.iter().map(|it| it.0).collect::<Vec<_>>().join(", ");
        linear.map_err(|error| format!("`{}` ({}): {}", self.prefix, named(), one_line(&error.to_string())))
    }

    /// Quantising looks for values that are not finite as well.
    fn matrix(&self, name: &str, shape: &[usize]) -> Result<Stored, String> {
        match self.compute {
            Compute::F32 => self.stored(name, shape),
            Compute::Q8 => self.unread(name, shape),
        }
    }

    fn quantised(&self, name: &str, outputs: usize, inner: usize) -> Result<StoredQuantised, String> {
        let found = self.tensors.note(FORMAT_NOTE);
        if found != Some(FORMAT) {
            let found = found.unwrap_or("no");
            return Err(format!("its 8-bit weights have {found} format instead of {FORMAT}: quantise the model again"));
        }
        let name = format!("{}{name}.weight", self.prefix);
        let size = q8::packed_size(outputs, inner);
        let tiles = self.tensors.get_of(&format!("{name}{TILES}"), &[size], &[Dtype::U8])?;
        let scales = self.tensors.get_of(&format!("{name}{SCALES}"), &[outputs], &[Dtype::F32])?;
        let sums = self.tensors.get_of(&format!("{name}{SUMS}"), &[outputs], &[Dtype::I32])?;
        if !scales.is_finite() {
            return Err(format!("tensor `{name}{SCALES}` holds values that are not finite"));
        }
        let sums = sums.bytes().as_chunks().0.iter().map(|&it| i32::from_le_bytes(it)).collect();
        Ok(StoredQuantised { tiles, scales: scales.values(), sums, inner })
    }

    /// A convolution whose steps are as long as its kernel: a layer over what the kernel covers.
    pub(super) fn patches(&self, shape: &[usize]) -> Result<Linear, String> {
        let weight = self.stored("weight", shape)?;
        let (output, input) = (shape[0], shape[1..].iter().product());
        let weight = weight.reshaped(&[output, input]).ok_or("a kernel of another shape")?;
        let bias = self.values("bias", &[output])?;
        Linear::new(&[weight], Some(bias), self.compute).map_err(|error| one_line(&error.to_string()))
    }
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
