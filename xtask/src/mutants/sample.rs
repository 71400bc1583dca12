//! The seeded sample of the mutants of one directory.

use super::mutant::Mutant;
use super::points;
use crate::project_files::File;
use anyhow::{Result, ensure};

/// The mutants that a run uses.
#[derive(Debug)]
pub(super) struct Sample {
    /// The mutants; the number of a mutant is its index plus one.
    pub(super) mutants: Vec<Mutant>,
    /// Number of all possible mutants of the directory.
    pub(super) possible: usize,
}

/// Returns `count` mutants of the files under `directory`, selected by `seed`.
pub(super) fn draw(files: &[File], directory: &str, seed: u64, count: usize) -> Result<Sample> {
    let mut mutants = Vec::new();
    let mut test_modules = Vec::new();
    let prefix = format!("{directory}/");
    for file in files {
        if file.path.starts_with(&prefix) && file.path.ends_with(".rs") {
            let points = points::of_file(&file.path, &file.text)?;
            mutants.extend(points.mutants);
            test_modules.extend(points.test_modules);
        }
    }
    let is_test = |path: &str| {
        test_modules.iter().any(|module| {
            path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    mutants.retain(|mutant| !is_test(&mutant.path));
    ensure!(!mutants.is_empty(), "{directory} has no code that can be mutated");
    mutants.sort_by(|one, other| order(one).cmp(&order(other)));
    let possible = mutants.len();
    shuffle(&mut mutants, seed);
    mutants.truncate(count);
    mutants.sort_by(|one, other| order(one).cmp(&order(other)));
    Ok(Sample { mutants, possible })
}

fn order(mutant: &Mutant) -> (&str, usize, usize, &str) {
    (&mutant.path, mutant.range.start, mutant.range.end, &mutant.description)
}

/// Shuffles `items` with the generator SplitMix64.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let random = mixed ^ (mixed >> 31);
        let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
        items.swap(last, usize::try_from(random % bound).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_seed_always_selects_the_same_mutants_and_never_tests() {
        let files = [
            file("a/mod.rs", "#[cfg(test)] mod tests; fn f() -> u8 { 1 + 2 + 3 + 4 + 5 + 6 }"),
            file("a/tests.rs", "fn g() -> u8 { 7 }"),
            file("a/tests/more.rs", "fn g() -> u8 { 7 }"),
            file("b.rs", "fn g() -> u8 { 7 }"),
        ];
        let drawn = |seed| {
            let sample = draw(&files, "a", seed, 4).unwrap();
            assert_eq!(sample.possible, 11);
            sample.mutants.into_iter().map(|it| it.description).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1).len(), 4);
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
