//! The sending end: a user that writes, or a server that is read from.

use super::block::Block;
use super::options::{AgreedParameters, Options};
use super::request::{Direction, Mode, Request};
use super::tftp_packet::{self, Fault, Packet};
use super::timer::{Expiry, Timer};
use super::{
    EVENTS_MAX, Event, Failure, OPTIONS_REFUSED, Opening, Settings, WrongTransferId, netascii,
};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::Counter;
use net::time::Instant;

/// Minimum size of the send buffer in bytes, however small the window is.
const BUFFER_MIN_BYTES: usize = 65_536;

/// The sending end of one transfer.
#[derive(Debug)]
pub struct Sender {
    state: State,
    mode: Mode,
    /// The peer's port, once it has answered.
    peer: Option<u16>,
    agreed: AgreedParameters,
    timer: Timer,
    /// File bytes from `snd_una` on, preceded by `released_bytes` bytes that are already acknowledged.
    buffer: Vec<u8>,
    released_bytes: usize,
    /// Whether the end of the file is in the buffer.
    is_finished: bool,
    /// Number of converted line ends.
    line_ends: u64,
    /// The first unacknowledged block.
    snd_una: Block,
    /// The next block to send.
    snd_nxt: Block,
    /// The first block that was never sent.
    snd_max: Block,
    /// The block for which a duplicate acknowledgment has already triggered a retransmission.
    rewound_for: Option<Block>,
    /// The last block that was sent for the first time, and its time of sending.
    timed_block: Option<(Block, Instant)>,
    pending_error: Option<Vec<u8>>,
    events: VecDeque<Event>,
}

#[derive(Debug)]
enum State {
    Opening(Opening),
    Sending,
    Ended,
}

impl Sender {
    /// Starts a user's transfer that writes `request.name`, or returns `None` if `request` cannot
    /// be encoded. The direction of the request is ignored.
    #[must_use]
    pub fn for_user(request: &Request, settings: &Settings, now: Instant) -> Option<Self> {
        let options = request.options.with_limited_window();
        let write_request = Request { direction: Direction::Write, options, ..request.clone() };
        let opening = Opening::for_user(write_request.emit()?, options);
        let agreed = Options::default().agreed();
        Some(Self::new(State::Opening(opening), request.mode, (None, agreed), settings, now))
    }

