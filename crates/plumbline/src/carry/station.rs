//! Runs a session over the user-space TCP/IP in one thread: a station on a TUN, an Ethernet segment
//! or a serial line.
//!
//! The driver waits until a descriptor is ready or a deadline expires, passes incoming data to the
//! station, runs the station's steps until none is ready, and writes their output.

use super::outcome::Failures;
use super::via::Own;
use super::{
    Bench, Call, CarrierStatus, Outcome, SerialLink, Session, Via, may_hold_back, packet_io,
};
use anyhow::{Context, Result, bail};
use os::clock::Monotonic;
use os::interface::{Interface, peer6};
use os::readiness::{self, News, PollFlags, Wake};
use os::serial::Serial;
use os::tun::{self, Tun};
use protocols::Cx;
use protocols::internet::addresses::{Address, scope};
use protocols::link::{Datagram, Link, Llp, Ppp, Slip, ppp};
use protocols::meter::{Account, Counter, Work};
use protocols::station::{
    Application, Carried, Layers, Opening, Scheduler, Settings, Station, Step, ethernet,
};
use protocols::time::Instant;
use protocols::transport::tcp::{Acknowledgment, Ending, Profile, ReceiveWindow, SendLimit};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Maximum number of packets read from the device before any is answered.
const BATCH: usize = 32;
/// Time limit for sending the last packets: a reset at 300 bits per second takes 1.5 s.
const FAREWELL: Duration = Duration::from_secs(2);
const SERIAL_MTU: usize = 576;
/// RFC 1661 §6.1: an implementation must be able to receive packets of this size, whatever MRU it
/// has negotiated.
const PPP_MTU: usize = 1500;
/// Address of an end of a line without an address; it is never routed (RFC 7335).
const NAMELESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Environment variable with the PPP password, for a peer that requires authentication.
const PPP_PASSWORD: &str = "PLUMB_PPP_PASSWORD";
/// Maximum number of bytes written to a serial line at a time, so that an acknowledgment need not
/// wait long.
const SERIAL_CHUNK: usize = 64;
/// Time without an answer after which the next address is tried: one SYN and one retransmission.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Time limit for an interface to come up; the kernel checks the state of its links at least once a
/// second.
const RUNNING_WITHIN: Duration = Duration::from_millis(1_500);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// Maximum delay of the acknowledgment of an echo, which the next key can carry.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(40);
/// Send limit in bytes of a session over a packet device: typed keys and pasted text.
const PASTE_BYTES: usize = 256 * 1024;
/// Maximum receive window in bytes of a session over a packet device.
const OUTPUT_BYTES: usize = 512 * 1024;
/// Initial window of an interactive session, in bytes: a screen of 200 by 60 in color.
const SCREENFUL: usize = 32 * 1024;

/// Device below a station.
pub(super) enum Device {
    /// Packet device.
    Packets(os::device::Device),
    /// Serial line.
    Serial(Serial),
}

impl Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packets(device) => device.as_fd(),
            Self::Serial(serial) => serial.as_fd(),
        }
    }

    /// Returns the capabilities of the device as station settings.
    fn settings(&self) -> Settings {
        let has_offloads = matches!(self, Self::Packets(device) if device.has_offloads());
        let cuts_datagrams = matches!(self, Self::Packets(device) if device.cuts_datagrams());
        Settings {
            segments: has_offloads,
            cuts_datagrams,
            finishes_checksums: has_offloads,
            routines: os::checksum::routines(),
            ..Settings::default()
        }
    }
}

struct Driver<'a, S: Session> {
    device: Device,
    station: Station,
    scheduler: Scheduler,
    carried: Carried<S>,
    bench: &'a mut Bench,
    buffer: Vec<u8>,
    /// Bytes from the link that the device has not accepted yet.
    unwritten: Vec<u8>,
    /// Readiness of the device, followed by the session's inputs and its display.
    news: News,
    inputs: usize,
    /// Index of the session's display among the watched descriptors; it is watched while it is
    /// full.
    display: Option<usize>,
    is_display_watched: bool,
    /// Events that the device is watched for.
    watched: PollFlags,
}

/// Index of the device among the watched descriptors.
const DEVICE: usize = 0;

