//! Admission control: address prefixes, session limits, and the rate of password checks.
//!
//! Sessions that have not logged in may use at most half of the session slots, so that connections
//! alone never fill the server. When these sessions use half of the slots, every new session is
//! refused. When they use at least a quarter, a new session is refused at random, and the
//! probability grows with their number. Random refusal prevents an attacker that connects as fast
//! as possible from taking every free slot.

use super::source::source;
use super::throttle::{Reservation, Throttle, WaitTooLong};
use super::traffic::{ProtocolTraffic, ServerProtocol, SessionCounts};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// New sessions are refused at random when sessions that have not logged in use 1/`EARLY_SHARE` of
/// all session slots.
const EARLY_SHARE: usize = 4;
/// New sessions are always refused when sessions that have not logged in use 1/`FULL_SHARE` of all
/// session slots.
const FULL_SHARE: usize = 2;
/// Probability of a random refusal when the limit of [`EARLY_SHARE`] is reached, in parts per
/// million.
const EARLY_REFUSALS_PPM: u64 = 300_000;

/// Reason for refusing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionRefusal {
    /// The address prefix of the client is denied, or is not among the allowed prefixes.
    Prefix,
    /// The maximum number of sessions is reached.
    Full,
    /// The maximum number of sessions of this source is reached.
    SourceFull,
    /// Too many sessions have not logged in yet.
    Unauthenticated,
}

impl fmt::Display for AdmissionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "connections from this address are not allowed",
            Self::Full => "too many sessions",
            Self::SourceFull => "too many sessions from this address",
            Self::Unauthenticated => "too many sessions waiting for a login",
        })
    }
}

/// Address prefixes and session limits that decide whether a connection is admitted.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Admitted address prefixes; if empty, all addresses are admitted.
    pub(super) allow: Vec<IpNet>,
    /// Rejected address prefixes; `deny` takes precedence over `allow`.
    pub(super) deny: Vec<IpNet>,
    pub(super) sessions_max: usize,
    pub(super) sessions_per_source_max: usize,
}

/// Counts sessions and remembers failed logins.
#[derive(Debug)]
pub(super) struct Admission {
    tally: SessionCounts,
    rules: Rules,
    sessions: usize,
    by_source: BTreeMap<IpAddr, usize>,
    /// The sessions that have not logged in yet.
    unauthenticated: BTreeSet<SocketAddr>,
    throttle: Throttle,
}

impl Admission {
    pub(super) fn new(rules: Rules) -> Self {
        let (tally, by_source, unauthenticated, throttle) = Default::default();
        Self { tally, rules, sessions: 0, by_source, unauthenticated, throttle }
    }

    /// Replaces the rules; open sessions are not affected.
    pub(super) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Admits a session from `address` if a session slot is free; [`Admission::release`] releases
    /// the slot.
    pub(super) fn admit(&mut self, address: IpAddr) -> Result<(), AdmissionRefusal> {
        let admission_result = self.reserve_session(address);
        self.count_admission(admission_result)
    }

    /// Admits a session that has to log in; `random_ppm` is a random number below 1,000,000.
    /// [`Admission::mark_authenticated`] marks the session as logged in,
    /// [`Admission::release_session`] releases its slot.
    pub(super) fn admit_unauthenticated(
        &mut self,
        peer: SocketAddr,
        random_ppm: u64,
    ) -> Result<(), AdmissionRefusal> {
        let has_room = self.sessions < self.rules.sessions_max;
        let admission_result = match has_room && random_ppm < self.early_refusals_ppm() {
            true => Err(AdmissionRefusal::Unauthenticated),
            false => self.reserve_session(peer.ip()),
        };
        if admission_result.is_ok() {
            self.unauthenticated.insert(peer);
        }
        self.count_admission(admission_result)
    }

    fn count_admission(
        &mut self,
        admission_result: Result<(), AdmissionRefusal>,
    ) -> Result<(), AdmissionRefusal> {
        match admission_result {
            Ok(()) => self.tally.sessions += 1,
            Err(_) => self.tally.refusals += 1,
        }
        admission_result
    }

