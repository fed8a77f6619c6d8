//! F1: an archive of sources that somebody sent, as files in a folder of our own.
//!
//! Nothing that stands in an archive is believed: not its name, its sizes or its paths. Only plain files are written, each opened as a new
//! one, in a folder that nobody else has; so no entry can lead out of it. Knows nothing of HTTP, of repositories or of what sources are.

mod gzip;
mod names;
mod sink;
mod source;
mod tape;
mod zipped;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use sink::Sink;
use source::Source;

/// What an archive may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Files and directories in all, those that are named only as part of a path too.
    pub entries: usize,
    /// Of all that is unpacked: in a tar every byte of it, in a zip the contents.
    pub bytes: u64,
    /// A longer file is left out.
    pub file_bytes: u64,
    /// Of one path; what has a longer one is left out.
    pub path_bytes: usize,
    /// Of one path, in components; what lies deeper is left out.
    pub depth: usize,
}

impl ArchiveLimits {
    /// All paths together may have so many bytes, since they are remembered while the archive is read.
    const NAMES_BYTES: usize = 1 << 27;
}

impl Default for ArchiveLimits {
    /// Twice the largest repositories known; a longer path than 1,024 bytes leaves too little for the folder's own in what systems allow.
    fn default() -> Self {
        ArchiveLimits { entries: 200_000, bytes: 4 << 30, file_bytes: 4 << 20, path_bytes: 1024, depth: 100 }
    }
}

/// A kind of archive, found by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Tar,
    TarGz,
    Zip,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Tar => "tar",
            Format::TarGz => "tar.gz",
            Format::Zip => "zip",
        }
    }
}

/// What became of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    pub format: Format,
    /// Files that were written.
    pub files: usize,
    /// What was unpacked, as [`ArchiveLimits::bytes`] counts.
    pub bytes: u64,
    /// What was not written, by path.
    pub skipped: Vec<SkippedEntry>,
    /// The full hash of a commit that the archive names as `git archive` does: a tar in a global header, a zip in its comment.
    pub commit: Option<String>,
    /// The one top folder that everything lay below. It is taken off all paths, [`Self::skipped`] too: hosts of repositories add one that is
    /// named after the repository and its commit.
    pub stripped: Option<String>,
    /// Things that went less than perfectly for the archive as a whole.
    pub notes: Vec<String>,
}

/// An entry of an archive that was not written, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedEntry {
    /// As it stands in the archive; with replacements where that is not UTF-8.
    pub path: String,
    pub reason: EntryReason,
}

/// Why an entry of an archive is not written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum EntryReason {
    #[error("a link, which is not followed")]
    Link,
    #[error("not a file: a device, a pipe or something unknown")]
    Special,
    #[error("a sparse file")]
    Sparse,
    #[error("encrypted")]
    Encrypted,
    #[error("packed by a method other than deflate")]
    Method,
    #[error("oversized: more than the limit of {limit} bytes")]
    Oversized { limit: u64 },
    #[error("git's own data, which is not taken from an archive")]
    GitData,
    #[error("what macOS adds to archives")]
    ResourceFork,
    #[error("its path is absolute")]
    Absolute,
    #[error("its path leads upwards")]
    Upwards,
    #[error("its path has a backslash")]
    Backslash,
    #[error("its path has a NUL")]
    Nul,
    #[error("it has no name")]
    Nameless,
    #[error("its path is not UTF-8, and this system has no such names")]
    NotUtf8,
    #[error("its path is longer than {limit} bytes, or a name in it than the system allows")]
    TooLong { limit: usize },
    #[error("it lies deeper than {limit} folders")]
    TooDeep { limit: usize },
    #[error("its path leads through a file")]
    BelowFile,
    #[error("a folder has the same path")]
    IsFolder,
    #[error("the file system can't tell its path from another's")]
    Indistinct,
    #[error("a later entry has the same path")]
    Replaced,
}

