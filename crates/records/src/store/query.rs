//! Queries: subsets of transfers and their aggregates, and the transfers themselves.
//!
//! An aggregate comes from the roll-ups if the time range is in whole days, and the query uses at
//! most one of host, user and size. Otherwise the narrow rows are read, which takes some seconds
//! for ten million rows. Both sources give exactly the same result.

use super::database::Store;
use super::narrow_row::{NARROW_COLUMNS, RowKey, split_narrow_row};
use super::rollup::{Cell, UNKNOWN_DAY, UNKNOWN_SIZE, View};
use super::store_error::StoreError;
use crate::aggregate::Aggregate;
use crate::calendar::NS_PER_DAY;
use crate::transfer::{Command, Outcome, Role, Transfer, Type, compact};
use rusqlite::{Row, params_from_iter};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Conditions on transfers; the default matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Start time at or after this, ns of Unix time.
    pub since_unix_ns: Option<u64>,
    /// Start time before this, ns of Unix time.
    pub until_unix_ns: Option<u64>,
    /// Remote host, where `*` matches any sequence of characters.
    pub host: Option<String>,
    /// User, where `*` matches any sequence of characters.
    pub user: Option<String>,
    /// Program that wrote the record.
    pub role: Option<Role>,
    /// Commands; empty means all.
    pub commands: Vec<Command>,
    /// Outcomes; empty means all.
    pub outcomes: Vec<Outcome>,
    /// Kind of data transferred.
    pub content: Option<TransferContent>,
}

/// Kind of data that a transfer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferContent {
    /// Files and mail.
    Files,
    /// Directory listings.
    Listings,
}

impl TransferContent {
    /// Returns whether the command with this code transfers data of kind `self`.
    fn includes_command(self, code: u8) -> bool {
        let is_listing = Command::from_code(code).is_some_and(Command::is_listing);
        is_listing == (self == Self::Listings)
    }
}

/// Property by which transfers are divided into subsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DivisionAxis {
    /// No division.
    All,
    /// Representation type and byte size.
    Type,
    /// The program, and whether it sent or received.
    Program,
    /// As in RFC 594: get or send, byte size, type.
    Operation,
    /// Remote host.
    Host,
    /// User.
    User,
    /// Day in UTC.
    Day,
    /// Number of binary digits of the number of bits.
    Size,
    /// Command.
    Command,
    /// Outcome.
    Outcome,
}

/// Identity of a subset; unknown properties are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// All transfers.
    All,
    /// Representation type and byte size.
    Type(Option<Type>, Option<u64>),
    /// The program, and whether it sent.
    Program(Option<Role>, Option<bool>),
    /// Whether the user received the file, byte size and type.
    Operation(Option<bool>, Option<u64>, Option<Type>),
    /// Remote host.
    Host(Option<Vec<u8>>),
    /// User.
    User(Option<Vec<u8>>),
    /// Start of the day, ns of Unix time.
    Day(Option<u64>),
    /// Number of binary digits of the number of bits.
    Size(Option<u32>),
    /// Command.
    Command(Option<Command>),
    /// Outcome.
    Outcome(Option<Outcome>),
}

/// A subset of transfers and its aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subset {
    /// Property value that the transfers share.
    pub key: Key,
    /// Aggregate of the transfers.
    pub aggregate: Aggregate,
}

/// Source of an aggregate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The roll-ups if they suffice, otherwise the records.
    #[default]
    Fastest,
    /// The records.
    Records,
}

/// A filter with its name patterns resolved to string numbers.
struct Resolved<'a> {
    filter: &'a Filter,
    hosts: Option<BTreeSet<u32>>,
    users: Option<BTreeSet<u32>>,
}

/// Sort key of a subset within its axis.
type Group = [u32; 3];

