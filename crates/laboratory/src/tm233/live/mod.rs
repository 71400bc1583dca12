//! Tables K and L: the experiments of tables H to J with the shipped gateway, in real time.
//!
//! Two personal computers are at two pseudo-terminals of one `plumb gateway --routed`. A real Telnet
//! server, and a foreign host behind a TUN, are on the other side of it. The calling thread must be
//! in a network namespace of its own.

mod live_center;
mod live_error;
mod live_gateway;
mod live_network;
mod live_telnetd;

pub use live_error::NotRun;

use super::experiments::{Equipment, SCREENFUL, TELNET_PORT, WINDOW, personal_computer, text};
use super::routed_experiments::{KEYS_MAX, active, display_time};
use super::scenario::{ForeignHost, Scenario};
use super::sessions::Session;
use super::tables::congestion::{LEAST_TIME, rows_of_clumps};
use super::workload::ScriptedUser;
use crate::table::{Extent, Figure, Row, Table};
use live_gateway::GatewayMode;
use live_network::{FIRST, FOREIGN, LiveNetwork, SECOND};
use live_telnetd::LiveTelnetd;
use net::meter::Counter;
use net::station::Opening;
use net::time::Duration;
use net::transport::tcp::Profile;
use os::interface::Interface;
use std::net::Ipv4Addr;
use std::path::Path;

/// The Telnet server, in the namespace of the experiment.
const TELNETD: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 101);
/// Port of the Telnet server that prints a screenful, and of the second session at a host.
const SECOND_PORT: u16 = TELNET_PORT + 1;
/// Number of keys of an echo test. The first one also waits for the start of the session, and is
/// not counted.
const KEYS: usize = 11;
/// Number of screenfuls through the gateway with the fault of 1982: two at once, one per line.
const FAULTY_PAIRS: u64 = 10;

/// Peers of the personal computers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peers {
    OneAndTelnetd,
    TwoAndTelnetd,
    EachOther,
}

const PEERS: [(Peers, &str); 3] = [
    (Peers::OneAndTelnetd, "telnetd"),
    (Peers::TwoAndTelnetd, "telnetd, both at once"),
    (Peers::EachOther, "to each other"),
];

/// Runs the experiments with the gateway `program` and returns their tables. Before each one,
/// `report` is called with its name. This takes about three minutes.
///
/// # Errors
///
/// Returns the reason why there are no tables.
pub fn tables(
    scenario: &Scenario,
    program: &Path,
    report: &mut dyn FnMut(&str),
) -> Result<Vec<Table>, NotRun> {
    Interface::named("lo")?.set_address(TELNETD, 32)?;
    let telnetd = LiveTelnetd::start(TELNETD, [TELNET_PORT, SECOND_PORT])?;
    let live = Live { scenario, program, telnetd };
    let mut rows = Vec::new();
    for rate_bps in scenario.router.lines_bps.iter().copied() {
        report(&format!("live at {rate_bps} bit/s"));
        rows.extend(live.rows_at(rate_bps)?);
    }
    report("live with the fault of 1982");
    let clumps = rows_of_clumps(live.faulty_screenfuls()?);
    Ok(vec![
        Table {
            number: "K",
            title: "two personal computers at plumb gateway, live (§6.1, §6.3.3)",
            unit: "s",
            rows,
            why: WHY,
        },
        Table {
            number: "L",
            title: "screenfuls from CSR through plumb gateway --discipline 1982, live",
            unit: "s, mean of each clump",
            rows: clumps,
            why: "The gateway runs with the discipline of 1982, and its queue drops packets of a \
                  burst with a probability of 35 %, drawn anew in each run. CSR has the timeout of \
                  the scenario, which was derived from the second clump of the thesis, and a fixed \
                  timer, derived from the third. The first clump depends on neither. A timeout \
                  before the first character is counted too, but is not part of the time.",
        },
    ])
}

const WHY: &str = "\
    These are the tests of tables H and I in real time. The gateway is the shipped program; it \
    routes between two pseudo-terminals and a TUN of the kernel. The computers run plumbline's \
    layers with the costs of 1982, and receive and send each byte at the rate of their line. The \
    Telnet server is a real one, on this machine, with the echo of the kernel's terminal. Comet is \
    simulated behind another TUN, with the delay of the scenario, and the kernel forwards its \
    packets to the gateway. The rows with vj=1 have compressed TCP headers (RFC 1144) on both \
    lines, which the computers of 1982 did not have: without them, the packets of Comet alone need \
    3.07 s at 9,600 bit/s. A delay beyond the values of tables H and I is that of the gateway, \
    which gives a line the bytes of 20 ms at once, of the kernel, and of other programs.";

