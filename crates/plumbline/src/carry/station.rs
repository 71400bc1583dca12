//! A session over our own TCP/IP: a station on a TUN or on a serial line, in one thread.
//!
//! The driver waits until a descriptor is ready or a deadline has come, gives the station what
//! has arrived, runs its steps until none is ready, and writes what they made.

use super::outcome::Failures;
use super::via::Own;
use super::{
    Bench, Call, CarrierStatus, Outcome, SerialLink, Session, Via, may_hold_back, packets,
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
/// How long an address may be silent before the next one is called: a SYN and the one after it.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The kernel looks at its links once a second at the least.
const RUNNING_WITHIN: Duration = Duration::from_millis(1_500);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// How long the echo of a key waits for the next key to be acknowledged with.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_millis(40);
/// How much a session of packets may have outstanding, bytes: what is typed, and what is pasted.
const PASTE_BYTES: usize = 256 * 1024;
/// The most output that may be under way to a session of packets, bytes.
const OUTPUT_BYTES: usize = 512 * 1024;
/// A screen of 200 by 60 in colour: the window of an interactive session.
const SCREENFUL: usize = 32 * 1024;

/// The device below a station.
pub(super) enum Device {
    /// A device of whole packets.
    Packets(os::device::Device),
    /// A serial line.
    Serial(Serial),
}

impl Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packets(device) => device.as_fd(),
            Self::Serial(serial) => serial.as_fd(),
        }
    }

    /// Returns what a station is told of its device.
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
    /// What the device has not taken yet.
    unwritten: Vec<u8>,
    /// What is known of the device, and behind it of the session's inputs.
    news: News,
    inputs: usize,
    /// The number of the session's display among what is known; it is watched while it is full.
    display: Option<usize>,
    is_display_watched: bool,
    /// What the device is watched for.
    watched: PollFlags,
}

/// The number of the device in what is known.
const DEVICE: usize = 0;

/// A device with what the station on it is.
pub(super) struct Attachment {
    pub(super) device: Device,
    pub(super) link: Link,
    /// Our addresses, as far as they are known before anything has come.
    pub(super) own: Own,
    /// The station's place on an Ethernet segment, if the link is one.
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

/// Carries `session` over a TUN that is open already, and whose interface is up.
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
        added.ok().with_context(|| format!("no host can have the address {address}"))?;
    }
    if let Some(segment) = segment {
        station.join_segment(segment, &mut bench.cx());
    }
    let remote = *addresses.first().context("there is no address to connect to")?;
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

/// Has the device be watched, and the session's inputs; returns how many of these there are.
///
/// A terminal is watched by its news: to ask it would mean to wait for the thread that feeds it. A
/// device is asked at each wait, because it is not read to its end.
fn watch<S: Session>(device: &Device, session: &S) -> Result<(News, usize)> {
    let mut news = News::new()?;
    news.watch_level(device.as_fd(), PollFlags::IN).context("the device cannot be watched")?;
    let inputs = session.inputs();
    for input in &inputs {
        news.watch(*input, PollFlags::IN).context("an input of the session cannot be watched")?;
    }
    Ok((news, inputs.len()))
}

/// Ties a session to the connection that `opening` says.
///
/// Where a packet has a price of its own, as on a device of packets, the echo of a key is
/// acknowledged with the next key if that comes soon (RFC 9293 §3.8.6.3, SHLD-18).
fn carried<S: Session>(session: S, device: &Device, opening: Opening) -> Carried<S> {
    let interactive = Profile::interactive(SCREENFUL);
    let profile = match device {
        Device::Packets(_) => Profile {
            acknowledgment: Acknowledgment::Delayed(ACKNOWLEDGED_WITHIN),
            // A file on the standard input must not wait for a round trip per segment.
            send_limit: SendLimit::Bytes(PASTE_BYTES),
            // It grows only as fast as the display takes what comes.
            receive_window: ReceiveWindow::Tuned { start: SCREENFUL, limit: OUTPUT_BYTES },
            ..interactive
        },
        Device::Serial(_) => interactive,
    };
    Carried::new(session, opening, profile).acknowledging(may_hold_back)
}

/// Opens what is below a station.
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

fn attach(tun: Tun, own: Own) -> Result<Attachment> {
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
    let suggested = suggested(&interface)?;
    let own = Own { ipv4: own.ipv4.or(suggested.ipv4), ipv6: own.ipv6.or(suggested.ipv6) };
    if own == Own::default() {
        bail!(
            "the interface {name} has no address: give it one (ip address add 10.0.0.1/24 dev \
             {name}; ip link set {name} up) and make it stay (ip tuntap add {name} mode tun), or \
             say which address is ours (--via tun:{name}?address=10.0.0.2)"
        );
    }
    let mtu = usize::try_from(interface.mtu_bytes()?).unwrap_or(1500);
    let link = Link::Datagram(Datagram::new(mtu));
    let device = Device::Packets(os::device::Device::Tun(tun));
    Ok(Attachment { device, link, own, segment: None })
}

