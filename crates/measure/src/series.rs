//! Consecutive tries at a target: the first that succeeds performs the measurement, the others only
//! determine whether the target is usable.

use super::interrupt::Interrupts;
use super::login_runs::{Logins, login_total_ns};
use super::measure_options::MeasureOptions;
use super::nanoseconds::nanos;
use super::observed;
use super::outcome::{FailureKind, TryFailure, TryResults, Usable};
use super::record::empty_record;
use super::recorded;
use super::running;
use super::target::{LoginTarget, MeasureTarget};
use super::transfers::Files;
use anyhow::Result;
use net::Instant;
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags};
use records::Measurement;
use records::assessment::{self, Assessment, Grade};
use records::calendar::Moment;
use records::measurement::HostInfo;
use records::measures::{Attempt, AttemptOutcome, Measures};
use records::verdict::Operation;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Schedule of the tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Number of tries.
    pub count: u64,
    /// Interval between the starts of two tries.
    pub interval: Duration,
    /// Time after which no further try starts, which includes the first measurement.
    pub length: Option<Duration>,
}

/// Target and options of a series.
pub struct Series<'a> {
    /// Target and options of each try.
    pub options: &'a MeasureOptions,
    /// Interruption of the series.
    pub interrupts: &'a Interrupts,
    /// Receives each try when it ends, with the tries before it.
    pub on_try: &'a dyn Fn(&[Attempt]),
}

/// Result of a series.
pub struct SeriesResult {
    /// Results of the measurement, if any try succeeded.
    pub measured: Option<TryResults>,
    /// Record with the tries and the six measures.
    pub record: Measurement,
    /// Reason for the failure of the last try, if none succeeded.
    pub last_failure: Option<TryFailure>,
}

impl Schedule {
    /// Returns the start of try `number`: the next multiple of the interval that is not before
    /// `now`. Multiples during a long first measurement are skipped, so that the tries after it are
    /// not made without a pause.
    fn start_after(&self, number: u64, now: Instant) -> Instant {
        let interval_ns = self.interval.as_nanos().max(1);
        let elapsed_ns = (now - Instant::ZERO).as_nanos();
        let next = u64::try_from(elapsed_ns.div_ceil(interval_ns)).unwrap_or(u64::MAX);
        let first = if number == 0 { 0 } else { next.max(number) };
        Instant::ZERO + saturating_multiple(self.interval, first)
    }

    /// Returns the number of multiples of the interval between the starts of two consecutive tries.
    fn missed_between(&self, start: Instant, next: Instant) -> u64 {
        let intervals = (next - start).as_nanos() / self.interval.as_nanos().max(1);
        u64::try_from(intervals.saturating_sub(1)).unwrap_or(u64::MAX)
    }
}

