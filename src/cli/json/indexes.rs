//! The JSON of `index`, `status` and `cache`.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use super::CandidateLine;
use crate::cli::status::{Known, KnownBuild, Staleness};
use crate::index::build::{Counts, Target};
use crate::index::directory::RepositoryDirectory;
use crate::index::store::{ModelKey, StoreStats};
use crate::index::view::View;
use crate::retriever::ingest::Report;
use crate::service::located::Changed;

/// The answer of `index --json`.
#[derive(Serialize)]
pub struct IndexRun<'a> {
    repository: &'a str,
    builds: Vec<BuildReport<'a>>,
    /// Of revisions that are not indexed.
    failures: Vec<FailedRevision<'a>>,
}

#[derive(Serialize)]
struct FailedRevision<'a> {
    /// Null for the files on disk.
    revision: Option<&'a str>,
    error: String,
}

#[derive(Serialize)]
struct BuildReport<'a> {
    /// `worktree`, or the full hash of the commit.
    target: &'a str,
    status: &'static str,
    /// Whether there was anything to do.
    new: bool,
    files: usize,
    functions: usize,
    windows: usize,
    vectors: usize,
    changes: Changed<'a>,
    /// Files whose content was looked at.
    files_read: usize,
    new_candidates: usize,
    /// Windows of new candidates: embedded in this run, known from the store, failed, or left without a vector.
    embedded: usize,
    cached: usize,
    failed: usize,
    left: usize,
    skipped: usize,
    notes: usize,
    seconds: f32,
    embedding_seconds: f32,
}

fn target_name(target: &Target) -> &str {
    match target {
        Target::WorkTree => "worktree",
        Target::Commit(hash) => hash,
    }
}

fn status_of(counts: &Counts) -> &'static str {
    if counts.is_complete() { "ready" } else { "partial" }
}

impl<'a> IndexRun<'a> {
    pub fn of(
        directory: &'a RepositoryDirectory,
        reports: &[&'a Report],
        failures: Vec<(Option<&'a str>, String)>,
    ) -> Self {
        let build = |report: &&'a Report| BuildReport {
            target: target_name(&report.target),
            status: status_of(&report.counts),
            new: report.is_new,
            files: report.counts.files,
            functions: report.counts.functions,
            windows: report.counts.windows,
            vectors: report.counts.vectors,
            changes: Changed::of(&report.changes),
            files_read: report.read,
            new_candidates: report.candidates,
            embedded: report.embedding.embedded,
            cached: report.embedding.cached,
            failed: report.embedding.failed,
            left: report.embedding.left,
            skipped: report.skipped,
            notes: report.notes,
            seconds: report.time.as_secs_f32(),
            embedding_seconds: report.embedding_time.as_secs_f32(),
        };
        let failures = failures.into_iter().map(|(revision, error)| FailedRevision { revision, error });
        IndexRun {
            repository: &directory.id,
            builds: reports.iter().map(build).collect(),
            failures: failures.collect(),
        }
    }
}

/// The answer of `status --json`.
#[derive(Serialize)]
pub struct Status<'a> {
    data_dir: String,
    repositories: Vec<Repository<'a>>,
}

#[derive(Serialize)]
struct Repository<'a> {
    repository: &'a str,
    path: Option<&'a str>,
    /// Of all files of its indexes.
    bytes: u64,
    /// Why the last run built nothing.
    failure: Option<&'a str>,
    builds: Vec<Build<'a>>,
}

#[derive(Serialize)]
struct Build<'a> {
    target: &'a str,
    status: &'static str,
    stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changed<'a>>,
    /// Why it is stale beyond changed files, or damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    manifest: Option<Manifest<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<CandidateLine<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<CandidateLine<'a>>,
}

#[derive(Serialize)]
struct Manifest<'a> {
    model: Option<&'a str>,
    model_fingerprint: Option<&'a str>,
    /// How the model was run; null in an index of an earlier version.
    dtype: Option<&'a str>,
    policy: Option<&'a str>,
    /// The patterns that chose its files.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    exclude: &'a [String],
    files: usize,
    functions: usize,
    windows: usize,
    vectors: usize,
    /// Seconds since 1970.
    created: u64,
}

impl<'a> Status<'a> {
    pub fn of(data: &Path, known: &'a [Known]) -> Self {
        let repository = |it: &'a Known| Repository {
            repository: &it.directory.id,
            path: it.source.as_ref().map(|it| it.path.as_str()),
            bytes: it.bytes,
            failure: it.failure(),
            builds: it.builds.iter().map(Build::of).collect(),
        };
        Status { data_dir: data.display().to_string(), repositories: known.iter().map(repository).collect() }
    }
}

