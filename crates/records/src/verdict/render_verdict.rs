//! One sentence on a measurement: its limiting factor, and the best possible value.
//!
//! The rules are tried in the order of [`LoginLimit`]; the first that applies determines the
//! sentence. Too few echoes permit no conclusion, and a loss or a stall hides all later rules. If
//! the parts of an echo differ by less than the time to wake a process, no part is named, because
//! the next run would name another part. Otherwise the group of layers with the largest part of an
//! echo is named: the line, the remote host with the network, the system calls, or local software.
//! System calls are separate from local software because the kernel also works in them for a remote
//! host on the same machine, for example with a TUN device. If a screenful waits for the terminal,
//! the sentence mentions the terminal. The thresholds of noticeable delays are from TM-233 (section
//! 3.1): an echo above 250 ms is unacceptable, and an echo below 25 ms is not noticed.
//!
//! The round-trip time of the network is the smaller of TCP's estimate and the connection time.
//! TCP's estimate includes the time of the remote host if its acknowledgments are carried by
//! echoes. The connection time may include the wait for the local processor.

use crate::format::{count, duration, share};
use crate::layer::{Layer, LayerTime};
use crate::measurement::{Measurement, Screenful};

/// Limiting factor of a login, in the order in which the rules are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginLimit {
    /// Neither an echo nor a screenful was measured.
    NothingMeasured,
    /// Too few echoes for a conclusion.
    TooFewSamples,
    /// Segments were retransmitted: at least one in 100, and more than one.
    Retransmissions,
    /// Nagle's algorithm on one host waited for a delayed acknowledgment of the other.
    NagleStall,
    /// A screenful waits for the terminal, and no echo was measured.
    Terminal,
    /// The parts of an echo differ by less than can be distinguished.
    NothingStandsOut,
    /// The bits on a serial line.
    Line,
    /// The round-trip time of the network.
    RoundTrip,
    /// The remote host.
    RemoteHost,
    /// The remote host and the network, which cannot be distinguished.
    RemoteHostAndNetwork,
    /// The system calls that move the bytes.
    SystemCalls,
    /// Local software.
    LocalProcessor,
    /// The distribution of the time is unknown.
    Unknown,
}

/// Minimum number of echoes for a verdict on their median.
pub const MIN_SAMPLES: u64 = 20;
/// Echo time above which an echo is unacceptable (TM-233 3.1).
const UNACCEPTABLE_NS: u64 = 250_000_000;
/// Echo time below which an echo is not noticed (TM-233 3.1).
const UNNOTICED_NS: u64 = 25_000_000;
/// Loss is the limiting factor if at least the number of sent segments divided by this number was
/// retransmitted, regardless of the times of the layers.
const MIN_LOSS_DIVISOR: u64 = 100;

/// Gaps due to a delayed acknowledgment, with the delay of timer and scheduler, ns. The
/// acknowledgment is delayed by 40 ms on Linux, and by 200 ms with BSD's timer.
const DELAYED_ACK_NS: [std::ops::RangeInclusive<u64>; 2] =
    [38_000_000..=60_000_000, 180_000_000..=260_000_000];
/// Time that the schedulers of both hosts may take to wake the processes, ns.
const WAKEUP_NS: u64 = 100_000;
/// Round-trip time below which a wait may equally be due to a busy remote host, ns.
const LOCAL_NS: u64 = 5_000_000;
/// Round-trip time below which the remote host contributes as much as the network, ns: 100 km of
/// fiber.
const NEAR_NS: u64 = 1_000_000;
/// Start bit, eight data bits, stop bit.
const BITS_PER_BYTE: u64 = 10;
/// RFC 1144 section 1: the 40 bytes of TCP and IP become 3 on average.
const COMPRESSION_SAVES_BYTES: u64 = 37;

/// Layers that are not local software.
const NOT_LOCAL: [Layer; 4] =
    [Layer::Line, Layer::InterruptOrSystemCall, Layer::RunQueue, Layer::RemoteHostAndNetwork];

/// The time of an echo or a screenful.
#[derive(Clone, Copy, Debug)]
struct Timing<'a> {
    name: &'static str,
    total_ns: u64,
    layers: &'a [LayerTime],
}

