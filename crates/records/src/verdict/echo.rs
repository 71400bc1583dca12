//! The echo of a key: idle, at a steady pace, and during other data.
//!
//! Two parts of an echo are measured: the time of the local layers, and the round-trip time of the
//! network, which is TCP's minimum or the connection time. The remainder is charged to the remote
//! host. If no round-trip time is known, the remainder belongs to the remote host and the network
//! together, and neither is charged.
//!
//! The wait for the local processor is measured for each echo, and is subtracted before any other
//! rule is applied.

use super::cause::{Cause, CauseKind, Operation};
use super::late_echoes::late_echoes;
use super::local_software::{is_local_software, sum_of};
use super::observation::{Echoes, Observation, Path, TRAIN_PACE_NS};
use super::round_trip::round_trip_ns;
use super::round_trip_waits::{INITIAL_SEGMENTS, KERNEL_DELAY_NS};
use super::traffic::serial_ns;
use super::{flow_causes, half_duplex};
use crate::format::{count, duration};
use crate::layer::Layer;
use crate::statistics;

/// Returns the causes that delay the echoes of keys.
pub(super) fn causes(observed: &Observation) -> Vec<Cause> {
    let Some(echo) = &observed.echo else { return Vec::new() };
    let net_ns = echo.without_own_wait_ns();
    let Some(median_ns) = statistics::median(&net_ns) else { return Vec::new() };
    let mut causes = idle_causes(observed, echo, median_ns);
    if let Some(turns) = half_duplex::turnaround_cause(observed, &net_ns).filter(Cause::stands_out)
    {
        // The turnarounds of the path also explain all other waits of keys, even in a train of
        // keys.
        causes.push(turns);
        return causes;
    }
    let is_disordered = flow_causes::is_disordered(observed);
    if let Some(late) = late_echoes(observed, &net_ns, median_ns) {
        // If packets are occasionally lost, later keys only wait for the retransmission of the lost
        // packets.
        causes.push(if is_disordered { as_reordering(late) } else { late });
        return causes;
    }
    if has_processor_wait(echo) {
        // The keys of the other measurements were delayed locally, too.
        return causes;
    }
    let key_waits = queue_under_load(observed, median_ns).into_iter();
    let key_waits = key_waits.chain(steady_keys(observed, median_ns));
    causes.extend(key_waits.map(|cause| if is_disordered { as_reordering(cause) } else { cause }));
    causes
}

/// Returns `cause` as the effect of reordering: echoes are delivered in order, so one late packet
/// delays all later ones.
fn as_reordering(mut cause: Cause) -> Cause {
    cause.kind = CauseKind::Reordering;
    "Reordering on the path".clone_into(&mut cause.subject);
    "echoes wait for packets that others have overtaken. Check for parallel links that carry the \
     packets of one flow in turn"
        .clone_into(&mut cause.advice);
    cause
}

/// Data bytes of a packet with a key or its echo.
const KEY_BYTES: u64 = 1;
/// Packets per key: one with the key, one with the echo.
const KEY_PACKETS: u64 = 2;

/// Returns the time of an echo on the link, ns: on a local serial line, or on the slowest link of
/// the path as observed in its flows.
fn line_ns(observed: &Observation, echo: &Echoes) -> u64 {
    let measured = sum_of(&echo.layers, |layer| layer == Layer::Line);
    if measured > 0 {
        return measured;
    }
    let path = &observed.path;
    let bytes = KEY_BYTES + path.header_bytes.unwrap_or(Path::HEADER_BYTES);
    // `serial_ns` assumes eight bits per byte, so its result is scaled.
    let serial_line = path.line_bps.zip(Some(path.line_bits_per_byte.unwrap_or(10)));
    let observed_line = || flow_causes::line_bps(observed).map(|rate| (rate, 8));
    let Some((rate, bits)) = serial_line.or_else(observed_line) else { return 0 };
    KEY_PACKETS.saturating_mul(serial_ns(bytes, rate)).saturating_mul(bits) / 8
}

