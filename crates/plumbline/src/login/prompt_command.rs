//! Commands of the prompt. Each word may be abbreviated to a unique prefix.

use super::paging::WrappedText;
use super::session_settings::{Echo, Escape, LineEnd, Mode, Predict};
use protocols::telnet::{Command as TelnetCommand, EndOfLine};
use std::fmt;
use transfer::modem::ModemCommand;

/// A line typed at the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Empty line: returns to the session.
    Return,
    Close,
    Reconnect,
    Status,
    Send(SendArgument),
    /// Sends or receives files.
    Transfer(ModemCommand),
    Set(Setting),
    Toggle(ToggleArgument),
    Suspend,
    /// Help for the commands that begin with this word, or for all commands.
    Help(String),
}

/// Argument of `send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendArgument {
    /// Telnet command; DM sends a complete Synch.
    Telnet(TelnetCommand),
    /// The escape character, as data.
    Escape,
}

/// Argument of `set` and `mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Escape(Escape),
    LineEnd(LineEnd),
    Echo(Echo),
    Mode(Mode),
    Predict(Predict),
}

/// Argument of `toggle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToggleArgument {
    LocalEcho,
    Line,
    Binary,
    CrLf,
    Inspect,
    StatusLine,
}

/// Reason why a line is not a valid command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandError {
    /// The word is not valid at this position.
    Unknown { word: String, choices: String },
    /// The word is a prefix of several valid words.
    Ambiguous { word: String, choices: String },
    /// A word is missing.
    Missing { choices: String },
    /// A superfluous word.
    TooMany { word: String },
    /// Invalid escape character.
    Escape(String),
    /// Invalid arguments of a file transfer.
    Transfer(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { word, choices } => {
                write!(f, "'{word}' is not valid here: use {choices}.")
            }
            Self::Ambiguous { word, choices } => write!(f, "'{word}' is ambiguous: {choices}."),
            Self::Missing { choices } => write!(f, "Missing argument: use {choices}."),
            Self::TooMany { word } => write!(f, "Unexpected argument '{word}'."),
            Self::Escape(text) => write!(f, "{text}."),
            Self::Transfer(sentence) => f.write_str(sentence),
        }
    }
}

