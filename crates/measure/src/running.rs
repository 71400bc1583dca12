//! A running plumb, measured by its meters: its activity between two readings.

use super::interrupt::Interrupts;
use anyhow::Result;
use carrier::meters::{MeterReport, request_process_report};
use net::Instant;
use net::time::Duration;
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags};
use records::running::{PrimitiveTime, Running};

/// Default observation time.
pub(super) const OBSERVATION_TIME: Duration = Duration::from_secs(2);

/// Reads the meters of process `pid` twice, at the beginning and at the end of the requested time;
/// an interrupt ends the wait early.
///
/// # Errors
///
/// Returns an error if the operating system refuses a resource. The inner error is the reason why
/// the meters of the process could not be read.
pub(super) fn observe(
    pid: u32,
    length: Duration,
    interrupts: &Interrupts,
) -> Result<Result<Running, String>> {
    let clock = Monotonic::start();
    let before = match request_process_report(pid) {
        Ok(report) => report,
        Err(error) => return Ok(Err(format!("{error:#}"))),
    };
    let until = clock.now() + length;
    let interrupt = interrupts.descriptor()?;
    while clock.now() < until && !interrupts.is_interrupted() {
        let mut descriptors = [PollFd::new(&interrupt, PollFlags::IN)];
        readiness::wait(&mut descriptors, &clock, Some(until))?;
    }
    let elapsed = clock.now() - Instant::ZERO;
    Ok(request_process_report(pid)
        .map(|after| activity_between(&before, &after, super::nanoseconds::nanos(elapsed)))
        .map_err(|error| format!("{error:#}")))
}

/// Returns the activity between two readings.
fn activity_between(before: &MeterReport, after: &MeterReport, elapsed_ns: u64) -> Running {
    let from = &before.all;
    let to = &after.all;
    let earlier = |name: &str| from.primitives.iter().find(|primitive| primitive.name == name);
    let mut primitives: Vec<PrimitiveTime> = to
        .primitives
        .iter()
        // A primitive without a share is waiting, which is not work.
        .filter(|primitive| primitive.share.is_some())
        .map(|primitive| {
            let before = earlier(&primitive.name);
            PrimitiveTime {
                name: primitive.name.clone(),
                visits: primitive.visits.saturating_sub(before.map_or(0, |before| before.visits)),
                ns: primitive.ns.saturating_sub(before.map_or(0, |before| before.ns)),
            }
        })
        .filter(|part| part.visits > 0 || part.ns > 0)
        .collect();
    primitives.sort_by_key(|part| std::cmp::Reverse(part.ns));
    Running {
        pid: after.pid,
        command: after.command.clone(),
        uptime_ns: after.uptime_ns,
        // The time between the readings is taken from the clock of the observed process.
        window_ns: match after.uptime_ns.saturating_sub(before.uptime_ns) {
            0 => elapsed_ns,
            uptime_ns => uptime_ns,
        },
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        busy_ns: to.busy_ns.saturating_sub(from.busy_ns),
        wakeups: to.wakeups.saturating_sub(from.wakeups),
        transactions: to.transactions.saturating_sub(from.transactions),
        primitives,
    }
}
