//! Unbuffered TLS for file streams, in either role: records in, records out (RFC 8446 §5).
//!
//! The TLS library keeps no buffers here. Input is read in large pieces and decrypted in place, one
//! record at a time; output is encrypted into one buffer. The bytes of a file are therefore copied
//! once instead of three times.
//!
//! ```text
//! wire ──► room, filled ──► turn ──► each(data)
//! data ──► turn(Saying) ──► output, sent ──► wire
//! ```
//!
//! This module does no I/O. The owner of the connection calls [`RecordLayer::turn`] until it needs
//! input, sends the output when appropriate, and reads into [`RecordLayer::room`]. It also judges
//! the end of the stream: only [`Turn::Ended`] is an end that the peer has announced
//! (close_notify).

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
/// Maximum number of library turns in which an error may produce an alert for the peer.
const ALERT_TURNS: usize = 4;

/// One end of a TLS connection.
pub(crate) struct RecordLayer {
    role: Role,
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

/// Sums the time spent in the TLS library, by the counter that is cheapest to read.
#[derive(Clone, Copy, Debug)]
struct Stopwatch {
    read: fn() -> u64,
    /// Creation time by the clock and by the counter, from which the length of a tick follows.
    began: (Instant, u64),
    spent_ticks: u64,
}

impl Stopwatch {
    fn new() -> Self {
        let read = os::clock::counter();
        Self { read, began: (Instant::now(), read()), spent_ticks: 0 }
    }

    fn spent(&self) -> Duration {
        let (elapsed, ticks) = (self.began.0.elapsed(), (self.read)().saturating_sub(self.began.1));
        let nanos = elapsed.as_nanos() * u128::from(self.spent_ticks) / u128::from(ticks.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

enum Role {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// Data or alert to encrypt as soon as the connection permits it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Saying<'a> {
    Nothing,
    Data(&'a [u8]),
    End,
}

/// Result of one turn of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// More work is ready; take another turn at once.
    Again,
    /// More input is needed. The peer may be waiting for the pending output first.
    NeedsInput,
    /// The data or alert is in the output; progress now needs further input.
    Open,
    /// The peer has sent close_notify.
    Ended,
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
    pub(crate) fn client(
        configuration: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let connection = UnbufferedClientConnection::new(configuration, name);
        Ok(Self::new(Role::Client(connection.map_err(io::Error::other)?)))
    }

    /// Starts a server connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration permits no handshake.
    pub(crate) fn server(configuration: Arc<ServerConfig>) -> io::Result<Self> {
        let connection = UnbufferedServerConnection::new(configuration);
        Ok(Self::new(Role::Server(connection.map_err(io::Error::other)?)))
    }

    fn new(role: Role) -> Self {
        let (incoming, outgoing) = (vec![0; RECORD_MAX_BYTES], Vec::new());
        let (begin, end, outgoing_len, sent_len) = (0, 0, 0, 0);
        let (has_ended, stopwatch) = (false, Stopwatch::new());
        Self { role, incoming, begin, end, outgoing, outgoing_len, sent_len, has_ended, stopwatch }
    }

    /// Returns the time spent in the library, without the time of the data callback.
    pub(crate) fn spent(&self) -> Duration {
        self.stopwatch.spent()
    }

    /// Returns the negotiated parameters, as far as the handshake has come.
    pub(crate) fn agreed(&self) -> &CommonState {
        match &self.role {
            Role::Client(connection) => connection,
            Role::Server(connection) => connection,
        }
    }

    /// Returns whether the handshake is still in progress.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.agreed().is_handshaking()
    }

    /// Returns whether the peer has sent close_notify.
    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the buffer for further input, limited to `at_most` bytes or the maximum length of a
    /// record, whichever is larger. Empty if the input is not a valid record.
    pub(crate) fn room(&mut self, at_most: usize) -> &mut [u8] {
        // The remainder is a part of a record, or of a handshake message in several records.
        self.incoming.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if self.end == self.incoming.len() {
            self.grow();
        }
        let room = self.incoming.get_mut(self.end..).unwrap_or_default();
        let len = room.len().min(at_most.max(RECORD_MAX_BYTES));
        room.get_mut(..len).unwrap_or_default()
    }

    /// Marks the first `count` bytes of [`Self::room`] as received.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end = self.incoming.len().min(self.end + count);
        if self.end == self.incoming.len() {
            // The read filled the buffer; more may be waiting.
            self.grow();
        }
    }

    fn grow(&mut self) {
        if self.incoming.len() < INCOMING_MAX_BYTES {
            self.incoming.resize(INCOMING_MAX_BYTES, 0);
        }
    }

    /// Returns the ciphertext to send.
    pub(crate) fn output(&self) -> &[u8] {
        self.outgoing.get(self.sent_len..self.outgoing_len).unwrap_or_default()
    }

    /// Marks the first `count` bytes of [`Self::output`] as sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.sent_len += count;
        if self.sent_len >= self.outgoing_len {
            (self.sent_len, self.outgoing_len) = (0, 0);
        }
    }

