//! F1: a repository, read from a working tree or from a git revision, as candidates.
//!
//! Bad input is data here: a file that can't be used is in [`Snapshot::skipped`] with its reason, one that could be used
//! only in part is in [`Snapshot::notes`]; neither ends the run. Knows nothing of retrieval, models or output formats.

pub mod language;
pub mod parse;

mod directives;
mod filter;
mod git;
mod grammar;
mod notebook;
mod rewrite;
mod rules;
mod scripts;
mod text;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::types::{Candidate, Source};

pub use parse::{Extracted, Function, ParseFailure, extract};

/// A path of the repository that is not among the candidates, and why. A skipped directory stands for all below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    pub path: String,
    pub reason: SkipReason,
}

/// Why a path of the repository gives no candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SkipReason {
    #[error("binary content")]
    Binary,
    #[error("minified")]
    Minified,
    #[error("vendored: a directory of other people's code")]
    Vendored,
    #[error("generated: its header says \"{marker}\"")]
    Generated { marker: String },
    #[error("a Git LFS pointer: the content is elsewhere (`git lfs pull` fetches it)")]
    LfsPointer,
    #[error("oversized: {bytes} bytes, more than the limit of {limit}")]
    Oversized { bytes: u64, limit: u64 },
    #[error("a symbolic link, which is not followed")]
    SymbolicLink,
    #[error("a nested repository, not part of this one")]
    NestedRepository,
    #[error("a linked worktree, not part of this one")]
    LinkedWorktree,
    #[error("a submodule, not part of this repository")]
    Submodule,
    #[error("not a file: a socket, a pipe or a device")]
    NotAFile,
    #[error("its path is not UTF-8 (shown with replacements)")]
    PathNotUtf8,
    #[error("its path is longer than {limit} bytes")]
    PathTooLong { limit: usize },
    #[error("its object is not in this clone, which is partial or damaged (`git fetch --refetch` gets it)")]
    MissingObject,
    #[error("unreadable: {message}")]
    Unreadable { message: String },
}

/// Something that went less than perfectly for one file, which is still a candidate, or for a file that governs others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    pub path: String,
    pub message: String,
}

/// A repository at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Full hash of the commit that was read; `None` for a working tree.
    pub commit: Option<String>,
    /// Ordered by the bytes of their paths.
    pub sources: Vec<Arc<Source>>,
    /// Ordered as the sources; the file first, then its functions by position. A file without content is one too.
    pub candidates: Vec<Candidate>,
    /// Ordered by path. Files that are no source by name, and files that git ignores, are not mentioned.
    pub skipped: Vec<Skipped>,
    /// Ordered by path.
    pub notes: Vec<Note>,
}

/// How a repository is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// A longer file is skipped, unread. At most [`Options::MOST_FILE_BYTES`] counts.
    pub max_file_bytes: u64,
}

impl Options {
    /// Offsets in a source are 32 bits wide, and decoding may make it three times as long.
    pub const MOST_FILE_BYTES: u64 = 1 << 30;
}

impl Default for Options {
    fn default() -> Self {
        // The largest sources known to be written by hand have about 3 MB.
        Options { max_file_bytes: 4 << 20 }
    }
}

/// Why a repository can't be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the path of the repository is empty: name a directory, `.` for the current one")]
    EmptyPath,
    #[error("there is no directory `{}`: check the path of the repository", path.display())]
    Missing { path: PathBuf },
    #[error("`{}` is not a directory: name the directory that holds the repository", path.display())]
    NotADirectory { path: PathBuf },
    #[error("the directory `{}` can't be read: {source}; check its permissions", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("`{}` is in no git repository, so it has no revision `{revision}`: leave out the revision to read the files as they are", path.display())]
    NotARepository { path: PathBuf, revision: String },
    #[error("the git repository of `{}` can't be opened: {message}; `git fsck` may tell more", path.display())]
    Repository { path: PathBuf, message: String },
    #[error("`{}` has no revision `{revision}`: {message}; name a branch, a tag or a commit that `git log` shows (a shallow clone has few: `git fetch --unshallow` gets the rest)", path.display())]
    NoSuchRevision { path: PathBuf, revision: String, message: String },
    #[error("revision `{revision}` has no directory `{directory}`: name one that it has, or the top of the repository")]
    NoSuchDirectory { revision: String, directory: String },
}

