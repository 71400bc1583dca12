//! The commands of the shell: what there is, how each is used, and what is meant by a slip of the
//! finger; and how a line is cut into words.

/// Of what a command is, and so who carries it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// What is there.
    There,
    /// What moves.
    Moving,
    /// What is here.
    Here,
    /// How it is done.
    Session,
}

/// One command.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// What others call it.
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

/// All commands, as help lists them.
pub(super) const COMMANDS: [Command; 36] = [
    command(There, "ls", &["list", "nlist"], "[-l] [NAME...]", "what is here, or in what is named"),
    command(There, "dir", &[], "[NAME...]", "the same with sizes and times"),
    command(There, "cd", &["cwd"], "FOLDER", "go to a folder there"),
    command(There, "cdup", &[], "", "go up"),
    command(There, "pwd", &[], "", "where we are there"),
    command(There, "cat", &["more", "less"], "NAME", "show a file"),
    command(
        There,
        "rm",
        &["delete", "mdelete", "mrm"],
        "[-rfnv] NAME...",
        "remove files; -r directories",
    ),
    command(There, "mkdir", &[], "FOLDER...", "make folders"),
    command(There, "rmdir", &[], "FOLDER...", "remove empty folders"),
    command(There, "mv", &["rename", "ren"], "NAME NAME", "give a file another name"),
    command(There, "chmod", &[], "MODE NAME...", "change rights, as in chmod 644 a"),
    command(There, "size", &[], "NAME", "the size and the time of a file"),
    command(There, "modtime", &["mdtm"], "NAME", "the time of a file"),
    command(Moving, "get", &["recv"], "[-cf] NAME [HERE]", "get a file; -c goes on, -f replaces"),
    command(Moving, "mget", &[], "[-cf] NAME...", "get files, and all that fit a pattern"),
    command(Moving, "reget", &[], "NAME [HERE]", "go on with a file that was broken off"),
    command(Moving, "put", &["send"], "[-c] HERE [NAME]", "put a file; -c goes on"),
    command(Moving, "mput", &[], "[-c] HERE...", "put files, and all that fit a pattern"),
    command(Moving, "reput", &[], "HERE [NAME]", "go on with a file that was broken off"),
    command(Here, "lcd", &[], "[FOLDER]", "go to a folder on this machine"),
    command(Here, "lpwd", &[], "", "where we are here"),
    command(Here, "lls", &["ldir"], "[-l] [FOLDER]", "what is here"),
    command(Here, "!", &["shell"], "[COMMAND]", "a command of this machine, or its shell"),
    command(Session, "type", &[], "[I|A|E|L36|auto]", "how bytes are meant"),
    command(Session, "mode", &[], "[S|B|C|Z]", "how bytes travel"),
    command(Session, "stru", &["struct"], "[F|R|P]", "what a file is made of"),
    command(Session, "store", &[], "[FORMAT]", "how words of 36 bits lie in files here"),
    command(Session, "passive", &[], "", "data connections from here"),
    command(Session, "active", &[], "", "data connections from there"),
    command(Session, "prompt", &[], "", "ask before each of many files, or do not any more"),
    command(Session, "verbose", &[], "", "show what the server replies, or do not any more"),
    command(Session, "site", &[], "COMMAND", "a command of this server's own"),
    command(Session, "quote", &["literal"], "COMMAND", "send a command as it is"),
    command(Session, "status", &["stat"], "", "how things stand, and what the server says of it"),
    command(Session, "help", &["?"], "[COMMAND]", "this, or how a command is used"),
    command(Session, "quit", &["exit", "bye"], "", "the end"),
];

/// What other programs have, and what does it here.
const ELSEWHERE: [(&str, &str); 12] = [
    ("open", "one shell has one host: say quit, and plumb ftp HOST"),
    ("close", "one shell has one host: say quit"),
    ("disconnect", "one shell has one host: say quit"),
    ("user", "who logs in is said at the start: plumb ftp USER@HOST"),
    ("mirror", "whole folders go by plumb mirror"),
    ("binary", "say type I"),
    ("bin", "say type I"),
    ("image", "say type I"),
    ("ascii", "say type A"),
    ("hash", "how far it is is shown anyway"),
    ("lmkdir", "say !mkdir FOLDER"),
    ("glob", "patterns are always read, but for a name that is there as it was typed"),
];

