//! `plumb manual`: generates the manual pages and shell completions from the definition of the
//! arguments and the page of each command.

mod configuration_page;
pub(crate) mod entries;
mod man_page;
mod markdown;
mod page;

use crate::exit;
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use page::PROGRAM;
pub(crate) use page::{ManualNote, ManualPage};
use records::severity::Severity;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Introduction of `plumb manual --help`.
pub(crate) const ABOUT: &str = "\
Generate manual pages and shell completions.

The manual pages are written to the subdirectories man1 and man5, so that man -M finds them, and \
the completions to the directory itself: plumb.bash, plumb.fish and _plumb, which is for a \
directory of zsh's fpath. With --shell, the completions of one shell are printed instead.";

/// Manual page of `plumb manual`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "manual",
    examples: &[
        "plumb manual ~/.local/share/plumb",
        "man -M ~/.local/share/plumb plumb-login",
        "plumb manual --shell bash > ~/.local/share/bash-completion/completions/plumb",
    ],
    notes: &[],
    exit_status: &[(0, "Success"), (2, "Invalid arguments"), (4, "The files cannot be written")],
    environment: &[],
    files: &[&[
        ("man1/plumb.1, man1/plumb-login.1, ...", "Manual pages, in the directory"),
        ("man5/plumb-serve.toml.5", "Manual page of the configuration file, in the directory"),
        ("plumb.bash, _plumb, plumb.fish", "Completions for bash, zsh and fish, in the directory"),
    ]],
    see_also: &[],
};

/// Pages of all commands, in the order of the help.
type ManualPages = &'static [&'static ManualPage];

/// Arguments of `plumb manual`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory to write to; created if it does not exist
    #[arg(value_name = "directory", required_unless_present = "shell")]
    directory: Option<PathBuf>,
    /// Print the completions of this shell instead
    #[arg(long, value_name = "bash|zsh|fish", value_parser = completed_shell,
          conflicts_with = "directory")]
    shell: Option<Shell>,
    /// Write one Markdown page per command instead, for docs/commands
    #[arg(long, hide = true)]
    markdown: bool,
}

/// Writes the pages and the completions for `command`.
pub(crate) fn run(arguments: &Arguments, pages: ManualPages, command: Command) -> exit::Result {
    let write_result = match (&arguments.directory, arguments.shell) {
        (Some(directory), _) if arguments.markdown => write_markdown(directory, pages, command),
        (Some(directory), _) => write_all(directory, pages, command).map(|()| {
            let example = format!("man -M {} {PROGRAM}", directory.display());
            exit::print_diagnostic(
                Severity::Info,
                &format!("wrote manual pages and completions: try {example}"),
            );
        }),
        (None, shell) => print_completions(shell.unwrap_or(Shell::Bash), command),
    };
    write_result.map_err(|error| exit::local_failure(&error))
}

/// Shells for which completions are generated.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

fn completed_shell(name: &str) -> Result<Shell, String> {
    let shell = SHELLS.into_iter().find(|shell| shell.to_string() == name);
    shell.ok_or_else(|| "completions exist for bash, zsh and fish".to_owned())
}

fn print_completions(shell: Shell, command: Command) -> Result<()> {
    let text = completions(shell, command)?;
    io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

fn write_all(directory: &Path, pages: ManualPages, command: Command) -> Result<()> {
    let manual = directory.join("man1");
    create(&manual)?;
    for shell in SHELLS {
        let name = match shell {
            Shell::Zsh => format!("_{PROGRAM}"),
            shell => format!("{PROGRAM}.{shell}"),
        };
        write(&directory.join(name), &completions(shell, command.clone())?)?;
    }
    create(&directory.join("man5"))?;
    write(&directory.join("man5/plumb-serve.toml.5"), &configuration_page::render()?)?;
    let program = build(command);
    for (page, command) in with_definitions(pages, &program) {
        let name = match page.command {
            PROGRAM => format!("{PROGRAM}.1"),
            name => format!("{PROGRAM}-{name}.1"),
        };
        let path = manual.join(name);
        let text = man_page::render(page, command)?;
        write(&path, &text)?;
    }
    Ok(())
}

fn write_markdown(directory: &Path, pages: ManualPages, command: Command) -> Result<()> {
    create(directory)?;
    for (name, text) in markdown_pages(pages, command) {
        write(&directory.join(name), &text)?;
    }
    Ok(())
}

/// Returns the name and the text of each page in docs/commands.
fn markdown_pages(pages: ManualPages, command: Command) -> Vec<(String, String)> {
    let program = build(command);
    let mut texts = Vec::new();
    let pages = with_definitions(pages, &program);
    for (page, command) in pages.filter(|(page, _)| page.command != PROGRAM) {
        texts.push((format!("{}.md", page.command), markdown::render(page, command)));
    }
    texts
}

/// Completes the definition: names of commands, and options that clap adds.
fn build(command: Command) -> Command {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    command
}

/// Returns each page with the definition of its command.
fn with_definitions(
    pages: ManualPages,
    program: &Command,
) -> impl Iterator<Item = (&'static ManualPage, &Command)> {
    pages.iter().copied().filter_map(move |page| {
        let command = match page.command {
            PROGRAM => Some(program),
            name => program.find_subcommand(name),
        };
        command.map(|command| (page, command))
    })
}

fn completions(shell: Shell, mut command: Command) -> Result<String> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, PROGRAM, &mut text);
    let text = String::from_utf8(text)?;
    Ok(if shell == Shell::Zsh { with_escaped_value_names(text, &command) } else { text })
}

