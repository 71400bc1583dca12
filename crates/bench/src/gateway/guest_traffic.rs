//! The traffic of a measurement: a server in the host's namespace, and a client in the guest's.
//!
//! Processor time is that of the gateway alone, and of all programs: the gateway and the bench, whose
//! threads are client and server. The clients and servers wait in the kernel.

use anyhow::{Context, Result, ensure};
use net::time::Duration;
use os::clock::process_cpu_time;
use os::namespace::Network;
use os::schedule::processor_time;
use records::statistics::percentile;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Path from a guest to the servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route<'a> {
    /// Namespace of the guest; `None` for the host itself.
    pub(super) guest: Option<&'a Network>,
    /// Address that leads to the host's 127.0.0.1.
    pub(super) host: Ipv4Addr,
    /// Process IDs of the programs of the gateway.
    pub(super) programs: [Option<u32>; 2],
}

impl Route<'_> {
    /// The loopback interface of the host.
    pub(super) const KERNEL: Self =
        Self { guest: None, host: Ipv4Addr::LOCALHOST, programs: [None; 2] };

    fn gateway_time(&self) -> Duration {
        self.programs.into_iter().flatten().filter_map(processor_time).sum()
    }

    /// Moves the calling thread into the guest.
    fn enter(&self) -> Result<()> {
        match self.guest {
            Some(network) => network.enter().context("cannot enter the guest"),
            None => Ok(()),
        }
    }

    fn server(&self, local: SocketAddr) -> SocketAddr {
        (self.host, local.port()).into()
    }
}

/// Direction of a bulk stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the guest to the host.
    ToHost,
    /// From the host to the guest.
    FromHost,
}

/// Rate of a bulk stream, and its cost in seconds of processor time per gigabit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bulk {
    pub(super) gbit_per_s: f64,
    pub(super) gateway_s_per_gbit: f64,
    pub(super) all_s_per_gbit: f64,
}

/// Times of an echo of one byte in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EchoTimes {
    pub(super) p50_ns: f64,
    pub(super) p99_ns: f64,
}

/// Rate of operations per second, and per second of the gateway's processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operations {
    pub(super) per_s: f64,
    pub(super) per_gateway_s: f64,
}

/// A measurement of one route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic<'a> {
    pub(super) route: Route<'a>,
    pub(super) duration: Duration,
}

const BLOCK_BYTES: usize = 128 << 10;
const WARM_UP: Duration = Duration::from_millis(200);
const ECHOES: usize = 2000;
/// Byte of the client that ends the server.
const LAST_CONNECTION: [u8; 1] = *b"l";
const DATAGRAM_BYTES: usize = 1024;
/// Datagrams offered per millisecond.
const DATAGRAMS_PER_MS: u32 = 40;
/// Time limit of a read or write.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// Difference of the counters in the measured interval.
struct Sample {
    count: f64,
    seconds: f64,
    gateway_s: f64,
    all_s: f64,
}

