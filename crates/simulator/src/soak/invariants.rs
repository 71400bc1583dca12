//! Checks of the invariants that every run must satisfy, independent of its faults.

use super::bulk::PausingReader;
use super::network::{Observations, Traffic};
use super::soak_scenario::{Pair, Scenario};
use crate::clock::Reading;
use crate::host::Host;
use crate::side::Side;
use net::link::Link;
use net::link::ppp::Phase;
use net::meter::Counter;
use net::station::Control;
use net::time::{Duration, Instant};
use net::transport::tcp::{CloseReason, State};

type SoakHost = Host<PausingReader>;

/// Time limit of a run in virtual time. Only a run in which the two ends exchange segments
/// indefinitely exceeds it.
const LIMIT: Duration = Duration::from_secs(86_400);
/// Maximum number of events of a run, more than any valid run needs: it detects a world that loops
/// without progress.
const EVENTS_MAX: u64 = 10_000_000;
/// Maximum number of timeouts in the calm phase before data is acknowledged.
const TIMEOUTS_MAX: u32 = 3;
/// Like [`TIMEOUTS_MAX`], for a path that silently drops long datagrams. The sender reduces its
/// segments after three timeouts. Three more occur if segments of the base length are dropped too,
/// and one if the loss of a probe is not detected otherwise.
const SILENT_TIMEOUTS_MAX: u32 = 7;
/// Maximum retransmission timeout (RFC 6298 (2.5)).
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Allowance for a retransmission of the link, a delayed acknowledgment of the peer, and a pause of
/// its application.
const SLACK: Duration = Duration::from_secs(10);

/// Duration of TIME-WAIT: twice the maximum segment lifetime.
const TIME_WAIT: Duration = Duration::from_secs(60);
/// Maximum delay from a state change of a host to its observation by the checks.
const OBSERVATION_DELAY_MAX: Duration = Duration::from_secs(1);

/// Time after which the queues of a line are certainly empty.
const QUEUES_EMPTY_AFTER: Duration = Duration::from_secs(600);

/// Time by which one end must make progress in the calm phase.
#[derive(Clone, Copy, Debug)]
struct ProgressDeadline {
    side: Side,
    /// Whether data was outstanding.
    is_waiting: bool,
    acknowledged: u64,
    deadline: Instant,
}

/// Duration of the TIME-WAIT of one end, measured by its own clock.
#[derive(Clone, Copy, Debug, Default)]
struct TimeWait {
    began_at: Option<Reading>,
    measured_duration: Option<Duration>,
}

/// State of the checks of one run.
struct Trial<'a> {
    scenario: &'a Scenario,
    observations: Observations,
    event_count: u64,
    progress_deadlines: Vec<ProgressDeadline>,
    time_waits: [TimeWait; 2],
    first_violation: Option<String>,
    /// Function that creates the control structure of a host; `None` for the procedure-based
    /// scheduler.
    control: Option<ControlFactory<'a>>,
}

/// Function that creates a control structure.
type ControlFactory<'a> = &'a dyn Fn() -> Box<dyn Control>;

fn create_trial(scenario: &Scenario) -> (Pair, Trial<'_>) {
    let (world, observations) = scenario.world();
    let progress_deadlines = Vec::new();
    let time_waits = Default::default();
    let event_count = 0;
    let first_violation = None;
    let control = None;
    (
        world,
        Trial {
            scenario,
            observations,
            event_count,
            progress_deadlines,
            time_waits,
            first_violation,
            control,
        },
    )
}

/// Runs a scenario, and returns its duration in virtual time.
///
/// # Errors
///
/// Returns a description of the violated invariant.
pub(super) fn check(scenario: &Scenario) -> Result<Duration, String> {
    let (mut world, mut trial) = create_trial(scenario);
    let checked = trial.run(&mut world).and_then(|()| trial.verdict(&mut world));
    let duration = world.now() - Instant::ZERO;
    checked.map(|()| duration).map_err(|violation| report(&world, &violation))
}