/// Reads a repository: the working tree at `root`, or `revision` of the git repository that `root` is in.
///
/// `root` may be a part of a work tree; paths are relative to it. Of a bare repository `HEAD` is read when no revision is
/// given. `progress` is called from worker threads with the number of files done and the number of all.
///
/// # Errors
/// When the root can't be read or there is no such revision. A repository without sources is no error.
pub fn read(
    root: &Path,
    revision: Option<&str>,
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Snapshot, SnapshotError> {
    let root = checked(root)?;
    let max_bytes = options.max_file_bytes.min(Options::MOST_FILE_BYTES);
    match git::locate(&root, revision)? {
        git::Place::WorkTree(scope) => {
            let listing = walk::list(&root, scope);
            Ok(assemble(listing, progress, || (), |(), path, ()| walk::load(&root, path, max_bytes)))
        }
        git::Place::Revision(revision) => {
            let git::Revision { repository, commit, listing } = *revision;
            let load = |worker: &mut gix::Repository, _: &str, id: &gix::ObjectId| git::load(worker, *id, max_bytes);
            Ok(Snapshot { commit, ..assemble(listing, progress, || repository.to_thread_local(), load) })
        }
    }
}

/// The root with its links resolved, known to be a directory that can be listed.
fn checked(root: &Path) -> Result<PathBuf, SnapshotError> {
    if root.as_os_str().is_empty() {
        return Err(SnapshotError::EmptyPath);
    }
    let path = || root.to_path_buf();
    let unreadable = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => SnapshotError::Missing { path: path() },
        std::io::ErrorKind::NotADirectory => SnapshotError::NotADirectory { path: path() },
        _ => SnapshotError::Unreadable { path: path(), source },
    };
    let resolved = root.canonicalize().map_err(unreadable)?;
    std::fs::read_dir(&resolved).map_err(unreadable)?;
    Ok(resolved)
}

/// The files of a snapshot before they are read.
struct Listing<Place> {
    files: Vec<Listed<Place>>,
    skipped: Vec<Skipped>,
    notes: Vec<Note>,
}

struct Listed<Place> {
    path: String,
    /// The user asked for it by a negated pattern, so what it looks like doesn't count.
    wanted: bool,
    /// Where its bytes are, where the path doesn't say.
    place: Place,
}

impl<Place> Default for Listing<Place> {
    fn default() -> Self {
        Listing { files: Vec::new(), skipped: Vec::new(), notes: Vec::new() }
    }
}

impl<Place> Listing<Place> {
    fn skip(&mut self, path: String, reason: SkipReason) {
        self.skipped.push(Skipped { path, reason });
    }

    /// Takes a file in if its name is that of a source.
    fn file(&mut self, path: String, wanted: bool, place: Place) {
        if language::of_path(&path).is_none() {
            return;
        }
        match filter::by_name(&path).filter(|_| !wanted) {
            Some(reason) => self.skip(path, reason),
            None => self.files.push(Listed { path, wanted, place }),
        }
    }
}

/// A file that was read, with what had to be assumed to decode it.
struct Read {
    extracted: Extracted,
    decoding: Option<String>,
}

/// Reads the listed files in parallel. `worker` makes what a thread needs for `load`.
fn assemble<Place: Sync + Send, Worker>(
    mut listing: Listing<Place>,
    progress: &(dyn Fn(usize, usize) + Sync),
    worker: impl Fn() -> Worker + Sync + Send,
    load: impl Fn(&mut Worker, &str, &Place) -> Result<Vec<u8>, SkipReason> + Sync + Send,
) -> Snapshot {
    listing.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listing.files.dedup_by(|a, b| a.path == b.path);
    let (done, total) = (AtomicUsize::new(0), listing.files.len());
    let results: Vec<_> = listing
        .files
        .into_par_iter()
        .with_max_len(8)
        .map_init(worker, |worker, file| {
            let result = load(worker, &file.path, &file.place).and_then(|bytes| read_file(&file, bytes));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            (file.path, result)
        })
        .collect();

    let mut snapshot = Snapshot { skipped: listing.skipped, notes: listing.notes, ..Snapshot::default() };
    for (path, result) in results {
        match result {
            Ok(read) => read.into_iter().for_each(|it| snapshot.add(it)),
            Err(reason) => snapshot.skipped.push(Skipped { path, reason }),
        }
    }
    snapshot.skipped.sort();
    snapshot.skipped.dedup();
    snapshot.notes.sort();
    snapshot
}

/// `None` if the content shows that the file is no source, for all its name.
fn read_file<Place>(file: &Listed<Place>, bytes: Vec<u8>) -> Result<Option<Read>, SkipReason> {
    if let Some(reason) = filter::by_bytes(&bytes) {
        return Err(reason);
    }
    let text::Decoded { text, note: decoding } = text::decode(bytes);
    let Some(language) = language::detect(&file.path, &text) else { return Ok(None) };
    match filter::by_text(&file.path, &text).filter(|_| !file.wanted) {
        Some(reason) => Err(reason),
        None => Ok(Some(Read { extracted: extract(&file.path, language, text), decoding })),
    }
}

impl Snapshot {
    fn add(&mut self, Read { extracted: Extracted { source, functions, note }, decoding }: Read) {
        let source = Arc::new(source);
        self.notes
            .extend(decoding.into_iter().chain(note).map(|message| Note { path: source.path.to_string(), message }));
        self.candidates.push(Candidate::file(Arc::clone(&source)));
        self.candidates.extend(
            functions
                .into_iter()
                .map(|function| Candidate::function(Arc::clone(&source), function.name, function.range)),
        );
        self.sources.push(source);
    }
}
