//! F2: the BERT network on candle, from token ids to one vector a sequence: no padding, mean over tokens, L2.
//!
//! The sequences of a batch lie one after the other in one matrix. Everything but attention works on rows, so that no mask and no
//! padding is needed, and a vector does not depend on what it is batched with. Knows nothing of text, windows or where weights
//! come from.
//!
//! Own code rather than `candle_transformers::models::bert`, which pads, allocates at each step and calls `libm` for every `exp`
//! and `erf`: `benches/embed.rs` states the difference.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};
use serde::Deserialize;

use crate::device::elementwise::{AddBias, AddNorm, BiasGelu, Norm, ScaledSoftmax, Widen};
use crate::device::tensors::{Stored, TensorFile};
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
    words: Stored,
    positions: Stored,
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
    /// Matrices (out, in) of one input, their outputs side by side.
    weights: Vec<Stored>,
    bias: Vec<f32>,
    input: usize,
}

impl Bert {
    /// Reads the tensors by their published names, with or without the prefix `bert.`; others in the file are ignored.
    ///
    /// # Errors
    /// One line that names the tensor: missing, of another shape, or not of floats.
    pub(super) fn load(tensors: &TensorFile, config: &Config) -> std::result::Result<Self, String> {
        let prefix =
            if tensors.names().any(|it| it == "bert.embeddings.word_embeddings.weight") { "bert." } else { "" };
        let weights = Weights { tensors, prefix: prefix.to_owned(), epsilon: config.layer_norm_eps };
        let width = config.hidden_size;
        let beyond = format!("{prefix}encoder.layer.{}.", config.num_hidden_layers);
        if tensors.names().any(|name| name.starts_with(&beyond)) {
            return Err(format!("it has more layers than the {} of config.json", config.num_hidden_layers));
        }
        let embeddings = weights.at("embeddings");
        let kinds = embeddings.values("token_type_embeddings.weight", &[config.type_vocab_size, width])?;
        Ok(Bert {
            words: embeddings.stored("word_embeddings.weight", &[config.vocab_size, width])?,
            positions: embeddings.stored("position_embeddings.weight", &[config.max_position_embeddings, width])?,
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
        let largest = self.layers.iter().flat_map(Layer::sizes).max().unwrap_or(0);
        let room = Tensor::from_vec(vec![0f32; largest], largest, &Device::Cpu)?;
        for layer in &self.layers {
            states = layer.forward(&states, &Pass { rows: &rows, heads: self.heads, room: &room })?;
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
        let count: usize = sequences.iter().map(|sequence| sequence.len()).sum();
        let mut states = vec![0.0; count * self.width];
        let mut position = vec![0.0; self.width];
        let mut rows = states.chunks_exact_mut(self.width);
        for sequence in sequences {
            if sequence.is_empty() {
                candle_core::bail!("a sequence of no tokens");
            }
            for ((at, &token), row) in sequence.iter().enumerate().zip(rows.by_ref()) {
                let Some(()) = self.words.copy_row_to(token as usize, row) else { candle_core::bail!("token {token}") };
                if self.positions.copy_row_to(at, &mut position).is_none() {
                    candle_core::bail!("a sequence of {} tokens", sequence.len());
                }
                add(row, &position);
                add(row, &self.kind);
                self.norm.apply(row);
            }
        }
        Tensor::from_vec(states, (count, self.width), &Device::Cpu)
    }
}

/// What the layers of a forward pass share.
struct Pass<'a> {
    /// The rows that each sequence takes.
    rows: &'a [Range<usize>],
    heads: usize,
    /// Where the weights of the step at hand are widened to: it stays in the cache, all of them as f32 would not.
    room: &'a Tensor,
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

    /// Values in the weights of each step.
    fn sizes(&self) -> [usize; 4] {
        [&self.qkv, &self.attended, &self.inner, &self.outer].map(Linear::size)
    }

    fn forward(&self, states: &Tensor, pass: &Pass) -> Result<Tensor> {
        let qkv = self.qkv.product(states, pass.room)?;
        qkv.inplace_op1(&AddBias { bias: &self.qkv.bias })?;
        let of_sequence = |rows: &Range<usize>| attention(&qkv.narrow(0, rows.start, rows.len())?, pass.heads);
        let parts = pass.rows.iter().map(of_sequence).collect::<Result<Vec<_>>>()?;
        let attended = self.attended.product(&Tensor::cat(&parts, 0)?, pass.room)?;
        attended.inplace_op2(states, &AddNorm { bias: &self.attended.bias, norm: &self.attended_norm })?;
        let inner = self.inner.product(&attended, pass.room)?;
        inner.inplace_op1(&BiasGelu { bias: &self.inner.bias })?;
        let outer = self.outer.product(&inner, pass.room)?;
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
    fn size(&self) -> usize {
        self.bias.len() * self.input
    }

    fn product(&self, states: &Tensor, room: &Tensor) -> Result<Tensor> {
        let weight = room.narrow(0, 0, self.size())?;
        weight.inplace_op1(&Widen { parts: &self.weights })?;
        states.matmul(&weight.reshape((self.bias.len(), self.input))?.t()?)
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
    tensors: &'a TensorFile,
    prefix: String,
    epsilon: f32,
}

impl Weights<'_> {
    fn at(&self, name: &str) -> Weights<'_> {
        Weights { tensors: self.tensors, prefix: format!("{}{name}.", self.prefix), epsilon: self.epsilon }
    }

    fn stored(&self, name: &str, shape: &[usize]) -> std::result::Result<Stored, String> {
        self.tensors.get(&format!("{}{name}", self.prefix), shape)
    }

    fn values(&self, name: &str, shape: &[usize]) -> std::result::Result<Vec<f32>, String> {
        Ok(self.stored(name, shape)?.values())
    }

    fn norm(&self, name: &str, width: usize) -> std::result::Result<Norm, String> {
        let at = self.at(name);
        Ok(Norm { weight: at.values("weight", &[width])?, bias: at.values("bias", &[width])?, epsilon: self.epsilon })
    }

    /// Layers of one input, their outputs side by side.
    fn linear(&self, names: &[&str], input: usize, output: usize) -> std::result::Result<Linear, String> {
        let (mut weights, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            let at = self.at(name);
            weights.push(at.stored("weight", &[output, input])?);
            bias.extend(at.values("bias", &[output])?);
        }
        Ok(Linear { weights, bias, input })
    }
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
