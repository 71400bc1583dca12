//! Shares of the layers: one bar for each total, and a table that serves as the legend and lists
//! the values.

use super::elements::{element, push_table};
use super::svg::{Svg, Window, fit, layer_class, width_of};
use crate::table::Table;
use records::format::{UNKNOWN, duration, share};
use records::{Layer, LayerTime};

const ROW_HEIGHT: f64 = 62.0;
const BAR_HEIGHT: f64 = 30.0;

/// Bars of layers, each drawn to the full width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerStack {
    /// Title of the chart.
    pub title: String,
    /// The bars, from the top.
    pub bars: Vec<StackedBar>,
}

/// One total, split by layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackedBar {
    /// Name of the measured total, for example the median echo of one character.
    pub label: String,
    /// Short form of the label, for the column header.
    pub name: String,
    /// Layers with their times, from the left; the total is their sum.
    pub layers: Vec<LayerTime>,
}

impl StackedBar {
    fn total(&self) -> u64 {
        self.layers.iter().fold(0, |sum, part| sum.saturating_add(part.ns))
    }

    fn of(&self, layer: Layer) -> Option<u64> {
        self.layers.iter().find(|part| part.layer == layer).map(|part| part.ns)
    }
}

impl LayerStack {
    pub(super) fn push(&self, out: &mut String) {
        out.push_str("<figure>\n");
        element(out, "h2", None, &self.title);
        for window in Window::BOTH {
            out.push_str(&self.draw(window));
        }
        let (table, layers) = self.figures();
        push_table(out, &table, |row| layers.get(row).map(|layer| layer_class(*layer)));
        out.push_str("</figure>\n");
    }

    fn draw(&self, window: Window) -> String {
        let mut svg = Svg::new(window);
        let mut y = 0.0;
        for bar in &self.bars {
            let total = duration(bar.total());
            let label_width = window.width() - width_of(&total) - 12.0;
            svg.text("start name", 0.0, y + 15.0, &fit(&bar.label, label_width));
            svg.text("end number", window.width(), y + 15.0, &total);
            draw_bar(&mut svg, bar, y + 22.0, window.width());
            y += ROW_HEIGHT;
        }
        svg.finish(y.max(1.0), &format!("{}: shares of layers, as in the table", self.title))
    }

    /// Returns the table and the layer of each of its rows. The last row is the total.
    fn figures(&self) -> (Table, Vec<Layer>) {
        let is_known = |layer: &Layer| self.bars.iter().any(|bar| bar.of(*layer).is_some());
        let layers: Vec<Layer> = Layer::ALL.into_iter().filter(is_known).collect();
        let names = self.bars.iter().map(|bar| bar.name.as_str());
        let start = Table::new().text("layer");
        let mut table = names.fold(start, |table, name| table.number(name).number("share"));
        for layer in &layers {
            let cells = self.bars.iter().flat_map(|bar| match bar.of(*layer) {
                Some(ns) => [duration(ns), share(ns, bar.total())],
                None => [UNKNOWN.to_owned(), UNKNOWN.to_owned()],
            });
            table.row([layer.text().to_owned()].into_iter().chain(cells));
        }
        let totals = self.bars.iter().flat_map(|bar| {
            let total = bar.total();
            [duration(total), share(total, total)]
        });
        table.row(["total".to_owned()].into_iter().chain(totals));
        (table, layers)
    }
}

fn draw_bar(svg: &mut Svg, bar: &StackedBar, y: f64, width: f64) {
    let total = bar.total().max(1);
    let mut x = 0.0;
    for part in &bar.layers {
        let wide = part.ns as f64 / total as f64 * width;
        let share = share(part.ns, total);
        let tip = format!("{}: {} ({share})", part.layer.text(), duration(part.ns));
        // The gap separates neighboring parts even without color.
        svg.rect(layer_class(part.layer), [x, y, (wide - 1.0).max(0.5), BAR_HEIGHT], &tip);
        let named_share = format!("{} {share}", part.layer.text());
        let label_class = text_class(part.layer);
        if wide > width_of(&named_share) + 10.0 {
            svg.text(label_class, x + wide / 2.0, y + 19.5, &named_share);
        } else if wide > width_of(&share) + 4.0 {
            svg.text(label_class, x + wide / 2.0, y + 19.5, &share);
        }
        x += wide;
    }
}

/// Returns the CSS class of a text that is drawn on the color of `layer`.
const fn text_class(layer: Layer) -> &'static str {
    match layer {
        Layer::InterruptOrSystemCall | Layer::Internet | Layer::TcpFixed => "middle on-dark",
        Layer::Terminal => "middle on-ink",
        _ => "middle on-light",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, layers: &[(Layer, u64)]) -> StackedBar {
        let layers = layers.iter().map(|&(layer, ns)| LayerTime { layer, ns }).collect();
        StackedBar { label: label.to_owned(), name: label.to_owned(), layers }
    }

    #[test]
    fn the_table_has_a_row_for_each_layer_of_any_bar_and_a_total() {
        let bars = vec![
            bar("echo", &[(Layer::Line, 750), (Layer::RemoteHostAndNetwork, 250)]),
            bar("screen", &[(Layer::Terminal, 5_000)]),
        ];
        let (table, layers) = LayerStack { bars, ..LayerStack::default() }.figures();
        assert_eq!(layers, [Layer::Line, Layer::Terminal, Layer::RemoteHostAndNetwork]);
        insta::assert_snapshot!(table.render(80), @r"
        layer                       echo  share   screen  share
        -----------------------  -------  -----  -------  -----
        line                      750 ns   75 %        -      -
        terminal                       -      -  5.00 µs  100 %
        remote host and network   250 ns   25 %        -      -
        total                    1.00 µs  100 %  5.00 µs  100 %
        ");
    }

    #[test]
    fn an_empty_bar_is_drawn_without_shares() {
        let bars = vec![bar("echo", &[(Layer::Line, 0)])];
        let drawing = LayerStack { bars, ..LayerStack::default() }.draw(Window::Wide);
        assert!(!drawing.contains("NaN"));
    }
}
