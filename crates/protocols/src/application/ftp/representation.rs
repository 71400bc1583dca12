//! How a file is represented on a data connection: TYPE, MODE and STRU (RFC 959 §3.1 to §3.4).

use core::fmt;

/// What the vertical moves of a text are (RFC 959 §3.1.1.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Non-print.
    #[default]
    NonPrint,
    /// Telnet format effectors; on hosts without a difference the same as non-print (RFC 1123
    /// §4.1.2.2).
    Telnet,
    /// Carriage control of FORTRAN (ASA): the first character of each line.
    CarriageControl,
}

/// The size of a logical byte, 1 to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteSize(u8);

impl ByteSize {
    /// Eight bits.
    pub const OCTET: Self = Self(8);
    /// The word of a PDP-10.
    pub const WORD36: Self = Self(36);

    /// Returns a size of `bits`, if that is 1 to 64.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        match bits {
            1..=64 => Some(Self(bits)),
            _ => None,
        }
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }
}

/// TYPE: what the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `A`: text in ASCII, or in what contains it.
    Ascii(Format),
    /// `E`: text in EBCDIC.
    Ebcdic(Format),
    /// `I`: bits as they are.
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
    /// Returns whether it is text, whose size on the wire is not that of the file.
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
    /// Writes the argument of TYPE.
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

/// MODE: how the bytes travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// `S`: as they are; the end of the connection is the end of the file.
    #[default]
    Stream,
    /// `B`: in blocks with headers.
    Block,
    /// `C`: runs of one byte are counted.
    Compressed,
    /// `Z`: deflated; no RFC, but in wide use.
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

/// STRU: what the file is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Structure {
    /// `F`: bytes.
    #[default]
    File,
    /// `R`: records.
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

/// How words that are not octets lie in a file of octets. All but the first two are for words of 36
/// bits alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WordFormat {
    /// Densely packed, the most significant bit first, padded at the end of the file: as on the
    /// wire. With 36 bits it is called h36.
    #[default]
    Packed,
    /// Each word at the right of a little-endian word of 64 bits: `data8`.
    Data8,
    /// `c36`, core dump: five octets, the last with B32 to B35 at its right.
    C36,
    /// `a36`, ANSI-ASCII: five octets of seven bits, and B35 above the last.
    A36,
    /// `u36`, as ITS writes for others: text as text, other words as five octets from 0xF0 on.
    U36,
    /// Octal digits, a word a line.
    Oct,
    /// Five characters of seven bits a word, CR LF as LF; B35 is lost.
    Text,
}

impl WordFormat {
    /// Every format, with the name that people use.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Packed, "h36"),
        (Self::Data8, "data8"),
        (Self::C36, "c36"),
        (Self::A36, "a36"),
        (Self::U36, "u36"),
        (Self::Oct, "oct"),
        (Self::Text, "text"),
    ];

    /// Returns the format that is called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(format, _)| *format)
    }

    /// Returns whether words of `size` can lie so.
    #[must_use]
    pub const fn holds(self, size: ByteSize) -> bool {
        match self {
            Self::Packed | Self::Data8 | Self::Oct => true,
            Self::C36 | Self::A36 | Self::U36 | Self::Text => size.bits() == 36,
        }
    }
}

/// How a file travels, and how its words lie in our file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Representation {
    /// TYPE.
    pub data_type: Type,
    /// MODE.
    pub mode: Mode,
    /// STRU.
    pub structure: Structure,
    /// The file on our side, where the type is `L`.
    pub word_format: WordFormat,
}

impl Representation {
    /// Image, stream, file: the bytes as they are.
    pub const IMAGE: Self = Self {
        data_type: Type::Image,
        mode: Mode::Stream,
        structure: Structure::File,
        word_format: WordFormat::Packed,
    };

    /// Returns whether the bytes on the data connection are those of the file.
    #[must_use]
    pub fn passes_through(&self) -> bool {
        let is_image = match self.data_type {
            Type::Image => true,
            // L 8 is the image whatever the word format: its words are octets (RFC 1123 §4.1.2.1).
            Type::Local(size) => size == ByteSize::OCTET || self.word_format == WordFormat::Packed,
            Type::Ascii(_) | Type::Ebcdic(_) => false,
        };
        is_image && self.mode == Mode::Stream && self.structure == Structure::File
    }

    /// Returns whether the file has the same octets on either side, and on the data connection:
    /// then its size and its hash there are those of the file here, and a transfer may begin within
    /// it. Logical bytes of other sizes lie in the files of a host as that host likes (RFC 959
    /// §3.1.1.4).
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
    fn image_and_local_8_are_the_same_and_pass_through() {
        let local =
            Representation { data_type: Type::Local(ByteSize::OCTET), ..Representation::IMAGE };
        assert!(Representation::IMAGE.passes_through() && local.passes_through());
        assert!(!Representation::default().passes_through());
    }

    #[test]
    fn words_pass_through_as_they_are_and_may_lie_otherwise_on_the_far_side() {
        let words = Type::Local(ByteSize::WORD36);
        let words = Representation { data_type: words, ..Representation::IMAGE };
        assert!(words.passes_through() && !words.keeps_octets());
        assert!(Representation::IMAGE.keeps_octets());
    }
}
