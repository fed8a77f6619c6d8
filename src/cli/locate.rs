//! `sightline locate`: the files and functions an issue is about.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::files::{self, FileFlags};
use super::loaded::{Loaded, Pending};
use super::reading::{self, ReadIssue};
use super::searched::{Asked, Searched};
use super::terminal::{DIM, HEADING, NAME, PATH, PLAIN, Page, printable, shortened};
use super::{Failure, issue, json, model, one_of, place, progress, terminal};
use crate::config::{IndexVectors, Refresh, Settings};
use crate::retriever::ingest::model_run;
use crate::retriever::{Answer, Embedded, Filter, Granularity, Hit, Localizer, Question, Request, RetrieverKind};
use crate::service::evidence::Vce;
use crate::service::located;
use crate::types::{Level, Mode};

/// Rank the files and functions of a repository by how likely an issue is about them.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The repository: a working tree, or any git repository with --rev.
    #[arg(long, default_value = ".", value_name = "PATH")]
    repo: PathBuf,
    /// Read this revision of the git repository instead of the files on disk.
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    #[command(flatten)]
    files: FileFlags,
    /// The issue, a text or Markdown file whose first line is the title; - reads standard input.
    #[arg(long, value_name = "FILE")]
    issue: PathBuf,
    /// A picture that belongs to the issue; may be repeated. Pictures linked in the file are found by themselves.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Results in each list [default: 10].
    #[arg(short = 'k', long = "results", value_name = "N")]
    results: Option<NonZeroUsize>,
    /// What ranks: plain BM25, the encoder over every candidate (slow without an index), or all evidence [default: hybrid].
    #[arg(long, value_parser = one_of(RetrieverKind::ALL, RetrieverKind::name))]
    retriever: Option<RetrieverKind>,
    /// Which lists to print [default: both].
    #[arg(long, value_parser = one_of(Granularity::ALL, Granularity::name))]
    granularity: Option<Granularity>,
    /// Functions that hybrid compares by the encoder, the best of the lexical list; a quarter as many files. 0: no encoder [default: 100].
    #[arg(long, value_name = "N")]
    rerank: Option<usize>,
    /// What is read of pictures: nothing, what the encoder sees, the text in them and what it says (vce), or both [default: auto, as much
    /// as the model allows].
    #[arg(long, value_parser = one_of(Mode::ALL, Mode::name))]
    mode: Option<Mode>,
    #[command(flatten)]
    evidence: reading::Flags,
    #[command(flatten)]
    model: model::Flags,
    /// What to do with an index that is out of date: refresh it first if little has changed, always, or never [default: auto].
    #[arg(long, value_parser = one_of(Refresh::ALL, Refresh::name), num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    refresh: Option<Refresh>,
    /// Compare all vectors in full precision instead of searching them by 8-bit codes first.
    #[arg(long)]
    exact: bool,
    /// Show the parts of each score and the lines that matched.
    #[arg(long)]
    explain: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let start = Instant::now();
    let settings = &with_flags(arguments, settings)?;
    let request = request(arguments, settings)?;
    let issue = issue::read(&arguments.issue, &arguments.image, settings.images.max_bytes)?;
    let mode = arguments.mode.or(settings.locate.mode);
    let reader = reading::reader(settings)?;
    let asked = Asked { repository: &arguments.repo, revision: arguments.rev.as_deref(), settings };
    // Without an encoder there is nothing to keep.
    let data = if needs_encoder(&request) { settings.index.data_dir.as_path() } else { Path::new("") };
    let store = place::store_if_possible(data);
    let model = needs_encoder(&request).then(|| model::place(settings)).transpose()?;
    let read = LazyLock::new(|| ReadIssue::of(&issue.report, mode, &reader, settings));
    std::thread::scope(|scope| {
        // The pictures are read, and the encoder is loaded and reads the issue, while the index is opened and the words are ranked.
        let read = &read;
        scope.spawn(|| LazyLock::force(read));
        let load = |place| Pending::new(scope.spawn(move || Loaded::of(place, settings, || &read.report)));
        let pending = model.as_ref().map(load);
        let searched = asked.searched(asked.open()?, pending.as_ref(), &*store)?;
        let answer = {
            let bar = progress::Bar::new("embedding", "windows");
            let encoded = pending.as_ref().map(|it| || Ok(it.get()?.encoded()));
            let encoded = encoded.as_ref().map(|it| it as &dyn Fn() -> _);
            let localizer = Localizer::new(searched.corpus(), &*store, &settings.ranking);
            localizer
                .locate(Question { report: &read.report, encoded }, &request, &|done, total| bar.at(done, total))?
        };
        let loaded = pending.as_ref().map(Pending::get).transpose()?;
        let sees = loaded.is_some_and(|it| it.encoder.info().images > 0);
        let mode = mode.unwrap_or_else(|| Mode::of(true, sees));
        let query = loaded.map(|it| &it.query);
        let images = [read.pictures.uses(mode, query), unread(&issue)].concat();
        let evidence = read.pictures.told(&answer.pictures);
        let reading = (mode, evidence, read.time);
        let command = index_command(arguments, settings);
        let total = start.elapsed();
        let outcome = Outcome {
            searched: &searched,
            answer: &answer,
            request: &request,
            loaded,
            images,
            reading,
            command,
            total,
        };
        outcome.warn();
        if arguments.json {
            outcome.print_json(arguments.explain)?
        } else {
            outcome.print_text(arguments.explain)?
        }
        if let Some(loaded) = loaded.filter(|_| answer.embedded.unkept.is_none()) {
            asked.fill(&searched, loaded, &*store, answer.embedded.windows + answer.embedded.cached);
        }
        Ok(())
    })
}

