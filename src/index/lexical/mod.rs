//! BM25 over candidates: an inverted index with three fields, scored as one bag of words or field by field.
//!
//! An index is one or more parts, each the postings of some candidates as bytes: in memory when it was built just now, in a mapped
//! file when it was opened. Candidates that are gone stay in their part's postings and count for nothing.
//!
//! Built here rather than on a search library because the ranker asks for what such a library hides: both
//! schemes over the same postings, a document's score by term, weights on query terms, and nested documents (a
//! function is part of its file) counted from one pass over the text.
//!
//! Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, eq. 3.13 and 3.19;
//! the inverse document frequency is Lucene's, ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.

mod counting;
mod postings;

use rayon::prelude::*;

use crate::fsio::{FileError, Section};
use crate::types::{Candidate, Level, TextError};

use postings::Postings;
pub use postings::encode;

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

/// The index of some candidates, at both levels.
pub struct LexicalIndex {
    parts: Vec<OpenPart>,
    levels: [LevelIndex; 2],
}

/// Some of an index's candidates.
pub struct Part {
    /// What [`encode`] wrote for them.
    pub postings: Section,
    /// The place of each in the list of all candidates, or [`DELETED`]; ascending, as the part's candidates are in the order of that
    /// list.
    pub positions: Vec<u32>,
}

/// The position of a candidate that is in no list any more.
pub const DELETED: u32 = u32::MAX;

struct OpenPart {
    postings: Postings,
    /// The number of each of the part's documents among all of its level, or [`DELETED`]; by level.
    documents: [Vec<u32>; 2],
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
}

impl LexicalIndex {
    /// Indexes candidates, in parallel over files. A file's functions follow it in `candidates`.
    ///
    /// # Errors
    /// When a text can't be had.
    pub fn build(candidates: &[Candidate]) -> Result<Self, TextError> {
        let positions = (0..candidates.len() as u32).collect();
        let part = Part { postings: encode(candidates)?.into(), positions };
        // The bytes are of this moment, from the code that reads them: it has no reason to refuse them.
        Self::open(vec![part]).map_err(|error| TextError(error.to_string()))
    }

    /// Reads the tables of documents; postings are read when a query asks for them. What is found is what an index built afresh from
    /// the candidates that are not deleted would find.
    ///
    /// # Errors
    /// When a part is damaged, or its positions are not those of its candidates.
    pub fn open(parts: Vec<Part>) -> Result<Self, FileError> {
        let postings = |part: Part| Ok((Postings::open(part.postings)?, part.positions));
        let parts: Vec<(Postings, Vec<u32>)> = parts.into_iter().map(postings).collect::<Result<_, FileError>>()?;
        let rows = place(&parts)?;
        let mut levels = [LevelIndex::default(), LevelIndex::default()];
        // Numbers of documents, by position.
        let mut numbers = Vec::with_capacity(rows.len());
        for (position, (level, lengths)) in rows.into_iter().enumerate() {
            let level = &mut levels[level as usize];
            numbers.push(level.candidates.len() as u32);
            level.candidates.push(position);
            level.lengths.push(lengths);
        }
        levels.iter_mut().for_each(|it| it.averages = it.average_lengths());
        let number = |&position: &u32| numbers.get(position as usize).copied().unwrap_or(DELETED);
        let mut open = Vec::new();
        for (postings, positions) in parts {
            let mut documents = [Vec::new(), Vec::new()];
            for (&level, position) in postings.levels()?.iter().zip(&positions) {
                documents[usize::from(level)].push(number(position));
            }
            open.push(OpenPart { postings, documents });
        }
        Ok(LexicalIndex { parts: open, levels })
    }

    fn level(&self, level: Level) -> &LevelIndex {
        &self.levels[level as usize]
    }

    /// Positions of a level's documents in the candidate list, in the order of [`Matches::scores`].
    pub fn documents(&self, level: Level) -> &[usize] {
        &self.level(level).candidates
    }

    /// Whether a candidate has a term.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn has(&self, term: &str) -> Result<bool, FileError> {
        for part in &self.parts {
            if part.postings.find(term)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Positions of the candidates of a level that have all of some terms, ascending.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn holding(&self, level: Level, terms: &[String]) -> Result<Vec<usize>, FileError> {
        let mut found: Option<Vec<u32>> = None;
        for term in terms {
            let mut having = Vec::new();
            for part in &self.parts {
                part.each_posting(level, term, |number, _| having.push(number))?;
            }
            having.sort_unstable();
            found = Some(match found {
                None => having,
                Some(before) => before.into_iter().filter(|it| having.binary_search(it).is_ok()).collect(),
            });
        }
        let candidates = self.documents(level);
        Ok(found.into_iter().flatten().map(|it| candidates[it as usize]).collect())
    }

    /// Calls `each` with the terms of the index, those of candidates that are gone included; one that stands in several parts comes
    /// more than once.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn each_term(&self, each: &mut dyn FnMut(&str)) -> Result<(), FileError> {
        self.parts.iter().try_for_each(|it| it.postings.each_term(each))
    }

