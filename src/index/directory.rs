//! F1: the directory that indexes lie in: one directory a repository, one writer at a time, readers at any time.
//!
//! `store/` holds vectors by content, `repositories/<id>/` the builds of a repository. A build is there when `current.json` names it,
//! which is the last thing that is written. Knows nothing of what a repository is beyond its path.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::build::{self, Build, Manifest, Named, Rules, Target};
use crate::fsio::{self, FileError, SectionFile};

/// Why an index can't be kept or used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Its message lacks the remedy.
    #[error("{0}; `sightline index` makes it again")]
    File(#[from] FileError),
    #[error("`{}` can't be written: {source}; make room or see to its permissions, or name another place with --data-dir", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` can't be read: {source}; check its permissions, or name another place with --data-dir", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("another process is writing to `{}`: wait until it is done", path.display())]
    Busy { path: PathBuf },
    #[error(transparent)]
    Vector(#[from] super::vectors::VectorError),
    #[error("`{}` is damaged: {message}; `sightline index` makes it again", path.display())]
    Damaged { path: PathBuf, message: String },
}

/// The data directory.
#[derive(Debug, Clone)]
pub struct DataDirectory {
    root: PathBuf,
}

impl DataDirectory {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        DataDirectory { root: root.into() }
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Where the work that is under way is written down.
    pub fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    /// Where sources are that came as archives.
    pub fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    /// Where the text of pictures is kept.
    pub fn evidence(&self) -> PathBuf {
        self.root.join("evidence")
    }

    /// Where the vectors of all repositories are.
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The directory of the repository at `source`, an absolute path without links. It need not exist.
    pub fn repository(&self, source: &Path) -> RepositoryDirectory {
        let hash = Sha256::digest(source.as_os_str().as_encoded_bytes());
        let short: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let name = source.file_name().map_or_else(|| "root".into(), |it| it.to_string_lossy());
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
        let plain = |(at, it): (usize, char)| if is_plain(it) && (at, it) != (0, '.') { it } else { '_' };
        let name: String = name.chars().enumerate().map(plain).take(NAME_CHARACTERS).collect();
        self.named(&format!("{name}-{short}"))
    }

    /// The directory of the repository with an id, which is a plain file name.
    pub fn named(&self, id: &str) -> RepositoryDirectory {
        RepositoryDirectory { path: self.root.join("repositories").join(id), id: id.to_owned() }
    }

    /// The repositories that have a directory, by id.
    ///
    /// # Errors
    /// When the directory is there and can't be read.
    pub fn repositories(&self) -> Result<Vec<RepositoryDirectory>, IndexError> {
        let path = self.root.join("repositories");
        let mut ids: Vec<String> = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(IndexError::Read { path, source }),
            Ok(entries) => entries.flatten().filter_map(|it| it.file_name().into_string().ok()).collect(),
        };
        ids.sort();
        Ok(ids.iter().map(|id| self.named(id)).filter(|it| it.path.is_dir()).collect())
    }
}

/// Of a repository's name that go into its id.
const NAME_CHARACTERS: usize = 48;

/// The directory of one repository.
#[derive(Debug, Clone)]
pub struct RepositoryDirectory {
    pub path: PathBuf,
    pub id: String,
}

/// Held by the one process that writes to a repository's directory.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// What is said of a repository beside its builds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecord {
    /// As text: a path that is not UTF-8 has replacements in it.
    pub path: String,
    /// The revision that was indexed last; `None` for the files on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What the build is of that was made or confirmed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The rules by which files were chosen, where the program that made the index wrote them down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Rules>,
    /// Why the last run built nothing, if so.
    pub failure: Option<String>,
}

/// What a build says of itself, or why it can't be read.
pub type Read = Result<Manifest, FileError>;

/// The builds that count, by their target.
type Current = BTreeMap<String, String>;

impl Target {
    fn key(&self) -> &str {
        match self {
            Target::WorkTree => "worktree",
            Target::Commit(hash) => hash,
        }
    }
}

impl RepositoryDirectory {
    /// Makes the directory and becomes its one writer; [`IndexError::Busy`] if there is another.
    ///
    /// # Errors
    /// Also when the directory can't be made.
    pub fn lock(&self) -> Result<Lock, IndexError> {
        loop {
            let lock = self.try_lock()?;
            // Whoever removed the directory meanwhile has taken the file that is locked with it.
            if is_file_at(&lock.file, &self.path.join("lock")) {
                return Ok(lock);
            }
        }
    }

