//! F3: a repository into its index: reads what is new, embeds what was never embedded, and publishes a build.
//!
//! What is finished is kept at once: vectors in the store, batch by batch. A build counts only when all of it is on disk, and until
//! then the one before it does. Knows nothing of flags and output.

mod embed;
mod refill;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::encoder::{Encoder, EncoderError, ModelInfo};
use crate::fsio::{self, FileError};
use crate::index::build::{Build, Counts, Manifest, ModelRun, Named, Part, Remark, Row, Rules, Target};
use crate::index::directory::{IndexError, Lock, RepositoryDirectory, SourceRecord};
use crate::index::embeddings::{self, EmbeddingsError, LevelWriter, SegmentVectors};
use crate::index::segment::{self, File, FileContent, SegmentError};
use crate::index::store::{EmbeddingStore, ModelKey, StoreError};
use crate::snapshot::{self, Inventory, SkipReason, SnapshotError};
use crate::types::{Level, Stamp, TextError};

pub use embed::halves;
use embed::{ASKED, Embedder};
use survey::{Base, Surveyed};

pub use survey::{Changes, options, rules, target};

use crate::index::vectors::{GRAPH_FORMAT, VectorError, build_graph, is_worth_a_graph};
use crate::index::view::{self, View};

/// What is indexed, with what, and who hears of it.
pub struct Job<'a> {
    /// The repository, an absolute path without links.
    pub root: &'a Path,
    pub revision: Option<&'a str>,
    pub options: &'a snapshot::Options,
    pub encoder: &'a dyn Encoder,
    pub store: &'a dyn EmbeddingStore,
    pub missing: Missing,
    pub observer: &'a dyn Observer,
}

/// What becomes of windows whose vectors neither the index nor the store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// They are embedded.
    Embed,
    /// They stay without a vector until the store has it: the index is partial, and fills itself by what questions embed.
    Leave,
}

/// Hears how far the work is, from any thread, and may end it.
pub trait Observer: Sync {
    fn at(&self, phase: Phase, done: usize, total: usize);

    /// Asked between batches; the work ends with [`IngestError::Stopped`] then.
    fn should_stop(&self) -> bool;
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Files are read and parsed.
    Reading,
    /// Candidates are cut into windows.
    Cutting,
    /// Windows are embedded; of the others so many were known.
    Embedding { known: usize },
    /// A graph of neighbours is built over many vectors.
    Linking,
}

/// What a run did.
#[derive(Debug, Clone)]
pub struct Report {
    pub target: Target,
    /// Whether there was anything to do: not if nothing has changed.
    pub is_new: bool,
    pub changes: Changes,
    pub counts: Counts,
    /// Files whose content was looked at.
    pub read: usize,
    pub embedding: Embedding,
    /// Candidates that were not in the index before.
    pub candidates: usize,
    pub skipped: usize,
    pub notes: usize,
    pub embedding_time: Duration,
    pub time: Duration,
}

/// What became of the windows of new candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Embedding {
    /// By the encoder, in this run.
    pub embedded: usize,
    /// Found among the vectors of all repositories.
    pub cached: usize,
    /// The encoder failed on them.
    pub failed: usize,
    /// Left without a vector, as [`Missing::Leave`] says.
    pub left: usize,
}

