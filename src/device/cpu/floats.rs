//! F1: products of f32, by tiles of 8 x 48 sums that stay in registers.

use std::ops::Range;

use rayon::prelude::*;

use super::Level;
use super::pointwise::add;
use super::rows::Rows;
use super::share::{Columns, Line, floats};

/// Rows of a tile.
pub const HIGH: usize = 8;
/// Columns of a tile.
pub const WIDE: usize = 48;
/// Tiles of weights side by side that rows of inputs are multiplied by before the next rows come: with [`STRETCH`] they take 384 KiB, which
/// the second-level cache holds.
const ABREAST: usize = 4;

/// Room for values on a boundary of cache lines.
#[derive(Default)]
pub struct Room(Vec<Line>);

impl Room {
    /// So many values, of any content.
    pub fn of(&mut self, count: usize) -> &mut [f32] {
        let lines = count.div_ceil(16);
        if self.0.len() < lines {
            self.0.resize(lines, Line::ZERO);
        }
        &mut floats(&mut self.0)[..count]
    }
}

/// `c[i][j] = sum over k of a[k][i] * b[k][j]`, with `a` in rows of 8, `b` and `c` in rows of 48.
pub fn tile(level: Level, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(c.len() >= HIGH * WIDE && a.len() / HIGH <= b.len() / WIDE, "a tile's sizes");
    #[cfg(target_arch = "x86_64")]
    match level.min(Level::best()) {
        Level::Portable => {}
        // SAFETY: the machine has the instructions.
        Level::Avx2 => return unsafe { x86::narrow_tile(a, b, c) },
        // SAFETY: as above, and the sizes are looked at above.
        Level::Avx512 | Level::Vnni | Level::Amx => return unsafe { x86::tile(a, b, c) },
    }
    plain_tile::<false>(a, b, c);
}

#[inline(always)]
fn plain_tile<const FUSED: bool>(a: &[f32], b: &[f32], c: &mut [f32]) {
    for row in (0..HIGH).step_by(4) {
        for column in (0..WIDE).step_by(24) {
            block::<FUSED>(a, b, c, row, column);
        }
    }
}

/// 4 x 24 of the sums: what sixteen registers of eight values hold.
#[inline(always)]
fn block<const FUSED: bool>(a: &[f32], b: &[f32], c: &mut [f32], row: usize, column: usize) {
    let mut sums = [[0f32; 24]; 4];
    for (a, b) in a.as_chunks::<HIGH>().0.iter().zip(b.as_chunks::<WIDE>().0) {
        for (sums, a) in sums.iter_mut().zip(&a[row..row + 4]) {
            for (sum, b) in sums.iter_mut().zip(&b[column..column + 24]) {
                *sum = if FUSED { a.mul_add(*b, *sum) } else { a * b + *sum };
            }
        }
    }
    for (sums, c) in sums.iter().zip(c.as_chunks_mut::<WIDE>().0[row..].iter_mut()) {
        c[column..column + 24].copy_from_slice(sums);
    }
}

/// The panels of 8 rows that a matrix is read in: (inner, 8) each, rows beyond the last are zero.
pub fn high_panels(rows: Rows, panels: &mut [f32]) {
    let inner = rows.width();
    let panel = |(at, panel): (usize, &mut [f32])| {
        for row in 0..HIGH {
            let at = at * HIGH + row;
            if at < rows.count() {
                panel.iter_mut().skip(row).step_by(HIGH).zip(rows.row(at)).for_each(|(to, from)| *to = *from);
            } else {
                panel.iter_mut().skip(row).step_by(HIGH).for_each(|to| *to = 0.0);
            }
        }
    };
    panels.chunks_mut((inner * HIGH).max(1)).enumerate().for_each(panel);
}

/// One panel of up to 48 rows as (inner, 48), each value times `factor`; columns beyond the last row are zero.
pub fn wide_panel(rows: Rows, factor: f32, panel: &mut [f32]) {
    /// Values of a row that are moved at a time: their columns stay in the cache while the other rows come.
    const STRIP: usize = 16;
    let inner = rows.width();
    for strip in (0..inner).step_by(STRIP) {
        let length = STRIP.min(inner - strip);
        let to = &mut panel[strip * WIDE..(strip + length) * WIDE];
        for row in 0..WIDE {
            if row < rows.count() {
                let from = &rows.row(row)[strip..strip + length];
                to.chunks_exact_mut(WIDE).zip(from).for_each(|(to, from)| to[row] = from * factor);
            } else {
                to.chunks_exact_mut(WIDE).for_each(|to| to[row] = 0.0);
            }
        }
    }
}

/// Reads rows of a weight matrix (outputs, inner) as f32.
pub type Weights<'a> = &'a (dyn Fn(Range<usize>, &mut [f32]) + Sync);

