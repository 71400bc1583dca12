//! An internet host in user space for programs on tokio: our own TCP/IP on a device.
//!
//! A [`Host`] owns a device and the `Station` on it. Its streams, listeners and UDP sockets are
//! used like tokio's own. What a program writes goes down to the device in the call that writes
//! it, and what it reads is taken from the station in the call that reads it: no other task runs
//! in between. One task of the host reads the device, lets timers run out and wakes those who
//! wait; it ends with the last handle of the host. What is unsent then is lost:
//! [`Host::drained`] waits until nothing is.
//!
//! Everything that the host knows is behind one lock, which is never held while anything waits or
//! anybody is woken.
//!
//! A host whose device fails has ended, as has one whose runtime has: everybody who waits is told,
//! and every later call too. Its device is free for another host once all its handles are dropped.
//!
//! Timers are tokio's, which count in milliseconds: a program that needs them finer, or that has a
//! thread to itself, takes [`Driver`] and its own loop.

mod crowd;
mod listener;
mod stream;
mod udp;

pub use listener::Listener;
pub use stream::Stream;
pub use udp::{Segments, UdpSocket};

use crate::clock;
use crate::device::Device;
use crate::driver::Driver;
use crate::entropy;
use crate::waiting::Wait;
use crowd::Crowd;
use protocols::chance::Chance;
use protocols::link::{Datagram, Ethernet, Link};
use protocols::meter::{Account, Clock, Meter, Sheet};
use protocols::station::{Application, Layers, Settings, ethernet};
use protocols::time::Duration;
use protocols::transport::tcp::{ConnectionId, Event, Profile, State as TcpState};
use protocols::transport::udp::SocketId;
use protocols::{Cx, Instant};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Connections that may wait to be accepted.
const ACCEPT_LIMIT: usize = 1024;

/// A host in user space. Clones name the same one.
#[derive(Clone, Debug)]
pub struct Host {
    shared: Arc<Shared>,
    /// The profile of what is opened by this handle, if not that of the host.
    /// Shared, so that a stream, which has its host, stays small.
    profile: Option<Arc<Profile>>,
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
    waiting: Crowd,
}

/// Who is woken when the lock is free.
#[derive(Debug, Default)]
struct News {
    wakers: Vec<Waker>,
    calls: Vec<Arc<Notify>>,
}

/// Why nothing works any more.
#[derive(Debug)]
struct Failure {
    kind: io::ErrorKind,
    sentence: String,
}

#[derive(Debug)]
struct State {
    driver: Driver,
    connections: HashMap<ConnectionId, Waiting>,
    listeners: HashMap<u16, Accepting>,
    datagrams: HashMap<SocketId, Crowd>,
    /// Those who have a datagram to send for which there is no room.
    senders: Crowd,
    /// Those who look at the host again after each turn.
    watchers: Crowd,
    news: News,
    /// Until when the task of the host waits.
    sleeps_until: Option<Instant>,
    /// The device is not read, because data that nobody reads holds all packets.
    is_starved: bool,
    failure: Option<Failure>,
    profile: Profile,
}

