//! Selection of transfers by the times, names and keywords of the command line.

use crate::heading;
use records::calendar::{NS_PER_DAY, day_start_unix_ns};
use records::store::{DivisionAxis, Filter, TransferContent};
use records::transfer::{Command, Field, Outcome, Role};

const NS_PER_S: u64 = 1_000_000_000;

/// Arguments that select transfers.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Selection {
    /// Only transfers that began at this time or later: 2026-11-01, 2026-11-01T12:30 (UTC), or
    /// 90m, 12h, 7d ago
    #[arg(long, value_name = "time", help_heading = heading::SELECTION, value_parser = parse_when)]
    since: Option<When>,
    /// Only transfers that began before this time
    #[arg(long, value_name = "time", help_heading = heading::SELECTION, value_parser = parse_when)]
    until: Option<When>,
    /// Only transfers with this remote host; * matches any characters
    #[arg(long, value_name = "name", help_heading = heading::SELECTION)]
    host: Option<String>,
    /// Only transfers of this user; * matches any characters
    #[arg(long, value_name = "name", help_heading = heading::SELECTION)]
    user: Option<String>,
    /// Only transfers in which this machine was the client (user) or the server
    #[arg(long, value_name = "user|server", value_parser = parse_role,
          help_heading = heading::SELECTION)]
    role: Option<Role>,
    /// Only transfers by these commands, separated by commas: RETR, STOR, APPE, TFTP-RRQ, ...; by
    /// default all commands that transfer files, but not LIST, NLST and MLSD
    #[arg(long, value_name = "command", value_delimiter = ',', value_parser = parse_command,
          help_heading = heading::SELECTION)]
    command: Vec<Command>,
    /// Only transfers with these outcomes, separated by commas: complete, refused, timeout, disk,
    /// aborted-by-peer, ..., or all [default: complete]
    #[arg(long, value_name = "outcome", value_delimiter = ',', value_parser = parse_outcome,
          help_heading = heading::SELECTION)]
    outcome: Vec<AnyOutcome>,
}

