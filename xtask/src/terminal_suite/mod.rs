//! `xtask terminal-suite DIR`: our terminal under the test scripts of libvterm.
//!
//! The scripts are not part of this project: the folder that holds them is named on the command
//! line. What they check of a screen, its cursor, its pen and its replies is checked; what they
//! say of the calls that libvterm makes of its user (damage, moved rectangles, properties), of keys
//! and of the mouse has no counterpart here, and is counted as such.

mod script;

use anyhow::{Context, Result, ensure};
use protocols::chance::Chance;
use protocols::cx::Cx;
use protocols::meter::{Clock, Meter};
use protocols::terminal::{Attributes, Cell, Color, Terminal};
use protocols::time::Instant;
use script::{Kind, Line};
use std::fs;
use std::io::Write as _;
use std::path::Path;

const COLUMNS: u16 = 80;
const ROWS: u16 = 25;

pub(crate) const USAGE: &str = "usage: cargo xtask terminal-suite FOLDER [--verbose]";

/// Runs all scripts of a folder and prints for each how many of its checks hold.
///
/// # Errors
///
/// If the folder cannot be read or has no script: never for a check that fails.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let is_verbose = arguments.contains(&"--verbose");
    let folder = arguments.iter().find(|word| !word.starts_with("--")).context(USAGE)?;
    let folder = Path::new(folder);
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "test"));
    paths.sort();
    ensure!(!paths.is_empty(), "{} has no file that ends in .test", folder.display());
    let (mut out, mut passed, mut unchecked) = (std::io::stdout().lock(), 0, 0);
    for path in &paths {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        let Tally { held, failed, without } = play(&script::read(&String::from_utf8_lossy(&text)));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (failures, checks) = (failed.len(), held + failed.len());
        let verdict = match (checks, failures) {
            (0, _) => "-",
            (_, 0) => "passes",
            _ => "FAILS",
        };
        passed += usize::from(verdict == "passes");
        unchecked += usize::from(checks == 0);
        writeln!(
            out,
            "{verdict:6} {name}: {held} of {checks} hold, {without} without counterpart"
        )?;
        for failure in failed.iter().filter(|_| is_verbose) {
            writeln!(out, "       {failure}")?;
        }
    }
    let all = paths.len();
    writeln!(out, "{passed} of {all} scripts pass, {unchecked} hold nothing that can be checked")?;
    Ok(())
}

/// What has become of the checks of a script.
#[derive(Debug, Default)]
struct Tally {
    held: usize,
    failed: Vec<String>,
    /// Checks of what a terminal alone does not have.
    without: usize,
}

impl Tally {
    /// Takes what was found and what was wanted, or nothing where that cannot be asked.
    fn judge(&mut self, line: &Line, pair: Option<(String, String)>) {
        match pair {
            None => self.without += 1,
            Some((found, wanted)) if found == wanted => self.held += 1,
            Some((found, _)) => {
                self.failed.push(format!("line {}: {}: {found:?}", line.number, line.text));
            }
        }
    }
}

fn play(lines: &[Line]) -> Tally {
    let (mut chance, mut meter) = (Chance::from_seed(1), Meter::new(Clock::None));
    let mut cx = Cx { now: Instant::ZERO, chance: &mut chance, meter: &mut meter };
    let mut terminal = Terminal::new(COLUMNS, ROWS);
    let mut tally = Tally::default();
    // Codes above 7F are UTF-8 here, always.
    let mut is_utf8 = true;
    let mut is_known = true;
    for line in lines {
        match line.kind {
            Kind::Command => {
                terminal.sent(terminal.output().len());
                let (word, rest) = line.text.split_once(' ').unwrap_or((&line.text, ""));
                is_known = true;
                match word {
                    "INIT" => terminal = Terminal::new(COLUMNS, ROWS),
                    "RESET" => drop(terminal.receive(b"\x1bc", &mut cx)),
                    "PUSH" => match script::string(rest) {
                        Some(bytes) => drop(terminal.receive(&bytes, &mut cx)),
                        None => is_known = false,
                    },
                    "RESIZE" => match numbers(rest).as_slice() {
                        [rows, columns] => terminal.resize(*columns, *rows),
                        _ => is_known = false,
                    },
                    "UTF8" => is_utf8 = rest == "1",
                    _ => is_known = false,
                }
            }
            _ if !is_utf8 => tally.without += 1,
            Kind::Expectation if !is_known => tally.without += 1,
            Kind::Expectation => tally.judge(line, expectation(&terminal, &line.text)),
            Kind::Assertion => tally.judge(line, assertion(&terminal, &line.text)),
        }
        if line.kind == Kind::Expectation && line.text.starts_with("output ") {
            let said = line.text.strip_prefix("output ").and_then(script::string);
            terminal.sent(said.map_or(0, |said| said.len()));
        }
    }
    tally
}