/// The parts that all experiments share.
struct Live<'a> {
    scenario: &'a Scenario,
    program: &'a Path,
    telnetd: LiveTelnetd,
}

impl Live<'_> {
    fn rows_at(&self, rate_bps: u64) -> Result<Vec<Row>, NotRun> {
        let mut rows = Vec::new();
        for (peers, name) in PEERS {
            let echo = self.echo(rate_bps, peers)?.as_secs_f64();
            rows.push(Row::output(format!("{rate_bps} bit/s, echo, {name}"), echo, 3));
        }
        for (peers, name) in PEERS {
            let time = self.screenful(rate_bps, peers)?.as_secs_f64();
            rows.push(Row::output(format!("{rate_bps} bit/s, screenful, {name}"), time, 3));
        }
        if let Some(host) = self.scenario.hosts.iter().find(|host| host.name == "Comet") {
            for mode in [GatewayMode::Fair, GatewayMode::Compressing] {
                rows.extend(self.comet(rate_bps, host, mode)?);
            }
        }
        Ok(rows)
    }

    fn network(
        &self,
        name: &'static str,
        (rate_bps, mode): (u64, GatewayMode),
        run: u64,
    ) -> Result<LiveNetwork, NotRun> {
        self.telnetd.end_sessions();
        LiveNetwork::start(self.program, name, (rate_bps, mode, self.scenario.seed + run))
    }

    /// Connects the computers of `peers`: `near` are the users whose times are measured, and `far`
    /// is the user of the second computer if there is no Telnet server. Returns the ports of the
    /// measured users.
    fn connect(
        &self,
        network: &mut LiveNetwork,
        (peers, port): (Peers, u16),
        near: &dyn Fn() -> ScriptedUser,
        far: ScriptedUser,
    ) -> Vec<usize> {
        let profile = personal_computer(WINDOW);
        let equipment = self.scenario.equipment();
        let mut add = |address, user, opening| {
            let session = Session::new(user, opening, profile);
            network.add_computer(address, equipment, vec![session])
        };
        match peers {
            Peers::EachOther => {
                let reader = add(FIRST, near(), active(FIRST, SECOND, TELNET_PORT));
                add(SECOND, far, Opening::Passive { port: TELNET_PORT });
                vec![reader]
            }
            Peers::OneAndTelnetd => vec![add(FIRST, near(), active(FIRST, TELNETD, port))],
            Peers::TwoAndTelnetd => {
                let add = |address| add(address, near(), active(address, TELNETD, port));
                [FIRST, SECOND].map(add).into()
            }
        }
    }

    /// Returns the mean time of an echo; with two sessions, of the slower one.
    fn echo(&self, rate_bps: u64, peers: Peers) -> Result<Duration, NotRun> {
        let mut network = self.network("echo", (rate_bps, GatewayMode::Fair), 0)?;
        let typist = || ScriptedUser::typist(b"x".to_vec(), KEYS, true);
        let echoer = ScriptedUser::echoer(true);
        let ports = self.connect(&mut network, (peers, TELNET_PORT), &typist, echoer);
        network.drive(|star| {
            ports.iter().all(|port| star.host(*port).application.user(0).is_done())
        })?;
        let mean = |port: &usize| {
            let times = network.star.host(*port).application.user(0).round_trips();
            let times = times.get(1..).unwrap_or_default();
            let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
            times.iter().sum::<Duration>().checked_div(count).unwrap_or_default()
        };
        let slowest = ports.iter().map(mean).max().unwrap_or_default();
        network.end()?;
        Ok(slowest)
    }

    /// Returns the time of a screenful; with two, of the slower one.
    fn screenful(&self, rate_bps: u64, peers: Peers) -> Result<Duration, NotRun> {
        let mut network = self.network("screenful", (rate_bps, GatewayMode::Fair), 0)?;
        let writer = ScriptedUser::writer(text(SCREENFUL), false);
        let ports = self.connect(&mut network, (peers, SECOND_PORT), &ScriptedUser::reader, writer);
        drive_until_printed(&mut network, &ports)?;
        let times =
            ports.iter().map(|port| display_time(network.star.host(*port).application.user(0)));
        let slowest = times.max().unwrap_or_default();
        network.end()?;
        Ok(slowest)
    }

    /// Returns the rows of a screenful from Comet at one line, with keys at the other one.
    fn comet(
        &self,
        rate_bps: u64,
        host: &ForeignHost,
        mode: GatewayMode,
    ) -> Result<[Row; 2], NotRun> {
        let mut network = self.network("Comet", (rate_bps, mode), 0)?;
        let [foreign, _] = FOREIGN;
        let compresses_headers = mode == GatewayMode::Compressing;
        let equipment = Equipment { compresses_headers, ..self.scenario.equipment() };
        let profile = personal_computer(WINDOW);
        let reader =
            Session::new(ScriptedUser::reader(), active(FIRST, foreign, TELNET_PORT), profile);
        let reader = network.add_computer(FIRST, equipment, vec![reader]);
        let typist = ScriptedUser::typist(b"x".to_vec(), KEYS_MAX, true);
        let typist = Session::new(typist, active(SECOND, foreign, SECOND_PORT), profile);
        let typist = network.add_computer(SECOND, equipment, vec![typist]);
        let slow = self.slow_profile(host);
        let passive = |user, port| Session::new(user, Opening::Passive { port }, slow);
        let writer = ScriptedUser::writer_of_pieces(&text(SCREENFUL), host.packet_bytes);
        let sessions =
            vec![passive(writer, TELNET_PORT), passive(ScriptedUser::echoer(false), SECOND_PORT)];
        let foreign = network.add_foreign_host(foreign, delay_of(host), sessions)?;
        network.drive(|star| star.host(reader).application.user(0).console.bytes > 0)?;
        let keys_of = |network: &LiveNetwork| {
            network.star.host(typist).application.user(0).round_trips().to_vec()
        };
        let before = keys_of(&network).len();
        drive_until_printed(&mut network, &[reader])?;
        let keys = keys_of(&network);
        let longest = keys.get(before..).unwrap_or_default().iter().max().copied();
        let time = display_time(network.star.host(reader).application.user(0));
        let timeouts = network.star.host(foreign).meter.counted(Counter::TcpTimeouts);
        let lost = network.end()?;
        let name = if compresses_headers { "Comet, vj=1" } else { "Comet" };
        let what = format!("{rate_bps} bit/s, {name}: {lost} lost, {timeouts} timeouts");
        let least = Figure::new(Extent::AtLeast(LEAST_TIME));
        let key = longest.unwrap_or_default().as_secs_f64();
        Ok([
            Row::output(what, time.as_secs_f64(), 2).predicted(least),
            Row::output(format!("{rate_bps} bit/s, {name}, key, other line"), key, 3),
        ])
    }

    /// Returns the times and the numbers of timeouts of screenfuls from CSR.
    fn faulty_screenfuls(&self) -> Result<Vec<(Duration, u64)>, NotRun> {
        let Some(host) = self.scenario.hosts.first() else { return Ok(Vec::new()) };
        let mut results = Vec::new();
        for run in 0..FAULTY_PAIRS {
            let mode = (self.scenario.rate_bps, GatewayMode::Of1982);
            let mut network = self.network("screenful from CSR", mode, run)?;
            let slow = self.slow_profile(host);
            let mut ends = Vec::new();
            for (address, foreign) in [FIRST, SECOND].into_iter().zip(FOREIGN) {
                let opening = active(address, foreign, TELNET_PORT);
                let reader =
                    Session::new(ScriptedUser::reader(), opening, personal_computer(WINDOW));
                let equipment = self.scenario.equipment();
                let reader = network.add_computer(address, equipment, vec![reader]);
                let writer = ScriptedUser::writer_of_pieces(&text(SCREENFUL), host.packet_bytes);
                let writer = Session::new(writer, Opening::Passive { port: TELNET_PORT }, slow);
                let foreign = network.add_foreign_host(foreign, delay_of(host), vec![writer])?;
                ends.push((reader, foreign));
            }
            let readers: Vec<usize> = ends.iter().map(|(reader, _)| *reader).collect();
            drive_until_printed(&mut network, &readers)?;
            for (reader, foreign) in ends {
                let time = display_time(network.star.host(reader).application.user(0));
                let timeouts = network.star.host(foreign).meter.counted(Counter::TcpTimeouts);
                results.push((time, timeouts));
            }
            network.end()?;
        }
        Ok(results)
    }

    fn slow_profile(&self, host: &ForeignHost) -> Profile {
        Profile {
            rto_min: Duration::from_millis(host.retransmits_after_ms),
            retransmission: self.scenario.retransmission_timer.rule(),
            ..personal_computer(WINDOW)
        }
    }
}

const fn delay_of(host: &ForeignHost) -> Duration {
    Duration::from_micros(host.echo_us / 2)
}

/// Runs until the first session at each of `ports` has printed a screenful. The Telnet server of
/// busybox sends line ends before it.
fn drive_until_printed(network: &mut LiveNetwork, ports: &[usize]) -> Result<(), NotRun> {
    network.drive(|star| {
        ports.iter().all(|port| star.host(*port).application.user(0).console.bytes >= SCREENFUL)
    })
}
