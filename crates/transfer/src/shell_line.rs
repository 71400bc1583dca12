//! Lines of the interactive client: commands, words, flags, quotes and the prompt.

/// A line split into words.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Words without their quotes.
    pub words: Vec<String>,
    /// Text after the first word, exactly as typed.
    pub rest: String,
}

impl CommandLine {
    /// Splits a line at its spaces. Spaces between quotes do not split.
    pub fn parse(line: &str) -> Self {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('!') {
            return Self { words: vec!["!".to_owned()], rest: rest.trim().to_owned() };
        }
        let rest = line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
        Self { words: words(line).0, rest: rest.to_owned() }
    }
}

/// Returns the words of a line, and the offset of the last word. If the line ends with a space, the
/// offset is the end of the line, where the next word begins.
pub fn words(line: &str) -> (Vec<String>, usize) {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    let mut start = line.len();
    for (at, letter) in line.char_indices() {
        if word.is_none() && !letter.is_whitespace() {
            start = at;
        }
        match (letter, quote) {
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, Some(open)) if letter == open => quote = None,
            (letter, None) if letter.is_whitespace() => {
                words.extend(word.take());
                start = line.len();
            }
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    (words, start)
}

/// Long names of flags, as in lftp, and their letters.
const LONG_FLAGS: [(&str, &str); 7] = [
    ("--all", "-a"),
    ("--continue", "-c"),
    ("--delete", "-e"),
    ("--dry-run", "-n"),
    ("--force", "-f"),
    ("--reverse", "-R"),
    ("--verbose", "-v"),
];

/// Separates the flags from the other words; `None` if a flag is unknown.
pub fn split_flags<'a, 'w>(words: &'w [&'a str], known: &str) -> Option<(String, &'w [&'a str])> {
    let mut flags = String::new();
    let mut rest = words;
    while let [word, others @ ..] = rest
        && let long_flag = LONG_FLAGS.iter().find(|(long, _)| long == word)
        && let Some(letters) = long_flag
            .map_or(*word, |(_, short)| short)
            .strip_prefix('-')
            .filter(|letters| !letters.is_empty())
    {
        rest = others;
        if letters == "-" {
            break;
        }
        if !letters.chars().all(|letter| known.contains(letter)) {
            return None;
        }
        flags.push_str(letters);
    }
    Some((flags, rest))
}

/// Returns a name in quotes if it needs quotes to be one word of a line.
pub fn quoted(name: &str) -> String {
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, '"' | '\'');
    match name.contains('"') {
        _ if name.chars().all(is_plain) => name.to_owned(),
        true => format!("'{name}'"),
        false => format!("\"{name}\""),
    }
}

/// Returns the edit distance from `from` to `to`: the minimum number of insertions, deletions,
/// replacements and swaps of adjacent letters.
pub fn edit_distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut previous_row: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.iter().enumerate() {
        let mut next = vec![index + 1];
        for (at, other) in to.iter().enumerate() {
            let cost_at = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut min_distance = cost_at(&row, at) + usize::from(letter != other);
            min_distance = min_distance.min(cost_at(&row, at + 1) + 1).min(cost_at(&next, at) + 1);
            let before = index.checked_sub(1);
            let other_before = at.checked_sub(1);
            if let Some((before, other_before)) = before.zip(other_before)
                && from.get(before) == Some(other)
                && to.get(other_before) == Some(letter)
            {
                min_distance = min_distance.min(cost_at(&previous_row, other_before) + 1);
            }
            next.push(min_distance);
        }
        previous_row = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

/// Splits a script into commands, at line ends and at semicolons that are not in quotes.
pub fn split_commands(script: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    let mut quote = None;
    for letter in script.chars() {
        match (letter, quote) {
            ('\n', _) | (';', None) => {
                quote = None;
                commands.push(String::new());
                continue;
            }
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        if let Some(command) = commands.last_mut() {
            command.push(letter);
        }
    }
    commands.retain(|command| !command.trim().is_empty());
    commands
}

/// Returns the prompt for a directory of `host`. It takes at most half of a terminal of this width:
/// the host is omitted first, then the beginning of the directory.
pub fn prompt(host: &str, directory: &str, columns: usize) -> String {
    let max_len = columns / 2;
    let prompts = [format!("ftp {host}:{directory}> "), format!("ftp {directory}> ")];
    if let Some(prompt) = prompts.into_iter().find(|prompt| prompt.chars().count() <= max_len) {
        return prompt;
    }
    // `ftp ...> ` has nine letters.
    let omitted = (directory.chars().count() + 9).saturating_sub(max_len);
    format!("ftp ...{}> ", directory.chars().skip(omitted).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_between_quotes_may_have_spaces() {
        assert_eq!(words("get  'a b' \"c\"d ''").0, ["get", "a b", "cd", ""]);
        assert_eq!(CommandLine::parse(" quote  SITE a  'b' ").rest, "SITE a  'b'");
        assert_eq!(CommandLine::parse("!ls -l").words, ["!"]);
    }

    #[test]
    fn flags_precede_names_and_end_at_two_hyphens() {
        assert_eq!(split_flags(&["-c", "-f", "a"], "cf"), Some(("cf".to_owned(), &["a"][..])));
        assert_eq!(split_flags(&["--", "-c"], "cf"), Some((String::new(), &["-c"][..])));
        assert_eq!(split_flags(&["-x", "a"], "cf"), None);
        let with_long_flag = ["--force", "a"];
        assert_eq!(split_flags(&with_long_flag, "cf"), Some(("f".to_owned(), &["a"][..])));
        assert_eq!(split_flags(&with_long_flag, "c"), None);
    }

    #[test]
    fn semicolons_and_line_ends_separate_commands_but_not_in_quotes() {
        let commands = split_commands("cd pub; get 'a;b'\nls;;\n!echo \"x;y\"");
        assert_eq!(commands, ["cd pub", " get 'a;b'", "ls", "!echo \"x;y\""]);
    }

    #[test]
    fn a_prompt_takes_at_most_half_of_the_terminal() {
        assert_eq!(prompt("example.net", "/pub", 80), "ftp example.net:/pub> ");
        assert_eq!(prompt("example.net", "/pub/linux", 40), "ftp /pub/linux> ");
        assert_eq!(prompt("example.net", "/pub/linux/kernel", 40), "ftp ...inux/kernel> ");
    }

    proptest! {
        #[test]
        fn quoted_names_are_parsed_back(name in "[a-z \"']{1,12}") {
            prop_assume!(!(name.contains('"') && name.contains('\'')));
            prop_assert_eq!(words(&quoted(&name)).0, [name]);
        }

        #[test]
        fn a_line_of_quoted_names_is_parsed_back(
            names in proptest::collection::vec("[a-z ]{1,9}|[a-z \"]{1,9}|[a-z ']{1,9}", 0..5)
        ) {
            let quoted_names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
            prop_assert_eq!(CommandLine::parse(&quoted_names.join("  ")).words, names);
        }
    }
}
