//! Model of the Network Daemon and the server processes: the work caused by each message during the
//! simulated time.

use super::session_messages::{Message, messages};
use super::session_scenario::{Costs, Scenario};
use super::switches::Switches;
use net::time::{Duration, Instant};
use simulator::Side;
use std::collections::{BTreeMap, VecDeque};

/// Reason for which the daemon is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// An RFNM: a message sent by Multics has reached the remote host.
    Rfnm,
    /// An allocate: a remote host permits Multics to send more characters.
    Allocate,
    /// Data for a process.
    Data,
    /// A request for the daemon itself: a survey or an echo.
    Request,
}

/// Processor time and event counts of the daemon and the processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) wakeups: BTreeMap<Cause, u64>,
    /// Number of wakeups that occurred while the daemon was processing an earlier one.
    pub(super) while_busy: u64,
    pub(super) daemon_ms: f64,
    /// Processor time of work done at interrupt time instead of in the daemon, in ms.
    pub(super) interrupt_ms: f64,
    pub(super) process_ms: f64,
    /// Number of read and write calls of the processes.
    pub(super) transactions: u64,
    /// Number of times that a process was woken to continue writing.
    pub(super) woken_to_write: u64,
    /// Number of data messages sent and received.
    pub(super) messages: u64,
    pub(super) canonical_ms: f64,
}

impl Usage {
    pub(super) fn total_wakeups(&self) -> u64 {
        self.wakeups.values().sum()
    }

    pub(super) fn wakeups_by(&self, cause: Cause) -> u64 {
        self.wakeups.get(&cause).copied().unwrap_or(0)
    }

    pub(super) fn total_ms(&self) -> f64 {
        self.daemon_ms + self.interrupt_ms + self.process_ms
    }
}

/// One connection: the data waiting to be sent, and the allocation left.
#[derive(Debug)]
struct Connection {
    waiting: VecDeque<usize>,
    allocated: usize,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A process writes `chars` characters.
    Write { connection: usize, chars: usize },
    /// Data arrives for a process; `is_line` is true if the data ends a line.
    Data { chars: usize, is_line: bool },
    /// An RFNM arrives: the remote host has received a message sent by Multics.
    Rfnm,
    /// The remote host allocates space for `chars` more characters.
    Allocate { connection: usize, chars: usize },
    /// A remote host sends a request to the daemon itself.
    Request,
}

/// State of the simulation of a scenario.
#[derive(Debug)]
pub(super) struct Model<'a> {
    scenario: &'a Scenario,
    switches: Switches,
    event_queue: BTreeMap<(Instant, u64), Event>,
    event_count: u64,
    connections: Vec<Connection>,
    daemon_busy_until: Instant,
    usage: Usage,
}

/// Simulates a scenario with the proposals `switches` in force, and returns its costs.
pub(super) fn simulate(scenario: &Scenario, switches: Switches) -> Usage {
    let mut model = Model::new(scenario, switches);
    while let Some(((at, _), event)) = model.event_queue.pop_first() {
        model.process_event(at, event);
    }
    model.usage
}

impl<'a> Model<'a> {
    fn new(scenario: &'a Scenario, switches: Switches) -> Self {
        let mut model = Self {
            scenario,
            switches,
            event_queue: BTreeMap::new(),
            event_count: 0,
            connections: Vec::new(),
            daemon_busy_until: Instant::ZERO,
            usage: Usage::default(),
        };
        let mut people = 0;
        for session in &scenario.sessions {
            let mut session = session.clone();
            session.is_a_character_at_a_time &= !switches.line_at_a_time;
            for _ in 0..session.people {
                people += 1;
                let messages_of_session = messages(scenario, &session, scenario.seed + people);
                model.connect(&messages_of_session, session.typed_chars.max(1));
            }
        }
        let request_count = scenario.network.asked_an_hour * scenario.minutes / 60;
        let request_interval = Duration::from_secs(scenario.minutes * 60)
            / u32::try_from(request_count.max(1)).unwrap_or(1);
        for turn in 0..u32::try_from(request_count).unwrap_or(0) {
            model.schedule(Instant::ZERO + request_interval * turn, Event::Request);
        }
        model
    }

