//! The state of one option on both sides.

use crate::telnet::command::OptionCode;
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
