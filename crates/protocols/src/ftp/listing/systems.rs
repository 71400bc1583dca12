//! The dialects of LIST of individual operating systems: OS/400, OS/2, VxWorks, TOPS-20 and
//! Unisys MCP. Each function parses one line, or returns `None` if it has another form.

use super::dates::{number, parse_clock, parse_english_month, parse_year, to_timestamp};
use super::line_words::Words;
use super::{Entry, Kind};
use crate::ftp::timestamp::Timestamp;
use alloc::vec::Vec;

/// Parses `QSYS  77824 02/23/00 15:09:55 *FILE NAME`, and `QSYS  *MEM  LIBRARY.FILE/NAME.MBR`,
/// which has neither size nor date.
pub(super) fn os400(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let owner = words.next()?;
    let size_or_kind = words.next()?;
    let (size, modified, kind) = match size_or_kind.strip_prefix(b"*") {
        Some(kind) => (None, None, kind),
        None => {
            let size: u64 = number(size_or_kind)?;
            let date = words.next()?;
            let time = parse_clock(words.next()?)?;
            let modified = os400_date(date, time)?;
            (Some(size), Some(modified), words.next()?.strip_prefix(b"*")?)
        }
    };
    let is_known =
        matches!(kind, b"FILE" | b"MEM" | b"STMF" | b"DIR" | b"DDIR" | b"LIB" | b"FLR" | b"DOC");
    // A line without size and date is recognized only by the known kind of its object.
    if size.is_none() && !is_known {
        return None;
    }
    let rest = words.0.trim_ascii();
    let path = rest.strip_suffix(b"/").unwrap_or(rest);
    let is_directory = rest.ends_with(b"/") || matches!(kind, b"DIR" | b"LIB" | b"FLR" | b"DDIR");
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    (!name.is_empty()).then(|| Entry {
        name: name.to_vec(),
        kind: if is_directory { Kind::Directory } else { Kind::File },
        size,
        modified,
        owner: Some(owner.to_vec()),
        ..Entry::default()
    })
}

/// Parses `02/23/00`, `00/02/23` or `23.02.00`. The first of these orders that yields a valid date
/// is used.
fn os400_date(date: &[u8], clock: (u8, u8, u8)) -> Option<Timestamp> {
    let mut parts = date.split(|byte| matches!(byte, b'/' | b'.' | b'-'));
    let a = parts.next()?;
    let b = parts.next()?;
    let c = parts.next()?;
    let timestamp = |year: &[u8], month: &[u8], day: &[u8]| {
        to_timestamp(parse_year(year)?, number(month)?, number(day)?, clock)
    };
    if date.contains(&b'.') {
        return timestamp(c, b, a).or_else(|| timestamp(a, b, c));
    }
    timestamp(c, a, b).or_else(|| timestamp(a, b, c)).or_else(|| timestamp(c, b, a))
}

/// Parses a line of OS/2: ` 36611      A    04-23-97   10:57  name`.
pub(super) fn os2(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let size = number(words.next()?)?;
    let mut is_directory = false;
    let mut word = words.next()?;
    // Any number of attributes may precede the date.
    while !word.contains(&b'-') {
        is_directory |= word == b"DIR";
        word = words.next().filter(|_| word.iter().all(u8::is_ascii_uppercase))?;
    }
    let mut parts = word.split(|&byte| byte == b'-');
    let month = parts.next()?;
    let day = parts.next()?;
    let year = parts.next()?;
    let clock = parse_clock(words.next()?)?;
    let modified = to_timestamp(parse_year(year)?, number(month)?, number(day)?, clock)?;
    let name = words.0.trim_ascii_start();
    (!name.is_empty()).then(|| Entry {
        name: name.to_vec(),
        kind: if is_directory { Kind::Directory } else { Kind::File },
        size: Some(size),
        modified: Some(modified),
        ..Entry::default()
    })
}

/// Parses `  512    JAN-01-2003  00:00:10  DIR1  <DIR>` of VxWorks.
pub(super) fn vxworks(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let size: u64 = number(words.next()?)?;
    let mut parts = words.next()?.split(|&byte| byte == b'-');
    let month = parts.next()?;
    let day = parts.next()?;
    let year = parts.next()?;
    let clock = parse_clock(words.next()?)?;
    let modified =
        to_timestamp(parse_year(year)?, parse_english_month(month)?, number(day)?, clock)?;
    let rest = words.0.trim_ascii();
    let directory = rest.strip_suffix(b"<DIR>");
    let name = directory.unwrap_or(rest).trim_ascii_end();
    (!name.is_empty()).then(|| Entry {
        name: name.to_vec(),
        kind: if directory.is_some() { Kind::Directory } else { Kind::File },
        size: directory.is_none().then_some(size),
        modified: Some(modified),
        ..Entry::default()
    })
}

