//! `bench stack`: plumb's TCP on one machine, compared with the kernel's TCP and with other
//! user-space stacks.
//!
//! The client always uses the kernel's sockets; the servers differ. Client and server share one
//! processor and have real-time priority, so that the figures show the cost of the stack and not of
//! scheduling. All servers are measured alternately in every round, and ratios to the kernel are
//! taken within a round. A new server process is started for each figure.

mod amount;
mod client;
mod datagrams;
mod kernel;
mod kernel_comparison;
mod ours;
mod processors;
mod rounds;
mod rows;
mod server;
mod server_arguments;
mod server_networks;
mod stack_report;
mod streams;
mod user_space_stacks;

use super::conditions::Conditions;
use amount::Amount;
use anyhow::{Context, Result, bail, ensure};
use client::Direction;
use os::schedule;
use processors::other_processor;
use rounds::{Results, Round};
use server::{Contender, Mode, Server, ServerOptions};
use server_arguments::Arguments;
use server_networks::{Attachment, Networks};
use std::path::{Path, PathBuf};
use user_space_stacks::Peer;

pub(super) const USAGE: &str = "\
usage: ./x bench stack [--quick] [--rounds N] [--only NAME] [--figures NAME] [--json]

  --quick        run 2 short rounds; omit peers that have not been built yet
  --rounds N     number of rounds, over which medians are taken (default 5, at least 1)
  --only NAME    measure only the kernel and servers whose name begins with NAME; may be repeated
  --figures NAME servers, datagrams or processors; may be repeated (default: all three)
  --json         print all data as JSON instead of tables";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    rounds: usize,
    only: Vec<String>,
    figures: Vec<Figures>,
    is_quick: bool,
    as_json: bool,
}

/// Group of figures that `--figures` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figures {
    /// Bulk data on one stream, echoes of one byte, and idle connections, for every server.
    Servers,
    /// Datagrams, for plumb and the kernel.
    Datagrams,
    /// Many streams on one and on two processors, for plumb and the kernel.
    Processors,
}

impl Figures {
    const ALL: [(&'static str, Self); 3] = [
        ("servers", Self::Servers),
        ("datagrams", Self::Datagrams),
        ("processors", Self::Processors),
    ];
}

/// Runs all possible measurements, and prints the report.
pub(super) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let options = parse(arguments)?;
    let root = root.canonicalize().context("the project's directory does not exist")?;
    let (contenders, peer_notes) = contenders(&root, &options)?;
    let conditions = Conditions::set(false)?;
    conditions.run_in_real_time()?;
    let amount = if options.is_quick { Amount::QUICK } else { Amount::FULL };
    let maximum = amount.idle_connections.iter().copied().max().unwrap_or(1) as u64;
    os::process::allow_descriptors(maximum + 100)
        .context("cannot raise the limit on open files")?;
    let networks = Networks::make()?;
    let queues = entry("plumb-queues", own_command("plumb")?)?;
    for contender in contenders.iter().chain([&queues]) {
        networks.attach(contender.number, contender.attachment)?;
    }
    let has = |figures| options.figures.contains(&figures);
    let rounds = if has(Figures::Servers) { options.rounds } else { 0 };
    let results = measure(&contenders, &networks, &amount, &conditions, rounds)?;
    let mut report =
        stack_report::report(&contenders, &results, peer_notes, &amount, options.rounds);
    if rounds == 0 {
        report.sections.clear();
    }
    let contenders_with_queues = contenders.iter().chain([&queues]).cloned().collect::<Vec<_>>();
    let bench = kernel_comparison::KernelComparison {
        contenders: &contenders_with_queues,
        networks: &networks,
        amount: &amount,
    };
    if has(Figures::Datagrams) {
        report.sections.push(bench.measure_datagrams(options.rounds, &mut report.notes)?);
    }
    if has(Figures::Processors) {
        report.sections.push(bench.measure_processors(options.rounds, &mut report.notes)?);
    }
    report.print(&conditions, options.as_json)
}

