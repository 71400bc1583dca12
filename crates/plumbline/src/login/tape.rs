//! What is kept of a session: the recording and the log. A file that takes no more ends the keeping, and
//! not the session.

use super::log::Log;
use crate::recording::{Kind, Recorder};
use protocols::time::{Duration, Instant};
use std::io;

/// What is kept of a session.
#[derive(Default)]
pub(super) struct Tape {
    recorder: Option<Recorder>,
    records_input: bool,
    log: Option<Log>,
    begun: Option<Instant>,
    /// What is to be told of a file that takes no more.
    failure: Option<String>,
    has_failed: bool,
}

impl Tape {
    /// Keeps a recording, with what is typed if `records_input`, and a log.
    pub(super) fn new(recorder: Option<Recorder>, records_input: bool, log: Option<Log>) -> Self {
        Self { recorder, records_input, log, ..Self::default() }
    }

    /// Begins to count the time, or goes on where a connection before has ended.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.begun.is_some() {
            self.finish();
        }
        self.begun.get_or_insert(now);
    }

    /// Returns whether the negotiation is to be kept.
    pub(super) fn wants_notes(&self) -> bool {
        self.recorder.is_some()
    }

    /// Takes what is shown.
    pub(super) fn output(&mut self, text: &[u8], now: Instant) {
        self.record(now, |recorder, at| recorder.put(at, Kind::Output, text));
        let written = self.log.as_mut().map(|log| log.put(text));
        self.end_log_if_failed(written);
    }

    /// Takes what is typed.
    pub(super) fn input(&mut self, keys: &[u8], now: Instant) {
        if self.records_input {
            self.record(now, |recorder, at| recorder.put(at, Kind::Input, keys));
        }
    }

    /// Takes the new size of the window: columns and rows.
    pub(super) fn resize(&mut self, (columns, rows): (u16, u16), now: Instant) {
        let size = format!("{columns}x{rows}");
        self.record(now, |recorder, at| recorder.put_text(at, Kind::Resize, &size));
    }

    /// Takes what was negotiated.
    pub(super) fn note(&mut self, note: &str, now: Instant) {
        self.record(now, |recorder, at| recorder.put_text(at, Kind::Marker, note));
    }

    /// Writes what waits in the log.
    pub(super) fn finish(&mut self) {
        let written = self.log.as_mut().map(Log::finish);
        self.end_log_if_failed(written);
    }

    /// Returns, once, what is to be told of a file that takes no more.
    pub(super) fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Returns whether something is missing in what was kept.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn record(
        &mut self,
        now: Instant,
        put: impl FnOnce(&mut Recorder, Duration) -> io::Result<()>,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        let at = self.begun.map_or(Duration::ZERO, |begun| now - begun);
        if let Err(error) = put(recorder, at) {
            self.recorder = None;
            self.fail("recording", &error);
        }
    }

    fn end_log_if_failed(&mut self, written: Option<io::Result<()>>) {
        if let Some(Err(error)) = written {
            self.log = None;
            self.fail("log", &error);
        }
    }

    fn fail(&mut self, what: &str, error: &io::Error) {
        self.has_failed = true;
        let told = format!("The {what} ends here: {error}. The session goes on.");
        self.failure.get_or_insert(told);
    }
}
