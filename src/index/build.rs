//! F1: a build: which files of which segments are a repository at one moment, with what was known of them unread.
//!
//! One small immutable file; the segments and vectors it names lie beside it. Knows nothing of how a repository is read or embedded.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::store::ModelKey;
use crate::fsio::{self, FileError, Seal, SectionFile, SectionWriter};
use crate::types::{ContentId, Stamp};

/// Raise it when what stands in the file changes its form.
pub const FORMAT: u32 = 1;

/// What a build is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The files on disk.
    WorkTree,
    /// The full hash of a commit.
    Commit(String),
}

/// Everything that decides which files there are and what their content gives: a build made under other rules is made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Of the program's code that reads, parses and counts.
    pub code: String,
    pub max_file_bytes: u64,
    /// Patterns of files that count, and of those that don't.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// No git was looked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
}

impl Rules {
    /// Whether a file that both choose gives the same by both.
    pub fn read_alike(&self, other: &Rules) -> bool {
        (&self.code, self.max_file_bytes) == (&other.code, other.max_file_bytes)
    }
}

/// What a build holds, by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    pub files: usize,
    pub functions: usize,
    pub windows: usize,
    /// Windows that have a vector.
    pub vectors: usize,
}

impl Counts {
    /// Whether every window has a vector.
    pub fn is_complete(&self) -> bool {
        self.windows == self.vectors
    }
}

/// A file that a build needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: String,
    pub seal: Seal,
}

/// A segment with its vectors of the build's model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub segment: Named,
    pub vectors: Option<Named>,
    /// By level, files first: a graph over the vectors, where there are many.
    pub graphs: [Option<Named>; 2],
}

impl Part {
    /// The files it consists of.
    pub fn named(&self) -> impl Iterator<Item = &Named> {
        std::iter::once(&self.segment).chain(&self.vectors).chain(self.graphs.iter().flatten())
    }
}

/// How a model was run: the names of what its vectors were computed in and of its policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRun {
    pub dtype: String,
    pub policy: String,
}

/// What a build says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub target: Target,
    /// Seconds since 1970.
    pub created: u64,
    /// When listing the files began, in nanoseconds since 1970: what was changed about then or later may have been changed again.
    pub listed: i64,
    pub rules: Rules,
    /// Whose vectors it has.
    pub model: Option<ModelKey>,
    /// How that model was run, for reports; `None` in a build of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<ModelRun>,
    pub counts: Counts,
    pub parts: Vec<Part>,
}

/// A file of the repository: where it is in the parts, and what was known of it unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub part: u32,
    pub number: u32,
    pub stamp: Stamp,
}

/// A path with what is said of it.
pub type Remark = (String, String);

/// A build as it is written and read.
#[derive(Debug, Clone)]
pub struct Build {
    pub manifest: Manifest,
    /// Ordered by path.
    pub rows: Vec<Row>,
    /// Paths that are not among the files, with reasons; those with a row are not mentioned.
    pub skipped: Vec<Remark>,
    pub notes: Vec<Remark>,
}

#[derive(Serialize, Deserialize)]
struct Table {
    rows: Vec<(u32, u32, StampRecord)>,
    skipped: Vec<Remark>,
    notes: Vec<Remark>,
}

#[derive(Serialize, Deserialize)]
enum StampRecord {
    Disk(u64, i64, i64),
    Object(u64, [u8; 32]),
}

impl From<Stamp> for StampRecord {
    fn from(stamp: Stamp) -> Self {
        match stamp {
            Stamp::Disk { bytes, modified, changed } => StampRecord::Disk(bytes, modified, changed),
            Stamp::Object { bytes, id } => StampRecord::Object(bytes, id.0),
        }
    }
}

impl From<StampRecord> for Stamp {
    fn from(record: StampRecord) -> Self {
        match record {
            StampRecord::Disk(bytes, modified, changed) => Stamp::Disk { bytes, modified, changed },
            StampRecord::Object(bytes, id) => Stamp::Object { bytes, id: ContentId(id) },
        }
    }
}

impl Build {
    /// Writes the build to a file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let manifest = serde_json::to_vec_pretty(&self.manifest)?;
        let rows = self.rows.iter().map(|it| (it.part, it.number, it.stamp.into())).collect();
        let table = Table { rows, skipped: self.skipped.clone(), notes: self.notes.clone() };
        let table = postcard::to_allocvec(&table).map_err(std::io::Error::other)?;
        fsio::write_atomically(path, |out| {
            let mut writer = SectionWriter::new(out);
            writer.begin("manifest")?;
            writer.write_all(&manifest)?;
            writer.begin("files")?;
            writer.write_all(&table)?;
            writer.finish(FORMAT)
        })
    }

    /// Reads a build.
    ///
    /// # Errors
    /// When the file is not there, not whole or not a build.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let file = SectionFile::open(path, FORMAT)?;
        let manifest = manifest(&file)?;
        let table: Table = postcard::from_bytes(file.section("files")?.all()?)
            .map_err(|error| file.damaged(format!("its list of files makes no sense ({error})")))?;
        let row = |(part, number, stamp): (u32, u32, StampRecord)| Row { part, number, stamp: stamp.into() };
        let rows = table.rows.into_iter().map(row).collect();
        Ok(Build { manifest, rows, skipped: table.skipped, notes: table.notes })
    }

    /// Reads what a build says of itself.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn read_manifest(path: &Path) -> Result<Manifest, FileError> {
        manifest(&SectionFile::open(path, FORMAT)?)
    }
}

fn manifest(file: &std::sync::Arc<SectionFile>) -> Result<Manifest, FileError> {
    serde_json::from_slice(file.section("manifest")?.all()?)
        .map_err(|error| file.damaged(format!("its manifest makes no sense ({error})")))
}

/// Where a repository's files lie below its directory.
pub fn path_of_build(directory: &Path, name: &str) -> PathBuf {
    directory.join("builds").join(format!("{name}.build"))
}

/// Where segments, vectors and graphs lie.
pub fn path_of_part(directory: &Path, name: &str) -> PathBuf {
    directory.join("segments").join(name)
}
