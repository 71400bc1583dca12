//! Markdown page of a command, for docs/commands.

use super::page::{ManualEntry, ManualNote, ManualPage, PROGRAM};
use clap::{Arg, Command};
use report::table::wrap;

/// Maximum number of columns.
const COLUMNS: usize = 120;
/// Punctuation that may precede a word.
const LEADING_PUNCTUATION: &[char] = &['(', '"', '\'', '['];
/// Punctuation that may follow a word.
const TRAILING_PUNCTUATION: &[char] = &['.', ',', ';', ':', ')', '"', '\''];

/// Renders the page of `command`.
pub(super) fn render(page: &ManualPage, command: &Command) -> String {
    let name = page.command;
    let mut text =
        format!("<!-- Generated: see crates/plumbline/src/manual. -->\n\n# {PROGRAM} {name}\n\n");
    let about = command.get_long_about().or_else(|| command.get_about());
    write_paragraphs(&mut text, &about.map(ToString::to_string).unwrap_or_default(), "");
    let usage = command.clone().render_usage().to_string();
    write_fence(&mut text, "text", usage.trim_start_matches("Usage:").lines().map(str::trim));
    text += "## Examples\n\n";
    write_fence(&mut text, "sh", page.examples.iter().copied());
    write_options(&mut text, command);
    for note in page.notes {
        match note {
            ManualNote::Text(title, content) => {
                text += &format!("## {title}\n\n");
                write_paragraphs(&mut text, content, "");
            }
            ManualNote::Code(title, language, lines) => {
                text += &format!("## {title}\n\n");
                write_fence(&mut text, language, lines.lines());
            }
        }
    }
    text += "## Exit status\n\n";
    for (code, meaning) in page.exit_status {
        write_item(&mut text, &format!("{code}: {}", inline(meaning)), "");
    }
    entries(&mut text, "Environment", page.environment);
    entries(&mut text, "Files", page.files);
    if !page.see_also.is_empty() {
        text += "\n## See also\n\n";
        let links = page.see_also.iter().map(|name| format!("[{PROGRAM} {name}]({name}.md)"));
        write_lines(&mut text, &links.collect::<Vec<_>>().join(", "), "", "");
    }
    text
}

/// Writes the arguments and the options under their headings, in the order of the help.
fn write_options(text: &mut String, command: &Command) {
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id().as_str() != "help")
        .collect();
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        arguments.into_iter().partition(|argument| argument.is_positional());
    group(text, "## Arguments", &positional);
    if options.is_empty() {
        return;
    }
    let mut headings: Vec<Option<&str>> = vec![None];
    for option in &options {
        if !headings.contains(&option.get_help_heading()) {
            headings.push(option.get_help_heading());
        }
    }
    text.push_str("## Options\n\n");
    for heading in headings {
        let members: Vec<&Arg> =
            options.iter().copied().filter(|option| option.get_help_heading() == heading).collect();
        match heading {
            Some(heading) => group(text, &format!("### {heading}"), &members),
            None => list(text, &members),
        }
    }
}

fn group(text: &mut String, title: &str, members: &[&Arg]) {
    if !members.is_empty() {
        text.push_str(title);
        text.push_str("\n\n");
    }
    list(text, members);
}

fn list(text: &mut String, members: &[&Arg]) {
    for member in members {
        let help = member.get_long_help().or_else(|| member.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let (first, rest) = help.split_once("\n\n").unwrap_or((&help, ""));
        let default = default_of(member).map(|value| format!(" \\[default: `{value}`\\]"));
        let default = default.unwrap_or_default();
        let first_line = format!("`{}`: {}{default}", option_text(member), inline(first));
        write_item(text, &first_line, "");
        if !rest.is_empty() {
            text.push('\n');
            write_paragraphs(text, rest, "  ");
            // The next item of the list follows without an empty line.
            text.pop();
        }
        for value in values_of(member) {
            write_item(text, &value, "  ");
        }
    }
    if !members.is_empty() {
        text.push('\n');
    }
}

/// Returns an option or argument as in the help.
fn option_text(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let mut text = short.into_iter().chain(long).collect::<Vec<_>>().join(", ");
    if takes_values(argument) {
        for name in argument.get_value_names().unwrap_or_default() {
            let space = if text.is_empty() { "" } else { " " };
            text += &format!("{space}<{name}>");
        }
    }
    text
}

fn takes_values(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|range| range.takes_values())
}

