//! The wires of a serial line beside its data, and BREAK.
//!
//! A pseudo-terminal has none of them: what asks for their state is told so by an error.

use crate::serial::{LineSettings, Serial};
use rustix::io::Errno;
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, ioctl};
use rustix::termios::{InputModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use std::ffi::c_int;
use std::io;
use std::os::fd::AsFd;

// Of <asm-generic/ioctls.h>.
const TIOCMGET: Opcode = 0x5415;
const TIOCMBIS: Opcode = 0x5416;
const TIOCMBIC: Opcode = 0x5417;
const TIOCSBRK: Opcode = 0x5427;
const TIOCCBRK: Opcode = 0x5428;

/// The state of the wires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModemLines(c_int);

/// A wire that this end drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Data Terminal Ready.
    Dtr = 0x002,
    /// Request To Send.
    Rts = 0x004,
}

impl ModemLines {
    /// Returns whether the other end lets this one send (Clear To Send).
    #[must_use]
    pub fn clear_to_send(self) -> bool {
        self.0 & 0x020 != 0
    }

    /// Returns whether the other end hears a carrier.
    #[must_use]
    pub fn carrier(self) -> bool {
        self.0 & 0x040 != 0
    }

    /// Returns whether it rings.
    #[must_use]
    pub fn ring(self) -> bool {
        self.0 & 0x080 != 0
    }

    /// Returns whether the other end is there (Data Set Ready).
    #[must_use]
    pub fn data_set_ready(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// Returns whether this end raises `wire`.
    #[must_use]
    pub fn raises(self, wire: Wire) -> bool {
        self.0 & wire as c_int != 0
    }
}

/// What a purge throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// What was received and not read.
    Received,
    /// What was written and not sent.
    Unsent,
    /// Both.
    Both,
}

/// What a line has received, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A byte.
    Byte(u8),
    /// A BREAK.
    Break,
    /// A byte whose parity or stop bit was wrong.
    Wrong(u8),
}

/// Tells bytes from marks, once [`Serial::mark_breaks`] was called: 255 0 0 is a BREAK, 255 0 and a
/// byte that byte received wrong, and 255 255 the byte 255 (termios, PARMRK).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// The next byte is data, or begins a mark.
    #[default]
    Data,
    /// 255 has come.
    Escape,
    /// 255 0 has come.
    Mark,
}

impl Marks {
    /// Takes the next byte that was read, and returns what it completes.
    pub fn take(&mut self, byte: u8) -> Option<Received> {
        let (next, received) = match (*self, byte) {
            (Self::Data, 0xFF) => (Self::Escape, None),
            (Self::Escape, 0) => (Self::Mark, None),
            (Self::Mark, 0) => (Self::Data, Some(Received::Break)),
            (Self::Mark, byte) => (Self::Data, Some(Received::Wrong(byte))),
            (Self::Data | Self::Escape, byte) => (Self::Data, Some(Received::Byte(byte))),
        };
        *self = next;
        received
    }
}

