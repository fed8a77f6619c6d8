//! F5: repositories and the jobs that index them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State as Shared};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::State;
use super::error::{ApiError, Failures};
use super::extract::{Json, Path};
use super::guard::StreamError;
use crate::service::jobs::{Job, JobView};
use crate::service::{Arrival, JobRest, RepositoryView, ServiceError};

pub fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(put, get, delete))
        .routes(routes!(upload))
        .routes(routes!(job, cancel))
        .routes(routes!(events))
}

/// Which files a repository has.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PutRequest {
    /// Where its files come from; left out, from where they came before.
    source: Option<Source>,
    /// Patterns of files that count, as in a .gitignore; all do if there are none.
    #[schema(example = json!(["src/"]))]
    include: Option<Vec<String>>,
    /// Patterns of files that don't count.
    #[schema(example = json!(["*.min.js"]))]
    exclude: Option<Vec<String>>,
    /// Longer files are skipped.
    #[schema(minimum = 1)]
    max_file_bytes: Option<u64>,
}

/// A folder on the server's machine, below one of its setting `server.roots`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Source {
    #[schema(example = "/srv/code/project")]
    path: String,
    /// A revision of the git repository there; left out or null, the files on disk.
    #[schema(example = "main")]
    rev: Option<String>,
}

/// A job that was begun.
#[derive(Debug, Serialize, ToSchema)]
struct Begun {
    repository: String,
    job: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct RepositoryList {
    repositories: Vec<RepositoryView>,
}

impl Begun {
    fn of(job: &Job) -> (StatusCode, axum::Json<Self>) {
        let JobView { repository, job, .. } = job.view();
        (StatusCode::ACCEPTED, axum::Json(Begun { repository, job }))
    }
}

/// List the repositories
///
/// Each as it was last seen; whether an index is stale is looked at when one is asked for by name.
#[utoipa::path(get, path = "/v1/repositories", tag = "repositories", responses((status = 200, body = RepositoryList), Failures))]
async fn list(Shared(state): Shared<State>) -> Result<axum::Json<RepositoryList>, ApiError> {
    Ok(axum::Json(RepositoryList { repositories: state.service()?.repositories().await }))
}

/// Add a repository, or index it again
///
/// The work is done in the background by the job that is named. The index before it answers until then.
#[utoipa::path(
    put, path = "/v1/repositories/{repo}", tag = "repositories",
    params(("repo" = String, Path, description = "A name of your choice: letters, digits, dots, dashes, underscores.", pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")),
    request_body = PutRequest,
    responses((status = 202, body = Begun), Failures)
)]
async fn put(
    Shared(state): Shared<State>,
    Path(repo): Path<String>,
    Json(request): Json<PutRequest>,
) -> Result<(StatusCode, axum::Json<Begun>), ApiError> {
    let service = state.service()?;
    let PutRequest { source, include, exclude, max_file_bytes } = request;
    if max_file_bytes == Some(0) {
        return Err(ApiError::invalid("invalid_field", "`max_file_bytes` is 0, which leaves no file: give 1 or more")
            .of("max_file_bytes"));
    }
    let (path, revision) = source.map(|it| (it.path, it.rev)).unzip();
    let rest = JobRest { revision: revision.flatten(), include, exclude, max_file_bytes };
    let (service, repo) = (Arc::clone(service), repo);
    let added = tokio::task::spawn_blocking(move || service.add(&repo, path.as_deref(), rest)).await;
    let added = added.map_err(ServiceError::internal)??;
    Ok(Begun::of(&added))
}

/// Show a repository
///
/// Also what was skipped, and whether its index is what its source is now.
#[utoipa::path(
    get, path = "/v1/repositories/{repo}", tag = "repositories", params(("repo" = String, Path, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")),
    responses((status = 200, body = RepositoryView), Failures)
)]
async fn get(Shared(state): Shared<State>, Path(repo): Path<String>) -> Result<axum::Json<RepositoryView>, ApiError> {
    Ok(axum::Json(state.service()?.repository(&repo).await?))
}

/// Delete a repository's index
///
/// A job that makes it is cancelled first. Files that were uploaded go too; a folder on the server stays as it is.
#[utoipa::path(
    delete, path = "/v1/repositories/{repo}", tag = "repositories", params(("repo" = String, Path, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")),
    responses((status = 204), Failures)
)]
async fn delete(Shared(state): Shared<State>, Path(repo): Path<String>) -> Result<StatusCode, ApiError> {
    state.service()?.delete(&repo).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Add a repository by sending its files
///
/// The body is a tar, a tar.gz or a zip. Only regular files are taken from it; one folder that holds all is left out of the paths.
#[utoipa::path(
    post, path = "/v1/repositories/{repo}/snapshot", tag = "repositories", params(("repo" = String, Path, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")),
    request_body(content(
        (Archive = "application/x-tar"), (Archive = "application/gzip"), (Archive = "application/zip"),
        (Archive = "application/octet-stream")
    )),
    responses((status = 202, body = Begun), Failures)
)]
async fn upload(
    Shared(state): Shared<State>,
    Path(repo): Path<String>,
    request: Request,
) -> Result<(StatusCode, axum::Json<Begun>), ApiError> {
    check_archive_type(request.headers())?;
    let service = state.service()?;
    service.check_free(&repo)?;
    let arrival = service.arrival();
    receive(&arrival, request.into_body()).await?;
    let added = service.add_archive(&repo, arrival, JobRest::default()).await?;
    Ok(Begun::of(&added))
}

/// The bytes of an archive.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
struct Archive(#[expect(dead_code, reason = "it is a shape for the documentation; the body is streamed")] Vec<u8>);

/// An event of a job.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a shape for the documentation")]
struct JobEvent {
    /// `progress`, or `end` for the last one.
    event: String,
    /// The job as JSON.
    data: String,
}

/// Media types of archives, and the one that clients send who don't know.
const ARCHIVES: [&str; 9] = [
    "application/x-tar",
    "application/tar",
    "application/gzip",
    "application/x-gzip",
    "application/x-gtar",
    "application/x-compressed-tar",
    "application/zip",
    "application/x-zip-compressed",
    "application/octet-stream",
];

fn check_archive_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let named = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let essence = named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match ARCHIVES.contains(&essence.as_str()) {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media_type",
            "the body is not marked as an archive: send it with `Content-Type: application/x-tar`, `application/gzip` or `application/zip`",
        )),
    }
}

