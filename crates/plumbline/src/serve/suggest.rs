//! Suggestions for misspelled configuration keys.

use anyhow::anyhow;

/// Returns the error message of a TOML error. For an unknown key it suggests the nearest known key.
pub(super) fn explained(error: &toml::de::Error) -> anyhow::Error {
    let text = error.to_string();
    let text = text.trim_end();
    match meant(error.message()) {
        Some(meant) => anyhow!("{text}\ndid you mean '{meant}'?"),
        None => anyhow!("{text}"),
    }
}

/// Returns the nearest expected key if it is close enough to the unknown one.
fn meant(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, expected) = rest.split_once('`')?;
    let known = expected.split('`').skip(1).step_by(2);
    let near = known.map(|known| (distance(unknown, known), known)).min()?;
    let (distance, known) = near;
    (distance <= 1 + unknown.chars().count() / 4).then_some(known)
}

/// Returns the optimal string alignment distance: the number of insertions, deletions,
/// substitutions and transpositions of adjacent letters.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: [Vec<usize>; 2] = [Vec::new(), (0..=other.len()).collect()];
    for (at, letter) in one.iter().enumerate() {
        let mut row = vec![at + 1];
        for (place, wanted) in other.iter().enumerate() {
            let [before, last] = &rows;
            let cell =
                |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX - 1);
            let mut least = (cell(last, place) + usize::from(letter != wanted))
                .min(cell(last, place + 1) + 1)
                .min(cell(&row, place) + 1);
            let letter_before = at.checked_sub(1).and_then(|at| one.get(at));
            let wanted_before = place.checked_sub(1).and_then(|place| other.get(place));
            if letter_before == Some(wanted) && wanted_before == Some(letter) {
                least = least.min(cell(before, place.wrapping_sub(1)) + 1);
            }
            row.push(least);
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
    fn the_nearest_key_is_told_and_a_far_one_is_not() {
        let told = |unknown: &str| {
            let message =
                format!("unknown field `{unknown}`, expected one of `root`, `listen-tls`");
            meant(&message).map(str::to_owned)
        };
        assert_eq!(told("rot").as_deref(), Some("root"));
        assert_eq!(told("orot").as_deref(), Some("root"));
        assert_eq!(told("listen_tls").as_deref(), Some("listen-tls"));
        assert_eq!((told("banner"), meant("expected a table")), (None, None));
    }

    proptest! {
        #[test]
        fn a_distance_is_the_same_both_ways_and_none_to_itself(one in ".{0,12}", other in ".{0,12}") {
            prop_assert_eq!(distance(&one, &other), distance(&other, &one));
            prop_assert_eq!(distance(&one, &one), 0);
            prop_assert_eq!(distance(&one, ""), one.chars().count());
        }
    }
}
