//! The repositories that are served: which there are, and the opened index of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::ServiceError;
use super::sources::Sources;
use crate::index::build::{Manifest, Target};
use crate::index::directory::{DataDirectory, IndexError, RepositoryDirectory, SourceRecord};
use crate::index::store::ModelKey;
use crate::index::view::View;
use crate::retriever::ingest::{self, Changes};
use crate::snapshot;

/// Repositories at most: each is a folder and an opened index.
const MOST: usize = 1000;
/// Characters of a name.
const NAME_CHARACTERS: usize = 64;
/// How often it is looked for changes of a source.
const CHECKED_EVERY: Duration = Duration::from_secs(1);
/// So often an index is opened when it is replaced in that moment.
const OPENINGS: usize = 3;

/// All that are served, by name.
pub struct Repositories {
    data: DataDirectory,
    pub sources: Sources,
    known: RwLock<BTreeMap<String, Arc<Repository>>>,
}

/// One of them.
pub struct Repository {
    pub name: String,
    pub directory: RepositoryDirectory,
    state: Mutex<State>,
    /// Held by whoever brings the index up to date for a question.
    pub refreshing: Mutex<()>,
    looking: Mutex<()>,
}

#[derive(Default)]
struct State {
    served: Option<Arc<Served>>,
    /// What the directory's list of builds was when it was opened.
    stamp: Option<Vec<u8>>,
    staleness: Arc<Staleness>,
    checked: Option<Instant>,
    /// The last job.
    job: Option<String>,
    is_going: bool,
}

/// An opened index, and what it is of.
pub struct Served {
    pub view: View,
    pub source: SourceRecord,
}

/// An opened index, and whether it is what its source is.
pub type Seen = (Arc<Served>, Arc<Staleness>);

/// Whether an index is what its source is now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Staleness {
    pub changes: Changes,
    /// Why it is stale beyond changed files.
    pub reason: Option<String>,
}

impl Staleness {
    pub fn is_stale(&self) -> bool {
        !self.changes.is_empty() || self.reason.is_some()
    }
}

impl Served {
    pub fn manifest(&self) -> &Manifest {
        &self.view.build.manifest
    }

    pub fn root(&self) -> &Path {
        Path::new(&self.source.path)
    }

    /// The rules by which its files were chosen.
    pub fn options(&self) -> snapshot::Options {
        let rules = self.source.rules.as_ref().unwrap_or(&self.manifest().rules);
        ingest::options(rules)
    }

    /// Compares the index with its source.
    fn staleness(&self, model: &ModelKey, sources: &Sources) -> Staleness {
        let manifest = self.manifest();
        let reason = if manifest.rules != ingest::rules(&self.options()) {
            Some("made by another version of Sightline".to_owned())
        } else if manifest.model.as_ref() != Some(model) {
            Some("its vectors are of another model".to_owned())
        } else {
            None
        };
        if self.root().starts_with(&sources.uploads) {
            return Staleness { changes: Changes::default(), reason };
        }
        let gone = |error: &dyn std::fmt::Display| {
            tracing::warn!(cause = error.to_string(), "a source can't be compared with its index");
            Some("its source can't be read any more".to_owned())
        };
        if let Err(error) = sources.check(self.root()) {
            return Staleness { changes: Changes::default(), reason: gone(&error) };
        }
        match (&manifest.target, self.source.revision.as_deref()) {
            (Target::WorkTree, None) => match ingest::changes_since(&self.view, self.root(), &self.options()) {
                Ok(changes) => Staleness { changes, reason },
                Err(error) => Staleness { changes: Changes::default(), reason: gone(&error) },
            },
            (target, revision) => {
                let reason = match ingest::target(self.root(), revision, &self.options()) {
                    Ok(now) if now == *target => reason,
                    Ok(_) => Some("its revision is another commit by now".to_owned()),
                    Err(error) => gone(&error),
                };
                Staleness { changes: Changes::default(), reason }
            }
        }
    }
}

