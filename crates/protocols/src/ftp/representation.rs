//! Representation of a file on a data connection: TYPE, MODE and STRU (RFC 959 §3.1 to §3.4).

use core::fmt;

/// Vertical format control of a text (RFC 959 §3.1.1.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Non-print: the text has no vertical format control.
    #[default]
    NonPrint,
    /// Telnet format effectors; identical to non-print on hosts that do not distinguish them
    /// (RFC 1123 §4.1.2.2).
    Telnet,
    /// Carriage control (ASA): the first character of each line is a FORTRAN print control.
    CarriageControl,
}

/// The size of a logical byte, 1 to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteSize(u8);

impl ByteSize {
    /// An octet: eight bits.
    pub const OCTET: Self = Self(8);
    /// The 36-bit word of a PDP-10.
    pub const WORD36: Self = Self(36);

    /// Returns a size of `bits`, or `None` if it is not 1 to 64.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        match bits {
            1..=64 => Some(Self(bits)),
            _ => None,
        }
    }

    /// Returns the size in bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// TYPE: the data type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `A`: text in ASCII or in a superset of it.
    Ascii(Format),
    /// `E`: text in EBCDIC.
    Ebcdic(Format),
    /// `I`: image, an unconverted sequence of bits.
    Image,
    /// `L n`: logical bytes of n bits.
    Local(ByteSize),
}

impl Default for Type {
    fn default() -> Self {
        Self::Ascii(Format::NonPrint)
    }
}

impl Type {
    /// Returns whether the type is text, whose size on the wire differs from that of the file.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Ascii(_) | Self::Ebcdic(_))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NonPrint => "N",
            Self::Telnet => "T",
            Self::CarriageControl => "C",
        })
    }
}

impl fmt::Display for Type {
    /// Formats the argument of TYPE.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ascii(Format::NonPrint) => f.write_str("A"),
            Self::Ascii(format) => write!(f, "A {format}"),
            Self::Ebcdic(Format::NonPrint) => f.write_str("E"),
            Self::Ebcdic(format) => write!(f, "E {format}"),
            Self::Image => f.write_str("I"),
            Self::Local(size) => write!(f, "L {}", size.bits()),
        }
    }
}

/// MODE: the transmission mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `S`: a plain byte stream; the end of the connection is the end of the file.
    #[default]
    Stream,
    /// `B`: a sequence of blocks, each with a header.
    Block,
    /// `C`: repetitions of one byte are compressed.
    Compressed,
    /// `Z`: a zlib stream; not in an RFC, but widely used.
    Deflate,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream => "S",
            Self::Block => "B",
            Self::Compressed => "C",
            Self::Deflate => "Z",
        })
    }
}

/// STRU: the structure of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Structure {
    /// `F`: no structure, a sequence of bytes.
    #[default]
    File,
    /// `R`: a sequence of records.
    Record,
    /// `P`: pages with an index.
    Page,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "F",
            Self::Record => "R",
            Self::Page => "P",
        })
    }
}

/// Storage format of words in a local file of octets, for words that are not octets. All formats
/// but the first two are for 36-bit words only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WordFormat {
    /// Packed with the most significant bit first and padded at the end of the file, as on the
    /// wire. For words of 36 bits this format is called h36.
    #[default]
    Packed,
    /// `data8`: each word right-aligned in a little-endian 64-bit word.
    Data8,
    /// `c36`, core dump: five octets per word, with bits B32 to B35 in the low half of the last
    /// octet.
    C36,
    /// `a36`, ANSI-ASCII: five 7-bit characters per word, with bit B35 in the top bit of the last
    /// octet.
    A36,
    /// `u36`, the exchange format of ITS: words of text as characters, other words as five octets
    /// of which the first is at least 0xF0.
    U36,
    /// `oct`: octal digits, one word per line.
    Oct,
    /// `text`: five 7-bit characters per word, with CR LF converted to LF; bit B35 is lost.
    Text,
}

impl WordFormat {
    /// Every format, with its usual name.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Packed, "h36"),
        (Self::Data8, "data8"),
        (Self::C36, "c36"),
        (Self::A36, "a36"),
        (Self::U36, "u36"),
        (Self::Oct, "oct"),
        (Self::Text, "text"),
    ];

    /// Returns the format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(format, _)| *format)
    }

    /// Returns whether the format can store words of this size.
    #[must_use]
    pub const fn can_store(self, size: ByteSize) -> bool {
        match self {
            Self::Packed | Self::Data8 | Self::Oct => true,
            Self::C36 | Self::A36 | Self::U36 | Self::Text => size.bits() == 36,
        }
    }
}

/// Representation of a file on a data connection, and storage format of its words in the local
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Representation {
    /// Data type (TYPE).
    pub data_type: Type,
    /// Transmission mode (MODE).
    pub mode: Mode,
    /// File structure (STRU).
    pub structure: Structure,
    /// Storage format of the local file, for type `L`.
    pub word_format: WordFormat,
}

impl Representation {
    /// Image type, stream mode, file structure: the bytes of the file without conversion.
    pub const IMAGE: Self = Self {
        data_type: Type::Image,
        mode: Mode::Stream,
        structure: Structure::File,
        word_format: WordFormat::Packed,
    };

    /// Returns whether the data connection carries exactly the bytes of the file.
    #[must_use]
    pub fn passes_through(&self) -> bool {
        let is_image = match self.data_type {
            Type::Image => true,
            // L 8 equals image type in any word format, since its words are octets
            // (RFC 1123 §4.1.2.1).
            Type::Local(size) => size == ByteSize::OCTET || self.word_format == WordFormat::Packed,
            Type::Ascii(_) | Type::Ebcdic(_) => false,
        };
        is_image && self.mode == Mode::Stream && self.structure == Structure::File
    }

    /// Returns whether the file has the same octets on both hosts and on the data connection. In
    /// that case the local and the remote file have the same size and hash, and a transfer can be
    /// resumed. Each host stores logical bytes of other sizes in its own way (RFC 959 §3.1.1.4).
    #[must_use]
    pub fn keeps_octets(&self) -> bool {
        let is_octets = match self.data_type {
            Type::Image => true,
            Type::Local(size) => size == ByteSize::OCTET,
            Type::Ascii(_) | Type::Ebcdic(_) => false,
        };
        is_octets && self.mode == Mode::Stream && self.structure == Structure::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req RFC1123:4.1.2.1-MUST-1, RFC1123:4.1.2.1-MUST-2
    #[test]
    fn image_and_local_8_are_equal_and_pass_through() {
        let local_8 =
            Representation { data_type: Type::Local(ByteSize::OCTET), ..Representation::IMAGE };
        assert!(Representation::IMAGE.passes_through() && local_8.passes_through());
        assert!(!Representation::default().passes_through());
    }

    #[test]
    fn words_pass_unchanged_and_may_be_packed_differently_by_the_peer() {
        let words = Type::Local(ByteSize::WORD36);
        let words = Representation { data_type: words, ..Representation::IMAGE };
        assert!(words.passes_through() && !words.keeps_octets());
        assert!(Representation::IMAGE.keeps_octets());
    }
}