impl Store {
    /// Returns the nonempty subsets of each of `axes`, in order of their keys.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn subsets(
        &self,
        filter: &Filter,
        axes: &[DivisionAxis],
        source: Source,
    ) -> Result<Vec<Vec<Subset>>, StoreError> {
        let resolved = self.resolve(filter)?;
        let mut groups: Vec<BTreeMap<Group, Aggregate>> = vec![BTreeMap::new(); axes.len()];
        for view in [Some(View::Class), Some(View::Host), Some(View::User), None] {
            let is_of_view = |axis: &DivisionAxis| resolved.view(*axis, source) == view;
            let mut axis_groups: Vec<(DivisionAxis, &mut BTreeMap<Group, Aggregate>)> = axes
                .iter()
                .copied()
                .zip(&mut groups)
                .filter(|(axis, _)| is_of_view(axis))
                .collect();
            match view {
                _ if axis_groups.is_empty() => {}
                Some(view) => self.add_cells(view, &resolved, &mut axis_groups)?,
                None => self.add_rows(&resolved, &mut axis_groups)?,
            }
        }
        let strings =
            if axes.iter().any(|axis| matches!(axis, DivisionAxis::Host | DivisionAxis::User)) {
                self.strings()?
            } else {
                BTreeMap::new()
            };
        let subsets = axes.iter().zip(groups).map(|(axis, groups)| {
            let subset =
                |(group, aggregate)| Subset { key: key(*axis, group, &strings), aggregate };
            groups.into_iter().map(subset).collect()
        });
        Ok(subsets.collect())
    }

    /// Returns the newest `count` transfers with their numbers, in ascending order of their start.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn newest(
        &self,
        filter: &Filter,
        count: usize,
    ) -> Result<Vec<(u64, Transfer)>, StoreError> {
        let mut transfers = Vec::new();
        let order = format!("ORDER BY start_unix_ns DESC, t.id DESC LIMIT {count}");
        self.each(filter, &order, |id, transfer| {
            transfers.push((id, transfer));
            Ok::<_, StoreError>(())
        })?;
        transfers.reverse();
        Ok(transfers)
    }

    /// Passes every matching transfer with its number to `callback`, in the order in which they
    /// were added.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, and the error of `callback`.
    pub fn for_each<E: From<StoreError>>(
        &self,
        filter: &Filter,
        callback: impl FnMut(u64, Transfer) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(filter, "ORDER BY t.id", callback)
    }

    /// Returns the transfer with the number `id`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub fn transfer(&self, id: u64) -> Result<Option<Transfer>, StoreError> {
        let mut select =
            self.connection.prepare_cached("SELECT record FROM detail WHERE id = ?1")?;
        let mut rows = select.query([id.cast_signed()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        decoded(row, 0).map(Some)
    }

    fn each<E: From<StoreError>>(
        &self,
        filter: &Filter,
        order: &str,
        mut callback: impl FnMut(u64, Transfer) -> Result<(), E>,
    ) -> Result<(), E> {
        let (conditions, values) = self.resolve(filter)?.conditions();
        let select = format!(
            "SELECT t.id, d.record FROM transfer t JOIN detail d ON d.id = t.id
             WHERE {conditions} {order}"
        );
        let mut select = self.connection.prepare(&select).map_err(StoreError::from)?;
        let mut rows = select.query(params_from_iter(values)).map_err(StoreError::from)?;
        while let Some(row) = rows.next().map_err(StoreError::from)? {
            let id = row.get::<_, i64>(0).map_err(StoreError::from)?;
            callback(id.cast_unsigned(), decoded(row, 1)?)?;
        }
        Ok(())
    }

    fn resolve<'a>(&self, filter: &'a Filter) -> Result<Resolved<'a>, StoreError> {
        let strings = match (&filter.host, &filter.user) {
            (None, None) => BTreeMap::new(),
            _ => self.strings()?,
        };
        let numbers = |pattern: &Option<String>| {
            pattern.as_ref().map(|pattern| {
                let is_match = |(_, string): &(&u32, &Vec<u8>)| {
                    matches_pattern(pattern.as_bytes(), string.as_slice())
                };
                strings.iter().filter(is_match).map(|(number, _)| *number).collect()
            })
        };
        Ok(Resolved { filter, hosts: numbers(&filter.host), users: numbers(&filter.user) })
    }

    fn strings(&self) -> Result<BTreeMap<u32, Vec<u8>>, StoreError> {
        let mut select = self.connection.prepare_cached("SELECT id, text FROM word")?;
        let strings = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(strings.collect::<Result<_, _>>()?)
    }

    fn add_cells(
        &self,
        view: View,
        resolved: &Resolved<'_>,
        axis_groups: &mut [(DivisionAxis, &mut BTreeMap<Group, Aggregate>)],
    ) -> Result<(), StoreError> {
        let select = "SELECT key, tally FROM rollup WHERE view = ?1";
        let mut select = self.connection.prepare_cached(select)?;
        let mut rows = select.query([view as u8])?;
        while let Some(row) = rows.next()? {
            let blob = |at| row.get_ref(at)?.as_blob().map_err(|_| StoreError::Damaged);
            let cell = Cell::from_key(view, blob(0)?).ok_or(StoreError::Damaged)?;
            let (host, user) = match view {
                View::Class => (0, 0),
                View::Host => (cell.owner, 0),
                View::User => (0, cell.owner),
            };
            let row_key = RowKey { class: cell.class, host, user };
            if !resolved.is_match(&row_key) {
                continue;
            }
            let aggregate = blob(1)?;
            for (axis, groups) in axis_groups.iter_mut() {
                let sum = groups.entry(group(*axis, &row_key)).or_default();
                sum.merge_encoded(aggregate).ok_or(StoreError::Damaged)?;
            }
        }
        Ok(())
    }

    fn add_rows(
        &self,
        resolved: &Resolved<'_>,
        axis_groups: &mut [(DivisionAxis, &mut BTreeMap<Group, Aggregate>)],
    ) -> Result<(), StoreError> {
        let (conditions, values) = resolved.conditions();
        let select = format!("SELECT {NARROW_COLUMNS} FROM transfer t WHERE {conditions}");
        let mut select = self.connection.prepare(&select)?;
        let mut rows = select.query(params_from_iter(values))?;
        while let Some(row) = rows.next()? {
            let (row_key, measures) = split_narrow_row(row)?;
            let id = row.get::<_, i64>(0)?.cast_unsigned();
            for (axis, groups) in axis_groups.iter_mut() {
                groups.entry(group(*axis, &row_key)).or_default().add(id, &measures);
            }
        }
        Ok(())
    }
}

