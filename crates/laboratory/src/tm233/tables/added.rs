//! Table of the time that additional features of plumbline would save on the computers of 1982.

use super::super::experiments::{WINDOW, echo_with, maximum_transfer_with, screenful_with};
use super::super::foreign::Additions;
use super::super::scenario::Scenario;
use super::figure_6_3;
use crate::table::{Row, Table};
use simulator::Stuck;

const NONE: Additions = Additions { compressed_headers: false, sack: false, early_answers: false };
const ALL: Additions = Additions { compressed_headers: true, sack: true, early_answers: true };
const VARIANTS: [(&str, Additions); 5] = [
    ("1982", NONE),
    ("short headers", Additions { compressed_headers: true, ..NONE }),
    ("SACK", Additions { sack: true, ..NONE }),
    ("early acks", Additions { early_answers: true, ..NONE }),
    ("all three", ALL),
];

/// Returns the results of four tests, each without the features and with each feature in turn.
pub(super) fn table(scenario: &Scenario) -> Result<Table, Stuck> {
    let mut rows = Vec::new();
    for (what, measure, is_lossy) in [
        ("echo", echo as Measure, false),
        ("screenful", screenful, false),
        ("1,000 bytes of a long transfer", transfer, false),
        ("screenful from CSR", from_csr, true),
    ] {
        let mut before = None;
        for (name, additions) in VARIANTS {
            // Without losses, selective acknowledgments have no effect.
            if additions.sack && !additions.compressed_headers && !is_lossy {
                continue;
            }
            let time = measure(scenario, additions)?;
            let before = *before.get_or_insert(time);
            let saved = (1.0 - time / before) * 1000.0;
            let what = match name {
                "1982" => format!("{what}, {name}"),
                _ => format!("{what}, {name}, saves {saved:.0} ms/s"),
            };
            rows.push(Row::output(what, time, 3));
        }
    }
    Ok(Table {
        number: "F",
        title: "echo, screenful and transfer with the additions of plumbline, 9,600 bit/s",
        unit: "s",
        rows,
        why: "The thesis has none of these additions. The savings are in ms per second of the \
              original time. Short headers (RFC 1144) help with keys. They do not help with a \
              screenful: 91 % of it is data, and its time is that of the screen. Early \
              acknowledgments help with more than a window of data; within one window each of them \
              costs its own time and saves nothing. SACK, which also enables RACK-TLP, helps with \
              packets that the concentrator drops: missing data is retransmitted before a timeout, \
              if later data has arrived or a probe is answered. Together with early acknowledgments \
              SACK saves less, because a packet is printed before the next one is processed, and \
              the missing data is reported later.",
    })
}

type Measure = fn(&Scenario, Additions) -> Result<f64, Stuck>;

fn echo(scenario: &Scenario, additions: Additions) -> Result<f64, Stuck> {
    let equipment = additions.equip(scenario.equipment());
    Ok(echo_with(equipment, scenario.rate_bps, scenario.keys)?.time.as_secs_f64())
}

fn screenful(scenario: &Scenario, additions: Additions) -> Result<f64, Stuck> {
    let equipment = additions.equip(scenario.equipment());
    let result = screenful_with(equipment, scenario.rate_bps, WINDOW, scenario.seed)?;
    Ok(result.first_to_last.as_secs_f64())
}

fn transfer(scenario: &Scenario, additions: Additions) -> Result<f64, Stuck> {
    let equipment = additions.equip(scenario.equipment());
    let time = scenario.transfer_time();
    let transfer = maximum_transfer_with(equipment, scenario.rate_bps, time)?;
    Ok(time.as_secs_f64() * 1000.0 / transfer.data_bytes.max(1) as f64)
}

fn from_csr(scenario: &Scenario, additions: Additions) -> Result<f64, Stuck> {
    let result = figure_6_3::trials(scenario, scenario.rate_bps, additions)?;
    let total: f64 = result.iter().map(|result| result.time.as_secs_f64()).sum();
    Ok(total / result.len().max(1) as f64)
}
