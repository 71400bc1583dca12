//! What is told of the meters of a running plumb: one JSON document. Times are in nanoseconds, and
//! what is not known is null.

use os::clock::TickRate;
use protocols::meter::{Account, Counter, Distribution, Quantity, Snapshot, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that a plumb tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) format: u32,
    pub(crate) version: String,
    pub(crate) pid: u32,
    /// What it was told to do.
    pub(crate) command: String,
    /// For how long it has run.
    pub(crate) uptime_ns: u64,
    /// CPU time of all its threads, metered or not.
    pub(crate) cpu_ns: u64,
    /// What the readings before this one cost; unknown of a plumb that does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) readings: Option<Readings>,
    /// All meters together.
    pub(crate) all: Figures,
    pub(crate) groups: Vec<Group>,
}

impl Report {
    /// The number of this format; it grows when a field is no longer what it was.
    pub(crate) const FORMAT: u32 = 1;
}

/// Earlier readings of the meters of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readings {
    pub(crate) count: u64,
    /// CPU time of the thread that answers them, which does nothing else.
    pub(crate) cpu_ns: u64,
}

/// The meters of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// How many run.
    pub(crate) live: u64,
    /// How many have ended; their figures are in the sum.
    pub(crate) ended: u64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// The figures of some meters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Time that is charged, with the waiting.
    pub(crate) total_ns: u64,
    /// Without it.
    pub(crate) busy_ns: u64,
    /// In the order of the stairs; those that were never visited are left out.
    pub(crate) primitives: Vec<Primitive>,
    /// Returns from a wait.
    pub(crate) wakeups: u64,
    /// Keys and commands that were done.
    pub(crate) transactions: u64,
    /// The last whole hundred of them.
    pub(crate) last_hundred: Option<Hundred>,
    /// Work in its units, and what was counted; zeros are left out.
    pub(crate) work: BTreeMap<String, u64>,
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) quantities: Vec<Spread>,
}

/// One account of the meter: a layer, the system calls, or the wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Primitive {
    pub(crate) name: String,
    /// Visits that are over. One ends where another account is entered.
    pub(crate) visits: u64,
    /// All time that is charged, with the visit that goes on.
    pub(crate) ns: u64,
    pub(crate) mean_ns: Option<u64>,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) max_ns: Option<u64>,
    /// Its part of the clock time that is not waited, from 0 to 1; null for the wait. Not of the CPU
    /// time: what other programs took of the processor meanwhile is in it.
    pub(crate) share: Option<f64>,
}

/// Some transactions together: the cumulative ready message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hundred {
    pub(crate) transactions: u64,
    pub(crate) wakeups: u64,
    pub(crate) busy_ns: u64,
    pub(crate) total_ns: u64,
}

/// A quantity that is kept as a distribution, in its own unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) name: String,
    pub(crate) count: u64,
    pub(crate) mean: Option<u64>,
    pub(crate) p50: Option<u64>,
    pub(crate) p99: Option<u64>,
    pub(crate) max: Option<u64>,
}

impl Figures {
    /// Turns ticks into nanoseconds, and leaves out what never was.
    pub(super) fn of(snapshot: &Snapshot, rate: TickRate) -> Self {
        let busy = snapshot.busy();
        let primitives = Account::ALL.iter().map(|account| primitive(snapshot, *account, rate));
        let named = |names: Vec<(&str, u64)>| -> BTreeMap<String, u64> {
            let some = names.into_iter().filter(|(_, count)| *count > 0);
            some.map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let counters = Counter::ALL.iter().map(|one| (one.text(), snapshot.counted(*one)));
        let work = Work::ALL.iter().map(|one| (one.text(), snapshot.units(*one)));
        let quantities = Quantity::ALL.iter().map(|one| (one.text(), snapshot.quantity(*one)));
        Self {
            total_ns: rate.to_nanos(snapshot.total),
            busy_ns: rate.to_nanos(busy),
            primitives: primitives.filter(|one| one.visits > 0 || one.ns > 0).collect(),
            wakeups: snapshot.counted(Counter::Wakeups),
            transactions: snapshot.counted(Counter::Transactions),
            last_hundred: snapshot.last_hundred.map(|hundred| Hundred {
                transactions: hundred.transactions,
                wakeups: hundred.wakeups,
                busy_ns: rate.to_nanos(hundred.busy),
                total_ns: rate.to_nanos(hundred.total),
            }),
            work: named(work.collect()),
            counters: named(counters.collect()),
            quantities: quantities
                .filter(|(_, values)| values.count() > 0)
                .map(|(name, values)| spread(name, values))
                .collect(),
        }
    }
}

fn primitive(snapshot: &Snapshot, account: Account, rate: TickRate) -> Primitive {
    let (visits, busy) = (snapshot.visits(account), snapshot.busy());
    let nanos = |ticks: Option<u64>| ticks.map(|ticks| rate.to_nanos(ticks));
    let charged = snapshot.charged(account);
    let is_work = account != Account::Outside && busy > 0;
    Primitive {
        name: name(account).to_owned(),
        visits: visits.count(),
        ns: rate.to_nanos(charged),
        mean_ns: nanos(visits.mean()),
        p50_ns: nanos(visits.percentile(50)),
        p99_ns: nanos(visits.percentile(99)),
        max_ns: nanos(visits.max()),
        share: is_work.then(|| charged as f64 / busy as f64),
    }
}

/// Returns the name of an account in a program of today, which has no interrupts of its own.
fn name(account: Account) -> &'static str {
    match account {
        Account::Outside => "wait",
        Account::Interrupt => "system calls",
        account => account.text(),
    }
}

fn spread(name: &str, values: &Distribution) -> Spread {
    Spread {
        name: name.to_owned(),
        count: values.count(),
        mean: values.mean(),
        p50: values.percentile(50),
        p99: values.percentile(99),
        max: values.max(),
    }
}
