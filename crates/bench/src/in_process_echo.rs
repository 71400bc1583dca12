//! Two hosts in one process and a wire without delay: an echo that consists of plumb's code only.
//!
//! The cost of a meter is too small to be measured between two processes that wait for each other
//! through the scheduler. Here a key passes down through Telnet, TCP, IP and a datagram link, up
//! through the same layers of the other host, and back, without system calls except for the clock.
//! The scheduler steps and the accounts of the meter are those of the driver on a TUN.

use super::rounds::Ratio;
use anyhow::{Result, ensure};
use net::Cx;
use net::application::Stream;
use net::link::{Datagram, Link};
use net::meter::{Account, Clock, Meter};
use net::rng::Rng;
use net::station::{Opening, Scheduler, Settings, Station, TcpStreamApp};
use net::transport::tcp::Profile;
use os::clock::{Monotonic, counter, ticks};
use protocols::telnet::{Event, ServerSettings, Telnet, UserSettings};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MTU: usize = 1500;
const PORT: u16 = 23;
const USER: Ipv4Addr = Ipv4Addr::new(10, 82, 255, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 82, 255, 1);
const SCREENFUL: usize = 32 * 1024;

/// Telnet endpoint that counts received data. The server's endpoint also echoes the data.
#[derive(Debug)]
struct EchoEndpoint {
    telnet: Telnet,
    echoes: bool,
    bytes: usize,
}

impl Stream for EchoEndpoint {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            let Event::Data(run) = event else { continue };
            self.bytes += run.len();
            if self.echoes {
                self.telnet.send(run, cx);
            }
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

/// One host with the resources that its driver provides.
struct Host {
    station: Station,
    scheduler: Scheduler,
    tcp_app: TcpStreamApp<EchoEndpoint>,
    clock: Monotonic,
    meter: Meter,
    rng: Rng,
    wire: Vec<u8>,
}

impl Host {
    fn new(
        end: EchoEndpoint,
        address: Ipv4Addr,
        opening: Opening,
        is_metered: bool,
        clock: Monotonic,
    ) -> Self {
        let mut meter =
            if is_metered { Meter::new(Clock::Counter(counter())) } else { Meter::off() };
        let mut rng = Rng::from_seed(u64::from(address.to_bits()));
        let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
        let settings = Settings { address, prefix_len: 24, ..Settings::default() };
        let station = Station::new(Link::Datagram(Datagram::new(MTU)), settings, &mut cx);
        let tcp_app = TcpStreamApp::new(end, opening, Profile::interactive(SCREENFUL));
        let scheduler = Scheduler::default();
        let wire = Vec::new();
        Self { station, scheduler, tcp_app, clock, meter, rng, wire }
    }

    /// Runs all scheduler steps that are ready, as a driver does after a wait.
    fn run(&mut self) {
        let now = self.clock.now();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.scheduler.run(&mut self.station, &mut self.tcp_app, &mut cx);
    }

    /// Puts the next datagram on the wire; `false` if there is none.
    fn transmit(&mut self) -> bool {
        self.wire.clear();
        let now = self.clock.now();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        if self.station.transmit_into(&mut self.wire, MTU, &mut cx) == 0 {
            return false;
        }
        self.charge_skipped_call(Account::Interrupt);
        true
    }

    /// Receives a datagram from the wire, like a driver after a wait for input.
    fn receive(&mut self, datagram: &[u8]) {
        self.charge_skipped_call(Account::Outside);
        self.charge_skipped_call(Account::Interrupt);
        let now = self.clock.now();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.station.receive(datagram, &mut cx);
    }

