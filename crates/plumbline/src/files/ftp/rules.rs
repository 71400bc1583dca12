//! Rules that select the names of a mirror: patterns in the order of the command line.
//!
//! The last rule that matches a name decides. A name that no rule matches is selected, unless the
//! first rule is an include rule. A pattern without a slash matches the last component of a name in
//! any directory. One with a slash matches the whole path below the mirrored directory. One that
//! ends with a slash matches directories only. An excluded directory excludes all its content.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches};
use protocols::application::ftp::listing::Pattern;

/// An include or exclude rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    includes: bool,
    pattern: Glob,
    of_whole: bool,
    of_folders: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Glob {
    Pattern(Pattern),
    /// A name without wildcards.
    Name(Vec<u8>),
}

/// All rules, in the order of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules(Vec<Rule>);

impl Rule {
    fn parse(text: &str, includes: bool) -> Result<Self> {
        let (text, of_folders) = match text.strip_suffix('/') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let of_whole = text.contains('/');
        let text = text.strip_prefix('/').unwrap_or(text).as_bytes();
        if text.is_empty() {
            bail!("the pattern is empty");
        }
        let pattern = Pattern::parse(text).map_or_else(|| Glob::Name(text.to_vec()), Glob::Pattern);
        Ok(Self { includes, pattern, of_whole, of_folders })
    }

    fn fits(&self, name: &[u8], is_folder: bool) -> bool {
        let part = match self.of_whole {
            true => name,
            false => name.rsplit(|&byte| byte == b'/').next().unwrap_or_default(),
        };
        let fits = match &self.pattern {
            Glob::Pattern(pattern) => pattern.matches_all(part),
            Glob::Name(wanted) => wanted == part,
        };
        fits && (is_folder || !self.of_folders)
    }
}

impl Rules {
    /// Returns whether a name is selected, regardless of the directories above it.
    pub(super) fn takes(&self, name: &[u8], is_folder: bool) -> bool {
        let last = self.0.iter().rev().find(|rule| rule.fits(name, is_folder));
        // A directory may contain selected names even if no rule matches its own name.
        let others = is_folder || self.0.first().is_none_or(|rule| !rule.includes);
        last.map_or(others, |rule| rule.includes)
    }

    /// Returns whether a name and all directories above it are selected.
    pub(super) fn takes_below(&self, name: &[u8], is_folder: bool) -> bool {
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.filter_map(|(at, _)| name.get(..at));
        above.all(|folder| self.takes(folder, true)) && self.takes(name, is_folder)
    }

    /// Returns whether directories are created only for the files in them.
    pub(super) fn are_of_files(&self) -> bool {
        self.0.first().is_some_and(|rule| rule.includes)
    }
}

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";

fn argument(name: &'static str, includes: bool, help: &'static str) -> Arg {
    let rule = move |text: &str| Rule::parse(text, includes);
    Arg::new(name)
        .long(name)
        .value_name("GLOB")
        .action(ArgAction::Append)
        .value_parser(rule)
        .help(help)
}

// A list derived for each argument would lose the order between the two arguments.
impl clap::Args for Rules {
    fn augment_args(command: clap::Command) -> clap::Command {
        let include = "Mirror only names that match or are in matching directories; repeatable";
        let exclude = "Neither mirror nor delete names that match or are in matching directories; \
                       repeatable. Of all --include and --exclude options, the last one that \
                       matches a name decides";
        command.arg(argument(INCLUDE, true, include)).arg(argument(EXCLUDE, false, exclude))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules = Vec::new();
        for name in [INCLUDE, EXCLUDE] {
            let places = matches.indices_of(name).into_iter().flatten();
            rules.extend(places.zip(matches.get_many::<Rule>(name).into_iter().flatten().cloned()));
        }
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(said: &[(&str, bool)]) -> Rules {
        Rules(said.iter().map(|(text, includes)| Rule::parse(text, *includes).unwrap()).collect())
    }

    #[test]
    fn the_last_rule_that_fits_decides() {
        let rules = rules(&[("*.o", false), ("keep.o", true)]);
        let taken = ["a.c", "d/a.o", "d/keep.o", ".x.o"];
        let taken = taken.map(|name| rules.takes_below(name.as_bytes(), false));
        assert_eq!(taken, [true, false, true, false]);
    }

    #[test]
    fn with_a_rule_that_includes_first_what_none_fits_stays() {
        let rules = rules(&[("*.c", true)]);
        let files = ["a.c", "d/b.c", "a.h"].map(|name| rules.takes_below(name.as_bytes(), false));
        assert_eq!(files, [true, true, false]);
        assert!(rules.takes_below(b"d", true) && rules.are_of_files());
    }

    #[test]
    fn with_a_folder_goes_all_that_is_in_it() {
        let rules = rules(&[("build/", false), ("a/b*", false)]);
        assert!(!rules.takes_below(b"x/build/deep/file", false));
        assert!(rules.takes_below(b"x/build", false), "a file of that name is no folder");
        assert!(!rules.takes_below(b"a/bc", false) && rules.takes_below(b"x/a/bc", false));
    }

    proptest! {
        #[test]
        fn no_pattern_and_no_name_break_a_rule(text in "[a-c*?/\\[\\]!.-]{0,12}", name: Vec<u8>) {
            if let Ok(rule) = Rule::parse(&text, false) {
                _ = Rules(vec![rule]).takes_below(&name, false);
            }
        }
    }
}
