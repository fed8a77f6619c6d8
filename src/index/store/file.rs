//! F1: the file of the embedding store: how it is opened, shared, set aside when damaged, and what SQLite's errors mean for it.
//! Knows nothing of what its rows mean.
//!
//! The file's name carries a number, and the highest number counts. A damaged file is set aside by beginning the next one, never
//! by renaming it: a process that still has it open would remove the files beside its name when it ends, and those would be the
//! new store's by then.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};

use super::StoreError;
use super::rows::SCHEMA;
use crate::fsio;

/// Marks a file as an embedding store (`SLev`).
const APPLICATION: i64 = 0x534c_6576;
/// The version of the tables.
const FORMAT: i64 = 1;
/// The format's number stands twice in the header, which has no checksum, so that a flipped bit does not make another format.
const TWICE: i64 = 0x1_0001;
/// How long a writer waits for other processes. A batch is written in milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that are kept open. Each may hold as much memory as its cache.
const MOST_IDLE: usize = 4;

/// Settings of a connection. `mmap_size` is 0 since a file that is cut while it is mapped ends the process with SIGBUS. Commits
/// are synced.
const SETTINGS: &str = "
    pragma mmap_size = 0; pragma synchronous = full; pragma cache_size = -16384;
    pragma temp_store = memory; pragma trusted_schema = off; pragma cell_size_check = on;
    pragma journal_size_limit = 16777216;";

/// A damaged store that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The damaged file. It is kept until the next one is damaged.
    pub path: PathBuf,
    /// The file that was begun.
    pub by: PathBuf,
    /// What was wrong.
    pub what: String,
}

/// Connections to the current file.
pub struct StoreFile {
    directory: PathBuf,
    /// Why the file can only be read.
    read_only: Option<String>,
    current: Mutex<Current>,
}

struct Current {
    number: u32,
    idle: Vec<Connection>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreFile {
    /// Opens the store of a folder, or begins one; only for reading if it can't be written.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let directory = absolute(directory)?;
        let made = fsio::create_private_directory(&directory);
        if let (Err(error), false) = (&made, directory.is_dir()) {
            return Self::of_missing(directory, error);
        }
        let number = latest(&directory)?.unwrap_or(1);
        let path = path_of(&directory, number);
        match connect(&path) {
            Ok(connection) => Ok(Self::new(directory, None, number, vec![connection])),
            Err(error) => match reason_to_only_read(&error).filter(|_| path.exists() || is_refused(&error)) {
                Some(reason) => Self::open_for_reading(directory, reason),
                None => Err(error),
            },
        }
    }

    /// A folder that can't be made because nothing may be written there is an empty store.
    fn of_missing(directory: PathBuf, error: &io::Error) -> Result<Self, StoreError> {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::open_for_reading(directory, "its folder can't be made".to_owned())
            }
            _ => Err(StoreError::Unreadable { path: directory, message: error.to_string() }),
        }
    }

    /// Opens the store of a folder and never writes to it.
    pub fn open_read_only(directory: &Path) -> Result<Self, StoreError> {
        Self::open_for_reading(absolute(directory)?, "it was opened for reading".to_owned())
    }

    fn open_for_reading(directory: PathBuf, reason: String) -> Result<Self, StoreError> {
        let number = latest(&directory)?.unwrap_or(1);
        let file = Self::new(directory, Some(reason), number, Vec::new());
        file.with(|_| Ok(()))?;
        Ok(file)
    }

    fn new(directory: PathBuf, read_only: Option<String>, number: u32, idle: Vec<Connection>) -> Self {
        StoreFile { directory, read_only, current: Mutex::new(Current { number, idle }) }
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only.is_some()
    }

    /// An error unless the file can be written.
    pub fn writable(&self) -> Result<(), StoreError> {
        match &self.read_only {
            None => Ok(()),
            Some(reason) => Err(StoreError::ReadOnly { path: self.path(), reason: reason.clone() }),
        }
    }

    pub fn path(&self) -> PathBuf {
        path_of(&self.directory, lock(&self.current).number)
    }

    /// Bytes on the disk of the current file with its log, and of those set aside.
    pub fn bytes(&self) -> (u64, u64) {
        let number = lock(&self.current).number;
        let older = numbers(&self.directory).unwrap_or_default().into_iter().filter(|it| *it < number);
        (bytes_of(&self.directory, number), older.map(|it| bytes_of(&self.directory, it)).sum())
    }

    /// Does something on a connection of its own. After an error the connection is not used again.
    pub fn with<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let (number, idle) = self.take();
        let path = path_of(&self.directory, number);
        let mut connection = match idle {
            Some(idle) => idle,
            None if self.is_read_only() => connect_for_reading(&path)?,
            None => connect(&path)?,
        };
        let done = work(&mut connection).map_err(|it| meaning(&path, &it))?;
        self.give_back(number, connection);
        Ok(done)
    }

    /// The number of the current file and a connection to it. Another process may have begun the next file.
    fn take(&self) -> (u32, Option<Connection>) {
        let mut current = lock(&self.current);
        let latest = latest(&self.directory).ok().flatten().unwrap_or(0);
        if latest > current.number {
            *current = Current { number: latest, idle: Vec::new() };
        }
        (current.number, current.idle.pop())
    }

    /// A connection for reading is opened anew each time: whether there is a log beside the file decides how.
    fn give_back(&self, number: u32, connection: Connection) {
        let mut current = lock(&self.current);
        if current.number == number && !self.is_read_only() && current.idle.len() < MOST_IDLE {
            current.idle.push(connection);
        }
    }

    /// Begins a new file because the current one is damaged, unless somebody has already, and forgets those before it.
    pub fn replace(&self, damage: &StoreError) -> Result<Replaced, StoreError> {
        self.writable()?;
        let StoreError::Damaged { path, what } = damage else { return Err(damage.clone()) };
        let damaged = number_of(path).unwrap_or(1);
        let mut current = lock(&self.current);
        if current.number <= damaged {
            let connection = connect(&path_of(&self.directory, damaged + 1))?;
            *current = Current { number: damaged + 1, idle: vec![connection] };
        }
        numbers(&self.directory)?.into_iter().filter(|it| *it < damaged).for_each(|it| remove(&self.directory, it));
        Ok(Replaced { path: path.clone(), by: path_of(&self.directory, current.number), what: what.clone() })
    }

    /// A file that opens, after the damaged one of the folder was set aside.
    pub fn open_or_replace(directory: &Path) -> Result<(Self, Option<Replaced>), StoreError> {
        match Self::open(directory) {
            Err(damage @ StoreError::Damaged { .. }) => {
                let number = latest(directory)?.unwrap_or(1);
                let file = Self::new(absolute(directory)?, None, number, Vec::new());
                let replaced = file.replace(&damage)?;
                Ok((file, Some(replaced)))
            }
            opened => Ok((opened?, None)),
        }
    }
}

