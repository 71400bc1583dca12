//! Serial lines at any rate that the hardware supports. The default is eight data bits, no parity,
//! one stop bit and no flow control.
//!
//! The modem control lines are ignored, and without flow control every byte passes, so a three-wire
//! line works. The terminal end of a pseudo-terminal works too.

use crate::readiness::OwnsDescriptor;
use crate::serial_lock::{LineLocked, SerialLock};
use crate::unless_blocked;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{ControlModes, InputModes, OptionalActions, QueueSelector, Termios};
use rustix::termios::{ioctl_tiocexcl, ioctl_tiocnxcl, tcflush, tcgetattr, tcsendbreak, tcsetattr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{error, fmt, fs, io};

/// Number of data bits per character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataBits {
    /// 5 data bits, for Baudot teletypes.
    Five,
    /// 6 data bits.
    Six,
    /// 7 data bits, for most old terminals.
    Seven,
    /// 8 data bits.
    #[default]
    Eight,
}

/// Parity bit after the data bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parity {
    /// No parity bit.
    #[default]
    None,
    /// The total number of ones is odd.
    Odd,
    /// The total number of ones is even.
    Even,
    /// The parity bit is always 1.
    Mark,
    /// The parity bit is always 0.
    Space,
}

/// Number of stop bits after each character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopBits {
    /// 1 stop bit.
    #[default]
    One,
    /// 2 stop bits.
    Two,
}

/// Method by which a receiver stops the sender when its buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowControl {
    /// No flow control.
    #[default]
    None,
    /// The characters XOFF and XON, which then cannot be sent as data.
    Software,
    /// The modem control lines RTS and CTS.
    Hardware,
}

/// Settings that must be equal at both ends of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSettings {
    /// Rate in bits per second, including start and stop bits.
    pub bits_per_second: u32,
    /// Number of data bits per character.
    pub data_bits: DataBits,
    /// Parity.
    pub parity: Parity,
    /// Number of stop bits.
    pub stop_bits: StopBits,
    /// Flow control.
    pub flow_control: FlowControl,
}

impl LineSettings {
    /// Returns the usual settings, 8N1 without flow control, at the given rate.
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

