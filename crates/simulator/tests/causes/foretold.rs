//! Predictions from a short probe, compared with a longer session: fifty paths drawn from a seed,
//! of 19 kbit/s to 20 Mbit/s and 2 to 150 ms, and fifty that the model was not developed with, of
//! 9,600 bit/s to 100 Mbit/s and 1 to 300 ms.
//!
//! Also files over fifty long fast paths, of 40 to 200 Mbit/s and 50 to 200 ms, between hosts whose
//! buffers grow: the probe is a sixteenth of each file, in a separate connection, and slow start
//! takes most of it.
//!
//! Like that of `plumb measure`, the probe has pieces of one line, of six and of eighteen. Its
//! loaded part is four times as long as the contents of both ends' buffers: in a shorter one they
//! do not fill, and the echo during it is not representative. The predicted transfer is five times
//! as long.

use crate::probe::Stage;
use crate::scene::Scene;
use protocols::chance::Chance;
use protocols::time::Duration;
use protocols::transport::tcp::{Profile, ReceiveWindow, SendLimit};
use records::prediction::Model;
use records::statistics::median;

const TRIALS: u64 = 50;

/// Predicted and measured times of a trial, ns.
struct Trial {
    screenful: [u64; 2],
    loaded_echo: Option<[u64; 2]>,
    transfer: [u64; 2],
}

/// Draws log-uniformly from `least` to `most`.
fn drawn(chance: &mut Chance, least: f64, most: f64) -> f64 {
    let part = chance.below(1 << 20) as f64 / f64::from(1 << 20);
    least * (most / least).powf(part)
}

/// Ranges from which paths are drawn.
struct Ways {
    rates_bps: [f64; 2],
    trips_s: [f64; 2],
}

/// Ranges that the model was developed with.
const KNOWN: Ways = Ways { rates_bps: [19_200.0, 20e6], trips_s: [0.002, 0.150] };
/// Ranges beyond those.
const UNKNOWN: Ways = Ways { rates_bps: [9_600.0, 100e6], trips_s: [0.001, 0.300] };

fn trial(seed: u64, ways: &Ways) -> Trial {
    let mut chance = Chance::from_seed(seed);
    let [least, most] = ways.rates_bps;
    let rate_bps = drawn(&mut chance, least, most);
    let [least, most] = ways.trips_s;
    let trip = Duration::from_secs_f64(drawn(&mut chance, least, most));
    let window = (rate_bps / 8.0 * drawn(&mut chance, 0.1, 1.5)).clamp(4_000.0, 64_000.0) as usize;
    let mut scene = Scene::healthy(trip, seed);
    scene.way.rate_bps = rate_bps as u64;
    scene.way.queue_bytes = (rate_bps / 8.0 * 0.5).max(20_000.0) as u64;
    scene.far.think = Duration::from_secs_f64(drawn(&mut chance, 0.000_1, 0.010));
    scene.near.receive_window = ReceiveWindow::Bytes(window);
    let send_buffer = drawn(&mut chance, 4_000.0, 32_000.0) as usize;
    scene.far.profile.send_limit = SendLimit::Bytes(send_buffer);
    let with = |stages: Vec<Stage>| Scene { stages, ..scene.clone() }.observe();
    let opening = [Stage::Prompt, Stage::Login, Stage::Echo(10)];
    let pieces = [1, 6, 18].map(|lines| Stage::Download { bytes: lines * 82 });
    let load = [Stage::Load { bytes: (window + send_buffer) * 4 }];
    let short = [pieces.as_slice(), &load].concat();
    let long = (window + send_buffer) * 20;
    let probe = with([opening.as_slice(), &short].concat());
    let model = Model::of(&probe).unwrap();
    let stages = [Stage::Screenful, Stage::Load { bytes: long }, Stage::Download { bytes: long }];
    let seen = with([opening.as_slice(), &stages].concat());
    let screen = seen.screenful.as_ref().unwrap();
    let transfer = &seen.transfers[1];
    let loaded = seen.echo_under_load.as_ref().and_then(|echo| median(&echo.samples_ns));
    Trial {
        screenful: [model.flow_ns(screen.bytes), screen.elapsed_ns],
        loaded_echo: model
            .echo_under_load_ns()
            .zip(loaded)
            .map(|(foretold, measured)| [foretold, measured]),
        transfer: [model.flow_ns(transfer.bytes), transfer.elapsed_ns],
    }
}

