//! Predictions of a login from its beginning.
//!
//! Short outputs predict the screenful that was requested after them; the echo times during one
//! output predict those during the longer output that followed. Each model uses only earlier
//! observations.

use super::beside::Loaded;
use super::command::SCREENFUL_CELLS;
use super::observed_walk::{self, echoes};
use super::record::{Carrier, Circumstances};
use super::walk::Findings;
use crate::carry::CarrierStatus;
use records::measurement::Phases;
use records::prediction::{self, Forecast, Model, Prediction, What};
use records::verdict::{Arrival, Flow, Observation, Path};

/// Returns the predictions of the walk together with the measured values.
pub(super) fn of_walk(
    findings: &Findings,
    circumstances: &Circumstances,
    phases: &Phases,
) -> Vec<Prediction> {
    let screenful = screenful(&before_screenful(findings, circumstances, phases), findings);
    let echo = echo(&before_sustained(findings, circumstances, phases), findings);
    screenful.into_iter().chain(echo).collect()
}

/// Returns the path as the carrier knew it at that time; a serial line has no additional round-trip
/// time.
fn path(status: Option<&CarrierStatus>, circumstances: &Circumstances) -> Path {
    let mut path = observed_walk::path(status, circumstances);
    if matches!(circumstances.carrier, Carrier::Line(_)) {
        path.min_rtt_ns = Some(0);
    }
    path
}

/// Returns the observation before the screenful was requested. Its transfers are the short outputs
/// in chronological order.
fn before_screenful(
    findings: &Findings,
    circumstances: &Circumstances,
    phases: &Phases,
) -> Observation {
    let pieces = findings.pieces.iter().filter_map(|piece| {
        let elapsed_ns = piece.arrivals.last()?.at_ns;
        Some(Flow { bytes: piece.bytes, elapsed_ns, ..Flow::default() })
    });
    let [status, _] = &findings.status_of_screenful;
    let mut before = Observation {
        transfers: pieces.collect(),
        path: path(status.as_ref(), circumstances),
        ..Observation::default()
    };
    before.steps.connect_ns = phases.connect_ns;
    before
}

/// Predicts the screenful from the observation `before` it.
fn screenful(before: &Observation, findings: &Findings) -> Option<Prediction> {
    let longest = findings.pieces.iter().max_by_key(|piece| piece.cells)?;
    let bytes = (longest.bytes * SCREENFUL_CELLS).checked_div(longest.cells)?;
    let model = Model::of(before)?;
    let foretold_ns = model.flow_ns(bytes);
    let range_ns = model.range_ns(&before.transfers, bytes);
    let forecast = Forecast { what: What::Screenful, bytes, foretold_ns, range_ns };
    let (shown, is_command) = findings.screenful.as_ref()?;
    let measured_ns = shown.watch.arrivals.last()?.at_ns;
    (*is_command && shown.is_whole).then(|| forecast.beside(measured_ns))
}

/// Returns the output that filled the buffers, before the last one.
fn probe(findings: &Findings) -> Option<&Loaded> {
    let longer = findings.sustained.as_ref().and_then(|sustained| sustained.probe.as_ref());
    longer.or(findings.loaded.as_ref())
}

/// Returns the observation before the last output: the output that filled the buffers, and the keys
/// typed during it.
fn before_sustained(
    findings: &Findings,
    circumstances: &Circumstances,
    phases: &Phases,
) -> Observation {
    let mut before = Observation {
        path: path(findings.status_before.as_ref(), circumstances),
        ..Observation::default()
    };
    before.steps.connect_ns = phases.connect_ns;
    let Some(loaded) = probe(findings) else { return before };
    let watch = &loaded.shown.watch;
    let arrivals = watch.arrivals.iter();
    let arrivals: Vec<Arrival> =
        arrivals.map(|one| Arrival { at_ns: one.at_ns, bytes: one.bytes }).collect();
    before.echo_under_load = echoes(&loaded.echoes);
    before.transfers.push(Flow {
        bytes: watch.bytes,
        elapsed_ns: arrivals.last().map_or(0, |last| last.at_ns),
        arrivals,
        ..Flow::default()
    });
    before
}

/// Predicts the echo time during the longer output from the observation `before` it.
fn echo(before: &Observation, findings: &Findings) -> Option<Prediction> {
    let sustained = findings.sustained.as_ref().filter(|sustained| sustained.is_settled)?;
    let (first, then) = (probe(findings)?, &sustained.loaded);
    let screens = u64::from(then.screens);
    let bytes = first.shown.watch.bytes.saturating_mul(screens);
    let bytes = bytes.checked_div(first.screens.into())?;
    let foretold_ns = Model::of(before)?.echo_under_load_ns()?;
    let range_ns = before.echo_under_load.as_ref().and_then(prediction::echo_range_ns);
    let forecast = Forecast { what: What::EchoUnderLoad, bytes, foretold_ns, range_ns };
    Some(forecast.beside(echoes(&then.echoes)?.settled_ns()?))
}
