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
mod database;
mod import;
mod narrow_row;
mod query;
mod rollup;
mod rollup_table;
mod sql_tables;
mod store_error;

pub use append::Appended;
pub use database::Store;
pub use import::Imported;
pub use query::{DivisionAxis, Filter, Key, Source, Subset, TransferContent};
pub use sql_tables::STORE_SCHEMA;
pub use store_error::StoreError;

#[cfg(test)]
mod tests;
