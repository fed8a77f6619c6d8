//! What of a repository an index knows already, and what has changed since.
//!
//! Knows nothing of models and vectors.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::IngestError;
use crate::index::build::{Build, Part, Row, Rules, Target};
use crate::index::directory::RepositoryDirectory;
use crate::index::segment::{self, File, FileContent, Segment};
use crate::index::store::ModelKey;
use crate::index::view::{self, Parts};
use crate::snapshot::{self, Entry, Inventory};
use crate::types::{Candidate, ContentId, Source, Stamp};

/// What decides what a file's content gives, in this program and under these options.
pub fn rules(options: &snapshot::Options) -> Rules {
    let snapshot::Options { max_file_bytes, include, exclude, detached } = options.clone();
    Rules { code: env!("PARSING_RULES").to_owned(), max_file_bytes, include, exclude, detached }
}

/// The options that rules were made of.
pub fn options(rules: &Rules) -> snapshot::Options {
    let Rules { max_file_bytes, include, exclude, detached, .. } = rules.clone();
    snapshot::Options { max_file_bytes, include, exclude, detached }
}

/// The parts of a repository's builds whose files give what they would give now.
pub(super) struct Base {
    pub parts: Vec<Part>,
    pub segments: Vec<Arc<Segment>>,
    pub opened: Parts,
    /// Where the file of a path and content is: part and number.
    by_content: HashMap<(Arc<str>, ContentId, bool), (u32, u32)>,
}

impl Base {
    /// Opens what can be opened of a repository's builds; of two that share a segment, the vectors of `model` count.
    pub fn open(
        directory: &RepositoryDirectory,
        builds: &[Build],
        target: &Target,
        rules: &Rules,
        model: &ModelKey,
    ) -> Self {
        let mut base =
            Base { parts: Vec::new(), segments: Vec::new(), opened: Parts::default(), by_content: HashMap::new() };
        // Those of the model first, and of the target before others.
        let rank = |it: &&Build| (it.manifest.model.as_ref() != Some(model), it.manifest.target != *target);
        let mut usable: Vec<&Build> = builds.iter().filter(|it| it.manifest.rules.read_alike(rules)).collect();
        usable.sort_by_key(rank);
        for build in usable {
            let is_own = build.manifest.target == *target;
            build.manifest.parts.iter().for_each(|it| base.add(directory, it, is_own));
        }
        base
    }

    fn add(&mut self, directory: &RepositoryDirectory, part: &Part, is_own: bool) {
        if self.number_of(part).is_some() {
            return;
        }
        // One that is damaged is as good as none: its files are read again.
        let sound = directory.open(&part.segment, segment::FORMAT);
        // All bytes of the build at hand are looked at; what others share with it only when it is used.
        let sound = sound.and_then(|it| if is_own { it.check_all() } else { Ok(()) });
        let (Ok(()), Ok(segment)) = (sound, self.opened.segment(directory, part)) else { return };
        let number = self.parts.len() as u32;
        for (at, file) in (0..).zip(&segment.files) {
            self.by_content.entry((file.path.clone(), file.id, file.wanted)).or_insert((number, at));
        }
        self.parts.push(part.clone());
        self.segments.push(segment);
    }

    fn number_of(&self, part: &Part) -> Option<u32> {
        self.parts.iter().position(|it| it.segment == part.segment).map(|it| it as u32)
    }

    /// A build's rows by path, in terms of these parts.
    fn rows_of(&self, build: &Build) -> Vec<(Arc<str>, Row)> {
        let numbers: Vec<Option<u32>> = build.manifest.parts.iter().map(|it| self.number_of(it)).collect();
        let row = |row: &Row| {
            let row = Row { part: (*numbers.get(row.part as usize)?)?, ..*row };
            Some((view::file_of(&self.segments, &row)?.path.clone(), row))
        };
        build.rows.iter().filter_map(row).collect()
    }

    fn id_of(&self, row: &Row) -> Option<ContentId> {
        view::file_of(&self.segments, row).map(|it| it.id)
    }

    fn known(&self, entry: &Entry, id: ContentId) -> Option<(u32, u32)> {
        self.by_content.get(&(entry.path.as_str().into(), id, entry.wanted)).copied()
    }
}