impl Repositories {
    /// Those that a data directory has.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn open(data: DataDirectory, roots: Vec<PathBuf>) -> Result<Self, IndexError> {
        let is_one = |it: &RepositoryDirectory| it.stamp().is_some() || matches!(it.source(), Ok(Some(_)));
        let known = data.repositories()?.into_iter().filter(is_one);
        let known = known.map(|it| (it.id.clone(), Arc::new(Repository::new(it)))).collect();
        let sources = Sources { uploads: data.uploads(), roots };
        Ok(Repositories { data, sources, known: RwLock::new(known) })
    }

    /// The repository of a name.
    ///
    /// # Errors
    /// [`ServiceError::UnknownRepository`], also while it is being deleted.
    pub fn get(&self, name: &str) -> Result<Arc<Repository>, ServiceError> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(name).filter(|it| !it.state().is_going).cloned();
        // One that another process has made meanwhile.
        match found {
            Some(found) => Ok(found),
            None => {
                drop(known);
                self.appeared(name).ok_or_else(|| ServiceError::UnknownRepository { id: shown(name) })
            }
        }
    }

    fn appeared(&self, name: &str) -> Option<Arc<Repository>> {
        checked_name(name).ok()?;
        let directory = self.data.named(name);
        directory.stamp()?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let repository = known.entry(name.to_owned()).or_insert_with(|| Arc::new(Repository::new(directory)));
        (!repository.state().is_going).then(|| Arc::clone(repository))
    }

    /// The repository of a name, which is made known if it is new, and whether it is.
    ///
    /// # Errors
    /// A name that is none; too many; one that is being deleted.
    pub fn get_or_add(&self, name: &str) -> Result<(Arc<Repository>, bool), ServiceError> {
        checked_name(name)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(name) {
            let is_going = found.state().is_going;
            let found = (Arc::clone(found), false);
            return if is_going { Err(ServiceError::InUse { id: name.to_owned() }) } else { Ok(found) };
        }
        if known.len() >= MOST {
            return Err(ServiceError::TooManyRepositories { repositories: MOST });
        }
        let repository = Arc::new(Repository::new(self.data.named(name)));
        known.insert(name.to_owned(), Arc::clone(&repository));
        Ok((repository, true))
    }

    pub fn all(&self) -> Vec<Arc<Repository>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().filter(|it| !it.state().is_going).cloned().collect()
    }

    /// Forgets one, unless another has its name by now.
    pub fn forget(&self, repository: &Arc<Repository>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.get(&repository.name).is_some_and(|it| Arc::ptr_eq(it, repository)) {
            known.remove(&repository.name);
        }
    }

    /// Where sources are that came as archives.
    pub fn uploads(&self) -> PathBuf {
        self.sources.uploads.clone()
    }
}

/// # Errors
/// What can't be a name: it becomes a folder's.
pub fn checked_name(name: &str) -> Result<(), ServiceError> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    let is_name = (1..=NAME_CHARACTERS).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.');
    if is_name { Ok(()) } else { Err(ServiceError::BadName { id: shown(name) }) }
}

/// As much of a name as is repeated to who sent it.
fn shown(name: &str) -> String {
    name.chars().filter(|it| !it.is_control()).take(NAME_CHARACTERS).collect()
}

