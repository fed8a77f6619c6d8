//! F1: a repository, read from a working tree or from a git revision, as candidates.
//!
//! Bad input is data here: a file that can't be used is in [`Snapshot::skipped`] with its reason, one that could be used
//! only in part is in [`Snapshot::notes`]; neither ends the run. Knows nothing of retrieval, models or output formats.

pub mod language;
pub mod parse;

mod budget;
mod directives;
mod filter;
mod git;
mod grammar;
mod names;
mod notebook;
#[cfg_attr(not(feature = "heavy-grammars"), expect(dead_code, reason = "some of it serves the heavy grammars alone"))]
mod rewrite;
mod rules;
mod scripts;
mod text;
mod walk;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::types::{Candidate, Source};
use language::Language;

pub use budget::{Deadline, ParseFailure};
pub use parse::{Extracted, Function, extract};

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
    #[error("left out: a snapshot has {limit} files at most")]
    TooManyFiles { limit: usize },
    #[error("left out: the files of a snapshot have {limit} bytes at most, and those before it have nearly as many")]
    TooManyBytes { limit: u64 },
    #[error("left out: the tree has more than {limit} bytes of paths and ignore files")]
    TreeTooLarge { limit: usize },
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
            Ok(assemble(listing, progress, &walk::WorkTree { root: &root, max_bytes }, &Limits::ORDINARY))
        }
        git::Place::Revision(revision) => {
            let git::Revision { repository, commit, listing } = *revision;
            let files = git::Objects { repository, max_bytes };
            Ok(Snapshot { commit, ..assemble(listing, progress, &files, &Limits::ORDINARY) })
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
    /// What it is by its name.
    language: &'static Language,
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
        let Some(language) = language::of_path(&path) else { return };
        match filter::by_name(&path).filter(|_| !wanted) {
            Some(reason) => self.skip(path, reason),
            None => self.files.push(Listed { path, wanted, language, place }),
        }
    }
}

/// How the listed files of a kind of snapshot are read.
trait Files: Sync {
    type Place: Send + Sync;
    /// What a thread needs.
    type Worker;

    fn worker(&self) -> Self::Worker;

    /// Bytes of a file, or why it is not read.
    fn measure(&self, worker: &mut Self::Worker, file: &Listed<Self::Place>) -> Result<u64, SkipReason>;

    fn load(&self, worker: &mut Self::Worker, file: &Listed<Self::Place>) -> Result<Vec<u8>, SkipReason>;
}

/// What a snapshot may hold: a git repository of a few kilobytes can describe more than there is memory for.
struct Limits {
    files: usize,
    /// Of all files as they are stored.
    bytes: u64,
}

impl Limits {
    /// Above the largest repositories known.
    const ORDINARY: Limits = Limits { files: 1_000_000, bytes: 4 << 30 };
}

/// A file that was read, with what had to be assumed to decode it.
struct Read {
    extracted: Extracted,
    decoding: Option<String>,
}

/// Reads the listed files in parallel.
fn assemble<F: Files>(
    listing: Listing<F::Place>,
    progress: &(dyn Fn(usize, usize) + Sync),
    files: &F,
    limits: &Limits,
) -> Snapshot {
    let mut snapshot = Snapshot { skipped: listing.skipped, notes: listing.notes, ..Snapshot::default() };
    let measured = within(limits, measured(listing.files, files), &mut snapshot.skipped);
    for (path, result) in read_all(measured, progress, files) {
        match result {
            Ok(read) => snapshot.add(read),
            Err(reason) => snapshot.skipped.push(Skipped { path, reason }),
        }
    }
    snapshot.skipped.sort();
    snapshot.skipped.dedup();
    snapshot.notes.sort();
    snapshot
}

type Measured<Place> = (Listed<Place>, Result<u64, SkipReason>);

/// The files in the order of their paths, each with its size.
fn measured<F: Files>(mut listed: Vec<Listed<F::Place>>, files: &F) -> Vec<Measured<F::Place>> {
    listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listed.dedup_by(|a, b| a.path == b.path);
    let measured = |worker: &mut F::Worker, file| (files.measure(worker, &file), file);
    listed.into_par_iter().map_init(|| files.worker(), measured).map(|(size, file)| (file, size)).collect()
}

