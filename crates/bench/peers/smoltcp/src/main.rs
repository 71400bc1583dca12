//! smoltcp on a TUN, as a server for the stack benchmark.
//!
//! One thread runs the stack and its sockets, like smoltcp's own examples. A smoltcp socket is
//! either listening or connected, so there is always one more socket than connections, up to
//! `--connections`.

use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::phy::{Medium, TunTapInterface, wait};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

/// Service of a connection: discard, send or echo data.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Sink,
    Source,
    Echo,
}

/// Options of the command line (see docs/benchmarks/stack.md).
struct Options {
    interface: String,
    address: IpAddress,
    mode: Mode,
    buffer_bytes: usize,
    connections: usize,
    spins: bool,
}

const PORT: u16 = 7000;
const PREFIX_BITS: u8 = 24;

fn main() {
    let options = options().unwrap_or_else(|| {
        eprintln!("usage: smoltcp-server --attach tun:NAME --address A --mode sink|source|echo");
        std::process::exit(2)
    });
    let device = TunTapInterface::new(&options.interface, Medium::Ip);
    let mut device = device.unwrap_or_else(|error| {
        eprintln!("cannot attach to {}: {error}", options.interface);
        std::process::exit(1)
    });
    let config = Config::new(HardwareAddress::Ip);
    let mut interface = Interface::new(config, &mut device, Instant::now());
    interface.update_ip_addrs(|addresses| {
        // The address list has a capacity of at least one.
        _ = addresses.push(IpCidr::new(options.address, PREFIX_BITS));
    });
    let mut sockets = SocketSet::new(Vec::new());
    sockets.add(socket(&options));
    std::thread::spawn(end_with_input);
    println!("ready");
    let descriptor = device.as_raw_fd();
    loop {
        // Read all received packets before answering: one segment then carries both the
        // acknowledgment and the window update.
        let now = Instant::now();
        interface.poll_maintenance(now);
        while interface.poll_ingress_single(now, &mut device, &mut sockets)
            != PollIngressSingleResult::None
        {}
        let count = sockets.iter().count();
        if !serve(&mut sockets, options.mode) && count < options.connections {
            sockets.add(socket(&options));
        }
        let now = Instant::now();
        while interface.poll_egress(now, &mut device, &mut sockets) != PollResult::None {}
        if !options.spins {
            // A signal may interrupt the wait; then this iteration does nothing.
            _ = wait(descriptor, interface.poll_delay(now, &sockets));
        }
    }
}

fn socket(options: &Options) -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; options.buffer_bytes]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket.set_congestion_control(CongestionControl::Cubic);
    // Listening succeeds: the socket is closed and has an address.
    _ = socket.listen(PORT);
    socket
}

/// Serves all sockets, and returns whether one of them is still listening.
fn serve(sockets: &mut SocketSet<'_>, mode: Mode) -> bool {
    let mut listens = false;
    for (_, socket) in sockets.iter_mut() {
        let smoltcp::socket::Socket::Tcp(socket) = socket;
        listens |= socket.is_listening();
        match socket.state() {
            State::Closed => _ = socket.listen(PORT),
            State::CloseWait => socket.close(),
            _ => {}
        }
        match mode {
            Mode::Sink => {
                while socket.can_recv() {
                    _ = socket.recv(|data| (data.len(), ()));
                }
            }
            Mode::Source => {
                while socket.can_send() {
                    _ = socket.send(|room| (room.len(), ()));
                }
            }
            Mode::Echo => {
                let mut data = [0; 4096];
                while socket.can_recv() {
                    let count = socket.recv_slice(&mut data).unwrap_or(0);
                    _ = socket.send_slice(data.get(..count).unwrap_or_default());
                }
            }
        }
    }
    listens
}

/// Waits until standard input ends, prints the processor time used, and exits.
fn end_with_input() {
    _ = std::io::stdin().read_to_end(&mut Vec::new());
    let account = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = account.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    _ = writeln!(std::io::stdout(), "{:.6}", nanos / 1e9);
    std::process::exit(0);
}

fn options() -> Option<Options> {
    let mut options = Options {
        interface: String::new(),
        address: IpAddress::v4(0, 0, 0, 0),
        mode: Mode::Echo,
        buffer_bytes: 65_536,
        connections: 1,
        spins: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--attach" => options.interface = words.next()?.strip_prefix("tun:")?.to_owned(),
            "--address" => options.address = words.next()?.parse().ok()?,
            "--mode" => {
                options.mode = match words.next()?.as_str() {
                    "sink" => Mode::Sink,
                    "source" => Mode::Source,
                    "echo" => Mode::Echo,
                    _ => return None,
                }
            }
            "--buffers" => options.buffer_bytes = words.next()?.parse().ok()?,
            "--connections" => options.connections = words.next()?.parse().ok()?,
            // The device reports its MTU itself.
            "--mtu" => _ = words.next()?,
            "--spin" => options.spins = true,
            _ => return None,
        }
    }
    (!options.interface.is_empty()).then_some(options)
}
