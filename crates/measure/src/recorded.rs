//! Analysis of a recorded session: the echo times of its keys, the gaps in its output, and its
//! longest output.
//!
//! An echo time is the time from a character that was typed alone to the first output that contains
//! that character. A key is not counted if another was typed before its echo, or if it was not
//! echoed within [`ECHO_MAX_NS`], as in a password prompt. A gap is the time between two outputs
//! without typed keys between them.
//!
//! If the keys were not recorded (`--record-input`), there are no echoes, and the gaps include
//! pauses of the user. An output then counts as a screenful only if it covers a large part of a
//! screen without a pause of [`FLOW_PAUSE_NS`], the shortest interval between two keys.

use anyhow::{Context, Result};
use carrier::EngineContext;
use net::Instant;
use net::time::Duration;
use protocols::terminal::Terminal;
use records::arrivals::ArrivalSeries;
use records::measurement::{Echo, EchoSample, Recording, Screenful, ScreenfulMethod};
use records::recording::{self, Kind, Lines, ReadError, RecordedEvent};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::path::Path;

/// Maximum time from a key to its echo, in ns.
const ECHO_MAX_NS: u64 = 5_000_000_000;
/// Pause that separates one output from the next, ns.
const PAUSE_NS: u64 = 1_000_000_000;
/// Minimum interval between two keys at any typing speed or key repeat rate, in ns.
const FLOW_PAUSE_NS: u64 = 25_000_000;
/// Minimum number of cells of a screenful if no keys were recorded: a quarter of a screen, which is
/// more than the echo of a command line with a short answer.
const FLOW_MIN_CELLS: u64 = 480;
/// Maximum number of reported gaps.
const REPORTED_GAPS_MAX: usize = 20;
/// Maximum number of keys with an outstanding echo.
const PENDING_KEYS_MAX: usize = 64;
/// Maximum number of stored echoes.
const ECHOES_MAX: usize = 100_000;
/// Maximum number of stored arrivals of an output.
const ARRIVALS_MAX: usize = 4096;
/// Maximum duration of a recording: one year, in seconds.
const SECONDS_MAX: f64 = 31_536_000.0;

/// Results of the analysis of a recording.
#[derive(Debug, Default)]
pub(super) struct RecordingAnalysis {
    /// Description of the session in the recording.
    pub(super) title: Option<String>,
    /// Start of the session, in seconds since 1970.
    pub(super) timestamp: Option<u64>,
    pub(super) recording: Recording,
    pub(super) echo: Option<Echo>,
    pub(super) screenful: Option<Screenful>,
    /// Missing parts of the analysis, each a sentence without a full stop.
    pub(super) notes: Vec<String>,
}

/// Reads the recording at `path`.
///
/// # Errors
///
/// Returns an error if the file cannot be read. The inner error explains why the file is not a
/// valid recording.
pub(super) fn read(path: &Path) -> Result<Result<RecordingAnalysis, String>> {
    let name = path.display();
    let mut lines = Lines::open(path)?;
    let first = lines.next_line().with_context(|| format!("cannot read {name}"))?;
    let header = first.map_or(Err(ReadError::NoHeader), |line| recording::read_header(&line));
    let header = match header {
        Ok(header) => header,
        Err(error) => return Ok(Err(format!("{name} is not a recording: {error}"))),
    };
    let mut reader = Reader::new(header.width.clamp(1, 500), header.height.clamp(1, 500))?;
    let mut notes = Vec::new();
    while let Some(line) = lines.next_line().with_context(|| format!("{name} is damaged"))? {
        if line.trim().is_empty() {
            continue;
        }
        match recording::read_event(&line) {
            Ok(event) => reader.on_event(&event),
            Err(error) => {
                notes.push(format!("line {} is invalid: {error}", lines.number()));
                break;
            }
        }
    }
    let mut analysis = reader.finish();
    analysis.title = header.title;
    analysis.timestamp = header.timestamp;
    if analysis.recording.keys == 0 {
        notes.push(
            "the recording has no typed keys (plumb login --record-input saves them): echoes cannot \
             be distinguished from other output, so no echoes and no causes are reported"
                .to_owned(),
        );
        if analysis.screenful.is_none() {
            notes.push(
                "the pauses in all output of the recording are as long as those between a user's \
                 keys, so no screenful can be identified"
                    .to_owned(),
            );
        }
    }
    analysis.notes = notes;
    Ok(Ok(analysis))
}

