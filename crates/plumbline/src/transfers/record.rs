//! A record while its transfer runs.

use crate::files::tftp::is_full;
use protocols::application::ftp::{self, Representation, WordFormat};
use records::transfer::{Format, Mode, Outcome, Structure, Text, Transfer, Type};
use std::io;
use std::time::{Duration, Instant};

/// A record while its transfer runs.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// What is known by now.
    pub(crate) transfer: Transfer,
    /// When the command was given.
    pub(crate) began: Instant,
}

impl Record {
    /// Notes the representation.
    pub(crate) fn note_representation(&mut self, representation: &Representation) {
        let request = &mut self.transfer.request;
        let (data_type, format, bits) = match representation.data_type {
            ftp::Type::Ascii(format) => (Type::Ascii, Some(format), 8),
            ftp::Type::Ebcdic(format) => (Type::Ebcdic, Some(format), 8),
            ftp::Type::Image => (Type::Image, None, 8),
            ftp::Type::Local(size) => (Type::Local, None, size.bits()),
        };
        request.representation = Some(data_type);
        request.byte_size = Some(bits.into());
        request.format = format.map(|format| match format {
            ftp::Format::NonPrint => Format::NonPrint,
            ftp::Format::Telnet => Format::Telnet,
            ftp::Format::CarriageControl => Format::CarriageControl,
        });
        request.mode = Some(match representation.mode {
            ftp::Mode::Stream => Mode::Stream,
            ftp::Mode::Block => Mode::Block,
            ftp::Mode::Compressed => Mode::Compressed,
            ftp::Mode::Deflate => Mode::Deflate,
        });
        request.stru = Some(match representation.structure {
            ftp::Structure::File => Structure::File,
            ftp::Structure::Record => Structure::Record,
            ftp::Structure::Page => Structure::Page,
        });
        let known = WordFormat::ALL.iter().find(|(one, _)| *one == representation.word_format);
        let is_words = data_type == Type::Local && bits != 8;
        request.word_format = known.filter(|_| is_words).map(|(_, name)| Text::from(*name));
    }

    /// Notes the bits of what has moved: bytes times their size, as RFC 573 has it.
    ///
    /// Of words in a stream they are what the wire has had room for: it is filled up with less than
    /// an octet, which is less than a word of eight bits or more.
    pub(crate) fn note_bits(&mut self) {
        let (request, size) = (&self.transfer.request, &mut self.transfer.size);
        let is_plain = request.mode == Some(Mode::Stream) && request.stru == Some(Structure::File);
        match (request.representation, request.byte_size) {
            (Some(Type::Local), Some(bits @ 9..)) => {
                let on_wire = size.wire_bytes.and_then(|bytes| bytes.checked_mul(8));
                let words = on_wire.map(|on_wire| on_wire / bits).filter(|_| is_plain);
                size.bits = words.map(|words| words * bits);
                size.words36 = words.filter(|_| bits == 36);
            }
            (Some(Type::Local), Some(1..=7)) => size.bits = None,
            _ => size.bits = size.file_bytes.and_then(|bytes| bytes.checked_mul(8)),
        }
    }

    /// Adds CPU time of this transfer.
    pub(crate) fn add_cpu(&mut self, time: Duration) {
        let before = self.transfer.cpu.cpu_ns.unwrap_or(0);
        self.transfer.cpu.cpu_ns = Some(before.saturating_add(nanos(time)));
    }

    /// Returns the bytes of the file that have moved.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.transfer.size.file_bytes.unwrap_or(0)
    }

    /// Notes that it is over, and how.
    pub(crate) fn end(&mut self, outcome: Outcome, error: Option<&str>) {
        self.transfer.time.ns_total = Some(nanos(self.began.elapsed()));
        self.transfer.result.outcome = Some(outcome);
        self.transfer.result.error = error.map(Text::from);
        self.note_bits();
    }

    /// Says that the transfer lasted until a moment behind its last reply: then the last byte arrived
    /// behind that reply.
    pub(crate) fn last_until(&mut self, arrived: Instant) {
        let lasted = Some(nanos(arrived.saturating_duration_since(self.began)));
        let time = &mut self.transfer.time;
        if lasted > time.ns_total {
            (time.ns_total, time.ns_last_byte_to_226) = (lasted, None);
        }
    }
}

/// Returns how a transfer ended that this machine has ended.
pub(crate) fn local_outcome(error: &io::Error) -> Outcome {
    if is_full(error) { Outcome::Disk } else { Outcome::Local }
}

/// Returns nanoseconds, as records have them.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
