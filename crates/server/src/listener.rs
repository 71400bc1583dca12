//! TCP listeners of all servers, and the loop that accepts their connections.
//!
//! A listener is a kernel socket or a port of the user-space host. For each connection the loop
//! asks the service of the listener whether the connection is admitted, and then serves the
//! connection in a task of its own. The loop logs refusals and failed accepts.

use super::admission::AdmissionRefusal;
use super::inherited_sockets;
use super::log::ServeEvent;
use super::session_id::SessionId;
use anyhow::{Context, Result};
use carrier::TcpConnection;
use os::host::Host;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::AbortHandle;

/// Length of the kernel's queue of connections that are not accepted yet (the backlog of
/// `listen(2)`).
const BACKLOG: u32 = 1024;
/// Delay after an accept that failed for a reason that may persist, such as a lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Minimum time between two log lines about failed accepts of one listener. Without descriptors,
/// each attempt fails until a session ends.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Errors of `accept(2)` that concern one connection only: it was closed before it was accepted, or
/// the network has already reported an error for it.
const CONNECTION_ERRORS: [Errno; 9] = [
    Errno::CONNABORTED,
    Errno::NETDOWN,
    Errno::PROTO,
    Errno::NOPROTOOPT,
    Errno::HOSTDOWN,
    Errno::NONET,
    Errno::HOSTUNREACH,
    Errno::OPNOTSUPP,
    Errno::NETUNREACH,
];

/// Service behind a listener.
pub(super) trait ConnectionService: 'static {
    /// Writes an event of the listener to the log.
    fn report(&self, event: &ServeEvent<'_>);

    /// Returns the maximum number of open connections, if a further connection closes the oldest
    /// one. The limits of admission control do not close any connection.
    fn connections_max(&self) -> Option<usize> {
        None
    }

    /// Returns whether the server shuts down. New connections are then closed at once.
    fn is_closing(&self) -> bool {
        false
    }

    /// Admits a connection. Without admission control, every connection is admitted.
    ///
    /// # Errors
    ///
    /// Returns the reason if the connection is refused.
    fn admit(&self, _peer: SocketAddr) -> Result<(), AdmissionRefusal> {
        Ok(())
    }

    /// Sends the reason to a refused client. Must not wait: a refused client gets no more of the
    /// server's time than one attempt.
    fn notify_refused(&self, _connection: &TcpConnection, _refusal: AdmissionRefusal) {}

    /// Serves an admitted connection to its end.
    async fn serve(self: Rc<Self>, connection: TcpConnection, peer: SocketAddr);

    /// Releases the slot of an admitted connection, which has ended. Not called for a connection
    /// that was closed because of [`Self::connections_max`].
    fn release(&self, _peer: SocketAddr) {}
}

/// Listening TCP socket of the kernel or of the user-space host.
#[derive(Debug)]
pub(super) enum ServerListener {
    /// Kernel TCP.
    Kernel(TcpListener),
    /// User-space TCP.
    Userspace(os::host::Listener),
}

impl ServerListener {
    /// Opens a listener at `address`, or at its port on `host`. `closing` are listeners of this process
    /// that are about to be closed, with their addresses. If one of them has the same address, its
    /// socket is taken and it is removed from the list: the process may be unable to bind it again,
    /// such as a privileged port. Others may use the port at other addresses, such as a loopback
    /// address beside a wildcard address.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if the address cannot be used.
    pub(super) fn open(
        host: Option<&Host>,
        address: SocketAddr,
        closing: &RefCell<Vec<(SocketAddr, Rc<Self>)>>,
    ) -> Result<Self> {
        let Some(host) = host else {
            return Self::open_beside(address, &mut closing.borrow_mut());
        };
        let port = address.port();
        let listener = host.listen(port);
        let failure = || format!("cannot listen on port {port} of plumb's own TCP/IP stack");
        listener.map(Self::Userspace).with_context(failure)
    }

    fn open_beside(address: SocketAddr, closing: &mut Vec<(SocketAddr, Rc<Self>)>) -> Result<Self> {
        let moved = closing.iter().position(|(other, _)| *other == address && other.port() != 0);
        if let Some(at) = moved
            && let (_, listener) = closing.swap_remove(at)
            && let Self::Kernel(listener) = &*listener
        {
            return duplicate(listener).map_err(|error| listen_error(address, error));
        }
        let at_port = closing.iter().filter(|(other, _)| other.port() == address.port());
        let listeners = at_port.filter_map(|(_, listener)| match &**listener {
            Self::Kernel(listener) => Some(listener),
            Self::Userspace(_) => None,
        });
        let listeners: Vec<_> = listeners.collect();
        with_shared_port(&listeners, || Self::open_kernel(address, !listeners.is_empty()))
    }

