//! A session over our own TCP/IP: a station on a TUN or on a serial line, in one thread.
//!
//! The driver waits until a descriptor is ready or a deadline has come, gives the station what
//! has arrived, runs its steps until none is ready, and writes what they made.

use super::{Bench, CarrierStatus, Outcome, SerialLink, Session, Via, segment};
use anyhow::{Context, Result, bail};
use os::clock::Monotonic;
use os::interface::Interface;
use os::readiness::{self, PollFd, PollFlags};
use os::serial::Serial;
use os::tun::Tun;
use protocols::Cx;
use protocols::link::{Datagram, Link, Llp, Ppp, Slip, ppp};
use protocols::meter::{Account, Work};
use protocols::station::{
    Application, Carried, Layers, Opening, Scheduler, Settings, Station, Step, ethernet,
};
use protocols::time::Instant;
use protocols::transport::tcp::{Ending, Profile};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Packets that are taken from the device before anything is answered.
const BATCH: usize = 32;
/// How long the last packets may take to leave: a reset at 300 bits per second takes 1.5 s.
const FAREWELL: Duration = Duration::from_secs(2);
const SERIAL_MTU: usize = 576;
/// RFC 1661 §6.1: an end must be able to receive this much, whatever it has said.
const PPP_MTU: usize = 1500;
/// The address of an end of a line that has none: it is never routed (RFC 7335).
const NAMELESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Where the password of PPP is, if the other end wants one.
const PPP_PASSWORD: &str = "PLUMB_PPP_PASSWORD";
/// What a serial line is given at a time, so that an acknowledgment need not wait long.
const SERIAL_CHUNK: usize = 64;
/// The kernel looks at its links once a second at the least.
const RUNNING_WITHIN: Duration = Duration::from_millis(1_500);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// A screen of 200 by 60 in colour: the window of an interactive session.
const SCREENFUL: usize = 32 * 1024;

/// The device below a station.
pub(super) enum Device {
    /// A TUN.
    Tun(Tun),
    /// A device of frames, whose packets may be left unfinished.
    Frames(os::device::Device),
    /// A serial line.
    Serial(Serial),
}

