//! Parsing of the data type, the mode, the structure and the word format of FTP transfers, from
//! arguments, commands of the shell and the configuration.

use anyhow::{Context, Result, bail};
use protocols::ftp::{ByteSize, Format, Mode, Structure, Type, WordFormat};

/// Requested data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedType {
    /// A fixed data type.
    This(Type),
    /// The data type for the system that the server reports (SYST).
    Auto,
}

/// Parses the argument of `--type`.
pub(super) fn parse_requested_type(text: &str) -> Result<RequestedType> {
    match text.eq_ignore_ascii_case("auto") {
        true => Ok(RequestedType::Auto),
        false => parse_data_type(text).map(RequestedType::This),
    }
}

fn parse_data_type(text: &str) -> Result<Type> {
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
        _ => bail!(
            "'{}' is not a type: use I, A, E, or L with a word size of 1 to 64 bits",
            text.escape_debug()
        ),
    }
}

/// Parses the argument of `--mode`.
pub(super) fn parse_mode(text: &str) -> Result<Mode> {
    let modes = [Mode::Stream, Mode::Block, Mode::Compressed, Mode::Deflate];
    let found = modes.into_iter().find(|mode| mode.to_string().eq_ignore_ascii_case(text));
    found.with_context(|| format!("'{}' is not a mode: use S, B, C or Z", text.escape_debug()))
}

/// Parses the argument of `--stru`.
pub(super) fn parse_structure(text: &str) -> Result<Structure> {
    let structures = [Structure::File, Structure::Record, Structure::Page];
    let found =
        structures.into_iter().find(|structure| structure.to_string().eq_ignore_ascii_case(text));
    found.with_context(|| format!("'{}' is not a structure: use F, R or P", text.escape_debug()))
}

/// Parses the argument of `--store`.
pub(super) fn parse_word_format(text: &str) -> Result<WordFormat> {
    WordFormat::from_name(text).with_context(|| {
        let names: Vec<_> = WordFormat::ALL.iter().map(|(_, name)| *name).collect();
        format!("'{}' is not a word format: use one of {}", text.escape_debug(), names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_parsed_as_in_the_type_command() {
        assert_eq!(parse_data_type("I").unwrap(), Type::Image);
        assert_eq!(parse_data_type("a").unwrap(), Type::Ascii(Format::NonPrint));
        assert_eq!(parse_data_type("E C").unwrap(), Type::Ebcdic(Format::CarriageControl));
        assert_eq!(parse_data_type("L36").unwrap(), Type::Local(ByteSize::new(36).unwrap()));
        assert!(["", "L", "L65", "X", "I8"].iter().all(|text| parse_data_type(text).is_err()));
    }
}
