//! F5: the one shape of errors on the wire, and the one map from what failed to a status.
//!
//! The message of a client names its own request and a remedy. What it is not told stands in the log.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

use crate::encoder::EncoderError;
use crate::service::ServiceError;

/// What a request gets that can't be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub status: StatusCode,
    /// A name for programs that doesn't change.
    pub code: &'static str,
    pub message: String,
    /// The item of the request that is to blame, in the request's own words: `input[3]`, `images[0].data`.
    pub param: Option<String>,
    /// When it is worth to ask again.
    pub retry_after: Option<Duration>,
}

/// The body of every answer that is an error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorDetail,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail {
    /// One line: what, why, and what to do.
    pub message: String,
    /// The class of the error.
    #[schema(example = "invalid_request_error")]
    pub r#type: &'static str,
    /// A name for programs that doesn't change.
    #[schema(example = "unknown_field")]
    pub code: &'static str,
    /// The item of the request that is to blame.
    pub param: Option<String>,
}

impl ApiError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        ApiError { status, code, message: message.into(), param: None, retry_after: None }
    }

    /// 400: malformed or empty.
    pub fn malformed(code: &'static str, message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 422: well formed, and can't be done.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    #[must_use]
    pub fn of(self, param: impl Into<String>) -> Self {
        ApiError { param: Some(param.into()), ..self }
    }

    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        ApiError { retry_after: Some(time), ..self }
    }

    /// As it stands in a body.
    pub fn detail(self) -> ErrorDetail {
        let r#type = self.kind();
        ErrorDetail { message: self.message, r#type, code: self.code, param: self.param }
    }

    /// The class of a status.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 | 403 => "authentication_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let error = self.detail();
        let mut response = (status, Json(ErrorBody { error })).into_response();
        if let Some(time) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(time.as_secs().max(1)));
        }
        response
    }
}

/// What any request may be answered with instead.
#[derive(IntoResponses)]
pub enum Failures {
    /// What was sent is malformed or empty, or a picture or an archive can't be read.
    #[response(status = 400)]
    Malformed(ErrorBody),
    /// The key is missing or wrong.
    #[response(status = 401)]
    Unauthorized(ErrorBody),
    /// The host or the origin of the request is not one that is served.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// There is no such repository, job or model.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// The body took too long to arrive.
    #[response(status = 408)]
    TooSlow(ErrorBody),
    /// The repository is being built, in use, or could not be built.
    #[response(status = 409)]
    Conflict(ErrorBody),
    /// The body, a picture, a text or the list of inputs is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is not of a media type that is read here.
    #[response(status = 415)]
    MediaType(ErrorBody),
    /// A field is unknown or wrong, an input is too long, or it can't be done.
    #[response(status = 422)]
    Invalid(ErrorBody),
    /// Too much is waiting: ask again when `Retry-After` says.
    #[response(status = 429)]
    Overloaded(ErrorBody),
    /// Something failed inside.
    #[response(status = 500)]
    Failed(ErrorBody),
    /// The service is starting or ending, or the answer took too long: ask again when `Retry-After` says.
    #[response(status = 503)]
    NotReady(ErrorBody),
}

/// How long until a service that is starting or ending may be back.
const SOON: Duration = Duration::from_secs(1);

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        let message = error.to_string();
        let with = |status, code| ApiError::new(status, code, message.clone());
        match error {
            ServiceError::UnknownRepository { .. } => with(StatusCode::NOT_FOUND, "repository_not_found").of("repo"),
            ServiceError::UnknownJob { .. } => with(StatusCode::NOT_FOUND, "job_not_found").of("job"),
            ServiceError::BadName { .. } => with(StatusCode::UNPROCESSABLE_ENTITY, "repository_name").of("repo"),
            ServiceError::Building { .. } => with(StatusCode::CONFLICT, "build_running"),
            ServiceError::NotBuilt { .. } => {
                with(StatusCode::SERVICE_UNAVAILABLE, "repository_building").retry_after(5 * SOON)
            }
            ServiceError::Failed { .. } => with(StatusCode::CONFLICT, "repository_failed"),
            ServiceError::InUse { .. } => with(StatusCode::CONFLICT, "repository_in_use"),
            ServiceError::TooManyJobs { .. } => {
                with(StatusCode::TOO_MANY_REQUESTS, "too_many_jobs").retry_after(10 * SOON)
            }
            ServiceError::TooManyRepositories { .. } => with(StatusCode::CONFLICT, "too_many_repositories"),
            ServiceError::PathNotAllowed => {
                with(StatusCode::UNPROCESSABLE_ENTITY, "path_not_allowed").of("source.path")
            }
            ServiceError::Unusable { field, .. } => with(StatusCode::UNPROCESSABLE_ENTITY, "unusable").of(field),
            ServiceError::BadArchive { .. } => with(StatusCode::BAD_REQUEST, "archive_invalid"),
            ServiceError::LargeArchive { .. } => with(StatusCode::PAYLOAD_TOO_LARGE, "archive_too_large"),
            ServiceError::LargeQuestion { .. } => with(StatusCode::PAYLOAD_TOO_LARGE, "text_too_large").of("body"),
            ServiceError::EmptyQuestion => with(StatusCode::BAD_REQUEST, "empty"),
            ServiceError::Overloaded { retry_after, .. } => {
                with(StatusCode::TOO_MANY_REQUESTS, "overloaded").retry_after(retry_after)
            }
            ServiceError::NotReady { .. } => with(StatusCode::SERVICE_UNAVAILABLE, "not_ready").retry_after(SOON),
            ServiceError::Input { param, error } => of_input(&error).of(param),
            ServiceError::StorageFull => with(StatusCode::SERVICE_UNAVAILABLE, "storage_full").retry_after(60 * SOON),
            ServiceError::Internal(cause) => {
                tracing::error!(cause = format!("{cause:#}"), "a request failed");
                with(StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
        }
    }
}

/// What an encoder has against an input.
fn of_input(error: &EncoderError) -> ApiError {
    let invalid = || ApiError::invalid(error.code(), error.to_string());
    match error {
        EncoderError::Image { code, cause, .. } => {
            let status = match *code {
                "image_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
                _ => StatusCode::BAD_REQUEST,
            };
            ApiError::new(status, code, format!("the picture can't be used: {cause}"))
        }
        EncoderError::TooLong { .. }
        | EncoderError::TextTooLong { .. }
        | EncoderError::UnknownToken { .. }
        | EncoderError::Misplaced { .. }
        | EncoderError::Unfit { .. }
        | EncoderError::Blind { .. }
        | EncoderError::Uninstructed { .. } => invalid(),
        EncoderError::TooLarge { .. } => ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error.code(), error.to_string()),
        EncoderError::Stopped => ServiceError::NotReady { what: "it is ending" }.into(),
        EncoderError::Unreadable { .. }
        | EncoderError::Unwritable { .. }
        | EncoderError::Damaged { .. }
        | EncoderError::Foreign { .. }
        | EncoderError::Quantised { .. }
        | EncoderError::NotBundled
        | EncoderError::Tokenize { .. }
        | EncoderError::Compute { .. }
        | EncoderError::Threads { .. } => {
            tracing::error!(cause = error.to_string(), "the encoder failed on a request");
            ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                error.code(),
                "the model failed on this input: the server's log says why, under this request's id",
            )
        }
    }
}