impl Timing<'_> {
    fn of(&self, layer: Layer) -> u64 {
        let all = self.layers.iter().filter(|part| part.layer == layer);
        all.fold(0, |sum, part| sum.saturating_add(part.ns))
    }

    /// Returns the time of local layers, without the line and the system calls.
    fn own_layers_ns(&self) -> u64 {
        let local_layers = self.layers.iter().filter(|part| !NOT_LOCAL.contains(&part.layer));
        local_layers.fold(0, |sum, part| sum.saturating_add(part.ns))
    }

    /// Returns the times of line, remote host with network, local layers, and system calls.
    fn groups(&self) -> [u64; 4] {
        let [line, remote_ns, calls] =
            [Layer::Line, Layer::RemoteHostAndNetwork, Layer::InterruptOrSystemCall]
                .map(|layer| self.of(layer));
        [line, remote_ns, self.own_layers_ns(), calls]
    }

    fn is_mostly(&self, part_ns: u64) -> bool {
        self.total_ns > 0 && part_ns >= self.total_ns / 2
    }
}

/// Returns the limiting factor of the measured login.
#[must_use]
pub fn limit(measured: &Measurement) -> LoginLimit {
    let echo = echo_of(measured);
    let screenful = screenful_of(measured);
    let Some(timing) = echo.or(screenful) else { return LoginLimit::NothingMeasured };
    if measured.echo.as_ref().is_some_and(|echo| echo.samples < MIN_SAMPLES) {
        return LoginLimit::TooFewSamples;
    }
    if is_lossy(measured) {
        return LoginLimit::Retransmissions;
    }
    if stall(measured).is_some() {
        return LoginLimit::NagleStall;
    }
    if echo.is_none() && timing.is_mostly(timing.of(Layer::Terminal)) {
        return LoginLimit::Terminal;
    }
    let [line, remote_ns, own_layers_ns, calls] = timing.groups();
    if echo.is_some() && is_undecided(measured, timing) {
        return LoginLimit::NothingStandsOut;
    }
    match line.max(remote_ns).max(own_layers_ns).max(calls) {
        0 => LoginLimit::Unknown,
        max if max == line => LoginLimit::Line,
        max if max == calls => LoginLimit::SystemCalls,
        max if max == own_layers_ns => LoginLimit::LocalProcessor,
        _ => match round_trip(measured) {
            // A screenful may take many round trips or none, so it gives no round-trip time.
            Some(_) if echo.is_none() => LoginLimit::RemoteHostAndNetwork,
            Some(trip) if trip >= remote_ns / 2 => LoginLimit::RoundTrip,
            Some(_) => LoginLimit::RemoteHost,
            None => LoginLimit::RemoteHostAndNetwork,
        },
    }
}

/// Returns one sentence: the limiting factor and the best possible value, with numbers and units.
#[must_use]
pub fn verdict(measured: &Measurement) -> String {
    let echo = echo_of(measured);
    let screenful = screenful_of(measured);
    let Some(timing) = echo.or(screenful) else {
        return "The cause is unknown: neither an echo nor a screenful was measured.".to_owned();
    };
    let mut sentence = match limit(measured) {
        LoginLimit::TooFewSamples => return too_few(measured),
        LoginLimit::Retransmissions => return retransmissions(measured, timing),
        LoginLimit::NagleStall => return nagle_stall(measured),
        LoginLimit::NothingStandsOut => undecided(measured, timing),
        LoginLimit::Line => line(measured, timing),
        LoginLimit::SystemCalls => system_calls(timing),
        LoginLimit::LocalProcessor => own_processor(timing),
        LoginLimit::RoundTrip => round_trip_clause(measured, timing),
        LoginLimit::RemoteHost => remote_host(measured, timing),
        LoginLimit::Terminal => terminal(timing),
        LoginLimit::RemoteHostAndNetwork => remote_host_and_network(timing),
        LoginLimit::Unknown | LoginLimit::NothingMeasured => {
            format!("{} takes {}", capitalized(timing.name), duration(timing.total_ns))
                + ", and its parts are unknown"
        }
    };
    if let Some(echo) = echo {
        sentence += noticeability_clause(echo.total_ns);
        sentence += &screenful.map_or_else(String::new, slow_terminal_clause);
    }
    sentence += &few_losses_clause(measured);
    sentence + "."
}

fn echo_of(measured: &Measurement) -> Option<Timing<'_>> {
    let echo = measured.echo.as_ref()?;
    Some(Timing { name: "an echo", total_ns: echo.p50_ns, layers: &echo.layers })
}

fn screenful_of(measured: &Measurement) -> Option<Timing<'_>> {
    let screenful = measured.screenful.as_ref()?;
    let total_ns = screenful.total_ns();
    Some(Timing { name: "a screenful", total_ns, layers: &screenful.layers })
}

