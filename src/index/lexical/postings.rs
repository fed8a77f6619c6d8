//! The bytes of an inverted index: written once from candidates, then read from memory or from a mapped file alike.
//!
//! | part | content |
//! |---|---|
//! | head | candidates, blocks of terms (32 bits each), bytes of terms (64 bits) |
//! | levels | a byte for each candidate: 0 a file, 1 a function |
//! | lengths | three 32-bit numbers for each candidate: its terms in each field |
//! | blocks | for each block of 16 terms: where it begins among the terms, where its postings begin (64 bits each) |
//! | terms | ordered; bytes shared with the term before in the block, other bytes and their number, then how many bytes of postings the term has for files and for functions |
//! | postings | a term's for files, then for functions |
//!
//! A posting is one number, the distance to the document before and what kind of counts it has, and the counts that the kind asks
//! for. Four in five postings are of a body that has the term once, or of a path: one number, mostly one byte. Numbers have seven
//! bits a byte, the lowest first. Numbers of fixed size are little-endian.
//!
//! The checksums are a file's; here bytes are only never trusted: whatever stands there, reading ends in a result or in an error.

use std::ops::Range;

use rayon::prelude::*;

use super::counting::{Counted, Posting, runs};
use super::{FIELDS, field};
use crate::fsio::{FileError, Section, u32_at, u64_at};
use crate::types::{Candidate, Level, TextError};

const HEAD: usize = 4 + 4 + 8;
const LENGTHS: usize = 4 * FIELDS;
const BLOCK: usize = 16;
/// Bytes that say where a block begins.
const BLOCK_START: usize = 8 + 8;
pub(super) const LEVELS: [Level; 2] = [Level::File, Level::Function];

/// What counts a posting has, as the lowest two bits of its number.
mod kind {
    pub const BITS: u32 = 2;
    /// Once in the body.
    pub const BODY_ONCE: u64 = 0;
    /// In the body only; the count follows.
    pub const BODY: u64 = 1;
    /// Once in the path.
    pub const PATH_ONCE: u64 = 2;
    /// The counts of all fields follow.
    pub const ALL: u64 = 3;
}

/// The postings of some candidates at both levels, in their order, as bytes. A file's functions follow it in `candidates`.
///
/// Files are counted in parallel; the bytes are the same however many threads there are.
///
/// # Errors
/// When a text can't be had.
pub fn encode(candidates: &[Candidate]) -> Result<Vec<u8>, TextError> {
    let runs = runs(candidates).into_par_iter().map(|it| Ok(Run::of(Counted::of(it)?)));
    let mut runs: Vec<Run> = runs.collect::<Result<_, TextError>>()?;
    let mut before = [0; 2];
    for run in &mut runs {
        run.before = before;
        before = std::array::from_fn(|level| before[level] + u64::from(run.documents[level]));
    }
    let mut lists: Vec<(&str, usize, &[List; 2])> = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        lists.extend(run.terms.iter().map(|(term, ends)| (term.as_str(), at, ends)));
    }
    // Stable, for which ordered runs are nearly done; a term's lists stay in the order of the documents.
    lists.sort_by(|a, b| a.0.cmp(b.0));
    let mut terms = TermWriter::default();
    for lists in lists.chunk_by(|a, b| a.0 == b.0) {
        terms.write(lists, &runs);
    }
    Ok(terms.finish(&runs))
}

/// The postings of a run of candidates: its documents are numbered from 0 at each level.
struct Run {
    levels: Vec<Level>,
    lengths: Vec<[u32; FIELDS]>,
    documents: [u32; 2],
    /// Documents of the runs before it.
    before: [u64; 2],
    /// Ordered.
    terms: Vec<(String, [List; 2])>,
    bytes: Vec<u8>,
}

/// Where a term's postings at a level stand in the bytes of its run, and the last of their documents.
#[derive(Default)]
struct List {
    range: Range<usize>,
    last: u32,
}

