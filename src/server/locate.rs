//! F5: questions, as JSON or as a form with files.

use axum::extract::{Request, State as Shared};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::State;
use super::embeddings::of_picture;
use super::error::{ApiError, Failures};
use super::extract::Path;
use super::form::{self, ImageInput, Picture, check_count};
use crate::retriever::{Filter, Granularity, MOST_FILTERS, Request as Asked, RetrieverKind};
use crate::service::located::Located;
use crate::service::pictures::Given;
use crate::service::{Ask, AskedPicture};
use crate::types::{self, IssueReport};

pub fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::new().routes(routes!(locate))
}

/// An issue, and what is wanted of it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LocateRequest {
    #[schema(example = "Cursor jumps to the end when a label is edited")]
    title: Option<String>,
    /// Text or Markdown.
    body: Option<String>,
    #[schema(max_items = 8)]
    images: Option<Vec<ImageInput>>,
    /// Results in each list; fewer when there are fewer candidates.
    #[schema(minimum = 1, example = 10)]
    k: Option<usize>,
    granularity: Option<Lists>,
    retriever: Option<Retriever>,
    mode: Option<Mode>,
    /// Compare all vectors in full precision; for `dense`.
    exact: Option<bool>,
    filter: Option<FilterInput>,
    /// Show the terms behind each score.
    explain: Option<bool>,
}

/// Which candidates may be results.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FilterInput {
    /// Patterns as in a .gitignore: `src/`, `*.ts`.
    paths: Option<Vec<String>>,
    /// Names of languages, as results have them.
    languages: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Lists {
    File,
    Function,
    Both,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Retriever {
    /// Plain BM25.
    Bm25,
    /// Cosine of the encoder's vectors alone.
    Dense,
    /// All evidence.
    Hybrid,
}

/// What is read of the pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
enum Mode {
    /// Nothing: pictures are left out.
    #[serde(rename = "text")]
    Text,
    /// The encoder sees them, if it can.
    #[serde(rename = "image")]
    Image,
    /// The text in them, and what it says of errors, code and interface, stands for them.
    #[serde(rename = "vce")]
    Vce,
    /// Both. The default, if the model sees pictures; `vce` otherwise.
    #[serde(rename = "vce+image")]
    VceImage,
}

impl From<Mode> for types::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Text => types::Mode::Text,
            Mode::Image => types::Mode::Image,
            Mode::Vce => types::Mode::Vce,
            Mode::VceImage => types::Mode::VceImage,
        }
    }
}

