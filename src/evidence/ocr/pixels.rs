//! A borrowed picture, and how it is sampled at any place and scale.

/// 8-bit RGB, row by row from the top; at least one pixel.
#[derive(Debug, Clone, Copy)]
pub struct Pixels<'p> {
    width: usize,
    height: usize,
    rgb: &'p [u8],
}

impl<'p> Pixels<'p> {
    /// `None` unless `rgb` holds three bytes for each of the pixels, and there is one.
    pub fn new(width: u32, height: u32, rgb: &'p [u8]) -> Option<Self> {
        let (width, height) = (width as usize, height as usize);
        let bytes = width.checked_mul(height)?.checked_mul(3)?;
        (bytes == rgb.len() && bytes > 0).then_some(Pixels { width, height, rgb })
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn height(&self) -> usize {
        self.height
    }

    /// The pixel, of the nearest one inside.
    fn at(&self, x: usize, y: usize) -> [f32; 3] {
        let start = (y.min(self.height - 1) * self.width + x.min(self.width - 1)) * 3;
        match self.rgb[start..] {
            [r, g, b, ..] => [r, g, b].map(f32::from),
            _ => [0.0; 3],
        }
    }

    /// Bilinear at a point; pixel centres lie at halves, and the edge goes on outside.
    pub fn bilinear(&self, x: f32, y: f32) -> [f32; 3] {
        let (x, y) = ((x - 0.5).max(0.0), (y - 0.5).max(0.0));
        let (left, top) = (x as usize, y as usize);
        let (right, below) = ((x - left as f32).min(1.0), (y - top as f32).min(1.0));
        let corners = [self.at(left, top), self.at(left + 1, top), self.at(left, top + 1), self.at(left + 1, top + 1)];
        std::array::from_fn(|c| {
            let upper = corners[0][c] + (corners[1][c] - corners[0][c]) * right;
            let lower = corners[2][c] + (corners[3][c] - corners[2][c]) * right;
            upper + (lower - upper) * below
        })
    }

    /// Samples a grid into three planes, each `grid.rows` rows of a slice of `stride` values.
    ///
    /// A step above one pixel is averaged over: small letters vanish between samples otherwise.
    pub fn sample(&self, grid: &Grid, mut put: impl FnMut(usize, usize, [f32; 3])) {
        let times = grid.samples_a_step();
        let share = 1.0 / (times * times) as f32;
        for row in 0..grid.rows {
            for column in 0..grid.columns {
                let mut sum = [0.0; 3];
                for sub in 0..times * times {
                    let offset = |at: usize| (at as f32 + 0.5) / times as f32;
                    let [x, y] = grid.point(column as f32 + offset(sub % times), row as f32 + offset(sub / times));
                    let colour = self.bilinear(x, y);
                    (0..3).for_each(|c| sum[c] += colour[c]);
                }
                put(column, row, sum.map(|it| it * share));
            }
        }
    }
}

/// A grid of cells over a picture, at any angle.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    pub columns: usize,
    pub rows: usize,
    /// The outer corner of the first cell, in pixels.
    pub origin: [f32; 2],
    /// From a cell to the next of its row.
    pub right: [f32; 2],
    /// From a cell to the one beneath.
    pub down: [f32; 2],
}

/// Samples a cell and direction at most: more than this is a picture of letters that are as tall as it.
const MOST_SAMPLES: usize = 8;

impl Grid {
    /// Upright, `step` pixels a cell, with the corner of the first cell at `origin`.
    pub fn upright(origin: [f32; 2], columns: usize, rows: usize, step: f32) -> Self {
        Grid { columns, rows, origin, right: [step, 0.0], down: [0.0, step] }
    }

    fn point(&self, column: f32, row: f32) -> [f32; 2] {
        std::array::from_fn(|c| self.origin[c] + self.right[c] * column + self.down[c] * row)
    }

    fn samples_a_step(&self) -> usize {
        let step = |it: [f32; 2]| it[0].hypot(it[1]);
        (step(self.right).max(step(self.down)).round() as usize).clamp(1, MOST_SAMPLES)
    }
}
