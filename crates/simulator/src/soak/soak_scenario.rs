//! The parameters of a run, all of which its seed determines. Each kind of fault is randomly
//! enabled or disabled: a fault that is always enabled hides bugs that occur only without it (swarm
//! testing, Groce et al.).

use super::bulk::{Bulk, Pace, PausingReader};
use super::network::{Conditions, Network, Observations};
use crate::clock::LocalClock;
use crate::faults::Faults;
use crate::host::{Host, seed_of};
use crate::side::Side;
use crate::transmission_line::Line;
use crate::world::World;
use net::Cx;
use net::internet::addresses::Address;
use net::internet::path_mtu::IPV4_FLOOR;
use net::link::{Datagram, Link, Llp, Ppp, Slip, ppp};
use net::meter::{Clock, Costs, Meter, Work};
use net::packet::Pool;
use net::rng::Rng;
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::{
    Acknowledgment, BlackHoleDetection, Congestion, KeepAlive, Profile, ReceiveWindow, SendLimit,
    UserTimeout,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum file length, in bytes.
const FILE_MAX: u64 = 100_000;
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2),
];
const PORT: u16 = 20;
/// MTU in bytes that TCP assumes on every path, and that IPv6 requires of every link.
const BASE_MTU: u64 = 1_280;
/// Minimum time for which TCP retransmits. A connection that ends because of random loss would not
/// indicate a bug.
const RETRANSMISSION_LIMIT: Duration = Duration::from_secs(7 * 86_400);
/// Maximum transmission time of a packet, in seconds. With a longer time every timeout of TCP would
/// precede the acknowledgment.
const PACKET_TIME_MAX_S: u64 = 2;

/// Maximum pause of an application. A longer pause could prevent progress for more than three
/// timeouts.
const READ_PAUSE_MAX_MS: u64 = 3_000;

/// The world of a run of the campaign.
pub(super) type Pair = World<PausingReader, PausingReader>;

/// Encapsulation of datagrams on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// None: the network transmits complete datagrams.
    Datagrams,
    Llp,
    Ppp,
    Slip,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) conditions: Conditions,
    pub(super) carrier: Carrier,
    pub(super) compresses_headers: bool,
    pub(super) is_v6: bool,
    pub(super) mtu: u16,
    pub(super) file_lens: [u64; 2],
    pub(super) profiles: [Profile; 2],
    pub(super) paces: [Pace; 2],
    pub(super) closes_second: [bool; 2],
    pub(super) packets: [usize; 2],
    pub(super) clocks: [LocalClock; 2],
    /// Initial sequence number of each side; `None` if the host chooses it.
    pub(super) isns: [Option<u32>; 2],
    /// Time at which the server restarts and loses its connections; `None` for no restart.
    pub(super) restarts_at: Option<Instant>,
    /// Maximum pause of each application, in milliseconds.
    pub(super) read_pause_max_ms: [u64; 2],
}

/// Source of random parameters.
struct Draw(Rng);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns with probability 1/3 a random number from 1 to `maximum`, and otherwise 0.
    fn sometimes_up_to(&mut self, maximum: u64) -> u64 {
        if self.one_in(3) { self.below(maximum) + 1 } else { 0 }
    }

    fn ppm(&mut self, maximum: u64) -> u32 {
        u32::try_from(self.sometimes_up_to(maximum)).unwrap_or(0)
    }

    fn millis(&mut self, maximum: u64) -> Duration {
        Duration::from_millis(self.sometimes_up_to(maximum))
    }

    /// Returns a random number from `minimum` to `maximum`; every order of magnitude is equally
    /// likely.
    fn magnitude(&mut self, minimum: u64, maximum: u64) -> u64 {
        let octaves = u64::from((maximum / minimum.max(1)).ilog2());
        let minimum = minimum << self.below(octaves + 1);
        (minimum + self.below(minimum)).min(maximum)
    }

    fn random_instant(&mut self, limit_s: u64) -> Instant {
        Instant::from_nanos(self.below(limit_s * 1_000_000_000))
    }
}

