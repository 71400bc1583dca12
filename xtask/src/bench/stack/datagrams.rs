//! Datagrams of one size in both directions, for servers that handle several as one packet and for
//! those that handle them individually.
//!
//! UDP has no window, so the two ends keep one of [`WINDOW`] bursts of [`BURST`] datagrams each.
//! Towards a server, the server reports the number of received datagrams once per burst. From a
//! server, the client requests each burst. A burst that does not arrive within [`PATIENCE`] counts
//! as lost. The kernel's sockets split and coalesce datagrams where possible (`UDP_SEGMENT`,
//! `UDP_GRO`).

use super::arguments::Arguments;
use super::client::Direction;
use super::rows::Side;
use super::server::{Mode, PORT, Server};
use anyhow::{Context, Result, ensure};
use os::clock::{Monotonic, process_cpu_time};
use os::datagram::{DatagramSocket, Inbox};
use os::readiness::{PollFd, PollFlags, wait};
use protocols::station::{Application, Layers};
use protocols::time::Duration;
use protocols::transport::udp::SocketId;
use protocols::{Cx, Instant};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::thread;

/// Payload bytes of a datagram: the maximum for an MTU of 1500.
const SIZE: NonZeroU16 = NonZeroU16::new(1472).unwrap();
/// Datagrams per burst: the number in the longest packet that the kernel splits.
const BURST: usize = 44;
/// Maximum number of outstanding bursts.
const WINDOW: u64 = 4;
/// Time after which outstanding datagrams count as lost.
const PATIENCE: Duration = Duration::from_millis(20);
/// Receive buffer of a kernel socket, in the kernel's accounting.
const ROOM_BYTES: usize = 8 << 20;
const BURST_BYTES: usize = BURST * SIZE.get() as usize;
/// Number of consecutive lost bursts after which a run has failed.
const LOST_MAX: u32 = 50;

/// The client, with counts of outstanding and received datagrams.
struct Client {
    socket: DatagramSocket,
    server: SocketAddr,
    inbox: Inbox,
    data: Vec<u8>,
    lens: Vec<usize>,
    /// Datagrams sent or requested.
    begun: u64,
    /// Datagrams that have arrived.
    arrived: u64,
    lost: u64,
    lost_in_a_row: u32,
}

/// State of a flow at one moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    arrived: u64,
    processor_ns: u64,
}

/// Runs a flow for `warm_up`, then measures it for `window`.
pub(super) fn flow(
    server: &Server,
    direction: Direction,
    warm_up: Duration,
    window: Duration,
) -> Result<Side> {
    let socket = DatagramSocket::bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    socket.set_receive_buffer(ROOM_BYTES)?;
    let mut client = Client {
        socket,
        server: server.address(),
        inbox: Inbox::default(),
        data: vec![0; BURST_BYTES],
        lens: vec![SIZE.get().into(); BURST],
        begun: 0,
        arrived: 0,
        lost: 0,
        lost_in_a_row: 0,
    };
    let clock = Monotonic::start();
    let mut run_until = |until: Instant| -> Result<(Mark, u64)> {
        while clock.now() < until {
            client.turn(direction, &clock)?;
        }
        let processor_ns = nanos(process_cpu_time()) + server.processor_ns()?;
        Ok((Mark { at: clock.now(), arrived: client.arrived, processor_ns }, client.lost))
    };
    let (start, lost_before) = run_until(clock.now() + warm_up)?;
    let (end, lost) = run_until(start.at + window)?;
    figure(start, end, lost - lost_before).context("nothing has arrived")
}

fn figure(start: Mark, end: Mark, lost: u64) -> Option<Side> {
    let arrived = end.arrived.checked_sub(start.arrived)?;
    let used = end.processor_ns.checked_sub(start.processor_ns)?;
    let rate = u128::from(arrived) * 1_000_000_000;
    let rate = u64::try_from(rate.checked_div((end.at - start.at).as_nanos())?).ok()?;
    Some(Side { rate, cost_ns: used.checked_div(arrived)?, lost })
}

