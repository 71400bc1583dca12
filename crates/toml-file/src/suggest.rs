//! Suggestions for misspelled configuration keys.

use anyhow::anyhow;

/// Returns the error message of a TOML error. For an unknown key it suggests the nearest known key.
pub(super) fn with_suggestion(error: &toml::de::Error) -> anyhow::Error {
    let text = error.to_string();
    let text = text.trim_end();
    match suggestion(error.message()) {
        Some(suggestion) => anyhow!("{text}\ndid you mean '{suggestion}'?"),
        None => anyhow!("{text}"),
    }
}

/// Returns the nearest expected key if its spelling is close enough to the unknown key.
fn suggestion(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, expected) = rest.split_once('`')?;
    nearest(unknown, expected.split('`').skip(1).step_by(2))
}

/// Returns the candidate that is nearest to `word` if its spelling is similar.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = candidates.map(|candidate| (distance(word, candidate), candidate)).min()?;
    let (distance, candidate) = nearest;
    (distance <= 1 + word.chars().count() / 4).then_some(candidate)
}

/// Returns the optimal string alignment distance: the number of insertions, deletions,
/// substitutions and transpositions of adjacent letters.
fn distance(first: &str, second: &str) -> usize {
    let first: Vec<char> = first.chars().collect();
    let second: Vec<char> = second.chars().collect();
    let mut rows: [Vec<usize>; 2] = [Vec::new(), (0..=second.len()).collect()];
    for (row_index, letter) in first.iter().enumerate() {
        let mut row = vec![row_index + 1];
        for (column, other_letter) in second.iter().enumerate() {
            let [before, last] = &rows;
            let cell =
                |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let mut minimum = (cell(last, column) + usize::from(letter != other_letter))
                .min(cell(last, column + 1) + 1)
                .min(cell(&row, column) + 1);
            let letter_before = row_index.checked_sub(1).and_then(|row_index| first.get(row_index));
            let other_letter_before = column.checked_sub(1).and_then(|column| second.get(column));
            if letter_before == Some(other_letter) && other_letter_before == Some(letter) {
                minimum = minimum.min(cell(before, column.wrapping_sub(1)) + 1);
            }
            row.push(minimum);
        }
        let [_, last] = rows;
        rows = [last, row];
    }
    let [_, last] = rows;
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_similar_key_is_suggested() {
        let suggested_key = |unknown: &str| {
            let message =
                format!("unknown field `{unknown}`, expected one of `root`, `listen-tls`");
            suggestion(&message).map(str::to_owned)
        };
        assert_eq!(suggested_key("rot").as_deref(), Some("root"));
        assert_eq!(suggested_key("orot").as_deref(), Some("root"));
        assert_eq!(suggested_key("listen_tls").as_deref(), Some("listen-tls"));
        assert_eq!((suggested_key("banner"), suggestion("expected a table")), (None, None));
    }

    proptest! {
        #[test]
        fn the_distance_is_symmetric_and_zero_for_equal_words(first in ".{0,12}", second in ".{0,12}") {
            prop_assert_eq!(distance(&first, &second), distance(&second, &first));
            prop_assert_eq!(distance(&first, &first), 0);
            prop_assert_eq!(distance(&first, ""), first.chars().count());
        }
    }
}
