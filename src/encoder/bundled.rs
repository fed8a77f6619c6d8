//! F2: where the files of a sentence encoder come from: this binary, or a folder.
//!
//! Knows nothing of what the files mean; [`MiniLm`] reads them.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::registry::{Checkpoint, default_checkpoint};
use super::{EncoderError, MiniLm, Options};
use crate::device::tensors::{Bytes, open};

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

/// The same, run as the options say.
///
/// # Errors
/// Also [`EncoderError::Unfit`].
pub fn bundled_with(options: &Options) -> Result<MiniLm, EncoderError> {
    MiniLm::new(fitted(options)?, bundled_files().ok_or(EncoderError::NotBundled)?)
}

/// Loads the default model from a folder with its `config.json`, `tokenizer.json` and `model.safetensors` (f32, f16 or bf16).
pub(super) fn load_minilm(folder: &Path, options: &Options) -> Result<MiniLm, EncoderError> {
    let checkpoint = fitted(options)?;
    let read = |name: &str| read(folder, name).map(|it| it.0);
    let files = Files {
        origin: folder.display().to_string(),
        config: read("config.json")?,
        tokenizer: read("tokenizer.json")?,
        weights: read_up_to(&folder.join("model.safetensors"), MOST_WEIGHTS)?.into(),
        sums: None,
    };
    MiniLm::new(checkpoint, files)
}

/// The row of the default model under these options.
fn fitted(options: &Options) -> Result<Checkpoint, EncoderError> {
    let mut checkpoint = default_checkpoint()?;
    let unfit = |option: &'static str, asked: usize, cause: String| {
        let id = checkpoint.id.clone();
        Err(EncoderError::Unfit { option, asked, cause, id })
    };
    if let Some(asked) = options.dimensions.filter(|&it| it != checkpoint.dimensions) {
        return unfit(
            "dimensions",
            asked,
            format!("its vectors have {}, and can't be shortened", checkpoint.dimensions),
        );
    }
    let windows = 16..=checkpoint.window;
    if let Some(asked) = options.window.filter(|it| !windows.contains(it)) {
        return unfit("window", asked, format!("it reads from {} to {} tokens", windows.start(), windows.end()));
    }
    checkpoint.window = options.window.unwrap_or(checkpoint.window);
    Ok(checkpoint)
}

/// Bytes of a configuration, a tokenizer or a list of files. The largest that are published have a sixth of it.
pub(super) const MOST_JSON: u64 = 64 << 20;
/// Bytes of the weights of a model that is read whole: ten times what it has.
const MOST_WEIGHTS: u64 = 1 << 30;

/// A file of a folder that is no weights, and its path for messages.
pub(super) fn read(folder: &Path, name: &str) -> Result<(Bytes, String), EncoderError> {
    let path = folder.join(name);
    Ok((read_up_to(&path, MOST_JSON)?.into(), path.display().to_string()))
}

/// A file of at most so many bytes; a longer one is not read into memory.
pub(super) fn read_up_to(path: &Path, most: u64) -> Result<Vec<u8>, EncoderError> {
    let file = || path.display().to_string();
    let mut bytes = Vec::new();
    let read = open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    match read {
        Err(cause) => Err(EncoderError::Unreadable { file: file(), cause }),
        Ok(_) if bytes.len() as u64 > most => Err(EncoderError::Damaged {
            file: file(),
            cause: format!("it has more than the {most} bytes that such a file can have"),
        }),
        Ok(_) => Ok(bytes),
    }
}

#[cfg(feature = "bundled-models")]
fn bundled_files() -> Option<Files> {
    Some(Files {
        origin: "bundled".to_owned(),
        config: include_bytes!("../../models/all-MiniLM-L6-v2/config.json")[..].into(),
        tokenizer: include_bytes!("../../models/all-MiniLM-L6-v2/tokenizer.json")[..].into(),
        weights: include_bytes!("../../models/all-MiniLM-L6-v2/model.safetensors")[..].into(),
        sums: Some(include_str!("../../models/all-MiniLM-L6-v2/SHA256SUMS")),
    })
}

#[cfg(not(feature = "bundled-models"))]
fn bundled_files() -> Option<Files> {
    None
}

#[cfg(test)]
#[path = "bundled_tests.rs"]
mod tests;
