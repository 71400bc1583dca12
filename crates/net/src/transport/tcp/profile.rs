//! The policies of a connection (TM-233 §3.2). All profiles are correct TCP, and a remote host can
//! distinguish them only by their speed.

use super::keep_alive::KeepAlive;
use super::user_timeout::UserTimeout;
use crate::internet;
use crate::time::Duration;
use alloc::sync::Arc;
use core::ops::Deref;

/// Conditions for advertising a larger window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUpdate {
    /// At least half of the window is used. Then the maximum is advertised (TM-233 §5.6).
    HalfUsed,
    /// The window is used up. Then the maximum is advertised. The window counts as used up when
    /// less than a segment and less than a quarter of it is left, because a peer with silly window
    /// avoidance does not use that part. An NCP of 1973 allocates in this way (RFC 573, IV). It is
    /// slow if the window is smaller than the capacity of the path.
    UsedUp,
    /// The application has read any number of bytes, as RFC 573 proposes. A reader of single bytes
    /// causes an update for each byte (silly windows, RFC 9293 §3.8.6.2.2).
    AsRead,
    /// The window can grow by two segments or by half the buffer (RFC 9293 §3.8.6.2.2).
    TwoSegments,
}

/// When received data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgment {
    /// At the next output, after the application has run. If the application sends an answer, the
    /// acknowledgment is piggybacked on it.
    AtOutput,
    /// After this time, with the second full segment (RFC 9293 §3.8.6.3), or with an answer of the
    /// application, whichever is earlier. A time of 0.5 s or more counts as 499 ms (MUST-40).
    Delayed(Duration),
}

/// The maximum window to advertise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWindow {
    /// A fixed number of bytes.
    Bytes(usize),
    /// The number of bytes that the application reads in two round trips, but at least `start` and
    /// at most `limit`. Initially `start`.
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
    /// Twice the congestion window, but at least `start` and at most `limit`. Initially `start`.
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
    /// BBR, version 1, for paths with random losses. Data is always paced.
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

/// When the sender assumes a black hole, a path that drops long datagrams without an ICMP error. It
/// then searches for the path MTU (RFC 8899).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlackHoleDetection {
    /// Never.
    #[default]
    Off,
    /// At the third consecutive retransmission timeout. If segments of the base length (datagrams
    /// of 1280 bytes) are lost too, at the third timeout of these. RFC 4821 §7.7 recommends this:
    /// short segments cost a bulk transfer more than a late search does.
    AtThirdTimeout,
    /// At the first retransmission timeout. If segments of the base length are lost too, at the
    /// first timeout of these. If another timeout would take more than a second, the sender skips
    /// the base length and immediately uses the shortest length. A black hole then costs less than
    /// 5 s while the round-trip time is at most 600 ms.
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
    /// Whether data is paced evenly over the round trip, if that is at least a millisecond.
    pub pacing: bool,
    /// Minimum difference between the retransmission timeout and the smoothed round-trip time.
    ///
    /// RFC 6298 (2.4) requires one second for the whole timeout. Hosts today use 200 ms above the
    /// round trip, because their clocks are precise enough.
    pub rto_min: Duration,
    /// Change of the retransmission timeout after an unanswered retransmission.
    pub retransmission: Retransmission,
    /// Time limits for an unresponsive peer.
    pub user_timeout: UserTimeout,
    /// Schedule of keep-alive probes. `None`, the default, sends none.
    pub keep_alive: Option<KeepAlive>,
    /// When the sender searches for the path MTU, because long segments are lost (RFC 8899).
    pub black_hole_detection: BlackHoleDetection,
    /// Fields of the IP header of every segment of the connection.
    pub marking: Marking,
    /// Whether the SYNs of both ends may contain data (RFC 7413).
    pub fast_open: bool,
}

/// Change of the retransmission timeout after an unanswered retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransmission {
    /// The timeout doubles (RFC 6298 §5.5).
    #[default]
    BacksOff,
    /// The timeout stays the same, as in hosts before RFC 1122. For experiments only, because RFC
    /// 6298 (5.5) requires that the timeout doubles.
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
/// Maximum size of the buffers for files, in bytes. A rate of 1 Gbit/s delivers less in 100 ms. It
/// is also the maximum of the window field with a shift of 8.
const BULK_LIMIT: usize = 0xFFFF << 8;

impl Marking {
    /// The default marking.
    pub const DEFAULT: Self = Self { dscp: 0, hops: None };

    /// Writes the marking into the fields for the Internet layer, except the two ECN bits.
    pub(super) fn apply_to(&self, lower: &mut internet::Header) {
        lower.dscp_ecn |= self.dscp & !ECN_BITS;
        lower.hop_limit = self.hops.unwrap_or(lower.hop_limit);
    }
}

impl Profile {
    /// Profile for a user at a keyboard. The window is a screenful plus a segment of 500 bytes, and
    /// is advertised again when half of it is used. At most one segment is outstanding. Answers are
    /// sent as early as possible.
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

    /// Profile for the host to which a user logs in. It is like [`Self::interactive`], but allows
    /// more than one outstanding segment. Otherwise the rest of a screen would wait until its first
    /// segment is acknowledged.
    #[must_use]
    pub const fn serving(screenful: usize) -> Self {
        let send_limit = SendLimit::Bytes(screenful);
        Self { send_limit, ..Self::interactive(screenful) }
    }

    /// The interactive profile of TM-233: a screen of 2000 characters.
    pub const INTERACTIVE: Self = Self::interactive(2000);

    /// Profile for files: large buffers that grow with the capacity of the path, and few segments.
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

    /// Profile for a connection that carries files and commands. Nagle's algorithm and delayed
    /// acknowledgments are off, so that a command does not have to wait for an acknowledgment.
    pub const FILES: Self =
        Self { nagle: false, acknowledgment: Acknowledgment::AtOutput, ..Self::BULK };

    /// Profile for a login server. A window of 32 KiB is enough for typed and pasted input.
    pub const LOGINS: Self = Self::serving(32 * 1024);
}

/// The policies of a connection. All connections of a listener share them, until the user changes
/// those of one connection.
#[derive(Clone, Debug)]
pub(super) struct SharedProfile(Arc<Profile>);

impl SharedProfile {
    /// Shares the policies of `profile`.
    pub(super) const fn new(profile: Arc<Profile>) -> Self {
        Self(profile)
    }

    /// Replaces the policies, except those that the SYN has already negotiated.
    pub(super) fn replace(&mut self, profile: Profile) {
        let Profile { receive_window, mss_max, extensions, timestamps, .. } = *self.0;
        let new_profile = Profile { receive_window, mss_max, extensions, timestamps, ..profile };
        self.0 = Arc::new(new_profile);
    }

    /// Replaces the keep-alive policy of this connection.
    pub(super) fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        Arc::make_mut(&mut self.0).keep_alive = keep_alive;
    }

    /// Replaces R1, R2 and the user timeout of this connection.
    pub(super) fn set_user_timeout(&mut self, user_timeout: UserTimeout) {
        Arc::make_mut(&mut self.0).user_timeout = user_timeout;
    }

    /// Replaces the marking of the segments of this connection.
    pub(super) fn set_marking(&mut self, marking: Marking) {
        Arc::make_mut(&mut self.0).marking = marking;
    }
}

impl Deref for SharedProfile {
    type Target = Profile;

    fn deref(&self) -> &Profile {
        &self.0
    }
}
