//! The data directory as commands use it: the store of vectors, and the directory of a repository.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::{Failure, terminal};
use crate::index::directory::{DataDirectory, IndexError, Lock, RepositoryDirectory};
use crate::index::store::{EmbeddingStore, MemoryStore, Replaced, Store};

/// The data directory in force.
///
/// # Errors
/// When the system says of no place for data and the user neither.
pub fn data_directory(path: &Path) -> Result<DataDirectory, Failure> {
    if path.as_os_str().is_empty() {
        return Err(anyhow!(
            "there is no place for data, as neither HOME nor XDG_DATA_HOME is set: name one with --data-dir"
        )
        .into());
    }
    Ok(DataDirectory::new(path))
}

/// Opens the store, and says so if a damaged one had to be replaced.
///
/// # Errors
/// When it can't be opened.
pub fn store(data: &DataDirectory) -> Result<Store, Failure> {
    let store = Store::open_or_replace(&data.store())?;
    for Replaced { path, what, .. } in store.replaced() {
        let path = path.display();
        terminal::warning(&format!(
            "the store of vectors was damaged ({what}), so a new one was begun; it is kept as `{path}`"
        ));
    }
    Ok(store)
}

/// The store for a command that does without: vectors are then forgotten when it ends.
pub fn store_if_possible(path: &Path) -> Box<dyn EmbeddingStore> {
    if path.as_os_str().is_empty() {
        return Box::new(MemoryStore::default());
    }
    match store(&DataDirectory::new(path)) {
        Ok(store) => Box::new(store),
        Err(failure) => {
            terminal::warning(&format!("vectors are not kept: {}", super::message(&failure.error)));
            Box::new(MemoryStore::default())
        }
    }
}

/// A path without links, as repositories are known by; the snapshot says what is wrong with one that is none.
pub fn resolved(repository: &Path) -> PathBuf {
    // One that is gone may still be known.
    let absolute = || std::path::absolute(repository).unwrap_or_else(|_| repository.to_owned());
    repository.canonicalize().unwrap_or_else(|_| absolute())
}

/// Becomes the one writer of a repository's directory; says so when it has to wait.
///
/// # Errors
/// When the directory can't be written.
pub fn lock(directory: &RepositoryDirectory, stop: &dyn Fn() -> bool) -> Result<Lock, Failure> {
    let start = Instant::now();
    loop {
        match directory.lock() {
            Err(IndexError::Busy { .. }) if stop() => {
                let error = anyhow!("stopped while waiting for another process that indexes {}", directory.id);
                return Err(Failure { code: super::index::INTERRUPTED, error });
            }
            Err(IndexError::Busy { .. }) => {
                if start.elapsed() < LOOK_AGAIN {
                    terminal::remark(&format!("waiting for another process that indexes {}", directory.id));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            other => return Ok(other?),
        }
    }
}

/// How often a lock is tried.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
