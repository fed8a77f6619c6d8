//! F2: where the files of a model come from: this binary, or a folder. And the registry of the models that are known.
//!
//! Knows nothing of what the files mean; [`MiniLm`] reads them.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;

use super::{EncoderError, MiniLm};

const REGISTRY: &str = include_str!("../../models/registry.toml");

/// A row of `models/registry.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub id: String,
    pub dimensions: usize,
    /// Most tokens in a window.
    pub window: usize,
    pub pooling: Pooling,
    pub query_instruction: String,
    pub candidate_instruction: String,
}

/// How the vectors of tokens become one.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pooling {
    Mean,
}

#[derive(Deserialize)]
struct Registry {
    model: Vec<Checkpoint>,
}

/// The files of a model, as bytes.
#[derive(Clone)]
pub(super) struct Files<'a> {
    /// Where they are, for messages.
    pub origin: String,
    pub config: Cow<'a, [u8]>,
    pub tokenizer: Cow<'a, [u8]>,
    pub weights: Cow<'a, [u8]>,
}

/// Loads the model that is compiled into this binary.
///
/// # Errors
/// [`EncoderError::NotBundled`] in a build without the feature `bundled-models`.
pub fn bundled() -> Result<MiniLm, EncoderError> {
    MiniLm::new(default_checkpoint()?, bundled_files().ok_or(EncoderError::NotBundled)?)
}

/// Loads the default model from a folder with its `config.json`, `tokenizer.json` and `model.safetensors` (f32, f16 or bf16).
///
/// # Errors
/// A file that is missing, damaged or of another model, by its path.
pub fn load(folder: &Path) -> Result<MiniLm, EncoderError> {
    MiniLm::new(default_checkpoint()?, read(folder)?)
}

fn read(folder: &Path) -> Result<Files<'static>, EncoderError> {
    let read = |name: &str| {
        let path = folder.join(name);
        let unreadable = |cause| EncoderError::Unreadable { file: path.display().to_string(), cause };
        std::fs::read(&path).map(Cow::Owned).map_err(unreadable)
    };
    Ok(Files {
        origin: folder.display().to_string(),
        config: read("config.json")?,
        tokenizer: read("tokenizer.json")?,
        weights: read("model.safetensors")?,
    })
}

#[cfg(feature = "bundled-models")]
fn bundled_files() -> Option<Files<'static>> {
    Some(Files {
        origin: "bundled".to_owned(),
        config: Cow::Borrowed(include_bytes!("../../models/all-MiniLM-L6-v2/config.json")),
        tokenizer: Cow::Borrowed(include_bytes!("../../models/all-MiniLM-L6-v2/tokenizer.json")),
        weights: Cow::Borrowed(include_bytes!("../../models/all-MiniLM-L6-v2/model.safetensors")),
    })
}

#[cfg(not(feature = "bundled-models"))]
fn bundled_files() -> Option<Files<'static>> {
    None
}

/// The first row of the registry.
fn default_checkpoint() -> Result<Checkpoint, EncoderError> {
    let damaged = |cause: &str| EncoderError::Damaged {
        file: "registry.toml".to_owned(),
        cause: cause.lines().collect::<Vec<_>>().join(" "),
    };
    let registry: Registry = toml::from_str(REGISTRY).map_err(|error| damaged(error.message()))?;
    registry.model.into_iter().next().ok_or_else(|| damaged("it lists no model"))
}

#[cfg(test)]
#[path = "bundled_tests.rs"]
mod tests;
