//! What `plumb measure` keeps of one run, in a JSON form that stays.
//!
//! Durations are whole nanoseconds and their names end in `_ns`. What is not known is null and
//! never 0. `schema` comes first; a reader takes every schema up to its own and ignores fields that
//! it does not know. Times of day are RFC 3339 in UTC and come from the caller.

use crate::arrivals::{Arrival, LineRate};
use crate::figures::{count, duration};
use crate::measures::{Measures, Try};
use crate::prediction::Prediction;
use crate::running::Running;
use crate::sizes::Transfers;
use crate::split_error::{EmptyIntervals, SplitError};
use crate::statistics;
use crate::verdict::Cause;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The schema that this version writes.
pub const SCHEMA: u32 = 3;

/// One run of `plumb measure` against one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The form of this record, [`SCHEMA`].
    pub schema: u32,
    /// The version of the program that measured.
    pub program_version: String,
    /// The target as the user named it.
    pub target: String,
    /// The address that was tried, or null for a line that has none.
    pub address: Option<String>,
    /// The carrier: `kernel`, `tun:NAME`, `serial:DEVICE?baud=19200&link=llp`.
    pub via: String,
    /// When the run began, RFC 3339 in UTC.
    pub started_at: String,
    /// The machine that measured.
    pub host: HostInfo,
    /// The steps up to the login prompt.
    pub phases: Phases,
    /// The echo of one character.
    pub echo: Option<Echo>,
    /// A screenful of output.
    pub screenful: Option<Screenful>,
    /// The rate of the slowest line on the way, by packet pairs.
    pub line: Option<LineRate>,
    /// The rate that a serial line is set to and does not run at, bit/s: see [`crate::nominal`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted_line_bps: Option<u64>,
    /// Transfers of growing sizes.
    pub transfers: Option<Transfers>,
    /// What a recording holds.
    pub recording: Option<Recording>,
    /// What a running plumb did.
    pub running: Option<Running>,
    /// What TCP knew of the connection at its end.
    pub tcp: Option<TcpFigures>,
    /// Each attempt to obtain the use of the target.
    #[serde(default)]
    pub tries: Vec<Try>,
    /// The six measures of RFC 573.
    pub measures: Option<Measures>,
    /// What was foretold from the beginning of the run, beside what was measured then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Prediction>,
    /// Why a person waits, what costs most first.
    #[serde(default)]
    pub causes: Vec<NamedCause>,
    /// One sentence: what limits, and what the best possible is.
    pub verdict: String,
}

/// One reason why a person waits, as a program reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedCause {
    /// What it is, in the words of [`crate::verdict::Kind::text`].
    pub name: String,
    /// For how long it is waited for, ns.
    pub cost_ns: u64,
    /// Of what it is a part, in the words of [`crate::verdict::Whole::text`].
    pub whole: String,
    /// How long all of that takes, ns.
    pub whole_ns: u64,
    /// What would be gained if it were gone, ns: no more than it costs, and less where something
    /// else would be waited for instead.
    pub gain_ns: u64,
    /// The same as a sentence, with what helps.
    pub sentence: String,
}

impl From<&Cause> for NamedCause {
    fn from(cause: &Cause) -> Self {
        Self {
            name: cause.kind.text().to_owned(),
            cost_ns: cause.cost_ns,
            whole: cause.of.text().to_owned(),
            whole_ns: cause.total_ns,
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
    /// Processors that the run could use.
    pub cpus: Option<u32>,
    /// Load average of the last minute.
    pub load1: Option<f64>,
    /// The kernel's congestion control.
    pub congestion_control: Option<String>,
}

/// The steps up to the login prompt, each from the end of the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Name to address, ns.
    pub resolve_ns: Option<u64>,
    /// First SYN to established connection, ns.
    pub connect_ns: Option<u64>,
    /// The handshake of TLS, ns.
    pub tls_ns: Option<u64>,
    /// Telnet negotiation until it is quiet, ns.
    pub negotiation_ns: Option<u64>,
    /// Until the text that asks for a name, ns; unknown where nothing was said at all.
    pub login_prompt_ns: Option<u64>,
    /// What that text is.
    pub prompt: Option<PromptKind>,
    /// A login at a file server: its greeting and each answer, ns.
    pub login_ns: Option<u64>,
}

/// What the far side waits for when it has said its first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    /// A user's name.
    Login,
    /// A password.
    Password,
    /// A command.
    Shell,
    /// Nothing that is known: it has only fallen silent.
    Silence,
}

