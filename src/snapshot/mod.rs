//! F1: a repository, read from a working tree or from a git revision, as candidates.
//!
//! Bad input is data here: a file that can't be used is in [`Snapshot::skipped`] with its reason, one that could be used
//! only in part is in [`Snapshot::notes`]; neither ends the run. Knows nothing of retrieval, models or output formats.

pub mod archive;
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
mod selection;
mod text;
mod walk;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::types::{Candidate, ContentId, Lines, Source, Stamp};
use language::Language;
use selection::Selection;

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
    #[error("excluded by the pattern `{pattern}`")]
    Excluded { pattern: String },
    #[error("not among what is to be included")]
    NotIncluded,
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
    /// Only files that these patterns name count, or that lie in a directory that they name; all do if there are none. Patterns are
    /// those of an ignore file at the root that is read.
    pub include: Vec<String>,
    /// Files and directories that these patterns name don't count, whether git tracks them or not.
    pub exclude: Vec<String>,
    /// No git is looked for: the files of the directory are all that there is. For files that somebody sent: they must bring no
    /// repository of their own, which could lead elsewhere, nor belong to one that they happen to lie in.
    pub detached: bool,
}

impl Options {
    /// Whether the patterns can be used.
    ///
    /// # Errors
    /// The first that can match nothing, or when there are too many.
    pub fn check(&self) -> Result<(), SnapshotError> {
        Selection::new(self).map(drop)
    }

    /// Offsets in a source are 32 bits wide, and decoding may make it three times as long.
    pub const MOST_FILE_BYTES: u64 = 1 << 30;
}

