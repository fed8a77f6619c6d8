//! F2: the vision tower: the patches of a picture to features for the text tower.
//!
//! Knows nothing of files and pixels. The tower is frozen in every published training, so that a picture's features are a function
//! of its pixels alone and may be kept.

use std::slice::from_ref;

use candle_core::{Device, Result, Tensor};

use super::config::Vision;
use super::positions::{frequency, turned};
use super::text::in_rows;
use super::weights::{Layers, Objection, Weights};
use crate::device::ops::{self, Attention};
use crate::device::{Compute, Linear};

/// Of every layer normalisation in the tower; no configuration has it.
const EPSILON: f32 = 1e-6;
/// Base of the rotations; no configuration has it.
const THETA: f32 = 10_000.0;

/// What the text tower is given for a picture, a row for each of its tokens.
pub(super) struct Features {
    /// In place of the vocabulary's rows.
    pub tokens: Tensor,
    /// Added after the first layers, one each.
    pub deepstack: Vec<Tensor>,
}

impl Features {
    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let values = self.tokens.elem_count() + self.deepstack.iter().map(Tensor::elem_count).sum::<usize>();
        values * size_of::<f32>()
    }
}

/// Rows and columns of patches, both multiples of the merged ones.
pub(super) type Grid = (usize, usize);

pub(super) struct VisionTower {
    config: Vision,
    compute: Compute,
    patches: Linear,
    /// The table of positions, row by row.
    positions: Vec<f32>,
    blocks: Vec<Block>,
    merger: Merger,
    /// One for each block that the configuration names.
    deepstack: Vec<Merger>,
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
}

struct Block {
    first_norm: Norm,
    qkv: Linear,
    attended: Linear,
    second_norm: Norm,
    inner: Linear,
    outer: Linear,
}

/// Neighbouring patches to a token.
struct Merger {
    norm: Norm,
    /// The norm is over all patches of a token, not over each.
    is_joint: bool,
    inner: Linear,
    outer: Linear,
}

/// The rotations of a picture's patches, and how they attend.
struct Pass<'a> {
    config: &'a Vision,
    cos: Tensor,
    sin: Tensor,
    compute: Compute,
}

impl VisionTower {
    /// # Errors
    /// One line that names a tensor: missing, of another shape or type, not finite.
    pub(super) fn load(weights: &Weights, config: &Vision) -> std::result::Result<Self, Objection> {
        let beyond = format!("{}blocks.{}.", weights.prefix, config.depth);
        if weights.tensors.names().any(|name| name.starts_with(&beyond)) {
            return Err(format!("it has more blocks than the {} of config.json", config.depth).into());
        }
        let Vision { hidden, frames, patch, side, .. } = *config;
        // The pixels are exact in 8 bits and their products cheap: they stay in full precision.
        let kernel = Weights { compute: Compute::F32, ..weights.at("patch_embed.proj") };
        let (blocks, deepstack) = (weights.at("blocks"), weights.at("deepstack_merger_list"));
        Ok(VisionTower {
            patches: kernel.patches(&[hidden, 3, frames, patch, patch])?,
            positions: weights.values("pos_embed.weight", &[side * side, hidden])?,
            blocks: (0..config.depth)
                .map(|block| Block::load(&blocks.at(&block.to_string()), config))
                .collect::<std::result::Result<_, _>>()?,
            merger: Merger::load(&weights.at("merger"), config, false)?,
            deepstack: (0..config.deepstack.len())
                .map(|at| Merger::load(&deepstack.at(&at.to_string()), config, true))
                .collect::<std::result::Result<_, _>>()?,
            config: config.clone(),
            compute: weights.compute,
        })
    }

