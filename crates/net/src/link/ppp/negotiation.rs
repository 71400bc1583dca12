//! The option negotiation automaton of RFC 1661 §4, shared by LCP, IPCP and IPv6CP.
//!
//! [`State::on`] is the table of §4.1. It depends only on state and event. [`Negotiation`] converts
//! packets and timeouts into events, and executes the resulting actions. Its [`Options`] determine
//! the options to request and the verdict on the peer's request. A [`NegotiationEvent`] informs the
//! owner when the layer goes up or down.
//!
//! An end that receives no answer sends its request [`CONFIGURES_MAX`] times, at intervals of
//! [`RESTART_INTERVAL`]. An end that has suggested other values [`NAKS_MAX`] times rejects the
//! options instead, so that a negotiation between two ends that never agree terminates (§4.6). The
//! table's restart and passive options are not implemented.

use super::control_packet::{self, Code, options};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Time to wait for an answer (RFC 1661 §4.6).
pub(super) const RESTART_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum number of Configure-Requests: Max-Configure.
pub(super) const CONFIGURES_MAX: u32 = 10;
/// Maximum number of Terminate-Requests (Max-Terminate). If none is answered, the link is
/// considered terminated.
pub(super) const TERMINATES_MAX: u32 = 2;
/// Maximum number of Configure-Naks (Max-Failure). Further unacceptable options are rejected.
pub(super) const NAKS_MAX: u32 = 5;
/// Maximum number of queued packets. Each of them answers one received packet.
const OUTPUT_LIMIT: usize = 8;

/// A state of §4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The layer below is down, and no open is requested.
    #[default]
    Initial,
    /// The layer below is down, and an open is requested.
    Starting,
    /// The layer below is up, and no open is requested.
    Closed,
    /// The negotiation was given up, or the peer closed the layer. A request of the peer restarts
    /// the negotiation.
    Stopped,
    /// A Terminate-Request was sent; the next state is Closed.
    Closing,
    /// A Terminate-Request was sent or accepted; the next state is Stopped.
    Stopping,
    /// A Configure-Request was sent.
    RequestSent,
    /// The sent Configure-Request was accepted.
    AckReceived,
    /// The peer's Configure-Request was accepted.
    AckSent,
    /// Both requests are accepted.
    Opened,
}

/// An event of §4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The layer below is up.
    Up,
    /// The layer below is down.
    Down,
    /// The layer is requested to open.
    Open,
    /// The layer is requested to close.
    Close,
    /// The restart timer expired, and the restart counter is not zero: TO+.
    Timeout,
    /// The restart timer expired, and the restart counter is zero: TO-.
    LastTimeout,
    /// An acceptable Configure-Request: RCR+.
    GoodRequest,
    /// A Configure-Request that is not acceptable: RCR-.
    BadRequest,
    /// Configure-Ack: RCA.
    Ack,
    /// Configure-Nak or Configure-Reject: RCN.
    Nak,
    /// Terminate-Request: RTR.
    TerminateRequest,
    /// Terminate-Ack: RTA.
    TerminateAck,
    /// An unknown code: RUC.
    UnknownCode,
    /// A rejection that is permitted: RXJ+.
    MildReject,
    /// A rejection that is catastrophic: RXJ-.
    FatalReject,
    /// Echo-Request, Echo-Reply or Discard-Request: RXR.
    Echo,
}

/// An action of §4.4. The RFC's abbreviation is in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Report that the layer is up (tlu).
    ThisLayerUp,
    /// Report that the layer is down (tld).
    ThisLayerDown,
    /// Inform the layer below that it is needed (tls).
    ThisLayerStarted,
    /// Inform the layer below that it is no longer needed (tlf).
    ThisLayerFinished,
    /// Initialize the restart counter (irc).
    InitializeRestartCount,
    /// Set the restart counter to zero (zrc).
    ZeroRestartCount,
    /// Send a Configure-Request (scr).
    SendConfigureRequest,
    /// Send the prepared answer to the received packet (sca, scn, scj, ser).
    SendAnswer,
    /// Send a Terminate-Request (str).
    SendTerminateRequest,
    /// Send a Terminate-Ack (sta).
    SendTerminateAck,
}

