//! Units of the tables of transfers: bytes, or bits as in RFC 573.

use crate::table::{BITS, COSTS, FILE_COSTS, FILE_RATES, FILE_SIZES, NamedUnit, RATES};

/// Units of sizes, rates and CPU times in text.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    pub(crate) sizes: &'static [NamedUnit],
    pub(crate) rates: &'static [NamedUnit],
    pub(crate) costs: &'static [NamedUnit],
}

impl Units {
    /// Bytes, as in the tools of today.
    pub const BYTES: Self = Self { sizes: FILE_SIZES, rates: FILE_RATES, costs: FILE_COSTS };
    /// Bits, as in RFC 573.
    pub const BITS: Self = Self { sizes: BITS, rates: RATES, costs: COSTS };
}
