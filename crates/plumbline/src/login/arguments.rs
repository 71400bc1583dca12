//! What can be asked of `plumb login`, and its help.

use super::destination::{Destination, Scheme};
use super::encoding::Encoding;
use super::painted::Emulation;
use super::predicted::Predict;
use super::settings::{Echo, Escape, Keys, LineEnd, Mode, Protocol, Settings, TlsUse};
use crate::carry::{self, Via};
use crate::terminal_filter::TerminalFilter;
use clap::ArgGroup;
use protocols::application::telnet::EndOfLine;
use protocols::time::Duration;
use std::path::PathBuf;

/// Arguments of `plumb login`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("end").args(["crlf", "cr_nul", "lf"]),
    group = ArgGroup::new("mode").args(["line", "char"]),
)]
pub(crate) struct Arguments {
    /// Where to: a host by name or address, a URL, or serial:DEVICE
    ///
    /// telnet://host:port is Telnet, telnets://host (port 992) Telnet in TLS, tcp://host:port plain
    /// bytes. serial:/dev/ttyUSB0?baud=9600&bits=8&parity=none&stop=1&flow=none is a serial line
    /// here, and rfc2217://host:port?baud=9600 one behind a console server.
    #[arg(value_name = "HOST", verbatim_doc_comment)]
    pub(super) to: Destination,
    /// The port, if it does not stand with the host [default: 23]
    #[arg(value_parser = carry::parse_port)]
    pub(super) port: Option<u16>,
    /// What carries the session: kernel, tun:NAME, tap:NAME, packet:INTERFACE or
    /// serial:DEVICE?baud=19200&link=llp
    ///
    /// All but kernel are our own TCP/IP, with IPv4 and IPv6, but for serial, which has IPv4.
    /// They take address=, our address, where the interface does not suggest it and nobody on
    /// the segment or the line tells it; one for each family may be said. tap and packet take
    /// router= beside it, and mac=. link is llp, slip, cslip or ppp. vj=1 compresses the
    /// headers of TCP on llp, if the other end does so too; vj=0 does not on ppp. PPP takes
    /// user=, who we are; the password is read from PLUMB_PPP_PASSWORD alone, because everyone
    /// on the machine can read the arguments of a program.
    #[arg(long, default_value = "kernel", verbatim_doc_comment)]
    pub(super) via: Via,
    /// The key that leads to the prompt: ^] unless you say another, as ^A or ~, or none
    #[arg(short, long, value_name = "KEY", default_value = "^]", hide_default_value = true)]
    pub(super) escape: Escape,
    /// What follows the escape key: a command line, or one of the letters of 1982
    ///
    /// The letters: a are you there, b break, c close, e send per character, E send per line,
    /// l local echo, r remote echo, s status, x send now, ? help; the escape key sends itself.
    #[arg(long, value_enum, default_value_t, verbatim_doc_comment)]
    pub(super) keys: Keys,
    /// How long the connection may take to open, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = carry::DEFAULT_TIMEOUT.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) timeout: u64,
    /// The terminal's name as the far side is told it [default: $TERM]
    #[arg(long, value_name = "NAME")]
    pub(super) terminal_type: Option<String>,
    /// Send whole lines, edited here (default: as the far side wants it)
    #[arg(long)]
    pub(super) line: bool,
    /// Send each character at once (default: as the far side wants it)
    #[arg(long)]
    pub(super) char: bool,
    /// Show what is typed here, even if the far side echoes; passwords too
    #[arg(long)]
    pub(super) local_echo: bool,
    /// Show keys before the far side has echoed them: where the echo is slow, always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(super) predict: Predict,
    /// Ask for all 256 values both ways (RFC 856), and change no end of line
    #[arg(long)]
    pub(super) binary: bool,
    /// Enter sends CR LF: the default per line
    #[arg(long)]
    pub(super) crlf: bool,
    /// Enter sends CR NUL: the default per character
    #[arg(long)]
    pub(super) cr_nul: bool,
    /// Enter sends LF
    #[arg(long)]
    pub(super) lf: bool,
    /// Offer and ask for nothing, only answer: for boards that speak no Telnet
    ///
    /// Without this, plumb begins the negotiation at port 23 and for telnet://.
    #[arg(long, verbatim_doc_comment)]
    pub(super) no_negotiation: bool,
    /// Refuse compression (MCCP): for a server whose compressed data is broken
    #[arg(long)]
    pub(super) no_compress: bool,
    #[command(flatten)]
    pub(super) family: carry::Family,
    /// Use TLS on a connection that begins in clear (START_TLS)
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub(super) tls: TlsUse,
    /// Trust the authorities of this file (PEM), and not the certificate of the first time
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Where the connection does not open, try again after so many seconds, until it does
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) retry: Option<u64>,
    /// The characters of the far side
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    pub(super) encoding: Encoding,
    /// Put a terminal of plumb's own between: a Heath-19, drawn on yours
    ///
    /// It tells the far side that it is an h19 of 80 by 24. f1 to f5 are its own, f6, f7 and f8 are
    /// blue, red and gray, f9 is ERASE, f10 SCROLL and f11 SCROLL with SHIFT; arrows, home, insert,
    /// delete, page up and page down (a line more and a line less) are those of its keypad.
    /// Where the screen is held, F10 releases a line and F11 a screen. heath19-strict treats the
    /// sequences ESC [ ? of modern programs as the ROM does: they hold the screen.
    #[arg(long, value_enum, default_value_t, value_name = "NAME", verbatim_doc_comment)]
    pub(super) terminal: Emulation,
    /// Keep the last row for the time of an echo, what limits it, and what was carried
    ///
    /// The screen is then drawn by plumb; what leaves it is not in the scrollback of yours.
    #[arg(long, verbatim_doc_comment)]
    pub(super) status_line: bool,
    /// Record the session to a new file, as asciicast 2; see plumb replay
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Record what is typed too, passwords as well
    #[arg(long, requires = "record")]
    pub(super) record_input: bool,
    /// Keep what the far side writes, as plain text, at the end of a file
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Put the time of day, in UTC, before each line of the log
    #[arg(long, requires = "log")]
    pub(super) log_times: bool,
    /// Show each command, option and subnegotiation of Telnet as it goes by
    #[arg(long)]
    pub(super) inspect: bool,
    #[command(flatten)]
    pub(super) terminal_filter: TerminalFilter,
    /// Do what this script says, instead of the keyboard; - is the standard input
    ///
    /// One statement a line: send "text\r", send break, expect /regex/ [timeout S], expect end,
    /// if /regex/ [timeout S] ... else ... end, timeout S, on failure exit N, set NAME "text",
    /// say "text", interact, exit N. Texts take \r \n \t \e \xHH and ${NAME}, and ${1} is what
    /// the first group of the last regex found; a dollar sign is \$. A regex sees lines that end by
    /// \n; one that does not match so is tried with the \r that the host sent. What does not come
    /// within 10 s, unless it is said otherwise, ends plumb with exit code 5.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub(super) script: Option<PathBuf>,
    /// Let the script see this variable of the environment, as ${NAME}; may be repeated
    #[arg(long, value_name = "NAME", requires = "script")]
    pub(super) env: Vec<String>,
    /// Do not show the meters to plumb meters
    #[arg(long)]
    pub(super) no_meters_socket: bool,
    /// Say when the connection opens and closes, in pipes too
    #[arg(short, long)]
    pub(super) verbose: bool,
}

