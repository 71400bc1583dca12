//! Transfers of growing sizes: the fixed cost of a transfer, and the cost of each byte.
//!
//! The model of a transfer time is `fixed + bytes / rate`. Both parameters are fitted separately
//! for each direction, by least squares of the relative error. A transfer of a kilobyte therefore
//! weighs as much as one of a megabyte. The model is dropped if it is wrong by more than a factor
//! of two for any size, for example behind a token bucket. It is also dropped if the bytes of the
//! largest transfer take less than a quarter of the fixed time, because the rate would then be
//! noise.
//!
//! The knee is the smallest size from which on all sizes have about the same rate. The rate of each
//! of these sizes is between four fifths of their average rate and twice that rate, and there are
//! at least two such sizes. RFC 573 found a knee at 40 kbit.

mod phases;

pub use phases::{Phase, median_sample};

use crate::arrivals::Arrival;
use crate::format::{byte_rate, duration, size as file_size};
use crate::statistics::median;
use serde::{Deserialize, Serialize};

/// Direction of a file transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the remote host to the local host.
    Received,
    /// From the local host to the remote host.
    Sent,
}

impl Direction {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
        }
    }
}

/// Transfers of growing sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
    /// Each transfer, in chronological order.
    pub samples: Vec<Sample>,
    /// Cost model of received transfers or, if the run only sent, of sent transfers.
    pub model: Option<Model>,
    /// Knee of the direction of `model`: size beyond which the rate changes little, bytes.
    pub knee_bytes: Option<u64>,
    /// Cost model of sent transfers, if the run also received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_model: Option<Model>,
    /// Knee of sent transfers: size beyond which the rate changes little, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_knee_bytes: Option<u64>,
    /// Progress of the largest transfer, if it was recorded.
    pub sequence: Vec<Arrival>,
}

/// One transfer, with the known parts of its time: [`Sample::phases`] adds them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Direction of the transfer.
    pub direction: Direction,
    /// Bytes of the file, or of the requested part of it.
    pub bytes: u64,
    /// Time from the command (for TFTP the request) to the confirmation, ns.
    pub total_ns: u64,
    /// Time until the data connection was requested, ns.
    #[serde(default, alias = "before_ns", skip_serializing_if = "Option::is_none")]
    pub setup_ns: Option<u64>,
    /// Time from the beginning of the transfer to its command, ns. The data connection may still be
    /// opening then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_at_ns: Option<u64>,
    /// From the command to the first byte, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ns: Option<u64>,
    /// From the command to the reply that announces the transfer, ns.
    pub command_ns: Option<u64>,
    /// From the request for a data connection until it was established, ns.
    pub data_connect_ns: Option<u64>,
    /// TLS handshake on the data connection, ns.
    pub data_tls_ns: Option<u64>,
    /// From the first byte to the last, ns.
    pub data_ns: Option<u64>,
    /// From the last byte to the final reply, ns.
    #[serde(alias = "confirm_ns")]
    pub confirmation_ns: Option<u64>,
    /// CPU time of this process, ns.
    pub cpu_ns: Option<u64>,
    /// Whether this sample is the beginning of a longer transfer, taken when `bytes` had arrived.
    #[serde(alias = "is_beginning")]
    pub is_partial: bool,
}

/// Linear cost model of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Fixed time, independent of the size, ns.
    pub fixed_ns: u64,
    /// Rate of the remaining bytes, bit/s.
    pub rate_bps: u64,
}

impl Model {
    /// Returns the predicted time of a transfer of `bytes`, ns.
    #[must_use]
    pub fn total_ns(&self, bytes: u64) -> u64 {
        let bits = u128::from(bytes) * 8;
        let data = bits * 1_000_000_000 / u128::from(self.rate_bps.max(1));
        self.fixed_ns.saturating_add(u64::try_from(data).unwrap_or(u64::MAX))
    }