/// The command that makes an index with all vectors for questions like this one.
fn index_command(arguments: &Arguments, settings: &Settings) -> String {
    let repository = arguments.repo.to_string_lossy();
    let mut words = vec!["sightline", "index", &repository];
    words.extend(arguments.rev.iter().flat_map(|it| ["--rev", it]));
    words.extend(files::words(settings));
    words.extend((settings.index.vectors != IndexVectors::All).then_some(["--vectors", "all"]).into_iter().flatten());
    model::command(&words, settings)
}

/// The settings with the flags that are one of them.
fn with_flags(arguments: &Arguments, settings: &Settings) -> Result<Settings, Failure> {
    let mut settings = settings.clone();
    settings.index.refresh = arguments.refresh.unwrap_or(settings.index.refresh);
    arguments.model.apply(&mut settings);
    arguments.evidence.apply(&mut settings);
    arguments.files.apply(&mut settings)?;
    Ok(settings)
}

/// What is asked for. A flag that would have no effect is refused; a setting of that kind may stand in a file.
fn request(arguments: &Arguments, settings: &Settings) -> Result<Request, Failure> {
    let request = Request {
        retriever: arguments.retriever.unwrap_or(settings.locate.retriever),
        granularity: arguments.granularity.unwrap_or(settings.locate.granularity),
        results: arguments.results.unwrap_or(settings.locate.results).get(),
        rerank: arguments.rerank.unwrap_or(settings.locate.rerank),
        exact: arguments.exact,
        filter: Filter::default(),
    };
    let name = request.retriever.name();
    if arguments.rerank.is_some() && request.retriever != RetrieverKind::Hybrid {
        return Err(Failure::usage(anyhow!(
            "--rerank has no effect on the retriever `{name}`: leave it out, or add --retriever hybrid"
        )));
    }
    if arguments.exact && request.retriever != RetrieverKind::Dense {
        return Err(Failure::usage(anyhow!(
            "--exact has no effect on the retriever `{name}`, which searches no vectors: leave it out, or add --retriever dense"
        )));
    }
    if let Some(flag) = arguments.model.given().filter(|_| !needs_encoder(&request)) {
        return Err(Failure::usage(anyhow!(
            "{flag} has no effect on the retriever `{name}` without an encoder: leave it out, or add --retriever dense"
        )));
    }
    Ok(request)
}

fn needs_encoder(request: &Request) -> bool {
    match request.retriever {
        RetrieverKind::Bm25 => false,
        RetrieverKind::Dense => true,
        RetrieverKind::Hybrid => request.rerank > 0,
    }
}

/// The pictures that are no part of the issue because they could not be had.
fn unread(issue: &issue::Issue) -> Vec<located::Image> {
    let unread = issue.unread_images.iter();
    unread.map(|(name, reason)| located::Image::unused(name, reason.clone(), None)).collect()
}