/// Escapes the colons in the names of values. In zsh a colon separates the name of a value from the
/// command that completes it, and `clap_complete` does not escape it.
fn with_escaped_value_names(text: String, command: &Command) -> String {
    let arguments = command.get_subcommands().flat_map(|command| command.get_arguments());
    let names = arguments.filter_map(|argument| argument.get_value_names()).flatten();
    names.filter(|name| name.contains(':')).fold(text, |text, name| {
        let escaped = name.replace(':', "\\:");
        text.replace(&format!("]:{name}:"), &format!("]:{escaped}:"))
    })
}

fn create(directory: &Path) -> Result<()> {
    let created = fs::create_dir_all(directory);
    created.with_context(|| format!("cannot create the directory {}", directory.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::PAGES;
    use std::collections::BTreeSet;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands");

    #[test]
    fn every_command_has_one_page_and_related_commands_exist() {
        let program = crate::cli::command();
        let commands: BTreeSet<&str> = program
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .chain([PROGRAM])
            .collect();
        let pages: BTreeSet<&str> = PAGES.iter().map(|page| page.command).collect();
        assert_eq!(pages, commands);
        assert_eq!(pages.len(), PAGES.len());
        for page in PAGES {
            assert!((2..=5).contains(&page.examples.len()), "{}", page.command);
            let unknown = page.see_also.iter().find(|name| !commands.contains(*name));
            assert_eq!(unknown, None, "{}", page.command);
        }
    }

    #[test]
    fn manual_pages_have_their_sections_and_there_is_none_for_help() {
        let directory = std::env::temp_dir().join(format!("plumb-manual-{}", std::process::id()));
        write_all(&directory, PAGES, crate::cli::command()).unwrap();
        let entries = fs::read_dir(directory.join("man1")).unwrap();
        let names: BTreeSet<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(names.len(), PAGES.len(), "{names:?}");
        assert!(names.contains("plumb.1") && names.contains("plumb-login.1"), "{names:?}");
        for name in &names {
            let page = fs::read_to_string(directory.join("man1").join(name)).unwrap();
            for section in ["NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES"] {
                assert!(page.contains(&format!("\n.SH {section}\n")), "{name}: {section}");
            }
            for section in ["EXIT STATUS", "SEE ALSO"] {
                assert!(page.contains(&format!("\n.SH \"{section}\"\n")), "{name}: {section}");
            }
        }
        let page = fs::read_to_string(directory.join("man1/plumb.1")).unwrap();
        assert!(page.contains("unreachable"), "{page}");
        let page = fs::read_to_string(directory.join("man1/plumb-get.1")).unwrap();
        assert!(page.contains("\n\\fBplumb get\\fR [OPTIONS] <url>...\n"), "{page}");
        for file in ["plumb.bash", "_plumb", "plumb.fish"] {
            assert!(directory.join(file).is_file(), "{file}");
        }
        let page = fs::read_to_string(directory.join("man5/plumb-serve.toml.5")).unwrap();
        assert!(page.contains(".TH plumb-serve.toml 5"), "{page}");
        let item = "\\fIlogin\\-timeout\\-s = 60\\fR\nseconds until a client must have logged in\n";
        assert!(page.contains(item), "{page}");
        let zsh = fs::read_to_string(directory.join("_plumb")).unwrap();
        assert!(zsh.contains("]:address\\:port:"), "{zsh}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn the_shell_is_one_of_three_and_excludes_a_directory() {
        let parse = |words: &[&str]| {
            crate::cli::command().try_get_matches_from([&["plumb", "manual"], words].concat())
        };
        for shell in ["bash", "zsh", "fish"] {
            let matches = parse(&["--shell", shell]).unwrap();
            let (_, arguments) = matches.subcommand().unwrap();
            let parsed = *arguments.get_one::<Shell>("shell").unwrap();
            let text = completions(parsed, crate::cli::command()).unwrap();
            assert!(text.contains("ftp-listen-tls"), "{shell}");
        }
        for words in [&[][..], &["--shell", "tcsh"], &["--shell", "zsh", "directory"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_table_of_exit_codes_in_the_docs_is_that_of_the_manual_page() {
        let docs = fs::read_to_string(Path::new(DOCS).with_extension("md")).unwrap();
        let rows = entries::EXIT_STATUS.iter();
        let rows: String =
            rows.map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
        assert!(docs.contains(&format!("|---|---|\n{rows}\n")), "{rows}");
    }

    #[test]
    fn the_pages_in_docs_commands_are_generated() {
        let pages = markdown_pages(PAGES, crate::cli::command());
        for (name, text) in &pages {
            let long_line = text.lines().find(|line| line.chars().count() > 120);
            assert_eq!(long_line, None, "{name}");
        }
        if std::env::var_os("PLUMB_UPDATE_DOCS").is_some_and(|value| value == "1") {
            write_markdown(Path::new(DOCS), PAGES, crate::cli::command()).unwrap();
        }
        let remedy = "regenerate the pages with PLUMB_UPDATE_DOCS=1 cargo test -p plumbline \
                      the_pages_in_docs_commands";
        let entries = fs::read_dir(DOCS).map(Iterator::flatten).expect(remedy);
        let files: BTreeSet<String> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let names: BTreeSet<String> = pages.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(files, names, "{remedy}");
        for (name, text) in &pages {
            let file = fs::read_to_string(Path::new(DOCS).join(name)).unwrap();
            assert!(file == *text, "docs/commands/{name} differs: {remedy}");
        }
    }
}
