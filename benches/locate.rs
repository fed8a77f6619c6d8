//! How long does a first question take on a repository that was never seen, and how much of it is what?
//!
//! `cargo bench --bench locate`. The repositories are copies of this crate's own dependencies, 1,000 and 200 source files of many
//! crates, so that everyone who builds this has the same. Figures are medians of nine runs (one for the encoder); `grep` over the
//! same files for the issue's rarest words is what one would do instead. The machine should be idle.

mod sources;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use sightline::config;
use sightline::encoder::{self, Encoder};
use sightline::index::lexical::LexicalIndex;
use sightline::index::store::MemoryStore;
use sightline::retriever::ingest::model_key;
use sightline::retriever::{Corpus, Encoded, Filter, Granularity, Localizer, Question, Request, RetrieverKind};
use sightline::snapshot::{self, Snapshot};
use sightline::types::{IssueReport, Level};

const RUNS: usize = 9;

fn main() -> anyhow::Result<()> {
    println!("question   how long does a first question take on an unseen repository?");
    println!("machine    {}, {} threads", sources::processor(), rayon::current_num_threads());
    let settings = config::load(None, &[])?.settings;
    let sources = sources::dependency_sources(10)?;
    let issue = issue()?;

    let large = sources::copy(&sources, 1000)?;
    let options = snapshot::Options { max_file_bytes: settings.snapshot.max_file_bytes, ..Default::default() };
    let read = || snapshot::read(large.path(), None, &options, &|_, _| ());
    let snapshot = read()?;
    describe(&snapshot);
    println!("{:>8.0} ms  snapshot and candidates", milliseconds(median(|| read().map(drop))?));
    let build = median(|| LexicalIndex::build(&snapshot.candidates).map(drop))?;
    println!("{:>8.0} ms  BM25 index", milliseconds(build));
    let (lexical, store) = (LexicalIndex::build(&snapshot.candidates)?, MemoryStore::default());
    let corpus = Corpus { candidates: &snapshot.candidates, lexical: &lexical, vectors: None };
    let localizer = Localizer::new(corpus, &store, &settings.ranking);
    let question = Question { report: &issue, encoded: None };
    for retriever in [RetrieverKind::Bm25, RetrieverKind::Hybrid] {
        let request = request(retriever, 0);
        let query = median(|| localizer.locate(question, &request, &|_, _| ()).map(drop))?;
        println!("{:>8.1} ms  lexical query, {}", milliseconds(query), retriever.name());
    }
    println!("{:>8.0} ms  grep for three words of the issue", milliseconds(median(|| grep(large.path()))?));

    let small = sources::copy(&sources, 200)?;
    let start = Instant::now();
    let snapshot = snapshot::read(small.path(), None, &options, &|_, _| ())?;
    let encoder = encoder::bundled()?;
    let lexical = LexicalIndex::build(&snapshot.candidates)?;
    let corpus = Corpus { candidates: &snapshot.candidates, lexical: &lexical, vectors: None };
    let (model, query) = (model_key(&encoder), encoder.query(&issue)?);
    let encoded = || Ok(Encoded { encoder: &encoder, model: &model, query: &query });
    let question = Question { report: &issue, encoded: Some(&encoded) };
    let request = request(RetrieverKind::Hybrid, settings.locate.rerank);
    let answer = Localizer::new(corpus, &store, &settings.ranking).locate(question, &request, &|_, _| ())?;
    let total = start.elapsed();
    describe(&snapshot);
    println!("{:>8.1} s   first hybrid answer, model loading included", total.as_secs_f64());
    println!("{:>8.1} s   of it encoding {} windows", answer.encoder_time.as_secs_f64(), answer.embedded.windows);
    Ok(())
}

fn request(retriever: RetrieverKind, rerank: usize) -> Request {
    Request { retriever, granularity: Granularity::Both, results: 10, rerank, exact: false, filter: Filter::default() }
}

fn describe(snapshot: &Snapshot) {
    let files = snapshot.candidates.iter().filter(|it| it.level == Level::File).count();
    let bytes: usize = snapshot.sources.iter().map(|it| it.bytes).sum();
    let functions = snapshot.candidates.len() - files;
    println!("size       {files} files, {functions} functions, {:.1} MB", bytes as f64 / 1e6);
}

/// The issue that ships with this crate.
fn issue() -> anyhow::Result<IssueReport> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/example-issue.md"))?;
    let (title, body) = text.split_once('\n').context("an issue with a body")?;
    Ok(IssueReport { title: title.to_owned(), body: body.to_owned(), ..IssueReport::default() })
}

fn grep(folder: &Path) -> anyhow::Result<()> {
    Command::new("grep").args(["-rniE", "magic|notebook|candidates"]).arg(folder).output().context("grep")?;
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median<E: Into<anyhow::Error>>(mut run: impl FnMut() -> Result<(), E>) -> anyhow::Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run().map_err(Into::into)?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[RUNS / 2])
}
