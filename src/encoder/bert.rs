//! F2: the BERT network on candle, from token ids to one vector a sequence: no padding, mean over tokens, L2.
//!
//! The sequences of a batch lie one after the other in one matrix. Everything but attention works on rows, so that no mask and no
//! padding is needed, and a vector does not depend on what it is batched with. Knows nothing of text, windows or where weights
//! come from.
//!
//! Own code rather than `candle_transformers::models::bert`, which pads, allocates at each step and calls `libm` for every `exp`
//! and `erf`: `benches/embed.rs` states the difference.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::kernels::{AddBias, AddNorm, BiasGelu, Norm, ScaledSoftmax};
use crate::vector::{add, dot, normalise};

/// The fields of a BERT `config.json` that the network depends on.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub intermediate_size: usize,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub layer_norm_eps: f32,
    pub hidden_act: String,
    #[serde(default = "absolute")]
    pub position_embedding_type: String,
}

fn absolute() -> String {
    "absolute".to_owned()
}

/// More than any BERT has, of anything: larger numbers are damage, and are refused before something is sized by them.
const MOST: usize = 1 << 20;

impl Config {
    /// Why this network can't run such a model, if it can't.
    pub(super) fn objection(&self) -> Option<String> {
        if self.hidden_act != "gelu" {
            Some(format!("activation `{}` instead of `gelu`", self.hidden_act))
        } else if self.position_embedding_type != "absolute" {
            Some(format!("`{}` positions instead of `absolute`", self.position_embedding_type))
        } else if let Some((name, size)) = self.sizes().into_iter().find(|it| !(1..=MOST).contains(&it.1)) {
            Some(format!("`{name}` is {size}, which is not within 1 and {MOST}"))
        } else if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            Some(format!("{} dimensions do not divide into {} heads", self.hidden_size, self.num_attention_heads))
        } else if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            Some(format!("`layer_norm_eps` is {}, which is not between 0 and 1", self.layer_norm_eps))
        } else {
            None
        }
    }

    fn sizes(&self) -> [(&'static str, usize); 7] {
        [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("max_position_embeddings", self.max_position_embeddings),
            ("type_vocab_size", self.type_vocab_size),
        ]
    }
}

/// The loaded network.
pub(super) struct Bert {
    words: Tensor,
    positions: Vec<f32>,
    /// The embedding of token type 0, the only one that a single text has.
    kind: Vec<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    heads: usize,
    width: usize,
}

struct Layer {
    /// Query, key and value side by side: one product instead of three.
    qkv: Linear,
    attended: Linear,
    attended_norm: Norm,
    inner: Linear,
    outer: Linear,
    outer_norm: Norm,
}

struct Linear {
    /// (in, out)
    weight: Tensor,
    bias: Vec<f32>,
}

impl Bert {
    /// Reads the tensors by their published names, with or without the prefix `bert.`; others in the file are ignored.
    ///
    /// # Errors
    /// One line that names the tensor: missing, of another shape, or not of floats.
    pub(super) fn load(tensors: &SafeTensors, config: &Config) -> std::result::Result<Self, String> {
        let prefix = if tensors.tensor("bert.embeddings.word_embeddings.weight").is_ok() { "bert." } else { "" };
        let weights = Weights { tensors, prefix: prefix.to_owned(), epsilon: config.layer_norm_eps };
        let width = config.hidden_size;
        let beyond = format!("{prefix}encoder.layer.{}.", config.num_hidden_layers);
        if tensors.names().iter().any(|name| name.starts_with(&beyond)) {
            return Err(format!("it has more layers than the {} of config.json", config.num_hidden_layers));
        }
        let embeddings = weights.at("embeddings");
        let kinds = embeddings.values("token_type_embeddings.weight", &[config.type_vocab_size, width])?;
        Ok(Bert {
            words: embeddings.table("word_embeddings.weight", &[config.vocab_size, width])?,
            positions: embeddings.values("position_embeddings.weight", &[config.max_position_embeddings, width])?,
            kind: kinds.get(..width).ok_or("tensor `token_type_embeddings.weight` is empty")?.to_vec(),
            norm: embeddings.norm("LayerNorm", width)?,
            layers: (0..config.num_hidden_layers)
                .map(|layer| Layer::load(&weights.at(&format!("encoder.layer.{layer}")), config))
                .collect::<std::result::Result<_, _>>()?,
            heads: config.num_attention_heads,
            width,
        })
    }

    /// One L2-normalised vector for each sequence of ids, in order.
    ///
    /// # Errors
    /// An empty sequence, one longer than the table of positions, or an id outside the vocabulary; a vector without a direction,
    /// which finite but damaged weights can give.
    pub(super) fn embed(&self, sequences: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let rows = rows(sequences);
        let mut states = self.embeddings(sequences)?;
        for layer in &self.layers {
            states = layer.forward(&states, &rows, self.heads)?;
        }
        let states = states.flatten_all()?.to_vec1::<f32>()?;
        let vector = |rows: &Range<usize>| mean(&states[rows.start * self.width..rows.end * self.width], self.width);
        let vectors: Vec<Vec<f32>> = rows.iter().map(vector).collect();
        if !vectors.iter().all(|vector| is_unit(vector)) {
            candle_core::bail!("a vector that is not of length 1");
        }
        Ok(vectors)
    }

