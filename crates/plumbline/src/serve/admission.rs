//! Admission control: address prefixes, session limits, and the rate of password checks.
//!
//! Sessions without a login may use only part of the places. Above a quarter of all places a new
//! one is refused at random, with a probability that grows with their number; above half it is
//! always refused, so that connections alone never fill the server. Random refusal prevents an
//! attacker that connects as fast as possible from taking every free place.

use super::metrics::{Protocol, Traffic};
use super::source::source;
use super::throttle::{Reservation, Throttle, TooSoon};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Sessions without a login are refused at random above one place in this many.
const EARLY_SHARE: usize = 4;
/// Sessions without a login are always refused above one place in this many.
const FULL_SHARE: usize = 2;
/// Refusals per million when the first share is reached.
const EARLY_REFUSALS_PPM: u64 = 300_000;

/// Reason for refusing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The prefix is denied, or not among those allowed.
    Prefix,
    /// The maximum number of sessions is reached.
    Full,
    /// The maximum number of sessions of this source is reached.
    SourceFull,
    /// Too many sessions have not logged in yet.
    Unproved,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "connections from this address are not allowed",
            Self::Full => "too many sessions",
            Self::SourceFull => "too many sessions from this address",
            Self::Unproved => "too many sessions waiting for a login",
        })
    }
}

/// Admission rules.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// If not empty, only these prefixes are admitted.
    pub(super) allow: Vec<IpNet>,
    /// These prefixes are never admitted; takes precedence over `allow`.
    pub(super) deny: Vec<IpNet>,
    pub(super) sessions_max: usize,
    pub(super) sessions_per_source_max: usize,
}

/// Counts since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Admitted sessions.
    pub(super) sessions: u64,
    /// Refused sessions.
    pub(super) refusals: u64,
    /// Successful logins, including those without a password.
    pub(super) logins: u64,
    /// Failed logins.
    pub(super) failed_logins: u64,
    /// Logins that were refused unchecked, because too many were being checked.
    pub(super) busy_logins: u64,
}

/// Counts sessions and remembers failed logins.
#[derive(Debug)]
pub(super) struct Admission {
    tally: Tally,
    rules: Rules,
    sessions: usize,
    by_source: BTreeMap<IpAddr, usize>,
    /// The sessions that have not logged in yet.
    unproved: BTreeSet<SocketAddr>,
    throttle: Throttle,
}

impl Admission {
    pub(super) fn new(rules: Rules) -> Self {
        let (tally, by_source, unproved, throttle) = Default::default();
        Self { tally, rules, sessions: 0, by_source, unproved, throttle }
    }

    /// Replaces the rules; open sessions are not affected.
    pub(super) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Admits a session from `address` if there is room; [`Admission::leave`] releases its place.
    pub(super) fn enter(&mut self, address: IpAddr) -> Result<(), Refusal> {
        let entered = self.find_room(address);
        self.count_entry(entered)
    }

    /// Admits a session that has to log in; `random_ppm` is a random number below 1,000,000.
    /// [`Admission::proved`] marks it as logged in, [`Admission::leave_session`] releases its
    /// place.
    pub(super) fn enter_unproved(
        &mut self,
        peer: SocketAddr,
        random_ppm: u64,
    ) -> Result<(), Refusal> {
        let has_room = self.sessions < self.rules.sessions_max;
        let entered = match has_room && random_ppm < self.early_refusals_ppm() {
            true => Err(Refusal::Unproved),
            false => self.find_room(peer.ip()),
        };
        if entered.is_ok() {
            self.unproved.insert(peer);
        }
        self.count_entry(entered)
    }

    fn count_entry(&mut self, entered: Result<(), Refusal>) -> Result<(), Refusal> {
        match entered {
            Ok(()) => self.tally.sessions += 1,
            Err(_) => self.tally.refusals += 1,
        }
        entered
    }

