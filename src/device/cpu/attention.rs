//! F1: attention of one head, by tiles: for a few queries at a time all products with keys, their softmax, and the weighted values.
//!
//! The scores lie with the queries side by side, so that the softmax runs down columns and needs no sum across a register, and so that they are
//! what the second product reads as it is. At no time are there more scores than those of one tile of queries for each thread.

use rayon::prelude::*;

use super::floats::{HIGH, Room, WIDE, high_panels, tile, wide_panel};
use super::pointwise::exp_of_negative;
use super::rows::Rows;
use super::share::Columns;
use super::{Level, bf16};

/// The heads of one sequence that share keys and values.
pub struct Group<'a> {
    /// One for each head, (queries, head).
    pub queries: &'a [Rows<'a>],
    /// (keys, head). The last query stands beside the last key.
    pub keys: Rows<'a>,
    pub values: Rows<'a>,
    /// A query sees the keys before it and its own only.
    pub causal: bool,
    /// Factor on products of queries and keys.
    pub scale: f32,
    /// Products of bf16, where the machine is quick at them; sums are f32 all the same.
    pub narrow: bool,
}

/// Where the results of a group go.
pub struct Output<'a> {
    pub columns: &'a Columns<'a>,
    /// The row of the first query.
    pub row: usize,
    /// The column of each head's first value.
    pub heads: &'a [usize],
}

impl Group<'_> {
    /// Writes each query's mean of the values, weighted by the softmax of its products with the keys.
    ///
    /// # Panics
    /// Keys and values that are not as many or as wide as each other, queries of another width or more of them than keys.
    ///
    /// # Safety
    /// Nobody else writes or reads these rows of these heads.
    pub unsafe fn attend(&self, out: &Output, level: Level) {
        let (keys, width) = (self.keys.count(), self.keys.width());
        assert!(keys == self.values.count() && width == self.values.width() && width > 0, "keys and values");
        assert!(self.queries.iter().all(|it| it.width() == width && (1..=keys).contains(&it.count())), "queries");
        assert_eq!(self.queries.len(), out.heads.len(), "a place for each head");
        let level = level.min(Level::best());
        #[cfg(target_arch = "x86_64")]
        if self.narrow && level >= Level::Amx {
            // SAFETY: the contract is the same, and the machine has tiles.
            return unsafe { bf16::attend(self, out) };
        }
        // SAFETY: the contract is the same.
        unsafe { self.attend_in_f32(out, level) };
    }

    /// The keys that the first `queries` of a tile that begins at `first` see at most.
    pub(super) fn seen(&self, first: usize, queries: usize) -> usize {
        let before = self.keys.count() - self.queries[0].count();
        if self.causal { before + first + queries } else { self.keys.count() }
    }

    /// Heads and first queries of the tiles of `wide` queries.
    pub(super) fn tiles(&self, wide: usize) -> Vec<(usize, usize)> {
        let queries = self.queries[0].count();
        (0..self.queries.len()).flat_map(|head| (0..queries).step_by(wide).map(move |first| (head, first))).collect()
    }

    /// # Safety
    /// That of [`Group::attend`].
    unsafe fn attend_in_f32(&self, out: &Output, level: Level) {
        let (keys, head) = (self.keys.count(), self.keys.width());
        let padded = keys.next_multiple_of(HIGH);
        let (mut key_room, mut value_room) = (Room::default(), Room::default());
        let key_panels = key_room.of(padded * head);
        high_panels(self.keys, key_panels);
        let value_panels = value_room.of(head.next_multiple_of(HIGH) * padded);
        value_panels.chunks_exact_mut(HIGH * padded).enumerate().for_each(|(at, panel)| self.value_panel(at, panel));
        let panels = Panels { keys: key_panels, values: value_panels, padded, level };
        let run = |room: &mut (Room, Room), tile: (usize, usize)| {
            // SAFETY: the contract is the same, and no two tiles share values.
            unsafe { self.attend_tile(tile, &panels, room, out) };
        };
        self.tiles(WIDE).into_par_iter().for_each_init(<(Room, Room)>::default, run);
    }

    /// Eight values of a head by all keys; zero where there are no more.
    fn value_panel(&self, at: usize, panel: &mut [f32]) {
        let width = HIGH.min(self.values.width() - at * HIGH);
        for (key, to) in panel.as_chunks_mut::<HIGH>().0.iter_mut().enumerate() {
            *to = [0.0; HIGH];
            if key < self.values.count() {
                to[..width].copy_from_slice(&self.values.row(key)[at * HIGH..at * HIGH + width]);
            }
        }
    }

    /// The queries of one head from `first` on, 48 of them.
    ///
    /// # Safety
    /// Nobody else has these rows of this head.
    unsafe fn attend_tile(&self, (at, first): (usize, usize), panels: &Panels, room: &mut (Room, Room), out: &Output) {
        let head = self.keys.width();
        let count = WIDE.min(self.queries[at].count() - first);
        let queries = room.0.of(head * WIDE);
        wide_panel(self.queries[at].part(first..first + count), self.scale, queries);
        let seen = self.seen(first, count);
        let used = seen.next_multiple_of(HIGH);
        let scores = room.1.of(used * WIDE);
        for (keys, scores) in panels.keys.chunks_exact(HIGH * head).zip(scores.chunks_exact_mut(HIGH * WIDE)) {
            tile(panels.level, keys, queries, scores);
        }
        if self.causal {
            mask(&mut scores[..seen * WIDE], WIDE, seen + 1 - count);
        }
        scores[seen * WIDE..].fill(0.0);
        let mut factors = [0.0; WIDE];
        softmax_columns(panels.level, &mut scores[..seen * WIDE], &mut factors);
        let mut sums = [0.0; HIGH * WIDE];
        for (panel, values) in panels.values.chunks_exact(HIGH * panels.padded).enumerate() {
            tile(panels.level, &values[..used * HIGH], scores, &mut sums);
            let width = HIGH.min(head - panel * HIGH);
            for query in 0..count {
                // SAFETY: by the contract these values are ours.
                let out = unsafe { out.columns.run(out.row + first + query, out.heads[at] + panel * HIGH, width) };
                for (value, out) in out.iter_mut().enumerate() {
                    *out = sums[value * WIDE + query] * factors[query];
                }
            }
        }
    }
}

