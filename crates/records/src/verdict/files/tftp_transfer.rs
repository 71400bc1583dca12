//! Causes of waiting in a TFTP transfer (RFC 1350).
//!
//! TFTP waits for an acknowledgment after each block, or after each window (RFC 7440), and
//! retransmits after a timeout. None of TCP's causes applies. The round-trip time is that of the
//! request and the acknowledgment of its options (RFC 2347), which requires neither the file nor a
//! full packet; without options it is the shortest time between an acknowledgment and the next
//! block. The time of a block beyond the round trip grows with the block size on a slow link, but
//! not in a slow server: a second transfer with shorter blocks distinguishes the two.

use super::observed::{FileSession, FileTransfer};
use super::opening::MIN_DISTANT_TRIP_NS;
use crate::format::{count, duration, rate};
use crate::statistics;
use crate::verdict::Direction;
use crate::verdict::cause::{Cause, CauseKind, Operation};
use crate::verdict::traffic::{gaps, rate_bps};

/// Minimum silence between blocks that counts as a timeout, ns.
const MIN_TIMER_NS: u64 = 300_000_000;
/// Minimum silence between blocks that counts as a timeout if the local host counted a timeout, ns.
const MIN_OWN_TIMER_NS: u64 = 100_000_000;
/// A timeout is also at least this many times the usual time of a block.
const TIMER_FACTOR: u64 = 5;
/// Timers of servers, and those of RFC 1123 section 4.2.3.2, start at one second.
const REQUEST_TIMER_NS: u64 = 950_000_000;
/// Percentile of the waits for a block that is taken as the shortest; shorter waits are due to late
/// reads of the local host.
const SHORT_PERCENTILE: u8 = 10;
/// Headers of IP, UDP and TFTP, bytes.
const HEADER_BYTES: u64 = 32;
/// Threshold between a slow link and a slow server. On a link, the time of a block is proportional
/// to its size. In a server, a short block takes as long as a full one. The link is the cause if
/// the time of a short block is above the time expected on a link by at most this percentage of the
/// difference between the two expected times.
const LINK_PERCENT: u64 = 50;
/// If the wait for the local processor takes at least the time of the transfer divided by this
/// number, it is the only cause.
const MIN_STARVED_DIVISOR: u64 = 3;

/// Minimum number of windows; with fewer, a loss in each window may be coincidence.
const MIN_WINDOWS: u64 = 3;

struct View<'a> {
    session: &'a FileSession,
    transfer: &'a FileTransfer,
    trip: u64,
    window: u64,
    /// Typical time of a block, or of a window, ns.
    typical_ns: u64,
    /// Silences due to timers, ns.
    timeouts_ns: Vec<u64>,
}

/// Returns the causes of the duration of the largest transfer of `session`.
pub(super) fn causes(session: &FileSession) -> Vec<Cause> {
    let mut causes = vec![name_server(session)];
    let incoming = session.transfers.iter().filter(|one| one.direction == Direction::Incoming);
    let largest = incoming.max_by_key(|one| one.bytes).or_else(|| session.transfers.first());
    if let Some(view) = largest.and_then(|transfer| View::of(session, transfer)) {
        causes.extend(view.causes());
    }
    causes
}

fn name_server(session: &FileSession) -> Cause {
    let ns = session.resolve_ns.unwrap_or(0);
    Cause {
        kind: CauseKind::NameServer,
        operation: Operation::Session,
        cost_ns: ns,
        gain_ns: ns,
        total_ns: ns,
        subject: "Name resolution".to_owned(),
        advice: "the lookup of the host name took that long. Check the DNS servers in \
                 /etc/resolv.conf, or add the address to /etc/hosts"
            .to_owned(),
    }
}

/// Returns the round-trip time, derived from the options or the blocks of `session`, ns.
pub(super) fn trip_ns(session: &FileSession, transfer: &FileTransfer) -> Option<u64> {
    let runs = session.transfers.iter().chain(&session.control);
    let options = runs.filter_map(|one| one.connected_ns).filter(|ns| *ns > 0).min();
    // With several blocks per window, the time between an acknowledgment and the next block may be
    // shorter than a round trip: that block may already have been in flight.
    let is_alone = transfer.window_blocks.is_none_or(|blocks| blocks <= 1) || options.is_none();
    let waits: Vec<u64> = waits_ns(transfer).into_iter().filter(|ns| is_alone && *ns > 0).collect();
    // After a block that was read late, the time to the next block is too short.
    let blocks = statistics::percentile(&waits, SHORT_PERCENTILE);
    options.into_iter().chain(blocks).min()
}

