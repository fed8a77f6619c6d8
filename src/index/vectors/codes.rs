//! F1: vectors as 8-bit codes. Knows nothing of files.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::VectorError;
use super::kernels::Kernels;

/// So many products of two codes still fit into 32 bits.
pub(super) const MOST_DIMENSIONS: usize = 1 << 16;

/// The code of 0. Codes are unsigned, as the instructions that multiply 8-bit numbers want one side to be.
pub(super) const ZERO: u8 = 128;

/// The largest code is so far from that of 0: -128 is not used, so that a vector and its opposite have opposite codes.
const REACH: f32 = 127.0;

/// Writes the codes of a vector behind others and gives their scale: value = scale * (code - [`ZERO`]), to half a scale.
fn encode(values: &[f32], codes: &mut Vec<u8>) -> f32 {
    let largest = values.iter().fold(0f32, |most, value| most.max(value.abs()));
    let factor = if largest > 0.0 { REACH / largest } else { 0.0 };
    // The largest value of a subnormal vector would make the factor infinite.
    let factor = if factor.is_finite() { factor } else { 0.0 };
    codes.extend(values.iter().map(|value| ((value * factor).round() as i16 + i16::from(ZERO)) as u8));
    if factor > 0.0 { largest / REACH } else { 0.0 }
}

/// The rows of one segment and level as they are written: a section each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// A byte for each value of each row.
    pub codes: Vec<u8>,
    /// A 32-bit float for each row, little endian.
    pub scales: Vec<u8>,
    /// A 16-bit float for each value of each row, little endian.
    pub values: Vec<u8>,
    /// Of the codes and the scales. A graph names the rows it was built for by it.
    pub checksum: u32,
}

/// Takes a segment's rows one by one, so that a caller need not hold them all beside what is written.
pub struct RowsEncoder {
    dimensions: usize,
    row: Vec<f32>,
    encoded: Encoded,
}

impl RowsEncoder {
    /// # Errors
    /// When vectors of so many dimensions are not supported.
    pub fn new(dimensions: usize) -> Result<Self, VectorError> {
        check_dimensions(dimensions)?;
        Ok(RowsEncoder { dimensions, row: vec![0.0; dimensions], encoded: Encoded::default() })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When it has other dimensions, or a value that is not finite.
    pub fn push(&mut self, row: &[f16]) -> Result<(), VectorError> {
        check_vector(row, self.dimensions, |it| it.is_finite())?;
        row.convert_to_f32_slice(&mut self.row);
        let scale = encode(&self.row, &mut self.encoded.codes);
        self.encoded.scales.extend(scale.to_le_bytes());
        self.encoded.values.extend(row.iter().flat_map(|it| it.to_le_bytes()));
        Ok(())
    }

    pub fn finish(self) -> Encoded {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.encoded.codes);
        hasher.update(&self.encoded.scales);
        Encoded { checksum: hasher.finalize(), ..self.encoded }
    }
}

pub(super) fn check_dimensions(dimensions: usize) -> Result<(), VectorError> {
    let supported = (1..=MOST_DIMENSIONS).contains(&dimensions);
    supported.then_some(()).ok_or(VectorError::Unsupported(dimensions))
}

fn check_vector<T>(vector: &[T], dimensions: usize, is_finite: impl Fn(&T) -> bool) -> Result<(), VectorError> {
    if vector.len() != dimensions {
        return Err(VectorError::Dimensions { found: vector.len(), expected: dimensions });
    }
    vector.iter().all(is_finite).then_some(()).ok_or(VectorError::NotFinite)
}

/// A query, ready to be compared with rows.
pub(super) struct Query<'a> {
    pub values: &'a [f32],
    codes: Vec<u8>,
    scale: f32,
    /// What the kernel's sum has too much, because it takes the codes of rows as they are.
    excess: i32,
    length: f32,
    pub kernels: Kernels,
}

impl<'a> Query<'a> {
    /// # Errors
    /// When it has other dimensions, or a value that is not finite.
    pub fn new(values: &'a [f32], dimensions: usize) -> Result<Self, VectorError> {
        check_vector(values, dimensions, |it| it.is_finite())?;
        let mut codes = Vec::with_capacity(values.len());
        let scale = encode(values, &mut codes);
        let excess = excess(&codes);
        let length = values.iter().map(|it| it * it).sum::<f32>().sqrt();
        Ok(Query { values, codes, scale, excess, length, kernels: Kernels::detect() })
    }

