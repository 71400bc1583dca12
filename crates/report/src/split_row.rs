//! Rows of a time split, with names for wide and narrow output.
//!
//! The time of the remote host and the network is divided into these two if the round-trip time is
//! known, as in the assessment of a record.

use records::assessment::{Location, round_trip_ns, split_wait};
use records::measurement::{Measurement, Screenful};
use records::{Layer, LayerTime};

/// A part of a time: a layer of this host, or a place outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A layer of this host.
    Local(Layer),
    /// A place outside of this host.
    Remote(Location),
}

impl Part {
    /// Returns the text for display, at most 24 characters.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Local(layer) => layer.text(),
            Self::Remote(location) => location.text(),
        }
    }

    /// Returns a text of at most 11 characters.
    #[must_use]
    pub const fn short_text(self) -> &'static str {
        match self {
            Self::Local(Layer::InterruptOrSystemCall) => "int/syscall",
            Self::Local(Layer::TcpFixed) => "TCP fixed",
            Self::Local(Layer::TcpPerByte) => "TCP by byte",
            Self::Local(Layer::RunQueue) => "processor",
            Self::Local(layer) => layer.text(),
            Self::Remote(Location::RemoteHost) => "remote host",
            Self::Remote(location) => location.short_text(),
        }
    }
}

impl From<Layer> for Part {
    fn from(layer: Layer) -> Self {
        match layer {
            Layer::Line => Self::Remote(Location::Line),
            Layer::RemoteHostAndNetwork => Self::Remote(Location::RemoteHostAndNetwork),
            layer => Self::Local(layer),
        }
    }
}

/// One row of a time split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitRow {
    /// Text for display, at most 24 characters.
    pub name: &'static str,
    /// Text of at most 11 characters for narrow output.
    pub short_name: &'static str,
    /// The part.
    pub part: Part,
    /// Its time, ns.
    pub ns: u64,
}

impl SplitRow {
    const fn new(part: Part, ns: u64) -> Self {
        Self { name: part.text(), short_name: part.short_text(), part, ns }
    }
}

impl From<LayerTime> for SplitRow {
    fn from(time: LayerTime) -> Self {
        Self::new(time.layer.into(), time.ns)
    }
}

/// Returns a wait for the remote host, divided into the network and the remote host if the
/// round-trip time permits.
pub(crate) fn parts_of_wait(wait_ns: u64, measured: &Measurement) -> Vec<SplitRow> {
    let row = |location, ns| SplitRow::new(Part::Remote(location), ns);
    match split_wait(wait_ns, round_trip_ns(measured)) {
        Some((network_ns, host_ns)) => {
            vec![row(Location::Network, network_ns), row(Location::RemoteHost, host_ns)]
        }
        None => vec![row(Location::RemoteHostAndNetwork, wait_ns)],
    }
}

/// Returns the rows of the echo.
pub(crate) fn rows_of_echo(layers: &[LayerTime], measured: &Measurement) -> Vec<SplitRow> {
    let rows = layers.iter().flat_map(|time| match time.layer {
        Layer::RemoteHostAndNetwork => parts_of_wait(time.ns, measured),
        _ => vec![SplitRow::from(*time)],
    });
    rows.collect()
}

/// Returns the rows of `screenful`. The wait for the first byte has rows of its own, and is not
/// included in the row of the remote host.
pub(crate) fn rows_of_screenful(screenful: &Screenful, measured: &Measurement) -> Vec<SplitRow> {
    let remote_layer = Layer::RemoteHostAndNetwork;
    let mut rows = Vec::new();
    for part in &screenful.layers {
        let wait_ns = match (part.layer == remote_layer, screenful.first_byte_wait_ns) {
            (true, Some(wait_ns)) => wait_ns.min(part.ns),
            _ => 0,
        };
        if wait_ns > 0 {
            rows.extend(parts_of_wait(wait_ns, measured).into_iter().map(until_first_byte));
        }
        if wait_ns == 0 || part.ns > wait_ns {
            rows.push(LayerTime { layer: part.layer, ns: part.ns - wait_ns }.into());
        }
    }
    rows
}

/// Returns the row of a wait for the first byte.
fn until_first_byte(row: SplitRow) -> SplitRow {
    let (name, short_name) = match row.part {
        Part::Remote(Location::Network) => ("network round trip", "round trip"),
        Part::Remote(Location::RemoteHost) => ("host until first byte", "host, first"),
        _ => ("wait for the first byte", "first byte"),
    };
    SplitRow { name, short_name, ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("../../records/samples/measurement-4.json");

    fn sample() -> Measurement {
        Measurement::from_json(SAMPLE).unwrap()
    }

    #[test]
    fn the_wait_for_the_first_byte_is_separate_from_the_remote_host() {
        let mut measured = sample();
        measured.tcp = None;
        measured.phases.connect_ns = None;
        let mut screenful = measured.screenful.clone().unwrap();
        screenful.request_to_last_ns = Some(1_410_000);
        screenful.first_byte_wait_ns = Some(60_000);
        let rows = rows_of_screenful(&screenful, &measured);
        let last = rows.iter().rev().take(2).map(|row| (row.name, row.ns));
        let expected =
            [("remote host and network", 1_060_000), ("wait for the first byte", 60_000)];
        assert!(last.eq(expected), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.ns).sum::<u64>(), screenful.total_ns());
    }

    #[test]
    fn the_network_and_the_remote_host_are_separate_rows_as_in_the_bar() {
        let measured = sample();
        let layers = &measured.echo.as_ref().unwrap().layers;
        let rows = rows_of_echo(layers, &measured);
        let last: Vec<_> = rows.iter().rev().take(2).map(|row| (row.name, row.ns)).collect();
        assert_eq!(last, [("remote host", 142_500), ("network", 58_000)]);
    }

    #[test]
    fn names_fit_their_columns() {
        let layers = Layer::ALL.map(Part::from);
        let places = Location::ALL.map(Part::Remote);
        for part in layers.into_iter().chain(places) {
            assert!(part.text().len() <= 24 && part.short_text().len() <= 11, "{part:?}");
        }
    }
}
