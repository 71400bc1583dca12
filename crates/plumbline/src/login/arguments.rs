//! Arguments of `plumb login` and its help.

use super::emulated_terminal::Emulation;
use super::saved_login::TypedLogin;
use super::session_settings::{
    Echo, Escape, LineEnd, LoginProtocol, LoginSettings, Mode, Predict, PromptStyle, TlsUse,
};
use crate::address_families::AddressFamilyOptions;
use crate::heading;
use crate::manual::entries::{
    CONFIGURATION, CONFIGURATION_VARIABLE, KNOWN_HOSTS, LOGIN_VARIABLES, METERS, TERMINAL_VARIABLES,
};
use crate::manual::{ManualNote, ManualPage};
use crate::record_options::RecordOptions;
use crate::terminal_filter::TerminalFilter;
use anyhow::Context;
use carrier::{self, Route, host_configuration};
use carrier::{Destination, LoginScheme};
use clap::ArgGroup;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use net::time::Duration;
use protocols::telnet::EndOfLine;
use protocols::terminal::encoding::Encoding;
use std::ffi::OsString;
use std::path::PathBuf;
use transfer::modem::{DownloadPolicy, TransferRecords, parse_limit};

/// Manual page of `plumb login`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "login",
    examples: &[
        "plumb login mit-multics",
        "plumb login 'serial:/dev/ttyUSB0?baud=115200'",
        "plumb login -p 2323 --download-directory ~/Downloads ann@bbs.example.org",
        "plumb login --via 'tun:plumb0?address=10.0.0.2' 10.0.0.1",
        "PASSWORD=secret plumb login --env PASSWORD --script nightly.txt host",
    ],
    notes: &[
        ManualNote::Code(
            "Hosts in config.toml",
            "toml",
            "[host.router]\n\
         target = \"rfc2217://console.example.net:7001?baud=9600\"\n\
         [host.\"bbs.example.org\"]\n\
         login = [\"--encoding\", \"cp437\", \"--user\", \"ann\"]",
        ),
        ManualNote::Code(
            "Script",
            "text",
            "timeout 20\n\
         expect /login: $/\n\
         send \"mike\\r\"\n\
         expect /[Pp]assword:/\n\
         send \"${PASSWORD}\\r\"\n\
         if /Last login: (.*)/ timeout 3\n\
         say \"was here: ${1}\"\n\
         end\n\
         on failure exit 9\n\
         expect /\\$ $/\n\
         send \"exit\\r\"\n\
         expect end",
        ),
    ],
    exit_status: &[
        (0, "The session was closed"),
        (1, "Remote host unknown, unreachable, refused or reset the connection, or timed out"),
        (2, "Invalid arguments"),
        (4, "Local error, such as permission denied"),
        (5, "A script timed out waiting for a match; a script can set another code"),
        (130, "Interrupted in a file transfer (SIGINT); 143 after SIGTERM, 129 after SIGHUP"),
    ],
    environment: &[LOGIN_VARIABLES, TERMINAL_VARIABLES, CONFIGURATION_VARIABLE],
    files: &[
        CONFIGURATION,
        KNOWN_HOSTS,
        METERS,
        &[("/etc/machine-id", "Machine ID from which tap and packet derive their addresses")],
    ],
    see_also: &["replay", "measure", "meters", "serve"],
};

