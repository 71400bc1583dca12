//! The data transfer process: conversion between the bytes of the local file and the bytes on the
//! data connection.
//!
//! ```text
//!            text (A, E)      ─┐            ┌─ stream
//!   file ─── words (L n)      ─┼─ framing ──┼─ stream, deflated ─ data connection
//!            pages of words   ─┘  (records) └─ blocks, compressed
//!            octets (I, L 8)
//! ```
//!
//! [`Encoder`] converts from left to right and [`Decoder`] from right to left. Both append to a
//! buffer of the caller, which the caller empties between calls. If the file and the data
//! connection carry the same bytes ([`Representation::passes_through`]), neither is needed and the
//! owner may let the kernel move the bytes.
//!
//! Records are lines of the local file: the end of a record becomes an LF (RFC 1123 §4.1.2.4).
//! Every file can therefore be sent as records and restored unchanged. A record from another host
//! that contains an LF becomes two records. Restart markers are decimal offsets in the sender's
//! file.

mod data_error;
mod deflate;
mod frame;
mod page;
mod pair;
#[cfg(test)]
mod tests;
mod text;
mod word;

pub use data_error::DataError;

use super::representation::{ByteSize, Format, Mode, Representation, Structure, Type, WordFormat};
use alloc::format;
use alloc::vec::Vec;
use deflate::{Deflater, Inflater};
use frame::{Frame, Framing, Marks, Unframer};
use memchr::memchr;
use page::{Pager, Unpager};
use text::{FromCarriageControl, FromNetwork, ToCarriageControl, ToNetwork};
use word::{FromStore, Packer, ToStore, Unpacker};

/// Output size in bytes at which a decoder waits for the caller to drain the buffer.
const OUTPUT_BYTES: usize = 256 * 1024;

/// Minimum byte size, in bits, for page structure.
const PAGE_MIN_BITS: u8 = 16;

/// Error: the representation is not supported (reply 504).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

/// Checks whether files can be transferred in `representation`.
///
/// # Errors
///
/// Returns [`Unsupported`] if records are not octets or have carriage control, if pages have a byte
/// size below 16 bits or are deflated, or if the word format cannot store the byte size.
pub fn check_supported(representation: &Representation) -> Result<(), Unsupported> {
    let Representation { data_type, mode, structure, word_format } = *representation;
    let size = match data_type {
        Type::Local(size) => size,
        _ => ByteSize::OCTET,
    };
    let is_octets = size == ByteSize::OCTET;
    let is_size_supported = match structure {
        Structure::File => true,
        Structure::Record => is_octets,
        Structure::Page => size.bits() >= PAGE_MIN_BITS,
    };
    // Carriage control and record ends would both mark line ends, and pages have no byte stream to
    // deflate.
    let has_carriage_control = matches!(
        data_type,
        Type::Ascii(Format::CarriageControl) | Type::Ebcdic(Format::CarriageControl)
    );
    let is_invalid_combination = match structure {
        Structure::File => false,
        Structure::Record => has_carriage_control,
        Structure::Page => mode == Mode::Deflate,
    };
    if is_size_supported && !is_invalid_combination && (is_octets || word_format.can_store(size)) {
        Ok(())
    } else {
        Err(Unsupported)
    }
}

/// Items counted during a conversion; `None` if the representation does not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete records (STRU R).
    pub records: Option<u64>,
    /// Restart markers (MODE B and MODE C).
    pub markers: Option<u64>,
    /// Converted line ends (TYPE A).
    pub line_ends: Option<u64>,
}

impl Counts {
    fn new(
        framing: Framing,
        has_records: bool,
        records: u64,
        markers: u64,
        line_ends: Option<u64>,
    ) -> Self {
        let has_markers = matches!(framing, Framing::Block | Framing::Compressed { .. });
        Self {
            records: has_records.then_some(records),
            markers: has_markers.then_some(markers),
            line_ends,
        }
    }
}

