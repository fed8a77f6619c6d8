//! What does an index cost to make and to keep up to date, and how soon does it answer?
//!
//! `cargo bench --bench index`. Two repositories of this crate's own dependencies:
//!
//! - 40 files, embedded by the bundled model: how fast an index is made, what a change of one file and no change at all cost.
//! - 5,000 files. Embedding them takes hours on two cores and is not what is asked here, so their vectors are random directions under
//!   the model's name: reading, cutting, storing, searching and answering take as long with them as with real ones. Measured are
//!   the same three runs without the embedding, the memory that the whole process took at most, the bytes on disk, and `sightline
//!   locate` as a process of its own, from start to end, with an issue of 64 tokens; `--retriever dense` searches all vectors.
//!
//! `-- --no-small` or `--no-large` leaves one out. The machine should be idle.

mod sources;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use sightline::encoder::{self, Encoder, EncoderError, MiniLm, ModelInfo, Progress, QueryEmbedding, Window};
use sightline::index::directory::DataDirectory;
use sightline::index::store::{EmbeddingStore, Store};
use sightline::retriever::ingest::{self, Job, Missing, Observer, Phase, Report};
use sightline::snapshot;
use sightline::types::IssueReport;
use sightline::vector;

const QUESTIONS: usize = 41;

fn main() -> anyhow::Result<()> {
    println!("question   what does an index cost, and how soon does it answer?");
    println!("machine    {}, {} threads", sources::processor(), rayon::current_num_threads());
    let encoder = encoder::bundled()?;
    let is_wanted = |part: &str| !std::env::args().any(|it| it == format!("--no-{part}"));
    if is_wanted("small") {
        small(&sources::copy(&sources::dependency_sources(4)?, 40)?, &encoder)?;
    }
    if is_wanted("large") {
        large(&sources::copy(&sources::dependency_sources(100)?, 5000)?, &Random(encoder))?;
    }
    Ok(())
}

fn small(folder: &tempfile::TempDir, encoder: &MiniLm) -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let store = Store::open(&data.path().join("store"))?;
    let run = || index(folder.path(), data.path(), encoder, &store);
    println!("\nembedded by the bundled model");
    let first = run()?;
    size(&first);
    let seconds = first.embedding_time.as_secs_f64();
    let (windows, candidates) = (first.embedding.embedded as f64 / seconds, first.candidates as f64 / seconds);
    println!("{:>8.1} s   first index; {windows:.0} windows/s, {candidates:.0} candidates/s", first.time.as_secs_f64());
    updates(folder.path(), run)?;
    Ok(())
}

fn large(folder: &tempfile::TempDir, encoder: &Random) -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let store = Store::open(&data.path().join("store"))?;
    let run = || index(folder.path(), data.path(), encoder, &store);
    println!("\nrandom vectors under the model's name");
    let before = memory("VmRSS")?;
    let first = run()?;
    size(&first);
    println!("{:>8.1} s   first index without embedding", (first.time - first.embedding_time).as_secs_f64());
    println!("{:>8.0} MB  of memory at most, {before:.0} before", memory("VmHWM")?);
    updates(folder.path(), run)?;
    let bytes = DataDirectory::new(data.path()).repository(&folder.path().canonicalize()?).bytes();
    println!("{:>8.0} MB  on disk, and {:.0} in the store", bytes as f64 / 1e6, store.stats()?.file_bytes as f64 / 1e6);
    for arguments in [
        &["--retriever", "hybrid"][..],
        &["--retriever", "dense"],
        &["--retriever", "dense", "--exact"],
        &["--retriever", "bm25"],
    ] {
        questions(folder.path(), data.path(), arguments)?;
    }
    Ok(())
}

fn size(report: &Report) {
    let counts = report.counts;
    println!("size       {} files, {} functions, {} windows", counts.files, counts.functions, counts.windows);
}

/// Changes one file and nothing at all.
fn updates(folder: &Path, run: impl Fn() -> anyhow::Result<Report>) -> anyhow::Result<()> {
    let file = std::fs::read_dir(folder.join("crate1"))?.next().context("a file")??.path();
    let mut times = Vec::new();
    let mut embedded = 0;
    for round in 0..5 {
        let text = std::fs::read_to_string(&file)?;
        std::fs::write(&file, format!("{text}\nfn added_{round}() -> usize {{\n    {round}\n}}\n"))?;
        let report = run()?;
        embedded = report.embedding.embedded;
        times.push(report.time);
    }
    times.sort();
    println!(
        "{:>8.0} ms  update after a change of one file, {embedded} windows embedded (median of 5)",
        milliseconds(times[2])
    );
    run()?;
    let mut times: Vec<Duration> = (0..5).map(|_| Ok(run()?.time)).collect::<anyhow::Result<_>>()?;
    times.sort();
    println!("{:>8.0} ms  no change", milliseconds(times[2]));
    Ok(())
}

