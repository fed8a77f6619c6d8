//! The encoder's thread as an encoder, for code that waits for what it asks: ranking and indexing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::queue::{Reply, Results, Units};
use super::{Class, Inference, InferenceError};
use crate::encoder::{Encoder, EncoderError, Input, InputEmbedding, ModelInfo, Progress, QueryEmbedding, Window};
use crate::types::IssueReport;

/// Asks the encoder's thread and waits; not for async code.
pub struct Queued {
    inference: Inference,
    class: Class,
    /// Set when nobody wants the answer any more.
    stop: Arc<AtomicBool>,
}

/// How often it is looked whether an answer is still wanted.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Queued {
    pub fn new(inference: Inference, class: Class, stop: Arc<AtomicBool>) -> Self {
        Queued { inference, class, stop }
    }

    /// Waits for an answer, but no longer than it is wanted.
    fn ask(&self, units: Units) -> Result<Results, EncoderError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(EncoderError::Stopped);
        }
        let (reply, answer) = mpsc::channel();
        let _asker = match self.inference.submit(self.class, units, Reply::Blocking(reply)) {
            Ok(asker) => asker,
            Err(InferenceError::Encoder(error)) => return Err(error),
            // Only what comes from outside is bounded.
            Err(InferenceError::Full { .. }) => return Err(EncoderError::Stopped),
        };
        loop {
            match answer.recv_timeout(LOOK_AGAIN) {
                Ok(results) => return results,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(EncoderError::Stopped),
                Err(mpsc::RecvTimeoutError::Timeout) if self.stop.load(Ordering::Relaxed) => {
                    return Err(EncoderError::Stopped);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Encoder for Queued {
    fn info(&self) -> &ModelInfo {
        self.inference.info()
    }

    fn fingerprint(&self) -> &str {
        &self.inference.model().fingerprint
    }

    /// Cutting text is not the thread's work: each asker does that itself.
    fn windows(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        self.inference.shared.encoder.windows(header, body)
    }

    /// `progress` hears of them when all are embedded: they are a batch of a few seconds.
    fn embed(&self, windows: &[&Window], progress: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        let units = Units::Windows(windows.iter().map(|it| (*it).clone()).collect());
        let vectors = self.ask(units)?.windows();
        progress(windows.len(), windows.len());
        Ok(vectors)
    }

    fn query(&self, issue: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        let found = self.ask(Units::Queries(vec![Arc::new(issue.clone())]))?.queries().pop();
        found.unwrap_or(Err(EncoderError::Stopped))
    }

    fn embed_inputs(&self, inputs: &[Input], progress: &Progress) -> Vec<Result<InputEmbedding, EncoderError>> {
        let found = self.ask(Units::Inputs(inputs.to_vec())).map(Results::inputs);
        progress(inputs.len(), inputs.len());
        found.unwrap_or_else(|_| inputs.iter().map(|_| Err(EncoderError::Stopped)).collect())
    }

    fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError> {
        self.inference.decode(tokens)
    }
}