impl Host {
    /// Makes a host on `device`, with `mtu_bytes` of its interface. What `settings` says of the
    /// device and of the machine is replaced by what they can do.
    ///
    /// Must be called within a tokio runtime with I/O and time, which its task runs on.
    ///
    /// # Errors
    ///
    /// If the device carries frames and not datagrams, cannot be made non-blocking or watched, or
    /// if the system gives no entropy.
    pub fn new(device: Device, mtu_bytes: u16, settings: Settings) -> io::Result<Self> {
        if device.has_frames() {
            let sentence = "a device that carries Ethernet frames needs Host::on_segment";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let link = Link::Datagram(Datagram::new(mtu_bytes.into()));
        Self::start(device, link, settings, |_| {})
    }

    /// Makes a host on a `device` that carries Ethernet frames, as [`Self::new`] does. Its addresses
    /// come from `segment`, or by it: [`Self::addressed`] waits for them.
    ///
    /// # Errors
    ///
    /// As [`Self::new`], and if the device carries no frames.
    pub fn on_segment(
        device: Device,
        mtu_bytes: u16,
        settings: Settings,
        segment: ethernet::Settings,
    ) -> io::Result<Self> {
        if !device.has_frames() {
            let sentence = "a device that carries no Ethernet frames needs Host::new";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let link = Link::Ethernet(Ethernet::new(mtu_bytes.into()));
        Self::start(device, link, settings, |driver| {
            let (station, mut cx) = driver.parts();
            station.join_segment(segment, &mut cx);
        })
    }

    fn start(
        device: Device,
        link: Link,
        settings: Settings,
        prepare: impl FnOnce(&mut Driver),
    ) -> io::Result<Self> {
        // The task's own descriptor of the device outlives the host by a moment.
        let watched = device.as_fd().try_clone_to_owned()?;
        let bench =
            (Chance::from_seed(entropy::seed()?), Meter::new(Clock::Counter(clock::counter())));
        let mut driver = Driver::new(device, link, settings, Wait::Poll, bench)?;
        prepare(&mut driver);
        // A device that goes away is an error and no packet: waited for, too.
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
        // SAFETY: an `OwnedFd` gives the same descriptor every time, and closes it when dropped.
        let watched = unsafe { AsyncFd::register_with_interest(watched, interest) }?;
        let state = State {
            driver,
            connections: HashMap::new(),
            listeners: HashMap::new(),
            datagrams: HashMap::new(),
            senders: Crowd::default(),
            watchers: Crowd::default(),
            news: News::default(),
            sleeps_until: None,
            is_starved: false,
            failure: None,
            profile: Profile { nagle: false, ..Profile::BULK },
        };
        let sooner = Arc::new(Notify::new());
        let shared = Arc::new(Shared { state: Mutex::new(state), sooner: sooner.clone() });
        let attendance = Attendance(Arc::downgrade(&shared));
        tokio::spawn(attend(attendance, watched, sooner));
        Ok(Self { shared, profile: None })
    }

    /// Sets the profile of the connections that are opened and accepted from now on.
    pub fn set_profile(&self, profile: Profile) {
        self.shared.lock().profile = profile;
    }

    /// Returns a handle of the same host whose connections, opened and accepted, have `profile`.
    #[must_use]
    pub fn with_profile(&self, profile: Profile) -> Self {
        Self { profile: Some(Arc::new(profile)), ..self.clone() }
    }

    /// Opens a connection to `remote`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ConnectionRefused`], `TimedOut`, `HostUnreachable` and their like, as for
    /// a socket of the kernel; `NetworkUnreachable` if the host has no address of the family of
    /// `remote`.
    pub async fn connect(&self, remote: SocketAddr) -> io::Result<Stream> {
        Stream::connect(self.clone(), remote).await
    }

    /// Listens on `port` of every address, or on a free one if that is 0.
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

    /// Waits until what was written to streams that were dropped or shut down since has arrived, or
    /// its peer was given up. A host that is dropped before may lose the end of it.
    ///
    /// # Errors
    ///
    /// If the device has failed.
    pub async fn drained(&self) -> io::Result<()> {
        self.watch(State::is_drained).await
    }

    /// Waits until the host has an address from which to call `remote`: on an Ethernet segment it
    /// takes some time until a server or a router has given one.
    ///
    /// # Errors
    ///
    /// If the device has failed.
    pub async fn addressed(&self, remote: IpAddr) -> io::Result<()> {
        self.watch(|state| state.is_addressed(remote)).await
    }

    /// Waits until what `has_come` looks for is so.
    async fn watch(&self, mut has_come: impl FnMut(&mut State) -> bool) -> io::Result<()> {
        let call = self.shared.lock().watchers.call();
        self.attend_to(call, |state| {
            if has_come(state) {
                return Poll::Ready(Ok(()));
            }
            state.check()?;
            state.watchers.wait()
        })
        .await
    }

    /// Lets `look` see the layers: their status, and what they can do beyond streams. It must not
    /// call the host or its streams, which wait for it to end.
    pub fn with_layers<R>(&self, look: impl FnOnce(&mut Layers, &mut Cx<'_>) -> R) -> R {
        self.act(|state| {
            let seen = state.layers(look);
            state.watchers.tell(&mut state.news.calls);
            seen
        })
    }

    /// Returns the meter as it stands.
    #[must_use]
    pub fn meter(&self) -> Meter {
        let mut meter = self.shared.lock().driver.meter().clone();
        meter.settle();
        meter
    }

    /// Returns the figures of the meter, to be read by others while the host runs.
    #[must_use]
    pub fn meter_sheet(&self) -> Arc<Sheet> {
        self.shared.lock().driver.meter().sheet()
    }

    /// Lets a call use the layers and the list of who waits, sends what it has left to send and
    /// wakes those for whom it has made news.
    fn act<R>(&self, call: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.shared.lock();
        let result = call(&mut state);
        state.flush();
        state.tell();
        if state.is_late() {
            self.shared.sooner.notify_one();
        }
        let news = state.take_news();
        drop(state);
        news.tell();
        result
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another user leaves the station as it was between two of its calls.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends everything.
    fn fail(&self, failure: Failure) {
        let mut state = self.lock();
        state.fail(failure);
        let news = state.take_news();
        drop(state);
        news.tell();
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
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.driver.flush() {
            self.fail(Failure::of_device(&error));
        }
    }

    /// Reads what the device has, lets due timers run out, sends what is owed and notes who is
    /// woken. Returns whether there may be more to do at once.
    fn turn(&mut self) -> io::Result<bool> {
        let was_starved = self.driver.parts().0.layers.pool.is_exhausted();
        let turn = self.driver.turn(&mut Callers, Some(Instant::ZERO))?;
        self.tell();
        self.tell_readers_of_datagrams();
        self.watchers.tell(&mut self.news.calls);
        let station = self.driver.parts().0;
        let has_looped = station.has_input();
        self.is_starved = station.layers.pool.is_exhausted();
        self.sleeps_until = self.driver.deadline();
        Ok(turn.packets_in > 0 || has_looped || was_starved && !self.is_starved)
    }

    /// Returns whether the task of the host has something to do before it would look.
    fn is_late(&mut self) -> bool {
        let deadline = self.driver.deadline();
        let is_sooner =
            deadline.is_some_and(|at| self.sleeps_until.is_none_or(|planned| at < planned));
        // What was read just now may be a packet that the device waits for.
        self.is_starved || is_sooner || self.driver.parts().0.has_input()
    }

    /// Notes who is woken by what has happened.
    fn tell(&mut self) {
        while let Some((id, event)) = self.driver.parts().0.layers.tcp.event() {
            self.wake(id, event);
        }
        if !self.driver.waits_for_room() && !self.driver.parts().0.layers.pool.is_exhausted() {
            self.senders.tell(&mut self.news.calls);
        }
    }

    fn tell_readers_of_datagrams(&mut self) {
        let udp = &self.driver.parts().0.layers.udp;
        for (socket, waiting) in &mut self.datagrams {
            if waiting.is_waiting() && udp.has_datagram(*socket) {
                waiting.tell(&mut self.news.calls);
            }
        }
    }

    fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Returns whether every peer has all that was written to it, of the connections that we have
    /// closed.
    fn is_drained(&mut self) -> bool {
        let mut connections = self.driver.parts().0.layers.tcp.statuses();
        !connections.any(|connection| {
            matches!(connection.state, TcpState::FinWait1 | TcpState::Closing | TcpState::LastAck)
        })
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
        self.news.wakers.extend(woken.into_iter().flatten());
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
                listener.waiting.tell(&mut self.news.calls);
            }
            None => tcp.release(id),
        }
    }

    /// Ends everything, for the first reason that there was.
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        for (_, waiting) in self.connections.drain() {
            let Waiting { opening, reading, writing } = waiting;
            self.news.wakers.extend([opening, reading, writing].into_iter().flatten());
        }
        let ports = self.listeners.values_mut().map(|port| &mut port.waiting);
        let crowds = [&mut self.senders, &mut self.watchers];
        for crowd in ports.chain(self.datagrams.values_mut()).chain(crowds) {
            crowd.tell(&mut self.news.calls);
        }
    }

    fn check(&self) -> io::Result<()> {
        let failure = self.failure.as_ref();
        failure.map_or(Ok(()), |Failure { kind, sentence }| {
            Err(io::Error::new(*kind, sentence.clone()))
        })
    }

    /// Returns whether `remote` can be called: from an address of the link alone, only its like.
    fn is_addressed(&mut self, remote: IpAddr) -> bool {
        let is_of_link = |address: IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        let source = self.source_for(remote);
        source.is_ok_and(|source| !is_of_link(source) || is_of_link(remote))
    }

    /// Returns the address from which `remote` is called.
    fn source_for(&mut self, remote: IpAddr) -> io::Result<IpAddr> {
        let source = self.driver.parts().0.layers.internet.source_for(remote);
        if source.is_unspecified() {
            let sentence = format!("the host has no address from which to call {remote}");
            return Err(io::Error::new(io::ErrorKind::NetworkUnreachable, sentence));
        }
        Ok(source)
    }
}

impl News {
    fn tell(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        self.calls.iter().for_each(|call| call.notify_waiters());
    }
}

impl Failure {
    fn of_device(error: &io::Error) -> Self {
        let question = match Errno::from_io_error(error) {
            Some(Errno::IO | Errno::NETDOWN) => "; is its interface up?",
            _ => "",
        };
        Self { kind: error.kind(), sentence: format!("the device has failed: {error}{question}") }
    }
}

/// The task's hold on its host, which fails if the task ends before it: its runtime was dropped,
/// or an assertion of ours failed.
#[derive(Debug)]
struct Attendance(Weak<Shared>);

impl Drop for Attendance {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            let sentence = "the task of the host has ended, as if with its runtime".to_owned();
            shared.fail(Failure { kind: io::ErrorKind::NotConnected, sentence });
        }
    }
}

