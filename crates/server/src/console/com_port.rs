//! RFC 2217 requests of a console client and their replies, which report the settings in force.
//! Only a client with write access can change the line.

use super::SerialConsole;
use super::line_multiplexer::{ClientId, Masks};
use os::modem_lines::{ControlLine, Purge};
use os::serial::{DataBits, FlowControl, LineSettings, Parity, Serial, StopBits};
use protocols::telnet::{ComPortCommand, Control};

impl SerialConsole {
    /// Executes a request as far as the rights of the client allow. Returns the reply. `masks` are
    /// the notification masks of the client.
    pub(super) fn execute_com_port(
        &self,
        id: ClientId,
        command: &ComPortCommand,
        masks: &mut Masks,
    ) -> Option<ComPortCommand> {
        let may_set = self.multiplexer.borrow().has_write_access(id);
        Some(match command {
            // RFC 2217 §3: an empty signature requests the signature of the server; any other
            // signature is the signature of the client.
            ComPortCommand::Signature(text) if text.is_empty() => {
                ComPortCommand::Signature("plumb".to_owned())
            }
            ComPortCommand::BaudRate(_)
            | ComPortCommand::DataSize(_)
            | ComPortCommand::Parity(_)
            | ComPortCommand::StopSize(_)
            | ComPortCommand::Control(Control(0..=3 | 17..=19)) => {
                if let Some(wanted) =
                    changed_settings(self.line_settings.get(), command).filter(|_| may_set)
                {
                    self.set(wanted);
                }
                current_value(self.line_settings.get(), command)
            }
            ComPortCommand::Control(control) => {
                ComPortCommand::Control(self.control(*control, may_set))
            }
            ComPortCommand::LineStateMask(mask) => {
                masks.line = *mask;
                self.multiplexer.borrow_mut().set_masks(id, *masks);
                command.clone()
            }
            ComPortCommand::ModemStateMask(mask) => {
                masks.modem = *mask;
                self.multiplexer.borrow_mut().set_masks(id, *masks);
                self.wakeup.notify_one();
                command.clone()
            }
            ComPortCommand::Purge(buffers) => {
                self.purge(id, *buffers, may_set);
                command.clone()
            }
            _ => return None,
        })
    }

    /// Changes the line settings, if the configuration allows them and the device supports them.
    fn set(&self, wanted: LineSettings) {
        let line_settings = self.line_settings.get();
        if !self.settings().allows(wanted, line_settings) {
            return;
        }
        let is_open = self.line.borrow().is_some();
        // The settings of a line that is not open take effect when the line is opened.
        if !is_open || self.with_line(|line| line.set(wanted)).is_some() {
            self.line_settings.set(wanted);
        }
    }

    /// Sets or queries BREAK and the output lines DTR and RTS, or queries inbound flow control.
    fn control(&self, control: Control, may_set: bool) -> Control {
        match control {
            Control::BREAK_ON | Control::BREAK_OFF if may_set => {
                self.with_line(|line| line.set_break(control == Control::BREAK_ON));
                control
            }
            Control::ASK_BREAK | Control::BREAK_ON | Control::BREAK_OFF => Control::BREAK_OFF,
            Control::ASK_DTR | Control::DTR_ON | Control::DTR_OFF => {
                let requested_state =
                    (control != Control::ASK_DTR).then_some(control == Control::DTR_ON);
                let is_raised =
                    self.set_modem_line(ControlLine::Dtr, requested_state.filter(|_| may_set));
                if is_raised { Control::DTR_ON } else { Control::DTR_OFF }
            }
            Control::ASK_RTS | Control::RTS_ON | Control::RTS_OFF => {
                let requested_state =
                    (control != Control::ASK_RTS).then_some(control == Control::RTS_ON);
                let is_raised =
                    self.set_modem_line(ControlLine::Rts, requested_state.filter(|_| may_set));
                if is_raised { Control::RTS_ON } else { Control::RTS_OFF }
            }
            // Inbound flow control is the same as outbound.
            _ => Control(match self.line_settings.get().flow_control {
                FlowControl::None => 14,
                FlowControl::Software => 15,
                FlowControl::Hardware => 16,
            }),
        }
    }

    /// Sets DTR or RTS if `requested` is given. Returns whether the modem line is raised. For a
    /// serial line without modem lines, such as a three-wire line, returns the requested state, or
    /// true for a query.
    fn set_modem_line(&self, control_line: ControlLine, requested: Option<bool>) -> bool {
        if let Some(is_raised) = requested {
            self.with_line(|line| line.drive(control_line, is_raised));
        }
        let lines = self.with_line(Serial::modem_lines);
        lines.map_or(requested.unwrap_or(true), |lines| lines.is_asserted(control_line))
    }

    fn purge(&self, id: ClientId, buffers: u8, may_set: bool) {
        let purges_receive_buffer = buffers & 1 != 0;
        let purges_transmit_buffer = buffers & 2 != 0;
        if purges_receive_buffer {
            // The output queues of other clients remain.
            self.multiplexer.borrow_mut().discard_output(id);
        }
        if purges_transmit_buffer && may_set {
            let mut multiplexer = self.multiplexer.borrow_mut();
            let queued_bytes = multiplexer.queued_input().len();
            multiplexer.consume_input(queued_bytes);
            self.with_line(|line| line.purge(Purge::Unsent));
        }
    }

    /// Ends a BREAK when the client that may have started it has left.
    pub(super) fn end_break(&self) {
        self.with_line(|line| line.set_break(false));
    }
}

