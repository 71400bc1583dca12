//! Tests of the control structures: rings of procedures, tasks and futures. The procedure, task or
//! future at each position of a ring only records that it ran.

use super::*;
use net::time::Duration;
use os::clock::Monotonic;
use os::readiness::PollFlags;
use proptest::prelude::*;
use std::cell::Cell;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;

/// Record of the turns, and the flags that each position sets at its first turn.
#[derive(Debug, Default)]
struct Log {
    turns: Vec<usize>,
    wakes: Vec<Vec<usize>>,
}

impl Log {
    /// Records a turn, and sets the flags that the position sets at its first turn.
    fn turn(&mut self, position: usize, flags: &(impl Wake + ?Sized)) {
        self.turns.push(position);
        let wakes = self.wakes.get_mut(position).map(std::mem::take).unwrap_or_default();
        wakes.into_iter().for_each(|other| flags.wake(other));
    }
}

fn procedures(count: usize) -> Procedures<Log> {
    let mut ring = Procedures::default();
    for _ in 0..count {
        ring.add(|log: &mut Log, position, flags| log.turn(position, flags)).unwrap();
    }
    ring
}

fn tasks(switch: Switch, count: usize) -> Tasks<Log> {
    let mut ring = Tasks::<Log>::new(switch);
    for position in 0..count {
        let spawned = ring.spawn(move |task| {
            let flags = task.flags().clone();
            loop {
                task.value().turn(position, &flags);
                task.block();
            }
        });
        assert_eq!(spawned.unwrap(), position);
    }
    ring
}

fn futures(count: usize) -> Futures<Log> {
    let mut ring = Futures::<Log>::default();
    for position in 0..count {
        let spawned = ring.spawn(|mut handle| async move {
            let flags = handle.flags();
            loop {
                handle.with(|log: &mut Log| log.turn(position, &flags));
                handle.block().await;
            }
        });
        assert_eq!(spawned.unwrap(), position);
    }
    ring
}

const SWITCHES: [Switch; 2] = [Switch::ByRing, Switch::Direct];

fn rings(count: usize) -> [Box<dyn Ring<Log>>; 4] {
    let [by_ring, direct] = SWITCHES.map(|switch| tasks(switch, count));
    [Box::new(procedures(count)), Box::new(by_ring), Box::new(direct), Box::new(futures(count))]
}

proptest! {
    #[test]
    fn every_ring_gives_the_same_turns_for_the_same_wakes(
        first in prop::collection::vec(0..4_usize, 0..6),
        wakes in prop::collection::vec(prop::collection::vec(0..4_usize, 0..4), 4),
        singles in 0..4_usize,
    ) {
        let turns = rings(4).map(|mut ring| {
            let mut log = Log { turns: Vec::new(), wakes: wakes.clone() };
            first.iter().for_each(|position| ring.wake(*position));
            for _ in 0..singles {
                ring.run_one(&mut log);
            }
            ring.run(&mut log);
            log.turns
        });
        prop_assert!(turns.iter().all(|other| *other == turns[0]), "{turns:?}");
    }

    #[test]
    fn no_wake_is_lost_whichever_thread_sets_it_and_when(
        first in prop::collection::vec(0..4_usize, 0..6),
        wakes in prop::collection::vec(prop::collection::vec(0..4_usize, 0..4), 4),
    ) {
        for mut ring in rings(4) {
            let mut log = Log { turns: Vec::new(), wakes: wakes.clone() };
            first.iter().for_each(|position| ring.wake(*position));
            ring.run(&mut log);
            // Every position that was woken during a turn gets a later turn.
            let first_turn_of = |position| log.turns.iter().position(|other| *other == position);
            for position in &first {
                prop_assert!(first_turn_of(*position).is_some());
            }
            for (waker, woken) in wakes.iter().enumerate() {
                let Some(at) = first_turn_of(waker) else { continue };
                for position in woken {
                    let later_turns = &log.turns[at + 1..];
                    prop_assert!(later_turns.contains(position), "{position} by {waker}: {log:?}");
                }
            }
        }
    }
}

#[test]
fn positions_that_are_always_woken_get_turns_round_robin() {
    for mut ring in rings(3) {
        let mut log = Log::default();
        for round in 0..30 {
            (0..3).for_each(|position| ring.wake(position));
            assert_eq!(ring.run_one(&mut log), Some(round % 3));
        }
        assert_eq!(log.turns, (0..30).map(|turn| turn % 3).collect::<Vec<_>>());
    }
}

#[test]
fn a_position_that_wakes_itself_waits_for_the_turns_of_all_others() {
    for mut ring in rings(3) {
        let wakes = vec![vec![0, 1, 2], Vec::new(), Vec::new()];
        let mut log = Log { turns: Vec::new(), wakes };
        ring.wake(0);
        ring.run(&mut log);
        assert_eq!(log.turns, [0, 1, 2, 0]);
    }
}

