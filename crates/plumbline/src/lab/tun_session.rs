//! A server on a TUN in its own network namespace; the kernel's TCP is the user end of the session.
//!
//! Both ends run in one thread, so that the scheduler of the operating system wakes no process. A
//! key is written to a socket, and the kernel sends a datagram through the TUN. The signal routine
//! notifies the station, the station answers, and the echo arrives at the socket.

use ::control::{Flags, Signals};
use anyhow::{Context, Result, bail, ensure};
use laboratory::control::{
    BlockTimes, ControlStructure, EndpointRole, MTU, MachineFunctions, PORT, SCREEN_KEY, SCREENFUL,
    SteppedHost,
};
use net::time::Duration;
use os::clock::Monotonic;
use os::interface::Interface;
use os::readiness::{PollFlags, would_block_as_pending};
use os::tun::Tun;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::task::Poll;

/// Number of operations in one block.
const ECHOES_PER_BLOCK: u64 = 200;
const SCREENFULS_PER_BLOCK: u64 = 50;
/// Time after which an answer counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A session over one TUN.
pub(super) struct TunSession {
    host: SteppedHost,
    tun: Tun,
    socket: TcpStream,
    clock: Monotonic,
    packet: Vec<u8>,
    answer: Vec<u8>,
}

impl TunSession {
    /// Connects over the `number`th TUN of the calling thread's network namespace.
    pub(super) fn connect(
        structure: ControlStructure,
        number: u8,
        machine: &MachineFunctions<'_>,
    ) -> Result<Self> {
        let [station_address, kernel_address] =
            [1, 2].map(|last| Ipv4Addr::new(10, 83, number, last));
        let tun = Tun::open(None)?;
        let interface = Interface::named(tun.name())?;
        interface.set_address(kernel_address, 24)?;
        interface.set_mtu(u16::try_from(MTU)?)?;
        interface.bring_up()?;
        let clock = Monotonic::start();
        // The station and its signals have the same clock.
        let machine = MachineFunctions { now: &|| clock.now(), ..*machine };
        let host = SteppedHost::new(
            structure,
            EndpointRole::Server,
            station_address,
            station_address,
            &machine,
        )?;
        let packet = vec![0; MTU];
        let answer = vec![0; 2 * SCREENFUL];
        let socket = start_connection(SocketAddrV4::new(station_address, PORT))?;
        let mut session = Self { host, tun, socket, clock, packet, answer };
        let until = clock.now() + ANSWER_TIMEOUT;
        while !session.host.is_open() {
            ensure!(clock.now() < until, "the kernel cannot connect over {}", session.tun.name());
            session.run_once(Duration::from_millis(10))?;
        }
        session.socket.set_nodelay(true)?;
        Ok(session)
    }

    /// Waits for a signal, receives the datagrams, runs the station and writes its output.
    fn run_once(&mut self, timeout: Duration) -> Result<()> {
        let mut signals = Signals::default();
        ensure!(signals.watch(&self.tun, PollFlags::IN, 0), "cannot watch the TUN");
        signals.set_timer(1, self.host.deadline());
        let until = self.clock.now() + timeout;
        // The station determines which of its steps the signal concerns.
        signals.wait(&Flags::default(), &self.clock, Some(until))?;
        while let Some(length) = self.tun.read(&mut self.packet)? {
            let datagram = self.packet.get(..length).unwrap_or_default();
            self.host.receive(datagram, self.clock.now());
        }
        loop {
            self.host.run(self.clock.now());
            let mut has_sent = false;
            while let Some(datagram) = self.host.transmit(self.clock.now()) {
                // A full queue drops the datagram, as any network does.
                self.tun.write(datagram)?;
                has_sent = true;
            }
            // The link has free space again for the rest of a screenful.
            if !has_sent {
                return Ok(());
            }
        }
    }

    /// Sends a key and returns the time until `answer_len` bytes have come back.
    fn send_key_and_wait(&mut self, key: u8, answer_len: usize) -> Result<u64> {
        let started = self.clock.now();
        self.socket.write_all(&[key])?;
        let mut received_bytes = 0;
        while received_bytes < answer_len {
            self.run_once(ANSWER_TIMEOUT)?;
            received_bytes += self.read_echo()?;
            ensure!(
                self.clock.now() - started < ANSWER_TIMEOUT,
                "received {received_bytes} of {answer_len} bytes"
            );
        }
        Ok(u64::try_from((self.clock.now() - started).as_nanos())?)
    }

    /// Reads the data that has arrived at the kernel's end of the session, without waiting, and
    /// returns the number of bytes read.
    fn read_echo(&mut self) -> Result<usize> {
        match would_block_as_pending(self.socket.read(&mut self.answer))? {
            Poll::Ready(0) => bail!("the station closed the connection"),
            Poll::Ready(count) => Ok(count),
            Poll::Pending => Ok(0),
        }
    }

    /// Measures a block of keys and a block of screenfuls.
    pub(super) fn measure_block(&mut self) -> Result<BlockTimes> {
        let mut sums = [0, 0];
        for _ in 0..ECHOES_PER_BLOCK {
            sums[0] += self.send_key_and_wait(b'x', 1)?;
        }
        for _ in 0..SCREENFULS_PER_BLOCK {
            sums[1] += self.send_key_and_wait(SCREEN_KEY, SCREENFUL)?;
        }
        let [echoes, screenfuls] = sums;
        Ok(BlockTimes {
            echo_ns: echoes / ECHOES_PER_BLOCK,
            screenful_ns: screenfuls / SCREENFULS_PER_BLOCK,
            echo_switches: None,
        })
    }
}

/// Returns a socket with a connection attempt in progress, without waiting for it.
fn start_connection(to: SocketAddrV4) -> Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error).context("the kernel cannot connect"),
    }
}
