//! A running plumb, measured by its meters: its activity between two readings.

use super::interrupt::Interrupts;
use crate::meters::{Report, ask_process};
use anyhow::Result;
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags};
use protocols::Instant;
use protocols::time::Duration;
use records::running::{Part, Running};

/// Default observation time.
pub(super) const LOOK: Duration = Duration::from_secs(2);

/// Reads the meters of process `pid` twice, separated by the requested time unless interrupted.
///
/// # Errors
///
/// Returns an error if this machine refuses a resource. The inner error reports that there is no
/// such plumb.
pub(super) fn look(
    pid: u32,
    length: Duration,
    interrupts: &Interrupts,
) -> Result<Result<Running, String>> {
    let clock = Monotonic::start();
    let before = match ask_process(pid) {
        Ok(report) => report,
        Err(error) => return Ok(Err(format!("{error:#}"))),
    };
    let (until, notice) = (clock.now() + length, interrupts.descriptor()?);
    while clock.now() < until && !interrupts.has_come() {
        let mut ends = [PollFd::new(&notice, PollFlags::IN)];
        readiness::wait(&mut ends, &clock, Some(until))?;
    }
    let looked = clock.now() - Instant::ZERO;
    Ok(ask_process(pid)
        .map(|after| between(&before, &after, super::record::nanos(looked)))
        .map_err(|error| format!("{error:#}")))
}

/// Returns the activity between two readings.
fn between(before: &Report, after: &Report, looked_ns: u64) -> Running {
    let (from, to) = (&before.all, &after.all);
    let of = |name: &str| from.primitives.iter().find(|one| one.name == name);
    let mut primitives: Vec<Part> = to
        .primitives
        .iter()
        // Waiting is not part of the work.
        .filter(|one| one.share.is_some())
        .map(|one| Part {
            name: one.name.clone(),
            visits: one.visits.saturating_sub(of(&one.name).map_or(0, |before| before.visits)),
            ns: one.ns.saturating_sub(of(&one.name).map_or(0, |before| before.ns)),
        })
        .filter(|part| part.visits > 0 || part.ns > 0)
        .collect();
    primitives.sort_by_key(|part| std::cmp::Reverse(part.ns));
    Running {
        pid: after.pid,
        command: after.command.clone(),
        uptime_ns: after.uptime_ns,
        // The clock of the running process determines the time between the readings.
        looked_ns: match after.uptime_ns.saturating_sub(before.uptime_ns) {
            0 => looked_ns,
            uptime_ns => uptime_ns,
        },
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        busy_ns: to.busy_ns.saturating_sub(from.busy_ns),
        wakeups: to.wakeups.saturating_sub(from.wakeups),
        transactions: to.transactions.saturating_sub(from.transactions),
        primitives,
    }
}
