//! The integration tests, one binary: each module is one question.

mod cli;
mod floors;
mod repository;
mod snapshot;
mod snapshot_properties;
