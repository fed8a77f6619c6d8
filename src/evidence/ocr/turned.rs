//! Lines that do not run from left to right: told apart and counted, not read.

use super::OcrError;
use super::boxes::Quad;
use super::layout::Piece;
use super::median_height;
use crate::evidence::page::Block;

/// Lines are wider than tall, letters at most taller by this factor.
const TALL: f32 = 2.0;
/// Radians at which a line may stand; it is read along its slope.
const MOST_ANGLE: f32 = 0.35;
/// Lines that are read the other way round to see whether they are turned.
const SAMPLE: usize = 8;
/// A line that is surer than this was read the right way up.
const SURE: f32 = 0.9;
/// Lines of a letter each, one under the other, that are a word from top to bottom.
const STACKED: usize = 4;

/// Those that run from left to right, and the others. A single letter may be taller than wide, but not much taller than a line.
pub fn split(quads: Vec<Quad>) -> (Vec<Quad>, Vec<Quad>) {
    let is_tall = |it: &Quad| it.height() > TALL * it.width();
    let wide: Vec<Quad> = quads.iter().filter(|it| !is_tall(it)).copied().collect();
    let line = median_height(&wide);
    quads.into_iter().partition(|it| it.angle().abs() <= MOST_ANGLE && (!is_tall(it) || it.height() <= TALL * line))
}

/// How many of the lines are text, as far as a sample tells: edges and patterns look like turned lines to the detector.
pub fn count(aside: &[Quad], read: impl Fn(&[Quad]) -> Result<Vec<Piece>, OcrError>) -> Result<usize, OcrError> {
    let sample: Vec<Quad> = aside.iter().take(SAMPLE).copied().collect();
    let mut sure = vec![false; sample.len()];
    for quarters in 0..4 {
        let turned: Vec<Quad> = sample.iter().map(|it| turn(it, quarters)).collect();
        for (sure, piece) in sure.iter_mut().zip(read(&turned)?) {
            *sure |= piece.characters.len() > 1 && piece.confidence() >= SURE;
        }
    }
    let text = sure.iter().filter(|it| **it).count();
    Ok(aside.len() * text / sample.len().max(1))
}

/// Whether lines read better the other way round.
pub fn is_upside_down(
    pieces: &[Piece],
    read: impl Fn(&[Quad]) -> Result<Vec<Piece>, OcrError>,
) -> Result<bool, OcrError> {
    let mut longest: Vec<&Piece> = pieces.iter().collect();
    longest.sort_by_key(|it| std::cmp::Reverse(it.characters.len()));
    longest.truncate(SAMPLE);
    let upright = mean(longest.iter().copied());
    if longest.is_empty() || upright >= SURE {
        return Ok(false);
    }
    let turned: Vec<Quad> = longest.iter().map(|it| turn(&it.quad, 2)).collect();
    Ok(mean(read(&turned)?.iter()) > upright.max(SURE))
}

fn mean<'p>(pieces: impl Iterator<Item = &'p Piece>) -> f32 {
    let (sum, count) = pieces.fold((0.0, 0_usize), |(sum, count), it| (sum + it.confidence(), count + 1));
    sum / count.max(1) as f32
}

/// The same rectangle, read from another side.
fn turn(quad: &Quad, quarters: usize) -> Quad {
    let mut corners = quad.corners;
    corners.rotate_left(quarters);
    Quad { corners, ..*quad }
}

/// Takes out the blocks of one letter a line, and gives their number.
pub fn take_stacked(blocks: &mut Vec<Block>) -> usize {
    let before = blocks.len();
    blocks.retain(|it| it.lines.len() < STACKED || !it.lines.iter().all(|it| is_letter(&it.text)));
    before - blocks.len()
}

fn is_letter(text: &str) -> bool {
    let mut letters = text.trim().chars();
    letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none()
}
