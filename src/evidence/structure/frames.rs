//! Stack frames and places in files.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::extensions::is_file;
use super::grammars::{GRAMMARS, Grammar, Style};
use super::pattern;
use crate::types::Frame;

/// Frames of a stack; more is a recursion.
const MOST_FRAMES: usize = 50;
/// A broken frame goes on for so many lines at most.
const MOST_CONTINUATIONS: usize = 2;

/// A frame where it was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub frame: Frame,
    pub style: Style,
    /// Lines it stands on.
    pub lines: Range<usize>,
}

/// A line of text to be searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'l> {
    pub text: &'l str,
    /// See [`super::lines::Line::reaches_edge`].
    pub reaches_edge: bool,
    pub block: usize,
}

/// Go's function, on the line before its place; without its arguments.
static GO_FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*(?:created by\s+)?(?P<f>[\w./~-]*\w(?:\.\(\*?[\w.\[\]]+\))?(?:\.[\w\[\].]+)*)\s*(?:\(.*\)|\(.*|in goroutine \d+)\s*$",
    )
});
/// Rust's function, numbered, on the line before its place.
static RUST_FUNCTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^\s*[0-9OolI|]{1,3}:\s*(?:0x[[:xdigit:]]+\s*-\s*)?(?P<f>[\w<&][\w:<>{}#$&*. ,-]*?)\s*$")
});
/// A function alone on the line before its place.
static LONE_FUNCTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*(?:async\s+)?(?P<f>[A-Za-z_$][\w$.]*)\s*$"));
/// A function that the runtime describes: `block in parse`, `Object.<anonymous>`.
static DESCRIPTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:(?:block|rescue|ensure)(?: \(\d+ levels\))? in |new |async |[\w.]+!)"));
/// What a continuation can't begin with: it begins a frame of its own.
static BEGINNING: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*(?:at\s|#\s?\d|File\s*[\x22']|from\s|in\s)"));

/// All frames and places, in the order of the lines.
pub(super) fn find(lines: &[Source<'_>]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        match find_at(lines, at) {
            Some(mut it) => {
                if it.frame.function.is_none() {
                    it.frame.function = function_before(&it, at.checked_sub(1).map(|before| lines[before].text));
                }
                at = it.lines.end;
                found.push(it);
            }
            None => at += 1,
        }
    }
    found
}

