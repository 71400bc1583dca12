//! Reasons why the store cannot be used.

use super::sql_tables::STORE_SCHEMA;
use rusqlite::ErrorCode;
use std::fmt;

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
