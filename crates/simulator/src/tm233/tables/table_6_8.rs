//! Table 6-8: what it takes of memory, as far as a run can know it.

use super::super::experiments::{MTU, PACKETS, WINDOW};
use super::row;
use crate::table::{Row, Table};

/// Bytes of the local header in a packet buffer.
const LOCAL_HEADER_LEN: usize = 4;

/// Returns the sizes of the data.
pub(super) fn table() -> Table {
    let bytes = |what: &str, measured, ours: usize| Row {
        digits: 0,
        ..row(what, None, Some(measured), ours as f64)
    };
    Table {
        number: "6-8",
        title: "memory of the data",
        unit: "bytes",
        rows: vec![
            bytes("packet buffers", 22_528.0, PACKETS * (MTU + LOCAL_HEADER_LEN)),
            // Ours is a ring of a power of two, and at most 64 ranges of two words.
            bytes(
                "data out of sequence, at most",
                20_480.0,
                WINDOW.next_power_of_two() + 64 * 2 * size_of::<usize>(),
            ),
        ],
        why: "The thesis keeps a sequence number of four bytes beside every byte out of sequence; \
              ours keeps ranges. The length of the code no run in virtual time knows: the table \
              behind all others is that of this program.",
    }
}
