//! The tables of each paper, as snapshots.

use super::scenario::{Scenario, built_in};
use super::*;

fn experiment_of(paper: Paper) -> Experiment {
    Scenario::read(paper, built_in(paper)).unwrap().run().unwrap()
}

fn text(paper: Paper, width: usize) -> String {
    tables::text(&experiment_of(paper), width)
}

/// The experiment with less of everything, for who looks at its form alone.
fn short(paper: Paper) -> Experiment {
    let scenario = built_in(paper)
        .replace("keys = 1000", "keys = 10")
        .replace("transfer_s = 600", "transfer_s = 60")
        .replace("trials = 100", "trials = 2")
        .replace("minutes = 600", "minutes = 30");
    Scenario::read(paper, &scenario).unwrap().run().unwrap()
}

#[test]
fn the_tables_of_the_thesis_come_out_of_our_own_engines() {
    insta::assert_snapshot!(text(Paper::Tm233, 100));
}

#[test]
fn the_table_of_rfc_594_comes_out_of_cables_an_imp_and_two_processors() {
    insta::assert_snapshot!(text(Paper::Rfc594, 100));
}

#[test]
fn table_i_comes_out_of_a_year_of_hosts_and_table_ii_out_of_our_records() {
    insta::assert_snapshot!(text(Paper::Rfc573, 100));
}

#[test]
fn what_the_memo_proposes_saves_what_the_model_says() {
    insta::assert_snapshot!(text(Paper::Multics, 100));
}

#[test]
fn the_tables_fit_into_forty_columns() {
    for paper in [Paper::Tm233, Paper::Rfc573, Paper::Rfc594, Paper::Multics] {
        let text = tables::text(&short(paper), 40);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 40), "{text}");
    }
}

#[test]
fn a_scenario_with_a_word_that_it_does_not_know_is_refused() {
    let text = format!("windows = 3\n{}", built_in(Paper::Tm233));
    assert!(Scenario::read(Paper::Tm233, &text).is_err());
}
