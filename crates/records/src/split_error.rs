//! Error bound of the split of a time among the layers.
//!
//! Some layers have a measured time; the rest of the total is charged to the remainder. The parts
//! therefore always add up to the total, even if a measurement is wrong. The bound is the amount by
//! which the measured times exceeded the total before they were scaled down, plus the resolution of
//! the clock, once for each measured time and once for the total.

use crate::format::{count, duration, share};
use crate::layer::{Layer, LayerTime};
use crate::statistics;
use serde::{Deserialize, Serialize};

/// The error bound of one split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitError {
    /// Sum of the measured times of the layers, ns.
    pub accounted_ns: u64,
    /// Remainder of the total that no layer of this process accounts for, ns.
    pub unexplained_ns: u64,
    /// Excess of `accounted_ns` over the total, ns: the times of layers overlap, or one of them is
    /// wrong.
    pub excess_ns: u64,
    /// Resolution of the clock, ns.
    pub resolution_ns: u64,
    /// Possible error of any part, due to the excess and the clock readings, ns.
    pub error_ns: u64,
    /// Empty intervals measured in the same run, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<EmptyIntervals>,
}

/// Intervals between two clock readings with nothing between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyIntervals {
    /// Number of intervals.
    pub count: u64,
    /// Median, ns.
    pub median_ns: u64,
    /// Maximum, ns.
    pub longest_ns: u64,
}

impl EmptyIntervals {
    /// Computes the statistics of intervals of `times_ns`; `None` if there are none.
    #[must_use]
    pub fn of(times_ns: &[u64]) -> Option<Self> {
        Some(Self {
            count: u64::try_from(times_ns.len()).unwrap_or(u64::MAX),
            median_ns: statistics::median(times_ns)?,
            longest_ns: times_ns.iter().max().copied()?,
        })
    }
}

impl SplitError {
    /// Computes the error of a split of `total_ns` among `parts`, for a clock of the given
    /// resolution.
    #[must_use]
    pub fn of(total_ns: u64, parts: &[LayerTime], resolution_ns: u64) -> Self {
        let local_parts = parts.iter().filter(|part| part.layer != Layer::RemoteHostAndNetwork);
        let accounted_ns = local_parts.clone().fold(0_u64, |sum, part| sum.saturating_add(part.ns));
        let readings = u64::try_from(local_parts.count()).unwrap_or(u64::MAX).saturating_add(1);
        let excess_ns = accounted_ns.saturating_sub(total_ns);
        Self {
            accounted_ns,
            unexplained_ns: total_ns.saturating_sub(accounted_ns),
            excess_ns,
            resolution_ns,
            error_ns: excess_ns.saturating_add(resolution_ns.saturating_mul(readings)),
            empty: None,
        }
    }

    /// Returns `self` with the empty intervals of the run. The longest empty interval is the error
    /// that a clock reading may add to any part.
    #[must_use]
    pub fn with_empty(self, empty: Option<EmptyIntervals>) -> Self {
        let longest_ns = empty.map_or(0, |empty| empty.longest_ns);
        let error_ns = self.error_ns.max(self.excess_ns.saturating_add(longest_ns));
        Self { error_ns, empty, ..self }
    }

    /// Returns the error bound as a sentence.
    #[must_use]
    pub fn sentence(&self, total_ns: u64) -> String {
        let mut text = format!(
            "Measured in this program: {} of {} ({})",
            duration(self.accounted_ns),
            duration(total_ns),
            share(self.accounted_ns, total_ns)
        );
        text += &match self.excess_ns {
            0 => format!("; the rest, {}, was not measured", duration(self.unexplained_ns)),
            excess => format!(
                ", {} more than the total: layers overlap or one measured time is wrong, so the \
                 times of all layers were reduced",
                duration(excess)
            ),
        };
        if let Some(empty) = self.empty {
            return text
                + &format!(
                    ". {} empty intervals were measured in this run. Their median is {}, and their \
                     maximum is {}. The time of any part may include that much for reading the \
                     clock and for interruptions.",
                    count(empty.count),
                    duration(empty.median_ns),
                    duration(empty.longest_ns)
                );
        }
        text + &format!(
            ". The rounding error of the clock, whose resolution is {}, is at most {} of any part; \
             interrupts and other programs may have added more.",
            duration(self.resolution_ns),
            duration(self.error_ns.saturating_sub(self.excess_ns))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(layer: Layer, ns: u64) -> LayerTime {
        LayerTime { layer, ns }
    }

    #[test]
    fn time_without_an_account_is_unexplained_and_each_reading_adds_an_error() {
        let parts = [part(Layer::Telnet, 3_000), part(Layer::Terminal, 2_000)];
        let error = SplitError::of(210_000, &parts, 1);
        assert_eq!((error.accounted_ns, error.unexplained_ns), (5_000, 205_000));
        assert_eq!((error.excess_ns, error.error_ns), (0, 3));
        assert_eq!(
            error.sentence(210_000),
            "Measured in this program: 5.00 µs of 210 µs (2 %); the rest, 205 µs, was not measured. \
             The rounding error of the clock, whose resolution is 1 ns, is at most 3 ns of any part; \
             interrupts and other programs may have added more."
        );
    }

    #[test]
    fn a_line_of_2_ms_in_an_echo_of_167_us_shows_as_an_error_of_nearly_2_ms() {
        let error = SplitError::of(167_000, &[part(Layer::Line, 2_083_333)], 1);
        assert_eq!((error.unexplained_ns, error.excess_ns), (0, 1_916_333));
        assert!(error.error_ns >= error.excess_ns);
        assert!(error.sentence(167_000).contains("1.92 ms more than the total"));
    }

    #[test]
    fn empty_intervals_bound_the_error_of_a_clock_reading() {
        let empty = EmptyIntervals::of(&[40, 60, 9_000]);
        let error = SplitError::of(210_000, &[part(Layer::Telnet, 3_000)], 1).with_empty(empty);
        assert_eq!(error.error_ns, 9_000);
        let sentence = error.sentence(210_000);
        let expected = "3 empty intervals were measured in this run. Their median is 60 ns, and their \
                        maximum is 9.00 µs.";
        assert!(sentence.contains(expected), "{sentence}");
        assert_eq!(EmptyIntervals::of(&[]), None);
        assert_eq!(SplitError::of(1, &[], 7).with_empty(None).error_ns, 7);
    }

    #[test]
    fn the_longest_empty_interval_is_added_to_the_excess() {
        let empty = EmptyIntervals::of(&[40, 60, 9_000]);
        assert_eq!(
            empty.map(|empty| (empty.count, empty.median_ns, empty.longest_ns)),
            Some((3, 60, 9_000))
        );
        let parts = [part(Layer::Telnet, 3_000), part(Layer::RemoteHostAndNetwork, 77)];
        let error = SplitError::of(1_000, &parts, 5);
        assert_eq!((error.accounted_ns, error.excess_ns, error.error_ns), (3_000, 2_000, 2_010));
        assert_eq!(error.with_empty(empty).error_ns, 11_000);
        assert_eq!(SplitError::of(3_000, &parts, 5).excess_ns, 0);
        assert_eq!(SplitError::of(3_000, &parts, 9_001).with_empty(empty).error_ns, 18_002);
    }
}