    fn embeddings(&self, sequences: &[&[u32]]) -> Result<Tensor> {
        let ids = sequences.concat();
        let count = ids.len();
        let words = self.words.index_select(&Tensor::from_vec(ids, count, &Device::Cpu)?, 0)?.to_dtype(DType::F32)?;
        let mut states = words.flatten_all()?.to_vec1::<f32>()?;
        let mut rows = states.chunks_exact_mut(self.width);
        for sequence in sequences {
            if sequence.is_empty() || sequence.len() * self.width > self.positions.len() {
                candle_core::bail!("a sequence of {} tokens", sequence.len());
            }
            for (row, position) in rows.by_ref().zip(self.positions.chunks_exact(self.width)).take(sequence.len()) {
                add(row, position);
                add(row, &self.kind);
                self.norm.apply(row);
            }
        }
        Tensor::from_vec(states, (count, self.width), &Device::Cpu)
    }
}

impl Layer {
    fn load(weights: &Weights, config: &Config) -> std::result::Result<Self, String> {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let attention = weights.at("attention");
        Ok(Layer {
            qkv: attention.linear(&["self.query", "self.key", "self.value"], width, width)?,
            attended: attention.linear(&["output.dense"], width, width)?,
            attended_norm: attention.norm("output.LayerNorm", width)?,
            inner: weights.linear(&["intermediate.dense"], width, inner)?,
            outer: weights.linear(&["output.dense"], inner, width)?,
            outer_norm: weights.norm("output.LayerNorm", width)?,
        })
    }

    fn forward(&self, states: &Tensor, rows: &[Range<usize>], heads: usize) -> Result<Tensor> {
        let qkv = self.qkv.product(states)?;
        qkv.inplace_op1(&AddBias { bias: &self.qkv.bias })?;
        let parts = rows
            .iter()
            .map(|rows| attention(&qkv.narrow(0, rows.start, rows.len())?, heads))
            .collect::<Result<Vec<_>>>()?;
        let attended = self.attended.product(&Tensor::cat(&parts, 0)?)?;
        attended.inplace_op2(states, &AddNorm { bias: &self.attended.bias, norm: &self.attended_norm })?;
        let inner = self.inner.product(&attended)?;
        inner.inplace_op1(&BiasGelu { bias: &self.inner.bias })?;
        let outer = self.outer.product(&inner)?;
        outer.inplace_op2(&attended, &AddNorm { bias: &self.outer.bias, norm: &self.outer_norm })?;
        Ok(outer)
    }
}

/// Self-attention of one sequence: (tokens, 3 * width) in, (tokens, width) out. The heads are strided views, not copies.
fn attention(qkv: &Tensor, heads: usize) -> Result<Tensor> {
    let (tokens, columns) = qkv.dims2()?;
    let head = columns / 3 / heads;
    let view = qkv.reshape((tokens, 3, heads, head))?.permute((1, 2, 0, 3))?;
    let (query, key, value) = (view.get(0)?, view.get(1)?, view.get(2)?);
    let scores = query.matmul(&key.t()?)?;
    scores.inplace_op1(&ScaledSoftmax { scale: 1.0 / (head as f32).sqrt(), width: tokens })?;
    scores.matmul(&value)?.transpose(0, 1)?.reshape((tokens, columns / 3))
}

impl Linear {
    fn product(&self, states: &Tensor) -> Result<Tensor> {
        states.matmul(&self.weight)
    }
}

/// The rows that each sequence takes in the matrix of a batch.
fn rows(sequences: &[&[u32]]) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut next = |sequence: &&[u32]| {
        let rows = start..start + sequence.len();
        start = rows.end;
        rows
    };
    sequences.iter().map(&mut next).collect()
}

/// The normalised mean of some rows. The length of the mean cancels, so that the sum will do.
fn mean(states: &[f32], width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    for row in states.chunks_exact(width) {
        add(&mut total, row);
    }
    normalise(&mut total);
    total
}

/// Whether a vector has length 1; not so when a value is not finite.
fn is_unit(vector: &[f32]) -> bool {
    (dot(vector, vector) - 1.0).abs() < 1e-3
}

/// The tensors of a file below a prefix of their names.
struct Weights<'a> {
    tensors: &'a SafeTensors<'a>,
    prefix: String,
    epsilon: f32,
}

