//! A short run, and its report in both forms.

use super::*;

const SHORT: Amount = Amount { batches: 2, rounds: 1, keys: 20 };

/// All but the TUN, which would take the process's network away from other tests.
fn findings() -> Findings {
    let rate = Calibration::start().finish();
    Findings {
        ticks_per_second: rate.ticks_per_second(),
        load: [None, None],
        empty: empty::measure(SHORT.batches, rate).unwrap(),
        of_1982: virtual_time(SHORT.keys).unwrap(),
        in_process: in_process(SHORT.rounds, &mut ProgressLine::default()).unwrap(),
        on_tun: Err("not permitted".to_owned()),
    }
}

#[test]
fn in_1982_the_structure_of_control_is_not_noticed_by_a_person() {
    let rows = virtual_time(100).unwrap();
    let echo = |name| {
        let row = rows.iter().find(|row| row.which.name() == name).unwrap();
        row.on_lines[0].1.echo.as_secs_f64()
    };
    // TM-233 §4.2.4: "this difference would probably not be noticeable to the user".
    let gained = 1.0 - echo("scheduler, natural order") / echo("tasking");
    assert!((0.001..0.01).contains(&gained), "{gained}");
}

#[test]
fn what_tasking_adds_is_sixty_five_microseconds_a_change_and_six_changes_an_echo() {
    let rows = virtual_time(100).unwrap();
    let alone = |name| {
        let row = rows.iter().find(|row| row.which.name() == name).unwrap();
        row.alone.echo
    };
    assert_eq!(alone("ring of procedures"), Duration::from_micros(6 * 70));
    assert_eq!(alone("tasking"), Duration::from_micros(6 * 135));
    assert_eq!(alone("tasking, user sends"), Duration::from_micros(4 * 135));
}

#[test]
fn the_report_says_what_could_not_be_measured_and_why() {
    let findings = findings();
    assert!(report::text(&findings, 100).contains("Not measured: not permitted"));
    let json: serde_json::Value = serde_json::from_str(&report::json(&findings)).unwrap();
    assert_eq!(json["on_tun"], serde_json::Value::Null);
    assert_eq!(json["on_tun_not_measured"], "not permitted");
    assert_eq!(json["in_one_process"].as_array().map(Vec::len), Some(9));
}

#[test]
fn the_page_has_the_figures_that_come_out_in_virtual_time() {
    let page = include_str!("../../../../../docs/lab/control.md");
    for row in report::table_of_1982(&virtual_time(AMOUNT.keys).unwrap()).rows() {
        let row = format!("| {} |\n", row.join(" | "));
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn the_report_fits_into_forty_columns() {
    let text = report::text(&findings(), 40);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 40), "{text}");
}
