//! F1: products by 8-bit integers. Weights have a scale for each output, inputs one for each row; sums of products are exact.
//!
//! Both sides lie in tiles of 16 x 64 bytes, in the order in which AMX and VNNI read them. Inputs are stored with 128 added, because the
//! instructions multiply unsigned by signed; what that adds to a sum is known beforehand and taken away.
//!
//! A row of inputs with an outlier would lose its other values to a coarse scale (a transformer has few such rows, at the first tokens
//! above all). It is therefore quantised twice: as itself, and what was lost, in a row of its own at the end. See `OUTLIER`.

use std::ops::Range;

use rayon::prelude::*;

use super::Level;
use super::rows::Rows;
use super::share::{Columns, Line, bytes};

/// Outputs in a tile.
pub const OUTPUTS: usize = 16;
/// Values of the inner dimension in a tile.
pub const INNER: usize = 64;
/// Rows in a tile of inputs.
pub const ROWS: usize = 16;
/// What is added to a quantised input.
const ZERO: i32 = 128;
/// A row whose largest value is so many times the mean of their sizes is quantised twice. Gaussian rows have about 5, products of two such
/// (what SwiGLU gives) about 20.
const OUTLIER: f32 = 12.0;
/// Bytes of weights that a thread keeps in its second-level cache while rows of inputs go by.
const BLOCK_BYTES: usize = 1 << 19;

/// A weight matrix (outputs, inner), quantised.
pub struct Weights<B> {
    /// Tiles: 16 outputs' inner dimension, 64 values at a time, as 16 rows of 16 outputs by 4 values.
    tiles: B,
    /// Value of a step, by output.
    scales: Vec<f32>,
    /// What [`ZERO`] adds to a sum, by output, padded to tiles.
    offsets: Vec<i32>,
    inner: usize,
}

/// Bytes that a matrix takes in tiles.
pub fn packed_size(outputs: usize, inner: usize) -> usize {
    outputs.next_multiple_of(OUTPUTS) * inner.next_multiple_of(INNER)
}

/// Quantises up to 16 outputs of `inner` values each, row after row, to tiles, scales and sums of steps. `None` if a value is not finite.
pub fn pack(values: &[f32], inner: usize, tiles: &mut [u8], scales: &mut [f32], sums: &mut [i32]) -> Option<()> {
    let mut steps = vec![0; inner.next_multiple_of(4)];
    let outputs = values.chunks_exact(inner).zip(scales).zip(sums);
    for (output, ((row, scale), sum)) in outputs.enumerate() {
        *scale = extent(Level::best(), row).finite()?.largest / 127.0;
        *sum = steps_of(Level::best(), row, *scale, &mut steps);
        let places = tiles.as_chunks_mut::<INNER>().0;
        for (four, line) in steps.as_chunks::<4>().0.iter().zip(places) {
            line[output * 4..output * 4 + 4].copy_from_slice(four);
        }
    }
    Some(())
}

by_level!(fn steps_of(row: &[f32], scale: f32, steps: &mut [u8]) -> i32 = steps_of_row);

/// The steps nearest to the values, and their sum.
#[inline(always)]
fn steps_of_row(row: &[f32], scale: f32, steps: &mut [u8]) -> i32 {
    let factor = factor(scale);
    let mut sum = 0;
    for (step, value) in steps.iter_mut().zip(row) {
        *step = (value * factor + ROUND).to_bits() as u8;
        // Far from an overflow; a check would keep the loop out of vector registers.
        sum = i32::wrapping_add(sum, i32::from(*step as i8));
    }
    sum
}

/// 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;

fn factor(scale: f32) -> f32 {
    // Of a row of zeros, or of values so small that there is no such factor.
    let factor = 1.0 / scale;
    if factor.is_finite() { factor } else { 0.0 }
}

impl<B: AsRef<[u8]>> Weights<B> {
    /// Of packed tiles, their scales and sums; `None` if the sizes don't fit each other.
    pub fn new(tiles: B, scales: Vec<f32>, sums: &[i32], inner: usize) -> Option<Self> {
        let outputs = scales.len();
        if inner == 0 || sums.len() != outputs || tiles.as_ref().len() != packed_size(outputs, inner) {
            return None;
        }
        let mut offsets: Vec<i32> = sums.iter().map(|sum| sum.wrapping_mul(ZERO)).collect();
        offsets.resize(outputs.next_multiple_of(OUTPUTS), 0);
        Some(Weights { tiles, scales, offsets, inner })
    }