/// What `plumb login --help` says first.
pub(crate) const ABOUT: &str = "\
Logs in to a host by Telnet, in TLS where the host has it, over the kernel's TCP/IP or over our \
own; to a host by TCP alone; or to a serial line, here or behind a console server.

What you type goes to the far side, ^C too. The escape key, ^] unless you choose another, leads \
to a prompt with commands: status shows the connection and where the time went, send ayt asks \
whether the far side is there, close ends the session, ? lists them all.

Where the host has several addresses, of IPv6 and of IPv4, the first that answers is taken; -4 and \
-6 ask for one family.

A server in TLS is known by its certificate: the SHA-256 of the first one is shown and kept in \
~/.local/state/plumb/known_hosts, and another one is refused. --ca FILE trusts authorities instead.

Where the standard input is a pipe or a file, it is sent, and at its end our half of the \
connection is closed; plumb then shows what comes until the far side closes too.";

const EXAMPLES: &str = "\
Examples:
  plumb login mit-multics
  plumb login telnet://192.0.2.6:2323
  plumb login telnets://bbs.example.org
  plumb login 'serial:/dev/ttyUSB0?baud=115200'
  plumb login 'rfc2217://console.example.org:2217?baud=9600'
  plumb login --retry 2 telnet://192.0.2.6:5001
  plumb login --record session.cast mit-multics
  PASSWORD=secret plumb login --env PASSWORD --script nightly.txt host
  plumb login --terminal heath19 mit-multics
  plumb login --encoding petscii tcp://bbs.example.org:6400
  plumb login --via tun:plumb0 10.0.0.1
  plumb login -6 --via 'tun:plumb0?address=2001:db8::2' 2001:db8::1
  plumb login --via 'serial:/dev/ttyUSB0?baud=19200&link=llp' 10.0.0.6
  plumb login --via 'serial:/dev/ttyUSB0?baud=115200&link=ppp&user=guest' 10.0.0.1
  printf 'plumb\\n' | plumb login host 7

