//! Listings of the server: the entries that a name denotes, and their output.

use super::command_output::print;
use protocols::ftp::Timestamp;
use protocols::ftp::listing::{Entry, Kind};
use serde_json::json;
use std::fmt::Write as _;
use transfer::escaped;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::{is_pattern, path_in};

/// Returns the entries for a name in a directory: the content of a directory, a file, or all
/// matches of a pattern.
pub(super) async fn entries(
    client: &mut FtpClient,
    directory: &[u8],
    name: &[u8],
) -> Result<Vec<Entry>, FtpError> {
    let path = path_in(directory, name);
    let mut entries = if is_pattern(name) {
        let matches = client.expand_below(directory, name).await?;
        match matches.as_slice() {
            [] => {
                let sentence = format!("nothing on the server matches '{}'", escaped(name));
                return Err(FtpError::NotFound(sentence));
            }
            // The single match is a directory whose name is the pattern itself.
            [single]
                if single.entry.kind.is_directory()
                    && path.strip_suffix(b"/").unwrap_or(&path) == single.path =>
            {
                client.list_recorded(&single.path).await?
            }
            _ => {
                matches.into_iter().map(|found| Entry { name: found.path, ..found.entry }).collect()
            }
        }
    } else if name.is_empty() || name.ends_with(b"/") {
        list_directory(client, &path, None).await?
    } else {
        match client.find_entry(&path).await? {
            Some(entry) if entry.kind == Kind::File => vec![Entry { name: path, ..entry }],
            found => list_directory(client, &path, found.as_ref()).await?,
        }
    };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Lists a directory. `found` is the directory's entry in its parent, if known. Without an entry,
/// an empty listing is checked, because some servers list a missing directory as an empty
/// directory.
async fn list_directory(
    client: &mut FtpClient,
    path: &[u8],
    found: Option<&Entry>,
) -> Result<Vec<Entry>, FtpError> {
    let entries = client.list_recorded(path).await?;
    let is_certain = found.is_some() || path.iter().all(|&byte| byte == b'/');
    let is_silent = entries.is_empty() && client.unparsed.lines == 0 && !client.is_reported_empty;
    if is_silent && !is_certain && !client.advertises("MLST") && !client.is_directory(path).await? {
        let escaped = escaped(path);
        return Err(FtpError::NotFound(format!("there is no directory '{escaped}' on the server")));
    }
    Ok(entries)
}

/// Returns a line for display. Control characters are replaced, so that the terminal does not
/// receive them.
pub(super) fn line(entry: &Entry, is_long: bool) -> String {
    let name: String = String::from_utf8_lossy(&entry.name)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let suffix = if entry.kind.is_directory() { "/" } else { "" };
    if !is_long {
        return format!("{name}{suffix}\n");
    }
    let size = entry.size.filter(|_| !entry.kind.is_directory());
    let size = size.map_or_else(|| "-".to_owned(), |size| size.to_string());
    let time = entry.modified.map_or_else(|| "-".to_owned(), time_text);
    let mode = entry.mode.map_or_else(|| "-".to_owned(), |mode| format!("{mode:04o}"));
    format!("{mode:>4} {size:>14} {time:>19} {name}{suffix}\n")
}

/// Returns a time for display, in UTC.
pub(super) fn time_text(time: Timestamp) -> String {
    let civil = time.civil();
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    _ = write!(
        text,
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
    );
    text
}

/// Returns an entry as JSON.
pub(super) fn as_json(entry: &Entry) -> serde_json::Value {
    json!({
        "name": String::from_utf8_lossy(&entry.name),
        "kind": match entry.kind {
            Kind::File => "file",
            Kind::Directory | Kind::Current | Kind::Parent => "directory",
            Kind::Link => "link",
            Kind::Other => "other",
        },
        "size": entry.size,
        "modified_unix_s": entry.modified.map(|time| time.seconds),
        "mode": entry.mode.map(|mode| format!("{mode:04o}")),
        "owner": entry.owner.as_deref().map(String::from_utf8_lossy),
        "group": entry.group.as_deref().map(String::from_utf8_lossy),
        "target": entry.target.as_deref().map(String::from_utf8_lossy),
    })
}

/// Writes the names in a directory to the standard output.
pub(super) async fn print_names(client: &mut FtpClient, path: &[u8]) -> Result<(), FtpError> {
    let mut entries = client.list_recorded(path).await?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let text: String = entries.iter().map(|entry| line(entry, false)).collect();
    print(text.as_bytes())?;
    client.report_unparsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_listed_name_are_replaced() {
        let entry = Entry { name: b"a\x1b[2Jb".to_vec(), ..Entry::default() };
        assert_eq!(line(&entry, false), "a?[2Jb\n");
        let time = Timestamp::parse(b"20261121133449");
        let entry = Entry { name: b"a".to_vec(), size: Some(7), modified: time, ..entry };
        assert_eq!(line(&entry, true), "   -              7 2026-11-21 13:34:49 a\n");
    }
}
