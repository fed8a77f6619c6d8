//! F2: tensors by their published names, from one file or from the parts that an index lists.
//!
//! Knows nothing of what the networks do with them. A tensor is looked through for values that are not finite when it is first asked
//! for, so that nothing is read twice and that rows of the vocabulary that no text has are never read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use candle_core::{Device, Tensor};
use serde::Deserialize;

use crate::device::tensors::{Bytes, Stored, TensorFile};
use crate::device::{Compute, Linear};
use crate::encoder::{EncoderError, one_line};

/// Parts of a model that are opened, at most.
const MOST_PARTS: usize = 1024;

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
        let (mut weights, mut bias) = (Vec::new(), Vec::new());
        for (name, output) in layers.parts {
            let at = self.at(name);
            weights.push(at.stored("weight", &[*output, layers.input])?);
            if layers.has_bias {
                bias.extend(at.values("bias", &[*output])?);
            }
        }
        self.layer(&weights, layers.has_bias.then_some(bias))
    }

    /// A convolution whose steps are as long as its kernel: a layer over what the kernel covers.
    pub(super) fn patches(&self, shape: &[usize]) -> Result<Linear, String> {
        let weight = self.stored("weight", shape)?;
        let (output, input) = (shape[0], shape[1..].iter().product());
        let weight = weight.reshaped(&[output, input]).ok_or("a kernel of another shape")?;
        self.layer(&[weight], Some(self.values("bias", &[output])?))
    }

    fn layer(&self, weights: &[Stored], bias: Option<Vec<f32>>) -> Result<Linear, String> {
        Linear::new(weights, bias, self.compute).map_err(|error| one_line(&error.to_string()))
    }
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
