//! The store: every transfer, and what the transfers add up to, in one SQLite file.
//!
//! `transfer` has a narrow row for each record, with what one asks by; `detail` has the whole
//! record in the form of [`compact`](crate::transfer::compact); `rollup` has the tallies, made in
//! the same transaction as the rows; `word` has the names of hosts and users once each; `segment`
//! says how far each file of the journal was read. No statistic replaces a record.
//!
//! A record is known by its `record_id`: one that comes again, from a journal that is read again
//! after a crash, changes nothing. The place in the journal is written in the transaction of what
//! was read, so whatever a crash takes from the store is read from the journal once more.
//!
//! A store of schema 1 has roll-ups in which the fastest transfer may be one of no time to speak of;
//! they are made again from the rows when it is opened to be written.
//!
//! Numbers above 2^63 are kept as SQLite has them, negative. Files are the only thing here that
//! goes beyond the memory: no network and no clock.

mod append;
mod import;
mod query;
mod rollup;

pub use append::Appended;
pub use import::Imported;
pub use query::{Axis, Filter, Key, Moved, Source, Subset};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The schema of the store that this version writes, as SQLite's user version.
pub const STORE_SCHEMA: i64 = 2;
/// "plmb", as SQLite's application id.
const APPLICATION_ID: i64 = 0x706c_6d62;
/// How long one process waits for another that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Pages in memory, as SQLite counts: negative is KiB.
const CACHE_KIB: i64 = -65_536;
/// The log is brought into the file when it has so many pages, 64 MiB: a batch alone has thousands,
/// and a page that several of them changed is written once.
const LOG_PAGES: i64 = 16_384;

const TABLES: &str = "
    CREATE TABLE word(id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);
    CREATE TABLE transfer(
        id INTEGER PRIMARY KEY, record_id BLOB NOT NULL UNIQUE, start_unix_ns INTEGER,
        host INTEGER NOT NULL, user INTEGER NOT NULL, role INTEGER NOT NULL,
        command INTEGER NOT NULL, representation INTEGER NOT NULL, byte_size INTEGER NOT NULL,
        outcome INTEGER NOT NULL, bits INTEGER, real_ns INTEGER, cpu_ns INTEGER,
        limited INTEGER NOT NULL);
    CREATE INDEX transfer_start ON transfer(start_unix_ns);
    CREATE TABLE detail(id INTEGER PRIMARY KEY, record BLOB NOT NULL);
    CREATE TABLE rollup(view INTEGER, key BLOB, tally BLOB NOT NULL, PRIMARY KEY(view, key))
        WITHOUT ROWID;
    CREATE TABLE segment(number INTEGER PRIMARY KEY, head BLOB NOT NULL, end INTEGER NOT NULL);";

/// Why the store cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// The file is there and is no store of transfers.
    NotAStore,
    /// A later version has made it.
    LaterSchema(i64),
    /// It may not be read or not be written.
    NotPermitted,
    /// There is no such store, or no folder for it.
    NotThere,
    /// Another process writes to it for too long.
    Busy,
    /// A tally or a record in it cannot be read.
    Damaged,
    /// The journal cannot be read.
    Journal(std::io::Error),
    /// What SQLite says otherwise.
    Sqlite(rusqlite::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAStore => f.write_str("it is no store of transfers"),
            Self::LaterSchema(found) => {
                write!(f, "it has schema {found}, and this version knows up to {STORE_SCHEMA}")
            }
            Self::NotPermitted => f.write_str("permission denied"),
            Self::NotThere => f.write_str("no such file or folder"),
            Self::Busy => f.write_str("another process writes to it and does not end"),
            Self::Damaged => f.write_str("it is damaged"),
            Self::Journal(error) => write!(f, "its journal cannot be read: {error}"),
            Self::Sqlite(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotAStore,
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged,
            Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => Self::NotPermitted,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            _ => Self::Sqlite(error),
        }
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> Self {
        Self::Journal(error)
    }
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    /// Words that were looked up, and their numbers.
    words: BTreeMap<Vec<u8>, u32>,
}

impl Store {
    /// Opens the store at `path` to read and to write, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// If it cannot be opened or made, is no store, or is one of a later version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(|error| {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            why_not_open(error, folder.unwrap_or(Path::new(".")))
        })?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let mut store = Self { connection, words: BTreeMap::new() };
        if store.is_new()? {
            store.make()?;
        }
        if store.check()? < STORE_SCHEMA {
            store.renew()?;
        }
        store.connection.pragma_update(None, "synchronous", "NORMAL")?;
        store.connection.pragma_update(None, "cache_size", CACHE_KIB)?;
        store.connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        store.connection.set_prepared_statement_cache_capacity(32);
        Ok(store)
    }

    /// Opens the store at `path` to read alone, in a folder in which nothing may be written too.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, is no store, or is one of a later version.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let is_open = path.with_extension("sqlite-wal").exists();
        let name = percent_encoded(path.as_os_str().as_encoded_bytes());
        // Without its log nobody writes to it now, and SQLite need not make files beside it.
        let rest = if is_open { "mode=ro" } else { "mode=ro&immutable=1" };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(format!("file:{name}?{rest}"), flags)
            .map_err(|error| why_not_open(error, path))?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let store = Self { connection, words: BTreeMap::new() };
        store.check()?;
        Ok(store)
    }

    fn is_new(&self) -> Result<bool, StoreError> {
        let count = "SELECT count(*) FROM sqlite_schema";
        Ok(self.connection.query_row(count, [], |row| row.get::<_, i64>(0))? == 0)
    }

    fn make(&mut self) -> Result<(), StoreError> {
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let count = "SELECT count(*) FROM sqlite_schema";
        // Another process may have made it in the meantime.
        if transaction.query_row(count, [], |row| row.get::<_, i64>(0))? == 0 {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", STORE_SCHEMA)?;
        }
        Ok(transaction.commit()?)
    }

    /// Makes the roll-ups of an earlier schema again.
    fn renew(&mut self) -> Result<(), StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        append::roll_up_again(&transaction)?;
        transaction.pragma_update(None, "user_version", STORE_SCHEMA)?;
        Ok(transaction.commit()?)
    }

    /// Returns the schema of the store.
    fn check(&self) -> Result<i64, StoreError> {
        let number =
            |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        if number("application_id")? != APPLICATION_ID {
            return Err(StoreError::NotAStore);
        }
        match number("user_version")? {
            found if found > STORE_SCHEMA => Err(StoreError::LaterSchema(found)),
            found => Ok(found),
        }
    }
}

/// Returns a path as it stands in a URI.
fn percent_encoded(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        match byte {
            b'/' | b'.' | b'-' | b'_' => text.push(char::from(*byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            // Writing to a String cannot fail.
            _ => _ = write!(text, "%{byte:02x}"),
        }
    }
    text
}

/// Returns why SQLite, which says only that it cannot open a file, cannot open what needs `place`.
fn why_not_open(error: rusqlite::Error, place: &Path) -> StoreError {
    if error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return error.into();
    }
    match std::fs::metadata(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => StoreError::NotThere,
        _ => StoreError::NotPermitted,
    }
}

#[cfg(test)]
mod tests;
