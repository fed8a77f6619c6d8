//! How often each term stands in each field of each candidate, from one pass over the text of each file.

use std::collections::HashMap;
use std::sync::Arc;

use super::{FIELDS, field};
use crate::index::tokens;
use crate::types::{Candidate, Level, TextError};

/// Files are counted in runs of about so many bytes: within a run a word is taken apart once, however many files it stands in,
/// and runs are counted in parallel.
const LEAST_RUN: usize = 1 << 18;
/// Runs for each thread, so that none waits long for the slowest.
const RUNS_PER_THREAD: usize = 4;

/// Slices of `candidates` to be counted apart; the candidates of one file stay together.
pub(super) fn runs(candidates: &[Candidate]) -> Vec<&[Candidate]> {
    let bytes: usize = files(candidates).map(bytes_of).sum();
    let least = LEAST_RUN.max(bytes / (RUNS_PER_THREAD * rayon::current_num_threads()));
    let (mut runs, mut rest, mut length, mut gathered) = (Vec::new(), candidates, 0, 0);
    for file in files(candidates) {
        length += file.len();
        gathered += bytes_of(file);
        if gathered >= least || length == rest.len() {
            let (run, after) = rest.split_at(length);
            runs.push(run);
            (rest, length, gathered) = (after, 0, 0);
        }
    }
    runs
}

/// The candidates of each file.
fn files(candidates: &[Candidate]) -> impl Iterator<Item = &[Candidate]> {
    candidates.chunk_by(|a, b| Arc::ptr_eq(&a.source, &b.source))
}

fn bytes_of(file: &[Candidate]) -> usize {
    file.first().map_or(0, |it| it.range.len())
}

/// A term's counts in one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Posting {
    pub document: u32,
    pub counts: [u16; FIELDS],
}

/// Terms by number.
pub(super) type Terms = HashMap<String, u32, foldhash::fast::RandomState>;

/// The counts of some candidates.
#[derive(Default)]
pub(super) struct Counted {
    /// Of each candidate.
    pub levels: Vec<Level>,
    /// Terms by field, of each candidate.
    pub lengths: Vec<[u32; FIELDS]>,
    /// Terms and their numbers.
    pub terms: Terms,
    /// Numbers of terms with their postings, ordered by document; by level, whose documents are numbered from 0.
    pub postings: [Vec<(u32, Posting)>; 2],
    documents: [u32; 2],
}

impl Counted {
    pub(super) fn of(candidates: &[Candidate]) -> Result<Self, TextError> {
        let (mut counted, mut lexicon, mut counter) = (Counted::default(), Lexicon::default(), Counter::default());
        for file in files(candidates) {
            counted.add_file(file, &mut lexicon, &mut counter)?;
        }
        counted.terms = lexicon.by_term;
        Ok(counted)
    }

    /// Documents of a level.
    pub(super) fn documents(&self, level: Level) -> u32 {
        self.documents[level as usize]
    }

    fn add_file<'c>(
        &mut self,
        file: &'c [Candidate],
        lexicon: &mut Lexicon<'c>,
        counter: &mut Counter,
    ) -> Result<(), TextError> {
        let Some(first) = file.first() else { return Ok(()) };
        let content: &str = &first.source.text()?.content;
        let words: Vec<(usize, u32)> =
            tokens::words(content).map(|it| (it.start, lexicon.word(&content[it.range()]))).collect();
        let path = lexicon.words_of(first.path());
        let names: Vec<Vec<u32>> =
            file.iter().map(|it| lexicon.words_of(it.name.as_deref().unwrap_or_default())).collect();
        counter.counts.resize(lexicon.by_term.len(), [0; FIELDS]);
        for (candidate, name) in file.iter().zip(&names) {
            let from = words.partition_point(|it| it.0 < candidate.range.start);
            let to = words.partition_point(|it| it.0 < candidate.range.end);
            words[from..to.max(from)].iter().for_each(|it| counter.add(field::BODY, lexicon.terms_of(it.1)));
            path.iter().for_each(|it| counter.add(field::PATH, lexicon.terms_of(*it)));
            let names = if candidate.level == Level::File { &names[..] } else { std::slice::from_ref(name) };
            names.iter().flatten().for_each(|it| counter.add(field::NAME, lexicon.terms_of(*it)));
            self.add_document(candidate.level, counter);
        }
        Ok(())
    }

    fn add_document(&mut self, level: Level, counter: &mut Counter) {
        let document = self.documents[level as usize];
        self.documents[level as usize] += 1;
        self.levels.push(level);
        self.lengths.push(std::mem::take(&mut counter.lengths));
        for term in counter.touched.drain(..) {
            let counts = std::mem::take(&mut counter.counts[term as usize]);
            self.postings[level as usize].push((term, Posting { document, counts }));
        }
    }
}

/// Words and terms by number. A word is taken apart once, however often it stands there.
#[derive(Default)]
struct Lexicon<'c> {
    by_word: HashMap<&'c str, u32, foldhash::fast::RandomState>,
    /// Where the terms of each word end in `terms`; they begin where those of the word before end.
    ends: Vec<u32>,
    terms: Vec<u32>,
    by_term: Terms,
    buffer: String,
}

impl<'c> Lexicon<'c> {
    fn word(&mut self, word: &'c str) -> u32 {
        let next = self.by_word.len() as u32;
        let number = *self.by_word.entry(word).or_insert(next);
        if number == next {
            self.take_apart(word);
        }
        number
    }

    fn take_apart(&mut self, word: &str) {
        let Lexicon { by_term, terms, buffer, .. } = self;
        tokens::terms_of(word, buffer, |term| {
            let number = by_term.get(term).copied().unwrap_or_else(|| {
                let next = by_term.len() as u32;
                by_term.insert(term.to_owned(), next);
                next
            });
            terms.push(number);
        });
        self.ends.push(self.terms.len() as u32);
    }

    /// The words of a whole text.
    fn words_of(&mut self, text: &'c str) -> Vec<u32> {
        tokens::words(text).map(|it| self.word(&text[it.range()])).collect()
    }

    fn terms_of(&self, word: u32) -> &[u32] {
        let start = word.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.terms[start as usize..self.ends[word as usize] as usize]
    }
}

/// Counts terms by field for one document after another.
#[derive(Default)]
struct Counter {
    counts: Vec<[u16; FIELDS]>,
    touched: Vec<u32>,
    lengths: [u32; FIELDS],
}

impl Counter {
    fn add(&mut self, field: usize, terms: &[u32]) {
        self.lengths[field] = self.lengths[field].saturating_add(terms.len() as u32);
        for &term in terms {
            let counts = &mut self.counts[term as usize];
            if *counts == [0; FIELDS] {
                self.touched.push(term);
            }
            counts[field] = counts[field].saturating_add(1);
        }
    }
}
