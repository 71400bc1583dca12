//! The record of one run of `plumb measure`, in a stable JSON format.
//!
//! Durations are integer nanoseconds and their names end in `_ns`. Unknown values are null, never
//! 0. `schema` comes first. A reader accepts every schema up to its own, with the field names of
//! that schema, and ignores unknown fields.
//! Timestamps are RFC 3339 in UTC and come from the caller.

use crate::arrivals::{Arrival, LineRate};
use crate::format::{count, duration};
use crate::grade::Assessment;
use crate::layer::{Layer, LayerTime};
use crate::measures::{Attempt, Measures};
use crate::prediction::Prediction;
use crate::running::Running;
use crate::sizes::Transfers;
use crate::split_error::{EmptyIntervals, SplitError};
use crate::statistics;
use crate::verdict::Cause;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The schema that this version writes.
pub const SCHEMA: u32 = 4;

/// One run of `plumb measure` against one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Version of this format, [`SCHEMA`].
    pub schema: u32,
    /// Version of the program that measured.
    pub program_version: String,
    /// The target as specified by the user.
    pub target: String,
    /// Address that was tried, or null for a serial line, which has no address.
    pub address: Option<String>,
    /// The carrier: `kernel`, `tun:NAME`, `serial:DEVICE?baud=19200&link=llp`.
    pub via: String,
    /// Start time of the run, RFC 3339 in UTC.
    pub started_at: String,
    /// The machine that measured.
    pub host: HostInfo,
    /// The steps up to the login prompt.
    pub phases: Phases,
    /// The echo of one character.
    pub echo: Option<Echo>,
    /// Echoes of keys typed at a constant interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced_echo: Option<EchoTimes>,
    /// Echoes of keys typed during a long output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub echo_during_output: Option<EchoTimes>,
    /// A screenful of output.
    pub screenful: Option<Screenful>,
    /// Rate of the slowest link on the path, by packet pairs.
    pub line: Option<LineRate>,
    /// Configured rate of a serial line, if measurements show that the line does not run at that
    /// rate, bit/s: see [`crate::nominal`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted_line_bps: Option<u64>,
    /// Transfers of growing sizes.
    pub transfers: Option<Transfers>,
    /// Contents of a recording.
    pub recording: Option<Recording>,
    /// Activity of a running plumb process.
    pub running: Option<Running>,
    /// TCP statistics at the end of the connection.
    pub tcp: Option<TcpStats>,
    /// Each attempt to connect to and use the target.
    #[serde(default)]
    pub tries: Vec<Attempt>,
    /// The six measures of RFC 573.
    pub measures: Option<Measures>,
    /// Predictions made at the start of the run, with the values measured afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Prediction>,
    /// Causes of the user's waiting time, highest weight first.
    #[serde(default)]
    pub causes: Vec<NamedCause>,
    /// One sentence: the limiting factor of the target, and the best possible value.
    pub verdict: String,
    /// Whether an interrupt ended the measurement early: the record has the values measured until
    /// then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_interrupted: bool,
    /// Reason why the target could not be used, or not for the whole measurement, as a clause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Grade, and the places where the time of an operation is spent, as in the short report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assessment: Option<Assessment>,
}

/// One cause of the user's waiting time, in machine-readable form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCause {
    /// Name of the cause, as in [`crate::verdict::CauseKind::name`].
    pub name: String,
    /// Waiting time due to the cause, ns.
    pub cost_ns: u64,
    /// Name of the operation that the cause delays, as in [`crate::verdict::Operation::name`].
    #[serde(alias = "whole")]
    pub operation: String,
    /// Duration of that operation, ns.
    #[serde(alias = "whole_ns")]
    pub operation_ns: u64,
    /// Time saved if the cause were removed, ns. It is less than `cost_ns` if another wait would
    /// take the place of the removed one.
    pub gain_ns: u64,
    /// The cause in sentences, with evidence and a remedy.
    pub sentence: String,
}

impl NamedCause {
    /// Returns the remedy, the last of the sentences; `None` if there is only one.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.sentence.rsplit_once(". ").map(|(_, last)| last)
    }
}

impl From<&Cause> for NamedCause {
    fn from(cause: &Cause) -> Self {
        Self {
            name: cause.kind.name().to_owned(),
            cost_ns: cause.cost_ns,
            operation: cause.operation.name().to_owned(),
            operation_ns: cause.total_ns,
            gain_ns: cause.gain_ns,
            sentence: cause.sentence(),
        }
    }
}

