//! The receiving end: a user that reads, or a server that is written to.

use super::block::Block;
use super::netascii::Decoder;
use super::options::{AgreedParameters, Options};
use super::request::{Direction, Mode, Request};
use super::tftp_packet::{self, ErrorCode, Fault, Packet};
use super::timer::{Expiry, Timer};
use super::{EVENTS_MAX, Event, Failure, OPTIONS_REFUSED, Opening, Settings, WrongTransferId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::Counter;
use net::time::Instant;

/// Number of retransmission intervals for which a receiver keeps a transfer after its last
/// acknowledgment, in case that acknowledgment is lost.
const DALLY_INTERVALS: u32 = 3;

const BLOCK_TOO_LONG: Fault =
    Fault { code: ErrorCode::IllegalOperation, text: "The block exceeds the negotiated size." };

/// The receiving end of one transfer.
#[derive(Debug)]
pub struct Receiver {
    state: State,
    text: Option<Text>,
    /// The peer's port, once it has answered.
    peer: Option<u16>,
    agreed: AgreedParameters,
    timer: Timer,
    rcv_nxt: Block,
    /// Blocks received since the last acknowledgment.
    unacknowledged: u16,
    /// Whether the sender has been notified that `rcv_nxt` is missing.
    is_gap_reported: bool,
    pending_ack: Option<Block>,
    /// Send time of the acknowledgment that the next block answers.
    ack_sent_at: Option<Instant>,
    pending_error: Option<Vec<u8>>,
    events: VecDeque<Event>,
}

#[derive(Debug)]
enum State {
    Opening(Opening),
    Receiving,
    /// The whole file has been received; the owner is storing it.
    Storing,
    /// The transfer is complete; the last acknowledgment is repeated if the sender retransmits.
    Dallying,
    Ended,
}

/// Conversion state of a netascii transfer, whose line ends differ from the line ends of the file.
#[derive(Debug, Default)]
struct Text {
    decoder: Decoder,
    decoded_text: Vec<u8>,
}

impl Receiver {
    /// Starts a user's transfer that reads `request.name`, or returns `None` if `request` cannot be
    /// encoded. The direction of the request is ignored.
    #[must_use]
    pub fn for_user(request: &Request, settings: &Settings, now: Instant) -> Option<Self> {
        let options = request.options.with_limited_window();
        let read_request = Request { direction: Direction::Read, options, ..request.clone() };
        let opening = Opening::for_user(read_request.emit()?, options);
        let agreed = Options::default().agreed();
        Some(Self::new(opening, request.mode, (None, agreed), settings, now))
    }

    /// Starts a server's answer to a write request from the user at `port`, with the result of
    /// [`Options::grant`].
    #[must_use]
    pub fn for_server(
        mode: Mode,
        port: u16,
        grant: (Options, AgreedParameters),
        settings: &Settings,
        now: Instant,
    ) -> Self {
        let (answer, agreed) = grant;
        let datagram = if answer.is_empty() {
            tftp_packet::ack(0).to_vec()
        } else {
            tftp_packet::option_ack(&answer)
        };
        let opening = Opening::for_server(datagram);
        let mut receiver = Self::new(opening, mode, (Some(port), agreed), settings, now);
        receiver.timer.agree(agreed.timeout_s);
        receiver
    }

    fn new(
        opening: Opening,
        mode: Mode,
        (peer, agreed): (Option<u16>, AgreedParameters),
        settings: &Settings,
        now: Instant,
    ) -> Self {
        Self {
            state: State::Opening(opening),
            text: (mode == Mode::Netascii).then(Text::default),
            peer,
            agreed,
            timer: Timer::for_receiver(settings, now),
            rcv_nxt: Block::FIRST,
            unacknowledged: 0,
            is_gap_reported: false,
            pending_ack: None,
            ack_sent_at: None,
            pending_error: None,
            events: VecDeque::new(),
        }
    }

    /// Processes a datagram from `port` of the peer's host, and returns the next bytes of the file,
    /// or an empty slice.
    ///
    /// # Errors
    ///
    /// Returns [`WrongTransferId`] if the datagram belongs to another transfer.
    pub fn receive<'a>(
        &'a mut self,
        port: u16,
        datagram: &'a [u8],
        cx: &mut Cx<'_>,
    ) -> Result<&'a [u8], WrongTransferId> {
        if self.peer.is_some_and(|peer| peer != port) {
            cx.meter.count(Counter::TftpErrors);
            return Err(WrongTransferId);
        }
        match Packet::parse(datagram) {
            None => cx.meter.count(Counter::TftpErrors),
            Some(Packet::Data { block, data }) => return Ok(self.on_data(port, block, data, cx)),
            Some(Packet::OptionAck(answer)) => self.on_option_ack(port, &answer, cx),
            Some(Packet::Error { code, text }) => self.on_error(code, text),
            Some(Packet::Ack(_)) => cx.meter.count(Counter::TftpIgnored),
        }
        Ok(&[])
    }

    fn on_error(&mut self, code: ErrorCode, text: &[u8]) {
        if matches!(self.state, State::Opening(_) | State::Receiving) {
            self.fail(Failure::Refused(code, text.to_vec()));
        }
    }

    fn on_option_ack(&mut self, port: u16, answer: &Options, cx: &mut Cx<'_>) {
        let requested = match &self.state {
            State::Opening(Opening { requested: Some(requested), .. }) => *requested,
            State::Receiving if self.rcv_nxt == Block::FIRST => {
                // The peer repeats its OACK because ACK 0 was lost.
                self.pending_ack = Some(Block::default());
                return cx.meter.count(Counter::TftpIgnored);
            }
            _ => return cx.meter.count(Counter::TftpIgnored),
        };
        self.peer = Some(port);
        let Some(agreed) = requested.agreed_with(answer) else {
            return self.abort(OPTIONS_REFUSED);
        };
        self.agreed = agreed;
        self.timer.agree(agreed.timeout_s);
        self.on_opened(cx);
        self.pending_ack = Some(Block::default());
    }

    fn on_opened(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Receiving;
        self.timer.record_progress(self.ack_sent_at.take().map(|sent_at| cx.now - sent_at), cx.now);
        self.push_event(Event::Opened(self.agreed));
    }

    fn on_data<'a>(
        &'a mut self,
        port: u16,
        wire: u16,
        data: &'a [u8],
        cx: &mut Cx<'_>,
    ) -> &'a [u8] {
        if let State::Opening(_) = self.state {
            if wire != Block::FIRST.to_wire() {
                cx.meter.count(Counter::TftpIgnored);
                return &[];
            }
            // A server that answers without an OACK uses no options.
            self.peer = Some(port);
            self.on_opened(cx);
        }
        if wire != self.rcv_nxt.to_wire() || !matches!(self.state, State::Receiving) {
            self.on_unexpected_block(wire, cx);
            return &[];
        }
        let block_size = usize::from(self.agreed.block_size);
        if data.len() > block_size {
            self.abort(BLOCK_TOO_LONG);
            return &[];
        }
        self.accept_block(data.len() < block_size, cx);
        let is_last = matches!(self.state, State::Storing);
        match &mut self.text {
            None => data,
            Some(text) => text.decode(data, is_last),
        }
    }

    /// Advances past the expected block.
    fn accept_block(&mut self, is_last: bool, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::TftpBlocksIn);
        self.timer.record_progress(self.ack_sent_at.take().map(|sent_at| cx.now - sent_at), cx.now);
        self.rcv_nxt = self.rcv_nxt.next();
        self.is_gap_reported = false;
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        if is_last {
            self.state = State::Storing;
            self.pending_ack = None;
            self.timer.stop();
            return self.push_event(Event::Received);
        }
        self.timer.start(cx.now);
        if self.unacknowledged >= self.agreed.window_size {
            self.pending_ack = Some(self.rcv_nxt.previous());
        }
    }

    /// Handles a block that is not the next one: a duplicate, or one after a gap.
    fn on_unexpected_block(&mut self, wire: u16, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::TftpIgnored);
        let last_received = self.rcv_nxt.previous();
        let is_later_block = self.rcv_nxt.at_or_after(wire).0 - self.rcv_nxt.0 < 32_768;
        match self.state {
            // Our acknowledgment was lost. If blocks arrived since then, their acknowledgment is
            // still due at the end of the window; answering now would make the sender go back
            // needlessly.
            State::Receiving | State::Dallying
                if wire == last_received.to_wire() && self.unacknowledged == 0 =>
            {
                self.pending_ack = Some(last_received);
            }
            // RFC 7440 §4: the last block before the gap is acknowledged, once.
            State::Receiving if is_later_block && !self.is_gap_reported => {
                self.is_gap_reported = true;
                self.pending_ack = Some(last_received);
            }
            _ => {}
        }
    }

    /// Acknowledges the whole file after the owner has stored it.
    pub fn confirm_stored(&mut self, cx: &mut Cx<'_>) {
        if let State::Storing = self.state {
            self.state = State::Dallying;
            self.unacknowledged = 0;
            self.pending_ack = Some(self.rcv_nxt.previous());
            self.timer.dally(DALLY_INTERVALS, cx.now);
            self.push_event(Event::Complete);
        }
    }

    /// Ends the transfer with an ERROR because the file cannot be stored.
    pub fn abort(&mut self, fault: Fault) {
        if !matches!(self.state, State::Dallying | State::Ended) {
            self.pending_error = self.peer.map(|_| fault.emit());
            self.fail(Failure::Aborted(fault));
        }
    }

    /// Appends the next datagram to `out` and returns its length, or `None` if no datagram is due.
    /// Call until the result is `None`.
    pub fn transmit(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) -> Option<usize> {
        if let Some(error) = self.pending_error.take() {
            out.extend_from_slice(&error);
            return Some(error.len());
        }
        if let State::Opening(opening) = &mut self.state {
            if !core::mem::take(&mut opening.must_send) {
                return None;
            }
            out.extend_from_slice(&opening.datagram);
            let len = opening.datagram.len();
            self.timer.start(cx.now);
            return Some(len);
        }
        let block = self.pending_ack.take()?;
        out.extend_from_slice(&tftp_packet::ack(block.to_wire()));
        self.unacknowledged = 0;
        if let State::Receiving = self.state {
            self.ack_sent_at = Some(cx.now);
            self.timer.start(cx.now);
        }
        Some(tftp_packet::HEADER_LEN)
    }

    /// Returns the peer's port, once it is known.
    #[must_use]
    pub const fn peer_port(&self) -> Option<u16> {
        self.peer
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.timer.deadline()
    }

    /// Retransmits the last packet if no answer arrived in time, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let expiry = self.timer.expire(cx.now);
        if expiry == Expiry::NotYet {
            return;
        }
        match &mut self.state {
            State::Dallying => self.state = State::Ended,
            State::Opening(_) if expiry == Expiry::GiveUp => self.fail(Failure::NoAnswer),
            State::Receiving if expiry == Expiry::GiveUp => self.fail(Failure::Silence),
            State::Opening(opening) => {
                opening.must_send = true;
                cx.meter.count(Counter::TftpTimeouts);
            }
            State::Receiving => {
                self.ack_sent_at = None;
                self.pending_ack = Some(self.rcv_nxt.previous());
                cx.meter.count(Counter::TftpTimeouts);
            }
            State::Storing | State::Ended => {}
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the number of converted line ends, or `None` in octet mode.
    #[must_use]
    pub fn line_ends(&self) -> Option<u64> {
        self.text.as_ref().map(|text| text.decoder.line_ends())
    }

    /// Returns whether the transfer has ended and nothing more is to be sent.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended) && self.pending_error.is_none()
    }

    fn fail(&mut self, failure: Failure) {
        self.state = State::Ended;
        self.pending_ack = None;
        self.timer.stop();
        self.push_event(Event::Failed(failure));
    }

    fn push_event(&mut self, event: Event) {
        debug_assert!(
            self.events.len() < EVENTS_MAX,
            "each transfer reports one opening and one end"
        );
        self.events.push_back(event);
    }
}

impl Text {
    fn decode(&mut self, netascii: &[u8], is_last: bool) -> &[u8] {
        self.decoded_text.clear();
        self.decoder.decode(netascii, &mut self.decoded_text);
        if is_last {
            self.decoder.finish(&mut self.decoded_text);
        }
        &self.decoded_text
    }
}
