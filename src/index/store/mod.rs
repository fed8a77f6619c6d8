//! F1: vectors by (model, content), kept for all repositories so that nothing is embedded twice. Knows nothing of repositories,
//! candidates or how a model embeds.
//!
//! The vectors are a cache: a store that is damaged as a whole is set aside and a new one begun, and a vector that is not what
//! was written counts as missing. What `put` has acknowledged survives a crash.

mod file;
mod memory;
mod prune;
mod rows;
mod sqlite;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use half::f16;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use file::Replaced;
pub use memory::MemoryStore;
pub use prune::{ModelStats, Removed, StoreStats};
pub use sqlite::Store;

/// What was embedded: the SHA-256 of what the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a text by the tokens that the model is given, as little-endian bytes. Texts that come to the same tokens have
    /// one vector, so they have one key.
    pub fn of_tokens(tokens: &[u32]) -> Self {
        let mut hash = Sha256::new();
        tokens.iter().for_each(|it| hash.update(it.to_le_bytes()));
        Key(hash.finalize().into())
    }

    /// A key that was stored elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Key(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Whose vectors they are. Vectors of different fingerprints never meet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelKey {
    /// Covers whatever changes a vector: weights, tokenizer, prompt, pooling, window, preprocessing.
    pub fingerprint: String,
    /// The model's name, for reports.
    pub id: String,
    /// Numbers in a vector.
    pub dimensions: usize,
}

/// The name is none of what they are: a folder that was renamed holds the same model.
impl PartialEq for ModelKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.fingerprint, self.dimensions) == (&other.fingerprint, other.dimensions)
    }
}

impl Eq for ModelKey {}

/// Keeps vectors. Shared by threads; an implementation that lies on disk is shared by processes as well.
pub trait EmbeddingStore: Send + Sync {
    /// Vectors in the order of the keys, `None` where the store has none. What was found counts as used now.
    ///
    /// # Errors
    /// When the store can't be read.
    fn get(&self, model: &ModelKey, keys: &[Key]) -> Result<Vec<Option<Vec<f16>>>, StoreError>;

    /// Keeps vectors; they are durable when it returns. A key that has a vector keeps it.
    ///
    /// # Errors
    /// When the store can't be written, or a vector has not the model's dimensions: nothing is kept then.
    fn put(&self, model: &ModelKey, items: &[(Key, &[f16])]) -> Result<(), StoreError>;
}

/// Why vectors can't be kept or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the embedding store `{}` can't be read: {message}; see to the file's permissions or name another data directory", path.display())]
    Unreadable { path: PathBuf, message: String },
    #[error("the disk failed under the embedding store `{}`: {message}; see to the disk and try again", path.display())]
    Failed { path: PathBuf, message: String },
    #[error("the embedding store `{}` has been held by another process for {seconds} s; wait for it to end and try again", path.display())]
    Busy { path: PathBuf, seconds: u64 },
    #[error("there is no room on the disk for the embedding store `{}`; free some, or remove indexes with `sightline cache forget`", path.display())]
    Full { path: PathBuf },
    #[error("the embedding store `{}` can only be read: {reason}; make it writable or name another data directory", path.display())]
    ReadOnly { path: PathBuf, reason: String },
    #[error("the embedding store `{}` is damaged: {what}; remove it while no program uses it, the vectors will be computed again", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("the embedding store `{}` has format {found} and this program knows format {expected}; use the program that wrote it or name another data directory", path.display())]
    OtherFormat { path: PathBuf, found: i64, expected: i64 },
    #[error("a vector of {found} numbers was given for the model {model} of {expected} dimensions; nothing was stored")]
    Dimensions { model: String, expected: usize, found: usize },
}

/// All vectors are as long as the model says.
fn check_dimensions(model: &ModelKey, items: &[(Key, &[f16])]) -> Result<(), StoreError> {
    match items.iter().find(|it| it.1.len() != model.dimensions) {
        None => Ok(()),
        Some((_, vector)) => {
            Err(StoreError::Dimensions { model: model.id.clone(), expected: model.dimensions, found: vector.len() })
        }
    }
}
