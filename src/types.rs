//! F0: the plain data that every module speaks: issues, sources, candidates, levels.
//!
//! Knows nothing of files on disk, git, models or the wire; serialised shapes are made at the edge (`cli`).

mod secret;
mod visual;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use secret::Secret;
pub use visual::{Category, CodeHint, ErrorSignal, Frame, VisualEvidence};

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

/// The decoded text of a source file, with its lines.
#[derive(Debug)]
pub struct Text {
    /// UTF-8, no byte order mark, `\n` line ends. For a notebook: its code cells.
    pub content: Arc<str>,
    /// Byte offset in `content` at which each line begins.
    line_starts: Vec<u32>,
    /// For content that is extracted from a larger file (notebooks): the line on disk of each content line.
    disk_lines: Option<Vec<u32>>,
}

impl Text {
    /// A text whose lines are the lines of the file on disk.
    pub fn new(content: impl Into<Arc<str>>) -> Self {
        let content = content.into();
        let line_starts = std::iter::once(0)
            .chain(content.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at as u32 + 1))
            .collect();
        Text { content, line_starts, disk_lines: None }
    }

    /// A text extracted from a larger file; `disk_lines[i]` is the line on disk of content line `i` (0-based).
    pub fn extracted(content: impl Into<Arc<str>>, disk_lines: Vec<u32>) -> Self {
        Text { disk_lines: Some(disk_lines), ..Text::new(content) }
    }

    /// What [`Self::extracted`] was given.
    pub fn disk_lines(&self) -> Option<&[u32]> {
        self.disk_lines.as_deref()
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

/// Where texts are that are not in memory.
pub trait TextStore: std::fmt::Debug + Send + Sync {
    /// The text of the source with this number.
    ///
    /// # Errors
    /// When it can't be had as it was put there.
    fn text(&self, number: u32) -> Result<Text, TextError>;
}

/// Why a text can't be had: a line that names the thing, the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(pub String);

/// A source file of a snapshot.
#[derive(Debug)]
pub struct Source {
    /// Repository-relative, `/` between components, no leading `./`.
    pub path: Arc<str>,
    /// Name of the language, a row of `snapshot::language`.
    pub language: Arc<str>,
    /// Bytes of the content, and its lines.
    pub bytes: usize,
    pub lines: Lines,
    text: OnceLock<Text>,
    /// Where the text is until it is asked for.
    stored: Option<(Arc<dyn TextStore>, u32)>,
}

impl Source {
    /// A source whose text is in memory.
    pub fn new(path: impl Into<Arc<str>>, language: impl Into<Arc<str>>, text: Text) -> Self {
        let (bytes, lines) = (text.content.len(), text.lines_of(0..text.content.len()));
        Source { path: path.into(), language: language.into(), bytes, lines, text: text.into(), stored: None }
    }

    /// A source with `bytes` of content that `store` has under `number`.
    pub fn stored(
        path: Arc<str>,
        language: Arc<str>,
        (bytes, lines): (usize, Lines),
        stored: (Arc<dyn TextStore>, u32),
    ) -> Self {
        Source { path, language, bytes, lines, text: OnceLock::new(), stored: Some(stored) }
    }

    /// The text, read when first asked for.
    ///
    /// # Errors
    /// When it is not in memory and can't be read, or is not as long as it was.
    pub fn text(&self) -> Result<&Text, TextError> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let lost = || {
            TextError(format!("the text of `{}` is not what was indexed; `sightline index` reads it again", self.path))
        };
        let (store, number) = self.stored.as_ref().ok_or_else(lost)?;
        let text = store.text(*number)?;
        if text.content.len() != self.bytes {
            return Err(lost());
        }
        Ok(self.text.get_or_init(|| text))
    }
}

/// Something that can be the answer: a file (`File: path`) or a function (`Function: path:name`) of a snapshot.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub level: Level,
    pub source: Arc<Source>,
    /// Qualified name of a function (`Outer.Inner.name`); `None` for a file.
    pub name: Option<Arc<str>>,
    /// Byte range in the content of `source`, on character boundaries.
    pub range: Range<usize>,
    pub lines: Lines,
}

