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
use crate::encoder::bundled::{MOST_JSON, read_up_to, sha256};
use crate::encoder::{EncoderError, one_line};

/// Parts of a model that are opened, at most.
const MOST_PARTS: usize = 1024;

/// What a file of 8-bit weights has in place of `name.weight`: tiles (U8), a scale for each output (F32), the sum of each output's
/// steps (I32).
pub(super) const TILES: &str = ".q8";
pub(super) const SCALES: &str = ".scales";
pub(super) const SUMS: &str = ".sums";
/// The form of the tiles, and the key under which a file names it.
pub(super) const FORMAT: &str = "2";
pub(super) const FORMAT_NOTE: &str = "sightline-q8";
/// The key of [`checksum`].
pub(super) const CHECKSUM_NOTE: &str = "sightline-q8-sha256";

/// Why a network can't be made of some tensors. The cause is one line, and names the tensor if it is about one.
#[derive(Debug)]
pub(super) enum Objection {
    /// Of another network than the configuration's.
    Foreign {
        tensor: Option<String>,
        cause: String,
    },
    Damaged {
        tensor: Option<String>,
        cause: String,
    },
    /// 8-bit weights that are sound, but not for this.
    Quantised {
        cause: String,
        remedy: &'static str,
    },
}

impl From<String> for Objection {
    fn from(cause: String) -> Self {
        Objection::Foreign { tensor: None, cause }
    }
}

impl Objection {
    fn tensor(&self) -> Option<&str> {
        match self {
            Objection::Foreign { tensor, .. } | Objection::Damaged { tensor, .. } => tensor.as_deref(),
            Objection::Quantised { .. } => None,
        }
    }

    /// As the error of a file.
    pub(super) fn about(self, file: String) -> EncoderError {
        match self {
            Objection::Foreign { cause, .. } => super::foreign(file, cause),
            Objection::Damaged { cause, .. } => EncoderError::Damaged { file, cause },
            Objection::Quantised { cause, remedy } => EncoderError::Quantised { file, cause, remedy },
        }
    }
}

/// Whether there are 8-bit weights among the tensors.
pub(super) fn is_quantised(tensors: &TensorFile) -> bool {
    tensors.names().any(|name| name.ends_with(TILES))
}

/// Looks whether 8-bit weights, if there are any, are of use for such products, and whether what stands beside their tiles is as it was
/// written. The tiles would have to be read whole for that; a wrong step in one is a small error, a wrong scale is not.
pub(super) fn check_quantised(tensors: &TensorFile, compute: Compute) -> Result<(), Objection> {
    if !is_quantised(tensors) {
        return Ok(());
    }
    let unusable = |cause: String, remedy| Err(Objection::Quantised { cause, remedy });
    let found = tensors.note(FORMAT_NOTE).unwrap_or("none");
    if found != FORMAT {
        return unusable(format!("their format is {found} instead of {FORMAT}"), "quantise the model again");
    }
    if compute != Compute::Q8 {
        let remedy = "use `--dtype q8`, or name the folder that they were made from";
        return unusable(format!("`{}` products need the whole values", compute.name()), remedy);
    }
    let is_beside = |name: &str| {
        let matrix = name.strip_suffix(SCALES).or(name.strip_suffix(SUMS));
        matrix.is_some_and(|it| tensors.has(&format!("{it}{TILES}")))
    };
    let beside = tensors.all().into_iter().filter(|it| is_beside(it.0)).map(|(name, stored)| (name, stored.bytes()));
    if tensors.note(CHECKSUM_NOTE) == Some(&checksum(beside.collect())) {
        return Ok(());
    }
    let cause = "the scales and sums of its 8-bit weights are not those that were written".to_owned();
    Err(Objection::Damaged { tensor: None, cause })
}

