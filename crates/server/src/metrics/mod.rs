//! Metrics of the servers for Prometheus: OpenMetrics text over HTTP/1.1.
//!
//! The values are sums over transfer records and counts of sessions; a scrape only reads them.
//! Labels have few values, all chosen by the server: nothing sent by a client becomes a label. The
//! endpoint listens on loopback unless another address is configured, and requires no
//! authentication. The size of a request, the time for its response, and the number of connections
//! are limited ([`open_metrics::exchange`]).

mod histogram;
mod http_endpoint;

pub(super) use http_endpoint::{EndpointSettings, accepted_hosts, serve};
pub use open_metrics::parse_address;

use super::traffic::{ProtocolTraffic, ServerProtocol, SessionCounts};
use histogram::Histogram;
use open_metrics::{Exposition, MetricKind};
use records::transfer::{Command, Outcome, Transfer};
use std::collections::BTreeMap;

/// Upper bounds of the duration buckets in µs.
const DURATIONS_US: &[u64] =
    &[1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Upper bounds of the buckets of CPU time per gigabyte, in µs.
const CPU_TIMES_US: &[u64] =
    &[50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 100_000_000];

/// Sums over all transfers.
#[derive(Debug)]
pub(super) struct Metrics {
    transfers: BTreeMap<(Option<Command>, Option<Outcome>), u64>,
    bytes_out: u64,
    bytes_in: u64,
    durations: Histogram,
    costs: Histogram,
    omitted_records: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            transfers: BTreeMap::new(),
            bytes_out: 0,
            bytes_in: 0,
            durations: Histogram::new(DURATIONS_US),
            costs: Histogram::new(CPU_TIMES_US),
            omitted_records: 0,
        }
    }
}

impl Metrics {
    /// Adds a completed or failed transfer.
    pub(super) fn observe(&mut self, transfer: &Transfer) {
        let key = (transfer.request.command, transfer.result.outcome);
        *self.transfers.entry(key).or_default() += 1;
        let is_listing = transfer.request.command.is_some_and(Command::is_listing);
        let bytes = transfer.size.file_bytes.filter(|_| !is_listing).unwrap_or(0);
        match transfer.is_sending() {
            Some(true) => self.bytes_out += bytes,
            _ => self.bytes_in += bytes,
        }
        if let Some(ns) = transfer.time.total_ns {
            self.durations.add(ns / 1_000);
        }
        // 1 fs per bit is 8 µs per gigabyte, because a gigabyte has 8 * 10^9 bits.
        if let Some(femtoseconds) = transfer.cpu_fs_per_bit() {
            self.costs.add(femtoseconds.saturating_mul(8));
        }
    }

    /// Counts a refused transfer whose record is not kept.
    pub(super) fn count_omitted_record(&mut self) {
        self.omitted_records += 1;
    }

    /// Returns the response to a scrape.
    pub(super) fn text(&self, traffic: &[ProtocolTraffic]) -> String {
        let mut out = Exposition::default();
        out.head("plumb_transfers", MetricKind::Counter, "Finished transfers.");
        for ((command, outcome), count) in &self.transfers {
            let command = command.map_or("unknown", Command::text);
            let outcome = outcome.map_or("unknown", Outcome::text);
            out.sample(
                "plumb_transfers_total",
                &[("command", command), ("outcome", outcome)],
                *count,
            );
        }
        out.head("plumb_bytes", MetricKind::Counter, "File bytes transferred.");
        out.sample("plumb_bytes_total", &[("direction", "out")], self.bytes_out);
        out.sample("plumb_bytes_total", &[("direction", "in")], self.bytes_in);
        let help = "Records of refused transfers that were not saved.";
        out.head("plumb_transfer_records_left_out", MetricKind::Counter, help);
        let count = self.omitted_records;
        out.sample("plumb_transfer_records_left_out_total", &[], count);
        out.head(
            "plumb_transfer_duration_seconds",
            MetricKind::Histogram,
            "Time from the command to the last reply.",
        );
        self.durations.write(out.text_mut(), "plumb_transfer_duration_seconds");
        out.head(
            "plumb_transfer_cpu_seconds_per_gigabyte",
            MetricKind::Histogram,
            "CPU time per gigabyte transferred.",
        );
        self.costs.write(out.text_mut(), "plumb_transfer_cpu_seconds_per_gigabyte");
        write_session_counters(&mut out, traffic);
        out.finish()
    }
}

