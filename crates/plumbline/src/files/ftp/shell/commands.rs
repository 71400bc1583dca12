//! Commands of the shell: list, usage, suggestions for misspelled names, and splitting a line into
//! words.

/// Category of a command, which selects its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Remote files.
    Remote,
    /// Transfers.
    Transfer,
    /// Local machine.
    Local,
    /// Session settings.
    Settings,
}

/// A command of the shell.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Alternative names, as used by other FTP clients.
    pub(super) aliases: &'static [&'static str],
    pub(super) group: Group,
    pub(super) usage: &'static str,
    about: &'static str,
}

const fn command(
    group: Group,
    name: &'static str,
    aliases: &'static [&'static str],
    usage: &'static str,
    about: &'static str,
) -> Command {
    Command { name, aliases, group, usage, about }
}

use Group::{Local, Remote, Settings, Transfer};

/// All commands, in the order of the help.
pub(super) const COMMANDS: [Command; 36] = [
    command(Remote, "ls", &["list", "nlist"], "[-l] [NAME...]", "list directories or files"),
    command(Remote, "dir", &[], "[NAME...]", "list with sizes and times"),
    command(Remote, "cd", &["cwd"], "DIR", "change the remote directory"),
    command(Remote, "cdup", &[], "", "go to the parent directory"),
    command(Remote, "pwd", &[], "", "print the remote directory"),
    command(Remote, "cat", &["more", "less"], "NAME", "print a file"),
    command(
        Remote,
        "rm",
        &["delete", "mdelete", "mrm"],
        "[-rfnv] NAME...",
        "remove files; -r: also directories",
    ),
    command(Remote, "mkdir", &[], "DIR...", "create directories"),
    command(Remote, "rmdir", &[], "DIR...", "remove empty directories"),
    command(Remote, "mv", &["rename", "ren"], "NAME NAME", "rename a file"),
    command(Remote, "chmod", &[], "MODE NAME...", "change permissions: chmod 644 a"),
    command(Remote, "size", &[], "NAME", "print the size and time of a file"),
    command(Remote, "modtime", &["mdtm"], "NAME", "print the time of a file"),
    command(
        Transfer,
        "get",
        &["recv"],
        "[-cf] NAME [LOCAL]",
        "download a file; -c: resume, -f: replace",
    ),
    command(Transfer, "mget", &[], "[-cf] NAME...", "download files; names may be patterns"),
    command(Transfer, "reget", &[], "NAME [LOCAL]", "resume an interrupted download"),
    command(Transfer, "put", &["send"], "[-c] LOCAL [NAME]", "upload a file; -c: resume"),
    command(Transfer, "mput", &[], "[-c] LOCAL...", "upload files; names may be patterns"),
    command(Transfer, "reput", &[], "LOCAL [NAME]", "resume an interrupted upload"),
    command(Local, "lcd", &[], "[DIR]", "change the local directory"),
    command(Local, "lpwd", &[], "", "print the local directory"),
    command(Local, "lls", &["ldir"], "[-l] [DIR]", "list a local directory"),
    command(Local, "!", &["shell"], "[COMMAND]", "run a local command or shell"),
    command(Settings, "type", &[], "[I|A|E|L36|auto]", "set or print the data type"),
    command(Settings, "mode", &[], "[S|B|C|Z]", "set or print the transmission mode"),
    command(Settings, "stru", &["struct"], "[F|R|P]", "set or print the file structure"),
    command(Settings, "store", &[], "[FORMAT]", "set or print the local word format"),
    command(Settings, "passive", &[], "", "passive mode: the client connects for data"),
    command(Settings, "active", &[], "", "active mode: the server connects for data"),
    command(Settings, "prompt", &[], "", "turn the confirmation of each file on or off"),
    command(Settings, "verbose", &[], "", "turn the display of commands and replies on or off"),
    command(Settings, "site", &[], "COMMAND", "send a SITE command"),
    command(Settings, "quote", &["literal"], "COMMAND", "send a command unchanged"),
    command(Settings, "status", &["stat"], "", "print the settings and the server's status"),
    command(Settings, "help", &["?"], "[COMMAND]", "list the commands, or describe one"),
    command(Settings, "quit", &["exit", "bye"], "", "end the session"),
];

/// Commands of other FTP clients that plumb does not support, each with its replacement.
const UNSUPPORTED_COMMANDS: [(&str, &str); 12] = [
    ("open", "a session has one host: use quit, then plumb ftp HOST"),
    ("close", "a session has one host: use quit"),
    ("disconnect", "a session has one host: use quit"),
    ("user", "the user is set at the start: plumb ftp USER@HOST"),
    ("mirror", "use plumb mirror for directories"),
    ("binary", "use type I"),
    ("bin", "use type I"),
    ("image", "use type I"),
    ("ascii", "use type A"),
    ("hash", "progress is always displayed"),
    ("lmkdir", "use !mkdir DIR"),
    ("glob", "patterns are always expanded, except the exact name of a file"),
];

/// Returns the command with this name or alternative name.
pub(super) fn find(word: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|known| known.name == word || known.aliases.contains(&word))
}

impl Command {
    /// Returns the usage of the command.
    pub(super) fn usage_text(&self) -> String {
        let space = if self.usage.is_empty() { "" } else { " " };
        format!("{}{space}{}", self.name, self.usage)
    }
}

