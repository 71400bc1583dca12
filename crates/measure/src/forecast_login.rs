//! Predictions of a login from its beginning.
//!
//! The screenful is predicted from the short outputs before it; the echo times during an output are
//! predicted from those during a shorter output before it. Each model uses only observations that
//! precede the predicted event.

use super::circumstances::{Carrier, Circumstances};
use super::concurrent_echo::EchoUnderLoad;
use super::observed_session::{self, echoes};
use super::screen_output::SCREENFUL_CELLS;
use super::session_results::SessionResults;
use carrier::CarrierStatus;
use records::measurement::Phases;
use records::prediction::{self, Forecast, Model, Prediction, Quantity};
use records::verdict::{Arrival, Flow, Observation, Path};

/// Returns the predictions of the session together with the measured values.
pub(super) fn of_session(
    findings: &SessionResults,
    circumstances: &Circumstances,
    phases: &Phases,
) -> Vec<Prediction> {
    let screenful = screenful(&before_screenful(findings, circumstances, phases), findings);
    let echo = echo(&before_sustained(findings, circumstances, phases), findings);
    screenful.into_iter().chain(echo).collect()
}

/// Returns the path that the carrier's `status` describes. A serial line has no additional
/// round-trip time.
fn path(status: Option<&CarrierStatus>, circumstances: &Circumstances) -> Path {
    let mut path = observed_session::path(status, circumstances);
    if matches!(circumstances.carrier, Carrier::Line(_)) {
        path.min_rtt_ns = Some(0);
    }
    path
}

/// Returns the observation before the screenful was requested. Its transfers are the short outputs
/// in chronological order.
fn before_screenful(
    findings: &SessionResults,
    circumstances: &Circumstances,
    phases: &Phases,
) -> Observation {
    let short_outputs = findings.short_outputs.iter().filter_map(|output| {
        let elapsed_ns = output.arrivals.last()?.at_ns;
        Some(Flow { bytes: output.bytes, elapsed_ns, ..Flow::default() })
    });
    let [status, _] = &findings.status_of_screenful;
    let mut before = Observation {
        transfers: short_outputs.collect(),
        path: path(status.as_ref(), circumstances),
        ..Observation::default()
    };
    before.steps.connect_ns = phases.connect_ns;
    before
}

/// Predicts the screenful from `before`, the observation that precedes it.
fn screenful(before: &Observation, findings: &SessionResults) -> Option<Prediction> {
    let longest_output = findings.short_outputs.iter().max_by_key(|output| output.cells)?;
    let bytes = (longest_output.bytes * SCREENFUL_CELLS).checked_div(longest_output.cells)?;
    let model = Model::of(before)?;
    let predicted_ns = model.flow_ns(bytes);
    let range_ns = model.range_ns(&before.transfers, bytes);
    let forecast = Forecast { quantity: Quantity::Screenful, bytes, predicted_ns, range_ns };
    let (received, is_command) = findings.screenful.as_ref()?;
    let measured_ns = received.watch.arrivals.last()?.at_ns;
    (*is_command && received.is_complete).then(|| forecast.with_measured(measured_ns))
}

/// Returns the output that filled the buffers. The echo times during the last output are predicted
/// from it.
fn probe(findings: &SessionResults) -> Option<&EchoUnderLoad> {
    let long_probe = findings.sustained.as_ref().and_then(|sustained| sustained.probe.as_ref());
    long_probe.or(findings.under_load.as_ref())
}

/// Returns the observation before the last output: the output that filled the buffers, and the echo
/// times of the keys typed during it.
fn before_sustained(
    findings: &SessionResults,
    circumstances: &Circumstances,
    phases: &Phases,
) -> Observation {
    let mut before = Observation {
        path: path(findings.status_before.as_ref(), circumstances),
        ..Observation::default()
    };
    before.steps.connect_ns = phases.connect_ns;
    let Some(under_load) = probe(findings) else { return before };
    let watch = &under_load.received.watch;
    let arrivals = watch.arrivals.iter();
    let arrivals: Vec<Arrival> =
        arrivals.map(|arrival| Arrival { at_ns: arrival.at_ns, bytes: arrival.bytes }).collect();
    before.echo_under_load = echoes(&under_load.echoes);
    before.transfers.push(Flow {
        bytes: watch.bytes,
        elapsed_ns: arrivals.last().map_or(0, |last| last.at_ns),
        arrivals,
        ..Flow::default()
    });
    before
}

/// Predicts the echo time during the longer output from `before`, the observation that precedes it.
fn echo(before: &Observation, findings: &SessionResults) -> Option<Prediction> {
    let sustained = findings.sustained.as_ref().filter(|sustained| sustained.has_filled_buffers)?;
    let first_load = probe(findings)?;
    let last_load = &sustained.under_load;
    let screens = u64::from(last_load.screens);
    let bytes = first_load.received.watch.bytes.saturating_mul(screens);
    let bytes = bytes.checked_div(first_load.screens.into())?;
    let predicted_ns = Model::of(before)?.echo_under_load_ns()?;
    let range_ns = before.echo_under_load.as_ref().and_then(prediction::echo_range_ns);
    let forecast = Forecast { quantity: Quantity::EchoUnderLoad, bytes, predicted_ns, range_ns };
    Some(forecast.with_measured(echoes(&last_load.echoes)?.settled_ns()?))
}
