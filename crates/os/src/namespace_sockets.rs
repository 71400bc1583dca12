//! Sockets that are opened in the namespaces of a guest at run time.
//!
//! A process cannot open a socket in another network namespace, and a gateway gives up the privilege
//! to enter one. A child process therefore stays in the namespaces of the guest. It opens what the
//! gateway asks for, and passes the descriptor over a socket pair (`SCM_RIGHTS` of unix(7)). It exits
//! when the gateway closes its end, and so when the gateway ends for any reason. It keeps no other
//! descriptor, and only the capability to bind ports below 1024.

use crate::privileges::{drop_in_child, restrict_system_calls};
use crate::process::{close_all_but, protect_from_guest};
use crate::socket_table::SocketTable;
use crate::target_namespace::TargetNamespaces;
use crate::tcp_socket::{self, ListenOptions};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
    socketpair,
};
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

/// A child process in the namespaces of a guest, which opens sockets there.
#[derive(Debug)]
pub struct NamespaceSockets {
    child: OwnedFd,
}

impl NamespaceSockets {
    /// Starts the child. Call this function before the first thread is started.
    ///
    /// # Errors
    ///
    /// Returns the errors of `socketpair(2)` and `fork(2)`.
    pub fn start(target: &TargetNamespaces) -> io::Result<Self> {
        let (child, parent) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // SAFETY: the process has a single thread, so that the child may do everything that the
        // parent could have done.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(child);
                let code = i32::from(serve(target, &parent).is_err());
                // SAFETY: `_exit` ends the child without the destructors, which the parent runs.
                unsafe { libc::_exit(code) }
            }
            _ => Ok(Self { child }),
        }
    }

    /// Opens a TCP socket that is neither bound nor connected.
    ///
    /// # Errors
    ///
    /// Returns the error of `socket(2)`, or `UnexpectedEof` if the child has ended.
    pub fn tcp_socket(&self, is_ipv4: bool) -> io::Result<TcpStream> {
        self.ask(if is_ipv4 { Request::Tcp4 } else { Request::Tcp6 }).map(Into::into)
    }

    /// Opens a listener at `local`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tcp_socket::listen`], or `UnexpectedEof` if the child has ended.
    pub fn listen(&self, local: SocketAddr) -> io::Result<TcpListener> {
        self.ask(Request::Listen(local)).map(Into::into)
    }

    /// Opens a table of sockets.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`SocketTable::open`], or `UnexpectedEof` if the child has ended.
    pub fn table(&self, table: SocketTable) -> io::Result<File> {
        self.ask(Request::Table(table)).map(Into::into)
    }

    fn ask(&self, request: Request) -> io::Result<OwnedFd> {
        let bytes = request.encode();
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::send(&self.child, &bytes, SendFlags::NOSIGNAL)
        });
        sent.map_err(|_| io::ErrorKind::UnexpectedEof)?;
        receive(&self.child)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Tcp4,
    Tcp6,
    Listen(SocketAddr),
    Table(SocketTable),
}

/// Length of a request: its kind, a port, and an address that may be an IPv4-mapped one.
const REQUEST_LEN: usize = 1 + 2 + 16;

impl Request {
    fn encode(self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        let kind = match self {
            Self::Tcp4 => 0,
            Self::Tcp6 => 1,
            Self::Listen(_) => 2,
            Self::Table(SocketTable::Tcp4) => 3,
            Self::Table(SocketTable::Tcp6) => 4,
            Self::Table(SocketTable::Udp4) => 5,
            Self::Table(SocketTable::Udp6) => 6,
        };
        if let Self::Listen(local) = self {
            let address = match local.ip() {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            let parts = local.port().to_be_bytes().into_iter().chain(address.octets());
            bytes.iter_mut().skip(1).zip(parts).for_each(|(byte, part)| *byte = part);
        }
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            0 => Self::Tcp4,
            1 => Self::Tcp6,
            2 => {
                let (port, address) = rest.split_first_chunk::<2>()?;
                let address = Ipv6Addr::from(*address.first_chunk::<16>()?);
                let address = IpAddr::from(address).to_canonical();
                Self::Listen(SocketAddr::new(address, u16::from_be_bytes(*port)))
            }
            3 => Self::Table(SocketTable::Tcp4),
            4 => Self::Table(SocketTable::Tcp6),
            5 => Self::Table(SocketTable::Udp4),
            6 => Self::Table(SocketTable::Udp6),
            _ => return None,
        })
    }

    fn execute(self) -> io::Result<OwnedFd> {
        let open = |family| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            Ok(socket_with(family, SocketType::STREAM, flags, None)?)
        };
        match self {
            Self::Tcp4 => open(AddressFamily::INET),
            Self::Tcp6 => open(AddressFamily::INET6),
            Self::Listen(local) => {
                tcp_socket::listen(local, &ListenOptions::default()).map(Into::into)
            }
            Self::Table(table) => table.open().map(Into::into),
        }
    }
}

