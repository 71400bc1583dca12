//! TOGGLE-FLOW-CONTROL (RFC 1372): whether the user's terminal acts on XOFF and XON.
//!
//! The server sends OFF when a program wants to receive these two characters as data, and ON
//! afterwards. It also specifies whether only XON or any character resumes the output.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, FlowControl, Settings};
use alloc::string::ToString;
use core::fmt;

impl OptionCode {
    /// TOGGLE-FLOW-CONTROL (RFC 1372).
    pub const TOGGLE_FLOW_CONTROL: Self = Self(33);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 1,
    describe: |content| Some(FlowControl::parse(content)?.to_string()),
    ..Definition::new(OptionCode::TOGGLE_FLOW_CONTROL, Role::User)
};

/// TOGGLE-FLOW-CONTROL, which has no state.
#[derive(Debug)]
pub(in crate::telnet) struct ToggleFlowControl;

impl Handler for ToggleFlowControl {
    fn from_settings(_settings: Settings<'_>) -> Self {
        Self
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let flow = FlowControl::parse(content).ok_or(Invalid)?;
        // Only a user performs the option.
        if !context.row.is_in_force(Side::Local) {
            return Err(Invalid);
        }
        Ok(Some(Event::FlowControl(flow)))
    }
}

impl FlowControl {
    fn parse(content: &[u8]) -> Option<Self> {
        match content {
            [0] => Some(Self::Off),
            [1] => Some(Self::On),
            [2] => Some(Self::RestartAny),
            [3] => Some(Self::RestartXon),
            _ => None,
        }
    }

    pub(in crate::telnet) const fn content(self) -> [u8; 1] {
        [match self {
            Self::Off => 0,
            Self::On => 1,
            Self::RestartAny => 2,
            Self::RestartXon => 3,
        }]
    }
}

impl fmt::Display for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "OFF",
            Self::On => "ON",
            Self::RestartAny => "RESTART-ANY",
            Self::RestartXon => "RESTART-XON",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parsed_values_are_written_back_equal(content in prop::collection::vec(any::<u8>(), 0..3)) {
            if let Some(flow) = FlowControl::parse(&content) {
                prop_assert_eq!(&flow.content()[..], &content[..]);
            }
        }
    }
}