/// Reads the device and lets timers run out, for as long as somebody holds the host.
async fn attend(host: Attendance, device: AsyncFd<OwnedFd>, sooner: Arc<Notify>) {
    loop {
        let Some(shared) = host.0.upgrade() else { return };
        let (turn, pause, news) = {
            let mut state = shared.lock();
            let turn = state.turn();
            if let Err(error) = &turn {
                state.fail(Failure::of_device(error));
            }
            let now = state.driver.clock().now();
            let sleeps_for = state.sleeps_until.map(|until| until.since(now));
            let pause = Pause { sleeps_for, is_for_room: state.driver.waits_for_room() };
            (turn, pause, state.take_news())
        };
        drop(shared);
        news.tell();
        match turn {
            // Others run between two turns of a busy device.
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => wait(&device, &sooner, pause).await,
            Err(_) => return,
        }
    }
}

/// What the task of the host waits for, beside packets.
#[derive(Clone, Copy, Debug)]
struct Pause {
    sleeps_for: Option<Duration>,
    /// The device had no room for a packet.
    is_for_room: bool,
}

/// Waits until the device has something or takes something, a timer is due, or another one is set.
async fn wait(device: &AsyncFd<OwnedFd>, sooner: &Notify, pause: Pause) {
    let due = async {
        match pause.sleeps_for {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let mut interest = Interest::READABLE | Interest::ERROR;
    if pause.is_for_room {
        interest |= Interest::WRITABLE;
    }
    tokio::select! {
        biased;
        ready = device.ready(interest) => {
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
mod failure_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
