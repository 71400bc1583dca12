//! A user-space internet host for programs on tokio: plumbline's TCP/IP on a device.
//!
//! A [`Host`] owns a device and the `Station` on it. Its streams, listeners and UDP sockets are
//! used like those of tokio. A write passes the data to the device in the same call. A read takes
//! received data from the station in the same call. No other task runs in between. One task of the
//! host reads the device, runs the timers and wakes waiting tasks. It ends with the last handle of
//! the host. Data unsent at that time is lost; [`Host::drained`] waits until all data is sent and
//! acknowledged.
//!
//! The whole state of the host is behind one lock, which is never held while waiting or while
//! waking tasks.
//!
//! A host ends when its device fails or its runtime ends: all waiting tasks and all later calls get
//! an error. The device is free for another host once all handles of the host are dropped.
//!
//! The timers are those of tokio, with a resolution of one millisecond. A program that needs a
//! finer resolution, or that has a thread to itself, uses [`Driver`] and its own loop.

mod listener;
mod stream;
mod udp;
mod wait_list;

pub use listener::Listener;
pub use stream::Stream;
pub use udp::{Segments, UdpSocket};

use crate::clock;
use crate::device::Device;
use crate::driver::Driver;
use crate::entropy;
use crate::readiness::{self, Registered};
use crate::wait_strategy::Wait;
use net::link::{Datagram, Ethernet, Link};
use net::meter::{Account, Clock, CounterBlock, Meter};
use net::rng::Rng;
use net::station::{Application, Layers, Settings, ethernet};
use net::time::Duration;
use net::transport::tcp::{ConnectionId, Event, Profile, State as TcpState};
use net::transport::udp::SocketId;
use net::{Cx, Instant};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::task::coop;
use wait_list::WaitList;

/// Maximum number of connections waiting to be accepted, per port.
const ACCEPT_LIMIT: usize = 1024;

/// A host in user space. Clones refer to the same host.
#[derive(Clone, Debug)]
pub struct Host {
    shared: Arc<Shared>,
    /// TCP profile of the connections opened or accepted through this handle; `None` for the
    /// profile of the host. The profile is shared, so that a stream, which contains a `Host`, stays
    /// small.
    profile: Option<Arc<Profile>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the task of the host if a timer is due before the end of its sleep.
    earlier_deadline: Arc<Notify>,
}

/// Tasks waiting for a connection.
#[derive(Debug, Default)]
struct Waiting {
    opening: Option<Waker>,
    reading: Option<Waker>,
    writing: Option<Waker>,
}

/// Connections to a listening port that have not been accepted.
#[derive(Debug, Default)]
struct AcceptQueue {
    open: VecDeque<ConnectionId>,
    waiting: WaitList,
}

/// Tasks to wake after the lock is released.
#[derive(Debug, Default)]
struct PendingWakes {
    wakers: Vec<Waker>,
    notifiers: Vec<Arc<Notify>>,
}

/// Reason for which the host has ended.
#[derive(Debug)]
struct Failure {
    kind: io::ErrorKind,
    message: String,
}

#[derive(Debug)]
struct State {
    driver: Driver,
    connections: HashMap<ConnectionId, Waiting>,
    listeners: HashMap<u16, AcceptQueue>,
    datagrams: HashMap<SocketId, WaitList>,
    /// Tasks that wait for space to send a datagram.
    senders: WaitList,
    /// Tasks that check the state of the host after each turn.
    watchers: WaitList,
    pending_wakes: PendingWakes,
    /// Time until which the task of the host waits.
    sleeps_until: Option<Instant>,
    /// True if the device is not read because data that the program has not read occupies all
    /// packets.
    is_starved: bool,
    failure: Option<Failure>,
    profile: Profile,
}

