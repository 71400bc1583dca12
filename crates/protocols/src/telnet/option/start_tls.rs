//! START_TLS (draft-altman-telnet-starttls): the rest of the connection becomes TLS.
//!
//! The user sends WILL and the server DO, then each end sends FOLLOWS as its last message in
//! plaintext. TLS begins once both ends have sent FOLLOWS. The session inside TLS starts anew, with
//! no option enabled. Between the local FOLLOWS and the peer's, all input is ignored: it is
//! plaintext, into which an attacker can inject data, and would otherwise appear to have arrived
//! over TLS. Input after the peer's FOLLOWS is not examined: if it is not TLS, the handshake fails.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::string::String;

/// Content of the only subnegotiation of START_TLS.
const FOLLOWS: u8 = 1;

impl OptionCode {
    /// START_TLS (draft-altman-telnet-starttls).
    pub const START_TLS: Self = Self(46);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 1,
    describe: |content| (content == [FOLLOWS]).then(|| String::from("FOLLOWS")),
    ..Definition::new(OptionCode::START_TLS, Role::User)
};

/// Progress of the switch to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::telnet) enum Progress {
    Clear,
    /// The local end has sent FOLLOWS; the peer's FOLLOWS is outstanding.
    FollowsSent,
    /// Both ends have sent FOLLOWS.
    Started,
}

/// State of START_TLS.
#[derive(Debug)]
pub(in crate::telnet) struct StartTls {
    progress: Progress,
}

impl StartTls {
    pub(in crate::telnet) fn progress(&self) -> Progress {
        self.progress
    }
}

impl Handler for StartTls {
    fn from_settings(_settings: Settings<'_>) -> Self {
        Self { progress: Progress::Clear }
    }

    fn on_enabled(&mut self, _side: Side, context: &mut Context<'_, '_>) {
        if context.send(&[FOLLOWS]) {
            self.progress = Progress::FollowsSent;
            // Nothing more may be sent in plaintext.
            context.output.close();
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let is_valid = content == [FOLLOWS] && context.row.is_in_use();
        if !is_valid || self.progress != Progress::FollowsSent {
            return Err(Invalid);
        }
        self.progress = Progress::Started;
        Ok(Some(Event::StartTls))
    }
}
