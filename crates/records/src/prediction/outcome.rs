//! Predictions, and their comparison with measured values.

use serde::{Deserialize, Serialize};

/// Quantity that a prediction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// A screenful printed by a command, from Return to its last cell.
    Screenful,
    /// Echo of a keystroke during a long output.
    EchoUnderLoad,
    /// Download of a file.
    Received,
    /// Upload of a file.
    Sent,
}

impl Quantity {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Screenful => "a screenful",
            Self::EchoUnderLoad => "an echo during output",
            Self::Received => "a file received",
            Self::Sent => "a file sent",
        }
    }
}

/// A prediction before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Predicted quantity.
    pub quantity: Quantity,
    /// Data bytes; for an echo, the bytes of the concurrent output.
    pub bytes: u64,
    /// Predicted time, ns.
    pub predicted_ns: u64,
    /// Minimum and maximum expected time, ns; `None` if unknown.
    pub range_ns: Option<[u64; 2]>,
}

impl Forecast {
    /// Returns the prediction with the measured time, ns.
    #[must_use]
    pub const fn with_measured(self, measured_ns: u64) -> Prediction {
        Prediction { measured_ns: Some(measured_ns), ..self.unmeasured() }
    }

    /// Returns the prediction without a measured time.
    #[must_use]
    pub const fn unmeasured(self) -> Prediction {
        let Self { quantity, bytes, predicted_ns, range_ns } = self;
        Prediction { quantity, bytes, predicted_ns, measured_ns: None, range_ns }
    }
}

/// A prediction and the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// Predicted quantity.
    #[serde(alias = "what")]
    pub quantity: Quantity,
    /// Data bytes; for an echo, the bytes of the concurrent output.
    pub bytes: u64,
    /// Predicted time, ns.
    #[serde(alias = "foretold_ns")]
    pub predicted_ns: u64,
    /// Measured time, the median of several measurements; null if nothing was measured, ns.
    pub measured_ns: Option<u64>,
    /// Minimum and maximum expected time, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_ns: Option<[u64; 2]>,
}

impl Prediction {
    /// Returns the relative error of the prediction, in thousandths of the measured time; positive
    /// if the prediction was too long. `None` if nothing was measured.
    #[must_use]
    pub fn off_per_mille(&self) -> Option<i64> {
        let measured = i128::from(self.measured_ns.filter(|ns| *ns > 0)?);
        let off = (i128::from(self.predicted_ns) - measured) * 1_000;
        i64::try_from(off / measured).ok()
    }

    /// Returns whether the measured time is in the expected range. `None` without a range or a
    /// measured time.
    #[must_use]
    pub fn is_in_range(&self) -> Option<bool> {
        let [min, max] = self.range_ns?;
        self.measured_ns.map(|measured| (min..=max).contains(&measured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORECAST: Forecast =
        Forecast { quantity: Quantity::Received, bytes: 9, predicted_ns: 110, range_ns: None };

    #[test]
    fn an_error_is_relative_to_the_measured_time() {
        assert_eq!(FORECAST.with_measured(100).off_per_mille(), Some(100));
        assert_eq!(FORECAST.with_measured(220).off_per_mille(), Some(-500));
        assert_eq!(FORECAST.with_measured(0).off_per_mille(), None);
    }

    #[test]
    fn a_range_includes_its_ends() {
        let forecast = Forecast { range_ns: Some([100, 120]), ..FORECAST };
        let results = [99, 100, 120, 121].map(|ns| forecast.with_measured(ns).is_in_range());
        assert_eq!(results, [Some(false), Some(true), Some(true), Some(false)]);
        assert_eq!(forecast.unmeasured().is_in_range(), None);
        assert_eq!(FORECAST.with_measured(110).is_in_range(), None);
    }

    #[test]
    fn an_error_is_in_thousandths_even_of_a_nanosecond() {
        assert_eq!(FORECAST.with_measured(1).off_per_mille(), Some(109_000));
        assert_eq!(FORECAST.with_measured(110).off_per_mille(), Some(0));
    }

    proptest! {
        #[test]
        fn no_times_cause_a_panic(predicted_ns: u64, measured_ns: u64) {
            let prediction = Forecast { predicted_ns, ..FORECAST }.with_measured(measured_ns);
            _ = (prediction.off_per_mille(), prediction.is_in_range());
        }
    }
}