/// The machine that measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Kernel name and release.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Processors available to the run.
    pub cpus: Option<u32>,
    /// Load average of the last minute.
    pub load1: Option<f64>,
    /// The kernel's congestion control.
    pub congestion_control: Option<String>,
}

/// Times of the steps up to the login prompt. Each step begins at the end of the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Time of the name resolution, ns.
    pub resolve_ns: Option<u64>,
    /// Time from the first SYN to the established connection, ns.
    pub connect_ns: Option<u64>,
    /// TLS handshake, ns.
    pub tls_ns: Option<u64>,
    /// Time of the Telnet negotiation, until no more options arrive, ns.
    pub negotiation_ns: Option<u64>,
    /// Time until the prompt for a user name, ns; unknown if the server sent nothing.
    pub login_prompt_ns: Option<u64>,
    /// Kind of the server's first prompt.
    pub prompt: Option<PromptKind>,
    /// Time from the user name until the prompt for a password, ns; unknown without such a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_prompt_ns: Option<u64>,
    /// Time of the login, ns: at a file server including the greeting, else from the last answer to
    /// a prompt until the shell's prompt.
    pub login_ns: Option<u64>,
}

/// Kind of input that the server's first prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    /// A user's name.
    Login,
    /// A password.
    Password,
    /// A command.
    Shell,
    /// No known prompt: the server has only stopped sending.
    Silence,
}

impl PromptKind {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Login => "login prompt",
            Self::Password => "password prompt",
            Self::Shell => "shell prompt",
            Self::Silence => "first output, no prompt",
        }
    }
}

/// The echo of one character, from keystroke to terminal cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// Number of echoes measured.
    pub samples: u64,
    /// Number of keys that were to be typed, if it was reduced because the path is slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced_from: Option<u64>,
    /// Minimum, ns.
    pub min_ns: u64,
    /// The median, nearest rank, ns.
    pub p50_ns: u64,
    /// 90th percentile, nearest rank, ns.
    pub p90_ns: u64,
    /// 99th percentile, nearest rank, ns.
    pub p99_ns: u64,
    /// Maximum, ns.
    pub max_ns: u64,
    /// Median of each layer over all samples, with the remote host and the network as the
    /// remainder; the sum is exactly `p50_ns`.
    pub layers: Vec<LayerTime>,
    /// Spread of each layer over the samples. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layer_spreads: Vec<LayerSpread>,
    /// CPU time of this process for one key, ns.
    pub cpu_ns_per_key: Option<u64>,
    /// Every echo time, in the order of the keystrokes, ns.
    #[serde(default)]
    pub times_ns: Vec<u64>,
    /// Possible error of `layers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SplitError>,
}

/// Statistics of echoes that are not split by layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoTimes {
    /// Number of echoes measured.
    pub samples: u64,
    /// The median, nearest rank, ns.
    pub p50_ns: u64,
    /// Maximum, ns.
    pub max_ns: u64,
}

impl EchoTimes {
    /// Computes the statistics of `times_ns`; `None` if there are none.
    #[must_use]
    pub fn of(mut times_ns: Vec<u64>) -> Option<Self> {
        times_ns.sort_unstable();
        let at = |percent| statistics::nearest_rank(&times_ns, percent).copied();
        let samples = u64::try_from(times_ns.len()).unwrap_or(u64::MAX);
        Some(Self { samples, p50_ns: at(50)?, max_ns: at(100)? })
    }
}

/// Interquartile range of one layer over the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerSpread {
    /// The layer.
    pub layer: Layer,
    /// The lower quartile, ns.
    pub low_ns: u64,
    /// The upper quartile, ns.
    pub high_ns: u64,
}

/// One echo: its total time and the measured time of each layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EchoSample {
    /// From keystroke to terminal cell, ns.
    pub total_ns: u64,
    /// Time of each layer.
    pub parts: Vec<LayerTime>,
}

