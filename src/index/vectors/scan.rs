//! F1: search by looking at every row. Knows nothing of graphs.

use std::ops::Range;

use rayon::prelude::*;

use super::codes::Query;
use super::nearest::Nearest;
use super::rows::{DELETED, Rows};
use super::{Accept, VectorError, VectorIndex};
use crate::fsio::{FileError, u32_at};

/// Compares the codes of all rows, and then the 16-bit floats of the best candidates.
pub struct Scan<'a> {
    pub segments: &'a [Rows],
}

/// Compares the 16-bit floats of all rows.
pub struct Exact<'a> {
    pub segments: &'a [Rows],
}

impl VectorIndex for Scan<'_> {
    fn search(&self, query: &[f32], k: usize, accept: Accept) -> Result<Vec<(u32, f32)>, VectorError> {
        let Some(query) = prepare(self.segments, query)? else { return Ok(Vec::new()) };
        let scored = score(self.segments, accept, |rows, chosen| estimates(rows, chosen, &query))?;
        Ok(best_by_value(self.segments, &scored, &query, k)?)
    }
}

impl VectorIndex for Exact<'_> {
    fn search(&self, query: &[f32], k: usize, accept: Accept) -> Result<Vec<(u32, f32)>, VectorError> {
        let Some(query) = prepare(self.segments, query)? else { return Ok(Vec::new()) };
        let scored = score(self.segments, accept, |rows, chosen| similarities(rows, chosen, &query))?;
        Ok(best(self.segments, &scored, k).into_sorted())
    }
}

/// The query for these segments; none if there is nothing to search.
pub(super) fn prepare<'a>(segments: &[Rows], query: &'a [f32]) -> Result<Option<Query<'a>>, VectorError> {
    let Some(first) = segments.first() else { return Ok(None) };
    if let Some(other) = segments.iter().find(|it| it.dimensions() != first.dimensions()) {
        return Err(VectorError::Dimensions { found: other.dimensions(), expected: first.dimensions() });
    }
    Query::new(query, first.dimensions()).map(Some)
}

/// Rows of a segment with a score each.
#[derive(Default)]
pub(super) struct Scored {
    pub rows: Vec<u32>,
    pub scores: Vec<f32>,
}

fn score(
    segments: &[Rows],
    accept: Accept,
    measure: impl Fn(&Rows, Vec<u32>) -> Result<Scored, FileError>,
) -> Result<Vec<Scored>, FileError> {
    segments.iter().map(|rows| measure(rows, accepted(rows, accept))).collect()
}

/// The rows of accepted candidates, in ascending order.
pub(super) fn accepted(rows: &Rows, accept: Accept) -> Vec<u32> {
    // The rows of a candidate lie together: it is asked for once.
    let (mut last, mut answer) = (DELETED, false);
    let mut is_accepted = |owner: u32| {
        if owner != last {
            (last, answer) = (owner, owner != DELETED && accept(owner));
        }
        answer
    };
    (0..).zip(rows.owners()).filter_map(|(row, &owner)| is_accepted(owner).then_some(row)).collect()
}

/// Estimates the similarity of chosen rows (in ascending order) by their codes.
pub(super) fn estimates(rows: &Rows, chosen: Vec<u32>, query: &Query) -> Result<Scored, FileError> {
    measured(rows, chosen, rows.dimensions(), |span, chosen, scores| {
        let (start, codes, scales) = (span.start, rows.codes(span.clone())?, rows.scales(span)?);
        for (&row, score) in chosen.iter().zip(scores) {
            let at = row as usize - start;
            let codes = &codes[at * rows.dimensions()..(at + 1) * rows.dimensions()];
            *score = query.estimate(codes, f32::from_bits(u32_at(scales, 4 * at)));
        }
        Ok(())
    })
}

