//! A page's lines as the rules read them: cleaned of what OCR adds, each with its shape.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::extensions::is_extension;
use super::pattern;
use crate::evidence::page::Page;

/// Lines of a page that are looked at; a screen shows some hundreds.
pub(super) const MOST_LINES: usize = 4000;
/// Characters of a line that are looked at: a wide screen in a small font shows some hundreds. It bounds the time of patterns, which
/// is quadratic in a line's length at worst.
const LONGEST_LINE: usize = 600;
/// A line that ends within so many characters of the right edge may go on in the next one.
const EDGE: f32 = 3.0;
/// Shorter lines are labels, which are not broken.
const SHORTEST_BROKEN: usize = 30;

/// Line numbers that make a column of them.
const SHORTEST_COLUMN: usize = 5;

/// What a line looks like by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A time or a level at its beginning.
    Log,
    /// A shell's or an interpreter's prompt and a command.
    Prompt,
    Code,
    /// Digits, signs and units alone.
    Number,
    /// Labels and prose.
    Text,
}

/// A line of the page.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Typographic quotes, full-width marks and the like are ASCII; no line number of an editor; not trimmed.
    pub text: String,
    pub shape: Shape,
    pub block: usize,
    /// Whether the line reaches the right edge of its block, so that the next one may continue it.
    pub reaches_edge: bool,
    /// Left, top, right, bottom, in pixels.
    pub place: [f32; 4],
}

/// The lines of a page, and whether an editor numbers them.
pub(super) struct Lines {
    pub lines: Vec<Line>,
    pub numbered: bool,
}

