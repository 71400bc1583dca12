//! Observations of a measured login, as the input of the verdict.

use super::circumstances::{Carrier, Circumstances};
use super::command_response::ResponseTimes;
use super::concurrent_echo::EchoUnderLoad;
use super::console::Watch;
use super::echo::Keystroke;
use super::nanoseconds::nanos;
use super::screen_output::ReceivedOutput;
use super::session_results::SessionResults;
use super::timestamps::Rates;
use carrier::CarrierStatus;
use net::time::Duration;
use records::measurement::PromptKind;
use records::verdict::{
    Answers, Arrival, Direction, Echoes, Flow, FlowCounts, Observation, Origin, Path, Steps,
    Unfinished,
};
use records::{Measurement, statistics};

/// Returns the observations of the session that `record` describes.
pub(super) fn of_session(
    findings: &SessionResults,
    circumstances: &Circumstances,
    record: &Measurement,
) -> Observation {
    let rates = circumstances.rates();
    // The acknowledgments of a program on a pseudo-terminal are not those of this process.
    let is_program = matches!(circumstances.carrier, Carrier::Program);
    let sends_acknowledgments = !is_program;
    let echo = record.echo.as_ref().map(|echo| Echoes {
        samples_ns: echo.times_ns.clone(),
        own_wait_ns: own_waits_ns(&findings.keystrokes),
        erasures_ns: findings.erasures.iter().copied().map(nanos).collect(),
        counts: counts_of_echoes(findings),
        layers: echo.layers.clone(),
    });
    let flow = |received: &ReceivedOutput, origin| flow(received, origin, rates);
    let under_load = findings.under_load.as_ref();
    let transfers = under_load.and_then(|under_load| {
        let counts = counts(findings.status_before.as_ref()?, findings.status.as_ref()?);
        Some(Flow { counts, ..flow(&under_load.received, Origin::Program)? })
    });
    let sustained = findings.sustained.as_ref().and_then(|sustained| {
        let counts = counts(findings.status.as_ref()?, findings.status_sustained.as_ref()?);
        Some(Flow { counts, ..flow(&sustained.under_load.received, Origin::Program)? })
    });
    let path = path(findings.status.as_ref(), circumstances);
    Observation {
        steps: steps(findings, record, is_program),
        echo,
        echo_train: echoes(&findings.paced_echoes),
        echo_under_load: longest_load(findings).and_then(|under_load| echoes(&under_load.echoes)),
        screenful: findings.screenful.as_ref().and_then(|(received, is_command)| {
            let origin = if *is_command { Origin::Program } else { Origin::TypedEcho };
            let [before, after] = &findings.status_of_screenful;
            let final_status = after.as_ref().or(findings.status.as_ref());
            let tcp_counts = before
                .as_ref()
                .zip(final_status)
                .map(|(before, final_status)| counts(before, final_status));
            Some(Flow { counts: tcp_counts.unwrap_or_default(), ..flow(received, origin)? })
        }),
        screenful_delayed_ack: findings
            .screenful_delayed_ack
            .as_ref()
            .filter(|_| sends_acknowledgments)
            .and_then(|received| flow(received, Origin::Program)),
        answers: answers(&findings.response_times).filter(|_| sends_acknowledgments),
        transfers: transfers.into_iter().collect(),
        sustained,
        blocked: find_blocked_output(findings, path.mss_bytes),
        unfinished: findings.unfinished.map(|unfinished| {
            let is_acknowledged = findings.status.as_ref().and_then(CarrierStatus::is_acknowledged);
            Unfinished { is_acknowledged, ..unfinished }
        }),
        files: None,
        path: Path { rtt_under_load_ns: rtt_under_load_ns(findings), ..path },
    }
}

/// Returns the times of the steps until the session was usable.
fn steps(findings: &SessionResults, record: &Measurement, is_program: bool) -> Steps {
    let phases = &record.phases;
    let greeting = findings.opened_at.zip(findings.first_data_at).map(|(from, to)| to - from);
    // Text that matches no known prompt may be any output.
    let has_known_prompt = phases.prompt != Some(PromptKind::Silence);
    Steps {
        resolve_ns: phases.resolve_ns,
        connect_ns: phases.connect_ns,
        is_program,
        greeting_ns: greeting.map(nanos).filter(|_| !is_program),
        tls_ns: phases.tls_ns,
        tls_cpu_ns: None,
        negotiation_ns: phases.negotiation_ns,
        prompt_ns: phases.login_prompt_ns.filter(|_| has_known_prompt),
        password_prompt_ns: phases.password_prompt_ns,
        login_ns: findings.login.map(nanos),
        own_wait_ns: findings.login_wait.map(nanos),
    }
}

