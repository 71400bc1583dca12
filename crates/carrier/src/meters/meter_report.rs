//! Report of the meters of a running plumb: one JSON document. Times are in nanoseconds; unknown
//! values are null.

use net::meter::{Account, Counter, Distribution, Quantity, Snapshot, Work};
use os::clock::TickRate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Report of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterReport {
    /// Version of the format, [`MeterReport::FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Process ID.
    pub pid: u32,
    /// Command that the process runs.
    pub command: String,
    /// Time since the start of the process.
    pub uptime_ns: u64,
    /// CPU time of all its threads, metered or not.
    pub cpu_ns: u64,
    /// Earlier readings and their cost; `None` if the running plumb is an older version that does
    /// not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readings: Option<Readings>,
    /// Sums over all meters.
    pub all: Figures,
    /// The meters by name.
    pub groups: Vec<Group>,
}

impl MeterReport {
    /// Version of this format; it increases when the meaning of a field changes.
    pub const FORMAT: u32 = 1;
}

/// Earlier readings of the meters of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readings {
    /// Number of readings.
    pub count: u64,
    /// CPU time of the thread that serves the readings. This thread has no other work.
    pub cpu_ns: u64,
}

/// Meters with a common name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Common name of the meters.
    pub name: String,
    /// Number of live meters.
    pub live: u64,
    /// Number of ended meters; their figures are included in the sum.
    pub ended: u64,
    /// Sums over these meters.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of a set of meters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Charged time, including waiting.
    pub total_ns: u64,
    /// Charged time without waiting.
    pub busy_ns: u64,
    /// Accounts in layer order; accounts that were never entered are omitted.
    pub primitives: Vec<Primitive>,
    /// Number of returns from a wait.
    pub wakeups: u64,
    /// Number of completed keys, lines and commands.
    pub transactions: u64,
    /// The last complete hundred transactions.
    pub last_hundred: Option<RecentWindow>,
    /// Amounts of work, each in its own unit, by name; zeros are omitted.
    pub work: BTreeMap<String, u64>,
    /// Event counters by name; zeros are omitted.
    pub counters: BTreeMap<String, u64>,
    /// Distributions of quantities that were recorded.
    pub quantities: Vec<Spread>,
}

/// One account of the meter: a layer, the system calls, or waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Primitive {
    /// Name of the account.
    pub name: String,
    /// Number of completed visits. A visit ends when another account is entered.
    pub visits: u64,
    /// Total charged time, including the current visit.
    pub ns: u64,
    /// Mean time of a visit.
    pub mean_ns: Option<u64>,
    /// Median time of a visit.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the time of a visit.
    pub p99_ns: Option<u64>,
    /// Maximum time of a visit.
    pub max_ns: Option<u64>,
    /// Share of the clock time without waiting, from 0 to 1; null for the account of waiting. The
    /// clock time includes the time in which other programs used the CPU, so this is not a share of
    /// the CPU time.
    pub share: Option<f64>,
}

/// Totals of consecutive transactions, as in the ready message of Multics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecentWindow {
    /// Number of transactions.
    pub transactions: u64,
    /// Number of returns from a wait.
    pub wakeups: u64,
    /// Charged time without waiting.
    pub busy_ns: u64,
    /// Charged time, including waiting.
    pub total_ns: u64,
}

/// Distribution of a quantity, in the unit of the quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Name of the quantity.
    pub name: String,
    /// Number of recorded values.
    pub count: u64,
    /// Mean.
    pub mean: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Maximum.
    pub max: Option<u64>,
}

impl Figures {
    /// Converts ticks to nanoseconds and omits values that never occurred.
    pub(super) fn of(snapshot: &Snapshot, rate: TickRate) -> Self {
        let busy = snapshot.busy();
        let primitives = Account::ALL.iter().map(|account| primitive(snapshot, *account, rate));
        let to_named_counts = |names: Vec<(&str, u64)>| -> BTreeMap<String, u64> {
            let nonzero = names.into_iter().filter(|(_, count)| *count > 0);
            nonzero.map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let counters = Counter::ALL.iter().map(|each| (each.text(), snapshot.counted(*each)));
        let work = Work::ALL.iter().map(|each| (each.text(), snapshot.units(*each)));
        let quantities = Quantity::ALL.iter().map(|each| (each.text(), snapshot.quantity(*each)));
        Self {
            total_ns: rate.to_nanos(snapshot.total),
            busy_ns: rate.to_nanos(busy),
            primitives: primitives
                .filter(|primitive| primitive.visits > 0 || primitive.ns > 0)
                .collect(),
            wakeups: snapshot.counted(Counter::Wakeups),
            transactions: snapshot.counted(Counter::Transactions),
            last_hundred: snapshot.recent_window.map(|hundred| RecentWindow {
                transactions: hundred.transactions,
                wakeups: hundred.wakeups,
                busy_ns: rate.to_nanos(hundred.busy),
                total_ns: rate.to_nanos(hundred.total),
            }),
            work: to_named_counts(work.collect()),
            counters: to_named_counts(counters.collect()),
            quantities: quantities
                .filter(|(_, values)| values.count() > 0)
                .map(|(name, values)| spread(name, values))
                .collect(),
        }
    }
}

fn primitive(snapshot: &Snapshot, account: Account, rate: TickRate) -> Primitive {
    let visits = snapshot.visits(account);
    let busy = snapshot.busy();
    let nanos = |ticks: Option<u64>| ticks.map(|ticks| rate.to_nanos(ticks));
    let charged = snapshot.charged(account);
    let has_share = account != Account::Outside && busy > 0;
    Primitive {
        name: account_name(account).to_owned(),
        visits: visits.count(),
        ns: rate.to_nanos(charged),
        mean_ns: nanos(visits.mean()),
        p50_ns: nanos(visits.percentile(50)),
        p99_ns: nanos(visits.percentile(99)),
        max_ns: nanos(visits.max()),
        share: has_share.then(|| charged as f64 / busy as f64),
    }
}

/// Returns the display name of an account. The interrupt account is displayed as system calls,
/// because a program in user space has no interrupts.
fn account_name(account: Account) -> &'static str {
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