/// Returns what was found for something that a command must have caused, and what was wanted.
fn expectation(terminal: &Terminal, text: &str) -> Option<(String, String)> {
    let (word, rest) = text.split_once(' ')?;
    match word {
        "output" => {
            let wanted = script::string(rest)?;
            let found = terminal.output().get(..wanted.len().min(terminal.output().len()))?;
            Some((escaped(found), escaped(&wanted)))
        }
        "movecursor" => Some((place(terminal.cursor()), rest.to_owned())),
        "putglyph" => {
            let mut words = rest.split(' ');
            let (codes, width, at) = (words.next()?, words.next()?, words.next()?);
            let place = numbers(at);
            let cell = terminal.cell(*place.first()?, *place.get(1)?)?;
            let found = format!("{} {}", characters(cell), 1 + u8::from(cell.is_wide()));
            Some((found, format!("{} {width}", text_of(codes)?)))
        }
        _ => None,
    }
}

/// Returns what was found for an assertion, and what was wanted.
fn assertion(terminal: &Terminal, text: &str) -> Option<(String, String)> {
    let (what, wanted) = text.split_once('=')?;
    let (what, wanted) = (what.trim(), wanted.trim());
    let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
    match word {
        "cursor" => Some((place(terminal.cursor()), wanted.to_owned())),
        "screen_row" => {
            let row = *numbers(rest).first()?;
            Some((terminal.row_text(row), text_of(wanted)?.trim_end().to_owned()))
        }
        "screen_chars" | "screen_text" => match *numbers(rest) {
            [top, left, bottom, right] if bottom == top + 1 => {
                let cells = (left..right).filter_map(|column| terminal.cell(top, column));
                let found: String = cells.filter(|cell| !cell.is_tail()).map(characters).collect();
                Some((found.trim_end().to_owned(), text_of(wanted)?.trim_end().to_owned()))
            }
            _ => None,
        },
        "screen_cell" => {
            let place = numbers(rest);
            let cell = terminal.cell(*place.first()?, *place.get(1)?)?;
            let (codes, look) = wanted.strip_prefix('{')?.split_once('}')?;
            let codes = if codes.is_empty() { "0x20" } else { codes };
            let width = look.split_whitespace().find(|word| word.starts_with("width="))?;
            let found = format!("{} width={}", characters(cell), 1 + u8::from(cell.is_wide()));
            Some((found, format!("{} {width}", text_of(codes)?)))
        }
        "pen" => Some((pen(terminal, rest)?, wanted.to_owned())),
        _ => None,
    }
}

fn pen(terminal: &Terminal, what: &str) -> Option<String> {
    let style = terminal.style();
    let switch = |attribute: Attributes| {
        Some(if style.attributes.contains(attribute) { "on" } else { "off" }.to_owned())
    };
    let color = |color: Color, default: &str| match color {
        Color::Default => default.to_owned(),
        Color::Indexed(index) => format!("idx({index})"),
        Color::Rgb(red, green, blue) => format!("rgb({red},{green},{blue})"),
    };
    match what {
        "bold" => switch(Attributes::BOLD),
        "italic" => switch(Attributes::ITALIC),
        "blink" => switch(Attributes::BLINK),
        "reverse" => switch(Attributes::REVERSE),
        "foreground" => Some(color(style.foreground, "rgb(240,240,240,is_default_fg)")),
        "background" => Some(color(style.background, "rgb(0,0,0,is_default_bg)")),
        _ => None,
    }
}

fn characters(cell: &Cell) -> String {
    std::iter::once(cell.character()).chain(cell.marks()).collect()
}

fn place((row, column): (u16, u16)) -> String {
    format!("{row},{column}")
}

fn numbers(text: &str) -> Vec<u16> {
    text.split(',').filter_map(|number| number.trim().parse().ok()).collect()
}

/// Returns a text that is given as a string, or by its bytes or characters in hexadecimal.
fn text_of(text: &str) -> Option<String> {
    if text.starts_with('"') {
        return Some(String::from_utf8_lossy(&script::string(text)?).into_owned());
    }
    let codes = text.split(',').filter(|code| !code.is_empty());
    let codes =
        codes.map(|code| u32::from_str_radix(code.trim().trim_start_matches("0x"), 16).ok());
    let codes = codes.collect::<Option<Vec<_>>>()?;
    let bytes: Result<Vec<u8>, _> = codes.iter().map(|code| u8::try_from(*code)).collect();
    if let Ok(bytes) = bytes
        && let Ok(text) = String::from_utf8(bytes)
    {
        return Some(text);
    }
    codes.into_iter().map(char::from_u32).collect()
}

fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(text: &str) -> (usize, usize, usize) {
        let tally = play(&script::read(text));
        (tally.held, tally.failed.len(), tally.without)
    }

    #[test]
    fn what_holds_fails_or_has_no_counterpart_is_told_apart() {
        let script = "INIT\nPUSH \"AB\\e[6n\"\n  output \"\\e[1;3R\"\n  damage 0..1,0..2\n\
            ?cursor = 0,2\n?screen_row 0 = \"AB\"\n?screen_cell 0,1 = {0x42} width=1 attrs={}\n\
            ?pen bold = on\n?lineinfo 0 =\n";
        assert_eq!(tally(script), (4, 1, 2));
    }

    #[test]
    fn scripts_in_other_encodings_have_no_counterpart() {
        assert_eq!(tally("INIT\nUTF8 0\nPUSH \"\\xe9\"\n?screen_row 0 = \"x\"\n"), (0, 0, 1));
    }
}