impl Series<'_> {
    /// Makes all tries, or the tries before an interrupt.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses a resource for the first try.
    pub fn run(&self, schedule: Schedule) -> Result<SeriesResult> {
        let clock = Monotonic::start();
        let started_at = SystemTime::now();
        let mut tries = Vec::new();
        let mut missed = 0;
        let mut last_due = None;
        let mut measured = None;
        let mut last_failure = None;
        for number in 0..schedule.count {
            let due = schedule.start_after(number, clock.now());
            let is_over = schedule.length.is_some_and(|length| due >= Instant::ZERO + length);
            if (is_over && number > 0) || !self.wait_until(due, &clock)? {
                break;
            }
            missed += last_due.map_or(0, |last| schedule.missed_between(last, due));
            last_due = Some(due);
            let at_ns = nanos(clock.now() - Instant::ZERO);
            let outcome = match &measured {
                None => self.measure()?.map(|results| {
                    let attempt = first_attempt(at_ns, &results, self.interrupts);
                    measured = Some(results);
                    attempt
                }),
                Some(first) => self.probe_availability()?.map(|usable| Attempt {
                    response_ns: Some(usable.response_ns),
                    login_total_ns: usable.login_total_ns,
                    echo_p50_ns: usable.echo_p50_ns,
                    retransmissions: usable.retransmissions,
                    grade: grade_of_probe(&usable, &assessment(first)),
                    parts: usable.parts,
                    ..Attempt::new(at_ns, AttemptOutcome::Ok)
                }),
            };
            if self.interrupts.is_interrupted() && outcome.is_err() && number > 0 {
                // An interrupted try is not counted: it gives no information about the target.
                break;
            }
            tries.push(match &outcome {
                Ok(attempt) => attempt.clone(),
                Err(failure) => Attempt {
                    error: Some(failure.reason.clone()),
                    grade: Some(Grade::Failed),
                    ..Attempt::new(at_ns, failure.outcome)
                },
            });
            (self.on_try)(&tries);
            last_failure = outcome.err().or(last_failure);
            let is_refused = measured.as_ref().is_some_and(|results| results.is_refused);
            let is_invalid = |last: &TryFailure| last.kind == FailureKind::Request;
            if is_refused || last_failure.as_ref().is_some_and(is_invalid) {
                // An invalid request would fail at every further try, and a host may lock the
                // account after several refused logins.
                break;
            }
        }
        if let Some(results) = &mut measured {
            let fewer =
                schedule.length.and_then(|length| fewer_tries(&tries, schedule.count, length));
            let notes = fewer.into_iter().chain(missed_tries(missed, schedule.interval));
            results.notes.splice(0..0, notes);
        }
        let every_ns = (schedule.count > 1).then_some(nanos(schedule.interval));
        let mut result = self.result(measured, tries, last_failure, every_ns, started_at);
        if let Some(measures) = &mut result.record.measures {
            measures.tries_missed = missed;
        }
        Ok(result)
    }

    fn result(
        &self,
        mut measured: Option<TryResults>,
        tries: Vec<Attempt>,
        last_failure: Option<TryFailure>,
        every_ns: Option<u64>,
        started_at: SystemTime,
    ) -> SeriesResult {
        let mut record = match &mut measured {
            Some(results) => results.record.clone(),
            None => {
                let target = self.options.target.to_string();
                let via = self.options.via.to_string();
                let mut record = empty_record(target, via, started_at);
                record.verdict = format!(
                    "The target was usable in none of {} tries, so the limiting factor is unknown.",
                    tries.len()
                );
                record
            }
        };
        // Recordings and running plumbs have no tries.
        if record.recording.is_none() && record.running.is_none() {
            record.tries = tries;
            let accuracy = measured.as_ref().and_then(|results| results.accuracy);
            record.measures = Some(Measures::of(&record, every_ns, accuracy));
            let failed_tries = unavailable(&record.tries);
            let is_series = record.tries.len() > 1;
            if let Some(clause) = failed_tries.as_ref().filter(|_| measured.is_some() && is_series)
            {
                record.verdict = format!("{clause}. {}", record.verdict);
            }
            record.failure = measured.as_ref().and_then(failure).or(failed_tries);
            if every_ns.is_none() && self.interrupts.is_interrupted() {
                let rest = record.verdict;
                record.verdict = format!("The measurement was interrupted before its end. {rest}");
            }
        }
        record.is_interrupted = self.interrupts.is_interrupted();
        record.assessment = Some(Assessment::of(&record));
        let last_failure = last_failure.filter(|_| measured.is_none());
        SeriesResult { last_failure, measured, record }
    }

    /// Waits until the try is due; returns `false` after an interrupt.
    fn wait_until(&self, due: Instant, clock: &Monotonic) -> Result<bool> {
        let interrupt = self.interrupts.descriptor()?;
        while clock.now() < due && !self.interrupts.is_interrupted() {
            let mut descriptors = [PollFd::new(&interrupt, PollFlags::IN)];
            readiness::wait(&mut descriptors, clock, Some(due))?;
        }
        Ok(!self.interrupts.is_interrupted())
    }

    fn measure(&self) -> Result<Result<TryResults, TryFailure>> {
        match &self.options.target {
            MeasureTarget::Recording(path) => measure_recording(path),
            MeasureTarget::Running(pid) => self.measure_running(*pid),
            MeasureTarget::Files(url) => Files { url, options: self.options }.measure(),
            MeasureTarget::Login(target) => self.logins(target).measure(),
        }
    }

    /// Measures a running plumb.
    fn measure_running(&self, pid: u32) -> Result<Result<TryResults, TryFailure>> {
        let length = self.options.observation_time.unwrap_or(running::OBSERVATION_TIME);
        let started_at = SystemTime::now();
        let activity = match running::observe(pid, length, self.interrupts)? {
            Ok(found) => found,
            Err(reason) => {
                return Ok(Err(TryFailure::new(
                    AttemptOutcome::NotUsable,
                    FailureKind::NothingMeasured,
                    &reason,
                )));
            }
        };
        let mut record = empty_record(format!("pid:{pid}"), "meters".to_owned(), started_at);
        record.verdict = activity.sentence();
        record.running = Some(activity);
        Ok(Ok(TryResults {
            record,
            notes: Vec::new(),
            keystroke: None,
            accuracy: None,
            response_ns: None,
            has_measured: true,
            is_refused: false,
            is_incomplete: false,
        }))
    }

    fn probe_availability(&self) -> Result<Result<Usable, TryFailure>> {
        match &self.options.target {
            MeasureTarget::Files(url) => Files { url, options: self.options }.probe_availability(),
            MeasureTarget::Login(target) => self.logins(target).probe_availability(),
            // Neither has more than one try.
            MeasureTarget::Recording(_) | MeasureTarget::Running(_) => {
                Ok(Err(TryFailure::interrupted()))
            }
        }
    }

    fn logins<'b>(&'b self, target: &'b LoginTarget) -> Logins<'b> {
        Logins { target, options: self.options, interrupts: self.interrupts }
    }
}