#[test]
fn an_empty_position_gets_no_turn() {
    for mut ring in rings(2) {
        let mut log = Log::default();
        ring.wake(2);
        ring.wake(POSITIONS_MAX + 1);
        assert_eq!(ring.run_one(&mut log), None);
        assert_eq!(log.turns, []);
    }
}

#[test]
fn a_ring_has_sixty_four_positions_and_no_more() {
    for switch in SWITCHES {
        let mut ring = tasks(switch, POSITIONS_MAX);
        assert!(matches!(ring.spawn(|_| {}), Err(SpawnError::Full)));
    }
    let mut ring = futures(POSITIONS_MAX);
    assert!(matches!(ring.spawn(|_| async {}), Err(SpawnError::Full)));
    let mut ring = Procedures::<Log>::default();
    (0..POSITIONS_MAX).for_each(|_| _ = ring.add(|_, _, _| {}).unwrap());
    assert!(matches!(ring.add(|_, _, _| {}), Err(SpawnError::Full)));
}

#[test]
fn a_task_continues_where_it_blocked_with_its_variables() {
    for switch in SWITCHES {
        let mut ring = Tasks::<Vec<u32>>::new(switch);
        let spawned = ring.spawn(|task| {
            let mut a = 0;
            let mut b = 1;
            for _ in 0..5 {
                task.value().push(a);
                task.block();
                let next = a + b;
                a = b;
                b = next;
            }
        });
        let mut numbers = Vec::new();
        for _ in 0..10 {
            ring.wake(spawned.as_ref().copied().unwrap());
            ring.run(&mut numbers);
        }
        assert_eq!(numbers, [0, 1, 1, 2, 3]);
    }
}

#[test]
fn a_task_that_has_ended_gets_no_more_turns() {
    for switch in SWITCHES {
        let mut ring = Tasks::<u32>::new(switch);
        ring.spawn(|task| *task.value() += 1).unwrap();
        let mut turns = 0;
        for _ in 0..3 {
            ring.wake(0);
            ring.run(&mut turns);
        }
        assert_eq!(turns, 1);
    }
}

#[test]
fn a_panic_of_a_task_propagates_from_the_ring_and_the_others_continue() {
    for switch in SWITCHES {
        let mut ring = Tasks::<Log>::new(switch);
        ring.spawn(|task| {
            task.value().turns.push(0);
            task.block();
            panic!("so be it");
        })
        .unwrap();
        ring.spawn(|task| {
            loop {
                task.value().turns.push(1);
                task.block();
            }
        })
        .unwrap();
        let mut log = Log::default();
        (0..2).for_each(|position| ring.wake(position));
        ring.run(&mut log);
        (0..2).for_each(|position| ring.wake(position));
        let panic = catch_unwind(AssertUnwindSafe(|| ring.run(&mut log))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"so be it"));
        ring.wake(0);
        ring.run(&mut log);
        assert_eq!(log.turns, [0, 1, 1]);
    }
}

#[test]
fn a_panic_of_a_future_propagates_from_the_ring_and_the_others_continue() {
    let mut ring = Futures::<u32>::default();
    ring.spawn(|_| async { panic!("so be it") }).unwrap();
    ring.spawn(|mut handle| async move { handle.with(|turns| *turns += 1) }).unwrap();
    let mut turns = 0;
    (0..2).for_each(|position| ring.wake(position));
    let panic = catch_unwind(AssertUnwindSafe(|| ring.run(&mut turns))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"so be it"));
    ring.wake(0);
    ring.run(&mut turns);
    assert_eq!(turns, 1);
}

