//! Cost of an empty change of control in a ring of two tasks, procedures or futures. Each of the
//! two only sets the event flag of the other (TM-233 §4.2.4).

use super::machine_functions::MachineFunctions;
use super::structure::ControlStructure;
use control::{
    Flags, FutureHandle, Futures, Kind, Procedures, Ring, SpawnError, Structure, Switch, Task,
    Tasks, Wake,
};
use records::statistics::median;

/// Changes of control in a batch, between two readings of the clock.
const SWITCHES_PER_BATCH: u64 = 20_000;

/// Cost of a change of control in one structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct EmptySwitch {
    pub(super) structure: ControlStructure,
    /// Both entries of the ring run the same code, so the processor predicts the branch target.
    pub(super) same: BatchCost,
    /// Each entry of the ring has code of its own, like the protocol steps of a station.
    pub(super) own: BatchCost,
}

/// Minimum and median cost of a change of control in several batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchCost {
    /// Cost in the fastest batch, in thousandths of a tick of the counter.
    pub(super) best_milliticks: u64,
    /// Cost in the fastest batch, in picoseconds.
    pub(super) best_ps: u64,
    /// Cost in the median batch, in picoseconds.
    pub(super) median_ps: u64,
}

/// Number of remaining changes of control.
type Remaining = u64;

const KINDS: [Kind; 4] =
    [Kind::Procedures, Kind::Tasks(Switch::ByRing), Kind::Tasks(Switch::Direct), Kind::Futures];

/// Creates a ring of two entries that run the same code.
fn ring_of_shared_code(kind: Kind) -> Result<Box<dyn Ring<Remaining>>, SpawnError> {
    Ok(match kind {
        Kind::Procedures => {
            let mut ring = Procedures::default();
            for _ in 0..2 {
                ring.add(shared_procedure)?;
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
                ring.spawn(move |handle| future_body(handle, other))?;
            }
            Box::new(ring)
        }
    })
}

/// Creates a ring of two entries, each with code of its own.
fn ring_of_distinct_code(kind: Kind) -> Result<Box<dyn Ring<Remaining>>, SpawnError> {
    Ok(match kind {
        Kind::Procedures => {
            let mut ring = Procedures::default();
            ring.add(distinct_procedure::<1>)?;
            ring.add(distinct_procedure::<0>)?;
            Box::new(ring)
        }
        Kind::Tasks(switch) => {
            let mut ring = Tasks::new(switch);
            ring.spawn(distinct_task::<1>)?;
            ring.spawn(distinct_task::<0>)?;
            Box::new(ring)
        }
        Kind::Futures => {
            let mut ring = Futures::default();
            ring.spawn(distinct_future::<1>)?;
            ring.spawn(distinct_future::<0>)?;
            Box::new(ring)
        }
    })
}

fn pass_on(left: &mut Remaining, other: usize, flags: &impl Wake) {
    if *left > 0 {
        *left -= 1;
        flags.wake(other);
    }
}

fn shared_procedure(left: &mut Remaining, place: usize, flags: &Flags) {
    pass_on(left, 1 - place, flags);
}

fn distinct_procedure<const OTHER: usize>(left: &mut Remaining, _: usize, flags: &Flags) {
    pass_on(left, OTHER, flags);
}

#[inline(always)]
fn task_body(task: &mut Task<'_, Remaining>, other: usize) {
    let flags = task.flags().clone();
    loop {
        pass_on(task.value(), other, &flags);
        task.block();
    }
}

fn distinct_task<const OTHER: usize>(task: &mut Task<'_, Remaining>) {
    task_body(task, OTHER);
}

async fn future_body(mut handle: FutureHandle<Remaining>, other: usize) {
    let flags = handle.flags();
    loop {
        handle.with(|left| pass_on(left, other, &flags));
        handle.block().await;
    }
}

async fn distinct_future<const OTHER: usize>(mut handle: FutureHandle<Remaining>) {
    let flags = handle.flags();
    loop {
        handle.with(|left| pass_on(left, OTHER, &flags));
        handle.block().await;
    }
}

/// Measures `rounds` batches of each kind. Each round measures one batch of each kind.
///
/// # Errors
///
/// Returns an error if there is no memory for a stack.
pub(super) fn measure(
    rounds: usize,
    machine: &MachineFunctions<'_>,
) -> Result<Vec<EmptySwitch>, SpawnError> {
    let mut rings = Vec::with_capacity(2 * KINDS.len());
    for kind in KINDS {
        rings.extend([ring_of_shared_code(kind)?, ring_of_distinct_code(kind)?]);
    }
    let mut batches: Vec<Vec<u64>> = vec![Vec::with_capacity(rounds); rings.len()];
    for _ in 0..rounds {
        for (ring, batches) in rings.iter_mut().zip(&mut batches) {
            let mut remaining = SWITCHES_PER_BATCH;
            ring.wake(0);
            let started = (machine.counter)();
            ring.run(&mut remaining);
            batches.push((machine.counter)() - started);
        }
    }
    let batch_costs: Vec<BatchCost> =
        batches.iter().map(|batches| batch_cost(batches, machine)).collect();
    let pairs = batch_costs.as_chunks::<2>().0;
    let empty = KINDS.into_iter().zip(pairs).map(|(kind, [same, own])| EmptySwitch {
        structure: ControlStructure::Ring(Structure { kind, sends_in_user: false }),
        same: *same,
        own: *own,
    });
    Ok(empty.collect())
}

fn batch_cost(batches: &[u64], machine: &MachineFunctions<'_>) -> BatchCost {
    let min_ticks = batches.iter().min().copied().unwrap_or(0);
    let to_ps = |ticks| (machine.nanos_of)(ticks) * 1_000 / SWITCHES_PER_BATCH;
    BatchCost {
        best_milliticks: min_ticks * 1_000 / SWITCHES_PER_BATCH,
        best_ps: to_ps(min_ticks),
        median_ps: to_ps(median(batches).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::MACHINE;
    use super::*;

    #[test]
    fn every_kind_makes_the_requested_number_of_control_changes() {
        for kind in KINDS {
            for mut ring in
                [ring_of_shared_code(kind).unwrap(), ring_of_distinct_code(kind).unwrap()]
            {
                let mut left = 10;
                let mut turns = 0;
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
        let results = measure(2, &MACHINE).unwrap();
        assert_eq!(results.len(), 4);
        assert!(results.iter().all(|result| result.same.best_ps > 0 && result.own.best_ps > 0));
    }
}
