//! Snapshots of the tables of each paper.

use crate::comparison_tables;
use crate::experiment::Experiment;
use crate::paper_scenario::{Paper, Scenario, built_in};
use crate::table::{Extent, Figure, Row, Table};
use std::path::PathBuf;

fn experiment_of(paper: Paper) -> Experiment {
    Scenario::read(paper, built_in(paper)).unwrap().run().unwrap()
}

fn text(paper: Paper, width: usize) -> String {
    comparison_tables::text(&experiment_of(paper), width)
}

/// A reduced experiment, for tests of the format alone.
fn short_experiment(paper: Paper) -> Experiment {
    let scenario = built_in(paper)
        .replace("keys = 1000", "keys = 10")
        .replace("transfer_s = 600", "transfer_s = 60")
        .replace("trials = 100", "trials = 2")
        .replace("minutes = 600", "minutes = 30");
    Scenario::read(paper, &scenario).unwrap().run().unwrap()
}

/// Beginning of the fenced block at the end of an experiment's page. The block contains the output
/// at 100 columns.
const FENCE: &str = "```text\n";
const FENCE_ENDS: &str = "```\n";

/// Compares the page of an experiment with its output, figure by figure.
///
/// With `PLUMB_LAB_PAGES=write` the page is rewritten, for review and commit.
fn compare_with_page(paper: Paper, name: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/");
    let path = PathBuf::from(path).join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let (introduction, printed) = page.split_once(FENCE).unwrap();
    let ours = text(paper, 100);
    if std::env::var_os("PLUMB_LAB_PAGES").is_some_and(|value| value == "write") {
        std::fs::write(path, format!("{introduction}{FENCE}{ours}{FENCE_ENDS}")).unwrap();
        return;
    }
    let printed = printed.strip_suffix(FENCE_ENDS).unwrap();
    for (ours, printed) in ours.lines().zip(printed.lines()) {
        assert_eq!(ours, printed, "docs/lab/{name}: see PLUMB_LAB_PAGES in CONTRIBUTING.md");
    }
    assert_eq!(ours.lines().count(), printed.lines().count(), "docs/lab/{name}");
}

#[test]
fn the_page_of_tm233_contains_the_computed_tables() {
    compare_with_page(Paper::Tm233, "tm233.md");
}

#[test]
fn the_page_of_rfc_594_contains_the_computed_tables() {
    compare_with_page(Paper::Rfc594, "rfc594.md");
}

#[test]
fn the_page_of_rfc_573_contains_the_computed_tables() {
    compare_with_page(Paper::Rfc573, "rfc573.md");
}

#[test]
fn the_page_of_multics_contains_the_computed_tables() {
    compare_with_page(Paper::Multics, "multics.md");
}

#[test]
fn the_tables_fit_into_forty_columns() {
    for paper in [Paper::Tm233, Paper::Rfc573, Paper::Rfc594, Paper::Multics] {
        let text = comparison_tables::text(&short_experiment(paper), 40);
        let max_width = text.lines().map(|line| line.chars().count()).max();
        assert!(max_width.is_some_and(|max_width| max_width <= 40), "{text}");
    }
}

/// Returns an experiment with a row of each origin and figures of each kind.
fn experiment_of_every_kind() -> Experiment {
    let rows = vec![
        Row::input("given", 2.0, 1).measured(2.5),
        Row::fit("chosen", 3.0, 1).measured(2.0).predicted(Figure::derived(2.4)),
        Row::output("computed", 4.0, 1).measured(Extent::Between(1.0, 2.0)),
        Row::output("permitted", 4.0, 1).measured(Extent::MoreThan(3.0)),
        Row::output("missed", 4.0, 1).measured(Extent::MoreThan(4.0)),
        Row::output("rounded", 4.0, 1).measured(Extent::About(3.0)),
    ];
    let table = Table { number: "1", title: "rows", unit: "s", rows, why: "" };
    let tables = vec![table];
    let pictures = Vec::new();
    Experiment { scenario: "tm233", source: "memo", introduction: "Rows.", tables, pictures }
}

#[test]
fn every_row_is_marked_and_an_input_has_no_difference() {
    let text = comparison_tables::text(&experiment_of_every_kind(), 100);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let row = |name: &str| -> Vec<&str> {
        let line = lines.iter().find(|line| line[0] == name).unwrap();
        line.iter().copied().filter(|cell| !cell.is_empty()).collect()
    };
    assert_eq!(row("given"), ["given", "input", "2.0", "-", "-", "2.5", "-"]);
    assert_eq!(row("chosen"), ["chosen", "fit", "3.0", "2.4 c", "+25.0 %", "2.0", "+50.0 %"]);
    assert_eq!(row("computed"), ["computed", "output", "4.0", "-", "-", "1.0 to 2.0", "+100 %"]);
    assert_eq!(row("permitted"), ["permitted", "output", "4.0", "-", "-", "> 3.0", "agrees"]);
    assert_eq!(row("missed"), ["missed", "output", "4.0", "-", "-", "> 4.0", "0 %"]);
    assert_eq!(row("rounded"), ["rounded", "output", "4.0", "-", "-", "about 3.0", "+33 %"]);
    assert!(text.contains("memo measured"), "{text}");
}

