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
    let smoothed = measured.tcp.as_ref().and_then(|tcp| tcp.rtt_ns);
    [smoothed, measured.phases.connect_ns].into_iter().flatten().min()
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
