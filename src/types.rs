//! F0: the plain data that every module speaks: issues, sources, candidates, levels.
//!
//! Knows nothing of files on disk, git, models or the wire; serialised shapes are made at the edge (`cli`).

use std::ops::Range;
use std::sync::Arc;

/// What a candidate is: a whole source file, or one function or method in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    File,
    Function,
}

impl Level {
    /// The lower-case name used in output and in flags.
    pub fn name(self) -> &'static str {
        match self {
            Level::File => "file",
            Level::Function => "function",
        }
    }
}

/// First and last line of something, 1-based and inclusive, as an editor counts them in the file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lines {
    pub start: u32,
    pub end: u32,
}

/// A decoded source file of a snapshot.
#[derive(Debug)]
pub struct Source {
    /// Repository-relative, `/` between components, no leading `./`.
    pub path: Arc<str>,
    /// Name of the language, a row of `snapshot::language`.
    pub language: &'static str,
    /// Decoded text: UTF-8, no byte order mark, `\n` line ends. For a notebook: its code cells.
    pub content: Arc<str>,
    /// Byte offset in `content` at which each line begins.
    line_starts: Vec<u32>,
    /// For content that is extracted from a larger file (notebooks): the line on disk of each content line.
    disk_lines: Option<Vec<u32>>,
}

impl Source {
    /// A source whose content lines are the lines of the file on disk.
    pub fn new(path: impl Into<Arc<str>>, language: &'static str, content: impl Into<Arc<str>>) -> Self {
        let content = content.into();
        let line_starts = std::iter::once(0)
            .chain(content.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at as u32 + 1))
            .collect();
        Source { path: path.into(), language, content, line_starts, disk_lines: None }
    }

    /// A source extracted from a larger file; `disk_lines[i]` is the line on disk of content line `i` (0-based).
    pub fn extracted(
        path: impl Into<Arc<str>>,
        language: &'static str,
        content: impl Into<Arc<str>>,
        disk_lines: Vec<u32>,
    ) -> Self {
        Source { disk_lines: Some(disk_lines), ..Source::new(path, language, content) }
    }

    /// The line on disk (1-based) that holds the byte at `offset` of the content.
    pub fn line_at(&self, offset: usize) -> u32 {
        let line = self.line_starts.partition_point(|&start| start as usize <= offset).max(1);
        match &self.disk_lines {
            None => line as u32,
            Some(disk) => disk.get(line - 1).or(disk.last()).copied().unwrap_or(1),
        }
    }

    /// The lines on disk that a byte range of the content touches. An empty range touches the line it stands on.
    pub fn lines_of(&self, range: Range<usize>) -> Lines {
        let start = self.line_at(range.start);
        let last = range.end.saturating_sub(1).max(range.start);
        Lines { start, end: self.line_at(last).max(start) }
    }
}

/// Something that can be the answer: a file (`File: path`) or a function (`Function: path:name`) of a snapshot.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub level: Level,
    pub source: Arc<Source>,
    /// Qualified name of a function (`Outer.Inner.name`); `None` for a file.
    pub name: Option<Arc<str>>,
    /// Byte range in `source.content`, on character boundaries.
    pub range: Range<usize>,
    pub lines: Lines,
}

impl Candidate {
    /// The whole of a file.
    pub fn file(source: Arc<Source>) -> Self {
        let range = 0..source.content.len();
        let lines = source.lines_of(range.clone());
        Candidate { level: Level::File, source, name: None, range, lines }
    }

    /// A function of a file.
    pub fn function(source: Arc<Source>, name: impl Into<Arc<str>>, range: Range<usize>) -> Self {
        let lines = source.lines_of(range.clone());
        Candidate { level: Level::Function, source, name: Some(name.into()), range, lines }
    }

    pub fn path(&self) -> &str {
        &self.source.path
    }

    /// The candidate's source text, without the header.
    pub fn body(&self) -> &str {
        &self.source.content[self.range.clone()]
    }

    /// First line of the candidate's string: `File: <path>` or `Function: <path>:<qualified name>`.
    pub fn header(&self) -> String {
        match &self.name {
            None => format!("File: {}", self.path()),
            Some(name) => format!("Function: {}:{name}", self.path()),
        }
    }
}

/// A picture that came with an issue, as the bytes of its file.
#[derive(Debug, Clone)]
pub struct IssueImage {
    /// How the user named it (a path or a part name), for messages.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// What the user reports: the query.
#[derive(Debug, Clone, Default)]
pub struct IssueReport {
    pub title: String,
    pub body: String,
    pub images: Vec<IssueImage>,
}
