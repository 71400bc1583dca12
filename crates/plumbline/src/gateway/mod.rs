//! `plumb gateway`: arguments and messages. The gateway is in the crate `gateway-host`.

mod help;
mod routed;

pub(crate) use help::{ABOUT, PAGE};

use crate::exit::{self, Failure};
use crate::heading;
use gateway_host::bit_rate;
use gateway_host::forwards::Forward;
use gateway_host::gateway_program::{self, Program, ProgramEvent, ProgramSettings};
use gateway_host::guest_target::GuestTarget;
use gateway_host::invocation::{ExitText, Invocation, ProgramName};
use gateway_host::pasta::{self, PastaMode, PastaProgram};
use gateway_host::published_port;
use gateway_host::slirp4netns::{self, SlirpProgram};
use ipnet::IpNet;
use routed::RoutedArguments;
use std::ffi::OsString;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use transfer::termination;

/// Command-line arguments.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Guests: netns:NAME, pid:PROCESS, qemu:SOCKET or serial:DEVICE?baud=19200&link=slip
    #[arg(required = true, value_name = "guest")]
    guests: Vec<String>,
    /// Forward this port or range of ports of the host to the first guest; may be repeated. Without
    /// an address, the port listens at 127.0.0.1. 8000-8009:80 leads to ports 80 to 89 of the guest
    #[arg(short, long, value_name = "[address:]port[-last][:guest-port][/udp]",
          value_parser = published_port::parse, help_heading = heading::CONNECTION)]
    publish: Vec<Forward>,
    /// Do not configure the interfaces in namespaces
    #[arg(long, help_heading = heading::CONNECTION)]
    no_configure: bool,
    /// Carry IPv4 only
    #[arg(long, help_heading = heading::CONNECTION)]
    no_ipv6: bool,
    /// Create this control socket
    #[arg(long, value_name = "socket", help_heading = heading::CONNECTION)]
    control: Option<PathBuf>,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics; a port alone means 127.0.0.1
    #[arg(long, value_name = "address:port", value_parser = server::parse_metrics_address,
          help_heading = heading::CONNECTION)]
    metrics: Option<SocketAddr>,
    /// Accept this host name in requests for metrics, besides this machine's name and addresses;
    /// may be repeated
    #[arg(long, value_name = "name", requires = "metrics", help_heading = heading::CONNECTION)]
    metrics_host: Vec<String>,
    /// Permit this destination or prefix, such as a private network; may be repeated. The longest
    /// prefix decides, so that 0.0.0.0/0 permits no private network
    #[arg(long, value_name = "prefix", value_parser = parse_prefix, help_heading = heading::LIMITS)]
    allow: Vec<IpNet>,
    /// Refuse this destination or prefix; may be repeated
    #[arg(long, value_name = "prefix", value_parser = parse_prefix, help_heading = heading::LIMITS)]
    deny: Vec<IpNet>,
    /// Limit the packets to each guest to this rate, in the units of tc: 10mbit, 128kbit
    #[arg(long, value_name = "rate", value_parser = bit_rate::parse,
          help_heading = heading::LIMITS)]
    rate: Option<u64>,
    /// Limit the packets to all guests together, which share this rate equally. Serial lines are
    /// excepted
    #[arg(long, value_name = "rate", value_parser = bit_rate::parse,
          help_heading = heading::LIMITS)]
    rate_total: Option<u64>,
    /// Let the gateway's address lead to the loopback address of this host
    #[arg(long, help_heading = heading::LIMITS)]
    host_loopback: bool,
    #[command(flatten)]
    routed: RoutedArguments,
}

/// Parses a prefix, or an address as the prefix of itself.
fn parse_prefix(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| address())
        .map_err(|_| "use an address or a prefix, such as 192.0.2.7 or 192.168.0.0/16".to_owned())
}