    /// Returns the current probability of refusing a session without a login, in parts per million.
    fn early_refusals_ppm(&self) -> u64 {
        let (here, places) = (self.unproved.len(), self.rules.sessions_max);
        let (early, full) = (places.div_ceil(EARLY_SHARE), places.div_ceil(FULL_SHARE));
        if here < early {
            return 0;
        }
        if here >= full {
            return 1_000_000;
        }
        let (behind, range) = ((here - early) as u64, (full - early) as u64);
        EARLY_REFUSALS_PPM + (1_000_000 - EARLY_REFUSALS_PPM) * behind / range
    }

    /// Records that the session with `peer` has logged in or needs no login.
    pub(super) fn proved(&mut self, peer: SocketAddr) {
        self.unproved.remove(&peer);
    }

    /// Releases the place of a session.
    pub(super) fn leave_session(&mut self, peer: SocketAddr) {
        self.proved(peer);
        self.leave(peer.ip());
    }

    fn find_room(&mut self, address: IpAddr) -> Result<(), Refusal> {
        let address = address.to_canonical();
        let holds = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
        let is_allowed = self.rules.allow.is_empty() || holds(&self.rules.allow);
        if holds(&self.rules.deny) || !is_allowed {
            return Err(Refusal::Prefix);
        }
        if self.sessions >= self.rules.sessions_max {
            return Err(Refusal::Full);
        }
        let here = self.by_source.entry(source(address)).or_insert(0);
        if *here >= self.rules.sessions_per_source_max {
            return Err(Refusal::SourceFull);
        }
        *here += 1;
        self.sessions += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self, address: IpAddr) {
        let source = source(address);
        self.sessions = self.sessions.saturating_sub(1);
        if let Some(here) = self.by_source.get_mut(&source) {
            *here = here.saturating_sub(1);
            if *here == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions
    }

    /// Releases the place of a session that was admitted but not served, and counts it as refused.
    pub(super) fn turn_away(&mut self, address: IpAddr) {
        self.leave(address);
        self.tally.sessions = self.tally.sessions.saturating_sub(1);
        self.tally.refusals += 1;
    }

    /// Counts a login attempt as successful or failed.
    pub(super) fn count_login(&mut self, is_proved: bool) {
        match is_proved {
            true => self.tally.logins += 1,
            false => self.tally.failed_logins += 1,
        }
    }

    /// Returns the number of open sessions and the counts since the start.
    pub(super) fn traffic(&self, protocol: Protocol) -> Traffic {
        Traffic { protocol, open: self.sessions, tally: self.tally }
    }

    /// Counts a login that was refused unchecked.
    pub(super) fn count_busy(&mut self) {
        self.tally.busy_logins += 1;
    }

    /// Reserves the time of a password check ([`Throttle::reserve`]).
    pub(super) fn reserve_check(
        &mut self,
        address: IpAddr,
        name: &str,
        now: Instant,
    ) -> Result<Reservation, TooSoon> {
        self.throttle.reserve(address, name, now)
    }

    /// Returns the number of failures that delay the checks of `name`.
    pub(super) fn failures(&self, address: IpAddr, name: &str) -> u32 {
        self.throttle.failures(address, name)
    }

    /// Records a failed check. Returns the delay of its answer.
    pub(super) fn note_failure(&mut self, address: IpAddr, name: &str, now: Instant) -> Duration {
        self.throttle.note_failure(address, name, now)
    }

    /// Records that `name` has logged in.
    pub(super) fn note_success(&mut self, address: IpAddr, name: &str, now: Instant) {
        self.throttle.note_success(address, name, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(allow: &[&str], deny: &[&str], total: usize, each: usize) -> Admission {
        let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
        Admission::new(Rules {
            allow: nets(allow),
            deny: nets(deny),
            sessions_max: total,
            sessions_per_source_max: each,
        })
    }

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn without_a_list_everybody_is_allowed() {
        assert_eq!(admission(&[], &[], 1, 1).enter(at("203.0.113.9")), Ok(()));
    }

    #[test]
    fn a_denied_prefix_wins_over_an_allowed_one() {
        let mut door = admission(&["10.0.0.0/8"], &["10.9.0.0/16"], 9, 9);
        assert_eq!(door.enter(at("10.1.2.3")), Ok(()));
        assert_eq!(door.enter(at("10.9.2.3")), Err(Refusal::Prefix));
        assert_eq!(door.enter(at("192.0.2.1")), Err(Refusal::Prefix));
    }

    #[test]
    fn an_ipv4_address_in_ipv6_clothes_is_the_ipv4_address() {
        let mut door = admission(&[], &["192.0.2.0/24"], 9, 9);
        assert_eq!(door.enter(at("::ffff:192.0.2.1")), Err(Refusal::Prefix));
    }

    // attack row 64
    #[test]
    fn one_source_has_only_its_share_and_a_site_of_ipv6_is_one_source() {
        let mut door = admission(&[], &[], 9, 2);
        assert_eq!(door.enter(at("2001:db8::1")), Ok(()));
        assert_eq!(door.enter(at("2001:db8::2")), Ok(()));
        assert_eq!(door.enter(at("2001:db8::3")), Err(Refusal::SourceFull));
        assert_eq!(door.enter(at("2001:db8:0:1::3")), Ok(()));
        door.leave(at("2001:db8::1"));
        assert_eq!(door.enter(at("2001:db8::3")), Ok(()));
    }

    #[test]
    fn the_lines_are_counted_and_given_back() {
        let mut door = admission(&[], &[], 1, 1);
        assert_eq!(door.enter(at("192.0.2.1")), Ok(()));
        assert_eq!(door.enter(at("192.0.2.2")), Err(Refusal::Full));
        door.leave(at("192.0.2.1"));
        assert_eq!(door.enter(at("192.0.2.2")), Ok(()));
        assert_eq!(door.sessions(), 1);
        door.count_login(true);
        let tally = Tally { sessions: 2, refusals: 1, logins: 1, ..Tally::default() };
        assert_eq!(door.tally, tally);
        door.turn_away(at("192.0.2.2"));
        assert_eq!((door.sessions(), door.tally.sessions, door.tally.refusals), (0, 1, 2));
    }

    // attack row 119
    #[test]
    fn sessions_without_a_login_have_half_of_the_places_and_are_refused_at_random_before() {
        let mut door = admission(&[], &[], 100, 100);
        let mut number = 0_u16;
        let mut enter = |door: &mut Admission, random_ppm| {
            number += 1;
            door.enter_unproved(SocketAddr::from(([192, 0, 2, 1], number)), random_ppm)
        };
        for _ in 0..25 {
            assert_eq!(enter(&mut door, 0), Ok(()));
        }
        assert_eq!(enter(&mut door, 299_999), Err(Refusal::Unproved));
        for _ in 25..50 {
            assert_eq!(enter(&mut door, 999_999), Ok(()));
        }
        assert_eq!(enter(&mut door, 999_999), Err(Refusal::Unproved));
        assert_eq!((door.sessions(), door.tally.refusals), (50, 2));
        // Each login makes room for another session without one.
        for number in 1..=25 {
            door.proved(SocketAddr::from(([192, 0, 2, 1], number)));
        }
        assert_eq!(enter(&mut door, 300_000), Ok(()));
        assert_eq!(door.sessions(), 51);
    }

    #[test]
    fn a_session_that_leaves_gives_both_its_places_back() {
        let mut door = admission(&[], &[], 2, 2);
        let peer = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!(door.enter_unproved(peer(1), 999_999), Ok(()));
        assert_eq!(door.enter_unproved(peer(2), 999_999), Err(Refusal::Unproved));
        door.leave_session(peer(1));
        assert_eq!((door.sessions(), door.unproved.len()), (0, 0));
        assert_eq!(door.enter_unproved(peer(2), 999_999), Ok(()));
    }
}