fn idle_causes(observed: &Observation, echo: &Echoes, median_ns: u64) -> Vec<Cause> {
    let cause = |kind, gain_ns, subject: String, advice: String| Cause {
        kind,
        operation: Operation::Echo,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: median_ns,
        subject,
        advice,
    };
    let own_ns = sum_of(&echo.layers, is_local_software);
    let line_ns = line_ns(observed, echo);
    let mut causes = vec![
        processor_wait(echo),
        cause(
            CauseKind::LocalProcessor,
            own_ns,
            "The local software (plumb)".to_owned(),
            "this is the sum of its layers in the median echo. Compare the layers, and stop other \
             processes on this host"
                .to_owned(),
        ),
        cause(
            CauseKind::LineRate,
            line_ns,
            "The rate of the slowest link".to_owned(),
            "the packets of a key and its echo take that long to transmit. Use a faster link, or \
             Van Jacobson compression (RFC 1144)"
                .to_owned(),
        ),
    ];
    let Some(trip_ns) = round_trip_ns(observed) else { return causes };
    let outside_ns = median_ns.saturating_sub(own_ns);
    let network_ns = trip_ns.min(outside_ns);
    causes.push(cause(
        CauseKind::Distance,
        network_ns.saturating_sub(line_ns),
        "The round-trip time of the path".to_owned(),
        format!(
            "it equals the propagation delay of {} km of optical fiber; use a shorter path, or \
             predict echoes (plumb login --predict always)",
            count(network_ns / FIBER_ROUND_TRIP_NS_PER_KM)
        ),
    ));
    causes.push(cause(
        CauseKind::RemoteHost,
        outside_ns.saturating_sub(network_ns.max(line_ns)),
        "The remote host's slow response".to_owned(),
        format!(
            "it echoes a key that much later than one round trip of its TCP ({}). Check the load \
             there, and proxies between its network interface and the program",
            duration(network_ns)
        ),
    ));
    causes
}

/// Returns the average cost of the wait for the local processor, over all echoes.
fn processor_wait(echo: &Echoes) -> Cause {
    let mean_ns = |times: &[u64]| {
        let sum = times.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        sum / u64::try_from(times.len()).unwrap_or(u64::MAX).max(1)
    };
    let gain_ns = mean_ns(&echo.own_wait_ns);
    let worst_ns = echo.own_wait_ns.iter().max().copied().unwrap_or(0);
    Cause {
        kind: CauseKind::LocalProcessor,
        operation: Operation::Echo,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: mean_ns(&echo.samples_ns),
        subject: "Waiting for a processor on this host".to_owned(),
        advice: format!(
            "plumb was runnable but not scheduled for up to {} in one echo. Stop other processes \
             on this host, or give plumb a higher priority (nice) or a processor of its own",
            duration(worst_ns)
        ),
    }
}

/// Returns whether echoes were delayed locally for a noticeable time.
pub(super) fn has_processor_wait(echo: &Echoes) -> bool {
    processor_wait(echo).stands_out()
}

/// Light in fiber takes 5 µs per kilometer, in each direction.
const FIBER_ROUND_TRIP_NS_PER_KM: u64 = 10_000;
/// Output in the send buffer of the remote host is mentioned if its delay is at least the
/// additional time of an echo divided by this number.
const MIN_HELD_DIVISOR: u64 = 5;

/// A queue is the cause if TCP's round-trip time grows by at least the additional time of an echo
/// divided by this number. The round-trip time grows less than the echo, because it includes
/// acknowledgments of a few keys only.
const MIN_QUEUED_DIVISOR: u64 = 8;

/// Echoes during an output are charged to the local processor if the local host waited for its
/// processor for at least the time of the output divided by this number.
const MIN_WAIT_DIVISOR: u64 = 4;

