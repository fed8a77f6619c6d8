//! The JSON that commands print; its shapes are documented in the README and stable.

mod indexes;
mod models;

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::terminal::is_unprintable;
use crate::snapshot::{Note, Skipped};
use crate::types::Candidate;

pub use indexes::*;
pub use models::*;

/// Writes a value as one line of JSON.
pub fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", harmless(&serde_json::to_string(value)?))
}

/// Writes a value as indented JSON.
pub fn write_pretty(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    writeln!(out, "{}", harmless(&serde_json::to_string_pretty(value)?))
}

/// Prints a value as indented JSON.
pub fn print(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    write_pretty(&mut out, value)?;
    Ok(out.flush()?)
}

/// Prints a value as one line of JSON, at once.
pub fn print_line(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    write_line(&mut out, value)?;
    Ok(out.flush()?)
}

/// The same JSON, harmless on a terminal too: JSON lets DEL, C1 controls and bidirectional marks stand in strings as
/// they are. Outside strings it has none of them but the line ends.
fn harmless(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_unprintable(character) {
            // Writing to a string can't fail; every such character has four digits.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// A line of `candidates --json`.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CandidateLine<'a> {
    File { path: &'a str, start_line: u32, end_line: u32, language: &'a str },
    Function { path: &'a str, function: &'a str, start_line: u32, end_line: u32, language: &'a str },
    Skipped { path: &'a str, reason: String },
    Note { path: &'a str, message: &'a str },
}

impl<'a> CandidateLine<'a> {
    pub fn candidate(candidate: &'a Candidate) -> Self {
        let (path, language) = (candidate.path(), &*candidate.source.language);
        let (start_line, end_line) = (candidate.lines.start, candidate.lines.end);
        match &candidate.name {
            None => CandidateLine::File { path, start_line, end_line, language },
            Some(function) => CandidateLine::Function { path, function, start_line, end_line, language },
        }
    }

    pub fn skipped(skipped: &'a Skipped) -> Self {
        CandidateLine::Skipped { path: &skipped.path, reason: skipped.reason.to_string() }
    }

    pub fn note(note: &'a Note) -> Self {
        CandidateLine::Note { path: &note.path, message: &note.message }
    }
}

#[cfg(test)]
mod tests {
    use super::super::terminal::tests::HOSTILE;
    use super::*;

    #[test]
    fn json_is_harmless_and_says_the_same() {
        let mut out = Vec::new();
        write_pretty(&mut out, &[HOSTILE, "größe \\ \""]).expect("memory takes it");
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(!text.chars().any(|it| it != '\n' && is_unprintable(it)), "{text:?}");
        let read: Vec<String> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, [HOSTILE, "größe \\ \""]);
    }
}
