//! Memory for data (TM-233 §6.3.4), as far as a simulation can determine it. Table 6-8 of the
//! thesis lists the length of the code, which is not simulated.

use super::super::experiments::{MTU, PACKETS, WINDOW};
use super::super::workload::ScriptedUser;
use crate::table::{Figure, Row, Table};
use net::station::TcpStreamApp;
use simulator::Host;

/// Length of the local header in a packet buffer.
const LOCAL_HEADER_LEN: usize = 4;

/// Data memory of the thesis's program in bytes, without packet buffers and out-of-sequence data;
/// the difference between printed values of the thesis.
const OTHER_DATA_BYTES: f64 = 6_576.0;
/// Total data memory of the thesis's program in bytes.
const DATA_BYTES: f64 = 49_584.0;

/// Returns the size of the packet buffers, and the maximum size of the out-of-sequence data, in
/// bytes.
const fn buffer_bytes() -> [usize; 2] {
    let packets = PACKETS * (MTU + LOCAL_HEADER_LEN);
    // The implementation uses a ring of a power of two, and at most 64 ranges of two words.
    [packets, WINDOW.next_power_of_two() + 64 * 2 * size_of::<usize>()]
}

/// Returns the size of a host in bytes: its layers, its meter and Telnet.
///
/// The size depends on the compiler and the features of the build, so no table of a scenario
/// contains it.
const fn host_bytes() -> usize {
    size_of::<Host<TcpStreamApp<ScriptedUser>>>()
}

/// Returns the table of buffer sizes.
pub(super) fn table() -> Table {
    let [packets, out_of_sequence] = buffer_bytes();
    Table {
        number: "G",
        title: "memory of the buffers (§6.3.4, beside table 6-8)",
        unit: "bytes",
        rows: vec![
            Row::input("packet buffers", packets as f64, 0).measured(22_528.0),
            Row::output("out-of-sequence data, maximum", out_of_sequence as f64, 0)
                .measured(20_480.0),
        ],
        why: "The thesis stores a sequence number of four bytes with every out-of-sequence byte; \
              plumbline stores ranges. The other data and the length of the code (table 6-8) differ \
              between builds of plumbline. Their tables describe the running program and come after \
              all others.",
    }
}

/// Returns the sizes of the data outside the buffers, which depend on the build of the program.
#[must_use]
pub fn data_table() -> Table {
    let buffers: usize = buffer_bytes().iter().sum();
    let other_data_bytes = host_bytes();
    Table {
        number: "G, of the running program",
        title: "memory of all data (§6.3.4)",
        unit: "bytes",
        rows: vec![
            Row::output("data besides the buffers", other_data_bytes as f64, 0)
                .measured(Figure::derived(OTHER_DATA_BYTES)),
            Row::output("all data", (buffers + other_data_bytes) as f64, 0).measured(DATA_BYTES),
        ],
        why: "Besides the buffers, a host stores the data of its layers, its meter and Telnet. \
              Tables that grow as needed and the screen are not included. The sizes depend on the \
              compiler and on the features of the build.",
    }
}
