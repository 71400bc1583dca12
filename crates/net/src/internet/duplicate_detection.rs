//! Duplicate address detection: the state machine of one address, from the first probe to its
//! defense.
//!
//! ```text
//!  claim ──► Probing ──unanswered──► Announcing ──────► Held ──┐ conflict: defended at most
//!               │                        ▲               ▲     │ once per interval
//!          conflict: given up          hold              └─────┘
//! ```
//!
//! IPv4 and IPv6 check an address by the same steps, with different messages and [`Parameters`]:
//!
//! | | IPv4 (`arp`) | IPv6 (`slaac`) |
//! |---|---|---|
//! | specification | RFC 5227 §2.1 to §2.4 | RFC 4862 §5.4 |
//! | probe | ARP request from 0.0.0.0 | neighbor solicitation from `::` |
//! | conflict | ARP packet of the address, or a probe for it | advertisement, or a probe for it |
//! | announcement | ARP request for the own address (RFC 5227 §2.3) | none |
//! | conflict while held | defended (RFC 5227 §2.4) | ignored (RFC 4862 §5.4.4) |
//!
//! A DHCP client checks the address of a lease before it uses the address (RFC 2131 §4.4.1). This
//! check is a claim of `arp`, so it follows RFC 5227 too.
//!
//! The owner of a [`Detection`] calls [`Detection::advance`] when it is due and sends the message
//! that the result names. It decides which packets are conflicts, and reports them to
//! [`Detection::conflict`].

use crate::cx::Cx;
use crate::time::{Duration, Instant};

/// Numbers and intervals by which a protocol checks an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// Maximum random delay before the first probe. Hosts that start at the same time must not
    /// probe at the same time.
    pub(super) start_delay_max: Duration,
    /// Number of probes, at least one.
    pub(super) probes: u8,
    /// Minimum and maximum interval between two probes.
    pub(super) probe_interval: (Duration, Duration),
    /// Time after the last probe in which another host can answer.
    pub(super) answer_timeout: Duration,
    /// Number of announcements.
    pub(super) announcements: u8,
    /// Interval between two announcements.
    pub(super) announcement_interval: Duration,
    /// Minimum interval between two defenses; `None` if conflicts with a held address are ignored.
    pub(super) defense_interval: Option<Duration>,
}

/// The action when another host continues to use a local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defense {
    /// The address is given up (RFC 5227 §2.4 b): it came from a server, which can assign another
    /// one.
    GiveUp,
    /// The address is kept (RFC 5227 §2.4 c): the user configured it.
    Keep,
}

/// The state of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Detection {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// `sent` probes have been sent; the next probe, or the end of the check, is due at `due`.
    Probing { sent: u8, due: Instant },
    /// The address may be used; `sent` announcements have been sent, and the next one is due at
    /// `due`.
    Announcing { sent: u8, due: Instant },
    /// The address may be used. It was last defended against another host at `defended_at`.
    Held { defended_at: Option<Instant> },
}

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send a probe.
    Probe,
    /// No other host has the address: from now on it may be used.
    Acquire,
    /// Send an announcement.
    Announce,
}

/// The reaction to a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// The address may not be used, or no longer.
    GiveUp,
    /// Send an announcement, which defends the address.
    Announce,
    /// Keep the address without an answer.
    Ignore,
}

impl Detection {
    /// Starts the check of an address.
    pub(super) fn claim(parameters: &Parameters, cx: &mut Cx<'_>) -> Self {
        let due = cx.now + random_duration(Duration::ZERO, parameters.start_delay_max, cx);
        Self { state: State::Probing { sent: 0, due } }
    }

    /// Uses an address without a check, and announces it.
    pub(super) fn hold(cx: &Cx<'_>) -> Self {
        Self { state: State::Announcing { sent: 0, due: cx.now } }
    }

    /// Returns whether the address may be used.
    pub(super) fn is_ours(&self) -> bool {
        !matches!(self.state, State::Probing { .. })
    }