/// Consecutive output without a long pause.
#[derive(Debug)]
struct OutputBurst {
    began_ns: u64,
    last_ns: u64,
    bytes: u64,
    cells: u64,
    longest_gap_ns: Option<u64>,
    arrivals: ArrivalSeries,
}

struct Reader {
    context: EngineContext,
    terminal: Terminal,
    keys: VecDeque<(char, u64)>,
    echoes: Vec<EchoSample>,
    found: Recording,
    /// Time of the latest output, if no key was typed since.
    output_at_ns: Option<u64>,
    /// Outputs separated by pauses of [`PAUSE_NS`] or by typed keys.
    outputs: Outputs,
    /// Outputs separated by pauses of [`FLOW_PAUSE_NS`], in which a key could have been typed.
    flows: Outputs,
}

/// Splits the output of a recording at pauses, and stores the longest part.
struct Outputs {
    /// Pause that separates one output from the next, ns.
    pause_ns: u64,
    current: Option<OutputBurst>,
    longest: Option<OutputBurst>,
}

impl Outputs {
    fn separated_by(pause_ns: u64) -> Self {
        Self { pause_ns, current: None, longest: None }
    }

    fn on_output(&mut self, at_ns: u64, bytes: u64, cells: u64) {
        let pause_ns = self.pause_ns;
        let is_after_pause =
            |current: &OutputBurst| at_ns.saturating_sub(current.last_ns) > pause_ns;
        if self.current.as_ref().is_none_or(is_after_pause) {
            self.end();
        }
        let current = self.current.get_or_insert_with(|| OutputBurst {
            began_ns: at_ns,
            last_ns: at_ns,
            bytes: 0,
            cells: 0,
            longest_gap_ns: None,
            arrivals: ArrivalSeries::new(ARRIVALS_MAX),
        });
        if current.bytes > 0 {
            let gap_ns = at_ns.saturating_sub(current.last_ns);
            current.longest_gap_ns = current.longest_gap_ns.max(Some(gap_ns));
        }
        current.last_ns = current.last_ns.max(at_ns);
        current.bytes = current.bytes.saturating_add(bytes);
        current.cells = current.cells.saturating_add(cells);
        let since_ns = at_ns.saturating_sub(current.began_ns);
        current.arrivals.record(since_ns, current.bytes);
    }

    fn end(&mut self) {
        let Some(current) = self.current.take() else { return };
        let cells = |output: &OutputBurst| (output.cells, Reverse(output.began_ns));
        if self.longest.as_ref().is_none_or(|longest| cells(longest) < cells(&current)) {
            self.longest = Some(current);
        }
    }
}

impl Reader {
    fn new(columns: u16, rows: u16) -> Result<Self> {
        Ok(Self {
            context: EngineContext::new(false)?,
            terminal: Terminal::new(columns, rows),
            keys: VecDeque::new(),
            echoes: Vec::new(),
            found: Recording::default(),
            output_at_ns: None,
            outputs: Outputs::separated_by(PAUSE_NS),
            flows: Outputs::separated_by(FLOW_PAUSE_NS),
        })
    }

    fn on_event(&mut self, event: &RecordedEvent) {
        let at_ns = nanos(event.at_s);
        self.found.duration_ns = self.found.duration_ns.max(at_ns);
        match event.kind {
            Kind::Input => self.on_input(&event.text, at_ns),
            Kind::Output => self.on_output(&event.text, at_ns),
            Kind::Resize | Kind::Marker | Kind::Other => {}
        }
    }

    fn on_input(&mut self, text: &str, at_ns: u64) {
        let mut characters = text.chars();
        self.output_at_ns = None;
        self.outputs.end();
        match (characters.next(), characters.next()) {
            (Some(key), None) if !key.is_control() => {
                self.found.keys += 1;
                if self.keys.len() < PENDING_KEYS_MAX {
                    self.keys.push_back((key, at_ns));
                }
            }
            (None, _) => {}
            // More than a single character: the output that follows is an answer and not an echo.
            _ => {
                self.found.keys += 1;
                self.keys.clear();
            }
        }
    }

