//! Manual page of a command (man(7)).
//!
//! `clap_mangen` renders the sections up to the options. The remaining sections come from the table
//! of pages.

use super::page::{ManualNote, ManualPage, PROGRAM};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use std::io;

/// Name and version of the project, in the footer of each page.
pub(super) const SOURCE: &str = concat!("plumbline ", env!("CARGO_PKG_VERSION"));

/// Renders the page of `command`.
///
/// # Errors
///
/// Returns an error if `clap_mangen` cannot write.
pub(super) fn render(page: &ManualPage, command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone()).source(SOURCE).manual("User Commands");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    sections(page).to_writer(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    // Each rendered part begins with the same preamble, a definition of the apostrophe. The page
    // keeps the first preamble only.
    let (preamble, rest) = text.split_at(text.find(".TH").unwrap_or_default());
    Ok(format!("{preamble}{}", rest.replace(preamble, "")))
}

/// Returns the line of usage, as in the help. The synopsis of `clap_mangen` lists every option without
/// its value.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let (name, arguments) = usage.split_at(usage.find(" [").unwrap_or(usage.len()));
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(name), roman(arguments)]);
    roff
}

/// Returns the sections after the options.
fn sections(page: &ManualPage) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in page.exit_status {
        add_item(&mut roff, &code.to_string(), meaning);
    }
    for (title, groups) in [("ENVIRONMENT", page.environment), ("FILES", page.files)] {
        if !groups.is_empty() {
            roff.control("SH", [title]);
        }
        for (name, meaning) in groups.iter().copied().flatten() {
            add_item(&mut roff, name, meaning);
        }
    }
    for note in page.notes {
        match note {
            ManualNote::Text(title, paragraphs) => {
                roff.control("SH", [title.to_uppercase().as_str()]);
                for paragraph in paragraphs.split("\n\n") {
                    roff.control("PP", []);
                    roff.text([roman(paragraph)]);
                }
            }
            ManualNote::Code(title, _, lines) => {
                roff.control("SH", [title.to_uppercase().as_str()]);
                add_code(&mut roff, lines.lines());
            }
        }
    }
    roff.control("SH", ["EXAMPLES"]);
    add_code(&mut roff, page.examples.iter().copied());
    roff.control("SH", ["SEE ALSO"]);
    let program = (page.command != PROGRAM).then(|| PROGRAM.to_owned());
    let related = page.see_also.iter().map(|name| format!("{PROGRAM}-{name}"));
    let mut references = Vec::new();
    for name in program.into_iter().chain(related) {
        if !references.is_empty() {
            references.push(roman(", "));
        }
        references.extend([bold(name), roman("(1)")]);
    }
    if page.command == "serve" {
        references.extend([roman(", "), bold("plumb-serve.toml"), roman("(5)")]);
    }
    roff.text(references);
    roff
}

/// Adds an item of a list.
pub(super) fn add_item(roff: &mut Roff, name: &str, meaning: &str) {
    roff.control("TP", []);
    roff.text([italic(name)]);
    roff.text([roman(meaning)]);
}

/// Adds lines in no-fill mode, which preserves the line breaks.
pub(super) fn add_code<'a>(roff: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    roff.control("RS", ["4"]);
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.control("RE", []);
}
