//! Table I for a year and for its week, and what neither shows.

use super::host::{Host, days};
use super::scenario::{Rates, Scenario};
use super::survey::{Answer, Line, days_of, line, survey};
use crate::table::{Row, Table};
use protocols::chance::Chance;

/// A host of table I in its year.
struct Surveyed<'a> {
    rates: &'a Rates,
    host: Host,
    answers: Vec<Answer>,
}

/// Returns the tables of the survey.
#[must_use]
pub fn tables(scenario: &Scenario) -> Vec<Table> {
    let mut chance = Chance::from_seed(scenario.seed);
    let hosts: Vec<Surveyed<'_>> = scenario
        .hosts
        .iter()
        .map(|rates| {
            let host = Host::new(rates, scenario, &mut chance);
            let answers = survey(&host, scenario, &mut chance);
            Surveyed { rates, host, answers }
        })
        .collect();
    vec![
        year(&hosts, scenario),
        week(&hosts, scenario),
        weeks(&hosts, scenario),
        unseen(&hosts, scenario),
        crowd(scenario, &mut chance),
    ]
}

fn row(what: String, measured: Option<f64>, ours: f64, digits: usize) -> Row {
    Row { what, predicted: None, measured, ours, digits }
}

/// Adds the five figures of a host. A week may have no failure; then the row is left out.
fn five(rows: &mut Vec<Row>, rates: &Rates, line: &Line) {
    let figures = [
        ("response, s", rates.response_s, line.response_s, 1),
        ("host available, %", rates.host_availability, Some(line.host_availability), 0),
        ("logger available, %", rates.logger_availability, Some(line.logger_availability), 0),
        ("hours to host failure", rates.host_failure_hours, line.host_failure_hours, 1),
        ("hours to logger failure", rates.logger_failure_hours, line.logger_failure_hours, 1),
    ];
    for (what, theirs, ours, digits) in figures {
        if let Some(ours) = ours {
            rows.push(row(format!("{}, {what}", rates.name), Some(theirs), ours, digits));
        }
    }
}

