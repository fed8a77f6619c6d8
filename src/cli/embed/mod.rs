//! `sightline embed`: rows of texts and pictures in, rows of vectors out.

mod rows;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow};
use serde_json::value::RawValue;

use super::{Failure, json, model, progress, terminal};
use crate::config::Settings;
use crate::encoder::{Encoder, EncoderError, Input, InputEmbedding};
use crate::retriever::ingest::model_run;
use rows::{Row, RowError};

/// Embed texts and pictures: a line of JSON in, a line of JSON with the vector out, in order.
///
/// A line is {"id": ..., "text": ..., "images": ["a.png", ...], "instruction": ..., "max_length": ..., "min_pixels": ..., "max_pixels": ...},
/// all but the id may be missing. Pictures are found from the folder of the file, or from the current one where the rows come from standard
/// input. A line that can't be used gives {"id": ..., "error": {"code": ..., "message": ...}}, and exit code 1 at the end.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: model::Flags,
    /// The rows, a file with a line of JSON for each; - reads standard input.
    #[arg(long, value_name = "FILE")]
    inputs: PathBuf,
    /// Keep the first so many numbers of each vector, for models that are trained for it [default: all].
    #[arg(long, value_name = "D")]
    dimensions: Option<usize>,
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let settings = &with_flags(arguments, settings);
    let mut source = Source::open(&arguments.inputs).map_err(Failure::usage)?;
    let encoder = model::load(&model::place(settings)?, settings)?;
    let start = Instant::now();
    let mut run = Run {
        encoder: &*encoder,
        folder: source.folder.clone(),
        max_bytes: settings.images.max_bytes,
        // Lines on a terminal and a bar there would be in each other's way.
        bar: source
            .length
            .filter(|_| !io::stdout().is_terminal())
            .map(|length| (progress::Bar::new("embedding", "bytes"), length)),
        out: BufWriter::new(io::stdout().lock()),
        told: Told::default(),
    };
    while run.group(&mut source)? {}
    let Run { told, bar, .. } = run;
    drop(bar);
    let (info, seconds) = (encoder.info(), start.elapsed().as_secs_f64());
    let by = model::described(&info.id, &model_run(info));
    terminal::remark(&format!("{} by {by}", told.summary(seconds)));
    match told.failed {
        0 => Ok(()),
        failed => {
            let rows = terminal::counted(told.rows(), "row");
            Err(anyhow!("{failed} of {rows} failed; the line of each says why").into())
        }
    }
}

fn with_flags(arguments: &Arguments, settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    arguments.model.apply(&mut settings);
    settings.model.dimensions = arguments.dimensions.unwrap_or(settings.model.dimensions);
    settings
}

/// Where rows come from.
struct Source {
    lines: BufReader<Box<dyn Read>>,
    /// What pictures are found from.
    folder: PathBuf,
    /// Bytes of all rows, where it is known.
    length: Option<u64>,
    /// The number of the line that was read last.
    line: usize,
    read: u64,
}

/// A line of more bytes is no row.
const MOST_LINE: u64 = 64 << 20;

impl Source {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let is_standard = path == Path::new("-");
        let (input, length): (Box<dyn Read>, _) = if is_standard {
            (Box::new(io::stdin()), None)
        } else {
            let unreadable = || {
                format!("the rows `{}` can't be read: name a readable file, or - for standard input", path.display())
            };
            let file = File::open(path).with_context(unreadable)?;
            let metadata = file.metadata().with_context(unreadable)?;
            anyhow::ensure!(!metadata.is_dir(), "`{}` is a folder: name a file of rows", path.display());
            (Box::new(file), metadata.is_file().then_some(metadata.len()))
        };
        let folder = path.parent().filter(|_| !is_standard).unwrap_or(Path::new("")).to_owned();
        Ok(Source { lines: BufReader::with_capacity(1 << 16, input), folder, length, line: 0, read: 0 })
    }

    /// The next line that holds something, `Err` with its number if it is too long to be held; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Result<Vec<u8>, RowError>>> {
        loop {
            let mut line = Vec::new();
            let count = self.lines.by_ref().take(MOST_LINE).read_until(b'\n', &mut line)?;
            if count == 0 {
                return Ok(None);
            }
            (self.line, self.read) = (self.line + 1, self.read + count as u64);
            if count as u64 == MOST_LINE && line.last() != Some(&b'\n') {
                self.read += self.lines.skip_until(b'\n')? as u64;
                return Ok(Some(Err(RowError::too_long(MOST_LINE))));
            }
            let content = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.line == 1).unwrap_or(&line);
            if !content.trim_ascii().is_empty() {
                return Ok(Some(Ok(content.trim_ascii().to_vec())));
            }
        }
    }

    /// Whether reading on could mean waiting.
    fn is_drained(&self) -> bool {
        self.length.is_none() && self.lines.buffer().is_empty()
    }
}

