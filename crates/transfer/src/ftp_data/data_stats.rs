//! Observations of the thread or task that moves the bytes of a data connection, and their part of
//! the transfer record. CPU time includes the commit of an upload, but not the control connection.

use crate::recorder::{DataTls, nanos, of_kernel};
use os::context_switches::ContextSwitches;
use protocols::ftp::data::Counts;
use records::transfer::{OwnStack, Tcp, Transfer};
use rustix::net::{SocketAddrAny, getpeername, getsockname};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Statistics of one transfer, which the owner of the transfer can read while it runs and after it
/// was aborted.
#[derive(Debug, Default)]
pub struct TransferStats {
    data: Mutex<DataStats>,
    moved_bytes: AtomicU64,
}

impl TransferStats {
    /// Locks the observations of the data connection. Must not be held across an await or another
    /// call.
    pub fn data(&self) -> MutexGuard<'_, DataStats> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of bytes transferred on the data connection.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Adds bytes transferred on the data connection.
    pub(crate) fn add_moved_bytes(&self, count: usize) {
        self.moved_bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Adds bytes of the file.
    pub(crate) fn add_file_bytes(&self, count: usize) {
        let mut data = self.data();
        data.file_bytes = Some(data.file_bytes.unwrap_or(0) + count as u64);
    }

    /// Stores the time of the first byte, unless it is known.
    pub(crate) fn note_first_byte(&self, at: Instant) {
        self.data().first_byte_at.get_or_insert(at);
    }
}

/// Observations of one data connection. Each value is `None` if it was not measured.
#[derive(Clone, Debug, Default)]
pub struct DataStats {
    /// Bytes read from or written to the file.
    pub file_bytes: Option<u64>,
    /// TLS parameters of the connection.
    pub tls: Option<DataTls>,
    /// Duration of the TLS handshake.
    pub tls_time: Option<Duration>,
    /// Time of the first byte.
    pub first_byte_at: Option<Instant>,
    /// Time of the end of the data.
    pub ended_at: Option<Instant>,
    /// Whether a single system call moved all bytes, so that its duration contains no information
    /// about the network.
    pub is_single_call: bool,
    /// CPU time of the transfer.
    pub cpu_time: Option<Duration>,
    /// Context switches of the thread, if the thread did nothing else during the transfer.
    pub(crate) switches: Option<ContextSwitches>,
    /// Run-queue wait of the thread.
    pub(crate) run_queue_wait: Option<Duration>,
    /// Number of system calls that moved bytes, if all such calls were counted.
    pub(crate) calls: Option<u64>,
    /// Records, markers and line ends in the data.
    pub counts: Counts,
    /// Time spent in reads of the local file.
    pub(crate) read_time: Option<Duration>,
    /// Time spent in writes to the local file.
    pub write_time: Option<Duration>,
    /// Time for the commit of a received file, which waits for the disk.
    pub commit_time: Option<Duration>,
    /// Time spent waiting for the network.
    pub(crate) network_wait: Option<Duration>,
    /// Time spent on the conversion of the data.
    pub(crate) conversion_time: Option<Duration>,
    /// Time spent in the TLS library.
    pub crypto_time: Option<Duration>,
    /// Local and remote address of the connection.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// State of TCP at the end of the connection.
    pub(crate) tcp: Option<Tcp>,
    /// Statistics that only the user-space TCP reports.
    pub(crate) own_stack: OwnStack,
}

impl DataStats {
    /// Queries the addresses of a kernel socket if they are not known yet.
    pub fn query_addresses(&mut self, socket: &impl AsFd) {
        if self.addresses.is_some() {
            return;
        }
        let address = |name: Option<SocketAddrAny>| SocketAddr::try_from(name?).ok();
        let local = address(getsockname(socket).ok());
        self.addresses = local.zip(address(getpeername(socket).ok().flatten()));
    }

    /// Queries the kernel's TCP state of the connection.
    pub fn query_tcp(&mut self, socket: &impl AsFd) {
        self.tcp = Some(of_kernel(socket));
    }

    /// Counts a system call that moves bytes.
    pub(crate) fn count_call(&mut self) {
        self.count_calls(1);
    }

    /// Counts system calls that move bytes.
    pub(crate) fn count_calls(&mut self, count: u64) {
        self.calls = Some(self.calls.unwrap_or(0) + count);
    }

    /// Adds CPU time.
    pub fn add_cpu_time(&mut self, time: Duration) {
        add_time(&mut self.cpu_time, time);
    }