/// Why an archive gives no folder. Only [`ArchiveError::Unreadable`], [`ArchiveError::Full`] and [`ArchiveError::Unwritable`] name paths of this machine.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("{found} is no archive that can be read: send a tar, a tar.gz or a zip")]
    NotAnArchive { found: &'static str },
    #[error("the archive is empty: put the sources into it")]
    Empty,
    #[error("the archive is cut off {place}: send it again, whole")]
    CutOff { place: String },
    #[error("the archive is damaged {place} ({what}): make it anew")]
    Damaged { place: String, what: String },
    #[error("the archive holds more than {limit} {unit}: leave out what is no source")]
    TooLarge { limit: u64, unit: &'static str },
    #[error("stopped while the archive was unpacked")]
    Stopped,
    #[error("the archive `{}` can't be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the disk is full at `{}`: {source}; make room there", path.display())]
    Full { path: PathBuf, source: io::Error },
    #[error("`{}` can't be written: {source}; the folder has to be new or empty, and ours", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

/// Unpacks a tar, a tar.gz or a zip into `folder`, which is made and must be empty if it is there. After an error it is gone.
///
/// `stop` is asked again and again; the work ends with [`ArchiveError::Stopped`] once it says so. Nothing is forced to disk.
///
/// # Errors
/// When it is no such archive, is not whole, holds too much, or the file system fails.
pub fn extract(
    archive: &Path,
    folder: &Path,
    limits: &ArchiveLimits,
    stop: &dyn Fn() -> bool,
) -> Result<Extracted, ArchiveError> {
    let source = || Source::open(archive, stop).map_err(|source| unreadable(archive, source));
    let format = format_of(source()?).map_err(|error| failed(archive, stop, error))?;
    let mut sink = Sink::new(folder, limits)?;
    let commit = unpack(format, &source, &mut sink).map_err(|error| failed(archive, stop, error));
    let extracted = commit.and_then(|commit| sink.finish(format, commit));
    if extracted.is_err() {
        // What failed is what is reported, not that its traces may be there still.
        let _ = std::fs::remove_dir_all(folder);
    }
    extracted
}

type Open<'a, 'b> = &'b dyn Fn() -> Result<Source<'a>, ArchiveError>;

/// Gives the commit that the archive names.
fn unpack(format: Format, source: Open, sink: &mut Sink) -> Result<Option<String>, Trouble> {
    match format {
        Format::Tar => tape::unpack(source()?, sink),
        Format::TarGz => {
            let mut members = gzip::Members::new(source()?);
            let commit = tape::unpack(&mut members, sink)?;
            if members.has_rest() {
                sink.note("bytes after the end of its gzip stream are not read");
            }
            Ok(commit)
        }
        Format::Zip => zipped::unpack(source, sink),
    }
}

/// What ends the reading of an archive, before it is known whose fault it is.
enum Trouble {
    Archive(ArchiveError),
    /// Reading failed, there.
    Read {
        place: String,
        error: io::Error,
    },
}

impl From<ArchiveError> for Trouble {
    fn from(error: ArchiveError) -> Self {
        Trouble::Archive(error)
    }
}

/// Decoders say by the kind of an error that what they read is at fault.
fn failed(archive: &Path, stop: &dyn Fn() -> bool, trouble: Trouble) -> ArchiveError {
    match trouble {
        // Decoders may have wrapped what the source said.
        Trouble::Read { .. } if stop() => ArchiveError::Stopped,
        Trouble::Archive(error) => error,
        Trouble::Read { place, error } => match error.kind() {
            io::ErrorKind::UnexpectedEof => ArchiveError::CutOff { place },
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                ArchiveError::Damaged { place, what: error.to_string() }
            }
            _ => unreadable(archive, error),
        },
    }
}

fn unreadable(archive: &Path, source: io::Error) -> ArchiveError {
    ArchiveError::Unreadable { path: archive.to_owned(), source }
}

/// Bytes at the beginning that tell what a file is.
const HEAD: usize = tape::BLOCK;

/// Formats that are asked for and not read, by their first bytes.
const OTHERS: &[(&[u8], &str)] = &[
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\0", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z file"),
    (b"Rar!", "a rar file"),
];

fn format_of(mut source: Source) -> Result<Format, Trouble> {
    let head = source.head(HEAD).map_err(|error| Trouble::Read { place: "at its beginning".to_owned(), error })?;
    match head.as_slice() {
        [] => Err(ArchiveError::Empty.into()),
        [0x1f, 0x8b, ..] => Ok(Format::TarGz),
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Ok(Format::Zip),
        head if tape::is_header(head) => Ok(Format::Tar),
        head => {
            let other = OTHERS.iter().find(|(magic, _)| head.starts_with(magic));
            Err(ArchiveError::NotAnArchive { found: other.map_or("the file", |it| it.1) }.into())
        }
    }
}

/// A path in a message of one line.
fn shown(path: &[u8]) -> String {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(path);
    text.chars().take(MOST).flat_map(char::escape_debug).collect()
}

/// A hash as git names commits by.
fn is_hash(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

fn hash(text: &[u8]) -> Option<String> {
    is_hash(text).then(|| String::from_utf8_lossy(text).into_owned())
}
