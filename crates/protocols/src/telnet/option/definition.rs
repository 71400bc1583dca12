//! The definition of an option: one row of the table of options.

use crate::telnet::command::OptionCode;
use alloc::string::String;

/// Roles to which a rule about an option applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::telnet) enum Role {
    Either,
    User,
    Server,
}

impl Role {
    /// Returns whether the rule applies to a user (or a server).
    pub(super) fn includes(self, is_user: bool) -> bool {
        match self {
            Self::Either => true,
            Self::User => is_user,
            Self::Server => !is_user,
        }
    }
}

/// One row of the table of options.
#[derive(Clone, Copy, Debug)]
pub(in crate::telnet) struct Definition {
    pub(in crate::telnet) option: OptionCode,
    /// Role that can perform the option.
    pub(super) performer: Role,
    /// Role that requests the option at the start, if the settings allow the option and it is not
    /// allowed by default. Options that either role can perform are not requested.
    pub(super) initiator: Role,
    /// Maximum length in bytes of the content of a subnegotiation; a longer one is discarded.
    pub(super) content_max_bytes: usize,
    /// Returns the content of a subnegotiation in readable form; `None` if it is invalid.
    pub(super) describe: fn(&[u8]) -> Option<String>,
}

impl Definition {
    /// Defines an option without subnegotiations.
    pub(super) const fn new(option: OptionCode, performer: Role) -> Self {
        let initiator = match performer {
            Role::Either | Role::User => Role::Either,
            // A user does not request options that only a server performs.
            Role::Server => Role::Server,
        };
        Self { option, performer, initiator, content_max_bytes: 0, describe: |_| None }
    }
}
