//! TLS of a stream of files, in either role: records in, records out (RFC 8446 §5).
//!
//! The library keeps no buffers here. What comes is read in large pieces and deciphered out of them,
//! a record at a time; what goes is enciphered into one buffer. So the bytes of a file are copied
//! once, and not three times.
//!
//! ```text
//! wire ──► room, filled ──► turn ──► each(data)
//! data ──► turn(Saying) ──► output, sent ──► wire
//! ```
//!
//! No I/O is done here: whoever has the connection asks for [`RecordLayer::turn`] until that needs
//! input, sends the output when it is time for it, and reads into [`RecordLayer::room`]. What the
//! wire ends with is for it to judge too: only [`Turn::Ended`] is an end that the far side has said.

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

/// The longest record, with its head (RFC 5246 §6.2.3).
const RECORD_MAX_BYTES: usize = 5 + (1 << 14) + 2048;
/// What is kept of the wire as soon as much comes at a time: some records, and little enough for a
/// cache.
const INCOMING_MAX_BYTES: usize = 128 * 1024;
/// What an error may have to say to the far side, in turns of the library.
const ALERT_TURNS: usize = 4;

/// One end of TLS.
pub(crate) struct RecordLayer {
    role: Role,
    /// What has come and is not deciphered lies from `begin` to `end`.
    incoming: Vec<u8>,
    begin: usize,
    end: usize,
    /// What is to go lies from the start to `outgoing_len`; so much of it is gone.
    outgoing: Vec<u8>,
    outgoing_len: usize,
    sent_len: usize,
    /// Whether the far side has said that nothing follows.
    has_ended: bool,
    stopwatch: Stopwatch,
}

/// Adds up what the library takes, by the counter that costs least to read.
#[derive(Clone, Copy, Debug)]
struct Stopwatch {
    read: fn() -> u64,
    /// When it was made, by the clock and by the counter, out of which a tick's length follows.
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

/// What is to be said, as soon as it can be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Saying<'a> {
    Nothing,
    Data(&'a [u8]),
    End,
}

/// What a turn of the library has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is more to do at once.
    Again,
    /// More has to come first, and what is to go may be what it waits for.
    NeedsInput,
    /// What was to be said is in the output; what comes next has to come first.
    Open,
    /// The far side has ended.
    Ended,
}

impl fmt::Debug for RecordLayer {
    /// Keys and data are nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordLayer").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl RecordLayer {
    /// Begins as a client of the server `name`.
    ///
    /// # Errors
    ///
    /// If the configuration is good for no handshake.
    pub(crate) fn client(
        configuration: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let connection = UnbufferedClientConnection::new(configuration, name);
        Ok(Self::new(Role::Client(connection.map_err(io::Error::other)?)))
    }

    /// Begins as a server.
    ///
    /// # Errors
    ///
    /// If the configuration is good for no handshake.
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

    /// Returns how long the library has worked, without what took the data.
    pub(crate) fn spent(&self) -> Duration {
        self.stopwatch.spent()
    }

    /// Returns what both ends have agreed, as far as they have.
    pub(crate) fn agreed(&self) -> &CommonState {
        match &self.role {
            Role::Client(connection) => connection,
            Role::Server(connection) => connection,
        }
    }

    /// Returns whether the handshake is not over.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.agreed().is_handshaking()
    }

    /// Returns whether the far side has said that nothing follows.
    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns room for what is read of the wire: of `at_most` bytes, or for what a record lacks.
    /// There is none if what came is no record.
    pub(crate) fn room(&mut self, at_most: usize) -> &mut [u8] {
        // What is left is a part of a record, or of a message of the handshake in several.
        self.incoming.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if self.end == self.incoming.len() {
            self.grow();
        }
        let room = self.incoming.get_mut(self.end..).unwrap_or_default();
        let len = room.len().min(at_most.max(RECORD_MAX_BYTES));
        room.get_mut(..len).unwrap_or_default()
    }

    /// Takes the first `count` bytes of the [`Self::room`] as what has come.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end = self.incoming.len().min(self.end + count);
        if self.end == self.incoming.len() {
            // More was there than had room.
            self.grow();
        }
    }

    fn grow(&mut self) {
        if self.incoming.len() < INCOMING_MAX_BYTES {
            self.incoming.resize(INCOMING_MAX_BYTES, 0);
        }
    }

    /// Returns what is to go on the wire.
    pub(crate) fn output(&self) -> &[u8] {
        self.outgoing.get(self.sent_len..self.outgoing_len).unwrap_or_default()
    }

    /// Takes the first `count` bytes of the [`Self::output`] as gone.
    pub(crate) fn sent(&mut self, count: usize) {
        self.sent_len += count;
        if self.sent_len >= self.outgoing_len {
            (self.sent_len, self.outgoing_len) = (0, 0);
        }
    }

    /// Lets the library do one thing with what has come: data goes to `each`, and what is to be
    /// said into the output once it can be, which is [`Turn::Open`].
    ///
    /// # Errors
    ///
    /// What the library says; then the output has what the far side is told of it. What cannot be
    /// said any more is [`ErrorKind::NotConnected`].
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

    /// Puts into the output what the far side is told of an error.
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

/// Does what a state asks for, and returns how much of what came is done with.
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
            // It is in the output, in its order, and that is all which the library has to know.
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
        // Early data, which nobody is offered.
        Ok(_) => Err(ErrorKind::Unsupported.into()),
        Err(error) => Err(io::Error::other(error)),
    };
    (discard, turn)
}

/// Has `put` put something behind what is in `outgoing`, with as much room as it says it needs.
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
#[path = "record_layer_tests.rs"]
mod tests;
