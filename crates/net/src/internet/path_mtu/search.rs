//! Packetization layer path MTU discovery (RFC 4821, RFC 8899): one connection's search for the
//! longest datagram that arrives, by sending probes and observing which are acknowledged.
//!
//! The search needs no reports of routers, and so detects a *black hole*, where long datagrams are
//! lost without an ICMP error. The engine is independent of segments: a transport asks it for the
//! length of its datagrams and for occasional probes, and reports the result of each. All lengths
//! are those of whole IP datagrams.
//!
//! ```text
//!            base acknowledged             nothing left between low and high
//!   Base ───────────────────────► Searching ───────────────────────► Complete
//!    │ ▲                             ▲                                  │
//!    │ └── long datagrams lost ──────┼──────────────────────────────────┤
//!    │                               └──────── ten minutes later ───────┘
//!    │ base not acknowledged
//!    └──► Error (the shortest length; base is still probed)
//! ```
//!
//! A transport that trusts ICMP errors starts with [`Search::optimistic`], which uses the longest
//! length until long datagrams are lost. Others start with [`Search::from_base`].

use crate::time::{Duration, Instant};

/// Number of lost probes after which a length is considered too long (RFC 8899 §5.1.2).
pub const MAX_PROBES: u8 = 3;
/// Number of consecutive lost datagrams above the base length that indicate a black hole. With a
/// retransmission timer that starts at 1 s and doubles, this takes 7 s.
pub const MAX_CONSECUTIVE_LOSSES: u8 = 3;
/// Time until longer datagrams are probed again (RFC 8899 §5.1.1).
pub const RAISE_AFTER: Duration = Duration::from_secs(600);
/// Minimum time to wait for a probe's acknowledgment (RFC 8899 §5.1.1 MUST).
pub const PROBE_WAIT_MIN: Duration = Duration::from_secs(1);
/// A search ends when the longest possible length exceeds the length in use by less than this
/// number of bytes.
pub const RESOLUTION: u16 = 8;

/// The range of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A length that passes every path: 1280 for IPv6, the floor of path MTUs for IPv4.
    pub min: u16,
    /// A length that passes nearly every path.
    pub base: u16,
    /// The MTU of the link.
    pub max: u16,
}

/// The state of a search (RFC 8899 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The base length is being confirmed.
    Base,
    /// Lengths above the length in use are probed.
    Searching,
    /// The length is known, until the search is repeated.
    Complete {
        /// Time of the next search.
        raise_at: Instant,
    },
    /// Not even datagrams of the base length arrive.
    Error,
}

/// The search for the path MTU of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    limits: Limits,
    state: State,
    /// The length in use.
    mtu: u16,
    /// The longest length that may still pass.
    high: u16,
    probe: Probe,
    consecutive_losses: u8,
    /// Number of consecutive losses of the length in use after which it counts as too long.
    consecutive_losses_max: u8,
    /// Length of the longest lost datagram. All datagrams acknowledged since then were shorter.
    longest_lost: u16,
}

/// The length being probed.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    len: u16,
    /// Number of lost probes of this length.
    lost: u8,
    /// Time until which the last probe may be acknowledged, if one is outstanding.
    expires_at: Option<Instant>,
}

impl Limits {
    /// Returns these limits with min, base and max in ascending order.
    #[must_use]
    fn sorted(self) -> Self {
        let max = self.max.max(1);
        let base = self.base.min(max);
        Self { min: self.min.min(base), base, max }
    }
}

impl Search {
    /// Starts with the longest length, and searches when datagrams of that length are lost.
    #[must_use]
    pub fn optimistic(limits: Limits, now: Instant) -> Self {
        let limits = limits.sorted();
        Self {
            state: State::Complete { raise_at: now + RAISE_AFTER },
            mtu: limits.max,
            ..Self::from_base(limits)
        }
    }

    /// Starts with the base length and searches upwards.
    #[must_use]
    pub fn from_base(limits: Limits) -> Self {
        let limits = limits.sorted();
        let mtu = limits.base;
        let high = limits.max;
        Self {
            limits,
            state: State::Base,
            mtu,
            high,
            probe: Probe::default(),
            consecutive_losses: 0,
            consecutive_losses_max: MAX_CONSECUTIVE_LOSSES,
            longest_lost: 0,
        }
    }

