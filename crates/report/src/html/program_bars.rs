//! Times of compared programs: a group of bars for each figure, with one bar per program.

use super::elements::push_figure;
use super::svg::{Svg, Window, fit, width_of};
use crate::table::Table;
use records::format::{UNKNOWN, count};

const TOP_MARGIN: f64 = 4.0;
const TITLE_HEIGHT: f64 = 26.0;
const BAR_HEIGHT: f64 = 16.0;
const GROUP_GAP: f64 = 12.0;
/// Minimum width of a bar in pixels, so that the shortest time is visible.
const MIN_BAR_WIDTH: f64 = 1.5;
/// Colors of the programs.
const CLASSES: [&str; 5] = ["f1", "f0", "f2", "f3", "f4"];

/// Bars of several figures of the same programs. All values have one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramBars {
    /// Title of the chart.
    pub title: String,
    /// Names of the programs.
    pub names: Vec<String>,
    /// Figures, from the top.
    pub groups: Vec<BarGroup>,
}

/// The values of one figure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BarGroup {
    /// Name of the figure.
    pub title: String,
    /// A value for each program, ns; unknown values have no bar.
    pub values_ns: Vec<Option<u64>>,
    /// Time that users notice, ns. It is drawn if the longest bar reaches it.
    pub noticed_ns: Option<u64>,
}

impl ProgramBars {
    pub(super) fn push(&self, out: &mut String) {
        let drawings = Window::BOTH.map(|window| self.draw(window));
        let unit = self.unit().0;
        let mut note = format!(
            "All times are in {unit}. The bars of each figure are scaled to the longest of them, so \
             bars of different figures have different scales."
        );
        if self.groups.iter().any(|group| group.drawn_limit_ns().is_some()) {
            note += " Users notice a time beyond the dashed line.";
        }
        push_figure(out, &self.title, drawings, &note, &self.figures());
    }

    /// Returns the unit of all values: seconds if the shortest value has at least one, else
    /// milliseconds.
    fn unit(&self) -> (&'static str, u64) {
        let known = self.groups.iter().flat_map(|group| group.values_ns.iter().flatten());
        match known.min() {
            Some(1_000_000_000..) => ("s", 1_000_000_000),
            _ => ("ms", 1_000_000),
        }
    }

    fn text(&self, ns: u64) -> String {
        let (unit, per_unit) = self.unit();
        if ns / per_unit >= 1_000 {
            return format!("{} {unit}", count(ns.saturating_add(per_unit / 2) / per_unit));
        }
        let value = ns as f64 / per_unit as f64;
        let decimals = match value {
            100.0.. => 0,
            10.0.. => 1,
            1.0.. => 2,
            _ => 3,
        };
        format!("{value:.decimals$} {unit}")
    }

    fn draw(&self, window: Window) -> String {
        let longest_name = self.names.iter().map(|name| width_of(name)).fold(0.0, f64::max);
        let values = self.groups.iter().flat_map(|group| group.values_ns.iter().flatten());
        let number_width = values.map(|ns| width_of(&self.text(*ns))).fold(0.0, f64::max) + 8.0;
        // In a narrow window the name is above its bar, which then has the full width.
        let (row, left, name_width) = match window {
            Window::Wide => {
                let width = longest_name.min(window.width() * 0.4);
                (24.0, width + 12.0, width + 1.0)
            }
            Window::Narrow => (38.0, 4.0, window.width() - 8.0),
        };
        let right = window.width() - number_width;
        let mut svg = Svg::new(window);
        let mut y = TOP_MARGIN;
        for group in &self.groups {
            svg.text("start name", 2.0, y + 16.0, &fit(&group.title, window.width() - 4.0));
            y += TITLE_HEIGHT;
            let longest_ns = group.values_ns.iter().flatten().max().copied().unwrap_or(0);
            let place = |ns: u64| left + ns as f64 / longest_ns.max(1) as f64 * (right - left);
            let limit = group.drawn_limit_ns().map(place);
            for (at, (name, ns)) in self.names.iter().zip(&group.values_ns).enumerate() {
                // In a narrow window, a line beyond the bar would cross the name above it.
                let (name_y, bar_y, overhang) = match window {
                    Window::Wide => (y + 16.0, y + 4.0, 4.0),
                    Window::Narrow => (y + 14.0, y + 19.0, 0.0),
                };
                svg.text("start", 2.0, name_y, &fit(name, name_width));
                let number = ns.map_or_else(|| UNKNOWN.to_owned(), |ns| self.text(ns));
                if let Some(ns) = ns {
                    let class = CLASSES.get(at % CLASSES.len()).copied().unwrap_or("neutral");
                    let width = (place(*ns) - left).max(MIN_BAR_WIDTH);
                    let tip = format!("{name}: {}, {number}", group.title);
                    svg.rect(class, [left, bar_y, width, BAR_HEIGHT], &tip);
                }
                if let Some(x) = limit {
                    let limit = [x, bar_y - overhang, x, bar_y + BAR_HEIGHT + overhang];
                    svg.line("dashed limit", limit);
                }
                svg.text("end number", window.width(), bar_y + 12.5, &number);
                y += row;
            }
            y += GROUP_GAP;
        }
        svg.finish(y, &format!("{}: values as in the table", self.title))
    }

    fn figures(&self) -> Table {
        let columns = self.groups.iter().map(|group| group.title.as_str());
        let mut table = columns.fold(Table::new().text("program"), Table::number);
        for (at, name) in self.names.iter().enumerate() {
            let values = self.groups.iter().map(|group| match group.values_ns.get(at) {
                Some(Some(ns)) => self.text(*ns),
                _ => UNKNOWN.to_owned(),
            });
            table.row([name.clone()].into_iter().chain(values));
        }
        table
    }
}

impl BarGroup {
    /// Returns the limit that is drawn, ns.
    fn drawn_limit_ns(&self) -> Option<u64> {
        let longest_ns = self.values_ns.iter().flatten().max()?;
        self.noticed_ns.filter(|limit_ns| limit_ns <= longest_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values_ns: &[Option<u64>]) -> ProgramBars {
        let group = BarGroup {
            title: "echo".to_owned(),
            values_ns: values_ns.to_vec(),
            noticed_ns: Some(25_000_000),
        };
        let names = (0..values_ns.len()).map(|at| format!("ssh {at}")).collect();
        ProgramBars { title: "Programs".to_owned(), names, groups: vec![group] }
    }

    #[test]
    fn all_values_have_one_unit() {
        let bars = bars(&[Some(340_000), Some(81_200_000), Some(1_500_000_000), None]);
        let texts: Vec<_> = bars.figures().rows().iter().map(|row| row[1].clone()).collect();
        assert_eq!(texts, ["0.340 ms", "81.2 ms", "1,500 ms", "-"]);
    }

    #[test]
    fn the_limit_is_drawn_only_if_a_bar_reaches_it() {
        let has_limit = |values: &[Option<u64>]| bars(values).draw(Window::Wide).contains("dashed");
        assert!(has_limit(&[Some(1_000_000), Some(30_000_000)]));
        assert!(!has_limit(&[Some(1_000_000), Some(20_000_000)]));
    }

    #[test]
    fn an_unknown_value_has_no_bar() {
        assert_eq!(bars(&[Some(1), None]).draw(Window::Narrow).matches("<rect").count(), 1);
        assert_eq!(bars(&[None, None]).draw(Window::Narrow).matches("<rect").count(), 0);
    }
}
