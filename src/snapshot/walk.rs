//! The source files of a working tree, by git's rules where there is a git, and by its ignore files where there isn't.
//!
//! Knows nothing of revisions, file contents or how the index is read: what git tracks comes in as a [`Scope`].

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{DirEntry, File, FileType, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use gix::glob::pattern::Case;

use super::rules::{IGNORE_BYTES, Rules, Verdict};
use super::selection::Selection;
use super::{Entry, Files, Listed, Listing, Note, SkipReason, filter, git, language};
use crate::types::{ContentId, Stamp};

/// Directories of version control systems, which hold no source.
pub(super) const CONTROL_DIRECTORIES: &[&str] = &[".git", ".hg", ".svn", ".jj", ".bzr"];

/// The ignore file of this program. It wins over git's rules.
pub(super) const OWN_IGNORE_FILE: &str = ".sightlineignore";

const GIT_IGNORE_FILE: &str = ".gitignore";

/// What git knows of the directory that is walked.
pub(super) struct Scope {
    /// The root relative to the top of the work tree, without a slash at the end; empty at the top.
    pub(super) prefix: String,
    /// The rules that count for the whole work tree.
    pub(super) rules: Rules,
    /// Paths of the index relative to the root.
    pub(super) tracked: Tracked,
    /// Directories of the index that are other repositories, relative to the root.
    pub(super) submodules: BTreeSet<String>,
    pub(super) notes: Vec<Note>,
    /// How the repository names contents.
    pub(super) hash: gix::hash::Kind,
}

impl Scope {
    /// Of a folder that is in no git work tree.
    pub(super) fn plain() -> Self {
        Scope {
            prefix: String::new(),
            rules: Rules::new(Case::Sensitive),
            tracked: Tracked::default(),
            submodules: BTreeSet::new(),
            notes: Vec::new(),
            hash: gix::hash::Kind::Sha1,
        }
    }
}

/// Files that git tracks, which count whatever the ignore rules say.
#[derive(Default)]
pub(super) struct Tracked(BTreeSet<String>);

impl Tracked {
    pub(super) fn insert(&mut self, path: String) {
        self.0.insert(path);
    }

    fn contains(&self, path: &str) -> bool {
        self.0.contains(path)
    }

    /// Whether a tracked file lies below the directory.
    fn is_above(&self, directory: &str) -> bool {
        let prefix = format!("{directory}/");
        self.0.range(prefix.clone()..).next().is_some_and(|path| path.starts_with(&prefix))
    }
}

/// A directory that waits to be read.
struct Directory {
    /// Relative to the root; empty for the root.
    path: String,
    git_rules: Rules,
    own_rules: Rules,
    /// The user asked for it by a negated pattern.
    wanted: bool,
    /// Only what git tracks counts: the directory is ignored, or is another repository.
    tracked_only: bool,
}

/// Lists the source files below a directory. Iterative, so depth costs no stack; links are not followed, so it ends.
pub(super) fn list(root: &Path, scope: Scope, selection: Selection) -> Listing {
    let mut walk = Walk {
        root,
        prefix: scope.prefix,
        tracked: scope.tracked,
        submodules: scope.submodules,
        listing: Listing::of(selection),
    };
    walk.listing.notes = scope.notes;
    let mut pending = vec![walk.root_directory(scope.rules)];
    while let Some(directory) = pending.pop() {
        walk.read(directory, &mut pending);
    }
    for path in std::mem::take(&mut walk.submodules) {
        walk.listing.skip(path, SkipReason::Submodule);
    }
    walk.listing
}

/// The listed files of a working tree.
pub(super) struct WorkTree {
    pub(super) root: PathBuf,
    pub(super) max_bytes: u64,
    /// How contents are named.
    pub(super) hash: gix::hash::Kind,
}

impl WorkTree {
    fn stamp(&self, path: &str) -> Result<Stamp, SkipReason> {
        let metadata = self.root.join(path).symlink_metadata().map_err(unreadable)?;
        if metadata.is_symlink() {
            return Err(SkipReason::SymbolicLink);
        }
        if !metadata.is_file() {
            return Err(SkipReason::NotAFile);
        }
        if metadata.len() > self.max_bytes {
            return Err(SkipReason::Oversized { bytes: metadata.len(), limit: self.max_bytes });
        }
        Ok(Stamp::Disk { bytes: metadata.len(), modified: modified(&metadata), changed: changed(&metadata) })
    }
}

/// When the content was last changed, in nanoseconds since 1970; 0 where the file system doesn't know.
fn modified(metadata: &Metadata) -> i64 {
    let since_1970 = metadata.modified().ok().and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
    since_1970.map_or(0, |it| it.as_nanos() as i64)
}

/// When the entry was last changed: unlike the time above, no program can set it.
#[cfg(unix)]
fn changed(metadata: &Metadata) -> i64 {
    use std::os::unix::fs::MetadataExt;
    metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> i64 {
    0
}

impl Files for WorkTree {
    type Worker = ();

    fn worker(&self) {}

    fn measure(&self, _: &mut (), file: &Listed) -> Result<Stamp, SkipReason> {
        self.stamp(&file.path)
    }

    fn load(&self, _: &mut (), file: &Entry) -> Result<(Vec<u8>, ContentId), SkipReason> {
        // Asked again before opening: the file may be another by now, and opening a pipe waits for its other end.
        let expected = self.stamp(&file.path)?.bytes();
        let path = self.root.join(&file.path);
        let opened = gix::fs::open_options_no_follow().read(true).open(path).map_err(unreadable)?;
        let bytes = read_at_most(opened, self.max_bytes, expected)?;
        let id = git::content_id(self.hash, &bytes)?;
        Ok((bytes, id))
    }
}

/// Reads a file that may grow meanwhile.
fn read_at_most(file: File, max_bytes: u64, expected: u64) -> Result<Vec<u8>, SkipReason> {
    let mut bytes = Vec::with_capacity(expected.min(max_bytes) as usize + 1);
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > max_bytes {
        return Err(SkipReason::Oversized { bytes: bytes.len() as u64, limit: max_bytes });
    }
    Ok(bytes)
}

fn unreadable(error: io::Error) -> SkipReason {
    SkipReason::Unreadable { message: error.to_string() }
}

/// An ignore file: nothing if it isn't there, or is a link (as git has it), or isn't a file.
pub(super) fn read_ignore_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match path.symlink_metadata() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.is_file() => Ok(None),
        Ok(metadata) if metadata.len() > IGNORE_BYTES => Err(io::ErrorKind::FileTooLarge.into()),
        Ok(_) => std::fs::read(path).map(Some),
    }
}