/// Why there is no new build. The one before it, if any, is as it was.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("{0}; run it again")]
    File(#[from] FileError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Embeddings(#[from] EmbeddingsError),
    #[error(transparent)]
    Vectors(#[from] VectorError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    #[error("none of the {files} files could be read, so there is no new index: check their permissions")]
    NothingRead { files: usize },
    #[error("none of {windows} windows could be embedded, so there is no new index: {cause}")]
    NothingEmbedded { windows: usize, cause: EncoderError },
    #[error("stopped; {embedded} of {missing} windows are embedded and kept: run it again to go on from there")]
    Stopped { embedded: usize, missing: usize },
}

/// So often the vectors of a part are asked for.
const ATTEMPTS: usize = 3;

/// So many segments make a question slow enough to pay for one of them all.
const MOST_PARTS: usize = 8;

/// Brings the index of a repository up to date. The caller holds its lock.
///
/// # Errors
/// When the repository can't be read, nothing can be embedded or written, or the observer ends it.
pub fn ingest(job: &Job, directory: &RepositoryDirectory, lock: &Lock) -> Result<Report, IngestError> {
    // What a run that failed or was killed left could fill the disk.
    directory.remove_unneeded(lock);
    let result = run(job, directory, lock);
    let failure = match &result {
        Ok(_) => None,
        Err(IngestError::Stopped { .. }) => directory.source().ok().flatten().and_then(|it| it.failure),
        Err(error) => Some(error.to_string()),
    };
    if failure.is_some() {
        directory.remove_unneeded(lock);
    }
    let made = SourceRecord {
        path: job.root.display().to_string(),
        revision: job.revision.map(str::to_owned),
        target: result.as_ref().ok().map(|it| it.target.clone()),
        rules: Some(rules(job.options)),
        failure: None,
    };
    // An index that could not be replaced is of what it was of.
    let before = directory.source().ok().flatten().filter(|_| result.is_err());
    let record = SourceRecord { failure, ..before.unwrap_or(made) };
    // Where this can't be written, nothing can, and that is what is reported.
    let _ = directory.set_source(lock, &record);
    result
}

/// Whether so many new vectors for an index of a model are worth writing those of the index anew: where that costs little, or there are
/// many against what it has, so that all such writing together costs a few times as much as the last.
pub fn is_worth_filling(manifest: &Manifest, model: &ModelKey, new: usize) -> bool {
    let Counts { vectors, .. } = manifest.counts;
    // A byte of code and two of a 16-bit float.
    let bytes = (vectors + new) * model.dimensions * 3;
    let is_small = bytes <= CHEAP_BYTES || 8 * new >= vectors;
    new > 0 && is_small && !manifest.counts.is_complete() && manifest.model.as_ref() == Some(model)
}

/// So many bytes of vectors are written in a fraction of the time that a question takes.
const CHEAP_BYTES: usize = 64 << 20;

/// What has changed in a repository since an opened index of the files on disk was made.
///
/// # Errors
/// When the repository can't be listed.
pub fn changes_since(view: &View, root: &Path, options: &snapshot::Options) -> Result<Changes, IngestError> {
    let inventory = snapshot::inventory(root, None, options)?;
    Ok(survey::changes(&inventory, &view.build, &view.segments))
}

fn run(job: &Job, directory: &RepositoryDirectory, lock: &Lock) -> Result<Report, IngestError> {
    let start = SystemTime::now();
    let inventory = snapshot::inventory(job.root, job.revision, job.options)?;
    let target = inventory.commit.clone().map_or(Target::WorkTree, Target::Commit);
    let (model, rules, builds) = (model_key(job.encoder), rules(job.options), directory.sound_builds());
    let base = Base::open(directory, &builds, &target, &rules, &model);
    let before = builds.iter().find(|it| it.manifest.target == target && it.manifest.rules == rules);
    let surveyed =
        survey::survey(&inventory, before, &base, &|done, total| job.observer.at(Phase::Reading, done, total));
    let mut run = Run::new(job, directory, base, model);
    run.check_stop()?;
    check_read(&surveyed, &inventory)?;
    let is_refilled = job.missing == Missing::Leave && run.refill(live_parts(&surveyed).into_iter())?;
    let is_whole = live_parts(&surveyed).into_iter().all(|it| run.is_settled(it)) && !is_refilled;
    let is_new = before.is_none() || !surveyed.changes.is_empty() || !is_whole;
    let (changes, read) = (surveyed.changes.clone(), surveyed.read);
    let build = match before.filter(|it| is_whole && run.is_served(it, &surveyed, &inventory)) {
        Some(build) => build.clone(),
        None => {
            let made = run.build(surveyed, &inventory, run.manifest(&target, rules, start))?;
            // What can't be opened must not take the place of what can.
            View::open(directory, made.clone())?;
            directory.publish(lock, &made)?;
            made
        }
    };
    let time = start.elapsed().unwrap_or_default();
    Ok(Report { is_new, read, time, ..run.report(target, changes, &build) })
}

/// An index as it is found when a question is asked.
pub enum Found {
    /// There is none of this target.
    Nothing,
    /// It was made by another version of the program or under other settings.
    OtherRules,
    Index(Box<Indexed>),
}

/// An opened index, and what has changed in the repository since it was made.
pub struct Indexed {
    pub view: View,
    pub changes: Changes,
}

/// Opens the index of a repository, and looks for what has changed.
///
/// # Errors
/// When the repository can't be read or the index is damaged.
pub fn open(
    directory: &RepositoryDirectory,
    root: &Path,
    revision: Option<&str>,
    options: &snapshot::Options,
) -> Result<Found, IngestError> {
    let target = target(root, revision, options)?;
    // A writer may remove what a build consists of once a newer one is there, which is then read instead.
    let (mut tries, mut inventory) = (0, None);
    loop {
        let build = match directory.build(&target) {
            Ok(Some(build)) => build,
            Ok(None) => return Ok(Found::Nothing),
            Err(error) if tries == OPENINGS => return Err(error.into()),
            Err(_) => {
                tries += 1;
                continue;
            }
        };
        if build.manifest.rules != rules(options) {
            return Ok(Found::OtherRules);
        }
        let list = || match target {
            // The files of a commit don't change.
            Target::Commit(_) => Ok(None),
            Target::WorkTree => snapshot::inventory(root, revision, options).map(Some),
        };
        let (view, listed) =
            rayon::join(|| View::open(directory, build), || inventory.take().map_or_else(list, |it| Ok(Some(it))));
        let listed = listed?;
        match view {
            Ok(view) => {
                let changes = listed.map(|it| survey::changes(&it, &view.build, &view.segments)).unwrap_or_default();
                return Ok(Found::Index(Box::new(Indexed { view, changes })));
            }
            Err(error) if tries == OPENINGS => return Err(error.into()),
            Err(_) => (tries, inventory) = (tries + 1, listed),
        }
    }
}

/// So many times a build is looked for again.
const OPENINGS: usize = 2;

/// A repository of which no file could be read has not become empty.
fn check_read(surveyed: &Surveyed, inventory: &Inventory) -> Result<(), IngestError> {
    let unlisted = inventory.skipped.iter().filter(|it| matches!(it.reason, SkipReason::Unreadable { .. })).count();
    let unread = surveyed.fresh.iter().filter(|it| survey::is_unreadable(&it.0)).count();
    let is_nothing = surveyed.rows.is_empty() && unread == surveyed.fresh.len() && unlisted + unread > 0;
    if is_nothing { Err(IngestError::NothingRead { files: unlisted + unread }) } else { Ok(()) }
}

/// The name of an encoder's vectors.
pub fn model_key(encoder: &dyn Encoder) -> ModelKey {
    let info = encoder.info();
    ModelKey { fingerprint: encoder.fingerprint().to_owned(), id: info.id.clone(), dimensions: info.dimensions }
}

/// How an encoder runs, for reports.
pub fn model_run(info: &ModelInfo) -> ModelRun {
    ModelRun { dtype: info.compute.name().to_owned(), policy: info.policy.name().to_owned() }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

fn nanoseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos() as i64)
}