impl Echo {
    /// Computes the statistics of `samples`; `None` if there are none.
    #[must_use]
    pub fn from_samples(samples: &[EchoSample], cpu_ns_per_key: Option<u64>) -> Option<Self> {
        let mut by_time: Vec<&EchoSample> = samples.iter().collect();
        by_time.sort_by_key(|sample| sample.total_ns);
        let median = statistics::nearest_rank(&by_time, 50)?;
        let at = |percent| Some(statistics::nearest_rank(&by_time, percent)?.total_ns);
        Some(Self {
            samples: u64::try_from(samples.len()).unwrap_or(u64::MAX),
            reduced_from: None,
            min_ns: at(0)?,
            p50_ns: median.total_ns,
            p90_ns: at(90)?,
            p99_ns: at(99)?,
            max_ns: at(100)?,
            layers: statistics::split(median.total_ns, &median_parts(samples)),
            layer_spreads: layer_spreads(samples),
            cpu_ns_per_key,
            times_ns: samples.iter().map(|sample| sample.total_ns).collect(),
            error: None,
        })
    }

    /// Returns `self` with the possible error of `layers`. `resolution_ns` is the resolution of the
    /// clock, and `empty` are the empty intervals measured in this run.
    #[must_use]
    pub fn with_error(
        self,
        samples: &[EchoSample],
        resolution_ns: u64,
        empty: Option<EmptyIntervals>,
    ) -> Self {
        let error = SplitError::of(self.p50_ns, &median_parts(samples), resolution_ns);
        Self { error: Some(error.with_empty(empty)), ..self }
    }

    /// Returns the spread of each layer as a sentence; `None` if it is unknown.
    #[must_use]
    pub fn spread_sentence(&self) -> Option<String> {
        let spreads = self.layer_spreads.iter().map(|spread| {
            let low = duration(spread.low_ns);
            let high = duration(spread.high_ns);
            format!("{} {low} to {high}", spread.layer.text())
        });
        let spreads: Vec<String> = spreads.collect();
        let are_known = !spreads.is_empty();
        are_known.then(|| {
            format!(
                "Each layer is the median of {} echoes. Half of the echoes are in the following \
                 range of each layer: {}.",
                count(self.samples),
                spreads.join(", ")
            )
        })
    }
}

/// Returns the time of `layer` in one sample, ns.
fn layer_ns(parts: &[LayerTime], layer: Layer) -> u64 {
    let layer_parts = parts.iter().filter(|part| part.layer == layer);
    layer_parts.fold(0, |sum, part| sum.saturating_add(part.ns))
}

/// Returns the median of each measured layer over all samples; a missing layer counts as 0.
fn median_parts(samples: &[EchoSample]) -> Vec<LayerTime> {
    let has = |layer: &Layer| {
        samples.iter().any(|sample| sample.parts.iter().any(|part| part.layer == *layer))
    };
    let median = |layer| {
        let times: Vec<u64> = samples.iter().map(|sample| layer_ns(&sample.parts, layer)).collect();
        Some(LayerTime { layer, ns: statistics::median(&times)? })
    };
    Layer::ALL.into_iter().filter(has).filter_map(median).collect()
}

fn layer_spreads(samples: &[EchoSample]) -> Vec<LayerSpread> {
    let splits = samples.iter().map(|sample| statistics::split(sample.total_ns, &sample.parts));
    let splits: Vec<Vec<LayerTime>> = splits.collect();
    let has = |layer: &Layer| splits.iter().flatten().any(|part| part.layer == *layer);
    let spread = |layer| {
        let times: Vec<u64> = splits.iter().map(|split| layer_ns(split, layer)).collect();
        let low_ns = statistics::percentile(&times, 25)?;
        Some(LayerSpread { layer, low_ns, high_ns: statistics::percentile(&times, 75)? })
    };
    Layer::ALL.into_iter().filter(has).filter_map(spread).collect()
}

/// Method that produced a screenful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreenfulMethod {
    /// Output of a command.
    Command,
    /// Echo of text typed all at once.
    TypedEcho,
    /// The longest output of a recorded session.
    Recorded,
}

impl ScreenfulMethod {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Command => "the output of a command",
            Self::TypedEcho => "the echo of keys typed all at once",
            Self::Recorded => "the longest output of the recording",
        }
    }
}

