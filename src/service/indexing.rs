//! The worker that makes indexes, and indexes that are brought up to date for a question.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, TryLockError};
use std::time::{Duration, SystemTime};

use super::Inner;
use super::error::is_full;
use super::jobs::{Job, JobError, JobResult, JobStatus, Work};
use super::repositories::{Repository, Served};
use crate::encoder::EncoderError;
use crate::index::directory::{IndexError, Lock};
use crate::index::embeddings::EmbeddingsError;
use crate::index::segment::SegmentError;
use crate::index::store::StoreError;
use crate::retriever::inference::{Class, Queued};
use crate::retriever::ingest::{self, IngestError, Missing, Observer, Phase, Report};
use crate::snapshot::{self, SnapshotError};

/// How often a lock is tried that another process has.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// What was used in so much time before a job is not removed by it: another process may still need it.
const PROTECTED: Duration = Duration::from_secs(6 * 3600);

/// Tells a job how far it is.
struct Watched<'a>(&'a Job);

impl Observer for Watched<'_> {
    fn at(&self, phase: Phase, done: usize, total: usize) {
        let phase = match phase {
            Phase::Reading => "reading",
            Phase::Cutting => "cutting",
            Phase::Embedding { .. } => "embedding",
            Phase::Linking => "linking",
        };
        self.0.set_progress(phase, done, total);
    }

    fn should_stop(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Nobody watches, and nobody stops it.
struct Unwatched;

impl Observer for Unwatched {
    fn at(&self, _: Phase, _: usize, _: usize) {}

    fn should_stop(&self) -> bool {
        false
    }
}

impl Inner {
    /// What the worker's thread does.
    pub(super) fn work(&self) {
        while let Some(work) = self.jobs.next() {
            // A panic in one must not end the thread that all others wait for.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match &work {
                Work::Index(job) => self.run(job),
                Work::Fill(repository) => self.fill(repository),
            }));
            if let (Err(_), Work::Index(job)) = (done, &work) {
                self.jobs.finish(job, JobStatus::Failed, None, Some(internal()));
            }
        }
    }

    fn run(&self, job: &Arc<Job>) {
        let view = job.view();
        let _span = tracing::info_span!("job", job = view.job, repository = view.repository).entered();
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.index(job, &view.repository)));
        let outcome = run.unwrap_or_else(|_| {
            let cause = "the job panicked".to_owned();
            Err(IngestError::Encoder(EncoderError::Compute { sequences: 0, cause }))
        });
        self.remove_uploads(Some(job));
        if let Ok(repository) = self.repositories.get(&view.repository) {
            repository.outdate();
        }
        match outcome {
            Ok(report) => {
                tracing::info!(files = report.counts.files, seconds = report.time.as_secs_f32(), "indexed");
                self.jobs.finish(job, JobStatus::Done, Some(result(&report)), None);
            }
            // Whatever it was that failed, it was told to stop.
            Err(_) if self.jobs.is_closing() => self.jobs.leave(job),
            Err(_) if job.is_cancelled() => self.jobs.finish(job, JobStatus::Cancelled, None, None),
            Err(error) => {
                tracing::warn!(cause = error.to_string(), "a repository could not be indexed");
                self.jobs.finish(job, JobStatus::Failed, None, Some(told(&error)));
            }
        }
    }

    fn index(&self, job: &Arc<Job>, name: &str) -> Result<Report, IngestError> {
        let stopped = || IngestError::Stopped { embedded: 0, missing: 0 };
        let repository = self.repositories.get_or_add(name).map_err(|_| stopped())?.0;
        let since = SystemTime::now();
        let lock = loop {
            match repository.directory.lock() {
                Err(IndexError::Busy { .. }) if job.is_cancelled() => return Err(stopped()),
                Err(IndexError::Busy { .. }) => {
                    job.set_progress("waiting", 0, 0);
                    std::thread::sleep(LOOK_AGAIN);
                }
                lock => break lock?,
            }
        };
        // It may have been deleted while the lock was waited for, which has made its directory again.
        if repository.is_going() || job.is_cancelled() {
            repository.directory.remove_if_new(lock);
            return Err(stopped());
        }
        let root = Path::new(&job.source.path);
        self.repositories.sources.check(root)?;
        let source =
            Sourced { root, revision: job.source.revision.as_deref(), options: ingest::options(&job.source.rules) };
        let encoder = Queued::new(self.inference.clone(), Class::Indexing, Arc::clone(&job.cancel));
        let missing = if job.source.words_only { Missing::Leave } else { self.options.missing };
        let report = self.ingest(&repository, &lock, &source, &encoder, missing, &Watched(job))?;
        drop(lock);
        self.metrics.cache_hits.inc_by(report.embedding.cached as u64);
        self.metrics.cache_misses.inc_by(report.embedding.embedded as u64);
        repository.outdate();
        // What was just made is opened before somebody waits for it.
        if let Err(error) = repository.look(self.inference.model(), &self.repositories.sources) {
            tracing::warn!(cause = error.to_string(), "an index that was just made can't be opened");
        }
        if let Err(error) = self.store.evict(self.options.store_bytes, since - PROTECTED) {
            tracing::warn!(cause = error.to_string(), "the store could not be brought to its limit");
        }
        Ok(report)
    }

    fn ingest(
        &self,
        repository: &Repository,
        lock: &Lock,
        source: &Sourced,
        encoder: &Queued,
        missing: Missing,
        observer: &dyn Observer,
    ) -> Result<Report, IngestError> {
        let Sourced { root, revision, options } = source;
        let store = &self.store;
        let job = ingest::Job { root, revision: *revision, options, encoder, store, missing, observer };
        ingest::ingest(&job, &repository.directory, lock)
    }

    /// Brings an index up to date in which little has changed; gives whether it is.
    pub(super) fn refresh(&self, repository: &Repository, served: &Served) -> bool {
        let _only = match repository.refreshing.try_lock() {
            Err(TryLockError::WouldBlock) => return false,
            Err(TryLockError::Poisoned(only)) => only.into_inner(),
            Ok(only) => only,
        };
        let is_complete = served.manifest().counts.is_complete();
        let missing = if is_complete { Missing::Embed } else { Missing::Leave };
        let outcome = self.update(repository, served, missing);
        repository.outdate();
        match outcome {
            Ok(is_done) => is_done,
            Err(error) => {
                tracing::warn!(cause = error.to_string(), "an index could not be brought up to date");
                false
            }
        }
    }

    /// Puts vectors that questions made into an index that lacks them.
    fn fill(&self, repository: &Repository) {
        let (Some(served), staleness) = repository.last_seen() else { return };
        if staleness.is_stale() {
            return;
        }
        // The vectors are in the store: the next question tries again.
        if let Err(error) = self.update(repository, &served, Missing::Leave) {
            tracing::warn!(cause = error.to_string(), "an index could not take up new vectors");
        }
        repository.outdate();
    }

    /// Ingests a source again; `false` while somebody else does.
    fn update(&self, repository: &Repository, served: &Served, missing: Missing) -> Result<bool, IngestError> {
        let lock = match repository.directory.lock() {
            Err(IndexError::Busy { .. }) => return Ok(false),
            lock => lock?,
        };
        if repository.is_going() || repository.directory.stamp().is_none() {
            repository.directory.remove_if_new(lock);
            return Ok(false);
        }
        let (root, revision) = (served.root(), served.source.revision.as_deref());
        self.repositories.sources.check(root)?;
        let source = Sourced { root, revision, options: served.options() };
        let encoder = Queued::new(self.inference.clone(), Class::Indexing, Arc::new(AtomicBool::new(false)));
        self.ingest(repository, &lock, &source, &encoder, missing, &Unwatched)?;
        Ok(true)
    }

    /// Removes sources that came as archives and that no repository and no job is of any more, but for one that has ended.
    pub(super) fn remove_uploads(&self, ended: Option<&Arc<Job>>) {
        if !self.options.keeps_jobs {
            return;
        }
        // In this order: what arrives meanwhile is not in the listing, and what has arrived is among the jobs.
        let listed: Vec<PathBuf> =
            fs::read_dir(self.repositories.uploads()).into_iter().flatten().flatten().map(|it| it.path()).collect();
        let arriving = super::lock(&self.arriving).clone();
        // One that is left for the next start will need its files.
        let is_over = |it: &Arc<Job>| ended.is_some_and(|ended| Arc::ptr_eq(it, ended)) && !self.jobs.is_closing();
        let unfinished = self.jobs.unfinished();
        let mut needed: Vec<String> =
            unfinished.iter().filter(|it| !is_over(it)).map(|it| it.source.path.clone()).collect();
        for repository in self.repositories.all() {
            match repository.directory.source() {
                Ok(source) => needed.extend(source.map(|it| it.path)),
                // What can't be told is kept.
                Err(_) => return,
            }
        }
        let is_needed = |path: &Path| {
            needed.iter().any(|it| Path::new(it).starts_with(path)) || arriving.contains(&path.with_extension(""))
        };
        let unneeded: Vec<PathBuf> = listed.into_iter().filter(|it| !is_needed(it)).collect();
        if unneeded.is_empty() {
            return;
        }
        // A hundred thousand files take minutes, which nobody is to wait for.
        let remove = move || unneeded.iter().for_each(|it| remove_upload(it));
        if let Err(error) = std::thread::Builder::new().name("uploads".to_owned()).spawn(remove) {
            tracing::warn!(cause = error.to_string(), "archives that are not needed can't be removed");
        }
    }
}

