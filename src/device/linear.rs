//! F1: linear layers, whose weights stay as they lie in their file or are quantised when they are loaded.

use std::ops::Range;

use candle_core::{Device, Result, Storage, Tensor, bail};
use rayon::prelude::*;

use super::cpu::rows::Rows;
use super::cpu::share::{Line, bytes, bytes_mut};
use super::cpu::{Level, floats, q8};
use super::tensors::Stored;

/// What matrix products are computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// 32-bit floats: the reference.
    F32,
    /// 8-bit integers, a scale for each row of the input and each output; attention by bf16 where the machine is quick at it.
    Q8,
}

impl Compute {
    pub const ALL: [Compute; 2] = [Compute::F32, Compute::Q8];

    /// The name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Compute::F32 => "f32",
            Compute::Q8 => "q8",
        }
    }

    /// The name and the version of what decides the values of a product. Vectors of different ones must not meet.
    pub fn arithmetic(self) -> String {
        match self {
            Compute::F32 => self.name().to_owned(),
            Compute::Q8 => format!("{} {Q8_RULES}", self.name()),
        }
    }
}

/// Raised with every change to how weights and inputs are quantised: to steps and scales, to which inputs are quantised twice, and to which
/// layers have fine inputs.
const Q8_RULES: u32 = 1;

/// `x W^T + b`.
pub struct Linear {
    weights: Weights,
    bias: Option<Vec<f32>>,
    inner: usize,
    outputs: usize,
    /// Of the inputs, where the weights are quantised.
    twice: q8::Twice,
}

enum Weights {
    /// Matrices (out, in), widened when they are used.
    Stored(Vec<Stored>),
    Quantised(Vec<q8::Weights<Tiles>>),
}

/// Tiles of quantised weights: made here, or as they lie in a file.
enum Tiles {
    Made(Vec<Line>),
    Stored(Stored),
}

impl AsRef<[u8]> for Tiles {
    fn as_ref(&self) -> &[u8] {
        match self {
            Tiles::Made(lines) => bytes(lines),
            Tiles::Stored(stored) => stored.bytes(),
        }
    }
}

/// A quantised matrix (out, in): what a file of such holds for it.
pub struct Quantised {
    /// [`q8::packed_size`] bytes, on the boundary of a cache line: a row of a tile is then in one.
    pub tiles: Vec<Line>,
    /// Of each output.
    pub scales: Vec<f32>,
    /// Of each output's steps.
    pub sums: Vec<i32>,
}

impl Quantised {
    /// Quantises a matrix.
    ///
    /// # Errors
    /// Not a matrix, not of floats, or a value that is not finite.
    pub fn of(matrix: &Stored) -> Result<Self> {
        if !matrix.is_of_floats() {
            bail!("{:?} instead of floats", matrix.kind());
        }
        let [outputs, inner] = matrix.shape() else { bail!("{:?} is not a matrix", matrix.shape()) };
        let (outputs, inner) = (*outputs, *inner);
        let mut it = Quantised {
            tiles: vec![Line::ZERO; q8::packed_size(outputs, inner) / size_of::<Line>()],
            scales: vec![0.0; outputs],
            sums: vec![0; outputs],
        };
        let panel = q8::packed_size(q8::OUTPUTS, inner) / size_of::<Line>();
        let groups = it.tiles.par_chunks_mut(panel).zip(it.scales.par_chunks_mut(q8::OUTPUTS));
        groups.zip(it.sums.par_chunks_mut(q8::OUTPUTS)).enumerate().try_for_each_init(
            || vec![0.0; q8::OUTPUTS * inner],
            |room, (at, ((tiles, scales), sums))| {
                let values = &mut room[..scales.len() * inner];
                matrix.copy_rows_to(at * q8::OUTPUTS, inner, values);
                match q8::pack(values, inner, bytes_mut(tiles), scales, sums) {
                    Some(()) => Ok(()),
                    None => bail!("values that are not finite"),
                }
            },
        )?;
        Ok(it)
    }
}

/// A quantised matrix as it lies in a file.
pub struct StoredQuantised {
    pub tiles: Stored,
    pub scales: Vec<f32>,
    pub sums: Vec<i32>,
    /// Values of an input.
    pub inner: usize,
}

