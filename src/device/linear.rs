//! F1: linear layers, whose weights stay as they lie in their file or are quantised when they are loaded.

use candle_core::{Device, Result, Tensor};

use super::tensors::Stored;

/// What matrix products are computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// 32-bit floats: the reference.
    F32,
    /// 8-bit integers, a scale for each row of the input and each output; sums are exact.
    Q8,
}

impl Compute {
    /// The name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Compute::F32 => "f32",
            Compute::Q8 => "q8",
        }
    }
}

/// `x W^T + b`.
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// Matrices (out, in) of one input, their outputs side by side.
    ///
    /// # Errors
    /// Matrices of different inputs, a bias of another length than the outputs, or no memory.
    pub fn new(parts: &[Stored], bias: Option<Vec<f32>>, _compute: Compute) -> Result<Self> {
        let part = |stored: &Stored| Tensor::from_vec(stored.values(), stored.shape(), &Device::Cpu);
        let weight = Tensor::cat(&parts.iter().map(part).collect::<Result<Vec<_>>>()?, 0)?.t()?;
        let bias = bias.map(|values| Tensor::from_vec(values, weight.dim(1)?, &Device::Cpu)).transpose()?;
        Ok(Linear { weight, bias })
    }

    /// (rows, in) to (rows, out), f32.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let product = x.matmul(&self.weight)?;
        self.bias.as_ref().map_or(Ok(product.clone()), |bias| product.broadcast_add(bias))
    }
}
