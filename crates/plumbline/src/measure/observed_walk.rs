//! Observations of a measured login, as the input of the verdict.

use super::answers::Answered;
use super::beside::Loaded;
use super::command::Shown;
use super::console::Watch;
use super::echo::Keystroke;
use super::record::{Circumstances, nanos};
use super::stamp::Rates;
use super::walk::Findings;
use crate::carry::CarrierStatus;
use protocols::time::Duration;
use records::measurement::PromptKind;
use records::verdict::{
    Answers, Arrival, Direction, Echoes, Flow, FlowCounts, Observation, Origin, Path, Steps,
    Unfinished,
};
use records::{Measurement, statistics};

/// Returns the observations of the walk that `record` describes.
pub(super) fn of_walk(
    findings: &Findings,
    circumstances: &Circumstances,
    record: &Measurement,
) -> Observation {
    let (rates, phases) = (circumstances.rates(), &record.phases);
    let echo = record.echo.as_ref().map(|echo| Echoes {
        samples_ns: echo.times_ns.clone(),
        own_wait_ns: own_waits_ns(&findings.keystrokes),
        erasures_ns: findings.erasures.iter().copied().map(nanos).collect(),
        counts: counts_of_echoes(findings),
        layers: echo.layers.clone(),
    });
    let flow = |shown: &Shown, origin| flow(shown, origin, rates);
    let loaded = findings.loaded.as_ref();
    let transfers = loaded.and_then(|loaded| {
        let counts = counts(findings.status_before.as_ref()?, findings.status.as_ref()?);
        Some(Flow { counts, ..flow(&loaded.shown, Origin::Program)? })
    });
    let sustained = findings.sustained.as_ref().and_then(|sustained| {
        let counts = counts(findings.status.as_ref()?, findings.status_sustained.as_ref()?);
        Some(Flow { counts, ..flow(&sustained.loaded.shown, Origin::Program)? })
    });
    let path = path(findings.status.as_ref(), circumstances);
    Observation {
        steps: Steps {
            resolve_ns: phases.resolve_ns,
            connect_ns: phases.connect_ns,
            greeting_ns: findings
                .opened_at
                .zip(findings.heard_at)
                .map(|(from, to)| nanos(to - from)),
            tls_ns: phases.tls_ns,
            tls_own_ns: None,
            negotiation_ns: phases.negotiation_ns,
            // Text that matches no known prompt may be anything.
            prompt_ns: phases
                .login_prompt_ns
                .filter(|_| phases.prompt != Some(PromptKind::Silence)),
            login_ns: findings.login.map(nanos),
            own_wait_ns: findings.login_wait.map(nanos),
        },
        echo,
        echo_train: echoes(&findings.train),
        echo_under_load: longest_load(findings).and_then(|loaded| echoes(&loaded.echoes)),
        screenful: findings.screenful.as_ref().and_then(|(shown, is_command)| {
            let origin = if *is_command { Origin::Program } else { Origin::TypedEcho };
            let [before, after] = &findings.status_of_screenful;
            let after = after.as_ref().or(findings.status.as_ref());
            let counted = before.as_ref().zip(after).map(|(before, after)| counts(before, after));
            Some(Flow { counts: counted.unwrap_or_default(), ..flow(shown, origin)? })
        }),
        unhurried: findings.unhurried.as_ref().and_then(|shown| flow(shown, Origin::Program)),
        answers: answers(&findings.answered),
        transfers: transfers.into_iter().collect(),
        sustained,
        held_up: held_up(findings, path.mss_bytes),
        unfinished: findings.unfinished.map(|unfinished| {
            let is_acknowledged = findings.status.as_ref().and_then(CarrierStatus::is_acknowledged);
            Unfinished { is_acknowledged, ..unfinished }
        }),
        files: None,
        path: Path { rtt_under_load_ns: rtt_under_load_ns(findings), ..path },
    }
}

/// Returns the longest output during which keys were typed: during a short one the queues are not
/// full yet.
fn longest_load(findings: &Findings) -> Option<&Loaded> {
    let sustained = findings.sustained.iter();
    let longer = sustained.flat_map(|one| one.probe.iter().chain([&one.loaded]));
    let all = findings.loaded.iter().chain(longer);
    all.filter(|loaded| !loaded.echoes.is_empty()).max_by_key(|loaded| loaded.screens)
}

/// Returns the TCP round-trip time during that output, or the smoothed one at its end if single
/// keys have no sample.
fn rtt_under_load_ns(findings: &Findings) -> Option<u64> {
    let samples = longest_load(findings).map(|loaded| loaded.round_trips.as_slice());
    let samples = samples.unwrap_or_default().iter().copied().map(nanos).collect::<Vec<u64>>();
    let status = findings.loaded.as_ref().and(findings.status_sustained.as_ref());
    let status = status.or(findings.loaded.as_ref().and(findings.status.as_ref()));
    // The first keys are typed before the queue is full.
    statistics::percentile(&samples, 75).or_else(|| status?.round_trip_ns())
}

/// Returns the time that this process waited for a CPU in each of `keys`; empty if it is unknown
/// for any of them.
fn own_waits_ns(keys: &[Keystroke]) -> Vec<u64> {
    let waits: Option<Vec<u64>> = keys.iter().map(|key| key.run_queue_wait.map(nanos)).collect();
    waits.unwrap_or_default()
}