/// A device with the configuration of the station on it.
pub(super) struct Attachment {
    pub(super) device: Device,
    pub(super) link: Link,
    /// Local addresses, as far as they are known before the link is up.
    pub(super) own: Own,
    /// Ethernet configuration of the station, if the link is Ethernet.
    pub(super) segment: Option<ethernet::Settings>,
}

pub(super) fn run<S: Session>(
    session: S,
    via: &Via,
    addresses: &[SocketAddr],
    timeout: Duration,
    bench: &mut Bench,
) -> Result<Call<S>> {
    carry(open(via)?, session, addresses, timeout, bench)
}

/// Runs `session` over an open TUN whose interface is up.
pub(super) fn run_on_tun<S: Session>(
    session: S,
    tun: Tun,
    addresses: &[SocketAddr],
    timeout: Duration,
    bench: &mut Bench,
) -> Result<Call<S>> {
    carry(attach(tun, Own::default())?, session, addresses, timeout, bench)
}

fn carry<S: Session>(
    attachment: Attachment,
    session: S,
    addresses: &[SocketAddr],
    timeout: Duration,
    bench: &mut Bench,
) -> Result<Call<S>> {
    let Attachment { device, link, own, segment } = attachment;
    let (address, prefix_len) = own.ipv4.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
    let settings = Settings { address, prefix_len, ..device.settings() };
    let mut station = Station::new(link, settings, &mut bench.cx());
    if let Some((address, prefix_len)) = own.ipv6 {
        let added =
            station.layers.internet.add_address(Address::lasting(address.into(), prefix_len));
        added.ok().with_context(|| format!("{address} is not a valid host address"))?;
    }
    if let Some(segment) = segment {
        station.join_segment(segment, &mut bench.cx());
    }
    let remote = *addresses.first().context("no address to connect to")?;
    let local = station.layers.internet.source_for(remote.ip());
    let (mut news, inputs) = watch(&device, &session)?;
    let display = session.display().map(|_| news.reserve());
    let driver = Driver {
        station,
        scheduler: Scheduler::default(),
        carried: carried(session, &device, Opening::Active { local, remote }),
        device,
        bench,
        buffer: vec![0; 65_536],
        unwritten: Vec::new(),
        news,
        inputs,
        display,
        is_display_watched: false,
        watched: PollFlags::IN,
    };
    driver.call(addresses, timeout)
}

/// Watches the device and the session's inputs; returns the number of inputs.
///
/// A terminal is watched edge-triggered, because polling it would wait for the thread that feeds
/// it. The device is watched level-triggered, because it is not read until it is empty.
fn watch<S: Session>(device: &Device, session: &S) -> Result<(News, usize)> {
    let mut news = News::new()?;
    news.watch_level(device.as_fd(), PollFlags::IN).context("cannot watch the device")?;
    let inputs = session.inputs();
    for input in &inputs {
        news.watch(*input, PollFlags::IN).context("cannot watch an input of the session")?;
    }
    Ok((news, inputs.len()))
}

/// Binds a session to the connection that `opening` describes.
///
/// On a packet device, where each packet has a cost of its own, the acknowledgment of an echo waits
/// for the next key if that comes soon (RFC 9293 §3.8.6.3, SHLD-18).
fn carried<S: Session>(session: S, device: &Device, opening: Opening) -> Carried<S> {
    let interactive = Profile::interactive(SCREENFUL);
    let profile = match device {
        Device::Packets(_) => Profile {
            acknowledgment: Acknowledgment::Delayed(ACKNOWLEDGED_WITHIN),
            // A file on the standard input must not wait for one round trip per segment.
            send_limit: SendLimit::Bytes(PASTE_BYTES),
            // The window grows only as fast as the display accepts the data.
            receive_window: ReceiveWindow::Tuned { start: SCREENFUL, limit: OUTPUT_BYTES },
            ..interactive
        },
        Device::Serial(_) => interactive,
    };
    Carried::new(session, opening, profile).acknowledging(may_hold_back)
}

