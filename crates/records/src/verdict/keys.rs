//! The echo of a key: idle, at a steady pace, and beside other data.
//!
//! Of an echo, what this side's own layers take is measured, and so is the round trip of the
//! network: the shortest one that TCP has seen, or the time to connect. What is left is the far
//! host's. Where no round trip is known that rest is the far host's and the network's together,
//! and neither is accused.
//!
//! What this side waits for its own processor is measured for each echo and subtracted from it before
//! anything else is asked.
//!
//! An echo that is late has lost a packet, or a program has paused. TCP tells the two apart: a host
//! whose program pauses acknowledges the keys, so that nothing is sent again, and nothing comes out of
//! order in the whole session.

use super::cause::{Cause, Kind, Whole};
use super::half_duplex;
use super::losses::{TIMER_NS, lateness_ns, really_lost};
use super::observation::{Echoes, Observation, Path, TRAIN_PACE_NS};
use super::traffic::serial_ns;
use super::waits::{INITIAL_SEGMENTS, KERNEL_DELAY_NS};
use crate::figures::{count, duration};
use crate::measurement::{Layer, LayerTime};
use crate::statistics;

/// Returns the round trip of the network, ns, as short as it was ever seen; the time to connect
/// may contain a wait for this side's processor, and TCP's may contain the far host.
pub(super) fn round_trip_ns(observed: &Observation) -> Option<u64> {
    let path = &observed.path;
    [path.min_rtt_ns, path.rtt_ns, observed.steps.connect_ns].into_iter().flatten().min()
}

/// Returns the round trip of TCP alone, ns: the time to connect may contain a lost packet.
pub(super) fn without_loss_ns(observed: &Observation) -> Option<u64> {
    let path = &observed.path;
    let shortest = observed.echo.as_ref().and_then(|echo| echo.samples_ns.iter().min().copied());
    [path.min_rtt_ns, path.rtt_ns, shortest].into_iter().flatten().min()
}

/// Returns the sum of the `layers` that `is_meant`.
pub(super) fn sum_of(layers: &[LayerTime], is_meant: impl Fn(Layer) -> bool) -> u64 {
    let meant = layers.iter().filter(|part| is_meant(part.layer));
    meant.fold(0, |sum, part| sum.saturating_add(part.ns))
}

/// Returns whether a layer is this side's software. In system calls the kernel may work for a far
/// side that runs on the same machine.
pub(super) const fn is_own(layer: Layer) -> bool {
    !matches!(
        layer,
        Layer::Line | Layer::InterruptOrSystemCall | Layer::RunQueue | Layer::FarSideAndNetwork
    )
}

/// Returns what keys cost.
pub(super) fn causes(observed: &Observation) -> Vec<Cause> {
    let Some(echo) = &observed.echo else { return Vec::new() };
    let net_ns = echo.without_own_wait_ns();
    let Some(median_ns) = statistics::median(&net_ns) else { return Vec::new() };
    let mut found = idle(observed, echo, median_ns);
    if let Some(turns) = half_duplex::of_answers(observed, &net_ns).filter(Cause::stands_out) {
        // What keys wait for beside that, and in a train, is the same medium.
        found.push(turns);
        return found;
    }
    let is_disordered = super::flows::is_disordered(observed);
    if let Some(late) = late_ones(observed, &net_ns, median_ns) {
        // Where a packet is lost now and then, keys behind it wait for that and for nothing else.
        found.push(if is_disordered { disorder(late) } else { late });
        return found;
    }
    if has_own_wait(echo) {
        // The keys that follow were held up here as well.
        return found;
    }
    let behind = under_load(observed, median_ns).into_iter();
    let behind = behind.chain(steady_keys(observed, median_ns));
    found.extend(behind.map(|cause| if is_disordered { disorder(cause) } else { cause }));
    found
}

/// Returns `cause` as what it is where packets overtake each other: echoes come in their order, so
/// one packet that is late holds up all that were behind it.
fn disorder(mut cause: Cause) -> Cause {
    cause.kind = Kind::Reordering;
    "Disorder on the way".clone_into(&mut cause.subject);
    "echoes wait for packets that others have overtaken: look for links in parallel that take \
     packets by turns"
        .clone_into(&mut cause.advice);
    cause
}

/// Bytes of an echo and its key with their headers.
const KEY_BYTES: u64 = 1;
/// A packet with the key, one with the echo.
const KEY_PACKETS: u64 = 2;

