//! Roll-ups: the totals of the transfers of each class, updated as they are added.
//!
//! A cell is identified by a day, a program, a command, a type, a byte size, an outcome and a size
//! class. It contains the [`Aggregate`](crate::aggregate::Aggregate) of its transfers. There are
//! three views of all transfers: by class, by host and class, and by user and class. The views by
//! host and by user omit the size, because with the size they would have almost as many cells as
//! there are transfers. A query is answered from the first view that has all the properties it
//! uses.

use crate::aggregate::Measures;
use crate::calendar::NS_PER_DAY;
use crate::transfer::{Command, Outcome, Role, Transfer, Type};

/// Day of a transfer whose start time is unknown.
pub(super) const UNKNOWN_DAY: u32 = u32::MAX;
/// Size class of a file whose size is unknown.
pub(super) const UNKNOWN_SIZE: u8 = u8::MAX;

/// Properties of a transfer that roll-ups are grouped by; 0 means unknown except for day and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    /// Days since the Unix epoch.
    pub(super) day: u32,
    pub(super) role: u8,
    pub(super) command: u8,
    pub(super) representation: u8,
    pub(super) byte_size: u16,
    pub(super) outcome: u8,
    /// Number of binary digits of the number of bits of the file.
    pub(super) size: u8,
}

/// Property besides the class by which a view is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum View {
    /// No further property.
    Class = 1,
    /// The remote host.
    Host = 2,
    /// The user.
    User = 3,
}

/// One cell of one view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) view: View,
    /// String number of the host or user; 0 in the view that has neither.
    pub(super) owner: u32,
    pub(super) class: Class,
}

impl Class {
    /// Returns the class of `transfer`.
    pub(super) fn of(transfer: &Transfer) -> Self {
        let day = start_unix_ns(transfer).map(|start| start / NS_PER_DAY);
        Self {
            day: day.and_then(|day| u32::try_from(day).ok()).unwrap_or(UNKNOWN_DAY),
            role: transfer.identity.role.map_or(0, Role::code),
            command: transfer.request.command.map_or(0, Command::code),
            representation: transfer.request.representation.map_or(0, Type::code),
            byte_size: byte_size(transfer.request.byte_size),
            outcome: transfer.result.outcome.map_or(0, Outcome::code),
            size: size_class(transfer.bits()),
        }
    }

    /// Encodes the class in bytes that sort like the classes.
    fn to_bytes(self) -> [u8; 11] {
        let [a, b, c, d] = self.day.to_be_bytes();
        let [high, low] = self.byte_size.to_be_bytes();
        let Self { role, command, representation, outcome, size, .. } = self;
        [a, b, c, d, role, command, representation, high, low, outcome, size]
    }

    fn from_bytes(bytes: [u8; 11]) -> Self {
        let [a, b, c, d, role, command, representation, high, low, outcome, size] = bytes;
        let day = u32::from_be_bytes([a, b, c, d]);
        let byte_size = u16::from_be_bytes([high, low]);
        Self { day, role, command, representation, byte_size, outcome, size }
    }
}

impl Cell {
    /// Returns the cell of a transfer in each view.
    pub(super) fn of(class: Class, host: u32, user: u32) -> [Self; 3] {
        let sizeless = Class { size: UNKNOWN_SIZE, ..class };
        [
            Self { view: View::Class, owner: 0, class },
            Self { view: View::Host, owner: host, class: sizeless },
            Self { view: View::User, owner: user, class: sizeless },
        ]
    }

    /// Returns the key of the cell in its view.
    pub(super) fn key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(15);
        if self.view != View::Class {
            key.extend_from_slice(&self.owner.to_be_bytes());
        }
        key.extend_from_slice(&self.class.to_bytes());
        key
    }

    /// Decodes the key of a cell; `None` if it is malformed.
    pub(super) fn from_key(view: View, key: &[u8]) -> Option<Self> {
        let (owner, class) = match view {
            View::Class => (0, key),
            View::Host | View::User => {
                let (owner, class) = key.split_first_chunk()?;
                (u32::from_be_bytes(*owner), class)
            }
        };
        Some(Self { view, owner, class: Class::from_bytes(class.try_into().ok()?) })
    }
}

/// Returns the start time of `transfer`, ns of Unix time, if it fits a signed SQLite integer.
pub(super) fn start_unix_ns(transfer: &Transfer) -> Option<u64> {
    transfer.time.start_unix_ns.filter(|start| i64::try_from(*start).is_ok())
}

/// Returns the values of `transfer` that are added to an aggregate.
pub(super) fn measures(transfer: &Transfer) -> Measures {
    Measures {
        bits: transfer.bits(),
        real_ns: transfer.real_ns(),
        cpu_ns: transfer.cpu_ns(),
        limit: transfer.limit(),
    }
}

/// Returns the number of binary digits of `bits`, or [`UNKNOWN_SIZE`].
pub(super) fn size_class(bits: Option<u64>) -> u8 {
    let digits = bits.map(|bits| u64::BITS - bits.leading_zeros());
    digits.and_then(|digits| u8::try_from(digits).ok()).unwrap_or(UNKNOWN_SIZE)
}

fn byte_size(bits: Option<u64>) -> u16 {
    bits.and_then(|bits| u16::try_from(bits).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_is_in_the_class_of_its_binary_digits() {
        let classes = [None, Some(0), Some(1), Some(40_000), Some(u64::MAX)].map(size_class);
        assert_eq!(classes, [UNKNOWN_SIZE, 0, 1, 16, 64]);
    }

    proptest! {
        #[test]
        fn a_cell_is_decoded_from_its_key(
            owner in any::<u32>(), bytes in any::<[u8; 11]>(), by_host in any::<bool>(),
        ) {
            let view = if by_host { View::Host } else { View::Class };
            let owner = if by_host { owner } else { 0 };
            let cell = Cell { view, owner, class: Class::from_bytes(bytes) };
            prop_assert_eq!(Cell::from_key(view, &cell.key()), Some(cell));
        }
    }
}
