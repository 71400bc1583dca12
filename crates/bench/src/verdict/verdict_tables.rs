//! The report: the named causes compared with the injected ones, in tables and as JSON.

use super::case::Case;
use super::cause::ROWS;
use super::score::{Gain, Outcome};
use super::second;
use super::service::Service;
use super::trial::CaseResult;
use super::truth::{Time, Truth, median};
use super::user_wait::UserWait;
use records::format::UNKNOWN;
use report::table::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Width of the tables in columns.
const WIDTH: usize = 120;
/// A predicted gain counts as correct if its relative error is smaller than this.
const MAX_RELATIVE_ERROR: f64 = 0.2;

/// Lateness of a packet in the relay above which the relay has affected the measurement, ms.
const MAX_RELAY_LATENESS_MS: f64 = 20.0;

/// A case with its result.
pub(super) type Done = (Case, CaseResult);

/// Returns the line printed when a case ends.
pub(super) fn progress(case: &Case, case_result: &CaseResult) -> String {
    let head = format!("case {} {case}", case.number);
    match case_result {
        CaseResult::Scored { evidence, answer, score } => {
            let mut text = format!("{head}\n  {}: \"{}\"", score.outcome.name(), answer.first());
            // Writing to a String cannot fail.
            if case.causes.is_empty() {
                let times = evidence
                    .with
                    .times
                    .iter()
                    .map(|(user_wait, time)| format!("{} {:.0}", user_wait.name(), time.ms));
                let times: Vec<String> = times.collect();
                _ = write!(text, "\n  measured, ms: {}", times.join(", "));
            }
            if evidence.relay_late_ms > MAX_RELAY_LATENESS_MS {
                _ = write!(
                    text,
                    "\n  machine load delayed the relay by up to {:.0} ms",
                    evidence.relay_late_ms
                );
            }
            for (cause, without) in case.causes.iter().zip(&evidence.without) {
                let gains = UserWait::ALL.iter().filter_map(|user_wait| {
                    let gain = evidence.with.gain(without, *user_wait)?;
                    let total = evidence.with.times.get(user_wait)?.ms;
                    let bound = if gain.timed_out { "> " } else { "" };
                    Some(format!("{} {bound}{:.0} of {total:.0}", user_wait.name(), gain.ms))
                });
                let gains: Vec<String> = gains.collect();
                let name = cause.kind.name();
                _ = write!(text, "\n  measured gain without {name}, ms: {}", gains.join(", "));
            }
            if answer.was_ended {
                text += "\n  plumb measure did not end and was interrupted";
            }
            text
        }
        CaseResult::NotConfigured(why) => format!("{head}\n  not configured: {why}"),
        CaseResult::Failed(why) => format!("{head}\n  failed: {why}"),
    }
}

/// Returns all tables as text.
pub(super) fn text(done: &[Done]) -> String {
    let mut text = String::new();
    let mut add = |heading: &str, table: &Table| {
        _ = write!(text, "\n{heading}\n\n{}", table.render(WIDTH));
    };
    add(
        "Cause named by the first sentence, by service (cases with one or two effective causes)",
        &services(done),
    );
    add("Healthy paths", &healthy(done));
    add("First cause named, by injected cause", &confusion(done));
    add("Predicted gain, compared with the measured gain without the cause", &gains(done));
    add("Predictions", &predictions(done));
    let missing = done.iter().filter_map(|(case, case_result)| match case_result {
        CaseResult::NotConfigured(why) => {
            Some(format!("not configured: case {}: {why}\n", case.number))
        }
        CaseResult::Failed(why) => Some(format!("failed: case {}: {why}\n", case.number)),
        CaseResult::Scored { .. } => None,
    });
    let missing: String = missing.collect();
    if !missing.is_empty() {
        text += "\n";
        text += &missing;
    }
    text
}

fn outcome_of(case_result: &CaseResult) -> Option<Outcome> {
    match case_result {
        CaseResult::Scored { score, .. } => Some(score.outcome),
        CaseResult::NotConfigured(_) | CaseResult::Failed(_) => None,
    }
}

/// Outcomes of an effective cause, in the order of the columns.
const COLUMNS: [Outcome; 7] = [
    Outcome::Named,
    Outcome::Listed,
    Outcome::Possible,
    Outcome::Unknown,
    Outcome::Nothing,
    Outcome::Wrong,
    Outcome::Other,
];

