//! What `plumb measure` foretells of real servers, beside what it then measures: more than fifty
//! sessions over lines of 1 to 100 Mbit/s and 2 to 50 ms.
//!
//! Each trial has networks of its own: the server's with 10.0.0.1, plumb's with 10.0.0.2. A server
//! that is not there is left out. It takes some minutes, so it runs where `PLUMB_LONG` is 1, as
//! `./x test --long` says; `cargo test -p plumbline --test foretold -- --include-ignored --nocapture`
//! shows each trial.
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

const LOGIN_LINES: [Line; 6] = [
    Line::new(2, 1_000),
    by_tbf(Line::new(10, 2_000)),
    with("bbr", Line::new(20, 10_000)),
    Line::new(50, 1_000),
    by_tbf(Line::new(50, 20_000)),
    with("reno", Line::new(5, 50_000)),
];
const FTP_LINES: [Line; 9] = [
    Line::new(2, 1_000),
    by_tbf(Line::new(10, 5_000)),
    with("bbr", Line::new(20, 10_000)),
    with("reno", Line::new(50, 2_000)),
    Line::new(20, 50_000),
    by_tbf(Line::new(5, 100_000)),
    Line::new(50, 40_000),
    // Windows that are smaller than what the way holds.
    Line { send_buffer: Some(20_000), ..Line::new(50, 100_000) },
    Line { rate_kbps: None, ..Line::new(2, 0) },
];
const TFTP_LINES: [Line; 4] =
    [Line::new(2, 10_000), Line::new(10, 1_000), Line::new(20, 100_000), Line::new(50, 2_000)];

fn trials() -> Vec<Trial> {
    use Peer::{BusyboxTelnetd, InetutilsTelnetd, PlumbFtp, PlumbLogin};
    use Peer::{PlumbTftp, PureFtpd, TftpdHpa, Vsftpd};
    let all: [(&[Peer], &[Line]); 3] = [
        (&[InetutilsTelnetd, BusyboxTelnetd, PlumbLogin], &LOGIN_LINES),
        (&[Vsftpd, PureFtpd, PlumbFtp], &FTP_LINES),
        (&[TftpdHpa, PlumbTftp], &TFTP_LINES),
    ];
    let of = |(peers, lines): (&'static [Peer], &'static [Line])| {
        peers
            .iter()
            .flat_map(move |peer| lines.iter().map(|line| Trial { peer: *peer, line: *line }))
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
            Peer::PlumbTftp => 1_000_000,
            // Two seconds of the line, but enough for a sixteenth that says something.
            _ => {
                let two_seconds = self.line.rate_kbps.unwrap_or(100_000) * 1_000 / 8 * 2;
                two_seconds.clamp(500_000, 12 << 20)
            }
        }
    }

    /// Measures, in this thread's network, and returns what was foretold.
    fn predictions(&self) -> Option<Vec<Prediction>> {
        let folder = Folder::with_file(self.file_bytes());
        let network = self.line.laid();
        let peer = self.peer;
        let server = thread::scope(|scope| {
            let start = || {
                network.enter().unwrap();
                peer.start(&folder)
            };
            scope.spawn(start).join().unwrap()
        })?;
        let mut command = plumb(&folder);
        command.args(["measure", "--json", "--keys", "5", "--rounds", "2", &self.peer.url()]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        drop(server);
        assert!(output.status.success(), "{self:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        Some(Measurement::from_json(&text).unwrap().predictions)
    }

    /// Runs in a thread of its own, whose networks are the trial's, and says what came of it.
    fn run(self) -> Vec<Prediction> {
        let found = thread::spawn(move || self.predictions()).join();
        let found = found.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let Some(found) = found else {
            println!("{}: it is not there", self.peer.name());
            return Vec::new();
        };
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
const AT_A_TIME: usize = 2;
/// The goal, in thousandths.
const GOAL: u64 = 200;

#[test]
#[ignore = "needs root, network namespaces, and the servers; long"]
fn what_is_foretold_of_real_servers_is_within_a_fifth_of_what_is_measured_then() {
    if std::env::var_os("PLUMB_LONG").is_none_or(|value| value != "1") {
        println!("skipped: it takes some minutes (./x test --long)");
        return;
    }
    let wanted = std::env::var("PLUMB_FORETOLD").unwrap_or_default();
    let mut waiting = trials();
    waiting.retain(|trial| trial.peer.name().contains(&wanted));
    let (waiting, found) = (Mutex::new(waiting.into_iter()), Mutex::new(Vec::new()));
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
    let trials = found.into_inner().unwrap();
    let met = trials.iter().filter(|trial| !trial.is_empty()).count();
    println!("{met} trials");
    for what in [What::Screenful, What::EchoUnderLoad, What::Received] {
        let of_it = trials.iter().flatten().filter(|one| one.what == what);
        let errors = of_it.filter_map(Prediction::off_per_mille).map(i64::unsigned_abs);
        let errors: Vec<u64> = errors.collect();
        let Some(middle) = median(&errors) else { continue };
        let worse = errors.iter().filter(|error| **error > GOAL).count();
        println!(
            "{:25}  median error {}.{} %, {worse} of {} off by more than a fifth",
            what.text(),
            middle / 10,
            middle % 10,
            errors.len()
        );
        assert!(middle <= GOAL, "{}: {middle} of a thousand", what.text());
    }
}
