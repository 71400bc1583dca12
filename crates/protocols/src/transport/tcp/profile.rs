//! What a connection is tailored to (TM-233 §3.2): both profiles are correct TCP, and a foreign
//! host cannot tell them apart but by their speed.

use super::keep_alive::KeepAlive;
use super::user_timeout::Patience;
use crate::internet;
use crate::time::Duration;

/// When the receiver opens its window again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUpdate {
    /// Only when it is at least half used, and then to the maximum (TM-233 §5.6).
    HalfUsed,
    /// Only when it is used up, and then to the maximum: when less is left of it than a segment and
    /// than a quarter, which a peer that avoids silly windows leaves unused. The allocations of an
    /// NCP of 1973 (RFC 573, IV); slow wherever the window is smaller than the path holds.
    UsedUp,
    /// Whenever the application has read, by however little. What RFC 573 proposes; a reader of
    /// single bytes sends an update for each of them (silly windows, RFC 9293 §3.8.6.2.2).
    AsRead,
    /// When it can grow by two segments or half the buffer (RFC 9293 §3.8.6.2.2).
    TwoSegments,
}

/// When received data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgment {
    /// At the next output, after the application has run: on its answer if it gives one.
    AtOutput,
    /// After this time, or with the second full segment (RFC 9293 §3.8.6.3), or with an answer.
    /// A time of 0.5 s or more counts as 499 ms (MUST-40).
    Delayed(Duration),
}

/// How large a window is offered at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// This many bytes, all the time.
    Bytes(usize),
    /// As many bytes as the application takes in two round trips: `start` at first, and never
    /// less, and never more than `limit`.
    Tuned {
        /// Bytes at the beginning.
        start: usize,
        /// Bytes at most.
        limit: usize,
    },
}

impl ReceiveWindow {
    /// Returns the bytes of the first window.
    #[must_use]
    pub const fn start(self) -> usize {
        let (Self::Bytes(start) | Self::Tuned { start, .. }) = self;
        start
    }

    /// Returns the bytes of the largest window that there may ever be.
    #[must_use]
    pub const fn limit(self) -> usize {
        match self {
            Self::Tuned { start, limit } if limit > start => limit,
            Self::Bytes(start) | Self::Tuned { start, .. } => start,
        }
    }
}

/// How much the sender may have outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendLimit {
    /// What fits into one segment: a person types no more (TM-233 §3.2).
    OneSegment,
    /// This many bytes.
    Bytes(usize),
    /// Twice as many bytes as the congestion window: `start` at first, and never less, and never
    /// more than `limit`.
    Tuned {
        /// Bytes at the beginning.
        start: usize,
        /// Bytes at most.
        limit: usize,
    },
}

/// Which congestion control a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    NewReno,
    /// BBR, version 1: for paths that lose by chance. It paces always.
    Bbr,
}

impl Congestion {
    /// Returns the name that Linux has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// When the sender takes unanswered retransmissions for a black hole, a path that drops long
/// datagrams without an ICMP error, and searches for the path MTU (RFC 8899).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlackHoleDetection {
    /// Never.
    #[default]
    Off,
    /// At the third retransmission timeout in a row, and at the third of the base length (1280
    /// bytes of a datagram), as RFC 4821 §7.7 recommends: short segments cost a bulk transfer more
    /// than a late search does.
    AtThirdTimeout,
    /// At the first retransmission timeout, and at the first of the base length. If another
    /// timeout would take more than a second, the sender skips the base length and uses the
    /// shortest one at once. A black hole then costs less than 5 s while the round-trip time is
    /// 600 ms or less.
    AtFirstTimeout,
}

/// The policies of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The largest window that is offered.
    pub receive_window: ReceiveWindow,
    /// When the window is opened again.
    pub window_update: WindowUpdate,
    /// When data is acknowledged.
    pub acknowledgment: Acknowledgment,
    /// How much may be outstanding.
    pub send_limit: SendLimit,
    /// Whether a small segment waits while data is outstanding (RFC 9293 §3.7.4).
    pub nagle: bool,
    /// The largest segment to send or receive, in data bytes, if less than the link allows.
    pub mss_max: Option<u16>,
    /// Whether timestamps and window scale (RFC 7323) and selective acknowledgments (RFC 2018)
    /// are offered.
    pub extensions: bool,
    /// Whether timestamps are among these extensions: they cost 12 bytes of every segment.
    pub timestamps: bool,
    /// What the window does about acknowledgments and losses.
    pub congestion: Congestion,
    /// Whether explicit congestion notification is offered (RFC 3168).
    pub ecn: bool,
    /// Whether a window leaves evenly over the round trip, where that is a millisecond or more.
    pub pacing: bool,
    /// What the retransmission timeout exceeds the smoothed round-trip time by, at least.
    ///
    /// RFC 6298 (2.4) says one second for the whole; 200 ms above the round trip is what today's
    /// hosts use, because their clocks are fine enough.
    pub rto_min: Duration,
    /// What an unanswered retransmission does to that timeout.
    pub retransmission: Retransmission,
    /// How long to go on without an answer.
    pub patience: Patience,
    /// How to ask a silent peer whether it is still there; None, which is the default, for never.
    pub keep_alive: Option<KeepAlive>,
    /// When the length of segments is searched for because long ones vanish (RFC 8899).
    pub black_hole_detection: BlackHoleDetection,
    /// What the header of IP says about every segment.
    pub marking: Marking,
    /// Whether a SYN may carry data, of ours or of the peer (RFC 7413).
    pub fast_open: bool,
}

