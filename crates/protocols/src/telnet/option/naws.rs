//! NAWS (RFC 1073): the user reports its window size, at the start and at every change.
//!
//! Columns and rows are 16 bits each; 0 means unknown. There is no request: enabling the option is
//! sufficient.

use core::fmt;

/// The size that a NAWS subnegotiation reports.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::telnet) struct Message {
    pub(in crate::telnet) columns: u16,
    pub(in crate::telnet) rows: u16,
}

impl Message {
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let &[columns_high, columns_low, rows_high, rows_low] = content else { return None };
        let columns = u16::from_be_bytes([columns_high, columns_low]);
        let rows = u16::from_be_bytes([rows_high, rows_low]);
        Some(Self { columns, rows })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} columns, {} rows", self.columns, self.rows)
    }
}

/// Returns the content of a NAWS subnegotiation that reports this size.
pub(in crate::telnet) fn build_is((columns, rows): (u16, u16)) -> [u8; 4] {
    let [c0, c1] = columns.to_be_bytes();
    let [r0, r1] = rows.to_be_bytes();
    [c0, c1, r0, r1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_emitted_window_size_is_parsed_back_equal(columns: u16, rows: u16) {
            let read = Message::parse(&build_is((columns, rows)));
            prop_assert_eq!(read, Some(Message { columns, rows }));
        }
    }
}
