//! Commands of the shell: list, usage, and suggestions for misspelled names.

use transfer::shell_line::edit_distance;

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
    /// Servers, users and bookmarks.
    Session,
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

use Group::{Local, Remote, Session, Settings, Transfer};

/// All commands, in the order of the help.
pub(super) const COMMANDS: [Command; 43] = [
    command(Remote, "ls", &["list", "nlist"], "[-laR] [NAME...]", "list directories or files"),
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
    command(
        Transfer,
        "mirror",
        &[],
        "[-Ren] SOURCE [TARGET]",
        "mirror a tree; -R: upload, -e: delete, -n: print",
    ),
    command(Local, "lcd", &[], "[DIR]", "change the local directory"),
    command(Local, "lpwd", &[], "", "print the local directory"),
    command(Local, "lls", &["ldir"], "[-la] [NAME...]", "list local directories or files"),
    command(Local, "!", &["shell"], "[COMMAND]", "run a local command or shell"),
    command(Settings, "binary", &["bin", "image"], "", "set type I"),
    command(Settings, "ascii", &[], "", "set type A"),
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
    command(Session, "open", &[], "HOST", "connect to another host or bookmark"),
    command(Session, "user", &[], "NAME [PASSWORD]", "log in as another user"),
    command(Session, "close", &["disconnect"], "", "close the session; the next command opens one"),
    command(Session, "bookmark", &[], "add NAME|list|delete NAME", "manage bookmarks of hosts"),
    command(Session, "quit", &["exit", "bye"], "", "end the session"),
];

/// Commands of other FTP clients that plumb does not support, each with its replacement.
const UNSUPPORTED_COMMANDS: [(&str, &str); 3] = [
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
        .map(|name| (edit_distance(word, name), name))
        .filter(|(distance, _)| *distance <= max_distance);
    match similar.min() {
        Some((_, name)) => format!("unknown command '{word}': did you mean '{name}'?"),
        None => "unknown command: 'help' lists all".to_owned(),
    }
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
            "use user, or open with another URL"
        }
        "QUIT" => "use quit",
        "ABOR" => "use ^C, which cancels the running command",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_command_gets_a_suggestion() {
        assert_eq!(unknown_command_message("gte"), "unknown command 'gte': did you mean 'get'?");
        assert_eq!(
            unknown_command_message("renmae"),
            "unknown command 'renmae': did you mean 'rename'?"
        );
        assert_eq!(unknown_command_message("frobnicate"), "unknown command: 'help' lists all");
        let hash = unknown_command_message("hash");
        assert_eq!(hash, "'hash' is not supported: progress is always displayed");
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
}
