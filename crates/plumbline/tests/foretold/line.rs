//! A line between two networks: a relay of packets with a delay, a rate and a queue, or a `tbf` of
//! the kernel with the rate.

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
/// Headers of IP and TCP are on a line, too; a queue holds more than any window here.
const QUEUE: Duration = Duration::from_secs(8);

/// What makes the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limiter {
    /// The relay.
    Relay,
    /// `tc qdisc add ... tbf`, with a bucket of a few packets.
    Tbf,
}

/// A line, and what is set at the server's end of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// The round trip, ms.
    pub(crate) trip_ms: u64,
    /// Its rate towards plumb, kbit/s; none where it is only late.
    pub(crate) rate_kbps: Option<u64>,
    pub(crate) limiter: Limiter,
    /// The server's congestion control.
    pub(crate) control: &'static str,
    /// The most that the server's sockets hold, bytes.
    pub(crate) send_buffer: Option<u32>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.rate_kbps.map_or("no limit".to_owned(), |rate| format!("{rate} kbit/s"));
        let limiter = if self.limiter == Limiter::Tbf { " (tbf)" } else { "" };
        let buffer = self.send_buffer.map_or(String::new(), |bytes| format!(", {bytes} buffered"));
        write!(f, "{} ms, {rate}{limiter}, {}{buffer}", self.trip_ms, self.control)
    }
}

impl Line {
    /// A line of the relay, with the congestion control that most have.
    pub(crate) const fn new(trip_ms: u64, rate_kbps: u64) -> Self {
        let limiter = Limiter::Relay;
        let rate_kbps = Some(rate_kbps);
        Self { trip_ms, rate_kbps, limiter, control: "cubic", send_buffer: None }
    }

    /// Makes the networks of this thread and of the server, with the line between them; returns
    /// the server's. This thread is in plumb's then.
    pub(crate) fn laid(self) -> Network {
        enter_new_network().unwrap_or_else(|refused| panic!("{refused}"));
        let far = tun("far0", "10.0.0.1/24");
        // Of a network that is not the machine's first one, only routes may have any of them.
        let words = ["route", "change", "10.0.0.0/24", "dev", "far0", "congctl", self.control];
        run("ip", &words);
        if let Some(bytes) = self.send_buffer {
            set("tcp_wmem", &format!("4096 {bytes} {bytes}"));
        }
        let by_tbf = self.rate_kbps.filter(|_| self.limiter == Limiter::Tbf);
        if let Some(rate_kbps) = by_tbf {
            let rate = format!("{rate_kbps}kbit");
            // A bucket must hold what comes between two ticks of a scheduler.
            let burst = format!("{}b", (rate_kbps / 8).max(4_000));
            let words = ["qdisc", "add", "dev", "far0", "root", "tbf", "rate", &rate, "burst"];
            run("tc", &[words.as_slice(), &[&burst, "latency", "8s"]].concat());
        }
        let network = Network::of_this_thread().unwrap();
        enter_new_network().unwrap();
        let near = tun("near0", "10.0.0.2/24");
        let rate_kbps = self.rate_kbps.filter(|_| self.limiter == Limiter::Relay);
        let delay = Duration::from_millis(self.trip_ms) / 2;
        relay(Arc::clone(&far), Arc::clone(&near), delay, rate_kbps);
        relay(near, far, delay, None);
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

/// Makes a TUN with an address in the network of this thread.
fn tun(name: &str, address: &str) -> Arc<Tun> {
    let tun = Tun::open(Some(name)).unwrap();
    tun.set_blocking(true).unwrap();
    run("ip", &["address", "add", address, "dev", name]);
    run("ip", &["link", "set", name, "up"]);
    run("ip", &["link", "set", "lo", "up"]);
    Arc::new(tun)
}

/// Carries packets from one TUN to the other, for as long as the test's process lives.
fn relay(from: Arc<Tun>, to: Arc<Tun>, delay: Duration, rate_kbps: Option<u64>) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || take(&from, delay, rate_kbps, &sender));
    thread::spawn(move || give(&to, &receiver));
}

type Due = (Instant, Vec<u8>);

fn take(from: &Tun, delay: Duration, rate_kbps: Option<u64>, sender: &Sender<Due>) {
    let mut free_at = Instant::now();
    let mut packet = vec![0; PACKET_LEN];
    while let Ok(read) = from.read(&mut packet) {
        let Some(packet) = read.and_then(|length| packet.get(..length)) else { continue };
        let now = Instant::now();
        let bits = packet.len() as u64 * 8;
        let serial = rate_kbps.map_or(0, |rate| bits * 1_000_000 / rate);
        free_at = free_at.max(now) + Duration::from_nanos(serial);
        if free_at - now > QUEUE {
            continue;
        }
        if sender.send((free_at + delay, packet.to_vec())).is_err() {
            return;
        }
    }
}

fn give(to: &Tun, receiver: &Receiver<Due>) {
    let (_never, alarm) = mpsc::channel::<()>();
    while let Ok((due, packet)) = receiver.recv() {
        let left = due.saturating_duration_since(Instant::now());
        // Nothing is ever sent there: it is the time alone that is waited for.
        if left.is_zero() || alarm.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            _ = to.write(&packet);
        }
    }
}