impl State {
    /// Returns the actions and the next state from the table of §4.1. Returns `None` if the table
    /// has no entry, because the event cannot occur in this state.
    pub(super) fn on(self, event: Event) -> Option<(&'static [Action], Self)> {
        use Action::{
            InitializeRestartCount as IRC, SendTerminateAck as STA, SendTerminateRequest as STR,
            ThisLayerDown as TLD, ThisLayerFinished as TLF, ThisLayerStarted as TLS,
        };
        use State::{
            AckReceived, AckSent, Closed, Closing, Initial, Opened, RequestSent, Starting, Stopped,
            Stopping,
        };
        let is_negotiating = matches!(self, RequestSent | AckReceived | AckSent);
        Some(match (event, self) {
            (Event::Up, Initial) => (&[], Closed),
            (Event::Up, Starting) => (&RESTART_AND_REQUEST, RequestSent),
            (Event::Down, Closed | Closing) => (&[], Initial),
            (Event::Down, Stopped) => (&[TLS], Starting),
            (Event::Down, Stopping) => (&[], Starting),
            (Event::Down, Opened) => (&[TLD], Starting),
            (Event::Down, _) if is_negotiating => (&[], Starting),
            (Event::Open, Initial) => (&[TLS], Starting),
            (Event::Open, Closed) => (&RESTART_AND_REQUEST, RequestSent),
            (Event::Open, Closing) => (&[], Stopping),
            (Event::Open, state) => (&[], state),
            (Event::Close, Starting) => (&[TLF], Initial),
            (Event::Close, Stopped) => (&[], Closed),
            (Event::Close, Stopping) => (&[], Closing),
            (Event::Close, Opened) => (&[TLD, IRC, STR], Closing),
            (Event::Close, _) if is_negotiating => (&[IRC, STR], Closing),
            (Event::Close, state) => (&[], state),
            (Event::Up | Event::Down, _) => return None,
            // While the layer below is down, no packet can arrive and no timer is running.
            (_, Initial | Starting) => return None,
            (Event::Timeout, Closing | Stopping) => (&[STR], self),
            (Event::LastTimeout, Closing) => (&[TLF], Closed),
            (Event::LastTimeout, Stopping) => (&[TLF], Stopped),
            (Event::LastTimeout, _) if is_negotiating => (&[TLF], Stopped),
            (Event::Timeout, AckSent) => (&[Action::SendConfigureRequest], AckSent),
            (Event::Timeout, _) if is_negotiating => (&[Action::SendConfigureRequest], RequestSent),
            (Event::Timeout | Event::LastTimeout, _) => return None,
            (Event::GoodRequest | Event::BadRequest, _) => return Some(self.on_request(event)),
            (Event::Ack | Event::Nak, _) => return Some(self.on_answer(event)),
            (Event::TerminateRequest, Opened) => (&[TLD, Action::ZeroRestartCount, STA], Stopping),
            (Event::TerminateRequest, AckReceived | AckSent) => (&[STA], RequestSent),
            (Event::TerminateRequest, state) => (&[STA], state),
            (Event::TerminateAck, Closing) => (&[TLF], Closed),
            (Event::TerminateAck, Stopping) => (&[TLF], Stopped),
            (Event::TerminateAck, Opened) => (&[TLD, Action::SendConfigureRequest], RequestSent),
            (Event::TerminateAck | Event::MildReject, AckReceived) => (&[], RequestSent),
            (Event::TerminateAck | Event::MildReject, state) => (&[], state),
            (Event::UnknownCode, state) => (&[Action::SendAnswer], state),
            (Event::FatalReject, Closed | Closing) => (&[TLF], Closed),
            (Event::FatalReject, Opened) => (&[TLD, IRC, STR], Stopping),
            (Event::FatalReject, _) => (&[TLF], Stopped),
            (Event::Echo, Opened) => (&[Action::SendAnswer], Opened),
            (Event::Echo, state) => (&[], state),
        })
    }

    /// The rows RCR+ and RCR- of the table.
    fn on_request(self, event: Event) -> (&'static [Action], Self) {
        use Action::{
            InitializeRestartCount as IRC, SendAnswer, SendConfigureRequest as SCR,
            ThisLayerDown as TLD, ThisLayerUp as TLU,
        };
        let is_good = event == Event::GoodRequest;
        let sent = if is_good { Self::AckSent } else { Self::RequestSent };
        match self {
            Self::Closed => (&[Action::SendTerminateAck], self),
            Self::Stopped => (&[IRC, SCR, SendAnswer], sent),
            Self::RequestSent | Self::AckSent => (&[SendAnswer], sent),
            Self::AckReceived if is_good => (&[SendAnswer, TLU], Self::Opened),
            Self::AckReceived => (&[SendAnswer], self),
            Self::Opened => (&[TLD, SCR, SendAnswer], sent),
            Self::Initial | Self::Starting | Self::Closing | Self::Stopping => (&[], self),
        }
    }

