//! The experiment that TM-233 §6.1 proposes, two personal computers connected by the packet
//! concentrator, and the measures against its congestion (§6.3.3).

use super::experiments::{Equipment, SCREENFUL, TELNET_PORT, WINDOW, personal_computer, text};
use super::routed_network::{LineOptions, RoutedNetwork};
use super::scenario::Scenario;
use super::sessions::Session;
use super::workload::ScriptedUser;
use gateway::queue::{Concentrator1982, Discipline};
use net::meter::{Costs, Counter};
use net::station::Opening;
use net::time::{Duration, Instant};
use net::transport::tcp::{Profile, ReceiveWindow, SendLimit};
use simulator::Stuck;
use std::net::{Ipv4Addr, SocketAddr};

const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const FAST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 100);
/// Port of the second session at a host.
const SECOND_PORT: u16 = TELNET_PORT + 1;
/// More keys than any run of a session that types "meanwhile".
pub(super) const KEYS_MAX: usize = 100_000;
/// Window of the long transfer: a host of today.
const LARGE_WINDOW: usize = 60_000;

/// A measure against congestion in the concentrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The few buffers of 1982, without the fault.
    FewBuffers,
    /// Fair queueing with CoDel, which drops.
    FairQueueing,
    /// Fair queueing with CoDel, and hosts with ECN.
    Ecn,
    /// Fair queueing, and windows limited to the queue.
    LimitedWindows,
}

impl Remedy {
    pub(super) const ALL: [Self; 4] =
        [Self::FewBuffers, Self::FairQueueing, Self::Ecn, Self::LimitedWindows];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FewBuffers => "1982",
            Self::FairQueueing => "fair",
            Self::Ecn => "fair, ECN",
            Self::LimitedWindows => "limited windows",
        }
    }

    fn options(self, scenario: &Scenario, rate_bps: u64) -> LineOptions {
        let few_buffers = concentrator_of(scenario, false);
        LineOptions {
            rate_bps,
            discipline: match self {
                Self::FewBuffers => Discipline::Of1982(few_buffers),
                Self::FairQueueing | Self::Ecn | Self::LimitedWindows => Discipline::Fair,
            },
            marks_ecn: self == Self::Ecn,
            limits_windows: self == Self::LimitedWindows,
        }
    }
}

/// Returns the concentrator of the scenario, with or without its fault.
fn concentrator_of(scenario: &Scenario, is_faulty: bool) -> Concentrator1982 {
    Concentrator1982 {
        buffers: scenario.concentrator.buffers,
        burst: Duration::from_millis(scenario.concentrator.burst_ms),
        loss_ppm: if is_faulty { scenario.concentrator.burst_loss_ppm } else { 0 },
    }
}

/// Peers of the personal computers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peers {
    /// One personal computer and a fast host.
    OneAndFastHost,
    /// Two personal computers, each in a session with a fast host.
    TwoAndFastHost,
    /// Two personal computers in a session with each other.
    EachOther,
}

/// An experiment with two personal computers at lines of the same rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoHosts<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) rate_bps: u64,
    pub(super) peers: Peers,
}

pub(super) const fn active(local: Ipv4Addr, remote: Ipv4Addr, port: u16) -> Opening {
    let remote = SocketAddr::new(std::net::IpAddr::V4(remote), port);
    Opening::Active { local: std::net::IpAddr::V4(local), remote }
}

