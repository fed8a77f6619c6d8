//! F7: the command line: flags to requests, answers to text or JSON, failures to exit codes.
//!
//! Exit codes: 0 done, 1 failed, 2 the command line, the settings or the issue can't be used.

mod cache;
mod candidates;
mod config_command;
mod doctor;
mod embed;
mod evidence;
mod export;
mod files;
mod generate;
mod index;
mod issue;
mod json;
mod loaded;
mod locate;
mod markdown;
mod mcp;
mod model;
mod place;
mod progress;
mod pull;
mod quantize;
mod reading;
mod searched;
mod serve;
mod server_flags;
mod service;
mod status;
mod terminal;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};

use crate::config::{self, Flag, Settings};
use crate::encoder::EncoderError;
use crate::retriever::RetrieverError;
use crate::retriever::ingest::IngestError;
use crate::snapshot::{self, Snapshot};

/// Finds the code an issue is about: a repository and an issue go in, ranked files and functions come out.
#[derive(Debug, Parser)]
#[command(name = "sightline", version, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    /// A TOML file with settings; `configs/default.toml` of the source lists them.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where indexes and vectors are kept [default: sightline in the user's data directory].
    #[arg(long, global = true, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Locate(locate::Arguments),
    Candidates(candidates::Arguments),
    Index(index::Arguments),
    Status(status::Arguments),
    Cache(cache::Arguments),
    Pull(pull::Arguments),
    Embed(embed::Arguments),
    Evidence(evidence::Arguments),
    Doctor(doctor::Arguments),
    Quantize(quantize::Arguments),
    Serve(serve::Arguments),
    Mcp(mcp::Arguments),
    Config(config_command::Arguments),
    Completions(generate::CompletionArguments),
    Man(generate::ManArguments),
}

impl Cli {
    /// The flags that are settings. Those of other commands are put in by the commands.
    fn flags(&self) -> Vec<Flag> {
        let folder = self.data_dir.as_ref().map(|it| it.to_string_lossy().into_owned());
        let data_dir = folder.map(|it| Flag { key: "index.data_dir", name: "--data-dir", value: it.into() });
        let of_command = match &self.command {
            Command::Config(arguments) => arguments.flags(),
            Command::Serve(arguments) => arguments.flags(),
            Command::Mcp(arguments) => arguments.flags(),
            _ => Vec::new(),
        };
        data_dir.into_iter().chain(of_command).collect()
    }
}

/// A failure with the exit code it gives.
#[derive(Debug)]
struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    /// What was asked can't be used as it is: exit code 2.
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Failure { code: 2, error: error.into() }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        match unfit_setting(&error) {
            Some(option) => Failure::usage(error.context(format!("the setting `model.{option}` can't be used"))),
            None => Failure { code: 1, error },
        }
    }
}

/// The setting of the model that a failure is about: that is the user's, as a flag is.
fn unfit_setting(error: &anyhow::Error) -> Option<&'static str> {
    let encoder = match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(error), _, _) => error,
        (_, Some(RetrieverError::Encoder(error)), _) | (_, _, Some(IngestError::Encoder(error))) => error,
        _ => return None,
    };
    match encoder {
        EncoderError::Unfit { option, .. } => Some(option),
        _ => None,
    }
}

/// Runs the program on its command line.
pub fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough (`| head`).
        Err(failure) if is_broken_pipe(&failure.error) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::error(&message(&failure.error));
            ExitCode::from(failure.code)
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let loaded = config::load(cli.config.as_deref(), &cli.flags()).map_err(Failure::usage)?;
    let settings = &loaded.settings;
    match cli.command {
        Command::Locate(arguments) => locate::run(&arguments, settings),
        Command::Candidates(arguments) => candidates::run(&arguments, settings),
        Command::Index(arguments) => index::run(&arguments, settings),
        Command::Status(arguments) => status::run(&arguments, settings),
        Command::Cache(arguments) => cache::run(&arguments, settings),
        Command::Pull(arguments) => pull::run(&arguments, settings),
        Command::Embed(arguments) => embed::run(&arguments, settings),
        Command::Evidence(arguments) => evidence::run(&arguments, settings),
        Command::Doctor(arguments) => doctor::run(&arguments, settings),
        Command::Quantize(arguments) => quantize::run(&arguments, settings),
        Command::Serve(_) => serve::run(settings),
        Command::Mcp(_) => mcp::run(settings),
        Command::Config(arguments) => config_command::run(&arguments, &loaded),
        Command::Completions(arguments) => generate::completions(&arguments),
        Command::Man(arguments) => generate::man(&arguments),
    }
}

/// Parses one of `values` by its name; the help lists the names.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.map(name)).map(move |wanted| {
        let known = values.iter().copied().find(|it| name(*it) == wanted);
        known.unwrap_or(values[0])
    })
}

/// An error with its causes, each once: some errors of the library say their cause themselves, those of `anyhow` don't.
fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|it| it.downcast_ref::<io::Error>()).any(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

/// Reads the repository that a command was given, with progress on a terminal.
fn read_repository(root: &Path, revision: Option<&str>, settings: &Settings) -> Result<Snapshot, Failure> {
    let options = files::options(settings);
    let bar = progress::Bar::new("reading", "files");
    snapshot::read(root, revision, &options, &|done, total| bar.at(done, total)).map_err(Failure::from)
}
