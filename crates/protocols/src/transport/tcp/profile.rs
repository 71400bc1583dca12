//! The policies of a connection (TM-233 §3.2). All profiles are correct TCP, and a remote host can
//! distinguish them only by their speed.

use super::keep_alive::KeepAlive;
use super::user_timeout::UserTimeout;
use crate::internet;
use crate::time::Duration;

/// When the receiver advertises a larger window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUpdate {
    /// Only when the window is at least half used; then the maximum is advertised (TM-233 §5.6).
    HalfUsed,
    /// Only when the window is used up; then the maximum is advertised. The window counts as used
    /// up when less than a segment and less than a quarter of it is left, because a peer with silly
    /// window avoidance leaves that part unused. This is the allocation scheme of an NCP of 1973
    /// (RFC 573, IV). This scheme is slow wherever the window is smaller than the capacity of the
    /// path.
    UsedUp,
    /// Whenever the application has read, by any amount, as RFC 573 proposes. A reader of single
    /// bytes causes an update for each byte (silly windows, RFC 9293 §3.8.6.2.2).
    AsRead,
    /// When the window can grow by two segments or half the buffer (RFC 9293 §3.8.6.2.2).
    TwoSegments,
}

/// When received data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgment {
    /// At the next output, after the application has run: piggybacked on the application's answer
    /// if there is one.
    AtOutput,
    /// After this time, or with the second full segment (RFC 9293 §3.8.6.3), or with an answer.
    /// A time of 0.5 s or more counts as 499 ms (MUST-40).
    Delayed(Duration),
}

/// The maximum window to advertise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// A fixed number of bytes.
    Bytes(usize),
    /// The number of bytes that the application reads in two round trips: initially `start`, never
    /// less, and never more than `limit`.
    Tuned {
        /// Initial number of bytes.
        start: usize,
        /// Maximum number of bytes.
        limit: usize,
    },
}

impl ReceiveWindow {
    /// Returns the size of the initial window, in bytes.
    #[must_use]
    pub const fn start(self) -> usize {
        let (Self::Bytes(start) | Self::Tuned { start, .. }) = self;
        start
    }

    /// Returns the size of the largest possible window, in bytes.
    #[must_use]
    pub const fn limit(self) -> usize {
        match self {
            Self::Tuned { start, limit } if limit > start => limit,
            Self::Bytes(start) | Self::Tuned { start, .. } => start,
        }
    }
}

/// The maximum amount of outstanding data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendLimit {
    /// One segment, enough for a user's typing (TM-233 §3.2).
    OneSegment,
    /// A fixed number of bytes.
    Bytes(usize),
    /// Twice the congestion window: initially `start`, never less, and never more than `limit`.
    Tuned {
        /// Initial number of bytes.
        start: usize,
        /// Maximum number of bytes.
        limit: usize,
    },
}

/// The congestion control algorithm of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    NewReno,
    /// BBR, version 1: for paths with random losses. Data is always paced.
    Bbr,
}

impl Congestion {
    /// Returns the name that Linux uses for the algorithm.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// Number of unanswered retransmissions after which the sender assumes a black hole, a path that
/// drops long datagrams without an ICMP error, and searches for the path MTU (RFC 8899).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlackHoleDetection {
    /// Never.
    #[default]
    Off,
    /// At the third retransmission timeout in a row, and at the third for segments of the base
    /// length (datagrams of 1280 bytes), as RFC 4821 §7.7 recommends: short segments cost a bulk
    /// transfer more than a late search does.
    AtThirdTimeout,
    /// At the first retransmission timeout, and at the first for segments of the base length. If
    /// another timeout would take more than a second, the sender skips the base length and uses the
    /// shortest one at once. A black hole then costs less than 5 s while the round-trip time is 600
    /// ms or less.
    AtFirstTimeout,
}