    fn connect(&mut self, messages_of_session: &[Message], typed_chars: usize) {
        let connection = self.connections.len();
        let allocated = self.allocation();
        self.connections.push(Connection { waiting: VecDeque::new(), allocated });
        let mut line_chars = 0;
        for Message { at, from, chars } in messages_of_session.iter().copied() {
            self.usage.messages += 1;
            match from {
                Side::Server => self.schedule(at, Event::Write { connection, chars }),
                Side::User => {
                    line_chars += chars;
                    let is_line = line_chars >= typed_chars;
                    self.schedule(at, Event::Data { chars, is_line });
                    line_chars = if is_line { 0 } else { line_chars };
                }
            }
        }
    }

    fn allocation(&self) -> usize {
        let network = self.scenario.network;
        let least =
            if self.switches.minimum_allocation { network.minimum_allocation_chars } else { 1 };
        network.allocation_chars.max(least)
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.event_queue.insert((at, self.event_count), event);
    }

    fn process_event(&mut self, at: Instant, event: Event) {
        match event {
            Event::Write { connection, chars } => {
                self.write(chars);
                self.enqueue_chars(connection, chars);
                self.send(connection, at);
            }
            Event::Data { chars, is_line } => {
                self.process_cause(Cause::Data, self.switches.daemon_elimination, at);
                self.wake_process();
                self.read(chars, is_line);
                // The space of consumed data is allocated again, by a control message that has its
                // own RFNM.
                self.schedule_rfnm(at);
            }
            Event::Rfnm => {
                self.process_cause(Cause::Rfnm, self.switches.processes_rfnms_at_interrupt(), at);
            }
            Event::Allocate { connection, chars } => {
                self.process_cause(
                    Cause::Allocate,
                    self.switches.processes_allocates_at_interrupt(),
                    at,
                );
                if let Some(it) = self.connections.get_mut(connection) {
                    it.allocated += chars;
                }
                self.send_waiting(connection, at);
            }
            Event::Request => {
                // Without a daemon, the request costs the Answering Service the same processor
                // time.
                self.wake_daemon(Cause::Request, at);
                self.schedule_rfnm(at);
            }
        }
    }

    fn process_cause(&mut self, cause: Cause, at_interrupt: bool, at: Instant) {
        if at_interrupt {
            self.usage.interrupt_ms += self.scenario.costs.interrupt_ms;
        } else {
            self.wake_daemon(cause, at);
        }
    }

    fn schedule_rfnm(&mut self, at: Instant) {
        self.schedule(at + Duration::from_millis(self.scenario.network.rfnm_ms), Event::Rfnm);
    }

    fn enqueue_chars(&mut self, connection: usize, chars: usize) {
        if let Some(it) = self.connections.get_mut(connection) {
            it.waiting.push_back(chars);
        }
    }

    /// Sends the data of a connection that was waiting for an allocation. With `write_force`, the
    /// daemon sends the data; if the daemon is eliminated, the interrupt handler does. Without
    /// `write_force`, the process is woken and writes again.
    fn send_waiting(&mut self, connection: usize, at: Instant) {
        let waiting = self.connections.get(connection).and_then(|it| it.waiting.front().copied());
        let Some(chars) = waiting else { return };
        if !self.switches.write_force {
            self.usage.woken_to_write += 1;
            self.wake_process();
            self.write(chars);
        }
        self.send(connection, at);
    }

    /// Sends as much waiting data of the connection as its allocation permits.
    fn send(&mut self, connection: usize, at: Instant) {
        let network = self.scenario.network;
        while let Some(it) = self.connections.get_mut(connection) {
            let Some(first) = it.waiting.front_mut() else { return };
            let chars = (*first).min(it.allocated);
            if chars == 0 {
                return;
            }
            *first -= chars;
            it.allocated -= chars;
            if *first == 0 {
                it.waiting.pop_front();
            }
            self.schedule_rfnm(at);
            let allocate_at = at + Duration::from_millis(network.allocate_ms);
            self.schedule(allocate_at, Event::Allocate { connection, chars });
        }
    }

    /// Wakes the daemon and charges the cost of one transaction.
    fn wake_daemon(&mut self, cause: Cause, at: Instant) {
        *self.usage.wakeups.entry(cause).or_default() += 1;
        self.usage.while_busy += u64::from(at < self.daemon_busy_until);
        let ms = transaction_ms(&self.scenario.costs, self.switches);
        self.usage.daemon_ms += ms;
        let begins_at = at.max(self.daemon_busy_until);
        self.daemon_busy_until = begins_at + Duration::from_secs_f64(ms / 1_000.0);
    }

