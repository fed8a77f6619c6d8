//! F3: from a snapshot and an issue to ranked files and functions. Knows nothing of flags, files on disk or the wire.

mod demotion;
mod dense;
mod hits;
mod mentions;
mod query;
pub mod ranker;

use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::Deserialize;

use crate::encoder::{Encoder, EncoderError};
use crate::fsio::FileError;
use crate::index::lexical::{LexicalIndex, Matches};
use crate::snapshot::Snapshot;
use crate::types::{Candidate, IssueReport, Level};

pub use hits::{Hit, MatchedLine};
use hits::{Shower, TermWorths};
use ranker::{Evidence, Parts, Weights};

/// Which evidence ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetrieverKind {
    /// Plain BM25 over every term of the issue: the field's baseline.
    Bm25,
    /// Cosine similarity of the encoder alone, over every candidate.
    Dense,
    /// All lexical evidence over every candidate, and the encoder over the best of that list.
    Hybrid,
}

impl RetrieverKind {
    pub const ALL: [RetrieverKind; 3] = [RetrieverKind::Bm25, RetrieverKind::Dense, RetrieverKind::Hybrid];

    /// The name in flags and output.
    pub fn name(self) -> &'static str {
        match self {
            RetrieverKind::Bm25 => "bm25",
            RetrieverKind::Dense => "dense",
            RetrieverKind::Hybrid => "hybrid",
        }
    }
}

/// Which lists are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    File,
    Function,
    Both,
}

impl Granularity {
    pub const ALL: [Granularity; 3] = [Granularity::File, Granularity::Function, Granularity::Both];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Granularity::File => "file",
            Granularity::Function => "function",
            Granularity::Both => "both",
        }
    }

    fn levels(self) -> &'static [Level] {
        match self {
            Granularity::File => &[Level::File],
            Granularity::Function => &[Level::Function],
            Granularity::Both => &[Level::File, Level::Function],
        }
    }
}

/// What is asked of a [`Localizer`].
#[derive(Debug, Clone)]
pub struct Request {
    pub retriever: RetrieverKind,
    pub granularity: Granularity,
    /// Results in each list; fewer when there are fewer candidates.
    pub results: usize,
    /// Functions that hybrid embeds; a quarter as many files. 0: no encoder.
    pub rerank: usize,
}

/// The answer to a request.
#[derive(Debug, Default)]
pub struct Answer {
    pub files: Vec<Hit>,
    pub functions: Vec<Hit>,
    /// What the encoder read of the issue; `None` when it was not asked.
    pub query: Option<QueryUse>,
    pub embedded: Embedded,
    pub lexical_time: Duration,
    pub encoder_time: Duration,
}

/// How much of an issue the encoder read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryUse {
    pub tokens: usize,
    pub used: usize,
}

/// What the encoder computed for an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Embedded {
    pub candidates: usize,
    pub windows: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RetrieverError {
    /// Its own message says all there is to say.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The same.
    #[error(transparent)]
    Index(#[from] FileError),
    #[error(
        "the retriever `{retriever}` needs an encoder, and none is loaded: use `bm25`, or build with the feature `bundled-models`"
    )]
    NoEncoder { retriever: &'static str },
}

/// A snapshot made ready for questions.
pub struct Localizer<'a> {
    candidates: &'a [Candidate],
    index: LexicalIndex,
    encoder: Option<&'a dyn Encoder>,
    weights: &'a Weights,
}

impl<'a> Localizer<'a> {
    /// Indexes a snapshot's candidates.
    pub fn new(snapshot: &'a Snapshot, encoder: Option<&'a dyn Encoder>, weights: &'a Weights) -> Self {
        let candidates = snapshot.candidates.as_slice();
        Localizer { candidates, index: LexicalIndex::build(candidates), encoder, weights }
    }

    /// Ranks the snapshot's candidates for an issue. `progress` hears of windows embedded and windows to embed.
    ///
    /// # Errors
    /// When the encoder fails, or is needed and missing; when the index is damaged.
    pub fn locate(
        &self,
        report: &IssueReport,
        request: &Request,
        progress: dense::Progress,
    ) -> Result<Answer, RetrieverError> {
        match request.retriever {
            RetrieverKind::Bm25 => self.bm25(report, request),
            RetrieverKind::Dense => self.dense(report, request, progress),
            RetrieverKind::Hybrid => self.hybrid(report, request, progress),
        }
    }

