//! Two personal computers of 1982 in virtual time: the first part of the demonstration.

use laboratory::tm233::{self, Content};
use report::html::figure_6_1::{Curve, packet_bits};
use simulator::Stuck;
use std::time::Duration;

/// Line rate of tables 6-4 and 6-5 in the demonstration, bit/s.
pub(crate) const RATE_BPS: u64 = 19_200;
/// Echo time of a character, measured in 1982 at [`RATE_BPS`] (table 6-4), ns.
pub(crate) const ECHO_1982_NS: u64 = 71_800_000;
/// Time of a screenful, measured in 1982 at [`RATE_BPS`] (table 6-5), ns.
pub(crate) const SCREENFUL_1982_NS: u64 = 2_830_000_000;
/// Number of packets of a screenful in 1982 (table 6-3).
pub(crate) const SCREENFUL_1982_PACKETS: u64 = 4;
/// Line rate of figure 6-1, bit/s.
const FIGURE_RATE_BPS: u64 = 9_600;
const FIGURE_DATA_BYTES: [u16; 4] = [1, 166, 333, 500];
const KEY_COUNT: usize = 1_000;

/// Results of plumbline's engines at the costs of 1982.
#[derive(Clone, Debug)]
pub(crate) struct Laboratory {
    /// Echo time of one character, ns.
    pub(crate) echo_ns: u64,
    /// Time of a screenful, from its first cell to its last, ns.
    pub(crate) screenful_ns: u64,
    /// Number of packets of the screenful.
    pub(crate) screenful_packets: u64,
    /// Curves of figure 6-1. Each point has the packet size in bits and the time in seconds.
    pub(crate) packets: Vec<(Curve, Vec<(f64, f64)>)>,
}

/// Runs the experiments.
///
/// # Errors
///
/// Returns an error if an experiment stops making progress, which is a defect of an engine.
pub(crate) fn run() -> Result<Laboratory, Stuck> {
    let contents = [
        (Curve::CarriageReturns, Content::CarriageReturns),
        (Curve::PrintableCharacters, Content::Printable),
        (Curve::OtherProtocol, Content::NotPrinted),
    ];
    let packets = contents.into_iter().map(|(transfer, content)| {
        let points = FIGURE_DATA_BYTES.into_iter().map(|data_bytes| {
            let time = tm233::packet_transfer(FIGURE_RATE_BPS, data_bytes.into(), content)?;
            Ok((packet_bits(data_bytes.into()), time.as_secs_f64()))
        });
        Ok((transfer, points.collect::<Result<_, Stuck>>()?))
    });
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let screenful = tm233::screenful(RATE_BPS)?;
    Ok(Laboratory {
        echo_ns: nanos(tm233::echo(RATE_BPS, KEY_COUNT)?),
        screenful_ns: nanos(screenful.first_to_last),
        screenful_packets: screenful.packets,
        packets: packets.collect::<Result<_, Stuck>>()?,
    })
}
