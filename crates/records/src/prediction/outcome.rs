//! Predictions, and their comparison with measured values.

use serde::{Deserialize, Serialize};

/// Quantity that is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A screenful printed by a command, from Return to its last cell.
    Screenful,
    /// Echo of a keystroke during a long output.
    EchoUnderLoad,
    /// Download of a file.
    Received,
    /// Upload of a file.
    Sent,
}

impl What {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Screenful => "a screenful",
            Self::EchoUnderLoad => "an echo beside other data",
            Self::Received => "a file received",
            Self::Sent => "a file sent",
        }
    }
}

/// A prediction before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Predicted quantity.
    pub what: What,
    /// Data bytes; for an echo, those of the concurrent output.
    pub bytes: u64,
    /// Predicted time, ns.
    pub foretold_ns: u64,
    /// Minimum and maximum expected time, ns; `None` if unknown.
    pub range_ns: Option<[u64; 2]>,
}

impl Forecast {
    /// Returns the prediction with the measured time, ns.
    #[must_use]
    pub const fn beside(self, measured_ns: u64) -> Prediction {
        Prediction { measured_ns: Some(measured_ns), ..self.unmeasured() }
    }

    /// Returns the prediction without a measured time.
    #[must_use]
    pub const fn unmeasured(self) -> Prediction {
        let Self { what, bytes, foretold_ns, range_ns } = self;
        Prediction { what, bytes, foretold_ns, measured_ns: None, range_ns }
    }
}

/// A prediction and the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// Predicted quantity.
    pub what: What,
    /// Data bytes; for an echo, those of the concurrent output.
    pub bytes: u64,
    /// Predicted time, ns.
    pub foretold_ns: u64,
    /// Measured time, the median of several measurements; null if there was none, ns.
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
        let off = (i128::from(self.foretold_ns) - measured) * 1_000;
        i64::try_from(off / measured).ok()
    }

    /// Returns whether the measured time is in the expected range. `None` without a range or a
    /// measured time.
    #[must_use]
    pub fn is_in_range(&self) -> Option<bool> {
        let [least, most] = self.range_ns?;
        self.measured_ns.map(|measured| (least..=most).contains(&measured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORECAST: Forecast =
        Forecast { what: What::Received, bytes: 9, foretold_ns: 110, range_ns: None };

    #[test]
    fn an_error_is_a_part_of_what_was_measured() {
        assert_eq!(FORECAST.beside(100).off_per_mille(), Some(100));
        assert_eq!(FORECAST.beside(220).off_per_mille(), Some(-500));
        assert_eq!(FORECAST.beside(0).off_per_mille(), None);
    }

    #[test]
    fn a_range_holds_its_ends_and_nothing_beyond_them() {
        let forecast = Forecast { range_ns: Some([100, 120]), ..FORECAST };
        let held = [99, 100, 120, 121].map(|ns| forecast.beside(ns).is_in_range());
        assert_eq!(held, [Some(false), Some(true), Some(true), Some(false)]);
        assert_eq!(forecast.unmeasured().is_in_range(), None);
        assert_eq!(FORECAST.beside(110).is_in_range(), None);
    }

    proptest! {
        #[test]
        fn no_times_break_it(foretold_ns: u64, measured_ns: u64) {
            let seen = Forecast { foretold_ns, ..FORECAST }.beside(measured_ns);
            _ = (seen.off_per_mille(), seen.is_in_range());
        }
    }
}
