//! F2: the text tower: token ids and the features of pictures to one state a sequence.
//!
//! The sequences of a batch lie one after the other in one matrix; only attention knows where one ends. Knows nothing of text and
//! of how pictures become features. What sequences begin with alike is computed once ([`TextTower::prefix`]): in a causal network a
//! token's keys and values depend on what is before it alone.

use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::config::Text;
use super::positions::{Rotation, Span, positions};
use super::vision::Features;
use super::weights::{Layers, Objection, Weights};
use crate::device::ops::{self, Attention};
use crate::device::tensors::Stored;
use crate::device::{Compute, Linear};

/// Rows that pass through the wide middle of a layer at a time: all those of a long text would take more memory than its weights.
pub(super) const WIDE_ROWS: usize = 1024;

/// What the tower reads: token ids, some of which stand for patches of pictures.
#[derive(Clone)]
pub(super) struct Sequence {
    pub ids: Vec<u32>,
    /// In order, and apart.
    pub pictures: Vec<(Span, Arc<Features>)>,
}

/// Keys and values of each layer for tokens that sequences begin with.
pub(super) struct Prefix {
    pub ids: Vec<u32>,
    layers: Vec<(Tensor, Tensor)>,
}

pub(super) struct TextTower {
    config: Text,
    compute: Compute,
    /// Read by row: the table is a tenth of all weights, and a text has few of its rows.
    embeddings: Stored,
    rotation: Rotation,
    layers: Vec<Layer>,
    norm: Tensor,
}

struct Layer {
    input_norm: Tensor,
    /// Queries, keys and values side by side.
    qkv: Linear,
    query_norm: Tensor,
    key_norm: Tensor,
    attended: Linear,
    inner_norm: Tensor,
    /// Gate and value side by side.
    gate_up: Linear,
    down: Linear,
}

/// Queries, keys and values of some rows.
struct Heads {
    query: Tensor,
    key: Tensor,
    value: Tensor,
}

/// What the layers of a forward pass share.
struct Pass<'a> {
    config: &'a Text,
    compute: Compute,
    /// The rows that each sequence takes.
    rows: Vec<Range<usize>>,
    cos: Tensor,
    sin: Tensor,
    prefix: Option<&'a Prefix>,
    /// The first row of each picture, and what is added to its rows after the first layers.
    pictures: Vec<(usize, Arc<Features>)>,
}

impl TextTower {
    /// # Errors
    /// One line that names a tensor: missing, of another shape or type, not finite.
    pub(super) fn load(weights: &Weights, config: &Text) -> std::result::Result<Self, Objection> {
        let beyond = format!("{}layers.{}.", weights.prefix, config.layers);
        if weights.tensors.names().any(|name| name.starts_with(&beyond)) {
            return Err(format!("it has more layers than the {} of config.json", config.layers).into());
        }
        let layers = weights.at("layers");
        Ok(TextTower {
            embeddings: weights.unread("embed_tokens.weight", &[config.vocabulary, config.hidden])?,
            rotation: Rotation::new(config),
            norm: weights.tensor("norm.weight", &[config.hidden])?,
            layers: (0..config.layers)
                .map(|layer| Layer::load(&layers.at(&layer.to_string()), config))
                .collect::<std::result::Result<_, _>>()?,
            config: config.clone(),
            compute: weights.compute,
        })
    }

    /// The state of each sequence's last token behind the last norm, in order.
    ///
    /// # Errors
    /// An id outside the vocabulary, an empty sequence, or one that does not begin with the prefix and go on.
    pub(super) fn states(&self, batch: &[&Sequence], prefix: Option<&Prefix>) -> Result<Vec<Vec<f32>>> {
        let pass = self.pass(batch, prefix)?;
        let mut states = self.embedded(batch, prefix)?;
        let (last, others) = self.layers.split_last().ok_or_else(|| candle_core::Error::msg("no layers"))?;
        for (at, layer) in others.iter().enumerate() {
            states = layer.forward(&states, at, &pass)?;
            states = pass.with_pictures(states, at)?;
        }
        let states = last.forward_last(&states, others.len(), &pass)?;
        ops::rms_norm(&states, &self.norm, self.config.epsilon)?.to_vec2()
    }

    /// What sequences that begin with `ids` share.
    ///
    /// # Errors
    /// As [`TextTower::states`].
    pub(super) fn prefix(&self, ids: &[u32]) -> Result<Prefix> {
        let alone = Sequence { ids: ids.to_vec(), pictures: Vec::new() };
        let pass = self.pass(&[&alone], None)?;
        let mut states = self.embedded(&[&alone], None)?;
        let mut layers = Vec::new();
        for (at, layer) in self.layers.iter().enumerate() {
            let heads = layer.heads(&states, &pass)?;
            layers.push((heads.key.contiguous()?, heads.value.contiguous()?));
            if at + 1 < self.layers.len() {
                states = layer.finished(&states, &pass.attention(&heads, at)?, &pass)?;
            }
        }
        Ok(Prefix { ids: ids.to_vec(), layers })
    }

