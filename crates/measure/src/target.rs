//! Target of a measurement: a login over Telnet or a serial line, files of a server, a recorded
//! session, a running plumb, or a program on a pseudo-terminal.

use anyhow::{Context, Result, bail};
use carrier::{Destination, HostTarget, LoginScheme, Scheme, TELNETS_PORT};
use os::serial::{DataBits, LineSettings, Parity, StopBits};
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use transfer::url::Url;

/// File name extension of a recording.
const RECORDING: &str = ".cast";

/// Schemes of servers and lines that can be measured.
const SCHEMES: &[Scheme] = &[
    Scheme::Telnet,
    Scheme::Telnets,
    Scheme::Ftp,
    Scheme::Ftpes,
    Scheme::Ftps,
    Scheme::Tftp,
    Scheme::Serial,
];

/// Other targets of a measurement.
const OTHER_TARGETS: &[&str] = &["pid:NUMBER", "a recording, FILE.cast"];

/// A target as typed by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasureTarget {
    /// A login.
    Login(LoginTarget),
    /// Files of a server.
    Files(Url),
    /// A recorded session.
    Recording(PathBuf),
    /// A plumb running on this machine, by its process ID.
    Running(u32),
}

/// A host or a serial line on which logins are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginTarget {
    /// A login over Telnet.
    Host {
        /// Host and port.
        target: HostTarget,
        /// Whether TLS is used from the first byte.
        uses_tls: bool,
        /// User name before the host, as in `user@host`.
        user: Option<String>,
    },
    /// A login over a serial line of this machine.
    Line(SerialTarget),
    /// A program on a pseudo-terminal, such as an SSH client.
    Program(ProgramTarget),
}

impl LoginTarget {
    /// Parses a destination of `plumb login` whose scheme, if any, is telnet or telnets.
    fn parse(text: &str) -> Result<Self> {
        Ok(match text.parse::<Destination>()? {
            Destination::Host { target, scheme, user } => {
                Self::Host { target, uses_tls: scheme == LoginScheme::Telnets, user }
            }
            Destination::Serial { device, settings } => {
                Self::Line(SerialTarget { device, settings })
            }
        })
    }
}

impl MeasureTarget {
    /// Returns the user name before the host of a login, as in `user@host`.
    #[must_use]
    pub fn login_user(&self) -> Option<&str> {
        match self {
            Self::Login(LoginTarget::Host { user, .. }) => user.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for LoginTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { target: HostTarget { host, port }, uses_tls, .. } => {
                let (scheme, usual) = match uses_tls {
                    true => ("telnets://", TELNETS_PORT),
                    false => ("", carrier::TELNET_PORT),
                };
                let (open, close) = match host.contains(':') && *port != usual {
                    true => ("[", "]"),
                    false => ("", ""),
                };
                write!(f, "{scheme}{open}{host}{close}")?;
                if *port == usual { Ok(()) } else { write!(f, ":{port}") }
            }
            Self::Line(line) => line.fmt(f),
            Self::Program(program) => f.write_str(&program.text),
        }
    }
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramTarget {
    /// Program and arguments as specified by the user.
    text: String,
    /// Program.
    program: String,
    /// Arguments.
    arguments: Vec<String>,
}

impl ProgramTarget {
    /// Returns the command that starts the program, with an xterm as its terminal.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env("TERM", "xterm");
        command
    }

    /// Returns the text if it is not a program but the name of a host: a single word that is no file
    /// in a directory of PATH.
    pub fn as_host(&self) -> Option<&str> {
        let is_word = self.arguments.is_empty() && !self.program.contains('/');
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has_program =
            || std::env::split_paths(&path).any(|folder| folder.join(&self.program).is_file());
        let is_host = || matches!(self.program.parse(), Ok(MeasureTarget::Login(_)));
        (is_word && !has_program() && is_host()).then_some(&self.program)
    }

    /// Returns the name of the program.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }
}

/// Splits a command into words by the quoting rules of a POSIX shell, without expansions.
impl FromStr for ProgramTarget {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = shlex::split(text)
            .with_context(|| format!("unbalanced quotes in '{}'", text.escape_debug()))?
            .into_iter();
        let program = words.next().context("no program: use e.g. --exec 'ssh host'")?;
        Ok(Self { text: text.to_owned(), program, arguments: words.collect() })
    }
}

/// A serial line of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerialTarget {
    /// Device path.
    pub device: PathBuf,
    /// Line parameters.
    pub settings: LineSettings,
}

impl SerialTarget {
    /// Returns the number of bits per byte on the line, including start and stop bits.
    pub(crate) fn bits_per_byte(&self) -> u64 {
        let data = match self.settings.data_bits {
            DataBits::Five => 5,
            DataBits::Six => 6,
            DataBits::Seven => 7,
            DataBits::Eight => 8,
        };
        let parity = u64::from(self.settings.parity != Parity::None);
        let stop = if self.settings.stop_bits == StopBits::Two { 2 } else { 1 };
        1 + data + parity + stop
    }

