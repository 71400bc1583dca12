//! Tables and figures that compare TM-233 §6.2 and §6.3 with the simulation and explain the
//! differences, and tables of the effects of plumbline's features.

mod added;
mod comet;
mod compressed_headers;
pub(super) mod congestion;
mod figure_6_1;
mod figure_6_2;
mod figure_6_3;
mod line_speeds;
mod lock_step;
mod perfect_interface;
mod table_6_1;
mod table_6_2;
mod table_6_3;
mod table_6_4;
mod table_6_5;
mod table_6_6;
mod table_6_7;
mod table_6_8;
mod two_hosts;
mod windows;

pub use table_6_8::data_table;

use super::scenario::Scenario;
use crate::picture::Picture;
use crate::table::Table;
use simulator::Stuck;

/// Results of all experiments.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    /// The tables, in the order of the thesis.
    pub tables: Vec<Table>,
    /// Figures 6-1 to 6-3.
    pub pictures: Vec<Picture>,
}

/// Runs all experiments.
///
/// # Errors
///
/// Returns an error if no event is left before the end of a run.
pub(crate) fn results(scenario: &Scenario) -> Result<Results, Stuck> {
    let (figure_6_1, transfer_times) = figure_6_1::table(scenario)?;
    let (figure_6_2, echoes) = figure_6_2::table(scenario)?;
    let (figure_6_3, screenfuls) = figure_6_3::table(scenario)?;
    let tables = vec![
        figure_6_1,
        table_6_1::table(scenario)?,
        table_6_2::table(scenario)?,
        lock_step::table(scenario)?,
        table_6_3::table(scenario)?,
        perfect_interface::table(scenario)?,
        line_speeds::table(scenario),
        table_6_4::table(scenario)?,
        compressed_headers::table(scenario)?,
        table_6_5::table(scenario)?,
        windows::table(scenario)?,
        figure_6_2,
        figure_6_3,
        table_6_6::table(scenario)?,
        table_6_7::table(scenario)?,
        comet::table(scenario)?,
        table_6_8::table(),
        added::table(scenario)?,
        two_hosts::table(scenario)?,
        congestion::table(scenario)?,
        congestion::faulty_table(scenario)?,
    ];
    Ok(Results { tables, pictures: vec![transfer_times, echoes, screenfuls] })
}

#[cfg(test)]
mod tests {
    use crate::table::{Figure, Row};

    /// Asserts that the row's value differs from the thesis's value by at most `limit`.
    pub(super) fn assert_within(figure: Option<Figure>, limit: f64, row: &Row) {
        let share = figure.expect("the thesis has this figure").difference(row.ours);
        let share = share.expect("the figure is not zero");
        assert!(share.abs() <= limit, "{row:?} is off by {:.2} %", share * 100.0);
    }
}