fn index(root: &Path, data: &Path, encoder: &dyn Encoder, store: &dyn EmbeddingStore) -> anyhow::Result<Report> {
    let root = root.canonicalize()?;
    let directory = DataDirectory::new(data).repository(&root);
    let lock = directory.lock()?;
    let options = snapshot::Options::default();
    let missing = Missing::Embed;
    let job = Job { root: &root, revision: None, options: &options, encoder, store, missing, observer: &Silent };
    Ok(ingest::ingest(&job, &directory, &lock)?)
}

/// Asks the built program.
fn questions(root: &Path, data: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let issue = data.join("issue.md");
    std::fs::write(&issue, ISSUE)?;
    let (mut times, mut queries) = (Vec::new(), Vec::new());
    for _ in 0..QUESTIONS {
        let start = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_sightline"))
            .args(["locate", "--json", "--repo"])
            .arg(root)
            .arg("--issue")
            .arg(&issue)
            .args(arguments)
            .env("SIGHTLINE_INDEX_DATA_DIR", data)
            .output()?;
        times.push(start.elapsed());
        if !output.status.success() || !output.stderr.is_empty() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        if answer["index"]["indexed"] != true {
            bail!("the index was not used");
        }
        queries.push(answer["timings_ms"]["query"].as_u64().context("a time")?);
    }
    times.sort();
    queries.sort();
    println!(
        "{:>8.0} ms  p50 of `locate {}`, p99 {:.0} ms; of it embedding the issue, beside other work: {} ms",
        milliseconds(times[QUESTIONS / 2]),
        arguments.join(" "),
        milliseconds(times[QUESTIONS * 99 / 100]),
        queries[QUESTIONS / 2],
    );
    Ok(())
}

/// An issue of 64 tokens.
const ISSUE: &str = "Reading a directory hangs\n\nWhen a directory holds a link to itself, the iterator never ends: it goes round and \
round until memory is full. I expected an error that names the path. It worked before the last release, where links were not \
followed at all.\n";

/// The bundled model, with random directions for vectors of windows.
struct Random(MiniLm);

impl Encoder for Random {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn fingerprint(&self) -> &str {
        self.0.fingerprint()
    }

    fn windows(&self, header: &str, body: &str) -> Result<Vec<Window>, EncoderError> {
        self.0.windows(header, body)
    }

    fn embed(&self, windows: &[&Window], _: &Progress) -> Result<Vec<Vec<f32>>, EncoderError> {
        Ok(windows.iter().map(|it| random(it, self.info().dimensions)).collect())
    }

    fn query(&self, issue: &IssueReport) -> Result<QueryEmbedding, EncoderError> {
        self.0.query(issue)
    }

    fn embed_inputs(
        &self,
        inputs: &[sightline::encoder::Input],
        _: &sightline::encoder::Progress,
    ) -> Vec<Result<sightline::encoder::InputEmbedding, EncoderError>> {
        let refused =
            |_| Err(EncoderError::Compute { sequences: 1, cause: "a stand-in reads windows only".to_owned() });
        inputs.iter().map(refused).collect()
    }

    fn decode(&self, _: &[u32]) -> Result<String, sightline::encoder::EncoderError> {
        Err(sightline::encoder::EncoderError::NotBundled)
    }
}

/// A direction that depends on the tokens alone.
fn random(window: &Window, dimensions: usize) -> Vec<f32> {
    let mut state = window
        .tokens
        .iter()
        .fold(0x9e37_79b9_7f4a_7c15_u64, |hash, token| (hash ^ u64::from(*token)).wrapping_mul(0x0100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut vector: Vec<f32> = (0..dimensions).map(|_| next()).collect();
    vector::normalise(&mut vector);
    vector
}

struct Silent;

impl Observer for Silent {
    fn at(&self, _: Phase, _: usize, _: usize) {}

    fn should_stop(&self) -> bool {
        false
    }
}

/// A line of what Linux says of this process, in MB.
fn memory(line: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|it| it.strip_prefix(line)).context("Linux")?;
    let kilobytes: f64 = value.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").trim().parse()?;
    Ok(kilobytes / 1e3)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