impl Serial {
    /// Gives the line other settings, now. What it cannot have it keeps as it was.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if it cannot have the rate; EIO if the device is unplugged.
    pub fn set(&self, settings: LineSettings) -> io::Result<()> {
        let before = tcgetattr(self)?;
        let mut modes = before.clone();
        settings.put_into(&mut modes);
        if settings.bits_per_second == 0 || modes.set_speed(settings.bits_per_second).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        tcsetattr(self, OptionalActions::Now, &modes)?;
        if !settings.allows_rate(tcgetattr(self)?.output_speed()) {
            tcsetattr(self, OptionalActions::Now, &before)?;
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }

    /// Has a BREAK and a byte that was received wrong stand among the bytes that are read, as
    /// [`Marks`] tells them apart.
    ///
    /// # Errors
    ///
    /// EIO if the device is unplugged.
    pub fn mark_breaks(&self) -> io::Result<()> {
        let mut modes = tcgetattr(self)?;
        modes.input_modes -= InputModes::IGNBRK | InputModes::BRKINT | InputModes::IGNPAR;
        modes.input_modes |= InputModes::PARMRK;
        Ok(tcsetattr(self, OptionalActions::Now, &modes)?)
    }

    /// Puts a BREAK on the line until it is taken off.
    ///
    /// # Errors
    ///
    /// If the line cannot have one, or EIO if the device is unplugged.
    pub fn set_break(&self, is_on: bool) -> io::Result<()> {
        Ok(match is_on {
            // SAFETY: it takes no argument.
            true => unsafe { ioctl(self.as_fd(), NoArg::<TIOCSBRK>::new()) },
            // SAFETY: it takes no argument.
            false => unsafe { ioctl(self.as_fd(), NoArg::<TIOCCBRK>::new()) },
        }?)
    }

    /// Returns the state of the wires.
    ///
    /// # Errors
    ///
    /// If the line has none, as a pseudo-terminal; EIO if the device is unplugged.
    pub fn modem_lines(&self) -> io::Result<ModemLines> {
        // SAFETY: it writes one int.
        let bits = unsafe { ioctl(self.as_fd(), Getter::<TIOCMGET, c_int>::new()) };
        Ok(ModemLines(bits.map_err(|error: Errno| io::Error::from(error))?))
    }

    /// Raises or lowers a wire.
    ///
    /// # Errors
    ///
    /// As for [`Self::modem_lines`].
    pub fn drive(&self, wire: Wire, is_raised: bool) -> io::Result<()> {
        let bits = wire as c_int;
        Ok(match is_raised {
            // SAFETY: it reads one int.
            true => unsafe { ioctl(self.as_fd(), Setter::<TIOCMBIS, c_int>::new(bits)) },
            // SAFETY: it reads one int.
            false => unsafe { ioctl(self.as_fd(), Setter::<TIOCMBIC, c_int>::new(bits)) },
        }?)
    }

    /// Throws away what waits in the device.
    ///
    /// # Errors
    ///
    /// EIO if the device is unplugged.
    pub fn purge(&self, what: Purge) -> io::Result<()> {
        let queue = match what {
            Purge::Received => QueueSelector::IFlush,
            Purge::Unsent => QueueSelector::OFlush,
            Purge::Both => QueueSelector::IOFlush,
        };
        Ok(tcflush(self, queue)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty::Pty;
    use crate::serial::FlowControl;
    use crate::testing::readable;
    use crate::tty::WindowSize;
    use proptest::prelude::*;

    fn line() -> (Pty, Serial) {
        let far = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let serial = Serial::open(far.path(), 9600).unwrap();
        (far, serial)
    }

    fn marked(bytes: &[u8]) -> Vec<Received> {
        let mut marks = Marks::default();
        bytes.iter().filter_map(|byte| marks.take(*byte)).collect()
    }

    #[test]
    fn a_break_and_a_wrong_byte_are_told_from_data() {
        let heard = marked(b"a\xFF\x00\x00\xFF\xFF\xFF\x00z");
        let expected =
            [Received::Byte(b'a'), Received::Break, Received::Byte(0xFF), Received::Wrong(b'z')];
        assert_eq!(heard, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_more_than_they_are(bytes: Vec<u8>) {
            prop_assert!(marked(&bytes).len() <= bytes.len());
        }

        #[test]
        fn data_comes_through_its_marks_unchanged(bytes: Vec<u8>) {
            let doubled = bytes.iter().flat_map(|&byte| {
                std::iter::repeat_n(byte, if byte == 0xFF { 2 } else { 1 })
            });
            let heard = marked(&doubled.collect::<Vec<_>>());
            prop_assert_eq!(heard, bytes.into_iter().map(Received::Byte).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_256_bytes_pass_a_line_whose_breaks_are_marked() {
        let (far, serial) = line();
        serial.mark_breaks().unwrap();
        let all = (0..=255).collect::<Vec<u8>>();
        assert_eq!(far.write(&all).unwrap(), Some(256));
        readable(&serial);
        let mut bytes = [0; 1024];
        let count = serial.read(&mut bytes).unwrap().unwrap();
        let expected: Vec<_> = all.into_iter().map(Received::Byte).collect();
        assert_eq!(marked(&bytes[..count]), expected);
    }

    #[test]
    fn a_line_takes_other_settings_while_it_is_open_and_refuses_no_rate() {
        let (_far, serial) = line();
        let settings =
            LineSettings { flow_control: FlowControl::Software, ..LineSettings::at(19_200) };
        serial.set(settings).unwrap();
        let modes = tcgetattr(&serial).unwrap();
        assert_eq!(modes.output_speed(), 19_200);
        assert!(modes.input_modes.contains(InputModes::IXON));
        let refused = serial.set(LineSettings::at(0)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(tcgetattr(&serial).unwrap().output_speed(), 19_200);
    }

    #[test]
    fn a_pseudo_terminal_has_no_wires_and_says_so() {
        let (_far, serial) = line();
        assert!(serial.modem_lines().is_err());
        assert!(serial.drive(Wire::Dtr, true).is_err());
    }
}
