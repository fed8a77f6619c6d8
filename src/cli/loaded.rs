//! The encoder of a question, loaded beside other work.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use super::model::{self, Place};
use crate::config::Settings;
use crate::encoder::{Encoder, EncoderError, QueryEmbedding};
use crate::index::store::ModelKey;
use crate::retriever::ingest::model_key;
use crate::retriever::{Encoded, RetrieverError};
use crate::types::IssueReport;

/// An encoder that has read the issue.
pub struct Loaded {
    pub encoder: Box<dyn Encoder>,
    pub model: ModelKey,
    pub query: QueryEmbedding,
    pub load_time: Duration,
    pub query_time: Duration,
}

impl Loaded {
    /// Loads an encoder and lets it read the issue, which may have to be waited for.
    pub fn of<'r>(
        place: &Place,
        settings: &Settings,
        report: impl FnOnce() -> &'r IssueReport,
    ) -> Result<Self, EncoderError> {
        let start = Instant::now();
        let encoder = model::load(place, settings)?;
        let load_time = start.elapsed();
        let report = report();
        let start = Instant::now();
        let query = encoder.query(report)?;
        let query_time = start.elapsed();
        Ok(Loaded { model: model_key(&*encoder), query, encoder, load_time, query_time })
    }

    pub fn encoded(&self) -> Encoded<'_> {
        Encoded { encoder: &*self.encoder, model: &self.model, query: &self.query }
    }
}

/// An encoder that is being loaded.
pub struct Pending<'scope> {
    loading: Mutex<Option<Loading<'scope>>>,
    loaded: OnceLock<Loaded>,
}

type Loading<'scope> = ScopedJoinHandle<'scope, Result<Loaded, EncoderError>>;

impl<'scope> Pending<'scope> {
    pub fn new(loading: Loading<'scope>) -> Self {
        Pending { loading: Mutex::new(Some(loading)), loaded: OnceLock::new() }
    }

    /// Waits until it is loaded. An error is given to the first who asks, which ends the program.
    pub fn get(&self) -> Result<&Loaded, RetrieverError> {
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = loading.take() {
            let loaded = handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let _ = self.loaded.set(loaded);
        }
        self.loaded.get().ok_or(RetrieverError::NoEncoder { retriever: "hybrid" })
    }
}