impl Traffic<'_> {
    /// Measures the counter during the interval, after a warm-up.
    fn sample(&self, counter: &AtomicU64) -> Sample {
        thread::sleep(WARM_UP);
        let began = Instant::now();
        let read = || {
            let gateway = self.route.gateway_time();
            (counter.load(Ordering::Relaxed), gateway, process_cpu_time())
        };
        let (count, gateway, own) = read();
        thread::sleep(self.duration);
        let (count_after, gateway_after, own_after) = read();
        let gateway_s = gateway_after.saturating_sub(gateway).as_secs_f64();
        let own_s = own_after.saturating_sub(own).as_secs_f64();
        let count = count_after.saturating_sub(count) as f64;
        let seconds = began.elapsed().as_secs_f64();
        Sample { count, seconds, gateway_s, all_s: gateway_s + own_s }
    }

    /// Runs `client` in the guest beside `server`, and `measure` in this thread, until it returns.
    fn run<T>(
        &self,
        server: impl FnOnce(&AtomicBool) -> Result<()> + Send,
        client: impl FnOnce(&AtomicBool) -> Result<()> + Send,
        measure: impl FnOnce() -> T,
    ) -> Result<T> {
        let is_over = AtomicBool::new(false);
        let (measured, server, client) = thread::scope(|scope| {
            let server = scope.spawn(|| server(&is_over));
            let client = scope.spawn(|| self.route.enter().and_then(|()| client(&is_over)));
            let measured = measure();
            is_over.store(true, Ordering::Relaxed);
            (measured, server.join(), client.join())
        });
        for result in [client, server] {
            result.map_err(|_| anyhow::anyhow!("a thread has panicked"))??;
        }
        Ok(measured)
    }

    /// Measures a bulk stream.
    pub(super) fn bulk(&self, direction: Direction) -> Result<Bulk> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let remote = self.route.server(listener.local_addr()?);
        let received = AtomicU64::new(0);
        let transfer = |is_sender: bool, stream: TcpStream, is_over: &AtomicBool| {
            if is_sender { send(stream, is_over) } else { receive(stream, &received) }
        };
        let is_to_host = direction == Direction::ToHost;
        let sample = self.run(
            |is_over| transfer(!is_to_host, accept(&listener)?, is_over),
            |is_over| transfer(is_to_host, connect(remote)?, is_over),
            || self.sample(&received),
        )?;
        let gbit = sample.count * 8.0 / 1e9;
        ensure!(gbit > 0.0, "no data was received");
        Ok(Bulk {
            gbit_per_s: gbit / sample.seconds,
            gateway_s_per_gbit: sample.gateway_s / gbit,
            all_s_per_gbit: sample.all_s / gbit,
        })
    }

    /// Measures echoes of one byte.
    pub(super) fn echo(&self) -> Result<EchoTimes> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let remote = self.route.server(listener.local_addr()?);
        let mut times = Vec::with_capacity(ECHOES);
        let client = |_: &AtomicBool| {
            let mut stream = connect(remote)?;
            for _ in 0..ECHOES {
                let began = Instant::now();
                stream.write_all(b"x")?;
                stream.read_exact(&mut [0])?;
                times.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            Ok(())
        };
        let server = |_: &AtomicBool| {
            let mut stream = accept(&listener)?;
            let mut byte = [0];
            while stream.read(&mut byte)? > 0 {
                stream.write_all(&byte)?;
            }
            Ok(())
        };
        self.run(server, client, || ())?;
        let figure = |percent| percentile(&times, percent).map(|ns| ns as f64);
        Ok(EchoTimes {
            p50_ns: figure(50).context("no echo")?,
            p99_ns: figure(99).context("no echo")?,
        })
    }

    /// Measures connections: connect, a byte each way, close; one after another.
    pub(super) fn connections(&self) -> Result<Operations> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let remote = self.route.server(listener.local_addr()?);
        let closed = AtomicU64::new(0);
        // The server closes first, so that the client keeps no port in TIME-WAIT.
        let server = |_: &AtomicBool| {
            loop {
                let mut stream = accept(&listener)?;
                let mut byte = [0];
                stream.read_exact(&mut byte)?;
                stream.write_all(&byte)?;
                if byte == LAST_CONNECTION {
                    return Ok(());
                }
            }
        };
        let client = |is_over: &AtomicBool| {
            loop {
                let is_last = is_over.load(Ordering::Relaxed);
                let mut stream = connect(remote)?;
                stream.write_all(if is_last { &LAST_CONNECTION } else { b"x" })?;
                stream.read_exact(&mut [0])?;
                ensure!(stream.read(&mut [0])? == 0, "the server sends two bytes");
                closed.fetch_add(1, Ordering::Relaxed);
                if is_last {
                    return Ok(());
                }
            }
        };
        let sample = self.run(server, client, || self.sample(&closed))?;
        Ok(sample.operations())
    }

    /// Measures datagrams of 1 KiB from the guest at a fixed rate.
    pub(super) fn datagrams(&self) -> Result<Operations> {
        let receiver = UdpSocket::bind("127.0.0.1:0")?;
        receiver.set_read_timeout(Some(Duration::from_millis(50)))?;
        let remote = self.route.server(receiver.local_addr()?);
        let received = AtomicU64::new(0);
        let server = |is_over: &AtomicBool| {
            let mut buffer = [0; 2 * DATAGRAM_BYTES];
            while !is_over.load(Ordering::Relaxed) {
                match receiver.recv(&mut buffer) {
                    Ok(_) => _ = received.fetch_add(1, Ordering::Relaxed),
                    Err(error) if is_timeout(error.kind()) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        };
        let client = |is_over: &AtomicBool| {
            let sender = UdpSocket::bind("0.0.0.0:0")?;
            let began = Instant::now();
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                let elapsed_ms = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
                while sent < elapsed_ms.saturating_mul(DATAGRAMS_PER_MS) {
                    sender.send_to(&[7; DATAGRAM_BYTES], remote)?;
                    sent += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let sample = self.run(server, client, || self.sample(&received))?;
        ensure!(sample.count > 0.0, "no datagram was received");
        Ok(sample.operations())
    }
}

impl Sample {
    fn operations(&self) -> Operations {
        Operations { per_s: self.count / self.seconds, per_gateway_s: self.count / self.gateway_s }
    }
}

/// Connections that are open until this value is dropped.
#[derive(Debug)]
pub(super) struct HeldConnections {
    _streams: Vec<TcpStream>,
}

/// Opens idle connections, over each of which one byte has been sent in each direction.
pub(super) fn hold_connections(route: &Route<'_>, count: usize) -> Result<HeldConnections> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let remote = route.server(listener.local_addr()?);
    thread::scope(|scope| {
        let server = scope.spawn(|| -> Result<Vec<TcpStream>> {
            let accept = || {
                let mut stream = accept(&listener)?;
                stream.read_exact(&mut [0])?;
                stream.write_all(b"x")?;
                Ok(stream)
            };
            (0..count).map(|_| accept()).collect()
        });
        let client = scope.spawn(|| -> Result<Vec<TcpStream>> {
            route.enter()?;
            let open = || {
                let mut stream = connect(remote)?;
                stream.write_all(b"x")?;
                stream.read_exact(&mut [0])?;
                Ok(stream)
            };
            (0..count).map(|_| open()).collect()
        });
        let failed = |_| anyhow::anyhow!("a thread has panicked");
        let mut streams = client.join().map_err(failed)??;
        streams.extend(server.join().map_err(failed)??);
        Ok(HeldConnections { _streams: streams })
    })
}

fn connect(remote: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(remote);
    prepare(stream.with_context(|| format!("cannot connect to {remote}"))?)
}

/// Accepts a connection, but does not wait for longer than the time limit.
fn accept(listener: &TcpListener) -> Result<TcpStream> {
    let clock = os::clock::Monotonic::start();
    let until = clock.now() + IO_TIMEOUT;
    let mut waited = [os::readiness::PollFd::new(listener, os::readiness::PollFlags::IN)];
    os::readiness::wait(&mut waited, &clock, Some(until))?;
    listener.set_nonblocking(true)?;
    let (stream, from) = listener.accept().context("no connection arrives")?;
    ensure!(from.ip() == IpAddr::from(Ipv4Addr::LOCALHOST), "a connection from {from}");
    stream.set_nonblocking(false)?;
    prepare(stream)
}

fn prepare(stream: TcpStream) -> Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    Ok(stream)
}

fn send(mut stream: TcpStream, is_over: &AtomicBool) -> Result<()> {
    let block = vec![0; BLOCK_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all(&block).context("cannot send")?;
    }
    Ok(())
}

/// Receives until the sender closes.
fn receive(mut stream: TcpStream, received: &AtomicU64) -> Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match stream.read(&mut block).context("cannot receive")? {
            0 => return Ok(()),
            length => _ = received.fetch_add(length as u64, Ordering::Relaxed),
        }
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
