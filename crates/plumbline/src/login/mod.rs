//! `plumb login`: a person, or a pipe, at a host by Telnet.

mod command;
mod line;
mod near;
mod page;
mod predicted;
mod prompt;
mod screen;
mod session;
mod settings;
mod status;

use crate::carry::{self, Bench, Outcome, Target, Via};
use crate::exit::{self, Failure};
use anyhow::{Context, Result};
use clap::ArgGroup;
use near::Near;
use predicted::Predict;
use protocols::application::telnet::EndOfLine;
use protocols::time::Duration;
use records::figures::count;
use session::{Login, Stage};
use settings::{Echo, Escape, Keys, LineEnd, Mode, Settings};
use std::net::SocketAddr;

/// Arguments of `plumb login`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("end").args(["crlf", "cr_nul", "lf"]),
    group = ArgGroup::new("mode").args(["line", "char"]),
)]
pub(crate) struct Arguments {
    /// The host: a name, an address, or telnet://host:port
    #[arg(value_name = "HOST", value_parser = parse_host)]
    host: Host,
    /// The port, if it does not stand with the host [default: 23]
    #[arg(value_parser = carry::parse_port)]
    port: Option<u16>,
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
    via: Via,
    /// The key that leads to the prompt: ^] unless you say another, as ^A or ~, or none
    #[arg(short, long, value_name = "KEY", default_value = "^]", hide_default_value = true)]
    escape: Escape,
    /// What follows the escape key: a command line, or one of the letters of 1982
    ///
    /// The letters: a are you there, b break, c close, e send per character, E send per line,
    /// l local echo, r remote echo, s status, x send now, ? help; the escape key sends itself.
    #[arg(long, value_enum, default_value_t, verbatim_doc_comment)]
    keys: Keys,
    /// How long the connection may take to open, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = carry::DEFAULT_TIMEOUT.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// The terminal's name as the far side is told it [default: $TERM]
    #[arg(long, value_name = "NAME")]
    terminal_type: Option<String>,
    /// Send whole lines, edited here (default: as the far side wants it)
    #[arg(long)]
    line: bool,
    /// Send each character at once (default: as the far side wants it)
    #[arg(long)]
    char: bool,
    /// Show what is typed here, even if the far side echoes
    #[arg(long)]
    local_echo: bool,
    /// Show keys before the far side has echoed them: where the echo is slow, always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    predict: Predict,
    /// Ask for all 256 values both ways (RFC 856), and change no end of line
    #[arg(long)]
    binary: bool,
    /// Enter sends CR LF: the default per line
    #[arg(long)]
    crlf: bool,
    /// Enter sends CR NUL: the default per character
    #[arg(long)]
    cr_nul: bool,
    /// Enter sends LF
    #[arg(long)]
    lf: bool,
    /// Offer and ask for nothing, only answer: for boards that speak no Telnet
    ///
    /// Without this, plumb begins the negotiation at port 23 and for telnet://.
    #[arg(long, verbatim_doc_comment)]
    no_negotiation: bool,
    #[command(flatten)]
    family: carry::Family,
    /// Say when the connection opens and closes, in pipes too
    #[arg(short, long)]
    verbose: bool,
}

/// What `plumb login --help` says first.
pub(crate) const ABOUT: &str = "\
Logs in to a host by Telnet, over the kernel's TCP/IP or over our own.

What you type goes to the far side, ^C too. The escape key, ^] unless you choose another, leads \
to a prompt with commands: status shows the connection and where the time went, send ayt asks \
whether the far side is there, close ends the session, ? lists them all.

Where the host has several addresses, of IPv6 and of IPv4, the first that answers is taken; -4 and \
-6 ask for one family.

Where the standard input is a pipe or a file, it is sent, and at its end our half of the \
connection is closed; plumb then shows what comes until the far side closes too.";

const EXAMPLES: &str = "\
Examples:
  plumb login mit-multics
  plumb login telnet://192.0.2.6:2323
  plumb login --via tun:plumb0 10.0.0.1
  plumb login -6 --via 'tun:plumb0?address=2001:db8::2' 2001:db8::1
  plumb login --via 'serial:/dev/ttyUSB0?baud=19200&link=llp' 10.0.0.6
  plumb login --via 'serial:/dev/ttyUSB0?baud=115200&link=ppp&user=guest' 10.0.0.1
  printf 'plumb\\n' | plumb login host 7

Exit codes: 0 the session was closed; 1 the far side cannot be reached, is unknown, refused, reset
or fell silent; 2 the arguments are wrong; 4 this machine refuses what is needed.";

/// A host as it was typed.
#[derive(Clone, Debug)]
struct Host {
    target: Target,
    /// Whether it was called by telnet://, so that there is Telnet at any port.
    is_url: bool,
}

fn parse_host(text: &str) -> Result<Host> {
    Ok(Host { target: text.parse()?, is_url: text.starts_with("telnet://") })
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let target = Target {
        port: arguments.port.unwrap_or(arguments.host.target.port),
        ..arguments.host.target.clone()
    };
    try_run(arguments, &target).unwrap_or_else(|error| {
        exit::complain(&error);
        Err(Failure::ThisMachine)
    })
}