    /// Enters and leaves an account of the meter, as the driver would for a system call that is
    /// omitted here.
    fn charge_skipped_call(&mut self, account: Account) {
        let previous_account = self.meter.enter(account);
        self.meter.enter(previous_account);
    }
}

/// Two hosts with an established connection.
pub(super) struct Wire {
    user: Host,
    server: Host,
}

impl Wire {
    /// Connects two hosts with meters on or off.
    pub(super) fn connect(is_metered: bool) -> Result<Self> {
        let user = UserSettings { starts_negotiation: false, ..UserSettings::default() };
        let server = ServerSettings { starts_negotiation: false, ..ServerSettings::default() };
        let user = EchoEndpoint { telnet: Telnet::user(&user), echoes: false, bytes: 0 };
        let server = EchoEndpoint { telnet: Telnet::server(&server), echoes: true, bytes: 0 };
        let remote = SocketAddrV4::new(SERVER, PORT);
        let active = Opening::Active { local: USER.into(), remote: remote.into() };
        let passive = Opening::Passive { port: PORT };
        let clock = Monotonic::start();
        let mut wire = Self {
            user: Host::new(user, USER, active, is_metered, clock),
            server: Host::new(server, SERVER, passive, is_metered, clock),
        };
        wire.run_until_idle();
        ensure!(
            wire.user.tcp_app.is_open(),
            "the connection between the two hosts was not established"
        );
        Ok(wire)
    }

    /// Sends one key, and carries datagrams until its echo has arrived and both hosts are idle.
    pub(super) fn echo(&mut self) -> Result<()> {
        let before = self.user.tcp_app.stream.bytes;
        let now = self.user.clock.now();
        self.user.charge_skipped_call(Account::Outside);
        let mut cx = Cx { now, rng: &mut self.user.rng, meter: &mut self.user.meter };
        self.user.tcp_app.stream.telnet.send(b"x", &mut cx);
        self.user.tcp_app.notice();
        self.run_until_idle();
        ensure!(
            self.user.tcp_app.stream.bytes == before + 1,
            "no echo has arrived from the server"
        );
        Ok(())
    }

    fn run_until_idle(&mut self) {
        // An echo needs fewer than 32 exchanges between the hosts.
        for _ in 0..32 {
            let sent = transfer_datagram(&mut self.user, &mut self.server);
            let has_answered = transfer_datagram(&mut self.server, &mut self.user);
            if !sent && !has_answered {
                return;
            }
        }
    }
}

fn transfer_datagram(from: &mut Host, to: &mut Host) -> bool {
    from.run();
    let mut has_sent = false;
    while from.transmit() {
        to.receive(&from.wire);
        has_sent = true;
    }
    has_sent
}

/// Cost of an echo with and without meters, for both hosts together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Costs {
    /// Nanoseconds per echo with meters and without meters, for each pair of measurement blocks.
    pub(super) blocks: Vec<(u64, u64)>,
    /// Ratio of the cost with meters to the cost without meters, over all pairs of blocks.
    pub(super) ratio: Option<Ratio>,
}

/// Measures `blocks` pairs of blocks: one block with meters and one without meters. Each block has
/// `echoes` echoes.
pub(super) fn measure(blocks: usize, echoes: u32) -> Result<Costs> {
    let mut metered_wire = Wire::connect(true)?;
    let mut unmetered_wire = Wire::connect(false)?;
    let mut pairs = Vec::with_capacity(blocks);
    for block in 0..=blocks {
        // The second block of a pair runs with warm caches, so the order within pairs alternates.
        let pair = if block % 2 == 0 {
            let metered_ns = time(&mut metered_wire, echoes)?;
            (metered_ns, time(&mut unmetered_wire, echoes)?)
        } else {
            let unmetered_ns = time(&mut unmetered_wire, echoes)?;
            (time(&mut metered_wire, echoes)?, unmetered_ns)
        };
        pairs.push(pair);
    }
    // The first block runs with cold caches.
    pairs.remove(0);
    Ok(Costs { ratio: Ratio::from_pairs(&pairs), blocks: pairs })
}

/// Interval of meter reads: the shortest that `plumb meters` uses.
const READ_INTERVAL: Duration = Duration::from_millis(20);

