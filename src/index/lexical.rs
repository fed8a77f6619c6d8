//! BM25 over candidates: an inverted index in memory with three fields, scored as one bag of words or field by field.
//!
//! Built here rather than on a search library because the ranker asks for what such a library hides: both
//! schemes over the same postings, a document's score by term, weights on query terms, and nested documents (a
//! function is part of its file) counted from one pass over the text.
//!
//! Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, eq. 3.13 and 3.19;
//! the inverse document frequency is Lucene's, ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.

use std::collections::HashMap;
use std::ops::Range;

use rayon::prelude::*;

use super::tokens;
use crate::types::{Candidate, Level, TextError};

/// Number of fields of a document.
pub const FIELDS: usize = 3;

/// A document's fields, as indices into weights and lengths.
pub mod field {
    /// The candidate's source text.
    pub const BODY: usize = 0;
    /// The repository-relative path.
    pub const PATH: usize = 1;
    /// A function's qualified name; for a file, the names that it defines.
    pub const NAME: usize = 2;
}

/// A term of a query with its weight (its capped count, times whatever the ranker thinks of it).
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTerm {
    pub text: String,
    pub weight: f32,
}

/// How term counts become a score. `weights` and `b` are by [`field`].
#[derive(Debug, Clone)]
pub struct Scheme {
    /// Saturation of a term's count.
    pub k1: f32,
    pub weights: [f32; FIELDS],
    pub lengths: LengthNorm,
}

/// What a document's length is compared with.
#[derive(Debug, Clone)]
pub enum LengthNorm {
    /// Plain BM25: the weighted fields are one text with one length.
    Joined { b: f32 },
    /// BM25F: each field has its own length.
    Fields { b: [f32; FIELDS] },
}

/// The index of one snapshot's candidates, at both levels.
pub struct LexicalIndex {
    vocabulary: HashMap<Box<str>, u32>,
    files: LevelIndex,
    functions: LevelIndex,
}

/// The documents of one level; only they compete with each other, so counts and averages are theirs alone.
#[derive(Default)]
struct LevelIndex {
    /// Position in the candidate list, by document.
    candidates: Vec<usize>,
    /// Terms by field, by document.
    lengths: Vec<[u32; FIELDS]>,
    /// Mean of the lengths.
    averages: [f32; FIELDS],
    /// By term id; ordered by document.
    postings: Vec<Vec<Posting>>,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    document: u32,
    counts: [u16; FIELDS],
}

impl LexicalIndex {
    /// Indexes candidates, in parallel over files. A file's functions follow it in `candidates`.
    pub fn build(candidates: &[Candidate]) -> Result<Self, TextError> {
        let counted: Vec<CountedFile> = groups(candidates)
            .into_par_iter()
            .map(|group| CountedFile::of(candidates, group))
            .collect::<Result<_, _>>()?;
        let mut index =
            LexicalIndex { vocabulary: HashMap::new(), files: LevelIndex::default(), functions: LevelIndex::default() };
        for file in counted {
            index.add(candidates, file);
        }
        for level in [&mut index.files, &mut index.functions] {
            level.averages = level.average_lengths();
        }
        Ok(index)
    }

    fn add(&mut self, candidates: &[Candidate], file: CountedFile) {
        let ids: Vec<u32> = file
            .terms
            .into_iter()
            .map(|term| {
                let next = self.vocabulary.len() as u32;
                *self.vocabulary.entry(term.into_boxed_str()).or_insert(next)
            })
            .collect();
        for document in file.documents {
            let level = match candidates[document.candidate].level {
                Level::File => &mut self.files,
                Level::Function => &mut self.functions,
            };
            level.add(document, &ids);
        }
    }

    fn level(&self, level: Level) -> &LevelIndex {
        match level {
            Level::File => &self.files,
            Level::Function => &self.functions,
        }
    }

    /// Positions of a level's documents in the candidate list, in the order of [`Self::scores`].
    pub fn documents(&self, level: Level) -> &[usize] {
        &self.level(level).candidates
    }

    /// The score of every document of a level; 0 where no term matches.
    pub fn scores(&self, level: Level, query: &[QueryTerm], scheme: &Scheme) -> Vec<f32> {
        let index = self.level(level);
        let factors: Vec<_> = index.lengths.iter().map(|it| scheme.factors(it, &index.averages)).collect();
        let mut scores = vec![0.0; index.candidates.len()];
        for (term, postings) in self.matching(level, query) {
            let gain = term.weight * index.rarity(postings.len());
            for posting in postings {
                let document = posting.document as usize;
                scores[document] += gain * scheme.saturated(&posting.counts, &factors[document]);
            }
        }
        scores
    }