struct Walk<'a> {
    root: &'a Path,
    prefix: String,
    tracked: Tracked,
    submodules: BTreeSet<String>,
    listing: Listing,
}

impl Walk<'_> {
    /// The root, under the ignore files of the directories between the top of the work tree and it. That they may
    /// ignore the root itself doesn't count: the user asked for it.
    fn root_directory(&mut self, git_rules: Rules) -> Directory {
        let own_rules = Rules::new(Case::Sensitive);
        let mut directory = Directory { path: String::new(), git_rules, own_rules, wanted: false, tracked_only: false };
        let depth = if self.prefix.is_empty() { 0 } else { self.prefix.split('/').count() };
        for (steps, ancestor) in self.root.ancestors().skip(1).take(depth).collect::<Vec<_>>().iter().enumerate().rev()
        {
            let place = ancestor_of(&self.prefix, steps + 1).to_owned();
            self.add_rules(&mut directory, ancestor, &place);
        }
        directory
    }

    fn read(&mut self, mut directory: Directory, pending: &mut Vec<Directory>) {
        let absolute = self.root.join(&directory.path);
        let entries = match std::fs::read_dir(&absolute) {
            Ok(entries) => entries,
            Err(error) => return self.listing.skip(directory.path, unreadable(error)),
        };
        let place = self.below_top(&directory.path);
        self.add_rules(&mut directory, &absolute, &place);
        for entry in entries {
            match entry {
                Ok(entry) => self.entry(&directory, &entry, pending),
                Err(error) => self.listing.skip(directory.path.clone(), unreadable(error)),
            }
        }
    }

    /// Adds the ignore files that lie in a directory. `place` is its path from the top.
    fn add_rules(&mut self, directory: &mut Directory, absolute: &Path, place: &str) {
        for (name, rules) in [(GIT_IGNORE_FILE, &mut directory.git_rules), (OWN_IGNORE_FILE, &mut directory.own_rules)]
        {
            if let Some(file) = read_ignore_file(&absolute.join(name)).transpose() {
                let file = file.map_err(|error| error.to_string());
                self.listing.notes.extend(rules.add(file, place, joined(place, name)));
            }
        }
    }

    /// A path from the root, as a path from the top of the work tree.
    fn below_top(&self, path: &str) -> String {
        if path.is_empty() { self.prefix.clone() } else { joined(&self.prefix, path) }
    }

    fn entry(&mut self, directory: &Directory, entry: &DirEntry, pending: &mut Vec<Directory>) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { return self.unnameable(directory, &name, entry.file_type().ok()) };
        if CONTROL_DIRECTORIES.contains(&name) {
            return;
        }
        let path = joined(&directory.path, name);
        let file_type = match entry.file_type() {
            Ok(file_type) => file_type,
            Err(error) => return self.listing.skip(path, unreadable(error)),
        };
        let Some(wanted) = self.is_wanted(directory, &path, file_type.is_dir()) else { return };
        let tracked_only = !wanted && self.is_ignored(directory, &path, file_type.is_dir());
        if file_type.is_dir() {
            let Directory { git_rules, own_rules, .. } = directory;
            let (git_rules, own_rules) = (git_rules.clone(), own_rules.clone());
            let child = Directory { path, git_rules, own_rules, wanted, tracked_only };
            pending.extend(self.enter(child, name));
        } else if !tracked_only || self.tracked.contains(&path) {
            self.file(path, file_type, wanted);
        }
    }

    /// Whether the user asked for a path, or for a directory above it; `None` if the user wants it ignored.
    fn is_wanted(&self, directory: &Directory, path: &str, is_directory: bool) -> Option<bool> {
        match directory.own_rules.verdict(&self.below_top(path), is_directory) {
            Verdict::Ignored => None,
            Verdict::Wanted => Some(true),
            Verdict::Unsaid => Some(directory.wanted),
        }
    }

    fn is_ignored(&self, directory: &Directory, path: &str, is_directory: bool) -> bool {
        directory.tracked_only || directory.git_rules.verdict(&self.below_top(path), is_directory) == Verdict::Ignored
    }

    /// The directory as it is to be read, if it is.
    fn enter(&mut self, mut directory: Directory, name: &str) -> Option<Directory> {
        let is_submodule = self.submodules.contains(&directory.path);
        let is_ignored = directory.tracked_only && !self.tracked.is_above(&directory.path);
        if let Some(reason) = self.listing.selection.excluded(&directory.path, true) {
            if !is_submodule && !is_ignored {
                self.listing.skip(directory.path, reason);
            }
            return None;
        }
        if directory.wanted {
            self.submodules.remove(&directory.path);
            return Some(directory);
        }
        if is_submodule {
            return None;
        }
        if is_ignored {
            return None;
        }
        // A revision knows no ignored directories, and what is read of both is the same.
        if filter::is_vendored(name) {
            self.listing.skip(directory.path, SkipReason::Vendored);
            return None;
        }
        if directory.tracked_only {
            return Some(directory);
        }
        if let Some(reason) = other_repository(&self.root.join(&directory.path)) {
            self.listing.skip(directory.path.clone(), reason);
            directory.tracked_only = true;
            return self.tracked.is_above(&directory.path).then_some(directory);
        }
        Some(directory)
    }

    fn file(&mut self, path: String, file_type: FileType, wanted: bool) {
        if file_type.is_symlink() {
            return self.listing.skip(path, SkipReason::SymbolicLink);
        }
        if !file_type.is_file() {
            return self.listing.skip(path, SkipReason::NotAFile);
        }
        self.listing.file(path, wanted, None);
    }

    /// A name that is not UTF-8 can't be given back to anyone, so only that it exists is told.
    fn unnameable(&mut self, directory: &Directory, name: &OsStr, file_type: Option<FileType>) {
        let path = joined(&directory.path, &name.to_string_lossy());
        let is_directory = file_type.is_some_and(|it| it.is_dir());
        let is_known = is_directory || language::of_path(&path).is_some();
        if is_known && !self.is_ignored(directory, &path, is_directory) {
            self.listing.skip(path, SkipReason::PathNotUtf8);
        }
    }
}