    /// Sets the number of consecutive losses after which the length in use, or the base length
    /// while it is being confirmed, counts as too long. The default is [`MAX_CONSECUTIVE_LOSSES`].
    #[must_use]
    pub fn with_consecutive_losses_max(self, consecutive_losses_max: u8) -> Self {
        Self { consecutive_losses_max, ..self }
    }

    /// Switches to the shortest length instead of waiting for the confirmation of the base length.
    /// The base length is then probed.
    pub fn skip_base(&mut self) {
        if self.state == State::Base {
            self.fail();
        }
    }

    /// Returns the base length.
    #[must_use]
    pub fn base(&self) -> u16 {
        self.limits.base
    }

    /// Returns the length to use for data.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the state of the search.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the length of a probe to send now, if one is due. The probe counts as sent: its
    /// acknowledgment must arrive within `wait`, which is at least one second.
    ///
    /// In the states Base and Error any datagram of that length serves as a probe.
    pub fn transmit(&mut self, wait: Duration, now: Instant) -> Option<u16> {
        if self.probe.expires_at.is_some() {
            return None;
        }
        let len = match self.state {
            State::Base | State::Error => self.limits.base,
            State::Searching => self.next_len(),
            State::Complete { .. } => return None,
        };
        if len != self.probe.len {
            self.probe = Probe { len, ..Probe::default() };
        }
        self.probe.expires_at = Some(now + wait.max(PROBE_WAIT_MIN));
        Some(len)
    }