    fn open_kernel(address: SocketAddr, shares_port: bool) -> Result<Self> {
        let inherited = inherited_sockets::take_listener(address);
        let inherited = inherited.map_err(|error| listen_error(address, error))?;
        if let Some(listener) = inherited {
            return Ok(Self::Kernel(listener));
        }
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(shares_port)?;
        let result =
            socket.bind(address).and_then(|()| socket.listen(BACKLOG)).and_then(|listener| {
                sockopt::set_socket_reuseport(&listener, false)?;
                Ok(listener)
            });
        result.map(Self::Kernel).map_err(|error| listen_error(address, error))
    }

    /// Returns the address or port for display.
    ///
    /// # Errors
    ///
    /// Returns the error of `getsockname(2)`.
    pub(super) fn name(&self) -> io::Result<String> {
        Ok(match self {
            Self::Kernel(listener) => listener.local_addr()?.to_string(),
            Self::Userspace(listener) => {
                format!("port {} of plumb's own TCP/IP stack", listener.port())
            }
        })
    }

    /// Returns the number of the inode of a kernel socket.
    #[cfg(test)]
    pub(super) fn inode(&self) -> u64 {
        let Self::Kernel(listener) = self else { return 0 };
        rustix::fs::fstat(listener).unwrap().st_ino
    }

    /// Accepts connections for `service` until the listener fails. Returns the error; only a
    /// listener of the user-space host fails.
    pub(super) async fn run<S: ConnectionService>(self: Rc<Self>, service: Rc<S>) -> io::Error {
        let mut connections = OpenConnections::new(service.connections_max());
        let mut failure_log = FailureLog::default();
        loop {
            let (connection, peer) = match self.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    let retry = self.retry_after(&error);
                    if retry == Retry::Never {
                        return error;
                    }
                    if failure_log.is_due(Instant::now()) {
                        let at = self.name().unwrap_or_default();
                        let why = error.to_string();
                        service.report(&ServeEvent::AcceptFailed { at, why });
                    }
                    if retry == Retry::AfterDelay {
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                    continue;
                }
            };
            if service.is_closing() {
                continue;
            }
            let session = SessionId::next();
            if let Err(refusal) = session.enter(|| service.admit(peer)) {
                let event = ServeEvent::Refused { from: peer, why: refusal.to_string() };
                session.enter(|| service.report(&event));
                service.notify_refused(&connection, refusal);
                continue;
            }
            let slot = AdmittedSlot { service: Rc::clone(&service), peer, has_ended: false };
            connections.make_room();
            let task = tokio::task::spawn_local(session.scope(async move {
                let mut slot = slot;
                Rc::clone(&slot.service).serve(connection, peer).await;
                slot.has_ended = true;
            }));
            connections.add(task.abort_handle());
        }
    }

    /// Accepts a connection. The address of an IPv4 client is an IPv4 address, also at an IPv6 listener.
    async fn accept(&self) -> io::Result<(TcpConnection, SocketAddr)> {
        match self {
            Self::Kernel(listener) => {
                let (stream, peer) = listener.accept().await?;
                let peer = match peer.ip().to_canonical() {
                    ip @ IpAddr::V4(_) => SocketAddr::new(ip, peer.port()),
                    // With the scope of a link-local address.
                    IpAddr::V6(_) => peer,
                };
                Ok((TcpConnection::Kernel(stream), peer))
            }
            Self::Userspace(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((TcpConnection::Userspace(stream), peer))
            }
        }
    }

    /// Returns whether the next connection may be accepted after `error`.
    fn retry_after(&self, error: &io::Error) -> Retry {
        match self {
            Self::Kernel(_) => retry_of_kernel(error),
            // The user-space host has ended with its device.
            Self::Userspace(_) => Retry::Never,
        }
    }
}

/// Slot of an admitted connection, which is released when the task of the connection ends or
/// panics.
struct AdmittedSlot<S: ConnectionService> {
    service: Rc<S>,
    peer: SocketAddr,
    /// Whether the connection was served to its end.
    has_ended: bool,
}

impl<S: ConnectionService> Drop for AdmittedSlot<S> {
    fn drop(&mut self) {
        // A task that was aborted because of `connections_max` releases no slot.
        if self.has_ended || std::thread::panicking() {
            self.service.release(self.peer);
        }
    }
}

/// Returns another handle of a kernel listener, with the connections that wait in its queue.
fn duplicate(listener: &TcpListener) -> io::Result<ServerListener> {
    let descriptor = listener.as_fd().try_clone_to_owned()?;
    TcpListener::from_std(descriptor.into()).map(ServerListener::Kernel)
}

/// Calls `open` while further sockets may be bound to the ports of `closing`. `SO_REUSEPORT` is set only
/// for this time, because other programs of the same user could share the ports, too.
pub(super) fn with_shared_port<S: AsFd, T>(closing: &[&S], open: impl FnOnce() -> T) -> T {
    let share = |is_shared: bool| {
        for socket in closing {
            // Without the option, the port counts as used.
            _ = sockopt::set_socket_reuseport(socket, is_shared);
        }
    };
    share(true);
    let result = open();
    share(false);
    result
}

