//! The Q method for negotiating one option of one side (RFC 1143 §7).
//!
//! Both ends may send a request at any time. If two requests cross, each looks like an answer to
//! the other. The method records the outstanding request and queues at most one request behind it.
//! It never sends a command for a state that is already in effect, so two ends that use it cannot
//! loop. The two sides of an option differ only in the verbs, so this module calls WILL and DO
//! "enable", and WONT and DONT "disable".

use super::ask_error::AskError;
use core::fmt;

/// Negotiation state of one option of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OptionState {
    /// Disabled.
    #[default]
    No,
    /// Enabled.
    Yes,
    /// Enabled; a request to disable is outstanding, followed by a queued request to enable if
    /// `opposite` is set.
    WantNo {
        /// Whether to enable the option again once the outstanding request is answered.
        opposite: bool,
    },
    /// Disabled; a request to enable is outstanding, followed by a queued request to disable if
    /// `opposite` is set.
    WantYes {
        /// Whether to disable the option again once the outstanding request is answered.
        opposite: bool,
    },
}

/// Effect of one received command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The answer to send, if any: `true` to enable, `false` to disable.
    pub(super) answer: Option<bool>,
    pub(super) outcome: Outcome,
}

/// Change of the option's agreed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Unchanged,
    Enabled,
    Disabled,
    /// The peer refused the local end's request.
    RefusedByPeer,
    /// The local end refused the peer's request.
    RefusedLocally,
}

impl OptionState {
    /// A request to enable is outstanding, and nothing is queued behind it.
    pub(super) const OFFERED: Self = Self::WantYes { opposite: false };

    /// Returns whether the option is enabled. While a request to disable it is unanswered, it is
    /// still enabled.
    #[must_use]
    pub const fn is_enabled(self) -> bool {
        matches!(self, Self::Yes | Self::WantNo { .. })
    }

    /// Returns whether no request of the local end is outstanding.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Yes | Self::No)
    }

    /// Processes a command from the peer: WILL or DO if `enable` is true, WONT or DONT otherwise.
    /// `agrees` is whether the local end allows the option.
    pub(super) fn receive(&mut self, enable: bool, agrees: bool) -> Step {
        let (state, answer, outcome) =
            if enable { self.on_enable(agrees) } else { self.on_disable() };
        *self = state;
        Step { answer, outcome }
    }

    fn on_enable(self, agrees: bool) -> (Self, Option<bool>, Outcome) {
        match self {
            Self::No if agrees => (Self::Yes, Some(true), Outcome::Enabled),
            Self::No => (Self::No, Some(false), Outcome::RefusedLocally),
            Self::Yes => (Self::Yes, None, Outcome::Unchanged),
            // The peer answered "disable" with "enable", which no RFC allows. RFC 1143 §7 ends the
            // negotiation with the option disabled.
            Self::WantNo { opposite: false } => (Self::No, None, Outcome::Disabled),
            Self::WantNo { opposite: true } => (Self::Yes, None, Outcome::Unchanged),
            Self::WantYes { opposite: false } => (Self::Yes, None, Outcome::Enabled),
            Self::WantYes { opposite: true } => {
                (Self::WantNo { opposite: false }, Some(false), Outcome::Enabled)
            }
        }
    }

    fn on_disable(self) -> (Self, Option<bool>, Outcome) {
        match self {
            Self::No => (Self::No, None, Outcome::Unchanged),
            // RFC 854: a request to disable MUST be honored.
            Self::Yes => (Self::No, Some(false), Outcome::Disabled),
            Self::WantNo { opposite: false } => (Self::No, None, Outcome::Disabled),
            Self::WantNo { opposite: true } => {
                (Self::WantYes { opposite: false }, Some(true), Outcome::Disabled)
            }
            Self::WantYes { opposite: false } => (Self::No, None, Outcome::RefusedByPeer),
            Self::WantYes { opposite: true } => (Self::No, None, Outcome::Unchanged),
        }
    }

    /// Requests a change for the local user. Returns the command to send now, if any.
    pub(super) fn ask(&mut self, enable: bool) -> Result<Option<bool>, AskError> {
        let (state, sent) = match (*self, enable) {
            (Self::No, true) => (Self::WantYes { opposite: false }, Some(true)),
            (Self::Yes, false) => (Self::WantNo { opposite: false }, Some(false)),
            (Self::WantNo { opposite }, enable) if opposite != enable => {
                (Self::WantNo { opposite: enable }, None)
            }
            (Self::WantYes { opposite }, enable) if opposite == enable => {
                (Self::WantYes { opposite: !enable }, None)
            }
            (Self::No | Self::Yes, _) => return Err(AskError::AlreadyInState),
            (Self::WantNo { .. } | Self::WantYes { .. }, _) => {
                return Err(AskError::AlreadyRequested);
            }
        };
        *self = state;
        Ok(sent)
    }
}