/// Runs one of the project's own servers, which [`run`] has started.
pub(super) fn serve(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["kernel", rest @ ..] => kernel::serve(Arguments::new(rest)),
        ["plumb", rest @ ..] => ours::serve(Arguments::new(rest)),
        _ => bail!("there is no such server"),
    }
}

fn parse(arguments: &[&str]) -> Result<Options> {
    let only = Vec::new();
    let figures = Vec::new();
    let mut options = Options { rounds: 0, only, figures, is_quick: false, as_json: false };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => options.is_quick = true,
            "--rounds" => {
                let number = words.next().and_then(|word| word.parse().ok());
                let number = number.filter(|number| (1..=100).contains(number));
                options.rounds = number
                    .with_context(|| format!("--rounds needs a number from 1 to 100\n{USAGE}"))?;
            }
            "--only" => {
                let name = words.next().with_context(|| format!("--only needs a name\n{USAGE}"))?;
                options.only.push((*name).to_owned());
            }
            "--figures" => {
                let name = words.next().copied().unwrap_or_default();
                let found = Figures::ALL.iter().find(|(known, _)| *known == name);
                options.figures.push(found.with_context(|| format!("which ones?\n{USAGE}"))?.1);
            }
            "--json" => options.as_json = true,
            _ => bail!("unknown argument '{}'\n{USAGE}", word.escape_debug()),
        }
    }
    if options.rounds == 0 {
        options.rounds = if options.is_quick { 2 } else { 5 };
    }
    if options.figures.is_empty() {
        options.figures = Figures::ALL.map(|(_, figures)| figures).into();
    }
    Ok(options)
}

/// Returns the servers to measure, the kernel first, and a note for each peer: its version, or the
/// reason why it is left out.
fn contenders(root: &Path, options: &Options) -> Result<(Vec<Contender>, Vec<String>)> {
    let is_wanted = |name: &str| {
        options.only.is_empty() || options.only.iter().any(|only| name.starts_with(only.as_str()))
    };
    let mut contenders = vec![entry("kernel", own_command("kernel")?)?];
    let is_alone = |attachment| attachment != Attachment::Queues;
    for (name, ..) in
        ENTRIES.iter().filter(|e| e.0.starts_with("plumb") && is_wanted(e.0) && is_alone(e.2))
    {
        contenders.push(entry(name, own_command("plumb")?)?);
    }
    let mut peer_notes = Vec::new();
    let peers = if options.figures.contains(&Figures::Servers) { &Peer::ALL[..] } else { &[] };
    for peer in peers {
        let wanted: Vec<&Entry> =
            ENTRIES.iter().filter(|e| e.0.starts_with(peer.name()) && is_wanted(e.0)).collect();
        if wanted.is_empty() {
            continue;
        }
        let built = if options.is_quick { peer.built(root) } else { peer.build(root) };
        match built {
            Ok(program) => {
                let version = peer.version(root).unwrap_or_else(|| "of unknown version".into());
                peer_notes.push(format!("{} {version}", peer.name()));
                for (name, ..) in wanted {
                    contenders.push(entry(name, vec![program.clone()])?);
                }
            }
            Err(error) => peer_notes.push(format!("{} is left out: {error:#}", peer.name())),
        }
    }
    ensure!(
        contenders.len() > 1 || !peer_notes.is_empty() || is_wanted("kernel"),
        "no server has this name; the servers are: {}",
        ENTRIES.map(|entry| entry.0).join(", ")
    );
    Ok((contenders, peer_notes))
}

/// Returns the command of one of the project's own servers.
fn own_command(name: &str) -> Result<Vec<PathBuf>> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(vec![program, "stack-server".into(), name.into()])
}

/// Name, label, attachment and further arguments of a server, and whether it supports `--spin`.
type Entry = (&'static str, &'static str, Attachment, &'static [&'static str], bool);

