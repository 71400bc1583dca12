//! The data transfer process: between the bytes of our file and those on the data connection.
//!
//! ```text
//!            text (A, E)      ─┐            ┌─ stream
//! our file ─ words (L n)      ─┼─ framing ──┼─ stream, deflated ─ data connection
//!            pages of words   ─┘  (records) └─ blocks, compressed
//!            octets (I, L 8)
//! ```
//!
//! [`Encoder`] goes to the right and [`Decoder`] to the left. Both put what they make behind a
//! buffer of the caller, which he empties and gives again. Where both ends are the same
//! ([`Representation::passes_through`]) neither is needed, and the owner may let the kernel move
//! the bytes.
//!
//! Records are lines of our file: the end of a record is an LF there (RFC 1123 §4.1.2.4), so any
//! file can be sent as records and comes back as it was; records from elsewhere that contain an LF
//! become two. Restart markers are decimal offsets in the sender's file.

mod deflate;
mod frame;
mod page;
mod pair;
#[cfg(test)]
mod tests;
mod text;
mod word;

use super::representation::{ByteSize, Format, Mode, Representation, Structure, Type, WordFormat};
use alloc::format;
use alloc::vec::Vec;
use deflate::{Deflater, Inflater};
use frame::{Frame, Framing, Marks, Unframer};
use memchr::memchr;
use page::{Pager, Unpager};
use text::{FromCarriageControl, FromNetwork, ToCarriageControl, ToNetwork};
use word::{FromStore, Packer, ToStore, Unpacker};

/// When a decoder has made so much, it waits for the caller to empty the buffer.
const OUTPUT_BYTES: usize = 256 * 1024;

/// The smallest byte size in which pages are counted.
const PAGE_MIN_BITS: u8 = 16;

/// Why data cannot be converted. The transfer has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataError {
    /// It is not in the representation that it should be in.
    Malformed,
    /// It ended before its end.
    Truncated,
}

/// A representation that is not done here: 504.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

/// Checks whether files can be moved in `representation`.
///
/// # Errors
///
/// If records are not of octets or have carriage control, pages are of small bytes or deflated, or
/// a word format is for others.
pub fn supported(representation: &Representation) -> Result<(), Unsupported> {
    let Representation { data_type, mode, structure, word_format } = *representation;
    let size = match data_type {
        Type::Local(size) => size,
        _ => ByteSize::OCTET,
    };
    let is_octets = size == ByteSize::OCTET;
    let structure_fits = match structure {
        Structure::File => true,
        Structure::Record => is_octets,
        Structure::Page => size.bits() >= PAGE_MIN_BITS,
    };
    // The control of a line and the end of a record would both say where a line ends, and pages
    // have no stream of their own to deflate.
    let is_carriage = matches!(
        data_type,
        Type::Ascii(Format::CarriageControl) | Type::Ebcdic(Format::CarriageControl)
    );
    let contradicts = match structure {
        Structure::File => false,
        Structure::Record => is_carriage,
        Structure::Page => mode == Mode::Deflate,
    };
    if structure_fits && !contradicts && (is_octets || word_format.holds(size)) {
        Ok(())
    } else {
        Err(Unsupported)
    }
}

/// What was counted between file and wire; `None` where the representation has no such thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that have ended, with STRU R.
    pub records: Option<u64>,
    /// Restart markers, in MODE B and MODE C.
    pub markers: Option<u64>,
    /// Ends of lines that were converted, with TYPE A.
    pub line_ends: Option<u64>,
}

impl Counts {
    fn of(
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
            // RFC 959 §3.4.3: a space in the code of the text, which is EBCDIC's for E.
            let filler = match representation.data_type {
                Type::Ascii(_) => b' ',
                Type::Ebcdic(_) => 0x40,
                Type::Image | Type::Local(_) => 0,
            };
            Framing::Compressed { filler }
        }
    }
}

/// From our file to the data connection.
#[derive(Debug)]
pub struct Encoder {
    content: ContentOut,
    framing: Framing,
    has_records: bool,
    records: u64,
    markers: u64,
    deflater: Option<Deflater>,
    /// What comes out of each stage.
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
    Pages { from: FromStore, pager: Pager, packer: Packer, bits: u32 },
}