/// Parses ` FOO.TXT.3;P777700  2 2560(7)  24-Feb-1988 12:34:56 SMITH` of TOPS-20: generation,
/// protection, pages, bytes and their size in bits. The generation is omitted from the returned
/// name, because a name without a generation selects the newest one. The size is only set if bytes
/// have 7 or 8 bits.
pub(super) fn tops20(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let versioned_name = words.next()?;
    let semicolon = versioned_name.iter().position(|&byte| byte == b';')?;
    let (file, attributes) = versioned_name.split_at_checked(semicolon)?;
    if !attributes.starts_with(b";P") || number::<u64>(attributes.get(2..8)?).is_none() {
        return None;
    }
    let file = file.rsplit(|&byte| byte == b'>').next()?;
    let dot = file.iter().rposition(|&byte| byte == b'.')?;
    let (name, generation) = file.split_at_checked(dot)?;
    if name.is_empty() || number::<u32>(generation.get(1..)?).is_none() {
        return None;
    }
    let mut entry = Entry { name: name.to_vec(), ..Entry::default() };
    while let Some(word) = words.next() {
        if let Some((bytes, bits)) = bytes_of_bits(word) {
            entry.size = Some(bytes).filter(|_| matches!(bits, 7 | 8));
        } else if let Some(modified) = dashed_date(word, &mut words) {
            entry.modified = Some(modified);
            entry.owner = words.next().map(<[u8]>::to_vec);
            break;
        }
    }
    let directory = entry.name.strip_suffix(b".DIRECTORY").map(<[u8]>::to_vec);
    if let Some(name) = directory.filter(|name| !name.is_empty()) {
        entry.name = name;
        entry.kind = Kind::Directory;
    }
    Some(entry)
}

/// Parses a number of bytes and their size in bits: `2560(7)`.
fn bytes_of_bits(word: &[u8]) -> Option<(u64, u8)> {
    let parenthesis = word.iter().position(|&byte| byte == b'(')?;
    let (bytes, bits) = word.split_at_checked(parenthesis)?;
    Some((number(bytes)?, number(bits.strip_prefix(b"(")?.strip_suffix(b")")?)?))
}

/// Parses `24-Feb-1988 12:34:56`. `word` is the date, and the next of `words` is the time.
fn dashed_date(word: &[u8], words: &mut Words<'_>) -> Option<Timestamp> {
    let mut parts = word.split(|&byte| byte == b'-');
    let day = parts.next()?;
    let month = parts.next()?;
    let year = parts.next()?;
    let day = number(day)?;
    let month = parse_english_month(month)?;
    let year = parse_year(year)?;
    to_timestamp(year, month, day, parse_clock(words.next()?)?)
}

/// Parses `SYMBOL/PROGRAM  FTPDATA  4800 02/23/2000 15:09:55` of Unisys MCP: title, kind of file,
/// size, date and time. The name is the last node of the title.
pub(super) fn mcp(line: &[u8]) -> Option<Entry> {
    let mut words = Words(line);
    let title = words.next()?;
    let kind = words.next()?;
    if kind.len() < 3 || !kind.iter().all(u8::is_ascii_uppercase) {
        return None;
    }
    let size: u64 = number(words.next()?)?;
    let date: Vec<&[u8]> = words.next()?.split(|&byte| byte == b'/').collect();
    let [month, day, year] = date.as_slice() else { return None };
    let clock = parse_clock(words.next()?)?;
    let modified = to_timestamp(parse_year(year)?, number(month)?, number(day)?, clock)?;
    let name = title.rsplit(|&byte| byte == b'/').next().filter(|name| !name.is_empty())?;
    let name = name.to_vec();
    let size = Some(size);
    Some(Entry { name, kind: Kind::File, size, modified: Some(modified), ..Entry::default() })
}

/// Returns whether a line is a heading or a footer of one of these systems.
pub(super) fn is_heading(line: &[u8]) -> bool {
    let is_column = |word: &[u8]| matches!(word, b"size" | b"date" | b"time" | b"name");
    let mut columns = Words(line);
    let mut count = 0;
    let mut has_only_columns = true;
    while let Some(word) = columns.next() {
        count += 1;
        has_only_columns = has_only_columns && is_column(word);
    }
    let is_rule = line.iter().all(|byte| matches!(byte, b'-' | b' ' | b'\t'));
    // A directory heading, such as `PS:<SMITH>`.
    let directory = line.trim_ascii().strip_suffix(b">");
    let is_directory = directory
        .is_some_and(|text| text.windows(2).any(|pair| pair == b":<") && !text.contains(&b' '));
    count > 1 && has_only_columns || is_rule && line.contains(&b'-') || is_directory
}

