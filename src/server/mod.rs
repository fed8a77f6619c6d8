//! F5: HTTP: wire types, thin handlers, one map from errors to statuses.
//!
//! Knows nothing of how anything is found, embedded or stored.

pub mod embeddings;
pub mod error;
pub mod extract;
pub mod guard;
pub mod page;
pub mod settings;

use std::sync::{Arc, OnceLock};

use crate::service::{Service, ServiceError};
use embeddings::Means;
use error::ApiError;
pub use settings::Settings;

/// What all handlers share.
#[derive(Clone, Default)]
pub struct State {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// There once the model is loaded.
    service: OnceLock<Arc<Service>>,
    means: OnceLock<Means>,
}

impl State {
    /// The service.
    ///
    /// # Errors
    /// 503 until it has started.
    pub fn service(&self) -> Result<&Arc<Service>, ApiError> {
        self.inner.service.get().ok_or_else(|| ServiceError::NotReady { what: "the model is being loaded" }.into())
    }

    /// What the routes that embed need beside the service.
    ///
    /// # Errors
    /// 503 until it was set.
    pub fn means(&self) -> Result<&Means, ApiError> {
        self.inner.means.get().ok_or_else(|| ServiceError::NotReady { what: "it is starting" }.into())
    }

    /// To be set before requests come in.
    pub fn set_means(&self, means: Means) {
        let _ = self.inner.means.set(means);
    }

    /// Lets requests in.
    pub fn set_service(&self, service: Arc<Service>) {
        let _ = self.inner.service.set(service);
    }
}