/// Returns the cost of the wait for the local processor in echoes during the longest output. If the
/// local host waited for a large fraction of the output, the same fraction of the echo is charged.
fn processor_wait_during_output(
    observed: &Observation,
    gain_ns: u64,
    total_ns: u64,
) -> Option<Cause> {
    let longest_output = observed.sustained.as_ref().or(observed.transfers.first())?;
    let waited_ns = longest_output.own_wait_ns?;
    let elapsed_ns = longest_output.elapsed_ns.max(1);
    if waited_ns.saturating_mul(MIN_WAIT_DIVISOR) < elapsed_ns {
        return None;
    }
    let charged_ns =
        u128::from(gain_ns) * u128::from(waited_ns.min(elapsed_ns)) / u128::from(elapsed_ns);
    let ns = u64::try_from(charged_ns).unwrap_or(gain_ns);
    Some(Cause {
        kind: CauseKind::LocalProcessor,
        operation: Operation::EchoUnderLoad,
        cost_ns: ns,
        gain_ns: ns,
        total_ns,
        subject: "Waiting for a processor on this host".to_owned(),
        advice: format!(
            "plumb was runnable but not scheduled for {} of the {} of an output. Stop other \
             processes on this host",
            duration(waited_ns),
            duration(elapsed_ns)
        ),
    })
}

/// Returns the time that the first flight of a sender takes on the slowest link, ns, if the rate of
/// the link is known.
pub(super) fn first_flight_ns(observed: &Observation) -> Option<u64> {
    let mss_bytes = observed.path.mss_bytes.unwrap_or(Path::ETHERNET_MSS);
    let rate_bps = flow_causes::line_bps(observed)?;
    Some(serial_ns(INITIAL_SEGMENTS * mss_bytes, rate_bps))
}

/// Returns the cost of a queue that other data of this session fills.
fn queue_under_load(observed: &Observation, idle_ns: u64) -> Option<Cause> {
    let loaded_echo = observed.echo_under_load.as_ref()?;
    let total_ns = loaded_echo.settled_ns()?;
    let gain_ns = total_ns.saturating_sub(idle_ns);
    if let Some(cause) = processor_wait_during_output(observed, gain_ns, total_ns) {
        return Some(cause);
    }
    // A queue forms only in front of a full link.
    if flow_causes::fills_the_line(observed) == Some(false) {
        return None;
    }
    // On a slow link the first flight of any sender causes a delay of this length, which is due to
    // the link, and not to its queue.
    let flight_ns = first_flight_ns(observed).unwrap_or(0);
    if gain_ns <= flight_ns {
        return None;
    }
    // A queue also delays the acknowledgments of the remote host: if they arrive without delay,
    // echoes wait in the remote host.
    let trip_ns = round_trip_ns(observed).unwrap_or(0);
    let waits_ns = observed.path.rtt_under_load_ns.map(|rtt| rtt.saturating_sub(trip_ns));
    if waits_ns.is_some_and(|waits| waits < gain_ns / MIN_QUEUED_DIVISOR) {
        return None;
    }
    let cost_ns = waits_ns.unwrap_or(gain_ns).min(gain_ns);
    let held_ns = gain_ns - cost_ns;
    let held_clause = match held_ns >= gain_ns / MIN_HELD_DIVISOR {
        false => String::new(),
        true => format!(
            "; the remote host delays it by another {}, because it sends earlier output first",
            duration(held_ns)
        ),
    };
    Some(Cause {
        kind: CauseKind::Queue,
        operation: Operation::EchoUnderLoad,
        cost_ns,
        // Even a queue of the recommended length holds the first flight of a sender.
        gain_ns: cost_ns.saturating_sub(flight_ns),
        total_ns,
        subject: "The queue in front of the slowest link".to_owned(),
        advice: format!(
            "an echo takes {} without other output{held_clause}. Use fair queueing or a shorter \
             queue in the router before that link (fq_codel), or a smaller receive window on this \
             host",
            duration(idle_ns)
        ),
    })
}

