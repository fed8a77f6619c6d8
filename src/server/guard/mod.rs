//! What stands before every route: who may ask, how much, how fast, and what every answer has.
//!
//! Knows nothing of what the routes do, only their paths ([`Class`]).

mod body;
mod class;
mod keys;
mod limits;
mod origin;
mod response;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::CorsLayer;

use super::error::ApiError;
use super::settings::{Settings, seconds};
use body::{BodyLimits, drain};
use keys::{Keys, bearer};
use limits::{Sender, Senders, Turn, busy};
use origin::Names;

pub use body::StreamError;
pub use class::Class;
pub use keys::{KeyId, KeysError};
pub use response::{CLIENT_GONE, Finished, Observer, REQUEST_ID, RequestId};

/// What the guard knows; cheap to share.
#[derive(Clone)]
pub struct GuardState(Arc<Inner>);

struct Inner {
    names: Names,
    /// `None` for a service that asks for no key.
    keys: Option<Keys>,
    metrics_need_key: bool,
    senders: Arc<Senders>,
    places: Arc<Semaphore>,
    /// For requests whose bodies are still coming: a slow one must keep no place from those that are whole.
    arriving: Arc<Semaphore>,
    bodies: BodyLimits,
    request_time: Duration,
    origins: Vec<HeaderValue>,
    observer: Observer,
    in_flight: Gauge,
}

impl GuardState {
    /// A guard by the settings. `observer` hears of every request; `in_flight` counts those that are being answered.
    ///
    /// # Errors
    /// Those of the file of keys.
    pub fn new(settings: &Settings, observer: Observer, in_flight: Gauge) -> Result<Self, KeysError> {
        Ok(GuardState(Arc::new(Inner {
            names: Names::new(settings),
            keys: Keys::load(settings)?,
            metrics_need_key: settings.metrics_need_key,
            senders: Senders::new(settings),
            places: Arc::new(Semaphore::new(settings.max_requests.min(Semaphore::MAX_PERMITS))),
            arriving: Arc::new(Semaphore::new(
                settings.max_requests.saturating_mul(ARRIVING).min(Semaphore::MAX_PERMITS),
            )),
            bodies: BodyLimits::new(settings),
            request_time: seconds(settings.request_seconds),
            origins: settings.cors_origins.iter().filter_map(|it| HeaderValue::from_str(it).ok()).collect(),
            observer,
            in_flight,
        })))
    }

    fn observer(&self) -> &Observer {
        &self.0.observer
    }

    /// Who sends a request, if it may be sent.
    fn sender(&self, class: Class, request: &Request) -> Result<Option<Sender>, ApiError> {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|it| Sender::address(it.0.ip()));
        let Some(keys) = self.0.keys.as_ref().filter(|_| self.needs_key(class)) else { return Ok(peer) };
        let key = bearer(request.headers()).ok_or_else(|| {
            unauthorised("missing_api_key", "the request has no API key: send one as `Authorization: Bearer KEY`")
        })?;
        let id = keys.identify(key, Instant::now()).ok_or_else(|| {
            unauthorised("invalid_api_key", "the API key is not one of this service's: ask its operator for one")
        })?;
        tracing::Span::current().record("key", &*id);
        Ok(Some(Sender::Key(id)))
    }

    fn needs_key(&self, class: Class) -> bool {
        match class {
            Class::Static | Class::Probe => false,
            Class::Metrics => self.0.metrics_need_key,
            Class::Events | Class::Upload | Class::Api => true,
        }
    }

    /// What a request holds while it is answered.
    fn enter(&self, class: Class, request: &mut Request) -> Result<Held, ApiError> {
        let sender = self.sender(class, request)?;
        if let Some(Sender::Key(id)) = &sender {
            request.extensions_mut().insert(id.clone());
        }
        if !class.is_limited() {
            return Ok(Held::default());
        }
        let turn = sender.map(|it| self.0.senders.enter(it, Instant::now())).transpose()?.flatten();
        // Overload is told before a byte of the body is read.
        if self.0.places.available_permits() == 0 {
            return Err(no_place());
        }
        let arriving = self.0.arriving.clone().try_acquire_owned().map_err(|_| no_place())?;
        Ok(Held { _turn: turn, _arriving: Some(arriving) })
    }

    /// A place for a request that is whole.
    fn place(&self) -> Result<Place, ApiError> {
        let permit = self.0.places.clone().try_acquire_owned().map_err(|_| no_place())?;
        self.0.in_flight.inc();
        Ok(Place { _permit: permit, in_flight: self.0.in_flight.clone() })
    }
}