/// Returns the times between an acknowledgment and the next block, ns.
fn waits_ns(transfer: &FileTransfer) -> Vec<u64> {
    let block = transfer.block_bytes.unwrap_or(512).max(1);
    let window = block.saturating_mul(transfer.window_blocks.unwrap_or(1).max(1));
    // The receiver acknowledges the last block of each window.
    let mut cumulative_bytes = transfer.arrivals.first().map_or(0, |first| first.bytes);
    let mut waits = Vec::new();
    for (_, gap, bytes) in gaps(&transfer.arrivals) {
        if cumulative_bytes.is_multiple_of(window) {
            waits.push(gap);
        }
        cumulative_bytes = cumulative_bytes.saturating_add(bytes);
    }
    waits
}

impl<'a> View<'a> {
    fn of(session: &'a FileSession, transfer: &'a FileTransfer) -> Option<Self> {
        let trip = trip_ns(session, transfer)?;
        let all: Vec<u64> = gaps(&transfer.arrivals).map(|(_, gap, _)| gap).collect();
        let median = statistics::median(&all).unwrap_or(0);
        // The timeout of the local host follows the round-trip time, so it may be short.
        let is_local_timer = transfer.timeouts.is_some_and(|count| count > 0);
        let shortest_ns = if is_local_timer { MIN_OWN_TIMER_NS } else { MIN_TIMER_NS };
        let min_ns = median.max(trip).saturating_mul(TIMER_FACTOR).max(shortest_ns);
        let timeouts_ns = all.iter().copied().filter(|gap| *gap >= min_ns).collect();
        let waits: Vec<u64> = waits_ns(transfer).into_iter().filter(|gap| *gap < min_ns).collect();
        Some(Self {
            session,
            transfer,
            trip,
            window: transfer.window_blocks.unwrap_or(1).max(1),
            typical_ns: statistics::median(&waits).unwrap_or(trip),
            timeouts_ns,
        })
    }

    fn causes(&self) -> Vec<Cause> {
        let processor = self.processor();
        if processor.cost_ns >= self.transfer.total_ns / MIN_STARVED_DIVISOR {
            return vec![processor];
        }
        let blocks = self.blocks();
        let overflows_queue = blocks.as_ref().is_some_and(|cause| self.overflows_queue(cause));
        let mut causes = vec![self.first_block(), processor];
        // Losses of a window in the queue of a slow link are charged to the link and the local
        // window.
        causes.extend(Some(self.loss()).filter(|_| !overflows_queue));
        causes.extend(blocks.map(|cause| match cause.kind {
            CauseKind::LineRate if overflows_queue => self.with_timeouts(cause),
            CauseKind::LineRate => Cause { advice: cause.advice + ". Use a faster link", ..cause },
            _ => cause,
        }));
        causes.extend(self.lock_step());
        causes
    }

    fn cause(&self, kind: CauseKind, ns: u64, subject: &str, advice: String) -> Cause {
        let total_ns = self.transfer.total_ns;
        let ns = ns.min(total_ns);
        Cause {
            kind,
            operation: Operation::Transfer,
            cost_ns: ns,
            gain_ns: ns,
            total_ns,
            subject: subject.to_owned(),
            advice,
        }
    }

    fn processor(&self) -> Cause {
        let advice =
            "plumb waited that long in the run queue of a processor. Stop other processes on \
                      this host"
                .to_owned();
        let ns = self.transfer.own_wait_ns.unwrap_or(0);
        self.cause(CauseKind::LocalProcessor, ns, "This host's busy processor", advice)
    }

    /// Returns whether a local timer expired, or a block arrived twice.
    fn has_repeats(&self) -> bool {
        [self.transfer.timeouts, self.transfer.repeated_blocks].into_iter().flatten().any(|n| n > 0)
    }

    /// Returns the delay of the first block, ns: request, options and block take two round trips,
    /// or one if the server ignores the options.
    fn first_block_delay_ns(&self) -> u64 {
        let trips = if self.transfer.connected_ns.is_some() { 2 } else { 1 };
        let due_ns = self.trip.saturating_mul(trips - 1).saturating_add(self.typical_ns);
        self.transfer.first_byte_ns.unwrap_or(0).saturating_sub(due_ns)
    }

