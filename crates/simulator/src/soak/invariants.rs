//! Checks of the invariants that every run must satisfy, whatever its faults.

use super::bulk::Unhurried;
use super::network::{Notes, Traffic};
use super::scene::{Pair, Scene};
use crate::clock::Reading;
use crate::host::Host;
use crate::world::Side;
use protocols::link::Link;
use protocols::link::ppp::Phase;
use protocols::meter::Counter;
use protocols::station::Control;
use protocols::time::{Duration, Instant};
use protocols::transport::tcp::{Ending, State};

type Party = Host<Unhurried>;

/// Time limit; every run ends long before, unless two ends keep each other awake.
const LIMIT: Duration = Duration::from_secs(86_400);
/// Event limit, above that of any run: it detects a world that loops without progress.
const HAPPENINGS_MAX: u64 = 10_000_000;
/// Maximum timeouts in the calm phase before data is acknowledged.
const TIMEOUTS_MAX: u32 = 3;
/// The same if long datagrams vanish silently: three timeouts until the sender reduces its
/// segments, three more if the base length does not pass either, and one for a probe whose loss
/// shows nowhere else.
const SILENT_TIMEOUTS_MAX: u32 = 7;
/// Maximum retransmission timeout (RFC 6298 (2.5)).
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Allowance for a retransmission of the link, a delayed acknowledgment of the peer, and a pause of
/// its application.
const SLACK: Duration = Duration::from_secs(10);

/// Twice the maximum segment lifetime, for which TIME-WAIT answers.
const TIME_WAIT: Duration = Duration::from_secs(60);
/// Maximum delay between a host's state change and its detection.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Time after which the queues of a line are empty.
const QUEUES_EMPTY_AFTER: Duration = Duration::from_secs(600);

/// Progress that one end must make in the calm phase.
#[derive(Clone, Copy, Debug)]
struct Promise {
    side: Side,
    /// Whether data was outstanding.
    is_waiting: bool,
    acknowledged: u64,
    until: Instant,
}

/// The TIME-WAIT of one end, on its own clock.
#[derive(Clone, Copy, Debug, Default)]
struct TimeWait {
    began_at: Option<Reading>,
    lasted: Option<Duration>,
}

/// State of one run.
struct Trial<'a> {
    scene: &'a Scene,
    notes: Notes,
    happenings: u64,
    promises: Vec<Promise>,
    time_waits: [TimeWait; 2],
    broken: Option<String>,
    /// Maker of the control structure that calls the hosts' steps, if it is not the procedure-based
    /// scheduler.
    control: Option<Maker<'a>>,
}

/// Makes a control structure.
type Maker<'a> = &'a dyn Fn() -> Box<dyn Control>;

fn begin(scene: &Scene) -> (Pair, Trial<'_>) {
    let (world, notes) = scene.world();
    let (promises, time_waits) = (Vec::new(), Default::default());
    let (happenings, broken, control) = (0, None, None);
    (world, Trial { scene, notes, happenings, promises, time_waits, broken, control })
}

/// Runs a scene, and returns its duration in virtual time.
///
/// # Errors
///
/// Returns a description of the violated invariant.
pub(super) fn judge(scene: &Scene) -> Result<Duration, String> {
    let (mut world, mut trial) = begin(scene);
    let judged = trial.run(&mut world).and_then(|()| trial.verdict(&mut world));
    let taken = world.now() - Instant::ZERO;
    judged.map(|()| taken).map_err(|what| report(&world, &what))
}

/// Runs a scene with a control structure, and returns the data sent.
///
/// # Errors
///
/// Returns a description of the violated invariant.
pub(super) fn traffic(scene: &Scene, control: Maker<'_>) -> Result<Traffic, String> {
    let (mut world, trial) = begin(scene);
    let mut trial = Trial { control: Some(control), ..trial };
    world.user.set_control(control());
    world.server.set_control(control());
    let judged = trial.run(&mut world).and_then(|()| trial.verdict(&mut world));
    judged.map(|()| trial.notes.traffic.get()).map_err(|what| report(&world, &what))
}

/// Runs a scene to its end, and returns all counts of its two meters, for comparison.
#[cfg(test)]
pub(super) fn traces(scene: &Scene) -> (Instant, String) {
    let (mut world, mut trial) = begin(scene);
    trial.run(&mut world).expect("it ends");
    (world.now(), format!("{:?} {:?}", world.user.meter, world.server.meter))
}

/// Runs a scene to its end, and returns how many black holes its two hosts have detected.
#[cfg(test)]
pub(super) fn black_holes(scene: &Scene) -> u64 {
    let (mut world, mut trial) = begin(scene);
    trial.run(&mut world).expect("it ends");
    [&world.user, &world.server].map(|host| host.meter.counted(Counter::TcpBlackHoles)).iter().sum()
}

