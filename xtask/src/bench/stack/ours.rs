//! Our own server: a station on a device, driven in one thread from packet to answer.

use super::server::{Mode, PORT};
use anyhow::{Context, Result, bail};
use os::clock::{process_cpu_time, ticks};
use os::device::Device;
use os::driver::Driver;
use os::tun::{Options, Tun};
use os::waiting::Wait;
use protocols::Cx;
use protocols::chance::Chance;
use protocols::link::{Datagram, Link};
use protocols::meter::{Clock, Meter};
use protocols::station::{Application, Layers, Settings};
use protocols::transport::tcp::{ConnectionId, Event, Profile, SendLimit, Tcp};
use std::io::{Read, Write};
use std::net::Ipv4Addr;

/// Every server is in a network of so many bits.
const PREFIX_LEN: u8 = 24;
/// Packet buffers: enough for what waits to be read in one connection, and for a batch.
const PACKETS: usize = 256;
/// What a connection may have unread, and outstanding.
const WINDOW_BYTES: usize = 1 << 20;
/// Longer than any echo takes, so that a spinning server never sleeps.
const SPIN_NS: u32 = 1_000_000_000;

/// Does with each connection what the mode says.
struct Server {
    mode: Mode,
    profile: Profile,
    is_listening: bool,
    /// What is sent, again and again, or was received and is to be sent back.
    data: Vec<u8>,
}

impl Server {
    fn serve(&mut self, tcp: &mut Tcp, id: ConnectionId) {
        match self.mode {
            Mode::Sink => {
                while let Some(count @ 1..) = tcp.received(id).ok().map(<[u8]>::len) {
                    _ = tcp.consume(id, count);
                }
            }
            Mode::Source => while matches!(tcp.send(id, &self.data), Ok(1..)) {},
            Mode::Echo => {
                self.data.clear();
                self.data.extend_from_slice(tcp.received(id).unwrap_or_default());
                let sent = tcp.send(id, &self.data).unwrap_or(0);
                _ = tcp.consume(id, sent);
            }
        }
    }
}

impl Application for Server {
    fn wants_to_run(&self) -> bool {
        !self.is_listening
    }

    fn run(&mut self, layers: &mut Layers, _cx: &mut Cx<'_>) {
        if !self.is_listening {
            self.is_listening = layers.tcp.listen(PORT, self.profile).is_ok();
        }
        while let Some((id, event)) = layers.tcp.event() {
            match event {
                Event::PeerClosed | Event::Closed => layers.tcp.release(id),
                Event::Established | Event::Readable | Event::Writable | Event::Urgent => {
                    self.serve(&mut layers.tcp, id);
                }
            }
        }
    }
}

/// Serves as the command line says, until standard input ends.
pub(super) fn serve(arguments: &[&str]) -> Result<()> {
    let value = |name: &str| {
        let at = arguments.iter().position(|word| *word == name)?;
        arguments.get(at + 1).copied()
    };
    let address: Ipv4Addr = value("--address").context("--address is missing")?.parse()?;
    let mode = value("--mode").and_then(Mode::named).context("--mode is missing")?;
    let mtu_bytes: usize = value("--mtu").unwrap_or("1500").parse()?;
    let connections = value("--connections").unwrap_or("1").parse::<usize>()? + 16;
    let buffer_bytes = value("--buffers").map_or(Ok(WINDOW_BYTES), str::parse)?;
    let has = |name: &str| arguments.contains(&name);
    let device = attach(value("--attach").context("--attach is missing")?, !has("--plain"))?;
    let wait = if has("--spin") { Wait::Spin { nanos: SPIN_NS } } else { Wait::Block };
    let meter = if has("--unmetered") { Meter::off() } else { Meter::new(Clock::Counter(ticks)) };
    let settings = Settings {
        address,
        prefix_len: PREFIX_LEN,
        packets: PACKETS,
        connections,
        ..Settings::default()
    };
    let bench = (Chance::from_seed(os::entropy::seed()?), meter);
    let link = Link::Datagram(Datagram::new(mtu_bytes));
    let mut driver = Driver::new(device, link, settings, wait, bench)?;
    let profile = Profile {
        receive_window: buffer_bytes,
        send_limit: SendLimit::Bytes(buffer_bytes),
        nagle: false,
        ..Profile::BULK
    };
    let data = vec![b'x'; if mode == Mode::Source { 1 << 16 } else { 0 }];
    let mut server = Server { mode, profile, is_listening: false, data };
    std::thread::spawn(end_with_input);
    writeln!(std::io::stdout(), "ready")?;
    loop {
        driver.turn(&mut server, None)?;
    }
}

fn attach(attachment: &str, is_offloading: bool) -> Result<Device> {
    match attachment.split_once(':') {
        Some(("tun", name)) => {
            let options = Options { is_offloading, ..Options::default() };
            Ok(Device::Tun(Tun::open_with(Some(name), options)?))
        }
        _ => bail!("'{attachment}' is no attachment of ours: use tun:NAME"),
    }
}

fn end_with_input() {
    // An input that fails has ended too.
    _ = std::io::stdin().read_to_end(&mut Vec::new());
    _ = writeln!(std::io::stdout(), "{:.6}", process_cpu_time().as_secs_f64());
    std::process::exit(0);
}
