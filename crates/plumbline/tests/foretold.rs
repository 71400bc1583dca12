//! What `plumb measure` foretells of real servers, beside what it then measures: fifty sessions and
//! more of each kind, over lines of 0.5 to 100 Mbit/s and 2 to 100 ms.
//!
//! Each trial has networks of its own: the server's with 10.0.0.1, plumb's with 10.0.0.2. It takes some
//! minutes, so it runs with `./x test --long` alone;
//! `cargo test -p plumbline --test foretold -- --include-ignored --nocapture` shows each trial, and
//! `PLUMB_FORETOLD` names the server whose trials alone are run, and then nothing is demanded.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::indexing_slicing, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "a table is for people")]

mod foretold {
    pub(crate) mod line;
    pub(crate) mod peers;
}

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use foretold::line::{Limiter, Line};
use foretold::peers::{Folder, Peer, plumb};
use records::Measurement;
use records::prediction::{Prediction, What};
use records::statistics::median;
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// A server over a line.
#[derive(Clone, Copy, Debug)]
struct Trial {
    peer: Peer,
    line: Line,
}

const fn by_tbf(line: Line) -> Line {
    Line { limiter: Limiter::Tbf, ..line }
}

const fn with(control: &'static str, line: Line) -> Line {
    Line { control, ..line }
}

const fn buffered(bytes: u32, line: Line) -> Line {
    Line { send_buffer: Some(bytes), ..line }
}

const LOGINS: [Peer; 3] = [Peer::InetutilsTelnetd, Peer::BusyboxTelnetd, Peer::PlumbLogin];
const LOGIN_LINES: [Line; 22] = [
    Line::new(2, 1_000),
    by_tbf(Line::new(10, 2_000)),
    with("bbr", Line::new(20, 10_000)),
    Line::new(50, 1_000),
    by_tbf(Line::new(50, 20_000)),
    with("reno", Line::new(5, 50_000)),
    with("bbr", Line::new(2, 1_000)),
    with("bbr", Line::new(5, 2_000)),
    with("bbr", Line::new(10, 3_000)),
    buffered(20_000, with("bbr", Line::new(100, 2_000))),
    buffered(40_000, with("reno", Line::new(30, 2_000))),
    buffered(40_000, with("reno", Line::new(2, 3_000))),
    Line::new(20, 3_000),
    by_tbf(Line::new(30, 4_000)),
    // Buffers that a short output fills.
    buffered(8_000, Line::new(5, 500)),
    buffered(20_000, Line::new(2, 4_000)),
    buffered(20_000, Line::new(20, 2_000)),
    buffered(20_000, Line::new(50, 5_000)),
    buffered(20_000, by_tbf(Line::new(20, 1_000))),
    buffered(20_000, with("bbr", Line::new(10, 8_000))),
    buffered(40_000, with("reno", Line::new(10, 5_000))),
    buffered(40_000, Line::new(30, 1_500)),
];
const FTP: [Peer; 4] = [Peer::Vsftpd, Peer::PureFtpd, Peer::Proftpd, Peer::PlumbFtp];
const FTP_LINES: [Line; 12] = [
    Line::new(2, 1_000),
    by_tbf(Line::new(10, 5_000)),
    with("bbr", Line::new(20, 10_000)),
    with("reno", Line::new(50, 2_000)),
    Line::new(20, 50_000),
    by_tbf(Line::new(5, 100_000)),
    // Long fast ways, on which slow start is most of a probe.
    Line::new(50, 40_000),
    Line::new(80, 50_000),
    with("reno", Line::new(60, 40_000)),
    Line::new(100, 100_000),
    // Windows that are smaller than what the way holds.
    buffered(20_000, Line::new(50, 100_000)),
    Line { rate_kbps: None, ..Line::new(2, 0) },
];
const TFTP: [Peer; 3] = [Peer::TftpdHpa, Peer::Atftpd, Peer::PlumbTftp];
const TFTP_LINES: [Line; 4] =
    [Line::new(2, 10_000), Line::new(10, 1_000), Line::new(20, 100_000), Line::new(50, 2_000)];

fn trials() -> Vec<Trial> {
    let all: [(&[Peer], &[Line]); 3] =
        [(&LOGINS, &LOGIN_LINES), (&FTP, &FTP_LINES), (&TFTP, &TFTP_LINES)];
    let of = |(peers, lines): (&'static [Peer], &'static [Line])| {
        let of_line =
            |line: &'static Line| peers.iter().map(|peer| Trial { peer: *peer, line: *line });
        lines.iter().flat_map(of_line)
    };
    all.into_iter().flat_map(of).collect()
}

