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

/// A time that was foretold, before anything is known of what will be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// Of what.
    pub what: What,
    /// Its data bytes; of an echo, those of the output beside it.
    pub bytes: u64,
    /// How long it will take, ns.
    pub foretold_ns: u64,
}

impl Forecast {
    /// Returns it beside what was then measured, ns.
    #[must_use]
    pub const fn beside(self, measured_ns: u64) -> Prediction {
        let Self { what, bytes, foretold_ns } = self;
        Prediction { what, bytes, foretold_ns, measured_ns: Some(measured_ns), range_ns: None }
    }

    /// Returns it as what nobody measures, between the times that were as far from their forecasts
    /// as each of `seen` was.
    #[must_use]
    pub fn unmeasured(self, seen: &[Prediction]) -> Prediction {
        let Self { what, bytes, foretold_ns } = self;
        // What was foretold exactly once is not therefore exact.
        let scaled = |one: &Prediction| {
            let ns = u128::from(foretold_ns) * u128::from(one.measured_ns?);
            u64::try_from(ns.checked_div(u128::from(one.foretold_ns))?).ok()
        };
        let times: Vec<u64> = seen.iter().filter_map(scaled).chain([foretold_ns]).collect();
        let range_ns = times.iter().min().zip(times.iter().max());
        let range_ns = range_ns.filter(|_| times.len() > 1).map(|(least, most)| [*least, *most]);
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
    /// Of what was not measured: the least and the most that it will take if it is as far from its
    /// forecast as what was measured, ns.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORECAST: Forecast = Forecast { what: What::Received, bytes: 9, foretold_ns: 110 };

    #[test]
    fn an_error_is_a_part_of_what_was_measured() {
        assert_eq!(FORECAST.beside(100).off_per_mille(), Some(100));
        assert_eq!(FORECAST.beside(220).off_per_mille(), Some(-500));
        assert_eq!(FORECAST.beside(0).off_per_mille(), None);
    }

    #[test]
    fn what_is_not_measured_has_the_range_of_what_was() {
        let seen = [FORECAST.beside(100), FORECAST.beside(220)];
        let far = Forecast { foretold_ns: 1_100, ..FORECAST }.unmeasured(&seen);
        assert_eq!((far.measured_ns, far.range_ns), (None, Some([1_000, 2_200])));
        assert_eq!(FORECAST.unmeasured(&[]).range_ns, None);
    }

    proptest! {
        #[test]
        fn no_times_break_it(foretold_ns: u64, measured_ns: u64) {
            let seen = Forecast { foretold_ns, ..FORECAST }.beside(measured_ns);
            _ = (seen.off_per_mille(), FORECAST.unmeasured(&[seen]));
        }
    }
}
