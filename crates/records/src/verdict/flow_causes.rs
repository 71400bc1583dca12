//! Causes of waiting in a flow.
//!
//! The stalls of a flow (see the `traffic` module) are assigned to causes, starting with the kind
//! of cause that has the most reliable symptoms. A stall is assigned only once, so the gains
//! reported for a flow never exceed its duration.

use super::cause::{Cause, CauseKind, Operation};
use super::flow::{Direction, Flow};
use super::flow_view::{Rule, View};
use super::late_echoes::has_late_echoes;
use super::local_software::{is_local_software, sum_of};
use super::losses::is_request_retransmitted;
use super::observation::{Observation, Path};
use super::round_trip::round_trip_ns;
use super::traffic::{burst_rate_bps, gaps, rate_bps, serial_ns, span_ns, stalls, sum_ns};
use super::{losses, rates, round_trip_waits};
use crate::format::{count, duration};
use crate::layer::Layer;
use crate::statistics;

/// Minimum length of a stall, ns; shorter delays are due to the scheduler.
const MIN_STALL_NS: u64 = 5_000_000;

/// Returns the causes that delay the flows of a session.
pub(super) fn causes(observed: &Observation) -> Vec<Cause> {
    let mut views = views(observed);
    let trip_ns = round_trip_ns(observed);
    let whole_flows = views.iter().filter(|view| view.only.is_none());
    let has_losses = whole_flows.clone().any(|view| losses::is_lossy(view.flow));
    let has_losses_while_typing = losses::is_lossy_while_typing(observed);
    let has_late_echoes = has_late_echoes(observed);
    let has_reordering = whole_flows.clone().any(losses::is_reordered);
    // Keys are short: if their echoes are late, short packets are lost as well.
    let mut long = views.iter().filter(|view| view.only != Some(Rule::Windows));
    let black_hole_segment_bytes =
        long.find_map(losses::black_hole_segment_bytes).filter(|_| !has_late_echoes);
    for view in &mut views {
        view.has_losses = has_losses || losses::is_lossy(view.flow);
        view.has_losses_while_typing = has_losses_while_typing || has_late_echoes;
        view.has_reordering = has_reordering;
        view.black_hole_segment_bytes = black_hole_segment_bytes;
    }
    let has_windows = views.iter().any(|view| view.window_bytes.is_some());
    let mut causes: Vec<Cause> = views.into_iter().flat_map(causes_of_flow).collect();
    causes.extend(round_trip_waits::nagle_of_answers(observed, trip_ns));
    causes.extend(rates::emptied_bucket(observed, trip_ns));
    if has_windows {
        // A window seen in one output also limits the other outputs, where it may look like a token
        // bucket.
        causes.retain(|cause| cause.kind != CauseKind::RateLimiter);
    }
    // A wait for a lost packet looks like a wait for an acknowledgment.
    if !has_losses && !has_late_echoes {
        causes.extend(round_trip_waits::nagle_with_delayed_ack(observed, trip_ns));
    }
    causes
}

/// Returns whether packets are reordered in any flow of the session.
pub(super) fn is_disordered(observed: &Observation) -> bool {
    views(observed).iter().filter(|view| view.only.is_none()).any(losses::is_reordered)
}

/// Returns the rate of the slowest link, if the session's flows show it.
pub(super) fn line_bps(observed: &Observation) -> Option<u64> {
    views(observed)
        .iter()
        .filter(|view| view.only.is_none())
        .find_map(|view| rates::observed_line_bps(view))
}

