//! Test that compares the predictions of `plumb measure` for real servers with its measurements: at
//! least fifty sessions of each kind, over paths of 0.5 to 100 Mbit/s and 2 to 100 ms.
//!
//! Each trial has two network namespaces: the server's with 10.0.0.1 and plumb's with 10.0.0.2. The
//! test takes some minutes, so it runs only with `./x test --long`. `cargo test -p plumbline --test
//! predicted -- --include-ignored --nocapture` prints each trial. If `PLUMB_PREDICTED` names a
//! server, only the trials of this server run, and the test prints their predictions without a
//! check.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "a table is for people")]

mod predicted {
    pub(crate) mod network_path;
    pub(crate) mod server_programs;
}

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use predicted::network_path::{Limiter, NetworkPath};
use predicted::server_programs::{Peer, TempDirectory, plumb};
use records::Measurement;
use records::prediction::{Prediction, Quantity};
use records::statistics::median;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// One server behind one path.
#[derive(Clone, Copy, Debug)]
struct Trial {
    peer: Peer,
    path: NetworkPath,
}

const fn with_tbf(path: NetworkPath) -> NetworkPath {
    NetworkPath { limiter: Limiter::Tbf, ..path }
}

const fn with_congestion_control(control: &'static str, path: NetworkPath) -> NetworkPath {
    NetworkPath { control, ..path }
}

const fn with_send_buffer(bytes: u32, path: NetworkPath) -> NetworkPath {
    NetworkPath { send_buffer: Some(bytes), ..path }
}

const LOGINS: [Peer; 3] = [Peer::InetutilsTelnetd, Peer::BusyboxTelnetd, Peer::PlumbLogin];
const LOGIN_PATHS: [NetworkPath; 22] = [
    NetworkPath::new(2, 1_000),
    with_tbf(NetworkPath::new(10, 2_000)),
    with_congestion_control("bbr", NetworkPath::new(20, 10_000)),
    NetworkPath::new(50, 1_000),
    with_tbf(NetworkPath::new(50, 20_000)),
    with_congestion_control("reno", NetworkPath::new(5, 50_000)),
    with_congestion_control("bbr", NetworkPath::new(2, 1_000)),
    with_congestion_control("bbr", NetworkPath::new(5, 2_000)),
    with_congestion_control("bbr", NetworkPath::new(10, 3_000)),
    with_send_buffer(20_000, with_congestion_control("bbr", NetworkPath::new(100, 2_000))),
    with_send_buffer(40_000, with_congestion_control("reno", NetworkPath::new(30, 2_000))),
    with_send_buffer(40_000, with_congestion_control("reno", NetworkPath::new(2, 3_000))),
    NetworkPath::new(20, 3_000),
    with_tbf(NetworkPath::new(30, 4_000)),
    // Send buffers so small that a short output fills them.
    with_send_buffer(8_000, NetworkPath::new(5, 500)),
    with_send_buffer(20_000, NetworkPath::new(2, 4_000)),
    with_send_buffer(20_000, NetworkPath::new(20, 2_000)),
    with_send_buffer(20_000, NetworkPath::new(50, 5_000)),
    with_send_buffer(20_000, with_tbf(NetworkPath::new(20, 1_000))),
    with_send_buffer(20_000, with_congestion_control("bbr", NetworkPath::new(10, 8_000))),
    with_send_buffer(40_000, with_congestion_control("reno", NetworkPath::new(10, 5_000))),
    with_send_buffer(40_000, NetworkPath::new(30, 1_500)),
];
const FTP: [Peer; 4] = [Peer::Vsftpd, Peer::PureFtpd, Peer::Proftpd, Peer::PlumbFtp];
const FTP_PATHS: [NetworkPath; 12] = [
    NetworkPath::new(2, 1_000),
    with_tbf(NetworkPath::new(10, 5_000)),
    with_congestion_control("bbr", NetworkPath::new(20, 10_000)),
    with_congestion_control("reno", NetworkPath::new(50, 2_000)),
    NetworkPath::new(20, 50_000),
    with_tbf(NetworkPath::new(5, 100_000)),
    // Long fast paths, on which slow start takes most of a probe.
    NetworkPath::new(50, 40_000),
    NetworkPath::new(80, 50_000),
    with_congestion_control("reno", NetworkPath::new(60, 40_000)),
    NetworkPath::new(100, 100_000),
    // Send buffers smaller than the path's bandwidth-delay product, and a path without a rate
    // limit.
    with_send_buffer(20_000, NetworkPath::new(50, 100_000)),
    NetworkPath { rate_kbps: None, ..NetworkPath::new(2, 0) },
];
const TFTP: [Peer; 3] = [Peer::TftpdHpa, Peer::Atftpd, Peer::PlumbTftp];
const TFTP_PATHS: [NetworkPath; 4] = [
    NetworkPath::new(2, 10_000),
    NetworkPath::new(10, 1_000),
    NetworkPath::new(20, 100_000),
    NetworkPath::new(50, 2_000),
];

fn trials() -> Vec<Trial> {
    let all: [(&[Peer], &[NetworkPath]); 3] =
        [(&LOGINS, &LOGIN_PATHS), (&FTP, &FTP_PATHS), (&TFTP, &TFTP_PATHS)];
    let trials_of = |(peers, paths): (&'static [Peer], &'static [NetworkPath])| {
        let trials_of_path = |path: &'static NetworkPath| {
            peers.iter().map(|peer| Trial { peer: *peer, path: *path })
        };
        paths.iter().flat_map(trials_of_path)
    };
    all.into_iter().flat_map(trials_of).collect()
}