fn similarities(rows: &Rows, chosen: Vec<u32>, query: &Query) -> Result<Scored, FileError> {
    let width = 2 * rows.dimensions();
    measured(rows, chosen, width, |span, chosen, scores| {
        let (start, values) = (span.start, rows.values(span)?);
        for (&row, score) in chosen.iter().zip(scores) {
            let at = row as usize - start;
            *score = query.similarity(&values[at * width..(at + 1) * width]);
        }
        Ok(())
    })
}

/// Rows that are read together.
const STRETCH: usize = 256;
/// Fewer bytes are read by one thread. Waking others takes some 20 us, in which one thread reads about so much.
const ALONE: usize = 1 << 18;

/// Measures chosen rows in stretches, by several threads if they are many bytes.
fn measured(
    rows: &Rows,
    chosen: Vec<u32>,
    width: usize,
    measure: impl Fn(Range<usize>, &[u32], &mut [f32]) -> Result<(), FileError> + Sync,
) -> Result<Scored, FileError> {
    let mut scores = vec![0.0; chosen.len()];
    let stretch = |(chosen, scores): (&[u32], &mut [f32])| match (chosen.first(), chosen.last()) {
        // What lies between few rows far apart is not read.
        (Some(&first), Some(&last)) if (last - first) as usize >= 2 * chosen.len() => chosen
            .iter()
            .zip(scores.chunks_mut(1))
            .try_for_each(|(&row, score)| measure(row as usize..row as usize + 1, &[row], score)),
        (Some(&first), Some(&last)) => measure(first as usize..last as usize + 1, chosen, scores),
        _ => Ok(()),
    };
    debug_assert!(chosen.last().is_none_or(|&last| (last as usize) < rows.count()));
    if chosen.len() * width < ALONE {
        chosen.chunks(STRETCH).zip(scores.chunks_mut(STRETCH)).try_for_each(stretch)?;
    } else {
        chosen.par_chunks(STRETCH).zip(scores.par_chunks_mut(STRETCH)).try_for_each(stretch)?;
    }
    Ok(Scored { rows: chosen, scores })
}

/// So many times the wanted candidates are compared by value, and at least [`LEAST_BY_VALUE`]: with estimates of 8 bits the best
/// ten of 100,000 are all among the best forty.
const BY_VALUE: usize = 4;
const LEAST_BY_VALUE: usize = 40;

/// How many candidates estimates have to give for `k`.
pub(super) fn shortlist_length(k: usize) -> usize {
    if k == 0 { 0 } else { k.saturating_mul(BY_VALUE).max(LEAST_BY_VALUE) }
}

/// The scale of a row of length 1 is at most this.
const WIDEST: f32 = 1.0 / 127.0;

fn best(segments: &[Rows], scored: &[Scored], wanted: usize) -> Nearest {
    let mut nearest = Nearest::new(wanted);
    for (rows, scored) in segments.iter().zip(scored) {
        for (&row, &score) in scored.rows.iter().zip(&scored.scores) {
            nearest.offer(rows.owners()[row as usize], score);
        }
    }
    nearest
}

/// The best `k` candidates by value of the best by estimate. Of each, the rows are looked at whose estimates are so close to
/// its best that any of them may be the best.
pub(super) fn best_by_value(
    segments: &[Rows],
    scored: &[Scored],
    query: &Query,
    k: usize,
) -> Result<Vec<(u32, f32)>, FileError> {
    let shortlist = best(segments, scored, shortlist_length(k));
    // Most rows are so far from the best that nothing else need be asked of them.
    let floor = shortlist.bound() - query.margin(WIDEST);
    let mut found = Nearest::new(k);
    for (rows, scored) in segments.iter().zip(scored) {
        for (&row, &score) in scored.rows.iter().zip(&scored.scores) {
            let (row, owner) = (row as usize, rows.owners()[row as usize]);
            if score < floor {
                continue;
            }
            let Some(best) = shortlist.score(owner) else { continue };
            let scale = f32::from_bits(u32_at(rows.scales(row..row + 1)?, 0));
            if score + query.margin(scale) >= best {
                found.offer(owner, query.similarity(rows.values(row..row + 1)?));
            }
        }
    }
    Ok(found.into_sorted())
}
