//! The options that both ends have negotiated, and their state: timestamps (RFC 7323), selective
//! acknowledgments (RFC 2018), ECN (RFC 3168) and the user timeout (RFC 5482).

use super::header::{Flags, Header, Options};
use super::profile::Profile;
use super::sack::{Block, Blocks, MAX_BLOCKS, SackList};
use super::seq::Seq;
use super::user_timeout;
use crate::time::{Duration, Instant, LocalClock, RemoteClock, Stamp};
use alloc::boxed::Box;

/// Time for which the last timestamp of the peer remains valid (RFC 7323 §5.5). Afterwards a clock
/// of one tick per millisecond may have wrapped.
const TS_RECENT_VALID: Duration = Duration::from_secs(24 * 86_400);
/// Number of bytes of the timestamps option in a segment.
const TIMESTAMPS_LEN: u32 = 12;

/// The negotiated options of a connection.
#[derive(Debug)]
pub(super) struct NegotiatedOptions {
    /// The timestamp to echo (RFC 7323 §4.3); `None` if timestamps are not negotiated.
    ts_recent: Option<Stamp<RemoteClock>>,
    ts_recent_at: Instant,
    /// Allocated when the first segment arrives out of order.
    sack: Option<Box<SackList>>,
    /// The user timeout advertised by the peer (RFC 5482).
    peer_timeout: Option<Duration>,
    /// Random offset that hides the host's uptime from the peer.
    ts_offset: u32,
    /// Whether both ends have permitted selective acknowledgments (RFC 2018 §2).
    has_sack: bool,
    /// Whether both ends have negotiated ECN.
    has_ecn: bool,
    /// Whether congestion marks are echoed to the peer. The echo ends when the peer reports a
    /// reduced window.
    echoes_marks: bool,
    /// Whether the next new data must report that the window was reduced.
    must_send_cwr: bool,
    /// Whether the next segment must contain the local user timeout.
    must_send_user_timeout: bool,
}

impl NegotiatedOptions {
    /// Returns the state before the SYN of the peer.
    pub(super) fn new(ts_offset: u32, now: Instant) -> Self {
        Self {
            ts_recent: None,
            ts_recent_at: now,
            sack: None,
            peer_timeout: None,
            ts_offset,
            has_sack: false,
            has_ecn: false,
            echoes_marks: false,
            must_send_cwr: false,
            must_send_user_timeout: false,
        }
    }

    /// Processes the options of the peer's SYN.
    pub(super) fn synchronize(&mut self, syn: &Header, profile: &Profile) {
        let may_stamp = profile.extensions && profile.timestamps;
        let offered = syn.options.peer_timestamps().filter(|_| may_stamp);
        self.ts_recent = offered.map(|(value, _)| value);
        self.record_user_timeout(syn);
        self.has_sack = profile.extensions && syn.options.sack_permitted;
        self.has_ecn = profile.ecn && is_ecn_setup(syn.flags);
    }

    /// Returns whether timestamps are negotiated.
    pub(super) fn has_timestamps(&self) -> bool {
        self.ts_recent.is_some()
    }

    /// Returns the timestamp to echo; `None` if timestamps are not negotiated.
    pub(super) fn ts_recent(&self) -> Option<Stamp<RemoteClock>> {
        self.ts_recent
    }

    /// Sets the time at which the timestamp to echo has arrived.
    pub(super) fn set_ts_recent_at(&mut self, now: Instant) {
        self.ts_recent_at = now;
    }

    /// Sets the timestamp to echo, if timestamps are negotiated.
    pub(super) fn record_timestamp(&mut self, value: Stamp<RemoteClock>, now: Instant) {
        if let Some(recent) = &mut self.ts_recent {
            *recent = value;
            self.ts_recent_at = now;
        }
    }

    /// Returns whether `value` is older than the timestamp to echo, unless that is outdated.
    pub(super) fn is_old_timestamp(&self, value: Stamp<RemoteClock>, now: Instant) -> bool {
        let is_outdated = now - self.ts_recent_at > TS_RECENT_VALID;
        self.ts_recent.is_some_and(|recent| value.is_before(recent)) && !is_outdated
    }

    /// Returns the timestamp clock: milliseconds from a random start.
    pub(super) fn timestamp(&self, now: Instant) -> Stamp<LocalClock> {
        let millis = now.as_nanos() / 1_000_000;
        let ticks = u32::try_from(millis & 0xFFFF_FFFF).unwrap_or(0);
        Stamp::new(ticks.wrapping_add(self.ts_offset))
    }