/// A place for a request, until it is dropped.
struct Place {
    _permit: OwnedSemaphorePermit,
    in_flight: Gauge,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

fn no_place() -> ApiError {
    busy("too_many_requests", "as many requests are in flight as the service takes: ask again", SOON)
}

/// Bodies that may be coming at a time, as multiples of the requests that may be in flight.
const ARRIVING: usize = 16;

const SOON: Duration = Duration::from_secs(1);

/// Given back when it is dropped: when the answer is there, or when nobody waits for it any more.
#[derive(Default)]
struct Held {
    _turn: Option<Turn>,
    _arriving: Option<OwnedSemaphorePermit>,
}

fn unauthorised(code: &'static str, message: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, code, message)
}

/// Puts the guard before all routes of a router. From the outside in:
///
/// 1. headers of every answer, refusals too;
/// 2. the request's id, span and line in the log;
/// 3. the answer after a panic;
/// 4. the names that the service is called by, and the pages that ask (403);
/// 5. CORS, for the origins of the settings; without any, no answer has its headers;
/// 6. the key (401), the sender's limits, a place (429), memory for the body and the body itself (413, 429, 408);
/// 7. the time for an answer (503).
///
/// Whoever serves the router puts a `ConnectInfo<SocketAddr>` into the extensions of each request; without one, senders that have
/// no key are not limited one by one.
pub fn layers(router: Router, guard: &GuardState) -> Router {
    let cors = (!guard.0.origins.is_empty()).then(|| cors(guard.0.origins.clone()));
    let router = router.layer(DefaultBodyLimit::disable()).layer(from_fn_with_state(guard.clone(), admit));
    let router = match cors {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router
        .layer(from_fn_with_state(guard.clone(), known_names))
        .layer(CatchPanicLayer::custom(response::after_panic))
        .layer(from_fn_with_state(guard.clone(), response::identify))
        .layer(from_fn(response::with_headers))
}

fn cors(origins: Vec<HeaderValue>) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, REQUEST_ID])
        .expose_headers([REQUEST_ID, header::RETRY_AFTER, HeaderName::from_static("content-disposition")])
        .max_age(Duration::from_secs(600))
}

async fn known_names(State(guard): State<GuardState>, request: Request, next: Next) -> Response {
    match guard.0.names.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => refuse(error, request),
    }
}

async fn admit(State(guard): State<GuardState>, mut request: Request, next: Next) -> Response {
    let class = Class::of(request.method(), request.uri().path());
    let held = match guard.enter(class, &mut request) {
        Ok(held) => held,
        Err(error) => return refuse(error, request),
    };
    let response = match class {
        Class::Api => guard.answer(request, next).await,
        Class::Upload => guard.answer_upload(request, next).await,
        Class::Static | Class::Probe | Class::Metrics | Class::Events => next.run(request).await,
    };
    drop(held);
    response
}

impl GuardState {
    /// Reads the body, then has the request answered in time.
    async fn answer(&self, request: Request, next: Next) -> Response {
        let mut reserved = match self.0.bodies.reserve(request.headers(), request.body()) {
            Ok(reserved) => reserved,
            Err(error) => return refuse(error, request),
        };
        let (parts, mut body) = request.into_parts();
        if let Some(reserved) = &mut reserved {
            body = match self.0.bodies.read(body, reserved).await {
                Ok(bytes) => Body::from(bytes),
                Err(error) => return error.into_response(),
            };
        }
        let place = match self.place() {
            Ok(place) => place,
            Err(error) => return error.into_response(),
        };
        // `reserved` and `place` are held until the answer is there.
        let answer = tokio::time::timeout(self.0.request_time, next.run(Request::from_parts(parts, body)));
        let answer = answer.await.unwrap_or_else(|_| {
            let message = "the answer took longer than this service lets one take: ask for less, or again later";
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", message).retry_after(SOON).into_response()
        });
        drop(place);
        answer
    }

    async fn answer_upload(&self, request: Request, next: Next) -> Response {
        match self.0.bodies.check_upload(request.headers(), request.body()) {
            Ok(()) => {
                let (parts, body) = request.into_parts();
                let body = self.0.bodies.stream(&parts.headers, body);
                next.run(Request::from_parts(parts, body)).await
            }
            Err(error) => refuse(error, request),
        }
    }
}

/// The answer to a request that is not let in.
fn refuse(error: ApiError, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    drain(&parts.headers, body);
    let is_unauthorised = error.status == StatusCode::UNAUTHORIZED;
    let mut response = error.into_response();
    if is_unauthorised {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
