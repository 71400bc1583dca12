//! The two generators of cases.

/// Generator that draws a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Generator {
    #[default]
    First,
    /// The generator in `super::second`, with other causes, magnitudes, paths and servers.
    Second,
}

impl Generator {
    pub(super) const ALL: [Self; 2] = [Self::First, Self::Second];

    /// Returns the name that selects the generator on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
        }
    }
}