const ENTRIES: [Entry; 14] = [
    ("kernel", "kernel, veth, TSO", Attachment::Pair, &[], true),
    ("plumb-tun", "plumb, TUN, offloads", Attachment::Tun, &[], true),
    ("plumb-yield", "plumb, yields first", Attachment::Tun, &["--wait", "yield"], false),
    ("plumb-poll", "plumb, waits in poll", Attachment::Tun, &["--wait", "poll"], true),
    ("plumb-unmetered", "plumb, meter off", Attachment::Tun, &["--meter", "off"], true),
    ("plumb-copy", "plumb, source copied", Attachment::Tun, &["--copy"], false),
    ("plumb-plain", "plumb, TUN", Attachment::Tun, &["--plain"], true),
    ("plumb-packet", "plumb, packet, GSO", Attachment::Packet, &[], true),
    ("plumb-queues", "plumb, 2 queues", Attachment::Queues, &["--queues", "2"], false),
    ("smoltcp-64k", "smoltcp, TUN, 64 KiB", Attachment::Tun, &["--buffers", "65536"], true),
    ("smoltcp-1m", "smoltcp, TUN, 1 MiB", Attachment::Tun, &["--buffers", "1048576"], true),
    ("lwip", "lwIP, TUN, 1 MiB", Attachment::Tun, &[], true),
    ("gvisor-tun", "gVisor, TUN", Attachment::Tun, &[], false),
    ("gvisor-packet", "gVisor, packet, GSO", Attachment::Packet, &[], false),
];

fn entry(name: &str, command: Vec<PathBuf>) -> Result<Contender> {
    let mut numbered = (1..).zip(&ENTRIES);
    let found = numbered.find(|(_, entry)| entry.0 == name);
    let (number, (name, label, attachment, arguments, can_spin)) =
        found.context("no such entry")?;
    Ok(Contender {
        name,
        label,
        command,
        attachment: *attachment,
        arguments,
        can_spin: *can_spin,
        number,
    })
}

fn measure(
    contenders: &[Contender],
    networks: &Networks,
    amount: &Amount,
    conditions: &Conditions,
    rounds: usize,
) -> Result<Vec<Results>> {
    let mut results = vec![Results::default(); contenders.len()];
    let spinning = other_processor()?;
    for round in 1..=rounds {
        for (contender, results) in contenders.iter().zip(&mut results) {
            eprintln!("round {round} of {rounds}: {}", contender.name);
            let bench = ContenderRun { contender, networks, amount, conditions };
            results.rounds.push(bench.round(spinning, &mut results.failures));
        }
    }
    for (contender, results) in contenders.iter().zip(&mut results).filter(|_| rounds > 0) {
        eprintln!("idle connections: {}", contender.name);
        let idle_connections =
            ContenderRun { contender, networks, amount, conditions }.measure_idle_connections();
        results.idle_connections =
            ok_or_note(idle_connections, "idle connections", &mut results.failures)
                .unwrap_or_default();
    }
    Ok(results)
}

/// One contender with the parameters of its measurement.
#[derive(Clone, Copy, Debug)]
struct ContenderRun<'a> {
    contender: &'a Contender,
    networks: &'a Networks,
    amount: &'a Amount,
    conditions: &'a Conditions,
}