impl fmt::Display for OptionState {
    /// Formats the state and its queue as in RFC 1143, such as `WANTYES EMPTY`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::No => "NO",
            Self::Yes => "YES",
            Self::WantNo { opposite: false } => "WANTNO EMPTY",
            Self::WantNo { opposite: true } => "WANTNO OPPOSITE",
            Self::WantYes { opposite: false } => "WANTYES EMPTY",
            Self::WantYes { opposite: true } => "WANTYES OPPOSITE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::{Side, Verb};
    use super::*;
    use std::collections::{HashSet, VecDeque};
    use std::fmt::Write;
    use std::string::String;
    use std::vec::Vec;

    const STATES: [OptionState; 6] = [
        OptionState::No,
        OptionState::Yes,
        OptionState::WantNo { opposite: false },
        OptionState::WantNo { opposite: true },
        OptionState::WantYes { opposite: false },
        OptionState::WantYes { opposite: true },
    ];

    fn push_transition(table: &mut String, side: Side, before: OptionState, event: &str) {
        let mut after = before;
        let (sent, outcome) = match event {
            "ask enable" | "ask disable" => match after.ask(event == "ask enable") {
                Ok(sent) => (sent, String::from("Ok")),
                Err(error) => (None, std::format!("{error:?}")),
            },
            _ => {
                let enable = event.starts_with("WILL") || event.starts_with("DO ");
                let step = after.receive(enable, event.ends_with("agreed"));
                (step.answer, std::format!("{:?}", step.outcome))
            }
        };
        let sent = sent.map_or(String::from("-"), |enable| {
            std::format!("{:?}", Verb::outgoing(side, enable)).to_uppercase()
        });
        writeln!(table, "{before:<17}{event:<14}-> {after:<17}{sent:<5}{outcome}").unwrap();
    }

    fn transition_table(side: Side, events: [&str; 5]) -> String {
        let mut table = String::new();
        for before in STATES {
            for event in events {
                push_transition(&mut table, side, before, event);
            }
        }
        table
    }

