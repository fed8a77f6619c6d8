//! What an interface says: labels, buttons, menus, titles and messages. They may stand as literals in its source.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::lines::{Line, Shape};
use super::pattern;

/// Strings that are kept.
const MOST_STRINGS: usize = 60;
/// Characters of a label, and of a message in whole sentences.
const LONGEST: usize = 160;
/// Lines of a message.
const MOST_MESSAGE_LINES: usize = 4;

/// Columns of a row, as the page keeps them apart.
static GAP: LazyLock<Regex> = LazyLock::new(|| pattern(r"\s{2,}|\t|\s[|│•·]\s"));
/// Marks around a label: of lists, checks, menus; a shortcut of the keyboard.
static MARKS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[^\p{L}\p{N}'\x22(\[$%]+|(?:\.{3}|[^\p{L}\p{N}'\x22)\]!?.%])+$"));
static SHORTCUT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:^|\s+)(?:(?:Ctrl|Cmd|Alt|Shift|Option|Meta|Win|Super)\s?[+-]\s?)+\S+$|(?:^|\s+)[⌘⌥⇧⌃]+\s?\S$|(?:^|\s+)F\d{1,2}$",
    )
});

/// Titles of menus and captions of buttons, which stand in a row with a space between them.
const ROWED: &str = "
    file edit view go run terminal help window windows tools selection format insert history bookmarks options settings search project build
    debug navigate refactor code git table home layout review data view image layer select filter ok okay cancel yes no apply close retry abort
    ignore save discard continue back next finish submit reset delete remove add edit open done skip confirm dismiss allow deny accept decline
    login logout copy paste cut undo redo preview export import refresh reload";
static ROWED_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| ROWED.split_whitespace().collect());

/// The strings of a page's lines, those that `is_other` names left out: traces, announcements of errors.
pub(super) fn strings(lines: &[Line], is_other: impl Fn(usize) -> bool) -> Vec<String> {
    let technical: Vec<bool> = (0..lines.len()).map(|at| is_other(at) || is_technical(&lines[at])).collect();
    let listings = listings(lines, &technical);
    let mut seen = HashSet::new();
    let mut strings = Vec::new();
    let mut at = 0;
    while at < lines.len() && strings.len() < MOST_STRINGS {
        let end = at + message_lines(&lines[at..], &technical[at..]);
        if !technical[at] && !listings.contains(&lines[at].block) && !is_in_listing(lines, &technical, at) {
            let text = lines[at..end].iter().map(|it| it.text.trim()).collect::<Vec<_>>().join(" ");
            strings.extend(labels(&text).into_iter().filter(|it| seen.insert(it.to_lowercase())));
        }
        at = end;
    }
    strings.truncate(MOST_STRINGS);
    strings
}

fn is_technical(line: &Line) -> bool {
    matches!(line.shape, Shape::Code | Shape::Log | Shape::Prompt)
}

/// Blocks of a terminal or an editor: on a page that is mostly technical, those with a technical line. Their prose is output.
fn listings(lines: &[Line], technical: &[bool]) -> HashSet<usize> {
    let blocks: Vec<usize> = lines.iter().zip(technical).filter(|it| *it.1).map(|it| it.0.block).collect();
    if blocks.len() * 2 >= lines.len() { blocks.into_iter().collect() } else { HashSet::new() }
}

/// Whether a line stands between lines of a trace, a log or a listing: two of the four around it, in its block.
fn is_in_listing(lines: &[Line], technical: &[bool], at: usize) -> bool {
    let around = at.saturating_sub(2)..lines.len().min(at + 3);
    around.filter(|&it| it != at && lines[it].block == lines[at].block && technical[it]).count() >= 2
}

/// Lines of the message that begins in the first: it goes on with a small letter below a line that reaches the edge.
fn message_lines(lines: &[Line], technical: &[bool]) -> usize {
    let goes_on = |it: &usize| {
        let (line, next) = (&lines[it - 1], &lines[*it]);
        let is_small = next.text.trim_start().starts_with(char::is_lowercase);
        line.reaches_edge && line.block == next.block && is_small && !technical[it - 1] && !technical[*it]
    };
    1 + (1..lines.len().min(MOST_MESSAGE_LINES)).take_while(goes_on).count()
}

/// The labels of a row.
fn labels(text: &str) -> Vec<String> {
    GAP.split(text).flat_map(captions).filter(|it| is_label(it)).collect()
}

/// A column's label; or each of a menu's titles or a row of buttons.
fn captions(column: &str) -> Vec<String> {
    let words: Vec<&str> = column.split_whitespace().collect();
    let are_rowed = words.len() >= 2
        && words
            .iter()
            .all(|it| it.starts_with(char::is_uppercase) && ROWED_WORDS.contains(it.to_lowercase().as_str()));
    if are_rowed {
        return words.into_iter().map(str::to_owned).collect();
    }
    vec![MARKS.replace_all(&SHORTCUT.replace(column.trim(), ""), "").trim().to_owned()]
}

/// Whether it has words, and more letters than anything else.
fn is_label(text: &str) -> bool {
    let length = text.chars().count();
    let letters = text.chars().filter(|it| it.is_alphabetic() || it.is_whitespace()).count();
    let is_wide = text.chars().any(|it| it.is_alphabetic() && !it.is_ascii());
    let has_word = text.split(|it: char| !it.is_alphabetic()).any(|it| it.chars().count() >= 2);
    (2..=LONGEST).contains(&length) && letters * 5 >= length * 3 && (has_word || is_wide) && !text.contains("://")
}
