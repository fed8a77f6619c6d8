//! F3: the one thread that computes with the encoder, and the bounded queue before it.
//!
//! Whatever waits is computed in slices of a fraction of a second, put together from all that wait: questions before indexing, and
//! nothing whose asker is gone. Knows nothing of requests, repositories or the wire.

mod meters;
mod queue;
mod queued;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::encoder::{Encoder, EncoderError, Input, InputEmbedding, ModelInfo, QueryEmbedding};
use crate::index::store::ModelKey;
use crate::types::IssueReport;

pub use meters::Meters;
use queue::{Queues, Reply, Slice, Task, Units};
pub use queued::Queued;

/// What goes before what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Somebody waits for the answer.
    Request,
    /// It may take as long as it takes.
    Indexing,
}

/// Why something was not computed.
#[derive(Debug, thiserror::Error)]
pub enum InferenceError {
    #[error("{waiting} tokens wait for the encoder, as many as may: ask again in {} s", retry_after.as_secs())]
    Full { waiting: usize, retry_after: Duration },
    #[error(transparent)]
    Encoder(#[from] EncoderError),
}

/// The encoder's thread, for any number of askers.
#[derive(Clone)]
pub struct Inference {
    shared: Arc<Shared>,
    /// The thread ends with the last of them.
    _alive: Arc<Alive>,
}

struct Shared {
    encoder: Box<dyn Encoder>,
    model: ModelKey,
    /// Most tokens of requests that wait, by an estimate.
    most_waiting: usize,
    queues: Mutex<Queues>,
    /// Rings when there is something to do.
    bell: Condvar,
    meters: Meters,
}

struct Alive(Weak<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.close();
        }
    }
}

impl Inference {
    /// Gives an encoder a thread of its own. Requests of `most_waiting` tokens at most may wait.
    ///
    /// # Errors
    /// [`EncoderError::Threads`].
    pub fn start(encoder: Box<dyn Encoder>, most_waiting: usize, meters: Meters) -> Result<Self, EncoderError> {
        let model = super::ingest::model_key(&*encoder);
        let (queues, bell) = (Mutex::new(Queues::default()), Condvar::new());
        let shared = Arc::new(Shared { encoder, model, most_waiting, queues, bell, meters });
        let own = Arc::clone(&shared);
        let spawned = thread::Builder::new().name("encoder".to_owned()).spawn(move || own.work());
        spawned.map_err(|error| EncoderError::Threads { cause: error.to_string() })?;
        let _alive = Arc::new(Alive(Arc::downgrade(&shared)));
        Ok(Inference { shared, _alive })
    }

    pub fn info(&self) -> &ModelInfo {
        self.shared.encoder.info()
    }

    /// What the encoder's vectors are kept under.
    pub fn model(&self) -> &ModelKey {
        &self.shared.model
    }

    /// The text of tokens; see [`Encoder::decode`].
    ///
    /// # Errors
    /// [`EncoderError::UnknownToken`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError> {
        self.shared.encoder.decode(tokens)
    }

    /// The vector of an issue. Who no longer waits for the answer is not computed for.
    ///
    /// # Errors
    /// [`InferenceError::Full`] at once; what the encoder says.
    pub async fn query(&self, issue: Arc<IssueReport>) -> Result<QueryEmbedding, InferenceError> {
        let found = self.answer(Units::Queries(vec![issue])).await?;
        let stopped = || Err(EncoderError::Stopped);
        Ok(found.queries().pop().unwrap_or_else(stopped)?)
    }

    /// A vector or an error for each input, in order; as [`Self::query`] in all else.
    ///
    /// # Errors
    /// [`InferenceError::Full`] at once.
    pub async fn embed(&self, inputs: Vec<Input>) -> Result<Vec<Result<InputEmbedding, EncoderError>>, InferenceError> {
        Ok(self.answer(Units::Inputs(inputs)).await?.inputs())
    }

    async fn answer(&self, units: Units) -> Result<queue::Results, InferenceError> {
        let (reply, answer) = oneshot::channel();
        let _asker = self.submit(Class::Request, units, Reply::Async(reply))?;
        Ok(answer.await.unwrap_or(Err(EncoderError::Stopped))?)
    }

    /// Puts units into the queue. They are computed as long as what is given lives.
    fn submit(&self, class: Class, units: Units, reply: Reply) -> Result<Arc<()>, InferenceError> {
        let costs = units.costs(self.info());
        let mut queues = self.shared.lock();
        // Windows are those of a question that was let in already.
        let is_bounded = class == Class::Request && !matches!(units, Units::Windows(_));
        let (waiting, cost) = (queues.waiting(Class::Request), costs.iter().sum::<usize>());
        if is_bounded && waiting > 0 && waiting + cost > self.shared.most_waiting {
            self.shared.meters.refused.inc();
            return Err(InferenceError::Full { waiting, retry_after: queues.rate.time_for(waiting) });
        }
        if queues.is_closed {
            return Err(EncoderError::Stopped.into());
        }
        let asker = Arc::new(());
        queues.push(class, Task::new(units, costs, Arc::downgrade(&asker), reply));
        self.shared.measure(&queues);
        drop(queues);
        self.shared.bell.notify_one();
        Ok(asker)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn measure(&self, queues: &Queues) {
        for (class, gauge) in [(Class::Request, &self.meters.waiting), (Class::Indexing, &self.meters.waiting_indexing)]
        {
            gauge.set(queues.waiting(class) as i64);
        }
    }

    /// Ends the thread; what waits is told.
    fn close(&self) {
        let mut queues = self.lock();
        queues.is_closed = true;
        queues.clear();
        drop(queues);
        self.bell.notify_all();
    }

    /// What the thread does: slice after slice.
    fn work(&self) {
        while let Some(slice) = self.next() {
            let (tokens, start) = (slice.tokens(), Instant::now());
            self.meters.batch_tokens.observe(tokens as f64);
            self.meters.batch_tasks.observe(slice.tasks() as f64);
            let unfinished = self.compute(slice);
            let mut queues = self.lock();
            queues.rate.took(tokens, start.elapsed());
            if queues.is_closed {
                return;
            }
            queues.put_back(unfinished);
            self.measure(&queues);
        }
    }

    fn next(&self) -> Option<Slice> {
        let mut queues = self.lock();
        loop {
            if queues.is_closed {
                return None;
            }
            self.meters.abandoned.inc_by(queues.remove_abandoned() as u64);
            if let Some(slice) = queues.slice() {
                self.measure(&queues);
                return Some(slice);
            }
            self.measure(&queues);
            queues = self.bell.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Computes a slice and answers what is finished by it.
    fn compute(&self, mut slice: Slice) -> Slice {
        let _span = tracing::info_span!("inference", tokens = slice.tokens(), tasks = slice.tasks()).entered();
        let run = std::panic::catch_unwind(AssertUnwindSafe(|| slice.compute(&*self.encoder)));
        if run.is_err() {
            tracing::error!("the encoder panicked; what it was computing has failed");
            slice.fail("the encoder panicked");
        }
        slice.answer();
        slice
    }
}

#[cfg(test)]
mod tests;
