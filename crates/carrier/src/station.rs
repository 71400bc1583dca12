//! Runs a session over the user-space TCP/IP in one thread: a station on a TUN, an Ethernet segment
//! or a serial line.
//!
//! The driver waits until a descriptor is ready or a deadline expires, and passes incoming data to
//! the station. It then runs the station's protocol steps until no step is ready, and writes the
//! output of the station.

use super::ack_policy::may_withhold;
use super::attachment::{Attachment, Device};
use super::local_addresses::LocalAddresses;
use super::open_route::{attach_tun, open};
use super::outcome::Failures;
use super::session_poller::SessionPoller;
use super::stream_session::end_session;
use super::{CarrierStatus, EndedSession, EngineContext, Outcome, Route, StreamSession, packet_io};
use anyhow::{Context, Result, bail};
use net::Cx;
use net::internet::addresses::{Address, scope};
use net::link::{Link, ppp};
use net::meter::{Account, Counter, Work};
use net::station::{
    Application, Layers, Opening, Scheduler, Settings, Station, Step, TcpStreamApp,
};
use net::time::Instant;
use net::transport::tcp::{Acknowledgment, CloseReason, Profile, ReceiveWindow, SendLimit};
use os::readiness::PollFlags;
use os::tun::Tun;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Maximum number of packets read from the device before any is answered.
const BATCH_PACKETS: usize = 32;
/// Time limit for sending the last packets: a reset at 300 bits per second takes 1.5 s.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes written to a serial line at a time, so that an acknowledgment need not
/// wait long.
const SERIAL_CHUNK: usize = 64;
/// Time without an answer after which the next address is tried: one SYN and one retransmission.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum delay of the acknowledgment of an echo. A key typed in the meantime carries the
/// acknowledgment.
const ACK_DELAY_MAX: Duration = Duration::from_millis(40);
/// Send limit in bytes of a session over a packet device: typed keys and pasted text.
const SEND_LIMIT_BYTES: usize = 256 * 1024;
/// Maximum receive window in bytes of a session over a packet device.
const RECEIVE_WINDOW_MAX_BYTES: usize = 512 * 1024;
/// Initial window of an interactive session, in bytes: a screen of 200 by 60 in color.
const SCREENFUL: usize = 32 * 1024;

struct Driver<'a, S: StreamSession> {
    device: Device,
    station: Station,
    scheduler: Scheduler,
    tcp_app: TcpStreamApp<S>,
    context: &'a mut EngineContext,
    buffer: Vec<u8>,
    /// Bytes from the link that the device has not accepted yet.
    unwritten: Vec<u8>,
    poller: SessionPoller,
}

pub(super) fn run<S: StreamSession>(
    session: S,
    via: &Route,
    addresses: &[SocketAddr],
    timeout: Duration,
    context: &mut EngineContext,
) -> Result<EndedSession<S>> {
    run_on(open(via)?, session, addresses, timeout, context)
}

/// Runs `session` over an open TUN whose interface is up.
pub(super) fn run_on_tun<S: StreamSession>(
    session: S,
    tun: Tun,
    addresses: &[SocketAddr],
    timeout: Duration,
    context: &mut EngineContext,
) -> Result<EndedSession<S>> {
    run_on(attach_tun(tun, LocalAddresses::default())?, session, addresses, timeout, context)
}

fn run_on<S: StreamSession>(
    attachment: Attachment,
    session: S,
    addresses: &[SocketAddr],
    timeout: Duration,
    context: &mut EngineContext,
) -> Result<EndedSession<S>> {
    let Attachment { device, link, local_addresses, segment } = attachment;
    let (address, prefix_len) = local_addresses.ipv4.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
    let settings = Settings { address, prefix_len, ..device.settings() };
    let mut station = Station::new(link, settings, &mut context.cx());
    if let Some((address, prefix_len)) = local_addresses.ipv6 {
        let added =
            station.layers.internet.add_address(Address::permanent(address.into(), prefix_len));
        added.ok().with_context(|| format!("{address} is not a valid host address"))?;
    }
    if let Some(segment) = segment {
        station.join_segment(segment, &mut context.cx());
    }
    let remote = *addresses.first().context("no address to connect to")?;
    let local = station.layers.internet.source_for(remote.ip());
    let poller = SessionPoller::for_device(device.as_fd(), &session)?;
    let driver = Driver {
        station,
        scheduler: Scheduler::default(),
        tcp_app: bind_session(session, &device, Opening::Active { local, remote }),
        device,
        context,
        buffer: vec![0; 65_536],
        unwritten: Vec::new(),
        poller,
    };
    driver.connect_and_run(addresses, timeout)
}