    /// The features of a picture of `grid` patches, each a row of values, in the order of the tokens that they become.
    ///
    /// # Errors
    /// Rows that are not as many or as long as the grid says.
    pub(super) fn features(&self, patches: Vec<f32>, grid: Grid) -> Result<Features> {
        let count = grid.0 * grid.1;
        let patches = Tensor::from_vec(patches, (count, self.config.patch_values()), &Device::Cpu)?;
        let mut states = ops::add(&self.patches.forward(&patches)?, &self.placed(grid)?)?;
        drop(patches);
        let pass = self.pass(grid)?;
        let mut deepstack = Vec::new();
        for (at, block) in self.blocks.iter().enumerate() {
            states = block.forward(&states, &pass)?;
            if let Some(merger) = self.config.deepstack.iter().position(|&it| it == at) {
                deepstack.push(self.deepstack[merger].forward(&states, &self.config)?);
            }
        }
        Ok(Features { tokens: self.merger.forward(&states, &self.config)?, deepstack })
    }

    /// The table of positions stretched over the grid, its corners on the grid's.
    fn placed(&self, grid: Grid) -> Result<Tensor> {
        let (width, side) = (self.config.hidden, self.config.side);
        let (rows, columns) = (stretched(grid.0, side), stretched(grid.1, side));
        let mut values = vec![0.0f32; grid.0 * grid.1 * width];
        for (patch, (row, column)) in values.chunks_exact_mut(width).zip(patches(grid, self.config.merge)) {
            let (row, column) = (rows[row], columns[column]);
            let corners = [
                (row.low, column.low, (1.0 - row.part) * (1.0 - column.part)),
                (row.low, column.high, (1.0 - row.part) * column.part),
                (row.high, column.low, row.part * (1.0 - column.part)),
                (row.high, column.high, row.part * column.part),
            ];
            for (row, column, weight) in corners {
                let start = (row * side + column) * width;
                for (value, &entry) in patch.iter_mut().zip(&self.positions[start..start + width]) {
                    *value += entry * weight;
                }
            }
        }
        Tensor::from_vec(values, (grid.0 * grid.1, width), &Device::Cpu)
    }

    /// A quarter of a head's dimensions turns by row and a quarter by column; the other half goes with them.
    fn pass(&self, grid: Grid) -> Result<Pass<'_>> {
        let quarter = self.config.head() / 4;
        let frequencies: Vec<f32> = (0..quarter).map(|at| frequency(THETA, at, 2 * quarter)).collect();
        let by = |place: usize| frequencies.iter().map(move |frequency| place as f32 * frequency);
        let angles = patches(grid, self.config.merge).flat_map(|(row, column)| by(row).chain(by(column)));
        let (cos, sin) = turned(angles, grid.0 * grid.1, 2 * quarter)?;
        Ok(Pass { config: &self.config, cos, sin, compute: self.compute })
    }
}

/// Row and column of each patch, those of a token together.
fn patches((rows, columns): Grid, merge: usize) -> impl Iterator<Item = (usize, usize)> {
    let of_token = move |row: usize, column: usize| {
        (0..merge * merge).map(move |at| (row * merge + at / merge, column * merge + at % merge))
    };
    (0..rows / merge).flat_map(move |row| (0..columns / merge).flat_map(move |column| of_token(row, column)))
}

/// A place between two rows of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Between {
    low: usize,
    high: usize,
    /// Of the way from one to the other.
    part: f32,
}

/// `count` places at equal distances over a table of `side`, from its first row to its last: torch's `linspace` in f32, which counts
/// from both ends.
fn stretched(count: usize, side: usize) -> Vec<Between> {
    let end = (side - 1) as f32;
    let step = if count > 1 { end / (count - 1) as f32 } else { 0.0 };
    let place = |at: usize| match at < count / 2 || count == 1 {
        true => step * at as f32,
        false => end - step * (count - 1 - at) as f32,
    };
    let between = |place: f32| {
        let low = place as usize;
        Between { low, high: (low + 1).min(side - 1), part: place - low as f32 }
    };
    (0..count).map(place).map(between).collect()
}

impl Norm {
    fn load(weights: &Weights, width: usize) -> std::result::Result<Self, Objection> {
        Ok(Norm { weight: weights.tensor("weight", &[width])?, bias: weights.tensor("bias", &[width])? })
    }

    fn forward(&self, states: &Tensor) -> Result<Tensor> {
        ops::layer_norm(states, &self.weight, &self.bias, EPSILON)
    }
}

