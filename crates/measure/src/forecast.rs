//! Predictions of file transfers, each computed only from observations made before the predicted
//! transfer.
//!
//! A file transfer is predicted from its probes: earlier transfers of at most a quarter of its
//! size. TFTP has no login before the data, so its probe is the first quarter of the largest
//! transfer.

use records::prediction::{FileModel, Forecast, Model, Prediction, Quantity};
use records::sizes::Sample;
use records::statistics::median;
use records::verdict::{Direction, FileTransfer, Flow, FlowCounts, Observation, Path};

/// A transfer is a probe for a file if its size is at most the size of the file divided by this
/// number.
const PROBE_SIZE_DIVISOR: u64 = 4;
/// Files of at most the largest size divided by this number are not predicted, because their
/// transfers are short.
const SMALL_FILE_DIVISOR: u64 = 16;

const DIRECTIONS: [Direction; 2] = [Direction::Incoming, Direction::Outgoing];

const fn quantity(direction: Direction) -> Quantity {
    match direction {
        Direction::Incoming => Quantity::Received,
        Direction::Outgoing => Quantity::Sent,
    }
}

/// Predicts the large FTP transfers of `earlier_transfers`, which is in chronological order, from
/// the small transfers before them. If `estimate_bytes` is specified, also predicts a file of that
/// size from all transfers. `connect_ns` is the time in which the control connection opened.
pub(super) fn of_ftp(
    earlier_transfers: &[FileTransfer],
    connect_ns: Option<u64>,
    estimate_bytes: Option<u64>,
) -> Vec<Prediction> {
    let mut all = Vec::new();
    for direction in DIRECTIONS {
        let same_direction = || {
            earlier_transfers
                .iter()
                .filter(|transfer| transfer.direction == direction && transfer.bytes > 0)
        };
        let largest_size = same_direction().map(|transfer| transfer.bytes).max().unwrap_or(0);
        let mut sizes: Vec<u64> = same_direction().map(|transfer| transfer.bytes).collect();
        sizes.retain(|bytes| *bytes > largest_size / SMALL_FILE_DIVISOR);
        sizes.sort_unstable();
        sizes.dedup();
        for bytes in sizes {
            let earlier = same_direction().take_while(|transfer| transfer.bytes != bytes);
            let probe: Vec<_> =
                earlier.filter(|transfer| transfer.bytes <= bytes / PROBE_SIZE_DIVISOR).collect();
            let times = same_direction()
                .filter(|transfer| transfer.bytes == bytes)
                .map(|transfer| transfer.total_ns);
            let measured_ns = median(&times.collect::<Vec<_>>());
            let model = FileModel::of(&observed(&probe, connect_ns));
            let prediction = model.and_then(|model| forecast(&model, direction, bytes));
            all.extend(
                prediction.zip(measured_ns).map(|(prediction, ns)| prediction.with_measured(ns)),
            );
        }
        let estimate = estimate_bytes.and_then(|bytes| {
            let model =
                FileModel::of(&observed(&same_direction().collect::<Vec<_>>(), connect_ns))?;
            forecast(&model, direction, bytes)
        });
        all.extend(estimate.map(Forecast::unmeasured));
    }
    all
}

/// Predicts the large TFTP transfers in `samples`. The prediction uses the beginning of the largest
/// transfer of `earlier_transfers`, or else the small transfers in `samples`. If `estimate_bytes`
/// is specified, also predicts a file of that size.
pub(super) fn of_tftp(
    earlier_transfers: &[FileTransfer],
    samples: &[Sample],
    estimate_bytes: Option<u64>,
) -> Vec<Prediction> {
    let mut all = Vec::new();
    for direction in DIRECTIONS {
        let samples: Vec<(u64, u64)> = samples
            .iter()
            .filter(|sample| Direction::from(sample.direction) == direction && sample.bytes > 0)
            .map(|sample| (sample.bytes, sample.total_ns))
            .collect();
        let same_direction =
            || earlier_transfers.iter().filter(|transfer| transfer.direction == direction);
        // The probe is the beginning of the first of the largest transfers, which precedes every
        // predicted event.
        let largest_size = same_direction().map(|transfer| transfer.bytes).max().unwrap_or(0);
        let Some(largest) = same_direction().find(|transfer| transfer.bytes == largest_size) else {
            continue;
        };
        let window = window_bytes(largest);
        let mut sizes: Vec<u64> = samples.iter().map(|(bytes, _)| *bytes).collect();
        sizes.retain(|bytes| *bytes > largest_size / SMALL_FILE_DIVISOR);
        sizes.sort_unstable();
        sizes.dedup();
        for bytes in sizes {
            let times = samples.iter().filter(|(size, _)| *size == bytes).map(|(_, ns)| *ns);
            let measured_ns = median(&times.collect::<Vec<_>>());
            let smaller: Vec<_> =
                samples.iter().filter(|(n, _)| *n <= bytes / PROBE_SIZE_DIVISOR).copied().collect();
            let prediction = of_windows(largest, bytes / PROBE_SIZE_DIVISOR)
                .and_then(|model| forecast(&model, direction, bytes))
                .or_else(|| of_sizes(&smaller, window, direction, bytes));
            all.extend(
                prediction.zip(measured_ns).map(|(prediction, ns)| prediction.with_measured(ns)),
            );
        }
        let estimate = estimate_bytes.and_then(|bytes| {
            of_windows(largest, largest_size)
                .and_then(|model| forecast(&model, direction, bytes))
                .or_else(|| of_sizes(&samples, window, direction, bytes))
        });
        all.extend(estimate.map(Forecast::unmeasured));
    }
    all
}

