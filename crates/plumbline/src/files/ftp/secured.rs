//! TLS on a data connection, in the thread that moves the data.
//!
//! What comes is read in large pieces and deciphered out of them, and what goes is enciphered into one
//! buffer: the library keeps none of its own, so the bytes of a file are copied once and not three
//! times.

use super::link::Plain;
use crate::transfers::DataTls;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use tokio_rustls::rustls::client::UnbufferedClientConnection;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use tokio_rustls::rustls::{ClientConfig, Error};

/// What is read of the wire at a time; some records, and little enough for a cache.
const INCOMING_BYTES: usize = 128 * 1024;
/// The least that is asked for: a record.
const RECORD_BYTES: usize = 16 * 1024 + 256;
/// What an error may have to say to the far side, in turns of the library.
const ALERT_TURNS: usize = 4;

/// A data connection in TLS.
pub(super) struct Secured {
    connection: UnbufferedClientConnection,
    stream: Plain,
    /// What has come and is not deciphered lies from `begin` to `end`.
    incoming: Vec<u8>,
    begin: usize,
    end: usize,
    /// What is to go lies from the start to `outgoing_len`.
    outgoing: Vec<u8>,
    outgoing_len: usize,
    /// What came with the handshake.
    early: Vec<u8>,
    /// Whether the far side has said that nothing follows.
    has_ended: bool,
}

impl fmt::Debug for Secured {
    /// Keys and data are nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("stream", &self.stream).finish_non_exhaustive()
    }
}

/// What is to be said, as soon as it can be.
#[derive(Clone, Copy, Debug)]
enum Saying<'a> {
    Nothing,
    Data(&'a [u8]),
    End,
}

/// What a turn of the library has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There is more to do at once.
    Again,
    /// More has to come first.
    NeedsInput,
    /// Data may go, and has gone if it was to; what comes next has to come first.
    Open,
    /// The far side has ended.
    Ended,
}

impl Secured {
    pub(super) fn new(
        configuration: Arc<ClientConfig>,
        name: ServerName<'static>,
        stream: Plain,
    ) -> io::Result<Self> {
        let connection =
            UnbufferedClientConnection::new(configuration, name).map_err(io::Error::other)?;
        Ok(Self {
            connection,
            stream,
            incoming: vec![0; INCOMING_BYTES],
            begin: 0,
            end: 0,
            outgoing: Vec::new(),
            outgoing_len: 0,
            early: Vec::new(),
            has_ended: false,
        })
    }

