//! A report as one self-contained HTML file: no script, no font, no external URL.
//!
//! The page's content security policy permits nothing but its own style. All text is escaped on
//! output ([`records::escape::html`]) and written only into text nodes and quoted attributes. Names
//! of elements, attributes and classes are constants. Each chart is drawn twice, for a wide and for
//! a narrow window, because scaling an image down also shrinks its letters. The style displays one
//! of the two drawings. Below each chart is a table of its values.

pub mod figure_6_1;
pub mod layer_stack;
pub mod line_chart;
pub mod location_bar;
pub mod plot;
pub mod program_bars;
pub mod waterfall;

mod elements;
mod svg;

use crate::table::Table;
use elements::{element, push_table};
use layer_stack::LayerStack;
use line_chart::LineChart;
use location_bar::LocationBar;
use plot::Plot;
use program_bars::ProgramBars;
use records::escape;
use waterfall::Waterfall;

const STYLE: &str = include_str!("html/style.css");
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// One page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The title of the page.
    pub title: String,
    /// Sections of the page, from the top.
    pub sections: Vec<Section>,
}

/// One part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    /// The most important sentence, in large letters.
    Lead(String),
    /// A heading.
    Heading(String),
    /// A paragraph of text.
    Paragraph(String),
    /// The command that made the report.
    Command(String),
    /// A table with its title.
    Table {
        /// Title of the table.
        title: String,
        /// Headers and rows, not escaped.
        table: Table,
    },
    /// A line chart.
    Chart(LineChart),
    /// A plot over two axes with units.
    Plot(Box<Plot>),
    /// Spans over a time axis.
    Waterfall(Waterfall),
    /// Shares of the layers.
    Layers(LayerStack),
    /// Shares of the network, the remote host and this host.
    Locations(LocationBar),
    /// Bars of compared programs.
    Programs(ProgramBars),
}

impl Report {
    /// Returns the whole file.
    #[must_use]
    pub fn render(&self) -> String {
        let title = escape::html(&self.title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{CONTENT_SECURITY_POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n"
        );
        for section in &self.sections {
            section.push(&mut out);
        }
        out.push_str("</main>\n</body>\n</html>\n");
        out
    }
}

impl Section {
    fn push(&self, out: &mut String) {
        match self {
            Self::Lead(text) => element(out, "p", Some("lead"), text),
            Self::Heading(text) => element(out, "h2", None, text),
            Self::Paragraph(text) => element(out, "p", None, text),
            Self::Command(text) => {
                let text = escape::html(text);
                out.push_str(&format!("<p>Command: <code>{text}</code></p>\n"));
            }
            Self::Table { title, table } => {
                element(out, "h2", None, title);
                push_table(out, table, |_| None);
            }
            Self::Chart(chart) => chart.push(out),
            Self::Plot(plot) => plot.push(out),
            Self::Waterfall(waterfall) => waterfall.push(out),
            Self::Layers(stack) => stack.push(out),
            Self::Locations(bar) => bar.push(out),
            Self::Programs(bars) => bars.push(out),
        }
    }
}