    fn pass<'a>(&'a self, batch: &[&Sequence], prefix: Option<&'a Prefix>) -> Result<Pass<'a>> {
        let known = prefix.map_or(&[][..], |it| &it.ids);
        let (mut rows, mut places, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
        for sequence in batch {
            let goes_on = sequence.ids.starts_with(known) && sequence.ids.len() > known.len();
            if !goes_on {
                candle_core::bail!("a sequence of {} tokens behind {} others", sequence.ids.len(), known.len());
            }
            let spans: Vec<Span> = sequence.pictures.iter().map(|it| it.0).collect();
            let start = places.len();
            places.extend_from_slice(&positions(sequence.ids.len(), &spans)[known.len()..]);
            rows.push(start..places.len());
            let first = |(span, features): &(Span, Arc<Features>)| {
                let first = (start + span.start).checked_sub(known.len());
                first.map(|first| (first, Arc::clone(features)))
            };
            let firsts = sequence.pictures.iter().map(first).collect::<Option<Vec<_>>>();
            pictures.extend(firsts.ok_or_else(|| candle_core::Error::msg("a picture in the prefix"))?);
        }
        let (cos, sin) = self.rotation.turn(&places)?;
        Ok(Pass { config: &self.config, compute: self.compute, rows, cos, sin, prefix, pictures })
    }

    /// The rows that go into the first layer: of the vocabulary, and of pictures.
    fn embedded(&self, batch: &[&Sequence], prefix: Option<&Prefix>) -> Result<Tensor> {
        let mut parts = Vec::new();
        for sequence in batch {
            let mut next = prefix.map_or(0, |it| it.ids.len());
            for (span, features) in &sequence.pictures {
                parts.extend(self.words(sequence.ids.get(next..span.start).unwrap_or_default())?);
                parts.push(features.tokens.clone());
                next = span.start + span.len();
            }
            parts.extend(self.words(sequence.ids.get(next..).unwrap_or_default())?);
        }
        if let [part] = parts.as_slice() { Ok(part.clone()) } else { Tensor::cat(&parts, 0) }
    }

    fn words(&self, ids: &[u32]) -> Result<Option<Tensor>> {
        let width = self.config.hidden;
        let mut rows = vec![0.0f32; ids.len() * width];
        for (&id, row) in ids.iter().zip(rows.chunks_exact_mut(width)) {
            if self.embeddings.copy_row_to(id as usize, row).is_none() {
                candle_core::bail!("token {id} of a vocabulary of {}", self.config.vocabulary);
            }
            if row.iter().any(|it| !it.is_finite()) {
                candle_core::bail!("the vector of token {id} holds values that are not finite");
            }
        }
        (!ids.is_empty()).then(|| Tensor::from_vec(rows, (ids.len(), width), &Device::Cpu)).transpose()
    }
}

impl Pass<'_> {
    /// Attention of all rows in layer `at`.
    fn attention(&self, heads: &Heads, at: usize) -> Result<Tensor> {
        let before = self.prefix.map(|it| &it.layers[at]);
        let how = self.how(&self.rows, before.map(|it| (&it.0, &it.1)));
        ops::attention(&heads.query, &heads.key, &heads.value, &how)
    }

    fn how<'a>(&self, sequences: &'a [Range<usize>], prefix: Option<(&'a Tensor, &'a Tensor)>) -> Attention<'a> {
        let scale = 1.0 / (self.config.head as f32).sqrt();
        Attention { sequences, prefix, causal: true, scale, compute: self.compute }
    }

    /// Attention of each sequence's last row: all others are what comes before it.
    fn attention_of_last(&self, heads: &Heads, at: usize) -> Result<Tensor> {
        let before = self.prefix.map(|it| &it.layers[at]);
        let of = |rows: &Range<usize>| {
            let last = rows.end - 1;
            let own = |all: &Tensor| all.narrow(0, rows.start, last - rows.start);
            let joined = |before: Option<&Tensor>, all: &Tensor| match before {
                Some(before) if last > rows.start => Tensor::cat(&[before, &own(all)?], 0),
                Some(before) => Ok(before.clone()),
                None => own(all),
            };
            let keys = joined(before.map(|it| &it.0), &heads.key)?;
            let values = joined(before.map(|it| &it.1), &heads.value)?;
            let prefix = (keys.dim(0)? > 0).then_some((&keys, &values));
            let one = |all: &Tensor| all.narrow(0, last, 1);
            let how = self.how(from_ref(&(0..1)), prefix);
            ops::attention(&one(&heads.query)?, &one(&heads.key)?, &one(&heads.value)?, &how)
        };
        Tensor::cat(&self.rows.iter().map(of).collect::<Result<Vec<_>>>()?, 0)
    }

    /// The states with what layer `at` is given of the pictures.
    fn with_pictures(&self, states: Tensor, at: usize) -> Result<Tensor> {
        let added: Vec<_> =
            self.pictures.iter().filter_map(|(start, it)| it.deepstack.get(at).map(|more| (*start, more))).collect();
        if added.is_empty() {
            return Ok(states);
        }
        let (mut parts, mut next) = (Vec::new(), 0);
        for (start, more) in added {
            parts.push(states.narrow(0, next, start - next)?);
            parts.push(ops::add(&states.narrow(0, start, more.dim(0)?)?, more)?);
            next = start + more.dim(0)?;
        }
        parts.push(states.narrow(0, next, states.dim(0)? - next)?);
        parts.retain(|it| it.elem_count() > 0);
        Tensor::cat(&parts, 0)
    }
}

