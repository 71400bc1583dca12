//! Hosts at serial lines: the delay of echoes while one host uploads.
//!
//! Each line is a pseudo-terminal with SLIP, whose other end is a station of the bench. A
//! pseudo-terminal has no rate: the gateway paces what it sends, and the station paces alike.

use crate::typing::plumb;
use anyhow::{Context, Result, ensure};
use net::cx::OwnedCx;
use net::link::{Link, Slip};
use net::station::{Application, Layers, Scheduler, Settings, Station};
use net::time::Duration;
use net::transport::tcp::{ConnectionId, Profile};
use net::transport::udp::SocketId;
use net::{Cx, Instant};
use os::clock::Monotonic;
use os::process::Program;
use os::pty::Pty;
use os::readiness::{self, PollFd, PollFlags};
use os::tty::WindowSize;
use records::statistics::percentile;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const LINES: u8 = 4;
const BAUD: u64 = 115_200;
const MTU: usize = 296;
/// Bits of a byte on the line.
const BITS_PER_BYTE: u64 = 10;
const NANOS_PER_S: u64 = 1_000_000_000;
const ECHO_BYTES: usize = 32;
const ECHO_INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of an echo; a lost one counts with this time.
const ECHO_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time that a station writes in advance.
const WRITE_AHEAD: Duration = Duration::from_millis(5);
/// Datagrams that the link of a station queues.
const LINK_PACKETS: usize = 2;

/// Figures of the lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SerialLines {
    /// 99th percentile of the echoes of the quiet hosts.
    pub(super) quiet_p99_ns: f64,
    /// 99th percentile of the echoes of the host that uploads.
    pub(super) uploading_p99_ns: f64,
    pub(super) upload_bit_per_s: f64,
}

/// Line time of a packet of the maximum length.
pub(super) fn packet_time_ns() -> f64 {
    MTU as f64 * BITS_PER_BYTE as f64 * NANOS_PER_S as f64 / BAUD as f64
}

/// Measures plumb for `duration`.
pub(super) fn measure(duration: Duration) -> Result<SerialLines> {
    let size = WindowSize { rows: 24, columns: 80 };
    let lines = (0..LINES).map(|_| Pty::open(size)).collect::<std::io::Result<Vec<_>>>()?;
    let mut command = Command::new(plumb()?);
    command.arg("gateway").arg("--host-loopback").args(
        lines.iter().map(|line| {
            format!("serial:{}?baud={BAUD}&link=slip&mtu={MTU}", line.path().display())
        }),
    );
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut gateway = Program::start(&mut command).context("cannot start plumb")?;
    // The gateway names each host when its line is in raw mode. Earlier bytes would be discarded.
    let messages = gateway.child().stderr.take().context("no standard error")?;
    let named =
        BufReader::new(messages).lines().take(LINES.into()).collect::<Result<Vec<_>, _>>()?;
    ensure!(named.len() == usize::from(LINES), "plumb has ended: {named:?}");
    let echo = UdpSocket::bind("127.0.0.1:0")?;
    echo.set_read_timeout(Some(Duration::from_millis(50)))?;
    let sink = TcpListener::bind("127.0.0.1:0")?;
    let ports = (echo.local_addr()?.port(), sink.local_addr()?.port());
    let is_over = AtomicBool::new(false);
    let uploaded = AtomicU64::new(0);
    let times = thread::scope(|scope| -> Result<Vec<Vec<u64>>> {
        scope.spawn(|| answer(&echo, &is_over));
        scope.spawn(|| receive(&sink, &uploaded));
        let stations: Vec<_> = (0..LINES)
            .zip(&lines)
            .map(|(number, line)| {
                scope.spawn(move || Host::new(number, ports)?.run(line, duration))
            })
            .collect();
        let times = stations
            .into_iter()
            .map(|station| station.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))?);
        let times = times.collect();
        is_over.store(true, Ordering::Relaxed);
        // A line that hangs up ends its guest and its connections, so that the sink ends.
        drop(gateway);
        times
    })?;
    let p99 = |times: &[u64]| percentile(times, 99).map(|ns| ns as f64).context("no echo");
    let (first, others) = times.split_first().context("no line")?;
    ensure!(uploaded.load(Ordering::Relaxed) > 0, "nothing was uploaded");
    Ok(SerialLines {
        quiet_p99_ns: p99(&others.concat())?,
        uploading_p99_ns: p99(first)?,
        upload_bit_per_s: uploaded.load(Ordering::Relaxed) as f64 * 8.0 / duration.as_secs_f64(),
    })
}

/// Answers datagrams with their data.
fn answer(socket: &UdpSocket, is_over: &AtomicBool) {
    let mut buffer = [0; 2048];
    while !is_over.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        // The client counts an echo that is lost.
        _ = socket.send_to(buffer.get(..len).unwrap_or_default(), from);
    }
}

fn receive(listener: &TcpListener, uploaded: &AtomicU64) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let mut buffer = [0; 8192];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        uploaded.fetch_add(len as u64, Ordering::Relaxed);
    }
}

