//! What a person is told of a transfer: size, time, rate, and what it cost.

use records::figures::{count, count_or_unknown, duration};
use records::transfer::{Limit, Transfer, derived};

/// Below this time, what a processor has done says nothing of a gigabyte.
const TELLING_NS: u64 = 100_000_000;
/// And so it does of less than this.
const TELLING_BYTES: u64 = 1_000_000;

/// Returns what is known of a transfer as a part of a sentence: all that a command took, and where
/// that was long enough to tell, the CPU time of a gigabyte and what limited it.
pub(crate) fn summary(transfer: &Transfer) -> String {
    let bytes = transfer.size.file_bytes;
    let total = transfer.time.ns_total.unwrap_or(0);
    let rate = bytes.and_then(|bytes| derived::rate_bps(bytes.saturating_mul(8), total));
    let mut text = format!(
        "{} bytes in {}, {} bytes/s",
        count_or_unknown(bytes),
        duration(total),
        count_or_unknown(rate.map(|bits| bits / 8)),
    );
    if total < TELLING_NS || bytes.is_none_or(|bytes| bytes < TELLING_BYTES) {
        return text;
    }
    // A gigabyte has 8 * 10^9 bits, and an fs is 10^-15 s: 8 * 10^-6 s, here in ms.
    if let Some(femtoseconds) = transfer.cpu_fs_per_bit() {
        text.push_str(&format!(
            ", {} ms of CPU a GB",
            count(femtoseconds.saturating_mul(8) / 1_000)
        ));
    }
    if let Some(limit) = transfer.limit() {
        text.push_str(match limit {
            Limit::Peer => ", limited by the far side",
            Limit::Network => ", limited by the network or the far side",
            Limit::Processor => ", limited by this processor",
            Limit::Disk => ", limited by this disk",
            Limit::Application => ", limited by this program",
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::Identifier;

    #[test]
    fn a_long_transfer_tells_its_rate_its_cost_and_its_limit() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.size.file_bytes = Some(1_000_000_000);
        transfer.time.ns_total = Some(2_000_000_000);
        transfer.time.ns_wait_net = Some(1_500_000_000);
        transfer.cpu.cpu_ns = Some(350_000_000);
        let told = "1,000,000,000 bytes in 2.00 s, 500,000,000 bytes/s, 350 ms of CPU a GB, limited \
                    by the network or the far side";
        assert_eq!(summary(&transfer), told);
    }

    #[test]
    fn a_short_one_tells_its_rate_alone_and_an_unknown_one_nothing() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.cpu.cpu_ns = Some(350_000);
        assert!(
            summary(&transfer).contains("unknown bytes") || summary(&transfer).contains("- bytes")
        );
        transfer.size.file_bytes = Some(1_000);
        transfer.time.ns_total = Some(1_000_000);
        assert_eq!(summary(&transfer), "1,000 bytes in 1.00 ms, 1,000,000 bytes/s");
        // The dialogue was slow, and the file was next to nothing.
        transfer.time.ns_total = Some(1_000_000_000);
        assert_eq!(summary(&transfer), "1,000 bytes in 1.00 s, 1,000 bytes/s");
    }
}
