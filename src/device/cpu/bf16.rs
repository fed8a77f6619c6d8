//! F1: attention by tiles of bf16: as that in f32 (see `attention`), 32 queries at a time, each operand in the order in which the tiles are read.

#![cfg(target_arch = "x86_64")]

use half::bf16;
use rayon::prelude::*;

use super::Level;
use super::amx::{Tiles, bf16_2x2};
use super::attention::{Group, Output};
use super::pointwise::exp_of_negative;
use super::rows::Rows;
use super::share::Line;

/// Rows of a tile, and its columns of f32.
const SIDE: usize = 16;
/// Inner values of a tile: pairs of bf16.
const DEEP: usize = 32;
/// Queries of a tile of work.
const QUERIES: usize = 2 * SIDE;
/// Lines in a tile.
const TILE: usize = 16;

/// A tile of f32 sums.
type Sums = [f32; SIDE * SIDE];

/// # Safety
/// That of [`Group::attend`]; the machine has tiles.
pub unsafe fn attend(group: &Group, out: &Output) {
    let (keys, head) = (group.keys.count(), group.keys.width());
    let padded = keys.next_multiple_of(DEEP);
    let steps = head.div_ceil(DEEP);
    let packed =
        Packed { keys: key_tiles(group.keys, padded), values: value_tiles(group.values, padded), padded, steps, head };
    let run = |work: &mut Work, tile: (usize, usize)| {
        // SAFETY: the contract is the same, and no two tiles share values.
        unsafe { work.attend(tile, group, &packed, out) };
    };
    group.tiles(QUERIES).into_par_iter().for_each_init(Work::default, run);
}

/// Keys and values in tiles.
struct Packed {
    /// 16 keys by 32 values of a head: all steps of 16 keys, then the next keys.
    keys: Vec<Line>,
    /// 16 values of a head by 32 keys: all keys of 16 values, then the next values.
    values: Vec<Line>,
    padded: usize,
    /// Tiles that a head takes.
    steps: usize,
    head: usize,
}

/// A thread's room.
#[derive(Default)]
struct Work {
    /// For each half of the queries: pairs of values by queries.
    queries: Vec<Line>,
    /// Sums of 16 keys by 16 queries: both halves of the queries for some keys, then for the next.
    scores: Vec<Line>,
    /// For each half of the queries: pairs of keys by queries.
    weights: Vec<Line>,
}

impl Work {
    /// The queries of one head from `first` on, 32 of them.
    ///
    /// # Safety
    /// Nobody else has these rows of this head; the machine has tiles.
    unsafe fn attend(&mut self, (at, first): (usize, usize), group: &Group, packed: &Packed, out: &Output) {
        let count = QUERIES.min(group.queries[at].count() - first);
        let seen = group.seen(first, count);
        let used = seen.next_multiple_of(DEEP);
        self.fit(packed.padded, packed.steps);
        query_tiles(Level::Avx512, group.queries[at].part(first..first + count), group.scale, &mut self.queries);
        // SAFETY: the machine has tiles.
        let tiles = unsafe { Tiles::new() };
        self.score(packed, used, &tiles);
        if group.causal {
            self.mask(seen + 1 - count, used);
        } else {
            self.mask_beyond(seen, used);
        }
        let factors = [self.weigh(0, used), self.weigh(1, used)];
        for pair in 0..packed.head.div_ceil(QUERIES) {
            let sums = self.sum(packed, pair, used, &tiles);
            for (tile, sums) in sums.iter().enumerate() {
                let (half, value) = (tile % 2, (pair * 2 + tile / 2) * SIDE);
                let width = SIDE.min(packed.head.saturating_sub(value));
                for query in (0..SIDE).take_while(|query| width > 0 && half * SIDE + query < count) {
                    let row = out.row + first + half * SIDE + query;
                    // SAFETY: by the contract these values are ours.
                    let out = unsafe { out.columns.run(row, out.heads[at] + value, width) };
                    for (value, out) in out.iter_mut().enumerate() {
                        *out = sums[value * SIDE + query] * factors[half][query];
                    }
                }
            }
        }
    }