impl Host {
    /// Creates a host on `device`, whose interface has an MTU of `mtu_bytes`. The fields of
    /// `settings` about the device and the machine are replaced by their actual capabilities.
    ///
    /// The function must be called within a tokio runtime with I/O and time enabled, on which its
    /// task runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the device carries Ethernet frames instead of IP packets, cannot be made
    /// non-blocking or registered with the runtime, or if the system provides no entropy.
    pub fn new(device: Device, mtu_bytes: u16, settings: Settings) -> io::Result<Self> {
        if device.has_frames() {
            let message = "a device that carries Ethernet frames needs Host::on_segment";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let link = Link::Datagram(Datagram::new(mtu_bytes.into()));
        Self::start(device, link, settings, |_| {})
    }

    /// Creates a host on a `device` that carries Ethernet frames, like [`Self::new`]. `segment`
    /// sets the addresses of the host or the method of obtaining them; [`Self::addressed`] waits
    /// for the addresses.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::new`], and an error if the device carries no frames.
    pub fn on_segment(
        device: Device,
        mtu_bytes: u16,
        settings: Settings,
        segment: ethernet::Settings,
    ) -> io::Result<Self> {
        if !device.has_frames() {
            let message = "a device that carries no Ethernet frames needs Host::new";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
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
        // The task's duplicate of the device descriptor may outlive the host for a moment.
        let watched = device.as_fd().try_clone_to_owned()?;
        let rng_and_meter =
            (Rng::from_seed(entropy::seed()?), Meter::new(Clock::Counter(clock::counter())));
        let mut driver = Driver::new(device, link, settings, Wait::Poll, rng_and_meter)?;
        prepare(&mut driver);
        // The removal of the device is reported as an error, not as a packet, so wait for errors
        // too.
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
        let watched = readiness::register(watched, interest)?;
        let state = State {
            driver,
            connections: HashMap::new(),
            listeners: HashMap::new(),
            datagrams: HashMap::new(),
            senders: WaitList::default(),
            watchers: WaitList::default(),
            pending_wakes: PendingWakes::default(),
            sleeps_until: None,
            is_starved: false,
            failure: None,
            profile: Profile { nagle: false, ..Profile::BULK },
        };
        let earlier_deadline = Arc::new(Notify::new());
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            earlier_deadline: earlier_deadline.clone(),
        });
        let host_task = HostTask(Arc::downgrade(&shared));
        tokio::spawn(run_host(host_task, watched, earlier_deadline));
        Ok(Self { shared, profile: None })
    }

    /// Sets the profile of connections opened or accepted from now on.
    pub fn set_profile(&self, profile: Profile) {
        self.shared.lock().profile = profile;
    }

    /// Returns a handle of the same host; connections opened or accepted through it have `profile`.
    #[must_use]
    pub fn with_profile(&self, profile: Profile) -> Self {
        Self { profile: Some(Arc::new(profile)), ..self.clone() }
    }

    /// Waits until all data written to streams that were dropped or shut down has been
    /// acknowledged, or its connection has failed. Dropping the host earlier may lose the end of
    /// the data.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has failed.
    pub async fn drained(&self) -> io::Result<()> {
        self.watch(State::is_drained).await
    }

    /// Waits until the host has an address from which it can reach `remote`. On an Ethernet segment
    /// some time passes until a server or a router assigns an address.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has failed.
    pub async fn addressed(&self, remote: IpAddr) -> io::Result<()> {
        self.watch(|state| state.is_addressed(remote)).await
    }

    /// Waits until `condition` returns true.
    async fn watch(&self, mut condition: impl FnMut(&mut State) -> bool) -> io::Result<()> {
        let notifier = self.shared.lock().watchers.notifier();
        self.poll_until_ready(notifier, |state| {
            if condition(state) {
                return Poll::Ready(Ok(()));
            }
            state.check()?;
            state.watchers.wait()
        })
        .await
    }

    /// Calls `attempt` now and after each notification of `notifier`, until it has a result.
    async fn poll_until_ready<R>(
        &self,
        notifier: Arc<Notify>,
        mut attempt: impl FnMut(&mut State) -> Poll<io::Result<R>>,
    ) -> io::Result<R> {
        coop::consume_budget().await;
        loop {
            let mut notified = pin!(notifier.notified());
            // From here on no notification is missed.
            notified.as_mut().enable();
            if let Poll::Ready(result) = self.act(&mut attempt) {
                return result;
            }
            notified.await;
        }
    }

