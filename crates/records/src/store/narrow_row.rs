//! Narrow rows: the columns of a transfer that queries filter by and add up.

use super::rollup::{Class, UNKNOWN_DAY, size_class};
use super::store_error::StoreError;
use crate::aggregate::Measures;
use crate::calendar::NS_PER_DAY;
use crate::transfer::TransferLimit;
use rusqlite::Row;

/// Columns of table `transfer` (alias `t`) that [`split_narrow_row`] reads.
pub(super) const NARROW_COLUMNS: &str = "t.id, t.start_unix_ns, t.host, t.user, t.role, t.command,
     t.representation, t.byte_size, t.outcome, t.bits, t.real_ns, t.cpu_ns, t.limited";

/// Properties of one cell or transfer that queries filter by.
pub(super) struct RowKey {
    pub(super) class: Class,
    pub(super) host: u32,
    pub(super) user: u32,
}

/// Splits a row of [`NARROW_COLUMNS`] into the filter properties and the values that are added to
/// an aggregate.
pub(super) fn split_narrow_row(row: &Row<'_>) -> Result<(RowKey, Measures), StoreError> {
    let number = |at| Ok::<_, StoreError>(row.get::<_, Option<i64>>(at)?.map(i64::cast_unsigned));
    let day = number(1)?.and_then(|start| u32::try_from(start / NS_PER_DAY).ok());
    let bits = number(9)?;
    let class = Class {
        day: day.unwrap_or(UNKNOWN_DAY),
        role: row.get(4)?,
        command: row.get(5)?,
        representation: row.get(6)?,
        byte_size: row.get(7)?,
        outcome: row.get(8)?,
        size: size_class(bits),
    };
    let limit = TransferLimit::from_code(row.get(12)?);
    let measures = Measures { bits, real_ns: number(10)?, cpu_ns: number(11)?, limit };
    Ok((RowKey { class, host: row.get(2)?, user: row.get(3)? }, measures))
}
