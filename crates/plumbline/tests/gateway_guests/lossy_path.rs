//! Transfers over a path that loses packets between the guest and the gateway.
//!
//! The guest's TAP is connected to the gateway's socket for virtual machines by a relay, which drops
//! frames in both directions as a seed decides.

use super::gateway_harness::{
    ALLOW_HOST, Gateway, Guest, HOST, TestFile, accept, command, in_host_network, listen,
};
use net::rng::Rng;
use os::tun::{Kind, Options, Tun};
use ring::digest::{Context, Digest, SHA256};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use test_support::ip;

const FRAME_MAX: usize = 65_536;
const CHUNK_LEN: usize = 1 << 18;
/// One of this number of frames is lost.
const LOSS_INTERVAL: u64 = 200;
const SEED: u64 = 233;
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(600);

/// Numbers of frames of a relay.
#[derive(Debug, Default)]
struct Frames {
    lost: AtomicU64,
    relayed: AtomicU64,
}

impl Frames {
    /// Returns whether the next frame is lost, and counts it.
    fn is_lost(&self, rng: &mut Rng) -> bool {
        let is_lost = rng.next_u64().is_multiple_of(LOSS_INTERVAL);
        let counter = if is_lost { &self.lost } else { &self.relayed };
        counter.fetch_add(1, Ordering::Relaxed);
        is_lost
    }
}

/// Connects a TAP in the namespace of the guest with the gateway's socket.
fn relay(guest: &Guest, socket: &TestFile) -> Arc<Frames> {
    let tap = guest.run(|| {
        let options = Options { kind: Kind::Tap, ..Options::default() };
        let tap = Tun::open_with(Some("eth0"), options).unwrap();
        ip(&["link", "set", "eth0", "up"]);
        ip(&["address", "add", "10.0.2.100/24", "dev", "eth0"]);
        ip(&["route", "add", "default", "via", "10.0.2.2"]);
        tap
    });
    tap.set_blocking(true).unwrap();
    let frames = Arc::new(Frames::default());
    let tap = Arc::new(tap);
    let stream = UnixStream::connect(&socket.0).unwrap();
    let to_gateway_stream = stream.try_clone().unwrap();
    thread::spawn({
        let tap = tap.clone();
        let frames = frames.clone();
        move || to_gateway(&tap, to_gateway_stream, &frames)
    });
    thread::spawn({
        let frames = frames.clone();
        move || to_guest(stream, &tap, &frames)
    });
    frames
}

fn to_gateway(tap: &Tun, mut stream: UnixStream, frames: &Frames) {
    let mut rng = Rng::from_seed(SEED);
    let mut buffer = vec![0; FRAME_MAX];
    while let Ok(Some(len)) = tap.read(&mut buffer) {
        let header = u32::try_from(len).unwrap().to_be_bytes();
        if !frames.is_lost(&mut rng)
            && stream.write_all(&[&header, &buffer[..len]].concat()).is_err()
        {
            return;
        }
    }
}

fn to_guest(mut stream: UnixStream, tap: &Tun, frames: &Frames) {
    let mut rng = Rng::from_seed(SEED + 1);
    let mut buffer = vec![0; FRAME_MAX];
    let mut header = [0; 4];
    while stream.read_exact(&mut header).is_ok() {
        let len = usize::try_from(u32::from_be_bytes(header)).unwrap();
        if stream.read_exact(&mut buffer[..len]).is_err() {
            return;
        }
        if !frames.is_lost(&mut rng) {
            tap.write(&buffer[..len]).unwrap();
        }
    }
}

/// Sends `len` bytes that depend on `seed`, ends the stream, and returns their digest.
fn send(mut stream: &TcpStream, len: u64, seed: u64) -> Digest {
    let mut rng = Rng::from_seed(seed);
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; CHUNK_LEN];
    let mut sent = 0;
    while sent < len {
        chunk.chunks_exact_mut(8).for_each(|word| {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        });
        context.update(&chunk);
        stream.write_all(&chunk).unwrap();
        sent += CHUNK_LEN as u64;
    }
    stream.shutdown(Shutdown::Write).unwrap();
    context.finish()
}

/// Receives until the end of the stream, and returns the digest and the number of bytes.
fn receive(mut stream: &TcpStream) -> (Digest, u64) {
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; CHUNK_LEN];
    let mut received = 0;
    loop {
        match stream.read(&mut chunk).unwrap() {
            0 => return (context.finish(), received),
            len => {
                context.update(&chunk[..len]);
                received += len as u64;
            }
        }
    }
}

/// Sends `len` bytes in each direction at the same time.
fn exchange(len: u64) {
    in_host_network(|| {
        let guest = Guest::new();
        let socket = TestFile::unused("machine");
        let guest_name = format!("qemu:{}", socket.path());
        let _gateway = Gateway::start_command(command(&guest_name, &ALLOW_HOST));
        let frames = relay(&guest, &socket);
        let (listener, address) = listen(HOST);
        let client = guest.connect(address).unwrap();
        let (server, _) = accept(&listener);
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(TRANSFER_TIMEOUT)).unwrap();
        }
        thread::scope(|scope| {
            let upload = scope.spawn(|| send(&client, len, 1));
            let download = scope.spawn(|| send(&server, len, 2));
            let uploaded = scope.spawn(|| receive(&server));
            let downloaded = scope.spawn(|| receive(&client));
            let check = |sent: Digest, (received, received_len): (Digest, u64)| {
                assert_eq!(received_len, len);
                assert_eq!(received.as_ref(), sent.as_ref());
            };
            check(upload.join().unwrap(), uploaded.join().unwrap());
            check(download.join().unwrap(), downloaded.join().unwrap());
        });
        let [lost, relayed] = [&frames.lost, &frames.relayed].map(|n| n.load(Ordering::Relaxed));
        assert!(lost > relayed / (2 * LOSS_INTERVAL), "{frames:?}");
    });
}

#[test]
fn data_in_both_directions_is_intact_if_frames_are_lost() {
    exchange(64 << 20);
}

#[test]
#[ignore = "needs root or a user namespace, and takes minutes"]
fn a_gibibyte_in_both_directions_is_intact_if_frames_are_lost() {
    if super::is_long_run() {
        exchange(1 << 30);
    }
}
