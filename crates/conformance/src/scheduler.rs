//! Virtual time, and the blocked system call, of which there is at most one.
//!
//! The runner has two threads. The first one, called the *driver* here, executes the script: it
//! injects packets, waits for packets and sleeps. The second one makes the system calls that the
//! script expects to block. The runner checks in `/proc` whether this thread sleeps, so a blocking
//! call really sleeps, on a condition variable.
//!
//! Virtual time advances only in calls of the driver, from one event to the next. After each event
//! a blocked call checks again whether it can continue, and the driver waits for this check. When a
//! call continues, its thread reads the clock, and the runner records this reading as the return
//! time of the call. The driver waits for this reading too, so that no virtual time passes before
//! it, independent of the scheduling of the threads.

use crate::attempt::Attempt;
use crate::host_under_test::SentDatagram;
use crate::world::World;
use net::Instant;
use net::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
// These waits are for another thread of this process, in real time.
use std::time::Duration as RealTime;

/// Error: no further event can happen, because no packet, timer or call is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle;

/// State of a call that sleeps until it can continue.
#[derive(Debug, Default)]
struct Sleeper {
    is_asleep: bool,
    /// Whether the blocked call has checked its condition since the last event.
    has_checked: bool,
    wakes_at: Option<Instant>,
    /// Thread of a call that has continued and has not read the clock yet.
    returning: Option<ThreadId>,
}

#[derive(Debug)]
struct State {
    world: World,
    sleeper: Sleeper,
    driver: Option<ThreadId>,
}

/// The world under test and the threads that use it.
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    changed: Condvar,
}

/// Virtual time by which each reading advances the clock, because the runner busy-waits on the
/// clock.
const CLOCK_STEP: Duration = Duration::from_micros(1);
/// Maximum real time to wait until the thread of a returning call reads the clock.
const RETURN_TIMEOUT: RealTime = RealTime::from_millis(200);
/// Maximum real time to wait for a packet sent by a call of the other thread if no event is
/// pending.
const IDLE_TIMEOUT: RealTime = RealTime::from_millis(50);

type Guard<'a> = MutexGuard<'a, State>;