fn find_at(lines: &[Source<'_>], at: usize) -> Option<Found> {
    let Source { text, reaches_edge, .. } = lines[at];
    let single = first_match(text);
    let is_open = text.matches('(').count() > text.matches(')').count();
    let is_whole = single.as_ref().is_some_and(|it| it.1 != Style::Place && it.0.function.is_some() && !is_open);
    let joined = if reaches_edge && !is_whole { joined_at(lines, at) } else { None };
    joined.or_else(|| single.map(|(frame, style, _)| Found { frame, style, lines: at..at + 1 }))
}

/// A frame that is broken at the right edge and goes on in the next lines.
fn joined_at(lines: &[Source<'_>], at: usize) -> Option<Found> {
    let first = lines[at].text.trim_end();
    let mut joined = first.to_owned();
    for next in (at + 1..lines.len()).take(MOST_CONTINUATIONS) {
        let border = joined.len();
        if begins_frame(lines[next].text) {
            return None;
        }
        // A place may be of the continuation alone, and what follows a frame is no part of it.
        joined.push_str(lines[next].text.trim());
        if let Some((frame, style, span)) = first_match(&joined)
            && style != Style::Place
            && span.start < first.len()
            && span.end > border
        {
            return Some(Found { frame, style, lines: at..next + 1 });
        }
        if !lines[next].reaches_edge {
            return None;
        }
    }
    None
}

/// Whether a line has a frame of its own, so that it goes on with no other.
fn begins_frame(text: &str) -> bool {
    let indentation = text.len() - text.trim_start().len();
    BEGINNING.is_match(text) || first_match(text).is_some_and(|it| it.1 != Style::Place && it.2.start <= indentation)
}

/// The frame that the first fitting grammar finds, and where.
fn first_match(text: &str) -> Option<(Frame, Style, Range<usize>)> {
    if !text.bytes().any(|it| matches!(it, b':' | b'(' | b'#' | b',' | b';' | b'[' | b'+')) && !text.contains("ine") {
        return None;
    }
    GRAMMARS.iter().find_map(|grammar| {
        let captures = grammar.pattern.captures(text)?;
        let frame = frame_of(grammar, &captures)?;
        Some((frame, grammar.style, captures.get(0)?.range()))
    })
}

fn frame_of(grammar: &Grammar, captures: &Captures<'_>) -> Option<Frame> {
    let group = |name: &str| captures.name(name).map(|it| it.as_str());
    let written_path = group("p");
    let path = written_path.and_then(path);
    let line = group("l").and_then(number);
    let function = group("f").and_then(function);
    let is_place = grammar.style == Style::Place;
    let is_known = path.as_deref().is_some_and(|it| is_file(it) || !is_place && it.contains(['/', '\\']));
    let is_frame = match written_path {
        Some(_) if is_place => is_known && line.is_some(),
        // `name@version:` and times of day have the form of a frame.
        Some(it) if path.is_some() => is_known || function.is_some() && it.contains('.'),
        // `<stdin>` and `(index)` are no files, `5.1.0` is none that stands for one.
        Some(it) => it.starts_with(['<', '(']) && function.is_some(),
        None => function.is_some(),
    };
    (is_frame && (path.is_some() || function.is_some())).then_some(Frame { function, path, line })
}

/// A path without the query of an address; `None` for what stands for no file.
fn path(written: &str) -> Option<String> {
    let written = written.trim().trim_start_matches(['\'', '"', '(', '[']).trim_end_matches(['\'', '"']);
    let end = written.find('?').unwrap_or(written.len());
    let path = &written[..end];
    let is_path = !path.is_empty() && !path.starts_with('<') && path.chars().any(char::is_alphabetic);
    is_path.then(|| path.to_owned())
}

/// A function's name without what the runtime says of it; `None` for what has no name.
fn function(written: &str) -> Option<String> {
    // A debugger puts the program before it: `` app`main ``.
    let written = written.rsplit('\'').find(|it| !it.is_empty())?.trim();
    let name = &written[DESCRIPTION.find(written).map_or(0, |it| it.end())..];
    let anonymous = name.find(".<anonymous");
    let name = &name[..anonymous.unwrap_or(name.len())];
    // A module's own code is a nameless function of a nameless object.
    if anonymous.is_some() && ["object", "module"].contains(&name.to_lowercase().as_str()) {
        return None;
    }
    let name = name.strip_suffix("()").unwrap_or(name).trim_matches(['.', ' ']);
    let is_named = !name.starts_with(['<', '(', '{']) || name.starts_with("<") && name.contains("::");
    (is_named && name.chars().any(|it| it.is_alphabetic() || it == '_' || it == '$')).then(|| name.to_owned())
}

/// A line number in the letters that OCR takes for digits.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits: String = text
        .chars()
        .map(|it| match it {
            'O' | 'o' => '0',
            'l' | 'I' | '|' => '1',
            _ => it,
        })
        .collect();
    digits.parse().ok().filter(|&it| it > 0)
}

/// The function on the line before a place, in languages that write it there.
fn function_before(found: &Found, before: Option<&str>) -> Option<String> {
    let before = before?;
    let extension = found.frame.path.as_deref()?.rsplit('.').next()?;
    let functions = match extension {
        "go" | "s" => &GO_FUNCTION,
        "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" if found.style == Style::Call => &LONE_FUNCTION,
        "rs" | "c" if found.style == Style::Call => &RUST_FUNCTION,
        _ => return None,
    };
    function(functions.captures(before)?.name("f")?.as_str())
}

/// The frames of a stack, innermost first: of causes the last one's before those of what it caused.
pub(super) fn stack(found: &[Found], lines: &[Source<'_>]) -> Vec<Frame> {
    let is_cause = |at: usize| is_cause(lines[at].text);
    let mut sections: Vec<Vec<&Found>> = vec![Vec::new()];
    let mut line = 0;
    for it in found {
        if (line..it.lines.start).any(is_cause) {
            sections.push(Vec::new());
        }
        line = it.lines.end;
        if let Some(section) = sections.last_mut() {
            section.push(it);
        }
    }
    let ordered = sections.into_iter().rev().flat_map(innermost_first);
    let mut stack: Vec<Frame> = Vec::new();
    for frame in ordered.map(|it| &it.frame) {
        if stack.len() < MOST_FRAMES && !stack.contains(frame) {
            stack.push(frame.clone());
        }
    }
    stack
}

/// Whether a line begins the cause of the error before it.
pub(super) fn is_cause(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '[']);
    text.starts_with("Caused by") || text.starts_with("Causedby") || text.starts_with("cause]")
}

/// Turns the runs around that name the outermost frame first.
fn innermost_first(mut section: Vec<&Found>) -> Vec<&Found> {
    let mut start = 0;
    while start < section.len() {
        let is_last = |it: &&Found| it.style == Style::CallLast;
        let run = section[start..].iter().take_while(|it| is_last(it) == is_last(&section[start])).count();
        if is_last(&section[start]) {
            section[start..start + run].reverse();
        }
        start += run;
    }
    section
}