/// A time of day or a date with one, at the beginning or behind an opening bracket.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\W{0,3}(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]?\d\d:\d\d|\d\d?[-/.]\d\d?[-/.]\d{2,4},? \d\d?:\d\d:\d\d|\d\d?:\d\d:\d\d|[A-Z][a-z]{2} +\d\d? \d\d:\d\d:\d\d)",
    )
});
/// A level of severity as loggers write it.
static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:\W{0,2}(?:TRACE|DEBUG|INFO|WARN|WARNING|ERR[O0]R|FATAL|NOTICE|CRITICAL|SEVERE)\b\W|\[(?:trace|debug|info|warn|warning|error|fatal)\]|npm (?:ERR!|WARN|error|warn) |[VDIWEF]/\w+\()|\blevel=(?:debug|info|warn|error)",
    )
});
static PROMPT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*(?:[\w.-]+@[\w.-]+[: ][^$#%]{0,80}[$#%] ?|\$ |[❯➜] |PS [A-Z]:\\[^>]*> ?|[A-Z]:\\[^>]*>|>>> ?|In ?\[\d+\]: ?|irb.{0,20}> |(?:mysql|sqlite|postgres)\w*[=#]*> )\S",
    )
});
/// Statements, definitions, markup and settings; or signs that prose has not.
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?x)
        [{};]\s*$ | ^\s*[\])}]+[;,)]*\s*$ | \S\($ | =>\s*\S*$ | [=!]== | != | \s==\s | &&\s | \s\|\|\s | [+*/|-]=\s | ::\w | \w->\w | \w\(\)
        | ^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:function|const|let|var|type|interface|enum)\s+[\w${\[*]+.*[={(<:]
        | ^\s*(?:pub(?:\(\w+\))?\s+)?(?:fn|def|func|fun|class|c[l1I|]ass|struct|impl|trait|mod|module|defmodule|namespace)\s+[\w(].*[{(:\w]$
        | ^\s*(?:public|private|protected|internal|static|abstract|override|final)\s+\w+.*[({;=]
        | ^\s*(?:import|from|package|using|require|include|use)\s+['"<\w@{*][^\s]*(?:\s+(?:import|from|as)\s.*|;)?$
        | ^\s*\#\s*(?:include|define|ifdef|ifndef|pragma)\b
        | ^\s*(?:if|for|while|switch|catch|elif|else\s+if)\s*\(.*[{)]\s*$ | ^\s*(?:if|for|while|elif|with|try|except|else)\b.*:\s*$
        | ^\s*(?:-*>\s*)?\d{0,5}\s*[|│] | \^\^ | ~~~
        | ^\s*return\b.*[;()\w]$ | ^\s*(?://|/\*|\*/|<!--|--\s) | ^\s*@\w+[\w.]*(?:\(.*\)?)?$
        | ^\s*</?[A-Za-z][\w.:-]*(?:\s+[\w:@.-]+=.*|\s*/?>.*|)$ | />\s*$ | </\w+>
        | ^\s*["'][\w.@/ -]+["']\s*:\s*\S | ^\s*[\w.$\[\]'"-]+\s*:?=\s+\S+ | \w\(\w*[,"'\[{] | \w\.\w+\(
        "#,
    )
});
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\s\d.,%$€£+−:/()°-]*\d[\s\d.,%$€£+−:/()°eEkKMGBs-]*$"));
/// What may be a file's ending, with spaces beside its dot and a mark that follows file names.
static SPLIT_ENDING: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\w) ?\. ?([A-Za-z]\w{1,4})([:\x22')])"));
/// An editor's line number.
static GUTTER: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*(\d{1,5})(?:\s+[|│]?\s*|[|│]\s*|$)"));

impl Lines {
    pub fn of(page: &Page) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for (block, content) in page.blocks.iter().enumerate() {
            let first = lines.len();
            let read = content.lines.iter().take(MOST_LINES - first);
            lines.extend(read.map(|it| Line::new(&clean(&it.text), block, it.corners)).filter(|it| !it.is_empty()));
            mark_edge(&mut lines[first..]);
        }
        let numbered = drop_number_columns(&mut lines) | strip_gutter(&mut lines);
        for line in &mut lines {
            line.shape = shape(&line.text);
        }
        Lines { lines, numbered }
    }

    /// Lines with a shape.
    pub fn count(&self, shape: Shape) -> usize {
        self.lines.iter().filter(|it| it.shape == shape).count()
    }
}

impl Line {
    fn new(text: &str, block: usize, corners: [[f32; 2]; 4]) -> Self {
        let least = |axis: usize| corners.iter().map(|it| it[axis]).fold(f32::INFINITY, f32::min);
        let most = |axis: usize| corners.iter().map(|it| it[axis]).fold(f32::NEG_INFINITY, f32::max);
        let place = [least(0), least(1), most(0), most(1)];
        Line { text: text.to_owned(), shape: Shape::Text, block, reaches_edge: false, place }
    }

    fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Right end and width of a character, in pixels; in characters where the place is not known.
    fn extent(&self) -> (f32, f32) {
        let characters = self.text.chars().count() as f32;
        let width = self.place[2] - self.place[0];
        if width > 0.0 { (self.place[2], width / characters.max(1.0)) } else { (characters, 1.0) }
    }
}

fn mark_edge(block: &mut [Line]) {
    let edge = block.iter().map(|it| it.extent().0).fold(0.0, f32::max);
    for line in block {
        let (right, character) = line.extent();
        line.reaches_edge = line.text.len() >= SHORTEST_BROKEN && right + EDGE * character >= edge;
    }
}

/// One character, as a programmer would have typed it; `None` for what has no width.
fn plain(letter: char) -> Option<char> {
    match letter {
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => None,
        '‘' | '’' | '´' | '`' | '′' => Some('\''),
        '“' | '”' | '„' | '″' => Some('"'),
        '–' | '—' | '‐' | '‑' => Some('-'),
        '∧' | 'ˆ' => Some('^'),
        '∶' => Some(':'),
        '，' | '、' => Some(','),
        '。' => Some('.'),
        // Full-width forms stand in the same order as ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(letter) - 0xfee0),
        _ if letter.is_whitespace() || letter.is_control() => Some(' '),
        _ => Some(letter),
    }
}

/// A line's first characters, in ASCII where OCR chose another form of an ASCII mark.
pub(super) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len().min(4 * LONGEST_LINE));
    for letter in text.chars().take(LONGEST_LINE).filter_map(plain) {
        match letter {
            '…' => cleaned.push_str("..."),
            '→' => cleaned.push_str("->"),
            _ => cleaned.push(letter),
        }
    }
    mended(cleaned)
}

/// A line whose file names have no space before their ending: OCR sees a gap beside a dot.
fn mended(text: String) -> String {
    if !text.contains(". ") && !text.contains(" .") {
        return text;
    }
    let mend = |it: &Captures<'_>| {
        if is_extension(&it[2]) { format!("{}.{}{}", &it[1], &it[2], &it[3]) } else { it[0].to_owned() }
    };
    SPLIT_ENDING.replace_all(&text, mend).into_owned()
}

/// Takes away blocks that are an editor's line numbers, where its code is a block of its own.
fn drop_number_columns(lines: &mut Vec<Line>) -> bool {
    let mut numbers: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for line in lines.iter() {
        let number = super::frames::number(line.text.trim()).unwrap_or(0);
        numbers.entry(line.block).or_default().push(number);
    }
    // Numbers may be misread, and each breaks two pairs.
    numbers.retain(|_, it| {
        let rising = it.windows(2).filter(|it| it[0] > 0 && it[1] == it[0] + 1).count();
        it.len() >= SHORTEST_COLUMN && rising * 5 >= (it.len() - 1) * 3
    });
    let has_code = lines.iter().any(|it| shape(&it.text) == Shape::Code);
    if numbers.is_empty() || !has_code {
        return false;
    }
    lines.retain(|it| !numbers.contains_key(&it.block));
    true
}

/// Takes line numbers off if most lines have one and they rise.
fn strip_gutter(lines: &mut [Line]) -> bool {
    let number = |line: &Line| GUTTER.captures(&line.text).and_then(|it| it[1].parse::<u32>().ok());
    let numbers: Vec<u32> = lines.iter().filter_map(number).collect();
    let rising = numbers.windows(2).filter(|it| it[1] > it[0] && it[1] - it[0] <= 3).count();
    let numbered = numbers.len() >= 3 && rising * 5 >= numbers.len() * 3 && numbers.len() * 5 >= lines.len() * 2;
    if numbered && lines.iter().any(|it| shape(&GUTTER.replace(&it.text, "")) == Shape::Code) {
        for line in lines {
            line.text = GUTTER.replace(&line.text, "").into_owned();
        }
        return true;
    }
    false
}

fn shape(text: &str) -> Shape {
    if NUMBER.is_match(text) {
        Shape::Number
    } else if TIME.is_match(text) || LEVEL.is_match(text) {
        Shape::Log
    } else if PROMPT.is_match(text) {
        Shape::Prompt
    } else if CODE.is_match(text) {
        Shape::Code
    } else {
        Shape::Text
    }
}
