//! `sightline index`: brings the index of a repository up to date.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};

use super::files::{self, FileFlags};
use super::{Failure, export, json, model, one_of, place, progress, terminal};
use crate::config::{IndexVectors, Settings};
use crate::encoder::Encoder;
use crate::index::build::{Counts, Target};
use crate::index::directory::{Lock, RepositoryDirectory};
use crate::index::store::Store;
use crate::retriever::ingest::{self, Changes, Found, IngestError, Job, Missing, Observer, Phase, Report};
use crate::snapshot;

/// Read a repository and embed it, once: what has been embedded before, anywhere, is not embedded again.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The repository: a working tree, or any git repository with --rev.
    #[arg(default_value = ".", value_name = "PATH")]
    repository: PathBuf,
    /// Index this revision of the git repository instead of the files on disk; may be repeated.
    #[arg(long, value_name = "REV")]
    rev: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    model: model::Flags,
    /// Which vectors the index gets: all, or those that are stored already; then nothing is embedded, questions embed what they compare,
    /// and the index fills itself [default: all].
    #[arg(long, value_parser = one_of(IndexVectors::ALL, IndexVectors::name))]
    vectors: Option<IndexVectors>,
    /// Write the candidates with their vectors to a file too: one that ends in .jsonl or .safetensors.
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    export: Option<PathBuf>,
    /// Stay, and index again whenever files have changed.
    #[arg(long, conflicts_with = "rev")]
    watch: bool,
    /// Print JSON: one object, with --watch one a line for each new index.
    #[arg(long)]
    json: bool,
}

/// Set when the user wants the program to end.
static STOP: AtomicBool = AtomicBool::new(false);

/// Exit code of a run that the user ended, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Shows the phases of a run, and ends it when the user wants that.
#[derive(Default)]
pub struct Shown(progress::Phases);

impl Observer for Shown {
    fn at(&self, phase: Phase, done: usize, total: usize) {
        let (verb, unit) = match phase {
            Phase::Reading => ("reading", "files"),
            Phase::Cutting => ("cutting", "candidates"),
            Phase::Embedding { known } => {
                return self.0.at("embedding", &format!("windows ({known} known)"), done, total);
            }
            Phase::Linking => ("linking", "vectors"),
        };
        self.0.at(verb, unit, done, total);
    }

    fn should_stop(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let settings = &with_flags(arguments, settings)?;
    let format = arguments.export.as_deref().map(export::Format::of).transpose()?;
    if format.is_some() && arguments.rev.len() > 1 {
        return Err(Failure::usage(anyhow!(
            "--export writes one index, and --rev names {}: export them one by one",
            arguments.rev.len()
        )));
    }
    stop_on_signals()?;
    let data = place::data_directory(&settings.index.data_dir)?;
    let store = place::store(&data)?;
    let root = place::resolved(&arguments.repository);
    snapshot::check(&root)?;
    let encoder = model::load(&model::place(settings)?, settings)?;
    let indexer = Indexer {
        root: &root,
        directory: data.repository(&root),
        options: files::options(settings),
        encoder: &*encoder,
        store: &store,
        missing: match settings.index.vectors {
            IndexVectors::All => Missing::Embed,
            IndexVectors::Stored => Missing::Leave,
        },
        json: arguments.json,
        is_watching: arguments.watch,
    };
    let start = SystemTime::now();
    let lock = place::lock(&indexer.directory, &|| STOP.load(Ordering::Relaxed))?;
    let revisions: Vec<Option<&str>> = match arguments.rev.as_slice() {
        [] => vec![None],
        revisions => revisions.iter().map(|it| Some(it.as_str())).collect(),
    };
    let failed = indexer.index_all(&revisions, &lock)?;
    drop(lock);
    if let (Some(format), Some(path), None) = (format, &arguments.export, &failed) {
        indexer.export(revisions[0], path, format)?;
    }
    if failed.is_none() {
        evict(&store, settings.index.store_bytes, start);
    }
    match failed {
        Some(failure) => Err(failure),
        None if arguments.watch => indexer.watch(settings),
        None => Ok(()),
    }
}

/// The settings with the flags that are one of them.
fn with_flags(arguments: &Arguments, settings: &Settings) -> Result<Settings, Failure> {
    let mut settings = settings.clone();
    arguments.model.apply(&mut settings);
    arguments.files.apply(&mut settings)?;
    settings.index.vectors = arguments.vectors.unwrap_or(settings.index.vectors);
    Ok(settings)
}

/// The first signal ends the run at the next batch, the second at once.
fn stop_on_signals() -> Result<(), Failure> {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        terminal::remark("stopping after this batch; Ctrl-C again stops at once");
    };
    Ok(ctrlc::set_handler(handler).context("the system lets no program wait for Ctrl-C")?)
}