/// Returns the number of retransmitted segments, if any, and the number of all segments sent, if
/// known.
fn retransmission_counts(measured: &Measurement) -> Option<(u64, Option<u64>)> {
    let tcp = measured.tcp.as_ref()?;
    let retransmitted = tcp.retransmissions.filter(|retransmitted| *retransmitted > 0)?;
    Some((retransmitted, tcp.segments_out.map(|sent| sent.max(retransmitted))))
}

fn is_lossy(measured: &Measurement) -> bool {
    // A single retransmission may be coincidence, even in a short run.
    let Some((retransmitted @ 2.., Some(sent))) = retransmission_counts(measured) else {
        return false;
    };
    retransmitted.saturating_mul(MIN_LOSS_DIVISOR) >= sent
}

/// Returns the possible error of any part of an echo, including random delays.
fn bound_ns(measured: &Measurement) -> u64 {
    let Some(echo) = &measured.echo else { return WAKEUP_NS };
    // If the median is far above the minimum, the processor was busy with other work.
    let spread_ns = echo.p50_ns.saturating_sub(echo.min_ns) / 2;
    echo.error.map_or(0, |error| error.error_ns).max(WAKEUP_NS).max(spread_ns)
}

/// Returns whether the two largest parts of an echo differ by less than the error, so that another
/// run may reverse their order.
fn is_undecided(measured: &Measurement, timing: Timing<'_>) -> bool {
    let mut groups = timing.groups();
    groups.sort_unstable();
    let [.., second, max] = groups;
    max > 0
        && (max - second <= bound_ns(measured)
            || network_and_host_parts(measured, timing).is_some())
}

/// Splits a short wait for the remote host into the part of the network and the part of the host.
/// Returns `None` if the wait is not the largest part of an echo, or if the two parts differ by
/// more than the error.
fn network_and_host_parts(measured: &Measurement, timing: Timing<'_>) -> Option<(u64, u64)> {
    let remote_ns = timing.of(Layer::RemoteHostAndNetwork);
    let is_remote_part_largest = timing.groups().into_iter().all(|group| group <= remote_ns);
    let trip = round_trip(measured)?.min(remote_ns);
    let host = remote_ns - trip;
    let are_parts_alike = trip.abs_diff(host) <= bound_ns(measured);
    (is_remote_part_largest && are_parts_alike && remote_ns <= LOCAL_NS).then_some((trip, host))
}

fn undecided(measured: &Measurement, timing: Timing<'_>) -> String {
    let bound_text = duration(bound_ns(measured));
    let name = timing.name;
    let total = duration(timing.total_ns);
    let [line, remote_ns, own_layers_ns, calls] = timing.groups();
    let mut parts = [
        (line, "the serial line"),
        (remote_ns, "the remote host with the network"),
        (own_layers_ns, "local layers"),
        (calls, "system calls"),
    ];
    parts.sort_unstable();
    let [.., (second_ns, second), (max_ns, max)] = parts;
    if max_ns - second_ns > bound_ns(measured)
        && let Some((trip, host)) = network_and_host_parts(measured, timing)
    {
        let trip = duration(trip);
        let host = duration(host);
        return format!(
            "The round trip of the network takes {trip} and the remote host {host} of {name} of \
             {total}: the difference is within the error of {bound_text}"
        );
    }
    let max_ns = duration(max_ns);
    let second_ns = duration(second_ns);
    format!(
        "{} {} {max_ns} and {second} {second_ns} of {name} of {total}: the difference is within \
         the error of {bound_text}",
        capitalized(max),
        if max.ends_with('s') { "take" } else { "takes" },
    )
}

fn round_trip(measured: &Measurement) -> Option<u64> {
    let tcp = measured.tcp.as_ref();
    let of_tcp = tcp.map_or([None; 2], |tcp| [tcp.rtt_min_ns, tcp.rtt_ns]);
    of_tcp.into_iter().chain([measured.phases.connect_ns]).flatten().min()
}

/// Returns the gap in the screenful that only a delayed acknowledgment explains.
fn stall(measured: &Measurement) -> Option<u64> {
    let screenful = measured.screenful.as_ref()?;
    let gap = screenful.longest_gap_ns?;
    let timing = screenful_of(measured)?;
    let matches_delayed_ack = DELAYED_ACK_NS.iter().any(|range| range.contains(&gap));
    let is_due_to_line = timing.is_mostly(timing.of(Layer::Line));
    // A network with a round trip as long as the gap also explains the gap.
    let is_due_to_network = round_trip(measured).is_some_and(|trip| trip > gap / 2);
    (matches_delayed_ack && !is_due_to_line && !is_due_to_network).then_some(gap)
}

