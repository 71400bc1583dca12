//! Local echo prediction of a session: all output for the screen passes through the predictor.

use super::screen::Screen;
use super::session_settings::Predict;
use net::Cx;
use net::time::{Duration, Instant};
use protocols::terminal::prediction::{Mode, Predictor};
use std::collections::VecDeque;

/// Echo time below which the prediction is disabled after [`FAST_ECHOES_MIN`] confirmed echoes. A
/// prediction of such fast echoes has no visible benefit, and takes a tenth of the CPU time of a
/// key.
const FAST_ECHO_LIMIT: Duration = Duration::from_millis(10);
const FAST_ECHOES_MIN: u64 = 16;
/// Maximum number of recorded positions of keys in the sent stream; the oldest positions are
/// dropped.
const SENT_POSITIONS_MAX: usize = 128;

/// Echo predictor of a session, if it is enabled.
#[derive(Default)]
pub(super) struct EchoPrediction {
    predictor: Option<Predictor>,
    /// Positions in the sent stream, each with the number of the last key sent before it; empty
    /// unless the remote host acknowledges echoes.
    sent_positions: VecDeque<(u64, u64)>,
}

impl EchoPrediction {
    /// Enables the prediction with this mode and window size, or disables it.
    pub(super) fn begin(&mut self, parameters: Option<(Predict, (u16, u16))>) {
        self.predictor = parameters
            .map(|(predict, (columns, rows))| Predictor::new(predict.into(), columns, rows));
    }

    /// Returns the predictor, if it is enabled.
    pub(super) fn predictor(&self) -> Option<&Predictor> {
        self.predictor.as_ref()
    }

    /// Excludes the last `rows` rows of the window from prediction.
    pub(super) fn reserve_rows(&mut self, rows: u16) {
        if let Some(predictor) = &mut self.predictor {
            predictor.reserve_rows(rows);
        }
    }

    /// Sets the columns and rows of the window.
    pub(super) fn resize(&mut self, (columns, rows): (u16, u16)) {
        if let Some(predictor) = &mut self.predictor {
            predictor.resize(columns, rows);
        }
    }

    /// Sets the prediction mode.
    pub(super) fn set_mode(&mut self, predict: Predict) {
        if let Some(predictor) = &mut self.predictor {
            predictor.set_mode(predict.into());
        }
    }

    /// Predicts the echo of keys that the remote host is expected to echo. Returns `true` if the
    /// echo is so fast that the setting `predict` disables the prediction.
    pub(super) fn typed(&mut self, keys: &[u8], predict: Predict, cx: &mut Cx<'_>) -> bool {
        let Some(predictor) = &mut self.predictor else { return false };
        predictor.typed(keys, cx);
        let is_echo_fast = predictor.round_trip().is_some_and(|time| time < FAST_ECHO_LIMIT)
            && predictor.statistics().confirmed >= FAST_ECHOES_MIN;
        let is_disabled = is_echo_fast && predict == Predict::Auto;
        if is_disabled {
            predictor.set_mode(Mode::Never);
        }
        is_disabled
    }

    /// Discards the positions of keys in the sent stream.
    pub(super) fn clear_sent_positions(&mut self) {
        self.sent_positions.clear();
    }

    /// Records the current position in the sent stream for the last key, so that an acknowledgment
    /// of its echo can be matched to the key.
    pub(super) fn record_sent_position(&mut self, position: u64) {
        if self.sent_positions.len() >= SENT_POSITIONS_MAX {
            self.sent_positions.pop_front();
        }
        let last_key = self.predictor.as_ref().map_or(0, Predictor::last_key);
        self.sent_positions.push_back((position, last_key));
    }

    /// Returns the last key before `position` in the sent stream, and discards its position.
    pub(super) fn take_last_key_before(&mut self, position: u64) -> Option<u64> {
        let mut last_key = None;
        while let Some(&(sent, key)) = self.sent_positions.front()
            && sent <= position
        {
            last_key = Some(key);
            self.sent_positions.pop_front();
        }
        last_key
    }

    /// Processes the acknowledgment of the echoes up to that of `last_key`.
    pub(super) fn echo_acknowledged(&mut self, last_key: u64, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            predictor.echo_acknowledged(last_key, cx);
        }
    }

    /// Returns whether the answer to a timing mark is useful: it shows that the remote host has
    /// read the keys.
    pub(super) fn wants_timing_mark(&self) -> bool {
        self.predictor.as_ref().is_some_and(Predictor::wants_timing_mark)
    }

    /// Records that a timing mark was sent after the keys.
    pub(super) fn timing_mark_sent(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            predictor.timing_mark_sent(cx);
        }
    }

    /// Processes the answer to the timing mark.
    pub(super) fn timing_mark_answered(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            predictor.timing_mark_answered(cx);
        }
    }

    /// Discards the outstanding predictions, because the remote host will echo these keys or the
    /// next keys differently.
    pub(super) fn interrupt(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.interrupt();
        }
    }

    /// Notifies the predictor that the local host itself has written to the screen.
    pub(super) fn other_output_written(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.other_output_written();
        }
    }

    /// Returns the time at which displayed predictions must be checked again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.predictor.as_ref().and_then(Predictor::deadline)
    }

    /// Checks overdue predictions.
    pub(super) fn run(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor
            && predictor.deadline().is_some_and(|deadline| deadline <= cx.now)
        {
            predictor.timeout(cx);
        }
    }

    /// Passes pending output of `screen` through the predictor, which adds its own output.
    pub(super) fn pass(&mut self, screen: &mut Screen, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            screen.pass(predictor, cx);
        }
    }

    /// Ends the prediction and removes the unconfirmed predictions from `screen`.
    pub(super) fn end(&mut self, screen: &mut Screen, cx: &mut Cx<'_>) {
        self.interrupt();
        self.pass(screen, cx);
        self.predictor = None;
    }
}

#[cfg(test)]
#[path = "predicted_tests.rs"]
mod tests;
