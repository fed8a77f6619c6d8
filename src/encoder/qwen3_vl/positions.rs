//! F2: where a token stands: in time, in rows and in columns, and the rotations that this means.
//!
//! Knows nothing of text and weights. A text token stands at the same place on all three axes; those of a picture share their time
//! and spread over the merged grid, and what follows begins behind the longer side of it (Qwen2-VL, arXiv 2409.12191, section 2.1).
//! Frequencies of the axes are interleaved (Qwen3-VL).

use candle_core::{Device, Result, Tensor};

use super::config::Text;

/// The tokens of a picture in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// The first of them.
    pub start: usize,
    /// Rows and columns of tokens.
    pub rows: usize,
    pub columns: usize,
}

impl Span {
    pub(super) fn len(&self) -> usize {
        self.rows * self.columns
    }
}

/// Time, row, column.
pub(super) type Position = [u32; 3];

/// The positions of `count` tokens; `pictures` are in order, within them and apart.
pub(super) fn positions(count: usize, pictures: &[Span]) -> Vec<Position> {
    let mut positions = Vec::with_capacity(count);
    let mut next = 0u32;
    let text = |positions: &mut Vec<Position>, next: &mut u32, until: usize| {
        while positions.len() < until {
            positions.push([*next; 3]);
            *next += 1;
        }
    };
    for picture in pictures {
        text(&mut positions, &mut next, picture.start);
        let place = |at: usize| [next, next + (at / picture.columns) as u32, next + (at % picture.columns) as u32];
        positions.extend((0..picture.len()).map(place));
        next += picture.rows.max(picture.columns) as u32;
    }
    text(&mut positions, &mut next, count);
    positions
}

/// The frequencies of the text tower, and the axis that each turns by.
pub(super) struct Rotation {
    frequencies: Vec<(f32, usize)>,
}

impl Rotation {
    pub(super) fn new(config: &Text) -> Self {
        let axis = |at: usize| (1..3).find(|&axis| at % 3 == axis && at < 3 * config.sections[axis]).unwrap_or(0);
        let frequency = |at: usize| (frequency(config.theta, at, config.head), axis(at));
        Rotation { frequencies: (0..config.head / 2).map(frequency).collect() }
    }

    /// Cosines and sines, (positions, head / 2).
    pub(super) fn turn(&self, positions: &[Position]) -> Result<(Tensor, Tensor)> {
        let angles = positions
            .iter()
            .flat_map(|position| self.frequencies.iter().map(|&(frequency, axis)| position[axis] as f32 * frequency));
        turned(angles, positions.len(), self.frequencies.len())
    }
}

/// The `at`-th frequency of `width` dimensions.
pub(super) fn frequency(theta: f32, at: usize, width: usize) -> f32 {
    1.0 / theta.powf((2 * at) as f32 / width as f32)
}

/// The cosines and sines of some rows of angles.
pub(super) fn turned(angles: impl Iterator<Item = f32>, rows: usize, columns: usize) -> Result<(Tensor, Tensor)> {
    let (sin, cos): (Vec<f32>, Vec<f32>) = angles.map(f32::sin_cos).unzip();
    let tensor = |values| Tensor::from_vec(values, (rows, columns), &Device::Cpu);
    Ok((tensor(cos)?, tensor(sin)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: usize, pictures: &[Span], expected: &[Position]) {
        assert_eq!(positions(count, pictures), expected);
    }

    #[test]
    fn text_stands_at_one_place_and_a_picture_on_its_grid() {
        check(3, &[], &[[0; 3], [1; 3], [2; 3]]);
        // Two tokens, a picture of 1 x 3, a token behind its longer side.
        let wide = Span { start: 2, rows: 1, columns: 3 };
        check(6, &[wide], &[[0; 3], [1; 3], [2, 2, 2], [2, 2, 3], [2, 2, 4], [5; 3]]);
        let tall = Span { start: 0, rows: 2, columns: 1 };
        check(5, &[tall, Span { start: 3, ..tall }], &[[0, 0, 0], [0, 1, 0], [2; 3], [3, 3, 3], [3, 4, 3]]);
    }

    #[test]
    fn axes_take_turns_until_their_sections_end() {
        let config = Text {
            vocabulary: 1,
            hidden: 1,
            intermediate: 1,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head: 16,
            epsilon: 1e-6,
            theta: 10_000.0,
            sections: [4, 2, 2],
        };
        let axes: Vec<usize> = Rotation::new(&config).frequencies.iter().map(|it| it.1).collect();
        assert_eq!(axes, [0, 1, 2, 0, 1, 2, 0, 0]);
    }
}
