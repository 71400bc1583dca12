//! `bench gateway`: gateways of network namespaces, plumb beside slirp4netns, pasta and
//! gvisor-tap-vsock.
//!
//! The bench is a host: it runs the servers in a network namespace with a default route. Each
//! gateway connects a guest, which is a process in a user and network namespace of its own, to this
//! host. The clients are threads of the bench in the guest's namespace, and reach the servers at the
//! host's 127.0.0.1 by the address that the gateway maps to it. The kernel's loopback interface is
//! measured alike, without a gateway.
//!
//! All gateways are measured alternately in every round: first with all programs on one processor,
//! then on all processors with default settings.

mod congestion_default;
mod contender;
mod gateway_report;
mod guest;
mod guest_traffic;
mod gvisor_tap_vsock;
mod memory;
mod program_version;
mod serial_lines;
mod shared_rate_guests;
mod slow_output_report;
mod spread;

use super::conditions::Conditions;
use anyhow::{Context, Result, bail, ensure};
use contender::{Gateway, GatewayKind, HOST_GATEWAY};
use gateway_report::{Figures, Measured};
use guest_traffic::{Direction, Route, Traffic};
use net::time::Duration;
use os::interface::Interface;
use os::{route, schedule, veth};
use std::net::Ipv4Addr;

pub(super) const USAGE: &str = "\
usage: ./x bench gateway [--quick] [--rounds N] [--seconds S] [--only NAME] [--json]

  --quick        run 1 round of 0.3 s
  --rounds N     number of rounds, over which medians are taken (default 5, at least 1)
  --seconds S    duration of each measurement (default 1, at most 60)
  --only NAME    measure only the kernel and this gateway: slirp4netns, pasta, gvisor-tap-vsock
                 or plumb; may be repeated
  --slow-outputs measure only guests that share 10 Mbit/s, and hosts at serial lines
  --json         print all data as JSON instead of tables

gvisor-tap-vsock is measured if PLUMB_GVPROXY and PLUMB_GVFORWARDER name its programs gvproxy and
gvforwarder.";

#[derive(Clone, Debug, PartialEq)]
struct Options {
    rounds: usize,
    duration: Duration,
    only: Vec<String>,
    only_slow_outputs: bool,
    as_json: bool,
}

/// MTUs of the guests in bytes.
const MTUS: [u16; 2] = [1500, 65_520];
/// Address of the host. pasta copies it to its guest.
const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Number of idle connections for the memory of a gateway.
const IDLE_FLOWS: usize = 1000;

/// Runs all possible measurements, and prints the report.
pub(super) fn run(arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let processors = schedule::processors().context("cannot read the list of processors")?;
    let conditions = Conditions::set(false)?.without_real_time()?;
    os::process::allow_descriptors(3 * IDLE_FLOWS as u64)
        .context("cannot raise the limit on open files")?;
    set_up_host()?;
    let congestion = congestion_default::current()?;
    let mut notes = Vec::new();
    let kinds = GatewayKind::available(&options.only, &mut notes);
    let mut sections = Vec::new();
    let mut verdicts = Vec::new();
    let slow = slow_output_report::measure(&kinds, options.rounds, &mut notes);
    sections.extend(slow_output_report::sections(&slow));
    verdicts.extend(slow_output_report::verdicts(&slow));
    let placements: &[bool] = if options.only_slow_outputs { &[] } else { &[true, false] };
    for &one_processor in placements {
        if !one_processor {
            schedule::pin_process_to(std::process::id(), &processors)
                .context("cannot use all processors")?;
        }
        let measured = measure(&kinds, &options, &mut notes)?;
        let place = match (one_processor, processors.len()) {
            (true, _) => "one processor for all programs".to_owned(),
            (false, count) => format!("{count} processors, default settings"),
        };
        sections.extend(gateway_report::sections(&place, &measured));
        verdicts.extend(gateway_report::verdicts(&place, &measured));
    }
    gateway_report::report(sections, verdicts, notes, (options.rounds, &congestion))
        .print(&conditions, options.as_json)
}