/// Returns the default value, if the help prints it.
fn default_of(argument: &Arg) -> Option<String> {
    if !takes_values(argument) || argument.is_hide_default_value_set() {
        return None;
    }
    let values = argument.get_default_values().iter().map(|value| value.to_string_lossy());
    let values = values.collect::<Vec<_>>().join(",");
    Some(values).filter(|values| !values.is_empty())
}

/// Returns the possible values with their meaning.
fn values_of(argument: &Arg) -> Vec<String> {
    let values = argument.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let text = |value: &clap::builder::PossibleValue| match value.get_help() {
        Some(help) => format!("`{}`: {}", value.get_name(), inline(&help.to_string())),
        None => format!("`{}`", value.get_name()),
    };
    values.map(text).collect()
}

fn entries(text: &mut String, title: &str, groups: &[&[ManualEntry]]) {
    if groups.is_empty() {
        return;
    }
    text.push_str(&format!("\n## {title}\n\n"));
    for (name, meaning) in groups.iter().copied().flatten() {
        let names: Vec<String> = name.split(", ").map(|name| format!("`{name}`")).collect();
        write_item(text, &format!("{}: {}", names.join(", "), inline(meaning)), "");
    }
}

fn write_fence<'a>(text: &mut String, language: &str, lines: impl Iterator<Item = &'a str>) {
    text.push_str(&format!("```{language}\n"));
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("```\n\n");
}

/// Writes paragraphs, each followed by an empty line.
fn write_paragraphs(text: &mut String, content: &str, indent: &str) {
    for paragraph in content.split("\n\n") {
        write_lines(text, &inline(paragraph), indent, indent);
        text.push('\n');
    }
}

/// Writes an item of a list.
fn write_item(text: &mut String, content: &str, indent: &str) {
    write_lines(text, content, &format!("{indent}- "), &format!("{indent}  "));
}

/// Writes wrapped text. The first line begins with `first`, and all other lines begin with `next`.
fn write_lines(text: &mut String, content: &str, first: &str, next: &str) {
    for (at, line) in wrap(content, COLUMNS - next.len()).iter().enumerate() {
        text.push_str(if at == 0 { first } else { next });
        text.push_str(line);
        text.push('\n');
    }
}

/// Converts text of the help to Markdown: options, paths and words with punctuation inside become
/// code.
fn inline(text: &str) -> String {
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn word(word: &str) -> String {
    let rest = word.trim_start_matches(LEADING_PUNCTUATION);
    let leading_punctuation = word.strip_suffix(rest).unwrap_or_default();
    let mut core = rest;
    loop {
        let shorter = match core.strip_suffix(']') {
            Some(shorter) if shorter.ends_with(char::is_alphanumeric) => Some(shorter),
            _ => core.strip_suffix(TRAILING_PUNCTUATION),
        };
        let Some(shorter) = shorter else { break };
        core = shorter;
    }
    let trailing_punctuation = rest.strip_prefix(core).unwrap_or_default();
    let leading_punctuation = escaped(leading_punctuation);
    let trailing_punctuation = escaped(trailing_punctuation);
    let quote = if is_code(core) { "`" } else { "" };
    format!("{leading_punctuation}{quote}{core}{quote}{trailing_punctuation}")
}

fn is_code(word: &str) -> bool {
    let special = |character: char| "*_<>[]\\|#{}$^~&=@:%+?!".contains(character);
    !word.is_empty()
        && !word.contains('`')
        && (!word.contains(char::is_alphanumeric)
            || word.starts_with(['-', '/'])
            || word.contains("//")
            || word.contains(special))
}

/// Escapes the brackets around a default, which would otherwise be read as a link.
fn escaped(punctuation: &str) -> String {
    punctuation.replace('[', "\\[").replace(']', "\\]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_names_and_signs_become_code() {
        for (text, markdown) in [
            ("use --via, or -4", "use `--via`, or `-4`"),
            ("key (default ^]) opens", "key (default `^]`) opens"),
            ("files [default: 25]", "files \\[default: 25\\]"),
            ("over TCP/IP, e.g. $TERM.", "over TCP/IP, e.g. `$TERM`."),
            ("send \"text\\r\", ? help", "send \"`text\\r`\", `?` help"),
            ("ftp://host/name; :port", "`ftp://host/name`; `:port`"),
            ("of 'plumb meters' ...", "of 'plumb meters' ..."),
        ] {
            assert_eq!(inline(text), markdown);
        }
    }
}
