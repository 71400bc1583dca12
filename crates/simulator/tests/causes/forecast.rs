//! Tests that compare predictions from a short probe with a longer session, on a hundred random
//! paths. Fifty paths have rates of 19 kbit/s to 20 Mbit/s and round-trip times of 2 to 150 ms. The
//! other fifty have wider ranges (9,600 bit/s to 100 Mbit/s and 1 to 300 ms) that were not used in
//! the development of the model.
//!
//! A second test predicts file transfers over fifty long fast paths (40 to 200 Mbit/s, 50 to 200
//! ms) between hosts whose buffers grow. The probe transfers a sixteenth of each file over a
//! separate connection, and spends most of its time in slow start.
//!
//! Like the probe of `plumb measure`, the probe of the first test downloads one, six and eighteen
//! lines of text. It also measures echoes during a transfer. This transfer has four times as many
//! bytes as the buffers of both ends can hold, because a shorter one does not fill the buffers and
//! its echo times would not be representative. The predicted transfer is five times as long.

use crate::observed_session::Session;
use crate::probe::Stage;
use net::rng::Rng;
use net::time::Duration;
use net::transport::tcp::{Profile, ReceiveWindow, SendLimit};
use records::prediction::Model;
use records::statistics::median;

const TRIALS: u64 = 50;

/// Predicted and measured times of a trial, in ns.
struct Trial {
    screenful: [u64; 2],
    loaded_echo: Option<[u64; 2]>,
    transfer: [u64; 2],
}

/// Returns a log-uniformly distributed random value from `min` to `max`.
fn log_uniform(rng: &mut Rng, min: f64, max: f64) -> f64 {
    let part = rng.below(1 << 20) as f64 / f64::from(1 << 20);
    min * (max / min).powf(part)
}

/// Ranges of the parameters of random paths.
struct PathRanges {
    rates_bps: [f64; 2],
    trips_s: [f64; 2],
}

/// Ranges of the paths with which the model was developed.
const DEVELOPMENT_RANGES: PathRanges =
    PathRanges { rates_bps: [19_200.0, 20e6], trips_s: [0.002, 0.150] };
/// Wider ranges than [`DEVELOPMENT_RANGES`].
const WIDER_RANGES: PathRanges =
    PathRanges { rates_bps: [9_600.0, 100e6], trips_s: [0.001, 0.300] };

fn trial(seed: u64, ranges: &PathRanges) -> Trial {
    let mut rng = Rng::from_seed(seed);
    let [min, max] = ranges.rates_bps;
    let rate_bps = log_uniform(&mut rng, min, max);
    let [min, max] = ranges.trips_s;
    let trip = Duration::from_secs_f64(log_uniform(&mut rng, min, max));
    let window =
        (rate_bps / 8.0 * log_uniform(&mut rng, 0.1, 1.5)).clamp(4_000.0, 64_000.0) as usize;
    let mut session = Session::healthy(trip, seed);
    session.path.rate_bps = rate_bps as u64;
    session.path.queue_bytes = (rate_bps / 8.0 * 0.5).max(20_000.0) as u64;
    session.server.think = Duration::from_secs_f64(log_uniform(&mut rng, 0.000_1, 0.010));
    session.client.receive_window = ReceiveWindow::Bytes(window);
    let send_buffer = log_uniform(&mut rng, 4_000.0, 32_000.0) as usize;
    session.server.profile.send_limit = SendLimit::Bytes(send_buffer);
    let observe_stages = |stages: Vec<Stage>| Session { stages, ..session.clone() }.observe();
    let opening = [Stage::Prompt, Stage::Login, Stage::Echo(10)];
    let pieces = [1, 6, 18].map(|lines| Stage::Download { bytes: lines * 82 });
    let load = [Stage::Load { bytes: (window + send_buffer) * 4 }];
    let probe_stages = [pieces.as_slice(), &load].concat();
    let long_bytes = (window + send_buffer) * 20;
    let probe = observe_stages([opening.as_slice(), &probe_stages].concat());
    let model = Model::of(&probe).unwrap();
    let stages = [
        Stage::Screenful,
        Stage::Load { bytes: long_bytes },
        Stage::Download { bytes: long_bytes },
    ];
    let observation = observe_stages([opening.as_slice(), &stages].concat());
    let screen = observation.screenful.as_ref().unwrap();
    let transfer = &observation.transfers[1];
    let loaded = observation.echo_under_load.as_ref().and_then(|echo| median(&echo.samples_ns));
    Trial {
        screenful: [model.flow_ns(screen.bytes), screen.elapsed_ns],
        loaded_echo: model
            .echo_under_load_ns()
            .zip(loaded)
            .map(|(predicted, measured)| [predicted, measured]),
        transfer: [model.flow_ns(transfer.bytes), transfer.elapsed_ns],
    }
}

