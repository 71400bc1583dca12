//! Table 6-1: where the time of a packet goes.

use super::super::experiments::{Content, packet_transfer_by};
use super::super::scenario::Scenario;
use super::row;
use crate::line::Line;
use crate::table::{Row, Table};
use crate::world::Stuck;

pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    // Size, CRO, PCO, and OP: the time of a packet that is not printed, as SL + OOF + OOV.
    let sizes =
        [(1, 0.0004, 0.0006, 0.0602), (466, 0.1825, 0.3225, 0.6159), (500, 0.1959, 0.3460, 0.6566)];
    for (size, cro, pco, op) in sizes {
        let time = |content| {
            packet_transfer_by(scenario.equipment(), scenario.rate_bps, size, content)
                .map(|t| t.as_secs_f64())
        };
        let carriage_returns = time(Content::CarriageReturns)?;
        let printable = time(Content::Printable)?;
        let not_printed = time(Content::NotPrinted)?;
        let bytes = if size == 1 { "byte" } else { "bytes" };
        rows.push(row(format!("line OP, {size} {bytes}"), None, Some(op), not_printed));
        rows.push(row(format!("PCO, {size} {bytes}"), None, Some(pco), printable - not_printed));
        // One byte holds no carriage return; the thesis has a part of one by its average.
        if size > 1 {
            let ours = carriage_returns - printable;
            rows.push(row(format!("CRO, {size} {bytes}"), None, Some(cro), ours));
        }
    }
    derived(scenario, &mut rows)?;
    Ok(Table {
        number: "6-1",
        title: "packet transfer times between two personal computers, 9,600 bit/s",
        unit: "s",
        rows,
        why: "The prices are taken from this table: it shows that our engines do the work as often \
              as the thesis has it, no more. Its lines are fits through sizes of all kinds; 466 \
              bytes hold five carriage returns and 500 hold six, which a straight line does not \
              show, and its PCO begins at -0.1 ms for no byte, where ours is 0.692 ms for one. \
              Line OP is longer by the interrupt of the last byte, 231 us, which the thesis has in \
              its OOF, and by the bytes that LLP escapes.",
    })
}

/// Adds what the thesis derives from the lines: its part B without the screen.
fn derived(scenario: &Scenario, rows: &mut Vec<Row>) -> Result<(), Stuck> {
    const OVERHEAD_BYTES: usize = 47;
    let line = Line::serial(scenario.rate_bps);
    let serial = |size: usize| line.serial_time(size + OVERHEAD_BYTES).as_secs_f64();
    let interrupts =
        |size: usize| (size + OVERHEAD_BYTES) as f64 * scenario.costs.line_byte_ns as f64 / 1e9;
    let other = |size| -> Result<f64, Stuck> {
        let time =
            packet_transfer_by(scenario.equipment(), scenario.rate_bps, size, Content::NotPrinted)?;
        Ok(time.as_secs_f64() - serial(size))
    };
    let (at_1, at_500) = (other(1)?, other(500)?);
    let byte = (at_500 - at_1) / 499.0;
    rows.push(row("OOF", None, Some(0.0100), at_1 - byte));
    rows.push(row("OOV, 500 bytes", None, Some(0.0768), byte * 500.0));
    rows.push(row("SL, no data", Some(0.0490), None, serial(0)));
    rows.push(row("INT, no data", Some(0.0109), None, interrupts(0)));
    rows.push(row("ACT, 500 bytes", Some(0.4434), None, serial(500) - interrupts(500)));
    Ok(())
}