impl Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tun(tun) => tun.as_fd(),
            Self::Frames(device) => device.as_fd(),
            Self::Serial(serial) => serial.as_fd(),
        }
    }

    fn read(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Tun(tun) => tun.read(bytes),
            // They are read into packets of the station.
            Self::Frames(_) => Ok(None),
            Self::Serial(serial) => serial.read(bytes),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Tun(tun) => tun.write(bytes),
            // They are gathered from packets of the station.
            Self::Frames(_) => Ok(None),
            Self::Serial(serial) => serial.write(bytes),
        }
    }

    fn chunk(&self) -> usize {
        match self {
            Self::Tun(_) | Self::Frames(_) => usize::MAX,
            Self::Serial(_) => SERIAL_CHUNK,
        }
    }

    /// Returns what a station is told of its device.
    fn settings(&self) -> Settings {
        let has_offloads = matches!(self, Self::Frames(device) if device.has_offloads());
        Settings {
            segments: has_offloads,
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
    /// What the device has not taken yet.
    unwritten: Vec<u8>,
}

/// A device with what the station on it is.
pub(super) struct Attachment {
    pub(super) device: Device,
    pub(super) link: Link,
    pub(super) own: Ipv4Addr,
    pub(super) prefix_len: u8,
    /// The station's place on an Ethernet segment, if the link is one.
    pub(super) segment: Option<ethernet::Settings>,
}

pub(super) fn run<S: Session>(
    session: S,
    via: &Via,
    address: SocketAddr,
    timeout: Duration,
    bench: &mut Bench,
) -> Result<(S, Outcome)> {
    carry(open(via)?, session, address, timeout, bench)
}

/// Carries `session` over a TUN that is open already, and whose interface is up.
pub(super) fn run_on_tun<S: Session>(
    session: S,
    tun: Tun,
    remote: SocketAddrV4,
    timeout: Duration,
    bench: &mut Bench,
) -> Result<(S, Outcome)> {
    carry(attach(tun, None)?, session, SocketAddr::V4(remote), timeout, bench)
}

fn carry<S: Session>(
    attachment: Attachment,
    session: S,
    address: SocketAddr,
    timeout: Duration,
    bench: &mut Bench,
) -> Result<(S, Outcome)> {
    if address.is_ipv6() && attachment.segment.is_none() {
        bail!(
            "{address} is an IPv6 address, and we get one on an Ethernet segment only: use \
             --via tap:NAME, packet:INTERFACE or kernel"
        );
    }
    let Attachment { device, link, own, prefix_len, segment } = attachment;
    let settings = Settings { address: own, prefix_len, ..device.settings() };
    let mut station = Station::new(link, settings, &mut bench.cx());
    if let Some(segment) = segment {
        station.join_segment(segment, &mut bench.cx());
    }
    let opening = Opening::Active { local: own.into(), remote: address };
    let driver = Driver {
        device,
        station,
        scheduler: Scheduler::default(),
        carried: Carried::new(session, opening, Profile::interactive(SCREENFUL)),
        bench,
        buffer: vec![0; 65_536],
        unwritten: Vec::new(),
    };
    driver.run(address, timeout)
}

fn open(via: &Via) -> Result<Attachment> {
    match via {
        Via::Segment(segment) => segment.attach(),
        Via::Tun { name, address } => attach(Tun::open(Some(name))?, *address),
        Via::Serial { device, rate_bps, link, address } => {
            let serial = Serial::open(device, *rate_bps)?;
            let link = serial_link(link, *address)?;
            let own = address.unwrap_or(Ipv4Addr::UNSPECIFIED);
            let device = Device::Serial(serial);
            Ok(Attachment { device, link, own, prefix_len: 0, segment: None })
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
        format!("user={user} needs a password: put it into the environment as {PPP_PASSWORD}")
    })?;
    Ok(ppp::Credentials { name: user.to_owned(), secret })
}

/// Says what has become of a line, in a sentence for a person.
fn line_ended(ending: ppp::Ending) -> &'static str {
    match ending {
        ppp::Ending::Closed => "we have closed the line",
        ppp::Ending::PeerClosed => "the other end of the line has closed it",
        ppp::Ending::NotEstablished => {
            "nobody on the line speaks PPP: is the other end up, and at the same rate?"
        }
        ppp::Ending::AuthenticationFailed => {
            "the other end of the line does not let us in: say who we are with user= in --via, and \
             put the password into the environment as PLUMB_PPP_PASSWORD"
        }
        ppp::Ending::LoopedBack => "the line leads back to ourselves: is it looped somewhere?",
        ppp::Ending::NoEcho => "the other end of the line no longer answers",
        ppp::Ending::NoNetwork => {
            "the other end of the line and we could not agree on addresses: try another address="
        }
    }
}

fn attach(tun: Tun, address: Option<Ipv4Addr>) -> Result<Attachment> {
    let name = tun.name();
    let interface = Interface::named(name)?;
    if !interface.is_up()? {
        bail!(
            "the interface {name} is down: bring it up (ip link set {name} up); if there was none, \
             make one that stays (ip tuntap add {name} mode tun; ip address add 10.0.0.1/24 dev \
             {name}; ip link set {name} up)"
        );
    }
    wait_until_running(&interface)?;
    let addressing = interface.address()?;
    let prefix_len = addressing.map_or(24, |addressing| addressing.prefix_bits);
    let suggested = addressing.and_then(|addressing| addressing.peer());
    let own = address.or(suggested).with_context(|| {
        format!(
            "the interface {name} has no address: give it one (ip address add 10.0.0.1/24 dev \
             {name}; ip link set {name} up) and make it stay (ip tuntap add {name} mode tun), or \
             say which address is ours (--via tun:{name}?address=10.0.0.2)"
        )
    })?;
    let mtu = usize::try_from(interface.mtu_bytes()?).unwrap_or(1500);
    let link = Link::Datagram(Datagram::new(mtu));
    Ok(Attachment { device: Device::Tun(tun), link, own, prefix_len, segment: None })
}

/// Waits until the kernel has seen that somebody is attached to the interface: it would drop its
/// answer to our SYN before, and the next one goes a second later.
pub(super) fn wait_until_running(interface: &Interface) -> Result<()> {
    let clock = Monotonic::start();
    while !interface.is_running()? && clock.now() < Instant::ZERO + RUNNING_WITHIN {
        readiness::wait(&mut [], &clock, Some(clock.now() + LOOK_AGAIN_AFTER))?;
    }
    // If it is still not running, the connection will say so.
    Ok(())
}