    /// Returns the options of a segment other than a SYN, except its SACK blocks.
    pub(super) fn timestamps_option(&self, now: Instant) -> Options {
        let stamped = |recent| Options::with_timestamps(self.timestamp(now), recent);
        self.ts_recent.map(stamped).unwrap_or_default()
    }

    /// Returns the number of bytes of the options that every segment contains.
    pub(super) fn fixed_len(&self) -> u32 {
        if self.has_timestamps() { TIMESTAMPS_LEN } else { 0 }
    }

    /// Returns whether both ends have permitted selective acknowledgments.
    pub(super) fn has_sack(&self) -> bool {
        self.has_sack
    }

    /// Records that an early segment has arrived. It is now part of `block`.
    pub(super) fn add_block(&mut self, block: Block) {
        self.sack.get_or_insert_default().arrived(block);
    }

    /// Removes the blocks below `rcv_nxt`.
    pub(super) fn advance_blocks(&mut self, rcv_nxt: Seq) {
        if let Some(sack) = &mut self.sack {
            sack.advance(rcv_nxt);
        }
    }

    /// Records duplicate data for the report (RFC 2883 §4).
    pub(super) fn add_duplicate_block(&mut self, start: Seq, end: Seq) {
        if self.has_sack && start.is_before(end) {
            self.sack.get_or_insert_default().repeated((start, end));
        }
    }

    /// Removes all blocks.
    pub(super) fn clear_blocks(&mut self) {
        self.sack = None;
    }

    /// Returns the number of SACK blocks that fit into a header and leave space for a byte of data
    /// in a segment of `mss` bytes. This matters on links with a very small MTU.
    fn blocks_max(&self, mss: u32) -> usize {
        let blocks_limit = if self.has_timestamps() { MAX_BLOCKS - 1 } else { MAX_BLOCKS };
        let fits = |count: &usize| (Options::sack_len(*count) as u64) < u64::from(mss);
        (1..=blocks_limit).rev().find(fits).unwrap_or(0)
    }

    /// Returns the number of bytes of the pending SACK blocks in a segment of `mss` bytes.
    pub(super) fn blocks_len(&self, mss: u32) -> usize {
        let count = self.sack.as_ref().map_or(0, |sack| sack.len(self.blocks_max(mss)));
        Options::sack_len(count)
    }

    /// Returns the SACK blocks of a segment of `mss` bytes.
    pub(super) fn take_blocks(&mut self, mss: u32) -> Blocks {
        let blocks_max = self.blocks_max(mss);
        self.sack.as_mut().map_or(Blocks::NONE, |sack| sack.take(blocks_max))
    }

    /// Returns whether both ends have negotiated ECN.
    pub(super) fn has_ecn(&self) -> bool {
        self.has_ecn
    }

    /// Processes the CWR flag of a segment, and its congestion mark. The mark is echoed until the
    /// peer reports a reduced window (RFC 3168 §6.1.3).
    pub(super) fn record_mark(&mut self, has_cwr: bool, is_marked: bool) {
        self.echoes_marks = is_marked || (self.echoes_marks && !has_cwr);
    }

    /// Returns whether congestion marks are echoed to the peer.
    pub(super) fn echoes_marks(&self) -> bool {
        self.echoes_marks
    }

    /// Reports with the next new data that the window was reduced.
    pub(super) fn window_was_reduced(&mut self) {
        self.must_send_cwr = true;
    }

    /// Returns whether the next new data must report that the window was reduced.
    pub(super) fn must_send_cwr(&self) -> bool {
        self.must_send_cwr
    }

    pub(super) fn take_cwr(&mut self) -> bool {
        core::mem::take(&mut self.must_send_cwr)
    }

    /// Records the user timeout that the peer advertises. The peer may change it at any time.
    pub(super) fn record_user_timeout(&mut self, header: &Header) {
        let received = header.options.user_timeout.and_then(user_timeout::decode);
        self.peer_timeout = received.or(self.peer_timeout);
    }

    /// Returns the user timeout advertised by the peer.
    pub(super) fn peer_timeout(&self) -> Option<Duration> {
        self.peer_timeout
    }

    /// Returns whether the next segment must contain the local user timeout.
    pub(super) fn must_send_user_timeout(&self) -> bool {
        self.must_send_user_timeout
    }

    /// Sets whether the next segment must contain the local user timeout.
    pub(super) fn set_must_send_user_timeout(&mut self, must_send: bool) {
        self.must_send_user_timeout = must_send;
    }
}

/// Returns whether a SYN offers ECN: it has both ECE and CWR, while a SYN that accepts ECN has only
/// ECE (RFC 3168 §6.1.1).
fn is_ecn_setup(flags: Flags) -> bool {
    flags.has(Flags::ECE) && flags.has(Flags::CWR) != flags.has(Flags::ACK)
}