    /// What each query term brings to one document, largest first.
    pub fn explain<'a>(
        &self,
        level: Level,
        document: usize,
        query: &'a [QueryTerm],
        scheme: &Scheme,
    ) -> Vec<(&'a str, f32)> {
        let index = self.level(level);
        let factors = scheme.factors(&index.lengths[document], &index.averages);
        let part = |(term, postings): (&'a QueryTerm, &[Posting])| {
            let at = postings.binary_search_by_key(&(document as u32), |it| it.document).ok()?;
            let count = scheme.saturated(&postings[at].counts, &factors);
            Some((term.text.as_str(), term.weight * index.rarity(postings.len()) * count))
        };
        let mut parts: Vec<(&str, f32)> = self.matching(level, query).filter_map(part).collect();
        parts.retain(|(_, score)| *score > 0.0);
        parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        parts
    }

    /// Inverse document frequency of a term at a level; `None` when it stands in no document.
    pub fn rarity(&self, level: Level, term: &str) -> Option<f32> {
        let index = self.level(level);
        let postings = index.postings.get(*self.vocabulary.get(term)? as usize).filter(|it| !it.is_empty())?;
        Some(index.rarity(postings.len()))
    }

    fn matching<'a, 'q>(
        &'a self,
        level: Level,
        query: &'q [QueryTerm],
    ) -> impl Iterator<Item = (&'q QueryTerm, &'a [Posting])> {
        let index = self.level(level);
        query.iter().filter_map(|term| {
            let id = *self.vocabulary.get(term.text.as_str())?;
            Some((term, index.postings.get(id as usize)?.as_slice()))
        })
    }
}

impl LevelIndex {
    fn add(&mut self, document: CountedDocument, ids: &[u32]) {
        let number = self.candidates.len() as u32;
        self.candidates.push(document.candidate);
        self.lengths.push(document.lengths);
        for (local, counts) in document.counts {
            let id = ids[local as usize] as usize;
            if self.postings.len() <= id {
                self.postings.resize_with(id + 1, Vec::new);
            }
            self.postings[id].push(Posting { document: number, counts });
        }
    }

    /// Inverse document frequency of a term that stands in so many documents.
    fn rarity(&self, containing: usize) -> f32 {
        let (documents, containing) = (self.candidates.len() as f32, containing as f32);
        (1.0 + (documents - containing + 0.5) / (containing + 0.5)).ln()
    }

    /// Mean of each field's length; 1 where all are empty, so that no division by zero can arise.
    fn average_lengths(&self) -> [f32; FIELDS] {
        std::array::from_fn(|field| {
            let total: f64 = self.lengths.iter().map(|it| f64::from(it[field])).sum();
            let mean = total / self.lengths.len().max(1) as f64;
            if mean > 0.0 { mean as f32 } else { 1.0 }
        })
    }
}

impl Scheme {
    /// The saturated, length-normalised count of a term in a document with these factors.
    fn saturated(&self, counts: &[u16; FIELDS], factors: &[f32; FIELDS]) -> f32 {
        let count: f32 = (0..FIELDS).map(|field| f32::from(counts[field]) * factors[field]).sum();
        (self.k1 + 1.0) * count / (self.k1 + count)
    }

    /// What a count in each field of a document counts for.
    fn factors(&self, lengths: &[u32; FIELDS], averages: &[f32; FIELDS]) -> [f32; FIELDS] {
        let weighted = |of: &dyn Fn(usize) -> f32| (0..FIELDS).map(|it| self.weights[it] * of(it)).sum::<f32>();
        match &self.lengths {
            LengthNorm::Joined { b } => {
                let average = weighted(&|it| averages[it]).max(f32::EPSILON);
                let norm = 1.0 - b + b * weighted(&|it| lengths[it] as f32) / average;
                self.weights.map(|weight| weight / norm)
            }
            LengthNorm::Fields { b } => {
                std::array::from_fn(|it| self.weights[it] / (1.0 - b[it] + b[it] * lengths[it] as f32 / averages[it]))
            }
        }
    }
}

