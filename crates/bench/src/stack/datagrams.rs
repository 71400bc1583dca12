//! Datagrams of one size in both directions, for servers that handle several datagrams as one
//! packet and for servers that handle each datagram individually.
//!
//! UDP has no window, so the client limits the outstanding datagrams to [`WINDOW`] bursts of
//! [`BURST`] datagrams each. If the client sends, the server reports the number of received
//! datagrams once per burst. If the server sends, the client requests each burst. A burst that does
//! not arrive within [`LOSS_TIMEOUT`] counts as lost. The kernel's sockets split and coalesce
//! datagrams where possible (`UDP_SEGMENT`, `UDP_GRO`).

use super::client::Direction;
use super::rows::Side;
use super::server::{Mode, PORT, Server};
use super::server_arguments::Arguments;
use anyhow::{Context, Result, ensure};
use net::station::{Application, Layers};
use net::time::Duration;
use net::transport::udp::SocketId;
use net::{Cx, Instant};
use os::clock::{Monotonic, process_cpu_time};
use os::datagram::{DatagramSocket, Inbox};
use os::readiness::{PollFd, PollFlags, wait};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::task::Poll;
use std::thread;

/// Payload bytes of a datagram: the maximum for an MTU of 1500.
const PAYLOAD_BYTES: NonZeroU16 = NonZeroU16::new(1472).unwrap();
/// Datagrams per burst: the number in the longest packet that the kernel splits.
const BURST: usize = 44;
/// Maximum number of outstanding bursts.
const WINDOW: u64 = 4;
/// Time after which outstanding datagrams count as lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(20);
/// Receive buffer of a kernel socket, bytes, including the kernel's overhead per packet.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
const BURST_BYTES: usize = BURST * PAYLOAD_BYTES.get() as usize;
/// Number of consecutive lost bursts after which a run has failed.
const CONSECUTIVE_LOSSES_MAX: u32 = 50;

/// The client, with counts of outstanding and received datagrams.
struct Client {
    socket: DatagramSocket,
    server: SocketAddr,
    inbox: Inbox,
    data: Vec<u8>,
    lens: Vec<usize>,
    /// Number of datagrams sent or requested, without those counted as lost.
    expected: u64,
    /// Number of datagrams that the receiver has received.
    arrived: u64,
    lost: u64,
    consecutive_losses: u32,
}

/// Counters of a flow at one moment.
#[derive(Clone, Copy, Debug)]
struct FlowSample {
    at: Instant,
    arrived: u64,
    processor_ns: u64,
}

/// Runs a flow for `warm_up`, then measures it for `window`.
pub(super) fn measure_flow(
    server: &Server,
    direction: Direction,
    warm_up: Duration,
    window: Duration,
) -> Result<Side> {
    let socket = DatagramSocket::bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
    let mut client = Client {
        socket,
        server: server.address(),
        inbox: Inbox::default(),
        data: vec![0; BURST_BYTES],
        lens: vec![PAYLOAD_BYTES.get().into(); BURST],
        expected: 0,
        arrived: 0,
        lost: 0,
        consecutive_losses: 0,
    };
    let clock = Monotonic::start();
    let mut run_until = |until: Instant| -> Result<(FlowSample, u64)> {
        while clock.now() < until {
            client.exchange_datagrams(direction, &clock)?;
        }
        let processor_ns = nanos(process_cpu_time()) + server.processor_ns()?;
        Ok((FlowSample { at: clock.now(), arrived: client.arrived, processor_ns }, client.lost))
    };
    let (start, lost_before) = run_until(clock.now() + warm_up)?;
    let (end, lost) = run_until(start.at + window)?;
    flow_between(start, end, lost - lost_before).context("nothing has arrived")
}

