//! F5: what pictures say, without a question to a repository.

use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::State;
use super::embeddings::of_picture;
use super::error::{ApiError, ErrorDetail, Failures};
use super::form::{self, ImageInput, Picture, check_count};
use crate::evidence::{EvidenceError, Reading};
use crate::imaging::ImageError;
use crate::service::Service;
use crate::service::evidence::Vce;
use crate::service::pictures::Given;
use crate::types::IssueReport;

pub fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(evidence))
}

/// Pictures, and the issue that they are of: a vision-language model is told it, if one is set.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct EvidenceRequest {
    title: Option<String>,
    body: Option<String>,
    #[schema(max_items = 8)]
    images: Option<Vec<ImageInput>>,
}

/// The same as a form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a shape for the documentation; the form is read field by field")]
struct EvidenceForm {
    title: Option<String>,
    body: Option<String>,
    /// A file; may be repeated.
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    image: Option<Vec<u8>>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EvidenceResponse {
    /// Of each picture, in order.
    evidence: Vec<Item>,
}

/// What a picture says, or why it can't be told.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Item {
    Evidence(Box<Vce>),
    Failed { name: String, error: ErrorDetail },
}

/// Tell what pictures say
///
/// Their text, and what it says of errors, code and interface (visual content evidence). A picture that can't be read has an error in its
/// place, and only if none can is the request refused.
#[utoipa::path(
    post, path = "/v1/evidence", tag = "evidence",
    request_body(content((EvidenceRequest = "application/json"), (EvidenceForm = "multipart/form-data"))),
    responses((status = 200, body = EvidenceResponse), Failures)
)]
async fn evidence(Shared(state): Shared<State>, request: Request) -> Result<Response, ApiError> {
    let service = state.service()?;
    let (request, pictures) = form::read(&state, request, |it: &mut EvidenceRequest| it.images.take()).await?;
    if pictures.is_empty() {
        return Err(ApiError::malformed("empty", "there is no picture: send one or more in `images`").of("images"));
    }
    check_count(&pictures)?;
    let EvidenceRequest { title, body, .. } = request;
    let issue =
        IssueReport { title: title.unwrap_or_default(), body: body.unwrap_or_default(), ..IssueReport::default() };
    let one = async |picture: Picture| {
        let name = picture.name.clone().unwrap_or_else(|| picture.param.clone());
        (
            name.clone(),
            read(&state, service, &issue, picture).await.map(|it| Vce::of(&name, &it).with_lines(it.page.as_ref())),
        )
    };
    let read: Vec<(String, Result<Vce, ApiError>)> = stream::iter(pictures).map(one).buffered(AT_ONCE).collect().await;
    let failed = read.iter().filter_map(|it| it.1.as_ref().err());
    if let Some(error) = failed.clone().next().filter(|_| failed.count() == read.len()) {
        return Err(error.clone());
    }
    let item = |(name, read): (String, Result<Vce, ApiError>)| match read {
        Ok(vce) => Item::Evidence(Box::new(vce)),
        Err(error) => Item::Failed { name, error: error.detail() },
    };
    Ok(axum::Json(EvidenceResponse { evidence: read.into_iter().map(item).collect() }).into_response())
}

/// Pictures of one request that are decoded or read at a time.
const AT_ONCE: usize = 2;

async fn read(state: &State, service: &Service, issue: &IssueReport, picture: Picture) -> Result<Reading, ApiError> {
    let Picture { param, text, source, .. } = picture;
    let decoded =
        state.means().pictures.read(vec![Given { param: param.clone(), source }]).await.map_err(of_picture)?;
    let report = IssueReport { images: decoded.into_iter().map(|it| it.image).collect(), ..issue.clone() };
    let read = service.read(&report, vec![text]).await?.into_iter().next();
    let failed = |error: EvidenceError| {
        let message = format!("the picture `{param}` can't be used: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "evidence_failed", message).of(&param)
    };
    // A picture gives a reading or an error.
    read.unwrap_or_else(|| Err(EvidenceError::Image(ImageError::Empty))).map_err(failed)
}
