//! What every answer has: headers that keep a browser from doing more than it is asked to, an id, a line in the log; and an answer
//! after a panic.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::{Instrument, Span, field};

use super::GuardState;
use super::class::Class;
use crate::server::error::ApiError;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is told of a request when it has its answer, or when nobody waits for one any more.
#[derive(Debug, Clone)]
pub struct Finished<'a> {
    /// One of HTTP's own, or `OTHER`: a sender can make up as many as it likes, and each would be counted by itself.
    pub method: &'static str,
    /// The path of the route with its parameters' names; `None` for a path that no route has.
    pub route: Option<&'a str>,
    pub status: StatusCode,
    pub seconds: f64,
}

/// Hears of every request; [`CLIENT_GONE`] stands for the status of one that was given up.
pub type Observer = Arc<dyn Fn(&Finished<'_>) + Send + Sync>;

/// The status, in log and metrics only, of a request that its sender gave up; nginx has it too.
pub const CLIENT_GONE: u16 = 499;

/// The id of a request, in its extensions.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

/// Gives a request its id and its span, and writes its line in the log.
pub async fn identify(State(guard): State<GuardState>, mut request: Request, next: Next) -> Response {
    let id = RequestId(given(request.headers()).unwrap_or_else(|| uuid::Uuid::new_v4().to_string()).into());
    let mut line = Line::new(&id, &request, guard);
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).instrument(line.span.clone()).await;
    line.status = Some(response.status());
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The id that the sender gave, if it is fit for a log.
fn given(headers: &HeaderMap) -> Option<String> {
    const LONGEST: usize = 64;
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_sane = !id.is_empty() && id.len() <= LONGEST && id.bytes().all(|it| it.is_ascii_graphic());
    is_sane.then(|| id.to_owned())
}

/// Writes its line when it is dropped, so that a request has one too whose sender has gone.
struct Line {
    guard: GuardState,
    span: Span,
    method: Method,
    route: Option<MatchedPath>,
    class: Class,
    status: Option<StatusCode>,
    start: Instant,
}

impl Line {
    fn new(id: &RequestId, request: &Request, guard: GuardState) -> Self {
        let (method, route) = (request.method().clone(), request.extensions().get::<MatchedPath>().cloned());
        let class = Class::of(&method, request.uri().path());
        let name = route.as_ref().map_or("none", MatchedPath::as_str);
        // As an error's, so that lines of every level have the id.
        let span = tracing::error_span!("request", id = %id.0, %method, route = name, key = field::Empty);
        Line { guard, span, method, route, class, status: None, start: Instant::now() }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let gone = || StatusCode::from_u16(CLIENT_GONE).unwrap_or(StatusCode::REQUEST_TIMEOUT);
        let (status, time) = (self.status.unwrap_or_else(gone), self.start.elapsed());
        let latency_ms = time.as_micros() as f64 / 1000.0;
        let _entered = self.span.enter();
        match self.class {
            // They come every second, for ever.
            Class::Probe | Class::Metrics => tracing::debug!(status = status.as_u16(), latency_ms, "answered"),
            _ => tracing::info!(status = status.as_u16(), latency_ms, "answered"),
        }
        let route = self.route.as_ref().map(MatchedPath::as_str);
        (self.guard.observer())(&Finished { method: known(&self.method), route, status, seconds: time.as_secs_f64() });
    }
}

fn known(method: &Method) -> &'static str {
    const KNOWN: [Method; 7] =
        [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH];
    const NAMES: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    KNOWN.iter().zip(NAMES).find(|(it, _)| *it == method).map_or("OTHER", |(_, name)| name)
}

/// The answer after a panic. What it was stands in the log, under the request's id.
pub fn after_panic(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let cause = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(cause, "a request made the program panic");
    let message = "the service failed on this request: its log says why, under the request's id";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message).into_response()
}

/// What a browser may do with a page of the service: use what comes from the service.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
     form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

const ALWAYS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Puts the headers on that every answer has.
pub async fn with_headers(request: Request, next: Next) -> Response {
    let class = Class::of(request.method(), request.uri().path());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if class != Class::Static {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    let is_html = |it: &HeaderValue| it.as_bytes().to_ascii_lowercase().starts_with(b"text/html");
    if headers.get(header::CONTENT_TYPE).is_some_and(is_html) {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    }
    response
}