/// Find the files and functions that an issue is about
///
/// Send JSON, or a form (`multipart/form-data`) with the fields `title`, `body`, `image` (a file, may be repeated) and the others by their
/// names, `filter` as JSON.
#[utoipa::path(
    post, path = "/v1/repositories/{repo}/locate", tag = "repositories", params(("repo" = String, Path, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")),
    request_body(content((LocateRequest = "application/json"), (LocateForm = "multipart/form-data"))),
    responses((status = 200, body = Located), Failures)
)]
async fn locate(
    Shared(state): Shared<State>,
    Path(repo): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let service = state.service()?;
    let (request, pictures) = form::read(&state, request, |it: &mut LocateRequest| it.images.take()).await?;
    let ask = ask(&state, request, pictures).await?;
    let answered = service.locate(&repo, ask).await?;
    // Matched lines of up to hundreds of results.
    let body = tokio::task::spawn_blocking(move || serde_json::to_vec(&answered.located())).await;
    let body = body.map_err(crate::service::ServiceError::internal)?.map_err(crate::service::ServiceError::internal)?;
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// The same as a form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a shape for the documentation; the form is read field by field")]
struct LocateForm {
    title: Option<String>,
    body: Option<String>,
    /// A file; may be repeated.
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    image: Option<Vec<u8>>,
    #[schema(minimum = 1)]
    k: Option<usize>,
    granularity: Option<Lists>,
    retriever: Option<Retriever>,
    mode: Option<Mode>,
    exact: Option<bool>,
    /// JSON.
    filter: Option<String>,
    explain: Option<bool>,
}

/// Makes a question of a request.
async fn ask(state: &State, request: LocateRequest, pictures: Vec<Picture>) -> Result<Ask, ApiError> {
    let usual = state.usual();
    let asked = asked(usual, &request)?;
    check_count(&pictures)?;
    let mode = request.mode.map_or(usual.mode, |it| Some(it.into()));
    if let Some(given) = pictures.iter().find(|it| it.text.is_some()).filter(|_| mode.is_some_and(|it| !it.reads())) {
        let message =
            "`text` has no effect in a mode that reads no pictures: leave it out, or ask `vce` or `vce+image`";
        return Err(ApiError::invalid("no_effect", message).of(given.param.replace(".data", ".text")));
    }
    let known: Vec<_> = pictures.iter().map(|it| (it.name.clone(), it.text.clone())).collect();
    let given = pictures.into_iter().map(|it| Given { param: it.param, source: it.source }).collect();
    let read = state.means().pictures.read(given).await.map_err(of_picture)?;
    let mut report = IssueReport {
        title: request.title.unwrap_or_default(),
        body: request.body.unwrap_or_default(),
        ..IssueReport::default()
    };
    let mut asked_pictures = Vec::new();
    for (mut picture, (name, text)) in read.into_iter().zip(known) {
        picture.image.name = name.unwrap_or(picture.image.name);
        report.images.push(picture.image);
        asked_pictures.push(AskedPicture { size: picture.size, text });
    }
    let explain = request.explain.unwrap_or(false);
    Ok(Ask { report, pictures: asked_pictures, request: asked, mode, explain })
}

/// What is asked of the retriever.
fn asked(usual: &super::Usual, request: &LocateRequest) -> Result<Asked, ApiError> {
    let invalid = |code, message: &str, param: &str| Err(ApiError::invalid(code, message).of(param));
    let retriever = match request.retriever {
        None => usual.retriever,
        Some(Retriever::Bm25) => RetrieverKind::Bm25,
        Some(Retriever::Dense) => RetrieverKind::Dense,
        Some(Retriever::Hybrid) => RetrieverKind::Hybrid,
    };
    let granularity = match request.granularity {
        None => usual.granularity,
        Some(Lists::File) => Granularity::File,
        Some(Lists::Function) => Granularity::Function,
        Some(Lists::Both) => Granularity::Both,
    };
    let results = request.k.unwrap_or(usual.results);
    if results == 0 {
        return invalid("invalid_field", "`k` is 0, which asks for nothing: give 1 or more", "k");
    }
    let exact = request.exact.unwrap_or(false);
    if exact && retriever != RetrieverKind::Dense {
        let message = "`exact` has no effect on a retriever that searches no vectors: leave it out, or ask `dense`";
        return invalid("no_effect", message, "exact");
    }
    let filter = request.filter.as_ref();
    let list = |it: Option<&Vec<String>>| it.cloned().unwrap_or_default();
    let (paths, languages) =
        (list(filter.and_then(|it| it.paths.as_ref())), list(filter.and_then(|it| it.languages.as_ref())));
    for (list, name) in [(&paths, "filter.paths"), (&languages, "filter.languages")] {
        if list.len() > MOST_FILTERS {
            let message = format!("`{name}` has {}, and may have {MOST_FILTERS}: choose by fewer", list.len());
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "filter_too_large", message).of(name));
        }
    }
    let filter = Filter::new(&paths, &languages).map_err(|pattern| {
        let at = paths.iter().position(|it| *it == pattern).unwrap_or(0);
        let message = "a pattern of nothing matches no path: write it as in a .gitignore";
        ApiError::invalid("invalid_pattern", message).of(format!("filter.paths[{at}]"))
    })?;
    Ok(Asked { retriever, granularity, results, rerank: usual.rerank, exact, filter })
}