fn framing(representation: &Representation) -> Framing {
    match (representation.mode, representation.structure) {
        (Mode::Stream | Mode::Deflate, Structure::Record) => Framing::StreamRecords,
        (Mode::Stream | Mode::Deflate, _) => Framing::Stream,
        (Mode::Block, _) => Framing::Block,
        (Mode::Compressed, _) => {
            // RFC 959 §3.4.3: the filler of text is a space, which is 0x40 in EBCDIC.
            let filler = match representation.data_type {
                Type::Ascii(_) => b' ',
                Type::Ebcdic(_) => 0x40,
                Type::Image | Type::Local(_) => 0,
            };
            Framing::Compressed { filler }
        }
    }
}

/// Converts the local file to the bytes of the data connection.
#[derive(Debug)]
pub struct Encoder {
    content: ContentOut,
    framing: Framing,
    has_records: bool,
    records: u64,
    markers: u64,
    deflater: Option<Deflater>,
    /// Output of the content stage: the converted file before framing and compression.
    content_out: Vec<u8>,
    framed_out: Vec<u8>,
}

#[derive(Debug)]
enum ContentOut {
    Octets,
    Ascii(ToNetwork),
    AsciiCarriage(ToCarriageControl, ToNetwork),
    Ebcdic,
    EbcdicCarriage(ToCarriageControl),
    Words(FromStore, Packer),
    Pages { words: FromStore, pager: Pager, packer: Packer, bits: u32 },
}

impl Encoder {
    /// Creates an encoder; `deflate_level` applies to MODE Z.
    ///
    /// # Errors
    ///
    /// Returns [`Unsupported`] if files cannot be transferred in this representation.
    pub fn new(
        representation: &Representation,
        deflate_level: Option<u8>,
    ) -> Result<Self, Unsupported> {
        check_supported(representation)?;
        let word_format = representation.word_format;
        let content = match (representation.data_type, representation.structure) {
            (Type::Ascii(Format::CarriageControl), _) => {
                ContentOut::AsciiCarriage(ToCarriageControl::default(), ToNetwork::default())
            }
            (Type::Ascii(_), _) => ContentOut::Ascii(ToNetwork::default()),
            (Type::Ebcdic(Format::CarriageControl), _) => {
                ContentOut::EbcdicCarriage(ToCarriageControl::default())
            }
            (Type::Ebcdic(_), _) => ContentOut::Ebcdic,
            (Type::Local(size), Structure::Page) => ContentOut::Pages {
                words: FromStore::new(word_format, size),
                pager: Pager::default(),
                packer: Packer::new(size),
                bits: u32::from(size.bits()),
            },
            (Type::Local(size), _)
                if size != ByteSize::OCTET && word_format != WordFormat::Packed =>
            {
                ContentOut::Words(FromStore::new(word_format, size), Packer::new(size))
            }
            (Type::Image | Type::Local(_), _) => ContentOut::Octets,
        };
        Ok(Self {
            content,
            framing: framing(representation),
            has_records: representation.structure == Structure::Record,
            records: 0,
            markers: 0,
            deflater: (representation.mode == Mode::Deflate).then(|| Deflater::new(deflate_level)),
            content_out: Vec::new(),
            framed_out: Vec::new(),
        })
    }

    /// Treats CR LF in a text file as one line end, not as a CR followed by a line end. Has no
    /// effect with record structure.
    pub fn keep_cr_lf(&mut self) {
        if let (ContentOut::Ascii(text), false) = (&mut self.content, self.has_records) {
            text.keep_cr_lf();
        }
    }

