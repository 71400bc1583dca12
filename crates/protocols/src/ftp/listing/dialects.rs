//! The dialects of LIST. No document specifies the format of a listing, so each line is compared
//! with the known formats until one matches all of it.
//!
//! | dialect | example |
//! |---|---|
//! | EPLF | `+i8388621.48594,m825718503,r,s280,` TAB `djb.html` |
//! | Unix | `-rw-r--r--  1 ann staff 280 Feb 27 12:00 name`, with or without group or links |
//! | NetWare | `d [R----F--] supervisor 512 Jan 16 18:53 login` |
//! | DOS, IIS | `04-27-00  09:09PM  <DIR>  name`, also with a year of four digits |
//! | VMS | `NAME.TXT;1  2/8  4-OCT-1993 13:23 [GROUP,OWNER] (RWED,...)`, possibly on two lines |
//! | MVS | data sets and members, after a line of headings |
//! | OS/400 | `QSYS  77824 02/23/00 15:09:55 *FILE NAME` |
//! | OS/2 | `36611      A    04-23-97   10:57  name` |
//! | VxWorks | `512    JAN-01-2003  00:00:10  DIR1  <DIR>` |
//! | TOPS-20 | `FOO.TXT.3;P777700  2 2560(7)  24-Feb-1988 12:34:56 SMITH` |
//! | Unisys MCP | `SYMBOL/PROGRAM  FTPDATA  4800 02/23/2000 15:09:55` |
//!
//! A date without a year is taken as the most recent date with that month and day. Month names may
//! be in other languages (`dates`). A time without a zone is taken as UTC.

use super::dates::{date, number, parse_clock, parse_english_month, parse_year, to_timestamp};
use super::line_words::Words;
use super::systems::{self, mcp, os2, os400, tops20, vxworks};
use super::{EXAMPLE_MAX_BYTES, Entry, Kind};
use crate::ftp::timestamp::Timestamp;
use alloc::vec::Vec;

/// Returns the start of a line, up to [`EXAMPLE_MAX_BYTES`], to be reported as an example.
pub(super) fn example_of(line: &[u8]) -> Vec<u8> {
    line.get(..EXAMPLE_MAX_BYTES).unwrap_or(line).to_vec()
}

/// Maximum length in bytes of the first line of a VMS entry that waits for its second line (our
/// choice).
const VMS_FIRST_LINE_MAX_BYTES: usize = 512;