impl Scenario {
    /// Draws all parameters of a run from its seed.
    pub(super) fn draw(seed: u64) -> Self {
        let mut draw = Draw(Rng::from_seed(seed));
        let carrier = match draw.below(8) {
            0 => Carrier::Llp,
            1 => Carrier::Ppp,
            2 => Carrier::Slip,
            _ => Carrier::Datagrams,
        };
        let is_v6 = carrier != Carrier::Llp && draw.one_in(3);
        let conditions = match carrier {
            Carrier::Datagrams => network(&mut draw, is_v6),
            _ => serial(&mut draw, carrier),
        };
        let profiles = [profile(&mut draw), profile(&mut draw)];
        let restarts_at = draw.one_in(8).then(|| draw.random_instant(20));
        let file_lens = [0, 1].map(|_| file_len(&mut draw, &conditions, &profiles));
        let first_to_close = draw.below(3);
        let isn = |draw: &mut Draw| {
            let wraparound = if draw.one_in(2) { 1 << 31 } else { 0_u32 };
            let before = u32::try_from(draw.below(FILE_MAX)).unwrap_or(0);
            draw.one_in(3).then_some(wraparound.wrapping_sub(before))
        };
        Self {
            seed,
            conditions,
            carrier,
            compresses_headers: draw.one_in(2),
            is_v6,
            mtu: conditions.mtus[0],
            file_lens,
            profiles: profiles
                .map(|profile| with_long_timeouts(profile, restarts_at.is_some()))
                .map(|profile| limit_path_search(profile, &conditions, seed)),
            paces: [0; 2].map(|_| pace(&mut draw)),
            closes_second: [first_to_close == 1, first_to_close == 2],
            packets: [0; 2].map(|_| packets(&mut draw, &conditions)),
            clocks: [0; 2].map(|_| clock(&mut draw)),
            isns: [isn(&mut draw), isn(&mut draw)],
            restarts_at,
            read_pause_max_ms: [0; 2].map(|_| draw.sometimes_up_to(READ_PAUSE_MAX_MS)),
        }
    }

    /// Creates the world of the run before its first event, and the observations of its network.
    pub(super) fn world(&self) -> (Pair, Observations) {
        let (mut world, observations) = self.build();
        if self.isns.iter().all(Option::is_none) || self.carrier != Carrier::Datagrams {
            return (world, observations);
        }
        // The hosts draw their initial sequence numbers themselves. A trial run of the same world
        // determines these numbers, so that they can be changed to the wanted ones.
        let mut event_count = 0;
        let drive_result = world.drive(|_| {
            event_count += 1;
            observations.isns.get().iter().all(Option::is_some) || event_count > 10_000
        });
        let chosen_isns = if drive_result.is_ok() { observations.isns.get() } else { [None; 2] };
        let (mut world, observations) = self.build();
        let hosts = [&mut world.user.station, &mut world.server.station];
        for ((station, drawn), wanted) in hosts.into_iter().zip(chosen_isns).zip(self.isns) {
            if let (Some(drawn), Some(wanted)) = (drawn, wanted) {
                station.layers.tcp.advance_isn_clock(wanted.wrapping_sub(drawn));
            }
        }
        (world, observations)
    }

    fn build(&self) -> (Pair, Observations) {
        let observations = Observations::default();
        let [user, server] = [self.host(Side::User, 0), self.host(Side::Server, 0)];
        let line = match self.carrier {
            Carrier::Datagrams => Line::path(Duration::ZERO),
            _ => Line::serial(self.conditions.rate_bps),
        };
        let mut world = World::new(user, server, line, self.seed);
        world.set_medium(Box::new(Network::new(self.conditions, observations.clone())));
        let [user, server] = self.clocks;
        world.set_clock(Side::User, user);
        world.set_clock(Side::Server, server);
        (world, observations)
    }

    /// Creates the host of `side`. `restart_count` is the number of restarts so far.
    pub(super) fn host(&self, side: Side, restart_count: u64) -> Host<PausingReader> {
        let own = side as usize;
        let at = |pair: [usize; 2]| pair.get(own).copied().unwrap_or_default();
        let seed = seed_of(self.seed, side) ^ restart_count;
        // A change of control takes no time, so that a run does not depend on the control
        // structure.
        let costs = Work::ALL.iter().fold(Costs::default(), |costs, work| costs.with(*work, 7));
        let costs = costs.with(Work::Switch, 0);
        let [v4, _] = local_and_remote(V4, side);
        let [v6, _] = local_and_remote(V6, side);
        let settings = Settings {
            address: v4,
            prefix_len: 24,
            packets: at(self.packets),
            ..Settings::default()
        };
        let mut host = Host::new(self.link(v4), settings, costs, seed, self.application(side));
        // The address table has space for one more address.
        _ = host.station.internet_mut().add_address(Address::permanent(v6.into(), 64));
        host
    }