/// A host at a line.
struct Host {
    station: Station,
    upload: Upload,
    context: OwnedCx,
    socket: SocketId,
    echo: SocketAddr,
    /// Number of the echo that is outstanding, and the time of its request.
    outstanding: Option<(u64, Instant)>,
    next_echo_at: Instant,
    times: Vec<u64>,
}

/// The program of the host that uploads.
struct Upload {
    connection: Option<ConnectionId>,
}

impl Application for Upload {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, _: &mut Cx<'_>) {
        while layers.tcp.event().is_some() {}
        let Some(id) = self.connection else { return };
        let space = layers.tcp.send_space(id).min(8192);
        // A connection that has ended uploads nothing more.
        _ = layers.tcp.send(id, &vec![b'u'; space]);
    }
}

impl Host {
    /// Returns the host of line `number`. The first one uploads.
    fn new(number: u8, (echo, sink): (u16, u16)) -> Result<Self> {
        let mut context = OwnedCx::with_seed(number.into());
        let address = Ipv4Addr::new(10, 0, 2 + number, 100);
        let gateway = Ipv4Addr::new(10, 0, 2 + number, 2);
        let link = Link::Slip(Slip::with_queue_limit(MTU, LINK_PACKETS));
        let settings = Settings { address, prefix_len: 24, packets: 64, ..Settings::default() };
        let mut station = Station::new(link, settings, &mut context.cx());
        let layers = &mut station.layers;
        let socket = layers.udp.bind(0, &mut context.cx());
        let socket = socket.map_err(|error| anyhow::anyhow!("no socket: {error:?}"))?;
        let connection = (number == 0).then(|| {
            let to = SocketAddr::from((gateway, sink));
            layers.tcp.open(address.into(), to, Profile::BULK, &mut context.cx()).ok()
        });
        let echo = SocketAddr::from((gateway, echo));
        Ok(Self {
            station,
            upload: Upload { connection: connection.flatten() },
            context,
            socket,
            echo,
            outstanding: None,
            next_echo_at: Instant::ZERO,
            times: Vec::new(),
        })
    }

    /// Runs until `duration` is over, and returns the times of the echoes.
    fn run(mut self, line: &Pty, duration: Duration) -> Result<Vec<u64>> {
        let clock = Monotonic::start();
        let end = clock.now() + duration;
        let mut scheduler = Scheduler::default();
        let mut wire = Vec::new();
        let mut busy_until = clock.now();
        let mut buffer = [0; 4096];
        while clock.now() < end {
            self.context.now = clock.now();
            while let Some(len @ 1..) = line.read(&mut buffer)? {
                let input = buffer.get(..len).unwrap_or_default();
                self.station.receive(input, &mut self.context.cx());
                scheduler.run(&mut self.station, &mut self.upload, &mut self.context.cx());
            }
            self.exchange_echoes();
            scheduler.run(&mut self.station, &mut self.upload, &mut self.context.cx());
            let byte_time = Duration::from_nanos(NANOS_PER_S * BITS_PER_BYTE / BAUD);
            while busy_until <= self.context.now + WRITE_AHEAD {
                let count = self.station.transmit_into(&mut wire, 1, &mut self.context.cx());
                if count == 0 && !self.station.has_output() {
                    break;
                }
                scheduler.run(&mut self.station, &mut self.upload, &mut self.context.cx());
                busy_until = busy_until.max(self.context.now) + byte_time;
            }
            if !wire.is_empty()
                && let Some(written) = line.write(&wire)?
            {
                wire.drain(..written);
            }
            let until = self.context.now + Duration::from_millis(1);
            let mut waited = [PollFd::new(line, PollFlags::IN)];
            readiness::wait(&mut waited, &clock, Some(until))?;
        }
        Ok(self.times)
    }

    /// Receives echoes, and requests the next one.
    fn exchange_echoes(&mut self) {
        let now = self.context.now;
        let layers = &mut self.station.layers;
        while let Some((_, packet)) = layers.udp.receive_from(self.socket) {
            let number = packet.data().first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            if let Some((_, sent_at)) = self.outstanding.take_if(|(n, _)| Some(*n) == number) {
                self.times.push(nanos(now - sent_at));
            }
            layers.pool.put(packet);
        }
        if self.outstanding.take_if(|(_, sent_at)| now - *sent_at > ECHO_TIMEOUT).is_some() {
            self.times.push(nanos(ECHO_TIMEOUT));
        }
        if self.outstanding.is_none() && now >= self.next_echo_at {
            let number = now.as_nanos();
            let mut data = [0; ECHO_BYTES];
            if let Some(first) = data.first_chunk_mut() {
                *first = number.to_be_bytes();
            }
            let sent = layers.send_to(self.socket, &data, self.echo, &mut self.context.cx());
            if sent.is_ready() {
                self.outstanding = Some((number, now));
                self.next_echo_at = now + ECHO_INTERVAL;
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
