//! F1: a segment: some files of a repository as they were read, with their texts, functions and postings, in one immutable file.
//!
//! Builds refer to files of segments; a file that is gone or changed is no longer referred to. Knows nothing of builds, models and
//! vectors, nor of how files are read.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lexical;
use crate::fsio::{self, FileError, Section, SectionFile, SectionWriter};
use crate::types::{Candidate, ContentId, Lines, Source, Text, TextError, TextStore};

/// Raise it when what stands in the file changes its form.
pub const FORMAT: u32 = 1;

/// A file of a repository, as it was read once.
#[derive(Debug, Clone)]
pub struct File {
    pub path: Arc<str>,
    pub id: ContentId,
    /// The user asked for it by a negated pattern.
    pub wanted: bool,
    pub content: FileContent,
}

#[derive(Debug, Clone)]
pub enum FileContent {
    Source {
        /// The file, then its functions by position.
        candidates: Vec<Candidate>,
        /// Reservations with which it was read.
        notes: Vec<String>,
    },
    /// It is not among the candidates, and why.
    NoSource { reason: String },
}

impl File {
    pub fn candidates(&self) -> &[Candidate] {
        match &self.content {
            FileContent::Source { candidates, .. } => candidates,
            FileContent::NoSource { .. } => &[],
        }
    }
}

/// Why a segment can't be written.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error("the index file `{}` can't be written: {source}; make room or see to its permissions, or name another place with --data-dir", path.display())]
    Write { path: std::path::PathBuf, source: std::io::Error },
}

/// A file as it is stored; its text lies in a section of its own.
#[derive(Serialize, Deserialize)]
struct FileRecord {
    path: Arc<str>,
    id: [u8; 32],
    wanted: bool,
    content: ContentRecord,
}

#[derive(Serialize, Deserialize)]
enum ContentRecord {
    Source(SourceRecord),
    NoSource(String),
}

#[derive(Serialize, Deserialize)]
struct SourceRecord {
    language: Arc<str>,
    bytes: u32,
    lines: (u32, u32),
    disk_lines: Option<Vec<u32>>,
    notes: Vec<String>,
    functions: Vec<FunctionRecord>,
}

#[derive(Serialize, Deserialize)]
struct FunctionRecord {
    name: Arc<str>,
    range: (u32, u32),
    lines: (u32, u32),
}

/// Writes a segment of files in their order.
///
/// # Errors
/// When a text can't be had, or the file not be written; there is no file then.
pub fn write(path: &Path, files: &[File]) -> Result<(), SegmentError> {
    let candidates: Vec<Candidate> = files.iter().flat_map(File::candidates).cloned().collect();
    let postings = lexical::encode(&candidates)?;
    let mut records = Vec::with_capacity(files.len());
    for file in files {
        records.push(record(file)?);
    }
    let failed = |source| SegmentError::Write { path: path.to_owned(), source };
    let records = postcard::to_allocvec(&records).map_err(|error| failed(std::io::Error::other(error)))?;
    let written = fsio::write_atomically(path, |out| {
        let mut writer = SectionWriter::new(out);
        writer.begin("files")?;
        writer.write_all(&records)?;
        writer.begin("postings")?;
        writer.write_all(&postings)?;
        writer.begin("texts")?;
        for source in files.iter().filter_map(|it| it.candidates().first()).map(|it| &it.source) {
            writer.write_all(source.text().map_err(std::io::Error::other)?.content.as_bytes())?;
        }
        writer.finish(FORMAT)
    });
    written.map_err(failed)
}

fn record(file: &File) -> Result<FileRecord, TextError> {
    let content = match &file.content {
        FileContent::NoSource { reason } => ContentRecord::NoSource(reason.clone()),
        FileContent::Source { candidates, notes } => {
            let (source, functions) = match candidates.as_slice() {
                [file, functions @ ..] => (&file.source, functions),
                [] => return Err(TextError(format!("`{}` is indexed without a candidate", file.path))),
            };
            ContentRecord::Source(SourceRecord {
                language: source.language.clone(),
                bytes: source.bytes as u32,
                lines: (source.lines.start, source.lines.end),
                disk_lines: source.text()?.disk_lines().map(<[u32]>::to_vec),
                notes: notes.clone(),
                functions: functions.iter().map(function_record).collect(),
            })
        }
    };
    Ok(FileRecord { path: file.path.clone(), id: file.id.0, wanted: file.wanted, content })
}

