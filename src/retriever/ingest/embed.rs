//! The windows of candidates and their vectors: from the part that they were in, from the store, or from the encoder.
//!
//! Knows nothing of how files are read.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use half::f16;
use rayon::prelude::*;

use super::{Embedding, IngestError, Job, LEVELS, Missing, Phase};
use crate::encoder::{EncoderError, Window};
use crate::index::build::Row;
use crate::index::directory::RepositoryDirectory;
use crate::index::embeddings::{LevelWriter, SegmentVectors, WindowRecord};
use crate::index::segment::File;
use crate::index::store::{Key, ModelKey};
use crate::types::{Candidate, Level};

use super::survey::Base;
use crate::retriever::pace::Pace;

/// Keys that the store is asked for at once.
pub(super) const ASKED: usize = 4096;

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

/// A window as it was cut.
struct Cut {
    level: Level,
    record: WindowRecord,
    window: Window,
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
            if !self.reuse(first, file, *origin, (directory, base))? {
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

    /// Takes the windows of a file from the part that it is in, if they are of the model; and have all vectors there, unless missing ones
    /// are to be left.
    fn reuse(
        &mut self,
        first: u32,
        file: &File,
        origin: Option<Row>,
        (directory, base): (&RepositoryDirectory, &mut Base),
    ) -> Result<bool, IngestError> {
        let Some(row) = origin else { return Ok(false) };
        let part = base.parts[row.part as usize].clone();
        let vectors = match base.opened.vectors(directory, &part) {
            Ok(Some(vectors)) if vectors.model == *self.model => vectors,
            Ok(_) | Err(_) => return Ok(false),
        };
        let start = base.segments[row.part as usize].starts[row.number as usize];
        let of_file = start..start + file.candidates().len() as u32;
        let mut found = [Vec::new(), Vec::new()];
        for level in LEVELS {
            for (window, row) in vectors.windows_of(level, of_file.clone())? {
                let origin = match row {
                    Some(row) => Origin::Row(Arc::clone(&vectors), row),
                    None if self.job.missing == Missing::Leave => Origin::Store,
                    None => return Ok(false),
                };
                let window = WindowRecord { candidate: window.candidate - start + first, ..window };
                found[level as usize].push(Planned { window, origin });
            }
        }
        self.levels.iter_mut().zip(found).for_each(|(level, found)| level.extend(found));
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
            let cut = |it: &(u32, &Candidate)| {
                self.job.observer.at(Phase::Cutting, done.fetch_add(1, Ordering::Relaxed) + 1, candidates.len());
                self.windows(it.0, it.1)
            };
            let windows = chunk.par_iter().map(cut).collect::<Result<Vec<_>, IngestError>>()?;
            self.look_up(windows.into_iter().flatten().collect(), &mut seen)?;
        }
        Ok(())
    }

    fn windows(&self, number: u32, candidate: &Candidate) -> Result<Vec<Cut>, IngestError> {
        let windows = self.job.encoder.windows(&candidate.header(), candidate.body()?)?;
        let cut = |window: Window| {
            let body = window.body.start as u32..window.body.end as u32;
            let record = WindowRecord { candidate: number, body, key: Key::of_tokens(&window.tokens) };
            Cut { level: candidate.level, record, window }
        };
        Ok(windows.into_iter().map(cut).collect())
    }