impl TwoHosts<'_> {
    /// Returns the mean time of an echo; with two fast sessions, of the slower one.
    pub(super) fn echo(&self) -> Result<Duration, Stuck> {
        let keys = self.scenario.router.keys;
        let typist = || ScriptedUser::typist(b"x".to_vec(), keys, true);
        let (mut network, readers) = self.network(&typist, &|| ScriptedUser::echoer(true));
        network.star.drive(|star| {
            readers.iter().all(|port| star.host(*port).application.user(0).is_done())
        })?;
        let times =
            readers.iter().map(|port| network.star.host(*port).application.user(0).round_trip());
        Ok(times.max().unwrap_or_default())
    }

    /// Returns the time of a screenful in packets of 500 bytes; with two, of the slower one.
    pub(super) fn screenful(&self) -> Result<Duration, Stuck> {
        let writer = || ScriptedUser::writer(text(SCREENFUL), false);
        let (mut network, readers) = self.network(&ScriptedUser::reader, &writer);
        network.star.drive(|star| {
            readers
                .iter()
                .all(|port| star.host(*port).application.user(0).console.bytes == SCREENFUL)
        })?;
        let times =
            readers.iter().map(|port| display_time(network.star.host(*port).application.user(0)));
        Ok(times.max().unwrap_or_default())
    }

    /// Creates the network. `near` are the users whose times are measured. Returns their ports.
    fn network(
        &self,
        near: &dyn Fn() -> ScriptedUser,
        far: &dyn Fn() -> ScriptedUser,
    ) -> (RoutedNetwork, Vec<usize>) {
        let mut network = RoutedNetwork::new(self.scenario.seed);
        let options = Remedy::LimitedWindows.options(self.scenario, self.rate_bps);
        let equipment = self.scenario.equipment();
        let profile = personal_computer(WINDOW);
        let passive = |port| Session::new(far(), Opening::Passive { port }, profile);
        let computer = |network: &mut RoutedNetwork, address, session| {
            network.add_computer(address, equipment, options, vec![session])
        };
        let mut ports = Vec::new();
        if self.peers == Peers::EachOther {
            let session = Session::new(near(), active(FIRST, SECOND, TELNET_PORT), profile);
            ports.push(computer(&mut network, FIRST, session));
            computer(&mut network, SECOND, passive(TELNET_PORT));
            return (network, ports);
        }
        let clients = [(FIRST, TELNET_PORT), (SECOND, SECOND_PORT)];
        let count = if self.peers == Peers::OneAndFastHost { 1 } else { 2 };
        for (address, port) in clients.into_iter().take(count) {
            let session = Session::new(near(), active(address, FAST, port), profile);
            ports.push(computer(&mut network, address, session));
        }
        let sessions = clients.map(|(_, port)| passive(port)).into();
        network.add_fast_host(FAST, Duration::ZERO, sessions);
        (network, ports)
    }
}

/// Returns the time from printing the first character to printing the last one.
pub(super) fn display_time(user: &ScriptedUser) -> Duration {
    let console = &user.console;
    console.last_cell_at - console.first_cell_at.unwrap_or(Instant::ZERO)
}

/// A screenful from Comet, with keys of another session meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct CometSession<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) rate_bps: u64,
    pub(super) remedy: Remedy,
    /// Whether the other session is at the same line. The computer then has no processing time,
    /// because the computer of 1982 processes the packets of both sessions in their order.
    pub(super) is_same_line: bool,
    pub(super) compresses_headers: bool,
}

/// Result of a screenful from Comet.
#[derive(Clone, Copy, Debug)]
pub(super) struct CometResult {
    pub(super) time: Duration,
    /// Packets dropped by the queues of the lines.
    pub(super) lost: u64,
    /// Retransmission timeouts of Comet.
    pub(super) timeouts: u64,
    /// Longest time of a key of the other session during the screenful.
    pub(super) key: Duration,
}

