//! F5: HTTP: wire types, thin handlers, one map from errors to statuses.
//!
//! Knows nothing of how anything is found, embedded or stored.

pub mod embeddings;
pub mod error;
mod evidence;
pub mod extract;
mod form;
pub mod guard;
mod listen;
mod locate;
mod operations;
pub mod page;
mod repositories;
pub mod settings;

use std::sync::{Arc, OnceLock};

use axum::Router;
use tokio::sync::watch;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

pub use crate::service::Usual;
use crate::service::metrics::Metrics;
use crate::service::{Service, ServiceError};
use embeddings::Means;
use error::ApiError;
pub use listen::{Listening, serve};
pub use settings::Settings;

/// What all handlers share.
#[derive(Clone)]
pub struct State {
    inner: Arc<Inner>,
}

struct Inner {
    /// There once the model is loaded.
    service: OnceLock<Arc<Service>>,
    means: Means,
    usual: Usual,
    metrics: Arc<Metrics>,
    /// Set when the service ends.
    ending: watch::Sender<bool>,
    /// The OpenAPI document.
    document: OnceLock<Arc<str>>,
}

impl State {
    /// A state without a service yet.
    pub fn new(means: Means, usual: Usual, metrics: Arc<Metrics>) -> Self {
        let (service, document) = (OnceLock::new(), OnceLock::new());
        let ending = watch::Sender::new(false);
        State { inner: Arc::new(Inner { service, means, usual, metrics, ending, document }) }
    }

    /// Ends what is sent for as long as somebody listens.
    pub fn end(&self) {
        self.inner.ending.send_replace(true);
    }

    async fn ended(&self) {
        // The sender is in here.
        let _ = self.inner.ending.subscribe().wait_for(|it| *it).await;
    }

    /// The service.
    ///
    /// # Errors
    /// 503 until it has started.
    pub fn service(&self) -> Result<&Arc<Service>, ApiError> {
        self.inner.service.get().ok_or_else(|| ServiceError::NotReady { what: "the model is being loaded" }.into())
    }

    /// What the routes that read pictures need beside the service.
    pub fn means(&self) -> &Means {
        &self.inner.means
    }

    fn usual(&self) -> &Usual {
        &self.inner.usual
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    fn document(&self) -> &Arc<str> {
        self.inner.document.get_or_init(|| document().into())
    }

    /// Lets requests in.
    pub fn set_service(&self, service: Arc<Service>) {
        let _ = self.inner.service.set(service);
    }
}

/// The document that describes the routes, but for them.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sightline",
        description = "Finds the code an issue is about: a repository and an issue with screenshots go in, ranked files and functions come out.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "repositories", description = "Repositories and questions to them"),
        (name = "jobs", description = "Work in the background"),
        (name = "evidence", description = "What pictures say"),
        (name = "embeddings", description = "Vectors, in the shapes of OpenAI and text-embeddings-inference"),
        (name = "operations", description = "What watches the service")
    ),
    components(schemas(error::ErrorBody)),
    modifiers(&Bearer),
    security(("bearer" = []), ())
)]
struct Description;

/// How a client says who it is.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

fn routes() -> OpenApiRouter<State> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(repositories::routes())
        .merge(locate::routes())
        .merge(evidence::routes())
        .merge(embeddings::routes())
        .merge(operations::routes())
}

/// The OpenAPI document of all routes, as JSON.
fn document() -> String {
    let mut document = routes().into_openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    document.to_pretty_json().unwrap_or_default()
}

/// All routes, without what stands before them ([`guard::layers`]).
pub fn app(state: State) -> Router {
    let (router, _) = routes().split_for_parts();
    router.merge(page::router()).fallback(unknown_route).method_not_allowed_fallback(unknown_method).with_state(state)
}

async fn unknown_route() -> ApiError {
    ApiError::new(axum::http::StatusCode::NOT_FOUND, "route_not_found", "there is no such route: GET /docs lists them")
}

async fn unknown_method() -> ApiError {
    ApiError::new(
        axum::http::StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "the route does not take this method: GET /docs says which it takes",
    )
}