/// Ranges of `candidates` that share a source.
fn groups(candidates: &[Candidate]) -> Vec<Range<usize>> {
    let mut start = 0;
    candidates
        .chunk_by(|a, b| std::sync::Arc::ptr_eq(&a.source, &b.source))
        .map(|chunk| {
            start += chunk.len();
            start - chunk.len()..start
        })
        .collect()
}

/// The term counts of a file's candidates, with terms numbered within the file.
struct CountedFile {
    terms: Vec<String>,
    documents: Vec<CountedDocument>,
}

struct CountedDocument {
    candidate: usize,
    lengths: [u32; FIELDS],
    counts: Vec<(u32, [u16; FIELDS])>,
}

impl CountedFile {
    fn of(candidates: &[Candidate], group: Range<usize>) -> Result<Self, TextError> {
        let content = &candidates[group.start].source.text()?.content;
        let mut lexicon = Lexicon::default();
        let words: Vec<(usize, u32)> =
            tokens::words(content).map(|it| (it.start, lexicon.word(&content[it.range()]))).collect();
        let path: Vec<u32> = lexicon.all(candidates[group.start].path());
        let names: Vec<Vec<u32>> =
            group.clone().map(|it| lexicon.all(candidates[it].name.as_deref().unwrap_or_default())).collect();

        let mut counter = Counter::new(lexicon.terms.len());
        let documents = group
            .clone()
            .map(|candidate| {
                let range = &candidates[candidate].range;
                let from = words.partition_point(|(start, _)| *start < range.start);
                let to = words.partition_point(|(start, _)| *start < range.end);
                words[from..to].iter().for_each(|(_, word)| counter.add(field::BODY, &lexicon.words[*word as usize]));
                counter.add(field::PATH, &path);
                match candidates[candidate].level {
                    Level::File => names.iter().for_each(|name| counter.add(field::NAME, name)),
                    Level::Function => counter.add(field::NAME, &names[candidate - group.start]),
                }
                let (lengths, counts) = counter.take();
                CountedDocument { candidate, lengths, counts }
            })
            .collect();
        Ok(CountedFile { terms: lexicon.terms, documents })
    }
}

/// Words and terms of one file. A word is taken apart once, however often it stands there.
#[derive(Default)]
struct Lexicon<'a> {
    by_word: HashMap<&'a str, u32>,
    /// Term numbers of each word.
    words: Vec<Vec<u32>>,
    by_term: HashMap<String, u32>,
    terms: Vec<String>,
    buffer: String,
}

impl<'a> Lexicon<'a> {
    fn word(&mut self, word: &'a str) -> u32 {
        if let Some(&known) = self.by_word.get(word) {
            return known;
        }
        let number = self.words.len() as u32;
        let terms = self.split(word);
        self.words.push(terms);
        self.by_word.insert(word, number);
        number
    }

    fn split(&mut self, word: &str) -> Vec<u32> {
        let Lexicon { by_term, terms, buffer, .. } = self;
        let mut numbers = Vec::new();
        tokens::terms_of(word, buffer, |term| {
            let number = by_term.get(term).copied().unwrap_or_else(|| {
                let next = terms.len() as u32;
                terms.push(term.to_owned());
                by_term.insert(term.to_owned(), next);
                next
            });
            numbers.push(number);
        });
        numbers
    }

    /// The terms of a whole text.
    fn all(&mut self, text: &str) -> Vec<u32> {
        tokens::words(text).flat_map(|it| self.split(&text[it.range()])).collect()
    }
}

/// Counts terms by field for one document after another.
struct Counter {
    counts: Vec<[u16; FIELDS]>,
    touched: Vec<u32>,
    lengths: [u32; FIELDS],
}

impl Counter {
    fn new(terms: usize) -> Self {
        Counter { counts: vec![[0; FIELDS]; terms], touched: Vec::new(), lengths: [0; FIELDS] }
    }

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