/// Opens the device that `via` names.
pub(super) fn open(via: &Via) -> Result<Attachment> {
    match via {
        Via::Segment(segment) => segment.attach(),
        Via::Tun { name, own } => {
            let options = tun::Options { is_offloading: true, ..tun::Options::default() };
            attach(Tun::open_with(Some(name), options)?, *own)
        }
        Via::Serial { device, rate_bps, link, address } => {
            let serial = Serial::open(device, *rate_bps)?;
            let link = serial_link(link, *address)?;
            let own = Own { ipv4: address.map(|address| (address, 0)), ipv6: None };
            Ok(Attachment { device: Device::Serial(serial), link, own, segment: None })
        }
        Via::Kernel => bail!("the kernel's sockets need no station"),
    }
}

fn serial_link(link: &SerialLink, address: Option<Ipv4Addr>) -> Result<Link> {
    Ok(match link {
        SerialLink::Llp { compresses_headers: false } => Link::Llp(Llp::new(SERIAL_MTU)),
        SerialLink::Llp { compresses_headers: true } => {
            Link::Llp(Llp::new(SERIAL_MTU).with_header_compression())
        }
        SerialLink::Slip { compresses_headers: false } => Link::Slip(Slip::new(SERIAL_MTU)),
        SerialLink::Slip { compresses_headers: true } => {
            Link::Slip(Slip::new(SERIAL_MTU).with_header_compression())
        }
        SerialLink::Ppp { user, compresses_headers } => {
            let settings = ppp::Settings {
                address,
                spare_address: Some(NAMELESS),
                compresses_headers: *compresses_headers,
                carries_ipv6: false,
                credentials: user.as_deref().map(credentials).transpose()?,
                ..ppp::Settings::default()
            };
            Link::Ppp(Box::new(Ppp::new(PPP_MTU, settings)))
        }
    })
}

fn credentials(user: &str) -> Result<ppp::Credentials> {
    let secret = std::env::var(PPP_PASSWORD).with_context(|| {
        format!("user={user} needs a password: set the environment variable {PPP_PASSWORD}")
    })?;
    Ok(ppp::Credentials { name: user.to_owned(), secret })
}

/// Returns the message for the end of a PPP link.
fn line_ended(ending: ppp::Ending) -> &'static str {
    match ending {
        ppp::Ending::Closed => "plumb closed the PPP link",
        ppp::Ending::PeerClosed => "the PPP peer closed the link",
        ppp::Ending::NotEstablished => {
            "no PPP peer answered: check that the other end is up and uses the same rate"
        }
        ppp::Ending::AuthenticationFailed => {
            "the PPP peer refused the authentication: set the user name with user= in --via, and \
             the password in the environment variable PLUMB_PPP_PASSWORD"
        }
        ppp::Ending::LoopedBack => "the line is looped back: check the cable and the modem",
        ppp::Ending::NoEcho => "the PPP peer no longer answers",
        ppp::Ending::NoNetwork => {
            "the PPP peer and plumb did not agree on addresses: try another address="
        }
    }
}

fn attach(tun: Tun, own: Own) -> Result<Attachment> {
    let name = tun.name();
    let interface = Interface::named(name)?;
    if !interface.is_up()? {
        bail!(
            "the interface {name} is down: bring it up (ip link set {name} up); if it did not \
             exist before, create a persistent one (ip tuntap add {name} mode tun; ip address add \
             10.0.0.1/24 dev {name}; ip link set {name} up)"
        );
    }
    wait_until_running(&interface)?;
    let suggested = suggested(&interface)?;
    let own = Own { ipv4: own.ipv4.or(suggested.ipv4), ipv6: own.ipv6.or(suggested.ipv6) };
    if own == Own::default() {
        bail!(
            "the interface {name} has no address: add one (ip address add 10.0.0.1/24 dev {name}; \
             ip link set {name} up) and make it persistent (ip tuntap add {name} mode tun), or set \
             plumb's own address (--via tun:{name}?address=10.0.0.2)"
        );
    }
    let mtu = usize::try_from(interface.mtu_bytes()?).unwrap_or(1500);
    let link = Link::Datagram(Datagram::new(mtu));
    let device = Device::Packets(os::device::Device::Tun(tun));
    Ok(Attachment { device, link, own, segment: None })
}

