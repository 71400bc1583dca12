//! The store: every transfer, and the totals of the transfers, in one SQLite file.
//!
//! The tables are:
//!
//! - `transfer` has a narrow row for each record, with the columns that queries filter by;
//! - `detail` has the complete record in the format of [`compact`](crate::transfer::compact);
//! - `rollup` has the aggregates, updated in the same transaction as the rows;
//! - `word` has each name of a host or a user once;
//! - `segment` has the read offset of each journal file.
//!
//! Records are kept even after they are included in the aggregates.
//!
//! A record is identified by its `record_id`: a duplicate, from a journal that is read again after
//! a crash, changes nothing. The journal offset is committed in the transaction of the records read
//! up to it, so anything that a crash loses is read from the journal again.
//!
//! In a store of schema 1, the fastest transfer of a roll-up may be a transfer of negligible
//! duration. When such a store is opened for writing, its roll-ups are rebuilt from the rows.
//!
//! Numbers above 2^63 are stored as negative SQLite integers. File access is the only I/O of this
//! module; it uses no network and no clock.

mod append;
mod import;
mod query;
mod rollup;

pub use append::Appended;
pub use import::Imported;
pub use query::{DivisionAxis, Filter, Key, Source, Subset, TransferContent};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Schema that this version writes, stored as SQLite's user version.
pub const STORE_SCHEMA: i64 = 2;
/// "plmb", stored as SQLite's application ID.
const APPLICATION_ID: i64 = 0x706c_6d62;
/// Maximum time to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Page cache size in SQLite's notation: a negative number is KiB.
const CACHE_KIB: i64 = -65_536;
/// Number of pages (64 MiB) at which the write-ahead log is checkpointed. Each batch adds thousands
/// of pages. With a large log, a page that several batches change is written to the store once.
const CHECKPOINT_PAGES: i64 = 16_384;

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

/// Reason why the store cannot be used.
#[derive(Debug)]
pub enum StoreError {
    /// The file exists but is not a store of transfers.
    NotAStore,
    /// A later version of this program created the store.
    LaterSchema(i64),
    /// Permission to read or write the store is missing.
    NotPermitted,
    /// The store, or the directory for it, does not exist.
    NotFound,
    /// Another process held the write lock for too long.
    Busy,
    /// An aggregate or a record in the store cannot be decoded.
    Damaged,
    /// The journal cannot be read.
    Journal(std::io::Error),
    /// Any other SQLite error.
    Sqlite(rusqlite::Error),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAStore => f.write_str("the file is not a store of transfers"),
            Self::LaterSchema(found) => {
                write!(f, "its schema is {found}; this version reads schemas up to {STORE_SCHEMA}")
            }
            Self::NotPermitted => f.write_str("permission denied"),
            Self::NotFound => f.write_str("no such file or directory"),
            Self::Busy => f.write_str("another process holds the write lock"),
            Self::Damaged => f.write_str("an entry of the store is damaged"),
            Self::Journal(error) => write!(f, "the journal cannot be read: {error}"),
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
    /// Cache of host and user names and their numbers.
    strings: BTreeMap<Vec<u8>, u32>,
}

impl Store {
    /// Opens the store at `path` for reading and writing, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be opened or created, is not a store of transfers, or
    /// was created by a later version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(|error| {
            let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
            open_error(error, directory.unwrap_or(Path::new(".")))
        })?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let mut store = Self { connection, strings: BTreeMap::new() };
        if store.is_new()? {
            store.create()?;
        }
        if store.check_schema()? < STORE_SCHEMA {
            store.upgrade()?;
        }
        store.connection.pragma_update(None, "synchronous", "NORMAL")?;
        store.connection.pragma_update(None, "cache_size", CACHE_KIB)?;
        store.connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        store.connection.set_prepared_statement_cache_capacity(32);
        Ok(store)
    }

    /// Opens the store at `path` read-only, even in a directory without write permission.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be opened, is not a store of transfers, or was created
    /// by a later version.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        let is_open = path.with_extension("sqlite-wal").exists();
        let name = percent_encoded(path.as_os_str().as_encoded_bytes());
        // Without a write-ahead log no process is writing, and SQLite need not create files beside
        // it.
        let rest = if is_open { "mode=ro" } else { "mode=ro&immutable=1" };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(format!("file:{name}?{rest}"), flags)
            .map_err(|error| open_error(error, path))?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let store = Self { connection, strings: BTreeMap::new() };
        store.check_schema()?;
        Ok(store)
    }

    fn is_new(&self) -> Result<bool, StoreError> {
        let count = "SELECT count(*) FROM sqlite_schema";
        Ok(self.connection.query_row(count, [], |row| row.get::<_, i64>(0))? == 0)
    }

    fn create(&mut self) -> Result<(), StoreError> {
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let count = "SELECT count(*) FROM sqlite_schema";
        // Another process may have created the tables in the meantime.
        if transaction.query_row(count, [], |row| row.get::<_, i64>(0))? == 0 {
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", STORE_SCHEMA)?;
        }
        Ok(transaction.commit()?)
    }

    /// Rebuilds the roll-ups of an earlier schema.
    fn upgrade(&mut self) -> Result<(), StoreError> {
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        append::rebuild_rollups(&transaction)?;
        transaction.pragma_update(None, "user_version", STORE_SCHEMA)?;
        Ok(transaction.commit()?)
    }

    /// Returns the schema of the store.
    fn check_schema(&self) -> Result<i64, StoreError> {
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

/// Percent-encodes a path for a URI.
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

/// Maps SQLite's "cannot open" to a more specific error, from the state of the file or directory
/// `path`.
fn open_error(error: rusqlite::Error, path: &Path) -> StoreError {
    if error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return error.into();
    }
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => StoreError::NotFound,
        _ => StoreError::NotPermitted,
    }
}

#[cfg(test)]
mod tests;
