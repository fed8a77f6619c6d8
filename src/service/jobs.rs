//! Work in the background: one job after the other, each written down before it begins, so that a restart goes on with it.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use super::{Repository, ServiceError};
use crate::fsio;
use crate::index::build::Rules;

/// Jobs that may wait.
const MOST_WAITING: usize = 100;
/// Finished jobs that are remembered.
const MOST_FINISHED: usize = 200;

/// Where a repository's files come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSource {
    /// A folder on this machine. Not for clients.
    pub path: String,
    pub revision: Option<String>,
    /// How its files are chosen.
    pub rules: Rules,
    /// Whether nothing is embedded, whatever the service does otherwise: that takes seconds, and questions fill in what they compare.
    #[serde(default)]
    pub words_only: bool,
}

/// What has become of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobStatus {
    Queued,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobStatus {
    pub fn is_finished(self) -> bool {
        matches!(self, JobStatus::Done | JobStatus::Failed | JobStatus::Cancelled)
    }
}

/// How far something is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// What is being done.
    #[schema(example = "embedding")]
    pub phase: String,
    pub done: usize,
    pub total: usize,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobError {
    pub code: String,
    pub message: String,
}

/// What a finished job did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobResult {
    /// Files whose content was looked at.
    pub files_read: usize,
    /// Windows of new candidates: embedded, known from the store, failed, or left without a vector.
    pub embedded: usize,
    pub cached: usize,
    pub failed: usize,
    pub left: usize,
    pub seconds: f32,
}

/// A job as it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobView {
    pub job: String,
    pub repository: String,
    pub status: JobStatus,
    pub progress: Option<Progress>,
    pub error: Option<JobError>,
    pub result: Option<JobResult>,
    /// Seconds since 1970.
    pub created: u64,
    pub finished: Option<u64>,
}

/// A job.
pub struct Job {
    pub source: JobSource,
    view: watch::Sender<JobView>,
    /// Set when nobody wants it any more.
    pub cancel: Arc<AtomicBool>,
    /// After the second in which it was added.
    nanoseconds: u32,
}

/// A job as it is written down.
#[derive(Serialize, Deserialize)]
struct Record {
    view: JobView,
    source: JobSource,
    /// Orders jobs of one second.
    #[serde(default)]
    nanoseconds: u32,
}

impl Job {
    pub fn view(&self) -> JobView {
        self.view.borrow().clone()
    }

    /// Hears of every change.
    pub fn watch(&self) -> watch::Receiver<JobView> {
        self.view.subscribe()
    }

