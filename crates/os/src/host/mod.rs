//! An internet host in user space for programs on tokio: our own TCP/IP on a device.
//!
//! A [`Host`] owns a device and the `Station` on it. Its streams, listeners and UDP sockets are
//! used like tokio's own. What a program writes goes down to the device in the call that writes
//! it, and what it reads is taken from the station in the call that reads it: no other task runs
//! in between. One task of the host reads the device, lets timers run out and wakes those who
//! wait; it ends with the last handle of the host.
//!
//! Everything that the host knows is behind one lock, which is never held while anything waits.

mod listener;
mod stream;
mod udp;

pub use listener::Listener;
pub use stream::Stream;
pub use udp::UdpSocket;

use crate::clock;
use crate::device::Device;
use crate::driver::Driver;
use crate::entropy;
use crate::waiting::Wait;
use protocols::chance::Chance;
use protocols::link::{Datagram, Link};
use protocols::meter::{Account, Clock, Meter};
use protocols::station::{Application, Layers, Settings};
use protocols::time::Duration;
use protocols::transport::tcp::{ConnectionId, Event, Profile};
use protocols::transport::udp::SocketId;
use protocols::{Cx, Instant};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Connections that may wait to be accepted.
const ACCEPT_LIMIT: usize = 1024;

/// A host in user space. Clones name the same one.
#[derive(Clone, Debug)]
pub struct Host {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something is due earlier than the task of the host knows.
    sooner: Arc<Notify>,
}

/// Who waits for a connection.
#[derive(Debug, Default)]
struct Waiting {
    opening: Option<Waker>,
    reading: Option<Waker>,
    writing: Option<Waker>,
}

/// What has come to a port where a program listens.
#[derive(Debug, Default)]
struct Accepting {
    open: VecDeque<ConnectionId>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct State {
    driver: Driver,
    connections: HashMap<ConnectionId, Waiting>,
    listeners: HashMap<u16, Accepting>,
    datagrams: HashMap<SocketId, Waker>,
    /// Until when the task of the host waits.
    sleeps_until: Option<Instant>,
    /// The device is not read, because data that nobody reads holds all packets.
    is_starved: bool,
    /// Why the device failed; nothing works any more.
    failure: Option<io::ErrorKind>,
    profile: Profile,
}

impl Host {
    /// Makes a host on `device`, with `mtu_bytes` of its interface. What `settings` says of the
    /// device and of the machine is replaced by what they can do.
    ///
    /// Must be called within a tokio runtime, which its task runs on.
    ///
    /// # Errors
    ///
    /// If the device cannot be made non-blocking or watched, or the system gives no entropy.
    pub fn new(device: Device, mtu_bytes: u16, settings: Settings) -> io::Result<Self> {
        // The task's own descriptor of the device outlives the host by a moment.
        let watched = device.as_fd().try_clone_to_owned()?;
        let link = Link::Datagram(Datagram::new(mtu_bytes.into()));
        let bench = (Chance::from_seed(entropy::seed()?), Meter::new(Clock::Counter(clock::ticks)));
        let driver = Driver::new(device, link, settings, Wait::Poll, bench)?;
        // SAFETY: an `OwnedFd` gives the same descriptor every time, and closes it when dropped.
        let watched = unsafe { AsyncFd::register_with_interest(watched, Interest::READABLE) }?;
        let state = State {
            driver,
            connections: HashMap::new(),
            listeners: HashMap::new(),
            datagrams: HashMap::new(),
            sleeps_until: None,
            is_starved: false,
            failure: None,
            profile: Profile { nagle: false, ..Profile::BULK },
        };
        let sooner = Arc::new(Notify::new());
        let shared = Arc::new(Shared { state: Mutex::new(state), sooner: sooner.clone() });
        tokio::spawn(attend(Arc::downgrade(&shared), watched, sooner));
        Ok(Self { shared })
    }

    /// Sets the profile of the connections that are opened and accepted from now on.
    pub fn set_profile(&self, profile: Profile) {
        self.lock().profile = profile;
    }

    /// Opens a connection to `remote`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ConnectionRefused`], `TimedOut`, `HostUnreachable` and their like, as for
    /// a socket of the kernel.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        Stream::connect(self.clone(), remote).await
    }