/// What was used in so much time before a run is not removed by it: another that still needs it may be under way.
const PROTECTED: Duration = Duration::from_secs(6 * 3600);

/// Keeps the store within its limit. What this run used stays.
pub fn evict(store: &Store, limit: u64, since: SystemTime) {
    // Another run may have been at work for long.
    match store.evict(limit, since - PROTECTED) {
        Ok(removed) if removed.vectors > 0 => {
            terminal::remark(&format!(
                "{} vectors unused for longest were removed from the store, which is limited to {}",
                removed.vectors,
                terminal::bytes(limit)
            ));
        }
        Ok(_) => {}
        Err(error) => terminal::warning(&format!("the store could not be brought to its limit: {error}")),
    }
}

struct Indexer<'a> {
    root: &'a Path,
    directory: RepositoryDirectory,
    options: snapshot::Options,
    encoder: &'a dyn Encoder,
    store: &'a Store,
    missing: Missing,
    json: bool,
    is_watching: bool,
}

impl Indexer<'_> {
    /// Indexes one revision after the other, and tells what became of them. Gives the first failure; one is no reason to leave out
    /// the others.
    fn index_all(&self, revisions: &[Option<&str>], lock: &Lock) -> Result<Option<Failure>, Failure> {
        let mut outcomes = Vec::new();
        for revision in revisions.iter().take_while(|_| !STOP.load(Ordering::Relaxed)) {
            outcomes.push((*revision, self.index(*revision, lock)));
        }
        let left = revisions.len() - outcomes.len();
        let failed = self.tell(outcomes)?;
        let stopped = || Failure {
            code: INTERRUPTED,
            error: anyhow!("stopped; {left} revisions are not indexed: run it again to go on from there"),
        };
        Ok(failed.or_else(|| (left > 0).then(stopped)))
    }

    fn index(&self, revision: Option<&str>, lock: &Lock) -> Result<Report, IngestError> {
        let observer = Shown::default();
        let job = Job {
            root: self.root,
            revision,
            options: &self.options,
            encoder: self.encoder,
            store: self.store,
            missing: self.missing,
            observer: &observer,
        };
        ingest::ingest(&job, &self.directory, lock)
    }

    /// Prints what became of each revision; gives the first failure, after the others were told.
    fn tell(&self, outcomes: Vec<(Option<&str>, Result<Report, IngestError>)>) -> Result<Option<Failure>, Failure> {
        let reports: Vec<&Report> = outcomes.iter().filter_map(|it| it.1.as_ref().ok()).collect();
        for report in &reports {
            warn(report);
        }
        if self.json && !(self.is_watching && reports.is_empty()) {
            let failures =
                outcomes.iter().filter_map(|(revision, it)| Some((*revision, it.as_ref().err()?.to_string())));
            let run = json::IndexRun::of(&self.directory, &reports, failures.collect());
            if self.is_watching { json::print_line(&run)? } else { json::print(&run)? }
        } else if !self.json {
            reports.iter().flat_map(|it| summary(&self.directory.id, it)).for_each(|it| terminal::remark(&it));
        }
        let mut failure = None;
        for (revision, outcome) in outcomes {
            let Err(error) = outcome else { continue };
            let code = if matches!(error, IngestError::Stopped { .. }) { INTERRUPTED } else { 1 };
            let error = match revision {
                Some(revision) => anyhow::Error::new(error).context(format!("revision `{revision}` is not indexed")),
                None => error.into(),
            };
            if let Some(Failure { error, .. }) = failure.replace(Failure { code, error }) {
                terminal::error(&super::message(&error));
            }
        }
        Ok(failure)
    }

    fn export(&self, revision: Option<&str>, path: &Path, format: export::Format) -> Result<(), Failure> {
        match ingest::open(&self.directory, self.root, revision, &self.options)? {
            Found::Index(indexed) => Ok(export::write(&indexed.view, path, format)?),
            Found::Nothing | Found::OtherRules => {
                Err(anyhow!("the index that was just made is gone: run it again").into())
            }
        }
    }

    /// Looks at the files again and again, and indexes what has changed once it has stopped changing.
    fn watch(&self, settings: &Settings) -> Result<(), Failure> {
        terminal::remark(&format!("watching {} (Ctrl-C ends it)", self.root.display()));
        let (mut before, mut told) = (Changes::default(), String::new());
        while !STOP.load(Ordering::Relaxed) {
            let start = std::time::Instant::now();
            let found = ingest::open(&self.directory, self.root, None, &self.options);
            let looking = start.elapsed();
            match found {
                Ok(Found::Index(indexed)) if indexed.changes.is_empty() => before = Changes::default(),
                // Files are saved one after the other: what changes still is left until it rests.
                Ok(Found::Index(indexed)) if indexed.changes != before => before = indexed.changes,
                // A failure to look is one to index as well, and told then.
                _ => self.index_once(settings, &mut told),
            }
            rest(looking);
        }
        Ok(())
    }

    /// Indexes what has changed. A failure that lasts is told once.
    fn index_once(&self, settings: &Settings, told: &mut String) {
        let start = SystemTime::now();
        let outcome =
            place::lock(&self.directory, &|| STOP.load(Ordering::Relaxed)).map(|lock| self.index(None, &lock));
        let message = match outcome.and_then(|outcome| self.tell(vec![(None, outcome)])) {
            Ok(None) => String::new(),
            Ok(Some(failure)) | Err(failure) => super::message(&failure.error),
        };
        if message.is_empty() {
            evict(self.store, settings.index.store_bytes, start);
        } else if message != *told {
            terminal::warning(&message);
        }
        *told = message;
    }
}