/// Minimum number of quick echoes; with fewer, a pause cannot be distinguished from keys that wait
/// for each other.
const MIN_QUICK_ECHOES: usize = 3;
/// An echo counts as quick if it exceeds the idle echo by at most the idle echo divided by this
/// number, or by [`QUICK_TOLERANCE_NS`] if that is more.
const QUICK_TOLERANCE_DIVISOR: u64 = 8;
const QUICK_TOLERANCE_NS: u64 = 3_000_000;
/// Echoes of consecutive keys arrive together if their times differ by the interval between the
/// keys, with this tolerance, ns.
const TOGETHER_TOLERANCE_NS: u64 = 15_000_000;

/// Returns whether all late echoes of a train arrive together after one pause. If each key waits
/// for the previous one, they arrive one after the other.
fn is_one_pause(train_ns: &[u64], idle_ns: u64) -> bool {
    let late_from = idle_ns.saturating_add(TRAIN_PACE_NS);
    let late = train_ns.iter().filter(|ns| **ns > late_from).count();
    // If keys and echoes impede each other, no echo is as quick as the echo of a single key.
    let quick_ns =
        idle_ns.saturating_add((idle_ns / QUICK_TOLERANCE_DIVISOR).max(QUICK_TOLERANCE_NS));
    let others = train_ns.iter().filter(|ns| **ns <= late_from);
    if others.clone().count() < MIN_QUICK_ECHOES || others.clone().any(|ns| *ns > quick_ns) {
        return false;
    }
    let mut run_len = 0;
    let mut longest_run = 0;
    for pair in train_ns.windows(2) {
        let [before, after] = pair else { continue };
        let is_together =
            before.saturating_sub(*after).abs_diff(TRAIN_PACE_NS) <= TOGETHER_TOLERANCE_NS;
        run_len = if is_together { run_len + 1 } else { 0 };
        longest_run = run_len.max(longest_run);
    }
    longest_run >= MIN_ECHOES_TOGETHER && longest_run + 2 >= late
}

/// Minimum number of echoes that arrive together; fewer may have been written at once.
const MIN_ECHOES_TOGETHER: usize = 5;

/// Returns the cost of keys, typed at a steady pace, that wait for each other's echoes: because the
/// path is half-duplex, or due to Nagle's algorithm.
fn steady_keys(observed: &Observation, idle_ns: u64) -> Option<Cause> {
    let train = observed.echo_train.as_ref()?;
    let total_ns = statistics::median(&train.samples_ns)?;
    if is_one_pause(&train.samples_ns, idle_ns) {
        return None;
    }
    let gain_ns = total_ns.checked_sub(idle_ns)?;
    // A remote host that computes longer than the interval between keystrokes also makes them wait.
    let trip_ns = round_trip_ns(observed)?;
    if idle_ns.saturating_sub(trip_ns) > trip_ns {
        return None;
    }
    // With Nagle's algorithm, each echo waits for the acknowledgment of the previous one: at most
    // one round trip plus the local delay of an acknowledgment.
    if gain_ns <= trip_ns + trip_ns / 5 + KERNEL_DELAY_NS {
        return Some(Cause {
            kind: CauseKind::Nagle,
            operation: Operation::EchoTrain,
            cost_ns: gain_ns,
            gain_ns,
            total_ns,
            subject: "Nagle's algorithm on the remote host".to_owned(),
            advice: format!(
                "during fast typing it holds back each echo until the previous one is \
                 acknowledged, while a single key is echoed in {}. Set TCP_NODELAY there",
                duration(idle_ns)
            ),
        });
    }
    Some(Cause {
        kind: CauseKind::HalfDuplex,
        operation: Operation::EchoTrain,
        cost_ns: gain_ns,
        gain_ns,
        total_ns,
        subject: "A half-duplex path".to_owned(),
        advice: format!(
            "during fast typing keys and echoes wait for each other, while a single key is echoed \
             in {}. Check for a half-duplex link or modem, or edit lines locally",
            duration(idle_ns)
        ),
    })
}
