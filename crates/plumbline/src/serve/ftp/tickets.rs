//! The tickets of TLS on a data connection that a file comes in by: they wait for the file's end.
//!
//! A server of TLS 1.3 sends its tickets when the handshake is over (RFC 8446 §4.6.1). Many who
//! send a file write all of it behind their handshake, read nothing and close. If the tickets come
//! then, or lie unread, the sender's kernel resets the connection and throws away what it has not
//! sent: the file is cut off. Behind the sender's own end they harm nobody, and who waits for our
//! end still gets them.
//!
//! What is held back is known by its records. A flight of the handshake begins with a record that
//! is no application data by its outer type. In TLS 1.3 what follows the client's last flight is
//! application data by that type: the tickets. In TLS 1.2 a server that only receives never sends
//! such a record.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The outer type of what is encrypted in TLS 1.3 (RFC 8446 §5.1).
const APPLICATION_DATA: u8 = 23;
/// Tickets are a few hundred bytes; more than this is not held back.
const HELD_MAX_BYTES: usize = 8 * 1024;

/// A stream below TLS that holds tickets back until [`Self::release`].
#[derive(Debug)]
pub(super) struct LateTickets<S> {
    stream: S,
    holds: bool,
    /// The far side has answered what was written last.
    is_answered: bool,
    held: Vec<u8>,
}

impl<S> LateTickets<S> {
    /// Holds them back on `stream` if it `holds` any.
    pub(super) fn new(stream: S, holds: bool) -> Self {
        Self { stream, holds, is_answered: false, held: Vec::new() }
    }

    /// Lets what is held go out with what is written or flushed next.
    pub(super) fn release(&mut self) {
        self.holds = false;
    }

    /// Returns the stream.
    pub(super) fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncWrite + Unpin> LateTickets<S> {
    /// Returns whether what begins with `first` is held back, of `len` bytes.
    fn holds_back(&mut self, first: Option<&u8>, len: usize) -> bool {
        let is_ticket = !self.held.is_empty() || first == Some(&APPLICATION_DATA);
        if !self.holds || !self.is_answered || !is_ticket {
            return false;
        }
        self.holds = self.held.len() + len <= HELD_MAX_BYTES;
        self.holds
    }

    fn poll_release(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.holds && !self.held.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.held))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LateTickets<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = room.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, room))?;
        self.is_answered |= room.filled().len() > before;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LateTickets<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.holds_back(data.first(), data.len()) {
            self.held.extend_from_slice(data);
            return Poll::Ready(Ok(data.len()));
        }
        ready!(self.poll_release(context))?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, data))?;
        self.is_answered = false;
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = parts.iter().map(|part| part.len()).sum();
        if self.holds_back(parts.iter().find_map(|part| part.first()), len) {
            parts.iter().for_each(|part| self.held.extend_from_slice(part));
            return Poll::Ready(Ok(len));
        }
        ready!(self.poll_release(context))?;
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, parts))?;
        self.is_answered = false;
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_release(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_release(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    /// Begins as a server does whose flight was answered.
    async fn answered() -> (LateTickets<DuplexStream>, DuplexStream) {
        let (ours, mut theirs) = duplex(100_000);
        let mut stream = LateTickets::new(ours, true);
        theirs.write_all(b"hello").await.unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        // The hello is no application data by its type; what is behind it in the flight is.
        stream.write_all(&[22, 1]).await.unwrap();
        stream.write_all(&[APPLICATION_DATA, 2]).await.unwrap();
        theirs.write_all(b"finished").await.unwrap();
        stream.read_exact(&mut [0; 8]).await.unwrap();
        let mut flight = [0; 4];
        theirs.read_exact(&mut flight).await.unwrap();
        assert_eq!(flight, [22, 1, APPLICATION_DATA, 2]);
        (stream, theirs)
    }

    async fn rest(mut theirs: DuplexStream) -> Vec<u8> {
        let mut rest = Vec::new();
        theirs.read_to_end(&mut rest).await.unwrap();
        rest
    }

    #[tokio::test]
    async fn tickets_go_out_in_front_of_what_is_written_after_the_release() {
        let (mut stream, theirs) = answered().await;
        stream.write_all(&[APPLICATION_DATA, 3]).await.unwrap();
        stream.write_all(&[APPLICATION_DATA, 4]).await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(stream.held.len(), 4);
        stream.release();
        stream.write_all(&[21, 5]).await.unwrap();
        drop(stream);
        assert_eq!(rest(theirs).await, [APPLICATION_DATA, 3, APPLICATION_DATA, 4, 21, 5]);
    }

    #[tokio::test]
    async fn tickets_that_nobody_releases_never_go_out() {
        let (mut stream, theirs) = answered().await;
        stream.write_all(&[APPLICATION_DATA, 3]).await.unwrap();
        drop(stream);
        assert!(rest(theirs).await.is_empty());
    }

    #[tokio::test]
    async fn the_last_flight_of_an_older_handshake_is_not_held() {
        let (mut stream, theirs) = answered().await;
        stream.write_all(&[22, 3]).await.unwrap();
        drop(stream);
        assert_eq!(rest(theirs).await, [22, 3]);
    }

    #[tokio::test]
    async fn what_is_too_much_to_be_held_goes_out_in_its_order() {
        let (mut stream, theirs) = answered().await;
        let record = vec![APPLICATION_DATA; 5000];
        stream.write_all(&record).await.unwrap();
        stream.write_all(&record).await.unwrap();
        drop(stream);
        assert_eq!(rest(theirs).await, vec![APPLICATION_DATA; 10_000]);
    }
}