A script:
  timeout 20
  expect /login: $/
  send \"mike\\r\"
  expect /[Pp]assword:/
  send \"${PASSWORD}\\r\"
  if /Last login: (.*)/ timeout 3
  say \"was here: ${1}\"
  end
  on failure exit 9
  expect /\\$ $/
  send \"exit\\r\"
  expect end

Exit codes: 0 the session was closed; 1 the far side cannot be reached, is unknown, refused, reset
or fell silent; 2 the arguments are wrong; 4 this machine refuses what is needed; 5 a script
did not see what it expected, or the number that it says.";

impl Arguments {
    /// Returns what the session at `to` is to be.
    pub(super) fn settings(&self, to: &Destination) -> Settings {
        let protocol = match to {
            Destination::Line { .. } => Protocol::Line,
            Destination::Host { scheme: Scheme::Tcp, .. } => Protocol::Tcp,
            Destination::Host { scheme: Scheme::ComPort(line), .. } => Protocol::ComPort(*line),
            Destination::Host { .. } => Protocol::Telnet,
        };
        let begins = match to {
            Destination::Host { target, scheme: Scheme::Unsaid } => {
                target.port == carry::TELNET_PORT
            }
            Destination::Host { scheme, .. } => *scheme != Scheme::Tcp,
            Destination::Line { .. } => false,
        };
        let terminal_type = match (&self.terminal_type, self.terminal) {
            (Some(name), _) => Some(name.clone()),
            (None, emulation) if emulation.is_heath19() => Some("h19".to_owned()),
            (None, _) => std::env::var("TERM").ok(),
        };
        let mode = match (self.line, self.char, self.terminal) {
            (true, _, _) => Mode::Line,
            // A Heath-19 edits no lines.
            (_, true, _) => Mode::Character,
            (_, _, emulation) if emulation.is_heath19() => Mode::Character,
            _ => Mode::Automatic,
        };
        Settings {
            mode,
            echo: if self.local_echo { Echo::Local } else { Echo::Automatic },
            line_end: LineEnd(match (self.crlf, self.cr_nul, self.lf) {
                (true, _, _) => Some(EndOfLine::CrLf),
                (_, true, _) => Some(EndOfLine::CrNul),
                (_, _, true) => Some(EndOfLine::Lf),
                _ => None,
            }),
            predict: self.predict,
            escape: self.escape,
            keys: self.keys,
            is_binary: self.binary,
            is_interactive: os::tty::is_stdin_terminal(),
            terminal_type: terminal_type.unwrap_or_else(|| "UNKNOWN".to_owned()),
            starts_negotiation: begins && !self.no_negotiation,
            refuses_compression: self.no_compress,
            protocol,
            // There is no TLS within TLS.
            tls: match to {
                Destination::Host { scheme: Scheme::Telnets | Scheme::Tcp, .. } => TlsUse::Never,
                _ => self.tls,
            },
            encoding: self.encoding,
            inspects: self.inspect,
            filter: os::tty::is_stdout_terminal().then(|| self.terminal_filter.policy()),
            emulation: self.terminal,
            has_status_line: self.status_line,
            timeout: Duration::from_secs(self.timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        login: Arguments,
    }

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Line::try_parse_from(std::iter::once("login").chain(line.split(' '))).map(|line| line.login)
    }

    fn settings(line: &str) -> Settings {
        let arguments = parse(line).unwrap();
        let to = arguments.to.clone().with_port(arguments.port).unwrap();
        arguments.settings(&to)
    }

    #[test]
    fn negotiation_begins_at_port_23_and_for_a_url_only() {
        assert!(settings("host").starts_negotiation);
        assert!(settings("telnet://host:2323").starts_negotiation);
        assert!(settings("telnets://host").starts_negotiation);
        assert!(!settings("host 2323").starts_negotiation);
        assert!(!settings("tcp://host:23").starts_negotiation);
        assert!(!settings("--no-negotiation host").starts_negotiation);
    }

    #[test]
    fn arguments_that_contradict_each_other_are_refused() {
        for line in [
            "--line --char h",
            "--crlf --lf h",
            "-4 -6 h",
            "--timeout 0 h",
            "h 0",
            "ssh://h",
            "--record-input h",
            "--encoding ebcdic h",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
