//! Measurements of plumb and the kernel only: datagrams, and a second processor.

use super::amount::Amount;
use super::client::Direction;
use super::processors::other_processor;
use super::rows::{Row, Side, Units, section};
use super::server::{Contender, Mode, Server, ServerOptions};
use super::server_networks::Networks;
use super::{datagrams, streams};
use crate::benchmark_report::Section;
use anyhow::{Context, Result};
use os::schedule;

/// Inputs of both measurements.
#[derive(Clone, Copy)]
pub(super) struct KernelComparison<'a> {
    /// All servers; each measurement uses some of them.
    pub(super) contenders: &'a [Contender],
    /// The network namespaces of the client and the servers.
    pub(super) networks: &'a Networks,
    /// Duration and number of the measurements.
    pub(super) amount: &'a Amount,
}

/// Label of a row, name of a contender, and further arguments of its server.
type Flow = (&'static str, &'static str, &'static [&'static str]);

const FLOWS: [Flow; 4] = [
    ("kernel, veth, GSO and GRO", "kernel", &[]),
    ("plumb, TUN, super-datagrams", "plumb-tun", &[]),
    ("plumb, TUN, one by one", "plumb-tun", &["--apart"]),
    ("plumb, TUN, no offloads", "plumb-plain", &[]),
];

/// Processors of client and server; one of the processors is the bench's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// Client and server share one processor.
    One,
    /// The client runs on the bench's processor, and the server on another one.
    Apart,
    /// Client and server share both processors.
    Two,
}

/// Label of a row, name of a contender, further arguments of its server, and processors.
type PlacementRow = (&'static str, &'static str, &'static [&'static str], Placement);

const PLACEMENTS: [PlacementRow; 5] = [
    ("plumb, a queue, 1 processor", "plumb-tun", &[], Placement::One),
    ("plumb, a queue, client apart", "plumb-tun", &[], Placement::Apart),
    ("plumb, 2 queues, 2 processors", "plumb-queues", &[], Placement::Two),
    ("kernel, 1 processor", "kernel", &[], Placement::One),
    ("kernel, 2 processors", "kernel", &[], Placement::Two),
];

impl<'a> KernelComparison<'a> {
    /// Measures datagrams.
    pub(super) fn measure_datagrams(
        self,
        rounds: usize,
        notes: &mut Vec<String>,
    ) -> Result<Section> {
        let mut rows = FLOWS.map(|(label, ..)| Row::new(label));
        for round in 1..=rounds {
            for (row, (label, name, arguments)) in rows.iter_mut().zip(FLOWS) {
                eprintln!("round {round} of {rounds}, datagrams: {label}");
                for (mode, direction) in
                    [(Mode::DatagramSink, Direction::In), (Mode::DatagramSource, Direction::Out)]
                {
                    let options = ServerOptions { arguments, ..ServerOptions::for_mode(mode) };
                    row.add(
                        direction,
                        ok_or_note(self.measure_flow(name, options, direction), label, notes),
                    );
                }
            }
        }
        let heading =
            "datagrams of 1,472 bytes, four bursts of 44 outstanding, one processor".into();
        let units = Units { rate: ("M/s", 1e6), cost: ("µs each", 1e3) };
        Ok(section(heading, units, &rows))
    }

    fn measure_flow(
        self,
        name: &str,
        options: ServerOptions,
        direction: Direction,
    ) -> Result<Side> {
        let contender = self.contender_named(name)?;
        let server = Server::start(contender, options, self.networks)?;
        let Amount { warm_up, window, .. } = *self.amount;
        let side = datagrams::measure_flow(&server, direction, warm_up, window)?;
        server.stop()?;
        Ok(side)
    }

    /// Measures many streams on one and on two processors.
    pub(super) fn measure_processors(
        self,
        rounds: usize,
        notes: &mut Vec<String>,
    ) -> Result<Section> {
        let mut rows = PLACEMENTS.map(|(label, ..)| Row::new(label));
        for round in 1..=rounds {
            for (row, (label, name, arguments, placement)) in rows.iter_mut().zip(PLACEMENTS) {
                eprintln!("round {round} of {rounds}, processors: {label}");
                for (mode, direction) in
                    [(Mode::Sink, Direction::In), (Mode::Source, Direction::Out)]
                {
                    let options = ServerOptions { arguments, ..ServerOptions::for_mode(mode) };
                    let side = self.measure_streams(name, options, direction, placement);
                    row.add(direction, ok_or_note(side, label, notes));
                }
            }
        }
        let heading =
            format!("{} streams at a time, on one processor and on two", streams::STREAMS);
        let units = Units { rate: ("Gb/s", 1e9), cost: ("s/Gb", 1e9) };
        Ok(section(heading, units, &rows))
    }

    fn measure_streams(
        self,
        name: &str,
        options: ServerOptions,
        direction: Direction,
        placement: Placement,
    ) -> Result<Side> {
        let contender = self.contender_named(name)?;
        let own_processor = schedule::processors()?
            .first()
            .copied()
            .context("cannot determine the current processor")?;
        let other = other_processor()?.context("the machine has no second processor")?;
        let server = Server::start(contender, options, self.networks)?;
        let is_kernel = name == "kernel";
        let clients = match placement {
            Placement::One => vec![own_processor],
            Placement::Apart => {
                schedule::pin_process_to(server.id(), &[other])?;
                vec![own_processor]
            }
            Placement::Two => {
                if is_kernel {
                    // The kernel server has a thread per connection, so the scheduler can
                    // distribute its threads over both processors.
                    schedule::pin_process_to(server.id(), &[own_processor, other])?;
                }
                vec![own_processor, other]
            }
        };
        let times = (self.amount.warm_up, self.amount.window);
        let side = streams::measure_flow(&server, direction, &clients, times)?;
        server.stop()?;
        Ok(side)
    }

    fn contender_named(self, name: &str) -> Result<&'a Contender> {
        let found = self.contenders.iter().find(|contender| contender.name == name);
        found.with_context(|| format!("{name} is left out"))
    }
}

/// Returns the figures of one direction, or adds the error to `notes`.
fn ok_or_note(side: Result<Side>, label: &str, notes: &mut Vec<String>) -> Option<Side> {
    side.map_err(|error| notes.push(format!("{label}: {error:#}"))).ok()
}