/// Runs a scenario with a control structure, and returns size and digest of the sent data.
///
/// # Errors
///
/// Returns a description of the violated invariant.
pub(super) fn traffic(scenario: &Scenario, control: ControlFactory<'_>) -> Result<Traffic, String> {
    let (mut world, trial) = create_trial(scenario);
    let mut trial = Trial { control: Some(control), ..trial };
    world.user.set_control(control());
    world.server.set_control(control());
    let checked = trial.run(&mut world).and_then(|()| trial.verdict(&mut world));
    checked
        .map(|()| trial.observations.traffic.get())
        .map_err(|violation| report(&world, &violation))
}

/// Runs a scenario, and returns its end time and all counts of its two meters, for comparison with
/// another run.
#[cfg(test)]
pub(super) fn traces(scenario: &Scenario) -> (Instant, String) {
    let (mut world, mut trial) = create_trial(scenario);
    trial.run(&mut world).expect("it ends");
    (world.now(), format!("{:?} {:?}", world.user.meter, world.server.meter))
}

/// Runs a scenario, and returns the number of black holes that its two hosts have detected.
#[cfg(test)]
pub(super) fn black_holes(scenario: &Scenario) -> u64 {
    let (mut world, mut trial) = create_trial(scenario);
    trial.run(&mut world).expect("it ends");
    [&world.user, &world.server].map(|host| host.meter.counted(Counter::TcpBlackHoles)).iter().sum()
}

