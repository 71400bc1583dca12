//! Line input from a terminal with local echo: canonicalization, then erase, kill and escape
//! processing, as in Multics.
//!
//! On a half-duplex NVT the terminal itself displays the typed characters, overstruck as on paper,
//! and a server cannot remove any of them. Only the visible result counts, not the order of the
//! keys. Each typed graphic character has a column; backspace, carriage return, space and tab only
//! move. The canonical form lists the columns from left to right. Several graphics in one column
//! are listed in the order of their codes, separated by backspaces, and an empty column becomes a
//! space. Repetitions of a graphic in one column, the order of overstriking, and blanks after the
//! last graphic are not visible and are dropped.
//!
//! Then the line is edited, from left to right, by three special characters:
//!
//! - The erase character deletes the position before it, or all blanks before it. If it is
//!   overstruck with other characters, in any order, it deletes its own position instead.
//! - The kill character deletes everything up to and including itself.
//! - The escape character removes the special meaning of a following erase, kill or escape
//!   character. If one to three octal digits follow, they specify the code of the resulting
//!   character.
//!
//! The character set is NVT ASCII (RFC 854): other codes, and controls that do not move, are
//! dropped. Nothing is echoed, since the terminal already displays the typed characters.

use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::{Account, Counter, Work};

/// Maximum number of columns of a line; characters beyond it are dropped.
pub const COLUMNS_MAX: usize = 1024;
/// Maximum number of characters typed into one line, including backspaces, tabs and other motions.
pub const TYPED_MAX: usize = 4096;

const BS: u8 = 0x08;

/// The editing characters of a line, and the distance of the tab stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conventions {
    /// Character that deletes a position.
    pub erase: u8,
    /// Character that deletes the line.
    pub kill: u8,
    /// Character that removes the special meaning of the next one.
    pub escape: u8,
    /// Distance between tab stops of the terminal in columns.
    pub tab_distance: usize,
}

impl Default for Conventions {
    /// Returns the Multics characters `#` (erase), `@` (kill) and `\` (escape), and tab stops every
    /// 8 columns.
    fn default() -> Self {
        Self { erase: b'#', kill: b'@', escape: b'\\', tab_distance: 8 }
    }
}

/// Incremental line reader.
#[derive(Debug, Default)]
pub struct LineDiscipline {
    conventions: Conventions,
    page: Page,
    typed: usize,
    line: Option<Vec<u8>>,
}

impl LineDiscipline {
    /// Creates an empty reader.
    #[must_use]
    pub fn new(conventions: Conventions) -> Self {
        Self { conventions, ..Self::default() }
    }

    /// Processes typed bytes up to the end of a line; returns the number of bytes consumed.
    ///
    /// While a completed line waits to be removed with [`Self::event`], no bytes are consumed. LF
    /// ends a line; a CR before it moves to column 0, like any other CR.
    pub fn receive(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> usize {
        if self.line.is_some() {
            return 0;
        }
        let account = cx.meter.enter(Account::Terminal);
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let typed = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        for byte in typed.iter().filter(|byte| **byte != 0) {
            let is_accepted =
                self.typed < TYPED_MAX && self.page.type_byte(*byte, self.conventions.tab_distance);
            self.typed = self.typed.saturating_add(1);
            cx.meter.add(Counter::TerminalLineBytesDropped, u64::from(!is_accepted));
        }
        let consumed = typed.len() + usize::from(end.is_some());
        cx.meter.work(Work::TerminalByte, consumed);
        if end.is_some() {
            let page = core::mem::take(&mut self.page);
            self.line = Some(edit(&page, &self.conventions));
            self.typed = 0;
        }
        cx.meter.enter(account);
        consumed
    }

    /// Removes and returns the completed line, without its line end, so that the next line can be
    /// read.
    pub fn event(&mut self) -> Option<Vec<u8>> {
        self.line.take()
    }

    /// Returns the number of characters typed into the unfinished line.
    #[must_use]
    pub fn typed(&self) -> usize {
        self.typed
    }
}

/// Returns the canonical form of a typed line. `typed` must not contain the line end.
#[must_use]
pub fn canonical(typed: &[u8], tab_distance: usize) -> Vec<u8> {
    let mut page = Page::default();
    for byte in typed {
        page.type_byte(*byte, tab_distance);
    }
    let mut line = Vec::new();
    page.columns.iter().for_each(|column| column.write(&mut line));
    line
}

/// The set of graphics in one column: bit n is set if the character with code n is present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Column(u128);

impl Column {
    const BLANK: Self = Self(0);

