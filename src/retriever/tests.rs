//! Questions to a small snapshot, with a stand-in for the encoder whose similarities are known beforehand.

use std::sync::{Arc, Mutex};

use super::ranker::FieldWeights;
use super::*;
use crate::encoder::{ModelInfo, QueryEmbedding, Window};
use crate::index::store::MemoryStore;
use crate::snapshot::Snapshot;
use crate::types::{Lines, Source, Text};

/// Windows are the lines of a body. One that holds a number, as in `s80`, is a vector that is similar to every query by so many
/// hundredths; others by none.
pub(super) struct StandIn {
    info: ModelInfo,
    /// Lines that were embedded, by their similarity.
    pub embedded: Mutex<Vec<u32>>,
    fails: bool,
    /// It fails on windows with such a line.
    pub fails_on: Option<u32>,
}

impl StandIn {
    pub(super) fn new() -> Self {
        let info = ModelInfo::of_text("stand-in", 2, 16);
        StandIn { info, embedded: Mutex::default(), fails: false, fails_on: None }
    }
}

fn hundredths(line: &str) -> u32 {
    line.split_whitespace().find_map(|word| word.strip_prefix('s')?.parse().ok()).unwrap_or(0)
}

impl Encoder for StandIn {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn fingerprint(&self) -> &str {
        "stand-in"
    }

    fn windows(&self, _header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        let mut start = 0;
        let mut window = |line: &str| {
            let body = start..start + line.len();
            start = body.end;
            Window { tokens: vec![hundredths(line)], body, header_shortened: false }
        };
        Ok(body.split_inclusive('\n').map(&mut window).collect())
    }

    fn embed(&self, windows: &[&Window], _: &crate::encoder::Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        if self.fails || windows.iter().any(|it| Some(it.tokens[0]) == self.fails_on) {
            return Err(EncoderError::Compute { sequences: windows.len(), cause: "it is meant to".to_owned() });
        }
        let similarity = |window: &&Window| window.tokens[0];
        self.embedded.lock().expect("no panic in another thread").extend(windows.iter().map(similarity));
        let vector = |similarity: u32| {
            let cosine = similarity as f32 / 100.0;
            vec![cosine, (1.0 - cosine * cosine).sqrt()]
        };
        Ok(windows.iter().map(similarity).map(vector).collect())
    }

    fn query(&self, _: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        Ok(QueryEmbedding { vector: vec![1.0, 0.0], tokens: 9, tokens_used: 7, ..QueryEmbedding::default() })
    }

    fn embed_inputs(
        &self,
        inputs: &[crate::encoder::Input],
        _: &crate::encoder::Progress,
    ) -> Vec<Result<crate::encoder::InputEmbedding, EncoderError>> {
        let refused =
            |_| Err(EncoderError::Compute { sequences: 1, cause: "a stand-in reads windows only".to_owned() });
        inputs.iter().map(refused).collect()
    }

    fn decode(&self, _: &[u32]) -> Result<String, EncoderError> {
        Err(EncoderError::NotBundled)
    }
}

fn weights() -> Weights {
    let fields = FieldWeights { body: 1.0, path: 0.0, name: 0.0, body_b: 0.0, path_b: 0.0, name_b: 0.0 };
    Weights {
        k1: 1.2,
        b: 0.75,
        file_fields: fields.clone(),
        function_fields: fields,
        mention: 0.0,
        functions_to_file: 0.0,
        file_to_function: 0.0,
        demotion: 1.0,
        dense_file: 10.0,
        dense_function: 10.0,
    }
}

/// `<name>.txt` with the word of the issue as often as a count says, by which BM25 ranks, and one function of the whole file.
fn snapshot(files: &[(&str, usize, &str)]) -> Snapshot {
    let file = |&(name, count, rest): &(&str, usize, &str)| {
        let text = format!("{}{rest}", "lexer ".repeat(count));
        let range = 0..text.len();
        let source = Arc::new(Source::new(format!("{name}.txt"), "Text", Text::new(text)));
        [Candidate::file(source.clone()), Candidate::function(source, name, range, Lines { start: 1, end: 1 })]
    };
    Snapshot { candidates: files.iter().flat_map(file).collect(), ..Snapshot::default() }
}

const FILES: &[(&str, usize, &str)] =
    &[("a", 4, "s10"), ("b", 3, "s20"), ("c", 2, "s30"), ("d", 1, "s40"), ("e", 0, "s90")];

fn request(retriever: RetrieverKind, granularity: Granularity, rerank: usize) -> Request {
    Request { retriever, granularity, results: 9, rerank, exact: false, filter: Filter::default() }
}

