//! Clocks: a cycle counter for the meter, its tick rate, the time since the start of a run, and CPU
//! time.
//!
//! The meter uses the counter that is cheapest to read. This is the time stamp counter if the
//! kernel itself trusts it, the generic timer on 64-bit ARM, and otherwise CLOCK_MONOTONIC in
//! nanoseconds. The counter is read without a fence, so a reading may be off by some tens of
//! cycles. One reading ends the time of one account and starts the time of the next, so no time is
//! lost or counted twice.

use net::Instant;
use net::time::Duration;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::sync::OnceLock;
use std::thread;

/// Returns the reading of the machine's cheapest free-running counter, in ticks.
///
/// The function has the type of `net::meter::Clock::Counter`; [`TickRate`] converts ticks to
/// nanoseconds.
#[must_use]
pub fn ticks() -> u64 {
    if has_cycle_counter() { cycles() } else { monotonic_nanos() }
}

/// Returns the function that [`ticks`] calls. A caller that stores the function avoids the
/// selection of the counter at each reading; a meter reads the counter a dozen times per segment.
#[must_use]
pub fn counter() -> fn() -> u64 {
    if has_cycle_counter() { cycles } else { monotonic_nanos }
}

/// Returns the name of the counter that [`ticks`] reads, for the header of a report.
#[must_use]
pub fn source() -> &'static str {
    match (has_cycle_counter(), cfg!(target_arch = "aarch64")) {
        (false, _) => "CLOCK_MONOTONIC",
        (true, true) => "cntvct_el0",
        (true, false) => "rdtsc",
    }
}

#[cfg(target_arch = "x86_64")]
fn has_cycle_counter() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    *TRUSTED.get_or_init(|| {
        let kernel = std::fs::read_to_string(CLOCK_SOURCE).unwrap_or_default();
        match kernel.trim() {
            "tsc" => true,
            // A virtual machine derives its clock from the counter; the CPU flags tell whether it
            // is steady.
            "kvm-clock" | "hyperv_clocksource_tsc_page" => has_steady_counter(),
            _ => false,
        }
    })
}

#[cfg(target_arch = "x86_64")]
fn has_steady_counter() -> bool {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processors.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split(' ').any(|word| word == *flag))
}

#[cfg(target_arch = "x86_64")]
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

#[cfg(target_arch = "x86_64")]
fn cycles() -> u64 {
    // SAFETY: every x86_64 processor has the instruction, and it accesses no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn has_cycle_counter() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
fn cycles() -> u64 {
    let count: u64;
    // SAFETY: reads a register that the kernel opens to user space; accesses no memory.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    count
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_cycle_counter() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cycles() -> u64 {
    monotonic_nanos()
}

/// Rate of the counter that [`ticks`] reads, stored as the duration of one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate {
    /// Nanoseconds per tick, as a fixed-point number with 32 fractional bits.
    nanos_per_tick: u64,
}

impl TickRate {
    /// A tick of one nanosecond, for a clock other than the machine's counter.
    pub const NANOSECOND: Self = Self { nanos_per_tick: 1 << 32 };

    /// Measures the tick duration against CLOCK_MONOTONIC. The measurement takes 10 milliseconds.
    ///
    /// A [`Calibration`] over a whole run takes no extra time and is more exact.
    #[must_use]
    pub fn calibrate() -> Self {
        Calibration::start().finish()
    }

    /// Returns the duration of `ticks` ticks in nanoseconds.
    #[must_use]
    pub fn to_nanos(self, ticks: u64) -> u64 {
        let nanos = (u128::from(ticks) * u128::from(self.nanos_per_tick)) >> 32;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Returns the number of ticks per second.
    #[must_use]
    pub fn ticks_per_second(self) -> u64 {
        let ticks = (1_000_000_000_u128 << 32).checked_div(u128::from(self.nanos_per_tick));
        ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(0)
    }
}

/// First half of a measurement of the tick duration: the initial reading of the counter and of
/// CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    nanos: u64,
    ticks: u64,
}

impl Calibration {
    /// Takes the first reading of both clocks.
    #[must_use]
    pub fn start() -> Self {
        // Read both clocks several times, and use the attempt that took the least time: an
        // interruption delays the others.
        let pairs = (0..8).map(|_| {
            let ticks_before = ticks();
            let nanos = monotonic_nanos();
            let read_time = ticks().saturating_sub(ticks_before);
            (read_time, Self { nanos, ticks: ticks_before + read_time / 2 })
        });
        let best = pairs.min_by_key(|(read_time, _)| *read_time);
        best.map_or(Self { nanos: 0, ticks: 0 }, |(_, pair)| pair)
    }

    /// Takes the second reading of both clocks, at least 10 milliseconds after the start, and
    /// computes the rate.
    #[must_use]
    pub fn finish(self) -> TickRate {
        let elapsed = Duration::from_nanos(monotonic_nanos().saturating_sub(self.nanos));
        thread::sleep(CALIBRATION_TIME.saturating_sub(elapsed));
        let end = Self::start();
        let nanos = u128::from(end.nanos.saturating_sub(self.nanos));
        let ticks = u128::from(end.ticks.saturating_sub(self.ticks)).max(1);
        TickRate { nanos_per_tick: u64::try_from((nanos << 32) / ticks).unwrap_or(u64::MAX) }
    }
}

/// Minimum time between the two readings. Each reading is accurate to some 50 ns, so the tick
/// duration is accurate to 10 parts per million.
const CALIBRATION_TIME: Duration = Duration::from_millis(10);

/// Time since the start of a run, measured with CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    started_nanos: u64,
}

