//! The known options: a table of all of them, and a file for each.
//!
//! A row of the table defines which role can perform an option, and the maximum length of its
//! subnegotiations. The code, the row, the messages and the state of an option with subnegotiations
//! are in its own file. Options without subnegotiations (BINARY, ECHO, SUPPRESS-GO-AHEAD,
//! END-OF-RECORD) have a row here and no file; TIMING-MARK, which marks a position in the stream
//! and has no state, has neither.
//!
//! A new option with subnegotiations has three lines here: its module, its row in [`TABLE`], and its
//! handler in [`Handlers`].

pub(super) mod charset;
pub(super) mod com_port;
pub(super) mod compression;
mod definition;
pub(super) mod echo_acknowledgment;
pub(super) mod environment;
pub(super) mod flow_control;
mod handler;
pub(super) mod linemode;
pub(super) mod naws;
mod option_row;
pub(super) mod start_tls;
pub(super) mod status;
pub(super) mod terminal_speed;
pub(super) mod terminal_type;
pub(super) mod x_display_location;

pub use option_row::OptionRow;

pub(super) use handler::{Context, Handler, Invalid};

use super::command::{OptionCode, OptionSet, Side};
use super::inspector::Inspector;
use super::output::Output;
use super::q_method::OptionState;
use super::settings_and_events::Settings;
use core::fmt;
use definition::{Definition, Role};
use net::Cx;

/// The options with a state, in the order of their codes: all known options except TIMING-MARK.
///
/// The maximum lengths are our choice. For short messages the maximum is the length of the longest
/// valid message, for lists the length of the longest list that is known to occur.
const TABLE: &[Definition] = &[
    Definition::new(OptionCode::BINARY, Role::Either),
    // RFC 857: if both ends echoed, a character would circulate indefinitely.
    Definition::new(OptionCode::ECHO, Role::Server),
    Definition::new(OptionCode::SUPPRESS_GO_AHEAD, Role::Either),
    status::DEFINITION,
    terminal_type::DEFINITION,
    Definition::new(OptionCode::END_OF_RECORD, Role::Either),
    naws::DEFINITION,
    terminal_speed::DEFINITION,
    flow_control::DEFINITION,
    linemode::DEFINITION,
    x_display_location::DEFINITION,
    environment::DEFINITION,
    charset::DEFINITION,
    com_port::DEFINITION,
    start_tls::DEFINITION,
    compression::COMPRESS2_DEFINITION,
    compression::COMPRESS3_DEFINITION,
    echo_acknowledgment::DEFINITION,
];

/// Number of options in the table.
pub(super) const KNOWN_COUNT: usize = TABLE.len();

