//! The conditions of a measurement (processors, priorities, machine): the bench sets those that it
//! may set, and reports all of them.

use anyhow::{Context, Result};
use os::load::{Machine, load_average};
use os::{namespace, schedule};
use records::format::UNKNOWN;
use serde_json::{Value, json};
use std::fs;

/// Processors of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// Processor of the bench and the clients.
    pub(super) client: usize,
    /// Processor of the servers.
    pub(super) server: usize,
}

/// Conditions of the machine that influence the measured figures.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    machine: Machine,
    /// Processors of the programs; `None` if they could not be pinned.
    pub(super) placement: Option<Placement>,
    real_time: Result<(), String>,
    is_preferred: bool,
    load_before: Option<[f64; 3]>,
}

/// The set of measured programs, for the wording of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramSet {
    /// A driver that types into a client, and a server that runs a shell.
    Login,
    /// A client and a server.
    Stack,
    /// A client, and a server that may consist of many processes.
    Files,
    /// The bench itself, in one thread.
    Thread,
    /// Gateways, first on one processor and then on all.
    Gateway,
}

/// A low real-time priority: the machine's own real-time threads keep precedence.
const PRIORITY: u8 = 10;
/// The highest priority of an ordinary process.
const NICE: i8 = -20;

impl Conditions {
    /// Moves into a new network namespace, pins the bench to one processor (with `two_cores` the
    /// servers to another), and raises its priority above ordinary processes where permitted.
    pub(super) fn set(two_cores: bool) -> Result<Self> {
        // Nothing may come before this call: an unprivileged user may make it only in a
        // single-threaded process.
        namespace::enter_new_network()?;
        let load_before = load_average();
        let machine = Machine::current();
        let processors = schedule::processors().context("cannot read the list of processors")?;
        let client = processors.first().copied().unwrap_or(0);
        let other = processors.get(1).copied().filter(|_| two_cores);
        let placement = Placement { client, server: other.unwrap_or(client) };
        let is_pinned = schedule::pin_to(client).is_ok();
        let is_preferred = schedule::set_nice(NICE).is_ok();
        let real_time = schedule::set_real_time(PRIORITY).map_err(|error| error.to_string());
        let placement = is_pinned.then_some(placement);
        Ok(Self { machine, placement, real_time, is_preferred, load_before })
    }

    /// Returns to the priority of an ordinary process.
    ///
    /// When a process exits, the kernel spins on a lock of /proc that another process may hold. If
    /// that other process is an ordinary process on the same processor, neither of the two
    /// processes makes progress.
    pub(super) fn without_real_time(self) -> Result<Self> {
        schedule::set_ordinary()?;
        Ok(Self {
            real_time: Err("this benchmark starts and ends many programs".to_owned()),
            ..self
        })
    }

    /// Gives this thread, and processes that it starts from now on, real-time priority if
    /// permitted.
    pub(super) fn run_in_real_time(&self) -> Result<()> {
        match self.real_time {
            Ok(()) => Ok(schedule::set_real_time(PRIORITY)?),
            Err(_) => Ok(()),
        }
    }

    /// Gives real-time priority, as in [`Self::run_in_real_time`], to a process that was started as
    /// an ordinary one.
    pub(super) fn promote(&self, id: u32) -> Result<()> {
        match self.real_time {
            Ok(()) => Ok(schedule::set_process_real_time(id, PRIORITY)?),
            Err(_) => Ok(()),
        }
    }

    /// Returns this thread, and processes that it starts from now on, to ordinary scheduling.
    ///
    /// Measurements of screenfuls need ordinary scheduling: the kernel moves characters between the
    /// two ends of a terminal in ordinary kernel threads. While a shell runs in real time, these
    /// threads are not scheduled on its processor, and the echo of the key that started the output
    /// waits until the output ends.
    pub(super) fn run_as_ordinary(&self) -> Result<()> {
        Ok(schedule::set_ordinary()?)
    }

    /// Returns the processor of the servers and the processor of the bench, for code that starts
    /// servers.
    pub(super) fn pinning(&self) -> Option<(usize, usize)> {
        self.placement.map(|placement| (placement.server, placement.client))
    }