/// Returns the relative difference of the predicted from the measured time, in thousandths.
fn error([foretold, measured]: [u64; 2]) -> u64 {
    foretold.abs_diff(measured) * 1_000 / measured.max(1)
}

/// Returns the errors of fifty paths, in thousandths, and a table of them.
fn errors(first_seed: u64, ways: &Ways) -> (Vec<u64>, String) {
    let seeds = first_seed..first_seed + TRIALS;
    let trials: Vec<Trial> = seeds.map(|seed| trial(seed, ways)).collect();
    let screenful = trials.iter().map(|trial| error(trial.screenful)).collect();
    let loaded = trials.iter().filter_map(|trial| trial.loaded_echo.map(error)).collect();
    let transfer = trials.iter().map(|trial| error(trial.transfer)).collect();
    let mut table = "foretold               median error   off by more than a tenth\n".to_owned();
    let all: [(&str, Vec<u64>); 3] =
        [("a screenful", screenful), ("an echo under load", loaded), ("a transfer", transfer)];
    let mut medians = Vec::new();
    for (name, errors) in all {
        table += &row(name, &errors);
        medians.push(median(&errors).unwrap());
    }
    (medians, table)
}

/// Returns a row of the table.
fn row(name: &str, errors: &[u64]) -> String {
    let (middle, count) = (median(errors).unwrap(), errors.len());
    let worse = errors.iter().filter(|error| **error > GOAL).count();
    let (whole, tenth) = (middle / 10, middle % 10);
    format!("{name:20}   {whole:>4}.{tenth} %          {worse} of {count}\n")
}

/// Returns the time of a file predicted from a sixteenth of it, and the measured time, ns: over a
/// long fast path, with a new connection each.
fn long_and_fast(seed: u64) -> [u64; 2] {
    let mut chance = Chance::from_seed(seed);
    let rate_bps = drawn(&mut chance, 40e6, 200e6);
    let trip_s = drawn(&mut chance, 0.05, 0.2);
    let mut scene = Scene::healthy(Duration::from_secs_f64(trip_s), seed);
    scene.way.rate_bps = rate_bps as u64;
    scene.way.queue_bytes = (rate_bps / 8.0 * trip_s * drawn(&mut chance, 0.5, 2.0)) as u64;
    scene.near = Profile::BULK;
    scene.far.profile = Profile { nagle: false, ..Profile::BULK };
    let bytes = (rate_bps / 8.0 * drawn(&mut chance, 1.0, 3.0)) as usize;
    let file = |bytes| {
        let stages = vec![Stage::Prompt, Stage::Login, Stage::Download { bytes }];
        Scene { stages, ..scene.clone() }.observe()
    };
    let model = Model::of(&file(bytes / 16)).unwrap();
    let whole = &file(bytes).transfers[0];
    [model.flow_ns(whole.bytes), whole.elapsed_ns]
}

/// Maximum median error, in thousandths.
const GOAL: u64 = 100;

#[test]
fn what_a_short_probe_foretells_is_within_a_tenth_of_what_is_measured_then() {
    let (medians, table) = errors(1, &KNOWN);
    println!("{table}");
    assert!(medians.iter().all(|middle| *middle <= GOAL), "{table}");
}

#[test]
fn ways_that_the_model_was_not_made_on_are_foretold_as_well() {
    let (medians, table) = errors(1_001, &UNKNOWN);
    println!("{table}");
    assert!(medians.iter().all(|middle| *middle <= GOAL), "{table}");
}

#[test]
fn files_over_long_fast_ways_are_foretold_as_well() {
    let errors: Vec<u64> = (1..=TRIALS).map(|seed| error(long_and_fast(seed))).collect();
    let table = row("a file, far and fast", &errors);
    println!("{table}");
    assert!(median(&errors).unwrap() <= GOAL, "{table}");
}