#[test]
fn the_counts_of_inputs_fits_and_outputs_come_before_the_first_table() {
    let text = comparison_tables::text(&experiment_of_every_kind(), 1_000);
    let (head, _) = text.split_once("Table 1").unwrap();
    let counts = "The tables have 6 rows: 1 input, 1 fit, 4 output. 4 outputs are compared with a \
                  figure of the paper. The median of their differences is 33.3 %.";
    assert!(head.contains(counts), "{head}");
}

#[test]
fn json_marks_every_row_and_counts_them() {
    let json: serde_json::Value =
        serde_json::from_str(&comparison_tables::json(&experiment_of_every_kind(), None)).unwrap();
    assert_eq!(json["census"]["rows"], serde_json::json!({"input": 1, "fit": 1, "output": 4}));
    assert_eq!(json["census"]["outputs_compared"], 4);
    let rows = json["tables"][0]["rows"].as_array().unwrap();
    let origins: Vec<_> = rows.iter().map(|row| row["origin"].as_str().unwrap()).collect();
    assert_eq!(origins, ["input", "fit", "output", "output", "output", "output"]);
    assert!(rows[0]["ours_to_measured"].is_null(), "{json}");
    assert_eq!(rows[1]["ours_to_measured"], 0.5);
    assert_eq!(rows[1]["predicted"]["is_derived"], true);
    let range = &rows[2]["measured"];
    assert_eq!((&range["least"], &range["most"]), (&1.0.into(), &2.0.into()));
    assert!(rows[3]["measured"]["most"].is_null(), "{json}");
    assert_eq!(rows[5]["measured"]["is_about"], true);
}

fn rejection_message(paper: Paper, text: &str) -> String {
    Scenario::read(paper, text).unwrap_err().to_string()
}

#[test]
fn an_unknown_key_in_a_scenario_is_rejected_with_its_line() {
    let text = format!("\nwindows = 3\n{}", built_in(Paper::Tm233));
    let error = rejection_message(Paper::Tm233, &text);
    assert!(error.starts_with("line 2: unknown field `windows`"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_scenario_without_a_host_of_the_transfers_is_rejected() {
    let text = built_in(Paper::Rfc573).replace("name = \"usc-isi\"", "name = \"harvard\"");
    assert!(rejection_message(Paper::Rfc573, &text).contains("usc-isi"));
}

#[test]
fn a_stratum_too_small_for_the_listed_transfers_is_rejected_with_its_key() {
    let text = built_in(Paper::Rfc573).replace("cpu_ms = 91_000", "cpu_ms = 0");
    let why = rejection_message(Paper::Rfc573, &text);
    assert_eq!(why, "strata.user_receives_image.cpu_ms is 0 and may be 8221 to 10000000");
    let text = built_in(Paper::Rfc573).replace("[strata.user_sends_ascii]", "[strata.user_mails]");
    let why = rejection_message(Paper::Rfc573, &text);
    assert!(why.contains("unknown field `user_mails`"), "{why}");
}

#[test]
fn a_number_with_a_unit_is_rejected_with_its_line() {
    let text = built_in(Paper::Rfc594).replace("cable_feet = 342", "cable_feet = \"342 ft\"");
    let why = rejection_message(Paper::Rfc594, &text);
    assert!(why.starts_with("line 6: invalid type"), "{why}");
}

#[test]
fn a_scenario_that_would_not_terminate_is_rejected_with_the_valid_range() {
    let text = built_in(Paper::Multics).replace("think_s = 1700", "think_s = 0");
    assert_eq!(rejection_message(Paper::Multics, &text), "think_s is 0 and may be 10 to 100000");
}

#[test]
fn a_multics_scenario_keeps_the_daemon_by_default() {
    let text = built_in(Paper::Multics).replace("daemon_elimination = false\n", "");
    assert!(!text.contains("daemon_elimination"));
    let Scenario::Multics(scenario) = Scenario::read(Paper::Multics, &text).unwrap() else {
        panic!("another scenario")
    };
    assert!(!scenario.switches.daemon_elimination);
}

/// Returns copies of the scenario, each with one integer replaced by 0 or by 10^18.
fn extremes(scenario: &str) -> Vec<String> {
    let lines: Vec<&str> = scenario.lines().collect();
    let is_whole = |line: &&str| {
        let value = line.split_once(" = ").map(|(_, value)| value.replace('_', ""));
        value.is_some_and(|value| value.parse::<u64>().is_ok()) && !line.starts_with("seed")
    };
    let places = (0..lines.len()).filter(|at| is_whole(&lines[*at]));
    places
        .flat_map(|at| ["0", "1000000000000000000"].map(|value| (at, value)))
        .map(|(at, value)| {
            let mut changed: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            let (key, _) = lines[at].split_once(" = ").unwrap();
            changed[at] = format!("{key} = {value}");
            changed.join("\n")
        })
        .collect()
}

#[test]
fn extreme_values_do_not_make_the_quick_scenarios_fail() {
    for paper in [Paper::Rfc594, Paper::Multics] {
        let text = built_in(paper).replace("minutes = 600", "minutes = 30");
        for text in extremes(&text) {
            if let Ok(scenario) = Scenario::read(paper, &text) {
                scenario.run().unwrap();
            }
        }
    }
}
