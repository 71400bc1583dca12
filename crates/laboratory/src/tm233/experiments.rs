//! The experiments of TM-233 §6.2, each as one run in virtual time.

use super::costs::ibm_pc;
use super::workload::ScriptedUser;
use net::link::{Link, Llp};
use net::meter::{Account, Costs, Counter, Meter, Quantity, Work};
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::{Profile, ReceiveWindow, SendLimit};
use simulator::transmission_line::Line;
use simulator::{Host, Side, Stuck, World, seed_of};
use std::net::{Ipv4Addr, SocketAddr};

/// MTU in bytes: the packet buffers of TM-233 §5.4 have 704 bytes, including four bytes of local
/// header.
pub(super) const MTU: usize = 700;
pub(super) const PACKETS: usize = 32;
/// Seed of the tables. It determines ports and initial sequence numbers, and thereby the header
/// bytes that LLP must escape. Four of five seeds result in the echo time of the tables. With the
/// fifth, a constant header byte must be escaped, and an echo at 9,600 bit/s takes two or four
/// milliseconds longer.
pub(super) const SEED: u64 = 1982;
pub(super) const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(super) const TELNET_PORT: u16 = 23;

/// Returns the TCP profile of a personal computer, with headers of 20 bytes and segments of 500
/// bytes, as in the thesis.
pub(super) const fn personal_computer(receive_window: usize) -> Profile {
    Profile {
        receive_window: ReceiveWindow::Bytes(receive_window),
        send_limit: SendLimit::Bytes(receive_window),
        mss_max: Some(500),
        extensions: false,
        rto_min: NO_SPURIOUS_TIMEOUT,
        ..Profile::INTERACTIVE
    }
}

/// Retransmission timeout, which the thesis does not state. In its maximum data transfer test a
/// window took more than six seconds and no packet was duplicated, so its timeout was longer than
/// six seconds.
const NO_SPURIOUS_TIMEOUT: Duration = Duration::from_secs(10);
/// Receive window in bytes: a screenful plus 500 bytes (TM-233 §5.6).
pub(super) const WINDOW: usize = 2_500;
/// Receive window in the maximum data transfer test, in bytes (TM-233 §6.2.2).
pub(super) const TRANSFER_WINDOW: usize = 4_000;
/// Length of a text line of the thesis: 80 printable characters, CR and LF.
pub(super) const LINE_LEN: usize = 82;
/// Length of a screenful of 24 lines in bytes; the last line has no line end.
pub(super) const SCREENFUL: usize = 24 * LINE_LEN - 2;
/// Number of round trips over which a packet transfer time of figure 6-1 is averaged.
const TRANSFERS: usize = 100;

/// Content of the packets in figure 6-1, and whether the receiver prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Line CR of the figure: text with a carriage return after every 80 printable characters.
    CarriageReturns,
    /// Line PC of the figure: printable characters.
    Printable,
    /// Line OP of the figure: data that is not printed.
    NotPrinted,
}

/// Properties of the two computers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Equipment {
    /// Costs of the work of the two computers.
    pub costs: Costs,
    /// Whether the LLP of both computers compresses TCP headers (RFC 1144). The thesis had no
    /// header compression.
    pub compresses_headers: bool,
    /// Whether the computers send acknowledgments while one received packet is still queued, as
    /// TM-233 §7.1 proposes.
    pub answers_early: bool,
}

impl Equipment {
    /// Returns the equipment of the thesis.
    #[must_use]
    pub(crate) fn of_1982() -> Self {
        Self { costs: ibm_pc(), compresses_headers: false, answers_early: false }
    }

    pub(super) fn link(self) -> Link {
        let llp = Llp::new(MTU);
        Link::Llp(if self.compresses_headers { llp.with_header_compression() } else { llp })
    }
}

pub(super) type UserWorld = World<TcpStreamApp<ScriptedUser>, TcpStreamApp<ScriptedUser>>;

