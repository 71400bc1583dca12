//! Output that never arrived, and waits that no rule explains.
//!
//! A measurement that did not complete comes first in a report. If output never arrives, although
//! shorter output of the same program arrived and the peer's TCP acknowledges the request, then the
//! output was sent in packets that the path drops because of their size: neither the program nor
//! the path has failed.
//!
//! A long wait without a cause is reported as such. A report that omits the wait would imply that
//! there is none.

use super::cause::{Cause, CauseKind, Operation};
use super::echo::first_flight_ns;
use super::flow_causes::fills_the_line;
use super::losses::{has_losses, lateness_ns};
use super::observation::{Observation, Path, Unfinished};
use super::round_trip::round_trip_ns;
use crate::format::{count, duration};
use crate::statistics;

/// Minimum length of a wait without a cause that is reported, ns: TM-233 (section 3.1) calls such
/// an echo unacceptable.
const LONG_NS: u64 = 250_000_000;

/// A wait is not on the path if TCP's round-trip time grows by less than the wait divided by this
/// number.
const MIN_RTT_GROWTH_DIVISOR: u64 = 16;

/// Size in bytes from which on output does not fit into the packets of an echo or a short answer.
const LONG_BYTES: u64 = 400;

/// Returns the reason why output never arrived, if any is missing.
pub(super) fn unfinished(observed: &Observation) -> Option<Cause> {
    let unfinished = observed.unfinished.as_ref()?;
    let mss_bytes = observed.path.mss_bytes.unwrap_or(Path::ETHERNET_MSS);
    let diagnosis = black_hole(unfinished, mss_bytes, is_lossy(observed))
        .or_else(|| lost(unfinished, observed));
    Some(diagnosis.unwrap_or_else(|| unknown_end(unfinished)))
}

/// Returns whether packets of the session were lost.
fn is_lossy(observed: &Observation) -> bool {
    has_losses(observed) == Some(true) || has_lost_before(observed)
}

/// Returns the cause if the request for the output was lost, on a path that lost packets before.
fn lost(unfinished: &Unfinished, observed: &Observation) -> Option<Cause> {
    let is_lossy = match unfinished.is_echo {
        true => has_lost_before(observed),
        false => has_losses(observed) == Some(true),
    };
    let is_request_lost = unfinished.is_acknowledged == Some(false) && is_lossy;
    let waited_ns = unfinished.waited_ns;
    let (operation, subject) = match unfinished.is_echo {
        true => (Operation::Echo, "the key"),
        false => (Operation::Screenful, "the request for output"),
    };
    is_request_lost.then(|| Cause {
        kind: CauseKind::RetransmissionTimeouts,
        operation,
        cost_ns: waited_ns,
        gain_ns: waited_ns,
        total_ns: waited_ns,
        subject: "Packet loss".to_owned(),
        advice: format!(
            "{subject} was retransmitted repeatedly and not acknowledged within {}, and packets \
             were lost before. Check the links of the path for errors",
            duration(waited_ns)
        ),
    })
}

/// Returns whether packets of earlier keys were lost: an echo was late, or data arrived out of
/// order. Retransmissions of the key without an echo prove nothing.
fn has_lost_before(observed: &Observation) -> bool {
    let Some(echo) = &observed.echo else { return false };
    let times = [echo.without_own_wait_ns(), echo.erasures_ns.clone()];
    let has_late_echo = times.iter().flat_map(|times| lateness_ns(times)).any(|ns| ns > 0);
    has_late_echo || echo.counts.out_of_order_in.is_some_and(|count| count > 0)
}

/// Returns the cause if packets are dropped because of their size. The result is qualified if other
/// packets were lost before, because a burst of losses also stops output.
fn black_hole(unfinished: &Unfinished, mss_bytes: u64, is_lossy: bool) -> Option<Cause> {
    let Unfinished {
        expected_bytes,
        received_bytes,
        largest_complete_bytes,
        waited_ns,
        is_acknowledged,
        ..
    } = *unfinished;
    let is_long_output = expected_bytes >= LONG_BYTES
        && expected_bytes > largest_complete_bytes
        && largest_complete_bytes < mss_bytes;
    let is_almost_silent = received_bytes < LONG_BYTES.min(expected_bytes / 2);
    if !(is_long_output
        && is_almost_silent
        && largest_complete_bytes > 0
        && is_acknowledged == Some(true))
    {
        return None;
    }
    let observation_text = format!(
        "output of up to {} bytes arrived, output of {} bytes did not, and the remote TCP \
         acknowledged the request",
        count(largest_complete_bytes),
        count(expected_bytes)
    );
    let remedy = "ICMP \"packet too big\", set the MTU to the size that the path carries, or set \
                  net.ipv4.tcp_mtu_probing = 1 on the remote host";
    let (kind, subject, advice) = match is_lossy {
        false => {
            let advice = format!("{observation_text}. Allow {remedy}");
            (CauseKind::PathMtuBlackHole, "A path MTU black hole", advice)
        }
        true => {
            let subject = "Packet loss or a path MTU black hole";
            let advice = format!(
                "{observation_text}, but packets of any size were lost before. To tell them apart, \
                 measure again: if long output stops each time, allow {remedy}; otherwise check the \
                 links for errors"
            );
            (CauseKind::RetransmissionTimeouts, subject, advice)
        }
    };
    Some(Cause {
        kind,
        operation: Operation::Screenful,
        cost_ns: waited_ns,
        gain_ns: waited_ns,
        total_ns: waited_ns,
        subject: subject.to_owned(),
        advice,
    })
}