    /// About the similarity of a row.
    pub fn estimate(&self, codes: &[u8], scale: f32) -> f32 {
        (self.kernels.dot_codes(codes, &self.codes) - self.excess) as f32 * (scale * self.scale)
    }

    /// The similarity of a row.
    pub fn similarity(&self, values: &[u8]) -> f32 {
        self.kernels.dot_halves(values, self.values)
    }

    /// How far an estimate may be off: six standard deviations of what rounding to codes does to the inner product with a row
    /// of length 1. (Rounding errors are even in half a scale to either side: their variance is scale^2 / 12.)
    pub fn margin(&self, scale: f32) -> f32 {
        6.0 * ((self.length * scale).powi(2) + self.scale.powi(2)).sqrt() / 12f32.sqrt()
    }
}

/// `ZERO` times the sum of the decoded codes: `sum(row * (code - ZERO))` is by that much more than with the row decoded too.
pub(super) fn excess(codes: &[u8]) -> i32 {
    codes.iter().map(|&code| (i32::from(code) - i32::from(ZERO)) * i32::from(ZERO)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(values: &[f32]) -> Vec<f16> {
        values.iter().copied().map(f16::from_f32).collect()
    }

    #[track_caller]
    fn check(row: &[f32], codes: &[u8], scale: f32) {
        let mut encoder = RowsEncoder::new(row.len()).expect("supported");
        encoder.push(&halves(row)).expect("finite");
        let encoded = encoder.finish();
        assert_eq!(encoded.codes, codes);
        assert_eq!(encoded.scales, scale.to_le_bytes());
        assert_eq!(encoded.values.len(), row.len() * 2);
    }

    #[test]
    fn the_largest_value_has_the_last_code() {
        check(&[127.0, -127.0, 0.0, 1.4, -1.5], &[255, 1, 128, 129, 126], 1.0);
        check(&[-0.5, 0.25], &[1, 192], 0.5 / 127.0);
    }

    #[test]
    fn a_vector_without_length_is_all_zeros() {
        check(&[0.0, -0.0], &[128, 128], 0.0);
    }

    #[test]
    fn the_smallest_and_the_largest_values_are_encoded() {
        let smallest = f16::from_bits(1).to_f32();
        check(&[smallest, -smallest], &[255, 1], smallest / 127.0);
        check(&[65504.0, 0.0], &[255, 128], 65504.0 / 127.0);
    }

    #[test]
    fn what_is_no_vector_of_the_index_is_refused() {
        let mut encoder = RowsEncoder::new(2).expect("supported");
        let error = |row: &[f32], encoder: &mut RowsEncoder| encoder.push(&halves(row)).expect_err("refused");
        assert_eq!(error(&[1.0], &mut encoder), VectorError::Dimensions { found: 1, expected: 2 });
        assert_eq!(error(&[1.0, f32::NAN], &mut encoder), VectorError::NotFinite);
        assert_eq!(error(&[1.0, 1e9], &mut encoder), VectorError::NotFinite);
        assert_eq!(encoder.finish(), RowsEncoder::new(2).expect("supported").finish());
        assert!(RowsEncoder::new(0).is_err() && RowsEncoder::new(MOST_DIMENSIONS + 1).is_err());
        assert!(Query::new(&[f32::INFINITY], 1).is_err());
    }

    #[test]
    fn the_longest_vectors_do_not_overflow() {
        let ones = vec![1f32; MOST_DIMENSIONS];
        let row = vec![255; MOST_DIMENSIONS];
        let query = Query::new(&ones, MOST_DIMENSIONS).expect("supported");
        assert_eq!(query.estimate(&row, 1.0 / 127.0), MOST_DIMENSIONS as f32);
        let opposite = vec![-1f32; MOST_DIMENSIONS];
        let query = Query::new(&opposite, MOST_DIMENSIONS).expect("supported");
        assert_eq!(query.estimate(&row, 1.0 / 127.0), -(MOST_DIMENSIONS as f32));
    }
}
