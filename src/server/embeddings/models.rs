//! F5: what is served, as OpenAI and text-embeddings-inference tell it.

use axum::extract::State as Shared;
use axum::routing::get;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked;
use crate::device::Compute;
use crate::encoder::ModelInfo;
use crate::server::State;
use crate::server::error::{ApiError, Failures};
use crate::server::extract::Path;

pub(super) fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(info))
        .routes(routes!(models))
        .routes(routes!(model))
        // Names of the hub have a slash, which not every client writes as %2F.
        .route("/v1/models/{owner}/{id}", get(owned_model))
}

/// As OpenAI has it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    #[schema(example = "list")]
    object: &'static str,
    data: Vec<Model>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Model {
    id: String,
    #[schema(example = "model")]
    object: &'static str,
    /// Not known, and so 0.
    created: u64,
    #[schema(example = "sightline")]
    owned_by: &'static str,
    /// Numbers of a vector.
    dimensions: usize,
    /// Whether fewer can be asked for.
    matryoshka: bool,
    /// Most tokens of an input.
    max_input_tokens: usize,
    /// Pictures of an input that it sees.
    max_images: usize,
}

impl Model {
    fn of(info: &ModelInfo) -> Self {
        Model {
            id: info.id.clone(),
            object: "model",
            created: 0,
            owned_by: "sightline",
            dimensions: info.dimensions,
            matryoshka: info.is_matryoshka,
            max_input_tokens: info.max_tokens,
            max_images: info.images,
        }
    }
}

/// The shape of text-embeddings-inference's `/info`, with what there is of it here, and more.
#[derive(Debug, Serialize, ToSchema)]
pub struct Info {
    model_id: String,
    /// What products are computed in.
    #[schema(example = "float32")]
    model_dtype: &'static str,
    model_type: ModelType,
    /// Most tokens of an input.
    max_input_length: usize,
    /// Most inputs of a request.
    max_client_batch_size: usize,
    /// Whether a text that is too long loses its end without being asked; never.
    auto_truncate: bool,
    /// Of this program.
    version: &'static str,
    /// Numbers of a vector.
    dimensions: usize,
    /// Pictures of an input that the model sees.
    max_images: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ModelType {
    embedding: EmbeddingModel,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingModel {
    /// How the vectors of tokens become one.
    #[schema(example = "mean")]
    pooling: &'static str,
}

/// What is served, as text-embeddings-inference tells it
#[utoipa::path(
    get,
    path = "/info",
    tag = "embeddings",
    responses(
        (status = 200, description = "The model and its limits.", body = Info),
        Failures
    )
)]
async fn info(Shared(state): Shared<State>) -> Result<axum::Json<Info>, ApiError> {
    let model = state.service()?.model();
    let model_dtype = match model.compute {
        Compute::F32 => "float32",
        Compute::Q8 => "int8",
    };
    Ok(axum::Json(Info {
        model_id: model.id.clone(),
        model_dtype,
        model_type: ModelType { embedding: EmbeddingModel { pooling: model.pooling } },
        max_input_length: model.max_tokens,
        max_client_batch_size: state.means().max_batch,
        auto_truncate: false,
        version: env!("CARGO_PKG_VERSION"),
        dimensions: model.dimensions,
        max_images: model.images,
    }))
}

/// The models that are served: one
#[utoipa::path(
    get,
    path = "/v1/models",
    tag = "embeddings",
    responses(
        (status = 200, description = "A list of the one model.", body = ModelList),
        Failures
    )
)]
async fn models(Shared(state): Shared<State>) -> Result<axum::Json<ModelList>, ApiError> {
    Ok(axum::Json(ModelList { object: "list", data: vec![Model::of(state.service()?.model())] }))
}

/// A model by its name
///
/// The whole name, with its slash as it is or as `%2F`, or what follows the slash.
#[utoipa::path(
    get,
    path = "/v1/models/{id}",
    tag = "embeddings",
    params(("id" = String, Path, description = "The model's name.")),
    responses(
        (status = 200, description = "The model.", body = Model),
        Failures
    )
)]
async fn model(Shared(state): Shared<State>, Path(id): Path<String>) -> Result<axum::Json<Model>, ApiError> {
    let model = state.service()?.model();
    asked::check_model(Some(&id), model).map_err(|it| it.of("id"))?;
    Ok(axum::Json(Model::of(model)))
}

async fn owned_model(
    state: Shared<State>,
    Path((owner, id)): Path<(String, String)>,
) -> Result<axum::Json<Model>, ApiError> {
    model(state, Path(format!("{owner}/{id}"))).await
}
