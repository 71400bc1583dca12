//! The event loop of a routed gateway.
//!
//! Each turn reads at most [`BATCH`] packets of the TUN and 4096 bytes of each line, runs the timers
//! of the router, and writes the output: all datagrams for the TUN, and for each line the bytes that
//! it transmits in 20 ms. Further output of a line waits in its queue in the router. At the end of
//! the turn, captured datagrams are written to their files.

use super::address_plan::AddressPlan;
use super::host_side::HostSide;
use super::routed_control::RoutedControl;
use super::routed_error::RoutedError;
use super::routed_line::RoutedLine;
use crate::control_socket::ControlSocket;
use crate::guest_device::Line;
use crate::poll::{Poll, Source};
use crate::program_error::ProgramError;
use gateway::queue::QueueCounters;
use gateway::router::{Event, Router, RouterCounters};
use ipnet::IpNet;
use net::meter::{Clock, Meter};
use net::packet::Packet;
use net::rng::Rng;
use net::{Cx, Instant};
use os::clock::Monotonic;
use os::serial::Serial;
use os::signal_descriptor::TerminationDescriptor;
use rustix::event::epoll::EventFlags;
use rustix::thread::CapabilitySet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// Maximum number of packets read from the TUN in a turn.
const BATCH: usize = 64;
/// The numbers of the other descriptors.
const TUN: usize = 0;
const SIGNALS: usize = 1;
/// The first number of the descriptors of the control socket.
const CONTROL: usize = 2;

/// The settings of a routed gateway.
#[derive(Clone, Debug)]
pub struct RoutedSettings {
    /// The addresses, lines and outputs.
    pub plan: AddressPlan,
    /// The interface at which the host answers for the addresses.
    pub proxy_interface: Option<String>,
    /// The path of the control socket.
    pub control: Option<PathBuf>,
}

/// A routed gateway that is ready to run.
#[derive(Debug)]
pub struct RoutedProgram {
    router: Router,
    lines: Vec<RoutedLine>,
    host: HostSide,
    poll: Poll,
    signals: TerminationDescriptor,
    control: Option<ControlSocket>,
    /// Empty packet into which the next packet of the TUN is read.
    next_packet: Option<Packet>,
    clock: Monotonic,
    rng: Rng,
    meter: Meter,
}

/// The reason why a routed gateway ended, or an event.
#[derive(Debug)]
pub enum RoutedEnd {
    /// A line with this name can carry datagrams from now on, or can no longer.
    Line(String, bool),
    /// A signal with this number was received.
    Signal(i32),
    /// The device of the line with this name no longer works. The line was removed.
    Lost(String, io::Error),
}

/// The output of one line, for a report.
#[derive(Debug)]
pub struct LineReport<'a> {
    /// The name of the line.
    pub name: &'a str,
    /// The addresses of the host at the line.
    pub addresses: &'a [String],
    /// The counters of its output queue.
    pub output: Option<&'a QueueCounters>,
}