    fn on_output(&mut self, text: &str, at_ns: u64) {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.found.bytes = self.found.bytes.saturating_add(bytes);
        if let Some(before) = self.output_at_ns.replace(at_ns) {
            self.insert_gap(at_ns.saturating_sub(before));
        }
        self.find_echoes(text, at_ns);
        let mut cx = self.context.cx();
        cx.now = Instant::ZERO + Duration::from_nanos(at_ns);
        let cells = self.terminal.receive(text.as_bytes(), &mut cx).cells;
        // The emulator's responses are discarded: the recorded input already contains those of the
        // real terminal.
        let answer_len = self.terminal.output().len();
        self.terminal.sent(answer_len);
        self.outputs.on_output(at_ns, bytes, cells);
        self.flows.on_output(at_ns, bytes, cells);
    }

    fn find_echoes(&mut self, text: &str, at_ns: u64) {
        while self.keys.front().is_some_and(|(_, typed_ns)| at_ns > typed_ns + ECHO_MAX_NS) {
            self.keys.pop_front();
        }
        let mut rest = text;
        while let Some((key, typed_ns)) = self.keys.front().copied() {
            let Some((_, after)) = rest.split_once(key) else { return };
            rest = after;
            self.keys.pop_front();
            if self.echoes.len() < ECHOES_MAX {
                let total_ns = at_ns.saturating_sub(typed_ns);
                self.echoes.push(EchoSample { total_ns, parts: Vec::new() });
            }
        }
    }

    fn insert_gap(&mut self, gap_ns: u64) {
        let gaps = &mut self.found.gaps_ns;
        let index = gaps.partition_point(|other| *other >= gap_ns);
        if index < REPORTED_GAPS_MAX && gap_ns > 0 {
            gaps.insert(index, gap_ns);
            gaps.truncate(REPORTED_GAPS_MAX);
        }
    }

    fn finish(mut self) -> RecordingAnalysis {
        self.outputs.end();
        self.flows.end();
        let mut echo = Echo::from_samples(&self.echoes, None);
        if let Some(echo) = &mut echo {
            // The distribution of the time over layers is unknown.
            echo.layers.clear();
        }
        let longest = match self.found.keys {
            0 => self.flows.longest.filter(|output| output.cells >= FLOW_MIN_CELLS),
            _ => self.outputs.longest,
        };
        let screenful = longest.filter(|output| output.last_ns > output.began_ns);
        let screenful = screenful.map(|output| Screenful {
            method: Some(ScreenfulMethod::Recorded),
            bytes: output.bytes,
            cells: output.cells,
            first_to_last_ns: output.last_ns - output.began_ns,
            request_to_last_ns: None,
            first_byte_wait_ns: None,
            error: None,
            segments_in: None,
            longest_gap_ns: output.longest_gap_ns,
            layers: Vec::new(),
            arrivals: output.arrivals.into_arrivals(),
        });
        RecordingAnalysis { recording: self.found, echo, screenful, ..RecordingAnalysis::default() }
    }
}

