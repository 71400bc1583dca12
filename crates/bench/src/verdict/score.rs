//! The score of one case: the causes named by the report, compared with those injected and
//! measured.

use super::answer::Answer;
use super::case::{Case, Healthy};
use super::cause::{Cause, Kind};
use super::generator::Generator;
use super::rule::{self, Class, Reading};
use super::truth::Truth;
use super::user_wait::UserWait;

/// The ground truth of a case: the times with all causes, and without each cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    pub(super) with: Truth,
    pub(super) without: Vec<Truth>,
    /// Largest time by which the relay forwarded a packet later than computed, ms, in the run with
    /// all causes. The load of the machine causes this delay.
    pub(super) relay_late_ms: f64,
}

/// Score of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Outcome {
    /// The first sentence names the cause.
    Named,
    /// A later sentence names the cause.
    Listed,
    /// The first sentence names the cause among several without deciding.
    Possible,
    /// The first sentence states that the cause is unknown.
    Unknown,
    /// The first sentence states that nothing is wrong.
    Nothing,
    /// The first sentence names another cause.
    Wrong,
    /// The first sentence names no cause: an error, or a remark.
    Other,
    /// Nothing was injected, and the first sentence names no cause.
    Quiet,
    /// Nothing was injected, and the first sentence names the delay or the rate of the healthy path
    /// itself.
    Limit,
    /// Nothing was injected, and the first sentence names a cause.
    Accused,
    /// The injected cause delays no client of the bench; the case is not counted.
    Ineffective,
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Named => "named first",
            Self::Listed => "in the list",
            Self::Possible => "possible",
            Self::Unknown => "unknown",
            Self::Nothing => "nothing",
            Self::Wrong => "wrong",
            Self::Other => "no cause",
            Self::Quiet => "quiet",
            Self::Limit => "path named",
            Self::Accused => "ACCUSED",
            Self::Ineffective => "ineffective",
        }
    }
}

/// The predicted and the measured gain if a cause is removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gain {
    pub(super) kind: Kind,
    pub(super) user_wait: UserWait,
    pub(super) predicted_ms: f64,
    pub(super) measured_ms: f64,
    /// For a random cause, the gain in the run that `plumb measure` reports: the waiting time that
    /// the report states, minus the time without the cause. In any other run the losses and pauses
    /// differ.
    pub(super) reported_run_ms: Option<f64>,
}

/// The score of one case.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Score {
    pub(super) outcome: Outcome,
    /// Classes that the first sentence names.
    pub(super) named: Vec<Class>,
    /// For a case with two causes: `true` if the report names both of them.
    pub(super) both: Option<bool>,
    pub(super) gains: Vec<Gain>,
}

/// A cause is effective if it adds at least this share of one waiting time, and a user notices the
/// difference.
const MIN_EFFECTIVE_SHARE: f64 = 0.1;
/// With two causes, the smaller one may be named first if its share is at least this fraction of
/// the larger.
const MIN_COMPARABLE_RATIO: f64 = 0.5;

pub(super) fn score(case: &Case, evidence: &Evidence, answer: &Answer) -> Score {
    let readings: Vec<Reading> =
        answer.sentences.iter().map(|sentence| rule::read(sentence, case.generator)).collect();
    let first = readings.first().cloned().unwrap_or_default();
    let named = first.classes.clone();
    if let Some(healthy) = case.healthy {
        let outcome = healthy_outcome(healthy, case, &first);
        return Score { outcome, named, both: None, gains: Vec::new() };
    }
    let numbers = 0..case.causes.len();
    let shares: Vec<f64> = numbers.map(|number| share(case, evidence, number)).collect();
    let max_share = shares.iter().copied().fold(0.0, f64::max);
    let effective: Vec<&Cause> = case
        .causes
        .iter()
        .zip(&shares)
        .filter(|(_, share)| {
            **share >= MIN_EFFECTIVE_SHARE && **share >= max_share * MIN_COMPARABLE_RATIO
        })
        .map(|(cause, _)| cause)
        .collect();
    let is_named = |reading: &Reading, causes: &[&Cause]| {
        let right = causes.iter().flat_map(|cause| cause.kind.row().classes);
        right.into_iter().any(|class| reading.classes.contains(class))
    };
    let is_listed = |cause: &Cause| readings.iter().any(|reading| is_named(reading, &[cause]));
    let outcome = match () {
        () if effective.is_empty() => Outcome::Ineffective,
        () if first.is_possible && is_possible(answer.first(), case.generator, &effective) => {
            Outcome::Possible
        }
        () if first.is_unknown => Outcome::Unknown,
        () if is_named(&first, &effective) => Outcome::Named,
        () if effective.iter().any(|cause| is_listed(cause)) => Outcome::Listed,
        () if first.denies_fault => Outcome::Nothing,
        () if first.classes.is_empty() => Outcome::Other,
        () => Outcome::Wrong,
    };
    let both = (case.causes.len() == 2).then(|| case.causes.iter().all(is_listed));
    Score { outcome, named, both, gains: gains(case, evidence, answer) }
}

