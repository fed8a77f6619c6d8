//! F5: embeddings over HTTP in the shapes that clients have already: OpenAI's, vLLM's with pictures, text-embeddings-inference's.
//!
//! A request is embedded whole or not at all: the first of its items that can't be is the error, by the name that the request has for
//! it. Pictures are decoded before anything waits for the model.

mod answer;
mod asked;
mod messages;
mod models;
mod request;
mod texts;

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::encoder::{EncoderError, Input, InputEmbedding};
use crate::server::State;
use crate::server::error::{ApiError, Failures};
use crate::server::extract::Json;
use crate::service::pictures::{BadPicture, PictureError, Pictures};
use crate::service::{Service, ServiceError};
use crate::vector;

use answer::{EmbeddingsResponse, Rank, Vector};
use asked::Asked;
use request::{EmbedRequest, EmbeddingsRequest, EncodingFormat, RerankRequest, SimilarityRequest};
use texts::Texts;

/// What these routes need beside the service.
pub struct Means {
    pub pictures: Pictures,
    /// Most inputs of a request.
    pub max_batch: usize,
}

/// The routes.
pub fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(embeddings))
        .routes(routes!(embed))
        .routes(routes!(similarity))
        .routes(routes!(rerank))
        .merge(models::routes())
}

/// Embed texts, a conversation with pictures, or texts with pictures
///
/// OpenAI's embeddings, vLLM's multimodal form of them (`messages`), and our own (`inputs`). Vectors have length 1.
#[utoipa::path(
    post,
    path = "/v1/embeddings",
    tag = "embeddings",
    request_body = EmbeddingsRequest,
    responses((status = 200, description = "A vector for each input, in order.", body = EmbeddingsResponse), Failures)
)]
async fn embeddings(
    Shared(state): Shared<State>,
    Json(mut request): Json<EmbeddingsRequest>,
) -> Result<Response, ApiError> {
    let run = Run::new(&state, request.truncate)?;
    let model = run.service.model();
    asked::check_model(request.model.as_deref(), model)?;
    let dimensions = asked::dimensions(request.dimensions, model)?;
    let tokens = request.input.as_ref().map_or(0, Texts::tokens);
    let asked = aside(tokens, || asked::asked(&mut request, &|tokens| run.service.decode(tokens)))?;
    let embedded = run.embed(asked, dimensions).await?;
    let format = request.encoding_format.unwrap_or(EncodingFormat::Float);
    let numbers = embedded.len() * dimensions;
    Ok(aside(numbers, || axum::Json(EmbeddingsResponse::new(&model.id, embedded, format)).into_response()))
}

/// Embed texts, as text-embeddings-inference does
///
/// Always a list of vectors of length 1, in order.
#[utoipa::path(
    post,
    path = "/embed",
    tag = "embeddings",
    request_body = EmbedRequest,
    responses((status = 200, description = "A vector for each input, in order.", body = Vec<Vector>), Failures)
)]
async fn embed(Shared(state): Shared<State>, Json(request): Json<EmbedRequest>) -> Result<Response, ApiError> {
    let run = Run::new(&state, request.truncate)?;
    asked::check_direction(request.truncation_direction, "truncation_direction")?;
    asked::check_normalize(request.normalize)?;
    asked::check_prompt(request.prompt_name.as_deref(), "prompt_name")?;
    let dimensions = asked::dimensions(request.dimensions, run.service.model())?;
    let (tokens, decode) = (request.inputs.tokens(), |tokens: &[u32]| run.service.decode(tokens));
    let asked = aside(tokens, || asked::of_texts(request.inputs, "inputs", &decode))?;
    let embedded = run.embed(asked, dimensions).await?;
    let format = request.encoding_format.unwrap_or(EncodingFormat::Float);
    let vectors = embedded.into_iter().map(|it| Vector::new(it.vector, format));
    Ok(aside(vectors.len() * dimensions, || axum::Json(vectors.collect::<Vec<_>>()).into_response()))
}

