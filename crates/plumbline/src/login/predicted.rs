//! Local echo prediction of a session: all output for the screen passes through the predictor.

use super::session::Login;
use net::Cx;
use net::time::{Duration, Instant};
use protocols::telnet::{OptionCode, Side};
use protocols::terminal::prediction::{Mode, Predictor};

/// Echo time below which the prediction is disabled after [`FAST_ECHOES_MIN`] confirmed echoes. A
/// prediction of such fast echoes has no visible benefit, and takes a tenth of the CPU time of a
/// key.
const FAST_ECHO_LIMIT: Duration = Duration::from_millis(10);
const FAST_ECHOES_MIN: u64 = 16;
/// Maximum number of recorded positions of keys in the sent stream; the oldest positions are
/// dropped.
const SENT_POSITIONS_MAX: usize = 128;

/// Whether the echo of typed keys is predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Predict {
    /// Never.
    Never,
    /// If the echo takes longer than 30 ms; disabled after sixteen echoes of less than 10 ms.
    #[default]
    Auto,
    /// Whenever the remote host echoes.
    Always,
}

impl From<Predict> for Mode {
    fn from(predict: Predict) -> Self {
        match predict {
            Predict::Auto => Self::Auto,
            Predict::Always => Self::Always,
            Predict::Never => Self::Never,
        }
    }
}

impl Login {
    /// Starts the prediction if the session is interactive.
    pub(super) fn begin_prediction(&mut self) {
        let (columns, rows) = self.window;
        let predictor = || Predictor::new(self.settings.predict.into(), columns, rows);
        // A Heath-19 echoes and moves its cursor differently.
        let is_heath19 = self.settings.emulation.is_heath19();
        let is_wanted = self.settings.is_interactive && !is_heath19;
        self.predictor = is_wanted.then(predictor);
        self.reserve_status_row();
    }

    /// Excludes the status line from prediction.
    pub(super) fn reserve_status_row(&mut self) {
        // A window of one row has no status line.
        let has_status_row = self.settings.has_status_line && self.window.1 > 1;
        if let Some(predictor) = &mut self.predictor {
            predictor.reserve_rows(has_status_row.into());
        }
    }

    /// Sets the prediction mode.
    pub(super) fn set_prediction(&mut self, predict: Predict, cx: &mut Cx<'_>) {
        self.settings.predict = predict;
        self.request_acknowledgments(predict != Predict::Never && self.predictor.is_some(), cx);
        if let Some(predictor) = &mut self.predictor {
            predictor.set_mode(predict.into());
        }
    }

    /// Predicts the echo of keys that the remote host is expected to echo.
    pub(super) fn predict(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        let Some(predictor) = &mut self.predictor else { return };
        predictor.typed(keys, cx);
        let is_echo_fast = predictor.round_trip().is_some_and(|time| time < FAST_ECHO_LIMIT)
            && predictor.statistics().confirmed >= FAST_ECHOES_MIN;
        if is_echo_fast && self.settings.predict == Predict::Auto {
            predictor.set_mode(Mode::Never);
            self.request_acknowledgments(false, cx);
        }
    }

    /// Requests that the remote host acknowledge echoes, or that it stop doing so.
    fn request_acknowledgments(&mut self, wants: bool, cx: &mut Cx<'_>) {
        // Ignored: without this option, the prediction uses timing marks.
        _ = self.telnet.ask(Side::Remote, OptionCode::ECHO_ACKNOWLEDGMENT, wants, cx);
        self.sent_positions.clear();
    }

    fn has_acknowledgments(&self) -> bool {
        self.telnet.is_enabled(Side::Remote, OptionCode::ECHO_ACKNOWLEDGMENT)
    }

    /// Records the current position in the sent stream for the last key, so that an acknowledgment
    /// of its echo can be matched to the key.
    pub(super) fn record_sent_position(&mut self) {
        if self.predictor.is_some() && self.has_acknowledgments() {
            if self.sent_positions.len() >= SENT_POSITIONS_MAX {
                self.sent_positions.pop_front();
            }
            let last_key = self.predictor.as_ref().map_or(0, Predictor::last_key);
            self.sent_positions.push_back((self.telnet.sent_position(), last_key));
        }
    }

    /// Processes the remote host's acknowledgment that the echo of all bytes before `position` was
    /// sent.
    pub(super) fn echo_acknowledged(&mut self, position: u64, cx: &mut Cx<'_>) {
        let mut last_key = None;
        while let Some(&(sent, key)) = self.sent_positions.front()
            && sent <= position
        {
            last_key = Some(key);
            self.sent_positions.pop_front();
        }
        if let Some(last_key) = last_key {
            // The acknowledgment covers all text received before it, so that text, including the
            // text of an emulated terminal, passes through the predictor first.
            self.render();
            self.predict_pending_output(cx);
            if let Some(predictor) = &mut self.predictor {
                predictor.echo_acknowledged(last_key, cx);
            }
        }
    }

    /// Sends a timing mark (RFC 860) after the keys, if its answer is useful for the prediction:
    /// the answer shows that the remote host has read the keys.
    pub(super) fn request_timing_mark(&mut self, cx: &mut Cx<'_>) {
        if self.has_acknowledgments() {
            return;
        }
        let Some(predictor) = self.predictor.as_mut().filter(|it| it.wants_timing_mark()) else {
            return;
        };
        // The request fails if the output queue is full. The mark is then not sent: it would
        // overtake the keys that did not fit into the queue.
        if self.telnet.is_enabled(Side::Remote, OptionCode::ECHO)
            && self.telnet.ask(Side::Remote, OptionCode::TIMING_MARK, true, cx).is_ok()
        {
            predictor.timing_mark_sent(cx);
        }
    }

    /// Processes the answer to the timing mark.
    pub(super) fn on_timing_mark(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            predictor.timing_mark_answered(cx);
        }
    }

    /// Discards the outstanding predictions, because the remote host will echo these keys or the
    /// next keys differently.
    pub(super) fn interrupt_prediction(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.interrupt();
        }
    }

    /// Notifies the predictor that the local host itself has written to the screen.
    pub(super) fn on_local_output(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.other_output_written();
        }
    }

    /// Reports the new window size to the predictor.
    pub(super) fn resize_prediction(&mut self) {
        let (columns, rows) = self.window;
        if let Some(predictor) = &mut self.predictor {
            predictor.resize(columns, rows);
        }
        self.reserve_status_row();
    }

    /// Returns the time at which displayed predictions must be checked again.
    pub(super) fn prediction_deadline(&self) -> Option<Instant> {
        self.predictor.as_ref().and_then(Predictor::deadline)
    }

    /// Checks overdue predictions.
    pub(super) fn run_prediction(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor
            && predictor.deadline().is_some_and(|deadline| deadline <= cx.now)
        {
            predictor.timeout(cx);
        }
    }

    /// Passes pending output through the predictor, which adds its own output.
    pub(super) fn predict_pending_output(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            self.screen.pass(predictor, cx);
        }
    }

    /// Ends the prediction: removes unconfirmed predictions and resets the terminal modes that the
    /// remote host has set.
    pub(super) fn end_prediction(&mut self, cx: &mut Cx<'_>) {
        self.interrupt_prediction();
        self.predict_pending_output(cx);
        self.predictor = None;
        self.screen.restore();
    }
}

#[cfg(test)]
#[path = "predicted_tests.rs"]
mod tests;
