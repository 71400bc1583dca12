//! Elements of a page: escaped text, tables, and figures with their values.

use crate::table::{Align, Table};
use records::escape;
use std::fmt::Write;

/// Adds an element that contains `text`, escaped.
pub(super) fn element(
    out: &mut String,
    name: &'static str,
    class: Option<&'static str>,
    text: &str,
) {
    let text = escape::html(text);
    // Writing to a String cannot fail.
    let _ = match class {
        Some(class) => writeln!(out, "<{name} class=\"{class}\">{text}</{name}>"),
        None => writeln!(out, "<{name}>{text}</{name}>"),
    };
}

/// Adds `table`. `swatch` maps the index of a row to the CSS class of the color mark in its first
/// cell; `None` means no mark.
pub(super) fn push_table(
    out: &mut String,
    table: &Table,
    swatch: impl Fn(usize) -> Option<&'static str>,
) {
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
pub(super) fn push_figure(
    out: &mut String,
    title: &str,
    drawings: [String; 2],
    note: &str,
    figures: &Table,
) {
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