/// Returns the command of this name.
pub(super) fn find(word: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|known| known.name == word || known.others.contains(&word))
}

impl Command {
    /// Returns how it is used.
    pub(super) fn usage_text(&self) -> String {
        let space = if self.usage.is_empty() { "" } else { " " };
        format!("{}{space}{}", self.name, self.usage)
    }
}

/// Returns what is said of a word that is no command.
pub(super) fn unknown(word: &str) -> String {
    if let Some((_, instead)) = ELSEWHERE.iter().find(|(known, _)| *known == word) {
        return format!("there is no '{word}': {instead}");
    }
    let names = COMMANDS
        .iter()
        .flat_map(|known| [known.name].into_iter().chain(known.others.iter().copied()));
    let far = if word.len() > 3 { 2 } else { 1 };
    let like = names.map(|name| (distance(word, name), name)).filter(|(away, _)| *away <= far);
    match like.min() {
        Some((_, name)) => format!("there is no command '{word}': perhaps '{name}' was meant"),
        None => "there is no such command: 'help' tells of all".to_owned(),
    }
}

/// Returns how many letters are to be added, taken out, replaced or exchanged with the next one to
/// make `to` of `from`.
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

/// Returns what help says: of all commands, or of one.
pub(super) fn help(word: Option<&str>) -> Result<String, String> {
    let line = |known: &Command| format!("{:28} {}\n", known.usage_text(), known.about);
    let Some(word) = word else { return Ok(COMMANDS.iter().map(line).collect()) };
    let known = find(word).ok_or_else(|| unknown(word))?;
    let others = match known.others {
        [] => String::new(),
        others => format!("{:28} also called {}\n", "", others.join(", ")),
    };
    Ok(format!("{}{others}", line(known)))
}

/// A line, cut into words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Words without the quotes around them or within.
    pub(super) words: Vec<String>,
    /// What stands behind the first word, as it was typed.
    pub(super) rest: String,
}

impl Line {
    /// Cuts a line at its spaces, but for those between quotes.
    pub(super) fn parse(line: &str) -> Self {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('!') {
            return Self { words: vec!["!".to_owned()], rest: rest.trim().to_owned() };
        }
        let rest = line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
        Self { words: words(line).0, rest: rest.to_owned() }
    }
}

/// Returns the words of a line, and where the last one begins, which may be empty and behind the
/// others.
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

/// Returns a name as it is to be typed.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = |letter: char| !letter.is_whitespace() && !matches!(letter, '"' | '\'');
    match name.contains('"') {
        _ if name.chars().all(is_plain) => name.to_owned(),
        true => format!("'{name}'"),
        false => format!("\"{name}\""),
    }
}

/// Why a command is not sent as it is: what it changes must be known here.
pub(super) fn instead_of_quote(command: &str) -> Option<&'static str> {
    let mut words = command.split_whitespace();
    let verb = words.next().unwrap_or_default().to_ascii_uppercase();
    let is_of_facts = words.next().is_some_and(|word| word.eq_ignore_ascii_case("MLST"));
    Some(match verb.as_str() {
        "TYPE" => "say type",
        "MODE" => "say mode",
        "STRU" => "say stru",
        "CWD" | "XCWD" | "CDUP" | "XCUP" | "SMNT" => "say cd",
        "PASV" | "EPSV" | "LPSV" | "SPSV" | "CPSV" => "say passive",
        "PORT" | "EPRT" | "LPRT" => "say active",
        "OPTS" if is_of_facts => "what a listing tells is asked for here",
        "RETR" | "REST" => "say get",
        "STOR" | "STOU" | "APPE" | "ALLO" => "say put",
        "LIST" | "NLST" | "MLSD" => "say ls",
        "MLFL" | "MAIL" => "say plumb mail",
        "USER" | "PASS" | "REIN" | "AUTH" | "PBSZ" | "PROT" | "CCC" => {
            "who logs in, and in what, is said at the start"
        }
        "QUIT" => "say quit",
        "ABOR" => "an interrupt (^C) ends what is at work",
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
        assert_eq!(unknown("gte"), "there is no command 'gte': perhaps 'get' was meant");
        assert_eq!(unknown("renmae"), "there is no command 'renmae': perhaps 'rename' was meant");
        assert_eq!(unknown("frobnicate"), "there is no such command: 'help' tells of all");
        assert_eq!(unknown("ascii"), "there is no 'ascii': say type A");
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
