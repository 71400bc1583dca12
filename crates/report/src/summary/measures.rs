//! The six measures of RFC 573, and the tries from which they are computed, as tables.

use crate::table::Table;
use records::format::{UNKNOWN, count, duration, duration_or_unknown, rate_or_unknown};
use records::measurement::Measurement;
use records::measures::{Attempt, AttemptOutcome, Measures};

/// Maximum number of tries displayed; if there are more, only failed ones are displayed.
const TRIES_MAX: usize = 20;

/// Texts that name the data from which the rates and the CPU time were measured.
struct DataTexts {
    peak: String,
    average: String,
    cpu: &'static str,
}

/// Returns the texts for file transfers, or for the screenful and keystrokes of a login.
fn data_texts(measured: &Measurement) -> DataTexts {
    if measured.transfers.is_some() {
        return DataTexts {
            peak: "the fastest transfer".to_owned(),
            average: "all transfers together".to_owned(),
            cpu: "this program, all transfers together",
        };
    }
    let mut rate = "one screenful, from the request to its end".to_owned();
    if let Some(bps) = measured.refuted_line_bps {
        rate += &format!("; the line does not run at {} bit/s", count(bps));
    }
    let cpu = "this program, for keys typed one at a time, without the screenful";
    DataTexts { peak: rate.clone(), average: rate, cpu }
}

/// Returns the six measures, one per row.
pub(super) fn measures(measures: &Measures, measured: &Measurement) -> Table {
    let mut table = Table::new().text("measure").number("value").text("of");
    let texts = data_texts(measured);
    table.row(["rate, peak", &rate_or_unknown(measures.rate_peak_bps), &texts.peak]);
    table.row(["rate, average", &rate_or_unknown(measures.rate_average_bps), &texts.average]);
    let response = duration_or_unknown(measures.response_ns);
    table.row(["response", &response, "median time until the target is usable"]);
    let cpu = duration_or_unknown(measures.cpu_ns_per_megabit);
    table.row(["CPU per megabit", &cpu, texts.cpu]);
    let word = if measures.tries == 1 { "try" } else { "tries" };
    let all = count(measures.tries);
    let failed_tries = count(measures.tries_failed);
    let missed = match measures.tries_missed {
        0 => String::new(),
        missed => format!(", {} not made in time", count(missed)),
    };
    let tries = format!("{all} {word}, {failed_tries} failed{missed}");
    let failure_interval = match (measures.between_failures_ns, measures.tries) {
        (Some(ns), _) => duration(ns),
        (None, 0) => UNKNOWN.to_owned(),
        (None, _) => "none".to_owned(),
    };
    table.row(["between failures to connect", &failure_interval, &tries]);
    let availability = measures.availability.map_or_else(
        || UNKNOWN.to_owned(),
        |available| {
            // 99.99 % must not be displayed as 100 %.
            let rounded = format!("{:.1} %", available * 100.0);
            if available < 1.0 && rounded == "100.0 %" { "> 99.9 %".to_owned() } else { rounded }
        },
    );
    table.row(["availability", &availability, &tries]);
    // Without --pattern, the accuracy was not measured.
    for (unit, all, wrong) in measures.accuracy.iter().flat_map(|accuracy| accuracy.units()) {
        let errors = if wrong == 0 { "none".to_owned() } else { share(wrong, all) };
        let of = format!("{} of {} {unit} wrong", count(wrong), count(all));
        table.row([&format!("error rate, {unit}"), &errors, &of]);
    }
    table
}

/// Returns the tries; if there are too many, only those that failed.
pub(super) fn tries(tries: &[Attempt]) -> Table {
    let mut table = Table::new().number("after").text("try").number("response").text("why");
    let is_shown = |one: &&Attempt| tries.len() <= TRIES_MAX || one.outcome != AttemptOutcome::Ok;
    for one in tries.iter().filter(is_shown).take(TRIES_MAX) {
        let reason = one.error.as_deref().unwrap_or_default();
        let response = duration_or_unknown(one.response_ns);
        table.row([&duration(one.at_ns), one.outcome.text(), &response, reason]);
    }
    table
}

/// Returns a ratio as percent, or in scientific notation below 0.1 %.
fn share(part: u64, all: u64) -> String {
    let share = part as f64 / all.max(1) as f64;
    if share >= 0.001 { format!("{:.2} %", share * 100.0) } else { format!("{share:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::accuracy::Accuracy;

    fn login() -> Measurement {
        Measurement::from_json(include_str!("../../../records/samples/measurement-1.json")).unwrap()
    }

    #[test]
    fn a_login_has_the_rate_of_a_screenful_and_the_cpu_time_of_keys() {
        let table = measures(&Measures::default(), &login());
        let of = |at: usize| table.rows()[at][2].as_str();
        assert_eq!(of(0), "one screenful, from the request to its end");
        assert!(of(3).contains("keys typed one at a time"), "{}", of(3));
    }

    #[test]
    fn a_refuted_line_rate_is_reported_as_refuted() {
        let record = Measurement { refuted_line_bps: Some(9_600), ..login() };
        let table = measures(&Measures::default(), &record);
        assert!(table.rows()[0][2].ends_with("; the line does not run at 9,600 bit/s"));
    }

    #[test]
    fn an_unknown_value_is_not_printed_as_none() {
        let table = measures(&Measures::default(), &login());
        assert!(table.rows().iter().all(|row| row[1] == UNKNOWN), "{table:?}");
        assert_eq!(table.rows().len(), 6, "the accuracy, which was not measured, has no row");
    }

    #[test]
    fn errors_are_reported_by_bits_bytes_blocks_and_files() {
        let accuracy = Accuracy {
            bits: 8_000_000,
            bits_wrong: 1,
            bytes: 1_000_000,
            bytes_wrong: 1,
            blocks: 1_954,
            blocks_wrong: 1,
            files: 4,
            files_wrong: 1,
        };
        let measures_with_errors = Measures { accuracy: Some(accuracy), ..Measures::default() };
        let table = measures(&measures_with_errors, &login());
        let last: Vec<_> = table.rows().iter().rev().take(4).map(|row| row[1].as_str()).collect();
        assert_eq!(last, ["25.00 %", "5.1e-4", "1.0e-6", "1.2e-7"]);
    }
}