    /// Returns the size at which a transfer reaches half of the rate, bytes.
    #[must_use]
    pub(crate) fn half_rate_bytes(&self) -> u64 {
        let bits = u128::from(self.fixed_ns) * u128::from(self.rate_bps) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl Sample {
    /// Returns the average rate over the total time, bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        rate_bps(self.bytes, self.total_ns)
    }
}

/// All transfers of one size and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Size, bytes.
    pub bytes: u64,
    /// Number of transfers.
    pub count: u64,
    /// Median time, ns.
    pub total_ns: u64,
}

impl Size {
    /// Returns the rate at the median time, bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        rate_bps(self.bytes, self.total_ns)
    }
}

impl Transfers {
    /// Builds the model and the knees from `samples`; `sequence` is the progress of the largest
    /// transfer.
    #[must_use]
    pub fn of(samples: Vec<Sample>, sequence: Vec<Arrival>) -> Self {
        let mut transfers = Self { samples, sequence, ..Self::default() };
        let received = transfers.sizes(Direction::Received);
        let sent = transfers.sizes(Direction::Sent);
        let fitted = |sizes: &[Size]| model(sizes).filter(|model| is_measurable(model, sizes));
        let main_sizes = if received.is_empty() { &sent } else { &received };
        transfers.model = fitted(main_sizes);
        transfers.knee_bytes = knee_bytes(main_sizes);
        if !received.is_empty() {
            transfers.sent_model = fitted(&sent);
            transfers.sent_knee_bytes = knee_bytes(&sent);
        }
        transfers
    }

    fn has(&self, direction: Direction) -> bool {
        self.samples.iter().any(|one| one.direction == direction && one.bytes > 0)
    }

    /// Returns the cost model of one direction, if it is known.
    #[must_use]
    pub fn model_of(&self, direction: Direction) -> Option<Model> {
        match direction {
            Direction::Sent if self.has(Direction::Received) => self.sent_model,
            _ => self.model.filter(|_| self.has(direction)),
        }
    }

    /// Returns the knee of one direction: the size beyond which the rate changes little, bytes.
    #[must_use]
    pub fn knee_of(&self, direction: Direction) -> Option<u64> {
        match direction {
            Direction::Sent if self.has(Direction::Received) => self.sent_knee_bytes,
            _ => self.knee_bytes.filter(|_| self.has(direction)),
        }
    }

    /// Returns the slower direction, by the times of the largest size that was transferred in both
    /// directions. If there were transfers in one direction only, returns that direction.
    #[must_use]
    pub fn slower(&self) -> Option<Direction> {
        let received = self.sizes(Direction::Received);
        let sent = self.sizes(Direction::Sent);
        let times_at_common_size = received.iter().rev().find_map(|one| {
            let other = sent.iter().find(|other| other.bytes == one.bytes)?;
            Some((one.total_ns, other.total_ns))
        });
        let last = |sizes: &[Size]| sizes.last().map(Size::rate_bps);
        match (times_at_common_size, last(&received), last(&sent)) {
            (Some((received, sent)), ..) if sent > received => Some(Direction::Sent),
            (Some(_), ..) => Some(Direction::Received),
            (None, Some(received), Some(sent)) if sent < received => Some(Direction::Sent),
            (None, Some(_), _) => Some(Direction::Received),
            (None, None, Some(_)) => Some(Direction::Sent),
            (None, None, None) => None,
        }
    }

    /// Returns the sizes of one direction, smallest first, without empty files.
    #[must_use]
    pub fn sizes(&self, direction: Direction) -> Vec<Size> {
        let in_direction = || self.samples.iter().filter(|one| one.direction == direction);
        let mut all: Vec<u64> =
            in_direction().map(|one| one.bytes).filter(|bytes| *bytes > 0).collect();
        all.sort_unstable();
        all.dedup();
        let size = |bytes: u64| {
            let times: Vec<u64> =
                in_direction().filter(|one| one.bytes == bytes).map(|one| one.total_ns).collect();
            let count = u64::try_from(times.len()).unwrap_or(u64::MAX);
            Some(Size { bytes, count, total_ns: median(&times)? })
        };
        all.into_iter().filter_map(size).collect()
    }