/// Arguments of `plumb login`.
#[derive(Debug, clap::Args)]
#[command(
    args_override_self = true,
    group = ArgGroup::new("end").args(["crlf", "cr_nul", "lf"]),
    group = ArgGroup::new("mode").args(["line", "char"]),
)]
pub(crate) struct Arguments {
    /// Destination: a host by name or address, a URL, or serial:DEVICE
    ///
    /// telnet://host:port uses Telnet. telnets://host uses Telnet with TLS, at port 992.
    /// tcp://host:port sends plain bytes. A serial line of this machine is
    /// serial:/dev/ttyUSB0?baud=9600&bits=8&parity=none&stop=1&flow=none. A serial line of a
    /// console server is rfc2217://host:port?baud=9600. In a shell, quote a destination that
    /// contains ? or &.
    #[arg(value_name = "host", required_unless_present_any = ["list", "remove"])]
    destination: Option<Destination>,
    /// Port, if not part of the host [default: 23]
    #[arg(value_name = "port", value_parser = carrier::parse_port)]
    pub(super) port: Option<u16>,
    /// Port, like the argument
    #[arg(short, long = "port", short_alias = 'P', value_name = "port", conflicts_with = "port",
          value_parser = carrier::parse_port, help_heading = heading::CONNECTION)]
    port_option: Option<u16>,
    /// User name, sent by NEW-ENVIRON (RFC 1572) if the server requests it; as in user@host
    #[arg(short = 'l', long, value_name = "name", help_heading = heading::TELNET)]
    user: Option<String>,

    /// Save the host with these options under this name in config.toml, and do not connect
    ///
    /// plumb login NAME then uses them; options of the command line override saved ones. With
    /// --replace, a saved host of this name is replaced.
    #[arg(long, value_name = "name", conflicts_with = "list",
          help_heading = heading::CONNECTION)]
    pub(crate) save: Option<String>,
    /// With --save, replace the saved host of this name
    #[arg(long, requires = "save", help_heading = heading::CONNECTION)]
    pub(super) replace: bool,
    /// Remove the saved host of this name from config.toml, and do not connect
    #[arg(long, value_name = "name", exclusive = true, help_heading = heading::CONNECTION)]
    pub(super) remove: Option<String>,
    /// List the saved hosts: name, host and options
    #[arg(long, exclusive = true, help_heading = heading::CONNECTION)]
    pub(crate) list: bool,
    /// Host and options as typed, to be saved.
    #[arg(skip)]
    pub(crate) typed: TypedLogin,

    /// Route: kernel, tun:NAME, tap:NAME, packet:INTERFACE or serial:DEVICE [default: kernel]
    ///
    /// All routes except kernel use plumb's own TCP/IP. They carry IPv4 and IPv6; serial carries
    /// IPv4 only. Example: serial:/dev/ttyUSB0?baud=19200&link=llp. address= sets the local address
    /// if the interface, the network segment or the serial line does not provide one. Each address
    /// family may have one address: tun:plumb0?address=10.0.0.2&address=2001:db8::2. tap and packet
    /// also accept router= and mac=. link= is llp, slip, cslip or ppp. vj=1 compresses TCP headers
    /// on llp; the peer must compress them too. vj=0 disables this compression on ppp. For PPP,
    /// user= is the user name. The password is read only from PLUMB_PPP_PASSWORD, because every
    /// user of the machine can read the arguments of a program.
    #[arg(long, value_name = "route", default_value = "kernel", hide_default_value = true,
          help_heading = heading::CONNECTION)]
    pub(super) via: Route,
    #[command(flatten)]
    pub(super) family: AddressFamilyOptions,
    /// Timeout for opening the connection, in seconds
    #[arg(long, value_name = "seconds", default_value_t = carrier::DEFAULT_TIMEOUT.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400),
          help_heading = heading::CONNECTION)]
    pub(super) timeout: u64,
    /// If the connection does not open, try again after this many seconds, until it opens
    /// [default: one try]
    #[arg(long = "retry-every", alias = "retry", value_name = "seconds",
          value_parser = clap::value_parser!(u64).range(1..=86_400),
          help_heading = heading::CONNECTION)]
    pub(super) retry: Option<u64>,

    /// Use TLS on a connection that starts in cleartext (START_TLS)
    #[arg(long, value_enum, default_value_t, value_name = "never|auto|always",
          help_heading = heading::TLS)]
    pub(super) tls: TlsUse,
    /// Trust the certificate authorities in this file (PEM) instead of the first certificate seen
    #[arg(long, value_name = "file", help_heading = heading::TLS)]
    pub(super) ca: Option<PathBuf>,

    /// Terminal type reported to the remote host [default: $TERM, or h19 with --terminal heath19]
    #[arg(long, value_name = "name", help_heading = heading::TELNET)]
    pub(super) terminal_type: Option<String>,
    /// Request all 256 byte values in both directions (RFC 856), and convert no line ends
    #[arg(long, help_heading = heading::TELNET)]
    pub(super) binary: bool,
    /// Do not start the negotiation, only answer: for bulletin boards without Telnet
    ///
    /// By default plumb starts the negotiation at port 23 and for telnet://.
    #[arg(long, help_heading = heading::TELNET)]
    pub(super) no_negotiation: bool,
    /// Refuse compression (MCCP): for a server whose compressed data is broken
    #[arg(long, help_heading = heading::TELNET)]
    pub(super) no_compress: bool,
    /// Print each Telnet command, option and subnegotiation as it is sent or received
    #[arg(long, help_heading = heading::TELNET)]
    pub(super) inspect: bool,

    /// Key that opens the prompt, for example ^A or ~, or none; ^] by default
    #[arg(short, long, value_name = "key", default_value = "^]", hide_default_value = true,
          help_heading = heading::INPUT)]
    pub(super) escape: Escape,
    /// Meaning of the keys after the escape key: a command line, or a single letter as in 1982
    ///
    /// The letters: a are you there, b break, c close, e send per character, E send per line,
    /// l local echo, r remote echo, s status, x send now, ? help; the escape key sends itself.
    #[arg(long = "escape-keys", alias = "keys", value_enum, value_name = "prompt|1982",
          default_value_t, help_heading = heading::INPUT)]
    pub(super) keys: PromptStyle,
    /// Send whole lines, edited locally [default: as the remote host requests]
    #[arg(long, help_heading = heading::INPUT)]
    pub(super) line: bool,
    /// Send each character at once [default: as the remote host requests]
    #[arg(long, help_heading = heading::INPUT)]
    pub(super) char: bool,
    /// Echo typed text locally, even if the remote host echoes; including passwords
    #[arg(long, help_heading = heading::INPUT)]
    pub(super) local_echo: bool,
    /// When to predict the echo of typed keys
    #[arg(long, value_enum, value_name = "never|auto|always", default_value_t,
          help_heading = heading::INPUT)]
    pub(super) predict: Predict,
    /// Enter sends CR LF: the default in line mode
    #[arg(long, help_heading = heading::INPUT)]
    pub(super) crlf: bool,
    /// Enter sends CR NUL: the default in character mode
    #[arg(long, help_heading = heading::INPUT)]
    pub(super) cr_nul: bool,
    /// Enter sends LF
    #[arg(long, help_heading = heading::INPUT)]
    pub(super) lf: bool,

    /// Character set of the remote host: utf-8, latin1, cp437, petscii or atascii
    #[arg(long, value_parser = encoding_parser(), default_value = "utf-8", value_name = "name",
          hide_possible_values = true, help_heading = heading::TERMINAL)]
    pub(super) encoding: Encoding,
    /// Emulate a terminal on the local terminal: none, heath19 or heath19-strict
    ///
    /// The terminal type is h19 with 80 by 24 characters. f1 to f5 are the keys f1 to f5 of the
    /// Heath-19. f6, f7 and f8 are its blue, red and gray keys. f9 is ERASE, f10 is SCROLL and f11
    /// is SCROLL with SHIFT. The arrows, home, insert, delete, page up (insert line) and page down
    /// (delete line) are the editing functions of its keypad. If the screen is held, f10 releases a
    /// line and f11 a screen. The sequences ESC [ ? of modern programs are ignored. With
    /// heath19-strict they hold the screen, as with the original ROM.
    #[arg(long, value_enum, default_value_t, value_name = "name", hide_possible_values = true,
          help_heading = heading::TERMINAL)]
    pub(super) terminal: Emulation,
    /// Reserve the last row for the echo time, the limiting factor and the traffic
    ///
    /// plumb then draws the screen; text that scrolls off is not in your terminal's scrollback.
    #[arg(long, help_heading = heading::TERMINAL)]
    pub(super) status_line: bool,
    #[command(flatten)]
    pub(super) terminal_filter: TerminalFilter,

    /// Do not start a download when the remote host sends files by ZMODEM
    ///
    /// By default, sz on the remote host starts a download, and rz opens the prompt, where send FILE
    /// sends files. ^C cancels a transfer. The prompt commands send and receive also start transfers
    /// by YMODEM and XMODEM.
    #[arg(long, help_heading = heading::TRANSFER)]
    pub(super) no_zmodem: bool,
    /// Directory of received files [default: .]
    ///
    /// A file is written to name.part until it is complete. An existing file is never replaced: the
    /// new file gets a number.
    #[arg(long, value_name = "directory", help_heading = heading::TRANSFER)]
    pub(super) download_directory: Option<PathBuf>,
    /// Limit for the bytes that a session receives as files
    #[arg(long, value_name = "size", default_value = "1G", value_parser = parse_limit,
          help_heading = heading::TRANSFER)]
    pub(super) download_limit: u64,
    #[command(flatten)]
    record_options: RecordOptions,

    /// Run this script instead of reading the keyboard; - is the standard input
    ///
    /// One statement per line: send "text\r", send break, send file "path" [by ymodem],
    /// receive [by ymodem], receive file "name" by xmodem, expect /regex/ [timeout S], expect end,
    /// if /regex/ [timeout S] ... else ... end, timeout S, on failure exit N, set NAME "text",
    /// say "text", interact, exit N. Texts may contain \r \n \t \e \xHH and ${NAME}; ${1} is the
    /// first group of the last match; \$ is a dollar sign. A regex is matched against lines that
    /// end with \n; if it does not match, it is tried with the \r that the host sent. By default
    /// an expect times out after 10 s, and a timeout ends plumb with exit code 5.
    #[arg(long, value_name = "file", help_heading = heading::SCRIPT)]
    pub(super) script: Option<PathBuf>,
    /// Make this environment variable available to the script as ${NAME}; may be repeated
    #[arg(long, value_name = "name", requires = "script", help_heading = heading::SCRIPT)]
    pub(super) env: Vec<String>,

    /// Record the session to a new file, as asciicast 2; see plumb replay
    #[arg(long, value_name = "file", help_heading = heading::RECORDS)]
    pub(super) record: Option<PathBuf>,
    /// Record typed keys too, including passwords
    #[arg(long, requires = "record", help_heading = heading::RECORDS)]
    pub(super) record_input: bool,
    /// Append the output of the remote host to a file, as plain text
    #[arg(long, value_name = "file", help_heading = heading::RECORDS)]
    pub(super) log: Option<PathBuf>,
    /// Start each line of the log with the time of day in UTC
    #[arg(long, requires = "log", help_heading = heading::RECORDS)]
    pub(super) log_times: bool,

    /// Do not publish the meters to plumb meters
    #[arg(long, help_heading = heading::METERS)]
    pub(super) no_meters_socket: bool,

    /// Report the opening and closing of the connection, even in pipes
    #[arg(short, long, help_heading = heading::OUTPUT)]
    pub(super) verbose: bool,
}