impl Trial<'_> {
    fn run(&mut self, world: &mut Pair) -> Result<(), String> {
        if let Some(at) = self.scenario.restarts_at {
            self.run_until(world, at)?;
            world.server = self.scenario.host(Side::Server, 1);
            if let Some(control) = self.control {
                world.server.set_control(control());
            }
        }
        self.run_until(world, self.scenario.conditions.calm_at)?;
        self.progress_deadlines = [Side::User, Side::Server]
            .into_iter()
            .filter_map(|side| self.progress_deadline(world, side))
            .collect();
        self.run_until(world, Instant::ZERO + LIMIT)?;
        if self.is_over(world) { Ok(()) } else { Err("the run does not end".to_owned()) }
    }

    fn run_until(&mut self, world: &mut Pair, end: Instant) -> Result<(), String> {
        loop {
            let drive_result = world.drive(|world| {
                self.event_count += 1;
                self.check_progress(world);
                self.record_time_waits(world);
                let must_stop = self.event_count > EVENTS_MAX || self.first_violation.is_some();
                let is_done = must_stop || world.now() >= end || self.is_over(world);
                is_done || side_with_dead_line(world).is_some()
            });
            drive_result.map_err(|stuck| stuck.to_string())?;
            let Some(side) = side_with_dead_line(world) else { break };
            world.reopen(side);
        }
        if self.event_count > EVENTS_MAX {
            return Err(format!("the run has not ended after {} events", self.event_count));
        }
        self.first_violation.take().map_or(Ok(()), Err)
    }

    /// Returns whether the connection has ended at both ends. A restarted server counts as ended,
    /// because it waits for a new connection.
    fn is_over(&self, world: &Pair) -> bool {
        let is_server_over =
            world.server.application.tcp_app.is_over() || self.scenario.restarts_at.is_some();
        world.user.application.tcp_app.is_over() && is_server_over
    }

    /// Returns the time by which `side` must make progress in the calm phase; `None` once the
    /// connection of `side` has ended, or if the server of the scenario restarts.
    fn progress_deadline(&self, world: &Pair, side: Side) -> Option<ProgressDeadline> {
        let status = status(world, side).filter(|status| status.close_reason.is_none())?;
        if self.scenario.restarts_at.is_some() {
            return None;
        }
        let timeouts = if self.scenario.conditions.is_silent {
            let backed_off = (0..SILENT_TIMEOUTS_MAX).map(|count| status.rto * (1 << count));
            backed_off.map(|timeout| timeout.min(TIMEOUT_MAX)).sum()
        } else {
            status.rto * TIMEOUTS_MAX
        };
        let allowance = timeouts + self.scenario.conditions.round_trip_max() + SLACK;
        let is_waiting = status.recovery.outstanding > 0;
        let acknowledged = status.statistics.bytes_acknowledged;
        Some(ProgressDeadline { side, is_waiting, acknowledged, deadline: world.now() + allowance })
    }

    fn check_progress(&mut self, world: &Pair) {
        let now = world.now();
        if self.progress_deadlines.iter().all(|progress_deadline| now <= progress_deadline.deadline)
        {
            return;
        }
        let expired_deadlines: Vec<ProgressDeadline> = self
            .progress_deadlines
            .extract_if(.., |progress_deadline| progress_deadline.deadline < now)
            .collect();
        for ProgressDeadline { side, is_waiting, acknowledged, .. } in expired_deadlines {
            let Some(status) = status(world, side) else { continue };
            let is_still_waiting = is_waiting && status.recovery.outstanding > 0;
            if is_still_waiting && status.statistics.bytes_acknowledged == acknowledged {
                self.first_violation = Some(format!("{side:?}: no progress in the calm phase"));
            }
            self.progress_deadlines.extend(self.progress_deadline(world, side));
        }
    }

    /// Records for each end how long it is in TIME-WAIT.
    fn record_time_waits(&mut self, world: &Pair) {
        let hosts = [(Side::User, &world.user), (Side::Server, &world.server)];
        let records = hosts.into_iter().zip(&mut self.time_waits).zip(&self.scenario.clocks);
        for (((side, host), time_wait), clock) in records {
            let reading = clock.reading(world.now());
            if let Some(began_at) = time_wait.began_at {
                if host.application.tcp_app.close_reason().is_some() {
                    time_wait.measured_duration.get_or_insert(reading.since(began_at));
                }
            } else if host.application.tcp_app.peer_has_closed()
                && status(world, side).is_some_and(|status| status.state == State::TimeWait)
            {
                time_wait.began_at = Some(reading);
            }
        }
    }

    fn verdict(&self, world: &mut Pair) -> Result<(), String> {
        // Data in flight arrives in this time, and queued data is sent or given up.
        let drain_time = self.scenario.conditions.round_trip_max() + Duration::from_secs(1);
        world.run_until(world.now() + drain_time);
        let last_at = world.now() + QUEUES_EMPTY_AFTER;
        while world.user.station.packets_in_use() + world.server.station.packets_in_use() > 0
            && world.now() < last_at
        {
            world.run_until(world.now() + Duration::from_secs(1));
        }
        let is_restarted = self.scenario.restarts_at.is_some();
        let [user_time_wait, server_time_wait] =
            self.time_waits.map(|wait| wait.measured_duration.unwrap_or_default());
        let user = &world.user;
        let server = &world.server;
        for (name, host, peer, peer_time_wait) in
            [("user", user, server, server_time_wait), ("server", server, user, user_time_wait)]
        {
            self.check_content(host)
                .and_then(|()| {
                    let may_be_incomplete =
                        is_restarted || is_after_time_wait(host, peer, peer_time_wait);
                    if may_be_incomplete { Ok(()) } else { check_complete(host) }
                })
                .and_then(|()| check_accounts(host))
                .map_err(|violation| format!("{name}: {violation}"))?;
        }
        if is_restarted {
            check_after_restart(&world.user)
        } else {
            self.check_forged_errors(world)
        }
    }

    /// Checks that TCP has accepted no forged ICMP error.
    fn check_forged_errors(&self, world: &Pair) -> Result<(), String> {
        let sum_of_hosts =
            |counter| world.user.meter.counted(counter) + world.server.meter.counted(counter);
        let believed_count = sum_of_hosts(Counter::TcpIcmpErrors);
        // An error sent by a host may be duplicated.
        let reported_count =
            self.observations.reported_errors.get() + 2 * sum_of_hosts(Counter::IcmpErrorsOut);
        if believed_count > reported_count {
            return Err(format!(
                "{believed_count} ICMP errors were believed, and {reported_count} were reported"
            ));
        }
        Ok(())
    }

    /// Checks that the data received so far equals the beginning of the sent file.
    fn check_content(&self, host: &SoakHost) -> Result<(), String> {
        let stream = &host.application.tcp_app.stream;
        // Two inverted bits of one segment can leave its checksum unchanged. Such damage is not a
        // bug; it is recognized by equal sums.
        let has_damage = self.scenario.conditions.faults.bit_error_ppm > 0;
        let is_unseen_damage = has_damage && stream.excess % 0xFFFF == 0;
        if let Some(place) = stream.differs_at.filter(|_| !is_unseen_damage) {
            return Err(format!("byte {place} differs from the sent one"));
        }
        let received = stream.received;
        let expected = stream.expected.len();
        if received > expected {
            return Err(format!("{received} bytes received of {expected}"));
        }
        Ok(())
    }
}