    fn fit(&mut self, padded: usize, steps: usize) {
        self.queries.resize(2 * steps * TILE, Line::ZERO);
        self.scores.resize(padded / SIDE * 2 * TILE, Line::ZERO);
        self.weights.resize(2 * padded / DEEP * TILE, Line::ZERO);
    }

    fn sums(&mut self) -> &mut [Sums] {
        // SAFETY: a line is sixteen f32 of any bits, and sixteen lines are a tile.
        unsafe { std::slice::from_raw_parts_mut(self.scores.as_mut_ptr().cast(), self.scores.len() / TILE) }
    }

    /// The products of all queries with the first `used` keys.
    fn score(&mut self, packed: &Packed, used: usize, tiles: &Tiles) {
        let half = packed.steps * TILE;
        let queries = [self.queries.as_ptr().cast(), self.queries[half..].as_ptr().cast()];
        for (keys, sums) in packed.keys.chunks_exact(2 * half).zip(self.sums().as_chunks_mut::<4>().0).take(used / DEEP)
        {
            let keys = [keys.as_ptr().cast(), keys[half..].as_ptr().cast()];
            // SAFETY: each has `steps` tiles, one after the other.
            unsafe { bf16_2x2(keys, 64, 1024, queries, packed.steps, sums, tiles) };
        }
    }

    /// Query `i` sees the keys below `first + i` only.
    fn mask(&mut self, first: usize, used: usize) {
        let sums = self.sums();
        for key in first..used {
            for query in 0..QUERIES.min(key - first + 1) {
                let tile = key / SIDE * 2 + query / SIDE;
                sums[tile][key % SIDE * SIDE + query % SIDE] = f32::NEG_INFINITY;
            }
        }
    }

    /// No query sees the keys from `seen` on.
    fn mask_beyond(&mut self, seen: usize, used: usize) {
        let sums = self.sums();
        for key in seen..used {
            for tile in [key / SIDE * 2, key / SIDE * 2 + 1] {
                sums[tile][key % SIDE * SIDE..][..SIDE].fill(f32::NEG_INFINITY);
            }
        }
    }

    /// Exponentials of the scores of half the queries, less the largest of each, and one by their sum.
    fn weigh(&mut self, half: usize, used: usize) -> [f32; SIDE] {
        let count = self.weights.len() / 2;
        // SAFETY: a line is sixteen pairs of bf16, any bits of which are valid.
        let weights: &mut [[u32; SIDE]] =
            unsafe { std::slice::from_raw_parts_mut(self.weights[half * count..].as_mut_ptr().cast(), count) };
        // SAFETY: a line is sixteen f32 of any bits, and sixteen lines are a tile.
        let sums: &[Sums] =
            unsafe { std::slice::from_raw_parts(self.scores.as_ptr().cast(), self.scores.len() / TILE) };
        let mut factors = [0.0; SIDE];
        weigh_columns(Level::Avx512, &sums[..used / SIDE * 2], half, weights, &mut factors);
        factors
    }

    /// 32 values of a head by all queries: two tiles of the first 16, two of the others.
    fn sum(&mut self, packed: &Packed, pair: usize, used: usize, tiles: &Tiles) -> [Sums; 4] {
        let count = self.weights.len() / 2;
        let weights = [self.weights.as_ptr().cast(), self.weights[count..].as_ptr().cast()];
        let strip = packed.padded / DEEP * TILE;
        let last = packed.head.div_ceil(SIDE) - 1;
        let values = [2 * pair, (2 * pair + 1).min(last)].map(|at| packed.values[at * strip..].as_ptr().cast());
        let mut sums = [[0.0; SIDE * SIDE]; 4];
        // SAFETY: each has a tile for every 32 keys, one after the other.
        unsafe { bf16_2x2(values, 64, 1024, weights, used / DEEP, &mut sums, tiles) };
        sums
    }
}

/// Rows of pairs, keys side by side: a tile of 16 keys by 32 values after the other.
fn key_tiles(keys: Rows, padded: usize) -> Vec<Line> {
    let steps = keys.width().div_ceil(DEEP);
    let mut lines = vec![Line::ZERO; padded / SIDE * steps * TILE];
    for key in 0..keys.count() {
        for (step, part) in keys.row(key).chunks(DEEP).enumerate() {
            let line = &mut lines[(key / SIDE * steps + step) * TILE + key % SIDE];
            narrow(Level::Avx512, part, halves(line));
        }
    }
    lines
}