/// Returns the addresses of a host at the other end of an interface, as its own suggest them. A
/// link-local address suggests none: it reaches nobody but the kernel.
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
    /// Calls one address after the other, the best first (RFC 6724), until one answers, and
    /// carries the session.
    fn call(mut self, addresses: &[SocketAddr], timeout: Duration) -> Result<Call<S>> {
        let give_up_at = self.bench.clock.now() + timeout;
        let mut waiting = addresses.to_vec();
        let mut failures = Failures::default();
        if !self.learn_address(&waiting, give_up_at)? {
            let address = *waiting.first().context("there is no address to leave")?;
            return Ok(Call { session: self.carried.stream, outcome: Outcome::Left, address });
        }
        loop {
            // An address that came meanwhile may have changed which is best.
            let remote = self.take_best(&mut waiting).context("there is no address left")?;
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
                // A device that goes at the last moment has nothing to do with how it ended.
                _ = self.leave();
                let failed = if is_answered { None } else { failures.told() };
                let (outcome, address) = failed.unwrap_or((outcome, remote));
                return Ok(Call { session: self.carried.stream, outcome, address });
            }
            let layers = &mut self.station.layers;
            self.carried.abort_unless_closed(layers, &mut self.bench.cx());
        }
    }

    /// Takes out the address to call next.
    fn take_best(&self, waiting: &mut Vec<SocketAddr>) -> Option<SocketAddr> {
        let mut order: Vec<_> = waiting.iter().map(SocketAddr::ip).collect();
        self.station.layers.internet.sort_destinations(&mut order);
        let best = order.first()?;
        let place = waiting.iter().position(|address| address.ip() == *best)?;
        Some(waiting.remove(place))
    }

    /// Begins anew with a connection to `remote`.
    fn calling(self, remote: SocketAddr) -> Self {
        let local = self.station.layers.internet.source_for(remote.ip());
        let opening = Opening::Active { local, remote };
        Self { carried: carried(self.carried.stream, &self.device, opening), ..self }
    }

    /// Carries the session over a connection to `remote`. Unless it is open by then, it is given
    /// up when one of the `others` has waited long enough, and at `give_up_at` in any case.
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
            // What a person waits for goes first; the acknowledgment can follow it.
            self.flush()?;
            self.write()?;
            self.carried.stream.has_gone_out(&mut self.bench.cx());
            if self.carried.stream.wants_status() {
                self.tell_status()?;
            }
            // An address of ours for one of the others may have come meanwhile.
            let has_other =
                !self.carried.is_open() && others.iter().any(|other| self.can_call(*other));
            let until = if has_other { next_at } else { give_up_at };
            let stream = &self.carried.stream;
            let is_shown = !stream.is_display_full() || stream.is_over();
            if let Some(outcome) = self.outcome(until).filter(|_| is_shown) {
                return Ok(outcome);
            }
            // What the device has taken has made room for what waited for it.
            let has_room = self.unwritten.is_empty() && self.station.has_output();
            if !has_room && !self.station.has_input() && !self.carried.wants_to_run() {
                self.wait(until)?;
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
    /// segment gives it (TM-233 §5.4, RFC 2131), until there is one from which some of `remotes`
    /// can be called. The near side may end the session before (`false`).
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
                    "the interface has no {kind} address, from which {remote} could be called: \
                     give it one (ip address add), or say ours with address= in --via"
                );
            }
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

    /// Returns whether there is an address of ours from which `remote` can be called.
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

    /// Has the session write to its display. One that has room again takes more from TCP.
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

    /// Writes what the link has for the device, until the device takes no more.
    fn write(&mut self) -> Result<()> {
        let serial = match &self.device {
            Device::Packets(device) => {
                return packets::write_packets(device, &mut self.station, &mut self.bench.cx());
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
            match written.context("the device does not take what we send")? {
                Some(count) => {
                    // A line has a time of its own.
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

    /// Waits for the device, and for the near side if `is_near_wanted`, and takes what is there.
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

    /// Waits until there is news of what is wanted.
    fn wait_for_news(&mut self, until: Option<Instant>, is_near_wanted: bool) -> Result<()> {
        let has_input = |driver: &Self| {
            is_near_wanted && (0..driver.inputs).any(|index| driver.has_input(index))
        };
        // What was not read to its end is not waited for, but the device is asked beside it.
        let until = if has_input(self) { Some(Instant::ZERO) } else { until };
        self.news.clear(DEVICE, PollFlags::all());
        loop {
            let wake = self.news.wait(&self.bench.clock, until)?;
            // There is also news of what nobody wants now.
            let is_ready = !self.news.ready(DEVICE).is_empty()
                || has_input(self)
                || (self.is_display_watched && self.is_display_ready());
            if wake == Wake::Deadline || is_ready {
                return Ok(());
            }
        }
    }

    /// Returns whether an input of the session has something that the session wants.
    fn has_input(&self, index: usize) -> bool {
        !self.news.ready(DEVICE + 1 + index).is_empty() && self.carried.stream.wants_input(index)
    }

    /// Returns whether packets wait because the device has had no room for them.
    fn has_no_room(&self) -> bool {
        matches!(self.device, Device::Packets(_)) && self.station.link().has_output()
    }

    fn read(&mut self) -> Result<()> {
        for _ in 0..BATCH {
            let serial = match &self.device {
                Device::Packets(device) => {
                    let cx = &mut self.bench.cx();
                    if !packets::read_packet(device, &mut self.station, cx)?.may_have_more() {
                        break;
                    }
                    continue;
                }
                Device::Serial(serial) => serial,
            };
            let left = self.bench.meter.enter(Account::Interrupt);
            let read = serial.read(&mut self.buffer);
            self.bench.meter.enter(left);
            match read.context("the device cannot be read any more")? {
                None => break,
                Some(0) => bail!("the device has hung up"),
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

/// No application: for steps in which none runs.
struct Idle;

impl Application for Idle {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _transports: &mut Layers, _cx: &mut Cx<'_>) {}
}
