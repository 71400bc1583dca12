//! `plumb manual`: generates the manual pages and shell completions from the definition of the
//! arguments and the page of each command.

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
use std::fs;
use std::path::{Path, PathBuf};

/// Introduction of `plumb manual --help`.
pub(crate) const ABOUT: &str = "\
Generate manual pages and shell completions.

The manual pages are written to the subdirectory man1, so that man -M finds them, and the \
completions to the directory itself: plumb.bash, plumb.fish and _plumb, which is for a directory \
of zsh's fpath.";

/// Manual page of `plumb manual`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "manual",
    examples: &["plumb manual ~/.local/share/plumb", "man -M ~/.local/share/plumb plumb-login"],
    notes: &[],
    exit_status: &[(0, "Success"), (2, "Invalid arguments"), (4, "The files cannot be written")],
    environment: &[],
    files: &[&[
        ("man1/plumb.1, man1/plumb-login.1, ...", "Manual pages, in the directory"),
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
    #[arg(value_name = "directory")]
    directory: PathBuf,
    /// Write one Markdown page per command instead, for docs/commands
    #[arg(long, hide = true)]
    markdown: bool,
}

/// Writes the pages and the completions for `command`.
pub(crate) fn run(arguments: &Arguments, pages: ManualPages, command: Command) -> exit::Result {
    let write_result = match arguments.markdown {
        true => write_markdown(&arguments.directory, pages, command),
        false => write_all(&arguments.directory, pages, command),
    };
    write_result.map_err(|error| exit::local_failure(&error))
}

fn write_all(directory: &Path, pages: ManualPages, command: Command) -> Result<()> {
    let manual = directory.join("man1");
    create(&manual)?;
    write_completions(directory, command.clone())
        .with_context(|| format!("cannot write the completions to {}", directory.display()))?;
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

fn write_completions(directory: &Path, mut command: Command) -> std::io::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = clap_complete::generate_to(shell, &mut command, PROGRAM, directory)?;
        if shell == Shell::Zsh {
            let text = fs::read_to_string(&path)?;
            fs::write(&path, with_escaped_value_names(text, &command))?;
        }
    }
    Ok(())
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
        for file in ["plumb.bash", "_plumb", "plumb.fish"] {
            assert!(directory.join(file).is_file(), "{file}");
        }
        let zsh = fs::read_to_string(directory.join("_plumb")).unwrap();
        assert!(zsh.contains("]:address\\:port:"), "{zsh}");
        fs::remove_dir_all(directory).unwrap();
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