    #[test]
    fn every_event_in_every_state_of_a_remote_option_follows_rfc_1143() {
        let events = ["WILL agreed", "WILL", "WONT", "ask enable", "ask disable"];
        insta::assert_snapshot!(transition_table(Side::Remote, events), @r"
        NO               WILL agreed   -> YES              DO   Enabled
        NO               WILL          -> NO               DONT RefusedLocally
        NO               WONT          -> NO               -    Unchanged
        NO               ask enable    -> WANTYES EMPTY    DO   Ok
        NO               ask disable   -> NO               -    AlreadyInState
        YES              WILL agreed   -> YES              -    Unchanged
        YES              WILL          -> YES              -    Unchanged
        YES              WONT          -> NO               DONT Disabled
        YES              ask enable    -> YES              -    AlreadyInState
        YES              ask disable   -> WANTNO EMPTY     DONT Ok
        WANTNO EMPTY     WILL agreed   -> NO               -    Disabled
        WANTNO EMPTY     WILL          -> NO               -    Disabled
        WANTNO EMPTY     WONT          -> NO               -    Disabled
        WANTNO EMPTY     ask enable    -> WANTNO OPPOSITE  -    Ok
        WANTNO EMPTY     ask disable   -> WANTNO EMPTY     -    AlreadyRequested
        WANTNO OPPOSITE  WILL agreed   -> YES              -    Unchanged
        WANTNO OPPOSITE  WILL          -> YES              -    Unchanged
        WANTNO OPPOSITE  WONT          -> WANTYES EMPTY    DO   Disabled
        WANTNO OPPOSITE  ask enable    -> WANTNO OPPOSITE  -    AlreadyRequested
        WANTNO OPPOSITE  ask disable   -> WANTNO EMPTY     -    Ok
        WANTYES EMPTY    WILL agreed   -> YES              -    Enabled
        WANTYES EMPTY    WILL          -> YES              -    Enabled
        WANTYES EMPTY    WONT          -> NO               -    RefusedByPeer
        WANTYES EMPTY    ask enable    -> WANTYES EMPTY    -    AlreadyRequested
        WANTYES EMPTY    ask disable   -> WANTYES OPPOSITE -    Ok
        WANTYES OPPOSITE WILL agreed   -> WANTNO EMPTY     DONT Enabled
        WANTYES OPPOSITE WILL          -> WANTNO EMPTY     DONT Enabled
        WANTYES OPPOSITE WONT          -> NO               -    Unchanged
        WANTYES OPPOSITE ask enable    -> WANTYES EMPTY    -    Ok
        WANTYES OPPOSITE ask disable   -> WANTYES OPPOSITE -    AlreadyRequested
        ");
    }

    #[test]
    fn every_event_in_every_state_of_a_local_option_follows_rfc_1143() {
        let events = ["DO agreed", "DO ", "DONT", "ask enable", "ask disable"];
        insta::assert_snapshot!(transition_table(Side::Local, events), @r"
        NO               DO agreed     -> YES              WILL Enabled
        NO               DO            -> NO               WONT RefusedLocally
        NO               DONT          -> NO               -    Unchanged
        NO               ask enable    -> WANTYES EMPTY    WILL Ok
        NO               ask disable   -> NO               -    AlreadyInState
        YES              DO agreed     -> YES              -    Unchanged
        YES              DO            -> YES              -    Unchanged
        YES              DONT          -> NO               WONT Disabled
        YES              ask enable    -> YES              -    AlreadyInState
        YES              ask disable   -> WANTNO EMPTY     WONT Ok
        WANTNO EMPTY     DO agreed     -> NO               -    Disabled
        WANTNO EMPTY     DO            -> NO               -    Disabled
        WANTNO EMPTY     DONT          -> NO               -    Disabled
        WANTNO EMPTY     ask enable    -> WANTNO OPPOSITE  -    Ok
        WANTNO EMPTY     ask disable   -> WANTNO EMPTY     -    AlreadyRequested
        WANTNO OPPOSITE  DO agreed     -> YES              -    Unchanged
        WANTNO OPPOSITE  DO            -> YES              -    Unchanged
        WANTNO OPPOSITE  DONT          -> WANTYES EMPTY    WILL Disabled
        WANTNO OPPOSITE  ask enable    -> WANTNO OPPOSITE  -    AlreadyRequested
        WANTNO OPPOSITE  ask disable   -> WANTNO EMPTY     -    Ok
        WANTYES EMPTY    DO agreed     -> YES              -    Enabled
        WANTYES EMPTY    DO            -> YES              -    Enabled
        WANTYES EMPTY    DONT          -> NO               -    RefusedByPeer
        WANTYES EMPTY    ask enable    -> WANTYES EMPTY    -    AlreadyRequested
        WANTYES EMPTY    ask disable   -> WANTYES OPPOSITE -    Ok
        WANTYES OPPOSITE DO agreed     -> WANTNO EMPTY     WONT Enabled
        WANTYES OPPOSITE DO            -> WANTNO EMPTY     WONT Enabled
        WANTYES OPPOSITE DONT          -> NO               -    Unchanged
        WANTYES OPPOSITE ask enable    -> WANTYES EMPTY    -    Ok
        WANTYES OPPOSITE ask disable   -> WANTYES OPPOSITE -    AlreadyRequested
        ");
    }

    /// The state of one option of one side at both ends, and the commands in flight between them.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Connection {
        ends: [OptionState; 2],
        /// Commands in flight to each end.
        in_flight: [VecDeque<bool>; 2],
        /// Number of requests that both ends together may still send.
        requests_left: usize,
    }

    impl Connection {
        fn enqueue(&mut self, sender: usize, sent: Option<bool>) {
            self.in_flight[1 - sender].extend(sent);
        }

        /// Returns every possible successor state.
        fn successors(&self, agrees: [bool; 2]) -> Vec<Self> {
            let mut connections = Vec::new();
            for end in [0, 1] {
                let mut next = self.clone();
                if let Some(enable) = next.in_flight[end].pop_front() {
                    let answer = next.ends[end].receive(enable, agrees[end]).answer;
                    next.enqueue(end, answer);
                    connections.push(next);
                }
                for enable in [false, true] {
                    let mut next = self.clone();
                    // An end requests to enable only an option that it allows.
                    if self.requests_left > 0
                        && (agrees[end] || !enable)
                        && let Ok(sent) = next.ends[end].ask(enable)
                    {
                        next.requests_left -= 1;
                        next.enqueue(end, sent);
                        connections.push(next);
                    }
                }
            }
            connections
        }
    }

    /// Explores every state that can follow from `start`, and returns the states with no command in
    /// flight. A path with more than `commands_max` commands is a loop.
    fn explore_until_quiet(
        start: Connection,
        agrees: [bool; 2],
        commands_max: usize,
    ) -> HashSet<Connection> {
        let mut current = HashSet::from([start]);
        let mut quiet_states = HashSet::new();
        for _ in 0..=commands_max {
            quiet_states.extend(
                current.iter().filter(|it| it.in_flight.iter().all(VecDeque::is_empty)).cloned(),
            );
            current = current.iter().flat_map(|connection| connection.successors(agrees)).collect();
            if current.is_empty() {
                return quiet_states;
            }
        }
        panic!("endless exchange of commands: {:?}", current.iter().next());
    }

    const BOTH: [bool; 2] = [false, true];

    /// Some of these pairs of states are not reachable. If the two ends disagree and two
    /// unsolicited commands cross, no method ends the exchange; only the limit on answers does.
    // attack row 60
    #[test]
    fn from_every_pair_of_states_with_any_command_in_flight_negotiation_ends() {
        let commands = [[None, None], [Some(true), None], [Some(false), None]];
        let commands = commands.iter().flat_map(|[one, two]| [[*one, *two], [*two, *one]]);
        for (local, remote) in STATES.iter().flat_map(|local| STATES.map(|remote| (*local, remote)))
        {
            for word in commands.clone() {
                for agrees in BOTH.iter().flat_map(|one| BOTH.map(|two| [*one, two])) {
                    let in_flight = word.map(|word| word.into_iter().collect());
                    let start = Connection { ends: [local, remote], in_flight, requests_left: 0 };
                    assert!(!explore_until_quiet(start, agrees, 16).is_empty());
                }
            }
        }
    }

    // attack row 60
    // req RFC1123:3.2.1-MUST-2
    #[test]
    fn any_requests_of_two_users_end_in_the_same_state_at_both_ends() {
        for agrees in BOTH.iter().flat_map(|one| BOTH.map(|two| [*one, two])) {
            let ends = [OptionState::No; 2];
            let in_flight = [VecDeque::new(), VecDeque::new()];
            let start = Connection { ends, in_flight, requests_left: 5 };
            for connection in explore_until_quiet(start, agrees, 40) {
                let [local, remote] = connection.ends;
                assert!(local == remote && local.is_settled(), "{connection:?}");
            }
        }
    }
}
