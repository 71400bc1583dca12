//! What the meters of a running plumb say of a while: each primitive's part of the work.

use crate::figures::{count, duration, share};
use serde::{Deserialize, Serialize};

/// A while in the life of a running plumb.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The number of its process.
    pub pid: u32,
    /// What it was told to do.
    pub command: String,
    /// How long it had run at the end, ns.
    pub uptime_ns: u64,
    /// How long it was looked at, ns.
    pub looked_ns: u64,
    /// CPU time of all its threads meanwhile, ns.
    pub cpu_ns: u64,
    /// Time that its meters were charged with meanwhile, without waiting, ns.
    pub busy_ns: u64,
    /// Returns from a wait meanwhile.
    pub wakeups: u64,
    /// Keys and commands that were done meanwhile.
    pub transactions: u64,
    /// What each primitive took meanwhile, what took most first; the wait is not among them.
    pub primitives: Vec<Part>,
}

/// What one primitive took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// How often it was entered and left.
    pub visits: u64,
    /// Its time, ns.
    pub ns: u64,
}

impl Running {
    /// Returns one sentence: how busy it was, and with what.
    #[must_use]
    pub fn sentence(&self) -> String {
        let what = format!("plumb {} (process {})", self.command, self.pid);
        let (looked, busy) = (duration(self.looked_ns), duration(self.busy_ns));
        let Some(most) = self.primitives.first().filter(|part| part.ns > 0) else {
            return format!("In {looked} {what} did nothing that its meters know of.");
        };
        let mut text = format!(
            "In {looked} {what} worked {busy} ({}), most of it on {}: {} ({})",
            share(self.busy_ns, self.looked_ns),
            most.name,
            duration(most.ns),
            share(most.ns, self.busy_ns)
        );
        if let Some(each) = self.busy_ns.checked_div(self.transactions) {
            text += &format!(
                "; {} transactions took {} and {:.1} wakeups each",
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
        let part = |name: &str, ns| Part { name: name.to_owned(), visits: 10, ns };
        Running {
            pid: 4711,
            command: "serve".to_owned(),
            uptime_ns: 60_000_000_000,
            looked_ns: 2_000_000_000,
            cpu_ns: 25_000_000,
            busy_ns: 20_000_000,
            wakeups: 250,
            transactions: 100,
            primitives: vec![part("system calls", 15_000_000), part("Telnet", 5_000_000)],
        }
    }

    #[test]
    fn a_running_plumb_says_how_busy_it_was_and_with_what() {
        assert_eq!(
            running().sentence(),
            "In 2.00 s plumb serve (process 4711) worked 20.0 ms (1 %), most of it on system calls: \
             15.0 ms (75 %); 100 transactions took 200 µs and 2.5 wakeups each."
        );
    }

    #[test]
    fn one_that_rests_says_so() {
        let idle = Running { busy_ns: 0, primitives: Vec::new(), ..running() };
        assert!(idle.sentence().contains("did nothing"));
    }
}