/// Values side by side: a tile of 16 values by 32 keys after the other.
fn value_tiles(values: Rows, padded: usize) -> Vec<Line> {
    let strip = padded / DEEP * TILE;
    let mut lines = vec![Line::ZERO; values.width().div_ceil(SIDE) * strip];
    let mut row = vec![0u16; values.width()];
    for key in 0..values.count() {
        narrow(Level::Avx512, values.row(key), &mut row);
        for (at, value) in row.iter().enumerate() {
            let line = &mut lines[at / SIDE * strip + key / DEEP * TILE + at % SIDE];
            halves(line)[key % DEEP] = *value;
        }
    }
    lines
}

by_level!(fn query_tiles(queries: Rows, factor: f32, lines: &mut [Line]) = query_tiles_of);

/// Pairs of values by queries, for each half of the queries.
#[inline(always)]
fn query_tiles_of(queries: Rows, factor: f32, lines: &mut [Line]) {
    lines.fill(Line::ZERO);
    let half = lines.len() / 2;
    for query in 0..queries.count() {
        for (at, value) in queries.row(query).iter().enumerate() {
            let line = &mut lines[query / SIDE * half + at / 2];
            halves(line)[query % SIDE * 2 + at % 2] = rounded(value * factor);
        }
    }
}

by_level!(fn narrow(values: &[f32], halves: &mut [u16]) = narrow_of);

#[inline(always)]
fn narrow_of(values: &[f32], halves: &mut [u16]) {
    for (half, value) in halves.iter_mut().zip(values) {
        *half = rounded(*value);
    }
}

/// To the nearest bf16, ties to even. What is not finite stays so.
#[inline(always)]
fn rounded(value: f32) -> u16 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let is_number = bits & 0x7fff_ffff <= 0x7f80_0000;
    (if is_number { nearest } else { bits >> 16 | 0x40 }) as u16
}

fn halves(line: &mut Line) -> &mut [u16; DEEP] {
    const { assert!(size_of::<Line>() == DEEP * size_of::<bf16>()) };
    // SAFETY: a line is 32 times 16 bits, aligned for them, any of which are valid.
    unsafe { &mut *std::ptr::from_mut(line).cast() }
}

by_level!(
    /// Exponentials of scores of 16 queries less the largest of each, as pairs of keys in bf16; and one by their sums.
    fn weigh_columns(sums: &[Sums], half: usize, weights: &mut [[u32; SIDE]], factors: &mut [f32; SIDE]) = weigh_of
);

#[inline(always)]
fn weigh_of(sums: &[Sums], half: usize, weights: &mut [[u32; SIDE]], factors: &mut [f32; SIDE]) {
    let mut largest = [f32::NEG_INFINITY; SIDE];
    for tile in sums.iter().skip(half).step_by(2) {
        for row in tile.as_chunks::<SIDE>().0 {
            for (largest, score) in largest.iter_mut().zip(row) {
                *largest = if *score > *largest { *score } else { *largest };
            }
        }
    }
    let mut totals = [0f32; SIDE];
    let mut lines = weights.iter_mut();
    for tile in sums.iter().skip(half).step_by(2) {
        for (rows, line) in tile.as_chunks::<{ 2 * SIDE }>().0.iter().zip(lines.by_ref()) {
            for at in 0..SIDE {
                let first = exp_of_negative(rows[at] - largest[at]);
                let second = exp_of_negative(rows[at + SIDE] - largest[at]);
                totals[at] += first + second;
                // Both are finite and not negative.
                let nearest = |value: f32| value.to_bits().wrapping_add(0x7fff + (value.to_bits() >> 16 & 1));
                line[at] = nearest(first) >> 16 | nearest(second) & 0xffff_0000;
            }
        }
    }
    for (factor, total) in factors.iter_mut().zip(totals) {
        *factor = 1.0 / total;
    }
}
