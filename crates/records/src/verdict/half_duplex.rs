//! A path that carries one direction at a time.
//!
//! Between two packets of different directions such a medium pauses for its turnaround time. A key
//! typed after a pause waits for one turnaround, for its echo. A key that follows an echo waits for
//! two: the acknowledgment of that echo, or the key itself, turns the medium once more. The echo of
//! a key in a sequence therefore takes longer than a complete short answer of an idle shell. No
//! other cause has this effect: a slow host, a queue and a long path delay echo and answer equally.
//! The short answers are the control measurement.
//!
//! If the turnaround is longer than half the round trip, an echo after a pause takes one turnaround
//! and half a round trip, and an echo in a sequence takes two turnarounds. From these two times,
//! the round trip of the path without its turnarounds is computed.
//!
//! Two cases are detected by keys typed at a steady pace, with weaker evidence (see the `echo`
//! module): a medium that needs a turnaround even for a packet after a pause, and a session without
//! answers, for example at a login prompt.

use super::cause::{Cause, CauseKind, Operation};
use super::observation::Observation;
use super::round_trip::round_trip_ns;
use crate::format::duration;
use crate::statistics;

/// Minimum number of answers for the comparison.
const MIN_ANSWERS: usize = 4;
/// Minimum difference between an echo in a sequence and an answer after a pause, ns.
const MIN_TURNAROUND_NS: u64 = 10_000_000;
/// The difference must also be at least the time of the answer divided by this number.
const MIN_TURNAROUND_DIVISOR: u64 = 5;
/// Maximum difference between the quartiles of the echoes: the lower quartile divided by this
/// number. An occasionally busy processor causes a larger difference.
const MAX_SPREAD_DIVISOR: u64 = 4;

/// Returns the cost of the turnarounds of a half-duplex path for an echo.
pub(super) fn turnaround_cause(observed: &Observation, echoes_ns: &[u64]) -> Option<Cause> {
    let answers_ns = &observed.answers.as_ref()?.quick_ack_ns;
    if answers_ns.len() < MIN_ANSWERS {
        return None;
    }
    let answer_ns = statistics::median(answers_ns)?;
    let quartile = |percent| statistics::percentile(echoes_ns, percent);
    let low_ns = quartile(25)?;
    let echo_ns = quartile(50)?;
    let high_ns = quartile(75)?;
    let is_even = high_ns <= low_ns.saturating_add(low_ns / MAX_SPREAD_DIVISOR);
    let turnaround_ns = MIN_TURNAROUND_NS.max(answer_ns / MIN_TURNAROUND_DIVISOR);
    if !is_even || low_ns < answer_ns.saturating_add(turnaround_ns) {
        return None;
    }
    // TCP's minimum round-trip time also belongs to a packet after a pause, and does not include
    // the shell.
    let shortest_ns = round_trip_ns(observed)?.min(answer_ns);
    let turnarounds_ns = turnarounds_ns(echo_ns, shortest_ns);
    let without_ns = shortest_ns.saturating_mul(2).saturating_sub(turnarounds_ns);
    let gain_ns = echo_ns.saturating_sub(without_ns);
    Some(Cause {
        kind: CauseKind::HalfDuplex,
        operation: Operation::Echo,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: echo_ns,
        subject: "A half-duplex path".to_owned(),
        advice: format!(
            "the echo of a key that follows another takes {}, but a complete short answer only {}, \
             so each change of direction adds a delay. Check for a half-duplex link, radio link or \
             modem, or edit lines locally",
            duration(echo_ns),
            duration(answer_ns)
        ),
    })
}

/// Returns the time of two turnarounds, derived from the time of an echo in a sequence. If this
/// time is more than twice the shortest round trip, the echo waited for four turnarounds.
const fn turnarounds_ns(echo_ns: u64, shortest_ns: u64) -> u64 {
    if echo_ns > shortest_ns.saturating_mul(2) { echo_ns / 2 } else { echo_ns }
}

#[cfg(test)]
mod tests {
    use super::super::{Answers, Echoes, Path, causes};
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns a session whose echoes take `echo_ms` in a sequence, whose answers after a pause
    /// take `answer_ms`, and whose shortest round trip is `trip_ms`.
    fn session(echo_ms: u64, answer_ms: u64, trip_ms: u64) -> Observation {
        Observation {
            echo: Some(Echoes { samples_ns: vec![echo_ms * MS; 40], ..Echoes::default() }),
            answers: Some(Answers {
                quick_ack_ns: vec![answer_ms * MS; 5],
                delayed_ack_ns: vec![answer_ms * MS; 5],
            }),
            path: Path { min_rtt_ns: Some(trip_ms * MS), ..Path::default() },
            ..Observation::default()
        }
    }

    fn gain_ms(observed: &Observation) -> Option<u64> {
        let echoes = &observed.echo.as_ref()?.samples_ns;
        turnaround_cause(observed, echoes).map(|cause| cause.gain_ns / MS)
    }

    #[test]
    fn a_key_after_another_key_that_takes_longer_than_an_answer_shows_turnarounds() {
        // 60 ms of turnaround and a round trip of 20 ms.
        let observed = session(120, 72, 70);
        assert_eq!(gain_ms(&observed), Some(100));
        let kinds: Vec<CauseKind> = causes(&observed).iter().map(|cause| cause.kind).collect();
        assert_eq!(
            kinds,
            [CauseKind::HalfDuplex],
            "neither the remote host nor the path is accused"
        );
    }

    #[test]
    fn an_echo_with_four_turnarounds_is_distinguished_from_two() {
        assert_eq!(gain_ms(&session(172, 58, 53)), Some(152));
    }

    #[test]
    fn a_slow_host_that_delays_echo_and_answer_equally_is_not_half_duplex() {
        assert_eq!(gain_ms(&session(120, 122, 20)), None);
        assert_eq!(gain_ms(&session(20, 18, 10)), None, "a few milliseconds are chance");
    }

    #[test]
    fn echoes_with_a_large_spread_give_no_result() {
        let mut observed = session(120, 40, 10);
        let spread = (0..40).map(|number| (80 + number * 4) * MS).collect();
        observed.echo = Some(Echoes { samples_ns: spread, ..Echoes::default() });
        assert_eq!(gain_ms(&observed), None);
    }

    #[test]
    fn few_answers_give_no_result() {
        let mut observed = session(120, 72, 70);
        observed.answers.as_mut().unwrap().quick_ack_ns.truncate(3);
        assert_eq!(gain_ms(&observed), None);
    }
}
