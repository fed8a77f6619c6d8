//! What a question is asked of: the repository's index where there is a good one, the repository itself where not.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::loaded::{Loaded, Pending};
use super::{Failure, files, index, model, place, read_repository, status, terminal};
use crate::config::{Refresh, Settings};
use crate::index::build::{Counts, Manifest};
use crate::index::directory::{DataDirectory, IndexError};
use crate::index::lexical::LexicalIndex;
use crate::index::store::{EmbeddingStore, ModelKey};
use crate::index::view::View;
use crate::retriever::Corpus;
use crate::retriever::ingest::{self, Changes, Found, Indexed, IngestError, Job, Missing};
use crate::snapshot::Snapshot;
use crate::types::{Candidate, Level};

/// What is searched.
pub struct Searched {
    held: Held,
    /// What has changed since the index was made.
    pub changes: Changes,
    pub times: Times,
}

/// What getting at it took.
#[derive(Default, Clone, Copy)]
pub struct Times {
    /// Reading the repository, or opening its index.
    pub snapshot: Duration,
    /// Bringing the index up to date.
    pub refresh: Duration,
    /// Counting words, where there is no index.
    pub index: Duration,
}

enum Held {
    Index(Box<View>),
    Repository(Box<Snapshot>, Box<LexicalIndex>),
}

impl Searched {
    pub fn corpus(&self) -> Corpus<'_> {
        match &self.held {
            Held::Index(view) => {
                Corpus { candidates: &view.candidates, lexical: &view.lexical, vectors: view.vectors.as_ref() }
            }
            Held::Repository(snapshot, lexical) => Corpus { candidates: &snapshot.candidates, lexical, vectors: None },
        }
    }

    pub fn candidates(&self) -> &[Candidate] {
        self.corpus().candidates
    }

    pub fn count(&self, level: Level) -> usize {
        self.corpus().lexical.documents(level).len()
    }

    pub fn is_indexed(&self) -> bool {
        matches!(self.held, Held::Index(_))
    }

    /// Whose vectors the index has, for people; `None` if it has those of a model.
    pub fn other_model(&self, model: &ModelKey) -> Option<String> {
        let Held::Index(view) = &self.held else { return None };
        let Manifest { model: own, run, .. } = &view.build.manifest;
        let own = own.as_ref().filter(|it| *it != model)?;
        Some(run.as_ref().map_or_else(|| own.id.clone(), |it| model::described(&own.id, it)))
    }

    /// What the index holds, where there is one.
    pub fn counts(&self) -> Option<Counts> {
        match &self.held {
            Held::Index(view) => Some(view.build.manifest.counts),
            Held::Repository(..) => None,
        }
    }

    fn is_worth_filling(&self, model: &ModelKey, new: usize) -> bool {
        let Held::Index(view) = &self.held else { return false };
        ingest::is_worth_filling(&view.build.manifest, model, new)
    }

    pub fn commit(&self) -> Option<&str> {
        match &self.held {
            Held::Index(view) => view.commit(),
            Held::Repository(snapshot, _) => snapshot.commit.as_deref(),
        }
    }

    /// Paths that were skipped.
    pub fn skipped(&self) -> usize {
        match &self.held {
            Held::Index(view) => view.build.skipped.len(),
            Held::Repository(snapshot, _) => snapshot.skipped.len(),
        }
    }

    /// Paths of files that were read with reservations, ordered; a path once for each.
    pub fn noted(&self) -> Vec<&str> {
        match &self.held {
            Held::Index(view) => view.build.notes.iter().map(|it| it.0.as_str()).collect(),
            Held::Repository(snapshot, _) => snapshot.notes.iter().map(|it| it.path.as_str()).collect(),
        }
    }
}

/// Which repository, and where its index would be.
pub struct Asked<'a> {
    pub repository: &'a Path,
    pub revision: Option<&'a str>,
    pub settings: &'a Settings,
}

/// What was found before it was known which model asks.
pub enum Opened {
    Index(Box<Indexed>, Duration),
    Repository(Box<Snapshot>, Duration),
}

