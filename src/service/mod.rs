//! F4: what HTTP, MCP and the page speak: answers of the retriever and the encoder over plain data.
//!
//! Knows nothing of transports.

pub mod pictures;