    fn application(&self, side: Side) -> PausingReader {
        let mut rng = Rng::from_seed(!self.seed);
        let mut file = |len: u64| (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        let files: [Vec<u8>; 2] = self.file_lens.map(&mut file);
        let [file, expected] = local_and_remote(files, side);
        let [pace, _] = local_and_remote(self.paces, side);
        let [closes_second, _] = local_and_remote(self.closes_second, side);
        let [profile, _] = local_and_remote(self.profiles, side);
        let bulk = Bulk::new(file, expected, pace, closes_second);
        let addresses: [IpAddr; 2] =
            if self.is_v6 { V6.map(IpAddr::from) } else { V4.map(IpAddr::from) };
        let [local, remote] = local_and_remote(addresses, side);
        let remote = SocketAddr::new(remote, PORT);
        let opening = match side {
            Side::User => Opening::Active { local, remote },
            Side::Server => Opening::Passive { port: PORT },
        };
        let [read_pause_max_ms, _] = local_and_remote(self.read_pause_max_ms, side);
        PausingReader::new(TcpStreamApp::new(bulk, opening, profile), read_pause_max_ms)
    }

    fn link(&self, address: Ipv4Addr) -> Link {
        let mtu = usize::from(self.mtu);
        match (self.carrier, self.compresses_headers) {
            (Carrier::Datagrams, _) => Link::Datagram(Datagram::new(mtu)),
            (Carrier::Llp, false) => Link::Llp(Llp::new(mtu)),
            (Carrier::Llp, true) => Link::Llp(Llp::new(mtu).with_header_compression()),
            (Carrier::Slip, false) => Link::Slip(Slip::new(mtu)),
            (Carrier::Slip, true) => Link::Slip(Slip::new(mtu).with_header_compression()),
            (Carrier::Ppp, compresses_headers) => {
                let address = Some(address);
                let settings = ppp::Settings { address, compresses_headers, ..Default::default() };
                let mut ppp = Ppp::new(mtu, settings);
                let mut rng = Rng::from_seed(self.seed);
                let mut meter = Meter::new(Clock::None);
                let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
                ppp.open(&mut cx);
                Link::Ppp(Box::new(ppp))
            }
        }
    }
}

/// Returns the two values in the order local, remote, as seen from `side`.
fn local_and_remote<T>([user, server]: [T; 2], side: Side) -> [T; 2] {
    match side {
        Side::User => [user, server],
        Side::Server => [server, user],
    }
}

fn network(draw: &mut Draw, is_v6: bool) -> Conditions {
    let rate_bps = match draw.below(3) {
        0 => draw.magnitude(300, 1_000_000),
        _ => draw.magnitude(1_000_000, 10_000_000_000),
    };
    let minimum = if is_v6 { 1_280 } else { 68 };
    let maximum = (rate_bps * PACKET_TIME_MAX_S / 8).min(65_535);
    let mtu = |draw: &mut Draw| match draw.below(6) {
        0 => draw.magnitude(minimum.max(576), 65_535),
        1 => draw.magnitude(minimum, 65_535),
        2 => 576,
        _ => 1_500,
    };
    let mtus = [mtu(draw), mtu(draw)].map(|mtu| mtu.min(maximum).max(minimum));
    // If the path MTU exceeds the MTU of the hosts' own link, no error reports it.
    let mtus = if draw.one_in(4) { mtus } else { [mtus[0]; 2] };
    let (mtus, is_silent) = black_hole(draw, mtus, is_v6);
    let packets = draw.magnitude(4, 256);
    let delay_ms = match draw.below(8) {
        0 => draw.magnitude(100, 5_000),
        1 => 0,
        _ => draw.magnitude(1, 100),
    };
    Conditions {
        faults: Faults {
            loss_ppm: draw.ppm(300_000),
            duplication_ppm: draw.ppm(100_000),
            reordering_ppm: draw.ppm(300_000),
            reordering_delay_max: Duration::from_millis(draw.magnitude(1, 1_000)),
            bit_error_ppm: draw.ppm(1),
        },
        bursts_ppm: draw.ppm(20_000),
        burst_max: Duration::from_secs(2),
        delay: Duration::from_millis(delay_ms),
        jitter: draw.millis(delay_ms + 50),
        rate_bps,
        queue_bytes: usize::try_from(packets * mtus[0]).unwrap_or(usize::MAX),
        marks: draw.one_in(3),
        mtus: mtus.map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX)),
        mtu_changes_at: draw.random_instant(10),
        is_silent,
        forged_ppm: draw.ppm(20_000),
        flaps: flaps(draw),
        calm_at: Instant::ZERO + Duration::from_secs(1 << draw.below(9)),
        is_serial: false,
    }
}

