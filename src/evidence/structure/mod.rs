//! A page's text as fields: the error it shows, what names code, what an interface says, the kind of picture.
//!
//! Rules over lines, made for what OCR leaves of a text: without indentation, with spaces lost or added, with letters that look alike.
//! All is bounded, so that a hostile text costs no more than a large screen.

mod category;
mod code;
mod errors;
mod extensions;
mod frames;
mod frameworks;
mod grammars;
mod interface;
mod lines;

#[cfg(test)]
mod tests;

use regex::{Regex, RegexSet};

use crate::evidence::page::{Note, Page};
use crate::types::{ErrorSignal, VisualEvidence};

use category::Seen;
use errors::{Head, Kind};
use frames::{Found, Source};
use grammars::Style;
use lines::{Line, Lines, Shape};

/// Letters and digits that a picture must show to be as good as its characters are read: about a line of a dialog.
const ENOUGH: f32 = 20.0;

#[expect(clippy::expect_used, reason = "the patterns are constants of this module, compiled by its tests")]
fn pattern(text: &str) -> Regex {
    Regex::new(&ascii_edges(text)).expect("a constant pattern")
}

#[expect(clippy::expect_used, reason = "the patterns are constants of this module, compiled by its tests")]
fn set<'t>(patterns: impl Iterator<Item = &'t str>) -> RegexSet {
    RegexSet::new(patterns.map(ascii_edges)).expect("constant patterns")
}

/// A word's edge in Unicode is searched ten times slower as soon as a text isn't ASCII; words of code are ASCII.
fn ascii_edges(pattern: &str) -> String {
    pattern.replace(r"\b", r"(?-u:\b)")
}

/// What a page says.
pub fn structure(page: &Page) -> VisualEvidence {
    let lines = Lines::of(page);
    let sources: Vec<Source<'_>> = lines.lines.iter().map(source).collect();
    let found = frames::find(&sources);
    let trace = Trace::of(&found, lines.lines.len());
    let is_code = is_code(&lines, &trace);
    let heads = if is_code { Vec::new() } else { errors::heads(&sources) };
    let error_signal = if is_code { None } else { error(&lines, &sources, &heads, &found) };
    let is_head = |at: usize| heads.iter().any(|it| it.line == at && it.kind < Kind::HttpStatus);
    let ui_elements = interface::strings(&lines.lines, |at| trace.holds(at) || is_head(at));
    let seen = Seen {
        lines: &lines,
        heads: &heads,
        trace: &trace,
        labels: ui_elements.len(),
        is_failure: error_signal.is_some(),
        is_code,
    };
    let stack = error_signal.as_ref().map_or(&[][..], |it| &it.stack);
    VisualEvidence {
        ocr_text: page.text(),
        code_hint: code::hint(&lines.lines, &found, stack),
        confidence: confidence(page),
        notes: page.notes.iter().map(note).collect(),
        category: category::category(page, &seen),
        error_signal,
        ui_elements,
        ..VisualEvidence::default()
    }
}

/// The error of a page that shows more than code.
fn error(lines: &Lines, sources: &[Source<'_>], heads: &[Head], found: &[Found]) -> Option<ErrorSignal> {
    if heads.is_empty() && found.iter().all(|it| it.style == Style::Place) {
        let is_text = |it: &&Line| it.shape == Shape::Text;
        return errors::told_in_words(&lines.lines.iter().filter(is_text).map(source).collect::<Vec<_>>());
    }
    errors::signal(sources, heads, found)
}

/// The lines of a page that frames and places stand on.
struct Trace {
    is_on: Vec<bool>,
    /// Lines of frames alone.
    calls: usize,
}

impl Trace {
    fn of(found: &[Found], lines: usize) -> Self {
        let mut is_on = vec![false; lines];
        found.iter().flat_map(|it| it.lines.clone()).for_each(|at| is_on[at] = true);
        let calls = found.iter().filter(|it| it.style != Style::Place).map(|it| it.lines.len()).sum();
        Trace { is_on, calls }
    }

    fn holds(&self, line: usize) -> bool {
        self.is_on.get(line).copied().unwrap_or(false)
    }

    /// Lines of code that are no frames.
    fn code_around(&self, lines: &Lines) -> usize {
        lines.lines.iter().zip(&self.is_on).filter(|(line, is_on)| line.shape == Shape::Code && !**is_on).count()
    }
}

fn source(line: &Line) -> Source<'_> {
    Source { text: &line.text, reaches_edge: line.reaches_edge, block: line.block }
}

/// Whether it is code that the picture shows, which may speak of errors without having one.
fn is_code(lines: &Lines, trace: &Trace) -> bool {
    let code = trace.code_around(lines);
    trace.calls == 0 && (lines.numbered || code >= 3 && code * 10 >= lines.lines.len() * 7)
}

/// How far the text can be trusted, 0 to 1: the mean confidence of its lines, each weighted by its characters, times
/// `min(1, letters and digits / 20)`, times the share of the places with text that could be read.
fn confidence(page: &Page) -> f32 {
    let weight = |text: &str| text.chars().filter(|it| !it.is_whitespace()).count() as f32;
    let all: f32 = page.lines().map(|it| weight(&it.text)).sum();
    let trusted: f32 = page.lines().map(|it| weight(&it.text) * it.confidence.clamp(0.0, 1.0)).sum();
    let readable = page.lines().flat_map(|it| it.text.chars()).filter(|it| it.is_alphanumeric()).count() as f32;
    let read = page.lines().count() as f32;
    let unread: usize = page.notes.iter().map(unread).sum();
    if all == 0.0 {
        return 0.0;
    }
    trusted / all * (readable / ENOUGH).min(1.0) * read / (read + unread as f32)
}

/// Places with text that was not read.
fn unread(note: &Note) -> usize {
    match *note {
        Note::Turned { lines } | Note::TooMuch { lines } => lines,
        Note::Unreadable { places } => places,
        Note::NoText | Note::Animated | Note::TooSmall => 0,
    }
}

fn note(note: &Note) -> String {
    match note {
        Note::NoText => "no text was found".into(),
        Note::Animated => "it is animated: the first frame was read".into(),
        Note::TooSmall => "it is too small to hold text".into(),
        Note::Turned { lines } => format!("{lines} turned lines were not read"),
        Note::Unreadable { places } => format!("{places} places look like text and could not be read"),
        Note::TooMuch { lines } => format!("{lines} lines more than are read were left out"),
    }
}
