//! F5: why a tool fails, in words that an agent can act on.

use std::path::PathBuf;

use crate::service::ServiceError;
use crate::service::pictures::BadPicture;

/// Why a client could not be served.
#[derive(Debug, thiserror::Error)]
#[error("the client does not speak the Model Context Protocol: {0}; let an agent start `sightline mcp`")]
pub struct ServeError(pub String);

/// Why a tool fails.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("the arguments of {tool} can't be used: {reason}")]
    Arguments { tool: &'static str, reason: String },
    #[error("`path`: {} is not a folder that can be read ({reason}); give the absolute path of a repository", path.display())]
    Folder { path: PathBuf, reason: String },
    #[error(
        "no `path` was given, and this server was started in {}, which is no repository; give the absolute path of one",
        folder.display()
    )]
    NoRepository { folder: PathBuf },
    #[error("`{param}`: {reason}; give the absolute path of a picture's file, or a data URL")]
    Picture { param: String, reason: String },
    #[error("`{}`: {}", .0.param, .0.error)]
    BadPicture(#[from] BadPicture),
    #[error("{} could not be indexed: {reason}", folder.display())]
    NotIndexed { folder: PathBuf, reason: String },
    #[error("another process is indexing {}; call again when it is done, index_status tells", folder.display())]
    Busy { folder: PathBuf },
    #[error("cancelled; what was embedded is kept, and the next call goes on with it")]
    Cancelled,
    #[error("Sightline could not start: {0}")]
    NotStarted(String),
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl ToolError {
    /// One line for the agent. The service's own words are for clients of its HTTP routes.
    pub fn for_agents(&self) -> String {
        match self {
            ToolError::Service(error) => of_service(error),
            other => other.to_string(),
        }
    }
}

fn of_service(error: &ServiceError) -> String {
    match error {
        ServiceError::UnknownRepository { .. } | ServiceError::UnknownJob { .. } => {
            "the repository has no index: call index_repository".to_owned()
        }
        ServiceError::NotBuilt { .. } | ServiceError::Building { .. } => {
            "the repository is being indexed: call again when index_status says that it is done".to_owned()
        }
        ServiceError::Failed { reason, .. } => format!("the repository could not be indexed: {reason}"),
        ServiceError::InUse { .. } => "another process is writing to the repository's index: call again".to_owned(),
        ServiceError::EmptyQuestion => "there is nothing to ask: give a `title`, a `body` or `images`".to_owned(),
        ServiceError::StorageFull => {
            "the disk is full, so no index can be kept: make room in Sightline's data directory".to_owned()
        }
        // Any folder may be named, and only text can be written down.
        ServiceError::PathNotAllowed => "`path`: it is not UTF-8, which an index needs: rename the folder".to_owned(),
        // It is the user's own machine, so that he may know all of it.
        ServiceError::Internal(cause) => format!("something failed inside: {cause:#}"),
        ServiceError::Input { param, error } => format!("`{param}`: {error}"),
        ServiceError::BadName { .. }
        | ServiceError::TooManyJobs { .. }
        | ServiceError::TooManyRepositories { .. }
        | ServiceError::Unusable { .. }
        | ServiceError::BadArchive { .. }
        | ServiceError::LargeArchive { .. }
        | ServiceError::LargeQuestion { .. }
        | ServiceError::Overloaded { .. }
        | ServiceError::NotReady { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: ServiceError, expected: &str) {
        let message = ToolError::from(error).for_agents();
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
        assert!(!message.contains("/v1/") && !message.contains("PUT"), "{message} speaks of HTTP");
    }

    #[test]
    fn messages_name_tools_and_not_routes() {
        let id = || "a".to_owned();
        check(ServiceError::UnknownRepository { id: id() }, "call index_repository");
        check(ServiceError::UnknownJob { id: id() }, "call index_repository");
        check(ServiceError::NotBuilt { id: id(), job: id() }, "index_status");
        check(ServiceError::Building { id: id(), job: id() }, "index_status");
        check(ServiceError::Failed { id: id(), reason: "no room".to_owned() }, "no room");
        check(ServiceError::PathNotAllowed, "`path`");
        check(ServiceError::EmptyQuestion, "`title`");
        check(ServiceError::StorageFull, "make room");
        check(ServiceError::internal(anyhow::anyhow!("inner").context("outer")), "outer: inner");
    }
}
