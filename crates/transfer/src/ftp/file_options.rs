//! Options and outcome of the transfer of one file.

use anyhow::{Result, bail};
use os::beneath::Existing;
use protocols::ftp::{ByteSize, Mode, Representation, Structure, Type, data};

/// Transfer options.
#[derive(Clone, Copy, Debug)]
pub struct FtpOptions {
    /// Type, mode, structure and word format.
    pub representation: Representation,
    /// Treatment of an existing file.
    pub existing: Existing,
    /// Whether an existing file is skipped without an error (`--no-clobber`).
    pub skips_existing: bool,
    /// Whether a partial file is resumed (`--continue`).
    pub continues: bool,
    /// Number of segments that a file is divided into, each downloaded over its own session.
    pub segments: u32,
    /// Whether the copy gets the modification time of the original file.
    pub keeps_time: bool,
    /// Whether the data type is chosen by the system that the server reports.
    pub asks_system: bool,
}

/// Outcome of a transfer without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOutcome {
    /// The file was transferred.
    Transferred,
    /// The destination already had the file.
    AlreadyComplete,
    /// The destination has a file of that name, which is kept (`--no-clobber`).
    Kept,
}

/// Checks whether type, mode, structure and word format can be combined.
///
/// # Errors
///
/// Returns an error that states the violated rule.
pub fn check(representation: &Representation) -> Result<()> {
    let Representation { data_type, mode, structure, word_format } = *representation;
    if data::check_supported(representation).is_ok() {
        return Ok(());
    }
    let size = match data_type {
        Type::Local(size) => size,
        _ => ByteSize::OCTET,
    };
    match structure {
        // RFC 959 §3.1.2.3: each field of a page's header is one logical byte.
        Structure::Page if mode == Mode::Deflate => bail!("STRU P is not supported in MODE Z"),
        Structure::Page if size.bits() < 16 => bail!(
            "STRU P counts pages and words in logical bytes, for which TYPE {data_type} is too \
             small: use --type L36, or another L of 16 bits or more"
        ),
        Structure::Record if size != ByteSize::OCTET => {
            bail!("STRU R is for records of octets, not for TYPE {data_type}")
        }
        Structure::Record => bail!(
            "TYPE {data_type} marks the beginnings of lines itself and excludes STRU R: omit one \
             of the two"
        ),
        _ if !word_format.can_store(size) => bail!(
            "this --store format is for words of 36 bits, not for TYPE {data_type}: use h36, data8 \
             or oct"
        ),
        _ => bail!("this type, mode, structure and word format cannot be combined"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(data_type: Type, structure: Structure, mode: Mode) -> String {
        let representation = Representation { data_type, structure, mode, ..Default::default() };
        check(&representation).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn pages_require_words_and_the_error_says_so() {
        let words = Type::Local(ByteSize::WORD36);
        assert_eq!(checked(words, Structure::Page, Mode::Stream), "");
        let error = checked(Type::Image, Structure::Page, Mode::Stream);
        assert!(error.contains("TYPE I is too small: use --type L36"), "{error}");
        assert!(checked(words, Structure::Page, Mode::Deflate).contains("MODE Z"));
        assert!(checked(words, Structure::Record, Mode::Stream).contains("octets"));
    }
}