fn healthy_outcome(healthy: Healthy, case: &Case, first: &Reading) -> Outcome {
    let is_long_path = healthy == Healthy::LongPath;
    let is_limit = |class: &Class| match class {
        Class::PathDelay | Class::LockStep => is_long_path,
        // On a long path, slow start limits the transfer of a short file.
        Class::SlowStart => is_long_path && case.generator == Generator::Second,
        // At a low rate even a queue of ten packets takes long.
        Class::PathRate | Class::PathQueue => case.path.rate_kbps.is_some(),
        _ => false,
    };
    // A class of `SECOND_TABLE` counts only if the sentence names no class of `TABLE`.
    let is_first = |class: &&Class| !class.is_in_second_table();
    let mut named = first.classes.iter().filter(is_first).peekable();
    if first.classes.is_empty() {
        Outcome::Quiet
    } else if named.peek().is_some() && named.all(is_limit) {
        Outcome::Limit
    } else {
        Outcome::Accused
    }
}

/// Returns whether a sentence that names several possible causes names a right class among them.
fn is_possible(sentence: &str, generator: Generator, causes: &[&Cause]) -> bool {
    let read = |text: &str| rule::read(text, generator).classes;
    let parts = sentence.split([',', '(', ')', ':', ';']).flat_map(|part| part.split(" or "));
    let classes: Vec<Class> = parts.flat_map(read).collect();
    let right = causes.iter().flat_map(|cause| cause.kind.row().classes);
    right.into_iter().any(|class| classes.contains(class))
        || causes
            .iter()
            .flat_map(|cause| cause.kind.row().classes)
            .any(|class| read(sentence).contains(class))
}

/// Returns the largest share of a waiting time that cause `number` adds, or 0 if no user would
/// notice the difference. Only waiting times count that the cause can lengthen, since all times
/// differ randomly between runs.
pub(super) fn share(case: &Case, evidence: &Evidence, number: usize) -> f64 {
    let Some(without) = evidence.without.get(number) else { return 0.0 };
    let user_waits = case.causes.get(number).map_or(&[][..], |cause| cause.kind.acts_on());
    let shares = user_waits.iter().filter_map(|user_wait| {
        let gain = evidence.with.gain(without, *user_wait)?;
        let total = evidence.with.times.get(user_wait)?.ms;
        let is_noticed = gain.ms >= user_wait.unnoticed_ms();
        Some(if is_noticed { gain.ms / total.max(0.001) } else { 0.0 })
    });
    shares.fold(0.0, f64::max)
}

