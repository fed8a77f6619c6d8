//! F1: indexes over candidates, and the vectors they are made of. Knows nothing of where candidates come from or how lists are
//! fused.

pub mod build;
pub mod directory;
pub mod embeddings;
pub mod lexical;
pub mod segment;
pub mod store;
pub mod tokens;
pub mod vectors;
pub mod view;
