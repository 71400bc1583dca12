//! The receiving end of YMODEM.

use crate::modem::{CANCEL_SEQUENCE, FileInfo, ModemFailure, ReceiverEvent};
use crate::xmodem::{BlockReceiver, BlockSequence, ReceivedBlock};
use alloc::vec::Vec;
use net::cx::Cx;
use net::time::Instant;

/// The receiving end of one batch of files.
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
    /// The next block is a header.
    Header,
    /// A file is offered.
    Offered {
        size: Option<u64>,
    },
    /// A file is being received.
    File {
        /// Number of bytes of the file that are missing, if the size is known.
        rest: Option<u64>,
        is_wanted: bool,
    },
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pending {
    Offer(FileInfo),
    /// This number of bytes of the last block belongs to the file.
    Data(usize),
    FileComplete,
    Complete,
    Failed(ModemFailure),
}

const FILE: BlockSequence = BlockSequence::File { allows_sum: false };

impl Receiver {
    /// Creates a receiver, which requests the first file.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let mut blocks = BlockReceiver::new(BlockSequence::Header);
        blocks.start(now);
        Self { blocks, state: State::Header, must_cancel: false, pending: None }
    }

    /// Requests the offered file. YMODEM always starts at the beginning of a file.
    pub fn accept(&mut self, cx: &mut Cx<'_>) {
        self.answer(true, cx);
    }

    /// Drops the data of the offered file.
    pub fn skip(&mut self, cx: &mut Cx<'_>) {
        self.answer(false, cx);
    }

    fn answer(&mut self, is_wanted: bool, cx: &mut Cx<'_>) {
        if let State::Offered { size } = self.state {
            self.state = State::File { rest: size, is_wanted };
            self.blocks.start(cx.now);
        }
    }

    /// Cancels the transfer.
    pub fn abort(&mut self) {
        self.must_cancel = !self.is_over();
        self.state = State::Ended;
        self.pending = None;
    }

    /// Processes received bytes up to the next event, and removes them from `input`.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        while self.pending.is_none()
            && matches!(self.state, State::Header | State::File { .. })
            && let Some(result) = self.blocks.receive(input, cx)
        {
            self.on_result(result, cx);
        }
    }

    /// Processes a NUL after a CR that arrived by Telnet without BINARY, and may not be data.
    pub fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>) {
        if self.pending.is_none()
            && matches!(self.state, State::Header | State::File { .. })
            && let Some(result) = self.blocks.receive_nul_after_cr(cx)
        {
            self.on_result(result, cx);
        }
    }

    fn on_result(&mut self, result: ReceivedBlock, cx: &mut Cx<'_>) {
        match (self.state, result) {
            (_, ReceivedBlock::Failed(failure)) => self.pending = Some(Pending::Failed(failure)),
            (State::Header, ReceivedBlock::Data) => {
                let Some(info) = FileInfo::parse(self.blocks.data()) else {
                    self.pending = Some(Pending::Complete);
                    return;
                };
                self.state = State::Offered { size: info.size };
                self.blocks.follow(FILE);
                self.pending = Some(Pending::Offer(info));
            }
            (State::File { rest, is_wanted }, ReceivedBlock::Data) => {
                let block_len = self.blocks.data().len();
                let rest_len =
                    rest.map_or(usize::MAX, |rest| usize::try_from(rest).unwrap_or(usize::MAX));
                let len = block_len.min(rest_len);
                let rest = rest.map(|rest| rest - u64::try_from(len).unwrap_or(rest));
                self.state = State::File { rest, is_wanted };
                self.pending = (is_wanted && len > 0).then_some(Pending::Data(len));
            }
            (State::File { rest, is_wanted }, ReceivedBlock::End) => {
                self.state = State::Header;
                self.blocks.follow(BlockSequence::Header);
                self.blocks.start(cx.now);
                if rest.is_some_and(|rest| rest > 0) {
                    self.pending = Some(Pending::Failed(ModemFailure::RemoteFile));
                    self.must_cancel = true;
                } else if is_wanted {
                    self.pending = Some(Pending::FileComplete);
                }
            }
            (State::Header | State::Offered { .. } | State::Ended, _) => {}
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<ReceiverEvent<'_>> {
        Some(match self.pending.take()? {
            Pending::Offer(info) => ReceiverEvent::Offer(info),
            Pending::Data(len) => {
                ReceiverEvent::Data(self.blocks.data().get(..len).unwrap_or_default())
            }
            Pending::FileComplete => ReceiverEvent::FileComplete,
            Pending::Complete => {
                self.state = State::Ended;
                ReceiverEvent::Complete
            }
            Pending::Failed(failure) => {
                self.state = State::Ended;
                self.must_cancel |= failure.must_cancel();
                ReceiverEvent::Failed(failure)
            }
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
        let is_waiting = matches!(self.state, State::Header | State::File { .. });
        self.blocks.deadline().filter(|_| is_waiting)
    }

    /// Requests the next block again, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_some()
            && self.pending.is_none()
            && let Some(failure) = self.blocks.timeout(cx)
        {
            self.pending = Some(Pending::Failed(failure));
        }
    }

    /// Returns whether the transfer has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Ended && self.pending.is_none()
    }
}