fn services(done: &[Done]) -> Table {
    let mut table = Table::new().text("service").number("cases");
    for column in COLUMNS {
        table = table.number(column.name());
    }
    table = table.number("both of two").number("ineffective").number("not run");
    let named = Service::ALL.iter().map(|service| (service.name(), Some(*service)));
    for (name, service) in named.chain([("all", None)]) {
        let matching_cases = done.iter().filter(|(case, _)| {
            case.healthy.is_none() && service.is_none_or(|service| case.service == service)
        });
        let matching_cases: Vec<&Done> = matching_cases.collect();
        let count = |outcome: Outcome| {
            matching_cases
                .iter()
                .filter(|(_, case_result)| outcome_of(case_result) == Some(outcome))
                .count()
        };
        let counted: usize = COLUMNS.iter().map(|outcome| count(*outcome)).sum();
        let both = matching_cases.iter().filter_map(|(_, case_result)| match case_result {
            CaseResult::Scored { score, .. } if score.outcome != Outcome::Ineffective => score.both,
            _ => None,
        });
        let both: Vec<bool> = both.collect();
        let mut row = vec![name.to_owned(), counted.to_string()];
        row.extend(COLUMNS.iter().map(|outcome| count(*outcome).to_string()));
        let both_named = both.iter().filter(|both| **both).count();
        row.push(format!("{both_named} of {}", both.len()));
        row.push(count(Outcome::Ineffective).to_string());
        let not_run = matching_cases
            .iter()
            .filter(|(_, case_result)| outcome_of(case_result).is_none())
            .count();
        row.push(not_run.to_string());
        table.row(row);
    }
    table
}

fn healthy(done: &[Done]) -> Table {
    let mut table = Table::new().text("service").number("cases").number("quiet");
    table = table.number("path named").number("accused");
    for service in Service::ALL {
        let matching_cases =
            done.iter().filter(|(case, _)| case.healthy.is_some() && case.service == service);
        let outcomes: Vec<Outcome> =
            matching_cases.filter_map(|(_, case_result)| outcome_of(case_result)).collect();
        let count =
            |outcome: Outcome| outcomes.iter().filter(|one| **one == outcome).count().to_string();
        table.row([
            service.name().to_owned(),
            outcomes.len().to_string(),
            count(Outcome::Quiet),
            count(Outcome::Limit),
            count(Outcome::Accused),
        ]);
    }
    table
}

fn confusion(done: &[Done]) -> Table {
    let mut table = Table::new().text("injected").number("cases").number("named first");
    table = table.number("in the list").text("first sentence instead");
    let names = ROWS.iter().chain(&second::ROWS).map(|row| row.name).chain(["two causes"]);
    for name in names {
        let matching_cases = done.iter().filter(|(case, case_result)| {
            let is_counted =
                outcome_of(case_result).is_some_and(|outcome| COLUMNS.contains(&outcome));
            let is_name = match case.causes.as_slice() {
                [cause] => cause.kind.name() == name,
                [_, _] => name == "two causes",
                _ => false,
            };
            is_counted && is_name
        });
        let matching_cases: Vec<&Done> = matching_cases.collect();
        if matching_cases.is_empty() {
            continue;
        }
        let count = |outcome: Outcome| {
            matching_cases
                .iter()
                .filter(|(_, case_result)| outcome_of(case_result) == Some(outcome))
                .count()
        };
        let mut other_verdicts: BTreeMap<String, usize> = BTreeMap::new();
        for (_, case_result) in &matching_cases {
            let CaseResult::Scored { score, .. } = case_result else { continue };
            if score.outcome == Outcome::Named {
                continue;
            }
            let classes: Vec<&str> = score.named.iter().map(|class| class.name()).collect();
            let text = if classes.is_empty() {
                score.outcome.name().to_owned()
            } else {
                classes.join("; ")
            };
            *other_verdicts.entry(text).or_default() += 1;
        }
        let other_verdicts: Vec<String> =
            other_verdicts.iter().map(|(text, count)| format!("{text} x{count}")).collect();
        table.row([
            name.to_owned(),
            matching_cases.len().to_string(),
            count(Outcome::Named).to_string(),
            count(Outcome::Listed).to_string(),
            other_verdicts.join(", "),
        ]);
    }
    table
}

fn scored_cases(done: &[Done]) -> impl Iterator<Item = (&Case, &CaseResult)> {
    done.iter().filter_map(|(case, case_result)| {
        matches!(case_result, CaseResult::Scored { .. }).then_some((case, case_result))
    })
}

fn gains_of(done: &[Done]) -> Vec<Gain> {
    let all = scored_cases(done).filter_map(|(_, case_result)| match case_result {
        CaseResult::Scored { score, .. } if score.outcome != Outcome::Ineffective => {
            Some(&score.gains)
        }
        _ => None,
    });
    all.flatten().copied().collect()
}

