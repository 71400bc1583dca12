//! §6.3.4: what the data takes of memory, as far as a run can know it. Table 6-8 is the code's.

use super::super::experiments::{MTU, PACKETS, WINDOW};
use super::super::people::Person;
use crate::host::Host;
use crate::table::{Row, Table};
use protocols::station::Carried;

/// Bytes of the local header in a packet buffer.
const LOCAL_HEADER_LEN: usize = 4;

/// What the thesis's data has beside its packet buffers and what is out of sequence: the difference
/// of its figures.
pub const OTHER_DATA_BYTES: f64 = 6_576.0;
/// All of the thesis's data.
pub const DATA_BYTES: f64 = 49_584.0;

/// Returns the bytes of the packet buffers, and the most that data out of sequence takes.
#[must_use]
pub const fn buffer_bytes() -> [usize; 2] {
    let packets = PACKETS * (MTU + LOCAL_HEADER_LEN);
    // Ours is a ring of a power of two, and at most 64 ranges of two words.
    [packets, WINDOW.next_power_of_two() + 64 * 2 * size_of::<usize>()]
}

/// Returns the bytes of a host in one piece: layers, meter and Telnet.
///
/// The compiler and the features of a build decide it, so that it is in no table of a scenario.
#[must_use]
pub const fn host_bytes() -> usize {
    size_of::<Host<Carried<Person>>>()
}

/// Returns the sizes of the buffers.
pub(super) fn table() -> Table {
    let [packets, out_of_sequence] = buffer_bytes();
    Table {
        number: "G",
        title: "memory of the buffers, of which §6.3.4 tells beside table 6-8",
        unit: "bytes",
        rows: vec![
            Row::input("packet buffers", packets as f64, 0).measured(22_528.0),
            Row::output("data out of sequence, at most", out_of_sequence as f64, 0)
                .measured(20_480.0),
        ],
        why: "The thesis keeps a sequence number of four bytes beside every byte out of sequence; \
              ours keeps ranges. The rest of the data, and table 6-8, the length of the code, \
              differ between builds of this program: they stand behind all others and are those of \
              the program that runs.",
    }
}
