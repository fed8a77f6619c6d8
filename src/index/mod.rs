//! F1: indexes over candidates. Knows nothing of where candidates come from or how lists are fused.

pub mod lexical;
pub mod tokens;
pub mod vectors;