impl RoutedProgram {
    /// Opens the lines and the TUN, configures the host, and drops all privileges but that of
    /// removing this configuration.
    ///
    /// # Errors
    ///
    /// See [`RoutedError`].
    pub fn start(settings: RoutedSettings) -> Result<Self, RoutedError> {
        let RoutedSettings { plan, proxy_interface, control } = settings;
        let clock = Monotonic::start();
        let mut rng = Rng::from_seed(os::entropy::seed().map_err(system)?);
        let mut meter = Meter::new(Clock::None);
        let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
        let mut router = Router::new(plan.router, &mut cx);
        let mut lines = Vec::new();
        for planned in &plan.lines {
            let refused = |error| RoutedError::Line(planned.name.clone(), error);
            let id = router.add_line(planned.settings.clone(), &mut cx).map_err(refused)?;
            let address = planned.settings.address;
            let prefix = planned.settings.prefix;
            let network = prefix.and_then(|(prefix, bits)| IpNet::new(prefix.into(), bits).ok());
            let prefix = prefix.map(|(prefix, bits)| format!("{prefix}/{bits}"));
            let serial = Serial::open(&planned.device, planned.rate_bps);
            lines.push(RoutedLine {
                name: planned.name.clone(),
                id,
                addresses: [Some(address.to_string()), prefix].into_iter().flatten().collect(),
                networks: [IpNet::from(IpAddr::from(address))].into_iter().chain(network).collect(),
                line: Some(Line::new(serial.map_err(RoutedError::Serial)?)),
                last_counters: None,
                capture: None,
            });
        }
        // From here on, a signal ends the program in its loop, which undoes the configuration.
        let signals = TerminationDescriptor::new().map_err(system)?;
        let host = HostSide::set_up(&plan, proxy_interface.as_deref())?;
        let poll = Poll::new().map_err(system)?;
        for (number, line) in lines.iter().enumerate() {
            let device = line.line.iter();
            let mut added =
                device.map(|line| poll.add(line, Source::Device(number), EventFlags::IN));
            added.try_for_each(|added| added.map_err(system))?;
        }
        poll.add(&host.tun, Source::Other(TUN), EventFlags::IN).map_err(system)?;
        poll.add(&signals, Source::Other(SIGNALS), EventFlags::IN).map_err(system)?;
        let now = clock.now();
        let gateway = RoutedControl { router: &mut router, lines: &mut lines, poll: &poll, now };
        let control = control.map(|path| ControlSocket::bind(path, &gateway, CONTROL));
        let control = control.transpose().map_err(RoutedError::Program)?;
        let privileges = |error| RoutedError::Program(ProgramError::Privileges(error));
        os::privileges::drop_capabilities(CapabilitySet::NET_ADMIN).map_err(privileges)?;
        os::privileges::restrict_system_calls().map_err(privileges)?;
        let next_packet = None;
        Ok(Self { router, lines, host, poll, signals, control, next_packet, clock, rng, meter })
    }

    /// Returns the name of the TUN.
    #[must_use]
    pub fn tun_name(&self) -> &str {
        self.host.tun.name()
    }

    /// Returns the addresses for which the host answers ARP or Neighbor Discovery.
    #[must_use]
    pub fn answered(&self) -> &[IpAddr] {
        self.host.answered()
    }

