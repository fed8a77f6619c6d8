//! F1: the elementwise steps of a transformer layer, each one pass over memory and in place.
//!
//! Candle's own versions allocate and walk a tensor several times a step and call `libm` for every `exp` and `erf`; together that
//! was more than half of the time of a forward pass. Knows nothing of models: slices in, slices out, and candle's in-place seam.

use candle_core::{CpuStorage, InplaceOp1, InplaceOp2, Layout, Result};

use super::cpu::pointwise::{exp_of_negative, gelu};
use super::tensors::Stored;
use crate::vector::add;

/// The values of some tensors, one after the other, in place of what was there.
pub struct Widen<'a> {
    pub parts: &'a [Stored],
}

/// Adds `bias` to each row.
pub struct AddBias<'a> {
    pub bias: &'a [f32],
}

/// `gelu(row + bias)` with the exact (erf) form of GELU.
pub struct BiasGelu<'a> {
    pub bias: &'a [f32],
}

/// `softmax(scale * row)`.
pub struct ScaledSoftmax {
    pub scale: f32,
    /// Length of a row.
    pub width: usize,
}

/// `layer_norm(row + bias + residual row)`; the residual is the second tensor.
pub struct AddNorm<'a> {
    pub bias: &'a [f32],
    pub norm: &'a Norm,
}

/// Scale, shift and epsilon of a layer normalisation.
pub struct Norm {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
    pub epsilon: f32,
}

impl InplaceOp1 for Widen<'_> {
    fn name(&self) -> &'static str {
        "widen"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let mut rest = values(storage, layout)?;
        for part in self.parts {
            let Some((own, after)) = rest.split_at_mut_checked(part.len()) else {
                candle_core::bail!("too little room")
            };
            part.copy_to(own);
            rest = after;
        }
        Ok(())
    }
}

impl InplaceOp1 for AddBias<'_> {
    fn name(&self) -> &'static str {
        "add-bias"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        for row in values(storage, layout)?.chunks_exact_mut(self.bias.len()) {
            add(row, self.bias);
        }
        Ok(())
    }
}

impl InplaceOp1 for BiasGelu<'_> {
    fn name(&self) -> &'static str {
        "bias-gelu"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        for row in values(storage, layout)?.chunks_exact_mut(self.bias.len()) {
            for (x, bias) in row.iter_mut().zip(self.bias) {
                *x = gelu(*x + bias);
            }
        }
        Ok(())
    }
}

impl InplaceOp1 for ScaledSoftmax {
    fn name(&self) -> &'static str {
        "scaled-softmax"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        for row in values(storage, layout)?.chunks_exact_mut(self.width) {
            softmax(row, self.scale);
        }
        Ok(())
    }
}

impl InplaceOp2 for AddNorm<'_> {
    fn name(&self) -> &'static str {
        "add-norm"
    }

    fn cpu_fwd(
        &self,
        storage: &mut CpuStorage,
        layout: &Layout,
        other: &CpuStorage,
        other_layout: &Layout,
    ) -> Result<()> {
        let width = self.bias.len();
        let residual = contiguous(other.as_slice::<f32>()?, other_layout)?;
        for (row, residual) in values(storage, layout)?.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
            add(row, self.bias);
            add(row, residual);
            self.norm.apply(row);
        }
        Ok(())
    }
}

impl Norm {
    /// Normalises one row in place.
    pub fn apply(&self, row: &mut [f32]) {
        let count = row.len() as f32;
        let mean = sum(row, |x| x) / count;
        let variance = sum(row, |x| (x - mean) * (x - mean)) / count;
        let scale = 1.0 / (variance + self.epsilon).sqrt();
        for ((x, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
            *x = (*x - mean) * scale * weight + bias;
        }
    }
}

/// Eight partial sums: one running sum would keep the compiler from using vector registers, and lose more digits.
fn sum(row: &[f32], map: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; 8];
    let (chunks, rest) = row.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += map(x);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|&x| map(x)).sum::<f32>()
}

fn maximum(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; 8];
    let (chunks, rest) = row.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = if x > *lane { x } else { *lane };
        }
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max)
}

fn softmax(row: &mut [f32], scale: f32) {
    let top = maximum(row);
    for x in row.iter_mut() {
        *x = exp_of_negative((*x - top) * scale);
    }
    let factor = 1.0 / sum(row, |x| x);
    for x in row.iter_mut() {
        *x *= factor;
    }
}

fn values<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    let CpuStorage::F32(values) = storage else { candle_core::bail!("expected f32 values") };
    let Some((start, end)) = layout.contiguous_offsets() else { candle_core::bail!("expected contiguous values") };
    Ok(&mut values[start..end])
}

fn contiguous<'a>(values: &'a [f32], layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else { candle_core::bail!("expected contiguous values") };
    Ok(&values[start..end])
}

#[cfg(test)]
#[path = "elementwise_tests.rs"]
mod tests;
