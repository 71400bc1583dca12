//! The command line of one of the project's own servers, as [`super::server`] describes it.

use super::server::Mode;
use anyhow::{Context, Result};
use std::fmt::Display;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Command-line arguments after the server's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arguments<'a> {
    words: &'a [&'a str],
}

impl<'a> Arguments<'a> {
    /// Wraps the arguments without checking them.
    pub(super) fn new(words: &'a [&'a str]) -> Self {
        Self { words }
    }

    /// Returns whether the option `name` is given.
    pub(super) fn has(self, name: &str) -> bool {
        self.words.contains(&name)
    }

    /// Returns the argument after the last option `name`.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        let at = self.words.iter().rposition(|word| *word == name)?;
        self.words.get(at + 1).copied()
    }

    /// Returns the number after the option `name`, or `otherwise` if the option is not given.
    pub(super) fn number<T>(self, name: &str, otherwise: T) -> Result<T>
    where
        T: FromStr<Err: Display>,
    {
        let Some(text) = self.text(name) else { return Ok(otherwise) };
        text.parse().map_err(|error| anyhow::anyhow!("{name} {}: {error}", text.escape_debug()))
    }

    pub(super) fn address(self) -> Result<Ipv4Addr> {
        self.text("--address").context("--address is missing")?.parse().context("no address")
    }

    pub(super) fn mode(self) -> Result<Mode> {
        self.text("--mode").and_then(Mode::from_name).context("--mode needs sink, source or echo")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_any_position() {
        let words = ["--spin", "--mode", "sink", "--address", "10.0.0.1", "--mtu", "1500"];
        let arguments = Arguments::new(&words);
        assert_eq!(arguments.mode().unwrap(), Mode::Sink);
        assert_eq!(arguments.address().unwrap(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(arguments.number("--mtu", 0).unwrap(), 1500);
        assert_eq!(arguments.number("--buffers", 7).unwrap(), 7);
        assert!(arguments.has("--spin"));
    }

    #[test]
    fn missing_values_and_invalid_numbers_are_errors() {
        let arguments = Arguments::new(&["--mtu", "many", "--mode"]);
        let error = arguments.number("--mtu", 0).unwrap_err().to_string();
        assert_eq!(error, "--mtu many: invalid digit found in string");
        let error = arguments.mode().unwrap_err().to_string();
        assert_eq!(error, "--mode needs sink, source or echo");
        assert_eq!(arguments.address().unwrap_err().to_string(), "--address is missing");
    }
}