    const fn from_graphic(graphic: u8) -> Self {
        Self(1 << (graphic & 0x7f))
    }

    const fn has(self, graphic: u8) -> bool {
        self.0 & Self::from_graphic(graphic).0 != 0
    }

    fn write(self, line: &mut Vec<u8>) {
        if self == Self::BLANK {
            line.push(b' ');
        }
        let mut is_first = true;
        for graphic in (b'!'..=b'~').filter(|graphic| self.has(*graphic)) {
            if !is_first {
                line.push(BS);
            }
            line.push(graphic);
            is_first = false;
        }
    }

    /// Returns the value of an octal digit that is the only graphic of the column.
    fn octal(self) -> Option<u8> {
        (b'0'..=b'7').find(|digit| self == Self::from_graphic(*digit)).map(|digit| digit - b'0')
    }
}

/// A line as it appears on paper.
#[derive(Debug, Default)]
struct Page {
    /// The columns up to the last graphic.
    columns: Vec<Column>,
    /// Column of the next character.
    column: usize,
}

impl Page {
    /// Adds a graphic to the current column, or moves to another column; returns false if the byte
    /// was dropped.
    fn type_byte(&mut self, byte: u8, tab_distance: usize) -> bool {
        self.column = match byte {
            BS => self.column.saturating_sub(1),
            b'\r' => 0,
            b' ' => self.column + 1,
            b'\t' => {
                let distance = tab_distance.max(1);
                (self.column / distance).saturating_add(1).saturating_mul(distance)
            }
            b'!'..=b'~' if self.column < COLUMNS_MAX => {
                if self.columns.len() <= self.column {
                    self.columns.resize(self.column + 1, Column::BLANK);
                }
                if let Some(column) = self.columns.get_mut(self.column) {
                    column.0 |= Column::from_graphic(byte).0;
                }
                self.column + 1
            }
            _ => return false,
        };
        // The carriage stops at its last column.
        self.column = self.column.min(COLUMNS_MAX);
        true
    }
}

/// A position of the edited line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Struck(Column),
    /// A character that followed an escape character and has no special meaning.
    Literal(u8),
}

fn edit(page: &Page, conventions: &Conventions) -> Vec<u8> {
    let Conventions { erase, kill, escape, .. } = *conventions;
    let mut positions: Vec<Position> = Vec::new();
    let mut rest = page.columns.as_slice();
    while let Some((column, later)) = rest.split_first() {
        rest = later;
        if *column == Column::from_graphic(escape)
            && let Some((literal, later)) = parse_escape(later, conventions)
        {
            positions.push(Position::Literal(literal));
            rest = later;
        } else if *column == Column::from_graphic(erase) {
            erase_before(&mut positions);
        } else if column.has(erase) {
            // An overstruck erase character deletes its own position, even if a kill character is
            // in the same column.
        } else if column.has(kill) {
            positions.clear();
        } else {
            positions.push(Position::Struck(*column));
        }
    }
    let mut line = Vec::new();
    for position in positions {
        match position {
            Position::Struck(column) => column.write(&mut line),
            Position::Literal(literal) => line.push(literal),
        }
    }
    line
}

fn erase_before(positions: &mut Vec<Position>) {
    let blank = Position::Struck(Column::BLANK);
    let blanks = positions.iter().rev().take_while(|position| **position == blank).count();
    positions.truncate(positions.len() - blanks.max(1).min(positions.len()));
}

