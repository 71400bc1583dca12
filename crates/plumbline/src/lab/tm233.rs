//! The tables of TM-233 for people and for programs.

use records::table::{Table as Layout, wrap};
use serde_json::json;
use simulator::tm233::{Row, Table};

/// Returns the tables, each at most `width` columns wide.
pub(crate) fn text(tables: &[Table], width: usize) -> String {
    let head = "Two personal computers on a serial line in virtual time: our own engines, each layer \
                charged with what table 6-1 of TM-233 says it cost in 1982. The price of a carriage \
                return is that of a screenful, see table 6-3; nothing else is fitted.";
    let mut text = paragraph(head, width);
    for table in tables {
        text.push('\n');
        let title = format!("Table {}: {} ({})", table.number, table.title, table.unit);
        text.push_str(&paragraph(&title, width));
        text.push('\n');
        text.push_str(&layout(table).render(width));
        if !table.why.is_empty() {
            text.push('\n');
            text.push_str(&paragraph(&format!("Why they differ: {}", table.why), width));
        }
    }
    text
}

fn paragraph(text: &str, width: usize) -> String {
    wrap(text, width).join("\n") + "\n"
}

fn layout(table: &Table) -> Layout {
    let has_predicted = table.rows.iter().any(|row| row.predicted.is_some());
    let has_measured = table.rows.iter().any(|row| row.measured.is_some());
    let mut layout = Layout::new().text("").number("ours");
    if has_predicted {
        layout = layout.number("1982 predicted").number("differs by");
    }
    if has_measured {
        layout = layout.number("1982 measured").number("differs by");
    }
    for row in &table.rows {
        let figure = |value: f64| format!("{value:.*}", row.digits);
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

fn percent(share: f64) -> String {
    // Rounded first, so that nothing is "-0.0 %".
    let tenths = (share * 1000.0).round();
    if tenths == 0.0 { String::from("0.0 %") } else { format!("{:+.1} %", tenths / 10.0) }
}

/// Returns the tables as one JSON object.
pub(crate) fn json(tables: &[Table]) -> String {
    let rows = |table: &Table| -> Vec<_> { table.rows.iter().map(row_json).collect() };
    let tables: Vec<_> = tables
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
    let document = json!({ "schema": 1, "scenario": "tm233", "tables": tables });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_thesis_come_out_of_our_own_engines() {
        let tables = simulator::tm233::tables().unwrap();
        insta::assert_snapshot!(text(&tables, 100));
    }

    #[test]
    fn the_tables_fit_into_forty_columns() {
        let tables = simulator::tm233::tables().unwrap();
        let text = text(&tables, 40);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 40), "{text}");
    }
}
