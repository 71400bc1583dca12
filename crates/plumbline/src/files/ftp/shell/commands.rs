//! Commands of the shell: their list, their usage, suggestions for misspelled names, and the
//! splitting of a line into words.

/// Category of a command, which selects its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Remote files.
    There,
    /// Transfers.
    Moving,
    /// Local machine.
    Here,
    /// Session settings.
    Session,
}

/// A command of the shell.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Names of the command in other clients.
    pub(super) others: &'static [&'static str],
    pub(super) group: Group,
    pub(super) usage: &'static str,
    about: &'static str,
}

const fn command(
    group: Group,
    name: &'static str,
    others: &'static [&'static str],
    usage: &'static str,
    about: &'static str,
) -> Command {
    Command { name, others, group, usage, about }
}

use Group::{Here, Moving, Session, There};

/// All commands, in the order of the help.
pub(super) const COMMANDS: [Command; 36] = [
    command(There, "ls", &["list", "nlist"], "[-l] [NAME...]", "list directories or files"),
    command(There, "dir", &[], "[NAME...]", "list with sizes and times"),
    command(There, "cd", &["cwd"], "DIR", "change the remote directory"),
    command(There, "cdup", &[], "", "go to the parent directory"),
    command(There, "pwd", &[], "", "print the remote directory"),
    command(There, "cat", &["more", "less"], "NAME", "print a file"),
    command(
        There,
        "rm",
        &["delete", "mdelete", "mrm"],
        "[-rfnv] NAME...",
        "remove files; -r: also directories",
    ),
    command(There, "mkdir", &[], "DIR...", "create directories"),
    command(There, "rmdir", &[], "DIR...", "remove empty directories"),
    command(There, "mv", &["rename", "ren"], "NAME NAME", "rename a file"),
    command(There, "chmod", &[], "MODE NAME...", "change permissions: chmod 644 a"),
    command(There, "size", &[], "NAME", "print the size and time of a file"),
    command(There, "modtime", &["mdtm"], "NAME", "print the time of a file"),
    command(
        Moving,
        "get",
        &["recv"],
        "[-cf] NAME [LOCAL]",
        "download a file; -c: resume, -f: replace",
    ),
    command(Moving, "mget", &[], "[-cf] NAME...", "download files; names may be patterns"),
    command(Moving, "reget", &[], "NAME [LOCAL]", "resume an interrupted download"),
    command(Moving, "put", &["send"], "[-c] LOCAL [NAME]", "upload a file; -c: resume"),
    command(Moving, "mput", &[], "[-c] LOCAL...", "upload files; names may be patterns"),
    command(Moving, "reput", &[], "LOCAL [NAME]", "resume an interrupted upload"),
    command(Here, "lcd", &[], "[DIR]", "change the local directory"),
    command(Here, "lpwd", &[], "", "print the local directory"),
    command(Here, "lls", &["ldir"], "[-l] [DIR]", "list a local directory"),
    command(Here, "!", &["shell"], "[COMMAND]", "run a local command or shell"),
    command(Session, "type", &[], "[I|A|E|L36|auto]", "set or print the data type"),
    command(Session, "mode", &[], "[S|B|C|Z]", "set or print the transmission mode"),
    command(Session, "stru", &["struct"], "[F|R|P]", "set or print the file structure"),
    command(Session, "store", &[], "[FORMAT]", "set or print the local word format"),
    command(Session, "passive", &[], "", "passive mode: the client connects for data"),
    command(Session, "active", &[], "", "active mode: the server connects for data"),
    command(Session, "prompt", &[], "", "turn questions before each of many files on or off"),
    command(Session, "verbose", &[], "", "turn the display of server replies on or off"),
    command(Session, "site", &[], "COMMAND", "send a SITE command"),
    command(Session, "quote", &["literal"], "COMMAND", "send a command unchanged"),
    command(Session, "status", &["stat"], "", "print the settings and the server's status"),
    command(Session, "help", &["?"], "[COMMAND]", "list the commands, or describe one"),
    command(Session, "quit", &["exit", "bye"], "", "end the session"),
];

/// Commands of other clients, and their replacements here.
const ELSEWHERE: [(&str, &str); 12] = [
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
    COMMANDS.iter().find(|known| known.name == word || known.others.contains(&word))
}

impl Command {
    /// Returns the usage of the command.
    pub(super) fn usage_text(&self) -> String {
        let space = if self.usage.is_empty() { "" } else { " " };
        format!("{}{space}{}", self.name, self.usage)
    }
}

/// Returns the message for an unknown command.
pub(super) fn unknown(word: &str) -> String {
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| *known == word) {
        return format!("'{word}' is not supported: {instead}");
    }
    let names = COMMANDS
        .iter()
        .flat_map(|known| [known.name].into_iter().chain(known.others.iter().copied()));
    let far = if word.len() > 3 { 2 } else { 1 };
    let like = names.map(|name| (distance(word, name), name)).filter(|(away, _)| *away <= far);
    match like.min() {
        Some((_, name)) => format!("unknown command '{word}': did you mean '{name}'?"),
        None => "unknown command: 'help' lists all".to_owned(),
    }
}

