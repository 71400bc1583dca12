//! Scheme of a target: the prefix of a command's argument that selects the protocol.

use anyhow::{Result, bail};

/// Prefix of a local serial line, which is not the scheme of a URL.
const SERIAL: &str = "serial:";

/// Scheme of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `telnet://`: Telnet.
    Telnet,
    /// `telnets://`: Telnet over TLS.
    Telnets,
    /// `tcp://`: plain bytes.
    Tcp,
    /// `rfc2217://`: Telnet to a serial line behind a console server.
    Rfc2217,
    /// `serial:`: a serial line of this machine.
    Serial,
    /// `ftp://`: FTP in cleartext.
    Ftp,
    /// `ftpes://`: FTP with TLS after AUTH TLS.
    Ftpes,
    /// `ftps://`: FTP over TLS.
    Ftps,
    /// `tftp://`: TFTP.
    Tftp,
}

impl Scheme {
    /// Schemes of the targets of a login.
    pub const LOGIN: &[Self] =
        &[Self::Telnet, Self::Telnets, Self::Tcp, Self::Rfc2217, Self::Serial];
    /// Schemes of the URLs of files.
    pub const FILES: &[Self] = &[Self::Ftp, Self::Ftpes, Self::Ftps, Self::Tftp];

    /// Returns the name in a URL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Telnet => "telnet",
            Self::Telnets => "telnets",
            Self::Tcp => "tcp",
            Self::Rfc2217 => "rfc2217",
            Self::Serial => "serial",
            Self::Ftp => "ftp",
            Self::Ftpes => "ftpes",
            Self::Ftps => "ftps",
            Self::Tftp => "tftp",
        }
    }

    /// Splits a target into its scheme and the rest. Without a scheme, the rest is the whole text.
    /// The case of a scheme does not matter (RFC 3986 §3.1). `allowed` are the schemes of the
    /// command; `others` are its further kinds of targets, for the error message.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has a scheme that is not allowed.
    pub fn split<'a>(
        text: &'a str,
        allowed: &[Self],
        others: &[&str],
    ) -> Result<(Option<Self>, &'a str)> {
        if allowed.contains(&Self::Serial)
            && let Some((prefix, rest)) = text.split_at_checked(SERIAL.len())
            && prefix.eq_ignore_ascii_case(SERIAL)
        {
            return Ok((Some(Self::Serial), rest));
        }
        let Some((name, rest)) = text.split_once("://") else { return Ok((None, text)) };
        let scheme = allowed.iter().find(|scheme| scheme.name().eq_ignore_ascii_case(name));
        let Some(scheme) = scheme.filter(|scheme| **scheme != Self::Serial) else {
            let mut kinds: Vec<String> = allowed.iter().map(|scheme| scheme.usage()).collect();
            kinds.extend(others.iter().map(|&other| other.to_owned()));
            let last = kinds.pop().unwrap_or_default();
            let kinds = kinds.join(", ");
            // Other text may contain a password, as in `user:password@host/a://b`.
            if !is_scheme(name) {
                bail!("unsupported URL scheme: use {kinds} or {last}");
            }
            bail!("unsupported URL scheme '{name}://': use {kinds} or {last}");
        };
        Ok((Some(*scheme), rest))
    }

    fn usage(self) -> String {
        match self {
            Self::Serial => "serial:DEVICE".to_owned(),
            scheme => format!("{}://", scheme.name()),
        }
    }
}

/// Returns whether `text` has the syntax of a scheme (RFC 3986 §3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_split_off_without_regard_to_its_case() {
        let split = |text| Scheme::split(text, Scheme::LOGIN, &[]).unwrap();
        assert_eq!(split("Telnets://host/"), (Some(Scheme::Telnets), "host/"));
        assert_eq!(split("serial:/dev/ttyS0"), (Some(Scheme::Serial), "/dev/ttyS0"));
        assert_eq!(split("host:23"), (None, "host:23"));
        assert_eq!(split("é"), (None, "é"));
    }

    #[test]
    fn the_error_names_what_the_command_accepts() {
        let error = |text, allowed, others: &[&str]| {
            Scheme::split(text, allowed, others).unwrap_err().to_string()
        };
        assert_eq!(
            error("ftp://h", Scheme::LOGIN, &[]),
            "unsupported URL scheme 'ftp://': use telnet://, telnets://, tcp://, rfc2217:// or \
             serial:DEVICE"
        );
        assert_eq!(
            error("ssh://h", Scheme::FILES, &["FILE"]),
            "unsupported URL scheme 'ssh://': use ftp://, ftpes://, ftps://, tftp:// or FILE"
        );
        assert!(error("serial://h", Scheme::FILES, &[]).contains("'serial://'"));
    }

    #[test]
    fn the_error_repeats_only_the_name_of_a_scheme() {
        let error = |text| Scheme::split(text, Scheme::LOGIN, &[]).unwrap_err().to_string();
        assert!(error("svn+ssh://h").starts_with("unsupported URL scheme 'svn+ssh://': use "));
        assert!(error("me:secret@host/a://b").starts_with("unsupported URL scheme: use "));
    }
}