/// Incremental parser for the lines of LIST.
#[derive(Clone, Debug)]
pub struct ListReader {
    now: Timestamp,
    /// First line of a VMS entry whose second line has not arrived.
    vms_first_line: Option<Vec<u8>>,
    mvs_section: MvsSection,
    /// Number of lines that match no dialect.
    unknown: u64,
    /// The first line that matches no dialect, truncated to [`EXAMPLE_MAX_BYTES`].
    first_unknown: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MvsSection {
    None,
    DataSets,
    Members,
}

impl ListReader {
    /// Creates a reader. `now` is the calendar time, used for dates without a year.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self {
            now,
            vms_first_line: None,
            mvs_section: MvsSection::None,
            unknown: 0,
            first_unknown: None,
        }
    }

    /// Parses one line, without its line end. Returns `None` for headings, totals and lines in
    /// unknown formats.
    pub fn line(&mut self, line: &[u8]) -> Option<Entry> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let was_awaiting_second_line = self.vms_first_line.is_some();
        let mvs_before = self.mvs_section;
        // In any dialect, an entry without a name could be neither retrieved nor deleted.
        let entry = self.parse_line(line).filter(|entry| !entry.name.is_empty());
        let is_recognized =
            entry.is_some() || self.vms_first_line.is_some() || self.mvs_section != mvs_before;
        if !is_recognized && (was_awaiting_second_line || !is_heading(line)) {
            self.unknown = self.unknown.saturating_add(1);
            self.first_unknown.get_or_insert_with(|| example_of(line));
        }
        entry
    }

    /// Returns the number of lines that are neither headings nor in a known format, and therefore
    /// yield no entries.
    #[must_use]
    pub fn unknown_lines(&self) -> u64 {
        self.unknown.saturating_add(u64::from(self.vms_first_line.is_some()))
    }

    /// Returns the first line counted by [`Self::unknown_lines`], truncated to
    /// [`EXAMPLE_MAX_BYTES`](super::EXAMPLE_MAX_BYTES).
    #[must_use]
    pub fn first_unknown(&self) -> Option<&[u8]> {
        self.first_unknown.as_deref().or(self.vms_first_line.as_deref())
    }

    fn parse_line(&mut self, line: &[u8]) -> Option<Entry> {
        if let Some(first) = self.vms_first_line.take() {
            return vms(&[&first, b" ".as_slice(), line].concat());
        }
        if line.starts_with(b"Volume ") && line.trim_ascii_end().ends_with(b"Dsname") {
            self.mvs_section = MvsSection::DataSets;
            return None;
        }
        if line.trim_ascii_start().starts_with(b"Name ") && line.trim_ascii_end().ends_with(b"Id") {
            self.mvs_section = MvsSection::Members;
            return None;
        }
        match self.mvs_section {
            MvsSection::DataSets => return mvs_data_set(line),
            MvsSection::Members => return mvs_member(line),
            MvsSection::None => {}
        }
        let entry = eplf(line)
            .or_else(|| unix(line, self.now))
            .or_else(|| dos(line))
            .or_else(|| vms(line))
            .or_else(|| os400(line))
            .or_else(|| os2(line))
            .or_else(|| vxworks(line))
            .or_else(|| tops20(line))
            .or_else(|| mcp(line));
        if entry.is_none() && is_vms_name(line) && line.len() <= VMS_FIRST_LINE_MAX_BYTES {
            self.vms_first_line = Some(line.to_vec());
        }
        entry
    }
}

/// Returns whether a line is a total or a heading, and not an entry.
fn is_heading(line: &[u8]) -> bool {
    let line = line.trim_ascii().to_ascii_lowercase();
    let prefixes: [&[u8]; 3] = [b"total ", b"grand total ", b"directory "];
    let is_known = line == b"total" || prefixes.iter().any(|word| line.starts_with(word));
    line.is_empty() || is_known || systems::is_heading(&line)
}

fn eplf(line: &[u8]) -> Option<Entry> {
    let rest = line.strip_prefix(b"+")?;
    let tab = rest.iter().position(|&byte| byte == b'\t')?;
    let (facts, name) = rest.split_at_checked(tab)?;
    let mut entry = Entry { name: name.get(1..)?.to_vec(), ..Entry::default() };
    for fact in facts.split(|&byte| byte == b',') {
        match fact {
            [b'/'] => entry.kind = Kind::Directory,
            [b's', size @ ..] => entry.size = number(size),
            [b'm', seconds @ ..] => {
                entry.modified = number(seconds).map(|seconds| Timestamp { seconds, nanos: 0 });
            }
            [b'i', unique @ ..] => entry.unique = Some(unique.to_vec()),
            [b'u', b'p', mode @ ..] => {
                let text = core::str::from_utf8(mode).ok()?;
                entry.mode = u16::from_str_radix(text, 8).ok().map(|mode| mode & 0o7777);
            }
            _ => {}
        }
    }
    (!entry.name.is_empty()).then_some(entry)
}

/// Parses a Unix line. The parser searches for the date, since one to six words precede it.
fn unix(line: &[u8], now: Timestamp) -> Option<Entry> {
    let kind = match line.first()? {
        b'-' => Kind::File,
        b'd' => Kind::Directory,
        b'l' => Kind::Link,
        b'b' | b'c' | b'p' | b's' | b'D' | b'?' => Kind::Other,
        _ => return None,
    };
    let mut words = Words(line.get(1..)?);
    let mode = words.next()?;
    let is_netware = mode.starts_with(b"[");
    if !is_netware && mode.len() < 9 {
        return None;
    }
    let mut words_before_date: Vec<&[u8]> = Vec::new();
    for _ in 0..7 {
        let word = words.next()?;
        let words_after = words.0;
        if let Some(modified) = date(word, &mut words, now) {
            // The number before the date is the size in bytes. In the line of a device, two numbers
            // replace the size.
            let size = words_before_date.last().copied().and_then(number);
            if size.is_some() {
                words_before_date.pop();
            }
            let name = words.name()?;
            let mut entry = Entry {
                kind,
                size: size.filter(|_| kind != Kind::Other),
                modified: Some(modified),
                mode: if is_netware { None } else { mode_of(mode) },
                ..Entry::default()
            };
            set_name_and_target(&mut entry, name);
            set_owners(&mut entry, &words_before_date);
            return (!entry.name.is_empty()).then_some(entry);
        }
        words.0 = words_after;
        words_before_date.push(word);
    }
    None
}

