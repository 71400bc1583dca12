//! Severity of a message to the user.

/// Severity of a message, from the least to the most important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A result or a step of a command, as expected.
    Info,
    /// A fact that the user may not expect, and that needs no action.
    Note,
    /// A part of a command was not executed, or its result may not be what the user wants.
    Warning,
    /// The command, or the operation on one of its files, has failed.
    Error,
}

impl Severity {
    /// Returns the label of a message; `None` for a message without a label.
    #[must_use]
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Info => None,
            Self::Note => Some("note"),
            Self::Warning => Some("warning"),
            Self::Error => Some("error"),
        }
    }
}
