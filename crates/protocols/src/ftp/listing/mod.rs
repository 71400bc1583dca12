//! Listings of directories: formatting of listings for clients, and parsing of listings from
//! servers.
//!
//! Three formats are written: LIST in the format of Unix `ls -l`, which every client parses; NLST,
//! which contains only names; and the facts of RFC 3659 for MLST and MLSD (`facts`). A name with a
//! line end is omitted from NLST and MLSD, since no command could request it. In LIST, which is for
//! users, each control character of a name is displayed as `?`. The last reply reports the number
//! of omitted or altered names. LIST has no specified format; `dialects` parses the known ones.

mod collect;
mod dates;
mod dialects;
mod facts;
mod line_words;
mod pattern;
mod systems;

pub use collect::{
    Collector, Dialect, LINE_MAX_BYTES, LISTING_MAX_BYTES, ListingError, UnknownLines,
};
pub use dialects::ListReader;
pub use facts::{Fact, FactSet, Permissions, parse_facts};
pub use pattern::Pattern;

use super::name::has_control;
use super::timestamp::Timestamp;
use alloc::format;
use alloc::vec::Vec;

/// Half a year: older dates are displayed with a year instead of a time, as in `ls`.
const RECENT_SECONDS: i64 = 182 * 86_400;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Maximum length in bytes of a line in an unknown format that is reported as an example.
pub const EXAMPLE_MAX_BYTES: usize = 200;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file.
    #[default]
    File,
    /// A directory.
    Directory,
    /// The listed directory itself (`.`).
    Current,
    /// The parent directory (`..`).
    Parent,
    /// A symbolic link.
    Link,
    /// Any other kind, such as a device or a socket.
    Other,
}

impl Kind {
    /// Returns whether the entry is a directory of any kind.
    #[must_use]
    pub const fn is_directory(self) -> bool {
        matches!(self, Self::Directory | Self::Current | Self::Parent)
    }
}

/// One entry of a directory. Unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The name: one component, or the path that was requested.
    pub name: Vec<u8>,
    /// Kind of the entry.
    pub kind: Kind,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Time of the last modification.
    pub modified: Option<Timestamp>,
    /// Time of creation.
    pub created: Option<Timestamp>,
    /// The twelve mode bits of Unix.
    pub mode: Option<u16>,
    /// Number of hard links.
    pub links: Option<u64>,
    /// Name of the owner.
    pub owner: Option<Vec<u8>>,
    /// Name of the group.
    pub group: Option<Vec<u8>>,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Identifier of the file: two names of one file have the same identifier.
    pub unique: Option<Vec<u8>>,
    /// Permitted operations.
    pub permissions: Option<Permissions>,
}

/// Format of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListForm {
    /// LIST: lines as written by `ls -l`.
    Unix,
    /// NLST: names, each preceded by the requested path, so that a client can send it with RETR
    /// (RFC 1123 §4.1.2.7).
    Names {
        /// Directory path to write before each name, including its last slash.
        prefix: Vec<u8>,
    },
    /// MLSD: lines of facts (RFC 3659).
    Facts(FactSet),
}

impl ListForm {
    /// Returns the format for a listing of a single file. In NLST, the prefix becomes the directory
    /// part of the requested path. The other formats are unchanged.
    #[must_use]
    pub fn of_file(self) -> Self {
        let Self::Names { prefix } = self else { return self };
        let requested_path = prefix.strip_suffix(b"/").unwrap_or(&prefix);
        let directory_len =
            requested_path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        Self::Names { prefix: requested_path.get(..directory_len).unwrap_or_default().to_vec() }
    }

    /// Appends the line of `entry` with CR LF to `out`. `now` is the calendar time. Returns whether
    /// the name could be written unchanged.
    pub fn write(&self, entry: &Entry, now: Timestamp, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Unix => {
                write_unix(entry, now, out);
                !entry.name.iter().any(u8::is_ascii_control)
            }
            Self::Names { prefix } => {
                if matches!(entry.kind, Kind::Current | Kind::Parent) {
                    return true;
                }
                if has_control(&entry.name) || has_control(prefix) {
                    return false;
                }
                out.extend_from_slice(prefix);
                out.extend_from_slice(&entry.name);
                out.extend_from_slice(b"\r\n");
                true
            }
            Self::Facts(facts) => {
                let is_representable = !has_control(&entry.name);
                if is_representable {
                    facts.write(entry, out);
                    out.extend_from_slice(b"\r\n");
                }
                is_representable
            }
        }
    }
}

fn write_unix(entry: &Entry, now: Timestamp, out: &mut Vec<u8>) {
    let kind = match entry.kind {
        Kind::File => b'-',
        Kind::Link => b'l',
        Kind::Directory | Kind::Current | Kind::Parent => b'd',
        Kind::Other => b'?',
    };
    out.push(kind);
    let mode = entry.mode.unwrap_or(if entry.kind.is_directory() { 0o755 } else { 0o644 });
    out.extend_from_slice(&mode_text(mode));
    let links = entry.links.unwrap_or(1);
    let size = entry.size.unwrap_or(0);
    out.extend_from_slice(format!(" {links:>3} ").as_bytes());
    for owner_name in [&entry.owner, &entry.group] {
        let start = out.len();
        let owner_name = owner_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(b"ftp");
        out.extend(
            owner_name.iter().map(|&byte| if byte.is_ascii_graphic() { byte } else { b'?' }),
        );
        while out.len() < start + 9 {
            out.push(b' ');
        }
    }
    let date = date_text(entry.modified.unwrap_or_default(), now);
    out.extend_from_slice(format!("{size:>8} {date} ").as_bytes());
    put_without_controls(&entry.name, out);
    if let (Kind::Link, Some(target)) = (entry.kind, &entry.target) {
        out.extend_from_slice(b" -> ");
        put_without_controls(target, out);
    }
    out.extend_from_slice(b"\r\n");
}