/// Returns the longest output during which keys were typed. A short output does not fill the
/// queues.
pub(super) fn longest_load(findings: &SessionResults) -> Option<&EchoUnderLoad> {
    let sustained = findings.sustained.iter();
    let longer_outputs =
        sustained.flat_map(|output| output.probe.iter().chain([&output.under_load]));
    let all_outputs = findings.under_load.iter().chain(longer_outputs);
    all_outputs
        .filter(|under_load| !under_load.echoes.is_empty())
        .max_by_key(|under_load| under_load.screens)
}

/// Returns the TCP round-trip time during the longest output, or the smoothed round-trip time at
/// the end of the output if no key has a round-trip time sample.
fn rtt_under_load_ns(findings: &SessionResults) -> Option<u64> {
    let samples = longest_load(findings).map(|under_load| under_load.round_trips.as_slice());
    let samples = samples.unwrap_or_default().iter().copied().map(nanos).collect::<Vec<u64>>();
    let status = findings.under_load.as_ref().and(findings.status_sustained.as_ref());
    let status = status.or(findings.under_load.as_ref().and(findings.status.as_ref()));
    // The first keys are typed before the queue is full.
    statistics::percentile(&samples, 75).or_else(|| status?.round_trip_ns())
}

/// Returns the time that this process waited for a CPU in each of `keys`; empty if it is unknown
/// for any of them.
fn own_waits_ns(keys: &[Keystroke]) -> Vec<u64> {
    let waits: Option<Vec<u64>> = keys.iter().map(|key| key.run_queue_wait.map(nanos)).collect();
    waits.unwrap_or_default()
}

/// Returns TCP's counters during the echoes, up to the missing echo if an echo is missing.
fn counts_of_echoes(findings: &SessionResults) -> FlowCounts {
    let [before, after] = &findings.status_of_echoes;
    let is_silent = findings.unfinished.is_some_and(|unfinished| unfinished.is_echo);
    let at_the_end = findings.status.as_ref().filter(|_| is_silent);
    let statuses = before.as_ref().zip(after.as_ref().or(at_the_end));
    statuses.map(|(before, after)| counts(before, after)).unwrap_or_default()
}

fn answers(response_times: &ResponseTimes) -> Option<Answers> {
    let [quick_ack_ns, delayed_ack_ns] = [&response_times.quick_ack, &response_times.delayed_ack]
        .map(|times| times.iter().copied().map(nanos).collect::<Vec<u64>>());
    (!delayed_ack_ns.is_empty()).then_some(Answers { quick_ack_ns, delayed_ack_ns })
}

pub(super) fn echoes(times: &[Duration]) -> Option<Echoes> {
    let samples_ns: Vec<u64> = times.iter().copied().map(nanos).collect();
    (!samples_ns.is_empty()).then_some(Echoes { samples_ns, ..Echoes::default() })
}

/// Returns the displayed output as a flow, from Return to its last byte.
fn flow(received: &ReceivedOutput, origin: Origin, rates: Rates) -> Option<Flow> {
    let watch = &received.watch;
    let arrivals: Vec<Arrival> = watch
        .arrivals
        .iter()
        .map(|arrival| Arrival { at_ns: arrival.at_ns, bytes: arrival.bytes })
        .collect();
    let elapsed_ns = arrivals.last()?.at_ns;
    let spent = watch.last_cell_at?.time_since(&watch.first_cell_at?);
    Some(Flow {
        direction: Direction::Incoming,
        origin,
        bytes: watch.bytes,
        elapsed_ns,
        arrivals,
        data_packets: Some(spent.data_segments).filter(|count| *count > 0),
        layers: statistics::split(elapsed_ns, &rates.parts(&spent)),
        own_wait_ns: watch.run_queue_wait.map(nanos),
        tls_cpu_ns: None,
        counts: FlowCounts::default(),
    })
}

/// Minimum duration in ns at which a short output counts as delayed.
const DELAYED_OUTPUT_MIN_NS: u64 = 1_000_000_000;