/// Returns what the line takes of an echo, ns: a serial line of ours, or the slowest link of the
/// way as its flows have shown it.
fn line_ns(observed: &Observation, echo: &Echoes) -> u64 {
    let measured = sum_of(&echo.layers, |layer| layer == Layer::Line);
    if measured > 0 {
        return measured;
    }
    let path = &observed.path;
    let bytes = KEY_BYTES + path.header_bytes.unwrap_or(Path::HEADER_BYTES);
    // A byte is eight bits to what computes the time.
    let own = path.line_bps.zip(Some(path.line_bits_per_byte.unwrap_or(10)));
    let seen = || super::flows::line_bps(observed).map(|rate| (rate, 8));
    let Some((rate, bits)) = own.or_else(seen) else { return 0 };
    KEY_PACKETS.saturating_mul(serial_ns(bytes, rate)).saturating_mul(bits) / 8
}

fn idle(observed: &Observation, echo: &Echoes, median_ns: u64) -> Vec<Cause> {
    let cause = |kind, gain_ns, subject: String, advice: String| Cause {
        kind,
        of: Whole::Echo,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: median_ns,
        subject,
        advice,
    };
    let own_ns = sum_of(&echo.layers, is_own);
    let line_ns = line_ns(observed, echo);
    let mut found = vec![
        own_wait(echo),
        cause(
            Kind::OwnProcessor,
            own_ns,
            "This side's own software".to_owned(),
            "look at the split by layer, and at what else runs on this machine".to_owned(),
        ),
        cause(
            Kind::LineRate,
            line_ns,
            "The line".to_owned(),
            "a faster line, or compressed headers (RFC 1144), would help".to_owned(),
        ),
    ];
    let Some(trip_ns) = round_trip_ns(observed) else { return found };
    let outside_ns = median_ns.saturating_sub(own_ns);
    let network_ns = trip_ns.min(outside_ns);
    found.push(cause(
        Kind::Distance,
        network_ns.saturating_sub(line_ns),
        "The network's round trip".to_owned(),
        format!(
            "it is as long as {} km of fibre; only a shorter way, or keys shown here before their \
             echo comes (plumb login --predict always), would help",
            count(network_ns / FIBRE_NS_PER_KM)
        ),
    ));
    found.push(cause(
        Kind::FarHost,
        outside_ns.saturating_sub(network_ns.max(line_ns)),
        "The far host".to_owned(),
        format!(
            "it answers a key so long after the round trip of the network and its TCP, {}: look \
             there at the load, and at what sits between its network and the program",
            duration(network_ns)
        ),
    ));
    found
}

/// Returns what the wait for this side's processor costs, on the average of all echoes.
fn own_wait(echo: &Echoes) -> Cause {
    let mean_ns = |times: &[u64]| {
        let sum = times.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        sum / u64::try_from(times.len()).unwrap_or(u64::MAX).max(1)
    };
    let gain_ns = mean_ns(&echo.own_wait_ns);
    let worst_ns = echo.own_wait_ns.iter().max().copied().unwrap_or(0);
    Cause {
        kind: Kind::OwnProcessor,
        of: Whole::Echo,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: mean_ns(&echo.samples_ns),
        subject: "The wait for a processor of this machine".to_owned(),
        advice: format!(
            "plumb was ready to run and waited for up to {} in one echo: end what else runs here, or \
             give plumb a greater share (nice, a processor of its own)",
            duration(worst_ns)
        ),
    }
}

/// Returns whether echoes were held up on this side for longer than is not noticed.
pub(super) fn has_own_wait(echo: &Echoes) -> bool {
    own_wait(echo).stands_out()
}

/// Light in fibre takes 5 µs a kilometre, and has to come back.
const FIBRE_NS_PER_KM: u64 = 10_000;
/// One echo in so many must be late: fewer are chance.
const LATE_ONE_IN: usize = 200;

/// Returns whether some echoes came late, as where packets are lost.
pub(super) fn has_late_echoes(observed: &Observation) -> bool {
    let Some(echo) = &observed.echo else { return false };
    let net_ns = echo.without_own_wait_ns();
    let median_ns = statistics::median(&net_ns);
    median_ns.is_some_and(|median_ns| {
        late_ones(observed, &net_ns, median_ns).is_some_and(|cause| cause.kind != Kind::Pauses)
    })
}

/// So many late echoes with nothing sent again are no chance.
const MANY_LATE: usize = 3;

