//! Settings of the relay, the kernels, the interposer and the servers for a run.

use super::impairment::{Medium, Settings};
use super::second::Conditions;

/// Delays that the interposer in front of a server adds, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delays {
    /// Delay before anything is forwarded.
    pub(super) greeting_ms: u64,
    /// FTP: delay of the reply 230.
    pub(super) login_ms: u64,
    /// FTP: delay of the reply to EPSV or PASV.
    pub(super) command_ms: u64,
    /// FTP: delay of the first byte of data.
    pub(super) first_byte_ms: u64,
    /// FTP: delay of the final reply of a transfer.
    pub(super) last_reply_ms: u64,
    /// FTP: delay before each block of 16 KiB that is read from the disk and sent.
    pub(super) read_block_ms: u64,
    /// FTP: delay after each block of 16 KiB that is received and written to the disk.
    pub(super) write_block_ms: u64,
    /// Login: delay of all server output after the first key.
    pub(super) reply_ms: u64,
    /// Login: `(n, ms)`: one reply in `n` is delayed by `ms`.
    pub(super) stall: Option<(u64, u64)>,
    /// Login: `(bytes, ms)`: the output is sent `bytes` bytes at a time, with a pause of `ms` after
    /// each write.
    pub(super) pieces: Option<(u64, u64)>,
    /// FTP: delay of every reply.
    pub(super) each_reply_ms: u64,
    /// FTP: `(bytes, ms)`: a pause of `ms` after every `bytes` bytes that are read from the disk.
    /// `write_pause` applies to bytes that are written.
    pub(super) read_pause: Option<(u64, u64)>,
    pub(super) write_pause: Option<(u64, u64)>,
}

/// Duty cycle of a program that keeps a processor busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy {
    pub(super) busy_ms: u64,
    pub(super) idle_ms: u64,
}

/// All settings of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) to_client: Settings,
    pub(super) to_server: Settings,
    pub(super) medium: Option<Medium>,
    /// Receive and send buffers of the kernels, bytes.
    pub(super) client_receive: Option<u64>,
    pub(super) server_receive: Option<u64>,
    pub(super) server_send: Option<u64>,
    /// MTU of the server's route to the client.
    pub(super) server_mtu: Option<u64>,
    pub(super) control: &'static str,
    pub(super) resolver_ms: u64,
    pub(super) delays: Delays,
    /// Whether the Telnet server's sockets keep Nagle's algorithm enabled.
    pub(super) has_nagle: bool,
    /// Delays of the login program before its prompt, and after the password.
    pub(super) prompt_ms: u64,
    pub(super) password_ms: u64,
    pub(super) client_busy: Option<Busy>,
    pub(super) server_busy: Option<Busy>,
    /// Rate limit towards the client, bytes per second.
    pub(super) bytes_per_second: Option<u64>,
    /// Settings that only cases of the second case generator (`super::second`) use.
    pub(super) second: Conditions,
}

impl Setup {
    /// Returns whether an interposer is needed in front of the server.
    pub(super) fn needs_interposer(&self) -> bool {
        self.delays != Delays::default()
    }
}
