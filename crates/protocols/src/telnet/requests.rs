//! Calls that concern one option: requests to the peer, reports, and the commands GA and EOR.

use super::command::{Command, OptionCode, Side};
use super::option::com_port::ComPortCommand;
use super::option::linemode::{LinemodeMode, SlcFunction, SpecialCharacter};
use super::option::status;
use super::settings_and_events::FlowControl;
use super::{AskError, Telnet};
use net::Cx;

impl Telnet {
    /// Requests the list of options that the peer considers enabled. The answer arrives as
    /// [`Event::Status`](super::Event::Status).
    ///
    /// # Errors
    ///
    /// Returns [`AskError::NotEnabled`] if the peer does not perform STATUS; request the option
    /// first.
    pub fn ask_status(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        self.send_in_force(Side::Remote, OptionCode::STATUS, &status::SEND_CONTENT, cx)
    }

    /// Sets the size of the user's window in characters, and reports it to the peer if NAWS is
    /// enabled (RFC 1073).
    pub fn resize(&mut self, columns: u16, rows: u16, cx: &mut Cx<'_>) {
        if let Some(content) = self.options.handlers.naws.resize((columns, rows)) {
            // If NAWS is disabled, the size is not sent.
            _ = self.send_in_force(Side::Local, OptionCode::NAWS, &content, cx);
        }
    }

    /// Sends GA to signal that input is expected (RFC 858). Sends nothing if the suppression of GA
    /// was negotiated.
    ///
    /// Returns whether GA was sent.
    pub fn go_ahead(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_suppressed = self.is_enabled(Side::Local, OptionCode::SUPPRESS_GO_AHEAD);
        !is_suppressed && self.command(Command::GoAhead, cx)
    }

    /// Sends EOR to mark the end of a record, if END-OF-RECORD is in effect (RFC 885).
    ///
    /// Returns whether EOR was sent.
    pub fn end_of_record(&mut self, cx: &mut Cx<'_>) -> bool {
        let is_enabled = self.is_in_force(Side::Local, OptionCode::END_OF_RECORD);
        is_enabled && self.command(Command::EndOfRecord, cx)
    }

    /// For a server: sets whether the user's terminal acts on XOFF and XON (RFC 1372).
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the user does not perform TOGGLE-FLOW-CONTROL, or if the output
    /// queue is full.
    pub fn flow_control(&mut self, flow: FlowControl, cx: &mut Cx<'_>) -> Result<(), AskError> {
        self.send_in_force(Side::Remote, OptionCode::TOGGLE_FLOW_CONTROL, &flow.content(), cx)
    }

    /// Requests one of the character sets in the settings. The answer arrives as
    /// [`Event::Charset`](super::Event::Charset).
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the local end does not perform CHARSET, if a request is outstanding,
    /// if no character set is configured, or if the output queue is full.
    pub fn ask_charset(&mut self, cx: &mut Cx<'_>) -> Result<(), AskError> {
        if !self.is_in_force(Side::Local, OptionCode::CHARSET) {
            return Err(AskError::NotEnabled);
        }
        let content = self.options.handlers.charsets.request().ok_or(AskError::AlreadyRequested)?;
        self.send_in_force(Side::Local, OptionCode::CHARSET, &content, cx)
            .inspect_err(|_| self.options.handlers.charsets.discard_request())
    }

    /// For a server: requests a line editing mode from the user. The answer arrives as an event
    /// (RFC 1184).
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the user does not perform LINEMODE, or if the output queue is full.
    pub fn ask_linemode(&mut self, mode: LinemodeMode, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = self.options.handlers.linemode.ask_mode(mode);
        self.send_in_force(Side::Remote, OptionCode::LINEMODE, &content, cx)
    }

    /// For a server: requests that the user's end send its pending input whenever one of these
    /// characters is typed. The mask has one bit per character; character 0 is the most significant
    /// bit of the first byte.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if the user does not perform LINEMODE, or if the output queue is full.
    pub fn ask_forward_mask(&mut self, mask: &[u8; 32], cx: &mut Cx<'_>) -> Result<(), AskError> {
        let content = self.options.handlers.linemode.ask_forward_mask(mask);
        self.send_in_force(Side::Remote, OptionCode::LINEMODE, &content, cx)
    }

    /// Assigns another character to a line editing function, and reports it to the peer.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if LINEMODE is not enabled, or if the output queue is full.
    pub fn set_special_character(
        &mut self,
        function: SlcFunction,
        character: SpecialCharacter,
        cx: &mut Cx<'_>,
    ) -> Result<(), AskError> {
        let side = self.users_side();
        if !self.is_in_force(side, OptionCode::LINEMODE) {
            return Err(AskError::NotEnabled);
        }
        let content = self.options.handlers.linemode.ask_character(function, character);
        self.send_in_force(side, OptionCode::LINEMODE, &content, cx)
    }

    /// Sends a COM-PORT-OPTION message (RFC 2217). A user sends a command to the serial port of the
    /// peer; a server sends an answer or a notification.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`] if COM-PORT-OPTION is not enabled, if too many commands are unanswered,
    /// or if the output queue is full.
    pub fn com_port(&mut self, command: &ComPortCommand, cx: &mut Cx<'_>) -> Result<(), AskError> {
        let side = self.users_side();
        if !self.is_in_force(side, OptionCode::COM_PORT) {
            return Err(AskError::NotEnabled);
        }
        let content =
            self.options.handlers.com_port.request(command).ok_or(AskError::AlreadyRequested)?;
        self.send_in_force(side, OptionCode::COM_PORT, &content, cx)
    }
}