/// Keywords with the value that each one stands for.
type Keywords<T> = [(&'static str, T)];

#[derive(Clone)]
enum Keyword {
    Alone(Command),
    Status,
    Send,
    Receive,
    Set,
    Toggle,
    Mode,
    Help,
}

const KEYWORDS: &Keywords<Keyword> = &[
    ("close", Keyword::Alone(Command::Close)),
    ("quit", Keyword::Alone(Command::Close)),
    ("exit", Keyword::Alone(Command::Close)),
    ("reconnect", Keyword::Alone(Command::Reconnect)),
    ("status", Keyword::Status),
    ("send", Keyword::Send),
    ("receive", Keyword::Receive),
    ("set", Keyword::Set),
    ("toggle", Keyword::Toggle),
    ("mode", Keyword::Mode),
    ("z", Keyword::Alone(Command::Suspend)),
    ("help", Keyword::Help),
    ("?", Keyword::Help),
];

const SEND_ARGUMENTS: &Keywords<SendArgument> = &[
    ("ao", SendArgument::Telnet(TelnetCommand::AbortOutput)),
    ("ayt", SendArgument::Telnet(TelnetCommand::AreYouThere)),
    ("brk", SendArgument::Telnet(TelnetCommand::Break)),
    ("ip", SendArgument::Telnet(TelnetCommand::InterruptProcess)),
    ("synch", SendArgument::Telnet(TelnetCommand::DataMark)),
    ("ec", SendArgument::Telnet(TelnetCommand::EraseCharacter)),
    ("el", SendArgument::Telnet(TelnetCommand::EraseLine)),
    ("escape", SendArgument::Escape),
    ("nop", SendArgument::Telnet(TelnetCommand::NoOperation)),
    ("ga", SendArgument::Telnet(TelnetCommand::GoAhead)),
    ("eof", SendArgument::Telnet(TelnetCommand::EndOfFile)),
    ("susp", SendArgument::Telnet(TelnetCommand::Suspend)),
    ("abort", SendArgument::Telnet(TelnetCommand::Abort)),
];

#[derive(Clone, Copy)]
enum Settable {
    Escape,
    LineEnd,
    Echo,
    Predict,
}

const SETTABLE: &Keywords<Settable> = &[
    ("escape", Settable::Escape),
    ("eol", Settable::LineEnd),
    ("echo", Settable::Echo),
    ("predict", Settable::Predict),
];

const LINE_ENDS: &Keywords<LineEnd> = &[
    ("crlf", LineEnd(Some(EndOfLine::CrLf))),
    ("crnul", LineEnd(Some(EndOfLine::CrNul))),
    ("lf", LineEnd(Some(EndOfLine::Lf))),
    ("auto", LineEnd(None)),
];

const ECHOES: &Keywords<Echo> =
    &[("auto", Echo::Automatic), ("local", Echo::Local), ("remote", Echo::Remote)];

const PREDICTS: &Keywords<Predict> =
    &[("auto", Predict::Auto), ("always", Predict::Always), ("never", Predict::Never)];

const TOGGLE_ARGUMENTS: &Keywords<ToggleArgument> = &[
    ("localecho", ToggleArgument::LocalEcho),
    ("line", ToggleArgument::Line),
    ("binary", ToggleArgument::Binary),
    ("crlf", ToggleArgument::CrLf),
    ("inspect", ToggleArgument::Inspect),
    ("statusline", ToggleArgument::StatusLine),
];

const MODES: &Keywords<Mode> =
    &[("auto", Mode::Automatic), ("char", Mode::Character), ("line", Mode::Line)];

/// Help text for each command of the prompt. With the prompt, it fits a terminal of 24 rows.
pub(super) const HELP: &[(&str, &str)] = &[
    ("(empty line)", "return to the session"),
    ("close, quit, exit", "end the session"),
    ("reconnect", "reconnect; all options are renegotiated"),
    ("status", "connection, options, statistics and CPU time by layer"),
    ("status line", "show or hide the status line: echo time, limit, traffic"),
    (
        "send FILE...",
        "send files by ZMODEM, or by --protocol ymodem, xmodem or xmodem-1k; Tab completes names; \
         ./ayt is a file",
    ),
    ("receive [FILE]", "receive files by ZMODEM, or by --protocol ymodem, xmodem"),
    (
        "send X",
        "ayt (are you there), brk (break), ip (interrupt process), ao (abort output), synch, ec, \
         el, nop, ga, eof, susp, abort, or escape (the escape character itself)",
    ),
    ("mode X", "char or line: when text is sent; auto: as the host requests"),
    ("set echo X", "local or remote: side that echoes; auto: as the host does"),
    ("set predict X", "auto (if the echo is slow), always or never: predict echoes"),
    ("set eol X", "crlf, crnul or lf for Enter; auto: crnul, in line mode crlf"),
    ("set escape X", "^] or another key, or none"),
    ("toggle X", "localecho, line, binary, crlf, inspect (show the negotiation) or statusline"),
    ("z", "suspend plumb; fg resumes it"),
    ("?, help [X]", "this help, or that of the command X"),
];

/// Help text for the single-letter commands of 1982.
pub(super) const LETTERS_HELP: &[(&str, &str)] = &[
    ("a", "are you there"),
    ("b", "break"),
    ("c, q", "close, quit"),
    ("e, E", "send per character, per line"),
    ("l, r", "local echo, remote echo"),
    ("s", "status"),
    ("x", "send the unfinished line now"),
    ("?", "this help"),
];

impl Command {
    /// Parses a line typed at the prompt.
    pub(super) fn parse(line: &str) -> Result<Self, CommandError> {
        let mut words = line.split_whitespace();
        if line.trim().is_empty() {
            return Ok(Self::Return);
        }
        let command = match choose(words.next(), KEYWORDS)? {
            Keyword::Alone(command) => command,
            Keyword::Status if words.clone().next() == Some("line") => {
                words.next();
                Self::Toggle(ToggleArgument::StatusLine)
            }
            Keyword::Status => Self::Status,
            Keyword::Send if names_file(words.clone().next()) => {
                return Self::transfer(true, words);
            }
            Keyword::Receive => return Self::transfer(false, words),
            Keyword::Send => Self::Send(choose(words.next(), SEND_ARGUMENTS).map_err(with_file)?),
            Keyword::Help => Self::Help(words.next().unwrap_or_default().to_ascii_lowercase()),
            Keyword::Toggle => Self::Toggle(choose(words.next(), TOGGLE_ARGUMENTS)?),
            Keyword::Mode => Self::Set(Setting::Mode(choose(words.next(), MODES)?)),
            Keyword::Set => Self::Set(match choose(words.next(), SETTABLE)? {
                Settable::LineEnd => Setting::LineEnd(choose(words.next(), LINE_ENDS)?),
                Settable::Echo => Setting::Echo(choose(words.next(), ECHOES)?),
                Settable::Predict => Setting::Predict(choose(words.next(), PREDICTS)?),
                Settable::Escape => {
                    let word = words.next().unwrap_or_default();
                    Setting::Escape(word.parse().map_err(CommandError::Escape)?)
                }
            }),
        };
        match words.next() {
            Some(word) => Err(CommandError::TooMany { word: escaped(word) }),
            None => Ok(command),
        }
    }

    fn transfer<'a>(
        is_sending: bool,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, CommandError> {
        let arguments = words.collect::<Vec<_>>().join(" ");
        let command = ModemCommand::parse(is_sending, &arguments);
        command.map(Self::Transfer).map_err(CommandError::Transfer)
    }
}

/// Returns the last word of an unfinished `send` command, which may begin a file name.
pub(super) fn file_name_to_complete(line: &str) -> Option<&str> {
    let (command, arguments) = line.trim_start().split_once(' ')?;
    let is_quoted = arguments.matches('"').count() % 2 == 1;
    let ends: fn(char) -> bool = if is_quoted { |it: char| it == '"' } else { char::is_whitespace };
    let word = arguments.rsplit(ends).next()?;
    matches!(choose(Some(command), KEYWORDS), Ok(Keyword::Send)).then_some(word)
}

/// Adds a file to the arguments that a missing argument of `send` can be.
fn with_file(error: CommandError) -> CommandError {
    match error {
        CommandError::Missing { choices } => {
            CommandError::Missing { choices: format!("send FILE..., or send {choices}") }
        }
        error => error,
    }
}

/// Returns the page with this help.
pub(super) fn help_page(help: &[(&str, &str)], has_prompt: bool, columns: u16) -> WrappedText {
    let mut page = WrappedText::new(columns);
    let width = help.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, text) in help {
        page.push_entry(name, width, text);
    }
    if has_prompt {
        page.push_sentence("Words can be abbreviated to a unique prefix.");
    }
    page
}

/// Returns the entries of [`HELP`] for the command `word`, or all entries.
pub(super) fn help_on(word: &str) -> Vec<(&'static str, &'static str)> {
    let is_of_command = |(name, _): &&(&str, &str)| {
        name.split([' ', ',']).next().is_some_and(|first| first == word)
            || name.split(", ").any(|name| name == word)
    };
    let entries: Vec<_> = HELP.iter().filter(is_of_command).copied().collect();
    if entries.is_empty() { HELP.to_vec() } else { entries }
}

/// Returns whether the first argument of `send` is a file or an option, not a Telnet command.
fn names_file(word: Option<&str>) -> bool {
    let Some(word) = word.map(str::to_ascii_lowercase) else { return false };
    !SEND_ARGUMENTS.iter().any(|(name, _)| name.starts_with(&word))
}

/// Returns the value of the keyword `word`, or of the only keyword that begins with `word`.
fn choose<T: Clone>(word: Option<&str>, words: &Keywords<T>) -> Result<T, CommandError> {
    let Some(word) = word else {
        return Err(CommandError::Missing { choices: names(words.iter().map(|(name, _)| *name)) });
    };
    let lowercase_word = word.to_ascii_lowercase();
    if let Some((_, meaning)) = words.iter().find(|(name, _)| *name == lowercase_word) {
        return Ok(meaning.clone());
    }
    let matching: Vec<_> =
        words.iter().filter(|(name, _)| name.starts_with(&lowercase_word)).collect();
    match matching.as_slice() {
        [(_, meaning)] => Ok(meaning.clone()),
        [] => Err(CommandError::Unknown {
            word: escaped(word),
            choices: names(words.iter().map(|(name, _)| *name)),
        }),
        several => Err(CommandError::Ambiguous {
            word: escaped(word),
            choices: names(several.iter().map(|(name, _)| *name)),
        }),
    }
}

/// Returns a word escaped for display, truncated to 24 characters.
fn escaped(word: &str) -> String {
    word.escape_debug().take(24).collect()
}

/// Returns a list of the form `a, b or c`.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.collect();
    match names.pop() {
        Some(last) if names.is_empty() => last.to_owned(),
        Some(last) => format!("{} or {last}", names.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_word_may_be_abbreviated_to_a_unique_prefix() {
        assert_eq!(Command::parse("c"), Ok(Command::Close));
        assert_eq!(Command::parse("stat"), Ok(Command::Status));
        let ayt = Command::Send(SendArgument::Telnet(TelnetCommand::AreYouThere));
        assert_eq!(Command::parse("sen ay"), Ok(ayt));
        assert_eq!(Command::parse(" MODE  C "), Ok(Command::Set(Setting::Mode(Mode::Character))));
    }

    #[test]
    fn an_ambiguous_prefix_is_rejected_with_its_candidates() {
        let error = Command::parse("s").unwrap_err().to_string();
        assert_eq!(error, "'s' is ambiguous: status, send or set.");
    }

    #[test]
    fn a_complete_word_takes_precedence_over_longer_words() {
        let ambiguous = Command::parse("set e");
        assert!(matches!(ambiguous, Err(CommandError::Ambiguous { .. })));
        let eol = Command::parse("set eol auto");
        assert_eq!(eol, Ok(Command::Set(Setting::LineEnd(LineEnd(None)))));
    }

    #[test]
    fn an_unknown_word_is_rejected_with_the_valid_choices() {
        let refused = Command::parse("toggle lights").unwrap_err().to_string();
        assert_eq!(
            refused,
            "'lights' is not valid here: use localecho, line, binary, crlf, inspect \
         or statusline."
        );
    }

    #[test]
    fn missing_and_superfluous_words_are_rejected() {
        assert!(matches!(Command::parse("send"), Err(CommandError::Missing { .. })));
        assert!(matches!(Command::parse("send ip ip"), Err(CommandError::TooMany { .. })));
        assert!(matches!(Command::parse("set escape"), Err(CommandError::Escape(_))));
    }

    #[test]
    fn the_status_line_can_also_be_toggled_as_status_line() {
        let toggle = Ok(Command::Toggle(ToggleArgument::StatusLine));
        assert_eq!(Command::parse("status line"), toggle);
        assert_eq!(Command::parse("toggle statusline"), toggle);
        assert!(matches!(Command::parse("status lines"), Err(CommandError::TooMany { .. })));
    }

    #[test]
    fn a_missing_argument_of_send_can_be_a_file_and_help_accepts_a_command() {
        let error = Command::parse("send").unwrap_err().to_string();
        assert!(
            error.starts_with("Missing argument: use send FILE..., or send ao, ayt"),
            "{error}"
        );
        assert_eq!(Command::parse("help Send"), Ok(Command::Help("send".to_owned())));
        assert_eq!(Command::parse("?"), Ok(Command::Help(String::new())));
        assert_eq!(Command::parse("exit"), Ok(Command::Close));
        let names = |word| help_on(word).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("send"), ["send FILE...", "send X"]);
        assert_eq!(names("quit"), ["close, quit, exit"]);
        assert_eq!(names("lights").len(), HELP.len());
    }

    #[test]
    fn the_help_and_the_prompt_fit_24_rows() {
        let page = help_page(&help_on(""), true, 80).finish();
        let lines: Vec<_> = page.lines().collect();
        assert!(lines.len() < 24, "{page}");
        assert!(lines.iter().all(|line| line.len() < 80), "{page}");
    }

    #[test]
    fn the_last_word_of_send_is_completed() {
        assert_eq!(file_name_to_complete("send a.txt ~/b"), Some("~/b"));
        assert_eq!(file_name_to_complete(" sen \"my file"), Some("my file"));
        assert_eq!(file_name_to_complete("send "), Some(""));
        assert_eq!(file_name_to_complete("send"), None);
        assert_eq!(file_name_to_complete("set escape"), None);
    }

    #[test]
    fn send_with_another_word_sends_files() {
        use std::path::PathBuf;
        use transfer::modem::ModemProtocol;
        let files = vec![PathBuf::from("notes.txt"), PathBuf::from("two words")];
        let send = Command::Transfer(ModemCommand::Send(ModemProtocol::Zmodem, files));
        assert_eq!(Command::parse("send notes.txt \"two words\""), Ok(send));
        let file = vec![PathBuf::from("./ayt")];
        let send = Command::Transfer(ModemCommand::Send(ModemProtocol::Ymodem, file));
        assert_eq!(Command::parse("send --protocol ymodem ./ayt"), Ok(send));
        let receive = Command::Transfer(ModemCommand::Receive(ModemProtocol::Zmodem, None));
        assert_eq!(Command::parse("receive"), Ok(receive));
        assert!(matches!(Command::parse("receive ../a"), Err(CommandError::Transfer(_))));
    }

    #[test]
    fn an_empty_line_returns_to_the_session() {
        assert_eq!(Command::parse(" \t"), Ok(Command::Return));
    }

    #[test]
    fn the_escape_character_is_set_in_its_written_form() {
        let set = Command::Set(Setting::Escape(Escape(Some(1))));
        assert_eq!(Command::parse("set escape ^A"), Ok(set));
    }

    proptest! {
        #[test]
        fn any_line_is_a_command_or_rejected_without_control_characters(line: String) {
            if let Err(refusal) = Command::parse(&line) {
                prop_assert!(!refusal.to_string().contains(char::is_control));
            }
        }
    }
}
