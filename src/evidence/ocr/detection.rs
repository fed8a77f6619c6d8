//! Where text stands: the detection network (DB, arXiv 1911.08947) over a picture of any size, in tiles.

use rayon::prelude::*;

use super::OcrError;
use super::network::Network;
use super::pixels::{Grid, Pixels};

/// How likely each pixel lies within a line of text, 0 to 255.
pub struct TextMap {
    pub width: usize,
    pub values: Vec<u8>,
    /// Pixels of the map for one of the picture.
    pub scale: f32,
}

/// Sides of the network's input are multiples of this.
const STRIDE: usize = 32;
/// The longest side that goes through the network in one piece: activations take about 400 bytes a pixel.
const TILE: usize = 1536;
/// What neighbouring tiles share: half of it is read by each with text on both sides.
const OVERLAP: usize = 128;

/// Mean and deviation of the values that the network was trained on.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// # Errors
/// A network that is no text detector.
pub fn detect(network: &Network, picture: &Pixels, scale: f32) -> Result<TextMap, OcrError> {
    let side = |it: usize| ((it as f32 * scale).round() as usize).max(1);
    let (width, height) = (side(picture.width()), side(picture.height()));
    let mut map = TextMap { width, values: vec![0; width * height], scale };
    for rows in spans(height) {
        for columns in spans(width) {
            let values = tile(network, picture, scale, &columns, &rows)?;
            map.take(&values, &columns, &rows);
        }
    }
    Ok(map)
}

/// A stretch of a side: what the network sees, and the part of it that counts.
#[derive(Debug, PartialEq, Clone)]
struct Span {
    seen: std::ops::Range<usize>,
    kept: std::ops::Range<usize>,
}

/// Cuts a side into equal stretches that overlap.
fn spans(side: usize) -> Vec<Span> {
    if side <= TILE {
        return vec![Span { seen: 0..side, kept: 0..side }];
    }
    let count = (side - OVERLAP).div_ceil(TILE - OVERLAP);
    let cut = |at: usize| side * at / count;
    let span = |at: usize| {
        let kept = cut(at)..cut(at + 1);
        Span { seen: kept.start.saturating_sub(OVERLAP / 2)..(kept.end + OVERLAP / 2).min(side), kept }
    };
    (0..count).map(span).collect()
}

/// The map of a tile, in rows of the width that the network saw.
fn tile(network: &Network, picture: &Pixels, scale: f32, columns: &Span, rows: &Span) -> Result<Vec<f32>, OcrError> {
    let (width, height) = (padded(columns), padded(rows));
    let step = 1.0 / scale;
    let mut planes = vec![0.0_f32; 3 * width * height];
    let [first, second, third] = thirds(&mut planes);
    let rows_of = first.par_chunks_mut(width).zip(second.par_chunks_mut(width)).zip(third.par_chunks_mut(width));
    rows_of.enumerate().for_each(|(row, ((blue, green), red))| {
        let origin = [columns.seen.start as f32 * step, (rows.seen.start + row) as f32 * step];
        picture.sample(&Grid::upright(origin, width, 1, step), |column, _, [r, g, b]| {
            blue[column] = normalised(b, 0);
            green[column] = normalised(g, 1);
            red[column] = normalised(r, 2);
        });
    });
    // A tile of one colour holds nothing, and large pictures have many.
    if thirds(&mut planes).iter().all(|plane| plane.iter().all(|it| *it == plane[0])) {
        return Ok(vec![0.0; width * height]);
    }
    let ([_, _, rows_out, columns_out], values) = network.run([1, 3, height, width], planes)?;
    if [rows_out, columns_out] != [height, width] || values.len() != width * height {
        return Err(OcrError::Shape { name: "detection" });
    }
    Ok(values)
}

fn padded(span: &Span) -> usize {
    span.seen.len().next_multiple_of(STRIDE)
}

fn thirds(planes: &mut [f32]) -> [&mut [f32]; 3] {
    let third = planes.len() / 3;
    let (first, rest) = planes.split_at_mut(third);
    let (second, last) = rest.split_at_mut(third);
    [first, second, last]
}

fn normalised(value: f32, channel: usize) -> f32 {
    (value / 255.0 - MEAN[channel]) / DEVIATION[channel]
}

impl TextMap {
    fn take(&mut self, values: &[f32], columns: &Span, rows: &Span) {
        let width = padded(columns);
        for row in rows.kept.clone() {
            let from = (row - rows.seen.start) * width + columns.kept.start - columns.seen.start;
            let to = row * self.width + columns.kept.start;
            let kept = columns.kept.len();
            for (to, from) in self.values[to..to + kept].iter_mut().zip(&values[from..from + kept]) {
                *to = (from.clamp(0.0, 1.0) * 255.0).round() as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(side: usize, kept: &[(usize, usize)]) {
        let spans = spans(side);
        assert_eq!(spans.iter().map(|it| (it.kept.start, it.kept.end)).collect::<Vec<_>>(), kept);
        assert!(
            spans
                .iter()
                .all(|it| it.seen.len() <= TILE && it.seen.start <= it.kept.start && it.kept.end <= it.seen.end)
        );
    }

    #[test]
    fn tiles_cover_a_side_once_and_see_beyond_their_seams() {
        check(1, &[(0, 1)]);
        check(1536, &[(0, 1536)]);
        check(1537, &[(0, 768), (768, 1537)]);
        check(4000, &[(0, 1333), (1333, 2666), (2666, 4000)]);
        assert_eq!(spans(4000)[1].seen, 1269..2730);
    }
}