impl Encoder {
    /// Makes an encoder; `deflate_level` is for MODE Z.
    ///
    /// # Errors
    ///
    /// If files cannot be moved so.
    pub fn new(
        representation: &Representation,
        deflate_level: Option<u8>,
    ) -> Result<Self, Unsupported> {
        supported(representation)?;
        let words = representation.word_format;
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
                from: FromStore::new(words, size),
                pager: Pager::default(),
                packer: Packer::new(size),
                bits: u32::from(size.bits()),
            },
            (Type::Local(size), _) if size != ByteSize::OCTET && words != WordFormat::Packed => {
                ContentOut::Words(FromStore::new(words, size), Packer::new(size))
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

    /// Sends CR LF in a text for CR LF in the file, instead of a CR and a line end. Records are not
    /// changed.
    pub fn keep_cr_lf(&mut self) {
        if let (ContentOut::Ascii(text), false) = (&mut self.content, self.has_records) {
            text.keep_cr_lf();
        }
    }

    /// Takes the next bytes of our file, and puts what goes on the wire behind `output`.
    ///
    /// # Errors
    ///
    /// If our file is not in the word format that it should be in.
    pub fn encode(&mut self, file: &[u8], output: &mut Vec<u8>) -> Result<(), DataError> {
        if !self.has_records {
            // Without frames there is nothing between the content and the wire.
            if self.framing == Framing::Stream && self.deflater.is_none() {
                return self.content.put(file, output);
            }
            return self.piece(file, Marks::NONE, output);
        }
        let mut rest = file;
        while let Some(end) = memchr(b'\n', rest) {
            let (record, behind) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            self.piece(record, Marks::RECORD, output)?;
            rest = behind.get(1..).unwrap_or_default();
        }
        self.piece(rest, Marks::NONE, output)
    }

    fn piece(&mut self, file: &[u8], marks: Marks, output: &mut Vec<u8>) -> Result<(), DataError> {
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

    /// Frames `content_out`.
    fn frame(&mut self, marks: Marks, output: &mut Vec<u8>) {
        let Some(deflater) = &mut self.deflater else {
            return self.framing.put(&self.content_out, marks, output);
        };
        self.framed_out.clear();
        self.framing.put(&self.content_out, marks, &mut self.framed_out);
        deflater.put(&self.framed_out, output);
    }

    /// Puts a marker for the place that the file is at, `offset` bytes from its start. Returns
    /// whether the mode has markers.
    pub fn mark(&mut self, offset: u64, output: &mut Vec<u8>) -> bool {
        let is_put = self.deflater.is_none()
            && self.framing.put_marker(format!("{offset}").as_bytes(), output);
        self.markers += u64::from(is_put);
        is_put
    }

    /// Returns what was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let line_ends = match &self.content {
            ContentOut::Ascii(text) | ContentOut::AsciiCarriage(_, text) => Some(text.line_ends()),
            _ => None,
        };
        Counts::of(self.framing, self.has_records, self.records, self.markers, line_ends)
    }

    /// The file has ended: puts the rest behind `output`.
    ///
    /// # Errors
    ///
    /// If our file ended within a word.
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
            Self::Words(from, packer) => return from.put_into(file, packer, out),
            Self::Pages { from, pager, packer, bits } => {
                from.put(file, |value| pager.put(value, |word| packer.put(word, out)))?;
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
            Self::Words(from, packer) => {
                from.finish(|word| packer.put(word, out))?;
                packer.finish(out);
            }
            Self::Pages { from, pager, packer, .. } => {
                from.finish(|value| pager.put(value, |word| packer.put(word, out)))?;
                pager.finish(|word| packer.put(word, out));
                packer.finish(out);
            }
        }
        Ok(())
    }
}

/// How far a decoder has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All of the input is taken.
    NeedsInput,
    /// The output is long enough: empty it and call again.
    OutputFull,
    /// A restart marker of the sender, by which he can begin again here.
    Marker(Vec<u8>),
    /// The file has ended by its own mark.
    EndOfFile,
}

/// From the data connection to our file.
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
    /// Makes a decoder.
    ///
    /// # Errors
    ///
    /// If files cannot be moved so.
    pub fn new(representation: &Representation) -> Result<Self, Unsupported> {
        supported(representation)?;
        let words = representation.word_format;
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
                store: ToStore::new(words, size),
            },
            (Type::Local(size), _) if size != ByteSize::OCTET && words != WordFormat::Packed => {
                ContentIn::Words(Unpacker::new(size), ToStore::new(words, size))
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

    /// Takes bytes of the wire, moves `wire` past them, and puts our file behind `output`.
    ///
    /// Call until it needs input; behind [`Decoded::EndOfFile`] nothing may follow.
    ///
    /// # Errors
    ///
    /// If the bytes are not in the representation that was agreed.
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
            // A piece is small: its expansion has a limit.
            while !piece.is_empty() {
                _ = unframe(unframer, content, records, &mut piece, output, usize::MAX)?;
            }
        }
        Ok(Decoded::NeedsInput)
    }

    /// The connection has ended, in order: puts the rest of the file behind `output`.
    ///
    /// # Errors
    ///
    /// If the file has not ended by the rules of its mode, type and structure.
    pub fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), DataError> {
        if let Some(inflater) = &self.inflater {
            inflater.finish()?;
        }
        self.unframer.finish()?;
        self.content.finish(output)
    }

    /// Returns what was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let line_ends = match &self.content {
            ContentIn::Ascii(text) | ContentIn::AsciiCarriage(text, _) => Some(text.line_ends()),
            _ => None,
        };
        Counts::of(self.framing, self.has_records, self.records, self.markers, line_ends)
    }

    /// Returns whether our file is another one on its way back: text has no room for the last bit of
    /// a word of 36, nor for an LF that stands alone.
    #[must_use]
    pub const fn has_lost(&self) -> bool {
        match &self.content {
            ContentIn::Words(_, store) | ContentIn::Pages { store, .. } => store.has_lost(),
            _ => false,
        }
    }

    /// Returns how many blocks their sender suspected of errors.
    #[must_use]
    pub fn suspect_blocks(&self) -> u64 {
        self.unframer.suspects()
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

    /// A record is a line of our file.
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