/// Counts dropped values.
struct Dropped(Rc<Cell<usize>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn dropping_a_ring_drops_the_values_on_the_stacks_of_its_tasks() {
    for switch in SWITCHES {
        let dropped = Rc::new(Cell::new(0));
        let mut ring = Tasks::<()>::new(switch);
        for _ in 0..3 {
            let counter = Dropped(Rc::clone(&dropped));
            let spawned = ring.spawn(move |task| {
                let _second = Dropped(Rc::clone(&counter.0));
                loop {
                    task.block();
                }
            });
            spawned.unwrap();
        }
        // The third task never starts.
        (0..2).for_each(|position| ring.wake(position));
        ring.run(&mut ());
        assert_eq!(dropped.get(), 0);
        drop(ring);
        assert_eq!(dropped.get(), 5);
    }
}

#[test]
fn a_ring_that_is_dropped_by_a_panic_unwinds_its_tasks_too() {
    for switch in SWITCHES {
        let dropped = Rc::new(Cell::new(0));
        let counter = Rc::clone(&dropped);
        let panic = catch_unwind(AssertUnwindSafe(move || {
            let mut ring = Tasks::<()>::new(switch);
            ring.spawn(move |task| {
                let _one = Dropped(counter);
                task.block();
            })
            .unwrap();
            ring.wake(0);
            ring.run(&mut ());
            panic!("out");
        }));
        assert!(panic.is_err());
        assert_eq!(dropped.get(), 1);
    }
}

#[test]
fn a_destructor_that_blocks_while_its_ring_is_dropped_does_not_wait() {
    struct Blocks<'a, 'b>(&'a mut Task<'b, ()>);
    impl Drop for Blocks<'_, '_> {
        fn drop(&mut self) {
            self.0.block();
        }
    }
    let mut ring = Tasks::<()>::new(Switch::Direct);
    ring.spawn(|task| Blocks(task).0.block()).unwrap();
    ring.wake(0);
    ring.run(&mut ());
    drop(ring);
}

#[test]
fn the_value_cannot_be_borrowed_twice_at_a_time() {
    let mut ring = Futures::<u32>::default();
    let other = Rc::new(Cell::new(None));
    let kept = Rc::clone(&other);
    ring.spawn(|handle| {
        kept.set(Some(handle));
        async {}
    })
    .unwrap();
    ring.spawn(|mut handle| async move {
        handle.with(|_| other.take().map(|mut other| other.with(|number| *number = 1)));
    })
    .unwrap();
    ring.wake(1);
    let mut number = 0;
    assert!(catch_unwind(AssertUnwindSafe(|| ring.run(&mut number))).is_err());
    assert_eq!(number, 0);
}

#[test]
fn a_waker_on_another_thread_schedules_a_future() {
    let mut ring = Futures::<u32>::default();
    ring.spawn(|mut handle| async move {
        let position = handle.position();
        assert_eq!(position, 0);
        let waker = std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())).await;
        std::thread::spawn(move || waker.wake()).join().unwrap();
        handle.block().await;
        handle.with(|turns| *turns += 1);
    })
    .unwrap();
    ring.wake(0);
    let mut turns = 0;
    ring.run(&mut turns);
    assert_eq!(turns, 1);
}

#[test]
fn a_signal_wakes_only_its_own_position() {
    let (reader, mut writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut ring = procedures(4);
    let clock = Monotonic::start();
    let mut signals = Signals::default();
    assert!(signals.watch(&reader, PollFlags::IN, 2));
    signals.set_timer(3, Some(clock.now() + Duration::from_secs(3600)));
    signals.set_timer(1, Some(clock.now()));
    let mut log = Log::default();
    assert_eq!(signals.wait(&ring, &clock, None).unwrap().1, 1 << 1);
    ring.run(&mut log);
    writer.write_all(b"x").unwrap();
    assert_eq!(signals.wait(&ring, &clock, None).unwrap().1, 1 << 2);
    ring.run(&mut log);
    // The first timer has expired, and the second has not.
    signals.set_timer(3, None);
    assert_eq!(log.turns, [1, 2]);
}

#[test]
fn a_signal_routine_watches_no_more_descriptors_than_there_are_positions() {
    let (reader, _writer) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut signals = Signals::default();
    let watched = (0..100).filter(|_| signals.watch(&reader, PollFlags::IN, 0)).count();
    assert_eq!(watched, POSITIONS_MAX);
}

#[expect(unconditional_recursion, reason = "to overflow the stack is what it is for")]
fn overflow(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 512]);
    overflow(frame[0] + 1) + frame[1]
}

fn overflow_in(switch: Switch) {
    let mut ring = Tasks::<usize>::new(switch);
    ring.spawn(|task| *task.value() = overflow(0)).unwrap();
    ring.wake(0);
    let mut depth = 0;
    ring.run(&mut depth);
    println!("survived");
}

#[test]
#[ignore = "ends its process; another test starts it"]
fn overflows_a_stack_that_the_ring_resumes() {
    overflow_in(Switch::ByRing);
}

#[test]
#[ignore = "ends its process; another test starts it"]
fn overflows_a_stack_entered_by_a_direct_switch() {
    overflow_in(Switch::Direct);
}

#[test]
fn a_stack_that_overflows_ends_the_process_at_its_guard_page() {
    for name in ["that_the_ring_resumes", "entered_by_a_direct_switch"] {
        let name = format!("tests::overflows_a_stack_{name}");
        let mut this_program = Command::new(std::env::current_exe().unwrap());
        this_program.args(["--ignored", "--exact", &name, "--nocapture", "--test-threads=1"]);
        let output = this_program.output().unwrap();
        let signal = output.status.signal();
        assert!(matches!(signal, Some(libc::SIGSEGV | libc::SIGABRT | libc::SIGBUS)), "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("survived"));
    }
}