    pub fn outputs(&self) -> usize {
        self.scales.len()
    }

    fn panel_bytes(&self) -> usize {
        OUTPUTS * self.inner.next_multiple_of(INNER)
    }

    /// Panels that a thread takes at a time, of a product with so many outputs: an even number for the kernels that take two at once, as
    /// many as the cache holds, and few enough for every thread to have some.
    fn blocks(&self, outputs: usize) -> impl Iterator<Item = Range<usize>> + use<B> {
        let fit = BLOCK_BYTES / self.panel_bytes();
        let fair = outputs.div_ceil(OUTPUTS).div_ceil(2 * rayon::current_num_threads());
        let (panels, each) = (self.panels(), fit.min(fair).max(2).next_multiple_of(2));
        (0..panels.div_ceil(each)).map(move |block| block * each..panels.min((block + 1) * each))
    }

    fn panels(&self) -> usize {
        self.offsets.len() / OUTPUTS
    }

    /// A panel of tiles; the one before the last if there is no such, for kernels that take two.
    fn panel(&self, at: usize) -> &[u8] {
        let at = at.min(self.panels() - 1);
        &self.tiles.as_ref()[at * self.panel_bytes()..][..self.panel_bytes()]
    }
}

/// Inputs, quantised.
pub struct Inputs {
    tiles: Vec<Line>,
    /// Value of a step, by row; those of the remainders behind them, from the next tile on.
    scales: Vec<f32>,
    /// The row that each remainder belongs to.
    remainders: Vec<usize>,
    rows: usize,
    inner: usize,
}

/// Which rows are quantised twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twice {
    /// Those with outliers.
    Outliers,
    /// All, for sums that must be better than 8 bits.
    All,
}

impl Inputs {
    /// Quantises rows.
    pub fn new(rows: Rows, twice: Twice, level: Level) -> Self {
        let inner = rows.width().next_multiple_of(INNER);
        let (count, group_lines) = (rows.count(), inner / INNER * ROWS);
        let mut scales = vec![0.0; count];
        let mut tiles = vec![Line::ZERO; count.div_ceil(ROWS) * group_lines];
        let group = |(at, (lines, scales)): (usize, (&mut [Line], &mut [f32]))| {
            let mut remainders = Vec::new();
            for (row, scale) in scales.iter_mut().enumerate() {
                let values = rows.row(at * ROWS + row);
                let extent = extent(level, values);
                *scale = extent.step();
                quantise(level, values, *scale, lines, row);
                if twice == Twice::All || extent.has_outlier() {
                    remainders.push(at * ROWS + row);
                }
            }
            remainders
        };
        let groups = tiles.par_chunks_mut(group_lines).zip(scales.par_chunks_mut(ROWS));
        let remainders: Vec<usize> = groups.enumerate().flat_map_iter(group).collect();
        let mut inputs = Inputs { tiles, scales, remainders, rows: count, inner };
        // They begin with a tile, so that those of each can be written by a thread.
        let first = count.next_multiple_of(ROWS);
        if !inputs.remainders.is_empty() {
            inputs.scales.resize(first + inputs.remainders.len(), 0.0);
            inputs.tiles.resize(inputs.scales.len().div_ceil(ROWS) * group_lines, Line::ZERO);
            inputs.quantise_remainders(rows, level);
        }
        inputs
    }

    fn quantise_remainders(&mut self, rows: Rows, level: Level) {
        let (first, group_lines) = (self.rows.next_multiple_of(ROWS), self.inner / INNER * ROWS);
        let (steps, scales) = self.scales.split_at_mut(first);
        let lines = &mut self.tiles[first / ROWS * group_lines..];
        let group = |lost: &mut Vec<f32>, ((lines, scales), of): ((&mut [Line], &mut [f32]), &[usize])| {
            for (at, (&row, scale)) in of.iter().zip(scales).enumerate() {
                remainder(level, rows.row(row), steps[row], lost);
                *scale = extent(level, lost).step();
                quantise(level, lost, *scale, lines, at);
            }
        };
        let groups = lines.par_chunks_mut(group_lines).zip(scales.par_chunks_mut(ROWS));
        groups.zip(self.remainders.par_chunks(ROWS)).for_each_init(|| vec![0.0; rows.width()], group);
    }

