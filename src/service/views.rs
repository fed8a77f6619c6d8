//! What is told of repositories.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::jobs::{JobStatus, Progress};
use super::repositories::{Repository, Served, Staleness};
use super::{Service, ServiceError};
use crate::index::build::Target;

/// What a repository is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// There is no index yet.
    Building,
    /// Every candidate has its vectors.
    Ready,
    /// It answers; vectors are missing, which questions fill in.
    Partial,
    /// Nothing could be built.
    Failed,
}

/// A repository as it is told.
#[derive(Debug, Serialize, ToSchema)]
pub struct RepositoryView {
    pub repository: String,
    pub status: Status,
    /// Whether the index is known not to be what its source is now.
    pub stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_reason: Option<String>,
    /// Null while it is not known.
    pub source: Option<SourceView>,
    /// Of the index; null for files on disk.
    pub commit: Option<String>,
    pub model: Option<String>,
    pub model_fingerprint: Option<String>,
    pub files: usize,
    pub functions: usize,
    pub windows: usize,
    /// Windows that have a vector.
    pub vectors: usize,
    /// Seconds since 1970.
    pub created: Option<u64>,
    /// Paths that gave no candidate; null in a list of repositories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Vec<SkippedView>>,
    pub skipped_count: usize,
    pub cache: CacheView,
    /// Of the job that runs.
    pub progress: Option<Progress>,
    /// The last job.
    pub job: Option<String>,
    /// Why the last job built nothing.
    pub failure: Option<String>,
}

/// Where a repository's files come from.
#[derive(Debug, Serialize, ToSchema)]
pub struct SourceView {
    /// `path` or `upload`.
    pub kind: &'static str,
    /// Only if it is below a folder that clients may name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    pub rev: Option<String>,
}

/// A path that gave no candidate.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkippedView {
    pub path: String,
    pub reason: String,
}

/// Vectors of the last job that were known, and that had to be computed.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct CacheView {
    pub hits: usize,
    pub misses: usize,
}

impl Service {
    /// All repositories, as they were last seen.
    pub async fn repositories(&self) -> Vec<RepositoryView> {
        let inner = Arc::clone(&self.inner);
        let views = tokio::task::spawn_blocking(move || {
            let view = |it: Arc<Repository>| {
                let _ = it.open_once();
                let (served, staleness) = it.last_seen();
                Some(inner.view(&it, served.as_deref(), &staleness, false))
            };
            inner.repositories.all().into_iter().filter_map(view).collect()
        });
        views.await.unwrap_or_default()
    }

    /// A repository as it is now.
    ///
    /// # Errors
    /// When there is none, or its index can't be opened.
    pub async fn repository(&self, name: &str) -> Result<RepositoryView, ServiceError> {
        let repository = self.inner.repositories.get(name)?;
        let inner = Arc::clone(&self.inner);
        let view = tokio::task::spawn_blocking(move || {
            let found = repository.look(inner.inference.model(), &inner.repositories.sources)?;
            let (served, staleness) = found.unzip();
            Ok(inner.view(&repository, served.as_deref(), &staleness.unwrap_or_default(), true))
        });
        view.await.map_err(ServiceError::internal)?
    }
}

impl super::Inner {
    fn view(
        &self,
        repository: &Repository,
        served: Option<&Served>,
        staleness: &Staleness,
        has_skipped: bool,
    ) -> RepositoryView {
        let job = repository.job();
        let last = job.as_deref().and_then(|it| self.jobs.get(it).ok()).map(|it| (it.view(), it.source.clone()));
        let is_unfinished = last.as_ref().is_some_and(|it| !it.0.status.is_finished());
        let status = match served.map(|it| it.manifest().counts.is_complete()) {
            Some(true) => Status::Ready,
            Some(false) => Status::Partial,
            None if is_unfinished => Status::Building,
            None => Status::Failed,
        };
        let source = served.map(|it| (it.source.path.as_str(), it.source.revision.as_deref()));
        let of_job = || last.as_ref().map(|it| (it.1.path.as_str(), it.1.revision.as_deref()));
        let manifest = served.map(Served::manifest);
        let counts = manifest.map(|it| it.counts).unwrap_or_default();
        let model = manifest.and_then(|it| it.model.as_ref());
        let result = last.as_ref().and_then(|it| it.0.result.clone());
        let failed = last.as_ref().filter(|it| it.0.status == JobStatus::Failed);
        let failure = failed.and_then(|it| it.0.error.as_ref()).map(|it| it.message.clone());
        let skipped = served.map_or(&[][..], |it| &it.view.build.skipped);
        let row = |it: &(String, String)| SkippedView { path: it.0.clone(), reason: it.1.clone() };
        RepositoryView {
            repository: repository.name.clone(),
            status,
            stale: staleness.is_stale(),
            stale_reason: staleness.reason.clone(),
            source: source.or_else(of_job).map(|(path, revision)| self.source(path, revision)),
            commit: manifest.and_then(|it| match &it.target {
                Target::Commit(hash) => Some(hash.clone()),
                Target::WorkTree => None,
            }),
            model: model.map(|it| it.id.clone()),
            model_fingerprint: model.map(|it| it.fingerprint.clone()),
            files: counts.files,
            functions: counts.functions,
            windows: counts.windows,
            vectors: counts.vectors,
            created: manifest.map(|it| it.created),
            skipped: has_skipped.then(|| skipped.iter().map(row).collect()),
            skipped_count: skipped.len(),
            cache: result.map(|it| CacheView { hits: it.cached, misses: it.embedded }).unwrap_or_default(),
            progress: last.as_ref().and_then(|it| it.0.progress.clone()),
            failure: failure.or_else(|| (status == Status::Failed).then(|| "nothing could be built".to_owned())),
            job,
        }
    }

    fn source(&self, path: &str, revision: Option<&str>) -> SourceView {
        let path = std::path::Path::new(path);
        let kind = if path.starts_with(self.repositories.uploads()) { "upload" } else { "path" };
        let is_named = self.repositories.sources.may_be_named(path);
        let path = is_named.then(|| path.display().to_string());
        SourceView { kind, path, rev: revision.map(str::to_owned) }
    }
}
