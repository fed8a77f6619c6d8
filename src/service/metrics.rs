//! What is counted of a running service; each name stands here alone.

use std::sync::Mutex;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::retriever::inference::Meters;

/// A step of the way of a request: `decode`, `tokenise`, `queue`, `inference`, `search`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Stage {
    pub stage: String,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    pub method: String,
    /// With the names of its parameters; `none` for a path that there is not.
    pub route: String,
    pub status: u16,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Route {
    pub route: String,
}

/// Histograms of seconds.
pub type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// All of it.
pub struct Metrics {
    registry: Mutex<Registry>,
    pub stages: Seconds<Stage>,
    pub requests: Family<Outcome, Counter>,
    pub request_seconds: Seconds<Route>,
    pub in_flight: Gauge,
    pub waiting_jobs: Gauge,
    pub cache_hits: Counter,
    pub cache_misses: Counter,
    pub meters: Meters,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 18))
}

impl Default for Metrics {
    fn default() -> Self {
        let constructor: fn() -> Histogram = seconds;
        let metrics = Metrics {
            registry: Mutex::new(Registry::with_prefix("sightline")),
            stages: Family::new_with_constructor(constructor),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(constructor),
            in_flight: Gauge::default(),
            waiting_jobs: Gauge::default(),
            cache_hits: Counter::default(),
            cache_misses: Counter::default(),
            meters: Meters::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&self) {
        let registry = &mut *super::lock(&self.registry);
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of the program", version);
        registry.register("requests", "Requests by method, route and status", self.requests.clone());
        registry.register("request_seconds", "How long requests took, by route", self.request_seconds.clone());
        registry.register("requests_in_flight", "Requests that are being answered", self.in_flight.clone());
        registry.register("stage_seconds", "How long steps of requests took", self.stages.clone());
        registry.register("jobs_waiting", "Jobs that wait", self.waiting_jobs.clone());
        registry.register("vectors_cached", "Windows whose vectors the store had", self.cache_hits.clone());
        registry.register("vectors_embedded", "Windows that had to be embedded", self.cache_misses.clone());
        self.meters.register(registry);
    }

    /// In the text format of Prometheus (OpenMetrics 1.0).
    pub fn text(&self) -> String {
        let mut text = String::new();
        // A string takes all that is written to it.
        let _ = encode(&mut text, &super::lock(&self.registry));
        text
    }
}
