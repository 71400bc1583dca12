//! Shares of the parts of a time: one bar for each total, and a table that serves as the legend and
//! lists the values. The layers of this host are gray, the network and the remote host have colors.

use super::elements::{element, push_table};
use super::svg::{Svg, Window, fit, part_class, part_label_class, width_of};
use crate::split_row::{Part, SplitRow};
use crate::table::Table;
use records::Layer;
use records::assessment::Location;
use records::format::{UNKNOWN, duration, share};

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
    /// Parts with their times, from the left; the total is their sum.
    pub rows: Vec<SplitRow>,
}

impl StackedBar {
    fn total(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.ns))
    }

    fn of(&self, part: Part) -> Option<u64> {
        let mut times = self.rows.iter().filter(|row| row.part == part).map(|row| row.ns);
        let first = times.next()?;
        Some(times.fold(first, u64::saturating_add))
    }
}

impl LayerStack {
    pub(super) fn push(&self, out: &mut String) {
        out.push_str("<figure>\n");
        element(out, "h2", None, &self.title);
        for window in Window::BOTH {
            out.push_str(&self.draw(window));
        }
        let (table, parts) = self.figures();
        push_table(out, &table, |row| parts.get(row).map(|part| part_class(*part)));
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
        svg.finish(y.max(1.0), &format!("{}: shares as in the table", self.title))
    }

    /// Returns the table and the part of each of its rows. The last row is the total.
    fn figures(&self) -> (Table, Vec<Part>) {
        let is_known = |part: &Part| self.bars.iter().any(|bar| bar.of(*part).is_some());
        let local = Layer::ALL.into_iter().map(Part::from);
        let local = local.filter(|part| matches!(part, Part::Local(_)));
        let remote = Location::ALL.into_iter().map(Part::Remote);
        let parts: Vec<Part> = local.chain(remote).filter(is_known).collect();
        let names = self.bars.iter().map(|bar| bar.name.as_str());
        let start = Table::new().text("part");
        let mut table = names.fold(start, |table, name| table.number(name).number("share"));
        for part in &parts {
            let cells = self.bars.iter().flat_map(|bar| match bar.of(*part) {
                Some(ns) => [duration(ns), share(ns, bar.total())],
                None => [UNKNOWN.to_owned(), UNKNOWN.to_owned()],
            });
            table.row([part.text().to_owned()].into_iter().chain(cells));
        }
        let totals = self.bars.iter().flat_map(|bar| {
            let total = bar.total();
            [duration(total), share(total, total)]
        });
        table.row(["total".to_owned()].into_iter().chain(totals));
        (table, parts)
    }
}

fn draw_bar(svg: &mut Svg, bar: &StackedBar, y: f64, width: f64) {
    let total = bar.total().max(1);
    let mut x = 0.0;
    for row in &bar.rows {
        let wide = row.ns as f64 / total as f64 * width;
        let share = share(row.ns, total);
        let tip = format!("{}: {} ({share})", row.name, duration(row.ns));
        // The gap separates neighboring parts even without color.
        let area = [x, y, (wide - 1.0).max(0.5), BAR_HEIGHT];
        svg.rect(part_class(row.part), area, &tip);
        let named_share = format!("{} {share}", row.name);
        let label_class = part_label_class(row.part);
        if wide > width_of(&named_share) + 10.0 {
            svg.text(label_class, x + wide / 2.0, y + 19.5, &named_share);
        } else if wide > width_of(&share) + 4.0 {
            svg.text(label_class, x + wide / 2.0, y + 19.5, &share);
        }
        x += wide;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::LayerTime;

    fn bar(label: &str, layers: &[(Layer, u64)]) -> StackedBar {
        let rows = layers.iter().map(|&(layer, ns)| LayerTime { layer, ns }.into()).collect();
        StackedBar { label: label.to_owned(), name: label.to_owned(), rows }
    }

    #[test]
    fn the_table_has_a_row_for_each_layer_of_any_bar_and_a_total() {
        let bars = vec![
            bar("echo", &[(Layer::Line, 750), (Layer::RemoteHostAndNetwork, 250)]),
            bar("screen", &[(Layer::Terminal, 5_000)]),
        ];
        let (table, parts) = LayerStack { bars, ..LayerStack::default() }.figures();
        let layers = [Layer::Terminal, Layer::Line, Layer::RemoteHostAndNetwork];
        assert_eq!(parts, layers.map(Part::from));
        insta::assert_snapshot!(table.render(80), @r"
        part                        echo  share   screen  share
        -----------------------  -------  -----  -------  -----
        terminal                       -      -  5.00 µs  100 %
        line                      750 ns   75 %        -      -
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

    #[test]
    fn the_network_and_the_remote_host_have_colors_and_local_layers_are_gray() {
        let sample = include_str!("../../../records/samples/measurement-4.json");
        let measured = records::Measurement::from_json(sample).unwrap();
        let drawing = crate::summary::stack(&measured).draw(Window::Wide);
        let fills = |class: &str| drawing.matches(&format!("<rect class=\"{class}\"")).count();
        assert_eq!([fills("l4"), fills("l1")], [1, 1], "{drawing}");
        assert!(fills("g0") > 0 && fills("l6") == 0, "{drawing}");
    }
}
