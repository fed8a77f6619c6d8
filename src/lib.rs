//! Sightline finds the code an issue is about: a repository snapshot and an issue go in, ranked files and functions come out.
//!
//! The floors of the library (a module names only modules on lower floors) are described in `ARCHITECTURE.md`.

pub mod cli;
pub mod config;
pub mod device;
pub mod encoder;
pub mod evidence;
pub mod fsio;
pub mod imaging;
pub mod index;
pub mod mcp;
pub mod retriever;
pub mod server;
pub mod service;
pub mod snapshot;
pub mod telemetry;
pub mod types;
pub mod vector;