impl Weights<'_> {
    fn at(&self, name: &str) -> Weights<'_> {
        Weights { tensors: self.tensors, prefix: format!("{}{name}.", self.prefix), epsilon: self.epsilon }
    }

    fn bytes(&self, name: &str, shape: &[usize]) -> std::result::Result<(Dtype, &[u8]), String> {
        let name = format!("{}{name}", self.prefix);
        let view = self.tensors.tensor(&name).map_err(|_| format!("tensor `{name}` is missing"))?;
        if view.shape() != shape {
            return Err(format!("tensor `{name}` has shape {:?} instead of {shape:?}", view.shape()));
        }
        match view.dtype() {
            kind @ (Dtype::F16 | Dtype::BF16 | Dtype::F32) => Ok((kind, view.data())),
            other => Err(format!("tensor `{name}` holds {other:?} instead of F16, BF16 or F32")),
        }
    }

    fn values(&self, name: &str, shape: &[usize]) -> std::result::Result<Vec<f32>, String> {
        let (kind, bytes) = self.bytes(name, shape)?;
        Ok(match kind {
            Dtype::F16 => widened(bytes, f16::from_le_bytes, HalfFloatSliceExt::convert_to_f32_slice),
            Dtype::BF16 => widened(bytes, bf16::from_le_bytes, HalfFloatSliceExt::convert_to_f32_slice),
            _ => bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect(),
        })
    }

    /// A table to look rows up in, left in the type of the file: half of the weights are the vocabulary, and a text uses little of it.
    fn table(&self, name: &str, shape: &[usize]) -> std::result::Result<Tensor, String> {
        let (kind, bytes) = self.bytes(name, shape)?;
        let kind = match kind {
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            _ => DType::F32,
        };
        Tensor::from_raw_buffer(bytes, kind, shape, &Device::Cpu).map_err(|error| error.to_string())
    }

    fn norm(&self, name: &str, width: usize) -> std::result::Result<Norm, String> {
        let at = self.at(name);
        Ok(Norm { weight: at.values("weight", &[width])?, bias: at.values("bias", &[width])?, epsilon: self.epsilon })
    }

    /// Layers of one input, their outputs side by side.
    fn linear(&self, names: &[&str], input: usize, output: usize) -> std::result::Result<Linear, String> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            let at = self.at(name);
            weight.extend(at.values("weight", &[output, input])?);
            bias.extend(at.values("bias", &[output])?);
        }
        let weight = Tensor::from_vec(weight, (bias.len(), input), &Device::Cpu).and_then(|weight| weight.t());
        Ok(Linear { weight: weight.map_err(|error| error.to_string())?, bias })
    }
}

/// The name of a tensor that holds a value that is not finite, if one does: a single one makes every vector useless.
pub(super) fn non_finite(tensors: &SafeTensors) -> Option<String> {
    let found = tensors.tensors().into_par_iter().find_first(|(_, view)| has_non_finite(view.dtype(), view.data()));
    found.map(|(name, _)| name)
}

/// By the exponent, which is all ones in an infinity and in what is no number. Every value is read, so that the loop needs no branch.
fn has_non_finite(kind: Dtype, bytes: &[u8]) -> bool {
    let in_halves = |exponent: u16| {
        let is_found = |found: bool, half: &[u8; 2]| found | (u16::from_le_bytes(*half) & exponent == exponent);
        bytes.as_chunks::<2>().0.iter().fold(false, is_found)
    };
    match kind {
        Dtype::F16 => in_halves(0x7c00),
        Dtype::BF16 => in_halves(0x7f80),
        Dtype::F32 => {
            let is_found = |found: bool, value: &[u8; 4]| found | !f32::from_le_bytes(*value).is_finite();
            bytes.as_chunks::<4>().0.iter().fold(false, is_found)
        }
        // Not read by the network.
        _ => false,
    }
}

/// Half floats to f32, a block at a time: the bytes need not be aligned, and the conversion of a slice uses vector instructions.
fn widened<T: Copy + Default>(bytes: &[u8], read: fn([u8; 2]) -> T, convert: fn(&[T], &mut [f32])) -> Vec<f32> {
    const BLOCK: usize = 1024;
    let (halves, _) = bytes.as_chunks::<2>();
    let mut values = vec![0f32; halves.len()];
    let mut block = [T::default(); BLOCK];
    for (halves, values) in halves.chunks(BLOCK).zip(values.chunks_mut(BLOCK)) {
        for (slot, &half) in block.iter_mut().zip(halves) {
            *slot = read(half);
        }
        convert(&block[..halves.len()], values);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::is_unit;

    #[test]
    fn only_a_finite_vector_has_length_one() {
        for (vector, expected) in [
            ([0.6, 0.8], true),
            ([0.0, 0.0], false),
            ([f32::NAN, 1.0], false),
            ([f32::INFINITY, 0.0], false),
            ([1.0, 1.0], false),
        ] {
            assert_eq!(is_unit(&vector), expected, "{vector:?}");
        }
    }
}
