//! Dates in the lines of LIST: month names of several languages, and the orders of day, month, year
//! and time.
//!
//! Not supported: a month given by its number alone (`3 29 03:26`), and a year before a time
//! (`Oct 08, 2002 09:47`); both are ambiguous with ordinary lines.

use super::MONTHS;
use super::line_words::Words;
use crate::ftp::timestamp::{Civil, Timestamp};
use alloc::string::String;

/// Abbreviated month names in lower case, without their full stop, other than the English ones.
/// Names that mean different months in different languages are left out, except where only one of
/// them is common in listings.
const MONTHS_LOCALIZED: [&[&str]; 12] = [
    &[
        "jän", "jaen", "janv", "gen", "gener", "ene", "sty", "led", "tammi", "ian", "jaan", "oca",
        "янв", "січ", "ιαν",
    ],
    &[
        "fév", "févr", "fev", "fevr", "febr", "lut", "úno", "helmi", "veebr", "şub", "фев", "лют",
        "φεβ",
    ],
    &[
        "mär", "märz", "mrz", "mars", "mrt", "mzo", "marz", "març", "márc", "bře", "maalis",
        "märts", "мар", "бер", "μάρ", "μαρ",
    ],
    &["avr", "avril", "april", "abr", "kwi", "dub", "huhti", "ápr", "nis", "апр", "кві", "απρ"],
    &["mai", "mag", "maj", "mei", "máj", "maig", "kvě", "touko", "мая", "май", "тра", "μάι", "μαϊ"],
    &[
        "juin", "juni", "june", "giu", "cze", "čen", "kesä", "jún", "iun", "juny", "juuni", "haz",
        "июн", "июня", "чер", "ιούν", "ιουν",
    ],
    &[
        "juil", "jui", "juli", "july", "lug", "lip", "čec", "heinä", "júl", "iul", "juuli", "tem",
        "июл", "июля", "ιούλ", "ιουλ",
    ],
    &[
        "août", "aoû", "aout", "ago", "agto", "sie", "srp", "elo", "avg", "ağu", "авг", "сер",
        "αύγ", "αυγ",
    ],
    &["sept", "set", "szept", "wrz", "zář", "syys", "eyl", "сен", "сент", "вер", "σεπ"],
    &["okt", "ott", "out", "paź", "říj", "loka", "eki", "окт", "жов", "οκτ"],
    &["lis", "marras", "kas", "ноя", "нояб", "νοέ", "νοε"],
    &["dez", "déc", "dic", "des", "gru", "pro", "joulu", "dets", "ara", "дек", "гру", "δεκ"],
];

/// Parses a word that consists of ASCII digits only.
pub(super) fn number<T: core::str::FromStr>(word: &[u8]) -> Option<T> {
    let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    if is_number { core::str::from_utf8(word).ok()?.parse().ok() } else { None }
}

/// Parses a number that is followed by nothing, by a full stop or a comma, or by the sign for year,
/// month or day in an Asian script: `18`, `26.`, `12月`. The sign may be in any encoding. Also
/// returns whether a sign followed.
fn number_with_mark<T: core::str::FromStr>(word: &[u8]) -> Option<(T, bool)> {
    let len = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, mark) = word.split_at_checked(len)?;
    // In Shift JIS the second byte of a character may be an ASCII letter.
    let is_sign = mark.first().is_some_and(|byte| !byte.is_ascii()) && mark.len() <= 4;
    let is_plain = matches!(mark, b"" | b"." | b",");
    (is_plain || is_sign).then_some(())?;
    Some((number(digits)?, is_sign))
}

fn parse_month(word: &[u8]) -> Option<u8> {
    if let Some((month, true)) = number_with_mark(word) {
        return Some(month).filter(|month| (1..=12).contains(month));
    }
    let is_name = |name: &str| name.as_bytes().eq_ignore_ascii_case(word);
    let english = MONTHS.iter().position(|name| is_name(name));
    let month = english.or_else(|| {
        let word = to_lower_case(word);
        MONTHS_LOCALIZED
            .iter()
            .position(|names| names.contains(&word.as_str()))
            .or_else(|| MONTHS.iter().position(|name| name.eq_ignore_ascii_case(&word)))
    })?;
    u8::try_from(month + 1).ok()
}

/// Returns the month with this English name.
pub(super) fn parse_english_month(word: &[u8]) -> Option<u8> {
    let is_name = |name: &str| name.as_bytes().eq_ignore_ascii_case(word);
    u8::try_from(MONTHS.iter().position(|name| is_name(name))? + 1).ok()
}