    fn panel(&self, at: usize) -> &[u8] {
        let panel_lines = self.inner / INNER * ROWS;
        let at = at.min(self.tiles.len() / panel_lines - 1);
        bytes(&self.tiles[at * panel_lines..][..panel_lines])
    }

    /// Rows with those of remainders.
    fn all(&self) -> usize {
        self.scales.len()
    }

    /// Where the products of a row go, and whether they are added to what is there; nowhere, between the rows and the remainders.
    fn destination(&self, row: usize) -> Option<(usize, bool)> {
        if row < self.rows {
            return Some((row, false));
        }
        let remainder = row.checked_sub(self.rows.next_multiple_of(ROWS))?;
        Some((*self.remainders.get(remainder)?, true))
    }
}

/// How far the values of a row reach.
struct Extent {
    largest: f32,
    /// Of their sizes.
    sum: f32,
    count: usize,
}

impl Extent {
    /// What a step is worth; not a number if a value is none or not finite, which all products of the row then show.
    fn step(&self) -> f32 {
        if self.sum.is_finite() { self.largest / 127.0 } else { f32::NAN }
    }

    fn has_outlier(&self) -> bool {
        self.largest * self.count as f32 > OUTLIER * self.sum
    }

    /// Unless a value is not finite, which the sum shows.
    fn finite(self) -> Option<Self> {
        self.sum.is_finite().then_some(self)
    }
}

by_level!(fn extent(row: &[f32]) -> Extent = extent_of);

#[inline(always)]
fn extent_of(row: &[f32]) -> Extent {
    let (mut largest, mut sums) = ([0f32; 16], [0f32; 16]);
    let (chunks, rest) = row.as_chunks::<16>();
    for chunk in chunks {
        for ((largest, sum), value) in largest.iter_mut().zip(&mut sums).zip(chunk) {
            let value = value.abs();
            *largest = if value > *largest { value } else { *largest };
            *sum += value;
        }
    }
    let rest_largest = rest.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    Extent {
        largest: largest.iter().fold(rest_largest, |a, &b| a.max(b)),
        sum: sums.iter().sum::<f32>() + rest.iter().map(|it| it.abs()).sum::<f32>(),
        count: row.len(),
    }
}

by_level!(fn remainder(row: &[f32], scale: f32, lost: &mut [f32]) = remainder_of);

/// What the steps of a row leave out, as [`quantise`] rounds them.
#[inline(always)]
fn remainder_of(row: &[f32], scale: f32, lost: &mut [f32]) {
    let factor = factor(scale);
    for (lost, value) in lost.iter_mut().zip(row) {
        *lost = value - (value * factor + ROUND - ROUND) * scale;
    }
}

by_level!(
    /// Writes a row of a group's tiles; `lines` are the group's.
    fn quantise(row: &[f32], scale: f32, lines: &mut [Line], at: usize) = quantise_row
);

#[inline(always)]
fn quantise_row(row: &[f32], scale: f32, lines: &mut [Line], at: usize) {
    let factor = factor(scale);
    let step = |value: f32| (value * factor + ROUND).to_bits().wrapping_add(ZERO as u32) as u8;
    for (part, tile) in row.chunks(INNER).zip(lines.chunks_exact_mut(ROWS)) {
        let line = &mut tile[at].0;
        if let Ok(part) = <&[f32; INNER]>::try_from(part) {
            for (byte, &value) in line.iter_mut().zip(part) {
                *byte = step(value);
            }
        } else {
            *line = [ZERO as u8; INNER];
            for (byte, &value) in line.iter_mut().zip(part) {
                *byte = step(value);
            }
        }
    }
}

