//! Waits for the peer: for an acknowledgment, or for a window.

use super::cause::{Cause, CauseKind, Operation};
use super::flow::{Direction, Flow};
use super::flow_view::View;
use super::observation::{Answers, Observation, Path};
use super::traffic::{Stall, gaps, largest_arrival, sum_ns, window_bytes};
use crate::format::{count, duration};
use crate::statistics;

/// Waits for a delayed acknowledgment, with the delay of timer and scheduler, ns. The
/// acknowledgment is delayed by 40 ms on Linux, and by 200 ms with BSD's timer; RFC 9293 (section
/// 3.8.6.3) permits 500 ms.
const DELAYED_ACK_NS: [std::ops::RangeInclusive<u64>; 3] =
    [36_000_000..=60_000_000, 90_000_000..=130_000_000, 180_000_000..=260_000_000];
/// Delay of an acknowledgment on Linux in an exchange of short segments, ns.
pub(super) const KERNEL_DELAY_NS: u64 = 40_000_000;
/// Minimum number of round trips of a wait that is not due to the network.
const MIN_LONG_WAIT_TRIPS: u64 = 3;
/// Minimum time after which a timer of TCP expires, ns.
const LONG_NS: u64 = 190_000_000;

/// Returns the minimum length of a stall of `view` that is not due to round trips, ns.
pub(super) fn long_ns(view: &View<'_>) -> u64 {
    view.trip_or_zero().saturating_mul(MIN_LONG_WAIT_TRIPS).max(LONG_NS)
}

fn is_of_delayed_ack(ns: u64, trip_ns: u64) -> bool {
    let beyond_trip_ns = ns.saturating_sub(trip_ns);
    DELAYED_ACK_NS.iter().any(|range| range.contains(&ns) || range.contains(&beyond_trip_ns))
}

/// Returns the cost of Nagle's algorithm on the remote host: a small segment waits until all
/// earlier ones are acknowledged, and the local host delays the acknowledgment.
pub(super) fn nagle(view: &mut View<'_>) -> Option<Cause> {
    if view.flow.direction == Direction::Outgoing {
        return None;
    }
    let trip_ns = view.trip_or_zero();
    let own_ns = view.path.own_ack_delay_ns;
    // A network with a round trip as long as the wait also explains the wait.
    let exceeds_two_trips = |ns: u64| ns / 2 > trip_ns;
    let is_wait = |stall: &Stall| match own_ns {
        Some(0) => false,
        // A timer expires early only by its granularity, and late because of the scheduler.
        Some(delay) => stall.ns >= delay - delay / 8 && stall.ns <= delay + delay / 2 + trip_ns,
        None => is_of_delayed_ack(stall.ns, trip_ns),
    };
    // With reordering, a silence may be due to one late packet.
    let is_out_of_order = view.flow.counts.out_of_order_in.is_some_and(|count| count > 0);
    if is_out_of_order || view.has_reordering {
        return None;
    }
    let selected = view.select(|stall| exceeds_two_trips(stall.ns) && is_wait(stall));
    if selected.is_empty() {
        return None;
    }
    let times = if selected.len() == 1 { "once" } else { "several times" };
    let advice = format!(
        "it waits {times} for an acknowledgment that this host delays. Set TCP_NODELAY there, or \
         disable delayed acknowledgments here"
    );
    let subject = "Nagle's algorithm on the remote host";
    let cause = view.cause(CauseKind::Nagle, sum_ns(&selected), subject, advice);
    view.assign_stalls(cause, &selected)
}

/// Returns the cost of Nagle's algorithm on the remote host for programs that delay
/// acknowledgments: the additional time of a screenful whose acknowledgments this program delayed.
pub(super) fn nagle_with_delayed_ack(
    observed: &Observation,
    trip_ns: Option<u64>,
) -> Option<Cause> {
    let delayed_screenful = observed.screenful_delayed_ack.as_ref()?;
    let quick_screenful = observed.screenful.as_ref()?;
    // Short answers are better evidence than one screenful.
    let has_enough_answers = |answers: &Answers| {
        answers.quick_ack_ns.len().min(answers.delayed_ack_ns.len()) >= MIN_ANSWERS
    };
    if observed.answers.as_ref().is_some_and(has_enough_answers)
        && nagle_of_answers(observed, trip_ns).is_none()
    {
        return None;
    }
    let gain_ns = delayed_screenful.elapsed_ns.checked_sub(quick_screenful.elapsed_ns)?;
    let max = KERNEL_DELAY_NS + KERNEL_DELAY_NS / 2 + trip_ns?;
    if gain_ns < KERNEL_DELAY_NS - KERNEL_DELAY_NS / 8 || gain_ns > max {
        return None;
    }
    Some(Cause {
        kind: CauseKind::Nagle,
        operation: Operation::Screenful,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: delayed_screenful.elapsed_ns,
        subject: "Nagle's algorithm on the remote host".to_owned(),
        advice:
            "it waits for an acknowledgment, which plumb delayed here as most programs do. Set \
                 TCP_NODELAY there"
                .to_owned(),
    })
}

