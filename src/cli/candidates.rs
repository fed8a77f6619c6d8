//! `sightline candidates`: what would be embedded, and what would not.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use super::files::FileFlags;
use super::terminal::{DIM, NAME, PATH, PLAIN, Page};
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
    #[command(flatten)]
    files: FileFlags,
    /// Print JSON lines: {kind: file|function|skipped|note, ...}.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    let mut settings = settings.clone();
    arguments.files.apply(&mut settings)?;
    let snapshot = read_repository(&arguments.repository, arguments.rev.as_deref(), &settings)?;
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
        json::write_line(&mut out, &line)?;
    }
    Ok(out.flush()?)
}

fn print_text(snapshot: &Snapshot) -> anyhow::Result<()> {
    let mut page = terminal::output();
    list(&mut page, snapshot)?;
    page.flush()?;
    let files = snapshot.candidates.iter().filter(|it| it.level == Level::File).count();
    let functions = snapshot.candidates.len() - files;
    let (files, functions) = (terminal::counted(files, "file"), terminal::counted(functions, "function"));
    terminal::remark(&format!("{files}, {functions}, {} skipped", snapshot.skipped.len()));
    Ok(())
}

fn list(page: &mut Page<impl Write>, snapshot: &Snapshot) -> io::Result<()> {
    for candidate in &snapshot.candidates {
        let (path, lines) = (candidate.path(), candidate.lines);
        match &candidate.name {
            None => page.line(&[(PATH, path), (PLAIN, "  "), (DIM, &candidate.source.language)])?,
            Some(name) => {
                let (place, end) = (format!("  {path}:{}  ", lines.start), format!("to {}", lines.end));
                page.line(&[(PLAIN, &place), (NAME, name), (PLAIN, "  "), (DIM, &end)])?;
            }
        }
    }
    for skipped in &snapshot.skipped {
        page.line(&[(DIM, &format!("skipped {}: {}", skipped.path, skipped.reason))])?;
    }
    for note in &snapshot.notes {
        page.line(&[(DIM, &format!("note on {}: {}", note.path, note.message))])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::terminal::tests::{HOSTILE, check_harmless};
    use super::*;
    use crate::snapshot::{Note, SkipReason, Skipped};
    use crate::types::{Candidate, Lines, Source, Text};

    #[test]
    fn no_text_of_a_repository_reaches_the_terminal_raw() {
        let named = |path: &str, name: &str| {
            Candidate::function(
                Arc::new(Source::new(path, "Text", Text::new(""))),
                name,
                0..0,
                Lines { start: 1, end: 1 },
            )
        };
        let skip = |path: &str, marker: &str| Skipped {
            path: path.into(),
            reason: SkipReason::Generated { marker: marker.into() },
        };
        let note = |path: &str, message: &str| Note { path: path.into(), message: message.into() };
        let only = |snapshot: Snapshot| check_harmless(|page| list(page, &snapshot));
        let candidates = |it| Snapshot { candidates: vec![it], ..Snapshot::default() };
        only(candidates(Candidate::file(Arc::new(Source::new(HOSTILE, "Text", Text::new(""))))));
        only(candidates(named(HOSTILE, "f")));
        only(candidates(named("p", HOSTILE)));
        only(Snapshot { skipped: vec![skip(HOSTILE, "m"), skip("p", HOSTILE)], ..Snapshot::default() });
        only(Snapshot { notes: vec![note(HOSTILE, "m"), note("p", HOSTILE)], ..Snapshot::default() });
    }
}