fn forecast(model: &FileModel, direction: Direction, bytes: u64) -> Option<Forecast> {
    let estimate = model.estimate(bytes)?;
    Some(Forecast {
        quantity: quantity(direction),
        bytes,
        predicted_ns: estimate.ns,
        range_ns: Some(estimate.range_ns),
    })
}

/// Returns the observation of transfers by FTP, each from its command to its last reply.
fn observed(earlier_transfers: &[&FileTransfer], connect_ns: Option<u64>) -> Observation {
    let flow = |transfer: &&FileTransfer| Flow {
        direction: transfer.direction,
        bytes: transfer.bytes,
        elapsed_ns: transfer.total_ns,
        arrivals: transfer.arrivals.clone(),
        counts: counts(transfer),
        ..Flow::default()
    };
    let tcp = || earlier_transfers.iter().map(|transfer| &transfer.tcp);
    let mut observed = Observation {
        transfers: earlier_transfers.iter().map(flow).collect(),
        path: Path {
            min_rtt_ns: tcp().filter_map(|tcp| tcp.min_rtt_ns.or(tcp.rtt_ns)).min(),
            mss_bytes: tcp().flat_map(|tcp| [tcp.rcv_mss, tcp.snd_mss]).flatten().max(),
            ..Path::default()
        },
        ..Observation::default()
    };
    observed.steps.connect_ns = connect_ns;
    observed
}

/// Minimum initial window in bytes of a kernel with window auto-tuning: 64 KiB less overhead. A
/// smaller initial window is regarded as fixed.
const AUTO_TUNED_WINDOW_MIN_BYTES: u64 = 50_000;

/// Returns TCP's counters of lost segments, and the window if it is so small that it limits longer
/// transfers.
fn counts(transfer: &FileTransfer) -> FlowCounts {
    let tcp = &transfer.tcp;
    let window_bytes = match transfer.direction {
        Direction::Incoming => transfer.own_window_bytes,
        Direction::Outgoing => transfer.peer_window_bytes.map(|[_, largest]| largest),
    };
    let retransmissions =
        tcp.total_retrans.map(|all| all.saturating_sub(tcp.dsack_dups.unwrap_or(0)));
    FlowCounts {
        window_bytes: window_bytes.filter(|bytes| (1..AUTO_TUNED_WINDOW_MIN_BYTES).contains(bytes)),
        retransmissions,
        out_of_order_in: tcp.rcv_ooopack,
        ..FlowCounts::default()
    }
}

/// Returns a model of the TFTP transfer `file`, derived from the complete windows within its first
/// `max_bytes` bytes.
fn of_windows(file: &FileTransfer, max_bytes: u64) -> Option<FileModel> {
    let window = window_bytes(file)?;
    // A model needs at least two complete windows.
    let wanted_bytes = window.saturating_mul(Some(max_bytes / window).filter(|count| *count >= 2)?);
    let mut bytes = 0_u64;
    let is_within = |arrival: &&records::verdict::Arrival| {
        let starts_before_limit = bytes < wanted_bytes;
        bytes = bytes.saturating_add(arrival.bytes);
        starts_before_limit
    };
    let arrivals: Vec<_> = file.arrivals.iter().take_while(is_within).copied().collect();
    FileModel::in_lock_step(&arrivals, window)
}

/// Returns the number of bytes after which a TFTP transfer waits for an answer.
fn window_bytes(transfer: &FileTransfer) -> Option<u64> {
    transfer.window_blocks?.checked_mul(transfer.block_bytes?).filter(|bytes| *bytes > 0)
}

