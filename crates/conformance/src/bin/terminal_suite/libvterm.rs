//! `terminal_suite libvterm DIRECTORY`: runs the test scripts of libvterm against plumb's terminal.
//!
//! The scripts are not part of this project: the command line names their directory. Their checks
//! of the screen, the cursor, the pen and the replies are performed. Checks of libvterm's callbacks
//! (damage, moved rectangles, properties), of keys and of the mouse have no counterpart in plumb's
//! terminal, and are counted separately. A check of a character passes if the character was at its
//! position at some time while the bytes of the command arrived.
//!
//! The expected result of each script is in `libvterm.txt`, with the reason if the script is
//! expected to fail.

use super::expected::Expected;
use super::script::{self, Kind, Line};
use super::usage::USAGE;
use anyhow::{Context, Result, ensure};
use net::cx::Cx;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::Instant;
use protocols::terminal::{Attributes, Cell, Color, LineSize, Picture, Terminal};
use std::fs;
use std::io::Write as _;
use std::path::Path;

const COLUMNS: u16 = 80;
const ROWS: u16 = 25;
const EXPECTED: &str = include_str!("libvterm.txt");
/// Maximum number of screen states recorded for one command, one per byte. Later bytes of a longer
/// command are checked only by its final state.
const STEPS_MAX: usize = 2_000;

/// Runs all scripts of a directory, and prints for each the number of passed checks.
///
/// # Errors
///
/// Returns an error if the directory cannot be read or has no script, or if a script is not as
/// expected.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let is_verbose = arguments.contains(&"--verbose");
    let directory = arguments.iter().find(|word| !word.starts_with("--")).context(USAGE)?;
    let directory = Path::new(directory);
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "test"));
    paths.sort();
    ensure!(!paths.is_empty(), "{} has no file that ends in .test", directory.display());
    let expected = Expected::parse(EXPECTED).context("libvterm.txt")?;
    let mut out = std::io::stdout().lock();
    let mut passed = 0;
    let mut unchecked = 0;
    let mut surprises = Vec::new();
    for path in &paths {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        let Tally { passed_checks, failed, unsupported_checks } =
            play(&script::read(&String::from_utf8_lossy(&text)));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let failures = failed.len();
        let checks = passed_checks + failed.len();
        let verdict = match (checks, failures) {
            (0, _) => "-",
            (_, 0) => "passes",
            _ => "FAILS",
        };
        passed += usize::from(verdict == "passes");
        if checks > 0 && expected.passes(&name) != (failures == 0) {
            surprises.push(name.to_string());
        }
        unchecked += usize::from(checks == 0);
        writeln!(
            out,
            "{verdict:6} {name}: {passed_checks} of {checks} checks pass, {unsupported_checks} not supported"
        )?;
        for failure in failed.iter().filter(|_| is_verbose) {
            writeln!(out, "       {failure}")?;
        }
    }
    let all = paths.len();
    writeln!(out, "{passed} of {all} scripts pass, {unchecked} have no supported check")?;
    ensure!(surprises.is_empty(), "unexpected results: {}", surprises.join(", "));
    Ok(())
}

/// Results of the checks of a script.
#[derive(Debug, Default)]
struct Tally {
    passed_checks: usize,
    failed: Vec<String>,
    /// Number of checks of features that plumb's terminal does not have.
    unsupported_checks: usize,
}

impl Tally {
    /// Counts a check with the found and the expected value, or with `None` if plumb's terminal
    /// does not have the checked value.
    fn count_check(&mut self, line: &Line, pair: Option<(String, String)>) {
        match pair {
            None => self.unsupported_checks += 1,
            Some((found, wanted)) if found == wanted => self.passed_checks += 1,
            Some((found, _)) => {
                self.failed.push(format!("line {}: {}: {found:?}", line.number, line.text));
            }
        }
    }
}

fn play(lines: &[Line]) -> Tally {
    let mut recorded_terminal = RecordedTerminal::new();
    let mut tally = Tally::default();
    // Codes above 7F are always UTF-8 here.
    let mut is_utf8 = true;
    let mut is_known = true;
    for line in lines {
        match line.kind {
            Kind::Command => {
                recorded_terminal.terminal.sent(recorded_terminal.terminal.output().len());
                let (word, rest) = line.text.split_once(' ').unwrap_or((&line.text, ""));
                match word {
                    "UTF8" => (is_utf8, is_known) = (rest == "1", true),
                    _ => is_known = recorded_terminal.command(word, rest),
                }
            }
            _ if !is_utf8 => tally.unsupported_checks += 1,
            Kind::Expectation if !is_known => tally.unsupported_checks += 1,
            Kind::Expectation => tally.count_check(line, recorded_terminal.expectation(&line.text)),
            Kind::Assertion => {
                tally.count_check(line, assertion(&recorded_terminal.terminal, &line.text));
            }
        }
        if line.kind == Kind::Expectation && line.text.starts_with("output ") {
            let expected_output = line.text.strip_prefix("output ").and_then(script::string);
            recorded_terminal
                .terminal
                .sent(expected_output.map_or(0, |expected_output| expected_output.len()));
        }
    }
    tally
}

/// The terminal, and its states while the bytes of the last command arrived.
struct RecordedTerminal {
    terminal: Terminal,
    steps: Vec<Picture>,
    rng: Rng,
    meter: Meter,
}

