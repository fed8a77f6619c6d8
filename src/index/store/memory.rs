//! F1: vectors kept in memory, for tests and for programs that must leave nothing behind. Knows nothing of files.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use half::f16;

use super::{EmbeddingStore, Key, ModelKey, StoreError, check_dimensions};

/// A store that is gone with the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    /// By fingerprint, then by key.
    models: Mutex<HashMap<String, HashMap<Key, Vec<f16>>>>,
}

impl MemoryStore {
    /// How many vectors it holds, of all models.
    pub fn len(&self) -> usize {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).values().map(HashMap::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl EmbeddingStore for MemoryStore {
    fn get(&self, model: &ModelKey, keys: &[Key]) -> Result<Vec<Option<Vec<f16>>>, StoreError> {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let vectors = models.get(&model.fingerprint);
        let vector = |key| vectors.and_then(|it| it.get(key)).filter(|it| it.len() == model.dimensions).cloned();
        Ok(keys.iter().map(vector).collect())
    }

    fn put(&self, model: &ModelKey, items: &[(Key, &[f16])]) -> Result<(), StoreError> {
        check_dimensions(model, items)?;
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let vectors = models.entry(model.fingerprint.clone()).or_default();
        for (key, vector) in items {
            let kept = vectors.entry(*key).or_default();
            if kept.len() != model.dimensions {
                *kept = vector.to_vec();
            }
        }
        Ok(())
    }
}