struct Run<'a> {
    job: &'a Job<'a>,
    directory: &'a RepositoryDirectory,
    base: Base,
    model: ModelKey,
    embedding: Embedding,
    embedding_time: Duration,
    candidates: usize,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job<'a>, directory: &'a RepositoryDirectory, base: Base, model: ModelKey) -> Self {
        let (embedding, embedding_time) = (Embedding::default(), Duration::ZERO);
        Run { job, directory, base, model, embedding, embedding_time, candidates: 0 }
    }

    fn manifest(&self, target: &Target, rules: Rules, start: SystemTime) -> Manifest {
        Manifest {
            target: target.clone(),
            created: seconds(start),
            listed: nanoseconds(start),
            rules,
            model: Some(self.model.clone()),
            run: Some(model_run(self.job.encoder.info())),
            counts: Counts::default(),
            parts: Vec::new(),
        }
    }

    /// What was done, but for the time and what was read.
    fn report(self, target: Target, changes: Changes, build: &Build) -> Report {
        Report {
            target,
            is_new: false,
            changes,
            counts: build.manifest.counts,
            read: 0,
            embedding: self.embedding,
            candidates: self.candidates,
            skipped: build.skipped.len(),
            notes: build.notes.len(),
            embedding_time: self.embedding_time,
            time: Duration::ZERO,
        }
    }

    fn check_stop(&self) -> Result<(), IngestError> {
        match self.job.observer.should_stop() {
            true => Err(IngestError::Stopped { embedded: 0, missing: 0 }),
            false => Ok(()),
        }
    }

    /// Whether a build is all that would be made anew, down to what is said of single files.
    fn is_served(&self, build: &Build, surveyed: &Surveyed, inventory: &Inventory) -> bool {
        let files = surveyed.rows.iter().filter_map(|it| view::file_of(&self.base.segments, &it.1));
        surveyed.is_unchanged && remarks(inventory, files) == (build.skipped.clone(), build.notes.clone())
    }

    /// Makes the build of what was surveyed.
    fn build(
        &mut self,
        mut surveyed: Surveyed,
        inventory: &Inventory,
        manifest: Manifest,
    ) -> Result<Build, IngestError> {
        self.candidates = surveyed.fresh.iter().map(|it| it.0.candidates().len()).sum();
        let moved = self.take_moved(&mut surveyed);
        let mut rows: Vec<(Arc<str>, Row)> = std::mem::take(&mut surveyed.rows);
        let mut parts: Vec<Part> = self.base.parts.clone();
        let mut files: Vec<NewFile> =
            surveyed.fresh.into_iter().map(|(file, stamp)| NewFile { file, stamp, origin: None }).collect();
        files.extend(moved.iter().filter_map(|(_, row)| {
            let file = view::file_of(&self.base.segments, row)?.clone();
            Some(NewFile { file, stamp: row.stamp, origin: Some(*row) })
        }));
        // In a segment as in a build.
        files.sort_by(|a, b| a.file.path.cmp(&b.file.path));
        if !files.is_empty() {
            let part = parts.len() as u32;
            parts.push(self.write_part(&files)?);
            let row = |(number, it): (u32, &NewFile)| (it.file.path.clone(), Row { part, number, stamp: it.stamp });
            rows.extend((0..).zip(&files).map(row));
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        let rows = rows.into_iter().map(|it| it.1).collect();
        let mut build =
            Build { manifest: Manifest { parts, ..manifest }, rows, skipped: Vec::new(), notes: Vec::new() };
        keep_needed_parts(&mut build);
        self.count(&mut build, inventory)?;
        Ok(build)
    }

    /// Takes the rows out whose files are to be written again, with those that are new: of parts without all vectors of the model, of
    /// parts of which most is gone, and of all but the largest when there are many.
    fn take_moved(&mut self, surveyed: &mut Surveyed) -> Vec<(Arc<str>, Row)> {
        let mut live: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, row) in &surveyed.rows {
            *live.entry(row.part).or_default() += 1;
        }
        let largest = live.iter().max_by_key(|it| it.1).map(|it| *it.0);
        let is_many = live.len() >= MOST_PARTS;
        let mut is_kept = |(part, live): (&u32, &usize)| {
            let is_worn =
                2 * live < self.base.segments[*part as usize].files.len() || (is_many && Some(*part) != largest);
            (!is_worn && self.is_settled(*part as usize)).then_some(*part)
        };
        let kept: BTreeSet<u32> = live.iter().filter_map(&mut is_kept).collect();
        let (moved, rows) =
            std::mem::take(&mut surveyed.rows).into_iter().partition(|(_, row)| !kept.contains(&row.part));
        surveyed.rows = rows;
        moved
    }

    /// Whether a part can stay as it is: every candidate has all its vectors, or those that are missing are to be left.
    fn is_settled(&mut self, part: usize) -> bool {
        let leave = self.job.missing == Missing::Leave;
        self.usable(part).is_some_and(|it| leave || it.is_complete())
    }

    /// The vectors of a part, if they are of the model and as they were written.
    fn usable(&mut self, part: usize) -> Option<Arc<SegmentVectors>> {
        let part = &self.base.parts[part];
        let sound = |named: &Named, format| self.directory.open(named, format).and_then(|it| it.check_all()).is_ok();
        let is_sound = sound(part.vectors.as_ref()?, embeddings::FORMAT)
            && part.graphs.iter().flatten().all(|it| sound(it, GRAPH_FORMAT));
        let vectors = self.base.opened.vectors(self.directory, part).ok().flatten()?;
        (is_sound && vectors.model == self.model).then_some(vectors)
    }

    fn write_part(&mut self, new: &[NewFile]) -> Result<Part, IngestError> {
        let files: Vec<File> = new.iter().map(|it| it.file.clone()).collect();
        let origins: Vec<Option<Row>> = new.iter().map(|it| it.origin).collect();
        let levels = self.embedded(&files, &origins)?;
        let write = |path: &Path| Ok::<_, IngestError>(segment::write(path, &files)?);
        let segment = self.directory.write_part("segment", segment::FORMAT, write)?;
        self.with_vectors(segment, levels)
    }

    /// Writes the vectors of a segment.
    fn with_vectors(&mut self, segment: Named, levels: [LevelWriter; 2]) -> Result<Part, IngestError> {
        let vectors = self.directory.write_part("vectors", embeddings::FORMAT, |path| {
            Ok::<_, IngestError>(embeddings::write(path, &self.model, levels)?)
        })?;
        let mut part = Part { segment, vectors: Some(vectors), graphs: [None, None] };
        for level in LEVELS {
            part.graphs[level as usize] = self.write_graph(&part, level)?;
        }
        Ok(part)
    }

    /// The windows of files with their vectors. What somebody removes from the store meanwhile is embedded once more.
    fn embedded(&mut self, files: &[File], origins: &[Option<Row>]) -> Result<[LevelWriter; 2], IngestError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut embedder = Embedder::new(self.job, &self.model);
            embedder.gather(files, origins, self.directory, &mut self.base)?;
            let start = Instant::now();
            let embedded = embedder.embed();
            self.embedding_time += start.elapsed();
            let Embedding { embedded, cached, failed, left } = embedded?;
            self.embedding.embedded += embedded;
            if attempt == 1 {
                self.embedding.cached += cached;
            }
            (self.embedding.failed, self.embedding.left) = (failed, left);
            let levels = embedder.levels()?;
            let missing: usize = levels.iter().map(LevelWriter::missing).sum();
            if missing == 0 || failed + left > 0 || attempt == ATTEMPTS {
                return Ok(levels);
            }
        }
    }

    /// Writes the graph over a level's vectors, where there are so many that it pays.
    fn write_graph(&mut self, part: &Part, level: Level) -> Result<Option<Named>, IngestError> {
        let candidates = self.base.opened.segment(self.directory, part)?.candidates() as u32;
        let Some(vectors) = self.base.opened.vectors(self.directory, part)? else { return Ok(None) };
        let rows = vectors.rows(level, &(0..candidates).collect::<Vec<_>>())?;
        if !is_worth_a_graph(rows.count(), rows.dimensions()) {
            return Ok(None);
        }
        let observer = self.job.observer;
        observer.at(Phase::Linking, 0, rows.count());
        let stop = || observer.should_stop();
        let Some(links) = build_graph(&rows, &stop)? else {
            return Err(IngestError::Stopped { embedded: self.embedding.embedded, missing: self.embedding.embedded });
        };
        let write = |path: &Path| {
            let written = fsio::write_atomically(path, |out| links.write(out));
            written.map_err(|source| IndexError::Write { path: path.to_owned(), source })
        };
        Ok(Some(self.directory.write_part("graph", GRAPH_FORMAT, write)?))
    }

    /// Counts what a build holds, and lists what is said of its files.
    fn count(&mut self, build: &mut Build, inventory: &Inventory) -> Result<(), IngestError> {
        let parts = build.manifest.parts.clone();
        let mut counts = Counts::default();
        let segments =
            parts.iter().map(|it| self.base.opened.segment(self.directory, it)).collect::<Result<Vec<_>, _>>()?;
        for row in &build.rows {
            let candidates = view::file_of(&segments, row).map_or(0, |it| it.candidates().len());
            let first = segments[row.part as usize].starts[row.number as usize];
            counts.files += candidates.min(1);
            counts.functions += candidates.saturating_sub(1);
            let Some(vectors) = self.base.opened.vectors(self.directory, &parts[row.part as usize])? else { continue };
            for level in LEVELS {
                let (windows, with_vectors) = vectors.count(level, first..first + candidates as u32)?;
                counts.windows += windows;
                counts.vectors += with_vectors;
            }
        }
        build.manifest.counts = counts;
        (build.skipped, build.notes) =
            remarks(inventory, build.rows.iter().filter_map(|it| view::file_of(&segments, it)));
        Ok(())
    }
}