impl Resolved<'_> {
    /// Returns the view that can answer a query by `axis`, or `None` if the records are needed.
    fn view(&self, axis: DivisionAxis, source: Source) -> Option<View> {
        let is_whole = |time: Option<u64>| time.is_none_or(|ns| ns.is_multiple_of(NS_PER_DAY));
        let Filter { since_unix_ns, until_unix_ns, .. } = self.filter;
        if source == Source::Records || !is_whole(*since_unix_ns) || !is_whole(*until_unix_ns) {
            return None;
        }
        let by_host = self.hosts.is_some() || axis == DivisionAxis::Host;
        let by_user = self.users.is_some() || axis == DivisionAxis::User;
        match (by_host, by_user) {
            (false, false) => Some(View::Class),
            _ if axis == DivisionAxis::Size => None,
            (true, false) => Some(View::Host),
            (false, true) => Some(View::User),
            (true, true) => None,
        }
    }

    /// Returns whether a cell matches; time limits are whole days.
    fn is_match(&self, row_key: &RowKey) -> bool {
        let Filter { since_unix_ns, until_unix_ns, role, commands, outcomes, content, .. } =
            self.filter;
        let class = &row_key.class;
        let start = || u64::from(class.day).saturating_mul(NS_PER_DAY);
        let has_day =
            class.day != UNKNOWN_DAY || (since_unix_ns.is_none() && until_unix_ns.is_none());
        let is_one_of = |set: &Option<BTreeSet<u32>>, number| {
            set.as_ref().is_none_or(|set| set.contains(&number))
        };
        has_day
            && since_unix_ns.is_none_or(|since| start() >= since)
            && until_unix_ns.is_none_or(|until| start() < until)
            && role.is_none_or(|role| role.code() == class.role)
            && (commands.is_empty() || commands.iter().any(|one| one.code() == class.command))
            && content.is_none_or(|content| content.includes_command(class.command))
            && (outcomes.is_empty() || outcomes.iter().any(|one| one.code() == class.outcome))
            && is_one_of(&self.hosts, row_key.host)
            && is_one_of(&self.users, row_key.user)
    }

    /// Returns the SQL conditions for rows `t` of `transfer`, and their values.
    fn conditions(&self) -> (String, Vec<i64>) {
        let mut text = "1".to_owned();
        let mut values = Vec::new();
        let Filter { since_unix_ns, until_unix_ns, role, commands, outcomes, content, .. } =
            self.filter;
        for (time, condition) in [
            (since_unix_ns, " AND t.start_unix_ns >= ?"),
            (until_unix_ns, " AND t.start_unix_ns < ?"),
        ] {
            if let Some(ns) = time {
                text.push_str(condition);
                values.push(i64::try_from(*ns).unwrap_or(i64::MAX));
            }
        }
        let mut any_of = |column: &str, numbers: &mut dyn Iterator<Item = u32>| {
            let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
            // Writing to a String cannot fail.
            let _ = write!(text, " AND t.{column} IN ({})", numbers.join(","));
        };
        if let Some(role) = role {
            any_of("role", &mut std::iter::once(role.code().into()));
        }
        if !commands.is_empty() {
            any_of("command", &mut commands.iter().map(|command| command.code().into()));
        }
        if let Some(content) = content {
            // Transfers of an unknown command are not listings.
            let all = std::iter::once(0).chain(Command::ALL.iter().map(|one| one.code()));
            any_of(
                "command",
                &mut all.filter(|code| content.includes_command(*code)).map(u32::from),
            );
        }
        if !outcomes.is_empty() {
            any_of("outcome", &mut outcomes.iter().map(|outcome| outcome.code().into()));
        }
        for (column, numbers) in [("host", &self.hosts), ("user", &self.users)] {
            if let Some(numbers) = numbers {
                any_of(column, &mut numbers.iter().copied());
            }
        }
        (text, values)
    }
}

