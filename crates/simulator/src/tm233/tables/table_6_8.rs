//! §6.3.4: what the data takes of memory, as far as a run can know it. Table 6-8 is the code's.

use super::super::experiments::{MTU, PACKETS, WINDOW};
use super::super::people::Person;
use super::row;
use crate::host::Host;
use crate::table::{Row, Table};
use protocols::station::Carried;

/// Bytes of the local header in a packet buffer.
const LOCAL_HEADER_LEN: usize = 4;

/// Returns the sizes of the data.
pub(super) fn table() -> Table {
    let bytes = |what: &str, measured, ours: usize| Row {
        digits: 0,
        ..row(what, None, Some(measured), ours as f64)
    };
    let packets = PACKETS * (MTU + LOCAL_HEADER_LEN);
    // Ours is a ring of a power of two, and at most 64 ranges of two words.
    let out_of_sequence = WINDOW.next_power_of_two() + 64 * 2 * size_of::<usize>();
    let rest = size_of::<Host<Carried<Person>>>();
    Table {
        number: "G",
        title: "memory of the data, of which §6.3.4 tells beside table 6-8",

        unit: "bytes",
        rows: vec![
            bytes("packet buffers", 22_528.0, packets),
            bytes("data out of sequence, at most", 20_480.0, out_of_sequence),
            bytes("what is left", 6_576.0, rest),
            bytes("data, all of it", 49_584.0, packets + out_of_sequence + rest),
        ],
        why: "The thesis keeps a sequence number of four bytes beside every byte out of sequence; \
              ours keeps ranges. What is left is the difference of its figures; ours is what a \
              host has in one piece, layers, meter and Telnet, without the tables that grow as \
              they are needed and without its screen. Table 6-8 itself is the length of the code, \
              which no run in virtual time knows: it stands behind all others and is that of this \
              program.",
    }
}
