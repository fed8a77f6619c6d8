//! The JSON that commands print; its shapes are documented in the README and stable.

mod indexes;
mod models;

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::terminal::is_unprintable;
use crate::retriever::ranker::Parts;
use crate::retriever::{Answer, Hit};
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

/// The answer of `locate --json`.
#[derive(Serialize)]
pub struct Located<'a> {
    pub files: Vec<FileHit<'a>>,
    pub functions: Vec<FunctionHit<'a>>,
    pub query: Query<'a>,
    pub index: Index<'a>,
    pub timings_ms: Timings,
}

#[derive(Serialize)]
pub struct FileHit<'a> {
    rank: usize,
    path: &'a str,
    language: &'a str,
    score: f32,
    scores: Scores<'a>,
    lines: Vec<Line<'a>>,
}

#[derive(Serialize)]
pub struct FunctionHit<'a> {
    rank: usize,
    path: &'a str,
    function: &'a str,
    start_line: u32,
    end_line: u32,
    language: &'a str,
    score: f32,
    scores: Scores<'a>,
    lines: Vec<Line<'a>>,
}

/// The parts of a score, which is their sum, and the terms that brought most of its lexical part.
#[derive(Serialize)]
struct Scores<'a> {
    lexical: f32,
    mention: f32,
    context: f32,
    dense: f32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terms: Vec<(&'a str, f32)>,
}

#[derive(Serialize)]
struct Line<'a> {
    line: u32,
    text: &'a str,
}

/// What was read of the issue.
#[derive(Serialize)]
pub struct Query<'a> {
    pub retriever: &'a str,
    pub mode: &'a str,
    /// The encoder that was asked; null when none was.
    pub model: Option<&'a str>,
    /// By which rules it read the issue.
    pub policy: Option<&'a str>,
    pub images: &'a [Image],
    /// Tokens of the issue, and how many the encoder read; null when none was asked.
    pub tokens: Option<usize>,
    pub tokens_used: Option<usize>,
    /// Tokens that stand for pictures, which are in neither.
    pub image_tokens: Option<usize>,
    pub truncated: bool,
}

#[derive(Serialize)]
pub struct Image {
    pub name: String,
    pub used: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub width: Option<u32>,
    pub height: Option<u32>,
}

/// What was searched.
#[derive(Serialize)]
pub struct Index<'a> {
    pub commit: Option<&'a str>,
    /// Whether the answer is from an index, and not from the repository itself.
    pub indexed: bool,
    /// Whether the index is not what the repository is now; what has changed.
    pub stale: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changed<'a>>,
    pub files: usize,
    pub functions: usize,
    pub skipped: usize,
    /// Reservations with which files were read.
    pub notes: usize,
    /// Of the index, and how many of them have a vector; null where there is no index.
    pub windows: Option<usize>,
    pub vectors: Option<usize>,
    /// Candidates that the encoder compared with the issue; windows that were embedded for it, and that the store knew.
    pub compared_candidates: usize,
    pub embedded_windows: usize,
    pub cached_windows: usize,
    /// Windows that the encoder failed on, which were not compared.
    pub failed_windows: usize,
}

#[derive(Serialize)]
pub struct Timings {
    /// Reading the repository, or opening its index and looking for changes; bringing it up to date.
    pub snapshot: u64,
    pub refresh: u64,
    /// Counting words, where there is no index.
    pub index: u64,
    pub lexical: u64,
    /// Loading the encoder and embedding the issue, beside the above.
    pub load: u64,
    pub query: u64,
    pub encoder: u64,
    pub total: u64,
}

/// The file list of an answer.
pub fn file_hits(answer: &Answer, explain: bool) -> Vec<FileHit<'_>> {
    let ranked = (1..).zip(&answer.files);
    let hits = ranked.map(|(rank, hit)| FileHit {
        rank,
        path: hit.candidate.path(),
        language: &hit.candidate.source.language,
        score: hit.score,
        scores: scores(hit, explain),
        lines: lines(hit),
    });
    hits.collect()
}

/// The function list of an answer.
pub fn function_hits(answer: &Answer, explain: bool) -> Vec<FunctionHit<'_>> {
    let ranked = (1..).zip(&answer.functions);
    let hits = ranked.map(|(rank, hit)| FunctionHit {
        rank,
        path: hit.candidate.path(),
        function: hit.candidate.name.as_deref().unwrap_or_default(),
        start_line: hit.candidate.lines.start,
        end_line: hit.candidate.lines.end,
        language: &hit.candidate.source.language,
        score: hit.score,
        scores: scores(hit, explain),
        lines: lines(hit),
    });
    hits.collect()
}

fn scores(hit: &Hit, explain: bool) -> Scores<'_> {
    let Parts { lexical, mention, context, dense } = hit.parts;
    let shown = if explain { terms(hit) } else { &[] };
    let terms = shown.iter().map(|(term, score)| (term.as_str(), *score)).collect();
    Scores { lexical, mention, context, dense, terms }
}

/// The terms behind a hit's score; none where they have no part in it.
pub fn terms(hit: &Hit) -> &[(String, f32)] {
    if hit.parts.lexical == 0.0 { &[] } else { &hit.terms }
}

fn lines(hit: &Hit) -> Vec<Line<'_>> {
    hit.lines.iter().map(|it| Line { line: it.line, text: &it.text }).collect()
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
