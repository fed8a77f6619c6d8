//! The integration tests, one binary: each module is one question.

mod repository;
mod snapshot;
mod snapshot_properties;