/// Writes a body to disk as it comes.
async fn receive(arrival: &Arrival, body: Body) -> Result<(), ApiError> {
    let failed = |error: std::io::Error| ApiError::from(ServiceError::from(error));
    let mut file = tokio::fs::File::create(arrival.file()).await.map_err(failed)?;
    let mut data = body.into_data_stream();
    let mut bytes = 0;
    while let Some(chunk) = data.next().await {
        let chunk = chunk.map_err(|error| match StreamError::find(&error) {
            Some(error) => error.into(),
            None => ApiError::from(StreamError::Cut),
        })?;
        bytes += chunk.len();
        file.write_all(&chunk).await.map_err(failed)?;
    }
    if bytes == 0 {
        return Err(ApiError::malformed("empty", "the body is empty: send a tar, a tar.gz or a zip"));
    }
    file.flush().await.map_err(failed)
}

/// Show a job
#[utoipa::path(
    get, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path)),
    responses((status = 200, body = JobView), Failures)
)]
async fn job(Shared(state): Shared<State>, Path(id): Path<String>) -> Result<axum::Json<JobView>, ApiError> {
    Ok(axum::Json(state.service()?.job(&id)?.view()))
}

/// Cancel a job
///
/// One that runs ends within seconds. What it has embedded is kept; the index is as it was before.
#[utoipa::path(
    delete, path = "/v1/jobs/{job}", tag = "jobs", params(("job" = String, Path)),
    responses((status = 202, description = "The job as it is now.", body = JobView), Failures)
)]
async fn cancel(
    Shared(state): Shared<State>,
    Path(id): Path<String>,
) -> Result<(StatusCode, axum::Json<JobView>), ApiError> {
    Ok((StatusCode::ACCEPTED, axum::Json(state.service()?.cancel(&id)?.view())))
}

/// Hear of a job's progress
///
/// Server-sent events: `progress` with the job whenever it changes, at most ten times a second, then `end`.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/events", tag = "jobs", params(("job" = String, Path)),
    responses((status = 200, body = JobEvent, content_type = "text/event-stream"), Failures)
)]
async fn events(
    Shared(state): Shared<State>,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let job = state.service()?.job(&id)?;
    let mut watched = job.watch();
    watched.mark_changed();
    let told = stream::unfold(Some((watched, state)), |watched| async move {
        let (mut watched, state) = watched?;
        tokio::select! {
            changed = watched.changed() => changed.ok()?,
            () = state.ended() => return None,
        }
        let view = watched.borrow_and_update().clone();
        let is_end = view.status.is_finished();
        let event = Event::default().event(if is_end { "end" } else { "progress" });
        let event = event.json_data(&view).unwrap_or_default();
        if !is_end {
            tokio::time::sleep(LEAST_PAUSE).await;
        }
        Some((Ok(event), (!is_end).then_some((watched, state))))
    });
    Ok(Sse::new(told).keep_alive(KeepAlive::new().interval(KEPT_ALIVE)))
}

/// Between two events of a job.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// So often something is sent to who waits, for proxies that cut what is silent.
const KEPT_ALIVE: Duration = Duration::from_secs(15);