pub(super) fn world(
    [user, server]: [ScriptedUser; 2],
    equipment: Equipment,
    line: Line,
    profile: Profile,
    seed: u64,
) -> UserWorld {
    let remote = SocketAddr::new(SERVER.into(), TELNET_PORT);
    let active = Opening::Active { local: USER.into(), remote };
    let passive = Opening::Passive { port: TELNET_PORT };
    let user = TcpStreamApp::new(user, active, profile);
    let server = TcpStreamApp::new(server, passive, profile);
    World::new(
        computer(equipment, USER, seed_of(seed, Side::User), user),
        computer(equipment, SERVER, seed_of(seed, Side::Server), server),
        line,
        seed,
    )
}

/// Creates a personal computer with a serial line.
pub(super) fn computer(
    equipment: Equipment,
    address: Ipv4Addr,
    seed: u64,
    application: TcpStreamApp<ScriptedUser>,
) -> Host<TcpStreamApp<ScriptedUser>> {
    let settings = Settings { address, prefix_len: 24, packets: PACKETS, ..Settings::default() };
    let host = Host::new(equipment.link(), settings, equipment.costs, seed, application);
    if equipment.answers_early { host.answering_early() } else { host }
}

/// Returns text with a carriage return and line feed after every 80 printable characters.
pub(super) fn text(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| match at % LINE_LEN {
            80 => b'\r',
            81 => b'\n',
            column => b'!' + u8::try_from(column).unwrap_or(0),
        })
        .collect()
}

/// Returns the mean time from a key to its echo, over `keys` keys (table 6-4).
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub fn echo(rate_bps: u64, keys: usize) -> Result<Duration, Stuck> {
    Ok(echo_with(Equipment::of_1982(), rate_bps, keys)?.time)
}

/// Results of an echo measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Echo {
    /// Mean time from the key to its echo.
    pub time: Duration,
    /// Bytes on the line per key, in both directions, including the LLP control bytes REQ, ACK and
    /// END.
    pub line_bytes: f64,
}

/// Like [`echo`], with the given equipment. Returns the means over `keys` keys.
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub(crate) fn echo_with(equipment: Equipment, rate_bps: u64, keys: usize) -> Result<Echo, Stuck> {
    let typist = ScriptedUser::typist(b"x".to_vec(), keys, true);
    let profile = personal_computer(WINDOW);
    let users = [typist, ScriptedUser::echoer(true)];
    let mut world = world(users, equipment, Line::serial(rate_bps), profile, SEED);
    open(&mut world)?;
    let opening = world.user.meter.units(Work::LineByte);
    world.drive(|world| world.user.application.stream.is_done())?;
    let bytes = world.user.meter.units(Work::LineByte) - opening;
    let time = world.user.application.stream.round_trip();
    Ok(Echo { time, line_bytes: bytes as f64 / keys as f64 })
}

/// Returns the transfer time of a packet with `data_bytes` of data between two computers, measured
/// as half of a round trip (figure 6-1).
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub fn packet_transfer(
    rate_bps: u64,
    data_bytes: usize,
    content: Content,
) -> Result<Duration, Stuck> {
    packet_transfer_with(Equipment::of_1982(), rate_bps, data_bytes, content)
}

/// Like [`packet_transfer`], with the given equipment.
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub(crate) fn packet_transfer_with(
    equipment: Equipment,
    rate_bps: u64,
    data_bytes: usize,
    content: Content,
) -> Result<Duration, Stuck> {
    let payload = match content {
        Content::CarriageReturns => text(data_bytes),
        Content::Printable | Content::NotPrinted => vec![b'x'; data_bytes],
    };
    let prints = content != Content::NotPrinted;
    let world = world_after_echoes(equipment, rate_bps, payload, TRANSFERS, prints, SEED)?;
    Ok(world.user.application.stream.round_trip() / 2)
}

/// Returns the world after `count` packets with `payload` were sent and echoed.
fn world_after_echoes(
    equipment: Equipment,
    rate_bps: u64,
    payload: Vec<u8>,
    count: usize,
    prints: bool,
    seed: u64,
) -> Result<UserWorld, Stuck> {
    let typist = ScriptedUser::typist(payload, count, prints);
    let echoer = ScriptedUser::echoer(prints);
    let users = [typist, echoer];
    let mut world =
        world(users, equipment, Line::serial(rate_bps), personal_computer(WINDOW), seed);
    world.drive(|world| world.user.application.stream.is_done())?;
    Ok(world)
}

