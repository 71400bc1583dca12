//! The receiving end of XMODEM.

use super::block_receiver::{BlockReceiver, BlockSequence, ReceivedBlock};
use crate::modem::{CANCEL_SEQUENCE, FileInfo, ReceiverEvent};
use alloc::vec::Vec;
use net::cx::Cx;
use net::time::Instant;

/// The receiving end of one transfer.
#[derive(Debug)]
pub struct Receiver {
    blocks: BlockReceiver,
    state: State,
    must_cancel: bool,
    /// The event that [`Self::event`] returns next.
    pending: Option<Pending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Offered,
    Receiving,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Offer,
    Block(ReceivedBlock),
    Complete,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// Creates a receiver, whose first event is the offer of the file.
    #[must_use]
    pub const fn new() -> Self {
        let blocks = BlockReceiver::new(BlockSequence::File { allows_sum: true });
        Self { blocks, state: State::Offered, must_cancel: false, pending: Some(Pending::Offer) }
    }

    /// Requests the file. XMODEM always starts at the beginning of a file.
    pub fn accept(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::Offered {
            self.state = State::Receiving;
            self.blocks.start(cx.now);
        }
    }

    /// Cancels the transfer.
    pub const fn abort(&mut self) {
        self.must_cancel = !self.is_over();
        self.state = State::Ended;
        self.pending = None;
    }

    /// Processes received bytes up to the next event, and removes them from `input`.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        if self.state != State::Receiving || self.pending.is_some() {
            return;
        }
        self.pending = self.blocks.receive(input, cx).map(Pending::Block);
    }

    /// Processes a NUL after a CR that arrived by Telnet without BINARY, and may not be data.
    pub fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::Receiving && self.pending.is_none() {
            self.pending = self.blocks.receive_nul_after_cr(cx).map(Pending::Block);
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<ReceiverEvent<'_>> {
        Some(match self.pending.take()? {
            Pending::Offer => ReceiverEvent::Offer(FileInfo::default()),
            Pending::Block(ReceivedBlock::Data) => ReceiverEvent::Data(self.blocks.data()),
            Pending::Block(ReceivedBlock::End) => {
                self.state = State::Ended;
                self.pending = Some(Pending::Complete);
                ReceiverEvent::FileComplete
            }
            Pending::Block(ReceivedBlock::Failed(failure)) => {
                self.state = State::Ended;
                self.must_cancel = failure.must_cancel();
                ReceiverEvent::Failed(failure)
            }
            Pending::Complete => ReceiverEvent::Complete,
        })
    }

    /// Appends the next output and returns its length, or `None` if no output is due.
    pub fn transmit(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        if core::mem::take(&mut self.must_cancel) {
            out.extend_from_slice(&CANCEL_SEQUENCE);
            return Some(CANCEL_SEQUENCE.len());
        }
        self.blocks.transmit(out)
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.blocks.deadline().filter(|_| self.state == State::Receiving)
    }

    /// Requests the next block again, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::Receiving
            && self.pending.is_none()
            && let Some(failure) = self.blocks.timeout(cx)
        {
            self.pending = Some(Pending::Block(ReceivedBlock::Failed(failure)));
        }
    }

    /// Returns whether the transfer has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Ended) && self.pending.is_none()
    }
}
