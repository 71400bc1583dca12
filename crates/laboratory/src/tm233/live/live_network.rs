//! Personal computers and a foreign host around a running gateway, in real time.
//!
//! The hosts are those of the tables in virtual time: they run the engines of `net` with the costs
//! of 1982. Between them are the shipped program, the kernel's pseudo-terminals, its TUN and its
//! routes. The star of the hosts runs each event at the time of the clock at which it is due.

use super::live_center::{LiveCenter, LiveDevice};
use super::live_error::NotRun;
use super::live_gateway::{GatewayMode, LiveGateway};
use crate::tm233::experiments::Equipment;
use crate::tm233::routed_network::{MTU, fast_link, new_host};
use crate::tm233::sessions::{Session, Sessions};
use net::meter::Costs;
use net::time::{Duration, Instant};
use os::clock::Monotonic;
use os::interface::Interface;
use os::interface_route;
use os::interface_setting::ChangedSetting;
use os::pty::Pty;
use os::readiness;
use os::tun::Tun;
use simulator::star::Star;
use simulator::transmission_line::Line;
use std::net::Ipv4Addr;
use std::path::Path;

pub(super) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 1);
pub(super) const FIRST: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 2);
pub(super) const SECOND: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 3);
/// The first and the second foreign host.
pub(super) const FOREIGN: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 82, 0, 100), Ipv4Addr::new(10, 82, 0, 110)];
/// Time after which an experiment that has not ended is given up.
const TIMEOUT: Duration = Duration::from_secs(120);

type LiveStar = Star<Sessions, LiveCenter>;

/// Hosts around a running gateway.
#[derive(Debug)]
pub(super) struct LiveNetwork {
    pub(super) star: LiveStar,
    gateway: LiveGateway,
    clock: Monotonic,
    seed: u64,
    rate_bps: u64,
    /// The lines without a computer.
    lines: Vec<Pty>,
    /// Settings of the TUNs of foreign hosts.
    settings: Vec<ChangedSetting>,
    name: &'static str,
}

impl LiveNetwork {
    /// Starts the gateway `program` for an experiment called `name`.
    pub(super) fn start(
        program: &Path,
        name: &'static str,
        (rate_bps, mode, seed): (u64, GatewayMode, u64),
    ) -> Result<Self, NotRun> {
        let addresses = [FIRST, SECOND];
        let (gateway, lines) =
            LiveGateway::start(program, ROUTER, addresses, (rate_bps, MTU, mode))?;
        let star = Star::new(LiveCenter::default(), seed);
        let lines = lines.into_iter().rev().collect();
        let clock = Monotonic::start();
        Ok(Self { star, gateway, clock, seed, rate_bps, lines, settings: Vec::new(), name })
    }

    /// Connects a personal computer to the next line: the first one has the address [`FIRST`], the
    /// second one [`SECOND`]. Returns its port.
    pub(super) fn add_computer(
        &mut self,
        address: Ipv4Addr,
        equipment: Equipment,
        sessions: Vec<Session>,
    ) -> usize {
        let host = new_host(self.seed, equipment.link(), address, equipment.costs, sessions);
        if let Some(pty) = self.lines.pop() {
            self.star.center.add(LiveDevice::Line(pty));
        }
        self.star.connect(host, Line::serial(self.rate_bps))
    }

    /// Connects a foreign host, whose packets are delayed by `delay`, through a TUN of its own.
    /// Returns its port.
    pub(super) fn add_foreign_host(
        &mut self,
        address: Ipv4Addr,
        delay: Duration,
        sessions: Vec<Session>,
    ) -> Result<usize, NotRun> {
        let tun = Tun::open(Some("foreign%d")).map_err(NotRun::Tun)?;
        let interface = Interface::named(tun.name())?;
        interface.bring_up()?;
        interface_route::add(&interface, address.into(), 32)?;
        let forwarding = format!("ipv4/conf/{}/forwarding", tun.name());
        self.settings.extend(ChangedSetting::set(&forwarding, "1")?);
        self.star.center.add(LiveDevice::Host(tun));
        let host = new_host(self.seed, fast_link(), address, Costs::default(), sessions);
        Ok(self.star.connect(host, Line::path(delay)))
    }

    /// Runs in real time until `is_done` returns true.
    pub(super) fn drive(&mut self, is_done: impl Fn(&LiveStar) -> bool) -> Result<(), NotRun> {
        let give_up_at = self.clock.now() + TIMEOUT;
        loop {
            // Input is processed at the time at which it was read.
            self.star.run_until(self.clock.now());
            self.star.center.exchange()?;
            self.star.run_until(self.clock.now());
            if is_done(&self.star) {
                return Ok(());
            }
            if self.clock.now() > give_up_at {
                return Err(NotRun::Stalled(self.name));
            }
            let until = self.star.next_event_at().map_or(give_up_at, |at| at.min(give_up_at));
            self.wait(until)?;
        }
    }

    fn wait(&self, until: Instant) -> Result<(), NotRun> {
        let mut descriptors = self.star.center.descriptors();
        readiness::wait(&mut descriptors, &self.clock, Some(until))?;
        Ok(())
    }

    /// Ends the gateway, and returns how many packets it has dropped.
    pub(super) fn end(self) -> Result<u64, NotRun> {
        self.gateway.end()
    }
}
