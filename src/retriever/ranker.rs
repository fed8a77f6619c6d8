//! Evidence into one ordered list a level: lexical scores, mentions, what a file and its functions say of each other,
//! and the encoder's similarities.
//!
//! All parts are in one unit, the level's best lexical score: they add up to a result's score and can be shown as they
//! are.

use std::collections::HashMap;

use crate::index::lexical::{FIELDS, LengthNorm, LexicalIndex, QueryTerm, Scheme};
use crate::types::{Candidate, IssueReport, Level};

use super::demotion::Purpose;
use super::mentions::Mentions;

/// Weights of the evidence; the values in force stand in `configs/default.toml`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Saturation of a term's count in BM25.
    pub k1: f32,
    /// Length normalisation of plain BM25.
    pub b: f32,
    pub file_fields: FieldWeights,
    pub function_fields: FieldWeights,
    /// What an unambiguous mention adds.
    pub mention: f32,
    /// What a file's best three functions add to it, as a share of their mean score.
    pub functions_to_file: f32,
    /// What a file adds to each of its functions, as a share of its score.
    pub file_to_function: f32,
    /// Factor on the evidence for tests, documentation, examples and build output.
    pub demotion: f32,
    /// Weight of the encoder's z-score against the lexical one, for files.
    pub dense_file: f32,
    /// The same for functions.
    pub dense_function: f32,
}

/// BM25F weights and length normalisation by field.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldWeights {
    pub body: f32,
    pub path: f32,
    pub name: f32,
    pub body_b: f32,
    pub path_b: f32,
    pub name_b: f32,
}

impl Weights {
    /// Plain BM25 over one bag of words: path and content of a file; path, name and source of a function.
    pub fn plain_scheme(&self, level: Level) -> Scheme {
        // A file's names stand in its content already.
        let names = if level == Level::File { 0.0 } else { 1.0 };
        Scheme { k1: self.k1, weights: [1.0, 1.0, names], lengths: LengthNorm::Joined { b: self.b } }
    }

    /// BM25F with this level's field weights.
    pub fn field_scheme(&self, level: Level) -> Scheme {
        let fields = match level {
            Level::File => &self.file_fields,
            Level::Function => &self.function_fields,
        };
        let weights: [f32; FIELDS] = [fields.body, fields.path, fields.name];
        Scheme {
            k1: self.k1,
            weights,
            lengths: LengthNorm::Fields { b: [fields.body_b, fields.path_b, fields.name_b] },
        }
    }
}

/// A candidate's evidence by part; the score is the sum.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    pub lexical: f32,
    pub mention: f32,
    /// From the file's functions, or from the function's file.
    pub context: f32,
    /// Encoder similarity as a z-score in the lexical unit; 0 where there is no vector: the mean of the list.
    pub dense: f32,
}

impl Parts {
    pub fn score(&self) -> f32 {
        self.lexical + self.mention + self.context + self.dense
    }
}

/// The evidence of every candidate, by position in the candidate list.
pub struct Evidence {
    pub parts: Vec<Parts>,
    /// The factor on this candidate's evidence: 1, or the demotion.
    factors: Vec<f32>,
}

impl Evidence {
    /// Everything that can be said without an encoder.
    pub fn gather(
        candidates: &[Candidate],
        index: &LexicalIndex,
        report: &IssueReport,
        terms: &[QueryTerm],
        weights: &Weights,
    ) -> Self {
        let factors: Vec<f32> = factors(candidates, report, weights);
        let mentions = Mentions::of(report).strengths(candidates);
        let mut parts = vec![Parts::default(); candidates.len()];
        for level in [Level::File, Level::Function] {
            let scores = index.scores(level, terms, &weights.field_scheme(level));
            let best = scores.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
            for (&at, score) in index.documents(level).iter().zip(&scores) {
                parts[at].lexical = factors[at] * score / best;
                parts[at].mention = factors[at] * weights.mention * mentions[at];
            }
        }
        couple(candidates, &mut parts, weights);
        Evidence { parts, factors }
    }

    /// The candidates of a level, best first.
    pub fn ranked(&self, index: &LexicalIndex, level: Level) -> Vec<usize> {
        ranked(index.documents(level), &self.parts)
    }

    /// Adds the encoder's cosine similarities of some candidates of one level: a weighted sum of z-scores, written in
    /// the unit of the other evidence.
    ///
    /// A candidate without a similarity keeps its score, which is what the mean similarity of the list would give it.
    pub fn add_dense(&mut self, similarities: &[(usize, f32)], weight: f32) {
        let lexical = Moments::of(similarities.iter().map(|it| self.parts[it.0].score()));
        let dense = Moments::of(similarities.iter().map(|it| it.1));
        if dense.deviation == 0.0 {
            return;
        }
        for &(at, similarity) in similarities {
            let part = weight * lexical.deviation * (similarity - dense.mean) / dense.deviation;
            self.parts[at].dense = if part > 0.0 { part * self.factors[at] } else { part };
        }
    }
}

/// 1, or the demotion for a file that is not the product's own code, unless the issue's title asks for such files.
fn factors(candidates: &[Candidate], report: &IssueReport, weights: &Weights) -> Vec<f32> {
    let mut by_path: HashMap<&str, f32> = HashMap::new();
    let factor = |path: &str| if Purpose::of_path(path).is_asked_for(&report.title) { 1.0 } else { weights.demotion };
    candidates.iter().map(|it| *by_path.entry(it.path()).or_insert_with(|| factor(it.path()))).collect()
}

/// Lets files and their functions support each other, both from what stood before either did.
fn couple(candidates: &[Candidate], parts: &mut [Parts], weights: &Weights) {
    let own: Vec<f32> = parts.iter().map(Parts::score).collect();
    let mut start = 0;
    for group in candidates.chunk_by(|a, b| std::sync::Arc::ptr_eq(&a.source, &b.source)) {
        let functions = start + 1..start + group.len();
        let mut best: Vec<f32> = own[functions.clone()].to_vec();
        best.sort_by(|a, b| b.total_cmp(a));
        best.truncate(BEST_FUNCTIONS);
        parts[start].context = weights.functions_to_file * best.iter().sum::<f32>() / BEST_FUNCTIONS as f32;
        for at in functions {
            parts[at].context = weights.file_to_function * own[start];
        }
        start += group.len();
    }
}

/// A file counts by this many of its functions, so that a long one does not win by their number.
const BEST_FUNCTIONS: usize = 3;

/// Mean and standard deviation of some scores.
struct Moments {
    mean: f32,
    deviation: f32,
}

impl Moments {
    fn of(values: impl Iterator<Item = f32> + Clone) -> Self {
        let count = values.clone().count().max(1) as f32;
        let mean = values.clone().sum::<f32>() / count;
        let variance = values.map(|it| (it - mean).powi(2)).sum::<f32>() / count;
        Moments { mean, deviation: variance.sqrt() }
    }
}

/// Documents by score, best first; ties by position, so that equal runs give equal lists.
pub fn ranked(documents: &[usize], parts: &[Parts]) -> Vec<usize> {
    let mut ranked = documents.to_vec();
    ranked.sort_by(|&a, &b| parts[b].score().total_cmp(&parts[a].score()).then(a.cmp(&b)));
    ranked
}
