//! Control of a serial line: its parameters at a console server (RFC 2217), and BREAK.

use super::SessionProtocol;
use crate::login::session_settings::LoginProtocol;
use net::Cx;
use net::time::Duration;
use os::serial::{DataBits, FlowControl, LineSettings, Parity, StopBits};
use protocols::telnet::{ComPortCommand, Control, OptionCode, Side};

/// Duration of a BREAK at a console server: a few characters at 110 bits per second.
const BREAK_DURATION: Duration = Duration::from_millis(300);

impl SessionProtocol {
    /// Sends the serial line parameters to a console server (RFC 2217).
    pub(in crate::login) fn set_up_line(&mut self, cx: &mut Cx<'_>) {
        let LoginProtocol::ComPort(line) = self.kind else { return };
        for command in commands(line) {
            // Ignored: these few commands fit into the output queue, and COM-PORT is enabled.
            _ = self.telnet.com_port(&command, cx);
        }
    }

    /// Starts a BREAK on the line of a console server; returns whether the command could be sent.
    pub(super) fn begin_break(&mut self, cx: &mut Cx<'_>) -> bool {
        let begin = ComPortCommand::Control(Control::BREAK_ON);
        let is_sent = self.telnet.com_port(&begin, cx).is_ok();
        if is_sent {
            self.break_deadline = Some(cx.now + BREAK_DURATION);
        }
        is_sent
    }

    /// Ends the BREAK on the line of a console server when it is due.
    pub(in crate::login) fn end_break_if_due(&mut self, cx: &mut Cx<'_>) {
        if self.break_deadline.is_none_or(|until| cx.now < until) {
            return;
        }
        let end = ComPortCommand::Control(Control::BREAK_OFF);
        let is_sent = self.telnet.com_port(&end, cx).is_ok();
        self.break_deadline = (!is_sent
            && self.telnet.is_enabled(Side::Local, OptionCode::COM_PORT))
        .then(|| cx.now + BREAK_DURATION);
    }

    /// Returns, once, whether the carrier must send a BREAK on a serial line.
    pub(in crate::login) fn take_break_request(&mut self) -> bool {
        std::mem::take(&mut self.wants_break)
    }
}

/// Returns the commands that set the parameters of a serial line.
fn commands(line: LineSettings) -> [ComPortCommand; 5] {
    [
        ComPortCommand::BaudRate(line.bits_per_second),
        ComPortCommand::DataSize(match line.data_bits {
            DataBits::Five => 5,
            DataBits::Six => 6,
            DataBits::Seven => 7,
            DataBits::Eight => 8,
        }),
        ComPortCommand::Parity(match line.parity {
            Parity::None => 1,
            Parity::Odd => 2,
            Parity::Even => 3,
            Parity::Mark => 4,
            Parity::Space => 5,
        }),
        ComPortCommand::StopSize(match line.stop_bits {
            StopBits::One => 1,
            StopBits::Two => 2,
        }),
        ComPortCommand::Control(match line.flow_control {
            FlowControl::None => Control::NO_FLOW,
            FlowControl::Software => Control::XON_XOFF,
            FlowControl::Hardware => Control::HARDWARE,
        }),
    ]
}
