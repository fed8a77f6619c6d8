//! F1: search along a graph of neighbours. Knows nothing of how it was built.
//!
//! The search of Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small
//! World graphs" (2016), algorithms 2 and 5, with three changes: it goes along all rows, deleted and not accepted ones too, but
//! collects accepted ones only; it ends when enough *candidates* are found, of which one may have many rows; and it begins at
//! several rows, among them the graph's strays, which it would not find otherwise.

use std::collections::BinaryHeap;

use super::codes::Query;
use super::graph_file::GraphFile;
use super::nearest::{Nearest, Score};
use super::rows::{DELETED, Rows};
use super::scan::{Scored, accepted, best_by_value, estimates, prepare, shortlist_length};
use super::{Accept, VectorError, VectorIndex};
use crate::fsio::{FileError, u32_at};

/// Goes along the graphs of the segments that have one, and looks at all rows of the others.
pub struct Graph<'a> {
    pub segments: &'a [Rows],
}

impl VectorIndex for Graph<'_> {
    fn search(&self, query: &[f32], k: usize, accept: Accept) -> Result<Vec<(u32, f32)>, VectorError> {
        let Some(query) = prepare(self.segments, query)? else { return Ok(Vec::new()) };
        let wanted = shortlist_length(k).max(BREADTH);
        let scored = self.segments.iter().map(|rows| {
            let walked = match rows.graph() {
                // One that is damaged costs time, not the answer.
                Some(graph) if can_walk(rows, wanted, accept) => {
                    walk(rows, graph, &query, accept, wanted).unwrap_or(None)
                }
                _ => None,
            };
            walked.map_or_else(|| estimates(rows, accepted(rows, accept), &query), Ok)
        });
        let scored: Vec<Scored> = scored.collect::<Result<_, FileError>>()?;
        Ok(best_by_value(self.segments, &scored, &query, k)?)
    }
}

/// Candidates that a search keeps at least. With 64, a tenth of the nearest was missed among 250 rows that differ by less than
/// their codes tell; where vectors are as usual, both find all.
const BREADTH: usize = 128;

/// A search that has looked at this share of the rows is given up for a scan, which reads in order what a search reads here and
/// there.
const MOST_SEEN: usize = 4;

/// Rows that are asked for to guess how many are accepted.
const ASKED: usize = 1024;
/// With a smaller share of accepted rows, one in so many, the accepted rows are scanned: that is as fast, and misses nothing.
const FEWEST_ACCEPTED: usize = 4;

/// Whether enough rows are accepted for a search to find them on its way.
fn can_walk(rows: &Rows, wanted: usize, accept: Accept) -> bool {
    let step = rows.count().div_ceil(ASKED).max(1);
    let asked = rows.owners().iter().step_by(step);
    let accepted = asked.clone().filter(|&&owner| owner != DELETED && accept(owner)).count();
    accepted * FEWEST_ACCEPTED >= asked.len() && wanted < rows.count() / MOST_SEEN
}

/// The accepted rows that a search looks at, among them those of the nearest candidates; `None` when it did not come to an end.
fn walk(
    rows: &Rows,
    graph: &GraphFile,
    query: &Query,
    accept: Accept,
    wanted: usize,
) -> Result<Option<Scored>, FileError> {
    let owner_of = |row: u32| Some(rows.owners()[row as usize]).filter(|&owner| owner != DELETED && accept(owner));
    let mut walk = Walk::new(rows, graph, query, &owner_of);
    Ok(walk.run(wanted)?.then_some(walk.scored))
}

/// Searches for a row with its own vector. `None` when it is found; else the rows that were found instead and are as similar as far as
/// codes tell, most similar first.
pub(super) fn found_instead(rows: &Rows, graph: &GraphFile, row: u32) -> Result<Option<Vec<u32>>, VectorError> {
    let values: Vec<f32> = rows.row(row as usize)?.iter().map(|it| it.to_f32()).collect();
    let query = Query::new(&values, rows.dimensions())?;
    let mut walk = Walk::new(rows, graph, &query, &Some);
    walk.budget = MOST_SEEN_BY_CHECK;
    walk.run(BREADTH_OF_CHECK)?;
    if walk.is_seen(row) {
        return Ok(None);
    }
    let scale = f32::from_bits(u32_at(rows.scales(row as usize..row as usize + 1)?, 0));
    let least = Score(walk.estimate(row)? - query.margin(scale));
    let found = walk.scored.scores.iter().copied().map(Score).zip(walk.scored.rows);
    let mut near: Vec<_> = found.filter(|it| it.0 >= least).collect();
    near.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Some(near.into_iter().map(|it| it.1).collect()))
}

/// Narrower than any search, so that what a check finds a search finds.
const BREADTH_OF_CHECK: usize = 16;
/// In a crowd of equal rows a check would see all of them, for each of them.
const MOST_SEEN_BY_CHECK: usize = 2000;