impl Run {
    fn of(mut counted: Counted) -> Self {
        let mut terms: Vec<(String, u32)> = std::mem::take(&mut counted.terms).into_iter().collect();
        terms.sort_unstable();
        let sorted = LEVELS.map(|level| ByTerm::of(std::mem::take(&mut counted.postings[level as usize]), terms.len()));
        let mut bytes = Vec::new();
        let lists = |(term, number)| (term, [0, 1].map(|level| sorted[level].write(number, &mut bytes)));
        let terms = terms.into_iter().map(lists).collect();
        let documents = LEVELS.map(|it| counted.documents(it));
        Run { levels: counted.levels, lengths: counted.lengths, documents, before: [0; 2], terms, bytes }
    }
}

/// Postings in the order of their terms' numbers.
struct ByTerm {
    /// Where the postings of each term end.
    ends: Vec<u32>,
    postings: Vec<Posting>,
}

impl ByTerm {
    /// A counting sort: postings of a term stay in the order of the documents.
    fn of(postings: Vec<(u32, Posting)>, terms: usize) -> Self {
        let mut ends = vec![0_u32; terms];
        postings.iter().for_each(|it| ends[it.0 as usize] += 1);
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        // For now each "end" is where the next posting goes.
        let mut sorted = vec![Posting { document: 0, counts: [0; FIELDS] }; postings.len()];
        for (term, posting) in postings {
            let place = &mut ends[term as usize];
            sorted[*place as usize] = posting;
            *place += 1;
        }
        ByTerm { ends, postings: sorted }
    }

    fn write(&self, term: u32, bytes: &mut Vec<u8>) -> List {
        let start = term.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        let postings = &self.postings[start as usize..self.ends[term as usize] as usize];
        let begin = bytes.len();
        let mut next = 0;
        for posting in postings {
            write_posting(posting, posting.document - next, bytes);
            next = posting.document + 1;
        }
        List { range: begin..bytes.len(), last: next.saturating_sub(1) }
    }
}

/// `skipped`: documents between the one before and this one.
fn write_posting(posting: &Posting, skipped: u32, bytes: &mut Vec<u8>) {
    let kind = match posting.counts {
        [1, 0, 0] => kind::BODY_ONCE,
        [_, 0, 0] => kind::BODY,
        [0, 1, 0] => kind::PATH_ONCE,
        _ => kind::ALL,
    };
    write_number(u64::from(skipped) << kind::BITS | kind, bytes);
    match kind {
        kind::BODY => write_number(posting.counts[field::BODY].into(), bytes),
        kind::ALL => posting.counts.iter().for_each(|&it| write_number(it.into(), bytes)),
        _ => {}
    }
}

fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Joins the postings of runs, term by term.
#[derive(Default)]
struct TermWriter {
    written: usize,
    previous: String,
    blocks: Vec<u8>,
    terms: Vec<u8>,
    postings: Vec<u8>,
}

impl TermWriter {
    /// The next term in order, with its lists by run.
    fn write(&mut self, lists: &[(&str, usize, &[List; 2])], runs: &[Run]) {
        let Some(&(term, ..)) = lists.first() else { return };
        if self.written.is_multiple_of(BLOCK) {
            self.blocks.extend((self.terms.len() as u64).to_le_bytes());
            self.blocks.extend((self.postings.len() as u64).to_le_bytes());
            self.previous.clear();
        }
        self.written += 1;
        let shared = self.previous.bytes().zip(term.bytes()).take_while(|(a, b)| a == b).count();
        write_number(shared as u64, &mut self.terms);
        write_number((term.len() - shared) as u64, &mut self.terms);
        self.terms.extend(&term.as_bytes()[shared..]);
        for level in LEVELS {
            let begin = self.postings.len();
            self.join(lists, runs, level);
            write_number((self.postings.len() - begin) as u64, &mut self.terms);
        }
        self.previous.replace_range(.., term);
    }

    /// Documents of a run come behind those of the runs before it, so that only the first distance of a list is another.
    fn join(&mut self, lists: &[(&str, usize, &[List; 2])], runs: &[Run], level: Level) {
        let mut next = 0;
        for (_, at, lists) in lists {
            let (run, list) = (&runs[*at], &lists[level as usize]);
            let mut bytes = Reader(&run.bytes[list.range.clone()]);
            if let Some(first) = bytes.number() {
                let before = run.before[level as usize];
                write_number(first + ((before - next) << kind::BITS), &mut self.postings);
                self.postings.extend(bytes.0);
                next = before + u64::from(list.last) + 1;
            }
        }
    }