    /// Starts a server's answer to a read request from the user at `port`, with the result of
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
        let state = if answer.is_empty() {
            State::Sending
        } else {
            State::Opening(Opening::for_server(tftp_packet::option_ack(&answer)))
        };
        let mut sender = Self::new(state, mode, (Some(port), agreed), settings, now);
        sender.timer.agree(agreed.timeout_s);
        if answer.is_empty() {
            sender.push_event(Event::Opened(agreed));
        }
        sender
    }

    fn new(
        state: State,
        mode: Mode,
        (peer, agreed): (Option<u16>, AgreedParameters),
        settings: &Settings,
        now: Instant,
    ) -> Self {
        Self {
            state,
            mode,
            peer,
            agreed,
            timer: Timer::for_sender(settings, now),
            buffer: Vec::new(),
            released_bytes: 0,
            is_finished: false,
            line_ends: 0,
            snd_una: Block::FIRST,
            snd_nxt: Block::FIRST,
            snd_max: Block::FIRST,
            rewound_for: None,
            timed_block: None,
            pending_error: None,
            events: VecDeque::new(),
        }
    }

    /// Returns how many bytes of the file can be written now.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.is_finished || matches!(self.state, State::Ended) {
            return 0;
        }
        let limit = self.window_bytes().saturating_mul(2).max(BUFFER_MIN_BYTES);
        limit.saturating_sub(self.buffered_bytes())
    }

    /// Buffers the next bytes of the file, at most [`Self::room`], and returns the number of bytes
    /// accepted.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room());
        let accepted = bytes.get(..count).unwrap_or_default();
        match self.mode {
            Mode::Octet => self.buffer.extend_from_slice(accepted),
            Mode::Netascii => self.line_ends += netascii::encode(accepted, &mut self.buffer),
        }
        count
    }

    /// Returns the number of converted line ends, or `None` in octet mode.
    #[must_use]
    pub fn line_ends(&self) -> Option<u64> {
        (self.mode == Mode::Netascii).then_some(self.line_ends)
    }

    /// Marks the end of the file.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Ends the transfer with an ERROR.
    pub fn abort(&mut self, fault: Fault) {
        if !matches!(self.state, State::Ended) {
            self.pending_error = self.peer.map(|_| fault.emit());
            self.fail(Failure::Aborted(fault));
        }
    }

    /// Processes a datagram from `port` of the peer's host.
    ///
    /// # Errors
    ///
    /// Returns [`WrongTransferId`] if the datagram belongs to another transfer.
    pub fn receive(
        &mut self,
        port: u16,
        datagram: &[u8],
        cx: &mut Cx<'_>,
    ) -> Result<(), WrongTransferId> {
        if self.peer.is_some_and(|peer| peer != port) {
            cx.meter.count(Counter::TftpErrors);
            return Err(WrongTransferId);
        }
        let Some(packet) = Packet::parse(datagram) else {
            cx.meter.count(Counter::TftpErrors);
            return Ok(());
        };
        match (&self.state, packet) {
            (State::Ended, _) => {}
            (_, Packet::Error { code, text }) => {
                self.fail(Failure::Refused(code, text.to_vec()));
            }
            (State::Opening(_), Packet::Ack(0)) => self.on_opened(port, None, cx),
            (State::Opening(_), Packet::OptionAck(answer)) => {
                self.on_opened(port, Some(answer), cx);
            }
            (State::Sending, Packet::Ack(block)) => self.on_ack(block, cx),
            _ => cx.meter.count(Counter::TftpIgnored),
        }
        Ok(())
    }

    /// Completes the opening after the peer has answered with options or with ACK 0.
    fn on_opened(&mut self, port: u16, answer: Option<Options>, cx: &mut Cx<'_>) {
        let State::Opening(opening) = &self.state else { return };
        match (opening.requested, answer) {
            // The only answer to a server's OACK is ACK 0.
            (None, Some(_)) => return cx.meter.count(Counter::TftpIgnored),
            (None, None) => {}
            (Some(requested), answer) => {
                self.peer = Some(port);
                let Some(agreed) = requested.agreed_with(&answer.unwrap_or_default()) else {
                    return self.abort(OPTIONS_REFUSED);
                };
                self.agreed = agreed;
                self.timer.agree(agreed.timeout_s);
            }
        }
        self.state = State::Sending;
        self.timer
            .record_progress(self.timed_block.take().map(|(_, sent_at)| cx.now - sent_at), cx.now);
        self.timer.stop();
        self.push_event(Event::Opened(self.agreed));
    }

    fn on_ack(&mut self, wire: u16, cx: &mut Cx<'_>) {
        let block = self.snd_una.previous().at_or_after(wire);
        if block < self.snd_una {
            return self.on_repeated_ack(cx);
        }
        if block >= self.snd_max {
            return cx.meter.count(Counter::TftpIgnored);
        }
        let timed_block = self.timed_block.take_if(|(timed_block, _)| *timed_block == block);
        self.timer.record_progress(timed_block.map(|(_, sent_at)| cx.now - sent_at), cx.now);
        self.timer.stop();
        let bytes = self.offset_of(block.next());
        if bytes > self.buffered_bytes() {
            self.state = State::Ended;
            return self.push_event(Event::Complete);
        }
        self.release(bytes);
        self.snd_una = block.next();
        // RFC 7440 §4: sending continues after the acknowledged block; later blocks that were
        // already sent are sent again.
        self.snd_nxt = self.snd_una;
    }

    /// Handles a duplicate acknowledgment of the block before `snd_una`.
    fn on_repeated_ack(&mut self, cx: &mut Cx<'_>) {
        let was_sent = self.snd_nxt > self.snd_una;
        let is_new = self.rewound_for != Some(self.snd_una);
        // RFC 1123 §4.2.3.1: with a window of one block only the timer triggers a retransmission.
        if self.agreed.window_size == 1 || !was_sent || !is_new {
            return cx.meter.count(Counter::TftpIgnored);
        }
        self.rewound_for = Some(self.snd_una);
        self.timer.record_progress(None, cx.now);
        self.rewind();
    }

    /// Goes back to the first unacknowledged block.
    fn rewind(&mut self) {
        self.snd_nxt = self.snd_una;
        self.timed_block = None;
    }

    fn release(&mut self, bytes: usize) {
        self.released_bytes += bytes;
        if self.released_bytes >= self.buffer.len() {
            self.buffer.clear();
            self.released_bytes = 0;
        } else if self.released_bytes > self.buffer.len() / 2 {
            self.buffer.drain(..self.released_bytes);
            self.released_bytes = 0;
        }
    }

    /// Appends the next datagram to `out` and returns its length, or `None` if no datagram is due.
    /// Call until the result is `None`.
    ///
    /// The full blocks of one window have the same length, so that many can be passed at once to a
    /// kernel that segments a long buffer into datagrams.
    pub fn transmit(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) -> Option<usize> {
        if let Some(error) = self.pending_error.take() {
            out.extend_from_slice(&error);
            return Some(error.len());
        }
        match &mut self.state {
            State::Opening(opening) if opening.must_send => {
                opening.must_send = false;
                out.extend_from_slice(&opening.datagram);
                let len = opening.datagram.len();
                self.timer.start(cx.now);
                Some(len)
            }
            State::Sending => self.transmit_block(out, cx),
            State::Opening(_) | State::Ended => None,
        }
    }

    fn transmit_block(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) -> Option<usize> {
        let block = self.snd_nxt;
        let is_in_window = block.0 - self.snd_una.0 < u64::from(self.agreed.window_size);
        let data = self.block_data(block).filter(|_| is_in_window)?;
        let len = tftp_packet::HEADER_LEN + data.len();
        tftp_packet::put_data_header(out, block.to_wire());
        out.extend_from_slice(data);
        cx.meter.count(Counter::TftpBlocksOut);
        if block < self.snd_max {
            cx.meter.count(Counter::TftpRetransmissions);
        } else {
            self.snd_max = block.next();
            self.timed_block = Some((block, cx.now));
            if block == self.snd_una {
                self.timer.restart_idle_timeout(cx.now);
            }
        }
        self.snd_nxt = block.next();
        self.timer.start(cx.now);
        Some(len)
    }

    /// Returns the bytes of `block`, or `None` if the buffer does not hold them yet.
    fn block_data(&self, block: Block) -> Option<&[u8]> {
        let unsent = self.buffer.get(self.released_bytes..)?.get(self.offset_of(block)..)?;
        let full_block = unsent.get(..self.agreed.block_size.into());
        full_block.or(self.is_finished.then_some(unsent))
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

    /// Retransmits the packets that were not answered in time, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        match self.timer.expire(cx.now) {
            Expiry::NotYet => return,
            Expiry::GiveUp => {
                let was_opening = matches!(self.state, State::Opening(_));
                return self.fail(if was_opening { Failure::NoAnswer } else { Failure::Silence });
            }
            Expiry::Repeat => cx.meter.count(Counter::TftpTimeouts),
        }
        match &mut self.state {
            State::Opening(opening) => opening.must_send = true,
            State::Sending => self.rewind(),
            State::Ended => {}
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns whether the transfer has ended and nothing more is to be sent.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended) && self.pending_error.is_none()
    }

    fn fail(&mut self, failure: Failure) {
        self.state = State::Ended;
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

    fn window_bytes(&self) -> usize {
        usize::from(self.agreed.window_size) * usize::from(self.agreed.block_size)
    }

    fn buffered_bytes(&self) -> usize {
        self.buffer.len() - self.released_bytes
    }

    /// Returns the offset of a block in bytes after the start of `snd_una`.
    fn offset_of(&self, block: Block) -> usize {
        let blocks = usize::try_from(block.0 - self.snd_una.0).unwrap_or(usize::MAX);
        blocks.saturating_mul(self.agreed.block_size.into())
    }
}
