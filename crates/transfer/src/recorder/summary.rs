//! Summary of a transfer for the user: size, time and rate.

use records::format::{UNKNOWN, byte_rate, count_or_unknown, duration};
use records::transfer::{Transfer, TransferLimit, derived};

/// Minimum duration for a meaningful limiting factor.
const LIMIT_REPORT_MIN_NS: u64 = 100_000_000;
/// Minimum size for a meaningful limiting factor.
const LIMIT_REPORT_MIN_BYTES: u64 = 1_000_000;

/// Returns the summary of a transfer as a part of a sentence: size, total time and rate. If the
/// transfer is long enough, adds the limiting factor.
pub fn summary(transfer: &Transfer) -> String {
    let bytes = transfer.size.file_bytes;
    let total = transfer.time.total_ns.unwrap_or(0);
    let rate = bytes.and_then(|bytes| derived::rate_bps(bytes.saturating_mul(8), total));
    let rate = rate.map_or_else(|| UNKNOWN.to_owned(), byte_rate);
    let mut text = format!("{} bytes in {}, {rate}", count_or_unknown(bytes), duration(total));
    if total < LIMIT_REPORT_MIN_NS || bytes.is_none_or(|bytes| bytes < LIMIT_REPORT_MIN_BYTES) {
        return text;
    }
    if let Some(limit) = transfer.limit() {
        text.push_str(match limit {
            TransferLimit::Peer => ", limited by the remote host",
            TransferLimit::Network => ", limited by the network or the remote host",
            TransferLimit::Processor => ", limited by the local CPU",
            TransferLimit::Disk => ", limited by the local disk",
            TransferLimit::Application => ", limited by this program",
        });
    }
    text
}

/// Returns the distribution of a transfer's time, as far as it was measured: the steps of the
/// session, the parts of the data transfer, and the CPU time.
pub fn time_breakdown(transfer: &Transfer) -> String {
    let time = &transfer.time;
    let sum = |parts: &[Option<u64>]| parts.iter().flatten().copied().reduce(u64::saturating_add);
    let joined_text = |parts: &[(Option<u64>, &str)]| {
        let parts =
            parts.iter().filter_map(|(ns, name)| Some(format!("{} {name}", duration((*ns)?))));
        parts.collect::<Vec<_>>().join(", ")
    };
    let session_times =
        [time.resolve_ns, time.control_connect_ns, time.control_tls_ns, time.login_ns];
    let data_steps = joined_text(&[
        (time.network_wait_ns, "waiting for the network"),
        (time.crypto_ns, "in TLS"),
        (time.conversion_ns, "converting"),
        (sum(&[time.file_read_ns, time.file_write_ns, time.disk_wait_ns]), "in file I/O"),
    ]);
    let steps = joined_text(&[
        (sum(&session_times), "to open the session"),
        (time.command_to_150_ns, "from the command to its reply"),
        (time.transfer_ns, "from the first byte to the last"),
    ]);
    let data_steps = if data_steps.is_empty() { data_steps } else { format!(" ({data_steps})") };
    let cpu = sum(&[transfer.cpu.cpu_ns, transfer.cpu.cpu_user_ns, transfer.cpu.cpu_sys_ns]);
    let cpu = cpu.map(|ns| format!(", and {} of CPU", duration(ns))).unwrap_or_default();
    format!("time: {steps}{data_steps}{cpu}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::Identifier;

    #[test]
    fn a_long_transfer_reports_its_rate_and_limit() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.size.file_bytes = Some(1_000_000_000);
        transfer.time.total_ns = Some(2_000_000_000);
        transfer.time.network_wait_ns = Some(1_500_000_000);
        transfer.cpu.cpu_ns = Some(350_000_000);
        let expected = "1,000,000,000 bytes in 2.00 s, 500 MB/s, limited by the network or the \
                        remote host";
        assert_eq!(summary(&transfer), expected);
    }

    #[test]
    fn measured_times_are_listed_and_unknown_ones_omitted() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.time.control_connect_ns = Some(1_000_000);
        transfer.time.login_ns = Some(2_000_000);
        transfer.time.transfer_ns = Some(40_000_000);
        transfer.time.network_wait_ns = Some(30_000_000);
        transfer.time.file_write_ns = Some(9_000_000);
        transfer.cpu.cpu_ns = Some(5_000_000);
        let expected = "time: 3.00 ms to open the session, 40.0 ms from the first byte to the last \
                    (30.0 ms waiting for the network, 9.00 ms in file I/O), and 5.00 ms of CPU";
        assert_eq!(time_breakdown(&transfer), expected);
    }

    #[test]
    fn a_short_transfer_reports_only_its_rate() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.cpu.cpu_ns = Some(350_000);
        assert!(
            summary(&transfer).contains("unknown bytes") || summary(&transfer).contains("- bytes")
        );
        transfer.size.file_bytes = Some(1_000);
        transfer.time.total_ns = Some(1_000_000);
        assert_eq!(summary(&transfer), "1,000 bytes in 1.00 ms, 1.00 MB/s");
        // The commands were slow, and the file was tiny.
        transfer.time.total_ns = Some(1_000_000_000);
        assert_eq!(summary(&transfer), "1,000 bytes in 1.00 s, 1.00 kB/s");
    }
}