/// Parses the positions after an escape character. Returns the character that the escape represents
/// and the remaining columns, or `None` if the escape character has no effect there.
fn parse_escape<'a>(
    columns: &'a [Column],
    conventions: &Conventions,
) -> Option<(u8, &'a [Column])> {
    let (first, later) = columns.split_first()?;
    let Conventions { erase, kill, escape, .. } = *conventions;
    if let Some(literal) =
        [erase, kill, escape].into_iter().find(|one| *first == Column::from_graphic(*one))
    {
        return Some((literal, later));
    }
    let digits = columns.iter().take(3).map_while(|column| column.octal());
    let (count, code) =
        digits.fold((0, 0_u16), |(count, code), digit| (count + 1, code * 8 + u16::from(digit)));
    // NVT ASCII ends at octal 177; without a digit there is no escape.
    let code = u8::try_from(code).ok().filter(|code| count > 0 && code.is_ascii())?;
    Some((code, columns.get(count..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::cx::OwnedCx;
    use proptest::prelude::*;
    use std::string::String;

    /// Returns the lines read from `typed`.
    fn lines(typed: &[u8]) -> Vec<String> {
        let mut discipline = LineDiscipline::default();
        let mut context = OwnedCx::default();
        let mut rest = typed;
        let mut lines = Vec::new();
        while !rest.is_empty() {
            let consumed = discipline.receive(rest, &mut context.cx());
            rest = &rest[consumed..];
            lines.extend(discipline.event().map(|line| String::from_utf8(line).unwrap()));
        }
        lines
    }

    #[track_caller]
    fn assert_lines(typed: &str, line: &str) {
        assert_eq!(lines(typed.as_bytes()), [line]);
        assert_eq!(lines(&typed.replace('\n', "\r\n").into_bytes()), [line]);
    }

    #[test]
    fn a_line_ends_at_lf_with_or_without_cr() {
        assert_eq!(lines(b"one\ntwo\r\nthr"), ["one", "two"]);
        assert_lines("\n", "");
    }

    #[test]
    fn graphics_in_one_column_are_ordered_by_code() {
        assert_lines("n\x08o\n", "n\x08o");
        assert_lines("o\x08n\n", "n\x08o");
        assert_lines("word\r____\n", "_\x08w_\x08o_\x08r_\x08d");
    }

    #[test]
    fn invisible_cells_are_dropped() {
        assert_lines("a\x08a  \x08\x08b \t \n", "ab");
        assert_lines("\ta\x08\x08\x08 x\n", "       xa");
    }

    #[test]
    fn erase_deletes_the_position_before_it_or_all_blanks() {
        assert_lines("helo#lo\n", "hello");
        assert_lines("abc###\n", "");
        assert_lines("####a\n", "a");
        assert_lines("ab   #c\n", "abc");
        assert_lines("a_\x08b##c\n", "c");
    }

    #[test]
    fn overstruck_erase_deletes_its_own_position() {
        assert_lines("abx\x08#c\n", "abc");
        assert_lines("abc\r #\n", "ac");
        assert_lines("ab@\x08#c\n", "abc");
    }

    #[test]
    fn kill_deletes_everything_before_it() {
        assert_lines("logn@login root\n", "login root");
        assert_lines("a@b@c\n", "c");
    }

    #[test]
    fn escape_quotes_characters_and_encodes_octal_codes() {
        assert_lines("a\\#b\\@c\\\\d\n", "a#b@c\\d");
        assert_lines("\\101\\7\\1779\\8\\400\n", "A\x07\x7f9\\8\\400");
        assert_lines("\\\n", "\\");
        assert_lines("\\\\#\n", "");
        assert_lines("\\#\x08_\n", "\\");
    }

    #[test]
    fn conventions_determine_the_editing_characters() {
        let conventions = Conventions { erase: b'<', tab_distance: 4, ..Conventions::default() };
        let mut discipline = LineDiscipline::new(conventions);
        let mut context = OwnedCx::default();
        assert_eq!(discipline.receive(b"ab<#\tc\nnext", &mut context.cx()), 7);
        assert_eq!(discipline.event().unwrap(), b"a#    c");
    }

    #[test]
    fn bytes_outside_the_character_set_are_dropped_and_counted() {
        let mut discipline = LineDiscipline::default();
        let mut context = OwnedCx::default();
        discipline.receive(b"a\0\x07\xe9\x7f\x1bb\n", &mut context.cx());
        assert_eq!(discipline.event().unwrap(), b"ab");
        assert_eq!(context.counted(Counter::TerminalLineBytesDropped), 4);
    }

    #[test]
    fn no_byte_is_consumed_while_a_line_is_pending() {
        let mut discipline = LineDiscipline::default();
        let mut context = OwnedCx::default();
        assert_eq!(discipline.receive(b"one\ntwo\n", &mut context.cx()), 4);
        assert_eq!(discipline.receive(b"two\n", &mut context.cx()), 0);
        assert_eq!(discipline.event().unwrap(), b"one");
        assert_eq!(discipline.receive(b"two\n", &mut context.cx()), 4);
    }

    #[test]
    fn the_length_of_a_line_is_limited() {
        let mut discipline = LineDiscipline::default();
        let mut context = OwnedCx::default();
        discipline.receive(&[b'a'; 100_000], &mut context.cx());
        discipline.receive(b"\rb\n", &mut context.cx());
        assert_eq!(discipline.event().unwrap().len(), COLUMNS_MAX);
        assert_eq!(context.counted(Counter::TerminalLineBytesDropped), 98_978);
        discipline.receive(&"x\r".repeat(2000).into_bytes(), &mut context.cx());
        discipline.receive(&b"\t".repeat(96), &mut context.cx());
        discipline.receive(b"\r!\n", &mut context.cx());
        assert_eq!(discipline.event().unwrap(), b"x");
    }

    /// Generates typed input in which most bytes have a meaning for the line discipline.
    fn typed() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => b'!'..=b'~',
            2 => prop::sample::select(b"#@\\01234567".to_vec()),
            3 => prop::sample::select(b" \t\x08\r".to_vec()),
            1 => any::<u8>().prop_filter("an end", |byte| *byte != b'\n'),
        ];
        prop::collection::vec(byte, 0..200)
    }

    /// Returns characters that move from one column to another; `choice` selects one of several
    /// possible sequences.
    fn motion(from: usize, to: usize, choice: u8) -> Vec<u8> {
        if to < from && choice.is_multiple_of(3) {
            return std::vec![BS; from - to];
        }
        let mut bytes = Vec::new();
        let mut at = from;
        if to < from || choice.is_multiple_of(5) {
            bytes = std::vec![b'\r'];
            at = 0;
        }
        while choice.is_multiple_of(2) && (at / 8 + 1) * 8 <= to {
            bytes.push(b'\t');
            at = (at / 8 + 1) * 8;
        }
        bytes.resize(bytes.len() + to - at, b' ');
        bytes
    }

    proptest! {
        #[test]
        fn canonicalization_is_idempotent(typed in typed()) {
            let line = canonical(&typed, 8);
            prop_assert_eq!(canonical(&line, 8), line);
        }

        #[test]
        fn lines_that_look_alike_have_the_same_canonical_form(
            strikes in prop::collection::vec((0..40_usize, b'!'..=b'~', any::<u8>()), 0..60),
            order in any::<u64>(),
        ) {
            let mut shuffled_strikes = strikes.clone();
            let mut rng = net::rng::Rng::from_seed(order);
            for at in (1..shuffled_strikes.len()).rev() {
                shuffled_strikes.swap(at, usize::try_from(rng.below(at as u64 + 1)).unwrap());
            }
            let paper = |strikes: &[(usize, u8, u8)], turn: u8| {
                let mut typed = Vec::new();
                let mut at = 0;
                for (column, graphic, choice) in strikes {
                    typed.extend(motion(at, *column, choice.wrapping_add(turn)));
                    typed.push(*graphic);
                    at = column + 1;
                }
                typed
            };
            let canonical_line = canonical(&paper(&strikes, 0), 8);
            prop_assert_eq!(canonical_line, canonical(&paper(&shuffled_strikes, 1), 8));
        }

        #[test]
        fn a_line_and_its_canonical_form_are_read_identically(mut typed in typed()) {
            let mut line = canonical(&typed, 8);
            line.push(b'\n');
            typed.push(b'\n');
            prop_assert_eq!(lines(&typed), lines(&line));
        }

        #[test]
        fn a_line_without_special_characters_is_read_as_its_canonical_form(
            typed in "[a-z0-9 \t\r\x08]{0,80}",
        ) {
            let line = String::from_utf8(canonical(typed.as_bytes(), 8)).unwrap();
            prop_assert_eq!(lines(&(typed + "\n").into_bytes()), [line]);
        }
    }
}