/// Returns a word in lower case without trailing punctuation. Bytes that are not UTF-8 are decoded
/// as Latin-1.
fn to_lower_case(word: &[u8]) -> String {
    let text = match core::str::from_utf8(word) {
        Ok(text) => String::from(text),
        Err(_) => word.iter().map(|&byte| char::from(byte)).collect(),
    };
    let text = text.trim_end_matches(['.', ',']);
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Parses `12:00`, `12:00:05` or `12:00:05.123`.
pub(super) fn parse_clock(word: &[u8]) -> Option<(u8, u8, u8)> {
    let mut parts = word.split(|&byte| byte == b':');
    let hour = number(parts.next()?)?;
    let minute = number(parts.next()?)?;
    let second = match parts.next() {
        Some(second) => number(second.split(|&byte| byte == b'.').next()?)?,
        None => 0,
    };
    (parts.next().is_none() && hour < 24 && minute < 60).then_some((hour, minute, second))
}

pub(super) fn to_timestamp(
    year: i64,
    month: u8,
    day: u8,
    (hour, minute, second): (u8, u8, u8),
) -> Option<Timestamp> {
    Timestamp::from_civil(Civil { year, month, day, hour, minute, second })
}

/// Parses a year of four or two digits; two digits denote a year from 1970 to 2069.
pub(super) fn parse_year(digits: &[u8]) -> Option<i64> {
    let year: i64 = number(digits)?;
    match digits.len() {
        2 if year < 70 => Some(2000 + year),
        2 => Some(1900 + year),
        4 => Some(year),
        _ => None,
    }
}

/// Returns the most recent date with this month and day that is at most one day in the future. One
/// day is allowed because of time zones.
fn most_recent_date(month: u8, day: u8, clock: (u8, u8, u8), now: Timestamp) -> Option<Timestamp> {
    let year = now.civil().year;
    let this_year =
        to_timestamp(year, month, day, clock).filter(|m| m.seconds <= now.seconds + 86_400);
    // The previous 29 February may be up to eight years ago.
    this_year.or_else(|| (1..=8).find_map(|back| to_timestamp(year - back, month, day, clock)))
}

/// Parses `Feb 27 12:00`, `Feb 27 1999`, `27 Feb 12:00`, `26. Juli, 20:10`, `12月 31 2014`, `2003年
/// 4月 18日`, `1999-02-27 12:00`, `27/02/1999` or `1999-02-27 12:00:05.123456789 +0200`. `first` is
/// the first word, and `words` are the words after it.
pub(super) fn date(first: &[u8], words: &mut Words<'_>, now: Timestamp) -> Option<Timestamp> {
    if let Some((year, month, day)) = numeric_date(first) {
        let parse = |word: &[u8]| Some((parse_clock(word)?, word.contains(&b'.')));
        let (clock, is_full) = next_if(words, parse).unwrap_or_default();
        // Only a time with a fraction of a second is followed by a zone; after any other time such
        // a word is a name.
        let zone = if is_full { next_if(words, zone_seconds).unwrap_or(0) } else { 0 };
        let time = to_timestamp(year, month, day, clock)?;
        return Some(Timestamp { seconds: time.seconds - zone, ..time });
    }
    if let Some((year, true)) = number_with_mark::<i64>(first).filter(|(year, _)| *year > 999) {
        let month = parse_month(words.next()?)?;
        let day = number_with_mark(words.next()?)?.0;
        return to_timestamp(year, month, day, (0, 0, 0));
    }
    let (month, day) = match parse_month(first) {
        Some(month) => (month, number_with_mark(words.next()?)?.0),
        None => (parse_month(words.next()?)?, number_with_mark(first)?.0),
    };
    let time_or_year = words.next()?;
    if let Some(clock) = parse_clock(time_or_year) {
        return most_recent_date(month, day, clock, now);
    }
    let (year, _) =
        number_with_mark::<i64>(time_or_year).filter(|(year, _)| (1000..=9999).contains(year))?;
    to_timestamp(year, month, day, (0, 0, 0))
}

/// Parses year, month and day, such as `1999-02-27`, or day, month and year, such as `27-02-1999`.
/// The separator is `-`, `/` or `.`.
fn numeric_date(word: &[u8]) -> Option<(i64, u8, u8)> {
    let mut parts = word.split(|byte| matches!(byte, b'-' | b'/' | b'.'));
    let a = parts.next()?;
    let b = parts.next()?;
    let c = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    match (a.len(), c.len()) {
        (4, 1 | 2) => Some((number(a)?, number(b)?, number(c)?)),
        (1 | 2, 4) => Some((number(c)?, number(b)?, number(a)?)),
        _ => None,
    }
}

/// Parses `+0200`, and returns the offset from UTC in seconds.
fn zone_seconds(word: &[u8]) -> Option<i64> {
    let (sign, digits) = match word {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let zone: i64 = number(digits).filter(|_| digits.len() == 4)?;
    Some(sign * (zone / 100 * 3600 + zone % 100 * 60))
}

/// Removes and returns the next word if `parse` accepts it.
fn next_if<T>(words: &mut Words<'_>, parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut following_words = Words(words.0);
    let value = parse(following_words.next()?)?;
    words.0 = following_words.0;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, ListReader};
    use super::*;
    use std::format;
    use std::string::ToString;

    /// The calendar time of the tests: 2024-03-01 00:00.
    const NOW: Timestamp = Timestamp { seconds: 1_709_251_200, nanos: 0 };

    /// Returns the date and the name that are parsed after the size of a Unix line.
    fn parse_line(rest: &[u8]) -> Option<(String, String)> {
        let line = [b"-rw-r--r-- 1 u g 1024 ".as_slice(), rest].concat();
        let mut reader = ListReader::new(NOW);
        let entry = reader.line(&line)?;
        assert_eq!((entry.kind, entry.size), (Kind::File, Some(1024)));
        let name = String::from_utf8_lossy(&entry.name).to_string();
        Some((entry.modified?.to_text(), name))
    }

    fn day(text: &str) -> Option<(String, String)> {
        Some((format!("{text}000000"), "a name".into()))
    }

    #[test]
    fn months_are_parsed_in_other_languages() {
        for (date, expected) in [
            ("févr. 24 2020", "20200224"),
            ("1 Mär 2015", "20150301"),
            ("26 fev 2003", "20030226"),
            ("31 déc. 1999", "19991231"),
            ("2.   Okt.  2003", "20031002"),
            ("szept 26 2011", "20110926"),
            ("5 Янв 2015", "20150105"),
            ("12月 31 2014", "20141231"),
            (" 4月 18日 2003年", "20030418"),
            ("2003年 4月 18日", "20030418"),
            ("1000年 4月 18日", "10000418"),
            ("2005년  1월  6일", "20050106"),
        ] {
            assert_eq!(parse_line(format!("{date} a name").as_bytes()), day(expected), "{date}");
        }
    }

    #[test]
    fn months_are_parsed_in_encodings_other_than_utf_8() {
        assert_eq!(parse_line(b"1 M\xe4r 2015 a name"), day("20150301"));
        assert_eq!(parse_line(b"f\xe9vr. 24 2020 a name"), day("20200224"));
        assert_eq!(parse_line(b"4\x8c\x8e 18\x93\xfa 2003\x94\x4e a name"), day("20030418"));
        assert_eq!(parse_line(b"8\xed\xef 17 2003 a name"), day("20030817"));
    }

    #[test]
    fn times_without_a_year_are_parsed_in_other_languages() {
        let parse_line = |text: &str| parse_line(text.as_bytes()).unwrap().0;
        assert_eq!(parse_line("26. Juli, 20:10 x"), "20230726201000");
        assert_eq!(parse_line("févr. 24 12:34 x"), "20240224123400");
        assert_eq!(parse_line("12月 31 23:59 x"), "20231231235900");
    }

    #[test]
    fn full_times_are_parsed_with_fraction_and_zone() {
        let full_time = parse_line(b"2012-06-06 14:31:05.123456789 +0200 full iso").unwrap();
        assert_eq!(full_time, ("20120606123105".into(), "full iso".into()));
        let time_west_of_utc = parse_line(b"2012-06-06 22:31:05.000000000 -0330 x").unwrap();
        assert_eq!(time_west_of_utc.0, "20120607020105");
        assert_eq!(parse_line(b"2012-06-06 14:31 -0200").unwrap().1, "-0200");
    }

    #[test]
    fn numeric_dates_are_parsed_with_the_year_at_either_end() {
        assert_eq!(parse_line(b"1999/10/12 17:12 x").unwrap().0, "19991012171200");
        assert_eq!(parse_line(b"24-04-2003 17:12 x").unwrap().0, "20030424171200");
        assert_eq!(parse_line(b"2004.07.15   a name").unwrap().0, "20040715000000");
    }

    #[test]
    fn no_month_name_is_ambiguous() {
        let mut all_names: std::vec::Vec<&str> = MONTHS_LOCALIZED.concat();
        let count = all_names.len();
        all_names.sort_unstable();
        all_names.dedup();
        assert_eq!(all_names.len(), count);
        assert!(all_names.iter().all(|name| parse_english_month(name.as_bytes()).is_none()));
        assert!(all_names.iter().all(|name| to_lower_case(name.as_bytes()) == **name));
    }

    #[test]
    fn two_digits_denote_a_year_from_1970_to_2069() {
        let years = ["69", "70", "2024", "124"].map(|digits| parse_year(digits.as_bytes()));
        assert_eq!(years, [Some(2069), Some(1970), Some(2024), None]);
    }

    #[test]
    fn the_sign_for_a_unit_has_at_most_four_bytes() {
        let words = [&b"12."[..], b"12", b"12\x81\x30\x81\x30", b"12\x81\x30\x81\x30\x81", b"12x"];
        let numbers = words.map(number_with_mark::<u8>);
        assert_eq!(numbers, [Some((12, false)), Some((12, false)), Some((12, true)), None, None]);
    }
}
