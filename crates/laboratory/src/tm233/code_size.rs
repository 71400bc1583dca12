//! Table 6-8 of TM-233: the code size of each module of the thesis, compared with this program.
//!
//! The symbol table of the program contains the length of each function. The name of a symbol
//! contains the module that defines the function (ELF, chapter 4). Inlined functions count for
//! their caller, and each instance of a generic function counts separately. If a packager has
//! stripped the symbol table, there are no sizes to report.

use crate::table::{Row, Table};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;

/// A module of the thesis, its size in bytes, and the modules of plumbline that implement it.
struct Module {
    name: &'static str,
    bytes: f64,
    our_modules: &'static [&'static str],
}

/// Table 6-8, without the operating system area.
const MODULES: [Module; 7] = [
    Module { name: "Telnet", bytes: 3_156.0, our_modules: &["plumbline_protocols::telnet"] },
    Module { name: "TCP", bytes: 5_396.0, our_modules: &["plumbline_net::transport::tcp"] },
    Module { name: "Internet", bytes: 1_112.0, our_modules: &["plumbline_net::internet"] },
    Module {
        name: "LLP and packet manager",
        bytes: 4_868.0,
        our_modules: &["plumbline_net::link::llp", "plumbline_net::packet"],
    },
    Module {
        name: "tasking",
        bytes: 432.0,
        our_modules: &[
            "control::direct",
            "control::flags",
            "control::futures",
            "control::procedures",
            "control::ring",
            "control::signals",
            "control::station",
            "control::tasks",
        ],
    },
    Module { name: "terminal", bytes: 9_068.0, our_modules: &["plumbline_protocols::terminal"] },
    Module { name: "runtime system", bytes: 282.0, our_modules: &["std::rt"] },
];

/// Size of the operating system area in the thesis, in bytes.
const OS_AREA_BYTES: f64 = 256.0;
/// Total size in the thesis, in bytes.
const TOTAL_BYTES: f64 = 24_470.0;

/// Returns the table for `program`, the file of the running program.
///
/// # Errors
///
/// Returns an error if the file cannot be read, has no symbols, or is not a 64-bit ELF file.
pub fn code_size_table(program: &File) -> Result<Table> {
    let functions = functions(program)?;
    if functions.is_empty() {
        return Err(invalid("plumb was built without a symbol table"));
    }
    let mut rows: Vec<Row> = MODULES
        .iter()
        .map(|module| {
            let patterns: Vec<_> =
                module.our_modules.iter().map(|path| Pattern::of(path)).collect();
            let our_functions = functions
                .iter()
                .filter(|function| patterns.iter().any(|pattern| pattern.is_in(&function.name)));
            row(
                module.name,
                module.bytes,
                our_functions.map(|function| function.bytes as f64).sum(),
            )
        })
        .collect();
    rows.push(row("operating system area", OS_AREA_BYTES, f64::from(headers_len(program)?)));
    rows.push(row("total", TOTAL_BYTES, rows.iter().map(|row| row.ours).sum()));
    Ok(Table {
        number: "6-8",
        title: "length of the code",
        unit: "bytes",
        rows,
        why: "The code of the thesis is for the 8088 and does only what a login needs. Its terminal \
              is a Heath-19 with the standard input and output of C. Plumbline's values are those \
              of the running program on its processor. They include every option of TCP, both \
              versions of the Internet protocol with neighbors and routers, and a modern terminal \
              in addition to the Heath-19. A function that the compiler has inlined counts as part \
              of its caller. The runtime system is the code that runs before and after the program \
              itself. The operating system area of DOS is 256 bytes before the program; that of \
              plumbline is the headers of the ELF file. The rows of the thesis add up to 24,570 \
              bytes, a hundred more than its total. Plumbline's total is the sum of the rows, \
              without the rest of the program.",
    })
}

fn row(what: &str, measured: f64, ours: f64) -> Row {
    Row::output(what, ours, 0).measured(measured)
}

/// Returns the length of the ELF header plus the program headers, in bytes.
fn headers_len(file: &File) -> Result<u32> {
    let mut elf_header = [0; 64];
    file.read_exact_at(&mut elf_header, 0)?;
    let size = read_u32(&elf_header, 0x36).unwrap_or(0) & 0xFFFF;
    let count = read_u32(&elf_header, 0x38).unwrap_or(0) & 0xFFFF;
    Ok(64 + size * count)
}