/// Minimum number of answers of each kind.
const MIN_ANSWERS: usize = 4;

/// Returns the cost of Nagle's algorithm on the remote host for short answers. With Nagle's
/// algorithm, an answer arrives only after the local host has acknowledged earlier data, even if
/// the remote host computed the answer sooner. For an answer this short, no other mechanism makes
/// the remote host wait for an acknowledgment.
pub(super) fn nagle_of_answers(observed: &Observation, trip_ns: Option<u64>) -> Option<Cause> {
    let Answers { quick_ack_ns, delayed_ack_ns } = observed.answers.as_ref()?;
    if quick_ack_ns.len().min(delayed_ack_ns.len()) < MIN_ANSWERS {
        return None;
    }
    let total_ns = statistics::median(delayed_ack_ns)?;
    let usual_ns = statistics::median(quick_ack_ns)?;
    let delay_ns = total_ns.checked_sub(usual_ns)?;
    // An answer that takes two round trips waits for the acknowledgment in one of them. If the host
    // takes longer, the acknowledgment arrives before the answer is ready.
    let acknowledged_ns = trip_ns?.saturating_mul(2);
    let takes_two_trips = usual_ns <= acknowledged_ns.saturating_add(acknowledged_ns / 8);
    let saved_ns = trip_ns.filter(|_| takes_two_trips).unwrap_or(0);
    let gain_ns = delay_ns.saturating_add(saved_ns).min(total_ns);
    // A timer expires early only by its granularity, and late because of the scheduler. Two round
    // trips are added: one for the first piece, and one for the acknowledgment and the second
    // piece.
    let trips_ns = trip_ns?.saturating_mul(2);
    let min_ns = (trips_ns - trips_ns / 8).saturating_add(KERNEL_DELAY_NS - KERNEL_DELAY_NS / 8);
    let max_ns = trips_ns.saturating_add(KERNEL_DELAY_NS + KERNEL_DELAY_NS / 2);
    // One answer of each kind may have been delayed by another cause.
    let earliest_delayed_ns = second_in_order(delayed_ack_ns, u64::cmp)?;
    let latest_quick_ns = second_in_order(quick_ack_ns, |one, other| other.cmp(one))?;
    let matches_ack_delay = earliest_delayed_ns >= min_ns && (min_ns..=max_ns).contains(&total_ns);
    if !matches_ack_delay
        || earliest_delayed_ns < latest_quick_ns.saturating_add(KERNEL_DELAY_NS / 8)
    {
        return None;
    }
    Some(Cause {
        kind: CauseKind::Nagle,
        operation: Operation::Answer,
        cost_ns: gain_ns,
        gain_ns,
        total_ns,
        subject: "Nagle's algorithm on the remote host".to_owned(),
        advice:
            "it holds back the output after an echo until this host acknowledges the echo, and most \
                 clients delay this acknowledgment. Set TCP_NODELAY in the server program there"
                .to_owned(),
    })
}

/// Returns the second of `times` in the given order.
fn second_in_order(times: &[u64], order: impl Fn(&u64, &u64) -> std::cmp::Ordering) -> Option<u64> {
    let mut times = times.to_vec();
    times.sort_unstable_by(order);
    times.get(1).copied()
}

