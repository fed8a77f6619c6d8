//! F2: which network the files of a folder are for, and how it is to be run.
//!
//! Knows nothing of what the networks do.

use std::path::Path;

use serde::Deserialize;

use super::qwen3_vl::{self, Qwen3Vl};
use super::{Encoder, EncoderError, bundled, registry};
use crate::device::Compute;
use crate::imaging;
use crate::types::Policy;

/// How a model is to be run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name that the files were published by, if it is known: a row of `models/registry.toml` gives the instructions for it.
    pub id: Option<String>,
    /// Models without a choice ignore it; [`super::ModelInfo::policy`] says what became of it.
    pub policy: Policy,
    /// Models without a choice ignore it; [`super::ModelInfo::compute`] says what became of it.
    pub compute: Compute,
    /// Values of a vector: the first so many, normalised again. `None` for all.
    pub dimensions: Option<usize>,
    /// Most tokens in a window of a candidate; `None` for the registry's.
    pub window: Option<usize>,
    /// Most tokens of an issue or of an input, those of the template and of the pictures included.
    pub max_tokens: usize,
    /// What the file of a picture may cost.
    pub images: imaging::Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            id: None,
            policy: Policy::Default,
            compute: Compute::F32,
            dimensions: None,
            window: None,
            max_tokens: 8192,
            images: imaging::Limits { max_bytes: 20 << 20, max_pixels: 50_000_000 },
        }
    }
}

/// The part of any `config.json` that says whose it is.
#[derive(Deserialize)]
struct Kind {
    model_type: String,
}

/// Loads the model of a folder: `config.json`, `tokenizer.json`, and `model.safetensors` or the parts that
/// `model.safetensors.index.json` lists (f32, f16 or bf16). Which network it is for stands in `config.json`.
///
/// # Errors
/// A file that is missing, damaged or of a model that Sightline can't run, by its path; an option that doesn't fit the model.
pub fn load(folder: &Path, options: &Options) -> Result<Box<dyn Encoder>, EncoderError> {
    let (model_type, file) = kind(folder)?;
    match model_type.as_str() {
        "bert" => Ok(Box::new(bundled::load_minilm(folder, options)?)),
        "qwen3_vl" => {
            let row = registry::find(&model_type, options.id.as_deref())?;
            let row = row.ok_or_else(|| unknown(file, &model_type))?;
            Ok(Box::new(Qwen3Vl::load(folder, row, options)?))
        }
        _ => Err(unknown(file, &model_type)),
    }
}

/// Writes `model.safetensors` with 8-bit weights of the model in `folder` into the folder `out`, for [`Compute::Q8`] to load at once.
/// `progress` hears of tensors.
///
/// # Errors
/// As for [`load`], and when it can't be written.
pub fn quantize(folder: &Path, out: &Path, progress: &super::Progress) -> Result<(), EncoderError> {
    match kind(folder)? {
        (model_type, _) if model_type == "qwen3_vl" => qwen3_vl::quantize(folder, out, progress),
        (model_type, file) => Err(EncoderError::Foreign {
            file,
            cause: format!("its `model_type` is `{model_type}`, and 8 bits are for `qwen3_vl`"),
            id: "Qwen/Qwen3-VL-Embedding-2B".to_owned(),
        }),
    }
}

/// Whose a folder's `config.json` is, and its path for messages.
fn kind(folder: &Path) -> Result<(String, String), EncoderError> {
    let (config, file) = bundled::read(folder, "config.json")?;
    match serde_json::from_slice::<Kind>(&config) {
        Ok(Kind { model_type }) => Ok((model_type, file)),
        Err(error) => Err(EncoderError::Damaged { file, cause: super::one_line(&error.to_string()) }),
    }
}

fn unknown(file: String, model_type: &str) -> EncoderError {
    EncoderError::Foreign {
        file,
        cause: format!("its `model_type` is `{model_type}`, and `bert` and `qwen3_vl` are known"),
        id: "Qwen/Qwen3-VL-Embedding-2B or all-MiniLM-L6-v2".to_owned(),
    }
}