impl ContenderRun<'_> {
    fn round(self, spinning: Option<usize>, failures: &mut Vec<String>) -> Round {
        let spinning = spinning.filter(|_| self.contender.can_spin);
        Round {
            to_server: ok_or_note(
                self.measure_bulk(Mode::Sink, Direction::In),
                "bulk in",
                failures,
            ),
            from_server: ok_or_note(
                self.measure_bulk(Mode::Source, Direction::Out),
                "bulk out",
                failures,
            ),
            echo: ok_or_note(self.echo(), "echo", failures),
            spun: spinning.and_then(|processor| {
                ok_or_note(self.measure_spinning_echo(processor), "spinning echo", failures)
            }),
        }
    }

    fn measure_bulk(self, mode: Mode, direction: Direction) -> Result<client::Bulk> {
        let server = Server::start(self.contender, ServerOptions::for_mode(mode), self.networks)?;
        let bulk =
            client::measure_bulk(&server, direction, self.amount.warm_up, self.amount.window)?;
        server.stop()?;
        Ok(bulk)
    }

    fn echo(self) -> Result<client::Echo> {
        let server =
            Server::start(self.contender, ServerOptions::for_mode(Mode::Echo), self.networks)?;
        let echo = client::measure_echo(&server, self.amount.echoes, false)?;
        server.stop()?;
        Ok(echo)
    }

    /// Measures echoes while client and server poll instead of sleeping, with the server on another
    /// processor.
    fn measure_spinning_echo(self, processor: usize) -> Result<client::Echo> {
        let options = ServerOptions { spins: true, ..ServerOptions::for_mode(Mode::Echo) };
        // A spinning real-time server would not yield the processor to the bench: it starts as an
        // ordinary process, and is pinned and promoted once it is ready.
        self.conditions.run_as_ordinary()?;
        let server = Server::start(self.contender, options, self.networks);
        self.conditions.run_in_real_time()?;
        let server = server?;
        schedule::pin_process_to(server.id(), &[processor])?;
        self.conditions.promote(server.id())?;
        let echo = client::measure_echo(&server, self.amount.echoes, true)?;
        server.stop()?;
        Ok(echo)
    }

    fn measure_idle_connections(self) -> Result<Vec<client::IdleConnections>> {
        let connections = self.amount.idle_connections.iter().copied().max().unwrap_or(1);
        let options = ServerOptions { connections, ..ServerOptions::for_mode(Mode::Echo) };
        let server = Server::start(self.contender, options, self.networks)?;
        let idle_connections = client::measure_idle_connections(
            &server,
            self.amount.idle_connections,
            self.amount.echoes,
        )?;
        server.stop()?;
        Ok(idle_connections)
    }
}

/// Returns the figure `what`, or adds the error to `failures`.
fn ok_or_note<T>(measured: Result<T>, what: &str, failures: &mut Vec<String>) -> Option<T> {
    measured.map_err(|error| failures.push(format!("{what}: {error:#}"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let options = parse(&["--json", "--only", "smoltcp", "--quick", "--only", "lwip"]).unwrap();
        assert_eq!(options.only, ["smoltcp", "lwip"]);
        assert!(options.as_json && options.is_quick && options.rounds == 2);
        assert_eq!(options.figures.len(), 3);
    }

    #[test]
    fn figures_are_chosen_by_their_names() {
        let options = parse(&["--figures", "datagrams"]).unwrap();
        assert_eq!(options.figures, [Figures::Datagrams]);
        let error = parse(&["--figures", "echoes"]).unwrap_err().to_string();
        assert_eq!(error, format!("which ones?\n{USAGE}"));
    }

    #[test]
    fn unknown_options_are_rejected() {
        let error = |arguments: &[&str]| {
            let error = parse(arguments).unwrap_err().to_string();
            error.strip_suffix(USAGE).map(str::to_owned)
        };
        assert_eq!(error(&["--fast"]).unwrap(), "unknown argument '--fast'\n");
        for wrong in [&["--rounds"][..], &["--rounds", "0"], &["--rounds", "101"]] {
            assert_eq!(error(wrong).unwrap(), "--rounds needs a number from 1 to 100\n");
        }
        assert_eq!(error(&["--only"]).unwrap(), "--only needs a name\n");
    }

    #[test]
    fn every_entry_has_a_unique_number() {
        let number = |entry: &Entry| super::entry(entry.0, Vec::new()).unwrap().number;
        let mut numbers: Vec<u8> = ENTRIES.iter().map(number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), ENTRIES.len());
    }
}