    /// Returns the rate; `None` for a pseudo-terminal, whose rate has no effect.
    pub(crate) fn rate_bps(&self) -> Option<u32> {
        let is_pseudo_terminal = self.device.starts_with("/dev/pts");
        (!is_pseudo_terminal).then_some(self.settings.bits_per_second)
    }
}

impl fmt::Display for SerialTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "serial:{}?baud={}", self.device.display(), self.settings.bits_per_second)
    }
}

impl FromStr for MeasureTarget {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(process) = text.strip_prefix("pid:") {
            let number = process.parse().ok().filter(|number| *number > 0);
            return number.map(Self::Running).with_context(|| {
                format!(
                    "invalid process ID 'pid:{}': plumb meters --list lists the running plumb \
                         processes",
                    process.escape_debug()
                )
            });
        }
        match Scheme::split(text, SCHEMES, OTHER_TARGETS)?.0 {
            Some(scheme) if Scheme::FILES.contains(&scheme) => text.parse().map(Self::Files),
            Some(_) => LoginTarget::parse(text).map(Self::Login),
            None if text.ends_with(RECORDING) => Ok(Self::Recording(PathBuf::from(text))),
            None if text.contains('/') => bail!(
                "'{}' is not a target: a recording's name ends with {RECORDING}, a serial line is \
                 serial:/dev/..., and a server is a URL",
                text.escape_debug()
            ),
            None => LoginTarget::parse(text).map(Self::Login),
        }
    }
}

impl fmt::Display for MeasureTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Login(login) => login.fmt(f),
            Self::Files(url) => url.fmt(f),
            Self::Recording(path) => write!(f, "{}", path.display()),
            Self::Running(pid) => write!(f, "pid:{pid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(text: &str) -> MeasureTarget {
        text.parse().unwrap()
    }

    #[test]
    fn the_scheme_selects_the_kind_of_target() {
        assert!(matches!(
            target("host"),
            MeasureTarget::Login(LoginTarget::Host { uses_tls: false, .. })
        ));
        assert!(matches!(
            target("telnets://host"),
            MeasureTarget::Login(LoginTarget::Host { uses_tls: true, .. })
        ));
        for scheme in ["ftp", "ftpes", "ftps", "tftp"] {
            assert!(matches!(target(&format!("{scheme}://host/a")), MeasureTarget::Files(_)));
        }
        assert!(matches!(target("serial:/dev/ttyS0"), MeasureTarget::Login(LoginTarget::Line(_))));
        assert!(matches!(target("a/session.cast"), MeasureTarget::Recording(_)));
    }

    #[test]
    fn a_target_is_displayed_as_typed_but_without_a_password() {
        for text in ["host", "host:2323", "::1", "[::1]:2323", "telnets://host", "x.cast", "pid:7"]
        {
            assert_eq!(target(text).to_string(), text);
        }
        assert_eq!(target("ftp://me:secret@host/a").to_string(), "ftp://host/a");
    }

    #[test]
    fn the_user_name_before_a_host_is_kept_and_not_displayed() {
        for text in ["me@host", "telnet://me@host"] {
            assert_eq!(target(text).login_user(), Some("me"), "{text}");
        }
        assert_eq!(target("me@host").to_string(), "host");
        assert_eq!(target("host").login_user(), None);
    }

    #[test]
    fn each_kind_of_invalid_target_has_its_own_message() {
        let message = |text: &str| text.parse::<MeasureTarget>().unwrap_err().to_string();
        assert!(message("ssh://host").contains("unsupported URL scheme 'ssh://': use telnet://"));
        assert!(message("serial:").contains("no device in"));
        assert!(message("serial:/dev/x?baud=fast").contains("invalid serial line setting"));
        assert!(message("pid:me").contains("plumb meters --list"));
        assert!(message("/etc/passwd").contains("is not a target"));
        assert!(message("telnet://").contains("invalid host name"));
        assert!(message("ftp://host/%zz").contains("two hex digits"));
        assert!(message("host:0").contains("port"));
    }

    #[test]
    fn a_program_is_split_like_a_shell_does_but_not_expanded() {
        let target: ProgramTarget = "ssh -o 'User me' \"a b\" $HOME *".parse().unwrap();
        assert_eq!(target.program(), "ssh");
        assert_eq!(target.arguments, ["-o", "User me", "a b", "$HOME", "*"]);
        let message = |text: &str| text.parse::<ProgramTarget>().unwrap_err().to_string();
        assert!(message("ssh 'host").contains("unbalanced quotes"));
        assert!(message("  ").contains("no program"));
    }

    #[test]
    fn a_byte_on_a_line_has_its_start_parity_and_stop_bits() {
        let MeasureTarget::Login(LoginTarget::Line(line)) =
            target("serial:/dev/ttyS0?bits=7&parity=even&stop=2")
        else {
            panic!("not a serial line")
        };
        assert_eq!((line.bits_per_byte(), line.rate_bps()), (11, Some(9_600)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_target_or_rejected_with_a_message_of_one_line(text: String) {
            if let Err(error) = text.parse::<MeasureTarget>() {
                let sentence = format!("{error:#}");
                prop_assert!(!sentence.contains('\n'));
            }
        }
    }
}