/// Turns some paths into black holes: after the change the path MTU is smaller, and no ICMP error
/// reports it.
///
/// The new MTU must be at least the minimum to which TCP reduces its segments, and the old MTU must
/// exceed the MTU that TCP assumes on every path; otherwise TCP does not search for the path MTU
/// (`tcp/path_search.rs`).
fn black_hole(draw: &mut Draw, mtus: [u64; 2], is_v6: bool) -> ([u64; 2], bool) {
    let minimum = if is_v6 { BASE_MTU } else { u64::from(IPV4_FLOOR) };
    if !draw.one_in(6) || mtus[0] <= BASE_MTU {
        return (mtus, false);
    }
    ([mtus[0], minimum + draw.below(mtus[0] - minimum)], true)
}

fn serial(draw: &mut Draw, carrier: Carrier) -> Conditions {
    // SLIP has no error detection, and a header compressor trusts the line.
    let is_clean = carrier == Carrier::Slip;
    let mut ppm = |maximum| if is_clean { 0 } else { draw.ppm(maximum) };
    let faults = Faults {
        loss_ppm: ppm(200),
        duplication_ppm: ppm(50),
        bit_error_ppm: ppm(30),
        ..Faults::default()
    };
    let flaps = if is_clean { None } else { flaps(draw) };
    let rate_bps = draw.magnitude(9_600, 10_000_000);
    let mtu = if draw.one_in(2) { 576 } else { 1_500 };
    Conditions {
        faults,
        bursts_ppm: 0,
        burst_max: Duration::ZERO,
        delay: draw.millis(300),
        jitter: Duration::ZERO,
        rate_bps,
        queue_bytes: 0,
        marks: false,
        mtus: [mtu; 2],
        mtu_changes_at: Instant::ZERO,
        is_silent: false,
        forged_ppm: 0,
        flaps,
        calm_at: Instant::ZERO + Duration::from_secs(1 << draw.below(7)),
        is_serial: true,
    }
}

fn flaps(draw: &mut Draw) -> Option<[Duration; 2]> {
    let period = Duration::from_millis(draw.magnitude(1_000, 60_000));
    let downtime = period * u32::try_from(draw.below(50)).unwrap_or(0) / 100;
    draw.one_in(4).then_some([period, downtime])
}

fn profile(draw: &mut Draw) -> Profile {
    let base = if draw.one_in(3) { Profile::INTERACTIVE } else { Profile::BULK };
    let congestion = match draw.below(4) {
        0 => Congestion::NewReno,
        1 => Congestion::Bbr,
        _ => Congestion::Cubic,
    };
    let receive_window = match buffer(draw) {
        None => base.receive_window,
        Some([start, limit]) if start == limit => ReceiveWindow::Bytes(start),
        Some([start, limit]) => ReceiveWindow::Tuned { start, limit },
    };
    let send_limit = match buffer(draw) {
        Some([start, limit]) if base.send_limit != SendLimit::OneSegment => {
            SendLimit::Tuned { start, limit }
        }
        _ => base.send_limit,
    };
    let acknowledgment = match draw.below(3) {
        0 => Acknowledgment::AtOutput,
        1 => Acknowledgment::Delayed(Duration::from_millis(draw.below(500))),
        _ => base.acknowledgment,
    };
    let extensions = !draw.one_in(5);
    Profile {
        receive_window,
        send_limit,
        acknowledgment,
        congestion,
        extensions,
        timestamps: !draw.one_in(4),
        nagle: draw.one_in(2),
        ecn: draw.one_in(2),
        pacing: draw.one_in(2),
        ..base
    }
}