impl PromptKind {
    /// Returns the text that people read.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Login => "login prompt",
            Self::Password => "password prompt",
            Self::Shell => "shell prompt",
            Self::Silence => "first words, no prompt",
        }
    }
}

/// The echo of one character, from keystroke to cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// How many echoes were measured.
    pub samples: u64,
    /// The shortest, ns.
    pub min_ns: u64,
    /// The median, nearest rank, ns.
    pub p50_ns: u64,
    /// 90 of 100 are no longer, ns.
    pub p90_ns: u64,
    /// 99 of 100 are no longer, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
    /// The median of each layer over all samples, with the far side and the network as the rest; adds up
    /// to `p50_ns` exactly.
    pub layers: Vec<LayerTime>,
    /// How far the layers of the samples lie apart. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layer_spreads: Vec<LayerSpread>,
    /// CPU time of this process for one key, ns.
    pub cpu_ns_per_key: Option<u64>,
    /// Every echo, in the order in which the keys were struck, ns.
    #[serde(default)]
    pub times_ns: Vec<u64>,
    /// How wrong `layers` can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SplitError>,
}

/// Between which times the middle half of the samples of one layer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerSpread {
    /// The layer.
    pub layer: Layer,
    /// The lower quartile, ns.
    pub low_ns: u64,
    /// The upper quartile, ns.
    pub high_ns: u64,
}

/// One echo: its whole time and the parts of it that were measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EchoSample {
    /// Keystroke to cell, ns.
    pub total_ns: u64,
    /// What each layer took of it.
    pub parts: Vec<LayerTime>,
}

