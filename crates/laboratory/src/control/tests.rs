//! Tests of a short run of the experiments without a TUN, and of its report as text and as JSON.

use super::control_report::MachineDescription;
use super::of_1982;
use super::{
    ControlResults, FULL_RUN, MachineFunctions, MeasurementCounts, control_report, measure,
};
use crate::comparison_tables;
use crate::table::{Extent, Origin};
use net::checksum::Routines;
use net::time::Instant;
use std::cell::Cell;
use std::time::Duration;

const SHORT_RUN: MeasurementCounts = MeasurementCounts { batches: 2, rounds: 1, keys: 20 };

/// A machine whose clocks advance by a microsecond with each reading.
pub(super) const MACHINE: MachineFunctions<'static> = MachineFunctions {
    now: &|| Instant::from_nanos(counter()),
    counter,
    nanos_of: &|ticks| ticks,
    routines: Routines::PORTABLE,
};

fn counter() -> u64 {
    thread_local! {
        static READING_NS: Cell<u64> = const { Cell::new(0) };
    }
    READING_NS.with(|reading| {
        reading.set(reading.get() + 1_000);
        reading.get()
    })
}

/// Runs all experiments except the one over a TUN.
fn findings() -> ControlResults {
    let on_tun = |_: &mut dyn FnMut(&str)| Err("not permitted".to_owned());
    measure(SHORT_RUN, &MACHINE, on_tun, &mut |_| {}).unwrap()
}

fn machine() -> MachineDescription {
    MachineDescription {
        processor: None,
        architecture: "x86_64".to_owned(),
        kernel: "Linux 6.1".to_owned(),
        clock_source: "rdtsc",
        ticks_per_second: 1_000_000_000,
        load: [None, None],
    }
}

#[test]
fn at_the_costs_of_1982_the_control_structure_is_not_noticeable_to_the_user() {
    let rows = of_1982::measure(100).unwrap();
    let echo = |name| {
        let row = rows.iter().find(|row| row.structure.name() == name).unwrap();
        row.on_lines[0].1.echo.as_secs_f64()
    };
    // TM-233 §4.2.4: "this difference would probably not be noticeable to the user".
    let saved_fraction = 1.0 - echo("scheduler, natural order") / echo("tasking");
    assert!((0.001..0.01).contains(&saved_fraction), "{saved_fraction}");
}

#[test]
fn tasking_adds_65_microseconds_per_control_change_and_an_echo_needs_six() {
    let rows = of_1982::measure(100).unwrap();
    let echo_without_line = |name| {
        let row = rows.iter().find(|row| row.structure.name() == name).unwrap();
        row.without_line.echo
    };
    assert_eq!(echo_without_line("ring of procedures"), Duration::from_micros(6 * 70));
    assert_eq!(echo_without_line("tasking"), Duration::from_micros(6 * 135));
    assert_eq!(echo_without_line("tasking, user sends"), Duration::from_micros(4 * 135));
}

#[test]
fn the_report_states_what_was_not_measured_and_the_reason() {
    let findings = findings();
    assert!(
        control_report::text(&findings, &machine(), 100).contains("Not measured: not permitted")
    );
    let json: serde_json::Value =
        serde_json::from_str(&control_report::json(&findings, &machine())).unwrap();
    assert_eq!(json["on_tun"], serde_json::Value::Null);
    assert_eq!(json["on_tun_not_measured"], "not permitted");
    assert_eq!(json["in_one_process"].as_array().map(Vec::len), Some(9));
}

#[test]
fn the_page_contains_the_table_computed_in_virtual_time() {
    let page = include_str!("../../../../docs/lab/control.md");
    let table = of_1982::table(&of_1982::measure(FULL_RUN.keys).unwrap());
    for line in comparison_tables::table_text(&table, "1982", 100).lines() {
        assert!(page.contains(&format!("{line}\n")), "{line}");
    }
}

#[test]
fn prices_of_1982_are_inputs_and_only_tasking_is_compared_with_the_thesis() {
    let rows = of_1982::table(&of_1982::measure(SHORT_RUN.keys).unwrap()).rows;
    let inputs: Vec<_> = rows.iter().filter(|row| row.origin == Origin::Input).collect();
    assert_eq!(inputs.len(), 5);
    for row in inputs {
        assert!(row.what.ends_with(": change of control, µs"), "{row:?}");
        assert!(row.difference_from_measured().is_none(), "{row:?}");
    }
    let compared_rows = rows.iter().filter(|row| row.difference_from_measured().is_some());
    let compared: Vec<_> = compared_rows.map(|row| (row.what.as_str(), row.measured)).collect();
    let figure = |value: f64| Some(Extent::Exactly(value).into());
    let expected = [
        ("tasking: echo at 9600 bit/s, ms", figure(121.9)),
        ("tasking: screenful at 9600 bit/s, ms", figure(2_820.0)),
        ("tasking: echo at 19200 bit/s, ms", figure(71.8)),
        ("tasking: screenful at 19200 bit/s, ms", figure(2_830.0)),
    ];
    assert_eq!(compared, expected);
}

#[test]
fn every_row_of_the_report_is_counted_before_the_first_table() {
    let findings = findings();
    let text = control_report::text(&findings, &machine(), 1_000);
    let (head, _) = text.split_once("Cost of an empty change of control").unwrap();
    // The report has 48 rows: seven figures for each of five structures in virtual time, four kinds
    // of an empty change of control, and nine structures in one process. The inputs are the five
    // costs of the structures in virtual time.
    assert!(
        head.contains("The tables have 48 rows: 5 input, 0 fit, 43 output. 4 outputs"),
        "{head}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&control_report::json(&findings, &machine())).unwrap();
    assert_eq!(json["census"]["rows"], serde_json::json!({"input": 5, "fit": 0, "output": 43}));
    assert_eq!(json["tables"][0]["rows"][0]["origin"], "input");
    for table in ["empty_switch", "in_one_process"] {
        let rows = json[table].as_array().unwrap();
        assert!(rows.iter().all(|row| row["origin"] == "output"), "{rows:?}");
    }
}

#[test]
fn the_report_fits_into_forty_columns() {
    let text = control_report::text(&findings(), &machine(), 40);
    let max_width = text.lines().map(|line| line.chars().count()).max();
    assert!(max_width.is_some_and(|max_width| max_width <= 40), "{text}");
}
