//! RFC 2217 requests of a console client and their replies, which report the settings in force.
//! Only a client with write access can change the line.

use super::Console;
use super::desk::{Id, Masks};
use os::modem_lines::{Purge, Wire};
use os::serial::{DataBits, FlowControl, LineSettings, Parity, Serial, StopBits};
use protocols::application::telnet::{ComPortCommand, Control};

impl Console {
    /// Executes a request as far as the client may, and returns the reply. `masks` belong to the
    /// client.
    pub(super) fn obey(
        &self,
        id: Id,
        command: &ComPortCommand,
        masks: &mut Masks,
    ) -> Option<ComPortCommand> {
        let may_set = self.desk.borrow().writes(id);
        Some(match command {
            // RFC 2217 §3: an empty signature requests the server's; another one is the client's
            // own.
            ComPortCommand::Signature(text) if text.is_empty() => {
                ComPortCommand::Signature("plumb".to_owned())
            }
            ComPortCommand::BaudRate(_)
            | ComPortCommand::DataSize(_)
            | ComPortCommand::Parity(_)
            | ComPortCommand::StopSize(_)
            | ComPortCommand::Control(Control(0..=3 | 17..=19)) => {
                if let Some(wanted) = with(self.holds.get(), command).filter(|_| may_set) {
                    self.set(wanted);
                }
                told(self.holds.get(), command)
            }
            ComPortCommand::Control(control) => {
                ComPortCommand::Control(self.control(*control, may_set))
            }
            ComPortCommand::LineStateMask(mask) => {
                masks.line = *mask;
                self.desk.borrow_mut().set_masks(id, *masks);
                command.clone()
            }
            ComPortCommand::ModemStateMask(mask) => {
                masks.modem = *mask;
                self.desk.borrow_mut().set_masks(id, *masks);
                self.work.notify_one();
                command.clone()
            }
            ComPortCommand::Purge(what) => {
                self.purge(id, *what, may_set);
                command.clone()
            }
            _ => return None,
        })
    }

    /// Changes the line settings, if the configuration allows them and the device supports them.
    fn set(&self, wanted: LineSettings) {
        let holds = self.holds.get();
        if !self.settings.allows(wanted, holds) {
            return;
        }
        let is_there = self.line.borrow().is_some();
        // A line that is not open gets them when it is opened.
        if !is_there || self.with_line(|line| line.set(wanted)).is_some() {
            self.holds.set(wanted);
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
                let asked = (control != Control::ASK_DTR).then_some(control == Control::DTR_ON);
                let is_raised = self.drive(Wire::Dtr, asked.filter(|_| may_set));
                if is_raised { Control::DTR_ON } else { Control::DTR_OFF }
            }
            Control::ASK_RTS | Control::RTS_ON | Control::RTS_OFF => {
                let asked = (control != Control::ASK_RTS).then_some(control == Control::RTS_ON);
                let is_raised = self.drive(Wire::Rts, asked.filter(|_| may_set));
                if is_raised { Control::RTS_ON } else { Control::RTS_OFF }
            }
            // Inbound flow control is the same as outbound.
            _ => Control(match self.holds.get().flow_control {
                FlowControl::None => 14,
                FlowControl::Software => 15,
                FlowControl::Hardware => 16,
            }),
        }
    }

    /// Sets DTR or RTS if `asked` is given. Returns whether it is raised. For a line without modem
    /// lines, such as a three-wire one, it returns the requested state, or true for a query.
    fn drive(&self, wire: Wire, asked: Option<bool>) -> bool {
        if let Some(is_raised) = asked {
            self.with_line(|line| line.drive(wire, is_raised));
        }
        let lines = self.with_line(Serial::modem_lines);
        lines.map_or(asked.unwrap_or(true), |lines| lines.raises(wire))
    }

    fn purge(&self, id: Id, what: u8, may_set: bool) {
        let (received, unsent) = (what & 1 != 0, what & 2 != 0);
        if received {
            // The output queues of other clients remain.
            self.desk.borrow_mut().forget(id);
        }
        if unsent && may_set {
            let mut desk = self.desk.borrow_mut();
            let waiting = desk.waiting_for_line().len();
            desk.line_took(waiting);
            self.with_line(|line| line.purge(Purge::Unsent));
        }
    }

    /// Ends a BREAK when the client that may have started it has left.
    pub(super) fn end_break(&self) {
        self.with_line(|line| line.set_break(false));
    }
}

