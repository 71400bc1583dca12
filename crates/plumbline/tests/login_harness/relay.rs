//! A relay of TCP connections with delay, jitter and stalls, in user space and driven by a seed.

use net::rng::Rng;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Impairments that the relay applies to each chunk of the stream, in each direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) delay_ms: u64,
    pub(crate) jitter_ms: u64,
    /// Percentage of chunks that stall.
    pub(crate) stalls_percent: u64,
    pub(crate) stall_ms: u64,
    pub(crate) seed: u64,
}

/// Relays one connection to `server`; returns the port to connect to.
pub(crate) fn start(server: SocketAddr, path: Path) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (local, _) = listener.accept().unwrap();
        let remote = TcpStream::connect(server).unwrap();
        for stream in [&local, &remote] {
            stream.set_nodelay(true).unwrap();
        }
        let client_reader = local.try_clone().unwrap();
        let server_reader = remote.try_clone().unwrap();
        thread::spawn(move || relay_direction(client_reader, remote, path));
        relay_direction(server_reader, local, Path { seed: path.seed + 1, ..path });
    });
    port
}

/// Relays one direction. Chunks due at the same time are written together, so that the reader gets
/// an echo and its acknowledgment in one read.
fn relay_direction(mut from: TcpStream, mut to: TcpStream, path: Path) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        while let Ok((due, mut bytes)) = receiver.recv() {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            while let Ok((_, more)) = receiver.try_recv() {
                bytes.extend(more);
            }
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        _ = to.shutdown(Shutdown::Write);
    });
    let mut rng = Rng::from_seed(path.seed);
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut delay = path.delay_ms + rng.next_u64() % (path.jitter_ms + 1);
        if rng.next_u64() % 100 < path.stalls_percent {
            delay += rng.next_u64() % (path.stall_ms + 1);
        }
        let due = Instant::now() + Duration::from_millis(delay);
        if sender.send((due, bytes[..count].to_vec())).is_err() {
            return;
        }
    }
}
