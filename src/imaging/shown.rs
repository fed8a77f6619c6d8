//! F1: a picture as a vision tower gets it: resized, and cut into patches.

use rayon::prelude::*;

use super::{ImageError, Picture, PixelRange, resize, smart_resize};

/// Red, green, blue.
const CHANNELS: usize = 3;

/// How a vision tower cuts a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Pixels along a side of a patch.
    pub patch: u32,
    /// Patches along a side of the block that becomes one token.
    pub merge: u32,
    /// How often the pixels of a patch are repeated, since the tower reads so many frames of a video at once.
    pub temporal: u32,
}

impl Cut {
    /// Sides of a resized picture are multiples of this.
    pub fn factor(&self) -> u32 {
        self.patch * self.merge
    }
}

/// A picture at the size at which a vision tower sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Patches from top to bottom and from left to right.
    pub grid: (usize, usize),
    pub width: u32,
    pub height: u32,
    /// Red, green and blue of each pixel, row by row from the top.
    pub pixels: Vec<u8>,
    cut: Cut,
}

impl Shown {
    /// Resizes a picture. The memory that takes is in proportion to `range`; whoever lets others choose that has to limit it.
    ///
    /// # Errors
    /// Those of [`smart_resize`].
    pub fn new(picture: Picture, cut: Cut, range: PixelRange) -> Result<Self, ImageError> {
        let (height, width) = smart_resize(picture.height, picture.width, cut.factor(), range)?;
        let pixels = resize(picture.rgb, (picture.width, picture.height), (width, height));
        let grid = ((height / cut.patch) as usize, (width / cut.patch) as usize);
        Ok(Shown { grid, width, height, pixels, cut })
    }

    /// Tokens that the picture becomes.
    pub fn tokens(&self) -> usize {
        self.grid.0 * self.grid.1 / (self.cut.merge * self.cut.merge) as usize
    }

    /// The values that the tower reads, a row for each patch. Rows lie in the order (block row, block column, row in the block, column in
    /// the block), values of a row in the order (channel, copy, y, x): 3 x temporal x patch x patch, from -1 to 1.
    pub fn patches(&self) -> Vec<f32> {
        self.rows_of(self.cut.temporal as usize)
    }

    /// [`Self::patches`] with one copy, for a tower whose weights for the copies were added up.
    pub fn patches_once(&self) -> Vec<f32> {
        self.rows_of(1)
    }

    fn rows_of(&self, copies: usize) -> Vec<f32> {
        let values: [f32; 256] = std::array::from_fn(|value| (value as f32 - 127.5) / 127.5);
        let (patch, merge) = (self.cut.patch as usize, self.cut.merge as usize);
        let row_length = CHANNELS * copies * patch * patch;
        let mut rows = vec![0.0; self.grid.0 * self.grid.1 * row_length];
        let block_row = merge * self.grid.1 * row_length;
        rows.par_chunks_exact_mut(block_row).enumerate().for_each(|(block_y, rows)| {
            for (at, row) in rows.chunks_exact_mut(row_length).enumerate() {
                let (block_x, in_block) = (at / (merge * merge), at % (merge * merge));
                let top = (block_y * merge + in_block / merge) * patch;
                let left = (block_x * merge + in_block % merge) * patch;
                for (channel, out) in row.chunks_exact_mut(copies * patch * patch).enumerate() {
                    self.copy_channel(channel, (left, top), &values, out);
                }
            }
        });
        rows
    }

    /// Writes one channel of a patch, and repeats it to the end of `out`.
    fn copy_channel(&self, channel: usize, (left, top): (usize, usize), values: &[f32; 256], out: &mut [f32]) {
        let (patch, width) = (self.cut.patch as usize, self.width as usize);
        let (first, copies) = out.split_at_mut(patch * patch);
        for (y, line) in first.chunks_exact_mut(patch).enumerate() {
            let pixels = &self.pixels[((top + y) * width + left) * CHANNELS..][..patch * CHANNELS];
            for (value, pixel) in line.iter_mut().zip(pixels.chunks_exact(CHANNELS)) {
                *value = values[usize::from(pixel[channel])];
            }
        }
        copies.chunks_exact_mut(patch * patch).for_each(|copy| copy.copy_from_slice(first));
    }
}