/// Defines [`Handlers`] from a list of fields, each with its type and the options of the handler.
macro_rules! handlers {
    ($($field:ident: $Handler:ty => $($option:ident)|+;)+) => {
        /// The handlers of the options with subnegotiations at one end.
        #[derive(Debug)]
        pub(super) struct Handlers {
            $(pub(super) $field: $Handler,)+
        }

        impl Handlers {
            fn from_settings(settings: Settings<'_>) -> Self {
                Self { $($field: <$Handler>::from_settings(settings),)+ }
            }

            fn find(&mut self, option: OptionCode) -> Option<&mut dyn Handler> {
                match option {
                    $($(OptionCode::$option)|+ => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}

handlers! {
    status: status::Status => STATUS;
    terminal_type: terminal_type::TerminalType => TERMINAL_TYPE;
    naws: naws::Naws => NAWS;
    terminal_speed: terminal_speed::TerminalSpeed => TERMINAL_SPEED;
    flow_control: flow_control::ToggleFlowControl => TOGGLE_FLOW_CONTROL;
    linemode: linemode::Linemode => LINEMODE;
    x_display_location: x_display_location::XDisplayLocation => X_DISPLAY_LOCATION;
    environment: environment::Environment => NEW_ENVIRON;
    charsets: charset::Charsets => CHARSET;
    com_port: com_port::ComPort => COM_PORT;
    start_tls: start_tls::StartTls => START_TLS;
    compression: compression::Compression => COMPRESS2 | COMPRESS3;
    echo_acknowledgment: echo_acknowledgment::EchoAcknowledgment => ECHO_ACKNOWLEDGMENT;
}

/// The codes of the options that have no file.
impl OptionCode {
    /// TRANSMIT-BINARY (RFC 856): all 256 values are data, and CR has no special meaning.
    pub const BINARY: Self = Self(0);
    /// ECHO (RFC 857): the side that performs it echoes what it receives.
    pub const ECHO: Self = Self(1);
    /// SUPPRESS-GO-AHEAD (RFC 858).
    pub const SUPPRESS_GO_AHEAD: Self = Self(3);
    /// TIMING-MARK (RFC 860): marks a position in the data stream. It is never enabled or disabled.
    pub const TIMING_MARK: Self = Self(6);
    /// END-OF-RECORD (RFC 885): the side that performs it ends its records with EOR.
    pub const END_OF_RECORD: Self = Self(25);
    /// AUTHENTICATION (RFC 2941), always refused.
    pub const AUTHENTICATION: Self = Self(37);
    /// ENCRYPT (RFC 2946), always refused.
    pub const ENCRYPT: Self = Self(38);

    /// Returns the name of the option in its RFC, for well-known options.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "BINARY",
            1 => "ECHO",
            3 => "SUPPRESS-GO-AHEAD",
            5 => "STATUS",
            6 => "TIMING-MARK",
            18 => "LOGOUT",
            23 => "SEND-LOCATION",
            24 => "TERMINAL-TYPE",
            25 => "END-OF-RECORD",
            31 => "NAWS",
            32 => "TERMINAL-SPEED",
            33 => "TOGGLE-FLOW-CONTROL",
            34 => "LINEMODE",
            35 => "X-DISPLAY-LOCATION",
            36 => "ENVIRON",
            37 => "AUTHENTICATION",
            38 => "ENCRYPT",
            39 => "NEW-ENVIRON",
            40 => "TN3270E",
            42 => "CHARSET",
            44 => "COM-PORT-OPTION",
            46 => "START_TLS",
            69 => "MSDP",
            70 => "MSSP",
            85 => "COMPRESS",
            86 => "COMPRESS2",
            87 => "COMPRESS3",
            90 => "MSP",
            91 => "MXP",
            93 => "ZMP",
            200 => "ATCP",
            201 => "GMCP",
            221 => "ECHO-ACKNOWLEDGMENT",
            _ => return None,
        })
    }
}

impl fmt::Display for OptionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

/// Returns the options with a state.
pub(super) fn known() -> impl Iterator<Item = OptionCode> {
    TABLE.iter().map(|definition| definition.option)
}

fn find(option: OptionCode) -> Option<&'static Definition> {
    TABLE.iter().find(|definition| definition.option == option)
}

/// Returns whether a user (or a server) can perform `option`. Requests for other options are always
/// refused.
pub(super) fn can_perform(is_user: bool, option: OptionCode) -> bool {
    find(option).is_some_and(|definition| definition.performer.includes(is_user))
}

/// Returns the side that performs `option` as seen from a user (or a server), if only one role can.
pub(super) fn only_side(is_user: bool, option: OptionCode) -> Option<Side> {
    let user = if is_user { Side::Local } else { Side::Remote };
    let server = if is_user { Side::Remote } else { Side::Local };
    match find(option)?.performer {
        Role::Either => None,
        Role::User => Some(user),
        Role::Server => Some(server),
    }
}

/// Returns whether a user (or a server) requests `option` at the start, if the settings allow the
/// option and it is not allowed by default.
pub(super) fn initiates(is_user: bool, option: OptionCode) -> bool {
    find(option).is_some_and(|definition| definition.initiator.includes(is_user))
}

/// Returns the maximum length in bytes of the content of a subnegotiation of `option`.
pub(super) fn content_max_bytes(option: OptionCode) -> usize {
    find(option).map_or(0, |definition| definition.content_max_bytes)
}

/// The states of all known options, their handlers, and the set of allowed options.
#[derive(Debug)]
pub(super) struct Options {
    rows: [OptionRow; KNOWN_COUNT],
    pub(super) handlers: Handlers,
    allowed: OptionSet,
    is_user: bool,
}

impl Options {
    pub(super) fn new(settings: Settings<'_>) -> Self {
        let mut rows = [OptionRow::disabled(OptionCode::BINARY); KNOWN_COUNT];
        for (row, option) in rows.iter_mut().zip(known()) {
            *row = OptionRow::disabled(option);
        }
        let mut handlers = Handlers::from_settings(settings);
        let mut is_configured =
            |option| handlers.find(option).is_none_or(|handler| handler.is_configured());
        let allowed = known().fold(settings.allowed_options(), |allowed, option| {
            if is_configured(option) { allowed } else { allowed.without(option) }
        });
        Self { rows, handlers, allowed, is_user: settings.is_user() }
    }

    pub(super) fn is_user(&self) -> bool {
        self.is_user
    }

    pub(super) fn rows(&self) -> &[OptionRow] {
        &self.rows
    }

    /// Returns the options that the settings allow and for which they contain the information that
    /// the option sends.
    pub(super) fn allowed(&self) -> OptionSet {
        self.allowed
    }

    /// Returns whether `side` may perform `option` according to the role and the settings.
    pub(super) fn allows(&self, side: Side, option: OptionCode) -> bool {
        let is_user = self.is_user == (side == Side::Local);
        self.allowed.contains(option) && can_perform(is_user, option)
    }

    /// Returns the state of `option`; an unknown option is disabled.
    pub(super) fn state(&self, side: Side, option: OptionCode) -> OptionState {
        let row = self.rows.iter().find(|row| row.option == option);
        row.map_or(OptionState::No, |row| row.state(side))
    }

    pub(super) fn set_state(&mut self, side: Side, option: OptionCode, state: OptionState) {
        let row = self.rows.iter_mut().find(|row| row.option == option);
        match (row, side) {
            (Some(row), Side::Local) => row.us = state,
            (Some(row), Side::Remote) => row.him = state,
            (None, _) => {}
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.rows.iter().all(|row| row.us.is_settled() && row.him.is_settled())
    }

    /// Returns the handler of `option`, if it has one, and the context of its functions.
    pub(super) fn handler<'a, 'b>(
        &'a mut self,
        option: OptionCode,
        output: &'a mut Output,
        inspector: &'a mut Inspector,
        cx: &'a mut Cx<'b>,
    ) -> (Option<&'a mut dyn Handler>, Context<'a, 'b>) {
        let row = self.rows.iter().find(|row| row.option == option);
        let row = row.copied().unwrap_or(OptionRow::disabled(option));
        let definition = find(option);
        let rows = &self.rows;
        let context = Context { row, rows, definition, output, inspector, cx };
        (self.handlers.find(option), context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_subnegotiation_is_parsed_or_refused_and_displayed_without_control_characters(
            option in prop::sample::select(known().collect::<alloc::vec::Vec<_>>()),
            content in prop::collection::vec(any::<u8>(), 0..520)
        ) {
            if let Some(words) = (find(option).unwrap().describe)(&content) {
                prop_assert!(!words.chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn the_table_is_in_the_order_of_the_codes() {
        assert!(known().is_sorted());
    }

    #[test]
    fn the_side_of_a_role_is_local_for_that_role_and_remote_for_the_other() {
        let sides = |option| [true, false].map(|is_user| only_side(is_user, option));
        assert_eq!(sides(OptionCode::NAWS), [Some(Side::Local), Some(Side::Remote)]);
        assert_eq!(sides(OptionCode::ECHO), [Some(Side::Remote), Some(Side::Local)]);
        assert_eq!(sides(OptionCode::BINARY), [None, None]);
    }
}