/// Calls the target, and carries the session with the first of its addresses that answers.
fn try_run(arguments: &Arguments, target: &Target) -> Result<exit::Result> {
    // A signal ends plumb here: the terminal is still as it was found.
    let addresses = match carry::addresses(target, arguments.family, &arguments.via, None)? {
        Ok(addresses) => addresses,
        Err(why) => return Ok(Err(exit::far_side(why.to_string()))),
    };
    let settings = settings(arguments, target);
    let is_talkative = settings.is_interactive || arguments.verbose;
    let near = Near::new(settings.is_interactive).context("the window cannot be watched")?;
    let mut bench = Bench::new(carry::is_metered())?;
    let mut login = Login::new(settings, near, describe(target, &arguments.via));
    if is_talkative {
        let (target, via) = (target.clone(), arguments.via.clone());
        login.greet_with(Box::new(move |address| describe(&named(&target, address), &via)));
    }
    let timeout = Duration::from_secs(arguments.timeout);
    let call = carry::run(login, &arguments.via, &addresses, timeout, &mut bench)?;
    let (mut login, outcome) = (call.session, call.outcome);
    login.end_prediction(&mut bench.cx());
    login.near.leave_raw();
    if login.screen.is_in_line() && is_talkative {
        say("");
    }
    let was_open = login.stage != Stage::Opening;
    let others = addresses.len().saturating_sub(1);
    if let Some(why) = outcome.failure(was_open, call.address, others, arguments.timeout) {
        return Ok(Err(exit::far_side(why)));
    }
    if is_talkative && login.stage != Stage::Unread {
        say(&farewell(outcome, &login, &bench));
    }
    Ok(Ok(()))
}

fn settings(arguments: &Arguments, target: &Target) -> Settings {
    let is_telnet = arguments.host.is_url || target.port == carry::TELNET_PORT;
    let terminal_type = arguments.terminal_type.clone().or_else(|| std::env::var("TERM").ok());
    Settings {
        mode: match (arguments.line, arguments.char) {
            (true, _) => Mode::Line,
            (_, true) => Mode::Character,
            _ => Mode::Automatic,
        },
        echo: if arguments.local_echo { Echo::Local } else { Echo::Automatic },
        line_end: LineEnd(match (arguments.crlf, arguments.cr_nul, arguments.lf) {
            (true, _, _) => Some(EndOfLine::CrLf),
            (_, true, _) => Some(EndOfLine::CrNul),
            (_, _, true) => Some(EndOfLine::Lf),
            _ => None,
        }),
        predict: arguments.predict,
        escape: arguments.escape,
        keys: arguments.keys,
        is_binary: arguments.binary,
        is_interactive: os::tty::is_stdin_terminal(),
        terminal_type: terminal_type.unwrap_or_else(|| "UNKNOWN".to_owned()),
        starts_negotiation: is_telnet && !arguments.no_negotiation,
    }
}

/// Returns `host (192.0.2.6) port 23 by our own TCP/IP on tun:plumb0`.
fn describe(target: &Target, via: &Via) -> String {
    match via {
        Via::Kernel => format!("{target} by the kernel's TCP/IP"),
        Via::Tun { .. } | Via::Segment(_) | Via::Serial { .. } => {
            format!("{target} by our own TCP/IP on {via}")
        }
    }
}

/// Returns the target with its address beside its name, where these differ.
fn named(target: &Target, address: SocketAddr) -> Target {
    let ip = address.ip().to_string();
    let host = if ip == target.host { ip } else { format!("{} ({ip})", target.host) };
    Target { host, port: target.port }
}

/// Returns who closed, after what time, and what was carried.
fn farewell(outcome: Outcome, login: &Login, bench: &Bench) -> String {
    let traffic = login.traffic;
    let now = bench.clock.now();
    let open = traffic.opened_at.map_or(Duration::ZERO, |opened_at| now - opened_at);
    let who = if outcome == Outcome::Left { "here" } else { "by the far side" };
    format!(
        "Connection closed {who} after {}: {} bytes received, {} sent.",
        status::shown(open),
        count(traffic.bytes_in),
        count(traffic.bytes_out)
    )
}

/// Says a sentence on stderr.
fn say(sentence: &str) {
    use std::io::Write;
    // Where stderr is closed there is nobody to tell.
    _ = std::io::stderr().write_all(format!("{sentence}\n").as_bytes());
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

    #[test]
    fn a_port_that_stands_alone_wins() {
        assert_eq!(parse("host 2323").unwrap().port, Some(2323));
        assert_eq!(parse("telnet://host:24").unwrap().host.target.port, 24);
    }

    #[test]
    fn negotiation_begins_at_port_23_and_for_a_url_only() {
        let starts = |line| {
            let arguments = parse(line).unwrap();
            let port = arguments.port.unwrap_or(arguments.host.target.port);
            let target = Target { host: "host".to_owned(), port };
            settings(&arguments, &target).starts_negotiation
        };
        assert!(starts("host"));
        assert!(starts("telnet://host:2323"));
        assert!(!starts("host 2323"));
        assert!(!starts("--no-negotiation host"));
    }

    #[test]
    fn arguments_that_contradict_each_other_are_refused() {
        for line in
            ["--line --char h", "--crlf --lf h", "-4 -6 h", "--timeout 0 h", "h 0", "ssh://h"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