/// Results of displaying a screenful.
#[derive(Clone, Debug)]
pub struct Screenful {
    /// Time from the start of printing the first character to the end of printing the last one
    /// (table 6-5).
    pub first_to_last: Duration,
    /// Number of data packets that carried the screenful.
    pub packets: u64,
    /// Time charged to each layer account of the meter for all packets of the screenful, in
    /// nanoseconds (table 6-3).
    pub charged_ns: Vec<(Account, u64)>,
    /// Number of carriage returns printed, each with its line feed.
    pub new_lines: u64,
}

impl Screenful {
    /// Returns the total processor time.
    #[must_use]
    pub(crate) fn busy(&self) -> Duration {
        let busy = self.charged_ns.iter().filter(|(account, _)| *account != Account::Outside);
        Duration::from_nanos(busy.map(|(_, ns)| ns).sum())
    }

    /// Returns the time charged to `account`.
    #[must_use]
    pub(crate) fn charged(&self, account: Account) -> Duration {
        let charged = self.charged_ns.iter().filter(|(other, _)| *other == account);
        Duration::from_nanos(charged.map(|(_, ns)| ns).sum())
    }
}

/// Simulates the display of a screen of 24 lines of 80 characters.
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub fn screenful(rate_bps: u64) -> Result<Screenful, Stuck> {
    screenful_with(Equipment::of_1982(), rate_bps, WINDOW, SEED)
}

/// Runs until the connection is established: the user has sent two packets, and the END of the
/// second one is on the line.
pub(super) fn open(world: &mut UserWorld) -> Result<(), Stuck> {
    world.drive(|world| world.user.meter.counted(Counter::LinkPacketsOut) == 2)
}

/// Like [`screenful`], with the given equipment and a receive window of `window` bytes.
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub(crate) fn screenful_with(
    equipment: Equipment,
    rate_bps: u64,
    window: usize,
    seed: u64,
) -> Result<Screenful, Stuck> {
    text_with(equipment, rate_bps, window, seed, SCREENFUL)
}

/// Like [`screenful_with`], for a text of `len` bytes.
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub(super) fn text_with(
    equipment: Equipment,
    rate_bps: u64,
    window: usize,
    seed: u64,
    len: usize,
) -> Result<Screenful, Stuck> {
    let reader = ScriptedUser::reader();
    let writer = ScriptedUser::writer(text(len), false);
    let users = [reader, writer];
    let line = Line::serial(rate_bps);
    let mut world = world(users, equipment, line, personal_computer(window), seed);
    // The cost of opening the connection is not part of the screenful.
    open(&mut world)?;
    let before = world.user.meter.accounts();
    let packets = |host: &Host<_>| host.meter.distribution(Quantity::SegmentBytesIn).count();
    let packets_before = packets(&world.user);
    world.drive(|world| world.user.application.stream.console.bytes == len)?;
    let console = &world.user.application.stream.console;
    let first = console.first_cell_at.unwrap_or(Instant::ZERO);
    let after = world.user.meter.accounts();
    let charged = before.iter().zip(after).map(|(before, after)| after - before);
    Ok(Screenful {
        first_to_last: console.last_cell_at - first,
        packets: packets(&world.user) - packets_before,
        charged_ns: Account::ALL.iter().copied().zip(charged).collect(),
        new_lines: world.user.meter.units(Work::NewLine),
    })
}

/// Results of the maximum data transfer test.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Data packets received.
    pub packets_in: u64,
    /// Packets sent by the receiver: acknowledgments.
    pub packets_out: u64,
    /// Data bytes received in order.
    pub data_bytes: u64,
    /// Packets retransmitted by the sender.
    pub retransmissions: u64,
    /// Processor time of the receiver.
    pub receiver_busy: Duration,
    /// Processor time of the sender in the layers above the interrupt level.
    pub sender_layers: Duration,
}

