//! The private memory of a process.

use std::fs;

/// Returns the anonymous memory of the process in bytes, in proportion to its sharing; the text and
/// data of the binary are not included.
pub(super) fn private_bytes(id: u32) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?)
}

fn parse(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss_Anon:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_anonymous_memory_is_read() {
        let rollup = "Pss:                 300 kB\nPss_Anon:            248 kB\nPss_File: 9 kB\n";
        assert_eq!(parse(rollup), Some(248 * 1024));
        assert_eq!(parse("Pss: 1 kB\n"), None);
        assert!(private_bytes(std::process::id()).is_some());
    }
}