fn unknown_end(unfinished: &Unfinished) -> Cause {
    let Unfinished { is_echo, expected_bytes, received_bytes, waited_ns, is_acknowledged, .. } =
        *unfinished;
    let waited_text = duration(waited_ns);
    let (operation, subject, facts) = match is_echo {
        true => {
            let facts =
                format!("a key was not echoed within {waited_text}, although earlier keys were");
            (Operation::Echo, "a missing echo", facts)
        }
        false => {
            let received = count(received_bytes);
            let expected = count(expected_bytes);
            let facts = format!(
                "{received} of {expected} bytes arrived, and then nothing for {waited_text}"
            );
            (Operation::Screenful, "missing output", facts)
        }
    };
    let evidence = match is_acknowledged {
        Some(true) => {
            "the remote TCP acknowledged the request, so its program has stopped or its packets \
             are dropped. To tell them apart, capture packets on the remote host"
        }
        Some(false) => {
            "the remote TCP did not acknowledge the request, so the path or the remote host has \
             failed. To tell them apart, ping the remote host"
        }
        None => "repeat the measurement, and check the remote host meanwhile",
    };
    unknown(operation, waited_ns, waited_ns, subject, format!("{facts}; {evidence}"))
}

/// Returns the longest wait of a session without any other cause, if it is long.
pub(super) fn waits(observed: &Observation) -> Vec<Cause> {
    let median_ns = |echoes: &super::Echoes| statistics::median(&echoes.samples_ns);
    let idle_ns = observed.echo.as_ref().and_then(median_ns).unwrap_or(0);
    let loaded_ns = observed.echo_under_load.as_ref().and_then(super::Echoes::settled_ns);
    let held_and_queued =
        loaded_ns.and_then(|total_ns| unsent_output_behind_queue(observed, idle_ns, total_ns));
    if let Some([held, queue]) = held_and_queued.filter(|[held, _]| held.stands_out()) {
        return vec![held, queue];
    }
    let loaded_echo = loaded_ns.map(|total_ns| echo_during_output(observed, idle_ns, total_ns));
    let screenful = observed.screenful.as_ref().map(|flow| {
        let advice =
            "repeat the measurement to see whether it recurs, and capture packets on both hosts";
        let wait_ns = flow.elapsed_ns.saturating_sub(idle_ns);
        unknown(
            Operation::Screenful,
            flow.elapsed_ns,
            wait_ns,
            "an unexplained wait",
            advice.to_owned(),
        )
    });
    let longest = [loaded_echo, screenful].into_iter().flatten().max_by_key(|cause| cause.cost_ns);
    longest.filter(|cause| cause.cost_ns >= LONG_NS).into_iter().collect()
}

/// Returns two causes, the queue of the link and the remote host, if an echo waits behind output
/// that the remote host has not sent yet.
///
/// In this case a window keeps the queue of the link short. Acknowledgments show the length of that
/// queue. The rest of the wait is in the remote host.
fn unsent_output_behind_queue(
    observed: &Observation,
    idle_ns: u64,
    total_ns: u64,
) -> Option<[Cause; 2]> {
    let rtt_ns = observed.path.rtt_under_load_ns?;
    let queue_ns = rtt_ns.saturating_sub(round_trip_ns(observed)?);
    // Subtract the time of the first flight of a sender, which any full link of this rate takes.
    let beyond_flight_ns =
        queue_ns.checked_sub(first_flight_ns(observed)?).filter(|beyond_ns| *beyond_ns > 0)?;
    let held_ns = total_ns.saturating_sub(idle_ns).checked_sub(queue_ns)?;
    // Losses also delay acknowledgments.
    if fills_the_line(observed) != Some(true) || is_lossy(observed) {
        return None;
    }
    let idle = duration(idle_ns);
    let held = delay_by_held_output(held_ns, total_ns, rtt_ns, &idle);
    let advice = format!(
        "an echo takes {idle} without other output. Use fair queueing or a shorter queue in \
         the router before that link (fq_codel), or a smaller receive window on this host"
    );
    let queue = Cause {
        kind: CauseKind::Queue,
        operation: Operation::EchoUnderLoad,
        cost_ns: queue_ns,
        gain_ns: beyond_flight_ns,
        total_ns,
        subject: "The queue in front of the slowest link".to_owned(),
        advice,
    };
    Some([held, queue])
}

