//! F1: a repository, read from a working tree or from a git revision, as candidates.
//!
//! Bad input is data here: a file that can't be used is in [`Snapshot::skipped`] with its reason, one that could be used
//! only in part is in [`Snapshot::notes`]; neither ends the run. Knows nothing of retrieval, models or output formats.

pub mod language;
mod notebook;
pub mod parse;
mod rewrite;
mod scripts;

use std::sync::Arc;

use crate::types::{Candidate, Source};

pub use parse::{Extracted, Function, ParseFailure, extract};

/// A file of the repository that is not among the candidates, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    pub path: String,
    pub reason: SkipReason,
}

/// Why a path of the repository gives no candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    #[error("binary content")]
    Binary,
}

/// Something that went less than perfectly for one file, which is still a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub path: String,
    pub message: String,
}

/// A repository at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Full hash of the commit that was read; `None` for a working tree.
    pub commit: Option<String>,
    /// Ordered by path.
    pub sources: Vec<Arc<Source>>,
    /// Ordered by path; the file first, then its functions by position.
    pub candidates: Vec<Candidate>,
    pub skipped: Vec<Skipped>,
    pub notes: Vec<Note>,
}
