//! F2: where the files of a model come from: this binary, or a folder. And the registry of the models that are known.
//!
//! Knows nothing of what the files mean; [`MiniLm`] reads them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{EncoderError, MiniLm};
use crate::device::tensors::Bytes;

pub(super) const REGISTRY: &str = include_str!("../../models/registry.toml");

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
pub(super) struct Files {
    /// Where they are, for messages.
    pub origin: String,
    pub config: Bytes,
    pub tokenizer: Bytes,
    pub weights: Bytes,
    /// Lines of `sha256sum` for them. Files that have it are known to be sound: they are part of this program, and were checked with it.
    pub sums: Option<&'static str>,
}

impl Files {
    /// The SHA-256 of each, as hex.
    pub(super) fn digests(&self) -> [String; 3] {
        [("config.json", &self.config), ("tokenizer.json", &self.tokenizer), ("model.safetensors", &self.weights)]
            .map(|(name, bytes)| self.known(name).map_or_else(|| sha256(bytes), str::to_owned))
    }

    fn known(&self, name: &str) -> Option<&'static str> {
        self.sums?.lines().filter_map(|line| line.split_once("  ")).find(|it| it.1 == name).map(|it| it.0)
    }
}

/// SHA-256 as hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
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

fn read(folder: &Path) -> Result<Files, EncoderError> {
    let read = |name: &str| {
        let path = folder.join(name);
        let unreadable = |cause| EncoderError::Unreadable { file: path.display().to_string(), cause };
        std::fs::read(&path).map(|bytes| Arc::new(Cow::Owned(bytes))).map_err(unreadable)
    };
    Ok(Files {
        origin: folder.display().to_string(),
        config: read("config.json")?,
        tokenizer: read("tokenizer.json")?,
        weights: read("model.safetensors")?,
        sums: None,
    })
}

#[cfg(feature = "bundled-models")]
fn bundled_files() -> Option<Files> {
    let bytes = |bytes: &'static [u8]| Arc::new(Cow::Borrowed(bytes));
    Some(Files {
        origin: "bundled".to_owned(),
        config: bytes(include_bytes!("../../models/all-MiniLM-L6-v2/config.json")),
        tokenizer: bytes(include_bytes!("../../models/all-MiniLM-L6-v2/tokenizer.json")),
        weights: bytes(include_bytes!("../../models/all-MiniLM-L6-v2/model.safetensors")),
        sums: Some(include_str!("../../models/all-MiniLM-L6-v2/SHA256SUMS")),
    })
}

#[cfg(not(feature = "bundled-models"))]
fn bundled_files() -> Option<Files> {
    None
}

/// The name of the model that is compiled into this binary.
pub(super) fn bundled_id() -> String {
    default_checkpoint().map(|it| it.id).unwrap_or_default()
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