fn nanos(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    #[expect(clippy::cast_sign_loss, reason = "the range is checked")]
    let ns = (seconds.clamp(0.0, SECONDS_MAX) * 1e9).round() as u64;
    ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use records::arrivals::Arrival;

    fn event(at_s: f64, kind: Kind, text: &str) -> RecordedEvent {
        RecordedEvent { at_s, kind, text: text.to_owned() }
    }

    fn found(events: &[(f64, Kind, &str)]) -> RecordingAnalysis {
        let mut reader = Reader::new(80, 24).unwrap();
        for (at_s, kind, text) in events {
            reader.on_event(&event(*at_s, *kind, text));
        }
        reader.finish()
    }

    #[test]
    fn an_echo_lasts_from_a_key_to_the_output_of_its_character() {
        let found = found(&[
            (1.0, Kind::Input, "l"),
            (1.02, Kind::Output, "l"),
            (1.1, Kind::Input, "s"),
            (1.13, Kind::Output, "s"),
        ]);
        let echo = found.echo.unwrap();
        assert_eq!(echo.times_ns, [20_000_000, 30_000_000]);
        assert!(echo.layers.is_empty());
    }

    #[test]
    fn keys_typed_ahead_are_echoed_in_order() {
        let found =
            found(&[(1.0, Kind::Input, "a"), (1.01, Kind::Input, "b"), (1.05, Kind::Output, "ab")]);
        assert_eq!(found.echo.unwrap().times_ns, [50_000_000, 40_000_000]);
    }

    #[test]
    fn a_password_has_no_echo() {
        let found = found(&[
            (1.0, Kind::Input, "s"),
            (1.1, Kind::Input, "3"),
            (1.2, Kind::Input, "\r"),
            (1.3, Kind::Output, "\r\n3 new messages\r\n$ "),
        ]);
        assert_eq!((found.echo, found.recording.keys), (None, 3));
    }

    #[test]
    fn a_gap_lies_between_two_outputs_without_input_between_them() {
        let found = found(&[
            (1.0, Kind::Output, "a"),
            (1.2, Kind::Output, "b"),
            (9.0, Kind::Input, "\r"),
            (9.1, Kind::Output, "c"),
            (9.4, Kind::Output, "d"),
        ]);
        assert_eq!(found.recording.gaps_ns, [300_000_000, 200_000_000]);
    }

    #[test]
    fn the_longest_output_is_the_screenful() {
        let found = found(&[
            (1.0, Kind::Output, "$ "),
            (5.0, Kind::Input, "\r"),
            (5.1, Kind::Output, "one line\r\n"),
            (5.3, Kind::Output, "and another\r\n"),
            (9.0, Kind::Output, "$ "),
        ]);
        let screenful = found.screenful.unwrap();
        assert_eq!((screenful.bytes, screenful.cells), (23, 19));
        assert_eq!(screenful.first_to_last_ns, 200_000_000);
        assert_eq!(screenful.arrivals[1], Arrival { at_ns: 200_000_000, bytes: 13 });
    }

    #[test]
    fn without_recorded_keys_output_with_typing_pauses_is_not_a_screenful() {
        let mut events = Vec::new();
        for line in 0..4 {
            for (key, text) in (0..8).zip(["e", "c", "h", "o", " ", "h", "i", "\r\nhi\r\n$ "]) {
                let at_s = f64::from(line) * 4.0 + f64::from(key) * 0.2;
                events.push((at_s, Kind::Output, text));
            }
        }
        let found = found(&events);
        assert_eq!(found.recording.keys, 0);
        assert!(found.screenful.is_none(), "{:?}", found.screenful);
    }

    #[test]
    fn without_recorded_keys_continuous_output_is_a_screenful_without_the_preceding_echoes() {
        let numbers = "1234\r\n".repeat(150);
        let found = found(&[
            (1.0, Kind::Output, "s"),
            (1.4, Kind::Output, "eq"),
            (1.9, Kind::Output, "\r\n"),
            (1.902, Kind::Output, &numbers),
            (1.905, Kind::Output, &numbers),
            (1.906, Kind::Output, "$ "),
        ]);
        let screenful = found.screenful.unwrap();
        assert_eq!((screenful.cells, screenful.first_to_last_ns), (1_202, 6_000_000));
    }

    proptest! {
        #[test]
        fn any_recording_lasts_until_its_latest_event(
            raw in proptest::collection::vec((0.0..1e12_f64, any::<bool>(), any::<String>()), 0..30),
        ) {
            let mut reader = Reader::new(80, 24).unwrap();
            let latest_ns = raw.iter().map(|(at_s, ..)| nanos(*at_s)).max();
            for (at_s, is_input, text) in raw {
                let kind = if is_input { Kind::Input } else { Kind::Output };
                reader.on_event(&RecordedEvent { at_s, kind, text });
            }
            prop_assert_eq!(reader.finish().recording.duration_ns, latest_ns.unwrap_or(0));
        }
    }
}