fn gains(done: &[Done]) -> Table {
    let mut table = Table::new().text("cause").text("of").number("predicted (ms)");
    table = table.number("measured (ms)").number("reported run (ms)");
    table = table.number("predicted / measured").text("within 20 %");
    let all = gains_of(done);
    for gain in &all {
        let ratio = gain.predicted_ms / gain.measured_ms;
        let is_right = is_within(*gain);
        table.row([
            gain.kind.name().to_owned(),
            gain.user_wait.name().to_owned(),
            format!("{:.1}", gain.predicted_ms),
            format!("{:.1}", gain.measured_ms),
            gain.reported_run_ms.map(|ms| format!("{ms:.1}")).unwrap_or_default(),
            if ratio.is_finite() && ratio > 0.0 {
                format!("{ratio:.2}")
            } else {
                UNKNOWN.to_owned()
            },
            if is_right { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let mut total = |name: &str, gains: &[Gain]| {
        let right = gains.iter().filter(|gain| is_within(**gain)).count();
        let mut cells = [const { String::new() }; 7];
        let [first, .., last] = &mut cells;
        name.clone_into(first);
        *last = format!("{right} of {}", gains.len());
        table.row(cells);
    };
    total("all", &all);
    let is_random_cause = |gain: &Gain| gain.kind.is_random();
    let (random_causes, others): (Vec<Gain>, Vec<Gain>) =
        all.iter().copied().partition(is_random_cause);
    total("all but random causes", &others);
    total("random causes", &random_causes);
    let in_reported_run = |gain: &Gain| Gain {
        measured_ms: gain.reported_run_ms.unwrap_or(gain.measured_ms),
        ..*gain
    };
    let random_causes: Vec<Gain> = random_causes.iter().map(in_reported_run).collect();
    total("random causes, in the reported run", &random_causes);
    let all: Vec<Gain> = all.iter().map(in_reported_run).collect();
    total("all, in the reported run", &all);
    table
}

fn is_within(gain: Gain) -> bool {
    let Gain { predicted_ms, measured_ms, .. } = gain;
    let is_enough = predicted_ms >= measured_ms * (1.0 - MAX_RELATIVE_ERROR);
    is_enough && predicted_ms <= measured_ms * (1.0 + MAX_RELATIVE_ERROR)
}

/// The errors of one kind of prediction.
#[derive(Clone, Debug, Default)]
struct Errors {
    /// |predicted / measured - 1|, where `plumb measure` itself measured the time.
    own: Vec<f64>,
    /// |predicted / measured - 1|, where the bench's client measured the time.
    truth: Vec<f64>,
    /// One entry per prediction: `true` if the printed range contained the time measured by the
    /// program or, if it measured none, by the bench's client.
    range_hits: Vec<bool>,
}

fn errors(done: &[Done]) -> BTreeMap<String, Errors> {
    let mut all: BTreeMap<String, Errors> = BTreeMap::new();
    for (case, case_result) in scored_cases(done) {
        let CaseResult::Scored { evidence, answer, .. } = case_result else { continue };
        for prediction in &answer.predictions {
            let is_large =
                prediction.bytes == Some(case.bytes * super::trial_servers::LARGE_FACTOR);
            let name = if is_large && prediction.measured_ms.is_none() {
                "estimate"
            } else {
                &prediction.what
            };
            let entry = all.entry(name.to_owned()).or_default();
            let error = |truth: f64| (prediction.predicted_ms / truth - 1.0).abs();
            entry.own.extend(prediction.measured_ms.map(error));
            let is_in_range =
                |ms: f64| prediction.range_ms.map(|(min, max)| (min..=max).contains(&ms));
            entry.range_hits.extend(prediction.measured_ms.and_then(is_in_range));
            if name == "estimate" {
                let truth =
                    evidence.with.times.get(&UserWait::Large).filter(|time| !time.timed_out);
                entry.truth.extend(truth.map(|time| error(time.ms)));
                entry.range_hits.extend(truth.and_then(|time| is_in_range(time.ms)));
            }
        }
    }
    all
}

fn predictions(done: &[Done]) -> Table {
    let mut table = Table::new().text("what").number("predictions").number("median error");
    table = table.number("off by > 20 %").number("range held");
    for (what, errors) in errors(done) {
        let all = if what == "estimate" { &errors.truth } else { &errors.own };
        let range_hits = errors.range_hits.iter().filter(|range_hits| **range_hits).count();
        table.row([
            what,
            all.len().to_string(),
            median(all)
                .map_or_else(|| UNKNOWN.to_owned(), |error| format!("{:.1} %", error * 100.0)),
            all.iter().filter(|error| **error > MAX_RELATIVE_ERROR).count().to_string(),
            if errors.range_hits.is_empty() {
                UNKNOWN.to_owned()
            } else {
                format!("{range_hits} of {}", errors.range_hits.len())
            },
        ]);
    }
    table
}

/// Returns all results as JSON.
pub(super) fn to_json(done: &[Done]) -> Value {
    let cases: Vec<Value> =
        done.iter().map(|(case, case_result)| case_json(case, case_result)).collect();
    let counts = COLUMNS.iter().map(|outcome| {
        let has_outcome = |(_, case_result): &&Done| outcome_of(case_result) == Some(*outcome);
        (outcome.name().to_owned(), Value::from(done.iter().filter(has_outcome).count()))
    });
    json!({ "outcomes": counts.collect::<serde_json::Map<String, Value>>(), "cases": cases })
}

fn truth_json(truth: &Truth) -> Value {
    let times = truth.times.iter().map(|(user_wait, Time { ms, timed_out })| {
        (user_wait.name().to_owned(), json!({ "ms": ms, "timed_out": timed_out }))
    });
    Value::Object(times.collect())
}

fn case_json(case: &Case, case_result: &CaseResult) -> Value {
    let mut value = json!({
        "generator": case.generator.name(),
        "seed": case.seed,
        "case": case.number,
        "service": case.service.name(),
        "peer": case.peer.name(),
        "path": case.path.to_string(),
        "injected": case.injected(),
        "bytes": case.bytes,
    });
    let Some(object) = value.as_object_mut() else { return value };
    match case_result {
        CaseResult::Scored { evidence, answer, score } => {
            let classes: Vec<&str> = score.named.iter().map(|class| class.name()).collect();
            let gains = score.gains.iter().map(|gain| {
                json!({
                    "cause": gain.kind.name(), "whole": gain.user_wait.name(),
                    "predicted_ms": gain.predicted_ms, "measured_ms": gain.measured_ms,
                    "of_that_run_ms": gain.reported_run_ms,
                })
            });
            object.insert("outcome".into(), score.outcome.name().into());
            object.insert("named".into(), classes.into());
            object.insert("both".into(), score.both.into());
            object.insert("gains".into(), gains.collect::<Vec<_>>().into());
            object.insert("sentences".into(), answer.sentences.clone().into());
            object.insert("exit_code".into(), answer.exit_code.into());
            object.insert("was_interrupted".into(), answer.was_ended.into());
            let predictions = answer.predictions.iter().map(|one| {
                json!({
                    "what": one.what, "bytes": one.bytes, "predicted_ms": one.predicted_ms,
                    "measured_ms": one.measured_ms, "range_ms": one.range_ms,
                })
            });
            object.insert("predictions".into(), predictions.collect());
            object.insert("relay_late_ms".into(), evidence.relay_late_ms.into());
            object.insert("stderr".into(), answer.stderr.clone().into());
            object.insert("times".into(), truth_json(&evidence.with));
            let without: Vec<Value> = evidence.without.iter().map(truth_json).collect();
            object.insert("times_without".into(), without.into());
        }
        CaseResult::NotConfigured(why) => {
            _ = object.insert("not_configured".into(), why.clone().into());
        }
        CaseResult::Failed(why) => _ = object.insert("failed".into(), why.clone().into()),
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::answer::Answer;
    use super::super::generate;
    use super::super::score::{Evidence, Score};
    use super::*;

    fn done(number: u64, outcome: Outcome) -> Done {
        let score = Score { outcome, named: Vec::new(), both: None, gains: Vec::new() };
        let case_result =
            CaseResult::Scored { evidence: Evidence::default(), answer: Answer::default(), score };
        (generate::case(1, number), case_result)
    }

    #[test]
    fn cases_that_were_not_run_are_counted_and_explained() {
        let mut cases = (0..).map(|number| generate::case(1, number));
        let case = cases.find(|case| case.causes.len() == 1).unwrap();
        let number = case.number;
        let all = [(case, CaseResult::NotConfigured("there is no vsftpd".to_owned()))];
        let text = text(&all);
        assert!(text.contains(&format!("not configured: case {number}: there is no vsftpd")));
    }

    #[test]
    fn an_outcome_is_counted_for_its_service() {
        let number = (0..).find(|number| generate::case(1, *number).causes.len() == 1).unwrap();
        let all = [done(number, Outcome::Wrong)];
        let json = to_json(&all);
        assert_eq!(json["outcomes"]["wrong"], 1);
        assert_eq!(json["cases"][0]["outcome"], "wrong");
    }

    #[test]
    fn a_gain_within_a_fifth_is_right() {
        let gain = |predicted_ms| Gain {
            kind: super::super::cause::Kind::Loss,
            user_wait: UserWait::Transfer,
            predicted_ms,
            measured_ms: 100.0,
            reported_run_ms: None,
        };
        assert!(is_within(gain(81.0)) && is_within(gain(119.0)));
        assert!(!is_within(gain(79.0)) && !is_within(gain(121.0)));
    }
}