/// A screenful of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Screenful {
    /// Method that produced the screenful.
    pub method: Option<ScreenfulMethod>,
    /// Bytes received for the screenful.
    pub bytes: u64,
    /// Terminal cells filled.
    pub cells: u64,
    /// From the first cell to the last, ns.
    pub first_to_last_ns: u64,
    /// From the request to the last cell, ns; unknown in a recording.
    #[serde(default, alias = "asked_to_last_ns", skip_serializing_if = "Option::is_none")]
    pub request_to_last_ns: Option<u64>,
    /// Part of `request_to_last_ns` until the first byte, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_wait_ns: Option<u64>,
    /// TCP data segments that carried the screenful.
    pub segments_in: Option<u64>,
    /// Longest time between two arrivals, ns.
    #[serde(alias = "stalls_ns")]
    pub longest_gap_ns: Option<u64>,
    /// Time of each layer; the sum is exactly [`Screenful::total_ns`].
    pub layers: Vec<LayerTime>,
    /// Possible error of `layers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SplitError>,
    /// Every read that returned data, starting with the first bytes of the output.
    #[serde(default)]
    pub arrivals: Vec<Arrival>,
}

impl Screenful {
    /// Returns the total time of the screenful, ns: from the request, or from the first cell if the
    /// time of the request is unknown.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.request_to_last_ns.unwrap_or(self.first_to_last_ns)
    }
}

/// Contents of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Duration, ns.
    pub duration_ns: u64,
    /// Recorded keystrokes; 0 if the recording has only output.
    pub keys: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Times between two outputs without a keystroke between them, longest first, ns.
    pub gaps_ns: Vec<u64>,
}

/// TCP statistics at the end of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpStats {
    /// Smoothed round-trip time at the end of the connection, ns.
    pub rtt_ns: Option<u64>,
    /// Minimum round-trip time, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_ns: Option<u64>,
    /// Mean deviation of the round-trip time, ns.
    pub rtt_deviation_ns: Option<u64>,
    /// Retransmitted segments.
    pub retransmissions: Option<u64>,
    /// Segments received.
    pub segments_in: Option<u64>,
    /// Segments sent, including retransmissions.
    pub segments_out: Option<u64>,
    /// Data bytes received.
    pub bytes_in: Option<u64>,
    /// Data bytes sent and acknowledged.
    pub bytes_out: Option<u64>,
    /// Maximum segment size for sending, bytes.
    pub mss: Option<u64>,
    /// Congestion window, bytes.
    pub cwnd: Option<u64>,
}

/// Reason why a text cannot be parsed as a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The text is not JSON, or a field is missing or of the wrong type.
    Malformed(String),
    /// A newer program wrote the text, with this schema.
    SchemaUnknown(u64),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "The record cannot be read: {what}."),
            Self::SchemaUnknown(schema) => write!(
                f,
                "The record has schema {schema}, but this version of plumb reads only schemas \
                 up to {SCHEMA}; use a newer version."
            ),
        }
    }
}

impl std::error::Error for ParseError {}