fn ask(encoder: Option<&StandIn>, request: &Request) -> Result<Answer, RetrieverError> {
    let (snapshot, weights, store) = (snapshot(FILES), weights(), MemoryStore::default());
    let lexical = LexicalIndex::build(&snapshot.candidates).expect("in memory");
    let corpus = Corpus { candidates: &snapshot.candidates, lexical: &lexical, vectors: None };
    let report = IssueReport { title: "lexer".to_owned(), ..IssueReport::default() };
    let read = encoder.map(|it| Ok::<_, EncoderError>((it, ingest::model_key(it), it.query(&report)?))).transpose()?;
    let encoded = read.as_ref().map(|(encoder, model, query)| move || Ok(Encoded { encoder: *encoder, model, query }));
    let encoded = encoded.as_ref().map(|it| it as &dyn Fn() -> _);
    Localizer::new(corpus, &store, &weights).locate(Question { report: &report, encoded }, request, &|_, _| ())
}

fn names(hits: &[Hit]) -> String {
    hits.iter().filter_map(|it| it.candidate.path().chars().next()).collect()
}

/// The files and the functions found, in order, by the first letters of their paths; and how many candidates were embedded.
#[track_caller]
fn check(request: &Request, files: &str, functions: &str, embedded: usize) {
    let answer = ask(Some(&StandIn::new()), request).expect("the stand-in does not fail");
    assert_eq!((names(&answer.files).as_str(), names(&answer.functions).as_str()), (files, functions), "{request:?}");
    assert_eq!(answer.embedded.candidates, embedded, "{request:?}");
    assert_eq!(answer.query, (embedded > 0).then_some(QueryUse { tokens: 9, used: 7 }), "{request:?}");
}

#[test]
fn bm25_embeds_nothing_and_leaves_out_what_lacks_every_word() {
    check(&request(RetrieverKind::Bm25, Granularity::Both, 100), "abcd", "abcd", 0);
    check(&request(RetrieverKind::Bm25, Granularity::File, 100), "abcd", "", 0);
    check(&request(RetrieverKind::Bm25, Granularity::Function, 100), "", "abcd", 0);
}

#[test]
fn dense_compares_every_candidate_of_the_levels_asked_for() {
    check(&request(RetrieverKind::Dense, Granularity::Both, 1), "edcba", "edcba", 10);
    check(&request(RetrieverKind::Dense, Granularity::File, 1), "edcba", "", 5);
    check(&request(RetrieverKind::Dense, Granularity::Function, 1), "", "edcba", 5);
}

#[test]
fn hybrid_reorders_the_best_of_the_words_list() {
    check(&request(RetrieverKind::Hybrid, Granularity::Both, 0), "abcd", "abcd", 0);
    // Scores 1, .929, .813 and .591 by saturation at 1.2. One file is its own mean. Of two functions the deviation is .036, so that
    // they come to .643 and 1.286; those that are not embedded keep their score.
    check(&request(RetrieverKind::Hybrid, Granularity::Both, 2), "abcd", "bcad", 3);
    check(&request(RetrieverKind::Hybrid, Granularity::Function, 2), "", "bcad", 2);
    check(&request(RetrieverKind::Hybrid, Granularity::File, 8), "bcad", "", 2);
    // What lacks every word is not embedded, however similar it is.
    check(&request(RetrieverKind::Hybrid, Granularity::Both, 100), "dcba", "dcba", 8);
}

#[test]
fn results_are_as_many_as_asked_for() {
    let request = Request { results: 2, ..request(RetrieverKind::Dense, Granularity::Both, 0) };
    check(&request, "ed", "ed", 10);
}

#[test]
fn an_encoder_that_is_needed_and_missing_is_an_error_and_otherwise_not() {
    for (kind, rerank, fails) in [
        (RetrieverKind::Bm25, 9, false),
        (RetrieverKind::Hybrid, 0, false),
        (RetrieverKind::Hybrid, 9, true),
        (RetrieverKind::Dense, 0, true),
    ] {
        let outcome = ask(None, &request(kind, Granularity::Both, rerank));
        assert_eq!(matches!(outcome, Err(RetrieverError::NoEncoder { .. })), fails, "{kind:?} {rerank}");
    }
}

#[test]
fn an_error_of_the_encoder_is_told_once() {
    let failing = StandIn { fails: true, ..StandIn::new() };
    let error = ask(Some(&failing), &request(RetrieverKind::Dense, Granularity::File, 0)).expect_err("it fails");
    let cause = "it is meant to";
    assert!(error.to_string().contains(cause));
    assert!(std::error::Error::source(&error).is_none_or(|source| !source.to_string().contains(cause)));
}