/// Measures `blocks` pairs of blocks, all with meters: one block while another thread reads the
/// meters, and one while no thread does. Each block has `echoes` echoes. Returns the ratio of the
/// cost with reads to the cost without reads.
pub(super) fn measure_read(blocks: usize, echoes: u32) -> Result<Option<Ratio>> {
    let mut wire = Wire::connect(true)?;
    let counter_blocks = [wire.user.meter.counter_block(), wire.server.meter.counter_block()];
    let is_read = AtomicBool::new(false);
    let is_over = AtomicBool::new(false);
    let mut pairs = Vec::with_capacity(blocks);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if is_read.load(Ordering::Relaxed) {
                    let snapshots = counter_blocks
                        .each_ref()
                        .map(|counter_block| counter_block.snapshot(ticks()));
                    std::hint::black_box(&snapshots);
                }
                thread::sleep(READ_INTERVAL);
            }
        });
        let mut block = |reads: bool| {
            is_read.store(reads, Ordering::Relaxed);
            time(&mut wire, echoes)
        };
        for number in 0..=blocks {
            // The second block of a pair runs with warm caches, so the order within pairs
            // alternates.
            let first = number % 2 == 0;
            let first_result = block(first);
            let second_result = block(!first);
            let (read, unread) =
                if first { (first_result, second_result) } else { (second_result, first_result) };
            match (read, unread) {
                (Ok(read), Ok(unread)) => pairs.push((read, unread)),
                _ => break,
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    ensure!(pairs.len() > blocks, "no echo has arrived from the server");
    pairs.remove(0);
    Ok(Ratio::from_pairs(&pairs))
}

fn time(wire: &mut Wire, echoes: u32) -> Result<u64> {
    let clock = Monotonic::start();
    for _ in 0..echoes {
        wire.echo()?;
    }
    let elapsed_ns = clock.now().as_nanos();
    Ok(elapsed_ns.checked_div(echoes.into()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::meter::Counter;

    #[test]
    fn every_key_is_echoed_over_the_link() {
        let mut wire = Wire::connect(true).unwrap();
        for _ in 0..100 {
            wire.echo().unwrap();
        }
        assert_eq!(wire.server.tcp_app.stream.bytes, 100);
    }

    #[test]
    fn an_echo_shares_its_segment_with_the_acknowledgment() {
        let mut wire = Wire::connect(true).unwrap();
        let out = |wire: &Wire| wire.server.meter.counted(Counter::LinkPacketsOut);
        wire.echo().unwrap();
        let before = out(&wire);
        wire.echo().unwrap();
        assert_eq!(out(&wire) - before, 1);
    }

    #[test]
    fn the_accounts_of_a_metered_host_add_up_and_an_unmetered_one_has_none() {
        let mut metered_wire = Wire::connect(true).unwrap();
        let mut unmetered_wire = Wire::connect(false).unwrap();
        metered_wire.echo().unwrap();
        unmetered_wire.echo().unwrap();
        metered_wire.user.meter.settle();
        assert_eq!(
            metered_wire.user.meter.accounts().iter().sum::<u64>(),
            metered_wire.user.meter.total()
        );
        assert!(metered_wire.user.meter.charged(Account::Telnet) > 0);
        assert_eq!(unmetered_wire.user.meter.accounts().iter().sum::<u64>(), 0);
    }

    #[test]
    fn the_cost_of_reading_is_measured() {
        let ratio = measure_read(2, 10).unwrap().unwrap();
        assert!(ratio.median > 0.0 && ratio.median.is_finite(), "{ratio:?}");
    }

    #[test]
    fn every_block_has_both_figures() {
        let costs = measure(2, 10).unwrap();
        assert_eq!(costs.blocks.len(), 2);
        assert!(
            costs
                .blocks
                .iter()
                .all(|(metered_ns, unmetered_ns)| *metered_ns > 0 && *unmetered_ns > 0)
        );
    }
}
