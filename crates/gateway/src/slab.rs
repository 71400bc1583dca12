//! A table of values with keys that are not used again.

/// The key of a flow. It stays invalid when the flow has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// Returns the key as one number, for the user data of a readiness facility.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the key whose [`Self::to_bits`] is `bits`.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        let [g0, g1, g2, g3, i0, i1, i2, i3] = bits.to_be_bytes();
        let index = u32::from_be_bytes([i0, i1, i2, i3]);
        Self { index, generation: u32::from_be_bytes([g0, g1, g2, g3]) }
    }

    /// Returns the index, which is used again after the value was removed.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// A table of at most `limit` values. The key of a removed value remains invalid.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    limit: usize,
    /// Number of slots that were examined.
    #[cfg(test)]
    examined: std::cell::Cell<u64>,
}

impl<T> Slab<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            limit,
            #[cfg(test)]
            examined: std::cell::Cell::default(),
        }
    }

    /// Returns the number of slots that were examined by all calls.
    #[cfg(test)]
    pub(crate) fn examined(&self) -> u64 {
        self.examined.get()
    }

    #[cfg(test)]
    fn count_examined(&self) {
        self.examined.set(self.examined.get() + 1);
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether no more values can be inserted.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Adds a value, or returns `None` if the table is full.
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
        if self.is_full() {
            return None;
        }
        let index = self.free.pop().or_else(|| {
            let index = u32::try_from(self.slots.len()).ok()?;
            self.slots.push(Slot { generation: 0, value: None });
            Some(index)
        })?;
        let slot = self.slots.get_mut(index as usize)?;
        slot.value = Some(value);
        Some(Key { index, generation: slot.generation })
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        #[cfg(test)]
        self.count_examined();
        let slot = self.slots.get(key.index())?;
        slot.value.as_ref().filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        #[cfg(test)]
        self.count_examined();
        let slot = self.slots.get_mut(key.index())?;
        slot.value.as_mut().filter(|_| slot.generation == key.generation)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        #[cfg(test)]
        self.count_examined();
        let slot = self.slots.get_mut(key.index())?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// Returns all values with their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..).zip(&self.slots).filter_map(|(index, slot)| {
            #[cfg(test)]
            self.count_examined();
            let key = Key { index, generation: slot.generation };
            slot.value.as_ref().map(|value| (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_removed_value_stays_invalid_when_its_slot_is_used_again() {
        let mut slab = Slab::new(1);
        let first = slab.insert('a').unwrap();
        assert_eq!((slab.remove(first), slab.remove(first)), (Some('a'), None));
        let second = slab.insert('b').unwrap();
        assert_eq!((first.index(), slab.get(first), slab.get(second)), (0, None, Some(&'b')));
        assert_eq!(Key::from_bits(second.to_bits()), second);
    }

    #[test]
    fn a_full_table_refuses_values() {
        let mut slab = Slab::new(2);
        assert!(slab.insert(1).is_some() && slab.insert(2).is_some());
        assert_eq!((slab.insert(3), slab.len()), (None, 2));
    }
}
