//! F1: a build opened for questions: its candidates, postings and vectors as one.
//!
//! Knows nothing of how they are ranked.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use half::f16;

use super::build::{Build, Named, Part, Row, Target};
use super::directory::{IndexError, RepositoryDirectory};
use super::embeddings::{self, SegmentVectors};
use super::lexical::{self, LexicalIndex};
use super::segment::{self, File, Segment};
use super::store::ModelKey;
use super::vectors::{
    Accept, DELETED, Exact, GRAPH_FORMAT, Graph, GraphFile, Rows, VectorError, VectorIndex, similarities,
};
use crate::fsio::{FileError, SectionFile};
use crate::types::{Candidate, Level};

/// An opened build.
pub struct View {
    pub build: Build,
    /// Ordered by path; the file first, then its functions by position.
    pub candidates: Vec<Candidate>,
    pub lexical: LexicalIndex,
    pub vectors: Option<Vectors>,
    pub segments: Vec<Arc<Segment>>,
}

/// The parts of builds, each opened once.
#[derive(Default)]
pub struct Parts {
    segments: HashMap<String, Arc<Segment>>,
    vectors: HashMap<String, Arc<SegmentVectors>>,
}

impl Parts {
    /// The segment of a part.
    ///
    /// # Errors
    /// When its file is not the one that was written.
    pub fn segment(&mut self, directory: &RepositoryDirectory, part: &Part) -> Result<Arc<Segment>, FileError> {
        let Named { name, .. } = &part.segment;
        if let Some(known) = self.segments.get(name) {
            return Ok(Arc::clone(known));
        }
        let segment = Arc::new(Segment::open(&directory.open(&part.segment, segment::FORMAT)?)?);
        self.segments.insert(name.clone(), Arc::clone(&segment));
        Ok(segment)
    }

    /// The vectors of a part, if it has any.
    ///
    /// # Errors
    /// When a file is not the one that was written.
    pub fn vectors(
        &mut self,
        directory: &RepositoryDirectory,
        part: &Part,
    ) -> Result<Option<Arc<SegmentVectors>>, FileError> {
        let Some(named) = &part.vectors else { return Ok(None) };
        if let Some(known) = self.vectors.get(&named.name) {
            return Ok(Some(Arc::clone(known)));
        }
        let candidates = self.segment(directory, part)?.candidates();
        let vectors = Arc::new(SegmentVectors::open(&directory.open(named, embeddings::FORMAT)?, candidates)?);
        self.vectors.insert(named.name.clone(), Arc::clone(&vectors));
        Ok(Some(vectors))
    }
}

impl View {
    /// The commit that it is of; `None` for the files on disk.
    pub fn commit(&self) -> Option<&str> {
        match &self.build.manifest.target {
            Target::Commit(hash) => Some(hash),
            Target::WorkTree => None,
        }
    }

    /// Opens what a build consists of.
    ///
    /// # Errors
    /// When a file is not the one that was written.
    pub fn open(directory: &RepositoryDirectory, build: Build) -> Result<Self, IndexError> {
        let mut parts = Parts::default();
        let manifest = &build.manifest;
        let segments: Vec<Arc<Segment>> =
            manifest.parts.iter().map(|it| parts.segment(directory, it)).collect::<Result<_, _>>()?;
        let Placed { candidates, homes, positions } =
            place(&segments, &build.rows).ok_or_else(|| IndexError::Damaged {
                path: directory.path.clone(),
                message: "the build names files that no segment has".to_owned(),
            })?;
        let vectors = match &manifest.model {
            None => None,
            Some(model) => {
                let of_parts =
                    manifest.parts.iter().map(|it| parts.vectors(directory, it)).collect::<Result<Vec<_>, _>>()?;
                let open = |it: &Part| {
                    it.graphs.each_ref().map(|it| it.as_ref().and_then(|it| directory.open(it, GRAPH_FORMAT).ok()))
                };
                let graphs: Vec<_> = manifest.parts.iter().map(open).collect();
                Some(Vectors::new(model.clone(), of_parts, &graphs, &positions, homes)?)
            }
        };
        let postings = segments.iter().zip(positions);
        let lexical = LexicalIndex::open(
            postings
                .map(|(segment, positions)| lexical::Part { postings: segment.postings.clone(), positions })
                .collect(),
        )?;
        Ok(View { build, candidates, lexical, vectors, segments })
    }
}

/// The file of a row.
pub fn file_of<'a>(segments: &'a [Arc<Segment>], row: &Row) -> Option<&'a File> {
    segments.get(row.part as usize)?.files.get(row.number as usize)
}

struct Placed {
    candidates: Vec<Candidate>,
    /// The part of each candidate and its number there.
    homes: Vec<(u32, u32)>,
    /// Of each part's candidates: where they are among all, or [`DELETED`].
    positions: Vec<Vec<u32>>,
}

/// One list of the candidates that count. `None` if a row leads nowhere.
fn place(segments: &[Arc<Segment>], rows: &[Row]) -> Option<Placed> {
    let mut positions: Vec<Vec<u32>> = segments.iter().map(|it| vec![DELETED; it.candidates()]).collect();
    let (mut candidates, mut homes) = (Vec::new(), Vec::new());
    for row in rows {
        let (part, number) = (row.part as usize, row.number as usize);
        let file = file_of(segments, row)?;
        let first = *segments[part].starts.get(number)?;
        for (local, candidate) in (first..).zip(file.candidates()) {
            positions[part][local as usize] = candidates.len() as u32;
            homes.push((row.part, local));
            candidates.push(candidate.clone());
        }
    }
    Some(Placed { candidates, homes, positions })
}

