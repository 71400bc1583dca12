//! Markdown lists of the rule and of the causes, as in `docs/benchmarks/verdict.md`.

use super::cause::{Quantity, Row};
use super::rule::Terms;

/// Maximum number of columns of a line.
const COLUMNS: usize = 120;

/// Returns a list of the causes: services, range of the magnitude, and right classes of each.
pub(super) fn cause_list(rows: &[Row]) -> String {
    let range = |quantity: Option<Quantity>| {
        quantity.map(|Quantity { name, unit, min, max }| {
            format!("{name} {min} to {max} {unit}").trim_end().to_owned()
        })
    };
    let items = rows.iter().map(|row| {
        let services: Vec<&str> = row.services.iter().map(|service| service.name()).collect();
        let classes: Vec<&str> = row.classes.iter().map(|class| class.name()).collect();
        let magnitudes: Vec<String> =
            [row.size, row.second].into_iter().filter_map(range).collect();
        let magnitudes = magnitudes.iter().map(|magnitude| format!("{magnitude}; "));
        list_item(&format!(
            "**{}** ({}): {}named by *{}*",
            row.name,
            services.join("; "),
            magnitudes.collect::<String>(),
            classes.join("*, *")
        ))
    });
    items.collect()
}

/// Returns a list of the classes with the terms of their components, mechanisms and contradictions.
pub(super) fn class_list(table: &[Terms]) -> String {
    let items = table.iter().map(|row| {
        let contradiction = match row.contradiction {
            "" => String::new(),
            pattern => format!("; contradicted by {}", terms(pattern)),
        };
        let component = terms(row.component);
        let mechanism = terms(row.mechanism);
        list_item(&format!(
            "**{}**: component {component}; mechanism {mechanism}{contradiction}",
            row.name
        ))
    });
    items.collect()
}

/// Returns the alternatives of a regular expression outside of its groups, as code.
fn terms(pattern: &str) -> String {
    let mut depth = 0_usize;
    let is_separator = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == '|' && depth == 0
    };
    let alternatives: Vec<String> =
        pattern.split(is_separator).map(|term| format!("`{term}`")).collect();
    alternatives.join(", ")
}

/// Returns `text` as an item of a list, broken at spaces outside of code.
fn list_item(text: &str) -> String {
    let mut item = "-".to_owned();
    let mut columns = item.len();
    let mut is_code = false;
    let is_break = |c: char| {
        is_code ^= c == '`';
        c == ' ' && !is_code
    };
    for word in text.split(is_break) {
        let length = word.chars().count();
        if columns + 1 + length > COLUMNS {
            item.push_str("\n ");
            columns = 1;
        }
        item.push(' ');
        item.push_str(word);
        columns += 1 + length;
    }
    item + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_of_groups_are_not_split() {
        assert_eq!(terms("a|b (c|d)|e"), "`a`, `b (c|d)`, `e`");
    }

    #[test]
    fn an_item_is_broken_at_spaces_outside_of_code() {
        let item = list_item(&format!("{} `{} c` d", "a".repeat(60), "b".repeat(57)));
        let lines: Vec<&str> = item.lines().collect();
        assert_eq!(lines, [format!("- {}", "a".repeat(60)), format!("  `{} c` d", "b".repeat(57))]);
    }
}
