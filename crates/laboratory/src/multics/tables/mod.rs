//! Tables that compare the memo's measurements and expectations with the results of the model.

mod allocations;
mod daemon;
mod processes;
mod proposals;

use super::session_scenario::Scenario;
use crate::table::Table;

/// Returns all tables of the scenario.
#[must_use]
pub(crate) fn tables(scenario: &Scenario) -> Vec<Table> {
    vec![
        daemon::table(scenario),
        proposals::transaction(scenario),
        proposals::individual_savings(scenario),
        proposals::cumulative_savings(scenario),
        processes::table(scenario),
        allocations::table(scenario),
    ]
}