    fn bm25(&self, report: &IssueReport, request: &Request) -> Result<Answer, RetrieverError> {
        let start = Instant::now();
        let terms = query::all_terms(report);
        let mut parts = vec![Parts::default(); self.candidates.len()];
        let mut found = Vec::new();
        for &level in request.granularity.levels() {
            let matches = self.index.matches(level, &terms, &self.weights.plain_scheme(level))?;
            for (&at, score) in self.index.documents(level).iter().zip(matches.scores()) {
                parts[at].lexical = score;
            }
            found.push((level, matches));
        }
        let mut answer = Answer { lexical_time: start.elapsed(), ..Answer::default() };
        for (level, matches) in &found {
            self.fill(&mut answer, &Ranking { level: *level, parts: &parts, matches }, request);
        }
        Ok(answer)
    }

    fn dense(
        &self,
        report: &IssueReport,
        request: &Request,
        progress: dense::Progress,
    ) -> Result<Answer, RetrieverError> {
        let start = Instant::now();
        let mut scorer = self.scorer(report, request, progress)?;
        let mut parts = vec![Parts::default(); self.candidates.len()];
        for &level in request.granularity.levels() {
            let documents = self.index.documents(level);
            for (at, similarity) in scorer.similarities(self.candidates, documents, None)? {
                parts[at].dense = similarity;
            }
        }
        let mut answer = Answer {
            query: Some(scorer.query_use()),
            embedded: scorer.embedded(),
            encoder_time: start.elapsed(),
            ..Answer::default()
        };
        let terms = query::telling_terms(report);
        for &level in request.granularity.levels() {
            let matches = &self.index.matches(level, &terms, &self.weights.field_scheme(level))?;
            self.fill(&mut answer, &Ranking { level, parts: &parts, matches }, request);
        }
        Ok(answer)
    }

    fn hybrid(
        &self,
        report: &IssueReport,
        request: &Request,
        progress: dense::Progress,
    ) -> Result<Answer, RetrieverError> {
        let start = Instant::now();
        let terms = query::telling_terms(report);
        let mut evidence = Evidence::gather(self.candidates, &self.index, report, &terms, self.weights)?;
        let mut answer = Answer { lexical_time: start.elapsed(), ..Answer::default() };
        if request.rerank > 0 {
            let scorer = self.scorer(report, request, progress)?;
            self.rerank(&mut answer, &mut evidence, scorer, request)?;
            answer.encoder_time = start.elapsed() - answer.lexical_time;
        }
        for &level in request.granularity.levels() {
            let matches = evidence.matches(level);
            self.fill(&mut answer, &Ranking { level, parts: &evidence.parts, matches }, request);
        }
        Ok(answer)
    }

    /// Adds what the encoder says of the best of each list, and to the answer what that took.
    fn rerank(
        &self,
        answer: &mut Answer,
        evidence: &mut Evidence,
        mut scorer: dense::Scorer,
        request: &Request,
    ) -> Result<(), RetrieverError> {
        for &level in request.granularity.levels() {
            let (most, weight) = match level {
                Level::File => (request.rerank.div_ceil(4), self.weights.dense_file),
                Level::Function => (request.rerank, self.weights.dense_function),
            };
            let documents = self.index.documents(level);
            let best = ranker::best(documents, &evidence.parts, most, |it| it.score() > 0.0);
            let worths = TermWorths::new(evidence.matches(level));
            let worth = |text: &str| worths.of(text);
            evidence.add_dense(&scorer.similarities(self.candidates, &best, Some(&worth))?, weight);
        }
        answer.query = Some(scorer.query_use());
        answer.embedded = scorer.embedded();
        Ok(())
    }

    fn scorer<'s>(
        &'s self,
        report: &IssueReport,
        request: &Request,
        progress: dense::Progress<'s>,
    ) -> Result<dense::Scorer<'s>, RetrieverError> {
        let encoder = self.encoder.ok_or(RetrieverError::NoEncoder { retriever: request.retriever.name() })?;
        Ok(dense::Scorer::new(encoder, report, progress)?)
    }

    /// Puts the best of a level into the answer. A candidate for which nothing speaks is no result.
    fn fill(&self, answer: &mut Answer, ranking: &Ranking, request: &Request) {
        let shower = Shower::new(&self.index, ranking.level, ranking.matches);
        let documents = self.index.documents(ranking.level);
        let found = ranker::best(documents, ranking.parts, request.results, |it| *it != Parts::default());
        // A result may be a file of megabytes, all of whose lines are looked at.
        let hits = found.par_iter().map(|&at| shower.hit(self.candidates, at, ranking.parts[at])).collect();
        match ranking.level {
            Level::File => answer.files = hits,
            Level::Function => answer.functions = hits,
        }
    }
}

/// What speaks for the candidates of a level.
struct Ranking<'a> {
    level: Level,
    parts: &'a [Parts],
    matches: &'a Matches<'a>,
}

#[cfg(test)]
mod tests;
