//! F1: indexes over candidates, and the vectors they are made of. Knows nothing of where candidates come from or how lists are
//! fused.

pub mod lexical;
pub mod store;
pub mod tokens;
