//! F1: memory that threads write side by side, and memory on the boundaries of cache lines.

use std::marker::PhantomData;

/// A line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Line(pub [u8; 64]);

impl Line {
    pub const ZERO: Line = Line([0; 64]);
}

/// Lines as bytes.
pub fn bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: a line is 64 bytes without gaps, any of which are valid.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}

/// Lines as bytes to write.
pub fn bytes_mut(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
}

/// Lines as f32.
pub fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is 16 f32 without gaps, aligned for them, and any bits are valid.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines) / size_of::<f32>()) }
}

/// A matrix whose columns several threads write, each its own.
pub struct Columns<'a> {
    start: *mut f32,
    rows: usize,
    width: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: who writes promises to write columns of their own (`Columns::run`).
unsafe impl Send for Columns<'_> {}
// SAFETY: as above.
unsafe impl Sync for Columns<'_> {}

impl<'a> Columns<'a> {
    /// `values` as rows of `width` values.
    pub fn new(values: &'a mut [f32], width: usize) -> Self {
        let rows = values.len().checked_div(width).unwrap_or(0);
        Columns { start: values.as_mut_ptr(), rows, width, lifetime: PhantomData }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Values of one row from a column on.
    ///
    /// # Safety
    /// No other slice with one of these values is alive, on any thread.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that nobody else has these values")]
    pub unsafe fn run(&self, row: usize, column: usize, length: usize) -> &mut [f32] {
        assert!(row < self.rows && column + length <= self.width, "a run outside of the matrix");
        // SAFETY: within the matrix by the line above, and of nobody else by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.width + column), length) }
    }
}
