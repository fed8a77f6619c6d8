//! F5: HTTP: wire types, thin handlers, one map from errors to statuses.
//!
//! Knows nothing of how anything is found, embedded or stored.

pub mod error;
pub mod extract;
pub mod page;

use std::sync::{Arc, OnceLock};

use crate::service::{Service, ServiceError};
use error::ApiError;

/// What all handlers share.
#[derive(Clone, Default)]
pub struct State {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// There once the model is loaded.
    service: OnceLock<Arc<Service>>,
}

impl State {
    /// The service.
    ///
    /// # Errors
    /// 503 until it has started.
    pub fn service(&self) -> Result<&Arc<Service>, ApiError> {
        self.inner.service.get().ok_or_else(|| ServiceError::NotReady { what: "the model is being loaded" }.into())
    }

    /// Lets requests in.
    pub fn set_service(&self, service: Arc<Service>) {
        let _ = self.inner.service.set(service);
    }
}
