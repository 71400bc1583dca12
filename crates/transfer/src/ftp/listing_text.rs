//! Text of a listing, as by `ls`, `ls -l` and `ls -R`.
//!
//! Control characters of a name are replaced, so that the terminal does not receive them.

use super::remote::RemoteEntry;
use super::remote_path::split;
use protocols::ftp::Timestamp;
use protocols::ftp::listing::{Entry, Kind};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Format of a listing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListingFormat {
    /// Whether permissions, owners, sizes and times are printed too.
    pub is_long: bool,
    /// Whether the times are in UTC. The times of LIST have no known time zone.
    pub has_utc_times: bool,
}

/// Returns the lines of a listing.
pub fn listing_text(entries: &[Entry], format: ListingFormat) -> String {
    let rows: Vec<Row> = entries.iter().map(|entry| Row::of(entry, format)).collect();
    if !format.is_long {
        return rows.iter().map(|row| format!("{}\n", row.name)).collect();
    }
    let width = |field: fn(&Row) -> &String| {
        rows.iter().map(|row| field(row).chars().count()).max().unwrap_or(0)
    };
    let owner_width = width(|row| &row.owner);
    let group_width = width(|row| &row.group);
    let size_width = width(|row| &row.size);
    let time_width = width(|row| &row.time);
    let mut text = String::new();
    for Row { mode, owner, group, size, time, name } in &rows {
        text.push_str(mode);
        for (value, width) in [(owner, owner_width), (group, group_width)] {
            if width > 0 {
                // Writing to a `String` cannot fail.
                _ = write!(text, " {value:width$}");
            }
        }
        _ = writeln!(text, " {size:>size_width$} {time:time_width$} {name}");
    }
    text
}

/// Returns the listing of a directory tree: a heading and the entries of each directory.
pub fn tree_text(root: &[u8], found: &[RemoteEntry], format: ListingFormat) -> String {
    let mut directories = BTreeMap::from([(root.to_vec(), Vec::new())]);
    for RemoteEntry { path, entry, .. } in found {
        let directory = split(path).0.to_vec();
        directories.entry(directory).or_insert_with(Vec::new).push(entry.clone());
        if entry.kind == Kind::Directory {
            directories.entry(path.clone()).or_default();
        }
    }
    let sections = directories.into_iter().map(|(directory, mut entries)| {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let heading = if directory.is_empty() { ".".to_owned() } else { printable(&directory) };
        format!("{heading}:\n{}", listing_text(&entries, format))
    });
    sections.collect::<Vec<_>>().join("\n")
}

/// Fields of a line; an unknown field is `-`, and an unknown owner or group is empty.
struct Row {
    mode: String,
    owner: String,
    group: String,
    size: String,
    time: String,
    name: String,
}

impl Row {
    fn of(entry: &Entry, format: ListingFormat) -> Self {
        let suffix = if entry.kind.is_directory() { "/" } else { "" };
        let target = entry.target.as_deref().filter(|_| format.is_long);
        let target = target.map(|target| format!(" -> {}", printable(target))).unwrap_or_default();
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let size = entry.size.filter(|_| !entry.kind.is_directory());
        let zone = if format.has_utc_times { "Z" } else { "" };
        let text = |name: &Option<Vec<u8>>| name.as_deref().map(printable).unwrap_or_default();
        Self {
            mode: mode_text(entry),
            owner: text(&entry.owner),
            group: text(&entry.group),
            size: or_dash(size.map(|size| size.to_string())),
            time: or_dash(entry.modified.map(|time| format!("{}{zone}", time_text(time)))),
            name: format!("{}{suffix}{target}", printable(&entry.name)),
        }
    }
}

fn printable(name: &[u8]) -> String {
    let replaced = |letter: char| if letter.is_control() { '?' } else { letter };
    String::from_utf8_lossy(name).chars().map(replaced).collect()
}

/// Returns the kind and the permissions as by `ls -l`, with `?` for unknown permissions.
fn mode_text(entry: &Entry) -> String {
    let kind = match entry.kind {
        Kind::File => '-',
        Kind::Directory | Kind::Current | Kind::Parent => 'd',
        Kind::Link => 'l',
        Kind::Other => '?',
    };
    let Some(mode) = entry.mode else { return format!("{kind}?????????") };
    let is_set = |bit: u16| mode & bit != 0;
    let mut text = kind.to_string();
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        text.push(if is_set(0o4 << shift) { 'r' } else { '-' });
        text.push(if is_set(0o2 << shift) { 'w' } else { '-' });
        text.push(match (is_set(0o1 << shift), is_set(special)) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Returns a time as `2026-01-02 03:04:05`.
pub fn time_text(time: Timestamp) -> String {
    let civil = time.civil();
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: ListingFormat = ListingFormat { is_long: true, has_utc_times: true };

    fn file(name: &str, size: u64) -> Entry {
        let modified = Timestamp::parse(b"20261121133449");
        Entry {
            name: name.into(),
            kind: Kind::File,
            size: Some(size),
            modified,
            mode: Some(0o644),
            ..Entry::default()
        }
    }

    #[test]
    fn control_characters_of_a_listed_name_are_replaced() {
        let entry = Entry { name: b"a\x1b[2Jb".to_vec(), ..Entry::default() };
        assert_eq!(listing_text(&[entry], ListingFormat::default()), "a?[2Jb\n");
    }

    #[test]
    fn the_columns_of_a_long_listing_are_aligned() {
        let directory = Entry {
            name: b"d".to_vec(),
            kind: Kind::Directory,
            mode: Some(0o1755),
            owner: Some(b"ann".to_vec()),
            ..Entry::default()
        };
        let expected = "-rw-r--r--     7 2026-11-21 13:34:49Z a\n\
                        -rw-r--r--     1200 2026-11-21 13:34:49Z b\n\
                        drwxr-xr-t ann    - -                    d/\n";
        let expected = expected.replace("--     7", "--        7");
        assert_eq!(listing_text(&[file("a", 7), file("b", 1200), directory], LONG), expected);
    }

    #[test]
    fn unknown_permissions_are_question_marks_and_a_link_has_its_target() {
        let link = Entry {
            name: b"l".to_vec(),
            kind: Kind::Link,
            target: Some(b"a/b".to_vec()),
            ..Entry::default()
        };
        assert_eq!(listing_text(&[link], LONG), "l????????? - - l -> a/b\n");
    }

    #[test]
    fn a_tree_has_a_section_for_each_directory_in_order() {
        let entry = |path: &str, entry: Entry| RemoteEntry {
            path: path.into(),
            relative_path: Vec::new(),
            entry,
        };
        let directory = Entry { name: b"d".to_vec(), kind: Kind::Directory, ..Entry::default() };
        let found =
            [entry("p/d", directory), entry("p/d/c", file("c", 1)), entry("p/a", file("a", 1))];
        let text = tree_text(b"p", &found, ListingFormat::default());
        assert_eq!(text, "p:\na\nd/\n\np/d:\nc\n");
    }
}
