//! Audit of the listings on which deletions depend.

/// Audit of the listings on which deletions depend.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Directory whose listing must succeed: a refusal does not count as an empty directory.
    pub root: Vec<u8>,
    /// Number of unparsed lines, names without a kind, and directories that were not entered.
    pub uncertain: u64,
}
