//! F2: the hub's cache on disk: `blobs/` by etag, `snapshots/<commit>/` with links to them, `refs/<revision>` with a commit.
//!
//! Knows nothing of the network.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use serde::Deserialize;

use super::name::is_plain;
use super::{HubError, HubModel, NEEDED, OPTIONAL, Pulled, PulledFile, SHARDS, WEIGHTS};
use crate::fsio;

/// The folder of one model.
pub(super) struct Repository {
    cache: CacheRepo,
    root: PathBuf,
    locks: PathBuf,
}

impl Repository {
    /// `None` if there is no place for a cache.
    pub fn of(cache: &Path, model: &HubModel) -> Option<Self> {
        let repo = Repo::with_revision(model.id.clone(), RepoType::Model, model.revision().to_owned());
        let (root, locks) = (cache.join(repo.folder_name()), cache.join(".locks").join(repo.folder_name()));
        let cache_repo = Cache::new(cache.to_owned()).repo(repo);
        (!cache.as_os_str().is_empty()).then_some(Repository { cache: cache_repo, root, locks })
    }

    /// The commit of a revision as far as the cache knows it.
    pub fn commit(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let commit = fs::read_to_string(self.root.join("refs").join(revision)).ok()?.trim().to_owned();
        is_plain(&commit).then_some(commit)
    }

    /// Notes the commit of a branch or tag.
    pub fn set_commit(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        if is_commit(revision) {
            return Ok(());
        }
        let path = self.root.join("refs").join(revision);
        let failed = |error| HubError::write(&path, error);
        fs::create_dir_all(path.parent().unwrap_or(&self.root)).map_err(failed)?;
        fsio::write_atomically(&path, |out| out.write_all(commit.as_bytes())).map_err(failed)
    }

    pub fn snapshot(&self, commit: &str) -> Snapshot {
        Snapshot { folder: self.cache.pointer_path(commit), commit: commit.to_owned() }
    }

    pub fn blob(&self, etag: &str) -> PathBuf {
        self.cache.blob_path(etag)
    }

    /// Becomes the only process that downloads a blob, Python's among them; waits for one that does.
    pub fn lock(&self, etag: &str) -> Result<File, HubError> {
        let path = self.locks.join(format!("{etag}.lock"));
        let lock = || -> io::Result<File> {
            fs::create_dir_all(&self.locks)?;
            fs::create_dir_all(self.root.join("blobs"))?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|error| HubError::write(&path, error))
    }
}

/// Whether a revision is a commit's full hash, and so never another one.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// A model's files at one commit.
pub(super) struct Snapshot {
    folder: PathBuf,
    commit: String,
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: HashMap<String, String>,
}

/// An index of a hundred thousand tensors has so many bytes.
const MOST_INDEX_BYTES: u64 = 32 << 20;

impl Snapshot {
    /// Whether a file is there, of so many bytes if that is known.
    pub fn has(&self, file: &str, bytes: Option<u64>) -> bool {
        self.folder.join(file).metadata().is_ok_and(|it| it.is_file() && bytes.is_none_or(|bytes| it.len() == bytes))
    }

    /// Gives a blob its name. A link that leads nowhere is replaced.
    pub fn link(&self, file: &str, blob: &Path) -> Result<(), HubError> {
        let path = self.folder.join(file);
        let place = || -> io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => link(blob, &path),
            }
        };
        place().map_err(|error| HubError::write(&path, error))
    }

    /// The names of the files that the weights are in, by the index of shards.
    pub fn shards(&self) -> Result<BTreeSet<String>, HubError> {
        let path = self.folder.join(SHARDS);
        let unusable = |cause: String| HubError::Unusable { path: path.clone(), cause };
        let length = path.metadata().map_err(|error| unusable(error.to_string()))?.len();
        if length > MOST_INDEX_BYTES {
            return Err(unusable(format!("{length} bytes are more than such a file has")));
        }
        let text = fs::read(&path).map_err(|error| unusable(error.to_string()))?;
        let index: ShardIndex = serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
        let names: BTreeSet<String> = index.weight_map.into_values().collect();
        match names.iter().find(|it| !is_plain(it) || !it.ends_with(".safetensors")) {
            Some(name) => Err(unusable(format!("it names the file {name:?}, which can be none of a model"))),
            None if names.is_empty() => Err(unusable("it names no files".to_owned())),
            None => Ok(names),
        }
    }

    /// What there is, if nothing that is needed is missing.
    pub fn complete(&self) -> Option<Pulled> {
        let weights = match self.has(WEIGHTS, None) {
            true => BTreeSet::from([WEIGHTS.to_owned()]),
            false => self.shards().ok()?,
        };
        let needed = NEEDED.iter().map(|it| (*it).to_owned()).chain(weights);
        let mut files = needed.map(|it| self.file(it)).collect::<Option<Vec<_>>>()?;
        let others = OPTIONAL.iter().chain([&SHARDS]).map(|it| (*it).to_owned());
        files.extend(others.filter_map(|it| self.file(it)));
        Some(Pulled { folder: self.folder.clone(), commit: self.commit.clone(), files, downloaded: 0 })
    }

    fn file(&self, name: String) -> Option<PulledFile> {
        let metadata = self.folder.join(&name).metadata().ok().filter(fs::Metadata::is_file)?;
        Some(PulledFile { name, bytes: metadata.len() })
    }
}

/// A relative link, so that the cache can be moved.
#[cfg(unix)]
fn link(blob: &Path, path: &Path) -> io::Result<()> {
    let name = blob.file_name().unwrap_or_default();
    std::os::unix::fs::symlink(Path::new("../../blobs").join(name), path)
}

/// Elsewhere links take a privilege.
#[cfg(not(unix))]
fn link(blob: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(blob, path).or_else(|_| fs::copy(blob, path).map(drop))
}