    /// Listens on `port` of every address.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`].
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        Listener::bind(self.clone(), port)
    }

    /// Binds a UDP socket to `port`, or to a free one if that is 0.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`].
    pub fn bind(&self, port: u16) -> io::Result<UdpSocket> {
        UdpSocket::bind(self.clone(), port)
    }

    /// Lets `look` see the layers: their status, and what they can do beyond streams.
    pub fn with_layers<R>(&self, look: impl FnOnce(&mut Layers, &mut Cx<'_>) -> R) -> R {
        self.act(|state| state.layers(look))
    }

    /// Returns the meter as it stands.
    #[must_use]
    pub fn meter(&self) -> Meter {
        let mut meter = self.lock().driver.meter().clone();
        meter.settle();
        meter
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another user leaves the station as it was between two of its calls.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call use the layers and the list of who waits, and sends what it has left to send.
    fn act<R>(&self, call: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = call(&mut state);
        state.flush();
        let deadline = state.driver.deadline();
        let is_sooner = std::mem::take(&mut state.is_starved)
            || deadline.is_some_and(|at| state.sleeps_until.is_none_or(|planned| at < planned));
        drop(state);
        if is_sooner {
            self.shared.sooner.notify_one();
        }
        result
    }
}

/// A program on tokio is no application of the station: it calls when it likes.
struct Callers;

impl Application for Callers {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut Layers, _cx: &mut Cx<'_>) {}
}

impl State {
    /// Lends the layers.
    fn layers<R>(&mut self, call: impl FnOnce(&mut Layers, &mut Cx<'_>) -> R) -> R {
        let (station, mut cx) = self.driver.parts();
        let left = cx.meter.enter(Account::TcpFixed);
        let result = call(&mut station.layers, &mut cx);
        cx.meter.enter(left);
        result
    }

    /// Gives the device what is owed.
    fn flush(&mut self) {
        if let Err(error) = self.driver.flush() {
            self.fail(&error);
        }
    }

    /// Reads what the device has, lets due timers run out, wakes those for whom there is news and
    /// sends what is owed. Returns whether the device may have more.
    fn turn(&mut self) -> io::Result<bool> {
        let turn = self.driver.turn(&mut Callers, Some(Instant::ZERO))?;
        loop {
            let (station, _) = self.driver.parts();
            let Some((id, event)) = station.layers.tcp.event() else { break };
            self.wake(id, event);
        }
        self.wake_datagrams();
        self.is_starved = self.driver.parts().0.layers.pool.is_exhausted();
        self.sleeps_until = self.driver.deadline();
        Ok(turn.packets_in > 0)
    }

    fn wake(&mut self, id: ConnectionId, event: Event) {
        if event == Event::Established && !self.connections.contains_key(&id) {
            return self.accept(id);
        }
        let Some(waiting) = self.connections.get_mut(&id) else { return };
        let Waiting { opening, reading, writing } = waiting;
        let woken = match event {
            Event::Established => [opening.take(), writing.take(), None],
            Event::Readable | Event::Urgent | Event::PeerClosed => [reading.take(), None, None],
            Event::Writable => [writing.take(), None, None],
            Event::Closed => [opening.take(), reading.take(), writing.take()],
            Event::Unresponsive => [None, None, None],
        };
        woken.into_iter().flatten().for_each(Waker::wake);
    }

    /// Keeps a connection that was opened from outside until the program accepts it.
    fn accept(&mut self, id: ConnectionId) {
        let tcp = &mut self.driver.parts().0.layers.tcp;
        let port = tcp.status(id).map(|status| status.local.port());
        let listener = port.ok().and_then(|port| self.listeners.get_mut(&port));
        match listener.filter(|listener| listener.open.len() < ACCEPT_LIMIT) {
            Some(listener) => {
                listener.open.push_back(id);
                self.connections.insert(id, Waiting::default());
                if let Some(waker) = listener.waker.take() {
                    waker.wake();
                }
            }
            None => tcp.release(id),
        }
    }

    fn wake_datagrams(&mut self) {
        let udp = &self.driver.parts().0.layers.udp;
        self.datagrams.retain(|socket, waker| {
            let has_any = udp.has_datagram(*socket);
            if has_any {
                waker.wake_by_ref();
            }
            !has_any
        });
    }

    /// Ends everything: the device is gone.
    fn fail(&mut self, error: &io::Error) {
        self.failure = Some(error.kind());
        for (_, waiting) in self.connections.drain() {
            let Waiting { opening, reading, writing } = waiting;
            [opening, reading, writing].into_iter().flatten().for_each(Waker::wake);
        }
        self.listeners.values_mut().filter_map(|l| l.waker.take()).for_each(Waker::wake);
        self.datagrams.drain().for_each(|(_, waker)| waker.wake());
    }

    fn check(&self) -> io::Result<()> {
        self.failure.map_or(Ok(()), |kind| Err(io::Error::new(kind, "the device has failed")))
    }

    fn source_for(&mut self, remote: IpAddr) -> IpAddr {
        self.driver.parts().0.layers.internet.source_for(remote)
    }
}

/// Reads the device and lets timers run out, for as long as somebody holds the host.
async fn attend(host: Weak<Shared>, device: AsyncFd<OwnedFd>, sooner: Arc<Notify>) {
    loop {
        let Some(shared) = host.upgrade() else { return };
        let (turn, sleeps_for) = {
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = state.turn();
            if let Err(error) = &turn {
                state.fail(error);
            }
            let now = state.driver.clock().now();
            (turn, state.sleeps_until.map(|until| until.since(now)))
        };
        drop(shared);
        match turn {
            // Others run between two turns of a busy device.
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => wait(&device, &sooner, sleeps_for).await,
            Err(_) => return,
        }
    }
}

/// Waits until the device has something, a timer is due, or another one is set.
async fn wait(device: &AsyncFd<OwnedFd>, sooner: &Notify, sleeps_for: Option<Duration>) {
    let due = async {
        match sleeps_for {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ready = device.readable() => {
            // The turn that follows reads until there is nothing, and then waits again.
            if let Ok(mut ready) = ready {
                ready.clear_ready();
            }
        }
        () = sooner.notified() => {}
        () = due => {}
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The task of the host may wait for ever.
        self.sooner.notify_one();
    }
}

#[cfg(test)]
mod tests;