/// Returns a short output that was delayed and had segments shorter than `mss_bytes`, if another
/// short output was fast for its size. This combination indicates a path that drops long packets.
/// After the first loss the remote host sends shorter segments, so later outputs no longer show the
/// cause.
fn find_blocked_output(findings: &SessionResults, mss_bytes: Option<u64>) -> Option<Flow> {
    let ended_ns = |output: &Watch| output.arrivals.last().map(|last| last.at_ns);
    let is_delayed = |output: &&Watch| {
        let other_outputs =
            findings.short_outputs.iter().filter(|other| other.cells <= output.cells);
        let scaled_ns = |other: &Watch| {
            Some(ended_ns(other)?.saturating_mul(output.cells.div_ceil(other.cells.max(1))))
        };
        let quickest_ns = other_outputs.filter_map(scaled_ns).min().unwrap_or(u64::MAX);
        ended_ns(output).is_some_and(|ns| ns >= DELAYED_OUTPUT_MIN_NS && ns / 4 > quickest_ns)
    };
    let delayed = findings.short_outputs.iter().find(is_delayed)?;
    let largest_arrival_bytes = delayed.arrivals.iter().map(|arrival| arrival.bytes).max()?;
    let has_short_segments =
        largest_arrival_bytes < delayed.bytes.min(mss_bytes?.saturating_mul(97) / 100);
    let arrivals = delayed.arrivals.iter();
    has_short_segments.then_some(Flow {
        bytes: delayed.bytes,
        elapsed_ns: ended_ns(delayed)?,
        arrivals: arrivals
            .map(|arrival| Arrival { at_ns: arrival.at_ns, bytes: arrival.bytes })
            .collect(),
        ..Flow::default()
    })
}

pub(super) fn path(status: Option<&CarrierStatus>, circumstances: &Circumstances) -> Path {
    let rates = circumstances.rates();
    let line_bps = rates.line_bps.map(u64::from);
    let known_path = Path { line_bps, ..Path::default() };
    match status {
        Some(CarrierStatus::Kernel(info, _)) => Path {
            rtt_ns: Some(u64::from(info.round_trip_us) * 1_000).filter(|ns| *ns > 0),
            min_rtt_ns: info.min_round_trip_us.map(|us| u64::from(us) * 1_000),
            // The kernel estimates the receive MSS from received segments. A screenful may have
            // been too short for that estimate, so the larger MSS is used.
            mss_bytes: Some(u64::from(info.receive_mss_bytes.max(info.send_mss_bytes))),
            mtu_bytes: Some(info.path_mtu_bytes.into()),
            own_ack_delay_ns: Some(0),
            header_bytes: info.has_timestamps.then_some(Path::HEADER_BYTES_WITH_TIMESTAMPS),
            ..known_path
        },
        Some(CarrierStatus::UserSpace(status)) => Path {
            rtt_ns: status.srtt.map(nanos),
            min_rtt_ns: status.recovery.min_rtt.map(nanos),
            mss_bytes: Some(status.send_mss.into()),
            own_ack_delay_ns: Some(0),
            ..known_path
        },
        Some(CarrierStatus::None) | None => known_path,
    }
}

/// Returns the difference of TCP's counters between two statuses.
fn counts(before: &CarrierStatus, after: &CarrierStatus) -> FlowCounts {
    let since = |old: Option<u32>, new: Option<u32>| Some(u64::from(new?.saturating_sub(old?)));
    match (before, after) {
        (CarrierStatus::Kernel(old, _), CarrierStatus::Kernel(new, _)) => FlowCounts {
            segments_out: since(old.segments_out, new.segments_out),
            retransmissions: since(
                Some(old.total_retransmissions),
                Some(new.total_retransmissions),
            ),
            out_of_order_in: since(old.out_of_order_segments, new.out_of_order_segments),
            duplicate_reports: since(old.duplicate_reports, new.duplicate_reports),
            reorderings: since(old.reorderings, new.reorderings),
            window_bytes: new.own_window_bytes.map(u64::from).filter(|bytes| *bytes > 0),
            ..FlowCounts::default()
        },
        (CarrierStatus::UserSpace(old), CarrierStatus::UserSpace(new)) => {
            let old_counters = &old.statistics;
            let new_counters = &new.statistics;
            FlowCounts {
                segments_out: Some(
                    new_counters.segments_out.saturating_sub(old_counters.segments_out),
                ),
                retransmissions: Some(
                    new_counters.retransmissions.saturating_sub(old_counters.retransmissions),
                ),
                timeouts: since(Some(old_counters.timeouts), Some(new_counters.timeouts)),
                out_of_order_in: Some(
                    new_counters.out_of_order.saturating_sub(old_counters.out_of_order),
                ),
                duplicate_reports: since(
                    Some(old_counters.duplicate_reports),
                    Some(new_counters.duplicate_reports),
                ),
                window_bytes: u64::try_from(new.receive_buffer).ok(),
                ..FlowCounts::default()
            }
        }
        _ => FlowCounts::default(),
    }
}
