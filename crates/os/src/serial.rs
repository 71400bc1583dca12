//! A serial line, at any rate the hardware can have: eight bits, no parity, one stop bit and no flow
//! control, unless it is to be otherwise.
//!
//! The modem's control lines are left alone, and without flow control every byte passes: a line of
//! three wires works. The terminal end of a pseudo-terminal works too.

use crate::unless_blocked;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{ControlModes, InputModes, OptionalActions, QueueSelector, Termios};
use rustix::termios::{ioctl_tiocexcl, ioctl_tiocnxcl, tcflush, tcgetattr, tcsendbreak, tcsetattr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{error, fmt, fs, io};

/// The bits of data in a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataBits {
    /// 5, as a teletype of Baudot's code.
    Five,
    /// 6.
    Six,
    /// 7, as most terminals of old.
    Seven,
    /// 8.
    #[default]
    Eight,
}

/// The bit behind the data that makes the number of ones odd or even, or is always the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parity {
    /// There is none.
    #[default]
    None,
    /// The number of ones is odd.
    Odd,
    /// The number of ones is even.
    Even,
    /// It is always 1.
    Mark,
    /// It is always 0.
    Space,
}

/// The bits behind each character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopBits {
    /// 1.
    #[default]
    One,
    /// 2.
    Two,
}

/// How a receiver that has no room says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowControl {
    /// It does not.
    #[default]
    None,
    /// By the characters XOFF and XON, which are then no data.
    Software,
    /// By the wires RTS and CTS.
    Hardware,
}

/// What both ends of a line must have alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSettings {
    /// The rate, with start and stop bits.
    pub bits_per_second: u32,
    /// The bits of data in a character.
    pub data_bits: DataBits,
    /// The parity.
    pub parity: Parity,
    /// The bits behind each character.
    pub stop_bits: StopBits,
    /// The flow control.
    pub flow_control: FlowControl,
}

impl LineSettings {
    /// Returns what most lines have, at that rate.
    #[must_use]
    pub fn at(bits_per_second: u32) -> Self {
        Self {
            bits_per_second,
            data_bits: DataBits::default(),
            parity: Parity::default(),
            stop_bits: StopBits::default(),
            flow_control: FlowControl::default(),
        }
    }

    /// Returns whether a receiver at this rate understands a sender at `given`.
    pub(crate) fn allows_rate(self, given: u32) -> bool {
        given.abs_diff(self.bits_per_second) <= self.bits_per_second / TOLERANCE
    }

    pub(crate) fn put_into(self, modes: &mut Termios) {
        modes.input_modes -= InputModes::IXON | InputModes::IXOFF | InputModes::IXANY;
        modes.input_modes -= InputModes::INPCK;
        modes.control_modes -= ControlModes::CSIZE | ControlModes::PARENB | ControlModes::PARODD;
        modes.control_modes -= ControlModes::CMSPAR | ControlModes::CSTOPB;
        modes.control_modes -= ControlModes::CRTSCTS | ControlModes::HUPCL;
        modes.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
        modes.control_modes |= match self.data_bits {
            DataBits::Five => ControlModes::CS5,
            DataBits::Six => ControlModes::CS6,
            DataBits::Seven => ControlModes::CS7,
            DataBits::Eight => ControlModes::CS8,
        };
        modes.control_modes |= match self.parity {
            Parity::None => ControlModes::empty(),
            Parity::Odd => ControlModes::PARENB | ControlModes::PARODD,
            Parity::Even => ControlModes::PARENB,
            Parity::Mark => ControlModes::PARENB | ControlModes::CMSPAR | ControlModes::PARODD,
            Parity::Space => ControlModes::PARENB | ControlModes::CMSPAR,
        };
        if self.stop_bits == StopBits::Two {
            modes.control_modes |= ControlModes::CSTOPB;
        }
        match self.flow_control {
            FlowControl::None => {}
            FlowControl::Software => modes.input_modes |= InputModes::IXON | InputModes::IXOFF,
            FlowControl::Hardware => modes.control_modes |= ControlModes::CRTSCTS,
        }
    }
}

