//! F2: the files of a model by its name on the Hugging Face hub: from the cache that is shared with Python's huggingface_hub, or
//! downloaded into it.
//!
//! The layout is the hub's own (`hf-hub` names its folders); the transfer is not `hf-hub`'s, which ends the process on some answers
//! of a server, waits for ever on others, and writes to wherever a server's etag points. Proxies are those of the usual variables,
//! which the HTTP library reads. Knows nothing of what the files mean.

mod cache;
mod name;
mod transfer;

use std::io;
use std::path::PathBuf;

pub use name::{HubModel, ModelName};

use cache::Snapshot;
use transfer::{Described, Transfer};

/// Where the hub is and where its files are kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HubOptions {
    /// The folder `hub` of the cache; empty for a system that names no place for it.
    pub cache: PathBuf,
    /// Without a slash at its end.
    pub endpoint: String,
    pub token: Option<String>,
    /// Read if there is no token.
    pub token_file: PathBuf,
    /// The network is not to be used.
    pub is_offline: bool,
}

impl std::fmt::Debug for HubOptions {
    /// Without the token.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let HubOptions { cache, endpoint, is_offline, .. } = self;
        out.debug_struct("HubOptions")
            .field("cache", cache)
            .field("endpoint", endpoint)
            .field("is_offline", is_offline)
            .finish_non_exhaustive()
    }
}

/// A model that is in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// Holds its files under their names.
    pub folder: PathBuf,
    /// The full hash of the commit that they are of.
    pub commit: String,
    pub files: Vec<PulledFile>,
    /// Of them that came over the network now.
    pub downloaded: u64,
}

impl Pulled {
    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|it| it.bytes).sum()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledFile {
    pub name: String,
    pub bytes: u64,
}

/// Hears of a file how many of its bytes are here, and of how many.
pub type Progress<'a> = dyn Fn(&str, u64, u64) + 'a;

/// Why a model of the hub can't be had.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(
        "`{name}` is no model: name a folder with its files, a model of the hub as owner/name or owner/name@revision, or {bundled}"
    )]
    Name { name: String, bundled: String },
    #[error(
        "there is no place for the files of {model}, as neither HF_HOME nor HOME is set: set one, or name a folder"
    )]
    NoCache { model: String },
    #[error(
        "{model} is not in the cache `{}`, and HF_HUB_OFFLINE forbids asking the hub: run `sightline pull {model}` while you are online, or name a folder",
        cache.display()
    )]
    Offline { model: String, cache: PathBuf },
    #[error("{endpoint} has no model {model}: check the name; a private one is seen only with HF_TOKEN set")]
    NoModel { model: String, endpoint: String },
    #[error("{model} has no revision `{revision}`: name a branch, a tag or a commit's full hash")]
    NoRevision { model: String, revision: String },
    #[error("{model} has no file {file}, without which Sightline can't run a model: use another one")]
    NoFile { model: String, file: String },
    #[error(
        "{endpoint} refuses {model} ({status}): ask for access on its page, and set HF_TOKEN to a token that may read it"
    )]
    NoAccess { model: String, endpoint: String, status: u16 },
    #[error("`{url}` can't be reached: {cause}; check the connection and HF_ENDPOINT, and run it again")]
    Unreachable { url: String, cause: String },
    #[error("`{url}` answers {status}, which is no fault of yours: wait a little and run it again")]
    Refused { url: String, status: u16 },
    #[error("`{url}` answers what no hub answers: {what}; check HF_ENDPOINT")]
    Strange { url: String, what: String },
    #[error("the connection broke off after {done} bytes of {file}: {cause}; run it again to go on from there")]
    BrokenOff { file: String, done: u64, cause: String },
    #[error("what was sent of {file} is damaged: {what}; it was removed, run it again")]
    Damaged { file: String, what: String },
    #[error("the file `{}` can't be used: {cause}; remove it and run `sightline pull` again", path.display())]
    Unusable { path: PathBuf, cause: String },
    #[error("there is no room on the disk for `{}`: free some, or set HF_HOME to another place", path.display())]
    Full { path: PathBuf },
    #[error("`{}` can't be written: {cause}; see to its permissions, or set HF_HOME to another place", path.display())]
    Write { path: PathBuf, cause: io::Error },
}

impl HubError {
    fn write(path: impl Into<PathBuf>, cause: io::Error) -> Self {
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => HubError::Full { path: path.into() },
            _ => HubError::Write { path: path.into(), cause },
        }
    }
}

