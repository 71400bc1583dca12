//! Our own stack as a server: a station on a device, run by its driver in one thread.
//!
//! `--plain` does without the offloads of a TUN, `--wait block|poll` chooses how to wait, and
//! `--meter off` charges nothing to anybody.

use super::arguments::Arguments;
use super::server::{Mode, PORT};
use anyhow::{Context, Result, bail};
use os::clock;
use os::device::Device;
use os::driver::Driver;
use os::tun::{self, Tun};
use os::waiting::Wait;
use protocols::Cx;
use protocols::chance::Chance;
use protocols::link::{Datagram, Link};
use protocols::meter::{Clock, Meter};
use protocols::station::{Application, Layers, Settings};
use protocols::transport::tcp::{ConnectionId, Event, Profile, SendLimit};
use std::io::{Read, Write};
use std::thread;

/// What a source sends.
static ZEROS: [u8; 65_536] = [0; 65_536];
/// Bytes of an answer that are put together at a time.
const ECHO_BYTES: usize = 4096;
const PREFIX_BITS: u8 = 24;
/// Packet buffers: enough for what waits to be read in one connection, and for a batch.
const PACKETS: usize = 256;

/// Serves as the command line says, until standard input ends.
pub(super) fn serve(arguments: Arguments<'_>) -> Result<()> {
    let mode = arguments.mode()?;
    let buffer_bytes = arguments.number("--buffers", 1 << 20)?;
    let connections: usize = arguments.number("--connections", 1)?;
    let mut driver = driver(arguments, connections)?;
    let profile = Profile {
        receive_window: buffer_bytes,
        send_limit: SendLimit::Bytes(buffer_bytes),
        nagle: false,
        ..Profile::BULK
    };
    let (station, _) = driver.parts();
    station.layers.tcp.listen(PORT, profile).ok().context("nobody can listen")?;
    thread::spawn(end_with_input);
    writeln!(std::io::stdout(), "ready")?;
    let mut service = Service { mode };
    loop {
        driver.turn(&mut service, None)?;
    }
}

fn driver(arguments: Arguments<'_>, connections: usize) -> Result<Driver> {
    let mtu_bytes = arguments.number("--mtu", 1500)?;
    let attach = arguments.text("--attach").unwrap_or_default();
    let Some(name) = attach.strip_prefix("tun:") else {
        bail!("--attach tun:NAME is wanted, not '{}'", attach.escape_debug())
    };
    let options =
        tun::Options { is_offloading: !arguments.has("--plain"), ..tun::Options::default() };
    let device = Device::Tun(Tun::open_with(Some(name), options)?);
    let wait = match arguments.text("--wait") {
        _ if arguments.has("--spin") => Wait::Spin { nanos: u32::MAX },
        Some("poll") => Wait::Poll,
        None | Some("block") => Wait::Block,
        Some(_) => bail!("--wait block or poll is wanted"),
    };
    let is_metered = arguments.text("--meter") != Some("off");
    let meter = if is_metered { Meter::new(Clock::Counter(clock::ticks)) } else { Meter::off() };
    let settings = Settings {
        address: arguments.address()?,
        prefix_len: PREFIX_BITS,
        packets: PACKETS,
        connections: connections + 16,
        ..Settings::default()
    };
    let link = Link::Datagram(Datagram::new(mtu_bytes));
    let chance = Chance::from_seed(os::entropy::seed()?);
    Ok(Driver::new(device, link, settings, wait, (chance, meter))?)
}

/// Waits until standard input ends, says how much processor time was used, and ends the process.
fn end_with_input() {
    // Whatever it is that ends it, it has ended.
    _ = std::io::stdin().read_to_end(&mut Vec::new());
    _ = writeln!(std::io::stdout(), "{:.6}", clock::process_cpu_time().as_secs_f64());
    std::process::exit(0);
}

/// What is done with every connection.
#[derive(Debug)]
struct Service {
    mode: Mode,
}

impl Application for Service {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, layers: &mut Layers, _cx: &mut Cx<'_>) {
        while let Some((id, event)) = layers.tcp.event() {
            match event {
                Event::Established | Event::Readable | Event::Writable => self.serve(id, layers),
                Event::PeerClosed => {
                    self.serve(id, layers);
                    // What has gone needs no closing.
                    _ = layers.tcp.close(id);
                }
                Event::Closed => layers.tcp.release(id),
                Event::Urgent => {}
            }
        }
    }
}

impl Service {
    fn serve(&self, id: ConnectionId, layers: &mut Layers) {
        match self.mode {
            Mode::Sink => while let Some(1..) = drop_piece(id, layers) {},
            Mode::Source => while let Ok(1..) = layers.tcp.send(id, &ZEROS) {},
            Mode::Echo => while let Some(1..) = echo_piece(id, layers) {},
        }
    }
}

/// Drops what can be read at once, and returns how much that was.
fn drop_piece(id: ConnectionId, layers: &mut Layers) -> Option<usize> {
    let count = layers.tcp.received(id).ok()?.len();
    layers.tcp.consume(id, count).ok()?;
    Some(count)
}

/// Sends back what can be read at once and sent, and returns how much that was.
fn echo_piece(id: ConnectionId, layers: &mut Layers) -> Option<usize> {
    let mut piece = [0; ECHO_BYTES];
    let data = layers.tcp.received(id).ok()?;
    let count = data.len().min(piece.len());
    let answer = piece.get_mut(..count)?;
    answer.copy_from_slice(data.get(..count)?);
    let taken = layers.tcp.send(id, answer).ok()?;
    layers.tcp.consume(id, taken).ok()?;
    Some(taken)
}