/// Returns the cause if output held by the remote host delays an echo by `held_ns`.
fn delay_by_held_output(held_ns: u64, total_ns: u64, rtt_ns: u64, idle: &str) -> Cause {
    Cause {
        kind: CauseKind::RemoteHost,
        operation: Operation::EchoUnderLoad,
        cost_ns: held_ns,
        gain_ns: held_ns,
        total_ns,
        subject: "Unsent output on the remote host".to_owned(),
        advice: format!(
            "its TCP responds in {} meanwhile, but the echo waits behind this output in the send \
             buffer; without this output, an echo takes {idle}. Reduce the unsent data there \
             (net.ipv4.tcp_notsent_lowat)",
            duration(rtt_ns)
        ),
    }
}

/// Returns the cause if an echo takes `total_ns` during other output, without a queue on the path.
fn echo_during_output(observed: &Observation, idle_ns: u64, total_ns: u64) -> Cause {
    let cost_ns = total_ns.saturating_sub(idle_ns);
    let idle = duration(idle_ns);
    // Acknowledgments pass the same queue of the path, but do not wait for the send buffer.
    let trip_ns = round_trip_ns(observed).unwrap_or(0);
    let rtt_ns = observed.path.rtt_under_load_ns;
    let short_ns =
        rtt_ns.filter(|rtt_ns| rtt_ns.saturating_sub(trip_ns) < cost_ns / MIN_RTT_GROWTH_DIVISOR);
    let held = short_ns.map(|rtt_ns| delay_by_held_output(cost_ns, total_ns, rtt_ns, &idle));
    // If segments of the output are lost, an echo during it waits for their retransmission.
    match held {
        Some(held) if is_lossy(observed) => Cause {
            kind: CauseKind::Loss,
            subject: "Packet loss or unsent output on the remote host".to_owned(),
            advice: format!(
                "packets were lost in this session; without other output, an echo takes {idle}. To \
                 tell them apart, fix the errors of the links and measure again"
            ),
            ..held
        },
        Some(held) => held,
        None => unknown(
            Operation::EchoUnderLoad,
            total_ns,
            cost_ns,
            "an unexplained wait",
            format!(
                "without other output, an echo takes only {idle}. During output, the echo waits for \
                 this output in a queue of the path or in the send buffer of the remote host. To \
                 tell them apart, capture packets on the remote host"
            ),
        ),
    }
}