impl Layer {
    fn load(weights: &Weights, config: &Text) -> std::result::Result<Self, Objection> {
        let Text { hidden, intermediate, head, .. } = *config;
        let (queries, keys) = (config.heads * head, config.kv_heads * head);
        let attention = weights.at("self_attn");
        let inner = weights.at("mlp");
        let linear = |weights: &Weights, parts: &[(&str, usize)], input: usize| {
            weights.linear(&Layers { parts, input, has_bias: false })
        };
        Ok(Layer {
            input_norm: weights.tensor("input_layernorm.weight", &[hidden])?,
            qkv: linear(&attention, &[("q_proj", queries), ("k_proj", keys), ("v_proj", keys)], hidden)?
                .with_fine_inputs(),
            query_norm: attention.tensor("q_norm.weight", &[head])?,
            key_norm: attention.tensor("k_norm.weight", &[head])?,
            attended: linear(&attention, &[("o_proj", hidden)], queries)?.with_fine_inputs(),
            inner_norm: weights.tensor("post_attention_layernorm.weight", &[hidden])?,
            gate_up: linear(&inner, &[("gate_proj", intermediate), ("up_proj", intermediate)], hidden)?,
            down: linear(&inner, &[("down_proj", hidden)], intermediate)?,
        })
    }

    /// (rows, hidden) to (rows, hidden), as layer `at`.
    fn forward(&self, states: &Tensor, at: usize, pass: &Pass) -> Result<Tensor> {
        let heads = self.heads(states, pass)?;
        let attended = pass.attention(&heads, at)?;
        self.finished(states, &attended, pass)
    }

    /// (rows, hidden) to (sequences, hidden): only what their last rows need.
    fn forward_last(&self, states: &Tensor, at: usize, pass: &Pass) -> Result<Tensor> {
        let heads = self.heads(states, pass)?;
        let attended = pass.attention_of_last(&heads, at)?;
        let last: Vec<u32> = pass.rows.iter().map(|rows| rows.end as u32 - 1).collect();
        let last = Tensor::from_vec(last, pass.rows.len(), states.device())?;
        self.finished(&states.index_select(&last, 0)?, &attended, pass)
    }

    fn heads(&self, states: &Tensor, pass: &Pass) -> Result<Heads> {
        let Text { heads, kv_heads, head, epsilon, .. } = *pass.config;
        let qkv = self.qkv.forward(&ops::rms_norm(states, &self.input_norm, epsilon)?)?;
        let qkv = qkv.reshape((states.dim(0)?, heads + 2 * kv_heads, head))?;
        let turned = |start: usize, count: usize, norm: &Tensor| {
            ops::rope(&ops::rms_norm(&qkv.narrow(1, start, count)?, norm, epsilon)?, &pass.cos, &pass.sin)
        };
        Ok(Heads {
            query: turned(0, heads, &self.query_norm)?,
            key: turned(heads, kv_heads, &self.key_norm)?,
            value: qkv.narrow(1, heads + kv_heads, kv_heads)?,
        })
    }

    /// What follows attention.
    fn finished(&self, states: &Tensor, attended: &Tensor, pass: &Pass) -> Result<Tensor> {
        let states = ops::add(states, &self.attended.forward(attended)?)?;
        in_rows(&states, |states| {
            let inner = self.gate_up.forward(&ops::rms_norm(states, &self.inner_norm, pass.config.epsilon)?)?;
            ops::add(states, &self.down.forward(&ops::swiglu(&inner)?)?)
        })
    }
}

/// A step that works on rows, applied to [`WIDE_ROWS`] of them at a time.
pub(super) fn in_rows(states: &Tensor, step: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let rows = states.dim(0)?;
    if rows <= WIDE_ROWS {
        return step(states);
    }
    let part = |start: usize| step(&states.narrow(0, start, WIDE_ROWS.min(rows - start))?);
    Tensor::cat(&(0..rows).step_by(WIDE_ROWS).map(part).collect::<Result<Vec<_>>>()?, 0)
}