impl Linear {
    /// Matrices (out, in) of one input, their outputs side by side.
    ///
    /// # Errors
    /// Matrices of different inputs, a bias of another length than the outputs, or a value that is not finite.
    pub fn new(parts: &[Stored], bias: Option<Vec<f32>>, compute: Compute) -> Result<Self> {
        let mut outputs = 0;
        let mut inner = None;
        for part in parts {
            let [rows, columns] = part.shape() else { bail!("{:?} is not a matrix", part.shape()) };
            if *inner.get_or_insert(*columns) != *columns {
                bail!("matrices of {inner:?} and {columns} inputs side by side");
            }
            outputs += rows;
        }
        let inner = inner.unwrap_or(0);
        let weights = match compute {
            Compute::F32 => Weights::Stored(parts.to_vec()),
            Compute::Q8 => Weights::Quantised(parts.iter().map(|part| quantised(part, inner)).collect::<Result<_>>()?),
        };
        Linear { weights, bias, inner, outputs, twice: q8::Twice::Outliers }.checked()
    }

    /// The same of matrices that are quantised already.
    ///
    /// # Errors
    /// Sizes that don't fit each other.
    pub fn of_quantised(parts: Vec<StoredQuantised>, bias: Option<Vec<f32>>) -> Result<Self> {
        let inner = parts.first().map_or(0, |part| part.inner);
        let outputs = parts.iter().map(|part| part.scales.len()).sum();
        let part = |part: StoredQuantised| {
            if part.inner != inner {
                bail!("matrices of {inner} and {} inputs side by side", part.inner);
            }
            let StoredQuantised { tiles, scales, sums, inner } = part;
            weights(Tiles::Stored(tiles), scales, &sums, inner)
        };
        let weights = Weights::Quantised(parts.into_iter().map(part).collect::<Result<_>>()?);
        Linear { weights, bias, inner, outputs, twice: q8::Twice::Outliers }.checked()
    }

    /// Where the weights are quantised: all inputs are quantised twice, which halves the error and doubles the products.
    #[must_use]
    pub fn with_fine_inputs(self) -> Self {
        Linear { twice: q8::Twice::All, ..self }
    }

    fn checked(self) -> Result<Self> {
        match &self.bias {
            Some(bias) if bias.len() != self.outputs => {
                bail!("a bias of {} values for {} outputs", bias.len(), self.outputs)
            }
            _ => Ok(self),
        }
    }

    /// (rows, in) to (rows, out), f32.
    ///
    /// # Errors
    /// Inputs of another width.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (rows, inner) = x.dims2()?;
        if inner != self.inner {
            bail!("inputs of {inner} values instead of {}", self.inner);
        }
        let mut out = vec![0.0; rows * self.outputs];
        let (storage, layout) = x.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else { bail!("no kernel for {:?}", x.device()) };
        let values = storage.as_slice::<f32>()?;
        let stride = layout.stride().first().copied().unwrap_or(inner).max(inner);
        if layout.stride().get(1).is_some_and(|it| *it != 1) {
            bail!("inputs whose values are not side by side");
        }
        let Some(inputs) = Rows::new(&values[layout.start_offset()..], rows, inner, stride) else {
            bail!("inputs that overlap")
        };
        self.product(inputs, &mut out);
        Tensor::from_vec(out, (rows, self.outputs), &Device::Cpu)
    }

    fn product(&self, inputs: Rows, out: &mut [f32]) {
        let (bias, level) = (self.bias.as_deref(), Level::best());
        match &self.weights {
            Weights::Stored(parts) => {
                floats::product(inputs, &|range, to| copy_rows(parts, self.inner, range, to), bias, out, level);
            }
            Weights::Quantised(parts) => {
                q8::product(&q8::Inputs::new(inputs, self.twice, level), parts, bias, out, level)
            }
        }
    }
}

fn quantised(part: &Stored, inner: usize) -> Result<q8::Weights<Tiles>> {
    let Quantised { tiles, scales, sums } = Quantised::of(part)?;
    weights(Tiles::Made(tiles), scales, &sums, inner)
}

fn weights(tiles: Tiles, scales: Vec<f32>, sums: &[i32], inner: usize) -> Result<q8::Weights<Tiles>> {
    match q8::Weights::new(tiles, scales, sums, inner) {
        Some(weights) => Ok(weights),
        None => bail!("tiles, scales and sums of a quantised matrix don't fit each other"),
    }
}

/// Rows of matrices that lie one below the other.
fn copy_rows(parts: &[Stored], inner: usize, rows: Range<usize>, mut to: &mut [f32]) {
    let mut first = 0;
    for part in parts {
        let count = part.shape().first().copied().unwrap_or(0);
        let own = rows.start.max(first)..rows.end.min(first + count);
        if !own.is_empty() {
            let (here, rest) = to.split_at_mut(own.len() * inner);
            part.copy_rows_to(own.start - first, inner, here);
            to = rest;
        }
        first += count;
    }
}