fn put_without_controls(name: &[u8], out: &mut Vec<u8>) {
    out.extend(name.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }));
}

fn mode_text(mode: u16) -> [u8; 9] {
    let mut text = *b"rwxrwxrwx";
    for (place, letter) in text.iter_mut().enumerate() {
        if mode & (0o400 >> place) == 0 {
            *letter = b'-';
        }
    }
    let special_bits = [(0o4000, 2, b's', b'S'), (0o2000, 5, b's', b'S'), (0o1000, 8, b't', b'T')];
    for (bit, place, lower, upper) in special_bits {
        if let (true, Some(letter)) = (mode & bit != 0, text.get_mut(place)) {
            *letter = if *letter == b'x' { lower } else { upper };
        }
    }
    text
}

fn date_text(moment: Timestamp, now: Timestamp) -> alloc::string::String {
    let civil = moment.civil();
    let month = MONTHS.get(usize::from(civil.month).saturating_sub(1)).copied().unwrap_or("Jan");
    let age = now.seconds - moment.seconds;
    // A date up to one hour in the future is attributed to a wrong clock, and displayed with a time
    // instead of a year.
    if (-3600..RECENT_SECONDS).contains(&age) {
        format!("{month} {:>2} {:02}:{:02}", civil.day, civil.hour, civil.minute)
    } else {
        format!("{month} {:>2}  {:04}", civil.day, civil.year)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanos: 0 };

    fn line(form: &ListForm, entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        let is_unchanged = form.write(entry, NOW, &mut out);
        assert_eq!(is_unchanged, !entry.name.contains(&b'\n'));
        out
    }

    #[test]
    fn a_unix_line_has_the_format_of_ls() {
        let entry = Entry {
            name: b"a b".to_vec(),
            size: Some(1_234),
            modified: Some(NOW),
            mode: Some(0o4640),
            owner: Some(b"ann".to_vec()),
            ..Entry::default()
        };
        let expected = &b"-rwSr-----   1 ann      ftp          1234 Nov 14 22:13 a b\r\n"[..];
        assert_eq!(line(&ListForm::Unix, &entry), expected);
    }

    // attack row 92
    #[test]
    fn row_92_a_name_with_a_line_end_is_omitted_or_displayed_with_question_marks() {
        let entry = Entry { name: b"a\r\n-rw-r--r-- x".to_vec(), ..Entry::default() };
        assert!(line(&ListForm::Names { prefix: Vec::new() }, &entry).is_empty());
        assert!(line(&ListForm::Facts(FactSet::ALL), &entry).is_empty());
        assert!(line(&ListForm::Unix, &entry).ends_with(b" a??-rw-r--r-- x\r\n"));
    }

    // req RFC1123:4.1.2.7-MUST-1
    #[test]
    fn a_name_from_nlst_can_be_requested() {
        let entry = Entry { name: b"x".to_vec(), ..Entry::default() };
        assert_eq!(line(&ListForm::Names { prefix: b"d/".to_vec() }, &entry), b"d/x\r\n");
    }

    proptest! {
        #[test]
        fn an_emitted_unix_line_is_parsed_back_equal(
            name in "[a-zA-Z0-9é.;][a-zA-Z0-9é .;>-]{0,30}", size: u64, is_directory: bool,
            age in 0_i64..900_000_000, mode in 0..0o10000_u16,
        ) {
            prop_assume!(name != "." && name != "..");
            let modified = Timestamp { seconds: NOW.seconds - age, nanos: 0 };
            let kind = if is_directory { Kind::Directory } else { Kind::File };
            let entry = Entry {
                name: name.clone().into_bytes(),
                kind,
                size: Some(size),
                modified: Some(modified),
                mode: Some(mode),
                ..Entry::default()
            };
            let line = line(&ListForm::Unix, &entry);
            let mut reader = ListReader::new(NOW);
            let read = reader.line(line.trim_ascii_end_of_line()).unwrap();
            prop_assert_eq!((&read.name, read.kind), (&entry.name, kind));
            prop_assert_eq!((read.size, read.mode), (Some(size), Some(mode)));
            let error = read.modified.unwrap().seconds - modified.seconds;
            let limit = if age < RECENT_SECONDS { 60 } else { 86_400 };
            prop_assert!((-limit..=0).contains(&error), "{error}");
        }
    }

    trait EndOfLine {
        fn trim_ascii_end_of_line(&self) -> &[u8];
    }

    impl EndOfLine for Vec<u8> {
        fn trim_ascii_end_of_line(&self) -> &[u8] {
            self.strip_suffix(b"\r\n").unwrap()
        }
    }
}