/// A point in time, absolute or relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Nanoseconds of Unix time.
    At(u64),
    /// Nanoseconds before now.
    Ago(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnyOutcome {
    All,
    One(Outcome),
}

impl Selection {
    /// Returns the filter for the current time `now_unix_ns`.
    pub(super) fn filter(&self, now_unix_ns: u64) -> Filter {
        let to_unix_ns = |when: Option<When>| {
            when.map(|when| match when {
                When::At(unix_ns) => unix_ns,
                When::Ago(ns) => now_unix_ns.saturating_sub(ns),
            })
        };
        let single_outcome = |outcome: &AnyOutcome| match outcome {
            AnyOutcome::One(outcome) => Some(*outcome),
            AnyOutcome::All => None,
        };
        let outcomes = match self.outcome.as_slice() {
            [] => vec![Outcome::Complete],
            some if some.contains(&AnyOutcome::All) => Vec::new(),
            some => some.iter().filter_map(single_outcome).collect(),
        };
        Filter {
            since_unix_ns: to_unix_ns(self.since),
            until_unix_ns: to_unix_ns(self.until),
            host: self.host.clone(),
            user: self.user.clone(),
            role: self.role,
            commands: self.command.clone(),
            outcomes,
            // With --command, listings are selected too if their command is named.
            content: self.command.is_empty().then_some(TransferContent::Files),
        }
    }
}

fn parse_when(text: &str) -> Result<When, String> {
    let expected =
        || "use a day such as 2026-11-01, a time such as 2026-11-01T12:30, or 90m, 12h or 7d";
    let ago = |number: &str, unit_ns: u64| {
        let number: u64 = number.parse().ok()?;
        number.checked_mul(unit_ns).map(When::Ago)
    };
    let time = match text.as_bytes() {
        [.., b'm'] => text.strip_suffix('m').and_then(|number| ago(number, 60 * NS_PER_S)),
        [.., b'h'] => text.strip_suffix('h').and_then(|number| ago(number, 3_600 * NS_PER_S)),
        [.., b'd'] => text.strip_suffix('d').and_then(|number| ago(number, NS_PER_DAY)),
        _ => parse_moment(text).map(When::At),
    };
    time.ok_or_else(|| expected().to_owned())
}

/// Parses `2026-11-01`, and with a time `2026-11-01T12:30` or `2026-11-01T12:30:15Z`.
fn parse_moment(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let mut parts = date.split('-');
    let year = parts.next()?;
    let month = parts.next()?;
    let day = parts.next()?;
    let began = day_start_unix_ns(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)?;
    let mut parts_of_time = time.trim_end_matches('Z').split(':');
    let mut next_part = |limit: u64| match parts_of_time.next() {
        None => Some(0),
        Some(text) => text.parse().ok().filter(|number| *number < limit),
    };
    let seconds = next_part(24)? * 3_600 + next_part(60)? * 60 + next_part(60)?;
    let is_complete = parts.next().is_none() && parts_of_time.next().is_none();
    is_complete.then_some(began + seconds * NS_PER_S)
}

fn keywords<Keyword: Copy>(all: &[Keyword], text: fn(Keyword) -> &'static str) -> String {
    all.iter().map(|keyword| text(*keyword)).collect::<Vec<_>>().join(", ")
}

fn parse_role(text: &str) -> Result<Role, String> {
    let role = Role::from_text(&text.to_lowercase());
    role.ok_or_else(|| format!("use one of {}", keywords(Role::ALL, Role::text)))
}

fn parse_command(text: &str) -> Result<Command, String> {
    let command = Command::from_text(&text.to_uppercase());
    command.ok_or_else(|| format!("use one of {}", keywords(Command::ALL, Command::text)))
}

fn parse_outcome(text: &str) -> Result<AnyOutcome, String> {
    if text == "all" {
        return Ok(AnyOutcome::All);
    }
    let outcome = Outcome::from_text(&text.to_lowercase()).map(AnyOutcome::One);
    let expected = || format!("use one of {} or all", keywords(Outcome::ALL, Outcome::text));
    outcome.ok_or_else(expected)
}

/// Parses the property by which a table divides the transfers into subsets.
pub(super) fn parse_axis(text: &str) -> Result<DivisionAxis, String> {
    Ok(match text {
        "type" => DivisionAxis::Type,
        "program" | "role" | "direction" => DivisionAxis::Program,
        "host" => DivisionAxis::Host,
        "user" => DivisionAxis::User,
        "day" => DivisionAxis::Day,
        "size" => DivisionAxis::Size,
        "command" => DivisionAxis::Command,
        "outcome" => DivisionAxis::Outcome,
        _ => {
            let expected = "use one of type, program, host, user, day, size, command, outcome";
            return Err(expected.to_owned());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn days_times_and_ages_are_parsed() {
        let day = 20_758 * NS_PER_DAY;
        assert_eq!(parse_when("2026-11-01"), Ok(When::At(day)));
        let noon = When::At(day + 12 * 3_600 * NS_PER_S + 30 * 60 * NS_PER_S);
        assert_eq!(parse_when("2026-11-01T12:30"), Ok(noon));
        assert_eq!(parse_when("2026-11-01 12:30:00Z"), Ok(noon));
        assert_eq!(parse_when("7d"), Ok(When::Ago(7 * NS_PER_DAY)));
    }

    #[test]
    fn an_invalid_time_is_rejected_with_examples() {
        for wrong in ["", "yesterday", "2026-13-01", "2026-11-01T25:00", "-3d", "9999999999999d"] {
            assert!(parse_when(wrong).unwrap_err().contains("2026-11-01"), "{wrong}");
        }
    }

    #[test]
    fn only_complete_transfers_count_unless_others_are_requested() {
        assert_eq!(Selection::default().filter(0).outcomes, [Outcome::Complete]);
        let selection = Selection { outcome: vec![AnyOutcome::All], ..Selection::default() };
        assert_eq!(selection.filter(0).outcomes, []);
        assert_eq!(parse_outcome("disk"), Ok(AnyOutcome::One(Outcome::Disk)));
        assert!(parse_outcome("lost").unwrap_err().contains("aborted-by-peer"));
    }

    proptest! {
        #[test]
        fn printed_times_and_ages_are_parsed_back(
            (year, month, day) in (1970..2200_u16, 1..=12_u8, 1..=28_u8),
            (hour, minute, second) in (0..24_u64, 0..60_u64, 0..60_u64), number in 0..100_000_u64,
        ) {
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
            let began = day_start_unix_ns(year.into(), month, day).unwrap();
            let unix_ns = began + (hour * 3_600 + minute * 60 + second) * NS_PER_S;
            prop_assert_eq!(parse_when(&text), Ok(When::At(unix_ns)));
            for (unit, unit_s) in [("m", 60), ("h", 3_600), ("d", 86_400)] {
                let ago = When::Ago(number * unit_s * NS_PER_S);
                prop_assert_eq!(parse_when(&format!("{number}{unit}")), Ok(ago));
            }
        }
    }
}
