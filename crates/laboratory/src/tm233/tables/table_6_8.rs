//! Memory for data (TM-233 §6.3.4), as far as a simulation can determine it. Table 6-8 of the
//! thesis lists the length of the code, which is not simulated.

use super::super::experiments::{MTU, PACKETS, WINDOW};
use super::super::workload::ScriptedUser;
use crate::table::{Row, Table};
use net::station::TcpStreamApp;
use simulator::Host;

/// Length of the local header in a packet buffer.
const LOCAL_HEADER_LEN: usize = 4;

/// Data memory of the thesis's program in bytes, without packet buffers and out-of-sequence data;
/// the difference between printed values of the thesis.
pub const OTHER_DATA_BYTES: f64 = 6_576.0;
/// Total data memory of the thesis's program in bytes.
pub const DATA_BYTES: f64 = 49_584.0;

/// Returns the size of the packet buffers, and the maximum size of the out-of-sequence data, in
/// bytes.
#[must_use]
pub const fn buffer_bytes() -> [usize; 2] {
    let packets = PACKETS * (MTU + LOCAL_HEADER_LEN);
    // The implementation uses a ring of a power of two, and at most 64 ranges of two words.
    [packets, WINDOW.next_power_of_two() + 64 * 2 * size_of::<usize>()]
}

/// Returns the size of a host in bytes: its layers, its meter and Telnet.
///
/// The size depends on the compiler and the features of the build, so no table of a scenario
/// contains it.
#[must_use]
pub const fn host_bytes() -> usize {
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
