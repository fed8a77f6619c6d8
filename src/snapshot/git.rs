//! What git says: which repository a directory is in, what it tracks and ignores there, and the files of a revision.
//!
//! Reads only; runs no git, contacts no remote, obeys no `GIT_*` variable (a hook sets them for another repository). git's
//! own settings are found the way git finds them, by `HOME` and `XDG_CONFIG_HOME`: the one place outside `config` where
//! the environment counts.
//! Knows nothing of file contents.

use std::path::{Path, PathBuf};

use gix::ThreadSafeRepository;
use gix::bstr::{BStr, ByteSlice};
use gix::glob::pattern::Case;
use gix::index::entry::Mode;
use gix::objs::tree::EntryKind;
use gix::{ObjectId, Repository};

use super::rules::{IGNORE_BYTES, Rules, Verdict};
use super::selection::Selection;
use super::walk::{CONTROL_DIRECTORIES, OWN_IGNORE_FILE, Scope, Tracked, joined, read_ignore_file};
use super::{Entry, Files, Listed, Listing, Note, SkipReason, SnapshotError, filter};
use crate::types::{ContentId, Stamp};

/// Paths in a tree may have any length. Longer ones than any system lets a checkout have are not read.
const PATH_BYTES: usize = 4096;

/// A few objects can describe a tree of more files than there is memory for, so what is listed of it may have so many
/// bytes in all: for each entry its path and [`ENTRY_BYTES`], and the ignore files. The largest real trees stay below it.
const LISTED_BYTES: usize = 1 << 28;

/// What an entry costs besides its path.
const ENTRY_BYTES: usize = 64;

/// A tree object longer than this, in bytes, is not read; a million entries have half of it.
const TREE_BYTES: u64 = 1 << 26;

/// Where the files of a snapshot are.
pub(super) enum Place {
    WorkTree(Scope),
    Revision(Box<Revision>),
}

/// A commit of a repository and its source files.
pub(super) struct Revision {
    pub(super) repository: ThreadSafeRepository,
    /// Full hash; `None` of a repository without commits.
    pub(super) commit: Option<String>,
    pub(super) listing: Listing,
}

/// Where to read what a user means by a directory (absolute, links resolved) and perhaps a revision, whose files are listed by a selection.
pub(super) fn locate(root: &Path, revision: Option<&str>, selection: &Selection) -> Result<Place, SnapshotError> {
    let repository = match opened(root, revision) {
        Ok(Some(repository)) => repository,
        Ok(None) => return Ok(Place::WorkTree(Scope::plain())),
        Err(SnapshotError::Repository { message, .. }) if revision.is_none() => {
            return Ok(Place::WorkTree(scope_without_git(message)));
        }
        Err(error) => return Err(error),
    };
    let local = repository.to_thread_local();
    match (revision, prefix(&local, root)) {
        (Some(revision), prefix) => {
            revision_at(repository, root, revision, prefix.as_deref().unwrap_or_default(), selection)
        }
        (None, Some(prefix)) => Ok(Place::WorkTree(scope(&local, prefix))),
        (None, None) if is_empty(&local) => {
            Ok(Place::Revision(Box::new(Revision { repository, commit: None, listing: Listing::default() })))
        }
        (None, None) => revision_at(repository, root, "HEAD", "", selection),
    }
}

/// The repository that a directory is in; it has to be in one if a revision is asked for.
fn opened(root: &Path, revision: Option<&str>) -> Result<Option<ThreadSafeRepository>, SnapshotError> {
    let path = || root.to_path_buf();
    match (open(root), revision) {
        (Ok(None), Some(revision)) => {
            Err(SnapshotError::NotARepository { path: path(), revision: revision.to_owned() })
        }
        (Err(message), _) => Err(SnapshotError::Repository { path: path(), message }),
        (Ok(repository), _) => Ok(repository),
    }
}

/// The commit that [`locate`] would list; `None` for the files on disk and for a repository without commits.
pub(super) fn commit_of(root: &Path, revision: Option<&str>) -> Result<Option<String>, SnapshotError> {
    let repository = match opened(root, revision) {
        Ok(Some(repository)) => repository,
        Ok(None) => return Ok(None),
        Err(SnapshotError::Repository { .. }) if revision.is_none() => return Ok(None),
        Err(error) => return Err(error),
    };
    let local = repository.to_thread_local();
    match revision {
        None if prefix(&local, root).is_some() || is_empty(&local) => Ok(None),
        _ => Ok(Some(commit_at(&local, root, revision.unwrap_or("HEAD"))?.0.to_string())),
    }
}

/// Whether a repository has no commits and no branches. One whose `HEAD` leads nowhere may still have branches.
fn is_empty(repository: &Repository) -> bool {
    let has_references = || repository.references().is_ok_and(|it| it.all().is_ok_and(|mut all| all.next().is_some()));
    repository.head().is_ok_and(|head| head.is_unborn()) && !has_references()
}