fn flow_between(start: FlowSample, end: FlowSample, lost: u64) -> Option<Side> {
    let arrived = end.arrived.checked_sub(start.arrived)?;
    let used = end.processor_ns.checked_sub(start.processor_ns)?;
    let rate = u128::from(arrived) * 1_000_000_000;
    let rate = u64::try_from(rate.checked_div((end.at - start.at).as_nanos())?).ok()?;
    Some(Side { rate, cost_ns: used.checked_div(arrived)?, lost })
}

impl Client {
    fn exchange_datagrams(&mut self, direction: Direction, clock: &Monotonic) -> Result<()> {
        while self.expected.saturating_sub(self.arrived) < WINDOW * BURST as u64 {
            match direction {
                Direction::In => self.send_burst()?,
                Direction::Out => {
                    // A request that does not fit is lost, and times out.
                    _ = self.socket.send(b"x", &[1], self.server)?;
                    self.expected += BURST as u64;
                }
            }
        }
        let mut descriptors = [PollFd::new(&self.socket, PollFlags::IN)];
        wait(&mut descriptors, clock, Some(clock.now() + LOSS_TIMEOUT))?;
        let before = self.arrived;
        if self.socket.receive(&mut self.inbox)?.is_ready() {
            self.count_received(direction);
        }
        if self.arrived > before {
            self.consecutive_losses = 0;
        } else {
            self.consecutive_losses += 1;
            ensure!(self.consecutive_losses < CONSECUTIVE_LOSSES_MAX, "no more datagrams arrive");
            self.lost += self.expected.saturating_sub(self.arrived);
            self.expected = self.arrived;
        }
        Ok(())
    }

    fn send_burst(&mut self) -> Result<()> {
        self.expected += match self.socket.send(&self.data, &self.lens, self.server)? {
            Poll::Ready(sent) => sent as u64,
            // The interface queue is full: count the burst as outstanding.
            Poll::Pending => BURST as u64,
        };
        Ok(())
    }

    fn count_received(&mut self, direction: Direction) {
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

/// Counts that a server keeps for its client, used by the kernel server and by plumb's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ServedCounts {
    received: u64,
    reported_count: u64,
    /// Number of requested bytes that have not been sent yet.
    owed_bytes: usize,
}

impl ServedCounts {
    /// Counts `count` datagrams from the client.
    fn count_datagrams(&mut self, mode: Mode, count: usize) {
        match mode {
            Mode::DatagramSource => self.owed_bytes += count * BURST_BYTES,
            _ => self.received += count as u64,
        }
    }

    /// Returns the count to report to the client, if a report is due.
    fn pending_report(&self) -> Option<[u8; 8]> {
        (self.received - self.reported_count >= BURST as u64).then(|| self.received.to_be_bytes())
    }

    fn mark_reported(&mut self) {
        self.reported_count = self.received;
    }
}

/// Serves on the kernel's sockets until standard input ends.
pub(super) fn serve_kernel(arguments: Arguments<'_>) -> Result<()> {
    let server_address = (arguments.address()?, PORT).into();
    let mode = arguments.mode()?;
    let socket = DatagramSocket::bind(server_address)?;
    socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
    // If the exchange fails, the client gets no answer and reports an error.
    thread::spawn(move || exchange(&socket, mode));
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    writeln!(output, "{:.6}", process_cpu_time().as_secs_f64())?;
    Ok(())
}

fn exchange(socket: &DatagramSocket, mode: Mode) -> std::io::Result<()> {
    let clock = Monotonic::start();
    let mut inbox = Inbox::default();
    let mut served_counts = ServedCounts::default();
    let data = vec![0; BURST_BYTES];
    let lens = vec![usize::from(PAYLOAD_BYTES.get()); BURST];
    loop {
        wait(&mut [PollFd::new(socket, PollFlags::IN)], &clock, None)?;
        let Poll::Ready(Ok(_)) = socket.receive(&mut inbox) else { continue };
        let mut client = None;
        for datagram in inbox.datagrams() {
            served_counts.count_datagrams(mode, 1);
            client = Some(datagram.from);
        }
        let Some(client) = client else { continue };
        if let Some(pending_report) = served_counts.pending_report()
            && socket.send(&pending_report, &[pending_report.len()], client)?.is_ready()
        {
            served_counts.mark_reported();
        }
        while served_counts.owed_bytes > 0 {
            // A burst that does not fit is lost, and the client detects it.
            _ = socket.send(&data, &lens, client);
            served_counts.owed_bytes -= BURST_BYTES;
        }
    }
}

/// Datagram service of a plumb station.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: SocketId,
    mode: Mode,
    client: Option<SocketAddr>,
    served_counts: ServedCounts,
    data: Vec<u8>,
}

