//! Similarity of an issue and candidates by the encoder: a candidate's score is that of its best window.

use rayon::prelude::*;

use crate::encoder::{Encoder, EncoderError, Window};
use crate::types::{Candidate, IssueReport};
use crate::vector;

use super::{Embedded, QueryUse, RetrieverError};

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
    ) -> Result<Vec<(usize, f32)>, RetrieverError> {
        let windows_of = |&at: &usize| {
            let body = candidates[at].body()?;
            let windows = self.encoder.windows(&candidates[at].header(), body)?;
            Ok(match worth {
                Some(worth) if windows.len() > MOST_WINDOWS => most_telling(windows, body, worth),
                _ => windows,
            })
        };
        let windows: Vec<Vec<Window>> = chosen.par_iter().map(windows_of).collect::<Result<_, RetrieverError>>()?;
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
const MOST_WINDOWS: usize = 2;

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::StandIn;
    use super::*;
    use crate::types::{Source, Text};

    /// The similarity of a text, of which each line is a window, and the lines that were embedded for it.
    #[track_caller]
    fn check(text: &str, worth: Option<fn(&str) -> f32>, similarity: f32, lines: &[u32]) {
        let encoder = StandIn::new();
        let candidates =
            ["ignored", text].map(|text| Candidate::file(Arc::new(Source::new("file", "Text", Text::new(text)))));
        let mut scorer = Scorer::new(&encoder, &IssueReport::default(), &|_, _| ()).expect("the stand-in never fails");
        let worth = worth.as_ref().map(|it| it as &(dyn Fn(&str) -> f32 + Sync));
        let found = scorer.similarities(&candidates, &[1], worth).expect("the stand-in never fails");
        assert_eq!(found, [(1, similarity)]);
        assert_eq!(*encoder.embedded.lock().expect("no panic"), lines);
        assert_eq!(scorer.embedded(), Embedded { candidates: 1, windows: lines.len() });
    }

    /// As much as the text has letters x.
    fn count(text: &str) -> f32 {
        text.matches('x').count() as f32
    }

    #[test]
    fn a_candidate_is_as_similar_as_its_best_window() {
        check("s10", None, 0.1, &[10]);
        check("s10\ns70\ns30", None, 0.7, &[10, 70, 30]);
    }

    #[test]
    fn of_a_long_candidate_the_most_telling_windows_are_embedded() {
        check("s10 x\ns70\ns30 x x\n", Some(count), 0.3, &[10, 30]);
        // In the order of the text, and the earlier of two that are worth the same.
        check("s10\ns20 x\ns70 x\ns30 x", Some(count), 0.7, &[20, 70]);
        check("s10\ns20\ns70", Some(|_| 0.0), 0.2, &[10, 20]);
        // Nothing is left out of two.
        check("s10\ns70", Some(count), 0.7, &[10, 70]);
    }

    #[test]
    fn each_candidate_has_the_windows_that_are_its_own() {
        let encoder = StandIn::new();
        let candidates = ["s10\ns20", "s30", "s50\ns40"]
            .map(|text| Candidate::file(Arc::new(Source::new("file", "Text", Text::new(text)))));
        let mut scorer = Scorer::new(&encoder, &IssueReport::default(), &|_, _| ()).expect("the stand-in never fails");
        let found = scorer.similarities(&candidates, &[2, 0, 1], None).expect("the stand-in never fails");
        assert_eq!(found, [(2, 0.5), (0, 0.2), (1, 0.3)]);
        assert!(scorer.similarities(&candidates, &[], None).expect("the stand-in never fails").is_empty());
        assert_eq!(scorer.embedded(), Embedded { candidates: 3, windows: 5 });
    }
}
