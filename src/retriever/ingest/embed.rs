//! The windows of candidates and their vectors: from the part that they were in, from the store, or from the encoder.
//!
//! Knows nothing of how files are read.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::f16;
use rayon::prelude::*;

use super::{Embedding, IngestError, Job, LEVELS, Phase};
use crate::encoder::{EncoderError, Window};
use crate::index::build::Row;
use crate::index::directory::RepositoryDirectory;
use crate::index::embeddings::{self, SegmentVectors, WindowRecord};
use crate::index::segment::File;
use crate::index::store::{Key, ModelKey};
use crate::types::{Candidate, Level};

use super::survey::Base;

/// Windows that are embedded and put into the store at once: what a crash loses. 20 thousand tokens or so, some seconds on two cores.
pub const BATCH: usize = 128;
/// Keys that the store is asked for at once.
const ASKED: usize = 4096;

/// Makes the vectors of a part.
pub(super) struct Embedder<'a> {
    job: &'a Job<'a>,
    model: &'a ModelKey,
    levels: [Vec<Planned>; 2],
    /// What the encoder is to read, each once.
    missing: Vec<(Key, Window)>,
    cached: usize,
}

/// A window and where its vector comes from.
struct Planned {
    window: WindowRecord,
    origin: Origin,
}

enum Origin {
    Store,
    /// A row of the vectors that it had.
    Row(Arc<SegmentVectors>, usize),
}

impl<'a> Embedder<'a> {
    pub fn new(job: &'a Job<'a>, model: &'a ModelKey) -> Self {
        Embedder { job, model, levels: [Vec::new(), Vec::new()], missing: Vec::new(), cached: 0 }
    }

    /// Finds the windows of files that are to be a part. `origins` are the rows of those that are in another.
    pub fn gather(
        &mut self,
        files: &[File],
        origins: &[Option<Row>],
        directory: &RepositoryDirectory,
        base: &mut Base,
    ) -> Result<(), IngestError> {
        let mut first = 0;
        let mut to_cut: Vec<(u32, &File)> = Vec::new();
        for (file, origin) in files.iter().zip(origins) {
            if !self.reuse(first, file, *origin, directory, base)? {
                to_cut.push((first, file));
            }
            first += file.candidates().len() as u32;
        }
        self.cut(&to_cut)?;
        for level in &mut self.levels {
            // Each file's windows are in order, and so are a file's candidates.
            level.sort_by_key(|it| (it.window.candidate, it.window.body.start));
        }
        Ok(())
    }

    /// Takes the windows of a file from the part that it is in, if all have vectors there.
    fn reuse(
        &mut self,
        first: u32,
        file: &File,
        origin: Option<Row>,
        directory: &RepositoryDirectory,
        base: &mut Base,
    ) -> Result<bool, IngestError> {
        let Some(row) = origin else { return Ok(false) };
        let part = base.parts[row.part as usize].clone();
        let vectors = match base.opened.vectors(directory, &part) {
            Ok(Some(vectors)) if vectors.model == *self.model && vectors.is_complete() => vectors,
            Ok(_) | Err(_) => return Ok(false),
        };
        let start = base.segments[row.part as usize].starts[row.number as usize];
        for level in LEVELS {
            let range = vectors.windows_of(level, start..start + file.candidates().len() as u32)?;
            for (window, row) in range {
                let Some(row) = row else { return Ok(false) };
                let window = WindowRecord { candidate: window.candidate - start + first, ..window };
                self.levels[level as usize].push(Planned { window, origin: Origin::Row(Arc::clone(&vectors), row) });
            }
        }
        Ok(true)
    }

