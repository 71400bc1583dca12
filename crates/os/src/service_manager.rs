//! The service manager that started this process: state notifications (`sd_notify(3)`), inherited
//! sockets (`sd_listen_fds(3)`), and the journal as standard error (`systemd.exec(5)`).
//!
//! The protocols are environment variables, a datagram and descriptors from 3, so that no library is
//! needed. File descriptor stores, watchdogs and names of descriptors are not implemented.

use rustix::io::FdFlags;
use rustix::net::sockopt;
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};

/// First inherited descriptor.
const FIRST_DESCRIPTOR: RawFd = 3;

/// State of this service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The service accepts requests: after the start, and after a reload.
    Ready,
    /// The service rereads its configuration; [`ServiceState::Ready`] follows.
    Reloading,
    /// The service shuts down.
    Stopping,
}

impl ServiceState {
    fn message(self) -> String {
        match self {
            Self::Ready => "READY=1\n".to_owned(),
            Self::Reloading => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
                let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
                format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\n")
            }
            Self::Stopping => "STOPPING=1\n".to_owned(),
        }
    }
}

/// Sends the state of this service to the service manager that `NOTIFY_SOCKET` names, if any.
///
/// # Errors
///
/// Returns an error if the socket cannot be reached.
pub fn notify(state: ServiceState) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(name) if !name.is_empty() => notify_at(&name, state),
        _ => Ok(()),
    }
}

fn notify_at(name: &OsStr, state: ServiceState) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => UnixAddress::from_abstract_name(name)?,
        None => UnixAddress::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.message().as_bytes(), &address)?;
    Ok(())
}

/// Returns whether standard error is the journal: if `JOURNAL_STREAM` has its device and inode.
#[must_use]
pub fn is_stderr_journal() -> bool {
    let Some(name) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let Ok(status) = rustix::fs::fstat(io::stderr()) else { return false };
    name.to_str() == Some(format!("{}:{}", status.st_dev, status.st_ino).as_str())
}

/// Socket that the service manager has bound.
#[derive(Debug)]
pub struct InheritedSocket {
    /// Local address.
    pub address: SocketAddr,
    /// Whether this is a listening TCP socket; else it is a UDP socket.
    pub is_listener: bool,
    /// The socket, which no child process inherits.
    pub socket: OwnedFd,
}

/// Takes the sockets of `LISTEN_FDS`, if `LISTEN_PID` is this process. Must be called once, before
/// this process opens a file.
///
/// # Errors
///
/// Returns an error if a descriptor is neither a listening TCP socket nor a UDP socket.
pub fn inherited_sockets() -> io::Result<Vec<InheritedSocket>> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").and_then(|count| RawFd::try_from(count).ok()).unwrap_or(0);
    (0..count).map(|at| adopt(FIRST_DESCRIPTOR.saturating_add(at))).collect()
}

/// Takes the ownership of a socket that the process was started with.
fn adopt(number: RawFd) -> io::Result<InheritedSocket> {
    // SAFETY: the descriptor is used for one system call, which fails if it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: the descriptor is open, and its number was passed to this process alone: nothing else
    // owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    describe(socket)
}

fn describe(socket: OwnedFd) -> io::Result<InheritedSocket> {
    let unsupported = || {
        let message = "an inherited socket is neither a listening TCP socket nor a UDP socket";
        io::Error::new(io::ErrorKind::Unsupported, message)
    };
    let address = SocketAddr::try_from(rustix::net::getsockname(socket.as_fd())?);
    let address = address.map_err(|_| unsupported())?;
    let is_listener = match sockopt::socket_type(&socket)? {
        rustix::net::SocketType::STREAM if sockopt::socket_acceptconn(&socket)? => true,
        rustix::net::SocketType::DGRAM => false,
        _ => return Err(unsupported()),
    };
    Ok(InheritedSocket { address, is_listener, socket })
}

/// Returns the unit of systemd, such as `plumb-serve.service`, that runs process `pid`; `None` if no
/// service runs it.
#[must_use]
pub fn unit_of(pid: u32) -> Option<String> {
    unit_in(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// Returns the service whose control group is in `groups`, the content of `/proc/PID/cgroup`
/// (cgroups(7)).
fn unit_in(groups: &str) -> Option<String> {
    let units = groups.lines().filter_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        // A process in a session or in a container is in another group below that of a service.
        path.rsplit('/').next().filter(|name| name.ends_with(".service"))
    });
    units.map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn the_unit_is_the_service_that_directly_contains_the_process() {
        let unit = |groups| unit_in(groups);
        let serve = Some("plumb-serve.service".to_owned());
        assert_eq!(unit("0::/system.slice/plumb-serve.service\n"), serve);
        assert_eq!(unit("2:cpu:/\n1:name=systemd:/system.slice/plumb-serve.service\n"), serve);
        let console = "0::/system.slice/system-plumb.slice/plumb-console@ttyUSB0.service\n";
        assert_eq!(unit(console).as_deref(), Some("plumb-console@ttyUSB0.service"));
        for other in ["0::/user.slice/user@1000.service/app.slice/a.scope\n", "0::/\n", "", "0"] {
            assert_eq!(unit(other), None, "{other}");
        }
        assert_eq!(unit_of(0), None);
    }

    #[test]
    fn a_state_is_sent_to_a_path_and_to_an_abstract_name() {
        let path = std::env::temp_dir().join(format!("plumb-notify-{}", std::process::id()));
        let by_path = UnixDatagram::bind(&path).unwrap();
        notify_at(path.as_os_str(), ServiceState::Ready).unwrap();
        let mut buffer = [0; 64];
        let len = by_path.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"READY=1\n");
        std::fs::remove_file(path).unwrap();

        let name = format!("plumb-notify-{}", std::process::id());
        let address = UnixAddress::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        notify_at(OsStr::new(&format!("@{name}")), ServiceState::Reloading).unwrap();
        let len = by_name.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..len]).unwrap();
        let microseconds = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(microseconds.trim_end().parse::<u64>().unwrap() > 0);
    }

    #[test]
    fn a_listener_and_a_udp_socket_are_told_apart_and_a_connection_is_rejected() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connection = TcpStream::connect(address).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp_address = udp.local_addr().unwrap();
        let inherited = describe(listener.into()).unwrap();
        assert_eq!((inherited.address, inherited.is_listener), (address, true));
        let inherited = describe(udp.into()).unwrap();
        assert_eq!((inherited.address, inherited.is_listener), (udp_address, false));
        let error = describe(connection.into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