/// Simulates the maximum data transfer test: sends for `time` after the connection is open (table
/// 6-2).
///
/// # Errors
///
/// Returns an error if no event is left before the end of the run.
pub(crate) fn maximum_transfer_with(
    equipment: Equipment,
    rate_bps: u64,
    time: Duration,
) -> Result<Transfer, Stuck> {
    let reader = ScriptedUser::reader();
    let writer = ScriptedUser::writer(text(TRANSFER_WINDOW), true);
    let profile = personal_computer(TRANSFER_WINDOW);
    let line = Line::serial(rate_bps);
    let mut world = world([reader, writer], equipment, line, profile, SEED);
    // The ACK of the three-way handshake does not acknowledge data.
    open(&mut world)?;
    let opening = world.user.meter.counted(Counter::TcpPureAcksOut);
    let before = [busy(&world.user.meter), layer_time(&world.server.meter)];
    let end = world.now() + time;
    world.run_until(end);
    Ok(Transfer {
        packets_in: world.user.meter.distribution(Quantity::SegmentBytesIn).count(),
        packets_out: world.user.meter.counted(Counter::TcpPureAcksOut) - opening,
        data_bytes: world.user.application.stream.console.bytes as u64,
        retransmissions: world.server.meter.counted(Counter::TcpRetransmissions),
        receiver_busy: busy(&world.user.meter) - before[0],
        sender_layers: layer_time(&world.server.meter) - before[1],
    })
}

fn busy(meter: &Meter) -> Duration {
    layer_time(meter) + Duration::from_nanos(meter.charged(Account::Interrupt))
}

/// Returns the processor time in the layers above the interrupt level.
fn layer_time(meter: &Meter) -> Duration {
    let outside = [Account::Interrupt, Account::Outside];
    let layers = Account::ALL.iter().filter(|account| !outside.contains(account));
    Duration::from_nanos(layers.map(|account| meter.charged(*account)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER_SEED: u64 = 233;

    fn key(seed: u64) -> Duration {
        let equipment = Equipment::of_1982();
        let world = world_after_echoes(equipment, 9_600, b"x".to_vec(), 1_000, true, seed).unwrap();
        world.user.application.stream.round_trip()
    }

    /// Returns the echo time of a key, minus the transmission time of the additional bytes by which
    /// LLP escapes header bytes.
    fn key_without_escapes(seed: u64) -> Duration {
        let equipment = Equipment::of_1982();
        let world = world_after_echoes(equipment, 9_600, b"x".to_vec(), 1_000, true, seed).unwrap();
        let meters = [&world.user.meter, &world.server.meter];
        let escapes: u64 = meters.iter().map(|meter| meter.counted(Counter::LinkEscapesOut)).sum();
        let byte_ns = 1_041_667;
        let escaped = Duration::from_nanos(escapes * byte_ns / 1_000);
        world.user.application.stream.round_trip() - escaped
    }

    fn screenful_time(rate_bps: u64, seed: u64) -> Duration {
        let screenful = screenful_with(Equipment::of_1982(), rate_bps, WINDOW, seed);
        screenful.unwrap().first_to_last
    }

    #[test]
    fn a_repeated_echo_is_identical_to_the_nanosecond() {
        assert_eq!(key(SEED), key(SEED));
    }

    #[test]
    fn a_repeated_screenful_is_identical_to_the_nanosecond() {
        let run = || screenful(9_600).map(|run| (run.first_to_last, run.charged_ns));
        assert_eq!(run(), run());
    }

    #[test]
    fn another_seed_changes_an_echo_only_by_its_llp_escapes() {
        let ours = key_without_escapes(SEED);
        for seed in [OTHER_SEED, 1, 2, 3, 4, 5] {
            let other = key_without_escapes(seed);
            assert!(ours.abs_diff(other) < ours / 10_000, "{ours:?} and {other:?}, seed {seed}");
        }
    }

    #[test]
    fn a_second_seed_changes_a_screenful_by_less_than_a_hundredth() {
        for rate_bps in [4_800, 9_600, 19_200, 23_040] {
            let [a, b] = [SEED, OTHER_SEED].map(|seed| screenful_time(rate_bps, seed));
            assert!(a.abs_diff(b) < a / 100, "{a:?} and {b:?} at {rate_bps} bit/s");
        }
    }

    #[test]
    fn the_maximum_transfer_has_no_retransmission_and_one_acknowledgment_per_eight_packets() {
        let transfer =
            maximum_transfer_with(Equipment::of_1982(), 9_600, Duration::from_secs(60)).unwrap();
        assert_eq!(transfer.retransmissions, 0);
        assert_eq!(transfer.packets_out, transfer.packets_in / 8);
    }
}
