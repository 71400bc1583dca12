//! Byte stream over the user-space TCP, with urgent data: a Synch of the client is reported before
//! the data ahead of it is read, and the server's own Synch sets the urgent pointer (RFC 854).

use super::client_stream::{ClientStream, Read, Ready};
use super::send_queue::SendQueue;
use os::host::Stream;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of bytes queued for the connection.
const OUTGOING_LEN: usize = 16 * 1024;

/// Connection of the user-space TCP.
#[derive(Debug)]
pub(super) struct UserspaceTcp {
    stream: Stream,
    outgoing: Vec<u8>,
    /// Number of urgent bytes at the start of `outgoing`.
    urgent_len: usize,
    /// Whether the session has been notified that urgent data is ahead.
    is_urgent_reported: bool,
}

impl UserspaceTcp {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, outgoing: Vec::new(), urgent_len: 0, is_urgent_reported: false }
    }

    /// Returns the underlying stream. `outgoing` must be empty.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Writes queued data until the connection accepts no more.
    fn poll_outgoing(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            let write_result =
                match self.outgoing.get(..self.urgent_len).filter(|urgent| !urgent.is_empty()) {
                    Some(urgent) => self.stream.poll_write_urgent(context, urgent),
                    None => Pin::new(&mut self.stream).poll_write(context, &self.outgoing),
                };
            let written_bytes = match write_result {
                Poll::Ready(written) => written?,
                Poll::Pending => return Poll::Pending,
            };
            self.outgoing.drain(..written_bytes);
            self.urgent_len = self.urgent_len.saturating_sub(written_bytes);
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for data, the end of the stream, or urgent data. Urgent data is reported only once.
    fn poll_incoming(&mut self, context: &Context<'_>) -> Poll<io::Result<Ready>> {
        match self.stream.poll_readable(context, self.is_urgent_reported) {
            Poll::Ready(readable) => readable?,
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(Ok(Ready { can_read: true, ..self.take_urgent() }))
    }

    /// Waits for urgent data or the loss of the connection.
    fn poll_urgent(&mut self, context: &Context<'_>) -> Poll<io::Result<Ready>> {
        match self.stream.poll_urgent(context, self.is_urgent_reported) {
            Poll::Ready(urgent) => urgent?,
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(Ok(self.take_urgent()))
    }

    /// Returns the notice of urgent data, if it has not been reported.
    fn take_urgent(&mut self) -> Ready {
        // A closed connection has no urgent data.
        let has_urgent = self.stream.bytes_to_urgent_end().is_ok_and(|bytes| bytes.is_some());
        let is_urgent = has_urgent && !self.is_urgent_reported;
        self.is_urgent_reported |= is_urgent;
        Ready { is_urgent, ..Ready::default() }
    }
}

impl ClientStream for UserspaceTcp {
    async fn ready(&mut self, wants_read: bool, wants_write: bool) -> io::Result<Ready> {
        let awaits_flush = !wants_read && !wants_write && self.has_unsent();
        std::future::poll_fn(|context| {
            match self.poll_outgoing(context) {
                Poll::Ready(Ok(())) if awaits_flush => {
                    return Poll::Ready(Ok(Ready::default()));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            let can_write = self.outgoing.len() < OUTGOING_LEN;
            let incoming = match wants_read {
                true => self.poll_incoming(context),
                false => self.poll_urgent(context),
            };
            match incoming {
                Poll::Ready(ready) => Poll::Ready(ready.map(|ready| Ready { can_write, ..ready })),
                Poll::Pending if wants_write && can_write => {
                    Poll::Ready(Ok(Ready { can_write, ..Ready::default() }))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    fn unacknowledged_len(&self) -> usize {
        self.outgoing.len() + self.stream.send_queue_len()
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<Read>> {
        let ahead = self.stream.bytes_to_urgent_end().unwrap_or_default();
        let len = ahead.unwrap_or(usize::MAX).min(bytes.len());
        let mut buffer = ReadBuf::new(bytes.get_mut(..len).unwrap_or_default());
        // This context is never woken, because only `ready` waits.
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer) {
            Poll::Ready(read) => read?,
            Poll::Pending => return Ok(None),
        }
        let count = buffer.filled().len();
        // At the end of the stream no data is urgent.
        let ends_urgent = ahead == Some(count) || (self.is_urgent_reported && ahead.is_none());
        self.is_urgent_reported &= !ends_urgent;
        Ok(Some(Read { count, ends_urgent }))
    }

    fn write(&mut self, bytes: &[u8], urgent: Option<usize>) -> io::Result<Option<usize>> {
        let count = bytes.len().min(OUTGOING_LEN.saturating_sub(self.outgoing.len()));
        if let Some(mark) = urgent.filter(|mark| *mark > 0) {
            // Data queued before the mark becomes urgent too, as in TCP itself.
            self.urgent_len = self.outgoing.len() + mark.min(count);
        }
        self.outgoing.extend_from_slice(bytes.get(..count).unwrap_or_default());
        Ok((count > 0 || bytes.is_empty()).then_some(count))
    }

    async fn close(&mut self) {
        // Errors are ignored, because the connection may already be lost.
        _ = std::future::poll_fn(|context| self.poll_outgoing(context)).await;
        _ = std::future::poll_fn(|context| Pin::new(&mut self.stream).poll_shutdown(context)).await;
    }
}
