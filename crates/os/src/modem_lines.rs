//! Modem control lines of a serial line, BREAK, and line error marks.
//!
//! A pseudo-terminal has no control lines: requests for their state fail.

use crate::serial::{LineSettings, Serial};
use rustix::io::Errno;
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, ioctl};
use rustix::termios::{InputModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};
use std::ffi::c_int;
use std::io;
use std::os::fd::AsFd;

// From <asm-generic/ioctls.h>.
const TIOCMGET: Opcode = 0x5415;
const TIOCMBIS: Opcode = 0x5416;
const TIOCMBIC: Opcode = 0x5417;
const TIOCSBRK: Opcode = 0x5427;
const TIOCCBRK: Opcode = 0x5428;

/// State of the modem control lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModemLines(c_int);

/// A modem control line that this end drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlLine {
    /// Data Terminal Ready.
    Dtr = 0x002,
    /// Request To Send.
    Rts = 0x004,
}

impl ModemLines {
    /// Returns whether the other end permits sending (Clear To Send).
    #[must_use]
    pub fn clear_to_send(self) -> bool {
        self.0 & 0x020 != 0
    }

    /// Returns whether the other end detects a carrier (Data Carrier Detect).
    #[must_use]
    pub fn carrier(self) -> bool {
        self.0 & 0x040 != 0
    }

    /// Returns whether the ring indicator is on.
    #[must_use]
    pub fn ring(self) -> bool {
        self.0 & 0x080 != 0
    }

    /// Returns whether the other end is ready (Data Set Ready).
    #[must_use]
    pub fn data_set_ready(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// Returns whether this end asserts `control_line`.
    #[must_use]
    pub fn is_asserted(self, control_line: ControlLine) -> bool {
        self.0 & control_line as c_int != 0
    }
}

/// Buffers to discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Bytes received but not read.
    Received,
    /// Bytes written but not sent.
    Unsent,
    /// Both received and unsent bytes.
    Both,
}

/// One item received from a serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A data byte.
    Byte(u8),
    /// A BREAK.
    Break,
    /// A byte with a parity or framing error.
    Wrong(u8),
}

/// Decoder for the marks enabled by [`Serial::mark_breaks`]: 255 0 0 is a BREAK, 255 0 and any
/// other byte is that byte received with an error, and 255 255 is the data byte 255 (PARMRK,
/// termios(3)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkDecoder {
    /// The next byte is data or the first byte of a mark.
    #[default]
    Data,
    /// 255 was received.
    Escape,
    /// 255 0 was received.
    Mark,
}

