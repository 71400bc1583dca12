//! Destination of a login: a host by Telnet, with or without TLS; a host by plain TCP; a local
//! serial line; or a serial line behind a console server (RFC 2217).

use crate::{HostTarget, Scheme};
use anyhow::{Context, Result, bail};
use os::serial::{DataBits, FlowControl, LineSettings, Parity, StopBits};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Port of Telnet over TLS (RFC 7590, IANA port registry).
pub const TELNETS_PORT: u16 = 992;

/// Default rate of a serial line, in bits per second.
const DEFAULT_RATE_BPS: u32 = 9_600;

/// A destination as typed by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Host and protocol.
    Host {
        /// Host and port.
        target: HostTarget,
        /// Protocol.
        scheme: LoginScheme,
        /// User name before the host, as in `user@host`.
        user: Option<String>,
    },
    /// Serial line of this machine.
    Serial {
        /// Device path.
        device: PathBuf,
        /// Line parameters.
        settings: LineSettings,
    },
}

/// Protocol of a connection to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginScheme {
    /// No scheme specified: Telnet. The local side starts the negotiation only at port 23.
    Unspecified,
    /// `telnet://`: Telnet.
    Telnet,
    /// `telnets://`: Telnet over TLS from the first byte.
    Telnets,
    /// `tcp://`: plain bytes.
    Tcp,
    /// `rfc2217://`: Telnet to a serial line with these parameters.
    ComPort(LineSettings),
}

impl FromStr for Destination {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (scheme, rest) = Scheme::split(text, Scheme::LOGIN, &[])?;
        if scheme.is_none() {
            reject_similar(text)?;
        }
        let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, port) = match scheme {
            Some(Scheme::Serial) => return serial_line(text, place, settings),
            Some(Scheme::Telnets) => (LoginScheme::Telnets, Some(TELNETS_PORT)),
            Some(Scheme::Tcp) => (LoginScheme::Tcp, None),
            Some(Scheme::Rfc2217) => (LoginScheme::ComPort(line_settings(settings)?), None),
            Some(_) => (LoginScheme::Telnet, Some(crate::TELNET_PORT)),
            None => {
                let (user, host) = split_user(text)?;
                let target = HostTarget::parse(host, Some(crate::TELNET_PORT))?;
                return Ok(Self::Host { target, scheme: LoginScheme::Unspecified, user });
            }
        };
        if !settings.is_empty() && !matches!(scheme, LoginScheme::ComPort(_)) {
            bail!("only serial: and rfc2217:// take settings: '{}'", settings.escape_debug());
        }
        let (user, host) = split_user(place.trim_end_matches('/'))?;
        let target = HostTarget::parse(host, port)?;
        Ok(Self::Host { target, scheme, user })
    }
}

impl Destination {
    /// Replaces the port. Returns an error for a serial line.
    pub fn with_port(self, port: Option<u16>) -> Result<Self> {
        match (self, port) {
            (Self::Host { target, scheme, user }, Some(port)) => {
                Ok(Self::Host { target: HostTarget { port, ..target }, scheme, user })
            }
            (Self::Serial { .. }, Some(_)) => {
                bail!("a serial line has no port: set its rate by serial:DEVICE?baud=9600")
            }
            (destination, None) => Ok(destination),
        }
    }
}

/// Splits `user@host` into the user name and the host.
fn split_user(text: &str) -> Result<(Option<String>, &str)> {
    let Some((user, host)) = text.rsplit_once('@') else { return Ok((None, text)) };
    if user.contains(':') {
        bail!("a destination contains no password: use user@host, and log in at the prompt");
    }
    if user.is_empty() || user.contains(|c: char| c.is_whitespace() || c.is_control()) {
        bail!("invalid user name in '{}'", text.escape_debug());
    }
    Ok((Some(user.to_owned()), host))
}

/// Rejects texts that resemble other kinds of destinations, with an error that names the intended
/// form.
fn reject_similar(text: &str) -> Result<()> {
    if text.starts_with(['/', '.']) {
        bail!("'{0}' is a path: use serial:{0} for a serial line", text.escape_debug());
    }
    let Some((scheme, rest)) = text.split_once(':') else { return Ok(()) };
    let is_login_scheme = Scheme::LOGIN.iter().any(|known| known.name() == scheme);
    // `telnet:23` is the port 23 of a host named telnet.
    if is_login_scheme && !rest.is_empty() && crate::parse_port(rest).is_err() {
        bail!("'{}' lacks '//': use {scheme}://{}", text.escape_debug(), rest.escape_debug());
    }
    Ok(())
}

fn serial_line(text: &str, device: &str, settings: &str) -> Result<Destination> {
    if device.is_empty() {
        bail!("no device in '{}': use e.g. serial:/dev/ttyUSB0?baud=9600", text.escape_debug());
    }
    let settings = line_settings(settings)?;
    Ok(Destination::Serial { device: PathBuf::from(device), settings })
}

/// Parses `baud=9600&bits=8&parity=none&stop=1&flow=none`.
pub fn line_settings(text: &str) -> Result<LineSettings> {
    let mut line = LineSettings::at(DEFAULT_RATE_BPS);
    for setting in text.split('&').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let invalid_setting = || {
            format!(
                "invalid serial line setting '{}': use baud=9600 or another rate, bits=5 to 8, parity=none, odd, even, \
                 mark or space, stop=1 or 2, flow=none, software or hardware",
                setting.escape_debug()
            )
        };
        match name {
            "baud" => {
                let rate = value.parse().ok().filter(|rate| *rate > 0);
                line.bits_per_second = rate.with_context(invalid_setting)?;
            }
            "bits" => line.data_bits = choose(value, &DATA_BITS).with_context(invalid_setting)?,
            "parity" => line.parity = choose(value, &PARITIES).with_context(invalid_setting)?,
            "stop" => line.stop_bits = choose(value, &STOP_BITS).with_context(invalid_setting)?,
            "flow" => line.flow_control = choose(value, &FLOWS).with_context(invalid_setting)?,
            _ => bail!("{}", invalid_setting()),
        }
    }
    Ok(line)
}

