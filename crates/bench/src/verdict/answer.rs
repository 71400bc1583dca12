//! The answer of `plumb measure`: its JSON, or its stderr output if there is no JSON.
//!
//! Renamed keys are read under both names, so that a later version of `plumb` can be compared with
//! an earlier version on the same cases.

use super::rule;
use super::user_wait::UserWait;
use serde_json::Value;

/// One cause of the report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NamedCause {
    pub(super) sentence: String,
    pub(super) user_wait: Option<UserWait>,
    pub(super) gain_ms: Option<f64>,
    /// Measured waiting time of the kind `user_wait`.
    pub(super) user_wait_ms: Option<f64>,
}

/// One prediction of a waiting time in the report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prediction {
    pub(super) what: String,
    pub(super) bytes: Option<u64>,
    pub(super) predicted_ms: f64,
    /// Time that `plumb` itself measured after the prediction.
    pub(super) measured_ms: Option<f64>,
    pub(super) range_ms: Option<(f64, f64)>,
}

/// The complete answer of `plumb measure` to one case.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// The sentences in the order of the report; without a report, the last line of stderr.
    pub(super) sentences: Vec<String>,
    pub(super) causes: Vec<NamedCause>,
    pub(super) predictions: Vec<Prediction>,
    pub(super) exit_code: Option<i32>,
    /// Whether the bench interrupted `plumb measure` at the time limit.
    pub(super) was_ended: bool,
    pub(super) stderr: String,
}

impl Answer {
    /// Parses the output and the exit code of `plumb measure`.
    pub(super) fn read(stdout: &str, stderr: &str, exit_code: Option<i32>) -> Self {
        let record: Option<Value> = serde_json::from_str(stdout).ok();
        let record = record.unwrap_or(Value::Null);
        let verdict = record.get("verdict").and_then(Value::as_str).unwrap_or_default();
        let mut sentences: Vec<String> =
            rule::sentences(verdict).into_iter().map(str::to_owned).collect();
        if sentences.is_empty() {
            let last = stderr.lines().rfind(|line| !line.trim().is_empty());
            sentences.extend(last.map(|line| line.trim().to_owned()));
        }
        let list = |key: &str| record.get(key).and_then(Value::as_array).cloned();
        let causes = list("causes").unwrap_or_default();
        let predictions = list("predictions").unwrap_or_default();
        Self {
            sentences,
            causes: causes.iter().map(cause).collect(),
            predictions: predictions.iter().filter_map(prediction).collect(),
            exit_code,
            was_ended: false,
            stderr: stderr.trim().to_owned(),
        }
    }

    pub(super) fn first(&self) -> &str {
        self.sentences.first().map_or("", String::as_str)
    }
}

fn millis(value: Option<&Value>) -> Option<f64> {
    Some(value?.as_f64()? / 1e6)
}

fn cause(value: &Value) -> NamedCause {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let operation = text("operation").or_else(|| text("whole"));
    NamedCause {
        sentence: text("sentence").unwrap_or_default().to_owned(),
        user_wait: UserWait::from_name(operation.unwrap_or_default()),
        gain_ms: millis(value.get("gain_ns")),
        user_wait_ms: millis(value.get("operation_ns").or_else(|| value.get("whole_ns"))),
    }
}

fn prediction(value: &Value) -> Option<Prediction> {
    let predicted = value.get("predicted_ns").or_else(|| value.get("foretold_ns"));
    let range = value.get("range_ns").and_then(Value::as_array);
    Some(Prediction {
        what: value.get("quantity").or_else(|| value.get("what"))?.as_str()?.to_owned(),
        bytes: value.get("bytes").and_then(Value::as_u64),
        predicted_ms: millis(predicted)?,
        measured_ms: millis(value.get("measured_ns")),
        range_ms: range.and_then(|range| Some((millis(range.first())?, millis(range.get(1))?))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_under_old_and_new_names() {
        let record = serde_json::json!({
            "verdict": "Loss costs 2.1 s of the transfer. The line costs 1 s of it.",
            "causes": [{
                "name": "loss", "whole": "the transfer", "gain_ns": 2_100_000_000_u64,
                "sentence": "Loss costs 2.1 s of the transfer."
            }],
            "predictions": [
                { "what": "received", "bytes": 4096, "foretold_ns": 2_000_000, "measured_ns": null,
                  "range_ns": [1_000_000, 3_000_000] },
                { "quantity": "screenful", "predicted_ns": 5_000_000, "measured_ns": 6_000_000 },
            ],
        });
        let answer = Answer::read(&record.to_string(), "", Some(0));
        assert_eq!(answer.first(), "Loss costs 2.1 s of the transfer.");
        assert_eq!(answer.sentences.len(), 2);
        assert_eq!(answer.causes[0].user_wait, Some(UserWait::Transfer));
        assert_eq!(answer.causes[0].gain_ms, Some(2_100.0));
        assert_eq!(answer.predictions[0].range_ms, Some((1.0, 3.0)));
        assert_eq!(answer.predictions[0].measured_ms, None);
        assert_eq!(answer.predictions[1].predicted_ms, 5.0);
    }

    #[test]
    fn without_a_record_the_last_line_of_stderr_is_the_answer() {
        let answer = Answer::read("", "plumb: one\nplumb: the server does not answer\n\n", Some(1));
        assert_eq!(answer.first(), "plumb: the server does not answer");
        assert!(answer.causes.is_empty());
    }
}
