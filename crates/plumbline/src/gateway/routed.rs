//! `plumb gateway --routed`: arguments and messages. The gateway is in the crate `gateway-host`.

use crate::exit::{self, Failure};
use crate::heading;
use gateway_host::guest_target::GuestTarget;
use gateway_host::routed::{
    AddressPlan, Output, RoutedEnd, RoutedError, RoutedProgram, RoutedSettings,
};
use std::net::IpAddr;
use std::path::PathBuf;
use transfer::termination;

/// Options of `plumb gateway --routed`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RoutedArguments {
    /// Route hosts at serial lines without translation, each with the address of its address=;
    /// requires root
    #[arg(long, help_heading = heading::ROUTING, conflicts_with_all = [
        "publish", "no_configure", "no_ipv6", "allow", "deny", "host_loopback", "rate",
        "rate_total", "metrics",
    ])]
    routed: bool,
    /// Answer ARP and Neighbor Discovery for the guests' addresses at this interface
    #[arg(long, value_name = "interface", requires = "routed", help_heading = heading::ROUTING)]
    proxy_arp: Option<String>,
    /// Address of the router itself, at most one of each version
    #[arg(long, value_name = "address", requires = "routed", help_heading = heading::ROUTING)]
    router_address: Vec<IpAddr>,
    /// Discipline of the lines' output queues
    #[arg(long, value_name = "fair|1982", default_value = "fair", requires = "routed",
          help_heading = heading::ROUTING)]
    discipline: DisciplineName,
    /// Maximum number of packets in the output queue of each line [default: 200, 1982: 16]
    #[arg(long, value_name = "packets", requires = "routed", help_heading = heading::ROUTING,
          value_parser = clap::value_parser!(u16).range(1..))]
    queue: Option<u16>,
    /// Do not limit the windows of TCP connections to the queue of the line
    #[arg(long, requires = "routed", help_heading = heading::ROUTING)]
    no_window_limit: bool,
    /// Drop packets of transports with ECN instead of marking them
    #[arg(long, requires = "routed", help_heading = heading::ROUTING)]
    no_ecn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DisciplineName {
    /// Fair queueing with CoDel.
    Fair,
    /// The few buffers of TM-233's concentrator, and its fault.
    #[value(name = "1982")]
    Of1982,
}

impl RoutedArguments {
    /// Returns whether the gateway routes.
    pub(crate) const fn is_routed(&self) -> bool {
        self.routed
    }

    fn output(&self) -> Output {
        Output {
            is_of_1982: self.discipline == DisciplineName::Of1982,
            packets_max: self.queue.map(usize::from),
            keeps_windows: self.no_window_limit,
            drops_ecn: self.no_ecn,
        }
    }
}

/// Runs `plumb gateway --routed` with `guests`, each with the text with which it was given, and a
/// control socket at `control`.
pub(crate) fn run(
    arguments: &RoutedArguments,
    guests: &[(String, GuestTarget)],
    control: Option<PathBuf>,
) -> exit::Result {
    let plan = AddressPlan::new(guests, &arguments.router_address, arguments.output());
    let settings = RoutedSettings {
        plan: plan.map_err(failure)?,
        proxy_interface: arguments.proxy_arp.clone(),
        control,
    };
    os::process::ignore_file_size_signal();
    let mut program = RoutedProgram::start(settings).map_err(failure)?;
    for line in program.lines() {
        let addresses = line.addresses.join(", ");
        exit::print_event(&format_args!("{}: {addresses} by {}", line.name, program.tun_name()));
    }
    if let Some(interface) = &arguments.proxy_arp {
        let addresses: Vec<String> = program.answered().iter().map(ToString::to_string).collect();
        exit::print_event(&format_args!("{interface}: answers for {}", addresses.join(", ")));
    }
    let mut result = Ok(());
    while program.has_lines() {
        match program.run().map_err(failure)? {
            RoutedEnd::Line(name, is_up) => {
                exit::print_event(&format_args!("{name} is {}", if is_up { "up" } else { "down" }));
            }
            RoutedEnd::Signal(number) => {
                termination::record(number);
                result = Err(Failure::Interrupted);
                break;
            }
            RoutedEnd::Lost(name, error) => {
                exit::print_error_event(&anyhow::anyhow!("{name} has failed: {error}"));
                result = Err(Failure::ThisMachine);
            }
        }
    }
    report(&program);
    result
}

/// Prints how many packets each line was sent, and how many were dropped and why.
fn report(program: &RoutedProgram) {
    for line in program.lines() {
        let Some(output) = line.output else { continue };
        exit::print_event(&format_args!(
            "{}: {} packets out, {} marked, dropped: {} of a burst, {} full, {} delayed",
            line.name,
            output.packets_out,
            output.marked,
            output.dropped_in_burst,
            output.dropped_when_full,
            output.dropped_for_delay,
        ));
    }
}

fn failed(error: impl Into<anyhow::Error>, failure: Failure) -> Failure {
    exit::print_error(&error.into());
    failure
}

fn failure(error: RoutedError) -> Failure {
    let class =
        if error.is_caused_by_arguments() { Failure::WrongArguments } else { Failure::ThisMachine };
    failed(error, class)
}
