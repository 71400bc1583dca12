//! Table H: two personal computers connected by the concentrator, the set of tests that the thesis
//! could not do (TM-233 §6.1).

use super::super::experiments::{WINDOW, echo_with, screenful_with};
use super::super::routed_experiments::{Peers, TwoHosts};
use super::super::scenario::Scenario;
use crate::table::{Row, Table};
use simulator::Stuck;

/// Echo and screenful between two computers without a concentrator, at 9,600 and 19,200 bit/s
/// (tables 6-6 and 6-7).
const DIRECT: [(u64, f64, f64); 2] = [(9_600, 0.122, 2.82), (19_200, 0.072, 2.83)];

/// Returns the times of an echo and of a screenful at each rate.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for rate_bps in scenario.router.lines_bps.iter().copied() {
        let direct = DIRECT.iter().find(|(rate, ..)| *rate == rate_bps);
        let two_hosts = |peers| TwoHosts { scenario, rate_bps, peers };
        let equipment = scenario.equipment();
        let echo = echo_with(equipment, rate_bps, scenario.router.keys)?.time;
        rows.push(
            Row::output(format!("{rate_bps} bit/s, echo, direct line"), echo.as_secs_f64(), 3)
                .measured_if(direct.map(|(_, echo, _)| *echo)),
        );
        for (peers, name) in PEERS {
            let time = two_hosts(peers).echo()?.as_secs_f64();
            rows.push(Row::output(format!("{rate_bps} bit/s, echo, {name}"), time, 3));
        }
        let screenful = screenful_with(equipment, rate_bps, WINDOW, scenario.seed)?.first_to_last;
        rows.push(
            Row::output(
                format!("{rate_bps} bit/s, screenful, direct line"),
                screenful.as_secs_f64(),
                3,
            )
            .measured_if(direct.map(|(_, _, screenful)| *screenful)),
        );
        for (peers, name) in PEERS {
            let time = two_hosts(peers).screenful()?.as_secs_f64();
            rows.push(Row::output(format!("{rate_bps} bit/s, screenful, {name}"), time, 3));
        }
    }
    Ok(Table {
        number: "H",
        title: "one and two personal computers at plumbline's concentrator (§6.1)",
        unit: "s",
        rows,
        why: "The thesis wanted these tests \"to isolate and identify the performance constraints \
              imposed by the packet concentrator\", which did not support two personal computers. \
              The concentrator here is the router of crates/gateway, with fair queues and limited \
              windows. The fast host and its network take no time. The direct line is that of \
              tables 6-4 and 6-5, with the thesis's measurements of tables 6-6 and 6-7. A second \
              computer costs the first one nothing: each has its own line and its own queue. \
              Between the two computers each packet is transmitted twice, once per line, because \
              the concentrator receives a packet completely before it sends it. This is the whole \
              constraint that it imposes on an echo. A screenful is limited by the processor of \
              the reader and hardly changes.",
    })
}

const PEERS: [(Peers, &str); 3] = [
    (Peers::OneAndFastHost, "fast host"),
    (Peers::TwoAndFastHost, "fast host, both at once"),
    (Peers::EachOther, "to each other"),
];

#[cfg(test)]
mod tests {
    use super::super::super::scenario::tests::built_in;
    use super::*;

    fn rows_of(what: &str) -> Vec<f64> {
        let mut scenario = built_in();
        scenario.router.keys = 20;
        let rows = table(&scenario).unwrap().rows;
        rows.iter().filter(|row| row.what.ends_with(what)).map(|row| row.ours).collect()
    }

    #[test]
    fn a_second_computer_costs_the_first_one_nothing() {
        for test in ["echo", "screenful"] {
            let alone = rows_of(&format!("{test}, fast host"));
            let both = rows_of(&format!("{test}, fast host, both at once"));
            for (alone, both) in alone.iter().zip(&both) {
                assert!((both - alone).abs() < 0.01 * alone, "{test}: {alone} {both}");
            }
            assert_eq!((alone.len(), both.len()), (3, 3));
        }
    }
}