fn views(observed: &Observation) -> Vec<View<'_>> {
    let screenful = observed.screenful.iter().map(|flow| (flow, Operation::Screenful));
    let transfers = observed.transfers.iter().map(|flow| (flow, Operation::Transfer));
    let blocked =
        observed.blocked.iter().map(|flow| (flow, Operation::Screenful, Some(Rule::BlackHole)));
    let sustained = observed.sustained.iter();
    let sustained = sustained.map(|flow| (flow, Operation::Transfer, Some(Rule::Windows)));
    let trip_ns = round_trip_ns(observed);
    let with_delayed_ack = observed.screenful_delayed_ack.as_ref();
    let delayed_ack_first_ns = with_delayed_ack.and_then(|flow| Some(flow.arrivals.first()?.at_ns));
    let layers = observed.echo.as_ref().map(|echo| echo.layers.as_slice()).unwrap_or_default();
    let own_ns = sum_of(layers, is_local_software);
    let mut views = Vec::new();
    let fully_tested_flows =
        screenful.chain(transfers).map(|(flow, operation)| (flow, operation, None));
    for (flow, operation, only) in fully_tested_flows.chain(blocked).chain(sustained) {
        let window_bytes = round_trip_waits::in_windows(flow, trip_ns, observed.path.mss_bytes);
        let is_window_bps = |rate: u64| {
            let window_bps = window_bytes.and_then(|window| rate_bps(window, trip_ns.unwrap_or(0)));
            window_bps.is_some_and(|window_bps| rate / 3 <= window_bps / 2)
        };
        let burst_bps = burst_rate_bps(&flow.arrivals)
            .filter(|rate| !is_window_bps(*rate) && can_be_link_rate(flow, *rate, trip_ns));
        let min_ns = (trip_ns.unwrap_or(0) / 4).max(MIN_STALL_NS);
        let stalls = stalls(flow, burst_bps, min_ns);
        let path = &observed.path;
        views.push(View {
            flow,
            operation,
            only,
            path,
            trip_ns,
            burst_bps,
            window_bytes,
            stalls,
            explained_ns: 0,
            has_losses: false,
            has_losses_while_typing: false,
            expected_loss_ns: losses::expected_cost_ns(observed, flow),
            has_reordering: false,
            other_first_ns: delayed_ack_first_ns.filter(|_| operation == Operation::Screenful),
            own_ns,
            black_hole_segment_bytes: None,
        });
    }
    views
}

/// Minimum number of gaps; with fewer, a stall looks like a slow link.
const MIN_GAPS: usize = 4;

/// Returns whether `observed_bps` may be the rate of a link. The alternative is a flow that arrives
/// in windows of one segment each: such windows are spaced as evenly as packets on a link.
///
/// On a link the first bytes also take their transmission time, whereas the first segment of a
/// window arrives at once. This is checked only if there are few gaps, or if the gaps are as long
/// as a round trip.
fn can_be_link_rate(flow: &Flow, observed_bps: u64, trip_ns: Option<u64>) -> bool {
    let arrivals = &flow.arrivals;
    let mut times: Vec<u64> = gaps(arrivals).map(|(_, gap, _)| gap).collect();
    times.sort_unstable();
    let typical = statistics::nearest_rank(&times, 50).copied().unwrap_or(0);
    let is_round_trip_gap = trip_ns.is_some_and(|trip| typical.abs_diff(trip) <= trip / 5);
    // One window per round trip determines the rate. The window may also take a few round trips,
    // for example if segments have half of its size.
    let is_window_rate = |window: u64| {
        let trip_rate = rate_bps(window, trip_ns.unwrap_or(0)).unwrap_or(u64::MAX);
        window < flow.bytes && observed_bps.saturating_mul(4) > trip_rate
    };
    if is_round_trip_gap && flow.counts.window_bytes.is_some_and(is_window_rate) {
        return false;
    }
    if times.len() >= MIN_GAPS && !is_round_trip_gap {
        return true;
    }
    // The first long arrival may be preceded by an echo of the typed command.
    let mut sizes: Vec<u64> = arrivals.iter().map(|arrival| arrival.bytes).collect();
    sizes.sort_unstable();
    let median_bytes = statistics::nearest_rank(&sizes, 50).copied().unwrap_or(0);
    let Some(at) = arrivals.iter().position(|arrival| arrival.bytes * 2 >= median_bytes) else {
        return false;
    };
    let Some(first) = arrivals.get(at) else { return false };
    let previous_arrival = at.checked_sub(1).and_then(|at| arrivals.get(at));
    let previous_ns = previous_arrival.map_or(0, |arrival| arrival.at_ns);
    let waited_ns = first.at_ns.saturating_sub(previous_ns);
    let needed_ns = serial_ns(first.bytes, observed_bps);
    // Tolerate a quarter less, because the observed rate includes the headers of other packets.
    needed_ns - needed_ns / 4 <= waited_ns
}