/// Compare a text with others
///
/// The cosine of its embedding with that of each sentence, in order.
#[utoipa::path(
    post,
    path = "/similarity",
    tag = "embeddings",
    request_body = SimilarityRequest,
    responses((status = 200, description = "A cosine for each sentence, in order.", body = Vec<f32>), Failures)
)]
async fn similarity(
    Shared(state): Shared<State>,
    Json(request): Json<SimilarityRequest>,
) -> Result<axum::Json<Vec<f32>>, ApiError> {
    let parameters = request.parameters.unwrap_or_default();
    let run = Run::new(&state, parameters.truncate)?;
    asked::check_direction(parameters.truncation_direction, "parameters.truncation_direction")?;
    asked::check_prompt(parameters.prompt_name.as_deref(), "parameters.prompt_name")?;
    let source = Asked::text("inputs.source_sentence", request.inputs.source_sentence);
    Ok(axum::Json(run.cosines(source, "inputs.sentences", request.inputs.sentences).await?))
}

/// Rank texts by the cosine of their embeddings with a query's
///
/// The shape of text-embeddings-inference's `/rerank`, and a cosine of two embeddings: not what a reranker gives that reads the query and a
/// text at once. Scores are from -1 to 1, whatever `raw_scores` says.
#[utoipa::path(
    post,
    path = "/rerank",
    tag = "embeddings",
    request_body = RerankRequest,
    responses((status = 200, description = "All texts, the best first.", body = Vec<Rank>), Failures)
)]
async fn rerank(
    Shared(state): Shared<State>,
    Json(request): Json<RerankRequest>,
) -> Result<axum::Json<Vec<Rank>>, ApiError> {
    let run = Run::new(&state, request.truncate)?;
    asked::check_direction(request.truncation_direction, "truncation_direction")?;
    let is_returned = request.return_text.unwrap_or(false);
    let returned = if is_returned { request.texts.clone() } else { Vec::new() };
    let scores = run.cosines(Asked::text("query", request.query), "texts", request.texts).await?;
    let mut returned = returned.into_iter();
    let ranked = scores.into_iter().enumerate().map(|(index, score)| Rank { index, text: returned.next(), score });
    let mut ranked: Vec<Rank> = ranked.collect();
    // Equal ones stay in their order.
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(axum::Json(ranked))
}

/// So many numbers take milliseconds to read or to write.
const MANY: usize = 50_000;

/// Does what goes over so many numbers, not on a thread that serves others if they are many.
fn aside<T>(numbers: usize, work: impl FnOnce() -> T) -> T {
    if numbers < MANY { work() } else { tokio::task::block_in_place(work) }
}

/// What embeds a request.
struct Run<'a> {
    service: &'a Service,
    means: &'a Means,
    truncate: bool,
}

impl<'a> Run<'a> {
    fn new(state: &'a State, truncate: Option<bool>) -> Result<Self, ApiError> {
        Ok(Run { service: state.service()?, means: state.means(), truncate: truncate.unwrap_or(false) })
    }

    /// Embeds all, or says what is wrong with the first that can't be.
    async fn embed(&self, asked: Vec<Asked>, dimensions: usize) -> Result<Vec<InputEmbedding>, ApiError> {
        self.check_batch(&asked)?;
        self.embed_any(asked, dimensions).await
    }

    /// The same, however many they are.
    async fn embed_any(&self, asked: Vec<Asked>, dimensions: usize) -> Result<Vec<InputEmbedding>, ApiError> {
        asked.iter().try_for_each(|it| it.check(self.service.model()))?;
        let names: Vec<Names> = asked.iter().map(Names::of).collect();
        let embedded = self.service.embed(self.inputs(asked).await?).await?;
        let named = embedded.into_iter().zip(names);
        let mut embedded = named.map(|(it, names)| it.map_err(|it| names.error(it))).collect::<Result<Vec<_>, _>>()?;
        embedded.iter_mut().for_each(|it| shorten(&mut it.vector, dimensions));
        Ok(embedded)
    }