/// What has changed in a repository since a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl Changes {
    pub fn count(&self) -> usize {
        self.added.len() + self.changed.len() + self.removed.len()
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

/// A file of an inventory, as far as it is known.
enum Found {
    /// As it was when it was indexed.
    Same(Row),
    /// Only its content can tell.
    Unsure(Row),
    New,
}

/// Files changed less than so many nanoseconds before they were listed may have been changed again within one tick of the file
/// system's clock.
const TICK: i64 = 20_000_000;
/// File systems whose times have no fractions of a second count in steps of two.
const COARSE_TICK: i64 = 2_000_000_000;

/// Whether a file with this stamp can't have been changed since it was listed without getting another stamp.
fn is_settled(stamp: &Stamp, listed: i64) -> bool {
    match stamp {
        Stamp::Object { .. } => true,
        Stamp::Disk { modified, changed, .. } => {
            let last = *modified.max(changed);
            let tick = if last % 1_000_000_000 == 0 { COARSE_TICK } else { TICK };
            last.saturating_add(tick) < listed
        }
    }
}

/// Compares an inventory with a build's rows, both in the order of their paths.
fn compare(
    inventory: &Inventory,
    rows: &[(Arc<str>, Row)],
    segments: &[Arc<Segment>],
    listed: i64,
) -> (Vec<Found>, Vec<String>) {
    let mut rows = rows.iter().peekable();
    let mut removed = Vec::new();
    let mut found = Vec::with_capacity(inventory.files.len());
    for entry in &inventory.files {
        while let Some((path, _)) = rows.next_if(|it| *it.0 < *entry.path) {
            removed.push(path.to_string());
        }
        let row = rows.next_if(|it| *it.0 == *entry.path).map(|it| it.1);
        found.push(row.map_or(Found::New, |row| same_or_unsure(entry, row, segments, listed)));
    }
    removed.extend(rows.map(|it| it.0.to_string()));
    (found, removed)
}

fn same_or_unsure(entry: &Entry, row: Row, segments: &[Arc<Segment>], listed: i64) -> Found {
    // One that could not be read then is tried again.
    let is_known = view::file_of(segments, &row).is_some_and(|it| it.wanted == entry.wanted && it.id != UNREADABLE);
    let is_same = is_known && entry.stamp == row.stamp && is_settled(&entry.stamp, listed);
    if is_same { Found::Same(row) } else { Found::Unsure(row) }
}

/// What has changed since a build of a working tree. Only files whose stamps can't tell are read, and none is parsed.
pub fn changes(inventory: &Inventory, build: &Build, segments: &[Arc<Segment>]) -> Changes {
    let row = |row: &Row| Some((view::file_of(segments, row)?.path.clone(), *row));
    let rows: Vec<(Arc<str>, Row)> = build.rows.iter().filter_map(row).collect();
    let (found, removed) = compare(inventory, &rows, segments, build.manifest.listed);
    let mut changes = Changes { removed, ..Changes::default() };
    let (mut unsure, mut expected) = (Vec::new(), Vec::new());
    for (at, found) in found.iter().enumerate() {
        match found {
            Found::Same(_) => {}
            Found::New => changes.added.push(inventory.files[at].path.clone()),
            Found::Unsure(row) => {
                unsure.push(at);
                expected.push(view::file_of(segments, row).map(|it| (it.id, it.wanted)));
            }
        }
    }
    let read = inventory.read(&unsure, &|_, _| true, &|_, _| ());
    for ((at, expected), read) in unsure.into_iter().zip(expected).zip(read) {
        let entry = &inventory.files[at];
        // A file that can't be read has no content of its own; it was indexed as such if it could not be read then.
        let id = read.map_or(UNREADABLE, |it| it.id);
        if expected != Some((id, entry.wanted)) {
            changes.changed.push(entry.path.clone());
        }
    }
    changes
}

/// Stands for the content of a file that could not be read.
const UNREADABLE: ContentId = ContentId([0; 32]);

/// Whether a file could not be read.
pub(super) fn is_unreadable(file: &File) -> bool {
    file.id == UNREADABLE
}

/// A repository's files: those that are indexed, and those that are to be.
pub(super) struct Surveyed {
    /// The indexed ones with the path of each.
    pub rows: Vec<(Arc<str>, Row)>,
    /// The others, with their stamps.
    pub fresh: Vec<(File, Stamp)>,
    /// Nothing at all has changed since the build, not even a stamp.
    pub is_unchanged: bool,
    pub changes: Changes,
    /// Files whose content was looked at.
    pub read: usize,
}

/// Finds the files of an inventory in the parts of a base, and reads those that are not there.
pub(super) fn survey(
    inventory: &Inventory,
    build: Option<&Build>,
    base: &Base,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Surveyed {
    let rows = build.map(|it| base.rows_of(it)).unwrap_or_default();
    let (found, removed) = compare(inventory, &rows, &base.segments, build.map_or(0, |it| it.manifest.listed));
    let is_complete = build.is_some_and(|it| it.rows.len() == rows.len());
    let mut surveyed = Surveyed {
        rows: Vec::new(),
        fresh: Vec::new(),
        is_unchanged: is_complete && removed.is_empty() && found.iter().all(|it| matches!(it, Found::Same(_))),
        changes: Changes { removed, ..Changes::default() },
        read: 0,
    };
    let mut unread = Vec::new();
    for (at, found) in found.iter().enumerate() {
        let entry = &inventory.files[at];
        match (found, entry.stamp) {
            (Found::Same(row), _) => surveyed.rows.push((entry.path.as_str().into(), *row)),
            (_, Stamp::Object { id, .. }) if base.known(entry, id).is_some() => surveyed.keep(entry, id, base, found),
            _ => unread.push(at),
        }
    }
    surveyed.read = unread.len();
    let read = inventory.read(&unread, &|entry, id| base.known(entry, id).is_some(), progress);
    for (at, read) in unread.into_iter().zip(read) {
        surveyed.take(&inventory.files[at], read, base, &found[at]);
    }
    surveyed
}

impl Surveyed {
    /// A file that was read, or could not be.
    fn take(
        &mut self,
        entry: &Entry,
        read: Result<snapshot::FileRead, snapshot::SkipReason>,
        base: &Base,
        found: &Found,
    ) {
        match (read, found) {
            (Ok(snapshot::FileRead { id, content: snapshot::FileContent::Known }), _) => {
                self.keep(entry, id, base, found)
            }
            (Ok(snapshot::FileRead { id, content }), _) => self.add(entry, id, content, found),
            (Err(_), Found::Unsure(row)) if base.id_of(row) == Some(UNREADABLE) => {
                self.keep_row(entry, row.part, row.number);
            }
            (Err(reason), _) => self.add(entry, UNREADABLE, snapshot::FileContent::NoSource(reason), found),
        }
    }

    /// A file whose content is indexed.
    fn keep(&mut self, entry: &Entry, id: ContentId, base: &Base, found: &Found) {
        let Some((part, number)) = base.known(entry, id) else { return };
        match found {
            Found::New => self.changes.added.push(entry.path.clone()),
            Found::Unsure(row) | Found::Same(row) if base.id_of(row) != Some(id) => {
                self.changes.changed.push(entry.path.clone())
            }
            Found::Unsure(_) | Found::Same(_) => {}
        }
        self.keep_row(entry, part, number);
    }

    fn keep_row(&mut self, entry: &Entry, part: u32, number: u32) {
        self.rows.push((entry.path.as_str().into(), Row { part, number, stamp: entry.stamp }));
    }

    fn add(&mut self, entry: &Entry, id: ContentId, content: snapshot::FileContent, found: &Found) {
        let changed = if matches!(found, Found::New) { &mut self.changes.added } else { &mut self.changes.changed };
        changed.push(entry.path.clone());
        let path: Arc<str> = entry.path.as_str().into();
        let content = match content {
            snapshot::FileContent::Source(read) => source(&path, read),
            snapshot::FileContent::NoSource(reason) => FileContent::NoSource { reason: reason.to_string() },
            // Nobody else knows it.
            snapshot::FileContent::Known => return,
        };
        self.fresh.push((File { path, id, wanted: entry.wanted, content }, entry.stamp));
    }
}

fn source(path: &Arc<str>, read: snapshot::SourceRead) -> FileContent {
    let notes = read.notes().cloned().collect();
    let functions: Vec<_> = read.functions().map(|(it, lines)| (it.name.clone(), it.range.clone(), lines)).collect();
    let source = Arc::new(Source::new(path.clone(), read.extracted.language, read.extracted.text));
    let functions =
        functions.into_iter().map(|(name, range, lines)| Candidate::function(source.clone(), name, range, lines));
    let candidates = std::iter::once(Candidate::file(source.clone())).chain(functions).collect();
    FileContent::Source { candidates, notes }
}

/// What an index of `root` at `revision` would be of: the files on disk, or a commit.
///
/// # Errors
/// Those of [`snapshot::commit_of`].
pub fn target(root: &Path, revision: Option<&str>, options: &snapshot::Options) -> Result<Target, IngestError> {
    Ok(snapshot::commit_of(root, revision, options)?.map_or(Target::WorkTree, Target::Commit))
}
