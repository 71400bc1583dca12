//! `bench steps`: the cost of a station without a device, in one process.
//!
//! One station serves another that connects to it. Each datagram is copied from a packet of one
//! station to a packet of the other, as a device would do. The clock runs only while the server
//! receives a batch, runs its application and transmits its answers: the work of the driver's loop
//! between read and write. The figure contains no system call and no other process, so that changes
//! to the engines are visible even on a busy machine.

use anyhow::{Context, Result, bail, ensure};
use net::Cx;
use net::link::{Datagram, Link};
use net::meter::{Account, Clock, Counter, Meter};
use net::packet::{ChecksumState, Packet};
use net::rng::Rng;
use net::station::{Application, Frame, Layers, Settings, Station, Step};
use net::time::Duration;
use net::transport::tcp::{ConnectionId, Profile, ReceiveWindow, SendLimit};
use os::clock::{Monotonic, counter, ticks};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

pub(super) const USAGE: &str = "\
usage: ./x bench steps [--blocks N] [--only echo|in|out]

  --blocks N     number of blocks; median and minimum are printed (default 31, from 1 to 10000)
  --only WHAT    run only the rows of one kind, for example under a profiler";

const USER: Ipv4Addr = Ipv4Addr::new(10, 82, 255, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 82, 255, 1);
const PORT: u16 = 7;
const MTU: usize = 1500;
/// Number of datagrams that a driver reads before it transmits.
const BATCH: usize = 64;
/// Number of exchanges in a measurement block. In an exchange the client sends once and the server
/// answers once.
const EXCHANGES_PER_BLOCK: u64 = 2_000;
/// Number of exchanges of one byte after the connection has been opened.
const WARM_UP_EXCHANGES: u64 = 8;
/// Bulk data in both directions.
static ZEROS: [u8; 65_536] = [0; 65_536];

/// Traffic on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// One byte and its echo.
    Echo,
    /// Bulk data to the server.
    In,
    /// Bulk data from the server.
    Out,
}

struct Row {
    name: &'static str,
    load: Load,
    /// Whether the device performs segmentation and checksums.
    has_offloads: bool,
    is_metered: bool,
}

const ROWS: [Row; 5] = [
    Row { name: "echo, offloads", load: Load::Echo, has_offloads: true, is_metered: true },
    Row { name: "echo, meter off", load: Load::Echo, has_offloads: true, is_metered: false },
    Row { name: "echo, plain", load: Load::Echo, has_offloads: false, is_metered: true },
    Row { name: "in, plain", load: Load::In, has_offloads: false, is_metered: true },
    Row { name: "out, plain", load: Load::Out, has_offloads: false, is_metered: true },
];

/// Measures all rows, or those of one kind, and prints them.
pub(super) fn run(arguments: &[&str]) -> Result<()> {
    let mut blocks = 31_usize;
    let mut only = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match (*word, words.next().copied().unwrap_or_default()) {
            ("--blocks", number) => {
                let number = number.parse().ok().filter(|number| (1..=10_000).contains(number));
                blocks = number.context(USAGE)?;
            }
            ("--only", "echo") => only = Some(Load::Echo),
            ("--only", "in") => only = Some(Load::In),
            ("--only", "out") => only = Some(Load::Out),
            _ => bail!("unknown argument '{}'\n{USAGE}", word.escape_debug()),
        }
    }
    let mut text = String::from("row                    median (ns)  least (ns)  pure ACKs out\n");
    for row in ROWS.iter().filter(|row| only.is_none_or(|only| row.load == only)) {
        let mut figures = Vec::with_capacity(blocks);
        let mut pair = Pair::connect(row)?;
        for _ in 0..=blocks {
            figures.push(pair.measure_block(row.load)?);
        }
        // The first block runs with cold caches and a small window.
        figures.remove(0);
        figures.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (median, acks) = figures.get(figures.len() / 2).copied().unwrap_or_default();
        let min_ns = figures.first().copied().unwrap_or_default().0;
        writeln!(text, "{:<21}  {median:>11.1}  {min_ns:>10.1}  {acks:>13.3}", row.name)?;
    }
    text.push_str("server time and pure ACKs per datagram received (echo, in) or sent (out)\n");
    std::io::stdout().write_all(text.as_bytes()).context("the table cannot be written")
}

/// One host with the resources that its driver provides.
struct Host {
    station: Station,
    meter: Meter,
    rng: Rng,
    clock: Monotonic,
}

/// Two hosts and the connection between them.
struct Pair {
    user: Host,
    server: Host,
    service: Service,
    id: ConnectionId,
    ns_per_tick: f64,
    in_flight: Vec<Packet>,
}