    /// The rows RCA and RCN of the table.
    fn on_answer(self, event: Event) -> (&'static [Action], Self) {
        use Action::{
            InitializeRestartCount as IRC, SendConfigureRequest as SCR, ThisLayerDown as TLD,
            ThisLayerUp as TLU,
        };
        match (self, event) {
            (Self::Closed | Self::Stopped, _) => (&[Action::SendTerminateAck], self),
            (Self::RequestSent, Event::Ack) => (&[IRC], Self::AckReceived),
            (Self::AckSent, Event::Ack) => (&[IRC, TLU], Self::Opened),
            (Self::RequestSent | Self::AckSent, _) => (&RESTART_AND_REQUEST, self),
            // An unexpected answer: two Configure-Requests may have crossed (RFC 1661 §4.1, note
            // x).
            (Self::AckReceived, _) => (&[SCR], Self::RequestSent),
            (Self::Opened, _) => (&[TLD, SCR], Self::RequestSent),
            (Self::Initial | Self::Starting | Self::Closing | Self::Stopping, _) => (&[], self),
        }
    }

    /// Returns whether the restart timer runs in this state.
    fn is_timed(self) -> bool {
        matches!(
            self,
            Self::Closing | Self::Stopping | Self::RequestSent | Self::AckReceived | Self::AckSent
        )
    }
}

const RESTART_AND_REQUEST: [Action; 2] =
    [Action::InitializeRestartCount, Action::SendConfigureRequest];

/// An event for the owner of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NegotiationEvent {
    /// The layer is up: tlu.
    Up,
    /// The layer is down: tld.
    Down,
    /// The negotiation has ended, and does not restart by itself: tlf.
    Finished,
}

/// The verdict on one option of the peer's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The option is accepted.
    Ack,
    /// The option is not accepted with the requested value, but would be accepted with this value.
    Nak(Vec<u8>),
    /// The option is unknown, or not accepted with any value.
    Reject,
}