    fn first_block(&self) -> Cause {
        let ns = self.first_block_delay_ns();
        // If the first block is also late in the control run, the server is slow, and no packet was
        // lost.
        let control = self.session.control.as_ref();
        let control_first_byte_ns = control.and_then(|control| control.first_byte_ns);
        let is_usual = control_first_byte_ns.is_some_and(|control_ns| control_ns >= ns / 2);
        let has_timed_out = self.transfer.timeouts.is_some_and(|n| n > 0);
        let is_timer = ns >= REQUEST_TIMER_NS && has_timed_out && !is_usual;
        if is_timer {
            let advice =
                "the request or its reply was repeated after a timeout. Find the link that loses \
                 packets"
                    .to_owned();
            return self.cause(CauseKind::Loss, ns, "Packet loss (the request)", advice);
        }
        let advice = format!(
            "it arrived that much later than the round trips of {} require. Check how the server \
             finds and opens the file, and how it authorizes the request",
            duration(self.trip)
        );
        self.cause(CauseKind::SlowFirstByte, ns, "The server's late first block", advice)
    }

    fn loss(&self) -> Cause {
        let timeouts_sum_ns: u64 =
            self.timeouts_ns.iter().fold(0, |sum, ns| sum.saturating_add(*ns));
        let usual_waits_ns =
            self.typical_ns.saturating_mul(u64::try_from(self.timeouts_ns.len()).unwrap_or(0));
        let longest_ns = self.timeouts_ns.iter().max().copied().unwrap_or(0);
        let repeat_note = if self.has_repeats() { "" } else { ", although no block arrived twice" };
        let advice = match self.timeouts_ns.len() {
            0 => {
                "blocks arrived twice, and windows of blocks ended early. Find the link that loses \
                  packets"
                    .to_owned()
            }
            timeout_count => format!(
                "{} {} arrived only after a timeout, the longest after {}{repeat_note}. Find the \
                 link that loses packets, and set a shorter timeout (RFC 2349)",
                count(u64::try_from(timeout_count).unwrap_or(u64::MAX)),
                if timeout_count == 1 { "block" } else { "blocks" },
                duration(longest_ns)
            ),
        };
        let ns =
            timeouts_sum_ns.saturating_sub(usual_waits_ns).saturating_add(self.short_windows_ns());
        self.cause(CauseKind::Loss, ns, "Packet loss", advice)
    }

    /// Returns whether the queue of the slowest link drops the last blocks of a window. This is
    /// assumed instead of random loss if the window takes longer on the link than a timer, or if
    /// every window loses blocks.
    fn overflows_queue(&self, blocks: &Cause) -> bool {
        let all = self.transfer.bytes.div_ceil(self.transfer.block_bytes.unwrap_or(512).max(1));
        let window_ns = (blocks.cost_ns / all.max(1)).saturating_mul(self.window);
        let timeout_count = u64::try_from(self.timeouts_ns.len()).unwrap_or(u64::MAX);
        let loses_in_each_window = self.waits() >= MIN_WINDOWS && timeout_count >= self.waits();
        let is_overflow = window_ns >= MIN_TIMER_NS || loses_in_each_window;
        self.window > 1 && blocks.kind == CauseKind::LineRate && is_overflow
    }

    fn with_timeouts(&self, cause: Cause) -> Cause {
        let late = self.timeouts_ns.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
        let ns = cause.cost_ns.saturating_add(late).min(cause.total_ns);
        let advice = format!(
            "{}; its queue cannot hold a window of {} blocks, so blocks are lost. Use a smaller \
             window (RFC 7440)",
            cause.advice,
            count(self.window)
        );
        Cause { cost_ns: ns, gain_ns: ns, advice, ..cause }
    }

    /// Returns the cost of windows that end early because one of their blocks was lost, ns. Each
    /// costs one round trip.
    fn short_windows_ns(&self) -> u64 {
        if self.window == 1 || !self.has_repeats() {
            return 0;
        }
        let all: Vec<u64> = gaps(&self.transfer.arrivals).map(|(_, gap, _)| gap).collect();
        // On a slow link each block takes long, so the usual time of a block is added.
        let block_ns = statistics::median(&all).unwrap_or(0);
        let min_ns = block_ns.saturating_add(self.trip - self.trip / 4);
        let waits =
            all.iter().filter(|ns| **ns >= min_ns && !self.timeouts_ns.contains(ns)).count();
        let windows = u64::try_from(waits).unwrap_or(u64::MAX).saturating_add(1);
        let repeats = [self.transfer.repeated_blocks, self.transfer.timeouts];
        let repeats = repeats.into_iter().flatten().fold(0, u64::saturating_add);
        self.trip.saturating_mul(windows.saturating_sub(self.waits()).min(repeats))
    }

