//! F4: the service: repositories that are indexed in the background and asked, texts and pictures that are embedded.
//!
//! Speaks plain data and knows nothing of HTTP: the routes, the tools for agents and the page all ask it.

mod asking;
mod error;
pub mod evidence;
mod indexing;
pub mod jobs;
pub mod located;
pub mod metrics;
pub mod pictures;
mod repositories;
mod sources;
mod views;

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::encoder::{self, Encoder, EncoderError, Input, InputEmbedding, ModelInfo};
use crate::evidence::Reader;
use crate::fsio;
use crate::imaging;
use crate::index::directory::{DataDirectory, IndexError};
use crate::index::store::Store;
use crate::retriever::inference::Inference;
use crate::retriever::ingest::{self, Missing};
use crate::retriever::ranker::Weights;
use crate::retriever::{Granularity, RetrieverKind};
use crate::snapshot::archive::{self, ArchiveError, ArchiveLimits};
use crate::snapshot::{self, SnapshotError};
use crate::types::Mode;
use crate::vector;

pub use asking::{Answered, Ask, AskedPicture};
pub use error::ServiceError;
use jobs::{Job, JobSource, Jobs};
use metrics::Metrics;
use repositories::{Repositories, checked_name};
pub use repositories::{Repository, Staleness};
pub use views::{CacheView, RepositoryView, SkippedView, SourceView, Status};

/// What a service works with.
#[derive(Debug, Clone)]
pub struct Options {
    pub data: DataDirectory,
    /// Folders below which clients may name sources.
    pub roots: Vec<PathBuf>,
    /// How files are chosen where a client doesn't say.
    pub snapshot: snapshot::Options,
    pub images: imaging::Limits,
    pub weights: Weights,
    /// What becomes of windows without a vector when an index is made.
    pub missing: Missing,
    /// An index is brought up to date for a question if at most so many files have changed.
    pub refresh_files: usize,
    /// The vectors of all repositories may take so many bytes.
    pub store_bytes: u64,
    /// How pictures are read.
    pub evidence: crate::evidence::Options,
    /// Tokens of requests that may wait for the encoder.
    pub queue_tokens: usize,
    /// Whether jobs are written down and gone on with after a restart, and archives tidied up. One process of a data directory does: another
    /// would begin the jobs that the first is at.
    pub keeps_jobs: bool,
}

/// What a question is answered by where it does not say.
#[derive(Debug, Clone, Copy)]
pub struct Usual {
    pub retriever: RetrieverKind,
    pub granularity: Granularity,
    pub results: usize,
    pub rerank: usize,
    /// `None`: what the model allows.
    pub mode: Option<Mode>,
}

/// A running service.
pub struct Service {
    inner: Arc<Inner>,
    worker: Mutex<Option<JoinHandle<()>>>,
    canary: tokio::sync::Mutex<Canary>,
}

/// What the worker's thread has too.
struct Inner {
    options: Options,
    inference: Inference,
    store: Store,
    repositories: Repositories,
    jobs: Jobs,
    /// Archives that are being received.
    arriving: Mutex<HashSet<PathBuf>>,
    /// Some for each core: more questions are not ranked at once. Some, since a question holds its place while it waits for the encoder.
    ranking: Arc<Semaphore>,
    reader: Reader,
    /// A picture is read by all cores.
    reading: Arc<Semaphore>,
    /// Pictures that wait for that, or are read.
    waiting: AtomicUsize,
    metrics: Arc<Metrics>,
    /// Locked as long as this service has the jobs of its data directory.
    _alone: Option<File>,
}

/// A vector that the model gave at the start, and when it gave it last.
struct Canary {
    vector: Vec<f32>,
    seen: Instant,
}

/// For so long a canary that came back right is believed.
const CANARY_EVERY: Duration = Duration::from_secs(5);
/// A canary that takes longer is no good sign.
const CANARY_WAIT: Duration = Duration::from_secs(10);
/// A vector depends on its batch, by less.
const CANARY_COSINE: f32 = 0.9999;