/// Removes an archive, or what was in one. What is left is removed at the next occasion.
fn remove_upload(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(cause = error.to_string(), "an archive that is not needed can't be removed");
        }
        _ => {}
    }
}

fn internal() -> JobError {
    let message = "something failed inside: the server's log says what, under this job's id".to_owned();
    JobError { code: "internal".to_owned(), message }
}

/// What is read, and how.
struct Sourced<'a> {
    root: &'a Path,
    revision: Option<&'a str>,
    options: snapshot::Options,
}

fn result(report: &Report) -> JobResult {
    let ingest::Embedding { embedded, cached, failed, left } = report.embedding;
    JobResult { files_read: report.read, embedded, cached, failed, left, seconds: report.time.as_secs_f32() }
}

/// What a client is told of a failure: nothing of the machine.
fn told(error: &IngestError) -> JobError {
    let (code, message) = match error {
        IngestError::Snapshot(error) => (
            "source_unusable",
            match error {
                SnapshotError::EmptyPath
                | SnapshotError::Missing { .. }
                | SnapshotError::NotADirectory { .. }
                | SnapshotError::Unreadable { .. } => "the folder of the source is not there or can't be read",
                SnapshotError::NotARepository { .. } => "the source is in no git repository, so it has no revisions",
                SnapshotError::Repository { .. } => "the source's git repository can't be opened",
                SnapshotError::NoSuchRevision { .. } => "the source has no such revision",
                SnapshotError::Pattern { .. } | SnapshotError::Patterns { .. } => "its patterns can't be used",
                SnapshotError::NoSuchDirectory { .. } => "the revision has no such folder",
            }
            .to_owned(),
        ),
        IngestError::NothingRead { files } => {
            ("source_unreadable", format!("none of the {files} files of the source could be read"))
        }
        IngestError::NothingEmbedded { windows, .. } => {
            ("model_failed", format!("none of {windows} windows could be embedded: the server's log says why"))
        }
        error if is_out_of_room(error) => ("storage_full", "the server's disk is full".to_owned()),
        _ => return internal(),
    };
    JobError { code: code.to_owned(), message }
}

/// Whether it was the disk.
fn is_out_of_room(error: &IngestError) -> bool {
    match error {
        IngestError::Store(StoreError::Full { .. }) => true,
        IngestError::Index(IndexError::Write { source, .. })
        | IngestError::Segment(SegmentError::Write { source, .. })
        | IngestError::Embeddings(EmbeddingsError::Write { source, .. }) => is_full(source),
        _ => false,
    }
}