/// Returns the try of a measurement: successful unless nothing was measured.
fn first_attempt(at_ns: u64, results: &TryResults, interrupts: &Interrupts) -> Attempt {
    let record = &results.record;
    let error = failure(results).filter(|_| !results.has_measured);
    let outcome = match &error {
        Some(_) if interrupts.is_interrupted() => AttemptOutcome::ThisMachine,
        Some(_) => AttemptOutcome::NotUsable,
        None => AttemptOutcome::Ok,
    };
    Attempt {
        error,
        response_ns: results.response_ns,
        login_total_ns: login_total_ns(record),
        echo_p50_ns: record.echo.as_ref().map(|echo| echo.p50_ns),
        retransmissions: record.tcp.as_ref().and_then(|tcp| tcp.retransmissions),
        grade: Some(assessment(results).grade),
        parts: assessment::echo_parts(record),
        ..Attempt::new(at_ns, outcome)
    }
}

/// Assesses a measurement that may be incomplete.
fn assessment(results: &TryResults) -> Assessment {
    let record = Measurement { failure: failure(results), ..results.record.clone() };
    Assessment::of(&record)
}

/// Returns the grade of a try after the first measurement; unknown if that found a slow operation
/// that the try did not measure.
fn grade_of_probe(usable: &Usable, first: &Assessment) -> Option<Grade> {
    let is_measured = first.delay.as_ref().is_some_and(|one| one.operation == Operation::Echo);
    match (usable.grade, first.grade) {
        (Grade::Ok, Grade::Slow) if !is_measured => None,
        (grade, _) => Some(grade),
    }
}

/// Returns a note if the time of `--for` ended before `count` tries were made.
fn fewer_tries(tries: &[Attempt], count: u64, length: Duration) -> Option<String> {
    let made = u64::try_from(tries.len()).unwrap_or(u64::MAX);
    let noun = if made == 1 { "try was" } else { "tries were" };
    (made < count).then(|| {
        format!(
            "{made} {noun} made in the {} of --for, which include the first measurement",
            records::format::duration(nanos(length))
        )
    })
}

/// Returns a note if tries were not made because those before them took longer than the interval.
fn missed_tries(missed: u64, interval: Duration) -> Option<String> {
    let (noun, them) = if missed == 1 { ("try was", "it") } else { ("tries were", "them") };
    (missed > 0).then(|| {
        format!(
            "{missed} {noun} not made, because the one before {them} took longer than the {} of \
             --every",
            records::format::duration(nanos(interval))
        )
    })
}

/// Returns the reason why a measurement is incomplete or has no result.
pub(super) fn failure(results: &TryResults) -> Option<String> {
    let is_failed = results.is_incomplete || !results.has_measured;
    let reason = results.notes.last().cloned();
    is_failed.then(|| reason.unwrap_or_else(|| "the measurement is incomplete".to_owned()))
}

/// Returns a clause about the failed tries, if any.
fn unavailable(tries: &[Attempt]) -> Option<String> {
    let failed_tries = tries.iter().filter(|attempt| attempt.outcome != AttemptOutcome::Ok);
    let count = failed_tries.clone().count();
    let last = failed_tries
        .filter_map(|attempt| attempt.error.as_deref())
        .next_back()
        .unwrap_or("unknown");
    let last = last.trim_end_matches('.');
    (count > 0).then(|| format!("{count} of {} tries failed; the last error: {last}", tries.len()))
}

