//! The command line that most benchmarks share.

use crate::files;
use crate::sessions::SessionLoad;
use crate::typing::Amount;
use crate::usage::USAGE;
use anyhow::{Context, Result, bail};
use std::ops::RangeInclusive;

/// Options of the benchmarks, except of those that parse their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) amount: Amount,
    /// Substrings of the labels of the paths to measure; all paths if empty.
    pub(crate) paths: Vec<String>,
    /// Lowest display rate of a flood, in bytes per second.
    pub(crate) min_display_rate: u64,
    pub(crate) session_load: SessionLoad,
    /// Number of transfers in the store.
    pub(crate) records: usize,
    pub(crate) files: files::Amount,
    pub(crate) two_cores: bool,
    pub(crate) as_json: bool,
}

/// Parses the arguments after the name of the benchmark.
pub(crate) fn parse(arguments: &[&str]) -> Result<Options> {
    let amount = Amount { rounds: 7, keys: 200, screenfuls: 5, megabytes: 100 };
    let session_load = SessionLoad { sessions: 1000, seconds: 10 };
    let mut options = Options {
        amount,
        paths: Vec::new(),
        min_display_rate: 0,
        session_load,
        records: 10_000_000,
        files: files::Amount::default(),
        two_cores: false,
        as_json: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match *word {
            "--rounds" => {
                options.amount.rounds = number(words.next(), 1..=1000)?;
                options.files.rounds = options.amount.rounds;
            }
            // The line buffer of a terminal holds 4095 characters.
            "--keys" => options.amount.keys = number(words.next(), 10..=3000)?,
            "--megabytes" => options.amount.megabytes = number(words.next(), 1..=1000)?,
            "--path" => options.paths.push((*words.next().context(USAGE)?).to_owned()),
            "--slowest" => {
                options.min_display_rate = 1000 * number(words.next(), 1..=30_000)? as u64;
            }
            "--sessions" => options.session_load.sessions = number(words.next(), 1..=4000)?,
            "--seconds" => options.session_load.seconds = number(words.next(), 1..=1000)?,
            "--records" => options.records = number(words.next(), 1_000..=1_000_000_000)?,
            "--rows" => {
                let names = words.next().context(USAGE)?.split(',').map(str::to_owned);
                options.files.rows.extend(names);
            }
            "--size" => options.files.size_mib = number(words.next(), 4..=8192)?.try_into()?,
            "--files" => options.files.files = number(words.next(), 20..=99_999)?.try_into()?,
            "--logins" => options.files.logins = number(words.next(), 2..=19_000)?,
            "--two-cores" => options.two_cores = true,
            "--json" => options.as_json = true,
            _ => bail!("unknown argument '{}'\n{USAGE}", word.escape_debug()),
        }
    }
    Ok(options)
}

fn number(word: Option<&&str>, allowed: RangeInclusive<usize>) -> Result<usize> {
    let number = word.and_then(|word| word.parse().ok()).filter(|number| allowed.contains(number));
    number.with_context(|| {
        format!("expected a number from {} to {}\n{USAGE}", allowed.start(), allowed.end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let options = parse(&["--json", "--keys", "50", "--rounds", "9", "--two-cores"]).unwrap();
        assert_eq!((options.amount.keys, options.amount.rounds), (50, 9));
        assert!(options.as_json && options.two_cores);
    }

    #[test]
    fn unknown_options_and_invalid_numbers_are_rejected() {
        let error = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert_eq!(error(&["--fast"]), format!("unknown argument '--fast'\n{USAGE}"));
        for wrong in [&["--keys"][..], &["--keys", "x"], &["--keys", "9"], &["--keys", "3001"]] {
            let expected = format!("expected a number from 10 to 3000\n{USAGE}");
            assert_eq!(error(wrong), expected, "{wrong:?}");
        }
        assert_eq!(parse(&["--keys", "10"]).unwrap().amount.keys, 10);
    }
}