impl Service {
    /// Gives the encoder its thread, opens the data directory and goes on with the jobs that were not finished.
    ///
    /// # Errors
    /// When the model does not work, or the directory can't be used.
    pub async fn start(
        encoder: Box<dyn Encoder>,
        options: Options,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Self>, ServiceError> {
        let inference =
            Inference::start(encoder, options.queue_tokens, metrics.meters.clone()).map_err(ServiceError::internal)?;
        let vector = canary(&inference).await?;
        if let Some(known) = encoder::canary_vector(inference.info())
            && vector::dot(&known, &vector) < CANARY_COSINE
        {
            return Err(ServiceError::internal(anyhow::anyhow!(
                "the model gives another vector than it is known to give: copy its files again (`sightline doctor` says more)"
            )));
        }
        let inner = tokio::task::spawn_blocking(move || Inner::open(inference, options, metrics)).await;
        let inner = Arc::new(inner.map_err(ServiceError::internal)??);
        let own = Arc::clone(&inner);
        let worker = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || own.work())?;
        let canary = tokio::sync::Mutex::new(Canary { vector, seen: Instant::now() });
        Ok(Arc::new(Service { inner, worker: Mutex::new(Some(worker)), canary }))
    }

    /// What the encoder is.
    pub fn model(&self) -> &ModelInfo {
        self.inner.inference.info()
    }

    /// A vector or an error for each input, in order. Dropped, it is not computed.
    ///
    /// # Errors
    /// [`ServiceError::Overloaded`] at once.
    pub async fn embed(&self, inputs: Vec<Input>) -> Result<Vec<Result<InputEmbedding, EncoderError>>, ServiceError> {
        Ok(self.inner.inference.embed(inputs).await?)
    }