/// Introduction of `plumb login --help`.
pub(crate) const ABOUT: &str = "\
Log in to a host by Telnet, with TLS if the host supports it, over the kernel's TCP/IP or plumb's \
own; to a host by plain TCP; or to a serial line, local or behind a console server.

Typed keys, including ^C, are sent to the remote host. The escape key (default ^]) opens a prompt \
with commands: status shows the connection and the time by layer, send ayt tests whether the \
remote host responds, close ends the session, ? lists all commands.

If the host has several IPv6 and IPv4 addresses, plumb connects to the first that answers; -4 and \
-6 select one family.

A TLS server is identified by its certificate: at the first connection its SHA-256 is shown and \
saved in ~/.local/state/plumb/known_hosts, and a different one is refused later. With --ca FILE, \
the certificate is verified against certificate authorities instead.

docs/tutorials/bulletin-boards.md describes logins to bulletin boards: character sets, transfers of \
files by XMODEM, YMODEM and ZMODEM, and saved hosts.

If the standard input is a pipe or a file, it is sent, and at its end the sending half of the \
connection is closed; plumb then shows the output until the remote host closes the connection.";

/// Returns the parser of `--encoding`, which lists the names in its errors.
fn encoding_parser() -> impl TypedValueParser<Value = Encoding> {
    PossibleValuesParser::new(Encoding::NAMED.map(|(name, _)| name))
        .map(|name| Encoding::from_name(&name).unwrap_or_default())
}