impl Measurement {
    /// Parses a measurement from JSON of this schema or an earlier one; the result has [`SCHEMA`].
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a measurement, or has a schema newer than [`SCHEMA`].
    pub fn from_json(json: &str) -> Result<Self, ParseError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u64,
        }
        let malformed = |error: serde_json::Error| ParseError::Malformed(error.to_string());
        let Head { schema } = serde_json::from_str(json).map_err(malformed)?;
        if !(1..=u64::from(SCHEMA)).contains(&schema) {
            return Err(ParseError::SchemaUnknown(schema));
        }
        let read: Self = serde_json::from_str(json).map_err(malformed)?;
        Ok(Self { schema: SCHEMA, ..read })
    }

    /// Returns the measurement as pretty-printed JSON, without a final newline.
    ///
    /// A load average that is not finite is written as null.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serialization only fails for maps with non-string keys, and the type contains no map.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the configured rate of the serial line in bit/s, if `via` is a serial line and
    /// specifies the rate.
    #[must_use]
    pub fn line_rate(&self) -> Option<u64> {
        let (_, options) = self.via.strip_prefix("serial:")?.split_once('?')?;
        let mut baud = options.split('&').filter_map(|option| option.strip_prefix("baud="));
        baud.next()?.parse().ok().filter(|rate| *rate > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = include_str!("../samples/measurement-4.json");

    fn sample(total_ns: u64, telnet_ns: u64) -> EchoSample {
        EchoSample { total_ns, parts: vec![LayerTime { layer: Layer::Telnet, ns: telnet_ns }] }
    }

    #[test]
    fn the_committed_record_of_schema_1_still_parses() {
        let read = Measurement::from_json(include_str!("../samples/measurement-1.json")).unwrap();
        assert_eq!(read.echo.as_ref().unwrap().samples, 200);
        assert_eq!((read.transfers, read.measures, read.tries), (None, None, Vec::new()));
    }

    #[test]
    fn the_committed_record_of_schema_2_still_parses() {
        let read = Measurement::from_json(include_str!("../samples/measurement-2.json")).unwrap();
        assert_eq!(read.transfers.as_ref().unwrap().samples.len(), 3);
    }

    #[test]
    fn the_committed_record_of_schema_3_has_the_same_values_as_in_schema_4() {
        let read = Measurement::from_json(include_str!("../samples/measurement-3.json"));
        assert_eq!(read, Measurement::from_json(SAMPLE));
    }

    #[test]
    fn the_committed_record_of_schema_4_is_written_the_same() {
        let read = Measurement::from_json(SAMPLE).unwrap();
        assert_eq!(read.transfers.as_ref().unwrap().samples.len(), 3);
        assert_eq!(read.to_json(), SAMPLE.trim_end());
    }

    #[test]
    fn every_renamed_key_of_schema_3_is_read() {
        let running = r#"{ "pid": 7, "command": "plumb", "uptime_ns": 9, "looked_ns": 5,
            "cpu_ns": 1, "busy_ns": 1, "wakeups": 1, "transactions": 1, "primitives": [] }"#;
        let cause = r#"[{ "name": "Nagle", "cost_ns": 3, "whole": "an echo", "whole_ns": 4,
            "gain_ns": 2, "sentence": "Nagle." }]"#;
        let json = include_str!("../samples/measurement-3.json")
            .replacen("\"running\": null", &format!("\"running\": {running}"), 1)
            .replacen("\"causes\": []", &format!("\"causes\": {cause}"), 1)
            .replacen("\"segments_in\": 3", "\"segments_in\": 3, \"asked_to_last_ns\": 6", 1)
            .replacen("\"command_ns\"", "\"before_ns\": 8, \"command_ns\"", 1);
        let read = Measurement::from_json(&json).unwrap();
        assert_eq!(read.schema, SCHEMA);
        assert_eq!(read.running.unwrap().window_ns, 5);
        let cause = &read.causes[0];
        assert_eq!((cause.operation.as_str(), cause.operation_ns), ("an echo", 4));
        let screenful = read.screenful.unwrap();
        assert_eq!(screenful.request_to_last_ns, Some(6));
        assert_eq!(screenful.longest_gap_ns, Some(700_000));
        assert_eq!(screenful.layers.last().unwrap().layer, Layer::RemoteHostAndNetwork);
        let sample = read.transfers.unwrap().samples[0];
        assert_eq!((sample.setup_ns, sample.confirmation_ns), (Some(8), Some(120_000)));
        assert!(!sample.is_partial);
        let prediction = &read.predictions[0];
        assert_eq!(prediction.quantity, crate::prediction::Quantity::Screenful);
        assert_eq!(prediction.predicted_ns, 1_480_000);
    }

    #[test]
    fn schema_comes_first_in_the_json() {
        assert!(SAMPLE.starts_with("{\n  \"schema\": 4,"));
    }

    #[test]
    fn unknown_is_null_and_is_read_as_unknown() {
        let mut record = Measurement::from_json(SAMPLE).unwrap();
        record.echo = None;
        record.phases.resolve_ns = None;
        let json = record.to_json();
        assert!(json.contains("\"echo\": null"));
        assert!(json.contains("\"resolve_ns\": null"));
        assert_eq!(Measurement::from_json(&json), Ok(record));
    }

    #[test]
    fn a_field_that_a_later_program_added_is_ignored() {
        let json = SAMPLE.replacen("\"target\"", "\"colour\": \"blue\", \"target\"", 1);
        assert_eq!(Measurement::from_json(&json), Measurement::from_json(SAMPLE));
    }

    #[test]
    fn a_newer_schema_is_rejected_with_its_number() {
        let json = SAMPLE.replacen("\"schema\": 4", "\"schema\": 5", 1);
        assert_eq!(Measurement::from_json(&json), Err(ParseError::SchemaUnknown(5)));
    }

    #[test]
    fn text_that_is_not_json_is_malformed() {
        assert!(matches!(Measurement::from_json("{"), Err(ParseError::Malformed(_))));
    }

    #[test]
    fn layers_of_an_echo_are_medians_over_the_samples_and_add_up_to_the_median_echo() {
        let mut samples = [sample(900, 90), sample(100, 10), sample(500, 50)];
        let layer = samples[2].parts[0].layer;
        // An outlier in one sample does not change the median.
        samples[2].parts = vec![LayerTime { layer, ns: 400 }];
        let echo = Echo::from_samples(&samples, None).unwrap();
        assert_eq!((echo.min_ns, echo.p50_ns, echo.max_ns), (100, 500, 900));
        let median = LayerTime { layer, ns: 90 };
        assert_eq!(echo.layers, statistics::split(500, &[median]));
        assert_eq!(echo.layers.iter().map(|part| part.ns).sum::<u64>(), 500);
        let spread = LayerSpread { layer, low_ns: 10, high_ns: 400 };
        assert!(echo.layer_spreads.contains(&spread), "{:?}", echo.layer_spreads);
        let sentence = echo.spread_sentence().unwrap();
        assert!(sentence.contains("median of 3 echoes"), "{sentence}");
        let expected = format!("range of each layer: {}", layer.text());
        assert!(sentence.contains(&expected), "{sentence}");
    }

    #[test]
    fn a_cause_is_written_with_its_names_and_times() {
        let cause = Cause {
            kind: crate::verdict::CauseKind::Nagle,
            operation: crate::verdict::Operation::Screenful,
            cost_ns: 41_000_000,
            gain_ns: 40_000_000,
            total_ns: 43_500_000,
            subject: "The server's Nagle".to_owned(),
            advice: "set TCP_NODELAY there".to_owned(),
        };
        let mut record = Measurement::from_json(SAMPLE).unwrap();
        record.causes = vec![NamedCause::from(&cause)];
        let json = record.to_json();
        for key in [
            "\"name\": \"Nagle\"",
            "\"cost_ns\": 41000000",
            "\"gain_ns\": 40000000",
            "\"operation\": \"a screenful\"",
        ] {
            assert!(json.contains(key), "{key}");
        }
        assert_eq!(Measurement::from_json(&json), Ok(record));
    }

    #[test]
    fn no_samples_give_no_echo() {
        assert_eq!(Echo::from_samples(&[], Some(1)), None);
    }

    #[test]
    fn the_rate_is_read_from_a_serial_carrier() {
        let mut record = Measurement::from_json(SAMPLE).unwrap();
        record.via = "serial:/dev/ttyS0?link=llp&baud=19200".to_owned();
        assert_eq!(record.line_rate(), Some(19_200));
    }

    #[test]
    fn a_carrier_without_a_rate_has_no_line_rate() {
        let mut record = Measurement::from_json(SAMPLE).unwrap();
        record.via = "tun:plumb0?baud=9600".to_owned();
        assert_eq!(record.line_rate(), None);
    }

    proptest! {
        #[test]
        fn a_record_survives_a_round_trip_through_json(
            target in any::<String>(),
            address in any::<Option<String>>(),
            rtt_ns in any::<Option<u64>>(),
            times in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..9),
        ) {
            let samples: Vec<EchoSample> =
                times.into_iter().map(|(total, telnet)| sample(total, telnet)).collect();
            let mut record = Measurement::from_json(SAMPLE).unwrap();
            record.target = target;
            record.address = address;
            record.echo = Echo::from_samples(&samples, rtt_ns);
            record.tcp = Some(TcpStats { rtt_ns, ..TcpStats::default() });
            prop_assert_eq!(Measurement::from_json(&record.to_json()), Ok(record));
        }

        #[test]
        fn a_damaged_record_that_is_still_read_survives_a_round_trip(
            at in any::<proptest::sample::Index>(), byte in b' '..=b'~',
        ) {
            let mut json = SAMPLE.as_bytes().to_vec();
            let at = at.index(json.len());
            json[at] = byte;
            if let Ok(record) = Measurement::from_json(&String::from_utf8_lossy(&json)) {
                prop_assert_eq!(Measurement::from_json(&record.to_json()), Ok(record));
            }
        }
    }
}
