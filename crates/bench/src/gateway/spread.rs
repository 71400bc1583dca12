//! The median of a figure over the rounds, with the least and the greatest value.

use records::format::UNKNOWN;
use records::statistics::nearest_rank;
use serde_json::{Value, json};

/// Values of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Returns the spread of the known values, if there is one.
    pub(super) fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut values: Vec<f64> = values.flatten().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: *nearest_rank(&values, 50)?,
            min: *values.first()?,
            max: *values.last()?,
        })
    }

    pub(super) fn to_json(self) -> Value {
        json!({ "median": self.median, "least": self.min, "greatest": self.max })
    }
}

/// Formats the values divided by `unit`.
pub(super) fn text(spread: Option<Spread>, unit: f64, places: usize) -> String {
    let Some(Spread { median, min, max }) = spread else { return UNKNOWN.to_owned() };
    let [median, min, max] = [median, min, max].map(|value| value / unit);
    format!("{median:.places$} ({min:.places$}-{max:.places$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_left_out() {
        let spread = Spread::of([Some(3.0), None, Some(1.0), Some(2.0)].into_iter());
        assert_eq!(text(spread, 1.0, 1), "2.0 (1.0-3.0)");
        assert_eq!(text(Spread::of([None].into_iter()), 1.0, 1), UNKNOWN);
    }
}