/// The repository that a directory is in, or is; an error if there is one that can't be opened.
fn open(root: &Path) -> Result<Option<ThreadSafeRepository>, String> {
    match ThreadSafeRepository::discover_opts(root, Default::default(), open_options()) {
        Ok(repository) => Ok(Some(repository)),
        Err(_) if gix::discover::upwards(root).is_err() => Ok(None),
        Err(error) => Err(one_line(&error)),
    }
}

/// Whoever owns the repository, it is read: nothing of its configuration is run.
fn open_options() -> gix::sec::trust::Mapping<gix::open::Options> {
    let mut mapping: gix::sec::trust::Mapping<gix::open::Options> = Default::default();
    let mut permissions = gix::open::Permissions::all();
    permissions.env.git_prefix = gix::sec::Permission::Deny;
    permissions.env.objects = gix::sec::Permission::Deny;
    mapping.full = mapping.full.permissions(permissions);
    mapping.reduced = mapping.reduced.permissions(permissions);
    mapping
}

/// The root of an error in one line: what stands around it tells of steps, not of the user's repository.
fn one_line(error: &gix::Error) -> String {
    let root = error.iter_errors().last().map(ToString::to_string).unwrap_or_default();
    root.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// The root relative to the top of its work tree; `None` if it is not in a work tree but in a repository's own directory.
fn prefix(repository: &Repository, root: &Path) -> Option<String> {
    let git_directory = repository.git_dir().canonicalize().ok()?;
    if root.starts_with(git_directory) {
        return None;
    }
    let top = repository.workdir()?.canonicalize().ok()?;
    let components = root.strip_prefix(top).ok()?.components();
    Some(components.map(|it| it.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/"))
}

fn scope_without_git(message: String) -> Scope {
    let message = format!("git's index and settings are not used, because the repository can't be opened: {message}");
    Scope { notes: vec![Note { path: ".git".to_owned(), message }], ..Scope::plain() }
}

fn scope(repository: &Repository, prefix: String) -> Scope {
    let mut scope = Scope { prefix, hash: repository.object_hash(), ..Scope::plain() };
    scope.rules = Rules::new(case(repository));
    let exclude = Some(repository.common_dir().join("info").join("exclude"));
    for file in excludes_file(repository).into_iter().chain(exclude) {
        if let Some(text) = read_ignore_file(&file).transpose() {
            let text = text.map_err(|error| error.to_string());
            scope.notes.extend(scope.rules.add(text, "", file.display().to_string()));
        }
    }
    if let Err(message) = read_index(repository, &mut scope) {
        let message = format!("the index can't be read, so ignored files that git tracks are left out: {message}");
        scope.notes.push(Note { path: repository.index_path().display().to_string(), message });
    }
    scope
}

fn case(repository: &Repository) -> Case {
    match repository.config_snapshot().boolean("core.ignoreCase") {
        Some(true) => Case::Fold,
        _ => Case::Sensitive,
    }
}

/// The user's own ignore file: the one that is configured, or else the one that git looks for.
fn excludes_file(repository: &Repository) -> Option<PathBuf> {
    let configured = repository.config_snapshot().trusted_path("core.excludesFile").ok().flatten();
    configured.or_else(|| gix::path::env::xdg_config("ignore", &mut gix::path::env::var))
}

/// Notes what git tracks below the scope's prefix.
fn read_index(repository: &Repository, scope: &mut Scope) -> Result<(), String> {
    let index = repository.index_or_empty().map_err(|error| one_line(&error))?;
    let prefix = if scope.prefix.is_empty() { String::new() } else { format!("{}/", scope.prefix) };
    let mut tracked = Tracked::default();
    for entry in index.entries() {
        let Some(path) = entry.path(&index).strip_prefix(prefix.as_bytes()) else { continue };
        let Ok(path) = path.to_str() else { continue };
        match entry.mode {
            Mode::COMMIT => _ = scope.submodules.insert(path.to_owned()),
            _ => tracked.insert(path.to_owned()),
        }
    }
    scope.tracked = tracked;
    Ok(())
}

fn revision_at(
    repository: ThreadSafeRepository,
    root: &Path,
    revision: &str,
    prefix: &str,
    selection: &Selection,
) -> Result<Place, SnapshotError> {
    let local = repository.to_thread_local();
    let (commit, tree) = commit_at(&local, root, revision)?;
    let listing = Listing::of(selection.clone());
    let mut lister = Lister { repository: &local, prefix_bytes: 0, listed_bytes: 0, listing };
    let directory = lister.descend(tree, prefix).ok_or_else(|| SnapshotError::NoSuchDirectory {
        revision: revision.to_owned(),
        directory: prefix.to_owned(),
    })?;
    lister.list(directory);
    let listing = lister.listing;
    Ok(Place::Revision(Box::new(Revision { repository, commit: Some(commit.to_string()), listing })))
}

fn commit_at(repository: &Repository, root: &Path, revision: &str) -> Result<(ObjectId, ObjectId), SnapshotError> {
    let failed =
        |message| SnapshotError::NoSuchRevision { path: root.to_path_buf(), revision: revision.to_owned(), message };
    resolve(repository, revision).map_err(failed)
}

/// The commit that a revision names, and its tree.
fn resolve(repository: &Repository, revision: &str) -> Result<(ObjectId, ObjectId), String> {
    if is_empty(repository) {
        return Err("it has no commits yet".to_owned());
    }
    let id = repository.rev_parse_single(BStr::new(revision)).map_err(|error| one_line(&error))?;
    let object = id.object().map_err(|error| one_line(&error))?;
    let commit = object.peel_to_kind(gix::objs::Kind::Commit).map_err(|error| one_line(&error))?.into_commit();
    let tree = commit.tree_id().map_err(|error| one_line(&error))?.detach();
    Ok((commit.id, tree))
}

/// The listed files of a revision.
pub(super) struct Objects {
    pub(super) repository: ThreadSafeRepository,
    pub(super) max_bytes: u64,
}

impl Files for Objects {
    type Worker = Repository;

    fn worker(&self) -> Repository {
        self.repository.to_thread_local()
    }

    fn measure(&self, worker: &mut Repository, file: &Listed) -> Result<Stamp, SkipReason> {
        let id = file.object.ok_or(SkipReason::MissingObject)?;
        Ok(Stamp::Object { bytes: measure(worker, id, self.max_bytes)?, id: identity(&id) })
    }

    fn load(&self, worker: &mut Repository, file: &Entry) -> Result<(Vec<u8>, ContentId), SkipReason> {
        let Stamp::Object { id: content, .. } = file.stamp else { return Err(SkipReason::MissingObject) };
        let id = ObjectId::try_from(&content.0[..worker.object_hash().len_in_bytes()]);
        let id = id.map_err(|_| SkipReason::MissingObject)?;
        Ok((object(worker, id)?.detach().data, content))
    }
}

/// An object's name as the identity of its content.
fn identity(id: &ObjectId) -> ContentId {
    let mut bytes = [0; 32];
    for (to, from) in bytes.iter_mut().zip(id.as_bytes()) {
        *to = *from;
    }
    ContentId(bytes)
}

/// What git would call a file of these bytes.
pub(super) fn content_id(hash: gix::hash::Kind, bytes: &[u8]) -> Result<ContentId, SkipReason> {
    let id = gix::objs::compute_hash(hash, gix::objs::Kind::Blob, bytes);
    id.map(|it| identity(&it)).map_err(|error| SkipReason::Unreadable { message: error.to_string() })
}

/// The bytes of an object, known before it is unpacked.
fn measure(repository: &Repository, id: ObjectId, limit: u64) -> Result<u64, SkipReason> {
    let header = repository.try_find_header(id).map_err(unreadable)?.ok_or(SkipReason::MissingObject)?;
    match header.size() {
        bytes if bytes > limit => Err(SkipReason::Oversized { bytes, limit }),
        bytes => Ok(bytes),
    }
}

fn object(repository: &Repository, id: ObjectId) -> Result<gix::Object<'_>, SkipReason> {
    repository.try_find_object(id).map_err(unreadable)?.ok_or(SkipReason::MissingObject)
}

fn find_tree(repository: &Repository, id: ObjectId) -> Result<gix::Tree<'_>, SkipReason> {
    measure(repository, id, TREE_BYTES)?;
    object(repository, id)?.try_into_tree().map_err(unreadable)
}

fn unreadable(error: gix::Error) -> SkipReason {
    SkipReason::Unreadable { message: one_line(&error) }
}

/// A directory of a tree that waits to be listed.
struct Directory {
    /// Relative to the top; empty for the top.
    path: String,
    tree: ObjectId,
    /// The rules of the directories above it.
    rules: Rules,
    wanted: bool,
}

/// Lists the source files of a tree. Iterative, so depth costs no stack.
struct Lister<'a> {
    repository: &'a Repository,
    /// What to take off a path from the top to have one from the root.
    prefix_bytes: usize,
    /// What counts for [`LISTED_BYTES`], so far.
    listed_bytes: usize,
    listing: Listing,
}

