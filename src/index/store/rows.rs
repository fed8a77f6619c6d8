//! F1: the tables of the embedding store and what is read and written in them. Knows nothing of files, processes or clocks.
//!
//! Keys and vectors lie in two tables: a key's row is small, so that looking for keys, marking them as used and choosing what to
//! evict touch few pages, and vectors are appended, which writes a third of the pages that keeping them in the order of their
//! (random) keys does.

use half::f16;
use rusqlite::{Connection, OptionalExtension, Statement, Transaction, TransactionBehavior};

use super::{Key, ModelKey};

/// `used` is the hour of the last use, counted from 1970. `vector` names a row of `vectors`.
pub const SCHEMA: &str = "
    create table if not exists models (
        id integer primary key, fingerprint text not null unique, name text not null, dimensions integer not null);
    create table if not exists entries (
        model integer not null, key blob not null, vector integer not null, used integer not null,
        primary key (model, key)) without rowid;
    create table if not exists vectors (id integer primary key, bytes blob not null);";

/// Bytes of a stored vector's checksum, which stands before its numbers.
const CHECKSUM: usize = 4;

/// Bytes that a vector takes in its row.
pub fn stored_bytes(dimensions: usize) -> usize {
    CHECKSUM + 2 * dimensions
}

/// The checksum covers whose vector it is, so that a row which a damaged page leads to by mistake is seen as well.
fn checksum(model: &ModelKey, key: &Key, numbers: &[u8]) -> [u8; CHECKSUM] {
    let mut hash = crc32fast::Hasher::new();
    hash.update(model.fingerprint.as_bytes());
    hash.update(key.as_bytes());
    hash.update(numbers);
    hash.finalize().to_le_bytes()
}

fn encode(model: &ModelKey, key: &Key, vector: &[f16], bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.resize(CHECKSUM, 0);
    vector.iter().for_each(|it| bytes.extend(it.to_le_bytes()));
    let sum = checksum(model, key, &bytes[CHECKSUM..]);
    bytes[..CHECKSUM].copy_from_slice(&sum);
}

/// The numbers of a stored vector; `None` if they are not those that were written for this key.
fn decode<'a>(model: &ModelKey, key: &Key, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, numbers) = bytes.split_at_checked(CHECKSUM)?;
    (numbers.len() == 2 * model.dimensions && sum == checksum(model, key, numbers)).then_some(numbers)
}

fn numbers(bytes: &[u8]) -> Vec<f16> {
    bytes.chunks_exact(2).map(|it| f16::from_le_bytes([it[0], it[1]])).collect()
}

/// An entry of a model as the tables name it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub model: i64,
    pub key: Key,
}

/// What `get` finds.
pub struct Found {
    pub vectors: Vec<Option<Vec<f16>>>,
    /// Entries whose last use is not this hour.
    pub stale: Vec<Entry>,
    /// Vectors that are not what was written.
    pub damaged: u64,
}

fn model_row(connection: &Connection, fingerprint: &str) -> rusqlite::Result<Option<i64>> {
    connection.query_row("select id from models where fingerprint = ?1", [fingerprint], |it| it.get(0)).optional()
}

/// The vectors of some keys, all as they were at one moment.
pub fn get(connection: &mut Connection, model: &ModelKey, keys: &[Key], hour: i64) -> rusqlite::Result<Found> {
    let transaction = connection.transaction()?;
    let mut found = Found { vectors: vec![None; keys.len()], stale: Vec::new(), damaged: 0 };
    if let Some(row) = model_row(&transaction, &model.fingerprint)? {
        let mut places = find(&transaction, row, keys)?;
        found.stale =
            places.iter().filter(|it| it.used != hour).map(|it| Entry { model: row, key: keys[it.at] }).collect();
        // Neighbours on disk one after the other.
        places.sort_unstable_by_key(|it| it.vector);
        read(&transaction, model, keys, &places, &mut found)?;
    }
    transaction.commit()?;
    Ok(found)
}

/// Where a key's vector is.
struct Place {
    at: usize,
    vector: i64,
    used: i64,
}

