//! Metrics for Prometheus: OpenMetrics text, and the subset of HTTP/1.1 that a scrape needs.
//!
//! [`Exposition`] writes the text, and [`exchange`] parses the request of a scrape and returns the
//! response. This crate does no I/O: `plumb serve` and `plumb gateway` have listeners of their own.
#![forbid(unsafe_code)]

pub mod exchange;

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

/// Text in the format of OpenMetrics 1.0.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that only grows. The names of its samples end in `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts of values by upper bounds.
    Histogram,
}

impl Exposition {
    /// Begins a metric. Its samples follow.
    pub fn head(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        // Writing to a `String` cannot fail.
        _ = writeln!(self.text, "# TYPE {name} {kind}\n# HELP {name} {help}");
    }

    /// Adds a sample. The values of labels are escaped.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.begin_sample(name, labels);
        _ = writeln!(self.text, " {value}");
    }

    /// Adds a sample with a value in nanoseconds, written in seconds.
    pub fn sample_ns(&mut self, name: &str, labels: &[(&str, &str)], ns: u64) {
        self.begin_sample(name, labels);
        _ = writeln!(self.text, " {}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    }

    fn begin_sample(&mut self, name: &str, labels: &[(&str, &str)]) {
        self.text.push_str(name);
        self.text.push('{');
        for (number, (label, value)) in labels.iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            _ = write!(self.text, "{separator}{label}=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        self.text.push('}');
    }

    /// Returns the text, for a metric of another format.
    pub fn text_mut(&mut self) -> &mut String {
        &mut self.text
    }

    /// Returns the complete text.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

/// Parses the address of an endpoint. A port alone means a port on loopback.
///
/// # Errors
///
/// Returns a message with the valid forms.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let at_loopback = text.parse().map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
    at_loopback.or_else(|_| text.parse()).map_err(|_| "use PORT or ADDRESS:PORT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // attack row 112
    #[test]
    fn a_port_without_address_means_loopback() {
        assert_eq!(parse_address("9559"), Ok("127.0.0.1:9559".parse().unwrap()));
        assert_eq!(parse_address("[::]:9559"), Ok("[::]:9559".parse().unwrap()));
        assert!(parse_address("nowhere").is_err());
    }

    #[test]
    fn samples_follow_their_head() {
        let mut exposition = Exposition::default();
        exposition.head("plumb_flows", MetricKind::Gauge, "Open flows.");
        exposition.sample("plumb_flows", &[("guest", "a"), ("protocol", "tcp")], 3);
        exposition.sample_ns("plumb_delay_seconds", &[], 1_500_000_000);
        let expected = "# TYPE plumb_flows gauge\n# HELP plumb_flows Open flows.\n\
                        plumb_flows{guest=\"a\",protocol=\"tcp\"} 3\n\
                        plumb_delay_seconds{} 1.500000000\n# EOF\n";
        assert_eq!(exposition.finish(), expected);
    }

    /// Returns the value of a label as a scraper reads it.
    fn unescape(text: &str) -> String {
        let mut value = String::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            value.push(match character {
                '\\' => match characters.next().unwrap() {
                    'n' => '\n',
                    other => other,
                },
                other => other,
            });
        }
        value
    }

    proptest! {
        #[test]
        fn the_value_of_a_label_stays_on_its_line_and_in_its_quotes(value in ".*|[\\\\\"\n]{0,9}") {
            let mut exposition = Exposition::default();
            exposition.sample("m", &[("l", &value)], 1);
            let text = exposition.finish();
            let escaped = text.strip_prefix("m{l=\"").unwrap().strip_suffix("\"} 1\n# EOF\n").unwrap();
            prop_assert!(!escaped.contains('\n'));
            let quotes = escaped.replace("\\\\", "").replace("\\\"", "");
            prop_assert!(!quotes.contains('"'));
            prop_assert_eq!(unescape(escaped), value);
        }
    }
}
