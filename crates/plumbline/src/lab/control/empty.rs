//! Cost of an empty change of control in a ring: each place only sets the event flag of the other
//! (TM-233 §4.2.4).

use super::structure::Which;
use os::clock::{TickRate, ticks};
use os::tasking::{
    Flags, Futures, Kind, Loan, Procedures, Ring, SpawnError, Structure, Switch, Task, Tasks, Wake,
};
use records::statistics::median;

/// Changes of control in a batch, between two readings of the clock.
const BATCH: u64 = 20_000;

/// Cost of a change of control in one structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Empty {
    pub(super) which: Which,
    /// Both places run the same code, so that the processor predicts the branch target.
    pub(super) same: Figure,
    /// Each place has code of its own, like the steps of a station.
    pub(super) own: Figure,
}

/// Minimum and median of several batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    /// Fastest batch, in thousandths of a tick of the counter.
    pub(super) best_milliticks: u64,
    /// Fastest batch, in picoseconds.
    pub(super) best_ps: u64,
    /// Median batch, in picoseconds.
    pub(super) median_ps: u64,
}

/// Number of remaining changes of control.
type Left = u64;

const KINDS: [Kind; 4] =
    [Kind::Procedures, Kind::Tasks(Switch::ByRing), Kind::Tasks(Switch::Direct), Kind::Futures];

/// Creates a ring of two places that run the same code.
fn ring_of_same(kind: Kind) -> Result<Box<dyn Ring<Left>>, SpawnError> {
    Ok(match kind {
        Kind::Procedures => {
            let mut ring = Procedures::default();
            for _ in 0..2 {
                ring.add(same_procedure)?;
            }
            Box::new(ring)
        }
        Kind::Tasks(switch) => {
            let mut ring = Tasks::new(switch);
            for other in [1, 0] {
                ring.spawn(move |task| task_body(task, other))?;
            }
            Box::new(ring)
        }
        Kind::Futures => {
            let mut ring = Futures::default();
            for other in [1, 0] {
                ring.spawn(move |loan| future_body(loan, other))?;
            }
            Box::new(ring)
        }
    })
}

/// Creates a ring of two places, each with code of its own.
fn ring_of_own(kind: Kind) -> Result<Box<dyn Ring<Left>>, SpawnError> {
    Ok(match kind {
        Kind::Procedures => {
            let mut ring = Procedures::default();
            ring.add(own_procedure::<1>)?;
            ring.add(own_procedure::<0>)?;
            Box::new(ring)
        }
        Kind::Tasks(switch) => {
            let mut ring = Tasks::new(switch);
            ring.spawn(own_task::<1>)?;
            ring.spawn(own_task::<0>)?;
            Box::new(ring)
        }
        Kind::Futures => {
            let mut ring = Futures::default();
            ring.spawn(own_future::<1>)?;
            ring.spawn(own_future::<0>)?;
            Box::new(ring)
        }
    })
}

fn pass_on(left: &mut Left, other: usize, flags: &impl Wake) {
    if *left > 0 {
        *left -= 1;
        flags.wake(other);
    }
}

fn same_procedure(left: &mut Left, place: usize, flags: &Flags) {
    pass_on(left, 1 - place, flags);
}

fn own_procedure<const OTHER: usize>(left: &mut Left, _: usize, flags: &Flags) {
    pass_on(left, OTHER, flags);
}

#[inline(always)]
fn task_body(task: &mut Task<'_, Left>, other: usize) {
    let flags = task.flags().clone();
    loop {
        pass_on(task.lent(), other, &flags);
        task.block();
    }
}

fn own_task<const OTHER: usize>(task: &mut Task<'_, Left>) {
    task_body(task, OTHER);
}

async fn future_body(mut loan: Loan<Left>, other: usize) {
    let flags = loan.flags();
    loop {
        loan.with(|left| pass_on(left, other, &flags));
        loan.block().await;
    }
}

async fn own_future<const OTHER: usize>(mut loan: Loan<Left>) {
    let flags = loan.flags();
    loop {
        loan.with(|left| pass_on(left, OTHER, &flags));
        loan.block().await;
    }
}

/// Measures `rounds` batches of each kind, in turn.
///
/// # Errors
///
/// Returns an error if there is no memory for a stack.
pub(super) fn measure(rounds: usize, rate: TickRate) -> Result<Vec<Empty>, SpawnError> {
    let mut rings = Vec::with_capacity(2 * KINDS.len());
    for kind in KINDS {
        rings.extend([ring_of_same(kind)?, ring_of_own(kind)?]);
    }
    let mut batches: Vec<Vec<u64>> = vec![Vec::with_capacity(rounds); rings.len()];
    for _ in 0..rounds {
        for (ring, batches) in rings.iter_mut().zip(&mut batches) {
            let mut left = BATCH;
            ring.wake(0);
            let started = ticks();
            ring.run(&mut left);
            batches.push(ticks() - started);
        }
    }
    let figures: Vec<Figure> = batches.iter().map(|batches| figure(batches, rate)).collect();
    let pairs = figures.as_chunks::<2>().0;
    let empty = KINDS.into_iter().zip(pairs).map(|(kind, [same, own])| Empty {
        which: Which::Ring(Structure { kind, sends_in_user: false }),
        same: *same,
        own: *own,
    });
    Ok(empty.collect())
}

fn figure(batches: &[u64], rate: TickRate) -> Figure {
    let best = batches.iter().min().copied().unwrap_or(0);
    let to_ps = |ticks| rate.to_nanos(ticks) * 1_000 / BATCH;
    Figure {
        best_milliticks: best * 1_000 / BATCH,
        best_ps: to_ps(best),
        median_ps: to_ps(median(batches).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_as_many_changes_of_control_as_there_are_to_be_made() {
        for kind in KINDS {
            for mut ring in [ring_of_same(kind).unwrap(), ring_of_own(kind).unwrap()] {
                let (mut left, mut turns) = (10, 0);
                ring.wake(0);
                while ring.run_one(&mut left).is_some() {
                    turns += 1;
                }
                assert_eq!((left, turns), (0, 11), "{kind:?}");
            }
        }
    }

    #[test]
    fn every_kind_has_a_figure() {
        let figures = measure(2, TickRate::calibrate()).unwrap();
        assert_eq!(figures.len(), 4);
        assert!(figures.iter().all(|figure| figure.same.best_ps > 0 && figure.own.best_ps > 0));
    }
}
