//! The functions of an option with subnegotiations, and the parts of the connection that they use.

use crate::telnet::command::Side;
use crate::telnet::inspector::{self, Direction, Inspector};
use crate::telnet::option::definition::Definition;
use crate::telnet::option::option_row::OptionRow;
use crate::telnet::output::{self, Output};
use crate::telnet::settings_and_events::{Event, Settings};
use core::fmt;
use net::Cx;
use net::meter::Counter;

/// The subnegotiation is invalid, or not valid in the current state. It is counted and ignored.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::telnet) struct Invalid;

/// The event that a subnegotiation causes, if any.
pub(in crate::telnet) type Received = Result<Option<Event<'static>>, Invalid>;

/// Processes the subnegotiations of one option, or of options with common state, at one end.
pub(in crate::telnet) trait Handler: fmt::Debug {
    /// Creates the handler of a user or a server.
    fn from_settings(settings: Settings<'_>) -> Self
    where
        Self: Sized;

    /// Returns whether the settings contain the information that the option sends. If not, requests
    /// for the option are refused.
    fn is_configured(&self) -> bool {
        true
    }

    /// Sends the messages that follow when `side` starts performing the option.
    fn on_enabled(&mut self, _side: Side, _context: &mut Context<'_, '_>) {}

    /// Discards the state of the option when `side` stops performing it.
    fn on_disabled(&mut self, _side: Side, _context: &mut Context<'_, '_>) {}

    /// Processes the content of a subnegotiation, and sends its answer.
    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received;
}

/// The parts of the connection that the functions of an option use.
#[derive(Debug)]
pub(in crate::telnet) struct Context<'a, 'b> {
    /// State of the option.
    pub(in crate::telnet) row: OptionRow,
    /// States of all known options.
    pub(in crate::telnet) rows: &'a [OptionRow],
    /// Definition of the option; `None` if it is unknown.
    pub(in crate::telnet) definition: Option<&'static Definition>,
    pub(in crate::telnet) output: &'a mut Output,
    pub(in crate::telnet) inspector: &'a mut Inspector,
    pub(in crate::telnet) cx: &'a mut Cx<'b>,
}

impl Context<'_, '_> {
    /// Queues a subnegotiation of the option. Returns whether it fit into the queue.
    pub(in crate::telnet) fn send(&mut self, content: &[u8]) -> bool {
        let bytes = output::subnegotiation(self.row.option, content);
        let has_room = self.output.put_counted(&bytes, Counter::TelnetNegotiationsOut, self.cx);
        if has_room {
            self.inspect(Direction::Sent, content);
        }
        has_room
    }

    /// Adds a record of a subnegotiation of the option if the inspector is on.
    pub(in crate::telnet) fn inspect(&mut self, direction: Direction, content: &[u8]) {
        let row = self.row;
        let description = || self.definition.and_then(|definition| (definition.describe)(content));
        let record = || inspector::subnegotiation(row, content, description());
        self.inspector.record(direction, record, self.cx);
    }
}