/// `inputs * weights^T + bias`, (rows, outputs): the outputs of each part side by side.
pub fn product<B: AsRef<[u8]> + Sync>(
    inputs: &Inputs,
    parts: &[Weights<B>],
    bias: Option<&[f32]>,
    out: &mut [f32],
    level: Level,
) {
    let outputs: usize = parts.iter().map(Weights::outputs).sum();
    assert_eq!(out.len(), inputs.rows * outputs, "room for each product");
    if out.is_empty() {
        return;
    }
    let out = Columns::new(out, outputs);
    let mut column = 0;
    let mut blocks = Vec::new();
    for weights in parts {
        assert_eq!(inputs.inner, weights.inner.next_multiple_of(INNER), "inputs of another width");
        let bias = bias.map(|bias| &bias[column..column + weights.outputs()]);
        let level = level.min(Level::best());
        let job = Job { inputs, weights, bias, out: &out, column, level };
        blocks.extend(weights.blocks(outputs).map(move |panels| (job, panels)));
        column += weights.outputs();
    }
    blocks.into_par_iter().for_each(|(job, panels)| job.run(panels));
}

struct Job<'a, B> {
    inputs: &'a Inputs,
    weights: &'a Weights<B>,
    bias: Option<&'a [f32]>,
    out: &'a Columns<'a>,
    /// Of the first output.
    column: usize,
    level: Level,
}

// Derived, it would ask the same of `B`.
impl<B> Clone for Job<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Job<'_, B> {}

/// A tile of the products.
struct Place {
    group: usize,
    panel: usize,
}

/// Sums of 2 x 2 tiles: rows 0-15 by outputs 0-15, by outputs 16-31, then rows 16-31.
type Sums = [[i32; ROWS * OUTPUTS]; 4];