/// An open serial line. Dropped, the device gets back the modes it had.
#[derive(Debug)]
pub struct Serial {
    descriptor: OwnedFd,
    found: Termios,
    bits_per_second: u32,
}

impl Serial {
    /// Opens `device` at `bits_per_second`, for this program alone, with what most lines have.
    ///
    /// What the line had received before is thrown away. The descriptor does not block.
    ///
    /// # Errors
    ///
    /// See [`SerialError`]: each says what to do.
    pub fn open(device: &Path, bits_per_second: u32) -> Result<Self, SerialError> {
        Self::open_with(device, LineSettings::at(bits_per_second))
    }

    /// Opens `device` as [`Self::open`] does, with these settings.
    ///
    /// # Errors
    ///
    /// See [`SerialError`]: each says what to do.
    pub fn open_with(device: &Path, settings: LineSettings) -> Result<Self, SerialError> {
        let bits_per_second = settings.bits_per_second;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(device, flags, Mode::empty())
            .map_err(|error| SerialError::of_open(device, error))?;
        let found = tcgetattr(&descriptor).map_err(|error| match error {
            Errno::NOTTY | Errno::INVAL => SerialError::NoTerminal(device.into()),
            // A port that the driver lists, but where there is no hardware.
            Errno::IO => SerialError::NoDevice(device.into()),
            error => SerialError::Other(device.into(), error.into()),
        })?;
        let other = |error: Errno| SerialError::Other(device.into(), error.into());
        let refused = |given| SerialError::RateRefused { device: device.into(), given };
        let mut raw = found.clone();
        raw.make_raw();
        settings.put_into(&mut raw);
        // A rate of nothing would hang up.
        if bits_per_second == 0 || raw.set_speed(bits_per_second).is_err() {
            return Err(refused(None));
        }
        ioctl_tiocexcl(&descriptor).map_err(other)?;
        let serial = Self { descriptor, found, bits_per_second };
        tcsetattr(&serial.descriptor, OptionalActions::Now, &raw).map_err(|error| match error {
            Errno::INVAL | Errno::RANGE => refused(None),
            error => other(error),
        })?;
        // A driver that cannot have the rate takes the nearest one without a word.
        let given = tcgetattr(&serial.descriptor).map_err(other)?.output_speed();
        if !settings.allows_rate(given) {
            return Err(refused(Some(given)));
        }
        tcflush(&serial.descriptor, QueueSelector::IFlush).map_err(other)?;
        Ok(serial)
    }

    /// Returns the rate that was asked for, in bits per second with start and stop bits.
    #[must_use]
    pub fn bits_per_second(&self) -> u32 {
        self.bits_per_second
    }

    /// Reads what has come: the number of bytes, 0 after a hang-up, or `None` if there is
    /// nothing now.
    ///
    /// # Errors
    ///
    /// EIO or ENXIO, if the device has been unplugged.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::read(&self.descriptor, &mut *bytes))
    }

    /// Sends `bytes`; returns how many were taken, or `None` if there is no room now.
    ///
    /// # Errors
    ///
    /// EIO or ENXIO, if the device has been unplugged.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::write(&self.descriptor, bytes))
    }
}

impl Serial {
    /// Puts a BREAK on the line: a zero that lasts for a quarter of a second or longer, in which
    /// this call waits.
    ///
    /// # Errors
    ///
    /// EIO or ENXIO, if the device has been unplugged.
    pub fn send_break(&self) -> io::Result<()> {
        Ok(tcsendbreak(&self.descriptor)?)
    }
}