/// Everything that is told about an answer.
struct Outcome<'a> {
    searched: &'a Searched,
    answer: &'a Answer,
    request: &'a Request,
    loaded: Option<&'a Loaded>,
    images: Vec<located::Image>,
    /// By which mode pictures were read, what was found, and how long that took.
    reading: (Mode, Vec<Vce>, Duration),
    /// Makes an index for such questions.
    command: String,
    total: Duration,
}

impl Outcome<'_> {
    fn model(&self) -> Option<&str> {
        self.loaded.map(|it| it.model.id.as_str())
    }

    fn is_truncated(&self) -> bool {
        self.answer.query.is_some_and(|it| it.used < it.tokens)
    }

    /// Says on standard error what of the input did not count.
    fn warn(&self) {
        for image in self.images.iter().filter(|it| !it.used) {
            let reason = image.reason.as_deref().unwrap_or_default();
            terminal::warning(&format!("the picture `{}` is not used: {reason}", image.name));
        }
        let noted = self.searched.noted().chunk_by(|a, b| a == b).count();
        if noted > 0 {
            let files = if noted == 1 { "1 file was".to_owned() } else { format!("{noted} files were") };
            terminal::warning(&format!("{files} read with reservations; `sightline candidates` lists them"));
        }
        if self.searched.candidates().is_empty() {
            terminal::warning("the repository has no source files in a known language, so there is nothing to find");
        } else if self.answer.files.is_empty() && self.answer.functions.is_empty() {
            terminal::warning("no word of the issue stands in the repository; --retriever dense compares meanings");
        }
        self.warn_of_embedding();
        if let Some(reason) = &self.answer.embedded.unkept {
            terminal::warning(&format!("vectors are not kept: {reason}"));
        }
        if let Some(query) = self.answer.query.filter(|_| self.is_truncated()) {
            let rest = match self.request.retriever {
                RetrieverKind::Hybrid => "BM25 read all of it",
                RetrieverKind::Dense | RetrieverKind::Bm25 => {
                    "the rest does not count; --retriever hybrid reads all of it"
                }
            };
            terminal::warning(&format!(
                "the encoder read {} of the issue's {} tokens; {rest}",
                query.used, query.tokens
            ));
        }
    }

    /// Says what had to be embedded that an index would have had, and what failed.
    fn warn_of_embedding(&self) {
        let (Embedded { windows, failed, .. }, Some(loaded)) = (&self.answer.embedded, self.loaded) else { return };
        if *failed > 0 {
            let windows = terminal::counted(*failed, "window");
            terminal::warning(&format!("the encoder failed on {windows}, which were not compared"));
        }
        if *windows == 0 {
            return;
        }
        let (count, command) = (terminal::counted(*windows, "window"), &self.command);
        if let Some(other) = self.searched.other_model(&loaded.model) {
            let info = loaded.encoder.info();
            let own = model::described(&info.id, &model_run(info));
            terminal::warning(&format!(
                "the index has vectors of {other} and the question is of {own}, so {count} had to be embedded; `{command}` makes it one of that"
            ));
        }
    }

    fn print_json(&self, explain: bool) -> anyhow::Result<()> {
        let located = located::Located {
            files: located::file_hits(self.answer, explain),
            functions: located::function_hits(self.answer, explain),
            query: self.query(),
            index: self.index(),
            timings_ms: self.timings(),
        };
        let mut out = BufWriter::new(std::io::stdout().lock());
        json::write_pretty(&mut out, &located)?;
        Ok(out.flush()?)
    }

    fn query(&self) -> located::Query<'_> {
        located::Query {
            retriever: self.request.retriever.name(),
            mode: self.reading.0.name(),
            model: self.model(),
            policy: self.loaded.map(|it| it.encoder.info().policy.name()),
            tokens: self.answer.query.map(|it| it.tokens),
            tokens_used: self.answer.query.map(|it| it.used),
            image_tokens: self.loaded.map(|it| it.query.image_tokens),
            truncated: self.is_truncated(),
            images: &self.images,
            vce: &self.reading.1,
        }
    }

    fn timings(&self) -> located::Timings {
        let milliseconds = |time: Duration| time.as_millis() as u64;
        let times = self.searched.times;
        let of_encoder = |time: fn(&Loaded) -> Duration| self.loaded.map_or(0, |it| milliseconds(time(it)));
        located::Timings {
            snapshot: milliseconds(times.snapshot),
            refresh: milliseconds(times.refresh),
            index: milliseconds(times.index),
            evidence: milliseconds(self.reading.2),
            load: of_encoder(|it| it.load_time),
            query: of_encoder(|it| it.query_time),
            lexical: milliseconds(self.answer.lexical_time),
            encoder: milliseconds(self.answer.encoder_time),
            total: milliseconds(self.total),
        }
    }

    fn index(&self) -> located::Index<'_> {
        let changes = &self.searched.changes;
        located::Index {
            commit: self.searched.commit(),
            indexed: self.searched.is_indexed(),
            stale: !changes.is_empty(),
            stale_reason: None,
            changes: (!changes.is_empty()).then(|| located::Changed::of(changes)),
            files: self.searched.count(Level::File),
            functions: self.searched.count(Level::Function),
            skipped: self.searched.skipped(),
            notes: self.searched.noted().len(),
            windows: self.searched.counts().map(|it| it.windows),
            vectors: self.searched.counts().map(|it| it.vectors),
            compared_candidates: self.answer.embedded.candidates,
            embedded_windows: self.answer.embedded.windows,
            failed_windows: self.answer.embedded.failed,
            cached_windows: self.answer.embedded.cached,
        }
    }

    fn print_text(&self, explain: bool) -> anyhow::Result<()> {
        let mut page = terminal::output();
        for (heading, hits) in [("Files", &self.answer.files), ("Functions", &self.answer.functions)] {
            if !hits.is_empty() {
                print_list(&mut page, heading, hits, explain)?;
            }
        }
        page.flush()?;
        for vce in &self.reading.1 {
            terminal::remark(&format!("read of {}: {}", vce.name, vce.summary()));
        }
        terminal::remark(&self.summary());
        Ok(())
    }

    fn summary(&self) -> String {
        let (files, functions) = (self.searched.count(Level::File), self.searched.count(Level::Function));
        let compared = match self.model() {
            Some(model) => {
                format!("; {} compared by {model}", terminal::counted(self.answer.embedded.candidates, "candidate"))
            }
            None => String::new(),
        };
        let skipped = match self.searched.skipped() {
            0 => String::new(),
            count => format!("; {} skipped (`sightline candidates` lists them)", terminal::counted(count, "path")),
        };
        let from = if self.searched.is_indexed() { " of an index" } else { "" };
        let (files, functions) = (terminal::counted(files, "file"), terminal::counted(functions, "function"));
        format!("{files} and {functions}{from} in {:.2} s{compared}{skipped}", self.total.as_secs_f32())
    }
}