    /// Returns the highest rate of any transfer, and the rate of all transfers together, bit/s.
    /// Samples that are the beginning of a longer transfer do not count.
    #[must_use]
    pub fn rates_bps(&self) -> Option<(u64, u64)> {
        let complete_samples =
            || self.samples.iter().filter(|one| !one.is_partial && one.bytes > 0);
        let peak = complete_samples().map(Sample::rate_bps).max()?;
        let bytes = complete_samples().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
        let ns = complete_samples().fold(0_u64, |sum, one| sum.saturating_add(one.total_ns));
        Some((peak, rate_bps(bytes, ns)))
    }

    /// Returns the CPU time per megabit over all transfers whose CPU time is known, ns.
    #[must_use]
    pub(crate) fn cpu_ns_per_megabit(&self) -> Option<u64> {
        let with_cpu_time = self.samples.iter().filter(|one| !one.is_partial);
        let with_cpu_time = with_cpu_time.filter_map(|one| Some((one.bytes, one.cpu_ns?)));
        let (bytes, ns) = with_cpu_time.fold((0_u128, 0_u128), |(bytes, ns), (more, cost)| {
            (bytes + u128::from(more), ns + u128::from(cost))
        });
        let cost = (ns * 1_000_000).checked_div(bytes * 8)?;
        u64::try_from(cost).ok()
    }
}

impl Transfers {
    /// Describes transfer times that no model fits.
    fn extremes_sentence(&self, direction: Direction) -> String {
        let sizes = self.sizes(direction);
        let direction_clause = self.direction_clause(direction);
        let text = |size: &Size| {
            let bytes = file_size(size.bytes);
            let time = duration(size.total_ns);
            let rate = byte_rate(size.rate_bps());
            format!("{bytes}{direction_clause} takes {time}, {rate}")
        };
        match sizes.as_slice() {
            [] => "Only empty files were transferred, so the rate is unknown.".to_owned(),
            [only] => format!(
                "{}; further sizes are required to determine the fixed time and the rate.",
                text(only)
            ),
            [first, .., last] if is_time_constant(&sizes) => {
                let times = || sizes.iter().map(|size| size.total_ns);
                format!(
                    "Transfers{direction_clause} of {} to {} take {} to {}: the times do not \
                     grow with the sizes, so the rate is unknown. Measure larger transfers \
                     (--bytes).",
                    file_size(first.bytes),
                    file_size(last.bytes),
                    duration(times().min().unwrap_or(0)),
                    duration(times().max().unwrap_or(0))
                )
            }
            [first, .., last] => format!(
                "{}, and {}; between them the times do not grow linearly with the sizes: some \
                 transfers were affected by a token bucket, packet loss or a busy host, and others \
                 were not.",
                text(first),
                text(last)
            ),
        }
    }

    /// Returns a clause that names the direction, if there were transfers in both.
    fn direction_clause(&self, direction: Direction) -> &'static str {
        match direction {
            _ if !(self.has(Direction::Received) && self.has(Direction::Sent)) => "",
            Direction::Received => " (download)",
            Direction::Sent => " (upload)",
        }
    }

    /// Returns one sentence: the cost of a transfer, and the knee. If there were transfers in both
    /// directions, it describes the slower one.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(last) = self.samples.last() else {
            return "No file was transferred, so the time of a transfer is unknown.".to_owned();
        };
        let direction = self.slower().unwrap_or(last.direction);
        let Some(model) = self.model_of(direction) else {
            return self.extremes_sentence(direction);
        };
        let mut text = format!(
            "Transfers{} take a fixed time of {} regardless of their size, and their data is sent \
             at {}",
            self.direction_clause(direction),
            duration(model.fixed_ns),
            byte_rate(model.rate_bps),
        );
        let largest = self.sizes(direction).last().map_or(0, |size| size.bytes);
        let half_rate_bytes = model.half_rate_bytes();
        // Do not extrapolate beyond the measured sizes.
        if half_rate_bytes <= largest {
            let half = file_size(half_rate_bytes);
            text += &format!(": transfers of {half} reach half of that rate");
        }
        if let Some(knee) = self.knee_of(direction) {
            text += &format!("; from {} on, the rate hardly depends on the size", file_size(knee));
        }
        text + "."
    }
}

