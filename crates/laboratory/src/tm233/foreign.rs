//! A personal computer, the packet concentrator, and a foreign host (TM-233 §6.3).
//!
//! The foreign host is a simulated station whose processing takes no time. The times of the host
//! and of the networks are modeled as one delay, half of it before and half after the host. The
//! host has a modern TCP. If the window permits a whole screenful, the host sends the screenful at
//! once in packets of the host's own size, as the hosts of 1982 did. If the window is smaller, the
//! maximum segment size is set to this packet size, so that TCP does not combine small packets.

use super::concentrator::{Concentrator, Dropped, Settings as ConcentratorSettings};
use super::experiments::{
    Equipment, MTU, SCREENFUL, SERVER, TELNET_PORT, USER, UserWorld, WINDOW, computer, open,
    personal_computer, text,
};
use super::scenario::{ForeignHost, Scenario};
use super::workload::ScriptedUser;
use net::link::{Datagram, Link};
use net::meter::{Costs, Counter};
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::Profile;
use simulator::transmission_line::Line;
use simulator::{Host, Side, Stuck, World, seed_of};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

/// Parameters of a session between a personal computer and a foreign host.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForeignSession<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) host: &'a ForeignHost,
    pub(super) rate_bps: u64,
    /// Window of the personal computer, in bytes.
    pub(super) window: usize,
    /// Whether the concentrator drops packets of a burst, as observed in the thesis.
    pub(super) is_faulty: bool,
    pub(super) additions: Additions,
    pub(super) seed: u64,
}

/// Features of plumbline that the computers of the thesis did not have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Additions {
    pub(super) compressed_headers: bool,
    /// Selective acknowledgments at both ends, and therefore RACK-TLP.
    pub(super) sack: bool,
    pub(super) early_answers: bool,
}

impl Additions {
    pub(super) fn equip(self, equipment: Equipment) -> Equipment {
        Equipment {
            compresses_headers: self.compressed_headers,
            answers_early: self.early_answers,
            ..equipment
        }
    }
}

/// A displayed screenful and its statistics.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScreenfulResult {
    /// Time from printing the first character to printing the last one.
    pub(super) time: Duration,
    /// Number of retransmission timeouts of the foreign host.
    pub(super) timeouts: u64,
    pub(super) dropped: Dropped,
    /// Number of packets that the personal computer sent as acknowledgments.
    pub(super) answers: u64,
}