fn set_name_and_target(entry: &mut Entry, name: &[u8]) {
    let arrow = name.windows(4).position(|four| four == b" -> ");
    match (entry.kind, arrow) {
        (Kind::Link, Some(at)) => {
            entry.name = name.get(..at).unwrap_or_default().to_vec();
            entry.target = name.get(at + 4..).map(<[u8]>::to_vec);
        }
        _ => entry.name = name.to_vec(),
    }
    entry.kind = match entry.name.as_slice() {
        b"." => Kind::Current,
        b".." => Kind::Parent,
        _ => entry.kind,
    };
}

fn set_owners(entry: &mut Entry, owner_words: &[&[u8]]) {
    let owner_words = match owner_words.split_first() {
        Some((links, rest)) if number::<u64>(links).is_some() && !rest.is_empty() => {
            entry.links = number(links);
            rest
        }
        _ => owner_words,
    };
    entry.owner = owner_words.first().map(|word| word.to_vec());
    entry.group = owner_words.get(1).map(|word| word.to_vec());
}

fn mode_of(letters: &[u8]) -> Option<u16> {
    let mut mode = 0;
    for (place, letter) in letters.iter().take(9).enumerate() {
        let bit = 0o400 >> place;
        let is_execute = place % 3 == 2;
        let special_bit = match place {
            2 => 0o4000,
            5 => 0o2000,
            _ => 0o1000,
        };
        mode |= match (letter, is_execute) {
            (b'-', _) => 0,
            (b'r', false) if place % 3 == 0 => bit,
            (b'w', false) if place % 3 == 1 => bit,
            (b'x', true) => bit,
            (b's' | b't', true) => bit | special_bit,
            (b'S' | b'T' | b'l' | b'L', true) => special_bit,
            _ => return None,
        };
    }
    Some(mode)
}

fn dos(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let date = words.next()?;
    let mut parts = date.split(|byte| matches!(byte, b'-' | b'/' | b'.'));
    let a = parts.next()?;
    let b = parts.next()?;
    let c = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    // The order is month, day, year, or year, month, day.
    let (year, month, day) = match a.len() {
        4 => (parse_year(a)?, number(b)?, number(c)?),
        _ => (parse_year(c)?, number(a)?, number(b)?),
    };
    let mut time = words.next()?.to_ascii_uppercase();
    if let Some(&[half, b'M']) = words.0.trim_ascii_start().first_chunk::<2>() {
        words.next()?;
        time.extend([half, b'M']);
    }
    let clock = parse_12_hour_clock(&time)?;
    let word = words.next()?.to_ascii_uppercase();
    // The target of a link may be outside this directory tree, so the link is not listed as a
    // directory.
    let kind = match word.as_slice() {
        b"<DIR>" => Kind::Directory,
        b"<JUNCTION>" | b"<SYMLINKD>" | b"<SYMLINK>" => Kind::Link,
        _ => Kind::File,
    };
    let size = if kind == Kind::File { Some(number(&remove_commas(&word))?) } else { None };
    let modified = Some(to_timestamp(year, month, day, clock)?);
    let mut entry = Entry { kind, size, modified, ..Entry::default() };
    let name = words.0.trim_ascii_start();
    set_name_and_target(&mut entry, name);
    if let (Kind::Link, Some((name, target))) = (kind, split_bracketed(name)) {
        entry.name = name.to_vec();
        entry.target = Some(target.to_vec());
    }
    (!entry.name.is_empty()).then_some(entry)
}

