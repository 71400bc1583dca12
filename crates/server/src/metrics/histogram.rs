//! Histogram in the format of OpenMetrics, with cumulative buckets.

use std::fmt::Write;

/// Histogram of microseconds, written in seconds.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Upper bounds of the buckets in µs, and the count of each, not cumulative.
    buckets: Vec<(u64, u64)>,
    count: u64,
    sum_us: u128,
}

impl Histogram {
    /// Creates a histogram whose buckets have the upper bounds `ends_us`, in ascending order.
    pub(super) fn new(ends_us: &[u64]) -> Self {
        let buckets = ends_us.iter().map(|end| (*end, 0)).collect();
        Self { buckets, count: 0, sum_us: 0 }
    }

    /// Counts a value in µs.
    pub(super) fn add(&mut self, us: u64) {
        if let Some((_, count)) = self.buckets.iter_mut().find(|(end, _)| us <= *end) {
            *count += 1;
        }
        self.count += 1;
        self.sum_us += u128::from(us);
    }

    /// Appends the histogram to `out` as the metric `name`.
    pub(super) fn write(&self, out: &mut String, name: &str) {
        let mut below = 0;
        for (end, count) in &self.buckets {
            below += count;
            // Writing to a `String` cannot fail.
            _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {below}", seconds(*end));
        }
        let seconds = self.sum_us / 1_000_000;
        let micros = self.sum_us % 1_000_000;
        _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {}", self.count);
        _ = writeln!(out, "{name}_count {}\n{name}_sum {seconds}.{micros:06}", self.count);
    }
}

/// Formats microseconds as seconds in the number format of OpenMetrics: with a decimal point, and
/// without trailing zeros.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_buckets_are_cumulative() {
        let mut histogram = Histogram::new(&[1_000, 1_000_000]);
        [500, 1_000, 2_000, 5_000_000].iter().for_each(|us| histogram.add(*us));
        let mut text = String::new();
        histogram.write(&mut text, "x");
        let expected = "x_bucket{le=\"0.001\"} 2\nx_bucket{le=\"1.0\"} 3\nx_bucket{le=\"+Inf\"} 4\n\
                      x_count 4\nx_sum 5.003500\n";
        assert_eq!(text, expected);
    }
}
