//! A path between two network namespaces: a packet relay with a delay. The rate is limited by a
//! queue in the relay or by the kernel's `tbf`.

use os::namespace::{Network, enter_new_network};
use os::tun::Tun;
use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The server's address; plumb has 10.0.0.2.
pub(crate) const SERVER: &str = "10.0.0.1";
const PACKET_LEN: usize = 1_600;
/// Maximum queueing delay of the relay. At this delay the queue is longer than any window used in
/// these tests.
const QUEUE_DELAY_MAX: Duration = Duration::from_secs(8);

/// Component that limits the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limiter {
    /// The relay's own queue.
    Relay,
    /// `tc qdisc add ... tbf`, with a bucket of a few packets.
    Tbf,
}

/// A path, and the TCP settings of the server behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkPath {
    /// Round-trip time, ms.
    pub(crate) round_trip_ms: u64,
    /// Rate towards plumb, kbit/s; `None` for a path that only delays.
    pub(crate) rate_kbps: Option<u64>,
    pub(crate) limiter: Limiter,
    /// Congestion control of the server.
    pub(crate) control: &'static str,
    /// Send buffer limit of the server's sockets, bytes.
    pub(crate) send_buffer: Option<u32>,
}

impl fmt::Display for NetworkPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate_kbps.map_or("no limit".to_owned(), |rate| format!("{rate} kbit/s"));
        let limiter = if self.limiter == Limiter::Tbf { " (tbf)" } else { "" };
        let buffer = self.send_buffer.map_or(String::new(), |bytes| format!(", {bytes} buffered"));
        write!(f, "{} ms, {rate}{limiter}, {}{buffer}", self.round_trip_ms, self.control)
    }
}

impl NetworkPath {
    /// A path limited by the relay, with the CUBIC congestion control.
    pub(crate) const fn new(round_trip_ms: u64, rate_kbps: u64) -> Self {
        let limiter = Limiter::Relay;
        let rate_kbps = Some(rate_kbps);
        Self { round_trip_ms, rate_kbps, limiter, control: "cubic", send_buffer: None }
    }

    /// Creates the network namespaces of plumb and of the server and the path between them, and
    /// returns the server's namespace. The calling thread stays in plumb's namespace.
    pub(crate) fn set_up(self) -> Network {
        enter_new_network().unwrap_or_else(|refused| panic!("{refused}"));
        let remote = tun("far0", "10.0.0.1/24");
        // In a network namespace other than the initial one, congestion control is set per route.
        let words = ["route", "change", "10.0.0.0/24", "dev", "far0", "congctl", self.control];
        run("ip", &words);
        if let Some(bytes) = self.send_buffer {
            set("tcp_wmem", &format!("4096 {bytes} {bytes}"));
        }
        let with_tbf = self.rate_kbps.filter(|_| self.limiter == Limiter::Tbf);
        if let Some(rate_kbps) = with_tbf {
            let rate = format!("{rate_kbps}kbit");
            // The bucket must hold the bytes that pass during one timer tick of the kernel.
            let burst = format!("{}b", (rate_kbps / 8).max(4_000));
            let words = ["qdisc", "add", "dev", "far0", "root", "tbf", "rate", &rate, "burst"];
            run("tc", &[words.as_slice(), &[&burst, "latency", "8s"]].concat());
        }
        let network = Network::of_this_thread().unwrap();
        enter_new_network().unwrap();
        let local = tun("near0", "10.0.0.2/24");
        let rate_kbps = self.rate_kbps.filter(|_| self.limiter == Limiter::Relay);
        let delay = Duration::from_millis(self.round_trip_ms) / 2;
        relay(Arc::clone(&remote), Arc::clone(&local), delay, rate_kbps);
        relay(local, remote, delay, None);
        network
    }
}

fn set(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Creates a TUN with an address in the network namespace of this thread.
fn tun(name: &str, address: &str) -> Arc<Tun> {
    let tun = Tun::open(Some(name)).unwrap();
    tun.set_blocking(true).unwrap();
    run("ip", &["address", "add", address, "dev", name]);
    run("ip", &["link", "set", name, "up"]);
    run("ip", &["link", "set", "lo", "up"]);
    Arc::new(tun)
}

/// Relays packets from one TUN to the other until the test process ends.
fn relay(from: Arc<Tun>, to: Arc<Tun>, delay: Duration, rate_kbps: Option<u64>) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || receive_and_queue(&from, delay, rate_kbps, &sender));
    thread::spawn(move || deliver_delayed(&to, &receiver));
}

type Due = (Instant, Vec<u8>);

fn receive_and_queue(from: &Tun, delay: Duration, rate_kbps: Option<u64>, sender: &Sender<Due>) {
    let mut free_at = Instant::now();
    let mut packet = vec![0; PACKET_LEN];
    while let Ok(read) = from.read(&mut packet) {
        let Some(packet) = read.and_then(|length| packet.get(..length)) else { continue };
        let now = Instant::now();
        let bits = packet.len() as u64 * 8;
        let serial = rate_kbps.map_or(0, |rate| bits * 1_000_000 / rate);
        free_at = free_at.max(now) + Duration::from_nanos(serial);
        if free_at - now > QUEUE_DELAY_MAX {
            continue;
        }
        if sender.send((free_at + delay, packet.to_vec())).is_err() {
            return;
        }
    }
}

fn deliver_delayed(to: &Tun, receiver: &Receiver<Due>) {
    let (_never, alarm) = mpsc::channel::<()>();
    while let Ok((due, packet)) = receiver.recv() {
        let remaining = due.saturating_duration_since(Instant::now());
        // Nothing is ever sent on this channel; it serves as a timer.
        if remaining.is_zero() || alarm.recv_timeout(remaining) == Err(RecvTimeoutError::Timeout) {
            _ = to.write(&packet);
        }
    }
}
