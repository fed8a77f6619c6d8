//! The guard before a small router: which request is refused, with what.

use std::future::Future;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use axum::http::HeaderMap;
use axum::routing::{get, post};
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

use super::*;
use crate::server::settings::tests::settings;

const KEY: &str = "0123456789abcdef";
const WITH_KEY: &str = "keys = [\"0123456789abcdef\"]\n";

/// A route that answers its body's length, one for each class, and some that misbehave.
fn routes() -> Router {
    Router::new()
        .route("/", get(|| async { ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "page") }))
        .route("/health", get(|| async { "fine" }))
        .route("/metrics", get(|| async { "numbers" }))
        .route("/v1/jobs/{job}/events", get(|| async { "events" }))
        .route("/v1/echo", post(|body: String| async move { body.len().to_string() }))
        .route("/v1/key", get(|id: axum::Extension<KeyId>| async move { id.to_string() }))
        .route("/v1/panic", get(panics))
        .route("/v1/never", post(std::future::pending::<&str>))
        .route("/v1/repositories/{repo}/snapshot", post(upload))
}

async fn panics() -> &'static str {
    panic!("on purpose")
}

async fn upload(request: Request) -> Result<String, ApiError> {
    let mut data = request.into_body().into_data_stream();
    let mut seen = 0;
    while let Some(chunk) = data.next().await {
        let found = chunk.map_err(|error| StreamError::find(&error).expect("an error of the stream"));
        seen += found?.len();
    }
    Ok(seen.to_string())
}

fn app(keys: &str) -> Router {
    app_with(keys, Arc::new(|_| {}))
}

fn app_with(keys: &str, observer: Observer) -> Router {
    let guard = GuardState::new(&settings(keys), observer, Gauge::default()).expect("sound settings");
    layers(routes(), &guard)
}

/// `METHOD /path`, then a header a line, then the body.
fn request(text: &str) -> Request {
    let mut lines = text.split('\n');
    let (method, path) = lines.next().and_then(|it| it.split_once(' ')).expect("a method and a path");
    let mut request = Request::builder().method(method).uri(path);
    for line in lines.by_ref().take_while(|it| !it.is_empty()) {
        let (name, value) = line.split_once(": ").expect("a header");
        request = request.header(name, value);
    }
    request.body(Body::from(lines.collect::<Vec<_>>().join("\n"))).expect("a request")
}

/// A body of unknown length that comes in pieces; it ends, or it doesn't.
fn chunked(path: &str, pieces: &[usize], ends: bool) -> Request {
    let pieces: Vec<_> = pieces.iter().map(|it| Ok::<_, std::io::Error>(vec![b'x'; *it])).collect();
    let rest = if ends { stream::empty().boxed() } else { stream::pending().boxed() };
    let body = Body::from_stream(stream::iter(pieces).chain(rest));
    Request::post(path).body(body).expect("a request")
}

async fn ask(app: &Router, request: Request) -> (u16, String, HeaderMap) {
    let response = app.clone().oneshot(request).await.expect("always an answer");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    (parts.status.as_u16(), String::from_utf8_lossy(&bytes).into_owned(), parts.headers)
}

/// The status and, of an error, its code; every answer has the headers that all have.
#[track_caller]
fn told((status, body, headers): &(u16, String, HeaderMap)) -> String {
    for name in ["x-content-type-options", "referrer-policy", "x-frame-options", "cross-origin-resource-policy"] {
        assert!(headers.contains_key(name), "{status} {body} lacks {name}");
    }
    assert!(headers.contains_key(REQUEST_ID), "{status} {body} has no id");
    let code =
        serde_json::from_str::<serde_json::Value>(body).ok().and_then(|it| Some(it.get("error")?["code"].clone()));
    code.map_or(format!("{status}"), |code| format!("{status} {}", code.as_str().unwrap_or_default()))
}

/// What a service with these settings answers to each request.
async fn check(keys: &str, cases: &[(&str, &str)]) {
    let app = app(keys);
    for (text, expected) in cases {
        assert_eq!(told(&ask(&app, request(text)).await), *expected, "{text}");
    }
}