fn saturating_multiple(interval: Duration, times: u64) -> Duration {
    interval.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX))
}

/// Measures a recorded session.
fn measure_recording(path: &Path) -> Result<Result<TryResults, TryFailure>> {
    let found = match recorded::read(path)? {
        Ok(found) => found,
        Err(reason) => {
            return Ok(Err(TryFailure::new(
                AttemptOutcome::NotUsable,
                FailureKind::RemoteHost,
                &reason,
            )));
        }
    };
    let started_at = found.timestamp.and_then(|s| UNIX_EPOCH.checked_add(Duration::from_secs(s)));
    let started_at = started_at.unwrap_or(UNIX_EPOCH);
    let name = path.display().to_string();
    let mut record = empty_record(name, "recording".to_owned(), started_at);
    record.started_at = Moment::from(started_at).rfc_3339();
    // The recording may come from another machine, so this machine is not described.
    record.host = HostInfo::default();
    record.echo = found.echo;
    record.screenful = found.screenful;
    record.recording = Some(found.recording);
    record.verdict = records::verdict::verdict(&record);
    let observed = observed::of_recording(&record);
    observed::conclude(&mut record, &observed);
    let has_measured = record.echo.is_some() || record.screenful.is_some();
    let title = found
        .title
        .map(|title| format!("the recording is titled '{}'", records::escape::terminal(title)));
    Ok(Ok(TryResults {
        record,
        notes: title.into_iter().chain(found.notes).collect(),
        keystroke: None,
        accuracy: None,
        response_ns: None,
        has_measured,
        is_refused: false,
        is_incomplete: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::assessment::Delay;

    #[test]
    fn tries_that_were_due_during_the_first_measurement_are_skipped() {
        let second = Duration::from_secs(1);
        let schedule = Schedule { count: 5, interval: second, length: None };
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let starts = [(0, 0), (1, 2_500), (2, 3_010), (2, 4_000), (3, 100)];
        let starts = starts.map(|(number, now)| schedule.start_after(number, at(now)));
        assert_eq!(starts, [0, 3_000, 4_000, 4_000, 3_000].map(at));
    }

    #[test]
    fn a_probe_has_no_grade_if_it_did_not_measure_the_slow_operation() {
        let first = |grade, operation| Assessment {
            grade,
            delay: Some(Delay { operation, total_ns: 1, parts: Vec::new() }),
            remedy: None,
            slow_echo: None,
        };
        let usable = |grade| Usable { grade, ..Usable::without_echo(1) };
        let grade =
            |own, of_first, operation| grade_of_probe(&usable(own), &first(of_first, operation));
        let ok = Grade::Ok;
        let slow = Grade::Slow;
        assert_eq!(grade(ok, ok, Operation::Echo), Some(ok));
        assert_eq!(grade(ok, slow, Operation::Answer), None);
        assert_eq!(grade(ok, slow, Operation::Echo), Some(ok));
        assert_eq!(grade(slow, slow, Operation::Answer), Some(slow));
    }

    #[test]
    fn tries_that_were_not_made_are_counted_and_have_a_note() {
        let second = Duration::from_secs(1);
        let schedule = Schedule { count: 5, interval: second, length: None };
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let missed = [(0, 1), (0, 3), (3, 4), (4, 10)];
        let missed = missed.map(|(last, due)| schedule.missed_between(at(last), at(due)));
        assert_eq!(missed, [0, 2, 0, 5]);
        let expected = "7 tries were not made, because the one before them took longer than the 1.00 s of \
             --every";
        assert_eq!(missed_tries(7, second).as_deref(), Some(expected));
        assert_eq!(missed_tries(0, second), None);
    }

    #[test]
    fn a_series_that_for_ends_early_has_a_note() {
        let tries = [Attempt::new(0, AttemptOutcome::Ok)];
        let note = fewer_tries(&tries, 3, Duration::from_secs(2));
        let expected = "1 try was made in the 2.00 s of --for, which include the first measurement";
        assert_eq!(note.as_deref(), Some(expected));
        assert_eq!(fewer_tries(&tries, 1, Duration::from_secs(2)), None);
    }
}