    /// Returns when to call [`Self::timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Complete { raise_at } if self.mtu < self.limits.max => Some(raise_at),
            State::Complete { .. } => None,
            State::Base | State::Searching | State::Error => self.probe.expires_at,
        }
    }

    /// Processes the timers that are due.
    pub fn timeout(&mut self, now: Instant) {
        match (self.state, self.probe.expires_at) {
            (State::Complete { raise_at }, _) if raise_at <= now => self.raise(),
            (State::Complete { .. }, _) => {}
            (_, Some(expires_at)) if expires_at <= now => self.lost(self.probe.len, now),
            _ => {}
        }
    }

    /// Records that a datagram of `len` bytes, a probe or not, was acknowledged.
    pub fn acknowledged(&mut self, len: u16, now: Instant) {
        if len >= self.longest_lost {
            self.consecutive_losses = 0;
            self.longest_lost = 0;
        }
        let confirms_base = len >= self.limits.base.min(self.mtu.max(self.limits.min));
        match self.state {
            State::Base if confirms_base => self.search(self.limits.base, now),
            // In this state data is shorter than base, so the acknowledged datagram is a probe.
            State::Error if len >= self.limits.base => self.search(self.limits.base, now),
            State::Searching | State::Complete { .. } if len > self.mtu => self.search(len, now),
            _ => {}
        }
    }

    /// Records that a probe of `len` bytes was lost while other datagrams arrived. This is no sign
    /// of congestion (RFC 8899 §3).
    pub fn lost(&mut self, len: u16, now: Instant) {
        if self.probe.expires_at.is_none() || len != self.probe.len {
            return;
        }
        self.probe.expires_at = None;
        self.probe.lost += 1;
        let lost_max = match self.state {
            // In this state data has the length of the probe, and is lost too.
            State::Base => self.consecutive_losses_max,
            State::Searching | State::Complete { .. } | State::Error => MAX_PROBES,
        };
        if self.probe.lost < lost_max {
            return;
        }
        self.probe = Probe::default();
        match self.state {
            State::Base | State::Error => self.fail(),
            State::Searching => {
                self.high = len.saturating_sub(1).max(self.mtu);
                self.update_state(now);
            }
            State::Complete { .. } => {}
        }
    }

    /// Records that a datagram of `len` bytes with data was retransmitted because no datagram was
    /// acknowledged. Returns whether this indicates a black hole; [`Self::mtu`] then returns a
    /// lower length.
    ///
    /// If datagrams of the base length or less are lost, the base length must be confirmed again
    /// (RFC 8899 §5.2).
    pub fn datagram_lost(&mut self, len: u16) -> bool {
        if len <= self.limits.min
            || !matches!(self.state, State::Complete { .. } | State::Searching)
        {
            return false;
        }
        self.consecutive_losses = self.consecutive_losses.saturating_add(1);
        self.longest_lost = self.longest_lost.max(len);
        if self.consecutive_losses < self.consecutive_losses_max {
            return false;
        }
        let previous_mtu = self.mtu;
        if self.mtu < self.limits.base {
            self.fail();
        } else {
            // The path may have been down. Once the base length is acknowledged, the lost length is
            // therefore probed first.
            self.restart(if len > self.limits.base { len } else { self.high });
        }
        self.consecutive_losses = 0;
        self.longest_lost = 0;
        self.mtu < previous_mtu
    }

    /// Records the report of a router, accepted by the transport, that at most `mtu` bytes pass.
    pub fn packet_too_big(&mut self, mtu: u16, now: Instant) {
        if mtu < self.limits.min || mtu >= self.high.max(self.mtu) {
            return;
        }
        self.high = mtu;
        if self.probe.len > mtu {
            self.probe = Probe::default();
        }
        if mtu < self.limits.base {
            self.mtu = mtu;
            self.state = State::Complete { raise_at: now + RAISE_AFTER };
        } else if mtu < self.mtu {
            // RFC 8899 §4.6.2: `mtu` limits the length, and is probed before it is used.
            self.restart(mtu);
        } else {
            self.update_state(now);
        }
    }

    fn restart(&mut self, high: u16) {
        self.mtu = self.limits.base;
        self.high = high.max(self.limits.base);
        self.probe = Probe::default();
        self.consecutive_losses = 0;
        self.state = State::Base;
    }

    fn fail(&mut self) {
        self.mtu = self.limits.min;
        self.state = State::Error;
    }

    /// Continues from a length that is known to pass.
    fn search(&mut self, len: u16, now: Instant) {
        self.mtu = len.min(self.limits.max);
        self.high = self.high.max(self.mtu);
        self.probe = Probe::default();
        self.update_state(now);
    }

    fn update_state(&mut self, now: Instant) {
        if matches!(self.state, State::Base | State::Error) && self.mtu < self.limits.base {
            return;
        }
        let is_found = self.high.saturating_sub(self.mtu) < RESOLUTION;
        self.state = match is_found {
            true => State::Complete { raise_at: now + RAISE_AFTER },
            false => State::Searching,
        };
    }

    fn raise(&mut self) {
        self.high = self.limits.max;
        self.probe = Probe::default();
        self.state = State::Searching;
        if self.mtu < self.limits.base {
            self.state = State::Base;
        }
    }

    /// Returns the next length to probe: first the longest, because most paths support it, then the
    /// middle of the range.
    fn next_len(&self) -> u16 {
        if self.high == self.limits.max {
            return self.high;
        }
        self.mtu + (self.high - self.mtu).div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { min: 1280, base: 1280, max: 1500 };
    const WAIT: Duration = Duration::from_secs(1);

    /// Sends probes over a path of `path_mtu` bytes until none is due, and advances `now`.
    fn run(search: &mut Search, path_mtu: u16, now: &mut Instant) {
        for _ in 0..100 {
            if let Some(len) = search.transmit(WAIT, *now) {
                if len <= path_mtu {
                    search.acknowledged(len, *now);
                }
            } else if let (Some(deadline), false) =
                (search.deadline(), matches!(search.state(), State::Complete { .. }))
            {
                *now = deadline;
                search.timeout(*now);
            } else {
                return;
            }
        }
        panic!("the search does not end: {search:?}");
    }

    proptest! {
        #[test]
        fn a_search_ends_within_its_resolution_below_the_path_mtu(
            max in 1280_u16.., path in 1280_u16..
        ) {
            let mut search = Search::from_base(Limits { max, ..LIMITS });
            let mut now = Instant::ZERO;
            run(&mut search, path, &mut now);
            let expected_mtu = path.min(max);
            prop_assert!(search.mtu() <= expected_mtu && expected_mtu - search.mtu() < RESOLUTION);
        }

        #[test]
        fn any_reports_keep_the_length_within_the_limits(
            reports in prop::collection::vec((0..6_u8, 0_u16..2000), 0..60),
            optimistic: bool,
        ) {
            let limits = Limits { min: 552, base: 1200, max: 1500 };
            let mut now = Instant::ZERO;
            let mut search = match optimistic {
                true => Search::optimistic(limits, now),
                false => Search::from_base(limits),
            };
            for (what, len) in reports {
                match what {
                    0 => search.acknowledged(len.min(1500), now),
                    1 => search.lost(len, now),
                    2 => { search.datagram_lost(len); }
                    3 => search.packet_too_big(len, now),
                    4 => { search.transmit(WAIT, now); }
                    _ => {
                        now = now + Duration::from_secs(u64::from(len));
                        search.timeout(now);
                    }
                }
                prop_assert!((552..=1500).contains(&search.mtu()), "{:?}", search);
            }
        }
    }

    #[test]
    fn a_path_with_the_maximum_length_is_found_with_two_probes() {
        let mut search = Search::from_base(LIMITS);
        let probes = [1280, 1500].map(|len| {
            assert_eq!(search.transmit(WAIT, Instant::ZERO), Some(len));
            search.acknowledged(len, Instant::ZERO);
            search.mtu()
        });
        assert_eq!(probes, [1280, 1500]);
        assert_eq!((search.transmit(WAIT, Instant::ZERO), search.deadline()), (None, None));
    }

    #[test]
    fn a_black_hole_is_left_within_30_seconds() {
        let mut now = Instant::ZERO;
        let mut search = Search::optimistic(LIMITS, now);
        // The retransmission timer expires after 1, 3 and 7 seconds.
        let is_detected = [1, 2, 4].map(|secs| {
            now = now + Duration::from_secs(secs);
            search.datagram_lost(1500)
        });
        assert_eq!((is_detected, search.mtu()), ([false, false, true], 1280));
        run(&mut search, 1400, &mut now);
        assert!((1393..=1400).contains(&search.mtu()), "{}", search.mtu());
        assert!(now < Instant::ZERO + Duration::from_secs(30), "{now}");
    }

    #[test]
    fn losses_that_end_show_no_black_hole() {
        let mut search = Search::optimistic(LIMITS, Instant::ZERO);
        let is_detected = [(); 10].map(|()| {
            let is_detected = search.datagram_lost(1500) || search.datagram_lost(1500);
            search.acknowledged(1500, Instant::ZERO);
            is_detected
        });
        assert_eq!((is_detected, search.mtu()), ([false; 10], 1500));
    }

    #[test]
    fn short_datagrams_that_vanish_show_no_black_hole() {
        let mut search = Search::optimistic(LIMITS, Instant::ZERO);
        let is_detected = [(); 10].map(|()| search.datagram_lost(1280));
        assert_eq!((is_detected, search.mtu()), ([false; 10], 1500));
    }

    #[test]
    fn base_is_probed_before_the_minimum_length_is_used() {
        let limits = Limits { min: 552, base: 1280, max: 1500 };
        let mut search = Search::optimistic(limits, Instant::ZERO);
        assert!([1500; 3].map(|len| search.datagram_lost(len))[2]);
        search.acknowledged(1280, Instant::ZERO);
        assert!(matches!(search.state(), State::Searching));
        assert_eq!([1280; 3].map(|len| search.datagram_lost(len)), [false; 3]);
        assert_eq!((search.state(), search.mtu()), (State::Base, 1280));
    }

    #[test]
    fn a_base_that_is_never_acknowledged_leaves_the_shortest_length() {
        let mut search = Search::from_base(Limits { min: 552, base: 1200, max: 1500 });
        let mut now = Instant::ZERO;
        for _ in 0..3 {
            assert_eq!(search.transmit(WAIT, now), Some(1200));
            now = search.deadline().unwrap();
            search.timeout(now);
        }
        assert_eq!((search.state(), search.mtu()), (State::Error, 552));
        assert_eq!(search.transmit(WAIT, now), Some(1200));
        search.acknowledged(1200, now);
        assert_eq!((search.state(), search.mtu()), (State::Searching, 1200));
    }

    #[test]
    fn a_search_that_waits_for_one_loss_uses_base_and_then_the_shortest_length_at_once() {
        let limits = Limits { min: 552, base: 1280, max: 1500 };
        let mut search = Search::optimistic(limits, Instant::ZERO).with_consecutive_losses_max(1);
        assert!(search.datagram_lost(1500));
        assert_eq!((search.state(), search.mtu()), (State::Base, 1280));
        assert_eq!(search.transmit(WAIT, Instant::ZERO), Some(1280));
        search.lost(1280, Instant::ZERO);
        assert_eq!((search.state(), search.mtu()), (State::Error, 552));
    }

    #[test]
    fn a_probed_length_needs_three_losses_even_if_the_length_in_use_needs_one() {
        let mut search = Search::from_base(LIMITS).with_consecutive_losses_max(1);
        search.transmit(WAIT, Instant::ZERO);
        search.acknowledged(1280, Instant::ZERO);
        for _ in 0..3 {
            assert_eq!(search.transmit(WAIT, Instant::ZERO), Some(1500));
            search.lost(1500, Instant::ZERO);
        }
        assert_ne!(search.transmit(WAIT, Instant::ZERO), Some(1500));
    }

    #[test]
    fn the_base_length_can_be_skipped_only_while_it_is_being_confirmed() {
        let limits = Limits { min: 552, base: 1280, max: 1500 };
        let mut search = Search::optimistic(limits, Instant::ZERO);
        search.skip_base();
        assert_eq!(search.mtu(), 1500);
        assert!([1500; 3].map(|len| search.datagram_lost(len))[2]);
        search.skip_base();
        assert_eq!((search.state(), search.mtu()), (State::Error, 552));
    }

    #[test]
    fn a_longer_length_is_tried_after_ten_minutes() {
        let mut search = Search::from_base(LIMITS);
        let mut now = Instant::ZERO;
        run(&mut search, 1400, &mut now);
        assert_eq!(search.transmit(WAIT, now), None);
        now = search.deadline().unwrap();
        search.timeout(now);
        run(&mut search, 1500, &mut now);
        assert_eq!(search.mtu(), 1500);
    }

    #[test]
    fn a_path_mtu_reported_by_a_router_is_probed_before_use() {
        let mut now = Instant::ZERO;
        let mut search = Search::optimistic(LIMITS, now);
        search.packet_too_big(1400, now);
        assert_eq!((search.mtu(), search.state()), (1280, State::Base));
        run(&mut search, 1400, &mut now);
        assert!((1393..=1400).contains(&search.mtu()), "{}", search.mtu());
    }

    #[test]
    fn a_reported_mtu_outside_the_known_range_is_rejected() {
        let mut search = Search::optimistic(LIMITS, Instant::ZERO);
        for mtu in [1279, 1500, 9000] {
            search.packet_too_big(mtu, Instant::ZERO);
        }
        assert_eq!(search.mtu(), 1500);
    }

    #[test]
    fn the_loss_of_another_length_is_no_loss_of_the_probe() {
        let mut search = Search::from_base(LIMITS);
        assert_eq!(search.transmit(WAIT, Instant::ZERO), Some(1280));
        search.lost(1000, Instant::ZERO);
        assert_eq!(search.deadline(), Some(Instant::ZERO + WAIT));
        search.lost(1280, Instant::ZERO);
        assert_eq!((search.deadline(), search.transmit(WAIT, Instant::ZERO)), (None, Some(1280)));
    }

    #[test]
    fn losses_below_the_base_length_leave_the_shortest_length() {
        let mut search = Search::optimistic(Limits { min: 552, ..LIMITS }, Instant::ZERO);
        search.packet_too_big(600, Instant::ZERO);
        assert_eq!(search.mtu(), 600);
        assert_eq!([600; 3].map(|len| search.datagram_lost(len)), [false, false, true]);
        assert_eq!((search.state(), search.mtu()), (State::Error, 552));
    }

    #[test]
    fn a_report_of_the_length_of_the_probe_leaves_the_probe_in_flight() {
        let mut search = Search::from_base(LIMITS);
        search.transmit(WAIT, Instant::ZERO);
        search.acknowledged(1280, Instant::ZERO);
        search.packet_too_big(1400, Instant::ZERO);
        assert_eq!(search.transmit(WAIT, Instant::ZERO), Some(1340));
        search.packet_too_big(1340, Instant::ZERO);
        assert_eq!(search.deadline(), Some(Instant::ZERO + WAIT));
        search.packet_too_big(1339, Instant::ZERO);
        assert_eq!(search.deadline(), None);
    }
}