impl Monotonic {
    /// Starts a run now, at time 0.
    #[must_use]
    pub fn start() -> Self {
        Self { started_nanos: monotonic_nanos() }
    }

    /// Returns the time since the start of the run.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(monotonic_nanos().saturating_sub(self.started_nanos))
    }

    /// Converts `at`, a time since the start of the run, to CLOCK_MONOTONIC nanoseconds.
    #[cfg(target_os = "linux")]
    pub(crate) fn nanos_at(&self, at: Instant) -> u64 {
        self.started_nanos.saturating_add(at.as_nanos())
    }
}

/// Returns the CPU time of the calling thread in user and system mode.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(nanos_of(clock_gettime(ClockId::ThreadCPUTime)))
}

/// Returns the CPU time of all threads of the process in user and system mode.
#[must_use]
pub fn process_cpu_time() -> Duration {
    Duration::from_nanos(nanos_of(clock_gettime(ClockId::ProcessCPUTime)))
}

/// Returns the time since boot, including time suspended.
#[must_use]
pub fn boot_time() -> Duration {
    Duration::from_nanos(nanos_of(clock_gettime(ClockId::Boottime)))
}

fn monotonic_nanos() -> u64 {
    nanos_of(clock_gettime(ClockId::Monotonic))
}

fn nanos_of(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::meter::{Account, Clock, Meter};

    #[test]
    fn the_counter_never_runs_backwards() {
        let readings: Vec<u64> = (0..10_000).map(|_| ticks()).collect();
        assert!(readings.is_sorted());
    }

    #[test]
    fn all_meters_share_one_counter() {
        let before = ticks();
        let own = counter()();
        let after = ticks();
        assert!((before..=after).contains(&own));
    }

    #[test]
    fn a_span_in_ticks_lies_between_two_spans_of_the_monotonic_clock() {
        let rate = TickRate::calibrate();
        let clock = Monotonic::start();
        let outer = clock.now();
        let start = ticks();
        let inner = clock.now();
        while clock.now() - inner < Duration::from_millis(2) {}
        let inner = clock.now() - inner;
        let end = ticks();
        let nanos = rate.to_nanos(end - start);
        let outer = clock.now() - outer;
        let lower_bound = inner.mul_f64(0.999);
        let upper_bound = outer.mul_f64(1.001);
        assert!(
            (lower_bound..=upper_bound).contains(&Duration::from_nanos(nanos)),
            "{nanos} ns, {outer:?}"
        );
    }

    #[test]
    fn the_counter_drives_a_meter_whose_accounts_add_up() {
        let mut meter = Meter::new(Clock::Counter(ticks));
        meter.enter(Account::Telnet);
        meter.enter(Account::Terminal);
        meter.settle();
        assert_eq!(meter.accounts().iter().sum::<u64>(), meter.total());
    }

    #[test]
    fn a_tick_of_a_nanosecond_is_one_nanosecond() {
        let rate = TickRate { nanos_per_tick: 1 << 32 };
        assert_eq!((rate.to_nanos(12_345), rate.ticks_per_second()), (12_345, 1_000_000_000));
    }

    #[test]
    fn work_uses_cpu_time_of_the_thread() {
        let before = thread_cpu_time();
        while thread_cpu_time() == before {}
        assert!(process_cpu_time() >= thread_cpu_time().saturating_sub(before));
    }
}