impl<'a> Build<'a> {
    fn of(build: &'a KnownBuild) -> Self {
        let (changes, reason) = match (&build.manifest, &build.staleness) {
            (Err(error), _) => (None, Some(error.to_string())),
            (_, Some(Staleness::Changed(changes))) => (Some(Changed::of(changes)), None),
            (_, Some(Staleness::OtherRules)) => {
                (None, Some("made by another version or under other settings".to_owned()))
            }
            (_, Some(Staleness::Unknown(reason) | Staleness::Damaged(reason))) => (None, Some(reason.clone())),
            (_, None) => (None, None),
        };
        let manifest = build.manifest.as_ref().ok().map(|it| Manifest {
            model: it.model.as_ref().map(|it| it.id.as_str()),
            model_fingerprint: it.model.as_ref().map(|it| it.fingerprint.as_str()),
            dtype: it.run.as_ref().map(|it| it.dtype.as_str()),
            policy: it.run.as_ref().map(|it| it.policy.as_str()),
            include: &it.rules.include,
            exclude: &it.rules.exclude,
            files: it.counts.files,
            functions: it.counts.functions,
            windows: it.counts.windows,
            vectors: it.counts.vectors,
            created: it.created,
        });
        let skipped =
            build.skipped.iter().map(|(path, reason)| CandidateLine::Skipped { path, reason: reason.clone() });
        let notes = build.notes.iter().map(|(path, message)| CandidateLine::Note { path, message });
        Build {
            target: &build.target,
            status: build.state(),
            stale: build.is_stale(),
            changes,
            reason,
            manifest,
            skipped: skipped.collect(),
            notes: notes.collect(),
        }
    }
}

/// The answer of `cache --json`.
#[derive(Serialize)]
pub struct Cache<'a> {
    data_dir: String,
    store_bytes: u64,
    models: Vec<CachedModel<'a>>,
    repositories: Vec<CachedRepository<'a>>,
}

#[derive(Serialize)]
struct CachedModel<'a> {
    model: &'a str,
    fingerprint: &'a str,
    dimensions: usize,
    vectors: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct CachedRepository<'a> {
    repository: &'a str,
    bytes: u64,
}

impl<'a> Cache<'a> {
    pub fn of(data: &Path, stats: &'a StoreStats, repositories: &'a [(String, u64)]) -> Self {
        let models = stats.models.iter().map(|it| CachedModel {
            model: &it.id,
            fingerprint: &it.fingerprint,
            dimensions: it.dimensions,
            vectors: it.vectors,
            bytes: it.bytes,
        });
        let repositories = repositories.iter().map(|(id, bytes)| CachedRepository { repository: id, bytes: *bytes });
        Cache {
            data_dir: data.display().to_string(),
            store_bytes: stats.file_bytes,
            models: models.collect(),
            repositories: repositories.collect(),
        }
    }
}

/// What `cache prune` and `cache forget` removed.
#[derive(Serialize)]
pub struct Pruned {
    pub vectors: u64,
    pub bytes: u64,
}

/// The first line of an export: what the vectors are of.
#[derive(Serialize)]
pub struct ExportHead<'a> {
    kind: &'static str,
    commit: Option<&'a str>,
    model: &'a str,
    model_fingerprint: &'a str,
    dimensions: usize,
}

impl<'a> ExportHead<'a> {
    pub fn of(view: &'a View, model: &'a ModelKey) -> Self {
        ExportHead {
            kind: "index",
            commit: view.commit(),
            model: &model.id,
            model_fingerprint: &model.fingerprint,
            dimensions: model.dimensions,
        }
    }

    /// The same as the metadata of a safetensors file.
    pub fn metadata(&self) -> HashMap<String, String> {
        let pairs = [
            ("commit", self.commit.unwrap_or_default().to_owned()),
            ("model", self.model.to_owned()),
            ("model_fingerprint", self.model_fingerprint.to_owned()),
            ("dimensions", self.dimensions.to_string()),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// A candidate of an export with the vectors of its windows.
#[derive(Serialize)]
pub struct Exported<'a> {
    #[serde(flatten)]
    pub candidate: CandidateLine<'a>,
    pub windows: Vec<ExportedWindow>,
}

/// Bytes of the candidate's body, and the vector; null where there is none.
#[derive(Serialize)]
pub struct ExportedWindow {
    pub start: u32,
    pub end: u32,
    pub vector: Option<Vec<f32>>,
}
