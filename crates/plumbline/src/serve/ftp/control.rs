//! The control connection, in clear or in TLS.
//!
//! It keeps no buffer of its own: what comes is read into a room that all sessions share, so that
//! ten thousand who wait cost little.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long the exchange of keys may take.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(15);
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// The most that is read at a time.
const READ_BYTES: usize = 4096;

/// The control connection.
#[derive(Debug)]
pub(super) struct Control {
    way: Way,
    /// Whether TLS may hold something back.
    is_owing: bool,
}

#[derive(Debug)]
enum Way {
    Clear(TcpStream),
    Secured(Box<TlsStream<TcpStream>>),
    /// Between the two.
    Gone,
}

/// What has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) written: usize,
    /// Empty at the end of the stream.
    pub(super) read: Option<Vec<u8>>,
}

impl Control {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { way: Way::Clear(stream), is_owing: false }
    }

    /// Writes of `output` and reads, if that is wanted; returns when anything has moved. Nothing is
    /// lost if it is not waited for to the end.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn turn(
        &mut self,
        output: &[u8],
        wants_input: bool,
        scratch: &RefCell<Vec<u8>>,
    ) -> io::Result<Moved> {
        std::future::poll_fn(|context| {
            let mut moved = Moved::default();
            if !output.is_empty()
                && let Poll::Ready(written) = self.poll_write(context, output)
            {
                moved.written = written?;
                self.is_owing = true;
            }
            if self.is_owing && self.poll_flush(context)?.is_ready() {
                self.is_owing = false;
            }
            if wants_input {
                let mut scratch = scratch.borrow_mut();
                let room = scratch.get_mut(..READ_BYTES).unwrap_or_default();
                let mut room = ReadBuf::new(room);
                if self.poll_read(context, &mut room)?.is_ready() {
                    moved.read = Some(room.filled().to_vec());
                }
            }
            if moved == Moved::default() { Poll::Pending } else { Poll::Ready(Ok(moved)) }
        })
        .await
    }

    /// Begins TLS, whose tickets are to hold `token`.
    ///
    /// # Errors
    ///
    /// If it is not TLS that follows, or it takes too long.
    pub(super) async fn secure(&mut self, acceptor: &TlsAcceptor, token: &[u8]) -> io::Result<()> {
        let Way::Clear(stream) = std::mem::replace(&mut self.way, Way::Gone) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let accepted = acceptor.accept_with(stream, |tls| tls.set_resumption_data(token));
        let stream = tokio::time::timeout(HANDSHAKE, accepted).await??;
        self.way = Way::Secured(Box::new(stream));
        Ok(())
    }

    /// Says a last word, and ends in order.
    pub(super) async fn close(&mut self, word: &[u8]) {
        let mut rest = word;
        let farewell = std::future::poll_fn(|context| {
            while !rest.is_empty() {
                let written = std::task::ready!(self.poll_write(context, rest))?;
                rest = rest.get(written..).unwrap_or_default();
            }
            std::task::ready!(self.poll_flush(context))?;
            match &mut self.way {
                Way::Clear(stream) => Pin::new(stream).poll_shutdown(context),
                Way::Secured(stream) => Pin::new(stream).poll_shutdown(context),
                Way::Gone => Poll::Ready(Ok(())),
            }
        });
        // Who has gone, or does not listen, needs no farewell.
        _ = tokio::time::timeout(FAREWELL, farewell).await;
    }

    fn poll_write(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.way {
            Way::Clear(stream) => Pin::new(stream).poll_write(context, data),
            Way::Secured(stream) => Pin::new(stream).poll_write(context, data),
            Way::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.way {
            Way::Secured(stream) => Pin::new(stream).poll_flush(context),
            Way::Clear(_) | Way::Gone => Poll::Ready(Ok(())),
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.way {
            Way::Clear(stream) => Pin::new(stream).poll_read(context, room),
            Way::Secured(stream) => Pin::new(stream).poll_read(context, room),
            Way::Gone => Poll::Ready(Ok(())),
        }
    }
}
