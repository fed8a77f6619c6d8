//! F1: the vectors that one model gave for the candidates of one segment, in one immutable file.
//!
//! A candidate is embedded in windows; windows that could not be embedded are listed without a vector. Knows nothing of texts and
//! of how windows are cut.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use half::f16;
use serde::{Deserialize, Serialize};

use super::store::{Key, ModelKey};
use super::vectors::{RowParts, Rows, RowsEncoder, VectorError};
use crate::fsio::{self, FileError, Section, SectionFile, SectionWriter, u32_at};
use crate::types::Level;

/// Raise it when what stands in the file changes its form.
pub const FORMAT: u32 = 1;

/// A window of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRecord {
    /// Number of the candidate in its segment.
    pub candidate: u32,
    /// Bytes of the candidate's body.
    pub body: Range<u32>,
    /// What the model reads.
    pub key: Key,
}

/// Bytes of a window's record: candidate, both ends of its body, whether it has a vector, key.
const RECORD: usize = 4 * 4 + 32;

/// Why vectors can't be written.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingsError {
    #[error("the index file `{}` can't be written: {source}; make room or see to its permissions, or name another place with --data-dir", path.display())]
    Write { path: std::path::PathBuf, source: std::io::Error },
    #[error(transparent)]
    Vector(#[from] VectorError),
    #[error(transparent)]
    File(#[from] FileError),
}

#[derive(Serialize, Deserialize)]
struct Header {
    model: ModelKey,
    /// By level, of the rows; a graph names them by it.
    checksums: [u32; 2],
}

/// The windows of a level, ordered by candidate, as they are written; vectors are taken one by one.
pub struct LevelWriter {
    windows: Vec<(WindowRecord, bool)>,
    rows: RowsEncoder,
}

impl LevelWriter {
    /// # Errors
    /// When vectors of so many dimensions are not supported.
    pub fn new(model: &ModelKey) -> Result<Self, VectorError> {
        Ok(LevelWriter { windows: Vec::new(), rows: RowsEncoder::new(model.dimensions)? })
    }

    /// Windows without a vector.
    pub fn missing(&self) -> usize {
        self.windows.iter().filter(|it| !it.1).count()
    }

    /// Adds a window with its vector, if it has one.
    ///
    /// # Errors
    /// When the vector is not one of the model.
    pub fn push(&mut self, window: WindowRecord, vector: Option<&[f16]>) -> Result<(), VectorError> {
        vector.map(|it| self.rows.push(it)).transpose()?;
        self.windows.push((window, vector.is_some()));
        Ok(())
    }
}

/// Writes the windows of both levels, files first.
///
/// # Errors
/// When the file can't be written; there is no file then.
pub fn write(path: &Path, model: &ModelKey, levels: [LevelWriter; 2]) -> Result<(), EmbeddingsError> {
    let levels = levels.map(|it| (it.windows, it.rows.finish()));
    let header = Header { model: model.clone(), checksums: [levels[0].1.checksum, levels[1].1.checksum] };
    let failed = |source| EmbeddingsError::Write { path: path.to_owned(), source };
    let header = postcard::to_allocvec(&header).map_err(|error| failed(std::io::Error::other(error)))?;
    let written = fsio::write_atomically(path, |out| {
        let mut writer = SectionWriter::new(out);
        writer.begin("header")?;
        writer.write_all(&header)?;
        for (level, (windows, encoded)) in levels.iter().enumerate() {
            writer.begin(&format!("{level}.windows"))?;
            windows.iter().try_for_each(|(window, has_vector)| writer.write_all(&record(window, *has_vector)))?;
            writer.begin(&format!("{level}.owners"))?;
            let owners = windows.iter().filter(|it| it.1).map(|it| it.0.candidate);
            owners.map(u32::to_le_bytes).try_for_each(|it| writer.write_all(&it))?;
            for (name, bytes) in [("codes", &encoded.codes), ("scales", &encoded.scales), ("values", &encoded.values)] {
                writer.begin(&format!("{level}.{name}"))?;
                writer.write_all(bytes)?;
            }
        }
        writer.finish(FORMAT)
    });
    written.map_err(failed)
}

fn record(window: &WindowRecord, has_vector: bool) -> [u8; RECORD] {
    let numbers = [window.candidate, window.body.start, window.body.end, u32::from(has_vector)];
    let mut bytes = [0; RECORD];
    for (to, from) in bytes.iter_mut().zip(numbers.iter().flat_map(|it| it.to_le_bytes()).chain(*window.key.as_bytes()))
    {
        *to = from;
    }
    bytes
}

/// The open vectors of a segment.
pub struct SegmentVectors {
    pub model: ModelKey,
    levels: [LevelVectors; 2],
}

struct LevelVectors {
    windows: Section,
    /// Number of each row's candidate in the segment, never decreasing.
    owners: Vec<u32>,
    codes: Section,
    scales: Section,
    values: Section,
    checksum: u32,
}

impl SegmentVectors {
    /// Opens the vectors of a segment with so many candidates.
    ///
    /// # Errors
    /// When the file is not what was written for such a segment.
    pub fn open(file: &Arc<SectionFile>, candidates: usize) -> Result<Self, FileError> {
        let header: Header = postcard::from_bytes(file.section("header")?.all()?)
            .map_err(|error| file.damaged(format!("its header makes no sense ({error})")))?;
        let [files, functions] = header.checksums;
        let levels = [LevelVectors::open(file, 0, files)?, LevelVectors::open(file, 1, functions)?];
        let is_in_order = |it: &LevelVectors| {
            it.owners.is_sorted() && it.owners.last().is_none_or(|last| (*last as usize) < candidates)
        };
        if !levels.iter().all(is_in_order) {
            return Err(file.damaged("its vectors are of other candidates"));
        }
        Ok(SegmentVectors { model: header.model, levels })
    }

    fn level(&self, level: Level) -> &LevelVectors {
        &self.levels[level as usize]
    }

    /// The rows of a level, searchable; `positions` are those of the segment's candidates in the whole index.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn rows(&self, level: Level, positions: &[u32]) -> Result<Rows, VectorError> {
        let LevelVectors { owners, codes, scales, values, checksum, .. } = self.level(level);
        Rows::new(RowParts {
            dimensions: self.model.dimensions,
            codes: codes.clone(),
            scales: scales.clone(),
            values: values.clone(),
            checksum: *checksum,
            owners: owners.iter().map(|it| positions[*it as usize]).collect(),
        })
    }

    /// The rows of a candidate of the segment.
    pub fn rows_of(&self, level: Level, candidate: u32) -> Range<usize> {
        let owners = &self.level(level).owners;
        owners.partition_point(|it| *it < candidate)..owners.partition_point(|it| *it <= candidate)
    }

    /// A row as it was written.
    ///
    /// # Errors
    /// When the file is damaged or has no such row.
    pub fn row(&self, level: Level, row: usize) -> Result<Vec<f16>, FileError> {
        let width = 2 * self.model.dimensions;
        let bytes = self.level(level).values.read(row * width..(row + 1) * width)?;
        Ok(bytes.chunks_exact(2).map(|it| f16::from_le_bytes([it[0], it[1]])).collect())
    }

    /// The windows of some candidates at a level, with the number of each one's row if it has one.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn windows_of(
        &self,
        level: Level,
        candidates: Range<u32>,
    ) -> Result<Vec<(WindowRecord, Option<usize>)>, FileError> {
        let bytes = self.level(level).windows.all()?;
        let of = |candidate: u32| partition(bytes.len() / RECORD, |at| u32_at(bytes, at * RECORD) < candidate);
        let mut rows = self.rows_of(level, candidates.start).start..;
        let window = |record: &[u8]| {
            let number = |at: usize| u32_at(record, 4 * at);
            let key = Key::from_bytes(std::array::from_fn(|at| record[16 + at]));
            let window = WindowRecord { candidate: number(0), body: number(1)..number(2), key };
            (window, if number(3) != 0 { rows.next() } else { None })
        };
        Ok(bytes[of(candidates.start) * RECORD..of(candidates.end) * RECORD].chunks_exact(RECORD).map(window).collect())
    }

    /// How many windows some candidates have at a level, and how many of them a vector.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn count(&self, level: Level, candidates: Range<u32>) -> Result<(usize, usize), FileError> {
        let windows = self.windows_of(level, candidates.clone())?.len();
        let rows = self.rows_of(level, candidates.start).start..self.rows_of(level, candidates.end).start;
        Ok((windows, rows.len()))
    }

    /// Whether every window has a vector.
    pub fn is_complete(&self) -> bool {
        self.levels.iter().all(|it| it.windows.len() / RECORD == it.owners.len())
    }
}

/// The first of `0..length` for which a condition that holds up to somewhere does not hold.
fn partition(length: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl LevelVectors {
    fn open(file: &Arc<SectionFile>, level: usize, checksum: u32) -> Result<Self, FileError> {
        let section = |name: &str| file.section(&format!("{level}.{name}"));
        let owners = section("owners")?;
        let owners = owners.all()?.chunks_exact(4).map(|it| u32_at(it, 0)).collect();
        let (windows, codes, scales, values) =
            (section("windows")?, section("codes")?, section("scales")?, section("values")?);
        Ok(LevelVectors { windows, owners, codes, scales, values, checksum })
    }
}