/// Binds a session to the connection that `opening` describes.
///
/// On a packet device each packet has a cost of its own. Therefore the acknowledgment of an echo
/// waits up to [`ACK_DELAY_MAX`] for the next key (RFC 9293 §3.8.6.3, SHLD-18).
fn bind_session<S: StreamSession>(
    session: S,
    device: &Device,
    opening: Opening,
) -> TcpStreamApp<S> {
    let interactive = Profile::interactive(SCREENFUL);
    let profile = match device {
        Device::Packets(_) => Profile {
            acknowledgment: Acknowledgment::Delayed(ACK_DELAY_MAX),
            // The limit is so large that a file on the standard input is sent without waiting one
            // round trip per segment.
            send_limit: SendLimit::Bytes(SEND_LIMIT_BYTES),
            // The window grows only as fast as the display accepts the data.
            receive_window: ReceiveWindow::Tuned {
                start: SCREENFUL,
                limit: RECEIVE_WINDOW_MAX_BYTES,
            },
            ..interactive
        },
        Device::Serial(_) => interactive,
    };
    TcpStreamApp::new(session, opening, profile).acknowledging(may_withhold)
}

/// Returns the message for the end of a PPP link.
fn link_ended_message(close_reason: ppp::CloseReason) -> &'static str {
    match close_reason {
        ppp::CloseReason::Closed => "plumb closed the PPP link",
        ppp::CloseReason::PeerClosed => "the PPP peer closed the link",
        ppp::CloseReason::NotEstablished => {
            "no PPP peer answered: check that the other end is up and uses the same rate"
        }
        ppp::CloseReason::AuthenticationFailed => {
            "the PPP peer refused the authentication: set the user name with user= in --via, and \
             the password in the environment variable PLUMB_PPP_PASSWORD"
        }
        ppp::CloseReason::LoopedBack => "the line is looped back: check the cable and the modem",
        ppp::CloseReason::NoEcho => "the PPP peer no longer answers",
        ppp::CloseReason::NoNetwork => {
            "the PPP peer and plumb did not agree on addresses: set another local address with \
             address= in --via"
        }
    }
}