fn decoded(row: &Row<'_>, at: usize) -> Result<Transfer, StoreError> {
    let bytes = row.get_ref(at)?.as_blob().map_err(|_| StoreError::Damaged)?;
    compact::decode(bytes).ok_or(StoreError::Damaged)
}

/// Returns the sort key of the subset by `axis` that `row_key` is in; unknown values come last.
fn group(axis: DivisionAxis, row_key: &RowKey) -> Group {
    let RowKey { class, host, user } = row_key;
    let last = |code: u8| if code == 0 { u32::MAX } else { code.into() };
    let command = Command::from_code(class.command);
    let to_server = command.map_or(u32::MAX, |command| command.is_to_server().into());
    match axis {
        DivisionAxis::All => [0; 3],
        DivisionAxis::Type => [last(class.representation), class.byte_size.into(), 0],
        DivisionAxis::Program => {
            let is_sent = Role::from_code(class.role)
                .and_then(|role| Some(command?.is_sent_by(role)))
                .map_or(u32::MAX, |is_sent| (!is_sent).into());
            [last(class.role), is_sent, 0]
        }
        DivisionAxis::Operation => [class.byte_size.into(), last(class.representation), to_server],
        DivisionAxis::Host => [*host, 0, 0],
        DivisionAxis::User => [*user, 0, 0],
        DivisionAxis::Day => [class.day, 0, 0],
        DivisionAxis::Size if class.size == UNKNOWN_SIZE => [u32::MAX, 0, 0],
        DivisionAxis::Size => [class.size.into(), 0, 0],
        DivisionAxis::Command => [last(class.command), 0, 0],
        DivisionAxis::Outcome => [last(class.outcome), 0, 0],
    }
}

/// Returns the subset by `axis` that a sort key identifies.
fn key(axis: DivisionAxis, group: Group, strings: &BTreeMap<u32, Vec<u8>>) -> Key {
    let [first, second, third] = group;
    let code = |number: u32| u8::try_from(number).unwrap_or(0);
    let flag = |number: u32| (number < 2).then_some(number == 1);
    let bits = |number: u32| (number > 0).then(|| number.into());
    match axis {
        DivisionAxis::All => Key::All,
        DivisionAxis::Type => Key::Type(Type::from_code(code(first)), bits(second)),
        DivisionAxis::Program => Key::Program(
            Role::from_code(code(first)),
            flag(second).map(|is_receiving| !is_receiving),
        ),
        DivisionAxis::Operation => Key::Operation(
            flag(third).map(|to_server| !to_server),
            bits(first),
            Type::from_code(code(second)),
        ),
        DivisionAxis::Host => Key::Host(strings.get(&first).cloned()),
        DivisionAxis::User => Key::User(strings.get(&first).cloned()),
        DivisionAxis::Day => {
            Key::Day((first != UNKNOWN_DAY).then(|| u64::from(first) * NS_PER_DAY))
        }
        DivisionAxis::Size => Key::Size((first != u32::MAX).then_some(first)),
        DivisionAxis::Command => Key::Command(Command::from_code(code(first))),
        DivisionAxis::Outcome => Key::Outcome(Outcome::from_code(code(first))),
    }
}

/// Returns whether `name` matches `pattern`, where `*` matches any bytes.
fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let Some(mut rest) = parts.next().and_then(|head| name.strip_prefix(head)) else {
        return false;
    };
    let parts: Vec<&[u8]> = parts.collect();
    let Some((tail, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle.iter().filter(|part| !part.is_empty()) {
        let position = rest.windows(part.len()).position(|window| window == *part);
        let Some(after) = position.and_then(|at| rest.get(at + part.len()..)) else { return false };
        rest = after;
    }
    rest.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches_pattern;

    #[test]
    fn an_asterisk_is_the_only_wildcard() {
        let is_match =
            |pattern: &str, name: &str| matches_pattern(pattern.as_bytes(), name.as_bytes());
        assert!(is_match("mit-ml", "mit-ml") && is_match("mit-*", "mit-ml"));
        assert!(is_match("*", "") && is_match("*ten*a", "bbn-tenexa") && is_match("a*a", "aa"));
        assert!(!is_match("mit", "mit-ml") && !is_match("a*a", "a") && !is_match("*b", "abc"));
        assert!(!is_match("", "x") && !is_match("a?c", "abc"));
    }
}
