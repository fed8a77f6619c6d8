//! What is shown of a result: its parts, the terms that brought most, the lines that hold them.

use std::collections::HashMap;
use std::ops::Range;

use crate::index::lexical::{LexicalIndex, Matches};
use crate::index::tokens;
use crate::types::{Candidate, Level, TextError};

use super::ranker::Parts;

/// One result.
#[derive(Debug, Clone)]
pub struct Hit {
    pub candidate: Candidate,
    pub score: f32,
    pub parts: Parts,
    /// The query terms that brought most, with their BM25 scores.
    pub terms: Vec<(String, f32)>,
    /// The lines that hold most of the query, best first.
    pub lines: Vec<MatchedLine>,
}

/// A line of a result that holds terms of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedLine {
    pub line: u32,
    pub text: String,
}

/// Lines shown of each result.
const SHOWN_LINES: usize = 3;
/// A line that is worth less than this share of the best one is not shown: it holds a common word or two.
const SHOWN_SHARE: f32 = 0.25;
/// Characters shown of a line; data and minified code have lines of a megabyte.
const SHOWN_WIDTH: usize = 240;
/// Terms shown of each result.
const SHOWN_TERMS: usize = 6;

/// Makes hits of one level's candidates.
pub struct Shower<'a> {
    /// Positions of the level's documents.
    documents: &'a [usize],
    matches: &'a Matches<'a>,
    worths: TermWorths<'a>,
}

impl<'a> Shower<'a> {
    pub fn new(index: &'a LexicalIndex, level: Level, matches: &'a Matches<'a>) -> Self {
        Shower { documents: index.documents(level), matches, worths: TermWorths::new(matches) }
    }

    /// The candidate at a position of the list as a result.
    ///
    /// # Errors
    /// When its text can't be had.
    pub fn hit(&self, candidates: &[Candidate], at: usize, parts: Parts) -> Result<Hit, TextError> {
        let candidate = candidates[at].clone();
        let by_term = self.matches.explain(self.documents.partition_point(|&it| it < at));
        let terms = by_term.into_iter().take(SHOWN_TERMS).map(|(term, score)| (term.to_owned(), score)).collect();
        Ok(Hit { score: parts.score(), parts, terms, lines: self.lines(&candidate)?, candidate })
    }

    fn lines(&self, candidate: &Candidate) -> Result<Vec<MatchedLine>, TextError> {
        let (text, body) = (candidate.source.text()?, candidate.body()?);
        let mut reader = WorthReader::new(&self.worths);
        let (mut best, mut offset): (Vec<(f32, usize, &str)>, usize) = (Vec::new(), 0);
        for line in body.split_inclusive('\n') {
            let worth = reader.worth(line);
            // Of equal ones the earlier.
            let place = best.partition_point(|it| it.0 >= worth);
            if worth > 0.0 && place < SHOWN_LINES {
                best.insert(place, (worth, offset, line));
                best.truncate(SHOWN_LINES);
            }
            offset += line.len();
        }
        let least = best.first().map_or(0.0, |best| best.0 * SHOWN_SHARE);
        let matched = |(_, offset, line): (f32, usize, &str)| MatchedLine {
            line: text.line_at(candidate.range.start + offset),
            text: shown_text(line.trim()),
        };
        Ok(best.into_iter().filter(|it| it.0 >= least).map(matched).collect())
    }
}

/// The beginning of a line, with a mark where it is cut.
fn shown_text(line: &str) -> String {
    match line.char_indices().nth(SHOWN_WIDTH) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// What each query term is worth where it stands: its weight times its rarity.
pub struct TermWorths<'t> {
    /// Numbers of the terms.
    terms: HashMap<&'t str, usize>,
    worths: Vec<f32>,
}

impl<'t> TermWorths<'t> {
    pub fn new(matches: &Matches<'t>) -> Self {
        let terms = matches.gains().enumerate().map(|(at, (term, _))| (term, at)).collect();
        TermWorths { terms, worths: matches.gains().map(|it| it.1).collect() }
    }

    /// The worth of the distinct query terms in a text.
    pub fn of(&self, text: &str) -> f32 {
        WorthReader::new(self).worth(text)
    }
}

/// Reads the worth of one text after another. A word is taken apart once, however often it stands there.
struct WorthReader<'w, 't> {
    worths: &'w TermWorths<'w>,
    /// The query terms in a word, as a range of `terms`.
    by_word: HashMap<&'t str, Range<usize>, foldhash::fast::RandomState>,
    terms: Vec<usize>,
    /// The text in which each query term was seen last.
    seen: Vec<usize>,
    text: usize,
    buffer: String,
}

impl<'w, 't> WorthReader<'w, 't> {
    fn new(worths: &'w TermWorths<'w>) -> Self {
        let (by_word, terms, buffer) = (HashMap::default(), Vec::new(), String::new());
        WorthReader { worths, by_word, terms, seen: vec![0; worths.worths.len()], text: 0, buffer }
    }

    fn worth(&mut self, text: &'t str) -> f32 {
        self.text += 1;
        let mut sum = 0.0;
        for word in tokens::words(text) {
            for at in self.terms_of(&text[word.range()]) {
                let term = self.terms[at];
                if std::mem::replace(&mut self.seen[term], self.text) != self.text {
                    sum += self.worths.worths[term];
                }
            }
        }
        sum
    }

    fn terms_of(&mut self, word: &'t str) -> Range<usize> {
        if let Some(known) = self.by_word.get(word) {
            return known.clone();
        }
        let start = self.terms.len();
        tokens::terms_of(word, &mut self.buffer, |term| self.terms.extend(self.worths.terms.get(term)));
        let range = start..self.terms.len();
        self.by_word.insert(word, range.clone());
        range
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::index::lexical::{QueryTerm, Scheme};
    use crate::types::{Source, Text};

    /// Lines shown of a file, by number, for a query of words that stand in it.
    #[track_caller]
    fn check(text: &str, query: &[&str], expected: &[u32]) {
        let other = Source::new("other", "Text", Text::new("common"));
        let candidates = [Source::new("file", "Text", Text::new(text)), other].map(|it| Candidate::file(Arc::new(it)));
        let index = LexicalIndex::build(&candidates).expect("in memory");
        let terms: Vec<QueryTerm> = query.iter().map(|it| QueryTerm { text: (*it).into(), weight: 1.0 }).collect();
        let scheme = Scheme {
            k1: 1.2,
            weights: [1.0, 0.0, 0.0],
            lengths: crate::index::lexical::LengthNorm::Joined { b: 0.75 },
        };
        let matches = index.matches(Level::File, &terms, &scheme).expect("sound");
        let hit = Shower::new(&index, Level::File, &matches).hit(&candidates, 0, Parts::default()).expect("in memory");
        assert_eq!(hit.lines.iter().map(|it| it.line).collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn the_lines_with_most_of_the_query_come_first() {
        check("red\nnothing\nred blue\n", &["red", "blue"], &[3, 1]);
        check("red red\nred\n", &["red"], &[1, 2]);
        check("a\nb\n", &["red"], &[]);
    }

    #[test]
    fn a_line_with_a_common_word_alone_is_not_shown() {
        check("red blue green\ncommon\n", &["red", "blue", "green", "common"], &[1]);
    }

    #[test]
    fn a_cut_line_is_marked() {
        assert_eq!(shown_text(&"ö".repeat(240)), "ö".repeat(240));
        assert_eq!(shown_text(&"ö".repeat(241)), "ö".repeat(240) + "…");
    }
}