impl Lister<'_> {
    /// The directory at `prefix`, under the rules of those above it; `None` if there is no such directory.
    fn descend(&mut self, tree: ObjectId, prefix: &str) -> Option<Directory> {
        let mut directory = Directory { path: String::new(), tree, rules: Rules::new(Case::Sensitive), wanted: false };
        for name in prefix.split('/').filter(|it| !it.is_empty()) {
            let tree = find_tree(self.repository, directory.tree).ok()?;
            directory.rules = self.rules_in(&directory, &tree);
            directory.tree = tree.find_entry(name).filter(|entry| entry.mode().is_tree())?.object_id();
            directory.path = joined(&directory.path, name);
        }
        self.prefix_bytes = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
        Some(directory)
    }

    fn list(&mut self, root: Directory) {
        let mut pending = vec![root];
        while let Some(directory) = pending.pop() {
            let Err(reason) = self.read(&directory, &mut pending) else { continue };
            let is_full = matches!(reason, SkipReason::TreeTooLarge { .. });
            self.skip(&directory.path, reason);
            if is_full {
                return;
            }
        }
    }

    fn read(&mut self, directory: &Directory, pending: &mut Vec<Directory>) -> Result<(), SkipReason> {
        self.check_listed_bytes()?;
        let tree = find_tree(self.repository, directory.tree)?;
        let rules = self.rules_in(directory, &tree);
        for entry in tree.iter() {
            self.check_listed_bytes()?;
            let entry = entry.map_err(unreadable)?;
            let place = (entry.mode().kind(), entry.object_id());
            self.entry(directory, &rules, entry.filename(), place, pending);
        }
        Ok(())
    }

    fn check_listed_bytes(&self) -> Result<(), SkipReason> {
        match self.listed_bytes {
            0..=LISTED_BYTES => Ok(()),
            _ => Err(SkipReason::TreeTooLarge { limit: LISTED_BYTES }),
        }
    }

    fn entry(
        &mut self,
        directory: &Directory,
        rules: &Rules,
        name: &BStr,
        place: (EntryKind, ObjectId),
        pending: &mut Vec<Directory>,
    ) {
        let (kind, id) = place;
        let path = joined(&directory.path, &name.to_str_lossy());
        self.listed_bytes += path.len() + ENTRY_BYTES;
        let wanted = match rules.verdict(&path, kind == EntryKind::Tree) {
            Verdict::Ignored => return,
            verdict => directory.wanted || verdict == Verdict::Wanted,
        };
        let is_control = kind == EntryKind::Tree && CONTROL_DIRECTORIES.iter().any(|it| *name == *it);
        let excluded = if kind == EntryKind::Tree && !is_control { self.excluded(&path) } else { None };
        if let Some(reason) = excluded {
            return self.skip(&path, reason);
        }
        match kind {
            _ if path.len() > PATH_BYTES => self.skip(&path, SkipReason::PathTooLong { limit: PATH_BYTES }),
            EntryKind::Commit => self.skip(&path, SkipReason::Submodule),
            EntryKind::Link => self.skip(&path, SkipReason::SymbolicLink),
            EntryKind::Tree if is_control => {}
            EntryKind::Tree if !wanted && filter::is_vendored(&name.to_str_lossy()) => {
                self.skip(&path, SkipReason::Vendored)
            }
            _ if name.to_str().is_err() => self.unnameable(&path, kind),
            EntryKind::Tree => pending.push(Directory { path, tree: id, rules: rules.clone(), wanted }),
            EntryKind::Blob | EntryKind::BlobExecutable => self.listing.file(self.below_root(&path), wanted, Some(id)),
        }
    }

    /// Why the user wants no file of a directory.
    fn excluded(&self, path: &str) -> Option<SkipReason> {
        self.listing.selection.excluded(path.get(self.prefix_bytes..).unwrap_or_default(), true)
    }

    /// A name that is not UTF-8 can't be given back to anyone, so only that it exists is told.
    fn unnameable(&mut self, path: &str, kind: EntryKind) {
        if kind == EntryKind::Tree || super::language::of_path(path).is_some() {
            self.skip(path, SkipReason::PathNotUtf8);
        }
    }

    /// The directory's rules and those of the ignore file that lies in it.
    fn rules_in(&mut self, directory: &Directory, tree: &gix::Tree) -> Rules {
        let Some(entry) = tree.find_entry(OWN_IGNORE_FILE).filter(|it| it.mode().is_blob()) else {
            return directory.rules.clone();
        };
        let id = entry.object_id();
        let file = measure(self.repository, id, IGNORE_BYTES).and_then(|_| object(self.repository, id));
        let file = file.map(|it| it.detach().data).map_err(|reason| reason.to_string());
        self.listed_bytes += file.as_ref().map_or(0, Vec::len);
        let mut rules = directory.rules.clone();
        self.listing.notes.extend(rules.add(file, &directory.path, joined(&directory.path, OWN_IGNORE_FILE)));
        rules
    }

    fn skip(&mut self, path: &str, reason: SkipReason) {
        self.listing.skip(self.below_root(path), reason);
    }

    fn below_root(&self, path: &str) -> String {
        path.get(self.prefix_bytes..).unwrap_or_default().to_owned()
    }
}
