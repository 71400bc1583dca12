//! What the commands for files on other hosts are told, beside the files.

use super::get::Terms;
use crate::carry::{Family, Via};
use crate::transfers::Keeping;
use anyhow::{Context, Result, bail};
use os::jail::Existing;
use protocols::application::ftp::{
    ByteSize, Format, Mode, Representation, Structure, Type, WordFormat, data,
};
use std::path::PathBuf;

/// How the other host is reached.
#[derive(Debug, clap::Args)]
pub(in crate::files) struct Reach {
    /// What carries it: kernel, tun:NAME, tap:NAME or packet:INTERFACE, as for login
    #[arg(long, default_value = "kernel")]
    pub(in crate::files) via: Via,
    #[command(flatten)]
    pub(in crate::files) family: Family,
    /// Give up when nothing has been heard for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 25,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(in crate::files) timeout: u32,
    /// Who logs in, if the URL does not say it; the password comes from ~/.netrc, from the
    /// environment as PLUMB_FTP_PASSWORD, or is asked for
    #[arg(long, value_name = "NAME")]
    pub(in crate::files) user: Option<String>,
    /// Trust the authorities of this file (PEM), and not the certificate of the first time
    #[arg(long, value_name = "FILE")]
    pub(in crate::files) ca: Option<PathBuf>,
    /// Let the server connect to us for data, and not the other way round
    #[arg(long)]
    pub(in crate::files) active: bool,
    /// Try so often before giving up
    #[arg(long, value_name = "TIMES", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(in crate::files) tries: u32,
    /// Say the result as JSON, on the standard output unless the file goes there
    #[arg(long)]
    pub(in crate::files) json: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(in crate::files) quiet: bool,
    /// Show what the server replies
    #[arg(short, long)]
    pub(in crate::files) verbose: bool,
    #[command(flatten)]
    pub(in crate::files) keeping: Keeping,
}

/// How files move by FTP.
#[derive(Debug, clap::Args)]
pub(in crate::files) struct Moving {
    /// How the bytes are meant: I (as they are), A (text), E (EBCDIC), or L and the bits of a word,
    /// as in L36; A and E may have N, T or C behind them
    #[arg(long = "type", value_name = "TYPE", value_parser = data_type)]
    pub(in crate::files) data_type: Option<Type>,
    /// How the bytes travel: S (stream), B (block), C (compressed) or Z (deflated)
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(in crate::files) mode: Option<Mode>,
    /// What the file is made of: F (bytes), R (records) or P (pages)
    #[arg(long, value_name = "STRUCTURE", value_parser = structure)]
    pub(in crate::files) stru: Option<Structure>,
    /// How words that are not octets lie in the file here: h36, data8, oct, and for 36 bits c36,
    /// a36, u36, text
    #[arg(long, value_name = "FORMAT", value_parser = word_format)]
    pub(in crate::files) store: Option<WordFormat>,
    /// Go on with what is there of a file, if it is the same file still; leave what is there whole
    #[arg(short, long = "continue")]
    pub(in crate::files) continues: bool,
    /// Move whole folders; a link here to a file is moved as that file, other links are not moved
    #[arg(short, long)]
    pub(in crate::files) recursive: bool,
    /// So many files at a time, each over a session of its own
    #[arg(short, long, value_name = "FILES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(in crate::files) jobs: u32,
}

impl Moving {
    /// Returns the terms of a transfer.
    ///
    /// # Errors
    ///
    /// If files cannot be moved so.
    pub(super) fn terms(&self, is_text: Option<bool>, existing: Existing) -> Result<Terms> {
        let text = Type::Ascii(Format::NonPrint);
        let of_url = is_text.map(|is_text| if is_text { text } else { Type::Image });
        let word_format = self.store.unwrap_or_default();
        let of_words =
            self.store.map(|_| Type::Local(ByteSize::new(36).unwrap_or(ByteSize::OCTET)));
        let representation = Representation {
            data_type: self.data_type.or(of_url).or(of_words).unwrap_or(Type::Image),
            mode: self.mode.unwrap_or_default(),
            structure: self.stru.unwrap_or_default(),
            word_format,
        };
        if data::supported(&representation).is_err() {
            bail!("this type, mode, structure and format do not go together");
        }
        Ok(Terms { representation, existing, continues: self.continues, segments: 1 })
    }
}

fn data_type(text: &str) -> Result<Type> {
    let text = text.to_ascii_uppercase();
    let (letter, rest) = text.split_at_checked(1).unwrap_or_default();
    let format = match rest.trim() {
        "" | "N" => Some(Format::NonPrint),
        "T" => Some(Format::Telnet),
        "C" => Some(Format::CarriageControl),
        _ => None,
    };
    let size = rest.trim().parse().ok().and_then(ByteSize::new);
    match (letter, format, size) {
        ("I", _, _) if rest.is_empty() => Ok(Type::Image),
        ("A", Some(format), _) => Ok(Type::Ascii(format)),
        ("E", Some(format), _) => Ok(Type::Ebcdic(format)),
        ("L", _, Some(size)) => Ok(Type::Local(size)),
        _ => bail!("'{}' is no type: there are I, A, E and L with 1 to 64", text.escape_debug()),
    }
}

fn mode(text: &str) -> Result<Mode> {
    let modes = [Mode::Stream, Mode::Block, Mode::Compressed, Mode::Deflate];
    let found = modes.into_iter().find(|mode| mode.to_string().eq_ignore_ascii_case(text));
    found.with_context(|| format!("'{}' is no mode: there are S, B, C, Z", text.escape_debug()))
}

fn structure(text: &str) -> Result<Structure> {
    let all = [Structure::File, Structure::Record, Structure::Page];
    let found = all.into_iter().find(|one| one.to_string().eq_ignore_ascii_case(text));
    found.with_context(|| format!("'{}' is no structure: there are F, R, P", text.escape_debug()))
}

fn word_format(text: &str) -> Result<WordFormat> {
    WordFormat::from_name(text).with_context(|| {
        let names: Vec<_> = WordFormat::ALL.iter().map(|(_, name)| *name).collect();
        format!("'{}' is no format of words: there are {}", text.escape_debug(), names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_the_command_has_them() {
        assert_eq!(data_type("I").unwrap(), Type::Image);
        assert_eq!(data_type("a").unwrap(), Type::Ascii(Format::NonPrint));
        assert_eq!(data_type("E C").unwrap(), Type::Ebcdic(Format::CarriageControl));
        assert_eq!(data_type("L36").unwrap(), Type::Local(ByteSize::new(36).unwrap()));
        assert!(["", "L", "L65", "X", "I8"].iter().all(|text| data_type(text).is_err()));
    }
}