fn function_record(candidate: &Candidate) -> FunctionRecord {
    FunctionRecord {
        name: candidate.name.clone().unwrap_or_default(),
        range: (candidate.range.start as u32, candidate.range.end as u32),
        lines: (candidate.lines.start, candidate.lines.end),
    }
}

/// An open segment.
#[derive(Debug)]
pub struct Segment {
    pub files: Vec<File>,
    /// The number of each file's first candidate among those of the segment, and the number of all.
    pub starts: Vec<u32>,
    pub postings: Section,
}

impl Segment {
    /// Opens a segment. Texts are read when they are asked for.
    ///
    /// # Errors
    /// When the file is not there, not whole or not a segment.
    pub fn open(file: &Arc<SectionFile>) -> Result<Self, FileError> {
        let records: Vec<FileRecord> = postcard::from_bytes(file.section("files")?.all()?)
            .map_err(|error| file.damaged(format!("its list of files makes no sense ({error})")))?;
        let texts = Texts::of(file.section("texts")?, &records);
        if texts.places.last().map_or(0, |it| it.end) != texts.section.len() {
            return Err(file.damaged("its texts are not as long as its files"));
        }
        let store: Arc<dyn TextStore> = Arc::new(texts);
        let mut segment =
            Segment { files: Vec::with_capacity(records.len()), starts: vec![0], postings: file.section("postings")? };
        for (number, record) in (0..).zip(records) {
            let opened =
                opened(record, number, &store).ok_or_else(|| file.damaged("a function lies outside its file"))?;
            let next = segment.starts.last().copied().unwrap_or(0) + opened.candidates().len() as u32;
            segment.starts.push(next);
            segment.files.push(opened);
        }
        Ok(segment)
    }

    /// The number of candidates.
    pub fn candidates(&self) -> usize {
        self.starts.last().map_or(0, |it| *it as usize)
    }
}

/// A stored file as it was given to [`write()`]; `None` if its functions can't be in it.
fn opened(record: FileRecord, number: u32, store: &Arc<dyn TextStore>) -> Option<File> {
    let FileRecord { path, id, wanted, content } = record;
    let content = match content {
        ContentRecord::NoSource(reason) => FileContent::NoSource { reason },
        ContentRecord::Source(SourceRecord { language, bytes, lines, notes, functions, .. }) => {
            let size = (bytes as usize, Lines { start: lines.0, end: lines.1 });
            let source = Arc::new(Source::stored(path.clone(), language, size, (Arc::clone(store), number)));
            let mut candidates = Vec::with_capacity(functions.len() + 1);
            candidates.push(Candidate::file(Arc::clone(&source)));
            for FunctionRecord { name, range: (start, end), lines } in functions {
                let lines = Lines { start: lines.0, end: lines.1 };
                (start <= end && end <= bytes).then_some(())?;
                candidates.push(Candidate::function(Arc::clone(&source), name, start as usize..end as usize, lines));
            }
            FileContent::Source { candidates, notes }
        }
    };
    Some(File { path, id: ContentId(id), wanted, content })
}

/// The texts of a segment.
#[derive(Debug)]
struct Texts {
    section: Section,
    /// By number of the file; empty for one that is no source.
    places: Vec<Range<usize>>,
    disk_lines: Vec<Option<Vec<u32>>>,
}

impl Texts {
    fn of(section: Section, records: &[FileRecord]) -> Self {
        let mut end = 0;
        let place = |it: &FileRecord| {
            let start = end;
            if let ContentRecord::Source(source) = &it.content {
                end += source.bytes as usize;
            }
            start..end
        };
        let places = records.iter().map(place).collect();
        let lines = |it: &FileRecord| match &it.content {
            ContentRecord::Source(source) => source.disk_lines.clone(),
            ContentRecord::NoSource(_) => None,
        };
        Texts { section, places, disk_lines: records.iter().map(lines).collect() }
    }
}

impl TextStore for Texts {
    fn text(&self, number: u32) -> Result<Text, TextError> {
        let failed = |error: FileError| TextError(format!("{error}; `sightline index` makes it again"));
        let outside = || failed(self.section.damaged("it has no such text"));
        let place = self.places.get(number as usize).ok_or_else(outside)?;
        let bytes = self.section.read(place.clone()).map_err(failed)?;
        let content = std::str::from_utf8(bytes).map_err(|_| failed(self.section.damaged("a text is not UTF-8")))?;
        Ok(match self.disk_lines.get(number as usize).and_then(Option::as_ref) {
            Some(disk_lines) => Text::extracted(content, disk_lines.clone()),
            None => Text::new(content),
        })
    }
}
