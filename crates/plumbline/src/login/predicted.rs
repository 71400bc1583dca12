//! A session whose echo is predicted: all that the screen gets goes by way of the prediction.

use super::session::Login;
use protocols::Cx;
use protocols::application::telnet::{OptionCode, Side};
use protocols::terminal::prediction::{Mode, Predictor};
use protocols::time::{Duration, Instant};

/// A far side that has echoed so many keys sooner than this is near: to follow its screen, for what
/// will not be needed, costs a tenth of a key's time.
const NEAR: Duration = Duration::from_millis(10);
const ECHOES_OF_A_NEAR_ONE: u64 = 16;
/// The most positions that are kept; of more the first are dropped.
const SENT_MAX: usize = 128;

/// Whether keys are shown before the far side has echoed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Predict {
    /// Where the echo takes longer than 30 ms; laid aside where sixteen took less than 10 ms.
    #[default]
    Auto,
    /// Wherever the far side echoes.
    Always,
    /// Nowhere.
    Never,
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
    /// Begins to predict, unless this is a pipe.
    pub(super) fn begin_prediction(&mut self) {
        let (columns, rows) = self.window;
        let predictor = || Predictor::new(self.settings.predict.into(), columns, rows);
        // A Heath-19 has an echo of its own kind, and moves its cursor otherwise.
        let is_heath19 = self.settings.emulation.is_heath19();
        let is_wanted = self.settings.is_interactive && !is_heath19;
        self.predictor = is_wanted.then(predictor);
        self.reserve_status_row();
    }

    /// Keeps the prediction out of the line of status.
    pub(super) fn reserve_status_row(&mut self) {
        // A window of one row has no room for it.
        let has_line = self.settings.has_status_line && self.window.1 > 1;
        if let Some(predictor) = &mut self.predictor {
            predictor.reserve_rows(has_line.into());
        }
    }

    /// Sets whether the echo is predicted.
    pub(super) fn set_prediction(&mut self, predict: Predict, cx: &mut Cx<'_>) {
        self.settings.predict = predict;
        self.want_acknowledgments(predict != Predict::Never && self.predictor.is_some(), cx);
        if let Some(predictor) = &mut self.predictor {
            predictor.set_mode(predict.into());
        }
    }

    /// Takes keys that go to a far side which is to echo them.
    pub(super) fn predict(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        let Some(predictor) = &mut self.predictor else { return };
        predictor.typed(keys, cx);
        let is_near = predictor.round_trip().is_some_and(|time| time < NEAR)
            && predictor.statistics().confirmed >= ECHOES_OF_A_NEAR_ONE;
        if is_near && self.settings.predict == Predict::Auto {
            predictor.set_mode(Mode::Never);
            self.want_acknowledgments(false, cx);
        }
    }

    /// Asks a far side which can, to acknowledge echoes from now on, or not to.
    fn want_acknowledgments(&mut self, wants: bool, cx: &mut Cx<'_>) {
        // One that cannot is as it is asked to be, or says so.
        _ = self.telnet.ask(Side::Him, OptionCode::ECHO_ACKNOWLEDGMENT, wants, cx);
        self.sent.clear();
    }

    fn has_acknowledgments(&self) -> bool {
        self.telnet.is_enabled(Side::Him, OptionCode::ECHO_ACKNOWLEDGMENT)
    }

    /// Keeps the position in the stream behind the last key, for when its echo is acknowledged.
    pub(super) fn note_sent(&mut self) {
        if self.predictor.is_some() && self.has_acknowledgments() {
            if self.sent.len() >= SENT_MAX {
                self.sent.pop_front();
            }
            let last_key = self.predictor.as_ref().map_or(0, Predictor::last_key);
            self.sent.push_back((self.telnet.sent_position(), last_key));
        }
    }

    /// Takes the far side's word that the echo of so many bytes stands before this.
    pub(super) fn echo_acknowledged(&mut self, position: u64, cx: &mut Cx<'_>) {
        let mut last_key = None;
        while let Some(&(sent, key)) = self.sent.front()
            && sent <= position
        {
            last_key = Some(key);
            self.sent.pop_front();
        }
        if let Some(last_key) = last_key {
            // The acknowledgment refers to a screen that shows all text before it, that of an
            // emulated terminal included.
            self.paint();
            self.pass_prediction(cx);
            if let Some(predictor) = &mut self.predictor {
                predictor.echo_acknowledged(last_key, cx);
            }
        }
    }

    /// Asks, behind the keys, to be told when they were read (RFC 860), where that says something
    /// of their echo.
    pub(super) fn ask_mark(&mut self, cx: &mut Cx<'_>) {
        if self.has_acknowledgments() {
            return;
        }
        let Some(predictor) = self.predictor.as_mut().filter(|it| it.wants_mark()) else { return };
        // What waits for room would follow the mark.
        if self.telnet.is_enabled(Side::Him, OptionCode::ECHO)
            && self.telnet.ask(Side::Him, OptionCode::TIMING_MARK, true, cx).is_ok()
        {
            predictor.mark_asked(cx);
        }
    }

    /// Takes the answer.
    pub(super) fn mark_answered(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            predictor.mark_answered(cx);
        }
    }

    /// Forgets the keys under way: they, or the next ones, are echoed otherwise.
    pub(super) fn interrupt_prediction(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.interrupt();
        }
    }

    /// Takes that others have written to the screen.
    pub(super) fn disturb_prediction(&mut self) {
        if let Some(predictor) = &mut self.predictor {
            predictor.disturb();
        }
    }

    /// Follows a window of another size.
    pub(super) fn resize_prediction(&mut self) {
        let (columns, rows) = self.window;
        if let Some(predictor) = &mut self.predictor {
            predictor.resize(columns, rows);
        }
        self.reserve_status_row();
    }

    /// Returns when something that is shown must be looked at again.
    pub(super) fn prediction_deadline(&self) -> Option<Instant> {
        self.predictor.as_ref().and_then(Predictor::deadline)
    }

    /// Looks at what is late.
    pub(super) fn run_prediction(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor
            && predictor.deadline().is_some_and(|deadline| deadline <= cx.now)
        {
            predictor.timeout(cx);
        }
    }

    /// Has what waits for the screen pass by the prediction, which adds its own.
    pub(super) fn pass_prediction(&mut self, cx: &mut Cx<'_>) {
        if let Some(predictor) = &mut self.predictor {
            self.screen.pass(predictor, cx);
        }
    }

    /// Takes away what is shown and not confirmed, at the end of the session, and resets the modes
    /// that the remote host has set.
    pub(super) fn end_prediction(&mut self, cx: &mut Cx<'_>) {
        self.interrupt_prediction();
        self.pass_prediction(cx);
        self.predictor = None;
        self.screen.restore();
    }
}

#[cfg(test)]
#[path = "predicted_tests.rs"]
mod tests;
