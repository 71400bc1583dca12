//! Unbuffered TLS for file streams, in either role: records in, records out (RFC 8446 §5).
//!
//! The unbuffered interface of the TLS library keeps no buffers. Input is read in large pieces, and
//! each record is decrypted in place; output is encrypted into one buffer. The bytes of a file are
//! therefore copied once instead of three times.
//!
//! ```text
//! wire ──► room, filled ──► process ──► each(data)
//! data ──► process(TlsWrite) ──► output, sent ──► wire
//! ```
//!
//! This module does no I/O. The owner of the connection calls [`RecordLayer::process`] until that
//! needs input, sends the output when appropriate, and reads into [`RecordLayer::room`]. The owner
//! also interprets the end of the stream: only [`Progress::PeerClosed`] is an end that the peer has
//! announced (close_notify).

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::client::UnbufferedClientConnection;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::UnbufferedServerConnection;
use tokio_rustls::rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use tokio_rustls::rustls::{ClientConfig, CommonState, ServerConfig};

/// Maximum length of a record with its header (RFC 5246 §6.2.3).
const RECORD_MAX_BYTES: usize = 5 + (1 << 14) + 2048;
/// Size in bytes of the input buffer after a read has filled it: several records, yet small enough
/// for a cache.
const INCOMING_MAX_BYTES: usize = 128 * 1024;
/// Maximum number of calls of the TLS library to obtain the alert for an error.
const ALERT_STEPS_MAX: usize = 4;

/// One end of a TLS connection.
pub struct RecordLayer {
    role: TlsRole,
    /// Received ciphertext that is not decrypted yet lies from `begin` to `end`.
    incoming: Vec<u8>,
    begin: usize,
    end: usize,
    /// Ciphertext to send, from the start to `outgoing_len`; the first `sent_len` bytes are sent.
    outgoing: Vec<u8>,
    outgoing_len: usize,
    sent_len: usize,
    /// Whether the peer has sent close_notify.
    has_ended: bool,
    stopwatch: Stopwatch,
}

/// Sums the time spent in the TLS library, measured by the processor's cheapest time counter.
#[derive(Clone, Copy, Debug)]
struct Stopwatch {
    read: fn() -> u64,
    /// Creation time, by the clock and by the counter. The duration of a counter tick is computed
    /// from both times.
    began: (Instant, u64),
    spent_ticks: u64,
}

impl Stopwatch {
    fn new() -> Self {
        let read_counter = os::clock::counter();
        Self { read: read_counter, began: (Instant::now(), read_counter()), spent_ticks: 0 }
    }

