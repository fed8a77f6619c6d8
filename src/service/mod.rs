//! F4: the service: repositories that are indexed in the background and asked, texts and pictures that are embedded.
//!
//! Speaks plain data and knows nothing of HTTP: the routes, the tools for agents and the page all ask it.

mod error;

use std::sync::Arc;

use crate::encoder::{Encoder, EncoderError, Input, InputEmbedding, ModelInfo};
use crate::retriever::inference::{Inference, Meters};

pub use error::ServiceError;

/// A running service.
pub struct Service {
    inference: Inference,
}

impl Service {
    /// Gives the encoder its thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(encoder: Box<dyn Encoder>, queue_tokens: usize) -> Result<Arc<Self>, ServiceError> {
        let inference = Inference::start(encoder, queue_tokens, Meters::default()).map_err(ServiceError::internal)?;
        Ok(Arc::new(Service { inference }))
    }

    /// What the encoder is.
    pub fn model(&self) -> &ModelInfo {
        self.inference.info()
    }

    /// A vector or an error for each input, in order. Dropped, it is not computed.
    ///
    /// # Errors
    /// [`ServiceError::Overloaded`] at once.
    pub async fn embed(&self, inputs: Vec<Input>) -> Result<Vec<Result<InputEmbedding, EncoderError>>, ServiceError> {
        Ok(self.inference.embed(inputs).await?)
    }

    /// The text that tokens of the model stand for.
    ///
    /// # Errors
    /// [`EncoderError::UnknownToken`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String, EncoderError> {
        self.inference.decode(tokens)
    }
}
