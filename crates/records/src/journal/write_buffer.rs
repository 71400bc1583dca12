//! Lines not yet written to the file.

use crate::transfer::{LINE_MAX_BYTES, Transfer};
use std::io::{self, ErrorKind, Write};

/// Maximum bytes kept while the disk accepts no data.
pub(super) const KEPT_MAX_BYTES: usize = 256 << 10;

/// Complete lines that wait to be written, and whether the file ends within a line.
#[derive(Debug)]
pub(super) struct WriteBuffer {
    lines: Vec<u8>,
    is_torn: bool,
}

impl WriteBuffer {
    /// Makes an empty buffer; `is_torn` says that the last line of the file lacks its newline.
    pub(super) fn new(is_torn: bool) -> Self {
        Self { lines: Vec::new(), is_torn }
    }

    /// Sets whether the last line of the file lacks its newline; called when the file changes.
    pub(super) fn set_torn(&mut self, is_torn: bool) {
        self.is_torn = is_torn;
    }

    /// Returns the number of bytes that wait to be written.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Adds the line of `transfer`, and returns false if there is no space for it.
    pub(super) fn push(&mut self, transfer: &Transfer) -> bool {
        let has_room = self.lines.len() + LINE_MAX_BYTES <= KEPT_MAX_BYTES;
        if has_room {
            transfer.push_line(&mut self.lines);
        }
        has_room
    }

    /// Writes all lines, in one write if the file accepts them all.
    ///
    /// A partially written line is terminated with a newline and then written again.
    pub(super) fn write_to(&mut self, file: &mut impl Write) -> io::Result<()> {
        while !self.lines.is_empty() {
            if self.is_torn {
                self.lines.insert(0, b'\n');
            }
            let result = file.write(&self.lines);
            let written = *result.as_ref().unwrap_or(&0);
            self.remove_written(written);
            match result {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Removes the lines that are complete within the first `written` bytes.
    fn remove_written(&mut self, written: usize) {
        let was_torn = self.is_torn;
        let (head, rest) = self.lines.split_at_checked(written).unwrap_or_default();
        let complete_bytes = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if written > 0 {
            self.is_torn = complete_bytes < written;
        }
        let is_all_written = rest.is_empty() && !self.is_torn;
        if is_all_written {
            self.lines.clear();
        } else {
            // The newline that terminates a torn line belongs to no record, so it is not kept.
            let start = if was_torn { complete_bytes.max(1) } else { complete_bytes };
            self.lines.drain(..start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Identifier;
    use proptest::prelude::*;

    /// A disk that accepts the given number of bytes with each write; 0 means that it is full.
    struct Disk {
        bytes_per_write: std::vec::IntoIter<usize>,
        file: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.bytes_per_write.next().unwrap_or(usize::MAX).min(bytes.len());
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.file.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn names(file: &[u8]) -> Vec<u128> {
        let lines = str::from_utf8(file).unwrap().lines();
        lines
            .filter_map(|line| Transfer::from_line(line).ok())
            .map(|read| read.record_id.0)
            .collect()
    }

    #[test]
    fn a_batch_is_one_write() {
        let mut disk = Disk { bytes_per_write: vec![usize::MAX, 0].into_iter(), file: Vec::new() };
        let mut unwritten = WriteBuffer::new(false);
        for name in 1..=3 {
            assert!(unwritten.push(&Transfer::new(Identifier(name))));
        }
        unwritten.write_to(&mut disk).unwrap();
        assert_eq!((names(&disk.file), unwritten.len()), (vec![1, 2, 3], 0));
    }

    #[test]
    fn a_file_that_ends_within_a_line_gets_a_newline_first() {
        let mut disk =
            Disk { bytes_per_write: vec![].into_iter(), file: b"{\"schema\":1,\"rec".to_vec() };
        let mut unwritten = WriteBuffer::new(true);
        unwritten.push(&Transfer::new(Identifier(5)));
        unwritten.write_to(&mut disk).unwrap();
        assert_eq!(names(&disk.file), [5]);
    }

    #[test]
    fn records_that_a_full_disk_rejects_are_kept_up_to_a_limit() {
        let mut unwritten = WriteBuffer::new(false);
        let kept = (1..=10_000).filter(|name| unwritten.push(&Transfer::new(Identifier(*name))));
        assert!(kept.count() < 10_000);
        assert!(unwritten.len() <= KEPT_MAX_BYTES);
    }

    #[test]
    fn complete_lines_are_written_without_further_newlines() {
        let mut disk = Disk { bytes_per_write: vec![].into_iter(), file: Vec::new() };
        let mut unwritten = WriteBuffer::new(false);
        let transfers = [1, 2].map(|name| Transfer::new(Identifier(name)));
        transfers.iter().for_each(|transfer| assert!(unwritten.push(transfer)));
        unwritten.write_to(&mut disk).unwrap();
        let lines: String = transfers.iter().map(Transfer::to_line).collect();
        assert_eq!(String::from_utf8(disk.file).unwrap(), lines);
        let mut torn = WriteBuffer::new(false);
        torn.set_torn(true);
        torn.push(&transfers[0]);
        let mut disk = Disk { bytes_per_write: vec![].into_iter(), file: Vec::new() };
        torn.write_to(&mut disk).unwrap();
        torn.push(&transfers[1]);
        torn.write_to(&mut disk).unwrap();
        assert_eq!(String::from_utf8(disk.file).unwrap(), format!("\n{lines}"));
    }

    proptest! {
        #[test]
        fn after_any_short_write_every_record_is_in_the_file_in_order(
            bytes_per_write in proptest::collection::vec(0..90_usize, 0..30),
            count in 1..6_u128,
        ) {
            let mut disk = Disk { bytes_per_write: bytes_per_write.into_iter(), file: Vec::new() };
            let mut unwritten = WriteBuffer::new(false);
            for name in 1..=count {
                unwritten.push(&Transfer::new(Identifier(name)));
                let _ = unwritten.write_to(&mut disk);
            }
            while unwritten.write_to(&mut disk).is_err() {}
            let mut ids = names(&disk.file);
            ids.dedup();
            prop_assert_eq!(ids, (1..=count).collect::<Vec<_>>());
        }
    }
}