    fn spent(&self) -> Duration {
        let elapsed = self.began.0.elapsed();
        let ticks = (self.read)().saturating_sub(self.began.1);
        let nanos = elapsed.as_nanos() * u128::from(self.spent_ticks) / u128::from(ticks.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

enum TlsRole {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// Data or alert to encrypt as soon as the state of the connection permits.
#[derive(Clone, Copy, Debug)]
pub enum TlsWrite<'a> {
    /// Nothing to encrypt.
    Nothing,
    /// Data.
    Data(&'a [u8]),
    /// The alert that ends the sending direction.
    CloseNotify,
}

/// Result of one call to the TLS library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More work is ready; call [`RecordLayer::process`] again at once.
    Again,
    /// More input is needed. The peer may be waiting for the pending output first.
    NeedsInput,
    /// The data or alert is encrypted in the output. Further progress requires more input.
    Done,
    /// The peer has sent close_notify.
    PeerClosed,
}

impl fmt::Debug for RecordLayer {
    /// Omits keys and data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordLayer").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl RecordLayer {
    /// Starts a client connection to the server `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration permits no handshake.
    pub fn client(configuration: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        let connection = UnbufferedClientConnection::new(configuration, name);
        Ok(Self::new(TlsRole::Client(connection.map_err(io::Error::other)?)))
    }

    /// Starts a server connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration permits no handshake.
    pub fn server(configuration: Arc<ServerConfig>) -> io::Result<Self> {
        let connection = UnbufferedServerConnection::new(configuration);
        Ok(Self::new(TlsRole::Server(connection.map_err(io::Error::other)?)))
    }

    fn new(role: TlsRole) -> Self {
        let incoming = vec![0; RECORD_MAX_BYTES];
        let outgoing = Vec::new();
        let begin = 0;
        let end = 0;
        let outgoing_len = 0;
        let sent_len = 0;
        let has_ended = false;
        let stopwatch = Stopwatch::new();
        Self { role, incoming, begin, end, outgoing, outgoing_len, sent_len, has_ended, stopwatch }
    }

    /// Returns the time spent in the TLS library, without the time of the data callback.
    pub fn library_time(&self) -> Duration {
        self.stopwatch.spent()
    }

    /// Returns the parameters negotiated so far.
    pub fn negotiated_state(&self) -> &CommonState {
        match &self.role {
            TlsRole::Client(connection) => connection,
            TlsRole::Server(connection) => connection,
        }
    }

    /// Returns whether the handshake is still in progress.
    pub fn is_handshaking(&self) -> bool {
        self.negotiated_state().is_handshaking()
    }

    /// Returns whether the peer has sent close_notify.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the free part of the input buffer, limited to `at_most` bytes or the maximum length
    /// of a record, whichever is larger. The slice is empty if the input is not a valid record.
    pub fn room(&mut self, at_most: usize) -> &mut [u8] {
        // The remaining input is a part of a record, or of a handshake message in several records.
        self.incoming.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        if self.end == self.incoming.len() {
            self.grow();
        }
        let room = self.incoming.get_mut(self.end..).unwrap_or_default();
        let len = room.len().min(at_most.max(RECORD_MAX_BYTES));
        room.get_mut(..len).unwrap_or_default()
    }

    /// Marks the first `count` bytes of [`Self::room`] as received.
    pub fn mark_received(&mut self, count: usize) {
        self.end = self.incoming.len().min(self.end + count);
        if self.end == self.incoming.len() {
            // The read filled the buffer; more input may be waiting.
            self.grow();
        }
    }

    fn grow(&mut self) {
        if self.incoming.len() < INCOMING_MAX_BYTES {
            self.incoming.resize(INCOMING_MAX_BYTES, 0);
        }
    }

    /// Returns the ciphertext to send.
    pub fn output(&self) -> &[u8] {
        self.outgoing.get(self.sent_len..self.outgoing_len).unwrap_or_default()
    }

    /// Marks the first `count` bytes of [`Self::output`] as sent.
    pub fn mark_sent(&mut self, count: usize) {
        self.sent_len += count;
        if self.sent_len >= self.outgoing_len {
            self.sent_len = 0;
            self.outgoing_len = 0;
        }
    }

    /// Calls the TLS library once for the received data. Passes decrypted data to `each`. Returns
    /// [`Progress::Done`] when `write` has been encrypted into the output.
    ///
    /// # Errors
    ///
    /// Returns the error of the TLS library; the output then contains the alert for the peer.
    /// Returns [`ErrorKind::NotConnected`] for data that can no longer be sent.
    pub fn process(
        &mut self,
        write: TlsWrite<'_>,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Progress> {
        let received = self.incoming.get_mut(self.begin..self.end).unwrap_or_default();
        let outgoing = (&mut self.outgoing, &mut self.outgoing_len);
        let read = self.stopwatch.read;
        let mut callback_ticks = 0;
        let each = &mut |data: &[u8]| {
            let returned_at = read();
            each(data);
            callback_ticks += read().saturating_sub(returned_at);
        };
        let began = read();
        let (discard, result) = match &mut self.role {
            TlsRole::Client(connection) => {
                advance(connection.process_tls_records(received), write, outgoing, each)
            }
            TlsRole::Server(connection) => {
                advance(connection.process_tls_records(received), write, outgoing, each)
            }
        };
        let elapsed_ticks = read().saturating_sub(began);
        self.stopwatch.spent_ticks += elapsed_ticks.saturating_sub(callback_ticks);
        self.begin = self.end.min(self.begin + discard);
        if result.is_err() {
            self.queue_alert();
        }
        let progress = result?;
        self.has_ended |= progress == Progress::PeerClosed;
        Ok(progress)
    }

    /// Appends the alert for an error to the output.
    fn queue_alert(&mut self) {
        for _ in 0..ALERT_STEPS_MAX {
            let outgoing = (&mut self.outgoing, &mut self.outgoing_len);
            let write = TlsWrite::Nothing;
            let ignore = &mut |_: &[u8]| {};
            let (_, result) = match &mut self.role {
                TlsRole::Client(connection) => {
                    advance(connection.process_tls_records(&mut []), write, outgoing, ignore)
                }
                TlsRole::Server(connection) => {
                    advance(connection.process_tls_records(&mut []), write, outgoing, ignore)
                }
            };
            if !matches!(result, Ok(Progress::Again)) {
                break;
            }
        }
    }
}

/// Performs the action that a connection state requires and returns the number of consumed input
/// bytes.
fn advance<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    write: TlsWrite<'_>,
    (outgoing, len): (&mut Vec<u8>, &mut usize),
    each: &mut dyn FnMut(&[u8]),
) -> (usize, io::Result<Progress>) {
    let UnbufferedStatus { mut discard, state, .. } = status;
    let result = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        each(record.payload);
                    }
                    Err(error) => return (discard, Err(io::Error::other(error))),
                }
            }
            Ok(Progress::Again)
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let put = |room: &mut [u8]| match data.encode(room) {
                Err(EncodeError::InsufficientSize(needed)) => Err(Some(needed)),
                encoded => encoded.map_err(|_| None),
            };
            append(outgoing, len, put).map(|()| Progress::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // The output keeps the order of the data, so the data counts as transmitted.
            data.done();
            Ok(Progress::Again)
        }
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            let put = |room: &mut [u8]| {
                let put = match write {
                    TlsWrite::Nothing => Ok(0),
                    TlsWrite::Data(bytes) => traffic.encrypt(bytes, room),
                    TlsWrite::CloseNotify => traffic.queue_close_notify(room),
                };
                put.map_err(|error| match error {
                    EncryptError::InsufficientSize(needed) => Some(needed),
                    EncryptError::EncryptExhausted => None,
                })
            };
            append(outgoing, len, put).map(|()| Progress::Done)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Progress::NeedsInput),
        Ok(ConnectionState::PeerClosed) => Ok(Progress::PeerClosed),
        Ok(ConnectionState::Closed) => match write {
            TlsWrite::Nothing => Ok(Progress::PeerClosed),
            TlsWrite::Data(_) | TlsWrite::CloseNotify => Err(ErrorKind::NotConnected.into()),
        },
        // Remaining state: early data, which is never offered.
        Ok(_) => Err(ErrorKind::Unsupported.into()),
        Err(error) => Err(io::Error::other(error)),
    };
    (discard, result)
}

/// Lets `put` append to `outgoing`. Enlarges the buffer by the size that `put` requires.
fn append(
    outgoing: &mut Vec<u8>,
    len: &mut usize,
    mut put: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> io::Result<()> {
    loop {
        match put(outgoing.get_mut(*len..).unwrap_or_default()) {
            Ok(count) => {
                *len += count;
                return Ok(());
            }
            Err(Some(InsufficientSizeError { required_size })) => {
                outgoing.resize(*len + required_size, 0);
            }
            Err(None) => return Err(ErrorKind::NotConnected.into()),
        }
    }
}

#[cfg(test)]
#[path = "unbuffered_tls_tests.rs"]
mod tests;