impl Echo {
    /// Returns the figures of `samples`, or `None` if there are none.
    #[must_use]
    pub fn from_samples(samples: &[EchoSample], cpu_ns_per_key: Option<u64>) -> Option<Self> {
        let mut by_time: Vec<&EchoSample> = samples.iter().collect();
        by_time.sort_by_key(|sample| sample.total_ns);
        let median = statistics::nearest_rank(&by_time, 50)?;
        let at = |percent| Some(statistics::nearest_rank(&by_time, percent)?.total_ns);
        Some(Self {
            samples: u64::try_from(samples.len()).unwrap_or(u64::MAX),
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

    /// Returns the same with the error of its split, measured by a clock of that resolution whose empty
    /// intervals in this run were `empty`.
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

    /// Returns how far the layers of the samples lie apart, as a sentence; `None` if that is unknown.
    #[must_use]
    pub fn spread_sentence(&self) -> Option<String> {
        let spreads = self.layer_spreads.iter().map(|spread| {
            let (low, high) = (duration(spread.low_ns), duration(spread.high_ns));
            format!("{} {low} to {high}", spread.layer.text())
        });
        let spreads: Vec<String> = spreads.collect();
        let are_known = !spreads.is_empty();
        are_known.then(|| {
            format!(
                "Each layer is the median of {} echoes, and of half of them it took: {}.",
                count(self.samples),
                spreads.join(", ")
            )
        })
    }
}

/// Returns what `layer` took of a sample, ns.
fn layer_ns(parts: &[LayerTime], layer: Layer) -> u64 {
    let those = parts.iter().filter(|part| part.layer == layer);
    those.fold(0, |sum, part| sum.saturating_add(part.ns))
}

/// Returns the median of each measured layer over all samples; a sample without one has 0.
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

/// How a screenful was brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreenfulMethod {
    /// A command printed it.
    Command,
    /// It was typed all at once, and is the echo.
    TypedEcho,
    /// It is the longest output of a recorded session.
    Recorded,
}

impl ScreenfulMethod {
    /// Returns the text that people read.
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
    /// How it was brought about.
    pub method: Option<ScreenfulMethod>,
    /// Bytes that came from the wire for it.
    pub bytes: u64,
    /// Cells that it filled.
    pub cells: u64,
    /// First cell to last cell, ns.
    pub first_to_last_ns: u64,
    /// From asking for it to its last cell, ns; unknown in a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_to_last_ns: Option<u64>,
    /// Of that, the wait for its first byte, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_wait_ns: Option<u64>,
    /// TCP segments with data that brought it.
    pub segments_in: Option<u64>,
    /// The longest time between two arrivals, ns.
    pub stalls_ns: Option<u64>,
    /// Where the time went; adds up to [`Screenful::total_ns`] exactly.
    pub layers: Vec<LayerTime>,
    /// How wrong `layers` can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SplitError>,
    /// What was read when, from the first bytes of it on.
    #[serde(default)]
    pub arrivals: Vec<Arrival>,
}

impl Screenful {
    /// Returns its whole time: from asking for it, or else from its first cell on, ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.asked_to_last_ns.unwrap_or(self.first_to_last_ns)
    }

    /// Returns the layers with what is to be shown of each: of the far side, the wait for the first
    /// byte stands apart.
    #[must_use]
    pub fn rows(&self) -> Vec<SplitRow> {
        let far = Layer::FarSideAndNetwork;
        let mut rows = Vec::new();
        for part in &self.layers {
            let wait_ns = match (part.layer == far, self.first_byte_wait_ns) {
                (true, Some(wait_ns)) => wait_ns.min(part.ns),
                _ => 0,
            };
            if wait_ns > 0 {
                let time = LayerTime { layer: far, ns: wait_ns };
                rows.push(SplitRow {
                    name: "wait for the first byte",
                    short_name: "first byte",
                    time,
                });
            }
            rows.push(LayerTime { layer: part.layer, ns: part.ns - wait_ns }.into());
        }
        rows
    }
}

/// What a recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// How long it lasts, ns.
    pub duration_ns: u64,
    /// Keys that were recorded; a recording may be without them.
    pub keys: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// The times between two outputs with nothing typed between them, the longest first, ns.
    pub gaps_ns: Vec<u64>,
}

/// What TCP knew of the connection at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpFigures {
    /// Smoothed round trip, ns.
    pub rtt_ns: Option<u64>,
    /// Its mean deviation, ns.
    pub rtt_deviation_ns: Option<u64>,
    /// Segments that were sent again.
    pub retransmissions: Option<u64>,
    /// Segments received.
    pub segments_in: Option<u64>,
    /// Segments sent, with those sent again.
    pub segments_out: Option<u64>,
    /// Data bytes received.
    pub bytes_in: Option<u64>,
    /// Data bytes sent and acknowledged.
    pub bytes_out: Option<u64>,
    /// Largest segment that may be sent, bytes.
    pub mss: Option<u64>,
    /// Congestion window, bytes.
    pub cwnd: Option<u64>,
}

/// What one layer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTime {
    /// The layer.
    pub layer: Layer,
    /// What it took, ns.
    pub ns: u64,
}

/// One row of where a time went: a layer, or a part of one that has a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitRow {
    /// The text that people read, at most 24 characters.
    pub name: &'static str,
    /// A text of at most 11 characters for where there is little room.
    pub short_name: &'static str,
    /// What it took.
    pub time: LayerTime,
}

impl From<LayerTime> for SplitRow {
    fn from(time: LayerTime) -> Self {
        Self { name: time.layer.text(), short_name: time.layer.short_text(), time }
    }
}