/// Returns the error of a kernel socket that cannot be bound to `address`, with the reason.
pub(super) fn listen_error(address: SocketAddr, error: io::Error) -> anyhow::Error {
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied => "ports below 1024 need root",
        io::ErrorKind::AddrInUse => "the port is used by another program",
        io::ErrorKind::AddrNotAvailable => "not an address of this machine",
        _ => "system error",
    };
    anyhow::Error::new(error).context(format!("cannot listen on {address}: {why}"))
}

/// Time of the next accept after a failed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    AtOnce,
    AfterDelay,
    Never,
}

fn retry_of_kernel(error: &io::Error) -> Retry {
    match Errno::from_io_error(error) {
        Some(errno) if CONNECTION_ERRORS.contains(&errno) => Retry::AtOnce,
        // Usually no descriptors are left in this process (EMFILE) or on this machine (ENFILE). The
        // connection stays in the kernel's queue.
        _ => Retry::AfterDelay,
    }
}

/// Rate limit of the log lines about failed accepts.
#[derive(Debug, Default)]
struct FailureLog {
    logged_at: Option<Instant>,
}

impl FailureLog {
    /// Returns whether a failure at `now` is logged.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.logged_at.is_none_or(|at| now >= at + FAILURE_LOG_INTERVAL);
        if is_due {
            self.logged_at = Some(now);
        }
        is_due
    }
}

/// Open connections of a listener, if their number is limited by closing the oldest one.
#[derive(Debug)]
struct OpenConnections {
    max: Option<usize>,
    tasks: VecDeque<AbortHandle>,
}

impl OpenConnections {
    const fn new(max: Option<usize>) -> Self {
        Self { max, tasks: VecDeque::new() }
    }

    /// Closes the oldest connection if the maximum number is open.
    fn make_room(&mut self) {
        let Some(max) = self.max else { return };
        self.tasks.retain(|task| !task.is_finished());
        if self.tasks.len() >= max
            && let Some(oldest) = self.tasks.pop_front()
        {
            oldest.abort();
        }
    }

