//! Table 6-1 as prices of work on the IBM Personal Computer of 1982.

use protocols::meter::{Costs, Work};

/// INT: 231 µs for each byte that interrupt level handles.
const LINE_BYTE_NS: u64 = 231_000;
/// OOF: 10 ms for one packet sent and received, half of it charged to each side.
const SEGMENT_NS: u64 = 10_000_000 / 2;
/// OOV: 154 µs a data byte for one packet sent and received, half of it charged to each side.
/// On each side TCP touches a byte once, in the checksum, and Telnet touches it once (TM-233
/// §3.4), so each of them has half of the half.
const TOUCH_NS: u64 = 154_000 / 4;
/// PCO: 692 µs for each character.
const TERMINAL_BYTE_NS: u64 = 692_000;
/// CRO: table 6-1 charges a screenful 3 CRO(500) + CRO(466) = 0.7702 s, and its text has 23
/// carriage returns (table 6-3): 33.5 ms each.
///
/// The thesis also says 32 ms, its average of 392 µs a byte times the 82 bytes of a line. Then the
/// last 80 characters would be charged for a carriage return that they do not have.
const NEW_LINE_NS: u64 = (3 * 195_900_000 + 182_500_000) / 23;

/// Returns what work costs on the IBM Personal Computer with the software of TM-233.
#[must_use]
pub fn ibm_pc() -> Costs {
    Costs::default()
        .with(Work::LineByte, LINE_BYTE_NS)
        .with(Work::Segment, SEGMENT_NS)
        .with(Work::SegmentByte, TOUCH_NS)
        .with(Work::TelnetByte, TOUCH_NS)
        .with(Work::TerminalByte, TERMINAL_BYTE_NS)
        .with(Work::NewLine, NEW_LINE_NS)
}
