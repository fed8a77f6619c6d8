//! Why the service can't do what it is asked.

use std::time::Duration;

use crate::encoder::EncoderError;
use crate::index::directory::IndexError;
use crate::index::store::StoreError;
use crate::retriever::RetrieverError;
use crate::retriever::inference::InferenceError;
use crate::retriever::ingest::IngestError;
use crate::snapshot::SnapshotError;

/// Why the service can't do what it is asked. Messages are for who asks, and name nothing of the machine; causes are for the log.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("there is no repository `{id}`: PUT /v1/repositories/{id} adds it")]
    UnknownRepository { id: String },
    #[error("there is no job `{id}`: GET /v1/repositories names the last of each repository")]
    UnknownJob { id: String },
    #[error(
        "`{id}` is no name for a repository: take 1 to 64 letters, digits, dots, dashes and underscores, not a dot first"
    )]
    BadName { id: String },
    #[error("the repository `{id}` is being built by job {job}: wait until it is done, or cancel it")]
    Building { id: String, job: String },
    #[error("the repository `{id}` has no index yet: job {job} is making it")]
    NotBuilt { id: String, job: String },
    #[error("the repository `{id}` could not be indexed ({reason}): PUT it again")]
    Failed { id: String, reason: String },
    #[error("the repository `{id}` is in use by another process: try again")]
    InUse { id: String },
    #[error("{jobs} jobs wait, as many as may: try again when some are done")]
    TooManyJobs { jobs: usize },
    #[error("there are {repositories} repositories, as many as may be: delete one first")]
    TooManyRepositories { repositories: usize },
    /// Not said: whether there is anything.
    #[error("the path is not one that this service may read: name one below a folder of its setting `server.roots`")]
    PathNotAllowed,
    #[error("`{field}` can't be used: {reason}")]
    Unusable { field: String, reason: String },
    #[error("the archive can't be read: {reason}")]
    BadArchive { reason: String },
    #[error("the archive is too large: {reason}")]
    LargeArchive { reason: String },
    #[error("there is nothing to ask: give a title, a body or a picture")]
    EmptyQuestion,
    #[error(
        "the issue has {bytes} bytes of text, more than the {most} that are read: send the report without what is attached to it"
    )]
    LargeQuestion { bytes: usize, most: usize },
    #[error("{waiting} tokens wait for the encoder, as many as may: ask again in {} s", retry_after.as_secs())]
    Overloaded { waiting: usize, retry_after: Duration },
    #[error("the service is not ready ({what}): ask again")]
    NotReady { what: &'static str },
    /// Of something in the request.
    #[error("{error}")]
    Input { param: String, error: EncoderError },
    #[error("the disk is full, so nothing can be kept: make room on the server")]
    StorageFull,
    /// What no request is to blame for.
    #[error("something failed inside: the server's log says what, under this request's id")]
    Internal(#[source] anyhow::Error),
}

impl ServiceError {
    pub fn internal(error: impl Into<anyhow::Error>) -> Self {
        ServiceError::Internal(error.into())
    }
}

impl From<InferenceError> for ServiceError {
    fn from(error: InferenceError) -> Self {
        match error {
            InferenceError::Full { waiting, retry_after } => ServiceError::Overloaded { waiting, retry_after },
            InferenceError::Encoder(EncoderError::Stopped) => ServiceError::NotReady { what: "it is ending" },
            InferenceError::Encoder(error) => ServiceError::internal(error),
        }
    }
}

impl From<RetrieverError> for ServiceError {
    fn from(error: RetrieverError) -> Self {
        match error {
            RetrieverError::Encoder(EncoderError::Stopped) => ServiceError::NotReady { what: "it is ending" },
            error => ServiceError::internal(error),
        }
    }
}

impl From<IndexError> for ServiceError {
    fn from(error: IndexError) -> Self {
        match &error {
            IndexError::Write { source, .. } if is_full(source) => ServiceError::StorageFull,
            _ => ServiceError::internal(error),
        }
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        ServiceError::internal(error)
    }
}

impl From<IngestError> for ServiceError {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Index(error) => error.into(),
            IngestError::Snapshot(error) => error.into(),
            error => ServiceError::internal(error),
        }
    }
}

impl From<SnapshotError> for ServiceError {
    fn from(error: SnapshotError) -> Self {
        ServiceError::internal(error)
    }
}

impl From<std::io::Error> for ServiceError {
    fn from(error: std::io::Error) -> Self {
        if is_full(&error) { ServiceError::StorageFull } else { ServiceError::internal(error) }
    }
}

/// Whether a disk or a quota has no room.
pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