impl MarkDecoder {
    /// Takes the next byte read, and returns the item that it completes.
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
    /// Changes the line settings immediately. If the device does not support the value of a setting
    /// other than the rate, that setting silently keeps its old value.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::InvalidInput`] if the device does not support the rate; the old
    /// settings then stay in force. Returns EIO if the device is unplugged.
    pub fn set(&self, settings: LineSettings) -> io::Result<()> {
        let previous_modes = tcgetattr(self)?;
        let mut modes = previous_modes.clone();
        settings.put_into(&mut modes);
        if settings.bits_per_second == 0 || modes.set_speed(settings.bits_per_second).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        tcsetattr(self, OptionalActions::Now, &modes)?;
        if !settings.allows_rate(tcgetattr(self)?.output_speed()) {
            tcsetattr(self, OptionalActions::Now, &previous_modes)?;
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(())
    }

    /// Enables marks for BREAKs and for bytes with errors in the data that is read. [`MarkDecoder`]
    /// decodes them.
    ///
    /// # Errors
    ///
    /// Returns EIO if the device is unplugged.
    pub fn mark_breaks(&self) -> io::Result<()> {
        let mut modes = tcgetattr(self)?;
        modes.input_modes -= InputModes::IGNBRK | InputModes::BRKINT | InputModes::IGNPAR;
        modes.input_modes |= InputModes::PARMRK;
        Ok(tcsetattr(self, OptionalActions::Now, &modes)?)
    }

    /// Starts a BREAK on the line, or ends it.
    ///
    /// # Errors
    ///
    /// Returns an error if the line does not support a BREAK, or EIO if the device is unplugged.
    pub fn set_break(&self, is_on: bool) -> io::Result<()> {
        Ok(match is_on {
            // SAFETY: the ioctl takes no argument.
            true => unsafe { ioctl(self.as_fd(), NoArg::<TIOCSBRK>::new()) },
            // SAFETY: the ioctl takes no argument.
            false => unsafe { ioctl(self.as_fd(), NoArg::<TIOCCBRK>::new()) },
        }?)
    }

    /// Returns the state of the modem control lines.
    ///
    /// # Errors
    ///
    /// Returns an error if the line has no control lines, like a pseudo-terminal; EIO if the device
    /// is unplugged.
    pub fn modem_lines(&self) -> io::Result<ModemLines> {
        // SAFETY: the ioctl writes one int.
        let bits = unsafe { ioctl(self.as_fd(), Getter::<TIOCMGET, c_int>::new()) };
        Ok(ModemLines(bits.map_err(|error: Errno| io::Error::from(error))?))
    }

    /// Asserts or deasserts a control line.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::modem_lines`].
    pub fn drive(&self, control_line: ControlLine, is_raised: bool) -> io::Result<()> {
        let bits = control_line as c_int;
        Ok(match is_raised {
            // SAFETY: the ioctl reads one int.
            true => unsafe { ioctl(self.as_fd(), Setter::<TIOCMBIS, c_int>::new(bits)) },
            // SAFETY: the ioctl reads one int.
            false => unsafe { ioctl(self.as_fd(), Setter::<TIOCMBIC, c_int>::new(bits)) },
        }?)
    }

    /// Discards buffered bytes.
    ///
    /// # Errors
    ///
    /// Returns EIO if the device is unplugged.
    pub fn purge(&self, buffers: Purge) -> io::Result<()> {
        let queue = match buffers {
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
    use crate::testing::wait_until_readable;
    use crate::tty::WindowSize;
    use proptest::prelude::*;

    fn line() -> (Pty, Serial) {
        let master = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        let serial = Serial::open(master.path(), 9600).unwrap();
        (master, serial)
    }

    fn decode(bytes: &[u8]) -> Vec<Received> {
        let mut marks = MarkDecoder::default();
        bytes.iter().filter_map(|byte| marks.take(*byte)).collect()
    }

    #[test]
    fn breaks_and_damaged_bytes_are_distinguished_from_data() {
        let items = decode(b"a\xFF\x00\x00\xFF\xFF\xFF\x00z");
        let expected =
            [Received::Byte(b'a'), Received::Break, Received::Byte(0xFF), Received::Wrong(b'z')];
        assert_eq!(items, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_at_most_as_many_items(bytes: Vec<u8>) {
            prop_assert!(decode(&bytes).len() <= bytes.len());
        }

        #[test]
        fn data_with_parity_marks_is_unmarked_unchanged(bytes: Vec<u8>) {
            let doubled = bytes.iter().flat_map(|&byte| {
                std::iter::repeat_n(byte, if byte == 0xFF { 2 } else { 1 })
            });
            let items = decode(&doubled.collect::<Vec<_>>());
            prop_assert_eq!(items, bytes.into_iter().map(Received::Byte).collect::<Vec<_>>());
        }
    }

    #[test]
    fn all_256_bytes_pass_a_line_with_marked_breaks() {
        let (master, serial) = line();
        serial.mark_breaks().unwrap();
        let all = (0..=255).collect::<Vec<u8>>();
        assert_eq!(master.write(&all).unwrap(), Some(256));
        wait_until_readable(&serial);
        let mut bytes = [0; 1024];
        let count = serial.read(&mut bytes).unwrap().unwrap();
        let expected: Vec<_> = all.into_iter().map(Received::Byte).collect();
        assert_eq!(decode(&bytes[..count]), expected);
    }

    #[test]
    fn an_open_line_accepts_new_settings_and_rejects_rate_zero() {
        let (_far, serial) = line();
        let settings =
            LineSettings { flow_control: FlowControl::Software, ..LineSettings::at(19_200) };
        serial.set(settings).unwrap();
        let modes = tcgetattr(&serial).unwrap();
        assert_eq!(modes.output_speed(), 19_200);
        assert!(modes.input_modes.contains(InputModes::IXON));
        let error = serial.set(LineSettings::at(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(tcgetattr(&serial).unwrap().output_speed(), 19_200);
    }

    #[test]
    fn a_pseudo_terminal_has_no_modem_lines() {
        let (_far, serial) = line();
        assert!(serial.modem_lines().is_err());
        assert!(serial.drive(ControlLine::Dtr, true).is_err());
    }
}
