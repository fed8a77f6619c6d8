//! F1: a segment's vectors as they lie in its file. Knows nothing of other segments.

use std::ops::Range;

use half::f16;

use super::VectorError;
use super::codes::{Encoded, Query, check_dimensions};
use super::graph_file::GraphFile;
use crate::fsio::{FileError, Section};

/// The candidate of a row that is deleted.
pub const DELETED: u32 = u32::MAX;

/// What rows are made of: the sections that [`super::RowsEncoder`] gave, and whose the rows are.
pub struct RowParts {
    pub dimensions: usize,
    pub codes: Section,
    pub scales: Section,
    pub values: Section,
    /// The checksum that [`Encoded`] had.
    pub checksum: u32,
    /// Each row's candidate by its number in the whole index, or [`DELETED`].
    pub owners: Vec<u32>,
}

impl RowParts {
    /// The same in memory.
    pub fn held(dimensions: usize, encoded: Encoded, owners: Vec<u32>) -> Self {
        RowParts {
            dimensions,
            codes: encoded.codes.into(),
            scales: encoded.scales.into(),
            values: encoded.values.into(),
            checksum: encoded.checksum,
            owners,
        }
    }
}

/// The rows of one segment and one level.
pub struct Rows {
    parts: RowParts,
    graph: Option<GraphFile>,
}

impl Rows {
    /// # Errors
    /// When the sections are not of the length that so many rows have.
    pub fn new(parts: RowParts) -> Result<Self, VectorError> {
        check_dimensions(parts.dimensions)?;
        let (count, values) = (parts.owners.len(), parts.owners.len() * parts.dimensions);
        for (section, length) in [(&parts.codes, values), (&parts.scales, 4 * count), (&parts.values, 2 * values)] {
            if section.len() != length {
                return Err(section.damaged("its vectors are not as many as it says").into());
            }
        }
        Ok(Rows { parts, graph: None })
    }

    /// With the graph that was opened for these rows.
    #[must_use]
    pub fn with_graph(self, graph: GraphFile) -> Self {
        Rows { graph: Some(graph), ..self }
    }

    pub(super) fn graph(&self) -> Option<&GraphFile> {
        self.graph.as_ref()
    }

    /// Of the codes and scales.
    pub fn checksum(&self) -> u32 {
        self.parts.checksum
    }

    pub fn dimensions(&self) -> usize {
        self.parts.dimensions
    }

    /// How many rows there are, deleted ones too.
    pub fn count(&self) -> usize {
        self.parts.owners.len()
    }

    /// Gives the rows of candidates that are gone to nobody.
    pub fn delete(&mut self, is_gone: impl Fn(u32) -> bool) {
        for owner in &mut self.parts.owners {
            if *owner != DELETED && is_gone(*owner) {
                *owner = DELETED;
            }
        }
    }

    pub(super) fn owners(&self) -> &[u32] {
        &self.parts.owners
    }

    /// The codes of a range of rows.
    pub(super) fn codes(&self, rows: Range<usize>) -> Result<&[u8], FileError> {
        self.parts.codes.read(rows.start * self.dimensions()..rows.end * self.dimensions())
    }

    /// The scales of a range of rows, 4 bytes each.
    pub(super) fn scales(&self, rows: Range<usize>) -> Result<&[u8], FileError> {
        self.parts.scales.read(rows.start * 4..rows.end * 4)
    }

    /// The 16-bit floats of a range of rows.
    pub(super) fn values(&self, rows: Range<usize>) -> Result<&[u8], FileError> {
        self.parts.values.read(rows.start * 2 * self.dimensions()..rows.end * 2 * self.dimensions())
    }

    /// One row as it was given to the encoder of rows, to be written into another segment.
    ///
    /// # Errors
    /// When the file is damaged or has no such row.
    pub fn row(&self, row: usize) -> Result<Vec<f16>, VectorError> {
        Ok(self.values(row..row + 1)?.as_chunks().0.iter().map(|it| f16::from_le_bytes(*it)).collect())
    }
}

/// How similar candidates are that are known already, by the rows of each: what reranking a given list needs. `None` for one
/// without rows. Whether rows are deleted is not looked at.
///
/// # Errors
/// When the query is not of the rows' dimensions or not finite, or the file is damaged or has no such rows.
pub fn similarities(rows: &Rows, ranges: &[Range<usize>], query: &[f32]) -> Result<Vec<Option<f32>>, VectorError> {
    let query = Query::new(query, rows.dimensions())?;
    ranges.iter().map(|range| Ok(best_of(rows, range.clone(), &query)?)).collect()
}

fn best_of(rows: &Rows, range: Range<usize>, query: &Query) -> Result<Option<f32>, FileError> {
    let values = rows.values(range)?;
    Ok(values.chunks_exact(2 * rows.dimensions()).map(|row| query.similarity(row)).max_by(f32::total_cmp))
}
