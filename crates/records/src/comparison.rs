//! Comparison of programs that were measured in turn: the median of each figure over all rounds.

use crate::format::duration;
use crate::grade::{Delay, Grade};
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
    /// 95th percentile of all echoes, ns.
    pub echo_p95_ns: Option<u64>,
    /// 99th percentile of all echoes, ns.
    pub echo_p99_ns: Option<u64>,
    /// Median echo of keys typed at a constant interval, ns.
    pub paced_echo_ns: Option<u64>,
    /// Median echo of keys typed during a long output, ns.
    pub echo_during_output_ns: Option<u64>,
    /// From the request of a screenful to its last cell, ns.
    pub screenful_ns: Option<u64>,
    /// Whether an interrupt ended the measurements of the program early.
    pub is_interrupted: bool,
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
            echo_p95_ns: statistics::percentile(&echoes, 95),
            echo_p99_ns: statistics::percentile(&echoes, 99),
            paced_echo_ns: of_echo(|record| record.paced_echo),
            echo_during_output_ns: of_echo(|record| record.echo_during_output),
            screenful_ns: median(&records, |record| Some(record.screenful.as_ref()?.total_ns())),
            program,
            is_interrupted: false,
            failure,
            records,
        }
    }
}

/// Echo, and difference of two echoes, that users notice (TM-233 3.1), ns.
pub const NOTICED_ECHO_NS: u64 = 25_000_000;
/// Wait for a prompt that users notice, as for the causes of a verdict, ns.
pub const NOTICED_PROMPT_NS: u64 = 150_000_000;

/// Returns the grade of a comparison, and a sentence about the echoes; `None` if fewer than two
/// programs have an echo. `name` returns the text for a program.
#[must_use]
pub fn verdict(
    programs: &[ComparedProgram],
    name: impl Fn(&ComparedProgram) -> String,
) -> Option<(Grade, String)> {
    let echo = |program: &ComparedProgram| Some((program.echo_p50_ns?, name(program)));
    let mut echoes: Vec<(u64, String)> = programs.iter().filter_map(echo).collect();
    echoes.sort_by_key(|(ns, _)| *ns);
    let [(least_ns, fastest), .., (most_ns, slowest)] = echoes.as_slice() else { return None };
    let measured = programs.iter().filter(|program| program.echo_p50_ns.is_some());
    let count = measured.clone().count();
    let predicting = measured.filter(|program| program.predicts_echoes).count();
    let slow = programs.iter().find_map(|program| Some((program, slow_delay(program)?)));
    let grade = match (programs.iter().any(|program| program.failure.is_some()), slow) {
        (true, _) => Grade::Failed,
        (false, Some(_)) => Grade::Slow,
        (false, None) => Grade::Ok,
    };
    let slow = slow.map_or_else(String::new, |(program, delay)| {
        let total = duration(delay.total_ns);
        format!("{} takes {total} with {}; ", delay.operation.text(), name(program))
    });
    let difference_ns = most_ns - least_ns;
    let most = duration(*most_ns);
    let difference = duration(difference_ns);
    let sentence = if predicting == count {
        format!("{slow}all echoes are predicted, so they do not compare the hosts")
    } else if difference_ns < NOTICED_ECHO_NS {
        format!(
            "{slow}the echoes differ by {difference}, which users do not notice: at most {most}"
        )
    } else {
        let least = duration(*least_ns);
        format!(
            "an echo takes {most} with {slowest}, {difference} more than with {fastest} ({least})"
        )
    };
    let is_mixed = predicting > 0 && predicting < count;
    let note = if is_mixed { " (some echoes are predicted)" } else { "" };
    Some((grade, sentence + note))
}

/// Returns the operation that makes a program slow.
fn slow_delay(program: &ComparedProgram) -> Option<&Delay> {
    let assessments = program.records.iter().filter_map(|record| record.assessment.as_ref());
    let mut slow = assessments.filter(|assessment| assessment.grade == Grade::Slow);
    slow.next()?.delay.as_ref()
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
    let phases = &record.phases;
    let steps = [phases.login_prompt_ns?].into_iter().chain(phases.password_prompt_ns);
    Some(steps.chain(phases.login_ns).fold(0, u64::saturating_add))
}

fn median(records: &[Measurement], get: impl Fn(&Measurement) -> Option<u64>) -> Option<u64> {
    statistics::median(&records.iter().filter_map(get).collect::<Vec<u64>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grade::Assessment;
    use crate::verdict::Operation;

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
    fn a_verdict_names_the_programs_only_if_users_notice_the_difference() {
        let of =
            |name: &str, ns| ComparedProgram::of(name.to_owned(), vec![record(&[ns], 1)], None);
        let verdict = |programs: &[ComparedProgram]| verdict(programs, |one| one.program.clone());
        let near = verdict(&[of("ssh a", 1_210_000), of("ssh b", 340_000)]);
        let expected = "the echoes differ by 870 µs, which users do not notice: at most 1.21 ms";
        assert_eq!(near, Some((Grade::Ok, expected.to_owned())));
        let far = verdict(&[of("ssh a", 81_000_000), of("ssh b", 1_000_000)]);
        let expected =
            "an echo takes 81.0 ms with ssh a, 80.0 ms more than with ssh b (1.00 ms)".to_owned();
        assert_eq!(far, Some((Grade::Ok, expected)));
        assert_eq!(verdict(&[of("ssh a", 1)]), None);
        let mut slow = of("ssh c", 1_000_000);
        slow.records[0].assessment = Some(Assessment {
            grade: Grade::Slow,
            delay: Some(Delay {
                operation: Operation::Screenful,
                total_ns: 42_000_000,
                parts: Vec::new(),
            }),
            remedy: None,
            slow_echo: None,
        });
        let (grade, sentence) = verdict(&[of("ssh a", 2_000_000), slow]).unwrap();
        assert_eq!(grade, Grade::Slow);
        assert!(
            sentence.starts_with("a screenful takes 42.0 ms with ssh c; the echoes"),
            "{sentence}"
        );
    }

    #[test]
    fn predicted_echoes_do_not_compare_the_hosts() {
        let of =
            |name: &str, ns| ComparedProgram::of(name.to_owned(), vec![record(&[ns], 1)], None);
        let sentence =
            |programs: &[ComparedProgram]| verdict(programs, |one| one.program.clone()).unwrap().1;
        let predicted = sentence(&[of("plumb login a", 2_860_000), of("plumb login b", 170_000)]);
        assert_eq!(predicted, "all echoes are predicted, so they do not compare the hosts");
        let mixed = sentence(&[of("ssh a", 2_860_000), of("plumb login b", 170_000)]);
        assert!(mixed.ends_with("at most 2.86 ms (some echoes are predicted)"), "{mixed}");
    }

    #[test]
    fn a_program_without_a_record_has_unknown_figures() {
        let compared = ComparedProgram::of("x".to_owned(), Vec::new(), Some("no".to_owned()));
        assert_eq!((compared.echo_p50_ns, compared.prompt_ns), (None, None));
        assert!(serde_json::to_string(&compared).unwrap().contains("\"echo_p50_ns\":null"));
    }
}
