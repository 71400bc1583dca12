//! WILL, WONT, DO and DONT: requests, answers, and the effects of a change.

use super::command::{IAC, Verb};
use super::inspector::{Direction, RecordContent};
use super::option;
use super::q_method::Outcome;
use super::{AskError, Event, OptionCode, OptionState, Side, Telnet};
use super::{ServerSettings, UserSettings};
use net::Cx;
use net::meter::Counter;

impl Telnet {
    /// Sends the initial offers and requests of the role, if the settings enable them.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        if !self.starts_negotiation {
            return;
        }
        // START_TLS is first, since agreements before TLS are void.
        if self.options.allowed().contains(OptionCode::START_TLS) {
            _ = self.ask(self.users_side(), OptionCode::START_TLS, true, cx);
        }
        let is_user = self.is_user();
        let (wanted, usual) = if is_user {
            (
                [
                    (Side::Local, OptionCode::TERMINAL_TYPE),
                    (Side::Local, OptionCode::NAWS),
                    (Side::Remote, OptionCode::SUPPRESS_GO_AHEAD),
                    (Side::Local, OptionCode::SUPPRESS_GO_AHEAD),
                ],
                UserSettings::OPTIONS,
            )
        } else {
            (
                [
                    (Side::Local, OptionCode::ECHO),
                    (Side::Local, OptionCode::SUPPRESS_GO_AHEAD),
                    (Side::Remote, OptionCode::TERMINAL_TYPE),
                    (Side::Remote, OptionCode::NAWS),
                ],
                ServerSettings::OPTIONS,
            )
        };
        for (side, option) in wanted {
            // An error means that the peer's earlier request has already been accepted.
            _ = self.ask(side, option, true, cx);
        }
        let allowed = self.options.allowed();
        for option in option::known() {
            if let Some(side) = option::only_side(is_user, option)
                && allowed.contains(option)
                && !usual.contains(option)
                && option::initiates(is_user, option)
            {
                _ = self.ask(side, option, true, cx);
            }
        }
    }

    /// Requests that `side` start (or stop) performing `option`. The answer arrives as an event.
    ///
    /// TIMING-MARK can be requested from the peer any number of times; other options only if the
    /// request would change the state.
    pub fn ask(
        &mut self,
        side: Side,
        option: OptionCode,
        enable: bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), AskError> {
        if (side, option, enable) == (Side::Remote, OptionCode::TIMING_MARK, true) {
            return self.ask_timing_mark(cx);
        }
        if !self.options.allows(side, option) {
            return Err(AskError::NotSupported);
        }
        let before = self.options.state(side, option);
        let mut after = before;
        if let Some(answer) = after.ask(enable)? {
            if !self.send_verb(side, option, answer, cx) {
                return Err(AskError::OutputFull);
            }
            self.inspect_sent(side, option, answer, Side::Local, (before, after), cx);
        }
        self.options.set_state(side, option, after);
        Ok(())
    }

    pub(super) fn on_negotiation(
        &mut self,
        verb: Verb,
        option: OptionCode,
        cx: &mut Cx<'_>,
    ) -> Option<Event<'static>> {
        cx.meter.count(Counter::TelnetNegotiationsIn);
        if option == OptionCode::TIMING_MARK {
            return self.on_timing_mark(verb, cx);
        }
        let (side, enable) = verb.side_and_enable();
        let before = self.options.state(side, option);
        let mut after = before;
        let step = after.receive(enable, self.options.allows(side, option));
        let requested_by = if before.is_settled() { Side::Remote } else { Side::Local };
        let negotiation =
            RecordContent::Negotiation { verb, option, side, requested_by, before, after };
        self.inspect(Direction::Received, || negotiation, cx);
        if step.outcome == Outcome::RefusedLocally {
            return self.refuse(side, option, cx);
        }
        if let Some(answer) = step.answer {
            self.answers_left = self.answers_left.checked_sub(1)?;
            if !self.send_verb(side, option, answer, cx) {
                // The request is ignored: the queue has no space for the answer, because the peer
                // does not read.
                return None;
            }
            self.inspect_sent(side, option, answer, requested_by, (after, after), cx);
        }
        self.options.set_state(side, option, after);
        match step.outcome {
            Outcome::Unchanged | Outcome::RefusedLocally => None,
            Outcome::RefusedByPeer => Some(Event::Refused { side, option }),
            Outcome::Disabled => {
                self.on_disabled(side, option, cx);
                Some(Event::Option { side, option, enabled: false })
            }
            Outcome::Enabled => {
                self.on_enabled(side, option, cx);
                Some(Event::Option { side, option, enabled: true })
            }
        }
    }

    fn refuse(
        &mut self,
        side: Side,
        option: OptionCode,
        cx: &mut Cx<'_>,
    ) -> Option<Event<'static>> {
        cx.meter.count(Counter::TelnetOptionsRefused);
        let refusals_left = self.refusals_left.checked_sub(1)?;
        self.refusals_left = refusals_left;
        if self.send_verb(side, option, false, cx) {
            let disabled = OptionState::No;
            self.inspect_sent(side, option, false, Side::Remote, (disabled, disabled), cx);
        }
        let is_security_option = matches!(option, OptionCode::AUTHENTICATION | OptionCode::ENCRYPT);
        is_security_option.then_some(Event::Declined { side, option })
    }

    fn on_enabled(&mut self, side: Side, option: OptionCode, cx: &mut Cx<'_>) {
        if !self.is_in_force(side, option) {
            return;
        }
        let (handler, mut context) =
            self.options.handler(option, &mut self.output, &mut self.inspector, cx);
        if let Some(handler) = handler {
            handler.on_enabled(side, &mut context);
        }
    }

    fn on_disabled(&mut self, side: Side, option: OptionCode, cx: &mut Cx<'_>) {
        let (handler, mut context) =
            self.options.handler(option, &mut self.output, &mut self.inspector, cx);
        if let Some(handler) = handler {
            handler.on_disabled(side, &mut context);
        }
    }

    /// Sends DO TIMING-MARK (RFC 860).
    fn ask_timing_mark(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let awaited_count =
            self.timing_marks_awaited.checked_add(1).ok_or(AskError::AlreadyRequested)?;
        if !self.send_verb(Side::Remote, OptionCode::TIMING_MARK, true, cx) {
            return Err(AskError::OutputFull);
        }
        self.inspect_mark(Direction::Sent, Verb::Do, Side::Local, cx);
        self.timing_marks_awaited = awaited_count;
        Ok(())
    }

    /// Processes a command about TIMING-MARK, which marks a position in the stream and has no state
    /// (RFC 860).
    fn on_timing_mark(&mut self, verb: Verb, cx: &mut Cx<'_>) -> Option<Event<'static>> {
        let requested_by = match verb {
            Verb::Do | Verb::Dont => Side::Remote,
            Verb::Will | Verb::Wont => Side::Local,
        };
        self.inspect_mark(Direction::Received, verb, requested_by, cx);
        match verb {
            // All earlier data has been passed to the caller, and the caller's answers are queued
            // before the answer to the timing mark.
            Verb::Do => {
                if self.send_verb(Side::Local, OptionCode::TIMING_MARK, true, cx) {
                    self.inspect_mark(Direction::Sent, Verb::Will, Side::Remote, cx);
                }
                None
            }
            Verb::Will | Verb::Wont => {
                // An unsolicited answer has no meaning, and answering it could cause a loop.
                self.timing_marks_awaited = self.timing_marks_awaited.checked_sub(1)?;
                Some(Event::TimingMark { agreed: verb == Verb::Will })
            }
            Verb::Dont => None,
        }
    }

    /// Returns whether `option` is enabled and no request to disable it is outstanding.
    pub(super) fn is_in_force(&self, side: Side, option: OptionCode) -> bool {
        self.options.state(side, option) == OptionState::Yes
    }

    fn send_verb(&mut self, side: Side, option: OptionCode, enable: bool, cx: &mut Cx<'_>) -> bool {
        let verb = Verb::outgoing(side, enable);
        self.put(&[IAC, verb.code(), option.0], Counter::TelnetNegotiationsOut, cx)
    }

    fn inspect_sent(
        &mut self,
        side: Side,
        option: OptionCode,
        enable: bool,
        requested_by: Side,
        (before, after): (OptionState, OptionState),
        cx: &mut Cx<'_>,
    ) {
        let verb = Verb::outgoing(side, enable);
        let content =
            || RecordContent::Negotiation { verb, option, side, requested_by, before, after };
        self.inspect(Direction::Sent, content, cx);
    }

    fn inspect_mark(
        &mut self,
        direction: Direction,
        verb: Verb,
        requested_by: Side,
        cx: &mut Cx<'_>,
    ) {
        let before = OptionState::No;
        let after = OptionState::No;
        let option = OptionCode::TIMING_MARK;
        // The side that receives the request for a mark performs the option.
        let side = if requested_by == Side::Local { Side::Remote } else { Side::Local };
        let content =
            || RecordContent::Negotiation { verb, option, side, requested_by, before, after };
        self.inspect(direction, content, cx);
    }
}