#[tokio::test]
async fn a_key_is_asked_for_on_every_route_with_data() {
    let good = format!("Authorization: Bearer {KEY}");
    check(
        WITH_KEY,
        &[
            ("GET /health", "200"),
            ("GET /", "200"),
            ("GET /metrics", "401 missing_api_key"),
            ("POST /v1/echo", "401 missing_api_key"),
            ("GET /v1/jobs/1/events", "401 missing_api_key"),
            ("POST /v1/repositories/r/snapshot", "401 missing_api_key"),
            ("GET /no/such/path", "401 missing_api_key"),
            ("POST /v1/echo\nAuthorization: Basic abc", "401 missing_api_key"),
            ("POST /v1/echo\nAuthorization: Bearer 0123456789abcdeg", "401 invalid_api_key"),
            ("POST /v1/echo\nAuthorization: Bearer 0123456789abcde", "401 invalid_api_key"),
            (&format!("POST /v1/echo\n{good}"), "200"),
            (&format!("GET /metrics\n{good}"), "200"),
            (&format!("GET /v1/jobs/1/events\n{good}"), "200"),
            (&format!("GET /no/such/path\n{good}"), "404"),
        ],
    )
    .await;
    check(
        &format!("{WITH_KEY}metrics_need_key = false"),
        &[("GET /metrics", "200"), ("GET /v1/key", "401 missing_api_key")],
    )
    .await;
    check(
        "",
        &[("POST /v1/echo", "200"), ("GET /metrics", "200"), ("POST /v1/echo\nAuthorization: Bearer hf_any", "200")],
    )
    .await;
}

#[tokio::test]
async fn a_refusal_for_want_of_a_key_says_how_to_send_one_and_a_handler_learns_the_key_by_its_hash() {
    let app = app(WITH_KEY);
    let (_, body, headers) = ask(&app, request("POST /v1/echo")).await;
    assert_eq!(headers.get(header::WWW_AUTHENTICATE).map(HeaderValue::as_bytes), Some(&b"Bearer"[..]));
    assert!(body.contains("authentication_error"), "{body}");
    let (_, id, _) = ask(&app, request(&format!("GET /v1/key\nAuthorization: Bearer {KEY}"))).await;
    // printf %s 0123456789abcdef | sha256sum
    assert_eq!(id, "9f9f5111");
}

#[tokio::test]
async fn of_several_faults_the_outermost_is_told() {
    let long = "x".repeat(3000);
    let keys = format!("{WITH_KEY}max_body_bytes = 2048\ncors_origins = [\"https://app.example\"]\nrate = 0.5");
    let good = format!("Authorization: Bearer {KEY}");
    check(
        &keys,
        &[
            (&format!("POST /v1/echo\nHost: a\nOrigin: http://evil.example\n\n{long}"), "403 origin_refused"),
            (&format!("POST /v1/echo\nHost: a\n\n{long}"), "401 missing_api_key"),
            (&format!("POST /v1/echo\nHost: a\n{good}\n\n{long}"), "413 body_too_large"),
            (&format!("POST /v1/echo\nHost: a\n{good}\n\n{long}"), "429 rate_limited"),
            ("GET /health\nHost: a\nOrigin: http://evil.example", "403 origin_refused"),
        ],
    )
    .await;
    check(
        "",
        &[
            ("POST /v1/echo\nHost: evil.example\nOrigin: http://evil.example", "403 host_refused"),
            ("GET /\nHost: evil.example", "403 host_refused"),
            ("POST /v1/echo\nHost: localhost:7411\nOrigin: http://localhost:7411", "200"),
        ],
    )
    .await;
}

#[tokio::test]
async fn other_pages_are_let_in_by_the_settings_alone() {
    let preflight = "OPTIONS /v1/echo\nHost: svc\nOrigin: https://app.example\nAccess-Control-Request-Method: POST";
    let keys = format!("{WITH_KEY}cors_origins = [\"https://app.example\"]");
    let (status, _, headers) = ask(&app(&keys), request(preflight)).await;
    let of = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
    assert_eq!((status, of("access-control-allow-origin").as_str()), (200, "https://app.example"));
    assert!(of("access-control-allow-headers").contains("authorization"));
    let (status, _, headers) = ask(&app(WITH_KEY), request(preflight)).await;
    assert_eq!((status, headers.contains_key("access-control-allow-origin")), (403, false));
}

/// Lets a request come as far as it can without waiting for anything else.
fn begin(app: &Router, request: Request) -> std::pin::Pin<Box<dyn Future<Output = Response>>> {
    let app = app.clone();
    let mut answer: std::pin::Pin<Box<dyn Future<Output = Response>>> =
        Box::pin(async move { app.oneshot(request).await.expect("always an answer") });
    let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "it is answered already");
    answer
}

#[tokio::test]
async fn requests_beyond_the_places_are_refused_until_one_is_given_back() {
    let app = app("max_requests = 2");
    let (first, _second) = (begin(&app, request("POST /v1/never")), begin(&app, request("POST /v1/never")));
    let refused = ask(&app, request("POST /v1/echo\n\nabc")).await;
    assert_eq!(told(&refused), "429 too_many_requests");
    assert_eq!(refused.2.get(header::RETRY_AFTER).map(HeaderValue::as_bytes), Some(&b"1"[..]));
    for open in ["GET /health", "GET /metrics", "GET /", "GET /v1/jobs/1/events"] {
        assert_eq!(told(&ask(&app, request(open)).await), "200", "{open}");
    }
    drop(first);
    assert_eq!(ask(&app, request("POST /v1/echo\n\nabc")).await.1, "3");
}

