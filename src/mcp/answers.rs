//! F5: what tools answer: a few lines of text, and the same for programs.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::arguments::Detail;
use super::indexing::said;
use crate::retriever::Hit;
use crate::service::jobs::JobResult;
use crate::service::{Answered, RepositoryView, Staleness, Status};

/// Repositories that a status lists.
const MOST_LISTED: usize = 20;

/// An answer in both forms.
#[derive(Debug)]
pub struct Answer {
    pub text: String,
    pub structured: Value,
}

fn answer(text: String, structured: impl Serialize) -> Answer {
    // Plain data of strings and numbers always has a form in JSON.
    Answer { text: text.trim_end().to_owned(), structured: serde_json::to_value(structured).unwrap_or_default() }
}

/// The answer of `locate_issue`.
#[derive(Debug, Default, Serialize)]
pub struct Located {
    functions: Vec<Found>,
    files: Vec<Found>,
    stale: bool,
    notes: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Found {
    path: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    function: Option<Function>,
    score: f64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    rest: Option<Rest>,
}

#[derive(Debug, Serialize)]
struct Function {
    function: String,
    start_line: u32,
    end_line: u32,
}

/// What only the full answer has.
#[derive(Debug, Serialize)]
struct Rest {
    scores: Scores,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Scores {
    lexical: f64,
    mention: f64,
    visual: f64,
    context: f64,
    dense: f64,
}

#[derive(Debug, Serialize)]
struct Line {
    line: u32,
    text: String,
}

impl Located {
    /// Of an answer before which the words were indexed for so long.
    pub fn of(answered: &Answered, detail: Detail, indexing: Option<Duration>) -> Self {
        let found = |hits: &[Hit]| hits.iter().map(|it| Found::of(it, detail)).collect();
        Located {
            functions: found(&answered.answer.functions),
            files: found(&answered.answer.files),
            stale: answered.is_stale(),
            notes: notes(answered, indexing),
        }
    }

    pub fn answer(self) -> Answer {
        answer(self.text(), self)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.functions.is_empty() && self.files.is_empty() {
            text.push_str("Nothing was found.\n");
        }
        for (name, list) in [("Functions", &self.functions), ("Files", &self.files)] {
            if !list.is_empty() {
                let _ = writeln!(text, "{name}:");
            }
            for (rank, found) in (1..).zip(list) {
                found.write(rank, &mut text);
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "Note: {note}");
        }
        text
    }
}

impl Found {
    fn of(hit: &Hit, detail: Detail) -> Self {
        let candidate = &hit.candidate;
        let function = candidate.name.as_ref().map(|name| Function {
            function: name.to_string(),
            start_line: candidate.lines.start,
            end_line: candidate.lines.end,
        });
        let parts = hit.parts;
        let rest = (detail == Detail::Full).then(|| Rest {
            scores: Scores {
                lexical: rounded(parts.lexical),
                mention: rounded(parts.mention),
                visual: rounded(parts.visual),
                context: rounded(parts.context),
                dense: rounded(parts.dense),
            },
            lines: hit.lines.iter().map(|it| Line { line: it.line, text: it.text.clone() }).collect(),
        });
        Found { path: candidate.path().to_owned(), function, score: rounded(hit.score), rest }
    }