/// Returns TCP's counters during the echoes, up to the missing one, if there is one.
fn counts_of_echoes(findings: &Findings) -> FlowCounts {
    let [before, after] = &findings.status_of_echoes;
    let is_silent = findings.unfinished.is_some_and(|unfinished| unfinished.is_echo);
    let at_the_end = findings.status.as_ref().filter(|_| is_silent);
    let both = before.as_ref().zip(after.as_ref().or(at_the_end));
    both.map(|(before, after)| counts(before, after)).unwrap_or_default()
}

fn answers(answered: &Answered) -> Option<Answers> {
    let [at_once_ns, late_ns] = [&answered.at_once, &answered.late]
        .map(|times| times.iter().copied().map(nanos).collect::<Vec<u64>>());
    (!late_ns.is_empty()).then_some(Answers { at_once_ns, late_ns })
}

pub(super) fn echoes(times: &[Duration]) -> Option<Echoes> {
    let samples_ns: Vec<u64> = times.iter().copied().map(nanos).collect();
    (!samples_ns.is_empty()).then_some(Echoes { samples_ns, ..Echoes::default() })
}

/// Returns the displayed output as a flow, from Return to its last byte.
fn flow(shown: &Shown, origin: Origin, rates: Rates) -> Option<Flow> {
    let watch = &shown.watch;
    let arrivals: Vec<Arrival> = watch
        .arrivals
        .iter()
        .map(|arrival| Arrival { at_ns: arrival.at_ns, bytes: arrival.bytes })
        .collect();
    let elapsed_ns = arrivals.last()?.at_ns;
    let spent = watch.last?.since(&watch.first?);
    Some(Flow {
        direction: Direction::Incoming,
        origin,
        bytes: watch.bytes,
        elapsed_ns,
        arrivals,
        data_packets: Some(spent.data_segments).filter(|count| *count > 0),
        layers: statistics::split(elapsed_ns, &rates.parts(&spent)),
        own_wait_ns: watch.run_queue_wait.map(nanos),
        tls_own_ns: None,
        counts: FlowCounts::default(),
    })
}

/// Minimum duration of a delayed short output, ns.
const HELD_UP_NS: u64 = 1_000_000_000;

/// Returns the short output that was delayed and then arrived in segments shorter than `mss_bytes`,
/// if another one was fast for its size. If the path drops long packets, the first loss makes the
/// remote host send shorter segments, so that later output does not show the cause.
fn held_up(findings: &Findings, mss_bytes: Option<u64>) -> Option<Flow> {
    let ended_ns = |piece: &Watch| piece.arrivals.last().map(|last| last.at_ns);
    let is_slow = |piece: &&Watch| {
        let no_longer = findings.pieces.iter().filter(|other| other.cells <= piece.cells);
        let scaled = |other: &Watch| {
            Some(ended_ns(other)?.saturating_mul(piece.cells.div_ceil(other.cells.max(1))))
        };
        let quickest_ns = no_longer.filter_map(scaled).min().unwrap_or(u64::MAX);
        ended_ns(piece).is_some_and(|ns| ns >= HELD_UP_NS && ns / 4 > quickest_ns)
    };
    let late = findings.pieces.iter().find(is_slow)?;
    let most = late.arrivals.iter().map(|one| one.bytes).max()?;
    let is_short = most < late.bytes.min(mss_bytes?.saturating_mul(97) / 100);
    let arrivals = late.arrivals.iter();
    is_short.then_some(Flow {
        bytes: late.bytes,
        elapsed_ns: ended_ns(late)?,
        arrivals: arrivals.map(|one| Arrival { at_ns: one.at_ns, bytes: one.bytes }).collect(),
        ..Flow::default()
    })
}

pub(super) fn path(status: Option<&CarrierStatus>, circumstances: &Circumstances) -> Path {
    let rates = circumstances.rates();
    let line_bps = rates.line_bps.map(u64::from);
    let known = Path { line_bps, ..Path::default() };
    match status {
        Some(CarrierStatus::Kernel(info, _)) => Path {
            rtt_ns: Some(u64::from(info.round_trip_us) * 1_000).filter(|ns| *ns > 0),
            min_rtt_ns: info.min_round_trip_us.map(|us| u64::from(us) * 1_000),
            // The MSS is estimated from received segments, and a screenful may have been too short
            // for that.
            mss_bytes: Some(u64::from(info.receive_mss_bytes.max(info.send_mss_bytes))),
            mtu_bytes: Some(info.path_mtu_bytes.into()),
            own_ack_delay_ns: Some(0),
            header_bytes: info.has_timestamps.then_some(Path::HEADER_BYTES_WITH_TIMESTAMPS),
            ..known
        },
        Some(CarrierStatus::Own(status)) => Path {
            rtt_ns: status.srtt.map(nanos),
            min_rtt_ns: status.recovery.min_rtt.map(nanos),
            mss_bytes: Some(status.send_mss.into()),
            own_ack_delay_ns: Some(0),
            ..known
        },
        Some(CarrierStatus::None) | None => known,
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
        (CarrierStatus::Own(old), CarrierStatus::Own(new)) => {
            let (was, is) = (&old.statistics, &new.statistics);
            FlowCounts {
                segments_out: Some(is.segments_out.saturating_sub(was.segments_out)),
                retransmissions: Some(is.retransmissions.saturating_sub(was.retransmissions)),
                timeouts: since(Some(was.timeouts), Some(is.timeouts)),
                out_of_order_in: Some(is.out_of_order.saturating_sub(was.out_of_order)),
                duplicate_reports: since(Some(was.duplicate_reports), Some(is.duplicate_reports)),
                window_bytes: u64::try_from(new.receive_buffer).ok(),
                ..FlowCounts::default()
            }
        }
        _ => FlowCounts::default(),
    }
}