    pub fn set_progress(&self, phase: &str, done: usize, total: usize) {
        self.view.send_if_modified(|view| {
            let progress = Some(Progress { phase: phase.to_owned(), done, total });
            let is_other = view.progress != progress;
            view.progress = progress;
            is_other
        });
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// What the worker does.
pub enum Work {
    Index(Arc<Job>),
    /// Vectors that questions made, into an index that lacks them.
    Fill(Arc<Repository>),
}

/// All jobs.
pub struct Jobs {
    /// `None`: nothing is written down, and a restart knows nothing of them.
    folder: Option<PathBuf>,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    running: Option<Arc<Job>>,
    known: HashMap<String, Arc<Job>>,
    /// In the order in which they finished.
    finished: VecDeque<String>,
    is_closing: bool,
}

impl Jobs {
    /// Reads what was written down: what was not finished begins again, in its order.
    ///
    /// # Errors
    /// When the folder can't be used.
    pub fn open(folder: PathBuf) -> std::io::Result<Self> {
        fsio::create_private_directory(&folder)?;
        let mut records: Vec<Record> = Vec::new();
        for entry in fs::read_dir(&folder)?.flatten() {
            match fs::read(entry.path()).ok().and_then(|it| serde_json::from_slice(&it).ok()) {
                Some(record) => records.push(record),
                None => {
                    tracing::warn!(file = %entry.file_name().display(), "what was written down of a job can't be read, and is removed");
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        records.sort_by_key(|it| (it.view.finished.unwrap_or(u64::MAX), it.view.created, it.nanoseconds));
        let jobs = Jobs { folder: Some(folder), ..Jobs::forgetful() };
        for record in records {
            jobs.restore(record);
        }
        Ok(jobs)
    }

    /// Jobs that end with the process.
    pub fn forgetful() -> Self {
        Jobs { folder: None, state: Mutex::default(), bell: Condvar::new() }
    }

    fn restore(&self, Record { mut view, source, nanoseconds }: Record) {
        let is_finished = view.status.is_finished();
        if !is_finished {
            (view.status, view.progress) = (JobStatus::Queued, None);
        }
        let id = view.job.clone();
        let job = Arc::new(Job { source, view: watch::Sender::new(view), cancel: Arc::default(), nanoseconds });
        let mut state = self.state();
        state.known.insert(id.clone(), Arc::clone(&job));
        if is_finished {
            self.remember(&mut state, id);
        } else {
            state.waiting.push_back(Work::Index(job));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job for a repository that has none, and writes it down first.
    ///
    /// # Errors
    /// [`ServiceError::Building`], too many, or a disk without room.
    pub fn add(&self, repository: &str, source: JobSource) -> Result<Arc<Job>, ServiceError> {
        let mut state = self.state();
        if let Some(job) = state.of_repository(repository) {
            return Err(ServiceError::Building { id: repository.to_owned(), job: job.view().job });
        }
        if state.waiting.len() >= MOST_WAITING {
            return Err(ServiceError::TooManyJobs { jobs: state.waiting.len() });
        }
        let (created, nanoseconds) = clock();
        let id = uuid::Uuid::new_v4().simple().to_string();
        let view = JobView {
            job: id.clone(),
            repository: repository.to_owned(),
            status: JobStatus::Queued,
            progress: None,
            error: None,
            result: None,
            created,
            finished: None,
        };
        let job = Arc::new(Job { source, view: watch::Sender::new(view), cancel: Arc::default(), nanoseconds });
        self.write(&job)?;
        state.known.insert(id, Arc::clone(&job));
        state.waiting.push_back(Work::Index(Arc::clone(&job)));
        drop(state);
        self.bell.notify_all();
        Ok(job)
    }

    /// Lets an index be filled, unless that waits already.
    pub fn fill(&self, repository: &Arc<Repository>) {
        let mut state = self.state();
        let is_same = |it: &Work| matches!(it, Work::Fill(waiting) if Arc::ptr_eq(waiting, repository));
        if !state.waiting.iter().any(is_same) {
            state.waiting.push_back(Work::Fill(Arc::clone(repository)));
            drop(state);
            self.bell.notify_all();
        }
    }

    /// # Errors
    /// [`ServiceError::UnknownJob`].
    pub fn get(&self, id: &str) -> Result<Arc<Job>, ServiceError> {
        let unknown = || ServiceError::UnknownJob { id: id.chars().filter(|it| !it.is_control()).take(64).collect() };
        self.state().known.get(id).cloned().ok_or_else(unknown)
    }

    /// The job of a repository that waits or runs.
    pub fn of_repository(&self, repository: &str) -> Option<Arc<Job>> {
        self.state().of_repository(repository)
    }

    /// Those that wait or run.
    pub fn unfinished(&self) -> Vec<Arc<Job>> {
        self.state().unfinished().cloned().collect()
    }

    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// Ends a job: one that waits at once, one that runs at its next batch.
    pub fn cancel(&self, job: &Arc<Job>) {
        job.cancel.store(true, Ordering::Relaxed);
        let mut state = self.state();
        let before = state.waiting.len();
        state.waiting.retain(|it| !matches!(it, Work::Index(waiting) if Arc::ptr_eq(waiting, job)));
        let was_waiting = state.waiting.len() < before;
        drop(state);
        if was_waiting {
            self.finish(job, JobStatus::Cancelled, None, None);
        }
    }

    /// Waits for work; `None` when the service ends.
    pub fn next(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if state.is_closing {
                return None;
            }
            if let Some(work) = state.waiting.pop_front() {
                if let Work::Index(job) = &work {
                    state.running = Some(Arc::clone(job));
                    job.view.send_modify(|it| it.status = JobStatus::Running);
                }
                return Some(work);
            }
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says what has become of a job.
    pub fn finish(&self, job: &Arc<Job>, status: JobStatus, result: Option<JobResult>, error: Option<JobError>) {
        let mut state = self.state();
        // Who hears that it is done may add the next one.
        state.free(job);
        let is_first = job.view.send_if_modified(|view| {
            let is_first = !view.status.is_finished();
            if is_first {
                (view.status, view.progress, view.finished) = (status, None, Some(now()));
                (view.result, view.error) = (result, error);
            }
            is_first
        });
        if is_first {
            // A disk without room: the job is done again after a restart.
            if let Err(error) = self.write(job) {
                tracing::warn!(cause = error.to_string(), "the end of a job could not be written down");
            }
            self.remember(&mut state, job.view().job);
        }
    }

    /// Leaves a job for the next start.
    pub fn leave(&self, job: &Arc<Job>) {
        self.state().free(job);
    }

    pub fn is_closing(&self) -> bool {
        self.state().is_closing
    }

    /// No other job begins, and the one that runs ends at its next batch; what is not done is left for the next start.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        if let Some(job) = &state.running {
            job.cancel.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.bell.notify_all();
    }

    fn remember(&self, state: &mut State, id: String) {
        state.finished.push_back(id);
        while state.finished.len() > MOST_FINISHED {
            let Some(oldest) = state.finished.pop_front() else { break };
            state.known.remove(&oldest);
            let _ = self.file(&oldest).map(fs::remove_file);
        }
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|it| it.join(format!("{id}.json")))
    }

    fn write(&self, job: &Job) -> std::io::Result<()> {
        let (view, source) = (JobView { progress: None, ..job.view() }, job.source.clone());
        let record = Record { view, source, nanoseconds: job.nanoseconds };
        match self.file(&record.view.job) {
            Some(path) => fsio::write_atomically(&path, |out| Ok(serde_json::to_writer(out, &record)?)),
            None => Ok(()),
        }
    }
}

impl State {
    fn unfinished(&self) -> impl Iterator<Item = &Arc<Job>> {
        let waiting = self.waiting.iter().filter_map(|it| match it {
            Work::Index(job) => Some(job),
            Work::Fill(_) => None,
        });
        self.running.iter().chain(waiting)
    }

    /// Notes that a job runs no more.
    fn free(&mut self, job: &Arc<Job>) {
        self.running.take_if(|it| Arc::ptr_eq(it, job));
    }

    fn of_repository(&self, repository: &str) -> Option<Arc<Job>> {
        self.unfinished().find(|it| it.view.borrow().repository == repository).cloned()
    }
}

fn now() -> u64 {
    clock().0
}

/// Seconds since 1970, and nanoseconds beyond them.
fn clock() -> (u64, u32) {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or((0, 0), |it| (it.as_secs(), it.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn source() -> JobSource {
        let rules = crate::retriever::ingest::rules(&crate::snapshot::Options::default());
        JobSource { path: "/x".to_owned(), revision: None, rules, words_only: false }
    }

    fn open(folder: &Path) -> Jobs {
        Jobs::open(folder.to_owned()).expect("a folder")
    }

    fn index(work: Option<Work>) -> Arc<Job> {
        match work {
            Some(Work::Index(job)) => job,
            _ => panic!("no job"),
        }
    }

    #[test]
    fn what_was_not_finished_begins_again_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let jobs = open(folder.path());
        let first = jobs.add("a", source()).expect("room");
        let second = jobs.add("b", source()).expect("room");
        let third = jobs.add("c", source()).expect("room");
        assert!(matches!(jobs.add("a", source()), Err(ServiceError::Building { .. })));
        let running = index(jobs.next());
        assert_eq!(running.view().job, first.view().job);
        running.set_progress("reading", 1, 2);
        jobs.cancel(&third);
        assert_eq!(third.view().status, JobStatus::Cancelled);
        // The process is killed here.
        let again = open(folder.path());
        let names: Vec<String> = again.unfinished().iter().map(|it| it.view().repository).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(again.get(&first.view().job).expect("known").view().status, JobStatus::Queued);
        assert_eq!(again.get(&third.view().job).expect("known").view().status, JobStatus::Cancelled);
        let job = index(again.next());
        again.finish(&job, JobStatus::Done, None, None);
        let names: Vec<String> = open(folder.path()).unfinished().iter().map(|it| it.view().repository).collect();
        assert_eq!(names, ["b"]);
        drop(second);
    }

    #[test]
    fn jobs_that_end_with_the_process_are_jobs_all_the_same() {
        let jobs = Jobs::forgetful();
        let job = jobs.add("a", source()).expect("room");
        assert_eq!(index(jobs.next()).view().job, job.view().job);
        jobs.finish(&job, JobStatus::Done, None, None);
        assert_eq!(jobs.get(&job.view().job).expect("known").view().status, JobStatus::Done);
    }

    #[test]
    fn a_record_that_is_damaged_costs_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path()).add("a", source()).expect("room");
        fs::write(folder.path().join("bad.json"), b"{").expect("writable");
        assert_eq!(open(folder.path()).unfinished().len(), 1);
        assert!(!folder.path().join("bad.json").exists());
    }

    #[test]
    fn a_service_that_ends_leaves_what_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let jobs = open(folder.path());
        jobs.add("a", source()).expect("room");
        let running = index(jobs.next());
        jobs.close();
        assert!(running.is_cancelled() && jobs.next().is_none());
        jobs.leave(&running);
        assert_eq!(open(folder.path()).unfinished().len(), 1);
    }
}
