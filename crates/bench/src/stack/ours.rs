//! plumb's stack as a server: a station on a device, run by its driver in one thread.
//!
//! `--plain` disables the offloads of a TUN, `--wait block|yield|poll` selects the wait strategy,
//! and `--meter off` disables the meter. In source mode the stack refers to the server's data
//! without a copy; with `--copy` the data is copied into the stack. With `--queues N` there are N
//! stations on the queues of one TUN, each with a thread and a processor. With `--apart` each
//! datagram passes the TUN as a packet of its own.

use super::datagrams::Datagrams;
use super::server::{Mode, PORT};
use super::server_arguments::Arguments;
use anyhow::{Context, Result, bail};
use net::Cx;
use net::internet::slaac::Secret;
use net::link::ethernet::MacAddress;
use net::link::{Datagram, Ethernet, Link};
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::station::{Application, Layers, Settings, ethernet};
use net::transport::tcp::{ConnectionId, Event, Profile, ReceiveWindow, SendLimit};
use os::clock;
use os::device::Device;
use os::driver::Driver;
use os::interface::Interface;
use os::packet_socket::{self, PacketSocket};
use os::queue_steering;
use os::schedule;
use os::tun::{self, Tun};
use os::wait_strategy::Wait;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread;

/// Bytes that a source hands to the stack at a time.
const SOURCE_BYTES: usize = 65_536;
/// Bytes echoed at a time.
const ECHO_BYTES: usize = 4096;
const PREFIX_BITS: u8 = 24;
/// Number of packet buffers: enough for the unread data of one connection and one batch.
const PACKETS: usize = 256;

/// Serves according to the command line until standard input ends.
pub(super) fn serve(arguments: Arguments<'_>) -> Result<()> {
    let mode = arguments.mode()?;
    let buffer_bytes = arguments.number("--buffers", 1 << 20)?;
    let connections: usize = arguments.number("--connections", 1)?;
    let profile = Profile {
        receive_window: ReceiveWindow::Bytes(buffer_bytes),
        send_limit: SendLimit::Bytes(buffer_bytes),
        nagle: false,
        ..Profile::BULK
    };
    let mut drivers = Vec::new();
    for (device, link) in devices(arguments)? {
        drivers.push(driver(arguments, connections, device, link)?);
    }
    let count = drivers.len();
    let steerings = queue_steering::ring_of(u16::try_from(count)?)?;
    for (driver, steering) in drivers.iter_mut().zip(steerings) {
        driver
            .parts()
            .0
            .layers
            .tcp
            .listen(PORT, profile)
            .ok()
            .context("cannot listen: the port is in use")?;
        if count > 1 {
            driver.join(steering)?;
        }
    }
    let mut drivers = drivers.into_iter().enumerate();
    let (_, mut first) = drivers.next().context("there is no device")?;
    let copies = arguments.has("--copy");
    join_segment(arguments, &mut first, &mut Service::new(mode, copies))?;
    for (number, driver) in drivers {
        thread::spawn(move || -> Result<()> {
            schedule::pin_to(number)?;
            run(driver, &mut Service::new(mode, copies))
        });
    }
    thread::spawn(end_with_input);
    if count > 1 {
        schedule::pin_to(0)?;
    }
    writeln!(std::io::stdout(), "ready")?;
    if mode.is_of_datagrams() {
        let (station, mut cx) = first.parts();
        let mut datagrams = Datagrams::bind(mode, &mut station.layers, &mut cx)?;
        return run(first, &mut datagrams);
    }
    run(first, &mut Service::new(mode, copies))
}

fn run(mut driver: Driver, application: &mut dyn Application) -> Result<()> {
    loop {
        driver.turn(application, None)?;
    }
}

/// Opens the device, or each of its queues, and creates a link for each.
fn devices(arguments: Arguments<'_>) -> Result<Vec<(Device, Link)>> {
    let mtu_bytes = arguments.number("--mtu", 1500)?;
    let attach = arguments.text("--attach").unwrap_or_default();
    match attach.split_once(':') {
        Some(("tun", name)) => {
            let options = tun::Options {
                is_offloading: !arguments.has("--plain"),
                has_single_datagrams: arguments.has("--apart"),
                ..tun::Options::default()
            };
            let queues = match arguments.number("--queues", 1)? {
                1 => vec![Tun::open_with(Some(name), options)?],
                count => Tun::open_queues(Some(name), options, count)?,
            };
            let link = || Link::Datagram(Datagram::new(mtu_bytes));
            Ok(queues.into_iter().map(|queue| (Device::Tun(queue), link())).collect())
        }
        Some(("packet", name)) => {
            let options = packet_socket::Options { is_offloading: true, is_promiscuous: false };
            let socket = PacketSocket::open(name, options)?;
            Ok(vec![(Device::PacketSocket(socket), Link::Ethernet(Ethernet::new(mtu_bytes)))])
        }
        _ => bail!("--attach needs tun:NAME or packet:NAME, not '{}'", attach.escape_debug()),
    }
}

