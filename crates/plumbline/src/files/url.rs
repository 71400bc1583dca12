//! Where a file is on another host: `tftp://host[:port]/name[;mode=netascii]` (RFC 3617).

use crate::carry::Target;
use anyhow::{Context, Result, bail};
use protocols::application::tftp::{Mode, SERVER_PORT};
use std::fmt;
use std::str::FromStr;

/// A place on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// How it is spoken with.
    pub(crate) scheme: Scheme,
    /// The host and its port.
    pub(crate) target: Target,
    /// The file's name: any bytes but control characters; empty if none was said.
    pub(crate) name: Vec<u8>,
}

/// A protocol, with what a URL says for it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// `tftp://`.
    Tftp(Mode),
}

impl FromStr for Url {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let shown = text.escape_debug();
        let Some((scheme, rest)) = text.split_once("://") else {
            bail!("'{shown}' is not a URL: say tftp://host/name");
        };
        if scheme != "tftp" {
            bail!("'{}://' is not a scheme that plumb knows: use tftp://", scheme.escape_debug());
        }
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (path, mode) = match path.rsplit_once(";mode=") {
            None => (path, Mode::Octet),
            Some((path, "octet")) => (path, Mode::Octet),
            Some((path, "netascii")) => (path, Mode::Netascii),
            Some((_, mode)) => {
                bail!("'{}' is not a mode: there are octet and netascii", mode.escape_debug())
            }
        };
        let target = Target::parse(host, Some(SERVER_PORT))?;
        let name =
            decoded(path).with_context(|| format!("'{shown}' has a % without two digits"))?;
        // A line break in a name is a command of its own to some protocols and logs.
        if name.iter().any(u8::is_ascii_control) {
            bail!("'{shown}' has a control character in its name");
        }
        Ok(Self { scheme: Scheme::Tftp(mode), target, name })
    }
}

impl Url {
    /// Returns the last component of the name, which may be empty.
    pub(crate) fn last_component(&self) -> &[u8] {
        self.name.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme: Scheme::Tftp(mode), target, name } = self;
        let host = &target.host;
        let bracketed = host.contains(':');
        let (open, close) = if bracketed { ("[", "]") } else { ("", "") };
        write!(f, "tftp://{open}{host}{close}")?;
        if target.port != SERVER_PORT {
            write!(f, ":{}", target.port)?;
        }
        write!(f, "/{}", name.escape_ascii())?;
        f.write_str(if *mode == Mode::Netascii { ";mode=netascii" } else { "" })
    }
}

/// Reads `%2F` and its like.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut decoded) = (text.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?].map(char::from);
                let [high, low] = digits.map(|digit| digit.to_digit(16));
                u8::try_from(high? * 16 + low?).ok()?
            }
            other => other,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn a_place_has_a_host_a_port_a_name_and_a_mode() {
        let there = url("tftp://example.net:6969/boot/pxe%20linux.0;mode=netascii");
        assert_eq!((there.target.host.as_str(), there.target.port), ("example.net", 6969));
        assert_eq!(there.name, b"boot/pxe linux.0");
        assert_eq!(there.last_component(), b"pxe linux.0");
        assert_eq!(there.scheme, Scheme::Tftp(Mode::Netascii));
    }

    #[test]
    fn what_is_not_said_is_port_69_and_octets() {
        let there = url("tftp://[2001:db8::1]//etc/motd");
        assert_eq!((there.target.host.as_str(), there.target.port), ("2001:db8::1", 69));
        assert_eq!(
            (there.name.as_slice(), there.scheme),
            (&b"/etc/motd"[..], Scheme::Tftp(Mode::Octet))
        );
        assert_eq!(there.to_string(), "tftp://[2001:db8::1]//etc/motd");
    }

    // attack row 92
    #[test]
    fn a_line_break_in_a_name_is_refused() {
        for text in ["tftp://a/b%0d%0ac", "tftp://a/b%00", "tftp://a/b%1b[2J"] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "a/b",
            "gopher://a/b",
            "tftp:///b",
            "tftp://a/%4",
            "tftp://a/%zz",
            "tftp://a/b;mode=mail",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "\\PC{0,60}") {
            _ = text.parse::<Url>();
            _ = format!("tftp://{text}").parse::<Url>();
        }
    }
}
