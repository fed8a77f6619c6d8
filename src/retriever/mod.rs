//! F3: from a snapshot and an issue to ranked files and functions. Knows nothing of flags, files on disk or the wire.

mod demotion;
mod dense;
mod filter;
mod hits;
pub mod inference;
pub mod ingest;
mod literals;
mod mentions;
mod near;
mod pace;
mod pictures;
mod query;
pub mod ranker;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::Deserialize;

use crate::encoder::{Encoder, EncoderError, QueryEmbedding};
use crate::fsio::FileError;
use crate::index::lexical::{LexicalIndex, Matches};
use crate::index::store::{EmbeddingStore, ModelKey};
use crate::index::vectors::VectorError;
use crate::index::view::Vectors;
use crate::types::{Candidate, IssueReport, Level, TextError};

pub use filter::{Filter, MOST as MOST_FILTERS};
pub use hits::{Hit, MatchedLine};
use hits::{Shower, TermWorths};
pub use pictures::PictureWeight;
use pictures::Seen;
use query::Terms;
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
    /// Functions that hybrid compares by the encoder; a quarter as many files. 0: no encoder.
    pub rerank: usize,
    /// Compare all vectors in full precision where a search by codes or a graph would do.
    pub exact: bool,
    /// Which candidates may be results. Frequencies and means are those of all.
    pub filter: Filter,
}

impl Request {
    /// The documents of a level, by position, that may be results.
    fn documents<'c>(&self, corpus: Corpus<'c>, level: Level) -> Cow<'c, [usize]> {
        let all = corpus.lexical.documents(level);
        match self.filter.is_all() {
            true => Cow::Borrowed(all),
            false => all.iter().copied().filter(|at| self.filter.accepts(&corpus.candidates[*at])).collect(),
        }
    }
}

/// The answer to a request.
#[derive(Debug, Default)]
pub struct Answer {
    pub files: Vec<Hit>,
    pub functions: Vec<Hit>,
    /// What the encoder read of the issue; `None` when it was not asked.
    pub query: Option<QueryUse>,
    /// How much the evidence of each picture counts; empty where it is text like all other.
    pub pictures: Vec<PictureWeight>,
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

/// What an answer had to be embedded for, because the index had no vectors of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Embedded {
    /// Candidates that were compared with the issue.
    pub candidates: usize,
    /// Windows that the encoder read.
    pub windows: usize,
    /// Windows that it failed on, which were not compared.
    pub failed: usize,
    /// Windows whose vectors the store had.
    pub cached: usize,
    /// Why vectors could not be kept, if so.
    pub unkept: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum RetrieverError {
    /// Its own message says all there is to say.
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// The same.
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("{0}; `sightline index` makes it again")]
    Index(#[from] FileError),
    #[error("{0}; `sightline index` makes the vectors again")]
    Vectors(#[from] VectorError),
    #[error(
        "the retriever `{retriever}` needs an encoder, and none is loaded: use `bm25`, or build with the feature `bundled-models`"
    )]
    NoEncoder { retriever: &'static str },
}

/// What is searched: a snapshot in memory, or an index.
#[derive(Clone, Copy)]
pub struct Corpus<'a> {
    /// Ordered by path; the file first, then its functions by position.
    pub candidates: &'a [Candidate],
    pub lexical: &'a LexicalIndex,
    /// What is not in them is embedded when it is needed.
    pub vectors: Option<&'a Vectors>,
}

/// An encoder that has read the issue.
#[derive(Clone, Copy)]
pub struct Encoded<'a> {
    pub encoder: &'a dyn Encoder,
    /// What its vectors are kept under.
    pub model: &'a ModelKey,
    pub query: &'a QueryEmbedding,
}

/// An issue, and the encoder that reads it where the retriever needs one. It is asked for as late as possible: the words are ranked
/// while it is loaded, or waited for.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub report: &'a IssueReport,
    pub encoded: Option<&'a dyn Fn() -> Result<Encoded<'a>, RetrieverError>>,
}

/// A corpus made ready for questions.
pub struct Localizer<'a> {
    corpus: Corpus<'a>,
    /// Keeps what is embedded to answer.
    store: &'a dyn EmbeddingStore,
    weights: &'a Weights,
}

impl<'a> Localizer<'a> {
    pub fn new(corpus: Corpus<'a>, store: &'a dyn EmbeddingStore, weights: &'a Weights) -> Self {
        Localizer { corpus, store, weights }
    }