/// Checks that all data was received, and that both ends have closed.
fn check_complete(host: &SoakHost) -> Result<(), String> {
    let stream = &host.application.tcp_app.stream;
    let received = stream.received;
    let expected = stream.expected.len();
    if received != expected {
        return Err(format!("{received} bytes received of {expected}"));
    }
    let has_closed =
        host.application.tcp_app.has_closed() && host.application.tcp_app.peer_has_closed();
    if !has_closed || host.application.tcp_app.close_reason() != Some(CloseReason::Closed) {
        return Err(format!(
            "the connection ended by {:?}",
            host.application.tcp_app.close_reason()
        ));
    }
    Ok(())
}

/// Returns whether `host` was reset only because the peer's TIME-WAIT was over before an
/// acknowledgment arrived. This requires that both ends have received all data.
fn is_after_time_wait(host: &SoakHost, peer: &SoakHost, peer_time_wait: Duration) -> bool {
    let tcp_app = &host.application.tcp_app;
    let has_all_data = tcp_app.stream.received == tcp_app.stream.expected.len();
    tcp_app.close_reason() == Some(CloseReason::Reset)
        && has_all_data
        && tcp_app.has_closed()
        && tcp_app.peer_has_closed()
        && check_complete(peer).is_ok()
        && peer_time_wait + OBSERVATION_DELAY_MAX >= TIME_WAIT
}

/// Checks that no packet buffer has leaked, and that the layer accounts of the meter add up to the
/// elapsed time.
fn check_accounts(host: &SoakHost) -> Result<(), String> {
    if host.station.packets_in_use() != 0 {
        return Err(format!("{} packet buffers have leaked", host.station.packets_in_use()));
    }
    if host.meter.accounts().iter().sum::<u64>() != host.meter.total() {
        return Err("the layer accounts of the meter do not add up to the elapsed time".to_owned());
    }
    Ok(())
}

/// Checks that the user's connection ended in a permitted way after the server restarted and lost
/// the connection.
fn check_after_restart(user: &SoakHost) -> Result<(), String> {
    match user.application.tcp_app.close_reason() {
        Some(CloseReason::Closed) => check_complete(user),
        Some(CloseReason::Reset | CloseReason::Refused) => Ok(()),
        other => Err(format!("user: the peer restarted, and the connection ended by {other:?}")),
    }
}

/// Returns the side on which PPP has terminated the line, which the simulation must then reopen.
fn side_with_dead_line(world: &Pair) -> Option<Side> {
    let hosts = [(Side::User, &world.user), (Side::Server, &world.server)];
    let is_dead = |host: &SoakHost| match host.station.link() {
        Link::Ppp(ppp) => ppp.phase() == Phase::Dead,
        _ => false,
    };
    hosts.into_iter().find(|(_, host)| is_dead(host)).map(|(side, _)| side)
}

fn status(world: &Pair, side: Side) -> Option<net::transport::tcp::Status> {
    let host = match side {
        Side::User => &world.user,
        Side::Server => &world.server,
    };
    host.application.tcp_app.status(&host.station.layers)
}

fn report(world: &Pair, violation: &str) -> String {
    let [user, server] = [Side::User, Side::Server].map(|side| status(world, side));
    let [user_counted, server_counted] = [counted(&world.user), counted(&world.server)];
    let now = world.now();
    format!(
        "{violation} at {now}\n  user {user:?}\n  server {server:?}\n  user {user_counted}\n  server {server_counted}"
    )
}

fn counted(host: &SoakHost) -> String {
    let counts = Counter::ALL.iter().map(|counter| (counter, host.meter.counted(*counter)));
    let counts = counts.filter(|(_, count)| *count > 0);
    counts.map(|(counter, count)| format!("{}: {count}; ", counter.text())).collect()
}