    fn try_lock(&self) -> Result<Lock, IndexError> {
        let failed = |source| IndexError::Write { path: self.path.clone(), source };
        for directory in ["builds", "segments"] {
            fsio::create_private_directory(&self.path.join(directory)).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.path.join("lock"));
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(IndexError::Busy { path: self.path.clone() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// What is known of the repository; `None` if nothing is.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn source(&self) -> Result<Option<SourceRecord>, IndexError> {
        self.read_json("source.json")
    }

    /// # Errors
    /// When it can't be written.
    pub fn set_source(&self, _: &Lock, record: &SourceRecord) -> Result<(), IndexError> {
        self.write_json("source.json", record)
    }

    /// Changes whenever another build counts or something else is said of the source; `None` while no build counts.
    pub fn stamp(&self) -> Option<Vec<u8>> {
        let mut stamp = fs::read(self.path.join("current.json")).ok()?;
        // What is said of the source is written after the build, and who looks in between must look again.
        stamp.extend(fs::read(self.path.join("source.json")).unwrap_or_default());
        Some(stamp)
    }

    /// The build that was made last, of whatever target.
    ///
    /// # Errors
    /// When there are builds and none can be read.
    pub fn newest(&self) -> Result<Option<Build>, IndexError> {
        let (mut newest, mut failed): (Option<Manifest>, _) = (None, None);
        for (_, manifest) in self.manifests()? {
            match manifest {
                Ok(manifest) if newest.as_ref().is_none_or(|it| it.listed < manifest.listed) => newest = Some(manifest),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        match (newest, failed) {
            (Some(newest), _) => self.build(&newest.target),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(None),
        }
    }

    fn current(&self) -> Result<Current, IndexError> {
        Ok(self.read_json("current.json")?.unwrap_or_default())
    }

    fn read_json<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, IndexError> {
        let path = self.path.join(name);
        let bytes = match fs::read(&path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(source) => return Err(IndexError::Read { path, source }),
            Ok(bytes) => bytes,
        };
        let damaged = |error: serde_json::Error| IndexError::Damaged { path, message: error.to_string() };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), IndexError> {
        let path = self.path.join(name);
        let written = fsio::write_atomically(&path, |out| Ok(serde_json::to_writer_pretty(out, value)?));
        written.map_err(|source| IndexError::Write { path, source })
    }

    /// The build of a target.
    ///
    /// # Errors
    /// When it can't be read or is damaged.
    pub fn build(&self, target: &Target) -> Result<Option<Build>, IndexError> {
        let current = self.current()?;
        let Some(name) = current.get(target.key()) else { return Ok(None) };
        let path = build::path_of_build(&self.path, name);
        let build = Build::read(&path)?;
        if build.manifest.target != *target {
            let message = format!("it is the index of {}, not of {}", build.manifest.target.key(), target.key());
            return Err(IndexError::Damaged { path, message });
        }
        Ok(Some(build))
    }

    /// What each build says of itself, by target; what is said of one that is damaged is why.
    ///
    /// # Errors
    /// When it can't be told which builds there are.
    pub fn manifests(&self) -> Result<Vec<(String, Read)>, IndexError> {
        let read =
            |(target, name): (String, String)| (target, Build::read_manifest(&build::path_of_build(&self.path, &name)));
        Ok(self.current()?.into_iter().map(read).collect())
    }

    /// All builds that can be read.
    pub fn sound_builds(&self) -> Vec<Build> {
        let current = self.current().unwrap_or_default();
        current.values().filter_map(|name| Build::read(&build::path_of_build(&self.path, name)).ok()).collect()
    }

    /// Makes a build the one that counts for its target, and removes what no build needs any more.
    ///
    /// # Errors
    /// When it can't be written; the builds before it count then as they did.
    pub fn publish(&self, lock: &Lock, build: &Build) -> Result<(), IndexError> {
        let name = unique_name();
        let path = build::path_of_build(&self.path, &name);
        build.write(&path).map_err(|source| IndexError::Write { path, source })?;
        let mut current = match self.current() {
            // What it named can't be told: this build begins another list.
            Err(IndexError::Damaged { .. }) => Current::new(),
            current => current?,
        };
        current.insert(build.manifest.target.key().to_owned(), name);
        self.write_json("current.json", &current)?;
        self.remove_unneeded(lock);
        Ok(())
    }

    /// Forgets the build of a target.
    ///
    /// # Errors
    /// When the list of builds can't be written.
    pub fn forget(&self, lock: &Lock, target: &str) -> Result<bool, IndexError> {
        let mut current = self.current()?;
        let was_there = current.remove(target).is_some();
        self.write_json("current.json", &current)?;
        self.remove_unneeded(lock);
        Ok(was_there)
    }

    /// Removes the directory with all builds.
    ///
    /// # Errors
    /// When a file can't be removed.
    pub fn remove(self, _: Lock) -> Result<(), IndexError> {
        fs::remove_dir_all(&self.path).map_err(|source| IndexError::Write { path: self.path, source })
    }

    /// Removes the directory again that taking its lock has made, if there is nothing in it.
    pub fn remove_if_new(&self, lock: Lock) {
        if self.stamp().is_none() && matches!(self.source(), Ok(None)) {
            // It is in nobody's way.
            let _ = self.clone().remove(lock);
        }
    }

    /// Removes what no build needs, which runs that failed or were killed left too. Readers keep what they have open; one that was about
    /// to open something finds the newer build when it looks again. Nothing is removed while it can't be told what is needed.
    pub fn remove_unneeded(&self, _: &Lock) {
        let Ok(current) = self.current() else { return };
        let mut needed: HashSet<PathBuf> = HashSet::new();
        for name in current.values() {
            let path = build::path_of_build(&self.path, name);
            match Build::read_manifest(&path) {
                Ok(manifest) => {
                    let parts = manifest.parts.iter().flat_map(|it| it.named()).map(|it| &it.name);
                    needed.extend(parts.map(|name| build::path_of_part(&self.path, name)));
                }
                Err(FileError::Damaged { .. }) => {}
                Err(_) if !path.exists() => {}
                Err(_) => return,
            }
            needed.insert(path);
        }
        for directory in ["", "builds", "segments"] {
            for entry in fs::read_dir(self.path.join(directory)).into_iter().flatten().flatten() {
                let is_left = !directory.is_empty() || fsio::is_temporary(&entry.file_name());
                if is_left && !needed.contains(&entry.path()) {
                    // It is in nobody's way, and the next run tries again.
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }

    /// Opens a part.
    ///
    /// # Errors
    /// When it is not the file that is named.
    pub fn open(&self, named: &Named, format: u32) -> Result<std::sync::Arc<SectionFile>, FileError> {
        SectionFile::open_sealed(&build::path_of_part(&self.path, &named.name), format, named.seal)
    }

    /// Writes a part under a new name that ends in `kind`.
    ///
    /// # Errors
    /// Those of `write`, or when what was written can't be read.
    pub fn write_part<E: From<FileError>>(
        &self,
        kind: &str,
        format: u32,
        write: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Named, E> {
        let name = format!("{}.{kind}", unique_name());
        let path = build::path_of_part(&self.path, &name);
        write(&path)?;
        let seal = SectionFile::open(&path, format)?.seal();
        Ok(Named { name, seal })
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        let files = ["", "builds", "segments"]
            .iter()
            .flat_map(|it| fs::read_dir(self.path.join(it)).into_iter().flatten().flatten());
        files.filter_map(|it| it.metadata().ok()).filter(|it| it.is_file()).map(|it| it.len()).sum()
    }
}

/// Whether the open file is the one at a path.
#[cfg(unix)]
fn is_file_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |it: io::Result<fs::Metadata>| it.ok().map(|it| (it.dev(), it.ino()));
    identity(file.metadata()) == identity(fs::metadata(path))
}

/// Elsewhere an open file can't be removed.
#[cfg(not(unix))]
fn is_file_at(_: &File, _: &Path) -> bool {
    true
}

/// A name that no other file here has: the time, and the process.
fn unique_name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:016x}-{:x}-{:x}", now.as_nanos() as u64, std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looked_between_a_build_and_what_is_said_of_its_source_looks_again() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DataDirectory::new(folder.path()).named("shop");
        let lock = directory.lock().unwrap();
        assert_eq!(directory.stamp(), None);
        fs::write(directory.path.join("current.json"), "{}").unwrap();
        let between = directory.stamp();
        assert!(between.is_some());
        let record = SourceRecord { path: "/srv/shop".to_owned(), ..SourceRecord::default() };
        directory.set_source(&lock, &record).unwrap();
        assert_ne!(directory.stamp(), between);
    }
}
