//! Notices to console clients without RFC 2217: lines within the output that begin with `[plumb:`.

/// Width of a client's window if it reports none.
pub(super) const DEFAULT_COLUMNS: u16 = 80;
/// Width below which notices are not wrapped further. Our choice: the longest words fit.
const COLUMNS_MIN: u16 = 20;

/// Returns `notice` as lines that are wrapped between words and leave the last column empty: some
/// terminals wrap after a character in it.
pub(super) fn lines(notice: &str, columns: u16) -> String {
    // 0 means that the size is unknown (RFC 1073).
    let columns = if columns == 0 { DEFAULT_COLUMNS } else { columns.max(COLUMNS_MIN) };
    let mut text = "\r\n[plumb:".to_owned();
    let mut used = text.trim_start().len();
    let notice = format!("{notice}]");
    for word in notice.split(' ') {
        let width = word.chars().count();
        let fits = used + 1 + width < usize::from(columns);
        text.push_str(if fits { " " } else { "\r\n" });
        used = if fits { used + 1 + width } else { width };
        text.push_str(word);
    }
    text.push_str("\r\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_wrapped_between_words() {
        assert_eq!(lines("yes", 80), "\r\n[plumb: yes]\r\n");
        assert_eq!(lines("five six eight", 23), "\r\n[plumb: five six\r\neight]\r\n");
        assert_eq!(lines("five six eight", 24), "\r\n[plumb: five six eight]\r\n");
        assert_eq!(lines("one two three four", 1), "\r\n[plumb: one two\r\nthree four]\r\n");
        let long = "a ".repeat(60);
        assert_eq!(lines(&long, 0), lines(&long, 80));
    }
}
