//! Vectors that the store has by now, into parts that were written without them.
//!
//! What a question embeds goes into the store; so an index that was made without vectors gets them over time.

use std::sync::Arc;

use half::f16;

use super::{ASKED, IngestError, LEVELS, Run};
use crate::index::build::Part;
use crate::index::embeddings::{LevelWriter, SegmentVectors};
use crate::types::Level;

impl Run<'_> {
    /// Looks for vectors of parts that lack some; gives whether there were any. The segments stay as they are.
    pub(super) fn refill(&mut self, parts: impl Iterator<Item = usize>) -> Result<bool, IngestError> {
        let mut is_any = false;
        for part in parts {
            let Some(vectors) = self.usable(part).filter(|it| !it.is_complete()) else { continue };
            if self.has_news(part, &vectors)? {
                self.base.parts[part] = self.refilled(part, &vectors)?;
                is_any = true;
            }
        }
        Ok(is_any)
    }

    fn candidates(&self, part: usize) -> std::ops::Range<u32> {
        0..self.base.segments[part].candidates() as u32
    }

    /// Whether the store has a vector that a part lacks.
    fn has_news(&self, part: usize, vectors: &SegmentVectors) -> Result<bool, IngestError> {
        for level in LEVELS {
            let windows = vectors.windows_of(level, self.candidates(part))?;
            let lacking: Vec<_> = windows.iter().filter(|it| it.1.is_none()).map(|it| it.0.key).collect();
            for keys in lacking.chunks(ASKED) {
                if self.job.store.get(&self.model, keys)?.iter().any(Option::is_some) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The same part with all vectors that there are now.
    fn refilled(&mut self, number: usize, vectors: &Arc<SegmentVectors>) -> Result<Part, IngestError> {
        let levels = [
            self.refilled_level(number, vectors, Level::File)?,
            self.refilled_level(number, vectors, Level::Function)?,
        ];
        let segment = self.base.parts[number].segment.clone();
        self.with_vectors(segment, levels)
    }

    fn refilled_level(
        &mut self,
        number: usize,
        vectors: &SegmentVectors,
        level: Level,
    ) -> Result<LevelWriter, IngestError> {
        let mut writer = LevelWriter::new(&self.model)?;
        for windows in vectors.windows_of(level, self.candidates(number))?.chunks(ASKED) {
            let lacking: Vec<_> = windows.iter().filter(|it| it.1.is_none()).map(|it| it.0.key).collect();
            let mut found = self.job.store.get(&self.model, &lacking)?.into_iter();
            for (window, row) in windows {
                let vector: Option<Vec<f16>> = match row {
                    Some(row) => Some(vectors.row(level, *row)?),
                    None => found.next().flatten(),
                };
                self.embedding.cached += usize::from(row.is_none() && vector.is_some());
                writer.push(window.clone(), vector.as_deref())?;
            }
        }
        Ok(writer)
    }
}
