//! The client, on the kernel's sockets. It behaves identically with every server.

use super::server::Server;
use anyhow::{Context, Result, ensure};
use net::Instant;
use net::time::Duration;
use os::clock::{Monotonic, process_cpu_time};
use os::socket::{TcpInfo, connect_with_congestion_control};
use records::statistics::percentile;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// Congestion control of both ends of the kernel's connections.
pub(super) const CONGESTION_CONTROL: &str = "cubic";
/// Time without an answer after which a server has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes per system call of a bulk transfer.
pub(super) const PIECE_BYTES: usize = 128 * 1024;

/// Direction of a data transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the client to the server.
    In,
    /// From the server to the client.
    Out,
}

/// Result of one bulk stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bulk {
    /// Rate of the data that arrived.
    pub(super) bits_per_second: u64,
    /// Processor time of both ends together.
    pub(super) processor_ns_per_gbit: u64,
    /// Segments that the client's kernel retransmitted.
    pub(super) retransmissions: u32,
}

/// Round-trip times of a byte through the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Echo {
    /// Shortest round-trip time.
    pub(super) min_ns: u64,
    /// Median round-trip time.
    pub(super) p50_ns: u64,
    /// 90th percentile of the round-trip time.
    pub(super) p90_ns: u64,
    /// 99th percentile of the round-trip time.
    pub(super) p99_ns: u64,
}

impl Echo {
    fn from_samples(samples_ns: &[u64]) -> Option<Self> {
        Some(Self {
            min_ns: *samples_ns.iter().min()?,
            p50_ns: percentile(samples_ns, 50)?,
            p90_ns: percentile(samples_ns, 90)?,
            p99_ns: percentile(samples_ns, 99)?,
        })
    }
}