fn parse(arguments: &[&str]) -> Result<Options> {
    let mut options = Options {
        rounds: 5,
        duration: Duration::from_secs(1),
        only: Vec::new(),
        only_slow_outputs: false,
        as_json: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--json" => options.as_json = true,
            "--slow-outputs" => options.only_slow_outputs = true,
            "--quick" => {
                options.rounds = 1;
                options.duration = Duration::from_millis(300);
            }
            "--rounds" => {
                let number = words.next().and_then(|word| word.parse().ok());
                let number = number.filter(|number| *number >= 1);
                options.rounds =
                    number.with_context(|| format!("--rounds needs a number\n{USAGE}"))?;
            }
            "--seconds" => {
                let seconds = words.next().and_then(|word| word.parse::<f64>().ok());
                let seconds = seconds.filter(|seconds| (0.1..=60.0).contains(seconds));
                let seconds =
                    seconds.with_context(|| format!("--seconds needs 0.1 to 60\n{USAGE}"))?;
                options.duration = Duration::from_secs_f64(seconds);
            }
            "--only" => {
                let name = words.next().with_context(|| format!("--only needs a name\n{USAGE}"))?;
                ensure!(
                    GatewayKind::NAMES.contains(name),
                    "there is no gateway '{}'\n{USAGE}",
                    name.escape_debug()
                );
                options.only.push((*name).to_owned());
            }
            _ => bail!("unknown argument '{}'\n{USAGE}", word.escape_debug()),
        }
    }
    Ok(options)
}

/// Creates the interface of the host with its default route. Nothing is behind it.
fn set_up_host() -> Result<()> {
    congestion_default::select();
    let interface = veth::make_pair("host0", "host1", None)?;
    Interface::named("host1")?.bring_up()?;
    interface.set_address(HOST, 24)?;
    interface.bring_up()?;
    route::add_default(&interface, HOST_GATEWAY.into())?;
    Ok(())
}

/// Measures the kernel and each gateway with each MTU in turn.
fn measure(
    kinds: &[GatewayKind],
    options: &Options,
    notes: &mut Vec<String>,
) -> Result<Vec<Measured>> {
    let mut gateways = Vec::new();
    for mtu_bytes in MTUS {
        for kind in kinds {
            gateways.push(Gateway::start(kind, mtu_bytes)?);
        }
    }
    let mut all: Vec<_> = std::iter::once(Measured::kernel())
        .chain(gateways.iter().map(Measured::of_gateway))
        .collect();
    // Later, a gateway would also have memory of connections that it has not released.
    for (measured, gateway) in all.iter_mut().skip(1).zip(&gateways) {
        let held = guest_traffic::hold_connections(&gateway.route(), IDLE_FLOWS);
        match held {
            Ok(_held) => measured.busy_bytes = gateway.private_bytes(),
            Err(error) => notes.push(format!("{}, idle flows: {error:#}", measured.label)),
        }
    }
    for _ in 0..options.rounds {
        for (index, measured) in all.iter_mut().enumerate() {
            let gateway = index.checked_sub(1).and_then(|index| gateways.get(index));
            let traffic = Traffic {
                route: gateway.map_or(Route::KERNEL, Gateway::route),
                duration: options.duration,
            };
            let is_echoing = measured.mtu_bytes.is_none_or(|mtu_bytes| mtu_bytes == 1500);
            measured.rounds.push(measure_round(&traffic, is_echoing, &measured.label, notes));
        }
    }
    Ok(all)
}

/// Measures one round. A failed measurement is noted, and its figure is missing.
fn measure_round(
    traffic: &Traffic<'_>,
    is_echoing: bool,
    label: &str,
    notes: &mut Vec<String>,
) -> Figures {
    let mut note = |what: &str, error: &anyhow::Error| {
        notes.push(format!("{label}, {what}: {error:#}"));
    };
    let mut figures = Figures::default();
    for (direction, figure) in
        [(Direction::ToHost, &mut figures.to_host), (Direction::FromHost, &mut figures.from_host)]
    {
        match traffic.bulk(direction) {
            Ok(bulk) => *figure = Some(bulk),
            Err(error) => note("bulk", &error),
        }
    }
    if !is_echoing {
        return figures;
    }
    match traffic.echo() {
        Ok(echo) => figures.echo = Some(echo),
        Err(error) => note("echo", &error),
    }
    match traffic.connections() {
        Ok(connections) => figures.connections = Some(connections),
        Err(error) => note("connections", &error),
    }
    match traffic.datagrams() {
        Ok(datagrams) => figures.datagrams = Some(datagrams),
        Err(error) => note("datagrams", &error),
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_and_unknown_names_rejected() {
        let options = parse(&["--rounds", "2", "--seconds", "0.5", "--only", "pasta"]).unwrap();
        let expected = Options {
            rounds: 2,
            duration: Duration::from_millis(500),
            only: vec!["pasta".into()],
            only_slow_outputs: false,
            as_json: false,
        };
        assert_eq!(options, expected);
        assert!(parse(&["--only", "slirp"]).is_err());
        assert!(parse(&["--rounds", "0"]).is_err());
        assert!(parse(&["--seconds", "inf"]).is_err());
    }
}