/// Characters of place and name for which the columns make room; a longer row is written as it is, and wraps.
const WIDEST_ROW: usize = 84;
/// Characters of a source line that are shown.
const LINE_WIDTH: usize = 80;

fn print_list(page: &mut Page<impl Write>, heading: &str, hits: &[Hit], explain: bool) -> io::Result<()> {
    let rows: Vec<Row> = hits.iter().map(Row::of).collect();
    let fitting = || rows.iter().filter(|it| it.fits());
    let place_width = fitting().map(|it| it.place.chars().count()).max().unwrap_or(0);
    let name_width = fitting().map(|it| it.name.chars().count()).max().unwrap_or(0);
    page.line(&[(HEADING, heading)])?;
    for (rank, (hit, row)) in (1..).zip(hits.iter().zip(&rows)) {
        let (rank, score) = (format!("{rank:>3}  "), format!("  {:6.3}", hit.score));
        let (place_width, name_width) = if row.fits() { (place_width, name_width) } else { (0, 0) };
        let place = format!("{:place_width$}", row.place);
        let name = if row.name.is_empty() { String::new() } else { format!("  {:name_width$}", row.name) };
        page.line(&[(PLAIN, &rank), (PATH, &place), (NAME, &name), (PLAIN, &score)])?;
        if explain {
            print_explanation(page, hit)?;
        }
    }
    page.line(&[])
}

/// What stands in the columns of a result, as it is printed.
struct Row<'a> {
    place: String,
    name: Cow<'a, str>,
}

impl<'a> Row<'a> {
    fn of(hit: &'a Hit) -> Self {
        let name = hit.candidate.name.as_deref().unwrap_or_default();
        Row { place: printable(&place(hit)).into_owned(), name: printable(name) }
    }

    fn fits(&self) -> bool {
        self.place.chars().count() + self.name.chars().count() <= WIDEST_ROW
    }
}