fn choose<T: Copy>(word: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(name, _)| *name == word).map(|(_, meaning)| *meaning)
}

fn name<T: Copy + PartialEq>(meaning: T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, other)| *other == meaning).map_or("", |(name, _)| name)
}

const DATA_BITS: [(&str, DataBits); 4] =
    [("5", DataBits::Five), ("6", DataBits::Six), ("7", DataBits::Seven), ("8", DataBits::Eight)];

const PARITIES: [(&str, Parity); 5] = [
    ("none", Parity::None),
    ("odd", Parity::Odd),
    ("even", Parity::Even),
    ("mark", Parity::Mark),
    ("space", Parity::Space),
];

const STOP_BITS: [(&str, StopBits); 2] = [("1", StopBits::One), ("2", StopBits::Two)];

const FLOWS: [(&str, FlowControl); 3] = [
    ("none", FlowControl::None),
    ("software", FlowControl::Software),
    ("hardware", FlowControl::Hardware),
];

/// Returns a text like `9600 bit/s, 8 bits, parity none, 1 stop bit, flow control none`.
pub fn line_text(line: LineSettings) -> String {
    format!(
        "{} bit/s, {} bits, parity {}, {} stop bit{}, flow control {}",
        line.bits_per_second,
        name(line.data_bits, &DATA_BITS),
        name(line.parity, &PARITIES),
        name(line.stop_bits, &STOP_BITS),
        if line.stop_bits == StopBits::Two { "s" } else { "" },
        name(line.flow_control, &FLOWS),
    )
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { target, .. } => target.fmt(f),
            Self::Serial { device, settings } => {
                write!(f, "serial line {} ({})", device.display(), line_text(*settings))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(text: &str) -> (String, u16, LoginScheme) {
        match text.parse().unwrap() {
            Destination::Host { target, scheme, .. } => (target.host, target.port, scheme),
            Destination::Serial { .. } => panic!("{text} is a host"),
        }
    }

    #[test]
    fn a_scheme_selects_the_protocol_and_the_default_port() {
        assert_eq!(host("host"), ("host".to_owned(), 23, LoginScheme::Unspecified));
        assert_eq!(host("telnet://host/"), ("host".to_owned(), 23, LoginScheme::Telnet));
        assert_eq!(host("telnets://host"), ("host".to_owned(), 992, LoginScheme::Telnets));
        assert_eq!(host("tcp://[::1]:79/"), ("::1".to_owned(), 79, LoginScheme::Tcp));
    }

    #[test]
    fn a_serial_line_has_the_specified_parameters_and_defaults_for_the_others() {
        let settings = LineSettings {
            data_bits: DataBits::Seven,
            parity: Parity::Even,
            ..LineSettings::at(1200)
        };
        let line = "serial:/dev/ttyS0?baud=1200&bits=7&parity=even".parse::<Destination>();
        assert_eq!(line.unwrap(), Destination::Serial { device: "/dev/ttyS0".into(), settings });
        let (_, port, scheme) = host("rfc2217://host:2217?flow=hardware");
        let flow_control = FlowControl::Hardware;
        let settings = LineSettings { flow_control, ..LineSettings::at(9600) };
        assert_eq!((port, scheme), (2217, LoginScheme::ComPort(settings)));
    }

    #[test]
    fn a_user_name_precedes_the_host() {
        let user = |text: &str| match text.parse().unwrap() {
            Destination::Host { target, user, .. } => (user.unwrap_or_default(), target.host),
            Destination::Serial { .. } => panic!("{text} is a host"),
        };
        assert_eq!(user("ann@host"), ("ann".to_owned(), "host".to_owned()));
        assert_eq!(user("telnets://ann@[::1]:992/"), ("ann".to_owned(), "::1".to_owned()));
        assert_eq!(user("a@b@host").0, "a@b");
        let password = "ann:secret@host".parse::<Destination>().unwrap_err().to_string();
        assert!(!password.contains("secret"), "{password}");
    }

    #[test]
    fn the_error_for_a_similar_text_names_the_intended_form() {
        let error = |text: &str| text.parse::<Destination>().unwrap_err().to_string();
        assert!(error("/dev/ttyS0").contains("use serial:/dev/ttyS0"));
        assert!(error("telnet:10.99.0.2").contains("use telnet://10.99.0.2"));
        assert_eq!(host("telnet:2323").1, 2323);
    }

    #[test]
    fn an_invalid_destination_is_rejected() {
        let invalid_destinations =
            ["", "ssh://h", "tcp://h", "serial:", "serial:/dev/x?baud=0", "telnet://h?a=b"];
        let lines = ["serial:/dev/x?bits=9", "rfc2217://h:1?parity=maybe", "telnets://"];
        for text in invalid_destinations.into_iter().chain(lines) {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
        let line = "serial:/dev/x".parse::<Destination>().unwrap();
        assert!(line.with_port(Some(1)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_destination_or_rejected_with_a_message_of_one_line(text: String) {
            if let Err(refusal) = text.parse::<Destination>() {
                let sentence = format!("{refusal:#}");
                prop_assert!(!sentence.contains('\n'));
            }
        }
    }
}
