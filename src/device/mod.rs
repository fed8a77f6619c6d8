//! F1: arithmetic for the encoders: the operations of a forward pass over candle's tensors, each with kernels of its own for the CPU.
//!
//! Knows nothing of models, text or pictures. An encoder is written once on these operations; what a processor or a graphics card can do
//! faster is decided in here.

pub mod cpu;
pub mod elementwise;
pub mod linear;
pub mod ops;
pub mod tensors;

pub use linear::{Compute, Linear};