    /// The text that tokens of the model stand for.
    ///
    /// # Errors
    /// [`EncoderError::UnknownToken`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError> {
        self.inner.inference.decode(tokens)
    }

    /// Whether the model still gives the vector that it gave at the start.
    ///
    /// # Errors
    /// When it doesn't.
    pub async fn ready(&self) -> Result<(), ServiceError> {
        let mut canary = self.canary.lock().await;
        if canary.seen.elapsed() < CANARY_EVERY {
            return Ok(());
        }
        let slow = |_| ServiceError::NotReady { what: "the model has too much to do" };
        let asked = tokio::time::timeout(CANARY_WAIT, self::canary(&self.inner.inference)).await.map_err(slow)?;
        let vector = asked.map_err(|error| match error {
            ServiceError::Overloaded { .. } => ServiceError::NotReady { what: "the model has too much to do" },
            error => error,
        })?;
        if vector::dot(&vector, &canary.vector) < CANARY_COSINE {
            return Err(ServiceError::NotReady { what: "the model gives another vector than at the start" });
        }
        canary.seen = Instant::now();
        Ok(())
    }

    /// Adds a repository that lies in a folder of this machine, or indexes it again; without a path, from where it came before. Reads files.
    ///
    /// # Errors
    /// A folder that may not be named, a repository that is being built.
    pub fn add(&self, name: &str, path: Option<&str>, rest: JobRest) -> Result<Arc<Job>, ServiceError> {
        checked_name(name)?;
        if let Some(path) = path {
            return self.begin(name, self.allowed(path)?, rest, Kind::default());
        }
        let repository = self.inner.repositories.get(name)?;
        self.check_free(name)?;
        let source = repository.directory.source()?;
        let source = source.ok_or_else(|| ServiceError::UnknownRepository { id: name.to_owned() })?;
        let path = PathBuf::from(source.path);
        let detached = path.starts_with(self.inner.repositories.uploads());
        // Files are chosen as they were, where nothing else is said.
        let before = source.rules.map(|it| ingest::options(&it)).unwrap_or_else(|| self.inner.options.snapshot.clone());
        let usual = &self.inner.options.snapshot;
        let rest = JobRest {
            revision: rest.revision.or(source.revision),
            include: rest.include.or(Some(before.include)),
            exclude: rest.exclude.or(Some(before.exclude)),
            max_file_bytes: rest.max_file_bytes.or(Some(before.max_file_bytes.min(usual.max_file_bytes))),
        };
        self.begin(name, path, rest, Kind { detached, ..Kind::default() })
    }

    /// The name of the repository in a folder, an absolute path without links: the one that the command line knows it by.
    pub fn name_of(&self, folder: &Path) -> String {
        self.inner.options.data.repository(folder).id
    }

    /// Adds the repository in a folder that the user of this machine named, by [`Self::name_of`], or indexes it again. Reads files.
    ///
    /// # Errors
    /// A repository that is being built.
    pub fn add_folder(&self, folder: &Path, words_only: bool) -> Result<Arc<Job>, ServiceError> {
        let kind = Kind { words_only, ..Kind::default() };
        self.begin(&self.name_of(folder), folder.to_owned(), JobRest::default(), kind)
    }

    /// Whether a repository of this name has an index, or had one at some time.
    pub fn is_indexed(&self, name: &str) -> bool {
        self.inner.repositories.get(name).is_ok_and(|it| it.directory.stamp().is_some())
    }

    /// Puts a job for a folder into the queue.
    fn begin(&self, name: &str, path: PathBuf, rest: JobRest, kind: Kind) -> Result<Arc<Job>, ServiceError> {
        let path = path.to_str().ok_or(ServiceError::PathNotAllowed)?.to_owned();
        let rules = ingest::rules(&self.chosen(&rest, kind.detached)?);
        let (repository, is_new) = self.inner.repositories.get_or_add(name)?;
        let source = JobSource { path, revision: rest.revision, rules, words_only: kind.words_only };
        let job = self.inner.jobs.add(name, source);
        match &job {
            Ok(job) => repository.set_job(&job.view().job),
            Err(_) if is_new => self.inner.repositories.forget(&repository),
            Err(_) => {}
        }
        job
    }

    /// How files are chosen.
    fn chosen(&self, rest: &JobRest, detached: bool) -> Result<snapshot::Options, ServiceError> {
        let usual = &self.inner.options.snapshot;
        let max_file_bytes = rest.max_file_bytes.unwrap_or(usual.max_file_bytes);
        if max_file_bytes > usual.max_file_bytes {
            let reason = format!("this service reads files of {} bytes at most", usual.max_file_bytes);
            return Err(ServiceError::Unusable { field: "max_file_bytes".to_owned(), reason });
        }
        let options = snapshot::Options {
            max_file_bytes,
            include: rest.include.clone().unwrap_or_else(|| usual.include.clone()),
            exclude: rest.exclude.clone().unwrap_or_else(|| usual.exclude.clone()),
            detached,
        };
        let unusable = |error: SnapshotError| {
            let is_in = |it: &Option<Vec<String>>, pattern: &str| it.iter().flatten().any(|it| it == pattern);
            let field = match &error {
                SnapshotError::Pattern { pattern, .. } if is_in(&rest.include, pattern) => "include",
                _ => "exclude",
            };
            ServiceError::Unusable { field: field.to_owned(), reason: error.to_string() }
        };
        options.check().map_err(unusable)?;
        Ok(options)
    }

    /// A place for an archive that is being received.
    pub fn arrival(&self) -> Arrival {
        let folder = self.inner.repositories.uploads().join(uuid::Uuid::new_v4().simple().to_string());
        lock(&self.inner.arriving).insert(folder.clone());
        Arrival { folder, inner: Arc::clone(&self.inner) }
    }

    /// Adds a repository from an archive that was received, or indexes it again from it. The archive is unpacked first.
    ///
    /// # Errors
    /// An archive that can't be used, a repository that is being built.
    pub async fn add_archive(
        self: &Arc<Self>,
        name: &str,
        arrival: Arrival,
        rest: JobRest,
    ) -> Result<Arc<Job>, ServiceError> {
        self.check_free(name)?;
        let (own, name) = (Arc::clone(self), name.to_owned());
        let stop = Wanted::default();
        let stopped = stop.flag();
        let unpacked = tokio::task::spawn_blocking(move || {
            let limits =
                ArchiveLimits { file_bytes: own.inner.options.snapshot.max_file_bytes, ..ArchiveLimits::default() };
            let extracted =
                archive::extract(&arrival.file(), &arrival.sources(), &limits, &|| stopped.load(Ordering::Relaxed));
            let _ = std::fs::remove_file(arrival.file());
            let extracted = extracted.map_err(of_archive)?;
            tracing::info!(files = extracted.files, skipped = extracted.skipped.len(), "an archive was unpacked");
            // Until the job is known, nobody may take the folder for one that is left.
            let job = own.begin(&name, arrival.sources(), rest, Kind { detached: true, ..Kind::default() });
            if job.is_err() {
                let _ = std::fs::remove_dir_all(arrival.sources());
            }
            job
        });
        unpacked.await.map_err(ServiceError::internal)?
    }

    /// # Errors
    /// When a name can't be used, or its repository is being built: better said before megabytes are sent.
    pub fn check_free(&self, name: &str) -> Result<(), ServiceError> {
        checked_name(name)?;
        match self.inner.jobs.of_repository(name) {
            Some(job) => Err(ServiceError::Building { id: name.to_owned(), job: job.view().job }),
            None => Ok(()),
        }
    }

    /// A folder below one of the roots, without links.
    fn allowed(&self, path: &str) -> Result<PathBuf, ServiceError> {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err(ServiceError::PathNotAllowed);
        }
        let resolved = path.canonicalize().map_err(|_| ServiceError::PathNotAllowed)?;
        match self.inner.repositories.sources.may_be_named(&resolved) && resolved.is_dir() {
            true => Ok(resolved),
            false => Err(ServiceError::PathNotAllowed),
        }
    }

    /// # Errors
    /// [`ServiceError::UnknownJob`].
    pub fn job(&self, id: &str) -> Result<Arc<Job>, ServiceError> {
        self.inner.jobs.get(id)
    }

    /// Ends a job; what it has embedded is kept.
    ///
    /// # Errors
    /// [`ServiceError::UnknownJob`].
    pub fn cancel(&self, id: &str) -> Result<Arc<Job>, ServiceError> {
        let job = self.inner.jobs.get(id)?;
        self.inner.jobs.cancel(&job);
        Ok(job)
    }

    /// Deletes a repository's index. A job that makes it is ended first.
    ///
    /// # Errors
    /// When there is none, or another process writes to it.
    pub async fn delete(&self, name: &str) -> Result<(), ServiceError> {
        let repository = self.inner.repositories.get(name)?;
        repository.set_going();
        let inner = Arc::clone(&self.inner);
        let deleted = tokio::task::spawn_blocking(move || {
            let deleted = inner.delete(&repository);
            // Whatever came of it: what is left of it is found again by its name.
            inner.repositories.forget(&repository);
            inner.remove_uploads(None);
            deleted
        })
        .await;
        deleted.map_err(ServiceError::internal)?
    }

    /// Jobs that wait.
    pub fn waiting_jobs(&self) -> usize {
        self.inner.jobs.waiting()
    }

    /// Ends the work in the background; what is not done is left for the next start. Waits for it.
    pub fn close(&self) {
        self.inner.jobs.close();
        let worker = lock(&self.worker).take();
        if let Some(worker) = worker {
            let _ = worker.join();
        }
    }
}

