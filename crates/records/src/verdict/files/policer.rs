//! A rate limiter that drops: a token bucket without a queue.
//!
//! Segments pass at the rate of the sender until the bucket is empty, and are dropped from then on until
//! there are tokens again. So they arrive in bursts, as those of a sender without a limit, and losses
//! come as chance does not make them: the first one behind as many bytes in each transfer, and as many
//! bytes in the time of each burst. Behind a link that is full, whose queue drops as well, segments
//! follow each other without silences.

use super::data::{self, FEWEST_SEGMENTS, Least, has_losses, lost};
use super::ftp_transfer::View;
use super::observed::FileTransfer;
use super::shape::{alike_percent, per_period, spaced_bps};
use crate::figures::{count, rate};
use crate::verdict::cause::{Cause, Kind};
use crate::verdict::traffic::{rate_bps, serial_ns, span_ns};
use crate::verdict::{Arrival, Direction};

/// Into so many parts the time of a policed transfer is cut.
const PARTS: u64 = 12;
/// So many parts of a hundred of these bring as much as each other.
const ALIKE_PERCENT: u64 = 60;
/// From so many parts of a hundred on, what is sent again was dropped on purpose, or in a full queue.
const HEAVY_PERCENT: u64 = 15;
/// What passes a full bucket saves at least so much, ns.
const LEAST_SAVED_NS: u64 = 8_000_000;

/// Returns what a token bucket costs that drops: at once, or what finds no room in a short queue.
pub(super) fn policer(view: &View<'_>) -> Option<Cause> {
    let shape = &view.shape;
    let mean_bps = rate_bps(shape.bytes, shape.span_ns)?;
    let bursts = Bursts::of(view, LEAST_SILENCE_NS.max(view.trip / 2));
    let least = Least { segments: FEWEST_SEGMENTS, saved_ns: LEAST_SAVED_NS };
    let passed = data::passed_before(view, mean_bps, least).filter(|_| is_even(view));
    let place = first_loss_bytes(view);
    let place =
        place.filter(|_| bursts.are_most && (is_even(view) || bursts.are_alike(ALIKE_PERCENT)));
    let is_dropped = place.is_some() || is_heavy(view) || is_in_cycles(view);
    if passed.is_none() && (!is_dropped || fills_queue(view) || is_spaced(view)) {
        return None;
    }
    let ns = data::without_window_ns(view);
    let before = passed.or(place).map_or_else(
        || "little passes at once".to_owned(),
        |bytes| format!("about {} bytes pass at once without loss", count(bytes)),
    );
    // What a queue spaces comes without silences, and is dropped where the queue is full.
    let is_queue = passed.is_some() && !bursts.are_most;
    let (subject, dropped, instead) = match is_queue {
        true => (
            "A rate limiter (token bucket) on the path",
            "segments follow each other and are dropped where its queue is full",
            "for a deeper queue",
        ),
        false => (
            "A rate limiter on the path that drops packets (policer)",
            "segments are dropped",
            "for one that delays instead",
        ),
    };
    let advice = format!(
        "{before}, and from then on {dropped}, and the data comes at {}: ask the network's operator for \
         the limit, or {instead}",
        rate(mean_bps)
    );
    Some(view.cause(Kind::RateLimiter, (ns, ns), subject, advice))
}

/// A queue holds so many full segments at least.
const QUEUE_SEGMENTS: u64 = 6;
/// A receiver that delays its acknowledgments makes a round trip longer by no more than this on the
/// average, ns.
const DELAYED_ACK_NS: u64 = 30_000_000;

/// Returns whether a file that goes out fills a queue of the path for a quarter of its time and more: its
/// round trips grow by what the queue holds, and a limiter that drops does not make them longer.
pub(super) fn fills_queue(view: &View<'_>) -> bool {
    let shape = &view.shape;
    let mean_bps = rate_bps(shape.bytes, shape.span_ns);
    view.transfer.upper_rtt_ns.zip(mean_bps).is_some_and(|(upper_ns, mean_bps)| {
        let full_ns = serial_ns(shape.mss.saturating_mul(QUEUE_SEGMENTS), mean_bps);
        upper_ns >= full_ns.max(DELAYED_ACK_NS).saturating_add(view.trip)
    })
}

/// Segments that passed a queue arrive at no more than this multiple of the mean rate, which the repair of
/// losses makes smaller.
const SPACED_FACTOR: u64 = 2;

/// Returns whether the segments before the first loss have passed a queue: they come about as slowly as the
/// rest.
fn is_spaced(view: &View<'_>) -> bool {
    let mean_bps = rate_bps(view.shape.bytes, view.shape.span_ns).unwrap_or(0);
    spaced_bps(view.transfer, view.shape.mss)
        .is_some_and(|bps| bps <= mean_bps.saturating_mul(SPACED_FACTOR))
}

/// Returns whether the parts of the time bring as much as each other.
fn is_even(view: &View<'_>) -> bool {
    let parts = per_period(&view.transfer.arrivals, view.shape.span_ns / PARTS);
    alike_percent(&parts).is_some_and(|(_, alike)| alike >= ALIKE_PERCENT)
}

/// Returns whether a large part of a file that goes out is dropped. A link that is full drops what
/// finds no room in its queue, and is full all the same.
fn is_heavy(view: &View<'_>) -> bool {
    let sent_again = lost(view.transfer).saturating_mul(100);
    let sent = view.transfer.tcp.data_segs_out;
    view.transfer.direction == Direction::Outgoing
        && view.excess_ns() >= view.shape.span_ns / 3
        && sent.is_some_and(|sent| sent_again >= sent.saturating_mul(HEAVY_PERCENT))
}

/// First losses behind as many bytes differ by one part in so many.
const SAME_PLACE_ONE_IN: u64 = 6;