fn causes_of_flow(mut view: View<'_>) -> Vec<Cause> {
    match view.only {
        Some(Rule::BlackHole) => return losses::black_hole(&mut view).into_iter().collect(),
        Some(Rule::Windows) if view.window_bytes.is_none() => return Vec::new(),
        Some(Rule::Windows) => {
            return round_trip_waits::small_window(&mut view).into_iter().collect();
        }
        None => {}
    }
    let mut causes = processor(&view);
    causes.extend(processor_wait(&mut view));
    causes.extend(first_byte(&view));
    // The rules with the most reliable symptoms come first; see the module documentation.
    causes.extend(losses::black_hole(&mut view));
    causes.extend(round_trip_waits::zero_window(&mut view));
    causes.extend(rates::rate_limiter(&mut view));
    causes.extend(round_trip_waits::delayed_ack(&mut view));
    causes.extend(round_trip_waits::nagle(&mut view));
    causes.extend(round_trip_waits::nagle_of_a_trip(&mut view));
    causes.extend(losses::reordering(&mut view));
    causes.extend(losses::loss(&mut view));
    causes.extend(round_trip_waits::small_window(&mut view));
    causes.extend(round_trip_waits::full_window(&view));
    causes.extend(rates::small_packets(&view));
    // A flow that arrives in windows leaves the link idle.
    causes.extend(rates::line(&view).filter(|_| view.window_bytes.is_none()));
    if rates::full_bps(&view).is_some() {
        // A full link drops packets when its queue overflows.
        causes.retain(|cause| !cause.kind.is_loss());
    }
    if let Some(rate_bps) = rate_of_a_full_queue(&view) {
        add_repair_cost_to_link(&view, rate_bps, &mut causes);
    }
    causes
}

/// Adds the cost of repairing lost packets to the cost of the link whose queue dropped these
/// packets.
fn add_repair_cost_to_link(view: &View<'_>, rate_bps: u64, causes: &mut Vec<Cause>) {
    let is_line = |cause: &Cause| cause.kind == CauseKind::LineRate;
    let lost_ns =
        causes.iter().filter(|cause| cause.kind.is_loss()).map(|cause| cause.cost_ns).max();
    let Some(lost_ns) = lost_ns else { return };
    causes.retain(|cause| !cause.kind.is_loss());
    // For a short output the rate of the link has not been reported as a cause yet.
    if !causes.iter().any(is_line) {
        causes.push(rates::link(view, rate_bps));
    }
    for cause in causes.iter_mut().filter(|cause| is_line(cause)) {
        cause.cost_ns = cause.cost_ns.saturating_add(lost_ns).min(cause.total_ns);
        cause.gain_ns = cause.gain_ns.saturating_add(lost_ns).min(cause.cost_ns);
        cause.advice = format!(
            "it carries {} bit/s of data, and {} of this cost is the repair of packets that its \
             full queue dropped. Use a faster link, or a larger buffer to avoid the repair",
            count(view.path.line_bps.unwrap_or(rate_bps)),
            duration(lost_ns)
        );
    }
}

/// If a link transmits for at least this percentage of an output's time, it was full before a
/// packet was lost.
const BUSY_PERCENT: u64 = 35;

/// Minimum capacity of an overflowing queue, in full segments.
const QUEUE_SEGMENTS: u64 = 5;

