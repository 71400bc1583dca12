//! The two programs, which differ in their guests and defaults.

/// Program whose arguments are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastaMode {
    /// `pasta`: a namespace.
    Pasta,
    /// `passt`: a virtual machine.
    Passt,
}

impl PastaMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pasta => "pasta",
            Self::Passt => "passt",
        }
    }
}