impl<B: AsRef<[u8]>> Job<'_, B> {
    /// All rows by some panels of outputs.
    fn run(&self, panels: Range<usize>) {
        #[repr(align(64))]
        struct Aligned(Sums);
        let mut sums = Aligned([[0; ROWS * OUTPUTS]; 4]);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that there are tiles.
        let tiles = (self.level >= Level::Amx).then(|| unsafe { super::amx::Tiles::new() });
        let groups = self.inputs.all().div_ceil(ROWS);
        for group in (0..groups).step_by(2) {
            for panel in panels.clone().step_by(2) {
                let a = [self.inputs.panel(group), self.inputs.panel(group + 1)];
                let b = [self.weights.panel(panel), self.weights.panel(panel + 1)];
                #[cfg(target_arch = "x86_64")]
                match &tiles {
                    Some(tiles) => amx_sums(a, b, group + 1 < groups, &mut sums.0, tiles),
                    None => sums_of(a, b, group + 1 < groups, &mut sums.0, self.level),
                }
                #[cfg(not(target_arch = "x86_64"))]
                sums_of(a, b, group + 1 < groups, &mut sums.0, self.level);
                for (at, sums) in sums.0.iter().enumerate() {
                    let panel = panel + at % 2;
                    if panel < panels.end {
                        self.write(&Place { group: group + at / 2, panel }, sums);
                    }
                }
            }
        }
    }

    /// Scales the sums of a tile to where they belong.
    fn write(&self, place: &Place, sums: &[i32; ROWS * OUTPUTS]) {
        #[cfg(target_arch = "x86_64")]
        if self.level >= Level::Avx512 {
            // SAFETY: the level says that the processor has what the function is compiled for.
            return unsafe { x86::write(self, place, sums) };
        }
        self.write_rows(place, sums);
    }

    /// The rows of a tile.
    fn rows(&self, place: &Place) -> Range<usize> {
        place.group * ROWS..self.inputs.all().min((place.group + 1) * ROWS)
    }

    fn write_rows(&self, place: &Place, sums: &[i32; ROWS * OUTPUTS]) {
        let first = place.panel * OUTPUTS;
        let width = OUTPUTS.min(self.weights.outputs() - first);
        let scales = &self.weights.scales[first..first + width];
        let offsets = &self.weights.offsets[first..];
        let bias = |at: usize| self.bias.map_or(0.0, |bias| bias[first + at]);
        for (row, sums) in self.rows(place).zip(sums.as_chunks::<OUTPUTS>().0) {
            let Some((to, is_remainder)) = self.inputs.destination(row) else { continue };
            // SAFETY: a panel's columns are of one thread only, and this is its only slice of them.
            let out = unsafe { self.out.run(to, self.column + first, width) };
            for (at, out) in out.iter_mut().enumerate() {
                let before = if is_remainder { *out } else { bias(at) };
                let product = sums[at].wrapping_sub(offsets[at]) as f32;
                *out = product * (scales[at] * self.inputs.scales[row]) + before;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn amx_sums(a: [&[u8]; 2], b: [&[u8]; 2], both: bool, sums: &mut Sums, tiles: &super::amx::Tiles) {
    let count = a[0].len() / (ROWS * INNER);
    let b = b.map(<[u8]>::as_ptr);
    // SAFETY: each panel is `count` tiles, 1024 bytes each, and `tiles` is alive.
    unsafe {
        if both {
            super::amx::u8i8_2x2(a.map(<[u8]>::as_ptr), INNER, ROWS * INNER, b, count, sums, tiles);
        } else {
            super::amx::u8i8_1x2(a[0].as_ptr(), b, count, sums, tiles);
        }
    }
}

/// Without tiles: each pair of panels by itself; the second group of rows only if there is one.
fn sums_of(a: [&[u8]; 2], b: [&[u8]; 2], both: bool, sums: &mut Sums, level: Level) {
    for (at, sums) in sums.iter_mut().enumerate().take(if both { 4 } else { 2 }) {
        let (a, b) = (a[at / 2], b[at % 2]);
        #[cfg(target_arch = "x86_64")]
        if level >= Level::Vnni {
            // SAFETY: the level says that the processor has what the function is compiled for.
            unsafe { x86::vnni(a, b, sums) };
            continue;
        } else if level >= Level::Avx2 {
            // SAFETY: as above.
            unsafe { x86::avx2(a, b, sums) };
            continue;
        }
        let _ = level;
        plain(a, b, sums);
    }
}

/// The sums of a group of rows by a panel of outputs.
///
/// A tile of weights is put in order of its outputs first, so that both sides of a sum lie side by side: a loop that the compiler knows
/// instructions for.
fn plain(a: &[u8], b: &[u8], sums: &mut [i32; ROWS * OUTPUTS]) {
    *sums = [0; ROWS * OUTPUTS];
    let (a, b) = (a.as_chunks::<{ ROWS * INNER }>().0, b.as_chunks::<{ OUTPUTS * INNER }>().0);
    for (a, b) in a.iter().zip(b) {
        let mut weights = [[0i16; INNER]; OUTPUTS];
        for (step, line) in b.as_chunks::<INNER>().0.iter().enumerate() {
            for (weights, four) in weights.iter_mut().zip(line.as_chunks::<4>().0) {
                weights[step * 4..step * 4 + 4].copy_from_slice(&four.map(|it| i16::from(it as i8)));
            }
        }
        for (row, sums) in a.as_chunks::<INNER>().0.iter().zip(sums.as_chunks_mut::<OUTPUTS>().0) {
            let row = row.map(i16::from);
            for (sum, weights) in sums.iter_mut().zip(&weights) {
                let product = |(a, b): (&i16, &i16)| i32::from(*a).wrapping_mul(i32::from(*b));
                *sum = row.iter().zip(weights).map(product).fold(*sum, i32::wrapping_add);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
    pub fn write<B: AsRef<[u8]>>(job: &Job<B>, place: &Place, sums: &[i32; ROWS * OUTPUTS]) {
        let first = place.panel * OUTPUTS;
        let scales = job.weights.scales.get(first..).and_then(|it| it.first_chunk::<OUTPUTS>());
        let offsets = job.weights.offsets.get(first..).and_then(|it| it.first_chunk::<OUTPUTS>());
        let (Some(scales), Some(offsets)) = (scales, offsets) else { return job.write_rows(place, sums) };
        let bias = job.bias.and_then(|bias| bias[first..].first_chunk()).unwrap_or(&[0.0; OUTPUTS]);
        // SAFETY: each is sixteen values.
        let (scales, offsets, bias) =
            unsafe { (load(scales), _mm512_loadu_si512(offsets.as_ptr().cast()), load(bias)) };
        for (row, sums) in job.rows(place).zip(sums.as_chunks::<OUTPUTS>().0) {
            let Some((to, is_remainder)) = job.inputs.destination(row) else { continue };
            // SAFETY: a panel's columns are of one thread only, and this is its only slice of them.
            let out = unsafe { job.out.run(to, job.column + first, OUTPUTS) };
            // SAFETY: sixteen integers.
            let sums = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
            let products = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, offsets));
            let Some(out) = out.first_chunk_mut::<OUTPUTS>() else { continue };
            let before = if is_remainder { load(out) } else { bias };
            let by = _mm512_mul_ps(scales, _mm512_set1_ps(job.inputs.scales[row]));
            // SAFETY: sixteen values of room.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_add_ps(_mm512_mul_ps(products, by), before)) };
        }
    }

    #[target_feature(enable = "avx512f")]
    fn load(values: &[f32; OUTPUTS]) -> __m512 {
        // SAFETY: sixteen values.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }

    /// Two rows at a time: a register of weights has four values of each of four outputs, its products two sums of each.
    #[target_feature(enable = "avx2")]
    pub fn avx2(a: &[u8], b: &[u8], sums: &mut [i32; ROWS * OUTPUTS]) {
        let (a, b) = (a.as_chunks::<{ ROWS * INNER }>().0, b.as_chunks::<{ OUTPUTS * INNER }>().0);
        for (pair, sums) in sums.as_chunks_mut::<{ 2 * OUTPUTS }>().0.iter_mut().enumerate() {
            let mut registers = [[_mm256_setzero_si256(); 4]; 2];
            for (a, b) in a.iter().zip(b) {
                for (step, line) in b.as_chunks::<INNER>().0.iter().enumerate() {
                    let fours = [0, 1].map(|row| {
                        // SAFETY: four bytes of one of the sixteen rows.
                        let four = unsafe {
                            a.as_ptr().add((2 * pair + row) * INNER + step * 4).cast::<i32>().read_unaligned()
                        };
                        _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(four)))
                    });
                    for at in 0..4 {
                        // SAFETY: sixteen of the line's 64 bytes.
                        let weights = unsafe { _mm_loadu_si128(line.as_ptr().add(at * 16).cast()) };
                        let weights = _mm256_cvtepi8_epi16(weights);
                        for (registers, four) in registers.iter_mut().zip(fours) {
                            registers[at] = _mm256_add_epi32(registers[at], _mm256_madd_epi16(weights, four));
                        }
                    }
                }
            }
            for (registers, sums) in registers.iter().zip(sums.as_chunks_mut::<OUTPUTS>().0) {
                for (register, sums) in registers.iter().zip(sums.as_chunks_mut::<4>().0) {
                    let mut halves = [0i32; 8];
                    // SAFETY: eight integers of room.
                    unsafe { _mm256_storeu_si256(halves.as_mut_ptr().cast(), *register) };
                    *sums = [0, 2, 4, 6].map(|at| halves[at].wrapping_add(halves[at + 1]));
                }
            }
        }
    }

    /// Sixteen rows by sixteen outputs: sixteen sums of a register each, one load of weights for sixteen instructions.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub fn vnni(a: &[u8], b: &[u8], sums: &mut [i32; ROWS * OUTPUTS]) {
        let mut registers = [_mm512_setzero_si512(); ROWS];
        let (a, b) = (a.as_chunks::<{ ROWS * INNER }>().0, b.as_chunks::<{ OUTPUTS * INNER }>().0);
        for (a, b) in a.iter().zip(b) {
            for step in 0..INNER / 4 {
                // SAFETY: 64 bytes of the tile, at a multiple of 64 below its 1024.
                let weights = unsafe { _mm512_loadu_si512(b.as_ptr().add(step * INNER).cast()) };
                for (row, register) in registers.iter_mut().enumerate() {
                    // SAFETY: four bytes of row `row`, within its 64.
                    let four = unsafe { a.as_ptr().add(row * INNER + step * 4).cast::<i32>().read_unaligned() };
                    *register = _mm512_dpbusd_epi32(*register, _mm512_set1_epi32(four), weights);
                }
            }
        }
        for (register, sums) in registers.iter().zip(sums.as_chunks_mut::<OUTPUTS>().0) {
            // SAFETY: sixteen integers of room.
            unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), *register) };
        }
    }
}