    /// Plans windows, and notes those that the store lacks, each text once.
    fn look_up(&mut self, windows: Vec<Cut>, seen: &mut HashSet<Key>) -> Result<(), IngestError> {
        let keys: Vec<Key> = windows.iter().map(|it| it.record.key).collect();
        let mut known = Vec::with_capacity(keys.len());
        for keys in keys.chunks(ASKED) {
            known.extend(self.job.store.get(self.model, keys)?.into_iter().map(|it| it.is_some()));
        }
        for (Cut { level, record, window }, is_known) in windows.into_iter().zip(known) {
            let key = record.key;
            self.levels[level as usize].push(Planned { window: record, origin: Origin::Store });
            match is_known {
                true => self.cached += 1,
                false if seen.insert(key) => self.missing.push((key, window)),
                false => {}
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

    /// Embeds what is missing, batch by batch into the store. A window that the encoder fails on costs itself.
    pub fn embed(&mut self) -> Result<Embedding, IngestError> {
        let missing = std::mem::take(&mut self.missing);
        if self.job.missing == Missing::Leave {
            return Ok(Embedding { cached: self.cached, left: missing.len(), ..Embedding::default() });
        }
        let mut run = EmbeddingRun {
            embedder: self,
            total: missing.len(),
            result: Embedding { cached: self.cached, ..Embedding::default() },
            failure: None,
        };
        let (mut rest, mut pace) = (&missing[..], Pace::default());
        while !rest.is_empty() {
            if self.job.observer.should_stop() {
                return Err(IngestError::Stopped { embedded: run.result.embedded, missing: missing.len() });
            }
            let tokens = rest.iter().map(|it| it.1.tokens.len());
            let (batch, later) = rest.split_at(pace.next(tokens.clone()));
            let start = Instant::now();
            run.embed(batch)?;
            pace.took(tokens.take(batch.len()).sum(), start.elapsed());
            rest = later;
            if run.result.embedded == 0 && !self.can_embed() {
                break;
            }
        }
        let EmbeddingRun { result, failure, .. } = run;
        match failure {
            Some(cause) if result.embedded == 0 && !self.can_embed() => {
                Err(IngestError::NothingEmbedded { windows: missing.len(), cause })
            }
            _ => Ok(result),
        }
    }

    /// Whether the encoder works at all: one that fails on a plain text is to blame itself, not the texts.
    fn can_embed(&self) -> bool {
        let encoder = self.job.encoder;
        let canary = encoder.windows("File: canary", "canary\n");
        canary.is_ok_and(|windows| encoder.embed(&windows.iter().collect::<Vec<_>>(), &|_, _| ()).is_ok())
    }

    /// Puts the vectors of a batch into the store.
    fn put(&self, batch: &[(Key, Window)], vectors: &[Vec<f32>]) -> Result<(), IngestError> {
        let halves: Vec<Vec<f16>> = vectors.iter().map(|it| halves(it)).collect();
        let items: Vec<(Key, &[f16])> =
            batch.iter().zip(&halves).map(|((key, _), vector)| (*key, &vector[..])).collect();
        Ok(self.job.store.put(self.model, &items)?)
    }

    /// The windows of both levels with their vectors.
    pub fn levels(&self) -> Result<[LevelWriter; 2], IngestError> {
        Ok([self.level(Level::File)?, self.level(Level::Function)?])
    }

    fn level(&self, level: Level) -> Result<LevelWriter, IngestError> {
        let mut writer = LevelWriter::new(self.model)?;
        for chunk in self.levels[level as usize].chunks(ASKED) {
            let stored = chunk.iter().filter(|it| matches!(it.origin, Origin::Store)).map(|it| it.window.key);
            let mut stored = self.job.store.get(self.model, &stored.collect::<Vec<_>>())?.into_iter();
            for Planned { window, origin } in chunk {
                let vector = match origin {
                    Origin::Store => stored.next().flatten(),
                    Origin::Row(vectors, row) => Some(vectors.row(level, *row)?),
                };
                writer.push(window.clone(), vector.as_deref())?;
            }
        }
        Ok(writer)
    }
}

/// Embedding under way.
struct EmbeddingRun<'e, 'a> {
    embedder: &'e Embedder<'a>,
    total: usize,
    result: Embedding,
    /// The first.
    failure: Option<EncoderError>,
}

impl EmbeddingRun<'_, '_> {
    /// Embeds a batch; of one that fails each half, down to the windows that are to blame.
    fn embed(&mut self, batch: &[(Key, Window)]) -> Result<(), IngestError> {
        let Embedder { job, cached, .. } = self.embedder;
        let before = self.result.embedded + self.result.failed;
        let progress = |done: usize, _| job.observer.at(Phase::Embedding { known: *cached }, before + done, self.total);
        match job.encoder.embed(&batch.iter().map(|it| &it.1).collect::<Vec<_>>(), &progress) {
            Ok(vectors) => {
                self.embedder.put(batch, &vectors)?;
                self.result.embedded += batch.len();
            }
            // It is no fault of the windows.
            Err(EncoderError::Stopped) => return Err(EncoderError::Stopped.into()),
            Err(error) => {
                self.failure.get_or_insert(error);
                let (left, right) = batch.split_at(batch.len() / 2);
                if left.is_empty() {
                    self.result.failed += right.len();
                } else if self.embedder.can_embed() {
                    self.embed(left)?;
                    self.embed(right)?;
                } else {
                    self.result.failed += batch.len();
                }
            }
        }
        Ok(())
    }
}

/// A vector as the store keeps it.
pub fn halves(vector: &[f32]) -> Vec<f16> {
    vector.iter().map(|it| f16::from_f32(*it)).collect()
}

/// Candidates that are cut before the store is asked: their tokens are in memory until then.
const CUT_AT_ONCE: usize = 2048;
