//! `plumb replay`: plays a recording at its original or at a different speed.
//!
//! If the output is a pipe, keys are not read, and events are delayed only if a speed is specified.

mod keyboard;
mod pace;

use crate::exit;
use crate::manual::ManualPage;
use crate::manual::entries::TERMINAL_VARIABLES;
use crate::terminal_filter::TerminalFilter;
use anyhow::{Context, Result};
use keyboard::ReplayRequest;
use os::clock::Monotonic;
use os::tty::{RawMode, WindowSize};
use pace::ReplayTiming;
use protocols::terminal::filter::Filter;
use records::recording::{self, Header, Kind, Lines, RecordedEvent};
use records::severity::Severity;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Factor by which the keys + and - change the speed.
const SPEED_FACTOR: f64 = 1.5;

/// Introduction of `plumb replay --help`.
pub(crate) const ABOUT: &str = "\
Play back a recording of plumb login --record, or any other asciicast of version 2.

On a terminal, the space bar pauses and resumes, + and - change the speed, . shows the next event \
while paused, and q quits. In a pipe the recording is written without delays, unless --speed is \
given.";

/// Manual page of `plumb replay`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "replay",
    examples: &[
        "plumb replay session.cast",
        "plumb replay --speed 4 --idle-limit 2 session.cast",
        "plumb replay --negotiation session.cast | less -R",
    ],
    notes: &[],
    exit_status: &[
        (0, "The recording was played to its end, or the user quit"),
        (1, "The recording is damaged"),
        (2, "Invalid arguments"),
        (4, "The file cannot be read"),
    ],
    environment: &[TERMINAL_VARIABLES],
    files: &[],
    see_also: &["login"],
};

/// Arguments of `plumb replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The recording, or - for the standard input
    #[arg(value_name = "file")]
    file: PathBuf,
    /// Speed, as a multiple of the recorded speed [default: 1 on a terminal, no delays in a pipe]
    #[arg(long, value_name = "factor", value_parser = pace::parse_speed)]
    speed: Option<f64>,
    /// Wait at most this many seconds for the next event [default: as recorded]
    #[arg(long, value_name = "seconds", value_parser = pace::parse_seconds)]
    idle_limit: Option<f64>,
    /// Print the Telnet negotiation, each part on its own line
    #[arg(long)]
    negotiation: bool,
    #[command(flatten)]
    terminal_filter: TerminalFilter,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    match try_run(arguments) {
        Ok(None) => Ok(()),
        Ok(Some(message)) => Err(exit::remote_failure(message)),
        Err(error) => Err(exit::local_failure(&error)),
    }
}

/// Plays the recording. Returns a message if the recording is broken.
fn try_run(arguments: &Arguments) -> Result<Option<String>> {
    let name = arguments.file.display();
    let mut lines = Lines::open(&arguments.file)?;
    let is_stdin = arguments.file == Path::new("-");
    let is_paced = os::tty::is_stdout_terminal() || arguments.speed.is_some();
    let header = match lines.next_line().with_context(|| format!("cannot read {name}"))? {
        Some(line) => recording::read_header(&line),
        None => Err(recording::ReadError::NoHeader),
    };
    let header = match header {
        Ok(header) => header,
        Err(error) => return Ok(Some(format!("{name} is not a recording: {error}"))),
    };
    let has_keys =
        os::tty::is_stdout_terminal() && os::tty::is_stdin_terminal() && !is_stdin && is_paced;
    warn_of_small_window(&header);
    let raw_mode = if has_keys { Some(RawMode::enter()?) } else { None };
    let mut player = Player {
        has_keys,
        clock: Monotonic::start(),
        pace: is_paced
            .then(|| ReplayTiming::new(arguments.speed.unwrap_or(1.0), arguments.idle_limit)),
        shows_negotiation: arguments.negotiation,
        is_in_line: false,
        filter: os::tty::is_stdout_terminal()
            .then(|| Filter::new(arguments.terminal_filter.policy())),
        output: io::stdout(),
    };
    let play_result = player.play(&mut lines, &name.to_string());
    if os::tty::is_stdout_terminal() {
        player.restore()?;
        if player.is_in_line {
            player.write(b"\r\n")?;
        }
    }
    drop(raw_mode);
    play_result
}