fn too_few(measured: &Measurement) -> String {
    let echo = measured.echo.as_ref();
    let (samples, p50_ns) = echo.map_or((0, 0), |echo| (echo.samples, echo.p50_ns));
    let plural = if samples == 1 { "echo was" } else { "echoes were" };
    format!(
        "Only {samples} {plural} measured, with a median of {}. A verdict requires at least \
         {MIN_SAMPLES}, and a 99th percentile requires 200.",
        duration(p50_ns)
    )
}

fn retransmissions(measured: &Measurement, timing: Timing<'_>) -> String {
    let (retransmitted, sent) = retransmission_counts(measured).unwrap_or_default();
    let sent = sent.unwrap_or(retransmitted);
    let longest_echo = match &measured.echo {
        Some(echo) => format!("the longest echo took {}", duration(echo.max_ns)),
        None => format!("{} took {}", timing.name, duration(timing.total_ns)),
    };
    let shortest_echo = match &measured.echo {
        Some(echo) => format!("the shortest, without loss, took {}", duration(echo.min_ns)),
        None => "its time without loss is unknown".to_owned(),
    };
    format!(
        "Packet loss limits this login: {} of {} segments ({}) were retransmitted, and \
         {longest_echo}; {shortest_echo}. Check the links of the path for errors.",
        count(retransmitted),
        count(sent),
        share(retransmitted, sent)
    )
}

fn nagle_stall(measured: &Measurement) -> String {
    let gap = stall(measured).unwrap_or_default();
    let total = measured.screenful.as_ref().map_or(0, Screenful::total_ns);
    format!(
        "Nagle's algorithm on the remote host costs {} of the {} of a screenful ({}): it waits for \
         a delayed ACK from this host, without which the screenful takes {}. Set TCP_NODELAY \
         there, or disable delayed acknowledgments here.",
        duration(gap),
        duration(total),
        share(gap, total),
        duration(total.saturating_sub(gap))
    )
}

fn line(measured: &Measurement, timing: Timing<'_>) -> String {
    let line_ns = timing.of(Layer::Line);
    let rate = measured.line_rate();
    let at_rate = rate.map_or_else(String::new, |rate| format!(" at {} bit/s", count(rate)));
    let mut text = format!(
        "The serial line{at_rate} takes {} of {} of {}; without other parts it would take {}",
        share(line_ns, timing.total_ns),
        timing.name,
        duration(timing.total_ns),
        duration(line_ns)
    );
    let packets = if measured.echo.is_some() {
        Some(2)
    } else {
        measured.screenful.as_ref().and_then(|screenful| screenful.segments_in)
    };
    if let Some(saved) =
        rate.zip(packets).and_then(|(rate, packets)| compression_saving_ns(rate, packets))
    {
        // A line whose headers are already compressed cannot save this time.
        if saved < line_ns {
            text += &format!(
                ", and {} with compressed headers (RFC 1144), which save {}",
                duration(line_ns - saved),
                duration(saved)
            );
        }
    }
    text
}

/// Returns the time that header compression saves for `packets` at `rate` bit/s, ns.
fn compression_saving_ns(rate: u64, packets: u64) -> Option<u64> {
    let bits = u128::from(packets) * u128::from(COMPRESSION_SAVES_BYTES * BITS_PER_BYTE);
    u64::try_from(bits * 1_000_000_000 / u128::from(rate)).ok()
}

fn system_calls(timing: Timing<'_>) -> String {
    let calls = timing.of(Layer::InterruptOrSystemCall);
    format!(
        "System calls take {} of {} of {}, and the local layers {}; without the calls it would \
         take {}; if the remote host is on this machine, the calls include kernel work for both \
         hosts",
        share(calls, timing.total_ns),
        timing.name,
        duration(timing.total_ns),
        duration(timing.own_layers_ns()),
        duration(timing.total_ns.saturating_sub(calls))
    )
}

