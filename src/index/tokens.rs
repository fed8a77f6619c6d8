//! The code tokenizer: text to terms, for candidates and issues alike.
//!
//! A term is a whole identifier in lower case, each of its camelCase and snake_case parts when it has more than one,
//! or a number. Scripts written without spaces (Han, kana, Hangul) give a term a character. Punctuation gives nothing.

use std::ops::Range;

/// A word of a text: the byte range of an identifier or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    pub start: usize,
    pub end: usize,
}

impl Word {
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// Words longer than this are data (a hash, a base64 line), not names; they give no term.
const LONGEST_WORD: usize = 128;

/// The words of a text, in order.
pub fn words(text: &str) -> impl Iterator<Item = Word> + '_ {
    let mut rest = 0;
    std::iter::from_fn(move || {
        loop {
            let start = rest;
            let (kind, after) = character(text, start)?;
            rest = if kind == Kind::Word { word_end(text, after) } else { after };
            if kind != Kind::Other && rest - start <= LONGEST_WORD {
                return Some(Word { start, end: rest });
            }
        }
    })
}

/// What a character is to a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Other,
    Word,
    /// A word by itself.
    Unspaced,
}

/// The kind of the character at a byte, and where it ends. Nearly all source text is ASCII, for which a byte says it.
#[inline]
fn character(text: &str, at: usize) -> Option<(Kind, usize)> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        let is_word = byte == b'_' || byte.is_ascii_alphanumeric();
        return Some((if is_word { Kind::Word } else { Kind::Other }, at + 1));
    }
    let character = text[at..].chars().next()?;
    let kind = match character {
        it if !it.is_alphanumeric() => Kind::Other,
        it if is_unspaced(it) => Kind::Unspaced,
        _ => Kind::Word,
    };
    Some((kind, at + character.len_utf8()))
}

fn word_end(text: &str, mut end: usize) -> usize {
    while let Some((Kind::Word, after)) = character(text, end) {
        end = after;
    }
    end
}

/// Calls `emit` with each term of a word: the whole in lower case, then its parts when there are several.
pub fn terms_of(word: &str, buffer: &mut String, mut emit: impl FnMut(&str)) {
    lower_into(word.trim_matches('_'), buffer);
    if buffer.is_empty() {
        return;
    }
    emit(buffer);
    let mut parts = parts(word).peekable();
    let whole = parts.next();
    if parts.peek().is_none() {
        return;
    }
    for part in whole.into_iter().chain(parts) {
        lower_into(part, buffer);
        emit(buffer);
    }
}

/// Every term of a text, in order.
pub fn terms(text: &str) -> Vec<String> {
    let mut buffer = String::new();
    let mut out = Vec::new();
    for word in words(text) {
        terms_of(&text[word.range()], &mut buffer, |term| out.push(term.to_owned()));
    }
    out
}

fn lower_into(word: &str, buffer: &mut String) {
    buffer.clear();
    if word.is_ascii() {
        buffer.push_str(word);
        buffer.make_ascii_lowercase();
    } else {
        buffer.extend(word.chars().flat_map(char::to_lowercase));
    }
}

/// Scripts that don't put spaces between words.
fn is_unspaced(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3fffd}')
}

/// The parts of an identifier: cut at `_`, before a capital after a small letter or digit (`fooBar`), before the last
/// capital of a run that a small letter follows (`HTTPServer`), and between letters and digits.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    word.split('_').flat_map(camel_parts).filter(|part| !part.is_empty())
}

fn camel_parts(piece: &str) -> impl Iterator<Item = &str> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = rest.split_at(first_cut(rest));
        rest = after;
        Some(part)
    })
}

fn first_cut(piece: &str) -> usize {
    let mut characters = piece.char_indices().peekable();
    let mut previous: Option<char> = None;
    while let Some((at, current)) = characters.next() {
        if let Some(before) = previous {
            let next_is_small = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
            let new_hump = current.is_uppercase() && (!before.is_uppercase() || next_is_small);
            if new_hump || before.is_numeric() != current.is_numeric() {
                return at;
            }
        }
        previous = Some(current);
    }
    piece.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(terms(text), expected);
    }

    #[test]
    fn identifiers_give_the_whole_and_the_parts() {
        check("parseHTTPRequest", &["parsehttprequest", "parse", "http", "request"]);
        check("snake_case_name", &["snake_case_name", "snake", "case", "name"]);
        check("__init__", &["init"]);
        check("plain", &["plain"]);
        check("utf8Decoder", &["utf8decoder", "utf", "8", "decoder"]);
        check("MAX_SIZE", &["max_size", "max", "size"]);
        check("_", &[]);
    }

    #[test]
    fn punctuation_separates_and_gives_nothing() {
        check("self.foo(x) -> Bar::new", &["self", "foo", "x", "bar", "new"]);
        check("a+b=42;", &["a", "b", "42"]);
    }

    #[test]
    fn scripts_without_spaces_give_characters() {
        check("修复bug", &["修", "复", "bug"]);
    }

    #[test]
    fn data_gives_nothing() {
        check(&"A".repeat(LONGEST_WORD + 1), &[]);
    }

    /// The same by characters.
    fn words_by_characters(text: &str) -> Vec<String> {
        let is_word = |it: &char| *it == '_' || it.is_alphanumeric();
        let alone = |it: char| if is_unspaced(it) { format!(" {it} ") } else { it.to_string() };
        let spaced: String = text.chars().map(|it| if is_word(&it) { alone(it) } else { " ".to_owned() }).collect();
        spaced.split(' ').filter(|it| !it.is_empty() && it.len() <= LONGEST_WORD).map(str::to_owned).collect()
    }

    proptest::proptest! {
        #[test]
        fn bytes_and_characters_give_the_same_words(text in "([a-z_ .1]|修|é|Ж|が|\\PC){0,60}|[a_]{120,140}é?") {
            let found: Vec<&str> = words(&text).map(|it| &text[it.range()]).collect();
            assert_eq!(found, words_by_characters(&text));
        }

        #[test]
        fn words_are_on_character_boundaries_and_in_order(text in ".{0,200}") {
            let mut end = 0;
            for word in words(&text) {
                assert!(word.start >= end && text.get(word.range()).is_some());
                end = word.end;
            }
        }
    }
}
