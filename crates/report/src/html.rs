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
pub mod plot;
pub mod waterfall;

mod svg;

use crate::table::{Align, Table};
use layer_stack::LayerStack;
use line_chart::LineChart;
use plot::Plot;
use records::escape;
use std::fmt::Write;
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
            Self::Table { title, table } => {
                element(out, "h2", None, title);
                push_table(out, table, |_| None);
            }
            Self::Chart(chart) => chart.push(out),
            Self::Plot(plot) => plot.push(out),
            Self::Waterfall(waterfall) => waterfall.push(out),
            Self::Layers(stack) => stack.push(out),
        }
    }
}

/// Adds an element that contains `text`, escaped.
fn element(out: &mut String, name: &'static str, class: Option<&'static str>, text: &str) {
    let text = escape::html(text);
    // Writing to a String cannot fail.
    let _ = match class {
        Some(class) => writeln!(out, "<{name} class=\"{class}\">{text}</{name}>"),
        None => writeln!(out, "<{name}>{text}</{name}>"),
    };
}

/// Adds `table`. `swatch` maps the index of a row to the CSS class of the color mark in its first
/// cell; `None` means no mark.
fn push_table(out: &mut String, table: &Table, swatch: impl Fn(usize) -> Option<&'static str>) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for (header, align) in table.columns() {
        let header = escape::html(header);
        let _ = write!(out, "<th scope=\"col\"{}>{header}</th>", class_of(*align));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (at, row) in table.rows().iter().enumerate() {
        out.push_str("<tr>");
        for (column, (cell, (_, align))) in row.iter().zip(table.columns()).enumerate() {
            let swatch = swatch(at).filter(|_| column == 0);
            let class = if swatch.is_some() { " class=\"keyed\"" } else { class_of(*align) };
            let _ = write!(out, "<td{class}>");
            if let Some(class) = swatch {
                let _ = write!(
                    out,
                    "<svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\">\
                     <rect class=\"{class}\" width=\"10\" height=\"10\"/></svg>"
                );
            }
            let _ = write!(out, "{}</td>", escape::html(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
}

fn class_of(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"number\"",
    }
}

/// Adds a chart: title, both drawings, a note, and a collapsed table of its figures.
fn push_figure(out: &mut String, title: &str, drawings: [String; 2], note: &str, figures: &Table) {
    out.push_str("<figure>\n");
    element(out, "h2", None, title);
    for drawing in drawings {
        out.push_str(&drawing);
    }
    if !note.is_empty() {
        element(out, "figcaption", None, note);
    }
    out.push_str("<details><summary>The figures as a table</summary>\n");
    push_table(out, figures, |_| None);
    out.push_str("</details>\n</figure>\n");
}
