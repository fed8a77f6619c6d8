//! F3: from a snapshot and an issue to ranked files and functions. Knows nothing of flags, files on disk or the wire.

mod demotion;
mod dense;
mod mentions;
mod query;
pub mod ranker;

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::encoder::{Encoder, EncoderError};
use crate::index::lexical::{LexicalIndex, QueryTerm, Scheme};
use crate::index::tokens;
use crate::snapshot::Snapshot;
use crate::types::{Candidate, IssueReport, Level};

pub use demotion::Purpose;
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

/// One result.
#[derive(Debug, Clone)]
pub struct Hit {
    pub candidate: Candidate,
    pub score: f32,
    pub parts: Parts,
    /// The query terms that brought most, with their BM25 scores.
    pub terms: Vec<(String, f32)>,
    /// The lines that hold most of the query, best first.
    pub lines: Vec<MatchedLine>,
}

/// A line of a result that holds terms of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedLine {
    pub line: u32,
    pub text: String,
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
    #[error("the issue could not be compared with the code: {0}")]
    Encoder(#[from] EncoderError),
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

/// Lines shown of each result.
const SHOWN_LINES: usize = 3;
/// Terms shown of each result.
const SHOWN_TERMS: usize = 6;

impl<'a> Localizer<'a> {
    /// Indexes a snapshot's candidates.
    pub fn new(snapshot: &'a Snapshot, encoder: Option<&'a dyn Encoder>, weights: &'a Weights) -> Self {
        let candidates = snapshot.candidates.as_slice();
        Localizer { candidates, index: LexicalIndex::build(candidates), encoder, weights }
    }

    /// Ranks the snapshot's candidates for an issue. `progress` hears of windows embedded and windows to embed.
    ///
    /// # Errors
    /// When the encoder fails, or is needed and missing.
    pub fn locate(
        &self,
        report: &IssueReport,
        request: &Request,
        progress: dense::Progress,
    ) -> Result<Answer, RetrieverError> {
        match request.retriever {
            RetrieverKind::Bm25 => Ok(self.bm25(report, request)),
            RetrieverKind::Dense => self.dense(report, request, progress),
            RetrieverKind::Hybrid => self.hybrid(report, request, progress),
        }
    }

    fn bm25(&self, report: &IssueReport, request: &Request) -> Answer {
        let start = Instant::now();
        let terms = query::all_terms(report);
        let mut parts = vec![Parts::default(); self.candidates.len()];
        let mut ranked = Vec::new();
        for &level in request.granularity.levels() {
            let scores = self.index.scores(level, &terms, &self.weights.plain_scheme(level));
            for (&at, score) in self.index.documents(level).iter().zip(scores) {
                parts[at].lexical = score;
            }
            ranked.push((level, ranker::ranked(self.index.documents(level), &parts)));
        }
        let mut answer = Answer { lexical_time: start.elapsed(), ..Answer::default() };
        self.fill(&mut answer, ranked, &parts, &terms, request, |level| self.weights.plain_scheme(level));
        answer
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
        let mut ranked = Vec::new();
        for &level in request.granularity.levels() {
            let documents = self.index.documents(level);
            for (at, similarity) in scorer.similarities(self.candidates, documents, None)? {
                parts[at].dense = similarity;
            }
            ranked.push((level, ranker::ranked(documents, &parts)));
        }
        let mut answer = Answer {
            query: Some(scorer.query_use()),
            embedded: scorer.embedded(),
            encoder_time: start.elapsed(),
            ..Answer::default()
        };
        self.fill(&mut answer, ranked, &parts, &query::telling_terms(report), request, |level| {
            self.weights.field_scheme(level)
        });
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
        let mut evidence = Evidence::gather(self.candidates, &self.index, report, &terms, self.weights);
        let mut answer = Answer { lexical_time: start.elapsed(), ..Answer::default() };
        if request.rerank > 0 {
            let start = Instant::now();
            let mut scorer = self.scorer(report, request, progress)?;
            for &level in request.granularity.levels() {
                let (most, weight) = match level {
                    Level::File => (request.rerank.div_ceil(4), self.weights.dense_file),
                    Level::Function => (request.rerank, self.weights.dense_function),
                };
                let mut best = evidence.ranked(&self.index, level);
                best.truncate(most);
                let worths = self.term_worths(level, &terms);
                let worth = |text: &str| worth_of(text, &worths);
                evidence.add_dense(&scorer.similarities(self.candidates, &best, Some(&worth))?, weight);
            }
            answer.query = Some(scorer.query_use());
            answer.embedded = scorer.embedded();
            answer.encoder_time = start.elapsed();
        }
        let ranked =
            request.granularity.levels().iter().map(|&level| (level, evidence.ranked(&self.index, level))).collect();
        self.fill(&mut answer, ranked, &evidence.parts, &terms, request, |level| self.weights.field_scheme(level));
        Ok(answer)
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

    /// Turns ranked positions into hits. A candidate for which nothing speaks is no result.
    fn fill(
        &self,
        answer: &mut Answer,
        ranked: Vec<(Level, Vec<usize>)>,
        parts: &[Parts],
        terms: &[QueryTerm],
        request: &Request,
        scheme: impl Fn(Level) -> Scheme,
    ) {
        for (level, order) in ranked {
            let scheme = scheme(level);
            let hits = order.into_iter().filter(|&at| parts[at] != Parts::default()).take(request.results);
            let hits = hits.map(|at| self.hit(level, at, parts[at], terms, &scheme)).collect();
            match level {
                Level::File => answer.files = hits,
                Level::Function => answer.functions = hits,
            }
        }
    }

    fn hit(&self, level: Level, at: usize, parts: Parts, terms: &[QueryTerm], scheme: &Scheme) -> Hit {
        let candidate = self.candidates[at].clone();
        let document = self.index.documents(level).partition_point(|&it| it < at);
        let mut by_term = self.index.explain(level, document, terms, scheme);
        by_term.truncate(SHOWN_TERMS);
        let terms_shown = by_term.into_iter().map(|(term, score)| (term.to_owned(), score)).collect();
        let lines = self.matched_lines(&candidate, level, terms);
        Hit { score: parts.score(), parts, terms: terms_shown, lines, candidate }
    }

    /// The lines of a candidate with the most weight of distinct query terms, best first.
    fn matched_lines(&self, candidate: &Candidate, level: Level, terms: &[QueryTerm]) -> Vec<MatchedLine> {
        let worths = self.term_worths(level, terms);
        let body = candidate.body();
        let mut scored: Vec<(f32, usize, &str)> = Vec::new();
        let mut offset = 0;
        for line in body.split_inclusive('\n') {
            let score = worth_of(line, &worths);
            if score > 0.0 {
                scored.push((score, offset, line));
            }
            offset += line.len();
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(SHOWN_LINES);
        let line_of = |offset: usize| candidate.source.line_at(candidate.range.start + offset);
        scored
            .iter()
            .map(|&(_, offset, text)| MatchedLine { line: line_of(offset), text: text.trim().to_owned() })
            .collect()
    }

    fn term_worths<'t>(&self, level: Level, terms: &'t [QueryTerm]) -> TermWorths<'t> {
        let rarity =
            |term: &'t QueryTerm| Some((term.text.as_str(), term.weight * self.index.rarity(level, &term.text)?));
        terms.iter().filter_map(rarity).collect()
    }
}

/// What each query term is worth where it stands.
type TermWorths<'t> = std::collections::HashMap<&'t str, f32>;

/// The worth of the distinct query terms in a text.
fn worth_of(text: &str, worths: &TermWorths) -> f32 {
    let mut terms = tokens::terms(text);
    terms.sort();
    terms.dedup();
    terms.iter().filter_map(|term| worths.get(term.as_str())).sum()
}