/// What was done.
#[derive(Default)]
struct Told {
    embedded: usize,
    failed: usize,
    truncated: usize,
    tokens: usize,
}

impl Told {
    fn rows(&self) -> usize {
        self.embedded + self.failed
    }

    fn count(&mut self, it: &InputEmbedding) {
        self.embedded += 1;
        self.tokens += it.tokens;
        self.truncated += usize::from(it.truncated_from.is_some());
    }

    fn summary(&self, seconds: f64) -> String {
        let Told { embedded, truncated, tokens, .. } = self;
        let cut = if *truncated > 0 { format!(", {truncated} of them cut to the limit") } else { String::new() };
        format!(
            "{} embedded{cut}: {} in {seconds:.1} s, {:.0} tokens/s",
            terminal::counted(*embedded, "row"),
            terminal::counted(*tokens, "token"),
            *tokens as f64 / seconds.max(1e-3)
        )
    }
}

struct Run<'a, W: Write> {
    encoder: &'a dyn Encoder,
    folder: PathBuf,
    /// Of a picture.
    max_bytes: u64,
    bar: Option<(progress::Bar, u64)>,
    out: BufWriter<W>,
    told: Told,
}

/// Rows that are held and embedded at once: what is waited for before the first vector comes, and what batches are made of.
const MOST_ROWS: usize = 128;
/// The same by bytes. Pictures are most of memory, and texts most of the time.
const MOST_BYTES: usize = 4 << 20;
const BYTES_OF_TEXT: usize = 16;

/// A row with its id, and its input unless it is none or could not be read. The inputs stand in a list of their own.
type Gathered = (Option<Box<RawValue>>, Result<(), RowError>);

impl<W: Write> Run<'_, W> {
    /// Reads, embeds and writes some rows; gives whether there may be more.
    fn group(&mut self, source: &mut Source) -> anyhow::Result<bool> {
        let start = source.read;
        let (rows, inputs, is_end) = self.gather(source)?;
        let mut embedded = self.embed(&inputs, start..source.read).into_iter();
        for (id, input) in rows {
            let id = id.as_deref();
            let row = match input.map(|()| embedded.next()) {
                Err(error) => json::EmbeddedRow::failed(id, error.code, error.message),
                Ok(Some(Ok(it))) if it.vector.iter().all(|it| it.is_finite()) => {
                    self.told.count(&it);
                    json::EmbeddedRow::of(id, it)
                }
                Ok(Some(Err(error))) => json::EmbeddedRow::failed(id, error.code(), error.to_string()),
                Ok(Some(Ok(_)) | None) => {
                    let message = "its vector has values that are not finite; `sightline doctor` checks the model";
                    json::EmbeddedRow::failed(id, "not_finite", message.to_owned())
                }
            };
            self.told.failed += usize::from(matches!(row, json::EmbeddedRow::Failed { .. }));
            json::write_line(&mut self.out, &row)?;
        }
        self.out.flush()?;
        Ok(!is_end)
    }

    /// Reads rows until they are enough, or until more would have to be waited for; and whether they were the last.
    fn gather(&self, source: &mut Source) -> anyhow::Result<(Vec<Gathered>, Vec<Input>, bool)> {
        let (mut rows, mut inputs, mut cost) = (Vec::new(), Vec::new(), 0);
        while rows.len() < MOST_ROWS && cost < MOST_BYTES && (rows.is_empty() || !source.is_drained()) {
            let line = source.next().context("the rows can't be read to their end; see to the disk or the pipe")?;
            let Some(line) = line else { return Ok((rows, inputs, true)) };
            let (id, input) = match line.map_err(|it| (None, it)).and_then(|it| Row::parse(&it)) {
                Ok(row) => (Some(row.id.clone()), row.input(&self.folder, self.max_bytes)),
                // One that can't be known by its id is by its line.
                Err((None, error)) => (None, Err(error.at(source.line))),
                Err((id, error)) => (id, Err(error)),
            };
            cost += input.as_ref().map_or(0, size);
            rows.push((id, input.map(|input| inputs.push(input))));
        }
        Ok((rows, inputs, false))
    }

    fn embed(&self, inputs: &[Input], bytes: Range<u64>) -> Vec<Result<InputEmbedding, EncoderError>> {
        let bar = &self.bar;
        let at = |done: usize, total: usize| {
            if let Some((bar, length)) = bar {
                let here = (bytes.end - bytes.start) as usize * done / total.max(1);
                bar.at(bytes.start as usize + here, *length as usize);
            }
        };
        at(0, 1);
        if inputs.is_empty() { Vec::new() } else { self.encoder.embed_inputs(inputs, &at) }
    }
}

fn size(input: &Input) -> usize {
    let texts = [&input.text, &input.instruction].into_iter().flatten().map(String::len).sum::<usize>();
    texts * BYTES_OF_TEXT + input.images.iter().map(|it| it.bytes.len()).sum::<usize>()
}
