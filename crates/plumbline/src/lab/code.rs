//! Table 6-8 of TM-233, the code: how much of this very program each of the thesis's modules is.
//!
//! The program's own table of symbols says how long each function is, and its name in which module
//! it was written (ELF, chapter 4). What the compiler has put into its caller counts there, and what
//! it has made several times of one generic function counts several times. Without a table of
//! symbols, which a packager may have taken out, there is nothing to tell.

use anyhow::{Context, Result, bail};
use simulator::table::{Figure, Row, Table};
use simulator::tm233;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A module of the thesis, what it came to, and which modules of ours do its work.
struct Module {
    what: &'static str,
    bytes: f64,
    ours: &'static [&'static str],
}

/// Table 6-8, without the area of the operating system.
const MODULES: [Module; 7] = [
    Module { what: "Telnet", bytes: 3_156.0, ours: &["protocols::application::telnet"] },
    Module { what: "TCP", bytes: 5_396.0, ours: &["protocols::transport::tcp"] },
    Module { what: "Internet", bytes: 1_112.0, ours: &["protocols::internet"] },
    Module {
        what: "LLP and packet manager",
        bytes: 4_868.0,
        ours: &["protocols::link::llp", "protocols::packet"],
    },
    Module { what: "tasking", bytes: 432.0, ours: &["os::tasking"] },
    Module { what: "terminal", bytes: 9_068.0, ours: &["protocols::terminal"] },
    Module { what: "runtime system", bytes: 282.0, ours: &["std::rt"] },
];

/// What the thesis has beside its modules.
const OS_AREA_BYTES: f64 = 256.0;
const TOTAL_BYTES: f64 = 24_470.0;

/// Returns the table for the program that runs.
///
/// # Errors
///
/// If it has no symbols, or is no ELF file of 64 bits.
pub(super) fn table() -> Result<Table> {
    let file = File::open("/proc/self/exe")?;
    let functions = functions(&file)?;
    if functions.is_empty() {
        bail!("this program was built without a table of symbols");
    }
    let mut rows: Vec<Row> = MODULES
        .iter()
        .map(|module| {
            let patterns: Vec<_> = module.ours.iter().map(|path| Pattern::of(path)).collect();
            let ours = functions
                .iter()
                .filter(|function| patterns.iter().any(|pattern| pattern.is_in(&function.name)));
            row(module.what, module.bytes, ours.map(|function| function.bytes as f64).sum())
        })
        .collect();
    rows.push(row("operating system area", OS_AREA_BYTES, f64::from(heads(&file)?)));
    rows.push(row("total", TOTAL_BYTES, rows.iter().map(|row| row.ours).sum()));
    Ok(Table {
        number: "6-8",
        title: "length of the code",
        unit: "bytes",
        rows,
        why: "The thesis has code of an 8088 that does what a login needs; its terminal is a \
              Heath-19 with C's standard input and output. Ours is that of this program, for this \
              processor: every option of TCP, both versions of the Internet protocol with their \
              neighbors and routers, a terminal of today beside the Heath-19. A function that the \
              compiler has put into its caller counts there. The runtime system is what comes \
              before and after the program itself; the area of the operating system, which in DOS \
              is 256 bytes before the program, is the heads of the ELF file. The rows of the \
              thesis add up to 24,570 bytes, a hundred more than its total. Ours is the total of the \
              rows, and so without the rest of this program.",
    })
}

fn row(what: &str, measured: f64, ours: f64) -> Row {
    Row::output(what, ours, 0).measured(measured)
}

/// Returns what the data has beside its buffers, which a build of the program decides.
pub(super) fn data_table() -> Table {
    let buffers: usize = tm233::buffer_bytes().iter().sum();
    let rest = tm233::host_bytes();
    Table {
        number: "G, of this program",
        title: "memory of all data (§6.3.4)",
        unit: "bytes",
        rows: vec![
            Row::output("beside the buffers", rest as f64, 0)
                .measured(Figure::derived(tm233::OTHER_DATA_BYTES)),
            row("data, all of it", tm233::DATA_BYTES, (buffers + rest) as f64),
        ],
        why: "Beside the buffers a host has in one piece its layers, meter and Telnet, without the \
              tables that grow as they are needed and without its screen. The compiler and the \
              features of a build decide how long that is.",
    }
}

/// Returns how long the head of an ELF file is, and those of its parts in memory.
fn heads(file: &File) -> Result<u32> {
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).context("this program cannot be read")?;
    let (size, count) =
        (half(&head, 0x36).unwrap_or(0) & 0xFFFF, half(&head, 0x38).unwrap_or(0) & 0xFFFF);
    Ok(64 + size * count)
}