    /// The cosine of a text with each of a list.
    async fn cosines(&self, one: Asked, field: &str, texts: Vec<String>) -> Result<Vec<f32>, ApiError> {
        if texts.is_empty() {
            return Err(asked::empty(field, "the list is empty: give at least one text"));
        }
        let others = texts.into_iter().enumerate().map(|(at, text)| Asked::text(format!("{field}[{at}]"), text));
        let others: Vec<Asked> = others.collect();
        self.check_batch(&others)?;
        let all = std::iter::once(one).chain(others).collect();
        let embedded = self.embed_any(all, self.service.model().dimensions).await?;
        let Some((one, others)) = embedded.split_first() else { return Ok(Vec::new()) };
        Ok(others.iter().map(|it| vector::dot(&one.vector, &it.vector).clamp(-1.0, 1.0)).collect())
    }

    fn check_batch(&self, asked: &[Asked]) -> Result<(), ApiError> {
        let (there, most) = (asked.len(), self.means.max_batch);
        if there <= most {
            return Ok(());
        }
        let message = format!("there are {there} inputs, and a request may have {most}: send several requests");
        let param = asked[most].param.clone();
        Err(ApiError::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, "batch_too_large", message).of(param))
    }

    /// What the encoder gets: the pictures are read here, all of the request at once.
    async fn inputs(&self, asked: Vec<Asked>) -> Result<Vec<Input>, ApiError> {
        let (mut inputs, mut counts, mut given) = (Vec::new(), Vec::new(), Vec::new());
        for Asked { text, instruction, pictures, .. } in asked {
            let instruction = instruction.map(|it| it.1);
            inputs.push(Input { text, instruction, whole: !self.truncate, ..Input::default() });
            counts.push(pictures.len());
            given.extend(pictures);
        }
        let mut images = self.means.pictures.read(given).await.map_err(of_picture)?.into_iter();
        for (input, count) in inputs.iter_mut().zip(counts) {
            input.images = images.by_ref().take(count).map(|it| it.image).collect();
        }
        Ok(inputs)
    }
}

/// What a request calls an input and what belongs to it.
struct Names {
    param: String,
    instruction: Option<String>,
}

impl Names {
    fn of(asked: &Asked) -> Self {
        Names { param: asked.param.clone(), instruction: asked.instruction.as_ref().map(|it| it.0.clone()) }
    }

    /// What the encoder has against the input.
    fn error(self, error: EncoderError) -> ApiError {
        let param = match &error {
            // Pictures are called what the request calls them.
            EncoderError::Image { name, .. } => name.clone(),
            EncoderError::Uninstructed { .. } => self.instruction.unwrap_or(self.param),
            _ => self.param,
        };
        ServiceError::Input { param, error }.into()
    }
}

/// Keeps the beginning of a vector, which a model that is trained for it gives to be a vector too.
fn shorten(vector: &mut Vec<f32>, dimensions: usize) {
    if dimensions < vector.len() {
        vector.truncate(dimensions);
        vector::normalise(vector);
    }
}

/// The status of a picture that can't be used.
pub fn of_picture(BadPicture { param, error }: BadPicture) -> ApiError {
    use axum::http::StatusCode;
    let status = match &error {
        PictureError::DataUrl(_) | PictureError::Base64(_) => StatusCode::BAD_REQUEST,
        PictureError::UrlsOff
        | PictureError::Url(_)
        | PictureError::Host(_)
        | PictureError::Address
        | PictureError::Fetch(_) => StatusCode::UNPROCESSABLE_ENTITY,
        PictureError::Image(error) if error.code() == "image_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        PictureError::Image(_) => StatusCode::BAD_REQUEST,
        PictureError::Ending => return ServiceError::NotReady { what: "it is ending" }.into(),
    };
    ApiError::new(status, error.code(), format!("the picture can't be used: {error}")).of(param)
}
