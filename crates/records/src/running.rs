//! Meter readings of a running plumb process over an interval: the share of each primitive (a basic
//! account of the meter, such as system calls or Telnet) in the work.

use crate::format::{count, duration, share};
use serde::{Deserialize, Serialize};

/// Activity of a running plumb process over an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Process ID.
    pub pid: u32,
    /// Command line of the process.
    pub command: String,
    /// Uptime at the end of the interval, ns.
    pub uptime_ns: u64,
    /// Length of the interval, ns.
    #[serde(alias = "looked_ns")]
    pub window_ns: u64,
    /// CPU time of all its threads in the interval, ns.
    pub cpu_ns: u64,
    /// Time charged to its meters in the interval, without waiting, ns.
    pub busy_ns: u64,
    /// Number of times that a wait ended in the interval.
    pub wakeups: u64,
    /// Keystrokes and commands processed in the interval.
    pub transactions: u64,
    /// Time of each primitive in the interval, longest first, without the wait.
    pub primitives: Vec<PrimitiveTime>,
}

/// Time of one primitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimitiveTime {
    /// Name of the primitive.
    pub name: String,
    /// Number of times the primitive was entered and left.
    pub visits: u64,
    /// Time of the primitive, ns.
    pub ns: u64,
}

impl Running {
    /// Returns one sentence: the busy time of the process, and the primitive with the longest time.
    #[must_use]
    pub fn sentence(&self) -> String {
        let process_name = format!("plumb {} (process {})", self.command, self.pid);
        let window = duration(self.window_ns);
        let busy = duration(self.busy_ns);
        let Some(max) = self.primitives.first().filter(|part| part.ns > 0) else {
            return format!("In {window} {process_name} did no work according to its meters.");
        };
        let mut text = format!(
            "In {window} {process_name} worked for {busy} ({}), mostly on {}: {} ({})",
            share(self.busy_ns, self.window_ns),
            max.name,
            duration(max.ns),
            share(max.ns, self.busy_ns)
        );
        if let Some(each) = self.busy_ns.checked_div(self.transactions) {
            text += &format!(
                "; {} transactions took {} and {:.1} wake-ups each",
                count(self.transactions),
                duration(each),
                self.wakeups as f64 / self.transactions as f64
            );
        }
        text + "."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Running {
        let part = |name: &str, ns| PrimitiveTime { name: name.to_owned(), visits: 10, ns };
        Running {
            pid: 4711,
            command: "serve".to_owned(),
            uptime_ns: 60_000_000_000,
            window_ns: 2_000_000_000,
            cpu_ns: 25_000_000,
            busy_ns: 20_000_000,
            wakeups: 250,
            transactions: 100,
            primitives: vec![part("system calls", 15_000_000), part("Telnet", 5_000_000)],
        }
    }

    #[test]
    fn a_running_process_reports_its_load_and_its_main_primitive() {
        assert_eq!(
            running().sentence(),
            "In 2.00 s plumb serve (process 4711) worked for 20.0 ms (1 %), mostly on system calls: \
             15.0 ms (75 %); 100 transactions took 200 µs and 2.5 wake-ups each."
        );
    }

    #[test]
    fn an_idle_process_is_reported_as_idle() {
        let idle = Running { busy_ns: 0, primitives: Vec::new(), ..running() };
        assert!(idle.sentence().contains("did no work"));
    }

    #[test]
    fn a_primitive_without_time_and_a_process_without_transactions_are_reported() {
        let part = |ns| PrimitiveTime { name: "Telnet".to_owned(), visits: 1, ns };
        let with = |ns| Running { primitives: vec![part(ns)], transactions: 0, ..running() };
        assert!(with(0).sentence().contains("did no work"));
        assert_eq!(
            with(1).sentence(),
            "In 2.00 s plumb serve (process 4711) worked for 20.0 ms (1 %), mostly on Telnet: 1 ns \
             (< 1 %)."
        );
    }
}
