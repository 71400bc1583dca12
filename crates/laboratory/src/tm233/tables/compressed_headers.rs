//! The echo of table 6-4 with later technology: compressed headers (RFC 1144), and fast processors.

use super::super::experiments::{Equipment, echo_with};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use net::meter::Costs;
use simulator::Stuck;

/// Returns the echo time at 19,200 bit/s with full and with compressed headers, on processors of
/// 1982 and without processor time.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    const FAST_BPS: u64 = 19_200;
    let mut rows = Vec::new();
    for (processors, costs) in [("1982", scenario.equipment().costs), ("no", Costs::default())] {
        for (headers, compresses_headers) in [("full", false), ("compressed", true)] {
            let equipment = Equipment { costs, compresses_headers, ..scenario.equipment() };
            let echo = echo_with(equipment, FAST_BPS, scenario.keys)?;
            let bytes = echo.line_bytes;
            let what = format!("{processors} processor time, {headers} headers, {bytes:.0} bytes");
            // The thesis measured one of the four combinations.
            let measured = (processors == "1982" && !compresses_headers).then_some(0.0718);
            rows.push(Row::output(what, echo.time.as_secs_f64(), 4).measured_if(measured));
        }
    }
    Ok(Table {
        number: "6-4 with RFC 1144",
        title: "the echo at 19,200 bit/s with compressed headers on LLP",
        unit: "s",
        rows,
        why: "The thesis had full headers only. Without processor time only the time of the line is \
              left. Both directions together send 96 bytes with full headers and 24 bytes with \
              short ones, of ten bits each, in 50.0 and 12.5 ms. A packet of one character is 12 \
              bytes instead of 48: REQ, ACK and END, the character, and eight bytes of header. Five \
              of these eight report that the window has shrunk by one, because the right edge of \
              the window does not move until a segment of 500 bytes fits again (RFC 9293 \
              §3.8.6.2.2). Therefore the special case for an echo does not apply. With a constant \
              window a packet would be seven bytes, and the echo would take 7.3 ms. With the \
              processors of 1982 the echo takes 34.7 ms; 22 ms of it are processor time, as much as \
              with full headers.",
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;
    use crate::tm233::tables::tests::assert_within;

    #[test]
    fn compressed_headers_halve_the_echo_of_1982_and_without_processors_leave_13_ms() {
        let rows = table(&built_in()).unwrap().rows;
        let [whole, compressed, _, line_alone] = &rows[..] else { panic!("four rows") };
        assert_within(whole.measured, 0.01, whole);
        assert!(compressed.ours < 0.5 * whole.ours, "{compressed:?}");
        assert!((0.010..0.013).contains(&line_alone.ours), "{line_alone:?}");
    }
}
