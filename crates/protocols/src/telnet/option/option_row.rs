//! The state of one option on both sides.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::q_method::OptionState;

/// State of one option on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionRow {
    /// The option.
    pub option: OptionCode,
    /// State on the local side.
    pub us: OptionState,
    /// State on the peer's side.
    pub him: OptionState,
}

impl OptionRow {
    /// Returns the row of an option that is disabled on both sides.
    pub(in crate::telnet) const fn disabled(option: OptionCode) -> Self {
        Self { option, us: OptionState::No, him: OptionState::No }
    }

    pub(in crate::telnet) fn state(&self, side: Side) -> OptionState {
        match side {
            Side::Local => self.us,
            Side::Remote => self.him,
        }
    }

    /// Returns whether `side` performs the option, even if a request to disable it is outstanding.
    pub(in crate::telnet) fn is_enabled(&self, side: Side) -> bool {
        self.state(side).is_enabled()
    }

    /// Returns whether `side` performs the option and no request to disable it is outstanding.
    pub(in crate::telnet) fn is_in_force(&self, side: Side) -> bool {
        self.state(side) == OptionState::Yes
    }

    /// Returns whether the local end answers a request for its parameters: it performs the option,
    /// or has offered to. Some peers send such a request right after the offer, and never send DO.
    pub(super) fn answers_requests(&self) -> bool {
        self.is_in_force(Side::Local) || self.us == OptionState::OFFERED
    }

    /// Returns whether the peer may send a message that is valid on either side: the local end
    /// performs the option, or the peer does.
    pub(super) fn is_in_use(&self) -> bool {
        self.is_in_force(Side::Local) || self.is_enabled(Side::Remote)
    }
}
