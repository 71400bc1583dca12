//! The tables of a paper, with ours beside them, for people and for programs.

use super::pictures;
use super::today::Today;
use records::table::{Table as Layout, wrap};
use serde_json::json;
use simulator::picture::Picture;
use simulator::table::{Row, Table};

/// What an experiment has brought.
#[derive(Debug)]
pub(super) struct Experiment {
    /// Its name on the command line.
    pub(super) scenario: &'static str,
    /// When the paper's figures were found.
    pub(super) year: u16,
    /// What was done, and what was assumed.
    pub(super) head: &'static str,
    pub(super) tables: Vec<Table>,
    /// Its figures, each drawn before the table of its number.
    pub(super) pictures: Vec<Picture>,
}

/// Returns the tables, each at most `width` columns wide.
pub(super) fn text(experiment: &Experiment, width: usize) -> String {
    let mut text = paragraph(experiment.head, width);
    for table in &experiment.tables {
        text.push('\n');
        let pictures = experiment.pictures.iter();
        for picture in pictures.filter(|picture| picture.number == table.number) {
            text.push_str(&paragraph(&heading(picture.number, picture.title), width));
            text.push('\n');
            text.push_str(&pictures::text(picture, width));
            text.push('\n');
        }
        text.push_str(&paragraph(&title(table), width));
        text.push('\n');
        text.push_str(&layout(table, experiment.year).render(width));
        if !table.why.is_empty() {
            text.push('\n');
            text.push_str(&paragraph(&format!("Why they differ: {}", table.why), width));
        }
    }
    text
}

fn title(table: &Table) -> String {
    let Table { number, title, unit, .. } = table;
    format!("{} ({unit})", heading(number, title))
}

fn heading(number: &str, title: &str) -> String {
    match number.strip_prefix("figure ") {
        Some(number) => format!("Figure {number}: {title}"),
        None => format!("Table {number}: {title}"),
    }
}

pub(super) fn paragraph(text: &str, width: usize) -> String {
    wrap(text, width).join("\n") + "\n"
}

fn layout(table: &Table, year: u16) -> Layout {
    let has_predicted = table.rows.iter().any(|row| row.predicted.is_some());
    let has_measured = table.rows.iter().any(|row| row.measured.is_some());
    let mut layout = Layout::new().text("").number("ours");
    if has_predicted {
        layout = layout.number(&format!("{year} predicted")).number("differs by");
    }
    if has_measured {
        layout = layout.number(&format!("{year} measured")).number("differs by");
    }
    for row in &table.rows {
        let figure = |value: f64| unsigned_zero(format!("{value:.*}", row.digits));
        let mut cells = vec![row.what.clone(), figure(row.ours)];
        for (is_shown, value, share) in [
            (has_predicted, row.predicted, row.from_predicted()),
            (has_measured, row.measured, row.from_measured()),
        ] {
            if is_shown {
                cells.push(value.map_or_else(|| String::from("-"), figure));
                cells.push(share.map_or_else(|| String::from("-"), percent));
            }
        }
        layout.row(cells);
    }
    layout
}

/// Takes the sign from what is rounded to nothing.
fn unsigned_zero(figure: String) -> String {
    match figure.strip_prefix('-') {
        Some(digits) if digits.chars().all(|digit| matches!(digit, '0' | '.')) => digits.to_owned(),
        _ => figure,
    }
}

fn percent(share: f64) -> String {
    // Rounded first, so that nothing is "-0.0 %".
    let tenths = (share * 1000.0).round();
    if tenths == 0.0 { String::from("0.0 %") } else { format!("{:+.1} %", tenths / 10.0) }
}

/// Returns the tables as one JSON object.
pub(super) fn json(experiment: &Experiment, today: Option<&Today>) -> String {
    let rows = |table: &Table| -> Vec<_> { table.rows.iter().map(row_json).collect() };
    let tables: Vec<_> = experiment
        .tables
        .iter()
        .map(|table| {
            json!({
                "number": table.number,
                "title": table.title,
                "unit": table.unit,
                "rows": rows(table),
                "why": table.why,
            })
        })
        .collect();
    let pictures: Vec<_> = experiment.pictures.iter().map(pictures::json).collect();
    let mut document = json!({
        "schema": 1,
        "scenario": experiment.scenario,
        "tables": tables,
        "pictures": pictures,
    });
    if let (Some(today), Some(fields)) = (today, document.as_object_mut()) {
        fields.insert("today".to_owned(), today.json());
    }
    format!("{document:#}\n")
}

fn row_json(row: &Row) -> serde_json::Value {
    json!({
        "what": row.what,
        "ours": row.ours,
        "predicted": row.predicted,
        "measured": row.measured,
        "ours_to_predicted": row.from_predicted(),
        "ours_to_measured": row.from_measured(),
    })
}
