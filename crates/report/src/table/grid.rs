//! A table of figures, defined once, as text for users and as JSON and CSV for programs.
//!
//! A figure is stored in its base unit: bit/s, seconds, bits. JSON and CSV contain figures in that
//! unit. In text, each figure has the largest unit in which it is at least 1, and three significant
//! digits.

use super::layout::{Table, wrap};
use records::calendar::Moment;
use records::{escape, format};
use serde_json::{Map, Value, json};

/// Content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, escaped when it is printed.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A figure in the base unit of its column.
    Figure(f64),
    /// A figure in base units, and its units in text; the largest first.
    FigureIn(f64, &'static [NamedUnit]),
    /// A duration in ns.
    Duration(u64),
    /// The size of a file, bytes.
    Size(u64),
    /// A rate of a file, bytes per second.
    ByteRate(u64),
    /// A part and the total that contains it.
    Share(u64, u64),
    /// A time, in ns of Unix time.
    Moment(u64),
    /// An unknown value.
    Unknown,
}

/// Name of a unit, and the size of the unit in base units, such as `("kbit", 1e3)`.
pub(crate) type NamedUnit = (&'static str, f64);

/// Units of a number of bits. The base unit is the bit.
pub const BITS: &[NamedUnit] = &[("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
/// Units of a rate. The base unit is bit/s.
pub const RATES: &[NamedUnit] =
    &[("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)];
/// Units of the size of a file. The base unit is the bit.
pub(crate) const FILE_SIZES: &[NamedUnit] =
    &[("TB", 8e12), ("GB", 8e9), ("MB", 8e6), ("kB", 8e3), ("B", 8.0)];
/// Units of the rate of a file. The base unit is bit/s.
pub(crate) const FILE_RATES: &[NamedUnit] =
    &[("GB/s", 8e9), ("MB/s", 8e6), ("kB/s", 8e3), ("B/s", 8.0)];
/// Units of CPU time per byte of a file. The base unit is s/bit.
pub(crate) const FILE_COSTS: &[NamedUnit] =
    &[("s/MB", 1.0 / 8e6), ("s/GB", 1.0 / 8e9), ("ms/GB", 1e-3 / 8e9)];
/// Units of CPU time per bit: s/Mbit as in RFC 573, and s/GB for current rates. The base unit is
/// s/bit.
pub(crate) const COSTS: &[NamedUnit] = &[("s/Mbit", 1e-6), ("s/GB", 1.0 / 8e9)];
/// Units of CPU time per bit, as in RFC 573's table III. The base unit is s/bit.
pub(crate) const CPU_TIMES_PER_BIT: &[NamedUnit] =
    &[("µs/bit", 1e-6), ("ns/bit", 1e-9), ("ps/bit", 1e-12)];
/// Units of the cost of a bit. The base unit is a price per bit.
pub(crate) const PRICES: &[NamedUnit] = &[("a Mbit", 1e-6), ("a GB", 1.0 / 8e9)];

/// Width of a last column of text below which optional columns are omitted. Our choice: most file
/// names.
const LAST_WIDTH_MAX: usize = 16;

#[derive(Clone, Debug)]
struct Column {
    /// Name in JSON and CSV.
    key: &'static str,
    /// Header in text.
    header: &'static str,
    units: &'static [NamedUnit],
    is_text: bool,
    /// Whether narrow terminals omit the column.
    is_optional: bool,
}

/// A table of figures, with its title and notes.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Name in JSON.
    pub key: &'static str,
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    notes: Vec<String>,
}

impl Grid {
    /// Returns a table without columns and rows.
    #[must_use]
    pub fn new(key: &'static str, title: impl Into<String>) -> Self {
        let columns = Vec::new();
        let rows = Vec::new();
        let notes = Vec::new();
        Self { key, title: title.into(), columns, rows, notes }
    }

    /// Adds a column of text.
    #[must_use]
    pub fn text(mut self, key: &'static str, header: &'static str) -> Self {
        self.columns.push(Column { key, header, units: &[], is_text: true, is_optional: false });
        self
    }

    /// Adds a column of text that narrow terminals omit.
    #[must_use]
    pub(crate) fn optional_text(mut self, key: &'static str, header: &'static str) -> Self {
        self.columns.push(Column { key, header, units: &[], is_text: true, is_optional: true });
        self
    }

    /// Adds a column of whole numbers that narrow terminals omit.
    #[must_use]
    pub(crate) fn optional_number(mut self, key: &'static str, header: &'static str) -> Self {
        self.columns.push(Column { key, header, units: &[], is_text: false, is_optional: true });
        self
    }

    /// Adds a column of whole numbers, durations or shares.
    #[must_use]
    pub fn number(self, key: &'static str, header: &'static str) -> Self {
        self.figure(key, header, &[])
    }

    /// Adds a column of figures in one of `units`, the largest first.
    #[must_use]
    pub fn figure(
        mut self,
        key: &'static str,
        header: &'static str,
        units: &'static [NamedUnit],
    ) -> Self {
        self.columns.push(Column { key, header, units, is_text: false, is_optional: false });
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a sentence below the table.
    pub fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// Returns the table for a terminal of `width` columns, with its title and its notes.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        if self.rows.is_empty() {
            let sentence = format!("{}: there are no matching transfers.", self.title);
            return wrap(&sentence, width).join("\n") + "\n";
        }
        let optional = self.columns.iter().filter(|column| column.is_optional).count();
        let last_width_max = match self.columns.last() {
            Some(last) if last.is_text && !last.is_optional => LAST_WIDTH_MAX,
            _ => usize::MAX,
        };
        // The first table whose headings need one line each, with as many columns as possible.
        let mut table = self.table(optional);
        for kept in (0..optional).rev() {
            if table.natural_width(last_width_max) <= width {
                break;
            }
            table = self.table(kept);
        }
        if table.has_blocks(width) {
            // Blocks have room for all columns.
            table = self.table(optional);
        }
        let paragraph = |sentence: &String| wrap(sentence, width).join("\n") + "\n";
        let notes: String = self.notes.iter().map(paragraph).collect();
        paragraph(&self.title) + &table.render(width) + &notes
    }

    /// Returns the table with the first `kept` of its optional columns.
    fn table(&self, kept: usize) -> Table {
        let mut left = kept;
        let mut is_visible = |column: &Column| {
            let is_visible = !column.is_optional || left > 0;
            left = left.saturating_sub(usize::from(column.is_optional));
            is_visible
        };
        let visible: Vec<bool> = self.columns.iter().map(&mut is_visible).collect();
        let mut table = Table::new();
        for (column, _) in self.columns.iter().zip(&visible).filter(|(_, visible)| **visible) {
            let header = column.header;
            table = if column.is_text { table.text(header) } else { table.number(header) };
        }
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).zip(&visible);
            let cells = cells.filter(|(_, visible)| **visible);
            table.row(cells.map(|((cell, column), _)| cell.to_text(column.units)));
        }
        table
    }

    /// Returns the rows as objects.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let row_object = |row: &Vec<Cell>| {
            let fields = self.columns.iter().zip(row);
            let fields = fields.map(|(column, cell)| (column.key.to_owned(), cell.to_json()));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        json!({ "rows": self.rows.iter().map(row_object).collect::<Vec<_>>(), "notes": self.notes })
    }

    /// Returns a header line and the rows as CSV (RFC 4180, with LF line endings).
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let names = self.columns.iter().map(|column| column.key.to_owned());
        push_line(&mut text, names);
        for row in &self.rows {
            push_line(&mut text, row.iter().map(Cell::to_csv));
        }
        text
    }
}

