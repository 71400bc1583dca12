//! SYN cookies (RFC 4987 §3.6): a listener with too many half-open connections keeps no state of a
//! further SYN, but encodes it in the initial sequence number of its answer:
//!
//! ```text
//!  31    27 26   24 23                       0
//! +--------+-------+--------------------------+
//! | minute | size  | keyed hash               |
//! +--------+-------+--------------------------+
//! ```
//!
//! `minute` counts spans of 64 s, `size` is the largest of eight segment sizes that does not exceed
//! the peer's, and the hash covers these two fields, both ends and the peer's initial sequence
//! number. An acknowledgment with a matching number is accepted for one to two spans. One guess in
//! 2^24 matches, and opens a connection without a peer.
//!
//! A peer that sends timestamps echoes the local one, whose low six bits then carry the window
//! scale and the other options that the peer offered. The hash does not cover them: forging them
//! only harms the forger's own connection.

use super::keyed_hash::{Key, low_bits};
use super::seq::Seq;
use crate::time::Instant;
use core::net::SocketAddr;

/// The options of the peer that a timestamp encodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfferedOptions {
    pub(super) window_scale: Option<u8>,
    pub(super) sack: bool,
    pub(super) ecn: bool,
}

/// The key with which cookies are computed and checked.
#[derive(Clone, Debug)]
pub(super) struct SynCookies {
    key: Key,
}

const SPAN_NS: u64 = 64_000_000_000;
/// Number of time spans that the five bits of `minute` distinguish.
const SPANS: u64 = 32;
/// Common segment sizes: the minimum, the defaults of both versions of IP, the sizes of tunnels and
/// of Ethernet, with and without options, and a size for jumbo frames.
const SIZES: [u16; 8] = [64, 536, 1220, 1360, 1400, 1440, 1460, 8940];
const HASH_MASK: u32 = 0x00FF_FFFF;
const STAMP_BITS: u32 = 0x3F;
const SCALE_BITS: u32 = 0x0F;
/// Represents a peer without window scale. RFC 7323 allows no scale above 14.
const NO_SCALE: u32 = 0x0F;
const SACK_BIT: u32 = 0x10;
const ECN_BIT: u32 = 0x20;

impl SynCookies {
    pub(super) fn new(key: Key) -> Self {
        Self { key }
    }

    /// Returns the initial sequence number for the answer to a SYN with sequence number `irs`.
    pub(super) fn make(
        &self,
        (local, remote): (SocketAddr, SocketAddr),
        irs: Seq,
        mss: u16,
        now: Instant,
    ) -> Seq {
        let size = SIZES.iter().rposition(|size| *size <= mss).unwrap_or(0);
        self.cookie((local, remote), irs, size, now.as_nanos() / SPAN_NS)
    }

    /// Returns the segment size in a valid cookie, or `None` if the cookie is invalid.
    pub(super) fn check(
        &self,
        ends: (SocketAddr, SocketAddr),
        irs: Seq,
        cookie: Seq,
        now: Instant,
    ) -> Option<u16> {
        let size = usize::try_from((cookie.0 >> 24) & 0x7).ok()?;
        let span = now.as_nanos() / SPAN_NS;
        let spans = [Some(span), span.checked_sub(1)].into_iter().flatten();
        let is_ours = spans.map(|span| self.cookie(ends, irs, size, span)).any(|c| c == cookie);
        is_ours.then(|| SIZES.get(size).copied()).flatten()
    }

    fn cookie(
        &self,
        (local, remote): (SocketAddr, SocketAddr),
        irs: Seq,
        size: usize,
        span: u64,
    ) -> Seq {
        let hash = self.key.hash(0).end(local).end(remote);
        let hash = hash.word(u64::from(irs.0)).word(size as u64).word(span).finish();
        let high_bits = low_bits(((span % SPANS) << 27) | ((size as u64) << 24));
        Seq(high_bits | (low_bits(hash) & HASH_MASK))
    }
}

