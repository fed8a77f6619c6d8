//! F5: what watches the service: health, readiness, metrics, the description of the routes.

use axum::extract::State as Shared;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::State;
use super::error::{ApiError, Failures};

pub fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
        .routes(routes!(metrics))
        .routes(routes!(description))
}

/// That all is well.
#[derive(Debug, Serialize, ToSchema)]
struct Well {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the process answers
#[utoipa::path(get, path = "/health", tag = "operations", responses((status = 200, body = Well), Failures))]
async fn health() -> axum::Json<Well> {
    axum::Json(Well { status: "ok" })
}

/// Whether the service can answer
///
/// A known text is embedded, and its vector compared with the one at the start.
#[utoipa::path(get, path = "/ready", tag = "operations", responses((status = 200, body = Well), Failures))]
async fn ready(Shared(state): Shared<State>) -> Result<axum::Json<Well>, ApiError> {
    state.service()?.ready().await?;
    Ok(axum::Json(Well { status: "ready" }))
}

/// Metrics in Prometheus' text format
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, content_type = "application/openmetrics-text"), Failures)
)]
async fn metrics(Shared(state): Shared<State>) -> Response {
    if let Ok(service) = state.service() {
        state.metrics().waiting_jobs.set(service.waiting_jobs() as i64);
    }
    const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, KIND)], state.metrics().text()).into_response()
}

/// This document
#[utoipa::path(
    get, path = "/openapi.json", tag = "operations",
    responses((status = 200, body = serde_json::Value, content_type = "application/json"), Failures)
)]
async fn description(Shared(state): Shared<State>) -> Response {
    ([(CONTENT_TYPE, "application/json")], state.document().to_string()).into_response()
}