    fn write(&self, rank: usize, text: &mut String) {
        // Writing to a string does not fail.
        let _ = write!(text, "{rank}. {}", self.path);
        if let Some(Function { function, start_line, end_line }) = &self.function {
            let _ = write!(text, ":{start_line}-{end_line} {function}");
        }
        let _ = writeln!(text, " ({:.2})", self.score);
        let Some(Rest { scores, lines }) = &self.rest else { return };
        let Scores { lexical, mention, visual, context, dense } = scores;
        let _ = write!(text, "   lexical {lexical:.2}, mention {mention:.2}, ");
        if *visual != 0.0 {
            let _ = write!(text, "pictures {visual:.2}, ");
        }
        let _ = writeln!(text, "context {context:.2}, dense {dense:.2}");
        for Line { line, text: of_line } in lines {
            let _ = writeln!(text, "   {line}| {}", of_line.trim_end());
        }
    }
}

/// To two places: more of a score says nothing.
fn rounded(score: f32) -> f64 {
    (f64::from(score) * 100.0).round() / 100.0
}

/// What an agent should know of an answer.
fn notes(answered: &Answered, indexing: Option<Duration>) -> Vec<String> {
    let (windows, vectors) = answered.vectors();
    let indexed = indexing.map(|took| {
        format!(
            "the repository had no index, so one of its words was made in {:.1} s; index_repository embeds all of it",
            took.as_secs_f32()
        )
    });
    // Said once, when it is new.
    let indexed = indexed.filter(|_| vectors < windows);
    let stale = stale(answered.staleness());
    let query = answered.located();
    let (read, all) = (query.query.tokens_used, query.query.tokens);
    let cut = read.zip(all).filter(|_| query.query.truncated);
    let cut =
        cut.map(|(read, all)| format!("the encoder read {read} of the issue's {all} tokens; words count in full"));
    let unused = |it: &crate::service::located::Image| {
        let reason = it.reason.as_deref().unwrap_or("it can't be");
        format!("the picture {} was not used: {reason}", it.name)
    };
    let pictures = answered.images.iter().filter(|it| !it.used).map(unused);
    let read = answered.evidence.iter().flat_map(|it| {
        let warning = it.warning.iter().map(|warning| format!("the picture {}: {warning}", it.name));
        warning.chain([format!("read of the picture {}: {}", it.name, it.summary())])
    });
    indexed.into_iter().chain(stale).chain(cut).chain(pictures).chain(read).collect()
}

fn stale(staleness: &Staleness) -> Option<String> {
    let changed = staleness.changes.count();
    let reason = match &staleness.reason {
        Some(reason) => reason.clone(),
        None if changed == 1 => "a file has changed since it was made".to_owned(),
        None if changed > 0 => format!("{changed} files have changed since it was made"),
        None => return None,
    };
    Some(format!("the index is not up to date ({reason}), so lines may be off; index_repository makes it so"))
}

/// The answer of `index_repository`.
#[derive(Debug, Serialize)]
pub struct Indexed {
    path: String,
    seconds: f64,
    files: usize,
    functions: usize,
    windows: usize,
    vectors: usize,
    /// Windows that this call embedded.
    embedded: usize,
    skipped: usize,
}

impl Indexed {
    pub fn of(folder: &Path, view: &RepositoryView, result: Option<&JobResult>, took: Duration) -> Self {
        Indexed {
            path: folder.display().to_string(),
            seconds: rounded(took.as_secs_f32()),
            files: view.files,
            functions: view.functions,
            windows: view.windows,
            vectors: view.vectors,
            embedded: result.map_or(0, |it| it.embedded),
            skipped: view.skipped_count,
        }
    }

    pub fn answer(self) -> Answer {
        answer(self.text(), self)
    }

    fn text(&self) -> String {
        let Indexed { path, seconds, files, functions, windows, vectors, embedded, skipped } = self;
        let mut text = format!("Indexed {path} in {seconds:.1} s: {files} files, {functions} functions");
        let _ = write!(text, "; {vectors} of {windows} vectors, {embedded} of them new");
        if *skipped > 0 {
            let _ = write!(text, "; {skipped} paths skipped");
        }
        text + "."
    }
}

/// The answer of `index_status`.
#[derive(Debug, Serialize)]
pub struct Repositories {
    repositories: Vec<Repository>,
    /// How many there are beyond those.
    more: usize,
}

#[derive(Debug, Serialize)]
struct Repository {
    path: String,
    status: Status,
    stale: bool,
    files: usize,
    functions: usize,
    windows: usize,
    vectors: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
    /// Why it failed, or is stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl Repositories {
    pub fn of(views: &[RepositoryView]) -> Self {
        let mut views: Vec<&RepositoryView> = views.iter().collect();
        views.sort_by_key(|it| std::cmp::Reverse(it.created));
        let more = views.len().saturating_sub(MOST_LISTED);
        Repositories { repositories: views.into_iter().take(MOST_LISTED).map(Repository::of).collect(), more }
    }

    /// What is said of a folder without an index.
    pub fn none_of(folder: &Path) -> Answer {
        let text = format!(
            "{} has no index; locate_issue makes one of its words, index_repository embeds all of it.",
            folder.display()
        );
        answer(text, Repositories { repositories: Vec::new(), more: 0 })
    }

    pub fn answer(self) -> Answer {
        answer(self.text(), self)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.repositories.is_empty() {
            text.push_str("No repository is indexed; locate_issue indexes the one that it is asked of.");
        }
        for repository in &self.repositories {
            repository.write(&mut text);
        }
        if self.more > 0 {
            let _ = writeln!(text, "and {} more; name one by `path`", self.more);
        }
        text
    }
}

impl Repository {
    fn of(view: &RepositoryView) -> Self {
        let path = view.source.as_ref().and_then(|it| it.path.clone());
        Repository {
            path: path.unwrap_or_else(|| view.repository.clone()),
            status: view.status,
            stale: view.stale,
            files: view.files,
            functions: view.functions,
            windows: view.windows,
            vectors: view.vectors,
            commit: view.commit.clone(),
            progress: view.progress.as_ref().map(said),
            problem: view.failure.clone().or_else(|| view.stale_reason.clone()),
        }
    }

    fn write(&self, text: &mut String) {
        let status = match self.status {
            Status::Building => "building",
            Status::Ready => "ready",
            Status::Partial => "partial",
            Status::Failed => "failed",
        };
        let stale = if self.stale { ", stale" } else { "" };
        let _ = write!(text, "{}: {status}{stale}, {} files, {} functions", self.path, self.files, self.functions);
        let _ = write!(text, ", {} of {} vectors", self.vectors, self.windows);
        for rest in self.progress.iter().chain(&self.problem) {
            let _ = write!(text, "; {rest}");
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests;
