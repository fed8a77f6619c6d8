//! F5: the HTTP service: thin handlers, one map from errors to statuses, what stands before every route.

pub mod settings;

pub use settings::Settings;