impl<S: Session> Driver<'_, S> {
    fn run(mut self, remote: SocketAddr, timeout: Duration) -> Result<(S, Outcome)> {
        let give_up_at = self.bench.clock.now() + timeout;
        if !self.learn_address(remote, give_up_at)? {
            return Ok((self.carried.stream, Outcome::Left));
        }
        loop {
            self.check_line()?;
            self.scheduler.run(&mut self.station, &mut self.carried, &mut self.bench.cx());
            // What a person waits for goes first; the acknowledgment can follow it.
            self.carried.stream.flush(&mut self.bench.cx())?;
            self.write()?;
            self.carried.stream.has_gone_out(&mut self.bench.cx());
            if self.carried.stream.wants_status() {
                self.tell_status()?;
            }
            if let Some(outcome) = self.outcome(give_up_at) {
                // A device that goes at the last moment has nothing to do with how it ended.
                _ = self.leave();
                return Ok((self.carried.stream, outcome));
            }
            // What the device has taken has made room for what waited for it.
            let has_room = self.unwritten.is_empty() && self.station.has_output();
            if !has_room && !self.station.has_input() {
                self.wait(give_up_at)?;
            }
        }
    }

    /// Fails when a line that can end by itself has ended.
    fn check_line(&self) -> Result<()> {
        if let Link::Ppp(ppp) = self.station.link()
            && let Some(ending) = ppp.ending()
        {
            bail!("{}", line_ended(ending));
        }
        Ok(())
    }

    /// Returns whether the line has yet to say something before there is a network.
    fn is_line_opening(&self) -> bool {
        matches!(self.station.link(), Link::Ppp(ppp) if !ppp.is_network_up())
    }

    /// Opens the line, if it is one that opens, and asks for our address where the line or the
    /// segment gives it (TM-233 §5.4, RFC 2131). Returns whether there is one; the near side may
    /// end the session before.
    fn learn_address(&mut self, remote: SocketAddr, give_up_at: Instant) -> Result<bool> {
        let has_address = !self.station.address().is_unspecified();
        match self.station.link_mut() {
            Link::Llp(llp) if !has_address => llp.request_address(&mut self.bench.cx()),
            Link::Ppp(ppp) => ppp.open(&mut self.bench.cx()),
            Link::Datagram(_) | Link::Ethernet(_) | Link::Llp(_) | Link::Slip(_) => {}
        }
        loop {
            let local = self.station.layers.internet.source_for(remote.ip());
            if !local.is_unspecified() && !self.is_line_opening() {
                self.carried.set_opening(Opening::Active { local, remote });
                return Ok(true);
            }
            self.station.step(Step::Send, &mut Idle, &mut self.bench.cx());
            self.write()?;
            self.check_line()?;
            if !self.is_asking_address() || self.bench.clock.now() >= give_up_at {
                bail!(
                    "nobody on the line gives us an address: is the other end up? \
                     (or say yours: address=10.0.0.2 in --via)"
                );
            }
            self.wait(give_up_at)?;
            if self.carried.stream.is_over() {
                return Ok(false);
            }
            self.take_arrived();
        }
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
        // TIME-WAIT is not waited for: our port is drawn by chance.
        if self.carried.peer_has_closed() && self.carried.has_closed() {
            return Some(Outcome::Closed);
        }
        let is_late = !self.carried.is_open() && self.bench.clock.now() >= give_up_at;
        is_late.then_some(Outcome::TimedOut)
    }

    /// Leaves no connection behind: one that is open is reset, what was owed goes out, and a line
    /// that closes is closed.
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

    /// Closes a line that closes; returns whether that has begun now.
    fn close_line(&mut self) -> bool {
        let Link::Ppp(ppp) = self.station.link_mut() else { return false };
        let is_open = !matches!(ppp.phase(), ppp::Phase::Dead | ppp::Phase::Terminate);
        ppp.close(&mut self.bench.cx());
        is_open
    }

    fn is_line_closing(&self) -> bool {
        matches!(self.station.link(), Link::Ppp(ppp) if ppp.phase() == ppp::Phase::Terminate)
    }

    /// Takes what has arrived and lets timers run out, without the application.
    fn take_arrived(&mut self) {
        self.station.step(Step::Timer, &mut Idle, &mut self.bench.cx());
        while self.station.has_input() {
            self.station.step(Step::Network, &mut Idle, &mut self.bench.cx());
        }
    }

    fn tell_status(&mut self) -> Result<()> {
        let status = self.carried.status(&self.station.layers);
        let status = status.map_or(CarrierStatus::None, |s| CarrierStatus::Own(Box::new(s)));
        self.carried.stream.take_status(&status);
        self.carried.stream.flush(&mut self.bench.cx())
    }

    /// Writes what the link has for the device, until the device takes no more.
    fn write(&mut self) -> Result<()> {
        if let Device::Frames(device) = &self.device {
            return segment::write_frames(device, &mut self.station, &mut self.bench.cx());
        }
        loop {
            if self.unwritten.is_empty() {
                let (wire, chunk) = (&mut self.unwritten, self.device.chunk());
                if self.station.transmit_into(wire, chunk, &mut self.bench.cx()) == 0 {
                    return Ok(());
                }
            }
            let left = self.bench.meter.enter(Account::Interrupt);
            let written = self.device.write(&self.unwritten);
            self.bench.meter.enter(left);
            match written.context("the device does not take what we send")? {
                Some(count) => {
                    self.count_on_line(count);
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

    /// Waits for the device, and for the near side if `is_near_wanted`, and takes what is there.
    fn wait_for(&mut self, until: Option<Instant>, is_near_wanted: bool) -> Result<()> {
        let mut wanted = PollFlags::IN;
        if !self.unwritten.is_empty() || self.has_no_room() {
            wanted |= PollFlags::OUT;
        }
        let (is_device_ready, ready) = {
            let session = &self.carried.stream;
            // One that is not wanted is left out: a hang-up would be told again and again.
            let near = session.inputs().into_iter().enumerate();
            let is_wanted = |index| is_near_wanted && session.wants_input(index);
            let near: Vec<_> = near.filter(|(index, _)| is_wanted(*index)).collect();
            let device = PollFd::from_borrowed_fd(self.device.as_fd(), wanted);
            let inputs = near.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
            let mut descriptors: Vec<_> = core::iter::once(device).chain(inputs).collect();
            let left = self.bench.meter.enter(Account::Outside);
            let waited = readiness::wait(&mut descriptors, &self.bench.clock, until);
            self.bench.meter.enter(left);
            waited?;
            let mut is_ready = descriptors.iter().map(|fd| !fd.revents().is_empty());
            let is_device_ready = is_ready.next().unwrap_or(false);
            let ready = near.iter().zip(is_ready).filter(|(_, is_ready)| *is_ready);
            (is_device_ready, ready.map(|((index, _), _)| *index).collect::<Vec<_>>())
        };
        if is_device_ready {
            self.read()?;
        }
        for index in ready {
            self.carried.stream.take_input(index, &mut self.bench.cx())?;
            self.carried.notice();
        }
        Ok(())
    }

    /// Returns whether frames wait because the device has had no room for them.
    fn has_no_room(&self) -> bool {
        matches!(self.station.link(), Link::Ethernet(_)) && self.station.link().has_output()
    }

    /// Counts bytes that were on a line, whose own time they take.
    fn count_on_line(&mut self, count: usize) {
        if matches!(self.device, Device::Serial(_)) {
            self.bench.meter.work(Work::LineByte, count);
        }
    }

    fn read(&mut self) -> Result<()> {
        for _ in 0..BATCH {
            if let Device::Frames(device) = &self.device {
                if !segment::read_frame(device, &mut self.station, &mut self.bench.cx())? {
                    break;
                }
                continue;
            }
            let left = self.bench.meter.enter(Account::Interrupt);
            let read = self.device.read(&mut self.buffer);
            self.bench.meter.enter(left);
            match read.context("the device cannot be read any more")? {
                None => break,
                Some(0) => bail!("the device has hung up"),
                Some(count) => {
                    self.count_on_line(count);
                    let bytes = self.buffer.get(..count).unwrap_or_default();
                    self.station.receive(bytes, &mut self.bench.cx());
                }
            }
        }
        Ok(())
    }
}

/// No application: for steps in which none runs.
struct Idle;

impl Application for Idle {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _transports: &mut Layers, _cx: &mut Cx<'_>) {}
}