/// Predicts a TFTP transfer from the smallest and the largest of `files`, which are `(bytes, ns)`.
/// Returns `None` if all files are shorter than two windows: their times do not contain the wait
/// for an acknowledgment, which a longer transfer repeats for each window.
fn of_sizes(
    files: &[(u64, u64)],
    window_bytes: Option<u64>,
    direction: Direction,
    bytes: u64,
) -> Option<Forecast> {
    let largest_bytes = files.iter().map(|(bytes, _)| *bytes).max()?;
    if largest_bytes < window_bytes?.saturating_mul(2) {
        return None;
    }
    let times = |bytes: u64| {
        let same_size = files.iter().filter(|(other, _)| *other == bytes);
        Some((bytes, median(&same_size.map(|(_, ns)| *ns).collect::<Vec<_>>())?))
    };
    let sizes = files.iter().map(|(bytes, _)| *bytes);
    let model = Model::in_lock_step(times(sizes.min()?)?, times(largest_bytes)?)?;
    let predicted_ns = model.flow_ns(bytes);
    Some(Forecast { quantity: quantity(direction), bytes, predicted_ns, range_ns: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::sizes;
    use records::verdict::{Arrival, DataTcp};

    const MS: u64 = 1_000_000;

    /// Returns a transfer whose data begins 60 ms after the command and takes 1 ms for each 1,000
    /// bytes.
    fn file(bytes: u64) -> FileTransfer {
        let packet = |at: u64| Arrival { at_ns: (60 + at) * MS, bytes: 1_000 };
        FileTransfer {
            bytes,
            total_ns: 60 * MS + bytes * 1_000,
            arrivals: (1..=bytes / 1_000).map(packet).collect(),
            tcp: DataTcp { min_rtt_ns: Some(2 * MS), rcv_mss: Some(1_000), ..DataTcp::default() },
            ..FileTransfer::default()
        }
    }

    #[test]
    fn small_files_predict_large_files_and_a_file_that_is_not_transferred() {
        let earlier_transfers = [1_000, 4_000, 10_000, 40_000, 160_000].map(file);
        let predictions = of_ftp(&earlier_transfers, None, Some(1_000_000));
        let sizes: Vec<_> = predictions.iter().map(|one| (one.bytes, one.measured_ns)).collect();
        let expected = [(40_000, Some(100 * MS)), (160_000, Some(220 * MS)), (1_000_000, None)];
        assert_eq!(sizes, expected);
        let deviations = predictions.iter().filter_map(Prediction::off_per_mille);
        assert!(
            deviations.clone().count() == 2 && deviations.into_iter().all(|off| off.abs() < 10),
            "{predictions:?}"
        );
        assert!(predictions.iter().all(|one| one.range_ns.is_some()), "{predictions:?}");
        assert!(
            predictions.iter().filter_map(Prediction::is_in_range).all(|is_in| is_in),
            "{predictions:?}"
        );
    }

    #[test]
    fn a_file_is_predicted_from_earlier_transfers_of_at_most_a_quarter_of_its_size() {
        let earlier_transfers = [file(100_000), file(160_000)];
        assert_eq!(of_ftp(&earlier_transfers, None, None), []);
        let earlier_transfers = [file(160_000), file(40_000)];
        assert_eq!(of_ftp(&earlier_transfers, None, None), []);
        let earlier_transfers = [file(40_000), file(160_000)];
        assert_eq!(of_ftp(&earlier_transfers, None, None).len(), 1);
    }

    #[test]
    fn an_upload_is_predicted_from_its_acknowledgments() {
        let sent = |bytes| FileTransfer { direction: Direction::Outgoing, ..file(bytes) };
        let earlier_transfers = [4_000, 16_000, 64_000, 256_000].map(sent);
        let predictions = of_ftp(&earlier_transfers, None, None);
        assert_eq!(
            predictions.iter().map(|one| one.quantity).collect::<Vec<_>>(),
            [Quantity::Sent; 2]
        );
        let deviations = predictions.iter().filter_map(Prediction::off_per_mille);
        assert!(deviations.into_iter().all(|off| off.abs() < 10), "{predictions:?}");
    }

    #[test]
    fn files_that_fit_into_one_window_do_not_predict_lock_step_transfers() {
        let files = [(1_024, 20 * MS), (4_096, 21 * MS)];
        let forecast_with_window =
            |window| of_sizes(&files, Some(window), Direction::Outgoing, 16_384);
        assert_eq!(forecast_with_window(16 * 1_428), None);
        assert!(forecast_with_window(512).is_some());
    }

    #[test]
    fn the_first_windows_of_a_file_predict_the_rest_of_it() {
        // The sender waits for an acknowledgment after each window.
        let window = |at: u64| Arrival { at_ns: 60 * MS + at * 5 * MS, bytes: 1_000 };
        let transfer = FileTransfer {
            bytes: 160_000,
            total_ns: 60 * MS + 160 * 5 * MS,
            window_blocks: Some(2),
            block_bytes: Some(500),
            arrivals: (1..=160).map(window).collect(),
            ..FileTransfer::default()
        };
        let sample = Sample {
            setup_ns: None,
            command_at_ns: None,
            first_byte_ns: None,
            direction: sizes::Direction::Received,
            bytes: 160_000,
            total_ns: 860 * MS,
            command_ns: None,
            data_connect_ns: None,
            data_tls_ns: None,
            data_ns: None,
            confirmation_ns: None,
            cpu_ns: None,
            is_partial: false,
        };
        let predictions = of_tftp(&[transfer], &[sample], None);
        assert_eq!(predictions.iter().map(|one| one.predicted_ns).collect::<Vec<_>>(), [860 * MS]);
    }
}