/// SHA-256 over scales and sums with their names, in any order.
pub(super) fn checksum(mut beside: Vec<(&str, &[u8])>) -> String {
    beside.sort_unstable();
    let lines: Vec<String> = beside.into_iter().map(|(name, bytes)| format!("{} {name}", sha256(bytes))).collect();
    sha256(lines.join("\n").as_bytes())
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that the weights stand in, mapped.
pub(super) struct Files {
    pub tensors: TensorFile,
    /// In the order of their names.
    pub parts: Vec<Part>,
    /// What lists them, or the only one.
    listing: String,
}

/// A file of weights.
pub(super) struct Part {
    /// For messages.
    file: String,
    pub bytes: Bytes,
}

impl Files {
    /// Opens `model.safetensors`, or else the parts that the index lists.
    ///
    /// # Errors
    /// A file that is missing, is not all there, or lies outside of the folder; a tensor that is in two of them, or
    /// that the index lists and is in none.
    pub(super) fn open(folder: &Path) -> Result<Self, EncoderError> {
        let index = folder.join("model.safetensors.index.json");
        if folder.join("model.safetensors").exists() || !index.exists() {
            let whole = folder.join("model.safetensors").display().to_string();
            return Self::of_parts(folder, &[String::from("model.safetensors")], whole);
        }
        let file = index.display().to_string();
        let damaged = |cause: String| EncoderError::Damaged { file: file.clone(), cause: one_line(&cause) };
        let Index { weight_map } =
            serde_json::from_slice(&read_up_to(&index, MOST_JSON)?).map_err(|error| damaged(error.to_string()))?;
        let names: BTreeSet<String> = weight_map.values().cloned().collect();
        if names.is_empty() || names.len() > MOST_PARTS {
            return Err(damaged(format!("it lists {} files", names.len())));
        }
        if let Some(name) = names.iter().find(|name| !is_file_name(name)) {
            return Err(damaged(format!("it lists `{name}`, which is no file of this folder")));
        }
        let files = Self::of_parts(folder, &names.into_iter().collect::<Vec<_>>(), file.clone())?;
        match weight_map.keys().find(|name| !files.tensors.has(name)) {
            Some(name) => Err(damaged(format!("tensor `{name}` is in none of the files that it lists"))),
            None => Ok(files),
        }
    }

    fn of_parts(folder: &Path, names: &[String], listing: String) -> Result<Self, EncoderError> {
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
            parts.push(Part { file: file.clone(), bytes });
        }
        let none =
            || EncoderError::Damaged { file: folder.display().to_string(), cause: "it has no weights".to_owned() };
        Ok(Files { tensors: tensors.ok_or_else(none)?, parts, listing })
    }

    /// An objection as the error of the file that it is about: the one with the tensor.
    pub(super) fn refused(&self, objection: Objection) -> EncoderError {
        let has = |part: &&Part, name: &str| TensorFile::open(&part.bytes).is_ok_and(|it| it.has(name));
        let part = objection.tensor().and_then(|name| self.parts.iter().find(|part| has(part, name)));
        let file = part.map_or(&self.listing, |it| &it.file).clone();
        objection.about(file)
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
    pub(super) fn unread(&self, name: &str, shape: &[usize]) -> Result<Stored, Objection> {
        let name = format!("{}{name}", self.prefix);
        self.tensors.get(&name, shape).map_err(|cause| Objection::Foreign { tensor: Some(name), cause })
    }

    fn stored(&self, name: &str, shape: &[usize]) -> Result<Stored, Objection> {
        let stored = self.unread(name, shape)?;
        if stored.is_finite() {
            return Ok(stored);
        }
        let name = format!("{}{name}", self.prefix);
        let cause = format!("tensor `{name}` holds values that are not finite");
        Err(Objection::Damaged { tensor: Some(name), cause })
    }

    pub(super) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Objection> {
        Ok(self.stored(name, shape)?.values())
    }

    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor, Objection> {
        let made = Tensor::from_vec(self.values(name, shape)?, shape, &Device::Cpu);
        made.map_err(|error| one_line(&error.to_string()).into())
    }

    /// The one place where matrices become layers.
    pub(super) fn linear(&self, layers: &Layers) -> Result<Linear, Objection> {
        let mut bias = Vec::new();
        for (name, output) in layers.parts.iter().filter(|_| layers.has_bias) {
            bias.extend(self.values(&format!("{name}.bias"), &[*output])?);
        }
        let bias = layers.has_bias.then_some(bias);
        let is_quantised =
            |(name, _): &(&str, usize)| self.tensors.has(&format!("{}{name}.weight{TILES}", self.prefix));
        let linear = if layers.parts.iter().any(is_quantised) {
            let part = |(name, output): &(&str, usize)| self.quantised(name, *output, layers.input);
            Linear::of_quantised(layers.parts.iter().map(part).collect::<Result<_, Objection>>()?, bias)
        } else {
            let part =
                |(name, output): &(&str, usize)| self.matrix(&format!("{name}.weight"), &[*output, layers.input]);
            Linear::new(&layers.parts.iter().map(part).collect::<Result<Vec<_>, Objection>>()?, bias, self.compute)
        };
        linear.map_err(|error| self.refused(layers, &error))
    }

    /// Why matrices don't become layers: one that is damaged, or else what is said of all.
    fn refused(&self, layers: &Layers, error: &candle_core::Error) -> Objection {
        let looked_through = |(name, output): &(&str, usize)| {
            let objection = self.stored(&format!("{name}.weight"), &[*output, layers.input]).err()?;
            matches!(objection, Objection::Damaged { .. }).then_some(objection)
        };
        let names = || layers.parts.iter().map(|it| it.0).collect::<Vec<_>>().join(", ");
        let of_all = || format!("`{}` ({}): {}", self.prefix, names(), one_line(&error.to_string())).into();
        layers.parts.iter().find_map(looked_through).unwrap_or_else(of_all)
    }

    /// Quantising looks for values that are not finite as well.
    fn matrix(&self, name: &str, shape: &[usize]) -> Result<Stored, Objection> {
        match self.compute {
            Compute::F32 => self.stored(name, shape),
            Compute::Q8 => self.unread(name, shape),
        }
    }

    fn quantised(&self, name: &str, outputs: usize, inner: usize) -> Result<StoredQuantised, Objection> {
        let part = |end: &str, size: usize, kind: Dtype| {
            let name = format!("{}{name}.weight{end}", self.prefix);
            let found = self.tensors.get_of(&name, &[size], &[kind]);
            found.map_err(|cause| Objection::Foreign { tensor: Some(name), cause })
        };
        let tiles = part(TILES, q8::packed_size(outputs, inner), Dtype::U8)?;
        let sums = part(SUMS, outputs, Dtype::I32)?;
        part(SCALES, outputs, Dtype::F32)?;
        let scales = self.stored(&format!("{name}.weight{SCALES}"), &[outputs])?;
        let sums = sums.bytes().as_chunks().0.iter().map(|&it| i32::from_le_bytes(it)).collect();
        Ok(StoredQuantised { tiles, scales: scales.values(), sums, inner })
    }

    /// A convolution whose steps are as long as its kernel: a layer over what the kernel covers.
    pub(super) fn patches(&self, shape: &[usize]) -> Result<Linear, Objection> {
        let weight = self.stored("weight", shape)?;
        let (output, input) = (shape[0], shape[1..].iter().product());
        let weight = weight.reshaped(&[output, input]).ok_or_else(|| "a kernel of another shape".to_owned())?;
        let bias = self.values("bias", &[output])?;
        Linear::new(&[weight], Some(bias), self.compute).map_err(|error| one_line(&error.to_string()).into())
    }
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