/// Returns the relative difference between the predicted and the measured time, in thousandths.
fn error([predicted, measured]: [u64; 2]) -> u64 {
    predicted.abs_diff(measured) * 1_000 / measured.max(1)
}

/// Returns the prediction errors of fifty random paths, in thousandths, and a table of these
/// errors.
fn errors(first_seed: u64, ranges: &PathRanges) -> (Vec<u64>, String) {
    let seeds = first_seed..first_seed + TRIALS;
    let trials: Vec<Trial> = seeds.map(|seed| trial(seed, ranges)).collect();
    let screenful = trials.iter().map(|trial| error(trial.screenful)).collect();
    let loaded = trials.iter().filter_map(|trial| trial.loaded_echo.map(error)).collect();
    let transfer = trials.iter().map(|trial| error(trial.transfer)).collect();
    let mut table = "predicted              median error   off by more than a tenth\n".to_owned();
    let all: [(&str, Vec<u64>); 3] =
        [("a screenful", screenful), ("an echo under load", loaded), ("a transfer", transfer)];
    let mut medians = Vec::new();
    for (name, errors) in all {
        table += &row(name, &errors);
        medians.push(median(&errors).unwrap());
    }
    (medians, table)
}

/// Returns a row of the table of errors.
fn row(name: &str, errors: &[u64]) -> String {
    let median_error = median(errors).unwrap();
    let count = errors.len();
    let large_errors = errors.iter().filter(|error| **error > MEDIAN_ERROR_MAX).count();
    let percent = median_error / 10;
    let tenth = median_error % 10;
    format!("{name:20}   {percent:>4}.{tenth} %          {large_errors} of {count}\n")
}

/// Returns the predicted and the measured time of a file transfer over a random long fast path, in
/// ns. The prediction is based on a transfer of a sixteenth of the file in a separate connection.
fn predict_on_long_fast_path(seed: u64) -> [u64; 2] {
    let mut rng = Rng::from_seed(seed);
    let rate_bps = log_uniform(&mut rng, 40e6, 200e6);
    let trip_s = log_uniform(&mut rng, 0.05, 0.2);
    let mut session = Session::healthy(Duration::from_secs_f64(trip_s), seed);
    session.path.rate_bps = rate_bps as u64;
    session.path.queue_bytes = (rate_bps / 8.0 * trip_s * log_uniform(&mut rng, 0.5, 2.0)) as u64;
    session.client = Profile::BULK;
    session.server.profile = Profile { nagle: false, ..Profile::BULK };
    let bytes = (rate_bps / 8.0 * log_uniform(&mut rng, 1.0, 3.0)) as usize;
    let file = |bytes| {
        let stages = vec![Stage::Prompt, Stage::Login, Stage::Download { bytes }];
        Session { stages, ..session.clone() }.observe()
    };
    let model = Model::of(&file(bytes / 16)).unwrap();
    let transfer = &file(bytes).transfers[0];
    [model.flow_ns(transfer.bytes), transfer.elapsed_ns]
}

/// Maximum permitted median error, in thousandths.
const MEDIAN_ERROR_MAX: u64 = 100;

#[test]
fn predictions_from_a_short_probe_are_within_a_tenth_of_the_measurement() {
    let (medians, table) = errors(1, &DEVELOPMENT_RANGES);
    println!("{table}");
    assert!(medians.iter().all(|median_error| *median_error <= MEDIAN_ERROR_MAX), "{table}");
}

#[test]
fn predictions_hold_on_paths_beyond_the_development_ranges() {
    let (medians, table) = errors(1_001, &WIDER_RANGES);
    println!("{table}");
    assert!(medians.iter().all(|median_error| *median_error <= MEDIAN_ERROR_MAX), "{table}");
}

#[test]
fn predictions_hold_for_files_over_long_fast_paths() {
    let errors: Vec<u64> =
        (1..=TRIALS).map(|seed| error(predict_on_long_fast_path(seed))).collect();
    let table = row("a long fast path", &errors);
    println!("{table}");
    assert!(median(&errors).unwrap() <= MEDIAN_ERROR_MAX, "{table}");
}