#[tokio::test]
async fn a_place_is_given_back_after_every_kind_of_answer() {
    let app = app("max_requests = 1\nmax_body_bytes = 1024\nbody_memory_bytes = 1024\nbody_seconds = 0.1");
    let long = format!("POST /v1/echo\n\n{}", "x".repeat(2000));
    for _ in 0..3 {
        assert_eq!(told(&ask(&app, request("GET /v1/panic")).await), "500 internal");
        assert_eq!(told(&ask(&app, request(&long)).await), "413 body_too_large");
        assert_eq!(told(&ask(&app, chunked("/v1/echo", &[600, 600], true)).await), "413 body_too_large");
        assert_eq!(told(&ask(&app, chunked("/v1/echo", &[5], false)).await), "408 body_timeout");
        assert_eq!(
            told(&ask(&app, request("POST /v1/echo\nContent-Encoding: gzip\n\nabc")).await),
            "415 content_encoding"
        );
        assert_eq!(ask(&app, chunked("/v1/echo", &[600, 400, 24], true)).await.1, "1024");
    }
}

#[tokio::test]
async fn bodies_in_flight_share_one_memory() {
    let app = app("max_body_bytes = 1024\nbody_memory_bytes = 2048");
    let post = |length: usize| request(&format!("POST /v1/never\n\n{}", "x".repeat(length)));
    let held = [begin(&app, post(1024)), begin(&app, post(1000))];
    assert_eq!(told(&ask(&app, request(&format!("POST /v1/echo\n\n{}", "x".repeat(25)))).await), "429 body_memory");
    assert_eq!(told(&ask(&app, chunked("/v1/echo", &[1], true)).await), "429 body_memory");
    assert_eq!(ask(&app, request(&format!("POST /v1/echo\n\n{}", "x".repeat(24)))).await.1, "24");
    assert_eq!(told(&ask(&app, request("GET /health")).await), "200");
    assert_eq!(ask(&app, chunked("/v1/repositories/r/snapshot", &[5000, 5000], true)).await.1, "10000");
    drop(held);
    assert_eq!(ask(&app, chunked("/v1/echo", &[1, 2], true)).await.1, "3");
}

#[tokio::test]
async fn what_is_only_announced_holds_no_more_than_its_length() {
    let app = app("max_body_bytes = 1024\nbody_memory_bytes = 1500");
    let mut announced = chunked("/v1/echo", &[1], false);
    announced.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("1000"));
    let held = begin(&app, announced);
    assert_eq!(ask(&app, request(&format!("POST /v1/echo\n\n{}", "x".repeat(500)))).await.1, "500");
    assert_eq!(told(&ask(&app, request(&format!("POST /v1/echo\n\n{}", "x".repeat(501)))).await), "429 body_memory");
    drop(held);
    assert_eq!(ask(&app, request(&format!("POST /v1/echo\n\n{}", "x".repeat(501)))).await.1, "501");
}