    /// Encodes the next bytes of the local file and appends the result to `output`.
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] if the file does not conform to its word format.
    pub fn encode(&mut self, file: &[u8], output: &mut Vec<u8>) -> Result<(), DataError> {
        if !self.has_records {
            // Without framing or compression the converted content is written directly to the
            // output.
            if self.framing == Framing::Stream && self.deflater.is_none() {
                return self.content.put(file, output);
            }
            return self.encode_piece(file, Marks::NONE, output);
        }
        let mut rest = file;
        while let Some(end) = memchr(b'\n', rest) {
            let (record, behind) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            self.encode_piece(record, Marks::RECORD, output)?;
            rest = behind.get(1..).unwrap_or_default();
        }
        self.encode_piece(rest, Marks::NONE, output)
    }

    fn encode_piece(
        &mut self,
        file: &[u8],
        marks: Marks,
        output: &mut Vec<u8>,
    ) -> Result<(), DataError> {
        self.content_out.clear();
        if matches!(self.content, ContentOut::Octets) {
            self.content_out.extend_from_slice(file);
        } else {
            self.content.put(file, &mut self.content_out)?;
        }
        if marks.end_of_record
            && let ContentOut::Ascii(text) = &mut self.content
        {
            text.end_of_record();
        }
        self.records += u64::from(marks.end_of_record);
        self.frame(marks, output);
        Ok(())
    }

    /// Frames the bytes of `content_out`, compresses them if required, and appends them to
    /// `output`.
    fn frame(&mut self, marks: Marks, output: &mut Vec<u8>) {
        let Some(deflater) = &mut self.deflater else {
            return self.framing.put(&self.content_out, marks, output);
        };
        self.framed_out.clear();
        self.framing.put(&self.content_out, marks, &mut self.framed_out);
        deflater.put(&self.framed_out, output);
    }

    /// Appends a restart marker for the file position `offset` in bytes. Returns whether the mode
    /// has markers.
    pub fn put_marker(&mut self, offset: u64, output: &mut Vec<u8>) -> bool {
        let is_written = self.deflater.is_none()
            && self.framing.put_marker(format!("{offset}").as_bytes(), output);
        self.markers += u64::from(is_written);
        is_written
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let line_ends = match &self.content {
            ContentOut::Ascii(text) | ContentOut::AsciiCarriage(_, text) => Some(text.line_ends()),
            _ => None,
        };
        Counts::new(self.framing, self.has_records, self.records, self.markers, line_ends)
    }

    /// Ends the file and appends the remaining bytes to `output`.
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] if the file ends within a word.
    pub fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), DataError> {
        self.content_out.clear();
        self.content.finish(&mut self.content_out)?;
        self.frame(Marks::FILE, output);
        if let Some(deflater) = &mut self.deflater {
            deflater.finish(output);
        }
        Ok(())
    }
}