/// The first files that are within the limits, with their sizes.
fn within<Place>(
    limits: &Limits,
    measured: Vec<Measured<Place>>,
    skipped: &mut Vec<Skipped>,
) -> Vec<(Listed<Place>, u64)> {
    let (mut kept, mut all) = (Vec::with_capacity(measured.len().min(limits.files)), 0);
    for (file, size) in measured {
        let reason = match size {
            Err(reason) => reason,
            Ok(_) if kept.len() >= limits.files => SkipReason::TooManyFiles { limit: limits.files },
            Ok(size) if size > limits.bytes - all => SkipReason::TooManyBytes { limit: limits.bytes },
            Ok(size) => {
                all += size;
                kept.push((file, size));
                continue;
            }
        };
        skipped.push(Skipped { path: file.path, reason });
    }
    kept
}

/// What the files give, in their order. The largest are begun first, so that none is left when all others are done.
fn read_all<F: Files>(
    measured: Vec<(Listed<F::Place>, u64)>,
    progress: &(dyn Fn(usize, usize) + Sync),
    files: &F,
) -> Vec<(String, Result<Read, SkipReason>)> {
    let (done, total) = (AtomicUsize::new(0), measured.len());
    let deadline = Deadline::of(measured.iter().map(|(_, size)| size).sum());
    let mut queue: Vec<_> = measured.into_iter().enumerate().collect();
    queue.sort_by_key(|(_, (_, size))| Reverse(*size));
    let read = |worker: &mut F::Worker, (at, (file, _)): (usize, (Listed<F::Place>, u64))| {
        let result = files.load(worker, &file).and_then(|bytes| read_file(&file, bytes, deadline));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        (at, (file.path, result))
    };
    let mut results: Vec<_> = queue.into_iter().par_bridge().map_init(|| files.worker(), read).collect();
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn read_file<Place>(file: &Listed<Place>, bytes: Vec<u8>, deadline: Deadline) -> Result<Read, SkipReason> {
    if let Some(reason) = filter::by_bytes(&bytes) {
        return Err(reason);
    }
    let text::Decoded { text, note: decoding } = text::decode(bytes);
    match filter::by_text(&file.path, &text).filter(|_| !file.wanted) {
        Some(reason) => Err(reason),
        None => {
            let language = language::detect(&file.path, &text).unwrap_or(file.language);
            Ok(Read { extracted: extract(&file.path, language, text, deadline), decoding })
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of so many bytes each, in memory.
    struct Sizes;

    impl Files for Sizes {
        type Place = u64;
        type Worker = ();

        fn worker(&self) {}

        fn measure(&self, _: &mut (), file: &Listed<u64>) -> Result<u64, SkipReason> {
            Ok(file.place)
        }

        fn load(&self, _: &mut (), file: &Listed<u64>) -> Result<Vec<u8>, SkipReason> {
            Ok(vec![b'\n'; file.place as usize])
        }
    }

    #[track_caller]
    fn check(limits: Limits, sizes: &[(&str, u64)], expected: &[&str], expected_skipped: &[(&str, &str)]) {
        let mut listing = Listing::default();
        sizes.iter().for_each(|(path, size)| listing.file(path.to_string(), false, *size));
        let snapshot = assemble(listing, &|_, _| (), &Sizes, &limits);
        let paths: Vec<&str> = snapshot.sources.iter().map(|it| &*it.path).collect();
        assert_eq!(paths, expected);
        let skipped: Vec<_> = snapshot.skipped.iter().map(|it| (it.path.as_str(), it.reason.to_string())).collect();
        let is_as_expected =
            |(it, expected): (&(&str, String), &(&str, &str))| it.0 == expected.0 && it.1.contains(expected.1);
        assert!(skipped.len() == expected_skipped.len() && skipped.iter().zip(expected_skipped).all(is_as_expected));
    }

    #[test]
    fn what_is_over_a_limit_is_left_out_with_a_reason_in_the_order_of_paths() {
        let files = [("c.py", 5), ("a.py", 1), ("b.py", 9), ("d.py", 0)];
        let roomy = || Limits { files: 4, bytes: 15 };
        check(roomy(), &files, &["a.py", "b.py", "c.py", "d.py"], &[]);
        let few = "a snapshot has 2 files at most";
        check(Limits { files: 2, ..roomy() }, &files, &["a.py", "b.py"], &[("c.py", few), ("d.py", few)]);
        let full = "the files of a snapshot have 14 bytes at most";
        check(Limits { bytes: 14, ..roomy() }, &files, &["a.py", "b.py", "d.py"], &[("c.py", full)]);
    }

    #[test]
    fn a_file_is_listed_once_and_only_as_source() {
        check(Limits::ORDINARY, &[("a.py", 1), ("a.py", 1), ("a.txt", 1)], &["a.py"], &[]);
    }
}