/// Returns the edit distance: the number of letters to insert, delete, replace or swap with the
/// next one to turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut last: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.iter().enumerate() {
        let mut next = vec![index + 1];
        for (at, other) in to.iter().enumerate() {
            let of = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut best = of(&row, at) + usize::from(letter != other);
            best = best.min(of(&row, at + 1) + 1).min(of(&next, at) + 1);
            let (before, other_before) = (index.checked_sub(1), at.checked_sub(1));
            if let Some((before, other_before)) = before.zip(other_before)
                && from.get(before) == Some(other)
                && to.get(other_before) == Some(letter)
            {
                best = best.min(of(&last, other_before) + 1);
            }
            next.push(best);
        }
        last = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

/// Returns the help for all commands, or for one.
pub(super) fn help(word: Option<&str>) -> Result<String, String> {
    let line = |known: &Command| format!("{:28} {}\n", known.usage_text(), known.about);
    let Some(word) = word else { return Ok(COMMANDS.iter().map(line).collect()) };
    let known = find(word).ok_or_else(|| unknown(word))?;
    let others = match known.others {
        [] => String::new(),
        others => format!("{:28} aliases: {}\n", "", others.join(", ")),
    };
    Ok(format!("{}{others}", line(known)))
}

/// A line split into words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Words without their quotes.
    pub(super) words: Vec<String>,
    /// Text after the first word, as it was typed.
    pub(super) rest: String,
}

impl Line {
    /// Splits a line at its spaces, except those between quotes.
    pub(super) fn parse(line: &str) -> Self {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('!') {
            return Self { words: vec!["!".to_owned()], rest: rest.trim().to_owned() };
        }
        let rest = line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
        Self { words: words(line).0, rest: rest.to_owned() }
    }
}

/// Returns the words of a line, and the offset of the last one. After a space, that offset is the
/// end of the line, where the next word begins.
pub(super) fn words(line: &str) -> (Vec<String>, usize) {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
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

/// Returns a name with the quotes that it needs in a line.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, '"' | '\'');
    match name.contains('"') {
        _ if name.chars().all(is_plain) => name.to_owned(),
        true => format!("'{name}'"),
        false => format!("\"{name}\""),
    }
}

/// Returns the replacement for a command that is not sent as it is, since the client must know its
/// effect.
pub(super) fn instead_of_quote(command: &str) -> Option<&'static str> {
    let mut words = command.split_whitespace();
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    let is_of_facts = words.next().is_some_and(|word| word.eq_ignore_ascii_case("MLST"));
    Some(match verb.as_str() {
        "TYPE" => "use type",
        "MODE" => "use mode",
        "STRU" => "use stru",
        "CWD" | "XCWD" | "CDUP" | "XCUP" | "SMNT" => "use cd",
        "PASV" | "EPSV" | "LPSV" | "SPSV" | "CPSV" => "use passive",
        "PORT" | "EPRT" | "LPRT" => "use active",
        "OPTS" if is_of_facts => "the client selects the facts of listings",
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
        assert_eq!(Line::parse(" quote  SITE a  'b' ").rest, "SITE a  'b'");
        assert_eq!(Line::parse("!ls -l").words, ["!"]);
    }

    #[test]
    fn a_slip_of_the_finger_is_told_what_was_meant() {
        assert_eq!(unknown("gte"), "unknown command 'gte': did you mean 'get'?");
        assert_eq!(unknown("renmae"), "unknown command 'renmae': did you mean 'rename'?");
        assert_eq!(unknown("frobnicate"), "unknown command: 'help' lists all");
        assert_eq!(unknown("ascii"), "'ascii' is not supported: use type A");
    }

    #[test]
    fn what_would_move_a_data_connection_or_a_listing_unnoticed_is_not_sent() {
        for command in ["LPRT 4,4", "lpsv", "SPSV", "CPSV", "SMNT /", "opts  mlst size;"] {
            assert!(instead_of_quote(command).is_some(), "{command}");
        }
        assert_eq!(instead_of_quote("OPTS UTF8 ON"), None);
    }

    #[test]
    fn a_command_has_one_name_and_one_line_of_help() {
        let mut names: Vec<_> = COMMANDS.iter().flat_map(|known| known.others).collect();
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
        fn what_is_quoted_is_read_back(name in "[a-z \"']{1,12}") {
            prop_assume!(!(name.contains('"') && name.contains('\'')));
            prop_assert_eq!(words(&quoted(&name)).0, [name]);
        }

        #[test]
        fn no_line_breaks_the_reader(line: String) {
            let line = Line::parse(&line);
            _ = line.words.first().map(|word| unknown(word));
            _ = instead_of_quote(&line.rest);
        }
    }
}
