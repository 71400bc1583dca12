//! The commands `send` and `receive` of a terminal session.

use super::file_name::safe_name;
use super::local_paths::expand;
use std::path::PathBuf;

/// Protocol of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModemProtocol {
    /// XMODEM with blocks of 128 bytes.
    Xmodem,
    /// XMODEM with blocks of 1024 bytes.
    Xmodem1k,
    /// YMODEM.
    Ymodem,
    /// ZMODEM.
    #[default]
    Zmodem,
}

impl ModemProtocol {
    const NAMES: [(&str, Self); 4] = [
        ("zmodem", Self::Zmodem),
        ("ymodem", Self::Ymodem),
        ("xmodem", Self::Xmodem),
        ("xmodem-1k", Self::Xmodem1k),
    ];

    /// Returns the protocol with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol)
    }

    /// Returns whether a transfer has exactly one file, without a name.
    #[must_use]
    pub const fn is_xmodem(self) -> bool {
        matches!(self, Self::Xmodem | Self::Xmodem1k)
    }
}

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModemCommand {
    /// Sends files.
    Send(ModemProtocol, Vec<PathBuf>),
    /// Receives files; the first one is stored under the name, if one is given.
    Receive(ModemProtocol, Option<String>),
}

impl ModemCommand {
    /// Returns the protocol.
    pub const fn protocol(&self) -> ModemProtocol {
        match self {
            Self::Send(protocol, _) | Self::Receive(protocol, _) => *protocol,
        }
    }

    /// Parses the arguments of `send` or, if `is_sending` is false, of `receive`.
    ///
    /// # Errors
    ///
    /// Returns a sentence about the invalid argument.
    pub fn parse(is_sending: bool, arguments: &str) -> Result<Self, String> {
        let mut words = split(arguments)?;
        let mut protocol = ModemProtocol::default();
        if let Some(at) = words.iter().position(|word| word.text == "--protocol") {
            let name = words.get(at + 1).map(|word| word.text.as_str()).unwrap_or_default();
            protocol = ModemProtocol::from_name(name)
                .ok_or("Use --protocol zmodem, ymodem, xmodem or xmodem-1k.")?;
            words.drain(at..at + 2);
        }
        if let Some(option) = words.iter().find(|word| word.text.starts_with("--")) {
            return Err(format!("Unknown option '{}'.", option.text.escape_debug()));
        }
        if !is_sending {
            return Self::receive(protocol, words.into_iter().map(|word| word.text).collect());
        }
        let mut paths = Vec::new();
        for word in words {
            match word.is_quoted {
                true => paths.push(PathBuf::from(word.text)),
                false => paths.extend(expand(&word.text)?),
            }
        }
        match paths.len() {
            0 => Err("Missing argument: use send FILE.".to_owned()),
            2.. if protocol.is_xmodem() => {
                Err("XMODEM transfers one file: use zmodem or ymodem.".to_owned())
            }
            _ => Ok(Self::Send(protocol, paths)),
        }
    }

    fn receive(protocol: ModemProtocol, words: Vec<String>) -> Result<Self, String> {
        let mut words = words.into_iter();
        match (words.next(), words.next()) {
            (_, Some(_)) => Err("Use receive with one name at most.".to_owned()),
            (Some(name), None) if safe_name(name.as_bytes()) != name => Err(format!(
                "'{}' is not a simple file name; --download-directory selects the directory.",
                name.escape_debug()
            )),
            (None, None) if protocol.is_xmodem() => {
                Err("XMODEM transfers no name: use receive --protocol xmodem FILE.".to_owned())
            }
            (name, None) => Ok(Self::Receive(protocol, name)),
        }
    }
}

/// An argument.
struct Word {
    text: String,
    is_quoted: bool,
}

/// Splits arguments at spaces, except in double quotes.
fn split(arguments: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let word = |text: &str, is_quoted| Word { text: text.to_owned(), is_quoted };
    for (index, piece) in arguments.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(piece.split_whitespace().map(|text| word(text, false))),
            _ => words.push(word(piece, true)),
        }
    }
    if arguments.matches('"').count() % 2 == 1 {
        return Err("Missing closing quote.".to_owned());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(arguments: &str) -> Result<ModemCommand, String> {
        ModemCommand::parse(true, arguments)
    }

    #[test]
    fn zmodem_is_the_default_and_quotes_keep_spaces() {
        let files = vec![PathBuf::from("a.txt"), PathBuf::from("my file")];
        assert_eq!(send("a.txt \"my file\""), Ok(ModemCommand::Send(ModemProtocol::Zmodem, files)));
        let file = vec![PathBuf::from("a")];
        for arguments in ["--protocol xmodem-1k a", "a --protocol xmodem-1k"] {
            let expected = ModemCommand::Send(ModemProtocol::Xmodem1k, file.clone());
            assert_eq!(send(arguments), Ok(expected));
        }
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for arguments in [
            "",
            "--protocol",
            "a --protocol",
            "--protocol kermit a",
            "--protocol xmodem a b",
            "\"a",
        ] {
            assert!(send(arguments).is_err(), "{arguments}");
        }
        for arguments in ["a b", "../a", ".a", "--protocol xmodem", "--fast"] {
            assert!(ModemCommand::parse(false, arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn receive_takes_an_optional_name() {
        let receive = |arguments| ModemCommand::parse(false, arguments);
        assert_eq!(receive(""), Ok(ModemCommand::Receive(ModemProtocol::Zmodem, None)));
        let named = ModemCommand::Receive(ModemProtocol::Xmodem, Some("a.bin".to_owned()));
        assert_eq!(receive("--protocol xmodem a.bin"), Ok(named));
    }
}
