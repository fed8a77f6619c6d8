//! F5: indexes that a call waits for, and the tool that makes them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Tools;
use super::answers::{Answer, Indexed};
use super::arguments::PathArguments;
use super::caller::Caller;
use super::error::ToolError;
use crate::service::jobs::{Job, JobStatus, JobView, Progress};
use crate::service::{Service, ServiceError};

/// An index that a call waits for.
pub struct Wanted<'a> {
    pub service: &'a Service,
    pub folder: &'a Path,
    /// Whether an index of words will do.
    pub words_only: bool,
    /// The percentages of the call that it is.
    pub share: (u8, u8),
    /// For so long another process may keep it from beginning; `None`: as long as it takes.
    pub patience: Option<Duration>,
}

impl Tools {
    /// `index_repository`.
    pub(super) async fn index(&self, arguments: PathArguments, caller: &Caller) -> Result<Answer, ToolError> {
        let folder = self.options.repository(arguments.path.as_deref())?;
        let service = self.service().await?;
        let start = Instant::now();
        let wanted = Wanted { service: &service, folder: &folder, words_only: true, share: (0, 10), patience: None };
        let name = service.name_of(&folder);
        if !service.is_indexed(&name) {
            // Questions that come meanwhile are answered by that.
            wanted.made(caller).await?;
        }
        let job = Wanted { words_only: false, share: (10, 100), ..wanted }.made(caller).await?;
        let view = service.repository(&name).await?;
        Ok(Indexed::of(&folder, &view, job.result.as_ref(), start.elapsed()).answer())
    }
}

impl Wanted<'_> {
    /// Makes the index, or waits for whoever does; dropped, it ends what it began.
    pub async fn made(&self, caller: &Caller) -> Result<JobView, ToolError> {
        loop {
            let begun = self.begun()?;
            let view = begun.finished(self, caller).await?;
            let is_enough = begun.is_own || self.words_only || !begun.job.source.words_only;
            match view.status {
                JobStatus::Failed => {
                    let reason = view.error.map_or_else(String::new, |it| it.message);
                    return Err(ToolError::NotIndexed { folder: self.folder.to_owned(), reason });
                }
                JobStatus::Cancelled if begun.is_own => return Err(ToolError::Cancelled),
                JobStatus::Done if is_enough => return Ok(view),
                // It was another call's, which did less or was cancelled.
                _ => tokio::task::yield_now().await,
            }
        }
    }

    fn begun(&self) -> Result<Begun<'_>, ToolError> {
        match self.service.add_folder(self.folder, self.words_only) {
            Ok(job) => Ok(Begun { service: self.service, job, is_own: true }),
            Err(ServiceError::Building { job, .. }) => {
                Ok(Begun { service: self.service, job: self.service.job(&job)?, is_own: false })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A job that is waited for. Dropped, it is ended, unless it is another call's.
struct Begun<'a> {
    service: &'a Service,
    job: Arc<Job>,
    is_own: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let view = self.job.view();
        if self.is_own && !view.status.is_finished() {
            // One that is gone needs no end.
            let _ = self.service.cancel(&view.job);
        }
    }
}

impl Begun<'_> {
    async fn finished(&self, wanted: &Wanted<'_>, caller: &Caller) -> Result<JobView, ToolError> {
        let mut changes = self.job.watch();
        let mut since = None;
        loop {
            let view = changes.borrow_and_update().clone();
            if view.status.is_finished() {
                return Ok(view);
            }
            let is_kept_waiting = view.progress.as_ref().is_some_and(|it| it.phase == WAITING);
            since = is_kept_waiting.then(|| since.unwrap_or_else(Instant::now));
            let end = since.zip(wanted.patience).map(|(since, patience)| since + patience);
            if let Some(progress) = &view.progress {
                caller.tell(percent(progress, wanted.share), said(progress)).await;
            }
            tokio::select! {
                // The sender is in the job.
                _ = changes.changed() => {}
                () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                    return Err(ToolError::Busy { folder: wanted.folder.to_owned() });
                }
            }
        }
    }
}

/// The phase in which another process has the index.
const WAITING: &str = "waiting";

/// How far a job is, as a part of a call. Embedding is nearly all of it.
fn percent(progress: &Progress, (from, to): (u8, u8)) -> u8 {
    let (begin, end) = match progress.phase.as_str() {
        "reading" => (0.0, 0.1),
        "cutting" => (0.1, 0.15),
        "embedding" => (0.15, 0.98),
        "linking" => (0.98, 1.0),
        _ => (0.0, 0.0),
    };
    let done = (progress.done as f32 / progress.total.max(1) as f32).min(1.0);
    let part = begin + (end - begin) * done;
    (f32::from(from) + f32::from(to - from) * part) as u8
}

/// How far a job is, in words.
pub fn said(progress: &Progress) -> String {
    let Progress { phase, done, total } = progress;
    match phase.as_str() {
        WAITING => "waiting for another process that indexes it".to_owned(),
        _ => format!("{phase} {done} of {total}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(phase: &str, done: usize, total: usize, expected: u8) {
        let progress = Progress { phase: phase.to_owned(), done, total };
        assert_eq!(percent(&progress, (10, 100)), expected, "{phase} {done} of {total}");
    }

    #[test]
    fn phases_follow_on_each_other() {
        check("waiting", 0, 0, 10);
        check("reading", 0, 0, 10);
        check("reading", 5, 10, 14);
        check("cutting", 0, 10, 19);
        check("embedding", 0, 10, 23);
        check("embedding", 10, 10, 98);
        check("linking", 0, 1, 98);
        check("linking", 3, 2, 100);
        check("unheard of", 1, 1, 10);
    }
}