/// Returns the predicted and the measured gain of each injected cause.
fn gains(case: &Case, evidence: &Evidence, answer: &Answer) -> Vec<Gain> {
    let mut all_gains = Vec::new();
    for (number, cause) in case.causes.iter().enumerate() {
        let classes = cause.kind.row().classes;
        let named = answer.causes.iter().find(|named| {
            let reading = rule::read(&named.sentence, case.generator);
            reading.classes.iter().any(|class| classes.contains(class))
        });
        let gain = named.and_then(|named| {
            let user_wait = named.user_wait?;
            let measured = evidence.with.gain(evidence.without.get(number)?, user_wait)?;
            // A run that did not finish has no time to compare.
            if measured.timed_out {
                return None;
            }
            // The long outputs of a login have different lengths, and two FTP clients use different
            // numbers of commands, each of which takes a round trip. So shares are compared instead
            // of times.
            let is_scaled = match case.service.is_login() {
                true => user_wait == UserWait::Transfer,
                false => user_wait == UserWait::Login && cause.kind == Kind::Distance,
            };
            let scale = match is_scaled {
                true => evidence.with.times.get(&user_wait)?.ms / named.user_wait_ms?,
                false => 1.0,
            };
            let is_comparable = cause.kind.is_random() && !is_scaled;
            let without = evidence.without.get(number)?.times.get(&user_wait)?;
            let user_wait_ms = named.user_wait_ms.filter(|_| is_comparable && !without.timed_out);
            Some(Gain {
                kind: cause.kind,
                user_wait,
                predicted_ms: named.gain_ms? * scale,
                measured_ms: measured.ms,
                reported_run_ms: user_wait_ms.map(|user_wait_ms| user_wait_ms - without.ms),
            })
        });
        all_gains.extend(gain);
    }
    all_gains
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::super::truth::Time;
    use super::*;

    fn truth(user_wait: UserWait, ms: f64) -> Truth {
        let times = [(user_wait, Time { ms, timed_out: false })].into();
        Truth { times }
    }

    fn evidence(with: f64, without: &[f64]) -> Evidence {
        let transfer_truth = |ms: f64| truth(UserWait::Transfer, ms);
        let without = without.iter().map(|ms| transfer_truth(*ms)).collect();
        Evidence { with: transfer_truth(with), without, relay_late_ms: 0.0 }
    }

    fn case_with(kinds: &[Kind]) -> Case {
        let mut case = generate::case(1, 0);
        case.healthy = None;
        let causes = kinds.iter().map(|kind| Cause { kind: *kind, size: 1, second: 1 });
        case.causes = causes.collect();
        case
    }

    fn answer(text: &str) -> Answer {
        let record = serde_json::json!({ "verdict": text });
        Answer::read(&record.to_string(), "", Some(0))
    }

    const LOSS: &str =
        "Loss costs 2.1 s of the 2.3 s of the transfer: 14 of 812 segments were lost.";
    const HOST: &str = "The far host costs 1.1 s of the 2.3 s of the transfer: look at the load.";

    #[test]
    fn the_first_sentence_names_and_a_later_one_lists() {
        let case = case_with(&[Kind::Loss]);
        let evidence = evidence(2_300.0, &[200.0]);
        let outcome = |text: &str| score(&case, &evidence, &answer(text)).outcome;
        assert_eq!(outcome(LOSS), Outcome::Named);
        assert_eq!(outcome(&format!("{HOST} {LOSS}")), Outcome::Listed);
        assert_eq!(outcome(HOST), Outcome::Wrong);
        assert_eq!(outcome("Nothing stands out."), Outcome::Nothing);
        assert_eq!(outcome(&format!("Nothing stands out. {LOSS}")), Outcome::Listed);
        assert_eq!(outcome("Possible causes: packet loss, or a busy server."), Outcome::Possible);
        assert_eq!(outcome("The cause is unknown."), Outcome::Unknown);
        assert_eq!(outcome("plumb: no answer within 8 s"), Outcome::Other);
    }

    #[test]
    fn a_cause_without_an_effect_is_not_counted() {
        let case = case_with(&[Kind::Loss]);
        for (with, without) in [(2_300.0, 2_250.0), (60.0, 10.0)] {
            let score = score(&case, &evidence(with, &[without]), &answer(LOSS));
            assert_eq!(score.outcome, Outcome::Ineffective);
        }
    }

    #[test]
    fn of_two_causes_the_larger_or_a_comparable_one_is_named() {
        let case = case_with(&[Kind::Loss, Kind::SlowDisk]);
        let score_of =
            |without: &[f64], text: &str| score(&case, &evidence(3_000.0, without), &answer(text));
        assert_eq!(score_of(&[1_000.0, 1_500.0], HOST).outcome, Outcome::Named);
        assert_eq!(score_of(&[500.0, 2_400.0], HOST).outcome, Outcome::Wrong);
        let both = score_of(&[500.0, 2_400.0], &format!("{LOSS} {HOST}"));
        assert_eq!((both.outcome, both.both), (Outcome::Named, Some(true)));
    }

    #[test]
    fn a_healthy_path_may_be_named_by_its_own_delay_or_rate_and_by_nothing_else() {
        let mut case = case_with(&[]);
        let outcome =
            |case: &Case, text: &str| score(case, &Evidence::default(), &answer(text)).outcome;
        case.healthy = Some(Healthy::LongPath);
        let distance = "The network's round trip costs 120 ms of the 121 ms of an echo.";
        assert_eq!(outcome(&case, distance), Outcome::Limit);
        assert_eq!(outcome(&case, HOST), Outcome::Accused);
        assert_eq!(outcome(&case, "Nothing stands out."), Outcome::Quiet);
        case.healthy = Some(Healthy::ShortPath);
        assert_eq!(outcome(&case, distance), Outcome::Accused);
        let line = "The line costs 1.30 s of the 1.34 s of the transfer: at 25,863,666 bit/s.";
        case.path.rate_kbps = Some(26_000);
        assert_eq!(outcome(&case, line), Outcome::Limit);
        case.path.rate_kbps = None;
        assert_eq!(outcome(&case, line), Outcome::Accused);
    }

    #[test]
    fn a_predicted_gain_is_compared_in_its_own_waiting_time() {
        let case = case_with(&[Kind::Loss]);
        let record = serde_json::json!({
            "verdict": LOSS,
            "causes": [{ "sentence": LOSS, "whole": "the transfer", "gain_ns": 2_000_000_000_u64 }],
        });
        let answer = Answer::read(&record.to_string(), "", Some(0));
        let gains = score(&case, &evidence(2_300.0, &[200.0]), &answer).gains;
        let expected = Gain {
            kind: Kind::Loss,
            user_wait: UserWait::Transfer,
            predicted_ms: 2_000.0,
            measured_ms: 2_100.0,
            reported_run_ms: None,
        };
        assert_eq!(gains, [expected]);
    }

    #[test]
    fn the_gain_of_a_random_cause_is_that_of_the_described_run() {
        let gain_of = |kind| {
            let case = case_with(&[kind]);
            let record = serde_json::json!({
                "verdict": LOSS,
                "causes": [{
                    "sentence": LOSS, "whole": "the transfer",
                    "gain_ns": 2_000_000_000_u64, "whole_ns": 2_300_000_000_u64,
                }],
            });
            let answer = Answer::read(&record.to_string(), "", Some(0));
            score(&case, &evidence(3_300.0, &[200.0]), &answer).gains[0]
        };
        let gain = gain_of(Kind::Loss);
        assert_eq!((gain.measured_ms, gain.reported_run_ms), (3_100.0, Some(2_100.0)));
    }

    #[test]
    fn an_unfinished_run_has_no_gain_to_compare() {
        let case = case_with(&[Kind::Loss]);
        let record = serde_json::json!({
            "verdict": LOSS,
            "causes": [{ "sentence": LOSS, "whole": "the transfer", "gain_ns": 8_000_000_000_u64 }],
        });
        let answer = Answer::read(&record.to_string(), "", Some(1));
        let mut evidence = evidence(15_000.0, &[200.0]);
        evidence.with.times.insert(UserWait::Transfer, Time { ms: 15_000.0, timed_out: true });
        assert_eq!(score(&case, &evidence, &answer).gains, []);
    }

    #[test]
    fn shares_are_compared_if_the_client_sends_other_commands() {
        let mut case = case_with(&[Kind::Distance]);
        case.service = super::super::service::Service::FtpGet;
        let transfer_truth = |ms: f64| truth(UserWait::Login, ms);
        let evidence = Evidence {
            with: transfer_truth(640.0),
            without: vec![transfer_truth(13.0)],
            relay_late_ms: 0.0,
        };
        let sentence =
            "The round-trip time of the path costs 852 ms of the 871 ms of connection set-up.";
        let record = serde_json::json!({
            "verdict": sentence,
            "causes": [{
                "sentence": sentence, "whole": "connection set-up",
                "gain_ns": 852_000_000_u64, "whole_ns": 871_000_000_u64,
            }],
        });
        let answer = Answer::read(&record.to_string(), "", Some(0));
        let gains = score(&case, &evidence, &answer).gains;
        assert_eq!(gains.len(), 1);
        assert!((gains[0].predicted_ms - 626.0).abs() < 1.0, "{gains:?}");
    }
}