/// Where the time of an echo or a screenful can go, in the order of the stairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Bits on a serial line, both ways.
    Line,
    /// Interrupt level of 1982; today the system calls that move bytes.
    InterruptOrSystemCall,
    /// LLP, SLIP.
    Link,
    /// IP, ICMP, UDP.
    Internet,
    /// TCP, what every segment costs.
    TcpFixed,
    /// TCP, what every data byte costs.
    TcpPerByte,
    /// Telnet.
    Telnet,
    /// The grid and what paints it.
    Terminal,
    /// Ready to run, and waiting for a processor of this machine.
    RunQueue,
    /// What is left: the network and the far host.
    FarSideAndNetwork,
}

impl Layer {
    /// Every layer, in order.
    pub const ALL: [Self; 10] = [
        Self::Line,
        Self::InterruptOrSystemCall,
        Self::Link,
        Self::Internet,
        Self::TcpFixed,
        Self::TcpPerByte,
        Self::Telnet,
        Self::Terminal,
        Self::RunQueue,
        Self::FarSideAndNetwork,
    ];

    /// Returns the text that people read, at most 24 characters.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::InterruptOrSystemCall => "interrupt or system call",
            Self::Link => "link",
            Self::Internet => "internet",
            Self::TcpFixed => "TCP, fixed",
            Self::TcpPerByte => "TCP, per byte",
            Self::Telnet => "Telnet",
            Self::Terminal => "terminal",
            Self::RunQueue => "waiting for a processor",
            Self::FarSideAndNetwork => "far side and network",
        }
    }

    /// Returns a text of at most 11 characters for where there is little room.
    #[must_use]
    pub const fn short_text(self) -> &'static str {
        match self {
            Self::InterruptOrSystemCall => "int/syscall",
            Self::TcpFixed => "TCP fixed",
            Self::TcpPerByte => "TCP by byte",
            Self::RunQueue => "processor",
            Self::FarSideAndNetwork => "far side",
            _ => self.text(),
        }
    }
}

/// Why a text is no measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It is no JSON, or a field is missing or of the wrong kind.
    Malformed(String),
    /// A newer program wrote it, in this schema.
    SchemaUnknown(u64),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "The record cannot be read: {what}."),
            Self::SchemaUnknown(schema) => write!(
                f,
                "The record has schema {schema}, and this program knows those up to {SCHEMA}: \
                 use a newer plumb."
            ),
        }
    }
}

impl std::error::Error for ParseError {}

