//! Table 6-1 of TM-233 as costs of work on the IBM Personal Computer of 1982.

use net::meter::{Costs, Work};

/// INT: 231 µs for each byte received at interrupt level, which the thesis derived from the
/// processor's manual. The thesis does not state the cost of sending a byte, because its processor
/// waits while it sends; the same cost is assumed.
const LINE_BYTE_NS: u64 = 231_000;
/// OOF: 10 ms for one packet sent and received. Half of it is charged to each side, as in the
/// thesis, which could not measure them separately.
pub(super) const SEGMENT_NS: u64 = 10_000_000 / 2;
/// OOV: 154 µs per data byte for one packet sent and received; half of it is charged to each side.
/// Each side processes (touches) every byte twice, once in the TCP checksum and once in Telnet
/// (TM-233 §3.4). Both touches are assumed to have the same cost, since table 6-3 has only the sum
/// of their costs. The assumption affects table 6-5, because printing begins between the two
/// touches.
const TOUCH_NS: u64 = 154_000 / 4;
/// PCO: 692 µs for each byte sent to the screen, including carriage return and line feed.
const TERMINAL_BYTE_NS: u64 = 692_000;
/// CRO: 33.5 ms for each carriage return, derived from a screenful: 3 CRO(500) + CRO(466) = 0.7702
/// s for 23 carriage returns. Together with PCO a screenful takes 2.13 s, which the thesis verified
/// with a program that only prints.
///
/// The thesis also states 32 ms for a carriage return: its slope of 392 µs per byte, times the 82
/// bytes of a line. With that value, the last line of a screenful is charged too, although it has
/// no carriage return, and the result of table 6-3 would be 2.769 s instead of 2.799 s. The cost
/// used here is therefore fitted to table 6-3, not taken from table 6-1 alone.
const NEW_LINE_NS: u64 = (3 * 195_900_000 + 182_500_000) / 23;

/// Returns the costs of the software of TM-233 on the IBM Personal Computer.
#[must_use]
pub(crate) fn ibm_pc() -> Costs {
    Costs::default()
        .with(Work::LineByte, LINE_BYTE_NS)
        .with(Work::Segment, SEGMENT_NS)
        .with(Work::SegmentByte, TOUCH_NS)
        .with(Work::TelnetByte, TOUCH_NS)
        .with(Work::TerminalByte, TERMINAL_BYTE_NS)
        .with(Work::NewLine, NEW_LINE_NS)
}