pub(super) fn connect(server: &Server) -> Result<TcpStream> {
    let stream = connect_with_congestion_control(server.address(), CONGESTION_CONTROL);
    let stream = stream.context("the server does not answer")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

/// Counters of a stream at one moment.
#[derive(Clone, Copy, Debug)]
struct StreamSample {
    at: Instant,
    bytes: u64,
    processor_ns: u64,
}

/// Runs a transfer for `warm_up`, then measures it for `window`.
pub(super) fn measure_bulk(
    server: &Server,
    direction: Direction,
    warm_up: Duration,
    window: Duration,
) -> Result<Bulk> {
    let mut stream = connect(server)?;
    let clock = Monotonic::start();
    let mut piece = vec![0; PIECE_BYTES];
    let mut received = 0;
    let mut run_until = |until: Instant| -> Result<StreamSample> {
        while clock.now() < until {
            match direction {
                Direction::In => stream.write_all(&piece)?,
                Direction::Out => {
                    let count = stream.read(&mut piece)?;
                    ensure!(count > 0, "the server has closed the connection");
                    received += count as u64;
                }
            }
        }
        let received_bytes = match direction {
            Direction::In => TcpInfo::of(&stream)?.bytes_acknowledged.context("no TCP_INFO")?,
            Direction::Out => received,
        };
        let processor_ns = nanos(process_cpu_time()) + server.processor_ns()?;
        Ok(StreamSample { at: clock.now(), bytes: received_bytes, processor_ns })
    };
    let start = run_until(clock.now() + warm_up)?;
    let end = run_until(start.at + window)?;
    let retransmissions = TcpInfo::of(&stream)?.total_retransmissions;
    bulk_between(start, end, retransmissions).context("nothing has arrived")
}

fn bulk_between(start: StreamSample, end: StreamSample, retransmissions: u32) -> Option<Bulk> {
    let bits = u128::from(end.bytes.checked_sub(start.bytes)?) * 8;
    let processor_time_ns = u128::from(end.processor_ns.checked_sub(start.processor_ns)?);
    let bits_per_second = (bits * 1_000_000_000).checked_div((end.at - start.at).as_nanos())?;
    let per_gbit = (processor_time_ns * 1_000_000_000).checked_div(bits)?;
    Some(Bulk {
        bits_per_second: u64::try_from(bits_per_second).ok()?,
        processor_ns_per_gbit: u64::try_from(per_gbit).ok()?,
        retransmissions,
    })
}

/// Sends one byte back and forth `count` times. With `spins` the client polls instead of sleeping.
pub(super) fn measure_echo(server: &Server, count: usize, spins: bool) -> Result<Echo> {
    let mut stream = connect(server)?;
    let clock = Monotonic::start();
    // The first echoes run with cold caches.
    for _ in 0..count / 20 {
        echo_byte(&mut stream, &clock)?;
    }
    stream.set_nonblocking(spins)?;
    let samples: Result<Vec<u64>> = (0..count).map(|_| echo_byte(&mut stream, &clock)).collect();
    Echo::from_samples(&samples?).context("no sample")
}

/// Sends one byte, waits for its echo, and returns the time in nanoseconds.
fn echo_byte(stream: &mut TcpStream, clock: &Monotonic) -> Result<u64> {
    let mut byte = [0; 1];
    let sent_at = clock.now();
    stream.write_all(b"x")?;
    loop {
        match stream.read(&mut byte) {
            Ok(1) => return Ok(nanos(clock.now() - sent_at)),
            Ok(_) => anyhow::bail!("the server has closed the connection"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let elapsed = clock.now() - sent_at;
                ensure!(elapsed < ANSWER_TIMEOUT, "no echo for {} s", ANSWER_TIMEOUT.as_secs());
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Measurements of a server with many idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleConnections {
    /// Number of connections.
    pub(super) connections: usize,
    /// Resident memory of the server.
    pub(super) resident_bytes: u64,
    /// Average time to connect and exchange one byte, over the connections opened since the
    /// previous step.
    pub(super) connect_ns: u64,
    /// Median echo time when consecutive echoes use different connections.
    pub(super) each_p50_ns: u64,
    /// Median echo time when all echoes use the same connection.
    pub(super) same_p50_ns: u64,
}

/// Opens connections up to each of `steps`, exchanges a byte on each, and measures at each step.
pub(super) fn measure_idle_connections(
    server: &Server,
    steps: &[usize],
    count: usize,
) -> Result<Vec<IdleConnections>> {
    let clock = Monotonic::start();
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut idle_connections = Vec::new();
    for step in steps {
        let started_at = clock.now();
        let new_connections = step.saturating_sub(streams.len()).max(1) as u64;
        while streams.len() < *step {
            let mut stream = connect(server)?;
            echo_byte(&mut stream, &clock)
                .with_context(|| format!("connection {}", streams.len()))?;
            streams.push(stream);
        }
        let connect_ns = nanos(clock.now() - started_at) / new_connections;
        let resident_bytes = server.resident_bytes()?;
        let each = measure_in_turn(&mut streams, count, &clock)?;
        let same = measure_in_turn(streams.get_mut(..1).unwrap_or_default(), count, &clock)?;
        idle_connections.push(IdleConnections {
            connections: *step,
            resident_bytes,
            connect_ns,
            each_p50_ns: each,
            same_p50_ns: same,
        });
    }
    Ok(idle_connections)
}

/// Measures echoes of one byte on one stream after the other, and returns the median time.
///
/// If there are many streams, only every nth is used, so that each used stream gets its next byte
/// before the 40 ms timer of its delayed acknowledgment expires in the client's kernel. Otherwise a
/// separate acknowledgment would wake the server, and the time would include that cost in addition
/// to the cost of many connections.
fn measure_in_turn(streams: &mut [TcpStream], count: usize, clock: &Monotonic) -> Result<u64> {
    let until = clock.now() + TURNS_TIME_LIMIT;
    let step = streams.len().div_ceil(STREAMS_IN_TURN_MAX).max(1);
    let mut samples = Vec::with_capacity(count);
    while samples.len() < count && clock.now() < until {
        for stream in streams.iter_mut().step_by(step).take(count - samples.len()) {
            samples.push(echo_byte(stream, clock)?);
        }
    }
    percentile(&samples, 50).context("no sample")
}

/// Maximum number of connections used in turn.
const STREAMS_IN_TURN_MAX: usize = 1_000;
/// Time after which no further pass over the connections starts; only slow servers reach it.
const TURNS_TIME_LIMIT: Duration = Duration::from_secs(3);

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_figures_cover_the_data_between_two_samples() {
        let sample = |seconds, bytes, processor_ns| StreamSample {
            at: Instant::ZERO + Duration::from_secs(seconds),
            bytes,
            processor_ns,
        };
        let bulk =
            bulk_between(sample(1, 1_000, 5), sample(3, 250_001_000, 60_000_005), 7).unwrap();
        assert_eq!(bulk.bits_per_second, 1_000_000_000);
        assert_eq!(bulk.processor_ns_per_gbit, 30_000_000);
        assert_eq!(bulk.retransmissions, 7);
        assert_eq!(bulk_between(sample(1, 5, 5), sample(2, 5, 6), 0), None);
    }
}