    /// Calls `call` with the layers, to query their status or to perform operations other than
    /// those of streams. `call` must not use the host or its streams, which would deadlock.
    pub fn with_layers<R>(&self, call: impl FnOnce(&mut Layers, &mut Cx<'_>) -> R) -> R {
        self.act(|state| {
            let result = state.layers(call);
            state.watchers.notify(&mut state.pending_wakes.notifiers);
            result
        })
    }

    /// Returns a copy of the meter, which includes the time up to now.
    #[must_use]
    pub fn meter(&self) -> Meter {
        let mut meter = self.shared.lock().driver.meter().clone();
        meter.settle();
        meter
    }

    /// Returns the shared counters of the meter, which can be read while the host runs.
    #[must_use]
    pub fn shared_counters(&self) -> Arc<CounterBlock> {
        self.shared.lock().driver.meter().counter_block()
    }

    /// Runs `call` on the state, sends the output it has produced, and wakes tasks for the events
    /// it has caused.
    fn act<R>(&self, call: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.shared.lock();
        let result = call(&mut state);
        state.flush();
        state.notify();
        if state.needs_earlier_turn() {
            self.shared.earlier_deadline.notify_one();
        }
        let pending_wakes = state.take_pending_wakes();
        drop(state);
        pending_wakes.notify();
        result
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // If another thread panics while it holds the lock, the station is in the state between two
        // of its calls.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the host with `failure`.
    fn fail(&self, failure: Failure) {
        let mut state = self.lock();
        state.fail(failure);
        let pending_wakes = state.take_pending_wakes();
        drop(state);
        pending_wakes.notify();
    }
}

/// Application of a station that a tokio program uses. It does nothing, because the program calls
/// the station itself.
struct NoApplication;

impl Application for NoApplication {
    fn wants_to_run(&self) -> bool {
        false
    }

    fn run(&mut self, _layers: &mut Layers, _cx: &mut Cx<'_>) {}
}

impl State {
    /// Calls `call` with the layers, charged to [`Account::TcpFixed`].
    fn layers<R>(&mut self, call: impl FnOnce(&mut Layers, &mut Cx<'_>) -> R) -> R {
        let (station, mut cx) = self.driver.parts();
        let previous_account = cx.meter.enter(Account::TcpFixed);
        let result = call(&mut station.layers, &mut cx);
        cx.meter.enter(previous_account);
        result
    }

    /// Passes pending output to the device.
    fn flush(&mut self) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.driver.flush() {
            self.fail(Failure::of_device(&error));
        }
    }

    /// Reads the device, runs due timers, sends pending output and records the tasks to wake.
    /// Returns whether there may be further work without a wait.
    fn turn(&mut self) -> io::Result<bool> {
        let was_starved = self.driver.parts().0.layers.pool.is_exhausted();
        let turn = self.driver.turn(&mut NoApplication, Some(Instant::ZERO))?;
        self.notify();
        self.notify_datagram_readers();
        self.watchers.notify(&mut self.pending_wakes.notifiers);
        let station = self.driver.parts().0;
        let has_looped = station.has_input();
        self.is_starved = station.layers.pool.is_exhausted();
        self.sleeps_until = self.driver.deadline();
        Ok(turn.packets_in > 0 || has_looped || was_starved && !self.is_starved)
    }

    /// Returns whether the task of the host must run before the end of its sleep.
    fn needs_earlier_turn(&mut self) -> bool {
        let deadline = self.driver.deadline();
        let is_earlier =
            deadline.is_some_and(|at| self.sleeps_until.is_none_or(|scheduled| at < scheduled));
        // If the device is starved, the data read by the program may have freed a packet for it.
        self.is_starved || is_earlier || self.driver.parts().0.has_input()
    }

    /// Records the tasks to wake for the events since the last call.
    fn notify(&mut self) {
        while let Some((id, event)) = self.driver.parts().0.layers.tcp.event() {
            self.wake(id, event);
        }
        if !self.driver.waits_for_room() && !self.driver.parts().0.layers.pool.is_exhausted() {
            self.senders.notify(&mut self.pending_wakes.notifiers);
        }
    }

    fn notify_datagram_readers(&mut self) {
        let udp = &self.driver.parts().0.layers.udp;
        for (socket, waiting) in &mut self.datagrams {
            if waiting.is_waiting() && udp.has_datagram(*socket) {
                waiting.notify(&mut self.pending_wakes.notifiers);
            }
        }
    }

    fn take_pending_wakes(&mut self) -> PendingWakes {
        std::mem::take(&mut self.pending_wakes)
    }

    /// Returns whether the peers have acknowledged all data of the connections closed by this host.
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
        self.pending_wakes.wakers.extend(woken.into_iter().flatten());
    }

    /// Queues an inbound connection until the program accepts it.
    fn accept(&mut self, id: ConnectionId) {
        let tcp = &mut self.driver.parts().0.layers.tcp;
        let port = tcp.status(id).map(|status| status.local.port());
        let listener = port.ok().and_then(|port| self.listeners.get_mut(&port));
        match listener.filter(|listener| listener.open.len() < ACCEPT_LIMIT) {
            Some(listener) => {
                listener.open.push_back(id);
                self.connections.insert(id, Waiting::default());
                listener.waiting.notify(&mut self.pending_wakes.notifiers);
            }
            None => tcp.release(id),
        }
    }

    /// Ends the host with `failure`; a previous failure is kept instead.
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        for (_, waiting) in self.connections.drain() {
            let Waiting { opening, reading, writing } = waiting;
            self.pending_wakes.wakers.extend([opening, reading, writing].into_iter().flatten());
        }
        let ports = self.listeners.values_mut().map(|port| &mut port.waiting);
        let wait_lists = [&mut self.senders, &mut self.watchers];
        for wait_list in ports.chain(self.datagrams.values_mut()).chain(wait_lists) {
            wait_list.notify(&mut self.pending_wakes.notifiers);
        }
    }

    fn check(&self) -> io::Result<()> {
        let failure = self.failure.as_ref();
        failure
            .map_or(Ok(()), |Failure { kind, message }| Err(io::Error::new(*kind, message.clone())))
    }

    /// Returns whether `remote` can be reached: a link-local source address reaches only link-local
    /// addresses.
    fn is_addressed(&mut self, remote: IpAddr) -> bool {
        let is_of_link = |address: IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        let source = self.source_for(remote);
        source.is_ok_and(|source| !is_of_link(source) || is_of_link(remote))
    }

    /// Returns the source address for `remote`.
    fn source_for(&mut self, remote: IpAddr) -> io::Result<IpAddr> {
        let source = self.driver.parts().0.layers.internet.source_for(remote);
        if source.is_unspecified() {
            let message = format!("the host has no source address for a connection to {remote}");
            return Err(io::Error::new(io::ErrorKind::NetworkUnreachable, message));
        }
        Ok(source)
    }
}

impl PendingWakes {
    fn notify(self) {
        self.wakers.into_iter().for_each(Waker::wake);
        self.notifiers.iter().for_each(|notifier| notifier.notify_waiters());
    }
}

impl Failure {
    fn of_device(error: &io::Error) -> Self {
        let question = match Errno::from_io_error(error) {
            Some(Errno::IO | Errno::NETDOWN) => "; is its interface up?",
            _ => "",
        };
        Self { kind: error.kind(), message: format!("the device has failed: {error}{question}") }
    }
}

/// The task's reference to its host. The host fails if the task ends first, because the runtime was
/// dropped or an assertion failed.
#[derive(Debug)]
struct HostTask(Weak<Shared>);

impl Drop for HostTask {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            let message =
                "the task of the host has ended, for example because its runtime was dropped"
                    .to_owned();
            shared.fail(Failure { kind: io::ErrorKind::NotConnected, message });
        }
    }
}

