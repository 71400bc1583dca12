//! Log of a session: the output of the remote host as plain text, without the sequences that move
//! the cursor and set colors.
//!
//! A line is written when it is complete. A backspace removes the last character of the line. A
//! return without a line feed moves to the start of the line; the characters of the line remain
//! until they are overwritten.

use crate::calendar::Moment;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// Maximum length of a line in characters. Our choice. A longer line is split.
const LINE_MAX: usize = 16 * 1024;

/// An open log file.
pub struct SessionLog {
    file: File,
    parser: vte::Parser,
    line: LogLine,
}

impl SessionLog {
    /// Opens a log for appending. A new file is readable by its owner only. With a clock, each line
    /// starts with the time.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn open(path: &Path, clock: Option<fn() -> SystemTime>) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(Self { file, parser: vte::Parser::new(), line: LogLine { clock, ..LogLine::default() } })
    }

    /// Appends output of the remote host.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn put(&mut self, text: &[u8]) -> io::Result<()> {
        self.parser.advance(&mut self.line, text);
        let complete = std::mem::take(&mut self.line.complete);
        if complete.is_empty() { Ok(()) } else { self.file.write_all(complete.as_bytes()) }
    }

    /// Appends a note of plumb on a line of its own, in brackets.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn note(&mut self, sentence: &str) -> io::Result<()> {
        self.finish()?;
        self.put(format!("[{sentence}]\n").as_bytes())
    }

    /// Writes an incomplete last line.
    ///
    /// # Errors
    ///
    /// Returns the error of the file system.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.line.characters.is_empty() { Ok(()) } else { self.put(b"\n") }
    }
}

#[derive(Default)]
struct LogLine {
    clock: Option<fn() -> SystemTime>,
    characters: Vec<char>,
    /// Position of the next character.
    position: usize,
    /// Complete lines that are not written yet.
    complete: String,
}

impl LogLine {
    fn end(&mut self) {
        if let Some(clock) = self.clock {
            self.complete.push_str(&Moment::from(clock()).rfc_3339());
            self.complete.push(' ');
        }
        self.complete.extend(self.characters.drain(..));
        self.complete.push('\n');
        self.position = 0;
    }
}

impl vte::Perform for LogLine {
    fn print(&mut self, character: char) {
        if character.is_control() && character != '\t' {
            return;
        }
        match self.characters.get_mut(self.position) {
            Some(position) => *position = character,
            None => self.characters.push(character),
        }
        self.position += 1;
        if self.position >= LINE_MAX {
            self.end();
        }
    }

    fn execute(&mut self, control: u8) {
        match control {
            b'\n' => self.end(),
            b'\r' => self.position = 0,
            b'\t' => self.print('\t'),
            0x08 => {
                self.position = self.position.saturating_sub(1);
                self.characters.truncate(self.position);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn logged(text: &[u8]) -> String {
        let mut parser = vte::Parser::new();
        let mut line = LogLine::default();
        parser.advance(&mut line, text);
        line.complete
    }

    #[test]
    fn colors_and_cursor_movements_are_not_logged() {
        assert_eq!(logged(b"\x1b[1;31mred\x1b[0m\x1b]0;title\x07 text\r\n"), "red text\n");
    }

    #[test]
    fn a_rubout_erases_a_logged_character_and_a_return_overwrites_the_line() {
        assert_eq!(logged(b"lz\x08 \x08s -l\r\n"), "ls -l\n");
        assert_eq!(logged(b" 10 %\r100 %\r\n"), "100 %\n");
    }

    proptest! {
        #[test]
        fn only_text_reaches_the_log(text: Vec<u8>) {
            let logged = logged(&text);
            let is_control = |c: char| c.is_ascii_control() && c != '\n' && c != '\t';
            prop_assert_eq!(logged.find(is_control), None);
        }
    }
}
