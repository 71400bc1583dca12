//! The usage text of the program.

/// Usage of `terminal_suite`.
pub(super) const USAGE: &str = "\
usage: cargo run -p conformance -- libvterm DIRECTORY [--verbose]
       cargo run -p conformance -- esctest DIRECTORY [--verbose] [--include REGEX]";
