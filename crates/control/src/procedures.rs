//! The procedure-based scheduler of TM-233 §4.2.2: a ring of event flags and procedures.

use crate::flags::{Flags, POSITIONS_MAX, Wake};
use crate::ring::{Ring, SpawnError};

/// The procedure at a position. It is called with the shared value, its position and the flags of
/// the ring, and has handled its event completely when it returns.
pub type Procedure<T> = fn(&mut T, usize, &Flags);

/// A ring of procedures.
#[derive(Debug)]
pub struct Procedures<T> {
    procedures: Vec<Procedure<T>>,
    flags: Flags,
    /// Ring position that had the last turn.
    last_position: usize,
}

impl<T> Default for Procedures<T> {
    fn default() -> Self {
        Self { procedures: Vec::new(), flags: Flags::default(), last_position: POSITIONS_MAX - 1 }
    }
}

impl<T> Procedures<T> {
    /// Adds a procedure and returns its position. Positions are numbered in the order of the calls.
    ///
    /// # Errors
    ///
    /// Returns [`SpawnError::Full`] if the ring has [`POSITIONS_MAX`] positions.
    pub fn add(&mut self, procedure: Procedure<T>) -> Result<usize, SpawnError> {
        if self.procedures.len() >= POSITIONS_MAX {
            return Err(SpawnError::Full);
        }
        self.procedures.push(procedure);
        Ok(self.procedures.len() - 1)
    }
}

impl<T> Wake for Procedures<T> {
    fn wake(&self, position: usize) {
        self.flags.wake(position);
    }
}

impl<T> Ring<T> for Procedures<T> {
    #[inline]
    fn run_one(&mut self, value: &mut T) -> Option<usize> {
        while let Some(position) = self.flags.take_next(self.last_position) {
            self.last_position = position;
            if let Some(procedure) = self.procedures.get(position) {
                call(*procedure, value, position, &self.flags);
                return Some(position);
            }
        }
        None
    }
}

/// Calls a procedure, from a separate call instruction for each of the first four positions.
///
/// The processor predicts the target of an indirect call from its previous targets. A single call
/// instruction for all positions would have a different target each time, and a misprediction takes
/// three times as long as the rest of a switch. The branches test the bits of the position, because
/// the compiler would turn a match over all positions into one jump table.
#[inline]
fn call<T>(procedure: Procedure<T>, value: &mut T, position: usize, flags: &Flags) {
    if position >= 4 {
        return procedure(value, position, flags);
    }
    match (position & 1 == 0, position & 2 == 0) {
        (true, true) => call_at::<T, 0>(procedure, value, flags),
        (false, true) => call_at::<T, 1>(procedure, value, flags),
        (true, false) => call_at::<T, 2>(procedure, value, flags),
        (false, false) => call_at::<T, 3>(procedure, value, flags),
    }
}

#[inline(never)]
fn call_at<T, const PLACE: usize>(procedure: Procedure<T>, value: &mut T, flags: &Flags) {
    procedure(value, PLACE, flags);
}