/// Looks for keys in their order in the table: neighbours share pages.
fn find(transaction: &Transaction<'_>, model: i64, keys: &[Key]) -> rusqlite::Result<Vec<Place>> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|at| keys[*at]);
    let mut select = transaction.prepare("select vector, used from entries where model = ?1 and key = ?2")?;
    let mut places = Vec::with_capacity(keys.len());
    for at in order {
        let mut rows = select.query((model, keys[at].as_bytes()))?;
        if let Some(row) = rows.next()? {
            places.push(Place { at, vector: row.get(0)?, used: row.get(1)? });
        }
    }
    Ok(places)
}

fn read(
    transaction: &Transaction<'_>,
    model: &ModelKey,
    keys: &[Key],
    places: &[Place],
    found: &mut Found,
) -> rusqlite::Result<()> {
    let mut select = transaction.prepare("select bytes from vectors where id = ?1")?;
    for place in places {
        let vector = sound(&mut select, model, &keys[place.at], place.vector, numbers)?;
        found.damaged += u64::from(vector.is_none());
        found.vectors[place.at] = vector;
    }
    Ok(())
}

/// What `take` makes of a stored vector's numbers, `None` if they are not what was written.
fn sound<T>(
    select: &mut Statement<'_>,
    model: &ModelKey,
    key: &Key,
    vector: i64,
    take: impl Fn(&[u8]) -> T,
) -> rusqlite::Result<Option<T>> {
    let mut rows = select.query([vector])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    // A column of another type is damage to this value like any other.
    Ok(row.get_ref(0)?.as_blob().ok().and_then(|it| decode(model, key, it)).map(take))
}

/// Keeps vectors and marks entries as used, in one transaction.
pub fn put(
    connection: &mut Connection,
    model: &ModelKey,
    items: &[(Key, &[f16])],
    used: &[Entry],
    hour: i64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let row = register(&transaction, model)?;
    insert(&transaction, model, row, items, hour)?;
    mark_rows(&transaction, used, hour)?;
    transaction.commit()
}

fn register(transaction: &Transaction<'_>, model: &ModelKey) -> rusqlite::Result<i64> {
    transaction.query_row(
        "insert into models (fingerprint, name, dimensions) values (?1, ?2, ?3)
         on conflict (fingerprint) do update set name = excluded.name, dimensions = excluded.dimensions returning id",
        (&model.fingerprint, &model.id, model.dimensions as i64),
        |it| it.get(0),
    )
}

fn insert(
    transaction: &Transaction<'_>,
    model: &ModelKey,
    row: i64,
    items: &[(Key, &[f16])],
    hour: i64,
) -> rusqlite::Result<()> {
    let mut find = transaction.prepare("select vector from entries where model = ?1 and key = ?2")?;
    let mut select = transaction.prepare("select bytes from vectors where id = ?1")?;
    let mut remove = transaction.prepare("delete from vectors where id = ?1")?;
    let mut append = transaction.prepare("insert into vectors (bytes) values (?1)")?;
    let mut enter =
        transaction.prepare("insert or replace into entries (model, key, vector, used) values (?1, ?2, ?3, ?4)")?;
    let mut bytes = Vec::new();
    for (key, vector) in items {
        let old: Option<i64> = find.query_row((row, key.as_bytes()), |it| it.get(0)).optional()?;
        if let Some(old) = old {
            if sound(&mut select, model, key, old, |_| ())?.is_some() {
                continue;
            }
            remove.execute([old])?;
        }
        encode(model, key, vector, &mut bytes);
        append.execute([&bytes])?;
        enter.execute((row, key.as_bytes(), transaction.last_insert_rowid(), hour))?;
    }
    Ok(())
}

/// Marks entries as used in an hour.
pub fn mark(connection: &mut Connection, used: &[Entry], hour: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    mark_rows(&transaction, used, hour)?;
    transaction.commit()
}

fn mark_rows(transaction: &Transaction<'_>, used: &[Entry], hour: i64) -> rusqlite::Result<()> {
    let mut update = transaction.prepare("update entries set used = ?3 where model = ?1 and key = ?2")?;
    for entry in used {
        update.execute((entry.model, entry.key.as_bytes(), hour))?;
    }
    Ok(())
}
