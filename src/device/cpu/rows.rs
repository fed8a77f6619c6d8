//! F1: rows of a matrix that may be a part of wider rows.

/// Rows of equal width, `stride` values apart.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    values: &'a [f32],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    /// `None` if the values don't have so many.
    pub fn new(values: &'a [f32], count: usize, width: usize, stride: usize) -> Option<Self> {
        let end = if count == 0 { 0 } else { (count - 1).checked_mul(stride)?.checked_add(width)? };
        (end <= values.len() && width <= stride).then_some(Rows { values, count, width, stride })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn row(&self, at: usize) -> &'a [f32] {
        &self.values[at * self.stride..][..self.width]
    }

    /// Consecutive rows.
    pub fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let start = (rows.start * self.stride).min(self.values.len());
        Rows { values: &self.values[start..], count: rows.len(), ..*self }
    }

    /// Some columns of each.
    pub fn columns(&self, first: usize, width: usize) -> Self {
        Rows { values: &self.values[first..], width, ..*self }
    }
}