    /// Returns whether a device at `actual_rate` is close enough to the rate of these settings for
    /// the two ends to understand each other.
    pub(crate) fn allows_rate(self, actual_rate: u32) -> bool {
        actual_rate.abs_diff(self.bits_per_second) <= self.bits_per_second / RATE_TOLERANCE_DIVISOR
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

/// An open serial line, locked against other programs. Dropping it restores the device's previous modes.
#[derive(Debug)]
pub struct Serial {
    descriptor: OwnedFd,
    original_modes: Termios,
    bits_per_second: u32,
    _lock: SerialLock,
}

// SAFETY: a serial line is an `OwnedFd` that is never replaced.
unsafe impl OwnsDescriptor for Serial {}

impl Serial {
    /// Opens `device` at `bits_per_second` for exclusive use, with the usual settings
    /// ([`LineSettings::at`]).
    ///
    /// Bytes received before the call are discarded. The descriptor is non-blocking.
    ///
    /// # Errors
    ///
    /// Returns [`SerialError`], whose message names the remedy.
    pub fn open(device: &Path, bits_per_second: u32) -> Result<Self, SerialError> {
        Self::open_with(device, LineSettings::at(bits_per_second))
    }

    /// Opens `device` like [`Self::open`], with the given settings.
    ///
    /// # Errors
    ///
    /// Returns [`SerialError`], whose message names the remedy.
    pub fn open_with(device: &Path, settings: LineSettings) -> Result<Self, SerialError> {
        let bits_per_second = settings.bits_per_second;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(device, flags, Mode::empty())
            .map_err(|error| SerialError::of_open(device, error))?;
        let original_modes = tcgetattr(&descriptor).map_err(|error| match error {
            Errno::NOTTY | Errno::INVAL => SerialError::NoTerminal(device.into()),
            // The device file exists, but the port has no hardware.
            Errno::IO => SerialError::NoDevice(device.into()),
            error => SerialError::Other(device.into(), error.into()),
        })?;
        let other_error = |error: Errno| SerialError::Other(device.into(), error.into());
        let rate_refused =
            |actual_rate| SerialError::RateRefused { device: device.into(), actual_rate };
        let mut raw = original_modes.clone();
        raw.make_raw();
        settings.put_into(&mut raw);
        // A rate of 0 would hang up the line.
        if bits_per_second == 0 || raw.set_speed(bits_per_second).is_err() {
            return Err(rate_refused(None));
        }
        let lock = SerialLock::acquire(device, &descriptor)
            .map_err(|LineLocked| SerialError::InUse(device.into()))?;
        ioctl_tiocexcl(&descriptor).map_err(other_error)?;
        let serial = Self { descriptor, original_modes, bits_per_second, _lock: lock };
        tcsetattr(&serial.descriptor, OptionalActions::Now, &raw).map_err(|error| match error {
            Errno::INVAL | Errno::RANGE => rate_refused(None),
            error => other_error(error),
        })?;
        // A driver that does not support the rate silently sets the nearest rate.
        let actual_rate = tcgetattr(&serial.descriptor).map_err(other_error)?.output_speed();
        if !settings.allows_rate(actual_rate) {
            return Err(rate_refused(Some(actual_rate)));
        }
        tcflush(&serial.descriptor, QueueSelector::IFlush).map_err(other_error)?;
        Ok(serial)
    }

    /// Returns the requested rate in bits per second, including start and stop bits.
    #[must_use]
    pub fn bits_per_second(&self) -> u32 {
        self.bits_per_second
    }

    /// Reads received bytes. Returns their number, 0 after a hang-up, or `None` if no bytes are
    /// waiting.
    ///
    /// # Errors
    ///
    /// Returns EIO or ENXIO if the device was unplugged.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::read(&self.descriptor, &mut *bytes))
    }

    /// Writes `bytes`. Returns the number of bytes accepted, or `None` if the buffer is full.
    ///
    /// # Errors
    ///
    /// Returns EIO or ENXIO if the device was unplugged.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        unless_blocked(|| rustix::io::write(&self.descriptor, bytes))
    }
}

impl Serial {
    /// Sends a BREAK: a zero condition for at least a quarter of a second, during which this call
    /// blocks.
    ///
    /// # Errors
    ///
    /// Returns EIO or ENXIO if the device was unplugged.
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
        // An error means that the device has been removed.
        let _ = tcsetattr(&self.descriptor, OptionalActions::Now, &self.original_modes);
        let _ = ioctl_tiocnxcl(&self.descriptor);
    }
}

/// Reciprocal of the rate tolerance. If the rates differ by at most 2.5 %, a receiver samples the
/// tenth bit in the middle half of the bit.
const RATE_TOLERANCE_DIVISOR: u32 = 40;

