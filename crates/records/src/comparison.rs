//! Comparison of programs that were measured in turn: the median of each figure over all rounds.

use crate::measurement::{EchoTimes, Measurement};
use crate::statistics;
use serde::Serialize;

/// Measurements of one of the compared programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedProgram {
    /// The program with its arguments.
    pub program: String,
    /// Whether the program displays predicted echoes.
    pub predicts_echoes: bool,
    /// Time from the start until the first prompt, and of a login, ns.
    pub prompt_ns: Option<u64>,
    /// Median of all echoes, ns.
    pub echo_p50_ns: Option<u64>,
    /// 99th percentile of all echoes, ns.
    pub echo_p99_ns: Option<u64>,
    /// Median echo of keys typed at a constant interval, ns.
    pub paced_echo_ns: Option<u64>,
    /// Median echo of keys typed during a long output, ns.
    pub echo_during_output_ns: Option<u64>,
    /// From the request of a screenful to its last cell, ns.
    pub screenful_ns: Option<u64>,
    /// Reason why the program could not be measured in every round, as a clause.
    pub failure: Option<String>,
    /// The record of each round.
    pub records: Vec<Measurement>,
}

impl ComparedProgram {
    /// Computes the figures from the records of all rounds.
    #[must_use]
    pub fn of(program: String, records: Vec<Measurement>, failure: Option<String>) -> Self {
        let echoes = records.iter().filter_map(|record| record.echo.as_ref());
        let echoes: Vec<u64> = echoes.flat_map(|echo| echo.times_ns.iter().copied()).collect();
        let of_echo = |get: fn(&Measurement) -> Option<EchoTimes>| {
            median(&records, |record| get(record).map(|echo| echo.p50_ns))
        };
        Self {
            predicts_echoes: predicts_echoes(&program),
            prompt_ns: median(&records, prompt_ns),
            echo_p50_ns: statistics::percentile(&echoes, 50),
            echo_p99_ns: statistics::percentile(&echoes, 99),
            paced_echo_ns: of_echo(|record| record.paced_echo),
            echo_during_output_ns: of_echo(|record| record.echo_during_output),
            screenful_ns: median(&records, |record| Some(record.screenful.as_ref()?.total_ns())),
            program,
            failure,
            records,
        }
    }
}

/// Returns whether a program displays echoes before the host has sent them, unless an option of the
/// command disables this.
fn predicts_echoes(program: &str) -> bool {
    let mut words = program.split_whitespace();
    let path = words.next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_disabled = ["--predict never", "--predict=never", "-n"]
        .iter()
        .any(|option| format!("{program} ").contains(&format!(" {option} ")));
    match name {
        "mosh" | "mosh-client" => !is_disabled,
        "plumb" => words.next() == Some("login") && !is_disabled,
        _ => false,
    }
}

fn prompt_ns(record: &Measurement) -> Option<u64> {
    let login_ns = record.phases.login_ns.unwrap_or(0);
    Some(record.phases.login_prompt_ns?.saturating_add(login_ns))
}

fn median(records: &[Measurement], get: impl Fn(&Measurement) -> Option<u64>) -> Option<u64> {
    statistics::median(&records.iter().filter_map(get).collect::<Vec<u64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(echoes_ns: &[u64], screenful_ns: u64) -> Measurement {
        let sample = include_str!("../samples/measurement-4.json");
        let mut record = Measurement::from_json(sample).unwrap();
        record.echo.as_mut().unwrap().times_ns = echoes_ns.to_vec();
        record.screenful.as_mut().unwrap().request_to_last_ns = Some(screenful_ns);
        record
    }

    #[test]
    fn echoes_of_all_rounds_are_pooled_and_other_figures_are_medians_of_the_rounds() {
        let records = vec![record(&[1, 2, 3], 50), record(&[4, 5], 70), record(&[], 60)];
        let compared = ComparedProgram::of("ssh host".to_owned(), records, None);
        assert_eq!((compared.echo_p50_ns, compared.echo_p99_ns), (Some(3), Some(5)));
        assert_eq!(compared.screenful_ns, Some(60));
        assert_eq!(compared.echo_during_output_ns, None);
    }

    #[test]
    fn mosh_and_plumb_login_predict_echoes_unless_an_option_disables_it() {
        let predicting =
            ["mosh host", "/usr/bin/mosh -p 60001 host", "plumb login host", "plumb login -q host"];
        assert!(predicting.iter().all(|program| predicts_echoes(program)));
        let others = ["ssh host", "mosh --predict=never host", "plumb login --predict never host"];
        assert!(others.iter().all(|program| !predicts_echoes(program)));
    }

    #[test]
    fn a_program_without_a_record_has_unknown_figures() {
        let compared = ComparedProgram::of("x".to_owned(), Vec::new(), Some("no".to_owned()));
        assert_eq!((compared.echo_p50_ns, compared.prompt_ns), (None, None));
        assert!(serde_json::to_string(&compared).unwrap().contains("\"echo_p50_ns\":null"));
    }
}