const PREFIX: &str = "embeddings-";
const SUFFIX: &str = ".sqlite";
/// What SQLite keeps beside a file: its log and the log's index.
const BESIDE: [&str; 2] = ["-wal", "-shm"];

fn path_of(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{PREFIX}{number}{SUFFIX}"))
}

fn number_of(path: &Path) -> Option<u32> {
    let number = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok();
    number.filter(|it| *it < MOST_FILES)
}

/// Nothing here makes so many: a file with a larger number is somebody else's.
const MOST_FILES: u32 = 1_000_000;

fn numbers(directory: &Path) -> Result<Vec<u32>, StoreError> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.flatten().filter_map(|it| number_of(&it.path())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::Unreadable { path: directory.into(), message: error.to_string() }),
    }
}

fn latest(directory: &Path) -> Result<Option<u32>, StoreError> {
    Ok(numbers(directory)?.into_iter().max())
}

pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn bytes_of(directory: &Path, number: u32) -> u64 {
    let path = path_of(directory, number);
    let files = BESIDE.iter().map(|it| beside(&path, it)).chain([path.clone()]);
    files.filter_map(|it| fs::metadata(it).ok()).map(|it| it.len()).sum()
}

/// Removes a file that was set aside. One that stays costs room and nothing else.
fn remove(directory: &Path, number: u32) {
    let path = path_of(directory, number);
    BESIDE.iter().map(|it| beside(&path, it)).chain([path.clone()]).for_each(|it| drop(fs::remove_file(it)));
}

/// SQLite would look for a relative path wherever the process is then.
fn absolute(directory: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(directory)
        .map_err(|error| StoreError::Unreadable { path: directory.into(), message: error.to_string() })
}

