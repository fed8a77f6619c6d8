//! Names as they were read from a picture, and names of the repository that they may be.
//!
//! Reading mixes up letters that look alike and loses thin ones. What a repository does not know is looked for among the names that it has.

use std::collections::HashSet;

use crate::evidence::confusion::{ReadNames, skeleton};
use crate::fsio::FileError;
use crate::index::lexical::LexicalIndex;
use crate::index::tokens;

/// Characters of the shortest name that look-alikes are looked for.
const LEAST: usize = 4;
/// Unknown names of a picture that are looked for.
const MOST_NAMES: usize = 256;
/// Look-alikes of a name that count; more are none.
const MOST_ALIKE: usize = 3;

/// Which look-alikes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alike {
    /// Those that differ in what reading mixes up.
    Equal,
    /// Those with one letter more, less or another, too; but not at the beginning, where `get` and `set` part.
    Edited,
}

/// Names that are looked for among others.
pub struct Near {
    names: ReadNames,
    firsts: Vec<Option<char>>,
    alike: Alike,
    /// The names that were found for each.
    found: Vec<HashSet<String>>,
    buffer: String,
}

impl Near {
    pub fn of<'n>(names: impl Iterator<Item = &'n str>, alike: Alike) -> Self {
        let names: Vec<&str> = names.take(MOST_NAMES).collect();
        let is_long = |it: &str| it.chars().count() >= LEAST;
        let firsts = names.iter().map(|it| skeleton(it).chars().next().filter(|_| is_long(it))).collect();
        let found = vec![HashSet::new(); names.len()];
        Near { names: ReadNames::new(names), firsts, alike, found, buffer: String::new() }
    }

    /// Looks at a name of the repository.
    pub fn see(&mut self, name: &str) {
        let Some(near) = self.names.find(name, &mut self.buffer) else { return };
        let first = self.firsts[near.read].filter(|it| self.buffer.starts_with(*it));
        if first.is_some() && (near.is_equal || self.alike == Alike::Edited) {
            self.found[near.read].insert(name.to_owned());
        }
    }

    /// For each name in its order, the names of the repository that it may be. One that may be many is none of them.
    pub fn found(self) -> Vec<Vec<String>> {
        let few = |names: HashSet<String>| {
            let mut names: Vec<String> = names.into_iter().collect();
            names.sort_unstable();
            if names.len() > MOST_ALIKE { Vec::new() } else { names }
        };
        self.found.into_iter().map(few).collect()
    }
}

/// Adds to a text that was read from a picture the words of an index that its unknown words look like.
///
/// # Errors
/// When the index is damaged.
pub fn correct(text: &mut String, index: &LexicalIndex) -> Result<(), FileError> {
    let mut unknown = Vec::new();
    let mut seen = HashSet::new();
    for word in tokens::words(text) {
        let term = text[word.range()].to_lowercase();
        if term.len() >= LEAST && unknown.len() < MOST_NAMES && seen.insert(term.clone()) && !index.has(&term)? {
            unknown.push(term);
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let mut near = Near::of(unknown.iter().map(String::as_str), Alike::Equal);
    index.each_term(&mut |term| near.see(term))?;
    for name in near.found().into_iter().flatten() {
        text.push('\n');
        text.push_str(&name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{Candidate, Source, Text};

    #[track_caller]
    fn check(read: &str, written: &[&str], expected: &[&str]) {
        let mut near = Near::of([read].into_iter(), Alike::Edited);
        written.iter().for_each(|it| near.see(it));
        assert_eq!(near.found(), [expected.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()], "{read}");
    }

    #[test]
    fn a_name_is_found_by_what_looks_like_it() {
        check("parseJS0N", &["parseJSON", "parseXML"], &["parseJSON"]);
        check("next_t0ken", &["nextToken", "next_token"], &["nextToken", "next_token"]);
        check("handleClck", &["handleClick"], &["handleClick"]);
        check("getValue", &["setValue"], &[]);
        check("l0g", &["log"], &[]);
        check("node", &["nodes"], &[]);
    }

    #[test]
    fn words_that_a_repository_does_not_know_bring_those_that_it_does() {
        let source = Source::new("a.py", "Python", Text::new("def next_token(): raise LexError"));
        let index = LexicalIndex::build(&[Candidate::file(Arc::new(source))]).expect("in memory");
        let corrected = |read: &str| {
            let mut text = read.to_owned();
            correct(&mut text, &index).expect("sound");
            text
        };
        assert_eq!(corrected("LexErr0r in next_t0ken"), "LexErr0r in next_t0ken\nlexerror\nnext_token");
        assert_eq!(corrected("next_token here"), "next_token here");
    }
}
