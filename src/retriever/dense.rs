//! Similarity of an issue and candidates by the encoder: a candidate's score is that of its best window.

use std::ops::Range;
use std::time::Instant;

use half::f16;
use rayon::prelude::*;

use crate::encoder::{EncoderError, Window};
use crate::index::store::{EmbeddingStore, Key};
use crate::index::view::{How, Vectors};
use crate::types::Level;

use super::ingest::halves;
use super::pace::Pace;
use super::{Corpus, Embedded, Encoded, QueryUse, Request, RetrieverError};

/// Hears how many windows are embedded and how many there are to embed.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// An embedded issue, ready to be compared.
pub struct Scorer<'a> {
    corpus: Corpus<'a>,
    encoded: Encoded<'a>,
    store: &'a dyn EmbeddingStore,
    embedded: Embedded,
    progress: Progress<'a>,
}

/// How telling a text is for the query.
pub type Worth<'a> = &'a (dyn Fn(&str) -> f32 + Sync);

impl<'a> Scorer<'a> {
    pub fn new(
        corpus: Corpus<'a>,
        encoded: Encoded<'a>,
        store: &'a dyn EmbeddingStore,
        progress: Progress<'a>,
    ) -> Self {
        Scorer { corpus, encoded, store, embedded: Embedded::default(), progress }
    }

    pub fn query_use(&self) -> QueryUse {
        QueryUse { tokens: self.encoded.query.tokens, used: self.encoded.query.tokens_used }
    }

    pub fn embedded(self) -> Embedded {
        self.embedded
    }

    /// The candidates of a level that are most similar, enough for the request: found among the vectors of the index where it has all,
    /// or else by comparing each, for which what the index lacks is embedded.
    pub fn most_similar(
        &mut self,
        level: Level,
        documents: &[usize],
        request: &Request,
    ) -> Result<Vec<(usize, f32)>, RetrieverError> {
        // To rank by the few vectors that a partial index has would be another question.
        let whole = match self.vectors_of_model() {
            Some(vectors) if !vectors.is_lacking(level, documents)? => Some(vectors),
            _ => None,
        };
        match whole {
            None => self.similarities(level, documents, None),
            Some(vectors) => {
                let how = if request.exact { How::Exact } else { How::Fast };
                // They are ordered by position.
                let is_wanted = |at: u32| request.filter.is_all() || documents.binary_search(&(at as usize)).is_ok();
                let found = vectors.search(level, &self.encoded.query.vector, request.results, how, &is_wanted)?;
                self.embedded.candidates += documents.len();
                Ok(found.into_iter().map(|(at, similarity)| (at as usize, similarity)).collect())
            }
        }
    }