impl Candidate {
    /// The whole of a file.
    pub fn file(source: Arc<Source>) -> Self {
        let (range, lines) = (0..source.bytes, source.lines);
        Candidate { level: Level::File, source, name: None, range, lines }
    }

    /// A function of a file.
    pub fn function(source: Arc<Source>, name: impl Into<Arc<str>>, range: Range<usize>, lines: Lines) -> Self {
        Candidate { level: Level::Function, source, name: Some(name.into()), range, lines }
    }

    pub fn path(&self) -> &str {
        &self.source.path
    }

    /// The candidate's source text, without the header.
    ///
    /// # Errors
    /// When the text of its source can't be had.
    pub fn body(&self) -> Result<&str, TextError> {
        let content = &self.source.text()?.content;
        content.get(self.range.clone()).ok_or_else(|| {
            TextError(format!(
                "`{}` is not in the text that was indexed; `sightline index` reads it again",
                self.header()
            ))
        })
    }

    /// First line of the candidate's string: `File: <path>` or `Function: <path>:<qualified name>`.
    pub fn header(&self) -> String {
        match &self.name {
            None => format!("File: {}", self.path()),
            Some(name) => format!("Function: {}:{name}", self.path()),
        }
    }
}

/// The identity of a file's bytes: git's name of the blob, with zeros behind it if it is a SHA-1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub [u8; 32]);

impl std::fmt::Debug for ContentId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// What can be known of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// On disk: bytes, and when they and the file's entry were last changed, in nanoseconds since 1970.
    Disk { bytes: u64, modified: i64, changed: i64 },
    /// In a revision.
    Object { bytes: u64, id: ContentId },
}

impl Stamp {
    pub fn bytes(&self) -> u64 {
        match self {
            Stamp::Disk { bytes, .. } | Stamp::Object { bytes, .. } => *bytes,
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
    /// Pictures that the encoder sees.
    pub images: Vec<IssueImage>,
    /// What was read of its pictures, of each that text stands in.
    pub evidence: Vec<VisualEvidence>,
}

impl IssueReport {
    /// Whether nothing is written.
    pub fn is_blank(&self) -> bool {
        self.title.trim().is_empty() && self.body.trim().is_empty()
    }

    /// The body with what was read of the pictures behind it, as one text (MM-IssueLoc, section 4.2).
    pub fn whole_body(&self) -> Cow<'_, str> {
        if self.evidence.is_empty() {
            return Cow::Borrowed(&self.body);
        }
        let blocks = self.evidence.iter().map(VisualEvidence::text_block);
        Cow::Owned(std::iter::once(self.body.clone()).chain(blocks).collect::<Vec<_>>().join("\n\n"))
    }
}

/// What is read of an issue's pictures (MM-IssueLoc, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Text,
    /// The encoder sees them.
    Image,
    /// Their text and what it says stand for them.
    Vce,
    /// Both.
    VceImage,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Text, Mode::Image, Mode::Vce, Mode::VceImage];

    /// The name in flags and output.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Text => "text",
            Mode::Image => "image",
            Mode::Vce => "vce",
            Mode::VceImage => "vce+image",
        }
    }

    /// The mode by two answers: whether pictures are read, and whether they are seen.
    pub fn of(reads: bool, sees: bool) -> Self {
        match (reads, sees) {
            (false, false) => Mode::Text,
            (false, true) => Mode::Image,
            (true, false) => Mode::Vce,
            (true, true) => Mode::VceImage,
        }
    }

    /// Whether text is read from pictures.
    pub fn reads(self) -> bool {
        matches!(self, Mode::Vce | Mode::VceImage)
    }

    /// Whether the encoder sees pictures.
    pub fn sees(self) -> bool {
        matches!(self, Mode::Image | Mode::VceImage)
    }
}

/// By which rules a text and its pictures become what a model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// What users want: a picture as it is meant to be seen, a text that can't imitate the template, a template that is never cut.
    #[default]
    Default,
    /// What the published implementation of the model does, bit for bit.
    Reference,
}

impl Policy {
    pub const ALL: [Policy; 2] = [Policy::Default, Policy::Reference];

    /// The name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Default => "default",
            Policy::Reference => "reference",
        }
    }
}
