//! Block numbers: 16 bits on the wire, 64 bits internally.

/// Number of a block within its file. The first data block is 1; 0 stands for the request or the
/// OACK, which ACK 0 acknowledges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Block(pub(super) u64);

impl Block {
    pub(super) const FIRST: Self = Self(1);

    /// Returns the 16-bit number on the wire, which wraps from 65,535 to 0.
    pub(super) const fn to_wire(self) -> u16 {
        let [.., high, low] = self.0.to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    pub(super) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    pub(super) const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Returns the first block with the wire number `wire`, starting at this block. The result is
    /// at most 65,535 blocks later.
    pub(super) const fn at_or_after(self, wire: u16) -> Self {
        Self(self.0.saturating_add(wire.wrapping_sub(self.to_wire()) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_on_the_wire_names_one_block_of_the_next_65_536(
            base in 0_u64..1 << 40,
            ahead in 0_u64..65_536,
        ) {
            let block = Block(base + ahead);
            prop_assert_eq!(Block(base).at_or_after(block.to_wire()), block);
        }
    }
}