fn push_line(text: &mut String, cells: impl Iterator<Item = String>) {
    text.push_str(&cells.collect::<Vec<_>>().join(","));
    text.push('\n');
}

impl Cell {
    /// Returns a cell with the text; [`Self::Unknown`] if there is none.
    #[must_use]
    pub fn text(text: Option<&str>) -> Self {
        text.map_or(Self::Unknown, |text| Self::Text(text.to_owned()))
    }

    /// Returns a cell with text received from another host; [`Self::Unknown`] if there is none.
    /// Invalid UTF-8 becomes a replacement character.
    #[must_use]
    pub fn bytes(bytes: Option<&[u8]>) -> Self {
        bytes.map_or(Self::Unknown, |bytes| Self::Text(String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Returns a cell with the whole number; [`Self::Unknown`] if there is none.
    #[must_use]
    pub fn count(count: Option<u64>) -> Self {
        count.map_or(Self::Unknown, Self::Count)
    }

    /// Returns a cell with the figure; [`Self::Unknown`] if there is none.
    #[must_use]
    pub fn figure(figure: Option<f64>) -> Self {
        figure.map_or(Self::Unknown, Self::Figure)
    }

    /// Returns a cell with the duration; [`Self::Unknown`] if there is none.
    #[must_use]
    pub fn duration(ns: Option<u64>) -> Self {
        ns.map_or(Self::Unknown, Self::Duration)
    }

    fn to_text(&self, units: &[NamedUnit]) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => format::count(*count),
            Self::Figure(figure) => figure_text(*figure, units),
            Self::FigureIn(figure, units) => figure_text(*figure, units),
            Self::Size(bytes) => format::size(*bytes),
            Self::ByteRate(bytes) => format!("{}/s", format::size(*bytes)),
            Self::Duration(ns) => format::duration(*ns),
            Self::Share(part, whole) => format::share(*part, *whole),
            Self::Moment(unix_ns) => {
                let moment = Moment::of(*unix_ns);
                // Two digits of the year are enough for a reader, as in 1973.
                format!("{} {}", moment.date().split_off(2), moment.time())
            }
            Self::Unknown => format::UNKNOWN.to_owned(),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) | Self::Share(count, _) => json!(count),
            Self::Figure(figure) | Self::FigureIn(figure, _) => json!(figure),
            Self::Duration(ns) => json!(ns),
            Self::Size(bytes) | Self::ByteRate(bytes) => json!(bytes),
            Self::Moment(unix_ns) => json!(Moment::of(*unix_ns).rfc_3339()),
            Self::Unknown => Value::Null,
        }
    }

