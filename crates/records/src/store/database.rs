//! The file of the store: opening it, creating its tables, and upgrading an earlier schema.

use super::rollup_table;
use super::sql_tables::{APPLICATION_ID, STORE_SCHEMA, TABLES};
use super::store_error::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Maximum time to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Page cache size in SQLite's notation: a negative number is KiB.
const CACHE_KIB: i64 = -65_536;
/// Number of pages (64 MiB) at which the write-ahead log is checkpointed. Each batch adds thousands
/// of pages. With a large log, a page that several batches change is written to the store once.
const CHECKPOINT_PAGES: i64 = 16_384;

/// An open store.
#[derive(Debug)]
pub struct Store {
    pub(super) connection: Connection,
    /// Cache of host and user names and their numbers.
    pub(super) strings: BTreeMap<Vec<u8>, u32>,
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
        rollup_table::rebuild(&transaction)?;
        transaction.pragma_update(None, "user_version", STORE_SCHEMA)?;
        Ok(transaction.commit()?)
    }

    /// Returns the schema of the store.
    pub(super) fn check_schema(&self) -> Result<i64, StoreError> {
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
