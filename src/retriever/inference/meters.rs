//! What can be measured of the encoder's queue.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Counted by the encoder's thread; cheap to share.
#[derive(Debug, Clone)]
pub struct Meters {
    /// Tokens of requests that wait, by an estimate.
    pub waiting: Gauge,
    /// Tokens of indexing that wait.
    pub waiting_indexing: Gauge,
    /// Tokens that were computed together.
    pub batch_tokens: Histogram,
    /// Askers whose work was computed together.
    pub batch_tasks: Histogram,
    /// Refused, because too much waited.
    pub refused: Counter,
    /// Not computed, because nobody waited for it any more.
    pub abandoned: Counter,
}

impl Default for Meters {
    fn default() -> Self {
        Meters {
            waiting: Gauge::default(),
            waiting_indexing: Gauge::default(),
            batch_tokens: Histogram::new(exponential_buckets(16.0, 2.0, 12)),
            batch_tasks: Histogram::new(exponential_buckets(1.0, 2.0, 8)),
            refused: Counter::default(),
            abandoned: Counter::default(),
        }
    }
}

impl Meters {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("queue_tokens", "Tokens of requests that wait for the encoder", self.waiting.clone());
        registry.register(
            "queue_indexing_tokens",
            "Tokens of indexing that wait for the encoder",
            self.waiting_indexing.clone(),
        );
        registry.register("batch_tokens", "Tokens that were computed together", self.batch_tokens.clone());
        registry.register("batch_tasks", "Requests whose work was computed together", self.batch_tasks.clone());
        registry.register("queue_refused", "Requests refused because the queue was full", self.refused.clone());
        registry.register(
            "queue_abandoned",
            "Work that was not computed because nobody waited for it any more",
            self.abandoned.clone(),
        );
    }
}