impl RecordedTerminal {
    fn new() -> Self {
        let rng = Rng::from_seed(1);
        let meter = Meter::new(Clock::None);
        Self { terminal: Terminal::new(COLUMNS, ROWS), steps: Vec::new(), rng, meter }
    }

    /// Executes a command; returns whether the command is known.
    fn command(&mut self, word: &str, rest: &str) -> bool {
        self.steps.clear();
        match word {
            "INIT" => self.terminal = Terminal::new(COLUMNS, ROWS),
            "RESET" => self.receive(b"\x1bc"),
            "PUSH" => match script::string(rest) {
                Some(bytes) => {
                    for byte in bytes {
                        self.receive(&[byte]);
                    }
                }
                None => return false,
            },
            "RESIZE" => match numbers(rest).as_slice() {
                [rows, columns] => self.terminal.resize(*columns, *rows),
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    fn receive(&mut self, bytes: &[u8]) {
        let rng = &mut self.rng;
        let meter = &mut self.meter;
        self.terminal.receive(bytes, &mut Cx { now: Instant::ZERO, rng, meter });
        if self.steps.len() < STEPS_MAX {
            self.steps.push(self.terminal.picture());
        }
    }

    /// Returns the found and the expected value of an effect that a command must have.
    fn expectation(&self, text: &str) -> Option<(String, String)> {
        let (word, rest) = text.split_once(' ')?;
        match word {
            "output" => {
                let wanted = script::string(rest)?;
                let output = self.terminal.output();
                let found = output.get(..wanted.len().min(output.len()))?;
                Some((escaped(found), escaped(&wanted)))
            }
            "movecursor" => Some((position_text(self.terminal.cursor()), rest.to_owned())),
            "putglyph" => self.glyph(rest),
            _ => None,
        }
    }

    fn glyph(&self, text: &str) -> Option<(String, String)> {
        let mut words = text.split(' ');
        let codes = words.next()?;
        let width = words.next()?;
        let at = words.next()?;
        let place = numbers(at);
        let row = *place.first()?;
        let column = *place.get(1)?;
        let look = |cell: &Cell| format!("{} {}", characters(cell), 1 + u8::from(cell.is_wide()));
        let wanted = format!("{} {width}", text_of(codes)?);
        let mut seen = self.steps.iter().filter_map(|step| step.cell(row, column));
        let found = match seen.any(|cell| look(cell) == wanted) {
            true => wanted.clone(),
            false => look(self.terminal.cell(row, column)?),
        };
        let size = words.filter(|word| *word != "prot").collect::<Vec<_>>().join(" ");
        let found_size = size_name(self.terminal.line_size(row));
        Some((format!("{found} {found_size}"), format!("{wanted} {size}")))
    }
}

fn size_name(size: LineSize) -> &'static str {
    match size {
        LineSize::Single => "",
        LineSize::Wide => "dwl",
        LineSize::Top => "dwl dhl-top",
        LineSize::Bottom => "dwl dhl-bottom",
    }
}

/// Returns the found and the expected value of an assertion.
fn assertion(terminal: &Terminal, text: &str) -> Option<(String, String)> {
    let (what, wanted) = text.split_once('=')?;
    let what = what.trim();
    let wanted = wanted.trim();
    let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
    match word {
        "cursor" => Some((position_text(terminal.cursor()), wanted.to_owned())),
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
        "lineinfo" => {
            let row = *numbers(rest).first()?;
            let is_continued = row.checked_sub(1).is_some_and(|row| terminal.is_continued(row));
            let words = size_name(terminal.line_size(row)).split(' ');
            let words = words.map(|word| word.split('-').next().unwrap_or_default());
            let words = words.chain(is_continued.then_some("cont")).filter(|word| !word.is_empty());
            Some((words.collect::<Vec<_>>().join(" "), wanted.to_owned()))
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

fn position_text((row, column): (u16, u16)) -> String {
    format!("{row},{column}")
}

fn numbers(text: &str) -> Vec<u16> {
    text.split(',').filter_map(|number| number.trim().parse().ok()).collect()
}

/// Returns a text given as a string, or by its bytes or characters in hexadecimal.
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
        (tally.passed_checks, tally.failed.len(), tally.unsupported_checks)
    }

    #[test]
    fn passed_failed_and_unsupported_checks_are_distinguished() {
        let script = "INIT\nPUSH \"AB\\e[6n\"\n  output \"\\e[1;3R\"\n  damage 0..1,0..2\n\
            ?cursor = 0,2\n?screen_row 0 = \"AB\"\n?screen_cell 0,1 = {0x42} width=1 attrs={}\n\
            ?pen bold = on\n?lineinfo 0 =\n";
        assert_eq!(tally(script), (5, 1, 1));
    }

    #[test]
    fn an_overwritten_character_counts_as_displayed() {
        let script = "PUSH \"A\\rB\"\n  putglyph 0x41 1 0,0\n  putglyph 0x42 1 0,0\n";
        assert_eq!(tally(script), (2, 0, 0));
    }

    #[test]
    fn the_list_can_be_read() {
        let expected = Expected::parse(EXPECTED).unwrap();
        let passes = ["13state_edit.test", "14state_encoding.test", "02parser.test"];
        assert_eq!(passes.map(|name| expected.passes(name)), [false, false, true]);
    }

    #[test]
    fn scripts_in_other_encodings_have_no_counterpart() {
        assert_eq!(tally("INIT\nUTF8 0\nPUSH \"\\xe9\"\n?screen_row 0 = \"x\"\n"), (0, 0, 1));
    }
}
