//! The time of one operation, split by location: one bar, and a table that serves as its legend.

use super::elements::{element, push_table};
use super::svg::{Svg, Window, fit, location_class, location_label_class, width_of};
use crate::table::Table;
use records::assessment::{Delay, LocationTime};
use records::format::{duration, share};

const BAR_HEIGHT: f64 = 34.0;
const TOP: f64 = 22.0;

/// The bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationBar {
    /// Title of the chart.
    pub title: String,
    /// The split time.
    pub delay: Delay,
}

impl LocationBar {
    pub(super) fn push(&self, out: &mut String) {
        out.push_str("<figure>\n");
        element(out, "h2", None, &self.title);
        for window in Window::BOTH {
            out.push_str(&self.draw(window));
        }
        let mut table = Table::new().text("location").number("time").number("share");
        for LocationTime { location, ns } in &self.delay.parts {
            let share = share(*ns, self.delay.total_ns);
            table.row([location.text().to_owned(), duration(*ns), share]);
        }
        let class = |row: usize| Some(location_class(self.delay.parts.get(row)?.location));
        push_table(out, &table, class);
        out.push_str("</figure>\n");
    }

    fn draw(&self, window: Window) -> String {
        let mut svg = Svg::new(window);
        let total = duration(self.delay.total_ns);
        let label_width = window.width() - width_of(&total) - 12.0;
        svg.text("start name", 0.0, 15.0, &fit(self.delay.operation.text(), label_width));
        svg.text("end number", window.width(), 15.0, &total);
        let mut x = 0.0;
        for LocationTime { location, ns } in &self.delay.parts {
            let part = *ns as f64 / self.delay.total_ns.max(1) as f64;
            let width = part * window.width();
            let share = share(*ns, self.delay.total_ns);
            let text = format!("{} {share}", location.text());
            let tip = format!("{}: {} ({share})", location.text(), duration(*ns));
            svg.rect(location_class(*location), [x, TOP, (width - 1.0).max(0.5), BAR_HEIGHT], &tip);
            let label = if width > width_of(&text) + 10.0 { text } else { share };
            if width > width_of(&label) + 4.0 {
                svg.text(location_label_class(*location), x + width / 2.0, TOP + 21.5, &label);
            }
            x += width;
        }
        svg.finish(TOP + BAR_HEIGHT, &format!("{}: shares as in the table", self.title))
    }
}