impl<S: StreamSession> Driver<'_, S> {
    /// Tries the addresses one after the other, in the order of RFC 6724. Runs the session over the
    /// first connection that opens.
    fn connect_and_run(
        mut self,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<EndedSession<S>> {
        let expires_at = self.context.clock.now() + timeout;
        let mut waiting = addresses.to_vec();
        let mut failures = Failures::default();
        if !self.acquire_address(&waiting, expires_at)? {
            let address = *waiting.first().context("no address to connect to")?;
            return Ok(EndedSession {
                session: self.tcp_app.stream,
                outcome: Outcome::LocalClosed,
                address,
                connect_time: None,
            });
        }
        loop {
            // A local address acquired in the meantime may have changed the order.
            let remote = self.take_preferred(&mut waiting).context("no address left to try")?;
            self = self.with_connection_to(remote);
            let outcome = match self.has_source_for(remote) {
                true => self.run(remote, &waiting, expires_at),
                false => Ok(Outcome::Unreachable),
            };
            if self.tcp_app.is_open() {
                let outcome = outcome.as_ref().ok().copied();
                end_session(&mut self.tcp_app.stream, outcome, self.context);
            }
            let outcome = outcome?;
            let is_answered = self.tcp_app.is_open() || outcome == Outcome::LocalClosed;
            if !is_answered {
                failures.add(outcome, remote);
            }
            let is_expired = self.context.clock.now() >= expires_at;
            if is_answered || waiting.is_empty() || is_expired {
                // Ignored: a device that fails now does not change how the session ended.
                _ = self.close();
                let failure = if is_answered { None } else { failures.highest_ranked() };
                let (outcome, address) = failure.unwrap_or((outcome, remote));
                let session = self.tcp_app.stream;
                return Ok(EndedSession { session, outcome, address, connect_time: None });
            }
            let layers = &mut self.station.layers;
            self.tcp_app.abort_unless_closed(layers, &mut self.context.cx());
        }
    }

    /// Removes and returns the preferred address among `waiting`.
    fn take_preferred(&self, waiting: &mut Vec<SocketAddr>) -> Option<SocketAddr> {
        let mut order: Vec<_> = waiting.iter().map(SocketAddr::ip).collect();
        self.station.layers.internet.sort_destinations(&mut order);
        let preferred = order.first()?;
        let index = waiting.iter().position(|address| address.ip() == *preferred)?;
        Some(waiting.remove(index))
    }

    /// Replaces the connection with a new one to `remote`.
    fn with_connection_to(self, remote: SocketAddr) -> Self {
        let local = self.station.layers.internet.source_for(remote.ip());
        let opening = Opening::Active { local, remote };
        Self { tcp_app: bind_session(self.tcp_app.stream, &self.device, opening), ..self }
    }

    /// Runs the session over a connection to `remote`. Abandons a connection that is not open at
    /// `expires_at`, or after [`ATTEMPT_TIMEOUT`] if an address in `other_addresses` can be tried.
    fn run(
        &mut self,
        remote: SocketAddr,
        other_addresses: &[SocketAddr],
        expires_at: Instant,
    ) -> Result<Outcome> {
        let next_at = expires_at.min(self.context.clock.now() + ATTEMPT_TIMEOUT);
        self.tcp_app.stream.set_remote_address(remote);
        loop {
            self.check_link()?;
            self.tcp_app.set_acknowledging(self.tcp_app.stream.ack_policy().predicate());
            self.scheduler.run(&mut self.station, &mut self.tcp_app, &mut self.context.cx());
            // Display output is written before the acknowledgment of the displayed data.
            self.flush()?;
            self.write()?;
            self.tcp_app.stream.output_written(&mut self.context.cx());
            if self.tcp_app.stream.wants_status() {
                self.report_status()?;
            }
            // A local address for a remote address in `other_addresses` may have been acquired in
            // the meantime.
            let has_other_address = !self.tcp_app.is_open()
                && other_addresses.iter().any(|other| self.has_source_for(*other));
            let until = if has_other_address { next_at } else { expires_at };
            let stream = &self.tcp_app.stream;
            let is_display_done = !stream.is_display_full() || stream.is_over();
            if let Some(outcome) = self.outcome(until).filter(|_| is_display_done) {
                return Ok(outcome);
            }
            // After the write the device may accept queued packets.
            let may_send_more = self.unwritten.is_empty() && self.station.has_output();
            if !may_send_more && !self.station.has_input() && !self.tcp_app.wants_to_run() {
                self.wait(until)?;
            }
        }
    }

    /// Returns an error if the PPP link has ended.
    fn check_link(&self) -> Result<()> {
        if let Link::Ppp(ppp) = self.station.link()
            && let Some(close_reason) = ppp.close_reason()
        {
            bail!("{}", link_ended_message(close_reason));
        }
        Ok(())
    }

    /// Returns whether the link is still being negotiated and has no network layer yet.
    fn is_link_opening(&self) -> bool {
        matches!(self.station.link(), Link::Ppp(ppp) if !ppp.is_network_up())
    }

    /// Opens the link if necessary, and requests a local address if the link or the segment assigns
    /// addresses (TM-233 §5.4, RFC 2131). Waits until a local address can reach one of `remotes`.
    /// Returns `false` if local input ends the session earlier.
    fn acquire_address(&mut self, remotes: &[SocketAddr], expires_at: Instant) -> Result<bool> {
        let has_address = !self.station.address().is_unspecified();
        match self.station.link_mut() {
            Link::Llp(llp) if !has_address => llp.request_address(&mut self.context.cx()),
            Link::Ppp(ppp) => ppp.open(&mut self.context.cx()),
            Link::Datagram(_) | Link::Ethernet(_) | Link::Llp(_) | Link::Slip(_) => {}
        }
        loop {
            if remotes.iter().any(|remote| self.has_source_for(*remote)) && !self.is_link_opening()
            {
                return Ok(true);
            }
            self.station.step(Step::Send, &mut Idle, &mut self.context.cx());
            self.write()?;
            self.check_link()?;
            if let (Link::Datagram(_), Some(remote)) = (self.station.link(), remotes.first()) {
                let kind = if remote.is_ipv6() { "IPv6" } else { "IPv4" };
                bail!(
                    "the interface has no {kind} address to connect to {remote} from: add one (ip \
                     address add), or set plumb's own with address= in --via"
                );
            }
            if !self.can_acquire_address() || self.context.clock.now() >= expires_at {
                bail!(
                    "the other end of the line assigned no address: check that it is up, or set \
                     one with address=10.0.0.2 in --via"
                );
            }
            self.wait(expires_at)?;
            if self.tcp_app.stream.is_over() {
                return Ok(false);
            }
            self.process_input();
        }
    }

    /// Returns whether there is a local address of sufficient scope for `remote`.
    fn has_source_for(&self, remote: SocketAddr) -> bool {
        let local = self.station.layers.internet.source_for(remote.ip());
        !local.is_unspecified() && (remote.is_ipv4() || scope(local) >= scope(remote.ip()))
    }

    fn can_acquire_address(&self) -> bool {
        match self.station.link() {
            Link::Llp(llp) => llp.is_address_request_pending(),
            Link::Ethernet(_) | Link::Ppp(_) => true,
            Link::Datagram(_) | Link::Slip(_) => false,
        }
    }

    fn outcome(&self, expires_at: Instant) -> Option<Outcome> {
        if self.tcp_app.failure().is_some() {
            return Some(Outcome::Unreachable);
        }
        let close_outcome = self.tcp_app.close_reason().map(|close_reason| match close_reason {
            CloseReason::Closed | CloseReason::Aborted => Outcome::Closed,
            CloseReason::Refused => Outcome::Refused,
            CloseReason::Reset => Outcome::Reset,
            CloseReason::TimedOut => Outcome::TimedOut,
            CloseReason::Unreachable => Outcome::Unreachable,
        });
        if close_outcome.is_some() {
            return close_outcome;
        }
        if self.tcp_app.stream.is_over() {
            return Some(Outcome::LocalClosed);
        }
        // TIME-WAIT is skipped: the local port of the next connection is random.
        if self.tcp_app.peer_has_closed() && self.tcp_app.has_closed() {
            return Some(Outcome::Closed);
        }
        let is_expired = !self.tcp_app.is_open() && self.context.clock.now() >= expires_at;
        is_expired.then_some(Outcome::TimedOut)
    }

    /// Cleans up: resets an open connection, sends the queued packets and closes a PPP link.
    fn close(&mut self) -> Result<()> {
        let layers = &mut self.station.layers;
        self.tcp_app.abort_unless_closed(layers, &mut self.context.cx());
        self.station.step(Step::Send, &mut Idle, &mut self.context.cx());
        let expires_at = self.context.clock.now() + CLOSE_TIMEOUT;
        loop {
            self.write()?;
            self.process_input();
            let is_sent = self.unwritten.is_empty() && self.station.packets_in_use() == 0;
            if is_sent && self.close_link() {
                continue;
            }
            if (is_sent && !self.is_link_closing()) || self.context.clock.now() >= expires_at {
                return Ok(());
            }
            let until = self.station.deadline().map_or(expires_at, |at| at.min(expires_at));
            self.wait_for(Some(until), false)?;
        }
    }

    /// Starts to close a PPP link; returns whether the link was open.
    fn close_link(&mut self) -> bool {
        let Link::Ppp(ppp) = self.station.link_mut() else { return false };
        let is_open = !matches!(ppp.phase(), ppp::Phase::Dead | ppp::Phase::Terminate);
        ppp.close(&mut self.context.cx());
        is_open
    }

    fn is_link_closing(&self) -> bool {
        matches!(self.station.link(), Link::Ppp(ppp) if ppp.phase() == ppp::Phase::Terminate)
    }

    /// Processes received packets and expired timers without running the application.
    fn process_input(&mut self) {
        self.station.step(Step::Timer, &mut Idle, &mut self.context.cx());
        while self.station.has_input() {
            self.station.step(Step::Network, &mut Idle, &mut self.context.cx());
        }
    }

    /// Lets the session write to its display. When the display accepts output again, the session
    /// takes more data from TCP.
    fn flush(&mut self) -> Result<()> {
        let was_full = self.tcp_app.stream.is_display_full();
        self.tcp_app.stream.flush(&mut self.context.cx())?;
        let is_full = self.tcp_app.stream.is_display_full();
        if was_full && !is_full {
            self.tcp_app.notice();
        }
        self.poller.watch_display(&self.tcp_app.stream)
    }

    fn report_status(&mut self) -> Result<()> {
        let status = self.tcp_app.status(&self.station.layers);
        let status = status.map_or(CarrierStatus::None, |s| CarrierStatus::UserSpace(Box::new(s)));
        self.tcp_app.stream.take_status(&status);
        self.tcp_app.stream.flush(&mut self.context.cx())
    }

    /// Writes the link's output until the device accepts no more.
    fn write(&mut self) -> Result<()> {
        let serial = match &self.device {
            Device::Packets(device) => {
                return packet_io::write_packets(device, &mut self.station, &mut self.context.cx());
            }
            Device::Serial(serial) => serial,
        };
        loop {
            if self.unwritten.is_empty() {
                let wire = &mut self.unwritten;
                if self.station.transmit_into(wire, SERIAL_CHUNK, &mut self.context.cx()) == 0 {
                    return Ok(());
                }
            }
            let previous_account = self.context.meter.enter(Account::Interrupt);
            let write_result = serial.write(&self.unwritten);
            self.context.meter.enter(previous_account);
            match write_result.context("cannot write to the device")? {
                Some(count) => {
                    // Time on a serial line is accounted separately.
                    self.context.meter.work(Work::LineByte, count);
                    drop(self.unwritten.drain(..count.min(self.unwritten.len())));
                }
                None => return Ok(()),
            }
        }
    }

    fn wait(&mut self, expires_at: Instant) -> Result<()> {
        let is_opening = !self.tcp_app.is_open();
        let deadlines =
            [self.station.deadline(), self.tcp_app.deadline(), is_opening.then_some(expires_at)];
        self.wait_for(deadlines.into_iter().flatten().min(), true)
    }

    /// Waits for the device, and for local input if `is_local_input_wanted`, and processes what is
    /// ready.
    fn wait_for(&mut self, until: Option<Instant>, is_local_input_wanted: bool) -> Result<()> {
        let mut device_events = PollFlags::IN;
        if !self.unwritten.is_empty() || self.is_device_full() {
            device_events |= PollFlags::OUT;
        }
        self.poller.set_device_events(self.device.as_fd(), device_events)?;
        let previous_account = self.context.meter.enter(Account::Outside);
        let clock = &self.context.clock;
        let stream = &self.tcp_app.stream;
        let wait_result = self.poller.wait_for_device(clock, until, stream, is_local_input_wanted);
        self.context.meter.enter(previous_account);
        self.context.meter.count(Counter::Wakeups);
        wait_result?;
        if !self.poller.ready().is_empty() {
            self.read()?;
        }
        for index in 0..self.poller.inputs() {
            if is_local_input_wanted && self.poller.is_input_ready(index, &self.tcp_app.stream) {
                self.tcp_app.stream.take_input(index, &mut self.context.cx())?;
                self.tcp_app.notice();
                self.poller.input_taken(index, &self.tcp_app.stream);
            }
        }
        Ok(())
    }

    /// Returns whether packets are queued because the device is full.
    fn is_device_full(&self) -> bool {
        matches!(self.device, Device::Packets(_)) && self.station.link().has_output()
    }

    fn read(&mut self) -> Result<()> {
        for _ in 0..BATCH_PACKETS {
            let serial = match &self.device {
                Device::Packets(device) => {
                    let cx = &mut self.context.cx();
                    if !packet_io::read_packet(device, &mut self.station, cx)?.may_have_more() {
                        break;
                    }
                    continue;
                }
                Device::Serial(serial) => serial,
            };
            let previous_account = self.context.meter.enter(Account::Interrupt);
            let read_result = serial.read(&mut self.buffer);
            self.context.meter.enter(previous_account);
            match read_result.context("cannot read from the device")? {
                None => break,
                Some(0) => bail!("the device hung up"),
                Some(count) => {
                    self.context.meter.work(Work::LineByte, count);
                    let bytes = self.buffer.get(..count).unwrap_or_default();
                    self.station.receive(bytes, &mut self.context.cx());
                }
            }
        }
        Ok(())
    }
}

/// Application that does nothing, for station steps in which no application runs.
struct Idle;

impl Application for Idle {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _transports: &mut Layers, _cx: &mut Cx<'_>) {}
}