/// Splits `name [C:\target]` into the name and the path in brackets.
fn split_bracketed(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = name.trim_ascii_end().strip_suffix(b"]")?;
    let is_path = |rest: &[u8]| match rest {
        [b' ', b'[', b'\\' | b'/', ..] => true,
        [b' ', b'[', drive, b':', ..] => drive.is_ascii_alphabetic(),
        _ => false,
    };
    let at = (0..text.len()).find(|&at| text.get(at..).is_some_and(is_path))?;
    Some((text.get(..at)?, text.get(at + 2..)?))
}

fn remove_commas(word: &[u8]) -> Vec<u8> {
    word.iter().copied().filter(|&byte| byte != b',').collect()
}

fn parse_12_hour_clock(time: &[u8]) -> Option<(u8, u8, u8)> {
    let (time, shift) = match time {
        [time @ .., b'A', b'M'] => (time, Some(0)),
        [time @ .., b'P', b'M'] => (time, Some(12)),
        _ => (time, None),
    };
    let (hour, minute, second) = parse_clock(time)?;
    match shift {
        None => Some((hour, minute, second)),
        Some(shift) => (hour <= 12).then_some((hour % 12 + shift, minute, second)),
    }
}

fn is_vms_name(line: &[u8]) -> bool {
    let Some(semicolon) = line.iter().position(|&byte| byte == b';') else { return false };
    let (name, version) = line.split_at_checked(semicolon).unwrap_or_default();
    let is_file_name = !name.iter().any(u8::is_ascii_whitespace) && name.contains(&b'.');
    is_file_name && number::<u32>(version.get(1..).unwrap_or_default()).is_some()
}

fn vms(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let versioned_name = words.next()?;
    if !is_vms_name(versioned_name) {
        return None;
    }
    let name = versioned_name.split(|&byte| byte == b';').next()?;
    let blocks = words.next()?;
    let used_blocks: u64 = number(blocks.split(|&byte| byte == b'/').next()?)?;
    let date = words.next()?;
    let time = words.next()?;
    let mut parts = date.split(|&byte| byte == b'-');
    let day = parts.next()?;
    let month = parts.next()?;
    let year = parts.next()?;
    let modified = to_timestamp(
        parse_year(year)?,
        parse_english_month(month)?,
        number(day)?,
        parse_clock(time)?,
    )?;
    let directory = name.strip_suffix(b".DIR").or_else(|| name.strip_suffix(b".dir"));
    let name = directory.unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    let owner = words.next().and_then(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    Some(Entry {
        name: name.to_vec(),
        kind: if directory.is_some() { Kind::Directory } else { Kind::File },
        // The size is given in blocks of 512 bytes, so this is an upper bound in bytes.
        size: directory.is_none().then_some(used_blocks.checked_mul(512)?),
        modified: Some(modified),
        owner: owner.map(<[u8]>::to_vec),
        ..Entry::default()
    })
}

/// Parses the line of an MVS data set: `WYOSPT 3420   2003/05/21  1  200  FB      80  8053  PS
/// 48-MVS.FILE`.
fn mvs_data_set(line: &[u8]) -> Option<Entry> {
    let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).collect();
    let name = words.last()?.strip_prefix(b"'").and_then(|n| n.strip_suffix(b"'"));
    let name = name.unwrap_or(words.last()?);
    match words.as_slice() {
        [b"Migrated" | b"MIGRAT" | b"ARCIVE", _] => {
            Some(Entry { name: name.to_vec(), ..Entry::default() })
        }
        [_, _, date, .., organisation, _] if words.len() >= 5 => Some(Entry {
            name: name.to_vec(),
            kind: if organisation.starts_with(b"PO") { Kind::Directory } else { Kind::File },
            modified: slashed_date(date, (0, 0, 0)),
            ..Entry::default()
        }),
        _ => None,
    }
}