/// Keys and values as the tiles read them.
struct Panels<'a> {
    keys: &'a [f32],
    values: &'a [f32],
    /// Keys, with those that fill the last panel.
    padded: usize,
    level: Level,
}

/// Query `i` of a tile sees the keys below `first + i` only. Scores are rows of `wide`, one for each key.
fn mask(scores: &mut [f32], wide: usize, first: usize) {
    for (key, row) in scores.chunks_exact_mut(wide).enumerate().skip(first) {
        row[..(key - first + 1).min(wide)].fill(f32::NEG_INFINITY);
    }
}

by_level!(
    /// Exponentials of each column less its largest value, and one by their sum.
    fn softmax_columns(scores: &mut [f32], factors: &mut [f32; WIDE]) = softmax_of_columns
);

#[inline(always)]
fn softmax_of_columns(scores: &mut [f32], factors: &mut [f32; WIDE]) {
    let mut largest = [f32::NEG_INFINITY; WIDE];
    for row in scores.as_chunks::<WIDE>().0 {
        for (largest, score) in largest.iter_mut().zip(row) {
            *largest = if *score > *largest { *score } else { *largest };
        }
    }
    let mut sums = [0f32; WIDE];
    for row in scores.as_chunks_mut::<WIDE>().0 {
        for ((score, largest), sum) in row.iter_mut().zip(&largest).zip(&mut sums) {
            *score = exp_of_negative(*score - *largest);
            *sum += *score;
        }
    }
    for (factor, sum) in factors.iter_mut().zip(sums) {
        *factor = 1.0 / sum;
    }
}
