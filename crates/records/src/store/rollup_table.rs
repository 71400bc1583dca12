//! The table of roll-ups: adding to its aggregates, and rebuilding it.

use super::narrow_row::{NARROW_COLUMNS, split_narrow_row};
use super::rollup::Cell;
use super::store_error::StoreError;
use crate::aggregate::Aggregate;
use rusqlite::{Transaction, params};
use std::collections::BTreeMap;

/// Rebuilds all roll-ups from the rows.
pub(super) fn rebuild(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let mut cells: BTreeMap<Cell, Box<Aggregate>> = BTreeMap::new();
    let mut select = transaction.prepare(&format!("SELECT {NARROW_COLUMNS} FROM transfer t"))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (row_key, measures) = split_narrow_row(row)?;
        let id = row.get::<_, i64>(0)?.cast_unsigned();
        for cell in Cell::of(row_key.class, row_key.host, row_key.user) {
            cells.entry(cell).or_default().add(id, &measures);
        }
    }
    transaction.execute("DELETE FROM rollup", [])?;
    merge(transaction, cells)
}

/// Merges the aggregates of `cells` into the aggregates in the store.
pub(super) fn merge(
    transaction: &Transaction<'_>,
    cells: BTreeMap<Cell, Box<Aggregate>>,
) -> Result<(), StoreError> {
    let mut select =
        transaction.prepare_cached("SELECT tally FROM rollup WHERE view = ?1 AND key = ?2")?;
    let mut replace =
        transaction.prepare_cached("INSERT OR REPLACE INTO rollup VALUES (?1, ?2, ?3)")?;
    for (cell, mut aggregate) in cells {
        let view = cell.view as u8;
        let key = cell.key();
        let mut rows = select.query(params![view, key])?;
        if let Some(row) = rows.next()? {
            let bytes = row.get_ref(0)?.as_blob().map_err(|_| StoreError::Damaged)?;
            aggregate.merge_encoded(bytes).ok_or(StoreError::Damaged)?;
        }
        drop(rows);
        replace.execute(params![view, key, aggregate.encode()])?;
    }
    Ok(())
}
