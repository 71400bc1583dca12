//! Two network namespaces, the server's with 10.0.0.1 and plumb's with 10.0.0.2, and a packet relay
//! between them that delays or drops packets.

use os::namespace::{Network, enter_new_network};
use os::tun::Tun;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Address of the server.
pub(crate) const SERVER_ADDRESS: &str = "10.0.0.1";
const PACKET_LEN: usize = 1_600;

/// Properties of the relay between the two network namespaces, and kernel settings of the
/// namespaces.
#[derive(Clone, Copy, Default)]
pub(crate) struct RelayedPath {
    /// Delay of each packet, in each direction.
    pub(crate) delay: Duration,
    /// If `Some(n)`, one packet in n is dropped on average.
    pub(crate) loss_divisor: Option<u64>,
    /// Queueing discipline of the server's interface, in the syntax of `tc qdisc add`.
    pub(crate) limit: &'static [&'static str],
    /// Maximum receive buffers in bytes: the server's, and plumb's.
    pub(crate) buffers: [Option<u32>; 2],
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Sets the receive buffers in the network namespace of this thread.
fn limit_buffers(bytes: Option<u32>) {
    if let Some(bytes) = bytes {
        let text = format!("{bytes} {bytes} {bytes}\n");
        std::fs::write("/proc/sys/net/ipv4/tcp_rmem", text).unwrap();
    }
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

/// Returns the seed of the next round. If the path drops packets, also prints the value of
/// `PLUMB_CAUSES_SEED` with which a new run uses this seed in its first round.
fn next_seed(path: &RelayedPath) -> u64 {
    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    let round = ROUNDS.fetch_add(1, Ordering::Relaxed);
    let seed = crate::number("PLUMB_CAUSES_SEED").unwrap_or(1).wrapping_add(round);
    if path.loss_divisor.is_some() {
        println!("packets are dropped as with PLUMB_CAUSES_SEED={seed}");
    }
    seed
}

/// Relays packets from one TUN to the other until the test process ends.
fn relay(from: Arc<Tun>, to: Arc<Tun>, path: RelayedPath, seed: u64) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut count = 0_u64;
        let mut packet = vec![0; PACKET_LEN];
        while let Ok(read) = from.read(&mut packet) {
            let Some(packet) = read.and_then(|length| packet.get(..length)) else { continue };
            count += 1;
            // The sequence of draws is not periodic: a period could drop the same packet of every
            // exchange.
            let draw = (count ^ seed << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            if path.loss_divisor.is_some_and(|one_in| count > 20 && draw.is_multiple_of(one_in)) {
                continue;
            }
            if sender.send((Instant::now() + path.delay, packet.to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        while let Ok((due, packet)) = receiver.recv() {
            wait_until(due);
            _ = to.write(&packet);
        }
    });
}

/// Waits until `due`.
pub(crate) fn wait_until(due: Instant) {
    let (_never, alarm) = mpsc::channel::<()>();
    let remaining = due.saturating_duration_since(Instant::now());
    // Nothing is ever sent on this channel; it serves as a timer.
    while !remaining.is_zero() && alarm.recv_timeout(remaining) != Err(RecvTimeoutError::Timeout) {}
}

/// Creates the two network namespaces, and runs `test` in plumb's.
pub(crate) fn run_over_path<T: Send + 'static>(
    path: RelayedPath,
    test: impl FnOnce(&Network) -> T + Send + 'static,
) -> T {
    let test_thread = thread::spawn(move || {
        enter_new_network().unwrap_or_else(|refused| panic!("{refused}"));
        let remote = tun("far0", "10.0.0.1/24");
        limit_buffers(path.buffers[0]);
        if !path.limit.is_empty() {
            run("tc", &[&["qdisc", "add", "dev", "far0", "root"], path.limit].concat());
        }
        let far_network = Network::of_this_thread().unwrap();
        enter_new_network().unwrap();
        let local = tun("near0", "10.0.0.2/24");
        limit_buffers(path.buffers[1]);
        let seed = next_seed(&path);
        relay(Arc::clone(&remote), Arc::clone(&local), path, seed);
        relay(local, remote, path, seed);
        test(&far_network)
    });
    test_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Creates one network namespace in which the server uses the kernel's TCP, with a TUN for plumb's
/// own TCP, and runs `test` in this namespace.
pub(crate) fn run_on_a_tun<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
    let test_thread = thread::spawn(move || {
        enter_new_network().unwrap_or_else(|refused| panic!("{refused}"));
        run("ip", &["tuntap", "add", "plumb0", "mode", "tun"]);
        run("ip", &["address", "add", "10.0.0.1/24", "dev", "plumb0"]);
        run("ip", &["link", "set", "plumb0", "up"]);
        test()
    });
    test_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs `start` in the server's network namespace.
pub(crate) fn in_server_network<T: Send>(remote: &Network, start: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let server_thread = scope.spawn(|| {
            remote.enter().unwrap();
            start()
        });
        server_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