    fn to_csv(&self) -> String {
        match self {
            // A spreadsheet would run such a text, which another host may have chosen, as a
            // formula.
            Self::Text(text) if text.starts_with(['=', '+', '-', '@']) => {
                quoted(&format!("'{text}"))
            }
            Self::Text(text) if text.contains(|c: char| "\",".contains(c) || c.is_control()) => {
                quoted(text)
            }
            Self::Text(text) => text.clone(),
            Self::Unknown => String::new(),
            Self::Moment(_) => self.to_json().as_str().unwrap_or_default().to_owned(),
            other => other.to_json().to_string(),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escape::terminal(text).replace('"', "\"\""))
}

/// Returns a figure with the largest unit in which it is at least 1.
pub(crate) fn figure_text(figure: f64, units: &[NamedUnit]) -> String {
    let unit = units.iter().find(|(_, size)| figure >= *size).or(units.last());
    let (name, size) = unit.copied().unwrap_or(("", 1.0));
    // A small file has a whole number of bytes.
    if name == "B" && (figure / size).fract() == 0.0 {
        return format!("{:.0} B", figure / size);
    }
    format!("{} {name}", format_significant(figure / size)).trim_end().to_owned()
}

/// Returns a figure with three significant digits and separated thousands.
fn format_significant(figure: f64) -> String {
    let decimals = match figure.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.01.. => 4,
        0.001.. => 5,
        0.0001.. => 6,
        _ if figure == 0.0 => 0,
        _ => 9,
    };
    let text = format!("{figure:.decimals$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), format::count);
    if rest.is_empty() { whole } else { format!("{whole}.{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(figures: &[f64]) -> Grid {
        let mut grid = Grid::new("rates", "Rates").text("of", "of").figure("bps", "rate", RATES);
        for figure in figures {
            grid.row([Cell::Text("a".into()), Cell::Figure(*figure)]);
        }
        grid
    }

    #[test]
    fn each_figure_has_its_own_unit() {
        let text = grid(&[9_350.0, 12.0, 8e9, 0.5]).to_text(80);
        for figure in ["9.35 kbit/s", "12.0 bit/s", "8.00 Gbit/s", "0.500 bit/s"] {
            assert!(text.contains(figure), "{text}");
        }
    }

    #[test]
    fn an_empty_table_is_one_line() {
        assert_eq!(grid(&[]).to_text(80), "Rates: there are no matching transfers.\n");
    }

    #[test]
    fn optional_columns_are_omitted_before_a_heading_is_wrapped() {
        let mut grid = Grid::new("x", "Title")
            .text("file", "file name")
            .optional_text("user", "user name")
            .optional_number("number", "number of files");
        grid.row([Cell::Text("a".into()), Cell::Text("b".into()), Cell::Count(1)]);
        let headings = |width| grid.to_text(width).lines().nth(1).unwrap_or_default().to_owned();
        assert_eq!(headings(80), "file name  user name  number of files");
        assert_eq!(headings(36), "file name  user name");
        assert_eq!(headings(18), "file name");
        assert_eq!(grid.to_json()["rows"][0]["number"], 1);
    }

    #[test]
    fn sizes_and_rates_of_files_are_in_bytes() {
        let mut grid = Grid::new("x", "Title")
            .figure("bits", "size", FILE_SIZES)
            .figure("rate_bps", "rate", FILE_RATES)
            .figure("cost", "CPU", FILE_COSTS);
        grid.row([Cell::Figure(80.0), Cell::Figure(9.9e6), Cell::Figure(2.5 / 8e9)]);
        assert_eq!(grid.to_text(80).lines().last(), Some("10 B  1.24 MB/s  2.50 s/GB"));
    }

    #[test]
    fn programs_get_the_base_unit() {
        assert_eq!(grid(&[9_350.0]).to_json()["rows"][0]["bps"], 9_350.0);
        assert_eq!(grid(&[9_350.0]).to_csv(), "of,bps\na,9350.0\n");
    }

    #[test]
    fn attack_remote_text_is_neither_a_formula_nor_a_line_of_a_csv() {
        let cells = ["=1+1", "a,b", "a\n\"b"].map(|text| Cell::Text(text.into()).to_csv());
        assert_eq!(cells, ["\"'=1+1\"", "\"a,b\"", "\"a\\x0a\"\"b\""]);
    }

    #[test]
    fn a_figure_has_three_significant_digits() {
        let texts =
            [0.0, 0.000_26, 0.123_4, 7.556, 57.62, 189.4, 1_234_567.0].map(format_significant);
        assert_eq!(texts, ["0", "0.000260", "0.123", "7.56", "57.6", "189", "1,234,567"]);
    }
}
