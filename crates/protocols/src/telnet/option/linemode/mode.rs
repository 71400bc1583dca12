//! The mode of line editing (RFC 1184 §2.2).

use core::fmt;

/// Line editing mode: the bits of MODE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinemodeMode(pub(super) u8);

impl LinemodeMode {
    /// No editing: typed characters are sent at once.
    pub const NONE: Self = Self(0);
    /// Lines are edited by the user's end, and sent when they are complete.
    pub const EDIT: Self = Self(1);
    /// Signal characters are sent as commands.
    pub const TRAP_SIGNALS: Self = Self(2);
    /// Tabs are displayed as spaces.
    pub const SOFT_TAB: Self = Self(8);
    /// Control characters are displayed literally, not as `^X`.
    pub const LITERAL_ECHO: Self = Self(16);

    /// Bit that marks a MODE as an answer and is not part of the mode itself.
    pub(super) const ACK: u8 = 4;
    /// All bits that RFC 1184 defines.
    pub(super) const KNOWN: u8 = 1 | 2 | 8 | 16;

    /// Returns the mode with all bits of `other` added.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether the mode has all bits of `other`.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for LinemodeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(1, "EDIT"), (2, "TRAPSIG"), (8, "SOFT_TAB"), (16, "LIT_ECHO")];
        let mut names = names.iter().filter(|(bit, _)| self.0 & bit != 0);
        let Some((_, first)) = names.next() else { return f.write_str("no bits") };
        f.write_str(first)?;
        names.try_for_each(|(_, name)| write!(f, "|{name}"))
    }
}