fn own_processor(timing: Timing<'_>) -> String {
    let own_layers_ns = timing.own_layers_ns();
    let costs = timing.layers.iter().filter(|part| !NOT_LOCAL.contains(&part.layer));
    let largest_part = costs.max_by_key(|part| part.ns).map_or_else(String::new, |part| {
        format!(" (largest part: {}, {})", part.layer.text(), duration(part.ns))
    });
    format!(
        "The local software takes {} of {} of {}{largest_part}; without this time, {} would take \
         {}",
        share(own_layers_ns, timing.total_ns),
        timing.name,
        duration(timing.total_ns),
        timing.name,
        duration(timing.total_ns.saturating_sub(own_layers_ns))
    )
}

fn round_trip_clause(measured: &Measurement, timing: Timing<'_>) -> String {
    let remote_ns = timing.of(Layer::RemoteHostAndNetwork);
    let trip = round_trip(measured).unwrap_or(remote_ns).min(remote_ns);
    // A host takes about as long to answer a packet as a near network takes to transmit it.
    let subject = match trip < NEAR_NS {
        true => "The round-trip time of the network and the remote host",
        false => "The round-trip time of the network",
    };
    format!(
        "{subject}, {}, is {} of {} of {}; no setting on this host can reduce it",
        duration(trip),
        share(trip, timing.total_ns),
        timing.name,
        duration(timing.total_ns)
    )
}

fn remote_host(measured: &Measurement, timing: Timing<'_>) -> String {
    let remote_ns = timing.of(Layer::RemoteHostAndNetwork);
    let trip = round_trip(measured).unwrap_or_default();
    format!(
        "The remote host takes {} of {} of {}, and the round trip of the network only {}; without \
         the local parts it would take {}",
        share(remote_ns.saturating_sub(trip), timing.total_ns),
        timing.name,
        duration(timing.total_ns),
        duration(trip),
        duration(remote_ns)
    )
}

fn terminal(timing: Timing<'_>) -> String {
    let ns = timing.of(Layer::Terminal);
    format!(
        "The terminal takes {} of {} of {}; without other parts it would take {}",
        share(ns, timing.total_ns),
        timing.name,
        duration(timing.total_ns),
        duration(ns)
    )
}

fn remote_host_and_network(timing: Timing<'_>) -> String {
    let remote_ns = timing.of(Layer::RemoteHostAndNetwork);
    format!(
        "The remote host and the network take {} of {} of {}; without the local parts it would \
         take {}",
        share(remote_ns, timing.total_ns),
        timing.name,
        duration(timing.total_ns),
        duration(remote_ns)
    )
}

fn noticeability_clause(echo_ns: u64) -> &'static str {
    if echo_ns > UNACCEPTABLE_NS {
        "; more than 250 ms is unacceptable to users"
    } else if echo_ns < UNNOTICED_NS {
        "; users do not notice less than 25 ms"
    } else {
        ""
    }
}

/// Returns an addition for a screenful that waits for the terminal for an unacceptable time.
fn slow_terminal_clause(screenful: Timing<'_>) -> String {
    let ns = screenful.of(Layer::Terminal);
    if !screenful.is_mostly(ns) || screenful.total_ns < UNACCEPTABLE_NS {
        return String::new();
    }
    let total = duration(screenful.total_ns);
    let part = share(ns, screenful.total_ns);
    format!(
        "; the terminal takes {part} of a screenful of {total}, which would take {} without other \
         parts",
        duration(ns)
    )
}