/// Warns if the window is smaller than the recorded one.
fn warn_of_small_window(header: &Header) {
    let Some(window) = WindowSize::of(rustix::stdio::stdout()) else { return };
    if window.columns < header.width || window.rows < header.height {
        let text = format!(
            "the recording has {} by {} characters, and this window {} by {}: parts of the \
             recording will look wrong",
            header.width, header.height, window.columns, window.rows
        );
        exit::print_diagnostic(Severity::Warning, &text);
    }
}

struct Player<W> {
    has_keys: bool,
    clock: Monotonic,
    /// Timing of the events; `None` if events are shown without delays.
    pace: Option<ReplayTiming>,
    shows_negotiation: bool,
    is_in_line: bool,
    /// Filter between the recording and a terminal.
    filter: Option<Filter>,
    output: W,
}

/// Action after the wait for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventAction {
    Show,
    Quit,
}

impl<W: Write> Player<W> {
    fn play(&mut self, lines: &mut Lines, name: &str) -> Result<Option<String>> {
        while let Some(line) = lines.next_line().with_context(|| format!("{name} is damaged"))? {
            if line.trim().is_empty() {
                continue;
            }
            let event = match recording::read_event(&line) {
                Ok(event) => event,
                Err(_) if !line.ends_with('\n') => {
                    return Ok(Some(format!("{name} is truncated in line {}", lines.number())));
                }
                Err(error) => {
                    return Ok(Some(format!(
                        "{name} is damaged in line {}: {error}",
                        lines.number()
                    )));
                }
            };
            if self.wait_for(&event)? == EventAction::Quit || !self.show(&event)? {
                break;
            }
        }
        Ok(None)
    }

    /// Waits until `event` is due, or until the user presses a key that shows it at once or quits.
    fn wait_for(&mut self, event: &RecordedEvent) -> Result<EventAction> {
        let Some(pace) = &mut self.pace else { return Ok(EventAction::Show) };
        pace.set_next_event(event.at_s, self.clock.now());
        loop {
            let due = pace.due();
            let is_due = due.is_some_and(|due| due <= self.clock.now());
            if is_due && !self.has_keys {
                return Ok(EventAction::Show);
            }
            if !self.has_keys {
                os::readiness::wait(&mut [], &self.clock, due)?;
                continue;
            }
            // Keys are read before each event, even if the display has fallen behind.
            for key in keyboard::wait(&self.clock, due)? {
                match key {
                    ReplayRequest::Quit => return Ok(EventAction::Quit),
                    ReplayRequest::Pause => pace.toggle_pause(self.clock.now()),
                    ReplayRequest::Faster => pace.change_speed(SPEED_FACTOR, self.clock.now()),
                    ReplayRequest::Slower => {
                        pace.change_speed(1.0 / SPEED_FACTOR, self.clock.now());
                    }
                    ReplayRequest::Step if pace.is_paused() => {
                        pace.step();
                        return Ok(EventAction::Show);
                    }
                    ReplayRequest::Step => {}
                }
            }
            if is_due && !pace.is_paused() {
                return Ok(EventAction::Show);
            }
        }
    }

    /// Shows an event. Returns false if the reader has closed the output.
    fn show(&mut self, event: &RecordedEvent) -> Result<bool> {
        match event.kind {
            Kind::Output => {
                let mut filter = self.filter.take();
                let text = event.text.as_bytes();
                let now = self.clock.now();
                let has_reader = self.write(filter.as_mut().map_or(text, |it| it.pass(text, now)));
                self.filter = filter;
                has_reader
            }
            Kind::Marker if self.shows_negotiation => {
                let begin = if self.is_in_line { "\r\n" } else { "" };
                let end = if os::tty::is_stdout_terminal() { "\r\n" } else { "\n" };
                let note: String = event.text.chars().filter(|c| !c.is_control()).collect();
                self.write(format!("{begin}\x1b[2m{note}\x1b[22m{end}").as_bytes())
            }
            Kind::Input | Kind::Resize | Kind::Marker | Kind::Other => Ok(true),
        }
    }

    /// Resets the modes of the terminal that the recorded session has set.
    fn restore(&mut self) -> Result<bool> {
        let is_in_line = self.is_in_line;
        let bytes = self.filter.as_mut().map(Filter::restore).unwrap_or_default();
        let has_reader = self.write(&bytes);
        self.is_in_line = is_in_line;
        has_reader
    }

    fn write(&mut self, text: &[u8]) -> Result<bool> {
        if let Some(last) = text.last() {
            self.is_in_line = *last != b'\n';
        }
        match self.output.write_all(text).and_then(|()| self.output.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error).context("cannot write to the standard output"),
        }
    }
}
