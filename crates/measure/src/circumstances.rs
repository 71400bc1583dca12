//! Circumstances of a measured login: the target, its carrier and the times before the session.

use super::echo::Keystroke;
use super::session_results::SessionResults;
use super::target::SerialTarget;
use super::timestamps::{Rates, SpentTime};
use carrier::Route;
use net::time::{Duration, Instant};
use os::clock::TickRate;
use records::nominal::{self, Transit};
use records::statistics;
use std::fmt;
use std::net::SocketAddr;
use std::time::SystemTime;

/// Carrier of the session.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// A network.
    Network(Route),
    /// A serial line without a network layer.
    Line(SerialTarget),
    /// A program on a pseudo-terminal.
    Program,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(via) => via.fmt(f),
            Self::Line(line) => line.fmt(f),
            Self::Program => f.write_str("exec"),
        }
    }
}

impl Carrier {
    /// Returns the configured rate of a serial line.
    fn nominal_bps(&self) -> Option<u32> {
        match self {
            Self::Network(Route::Serial { rate_bps, .. }) => Some(*rate_bps),
            Self::Network(_) | Self::Program => None,
            Self::Line(line) => Some(line.settings.bits_per_second),
        }
    }

    /// Returns the rate of a serial line; `None` for a pseudo-terminal, whose rate has no effect.
    pub(super) fn line_bps(&self) -> Option<u32> {
        match self {
            Self::Network(Route::Serial { device, .. }) if device.starts_with("/dev/pts") => None,
            Self::Network(Route::Serial { rate_bps, .. }) => Some(*rate_bps),
            Self::Network(Route::Kernel | Route::Tun { .. } | Route::Segment(_))
            | Self::Program => None,
            Self::Line(line) => line.rate_bps(),
        }
    }

    /// Returns the number of bits per byte, on a serial line including start and stop bits.
    pub(super) fn bits_per_byte(&self) -> u64 {
        match self {
            Self::Line(line) => line.bits_per_byte(),
            Self::Network(Route::Serial { .. }) => 10,
            Self::Network(_) | Self::Program => 8,
        }
    }
}

/// Facts about a measurement that the session itself does not know.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// Target as specified by the user.
    pub target: String,
    /// Address of the target; a serial line has none.
    pub address: Option<SocketAddr>,
    /// Carrier of the session.
    pub carrier: Carrier,
    /// Start of the measurement.
    pub started_at: SystemTime,
    /// Duration of the name lookup.
    pub resolve: Option<Duration>,
    /// Time at which the connection attempt started; `None` for a serial line.
    pub connecting_at: Option<Instant>,
    /// Time until the connection was open, if the carrier has measured it.
    pub connect_time: Option<Duration>,
    /// Duration of the TLS handshake.
    pub tls: Option<Duration>,
    /// Duration of one tick of the meter's clock.
    pub tick: TickRate,
    /// Data that arrived faster than the configured rate of the serial line permits.
    pub refutation: Option<Transit>,
}

impl Circumstances {
    /// Returns the factors that convert ticks and bytes to nanoseconds.
    pub(crate) fn rates(&self) -> Rates {
        let line_bps = self.carrier.line_bps().filter(|_| self.refutation.is_none());
        Rates { tick: self.tick, line_bps }
    }

    /// Stores in `self` whether `findings` show that a serial line is faster than its configured
    /// rate.
    pub(crate) fn check_line_rate(&mut self, findings: &SessionResults) {
        let Some(rate_bps) = self.carrier.nominal_bps() else { return };
        let tick = self.tick;
        let ns = |spent: &SpentTime| tick.to_nanos(spent.total_ticks());
        let mut keys: Vec<SpentTime> = findings.keystrokes.iter().map(Keystroke::total).collect();
        keys.sort_by_key(SpentTime::total_ticks);
        let median = statistics::nearest_rank(&keys, 50);
        let echo = median.map(|key| {
            let bytes = match self.carrier {
                Carrier::Line(_) | Carrier::Program => ECHO_BYTES,
                // A line carries both directions at once, so only the bytes of one direction count.
                Carrier::Network(_) => key.line_bytes / 2,
            };
            Transit { bytes, ns: ns(key) }
        });
        let received = findings.screenful.as_ref().map(|(received, _)| received);
        let screenful = received.and_then(|received| {
            let last = received.watch.arrivals.last()?;
            Some(Transit { bytes: received.watch.bytes, ns: last.at_ns })
        });
        let transits: Vec<Transit> = echo.into_iter().chain(screenful).collect();
        let bits_per_byte = self.carrier.bits_per_byte();
        self.refutation = nominal::refutation(&transits, bits_per_byte, rate_bps.into());
    }

    /// Returns the configured rate of the line in bit/s if it was refuted, with a sentence about
    /// it.
    pub(super) fn refuted_rate(&self) -> Option<(u64, String)> {
        let rate_bps = u64::from(self.carrier.nominal_bps()?);
        let bits_per_byte = self.carrier.bits_per_byte();
        Some((rate_bps, nominal::sentence(self.refutation?, bits_per_byte, rate_bps)))
    }
}

/// Number of bytes of a key and its echo on a line without a network layer, where the echo follows
/// the key.
const ECHO_BYTES: u64 = 2;
