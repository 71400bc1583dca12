//! The sending end of YMODEM.

use crate::modem::{CANCEL_SEQUENCE, DataRequest, FileInfo, SenderEvent};
use crate::xmodem::{BlockSender, SentBlocks};
use alloc::vec;
use alloc::vec::Vec;
use net::cx::Cx;
use net::time::Instant;

/// The sending end of one batch of files.
#[derive(Debug)]
pub struct Sender {
    blocks: BlockSender,
    state: State,
    must_cancel: bool,
    /// The event that [`Self::event`] returns next.
    pending: Option<SenderEvent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The owner must offer a file or finish the batch.
    NextFile,
    /// The header of a file is sent.
    Header,
    /// The data of a file is sent.
    File,
    /// The header without a name is sent.
    Finishing,
    Ended,
}

impl Sender {
    /// Creates a sender, whose first event is [`SenderEvent::NextFile`].
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let pending = Some(SenderEvent::NextFile);
        let blocks = BlockSender::for_header(Vec::new(), now);
        Self { blocks, state: State::NextFile, must_cancel: false, pending }
    }

    /// Offers the next file.
    pub fn offer(&mut self, info: &FileInfo, cx: &mut Cx<'_>) {
        self.send_header(info.emit(), State::Header, cx);
    }

    /// Ends the batch.
    pub fn finish(&mut self, cx: &mut Cx<'_>) {
        self.send_header(vec![0], State::Finishing, cx);
    }

    fn send_header(&mut self, header: Vec<u8>, state: State, cx: &mut Cx<'_>) {
        if self.state == State::NextFile {
            self.state = state;
            self.blocks = BlockSender::for_header(header, cx.now).after(&self.blocks);
        }
    }

    /// Returns the bytes of the file that [`Self::put_data`] needs, if any.
    #[must_use]
    pub fn data_request(&self) -> Option<DataRequest> {
        self.blocks.data_request().filter(|_| self.state == State::File)
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
        self.state = State::Ended;
        self.pending = None;
    }

    /// Processes received bytes up to the next event, and removes them from `input`.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        while self.pending.is_none()
            && matches!(self.state, State::Header | State::File | State::Finishing)
            && let Some(result) = self.blocks.receive(input, cx)
        {
            self.on_result(result, cx);
        }
    }

    fn on_result(&mut self, result: SentBlocks, cx: &mut Cx<'_>) {
        match (self.state, result) {
            (_, SentBlocks::Failed(failure)) => self.pending = Some(SenderEvent::Failed(failure)),
            (State::Header, SentBlocks::End) => {
                self.state = State::File;
                self.blocks = BlockSender::for_file(true, cx.now).after(&self.blocks);
            }
            (State::File, SentBlocks::Started) => self.pending = Some(SenderEvent::Accepted(0)),
            (State::File, SentBlocks::End) => self.pending = Some(SenderEvent::FileComplete),
            (State::Finishing, SentBlocks::End) => self.pending = Some(SenderEvent::Complete),
            _ => {}
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<SenderEvent> {
        let event = self.pending.take()?;
        match event {
            SenderEvent::FileComplete => {
                self.state = State::NextFile;
                self.pending = Some(SenderEvent::NextFile);
            }
            SenderEvent::Complete => self.state = State::Ended,
            SenderEvent::Failed(failure) => {
                self.state = State::Ended;
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
        if self.state == State::Ended { None } else { self.blocks.transmit(out, cx) }
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let is_waiting = !matches!(self.state, State::NextFile | State::Ended);
        self.blocks.deadline().filter(|_| is_waiting)
    }

    /// Sends the last block again, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.deadline().is_some()
            && self.pending.is_none()
            && let Some(result) = self.blocks.timeout(cx)
        {
            self.on_result(result, cx);
        }
    }

    /// Returns and removes the text of the session that was received instead of an answer.
    pub fn take_text(&mut self) -> Vec<u8> {
        self.blocks.take_text()
    }

    /// Returns whether the transfer has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Ended) && self.pending.is_none()
    }
}
