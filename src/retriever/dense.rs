//! Similarity of an issue and candidates by the encoder: a candidate's score is that of its best window.

use crate::encoder::{Encoder, EncoderError};
use crate::index::lexical::QueryTerm;
use crate::types::{Candidate, IssueReport};
use crate::vector;

use super::{Embedded, QueryUse};

/// Hears how many windows are embedded and how many there are to embed.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// An embedded issue, ready to be compared.
pub struct Scorer<'a> {
    encoder: &'a dyn Encoder,
    query: Vec<f32>,
    query_use: QueryUse,
    embedded: Embedded,
    progress: Progress<'a>,
}

impl<'a> Scorer<'a> {
    pub fn new(encoder: &'a dyn Encoder, report: &IssueReport, progress: Progress<'a>) -> Result<Self, EncoderError> {
        let query = encoder.query(&report.title, &report.body)?;
        let query_use = QueryUse { tokens: query.tokens, used: query.tokens_used };
        Ok(Scorer { encoder, query: query.vector, query_use, embedded: Embedded::default(), progress })
    }

    pub fn query_use(&self) -> QueryUse {
        self.query_use
    }

    pub fn embedded(&self) -> Embedded {
        self.embedded
    }

    /// Cosine similarity of each chosen candidate's best window.
    pub fn similarities(
        &mut self,
        candidates: &[Candidate],
        chosen: &[usize],
        _terms: Option<&[QueryTerm]>,
    ) -> Result<Vec<(usize, f32)>, EncoderError> {
        let windows: Vec<Vec<_>> =
            chosen.iter().map(|&at| self.encoder.windows(&candidates[at].header(), candidates[at].body())).collect();
        let flat: Vec<_> = windows.iter().flatten().collect();
        let vectors = self.encoder.embed(&flat, self.progress)?;
        self.embedded.candidates += chosen.len();
        self.embedded.windows += flat.len();

        let mut similarities = vectors.iter().map(|it| vector::dot(it, &self.query));
        let best = chosen
            .iter()
            .zip(&windows)
            .map(|(&at, windows)| (at, similarities.by_ref().take(windows.len()).fold(f32::NEG_INFINITY, f32::max)));
        Ok(best.filter(|(_, similarity)| similarity.is_finite()).collect())
    }
}