impl Trial<'_> {
    fn run(&mut self, world: &mut Pair) -> Result<(), String> {
        if let Some(at) = self.scene.restarts_at {
            self.run_until(world, at)?;
            world.server = self.scene.host(Side::Server, 1);
            if let Some(control) = self.control {
                world.server.set_control(control());
            }
        }
        self.run_until(world, self.scene.conditions.calm_at)?;
        self.promises = [Side::User, Side::Server]
            .into_iter()
            .filter_map(|side| self.promise(world, side))
            .collect();
        self.run_until(world, Instant::ZERO + LIMIT)?;
        if self.is_over(world) { Ok(()) } else { Err("it has no end".to_owned()) }
    }

    fn run_until(&mut self, world: &mut Pair, end: Instant) -> Result<(), String> {
        loop {
            let driven = world.drive(|world| {
                self.happenings += 1;
                self.hold_to_promises(world);
                self.note_time_waits(world);
                let is_endless = self.happenings > HAPPENINGS_MAX || self.broken.is_some();
                let is_done = is_endless || world.now() >= end || self.is_over(world);
                is_done || has_dead_line(world).is_some()
            });
            driven.map_err(|stuck| stuck.to_string())?;
            let Some(side) = has_dead_line(world) else { break };
            world.reopen(side);
        }
        if self.happenings > HAPPENINGS_MAX {
            return Err(format!("no end after {} happenings", self.happenings));
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    /// A server that has restarted is not expected to end: it waits for a new connection.
    fn is_over(&self, world: &Pair) -> bool {
        let is_server_over =
            world.server.application.carried.is_over() || self.scene.restarts_at.is_some();
        world.user.application.carried.is_over() && is_server_over
    }

    /// Returns the progress required of an end in the calm phase; `None` once it has ended.
    fn promise(&self, world: &Pair, side: Side) -> Option<Promise> {
        let status = status(world, side).filter(|status| status.ending.is_none())?;
        if self.scene.restarts_at.is_some() {
            return None;
        }
        let timeouts = if self.scene.conditions.is_silent {
            let doubled = (0..SILENT_TIMEOUTS_MAX).map(|count| status.rto * (1 << count));
            doubled.map(|timeout| timeout.min(TIMEOUT_MAX)).sum()
        } else {
            status.rto * TIMEOUTS_MAX
        };
        let patience = timeouts + self.scene.conditions.round_trip_max() + SLACK;
        let is_waiting = status.recovery.outstanding > 0;
        let acknowledged = status.statistics.bytes_acknowledged;
        Some(Promise { side, is_waiting, acknowledged, until: world.now() + patience })
    }

    fn hold_to_promises(&mut self, world: &Pair) {
        let now = world.now();
        if self.promises.iter().all(|promise| now <= promise.until) {
            return;
        }
        let due: Vec<Promise> =
            self.promises.extract_if(.., |promise| promise.until < now).collect();
        for Promise { side, is_waiting, acknowledged, .. } in due {
            let Some(status) = status(world, side) else { continue };
            let is_still_waiting = is_waiting && status.recovery.outstanding > 0;
            if is_still_waiting && status.statistics.bytes_acknowledged == acknowledged {
                self.broken = Some(format!("{side:?}: the calm has come, and nothing moves"));
            }
            self.promises.extend(self.promise(world, side));
        }
    }

    /// Records how long an end is in TIME-WAIT after it has received the end of the data.
    fn note_time_waits(&mut self, world: &Pair) {
        let hosts = [(Side::User, &world.user), (Side::Server, &world.server)];
        let places = hosts.into_iter().zip(&mut self.time_waits).zip(&self.scene.clocks);
        for (((side, host), time_wait), clock) in places {
            let reading = clock.reading(world.now());
            if let Some(began_at) = time_wait.began_at {
                if host.application.carried.ending().is_some() {
                    time_wait.lasted.get_or_insert(reading.since(began_at));
                }
            } else if host.application.carried.peer_has_closed()
                && status(world, side).is_some_and(|status| status.state == State::TimeWait)
            {
                time_wait.began_at = Some(reading);
            }
        }
    }

    fn verdict(&self, world: &mut Pair) -> Result<(), String> {
        // Data in flight arrives, and queued data is sent or given up.
        let rest = self.scene.conditions.round_trip_max() + Duration::from_secs(1);
        world.run_until(world.now() + rest);
        let last_at = world.now() + QUEUES_EMPTY_AFTER;
        while world.user.station.packets_lent() + world.server.station.packets_lent() > 0
            && world.now() < last_at
        {
            world.run_until(world.now() + Duration::from_secs(1));
        }
        let is_restarted = self.scene.restarts_at.is_some();
        let [of_user, of_server] = self.time_waits.map(|wait| wait.lasted.unwrap_or_default());
        let (user, server) = (&world.user, &world.server);
        for (name, host, peer, peer_time_wait) in
            [("user", user, server, of_server), ("server", server, user, of_user)]
        {
            self.content(host)
                .and_then(|()| {
                    let is_forgiven = is_restarted || is_told_too_late(host, peer, peer_time_wait);
                    if is_forgiven { Ok(()) } else { whole(host) }
                })
                .and_then(|()| accounts(host))
                .map_err(|what| format!("{name}: {what}"))?;
        }
        if is_restarted { forgotten(&world.user) } else { self.beliefs(world) }
    }

    /// Checks that no forged ICMP error was believed.
    fn beliefs(&self, world: &Pair) -> Result<(), String> {
        let both =
            |counter| world.user.meter.counted(counter) + world.server.meter.counted(counter);
        let believed = both(Counter::TcpIcmpErrors);
        // An error sent by a host may be duplicated.
        let told = self.notes.errors_told.get() + 2 * both(Counter::IcmpErrorsOut);
        if believed > told {
            return Err(format!("{believed} ICMP errors were believed, and {told} were told"));
        }
        Ok(())
    }

    /// Checks that the received data is what was sent, once and in order, as far as it was
    /// received.
    fn content(&self, host: &Party) -> Result<(), String> {
        let stream = &host.application.carried.stream;
        // Two inverted bits of one segment can leave its checksum unchanged. Such damage is not a
        // bug; it is recognized by equal sums.
        let has_damage = self.scene.conditions.faults.bit_error_ppm > 0;
        let is_unseen_damage = has_damage && stream.excess % 0xFFFF == 0;
        if let Some(place) = stream.differs_at.filter(|_| !is_unseen_damage) {
            return Err(format!("byte {place} is not the one that was sent"));
        }
        let (received, expected) = (stream.received, stream.expected.len());
        if received > expected {
            return Err(format!("{received} bytes received of {expected}"));
        }
        Ok(())
    }
}

/// Checks that all data was received, and that both ends have closed.
fn whole(host: &Party) -> Result<(), String> {
    let stream = &host.application.carried.stream;
    let (received, expected) = (stream.received, stream.expected.len());
    if received != expected {
        return Err(format!("{received} bytes received of {expected}"));
    }
    let has_closed =
        host.application.carried.has_closed() && host.application.carried.peer_has_closed();
    if !has_closed || host.application.carried.ending() != Some(Ending::Closed) {
        return Err(format!("it ended by {:?}", host.application.carried.ending()));
    }
    Ok(())
}

/// Returns whether all data was received at both ends, but the acknowledgments for this end were
/// lost until the peer's TIME-WAIT was over.
fn is_told_too_late(host: &Party, peer: &Party, peer_time_wait: Duration) -> bool {
    let carried = &host.application.carried;
    let lacks_nothing = carried.stream.received == carried.stream.expected.len();
    carried.ending() == Some(Ending::Reset)
        && lacks_nothing
        && carried.has_closed()
        && carried.peer_has_closed()
        && whole(peer).is_ok()
        && peer_time_wait + SEEN_WITHIN >= TIME_WAIT
}

/// Checks that no packet buffer has leaked, and that the time is accounted for.
fn accounts(host: &Party) -> Result<(), String> {
    if host.station.packets_lent() != 0 {
        return Err(format!("{} packets have leaked", host.station.packets_lent()));
    }
    if host.meter.accounts().iter().sum::<u64>() != host.meter.total() {
        return Err("the accounts do not add up to the total".to_owned());
    }
    Ok(())
}

/// Checks the end of a connection that the peer may have forgotten.
fn forgotten(user: &Party) -> Result<(), String> {
    match user.application.carried.ending() {
        Some(Ending::Closed) => whole(user),
        Some(Ending::Reset | Ending::Refused) => Ok(()),
        other => Err(format!("user: the peer has forgotten it, and it ended by {other:?}")),
    }
}

/// Returns the side whose line has terminated, so that its owner must reopen it.
fn has_dead_line(world: &Pair) -> Option<Side> {
    let hosts = [(Side::User, &world.user), (Side::Server, &world.server)];
    let is_dead = |host: &Party| match host.station.link() {
        Link::Ppp(ppp) => ppp.phase() == Phase::Dead,
        _ => false,
    };
    hosts.into_iter().find(|(_, host)| is_dead(host)).map(|(side, _)| side)
}

fn status(world: &Pair, side: Side) -> Option<protocols::transport::tcp::Status> {
    let host = match side {
        Side::User => &world.user,
        Side::Server => &world.server,
    };
    host.application.carried.status(&host.station.layers)
}

fn report(world: &Pair, what: &str) -> String {
    let [user, server] = [Side::User, Side::Server].map(|side| status(world, side));
    let [user_counted, server_counted] = [counted(&world.user), counted(&world.server)];
    let now = world.now();
    format!(
        "{what} at {now}\n  user {user:?}\n  server {server:?}\n  user {user_counted}\n  server {server_counted}"
    )
}

fn counted(host: &Party) -> String {
    let counts = Counter::ALL.iter().map(|counter| (counter, host.meter.counted(*counter)));
    let counts = counts.filter(|(_, count)| *count > 0);
    counts.map(|(counter, count)| format!("{}: {count}; ", counter.text())).collect()
}
