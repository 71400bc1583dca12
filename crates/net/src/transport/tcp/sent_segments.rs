//! A queue of the pieces of sent data. Its first piece needs no allocation, because an interactive
//! connection usually has only one.

use alloc::collections::VecDeque;

/// A queue of pieces, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Pieces<T> {
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self { first: None, rest: VecDeque::new() }
    }
}

impl<T> Pieces<T> {
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) fn back(&self) -> Option<&T> {
        self.rest.back().or(self.first.as_ref())
    }

    pub(super) fn back_mut(&mut self) -> Option<&mut T> {
        self.rest.back_mut().or(self.first.as_mut())
    }

    pub(super) fn push_back(&mut self, piece: T) {
        match self.first {
            None => self.first = Some(piece),
            Some(_) => self.rest.push_back(piece),
        }
    }

    /// Removes the oldest piece. Frees the memory of an empty queue.
    pub(super) fn pop_front(&mut self) {
        self.first = self.rest.pop_front();
        if self.first.is_none() && self.rest.capacity() > 0 {
            self.rest = VecDeque::new();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the first piece for which `is_before` is false. `is_before` must be true for all
    /// pieces in front of it.
    pub(super) fn first_from(&self, is_before: impl Fn(&T) -> bool) -> Option<&T> {
        if self.first.as_ref().is_some_and(|first| !is_before(first)) {
            return self.first.as_ref();
        }
        self.rest.get(self.rest.partition_point(is_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_queue(calls in prop::collection::vec(any::<bool>(), 0..100)) {
            let mut pieces = Pieces::default();
            let mut model = VecDeque::new();
            for (number, is_push) in calls.into_iter().enumerate() {
                if is_push {
                    pieces.push_back(number);
                    model.push_back(number);
                } else {
                    pieces.pop_front();
                    model.pop_front();
                }
                prop_assert_eq!(pieces.len(), model.len());
                prop_assert_eq!((pieces.front(), pieces.back()), (model.front(), model.back()));
                let half = number / 2;
                let found = model.iter().find(|piece| **piece >= half);
                prop_assert_eq!(pieces.first_from(|piece| *piece < half), found);
            }
        }
    }

    #[test]
    fn an_empty_queue_holds_no_memory() {
        let mut pieces = Pieces::default();
        (0..100).for_each(|number| pieces.push_back(number));
        (0..100).for_each(|_| pieces.pop_front());
        assert_eq!((pieces.len(), pieces.rest.capacity()), (0, 0));
    }
}
