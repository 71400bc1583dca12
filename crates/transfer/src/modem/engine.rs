//! The engines of the three protocols behind one interface per role.

use super::modem_command::ModemProtocol;
use net::Cx;
use net::time::Instant;
use protocols::modem::{DataRequest, FileInfo, ReceiverEvent, SenderEvent};
use protocols::{xmodem, ymodem, zmodem};

/// Calls the same method of each engine.
macro_rules! each {
    ($engine:expr, $name:ident => $call:expr) => {
        match $engine {
            Self::Xmodem($name) => $call,
            Self::Ymodem($name) => $call,
            Self::Zmodem($name) => $call,
        }
    };
}

/// A receiver of one of the protocols.
#[derive(Debug)]
pub(super) enum ReceiverEngine {
    Xmodem(xmodem::Receiver),
    Ymodem(ymodem::Receiver),
    Zmodem(zmodem::Receiver),
}

impl ReceiverEngine {
    pub(super) fn new(protocol: ModemProtocol, now: Instant) -> Self {
        match protocol {
            ModemProtocol::Xmodem | ModemProtocol::Xmodem1k => {
                Self::Xmodem(xmodem::Receiver::new())
            }
            ModemProtocol::Ymodem => Self::Ymodem(ymodem::Receiver::new(now)),
            ModemProtocol::Zmodem => Self::Zmodem(zmodem::Receiver::new(now)),
        }
    }

    /// Returns whether a partial file can be continued.
    pub(super) const fn can_resume(&self) -> bool {
        matches!(self, Self::Zmodem(_))
    }

    /// Requests the CRC of the first `len` bytes of the offered file.
    pub(super) fn request_crc(&mut self, len: u32, cx: &mut Cx<'_>) {
        if let Self::Zmodem(engine) = self {
            engine.request_crc(len, cx);
        }
    }

    /// Requests the offered file from `position`, which is 0 unless the file can be continued.
    pub(super) fn accept(&mut self, position: u32, cx: &mut Cx<'_>) {
        match self {
            Self::Xmodem(engine) => engine.accept(cx),
            Self::Ymodem(engine) => engine.accept(cx),
            Self::Zmodem(engine) => engine.accept(position, cx),
        }
    }

    /// Repeats the last request of ZMODEM. The requests of the other protocols need no repetition.
    pub(super) fn request_again(&mut self, cx: &mut Cx<'_>) {
        if let Self::Zmodem(engine) = self {
            engine.request_again(cx);
        }
    }

    pub(super) fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        each!(self, engine => engine.receive(input, cx));
    }

    /// Processes a NUL after a CR, which may not be data.
    pub(super) fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>) {
        each!(self, engine => engine.receive_nul_after_cr(cx));
    }

    /// Returns and removes text of the session that was received with the end of the transfer.
    pub(super) fn take_text(&mut self) -> Vec<u8> {
        match self {
            Self::Zmodem(engine) => engine.take_text(),
            Self::Xmodem(_) | Self::Ymodem(_) => Vec::new(),
        }
    }

    /// Selects whether requests of ZMODEM have no line end. Those of the other protocols have none.
    pub(super) fn omit_line_end(&mut self, omits: bool) {
        if let Self::Zmodem(engine) = self {
            engine.omit_line_end(omits);
        }
    }

    /// Returns whether the sender is known to have answered. Text of a session ends other protocols
    /// only after they have received data.
    pub(super) const fn has_answer(&self) -> bool {
        match self {
            Self::Zmodem(engine) => engine.has_answer(),
            Self::Xmodem(_) | Self::Ymodem(_) => true,
        }
    }

    pub(super) fn event(&mut self) -> Option<ReceiverEvent<'_>> {
        each!(self, engine => engine.event())
    }

    pub(super) fn transmit(&mut self, out: &mut Vec<u8>) {
        while each!(self, engine => engine.transmit(out)).is_some() {}
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        each!(self, engine => engine.deadline())
    }

    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        each!(self, engine => engine.timeout(cx));
    }

    pub(super) fn abort(&mut self) {
        each!(self, engine => engine.abort());
    }
}

/// A sender of one of the protocols.
#[derive(Debug)]
pub(super) enum SenderEngine {
    Xmodem(xmodem::Sender),
    Ymodem(ymodem::Sender),
    Zmodem(zmodem::Sender),
}

impl SenderEngine {
    pub(super) fn new(protocol: ModemProtocol, now: Instant) -> Self {
        match protocol {
            ModemProtocol::Xmodem => Self::Xmodem(xmodem::Sender::new(false, now)),
            ModemProtocol::Xmodem1k => Self::Xmodem(xmodem::Sender::new(true, now)),
            ModemProtocol::Ymodem => Self::Ymodem(ymodem::Sender::new(now)),
            ModemProtocol::Zmodem => Self::Zmodem(zmodem::Sender::new(now)),
        }
    }

    pub(super) fn offer(&mut self, info: &FileInfo, cx: &mut Cx<'_>) {
        match self {
            Self::Xmodem(_) => {}
            Self::Ymodem(engine) => engine.offer(info, cx),
            Self::Zmodem(engine) => engine.offer(info, cx),
        }
    }

    pub(super) fn finish(&mut self, cx: &mut Cx<'_>) {
        match self {
            Self::Xmodem(_) => {}
            Self::Ymodem(engine) => engine.finish(cx),
            Self::Zmodem(engine) => engine.finish(cx),
        }
    }

    /// Selects whether Telnet without BINARY carries the output.
    pub(super) fn set_nvt(&mut self, is_nvt: bool) {
        each!(self, engine => engine.set_nvt(is_nvt));
    }

    pub(super) fn answer_crc(&mut self, crc: u32, cx: &mut Cx<'_>) {
        if let Self::Zmodem(engine) = self {
            engine.answer_crc(crc, cx);
        }
    }

    pub(super) fn data_request(&self) -> Option<DataRequest> {
        each!(self, engine => engine.data_request())
    }

    pub(super) fn put_data(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        match self {
            Self::Xmodem(engine) => engine.put_data(data),
            Self::Ymodem(engine) => engine.put_data(data),
            Self::Zmodem(engine) => engine.put_data(data, cx),
        }
    }

    pub(super) fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        each!(self, engine => engine.receive(input, cx));
    }

    /// Returns whether a shell may have read data in flight, because its text arrived instead of an
    /// answer. A receiver of blocks has at most one block in flight.
    pub(super) fn may_have_ended(&self) -> bool {
        matches!(self, Self::Zmodem(engine) if engine.has_unexpected_text())
    }

    /// Returns and removes the text of the session that was received instead of an answer.
    pub(super) fn take_text(&mut self) -> Vec<u8> {
        each!(self, engine => engine.take_text())
    }

    pub(super) fn event(&mut self) -> Option<SenderEvent> {
        each!(self, engine => engine.event())
    }

    pub(super) fn transmit(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) {
        loop {
            let len = match self {
                Self::Xmodem(engine) => engine.transmit(out, cx),
                Self::Ymodem(engine) => engine.transmit(out, cx),
                Self::Zmodem(engine) => engine.transmit(out),
            };
            if len.is_none() {
                return;
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        each!(self, engine => engine.deadline())
    }

    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        each!(self, engine => engine.timeout(cx));
    }

    pub(super) fn abort(&mut self) {
        each!(self, engine => engine.abort());
    }
}