impl Trial {
    /// Returns the size of the file that is moved, or the largest part of it.
    fn file_bytes(&self) -> u64 {
        match self.peer {
            // It waits for an answer after each block, and so does a window of ours.
            Peer::TftpdHpa => {
                if self.line.trip_ms < 10 {
                    400_000
                } else {
                    100_000
                }
            }
            Peer::Atftpd | Peer::PlumbTftp => 1_000_000,
            // Two seconds of the line, but enough for a sixteenth that says something.
            _ => {
                let two_seconds = self.line.rate_kbps.unwrap_or(100_000) * 1_000 / 8 * 2;
                two_seconds.clamp(500_000, 12 << 20)
            }
        }
    }

    /// Measures, in this thread's network, and returns what was foretold.
    fn predictions(&self) -> Vec<Prediction> {
        let folder = Folder::with_file(self.file_bytes());
        let network = self.line.laid();
        let peer = self.peer;
        let server = thread::scope(|scope| {
            let start = || {
                network.enter().unwrap();
                peer.start(&folder)
            };
            scope.spawn(start).join().unwrap()
        });
        let mut command = plumb(&folder);
        command.args(["measure", "--json", "--keys", "5", "--rounds", "2", &self.peer.url()]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        drop(server);
        assert!(output.status.success(), "{self:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        Measurement::from_json(&text).unwrap().predictions
    }

    /// Runs in a thread of its own, whose networks are the trial's, and prints the predictions.
    fn run(self) -> Vec<Prediction> {
        let began = Instant::now();
        let found = thread::spawn(move || self.predictions()).join();
        let found = found.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let took = began.elapsed().as_secs_f64();
        println!("{:18}  {:40}  {took:.1} s", self.peer.name(), self.line.to_string());
        for one in &found {
            println!(
                "{:18}  {:40}  {:25}  {:>9} bytes  {:>8.1} ms  {:>8.1} ms  {:>6.1} %",
                self.peer.name(),
                self.line.to_string(),
                one.what.text(),
                one.bytes,
                one.foretold_ns as f64 / 1e6,
                one.measured_ns.unwrap_or(0) as f64 / 1e6,
                one.off_per_mille().unwrap_or(0) as f64 / 10.0,
            );
        }
        found
    }
}

/// So many at a time: what a line takes is most of each.
const AT_A_TIME: usize = 5;
/// The goal, in thousandths.
const GOAL: u64 = 200;
/// So many sessions of each kind have to be foretold.
const TRIALS: usize = 50;

/// Runs all of `trials`, and returns each with what came of it.
fn run_all(trials: Vec<Trial>) -> Vec<Vec<Prediction>> {
    let (waiting, found) = (Mutex::new(trials.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some(trial) = waiting.lock().unwrap().next() else { break };
                    let came = trial.run();
                    found.lock().unwrap().push(came);
                }
            });
        }
    });
    found.into_inner().unwrap()
}

/// Says how far off the forecasts of `what` were, and returns in how many sessions there were any and
/// the median of their errors, in thousandths.
fn errors_of(what: What, all: &[Vec<Prediction>]) -> (usize, u64) {
    let of_it = |found: &Vec<Prediction>| {
        let found = found.iter().filter(|one| one.what == what);
        found.filter_map(Prediction::off_per_mille).map(i64::unsigned_abs).collect::<Vec<u64>>()
    };
    let sessions: Vec<Vec<u64>> = all.iter().map(of_it).collect();
    let count = sessions.iter().filter(|errors| !errors.is_empty()).count();
    let errors = sessions.concat();
    let middle = median(&errors).unwrap_or(u64::MAX);
    let worse = errors.iter().filter(|error| **error > GOAL).count();
    let of_it = all.iter().flatten().filter(|one| one.what == what);
    let held: Vec<bool> = of_it.filter_map(Prediction::is_in_range).collect();
    println!(
        "{:25}  {count} sessions, median error {}.{} %, {worse} of {} off by more than a fifth, {} \
         of {} in their range",
        what.text(),
        middle / 10,
        middle % 10,
        errors.len(),
        held.iter().filter(|held| **held).count(),
        held.len()
    );
    (count, middle)
}

#[test]
#[ignore = "needs root, network namespaces, and the servers; long"]
fn what_is_foretold_of_real_servers_is_within_a_fifth_of_what_is_measured_then() {
    let wanted = std::env::var("PLUMB_FORETOLD").unwrap_or_default();
    let mut trials = trials();
    trials.retain(|trial| trial.peer.name().contains(&wanted));
    let all = run_all(trials);
    let mut missed = Vec::new();
    for what in [What::Screenful, What::EchoUnderLoad, What::Received] {
        let (count, middle) = errors_of(what, &all);
        if count < TRIALS {
            missed.push(format!("{}: {count} sessions instead of {TRIALS}", what.text()));
        }
        if middle > GOAL {
            missed.push(format!("{}: {middle} of a thousand", what.text()));
        }
    }
    assert!(missed.is_empty() || !wanted.is_empty(), "{missed:?}");
}
