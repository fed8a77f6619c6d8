//! F1: what the embedding store holds, and making it smaller. Knows nothing of who sets its limit.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, TransactionBehavior};

use super::file::number;
use super::sqlite::{HOUR, Store, hour_of};
use super::{StoreError, rows};

/// Vectors that are removed in one transaction.
const BATCH: usize = 1000;
/// Vectors that are chosen in one reading of the table; each takes some 60 bytes until it is removed.
const CHOSEN: u64 = 100_000;
/// What took longer has waited for others itself.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Pages that are given back in one transaction.
const PAGES: u32 = 1000;

/// What a store holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStats {
    pub models: Vec<ModelStats>,
    /// Bytes of the file in use. The rest is free for new vectors.
    pub live_bytes: u64,
    /// Bytes of the file on disk, with its log.
    pub file_bytes: u64,
    /// Bytes of damaged files that are kept beside it.
    pub set_aside_bytes: u64,
    /// Vectors found damaged since the store was opened.
    pub damaged: u64,
}

/// What a store holds of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStats {
    pub fingerprint: String,
    pub id: String,
    pub dimensions: usize,
    pub vectors: u64,
    /// Bytes of the vectors, without what the file needs to find them.
    pub bytes: u64,
    /// The beginning of the hour in which the vector that was not used for longest was used last.
    pub oldest_use: SystemTime,
    /// The beginning of the hour in which a vector was used last.
    pub newest_use: SystemTime,
}

/// What was removed from a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    pub vectors: u64,
    /// Bytes that were given back to the disk.
    pub bytes: u64,
}

impl Store {
    /// What the store holds. Reads the table of keys.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        let (models, live_bytes) = self.run(|it| Ok((models(it)?, live_bytes(it)?)))?;
        let (file_bytes, set_aside_bytes) = self.file.bytes();
        Ok(StoreStats { models, live_bytes, file_bytes, set_aside_bytes, damaged: self.damaged() })
    }

    /// Removes the vectors that were not used for longest until what is left of the file takes `to_bytes`, and gives the
    /// room back to the disk. What was used since a moment stays, even if the store remains larger; so does what was used
    /// earlier in that hour.
    ///
    /// Other processes can write between batches.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn evict(&self, to_bytes: u64, used_since: SystemTime) -> Result<Removed, StoreError> {
        self.mark()?;
        self.shrink(|| {
            let mut vectors = 0;
            loop {
                let wanted = self.run(|it| excess(it, to_bytes))?;
                let chosen = self.run(|it| oldest(it, hour_of(used_since), wanted.min(CHOSEN)))?;
                let removed = self.remove(&chosen)?;
                vectors += removed;
                if removed == 0 {
                    return Ok(vectors);
                }
            }
        })
    }

    /// Removes all vectors of a model, and gives the room back to the disk.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn remove_model(&self, fingerprint: &str) -> Result<Removed, StoreError> {
        self.shrink(|| {
            let mut vectors = 0;
            loop {
                let chosen = self.run(|it| of_model(it, fingerprint))?;
                if chosen.is_empty() {
                    self.write(|it| remove_empty(it, fingerprint))?;
                    return Ok(vectors);
                }
                vectors += self.remove(&chosen)?;
            }
        })
    }

    /// Removes vectors, then gives back the pages that are free.
    fn shrink(&self, remove: impl Fn() -> Result<u64, StoreError>) -> Result<Removed, StoreError> {
        self.file.writable()?;
        let before = self.file.bytes().0;
        let vectors = remove()?;
        while self.in_turn(give_back)? {}
        self.write(|it| it.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())))?;
        Ok(Removed { vectors, bytes: before.saturating_sub(self.file.bytes().0) })
    }

    /// Removes what was chosen, unless it has been used since.
    fn remove(&self, chosen: &[Chosen]) -> Result<u64, StoreError> {
        chosen.chunks(BATCH).map(|batch| self.in_turn(|it| remove(it, batch))).sum()
    }

    /// Does something that writes, then leaves the file to others for about as long as it took: a waiting process only looks
    /// now and then whether it is free.
    fn in_turn<T>(&self, work: impl Fn(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let begun = Instant::now();
        let done = self.write(work)?;
        thread::sleep(begun.elapsed().min(LONGEST_PAUSE));
        Ok(done)
    }
}