    fn vectors_of_model(&self) -> Option<&'a Vectors> {
        self.corpus.vectors.filter(|it| it.model == *self.encoded.model)
    }

    /// Cosine similarity of each chosen candidate's best window. Windows without a vector in the index are embedded: of a candidate with
    /// many only the most telling, where `worth` says which, and otherwise all.
    pub fn similarities(
        &mut self,
        level: Level,
        chosen: &[usize],
        worth: Option<Worth>,
    ) -> Result<Vec<(usize, f32)>, RetrieverError> {
        let mut lacking: Vec<Lacking> = Vec::new();
        let mut best = vec![f32::NEG_INFINITY; chosen.len()];
        match self.vectors_of_model() {
            None => lacking.extend((0..chosen.len()).map(|place| Lacking { place, known: Vec::new() })),
            Some(vectors) => {
                let indexed = vectors.similarities(level, chosen, &self.encoded.query.vector)?;
                for (place, indexed) in indexed.into_iter().enumerate() {
                    best[place] = indexed.unwrap_or(f32::NEG_INFINITY);
                    let known = vectors.known_windows(level, chosen[place])?;
                    lacking.extend(known.map(|known| Lacking { place, known }));
                }
            }
        }
        for (Lacking { place, .. }, similarity) in lacking.iter().zip(self.embed(chosen, &lacking, worth)?) {
            best[*place] = best[*place].max(similarity);
        }
        let found: Vec<_> = chosen.iter().copied().zip(best).filter(|it| it.1 > f32::NEG_INFINITY).collect();
        self.embedded.candidates += found.len();
        Ok(found)
    }

    /// The similarities of candidates by vectors from the store and the encoder; those of the index are left out.
    fn embed(
        &mut self,
        chosen: &[usize],
        lacking: &[Lacking],
        worth: Option<Worth>,
    ) -> Result<Vec<f32>, RetrieverError> {
        let windows_of = |Lacking { place, known }: &Lacking| {
            let candidate = &self.corpus.candidates[chosen[*place]];
            let body = candidate.body()?;
            let mut windows = self.encoded.encoder.windows(&candidate.header(), body)?;
            if let Some(worth) = worth.filter(|_| windows.len() > MOST_WINDOWS) {
                windows = most_telling(windows, body, worth);
            }
            windows.retain(|it| !known.contains(&(it.body.start as u32..it.body.end as u32)));
            Ok(windows)
        };
        let windows: Vec<Vec<Window>> = lacking.par_iter().map(windows_of).collect::<Result<_, RetrieverError>>()?;
        let flat: Vec<&Window> = windows.iter().flatten().collect();
        let vectors = self.vectors(&flat)?;
        let similarity = |it: &Option<Vec<f16>>| {
            it.as_ref().map_or(f32::NEG_INFINITY, |it| similarity(it, &self.encoded.query.vector))
        };
        let mut similarities = vectors.iter().map(similarity);
        let best_of = |it: &Vec<Window>| similarities.by_ref().take(it.len()).fold(f32::NEG_INFINITY, f32::max);
        Ok(windows.iter().map(best_of).collect())
    }

    /// The vectors of windows. A store that fails costs time, not the answer; a window that the encoder fails on costs itself.
    fn vectors(&mut self, windows: &[&Window]) -> Result<Vec<Option<Vec<f16>>>, RetrieverError> {
        let keys: Vec<Key> = windows.iter().map(|it| Key::of_tokens(&it.tokens)).collect();
        let mut found = match self.store.get(self.encoded.model, &keys) {
            Ok(found) => found,
            Err(error) => {
                self.embedded.unkept = Some(error.to_string());
                vec![None; keys.len()]
            }
        };
        let missing: Vec<usize> = (0..keys.len()).filter(|at| found[*at].is_none()).collect();
        let (mut done, mut pace) = (0, Pace::default());
        while done < missing.len() {
            let tokens = |at: &usize| windows[*at].tokens.len();
            let batch = &missing[done..][..pace.next(missing[done..].iter().map(tokens))];
            let start = Instant::now();
            let unread: Vec<&Window> = batch.iter().map(|at| windows[*at]).collect();
            let progress = |of_batch: usize, _| (self.progress)(done + of_batch, missing.len());
            let vectors = self.embedded_each(&unread, &progress)?;
            let items: Vec<(Key, &[f16])> =
                batch.iter().zip(&vectors).filter_map(|(at, vector)| Some((keys[*at], vector.as_deref()?))).collect();
            if self.embedded.unkept.is_none() {
                self.embedded.unkept = self.store.put(self.encoded.model, &items).err().map(|it| it.to_string());
            }
            pace.took(batch.iter().map(tokens).sum(), start.elapsed());
            let failed = vectors.iter().filter(|it| it.is_none()).count();
            self.embedded.windows += batch.len() - failed;
            self.embedded.failed += failed;
            batch.iter().zip(vectors).for_each(|(at, vector)| found[*at] = vector);
            done += batch.len();
        }
        self.embedded.cached += keys.len() - missing.len();
        Ok(found)
    }

    /// The vectors of windows; if they fail together, of those that don't fail alone.
    fn embedded_each(
        &self,
        windows: &[&Window],
        progress: &crate::encoder::Progress,
    ) -> Result<Vec<Option<Vec<f16>>>, RetrieverError> {
        let encoder = self.encoded.encoder;
        let error = match encoder.embed(windows, progress) {
            Ok(vectors) => return Ok(vectors.iter().map(|it| Some(halves(it))).collect()),
            // It is no fault of the windows.
            Err(EncoderError::Stopped) => return Err(EncoderError::Stopped.into()),
            Err(error) => error,
        };
        let alone = |it: &&Window| Some(halves(encoder.embed(&[*it], &|_, _| ()).ok()?.first()?));
        let found: Vec<_> = windows.iter().map(alone).collect();
        // It is the encoder then that is at fault.
        if found.iter().all(Option::is_none) { Err(error.into()) } else { Ok(found) }
    }
}

/// A candidate without all its vectors in the index.
struct Lacking {
    /// Its place among those that were chosen.
    place: usize,
    /// The windows that have one, by the bytes of its body.
    known: Vec<Range<u32>>,
}

fn similarity(vector: &[f16], query: &[f32]) -> f32 {
    vector.iter().zip(query).map(|(a, b)| a.to_f32() * b).sum()
}

/// The windows of a long candidate that are embedded when a list is reranked. A file of a thousand lines has forty; the
/// best of them is nearly always among those that share most with the query, and embedding is what an answer waits for.
const MOST_WINDOWS: usize = 2;