fn few_losses_clause(measured: &Measurement) -> String {
    let Some((retransmitted, sent)) = retransmission_counts(measured) else { return String::new() };
    let of = sent.map_or_else(String::new, |sent| format!(" of {}", count(sent)));
    let segments = if retransmitted == 1 && sent.is_none() { "segment" } else { "segments" };
    let were = if retransmitted == 1 { "was" } else { "were" };
    format!("; {}{of} {segments} {were} retransmitted", count(retransmitted))
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{Echo, TcpStats};

    const MS: u64 = 1_000_000;

    fn blank() -> Measurement {
        let json = include_str!("../../samples/measurement-1.json");
        let mut measured = Measurement::from_json(json).unwrap();
        measured.echo = None;
        measured.screenful = None;
        measured.tcp = None;
        measured.phases.connect_ns = None;
        measured
    }

    fn layers(total_ns: u64, parts: &[(Layer, u64)]) -> Vec<LayerTime> {
        let parts: Vec<_> = parts.iter().map(|&(layer, ns)| LayerTime { layer, ns }).collect();
        crate::statistics::split(total_ns, &parts)
    }

    /// Returns a measurement of 20 echoes with equal times.
    fn echoes(total_ns: u64, parts: &[(Layer, u64)]) -> Measurement {
        let mut measured = blank();
        measured.echo = Some(Echo {
            samples: 20,
            reduced_from: None,
            min_ns: total_ns,
            p50_ns: total_ns,
            p90_ns: total_ns,
            p99_ns: total_ns,
            max_ns: total_ns,
            layers: layers(total_ns, parts),
            layer_spreads: Vec::new(),
            cpu_ns_per_key: None,
            times_ns: Vec::new(),
            error: None,
        });
        measured
    }

    fn with_screenful(
        mut measured: Measurement,
        total_ns: u64,
        gap_ns: u64,
        parts: &[(Layer, u64)],
    ) -> Measurement {
        measured.screenful = Some(Screenful {
            method: None,
            bytes: 2_000,
            cells: 1_920,
            first_to_last_ns: total_ns,
            request_to_last_ns: None,
            first_byte_wait_ns: None,
            error: None,
            segments_in: Some(4),
            longest_gap_ns: Some(gap_ns),
            layers: layers(total_ns, parts),
            arrivals: Vec::new(),
        });
        measured
    }

    fn with_tcp(
        mut measured: Measurement,
        rtt_ns: u64,
        lost: u64,
        sent: Option<u64>,
    ) -> Measurement {
        measured.tcp = Some(TcpStats {
            rtt_ns: Some(rtt_ns),
            retransmissions: Some(lost),
            segments_out: sent,
            ..TcpStats::default()
        });
        measured
    }

    #[test]
    fn twenty_echoes_are_enough_for_a_verdict() {
        let samples = |samples| {
            let mut measured = echoes(30 * MS, &[]);
            measured.echo.as_mut().unwrap().samples = samples;
            measured
        };
        let limits = [19, 20].map(|count| limit(&samples(count)));
        assert_eq!(limits, [LoginLimit::TooFewSamples, LoginLimit::RemoteHostAndNetwork]);
        assert!(verdict(&samples(1)).starts_with("Only 1 echo was measured, with a median of"));
        assert!(verdict(&samples(2)).starts_with("Only 2 echoes were measured"));
    }

    #[test]
    fn two_retransmissions_in_200_segments_limit_a_login() {
        let limit = |lost, sent| limit(&with_tcp(echoes(30 * MS, &[]), 29 * MS, lost, sent));
        let [lossy, distant] = [LoginLimit::Retransmissions, LoginLimit::RoundTrip];
        assert_eq!([200, 201].map(|sent| limit(2, Some(sent))), [lossy, distant]);
        assert_eq!([limit(1, Some(1)), limit(2, None), limit(0, Some(0))], [distant; 3]);
        // Segments sent before the counters began do not reduce the number sent.
        let sentence = verdict(&with_tcp(echoes(30 * MS, &[]), 29 * MS, 9, Some(3)));
        assert!(sentence.contains("9 of 9 segments (100 %) were retransmitted"), "{sentence}");
        let screenful = with_screenful(blank(), 80 * MS, 0, &[]);
        insta::assert_snapshot!(verdict(&with_tcp(screenful, 29 * MS, 2, Some(100))), @"
        Packet loss limits this login: 2 of 100 segments (2 %) were retransmitted, and a screenful took 80.0 ms; its time without loss is unknown. Check the links of the path for errors.
        ");
    }

    #[test]
    fn few_retransmissions_are_mentioned_with_the_number_of_segments() {
        let end = |lost, sent| {
            let sentence = verdict(&with_tcp(echoes(30 * MS, &[]), 29 * MS, lost, sent));
            sentence.rsplit("; ").next().unwrap().to_owned()
        };
        assert_eq!(end(1, Some(900)), "1 of 900 segments was retransmitted.");
        assert_eq!(end(1, None), "1 segment was retransmitted.");
        assert_eq!(end(2, None), "2 segments were retransmitted.");
        assert_eq!(end(0, None), "no setting on this host can reduce it.");
    }

    #[test]
    fn parts_that_differ_by_the_error_are_not_distinguished() {
        let calls = Layer::InterruptOrSystemCall;
        let limit = |difference: u64, min_ns: u64| {
            let parts = [(Layer::Telnet, 10 * MS), (calls, 10 * MS + difference)];
            let mut measured = echoes(20 * MS + difference, &parts);
            measured.echo.as_mut().unwrap().min_ns -= min_ns;
            limit(&measured)
        };
        let [undecided, decided] = [LoginLimit::NothingStandsOut, LoginLimit::SystemCalls];
        assert_eq!([100_000, 100_001].map(|ns| limit(ns, 0)), [undecided, decided]);
        // Half of the spread of the echoes counts if it is more.
        assert_eq!([300_000, 300_001].map(|ns| limit(ns, 600_000)), [undecided, decided]);
    }

    #[test]
    fn the_two_largest_parts_are_named_if_they_are_alike() {
        let calls = Layer::InterruptOrSystemCall;
        let of = |parts: &[(Layer, u64)]| verdict(&echoes(30 * MS, parts));
        let sentences = [
            of(&[(Layer::Telnet, 15 * MS), (calls, 14_950_000)]),
            of(&[(Layer::Telnet, 14_950_000), (calls, 15 * MS)]),
            of(&[(Layer::Line, 15 * MS), (Layer::Telnet, 14_950_000)]),
            of(&[(Layer::Line, 15 * MS)]),
        ];
        insta::assert_snapshot!(sentences.join("\n"), @"
        Local layers take 15.0 ms and system calls 15.0 ms of an echo of 30.0 ms: the difference is within the error of 100 µs.
        System calls take 15.0 ms and local layers 15.0 ms of an echo of 30.0 ms: the difference is within the error of 100 µs.
        The serial line takes 15.0 ms and local layers 15.0 ms of an echo of 30.0 ms: the difference is within the error of 100 µs.
        The serial line takes 15.0 ms and the remote host with the network 15.0 ms of an echo of 30.0 ms: the difference is within the error of 100 µs.
        ");
    }

    #[test]
    fn two_parts_that_differ_by_the_error_are_named_before_network_and_host() {
        let start = |calls: u64| {
            let parts = [(Layer::InterruptOrSystemCall, calls)];
            let measured = with_tcp(echoes(2 * MS + calls, &parts), MS, 0, None);
            verdict(&measured).split(" take").next().unwrap().to_owned()
        };
        assert_eq!(start(1_900_000), "The remote host with the network");
        assert_eq!(start(1_899_999), "The round trip of the network");
    }

    #[test]
    fn network_and_host_are_distinguished_above_five_milliseconds() {
        let limit = |total: u64, rtt_ns: u64| limit(&with_tcp(echoes(total, &[]), rtt_ns, 0, None));
        let undecided = LoginLimit::NothingStandsOut;
        assert_eq!(limit(5 * MS, 2_500_000), undecided);
        assert_eq!(limit(5 * MS + 2, 2_500_001), LoginLimit::RoundTrip);
        // The two parts differ by at most 0.1 ms.
        assert_eq!(
            [2_050_000, 2_050_001].map(|rtt| limit(4 * MS, rtt)),
            [undecided, LoginLimit::RoundTrip]
        );
        assert_eq!(
            [1_950_000, 1_949_999].map(|rtt| limit(4 * MS, rtt)),
            [undecided, LoginLimit::RemoteHost]
        );
        // A round trip of half of the wait is that of the network.
        assert_eq!(
            [20 * MS, 20 * MS - 1].map(|rtt| limit(40 * MS, rtt)),
            [LoginLimit::RoundTrip, LoginLimit::RemoteHost]
        );
    }

    #[test]
    fn a_gap_of_a_delayed_acknowledgment_is_nagle_unless_line_or_network_explain_it() {
        let is_nagle = |gap: u64, rtt_ns: u64, line_ns: u64| {
            let measured = with_screenful(blank(), 1_000 * MS, gap, &[(Layer::Line, line_ns)]);
            limit(&with_tcp(measured, rtt_ns, 0, None)) == LoginLimit::NagleStall
        };
        for (min, max) in [(38, 60), (180, 260)] {
            let [min, max] = [min * MS, max * MS];
            let results = [min - 1, min, max, max + 1].map(|gap| is_nagle(gap, MS, 0));
            assert_eq!(results, [false, true, true, false]);
        }
        assert_eq!([20 * MS, 20 * MS + 1].map(|rtt| is_nagle(40 * MS, rtt, 0)), [true, false]);
        assert_eq!([500 * MS - 1, 500 * MS].map(|line| is_nagle(40 * MS, MS, line)), [true, false]);
    }

    #[test]
    fn a_screenful_without_an_echo_waits_for_the_terminal_from_half_of_its_time_on() {
        let limit = |terminal: u64| {
            let parts = [(Layer::Terminal, terminal), (Layer::Line, 400 * MS)];
            limit(&with_screenful(blank(), 1_000 * MS, 0, &parts))
        };
        let limits = [500 * MS - 1, 500 * MS].map(limit);
        assert_eq!(limits, [LoginLimit::LocalProcessor, LoginLimit::Terminal]);
        let empty = with_screenful(blank(), 0, 0, &[]);
        assert_eq!(super::limit(&empty), LoginLimit::Unknown);
        assert_eq!(verdict(&empty), "A screenful takes 0 ns, and its parts are unknown.");
        let remote = with_tcp(with_screenful(blank(), 90 * MS, 0, &[]), 80 * MS, 0, None);
        assert_eq!(super::limit(&remote), LoginLimit::RemoteHostAndNetwork);
    }

    #[test]
    fn an_echo_is_unacceptable_above_250_ms_and_not_noticed_below_25_ms() {
        let end = |ns: u64| {
            let sentence = verdict(&echoes(ns, &[]));
            sentence.rsplit("; ").next().unwrap().to_owned()
        };
        let usual = "without the local parts it would take";
        assert!(end(250 * MS).starts_with(usual) && end(25 * MS).starts_with(usual));
        assert_eq!(end(250 * MS + 1), "more than 250 ms is unacceptable to users.");
        assert_eq!(end(25 * MS - 1), "users do not notice less than 25 ms.");
    }

    #[test]
    fn a_screenful_that_waits_for_the_terminal_is_mentioned_from_250_ms_on() {
        let is_mentioned = |total: u64, terminal: u64| {
            let parts = [(Layer::Terminal, terminal)];
            let measured = with_screenful(echoes(30 * MS, &[]), total, 0, &parts);
            verdict(&measured).contains("; the terminal takes")
        };
        assert_eq!([250 * MS - 1, 250 * MS].map(|ns| is_mentioned(ns, 125 * MS)), [false, true]);
        assert_eq!([150 * MS - 1, 150 * MS].map(|ns| is_mentioned(300 * MS, ns)), [false, true]);
    }

    #[test]
    fn a_near_round_trip_includes_the_remote_host() {
        let start = |rtt_ns: u64| {
            let measured = with_tcp(echoes(rtt_ns + 200_000, &[]), rtt_ns, 0, None);
            verdict(&measured).split(", ").next().unwrap().to_owned()
        };
        let near = "The round-trip time of the network and the remote host";
        let far = "The round-trip time of the network";
        assert_eq!([MS - 1, MS].map(start), [near, far]);
    }

    #[test]
    fn header_compression_saves_37_bytes_of_each_packet_of_a_line() {
        let mut measured = echoes(100 * MS, &[(Layer::Line, 90 * MS)]);
        measured.via = "serial:/dev/ttyS0?baud=9600".to_owned();
        let screenful = with_screenful(blank(), 400 * MS, 0, &[(Layer::Line, 300 * MS)]);
        let screenful = Measurement { via: measured.via.clone(), ..screenful };
        insta::assert_snapshot!([verdict(&measured), verdict(&screenful)].join("\n"), @"
        The serial line at 9,600 bit/s takes 90 % of an echo of 100 ms; without other parts it would take 90.0 ms, and 12.9 ms with compressed headers (RFC 1144), which save 77.1 ms.
        The serial line at 9,600 bit/s takes 75 % of a screenful of 400 ms; without other parts it would take 300 ms, and 146 ms with compressed headers (RFC 1144), which save 154 ms.
        ");
        assert_eq!(compression_saving_ns(370, 1), Some(1_000_000_000));
        // The line takes as long as the headers that compression would save.
        let saving_ns = compression_saving_ns(9_600, 2).unwrap();
        let is_mentioned = |line_ns: u64| {
            let mut measured = echoes(line_ns, &[(Layer::Line, line_ns)]);
            measured.via = "serial:/dev/ttyS0?baud=9600".to_owned();
            verdict(&measured).contains("RFC 1144")
        };
        assert_eq!([saving_ns, saving_ns + 1].map(is_mentioned), [false, true]);
    }

    #[test]
    fn a_part_of_half_of_the_total_is_most_of_it() {
        let is_mostly = |total_ns, part_ns| {
            Timing { name: "an echo", total_ns, layers: &[] }.is_mostly(part_ns)
        };
        assert!(is_mostly(1, 0) && is_mostly(4, 2) && !is_mostly(4, 1) && !is_mostly(0, 0));
    }
}
