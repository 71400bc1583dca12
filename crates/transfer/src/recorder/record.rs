//! The record of a transfer in progress.

use crate::local::is_out_of_space;
use protocols::ftp::{self, Representation, WordFormat};
use records::transfer::{Format, Mode, Outcome, Structure, Text, Transfer, Type};
use std::io;
use std::time::{Duration, Instant};

/// The record of a transfer in progress.
#[derive(Clone, Debug)]
pub struct Record {
    /// Values known so far.
    pub transfer: Transfer,
    /// Time at which the command was given.
    pub began: Instant,
}

impl Record {
    /// Records the representation.
    pub fn note_representation(&mut self, representation: &Representation) {
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
        request.structure = Some(match representation.structure {
            ftp::Structure::File => Structure::File,
            ftp::Structure::Record => Structure::Record,
            ftp::Structure::Page => Structure::Page,
        });
        let named_format =
            WordFormat::ALL.iter().find(|(one, _)| *one == representation.word_format);
        let has_words = data_type == Type::Local && bits != 8;
        request.word_format = named_format.filter(|_| has_words).map(|(_, name)| Text::from(*name));
    }

    /// Records the number of transferred bits: the number of bytes times the byte size, as in RFC
    /// 573.
    ///
    /// For words in a stream, the number of words is computed from the number of octets on the
    /// wire. The padding at the end is shorter than a word, so the division by the word size drops
    /// the padding.
    pub fn note_bits(&mut self) {
        let request = &self.transfer.request;
        let size = &mut self.transfer.size;
        let is_plain =
            request.mode == Some(Mode::Stream) && request.structure == Some(Structure::File);
        match (request.representation, request.byte_size) {
            (Some(Type::Local), Some(bits @ 9..)) => {
                let on_wire = size.wire_bytes.and_then(|bytes| bytes.checked_mul(8));
                let words = on_wire.map(|on_wire| on_wire / bits).filter(|_| is_plain);
                size.bits = words.map(|words| words * bits);
                size.words_36bit = words.filter(|_| bits == 36);
            }
            (Some(Type::Local), Some(1..=7)) => size.bits = None,
            _ => size.bits = size.file_bytes.and_then(|bytes| bytes.checked_mul(8)),
        }
    }

    /// Adds CPU time to the record.
    pub fn add_cpu(&mut self, time: Duration) {
        let previous_ns = self.transfer.cpu.cpu_ns.unwrap_or(0);
        self.transfer.cpu.cpu_ns = Some(previous_ns.saturating_add(nanos(time)));
    }

    /// Returns the number of bytes of the file that have moved.
    pub fn file_bytes(&self) -> u64 {
        self.transfer.size.file_bytes.unwrap_or(0)
    }

    /// Ends the record with its outcome.
    pub fn end(&mut self, outcome: Outcome, error: Option<&str>) {
        self.transfer.time.total_ns = Some(nanos(self.began.elapsed()));
        self.transfer.result.outcome = Some(outcome);
        self.transfer.result.error = error.map(Text::from);
        self.note_bits();
    }

    /// Extends the duration of the transfer to `arrived`, the time of the last byte, if that byte
    /// arrived after the last reply.
    pub fn extend_until(&mut self, arrived: Instant) {
        let duration_ns = Some(nanos(arrived.saturating_duration_since(self.began)));
        let time = &mut self.transfer.time;
        if duration_ns > time.total_ns {
            time.total_ns = duration_ns;
            time.last_byte_to_226_ns = None;
        }
    }
}

/// Returns the outcome of a transfer that a local error has ended.
pub fn local_outcome(error: &io::Error) -> Outcome {
    if is_out_of_space(error) { Outcome::Disk } else { Outcome::Local }
}

/// Converts a duration to nanoseconds, as in the records; saturates.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
