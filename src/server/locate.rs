//! F5: questions, as JSON or as a form with files.

use axum::body::Bytes;
use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request, State as Shared};
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
use super::extract::{self, Path};
use crate::retriever::{Filter, Granularity, MOST_FILTERS, Request as Asked, RetrieverKind};
use crate::service::Ask;
use crate::service::located::Located;
use crate::service::pictures::{Given, Source};
use crate::types::IssueReport;

/// Pictures of one question: the encoders read two, and say of others that they are not read.
const MOST_PICTURES: usize = 8;

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

/// A picture of the issue.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ImageInput {
    /// Base64, or a data URL.
    #[schema(min_length = 1)]
    data: String,
    /// What it is called in the answer.
    name: Option<String>,
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
    /// Nothing.
    #[serde(rename = "text")]
    Text,
    /// The encoder sees them, if it can.
    #[serde(rename = "image")]
    Image,
    /// Text that is extracted from them.
    #[serde(rename = "vce")]
    Vce,
    /// Both.
    #[serde(rename = "vce+image")]
    VceImage,
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
    let (request, pictures) = read(&state, request).await?;
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

/// A picture of the request: what it is called in messages and in the answer, and where its bytes are.
struct Picture {
    param: String,
    name: Option<String>,
    source: Source,
}

async fn read(state: &State, request: Request) -> Result<(LocateRequest, Vec<Picture>), ApiError> {
    let named = request.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_form = named.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("multipart/form-data");
    if is_form {
        let form = Multipart::from_request(request, state).await;
        let form = form.map_err(|_| malformed_form("it has no boundary in its `Content-Type`"))?;
        return read_form(form).await;
    }
    let extract::Json(mut request) = extract::Json::<LocateRequest>::from_request(request, state).await?;
    let picture = |(at, it): (usize, ImageInput)| Picture {
        param: format!("images[{at}].data"),
        name: it.name,
        source: Source::Data(it.data),
    };
    let pictures = request.images.take().into_iter().flatten().enumerate().map(picture).collect();
    Ok((request, pictures))
}

async fn read_form(mut form: Multipart) -> Result<(LocateRequest, Vec<Picture>), ApiError> {
    let (mut fields, mut pictures) = (serde_json::Map::new(), Vec::new());
    while let Some(field) = form.next_field().await.map_err(bad_form)? {
        let name = field.name().unwrap_or_default().to_owned();
        if name == "image" {
            let name = field.file_name().filter(|it| !it.is_empty()).map(str::to_owned);
            let bytes = field.bytes().await.map_err(bad_form)?;
            let param = format!("image[{}]", pictures.len());
            pictures.push(Picture { param, name, source: Source::Bytes(Bytes::into(bytes)) });
            continue;
        }
        let value = value(&name, field).await?;
        if fields.insert(name.clone(), value).is_some() {
            let message = format!("the form has the field `{name}` twice: send it once");
            return Err(ApiError::invalid("duplicate_field", message).of(name));
        }
    }
    // The same type reads both, so that both know the same fields.
    let text = serde_json::to_vec(&fields).map_err(crate::service::ServiceError::internal)?;
    Ok((extract::parse(&text)?, pictures))
}

/// A field of a form as the JSON that it stands for.
async fn value(name: &str, field: Field<'_>) -> Result<serde_json::Value, ApiError> {
    let text = field.text().await.map_err(bad_form)?;
    let is_json = match name {
        "k" | "exact" | "explain" | "filter" => true,
        // `image` takes files; a list of base64 is for JSON.
        "images" => {
            return Err(ApiError::invalid("unknown_field", "a form has its pictures as files in fields named `image`")
                .of("images"));
        }
        _ => false,
    };
    match is_json {
        false => Ok(serde_json::Value::String(text)),
        true => serde_json::from_str(&text).map_err(|_| {
            ApiError::invalid("invalid_field", format!("`{name}` is no JSON: write a number, true, false or an object"))
                .of(name)
        }),
    }
}

fn bad_form(error: MultipartError) -> ApiError {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "the form is longer than this service reads: send less",
        ),
        _ => malformed_form("it is not as its `Content-Type` says"),
    }
}

fn malformed_form(what: &str) -> ApiError {
    ApiError::malformed("invalid_form", format!("the form can't be read, because {what}: send multipart/form-data"))
}

/// Makes a question of a request.
async fn ask(state: &State, request: LocateRequest, pictures: Vec<Picture>) -> Result<Ask, ApiError> {
    let usual = state.usual();
    let (asked, sees) = asked(usual, &request)?;
    if pictures.len() > MOST_PICTURES {
        let message = format!("there are {} pictures, and a question may have {MOST_PICTURES}", pictures.len());
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_images", message).of("images"));
    }
    let names: Vec<Option<String>> = pictures.iter().map(|it| it.name.clone()).collect();
    let given = pictures.into_iter().map(|it| Given { param: it.param, source: it.source }).collect();
    let read = state.means().pictures.read(given).await.map_err(of_picture)?;
    let mut report = IssueReport {
        title: request.title.unwrap_or_default(),
        body: request.body.unwrap_or_default(),
        images: Vec::new(),
    };
    let mut sizes = Vec::new();
    for (mut picture, name) in read.into_iter().zip(names) {
        picture.image.name = name.unwrap_or(picture.image.name);
        report.images.push(picture.image);
        sizes.push(picture.size);
    }
    Ok(Ask { report, sizes, request: asked, sees, explain: request.explain.unwrap_or(false) })
}

/// What is asked of the retriever, and whether the encoder sees the pictures.
fn asked(usual: &super::Usual, request: &LocateRequest) -> Result<(Asked, bool), ApiError> {
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
    if matches!(request.mode, Some(Mode::Vce | Mode::VceImage)) {
        let message = "this version extracts no text from pictures: ask in the mode `text` or `image`";
        return invalid("mode_unsupported", message, "mode");
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
    Ok((
        Asked { retriever, granularity, results, rerank: usual.rerank, exact, filter },
        request.mode != Some(Mode::Text),
    ))
}