/// Rows that a search may begin by looking at.
const MOST_STARTS: usize = 1024;
/// Of these, so many are gone on with.
const BEST_STARTS: usize = 8;

struct Walk<'a> {
    rows: &'a Rows,
    graph: &'a GraphFile,
    query: &'a Query<'a>,
    /// The candidate of a row, if it may be found.
    owner_of: &'a dyn Fn(u32) -> Option<u32>,
    /// A bit a row.
    seen: Vec<u64>,
    /// How many more rows may be looked at.
    budget: usize,
    scored: Scored,
}

impl<'a> Walk<'a> {
    fn new(rows: &'a Rows, graph: &'a GraphFile, query: &'a Query, owner_of: &'a dyn Fn(u32) -> Option<u32>) -> Self {
        let (seen, budget) = (vec![0; rows.count().div_ceil(64)], rows.count() / MOST_SEEN);
        Walk { rows, graph, query, owner_of, seen, budget, scored: Scored::default() }
    }

    /// Looks at the rows that lead to the nearest candidates. False when it did not come to an end.
    fn run(&mut self, wanted: usize) -> Result<bool, FileError> {
        let (mut starts, layer) = self.starts()?;
        for layer in (1..layer).rev() {
            for start in &mut starts {
                *start = self.descend(layer, *start)?;
            }
            starts.sort_unstable();
            starts.dedup();
        }
        self.spread(starts, wanted)
    }

    /// The best rows of the densest layer that is small enough to look at all of it, and that layer. The paper's way from the entry
    /// through all layers ends at the wrong crowd when a layer has crowds without links to others.
    fn starts(&self) -> Result<(Vec<(Score, u32)>, usize), FileError> {
        let small = (1..self.graph.layers()).find(|&it| self.graph.rows_of(it) <= MOST_STARTS);
        let Some(layer) = small else {
            let entry = self.graph.entry();
            return Ok((vec![(Score(self.estimate(entry)?), entry)], self.graph.layers()));
        };
        let rows = self.graph.rows(layer)?.map(|row| row.and_then(|row| Ok((Score(self.estimate(row)?), row))));
        let mut starts: Vec<_> = rows.collect::<Result<_, _>>()?;
        starts.sort_unstable_by(|a, b| b.cmp(a));
        starts.truncate(BEST_STARTS);
        Ok((starts, layer))
    }

    fn estimate(&self, row: u32) -> Result<f32, FileError> {
        let row = row as usize;
        let scale = f32::from_bits(u32_at(self.rows.scales(row..row + 1)?, 0));
        Ok(self.query.estimate(self.rows.codes(row..row + 1)?, scale))
    }

    /// The best row that a layer leads to by always going on to the best neighbour.
    fn descend(&self, layer: usize, mut best: (Score, u32)) -> Result<(Score, u32), FileError> {
        loop {
            let from = best;
            for row in self.graph.neighbours(layer, from.1)? {
                let row = row?;
                best = best.max((Score(self.estimate(row)?), row));
            }
            if best.0 <= from.0 {
                return Ok(from);
            }
        }
    }

    /// Looks at the neighbours of the best rows until none of them can lead to a better candidate. False when that took too many,
    /// or nothing leads to as many as are wanted: parts of the graph are then cut off from where it began.
    fn spread(&mut self, starts: Vec<(Score, u32)>, wanted: usize) -> Result<bool, FileError> {
        let mut found = Nearest::new(wanted);
        starts.iter().for_each(|&it| self.see(it, &mut found));
        let mut frontier = BinaryHeap::from(starts);
        for row in self.graph.strays()? {
            let row = row?;
            if !self.is_seen(row) {
                let scored = (Score(self.estimate(row)?), row);
                self.see(scored, &mut found);
                frontier.push(scored);
            }
        }
        while let Some((score, row)) = frontier.pop() {
            if score.0 < found.bound() {
                return Ok(true);
            }
            for neighbour in self.graph.neighbours(0, row)? {
                let neighbour = neighbour?;
                if self.is_seen(neighbour) {
                    continue;
                }
                if self.budget == 0 {
                    return Ok(false);
                }
                let scored = (Score(self.estimate(neighbour)?), neighbour);
                self.see(scored, &mut found);
                if scored.0.0 >= found.bound() {
                    frontier.push(scored);
                }
            }
        }
        Ok(false)
    }

    fn is_seen(&self, row: u32) -> bool {
        self.seen[row as usize / 64] & (1 << (row % 64)) != 0
    }

    fn see(&mut self, (score, row): (Score, u32), found: &mut Nearest) {
        self.seen[row as usize / 64] |= 1 << (row % 64);
        self.budget = self.budget.saturating_sub(1);
        if let Some(owner) = (self.owner_of)(row) {
            self.scored.rows.push(row);
            self.scored.scores.push(score.0);
            found.offer(owner, score.0);
        }
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