fn linear(weights: &Weights, name: &str, input: usize, output: usize) -> std::result::Result<Linear, Objection> {
    weights.linear(&Layers { parts: &[(name, output)], input, has_bias: true })
}

impl Block {
    fn load(weights: &Weights, config: &Vision) -> std::result::Result<Self, Objection> {
        let Vision { hidden, intermediate, .. } = *config;
        let (attention, inner) = (weights.at("attn"), weights.at("mlp"));
        Ok(Block {
            first_norm: Norm::load(&weights.at("norm1"), hidden)?,
            qkv: linear(&attention, "qkv", hidden, 3 * hidden)?,
            attended: linear(&attention, "proj", hidden, hidden)?,
            second_norm: Norm::load(&weights.at("norm2"), hidden)?,
            inner: linear(&inner, "linear_fc1", hidden, intermediate)?,
            outer: linear(&inner, "linear_fc2", intermediate, hidden)?,
        })
    }

    fn forward(&self, states: &Tensor, pass: &Pass) -> Result<Tensor> {
        let states = ops::add(states, &self.attended.forward(&self.attention(states, pass)?)?)?;
        in_rows(&states, |states| {
            let inner = self.inner.forward(&self.second_norm.forward(states)?)?;
            ops::add(states, &self.outer.forward(&ops::gelu_tanh(&inner)?)?)
        })
    }

    fn attention(&self, states: &Tensor, pass: &Pass) -> Result<Tensor> {
        let (rows, heads, head) = (states.dim(0)?, pass.config.heads, pass.config.head());
        let qkv = self.qkv.forward(&self.first_norm.forward(states)?)?.reshape((rows, 3 * heads, head))?;
        let query = ops::rope(&qkv.narrow(1, 0, heads)?, &pass.cos, &pass.sin)?;
        let key = ops::rope(&qkv.narrow(1, heads, heads)?, &pass.cos, &pass.sin)?;
        let value = qkv.narrow(1, 2 * heads, heads)?;
        let scale = 1.0 / (head as f32).sqrt();
        let own = 0..rows;
        let all = Attention { sequences: from_ref(&own), prefix: None, causal: false, scale, compute: pass.compute };
        ops::attention(&query, &key, &value, &all)
    }
}

impl Merger {
    fn load(weights: &Weights, config: &Vision, is_joint: bool) -> std::result::Result<Self, Objection> {
        let joint = config.hidden * config.merged();
        Ok(Merger {
            norm: Norm::load(&weights.at("norm"), if is_joint { joint } else { config.hidden })?,
            is_joint,
            inner: linear(weights, "linear_fc1", joint, joint)?,
            outer: linear(weights, "linear_fc2", joint, config.out)?,
        })
    }

    fn forward(&self, states: &Tensor, config: &Vision) -> Result<Tensor> {
        let joint =
            |states: &Tensor| states.reshape((states.dim(0)? / config.merged(), config.hidden * config.merged()));
        let normed = match self.is_joint {
            true => self.norm.forward(&joint(states)?)?,
            false => joint(&self.norm.forward(states)?)?,
        };
        self.outer.forward(&ops::gelu_erf(&self.inner.forward(&normed)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_a_token_stand_together() {
        let found: Vec<_> = patches((2, 4), 2).collect();
        assert_eq!(found, [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]);
    }

    #[track_caller]
    fn check(count: usize, side: usize, expected: &[(usize, usize, f32)]) {
        let found: Vec<_> = stretched(count, side).iter().map(|it| (it.low, it.high, it.part)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn corners_lie_on_corners() {
        check(2, 48, &[(0, 1, 0.0), (47, 47, 0.0)]);
        check(3, 2, &[(0, 1, 0.0), (0, 1, 0.5), (1, 1, 0.0)]);
        check(1, 48, &[(0, 1, 0.0)]);
        check(4, 4, &[(0, 1, 0.0), (1, 2, 0.0), (2, 3, 0.0), (3, 3, 0.0)]);
    }
}