impl Datagrams {
    /// Binds the socket of a station.
    pub(super) fn bind(mode: Mode, layers: &mut Layers, cx: &mut Cx<'_>) -> Result<Self> {
        let socket =
            layers.udp.bind(PORT, cx).ok().context("cannot bind the port: it is in use")?;
        layers.udp.set_accepts_super_datagrams(socket, true);
        let client = None;
        let served_counts = ServedCounts::default();
        let data = vec![0; BURST_BYTES];
        Ok(Self { socket, mode, client, served_counts, data })
    }

    fn count_received(&mut self, layers: &mut Layers) {
        while let Some(waiting) = layers.udp.waiting(self.socket) {
            let size = usize::from(waiting.segment_size).max(1);
            let is_single = waiting.segment_size == 0;
            let count = if is_single { 1 } else { waiting.data.len().div_ceil(size) };
            self.client = Some(waiting.source);
            layers.udp.drop_first(self.socket, count, &mut layers.pool);
            self.served_counts.count_datagrams(self.mode, count);
        }
    }
}

impl Application for Datagrams {
    fn wants_to_run(&self) -> bool {
        self.served_counts.owed_bytes > 0
    }

    fn run(&mut self, layers: &mut Layers, cx: &mut Cx<'_>) {
        self.count_received(layers);
        let Some(client) = self.client else { return };
        if let Some(pending_report) = self.served_counts.pending_report()
            && layers.send_to(self.socket, &pending_report, client, cx) == Poll::Ready(Ok(()))
        {
            self.served_counts.mark_reported();
        }
        while self.served_counts.owed_bytes > 0 {
            // Send the rest of a partially sent burst first, so that later sends are whole bursts.
            let len = (self.served_counts.owed_bytes - 1) % BURST_BYTES + 1;
            let piece = self.data.get(..len).unwrap_or_default();
            match layers.send_segments(self.socket, piece, PAYLOAD_BYTES, client, cx) {
                Poll::Ready(Ok(sent)) => self.served_counts.owed_bytes -= sent,
                Poll::Ready(Err(_)) | Poll::Pending => return,
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
    fn reports_are_sent_once_per_burst() {
        let mut served_counts = ServedCounts::default();
        served_counts.count_datagrams(Mode::DatagramSink, BURST - 1);
        assert_eq!(served_counts.pending_report(), None);
        served_counts.count_datagrams(Mode::DatagramSink, 2);
        assert_eq!(served_counts.pending_report(), Some(45_u64.to_be_bytes()));
        served_counts.mark_reported();
        assert_eq!(served_counts.pending_report(), None);
    }

    #[test]
    fn flow_figures_cover_the_datagrams_between_two_samples() {
        let sample = |seconds, arrived, processor_ns| FlowSample {
            at: Instant::ZERO + Duration::from_secs(seconds),
            arrived,
            processor_ns,
        };
        let side = flow_between(sample(1, 100, 7), sample(3, 2_100, 4_000_007), 3).unwrap();
        assert_eq!(side, Side { rate: 1_000, cost_ns: 2_000, lost: 3 });
        assert_eq!(flow_between(sample(1, 5, 5), sample(2, 5, 6), 0), None);
    }
}