/// Files that a model can't be run without.
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];
/// Files that some models have, and that are then read.
const OPTIONAL: [&str; 3] = ["tokenizer_config.json", "preprocessor_config.json", "special_tokens_map.json"];
const WEIGHTS: &str = "model.safetensors";
/// Names the shards of weights that are more than one file.
const SHARDS: &str = "model.safetensors.index.json";

/// The hub, with its cache.
pub struct Hub<'a> {
    options: &'a HubOptions,
}

impl<'a> Hub<'a> {
    pub fn new(options: &'a HubOptions) -> Self {
        Hub { options }
    }

    /// A model as far as it is in the cache, which is asked alone: what a branch is called there may have another commit at the hub
    /// by now. `None` if a file that is needed is missing.
    pub fn cached(&self, model: &HubModel) -> Option<Pulled> {
        let cache = cache::Repository::of(&self.options.cache, model)?;
        cache.snapshot(&cache.commit(model.revision())?).complete()
    }

    /// A model from the cache, or else from the network.
    ///
    /// # Errors
    /// As for [`Self::pull`].
    pub fn get(&self, model: &HubModel, progress: &Progress) -> Result<Pulled, HubError> {
        self.cached(model).map_or_else(|| self.pull(model, progress), Ok)
    }

    /// Asks the hub which commit a revision is, and downloads what the cache lacks of it. Offline, the cache is asked alone.
    ///
    /// # Errors
    /// [`HubError`] names the thing, the cause and the remedy. Bytes that arrived stay, and the next call goes on behind them.
    pub fn pull(&self, model: &HubModel, progress: &Progress) -> Result<Pulled, HubError> {
        let name = model.to_string();
        let cache = cache::Repository::of(&self.options.cache, model);
        let cache = cache.ok_or_else(|| HubError::NoCache { model: name.clone() })?;
        if self.options.is_offline {
            let missing = || HubError::Offline { model: name, cache: self.options.cache.clone() };
            return self.cached(model).ok_or_else(missing);
        }
        // A commit never changes.
        if let Some(cached) = self.cached(model).filter(|_| cache::is_commit(model.revision())) {
            return Ok(cached);
        }
        let pull = Pull { transfer: Transfer::new(self.options, model), model, cache, progress };
        pull.run()
    }
}

/// A model on its way into the cache.
struct Pull<'a> {
    transfer: Transfer<'a>,
    model: &'a HubModel,
    cache: cache::Repository,
    progress: &'a Progress<'a>,
}

impl Pull<'_> {
    fn run(&self) -> Result<Pulled, HubError> {
        let revision = self.model.revision();
        let lacks = |file: &str| HubError::NoFile { model: self.model.to_string(), file: file.to_owned() };
        let config = self.transfer.describe(revision, NEEDED[0])?.ok_or_else(|| lacks(NEEDED[0]))?;
        let snapshot = self.cache.snapshot(&config.commit);
        let mut downloaded = self.fetch(&snapshot, NEEDED[0], &config)?;
        let mut fetch = |file: &str| -> Result<bool, HubError> {
            let Some(described) = self.transfer.describe(&config.commit, file)? else { return Ok(false) };
            downloaded += self.fetch(&snapshot, file, &described)?;
            Ok(true)
        };
        for file in &NEEDED[1..] {
            fetch(file)?.then_some(()).ok_or_else(|| lacks(file))?;
        }
        for file in OPTIONAL {
            fetch(file)?;
        }
        if !fetch(WEIGHTS)? {
            fetch(SHARDS)?.then_some(()).ok_or_else(|| lacks(WEIGHTS))?;
            for shard in snapshot.shards()? {
                fetch(&shard)?.then_some(()).ok_or_else(|| lacks(&shard))?;
            }
        }
        self.cache.set_commit(revision, &config.commit)?;
        let pulled = snapshot.complete().ok_or_else(|| lacks(WEIGHTS))?;
        Ok(Pulled { downloaded, ..pulled })
    }

    /// Downloads a file if it is not there, and gives the bytes that took.
    fn fetch(&self, snapshot: &Snapshot, file: &str, described: &Described) -> Result<u64, HubError> {
        let blob = self.cache.blob(&described.etag);
        if snapshot.has(file, described.bytes) {
            return Ok(0);
        }
        let _lock = self.cache.lock(&described.etag)?;
        // Another process may have been at it.
        let is_there = blob.metadata().is_ok_and(|it| described.bytes.is_none_or(|bytes| it.len() == bytes));
        let downloaded = match is_there {
            true => 0,
            false => self.transfer.fetch(file, described, &blob, self.progress)?,
        };
        snapshot.link(file, &blob)?;
        Ok(downloaded)
    }
}
