//! Observations of the thread or task that moves the bytes of a data connection.

use crate::ftp_data::{BlockingSocket, Canceller};
use crate::recorder::{DataTls, TICK, of_kernel, of_settled, of_userspace};
use os::context_switches::ContextSwitches;
use protocols::ftp::data::Counts;
use records::transfer::{OwnStack, Tcp};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Observations of the thread that moves the data.
#[derive(Clone, Debug, Default)]
pub(crate) struct FtpTransferStats {
    pub(crate) tls: Option<DataTls>,
    pub(crate) tls_time: Option<Duration>,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) ended: Option<Instant>,
    pub(crate) cpu: Duration,
    /// Context switches of the thread, if the thread did nothing else during the transfer.
    pub(crate) switches: Option<ContextSwitches>,
    /// Run-queue wait of the thread.
    pub(crate) run_queue_wait: Option<Duration>,
    /// Number of system calls that moved bytes, if all such calls were counted.
    pub(crate) calls: Option<u64>,
    pub(crate) counts: Counts,
    /// Time spent in reads of the local file; `None` if not timed, like the times below.
    pub(crate) reading: Option<Duration>,
    /// Time spent in writes to the local file.
    pub(crate) writing: Option<Duration>,
    /// Time spent waiting for the network.
    pub(crate) waiting: Option<Duration>,
    /// Time spent on the conversion of the data.
    pub(crate) converting: Option<Duration>,
    /// Time spent in the TLS library.
    pub(crate) crypto: Option<Duration>,
    /// Whether the transfer is an upload.
    pub(crate) is_sending: bool,
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    pub(super) tcp: Tcp,
    pub(super) own: OwnStack,
}

impl FtpTransferStats {
    /// Reads the TCP state and the addresses of the connection at its end.
    pub(crate) fn read_state(&mut self, connection: &BlockingSocket) {
        match connection {
            BlockingSocket::Kernel(stream) => {
                self.read_kernel_state(stream);
                self.set_addresses(stream.local_addr().ok().zip(stream.peer_addr().ok()));
            }
            BlockingSocket::Userspace { stream, .. } => {
                if let Ok(status) = stream.status() {
                    (self.tcp, self.own) = of_userspace(&status);
                    self.addresses = Some((status.local, status.remote));
                }
            }
        }
    }

    /// Reads the kernel's TCP state of the connection.
    pub(crate) fn read_kernel_state(&mut self, stream: &impl AsFd) {
        self.tcp = of_kernel(stream);
    }

    /// Counts a system call that moves bytes.
    pub(crate) fn count_call(&mut self) {
        self.calls = Some(self.calls.unwrap_or(0) + 1);
    }

    /// Stores the local and the remote address of the connection.
    pub(crate) fn set_addresses(&mut self, addresses: Option<(SocketAddr, SocketAddr)>) {
        self.addresses = addresses;
    }

    /// Reads the TCP state of an upload again after the server's reply, because TCP sends the last
    /// bytes after the write has returned.
    pub(crate) fn update_after_reply(&mut self, connection: &Canceller) {
        let Some(stream) = connection.socket().filter(|_| self.is_sending) else { return };
        let Some((ago, tcp)) = of_settled(&stream) else {
            if self.tcp == Tcp::default() {
                self.read_kernel_state(&stream);
            }
            return;
        };
        self.tcp = tcp;
        let arrived = Instant::now().checked_sub(ago + TICK);
        // The arrival time that TCP reports is rounded to ticks. If both times are within a tick,
        // the more precise time is kept.
        self.ended = if arrived > self.ended { arrived } else { self.ended };
    }
}

/// Adds the time since `from` to `sum`.
pub(super) fn add_since(sum: &mut Option<Duration>, from: Instant) {
    *sum = Some(sum.unwrap_or_default() + from.elapsed());
}