impl Repository {
    fn new(directory: RepositoryDirectory) -> Self {
        let name = directory.id.clone();
        Repository { name, directory, state: Mutex::default(), refreshing: Mutex::default(), looking: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last job of this process, or of one before that was not finished.
    pub fn job(&self) -> Option<String> {
        self.state().job.clone()
    }

    pub fn set_job(&self, job: &str) {
        self.state().job = Some(job.to_owned());
    }

    /// From now on it is as if it were gone.
    pub fn set_going(&self) {
        let mut state = self.state();
        *state = State { is_going: true, job: state.job.take(), ..State::default() };
    }

    pub fn is_going(&self) -> bool {
        self.state().is_going
    }

    /// The opened index, if it is known to be good for another moment.
    pub fn at_hand(&self) -> Option<Seen> {
        let state = self.state();
        let is_recent = state.checked.is_some_and(|it| it.elapsed() < CHECKED_EVERY);
        state.served.clone().filter(|_| is_recent).map(|it| (it, Arc::clone(&state.staleness)))
    }

    /// The index that counts, and whether it is what its source is; `None` if there is none. Reads files.
    ///
    /// # Errors
    /// When there is one that can't be opened.
    pub fn look(&self, model: &ModelKey, sources: &Sources) -> Result<Option<Seen>, ServiceError> {
        if let Some(found) = self.at_hand() {
            return Ok(Some(found));
        }
        // Of those who ask at the same time one looks.
        let _only = super::lock(&self.looking);
        if let Some(found) = self.at_hand() {
            return Ok(Some(found));
        }
        let Some(served) = self.opened()? else { return Ok(None) };
        let staleness = Arc::new(served.staleness(model, sources));
        let mut state = self.state();
        (state.staleness, state.checked) = (Arc::clone(&staleness), Some(Instant::now()));
        Ok(Some((served, staleness)))
    }

    /// Lets the next who asks look again.
    pub fn outdate(&self) {
        self.state().checked = None;
    }

    fn opened(&self) -> Result<Option<Arc<Served>>, ServiceError> {
        let stamp = self.directory.stamp();
        {
            let state = self.state();
            if state.served.is_some() && state.stamp == stamp {
                return Ok(state.served.clone());
            }
        }
        let served = self.open()?.map(Arc::new);
        let mut state = self.state();
        if !state.is_going {
            (state.served, state.stamp) = (served.clone(), stamp);
        }
        Ok(served)
    }

    fn open(&self) -> Result<Option<Served>, ServiceError> {
        let mut tries = 0;
        loop {
            tries += 1;
            // A writer may remove what a build consists of once a newer one is there.
            let opened = self.directory.source().and_then(|source| {
                // A build that was confirmed is older than another one may be that was made before that.
                let confirmed = source.as_ref().and_then(|it| it.target.as_ref());
                let build = confirmed.map(|it| self.directory.build(it)).transpose()?.flatten();
                let Some(build) = build.map_or_else(|| self.directory.newest(), |it| Ok(Some(it)))? else {
                    return Ok(None);
                };
                Ok(Some((View::open(&self.directory, build)?, source)))
            });
            match opened {
                Ok(None) => return Ok(None),
                Ok(Some((view, source))) => {
                    let lost = SourceRecord::default();
                    return Ok(Some(Served { view, source: source.unwrap_or(lost) }));
                }
                Err(error) if tries == OPENINGS => return Err(error.into()),
                Err(_) => {}
            }
        }
    }

    /// Opens the index if that was never done. Whether it is stale is not looked at.
    ///
    /// # Errors
    /// When there is one that can't be opened.
    pub fn open_once(&self) -> Result<(), ServiceError> {
        self.opened().map(drop)
    }

    /// What was said of it last, without looking: the opened index and its staleness.
    pub fn last_seen(&self) -> (Option<Arc<Served>>, Arc<Staleness>) {
        let state = self.state();
        (state.served.clone(), Arc::clone(&state.staleness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, is_name: bool) {
        assert_eq!(checked_name(name).is_ok(), is_name, "{name:?}");
    }

    #[test]
    fn a_name_is_one_plain_component_of_a_path() {
        for name in ["a", "my-repo_1.2", "A".repeat(64).as_str()] {
            check(name, true);
        }
        for name in ["", ".", "..", ".git", "a/b", "a\\b", "a b", "ä", "a\0", "a\n", "A".repeat(65).as_str()] {
            check(name, false);
        }
    }
}