/// Parses the line of an MVS member: `TBTOOL  01.00 2002/09/12 2002/09/12 09:37  11  11  0 KIL001`,
/// or the name alone.
fn mvs_member(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let name = words.next()?;
    let _ = words.next();
    let _ = words.next();
    let date = words.next();
    let time = words.next();
    let clock = time.and_then(parse_clock).unwrap_or((0, 0, 0));
    let modified = date.and_then(|date| slashed_date(date, clock));
    Some(Entry { name: name.to_vec(), modified, ..Entry::default() })
}

fn slashed_date(word: &[u8], clock: (u8, u8, u8)) -> Option<Timestamp> {
    let mut parts = word.split(|&byte| byte == b'/');
    let year = parts.next()?;
    let month = parts.next()?;
    let day = parts.next()?;
    to_timestamp(parse_year(year)?, number(month)?, number(day)?, clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec;

    /// The calendar time of the tests: 2024-03-01 00:00.
    const NOW: Timestamp = Timestamp { seconds: 1_709_251_200, nanos: 0 };

    /// Returns name, kind, size and date of each entry.
    fn parse_lines(lines: &[&str]) -> Vec<(String, Kind, Option<u64>, String)> {
        let mut reader = ListReader::new(NOW);
        let entries = lines.iter().filter_map(|line| reader.line(line.as_bytes()));
        let summary = |entry: Entry| {
            let date = entry.modified.map(Timestamp::to_text).unwrap_or_default();
            (String::from_utf8(entry.name).unwrap(), entry.kind, entry.size, date)
        };
        entries.map(summary).collect()
    }

    fn expected_entry(
        name: &str,
        kind: Kind,
        size: Option<u64>,
        date: &str,
    ) -> (String, Kind, Option<u64>, String) {
        (name.into(), kind, size, date.into())
    }

    #[test]
    fn unix_lines_are_parsed_with_any_number_of_words_before_the_date() {
        let entries = parse_lines(&[
            "total 14786",
            "drwxr-xr-x   2 ann  staff     512 Mar  4  2005 dir with spaces",
            "-rw-r--r--   1 ann  staff     280 Feb 29 12:01 this year",
            "-rw-r--r--   1 ann  280 Mar  2 12:01 last year",
            "lrwxrwxrwx   1 0    0           7 Jan 25 00:17 bin -> usr/bin",
            "-rw-rw-r--+  1 1356107 15000 4356349 2023-11-23 09:17 iso",
            "-r--r--r--   1 owner  group 1803128 10 Jul 10:18 ls-lR.Z",
            "crw-rw-rw-   1 root   root  1,   3 Jan  1  2000 null",
            "d [R----F--] supervisor            512       Jan 16 18:53    login",
            "drwxrwxr-x   2 a b 10 Jan  1  2000 ..",
        ]);
        let expected = [
            expected_entry("dir with spaces", Kind::Directory, Some(512), "20050304000000"),
            expected_entry("this year", Kind::File, Some(280), "20240229120100"),
            expected_entry("last year", Kind::File, Some(280), "20230302120100"),
            expected_entry("bin", Kind::Link, Some(7), "20240125001700"),
            expected_entry("iso", Kind::File, Some(4_356_349), "20231123091700"),
            expected_entry("ls-lR.Z", Kind::File, Some(1_803_128), "20230710101800"),
            expected_entry("null", Kind::Other, None, "20000101000000"),
            expected_entry("   login", Kind::Directory, Some(512), "20240116185300"),
            expected_entry("..", Kind::Parent, Some(10), "20000101000000"),
        ];
        for (entries, expected) in entries.iter().zip(&expected) {
            assert_eq!(entries, expected);
        }
        assert_eq!(entries.len(), expected.len());
    }

    #[test]
    fn the_owner_and_the_group_precede_the_size_and_the_group_may_be_missing() {
        let owners = |line: &str| {
            let entry = ListReader::new(NOW).line(line.as_bytes()).unwrap();
            (entry.links, entry.owner, entry.group)
        };
        let ann = Some(b"ann".to_vec());
        let with_group = owners("-rw-r--r--   3 ann  staff 280 Feb 29 12:01 x");
        assert_eq!(with_group, (Some(3), ann.clone(), Some(b"staff".to_vec())));
        assert_eq!(owners("-rw-r--r--   3 ann  280 Feb 29 12:01 x"), (Some(3), ann, None));
    }

    #[test]
    fn a_12_hour_clock_has_no_hour_13() {
        let hour = |time: &str| parse_12_hour_clock(time.as_bytes()).map(|(hour, _, _)| hour);
        assert_eq!(
            ["12:30AM", "01:30PM", "12:30PM", "13:30PM", "13:30"].map(hour),
            [Some(0), Some(13), Some(12), None, Some(13)]
        );
    }

    #[test]
    fn dos_lines_are_parsed_with_years_of_two_and_four_digits() {
        assert_eq!(
            parse_lines(&[
                "04-27-00  09:09PM       <DIR>          lic ensed",
                "11-18-2003  12:16AM           44,328 x.exe",
                "2003-11-18  14:16           44328 y.exe",
                "04-14-99  03:47 PM      589 readme.htm",
            ]),
            [
                expected_entry("lic ensed", Kind::Directory, None, "20000427210900"),
                expected_entry("x.exe", Kind::File, Some(44_328), "20031118001600"),
                expected_entry("y.exe", Kind::File, Some(44_328), "20031118141600"),
                expected_entry("readme.htm", Kind::File, Some(589), "19990414154700"),
            ]
        );
    }

    #[test]
    fn windows_links_have_a_name_and_a_target() {
        let mut reader = ListReader::new(NOW);
        for line in [
            r"11-29-23  09:07PM       <SYMLINKD>     ln 2 [C:\x [y]]",
            r"11-29-23  09:07PM       <JUNCTION>     ln 2 [C:\x [y]]",
        ] {
            let entry = reader.line(line.as_bytes()).unwrap();
            assert_eq!((entry.name.as_slice(), entry.kind), (&b"ln 2"[..], Kind::Link), "{line}");
            assert!(entry.target.unwrap().starts_with(br"C:\x"));
        }
        let entry = reader.line(br"11-29-23  09:07PM       <SYMLINKD>     ln2").unwrap();
        assert_eq!((entry.name, entry.kind), (b"ln2".to_vec(), Kind::Link));
    }

    #[test]
    fn a_vms_directory_without_a_name_is_not_an_entry() {
        assert_eq!(
            parse_lines(&[
                ".DIR;1  1  8-SEP-1996 16:09 [SYSTEM] (RWE)",
                ".DIR;1",
                "  1  8-SEP-1996 16:09"
            ]),
            []
        );
    }

    #[test]
    fn an_mvs_data_set_with_empty_quotes_is_counted_as_unknown() {
        let mut reader = ListReader::new(NOW);
        assert_eq!(reader.line(b"Volume Dsname"), None);
        assert_eq!(reader.line(b"WPTA01 3290 2004/03/04 1 3 FB 80 3125 PO ''"), None);
        assert_eq!(reader.unknown_lines(), 1);
    }

    #[test]
    fn eplf_vms_os400_and_os2_lines_are_parsed() {
        assert_eq!(
            parse_lines(&[
                "+i8388621.48594,m825718503,r,s280,\tdjb.html",
                "+/,m824255907,\t514",
                "CORE.DIR;1          1  8-SEP-1996 16:09 [SYSTEM] (RWE,RWE,RE,RE)",
                "A_LONG_NAME.TXT;12",
                "    213/216  29-JAN-1996 03:33:12  [ANONYMOU,ANONYMOUS]   (RWED,RWED,,)",
                "QSYS            77824 02/23/00 15:09:55 *FILE      FTP.SAVF",
                "QSYS            36864 12/31/99 23:59:59 *DIR       home/",
                "     0           DIR   05-12-97   16:44  PSFONTS",
                " 36611      A    04-23-97   10:57  OS2 test1.file",
            ]),
            [
                expected_entry("djb.html", Kind::File, Some(280), "19960301221503"),
                expected_entry("514", Kind::Directory, None, "19960213235827"),
                expected_entry("CORE", Kind::Directory, None, "19960908160900"),
                expected_entry("A_LONG_NAME.TXT", Kind::File, Some(109_056), "19960129033312"),
                expected_entry("FTP.SAVF", Kind::File, Some(77_824), "20000223150955"),
                expected_entry("home", Kind::Directory, Some(36_864), "19991231235959"),
                expected_entry("PSFONTS", Kind::Directory, Some(0), "19970512164400"),
                expected_entry("OS2 test1.file", Kind::File, Some(36_611), "19970423105700"),
            ]
        );
    }

    #[test]
    fn lines_in_unknown_formats_are_counted_except_headings() {
        let count_unknown = |lines: &[&str]| {
            let mut reader = ListReader::new(NOW);
            lines.iter().for_each(|line| _ = reader.line(line.as_bytes()));
            reader.unknown_lines()
        };
        let file = "-rw-r--r-- 1 a b 280 Jan 02 2020 a";
        assert_eq!(count_unknown(&["total 8", file, "", "Total of 1 file, 2 blocks."]), 0);
        assert_eq!(count_unknown(&[file, "-rw-r--r-- a long forgotten form", "totals.csv 7"]), 2);
        assert_eq!(
            count_unknown(&["LONG-NAME.TXT;1", "   2/8  4-OCT-1993 13:23 [G,O] (R,R,,)"]),
            0
        );
        assert_eq!(count_unknown(&["LONG-NAME.TXT;1", "Total of 1 file"]), 1);
        assert_eq!(count_unknown(&["LONG-NAME.TXT;1"]), 1);
    }

    #[test]
    fn mvs_lines_are_parsed_after_their_headings() {
        assert_eq!(
            parse_lines(&[
                "Volume Unit    Referred Ext Used Recfm Lrecl BlkSz Dsorg Dsname",
                "WYOSPT 3420   2003/05/21  1  200  FB      80  8053  PS  48-MVS.FILE",
                "WPTA01 3290   2004/03/04  1    3  FB      80  3125  PO  'HOOPLA'",
                "Migrated                                                 OLD.SET",
            ]),
            [
                expected_entry("48-MVS.FILE", Kind::File, None, "20030521000000"),
                expected_entry("HOOPLA", Kind::Directory, None, "20040304000000"),
                expected_entry("OLD.SET", Kind::File, None, ""),
            ]
        );
        assert_eq!(
            parse_lines(&[
                " Name     VV.MM   Created       Changed      Size  Init   Mod   Id",
                "TBTOOL    01.03 2002/09/12 2002/10/11 09:37    11    11     0 KIL001",
                "BARE",
            ]),
            [
                expected_entry("TBTOOL", Kind::File, None, "20021011093700"),
                expected_entry("BARE", Kind::File, None, ""),
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_lines_are_parsed_or_skipped(
            lines in prop::collection::vec(prop::collection::vec(prop_oneof![
                Just("drwxr-xr-x "), Just("Jan "), Just("27 "), Just("12:00 "), Just("1999 "),
                Just(";1 "), Just("A.B"), Just("04-27-00 "), Just("<DIR> "), Just("9/9 "),
                Just("4-OCT-1993 "), Just("*FILE "), Just("+s"), Just("\t"), Just(","), Just("x"),
                Just("99999999999999999999 "), Just("é"), Just("[R] "), Just("PM "), Just(" -> "),
                Just("Volume "), Just("Dsname"), Just("Name "), Just("Id"), Just("févr. "),
                Just("12月 "), Just("31日 "), Just("<SYMLINKD> "), Just(" [C:]"), Just("*MEM "),
                Just("JAN-01-2003 "), Just(";P777700 "), Just("2560(7) "), Just("DATA "),
                Just("2012-06-06 "), Just("+0200 "), Just("02/23/2000 "), Just("15:09:55.1 "),
            ], 0..12), 0..6)
        ) {
            let mut reader = ListReader::new(NOW);
            for line in lines {
                if let Some(entry) = reader.line(line.concat().as_bytes()) {
                    prop_assert!(!entry.name.is_empty());
                }
            }
        }
    }
}
