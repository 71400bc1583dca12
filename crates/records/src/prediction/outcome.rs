//! What was foretold, and what came of it.

use serde::{Deserialize, Serialize};

/// What is foretold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A screenful that a command writes, from Return to its last cell.
    Screenful,
    /// The echo of a key beside a long output.
    EchoUnderLoad,
    /// A file that comes.
    Received,
    /// A file that goes.
    Sent,
}

impl What {
    /// Returns the text that people read.
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

/// A predicted time, before anything is known of what will be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Of what.
    pub what: What,
    /// Its data bytes; of an echo, those of the output beside it.
    pub bytes: u64,
    /// How long it will take, ns.
    pub foretold_ns: u64,
    /// The least and the most that it is expected to take, ns; `None` if unknown.
    pub range_ns: Option<[u64; 2]>,
}

impl Forecast {
    /// Returns it with what was then measured, ns.
    #[must_use]
    pub const fn beside(self, measured_ns: u64) -> Prediction {
        Prediction { measured_ns: Some(measured_ns), ..self.unmeasured() }
    }

    /// Returns it as a prediction that nothing is compared with.
    #[must_use]
    pub const fn unmeasured(self) -> Prediction {
        let Self { what, bytes, foretold_ns, range_ns } = self;
        Prediction { what, bytes, foretold_ns, measured_ns: None, range_ns }
    }
}

/// What was foretold, beside what was then measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    /// Of what.
    pub what: What,
    /// Its data bytes; of an echo, those of the output beside it.
    pub bytes: u64,
    /// How long it was to take, ns.
    pub foretold_ns: u64,
    /// How long it took, the median if it was measured several times; null if it was not, ns.
    pub measured_ns: Option<u64>,
    /// The least and the most that it was expected to take, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_ns: Option<[u64; 2]>,
}

impl Prediction {
    /// Returns by how much the forecast is off, in thousandths of what was measured: above 0 it was
    /// too long. `None` if nothing was measured.
    #[must_use]
    pub fn off_per_mille(&self) -> Option<i64> {
        let measured = i128::from(self.measured_ns.filter(|ns| *ns > 0)?);
        let off = (i128::from(self.foretold_ns) - measured) * 1_000;
        i64::try_from(off / measured).ok()
    }

    /// Returns whether the measured time lies in the range. `None` without a range, or if nothing was
    /// measured.
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
