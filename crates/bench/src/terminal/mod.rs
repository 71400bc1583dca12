//! `bench terminal`: plumb's terminal and alacritty's, in one process and on the same bytes.
//!
//! Both terminals receive [`READ_BYTES`] bytes of the stream at a time, and neither terminal keeps
//! scrollback. The compared figure is the processor time of the single thread. Each round measures
//! both terminals, one directly after the other, and ratios are taken within a round. The benchmark
//! checks that both terminals end with the cursor at the same position.

mod stream;

use super::benchmark_report::{Report, Section, Verdict};
use super::conditions::{Conditions, ProgramSet};
use super::rounds::Ratio;
use super::typing::Amount;
use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::grid::Dimensions;
use alacritty_terminal::term::Config;
use alacritty_terminal::vte::ansi::Processor;
use anyhow::{Result, ensure};
use net::cx::Cx;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::Instant;
use os::clock::thread_cpu_time;
use protocols::terminal::Terminal;
use records::format::UNKNOWN;
use records::statistics::median;
use report::table::Table;
use serde_json::json;
use stream::Kind;

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;
/// Number of bytes that a terminal receives at a time.
const READ_BYTES: usize = 16 * 1024;
/// Length of the stream of one kind of output, and number of times that each terminal processes the
/// stream per round.
const KIND_BYTES: usize = 4_000_000;
const KIND_TIMES: usize = 5;
/// Length of the stream with all kinds of output mixed, and number of times that each terminal
/// processes the stream per round.
const MIXED_BYTES: usize = 5_000_000;
const MIXED_TIMES: usize = 20;
/// Largest ratio of the time: 1.5 times the speed.
const GOAL: f64 = 1.0 / 1.5;

/// The rounds of one stream: processor time of plumb and of alacritty.
struct Rounds {
    name: &'static str,
    bytes: usize,
    times_ns: Vec<(u64, u64)>,
}

/// Measures both terminals with each kind of stream, and with all of them mixed.
pub(super) fn run(_: &Conditions, amount: Amount) -> Result<Report> {
    let kinds = Kind::ALL.map(|kind| (kind.name(), stream::make(kind, KIND_BYTES, 1), KIND_TIMES));
    let mixed = ("mixed", stream::mixed(MIXED_BYTES), MIXED_TIMES);
    let streams: Vec<_> = kinds.into_iter().chain([mixed]).collect();
    let mut measured: Vec<Rounds> = Vec::new();
    for (name, bytes, times) in &streams {
        measured.push(Rounds { name, bytes: bytes.len() * times, times_ns: Vec::new() });
    }
    for _ in 0..amount.rounds {
        for (rounds, (_, bytes, times)) in measured.iter_mut().zip(&streams) {
            let (ours, our_cursor) = ours(bytes, *times);
            let (theirs, their_cursor) = theirs(bytes, *times);
            let name = rounds.name;
            ensure!(our_cursor == their_cursor, "{name}: the cursors ended at different positions");
            rounds.times_ns.push((ours, theirs));
        }
    }
    Ok(Report {
        program_set: ProgramSet::Thread,
        title: "bench terminal: bytes to a screen of 80 columns and 24 rows".to_owned(),
        sections: vec![section(&measured, amount)],
        verdicts: verdicts(&measured),
        congestion: "no connection".to_owned(),
        notes: vec![note()],
    })
}

fn ours(bytes: &[u8], times: usize) -> (u64, (usize, usize)) {
    let mut terminal = Terminal::new(COLUMNS, ROWS);
    let mut rng = Rng::from_seed(1);
    let mut meter = Meter::new(Clock::None);
    let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
    let time_ns = measure(bytes, times, |piece| {
        terminal.receive(piece, &mut cx);
    });
    let (row, column) = terminal.cursor();
    (time_ns, (row.into(), column.into()))
}

fn theirs(bytes: &[u8], times: usize) -> (u64, (usize, usize)) {
    let config = Config { scrolling_history: 0, ..Config::default() };
    let mut terminal = Term::new(config, &Screen, VoidListener);
    let mut processor: Processor = Processor::new();
    let time_ns = measure(bytes, times, |piece| processor.advance(&mut terminal, piece));
    let cursor = terminal.grid().cursor.point;
    (time_ns, (usize::try_from(cursor.line.0).unwrap_or(0), cursor.column.0))
}

/// Size of alacritty's screen.
struct Screen;

