//! TCP counters that the kernel keeps for a network namespace (`/proc/net/netstat`).

use std::fs;

/// Counters of D-SACK reports (RFC 2883), which are sent for segments without new data.
const DUPLICATES: [&str; 2] = ["TCPDSACKOldSent", "TCPDSACKOfoSent"];

/// Returns the number of data segments received twice in the network namespace of this process, on
/// all connections together, or `None` if the kernel does not count them.
#[must_use]
pub fn duplicate_segments_in() -> Option<u64> {
    duplicates(&fs::read_to_string("/proc/self/net/netstat").ok()?)
}

/// Parses the counters from pairs of lines. The first line of a pair has the names, the second has
/// the values in the same order.
fn duplicates(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let names = lines.next()?;
    let values = lines.next()?;
    let pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    let duplicate_counters = pairs.filter(|(name, _)| DUPLICATES.contains(name));
    let values = duplicate_counters.filter_map(|(_, value)| value.parse::<u64>().ok());
    values.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn duplicates_include_old_and_queued_data() {
        let text = "TcpExt: A TCPDSACKOldSent B TCPDSACKOfoSent\nTcpExt: 1 20 3 400\nIpExt: C\n";
        assert_eq!(duplicates(text), Some(420));
        assert_eq!(duplicates("TcpExt: A\nTcpExt: 1\n"), None);
    }

    #[test]
    fn the_kernel_counts_duplicate_segments() {
        assert!(duplicate_segments_in().is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(TcpExt: [A-Za-z0-9 ]{0,40}\n){0,3}") {
            _ = duplicates(&text);
        }
    }
}