/// The policies of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The maximum window to advertise.
    pub receive_window: ReceiveWindow,
    /// When a larger window is advertised.
    pub window_update: WindowUpdate,
    /// When data is acknowledged.
    pub acknowledgment: Acknowledgment,
    /// The maximum amount of outstanding data.
    pub send_limit: SendLimit,
    /// Whether a small segment waits while data is outstanding (Nagle's algorithm, RFC 9293
    /// §3.7.4).
    pub nagle: bool,
    /// Maximum segment size to send or receive, in data bytes; `None` for the maximum of the link.
    pub mss_max: Option<u16>,
    /// Whether timestamps and window scale (RFC 7323) and selective acknowledgments (RFC 2018)
    /// are offered.
    pub extensions: bool,
    /// Whether the extensions include timestamps, which cost 12 bytes of every segment.
    pub timestamps: bool,
    /// The congestion control algorithm.
    pub congestion: Congestion,
    /// Whether explicit congestion notification is offered (RFC 3168).
    pub ecn: bool,
    /// Whether data is paced evenly over the round trip, where that is a millisecond or more.
    pub pacing: bool,
    /// Minimum margin of the retransmission timeout above the smoothed round-trip time.
    ///
    /// RFC 6298 (2.4) requires one second for the whole timeout. Hosts today use 200 ms above the
    /// round trip, because their clocks are fine enough.
    pub rto_min: Duration,
    /// Change of the retransmission timeout after an unanswered retransmission.
    pub retransmission: Retransmission,
    /// Time limits for an unresponsive peer.
    pub user_timeout: UserTimeout,
    /// Schedule of keep-alive probes. `None`, the default, sends none.
    pub keep_alive: Option<KeepAlive>,
    /// When the path MTU is searched for because long segments are lost (RFC 8899).
    pub black_hole_detection: BlackHoleDetection,
    /// Fields of the IP header of every segment.
    pub marking: Marking,
    /// Whether a SYN may carry data, in either direction (RFC 7413).
    pub fast_open: bool,
}

/// Change of the retransmission timeout after an unanswered retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransmission {
    /// The timeout doubles (RFC 6298 §5.5).
    #[default]
    BacksOff,
    /// The timeout stays the same, as in hosts from before RFC 1122. It is for laboratory use: RFC
    /// 6298 §5.5 requires that a host MUST back off.
    Fixed,
}

/// Fields of the IP header of a connection's segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// The differentiated services field, in the upper six bits (MUST-48).
    pub dscp: u8,
    /// The time to live or hop limit; `None` for the host's default (MUST-49).
    pub hops: Option<u8>,
}

const ECN_BITS: u8 = 0x03;
/// Size of the largest buffers for files, in bytes: more than a rate of 1 Gbit/s delivers in 100
/// ms, and the maximum of the window field with a shift of 8.
const BULK_LIMIT: usize = 0xFFFF << 8;

impl Marking {
    /// The marking of connections without other settings.
    pub const DEFAULT: Self = Self { dscp: 0, hops: None };

    /// Writes the marking into the parameters for the Internet layer, except the two ECN bits.
    pub(super) fn apply_to(&self, lower: &mut internet::Header) {
        lower.dscp_ecn |= self.dscp & !ECN_BITS;
        lower.hop_limit = self.hops.unwrap_or(lower.hop_limit);
    }
}

impl Profile {
    /// Profile for a user at a keyboard: a window of a screenful plus a segment of 500 bytes,
    /// advertised again when it is half used, at most one outstanding segment, and every answer as
    /// early as possible.
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
            user_timeout: UserTimeout::DEFAULT,
            keep_alive: None,
            black_hole_detection: BlackHoleDetection::AtFirstTimeout,
            marking: Marking::DEFAULT,
            fast_open: false,
        }
    }

    /// Profile for the host to which a user logs in: like [`Self::interactive`], but without the
    /// limit of one outstanding segment, which would delay the rest of a screen until its beginning
    /// is acknowledged.
    #[must_use]
    pub const fn serving(screenful: usize) -> Self {
        let send_limit = SendLimit::Bytes(screenful);
        Self { send_limit, ..Self::interactive(screenful) }
    }

    /// The interactive profile of TM-233: a screen of 2000 characters.
    pub const INTERACTIVE: Self = Self::interactive(2000);

    /// Profile for files: large buffers that grow with the path, and as few segments as possible.
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
        user_timeout: UserTimeout::LONG,
        keep_alive: None,
        black_hole_detection: BlackHoleDetection::AtThirdTimeout,
        marking: Marking::DEFAULT,
        fast_open: false,
    };

    /// Profile for a connection that carries files and commands: a command must not wait for an
    /// acknowledgment from either side.
    pub const FILES: Self =
        Self { nagle: false, acknowledgment: Acknowledgment::AtOutput, ..Self::BULK };

    /// Profile for a login server: a window of 32 KiB holds typed and pasted input.
    pub const LOGINS: Self = Self::serving(32 * 1024);
}