fn unknown(
    operation: Operation,
    total_ns: u64,
    cost_ns: u64,
    subject: &str,
    advice: String,
) -> Cause {
    Cause {
        kind: CauseKind::Unknown,
        operation,
        cost_ns,
        gain_ns: cost_ns,
        total_ns,
        subject: format!("Unknown: {subject}"),
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Echoes;

    const MS: u64 = 1_000_000;

    fn missing_output() -> Unfinished {
        Unfinished {
            is_echo: false,
            expected_bytes: 1_458,
            received_bytes: 0,
            largest_complete_bytes: 486,
            waited_ns: 8_000 * MS,
            is_acknowledged: Some(true),
        }
    }

    fn kind(unfinished: Unfinished) -> CauseKind {
        let observed = Observation { unfinished: Some(unfinished), ..Observation::default() };
        super::unfinished(&observed).unwrap().kind
    }

    #[test]
    fn long_output_that_never_arrives_after_short_output_is_a_black_hole() {
        assert_eq!(kind(missing_output()), CauseKind::PathMtuBlackHole);
    }

    #[test]
    fn without_a_control_the_reason_is_unknown() {
        assert_eq!(
            kind(Unfinished { is_acknowledged: Some(false), ..missing_output() }),
            CauseKind::Unknown
        );
        assert_eq!(
            kind(Unfinished { is_acknowledged: None, ..missing_output() }),
            CauseKind::Unknown
        );
        assert_eq!(
            kind(Unfinished { largest_complete_bytes: 0, ..missing_output() }),
            CauseKind::Unknown
        );
        assert_eq!(
            kind(Unfinished { largest_complete_bytes: 1_944, ..missing_output() }),
            CauseKind::Unknown
        );
        assert_eq!(
            kind(Unfinished { received_bytes: 1_000, ..missing_output() }),
            CauseKind::Unknown
        );
    }

    #[test]
    fn a_missing_echo_is_reported_as_missing() {
        let silent = Unfinished {
            is_echo: true,
            expected_bytes: 1,
            largest_complete_bytes: 1,
            ..missing_output()
        };
        let observed = Observation { unfinished: Some(silent), ..Observation::default() };
        let diagnosis = unfinished(&observed).unwrap();
        assert_eq!((diagnosis.kind, diagnosis.operation), (CauseKind::Unknown, Operation::Echo));
        assert_eq!(diagnosis.subject, "Unknown: a missing echo");
    }

    #[test]
    fn a_missing_echo_was_lost_if_other_echoes_were_late() {
        let silent = Unfinished { is_echo: true, is_acknowledged: Some(false), ..missing_output() };
        let after = |times: &[u64]| {
            let echo = Echoes { samples_ns: times.to_vec(), ..Echoes::default() };
            let observed = Observation {
                unfinished: Some(silent),
                echo: Some(echo),
                ..Observation::default()
            };
            unfinished(&observed).unwrap().kind
        };
        assert_eq!(after(&[30 * MS; 16]), CauseKind::Unknown);
        let late = [[30 * MS; 8].as_slice(), &[270 * MS]].concat();
        assert_eq!(after(&late), CauseKind::RetransmissionTimeouts);
    }

    #[test]
    fn a_long_echo_beside_output_is_reported_even_if_nothing_explains_it() {
        let echoes = |ns: u64| Some(Echoes { samples_ns: vec![ns; 20], ..Echoes::default() });
        let observed = |ns| Observation {
            echo: echoes(2 * MS),
            echo_under_load: echoes(ns),
            ..Observation::default()
        };
        let [diagnosis] = waits(&observed(545 * MS)).try_into().unwrap();
        assert_eq!(
            (diagnosis.kind, diagnosis.operation, diagnosis.gain_ns),
            (CauseKind::Unknown, Operation::EchoUnderLoad, 543 * MS)
        );
        assert_eq!(waits(&observed(200 * MS)), []);
    }

    /// A session over a link of 4 Mbit/s that is full of output, with a TCP round-trip time of
    /// `rtt_ms`.
    fn during_output_on_full_link(rtt_ms: u64) -> Observation {
        let arrivals = (0..400).map(|index| crate::verdict::Arrival {
            at_ns: 20 * MS + index * 2_896_000,
            bytes: 1_448,
        });
        let output = crate::verdict::Flow {
            bytes: 400 * 1_448,
            elapsed_ns: 1_200 * MS,
            arrivals: arrivals.collect(),
            ..crate::verdict::Flow::default()
        };
        let echoes = |ns: u64| Some(Echoes { samples_ns: vec![ns; 20], ..Echoes::default() });
        Observation {
            echo: echoes(11 * MS),
            echo_under_load: echoes(700 * MS),
            transfers: vec![output],
            path: Path {
                rtt_ns: Some(10 * MS),
                min_rtt_ns: Some(10 * MS),
                rtt_under_load_ns: Some(rtt_ms * MS),
                mss_bytes: Some(1_448),
                ..Path::default()
            },
            ..Observation::default()
        }
    }

    #[test]
    fn an_echo_behind_a_short_queue_waits_for_unsent_output_of_the_remote_host() {
        let diagnosis = waits(&during_output_on_full_link(70));
        let kinds: Vec<_> =
            diagnosis.iter().map(|cause| (cause.kind, cause.cost_ns / MS)).collect();
        assert_eq!(kinds, [(CauseKind::RemoteHost, 629), (CauseKind::Queue, 60)]);
        // The first flight of any sender takes 29 ms on that link.
        assert_eq!(waits(&during_output_on_full_link(38))[0].kind, CauseKind::RemoteHost);
        assert_eq!(waits(&during_output_on_full_link(38)).len(), 1);
    }

    #[test]
    fn with_packet_loss_the_remote_host_is_not_charged_alone() {
        let mut observed = during_output_on_full_link(12);
        assert_eq!(waits(&observed)[0].kind, CauseKind::RemoteHost);
        let late = [[11 * MS; 18].as_slice(), &[240 * MS, 640 * MS]].concat();
        observed.echo = Some(Echoes { samples_ns: late, ..Echoes::default() });
        assert_eq!(waits(&observed)[0].kind, CauseKind::Loss);
    }

    #[test]
    fn with_packet_loss_a_black_hole_and_a_burst_of_losses_are_both_named() {
        let late = [[30 * MS; 16].as_slice(), &[270 * MS, 300 * MS]].concat();
        let echo = Echoes { samples_ns: late, ..Echoes::default() };
        let observed = Observation {
            unfinished: Some(missing_output()),
            echo: Some(echo),
            ..Observation::default()
        };
        let diagnosis = unfinished(&observed).unwrap();
        assert_eq!(diagnosis.kind, CauseKind::RetransmissionTimeouts);
        assert!(diagnosis.subject.contains("MTU black hole"), "{diagnosis:?}");
    }
}
