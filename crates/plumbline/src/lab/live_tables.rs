//! The live tables of TM-233, in a network namespace of this process.

use crate::exit;
use crate::measure::status_display;
use anyhow::anyhow;
use laboratory::paper_scenario::{Paper, Scenario};
use laboratory::table::Table;
use laboratory::tm233::live;
use measure::ProgressLine;
use os::namespace::enter_new_network;
use records::severity::Severity;
use std::fs;
use std::path::Path;

/// Returns the live tables of a scenario that was read before, with the gateway of `program`. If they
/// cannot be made, prints the reason.
pub(super) fn tables(scenario: &str, program: &Path) -> Vec<Table> {
    let Ok(Scenario::Tm233(scenario)) = Scenario::read(Paper::Tm233, scenario) else {
        return Vec::new();
    };
    // The path of the link would name the program of a child in the child.
    let program = fs::read_link(program).unwrap_or_else(|_| program.into());
    let mut progress = ProgressLine::new(status_display());
    let mut report = |experiment: &str| {
        progress.show(experiment);
        progress.paint();
    };
    let tables = enter_new_network()
        .map_err(live::NotRun::Namespace)
        .and_then(|()| live::tables(&scenario, &program, &mut report));
    progress.clear();
    tables.unwrap_or_else(|reason| {
        let sentence = format!("the live tables were not run: {:#}", anyhow!(reason));
        exit::print_diagnostic(Severity::Warning, &sentence);
        Vec::new()
    })
}