impl Host {
    fn new(address: Ipv4Addr, row: &Row, clock: Monotonic) -> Self {
        let meter =
            if row.is_metered { Meter::new(Clock::Counter(counter())) } else { Meter::off() };
        let mut rng = Rng::from_seed(u64::from(address.to_bits()));
        let mut meter = meter;
        let settings = Settings {
            address,
            prefix_len: 24,
            packets: 512,
            tso: row.has_offloads,
            checksum_offload: row.has_offloads,
            routines: os::checksum::routines(),
            ..Settings::default()
        };
        let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
        let station = Station::new(Link::Datagram(Datagram::new(MTU)), settings, &mut cx);
        Self { station, meter, rng, clock }
    }

    fn parts(&mut self) -> (&mut Station, Cx<'_>) {
        let now = self.clock.now();
        let cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        (&mut self.station, cx)
    }

    /// Appends pending output to `out`, each datagram in a packet of its own.
    fn transmit(&mut self, out: &mut Vec<Packet>, limit: usize) {
        let (station, mut cx) = self.parts();
        let mut device = |frame: Frame<'_>, _: &mut Cx<'_>| {
            let mut packet = Packet::from_slice(frame.packet.data());
            frame.tail.iter().for_each(|part| packet.extend(part));
            packet.offload.segment_size = frame.packet.offload.segment_size;
            if frame.packet.offloaded_checksum().is_some() {
                packet.offload.checksum = ChecksumState::Verified;
            }
            out.push(packet);
            out.len() < limit
        };
        station.transmit_to(&mut device, &mut cx);
    }

    /// Delivers a copy of a datagram to the station.
    fn receive(&mut self, datagram: &Packet) {
        let (station, mut cx) = self.parts();
        let Some(mut packet) = station.lend(&mut cx) else { return };
        packet.extend(datagram.data());
        packet.offload = datagram.offload;
        station.receive_packet(packet, &mut cx);
    }
}

impl Pair {
    fn connect(row: &Row) -> Result<Self> {
        let clock = Monotonic::start();
        let mut user = Host::new(USER, row, clock);
        let mut server = Host::new(SERVER, row, clock);
        let profile = Profile {
            receive_window: ReceiveWindow::Bytes(1 << 20),
            send_limit: SendLimit::Bytes(1 << 20),
            nagle: false,
            ..Profile::BULK
        };
        let listening = server.station.layers.tcp.listen(PORT, profile);
        ensure!(listening.is_ok(), "cannot listen: the port is in use");
        let (station, mut cx) = user.parts();
        let remote = SocketAddr::new(SERVER.into(), PORT);
        let opened = station.layers.tcp.open(USER.into(), remote, profile, &mut cx);
        let id = opened.ok().context("the connection cannot be opened")?;
        let service = Service { load: row.load };
        let started = clock.now();
        let from = ticks();
        std::thread::sleep(Duration::from_millis(20));
        let ns_per_tick = (clock.now() - started).as_nanos() as f64 / (ticks() - from) as f64;
        let mut pair = Self { user, server, service, id, ns_per_tick, in_flight: Vec::new() };
        for _ in 0..WARM_UP_EXCHANGES {
            pair.exchange(Load::Echo)?;
        }
        Ok(pair)
    }

    /// Measures one block. Returns the nanoseconds per datagram, and the number of pure
    /// acknowledgments per datagram.
    fn measure_block(&mut self, load: Load) -> Result<(f64, f64)> {
        let acks_before = self.server.meter.counted(Counter::TcpPureAcksOut);
        let mut ticks = 0;
        let mut datagrams = 0;
        for _ in 0..EXCHANGES_PER_BLOCK {
            let (elapsed_ticks, count) = self.exchange(load)?;
            ticks += elapsed_ticks;
            datagrams += count;
        }
        let acks = self.server.meter.counted(Counter::TcpPureAcksOut) - acks_before;
        ensure!(datagrams > 0, "no datagram was transferred");
        let each = |total: f64| total / datagrams as f64;
        Ok((each(ticks as f64 * self.ns_per_tick), each(acks as f64)))
    }