/// Forms of a module path within a symbol name.
struct Pattern {
    /// Module path in the path of a function, such as `13plumbline_net8internet`.
    length_prefixed: String,
    /// Module path in the name of a type, such as `plumbline_net..internet..`.
    dotted: String,
}

impl Pattern {
    fn of(path: &str) -> Self {
        let names = path.split("::");
        let length_prefixed = names.map(|name| format!("{}{name}", name.len())).collect();
        Self { length_prefixed, dotted: format!("{}..", path.replace("::", "..")) }
    }

    fn is_in(&self, name: &str) -> bool {
        name.contains(&self.length_prefixed) || name.contains(&self.dotted)
    }
}

struct Function {
    name: String,
    bytes: u64,
}

/// A section of an ELF file: its type, its location and the index of its linked section.
#[derive(Clone, Copy)]
struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    link: usize,
}

/// ELF section type of a symbol table.
const SYMTAB: u32 = 2;
/// ELF symbol type of a function.
const FUNC: u8 = 2;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// Maximum size of a section that is read, in bytes.
const SECTION_MAX_BYTES: u64 = 1 << 30;

/// Returns the functions of a 64-bit ELF file, one for each address.
fn functions(file: &File) -> Result<Vec<Function>> {
    let sections = sections(file)?;
    let Some(symbols) = sections.iter().find(|section| section.kind == SYMTAB) else {
        return Ok(Vec::new());
    };
    let names = sections
        .get(symbols.link)
        .ok_or_else(|| invalid("the symbol table of plumb has no names"))?;
    let symbols = bytes_of(file, *symbols)?;
    let names = bytes_of(file, *names)?;
    let mut places = BTreeSet::new();
    let functions = symbols.chunks_exact(SYMBOL_BYTES).filter_map(|symbol| {
        let is_function = symbol.get(4)? & 0xF == FUNC;
        let place = read_u64(symbol, 8)?;
        let bytes = read_u64(symbol, 16)?;
        let name = names.get(usize::try_from(read_u32(symbol, 0)?).ok()?..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        // Identical functions may share one address.
        (is_function && bytes > 0 && places.insert(place)).then_some(Function { name, bytes })
    });
    Ok(functions.collect())
}

fn sections(file: &File) -> Result<Vec<Section>> {
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Err(invalid("this program is not a 64-bit ELF file of the native byte order"));
    }
    let count = read_u32(&head, 0x3C).unwrap_or(0) & 0xFFFF;
    let table = Section {
        kind: 0,
        offset: read_u64(&head, 0x28).unwrap_or(0),
        size: u64::from(count) * SECTION_BYTES as u64,
        link: 0,
    };
    let table = bytes_of(file, table)?;
    let sections = table.chunks_exact(SECTION_BYTES).filter_map(|section| {
        Some(Section {
            kind: read_u32(section, 4)?,
            offset: read_u64(section, 24)?,
            size: read_u64(section, 32)?,
            link: usize::try_from(read_u32(section, 40)?).ok()?,
        })
    });
    Ok(sections.collect())
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

fn bytes_of(file: &File, section: Section) -> Result<Vec<u8>> {
    if section.size > SECTION_MAX_BYTES {
        return Err(invalid("a section of the running program is too long"));
    }
    let mut bytes = vec![0; usize::try_from(section.size).map_err(Error::other)?];
    file.read_exact_at(&mut bytes, section.offset)?;
    Ok(bytes)
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_found_in_the_name_of_a_function_and_of_a_type() {
        let tcp = Pattern::of("plumbline_net::transport::tcp");
        assert!(tcp.is_in("_ZN13plumbline_net9transport3tcp5table6lookup17h0123456789abcdefE"));
        assert!(
            tcp.is_in("_ZN4core3ptr52drop_in_place$LT$plumbline_net..transport..tcp..Tcp$GT$17h0E")
        );
        assert!(!tcp.is_in("_ZN13plumbline_net9transport3udp4take17h0123456789abcdefE"));
    }

    #[test]
    fn a_file_that_is_not_elf_is_an_error() {
        let path = std::env::temp_dir().join(format!("plumb-no-elf-{}", std::process::id()));
        std::fs::write(&path, [0; 100]).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(functions(&file).is_err());
    }
}
