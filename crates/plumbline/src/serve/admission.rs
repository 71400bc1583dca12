//! Who is let in: by prefix, by how many are here already, and how fast passwords may be tried.
//!
//! Sessions that have not logged in yet have a share of the places only. Behind a quarter of all
//! places a new one is refused at random, the more likely the more there are; behind half of them
//! always, so that connections alone never fill the server. A refusal at random keeps an attacker
//! that connects as fast as it can from having every free place.

use super::metrics::{Protocol, Traffic};
use super::source::source;
use super::throttle::{Reservation, Throttle, TooSoon};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Of all places, one in so many may be used without a login before any is refused.
const EARLY_SHARE: usize = 4;
/// And one in so many before every one is.
const FULL_SHARE: usize = 2;
/// How many in a million are refused behind the first share.
const EARLY_REFUSALS_PPM: u64 = 300_000;

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The prefix is denied, or none that is allowed.
    Prefix,
    /// There are as many sessions as may be.
    Full,
    /// This source has as many sessions as it may have.
    SourceFull,
    /// Too many sessions have not logged in yet.
    Unproved,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "this address is not served",
            Self::Full => "all lines are busy",
            Self::SourceFull => "too many sessions from this address",
            Self::Unproved => "too many sessions that have not logged in",
        })
    }
}

/// What is admitted.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// If there are any, only these.
    pub(super) allow: Vec<IpNet>,
    /// Never these, whatever is allowed.
    pub(super) deny: Vec<IpNet>,
    pub(super) sessions_max: usize,
    pub(super) sessions_per_source_max: usize,
}

/// Who has come, since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Sessions that were let in.
    pub(super) sessions: u64,
    /// Those that were not.
    pub(super) refusals: u64,
    /// Who has proved who he is, or need not.
    pub(super) logins: u64,
    /// Who could not.
    pub(super) failed_logins: u64,
    /// Logins that were refused unchecked, because too many were being checked.
    pub(super) busy_logins: u64,
}

/// Counts the sessions and remembers the failures.
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

    /// Has other rules from now on; who is here already stays.
    pub(super) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Lets a session from `address` in, if there is room; [`Admission::leave`] gives it back.
    pub(super) fn enter(&mut self, address: IpAddr) -> Result<(), Refusal> {
        let entered = self.find_room(address);
        self.count_entry(entered)
    }

    /// Lets a session in that has to log in; `random_ppm` is a random number below 1,000,000.
    /// [`Admission::proved`] or [`Admission::leave_session`] ends its time without a login.
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

    /// Returns how many in a million are refused now for want of places without a login.
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

    /// Notes that the session with `peer` has logged in, or need not.
    pub(super) fn proved(&mut self, peer: SocketAddr) {
        self.unproved.remove(&peer);
    }

    /// Gives the place of a session back.
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

    /// Gives the room back of somebody who was let in, and got nothing.
    pub(super) fn turn_away(&mut self, address: IpAddr) {
        self.leave(address);
        self.tally.sessions = self.tally.sessions.saturating_sub(1);
        self.tally.refusals += 1;
    }

    /// Counts somebody who has proved who he is, or could not.
    pub(super) fn count_login(&mut self, is_proved: bool) {
        match is_proved {
            true => self.tally.logins += 1,
            false => self.tally.failed_logins += 1,
        }
    }

    /// Returns who is here, and who has come since the server began.
    pub(super) fn traffic(&self, protocol: Protocol) -> Traffic {
        Traffic { protocol, open: self.sessions, tally: self.tally }
    }

    /// Counts a login that was refused unchecked.
    pub(super) fn count_busy(&mut self) {
        self.tally.busy_logins += 1;
    }

    /// Gives a password check its time ([`Throttle::reserve`]).
    pub(super) fn reserve_check(
        &mut self,
        address: IpAddr,
        name: &str,
        now: Instant,
    ) -> Result<Reservation, TooSoon> {
        self.throttle.reserve(address, name, now)
    }

    /// Returns how many failures delay the checks of `name`.
    pub(super) fn failures(&self, address: IpAddr, name: &str) -> u32 {
        self.throttle.failures(address, name)
    }

    /// Records a failed check, and returns how long its answer is held back.
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
        // Each login makes room for another session that has not.
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