/// Returns the message for an unknown command.
pub(super) fn unknown_command_message(word: &str) -> String {
    if let Some((_, instead)) = UNSUPPORTED_COMMANDS.iter().find(|(known, _)| *known == word) {
        return format!("'{word}' is not supported: {instead}");
    }
    let names = COMMANDS
        .iter()
        .flat_map(|known| [known.name].into_iter().chain(known.aliases.iter().copied()));
    let max_distance = if word.len() > 3 { 2 } else { 1 };
    let similar = names
        .map(|name| (distance(word, name), name))
        .filter(|(distance, _)| *distance <= max_distance);
    match similar.min() {
        Some((_, name)) => format!("unknown command '{word}': did you mean '{name}'?"),
        None => "unknown command: 'help' lists all".to_owned(),
    }
}

/// Returns the edit distance from `from` to `to`: the minimum number of insertions, deletions,
/// replacements and swaps of adjacent letters.
fn distance(from: &str, to: &str) -> usize {
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

/// Returns the help for the command `word`, or for all commands.
pub(super) fn help(word: Option<&str>) -> Result<String, String> {
    let line = |known: &Command| format!("{:28} {}\n", known.usage_text(), known.about);
    let Some(word) = word else { return Ok(COMMANDS.iter().map(line).collect()) };
    let command = find(word).ok_or_else(|| unknown_command_message(word))?;
    let aliases = match command.aliases {
        [] => String::new(),
        aliases => format!("{:28} aliases: {}\n", "", aliases.join(", ")),
    };
    Ok(format!("{}{aliases}", line(command)))
}

/// A line split into words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// Words without their quotes.
    pub(super) words: Vec<String>,
    /// Text after the first word, exactly as typed.
    pub(super) rest: String,
}

impl CommandLine {
    /// Splits a line at its spaces. Spaces between quotes do not split.
    pub(super) fn parse(line: &str) -> Self {
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
pub(super) fn words(line: &str) -> (Vec<String>, usize) {
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

/// Separates the flags from the other words; `None` if a flag is unknown.
pub(super) fn split_flags<'a, 'w>(
    words: &'w [&'a str],
    known: &str,
) -> Option<(String, &'w [&'a str])> {
    let mut flags = String::new();
    let mut rest = words;
    while let [word, others @ ..] = rest
        && let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty())
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
pub(super) fn quoted(name: &str) -> String {
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, '"' | '\'');
    match name.contains('"') {
        _ if name.chars().all(is_plain) => name.to_owned(),
        true => format!("'{name}'"),
        false => format!("\"{name}\""),
    }
}

/// Returns the replacement for a protocol command that `quote` does not send, because the client
/// must know the effect of the command.
pub(super) fn quote_replacement(command: &str) -> Option<&'static str> {
    let mut words = command.split_whitespace();
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    let queries_facts = words.next().is_some_and(|word| word.eq_ignore_ascii_case("MLST"));
    Some(match verb.as_str() {
        "TYPE" => "use type",
        "MODE" => "use mode",
        "STRU" => "use stru",
        "CWD" | "XCWD" | "CDUP" | "XCUP" | "SMNT" => "use cd",
        "PASV" | "EPSV" | "LPSV" | "SPSV" | "CPSV" => "use passive",
        "PORT" | "EPRT" | "LPRT" => "use active",
        "OPTS" if queries_facts => "the client selects the facts of listings itself",
        "RETR" | "REST" => "use get",
        "STOR" | "STOU" | "APPE" | "ALLO" => "use put",
        "LIST" | "NLST" | "MLSD" => "use ls",
        "MLFL" | "MAIL" => "use plumb mail",
        "USER" | "PASS" | "REIN" | "AUTH" | "PBSZ" | "PROT" | "CCC" => {
            "the user and TLS are set at the start: plumb ftp URL"
        }
        "QUIT" => "use quit",
        "ABOR" => "use ^C, which cancels the running command",
        _ => return None,
    })
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
    }

    #[test]
    fn a_misspelled_command_gets_a_suggestion() {
        assert_eq!(unknown_command_message("gte"), "unknown command 'gte': did you mean 'get'?");
        assert_eq!(
            unknown_command_message("renmae"),
            "unknown command 'renmae': did you mean 'rename'?"
        );
        assert_eq!(unknown_command_message("frobnicate"), "unknown command: 'help' lists all");
        assert_eq!(unknown_command_message("ascii"), "'ascii' is not supported: use type A");
    }

    #[test]
    fn commands_that_affect_data_connections_or_listings_are_not_sent_by_quote() {
        for command in ["LPRT 4,4", "lpsv", "SPSV", "CPSV", "SMNT /", "opts  mlst size;"] {
            assert!(quote_replacement(command).is_some(), "{command}");
        }
        assert_eq!(quote_replacement("OPTS UTF8 ON"), None);
    }

    #[test]
    fn command_names_are_unique_and_help_lines_fit_80_columns() {
        let mut names: Vec<_> = COMMANDS.iter().flat_map(|known| known.aliases).collect();
        names.extend(COMMANDS.iter().map(|known| &known.name));
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(help(None).unwrap().lines().all(|line| line.len() <= 80));
        assert!(help(Some("delete")).unwrap().starts_with("rm [-rfnv] NAME..."));
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