impl Dimensions for Screen {
    fn total_lines(&self) -> usize {
        ROWS.into()
    }

    fn screen_lines(&self) -> usize {
        ROWS.into()
    }

    fn columns(&self) -> usize {
        COLUMNS.into()
    }
}

fn measure(bytes: &[u8], times: usize, mut receive: impl FnMut(&[u8])) -> u64 {
    let began = thread_cpu_time();
    for _ in 0..times {
        bytes.chunks(READ_BYTES).for_each(&mut receive);
    }
    let time = thread_cpu_time().saturating_sub(began);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Rounds {
    fn median_of(&self, of: impl Fn(&(u64, u64)) -> u64) -> Option<u64> {
        median(&self.times_ns.iter().map(of).collect::<Vec<_>>())
    }

    /// Returns the speed of plumb as a ratio to alacritty's.
    fn speed(&self) -> Option<Ratio> {
        let pairs: Vec<_> = self.times_ns.iter().map(|(ours, theirs)| (*theirs, *ours)).collect();
        Ratio::from_pairs(&pairs)
    }

    /// Returns the time of plumb as a ratio to alacritty's.
    fn time(&self) -> Option<f64> {
        Ratio::from_pairs(&self.times_ns).map(|ratio| ratio.median)
    }

    fn rate(&self, time_ns: Option<u64>) -> String {
        let Some(time_ns) = time_ns.filter(|time_ns| *time_ns > 0) else {
            return UNKNOWN.to_owned();
        };
        format!("{:.0}", self.bytes as f64 * 1_000.0 / time_ns as f64)
    }
}

fn section(measured: &[Rounds], amount: Amount) -> Section {
    let mut table = Table::new()
        .text("stream")
        .number("size (MB)")
        .number("plumb CPU (s)")
        .number("(MB/s)")
        .number("alacritty CPU (s)")
        .number("(MB/s)")
        .number("speed to alacritty's");
    let mut data = Vec::new();
    for rounds in measured {
        let ours = rounds.median_of(|times| times.0);
        let theirs = rounds.median_of(|times| times.1);
        let seconds = |time_ns: Option<u64>| {
            time_ns.map_or_else(|| UNKNOWN.to_owned(), |ns| format!("{:.3}", ns as f64 / 1e9))
        };
        let speed = rounds.speed();
        table.row([
            rounds.name.to_owned(),
            format!("{:.0}", rounds.bytes as f64 / 1e6),
            seconds(ours),
            rounds.rate(ours),
            seconds(theirs),
            rounds.rate(theirs),
            speed.map_or_else(|| UNKNOWN.to_owned(), Ratio::text),
        ]);
        data.push(json!({
            "stream": rounds.name,
            "bytes": rounds.bytes,
            "plumb_cpu_ns": ours,
            "alacritty_cpu_ns": theirs,
            "speed": speed.map(Ratio::to_json),
            "rounds_plumb_alacritty_cpu_ns": rounds.times_ns,
        }));
    }
    let heading = format!("in one thread; {} rounds, medians of the rounds", amount.rounds);
    Section { heading, table, data: data.into() }
}

fn verdicts(measured: &[Rounds]) -> Vec<Verdict> {
    let judged = [Kind::Dense.name(), "mixed"];
    let judged = measured.iter().filter(|rounds| judged.contains(&rounds.name));
    let verdict = |rounds: &Rounds| Verdict {
        what: format!("{}, CPU time to alacritty's", rounds.name),
        goal: GOAL,
        actual: rounds.time(),
        unit: "",
    };
    judged.map(verdict).collect()
}

fn note() -> String {
    format!("alacritty_terminal without scrollback; both get {} KiB at a time.", READ_BYTES / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_terminals_end_with_the_same_cursor_position() {
        for kind in Kind::ALL {
            let bytes = stream::make(kind, 20_000, 3);
            assert_eq!(ours(&bytes, 1).1, theirs(&bytes, 1).1, "{}", kind.name());
        }
    }

    #[test]
    fn the_speed_is_the_ratio_of_the_peers_time_to_plumbs() {
        let rounds = Rounds { name: "mixed", bytes: 3_000, times_ns: vec![(10, 20), (10, 30)] };
        assert_eq!(rounds.speed().map(|ratio| ratio.max), Some(3.0));
        assert_eq!(rounds.rate(Some(1_000)), "3000");
        assert_eq!(rounds.rate(None), "-");
    }
}