/// `inputs * weights^T + bias`, (rows, outputs).
pub fn product(inputs: Rows, weights: Weights, bias: Option<&[f32]>, out: &mut [f32], level: Level) {
    let (rows, inner) = (inputs.count(), inputs.width());
    if rows == 0 || inner == 0 {
        return;
    }
    let outputs = out.len() / rows;
    let mut room = Room::default();
    let panels = room.of(rows.div_ceil(HIGH) * HIGH * inner);
    panels.par_chunks_mut(64 * HIGH * inner).enumerate().for_each(|(at, panels)| {
        let first = at * 64 * HIGH;
        high_panels(inputs.part(first..rows.min(first + 64 * HIGH)), panels);
    });
    let panels = &*panels;
    let out = Columns::new(out, outputs);
    let each = ABREAST.min(outputs.div_ceil(WIDE).div_ceil(2 * rayon::current_num_threads())).max(1) * WIDE;
    let block = |(values, wide): &mut (Room, Room), at: usize| {
        let columns = at * each..outputs.min((at + 1) * each);
        let values = values.of(columns.len() * inner);
        weights(columns.clone(), values);
        let Some(weights) = Rows::new(values, columns.len(), inner, inner) else { return };
        Block { panels, rows, inner, weights, columns, out: &out, bias, level }.run(wide.of(each * STRETCH));
    };
    (0..outputs.div_ceil(each)).into_par_iter().for_each_init(<(Room, Room)>::default, block);
}

/// Inner values that are multiplied before the next.
const STRETCH: usize = 512;

/// All rows by some columns.
struct Block<'a> {
    /// Of the inputs.
    panels: &'a [f32],
    rows: usize,
    inner: usize,
    weights: Rows<'a>,
    columns: Range<usize>,
    out: &'a Columns<'a>,
    bias: Option<&'a [f32]>,
    level: Level,
}

impl Block<'_> {
    fn run(&self, wide: &mut [f32]) {
        let mut sums = [0.0; HIGH * WIDE];
        for start in (0..self.inner).step_by(STRETCH) {
            let stretch = start..self.inner.min(start + STRETCH);
            let size = WIDE * stretch.len();
            let parts = self.weights.columns(start, stretch.len());
            for (first, panel) in (0..self.columns.len()).step_by(WIDE).zip(wide.chunks_exact_mut(size)) {
                wide_panel(parts.part(first..self.columns.len().min(first + WIDE)), 1.0, panel);
            }
            for (at, panel) in self.panels.chunks_exact(HIGH * self.inner).enumerate() {
                let panel = &panel[stretch.start * HIGH..stretch.end * HIGH];
                for (first, wide) in self.columns.clone().step_by(WIDE).zip(wide.chunks_exact(size)) {
                    tile(self.level, panel, wide, &mut sums);
                    self.add(at * HIGH, &(first..self.columns.end.min(first + WIDE)), start == 0, &sums);
                }
            }
        }
    }

    fn add(&self, first: usize, columns: &Range<usize>, is_first: bool, sums: &[f32; HIGH * WIDE]) {
        for (row, sums) in (first..self.rows.min(first + HIGH)).zip(sums.as_chunks::<WIDE>().0) {
            // SAFETY: a block's columns are of one thread only, and this is its only slice of them.
            let out = unsafe { self.out.run(row, columns.start, columns.len()) };
            match (is_first, self.bias) {
                (true, None) => out.copy_from_slice(&sums[..columns.len()]),
                (true, Some(bias)) => add(self.level, &sums[..columns.len()], &bias[columns.clone()], out),
                (false, _) => accumulate(self.level, &sums[..columns.len()], out),
            }
        }
    }
}

by_level!(fn accumulate(values: &[f32], out: &mut [f32]) = accumulate_row);

#[inline(always)]
fn accumulate_row(values: &[f32], out: &mut [f32]) {
    for (out, value) in out.iter_mut().zip(values) {
        *out += value;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{HIGH, WIDE, plain_tile};

    #[target_feature(enable = "avx2,fma")]
    pub fn narrow_tile(a: &[f32], b: &[f32], c: &mut [f32]) {
        plain_tile::<true>(a, b, c);
    }

    /// # Safety
    /// `b` has as many rows of 48 as `a` of 8, and `c` has 8 of 48.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn tile(a: &[f32], b: &[f32], c: &mut [f32]) {
        const REGISTERS: usize = WIDE / 16;
        let mut sums = [[_mm512_setzero_ps(); REGISTERS]; HIGH];
        let (mut a_at, mut b_at) = (a.as_ptr(), b.as_ptr());
        for _ in 0..a.len() / HIGH {
            // SAFETY: rows that the caller says are there.
            unsafe {
                let b = [_mm512_loadu_ps(b_at), _mm512_loadu_ps(b_at.add(16)), _mm512_loadu_ps(b_at.add(32))];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let a = _mm512_set1_ps(*a_at.add(row));
                    for (sum, b) in sums.iter_mut().zip(b) {
                        *sum = _mm512_fmadd_ps(a, b, *sum);
                    }
                }
                a_at = a_at.add(HIGH);
                b_at = b_at.add(WIDE);
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for (at, sum) in sums.iter().enumerate() {
                // SAFETY: within the 8 rows of 48.
                unsafe { _mm512_storeu_ps(c.as_mut_ptr().add(row * WIDE + at * 16), *sum) };
            }
        }
    }
}
