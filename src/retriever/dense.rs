//! Similarity of an issue and candidates by the encoder: a candidate's score is that of its best window.

use rayon::prelude::*;

use crate::encoder::{Encoder, EncoderError, Window};
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
        let query = encoder.query(report)?;
        let query_use = QueryUse { tokens: query.tokens, used: query.tokens_used };
        Ok(Scorer { encoder, query: query.vector, query_use, embedded: Embedded::default(), progress })
    }

    pub fn query_use(&self) -> QueryUse {
        self.query_use
    }

    pub fn embedded(&self) -> Embedded {
        self.embedded
    }

    /// Cosine similarity of each chosen candidate's best window. `worth` says how telling a text is for the query: of a
    /// candidate with many windows only the most telling are embedded. Without it all are.
    pub fn similarities(
        &mut self,
        candidates: &[Candidate],
        chosen: &[usize],
        worth: Option<&(dyn Fn(&str) -> f32 + Sync)>,
    ) -> Result<Vec<(usize, f32)>, EncoderError> {
        let windows_of = |&at: &usize| {
            let body = candidates[at].body();
            let windows = self.encoder.windows(&candidates[at].header(), body)?;
            Ok(match worth {
                Some(worth) if windows.len() > MOST_WINDOWS => most_telling(windows, body, worth),
                _ => windows,
            })
        };
        let windows: Vec<Vec<Window>> = chosen.par_iter().map(windows_of).collect::<Result<_, EncoderError>>()?;
        let flat: Vec<&Window> = windows.iter().flatten().collect();
        let vectors = self.encoder.embed(&flat, self.progress)?;
        self.embedded.candidates += chosen.len();
        self.embedded.windows += flat.len();

        let mut similarities = vectors.iter().map(|it| vector::dot(it, &self.query));
        let best = chosen
            .iter()
            .zip(&windows)
            .map(|(&at, windows)| (at, similarities.by_ref().take(windows.len()).fold(f32::NEG_INFINITY, f32::max)));
        Ok(best.collect())
    }
}

/// The windows of a long candidate that are embedded when a list is reranked. A file of a thousand lines has forty; the
/// best of them is nearly always among those that share most with the query, and embedding is what an answer waits for.
const MOST_WINDOWS: usize = 3;

/// The windows whose text is worth most to the query, in their order.
fn most_telling(windows: Vec<Window>, body: &str, worth: &(dyn Fn(&str) -> f32 + Sync)) -> Vec<Window> {
    let mut ranked: Vec<(f32, usize)> =
        windows.iter().enumerate().map(|(at, window)| (worth(&body[window.body.clone()]), at)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut kept: Vec<usize> = ranked.into_iter().take(MOST_WINDOWS).map(|(_, at)| at).collect();
    kept.sort_unstable();
    let mut at = 0;
    windows
        .into_iter()
        .filter(|_| {
            at += 1;
            kept.binary_search(&(at - 1)).is_ok()
        })
        .collect()
}
