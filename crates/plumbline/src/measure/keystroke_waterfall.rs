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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_span_starts_at_the_end_of_the_span_before() {
        let time = |layer, ns| LayerTime { layer, ns };
        let waterfall = keystroke_waterfall(&MedianKeystroke {
            sending: vec![time(Layer::Telnet, 10), time(Layer::TcpFixed, 20)],
            waiting_ns: 300,
            receiving: vec![time(Layer::TcpFixed, 40), time(Layer::Terminal, 50)],
            samples: 200,
        });
        let spans: Vec<_> = waterfall
            .spans
            .iter()
            .map(|span| (span.label.split(' ').next().unwrap(), span.start_ns, span.end_ns))
            .collect();
        let waiting = Layer::RemoteHostAndNetwork.text().split(' ').next().unwrap();
        let expected = [
            ("down:", 0, 10),
            ("down:", 10, 30),
            (waiting, 30, 330),
            ("up:", 330, 370),
            ("up:", 370, 420),
        ];
        assert_eq!(spans, expected);
    }
}