impl Arguments {
    /// Returns the destination and the options that the user's configuration has for the host.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration cannot be read or is invalid.
    pub(crate) fn configured_host(&self) -> anyhow::Result<Option<(Destination, Vec<OsString>)>> {
        let Some(typed) = self.destination.as_ref().filter(|_| self.save.is_none()) else {
            return Ok(None);
        };
        let Destination::Host { target, scheme: LoginScheme::Unspecified, user } = typed else {
            return Ok(None);
        };
        host_configuration::evaluate(|file| {
            let Some(table) = file.host(&target.host) else { return Ok(None) };
            let options = table.login.iter().map(OsString::from).collect();
            let Some(configured) = &table.target else {
                return Ok(Some((typed.clone(), options)));
            };
            let configured = configured.parse::<Destination>();
            let mut destination = configured.with_context(|| format!("[host.{}]", target.host))?;
            if let Destination::Host { user: configured_user, target: place, .. } = &mut destination
            {
                *configured_user = user.clone().or(configured_user.take());
                if target.port != carrier::TELNET_PORT {
                    place.port = target.port;
                }
            }
            Ok(Some((destination, options)))
        })
    }

    /// Replaces the destination.
    pub(crate) fn set_destination(&mut self, destination: Destination) {
        self.destination = Some(destination);
    }

