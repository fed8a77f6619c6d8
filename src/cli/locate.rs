//! `sightline locate`: the files and functions an issue is about.

use std::io::{BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::terminal::{DIM, HEADING, NAME, PATH, printable, shortened};
use super::{Failure, issue, json, progress, read_repository, terminal};
use crate::config::Settings;
use crate::encoder::{self, Encoder};
use crate::imaging;
use crate::retriever::{Answer, Granularity, Hit, Localizer, Request, RetrieverKind};
use crate::snapshot::Snapshot;
use crate::types::{IssueImage, Level};

/// Rank the files and functions of a repository by how likely an issue is about them.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The repository: a working tree, or any git repository with --rev.
    #[arg(long, default_value = ".", value_name = "PATH")]
    repo: PathBuf,
    /// Read this revision of the git repository instead of the files on disk.
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    /// The issue, a text or Markdown file whose first line is the title; - reads standard input.
    #[arg(long, value_name = "FILE")]
    issue: PathBuf,
    /// A picture that belongs to the issue; may be repeated. Pictures linked in the file are found by themselves.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Results in each list [default: 10].
    #[arg(short = 'k', long = "results", value_name = "N")]
    results: Option<NonZeroUsize>,
    /// What ranks: plain BM25, the encoder over every candidate (slow), or all evidence [default: hybrid].
    #[arg(long, value_parser = one_of(RetrieverKind::ALL, RetrieverKind::name))]
    retriever: Option<RetrieverKind>,
    /// Which lists to print [default: both].
    #[arg(long, value_parser = one_of(Granularity::ALL, Granularity::name))]
    granularity: Option<Granularity>,
    /// Functions that hybrid embeds, the best of the lexical list; a quarter as many files. 0: no encoder [default: 100].
    #[arg(long, value_name = "N")]
    rerank: Option<usize>,
    /// A folder with a model (config.json, tokenizer.json, model.safetensors) instead of the one in the program.
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// Show the parts of each score and the lines that matched.
    #[arg(long)]
    explain: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Parses one of `values` by its name; the help lists the names.
fn one_of<T: Copy + Send + Sync + 'static>(
    values: [T; 3],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.map(name)).map(move |wanted| {
        let known = values.iter().copied().find(|it| name(*it) == wanted);
        known.unwrap_or(values[0])
    })
}

/// Pictures that an encoder takes.
const MOST_IMAGES: usize = 2;

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let start = Instant::now();
    let request = request(arguments, settings);
    let issue = issue::read(&arguments.issue, &arguments.image)?;
    let images = images(&issue, settings);
    let snapshot = read_repository(&arguments.repo, arguments.rev.as_deref(), settings)?;
    let snapshot_time = start.elapsed();

    let load_start = Instant::now();
    let load = || arguments.model.as_deref().map_or_else(encoder::bundled, encoder::load);
    let encoder = needs_encoder(&request).then(load).transpose()?;
    let load_time = load_start.elapsed();

    let index_start = Instant::now();
    let localizer = Localizer::new(&snapshot, encoder.as_ref().map(|it| it as &dyn Encoder), &settings.ranking);
    let index_time = index_start.elapsed();
    let bar = progress::Bar::new("embedding", "windows");
    let answer = localizer.locate(&issue.report, &request, &|done, total| bar.at(done, total))?;
    drop(bar);

    let model = encoder.as_ref().map(|it| it.info().id.as_str());
    let times = Times { snapshot: snapshot_time, load: load_time, index: index_time, total: start.elapsed() };
    let outcome = Outcome { snapshot: &snapshot, answer: &answer, request: &request, model, images, times };
    outcome.warn();
    if arguments.json {
        outcome.print_json(arguments.explain)?
    } else {
        outcome.print_text(arguments.explain)?
    }
    Ok(())
}

fn request(arguments: &Arguments, settings: &Settings) -> Request {
    Request {
        retriever: arguments.retriever.unwrap_or(settings.locate.retriever),
        granularity: arguments.granularity.unwrap_or(settings.locate.granularity),
        results: arguments.results.unwrap_or(settings.locate.results).get(),
        rerank: arguments.rerank.unwrap_or(settings.locate.rerank),
    }
}