impl Measurement {
    /// Returns the measurement that `json` holds.
    ///
    /// # Errors
    ///
    /// When it is no measurement, or of a schema that is newer than [`SCHEMA`].
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
        serde_json::from_str(json).map_err(malformed)
    }

    /// Returns the measurement as JSON over several lines, without a newline at the end.
    ///
    /// A load average that is no finite number is written as null.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only maps with keys that are no strings can fail, and there is no map in it.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the rate of the serial line in bit/s, if the carrier is one and says it.
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

    const SAMPLE: &str = include_str!("../samples/measurement-3.json");

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
    fn the_committed_record_of_schema_3_is_written_the_same() {
        let read = Measurement::from_json(SAMPLE).unwrap();
        assert_eq!(read.transfers.as_ref().unwrap().samples.len(), 3);
        assert_eq!(read.to_json(), SAMPLE.trim_end());
    }

    #[test]
    fn schema_comes_first_in_the_json() {
        assert!(SAMPLE.starts_with("{\n  \"schema\": 3,"));
    }

    #[test]
    fn unknown_is_null_and_comes_back_as_unknown() {
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
    fn a_newer_schema_is_refused_by_name() {
        let json = SAMPLE.replacen("\"schema\": 3", "\"schema\": 4", 1);
        assert_eq!(Measurement::from_json(&json), Err(ParseError::SchemaUnknown(4)));
    }

    #[test]
    fn what_is_no_json_is_malformed() {
        assert!(matches!(Measurement::from_json("{"), Err(ParseError::Malformed(_))));
    }

    #[test]
    fn layers_of_an_echo_are_medians_over_the_samples_and_add_up_to_the_median_echo() {
        let mut samples = [sample(900, 90), sample(100, 10), sample(500, 50)];
        let layer = samples[2].parts[0].layer;
        // What one sample has by chance is no longer that of the median.
        samples[2].parts = vec![LayerTime { layer, ns: 400 }];
        let echo = Echo::from_samples(&samples, None).unwrap();
        assert_eq!((echo.min_ns, echo.p50_ns, echo.max_ns), (100, 500, 900));
        let median = LayerTime { layer, ns: 90 };
        assert_eq!(echo.layers, statistics::split(500, &[median]));
        assert_eq!(echo.layers.iter().map(|part| part.ns).sum::<u64>(), 500);
        let spread = LayerSpread { layer, low_ns: 10, high_ns: 400 };
        assert!(echo.layer_spreads.contains(&spread), "{:?}", echo.layer_spreads);
        let sentence = echo.spread_sentence().unwrap();
        let wanted = format!("median of 3 echoes, and of half of them it took: {}", layer.text());
        assert!(sentence.contains(&wanted), "{sentence}");
    }

    #[test]
    fn the_wait_for_the_first_byte_of_a_screenful_stands_apart_from_the_far_side() {
        let mut screenful = Measurement::from_json(SAMPLE).unwrap().screenful.unwrap();
        (screenful.asked_to_last_ns, screenful.first_byte_wait_ns) =
            (Some(1_410_000), Some(60_000));
        let rows = screenful.rows();
        let last = rows.iter().rev().take(2).map(|row| (row.name, row.time.ns));
        let wanted = [("far side and network", 1_060_000), ("wait for the first byte", 60_000)];
        assert!(last.eq(wanted), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.time.ns).sum::<u64>(), screenful.total_ns());
    }

    #[test]
    fn a_cause_is_written_with_its_names_and_times() {
        let cause = Cause {
            kind: crate::verdict::Kind::Nagle,
            of: crate::verdict::Whole::Screenful,
            cost_ns: 41_000_000,
            gain_ns: 40_000_000,
            total_ns: 43_500_000,
            subject: "The far side's Nagle".to_owned(),
            advice: "set TCP_NODELAY there".to_owned(),
        };
        let mut record = Measurement::from_json(SAMPLE).unwrap();
        record.causes = vec![NamedCause::from(&cause)];
        let json = record.to_json();
        for key in [
            "\"name\": \"Nagle\"",
            "\"cost_ns\": 41000000",
            "\"gain_ns\": 40000000",
            "\"whole\": \"a screenful\"",
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
    fn a_carrier_without_a_rate_has_none() {
        let mut record = Measurement::from_json(SAMPLE).unwrap();
        record.via = "tun:plumb0?baud=9600".to_owned();
        assert_eq!(record.line_rate(), None);
    }

    proptest! {
        #[test]
        fn a_record_comes_back_from_its_json_as_it_was(
            target in any::<String>(),
            address in any::<Option<String>>(),
            rtt_ns in any::<Option<u64>>(),
            times in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..9),
        ) {
            let samples: Vec<EchoSample> =
                times.into_iter().map(|(total, telnet)| sample(total, telnet)).collect();
            let mut record = Measurement::from_json(SAMPLE).unwrap();
            (record.target, record.address) = (target, address);
            record.echo = Echo::from_samples(&samples, rtt_ns);
            record.tcp = Some(TcpFigures { rtt_ns, ..TcpFigures::default() });
            prop_assert_eq!(Measurement::from_json(&record.to_json()), Ok(record));
        }

        #[test]
        fn no_text_makes_the_reader_panic(json in any::<String>()) {
            let _ = Measurement::from_json(&json);
        }
    }
}