    /// Ranks the candidates for an issue. `progress` hears of windows embedded and windows to embed.
    ///
    /// # Errors
    /// When the encoder fails, or is needed and missing; when the index is damaged.
    pub fn locate<'q>(
        &'q self,
        question: Question<'q>,
        request: &Request,
        progress: dense::Progress<'q>,
    ) -> Result<Answer, RetrieverError> {
        match request.retriever {
            RetrieverKind::Bm25 => self.bm25(question.report, request),
            RetrieverKind::Dense => self.dense(question, request, progress),
            RetrieverKind::Hybrid => self.hybrid(question, request, progress),
        }
    }

    fn bm25(&self, report: &IssueReport, request: &Request) -> Result<Answer, RetrieverError> {
        let start = Instant::now();
        let terms = query::all_terms(&report.title, &report.whole_body());
        let index = self.corpus.lexical;
        let mut parts = vec![Parts::default(); self.corpus.candidates.len()];
        let mut found = Vec::new();
        for &level in request.granularity.levels() {
            let matches = index.matches(level, &terms, &self.weights.plain_scheme(level))?;
            for (&at, score) in index.documents(level).iter().zip(matches.scores()) {
                parts[at].lexical = score;
            }
            found.push((level, matches));
        }
        let mut answer = Answer { lexical_time: start.elapsed(), ..Answer::default() };
        for (level, matches) in &found {
            self.fill(&mut answer, &Ranking { level: *level, parts: &parts, matches }, request)?;
        }
        Ok(answer)
    }

    fn dense<'q>(
        &'q self,
        question: Question<'q>,
        request: &Request,
        progress: dense::Progress<'q>,
    ) -> Result<Answer, RetrieverError> {
        let start = Instant::now();
        let mut scorer = self.scorer(question, request, progress)?;
        let mut parts = vec![Parts::default(); self.corpus.candidates.len()];
        for &level in request.granularity.levels() {
            let documents = request.documents(self.corpus, level);
            for (at, similarity) in scorer.most_similar(level, &documents, request)? {
                parts[at].dense = similarity;
            }
        }
        let mut answer = Answer {
            query: Some(scorer.query_use()),
            embedded: scorer.embedded(),
            encoder_time: start.elapsed(),
            ..Answer::default()
        };
        let terms = query::telling_terms(&question.report.title, &question.report.whole_body());
        for &level in request.granularity.levels() {
            let matches = &self.corpus.lexical.matches(level, &terms, &self.weights.field_scheme(level))?;
            self.fill(&mut answer, &Ranking { level, parts: &parts, matches }, request)?;
        }
        Ok(answer)
    }

    fn hybrid<'q>(
        &'q self,
        question: Question<'q>,
        request: &Request,
        progress: dense::Progress<'q>,
    ) -> Result<Answer, RetrieverError> {
        let start = Instant::now();
        let Corpus { candidates, lexical, .. } = self.corpus;
        let seen = Seen::of(question.report, candidates, lexical)?;
        let terms = Terms::of(question.report, &seen.texts);
        let asked = ranker::Asked { report: question.report, terms: &terms, seen: &seen };
        let mut evidence = Evidence::gather(candidates, lexical, asked, self.weights)?;
        let pictures = std::mem::take(&mut evidence.pictures);
        let mut answer = Answer { pictures, lexical_time: start.elapsed(), ..Answer::default() };
        if request.rerank > 0 {
            let scorer = self.scorer(question, request, progress)?;
            self.rerank(&mut answer, &mut evidence, scorer, request)?;
            answer.encoder_time = start.elapsed() - answer.lexical_time;
        }
        for &level in request.granularity.levels() {
            let matches = evidence.matches(level);
            self.fill(&mut answer, &Ranking { level, parts: &evidence.parts, matches }, request)?;
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
            let documents = request.documents(self.corpus, level);
            let best = ranker::best(&documents, &evidence.parts, most, |it| it.score() > 0.0);
            let worths = TermWorths::new(evidence.matches(level));
            let worth = |text: &str| worths.of(text);
            evidence.add_dense(&scorer.similarities(level, &best, Some(&worth))?, weight);
        }
        answer.query = Some(scorer.query_use());
        answer.embedded = scorer.embedded();
        Ok(())
    }

    fn scorer<'s>(
        &'s self,
        question: Question<'s>,
        request: &Request,
        progress: dense::Progress<'s>,
    ) -> Result<dense::Scorer<'s>, RetrieverError> {
        let missing = RetrieverError::NoEncoder { retriever: request.retriever.name() };
        let encoded = question.encoded.ok_or(missing)?()?;
        Ok(dense::Scorer::new(self.corpus, encoded, self.store, progress))
    }

    /// Puts the best of a level into the answer. A candidate for which nothing speaks is no result.
    fn fill(&self, answer: &mut Answer, ranking: &Ranking, request: &Request) -> Result<(), RetrieverError> {
        let shower = Shower::new(self.corpus.lexical, ranking.level, ranking.matches);
        let documents = request.documents(self.corpus, ranking.level);
        let found = ranker::best(&documents, ranking.parts, request.results, |it| *it != Parts::default());
        // A result may be a file of megabytes, all of whose lines are looked at.
        let hits = found
            .par_iter()
            .map(|&at| shower.hit(self.corpus.candidates, at, ranking.parts[at]))
            .collect::<Result<_, _>>()?;
        match ranking.level {
            Level::File => answer.files = hits,
            Level::Function => answer.functions = hits,
        }
        Ok(())
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