    /// Returns the destination, with the port and the user name of the options.
    ///
    /// # Errors
    ///
    /// Returns an error if the options do not apply to the destination.
    pub(super) fn destination(&self) -> anyhow::Result<Destination> {
        let port = self.port.or(self.port_option);
        let destination = self.destination.clone().context("the host is missing")?;
        let mut destination = destination.with_port(port)?;
        let uses_telnet = !matches!(
            destination,
            Destination::Serial { .. } | Destination::Host { scheme: LoginScheme::Tcp, .. }
        );
        match &mut destination {
            Destination::Host { user, .. } if self.user.is_some() => user.clone_from(&self.user),
            _ => {}
        }
        let has_user = matches!(&destination, Destination::Host { user: Some(_), .. });
        if !uses_telnet && (has_user || self.user.is_some()) {
            anyhow::bail!("a user name can be sent only by Telnet: omit it");
        }
        Ok(destination)
    }

    fn transfer_records(&self, destination: &Destination) -> TransferRecords {
        TransferRecords {
            is_wanted: !self.record_options.no_record,
            remote_name: match destination {
                Destination::Host { target, .. } => target.host.clone(),
                Destination::Serial { device, .. } => device.display().to_string(),
            },
            is_userspace: self.via != Route::Kernel,
        }
    }

    /// Returns the mode, which depends on the emulated terminal by default.
    fn mode(&self) -> Mode {
        match (self.line, self.char, self.terminal) {
            (true, _, _) => Mode::Line,
            // A Heath-19 has no line editing.
            (_, true, _) => Mode::Character,
            (_, _, emulation) if emulation.is_heath19() => Mode::Character,
            _ => Mode::Automatic,
        }
    }

