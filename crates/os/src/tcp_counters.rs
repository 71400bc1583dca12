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
        fn the_counters_of_duplicates_are_found_at_any_position(
            others in proptest::collection::vec(("[A-Z][a-z]{0,9}", any::<u64>()), 0..9),
            old_and_queued: [u32; 2], at: proptest::sample::Index,
        ) {
            let mut counters = others;
            let at = at.index(counters.len() + 1);
            let duplicates_of_kinds = DUPLICATES.into_iter().zip(old_and_queued);
            let named = duplicates_of_kinds.map(|(name, value)| (name.to_owned(), value.into()));
            drop(counters.splice(at..at, named));
            let names: String = counters.iter().map(|(name, _)| format!(" {name}")).collect();
            let values: String = counters.iter().map(|(_, value)| format!(" {value}")).collect();
            let sum: u64 = old_and_queued.into_iter().map(u64::from).sum();
            prop_assert_eq!(duplicates(&format!("TcpExt:{names}\nTcpExt:{values}\n")), Some(sum));
        }
    }
}