fn needs_encoder(request: &Request) -> bool {
    match request.retriever {
        RetrieverKind::Bm25 => false,
        RetrieverKind::Dense => true,
        RetrieverKind::Hybrid => request.rerank > 0,
    }
}

/// What becomes of each picture: decoded within the limits, and said to be unused by an encoder that reads text.
fn images(issue: &issue::Issue, settings: &Settings) -> Vec<json::Image> {
    let read = issue.report.images.iter().enumerate().map(|(at, image)| inspected(image, at, &settings.images));
    let missing = issue.missing_images.iter().map(|(name, reason)| unused(name, reason.clone(), None));
    read.chain(missing).collect()
}

fn inspected(image: &IssueImage, at: usize, limits: &imaging::Limits) -> json::Image {
    match imaging::decode(&image.bytes, limits) {
        Err(error) => unused(&image.name, error.to_string(), None),
        Ok(picture) => {
            let reason = if at < MOST_IMAGES {
                "the bundled encoder reads text only".to_owned()
            } else {
                format!("only the first {MOST_IMAGES} pictures of an issue are read")
            };
            unused(&image.name, reason, Some((picture.width(), picture.height())))
        }
    }
}

fn unused(name: &str, reason: String, size: Option<(u32, u32)>) -> json::Image {
    let (width, height) = size.unzip();
    json::Image { name: name.to_owned(), used: false, reason: Some(reason), width, height }
}

struct Times {
    snapshot: Duration,
    load: Duration,
    index: Duration,
    total: Duration,
}

/// Everything that is told about an answer.
struct Outcome<'a> {
    snapshot: &'a Snapshot,
    answer: &'a Answer,
    request: &'a Request,
    model: Option<&'a str>,
    images: Vec<json::Image>,
    times: Times,
}

impl Outcome<'_> {
    fn count(&self, level: Level) -> usize {
        self.snapshot.candidates.iter().filter(|it| it.level == level).count()
    }

    fn is_truncated(&self) -> bool {
        self.answer.query.is_some_and(|it| it.used < it.tokens)
    }

    /// Says on standard error what of the input did not count.
    fn warn(&self) {
        for image in self.images.iter().filter(|it| !it.used) {
            terminal::warning(&format!(
                "the picture `{}` is not used: {}",
                image.name,
                image.reason.as_deref().unwrap_or_default()
            ));
        }
        if self.snapshot.candidates.is_empty() {
            terminal::warning("the repository has no source files in a known language, so there is nothing to find");
        }
        if !self.snapshot.candidates.is_empty() && self.answer.files.is_empty() && self.answer.functions.is_empty() {
            terminal::warning("no word of the issue stands in the repository; --retriever dense compares meanings");
        }
        if let Some(query) = self.answer.query.filter(|_| self.is_truncated()) {
            terminal::warning(&format!(
                "the encoder read {} of the issue's {} tokens; BM25 read all of it",
                query.used, query.tokens
            ));
        }
    }

    fn print_json(&self, explain: bool) -> anyhow::Result<()> {
        let milliseconds = |time: Duration| time.as_millis() as u64;
        let located = json::Located {
            files: json::file_hits(self.answer, explain),
            functions: json::function_hits(self.answer, explain),
            query: json::Query {
                retriever: self.request.retriever.name(),
                mode: "text",
                model: self.model,
                tokens: self.answer.query.map(|it| it.tokens),
                tokens_used: self.answer.query.map(|it| it.used),
                truncated: self.is_truncated(),
                images: &self.images,
            },
            index: json::Index {
                commit: self.snapshot.commit.as_deref(),
                stale: false,
                files: self.count(Level::File),
                functions: self.count(Level::Function),
                skipped: self.snapshot.skipped.len(),
                embedded_candidates: self.answer.embedded.candidates,
                embedded_windows: self.answer.embedded.windows,
            },
            timings_ms: json::Timings {
                snapshot: milliseconds(self.times.snapshot),
                load: milliseconds(self.times.load),
                index: milliseconds(self.times.index),
                lexical: milliseconds(self.answer.lexical_time),
                encoder: milliseconds(self.answer.encoder_time),
                total: milliseconds(self.times.total),
            },
        };
        let mut out = BufWriter::new(std::io::stdout().lock());
        serde_json::to_writer_pretty(&mut out, &located).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    fn print_text(&self, explain: bool) -> anyhow::Result<()> {
        let mut out = BufWriter::new(anstream::stdout().lock());
        for (heading, hits) in [("Files", &self.answer.files), ("Functions", &self.answer.functions)] {
            if !hits.is_empty() {
                print_list(&mut out, heading, hits, explain)?;
            }
        }
        out.flush()?;
        terminal::remark(&self.summary());
        Ok(())
    }

    fn summary(&self) -> String {
        let (files, functions) = (self.count(Level::File), self.count(Level::Function));
        let embedded = match self.model {
            Some(model) => format!("; {} candidates embedded by {model}", self.answer.embedded.candidates),
            None => String::new(),
        };
        let skipped = match self.snapshot.skipped.len() {
            0 => String::new(),
            count => format!("; {count} paths skipped (`sightline candidates` lists them)"),
        };
        format!("{files} files and {functions} functions in {:.1} s{embedded}{skipped}", self.times.total.as_secs_f32())
    }
}