/// Waits before the files are looked at again: long enough that looking takes a fiftieth of the time.
fn rest(looking: Duration) {
    let until = std::time::Instant::now() + (50 * looking).clamp(LEAST_REST, MOST_REST);
    while std::time::Instant::now() < until && !STOP.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
    }
}

const LEAST_REST: Duration = Duration::from_millis(500);
const MOST_REST: Duration = Duration::from_secs(30);

/// Says what of a repository did not get into its index as it should.
pub fn warn(report: &Report) {
    if report.embedding.failed > 0 {
        let missing = terminal::counted(report.counts.windows - report.counts.vectors, "window");
        terminal::warning(&format!("{missing} without a vector, so the index is partial; the next run tries again"));
    }
}

/// What a target is called.
pub fn name_of(target: &Target) -> String {
    match target {
        Target::WorkTree => "the files on disk".to_owned(),
        Target::Commit(hash) => format!("commit {}", &hash[..hash.len().min(12)]),
    }
}

/// What is said of a run, line by line.
fn summary(id: &str, report: &Report) -> Vec<String> {
    let seconds = report.time.as_secs_f32();
    let of = format!(
        "{id}, {}: {} and {}",
        name_of(&report.target),
        terminal::counted(report.counts.files, "file"),
        terminal::counted(report.counts.functions, "function")
    );
    if !report.is_new {
        let told = format!("{of}, up to date ({seconds:.2} s)");
        return std::iter::once(told).chain(lack(&report.counts)).collect();
    }
    let ingest::Embedding { embedded, cached, .. } = report.embedding;
    let embedding = report.embedding_time.as_secs_f32();
    let rate = match embedded > 0 && embedding > 0.0 {
        true => {
            format!(", {:.1} windows/s", embedded as f32 / embedding)
        }
        false => String::new(),
    };
    let Changes { added, changed, removed } = &report.changes;
    let (added, changed, removed) = (added.len(), changed.len(), removed.len());
    [
        format!("{of} in {seconds:.1} s"),
        format!(
            "  {} added, {changed} changed, {removed} removed: {}",
            terminal::counted(added, "file"),
            terminal::counted(report.candidates, "new candidate")
        ),
        format!("  {} embedded, {cached} known{rate}", terminal::counted(embedded, "window")),
    ]
    .into_iter()
    .chain(lack(&report.counts))
    .collect()
}

/// What is said of an index that lacks vectors.
pub fn lack(counts: &Counts) -> Option<String> {
    let Counts { windows, vectors, .. } = counts;
    (!counts.is_complete())
        .then(|| format!("  {vectors} of {windows} windows have a vector; questions fill in what they compare"))
}
