//! The error of a conversion.

/// Reason why data cannot be converted. The transfer has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataError {
    /// The data does not conform to its representation.
    Malformed,
    /// The data ended before its end mark.
    Truncated,
}