/// Returns what echoes cost that came late, on the average of all: because packets were lost, or, in a
/// session in which none was, because a program paused.
fn late_ones(observed: &Observation, net_ns: &[u64], median_ns: u64) -> Option<Cause> {
    let echo = observed.echo.as_ref()?;
    // The keys that take others back are held up as often: a pause of every tenth answer may meet none of
    // the others, or one of five.
    let mut all = lateness_ns(net_ns);
    all.extend(lateness_ns(&echo.erasures_ns));
    let late: Vec<u64> = all.iter().copied().filter(|ns| *ns > 0).collect();
    // A single one is chance, unless TCP has sent something again at that time.
    let is_lossy = really_lost(&echo.counts).is_some_and(|lost| lost > 0);
    let fewest = if is_lossy { 1 } else { 2 };
    if late.len() < fewest || late.len() * LATE_ONE_IN < all.len() {
        return None;
    }
    let beyond = late.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    let gain_ns = beyond / u64::try_from(all.len()).unwrap_or(u64::MAX).max(1);
    let samples = all.len();
    let worst = duration(late.iter().max().map_or(0, |ns| median_ns.saturating_add(*ns)));
    // An echo carries the acknowledgment of its key, so a lost one has the key sent again.
    let is_never_again = really_lost(&echo.counts) == Some(0) && late.len() >= MANY_LATE;
    let has_losses = super::flows::has_losses(observed).is_none_or(|lossy| lossy);
    let Late { kind, subject, advice } = match has_losses && !is_never_again {
        false => of_pauses(),
        true => of_loss(&late),
    };
    Some(Cause {
        kind,
        of: Whole::Echo,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: median_ns.saturating_add(gain_ns),
        subject: subject.to_owned(),
        advice: format!("{} of {samples} echoes took up to {worst}, {advice}", late.len()),
    })
}

/// Why echoes were late.
struct Late {
    kind: Kind,
    subject: &'static str,
    advice: &'static str,
}

fn of_loss(late: &[u64]) -> Late {
    let typical = statistics::median(late).unwrap_or(0);
    Late {
        kind: if typical >= TIMER_NS { Kind::RetransmissionTimeouts } else { Kind::Loss },
        subject: "A lost packet now and then",
        advice: "until a timer sent a segment again: look for what drops packets; tail loss probes \
                 (RFC 8985) on both sides would make it two round trips",
    }
}

const fn of_pauses() -> Late {
    Late {
        kind: Kind::Pauses,
        subject: "A program of the remote host that pauses now and then",
        advice: "although its TCP acknowledged the keys, and none was sent again: look there at the \
                 load, at swapping, and at what the program waits for",
    }
}

/// The output that the remote host holds is reported if it accounts for this fraction of an echo's wait.
const HELD_ONE_IN: u64 = 5;

/// A round trip shows at least one part in so many of what a queue holds echoes up: the far
/// side's acknowledgments of a few keys are among it.
const QUEUED_ONE_IN: u64 = 8;

/// Where this side waits for its processor for one part in so many of an output, the echoes beside it do, too.
const WAITED_ONE_IN: u64 = 4;

/// Returns what the wait for this side's processor costs an echo beside the longest output, if this side
/// waited for a good part of that: as large a part of the echo.
fn own_wait_beside_output(observed: &Observation, gain_ns: u64, total_ns: u64) -> Option<Cause> {
    let longest = observed.sustained.as_ref().or(observed.transfers.first())?;
    let (waited_ns, elapsed_ns) = (longest.own_wait_ns?, longest.elapsed_ns.max(1));
    if waited_ns.saturating_mul(WAITED_ONE_IN) < elapsed_ns {
        return None;
    }
    let part = u128::from(gain_ns) * u128::from(waited_ns.min(elapsed_ns)) / u128::from(elapsed_ns);
    let ns = u64::try_from(part).unwrap_or(gain_ns);
    Some(Cause {
        kind: Kind::OwnProcessor,
        of: Whole::EchoUnderLoad,
        cost_ns: ns,
        gain_ns: ns,
        total_ns,
        subject: "The wait for a processor of this machine".to_owned(),
        advice: format!(
            "plumb was ready to run and waited for {} of the {} of an output: look at what else runs here",
            duration(waited_ns),
            duration(elapsed_ns)
        ),
    })
}

/// Returns how long the slowest link takes for the first flight of a sender, ns, if its rate was seen.
pub(super) fn first_flight_ns(observed: &Observation) -> Option<u64> {
    let mss_bytes = observed.path.mss_bytes.unwrap_or(Path::ETHERNET_MSS);
    let rate_bps = super::flows::line_bps(observed)?;
    Some(serial_ns(INITIAL_SEGMENTS * mss_bytes, rate_bps))
}