impl Default for Options {
    fn default() -> Self {
        // The largest sources known to be written by hand have about 3 MB.
        Options { max_file_bytes: 4 << 20, include: Vec::new(), exclude: Vec::new(), detached: false }
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
    #[error("the pattern `{}` {fault}: write it as in a .gitignore at the top of what is read", pattern.escape_debug())]
    Pattern { pattern: String, fault: &'static str },
    #[error("more than {limit} patterns include or exclude files: use fewer")]
    Patterns { limit: usize },
}

/// Reads a repository: all files of its [`inventory`].
///
/// `progress` is called from worker threads with the number of files done and the number of all.
///
/// # Errors
/// Those of [`inventory`].
pub fn read(
    root: &Path,
    revision: Option<&str>,
    options: &Options,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Snapshot, SnapshotError> {
    let inventory = inventory(root, revision, options)?;
    let all: Vec<usize> = (0..inventory.files.len()).collect();
    let read = inventory.read(&all, &|_, _| false, progress);
    let Inventory { commit, files, skipped, notes, .. } = inventory;
    let mut snapshot = Snapshot { commit, skipped, notes, ..Snapshot::default() };
    for (file, read) in files.into_iter().zip(read) {
        match read {
            Ok(FileRead { content: FileContent::Source(extracted), .. }) => snapshot.add(&file.path, extracted),
            Ok(FileRead { content: FileContent::NoSource(reason), .. }) | Err(reason) => {
                snapshot.skipped.push(Skipped { path: file.path, reason })
            }
            Ok(FileRead { content: FileContent::Known, .. }) => {}
        }
    }
    snapshot.skipped.sort();
    snapshot.notes.sort();
    Ok(snapshot)
}

/// Lists the source files of a repository, unread: those of the working tree at `root`, or of `revision` of the git repository
/// that `root` is in.
///
/// `root` may be a part of a work tree; paths are relative to it. Of a bare repository `HEAD` is listed when no revision is given.
///
/// # Errors
/// When the root can't be read or there is no such revision. A repository without sources is no error.
pub fn inventory(root: &Path, revision: Option<&str>, options: &Options) -> Result<Inventory, SnapshotError> {
    let root = checked(root)?;
    let max_bytes = options.max_file_bytes.min(Options::MOST_FILE_BYTES);
    let selection = Selection::new(options)?;
    let place = match (options.detached, revision) {
        (false, _) => git::locate(&root, revision, &selection)?,
        (true, None) => git::Place::WorkTree(walk::Scope::plain()),
        (true, Some(revision)) => {
            return Err(SnapshotError::NotARepository { path: root, revision: revision.to_owned() });
        }
    };
    match place {
        git::Place::WorkTree(scope) => {
            let hash = scope.hash;
            let listing = walk::list(&root, scope, selection);
            let files = walk::WorkTree { root, max_bytes, hash };
            Ok(Inventory::of(listing, Origin::WorkTree(files), &Limits::ORDINARY))
        }
        git::Place::Revision(revision) => {
            let git::Revision { repository, commit, listing } = *revision;
            let files = git::Objects { repository, max_bytes };
            Ok(Inventory { commit, ..Inventory::of(listing, Origin::Objects(Box::new(files)), &Limits::ORDINARY) })
        }
    }
}

/// Whether a root can be read at all.
///
/// # Errors
/// When it can't.
pub fn check(root: &Path) -> Result<(), SnapshotError> {
    checked(root).map(drop)
}

/// The full hash of the commit that [`inventory`] would list; `None` for the files on disk.
///
/// # Errors
/// As for [`inventory`].
pub fn commit_of(root: &Path, revision: Option<&str>, options: &Options) -> Result<Option<String>, SnapshotError> {
    let root = checked(root)?;
    match (options.detached, revision) {
        (false, _) => git::commit_of(&root, revision),
        (true, None) => Ok(None),
        (true, Some(revision)) => Err(SnapshotError::NotARepository { path: root, revision: revision.to_owned() }),
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

/// A listed file.
#[derive(Debug)]
pub struct Entry {
    pub path: String,
    /// The user asked for it by a negated pattern, so what it looks like doesn't count.
    pub wanted: bool,
    pub stamp: Stamp,
    /// What it is by its name.
    language: &'static Language,
}

/// The files of a repository at one moment, unread.
pub struct Inventory {
    /// As [`Snapshot::commit`].
    pub commit: Option<String>,
    /// Ordered by the bytes of their paths.
    pub files: Vec<Entry>,
    pub skipped: Vec<Skipped>,
    pub notes: Vec<Note>,
    origin: Origin,
}

enum Origin {
    WorkTree(walk::WorkTree),
    Objects(Box<git::Objects>),
}

/// A file that was read.
#[derive(Debug)]
pub struct FileRead {
    pub id: ContentId,
    pub content: FileContent,
}

#[derive(Debug)]
pub enum FileContent {
    /// The caller knows this content already.
    Known,
    Source(SourceRead),
    /// It is not among the candidates because of what is in it.
    NoSource(SkipReason),
}

/// A decoded and parsed source.
#[derive(Debug)]
pub struct SourceRead {
    pub extracted: Extracted,
    /// What had to be assumed to decode it.
    pub decoding: Option<String>,
}

impl SourceRead {
    /// Its functions with their lines.
    pub fn functions(&self) -> impl Iterator<Item = (&Function, Lines)> {
        let Extracted { text, functions, .. } = &self.extracted;
        functions.iter().map(|it| (it, text.lines_of(it.range.clone())))
    }

    /// Reservations with which it was read.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.decoding.iter().chain(&self.extracted.note)
    }
}

impl Inventory {
    fn of(listing: Listing, origin: Origin, limits: &Limits) -> Self {
        let Listing { files, mut skipped, notes, left_out, .. } = listing;
        skipped.extend(selection::not_included(&left_out, files.iter().map(|it| it.path.as_str())));
        let mut inventory = Inventory { commit: None, files: Vec::new(), skipped, notes, origin };
        let measured = match &inventory.origin {
            Origin::WorkTree(files_on_disk) => measured(files, files_on_disk),
            Origin::Objects(objects) => measured(files, &**objects),
        };
        inventory.files = within(limits, measured, &mut inventory.skipped);
        inventory.skipped.sort();
        inventory.skipped.dedup();
        inventory.notes.sort();
        inventory
    }

    /// Reads the chosen files in parallel, and parses those whose content is not `known` to the caller; results in the order of
    /// `chosen`. A file that can't be read costs itself.
    pub fn read(
        &self,
        chosen: &[usize],
        known: &Known,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Vec<Result<FileRead, SkipReason>> {
        let files = chosen.iter().map(|at| &self.files[*at]).collect();
        match &self.origin {
            Origin::WorkTree(on_disk) => read_all(files, known, progress, on_disk),
            Origin::Objects(objects) => read_all(files, known, progress, &**objects),
        }
    }
}

/// Whether a file's content needs no parsing.
pub type Known<'a> = dyn Fn(&Entry, ContentId) -> bool + Sync + 'a;

/// The files of a snapshot before they are measured.
#[derive(Default)]
struct Listing {
    files: Vec<Listed>,
    skipped: Vec<Skipped>,
    notes: Vec<Note>,
    selection: Selection,
    /// Sources that are not among what is to be included.
    left_out: Vec<String>,
}

struct Listed {
    path: String,
    wanted: bool,
    language: &'static Language,
    /// Where its bytes are in a repository.
    object: Option<gix::ObjectId>,
}

impl Listing {
    fn of(selection: Selection) -> Self {
        Listing { selection, ..Listing::default() }
    }

    fn skip(&mut self, path: String, reason: SkipReason) {
        self.skipped.push(Skipped { path, reason });
    }

    /// Takes a file in if its name is that of a source and the user wants it.
    fn file(&mut self, path: String, wanted: bool, object: Option<gix::ObjectId>) {
        let Some(language) = language::of_path(&path) else { return };
        if let Some(reason) = self.selection.excluded(&path, false) {
            return self.skip(path, reason);
        }
        if !self.selection.includes(&path) {
            return self.left_out.push(path);
        }
        match filter::by_name(&path).filter(|_| !wanted) {
            Some(reason) => self.skip(path, reason),
            None => self.files.push(Listed { path, wanted, language, object }),
        }
    }
}

/// How the listed files of a kind of snapshot are read.
trait Files: Sync {
    /// What a thread needs.
    type Worker;

    fn worker(&self) -> Self::Worker;

    /// What is known of a file unread, or why it is not read.
    fn measure(&self, worker: &mut Self::Worker, file: &Listed) -> Result<Stamp, SkipReason>;

    /// A file's bytes and their identity.
    fn load(&self, worker: &mut Self::Worker, file: &Entry) -> Result<(Vec<u8>, ContentId), SkipReason>;
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

type Measured = (Listed, Result<Stamp, SkipReason>);

/// The files in the order of their paths, each with its stamp.
fn measured<F: Files>(mut listed: Vec<Listed>, files: &F) -> Vec<Measured> {
    listed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listed.dedup_by(|a, b| a.path == b.path);
    let measured = |worker: &mut F::Worker, file| (files.measure(worker, &file), file);
    let measured = listed.into_par_iter().with_min_len(FILES_AT_ONCE).map_init(|| files.worker(), measured);
    measured.map(|(stamp, file)| (file, stamp)).collect()
}

/// Asking for a file's size takes microseconds, and a worker for a repository some milliseconds.
const FILES_AT_ONCE: usize = 256;

/// The first files that are within the limits.
fn within(limits: &Limits, measured: Vec<Measured>, skipped: &mut Vec<Skipped>) -> Vec<Entry> {
    let (mut kept, mut all) = (Vec::with_capacity(measured.len().min(limits.files)), 0);
    for (Listed { path, wanted, language, .. }, stamp) in measured {
        let reason = match stamp {
            Err(reason) => reason,
            Ok(_) if kept.len() >= limits.files => SkipReason::TooManyFiles { limit: limits.files },
            Ok(stamp) if stamp.bytes() > limits.bytes - all => SkipReason::TooManyBytes { limit: limits.bytes },
            Ok(stamp) => {
                all += stamp.bytes();
                kept.push(Entry { path, wanted, stamp, language });
                continue;
            }
        };
        skipped.push(Skipped { path, reason });
    }
    kept
}

/// What the files give, in their order. The largest are begun first, so that none is left when all others are done.
fn read_all<F: Files>(
    chosen: Vec<&Entry>,
    known: &Known,
    progress: &(dyn Fn(usize, usize) + Sync),
    files: &F,
) -> Vec<Result<FileRead, SkipReason>> {
    let (done, total) = (AtomicUsize::new(0), chosen.len());
    let deadline = Deadline::of(chosen.iter().map(|file| file.stamp.bytes()).sum());
    let mut queue: Vec<_> = chosen.into_iter().enumerate().collect();
    queue.sort_by_key(|(_, file)| Reverse(file.stamp.bytes()));
    let read = |worker: &mut F::Worker, (at, file): (usize, &Entry)| {
        let result = files.load(worker, file).map(|(bytes, id)| match known(file, id) {
            true => FileRead { id, content: FileContent::Known },
            false => FileRead { id, content: read_file(file, bytes, deadline) },
        });
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        (at, result)
    };
    let mut results: Vec<_> = queue.into_iter().par_bridge().map_init(|| files.worker(), read).collect();
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn read_file(file: &Entry, bytes: Vec<u8>, deadline: Deadline) -> FileContent {
    if let Some(reason) = filter::by_bytes(&bytes) {
        return FileContent::NoSource(reason);
    }
    let text::Decoded { text, note: decoding } = text::decode(bytes);
    match filter::by_text(&file.path, &text).filter(|_| !file.wanted) {
        Some(reason) => FileContent::NoSource(reason),
        None => {
            let language = language::detect(&file.path, &text).unwrap_or(file.language);
            FileContent::Source(SourceRead { extracted: extract(language, text, deadline), decoding })
        }
    }
}

impl Snapshot {
    fn add(&mut self, path: &str, read: SourceRead) {
        self.notes.extend(read.notes().map(|message| Note { path: path.to_owned(), message: message.clone() }));
        let functions: Vec<(String, std::ops::Range<usize>, Lines)> =
            read.functions().map(|(it, lines)| (it.name.clone(), it.range.clone(), lines)).collect();
        let source = Arc::new(Source::new(path, read.extracted.language, read.extracted.text));
        self.candidates.push(Candidate::file(Arc::clone(&source)));
        self.candidates.extend(
            functions
                .into_iter()
                .map(|(name, range, lines)| Candidate::function(Arc::clone(&source), name, range, lines)),
        );
        self.sources.push(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of files of so many bytes, and what is said of the others.
    #[track_caller]
    fn check(limits: Limits, sizes: &[(&str, u64)], expected: &[&str], expected_skipped: &[(&str, &str)]) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut listing = Listing::default();
        for (path, size) in sizes {
            std::fs::write(folder.path().join(path), vec![b'\n'; *size as usize]).expect("a file");
            listing.file(path.to_string(), false, None);
        }
        let root = folder.path().to_path_buf();
        let origin = Origin::WorkTree(walk::WorkTree { root, max_bytes: 100, hash: gix::hash::Kind::Sha1 });
        let inventory = Inventory::of(listing, origin, &limits);
        let paths: Vec<&str> = inventory.files.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, expected);
        let skipped: Vec<_> = inventory.skipped.iter().map(|it| (it.path.as_str(), it.reason.to_string())).collect();
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