    fn add(&mut self, task: AbortHandle) {
        if self.max.is_some() {
            self.tasks.push_back(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use std::cell::{Cell, RefCell};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::task::Poll;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::Notify;
    use tokio::task::LocalSet;

    /// Service that sends a byte to each client and waits until the client closes the connection. A
    /// byte of the client makes it panic.
    struct TestService {
        connections_max: Option<usize>,
        /// Number of connections that are admitted at the same time.
        slots: Cell<usize>,
        events: RefCell<Vec<String>>,
        changed: Notify,
    }

    impl TestService {
        fn new(slots: usize, connections_max: Option<usize>) -> Rc<Self> {
            let slots = Cell::new(slots);
            let events = RefCell::default();
            Rc::new(Self { connections_max, slots, events, changed: Notify::new() })
        }
    }

    impl ConnectionService for TestService {
        fn report(&self, event: &ServeEvent<'_>) {
            self.events.borrow_mut().push(event.to_string());
            self.changed.notify_one();
        }

        fn connections_max(&self) -> Option<usize> {
            self.connections_max
        }

        fn admit(&self, _peer: SocketAddr) -> Result<(), AdmissionRefusal> {
            let slots = self.slots.get().checked_sub(1).ok_or(AdmissionRefusal::Full)?;
            self.slots.set(slots);
            Ok(())
        }

        fn notify_refused(&self, connection: &TcpConnection, refusal: AdmissionRefusal) {
            let written = connection.try_write(refusal.to_string().as_bytes());
            assert!(matches!(written, Poll::Ready(Ok(_))), "{written:?}");
        }

        async fn serve(self: Rc<Self>, mut connection: TcpConnection, _peer: SocketAddr) {
            connection.write_all(b"!").await.unwrap();
            assert!(connection.read_u8().await.is_err(), "the client has sent a byte");
        }

        fn release(&self, _peer: SocketAddr) {
            self.slots.set(self.slots.get() + 1);
            self.changed.notify_one();
        }
    }

    fn run_test(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    /// Runs `service` at a free port, and returns the address.
    fn start(service: &Rc<TestService>) -> SocketAddr {
        start_at((Ipv4Addr::LOCALHOST, 0).into(), service)
    }

    fn start_at(address: SocketAddr, service: &Rc<TestService>) -> SocketAddr {
        let listener = ServerListener::open(None, address, &RefCell::default()).unwrap();
        let at = listener.name().unwrap().parse().unwrap();
        tokio::task::spawn_local(Rc::new(listener).run(Rc::clone(service)));
        at
    }

    #[test]
    fn a_refused_client_gets_the_reason_and_a_slot_is_released_at_the_end() {
        run_test(async {
            let service = TestService::new(1, None);
            let at = start(&service);
            let mut first = TcpStream::connect(at).await.unwrap();
            assert_eq!(first.read_u8().await.unwrap(), b'!');
            let mut second = TcpStream::connect(at).await.unwrap();
            let mut reply = String::new();
            second.read_to_string(&mut reply).await.unwrap();
            assert_eq!(reply, "too many sessions");
            let from = second.local_addr().unwrap();
            assert_eq!(*service.events.borrow(), [format!("{from} refused: too many sessions")]);
            drop(first);
            while service.slots.get() == 0 {
                service.changed.notified().await;
            }
            let mut third = TcpStream::connect(at).await.unwrap();
            assert_eq!(third.read_u8().await.unwrap(), b'!');
        });
    }

    #[test]
    fn an_ipv4_client_of_an_ipv6_listener_is_logged_with_its_ipv4_address() {
        run_test(async {
            let service = TestService::new(0, None);
            let port = start_at((Ipv6Addr::UNSPECIFIED, 0).into(), &service).port();
            let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            client.read_to_string(&mut String::new()).await.unwrap();
            let from = client.local_addr().unwrap();
            assert!(from.is_ipv4());
            assert_eq!(*service.events.borrow(), [format!("{from} refused: too many sessions")]);
        });
    }

    #[test]
    fn a_panic_of_a_session_releases_its_slot() {
        run_test(async {
            let service = TestService::new(1, None);
            let at = start(&service);
            let mut first = TcpStream::connect(at).await.unwrap();
            first.write_all(b"?").await.unwrap();
            let mut reply = Vec::new();
            // The connection ends, possibly with a reset.
            _ = first.read_to_end(&mut reply).await;
            assert_eq!(service.slots.get(), 1);
        });
    }

    #[test]
    fn a_connection_above_the_limit_closes_the_oldest_one() {
        run_test(async {
            let service = TestService::new(9, Some(1));
            let at = start(&service);
            let mut first = TcpStream::connect(at).await.unwrap();
            assert_eq!(first.read_u8().await.unwrap(), b'!');
            let mut second = TcpStream::connect(at).await.unwrap();
            assert_eq!(second.read_u8().await.unwrap(), b'!');
            assert!(first.read_u8().await.is_err());
        });
    }

    #[test]
    fn a_failed_accept_is_logged() {
        run_test(async {
            // `accept` fails because the socket does not listen.
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket =
                rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
            let socket = std::net::TcpListener::from(socket.unwrap());
            rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
            let listener = TcpListener::from_std(socket).unwrap();
            let at = listener.local_addr().unwrap();
            let service = TestService::new(9, None);
            let listener = Rc::new(ServerListener::Kernel(listener));
            tokio::task::spawn_local(listener.run(Rc::clone(&service)));
            service.changed.notified().await;
            let text =
                format!("cannot accept a connection on {at}: Invalid argument (os error 22)");
            assert_eq!(*service.events.borrow(), [text]);
        });
    }

    #[test]
    fn an_error_of_one_connection_delays_no_other() {
        let retry = |errno: Errno| retry_of_kernel(&errno.into());
        assert_eq!(retry(Errno::CONNABORTED), Retry::AtOnce);
        assert_eq!(retry(Errno::NETUNREACH), Retry::AtOnce);
        assert_eq!(retry(Errno::MFILE), Retry::AfterDelay);
        assert_eq!(retry(Errno::NFILE), Retry::AfterDelay);
    }

    #[test]
    fn failed_accepts_are_logged_at_most_once_per_interval() {
        let mut log = FailureLog::default();
        let now = Instant::now();
        assert!(log.is_due(now) && !log.is_due(now));
        assert!(!log.is_due(now + FAILURE_LOG_INTERVAL - Duration::from_millis(1)));
        assert!(log.is_due(now + FAILURE_LOG_INTERVAL));
    }

    #[test]
    fn the_error_of_an_address_names_the_reason() {
        run_test(async {
            let taken =
                ServerListener::open(None, (Ipv4Addr::LOCALHOST, 0).into(), &RefCell::default())
                    .unwrap();
            let at: SocketAddr = taken.name().unwrap().parse().unwrap();
            let error = ServerListener::open(None, at, &RefCell::default()).unwrap_err();
            let why = format!("cannot listen on {at}: the port is used by another program");
            assert_eq!(error.to_string(), why);
            // RFC 5737: an address for documentation.
            let error =
                ServerListener::open(None, "192.0.2.1:9".parse().unwrap(), &RefCell::default())
                    .unwrap_err();
            let why = "cannot listen on 192.0.2.1:9: not an address of this machine";
            assert_eq!(error.to_string(), why);
        });
    }
}