    fn take(&mut self) -> ([u32; FIELDS], Vec<(u32, [u16; FIELDS])>) {
        let counts =
            self.touched.drain(..).map(|term| (term, std::mem::take(&mut self.counts[term as usize]))).collect();
        (std::mem::take(&mut self.lengths), counts)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::{Lines, Source, Text};

    fn candidates(files: &[(&str, &str)]) -> Vec<Candidate> {
        files
            .iter()
            .map(|(path, text)| Candidate::file(Arc::new(Source::new(*path, "Text", Text::new(*text)))))
            .collect()
    }

    fn query(terms: &[&str]) -> Vec<QueryTerm> {
        terms.iter().map(|it| QueryTerm { text: (*it).to_owned(), weight: 1.0 }).collect()
    }

    fn plain() -> Scheme {
        Scheme { k1: 1.2, weights: [1.0, 0.0, 0.0], lengths: LengthNorm::Joined { b: 0.75 } }
    }

    #[track_caller]
    fn check(actual: &[f32], expected: &[f32]) {
        assert_eq!(actual.len(), expected.len());
        for (a, b) in actual.iter().zip(expected) {
            assert!((a - b).abs() < 1e-4, "{actual:?} is not {expected:?}");
        }
    }

    /// By hand: N = 2, n = 1, idf = ln(1 + 1.5/1.5) = 0.693147; lengths 2 and 4, mean 3. For the first document
    /// tf = 2 / (0.25 + 0.75 * 2/3) = 2.666667 and 2.2 * tf / (1.2 + tf) = 1.517241, times idf = 1.051672.
    #[test]
    fn plain_bm25_is_what_the_formula_gives() {
        let index =
            LexicalIndex::build(&candidates(&[("a", "red red"), ("b", "blue green blue blue")])).expect("in memory");
        check(&index.scores(Level::File, &query(&["red"]), &plain()), &[1.051_672, 0.0]);
    }

    /// By hand, BM25F with the path weighing 3: "red" stands once in the path of `red` (length 1, mean 1) and once in
    /// the body of `b` (length 2, mean 1.5). tf(a) = 3, tf(b) = 1 / (0.25 + 0.75 * 2/1.5) = 0.8; n = 2, N = 2:
    /// idf = ln(1.2) = 0.182322; scores 0.182322 * 2.2 * 3 / 4.2 = 0.286505 and 0.182322 * 2.2 * 0.8 / 2 = 0.160443.
    #[test]
    fn fields_are_weighed_and_normalised_apart() {
        let index = LexicalIndex::build(&candidates(&[("red", "blue"), ("b", "red blue")])).expect("in memory");
        let scheme = Scheme { k1: 1.2, weights: [1.0, 3.0, 0.0], lengths: LengthNorm::Fields { b: [0.75, 0.3, 0.3] } };
        check(&index.scores(Level::File, &query(&["red"]), &scheme), &[0.286_505, 0.160_443]);
    }

    #[test]
    fn an_explanation_adds_up_to_the_score() {
        let index = LexicalIndex::build(&candidates(&[("a", "red blue red"), ("b", "blue green")])).expect("in memory");
        let terms = query(&["red", "blue", "absent"]);
        let scores = index.scores(Level::File, &terms, &plain());
        let parts = index.explain(Level::File, 0, &terms, &plain());
        assert_eq!(parts.iter().map(|it| it.0).collect::<Vec<_>>(), ["red", "blue"]);
        check(&[parts.iter().map(|it| it.1).sum()], &scores[..1]);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let empty = LexicalIndex::build(&[]).expect("in memory");
        assert!(empty.scores(Level::File, &query(&["red"]), &plain()).is_empty());
        let blank = LexicalIndex::build(&candidates(&[("", ""), ("", "")])).expect("in memory");
        check(&blank.scores(Level::Function, &query(&["red"]), &plain()), &[]);
        check(&blank.scores(Level::File, &query(&["red"]), &plain()), &[0.0, 0.0]);
    }

    #[test]
    fn functions_are_counted_from_their_own_lines() {
        let source = Arc::new(Source::new("m.py", "Python", Text::new("def red(): pass\ndef other(): red()\n")));
        let all = [
            Candidate::file(source.clone()),
            Candidate::function(source.clone(), "red", 0..15, Lines { start: 1, end: 1 }),
            Candidate::function(source, "other", 16..34, Lines { start: 1, end: 1 }),
        ];
        let index = LexicalIndex::build(&all).expect("in memory");
        assert_eq!(index.documents(Level::Function), [1, 2]);
        let names = Scheme { weights: [0.0, 0.0, 1.0], ..plain() };
        let scores = index.scores(Level::Function, &query(&["red"]), &names);
        assert!(scores[0] > 0.0 && scores[1] == 0.0, "{scores:?}");
    }
}