/// The windows whose text is worth most to the query, in their order.
fn most_telling(windows: Vec<Window>, body: &str, worth: Worth) -> Vec<Window> {
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

    use super::super::ingest::model_key;
    use super::super::tests::StandIn;
    use super::*;
    use crate::encoder::Encoder;
    use crate::index::lexical::LexicalIndex;
    use crate::index::store::MemoryStore;
    use crate::types::{Candidate, IssueReport, Source, Text};

    fn files(texts: &[&str]) -> Vec<Candidate> {
        texts.iter().map(|text| Candidate::file(Arc::new(Source::new("file", "Text", Text::new(*text))))).collect()
    }

    /// The similarities of chosen files, in hundredths, and what that took.
    fn compared(
        texts: &[&str],
        chosen: &[usize],
        worth: Option<Worth>,
        encoder: &StandIn,
        store: &MemoryStore,
    ) -> (Vec<(usize, i32)>, Embedded) {
        let candidates = files(texts);
        let lexical = LexicalIndex::build(&candidates).expect("in memory");
        let corpus = Corpus { candidates: &candidates, lexical: &lexical, vectors: None };
        let query = encoder.query(&IssueReport::default()).expect("the stand-in never fails");
        let model = model_key(encoder);
        let mut scorer = Scorer::new(corpus, Encoded { encoder, model: &model, query: &query }, store, &|_, _| ());
        let found = scorer.similarities(Level::File, chosen, worth).expect("the stand-in never fails");
        (
            found.into_iter().map(|(at, similarity)| (at, (similarity * 100.0).round() as i32)).collect(),
            scorer.embedded(),
        )
    }

    /// The similarity of a text, of which each line is a window, and the lines that were embedded for it.
    #[track_caller]
    fn check(text: &str, worth: Option<fn(&str) -> f32>, similarity: i32, lines: &[u32]) {
        let encoder = StandIn::new();
        let worth = worth.as_ref().map(|it| it as Worth);
        let (found, embedded) = compared(&["ignored", text], &[1], worth, &encoder, &MemoryStore::default());
        assert_eq!(found, [(1, similarity)]);
        assert_eq!(*encoder.embedded.lock().expect("no panic"), lines);
        assert_eq!(embedded, Embedded { candidates: 1, windows: lines.len(), ..Embedded::default() });
    }

    /// As much as the text has letters x.
    fn count(text: &str) -> f32 {
        text.matches('x').count() as f32
    }

    #[test]
    fn a_candidate_is_as_similar_as_its_best_window() {
        check("s10", None, 10, &[10]);
        check("s10\ns70\ns30", None, 70, &[10, 70, 30]);
    }

    #[test]
    fn of_a_long_candidate_the_most_telling_windows_are_embedded() {
        check("s10 x\ns70\ns30 x x\n", Some(count), 30, &[10, 30]);
        // In the order of the text, and the earlier of two that are worth the same.
        check("s10\ns20 x\ns70 x\ns30 x", Some(count), 70, &[20, 70]);
        check("s10\ns20\ns70", Some(|_| 0.0), 20, &[10, 20]);
        // Nothing is left out of two.
        check("s10\ns70", Some(count), 70, &[10, 70]);
    }

    #[test]
    fn a_window_that_the_encoder_fails_on_is_counted_as_that_and_costs_itself() {
        let mut encoder = StandIn::new();
        encoder.fails_on = Some(20);
        let (found, embedded) = compared(&["s20", "s30\ns20"], &[0, 1], None, &encoder, &MemoryStore::default());
        assert_eq!(found, [(1, 30)]);
        assert_eq!(embedded, Embedded { candidates: 1, windows: 1, failed: 2, ..Embedded::default() });
    }

    #[test]
    fn each_candidate_has_the_windows_that_are_its_own_and_no_window_is_embedded_twice() {
        let (encoder, store) = (StandIn::new(), MemoryStore::default());
        let texts = ["s10\ns20", "s30", "s50\ns40"];
        let (found, embedded) = compared(&texts, &[2, 0], None, &encoder, &store);
        assert_eq!(found, [(2, 50), (0, 20)]);
        assert_eq!(embedded, Embedded { candidates: 2, windows: 4, ..Embedded::default() });
        let (found, embedded) = compared(&texts, &[0, 1, 2], None, &encoder, &store);
        assert_eq!(found, [(0, 20), (1, 30), (2, 50)]);
        assert_eq!(embedded, Embedded { candidates: 3, windows: 1, cached: 4, ..Embedded::default() });
        assert!(compared(&texts, &[], None, &encoder, &store).0.is_empty());
    }
}
