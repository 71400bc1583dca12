//! The test scripts of libvterm: one item per line, identified by the beginning of the line.
//!
//! A command begins with a capital letter, an expected effect with a small letter, an assertion
//! with a question mark, a title with an exclamation mark. `$REP n:` and `$SEQ a b:` repeat the
//! rest of the line. Strings are written as in Perl; literals, `.` and `x` are supported.

/// A significant line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Line number, counted from 1.
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Command,
    Expectation,
    Assertion,
}

/// Parses a script, up to its `__END__`.
pub(super) fn read(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line == "__END__" {
            break;
        }
        push(&mut lines, number, line);
    }
    lines
}

fn push(lines: &mut Vec<Line>, number: usize, line: &str) {
    if let Some((range, rest)) = line.strip_prefix("$SEQ ").and_then(|rest| rest.split_once(':')) {
        let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u32>().ok());
        if let (Some(low), Some(high)) = (ends.next(), ends.next()) {
            for value in low..=high {
                push(lines, number, rest.trim().replace("\\#", &value.to_string()).as_str());
            }
        }
        return;
    }
    if let Some((count, rest)) = line.strip_prefix("$REP ").and_then(|rest| rest.split_once(':')) {
        for _ in 0..count.trim().parse().unwrap_or(0) {
            push(lines, number, rest.trim());
        }
        return;
    }
    let kind = match line.chars().next() {
        Some('A'..='Z') => Kind::Command,
        Some('a'..='z') => Kind::Expectation,
        Some('?') => Kind::Assertion,
        _ => return,
    };
    lines.push(Line { number, kind, text: line.trim_start_matches('?').to_owned() });
}

/// Returns the bytes of a Perl string expression.
pub(super) fn string(expression: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = expression.trim();
    while !rest.is_empty() {
        let (mut piece, after) = literal(rest)?;
        rest = after.trim_start();
        if let Some(count) = rest.strip_prefix('x') {
            let end = count.trim_start().find(|c: char| !c.is_ascii_digit());
            let count = count.trim_start();
            let (digits, after) = count.split_at(end.unwrap_or(count.len()));
            piece = piece.repeat(digits.parse().ok()?);
            rest = after.trim_start();
        }
        bytes.append(&mut piece);
        rest = match rest.strip_prefix('.') {
            Some(after) => after.trim_start(),
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    Some(bytes)
}

/// Parses one literal, and returns it with the rest of the text.
fn literal(text: &str) -> Option<(Vec<u8>, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut bytes = Vec::new();
    loop {
        let c = rest.chars().next()?;
        rest = rest.get(c.len_utf8()..)?;
        match c {
            '"' => return Some((bytes, rest)),
            '\\' => rest = escape(rest, &mut bytes)?,
            c => bytes.extend(c.to_string().into_bytes()),
        }
    }
}

fn escape<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let c = text.chars().next()?;
    let rest = text.get(c.len_utf8()..)?;
    match c {
        'a' => bytes.push(0x07),
        'b' => bytes.push(0x08),
        't' => bytes.push(b'\t'),
        'n' => bytes.push(b'\n'),
        'r' => bytes.push(b'\r'),
        'f' => bytes.push(0x0c),
        'e' => bytes.push(0x1b),
        '0' => bytes.push(0),
        'x' => {
            let (digits, rest) = match rest.strip_prefix('{') {
                Some(braced) => braced.split_once('}')?,
                None => rest.split_at_checked(2)?,
            };
            let code = u32::from_str_radix(digits, 16).ok()?;
            match u8::try_from(code) {
                Ok(byte) => bytes.push(byte),
                Err(_) => bytes.extend(char::from_u32(code)?.to_string().into_bytes()),
            }
            return Some(rest);
        }
        c => bytes.extend(c.to_string().into_bytes()),
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_joined_repeated_and_unescaped() {
        assert_eq!(string(r#""a\e[1m\x41" . "b"x3 . "\"\\""#).unwrap(), b"a\x1b[1mAbbb\"\\");
        assert_eq!(string(""), Some(Vec::new()));
        assert_eq!(string("join 1"), None);
    }

    #[test]
    fn a_script_is_read_line_by_line_with_its_repetitions() {
        let lines =
            read("# no\n!Title\nPUSH \"a\"\n  output \"b\"\n?cursor = 0,1\n$REP 2: RESET\n");
        let kinds: Vec<_> = lines.iter().map(|line| (line.number, line.kind)).collect();
        let expected = [
            (3, Kind::Command),
            (4, Kind::Expectation),
            (5, Kind::Assertion),
            (6, Kind::Command),
            (6, Kind::Command),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(read("$SEQ 1 2: PUSH \"\\#\"\n__END__\nRESET")[1].text, "PUSH \"2\"");
    }
}
