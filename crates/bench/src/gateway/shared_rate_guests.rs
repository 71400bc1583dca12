//! Guests that share a slow uplink: fairness between guests, and the delay of an echo of a quiet one.
//!
//! plumb limits the packets to all guests. slirp4netns has no limit, so a token bucket filter of the
//! kernel (tc-tbf) limits the loopback interface that its processes share.

use super::contender::{self, GatewayKind};
use super::guest::Guest;
use crate::typing::plumb;
use anyhow::{Context, Result, ensure};
use net::time::Duration;
use os::clock::Monotonic;
use os::namespace::Network;
use os::process::Program;
use os::readiness::{self, PollFd, PollFlags};
use os::socket;
use records::statistics::percentile;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const GUESTS: u8 = 20;
const FLOWS: usize = 50;
const RATE: &str = "10mbit";
const WARM_UP: Duration = Duration::from_secs(2);
const ECHO_INTERVAL: Duration = Duration::from_millis(10);
/// Limit of unsent data in a socket of a server, in bytes.
const UNSENT_BYTES: u32 = 8 << 10;
const BLOCK_BYTES: usize = 8 << 10;
/// Time after which a thread looks whether the measurement is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Figures of the guests of one gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SharedRate {
    /// Jain's index of the bytes that the busy guests have received.
    pub(super) jain: f64,
    pub(super) mbit_per_s: f64,
    /// Times of an echo of one byte of the quiet guest.
    pub(super) echo_p50_ns: f64,
    pub(super) echo_p99_ns: f64,
}

/// Guests and their gateways. The loopback interface is limited until this value is dropped.
struct Guests {
    guests: Vec<Guest>,
    _gateways: Vec<Program>,
    hosts: Vec<Ipv4Addr>,
    is_loopback_limited: bool,
}

/// Measures a gateway for `duration`.
pub(super) fn measure(kind: &GatewayKind, duration: Duration) -> Result<SharedRate> {
    let guests = match kind {
        GatewayKind::Plumb(_) => Guests::of_plumb()?,
        GatewayKind::Slirp4netns => Guests::of_slirp4netns()?,
        GatewayKind::Pasta => anyhow::bail!("not measured: it copies one address to all guests"),
        GatewayKind::GvisorTapVsock(_) => anyhow::bail!("not measured: it has no limit to share"),
    };
    guests.measure(duration)
}