    fn finish(self, runs: &[Run]) -> Vec<u8> {
        let candidates: usize = runs.iter().map(|it| it.levels.len()).sum();
        let rows = candidates * (1 + LENGTHS);
        let mut out = Vec::with_capacity(HEAD + rows + self.blocks.len() + self.terms.len() + self.postings.len());
        out.extend((candidates as u32).to_le_bytes());
        out.extend(((self.blocks.len() / BLOCK_START) as u32).to_le_bytes());
        out.extend((self.terms.len() as u64).to_le_bytes());
        runs.iter().for_each(|run| out.extend(run.levels.iter().map(|&it| it as u8)));
        for lengths in runs.iter().flat_map(|it| &it.lengths) {
            lengths.iter().for_each(|it| out.extend(it.to_le_bytes()));
        }
        out.extend(&self.blocks);
        out.extend(&self.terms);
        out.extend(&self.postings);
        out
    }
}

/// Bytes that [`encode`] wrote, or others.
pub(super) struct Postings {
    section: Section,
    candidates: usize,
    blocks: Range<usize>,
    terms: Range<usize>,
}

/// Where a term's postings stand, by level.
pub(super) type Lists = [Range<usize>; 2];

impl Postings {
    pub(super) fn open(section: Section) -> Result<Self, FileError> {
        let head = section.read(0..HEAD)?;
        let (candidates, blocks) = (u32_at(head, 0) as usize, u32_at(head, 4) as usize);
        let bounds = || {
            let start = candidates.checked_mul(1 + LENGTHS)?.checked_add(HEAD)?;
            let end = blocks.checked_mul(BLOCK_START)?.checked_add(start)?;
            let terms = usize::try_from(u64_at(head, 8)).ok()?.checked_add(end)?;
            (terms <= section.len()).then_some((start..end, end..terms))
        };
        let (blocks, terms) = bounds().ok_or_else(|| section.damaged("its postings are cut short"))?;
        Ok(Postings { candidates, blocks, terms, section })
    }

    pub(super) fn candidates(&self) -> usize {
        self.candidates
    }

    pub(super) fn damaged(&self, what: &str) -> FileError {
        self.section.damaged(what)
    }

    /// The level of each candidate, as a number that is one.
    pub(super) fn levels(&self) -> Result<&[u8], FileError> {
        let levels = self.section.read(HEAD..HEAD + self.candidates)?;
        let is_level = |it: &u8| usize::from(*it) < LEVELS.len();
        if levels.iter().all(is_level) { Ok(levels) } else { Err(self.damaged("a candidate is of no known level")) }
    }

    /// The level and the lengths of each candidate.
    pub(super) fn rows(&self) -> Result<impl Iterator<Item = (Level, [u32; FIELDS])>, FileError> {
        let lengths = self.section.read(HEAD + self.candidates..self.blocks.start)?.chunks_exact(LENGTHS);
        let row = |(&level, lengths): (&u8, &[u8])| {
            (LEVELS[usize::from(level)], std::array::from_fn(|it| u32_at(lengths, 4 * it)))
        };
        Ok(self.levels()?.iter().zip(lengths).map(row))
    }