/// Serves requests in the child until the gateway closes its end.
fn serve(target: &TargetNamespaces, parent: &OwnedFd) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let kept = [Some(parent.as_fd()), Some(target.network()), target.user()];
    let kept: Vec<_> = kept.into_iter().flatten().collect();
    // SAFETY: the child uses no other descriptor any more, and exits without destructors.
    unsafe { protect_from_guest(&kept) }?;
    let user = Some(LinkNameSpaceType::User);
    if let Some(namespace) = target.user() {
        // The network namespace decides, as for an interface.
        let _ = move_into_link_name_space(namespace, user);
    }
    move_into_link_name_space(target.network(), Some(LinkNameSpaceType::Network))?;
    // SAFETY: as before.
    unsafe { close_all_but(&[parent.as_fd()]) };
    let failed = |_| io::Error::from(io::ErrorKind::PermissionDenied);
    drop_in_child(CapabilitySet::NET_BIND_SERVICE).map_err(failed)?;
    restrict_system_calls().map_err(failed)?;
    loop {
        let mut bytes = [0; REQUEST_LEN];
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(parent, &mut bytes, RecvFlags::empty()).map(|(_, len)| len)
        })?;
        if received == 0 {
            return Ok(());
        }
        let request = Request::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        reply(parent, &request.execute())?;
    }
}

/// Sends an errno, or 0 and a descriptor.
fn reply(socket: &OwnedFd, result: &io::Result<OwnedFd>) -> io::Result<()> {
    let number = result.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<_> = result.iter().map(AsFd::as_fd).collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(socket, &[IoSlice::new(&number.to_ne_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut number = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut number)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes < number.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match i32::from_ne_bytes(number) {
        0 => descriptor.ok_or_else(|| Errno::PROTO.into()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// Returns the loopback address of a version of IP with `port`.
#[must_use]
pub fn loopback(is_ipv4: bool, port: u16) -> SocketAddr {
    let address: IpAddr =
        if is_ipv4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(address, port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_command::GuestCommand;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn the_guest_has_no_access_to_the_child() {
        // The child has the name of the thread that forks, and ends with it.
        let thread = std::thread::Builder::new().name("traced-child".to_owned());
        thread.spawn(assert_that_the_guest_has_no_access).unwrap().join().unwrap();
    }

    fn assert_that_the_guest_has_no_access() {
        let mut guest = Command::new("unshare");
        guest.args(["--user", "--map-root-user", "--net", "sh", "-c", "echo; exec cat"]);
        let mut guest = guest.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        guest.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let target = TargetNamespaces::of_process(guest.id()).unwrap();
        let sockets = NamespaceSockets::start(&target).unwrap();
        // The child has entered the namespaces.
        sockets.tcp_socket(true).unwrap();
        let own = std::process::id().to_string();
        let children = Command::new("ps").args(["--ppid", &own, "-o", "pid=,comm="]).output();
        let children = String::from_utf8(children.unwrap().stdout).unwrap();
        let child = children.lines().find(|line| line.ends_with("traced-child")).unwrap();
        let child = child.split_whitespace().next().unwrap();
        let mut reader = Command::new("nsenter");
        reader.args(["-t", &guest.id().to_string(), "-U", "--preserve-credentials"]);
        reader.args(["head", "-c1"]).args(["mem", "environ"].map(|f| format!("/proc/{child}/{f}")));
        let errors = String::from_utf8(reader.output().unwrap().stderr).unwrap();
        assert_eq!(errors.matches("Permission denied").count(), 2, "{errors}");
        sockets.tcp_socket(true).unwrap();
        guest.kill().unwrap();
        guest.wait().unwrap();
    }

    #[test]
    fn sockets_are_opened_in_the_namespace_of_the_guest_until_the_end() {
        let words = ["true"].map(Into::into);
        let guest = GuestCommand::prepare(&words, true).unwrap();
        let target = TargetNamespaces::of_process(guest.id()).unwrap();
        let sockets = NamespaceSockets::start(&target).unwrap();
        let local = loopback(true, 80);
        let listener = sockets.listen(local).unwrap();
        assert_eq!(listener.local_addr().unwrap(), local);
        let again = sockets.listen(local).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
        let mut table = String::new();
        sockets.table(SocketTable::Tcp4).unwrap().read_to_string(&mut table).unwrap();
        assert_eq!(
            SocketTable::Tcp4.listening(&table).map(|socket| socket.port).collect::<Vec<_>>(),
            [80]
        );
        assert!(sockets.tcp_socket(false).is_ok());
        // The child ends with the other end of its socket.
        let NamespaceSockets { child } = sockets;
        rustix::net::shutdown(&child, rustix::net::Shutdown::Write).unwrap();
        let error = receive(&child).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn requests_are_decoded_as_they_were_encoded() {
        let requests = [
            Request::Tcp4,
            Request::Tcp6,
            Request::Listen("127.0.0.1:8080".parse().unwrap()),
            Request::Listen("[::1]:65535".parse().unwrap()),
            Request::Table(SocketTable::Udp6),
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        assert_eq!(Request::decode(&[9; REQUEST_LEN]), None);
        assert_eq!(Request::decode(&[2]), None);
    }
}