impl Asked<'_> {
    fn directory(&self) -> Option<(PathBuf, crate::index::directory::RepositoryDirectory)> {
        let data = &self.settings.index.data_dir;
        let root = place::resolved(self.repository);
        (!data.as_os_str().is_empty()).then(|| (root.clone(), DataDirectory::new(data).repository(&root)))
    }

    /// Opens the index, or reads the repository.
    pub fn open(&self) -> Result<Opened, Failure> {
        let start = Instant::now();
        let Some((root, directory)) = self.directory() else { return self.read(start) };
        match ingest::open(&directory, &root, self.revision, &files::options(self.settings)) {
            Ok(Found::Index(indexed)) => return Ok(Opened::Index(indexed, start.elapsed())),
            Ok(Found::Nothing) => {}
            Ok(Found::OtherRules) => terminal::warning(
                "the index was made by another version or under other settings, so the repository itself is read; `sightline index` makes it anew",
            ),
            Err(IngestError::Snapshot(error)) => return Err(error.into()),
            Err(error) => terminal::warning(&format!("{error}; the repository itself is read")),
        }
        self.read(start)
    }

    fn read(&self, start: Instant) -> Result<Opened, Failure> {
        let snapshot = read_repository(self.repository, self.revision, self.settings)?;
        Ok(Opened::Repository(Box::new(snapshot), start.elapsed()))
    }

    /// Makes of what was opened what is searched: an index that is not what is asked for is brought up to date, or passed over.
    pub fn searched(
        &self,
        opened: Opened,
        pending: Option<&Pending>,
        store: &dyn EmbeddingStore,
    ) -> Result<Searched, Failure> {
        let (indexed, took) = match opened {
            Opened::Repository(snapshot, took) => return of_repository(snapshot, took),
            Opened::Index(indexed, took) => (indexed, took),
        };
        let times = Times { snapshot: took, ..Times::default() };
        if indexed.changes.is_empty() || !self.is_to_be_refreshed(&indexed.changes) {
            return Ok(of_index(indexed, times));
        }
        let Some(pending) = pending else {
            // Bringing vectors up to date would take longer than doing without the index.
            return self.read_instead(times);
        };
        let loaded = pending.get()?;
        let is_of_model = indexed.view.build.manifest.model.as_ref() == Some(&loaded.model);
        if !is_of_model && self.settings.index.refresh != Refresh::Always {
            // All of it would have to be embedded.
            return self.read_instead(times);
        }
        self.refreshed(indexed, loaded, store, times)
    }

    fn is_to_be_refreshed(&self, changes: &Changes) -> bool {
        match self.settings.index.refresh {
            Refresh::Always => true,
            Refresh::Never => false,
            Refresh::Auto => changes.count() <= self.settings.index.refresh_files,
        }
    }

    fn read_instead(&self, times: Times) -> Result<Searched, Failure> {
        let start = Instant::now();
        let snapshot = read_repository(self.repository, self.revision, self.settings)?;
        of_repository(Box::new(snapshot), times.snapshot + start.elapsed())
    }

    fn refreshed(
        &self,
        indexed: Box<Indexed>,
        loaded: &Loaded,
        store: &dyn EmbeddingStore,
        times: Times,
    ) -> Result<Searched, Failure> {
        let start = Instant::now();
        // One that was made without all vectors goes on without.
        let is_complete = indexed.view.build.manifest.counts.is_complete();
        let missing = if is_complete { Missing::Embed } else { Missing::Leave };
        match self.refresh(loaded, store, missing) {
            Ok(Some(indexed)) => Ok(of_index(indexed, Times { refresh: start.elapsed(), ..times })),
            Ok(None) => {
                terminal::warning("another process is bringing the index up to date");
                Ok(of_index(indexed, times))
            }
            Err(error) => {
                terminal::warning(&format!(
                    "the index could not be brought up to date, so the repository itself is read: {error}"
                ));
                self.read_instead(times)
            }
        }
    }

    /// Puts the vectors that an answer made, or found in the store, into a partial index. One that is stale, or not to be touched, stays as
    /// it is.
    pub fn fill(&self, searched: &Searched, loaded: &Loaded, store: &dyn EmbeddingStore, new: usize) {
        let is_open = searched.changes.is_empty() && self.settings.index.refresh != Refresh::Never;
        if !is_open || !searched.is_worth_filling(&loaded.model, new) {
            return;
        }
        // The answer is there, and the vectors are in the store: the next question tries again.
        if let Err(error) = self.refresh(loaded, store, Missing::Leave) {
            terminal::warning(&format!("the index could not take up the new vectors: {error}"));
        }
    }

    /// Brings the index up to date and opens it; `None` while another process does.
    fn refresh(
        &self,
        loaded: &Loaded,
        store: &dyn EmbeddingStore,
        missing: Missing,
    ) -> Result<Option<Box<Indexed>>, IngestError> {
        let Some((root, directory)) = self.directory() else { return Ok(None) };
        let lock = match directory.lock() {
            Err(IndexError::Busy { .. }) => return Ok(None),
            lock => lock?,
        };
        let (options, observer) = (files::options(self.settings), index::Shown::default());
        let job = Job {
            root: &root,
            revision: self.revision,
            options: &options,
            encoder: &*loaded.encoder,
            store,
            missing,
            observer: &observer,
        };
        index::warn(&ingest::ingest(&job, &directory, &lock)?);
        Ok(match ingest::open(&directory, &root, self.revision, &options)? {
            Found::Index(indexed) => Some(indexed),
            Found::Nothing | Found::OtherRules => None,
        })
    }
}

fn of_repository(snapshot: Box<Snapshot>, took: Duration) -> Result<Searched, Failure> {
    let start = Instant::now();
    let lexical = Box::new(LexicalIndex::build(&snapshot.candidates)?);
    let times = Times { snapshot: took, index: start.elapsed(), ..Times::default() };
    Ok(Searched { held: Held::Repository(snapshot, lexical), changes: Changes::default(), times })
}

fn of_index(indexed: Box<Indexed>, times: Times) -> Searched {
    let Indexed { view, changes } = *indexed;
    if !changes.is_empty() {
        terminal::warning(&format!(
            "the index is stale: {}; --refresh brings it up to date first",
            status::changed(&changes)
        ));
    }
    Searched { held: Held::Index(Box::new(view)), changes, times }
}