/// Returns the initial and the maximum size of a buffer, in bytes; `None` for the default sizes.
fn buffer(draw: &mut Draw) -> Option<[usize; 2]> {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    match draw.below(6) {
        0 => Some([bytes(draw.magnitude(100, 4_000)); 2]),
        1 => Some([bytes(draw.magnitude(1 << 18, 1 << 22)); 2]),
        2 => {
            let start = draw.magnitude(1_000, 1 << 16);
            Some([start, draw.magnitude(start, 1 << 22)].map(bytes))
        }
        _ => None,
    }
}

/// Returns `profile` with timeouts so long that TCP never closes a connection itself, and with
/// keep-alives if `keeps_alive` is true.
fn with_long_timeouts(profile: Profile, keeps_alive: bool) -> Profile {
    let idle = Duration::from_secs(60);
    let interval = Duration::from_secs(30);
    let keep_alive = keeps_alive.then_some(KeepAlive { idle, interval, probes: 1_000 });
    let user_timeout = UserTimeout {
        r2: Some(RETRANSMISSION_LIMIT),
        r2_syn: RETRANSMISSION_LIMIT,
        ..UserTimeout::DEFAULT
    };
    Profile { keep_alive, user_timeout, ..profile }
}

/// Disables the path MTU search on half of the hosts if routers report the smaller MTU: with the
/// search, a host that ignores the reports would not be detected.
fn limit_path_search(profile: Profile, conditions: &Conditions, seed: u64) -> Profile {
    let is_reported = conditions.mtus[0] != conditions.mtus[1] && !conditions.is_silent;
    let black_hole_detection = match is_reported && seed.is_multiple_of(2) {
        true => BlackHoleDetection::Off,
        false => profile.black_hole_detection,
    };
    Profile { black_hole_detection, ..profile }
}

/// Returns a file length that can be transferred within a day on this path and with these windows.
fn file_len(draw: &mut Draw, conditions: &Conditions, profiles: &[Profile; 2]) -> u64 {
    let path_bytes = conditions.rate_bps / 8 * 120;
    let windows = profiles.iter().map(|profile| match profile.send_limit {
        SendLimit::Bytes(bytes) | SendLimit::Tuned { start: bytes, .. } => {
            profile.receive_window.start().min(bytes)
        }
        SendLimit::OneSegment => profile.receive_window.start().min(500),
    });
    let window = windows.min().unwrap_or(1) as u64;
    let maximum = if conditions.is_serial { FILE_MAX / 5 } else { FILE_MAX };
    draw.below(maximum.min(path_bytes).min(window * 500))
}

/// Returns the number of packet buffers of a host: few in some runs, but enough for all fragments
/// of one segment.
fn packets(draw: &mut Draw, conditions: &Conditions) -> usize {
    let has_fragments = conditions.mtus.iter().any(|mtu| *mtu < IPV4_FLOOR);
    if draw.one_in(6) && !has_fragments { 4 } else { Pool::DEFAULT_LIMIT }
}

fn pace(draw: &mut Draw) -> Pace {
    match draw.below(3) {
        0 => Pace { piece_max: FILE_MAX, pause_max_ms: 1 },
        1 => Pace { piece_max: 3_000, pause_max_ms: 100 },
        _ => Pace { piece_max: 200, pause_max_ms: 20 },
    }
}

fn clock(draw: &mut Draw) -> LocalClock {
    let gain_ppm = i32::try_from(draw.sometimes_up_to(14)).map_or(0, |octave| 1 << octave.min(13));
    let gain_ppm = if gain_ppm == 1 { 0 } else { gain_ppm.min(10_000) };
    let gain_ppm = if draw.one_in(2) { -gain_ppm } else { gain_ppm };
    let jump = if draw.one_in(6) { draw.magnitude(1, 600_000) } else { 0 };
    LocalClock { gain_ppm, jumps_at: draw.random_instant(30), jump: Duration::from_millis(jump) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_initial_sequence_number_is_the_one_sent() {
        let is_plain = |scenario: &Scenario| {
            scenario.carrier == Carrier::Datagrams && scenario.isns.iter().all(Option::is_some)
        };
        let scenario = (0..100).map(Scenario::draw).find(is_plain).unwrap();
        let (mut world, observations) = scenario.world();
        world.drive(|_| observations.isns.get().iter().all(Option::is_some)).unwrap();
        assert_eq!(observations.isns.get(), scenario.isns);
    }
}
