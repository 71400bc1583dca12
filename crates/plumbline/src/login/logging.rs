//! Recording and log of a session. A write error ends the recording or the log, but not the
//! session.

use net::time::{Duration, Instant};
use records::recording::{Kind, SessionRecorder};
use records::session_log::SessionLog;
use std::io;

/// Recording and log of a session.
#[derive(Default)]
pub(super) struct SessionLogs {
    recorder: Option<SessionRecorder>,
    records_input: bool,
    log: Option<SessionLog>,
    started_at: Option<Instant>,
    /// Message about a write error that was not reported yet.
    failure: Option<String>,
    has_failed: bool,
}

impl SessionLogs {
    /// Creates the recording, with typed keys if `records_input`, and the log.
    pub(super) fn new(
        recorder: Option<SessionRecorder>,
        records_input: bool,
        log: Option<SessionLog>,
    ) -> Self {
        Self { recorder, records_input, log, ..Self::default() }
    }

    /// Starts the clock of the recording, or continues it after a previous connection.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.started_at.is_some() {
            self.finish();
        }
        self.started_at.get_or_insert(now);
    }

    /// Returns whether the negotiation is recorded.
    pub(super) fn records_negotiation(&self) -> bool {
        self.recorder.is_some()
    }

    /// Records displayed text.
    pub(super) fn record_output(&mut self, text: &[u8], now: Instant) {
        self.record(now, |recorder, at| recorder.put(at, Kind::Output, text));
        let write_result = self.log.as_mut().map(|log| log.put(text));
        self.end_log_if_failed(write_result);
    }

    /// Records typed keys.
    pub(super) fn record_input(&mut self, keys: &[u8], now: Instant) {
        if self.records_input {
            self.record(now, |recorder, at| recorder.put(at, Kind::Input, keys));
        }
    }

    /// Records a new window size in columns and rows.
    pub(super) fn record_resize(&mut self, (columns, rows): (u16, u16), now: Instant) {
        let size = format!("{columns}x{rows}");
        self.record(now, |recorder, at| recorder.put_text(at, Kind::Resize, &size));
    }

    /// Records a negotiation message.
    pub(super) fn record_note(&mut self, note: &str, now: Instant) {
        self.record(now, |recorder, at| recorder.put_text(at, Kind::Marker, note));
    }

    /// Notes the result of a file transfer.
    pub(super) fn note_transfer(&mut self, sentence: &str, now: Instant) {
        self.record_note(sentence, now);
        let write_result = self.log.as_mut().map(|log| log.note(sentence));
        self.end_log_if_failed(write_result);
    }

    /// Writes the pending text of the log.
    pub(super) fn finish(&mut self) {
        let written = self.log.as_mut().map(SessionLog::finish);
        self.end_log_if_failed(written);
    }

    /// Returns and clears the message about a write error.
    pub(super) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Returns whether the recording or the log is incomplete.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn record(
        &mut self,
        now: Instant,
        put: impl FnOnce(&mut SessionRecorder, Duration) -> io::Result<()>,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        let at = self.started_at.map_or(Duration::ZERO, |started_at| now - started_at);
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

    fn fail(&mut self, name: &str, error: &io::Error) {
        self.has_failed = true;
        let message = format!("The {name} has stopped: {error}. The session continues.");
        self.failure.get_or_insert(message);
    }
}