/// Error of opening a serial line.
#[derive(Debug)]
pub enum SerialError {
    /// The device does not exist.
    NoDevice(PathBuf),
    /// The user may not open the device.
    NotPermitted {
        /// Path of the device.
        device: PathBuf,
        /// Group with access to the device, if the device has such a group.
        group: Option<String>,
    },
    /// Another program has the device open.
    InUse(PathBuf),
    /// The pseudo-terminal is open for exclusive use, or was when a program was killed. The kernel
    /// keeps this mode until the program at the other end closes it (tty_ioctl(4), TIOCEXCL).
    Exclusive(PathBuf),
    /// The path names a file or a device of another type.
    NoTerminal(PathBuf),
    /// The device does not support the rate.
    RateRefused {
        /// Path of the device.
        device: PathBuf,
        /// Rate that the device would use instead, in bits per second, if known.
        actual_rate: Option<u32>,
    },
    /// Any other error.
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
            Errno::BUSY if is_pseudo_terminal(device) => Self::Exclusive(path),
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
                "there is no serial device {}: 'ls /dev/tty*' lists the devices",
                device.display()
            ),
            Self::NotPermitted { device, group: Some(group) } => write!(
                f,
                "no permission to open {}: add your user to the group that owns the device with \
                 'sudo usermod -aG {group} $USER', and log in again",
                device.display()
            ),
            Self::NotPermitted { device, group: None } => {
                write!(f, "no permission to open {}: run as its owner", device.display())
            }
            Self::InUse(device) => write!(
                f,
                "another program uses {0}: 'fuser {0}' lists it; end that program first",
                device.display()
            ),
            Self::Exclusive(device) => write!(
                f,
                "another program uses {0}, or was killed while it did: end the program that \
                 'fuser {0}' lists; if it lists none, restart the program at the other end",
                device.display()
            ),
            Self::NoTerminal(device) => {
                write!(
                    f,
                    "{} is not a serial device: specify a serial device such as /dev/ttyUSB0",
                    device.display()
                )
            }
            Self::RateRefused { device, actual_rate: Some(actual_rate) } => write!(
                f,
                "{} does not support this rate: the nearest supported rate is {actual_rate} bit/s",
                device.display()
            ),
            Self::RateRefused { device, actual_rate: None } => {
                write!(f, "{} does not support this rate: try 19200 bit/s", device.display())
            }
            Self::Other(device, error) => write!(f, "cannot open {}: {error}", device.display()),
        }
    }
}

impl error::Error for SerialError {}

fn is_pseudo_terminal(device: &Path) -> bool {
    fs::canonicalize(device).is_ok_and(|device| device.starts_with("/dev/pts"))
}

/// Returns the group whose members may read and write `device`.
fn group_with_access(device: &Path) -> Option<String> {
    const GROUP_READS_AND_WRITES: u32 = 0o060;
    let owner = fs::metadata(device).ok()?;
    if owner.mode() & GROUP_READS_AND_WRITES != GROUP_READS_AND_WRITES {
        return None;
    }
    name_of_group(&fs::read_to_string("/etc/group").ok()?, owner.gid())
}