/// Task of the host: reads the device and runs timers as long as a handle of the host exists.
async fn run_host(host: HostTask, device: Registered<OwnedFd>, earlier_deadline: Arc<Notify>) {
    loop {
        let Some(shared) = host.0.upgrade() else { return };
        let (turn, pause, pending_wakes) = {
            let mut state = shared.lock();
            let turn = state.turn();
            if let Err(error) = &turn {
                state.fail(Failure::of_device(error));
            }
            let now = state.driver.clock().now();
            let sleeps_for = state.sleeps_until.map(|until| until.since(now));
            let pause = Pause { sleeps_for, waits_for_space: state.driver.waits_for_room() };
            (turn, pause, state.take_pending_wakes())
        };
        drop(shared);
        pending_wakes.notify();
        match turn {
            // Let other tasks run between two turns of a busy device.
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => wait(&device, &earlier_deadline, pause).await,
            Err(_) => return,
        }
    }
}

/// Events for which the task of the host waits, apart from packets.
#[derive(Clone, Copy, Debug)]
struct Pause {
    sleeps_for: Option<Duration>,
    /// True if the device had no space for a packet.
    waits_for_space: bool,
}

/// Waits until the device is ready, a timer is due, or an earlier timer is set.
async fn wait(device: &Registered<OwnedFd>, earlier_deadline: &Notify, pause: Pause) {
    let timer_due = async {
        match pause.sleeps_for {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let mut interest = Interest::READABLE | Interest::ERROR;
    if pause.waits_for_space {
        interest |= Interest::WRITABLE;
    }
    tokio::select! {
        biased;
        ready = device.ready(interest) => {
            // The turn that follows reads until the device is empty, and then waits again.
            if let Ok(mut ready) = ready {
                ready.clear_ready();
            }
        }
        () = earlier_deadline.notified() => {}
        () = timer_due => {}
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Without a wake-up, the task of the host might sleep indefinitely instead of ending.
        self.earlier_deadline.notify_one();
    }
}

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