/// The parts that files of a survey are in.
fn live_parts(surveyed: &Surveyed) -> BTreeSet<usize> {
    surveyed.rows.iter().map(|it| it.1.part as usize).collect()
}

/// A file that is to be in a new segment.
struct NewFile {
    file: File,
    stamp: Stamp,
    /// Where it is now, if it is in another.
    origin: Option<Row>,
}

/// What is skipped of a repository and what is noted, by the listing and in its files; both in order.
fn remarks<'f>(inventory: &Inventory, files: impl Iterator<Item = &'f File>) -> (Vec<Remark>, Vec<Remark>) {
    let mut skipped: Vec<Remark> =
        inventory.skipped.iter().map(|it| (it.path.clone(), it.reason.to_string())).collect();
    let mut notes: Vec<Remark> = inventory.notes.iter().map(|it| (it.path.clone(), it.message.clone())).collect();
    for file in files {
        match &file.content {
            FileContent::NoSource { reason } => skipped.push((file.path.to_string(), reason.clone())),
            FileContent::Source { notes: own, .. } => {
                notes.extend(own.iter().map(|it| (file.path.to_string(), it.clone())))
            }
        }
    }
    skipped.sort();
    notes.sort();
    (skipped, notes)
}

/// Leaves the parts that rows refer to.
fn keep_needed_parts(build: &mut Build) {
    let mut numbers: BTreeMap<u32, u32> = build.rows.iter().map(|it| (it.part, 0)).collect();
    (0..).zip(numbers.values_mut()).for_each(|(number, it)| *it = number);
    build.rows.iter_mut().for_each(|it| it.part = numbers[&it.part]);
    let parts = std::mem::take(&mut build.manifest.parts);
    build.manifest.parts = numbers.keys().map(|at| parts[*at as usize].clone()).collect();
}

/// The levels in the order of files on disk.
const LEVELS: [Level; 2] = [Level::File, Level::Function];

#[cfg(test)]
mod tests;