    /// Lets the client send once and the server answer once. Returns the clock ticks spent in the
    /// server, and the number of datagrams.
    fn exchange(&mut self, load: Load) -> Result<(u64, u64)> {
        let tcp = &mut self.user.station.layers.tcp;
        while tcp.event().is_some() {}
        while let Some(count @ 1..) = tcp.received(self.id).ok().map(<[u8]>::len) {
            tcp.consume(self.id, count).ok().context("the connection has closed")?;
        }
        let sent = match load {
            Load::Echo => tcp.send(self.id, b"x"),
            Load::In => tcp.send(self.id, &ZEROS),
            Load::Out => Ok(0),
        };
        sent.ok().context("the connection has closed")?;
        let mut datagrams = core::mem::take(&mut self.in_flight);
        self.user.transmit(&mut datagrams, BATCH);
        let received_count = datagrams.len();
        let started = ticks();
        for datagram in datagrams.drain(..) {
            self.server.meter.enter(Account::Interrupt);
            self.server.receive(&datagram);
        }
        self.answer(&mut datagrams);
        let elapsed_ticks = ticks() - started;
        let count = if load == Load::Out { datagrams.len() } else { received_count };
        datagrams.drain(..).for_each(|datagram| self.user.receive(&datagram));
        self.in_flight = datagrams;
        Ok((elapsed_ticks, count as u64))
    }

    fn answer(&mut self, datagrams: &mut Vec<Packet>) {
        let service = &mut self.service;
        let (station, mut cx) = self.server.parts();
        let timer_expired = station.deadline().is_some_and(|at| at <= cx.now);
        if timer_expired {
            station.step(Step::Timer, service, &mut cx);
        }
        if station.has_events() {
            let previous_account = cx.meter.enter(Account::Outside);
            station.step(Step::User, service, &mut cx);
            cx.meter.enter(previous_account);
        }
        self.server.transmit(datagrams, BATCH);
    }
}

/// Service of the server's connection.
struct Service {
    load: Load,
}

impl Application for Service {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, _cx: &mut Cx<'_>) {
        while let Some((id, _)) = layers.tcp.event() {
            while let Some(1..) = self.serve(id, layers) {}
        }
    }
}

impl Service {
    fn serve(&self, id: ConnectionId, layers: &mut Layers) -> Option<usize> {
        if self.load == Load::Out {
            return layers.tcp.send(id, &ZEROS).ok();
        }
        let mut piece = [0; 64];
        let data = layers.tcp.received(id).ok()?;
        let mut count = data.len();
        if self.load == Load::Echo {
            count = count.min(piece.len());
            let answer = piece.get_mut(..count)?;
            answer.copy_from_slice(data.get(..count)?);
            count = layers.tcp.send(id, answer).ok()?;
        }
        layers.tcp.consume(id, count).ok()?;
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data in a full segment, after the headers and the timestamps option.
    const MSS: usize = MTU - 52;

    /// Returns the number of datagrams in each of ten exchanges after those of the warm-up, and the
    /// bytes that the client has received, and the server has acknowledged, in all exchanges.
    fn ten_exchanges(row: &Row) -> (Vec<u64>, u64, u64) {
        let mut pair = Pair::connect(row).unwrap();
        let counts = (0..10).map(|_| pair.exchange(row.load).unwrap().1).collect();
        let status = pair.user.station.layers.tcp.status(pair.id);
        let statistics = status.ok().unwrap().statistics;
        (counts, statistics.bytes_in, statistics.bytes_acknowledged)
    }

    #[test]
    fn every_echo_is_one_byte_in_one_datagram() {
        for row in ROWS.iter().filter(|row| row.load == Load::Echo) {
            let bytes = WARM_UP_EXCHANGES + 10;
            assert_eq!(ten_exchanges(row), (vec![1; 10], bytes, bytes), "{}", row.name);
        }
    }

    #[test]
    fn bulk_data_to_the_server_is_acknowledged_and_fills_the_datagrams() {
        for row in ROWS.iter().filter(|row| row.load == Load::In) {
            let (counts, received, acknowledged) = ten_exchanges(row);
            let sent = WARM_UP_EXCHANGES + 10 * ZEROS.len() as u64;
            assert_eq!((received, acknowledged), (0, sent), "{}", row.name);
            // The congestion window has grown to all segments of an exchange.
            let segments = ZEROS.len().div_ceil(MSS) as u64;
            assert_eq!(counts.last(), Some(&segments), "{counts:?}");
        }
    }

    #[test]
    fn bulk_data_from_the_server_fills_every_batch() {
        for row in ROWS.iter().filter(|row| row.load == Load::Out) {
            let (counts, received, acknowledged) = ten_exchanges(row);
            assert_eq!(counts, vec![BATCH as u64; 10], "{}", row.name);
            assert_eq!(acknowledged, WARM_UP_EXCHANGES);
            assert!(received >= 10 * (BATCH * MSS) as u64, "{received}");
        }
    }
}