    /// Returns the lines with the counters of their output.
    pub fn lines(&self) -> impl Iterator<Item = LineReport<'_>> {
        self.lines.iter().map(|line| LineReport {
            name: &line.name,
            addresses: &line.addresses,
            output: self.router.line_counters(line.id).or(line.last_counters.as_ref()),
        })
    }

    /// Returns whether the device of a line works.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        self.lines.iter().any(|line| line.line.is_some())
    }

    /// Returns the counters of the router.
    #[must_use]
    pub fn counters(&self) -> RouterCounters {
        self.router.counters()
    }

    /// Runs until there is something to report. After [`RoutedEnd::Line`], and while there are lines
    /// after [`RoutedEnd::Lost`], it can be called again.
    ///
    /// # Errors
    ///
    /// Returns the error of the TUN or of `epoll_wait(2)`.
    pub fn run(&mut self) -> Result<RoutedEnd, RoutedError> {
        loop {
            if let Some(event) = self.router.event() {
                let (id, is_up) = match event {
                    Event::LineUp(id) => (id, true),
                    Event::LineDown(id) => (id, false),
                };
                if let Some(line) = self.lines.iter().find(|line| line.id == id) {
                    return Ok(RoutedEnd::Line(line.name.clone(), is_up));
                }
            }
            if let Some(end) = self.turn().map_err(system)? {
                return Ok(end);
            }
        }
    }

    fn turn(&mut self) -> io::Result<Option<RoutedEnd>> {
        let deadline = self.deadline();
        self.poll.wait(self.clock.now(), deadline)?;
        let now = self.clock.now();
        let mut number = 0;
        while let Some((source, _)) = self.poll.event(number) {
            number += 1;
            match source {
                Source::Device(line) => {
                    if let Err(error) = self.read_line(line, now) {
                        return Ok(Some(self.lose(line, error)));
                    }
                }
                Source::Other(TUN) => self.read_tun(now)?,
                Source::Other(number) if number >= CONTROL => self.serve_control(number, now),
                Source::Other(_) => {
                    if let Some(signal) = self.signals.signal()? {
                        return Ok(Some(RoutedEnd::Signal(signal)));
                    }
                }
                _ => {}
            }
        }
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        if self.router.deadline().is_some_and(|at| at <= now) {
            self.router.timeout(&mut cx);
        }
        self.write_tun(now);
        let written = self.write_lines(now);
        self.drain_captures();
        Ok(written.err().map(|(line, error)| self.lose(line, error)))
    }

    /// Removes a line whose device has failed. Datagrams for its host are reported as unreachable.
    fn lose(&mut self, number: usize, error: io::Error) -> RoutedEnd {
        let Some(line) = self.lines.get_mut(number) else {
            return RoutedEnd::Lost(String::new(), error);
        };
        line.line = None;
        line.capture = None;
        line.last_counters = self.router.line_counters(line.id).cloned();
        self.router.fail_line(line.id);
        RoutedEnd::Lost(line.name.clone(), error)
    }

    fn serve_control(&mut self, number: usize, now: Instant) {
        let Self { router, lines, poll, control, .. } = self;
        if let Some(control) = control {
            control.serve(number, &mut RoutedControl { router, lines, poll, now });
        }
    }

    fn drain_captures(&mut self) {
        let Self { router, lines, .. } = self;
        for line in lines {
            if let Some(capture) = &mut line.capture {
                capture.drain(&mut || router.captured(line.id));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let devices = self.lines.iter().filter_map(|line| Some((line.id, line.line.as_ref()?)));
        let waiting = devices.filter(|(id, line)| line.has_unsent() || self.router.has_output(*id));
        waiting.map(|(_, line)| line.writable_at()).chain(self.router.deadline()).min()
    }

    fn read_line(&mut self, number: usize, now: Instant) -> io::Result<()> {
        let Some(RoutedLine { line: Some(line), id, .. }) = self.lines.get(number) else {
            return Ok(());
        };
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let router = &mut self.router;
        line.read(&mut |bytes, cx| router.receive(*id, bytes, cx), &mut cx)
    }

    fn read_tun(&mut self, now: Instant) -> io::Result<()> {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        for _ in 0..BATCH {
            let packet = self.next_packet.take().or_else(|| self.router.take_packet(&mut cx));
            let Some(mut packet) = packet else { return Ok(()) };
            match self.host.tun.read(packet.spare_mut()) {
                Ok(Some(length)) => {
                    packet.extend_from_spare(length);
                    self.router.receive_host(packet, &mut cx);
                }
                Ok(None) => {
                    self.next_packet = Some(packet);
                    return Ok(());
                }
                Err(error) => {
                    self.next_packet = Some(packet);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn write_tun(&mut self, now: Instant) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        while let Some(packet) = self.router.transmit_host(&mut cx) {
            // A packet that the kernel does not accept is lost, as on any network; it counts the
            // packet at the interface.
            _ = self.host.tun.write(packet.data());
            self.router.put_packet(packet);
        }
    }

    /// Writes to the lines. Returns the number of a line that no longer works, with its error.
    fn write_lines(&mut self, now: Instant) -> Result<(), (usize, io::Error)> {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let router = &mut self.router;
        for (number, RoutedLine { id, line, .. }) in self.lines.iter_mut().enumerate() {
            let Some(line) = line else { continue };
            let mut transmit = |wire: &mut Vec<u8>, limit, cx: &mut Cx<'_>| {
                router.transmit_into(*id, wire, limit, cx)
            };
            if line.write(&mut transmit, &mut cx).map_err(|error| (number, error))? {
                line.postpone(now);
            }
        }
        Ok(())
    }
}

fn system(error: io::Error) -> RoutedError {
    RoutedError::Program(ProgramError::System(error))
}
