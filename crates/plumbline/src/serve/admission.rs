//! Who is let in: by prefix, by how many are here already, and how fast passwords may be tried.

use super::metrics::{Protocol, Traffic};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a failed attempt is held against its source.
const MEMORY: Duration = Duration::from_secs(600);
/// What the first failed attempt costs; each further one costs twice as much.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The most that one attempt costs.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// The most sources whose failures are remembered.
const SOURCES_MAX: usize = 4096;

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The prefix is denied, or none that is allowed.
    Prefix,
    /// There are as many sessions as may be.
    Full,
    /// This source has as many sessions as it may have.
    SourceFull,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "this address is not served",
            Self::Full => "all lines are busy",
            Self::SourceFull => "too many sessions from this address",
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
}

/// Counts the sessions and remembers the failures.
#[derive(Debug)]
pub(super) struct Admission {
    tally: Tally,
    rules: Rules,
    sessions: usize,
    by_source: BTreeMap<IpAddr, usize>,
    failures: BTreeMap<IpAddr, Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Admission {
    pub(super) fn new(rules: Rules) -> Self {
        let (tally, by_source, failures) = Default::default();
        Self { tally, rules, sessions: 0, by_source, failures }
    }

    /// Has other rules from now on; who is here already stays.
    pub(super) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Lets a session from `address` in, if there is room; [`Admission::leave`] gives it back.
    pub(super) fn enter(&mut self, address: IpAddr) -> Result<(), Refusal> {
        let entered = self.find_room(address);
        match entered {
            Ok(()) => self.tally.sessions += 1,
            Err(_) => self.tally.refusals += 1,
        }
        entered
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
        let source = source(address.to_canonical());
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

    /// Notes a failed attempt, and returns how long its answer is held back.
    pub(super) fn note_failure(&mut self, address: IpAddr, now: Instant) -> Duration {
        self.failures.retain(|_, failures| now.duration_since(failures.last) < MEMORY);
        let source = source(address.to_canonical());
        if self.failures.len() >= SOURCES_MAX && !self.failures.contains_key(&source) {
            // Nobody is remembered any longer, so everybody waits as long as the worst.
            return DELAY_MAX;
        }
        let failures = self.failures.entry(source).or_insert(Failures { count: 0, last: now });
        let factor = 1_u32.checked_shl(failures.count).unwrap_or(u32::MAX);
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        FIRST_DELAY.saturating_mul(factor).min(DELAY_MAX)
    }
}

/// Returns what counts as one source: an IPv4 address, or the 64 bits that one site of IPv6 has.
fn source(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets.iter_mut().skip(8).for_each(|octet| *octet = 0);
            IpAddr::from(octets)
        }
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
        let tally = Tally { sessions: 2, refusals: 1, logins: 1, failed_logins: 0 };
        assert_eq!(door.tally, tally);
        door.turn_away(at("192.0.2.2"));
        assert_eq!((door.sessions(), door.tally.sessions, door.tally.refusals), (0, 1, 2));
    }

    #[test]
    fn each_failure_of_a_source_costs_twice_the_last_up_to_a_limit_and_is_forgotten() {
        let (mut door, now) = (admission(&[], &[], 1, 1), Instant::now());
        let mut fails = |at_s: u64| {
            let now = now + Duration::from_secs(at_s);
            door.note_failure(at("192.0.2.1"), now).as_secs()
        };
        let delays: Vec<_> = (0..40).map(&mut fails).collect();
        assert_eq!(delays[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delays[39], 30);
        assert_eq!(fails(10_000), 1);
    }

    #[test]
    fn more_failing_sources_than_can_be_remembered_all_wait() {
        let (mut door, now) = (admission(&[], &[], 1, 1), Instant::now());
        for number in 0..5000_u32 {
            door.note_failure(IpAddr::from(number.to_be_bytes()), now);
        }
        assert_eq!(door.note_failure(at("203.0.113.1"), now), DELAY_MAX);
        assert!(door.failures.len() <= SOURCES_MAX);
    }
}
