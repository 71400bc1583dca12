//! Tables of a paper with plumbline's figures beside them, as text and as JSON.

use crate::experiment::Experiment;
use crate::paragraph::paragraph;
use crate::render_picture;
use crate::rfc594::Today;
use crate::table::{Census, Extent, Figure, Origin, Row, Table};
use report::table::Table as Layout;
use serde_json::json;

/// Returns the tables as text, each at most `width` columns wide.
#[must_use]
pub fn text(experiment: &Experiment, width: usize) -> String {
    let mut text = paragraph(experiment.introduction, width);
    text.push('\n');
    text.push_str(&paragraph(&census(&Census::of(&experiment.tables)), width));
    for table in &experiment.tables {
        text.push('\n');
        let pictures = experiment.pictures.iter();
        for picture in pictures.filter(|picture| picture.number == table.number) {
            text.push_str(&paragraph(&heading(picture.number, picture.title), width));
            text.push('\n');
            text.push_str(&render_picture::text(picture, width));
            text.push('\n');
        }
        text.push_str(&table_text(table, experiment.source, width));
    }
    text
}

/// Returns one table with its title and, if known, the reason for the differences. The headings of
/// the paper's columns begin with `source`.
pub(crate) fn table_text(table: &Table, source: &str, width: usize) -> String {
    let mut text = paragraph(&title(table), width);
    text.push('\n');
    text.push_str(&layout(table, source).render(width));
    if !table.why.is_empty() {
        text.push('\n');
        text.push_str(&paragraph(&format!("Why they differ: {}", table.why), width));
    }
    text
}