/// Returns behind how many bytes the first segment is lost, if that is so in all larger transfers, and
/// smaller ones lose none.
fn first_loss_bytes(view: &View<'_>) -> Option<u64> {
    let place = view.transfer.first_loss_bytes?;
    let slack = place / SAME_PLACE_ONE_IN;
    let others = view.session.transfers.iter().filter(|other| {
        other.direction == view.transfer.direction && !std::ptr::eq(*other, view.transfer)
    });
    let (larger, smaller): (Vec<_>, Vec<_>) =
        others.partition(|other| other.bytes > place.saturating_add(slack));
    let is_same = |other: &&FileTransfer| {
        other.first_loss_bytes.is_some_and(|bytes| bytes.abs_diff(place) <= slack)
    };
    let is_limit = !larger.is_empty() && larger.iter().all(is_same);
    let is_long = place >= view.shape.mss.saturating_mul(FEWEST_SEGMENTS);
    (is_long && is_limit && !smaller.into_iter().any(has_losses)).then_some(place)
}

/// A silence between bursts is no shorter than this, ns: samples are several milliseconds apart.
const LEAST_SILENCE_NS: u64 = 12_000_000;
/// So many segments are a burst: on a slow link they come one at a time.
const BURST_SEGMENTS: u64 = 2;
/// A sender waits for acknowledgments for no more than so many round trips.
const SILENCE_TRIPS: u64 = 3;
/// Bursts are most if the silences before them take so many parts of a hundred of the time.
const SILENT_PERCENT: u64 = 50;

/// What arrives between silences.
#[derive(Clone, Copy, Debug)]
struct Burst {
    begin_ns: u64,
    end_ns: u64,
    /// Segments, or bytes where these are not known.
    units: u64,
}

/// The bursts of a transfer.
struct Bursts {
    all: Vec<Burst>,
    /// Whether the silences before bursts take most of the time, as behind no full link.
    are_most: bool,
}

impl Bursts {
    /// Returns the bursts between silences of `silence_ns` and more.
    fn of(view: &View<'_>, silence_ns: u64) -> Self {
        let transfer = view.transfer;
        // What was read behind a hole says nothing of when it came.
        let is_by_segment = !transfer.segments.is_empty();
        let arrivals = if is_by_segment { &transfer.segments } else { &transfer.arrivals };
        let unit = if is_by_segment { 1 } else { view.shape.mss.max(1) };
        let least_units = unit.saturating_mul(BURST_SEGMENTS);
        let all = bursts(arrivals, silence_ns);
        let silences =
            all.iter().zip(all.iter().skip(1)).filter(|(_, next)| next.units >= least_units);
        // What is longer than round trips and shorter than timers is a queue's, or a program's.
        let of_trips_ns = view.trip.saturating_mul(SILENCE_TRIPS);
        let silent_ns = silences
            .map(|(before, next)| next.begin_ns.saturating_sub(before.end_ns))
            .filter(|ns| *ns <= of_trips_ns || *ns >= TIMER_NS)
            .fold(0, u64::saturating_add);
        let span = span_ns(arrivals).unwrap_or(0);
        let are_most =
            span > 0 && silent_ns.saturating_mul(100) >= span.saturating_mul(SILENT_PERCENT);
        Self { all, are_most }
    }

    /// Returns whether so many parts of a hundred of the bursts bring as much as each other for the time
    /// since the burst before.
    fn are_alike(&self, percent: u64) -> bool {
        let pairs = self.all.iter().zip(self.all.iter().skip(1));
        let rates: Vec<u64> = pairs
            .filter_map(|(before, next)| {
                rate_bps(next.units, next.begin_ns.saturating_sub(before.begin_ns))
            })
            .collect();
        alike_percent(&rates).is_some_and(|(_, alike)| alike >= percent)
    }
}

/// Returns `arrivals` as bursts between silences of `silence_ns` and more.
fn bursts(arrivals: &[Arrival], silence_ns: u64) -> Vec<Burst> {
    let mut all: Vec<Burst> = Vec::new();
    for one in arrivals {
        match all.last_mut() {
            Some(last) if one.at_ns.saturating_sub(last.end_ns) < silence_ns => {
                last.end_ns = last.end_ns.max(one.at_ns);
                last.units = last.units.saturating_add(one.bytes);
            }
            _ => all.push(Burst { begin_ns: one.at_ns, end_ns: one.at_ns, units: one.bytes }),
        }
    }
    all
}

/// Returns whether segments arrive in bursts between silences, as nothing behind a full link does.
pub(super) fn is_in_bursts(view: &View<'_>) -> bool {
    Bursts::of(view, LEAST_SILENCE_NS.max(view.trip / 2)).are_most
}

/// A silence of a retransmission timer is no shorter than this, ns (Linux waits for 200 ms and more), nor
/// than two round trips.
const TIMER_NS: u64 = 150_000_000;
/// Fewer bursts are alike by chance.
const FEWEST_BURSTS: usize = 5;
/// So many parts of a hundred of the bursts of a policer are alike.
const CYCLES_ALIKE_PERCENT: u64 = 75;

/// Returns whether what arrives between retransmission timers is what the tokens of that time allow.
fn is_in_cycles(view: &View<'_>) -> bool {
    let bursts = Bursts::of(view, TIMER_NS.max(view.trip.saturating_mul(2)));
    let count = u64::try_from(bursts.all.len()).unwrap_or(u64::MAX);
    bursts.all.len() >= FEWEST_BURSTS
        && bursts.are_most
        && bursts.are_alike(CYCLES_ALIKE_PERCENT)
        // A program that pauses as regularly loses nothing.
        && lost(view.transfer) >= count / 2
}
