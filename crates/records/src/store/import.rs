//! Import from the journal into the store: the new lines of each segment, each record once.

use super::database::Store;
use super::store_error::StoreError;
use crate::journal::{Segment, read_lines, segments};
use crate::transfer::Transfer;
use rusqlite::{OptionalExtension, Transaction, params};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Records per transaction.
const BATCH_RECORDS: usize = 16_384;
/// A segment is identified by its first bytes, which contain the identifier of its first record.
const HEAD_BYTES: usize = 64;

/// Result of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Records that were not in the store yet.
    pub new: u64,
    /// Records that were in the store already.
    pub known: u64,
    /// Lines that are not records: torn, or other text.
    pub unreadable: u64,
}

impl Store {
    /// Adds all complete lines of the journal in `directory` that were not read before.
    ///
    /// # Errors
    ///
    /// Returns an error if the journal cannot be read or the store cannot be written; records added
    /// before the error stay.
    pub fn import(&mut self, directory: &Path) -> Result<Imported, StoreError> {
        self.import_with(directory, |_| {})
    }

    /// Like [`Self::import`], and calls `progress` after each transaction with the totals so far.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::import`].
    pub(crate) fn import_with(
        &mut self,
        directory: &Path,
        mut progress: impl FnMut(Imported),
    ) -> Result<Imported, StoreError> {
        let mut imported = Imported::default();
        for segment in segments(directory)? {
            self.import_segment(&segment, &mut imported, &mut progress)?;
        }
        Ok(imported)
    }

    fn import_segment(
        &mut self,
        segment: &Segment,
        imported: &mut Imported,
        progress: &mut impl FnMut(Imported),
    ) -> Result<(), StoreError> {
        let mut file = File::open(&segment.path)?;
        let len = file.metadata()?.len();
        let mut head = vec![0; HEAD_BYTES.min(usize::try_from(len).unwrap_or(HEAD_BYTES))];
        file.read_exact_at(&mut head, 0)?;
        let begin = self.saved_offset(segment.number, &head, len)?;
        if begin == len {
            return Ok(());
        }
        let mut batch = Vec::new();
        let mut end = begin;
        let mut pass = |store: &mut Self, batch: &mut Vec<Transfer>, unreadable, end: u64| {
            let appended = store.append_and(batch, |transaction| {
                save_offset(transaction, segment.number, &head, end)
            })?;
            batch.clear();
            imported.new += appended.new;
            imported.known += appended.known;
            imported.unreadable += unreadable;
            progress(*imported);
            Ok::<_, StoreError>(())
        };
        let mut unreadable = 0;
        let read = read_lines(&mut file, begin, |line, line_end| {
            end = line_end;
            match str::from_utf8(line).ok().map(Transfer::from_line) {
                Some(Ok(transfer)) => batch.push(transfer),
                // A newline that terminates a torn line can leave an empty line.
                _ if line.trim_ascii().is_empty() => {}
                _ => unreadable += 1,
            }
            if batch.len() < BATCH_RECORDS {
                return Ok(());
            }
            pass(self, &mut batch, std::mem::take(&mut unreadable), end)
        })?;
        if end > begin {
            pass(self, &mut batch, unreadable + read.too_long, end)?;
        }
        Ok(())
    }

    /// Returns the offset up to which the segment `number` was read; 0 if `head` and `len` show
    /// that another file was read.
    fn saved_offset(&self, number: u64, head: &[u8], len: u64) -> Result<u64, StoreError> {
        let select = "SELECT head, end FROM segment WHERE number = ?1";
        let saved_offset = self.connection.query_row(select, [number.cast_signed()], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        });
        let Some((known_head, end)) = saved_offset.optional()? else { return Ok(0) };
        let is_same_file = head.starts_with(&known_head) && end <= len;
        Ok(if is_same_file { end } else { 0 })
    }
}

fn save_offset(
    transaction: &Transaction<'_>,
    number: u64,
    head: &[u8],
    end: u64,
) -> Result<(), StoreError> {
    let replace = "INSERT OR REPLACE INTO segment VALUES (?1, ?2, ?3)";
    // Keep no more of the head than was read: a growing segment keeps these bytes.
    let len = usize::try_from(end).unwrap_or(usize::MAX).min(head.len());
    let head = head.get(..len).unwrap_or_default();
    transaction.execute(replace, params![number.cast_signed(), head, end.cast_signed()])?;
    Ok(())
}