impl Guests {
    /// One plumb for all guests.
    fn of_plumb() -> Result<Self> {
        let guests: Vec<Guest> = (0..GUESTS).map(|_| Guest::start()).collect::<Result<_>>()?;
        let mut command = Command::new(plumb()?);
        command.arg("gateway").args(guests.iter().map(|guest| format!("pid:{}", guest.id())));
        command.args(["--rate-total", RATE, "--host-loopback", "--no-ipv6"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut gateway = Program::start(&mut command).context("cannot start plumb")?;
        for guest in &guests {
            contender::wait_until_ready(&mut gateway, guest)?;
        }
        let hosts = (0..GUESTS).map(|number| Ipv4Addr::new(10, 0, 2 + number, 2)).collect();
        Ok(Self { guests, _gateways: vec![gateway], hosts, is_loopback_limited: false })
    }

    /// One slirp4netns for each guest.
    fn of_slirp4netns() -> Result<Self> {
        let kind = GatewayKind::Slirp4netns;
        let guests: Vec<Guest> = (0..GUESTS).map(|_| Guest::start()).collect::<Result<_>>()?;
        let mut gateways = Vec::new();
        for guest in &guests {
            let (mut gateway, _) = kind.start(guest, 1500)?;
            contender::wait_until_ready(&mut gateway, guest)?;
            gateways.push(gateway);
        }
        run("ip", &["link", "set", "lo", "mtu", "1500"])?;
        let limit = ["qdisc", "add", "dev", "lo", "root", "tbf", "rate", RATE];
        run("tc", &[&limit[..], &["burst", "4kb", "latency", "100ms"]].concat())?;
        let hosts = vec![Ipv4Addr::new(10, 0, 2, 2); GUESTS.into()];
        Ok(Self { guests, _gateways: gateways, hosts, is_loopback_limited: true })
    }

    fn measure(&self, duration: Duration) -> Result<SharedRate> {
        let is_over = AtomicBool::new(false);
        let busy = self.guests.len() - 1;
        let received: Vec<AtomicU64> = (0..busy).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| -> Result<SharedRate> {
            // The other threads end even if this one fails.
            let over = Over(&is_over);
            for ((guest, host), counter) in self.guests.iter().zip(&self.hosts).zip(&received) {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let remote = SocketAddr::from((*host, listener.local_addr()?.port()));
                let is_over = &is_over;
                scope.spawn(move || serve(&listener, is_over));
                scope.spawn(move || download(guest.network(), remote, counter, is_over));
            }
            thread::sleep(WARM_UP);
            let count = || -> Vec<u64> {
                received.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
            };
            let before = count();
            let began = Instant::now();
            let host = self.hosts.last().context("no guest")?;
            let times = self.echo(*host, duration)?;
            let seconds = began.elapsed().as_secs_f64();
            let after = count();
            drop(over);
            let shares = after.iter().zip(&before).map(|(all, old)| (all - old) as f64);
            let shares: Vec<f64> = shares.collect();
            let sum: f64 = shares.iter().sum();
            ensure!(sum > 0.0, "the guests have received nothing");
            let figure = |percent| percentile(&times, percent).map(|ns| ns as f64);
            Ok(SharedRate {
                jain: jain(&shares),
                mbit_per_s: sum * 8.0 / seconds / 1e6,
                echo_p50_ns: figure(50).context("no echo")?,
                echo_p99_ns: figure(99).context("no echo")?,
            })
        })
    }

    /// Returns the times of echoes of the last guest.
    fn echo(&self, host: Ipv4Addr, duration: Duration) -> Result<Vec<u64>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let remote = SocketAddr::from((host, listener.local_addr()?.port()));
        let quiet = self.guests.last().context("no guest")?;
        thread::scope(|scope| {
            scope.spawn(move || -> Result<()> {
                let (mut stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let mut byte = [0];
                while stream.read(&mut byte)? > 0 {
                    stream.write_all(&byte)?;
                }
                Ok(())
            });
            let client = scope.spawn(move || -> Result<Vec<u64>> {
                quiet.network().enter()?;
                let mut stream = TcpStream::connect(remote)?;
                stream.set_nodelay(true)?;
                let mut times = Vec::new();
                let first = Instant::now();
                while first.elapsed() < duration {
                    let began = Instant::now();
                    stream.write_all(b"x")?;
                    stream.read_exact(&mut [0])?;
                    times.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
                    thread::sleep(ECHO_INTERVAL);
                }
                Ok(times)
            });
            client.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))?
        })
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        if self.is_loopback_limited {
            // The namespace ends with the bench anyway.
            _ = run("tc", &["qdisc", "del", "dev", "lo", "root"]);
            _ = run("ip", &["link", "set", "lo", "mtu", "65536"]);
        }
    }
}

/// Ends the threads of a measurement when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns Jain's index of fairness: 1 if all values are equal, and 1/n if all but one are zero.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

/// Sends on all connections that arrive, until the measurement is over.
fn serve(listener: &TcpListener, is_over: &AtomicBool) -> Result<()> {
    let mut streams = Vec::new();
    for _ in 0..FLOWS {
        let (stream, _) = listener.accept()?;
        socket::set_unsent_limit(&stream, UNSENT_BYTES)?;
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    let block = vec![0; BLOCK_BYTES];
    while_ready(&streams, PollFlags::OUT, is_over, |mut stream| stream.write(&block))
}

/// Opens the connections of a guest, and reads from them until the measurement is over.
fn download(
    network: &Network,
    remote: SocketAddr,
    received: &AtomicU64,
    is_over: &AtomicBool,
) -> Result<()> {
    network.enter()?;
    let mut streams = Vec::new();
    for _ in 0..FLOWS {
        let stream = TcpStream::connect(remote)?;
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    let mut block = vec![0; BLOCK_BYTES];
    while_ready(&streams, PollFlags::IN, is_over, |mut stream| {
        let read = stream.read(&mut block)?;
        received.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    })
}

/// Calls `work` for each stream that is ready, until the measurement is over.
fn while_ready(
    streams: &[TcpStream],
    wanted: PollFlags,
    is_over: &AtomicBool,
    mut work: impl FnMut(&TcpStream) -> std::io::Result<usize>,
) -> Result<()> {
    let clock = Monotonic::start();
    while !is_over.load(Ordering::Relaxed) {
        let mut waited: Vec<_> = streams.iter().map(|s| PollFd::new(s, wanted)).collect();
        readiness::wait(&mut waited, &clock, Some(clock.now() + POLL_INTERVAL))?;
        let ready: Vec<bool> = waited.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (stream, _) in streams.iter().zip(ready).filter(|(_, is_ready)| *is_ready) {
            match work(stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("cannot start {program}"))?;
    ensure!(status.success(), "{program} {arguments:?} has failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_fairness_is_one_for_equal_shares() {
        assert!((jain(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[3.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-9);
    }
}