/// Why a directory's files are not the parent's code: it is a repository itself. A `.git` that git would not take for
/// a repository doesn't make it one.
fn other_repository(directory: &Path) -> Option<SkipReason> {
    let dot_git = directory.join(".git");
    let metadata = dot_git.symlink_metadata().ok()?;
    if metadata.is_file() {
        return pointed_repository(&dot_git);
    }
    let is_repository = dot_git.is_dir() && ["HEAD", "objects", "refs"].iter().all(|it| dot_git.join(it).exists());
    is_repository.then_some(SkipReason::NestedRepository)
}

/// Linked worktrees and submodules have a `.git` file that says where their repository is.
fn pointed_repository(dot_git: &Path) -> Option<SkipReason> {
    let mut text = Vec::new();
    File::open(dot_git).ok()?.take(4096).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let target = PathBuf::from(text.strip_prefix("gitdir:")?.trim());
    let is_below = |name: &str| target.components().any(|it| it.as_os_str() == name);
    Some(match (is_below("worktrees"), is_below("modules")) {
        (true, _) => SkipReason::LinkedWorktree,
        (false, true) => SkipReason::Submodule,
        (false, false) => SkipReason::NestedRepository,
    })
}

/// The path without its last `steps` components.
fn ancestor_of(path: &str, steps: usize) -> &str {
    (0..steps).fold(path, |path, _| path.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// A name in a directory, which is empty for the root.
pub(super) fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