    /// Runs one step of the library on the received data. Decrypted data goes to `each`. `saying`
    /// is encrypted into the output once possible, which returns [`Turn::Open`].
    ///
    /// # Errors
    ///
    /// Returns the error of the library; the output then contains the alert for the peer. Returns
    /// [`ErrorKind::NotConnected`] for data that can no longer be sent.
    pub(crate) fn turn(
        &mut self,
        saying: Saying<'_>,
        each: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Turn> {
        let come = self.incoming.get_mut(self.begin..self.end).unwrap_or_default();
        let outgoing = (&mut self.outgoing, &mut self.outgoing_len);
        let (read, mut elsewhere) = (self.stopwatch.read, 0);
        let each = &mut |data: &[u8]| {
            let left = read();
            each(data);
            elsewhere += read().saturating_sub(left);
        };
        let began = read();
        let (discard, turn) = match &mut self.role {
            Role::Client(connection) => {
                take(connection.process_tls_records(come), saying, outgoing, each)
            }
            Role::Server(connection) => {
                take(connection.process_tls_records(come), saying, outgoing, each)
            }
        };
        let passed = read().saturating_sub(began);
        self.stopwatch.spent_ticks += passed.saturating_sub(elsewhere);
        self.begin = self.end.min(self.begin + discard);
        if turn.is_err() {
            self.complain();
        }
        let turn = turn?;
        self.has_ended |= turn == Turn::Ended;
        Ok(turn)
    }

    /// Puts the alert for an error into the output.
    fn complain(&mut self) {
        for _ in 0..ALERT_TURNS {
            let outgoing = (&mut self.outgoing, &mut self.outgoing_len);
            let (saying, nobody) = (Saying::Nothing, &mut |_: &[u8]| {});
            let (_, turn) = match &mut self.role {
                Role::Client(connection) => {
                    take(connection.process_tls_records(&mut []), saying, outgoing, nobody)
                }
                Role::Server(connection) => {
                    take(connection.process_tls_records(&mut []), saying, outgoing, nobody)
                }
            };
            if !matches!(turn, Ok(Turn::Again)) {
                break;
            }
        }
    }
}

/// Performs the action that a connection state requires and returns the number of consumed input
/// bytes.
fn take<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    saying: Saying<'_>,
    (outgoing, len): (&mut Vec<u8>, &mut usize),
    each: &mut dyn FnMut(&[u8]),
) -> (usize, io::Result<Turn>) {
    let UnbufferedStatus { mut discard, state, .. } = status;
    let turn = match state {
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
            Ok(Turn::Again)
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let put = |room: &mut [u8]| match data.encode(room) {
                Err(EncodeError::InsufficientSize(needed)) => Err(Some(needed)),
                encoded => encoded.map_err(|_| None),
            };
            append(outgoing, len, put).map(|()| Turn::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            // The data is in the output in its order; the library needs no other confirmation.
            data.done();
            Ok(Turn::Again)
        }
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            let put = |room: &mut [u8]| {
                let put = match saying {
                    Saying::Nothing => Ok(0),
                    Saying::Data(bytes) => traffic.encrypt(bytes, room),
                    Saying::End => traffic.queue_close_notify(room),
                };
                put.map_err(|error| match error {
                    EncryptError::InsufficientSize(needed) => Some(needed),
                    EncryptError::EncryptExhausted => None,
                })
            };
            append(outgoing, len, put).map(|()| Turn::Open)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Turn::NeedsInput),
        Ok(ConnectionState::PeerClosed) => Ok(Turn::Ended),
        Ok(ConnectionState::Closed) => match saying {
            Saying::Nothing => Ok(Turn::Ended),
            Saying::Data(_) | Saying::End => Err(ErrorKind::NotConnected.into()),
        },
        // Early data, which is never offered.
        Ok(_) => Err(ErrorKind::Unsupported.into()),
        Err(error) => Err(io::Error::other(error)),
    };
    (discard, turn)
}

/// Lets `put` append to `outgoing`, with as much room as it reports to need.
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