/// Returns the rate of the slowest link, bit/s, if the queue in front of it dropped packets of an
/// output. There are three conditions: the link transmitted for a large part of the time; the
/// round-trip time during the output shows a queue; and no packet was lost while keys were typed
/// one at a time, when the queue was empty.
fn rate_of_a_full_queue(view: &View<'_>) -> Option<u64> {
    let rate_bps = rates::observed_line_bps(view)
        .filter(|_| view.operation == Operation::Transfer && !view.has_losses_while_typing)?;
    let line_ns = serial_ns(view.flow.bytes, rate_bps);
    let mss_bytes = view.path.mss_bytes.unwrap_or(Path::ETHERNET_MSS);
    let queue_ns = serial_ns(mss_bytes.saturating_mul(QUEUE_SEGMENTS), rate_bps);
    let queued_ns = view.path.rtt_under_load_ns.unwrap_or(0).saturating_sub(view.trip_or_zero());
    let is_busy = line_ns.saturating_mul(100) >= view.flow.elapsed_ns.saturating_mul(BUSY_PERCENT);
    (queued_ns >= queue_ns && is_busy).then_some(rate_bps)
}

/// Returns the costs of the local processor: the terminal, other local software, and TLS.
fn processor(view: &View<'_>) -> Vec<Cause> {
    let layers = &view.flow.layers;
    let terminal_ns = sum_of(layers, |layer| layer == Layer::Terminal);
    let own_ns = sum_of(layers, |layer| is_local_software(layer) && layer != Layer::Terminal);
    let mut causes = vec![
        view.cause(
            CauseKind::Terminal,
            terminal_ns,
            "The local terminal",
            "it took that long to display the output. Use a faster terminal, or less color and \
             scrolling"
                .to_owned(),
        ),
        view.cause(
            CauseKind::LocalProcessor,
            own_ns,
            "The local software (plumb)",
            "this is the sum of its layers. Compare the layers, and stop other processes on this \
             host"
                .to_owned(),
        ),
    ];
    if let Some(ns) = view.flow.tls_cpu_ns {
        let advice = "encryption used that much processor time here. Choose a cipher that this \
                      processor has instructions for (AES-GCM)";
        causes.push(view.cause(
            CauseKind::Tls,
            ns,
            "TLS on this host's processor",
            advice.to_owned(),
        ));
    }
    causes
}

/// Returns the cost of the wait for the local processor. If this wait explains half of the time
/// that the flow stalled, no stall is left for other causes.
fn processor_wait(view: &mut View<'_>) -> Option<Cause> {
    let waited_ns = view.flow.own_wait_ns?;
    let advice = "plumb was runnable but not scheduled for that time. Stop other processes on this \
                  host, or give plumb a higher priority (nice) or a processor of its own";
    let subject = "Waiting for a processor on this host";
    let cause = view.cause(CauseKind::LocalProcessor, waited_ns, subject, advice.to_owned());
    let explains_all = waited_ns >= sum_ns(&view.stalls) / 2;
    let selected = view.select(|_| explains_all);
    view.assign_stalls(cause, &selected)
}

/// A flow fills its link if its rate is at least this many tenths of its burst rate.
const FULL_TENTHS: u64 = 5;

/// Returns whether any incoming flow fills the slowest link, so that a queue can form in front of
/// the link; `None` if the rates of the flows are unknown.
pub(super) fn fills_the_line(observed: &Observation) -> Option<bool> {
    let incoming: Vec<View<'_>> = views(observed)
        .into_iter()
        .filter(|view| view.only.is_none() && view.flow.direction == Direction::Incoming)
        .collect();
    let max_burst_bps = incoming.iter().filter_map(|view| view.burst_bps).max()?;
    let transfers = incoming.iter().filter(|view| view.operation == Operation::Transfer);
    let max_mean_bps = transfers
        .filter_map(|view| rate_bps(view.flow.bytes, span_ns(&view.flow.arrivals)?))
        .max()?;
    Some(max_mean_bps.saturating_mul(10) >= max_burst_bps.saturating_mul(FULL_TENTHS))
}