/// Returns the cost of Nagle's algorithm on the remote host if the local host acknowledges at once.
/// The cost is one round trip, in a flow that would fit into the first flight.
pub(super) fn nagle_of_a_trip(view: &mut View<'_>) -> Option<Cause> {
    let trip_ns = view.trip_ns?;
    let mss = view.path.mss_bytes?;
    let is_short = view.flow.bytes <= INITIAL_SEGMENTS * mss;
    if view.flow.direction == Direction::Outgoing || !is_short || view.has_losses {
        return None;
    }
    let is_round_trip = |ns: u64| ns >= trip_ns - trip_ns / 5 && ns <= trip_ns + trip_ns / 3;
    let selected = view.select(|stall| is_round_trip(stall.ns));
    let [stall] = selected.as_slice() else { return None };
    // A sender with Nagle's algorithm has one short segment in flight. Several of them fill the
    // congestion window, which Linux counts in segments, although their bytes do not.
    let earlier_arrivals = view.flow.arrivals.get(..stall.index)?;
    let short_count =
        earlier_arrivals.iter().filter(|arrival| arrival.bytes % mss.max(1) != 0).count();
    let min_packets = view.flow.bytes.div_ceil(mss.max(1));
    let has_extra_packets = view.flow.data_packets.is_some_and(|packets| packets > min_packets + 1);
    if short_count > 1 || has_extra_packets {
        return None;
    }
    // The waiting segment must be short, and the whole flow must fit into the window.
    let window = view.flow.counts.window_bytes;
    if stall.bytes >= mss || window.is_some_and(|window| window < view.flow.bytes) {
        return None;
    }
    let advice = "it holds back a short segment for one round trip, until the previous segment is \
                  acknowledged. Set TCP_NODELAY there";
    let subject = "Nagle's algorithm on the remote host";
    let cause = view.cause(CauseKind::Nagle, stall.ns, subject, advice.to_owned());
    view.assign_stalls(cause, &selected)
}

/// Minimum number of waits; fewer may be coincidence.
const MIN_WAITS: usize = 3;

/// Returns the cost of delayed acknowledgments of the remote host: the local host cannot send until
/// these acknowledgments arrive.
pub(super) fn delayed_ack(view: &mut View<'_>) -> Option<Cause> {
    if view.flow.direction == Direction::Incoming {
        return None;
    }
    let trip_ns = view.trip_ns?;
    let waits: Vec<u64> = gaps(&view.flow.arrivals).map(|(_, gap, _)| gap).collect();
    let is_wait = |ns: u64| ns > trip_ns.saturating_mul(2) && is_of_delayed_ack(ns, trip_ns);
    let similar_waits_ns: Vec<u64> = waits.iter().copied().filter(|ns| is_wait(*ns)).collect();
    let typical = statistics::median(&similar_waits_ns)?;
    // A timer always takes the same time; a loss or a computing host does not.
    let tolerance_ns = typical / 6;
    let is_alike = |ns: u64| ns.abs_diff(typical) <= tolerance_ns;
    if similar_waits_ns.iter().filter(|ns| is_alike(**ns)).count() < MIN_WAITS {
        return None;
    }
    let gain_ns = similar_waits_ns.iter().fold(0_u64, |sum, ns| sum.saturating_add(ns - trip_ns));
    let advice = format!(
        "{} times it delayed an acknowledgment by about {} while this host could send no more \
         data. Use larger buffers on this host, or set TCP_QUICKACK there",
        similar_waits_ns.len(),
        duration(typical.saturating_sub(trip_ns))
    );
    let subject = "The remote host's delayed acknowledgment";
    let cause = view.cause(CauseKind::DelayedAck, gain_ns, subject, advice);
    let selected = view.select(|_| true);
    view.assign_stalls(cause, &selected)
}

/// Returns the cost of a receiver that closes its window because its program does not read.
pub(super) fn zero_window(view: &mut View<'_>) -> Option<Cause> {
    let counts = &view.flow.counts;
    if view.flow.direction == Direction::Incoming {
        let closed_ns = counts.own_window_closed_ns?;
        let gain_ns = closed_ns.saturating_sub(view.trip_or_zero());
        let cause = view.cause(
            CauseKind::ZeroWindow,
            gain_ns,
            "This host's full receive window",
            "plumb did not read as fast as the data arrived. Check what delays it: a slow disk or \
             display, or other processes"
                .to_owned(),
        );
        let selected = view.select(|_| true);
        return view.assign_stalls(cause, &selected);
    }
    let limited_ns = counts.limited_by_window_ns.filter(|ns| *ns > 0)?;
    let long_ns = long_ns(view);
    let has_window_probes = counts.window_probes.is_some_and(|probes| probes > 0);
    let long_waits_ns: u64 =
        sum_ns(&view.stalls.iter().filter(|it| it.ns >= long_ns).copied().collect::<Vec<_>>());
    // Windows that are merely small open again each round trip.
    if !has_window_probes && long_waits_ns < limited_ns / 2 {
        return None;
    }
    if counts.retransmissions.is_none_or(|count| count > 0) && !has_window_probes {
        return None;
    }
    let selected = view.select(|stall| stall.ns >= long_ns / 2);
    let advice = "its program stops reading for that time. Check what the program does with the \
                  data, for example on a full disk";
    let gain_ns = sum_ns(&selected).min(limited_ns.max(long_waits_ns));
    let subject = "The remote host's closed receive window";
    let cause = view.cause(CauseKind::ZeroWindow, gain_ns, subject, advice.to_owned());
    view.assign_stalls(cause, &selected)
}

