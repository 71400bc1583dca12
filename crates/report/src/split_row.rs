//! Rows of a time split, with names for wide and narrow output.

use records::measurement::Screenful;
use records::{Layer, LayerTime};

/// One row of a time split: a layer, or a part of a layer with its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitRow {
    /// Text for display, at most 24 characters.
    pub(crate) name: &'static str,
    /// Text of at most 11 characters for narrow output.
    pub(crate) short_name: &'static str,
    /// Layer and its time.
    pub(crate) time: LayerTime,
}

impl From<LayerTime> for SplitRow {
    fn from(time: LayerTime) -> Self {
        Self { name: time.layer.text(), short_name: short_name(time.layer), time }
    }
}

/// Returns a text of at most 11 characters for `layer`.
const fn short_name(layer: Layer) -> &'static str {
    match layer {
        Layer::InterruptOrSystemCall => "int/syscall",
        Layer::TcpFixed => "TCP fixed",
        Layer::TcpPerByte => "TCP by byte",
        Layer::RunQueue => "processor",
        Layer::RemoteHostAndNetwork => "remote",
        _ => layer.text(),
    }
}

/// Returns the rows of `screenful`. The wait for the first byte has a row of its own, and is not
/// included in the row of the remote host.
pub(crate) fn rows_of(screenful: &Screenful) -> Vec<SplitRow> {
    let remote_layer = Layer::RemoteHostAndNetwork;
    let mut rows = Vec::new();
    for part in &screenful.layers {
        let wait_ns = match (part.layer == remote_layer, screenful.first_byte_wait_ns) {
            (true, Some(wait_ns)) => wait_ns.min(part.ns),
            _ => 0,
        };
        if wait_ns > 0 {
            let time = LayerTime { layer: remote_layer, ns: wait_ns };
            rows.push(SplitRow { name: "wait for the first byte", short_name: "first byte", time });
        }
        rows.push(LayerTime { layer: part.layer, ns: part.ns - wait_ns }.into());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::Measurement;

    const SAMPLE: &str = include_str!("../../records/samples/measurement-4.json");

    #[test]
    fn the_wait_for_the_first_byte_is_separate_from_the_remote_host() {
        let mut screenful = Measurement::from_json(SAMPLE).unwrap().screenful.unwrap();
        screenful.request_to_last_ns = Some(1_410_000);
        screenful.first_byte_wait_ns = Some(60_000);
        let rows = rows_of(&screenful);
        let last = rows.iter().rev().take(2).map(|row| (row.name, row.time.ns));
        let expected =
            [("remote host and network", 1_060_000), ("wait for the first byte", 60_000)];
        assert!(last.eq(expected), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.time.ns).sum::<u64>(), screenful.total_ns());
    }
}
