//! Picture of the median keystroke in a report.

use measure::MedianKeystroke;
use records::{Layer, LayerTime};
use report::html::waterfall::{Span, Waterfall};

/// Returns the waterfall of a keystroke, with one span per layer.
pub(crate) fn keystroke_waterfall(keystroke: &MedianKeystroke) -> Waterfall {
    let mut spans = Vec::new();
    let mut add = |label: &str, layer: Layer, ns: u64| {
        let start_ns = spans.last().map_or(0, |span: &Span| span.end_ns);
        let label = format!("{label}{}", layer.text());
        let end_ns = start_ns + ns;
        spans.push(Span { label, start_ns, end_ns, layer: Some(layer) });
    };
    for LayerTime { layer, ns } in &keystroke.sending {
        add("down: ", *layer, *ns);
    }
    add("", Layer::RemoteHostAndNetwork, keystroke.waiting_ns);
    for LayerTime { layer, ns } in &keystroke.receiving {
        add("up: ", *layer, *ns);
    }
    Waterfall {
        title: "One keystroke, from key to cell".to_owned(),
        spans,
        note: format!(
            "The median of {} echoes, with one span per layer. The layers of a direction are drawn \
             in the order of their calls.",
            keystroke.samples
        ),
    }
}