/// Returns the addresses of a host at the other end of an interface, derived from the interface's
/// own addresses. Link-local addresses are skipped: only the kernel could be reached from them.
fn suggested(interface: &Interface) -> Result<Own> {
    let ipv4 = interface
        .address()?
        .and_then(|addressing| addressing.peer().map(|address| (address, addressing.prefix_bits)));
    let mut of_kernel = interface.addresses6()?;
    of_kernel.retain(|(address, _)| !address.is_unicast_link_local());
    let ipv6 = of_kernel.into_iter().find_map(|(address, prefix_bits)| {
        peer6(address, prefix_bits).map(|peer| (peer, prefix_bits))
    });
    Ok(Own { ipv4, ipv6 })
}

/// Waits until the kernel has seen that a program is attached to the interface. Before that it
/// would drop its answer to the first SYN, and the next SYN follows a second later.
pub(super) fn wait_until_running(interface: &Interface) -> Result<()> {
    let clock = Monotonic::start();
    while !interface.is_running()? && clock.now() < Instant::ZERO + RUNNING_WITHIN {
        readiness::wait(&mut [], &clock, Some(clock.now() + LOOK_AGAIN_AFTER))?;
    }
    // If the interface is still not running, the connection attempt reports it.
    Ok(())
}

impl<S: Session> Driver<'_, S> {
    /// Tries one address after the other, in the order of RFC 6724, until one answers, and then
    /// runs the session.
    fn call(mut self, addresses: &[SocketAddr], timeout: Duration) -> Result<Call<S>> {
        let give_up_at = self.bench.clock.now() + timeout;
        let mut waiting = addresses.to_vec();
        let mut failures = Failures::default();
        if !self.learn_address(&waiting, give_up_at)? {
            let address = *waiting.first().context("no address to connect to")?;
            return Ok(Call { session: self.carried.stream, outcome: Outcome::Left, address });
        }
        loop {
            // An address that the host has acquired meanwhile may have changed the order.
            let remote = self.take_best(&mut waiting).context("no address left to try")?;
            self = self.calling(remote);
            let outcome = match self.can_call(remote) {
                true => self.run(remote, &waiting, give_up_at)?,
                false => Outcome::Unreachable,
            };
            let is_answered = self.carried.is_open() || outcome == Outcome::Left;
            if !is_answered {
                failures.add(outcome, remote);
            }
            let is_late = self.bench.clock.now() >= give_up_at;
            if is_answered || waiting.is_empty() || is_late {
                // Ignored: a device that fails now does not change how the session ended.
                _ = self.leave();
                let failed = if is_answered { None } else { failures.told() };
                let (outcome, address) = failed.unwrap_or((outcome, remote));
                return Ok(Call { session: self.carried.stream, outcome, address });
            }
            let layers = &mut self.station.layers;
            self.carried.abort_unless_closed(layers, &mut self.bench.cx());
        }
    }

    /// Removes and returns the preferred address among `waiting`.
    fn take_best(&self, waiting: &mut Vec<SocketAddr>) -> Option<SocketAddr> {
        let mut order: Vec<_> = waiting.iter().map(SocketAddr::ip).collect();
        self.station.layers.internet.sort_destinations(&mut order);
        let best = order.first()?;
        let place = waiting.iter().position(|address| address.ip() == *best)?;
        Some(waiting.remove(place))
    }

    /// Replaces the connection with a new one to `remote`.
    fn calling(self, remote: SocketAddr) -> Self {
        let local = self.station.layers.internet.source_for(remote.ip());
        let opening = Opening::Active { local, remote };
        Self { carried: carried(self.carried.stream, &self.device, opening), ..self }
    }

    /// Runs the session over a connection to `remote`. A connection that is not open is abandoned
    /// when another address in `others` can be tried and [`ATTEMPT`] has passed, and at
    /// `give_up_at` in any case.
    fn run(
        &mut self,
        remote: SocketAddr,
        others: &[SocketAddr],
        give_up_at: Instant,
    ) -> Result<Outcome> {
        let next_at = give_up_at.min(self.bench.clock.now() + ATTEMPT);
        self.carried.stream.reached(remote);
        loop {
            self.check_line()?;
            self.carried.set_acknowledging(self.carried.stream.acknowledging().at_once());
            self.scheduler.run(&mut self.station, &mut self.carried, &mut self.bench.cx());
            // Display output goes first; the acknowledgment can follow it.
            self.flush()?;
            self.write()?;
            self.carried.stream.has_gone_out(&mut self.bench.cx());
            if self.carried.stream.wants_status() {
                self.tell_status()?;
            }
            // A local address for one of the others may have been acquired meanwhile.
            let has_other =
                !self.carried.is_open() && others.iter().any(|other| self.can_call(*other));
            let until = if has_other { next_at } else { give_up_at };
            let stream = &self.carried.stream;
            let is_shown = !stream.is_display_full() || stream.is_over();
            if let Some(outcome) = self.outcome(until).filter(|_| is_shown) {
                return Ok(outcome);
            }
            // The write may have made room in the device for queued packets.
            let has_room = self.unwritten.is_empty() && self.station.has_output();
            if !has_room && !self.station.has_input() && !self.carried.wants_to_run() {
                self.wait(until)?;
            }
        }
    }

    /// Returns an error if the PPP link has ended.
    fn check_line(&self) -> Result<()> {
        if let Link::Ppp(ppp) = self.station.link()
            && let Some(ending) = ppp.ending()
        {
            bail!("{}", line_ended(ending));
        }
        Ok(())
    }

    /// Returns whether the link is still being negotiated and has no network layer yet.
    fn is_line_opening(&self) -> bool {
        matches!(self.station.link(), Link::Ppp(ppp) if !ppp.is_network_up())
    }

    /// Opens the link if it needs opening and requests a local address where the link or the
    /// segment provides one (TM-233 §5.4, RFC 2131), until one of `remotes` is reachable from it.
    /// Returns `false` if local input ends the session before that.
    fn learn_address(&mut self, remotes: &[SocketAddr], give_up_at: Instant) -> Result<bool> {
        let has_address = !self.station.address().is_unspecified();
        match self.station.link_mut() {
            Link::Llp(llp) if !has_address => llp.request_address(&mut self.bench.cx()),
            Link::Ppp(ppp) => ppp.open(&mut self.bench.cx()),
            Link::Datagram(_) | Link::Ethernet(_) | Link::Llp(_) | Link::Slip(_) => {}
        }
        loop {
            if remotes.iter().any(|remote| self.can_call(*remote)) && !self.is_line_opening() {
                return Ok(true);
            }
            self.station.step(Step::Send, &mut Idle, &mut self.bench.cx());
            self.write()?;
            self.check_line()?;
            if let (Link::Datagram(_), Some(remote)) = (self.station.link(), remotes.first()) {
                let kind = if remote.is_ipv6() { "IPv6" } else { "IPv4" };
                bail!(
                    "the interface has no {kind} address to connect to {remote} from: add one (ip \
                     address add), or set plumb's own with address= in --via"
                );
            }
            if !self.is_asking_address() || self.bench.clock.now() >= give_up_at {
                bail!(
                    "the other end of the line assigned no address: check that it is up, or set \
                     one with address=10.0.0.2 in --via"
                );
            }
            self.wait(give_up_at)?;
            if self.carried.stream.is_over() {
                return Ok(false);
            }
            self.take_arrived();
        }
    }

    /// Returns whether there is a local address of sufficient scope for `remote`.
    fn can_call(&self, remote: SocketAddr) -> bool {
        let local = self.station.layers.internet.source_for(remote.ip());
        !local.is_unspecified() && (remote.is_ipv4() || scope(local) >= scope(remote.ip()))
    }

    fn is_asking_address(&self) -> bool {
        match self.station.link() {
            Link::Llp(llp) => llp.is_asking_address(),
            Link::Ethernet(_) | Link::Ppp(_) => true,
            Link::Datagram(_) | Link::Slip(_) => false,
        }
    }

    fn outcome(&self, give_up_at: Instant) -> Option<Outcome> {
        if self.carried.failure().is_some() {
            return Some(Outcome::Unreachable);
        }
        let ended = self.carried.ending().map(|ending| match ending {
            Ending::Closed | Ending::Aborted => Outcome::Closed,
            Ending::Refused => Outcome::Refused,
            Ending::Reset => Outcome::Reset,
            Ending::TimedOut => Outcome::TimedOut,
            Ending::Unreachable => Outcome::Unreachable,
        });
        if ended.is_some() {
            return ended;
        }
        if self.carried.stream.is_over() {
            return Some(Outcome::Left);
        }
        // TIME-WAIT is skipped: the local port of the next connection is random.
        if self.carried.peer_has_closed() && self.carried.has_closed() {
            return Some(Outcome::Closed);
        }
        let is_late = !self.carried.is_open() && self.bench.clock.now() >= give_up_at;
        is_late.then_some(Outcome::TimedOut)
    }

    /// Cleans up: resets an open connection, sends the queued packets and closes a PPP link.
    fn leave(&mut self) -> Result<()> {
        let layers = &mut self.station.layers;
        self.carried.abort_unless_closed(layers, &mut self.bench.cx());
        self.station.step(Step::Send, &mut Idle, &mut self.bench.cx());
        let give_up_at = self.bench.clock.now() + FAREWELL;
        loop {
            self.write()?;
            self.take_arrived();
            let is_sent = self.unwritten.is_empty() && self.station.packets_lent() == 0;
            if is_sent && self.close_line() {
                continue;
            }
            if (is_sent && !self.is_line_closing()) || self.bench.clock.now() >= give_up_at {
                return Ok(());
            }
            let until = self.station.deadline().map_or(give_up_at, |at| at.min(give_up_at));
            self.wait_for(Some(until), false)?;
        }
    }

    /// Starts to close a PPP link; returns whether it was open.
    fn close_line(&mut self) -> bool {
        let Link::Ppp(ppp) = self.station.link_mut() else { return false };
        let is_open = !matches!(ppp.phase(), ppp::Phase::Dead | ppp::Phase::Terminate);
        ppp.close(&mut self.bench.cx());
        is_open
    }

    fn is_line_closing(&self) -> bool {
        matches!(self.station.link(), Link::Ppp(ppp) if ppp.phase() == ppp::Phase::Terminate)
    }

    /// Processes received packets and expired timers without running the application.
    fn take_arrived(&mut self) {
        self.station.step(Step::Timer, &mut Idle, &mut self.bench.cx());
        while self.station.has_input() {
            self.station.step(Step::Network, &mut Idle, &mut self.bench.cx());
        }
    }

    /// Lets the session write to its display. When the display has room again, more data is taken
    /// from TCP.
    fn flush(&mut self) -> Result<()> {
        let was_full = self.carried.stream.is_display_full();
        self.carried.stream.flush(&mut self.bench.cx())?;
        let is_full = self.carried.stream.is_display_full();
        if was_full && !is_full {
            self.carried.notice();
        }
        let display = self.display.zip(self.carried.stream.display());
        if let Some((number, display)) = display {
            if is_full && (!self.is_display_watched || self.is_display_ready()) {
                self.news.watch_once(number, display, PollFlags::OUT)?;
            } else if !is_full && self.is_display_watched {
                self.news.unwatch(number, display)?;
            }
        }
        self.is_display_watched = is_full;
        Ok(())
    }

    fn is_display_ready(&self) -> bool {
        self.display.is_some_and(|number| !self.news.ready(number).is_empty())
    }

    fn tell_status(&mut self) -> Result<()> {
        let status = self.carried.status(&self.station.layers);
        let status = status.map_or(CarrierStatus::None, |s| CarrierStatus::Own(Box::new(s)));
        self.carried.stream.take_status(&status);
        self.carried.stream.flush(&mut self.bench.cx())
    }

    /// Writes the link's output until the device accepts no more.
    fn write(&mut self) -> Result<()> {
        let serial = match &self.device {
            Device::Packets(device) => {
                return packet_io::write_packets(device, &mut self.station, &mut self.bench.cx());
            }
            Device::Serial(serial) => serial,
        };
        loop {
            if self.unwritten.is_empty() {
                let wire = &mut self.unwritten;
                if self.station.transmit_into(wire, SERIAL_CHUNK, &mut self.bench.cx()) == 0 {
                    return Ok(());
                }
            }
            let left = self.bench.meter.enter(Account::Interrupt);
            let written = serial.write(&self.unwritten);
            self.bench.meter.enter(left);
            match written.context("cannot write to the device")? {
                Some(count) => {
                    // Time on a serial line is accounted separately.
                    self.bench.meter.work(Work::LineByte, count);
                    drop(self.unwritten.drain(..count.min(self.unwritten.len())));
                }
                None => return Ok(()),
            }
        }
    }

    fn wait(&mut self, give_up_at: Instant) -> Result<()> {
        let is_opening = !self.carried.is_open();
        let deadlines =
            [self.station.deadline(), self.carried.deadline(), is_opening.then_some(give_up_at)];
        self.wait_for(deadlines.into_iter().flatten().min(), true)
    }

    /// Waits for the device, and for local input if `is_near_wanted`, and processes what is ready.
    fn wait_for(&mut self, until: Option<Instant>, is_near_wanted: bool) -> Result<()> {
        let mut wanted = PollFlags::IN;
        if !self.unwritten.is_empty() || self.has_no_room() {
            wanted |= PollFlags::OUT;
        }
        if wanted != self.watched {
            self.news.want(DEVICE, self.device.as_fd(), wanted)?;
            self.watched = wanted;
        }
        let left = self.bench.meter.enter(Account::Outside);
        let waited = self.wait_for_news(until, is_near_wanted);
        self.bench.meter.enter(left);
        self.bench.meter.count(Counter::Wakeups);
        waited?;
        if !self.news.ready(DEVICE).is_empty() {
            self.read()?;
        }
        for index in 0..self.inputs {
            if is_near_wanted && self.has_input(index) {
                self.carried.stream.take_input(index, &mut self.bench.cx())?;
                self.carried.notice();
                if !self.carried.stream.has_more_input(index) {
                    self.news.clear(DEVICE + 1 + index, PollFlags::IN);
                }
            }
        }
        Ok(())
    }

    /// Waits until a wanted descriptor is ready.
    fn wait_for_news(&mut self, until: Option<Instant>, is_near_wanted: bool) -> Result<()> {
        let has_input = |driver: &Self| {
            is_near_wanted && (0..driver.inputs).any(|index| driver.has_input(index))
        };
        // An input with unread data makes this a poll without waiting; the device is still polled.
        let until = if has_input(self) { Some(Instant::ZERO) } else { until };
        self.news.clear(DEVICE, PollFlags::all());
        loop {
            let wake = self.news.wait(&self.bench.clock, until)?;
            // An event may concern a descriptor that is not wanted now.
            let is_ready = !self.news.ready(DEVICE).is_empty()
                || has_input(self)
                || (self.is_display_watched && self.is_display_ready());
            if wake == Wake::Deadline || is_ready {
                return Ok(());
            }
        }
    }

    /// Returns whether an input has data that the session accepts now.
    fn has_input(&self, index: usize) -> bool {
        !self.news.ready(DEVICE + 1 + index).is_empty() && self.carried.stream.wants_input(index)
    }

    /// Returns whether packets are queued because the device has no room for them.
    fn has_no_room(&self) -> bool {
        matches!(self.device, Device::Packets(_)) && self.station.link().has_output()
    }

    fn read(&mut self) -> Result<()> {
        for _ in 0..BATCH {
            let serial = match &self.device {
                Device::Packets(device) => {
                    let cx = &mut self.bench.cx();
                    if !packet_io::read_packet(device, &mut self.station, cx)?.may_have_more() {
                        break;
                    }
                    continue;
                }
                Device::Serial(serial) => serial,
            };
            let left = self.bench.meter.enter(Account::Interrupt);
            let read = serial.read(&mut self.buffer);
            self.bench.meter.enter(left);
            match read.context("cannot read from the device")? {
                None => break,
                Some(0) => bail!("the device hung up"),
                Some(count) => {
                    self.bench.meter.work(Work::LineByte, count);
                    let bytes = self.buffer.get(..count).unwrap_or_default();
                    self.station.receive(bytes, &mut self.bench.cx());
                }
            }
        }
        Ok(())
    }
}

/// Application that does nothing, for steps in which no application runs.
struct Idle;

impl Application for Idle {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _transports: &mut Layers, _cx: &mut Cx<'_>) {}
}