    /// Returns the current probability of refusing a session that has not logged in, in parts per
    /// million.
    fn early_refusals_ppm(&self) -> u64 {
        let open_sessions = self.unauthenticated.len();
        let slots = self.rules.sessions_max;
        let early_limit = slots.div_ceil(EARLY_SHARE);
        let full_limit = slots.div_ceil(FULL_SHARE);
        if open_sessions < early_limit {
            return 0;
        }
        if open_sessions >= full_limit {
            return 1_000_000;
        }
        let above_early_limit = (open_sessions - early_limit) as u64;
        let range = (full_limit - early_limit) as u64;
        EARLY_REFUSALS_PPM + (1_000_000 - EARLY_REFUSALS_PPM) * above_early_limit / range
    }

    /// Records that the session with `peer` has logged in or needs no login.
    pub(super) fn mark_authenticated(&mut self, peer: SocketAddr) {
        self.unauthenticated.remove(&peer);
    }

    /// Releases the slot of a session.
    pub(super) fn release_session(&mut self, peer: SocketAddr) {
        self.mark_authenticated(peer);
        self.release(peer.ip());
    }

    fn reserve_session(&mut self, address: IpAddr) -> Result<(), AdmissionRefusal> {
        let address = address.to_canonical();
        let contains = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
        let is_allowed = self.rules.allow.is_empty() || contains(&self.rules.allow);
        if contains(&self.rules.deny) || !is_allowed {
            return Err(AdmissionRefusal::Prefix);
        }
        if self.sessions >= self.rules.sessions_max {
            return Err(AdmissionRefusal::Full);
        }
        let open_sessions = self.by_source.entry(source(address)).or_insert(0);
        if *open_sessions >= self.rules.sessions_per_source_max {
            return Err(AdmissionRefusal::SourceFull);
        }
        *open_sessions += 1;
        self.sessions += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, address: IpAddr) {
        let source = source(address);
        self.sessions = self.sessions.saturating_sub(1);
        if let Some(open_sessions) = self.by_source.get_mut(&source) {
            *open_sessions = open_sessions.saturating_sub(1);
            if *open_sessions == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions
    }

    /// Releases the slot of a session that was admitted but not served. Counts the session as
    /// refused.
    pub(super) fn revoke_admission(&mut self, address: IpAddr) {
        self.release(address);
        self.tally.sessions = self.tally.sessions.saturating_sub(1);
        self.tally.refusals += 1;
    }

    /// Counts a login attempt as successful or failed.
    pub(super) fn count_login(&mut self, is_successful: bool) {
        match is_successful {
            true => self.tally.logins += 1,
            false => self.tally.failed_logins += 1,
        }
    }

    /// Returns the number of open sessions and the counts since the start.
    pub(super) fn traffic(&self, protocol: ServerProtocol) -> ProtocolTraffic {
        ProtocolTraffic { protocol, open: self.sessions, tally: self.tally }
    }

    /// Counts a refused command, or a refused transfer.
    pub(super) fn count_refusal(&mut self) {
        self.tally.refusals += 1;
    }

    /// Counts a login that was refused without a password check.
    pub(super) fn count_busy(&mut self) {
        self.tally.busy_logins += 1;
    }

    /// Reserves the start time of a password check ([`Throttle::reserve`]).
    pub(super) fn reserve_password_check(
        &mut self,
        address: IpAddr,
        name: &str,
        now: Instant,
    ) -> Result<Reservation, WaitTooLong> {
        self.throttle.reserve(address, name, now)
    }

    /// Returns the number of failed checks that delay further checks of `name` from `address`.
    pub(super) fn failures(&self, address: IpAddr, name: &str) -> u32 {
        self.throttle.failures(address, name)
    }

    /// Records a failed password check. Returns the delay of its answer.
    pub(super) fn record_failure(&mut self, address: IpAddr, name: &str, now: Instant) -> Duration {
        self.throttle.record_failure(address, name, now)
    }

    /// Records that `name` has logged in from `address`.
    pub(super) fn record_success(&mut self, address: IpAddr, name: &str, now: Instant) {
        self.throttle.record_success(address, name, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(allow: &[&str], deny: &[&str], total: usize, per_source: usize) -> Admission {
        let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
        Admission::new(Rules {
            allow: nets(allow),
            deny: nets(deny),
            sessions_max: total,
            sessions_per_source_max: per_source,
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn without_a_list_every_address_is_allowed() {
        assert_eq!(admission(&[], &[], 1, 1).admit(ip("203.0.113.9")), Ok(()));
    }

    #[test]
    fn a_denied_prefix_wins_over_an_allowed_one() {
        let mut admission = admission(&["10.0.0.0/8"], &["10.9.0.0/16"], 9, 9);
        assert_eq!(admission.admit(ip("10.1.2.3")), Ok(()));
        assert_eq!(admission.admit(ip("10.9.2.3")), Err(AdmissionRefusal::Prefix));
        assert_eq!(admission.admit(ip("192.0.2.1")), Err(AdmissionRefusal::Prefix));
    }

    #[test]
    fn an_ipv4_mapped_address_is_treated_as_the_ipv4_address() {
        let mut admission = admission(&[], &["192.0.2.0/24"], 9, 9);
        assert_eq!(admission.admit(ip("::ffff:192.0.2.1")), Err(AdmissionRefusal::Prefix));
    }

    // attack row 64
    #[test]
    fn sessions_per_source_are_limited_and_an_ipv6_64_prefix_is_one_source() {
        let mut admission = admission(&[], &[], 9, 2);
        assert_eq!(admission.admit(ip("2001:db8::1")), Ok(()));
        assert_eq!(admission.admit(ip("2001:db8::2")), Ok(()));
        assert_eq!(admission.admit(ip("2001:db8::3")), Err(AdmissionRefusal::SourceFull));
        assert_eq!(admission.admit(ip("2001:db8:0:1::3")), Ok(()));
        admission.release(ip("2001:db8::1"));
        assert_eq!(admission.admit(ip("2001:db8::3")), Ok(()));
    }

    #[test]
    fn sessions_are_counted_and_released() {
        let mut admission = admission(&[], &[], 1, 1);
        assert_eq!(admission.admit(ip("192.0.2.1")), Ok(()));
        assert_eq!(admission.admit(ip("192.0.2.2")), Err(AdmissionRefusal::Full));
        admission.release(ip("192.0.2.1"));
        assert_eq!(admission.admit(ip("192.0.2.2")), Ok(()));
        assert_eq!(admission.sessions(), 1);
        admission.count_login(true);
        let tally =
            SessionCounts { sessions: 2, refusals: 1, logins: 1, ..SessionCounts::default() };
        assert_eq!(admission.tally, tally);
        admission.revoke_admission(ip("192.0.2.2"));
        assert_eq!(
            (admission.sessions(), admission.tally.sessions, admission.tally.refusals),
            (0, 1, 2)
        );
    }

    // attack row 119
    #[test]
    fn unauthenticated_sessions_get_half_of_the_slots_and_are_refused_at_random_above_a_quarter() {
        let mut admission = admission(&[], &[], 100, 100);
        let mut number = 0_u16;
        let mut admit = |admission: &mut Admission, random_ppm| {
            number += 1;
            admission.admit_unauthenticated(SocketAddr::from(([192, 0, 2, 1], number)), random_ppm)
        };
        for _ in 0..25 {
            assert_eq!(admit(&mut admission, 0), Ok(()));
        }
        assert_eq!(admit(&mut admission, 299_999), Err(AdmissionRefusal::Unauthenticated));
        for _ in 25..50 {
            assert_eq!(admit(&mut admission, 999_999), Ok(()));
        }
        assert_eq!(admit(&mut admission, 999_999), Err(AdmissionRefusal::Unauthenticated));
        assert_eq!((admission.sessions(), admission.tally.refusals), (50, 2));
        // Each login makes a slot available for another session that has not logged in.
        for number in 1..=25 {
            admission.mark_authenticated(SocketAddr::from(([192, 0, 2, 1], number)));
        }
        assert_eq!(admit(&mut admission, 300_000), Ok(()));
        assert_eq!(admission.sessions(), 51);
    }

    #[test]
    fn a_released_session_frees_both_of_its_slots() {
        let mut admission = admission(&[], &[], 2, 2);
        let peer = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!(admission.admit_unauthenticated(peer(1), 999_999), Ok(()));
        assert_eq!(
            admission.admit_unauthenticated(peer(2), 999_999),
            Err(AdmissionRefusal::Unauthenticated)
        );
        admission.release_session(peer(1));
        assert_eq!((admission.sessions(), admission.unauthenticated.len()), (0, 0));
        assert_eq!(admission.admit_unauthenticated(peer(2), 999_999), Ok(()));
    }
}
