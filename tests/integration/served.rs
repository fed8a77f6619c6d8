//! A service for tests: all routes behind their guard, asked without a socket.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, header};
use serde_json::Value;
use sightline::encoder::{self, Encoder};
use sightline::imaging::Limits;
use sightline::index::directory::DataDirectory;
use sightline::retriever::ingest::Missing;
use sightline::retriever::ranker::Weights;
use sightline::retriever::{Granularity, RetrieverKind};
use sightline::server::embeddings::Means;
use sightline::server::guard::{self, GuardState};
use sightline::server::{self, Settings, State, Usual};
use sightline::service::metrics::Metrics;
use sightline::service::pictures::{Pictures, Web};
use sightline::service::{Options, Service};
use tower::ServiceExt;

/// Threads that answer are needed beside those that ask.
pub(crate) static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

/// The defaults that are compiled in. Not by way of the program's settings, which read the environment.
fn defaults(table: &str) -> toml::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/default.toml");
    let defaults: toml::Table = std::fs::read_to_string(path).expect("a file").parse().expect("TOML");
    defaults[table].clone()
}

const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_pixels: 4_000_000 };

fn weights() -> Weights {
    defaults("ranking").try_into().expect("weights")
}

/// How a service is set up.
pub(crate) struct Setup {
    pub(crate) encoder: Box<dyn Encoder>,
    pub(crate) options: Options,
    pub(crate) settings: Settings,
}

impl Setup {
    /// The model in the program on a data directory.
    pub(crate) fn on(data: &Path) -> Self {
        let options = Options {
            data: DataDirectory::new(data),
            roots: Vec::new(),
            snapshot: sightline::snapshot::Options::default(),
            images: LIMITS,
            evidence: sightline::evidence::Options { endpoint: None, cache: None, limits: LIMITS },
            weights: weights(),
            missing: Missing::Embed,
            refresh_files: 20,
            store_bytes: 1 << 30,
            queue_tokens: 1 << 20,
            keeps_jobs: true,
        };
        let encoder = Box::new(encoder::bundled().expect("the model"));
        Setup { encoder, options, settings: defaults("server").try_into().expect("settings") }
    }

    pub(crate) fn start(self) -> Served {
        let Setup { encoder, options, settings } = self;
        let metrics = Arc::new(Metrics::default());
        let images = options.images.clone();
        let service = RUNTIME.block_on(Service::start(encoder, options, Arc::clone(&metrics))).expect("a service");
        let web = Web::new(&settings.allow_image_hosts).expect("hosts");
        let means = Means { pictures: Pictures::new(images, web), max_batch: settings.max_batch };
        let usual = Usual {
            retriever: RetrieverKind::Hybrid,
            granularity: Granularity::Both,
            results: 10,
            rerank: 100,
            mode: None,
        };
        let guard = GuardState::new(&settings, Arc::new(|_| ()), metrics.in_flight.clone()).expect("a guard");
        let state = State::new(means, usual, metrics);
        state.set_service(Arc::clone(&service));
        Served { router: guard::layers(server::app(state), &guard), service }
    }
}

/// A service that runs.
pub(crate) struct Served {
    pub(crate) router: Router,
    pub(crate) service: Arc<Service>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.service.close();
    }
}

/// An answer: status, headers, and the body as JSON where it is some.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The answer of a request that was to succeed.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// Status, code and what is to blame.
    pub(crate) fn error(&self) -> (u16, String, Option<String>) {
        let error = &self.json()["error"];
        let text = |key: &str| error[key].as_str().map(str::to_owned);
        (self.status, text("code").unwrap_or_default(), text("param"))
    }
}

impl Served {
    pub(crate) fn send(&self, request: Request<Body>) -> Answer {
        RUNTIME.block_on(answer(self.router.clone(), request))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(request("GET", path, None, Body::empty()))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send(request("DELETE", path, None, Body::empty()))
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: impl ToString) -> Answer {
        self.send(request(method, path, Some("application/json"), Body::from(body.to_string())))
    }

    pub(crate) fn post(&self, path: &str, body: impl ToString) -> Answer {
        self.json("POST", path, body)
    }

    /// Adds a repository and waits for its job; gives what the job has become.
    pub(crate) fn add(&self, name: &str, path: &Path) -> Value {
        let body = serde_json::json!({"source": {"path": path}});
        let begun = self.json("PUT", &format!("/v1/repositories/{name}"), body).ok(202);
        self.finished(begun["job"].as_str().expect("a job"))
    }

    /// What a job has become, when it has become something.
    pub(crate) fn finished(&self, job: &str) -> Value {
        let start = Instant::now();
        let mut watched = self.service.job(job).expect("known").watch();
        let wait = async { watched.wait_for(|it| it.status.is_finished()).await.map(drop) };
        let ended = RUNTIME.block_on(async { tokio::time::timeout(Duration::from_secs(120), wait).await });
        assert!(ended.is_ok(), "not finished after {:?}", start.elapsed());
        self.get(&format!("/v1/jobs/{job}")).ok(200)
    }
}

pub(crate) fn request(method: &str, path: &str, media_type: Option<&str>, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    let request = media_type.into_iter().fold(request, |it, kind| it.header(header::CONTENT_TYPE, kind));
    request.body(body).expect("a request")
}

pub(crate) async fn answer(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    Answer { status: parts.status.as_u16(), headers: parts.headers, body: body.to_vec() }
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}