    /// Where a term's postings stand; `None` when it has none.
    pub(super) fn find(&self, term: &str) -> Result<Option<Lists>, FileError> {
        let (mut low, mut high) = (0, self.blocks.len() / BLOCK_START);
        // Blocks before `low` begin with the term or before it, those from `high` on behind it.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.first_of(middle)? <= term.as_bytes() { low = middle + 1 } else { high = middle }
        }
        let Some(block) = low.checked_sub(1) else { return Ok(None) };
        let (terms, postings) = self.block(block)?;
        find_in(terms, postings, term.as_bytes()).ok_or_else(|| self.damaged("a block of its terms makes no sense"))
    }

    /// Calls `each` with every term, in order.
    pub(super) fn each_term(&self, each: &mut dyn FnMut(&str)) -> Result<(), FileError> {
        for block in 0..self.blocks.len() / BLOCK_START {
            let (terms, postings) = self.block(block)?;
            let whole = terms_in(terms, postings, |term| std::str::from_utf8(term).map(&mut *each).is_err());
            match whole {
                Some(None) => {}
                _ => return Err(self.damaged("a block of its terms makes no sense")),
            }
        }
        Ok(())
    }

    /// The terms of a block, and where their postings begin in the section.
    fn block(&self, number: usize) -> Result<(&[u8], usize), FileError> {
        let start = self.blocks.start + number * BLOCK_START;
        let is_last = start + BLOCK_START == self.blocks.end;
        let starts = self.section.read(start..start + if is_last { BLOCK_START } else { 2 * BLOCK_START })?;
        let bounds = || {
            let place = |at, of: usize| usize::try_from(u64_at(starts, at)).ok()?.checked_add(of);
            let begin = place(0, self.terms.start)?;
            let end = if is_last { self.terms.end } else { place(BLOCK_START, self.terms.start)? };
            Some((begin..end, place(8, self.terms.end)?))
        };
        let (terms, postings) = bounds().ok_or_else(|| self.damaged("a block of its terms has no place"))?;
        Ok((self.section.read(terms)?, postings))
    }

    fn first_of(&self, block: usize) -> Result<&[u8], FileError> {
        let mut terms = Reader(self.block(block)?.0);
        let mut first = || {
            let (shared, length) = (terms.number()?, terms.number()?);
            terms.take(length).filter(|_| shared == 0)
        };
        first().ok_or_else(|| self.damaged("a block of its terms has no first"))
    }

    /// Calls `each` with the postings of a list; it returns `None` for one that can't be.
    pub(super) fn read(
        &self,
        list: Range<usize>,
        mut each: impl FnMut(&Posting) -> Option<()>,
    ) -> Result<(), FileError> {
        let mut bytes = Reader(self.section.read(list)?);
        let mut next = 0;
        while !bytes.0.is_empty() {
            let posting = bytes.posting(&mut next).filter(|it| each(it).is_some());
            posting.ok_or_else(|| self.damaged("a posting makes no sense"))?;
        }
        Ok(())
    }
}

/// Looks for a term in a block; the outer `None` says that the block makes no sense.
fn find_in(block: &[u8], postings: usize, term: &[u8]) -> Option<Option<Lists>> {
    terms_in(block, postings, |it| it == term)
}

/// Goes through the terms of a block up to the one that is wanted; the outer `None` says that the block makes no sense.
fn terms_in(block: &[u8], postings: usize, mut is_wanted: impl FnMut(&[u8]) -> bool) -> Option<Option<Lists>> {
    let (mut rest, mut current, mut start) = (Reader(block), Vec::<u8>::new(), postings);
    while !rest.0.is_empty() {
        let shared = usize::try_from(rest.number()?).ok().filter(|it| *it <= current.len())?;
        current.truncate(shared);
        let length = rest.number()?;
        current.extend(rest.take(length)?);
        let files = start.checked_add(usize::try_from(rest.number()?).ok()?)?;
        let functions = files.checked_add(usize::try_from(rest.number()?).ok()?)?;
        let lists = [start..files, files..functions];
        if is_wanted(&current) {
            return Some(Some(lists));
        }
        start = functions;
    }
    Some(None)
}

/// What is left of some bytes. Whatever it reads is `None` when it is not there.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        if first < 0x80 {
            self.0 = rest;
            return Some(first.into());
        }
        self.long_number()
    }

    /// One of up to nine bytes, which are 63 bits.
    fn long_number(&mut self) -> Option<u64> {
        let mut number = 0;
        for (at, byte) in self.0.iter().take(9).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.0 = &self.0[at + 1..];
                return Some(number);
            }
        }
        None
    }

    /// `next`: the first document that the posting can be of, then the first for the next posting.
    fn posting(&mut self, next: &mut u32) -> Option<Posting> {
        let number = self.number()?;
        let document = u32::try_from(number >> kind::BITS).ok()?.checked_add(*next)?;
        *next = document.checked_add(1)?;
        let mut count = || u16::try_from(self.number()?).ok();
        let counts = match number & ((1 << kind::BITS) - 1) {
            kind::BODY_ONCE => [1, 0, 0],
            kind::BODY => [count()?, 0, 0],
            kind::PATH_ONCE => [0, 1, 0],
            _ => [count()?, count()?, count()?],
        };
        Some(Posting { document, counts })
    }
}