/// The vectors of a build.
pub struct Vectors {
    pub model: ModelKey,
    parts: Vec<Option<Arc<SegmentVectors>>>,
    homes: Vec<(u32, u32)>,
    /// By level, then part.
    rows: [Vec<Rows>; 2],
    /// Of those parts that have rows: which one.
    numbers: Vec<usize>,
}

impl Vectors {
    fn new(
        model: ModelKey,
        parts: Vec<Option<Arc<SegmentVectors>>>,
        graphs: &[[Option<Arc<SectionFile>>; 2]],
        positions: &[Vec<u32>],
        homes: Vec<(u32, u32)>,
    ) -> Result<Self, IndexError> {
        let mut rows = [Vec::new(), Vec::new()];
        let mut numbers = vec![usize::MAX; parts.len()];
        for (at, vectors) in parts.iter().enumerate() {
            let Some(vectors) = vectors.as_ref().filter(|it| it.model.fingerprint == model.fingerprint) else {
                continue;
            };
            numbers[at] = rows[0].len();
            for level in [Level::File, Level::Function] {
                let of_part = vectors.rows(level, &positions[at])?;
                // A graph that is damaged costs time, not the answer: without it all rows are looked at.
                let graph = graphs[at][level as usize].as_ref().and_then(|it| GraphFile::open(it, &of_part).ok());
                rows[level as usize].push(match graph {
                    Some(graph) => of_part.with_graph(graph),
                    None => of_part,
                });
            }
        }
        Ok(Vectors { model, parts, homes, rows, numbers })
    }

    /// How similar chosen candidates of a level are to a query, each by its best window; `None` for one without vectors.
    ///
    /// # Errors
    /// When a file is damaged, or the query is no vector of the model.
    pub fn similarities(&self, level: Level, chosen: &[usize], query: &[f32]) -> Result<Vec<Option<f32>>, VectorError> {
        let similarity = |&at: &usize| {
            let (part, local) = self.homes[at];
            let Some(vectors) = &self.parts[part as usize] else { return Ok(None) };
            let Some(rows) = self.rows[level as usize].get(self.numbers[part as usize]) else { return Ok(None) };
            let found = similarities(rows, &[vectors.rows_of(level, local)], query)?;
            Ok(found.into_iter().next().flatten())
        };
        chosen.iter().map(similarity).collect()
    }

    /// The `k` candidates of a level most similar to a query, by their positions.
    ///
    /// # Errors
    /// As for [`Self::similarities`].
    pub fn search(
        &self,
        level: Level,
        query: &[f32],
        k: usize,
        how: How,
        accept: Accept,
    ) -> Result<Vec<(u32, f32)>, VectorError> {
        let segments = &self.rows[level as usize];
        match how {
            How::Exact => Exact { segments }.search(query, k, accept),
            How::Fast => Graph { segments }.search(query, k, accept),
        }
    }
}

impl Vectors {
    /// Whether a window of some candidates of a level lacks a vector.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn is_lacking(&self, level: Level, documents: &[usize]) -> Result<bool, FileError> {
        let is_whole =
            |it: &Option<Arc<SegmentVectors>>| it.as_ref().is_some_and(|it| it.model == self.model && it.is_complete());
        if self.parts.iter().all(is_whole) {
            return Ok(false);
        }
        // What lacks them may be of files that are gone.
        for at in documents {
            if self.known_windows(level, *at)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Which windows of a candidate have a vector, by the bytes of its body; `None` if all have.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn known_windows(&self, level: Level, at: usize) -> Result<Option<Vec<Range<u32>>>, FileError> {
        let (part, local) = self.homes[at];
        let Some(vectors) = self.parts[part as usize].as_ref().filter(|it| it.model == self.model) else {
            return Ok(Some(Vec::new()));
        };
        let (windows, rows) = vectors.count(level, local..local + 1)?;
        if windows == rows {
            return Ok(None);
        }
        let windows = vectors.windows_of(level, local..local + 1)?.into_iter();
        Ok(Some(windows.filter(|it| it.1.is_some()).map(|it| it.0.body).collect()))
    }
}

/// Bytes of a candidate's body, and their vector if they have one.
pub type ViewedWindow = (Range<u32>, Option<Vec<f16>>);

impl Vectors {
    /// The windows of a candidate, each with its vector if it has one.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn windows(&self, level: Level, at: usize) -> Result<Vec<ViewedWindow>, FileError> {
        let (part, local) = self.homes[at];
        let Some(vectors) = &self.parts[part as usize] else { return Ok(Vec::new()) };
        let windows = vectors.windows_of(level, local..local + 1)?.into_iter();
        windows.map(|(window, row)| Ok((window.body, row.map(|row| vectors.row(level, row)).transpose()?))).collect()
    }
}

/// How vectors are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// In 32-bit floats, all of them.
    Exact,
    /// By 8-bit codes first, and by a graph where there is one.
    Fast,
}