/// Returns what a queue costs that other data fills.
fn under_load(observed: &Observation, idle_ns: u64) -> Option<Cause> {
    let loaded = observed.echo_under_load.as_ref()?;
    let total_ns = loaded.settled_ns()?;
    let gain_ns = total_ns.saturating_sub(idle_ns);
    if let Some(cause) = own_wait_beside_output(observed, gain_ns, total_ns) {
        return Some(cause);
    }
    // A queue stands only in front of a link that is full.
    if super::flows::fills_the_line(observed) == Some(false) {
        return None;
    }
    // On a slow line the first flight of any sender is as long: that is the line, and not its queue.
    let flight_ns = first_flight_ns(observed).unwrap_or(0);
    if gain_ns <= flight_ns {
        return None;
    }
    // A queue holds up the far side's acknowledgments as well: where they come at once, echoes wait
    // in the far host.
    let trip_ns = round_trip_ns(observed).unwrap_or(0);
    let waits_ns = observed.path.rtt_under_load_ns.map(|rtt| rtt.saturating_sub(trip_ns));
    if waits_ns.is_some_and(|waits| waits < gain_ns / QUEUED_ONE_IN) {
        return None;
    }
    let cost_ns = waits_ns.unwrap_or(gain_ns).min(gain_ns);
    let held_ns = gain_ns - cost_ns;
    let held = match held_ns >= gain_ns / HELD_ONE_IN {
        false => String::new(),
        true => format!(
            "; for another {} the remote host holds the echo behind output that it has not sent",
            duration(held_ns)
        ),
    };
    Some(Cause {
        kind: Kind::Queue,
        of: Whole::EchoUnderLoad,
        cost_ns,
        // A queue that is as short as it should be still holds the first flight of a sender.
        gain_ns: cost_ns.saturating_sub(flight_ns),
        total_ns,
        subject: "The queue in front of the slowest link".to_owned(),
        advice: format!(
            "an echo takes {} where nothing else comes; a fair or shorter queue there (fq_codel), \
             or a smaller window here, would help{held}",
            duration(idle_ns)
        ),
    })
}

/// With fewer quick echoes beside it, a pause is not told from keys that wait for each other.
const FEWEST_QUICK: usize = 3;
/// An echo that is longer than another by one part in so many, or by so much, is as quick.
const QUICK_ONE_IN: u64 = 8;
const QUICK_NS: u64 = 3_000_000;
/// Echoes that differ by the pace of their keys, but for so much, come together.
const TOGETHER_NS: u64 = 15_000_000;

/// Returns whether all echoes of a train that are late come together, behind one pause: where
/// each key waits for the one before it, they come one after the other.
fn is_one_pause(train_ns: &[u64], idle_ns: u64) -> bool {
    let late_ns = idle_ns.saturating_add(TRAIN_PACE_NS);
    let late = train_ns.iter().filter(|ns| **ns > late_ns).count();
    // Where keys and echoes are in each other's way, no echo is as quick as one alone.
    let quick_ns = idle_ns.saturating_add((idle_ns / QUICK_ONE_IN).max(QUICK_NS));
    let others = train_ns.iter().filter(|ns| **ns <= late_ns);
    if others.clone().count() < FEWEST_QUICK || others.clone().any(|ns| *ns > quick_ns) {
        return false;
    }
    let mut run = 0;
    let mut longest = 0;
    for pair in train_ns.windows(2) {
        let [before, after] = pair else { continue };
        let is_together = before.saturating_sub(*after).abs_diff(TRAIN_PACE_NS) <= TOGETHER_NS;
        run = if is_together { run + 1 } else { 0 };
        longest = run.max(longest);
    }
    longest >= FEWEST_TOGETHER && longest + 2 >= late
}

/// So many echoes that come together are more than a few that were written at once.
const FEWEST_TOGETHER: usize = 5;

/// Returns what it costs that keys which are struck at a steady pace wait for each other's echoes:
/// because the way carries one direction at a time, or by Nagle's algorithm.
fn steady_keys(observed: &Observation, idle_ns: u64) -> Option<Cause> {
    let train = observed.echo_train.as_ref()?;
    let total_ns = statistics::median(&train.samples_ns)?;
    if is_one_pause(&train.samples_ns, idle_ns) {
        return None;
    }
    let gain_ns = total_ns.checked_sub(idle_ns)?;
    // A far host that computes longer than a person takes for a key makes them wait just so.
    let trip_ns = round_trip_ns(observed)?;
    if idle_ns.saturating_sub(trip_ns) > trip_ns {
        return None;
    }
    // Nagle's algorithm lets each echo wait for the acknowledgment of the one before: no longer
    // than a round trip, and what this side puts an acknowledgment of a key off.
    if gain_ns <= trip_ns + trip_ns / 5 + KERNEL_DELAY_NS {
        return Some(Cause {
            kind: Kind::Nagle,
            of: Whole::EchoTrain,
            cost_ns: gain_ns,
            gain_ns,
            total_ns,
            subject: "The far side's Nagle algorithm".to_owned(),
            advice: format!(
                "who types fast waits for the acknowledgment of one echo until the next is sent, \
                 and a key that is struck alone comes back in {}: set TCP_NODELAY there",
                duration(idle_ns)
            ),
        });
    }
    Some(Cause {
        kind: Kind::HalfDuplex,
        of: Whole::EchoTrain,
        cost_ns: gain_ns,
        gain_ns,
        total_ns,
        subject: "A way that carries one direction at a time".to_owned(),
        advice: format!(
            "a key that is struck alone comes back in {}; look for a half-duplex line or modem, or \
             edit lines here",
            duration(idle_ns)
        ),
    })
}
