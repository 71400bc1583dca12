//! Facts of a file in a listing (RFC 3659 section 7).

use super::rights::PathRights;
use os::beneath::{Kind, Status};
use protocols::ftp::listing::{self, Entry, Permissions};
use protocols::ftp::{Right, Timestamp};

/// Returns the listing entry of a file.
pub(super) fn entry_of(name: Vec<u8>, status: Status, path_rights: PathRights) -> Entry {
    let kind = match status.kind {
        Kind::File => listing::Kind::File,
        Kind::Directory => listing::Kind::Directory,
        Kind::Other => listing::Kind::Other,
    };
    let (device, inode) = status.file_id;
    Entry {
        name,
        kind,
        size: (status.kind == Kind::File).then_some(status.len),
        modified: Some(Timestamp { seconds: status.modified_s, nanos: 0 }),
        mode: u16::try_from(status.mode & 0o7777).ok(),
        links: Some(status.links),
        unique: Some(format!("{device:x}g{inode:x}").into_bytes()),
        permissions: Some(permissions(status.kind, path_rights)),
        ..Entry::default()
    }
}

/// Returns the `perm` fact (RFC 3659 §7.5.5).
fn permissions(kind: Kind, path_rights: PathRights) -> Permissions {
    let of_file: [(Right, &[u8]); 5] = [
        (Right::Read, b"r"),
        (Right::Append, b"a"),
        (Right::Overwrite, b"w"),
        (Right::Rename, b"f"),
        (Right::Delete, b"d"),
    ];
    let of_directory: [(Right, &[u8]); 6] = [
        (Right::List, b"el"),
        (Right::Write, b"c"),
        (Right::MakeDirectory, b"m"),
        (Right::Rename, b"f"),
        (Right::Delete, b"d"),
        // The content may be removed even if the directory itself may not.
        (Right::Delete, b"p"),
    ];
    let table: &[(Right, &[u8])] = if kind == Kind::Directory { &of_directory } else { &of_file };
    let is_granted = |letters: &[u8], right| match letters {
        b"f" | b"d" => path_rights.name_rights.contains(right),
        _ => path_rights.rights.contains(right),
    };
    let granted = table.iter().filter(|(right, letters)| is_granted(letters, *right));
    let letters: Vec<u8> = granted.flat_map(|(_, letters)| letters.iter().copied()).collect();
    Permissions::parse(&letters)
}
