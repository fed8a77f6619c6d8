//! F1: the size at which a vision tower sees a picture, and Pillow's bicubic resampling to it, byte for byte.

use rayon::prelude::*;

use super::ImageError;

/// A picture whose one side is more than so many times the other is refused, as the reference refuses it.
const MOST_ASPECT_RATIO: u32 = 200;

/// How many pixels a vision tower gets of a picture, width times height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PixelRange {
    pub min_pixels: u64,
    pub max_pixels: u64,
}

/// The height and the width to which a picture is resized: multiples of `factor`, as near as can be to the picture's, with a product in
/// `range`. This is `smart_resize` of `qwen_vl_utils`, in the arithmetic of Python: halves are rounded to even numbers.
///
/// # Errors
/// An aspect ratio above 200, a range whose ends are swapped, and a side that would become zero.
pub fn smart_resize(height: u32, width: u32, factor: u32, range: PixelRange) -> Result<(u32, u32), ImageError> {
    let PixelRange { min_pixels, max_pixels } = range;
    if min_pixels > max_pixels {
        return Err(ImageError::PixelRange { min_pixels, max_pixels });
    }
    let (long, short) = (height.max(width), height.min(width).max(1));
    if u64::from(long) > u64::from(short) * u64::from(MOST_ASPECT_RATIO) {
        let ratio = f64::from(long) / f64::from(short);
        return Err(ImageError::AspectRatio { width, height, ratio, limit: MOST_ASPECT_RATIO });
    }
    let factor = f64::from(factor);
    let sides = [height, width].map(f64::from);
    let pixels = sides[0] * sides[1];
    let rounded = sides.map(|side| ((side / factor).round_ties_even() * factor).max(factor));
    let area = rounded[0] * rounded[1];
    let [height_bar, width_bar] = if area > max_pixels as f64 {
        let beta = (pixels / max_pixels as f64).sqrt();
        sides.map(|side| (side / beta / factor).floor() * factor)
    } else if area < min_pixels as f64 {
        let beta = (min_pixels as f64 / pixels).sqrt();
        sides.map(|side| (side * beta / factor).ceil() * factor)
    } else {
        rounded
    };
    if height_bar < 1.0 || width_bar < 1.0 {
        return Err(ImageError::TooNarrow { width, height, max_pixels });
    }
    Ok((height_bar as u32, width_bar as u32))
}

/// Fraction bits of a weight: 32, less 8 for a value, less 2 for sums above one.
const WEIGHT_BITS: u32 = 32 - 8 - 2;
const HALF: i32 = 1 << (WEIGHT_BITS - 1);

/// Resizes 8-bit RGB from `(width, height)` to another such size, as Pillow 12 does with `BICUBIC`: integer weights, first the rows,
/// then the columns, 8 bits in between, and nothing in a direction whose size stays.
pub fn resize(rgb: Vec<u8>, from: (u32, u32), to: (u32, u32)) -> Vec<u8> {
    let [from, to] = [from, to].map(|(width, height)| (width as usize, height as usize));
    let wide = if from.0 == to.0 { rgb } else { resize_rows(&rgb, from.0, to.0) };
    if from.1 == to.1 { wide } else { resize_columns(&wide, to.0, (from.1, to.1)) }
}

fn resize_rows(rgb: &[u8], from: usize, to: usize) -> Vec<u8> {
    let taps = Taps::new(from, to);
    let mut out = vec![0; rgb.len() / (from * 3) * to * 3];
    out.par_chunks_exact_mut(to * 3).zip(rgb.par_chunks_exact(from * 3)).for_each(|(out, row)| {
        let row = row.as_chunks().0;
        for (at, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
            *out = weighed(row, taps.of(at));
        }
    });
    out
}

fn weighed(row: &[[u8; 3]], (first, weights): (usize, &[i32])) -> [u8; 3] {
    let mut sums = [HALF; 3];
    for (pixel, weight) in row[first..].iter().zip(weights) {
        for (sum, value) in sums.iter_mut().zip(pixel) {
            *sum += i32::from(*value) * weight;
        }
    }
    sums.map(rounded)
}

fn resize_columns(rgb: &[u8], width: usize, (from, to): (usize, usize)) -> Vec<u8> {
    let (taps, stride) = (Taps::new(from, to), width * 3);
    let mut out = vec![0; to * stride];
    out.par_chunks_exact_mut(stride).enumerate().for_each_init(
        || vec![0; stride],
        |sums, (at, out)| {
            let (first, weights) = taps.of(at);
            sums.fill(HALF);
            for (row, weight) in rgb.chunks_exact(stride).skip(first).zip(weights) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += i32::from(*value) * weight;
                }
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = rounded(*sum));
        },
    );
    out
}

/// A sum of weighed values as a value. The bits below are cut off, since every sum starts at a half.
fn rounded(sum: i32) -> u8 {
    (sum >> WEIGHT_BITS).clamp(0, 255) as u8
}

/// Which values count for each value of the result, and how much.
struct Taps {
    /// The first value that counts, and how many do.
    spans: Vec<(usize, usize)>,
    /// Weights, the same number for each value of the result.
    weights: Vec<i32>,
    most: usize,
}

impl Taps {
    fn new(from: usize, to: usize) -> Self {
        let scale = from as f64 / to as f64;
        let spread = scale.max(1.0);
        let support = 2.0 * spread;
        let most = support.ceil() as usize * 2 + 1;
        let mut taps = Taps { spans: Vec::with_capacity(to), weights: vec![0; most * to], most };
        for (at, weights) in taps.weights.chunks_exact_mut(most).enumerate() {
            let centre = (at as f64 + 0.5) * scale;
            // `as` cuts off the fraction, and makes zero of what is below.
            let first = (centre - support + 0.5) as usize;
            let end = ((centre + support + 0.5) as usize).min(from);
            let values: Vec<f64> =
                (first..end).map(|it| bicubic((it as f64 - centre + 0.5) * (1.0 / spread))).collect();
            let sum: f64 = values.iter().sum();
            for (weight, value) in weights.iter_mut().zip(&values) {
                *weight = fixed(value / sum);
            }
            taps.spans.push((first, values.len().min(most)));
        }
        taps
    }

    fn of(&self, at: usize) -> (usize, &[i32]) {
        let (first, count) = self.spans[at];
        (first, &self.weights[at * self.most..][..count])
    }
}

/// A weight in fixed point, halves rounded away from zero.
fn fixed(weight: f64) -> i32 {
    let scaled = weight * f64::from(1 << WEIGHT_BITS);
    (scaled + 0.5f64.copysign(scaled)) as i32
}

/// Keys' cubic convolution with a = -0.5, in the order of Pillow's operations.
fn bicubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    match x.abs() {
        x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
        _ => 0.0,
    }
}
