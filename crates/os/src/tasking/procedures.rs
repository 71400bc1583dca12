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
                procedure(lent, place, &self.flags);
                return Some(place);
            }
        }
        None
    }
}
