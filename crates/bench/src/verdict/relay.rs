//! The relay: a thread that forwards packets between two TUN devices according to a [`Wire`].

use super::impairment::{Towards, Wire};
use net::time::{Duration, Instant};
use os::clock::Monotonic;
use os::readiness::{PollFd, PollFlags, wait};
use os::schedule;
use os::tun::Tun;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// Read buffer, larger than the MTU of a TUN.
const PACKET_BYTES: usize = 2_048;
/// Number of packets read from one TUN device before the other one is served.
const BATCH: usize = 64;
/// Priority of the relay, higher than that of the threads that starve a processor.
const PRIORITY: u8 = 20;
/// Maximum interval between checks of the stop flag.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// A running relay; it stops on drop.
#[derive(Debug)]
pub(super) struct TunRelay {
    stop: Arc<AtomicBool>,
    late_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl TunRelay {
    /// Forwards packets between the TUNs of the client's and the server's network namespace.
    pub(super) fn start(client: Tun, server: Tun, wire: Wire) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let late_ns = Arc::new(AtomicU64::new(0));
        let flag = Arc::clone(&stop);
        let late = Arc::clone(&late_ns);
        let thread = thread::spawn(move || {
            // Without permission, the delays are only as exact as ordinary scheduling.
            _ = schedule::set_real_time(PRIORITY);
            forward_packets(&client, &server, wire, &flag, &late);
        });
        Self { stop, late_ns, thread: Some(thread) }
    }

    /// Returns the largest time by which a packet left the relay later than the wire computed, ms.
    pub(super) fn late_ms(&self) -> f64 {
        self.late_ns.load(Ordering::Relaxed) as f64 / 1e6
    }
}

impl Drop for TunRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic.
            _ = thread.join();
        }
    }
}

fn forward_packets(
    client: &Tun,
    server: &Tun,
    mut wire: Wire,
    stop: &AtomicBool,
    late: &AtomicU64,
) {
    let clock = Monotonic::start();
    let mut buffer = vec![0; PACKET_BYTES];
    while !stop.load(Ordering::Relaxed) {
        let now_ns = clock.now().as_nanos();
        let late_ns = wire.next_ns().map_or(0, |due_ns| now_ns.saturating_sub(due_ns));
        late.fetch_max(late_ns, Ordering::Relaxed);
        for (towards, tun) in [(Towards::Client, client), (Towards::Server, server)] {
            while let Some(packet) = wire.pop(towards, now_ns) {
                // A device that is down or whose queue is full drops packets.
                _ = tun.write(&packet);
            }
        }
        let stop_at = clock.now() + STOP_INTERVAL;
        let until = wire.next_ns().map_or(stop_at, |ns| Instant::from_nanos(ns).min(stop_at));
        let mut descriptors =
            [PollFd::new(client, PollFlags::IN), PollFd::new(server, PollFlags::IN)];
        if wait(&mut descriptors, &clock, Some(until)).is_err() {
            return;
        }
        for (towards, tun) in [(Towards::Server, client), (Towards::Client, server)] {
            for _ in 0..BATCH {
                let Ok(Some(length)) = tun.read(&mut buffer) else { break };
                let packet = buffer.get(..length).unwrap_or_default().to_vec();
                wire.push(towards, clock.now().as_nanos(), packet);
            }
        }
    }
}