impl Scheduler {
    pub(crate) fn new(world: World) -> Self {
        let state = State { world, sleeper: Sleeper::default(), driver: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> Guard<'_> {
        // A panic ends the process at the C interface before any thread sees a poisoned lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a call that never blocks.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&mut World) -> T) -> T {
        let mut state = self.lock();
        let result = call(&mut state.world);
        state.world.settle();
        drop(self.let_blocked_call_check(state));
        result
    }

    /// Executes a call that may block. If the driver makes the call, virtual time advances until
    /// the call can continue.
    pub(crate) fn call_or_sleep<T>(
        &self,
        mut attempt: impl FnMut(&mut World) -> Attempt<T>,
    ) -> Result<T, Idle> {
        let current_thread = std::thread::current().id();
        let mut state = self.lock();
        let mut has_slept = false;
        loop {
            let outcome = attempt(&mut state.world);
            state.world.settle();
            let until = match outcome {
                Attempt::Done(result) => {
                    if has_slept {
                        state.sleeper =
                            Sleeper { returning: Some(current_thread), ..Sleeper::default() };
                        self.changed.notify_all();
                    } else if state.driver == Some(current_thread) {
                        drop(self.let_blocked_call_check(state));
                    }
                    return Ok(result);
                }
                Attempt::Blocked(until) => until,
            };
            if state.driver == Some(current_thread) {
                state = self.next_event(state, until)?;
                continue;
            }
            has_slept = true;
            let sleeper = &mut state.sleeper;
            sleeper.is_asleep = true;
            sleeper.has_checked = true;
            sleeper.wakes_at = until;
            self.changed.notify_all();
            state = self.wait_while(state, |state| state.sleeper.has_checked);
        }
    }

    fn wait_while<'a>(
        &self,
        state: Guard<'a>,
        condition: impl FnMut(&mut State) -> bool,
    ) -> Guard<'a> {
        self.changed.wait_while(state, condition).unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_at_most<'a>(
        &self,
        state: Guard<'a>,
        limit: RealTime,
        condition: impl FnMut(&mut State) -> bool,
    ) -> Guard<'a> {
        let waited = self.changed.wait_timeout_while(state, limit, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Lets the blocked call check its condition, and continue if it can.
    fn let_blocked_call_check<'a>(&self, mut state: Guard<'a>) -> Guard<'a> {
        if state.sleeper.is_asleep {
            state.sleeper.has_checked = false;
            self.changed.notify_all();
            state = self
                .wait_while(state, |state| state.sleeper.is_asleep && !state.sleeper.has_checked);
        }
        if state.sleeper.returning.is_some() {
            state =
                self.wait_at_most(state, RETURN_TIMEOUT, |state| state.sleeper.returning.is_some());
            state.sleeper.returning = None;
        }
        state
    }

    /// Advances the time to the next event, or to `until` if that is earlier.
    fn next_event<'a>(
        &'a self,
        mut state: Guard<'a>,
        until: Option<Instant>,
    ) -> Result<Guard<'a>, Idle> {
        let next = [state.world.deadline(), state.sleeper.wakes_at, until];
        let Some(at) = next.into_iter().flatten().min() else { return Err(Idle) };
        state.world.advance(at);
        Ok(self.let_blocked_call_check(state))
    }

    /// Advances the virtual time to `to`, and processes all events until then.
    fn pass<'a>(&'a self, mut state: Guard<'a>, to: Instant) -> Guard<'a> {
        loop {
            let next = [state.world.deadline(), state.sleeper.wakes_at];
            let Some(at) = next.into_iter().flatten().min().filter(|at| *at <= to) else {
                state.world.advance(to);
                return state;
            };
            state.world.advance(at);
            state = self.let_blocked_call_check(state);
        }
    }

    /// Injects a packet from the script.
    pub(crate) fn inject(&self, bytes: &[u8]) {
        self.call(|world| world.inject(bytes));
    }

    /// Returns the next sent packet. Virtual time advances until there is one.
    ///
    /// # Errors
    ///
    /// Returns [`Idle`] if no packet can ever be sent.
    pub(crate) fn next_sent(&self) -> Result<SentDatagram, Idle> {
        let mut state = self.lock();
        let mut attempts_left = 2;
        loop {
            if let Some(sent) = state.world.next_sent() {
                return Ok(sent);
            }
            if state.world.deadline().or(state.sleeper.wakes_at).is_some() {
                state = self.next_event(state, None)?;
            } else if attempts_left == 0 {
                return Err(Idle);
            } else {
                attempts_left -= 1;
                state = self.wait_at_most(state, IDLE_TIMEOUT, |state| !state.world.has_sent());
            }
        }
    }

    /// Advances the virtual time by `time`.
    pub(crate) fn sleep(&self, time: Duration) {
        let state = self.lock();
        let to = state.world.now() + time;
        drop(self.pass(state, to));
    }

    /// Returns the virtual time. Each reading advances it by a microsecond.
    pub(crate) fn read_clock(&self) -> Instant {
        let current_thread = std::thread::current().id();
        let mut state = self.lock();
        if state.sleeper.returning == Some(current_thread) {
            state.sleeper.returning = None;
            self.changed.notify_all();
            return state.world.now();
        }
        // The thread that executes the script reads the clock first. The other thread also reads
        // the clock, while it waits for the start of its call; at that time the first thread is
        // already known.
        state.driver.get_or_insert(current_thread);
        let to = state.world.now() + CLOCK_STEP;
        state = self.pass(state, to);
        state.world.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_peer::{
        ACK, IRS, PORT, SYN, accepted, datagram, listener, next_segment, scheduler,
    };

    /// Waits until a call of the other thread sleeps.
    fn await_sleeper(scheduler: &Scheduler) {
        let state = scheduler.lock();
        drop(scheduler.wait_while(state, |state| !state.sleeper.is_asleep));
    }

    #[test]
    fn the_clock_advances_with_every_reading() {
        let scheduler = scheduler();
        let first = scheduler.read_clock();
        assert_eq!(scheduler.read_clock(), first + CLOCK_STEP);
    }

    #[test]
    fn a_retransmission_during_a_sleep_is_sent_at_its_time() {
        let scheduler = scheduler();
        listener(&scheduler);
        scheduler.inject(&datagram(PORT, SYN, IRS, 0, b""));
        let first = scheduler.next_sent().unwrap();
        scheduler.sleep(Duration::from_millis(1500));
        let retransmitted = scheduler.next_sent().unwrap();
        assert_eq!(retransmitted.at - first.at, Duration::from_secs(1));
    }

    #[test]
    fn a_wait_for_a_packet_that_is_never_sent_ends() {
        let scheduler = scheduler();
        listener(&scheduler);
        assert_eq!(scheduler.next_sent().unwrap_err(), Idle);
    }

    #[test]
    fn a_sleeping_read_returns_when_its_data_arrives() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        scheduler.read_clock();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut buffer = [0; 10];
                let read = scheduler.call_or_sleep(|world| {
                    world.stream(fd).unwrap().0.is_nonblocking = false;
                    world.read(fd, &mut buffer, 0)
                });
                (read, scheduler.read_clock(), buffer)
            });
            await_sleeper(&scheduler);
            scheduler.sleep(Duration::from_millis(7));
            let at = scheduler.lock().world.now();
            scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"hello"));
            scheduler.sleep(Duration::from_secs(1));
            let (read, returned_at, buffer) = reader.join().unwrap();
            assert_eq!((read, returned_at), (Ok(Ok(5)), at));
            assert_eq!(&buffer[..5], b"hello");
        });
    }

    #[test]
    fn a_blocking_call_of_the_driver_lets_time_pass() {
        let scheduler = scheduler();
        let now = scheduler.read_clock();
        let until = now + Duration::from_secs(2);
        let result = scheduler.call_or_sleep(|world| {
            if world.now() < until { Attempt::Blocked(Some(until)) } else { Attempt::Done(()) }
        });
        assert_eq!(result, Ok(()));
        assert_eq!(scheduler.lock().world.now(), until);
    }

    #[test]
    fn a_call_of_the_driver_that_would_block_indefinitely_ends() {
        let scheduler = scheduler();
        scheduler.read_clock();
        assert_eq!(scheduler.call_or_sleep(|_| Attempt::<()>::Blocked(None)), Err(Idle));
    }

    #[test]
    fn an_acknowledgment_is_sent_immediately() {
        let scheduler = scheduler();
        let (_, local_seq) = accepted(&scheduler);
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"hello"));
        assert_eq!(next_segment(&scheduler).ack, IRS + 6);
    }
}