fn year(hosts: &[Surveyed<'_>], scenario: &Scenario) -> Table {
    let mut rows = Vec::new();
    for host in hosts {
        five(&mut rows, host.rates, &line(&host.answers, scenario));
    }
    Table {
        number: "I, a year",
        title: "the survey of a generated year",
        unit: "as named",
        rows,
        why: "The hosts fail as often and for as long as table I says. The survey then finds them \
              somewhat better: between two tries, twenty minutes apart, a short failure comes and \
              goes. A failure is counted where a try fails after one that did not; if every failed \
              try counted, the paper's 93 % would be one in 4.8 hours and not in 18.2.",
    }
}

fn week(hosts: &[Surveyed<'_>], scenario: &Scenario) -> Table {
    let mut rows = Vec::new();
    let (first, count) = (scenario.week_begins_day, scenario.week_days);
    for host in hosts {
        let answers = days_of(&host.answers, scenario, first, count);
        five(&mut rows, host.rates, &line(answers, scenario));
    }
    Table {
        number: "I, its week",
        title: "the survey of 25 to 31 August alone",
        unit: "as named",
        rows,
        why: "A week has 504 tries of a host and some ten failures: chance alone makes it differ \
              from its year by this much. The paper's week is one of 52 (see the next table). Its \
              text says 26 to 31 August, its table 25 to 31.",
    }
}

fn weeks(hosts: &[Surveyed<'_>], scenario: &Scenario) -> Table {
    let mut rows = Vec::new();
    for host in hosts {
        let mut all: Vec<f64> = (0..scenario.days / 7)
            .map(|week| {
                let answers = days_of(&host.answers, scenario, week * 7, 7);
                line(answers, scenario).logger_availability
            })
            .collect();
        all.sort_by(f64::total_cmp);
        let part = |of: usize| all.get(all.len().saturating_sub(1) * of / 10).copied();
        for (what, of) in [("tenth lowest", 1), ("median", 5), ("tenth highest", 9)] {
            let measured = (of == 5).then_some(host.rates.logger_availability);
            let what = format!("{}, {what}", host.rates.name);
            rows.push(row(what, measured, part(of).unwrap_or(f64::NAN), 0));
        }
    }
    Table {
        number: "I, its weeks",
        title: "availability of the logger in the weeks of one year",
        unit: "%",
        rows,
        why: "The hosts are the same all year. Where the weeks of two of them overlap, one week of \
              measurement does not say which is the better one.",
    }
}

fn unseen(hosts: &[Surveyed<'_>], scenario: &Scenario) -> Table {
    let year_s = days(scenario.days).as_secs_f64();
    let mut rows = Vec::new();
    for Surveyed { rates, host, answers } in hosts {
        let seen = line(answers, scenario);
        let name = &rates.name;
        let hours = year_s / 3_600.0;
        let count_seen = seen.logger_failure_hours.map_or(0.0, |between| hours / between);
        let count = host.shut.count() as f64;
        let available = 100.0 * (1.0 - host.shut.total().as_secs_f64() / year_s);
        rows.push(row(format!("{name}, failures in truth"), None, count, 0));
        rows.push(row(format!("{name}, failures seen"), None, count_seen, 0));
        rows.push(row(format!("{name}, available in truth, %"), None, available, 1));
        rows.push(row(format!("{name}, as seen, %"), None, seen.logger_availability, 1));
    }
    Table {
        number: "I, in truth",
        title: "what a try every twenty minutes does not see",
        unit: "as named",
        rows,
        why: "Availability is seen as it is: a try at any moment finds the host up with that \
              chance. Failures are not: those that come and go between two tries are missed, and \
              two between which the host was up for less than twenty minutes are seen as one.",
    }
}

fn crowd(scenario: &Scenario, chance: &mut Chance) -> Table {
    let crowd = scenario.crowd;
    let mut lines = Vec::new();
    for _ in 0..crowd.hosts {
        // Between 1/spread and spread times the average, both as likely.
        let factor = crowd.spread.max(1.0).powf(chance.below(2_001) as f64 / 1_000.0 - 1.0);
        let rates = Rates {
            name: String::new(),
            response_s: crowd.response_s,
            host_availability: crowd.availability,
            logger_availability: crowd.availability,
            host_failure_hours: crowd.failure_hours * factor,
            logger_failure_hours: crowd.failure_hours * factor,
        };
        let host = Host::new(&rates, scenario, chance);
        lines.push(line(&survey(&host, scenario, chance), scenario));
    }
    let count = lines.len().max(1) as f64;
    let mean = |of: fn(&Line) -> f64| lines.iter().map(of).sum::<f64>() / count;
    let failures_an_hour = mean(|line| line.logger_failure_hours.map_or(0.0, f64::recip));
    Table {
        number: "I, all hosts",
        title: "all hosts of the survey",
        unit: "as named",
        rows: vec![
            row(
                String::from("average response, s"),
                Some(crowd.response_s),
                mean(|line| line.response_s.unwrap_or(0.0)),
                1,
            ),
            row(
                String::from("average availability, %"),
                Some(crowd.availability),
                mean(|line| line.logger_availability),
                0,
            ),
            row(
                String::from("hours between failures"),
                Some(crowd.failure_hours),
                failures_an_hour.recip(),
                1,
            ),
        ],
        why: "The paper gives \"about 2.7 seconds\", \"about 85 %\" and \"about once every 10 \
              hours\" for all its hosts. How much they differ from each other it does not say: \
              ours fail up to three times as often or as rarely.",
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn a_year_of_the_survey_finds_the_availability_that_the_hosts_have() {
        for row in &tables(&built_in())[0].rows {
            if row.what.contains('%') || row.what.contains("response") {
                assert!(row.from_measured().unwrap().abs() < 0.04, "{row:?}");
            }
        }
    }

    #[test]
    fn some_failures_come_and_go_between_two_tries() {
        for four in tables(&built_in())[3].rows.chunks(4) {
            assert!(four[1].ours < four[0].ours && four[1].ours > four[0].ours * 0.6, "{four:?}");
            assert!((four[2].ours - four[3].ours).abs() < 1.0, "{four:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_year() {
        assert_eq!(tables(&built_in()), tables(&built_in()));
    }
}