/// The options of one control protocol: those that this end requests, and those that it accepts
/// from the peer.
pub(super) trait Options {
    /// Appends the options of this end's request.
    fn request(&mut self, options: &mut Vec<u8>, cx: &mut Cx<'_>);

    /// Starts the evaluation of a request of the peer, and discards the results of the previous
    /// evaluation.
    fn begin(&mut self);

    /// Evaluates one option of the peer's request.
    fn evaluate(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>) -> Verdict;

    /// Adopts the options of the evaluated request, because all of them were accepted.
    fn accept(&mut self);

    /// Processes an option of a Configure-Nak: the value that the peer would accept.
    fn process_nak(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>);

    /// Processes an option of a Configure-Reject: the peer accepts it with no value.
    fn process_reject(&mut self, kind: u8);

    /// Starts over with the preferred options.
    fn restart(&mut self, cx: &mut Cx<'_>);
}

/// One control protocol's automaton with its options.
#[derive(Debug, Default)]
pub(super) struct Negotiation<O> {
    /// The negotiated options.
    pub(super) options: O,
    state: State,
    /// The last identifier used.
    identifier: u8,
    /// The identifier of the last Configure-Request sent.
    request_identifier: u8,
    /// The options of the last Configure-Request sent.
    request: Vec<u8>,
    tries_left: u32,
    naks_sent: u32,
    deadline: Option<Instant>,
    output: VecDeque<Vec<u8>>,
    events: VecDeque<NegotiationEvent>,
}

/// The received packet that causes an event, and the answer prepared for it.
#[derive(Debug, Default)]
struct Cause {
    identifier: u8,
    answer: Option<Vec<u8>>,
}

impl<O: Options> Negotiation<O> {
    /// Returns the negotiation of `options` in its initial state.
    pub(super) fn new(options: O) -> Self {
        Self {
            options,
            state: State::default(),
            identifier: 0,
            request_identifier: 0,
            request: Vec::new(),
            tries_left: 0,
            naks_sent: 0,
            deadline: None,
            output: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns whether both ends have agreed.
    pub(super) fn is_opened(&self) -> bool {
        self.state == State::Opened
    }

    /// Returns whether a termination is in progress.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.state, State::Closing | State::Stopping)
    }

    /// Returns whether the layer is not open and no negotiation is in progress.
    pub(super) fn is_given_up(&self) -> bool {
        !self.is_opened() && !self.state.is_timed()
    }

    /// Processes a request to open or close the layer, or a change of the layer below.
    pub(super) fn drive(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.on(event, Cause::default(), cx);
    }

    /// Processes a packet of this protocol. Returns the packet if its code is not one of the first
    /// seven of [`Code`]. The owner then processes it, or passes it to [`Self::refuse`].
    pub(super) fn receive<'p>(
        &mut self,
        bytes: &'p [u8],
        cx: &mut Cx<'_>,
    ) -> Option<control_packet::Packet<'p>> {
        let Some(packet) = control_packet::Packet::read(bytes) else {
            cx.meter.count(Counter::PppControlErrors);
            return None;
        };
        // RFC 1661 §3.4, §3.5: packets are ignored while the layer below is down.
        if matches!(self.state, State::Initial | State::Starting) {
            return None;
        }
        match packet.code {
            Code::CONFIGURE_REQUEST => self.process_request(&packet, cx),
            Code::CONFIGURE_ACK | Code::CONFIGURE_NAK | Code::CONFIGURE_REJECT => {
                self.process_answer(&packet, cx);
            }
            Code::TERMINATE_REQUEST => self.on_packet(Event::TerminateRequest, &packet, None, cx),
            Code::TERMINATE_ACK => self.on_packet(Event::TerminateAck, &packet, None, cx),
            Code::CODE_REJECT => {
                let is_fatal = packet.data.first().is_some_and(|code| *code <= Code::CODE_REJECT);
                let event = if is_fatal { Event::FatalReject } else { Event::MildReject };
                self.on_packet(event, &packet, None, cx);
            }
            _ => return Some(packet),
        }
        None
    }

    /// Rejects a packet with an unknown code.
    pub(super) fn refuse(
        &mut self,
        packet: &control_packet::Packet<'_>,
        mru: usize,
        cx: &mut Cx<'_>,
    ) {
        cx.meter.count(Counter::PppControlErrors);
        let identifier = self.next_identifier();
        let refused = packet.bytes;
        let quoted =
            refused.get(..mru.saturating_sub(control_packet::HEADER_LEN)).unwrap_or(refused);
        let answer = control_packet::emit(Code::CODE_REJECT, identifier, quoted);
        self.on_packet(Event::UnknownCode, packet, Some(answer), cx);
    }

    /// Processes an Echo-Request, Echo-Reply or Discard-Request, and sends `answer` if the layer is
    /// up.
    pub(super) fn echoed(
        &mut self,
        packet: &control_packet::Packet<'_>,
        answer: Option<Vec<u8>>,
        cx: &mut Cx<'_>,
    ) {
        self.on_packet(Event::Echo, packet, answer, cx);
    }

    /// Queues a packet for the line.
    pub(super) fn send(&mut self, code: u8, data: &[u8], cx: &mut Cx<'_>) {
        let identifier = self.next_identifier();
        self.queue(control_packet::emit(code, identifier, data), cx);
    }

    fn next_identifier(&mut self) -> u8 {
        self.identifier = self.identifier.wrapping_add(1);
        self.identifier
    }

    fn process_request(&mut self, packet: &control_packet::Packet<'_>, cx: &mut Cx<'_>) {
        let Some(requested) = options(packet.data) else {
            return cx.meter.count(Counter::PppControlErrors);
        };
        let mut naks = Vec::new();
        let mut rejects = Vec::new();
        self.options.begin();
        for (kind, value) in requested {
            match self.options.evaluate(kind, value, cx) {
                Verdict::Ack => {}
                Verdict::Nak(better) if self.naks_sent < NAKS_MAX => {
                    control_packet::put_option(kind, &better, &mut naks);
                }
                Verdict::Nak(_) | Verdict::Reject => {
                    control_packet::put_option(kind, value, &mut rejects);
                }
            }
        }
        // RFC 1661 §5.4: a Configure-Reject contains only the rejected options.
        let (code, data) = if !rejects.is_empty() {
            (Code::CONFIGURE_REJECT, &rejects[..])
        } else if !naks.is_empty() {
            self.naks_sent += 1;
            (Code::CONFIGURE_NAK, &naks[..])
        } else {
            self.naks_sent = 0;
            (Code::CONFIGURE_ACK, packet.data)
        };
        let answer = control_packet::emit(code, packet.identifier, data);
        if code == Code::CONFIGURE_ACK {
            // The layer goes down with the old options before the new options are adopted.
            if self.state == State::Opened {
                self.events.push_back(NegotiationEvent::Down);
            }
            self.options.accept();
            self.on_packet(Event::GoodRequest, packet, Some(answer), cx);
        } else {
            self.on_packet(Event::BadRequest, packet, Some(answer), cx);
        }
    }

    fn process_answer(&mut self, packet: &control_packet::Packet<'_>, cx: &mut Cx<'_>) {
        let is_ack = packet.code == Code::CONFIGURE_ACK;
        // RFC 1661 §5.2 to §5.4: packets that do not answer the last request are discarded.
        let is_answer = packet.identifier == self.request_identifier
            && (!is_ack || packet.data == self.request.as_slice());
        let (true, Some(answered)) = (is_answer, options(packet.data)) else {
            return cx.meter.count(Counter::PppControlErrors);
        };
        if !is_ack && self.state.is_timed() {
            for (kind, value) in answered {
                if packet.code == Code::CONFIGURE_NAK {
                    self.options.process_nak(kind, value, cx);
                } else {
                    self.options.process_reject(kind);
                }
            }
        }
        let event = if is_ack { Event::Ack } else { Event::Nak };
        self.on_packet(event, packet, None, cx);
    }

    fn on_packet(
        &mut self,
        event: Event,
        packet: &control_packet::Packet<'_>,
        answer: Option<Vec<u8>>,
        cx: &mut Cx<'_>,
    ) {
        self.on(event, Cause { identifier: packet.identifier, answer }, cx);
    }

    fn on(&mut self, event: Event, cause: Cause, cx: &mut Cx<'_>) {
        let Some((actions, next)) = self.state.on(event) else { return };
        let before = self.state;
        let mut cause = cause;
        self.state = next;
        if matches!((before, next), (State::Starting | State::Closed, State::RequestSent)) {
            self.naks_sent = 0;
            self.options.restart(cx);
        }
        for action in actions {
            self.act(*action, &mut cause, cx);
        }
        if !next.is_timed() {
            self.deadline = None;
        }
    }

    fn act(&mut self, action: Action, cause: &mut Cause, cx: &mut Cx<'_>) {
        match action {
            Action::ThisLayerUp => self.events.push_back(NegotiationEvent::Up),
            Action::ThisLayerDown if self.events.back() != Some(&NegotiationEvent::Down) => {
                self.events.push_back(NegotiationEvent::Down);
            }
            Action::ThisLayerDown | Action::ThisLayerStarted => {}
            Action::ThisLayerFinished => self.events.push_back(NegotiationEvent::Finished),
            Action::InitializeRestartCount => {
                let is_ending = matches!(self.state, State::Closing | State::Stopping);
                self.tries_left = if is_ending { TERMINATES_MAX } else { CONFIGURES_MAX };
            }
            Action::ZeroRestartCount => {
                self.tries_left = 0;
                self.deadline = Some(cx.now + RESTART_INTERVAL);
            }
            Action::SendConfigureRequest => {
                let identifier = self.next_identifier();
                self.request_identifier = identifier;
                self.request.clear();
                self.options.request(&mut self.request, cx);
                let packet =
                    control_packet::emit(Code::CONFIGURE_REQUEST, identifier, &self.request);
                self.send_timed(packet, cx);
            }
            Action::SendTerminateRequest => {
                let identifier = self.next_identifier();
                self.send_timed(control_packet::emit(Code::TERMINATE_REQUEST, identifier, &[]), cx);
            }
            Action::SendTerminateAck => {
                self.queue(control_packet::emit(Code::TERMINATE_ACK, cause.identifier, &[]), cx);
            }
            Action::SendAnswer => {
                if let Some(answer) = cause.answer.take() {
                    self.queue(answer, cx);
                }
            }
        }
    }

    fn send_timed(&mut self, packet: Vec<u8>, cx: &mut Cx<'_>) {
        self.tries_left = self.tries_left.saturating_sub(1);
        self.deadline = Some(cx.now + RESTART_INTERVAL);
        self.queue(packet, cx);
    }

    fn queue(&mut self, packet: Vec<u8>, cx: &mut Cx<'_>) {
        if self.output.len() >= OUTPUT_LIMIT {
            return cx.meter.count(Counter::PppControlDropped);
        }
        self.output.push_back(packet);
    }

    /// Drops everything in progress, because the line hung up. The preferred options remain.
    pub(super) fn reset(&mut self) {
        self.state = State::Initial;
        self.deadline = None;
        self.output.clear();
        self.events.clear();
    }

    /// Returns the next packet for the line.
    pub(super) fn transmit(&mut self) -> Option<Vec<u8>> {
        self.output.pop_front()
    }

    /// Returns whether a packet is queued for the line.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns the next event; call until there is none.
    pub(super) fn next_event(&mut self) -> Option<NegotiationEvent> {
        self.events.pop_front()
    }

    /// Returns when to call [`Self::timeout`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Repeats a request, or gives up.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.deadline.is_none_or(|deadline| cx.now < deadline) {
            return;
        }
        self.deadline = None;
        cx.meter.count(Counter::PppTimeouts);
        let is_last = self.tries_left == 0;
        self.drive(if is_last { Event::LastTimeout } else { Event::Timeout }, cx);
    }
}

#[cfg(test)]
mod tests;
