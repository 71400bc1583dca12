//! What the servers have done, for Prometheus and its like: OpenMetrics text over HTTP/1.1.
//!
//! The figures are sums over the records of transfers and counts of who came; a scrape reads them
//! and changes nothing. Labels have few values, all of ours: nothing that a client sends becomes one.
//! The door is open at loopback unless another address is named, and nobody proves who he is there.
//! What a client may take of it is limited: a request of [`door::REQUEST_MAX_BYTES`], some seconds,
//! some connections at once.

mod door;
mod histogram;

pub(super) use door::{Place, own_hosts, serve};

use super::admission::Tally;
use histogram::Histogram;
use records::transfer::{Command, Outcome, Transfer};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

/// Upper ends of the classes of duration, µs.
const DURATIONS_US: &[u64] =
    &[1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
/// Upper ends of the classes of CPU time for a gigabyte, µs.
const COSTS_US: &[u64] =
    &[50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 100_000_000];

/// A protocol that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Ftp,
    Tftp,
    Telnet,
}

impl Protocol {
    const fn text(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::Tftp => "tftp",
            Self::Telnet => "telnet",
        }
    }
}

/// What comes by the doors of one protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) protocol: Protocol,
    /// Sessions of now.
    pub(super) open: usize,
    pub(super) tally: Tally,
}

/// The sums.
#[derive(Debug)]
pub(super) struct Metrics {
    transfers: BTreeMap<(Option<Command>, Option<Outcome>), u64>,
    bytes_out: u64,
    bytes_in: u64,
    durations: Histogram,
    costs: Histogram,
    records_left_out: u64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            transfers: BTreeMap::new(),
            bytes_out: 0,
            bytes_in: 0,
            durations: Histogram::new(DURATIONS_US),
            costs: Histogram::new(COSTS_US),
            records_left_out: 0,
        }
    }
}

impl Metrics {
    /// Adds a transfer that is over.
    pub(super) fn observe(&mut self, transfer: &Transfer) {
        let key = (transfer.request.command, transfer.result.outcome);
        *self.transfers.entry(key).or_default() += 1;
        let is_listing = transfer.request.command.is_some_and(Command::is_listing);
        let bytes = transfer.size.file_bytes.filter(|_| !is_listing).unwrap_or(0);
        match transfer.is_sending() {
            Some(true) => self.bytes_out += bytes,
            _ => self.bytes_in += bytes,
        }
        if let Some(ns) = transfer.time.ns_total {
            self.durations.add(ns / 1_000);
        }
        // A gigabyte has 8 * 10^9 bits, and an fs is 10^-15 s.
        if let Some(femtoseconds) = transfer.cpu_fs_per_bit() {
            self.costs.add(femtoseconds.saturating_mul(8));
        }
    }

    /// Counts a refused transfer whose record is not kept.
    pub(super) fn leave_record_out(&mut self) {
        self.records_left_out += 1;
    }

    /// Returns the text of a scrape.
    pub(super) fn text(&self, traffic: &[Traffic]) -> String {
        let mut out = String::with_capacity(4096);
        head(&mut out, "plumb_transfers", "counter", "Transfers that are over.");
        for ((command, outcome), count) in &self.transfers {
            let command = command.map_or("unknown", Command::text);
            let outcome = outcome.map_or("unknown", Outcome::text);
            line(
                &mut out,
                "plumb_transfers_total",
                &[("command", command), ("outcome", outcome)],
                *count,
            );
        }
        head(&mut out, "plumb_bytes", "counter", "Bytes of files that were moved.");
        line(&mut out, "plumb_bytes_total", &[("direction", "out")], self.bytes_out);
        line(&mut out, "plumb_bytes_total", &[("direction", "in")], self.bytes_in);
        let help = "Records of refused transfers that were not kept.";
        head(&mut out, "plumb_transfer_records_left_out", "counter", help);
        let count = self.records_left_out;
        line(&mut out, "plumb_transfer_records_left_out_total", &[], count);
        head(
            &mut out,
            "plumb_transfer_duration_seconds",
            "histogram",
            "From command to last reply.",
        );
        self.durations.write(&mut out, "plumb_transfer_duration_seconds");
        head(
            &mut out,
            "plumb_transfer_cpu_seconds_per_gigabyte",
            "histogram",
            "What it cost here.",
        );
        self.costs.write(&mut out, "plumb_transfer_cpu_seconds_per_gigabyte");
        tell(&mut out, traffic);
        out.push_str("# EOF\n");
        out
    }
}

/// The name of a counter, what it counts, and where it stands.
type Counter = (&'static str, &'static str, fn(&Tally) -> u64);

/// Writes who has come and who is here.
fn tell(out: &mut String, traffic: &[Traffic]) {
    let counters: [Counter; 2] = [
        ("plumb_sessions", "Sessions that have begun.", |tally| tally.sessions),
        ("plumb_refusals", "Who was not let in, and requests turned down.", |tally| tally.refusals),
    ];
    for (name, help, of) in counters {
        head(out, name, "counter", help);
        for Traffic { protocol, tally, .. } in traffic {
            line(out, &format!("{name}_total"), &[("protocol", protocol.text())], of(tally));
        }
    }
    head(out, "plumb_sessions_open", "gauge", "Sessions of now.");
    for Traffic { protocol, open, .. } in traffic {
        let open = u64::try_from(*open).unwrap_or(u64::MAX);
        line(out, "plumb_sessions_open", &[("protocol", protocol.text())], open);
    }
    head(
        out,
        "plumb_logins",
        "counter",
        "Logins, by what came of them; busy ones were not checked.",
    );
    let with_logins = traffic.iter().filter(|of| of.protocol != Protocol::Tftp);
    for Traffic { protocol, tally, .. } in with_logins {
        let results = [
            ("accepted", tally.logins),
            ("failed", tally.failed_logins),
            ("busy", tally.busy_logins),
        ];
        for (result, count) in results {
            let labels = [("protocol", protocol.text()), ("result", result)];
            line(out, "plumb_logins_total", &labels, count);
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // A String takes everything.
    _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}");
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], count: u64) {
    let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    _ = writeln!(out, "{name}{{{}}} {count}", labels.join(","));
}

/// Reads where the metrics are served: a port alone is one of loopback.
pub(super) fn place(text: &str) -> Result<SocketAddr, String> {
    let at_loopback = text.parse().map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
    at_loopback.or_else(|_| text.parse()).map_err(|_| "say a port, or ADDRESS:PORT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::{Identifier, Role};

    // attack row 112
    #[test]
    fn a_port_alone_is_at_loopback() {
        assert_eq!(place("9559"), Ok("127.0.0.1:9559".parse().unwrap()));
        assert_eq!(place("[::]:9559"), Ok("[::]:9559".parse().unwrap()));
        assert!(place("nowhere").is_err());
    }

    #[test]
    fn transfers_are_counted_by_command_and_outcome_and_their_bytes_by_direction() {
        let mut metrics = Metrics::default();
        let mut transfer = Transfer::new(Identifier(1));
        transfer.identity.role = Some(Role::Server);
        transfer.request.command = Some(Command::Retr);
        transfer.result.outcome = Some(Outcome::Complete);
        transfer.size.file_bytes = Some(1_000_000);
        transfer.time.ns_total = Some(5_000_000);
        transfer.cpu.cpu_ns = Some(300_000);
        metrics.observe(&transfer);
        metrics.observe(&transfer);
        let tally = Tally { sessions: 4, logins: 2, ..Tally::default() };
        let text = metrics.text(&[Traffic { protocol: Protocol::Ftp, open: 3, tally }]);
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