impl ContentOut {
    fn put(&mut self, file: &[u8], out: &mut Vec<u8>) -> Result<(), DataError> {
        match self {
            Self::Octets => out.extend_from_slice(file),
            Self::Ascii(text) => text.put(file, out),
            Self::AsciiCarriage(carriage, text) => {
                let mut lines = Vec::with_capacity(file.len() + 16);
                carriage.put(file, &mut lines);
                text.put(&lines, out);
            }
            Self::Ebcdic => text::to_ebcdic(file, out),
            Self::EbcdicCarriage(carriage) => {
                let mut lines = Vec::with_capacity(file.len() + 16);
                carriage.put(file, &mut lines);
                text::to_ebcdic(&lines, out);
            }
            Self::Words(words, packer) => return words.put_into(file, packer, out),
            Self::Pages { words, pager, packer, bits } => {
                words.put(file, |value| pager.put(value, |word| packer.put(word, out)))?;
                return if pager.fits(*bits) { Ok(()) } else { Err(DataError::Malformed) };
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), DataError> {
        match self {
            Self::Octets | Self::Ascii(_) | Self::Ebcdic => {}
            Self::AsciiCarriage(carriage, text) => {
                let mut lines = Vec::new();
                carriage.finish(&mut lines);
                text.put(&lines, out);
            }
            Self::EbcdicCarriage(carriage) => {
                let mut lines = Vec::new();
                carriage.finish(&mut lines);
                text::to_ebcdic(&lines, out);
            }
            Self::Words(words, packer) => {
                words.finish(|word| packer.put(word, out))?;
                packer.finish(out);
            }
            Self::Pages { words, pager, packer, .. } => {
                words.finish(|value| pager.put(value, |word| packer.put(word, out)))?;
                pager.finish(|word| packer.put(word, out));
                packer.finish(out);
            }
        }
        Ok(())
    }
}

/// Result of one decoding step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All input has been consumed.
    NeedsInput,
    /// The output buffer is full: drain it and call again.
    OutputFull,
    /// A restart marker, from which the sender can resume the transfer.
    Marker(Vec<u8>),
    /// The end-of-file mark has been received.
    EndOfFile,
}

/// Converts the bytes of the data connection to the local file.
#[derive(Debug)]
pub struct Decoder {
    content: ContentIn,
    unframer: Unframer,
    inflater: Option<Inflater>,
    framing: Framing,
    has_records: bool,
    records: u64,
    markers: u64,
}

#[derive(Debug)]
enum ContentIn {
    Octets,
    Ascii(FromNetwork),
    AsciiCarriage(FromNetwork, FromCarriageControl),
    Ebcdic,
    EbcdicCarriage(FromCarriageControl),
    Words(Unpacker, ToStore),
    Pages { unpacker: Unpacker, unpager: Unpager, store: ToStore },
}

impl Decoder {
    /// Creates a decoder.
    ///
    /// # Errors
    ///
    /// Returns [`Unsupported`] if files cannot be transferred in this representation.
    pub fn new(representation: &Representation) -> Result<Self, Unsupported> {
        check_supported(representation)?;
        let word_format = representation.word_format;
        let content = match (representation.data_type, representation.structure) {
            (Type::Ascii(Format::CarriageControl), _) => {
                ContentIn::AsciiCarriage(FromNetwork::default(), FromCarriageControl::default())
            }
            (Type::Ascii(_), _) => ContentIn::Ascii(FromNetwork::default()),
            (Type::Ebcdic(Format::CarriageControl), _) => {
                ContentIn::EbcdicCarriage(FromCarriageControl::default())
            }
            (Type::Ebcdic(_), _) => ContentIn::Ebcdic,
            (Type::Local(size), Structure::Page) => ContentIn::Pages {
                unpacker: Unpacker::new(size),
                unpager: Unpager::default(),
                store: ToStore::new(word_format, size),
            },
            (Type::Local(size), _)
                if size != ByteSize::OCTET && word_format != WordFormat::Packed =>
            {
                ContentIn::Words(Unpacker::new(size), ToStore::new(word_format, size))
            }
            (Type::Image | Type::Local(_), _) => ContentIn::Octets,
        };
        Ok(Self {
            content,
            unframer: Unframer::new(framing(representation)),
            inflater: (representation.mode == Mode::Deflate).then(Inflater::new),
            framing: framing(representation),
            has_records: representation.structure == Structure::Record,
            records: 0,
            markers: 0,
        })
    }

    /// Decodes bytes from the data connection, advances `wire` past them, and appends the file's
    /// bytes to `output`.
    ///
    /// Call until the result is [`Decoded::NeedsInput`]. No data may follow [`Decoded::EndOfFile`].
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] if the bytes do not conform to the negotiated representation.
    pub fn decode(&mut self, wire: &mut &[u8], output: &mut Vec<u8>) -> Result<Decoded, DataError> {
        let Self { content, unframer, inflater, records, markers, .. } = self;
        let Some(inflater) = inflater else {
            let decoded = unframe(unframer, content, records, wire, output, OUTPUT_BYTES)?;
            *markers += u64::from(matches!(decoded, Decoded::Marker(_)));
            return Ok(decoded);
        };
        while !wire.is_empty() || inflater.has_more() {
            if output.len() >= OUTPUT_BYTES {
                return Ok(Decoded::OutputFull);
            }
            let mut piece = inflater.next(wire)?;
            // An inflated piece is small, so the output of one piece is bounded.
            while !piece.is_empty() {
                _ = unframe(unframer, content, records, &mut piece, output, usize::MAX)?;
            }
        }
        Ok(Decoded::NeedsInput)
    }