    /// Does the handshake, and returns what was agreed.
    pub(super) fn begin(&mut self) -> io::Result<DataTls> {
        let mut early = Vec::new();
        while self.connection.is_handshaking() {
            match self.turn(Saying::Nothing, &mut |bytes| early.extend_from_slice(bytes))? {
                Turn::Again => {}
                Turn::NeedsInput | Turn::Open => self.read(RECORD_BYTES)?,
                Turn::Ended => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
        // The end of the handshake may be left to be said.
        while self.turn(Saying::Nothing, &mut |bytes| early.extend_from_slice(bytes))?
            == Turn::Again
        {}
        self.early = early;
        Ok(DataTls::of(&self.connection))
    }

    /// Returns what is below.
    pub(super) const fn plain(&self) -> &Plain {
        &self.stream
    }

    /// Waits for data, gives it to `each` in pieces, and returns how much that was; none at the end.
    /// At most `at_most` bytes are read of the wire for it, or a record.
    ///
    /// # Errors
    ///
    /// What TLS or the connection says; [`ErrorKind::UnexpectedEof`] if it ends without saying so.
    pub(super) fn receive(
        &mut self,
        at_most: usize,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let early = std::mem::take(&mut self.early);
        let mut count = early.len();
        if count > 0 {
            each(&early);
        }
        while !self.has_ended {
            let turn = self.turn(Saying::Nothing, &mut |bytes| {
                count += bytes.len();
                each(bytes);
            })?;
            match turn {
                Turn::Again => {}
                Turn::NeedsInput | Turn::Open if count == 0 => self.read(at_most)?,
                Turn::NeedsInput | Turn::Open | Turn::Ended => break,
            }
        }
        Ok(count)
    }

    /// Sends all of `bytes`.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.say(Saying::Data(bytes))
    }

    /// Says that nothing follows.
    pub(super) fn send_end(&mut self) -> io::Result<()> {
        self.say(Saying::End)
    }

    /// Closes our side of what is below.
    pub(super) fn shut_down(&mut self) -> io::Result<()> {
        self.stream.shut_down()
    }

    fn say(&mut self, saying: Saying<'_>) -> io::Result<()> {
        loop {
            match self.turn(saying, &mut |_| {})? {
                Turn::Open => return Ok(()),
                // The far side may have ended, and still hears.
                Turn::Again | Turn::Ended => {}
                Turn::NeedsInput => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }

    /// Lets the library do one thing with what has come.
    fn turn(&mut self, saying: Saying<'_>, each: &mut dyn FnMut(&[u8])) -> io::Result<Turn> {
        let Self { connection, stream, incoming, outgoing, outgoing_len, .. } = self;
        let come = incoming.get_mut(self.begin..self.end).unwrap_or_default();
        let UnbufferedStatus { mut discard, state, .. } = connection.process_tls_records(come);
        let turn = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(io::Error::other)?;
                    discard += record.discard;
                    each(record.payload);
                }
                Turn::Again
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let put = |room: &mut [u8]| match data.encode(room) {
                    Err(EncodeError::InsufficientSize(needed)) => Err(Some(needed)),
                    encoded => encoded.map_err(|_| None),
                };
                append(outgoing, outgoing_len, put)?;
                Turn::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                stream.write_all(outgoing.get(..*outgoing_len).unwrap_or_default())?;
                *outgoing_len = 0;
                data.done();
                Turn::Again
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
                append(outgoing, outgoing_len, put)?;
                stream.write_all(outgoing.get(..*outgoing_len).unwrap_or_default())?;
                *outgoing_len = 0;
                Turn::Open
            }
            Ok(ConnectionState::BlockedHandshake) => Turn::NeedsInput,
            Ok(ConnectionState::PeerClosed) => Turn::Ended,
            Ok(ConnectionState::Closed) => match saying {
                Saying::Nothing => Turn::Ended,
                Saying::Data(_) | Saying::End => return Err(ErrorKind::NotConnected.into()),
            },
            Ok(_) => return Err(ErrorKind::Unsupported.into()),
            Err(error) => return Err(self.complain(error)),
        };
        self.begin += discard;
        self.has_ended |= turn == Turn::Ended;
        Ok(turn)
    }

    /// Reads more of the wire, at least a byte.
    fn read(&mut self, at_most: usize) -> io::Result<()> {
        // What is left is a part of a record.
        self.incoming.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let at_most = at_most.max(RECORD_BYTES);
        let room = self.incoming.get_mut(self.end..).unwrap_or_default();
        let len = room.len().min(at_most);
        let room = room.get_mut(..len).unwrap_or_default();
        loop {
            match self.stream.read(room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells the far side what is wrong, if it still hears.
    fn complain(&mut self, error: Error) -> io::Error {
        for _ in 0..ALERT_TURNS {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let put = |room: &mut [u8]| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(needed)) => Err(Some(needed)),
                        encoded => encoded.map_err(|_| None),
                    };
                    _ = append(&mut self.outgoing, &mut self.outgoing_len, put);
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    let said = self.outgoing.get(..self.outgoing_len).unwrap_or_default();
                    _ = self.stream.write_all(said);
                    self.outgoing_len = 0;
                    data.done();
                }
                _ => break,
            }
        }
        io::Error::other(error)
    }
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
