//! `sightline candidates`: what would be embedded, and what would not.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::terminal::{DIM, NAME, PATH, printable};
use super::{Failure, json, read_repository, terminal};
use crate::config::Settings;
use crate::snapshot::Snapshot;
use crate::types::Level;

/// List the files and functions of a repository that can be found, and the files that were skipped.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The repository: a working tree, or any git repository with --rev.
    #[arg(default_value = ".", value_name = "PATH")]
    repository: PathBuf,
    /// Read this revision of the git repository instead of the files on disk.
    #[arg(long, value_name = "REV")]
    rev: Option<String>,
    /// Print JSON lines: {kind: file|function|skipped|note, ...}.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let snapshot = read_repository(&arguments.repository, arguments.rev.as_deref(), settings)?;
    if arguments.json {
        print_json(&snapshot)?
    } else {
        print_text(&snapshot)?
    }
    Ok(())
}

fn print_json(snapshot: &Snapshot) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let candidates = snapshot.candidates.iter().map(json::CandidateLine::candidate);
    let skipped = snapshot.skipped.iter().map(json::CandidateLine::skipped);
    let notes = snapshot.notes.iter().map(json::CandidateLine::note);
    for line in candidates.chain(skipped).chain(notes) {
        serde_json::to_writer(&mut out, &line).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn print_text(snapshot: &Snapshot) -> anyhow::Result<()> {
    let mut out = BufWriter::new(anstream::stdout().lock());
    for candidate in &snapshot.candidates {
        let path = printable(candidate.path());
        match &candidate.name {
            None => writeln!(out, "{PATH}{path}{PATH:#}  {DIM}{}{DIM:#}", candidate.source.language)?,
            Some(name) => {
                let lines = candidate.lines;
                writeln!(
                    out,
                    "  {path}:{}  {NAME}{}{NAME:#}  {DIM}to {}{DIM:#}",
                    lines.start,
                    printable(name),
                    lines.end
                )?;
            }
        }
    }
    for skipped in &snapshot.skipped {
        writeln!(out, "{DIM}skipped {}: {}{DIM:#}", printable(&skipped.path), skipped.reason)?;
    }
    for note in &snapshot.notes {
        writeln!(out, "{DIM}note on {}: {}{DIM:#}", printable(&note.path), printable(&note.message))?;
    }
    out.flush()?;
    let files = snapshot.candidates.iter().filter(|it| it.level == Level::File).count();
    let functions = snapshot.candidates.len() - files;
    terminal::remark(&format!("{files} files, {functions} functions, {} skipped", snapshot.skipped.len()));
    Ok(())
}
