//! What it takes to get from one empty place of a ring to the next: each only sets the event flag of
//! the other (TM-233 §4.2.4).

use super::structure::Which;
use os::clock::{TickRate, ticks};
use os::tasking::{Futures, Kind, Procedures, Ring, SpawnError, Structure, Switch, Tasks, Wake};
use records::statistics::median;

/// Changes of control in a batch, between two readings of the clock.
const BATCH: u64 = 20_000;

/// What a change of control takes in one structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Empty {
    pub(super) which: Which,
    /// In the best batch, in thousandths of a tick of the counter.
    pub(super) best_milliticks: u64,
    /// In the best batch, in picoseconds.
    pub(super) best_ps: u64,
    /// In the median of the batches, in picoseconds.
    pub(super) median_ps: u64,
}

/// How many changes of control are left to be made.
type Left = u64;

fn ring(kind: Kind) -> Result<Box<dyn Ring<Left>>, SpawnError> {
    Ok(match kind {
        Kind::Procedures => {
            let mut ring = Procedures::<Left>::default();
            ring.add(|left, flags| pass_on(left, 1, flags))?;
            ring.add(|left, flags| pass_on(left, 0, flags))?;
            Box::new(ring)
        }
        Kind::Tasks(switch) => {
            let mut ring = Tasks::<Left>::new(switch);
            for other in [1, 0] {
                ring.spawn(move |task| {
                    let flags = task.flags().clone();
                    loop {
                        pass_on(task.lent(), other, &flags);
                        task.block();
                    }
                })?;
            }
            Box::new(ring)
        }
        Kind::Futures => {
            let mut ring = Futures::<Left>::default();
            for other in [1, 0] {
                ring.spawn(|mut loan| async move {
                    let flags = loan.flags();
                    loop {
                        loan.with(|left| pass_on(left, other, &flags));
                        loan.block().await;
                    }
                })?;
            }
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

/// Measures `rounds` batches of each kind, by turns.
///
/// # Errors
///
/// If there is no memory for a stack.
pub(super) fn measure(rounds: usize, rate: TickRate) -> Result<Vec<Empty>, SpawnError> {
    const KINDS: [Kind; 4] =
        [Kind::Procedures, Kind::Tasks(Switch::ByRing), Kind::Tasks(Switch::Direct), Kind::Futures];
    let mut rings = KINDS.iter().map(|kind| ring(*kind)).collect::<Result<Vec<_>, _>>()?;
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
    let figures = KINDS.into_iter().zip(batches).map(|(kind, batches)| {
        let best = batches.iter().min().copied().unwrap_or(0);
        let to_ps = |ticks| rate.to_nanos(ticks) * 1_000 / BATCH;
        Empty {
            which: Which::Ring(Structure { kind, sends_in_user: false }),
            best_milliticks: best * 1_000 / BATCH,
            best_ps: to_ps(best),
            median_ps: to_ps(median(&batches).unwrap_or(0)),
        }
    });
    Ok(figures.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_as_many_changes_of_control_as_there_are_to_be_made() {
        for kind in [Kind::Procedures, Kind::Tasks(Switch::ByRing), Kind::Futures] {
            let mut ring = ring(kind).unwrap();
            let (mut left, mut turns) = (10, 0);
            ring.wake(0);
            while ring.run_one(&mut left).is_some() {
                turns += 1;
            }
            assert_eq!((left, turns), (0, 11), "{kind:?}");
        }
    }

    #[test]
    fn every_kind_has_a_figure() {
        let figures = measure(2, TickRate::calibrate()).unwrap();
        assert!(figures.len() == 4 && figures.iter().all(|figure| figure.best_ps > 0));
    }
}