    fn wake_process(&mut self) {
        self.usage.process_ms += self.scenario.costs.block_ms;
    }

    fn write(&mut self, chars: usize) {
        self.usage.transactions += 1;
        self.usage.process_ms += io_ms(&self.scenario.costs, self.switches)
            + chars as f64 / self.scenario.costs.telnet_per_ms;
    }

    fn read(&mut self, chars: usize, is_line: bool) {
        self.write(chars);
        if is_line {
            let costs = &self.scenario.costs;
            let needs = self.switches.canonical_where_needed;
            let part = if needs { costs.needs_canonical_part } else { 1.0 };
            let ms = part * chars as f64 / costs.canonical_per_ms;
            self.usage.canonical_ms += ms;
            self.usage.process_ms += ms;
        }
    }
}

/// Returns the cost of one transaction of the daemon, in ms.
///
/// The cost is the memo's average over all wakeups, including those that occur while the daemon is
/// busy.
pub(super) fn transaction_ms(costs: &Costs, switches: Switches) -> f64 {
    let is_in_one_ring = switches.ring_1_daemon || switches.ring_0_ncp || switches.wait;
    let third_ring = costs.transaction_ms * costs.third_ring_part;
    let rest = costs.transaction_ms - costs.block_ms - third_ring;
    let yield_ms = if switches.wait { costs.wait_ms } else { costs.block_ms };
    rest + yield_ms + if is_in_one_ring { 0.0 } else { third_ring }
}

/// Returns the cost of a read or write call of a process, in ms, without the cost per character.
pub(super) fn io_ms(costs: &Costs, switches: Switches) -> f64 {
    if !switches.ring_0_ncp {
        return costs.io_ms;
    }
    let wall_saving_ms = costs.wall_to_ring_1_ms - costs.wall_to_ring_0_ms;
    costs.io_ms * (1.0 - costs.third_ring_part) - wall_saving_ms
}

#[cfg(test)]
mod tests {
    use super::super::session_scenario::tests::built_in;
    use super::*;

    fn short_scenario() -> Scenario {
        let mut scenario = built_in();
        scenario.minutes = 10;
        scenario
    }

    #[test]
    fn every_sent_message_has_one_rfnm_and_every_character_its_allocate() {
        let usage =
            simulate(&short_scenario(), Switches { write_force: true, ..Switches::default() });
        let sent = usage.wakeups_by(Cause::Allocate);
        let received = usage.wakeups_by(Cause::Data) + usage.wakeups_by(Cause::Request);
        assert_eq!(usage.wakeups_by(Cause::Rfnm), sent + received);
    }

    #[test]
    fn a_waiting_daemon_pays_for_no_block_and_no_third_ring() {
        let costs = built_in().costs;
        let waiting_daemon = Switches { wait: true, ..Switches::default() };
        let ms = transaction_ms(&costs, waiting_daemon);
        assert!((ms - (250.0 - 100.0 - 62.5 + costs.wait_ms)).abs() < 1e-9, "{ms}");
    }

    #[test]
    fn without_a_daemon_only_requests_of_remote_hosts_wake_a_process() {
        let scenario = short_scenario();
        let switches = Switches { daemon_elimination: true, ..Switches::default() };
        let [with, without] = [Switches::default(), switches].map(|one| simulate(&scenario, one));
        let request_count = with.wakeups_by(Cause::Request);
        assert!(request_count > 0);
        assert_eq!(without.wakeups, BTreeMap::from([(Cause::Request, request_count)]));
        let taken = with.total_wakeups() - request_count;
        let interrupts = without.interrupt_ms / scenario.costs.interrupt_ms;
        assert!((interrupts - taken as f64).abs() < 1e-6, "{interrupts} {taken}");
        // The processes are woken as often as with a daemon, but by the interrupt handler.
        assert_eq!(with.process_ms.to_bits(), without.process_ms.to_bits());
    }

    #[test]
    fn a_repeated_simulation_has_the_same_costs() {
        let run = || simulate(&short_scenario(), Switches::default()).total_ms().to_bits();
        assert_eq!(run(), run());
    }
}