    /// Cuts candidates into windows and asks the store which of them it has.
    fn cut(&mut self, files: &[(u32, &File)]) -> Result<(), IngestError> {
        let candidates: Vec<(u32, &Candidate)> =
            files.iter().flat_map(|(first, file)| (*first..).zip(file.candidates())).collect();
        let done = AtomicUsize::new(0);
        let mut seen: HashSet<Key> = HashSet::new();
        for chunk in candidates.chunks(CUT_AT_ONCE) {
            self.check_stop()?;
            let cut =
                |&(number, candidate): &(u32, &Candidate)| -> Result<Vec<(Level, WindowRecord, Window)>, IngestError> {
                    let windows = self.job.encoder.windows(&candidate.header(), candidate.body()?)?;
                    self.job.observer.at(Phase::Cutting, done.fetch_add(1, Ordering::Relaxed) + 1, candidates.len());
                    let record = |window: Window| {
                        let body = window.body.start as u32..window.body.end as u32;
                        let key = Key::of_tokens(&window.tokens);
                        (candidate.level, WindowRecord { candidate: number, body, key }, window)
                    };
                    Ok(windows.into_iter().map(record).collect())
                };
            let windows: Vec<_> =
                chunk.par_iter().map(cut).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
            let keys: Vec<Key> = windows.iter().map(|it| it.1.key).collect();
            let mut known = Vec::with_capacity(keys.len());
            for keys in keys.chunks(ASKED) {
                known.extend(self.job.store.get(self.model, keys)?.into_iter().map(|it| it.is_some()));
            }
            for ((level, record, window), is_known) in windows.into_iter().zip(known) {
                let key = record.key;
                self.levels[level as usize].push(Planned { window: record, origin: Origin::Store });
                match is_known {
                    true => self.cached += 1,
                    false if seen.insert(key) => self.missing.push((key, window)),
                    false => {}
                }
            }
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), IngestError> {
        match self.job.observer.should_stop() {
            true => Err(IngestError::Stopped { embedded: 0, missing: self.missing.len() }),
            false => Ok(()),
        }
    }

    /// Embeds what is missing, batch by batch into the store. A batch that the encoder fails on costs itself.
    pub fn embed(&mut self) -> Result<Embedding, IngestError> {
        let missing = std::mem::take(&mut self.missing);
        let mut result = Embedding { cached: self.cached, ..Embedding::default() };
        let mut failure: Option<EncoderError> = None;
        for batch in missing.chunks(BATCH) {
            if self.job.observer.should_stop() {
                return Err(IngestError::Stopped { embedded: result.embedded, missing: missing.len() });
            }
            let before = result.embedded + result.failed;
            let progress = |done: usize, _| {
                self.job.observer.at(Phase::Embedding { known: self.cached }, before + done, missing.len())
            };
            let windows: Vec<&Window> = batch.iter().map(|it| &it.1).collect();
            match self.job.encoder.embed(&windows, &progress) {
                Ok(vectors) => {
                    self.put(batch, &vectors)?;
                    result.embedded += batch.len();
                }
                Err(error) => {
                    result.failed += batch.len();
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            Some(cause) if result.embedded == 0 => Err(IngestError::NothingEmbedded { windows: missing.len(), cause }),
            _ => Ok(result),
        }
    }

    fn put(&self, batch: &[(Key, Window)], vectors: &[Vec<f32>]) -> Result<(), IngestError> {
        let halves: Vec<Vec<f16>> = vectors.iter().map(|it| halves(it)).collect();
        let items: Vec<(Key, &[f16])> =
            batch.iter().zip(&halves).map(|((key, _), vector)| (*key, &vector[..])).collect();
        Ok(self.job.store.put(self.model, &items)?)
    }

    /// Writes the vectors of the part.
    pub fn write(self, path: &Path) -> Result<(), IngestError> {
        let vectors = [self.vectors(Level::File)?, self.vectors(Level::Function)?];
        let windows = self.levels.map(|level| level.into_iter().map(|it| it.window).collect::<Vec<_>>());
        Ok(embeddings::write(path, self.model, [(&windows[0], &vectors[0]), (&windows[1], &vectors[1])])?)
    }

    fn vectors(&self, level: Level) -> Result<Vec<Option<Vec<f16>>>, IngestError> {
        let planned = &self.levels[level as usize];
        let mut vectors = Vec::with_capacity(planned.len());
        for chunk in planned.chunks(ASKED) {
            let stored: Vec<Key> =
                chunk.iter().filter(|it| matches!(it.origin, Origin::Store)).map(|it| it.window.key).collect();
            let mut stored = self.job.store.get(self.model, &stored)?.into_iter();
            for Planned { origin, .. } in chunk {
                vectors.push(match origin {
                    Origin::Store => stored.next().flatten(),
                    Origin::Row(vectors, row) => Some(vectors.row(level, *row)?),
                });
            }
        }
        Ok(vectors)
    }
}

/// A vector as the store keeps it.
pub fn halves(vector: &[f32]) -> Vec<f16> {
    vector.iter().map(|it| f16::from_f32(*it)).collect()
}

/// Candidates that are cut before the store is asked: their tokens are in memory until then.
const CUT_AT_ONCE: usize = 2048;
