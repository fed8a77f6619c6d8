//! F1: the embedding store on disk: threads, processes, the clock and what is done about damage. Knows nothing of SQL.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use half::f16;
use rusqlite::Connection;

use super::file::{Replaced, StoreFile, lock};
use super::rows::{self, Entry};
use super::{EmbeddingStore, Key, ModelKey, StoreError, check_dimensions};

/// Vectors that one transaction writes: other processes wait so long.
const BATCH: usize = 1024;
/// Uses that wait to be marked while others write.
const MOST_UNMARKED: usize = 100_000;

/// Vectors in an SQLite file in WAL mode. Readers never wait; writers of all processes take turns.
///
/// The last use of a vector is kept in hours, so that reading it again within the hour writes nothing.
pub struct Store {
    pub(super) file: StoreFile,
    replaces: bool,
    clock: Box<dyn Fn() -> SystemTime + Send + Sync>,
    /// Threads wait here in turn, processes in SQLite by trying again and again.
    writing: Mutex<()>,
    /// Used, and not marked so yet.
    used: Mutex<Vec<Entry>>,
    damaged: AtomicU64,
    replaced: Mutex<Vec<Replaced>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Store").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store of a folder, or begins one there. A store that can't be written is opened for reading
    /// ([`Self::is_read_only`] tells).
    ///
    /// # Errors
    /// When it can't be read, is damaged as a whole, or is of another format.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self::of(StoreFile::open(directory)?))
    }

    /// Opens the store of a folder as [`Self::open`] does, and begins a new one when it is found damaged, now or later; the
    /// damaged file is kept beside it until the next is. [`Self::replaced`] tells.
    ///
    /// # Errors
    /// When it can't be read or is of another format: a store that is held, full or forbidden is not damaged.
    pub fn open_or_replace(directory: &Path) -> Result<Self, StoreError> {
        let (file, replaced) = StoreFile::open_or_replace(directory)?;
        let mut store = Self::of(file);
        store.replaces = true;
        lock(&store.replaced).extend(replaced);
        Ok(store)
    }

    /// Opens the store of a folder and never writes to it, uses included. Where none is, it is empty.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_read_only(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self::of(StoreFile::open_read_only(directory)?))
    }

    fn of(file: StoreFile) -> Self {
        Store {
            file,
            replaces: false,
            clock: Box::new(SystemTime::now),
            writing: Mutex::new(()),
            used: Mutex::default(),
            damaged: AtomicU64::new(0),
            replaced: Mutex::default(),
        }
    }

    /// Takes the time of uses from elsewhere.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Nothing can be kept; what is there can be read.
    pub fn is_read_only(&self) -> bool {
        self.file.is_read_only()
    }

    /// The file, for messages.
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// Damaged files that this store has set aside since it was opened, the oldest first.
    pub fn replaced(&self) -> Vec<Replaced> {
        lock(&self.replaced).clone()
    }

    /// Vectors that this store has found damaged since it was opened.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    fn hour(&self) -> i64 {
        hour_of((self.clock)())
    }

    /// Does something in the file, and once more in a new one if it turns out damaged.
    pub(super) fn run<T>(&self, work: impl Fn(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        match self.file.with(&work) {
            // Another process may have begun to write in what was read as a file that doesn't change; now it has a log.
            Err(StoreError::Damaged { .. }) if self.is_read_only() => self.file.with(&work),
            Err(damage @ StoreError::Damaged { .. }) if self.replaces => {
                let replaced = self.file.replace(&damage)?;
                lock(&self.replaced).push(replaced);
                self.file.with(&work)
            }
            done => done,
        }
    }

    /// Does something that writes: one thread at a time.
    pub(super) fn write<T>(&self, work: impl Fn(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.file.writable()?;
        let _turn = lock(&self.writing);
        self.run(work)
    }

    /// Marks what was used, or leaves it for later if somebody else writes now: nobody waits for a mark.
    fn mark_unless_busy(&self) {
        let Ok(_turn) = self.writing.try_lock() else { return };
        let (used, hour) = (std::mem::take(&mut *lock(&self.used)), self.hour());
        if used.is_empty() {
            return;
        }
        let marked = self.file.with(|connection| {
            connection.busy_timeout(Duration::ZERO)?;
            let marked = rows::mark(connection, &used, hour);
            connection.busy_timeout(super::file::PATIENCE)?;
            marked
        });
        if marked.is_err() {
            lock(&self.used).extend(used);
        }
    }

    /// Marks what was used, and waits for it.
    pub(super) fn mark(&self) -> Result<(), StoreError> {
        let (used, hour) = (std::mem::take(&mut *lock(&self.used)), self.hour());
        if used.is_empty() { Ok(()) } else { self.write(|it| rows::mark(it, &used, hour)) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.mark_unless_busy();
    }
}

/// Uses are kept by the hour.
pub(super) const HOUR: u64 = 3600;

/// The hour that a time is in, counted from 1970.
pub(super) fn hour_of(time: SystemTime) -> i64 {
    (time.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()) / HOUR) as i64
}

impl EmbeddingStore for Store {
    fn get(&self, model: &ModelKey, keys: &[Key]) -> Result<Vec<Option<Vec<f16>>>, StoreError> {
        let hour = self.hour();
        let found = self.run(|it| rows::get(it, model, keys, hour))?;
        self.damaged.fetch_add(found.damaged, Ordering::Relaxed);
        if !found.stale.is_empty() && !self.is_read_only() {
            lock(&self.used).extend(found.stale);
            self.mark_unless_busy();
            if lock(&self.used).len() > MOST_UNMARKED {
                // The vectors were read; that they may be evicted too early is no reason to withhold them.
                let _ = self.mark();
            }
        }
        Ok(found.vectors)
    }

    fn put(&self, model: &ModelKey, items: &[(Key, &[f16])]) -> Result<(), StoreError> {
        check_dimensions(model, items)?;
        if items.is_empty() {
            return Ok(());
        }
        let hour = self.hour();
        let mut used = std::mem::take(&mut *lock(&self.used));
        for batch in items.chunks(BATCH) {
            if let Err(error) = self.write(|it| rows::put(it, model, batch, &used, hour)) {
                lock(&self.used).extend(used);
                return Err(error);
            }
            used.clear();
        }
        Ok(())
    }
}