    /// Returns when [`Self::advance`] is due.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Probing { due, .. } | State::Announcing { due, .. } => Some(due),
            State::Held { .. } => None,
        }
    }

    /// Performs the transition that is due, and returns the action.
    pub(super) fn advance(&mut self, parameters: &Parameters, cx: &mut Cx<'_>) -> Option<Step> {
        match self.state {
            State::Probing { sent, .. } if sent < parameters.probes => {
                let sent = sent + 1;
                let wait = if sent == parameters.probes {
                    parameters.answer_timeout
                } else {
                    let (least, most) = parameters.probe_interval;
                    random_duration(least, most, cx)
                };
                self.state = State::Probing { sent, due: cx.now + wait };
                Some(Step::Probe)
            }
            State::Probing { .. } => {
                self.state = State::after_announcements(0, cx.now, parameters);
                Some(Step::Acquire)
            }
            State::Announcing { sent, .. } => {
                let due = cx.now + parameters.announcement_interval;
                self.state = State::after_announcements(sent + 1, due, parameters);
                Some(Step::Announce)
            }
            State::Held { .. } => None,
        }
    }

    /// Records that another host uses the address, or probes for it during the check.
    pub(super) fn conflict(
        &mut self,
        parameters: &Parameters,
        defense: Defense,
        cx: &Cx<'_>,
    ) -> Reaction {
        let defended_at = match self.state {
            State::Probing { .. } => return Reaction::GiveUp,
            State::Announcing { .. } => None,
            State::Held { defended_at } => defended_at,
        };
        let Some(interval) = parameters.defense_interval else { return Reaction::Ignore };
        let was_defended_recently = defended_at.is_some_and(|at| cx.now.since(at) < interval);
        match (was_defended_recently, defense) {
            (false, _) => {
                self.state = State::Held { defended_at: Some(cx.now) };
                Reaction::Announce
            }
            (true, Defense::Keep) => Reaction::Ignore,
            (true, Defense::GiveUp) => Reaction::GiveUp,
        }
    }
}

impl State {
    /// Returns the state after `sent` announcements; the next one, if there is one, is due at
    /// `due`.
    fn after_announcements(sent: u8, due: Instant, parameters: &Parameters) -> Self {
        if sent < parameters.announcements {
            Self::Announcing { sent, due }
        } else {
            Self::Held { defended_at: None }
        }
    }
}

fn random_duration(least: Duration, most: Duration, cx: &mut Cx<'_>) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_nanos()).unwrap_or(u64::MAX);
    least + Duration::from_nanos(cx.rng.below(span.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use std::vec::Vec;

    const SECOND: Duration = Duration::from_secs(1);
    const PARAMETERS: Parameters = Parameters {
        start_delay_max: SECOND,
        probes: 2,
        probe_interval: (SECOND, Duration::from_secs(2)),
        answer_timeout: Duration::from_secs(5),
        announcements: 1,
        announcement_interval: SECOND,
        defense_interval: Some(Duration::from_secs(10)),
    };

    /// Performs all transitions, and returns the actions with the time since the previous one.
    fn steps(detection: &mut Detection, parameters: &Parameters) -> Vec<(Step, Duration)> {
        let mut context = OwnedCx::default();
        core::iter::from_fn(|| {
            let waited = detection.due()?.since(context.now);
            context.now = context.now + waited;
            Some((detection.advance(parameters, &mut context.cx())?, waited))
        })
        .collect()
    }

    #[test]
    fn a_claim_waits_a_random_time_before_each_probe_and_a_fixed_time_after_the_last() {
        let mut detection = Detection::claim(&PARAMETERS, &mut OwnedCx::default().cx());
        let steps = steps(&mut detection, &PARAMETERS);
        let kinds: Vec<Step> = steps.iter().map(|(step, _)| *step).collect();
        assert_eq!(kinds, [Step::Probe, Step::Probe, Step::Acquire, Step::Announce]);
        assert!(steps[0].1 <= SECOND);
        assert!((SECOND..=SECOND * 2).contains(&steps[1].1));
        assert_eq!([steps[2].1, steps[3].1], [SECOND * 5, Duration::ZERO]);
        assert!(detection.is_ours());
    }

    #[test]
    fn an_address_that_is_not_announced_is_held_as_soon_as_it_is_acquired() {
        let parameters = Parameters { announcements: 0, ..PARAMETERS };
        let mut detection = Detection::claim(&parameters, &mut OwnedCx::default().cx());
        let steps = steps(&mut detection, &parameters);
        assert_eq!(steps.last().map(|(step, _)| *step), Some(Step::Acquire));
        assert_eq!((detection.is_ours(), detection.due()), (true, None));
    }

    #[test]
    fn a_conflict_during_the_check_ends_it_whatever_the_defense() {
        let mut context = OwnedCx::default();
        for defense in [Defense::GiveUp, Defense::Keep] {
            let mut detection = Detection::claim(&PARAMETERS, &mut context.cx());
            let reaction = detection.conflict(&PARAMETERS, defense, &context.cx());
            assert_eq!(reaction, Reaction::GiveUp);
        }
    }

    #[test]
    fn conflicts_with_a_held_address_are_ignored_without_a_defense_interval() {
        let parameters = Parameters { defense_interval: None, ..PARAMETERS };
        let mut context = OwnedCx::default();
        let mut detection = Detection::hold(&context.cx());
        let reaction = detection.conflict(&parameters, Defense::GiveUp, &context.cx());
        assert_eq!(reaction, Reaction::Ignore);
        assert!(detection.is_ours());
    }
}