impl CometSession<'_> {
    /// Simulates the screenful. Returns `None` if the scenario has no host Comet.
    pub(super) fn run(&self) -> Result<Option<CometResult>, Stuck> {
        let host = self.scenario.hosts.iter().find(|host| host.name == "Comet");
        let Some(host) = host else { return Ok(None) };
        let mut network = RoutedNetwork::new(self.scenario.seed);
        let options = self.remedy.options(self.scenario, self.rate_bps);
        let equipment =
            Equipment { compresses_headers: self.compresses_headers, ..self.scenario.equipment() };
        let equipment = if self.is_same_line {
            Equipment { costs: Costs::default(), ..equipment }
        } else {
            equipment
        };
        let ecn = self.remedy == Remedy::Ecn;
        let profile = Profile { ecn, ..personal_computer(WINDOW) };
        let slow = Profile {
            rto_min: Duration::from_millis(host.retransmits_after_ms),
            retransmission: self.scenario.retransmission_timer.rule(),
            ..profile
        };
        let reader =
            Session::new(ScriptedUser::reader(), active(FIRST, FAST, TELNET_PORT), profile);
        let typist = ScriptedUser::typist(b"x".to_vec(), KEYS_MAX, true);
        let typist_address = if self.is_same_line { FIRST } else { SECOND };
        let typist = Session::new(typist, active(typist_address, FAST, SECOND_PORT), profile);
        let (first, typist_at) = if self.is_same_line {
            let first = network.add_computer(FIRST, equipment, options, vec![reader, typist]);
            (first, (first, 1))
        } else {
            let first = network.add_computer(FIRST, equipment, options, vec![reader]);
            (first, (network.add_computer(SECOND, equipment, options, vec![typist]), 0))
        };
        let writer = ScriptedUser::writer_of_pieces(&text(SCREENFUL), host.packet_bytes);
        let sessions = vec![
            Session::new(writer, Opening::Passive { port: TELNET_PORT }, slow),
            Session::new(ScriptedUser::echoer(false), Opening::Passive { port: SECOND_PORT }, slow),
        ];
        let delay = Duration::from_micros(host.echo_us / 2);
        let fast = network.add_fast_host(FAST, delay, sessions);
        Ok(Some(measure(&mut network, [first, fast], typist_at)?))
    }
}

/// Runs until the first session of the reader has displayed its screenful.
fn measure(
    network: &mut RoutedNetwork,
    [reader, fast]: [usize; 2],
    (typist, session): (usize, usize),
) -> Result<CometResult, Stuck> {
    let star = &mut network.star;
    let bytes = |star: &simulator::star::Star<_, _>| {
        let host: &simulator::Host<super::sessions::Sessions> = star.host(reader);
        host.application.user(0).console.bytes
    };
    star.drive(|star| bytes(star) > 0)?;
    let keys_before = star.host(typist).application.user(session).round_trips().len();
    star.drive(|star| bytes(star) == SCREENFUL)?;
    // The key that is typed at the end is included.
    let keys_at_end = star.host(typist).application.user(session).round_trips().len() + 1;
    star.drive(|star| {
        star.host(typist).application.user(session).round_trips().len() >= keys_at_end
    })?;
    let keys = star.host(typist).application.user(session).round_trips();
    let keys = keys.get(keys_before..keys_at_end).unwrap_or_default();
    Ok(CometResult {
        time: display_time(star.host(reader).application.user(0)),
        lost: star.center.router.counters().dropped_in_queues,
        timeouts: star.host(fast).meter.counted(Counter::TcpTimeouts),
        key: keys.iter().max().copied().unwrap_or_default(),
    })
}

/// A long transfer to a host of today, with keys of a second session at the same line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongTransfer<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) rate_bps: u64,
    pub(super) remedy: Remedy,
}

/// Result of a long transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongTransferResult {
    /// Data per time, as a fraction of the rate of the line in bytes of ten bits.
    pub(super) utilization: f64,
    /// Packets dropped by the queue of the line.
    pub(super) lost: u64,
    /// Packets marked by the queue of the line.
    pub(super) marked: u64,
    /// 99th percentile of the queue delay.
    pub(super) delay_p99: Duration,
    /// Mean and longest time of a key.
    pub(super) key: [Duration; 2],
}