    fn placement_text(&self, program_set: ProgramSet) -> String {
        match (self.placement, program_set) {
            (None, _) => "not pinned".to_owned(),
            (Some(Placement { client, .. }), ProgramSet::Stack) => {
                format!("client and server on processor {client}; spinning servers on another")
            }
            (Some(Placement { client, server }), ProgramSet::Files) if client == server => {
                format!("bench, client and server on processor {client}")
            }
            (Some(Placement { client, server }), ProgramSet::Files) => {
                format!("bench and client on processor {client}, server on {server}")
            }
            (Some(Placement { client, .. }), ProgramSet::Gateway) => {
                format!("all programs on processor {client}, then not pinned")
            }
            (Some(Placement { client, .. }), ProgramSet::Thread) => {
                format!("on processor {client}")
            }
            (Some(Placement { client, server }), ProgramSet::Login) if client == server => {
                format!("driver, client, server and shell all on processor {client}")
            }
            (Some(Placement { client, server }), ProgramSet::Login) => {
                format!("driver and client on processor {client}, server and shell on {server}")
            }
        }
    }

    fn scheduling_text(&self, program_set: ProgramSet) -> String {
        let class = match &self.real_time {
            Ok(()) => format!("SCHED_FIFO, priority {PRIORITY}"),
            Err(error) => format!("ordinary (no SCHED_FIFO: {error})"),
        };
        let nice = if self.is_preferred { NICE } else { 0 };
        match program_set {
            ProgramSet::Stack => class,
            ProgramSet::Files | ProgramSet::Thread | ProgramSet::Gateway => {
                format!("ordinary, nice {nice}")
            }
            ProgramSet::Login => format!("echo: {class}; screenful: ordinary, nice {nice}"),
        }
    }

    /// Returns the conditions as lines of text; `congestion` is the congestion control in effect.
    pub(super) fn text(&self, program_set: ProgramSet, congestion: &str) -> String {
        let machine = &self.machine;
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        let placed = self.placement_text(program_set);
        let scheduled = self.scheduling_text(program_set);
        format!(
            "machine     {}, {} processors, {} {}\n\
             clock       {}; the kernel's {}; frequency governor {}\n\
             placement   {placed}\n\
             scheduling  {scheduled}\n\
             congestion  {congestion}\n\
             load        {} before, {} after (1, 5, 15 min)\n",
            known(&machine.processor),
            machine.processors.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string()),
            machine.kernel,
            machine.architecture,
            os::clock::source(),
            known(&machine.clock_source),
            known(&governor()),
            load_text(self.load_before),
            load_text(load_average()),
        )
    }

    /// Returns the conditions as JSON.
    pub(super) fn to_json(&self, congestion: &str) -> Value {
        json!({
            "kernel": self.machine.kernel,
            "architecture": self.machine.architecture,
            "processor": self.machine.processor,
            "processors": self.machine.processors,
            "clock_source": self.machine.clock_source,
            "governor": governor(),
            "near_processor": self.placement.map(|placement| placement.client),
            "far_processor": self.placement.map(|placement| placement.server),
            "is_real_time": self.real_time.is_ok(),
            "is_nice_minus_20": self.is_preferred,
            "congestion_control": congestion,
            "load_before": self.load_before,
            "load_after": load_average(),
        })
    }
}

/// Returns the CPU frequency governor; a virtual machine does not expose it.
fn governor() -> Option<String> {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    Some(text.trim().to_owned())
}

fn load_text(load: Option<[f64; 3]>) -> String {
    match load {
        Some([one, five, fifteen]) => format!("{one:.1} {five:.1} {fifteen:.1}"),
        None => UNKNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(placement: Option<Placement>, real_time: Result<(), String>) -> Conditions {
        let machine = Machine::current();
        let is_preferred = false;
        Conditions { machine, placement, real_time, is_preferred, load_before: None }
    }

    #[test]
    fn one_shared_processor_and_two_processors_are_described_differently() {
        let one = conditions(Some(Placement { client: 3, server: 3 }), Ok(()));
        assert!(one.text(ProgramSet::Login, "cubic").contains("all on processor 3"));
        let two = conditions(Some(Placement { client: 0, server: 1 }), Ok(()));
        assert!(two.text(ProgramSet::Login, "cubic").contains("server and shell on 1"));
    }

    #[test]
    fn a_refused_priority_is_stated_with_its_reason() {
        let text = conditions(None, Err("not permitted".into())).text(ProgramSet::Stack, "cubic");
        assert!(text.contains("no SCHED_FIFO: not permitted"), "{text}");
        assert!(text.contains("not pinned") && text.contains("congestion  cubic"), "{text}");
    }

    #[test]
    fn an_unknown_load_is_a_dash() {
        assert_eq!(load_text(None), "-");
        assert_eq!(load_text(Some([1.25, 0.5, 2.0])), "1.2 0.5 2.0");
    }
}
