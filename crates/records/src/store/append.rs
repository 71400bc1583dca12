//! Adding transfers to the store: their rows, their details, and their contribution to the
//! roll-ups.

use super::database::Store;
use super::rollup::{Cell, Class, measures, start_unix_ns};
use super::rollup_table;
use super::store_error::StoreError;
use crate::aggregate::{Aggregate, Measures};
use crate::transfer::{Transfer, compact};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::BTreeMap;

/// Maximum number of strings cached; the cache is cleared above it.
const STRINGS_MAX: usize = 1 << 16;

/// Result of an append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Records that were not in the store yet.
    pub new: u64,
    /// Records that were in the store already.
    pub known: u64,
}

impl Store {
    /// Adds `transfers` in one transaction; records that the store already has change nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written; then none of `transfers` is added.
    pub fn append(&mut self, transfers: &[Transfer]) -> Result<Appended, StoreError> {
        self.append_and(transfers, |_| Ok(()))
    }

    /// Adds `transfers`, and runs `also` in the same transaction.
    pub(super) fn append_and(
        &mut self,
        transfers: &[Transfer],
        also: impl FnOnce(&Transaction<'_>) -> Result<(), StoreError>,
    ) -> Result<Appended, StoreError> {
        if self.strings.len() > STRINGS_MAX {
            self.strings.clear();
        }
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let result = write(&transaction, &mut self.strings, transfers)
            .and_then(|appended| also(&transaction).map(|()| appended))
            .and_then(|appended| transaction.commit().map(|()| appended).map_err(Into::into));
        if result.is_err() {
            // The rollback has invalidated the numbers of strings that this transaction added.
            self.strings.clear();
        }
        result
    }
}

fn write(
    transaction: &Transaction<'_>,
    strings: &mut BTreeMap<Vec<u8>, u32>,
    transfers: &[Transfer],
) -> Result<Appended, StoreError> {
    let mut appended = Appended::default();
    // Boxed, because an aggregate is large and the map moves its values.
    let mut cells: BTreeMap<Cell, Box<Aggregate>> = BTreeMap::new();
    let mut insert = transaction.prepare_cached(
        "INSERT OR IGNORE INTO transfer(record_id, start_unix_ns, host, user, role, command,
         representation, byte_size, outcome, bits, real_ns, cpu_ns, limited)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let mut detail = transaction.prepare_cached("INSERT INTO detail VALUES (?1, ?2)")?;
    for transfer in transfers {
        let class = Class::of(transfer);
        let host = string_id(transaction, strings, &transfer.remote_host().unwrap_or_default())?;
        let user = transfer.identity.user.as_ref().map(|user| user.as_bytes());
        let user = string_id(transaction, strings, user.unwrap_or_default())?;
        let measures = measures(transfer);
        let Measures { bits, real_ns, cpu_ns, limit } = measures;
        let is_new = insert.execute(params![
            transfer.record_id.0.to_be_bytes(),
            start_unix_ns(transfer).map(u64::cast_signed),
            host,
            user,
            class.role,
            class.command,
            class.representation,
            class.byte_size,
            class.outcome,
            bits.map(u64::cast_signed),
            real_ns.map(u64::cast_signed),
            cpu_ns.map(u64::cast_signed),
            limit.map_or(0, crate::transfer::TransferLimit::code),
        ])? == 1;
        if !is_new {
            appended.known += 1;
            continue;
        }
        appended.new += 1;
        let id = transaction.last_insert_rowid();
        detail.execute(params![id, compact::encode(transfer)])?;
        for cell in Cell::of(class, host, user) {
            cells.entry(cell).or_default().add(id.cast_unsigned(), &measures);
        }
    }
    rollup_table::merge(transaction, cells)?;
    Ok(appended)
}

/// Returns the number of a string, assigning one if needed; the empty string has number 0.
fn string_id(
    transaction: &Transaction<'_>,
    strings: &mut BTreeMap<Vec<u8>, u32>,
    text: &[u8],
) -> Result<u32, StoreError> {
    if text.is_empty() {
        return Ok(0);
    }
    if let Some(number) = strings.get(text) {
        return Ok(*number);
    }
    let mut select = transaction.prepare_cached("SELECT id FROM word WHERE text = ?1")?;
    let number = match select.query_row([text], |row| row.get(0)).optional()? {
        Some(number) => number,
        None => {
            transaction.execute("INSERT INTO word(text) VALUES (?1)", [text])?;
            u32::try_from(transaction.last_insert_rowid()).map_err(|_| StoreError::Damaged)?
        }
    };
    strings.insert(text.to_vec(), number);
    Ok(number)
}
