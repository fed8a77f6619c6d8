//! The integration tests, one binary: each module is one question.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod cli;
mod clients;
mod embed;
mod embeddings;
mod encoder_golden;
mod evidence;
mod floors;
mod hub;
mod index;
mod mcp;
mod models;
mod packaging;
mod repository;
mod selection;
mod served;
mod server;
mod settings;
mod snapshot;
mod snapshot_properties;
