//! Rules that select the names of a mirror: patterns in the order of the command line.
//!
//! The last rule that matches a name decides. A name without a matching rule is selected, but not
//! if the first rule is an include rule. A pattern without a slash matches the last component of a
//! name in any directory. A pattern with a slash matches the whole path below the mirrored
//! directory. A pattern that ends with a slash matches directories only. An excluded directory
//! excludes all its content, and an include pattern that ends with a slash also matches all content
//! of a matching directory.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches};
use protocols::ftp::listing::Pattern;

/// An include or exclude rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    includes: bool,
    pattern: Glob,
    matches_whole_path: bool,
    directories_only: bool,
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
        let (text, directories_only) = match text.strip_suffix('/') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let matches_whole_path = text.contains('/');
        let text = text.strip_prefix('/').unwrap_or(text).as_bytes();
        if text.is_empty() {
            bail!("the pattern is empty");
        }
        let pattern = Pattern::parse(text).map_or_else(|| Glob::Name(text.to_vec()), Glob::Pattern);
        Ok(Self { includes, pattern, matches_whole_path, directories_only })
    }

    /// Returns whether the rule applies to a name. An exclude rule needs no match of the content of a
    /// directory, because the directory itself is not selected.
    fn matches(&self, name: &[u8], is_directory: bool) -> bool {
        let includes_content = self.includes && self.directories_only;
        self.matches_itself(name, is_directory)
            || includes_content
                && directories_above(name).any(|above| self.matches_itself(above, true))
    }

    fn matches_itself(&self, name: &[u8], is_directory: bool) -> bool {
        let part = match self.matches_whole_path {
            true => name,
            false => name.rsplit(|&byte| byte == b'/').next().unwrap_or_default(),
        };
        let is_match = match &self.pattern {
            Glob::Pattern(pattern) => pattern.matches_including_hidden(part),
            Glob::Name(name) => name == part,
        };
        is_match && (is_directory || !self.directories_only)
    }
}

impl Rules {
    /// Returns whether a name itself is selected, regardless of its parent directories.
    pub(super) fn selects(&self, name: &[u8], is_directory: bool) -> bool {
        let last_match = self.0.iter().rev().find(|rule| rule.matches(name, is_directory));
        // A directory may contain selected names even if no rule matches its own name.
        let selects_unmatched = is_directory || self.0.first().is_none_or(|rule| !rule.includes);
        last_match.map_or(selects_unmatched, |rule| rule.includes)
    }

    /// Returns whether a name and all its parent directories are selected.
    pub(super) fn selects_path(&self, name: &[u8], is_directory: bool) -> bool {
        directories_above(name).all(|directory| self.selects(directory, true))
            && self.selects(name, is_directory)
    }

    /// Returns whether the first rule is an include rule. Then only names that match a rule are
    /// selected, and a directory is created only if a file is transferred into it.
    pub(super) fn select_files(&self) -> bool {
        self.0.first().is_some_and(|rule| rule.includes)
    }
}

/// Returns the parent directories of a name, the highest first.
fn directories_above(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| name.get(..at))
}

const INCLUDE: &str = "include";
const EXCLUDE: &str = "exclude";

fn argument(name: &'static str, includes: bool, help: &'static str) -> Arg {
    let rule = move |text: &str| Rule::parse(text, includes);
    Arg::new(name)
        .long(name)
        .value_name("glob")
        .action(ArgAction::Append)
        .value_parser(rule)
        .help(help)
}

// Implemented by hand, because a derived list per argument would lose the order between `--include`
// and `--exclude`.
impl clap::Args for Rules {
    fn augment_args(command: clap::Command) -> clap::Command {
        let include = "Mirror only names that match. A glob that ends with a slash matches \
                       directories with all their contents, any other glob only the names \
                       themselves; repeatable";
        let exclude = "Neither mirror nor delete names that match, and the contents of matching \
                       directories. A glob that ends with a slash matches directories only; \
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
            let positions = matches.indices_of(name).into_iter().flatten();
            rules.extend(
                positions.zip(matches.get_many::<Rule>(name).into_iter().flatten().cloned()),
            );
        }
        rules.sort_by_key(|(position, _)| *position);
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

    fn rules(patterns: &[(&str, bool)]) -> Rules {
        Rules(
            patterns.iter().map(|(text, includes)| Rule::parse(text, *includes).unwrap()).collect(),
        )
    }

    #[test]
    fn the_last_matching_rule_decides() {
        let rules = rules(&[("*.o", false), ("keep.o", true)]);
        let names = ["a.c", "d/a.o", "d/keep.o", ".x.o"];
        let selected = names.map(|name| rules.selects_path(name.as_bytes(), false));
        assert_eq!(selected, [true, false, true, false]);
    }

    #[test]
    fn unmatched_names_are_not_selected_after_a_first_include_rule() {
        let rules = rules(&[("*.c", true)]);
        let files = ["a.c", "d/b.c", "a.h"].map(|name| rules.selects_path(name.as_bytes(), false));
        assert_eq!(files, [true, true, false]);
        assert!(rules.selects_path(b"d", true) && rules.select_files());
    }

    #[test]
    fn an_excluded_directory_excludes_its_content() {
        let rules = rules(&[("build/", false), ("a/b*", false)]);
        assert!(!rules.selects_path(b"x/build/deep/file", false));
        assert!(rules.selects_path(b"x/build", false), "a file of that name is not a directory");
        assert!(!rules.selects_path(b"a/bc", false) && rules.selects_path(b"x/a/bc", false));
    }

    #[test]
    fn an_included_directory_includes_its_content() {
        let rules = rules(&[("d/", true), ("*.o", false)]);
        let names = ["d/a", "x/d/deep/b", "d/a.o", "a", "x/d"];
        let selected = names.map(|name| rules.selects_path(name.as_bytes(), false));
        assert_eq!(selected, [true, true, false, false, false]);
    }

    proptest! {
        #[test]
        fn an_include_rule_selects_the_files_that_an_exclude_rule_rejects(
            text in "[a-c*?/\\[\\]!.-]{0,12}", name: Vec<u8>
        ) {
            // An include rule for a directory also selects its content.
            prop_assume!(!text.ends_with('/'));
            if let Ok(rule) = Rule::parse(&text, true) {
                let exclude = Rules(vec![Rule { includes: false, ..rule.clone() }]);
                let include = Rules(vec![rule]);
                prop_assert_ne!(include.selects(&name, false), exclude.selects(&name, false));
            }
        }
    }
}