#[cfg(test)]
mod tests {
    use super::super::ListReader;
    use super::*;
    use std::format;
    use std::string::String;

    const NOW: Timestamp = Timestamp { seconds: 1_709_251_200, nanos: 0 };

    /// Returns name, kind, size and date of each entry; every other line must be a heading.
    fn parse_lines(lines: &[&str]) -> Vec<(String, Kind, Option<u64>, String)> {
        let mut reader = ListReader::new(NOW);
        let entries = lines.iter().filter_map(|line| reader.line(line.as_bytes()));
        let entries: Vec<_> = entries
            .map(|entry| {
                let date = entry.modified.map(Timestamp::to_text).unwrap_or_default();
                (String::from_utf8(entry.name).unwrap(), entry.kind, entry.size, date)
            })
            .collect();
        assert_eq!(reader.unknown_lines(), 0, "{:?}", reader.first_unknown());
        entries
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
    fn vxworks_lines_are_parsed_after_their_heading() {
        assert_eq!(
            parse_lines(&[
                "  size          date       time       name",
                "--------       ------     ------    --------",
                "  512    JAN-01-2003  00:00:10  DIR1              <DIR>",
                " 2048    Feb-28-1998  05:23:30   a file",
            ]),
            [
                expected_entry("DIR1", Kind::Directory, None, "20030101000010"),
                expected_entry("a file", Kind::File, Some(2048), "19980228052330"),
            ]
        );
    }

    #[test]
    fn members_of_os400_have_neither_size_nor_date() {
        assert_eq!(
            parse_lines(&[
                "QPGMR                         *MEM       RPGUNITC1.FILE/RUCALLTST.MBR",
                "QPGMR        16347136 29.06.13 15:45:09 *FILE      RPGUNIT.SAVF",
                "QSYS            77824 23/02/00 15:09:55 *FILE a file",
            ]),
            [
                expected_entry("RUCALLTST.MBR", Kind::File, None, ""),
                expected_entry("RPGUNIT.SAVF", Kind::File, Some(16_347_136), "20130629154509"),
                expected_entry("a file", Kind::File, Some(77_824), "20000223150955"),
            ]
        );
    }

    #[test]
    fn tops20_lines_are_parsed_without_generations() {
        assert_eq!(
            parse_lines(&[
                "   PS:<SMITH>",
                " FOO.TXT.3;P777700  2 2560(7)   24-Feb-1988 12:34:56 SMITH",
                " PROG.EXE.1;P775202 30 15360(36) 1-Jan-88 00:00:01 SMITH",
                " SUB.DIRECTORY.1;P020200 0 0(0) 1-Jan-88 00:00:01 SMITH",
                " Total of 32 pages in 3 files",
            ]),
            [
                expected_entry("FOO.TXT", Kind::File, Some(2560), "19880224123456"),
                expected_entry("PROG.EXE", Kind::File, None, "19880101000001"),
                expected_entry("SUB", Kind::Directory, None, "19880101000001"),
            ]
        );
    }

    #[test]
    fn a_tops20_name_needs_a_number_as_its_generation() {
        let entry = |name: &str| {
            tops20(format!(" {name};P777700  2 2560(7)   24-Feb-1988 12:34:56 SMITH").as_bytes())
        };
        assert!(entry("FOO.TXT.3").is_some());
        assert_eq!([entry("FOO.TXT"), entry(".3")], [None, None]);
    }

    #[test]
    fn unisys_mcp_lines_are_parsed() {
        assert_eq!(
            parse_lines(&[
                "SYMBOL/PROGRAM  FTPDATA  4800 02/23/2000 15:09:55",
                "A DAT 2 01/31/98 08:00:02",
                "B DATA 1 01/31/98 08:00:01"
            ]),
            [
                expected_entry("PROGRAM", Kind::File, Some(4800), "20000223150955"),
                expected_entry("A", Kind::File, Some(2), "19980131080002"),
                expected_entry("B", Kind::File, Some(1), "19980131080001"),
            ]
        );
    }

    #[test]
    fn a_heading_has_several_columns_a_rule_or_a_directory() {
        for heading in ["name size", "---- ----", "PS:<SMITH>", " PS:<A.B> "] {
            assert!(is_heading(heading.as_bytes()), "{heading}");
        }
        for other in ["name", "", "   ", "a:<b c>", "<SMITH>", "a>", "size 12"] {
            assert!(!is_heading(other.as_bytes()), "{other}");
        }
    }
}
