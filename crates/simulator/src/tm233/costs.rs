//! Table 6-1 of TM-233 as prices of work on the IBM Personal Computer of 1982.

use protocols::meter::{Costs, Work};

/// INT: 231 µs for each byte that interrupt level receives, which the thesis counted in the
/// processor's manual. What a byte sent costs it does not say, because its processor waits while
/// it sends; we take the same.
const LINE_BYTE_NS: u64 = 231_000;
/// OOF: 10 ms for one packet sent and received, half of it charged to each side, as the thesis
/// does, which could not measure them apart.
pub(super) const SEGMENT_NS: u64 = 10_000_000 / 2;
/// OOV: 154 µs a data byte for one packet sent and received, half of it charged to each side.
/// On each side TCP touches a byte once, in the checksum, and Telnet touches it once (TM-233
/// §3.4). That both touches cost the same is our assumption: table 6-3 has only their sum, and in
/// table 6-5 it decides how long before its last byte a packet begins to be printed.
const TOUCH_NS: u64 = 154_000 / 4;
/// PCO: 692 µs for each byte given to the screen, carriage return and line feed included.
const TERMINAL_BYTE_NS: u64 = 692_000;
/// CRO, as a screenful has it: 3 CRO(500) + CRO(466) = 0.7702 s for 23 carriage returns, 33.5 ms
/// each. With PCO it makes 2.13 s, which the thesis checked by a program that only prints.
///
/// The thesis also says 32 ms, its slope of 392 µs a byte times the 82 bytes of a line. That
/// charges the last line of a screenful for a carriage return that it does not have, and table 6-3
/// would come out at 2.769 s instead of 2.799 s. So this price is not from table 6-1 alone, and
/// what the screen takes in table 6-3 agrees because of it.
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
