//! F1: search along a graph of neighbours. Knows nothing of how it was built.
//!
//! The search of Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small
//! World graphs" (2016), algorithms 2 and 5, with two changes: it goes along all rows, deleted and not accepted ones too, but
//! collects accepted ones only; and it ends when enough *candidates* are found, of which one may have many rows.

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
                Some(graph) if can_walk(rows, wanted, accept) => Walk::new(rows, graph, &query, accept).run(wanted)?,
                _ => None,
            };
            walked.map_or_else(|| estimates(rows, accepted(rows, accept), &query), Ok)
        });
        let scored: Vec<Scored> = scored.collect::<Result<_, FileError>>()?;
        Ok(best_by_value(self.segments, &scored, &query, k)?)
    }
}

/// Candidates that a search keeps at least.
const BREADTH: usize = 64;

/// A search that has looked at this share of the rows is given up for a scan, which reads in order what a search reads here and
/// there.
const MOST_SEEN: usize = 4;

/// Rows that are asked for to guess how many are accepted.
const ASKED: usize = 1024;
/// With a smaller share of accepted rows, one in so many, the accepted rows are scanned.
const FEWEST_ACCEPTED: usize = 20;

/// Whether enough rows are accepted for a search to find them on its way.
fn can_walk(rows: &Rows, wanted: usize, accept: Accept) -> bool {
    let step = rows.count().div_ceil(ASKED).max(1);
    let asked = rows.owners().iter().step_by(step);
    let accepted = asked.clone().filter(|&&owner| owner != DELETED && accept(owner)).count();
    accepted * FEWEST_ACCEPTED >= asked.len() && wanted < rows.count() / MOST_SEEN
}

struct Walk<'a> {
    rows: &'a Rows,
    graph: &'a GraphFile,
    query: &'a Query<'a>,
    accept: Accept<'a>,
    /// A bit a row.
    seen: Vec<u64>,
    /// How many more rows may be looked at.
    budget: usize,
    scored: Scored,
}

impl<'a> Walk<'a> {
    fn new(rows: &'a Rows, graph: &'a GraphFile, query: &'a Query<'a>, accept: Accept<'a>) -> Self {
        let (seen, budget) = (vec![0; rows.count().div_ceil(64)], rows.count() / MOST_SEEN);
        Walk { rows, graph, query, accept, seen, budget, scored: Scored::default() }
    }

    /// The accepted rows that were looked at, among them those of the nearest candidates; `None` when there were too many.
    fn run(mut self, wanted: usize) -> Result<Option<Scored>, FileError> {
        let mut start = (Score(self.estimate(self.graph.entry())?), self.graph.entry());
        for layer in (1..self.graph.layers()).rev() {
            start = self.descend(layer, start)?;
        }
        Ok(self.spread(start, wanted)?.then_some(self.scored))
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

    /// Looks at the neighbours of the best rows until none of them can lead to a better candidate. False when that took too many.
    fn spread(&mut self, start: (Score, u32), wanted: usize) -> Result<bool, FileError> {
        let (mut found, mut frontier) = (Nearest::new(wanted), BinaryHeap::from([start]));
        self.see(start, &mut found);
        while let Some((score, row)) = frontier.pop() {
            if score.0 < found.bound() {
                break;
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
        Ok(true)
    }

    fn is_seen(&self, row: u32) -> bool {
        self.seen[row as usize / 64] & (1 << (row % 64)) != 0
    }

    fn see(&mut self, (score, row): (Score, u32), found: &mut Nearest) {
        self.seen[row as usize / 64] |= 1 << (row % 64);
        self.budget = self.budget.saturating_sub(1);
        let owner = self.rows.owners()[row as usize];
        if owner != DELETED && (self.accept)(owner) {
            self.scored.rows.push(row);
            self.scored.scores.push(score.0);
            found.offer(owner, score.0);
        }
    }
}
