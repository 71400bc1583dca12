//! Output of listings: names, and entries as JSON.

use super::command_output::print;
use protocols::ftp::listing::{Entry, Kind};
use serde_json::json;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::{ListingFormat, listing_text};

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
    print(listing_text(&entries, ListingFormat::default()).as_bytes())?;
    client.report_unparsed()
}
