//! Virtual time, and the one call that may block in it.
//!
//! The runner has two threads. One, called the *driver* here, executes the script: it injects
//! packets, waits for packets and lets time pass. The other makes the system calls that the script
//! expects to block. The runner looks into `/proc` to see whether that thread sleeps, so a blocking
//! call really sleeps, on a condition variable.
//!
//! Time advances only in calls of the driver, from one event to the next. After each event a
//! blocked call checks again whether it can continue, and the driver waits for this check. A call
//! that continues next asks for the time, for the runner's record of its return. The driver waits
//! for that too, so that no time passes in between, independent of the scheduling of the threads.

use crate::host::Sent;
use crate::world::World;
use protocols::Instant;
use protocols::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
// These waits are for another thread of this process, in real time.
use std::time::Duration as RealTime;

/// Result of an attempt at a call.
#[derive(Debug)]
pub(crate) enum Attempt<T> {
    /// The call has finished.
    Done(T),
    /// The call must wait, at most until this time.
    Blocked(Option<Instant>),
}

/// No further event can happen: no packet, no timer, no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle;

/// State of the blocked call.
#[derive(Debug, Default)]
struct Sleeper {
    is_asleep: bool,
    /// It has checked its condition since the last event.
    has_looked: bool,
    wakes_at: Option<Instant>,
    /// The call has continued and not yet asked for the time.
    returning: Option<ThreadId>,
}

#[derive(Debug)]
struct Scene {
    world: World,
    sleeper: Sleeper,
    driver: Option<ThreadId>,
}

/// The world under test and the threads that use it.
#[derive(Debug)]
pub(crate) struct Stage {
    scene: Mutex<Scene>,
    changed: Condvar,
}

/// Advance of the clock with each reading: the runner spins on the clock.
const LOOK: Duration = Duration::from_micros(1);
/// Maximum real time to wait until a returning call asks for the time.
const RETURN_LIMIT: RealTime = RealTime::from_millis(200);
/// Real time to wait for a packet from the call of another thread if no event is pending.
const IDLE_LIMIT: RealTime = RealTime::from_millis(50);

type Guard<'a> = MutexGuard<'a, Scene>;

impl Stage {
    /// Creates the stage.
    pub(crate) fn new(world: World) -> Self {
        let scene = Scene { world, sleeper: Sleeper::default(), driver: None };
        Self { scene: Mutex::new(scene), changed: Condvar::new() }
    }