/// What of a source a client may choose beside its place.
#[derive(Debug, Clone, Default)]
pub struct JobRest {
    pub revision: Option<String>,
    pub include: Option<Vec<String>>,
    pub exclude: Option<Vec<String>>,
    pub max_file_bytes: Option<u64>,
}

/// What kind of source a job is of, and how much is made of it.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    /// It came as an archive.
    detached: bool,
    words_only: bool,
}

/// A place for an archive. Dropped, it is one that may be removed unless a job is of it.
pub struct Arrival {
    folder: PathBuf,
    inner: Arc<Inner>,
}

impl Arrival {
    /// Where the bytes go.
    pub fn file(&self) -> PathBuf {
        self.folder.with_extension("archive")
    }

    fn sources(&self) -> PathBuf {
        self.folder.clone()
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        lock(&self.inner.arriving).remove(&self.folder);
        let _ = std::fs::remove_file(self.file());
    }
}

/// Tells threads when nobody waits for them any more.
#[derive(Default)]
struct Wanted(Arc<AtomicBool>);

impl Wanted {
    /// Set when it is dropped.
    fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client is told of an archive.
fn of_archive(error: ArchiveError) -> ServiceError {
    let reason = error.to_string();
    match error {
        ArchiveError::NotAnArchive { .. }
        | ArchiveError::Empty
        | ArchiveError::CutOff { .. }
        | ArchiveError::Damaged { .. } => ServiceError::BadArchive { reason },
        ArchiveError::TooLarge { .. } => ServiceError::LargeArchive { reason },
        ArchiveError::Stopped => ServiceError::NotReady { what: "nobody waits for the answer" },
        ArchiveError::Full { .. } => ServiceError::StorageFull,
        ArchiveError::Unreadable { .. } | ArchiveError::Unwritable { .. } => ServiceError::internal(error),
    }
}

impl Inner {
    fn open(inference: Inference, options: Options, metrics: Arc<Metrics>) -> Result<Self, ServiceError> {
        let data = options.data.clone();
        fsio::create_private_directory(&data.uploads())?;
        let alone = options.keeps_jobs.then(|| alone(data.path())).transpose()?;
        let store = Store::open_or_replace(&data.store())?;
        for replaced in store.replaced() {
            tracing::warn!(what = replaced.what, "the store of vectors was damaged, so a new one was begun");
        }
        let jobs = if options.keeps_jobs { Jobs::open(data.jobs())? } else { Jobs::forgetful() };
        let repositories = Repositories::open(data, options.roots.clone())?;
        for job in jobs.unfinished() {
            let view = job.view();
            repositories.get_or_add(&view.repository)?.0.set_job(&view.job);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let places = |count| Arc::new(Semaphore::new(count));
        let readings = if options.evidence.endpoint.is_some() { asking::ASKED_READINGS } else { asking::READINGS };
        let (ranking, reading) = (places(RANKED * cores), places(readings));
        let reader = Reader::new(options.evidence.clone()).map_err(ServiceError::internal)?;
        let arriving = Mutex::default();
        let inner = Inner {
            options,
            inference,
            store,
            repositories,
            jobs,
            arriving,
            ranking,
            reader,
            reading,
            waiting: AtomicUsize::new(0),
            metrics,
            _alone: alone,
        };
        inner.remove_uploads(None);
        Ok(inner)
    }

    fn delete(&self, repository: &Repository) -> Result<(), ServiceError> {
        let name = &repository.name;
        if let Some(job) = self.jobs.of_repository(name) {
            self.jobs.cancel(&job);
        }
        // A job that runs ends at its next batch.
        let start = Instant::now();
        let lock = loop {
            match repository.directory.lock() {
                Err(IndexError::Busy { .. }) if start.elapsed() > LONGEST_DELETE => {
                    return Err(ServiceError::InUse { id: name.clone() });
                }
                Err(IndexError::Busy { .. }) => std::thread::sleep(Duration::from_millis(50)),
                lock => break lock?,
            }
        };
        Ok(repository.directory.clone().remove(lock)?)
    }
}

/// Becomes the one service that does the jobs of a data directory: two would do each twice.
fn alone(data: &Path) -> Result<File, ServiceError> {
    let file = File::create(data.join("service.lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(error.into()),
        Err(TryLockError::WouldBlock) => Err(ServiceError::internal(anyhow::anyhow!(
            "another service uses the data directory `{}`: stop that one, or name another directory with --data-dir",
            data.display()
        ))),
    }
}

/// Questions that are ranked at a time, by core.
const RANKED: usize = 8;

/// A delete waits so long for whoever writes to a repository.
const LONGEST_DELETE: Duration = Duration::from_secs(60);

async fn canary(inference: &Inference) -> Result<Vec<f32>, ServiceError> {
    let input = Input { text: Some(encoder::CANARY.to_owned()), ..Input::default() };
    let vector = inference.embed(vec![input]).await?.into_iter().next();
    let vector = vector.unwrap_or(Err(EncoderError::Stopped)).map_err(ServiceError::internal)?.vector;
    let length = vector::dot(&vector, &vector);
    if (length - 1.0).abs() < 1e-3 {
        Ok(vector)
    } else {
        Err(ServiceError::NotReady { what: "the model gives vectors that are not of length 1" })
    }
}