impl AsFd for Serial {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for Serial {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

impl Drop for Serial {
    fn drop(&mut self) {
        // An error means that the device has gone.
        let _ = tcsetattr(&self.descriptor, OptionalActions::Now, &self.found);
        let _ = ioctl_tiocnxcl(&self.descriptor);
    }
}

/// One part in this many: a receiver samples the tenth bit in its middle half up to 2.5% off.
const TOLERANCE: u32 = 40;

/// Why there is no serial line.
#[derive(Debug)]
pub enum SerialError {
    /// There is no such device.
    NoDevice(PathBuf),
    /// The user may not open it.
    NotPermitted {
        /// The device.
        device: PathBuf,
        /// The group that may, where one may.
        group: Option<String>,
    },
    /// Another program has it.
    InUse(PathBuf),
    /// It is a file or a device of another kind.
    NoTerminal(PathBuf),
    /// The device cannot have the rate.
    RateRefused {
        /// The device.
        device: PathBuf,
        /// The rate that it would have instead, where it says so, in bits per second.
        given: Option<u32>,
    },
    /// Anything else.
    Other(PathBuf, io::Error),
}

impl SerialError {
    fn of_open(device: &Path, error: Errno) -> Self {
        let path = device.to_path_buf();
        match error {
            Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::NOTDIR => Self::NoDevice(path),
            Errno::ACCESS | Errno::PERM => {
                Self::NotPermitted { device: path, group: group_with_access(device) }
            }
            Errno::BUSY => Self::InUse(path),
            Errno::ISDIR => Self::NoTerminal(path),
            error => Self::Other(path, error.into()),
        }
    }
}

impl fmt::Display for SerialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice(device) => write!(
                f,
                "there is no serial device {}: 'ls /dev/tty*' lists those there are",
                device.display()
            ),
            Self::NotPermitted { device, group: Some(group) } => write!(
                f,
                "no permission to open {}: add yourself to the group that owns it with 'sudo \
                 usermod -aG {group} $USER', and log in again",
                device.display()
            ),
            Self::NotPermitted { device, group: None } => {
                write!(f, "no permission to open {}: run as its owner", device.display())
            }
            Self::InUse(device) => write!(
                f,
                "another program uses {0}: 'fuser {0}' tells which; end it first",
                device.display()
            ),
            Self::NoTerminal(device) => {
                write!(f, "{} is no serial device: name one", device.display())
            }
            Self::RateRefused { device, given: Some(given) } => write!(
                f,
                "{} cannot have that rate: the nearest it has is {given} bit/s",
                device.display()
            ),
            Self::RateRefused { device, given: None } => {
                write!(f, "{} cannot have that rate: try 19200 bit/s", device.display())
            }
            Self::Other(device, error) => write!(f, "cannot open {}: {error}", device.display()),
        }
    }
}

impl error::Error for SerialError {}

/// Returns the group whose members may read and write `device`.
fn group_with_access(device: &Path) -> Option<String> {
    const GROUP_READS_AND_WRITES: u32 = 0o060;
    let owner = fs::metadata(device).ok()?;
    if owner.mode() & GROUP_READS_AND_WRITES != GROUP_READS_AND_WRITES {
        return None;
    }
    name_of_group(&fs::read_to_string("/etc/group").ok()?, owner.gid())
}

