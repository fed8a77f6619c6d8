//! F2: where a text that is longer than the model's window is cut.
//!
//! A cut is chosen by the text around it alone: among the line starts that a window may end at, the least indented one wins, then
//! the smallest hash of its line. Two versions of a file therefore meet at the same cuts again soon after an edit, and windows cached
//! by their content stay valid behind it; and a cut tends to fall between definitions rather than within one. Knows nothing of
//! tokenizers and models: token ids with their positions in, windows out.

use super::Window;

/// Part of the fingerprint: raise it when the rules here change.
pub(super) const RULES: u32 = 1;

/// Tokens that a window repeats from the one before it (fewer when the window is tiny).
const OVERLAP: usize = 32;

/// A tokenized text.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub ids: Vec<u32>,
    /// Byte of the text at which each token begins; never decreasing.
    pub starts: Vec<usize>,
}

impl Tokens {
    /// Of a text's token ids and the bytes that each covers, which some tokenizers give out of order or within a character.
    pub(super) fn new(text: &str, ids: &[u32], offsets: &[(usize, usize)]) -> Self {
        let mut last = 0;
        let mut rising = |&(start, _): &(usize, usize)| {
            last = last.max(text.floor_char_boundary(start));
            last
        };
        Tokens { ids: ids.to_vec(), starts: offsets.iter().map(&mut rising).collect() }
    }
}

/// The room that a model offers.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Most tokens in a window, with those below; at least 16, and eight times theirs.
    pub window: usize,
    /// First tokens of every window.
    pub opening: Vec<u32>,
    /// Last tokens of every window.
    pub closing: Vec<u32>,
}

impl Frame {
    /// Tokens of text in a window.
    pub(super) fn room(&self) -> usize {
        self.window - self.opening.len() - self.closing.len()
    }

    /// Some tokens in their place.
    pub(super) fn around(&self, parts: &[&[u32]]) -> Vec<u32> {
        [&self.opening[..], &parts.concat(), &self.closing].concat()
    }

    /// The windows of a text under a header: one if it fits, otherwise overlapping ones.
    pub(super) fn windows(&self, header: &[u32], text: &str, tokens: &Tokens) -> Vec<Window> {
        let whole = header.len() + tokens.ids.len() <= self.room();
        let shortened = !whole && header.len() > self.window / 2;
        let header = if shortened { &header[header.len() - self.window / 2..] } else { header };
        let overlap = OVERLAP.min(self.window / 8);
        let starts =
            if whole { vec![0] } else { piece_starts(text, &tokens.starts, self.room() - header.len() - overlap) };
        let ends = starts.iter().skip(1).copied().chain([tokens.ids.len()]);
        let window = |(start, end): (&usize, usize)| {
            let first = start.saturating_sub(overlap);
            let body = self.around(&[header, &tokens.ids[first..end]]);
            let from = if first == 0 { 0 } else { byte_of(text, &tokens.starts, first) };
            let to = if end == tokens.ids.len() { text.len() } else { byte_of(text, &tokens.starts, end) };
            Window { tokens: body, body: from..to, header_shortened: shortened }
        };
        starts.iter().zip(ends).map(window).collect()
    }
}

/// The first token of each piece of at most `budget` tokens, beginning with 0.
fn piece_starts(text: &str, starts: &[usize], budget: usize) -> Vec<usize> {
    let mut pieces = vec![0];
    let mut start = 0;
    while starts.len() - start > budget {
        start = next_start(text, starts, start, budget);
        pieces.push(start);
    }
    pieces
}

/// Where the piece that begins at token `start` ends: at the best line start of its second half; else at the last line start of
/// its first half; else, within a line longer than the budget, at the token with the smallest hash of its neighbourhood.
fn next_start(text: &str, starts: &[usize], start: usize, budget: usize) -> usize {
    let (middle, end) = (start + budget / 2, start + budget);
    let line = |at: &usize| line_start(text, starts, *at).is_some();
    (middle + 1..=end)
        .rev()
        .filter_map(|at| line_start(text, starts, at).map(|byte| (rank(text, byte), at)))
        .min_by_key(|&(rank, _)| rank)
        .map(|(_, at)| at)
        .or_else(|| (start + 1..=middle).rev().find(line))
        .or_else(|| (middle + 1..=end).rev().min_by_key(|&at| neighbourhood(text, starts, at)))
        .unwrap_or(end)
}

/// The byte at which the line begins whose first token is `at`; none if another token of that line precedes it.
fn line_start(text: &str, starts: &[usize], at: usize) -> Option<usize> {
    let before = if at == 0 { 0 } else { starts[at - 1] };
    text.as_bytes()[before..starts[at]].iter().rposition(|&byte| byte == b'\n').map(|newline| before + newline + 1)
}

/// Where the text of token `at` begins, indentation included.
fn byte_of(text: &str, starts: &[usize], at: usize) -> usize {
    line_start(text, starts, at).unwrap_or(starts[at])
}

/// How well a window may begin at the line starting at `byte`, smaller is better: an outer definition before an inner one, an opening
/// before a closing bracket, then by hash.
fn rank(text: &str, byte: usize) -> (usize, bool, u64) {
    let line = text[byte..].lines().next().unwrap_or_default();
    let content = line.trim_start();
    (line.len() - content.len(), content.starts_with(['}', ')', ']']), fnv(content.as_bytes()))
}

/// A hash of the eight bytes before and after a token's start, which an edit elsewhere doesn't change.
fn neighbourhood(text: &str, starts: &[usize], at: usize) -> u64 {
    let byte = starts[at];
    fnv(&text.as_bytes()[byte.saturating_sub(8)..(byte + 8).min(text.len())])
}

/// FNV-1a: the standard library's hash may change from release to release, and with it every cached window.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
