//! Time, and the one call that may be blocked in it.
//!
//! The runner has two threads. One, here the *driver*, plays the script: it injects packets, waits
//! for packets and lets time pass. The other makes the system calls that the script expects to
//! block; the runner looks into `/proc` to see whether it sleeps, so a call that blocks really
//! sleeps, on a condition variable.
//!
//! Time moves only in calls of the driver, from one event to the next. After each event a blocked
//! call looks again whether it can go on, and the driver waits until it has looked. A call that
//! does go on asks for the time next, for the runner's record of when it returned; the driver
//! waits for that too, so that no time passes in between however the threads are scheduled.

use crate::host::Sent;
use crate::world::World;
use protocols::Instant;
use protocols::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
// What is waited for here is another thread of this process, in real time.
use std::time::Duration as RealTime;

/// What came of an attempt at a call.
#[derive(Debug)]
pub(crate) enum Attempt<T> {
    /// It is over.
    Done(T),
    /// It must wait, at most until this moment.
    Blocked(Option<Instant>),
}

/// Nothing happens any more: no packet, no timer, no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle;

/// A call that sleeps.
#[derive(Debug, Default)]
struct Sleeper {
    is_asleep: bool,
    /// It has looked since something happened.
    has_looked: bool,
    wakes_at: Option<Instant>,
    /// It has gone on and not yet asked for the time.
    returning: Option<ThreadId>,
}

#[derive(Debug)]
struct Scene {
    world: World,
    sleeper: Sleeper,
    driver: Option<ThreadId>,
}

/// The world under test and the threads that act in it.
#[derive(Debug)]
pub(crate) struct Stage {
    scene: Mutex<Scene>,
    changed: Condvar,
}

/// The runner spins on the clock, so it must move with every look.
const LOOK: Duration = Duration::from_micros(1);
/// How long a returning call is waited for before it is taken to want no time.
const RETURN_LIMIT: RealTime = RealTime::from_millis(200);
/// How long another thread may take to come to where it sleeps.
const IDLE_LIMIT: RealTime = RealTime::from_millis(50);

type Guard<'a> = MutexGuard<'a, Scene>;

impl Stage {
    /// Makes the stage.
    pub(crate) fn new(world: World) -> Self {
        let scene = Scene { world, sleeper: Sleeper::default(), driver: None };
        Self { scene: Mutex::new(scene), changed: Condvar::new() }
    }

    fn lock(&self) -> Guard<'_> {
        // A panic has ended the process at the C interface before anyone sees the poison.
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

    /// Makes a call that may block. The driver's own calls block by letting time pass.
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

    /// Lets the sleeper look at what has happened, and go if it can.
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

    /// Lets time pass to the next event, or to `until` if that is sooner.
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

    /// Lets time pass until `to`, one event after the other.
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

    /// Takes a packet from the script.
    pub(crate) fn inject(&self, bytes: &[u8]) {
        self.call(|world| world.inject(bytes));
    }

    /// Returns the next packet that left; time passes until there is one.
    ///
    /// # Errors
    ///
    /// If there will never be one.
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

    /// Returns the time, which moves by a microsecond with every look.
    pub(crate) fn look_at_clock(&self) -> Instant {
        let me = std::thread::current().id();
        let mut scene = self.lock();
        if scene.sleeper.returning == Some(me) {
            scene.sleeper.returning = None;
            self.changed.notify_all();
            return scene.world.now();
        }
        // The first to ask is the thread that plays the script. The other one asks too, while it
        // waits for the time of its call, and then it alone runs.
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