/// Finds the group with ID `number` in the text of group(5): `name:password:number:members`.
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
    use crate::testing::wait_until_readable;
    use crate::tty::WindowSize;
    use proptest::prelude::*;
    use rustix::termios::LocalModes;

    fn line() -> Pty {
        Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap()
    }

    proptest! {
        #[test]
        fn the_first_group_with_the_number_is_found(
            groups in proptest::collection::vec(("[a-z]{1,8}", 0..9_u32, "[a-z,]{0,9}"), 0..9),
            number in 0..9_u32,
        ) {
            let lines = groups.iter().map(|(name, id, users)| format!("{name}:x:{id}:{users}\n"));
            let text: String = lines.collect();
            let group = groups.into_iter().find(|(_, id, _)| *id == number);
            prop_assert_eq!(name_of_group(&text, number), group.map(|(name, ..)| name));
        }
    }

    #[test]
    fn all_256_bytes_pass_in_both_directions_unchanged() {
        let pty = line();
        let serial = Serial::open(pty.path(), 19_200).unwrap();
        let all = (0..=255).collect::<Vec<u8>>();
        let mut received = [0; 512];
        assert_eq!(serial.write(&all).unwrap(), Some(256));
        wait_until_readable(&pty);
        assert_eq!(pty.read(&mut received).unwrap(), Some(256));
        assert_eq!(received[..256], all);
        received.fill(0);
        assert_eq!(pty.write(&all).unwrap(), Some(256));
        wait_until_readable(&serial);
        assert_eq!(serial.read(&mut received).unwrap(), Some(256));
        assert_eq!(received[..256], all);
    }

    #[test]
    fn reading_a_line_without_data_returns_none() {
        let pty = line();
        let serial = Serial::open(pty.path(), 9600).unwrap();
        assert_eq!(serial.read(&mut [0; 8]).unwrap(), None);
    }

    #[test]
    fn a_line_has_the_rate_and_eight_bits_without_parity_or_modem_control() {
        let pty = line();
        let serial = Serial::open(pty.path(), 19_200).unwrap();
        let modes = tcgetattr(&serial).unwrap();
        assert_eq!((modes.output_speed(), modes.input_speed()), (19_200, 19_200));
        let control = modes.control_modes;
        assert_eq!(control & ControlModes::CSIZE, ControlModes::CS8);
        assert!(control.contains(ControlModes::CLOCAL | ControlModes::CREAD));
        let absent = ControlModes::PARENB | ControlModes::CSTOPB | ControlModes::CRTSCTS;
        assert!(!control.intersects(absent));
    }

    #[test]
    fn a_line_has_the_requested_parity_and_data_bits() {
        let pty = line();
        let settings = LineSettings {
            data_bits: DataBits::Seven,
            parity: Parity::Odd,
            stop_bits: StopBits::Two,
            flow_control: FlowControl::Software,
            ..LineSettings::at(1200)
        };
        let serial = Serial::open_with(pty.path(), settings).unwrap();
        // A pseudo-terminal always has eight data bits without parity.
        let modes = tcgetattr(&serial).unwrap();
        assert!(modes.control_modes.contains(ControlModes::CSTOPB));
        assert!(modes.input_modes.contains(InputModes::IXON | InputModes::IXOFF));
        let mut expected_modes = modes.clone();
        settings.put_into(&mut expected_modes);
        assert_eq!(expected_modes.control_modes & ControlModes::CSIZE, ControlModes::CS7);
        assert!(expected_modes.control_modes.contains(ControlModes::PARENB | ControlModes::PARODD));
    }

    #[test]
    fn a_pseudo_terminal_that_stays_exclusive_has_a_remedy() {
        let pty = line();
        let text = |device| SerialError::of_open(device, Errno::BUSY).to_string();
        assert!(text(pty.path()).ends_with("restart the program at the other end"));
        assert!(text(Path::new("/dev/ttyS0")).ends_with("end that program first"));
    }

    #[test]
    fn a_break_can_be_sent() {
        let pty = line();
        Serial::open(pty.path(), 9600).unwrap().send_break().unwrap();
    }

    #[test]
    fn a_rate_outside_the_posix_list_is_supported() {
        let pty = line();
        let serial = Serial::open(pty.path(), 23_040).unwrap();
        assert_eq!(tcgetattr(&serial).unwrap().output_speed(), 23_040);
        assert_eq!(serial.bits_per_second(), 23_040);
    }

    #[test]
    fn dropping_a_serial_line_restores_the_modes_of_the_device() {
        let pty = line();
        drop(Serial::open(pty.path(), 19_200).unwrap());
        let modes = tcgetattr(pty.terminal()).unwrap();
        assert!(modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        assert_ne!(modes.output_speed(), 19_200);
    }

    #[test]
    fn a_line_cannot_be_opened_twice_even_by_root() {
        let pty = line();
        let serial = Serial::open(pty.path(), 19_200).unwrap();
        let error = Serial::open(pty.path(), 19_200).unwrap_err();
        assert!(matches!(error, SerialError::InUse(_)) && error.to_string().contains("fuser"));
        drop(serial);
        Serial::open(pty.path(), 19_200).unwrap();
    }

    #[test]
    fn a_rate_of_zero_is_rejected() {
        let pty = line();
        let error = Serial::open(pty.path(), 0).unwrap_err();
        assert!(matches!(error, SerialError::RateRefused { actual_rate: None, .. }));
    }

    #[test]
    fn a_missing_device_is_reported() {
        let error = Serial::open(Path::new("/dev/ttyNONE"), 9600).unwrap_err();
        assert!(matches!(error, SerialError::NoDevice(_)));
    }

    #[test]
    fn a_device_other_than_a_serial_line_is_reported() {
        let error = Serial::open(Path::new("/dev/null"), 9600).unwrap_err();
        assert!(matches!(error, SerialError::NoTerminal(_)));
    }

    #[test]
    fn a_permission_error_names_the_group_to_join() {
        let group = name_of_group("root:x:0:\ndialout:x:20:someone\n", 20);
        let error = SerialError::NotPermitted { device: "/dev/ttyS0".into(), group };
        assert!(error.to_string().contains("usermod -aG dialout $USER"));
    }
}