/// Runs `plumb gateway`.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let mut guests = Vec::new();
    for text in &arguments.guests {
        let guest = text.parse::<GuestTarget>();
        guests.push((text.clone(), guest.map_err(|error| failed(error, Failure::WrongArguments))?));
    }
    if arguments.routed.is_routed() {
        return routed::run(&arguments.routed, &guests, arguments.control.clone());
    }
    if let Some((guest, _)) = guests.iter().find(|(_, target)| target.prefix.is_some()) {
        let error = anyhow::anyhow!("{guest}: prefix= is valid only with --routed");
        return Err(failed(error, Failure::WrongArguments));
    }
    let is_host = |address: &Ipv4Addr| !matches!(address.octets(), [_, _, _, 0 | 255]);
    let addresses = guests.iter().filter_map(|(_, target)| target.address);
    if let Some(address) = addresses.into_iter().find(|address| !is_host(address)) {
        let error = anyhow::anyhow!("{address} is no address of a host in its network of 24 bits");
        return Err(failed(error, Failure::WrongArguments));
    }
    let settings = ProgramSettings {
        guests,
        forwards: arguments.publish.clone(),
        rules: gateway_program::rules(&arguments.allow, &arguments.deny),
        permits_host_loopback: arguments.host_loopback,
        has_ipv6: !arguments.no_ipv6,
        is_configuring: !arguments.no_configure,
        control: arguments.control.clone(),
        rate_bps: arguments.rate,
        total_rate_bps: arguments.rate_total,
        metrics: arguments.metrics,
        metrics_hosts: arguments.metrics_host.clone(),
    };
    os::process::ignore_file_size_signal();
    let started = Program::start(settings);
    let mut program = started.map_err(|error| {
        let is_argument = error.is_caused_by_arguments();
        failed(error, if is_argument { Failure::WrongArguments } else { Failure::ThisMachine })
    })?;
    program.notices().iter().for_each(exit::print_event);
    program.summaries().iter().for_each(exit::print_event);
    let mut result = Ok(());
    while program.has_guests() {
        match program.run().map_err(|error| failed(error, Failure::ThisMachine))? {
            ProgramEvent::GuestGone(guest) => exit::print_event(&format_args!("{guest} is gone")),
            ProgramEvent::Notice(text) => exit::print_event(&text),
            ProgramEvent::GuestLost(guest, error) => {
                exit::print_error_event(&anyhow::anyhow!("{guest} has failed: {error}"));
                result = Err(Failure::ThisMachine);
            }
            ProgramEvent::Signal(number) => {
                termination::record(number);
                return Err(Failure::Interrupted);
            }
        }
    }
    result
}

fn failed(error: impl Into<anyhow::Error>, failure: Failure) -> Failure {
    exit::print_error(&error.into());
    failure
}

/// Runs the gateway if the program was started under the name of a gateway that it replaces.
pub(crate) fn run_as_named() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (name, arguments) = arguments.split_first()?;
    match ProgramName::of(name)? {
        ProgramName::Slirp4netns => Some(run_slirp4netns(arguments)),
        ProgramName::Pasta => Some(run_pasta(PastaMode::Pasta, arguments)),
        ProgramName::Passt => Some(run_pasta(PastaMode::Passt, arguments)),
    }
}

fn run_slirp4netns(arguments: &[OsString]) -> ExitCode {
    let settings = match slirp4netns::parse(arguments) {
        Invocation::Run(settings) => settings,
        Invocation::Text(text) => return exit_with(&text),
    };
    settings.warnings.iter().for_each(|warning| exit::print_line(warning));
    let text = slirp4netns::start_text(&settings);
    os::process::ignore_file_size_signal();
    let started = SlirpProgram::start(settings).inspect(|_| print(&text));
    match started.and_then(SlirpProgram::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::print_line(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run_pasta(mode: PastaMode, arguments: &[OsString]) -> ExitCode {
    let settings = match pasta::parse(mode, arguments) {
        Invocation::Run(settings) => settings,
        Invocation::Text(text) => return exit_with(&text),
    };
    os::process::ignore_file_size_signal();
    match PastaProgram::start(mode, &settings, &mut exit::print_line).and_then(PastaProgram::run) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            exit::print_line(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn exit_with(text: &ExitText) -> ExitCode {
    print(&text.stdout);
    _ = std::io::stderr().write_all(text.stderr.as_bytes());
    ExitCode::from(text.exit_code)
}

fn print(text: &str) {
    // Nothing can be reported if standard output is closed.
    _ = std::io::stdout().write_all(text.as_bytes());
}