/// Returns `line_settings` with the change that `command` requests. Returns `None` if `command` is
/// a query or its value is not supported.
fn changed_settings(line_settings: LineSettings, command: &ComPortCommand) -> Option<LineSettings> {
    let mut new_settings = line_settings;
    match command {
        ComPortCommand::BaudRate(rate @ 1..) => new_settings.bits_per_second = *rate,
        ComPortCommand::DataSize(bits) => {
            new_settings.data_bits = match bits {
                5 => DataBits::Five,
                6 => DataBits::Six,
                7 => DataBits::Seven,
                8 => DataBits::Eight,
                _ => return None,
            };
        }
        ComPortCommand::Parity(parity) => {
            new_settings.parity = match parity {
                1 => Parity::None,
                2 => Parity::Odd,
                3 => Parity::Even,
                4 => Parity::Mark,
                5 => Parity::Space,
                _ => return None,
            };
        }
        ComPortCommand::StopSize(stop) => {
            new_settings.stop_bits = match stop {
                1 => StopBits::One,
                2 => StopBits::Two,
                _ => return None,
            };
        }
        ComPortCommand::Control(control) => {
            new_settings.flow_control = match *control {
                Control::NO_FLOW => FlowControl::None,
                Control::XON_XOFF => FlowControl::Software,
                Control::HARDWARE => FlowControl::Hardware,
                _ => return None,
            };
        }
        _ => return None,
    }
    Some(new_settings)
}

/// Returns the current value of the setting that `command` concerns.
fn current_value(line_settings: LineSettings, command: &ComPortCommand) -> ComPortCommand {
    match command {
        ComPortCommand::BaudRate(_) => ComPortCommand::BaudRate(line_settings.bits_per_second),
        ComPortCommand::DataSize(_) => ComPortCommand::DataSize(match line_settings.data_bits {
            DataBits::Five => 5,
            DataBits::Six => 6,
            DataBits::Seven => 7,
            DataBits::Eight => 8,
        }),
        ComPortCommand::Parity(_) => ComPortCommand::Parity(match line_settings.parity {
            Parity::None => 1,
            Parity::Odd => 2,
            Parity::Even => 3,
            Parity::Mark => 4,
            Parity::Space => 5,
        }),
        ComPortCommand::StopSize(_) => ComPortCommand::StopSize(match line_settings.stop_bits {
            StopBits::One => 1,
            StopBits::Two => 2,
        }),
        _ => ComPortCommand::Control(match line_settings.flow_control {
            FlowControl::None => Control::NO_FLOW,
            FlowControl::Software => Control::XON_XOFF,
            FlowControl::Hardware => Control::HARDWARE,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConsoleSettings;
    use super::super::console_settings::ConsoleFile;
    use super::*;

    fn console(more: &str) -> (SerialConsole, ClientId) {
        let text = format!("device = \"/dev/ttyNONE\"\nbaud = 9600\n{more}");
        let file: ConsoleFile = toml::from_str(&text).unwrap();
        let console = SerialConsole::new(ConsoleSettings::complete(file).unwrap());
        let peer = "192.0.2.1:9".parse().unwrap();
        let (id, _) = console.multiplexer.borrow_mut().attach(peer, true);
        (console, id)
    }

    fn execute(
        console: &SerialConsole,
        id: ClientId,
        command: &ComPortCommand,
    ) -> Option<ComPortCommand> {
        console.execute_com_port(id, command, &mut Masks { line: 0, modem: 255 })
    }

    #[test]
    fn an_allowed_setting_is_applied_and_any_other_is_answered_with_the_current_value() {
        let (console, id) = console("rates = [19200]");
        let rate = ComPortCommand::BaudRate;
        assert_eq!(execute(&console, id, &rate(0)), Some(rate(9600)));
        assert_eq!(execute(&console, id, &rate(19_200)), Some(rate(19_200)));
        assert_eq!(execute(&console, id, &rate(110)), Some(rate(19_200)));
        let parity = ComPortCommand::Parity;
        assert_eq!(execute(&console, id, &parity(3)), Some(parity(1)));
    }

    #[test]
    fn a_client_without_write_access_changes_nothing() {
        let (console, _) = console("rates = [19200]\nfree-framing = true");
        let peer = "192.0.2.2:9".parse().unwrap();
        let (watcher, _) = console.multiplexer.borrow_mut().attach(peer, true);
        let rate = ComPortCommand::BaudRate;
        assert_eq!(execute(&console, watcher, &rate(19_200)), Some(rate(9600)));
        let control = ComPortCommand::Control;
        let answer = execute(&console, watcher, &control(Control::BREAK_ON));
        assert_eq!(answer, Some(control(Control::BREAK_OFF)));
    }

    #[test]
    fn with_free_framing_each_framing_setting_can_be_changed() {
        let (console, id) = console("free-framing = true");
        let commands = [
            ComPortCommand::DataSize(7),
            ComPortCommand::Parity(3),
            ComPortCommand::StopSize(2),
            ComPortCommand::Control(Control::XON_XOFF),
        ];
        let answers = commands.each_ref().map(|command| execute(&console, id, command).unwrap());
        assert_eq!(answers, commands);
        let one_and_a_half = ComPortCommand::StopSize(3);
        assert_eq!(execute(&console, id, &one_and_a_half), Some(ComPortCommand::StopSize(2)));
    }
}
