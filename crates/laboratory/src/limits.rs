//! Permitted ranges of scenario values, within which every experiment terminates.

use std::fmt;
use std::ops::RangeInclusive;

/// A scenario value outside its permitted range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    key: String,
    value: String,
    min: String,
    max: String,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, min, max } = self;
        write!(f, "{key} is {value} and may be {min} to {max}")
    }
}

impl std::error::Error for OutOfRange {}

/// Returns an error if `value` is outside the range `permitted`. `key` is the name of the value in
/// the scenario file.
pub(crate) fn within<T: PartialOrd + fmt::Display + Copy>(
    key: &str,
    value: T,
    permitted: RangeInclusive<T>,
) -> Result<(), OutOfRange> {
    if permitted.contains(&value) {
        return Ok(());
    }
    let min = permitted.start().to_string();
    let max = permitted.end().to_string();
    Err(OutOfRange { key: key.to_owned(), value: value.to_string(), min, max })
}

/// Like [`within`], for each value of a list and for the length of the list.
pub(crate) fn each_within<T: PartialOrd + fmt::Display + Copy>(
    key: &str,
    values: &[T],
    permitted: &RangeInclusive<T>,
) -> Result<(), OutOfRange> {
    within(&format!("the length of {key}"), values.len(), 1..=LIST_MAX)?;
    values.iter().try_for_each(|value| within(key, *value, permitted.clone()))
}

/// Maximum length of a list: each entry adds an experiment and a table row.
pub(crate) const LIST_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_out_of_range_value_is_named_with_its_range() {
        let wrong = within("rate_bps", 0, 300..=1_000).unwrap_err();
        assert_eq!(wrong.to_string(), "rate_bps is 0 and may be 300 to 1000");
    }

    #[test]
    fn nan_is_in_no_range() {
        assert!(within("io_ms", f64::NAN, 0.0..=1.0).is_err());
    }

    #[test]
    fn an_empty_list_is_out_of_range() {
        let wrong = each_within("lines_bps", &[], &(300..=1_000)).unwrap_err();
        assert_eq!(wrong.to_string(), "the length of lines_bps is 0 and may be 1 to 100");
    }
}