    /// Processes an orderly end of the connection and appends the rest of the file to `output`.
    ///
    /// # Errors
    ///
    /// Returns [`DataError`] if the file is incomplete by the rules of its mode, type and
    /// structure.
    pub fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), DataError> {
        if let Some(inflater) = &self.inflater {
            inflater.finish()?;
        }
        self.unframer.finish()?;
        self.content.finish(output)
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let line_ends = match &self.content {
            ContentIn::Ascii(text) | ContentIn::AsciiCarriage(text, _) => Some(text.line_ends()),
            _ => None,
        };
        Counts::new(self.framing, self.has_records, self.records, self.markers, line_ends)
    }

    /// Returns whether the conversion lost information, so that the stored file cannot be sent back
    /// unchanged. The text format represents neither the last bit of a 36-bit word nor an LF
    /// without a CR.
    #[must_use]
    pub const fn has_lost(&self) -> bool {
        match &self.content {
            ContentIn::Words(_, store) | ContentIn::Pages { store, .. } => store.has_lost(),
            _ => false,
        }
    }

    /// Returns the number of blocks that the sender marked as suspect.
    #[must_use]
    pub fn suspect_blocks(&self) -> u64 {
        self.unframer.suspect_blocks()
    }
}

fn unframe(
    unframer: &mut Unframer,
    content: &mut ContentIn,
    records: &mut u64,
    wire: &mut &[u8],
    output: &mut Vec<u8>,
    limit_bytes: usize,
) -> Result<Decoded, DataError> {
    loop {
        if output.len() >= limit_bytes && !wire.is_empty() {
            return Ok(Decoded::OutputFull);
        }
        match unframer.next(wire)? {
            None => return Ok(Decoded::NeedsInput),
            Some(Frame::Data(data)) => content.put(data, output)?,
            Some(Frame::Run(byte, count)) => {
                let run = [byte; 64];
                content.put(run.get(..count).unwrap_or(&run), output)?;
            }
            Some(Frame::Marker(marker)) => return Ok(Decoded::Marker(marker)),
            Some(Frame::EndOfRecord) => {
                *records += 1;
                content.end_of_record(output);
            }
            Some(Frame::EndOfFile) => return Ok(Decoded::EndOfFile),
        }
    }
}

impl ContentIn {
    fn put(&mut self, wire: &[u8], out: &mut Vec<u8>) -> Result<(), DataError> {
        match self {
            Self::Octets => out.extend_from_slice(wire),
            Self::Ascii(text) => text.put(wire, out),
            Self::AsciiCarriage(text, carriage) => {
                let mut lines = Vec::with_capacity(wire.len());
                text.put(wire, &mut lines);
                carriage.put(&lines, out);
            }
            Self::Ebcdic => text::from_ebcdic(wire, out),
            Self::EbcdicCarriage(carriage) => {
                let mut lines = Vec::with_capacity(wire.len());
                text::from_ebcdic(wire, &mut lines);
                carriage.put(&lines, out);
            }
            Self::Words(unpacker, store) => unpacker.put_into(wire, store, out),
            Self::Pages { unpacker, unpager, store } => {
                let mut result = Ok(());
                unpacker.put(wire, |value| {
                    if result.is_ok() {
                        result = unpager.put(value, &mut |word| store.put(word, out));
                    }
                });
                return result;
            }
        }
        Ok(())
    }

    /// Ends a record, which is a line of the local file.
    fn end_of_record(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Ascii(text) => {
                text.finish(out);
                out.push(b'\n');
            }
            Self::AsciiCarriage(_, carriage) | Self::EbcdicCarriage(carriage) => {
                carriage.put(b"\n", out);
            }
            _ => out.push(b'\n'),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), DataError> {
        match self {
            Self::Octets | Self::Ebcdic => {}
            Self::Ascii(text) => text.finish(out),
            Self::AsciiCarriage(text, carriage) => {
                let mut lines = Vec::new();
                text.finish(&mut lines);
                carriage.put(&lines, out);
                carriage.finish(out);
            }
            Self::EbcdicCarriage(carriage) => carriage.finish(out),
            Self::Words(unpacker, store) => {
                unpacker.finish()?;
                store.finish(out);
            }
            Self::Pages { unpacker, unpager, store } => {
                unpacker.finish()?;
                unpager.finish()?;
                store.finish(out);
            }
        }
        Ok(())
    }
}