fn driver(
    arguments: Arguments<'_>,
    connections: usize,
    device: Device,
    link: Link,
) -> Result<Driver> {
    let wait = match arguments.text("--wait") {
        _ if arguments.has("--spin") => Wait::Spin { nanos: u32::MAX },
        Some("poll") => Wait::Poll,
        Some("yield") => Wait::Yield,
        None | Some("block") => Wait::Block,
        Some(_) => bail!("--wait needs block, yield or poll"),
    };
    let is_metered = arguments.text("--meter") != Some("off");
    let meter =
        if is_metered { Meter::new(Clock::Counter(clock::counter())) } else { Meter::off() };
    let is_on_segment = matches!(link, Link::Ethernet(_));
    let settings = Settings {
        // On an Ethernet segment the address is assigned after conflict detection.
        address: if is_on_segment { Ipv4Addr::UNSPECIFIED } else { arguments.address()? },
        prefix_len: PREFIX_BITS,
        packets: PACKETS,
        connections: connections + 16,
        ..Settings::default()
    };
    let rng = Rng::from_seed(os::entropy::seed()?);
    Ok(Driver::new(device, link, settings, wait, (rng, meter))?)
}

/// Acquires the address on an Ethernet segment, which takes some seconds (RFC 5227 §2.1).
fn join_segment(
    arguments: Arguments<'_>,
    driver: &mut Driver,
    service: &mut Service,
) -> Result<()> {
    let Some(name) = arguments.text("--attach").and_then(|text| text.strip_prefix("packet:"))
    else {
        return Ok(());
    };
    let mac =
        Interface::named(name)?.hardware_address()?.context("the interface has no MAC address")?;
    let address = arguments.address()?;
    let settings = ethernet::Settings {
        mac: MacAddress::new(mac),
        ipv4: ethernet::Ipv4::Static { address, prefix_len: PREFIX_BITS, router: None },
        ipv6: ethernet::Ipv6::Off,
        secret: Secret([0; 2]),
        host_name: Vec::new(),
    };
    let (station, mut cx) = driver.parts();
    station.join_segment(settings, &mut cx);
    while driver.parts().0.address().is_unspecified() {
        driver.turn(service, None)?;
    }
    Ok(())
}

/// Waits until standard input ends, prints the processor time used, and exits.
fn end_with_input() {
    // An error ends the input too.
    _ = std::io::stdin().read_to_end(&mut Vec::new());
    _ = writeln!(std::io::stdout(), "{:.6}", clock::process_cpu_time().as_secs_f64());
    std::process::exit(0);
}

/// Service for every connection.
#[derive(Debug)]
struct Service {
    mode: Mode,
    /// Whether source mode copies its data into the stack.
    copies: bool,
    zeros: Arc<[u8]>,
    /// Buffer for echoed data.
    piece: Vec<u8>,
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
                    // Fails if the connection is already gone.
                    _ = layers.tcp.close(id);
                }
                Event::Closed => layers.tcp.release(id),
                Event::Urgent | Event::Unresponsive => {}
            }
        }
    }
}

impl Service {
    fn new(mode: Mode, copies: bool) -> Self {
        Self { mode, copies, zeros: Arc::new([0; SOURCE_BYTES]), piece: vec![0; ECHO_BYTES] }
    }

    fn serve(&mut self, id: ConnectionId, layers: &mut Layers) {
        match self.mode {
            Mode::Sink => while let Some(1..) = discard_received(id, layers) {},
            Mode::Source if self.copies => while let Ok(1..) = layers.tcp.send(id, &self.zeros) {},
            Mode::Source => while let Ok(1..) = layers.tcp.send_shared(id, &self.zeros, 0) {},
            Mode::Echo => while let Some(1..) = echo_received(id, &mut self.piece, layers) {},
            Mode::DatagramSink | Mode::DatagramSource => {}
        }
    }
}

/// Discards readable data, and returns the number of bytes.
fn discard_received(id: ConnectionId, layers: &mut Layers) -> Option<usize> {
    let count = layers.tcp.received(id).ok()?.len();
    layers.tcp.consume(id, count).ok()?;
    Some(count)
}

/// Echoes as much data as is readable and can be sent now, and returns the number of bytes.
fn echo_received(id: ConnectionId, piece: &mut [u8], layers: &mut Layers) -> Option<usize> {
    let data = layers.tcp.received(id).ok()?;
    if data.is_empty() {
        return None;
    }
    let count = data.len().min(piece.len());
    let answer = piece.get_mut(..count)?;
    answer.copy_from_slice(data.get(..count)?);
    let sent_bytes = layers.tcp.send(id, answer).ok()?;
    layers.tcp.consume(id, sent_bytes).ok()?;
    Some(sent_bytes)
}