/// Widest place or name that the columns make room for; longer ones push the rest of their row.
const WIDEST_COLUMN: usize = 64;
/// Characters of a source line that are shown.
const LINE_WIDTH: usize = 100;

fn print_list(out: &mut impl Write, heading: &str, hits: &[Hit], explain: bool) -> std::io::Result<()> {
    let rows: Vec<(String, String)> =
        hits.iter().map(|hit| (place(hit), hit.candidate.name.as_deref().unwrap_or_default().to_owned())).collect();
    let width = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|it| it.chars().count()).filter(|it| *it <= WIDEST_COLUMN).max().unwrap_or(0)
    };
    let (places, names) = (width(&mut rows.iter().map(|it| &it.0)), width(&mut rows.iter().map(|it| &it.1)));
    writeln!(out, "{HEADING}{heading}{HEADING:#}")?;
    for (rank, (hit, (place, name))) in hits.iter().zip(&rows).enumerate() {
        write!(out, "{:>3}  {PATH}{:places$}{PATH:#}  ", rank + 1, printable(place))?;
        if !name.is_empty() {
            write!(out, "{NAME}{:names$}{NAME:#}  ", printable(name))?;
        }
        writeln!(out, "{:6.3}", hit.score)?;
        if explain {
            print_explanation(out, hit)?;
        }
    }
    writeln!(out)
}

/// `path:line`, the line being the function's first or the file's best.
fn place(hit: &Hit) -> String {
    let line = match hit.candidate.level {
        Level::Function => hit.candidate.lines.start,
        Level::File => hit.lines.first().map_or(hit.candidate.lines.start, |it| it.line),
    };
    format!("{}:{line}", hit.candidate.path())
}

fn print_explanation(out: &mut impl Write, hit: &Hit) -> std::io::Result<()> {
    let parts = hit.parts;
    let context = match hit.candidate.level {
        Level::File => "functions",
        Level::Function => "file",
    };
    let all =
        [("lexical", parts.lexical), ("mention", parts.mention), (context, parts.context), ("dense", parts.dense)];
    let shown = all.iter().filter(|it| it.1 != 0.0).map(|(name, value)| {
        let sign = if *value < 0.0 { '-' } else { '+' };
        format!("{sign} {name} {:.3}", value.abs())
    });
    let sum = shown.collect::<Vec<_>>().join(" ");
    writeln!(out, "     {DIM}= {}{DIM:#}", sum.trim_start_matches("+ "))?;
    if !hit.terms.is_empty() {
        let terms: Vec<String> =
            hit.terms.iter().map(|(term, score)| format!("{} {score:.1}", printable(term))).collect();
        writeln!(out, "     {DIM}terms: {}{DIM:#}", terms.join(", "))?;
    }
    for line in &hit.lines {
        writeln!(out, "     {DIM}{:>6} |{DIM:#} {}", line.line, shortened(&printable(&line.text), LINE_WIDTH))?;
    }
    Ok(())
}