/// Name and help text of a counter, and the function that returns its value.
type Counter = (&'static str, &'static str, fn(&SessionCounts) -> u64);

/// Writes the session and login counters.
fn write_session_counters(out: &mut Exposition, traffic: &[ProtocolTraffic]) {
    let counters: [Counter; 2] = [
        ("plumb_sessions", "Sessions started.", |tally| tally.sessions),
        ("plumb_refusals", "Refused connections, commands and transfers.", |tally| tally.refusals),
    ];
    for (name, help, value_of) in counters {
        out.head(name, MetricKind::Counter, help);
        for ProtocolTraffic { protocol, tally, .. } in traffic {
            out.sample(&format!("{name}_total"), &[("protocol", protocol.text())], value_of(tally));
        }
    }
    out.head("plumb_sessions_open", MetricKind::Gauge, "Open sessions.");
    for ProtocolTraffic { protocol, open, .. } in traffic {
        let open = u64::try_from(*open).unwrap_or(u64::MAX);
        out.sample("plumb_sessions_open", &[("protocol", protocol.text())], open);
    }
    out.head(
        "plumb_logins",
        MetricKind::Counter,
        "Logins by result; busy means that the password was not checked.",
    );
    let with_logins = traffic.iter().filter(|sessions| sessions.protocol != ServerProtocol::Tftp);
    for ProtocolTraffic { protocol, tally, .. } in with_logins {
        let results = [
            ("accepted", tally.logins),
            ("failed", tally.failed_logins),
            ("busy", tally.busy_logins),
        ];
        for (result, count) in results {
            let labels = [("protocol", protocol.text()), ("result", result)];
            out.sample("plumb_logins_total", &labels, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::{Identifier, Role};

    #[test]
    fn transfers_are_counted_by_command_and_outcome_and_their_bytes_by_direction() {
        let mut metrics = Metrics::default();
        let mut transfer = Transfer::new(Identifier(1));
        transfer.identity.role = Some(Role::Server);
        transfer.request.command = Some(Command::Retr);
        transfer.result.outcome = Some(Outcome::Complete);
        transfer.size.file_bytes = Some(1_000_000);
        transfer.time.total_ns = Some(5_000_000);
        transfer.cpu.cpu_ns = Some(300_000);
        metrics.observe(&transfer);
        metrics.observe(&transfer);
        let tally = SessionCounts { sessions: 4, logins: 2, ..SessionCounts::default() };
        let text =
            metrics.text(&[ProtocolTraffic { protocol: ServerProtocol::Ftp, open: 3, tally }]);
        for wanted in [
            "plumb_transfers_total{command=\"RETR\",outcome=\"complete\"} 2\n",
            "plumb_bytes_total{direction=\"out\"} 2000000\n",
            "plumb_transfer_duration_seconds_bucket{le=\"0.001\"} 0\n",
            "plumb_transfer_duration_seconds_bucket{le=\"0.01\"} 2\n",
            "plumb_transfer_duration_seconds_sum 0.010000\n",
            "plumb_transfer_cpu_seconds_per_gigabyte_bucket{le=\"0.2\"} 0\n",
            "plumb_transfer_cpu_seconds_per_gigabyte_bucket{le=\"0.5\"} 2\n",
            "plumb_sessions_open{protocol=\"ftp\"} 3\n",
            "plumb_sessions_total{protocol=\"ftp\"} 4\n",
            "plumb_logins_total{protocol=\"ftp\",result=\"accepted\"} 2\n",
        ] {
            assert!(text.contains(wanted), "{wanted} {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