/// What an unanswered retransmission does to the timeout of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransmission {
    /// It doubles it (RFC 6298 §5.5).
    #[default]
    BacksOff,
    /// Nothing: the interval stays the same, as in hosts from before RFC 1122. It is for the
    /// laboratory: on a network of today RFC 6298 §5.5 says that a host MUST back off.
    Fixed,
}

/// What the header of IP says about the segments of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// The differentiated services field, in the upper six bits (MUST-48).
    pub dscp: u8,
    /// The time to live or hop limit, if it is not what the host sets (MUST-49).
    pub hops: Option<u8>,
}

const ECN_BITS: u8 = 0x03;
/// Bytes of the largest buffers for files: more than 1 Gbit/s brings in 100 ms, and what a window
/// field says with a shift of 8.
const BULK_LIMIT: usize = 0xFFFF << 8;

impl Marking {
    /// What nobody has asked to be different.
    pub const DEFAULT: Self = Self { dscp: 0, hops: None };

    /// Puts it on what the Internet layer is to say; the two bits of ECN are not its.
    pub(super) fn put_on(&self, lower: &mut internet::Header) {
        lower.dscp_ecn |= self.dscp & !ECN_BITS;
        lower.hop_limit = self.hops.unwrap_or(lower.hop_limit);
    }
}

impl Profile {
    /// For a person at a keyboard: a window of a screenful plus a segment of 500, opened when it
    /// is half used, one output segment, and every answer as early as possible.
    #[must_use]
    pub const fn interactive(screenful: usize) -> Self {
        Self {
            receive_window: ReceiveWindow::Bytes(screenful + 500),
            window_update: WindowUpdate::HalfUsed,
            acknowledgment: Acknowledgment::AtOutput,
            send_limit: SendLimit::OneSegment,
            nagle: false,
            mss_max: None,
            extensions: true,
            timestamps: true,
            congestion: Congestion::Cubic,
            ecn: false,
            pacing: false,
            rto_min: Duration::from_millis(200),
            retransmission: Retransmission::BacksOff,
            patience: Patience::DEFAULT,
            keep_alive: None,
            black_hole_detection: BlackHoleDetection::AtFirstTimeout,
            marking: Marking::DEFAULT,
            fast_open: false,
        }
    }

    /// For the host at which a person works: what [`Self::interactive`] is, but for the limit of one
    /// segment, with which the rest of a screen would wait until its beginning is acknowledged.
    #[must_use]
    pub const fn serving(screenful: usize) -> Self {
        let send_limit = SendLimit::Bytes(screenful);
        Self { send_limit, ..Self::interactive(screenful) }
    }

    /// The interactive profile of the thesis: a screen of 2000 characters.
    pub const INTERACTIVE: Self = Self::interactive(2000);

    /// For files: large buffers that grow with the path, and as few segments as carry them.
    pub const BULK: Self = Self {
        receive_window: ReceiveWindow::Tuned { start: 1 << 18, limit: BULK_LIMIT },
        window_update: WindowUpdate::TwoSegments,
        acknowledgment: Acknowledgment::Delayed(Duration::from_millis(40)),
        send_limit: SendLimit::Tuned { start: 1 << 18, limit: BULK_LIMIT },
        nagle: true,
        mss_max: None,
        extensions: true,
        timestamps: true,
        congestion: Congestion::Cubic,
        ecn: false,
        pacing: true,
        rto_min: Duration::from_millis(200),
        retransmission: Retransmission::BacksOff,
        patience: Patience::LONG,
        keep_alive: None,
        black_hole_detection: BlackHoleDetection::AtThirdTimeout,
        marking: Marking::DEFAULT,
        fast_open: false,
    };

    /// For files with their commands: a command must not wait for an acknowledgment, nor the peer
    /// for ours.
    pub const FILES: Self =
        Self { nagle: false, acknowledgment: Acknowledgment::AtOutput, ..Self::BULK };

    /// For a server of logins: a window of 32 KiB holds what people type, and what they paste.
    pub const LOGINS: Self = Self::serving(32 * 1024);
}
