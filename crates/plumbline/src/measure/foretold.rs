//! What is foretold, each from nothing but what was seen before it.
//!
//! Of files, the transfers of a sixteenth of the largest and less are the probe: they foretell those
//! that were made after them. TFTP waits for an answer after each window, so its time is a straight
//! line through two of them, and of a file that came whole its own beginning is the probe.

use super::observed::arrivals;
use records::arrivals::Arrival;
use records::prediction::{Forecast, Model, Prediction, What};
use records::sizes::{Direction, Sample};
use records::statistics::median;
use records::transfer::Transfer;
use records::verdict::{Flow, Observation, Path};

/// A transfer of one in so many of the largest one's bytes, or of fewer, is a probe.
const PROBE_PART: u64 = 16;

/// What a transfer was, as far as a prediction needs it.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) direction: Direction,
    pub(super) transfer: &'a Transfer,
    /// What came when; empty if unknown.
    pub(super) arrivals: &'a [Arrival],
}

impl Seen<'_> {
    fn bytes(&self) -> u64 {
        self.transfer.size.file_bytes.unwrap_or(0)
    }
}

const fn what(direction: Direction) -> What {
    match direction {
        Direction::Received => What::Received,
        Direction::Sent => What::Sent,
    }
}

/// Returns what the small ones of `seen` foretell of the large ones by FTP; and, if somebody wants
/// to know, of a file of `far` bytes, which all of them foretell. The control connection took
/// `connect_ns`.
pub(super) fn of_ftp(
    seen: &[Seen<'_>],
    connect_ns: Option<u64>,
    far: Option<u64>,
) -> Vec<Prediction> {
    let mut all = Vec::new();
    for direction in [Direction::Received, Direction::Sent] {
        let of_it: Vec<&Seen<'_>> =
            seen.iter().filter(|one| one.direction == direction && one.bytes() > 0).collect();
        let most = of_it.iter().map(|one| one.bytes()).max().unwrap_or(0);
        let is_probe = |one: &&&Seen<'_>| one.bytes() <= most / PROBE_PART;
        let probe: Vec<&Seen<'_>> = of_it.iter().filter(is_probe).copied().collect();
        let larger = of_it.iter().filter(|one| !is_probe(one));
        let larger = larger.map(|one| (one.bytes(), one.transfer.time.ns_total));
        let known = larger.filter_map(|(bytes, ns)| Some((bytes, ns?))).collect::<Vec<_>>();
        let model = model(&probe, connect_ns);
        let seen = model.map(|model| beside(&model, direction, &known)).unwrap_or_default();
        let whole = far.and_then(|bytes| Some((self::model(&of_it, connect_ns)?, bytes)));
        let far = whole.map(|(model, bytes)| forecast(&model, direction, bytes).unmeasured(&seen));
        all.extend(seen.into_iter().chain(far));
    }
    all
}

/// Returns what the beginnings of the first file of `seen` by TFTP foretell of the rest of it, as
/// `samples` measured that, or small files of large ones; and of a file of `far` bytes, which the
/// largest one foretells.
pub(super) fn of_tftp(seen: &[Seen<'_>], samples: &[Sample], far: Option<u64>) -> Vec<Prediction> {
    let mut all = Vec::new();
    for direction in [Direction::Received, Direction::Sent] {
        let samples: Vec<(u64, u64)> = samples
            .iter()
            .filter(|one| one.direction == direction && one.bytes > 0)
            .map(|one| (one.bytes, one.total_ns))
            .collect();
        let of_it = || seen.iter().filter(|one| one.direction == direction);
        // The first one of the largest: what is foretold came after its beginning.
        let most = of_it().map(Seen::bytes).max().unwrap_or(0);
        let Some(largest) = of_it().find(|one| one.bytes() == most) else { continue };
        let is_probe = |bytes: u64| bytes <= most / PROBE_PART;
        let larger: Vec<_> = samples.iter().filter(|(n, _)| !is_probe(*n)).copied().collect();
        let smaller: Vec<_> = samples.iter().filter(|(n, _)| is_probe(*n)).copied().collect();
        let window = window_bytes(largest.transfer);
        let model = windows(largest, most / PROBE_PART).or_else(|| of_sizes(&smaller, window));
        let seen = model.map(|model| beside(&model, direction, &larger)).unwrap_or_default();
        let whole = far.and_then(|bytes| {
            let model = windows(largest, most).or_else(|| of_sizes(&samples, window));
            Some((model?, bytes))
        });
        let far = whole.map(|(model, bytes)| forecast(&model, direction, bytes).unmeasured(&seen));
        all.extend(seen.into_iter().chain(far));
    }
    all
}

fn forecast(model: &Model, direction: Direction, bytes: u64) -> Forecast {
    Forecast { what: what(direction), bytes, foretold_ns: model.flow_ns(bytes) }
}

/// Returns the forecast of each size of `known`, which are `(bytes, ns)`, beside their medians.
fn beside(model: &Model, direction: Direction, known: &[(u64, u64)]) -> Vec<Prediction> {
    let mut sizes: Vec<u64> = known.iter().map(|(bytes, _)| *bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let times = |bytes: u64| {
        let same = known.iter().filter(|(other, _)| *other == bytes);
        median(&same.map(|(_, ns)| *ns).collect::<Vec<_>>())
    };
    let told = |bytes| Some(forecast(model, direction, bytes).beside(times(bytes)?));
    sizes.into_iter().filter_map(told).collect()
}

/// Returns what transfers by FTP foretell. What is faster than they can tell says nothing of longer
/// ones: their waits alone grow with the size too slowly.
fn model(seen: &[&Seen<'_>], connect_ns: Option<u64>) -> Option<Model> {
    Model::of(&observed(seen, connect_ns)).filter(|model| model.rate_bps.is_some())
}

/// Returns what was seen of transfers by FTP, each from its command to its last reply.
fn observed(seen: &[&Seen<'_>], connect_ns: Option<u64>) -> Observation {
    let flow = |one: &&Seen<'_>| {
        let time = &one.transfer.time;
        Some(Flow {
            bytes: one.bytes(),
            elapsed_ns: time.ns_total?,
            arrivals: arrivals(one.arrivals, time.ns_first_byte.unwrap_or(0)),
            ..Flow::default()
        })
    };
    let tcp = || seen.iter().map(|one| &one.transfer.tcp);
    let least_us = tcp().filter_map(|tcp| tcp.min_rtt_us.or(tcp.rtt_us)).min();
    let mut observed = Observation {
        transfers: seen.iter().filter_map(flow).collect(),
        path: Path {
            min_rtt_ns: least_us.map(|us| us.saturating_mul(1_000)),
            mss_bytes: tcp().flat_map(|tcp| [tcp.rcv_mss, tcp.snd_mss]).flatten().max(),
            ..Path::default()
        },
        ..Observation::default()
    };
    observed.steps.connect_ns = connect_ns;
    observed
}

/// Returns the model that the windows of a file show which came whole, of its first `most` bytes.
fn windows(file: &Seen<'_>, most: u64) -> Option<Model> {
    let window = window_bytes(file.transfer)?;
    let last = most / window;
    // Less would be a window that is cut in two.
    if last < 2 {
        return None;
    }
    let end = |count: u64| {
        let wanted = window.saturating_mul(count);
        let mut sum = 0_u64;
        let reached = file.arrivals.iter().find(|arrival| {
            sum = sum.saturating_add(arrival.bytes);
            sum >= wanted
        });
        reached.map(|arrival| (sum, arrival.at_ns))
    };
    Model::in_lock_step(end(1)?, end(last)?)
}

/// Returns the bytes after which a transfer by TFTP waits for an answer.
fn window_bytes(transfer: &Transfer) -> Option<u64> {
    let tftp = &transfer.tftp;
    tftp.window_blocks?.checked_mul(tftp.block_bytes?).filter(|bytes| *bytes > 0)
}

/// Returns the model of the smallest and the largest of files that are `(bytes, ns)`; `None` where
/// all of them have no wait for an answer, of which a longer one has many.
fn of_sizes(files: &[(u64, u64)], window_bytes: Option<u64>) -> Option<Model> {
    let most = files.iter().map(|(bytes, _)| *bytes).max()?;
    if most < window_bytes?.saturating_mul(2) {
        return None;
    }
    let times = |bytes: u64| {
        let same = files.iter().filter(|(other, _)| *other == bytes);
        Some((bytes, median(&same.map(|(_, ns)| *ns).collect::<Vec<_>>())?))
    };
    let sizes = files.iter().map(|(bytes, _)| *bytes);
    Model::in_lock_step(times(sizes.min()?)?, times(most)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::Identifier;

    const MS: u64 = 1_000_000;

    fn transfer(bytes: u64, total_ns: u64) -> Transfer {
        let mut transfer = Transfer::new(Identifier(u128::from(bytes)));
        transfer.size.file_bytes = Some(bytes);
        transfer.time.ns_total = Some(total_ns);
        transfer.tcp.min_rtt_us = Some(2_000);
        transfer.tcp.snd_mss = Some(1_460);
        transfer
    }

    fn received(transfer: &Transfer) -> Seen<'_> {
        Seen { direction: Direction::Received, transfer, arrivals: &[] }
    }

    #[test]
    fn small_files_foretell_the_large_ones_and_one_that_nobody_moves() {
        // 60 ms, and 1 ms for each 1,000 bytes.
        let sizes = [1_000, 4_000, 10_000, 40_000, 160_000];
        let files = sizes.map(|bytes| transfer(bytes, 60 * MS + bytes * 1_000));
        let seen: Vec<_> = files.iter().map(received).collect();
        let told = of_ftp(&seen, None, Some(1_000_000));
        let sizes: Vec<_> = told.iter().map(|one| (one.bytes, one.measured_ns)).collect();
        let wanted = [(40_000, Some(100 * MS)), (160_000, Some(220 * MS)), (1_000_000, None)];
        assert_eq!(sizes, wanted);
        let off = told.iter().filter_map(Prediction::off_per_mille);
        assert!(off.clone().count() == 2 && off.into_iter().all(|off| off.abs() < 10), "{told:?}");
    }

    #[test]
    fn without_a_small_file_nothing_is_foretold() {
        let files = [transfer(100_000, 9 * MS), transfer(160_000, 20 * MS)];
        let seen: Vec<_> = files.iter().map(received).collect();
        assert_eq!(of_ftp(&seen, None, None), []);
    }

    #[test]
    fn files_that_fit_into_a_window_foretell_nothing_of_those_that_wait_for_answers() {
        let files = [(1_024, 20 * MS), (4_096, 21 * MS)];
        assert_eq!(of_sizes(&files, Some(16 * 1_428)), None);
        assert!(of_sizes(&files, Some(512)).is_some());
    }

    #[test]
    fn the_first_windows_of_a_file_foretell_the_rest_of_it() {
        let mut whole = transfer(160_000, 60 * MS + 160 * 5 * MS);
        whole.tftp.window_blocks = Some(2);
        whole.tftp.block_bytes = Some(500);
        // After each window there is an answer to be waited for.
        let window = |at: u64| Arrival { at_ns: 60 * MS + at * 5 * MS, bytes: 1_000 };
        let arrivals: Vec<_> = (1..=160).map(window).collect();
        let seen = [Seen { arrivals: &arrivals, ..received(&whole) }];
        let sample = Sample {
            before_ns: None,
            command_at_ns: None,
            first_byte_ns: None,
            direction: Direction::Received,
            bytes: 160_000,
            total_ns: 860 * MS,
            command_ns: None,
            data_connect_ns: None,
            data_tls_ns: None,
            data_ns: None,
            confirm_ns: None,
            cpu_ns: None,
            is_beginning: false,
        };
        let told = of_tftp(&seen, &[sample], None);
        assert_eq!(told.iter().map(|one| one.foretold_ns).collect::<Vec<_>>(), [860 * MS]);
    }
}