impl LongTransfer<'_> {
    /// Simulates the transfer for the time of the scenario.
    pub(super) fn run(&self) -> Result<LongTransferResult, Stuck> {
        let mut network = RoutedNetwork::new(self.scenario.seed);
        let options = self.remedy.options(self.scenario, self.rate_bps);
        let equipment = Equipment { costs: Costs::default(), ..self.scenario.equipment() };
        let profile = Profile {
            receive_window: ReceiveWindow::Bytes(LARGE_WINDOW),
            send_limit: SendLimit::Bytes(LARGE_WINDOW),
            timestamps: false,
            ecn: self.remedy == Remedy::Ecn,
            ..Profile::INTERACTIVE
        };
        let typist = ScriptedUser::typist(b"x".to_vec(), KEYS_MAX, true);
        let sessions = vec![
            Session::new(ScriptedUser::reader(), active(FIRST, FAST, TELNET_PORT), profile),
            Session::new(typist, active(FIRST, FAST, SECOND_PORT), profile),
        ];
        let port = network.add_computer(FIRST, equipment, options, sessions);
        let passive = |user, port| Session::new(user, Opening::Passive { port }, profile);
        let writer = ScriptedUser::writer(text(LARGE_WINDOW), true);
        let sessions =
            vec![passive(writer, TELNET_PORT), passive(ScriptedUser::echoer(false), SECOND_PORT)];
        let delay = Duration::from_micros(self.scenario.router.path_us / 2);
        network.add_fast_host(FAST, delay, sessions);
        let star = &mut network.star;
        let end = Instant::ZERO + Duration::from_secs(self.scenario.router.transfer_s);
        star.run_until(end);
        let application = &star.host(port).application;
        let received = application.user(0).console.bytes as f64;
        let capacity = self.rate_bps as f64 / 10.0 * self.scenario.router.transfer_s as f64;
        let keys = application.user(1).round_trips();
        let mean =
            keys.iter().sum::<Duration>().checked_div(u32::try_from(keys.len()).unwrap_or(1));
        let router = &star.center.router;
        let queue = star.center.line(port).and_then(|line| router.line_counters(line));
        Ok(LongTransferResult {
            utilization: received / capacity,
            lost: queue.map_or(0, |queue| queue.dropped()),
            marked: queue.map_or(0, |queue| queue.marked),
            delay_p99: Duration::from_nanos(
                queue.and_then(|queue| queue.sojourn_ns.percentile(99)).unwrap_or(0),
            ),
            key: [mean.unwrap_or_default(), keys.iter().max().copied().unwrap_or_default()],
        })
    }
}

/// Returns the times and the numbers of timeouts of screenfuls from CSR through a router with the
/// fault of 1982, one per seed.
pub(super) fn screenfuls_with_the_fault(
    scenario: &Scenario,
    rate_bps: u64,
    trials: u32,
) -> Result<Vec<(Duration, u64)>, Stuck> {
    let Some(host) = scenario.hosts.first() else { return Ok(Vec::new()) };
    let options = LineOptions {
        discipline: Discipline::Of1982(concentrator_of(scenario, true)),
        ..Remedy::FewBuffers.options(scenario, rate_bps)
    };
    let profile = personal_computer(WINDOW);
    let slow = Profile {
        rto_min: Duration::from_millis(host.retransmits_after_ms),
        retransmission: scenario.retransmission_timer.rule(),
        ..profile
    };
    let run = |trial| {
        let mut network = RoutedNetwork::new(scenario.seed + u64::from(trial));
        let reader =
            Session::new(ScriptedUser::reader(), active(FIRST, FAST, TELNET_PORT), profile);
        let reader = network.add_computer(FIRST, scenario.equipment(), options, vec![reader]);
        let writer = ScriptedUser::writer_of_pieces(&text(SCREENFUL), host.packet_bytes);
        let writer = Session::new(writer, Opening::Passive { port: TELNET_PORT }, slow);
        let delay = Duration::from_micros(host.echo_us / 2);
        let fast = network.add_fast_host(FAST, delay, vec![writer]);
        network
            .star
            .drive(|star| star.host(reader).application.user(0).console.bytes == SCREENFUL)?;
        let time = display_time(network.star.host(reader).application.user(0));
        Ok((time, network.star.host(fast).meter.counted(Counter::TcpTimeouts)))
    };
    (0..trials).map(run).collect()
}
