//! Many concurrent streams, on one and on two processors: the benefit of the second processor.

use super::client::{Direction, PIECE_BYTES, connect};
use super::rows::Side;
use super::server::Server;
use anyhow::{Context, Result, anyhow, ensure};
use net::Instant;
use net::time::Duration;
use os::clock::{Monotonic, process_cpu_time};
use os::schedule;
use os::socket::TcpInfo;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Number of concurrent streams.
pub(super) const STREAMS: usize = 8;

/// Counters of all streams at one moment.
#[derive(Clone, Copy, Debug)]
struct StreamsSample {
    at: Instant,
    bytes: u64,
    processor_ns: u64,
}

/// Runs [`STREAMS`] streams for `warm_up`, then measures them for `window`. The client has a thread
/// for each stream, distributed over `processors` in turn.
pub(super) fn measure_flow(
    server: &Server,
    direction: Direction,
    processors: &[usize],
    (warm_up, window): (Duration, Duration),
) -> Result<Side> {
    let streams: Result<Vec<TcpStream>> = (0..STREAMS).map(|_| connect(server)).collect();
    let streams = streams?;
    let received = AtomicU64::new(0);
    let has_ended = AtomicBool::new(false);
    let clock = Monotonic::start();
    let sample = || -> Result<StreamsSample> {
        let bytes = match direction {
            Direction::In => acknowledged_bytes(&streams)?,
            Direction::Out => received.load(Ordering::Relaxed),
        };
        let processor_ns = nanos(process_cpu_time()) + server.processor_ns()?;
        Ok(StreamsSample { at: clock.now(), bytes, processor_ns })
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (stream, processor) in streams.iter().zip(processors.iter().cycle()) {
            let received = &received;
            let has_ended = &has_ended;
            threads.push(scope.spawn(move || {
                schedule::pin_to(*processor)?;
                transfer_data(stream, direction, received, has_ended)
            }));
        }
        thread::sleep(warm_up);
        let start = sample();
        thread::sleep(window);
        let end = sample();
        has_ended.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a stream's thread has panicked"))??;
        }
        flow_between(start?, end?).context("nothing has arrived")
    })
}

/// Keeps one stream busy until `has_ended` is set.
fn transfer_data(
    mut stream: &TcpStream,
    direction: Direction,
    received: &AtomicU64,
    has_ended: &AtomicBool,
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while !has_ended.load(Ordering::Relaxed) {
        match direction {
            Direction::In => stream.write_all(&piece)?,
            Direction::Out => {
                let count = stream.read(&mut piece)?;
                ensure!(count > 0, "the server has closed a connection");
                received.fetch_add(count as u64, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

/// Returns the number of bytes of all streams that have arrived at the server.
fn acknowledged_bytes(streams: &[TcpStream]) -> Result<u64> {
    let each =
        streams.iter().map(|stream| TcpInfo::of(stream)?.bytes_acknowledged.context("no TCP_INFO"));
    each.sum()
}

fn flow_between(start: StreamsSample, end: StreamsSample) -> Option<Side> {
    let bits = u128::from(end.bytes.checked_sub(start.bytes)?) * 8;
    let used = u128::from(end.processor_ns.checked_sub(start.processor_ns)?);
    let rate = (bits * 1_000_000_000).checked_div((end.at - start.at).as_nanos())?;
    let cost = (used * 1_000_000_000).checked_div(bits)?;
    let rate = u64::try_from(rate).ok()?;
    let cost_ns = u64::try_from(cost).ok()?;
    Some(Side { rate, cost_ns, lost: 0 })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