    /// Everything that a query finds in the documents of a level; read once, in parallel over terms.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn matches<'q>(&self, level: Level, query: &'q [QueryTerm], scheme: &Scheme) -> Result<Matches<'q>, FileError> {
        let documents = self.level(level);
        let factors: Vec<_> = documents.lengths.iter().map(|it| scheme.factors(it, &documents.averages)).collect();
        let find = |(number, term): (usize, &'q QueryTerm)| -> Result<Option<TermMatches<'q>>, FileError> {
            let lists: Vec<_> = self
                .parts
                .iter()
                .map(|it| it.counts(level, &term.text, &factors, scheme))
                .filter(|it| !it.as_ref().is_ok_and(Vec::is_empty))
                .collect::<Result<_, FileError>>()?;
            let containing: usize = lists.iter().map(Vec::len).sum();
            let (weight, rarity) = (term.weight, documents.rarity(containing));
            Ok((containing > 0).then_some(TermMatches { number, term: &term.text, weight, rarity, lists }))
        };
        let terms: Vec<Option<TermMatches>> =
            query.par_iter().enumerate().map(find).collect::<Result<_, FileError>>()?;
        Ok(Matches { documents: documents.candidates.len(), terms: terms.into_iter().flatten().collect() })
    }
}

/// The candidates of all parts, each at its position.
fn place(parts: &[(Postings, Vec<u32>)]) -> Result<Vec<(Level, [u32; FIELDS])>, FileError> {
    let live = parts.iter().flat_map(|it| &it.1).filter(|it| **it != DELETED).count();
    let mut placed = vec![None; live];
    for (postings, positions) in parts {
        let wrong = || postings.damaged("its candidates are not those of the list");
        if positions.len() != postings.candidates() || !positions.iter().filter(|it| **it != DELETED).is_sorted() {
            return Err(wrong());
        }
        for (row, &position) in postings.rows()?.zip(positions).filter(|it| *it.1 != DELETED) {
            let place = placed.get_mut(position as usize).filter(|it| it.is_none()).ok_or_else(wrong)?;
            *place = Some(row);
        }
    }
    // As many places as candidates, and no place taken twice.
    Ok(placed.into_iter().flatten().collect())
}

impl OpenPart {
    /// The saturated count of a term in each document that has it, ordered by document.
    fn counts(
        &self,
        level: Level,
        term: &str,
        factors: &[[f32; FIELDS]],
        scheme: &Scheme,
    ) -> Result<Vec<(u32, f32)>, FileError> {
        let mut counts = Vec::new();
        self.each_posting(level, term, |number, posting| {
            counts.push((number, scheme.saturated(posting, &factors[number as usize])));
        })?;
        Ok(counts)
    }

    /// Calls `each` with the documents that have a term, by their number among all of the level, and its count in each field.
    fn each_posting(
        &self,
        level: Level,
        term: &str,
        mut each: impl FnMut(u32, &[u16; FIELDS]),
    ) -> Result<(), FileError> {
        let Some(lists) = self.postings.find(term)? else { return Ok(()) };
        let (numbers, list) = (&self.documents[level as usize], lists[level as usize].clone());
        self.postings.read(list, |posting| {
            let number = *numbers.get(posting.document as usize)?;
            if number != DELETED {
                each(number, &posting.counts);
            }
            Some(())
        })
    }
}

impl LevelIndex {
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

/// What a query finds in the documents of one level.
#[derive(Default)]
pub struct Matches<'q> {
    /// Documents of the level.
    documents: usize,
    /// The terms that some document has, in the order of the query.
    terms: Vec<TermMatches<'q>>,
}

struct TermMatches<'q> {
    /// Which of the query's terms it is.
    number: usize,
    term: &'q str,
    weight: f32,
    /// Inverse document frequency.
    rarity: f32,
    /// Documents and saturated counts, ordered by document; of each part that has the term.
    lists: Vec<Vec<(u32, f32)>>,
}

impl<'q> Matches<'q> {
    /// The score of every document of the level; 0 where no term matches.
    pub fn scores(&self) -> Vec<f32> {
        self.scores_by(|term| term.weight)
    }

    /// The scores if the query's terms had these weights, in its order.
    pub fn scores_of(&self, weights: &[f32]) -> Vec<f32> {
        self.scores_by(|term| weights[term.number])
    }

    fn scores_by(&self, weight: impl Fn(&TermMatches) -> f32) -> Vec<f32> {
        let mut scores = vec![0.0; self.documents];
        for term in &self.terms {
            let gain = weight(term) * term.rarity;
            if gain == 0.0 {
                continue;
            }
            for &(document, count) in term.lists.iter().flatten() {
                scores[document as usize] += gain * count;
            }
        }
        scores
    }

    /// Gives the query's terms other weights, in its order.
    pub fn weigh(&mut self, weights: &[f32]) {
        self.terms.iter_mut().for_each(|it| it.weight = weights[it.number]);
    }

    /// What each query term brings to one document, largest first.
    pub fn explain(&self, document: usize) -> Vec<(&'q str, f32)> {
        let part = |term: &TermMatches<'q>| {
            let found = |list: &Vec<(u32, f32)>| {
                let at = list.binary_search_by_key(&(document as u32), |it| it.0).ok()?;
                Some((term.term, term.gain() * list[at].1))
            };
            term.lists.iter().find_map(found)
        };
        let mut parts: Vec<(&str, f32)> = self.terms.iter().filter_map(part).collect();
        parts.retain(|(_, score)| *score > 0.0);
        parts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        parts
    }

    /// The query terms that some document has, each with its weight times its inverse document frequency.
    pub fn gains(&self) -> impl Iterator<Item = (&'q str, f32)> {
        self.terms.iter().map(|it| (it.term, it.gain()))
    }
}

impl TermMatches<'_> {
    fn gain(&self) -> f32 {
        self.weight * self.rarity
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

#[cfg(test)]
mod tests;