impl ForeignSession<'_> {
    /// Simulates the display of a screenful from the foreign host.
    pub(super) fn screenful(&self) -> Result<ScreenfulResult, Stuck> {
        let writer = ScriptedUser::writer_of_pieces(&text(SCREENFUL), self.host.packet_bytes);
        let (mut world, dropped) = self.world([ScriptedUser::reader(), writer]);
        open(&mut world)?;
        world.drive(|world| world.user.application.stream.console.bytes == SCREENFUL)?;
        let console = &world.user.application.stream.console;
        Ok(ScreenfulResult {
            time: console.last_cell_at - console.first_cell_at.unwrap_or(Instant::ZERO),
            timeouts: world.server.meter.counted(Counter::TcpTimeouts),
            dropped: dropped.get(),
            answers: world.user.meter.counted(Counter::TcpPureAcksOut),
        })
    }

    /// Measures the times of `keys` echoes.
    pub(super) fn echoes(&self, keys: usize) -> Result<Vec<Duration>, Stuck> {
        let typist = ScriptedUser::typist(b"x".to_vec(), keys, true);
        let (mut world, _) = self.world([typist, ScriptedUser::echoer(false)]);
        world.drive(|world| world.user.application.stream.is_done())?;
        Ok(world.user.application.stream.round_trips().to_vec())
    }

    /// Measures the mean time of `keys` echoes.
    pub(super) fn echo(&self, keys: usize) -> Result<Duration, Stuck> {
        let times = self.echoes(keys)?;
        let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
        Ok(times.iter().sum::<Duration>().checked_div(count).unwrap_or_default())
    }

    fn world(&self, [user, server]: [ScriptedUser; 2]) -> (UserWorld, Rc<Cell<Dropped>>) {
        let equipment = self.additions.equip(self.scenario.equipment());
        let line = Line::serial(self.rate_bps);
        let remote = SocketAddr::new(SERVER.into(), TELNET_PORT);
        let active = Opening::Active { local: USER.into(), remote };
        let user = TcpStreamApp::new(user, active, self.profile(self.window));
        let passive = Opening::Passive { port: TELNET_PORT };
        let server = TcpStreamApp::new(server, passive, self.foreign_profile());
        let mut world = World::new(
            computer(equipment, USER, seed_of(self.seed, Side::User), user),
            foreign(seed_of(self.seed, Side::Server), server),
            line,
            self.seed,
        );
        world.set_line(Side::Server, Line::path(Duration::ZERO));
        let dropped = Rc::default();
        let mut concentrator = Concentrator::new(self.concentrator(line), Rc::clone(&dropped));
        if self.additions.compressed_headers {
            concentrator = concentrator.with_header_compression();
        }
        world.set_medium(Box::new(concentrator));
        (world, dropped)
    }

    fn concentrator(&self, line: Line) -> ConcentratorSettings {
        let settings = self.scenario.concentrator;
        ConcentratorSettings {
            line,
            mtu: MTU,
            buffers: settings.buffers,
            burst: Duration::from_millis(settings.burst_ms),
            burst_loss_ppm: if self.is_faulty { settings.burst_loss_ppm } else { 0 },
            path: Duration::from_micros(self.host.echo_us / 2),
        }
    }

    fn profile(&self, window: usize) -> Profile {
        Profile { extensions: self.additions.sack, timestamps: false, ..personal_computer(window) }
    }

    fn foreign_profile(&self) -> Profile {
        let uses_own_packet_size = self.window >= SCREENFUL;
        let segment = if uses_own_packet_size { 500 } else { self.host.packet_bytes.min(500) };
        Profile {
            mss_max: u16::try_from(segment).ok(),
            rto_min: Duration::from_millis(self.host.retransmits_after_ms),
            retransmission: self.scenario.retransmission_timer.rule(),
            ..self.profile(WINDOW)
        }
    }
}

fn foreign(seed: u64, application: TcpStreamApp<ScriptedUser>) -> Host<TcpStreamApp<ScriptedUser>> {
    let settings = Settings { address: SERVER, prefix_len: 24, packets: 64, ..Settings::default() };
    let link = Link::Datagram(Datagram::new(MTU));
    Host::new(link, settings, Costs::default(), seed, application)
}

#[cfg(test)]
mod tests {
    use super::super::scenario::tests::built_in;
    use super::*;

    fn foreign_session<'a>(
        scenario: &'a Scenario,
        host: usize,
        is_faulty: bool,
        seed: u64,
    ) -> ForeignSession<'a> {
        ForeignSession {
            scenario,
            host: &scenario.hosts[host],
            rate_bps: 9_600,
            window: WINDOW,
            is_faulty,
            additions: Additions::default(),
            seed,
        }
    }

    #[test]
    fn a_concentrator_without_its_fault_loses_nothing_of_a_csr_screenful() {
        let scenario = built_in();
        let result = foreign_session(&scenario, 0, false, 1).screenful().unwrap();
        assert_eq!((result.timeouts, result.dropped), (0, Dropped::default()));
        assert!((2.5..3.0).contains(&result.time.as_secs_f64()), "{result:?}");
    }

    #[test]
    fn packets_of_comet_are_dropped_for_lack_of_buffers_and_retransmitted() {
        let scenario = built_in();
        let result = foreign_session(&scenario, 1, false, 1).screenful().unwrap();
        assert!(result.dropped.overflows > 0 && result.timeouts > 0, "{result:?}");
    }

    #[test]
    fn a_repeated_foreign_session_is_identical_to_the_nanosecond() {
        let scenario = built_in();
        let run = || foreign_session(&scenario, 0, true, 7).screenful().unwrap().time;
        assert_eq!(run(), run());
    }
}