/// Returns a sentence with the number of rows of each origin and the median difference of the
/// outputs.
pub(crate) fn census(census: &Census) -> String {
    let [inputs, fits, outputs] = census.rows;
    let comparison_text = match census.median_difference {
        Some(difference) => format!(
            " {} outputs are compared with a figure of the paper. The median of their differences \
             is {}.",
            census.compared,
            percent(difference).trim_start_matches('+'),
        ),
        None => String::new(),
    };
    format!(
        "The tables have {} rows: {inputs} input, {fits} fit, {outputs} output.{comparison_text} An \
         input is a value of the scenario or the paper, or a sum or a sample of such values; it has \
         no difference. A fit depends on a parameter that was chosen to match the paper. An output \
         depends on no such parameter. A figure with a \"c\" is not printed in the paper but \
         calculated here from its other figures.",
        inputs + fits + outputs
    )
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

fn layout(table: &Table, source: &str) -> Layout {
    let has_predicted = table.rows.iter().any(|row| row.predicted.is_some());
    let has_measured = table.rows.iter().any(|row| row.measured.is_some());
    let mut layout = Layout::new().text("").text("origin").number("plumbline");
    if has_predicted {
        layout = layout.number(&format!("{source} predicted")).number("differs by");
    }
    if has_measured {
        layout = layout.number(&format!("{source} measured")).number("differs by");
    }
    for row in &table.rows {
        let figure = |value: f64| unsigned_zero(format!("{value:.*}", row.digits));
        let name = row.origin.name().to_owned();
        let mut cells = vec![row.what.clone(), name, figure(row.ours)];
        for (is_shown, value, share) in [
            (has_predicted, row.predicted, row.difference_from_predicted()),
            (has_measured, row.measured, row.difference_from_measured()),
        ] {
            if is_shown {
                let shown = |value: Figure| figure_text(&value, row.digits);
                cells.push(value.map_or_else(|| String::from("-"), shown));
                cells.push(difference(row, value, share));
            }
        }
        layout.row(cells);
    }
    layout
}

/// Returns a figure of the paper as the paper states it.
fn figure_text(figure: &Figure, digits: usize) -> String {
    let number = |value: f64| unsigned_zero(format!("{value:.digits$}"));
    let text = match figure.extent {
        Extent::Exactly(value) => number(value),
        Extent::About(value) => format!("about {}", number(value)),
        Extent::Between(low, high) => format!("{} to {}", number(low), number(high)),
        Extent::AtLeast(low) => format!(">= {}", number(low)),
        Extent::MoreThan(low) => format!("> {}", number(low)),
        Extent::AtMost(high) => format!("<= {}", number(high)),
    };
    if figure.is_derived { format!("{text} c") } else { text }
}

/// Returns the difference between our figure and the paper's figure. If the paper states only a
/// limit, the difference is rounded to whole percent.
fn difference(row: &Row, figure: Option<Figure>, share: Option<f64>) -> String {
    match (figure, share) {
        (Some(Figure { extent: Extent::Exactly(_), .. }), Some(share)) => percent(share),
        (Some(figure), Some(_)) if figure.permits(row.ours) => String::from("agrees"),
        // A limit exceeded by less than 0.5 %: without a sign.
        (Some(_), Some(share)) if share.abs() < 0.005 => String::from("0 %"),
        (Some(_), Some(share)) => format!("{:+.0} %", share * 100.0),
        _ => String::from("-"),
    }
}

/// Removes the sign of a value that is rounded to zero.
fn unsigned_zero(figure: String) -> String {
    match figure.strip_prefix('-') {
        Some(digits) if digits.chars().all(|digit| matches!(digit, '0' | '.')) => digits.to_owned(),
        _ => figure,
    }
}

fn percent(share: f64) -> String {
    // Rounded first, so that zero is never printed as "-0.0 %".
    let tenths = (share * 1000.0).round();
    if tenths == 0.0 { String::from("0.0 %") } else { format!("{:+.1} %", tenths / 10.0) }
}

/// Returns the tables as one JSON object, with the measurements of today for RFC 594 if there are
/// any.
#[must_use]
pub fn json(experiment: &Experiment, today: Option<&Today>) -> String {
    let tables: Vec<_> = experiment.tables.iter().map(table_json).collect();
    let pictures: Vec<_> = experiment.pictures.iter().map(render_picture::json).collect();
    let mut document = json!({
        "schema": 2,
        "scenario": experiment.scenario,
        "census": census_json(&Census::of(&experiment.tables)),
        "tables": tables,
        "pictures": pictures,
    });
    if let (Some(today), Some(fields)) = (today, document.as_object_mut()) {
        fields.insert("today".to_owned(), today.json());
    }
    format!("{document:#}\n")
}

/// Returns a table as JSON.
pub(crate) fn table_json(table: &Table) -> serde_json::Value {
    json!({
        "number": table.number,
        "title": table.title,
        "unit": table.unit,
        "rows": table.rows.iter().map(row_json).collect::<Vec<_>>(),
        "why": table.why,
    })
}

/// Returns the numbers of rows by origin as JSON.
pub(crate) fn census_json(census: &Census) -> serde_json::Value {
    let rows = Origin::ALL.map(Origin::name).into_iter().zip(census.rows);
    json!({
        "rows": rows.collect::<std::collections::BTreeMap<_, _>>(),
        "outputs_compared": census.compared,
        "outputs_median_difference": census.median_difference,
    })
}

/// Returns the bounds of the paper's figure; `null` for a missing bound.
fn figure_json(figure: &Figure) -> serde_json::Value {
    let (least, most) = figure.bounds();
    json!({
        "least": least,
        "most": most,
        "is_about": matches!(figure.extent, Extent::About(_)),
        "is_derived": figure.is_derived,
    })
}

fn row_json(row: &Row) -> serde_json::Value {
    json!({
        "what": row.what,
        "origin": row.origin.name(),
        "ours": row.ours,
        "predicted": row.predicted.as_ref().map(figure_json),
        "measured": row.measured.as_ref().map(figure_json),
        "ours_to_predicted": row.difference_from_predicted(),
        "ours_to_measured": row.difference_from_measured(),
    })
}