#[tokio::test]
async fn an_upload_is_streamed_within_its_own_limit() {
    let app = app("max_body_bytes = 1024\nmax_upload_bytes = 5000\nbody_seconds = 0.1");
    let path = "/v1/repositories/r/snapshot";
    assert_eq!(ask(&app, chunked(path, &[3000, 2000], true)).await.1, "5000");
    assert_eq!(told(&ask(&app, chunked(path, &[3000, 2001], true)).await), "413 body_too_large");
    assert_eq!(told(&ask(&app, chunked(path, &[3000], false)).await), "408 body_timeout");
    let announced = format!("POST {path}\n\n{}", "x".repeat(5001));
    assert_eq!(told(&ask(&app, request(&announced)).await), "413 body_too_large");
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up() {
    let app = app("request_seconds = 0.1\nmax_requests = 1");
    let refused = ask(&app, request("POST /v1/never")).await;
    assert_eq!(told(&refused), "503 timeout");
    assert!(refused.2.contains_key(header::RETRY_AFTER));
    assert_eq!(told(&ask(&app, request("POST /v1/echo")).await), "200");
}

#[tokio::test]
async fn senders_without_a_key_are_told_apart_by_address() {
    let app = app("key_concurrency = 1");
    let from = |address: &str, path: &str| {
        let mut request = request(&format!("POST {path}"));
        let peer: SocketAddr = address.parse().expect("an address");
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    };
    let _held = begin(&app, from("10.0.0.1:1000", "/v1/never"));
    assert_eq!(told(&ask(&app, from("10.0.0.1:2000", "/v1/echo")).await), "429 key_concurrency");
    assert_eq!(told(&ask(&app, from("10.0.0.2:1000", "/v1/echo")).await), "200");
}

#[tokio::test]
async fn a_panic_is_an_answer_in_the_shape_of_all_errors_without_its_cause() {
    let (status, body, _) = ask(&app(""), request("GET /v1/panic")).await;
    let error = serde_json::from_str::<serde_json::Value>(&body).expect("JSON")["error"].clone();
    assert_eq!((status, error["type"].as_str(), error["code"].as_str()), (500, Some("server_error"), Some("internal")));
    assert!(!body.contains("on purpose"), "{body}");
}

#[tokio::test]
async fn an_id_is_kept_if_it_is_fit_for_a_log() {
    let app = app("");
    let longest = "x".repeat(64);
    for id in ["abc-123", &longest] {
        let (_, _, headers) = ask(&app, request(&format!("GET /health\nX-Request-Id: {id}"))).await;
        assert_eq!(headers.get(REQUEST_ID).and_then(|it| it.to_str().ok()), Some(id));
    }
    let too_long = "x".repeat(65);
    for id in ["a b", &too_long, "a\u{e9}"] {
        let (_, _, headers) = ask(&app, request(&format!("GET /health\nX-Request-Id: {id}"))).await;
        let made = headers.get(REQUEST_ID).and_then(|it| it.to_str().ok()).expect("made");
        assert_eq!(made.len(), 36, "{made}");
    }
}

#[tokio::test]
async fn pages_have_a_policy_and_data_is_not_kept() {
    let app = app("");
    let (_, _, page) = ask(&app, request("GET /")).await;
    assert!(page[header::CONTENT_SECURITY_POLICY].to_str().is_ok_and(|it| it.starts_with("default-src 'none'")));
    assert!(!page.contains_key(header::CACHE_CONTROL));
    for path in ["POST /v1/echo", "GET /v1/jobs/1/events", "GET /none"] {
        let (_, _, data) = ask(&app, request(path)).await;
        assert_eq!(data[header::CACHE_CONTROL], "no-store", "{path}");
        assert!(!data.contains_key(header::CONTENT_SECURITY_POLICY), "{path}");
    }
}

#[tokio::test]
async fn every_request_is_heard_of_once_and_one_that_was_given_up_too() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let observer = {
        let heard = heard.clone();
        move |it: &Finished<'_>| {
            let line = format!("{} {} {}", it.method, it.route.unwrap_or("none"), it.status.as_u16());
            heard.lock().expect("sound").push(line);
        }
    };
    let app = app_with("max_requests = 1", Arc::new(observer));
    ask(&app, request("GET /v1/jobs/17/events")).await;
    ask(&app, request("BREW /none/at/all")).await;
    let held = begin(&app, request("POST /v1/never"));
    ask(&app, request("POST /v1/echo")).await;
    drop(held);
    let expected = ["GET /v1/jobs/{job}/events 200", "OTHER none 404", "POST /v1/echo 429", "POST /v1/never 499"];
    assert_eq!(*heard.lock().expect("sound"), expected);
}

/// What a sender of a long body is answered over a socket that sends all of it before it reads.
async fn sent_all(app: Router, path: &str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let length = 8 << 20;
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.expect("written");
    let piece = vec![b'x'; 64 << 10];
    for _ in 0..length / piece.len() {
        socket.write_all(&piece).await.expect("the connection is still there");
        tokio::task::yield_now().await;
    }
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("the answer");
    server.abort();
    answer
}

#[tokio::test]
async fn a_refusal_reaches_a_sender_who_is_still_sending() {
    let app = app("max_requests = 1");
    let _held = begin(&app, request("POST /v1/never"));
    let answer = sent_all(app, "/v1/echo").await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("too_many_requests"), "{answer}");
}

#[tokio::test]
async fn a_refusal_by_a_handler_in_the_middle_of_an_upload_does_too() {
    let refusing = Router::new().route(
        "/v1/repositories/{repo}/snapshot",
        post(|request: Request| async move {
            request.into_body().into_data_stream().next().await;
            ApiError::invalid("not_now", "no")
        }),
    );
    let guard = GuardState::new(&settings(""), Arc::new(|_| {}), Gauge::default()).expect("sound settings");
    let answer = sent_all(layers(refusing, &guard), "/v1/repositories/r/snapshot").await;
    assert!(answer.starts_with("HTTP/1.1 422") && answer.contains("not_now"), "{answer}");
}
