//! Counts by classes, as OpenMetrics wants them: each class holds the ones below it.

use std::fmt::Write;

/// A histogram of whole microseconds that is shown in seconds.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Upper ends of the classes, and how many are in each, not in those below.
    classes: Vec<(u64, u64)>,
    count: u64,
    sum_us: u128,
}

impl Histogram {
    /// Makes one whose classes end at `ends_us`, which rise.
    pub(super) fn new(ends_us: &[u64]) -> Self {
        let classes = ends_us.iter().map(|end| (*end, 0)).collect();
        Self { classes, count: 0, sum_us: 0 }
    }

    /// Counts a value.
    pub(super) fn add(&mut self, us: u64) {
        if let Some((_, count)) = self.classes.iter_mut().find(|(end, _)| us <= *end) {
            *count += 1;
        }
        self.count += 1;
        self.sum_us += u128::from(us);
    }

    /// Writes the lines of the histogram called `name`.
    pub(super) fn write(&self, out: &mut String, name: &str) {
        let mut below = 0;
        for (end, count) in &self.classes {
            below += count;
            // A String takes everything.
            _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {below}", seconds(*end));
        }
        let (whole, rest) = (self.sum_us / 1_000_000, self.sum_us % 1_000_000);
        _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {}", self.count);
        _ = writeln!(out, "{name}_count {}\n{name}_sum {whole}.{rest:06}", self.count);
    }
}

/// Returns seconds as OpenMetrics writes numbers: with a point, and no more digits than there are.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_those_below_it_and_the_last_holds_all() {
        let mut histogram = Histogram::new(&[1_000, 1_000_000]);
        [500, 1_000, 2_000, 5_000_000].iter().for_each(|us| histogram.add(*us));
        let mut text = String::new();
        histogram.write(&mut text, "x");
        let wanted = "x_bucket{le=\"0.001\"} 2\nx_bucket{le=\"1.0\"} 3\nx_bucket{le=\"+Inf\"} 4\n\
                      x_count 4\nx_sum 5.003500\n";
        assert_eq!(text, wanted);
    }
}