    /// Adds time spent in writes to the local file.
    pub(crate) fn add_write_time(&mut self, time: Duration) {
        add_time(&mut self.write_time, time);
    }

    /// Writes the observations to the record of the transfer. A file may use several data
    /// connections, one after the other: sizes and times are sums, and the state of TCP is that of
    /// the last connection.
    pub fn note(&self, transfer: &mut Transfer, wire_bytes: u64) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more.map(|more| sum.unwrap_or(0).saturating_add(more)).or(*sum);
        };
        let add_time = |sum: &mut Option<u64>, more: Option<Duration>| add(sum, more.map(nanos));
        let Transfer { size, cpu, time, .. } = transfer;
        add(&mut size.file_bytes, self.file_bytes);
        add(&mut size.wire_bytes, Some(wire_bytes));
        add(&mut size.records, self.counts.records);
        add(&mut size.restart_markers, self.counts.markers);
        add(&mut size.crlf_conversions, self.counts.line_ends);
        add_time(&mut cpu.cpu_ns, self.cpu_time);
        add(&mut cpu.syscalls, self.calls);
        add(&mut cpu.voluntary_switches, self.switches.map(|switches| switches.voluntary));
        add(&mut cpu.involuntary_switches, self.switches.map(|switches| switches.involuntary));
        add_time(&mut time.data_tls_ns, self.tls_time);
        add_time(&mut time.file_read_ns, self.read_time);
        add_time(&mut time.file_write_ns, self.write_time);
        add_time(&mut time.disk_wait_ns, self.commit_time);
        add_time(&mut time.network_wait_ns, self.network_wait);
        add_time(&mut time.conversion_ns, self.conversion_time);
        add_time(&mut time.crypto_ns, self.crypto_time);
        let moving = self.first_byte_at.zip(self.ended_at).filter(|_| !self.is_single_call);
        let moving = moving.map(|(first, last)| last.saturating_duration_since(first));
        add_time(&mut time.transfer_ns, moving);
        if let Some(tcp) = &self.tcp {
            let streams = transfer.tcp.streams.unwrap_or(0) + 1;
            transfer.tcp = Tcp { streams: Some(streams), ..tcp.clone() };
            transfer.own_stack = self.own_stack.clone();
        }
        if let Some(tls) = self.tls {
            tls.note(&mut transfer.identity);
        }
        if let Some((local, remote)) = self.addresses {
            transfer.identity.data_local = Some(local);
            transfer.identity.data_remote = Some(remote);
        }
    }
}

/// Adds `time` to `sum`.
pub(crate) fn add_time(sum: &mut Option<Duration>, time: Duration) {
    *sum = Some(sum.unwrap_or_default() + time);
}

/// Returns the nanoseconds from `from` to `to`, if both times are known.
#[must_use]
pub fn nanos_between(from: Option<Instant>, to: Option<Instant>) -> Option<u64> {
    Some(nanos(to?.saturating_duration_since(from?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::Identifier;

    fn stats() -> DataStats {
        let first_byte_at = Instant::now();
        DataStats {
            first_byte_at: Some(first_byte_at),
            ended_at: Some(first_byte_at + Duration::from_millis(3)),
            cpu_time: Some(Duration::from_millis(2)),
            calls: Some(4),
            tcp: Some(Tcp::default()),
            ..DataStats::default()
        }
    }

    #[test]
    fn the_values_of_several_data_connections_are_summed() {
        let mut transfer = Transfer::new(Identifier(1));
        DataStats { file_bytes: Some(10), ..stats() }.note(&mut transfer, 11);
        DataStats { file_bytes: Some(20), ..stats() }.note(&mut transfer, 22);
        assert_eq!((transfer.size.file_bytes, transfer.size.wire_bytes), (Some(30), Some(33)));
        assert_eq!((transfer.cpu.cpu_ns, transfer.cpu.syscalls), (Some(4_000_000), Some(8)));
        assert_eq!((transfer.time.transfer_ns, transfer.tcp.streams), (Some(6_000_000), Some(2)));
        // Values that no connection has measured stay unknown.
        assert_eq!((transfer.time.network_wait_ns, transfer.cpu.voluntary_switches), (None, None));
    }

    #[test]
    fn a_transfer_by_one_system_call_has_no_duration() {
        let mut transfer = Transfer::new(Identifier(1));
        DataStats { is_single_call: true, ..stats() }.note(&mut transfer, 11);
        assert_eq!((transfer.time.transfer_ns, transfer.size.file_bytes), (None, None));
    }
}