impl Trial {
    /// Returns the size of the transferred file, in bytes.
    fn file_bytes(&self) -> u64 {
        match self.peer {
            // tftpd-hpa waits for an ACK after each block or window, so the round trip limits its
            // rate.
            Peer::TftpdHpa => {
                if self.path.round_trip_ms < 10 {
                    400_000
                } else {
                    100_000
                }
            }
            Peer::Atftpd | Peer::PlumbTftp => 1_000_000,
            // Two seconds at the path's rate. The minimum is a file of which a sixteenth is still a
            // useful probe.
            _ => {
                let two_seconds = self.path.rate_kbps.unwrap_or(100_000) * 1_000 / 8 * 2;
                two_seconds.clamp(500_000, 12 << 20)
            }
        }
    }

    /// Runs `plumb measure` in the network namespace of this thread, and returns its predictions.
    fn predictions(&self) -> Vec<Prediction> {
        let directory = TempDirectory::with_file(self.file_bytes());
        let network = self.path.set_up();
        let peer = self.peer;
        let server = thread::scope(|scope| {
            let start = || {
                network.enter().unwrap();
                peer.start(&directory)
            };
            scope.spawn(start).join().unwrap()
        });
        let mut command = plumb(&directory);
        command.args(["measure", "--json", "--keys", "5", "--rounds", "2", &self.peer.url()]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        drop(server);
        assert!(output.status.success(), "{self:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        Measurement::from_json(&text).unwrap().predictions
    }

    /// Runs the trial in a new thread, which creates the network namespaces, and prints the
    /// predictions.
    fn run(self) -> Vec<Prediction> {
        let started_at = Instant::now();
        let predictions = thread::spawn(move || self.predictions()).join();
        let predictions = predictions.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let elapsed_s = started_at.elapsed().as_secs_f64();
        println!("{:18}  {:40}  {elapsed_s:.1} s", self.peer.name(), self.path.to_string());
        for one in &predictions {
            println!(
                "{:18}  {:40}  {:25}  {:>9} bytes  {:>8.1} ms  {:>8.1} ms  {:>6.1} %",
                self.peer.name(),
                self.path.to_string(),
                one.quantity.text(),
                one.bytes,
                one.predicted_ns as f64 / 1e6,
                one.measured_ns.unwrap_or(0) as f64 / 1e6,
                one.off_per_mille().unwrap_or(0) as f64 / 10.0,
            );
        }
        predictions
    }
}

/// Number of concurrent trials. Most of a trial is waiting for the path.
const CONCURRENT_TRIALS: usize = 5;
/// Largest accepted median error, in thousandths.
const MAX_MEDIAN_ERROR_PER_MILLE: u64 = 200;
/// Smallest accepted number of sessions with a prediction of each kind.
const MIN_SESSIONS: usize = 50;

/// Runs all trials, and returns the predictions of each.
fn run_all(trials: Vec<Trial>) -> Vec<Vec<Prediction>> {
    let waiting = Mutex::new(trials.into_iter());
    let all_predictions = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..CONCURRENT_TRIALS {
            scope.spawn(|| {
                loop {
                    let Some(trial) = waiting.lock().unwrap().next() else { break };
                    let predictions = trial.run();
                    all_predictions.lock().unwrap().push(predictions);
                }
            });
        }
    });
    all_predictions.into_inner().unwrap()
}

/// Prints the errors of the predictions of `what`. Returns the number of sessions with such a
/// prediction, and the median error in thousandths.
fn errors_of(what: Quantity, all: &[Vec<Prediction>]) -> (usize, u64) {
    let errors_of_session = |found: &Vec<Prediction>| {
        let predictions = found.iter().filter(|prediction| prediction.quantity == what);
        predictions
            .filter_map(Prediction::off_per_mille)
            .map(i64::unsigned_abs)
            .collect::<Vec<u64>>()
    };
    let sessions: Vec<Vec<u64>> = all.iter().map(errors_of_session).collect();
    let count = sessions.iter().filter(|errors| !errors.is_empty()).count();
    let errors = sessions.concat();
    let median_error = median(&errors).unwrap_or(u64::MAX);
    let large_error_count =
        errors.iter().filter(|error| **error > MAX_MEDIAN_ERROR_PER_MILLE).count();
    let predictions = all.iter().flatten().filter(|prediction| prediction.quantity == what);
    let in_range: Vec<bool> = predictions.filter_map(Prediction::is_in_range).collect();
    println!(
        "{:25}  {count} sessions, median error {}.{} %, {large_error_count} of {} off by more than a fifth, {} \
         of {} in their range",
        what.text(),
        median_error / 10,
        median_error % 10,
        errors.len(),
        in_range.iter().filter(|is_in_range| **is_in_range).count(),
        in_range.len()
    );
    (count, median_error)
}

#[test]
#[ignore = "needs root, network namespaces, and the servers; long"]
fn predictions_for_real_servers_are_within_a_fifth_of_the_measurements() {
    let wanted = std::env::var("PLUMB_PREDICTED").unwrap_or_default();
    let mut trials = trials();
    trials.retain(|trial| trial.peer.name().contains(&wanted));
    let all = run_all(trials);
    let mut failures = Vec::new();
    for what in [Quantity::Screenful, Quantity::EchoUnderLoad, Quantity::Received] {
        let (count, median_error) = errors_of(what, &all);
        if count < MIN_SESSIONS {
            failures.push(format!("{}: {count} sessions instead of {MIN_SESSIONS}", what.text()));
        }
        if median_error > MAX_MEDIAN_ERROR_PER_MILLE {
            failures.push(format!("{}: {median_error} of a thousand", what.text()));
        }
    }
    assert!(failures.is_empty() || !wanted.is_empty(), "{failures:?}");
}