/// `path:line`, the line being the function's first or the file's best.
fn place(hit: &Hit) -> String {
    let line = match hit.candidate.level {
        Level::Function => hit.candidate.lines.start,
        Level::File => hit.lines.first().map_or(hit.candidate.lines.start, |it| it.line),
    };
    format!("{}:{line}", hit.candidate.path())
}

fn print_explanation(page: &mut Page<impl Write>, hit: &Hit) -> io::Result<()> {
    page.line(&[(DIM, &format!("     = {}", sum(hit)))])?;
    let terms: Vec<String> = located::terms(hit).iter().map(|(term, score)| format!("{term} {score:.1}")).collect();
    if !terms.is_empty() {
        page.line(&[(DIM, &format!("     terms: {}", terms.join(", ")))])?;
    }
    for line in &hit.lines {
        let text = printable(&line.text);
        page.line(&[(DIM, &format!("     {:>6} | ", line.line)), (PLAIN, &shortened(&text, LINE_WIDTH))])?;
    }
    Ok(())
}

/// The parts of a score: `lexical 0.912 + mention 0.300 - dense 0.100`.
fn sum(hit: &Hit) -> String {
    let parts = hit.parts;
    let context = match hit.candidate.level {
        Level::File => "functions",
        Level::Function => "file",
    };
    let all = [
        ("lexical", parts.lexical),
        ("mention", parts.mention),
        ("pictures", parts.visual),
        (context, parts.context),
        ("dense", parts.dense),
    ];
    let shown = all.iter().filter(|it| it.1 != 0.0).map(|(name, value)| {
        let sign = if *value < 0.0 { '-' } else { '+' };
        format!("{sign} {name} {:.3}", value.abs())
    });
    shown.collect::<Vec<_>>().join(" ").trim_start_matches("+ ").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::terminal::tests::{HOSTILE, check_harmless, written};
    use super::*;
    use crate::retriever::MatchedLine;
    use crate::retriever::ranker::Parts;
    use crate::types::{Candidate, Lines, Source, Text};

    #[test]
    fn no_text_of_a_repository_reaches_the_terminal_raw() {
        for hostile in 0..4 {
            let text = |at| if at == hostile { HOSTILE } else { "plain" };
            let source = Arc::new(Source::new(text(0), "Text", Text::new("")));
            let hit = Hit {
                candidate: Candidate::function(source, text(1), 0..0, Lines { start: 1, end: 1 }),
                score: 1.0,
                parts: Parts { lexical: 1.0, ..Parts::default() },
                terms: vec![(text(2).to_owned(), 1.0)],
                lines: vec![MatchedLine { line: 1, text: text(3).to_owned() }],
            };
            check_harmless(|page| print_list(page, "Functions", &[hit], true));
        }
    }

    #[test]
    fn a_long_row_leaves_the_columns_of_the_others_alone() {
        let hit = |path: &str, name: &str| Hit {
            candidate: Candidate::function(
                Arc::new(Source::new(path, "Text", Text::new(""))),
                name,
                0..0,
                Lines { start: 1, end: 1 },
            ),
            score: 1.0,
            parts: Parts::default(),
            terms: Vec::new(),
            lines: Vec::new(),
        };
        let long = "x".repeat(90);
        let hits = [hit("a.c", "f"), hit(&long, "g"), hit("bb.c", "long_name"), hit("a.c", &long)];
        let expected = format!(
            "Functions\n  1  a.c:1   f           1.000\n  2  {long}:1  g   1.000\n  3  bb.c:1  long_name   1.000\n  4  a.c:1  {long}   1.000\n\n"
        );
        assert_eq!(written(|page| print_list(page, "Functions", &hits, false)), expected);
    }

    #[test]
    fn terms_that_had_no_part_in_a_score_are_not_shown() {
        let hit = Hit {
            candidate: Candidate::file(Arc::new(Source::new("a.c", "C", Text::new("")))),
            score: 1.0,
            parts: Parts { dense: 1.0, ..Parts::default() },
            terms: vec![("word".to_owned(), 1.0)],
            lines: Vec::new(),
        };
        assert!(located::terms(&hit).is_empty());
        let parts = Parts { lexical: 0.5, ..hit.parts };
        assert_eq!(located::terms(&Hit { parts, ..hit }), [("word".to_owned(), 1.0)]);
    }
}