fn models(connection: &mut Connection) -> rusqlite::Result<Vec<ModelStats>> {
    let mut select = connection.prepare(
        "select m.fingerprint, m.name, m.dimensions, count(*), min(e.used), max(e.used)
         from entries e join models m on m.id = e.model group by m.id order by max(e.used) desc, m.fingerprint",
    )?;
    let rows = select.query_map([], |row| {
        let (dimensions, vectors) = (row.get::<_, i64>(2)?.max(0) as usize, row.get::<_, i64>(3)?.max(0) as u64);
        Ok(ModelStats {
            fingerprint: row.get(0)?,
            id: row.get(1)?,
            dimensions,
            vectors,
            bytes: vectors.saturating_mul(rows::stored_bytes(dimensions) as u64),
            oldest_use: time_of(row.get(4)?),
            newest_use: time_of(row.get(5)?),
        })
    })?;
    rows.collect()
}

/// The beginning of an hour; 1970 for one that is no hour.
fn time_of(hour: i64) -> SystemTime {
    let seconds = u64::try_from(hour).ok().and_then(|it| it.checked_mul(HOUR)).unwrap_or_default();
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH)
}

/// Bytes of the pages that hold something.
fn live_bytes(connection: &mut Connection) -> rusqlite::Result<u64> {
    let pages = number(connection, "page_count")?.saturating_sub(number(connection, "freelist_count")?);
    Ok(pages.saturating_mul(number(connection, "page_size")?).max(0) as u64)
}

/// How many vectors have to go for the file to take so many bytes, by what one takes on average. A few more than that: a page is
/// free only when its last vector has gone, and each choice reads the table of keys.
fn excess(connection: &mut Connection, to_bytes: u64) -> rusqlite::Result<u64> {
    let live = live_bytes(connection)?;
    if live <= to_bytes {
        return Ok(0);
    }
    let vectors = connection.query_row("select count(*) from entries", [], |it| it.get::<_, i64>(0))?.max(0) as u64;
    let each = live / vectors.max(1) + 1;
    Ok(((live - to_bytes).div_ceil(each) + 64).min(vectors))
}

/// A vector that is to go, as it was when it was chosen.
struct Chosen {
    model: i64,
    key: Vec<u8>,
    vector: i64,
    used: i64,
}

fn chosen(row: &rusqlite::Row<'_>) -> rusqlite::Result<Chosen> {
    Ok(Chosen { model: row.get(0)?, key: row.get(1)?, vector: row.get(2)?, used: row.get(3)? })
}

/// What was used before an hour, the oldest first. Within an hour in the order of writing, so that whole pages become free.
fn oldest(connection: &mut Connection, before: i64, limit: u64) -> rusqlite::Result<Vec<Chosen>> {
    let mut select = connection
        .prepare("select model, key, vector, used from entries where used < ?1 order by used, vector limit ?2")?;
    select.query_map((before, limit as i64), chosen)?.collect()
}

fn of_model(connection: &mut Connection, fingerprint: &str) -> rusqlite::Result<Vec<Chosen>> {
    let mut select = connection.prepare(
        "select model, key, vector, used from entries where model = (select id from models where fingerprint = ?1) limit ?2",
    )?;
    select.query_map((fingerprint, CHOSEN as i64), chosen)?.collect()
}

fn remove(connection: &mut Connection, chosen: &[Chosen]) -> rusqlite::Result<u64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut removed = 0;
    {
        let mut leave =
            transaction.prepare("delete from entries where model = ?1 and key = ?2 and vector = ?3 and used = ?4")?;
        let mut erase = transaction.prepare("delete from vectors where id = ?1")?;
        for it in chosen {
            if leave.execute((it.model, &it.key, it.vector, it.used))? > 0 {
                erase.execute([it.vector])?;
                removed += 1;
            }
        }
    }
    transaction.commit()?;
    Ok(removed)
}

fn remove_empty(connection: &mut Connection, fingerprint: &str) -> rusqlite::Result<()> {
    let sql =
        "delete from models where fingerprint = ?1 and not exists (select 1 from entries where model = models.id)";
    connection.execute(sql, [fingerprint]).map(drop)
}

/// Gives some free pages back to the disk; whether that worked and more are left.
fn give_back(connection: &mut Connection) -> rusqlite::Result<bool> {
    let before = number(connection, "freelist_count")?;
    let mut vacuum = connection.prepare(&format!("pragma incremental_vacuum({PAGES})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    let left = number(connection, "freelist_count")?;
    Ok(0 < left && left < before)
}