impl Client {
    fn turn(&mut self, direction: Direction, clock: &Monotonic) -> Result<()> {
        while self.begun.saturating_sub(self.arrived) < WINDOW * BURST as u64 {
            match direction {
                Direction::In => self.send_burst()?,
                Direction::Out => {
                    self.socket.send(b"x", &[1], self.server)?;
                    self.begun += BURST as u64;
                }
            }
        }
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        wait(&mut descriptors, clock, Some(clock.now() + PATIENCE))?;
        let before = self.arrived;
        match self.socket.receive(&mut self.inbox) {
            Ok(_) => self.take(direction),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if self.arrived > before {
            self.lost_in_a_row = 0;
        } else {
            self.lost_in_a_row += 1;
            ensure!(self.lost_in_a_row < LOST_MAX, "nothing comes any more");
            self.lost += self.begun.saturating_sub(self.arrived);
            self.begun = self.arrived;
        }
        Ok(())
    }

    fn send_burst(&mut self) -> Result<()> {
        match self.socket.send(&self.data, &self.lens, self.server) {
            Ok(sent) => self.begun += sent as u64,
            // The interface queue is full: count the burst as outstanding.
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.begun += BURST as u64,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn take(&mut self, direction: Direction) {
        for datagram in self.inbox.datagrams() {
            self.arrived = match direction {
                Direction::In => {
                    let count = datagram.data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
                    self.arrived.max(count.unwrap_or(0))
                }
                Direction::Out => self.arrived + 1,
            };
        }
    }
}

/// State about the client that both kinds of servers keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ledger {
    taken: u64,
    told: u64,
    /// Requested bytes that are not yet sent.
    owed_bytes: usize,
}

impl Ledger {
    /// Counts `count` datagrams from the client.
    fn note(&mut self, mode: Mode, count: usize) {
        match mode {
            Mode::DatagramSource => self.owed_bytes += count * BURST_BYTES,
            _ => self.taken += count as u64,
        }
    }

    /// Returns the count to report to the client, if a report is due.
    fn news(&self) -> Option<[u8; 8]> {
        (self.taken - self.told >= BURST as u64).then(|| self.taken.to_be_bytes())
    }

    fn has_told(&mut self) {
        self.told = self.taken;
    }
}

/// Serves on the kernel's sockets until standard input ends.
pub(super) fn serve_kernel(arguments: Arguments<'_>) -> Result<()> {
    let (place, mode) = ((arguments.address()?, PORT).into(), arguments.mode()?);
    let socket = DatagramSocket::bind(place)?;
    socket.set_receive_buffer(ROOM_BYTES)?;
    // A failed exchange is reported by the client, which gets no answer.
    thread::spawn(move || exchange(&socket, mode));
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    writeln!(output, "{:.6}", process_cpu_time().as_secs_f64())?;
    Ok(())
}

fn exchange(socket: &DatagramSocket, mode: Mode) -> std::io::Result<()> {
    let (clock, mut inbox, mut ledger) = (Monotonic::start(), Inbox::default(), Ledger::default());
    let (data, lens) = (vec![0; BURST_BYTES], vec![usize::from(SIZE.get()); BURST]);
    loop {
        wait(&mut [PollFd::new(socket, PollFlags::IN)], &clock, None)?;
        if socket.receive(&mut inbox).is_err() {
            continue;
        }
        let mut client = None;
        for datagram in inbox.datagrams() {
            ledger.note(mode, 1);
            client = Some(datagram.from);
        }
        let Some(client) = client else { continue };
        if let Some(news) = ledger.news() {
            socket.send(&news, &[news.len()], client)?;
            ledger.has_told();
        }
        while ledger.owed_bytes > 0 {
            // A burst that does not fit is lost, and the client detects it.
            _ = socket.send(&data, &lens, client);
            ledger.owed_bytes -= BURST_BYTES;
        }
    }
}

/// Datagram service of a plumb station.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: SocketId,
    mode: Mode,
    client: Option<SocketAddr>,
    ledger: Ledger,
    data: Vec<u8>,
}

impl Datagrams {
    /// Binds the socket of a station.
    pub(super) fn bind(mode: Mode, layers: &mut Layers, cx: &mut Cx<'_>) -> Result<Self> {
        let socket = layers.udp.bind(PORT, cx).ok().context("nobody can bind the port")?;
        layers.udp.set_takes_segments(socket, true);
        let (client, ledger, data) = (None, Ledger::default(), vec![0; BURST_BYTES]);
        Ok(Self { socket, mode, client, ledger, data })
    }

    fn take(&mut self, layers: &mut Layers) {
        while let Some(waiting) = layers.udp.waiting(self.socket) {
            let size = usize::from(waiting.segment_size).max(1);
            let is_one = waiting.segment_size == 0;
            let count = if is_one { 1 } else { waiting.data.len().div_ceil(size) };
            self.client = Some(waiting.source);
            layers.udp.drop_first(self.socket, count, &mut layers.pool);
            self.ledger.note(self.mode, count);
        }
    }
}

impl Application for Datagrams {
    fn wants_to_run(&self) -> bool {
        self.ledger.owed_bytes > 0
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        self.take(layers);
        let Some(client) = self.client else { return };
        if let Some(news) = self.ledger.news()
            && layers.send_to(self.socket, &news, client, cx).is_ok()
        {
            self.ledger.has_told();
        }
        while self.ledger.owed_bytes > 0 {
            // Send the rest of a partially sent burst first, so that later sends are whole bursts.
            let len = (self.ledger.owed_bytes - 1) % BURST_BYTES + 1;
            let piece = self.data.get(..len).unwrap_or_default();
            match layers.send_segments(self.socket, piece, SIZE, client, cx) {
                Ok(sent) => self.ledger.owed_bytes -= sent,
                Err(_) => return,
            }
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_once_for_each_burst() {
        let mut ledger = Ledger::default();
        ledger.note(Mode::DatagramSink, BURST - 1);
        assert_eq!(ledger.news(), None);
        ledger.note(Mode::DatagramSink, 2);
        assert_eq!(ledger.news(), Some(45_u64.to_be_bytes()));
        ledger.has_told();
        assert_eq!(ledger.news(), None);
    }

    #[test]
    fn a_flow_is_what_arrived_between_two_marks() {
        let mark = |seconds, arrived, processor_ns| Mark {
            at: Instant::ZERO + Duration::from_secs(seconds),
            arrived,
            processor_ns,
        };
        let side = figure(mark(1, 100, 7), mark(3, 2_100, 4_000_007), 3).unwrap();
        assert_eq!(side, Side { rate: 1_000, cost_ns: 2_000, lost: 3 });
        assert_eq!(figure(mark(1, 5, 5), mark(2, 5, 6), 0), None);
    }
}