/// Returns the settings changed by `command`, or `None` if it is a query or the value is not
/// supported.
fn with(holds: LineSettings, command: &ComPortCommand) -> Option<LineSettings> {
    let mut wanted = holds;
    match command {
        ComPortCommand::BaudRate(rate @ 1..) => wanted.bits_per_second = *rate,
        ComPortCommand::DataSize(bits) => {
            wanted.data_bits = match bits {
                5 => DataBits::Five,
                6 => DataBits::Six,
                7 => DataBits::Seven,
                8 => DataBits::Eight,
                _ => return None,
            };
        }
        ComPortCommand::Parity(parity) => {
            wanted.parity = match parity {
                1 => Parity::None,
                2 => Parity::Odd,
                3 => Parity::Even,
                4 => Parity::Mark,
                5 => Parity::Space,
                _ => return None,
            };
        }
        ComPortCommand::StopSize(stop) => {
            wanted.stop_bits = match stop {
                1 => StopBits::One,
                2 => StopBits::Two,
                _ => return None,
            };
        }
        ComPortCommand::Control(control) => {
            wanted.flow_control = match *control {
                Control::NO_FLOW => FlowControl::None,
                Control::XON_XOFF => FlowControl::Software,
                Control::HARDWARE => FlowControl::Hardware,
                _ => return None,
            };
        }
        _ => return None,
    }
    Some(wanted)
}

/// Returns the current value of the setting that `command` concerns.
fn told(holds: LineSettings, command: &ComPortCommand) -> ComPortCommand {
    match command {
        ComPortCommand::BaudRate(_) => ComPortCommand::BaudRate(holds.bits_per_second),
        ComPortCommand::DataSize(_) => ComPortCommand::DataSize(match holds.data_bits {
            DataBits::Five => 5,
            DataBits::Six => 6,
            DataBits::Seven => 7,
            DataBits::Eight => 8,
        }),
        ComPortCommand::Parity(_) => ComPortCommand::Parity(match holds.parity {
            Parity::None => 1,
            Parity::Odd => 2,
            Parity::Even => 3,
            Parity::Mark => 4,
            Parity::Space => 5,
        }),
        ComPortCommand::StopSize(_) => ComPortCommand::StopSize(match holds.stop_bits {
            StopBits::One => 1,
            StopBits::Two => 2,
        }),
        _ => ComPortCommand::Control(match holds.flow_control {
            FlowControl::None => Control::NO_FLOW,
            FlowControl::Software => Control::XON_XOFF,
            FlowControl::Hardware => Control::HARDWARE,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::super::settings::ConsoleFile;
    use super::*;

    fn console(more: &str) -> (Console, Id) {
        let text = format!("device = \"/dev/ttyNONE\"\nbaud = 9600\n{more}");
        let file: ConsoleFile = toml::from_str(&text).unwrap();
        let console = Console::new(Settings::complete(file).unwrap());
        let peer = "192.0.2.1:9".parse().unwrap();
        let (id, _) = console.desk.borrow_mut().enter(peer, true);
        (console, id)
    }

    fn obeyed(console: &Console, id: Id, command: &ComPortCommand) -> Option<ComPortCommand> {
        console.obey(id, command, &mut Masks { line: 0, modem: 255 })
    }

    #[test]
    fn what_is_allowed_is_set_and_what_is_not_is_answered_by_what_holds() {
        let (console, id) = console("rates = [19200]");
        let rate = ComPortCommand::BaudRate;
        assert_eq!(obeyed(&console, id, &rate(0)), Some(rate(9600)));
        assert_eq!(obeyed(&console, id, &rate(19_200)), Some(rate(19_200)));
        assert_eq!(obeyed(&console, id, &rate(110)), Some(rate(19_200)));
        let parity = ComPortCommand::Parity;
        assert_eq!(obeyed(&console, id, &parity(3)), Some(parity(1)));
    }

    #[test]
    fn one_who_watches_sets_nothing() {
        let (console, _) = console("rates = [19200]\nfree-framing = true");
        let peer = "192.0.2.2:9".parse().unwrap();
        let (watcher, _) = console.desk.borrow_mut().enter(peer, true);
        let rate = ComPortCommand::BaudRate;
        assert_eq!(obeyed(&console, watcher, &rate(19_200)), Some(rate(9600)));
        let control = ComPortCommand::Control;
        let answer = obeyed(&console, watcher, &control(Control::BREAK_ON));
        assert_eq!(answer, Some(control(Control::BREAK_OFF)));
    }

    #[test]
    fn with_free_framing_each_part_of_it_can_be_chosen() {
        let (console, id) = console("free-framing = true");
        let commands = [
            ComPortCommand::DataSize(7),
            ComPortCommand::Parity(3),
            ComPortCommand::StopSize(2),
            ComPortCommand::Control(Control::XON_XOFF),
        ];
        let answers = commands.each_ref().map(|command| obeyed(&console, id, command).unwrap());
        assert_eq!(answers, commands);
        let one_and_a_half = ComPortCommand::StopSize(3);
        assert_eq!(obeyed(&console, id, &one_and_a_half), Some(ComPortCommand::StopSize(2)));
    }
}