    /// Returns the session settings for `destination`.
    pub(super) fn settings(&self, destination: &Destination) -> LoginSettings {
        let protocol = match destination {
            Destination::Serial { .. } => LoginProtocol::Serial,
            Destination::Host { scheme: LoginScheme::Tcp, .. } => LoginProtocol::Tcp,
            Destination::Host { scheme: LoginScheme::ComPort(line), .. } => {
                LoginProtocol::ComPort(*line)
            }
            Destination::Host { .. } => LoginProtocol::Telnet,
        };
        let begins = match destination {
            Destination::Host { target, scheme: LoginScheme::Unspecified, .. } => {
                target.port == carrier::TELNET_PORT
            }
            Destination::Host { scheme, .. } => *scheme != LoginScheme::Tcp,
            Destination::Serial { .. } => false,
        };
        let user = match destination {
            Destination::Host { user, .. } => user.clone(),
            Destination::Serial { .. } => None,
        };
        let terminal_type = match (&self.terminal_type, self.terminal) {
            (Some(name), _) => Some(name.clone()),
            (None, emulation) if emulation.is_heath19() => Some("h19".to_owned()),
            (None, _) => std::env::var("TERM").ok(),
        };
        LoginSettings {
            mode: self.mode(),
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
            user,
            // No START_TLS within TLS.
            tls: match destination {
                Destination::Host { scheme: LoginScheme::Telnets | LoginScheme::Tcp, .. } => {
                    TlsUse::Never
                }
                _ => self.tls,
            },
            encoding: self.encoding,
            inspects: self.inspect,
            filter: os::tty::is_stdout_terminal().then(|| self.terminal_filter.policy()),
            emulation: self.terminal,
            has_status_line: self.status_line,
            // A pipe receives the output unchanged.
            starts_zmodem: !self.no_zmodem
                && (os::tty::is_stdin_terminal() || self.script.is_some()),
            downloads: DownloadPolicy::new(
                self.download_directory.clone().unwrap_or_else(|| PathBuf::from(".")),
                self.download_limit,
            ),
            transfer_records: self.transfer_records(destination),
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

    fn settings(line: &str) -> LoginSettings {
        let arguments = parse(line).unwrap();
        arguments.settings(&arguments.destination().unwrap())
    }

    #[test]
    fn negotiation_starts_only_at_port_23_and_for_a_telnet_url() {
        assert!(settings("host").starts_negotiation);
        assert!(settings("telnet://host:2323").starts_negotiation);
        assert!(settings("telnets://host").starts_negotiation);
        assert!(!settings("host 2323").starts_negotiation);
        assert!(!settings("tcp://host:23").starts_negotiation);
        assert!(!settings("--no-negotiation host").starts_negotiation);
    }

    #[test]
    fn the_port_and_the_user_may_be_options_or_part_of_the_destination() {
        for line in ["ann@host 2323", "-l ann -p 2323 host", "-P 2323 --user ann bob@host:23"] {
            let Destination::Host { target, user, .. } =
                parse(line).unwrap().destination().unwrap()
            else {
                panic!("{line} is a host");
            };
            assert_eq!((target.port, user.as_deref()), (2323, Some("ann")), "{line}");
        }
        assert!(parse("-p 23 host 23").is_err());
        for line in ["-l ann tcp://host:23", "ann@host", "-l ann serial:/dev/ttyS0"] {
            let has_error = parse(line).unwrap().destination().is_err();
            assert_eq!(has_error, line != "ann@host", "{line}");
        }
    }

    #[test]
    fn earlier_spellings_are_still_accepted() {
        for line in ["--retry 2 --keys 1982 h", "--retry-every 2 --escape-keys 1982 h"] {
            let arguments = parse(line).unwrap();
            assert_eq!(
                (arguments.retry, arguments.keys),
                (Some(2), PromptStyle::Letters),
                "{line}"
            );
        }
        for (line, tls) in [("--tls offered h", TlsUse::Auto), ("--tls always h", TlsUse::Always)] {
            assert_eq!(settings(line).tls, tls, "{line}");
        }
        assert_eq!(settings("h").tls, TlsUse::Auto);
    }

    #[test]
    fn contradictory_arguments_are_rejected() {
        for line in [
            "--line --char h",
            "--crlf --lf h",
            "-4 -6 h",
            "--timeout 0 h",
            "h 0",
            "ssh://h",
            "--record-input h",
            "--encoding ebcdic h",
            "--tls sometimes h",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