    /// Returns the number of waits of the sender for an acknowledgment.
    fn waits(&self) -> u64 {
        let block = self.transfer.block_bytes.unwrap_or(512).max(1);
        self.transfer.bytes.div_ceil(block).div_ceil(self.window)
    }

    fn blocks_ns(&self) -> u64 {
        let arrivals = &self.transfer.arrivals;
        let span = crate::verdict::traffic::span_ns(arrivals).unwrap_or(0);
        let late = self.timeouts_ns.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        if self.window == 1 {
            let each_ns = self.typical_ns.saturating_sub(self.trip);
            return each_ns.saturating_mul(self.waits().saturating_sub(1));
        }
        let trips = self.trip.saturating_mul(self.waits().saturating_sub(1));
        span.saturating_sub(late).saturating_sub(trips).saturating_sub(self.short_windows_ns())
    }

    /// Returns the cost of blocks beyond the round trips, charged to the link or the server.
    fn blocks(&self) -> Option<Cause> {
        let ns = self.blocks_ns();
        let blocks = self.transfer.bytes.div_ceil(self.transfer.block_bytes?.max(1)).max(1);
        let each_ns = ns / blocks;
        let bytes = self.transfer.bytes;
        match self.is_link(each_ns) {
            Some(true) => {
                let carried_bps = rate_bps(bytes.saturating_add(blocks * HEADER_BYTES), ns)?;
                let advice = format!(
                    "each block takes {} beyond the round-trip time of {}, and a shorter block \
                     takes less, so the link carries {}",
                    duration(each_ns),
                    duration(self.trip),
                    rate(carried_bps)
                );
                let subject = "The rate of the path's slowest link";
                Some(self.cause(CauseKind::LineRate, ns, subject, advice))
            }
            Some(false) => {
                let advice = format!(
                    "each block takes {} beyond the round-trip time of {}, and a shorter block \
                     takes as long. Check the disk and the load there",
                    duration(each_ns),
                    duration(self.trip)
                );
                let subject = "The server's slow file access before each block (storage)";
                Some(self.cause(CauseKind::SlowDisk, ns, subject, advice))
            }
            None => {
                let advice = format!(
                    "at this block size, each block takes {} beyond the round-trip time of {}. To \
                     tell them apart, measure with another block size: a shorter block takes less \
                     time only on a slow link",
                    duration(each_ns),
                    duration(self.trip)
                );
                let subject =
                    "Either the rate of the path's slowest link or the server's slow storage";
                Some(self.cause(CauseKind::Unknown, ns, subject, advice))
            }
        }
    }

    /// Returns whether the time of a block beyond the round trip grows with its size.
    fn is_link(&self, each_ns: u64) -> Option<bool> {
        let control = self.session.control.as_ref()?;
        let block = self.transfer.block_bytes?;
        let short = control.block_bytes?;
        if short.saturating_mul(2) > block {
            return None;
        }
        let typical = statistics::median(&waits_ns(control))?;
        let short_ns = u128::from(typical.saturating_sub(self.trip));
        let each_ns = u128::from(each_ns);
        // On a link a shorter block takes this time; in a server it takes as long as a full block.
        let short_on_link_ns =
            each_ns * u128::from(short + HEADER_BYTES) / u128::from(block + HEADER_BYTES);
        let server_share_ns = each_ns.saturating_sub(short_on_link_ns);
        let limit = short_on_link_ns + server_share_ns * u128::from(LINK_PERCENT) / 100;
        Some(short_ns <= limit)
    }

    fn lock_step(&self) -> Option<Cause> {
        if self.trip < MIN_DISTANT_TRIP_NS {
            return None;
        }
        let waits = self.waits();
        // Request and options take a round trip before the first block.
        let trips = waits.saturating_add(u64::from(self.transfer.connected_ns.is_some()));
        let advice = format!(
            "it took {} round trips of {}, with {} per round trip and a block size of {} bytes. Use \
             larger blocks (blksize, RFC 2348), several blocks per round trip (windowsize, RFC \
             7440), and a server that supports these options",
            count(trips),
            duration(self.trip),
            if self.window > 1 {
                format!("{} blocks", self.window)
            } else {
                "one block".to_owned()
            },
            self.transfer.block_bytes.map_or_else(|| "unknown".to_owned(), count)
        );
        let subject = match self.window {
            1 => "TFTP's lock-step transfer (one block per round trip)",
            _ => "TFTP's lock-step transfer (one window of blocks per round trip)",
        };
        let ns = self.trip.saturating_mul(trips);
        Some(self.cause(CauseKind::LockStep, ns, subject, advice))
    }
}
