//! The machine, and the places where data is kept.

use std::path::{Path, PathBuf};

use super::Check;
use crate::cli::terminal;
use crate::device::cpu::Level;
use crate::encoder::hub::HubOptions;
use crate::index::directory::DataDirectory;
use crate::index::store::Store;

/// What the program runs on.
pub struct Machine {
    pub version: &'static str,
    pub platform: String,
    pub threads: usize,
    /// The best that the processor has for a model.
    pub kernels: &'static str,
    /// Of memory, so far.
    pub peak_bytes: u64,
}

impl Machine {
    pub fn now() -> Self {
        Machine {
            version: env!("CARGO_PKG_VERSION"),
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            threads: rayon::current_num_threads(),
            kernels: Level::best().name(),
            peak_bytes: peak_bytes(),
        }
    }
}

/// The most memory that this process had; 0 where the system does not say.
#[cfg(unix)]
fn peak_bytes() -> u64 {
    // SAFETY: every field of it is a number, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes into the structure that it is given, and keeps nothing.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    // macOS counts bytes, others kibibytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    if result == 0 { u64::try_from(usage.ru_maxrss).unwrap_or(0) * unit } else { 0 }
}

#[cfg(not(unix))]
fn peak_bytes() -> u64 {
    0
}

/// The data directory.
pub struct Data {
    pub path: PathBuf,
    pub exists: bool,
    /// Of the store and of all indexes.
    pub bytes: u64,
}

impl Data {
    /// Looks at it; makes nothing.
    pub fn of(path: &Path, checks: &mut Vec<Check>) -> Self {
        let mut data = Data { path: path.to_owned(), exists: path.is_dir(), bytes: 0 };
        let mut check = |problem| checks.push(Check { name: "vectors and indexes can be kept", problem });
        if path.as_os_str().is_empty() {
            check(Some("neither HOME nor XDG_DATA_HOME is set: name a place with --data-dir".to_owned()));
            return data;
        }
        check(unwritable(path));
        if data.exists {
            let directory = DataDirectory::new(path);
            let stats = Store::open_read_only(&directory.store()).and_then(|it| it.stats());
            let indexes = directory.repositories().map(|it| it.iter().map(|it| it.bytes()).sum::<u64>());
            data.bytes = stats.as_ref().map_or(0, |it| it.file_bytes) + indexes.as_ref().copied().unwrap_or(0);
            let problem = stats.err().map(|it| it.to_string()).or(indexes.err().map(|it| it.to_string()));
            checks.push(Check { name: "what is kept can be read", problem });
        }
        data
    }

    pub fn line(&self) -> String {
        match (self.path.as_os_str().is_empty(), self.exists) {
            (true, _) => "nowhere".to_owned(),
            (_, false) => format!("{}, which is made when it is needed", self.path.display()),
            _ => format!("{}, {}", self.path.display(), terminal::bytes(self.bytes)),
        }
    }
}

/// Why nothing can be written to a folder, if so. One that is not there yet is made in the nearest that is.
fn unwritable(path: &Path) -> Option<String> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let nearest = absolute.ancestors().find(|it| std::fs::symlink_metadata(it).is_ok()).unwrap_or(&absolute);
    let probe = nearest.join(format!(".writing-{}.doctor", std::process::id()));
    let written = std::fs::write(&probe, b"x");
    // It is gone, or was never there.
    let _ = std::fs::remove_file(&probe);
    let message = |error| {
        format!(
            "`{}` can't be written: {error}; see to its permissions and to the disk, or name another place with --data-dir",
            path.display()
        )
    };
    written.err().map(message)
}

/// The cache of the hub, shared with others.
pub struct HubCache {
    pub path: PathBuf,
    pub bytes: u64,
    pub models: usize,
    pub endpoint: String,
    pub is_offline: bool,
}

impl HubCache {
    pub fn of(options: &HubOptions) -> Self {
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let is_model = |it: &std::fs::DirEntry| it.file_name().to_string_lossy().starts_with("models--");
        let models: Vec<PathBuf> = entries(&options.cache).filter(is_model).map(|it| it.path()).collect();
        let blobs = models.iter().flat_map(|it| entries(&it.join("blobs")));
        HubCache {
            path: options.cache.clone(),
            bytes: blobs.filter_map(|it| it.metadata().ok()).map(|it| it.len()).sum(),
            models: models.len(),
            endpoint: options.endpoint.clone(),
            is_offline: options.is_offline,
        }
    }

    pub fn line(&self) -> String {
        let offline = if self.is_offline { ", which is not asked (HF_HUB_OFFLINE)" } else { "" };
        let (path, bytes) = (self.path.display(), terminal::bytes(self.bytes));
        let models = terminal::counted(self.models, "model");
        format!("{path}, {models}, {bytes}; from {}{offline}", self.endpoint)
    }
}