/// Slow start: ten segments initially (RFC 6928), and twice as many each round trip.
pub(super) const INITIAL_SEGMENTS: u64 = 10;

/// Returns the number of round-trip waits of slow start for `bytes`.
fn slow_start_waits(bytes: u64, mss: u64) -> u64 {
    let windows = bytes / (INITIAL_SEGMENTS * mss.max(1));
    u64::from(u64::BITS - windows.leading_zeros())
}

/// Returns the bytes of a window if an incoming flow arrives in windows. A window must explain the
/// local receive window, or have at least two segments.
pub(super) fn in_windows(flow: &Flow, trip_ns: Option<u64>, mss_bytes: Option<u64>) -> Option<u64> {
    let bytes = window_bytes(&flow.arrivals, trip_ns?)?;
    let is_own_window = flow.counts.window_bytes.is_some_and(|own| is_window_of(own, bytes));
    let has_several_segments = bytes >= mss_bytes.unwrap_or(Path::MIN_MSS).saturating_mul(2);
    (flow.direction == Direction::Incoming && (is_own_window || has_several_segments))
        .then_some(bytes)
}

/// If the segments of a sender do not fill the receive window exactly, the sender still uses at
/// least the window divided by this number.
const MIN_WINDOW_USE_DIVISOR: u64 = 2;

/// Returns whether a receive window of `own` bytes explains that `bytes` arrive per round trip.
const fn is_window_of(own: u64, bytes: u64) -> bool {
    own <= bytes.saturating_mul(MIN_WINDOW_USE_DIVISOR)
}

/// Minimum number of windows of constant size that identify a buffer: a congestion window would
/// have grown by then.
const MIN_CONSTANT_WINDOWS: u64 = 6;

/// Returns the cost of a window that is smaller than the path needs: after each window, the flow
/// stalls until the end of the round trip.
pub(super) fn small_window(view: &mut View<'_>) -> Option<Cause> {
    let trip_ns = view.trip_ns?;
    let bytes = view.flow.bytes;
    let mss = view.path.mss_bytes.unwrap_or(Path::MIN_MSS);
    let is_round_trip = |stall: &Stall| stall.ns >= trip_ns / 4 && stall.ns <= trip_ns * 2;
    let selected = view.select(is_round_trip);
    let waits = u64::try_from(selected.len()).unwrap_or(u64::MAX);
    let bytes_per_wait = bytes / (waits + 1);
    let counts = &view.flow.counts;
    let is_own_window = counts.window_bytes.is_some_and(|own| is_window_of(own, bytes_per_wait));
    // A constant window is not due to slow start.
    let allowed_waits = match view.window_bytes.is_some() || is_own_window {
        true => 0,
        false => slow_start_waits(bytes, mss),
    };
    let excess_waits = waits.checked_sub(allowed_waits).filter(|excess| *excess > 0)?;
    let gain_ns = sum_ns(&selected) / waits * excess_waits;
    if view.flow.direction == Direction::Outgoing {
        // For an outgoing flow, TCP itself reports the limit.
        let limit_times_ns = [counts.limited_by_window_ns, counts.limited_by_buffer_ns];
        let longest_limit_ns = limit_times_ns.into_iter().flatten().max();
        if longest_limit_ns.is_some_and(|ns| ns < gain_ns / 2) {
            return None;
        }
    }
    let size = view.window_bytes.unwrap_or(bytes_per_wait);
    // A lost packet reduces the congestion window, and a buffer that holds more than the first two
    // round trips of slow start is not small. In both cases the round-trip time is the limit, and
    // not a buffer.
    let may_grow = waits < MIN_CONSTANT_WINDOWS || view.window_bytes.is_none();
    let is_window_large = size > mss.saturating_mul(2 * INITIAL_SEGMENTS) && may_grow;
    if (view.has_losses || is_window_large)
        && !is_own_window
        && view.flow.direction == Direction::Incoming
    {
        return None;
    }
    // The first flight has ten segments of any size; a single wait after it is slow start.
    let is_first_flight = waits == 1 && size <= mss.saturating_mul(INITIAL_SEGMENTS);
    if is_first_flight && !is_own_window && view.flow.direction == Direction::Incoming {
        return None;
    }
    let (kind, subject, remedy) = owner_of_window(view, size, is_own_window);
    let advice = format!(
        "{} bytes are sent in each round trip of {}, {}{remedy}",
        count(size),
        duration(trip_ns),
        if waits == 1 { "once".to_owned() } else { format!("{} times", count(waits)) }
    );
    let cause = view.cause(kind, gain_ns, subject, advice);
    let cause = view.assign_stalls(cause, &selected);
    // A local window of the usual size is not a cause; only a smaller one is a setting to change.
    cause.filter(|_| !is_own_window || size < USUAL_WINDOW_BYTES)
}