/// The rate counts as measured if the bytes of the largest transfer take at least the fixed time
/// divided by this number.
const MIN_DATA_TIME_DIVISOR: u64 = 4;

/// Returns whether the bytes of the largest of `sizes` take long enough to show the rate of
/// `model`.
fn is_measurable(model: &Model, sizes: &[Size]) -> bool {
    let largest = sizes.last().map_or(0, |size| size.bytes);
    model.half_rate_bytes() / MIN_DATA_TIME_DIVISOR <= largest
}

/// Returns whether the largest of `sizes` takes at most twice as long as the smallest.
fn is_time_constant(sizes: &[Size]) -> bool {
    let smallest_and_largest = sizes.first().zip(sizes.last());
    smallest_and_largest
        .is_some_and(|(first, last)| last.total_ns <= first.total_ns.saturating_mul(2))
}

fn rate_bps(bytes: u64, ns: u64) -> u64 {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    u64::try_from(bits / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

/// Fits the model to the times of `sizes`; `None` for fewer than two sizes, and if the times do not
/// grow with the size.
#[must_use]
pub fn model(sizes: &[Size]) -> Option<Model> {
    if sizes.len() < 2 {
        return None;
    }
    // Each equation t = a + b * n is divided by t, so that all have the same weight.
    let mut ww = 0.0;
    let mut wn = 0.0;
    let mut nn = 0.0;
    let mut w = 0.0;
    let mut n = 0.0;
    for size in sizes {
        let time = size.total_ns.max(1) as f64;
        let one = 1.0 / time;
        let bytes = size.bytes as f64 / time;
        ww += one * one;
        wn += one * bytes;
        nn += bytes * bytes;
        w += one;
        n += bytes;
    }
    let determinant = ww * nn - wn * wn;
    let fixed = (w * nn - n * wn) / determinant;
    let per_byte = (ww * n - wn * w) / determinant;
    if !fixed.is_finite() || !per_byte.is_finite() || per_byte <= 0.0 {
        return None;
    }
    // If the times grow faster than the sizes, there is no fixed part.
    let (fixed, per_byte) = if fixed < 0.0 { (0.0, n / nn) } else { (fixed, per_byte) };
    let model =
        Model { fixed_ns: to_integer(fixed)?, rate_bps: to_integer(8e9 / per_byte)?.max(1) };
    let is_accurate = |size: &Size| {
        let predicted_ns = u128::from(model.total_ns(size.bytes));
        let actual_ns = u128::from(size.total_ns);
        predicted_ns <= actual_ns * 2 && actual_ns <= predicted_ns * 2
    };
    sizes.iter().all(is_accurate).then_some(model)
}

/// Returns `value` without its fraction, or `None` if it is not in the range 0 to 1e18.
fn to_integer(value: f64) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    #[expect(clippy::cast_sign_loss, reason = "the range is checked")]
    (0.0..=1e18).contains(&value).then_some(value as u64)
}

/// Returns the smallest of `sizes` from which on all sizes have about the same rate. Returns `None`
/// for fewer than three sizes, or if only the largest size remains.
#[must_use]
pub(crate) fn knee_bytes(sizes: &[Size]) -> Option<u64> {
    if sizes.len() < 3 {
        return None;
    }
    let is_level = |from: &[Size]| {
        let bytes = from.iter().fold(0_u64, |sum, size| sum.saturating_add(size.bytes));
        let ns = from.iter().fold(0_u64, |sum, size| sum.saturating_add(size.total_ns));
        let all = rate_bps(bytes, ns);
        from.iter().all(|size| {
            let rate = u128::from(size.rate_bps());
            let all = u128::from(all);
            rate * 5 >= all * 4 && rate <= all * 2
        })
    };
    (0..sizes.len())
        .filter_map(|at| sizes.get(at..))
        .find(|from| is_level(from))
        .filter(|from| from.len() > 1)?
        .first()
        .map(|size| size.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(bytes: u64, total_ns: u64) -> Sample {
        Sample {
            direction: Direction::Received,
            bytes,
            total_ns,
            setup_ns: None,
            command_at_ns: None,
            first_byte_ns: None,
            command_ns: None,
            data_connect_ns: None,
            data_tls_ns: None,
            data_ns: None,
            confirmation_ns: None,
            cpu_ns: Some(bytes),
            is_partial: false,
        }
    }

    /// Returns transfers of 1 KiB, 4 KiB, 16 KiB and so on, which take 2 ms plus their time at 80
    /// Mbit/s.
    fn transfers() -> Transfers {
        let samples = (5..12).map(|power| {
            let bytes = 1 << (2 * power);
            sample(bytes, 2_000_000 + bytes * 100)
        });
        Transfers::of(samples.collect(), Vec::new())
    }

    #[test]
    fn the_fixed_cost_and_the_cost_per_byte_are_separated() {
        let model = transfers().model.unwrap();
        assert!((1_999_900..=2_000_100).contains(&model.fixed_ns), "{model:?}");
        assert!((79_990_000..=80_010_000).contains(&model.rate_bps), "{model:?}");
        assert!((19_990..=20_010).contains(&model.half_rate_bytes()), "{model:?}");
    }

    #[test]
    fn the_knee_is_where_larger_files_are_no_faster() {
        assert_eq!(transfers().knee_bytes, Some(262_144));
    }

    #[test]
    fn a_size_is_represented_by_its_median() {
        let samples = vec![sample(1_000, 9), sample(1_000, 5), sample(1_000, 400)];
        let sizes = Transfers::of(samples, Vec::new()).sizes(Direction::Received);
        assert_eq!(sizes, [Size { bytes: 1_000, count: 3, total_ns: 9 }]);
    }

    #[test]
    fn the_peak_rate_is_of_one_transfer_and_the_average_of_all() {
        let samples = vec![sample(1_000, 1_000_000), sample(1_000, 3_000_000)];
        let rates = Transfers::of(samples, Vec::new()).rates_bps();
        assert_eq!(rates, Some((8_000_000, 4_000_000)));
    }

    #[test]
    fn cpu_time_is_per_megabit() {
        assert_eq!(transfers().cpu_ns_per_megabit(), Some(125_000));
    }

    #[test]
    fn one_size_gives_no_model() {
        let transfers = Transfers::of(vec![sample(1_000, 10), sample(0, 3)], Vec::new());
        assert_eq!((transfers.model, transfers.knee_bytes), (None, None));
    }

    #[test]
    fn a_token_bucket_gives_no_model_and_no_knee() {
        let sizes =
            [(1_024, 250_000), (16_384, 260_000), (65_536, 9_000_000), (4_194_304, 1_700_000_000)];
        let samples = sizes.map(|(bytes, ns)| sample(bytes, ns)).to_vec();
        let transfers = Transfers::of(samples, Vec::new());
        assert_eq!((transfers.model, transfers.knee_bytes), (None, None));
        assert_eq!(
            transfers.sentence(),
            "1.02 kB takes 250 µs, 4.10 MB/s, and 4.19 MB takes 1.70 s, 2.47 MB/s; \
             between them the times do not grow linearly with the sizes: some transfers were \
             affected by a token bucket, packet loss or a busy host, and others were not."
        );
    }

    #[test]
    fn each_direction_has_a_model_and_the_sentence_describes_the_slower_one() {
        let sent = |bytes: u64| Sample {
            direction: Direction::Sent,
            ..sample(bytes, 1_500_000 + bytes * 80)
        };
        let sizes = [1_024, 16_384, 262_144];
        let received = sizes.map(|bytes| sample(bytes, 184_000));
        let samples = received.into_iter().chain(sizes.map(sent)).collect();
        let transfers = Transfers::of(samples, Vec::new());
        assert_eq!(transfers.model_of(Direction::Received), None);
        let model = transfers.model_of(Direction::Sent).unwrap();
        assert!((1_499_000..=1_501_000).contains(&model.fixed_ns), "{model:?}");
        let sentence = transfers.sentence();
        let expected = "Transfers (upload) take a fixed time of 1.50 ms regardless of their size";
        assert!(sentence.starts_with(expected), "{sentence}");
    }

    #[test]
    fn equal_times_give_no_rate_and_no_cause() {
        let sizes = [(1_024, 180_000), (65_536, 184_000), (262_144, 196_000)];
        let samples = sizes.map(|(bytes, ns)| sample(bytes, ns)).to_vec();
        let transfers = Transfers::of(samples, Vec::new());
        assert_eq!(transfers.model, None);
        assert_eq!(
            transfers.sentence(),
            "Transfers of 1.02 kB to 262 kB take 180 µs to 196 µs: the times do not grow with \
             the sizes, so the rate is unknown. Measure larger transfers (--bytes)."
        );
    }

    #[test]
    fn larger_sizes_with_shorter_times_give_no_cause() {
        let sizes = [(1_024, 5_430_000), (4_096, 7_720_000), (262_144, 2_510_000)];
        let samples = sizes.map(|(bytes, ns)| sample(bytes, ns)).to_vec();
        let sentence = Transfers::of(samples, Vec::new()).sentence();
        assert!(sentence.contains("2.51 ms to 7.72 ms: the times do not grow"), "{sentence}");
    }

    #[test]
    fn one_size_is_reported_with_its_time() {
        let transfers = Transfers::of(vec![sample(1_000, 80_000)], Vec::new());
        let sentence = transfers.sentence();
        assert!(sentence.starts_with("1.00 kB takes 80.0 µs, 12.5 MB/s; further"), "{sentence}");
    }

    #[test]
    fn times_that_do_not_grow_have_no_model() {
        let samples = vec![sample(1_000, 100), sample(4_000, 90), sample(16_000, 80)];
        assert_eq!(Transfers::of(samples, Vec::new()).model, None);
    }

    #[test]
    fn a_model_gives_time_and_half_rate() {
        let model = Model { fixed_ns: 2_000_000, rate_bps: 8_000_000 };
        assert_eq!((model.total_ns(1_000), model.half_rate_bytes()), (3_000_000, 2_000));
        assert_eq!(Model { rate_bps: 0, ..model }.total_ns(1), 8_002_000_000);
    }

    #[test]
    fn sizes_are_level_between_four_fifths_and_twice_their_average_rate() {
        let size = |bytes: u64, total_ns: u64| Size { bytes, count: 1, total_ns };
        // 1,000 bytes per microsecond on average.
        let knee = |bytes: u64, ns: u64| {
            let rest = [size(1_000_000 - bytes, 1_000_000 - ns)];
            let sizes = [vec![size(1, 1_000_000_000), size(bytes, ns)], rest.to_vec()].concat();
            knee_bytes(&sizes)
        };
        assert_eq!(knee(8_000, 10_000), Some(8_000));
        assert_eq!(knee(7_999, 10_000), None);
        assert_eq!(knee(20_000, 10_000), Some(20_000));
        assert_eq!(knee(20_001, 10_000), None);
        // Fewer than three sizes, or only the largest, show no knee.
        assert_eq!(knee_bytes(&[size(1_000, 1_000), size(2_000, 2_000)]), None);
        let three = [1, 2, 3].map(|count| size(count * 1_000, count * 1_000));
        assert_eq!(knee_bytes(&three), Some(1_000));
    }

    #[test]
    fn the_rate_is_measurable_if_the_data_takes_a_quarter_of_the_fixed_time() {
        let sizes = |bytes: u64| [Size { bytes, count: 1, total_ns: 1 }];
        let model = Model { fixed_ns: 4_000_000, rate_bps: 8_000_000 };
        assert!(is_measurable(&model, &sizes(1_000)) && !is_measurable(&model, &sizes(999)));
        let time_constant = |last: u64| {
            let first = Size { bytes: 1, count: 1, total_ns: 100 };
            is_time_constant(&[first, Size { total_ns: last, ..first }])
        };
        assert_eq!([200, 201].map(time_constant), [true, false]);
    }

    #[test]
    fn a_model_is_wrong_by_at_most_a_factor_of_two() {
        let size = |bytes: u64, total_ns: u64| Size { bytes, count: 1, total_ns };
        let exact = model(&[size(1_000, 3_000_000), size(3_000, 5_000_000)]).unwrap();
        assert!(exact.fixed_ns.abs_diff(2_000_000) <= 1, "{exact:?}");
        assert!(exact.rate_bps.abs_diff(8_000_000) <= 1, "{exact:?}");
        assert_eq!(model(&[size(1_000, 3_000_000)]), None);
        // Two times of one size determine neither part, even if rounding gives infinite ones.
        assert_eq!(model(&[size(1_000, 7_300_814), size(1_000, 6_347_439)]), None);
        // Times that grow faster than the sizes have no fixed part.
        let steep = model(&[size(1_000, 1_000_000), size(2_000, 3_000_000)]).unwrap();
        assert_eq!(steep.fixed_ns, 0);
        assert!(steep.rate_bps.abs_diff(6_933_333) <= 1, "{steep:?}");
        assert_eq!(model(&[size(1_000, 1_000_000), size(2_000, 9_000_000)]), None);
    }

    #[test]
    fn the_slower_direction_is_that_of_the_largest_common_size() {
        let of = |received: &[(u64, u64)], sent: &[(u64, u64)]| {
            let one = |&(bytes, ns): &(u64, u64)| sample(bytes, ns);
            let sent = sent.iter().map(one);
            let sent = sent.map(|sample| Sample { direction: Direction::Sent, ..sample });
            let samples = received.iter().map(one).chain(sent).collect();
            Transfers::of(samples, Vec::new()).slower()
        };
        let [received, sent] = [Some(Direction::Received), Some(Direction::Sent)];
        assert_eq!(of(&[(1, 10), (2, 20)], &[(1, 5), (2, 21)]), sent);
        assert_eq!(of(&[(1, 10), (2, 20)], &[(1, 90), (2, 20)]), received);
        assert_eq!(of(&[(2, 20)], &[(1, 10)]), received);
        assert_eq!(of(&[(2, 20)], &[(1, 11)]), sent);
        assert_eq!(of(&[(2, 20)], &[]), received);
        assert_eq!(of(&[], &[(1, 10)]), sent);
        assert_eq!(of(&[], &[]), None);
    }

    #[test]
    fn empty_and_partial_transfers_have_no_rate() {
        let partial = Sample { is_partial: true, ..sample(9_000, 1) };
        let samples = vec![sample(1_000, 1_000_000), sample(0, 9_000_000), partial];
        let transfers = Transfers::of(samples, Vec::new());
        assert_eq!(transfers.rates_bps(), Some((8_000_000, 8_000_000)));
        // A byte took a nanosecond of CPU time.
        assert_eq!(transfers.cpu_ns_per_megabit(), Some(125_000));
        assert_eq!(Transfers::of(vec![partial], Vec::new()).rates_bps(), None);
    }

    proptest! {
        #[test]
        fn a_model_of_any_samples_takes_at_least_its_fixed_time(raw in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..20)) {
            let samples = raw.iter().map(|(bytes, ns)| sample(*bytes, *ns)).collect();
            let transfers = Transfers::of(samples, Vec::new());
            _ = transfers.rates_bps();
            _ = transfers.cpu_ns_per_megabit();
            if let Some(model) = transfers.model {
                prop_assert!(model.total_ns(u64::MAX) >= model.fixed_ns);
                _ = model.half_rate_bytes();
            }
        }

        #[test]
        fn any_linear_cost_is_recovered(fixed in 0..1_u64 << 32, per_byte in 1..100_000_u64) {
            let samples = [1_000, 30_000, 1_000_000].map(|n| sample(n, fixed + n * per_byte));
            let sizes = Transfers::of(samples.to_vec(), Vec::new()).sizes(Direction::Received);
            let model = model(&sizes).unwrap();
            let rate = model.rate_bps as f64;
            let expected = 8e9 / per_byte as f64;
            prop_assert!((rate / expected - 1.0).abs() < 0.01 || fixed > 1_000_000 * per_byte);
        }
    }
}