/// How the path of a module stands in the name of a symbol.
struct Pattern {
    /// As the path of a function: `9protocols8internet`.
    counted: String,
    /// Inside of a type: `protocols..internet..`.
    dotted: String,
}

impl Pattern {
    fn of(path: &str) -> Self {
        let names = path.split("::");
        let counted = names.map(|name| format!("{}{name}", name.len())).collect();
        Self { counted, dotted: format!("{}..", path.replace("::", "..")) }
    }

    fn is_in(&self, name: &str) -> bool {
        name.contains(&self.counted) || name.contains(&self.dotted)
    }
}

struct Function {
    name: String,
    bytes: u64,
}

/// A section of an ELF file: what it is, where it lies, and which other it needs.
#[derive(Clone, Copy)]
struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    link: usize,
}

/// The kind of a section that is the table of symbols.
const SYMTAB: u32 = 2;
/// The type of a symbol that is a function.
const FUNC: u8 = 2;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// The largest section that is read.
const SECTION_MAX_BYTES: u64 = 1 << 30;

/// Returns the functions of an ELF file of 64 bits, each place once.
fn functions(file: &File) -> Result<Vec<Function>> {
    let sections = sections(file)?;
    let Some(symbols) = sections.iter().find(|section| section.kind == SYMTAB) else {
        return Ok(Vec::new());
    };
    let names = sections.get(symbols.link).context("the symbols have no names")?;
    let (symbols, names) = (bytes_of(file, *symbols)?, bytes_of(file, *names)?);
    let mut places = BTreeSet::new();
    let functions = symbols.chunks_exact(SYMBOL_BYTES).filter_map(|symbol| {
        let is_function = symbol.get(4)? & 0xF == FUNC;
        let (place, bytes) = (word(symbol, 8)?, word(symbol, 16)?);
        let name = names.get(usize::try_from(half(symbol, 0)?).ok()?..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        // Functions of the same code may lie at one place.
        (is_function && bytes > 0 && places.insert(place)).then_some(Function { name, bytes })
    });
    Ok(functions.collect())
}

fn sections(file: &File) -> Result<Vec<Section>> {
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).context("this program cannot be read")?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        bail!("this program is no ELF file of 64 bits and of this order of bytes");
    }
    let count = half(&head, 0x3C).unwrap_or(0) & 0xFFFF;
    let table = Section {
        kind: 0,
        offset: word(&head, 0x28).unwrap_or(0),
        size: u64::from(count) * SECTION_BYTES as u64,
        link: 0,
    };
    let table = bytes_of(file, table)?;
    let sections = table.chunks_exact(SECTION_BYTES).filter_map(|section| {
        Some(Section {
            kind: half(section, 4)?,
            offset: word(section, 24)?,
            size: word(section, 32)?,
            link: usize::try_from(half(section, 40)?).ok()?,
        })
    });
    Ok(sections.collect())
}

fn bytes_of(file: &File, section: Section) -> Result<Vec<u8>> {
    if section.size > SECTION_MAX_BYTES {
        bail!("this program has a section that is too long");
    }
    let mut bytes = vec![0; usize::try_from(section.size)?];
    file.read_exact_at(&mut bytes, section.offset).context("this program cannot be read")?;
    Ok(bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_knows_how_long_its_modules_are() {
        let table = table().unwrap();
        let tcp = table.rows.iter().find(|row| row.what == "TCP").unwrap();
        assert!(tcp.ours > 5_396.0, "{table:?}");
        assert!(table.rows.iter().all(|row| row.ours > 0.0), "{table:?}");
    }

    #[test]
    fn a_module_is_found_in_the_name_of_a_function_and_of_a_type() {
        let tcp = Pattern::of("protocols::transport::tcp");
        assert!(tcp.is_in("_ZN9protocols9transport3tcp5table6lookup17h0123456789abcdefE"));
        assert!(
            tcp.is_in("_ZN4core3ptr52drop_in_place$LT$protocols..transport..tcp..Tcp$GT$17h0E")
        );
        assert!(!tcp.is_in("_ZN9protocols9transport3udp4take17h0123456789abcdefE"));
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        let path = std::env::temp_dir().join(format!("plumb-no-elf-{}", std::process::id()));
        std::fs::write(&path, [0; 100]).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(functions(&file).is_err());
    }
}