/// Initial receive buffer of Linux, the second value of `tcp_rmem`.
const USUAL_WINDOW_BYTES: u64 = 131_072;

/// Returns the kind, the subject and the remedy for a window or buffer of `size` bytes: the window
/// of the receiver or, if the receiver offers more, the buffer of the sender.
fn owner_of_window(
    view: &View<'_>,
    size: u64,
    is_own: bool,
) -> (CauseKind, &'static str, &'static str) {
    let counts = &view.flow.counts;
    let is_incoming = view.flow.direction == Direction::Incoming;
    match (is_incoming, counts.window_bytes) {
        (true, Some(own)) if is_own || is_window_of(own, size) => (
            CauseKind::SmallWindow,
            "This host's small receive window",
            ". Increase the receive buffer of this host (net.ipv4.tcp_rmem, SO_RCVBUF)",
        ),
        (true, Some(_)) if view.window_bytes.is_some() => (
            CauseKind::SmallSendBuffer,
            "The remote host's small send buffer",
            ", and the receive window of this host permits more. Increase the send buffer of the \
             remote host (net.ipv4.tcp_wmem, SO_SNDBUF)",
        ),
        (true, Some(_)) => (
            CauseKind::SmallSendBuffer,
            "Either the remote host's small send buffer or its congestion window",
            ", and the receive window of this host permits more. To tell them apart, measure a \
             longer output, in which a congestion window grows and a send buffer does not",
        ),
        (true, None) => (
            CauseKind::SmallWindow,
            "Either this host's small receive window or the remote host's small send buffer",
            ". To tell them apart, repeat with a larger receive buffer on this host \
             (net.ipv4.tcp_rmem), which changes nothing if the send buffer is the limit",
        ),
        (false, _) if counts.limited_by_buffer_ns > counts.limited_by_window_ns => (
            CauseKind::SmallSendBuffer,
            "This host's small send buffer",
            ". Increase the send buffer of this host (net.ipv4.tcp_wmem, SO_SNDBUF)",
        ),
        (false, _) => (
            CauseKind::SmallWindow,
            "The remote host's small receive window",
            ". Increase the receive buffer of the remote host (net.ipv4.tcp_rmem, SO_RCVBUF)",
        ),
    }
}

/// Returns the cost of the peer's full window, if the acknowledgments are unknown and TCP itself
/// reports the time in which the window was full.
pub(super) fn full_window(view: &View<'_>) -> Option<Cause> {
    let flow = view.flow;
    if flow.direction == Direction::Incoming || !flow.arrivals.is_empty() {
        return None;
    }
    let trip_ns = view.trip_ns?;
    let limited_ns = flow.counts.limited_by_window_ns?;
    let bytes_per_trip =
        u128::from(flow.bytes) * u128::from(trip_ns) / u128::from(limited_ns.max(1));
    let advice = format!(
        "{} bits are sent in each round trip of {}. Increase the receive buffer of the remote \
         host, or make its program read faster",
        count(u64::try_from(bytes_per_trip * 8).unwrap_or(u64::MAX)),
        duration(trip_ns)
    );
    Some(view.cause(
        CauseKind::SmallWindow,
        limited_ns,
        "The remote host's small receive window",
        advice,
    ))
}

/// Returns the largest arrivals before index `index`, and from it on.
pub(super) fn largest_around(view: &View<'_>, index: usize) -> Option<(u64, u64)> {
    let (before, after) = view.flow.arrivals.split_at_checked(index)?;
    Some((largest_arrival(before), largest_arrival(after)))
}