/// Finds a group in the text of group(5): `name:password:number:members`.
fn name_of_group(groups: &str, number: u32) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
    })
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty::Pty;
    use crate::testing::readable;
    use crate::tty::WindowSize;
    use proptest::prelude::*;
    use rustix::termios::LocalModes;

    fn line() -> Pty {
        Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap()
    }

    proptest! {
        #[test]
        fn any_text_may_stand_where_the_groups_are_listed(text in ".*", number in 0..9_u32) {
            let _ = name_of_group(&text, number);
        }
    }

    #[test]
    fn all_256_bytes_pass_in_both_directions_unchanged() {
        let far_end = line();
        let serial = Serial::open(far_end.path(), 19_200).unwrap();
        let (all, mut received) = ((0..=255).collect::<Vec<u8>>(), [0; 512]);
        assert_eq!(serial.write(&all).unwrap(), Some(256));
        readable(&far_end);
        assert_eq!(far_end.read(&mut received).unwrap(), Some(256));
        assert_eq!(received[..256], all);
        received.fill(0);
        assert_eq!(far_end.write(&all).unwrap(), Some(256));
        readable(&serial);
        assert_eq!(serial.read(&mut received).unwrap(), Some(256));
        assert_eq!(received[..256], all);
    }

    #[test]
    fn a_line_where_nothing_has_come_says_none() {
        let far_end = line();
        let serial = Serial::open(far_end.path(), 9600).unwrap();
        assert_eq!(serial.read(&mut [0; 8]).unwrap(), None);
    }

    #[test]
    fn a_line_has_the_rate_and_eight_bits_without_parity_or_modem_control() {
        let far_end = line();
        let serial = Serial::open(far_end.path(), 19_200).unwrap();
        let modes = tcgetattr(&serial).unwrap();
        assert_eq!((modes.output_speed(), modes.input_speed()), (19_200, 19_200));
        let control = modes.control_modes;
        assert_eq!(control & ControlModes::CSIZE, ControlModes::CS8);
        assert!(control.contains(ControlModes::CLOCAL | ControlModes::CREAD));
        let absent = ControlModes::PARENB | ControlModes::CSTOPB | ControlModes::CRTSCTS;
        assert!(!control.intersects(absent));
    }

    #[test]
    fn a_line_has_the_parity_and_the_bits_that_were_asked_for() {
        let far_end = line();
        let settings = LineSettings {
            data_bits: DataBits::Seven,
            parity: Parity::Odd,
            stop_bits: StopBits::Two,
            flow_control: FlowControl::Software,
            ..LineSettings::at(1200)
        };
        let serial = Serial::open_with(far_end.path(), settings).unwrap();
        // A pseudo-terminal has eight bits without parity whatever it is told.
        let modes = tcgetattr(&serial).unwrap();
        assert!(modes.control_modes.contains(ControlModes::CSTOPB));
        assert!(modes.input_modes.contains(InputModes::IXON | InputModes::IXOFF));
        let mut wanted = modes.clone();
        settings.put_into(&mut wanted);
        assert_eq!(wanted.control_modes & ControlModes::CSIZE, ControlModes::CS7);
        assert!(wanted.control_modes.contains(ControlModes::PARENB | ControlModes::PARODD));
    }

    #[test]
    fn a_break_is_taken() {
        let far_end = line();
        Serial::open(far_end.path(), 9600).unwrap().send_break().unwrap();
    }

    #[test]
    fn a_rate_that_is_not_in_the_list_of_old_is_had_too() {
        let far_end = line();
        let serial = Serial::open(far_end.path(), 23_040).unwrap();
        assert_eq!(tcgetattr(&serial).unwrap().output_speed(), 23_040);
        assert_eq!(serial.bits_per_second(), 23_040);
    }

    #[test]
    fn a_device_gets_its_modes_back() {
        let far_end = line();
        drop(Serial::open(far_end.path(), 19_200).unwrap());
        let modes = tcgetattr(far_end.terminal()).unwrap();
        assert!(modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        assert_ne!(modes.output_speed(), 19_200);
    }

    #[test]
    fn a_rate_of_nothing_is_refused() {
        let far_end = line();
        let refused = Serial::open(far_end.path(), 0).unwrap_err();
        assert!(matches!(refused, SerialError::RateRefused { given: None, .. }));
    }

    #[test]
    fn a_device_that_is_not_there_is_told() {
        let refused = Serial::open(Path::new("/dev/ttyNONE"), 9600).unwrap_err();
        assert!(matches!(refused, SerialError::NoDevice(_)));
    }

    #[test]
    fn a_device_that_is_no_serial_line_is_told() {
        let refused = Serial::open(Path::new("/dev/null"), 9600).unwrap_err();
        assert!(matches!(refused, SerialError::NoTerminal(_)));
    }

    #[test]
    fn a_refusal_names_the_group_to_join() {
        let group = name_of_group("root:x:0:\ndialout:x:20:someone\n", 20);
        let refused = SerialError::NotPermitted { device: "/dev/ttyS0".into(), group };
        assert!(refused.to_string().contains("usermod -aG dialout $USER"));
    }
}