/// A connection for reading and writing. Processes that begin a file at the same moment wait for each other here: changing the
/// journal's mode does not wait by itself.
fn connect(path: &Path) -> Result<Connection, StoreError> {
    let begun = Instant::now();
    loop {
        match connect_once(path) {
            Err(StoreError::Busy { .. }) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

fn connect_once(path: &Path) -> Result<Connection, StoreError> {
    let failed = |error: rusqlite::Error| meaning(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    check_header(path)?;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    // SQLite opens a file that may not be written for reading, and says nothing.
    if connection.is_readonly("main").map_err(failed)? {
        return Err(StoreError::ReadOnly { path: path.into(), reason: "the file may not be written".to_owned() });
    }
    connection.execute_batch(SETTINGS).map_err(failed)?;
    if check_format(path, &connection)? {
        begin(&mut connection).map_err(failed)?;
    }
    Ok(connection)
}

/// Makes the tables of a new file. `auto_vacuum` counts only before the first page is written.
fn begin(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.execute_batch("pragma auto_vacuum = incremental; pragma journal_mode = wal")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    transaction
        .execute_batch(&format!("pragma application_id = {APPLICATION}; pragma user_version = {}", FORMAT * TWICE))?;
    transaction.commit()
}

/// SQLite takes a file whose header names an unknown version for one that it may only read; no program wrote such a header here.
fn check_header(path: &Path) -> Result<(), StoreError> {
    let mut header = [0; 20];
    let read = fs::File::open(path).and_then(|mut it| it.read_exact(&mut header));
    // Whatever else is wrong with the file shows when SQLite opens it.
    let is_database = read.is_ok() && header.starts_with(b"SQLite format 3");
    if is_database && header[18..].iter().any(|it| !matches!(it, 1 | 2)) {
        return Err(StoreError::Damaged { path: path.into(), what: "its header names no known version".to_owned() });
    }
    Ok(())
}

/// The number that a setting has.
pub fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("pragma {pragma}"), [], |it| it.get(0))
}

/// Refuses a file that is not a store of this format. Whether it is a new one: it has no tables.
fn check_format(path: &Path, connection: &Connection) -> Result<bool, StoreError> {
    let failed = |error: rusqlite::Error| meaning(path, &error);
    const THIS: i64 = FORMAT * TWICE;
    // In one statement, so that another process can't begin the file in between.
    let (application, version, tables): (i64, i64, i64) = connection
        .query_row(
            "select a.application_id, u.user_version, (select count(*) from sqlite_schema where type = 'table')
             from pragma_application_id a, pragma_user_version u",
            [],
            |it| Ok((it.get(0)?, it.get(1)?, it.get(2)?)),
        )
        .map_err(failed)?;
    let damaged = |what: &str| Err(StoreError::Damaged { path: path.into(), what: what.to_owned() });
    match (application, version, tables) {
        (0, 0, 0) => Ok(true),
        (APPLICATION, THIS, 3) => Ok(false),
        (APPLICATION, THIS, _) => damaged("it lacks tables"),
        (APPLICATION, ..) if version > 0 && version % TWICE == 0 => {
            Err(StoreError::OtherFormat { path: path.into(), found: version / TWICE, expected: FORMAT })
        }
        _ => damaged("it is no embedding store"),
    }
}

/// A connection that writes nothing. SQLite reads a file with a log only by the log's index, which it may have to write; without
/// a log the file is read as one that doesn't change. Should it change all the same, the vectors' checksums tell.
fn connect_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let failed = |error: rusqlite::Error| meaning(path, &error);
    if !path.try_exists().map_err(|it| StoreError::Unreadable { path: path.into(), message: it.to_string() })? {
        return empty().map_err(failed);
    }
    let has_log = fs::metadata(beside(path, "-wal")).is_ok_and(|it| it.len() > 0);
    let connection = match open_for_reading(path, has_log) {
        Err(error) if has_log && reason_to_only_read(&meaning(path, &error)).is_some() => open_for_reading(path, false),
        opened => opened,
    };
    let connection = connection.map_err(failed)?;
    if check_format(path, &connection)? { empty().map_err(failed) } else { Ok(connection) }
}

fn open_for_reading(path: &Path, changes: bool) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri(path, !changes), flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.execute_batch(SETTINGS)?;
    number(&connection, "schema_version")?;
    Ok(connection)
}

/// What is read where no store is.
fn empty() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// The only way to tell SQLite that a file doesn't change.
fn uri(path: &Path, immutable: bool) -> PathBuf {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str(if immutable { "?immutable=1" } else { "" });
    uri.into()
}

/// What an error of SQLite means for the store. Our statements are right, so that one which can't be prepared, or breaks a
/// constraint, has met tables that were not written by us.
fn meaning(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return StoreError::Damaged { path, what: error.to_string() };
    };
    let message = error.to_string();
    match code.code {
        ErrorCode::DiskFull => StoreError::Full { path },
        // The log's index can't grow.
        _ if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::Full { path },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { path, seconds: PATIENCE.as_secs() },
        ErrorCode::ReadOnly => StoreError::ReadOnly { path, reason: "the file may not be written".to_owned() },
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => {
            StoreError::Unreadable { path, message }
        }
        ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::ConstraintViolation
        | ErrorCode::TypeMismatch
        | ErrorCode::Unknown => StoreError::Damaged { path, what: message },
        _ => StoreError::Failed { path, message },
    }
}

/// Whether a file that can't be opened for writing may yet be read, and what to say of it.
fn reason_to_only_read(error: &StoreError) -> Option<String> {
    match error {
        StoreError::ReadOnly { reason, .. } => Some(reason.clone()),
        StoreError::Unreadable { message, .. } => Some(message.clone()),
        StoreError::Full { .. } => Some("there is no room on the disk".to_owned()),
        _ => None,
    }
}

fn is_refused(error: &StoreError) -> bool {
    matches!(error, StoreError::ReadOnly { .. } | StoreError::Unreadable { .. })
}
