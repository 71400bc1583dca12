//! The sending end of XMODEM.

use super::block_sender::{BlockSender, SentBlocks};
use crate::modem::{CANCEL_SEQUENCE, DataRequest, SenderEvent};
use alloc::vec::Vec;
use net::cx::Cx;
use net::time::Instant;

/// The sending end of one transfer of one file.
#[derive(Debug)]
pub struct Sender {
    blocks: BlockSender,
    is_ended: bool,
    must_cancel: bool,
    /// The event that [`Self::event`] returns next.
    pending: Option<SenderEvent>,
}

impl Sender {
    /// Creates a sender of blocks of 1024 bytes, or else of 128 bytes. Its first event is
    /// [`SenderEvent::Accepted`], when the receiver requests the file.
    #[must_use]
    pub fn new(uses_long_blocks: bool, now: Instant) -> Self {
        let blocks = BlockSender::for_file(uses_long_blocks, now);
        Self { blocks, is_ended: false, must_cancel: false, pending: None }
    }

    /// Returns the bytes of the file that [`Self::put_data`] needs, if any.
    #[must_use]
    pub fn data_request(&self) -> Option<DataRequest> {
        self.blocks.data_request().filter(|_| !self.is_ended)
    }

    /// Provides the requested bytes; no bytes mark the end of the file.
    pub fn put_data(&mut self, data: &[u8]) {
        self.blocks.put_data(data);
    }

    /// Selects whether Telnet without BINARY carries the output.
    pub const fn set_nvt(&mut self, is_nvt: bool) {
        self.blocks.set_nvt(is_nvt);
    }

    /// Cancels the transfer.
    pub const fn abort(&mut self) {
        self.must_cancel = !self.is_over();
        self.is_ended = true;
        self.pending = None;
    }

    /// Processes received bytes up to the next event, and removes them from `input`.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        if self.is_ended || self.pending.is_some() {
            return;
        }
        self.pending = self.blocks.receive(input, cx).map(event_of);
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<SenderEvent> {
        let event = self.pending.take()?;
        match event {
            SenderEvent::FileComplete => self.pending = Some(SenderEvent::Complete),
            SenderEvent::Complete => self.is_ended = true,
            SenderEvent::Failed(failure) => {
                self.is_ended = true;
                self.must_cancel = failure.must_cancel();
            }
            _ => {}
        }
        Some(event)
    }

    /// Appends the next output and returns its length, or `None` if no output is due.
    pub fn transmit(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) -> Option<usize> {
        if core::mem::take(&mut self.must_cancel) {
            out.extend_from_slice(&CANCEL_SEQUENCE);
            return Some(CANCEL_SEQUENCE.len());
        }
        if self.is_ended { None } else { self.blocks.transmit(out, cx) }
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.blocks.deadline().filter(|_| !self.is_ended)
    }

    /// Sends the last block again, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if !self.is_ended && self.pending.is_none() {
            self.pending = self.blocks.timeout(cx).map(event_of);
        }
    }

    /// Returns and removes the text of the session that was received instead of an answer.
    pub fn take_text(&mut self) -> Vec<u8> {
        self.blocks.take_text()
    }

    /// Returns whether the transfer has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_ended && self.pending.is_none()
    }
}

const fn event_of(result: SentBlocks) -> SenderEvent {
    match result {
        SentBlocks::Started => SenderEvent::Accepted(0),
        SentBlocks::End => SenderEvent::FileComplete,
        SentBlocks::Failed(failure) => SenderEvent::Failed(failure),
    }
}