impl OfferedOptions {
    /// Returns `clock` with the offered options in its low bits. The result is never later than
    /// `clock`, because a timestamp must not be in the future.
    pub(super) fn stamp(self, clock: u32) -> u32 {
        let scale = self.window_scale.map_or(NO_SCALE, u32::from);
        let sack = if self.sack { SACK_BIT } else { 0 };
        let ecn = if self.ecn { ECN_BIT } else { 0 };
        let stamped = (clock & !STAMP_BITS) | (scale & SCALE_BITS) | sack | ecn;
        if stamped > clock { stamped.wrapping_sub(STAMP_BITS + 1) } else { stamped }
    }

    /// Returns the options that `stamp`, an echoed timestamp, encodes.
    pub(super) fn from_stamp(stamp: u32) -> Self {
        let scale = stamp & SCALE_BITS;
        Self {
            window_scale: u8::try_from(scale).ok().filter(|_| scale != NO_SCALE),
            sack: stamp & SACK_BIT != 0,
            ecn: stamp & ECN_BIT != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::time::Duration;
    use core::net::{IpAddr, Ipv4Addr};
    use proptest::prelude::*;

    fn end(port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    }

    fn new_cookies() -> SynCookies {
        SynCookies::new(Key::draw(&mut Rng::from_seed(3)))
    }

    const IRS: Seq = Seq(77);

    #[test]
    fn a_cookie_is_accepted_for_one_to_two_spans_and_no_longer() {
        let cookies = new_cookies();
        let ends = (end(23), end(4000));
        let start = Instant::from_nanos(1_000_000_000_000);
        let cookie = cookies.make(ends, IRS, 1460, start);
        let after = |secs| cookies.check(ends, IRS, cookie, start + Duration::from_secs(secs));
        assert_eq!((after(0), after(64)), (Some(1460), Some(1460)));
        assert_eq!((after(128), after(32 * 64)), (None, None));
    }

    #[test]
    fn a_cookie_is_for_its_own_ends_and_its_own_number_only() {
        let cookies = new_cookies();
        let ends = (end(23), end(4000));
        let now = Instant::ZERO;
        let cookie = cookies.make(ends, IRS, 1460, now);
        assert_eq!(cookies.check((end(23), end(4001)), IRS, cookie, now), None);
        assert_eq!(cookies.check((end(24), end(4000)), IRS, cookie, now), None);
        assert_eq!(cookies.check(ends, IRS + 1, cookie, now), None);
        let other = SynCookies::new(Key::draw(&mut Rng::from_seed(4)));
        assert_eq!(other.check(ends, IRS, cookie, now), None, "another run has another key");
    }

    #[test]
    fn guesses_are_not_accepted() {
        let cookies = new_cookies();
        let ends = (end(23), end(4000));
        let mut rng = Rng::from_seed(5);
        let hits = (0..100_000)
            .filter(|_| cookies.check(ends, IRS, Seq(rng.next_u32()), Instant::ZERO).is_some())
            .count();
        assert!(hits <= 1, "{hits}");
    }

    proptest! {
        #[test]
        fn the_segment_size_is_unchanged_or_rounded_down(mss in 64_u16.., now: u64, irs: u32) {
            let cookies = new_cookies();
            let ends = (end(23), end(4000));
            let now = Instant::from_nanos(now);
            let cookie = cookies.make(ends, Seq(irs), mss, now);
            let rounded_mss = cookies.check(ends, Seq(irs), cookie, now).unwrap();
            prop_assert!(rounded_mss <= mss && (rounded_mss == 8940 || mss < rounded_mss * 9));
        }

        #[test]
        fn a_timestamp_carries_the_offered_options_and_is_never_ahead(
            clock in 64_u32.., window_scale in prop::option::of(0..=14_u8), sack: bool, ecn: bool
        ) {
            let offered = OfferedOptions { window_scale, sack, ecn };
            let stamp = offered.stamp(clock);
            prop_assert_eq!(OfferedOptions::from_stamp(stamp), offered);
            prop_assert!(stamp <= clock && clock - stamp <= 64);
        }
    }
}
