//! The procedure-based scheduler of TM-233 §4.2.2: a ring of flag and procedure.

use super::flags::{Flags, PLACES_MAX, Wake};
use super::{Ring, SpawnError};

/// What lies at a place: it is called with what is lent, its place and the flags of the ring, and
/// has done all that its event asks for when it returns.
pub type Procedure<T> = fn(&mut T, usize, &Flags);

/// A ring of procedures.
#[derive(Debug)]
pub struct Procedures<T> {
    procedures: Vec<Procedure<T>>,
    flags: Flags,
    /// The place that had the last turn.
    at: usize,
}

impl<T> Default for Procedures<T> {
    fn default() -> Self {
        Self { procedures: Vec::new(), flags: Flags::default(), at: PLACES_MAX - 1 }
    }
}

impl<T> Procedures<T> {
    /// Adds a procedure and returns its place, in the order of the calls.
    ///
    /// # Errors
    ///
    /// [`SpawnError::Full`].
    pub fn add(&mut self, procedure: Procedure<T>) -> Result<usize, SpawnError> {
        if self.procedures.len() >= PLACES_MAX {
            return Err(SpawnError::Full);
        }
        self.procedures.push(procedure);
        Ok(self.procedures.len() - 1)
    }
}

impl<T> Wake for Procedures<T> {
    fn wake(&self, place: usize) {
        self.flags.wake(place);
    }
}

impl<T> Ring<T> for Procedures<T> {
    #[inline]
    fn run_one(&mut self, lent: &mut T) -> Option<usize> {
        while let Some(place) = self.flags.take_next(self.at) {
            self.at = place;
            if let Some(procedure) = self.procedures.get(place) {
                call(*procedure, lent, place, &self.flags);
                return Some(place);
            }
        }
        None
    }
}

/// Calls a procedure, from another instruction for each of the first four places.
///
/// The processor guesses where a call by a pointer goes by what it did the last time. One call for
/// all places goes somewhere else each time, and a wrong guess takes three times as long as all the
/// rest of a change of control. It takes the places apart by their bits, because the compiler makes
/// a list of cases into one jump by a table.
#[inline]
fn call<T>(procedure: Procedure<T>, lent: &mut T, place: usize, flags: &Flags) {
    if place >= 4 {
        return procedure(lent, place, flags);
    }
    match (place & 1 == 0, place & 2 == 0) {
        (true, true) => call_at::<T, 0>(procedure, lent, flags),
        (false, true) => call_at::<T, 1>(procedure, lent, flags),
        (true, false) => call_at::<T, 2>(procedure, lent, flags),
        (false, false) => call_at::<T, 3>(procedure, lent, flags),
    }
}

#[inline(never)]
fn call_at<T, const PLACE: usize>(procedure: Procedure<T>, lent: &mut T, flags: &Flags) {
    procedure(lent, PLACE, flags);
}
