//! Summary of a transfer for the user: size, time, rate and cost.

use records::figures::{count, count_or_unknown, duration};
use records::transfer::{Limit, Transfer, derived};

/// Minimum duration for a meaningful CPU time per gigabyte.
const TELLING_NS: u64 = 100_000_000;
/// Minimum size for a meaningful CPU time per gigabyte.
const TELLING_BYTES: u64 = 1_000_000;

/// Returns the summary of a transfer as a part of a sentence: size, total time and rate. If the
/// transfer is long enough, adds the CPU time per gigabyte and the limiting factor.
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
    // A gigabyte has 8 * 10^9 bits and an fs is 10^-15 s: 1 fs/bit is 8 * 10^-6 s/GB, here in ms.
    if let Some(femtoseconds) = transfer.cpu_fs_per_bit() {
        text.push_str(&format!(
            ", {} ms of CPU per GB",
            count(femtoseconds.saturating_mul(8) / 1_000)
        ));
    }
    if let Some(limit) = transfer.limit() {
        text.push_str(match limit {
            Limit::Peer => ", limited by the remote host",
            Limit::Network => ", limited by the network or the remote host",
            Limit::Processor => ", limited by the local CPU",
            Limit::Disk => ", limited by the local disk",
            Limit::Application => ", limited by this program",
        });
    }
    text
}

/// Returns how the time of a transfer was spent, as far as it was measured: its steps, and the
/// waits of its bytes.
pub(crate) fn spent(transfer: &Transfer) -> String {
    let time = &transfer.time;
    let sum = |parts: &[Option<u64>]| parts.iter().flatten().copied().reduce(u64::saturating_add);
    let told = |parts: &[(Option<u64>, &str)]| {
        let parts =
            parts.iter().filter_map(|(ns, what)| Some(format!("{} {what}", duration((*ns)?))));
        parts.collect::<Vec<_>>().join(", ")
    };
    let opening = [time.ns_resolve, time.ns_ctl_connect, time.ns_ctl_tls, time.ns_login];
    let within = told(&[
        (time.ns_wait_net, "waiting for the network"),
        (time.ns_crypto, "in TLS"),
        (time.ns_convert, "converting"),
        (sum(&[time.ns_read_file, time.ns_write_file, time.ns_wait_disk]), "in file I/O"),
    ]);
    let steps = told(&[
        (sum(&opening), "to open the session"),
        (time.ns_cmd_to_150, "from the command to its reply"),
        (time.ns_transfer, "from the first byte to the last"),
    ]);
    let within = if within.is_empty() { within } else { format!(" ({within})") };
    let cpu = sum(&[transfer.cpu.cpu_ns, transfer.cpu.cpu_user_ns, transfer.cpu.cpu_sys_ns]);
    let cpu = cpu.map(|ns| format!(", and {} of CPU", duration(ns))).unwrap_or_default();
    format!("time: {steps}{within}{cpu}")
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
        let told = "1,000,000,000 bytes in 2.00 s, 500,000,000 bytes/s, 350 ms of CPU per GB, \
                    limited by the network or the remote host";
        assert_eq!(summary(&transfer), told);
    }

    #[test]
    fn what_was_measured_of_a_transfer_is_told_and_what_was_not_is_left_out() {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.time.ns_ctl_connect = Some(1_000_000);
        transfer.time.ns_login = Some(2_000_000);
        transfer.time.ns_transfer = Some(40_000_000);
        transfer.time.ns_wait_net = Some(30_000_000);
        transfer.time.ns_write_file = Some(9_000_000);
        transfer.cpu.cpu_ns = Some(5_000_000);
        let told = "time: 3.00 ms to open the session, 40.0 ms from the first byte to the last \
                    (30.0 ms waiting for the network, 9.00 ms in file I/O), and 5.00 ms of CPU";
        assert_eq!(spent(&transfer), told);
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
        // The commands were slow, and the file was tiny.
        transfer.time.ns_total = Some(1_000_000_000);
        assert_eq!(summary(&transfer), "1,000 bytes in 1.00 s, 1,000 bytes/s");
    }
}
