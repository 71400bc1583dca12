//! Reference of one command besides its options: examples, exit status, environment variables, files
//! and related pages.
//!
//! Each command defines its page. The help, the manual pages and the pages in docs/commands are
//! generated from these pages and from the definition of the arguments.

/// Name of the program, and of the page about all commands.
pub(crate) const PROGRAM: &str = "plumb";

/// Environment variable or file, and its meaning.
pub(crate) type ManualEntry = (&'static str, &'static str);

/// Further section of a page: a text, or lines of a file or of an input.
#[derive(Debug)]
pub(crate) enum ManualNote {
    /// Title and paragraphs.
    Text(&'static str, &'static str),
    /// Title, language and lines.
    Code(&'static str, &'static str, &'static str),
}

/// Reference of one command.
#[derive(Debug)]
pub(crate) struct ManualPage {
    /// Name of the command, `plumb` for the program itself.
    pub(crate) command: &'static str,
    /// Two to five commands for a shell.
    pub(crate) examples: &'static [&'static str],
    /// Further sections.
    pub(crate) notes: &'static [ManualNote],
    /// Exit codes and their meaning.
    pub(crate) exit_status: &'static [(u8, &'static str)],
    /// Groups of environment variables.
    pub(crate) environment: &'static [&'static [ManualEntry]],
    /// Groups of files.
    pub(crate) files: &'static [&'static [ManualEntry]],
    /// Related commands.
    pub(crate) see_also: &'static [&'static str],
}

impl ManualPage {
    /// Returns the text after the options in the help of `-h`.
    pub(crate) fn short_help(&self) -> String {
        let examples: String =
            self.examples.iter().map(|example| format!("\n  {example}")).collect();
        format!("Examples:{examples}")
    }

    /// Returns the text after the options in the help of `--help`.
    pub(crate) fn long_help(&self) -> String {
        let mut text = self.short_help();
        for note in self.notes {
            text += &match note {
                ManualNote::Text(title, paragraphs) => format!("\n\n{title}:\n{paragraphs}"),
                ManualNote::Code(title, _, lines) => {
                    let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
                    format!("\n\n{title}:{lines}")
                }
            };
        }
        text += "\n\nExit status:";
        for (code, meaning) in self.exit_status {
            text += &format!("\n  {code:>3}  {meaning}");
        }
        text
    }
}