    fn lock(&self) -> Guard<'_> {
        // A panic ends the process at the C interface before any thread sees a poisoned lock.
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call that never blocks.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&mut World) -> T) -> T {
        let mut scene = self.lock();
        let result = call(&mut scene.world);
        scene.world.settle();
        drop(self.show(scene));
        result
    }

    /// Makes a call that may block. In a call of the driver, blocking lets time pass.
    pub(crate) fn call_or_sleep<T>(
        &self,
        mut attempt: impl FnMut(&mut World) -> Attempt<T>,
    ) -> Result<T, Idle> {
        let me = std::thread::current().id();
        let mut scene = self.lock();
        let mut has_slept = false;
        loop {
            let outcome = attempt(&mut scene.world);
            scene.world.settle();
            let until = match outcome {
                Attempt::Done(result) => {
                    if has_slept {
                        scene.sleeper = Sleeper { returning: Some(me), ..Sleeper::default() };
                        self.changed.notify_all();
                    } else if scene.driver == Some(me) {
                        drop(self.show(scene));
                    }
                    return Ok(result);
                }
                Attempt::Blocked(until) => until,
            };
            if scene.driver == Some(me) {
                scene = self.next_event(scene, until)?;
                continue;
            }
            has_slept = true;
            let sleeper = &mut scene.sleeper;
            (sleeper.is_asleep, sleeper.has_looked, sleeper.wakes_at) = (true, true, until);
            self.changed.notify_all();
            scene = self.wait_while(scene, |scene| scene.sleeper.has_looked);
        }
    }

    fn wait_while<'a>(
        &self,
        scene: Guard<'a>,
        condition: impl FnMut(&mut Scene) -> bool,
    ) -> Guard<'a> {
        self.changed.wait_while(scene, condition).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_at_most<'a>(
        &self,
        scene: Guard<'a>,
        limit: RealTime,
        condition: impl FnMut(&mut Scene) -> bool,
    ) -> Guard<'a> {
        let waited = self.changed.wait_timeout_while(scene, limit, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Lets the blocked call check its condition, and continue if it can.
    fn show<'a>(&self, mut scene: Guard<'a>) -> Guard<'a> {
        if scene.sleeper.is_asleep {
            scene.sleeper.has_looked = false;
            self.changed.notify_all();
            scene = self
                .wait_while(scene, |scene| scene.sleeper.is_asleep && !scene.sleeper.has_looked);
        }
        if scene.sleeper.returning.is_some() {
            scene =
                self.wait_at_most(scene, RETURN_LIMIT, |scene| scene.sleeper.returning.is_some());
            scene.sleeper.returning = None;
        }
        scene
    }

    /// Advances the time to the next event, or to `until` if that is earlier.
    fn next_event<'a>(
        &'a self,
        mut scene: Guard<'a>,
        until: Option<Instant>,
    ) -> Result<Guard<'a>, Idle> {
        let next = [scene.world.deadline(), scene.sleeper.wakes_at, until];
        let Some(at) = next.into_iter().flatten().min() else { return Err(Idle) };
        scene.world.advance(at);
        Ok(self.show(scene))
    }

    /// Advances the time to `to`, one event after another.
    fn pass<'a>(&'a self, mut scene: Guard<'a>, to: Instant) -> Guard<'a> {
        loop {
            let next = [scene.world.deadline(), scene.sleeper.wakes_at];
            let Some(at) = next.into_iter().flatten().min().filter(|at| *at <= to) else {
                scene.world.advance(to);
                return scene;
            };
            scene.world.advance(at);
            scene = self.show(scene);
        }
    }

    /// Injects a packet from the script.
    pub(crate) fn inject(&self, bytes: &[u8]) {
        self.call(|world| world.inject(bytes));
    }

    /// Returns the next packet sent; time passes until there is one.
    ///
    /// # Errors
    ///
    /// Returns [`Idle`] if no packet can ever be sent.
    pub(crate) fn next_sent(&self) -> Result<Sent, Idle> {
        let mut scene = self.lock();
        let mut patience = 2;
        loop {
            if let Some(sent) = scene.world.next_sent() {
                return Ok(sent);
            }
            if scene.world.deadline().or(scene.sleeper.wakes_at).is_some() {
                scene = self.next_event(scene, None)?;
            } else if patience == 0 {
                return Err(Idle);
            } else {
                patience -= 1;
                scene = self.wait_at_most(scene, IDLE_LIMIT, |scene| !scene.world.has_sent());
            }
        }
    }

    /// Lets `time` pass.
    pub(crate) fn sleep(&self, time: Duration) {
        let scene = self.lock();
        let to = scene.world.now() + time;
        drop(self.pass(scene, to));
    }

    /// Returns the time, which advances by a microsecond with each reading.
    pub(crate) fn look_at_clock(&self) -> Instant {
        let me = std::thread::current().id();
        let mut scene = self.lock();
        if scene.sleeper.returning == Some(me) {
            scene.sleeper.returning = None;
            self.changed.notify_all();
            return scene.world.now();
        }
        // The thread that executes the script reads the clock first. The other thread reads it too,
        // while it waits for the start of its call, and then only that thread runs.
        scene.driver.get_or_insert(me);
        let to = scene.world.now() + LOOK;
        scene = self.pass(scene, to);
        scene.world.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ACK, IRS, PORT, SYN, accepted, datagram, listener, seen, stage};

    /// Waits until a call of another thread sleeps.
    fn await_sleeper(stage: &Stage) {
        let scene = stage.lock();
        drop(stage.wait_while(scene, |scene| !scene.sleeper.is_asleep));
    }

    #[test]
    fn the_clock_moves_with_every_look() {
        let stage = stage();
        let first = stage.look_at_clock();
        assert_eq!(stage.look_at_clock(), first + LOOK);
    }

    #[test]
    fn what_a_timer_sends_while_time_passes_leaves_at_its_time() {
        let stage = stage();
        listener(&stage);
        stage.inject(&datagram(PORT, SYN, IRS, 0, b""));
        let first = stage.next_sent().unwrap();
        stage.sleep(Duration::from_millis(1500));
        let again = stage.next_sent().unwrap();
        assert_eq!(again.at - first.at, Duration::from_secs(1));
    }

    #[test]
    fn a_wait_for_a_packet_that_never_comes_ends() {
        let stage = stage();
        listener(&stage);
        assert_eq!(stage.next_sent().unwrap_err(), Idle);
    }

    #[test]
    fn a_read_that_sleeps_returns_at_the_time_of_its_data() {
        let stage = stage();
        let (fd, ours) = accepted(&stage);
        stage.look_at_clock();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut buffer = [0; 10];
                let read = stage.call_or_sleep(|world| {
                    world.stream(fd).unwrap().0.is_nonblocking = false;
                    world.read(fd, &mut buffer, 0)
                });
                (read, stage.look_at_clock(), buffer)
            });
            await_sleeper(&stage);
            stage.sleep(Duration::from_millis(7));
            let at = stage.lock().world.now();
            stage.inject(&datagram(PORT, ACK, IRS + 1, ours, b"hello"));
            stage.sleep(Duration::from_secs(1));
            let (read, returned_at, buffer) = reader.join().unwrap();
            assert_eq!((read, returned_at), (Ok(Ok(5)), at));
            assert_eq!(&buffer[..5], b"hello");
        });
    }

    #[test]
    fn a_call_of_the_script_itself_that_blocks_lets_time_pass() {
        let stage = stage();
        let now = stage.look_at_clock();
        let until = now + Duration::from_secs(2);
        let result = stage.call_or_sleep(|world| {
            if world.now() < until { Attempt::Blocked(Some(until)) } else { Attempt::Done(()) }
        });
        assert_eq!(result, Ok(()));
        assert_eq!(stage.lock().world.now(), until);
    }

    #[test]
    fn a_call_of_the_script_itself_that_would_block_for_ever_ends() {
        let stage = stage();
        stage.look_at_clock();
        assert_eq!(stage.call_or_sleep(|_| Attempt::<()>::Blocked(None)), Err(Idle));
    }

    #[test]
    fn an_acknowledgment_leaves_at_once() {
        let stage = stage();
        let (_, ours) = accepted(&stage);
        stage.inject(&datagram(PORT, ACK, IRS + 1, ours, b"hello"));
        assert_eq!(seen(&stage).ack, IRS + 6);
    }
}