/// Returns the time of the remote host until its first byte, beyond the round trip.
fn first_byte(view: &View<'_>) -> Option<Cause> {
    // The path may have delayed the first byte: long packets vanish, the request was lost, or the
    // first packet was overtaken by others.
    let is_path_delay = view.black_hole_segment_bytes.is_some()
        || view.has_reordering
        || is_request_retransmitted(view);
    if view.flow.direction == Direction::Outgoing || is_path_delay {
        return None;
    }
    let first = view.flow.arrivals.first()?;
    let trip_ns = view.trip_ns?;
    let line_ns = view.burst_bps.map_or(0, |rate| serial_ns(first.bytes, rate));
    // Use the shorter of two measurements, because a single delay of the host is not a cause.
    let first_ns = view.other_first_ns.map_or(first.at_ns, |other| other.min(first.at_ns));
    Some(view.cause(
        CauseKind::RemoteHost,
        first_ns
            .saturating_sub(trip_ns)
            .saturating_sub(line_ns)
            .saturating_sub(view.own_ns)
            .saturating_sub(view.flow.own_wait_ns.unwrap_or(0)),
        "The remote host's slow response",
        format!(
            "its first byte arrives that much later than one round trip of its TCP ({}). Check the \
             program and the load there",
            duration(trip_ns)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{
        MS, arrivals, described, flow, path_with_mss, session, spaced, view,
    };
    use super::super::traffic::stalls as stalls_of;
    use super::*;
    use crate::layer::LayerTime;
    use crate::verdict::FlowCounts;

    const TRIP: u64 = 100 * MS;

    /// Returns whether pieces of 1,000 bytes, of which the first arrives at `first_ns`, can have
    /// the rate of 800,000 bit/s of a link.
    fn is_link(first_ns: u64, gaps: &[u64], window_bytes: Option<u64>) -> bool {
        let mut flow = spaced(first_ns, 1_000, gaps);
        flow.counts.window_bytes = window_bytes;
        can_be_link_rate(&flow, 800_000, Some(TRIP))
    }

    #[test]
    fn with_few_gaps_the_first_piece_of_a_link_takes_its_transmission_time() {
        assert!(is_link(0, &[10 * MS; 4], None));
        assert!(!is_link(0, &[10 * MS; 3], None));
        // Three quarters of 10 ms.
        assert_eq!([7_500_000 - 1, 7_500_000].map(|ns| is_link(ns, &[MS; 3], None)), [false, true]);
    }

    #[test]
    fn gaps_of_a_round_trip_may_be_windows() {
        let gaps = [80 * MS - 1, 80 * MS, 120 * MS, 120 * MS + 1];
        let results = gaps.map(|gap| is_link(0, &[gap; 4], None));
        assert_eq!(results, [true, false, false, true]);
    }

    #[test]
    fn a_window_per_round_trip_explains_the_rate_up_to_a_factor_of_four() {
        let with = |count: usize, window: u64| {
            let mut flow = spaced(TRIP, 1_000, &vec![TRIP; count]);
            flow.counts.window_bytes = Some(window);
            can_be_link_rate(&flow, 80_000, Some(TRIP))
        };
        assert_eq!([3_999, 4_000].map(|window| with(9, window)), [false, true]);
        // A window as large as the flow is no limit.
        assert_eq!([2_999, 3_000].map(|window| with(2, window)), [false, true]);
        // The shorter of two gaps is the usual one.
        let mut flow = spaced(TRIP, 1_000, &[3 * TRIP, TRIP]);
        flow.counts.window_bytes = Some(1_000);
        assert!(!can_be_link_rate(&flow, 80_000, Some(TRIP)));
    }

    #[test]
    fn an_echo_before_the_first_long_piece_is_skipped() {
        let can = |pieces: &[(u64, u64)]| can_be_link_rate(&flow(pieces), 800_000, Some(TRIP));
        let with = |bytes: u64| can(&[(0, bytes), (10 * MS, 1_000), (20 * MS, 1_000)]);
        assert_eq!([499, 500].map(with), [true, false]);
        // The median of the sizes decides, which is the smaller of two.
        assert!(!can(&[(0, 10), (10 * MS, 1_000), (20 * MS, 10)]));
        assert!(!can(&[(0, 10), (10 * MS, 1_000)]));
        assert!(!can(&[]));
    }

    /// Returns the rate of the full queue of a transfer of 35,000 bytes at 800,000 bit/s.
    fn queue_rate(
        elapsed_ns: u64,
        rtt_under_load_ns: u64,
        mss_bytes: Option<u64>,
        change: impl Fn(&mut View<'_>),
    ) -> Option<u64> {
        let flow = Flow { bytes: 35_000, elapsed_ns, ..Flow::default() };
        let path =
            Path { rtt_under_load_ns: Some(rtt_under_load_ns), mss_bytes, ..Path::default() };
        let mut view = view(&flow, &path, 10 * MS);
        view.operation = Operation::Transfer;
        view.burst_bps = Some(800_000);
        change(&mut view);
        rate_of_a_full_queue(&view)
    }

    #[test]
    fn five_segments_in_the_queue_of_a_busy_link_show_that_it_is_full() {
        let second = 1_000 * MS;
        let rate = Some(800_000);
        let queued = |rtt_ns: u64| queue_rate(second, rtt_ns, Some(1_000), |_| ());
        assert_eq!([60 * MS - 1, 60 * MS].map(queued), [None, rate]);
        let default_mss = |rtt_ns: u64| queue_rate(second, rtt_ns, None, |_| ());
        assert_eq!([83 * MS - 1, 83 * MS].map(default_mss), [None, rate]);
        let busy = |elapsed: u64| queue_rate(elapsed, 60 * MS, Some(1_000), |_| ());
        assert_eq!([second, second + 1].map(busy), [rate, None]);
        let changed = |change: fn(&mut View<'_>)| queue_rate(second, second, None, change);
        assert_eq!(changed(|view| view.has_losses_while_typing = true), None);
        assert_eq!(changed(|view| view.operation = Operation::Screenful), None);
    }

    #[test]
    fn the_repair_of_dropped_packets_is_added_to_the_link() {
        let flow = Flow { bytes: 35_000, elapsed_ns: 1_000 * MS, ..Flow::default() };
        let path = path_with_mss(1_000);
        let mut view = view(&flow, &path, 10 * MS);
        view.operation = Operation::Transfer;
        let loss = |ms: u64| view.cause(CauseKind::Loss, ms * MS, "Loss", "x".to_owned());
        let other = view.cause(CauseKind::Terminal, 5 * MS, "Terminal", "x".to_owned());
        let repaired = |causes: &[Cause]| {
            let mut causes = causes.to_vec();
            add_repair_cost_to_link(&view, 800_000, &mut causes);
            causes
        };
        let others = [other.clone()];
        assert_eq!(repaired(&others), others);
        let short = repaired(&[loss(200), other, loss(300)]);
        let limited = repaired(&[loss(900), rates::link(&view, 800_000)]);
        insta::assert_snapshot!(described(&[short, limited].concat()), @"
        terminal of the transfer: 5000000 ns, 5000000 ns of 1000000000 ns
          Terminal costs 5.00 ms of the 1.00 s of the transfer (1 %): x.
        line rate of the transfer: 650000000 ns, 650000000 ns of 1000000000 ns
          The rate of the slowest link costs 650 ms of the 1.00 s of the transfer (65 %): it
          carries 800,000 bit/s of data, and 300 ms of this cost is the repair of packets that its
          full queue dropped. Use a faster link, or a larger buffer to avoid the repair.
        line rate of the transfer: 1000000000 ns, 1000000000 ns of 1000000000 ns
          The rate of the slowest link costs 1.00 s of the 1.00 s of the transfer (100 %): it
          carries 800,000 bit/s of data, and 900 ms of this cost is the repair of packets that its
          full queue dropped. Use a faster link, or a larger buffer to avoid the repair.
        ");
    }

    #[test]
    fn the_local_layers_of_a_flow_are_charged_to_this_host() {
        let layer = |layer, ms: u64| LayerTime { layer, ns: ms * MS };
        let flow = Flow {
            layers: vec![
                layer(Layer::Terminal, 50),
                layer(Layer::Telnet, 30),
                layer(Layer::TcpFixed, 7),
                layer(Layer::Line, 300),
                layer(Layer::RemoteHostAndNetwork, 113),
            ],
            tls_cpu_ns: Some(40 * MS),
            ..flow(&[(500 * MS, 1_000)])
        };
        let path = path_with_mss(1_000);
        let causes = processor(&view(&flow, &path, MS));
        insta::assert_snapshot!(described(&causes), @"
        terminal of a screenful: 50000000 ns, 0 ns of 500000000 ns
          The local terminal costs 50.0 ms of the 500 ms of a screenful (10 %), but removing it
          saves only 0 ns, because other waits remain: it took that long to display the output.
          Use a faster terminal, or less color and scrolling.
        own processor of a screenful: 37000000 ns, 0 ns of 500000000 ns
          The local software (plumb) costs 37.0 ms of the 500 ms of a screenful (7 %), but
          removing it saves only 0 ns, because other waits remain: this is the sum of its layers.
          Compare the layers, and stop other processes on this host.
        TLS here of a screenful: 40000000 ns, 0 ns of 500000000 ns
          TLS on this host's processor costs 40.0 ms of the 500 ms of a screenful (8 %), but
          removing it saves only 0 ns, because other waits remain: encryption used that much
          processor time here. Choose a cipher that this processor has instructions for (AES-GCM).
        ");
    }

    #[test]
    fn a_wait_for_the_processor_that_explains_half_of_the_stalls_explains_all_of_them() {
        let path = path_with_mss(1_000);
        let remaining = |waited: u64| {
            let mut flow = spaced(MS, 1_000, &[100 * MS, 60 * MS]);
            flow.own_wait_ns = Some(waited);
            let mut view = view(&flow, &path, MS);
            let cause = processor_wait(&mut view);
            (cause.map(|cause| cause.cost_ns), view.stalls.len())
        };
        assert_eq!(remaining(80 * MS), (Some(80 * MS), 0));
        assert_eq!(remaining(80 * MS - 1), (Some(80 * MS - 1), 2));
        assert_eq!(remaining(20 * MS), (Some(20 * MS), 2));
        assert_eq!(remaining(20 * MS - 1), (None, 2));
    }

    #[test]
    fn the_first_byte_is_late_beyond_the_known_times() {
        let path = path_with_mss(1_000);
        let flow = Flow { own_wait_ns: Some(3 * MS), ..flow(&[(100 * MS, 1_000)]) };
        let with = |change: fn(&mut View<'_>)| {
            let mut view = view(&flow, &path, 10 * MS);
            view.burst_bps = Some(800_000);
            view.own_ns = 2 * MS;
            change(&mut view);
            first_byte(&view)
        };
        let usual = with(|_| ()).unwrap();
        let other = with(|view| view.other_first_ns = Some(60 * MS)).unwrap();
        let later = with(|view| view.other_first_ns = Some(160 * MS)).unwrap();
        insta::assert_snapshot!(described(&[usual, other, later]), @"
        remote host of a screenful: 75000000 ns, 75000000 ns of 100000000 ns
          The remote host's slow response costs 75.0 ms of the 100 ms of a screenful (75 %): its
          first byte arrives that much later than one round trip of its TCP (10.0 ms). Check the
          program and the load there.
        remote host of a screenful: 35000000 ns, 35000000 ns of 100000000 ns
          The remote host's slow response costs 35.0 ms of the 100 ms of a screenful (35 %): its
          first byte arrives that much later than one round trip of its TCP (10.0 ms). Check the
          program and the load there.
        remote host of a screenful: 75000000 ns, 75000000 ns of 100000000 ns
          The remote host's slow response costs 75.0 ms of the 100 ms of a screenful (75 %): its
          first byte arrives that much later than one round trip of its TCP (10.0 ms). Check the
          program and the load there.
        ");
        let without_wait = Flow { own_wait_ns: None, ..flow.clone() };
        let cause = first_byte(&view(&without_wait, &path, 10 * MS)).unwrap();
        assert_eq!(cause.cost_ns, 90 * MS);
        assert_eq!(with(|view| view.black_hole_segment_bytes = Some(500)), None);
        assert_eq!(with(|view| view.has_reordering = true), None);
        assert!(with(|view| view.has_losses = true).is_some());
        let counts = FlowCounts { retransmissions: Some(1), ..FlowCounts::default() };
        let repeated = Flow { counts, ..flow.clone() };
        let mut lossy = view(&repeated, &path, 10 * MS);
        lossy.has_losses = true;
        assert_eq!(first_byte(&lossy), None);
        let upload = Flow { direction: Direction::Outgoing, ..flow.clone() };
        assert_eq!(first_byte(&view(&upload, &path, 10 * MS)), None);
    }

    #[test]
    fn a_flow_at_half_of_the_burst_rate_fills_the_link() {
        let fills = |slow_ns: u64| {
            let mut observed = session(MS, MS);
            observed.screenful = Some(spaced(10 * MS, 1_000, &[MS; 4]));
            let mut transfer = spaced(10 * MS, 1_000, &[2 * MS; 8]);
            transfer.arrivals[0].bytes = 0;
            transfer.bytes -= 1_000;
            for arrival in transfer.arrivals.iter_mut().skip(8) {
                arrival.at_ns += slow_ns;
            }
            observed.transfers = vec![transfer];
            fills_the_line(&observed)
        };
        assert_eq!([0, 100].map(fills), [Some(true), Some(false)]);
        let mut upload = session(MS, MS);
        let flow = spaced(10 * MS, 1_000, &[MS; 8]);
        upload.transfers = vec![Flow { direction: Direction::Outgoing, ..flow }];
        assert_eq!(fills_the_line(&upload), None);
    }

    #[test]
    fn a_rate_of_a_window_is_not_that_of_a_link() {
        let rate = |gap: u64| {
            let mut observed = session(TRIP, TRIP);
            let window = |trip: u64| [(trip * TRIP, 2_000), (trip * TRIP + gap, 2_000)];
            let pieces: Vec<(u64, u64)> = (1..=9).flat_map(window).collect();
            observed.transfers = vec![flow(&pieces)];
            views(&observed)[0].burst_bps
        };
        // A window of 4,000 bytes gives 320,000 bit/s, and up to 3/2 of this rate is its own.
        assert_eq!([33_333_333, 33_333_000].map(rate), [None, Some(480_004)]);
    }

    #[test]
    fn a_stall_takes_five_milliseconds_or_a_quarter_of_a_round_trip() {
        let lengths = |trip: u64, gaps: &[u64]| {
            let mut observed = session(trip, trip);
            let bytes = 1_000;
            observed.transfers = vec![spaced(trip, bytes, gaps)];
            let found = &views(&observed)[0];
            assert_eq!(found.stalls, stalls_of(found.flow, found.burst_bps, 5 * MS.max(trip / 20)));
            found.stalls.iter().map(|stall| stall.ns).collect::<Vec<_>>()
        };
        let steady = [0; 8];
        let gaps = [&steady[..], &[5 * MS, 5 * MS - 1]].concat();
        assert_eq!(lengths(MS, &gaps), [5 * MS]);
        let gaps = [&steady[..], &[25 * MS, 25 * MS - 1]].concat();
        assert_eq!(lengths(TRIP, &gaps), [25 * MS]);
        assert_eq!(arrivals(&[(1, 2)])[0].bytes, 2);
    }
}
