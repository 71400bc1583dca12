//! Streams and tasks whose processor time is charged to an account of the server's meter.
//!
//! ```text
//! session ── MeteredStream(encryption) ── TLS ── MeteredStream(interrupt) ── socket
//! ```
//!
//! Each call on a stream switches the meter to the account of the stream, and back to the previous
//! account on return. The time of TLS is thus separated from that of the system calls below it, and
//! waiting is charged to neither account.

use carrier::{EngineContext, TcpConnection};
use net::meter::Account;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use transfer::ftp_data::{DataSocket, DataStats};

/// Server with a meter.
pub(super) trait Metered {
    /// Returns the engine context that contains the meter.
    fn engine_context(&self) -> &RefCell<EngineContext>;

    /// Runs `call` and charges its time to `account`.
    fn charge<T>(&self, account: Account, call: impl FnOnce() -> T) -> T {
        let previous = self.engine_context().borrow_mut().meter.enter(account);
        let result = call();
        self.engine_context().borrow_mut().meter.enter(previous);
        result
    }

    /// Awaits `future` and charges its processing, but not its waits, to `account`.
    async fn charge_future<T>(&self, account: Account, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| self.charge(account, || future.as_mut().poll(context))).await
    }
}

/// Stream whose calls are charged to an account.
pub(super) struct MeteredStream<S, M> {
    stream: S,
    server: Rc<M>,
    account: Account,
}

impl<S: fmt::Debug, M> fmt::Debug for MeteredStream<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, account, .. } = self;
        f.debug_struct("MeteredStream").field("stream", stream).field("account", account).finish()
    }
}

impl<S, M> MeteredStream<S, M> {
    /// Wraps `stream` and charges its calls to `account`.
    pub(super) const fn new(stream: S, server: Rc<M>, account: Account) -> Self {
        Self { stream, server, account }
    }

    /// Returns the wrapped stream.
    pub(super) const fn inner(&self) -> &S {
        &self.stream
    }

    /// Returns the wrapped stream, without further charging.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin, M: Metered> AsyncRead for MeteredStream<S, M> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, server, account } = &mut *self;
        server.charge(*account, || Pin::new(stream).poll_read(context, buffer))
    }
}

impl<S: AsyncWrite + Unpin, M: Metered> AsyncWrite for MeteredStream<S, M> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, server, account } = &mut *self;
        server.charge(*account, || Pin::new(stream).poll_write(context, data))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, server, account } = &mut *self;
        server.charge(*account, || Pin::new(stream).poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, server, account } = &mut *self;
        server.charge(*account, || Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, server, account } = &mut *self;
        server.charge(*account, || Pin::new(stream).poll_shutdown(context))
    }
}

/// The system calls of a data transfer that bypass the stream are charged by its task.
impl<M: Metered> DataSocket for MeteredStream<TcpConnection, M> {
    const BLOCKS: bool = false;

    fn send_alert(&mut self, alert: &[u8]) {
        // Does not wait: a client that no longer reads does not need the alert.
        _ = self.stream.try_write(alert);
    }

    fn kernel(&self) -> Option<BorrowedFd<'_>> {
        DataSocket::kernel(&self.stream)
    }

    fn kernel_io<T>(
        &self,
        interest: Interest,
        call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> impl Future<Output = Option<io::Result<T>>> {
        self.stream.kernel_io(interest, call)
    }

    fn reset(&self) {
        self.stream.reset();
    }

    fn observe(&self, stats: &mut DataStats) {
        self.stream.observe(stats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrier::meters::MeterRegistry;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    struct TestServer(RefCell<EngineContext>);

    impl Metered for TestServer {
        fn engine_context(&self) -> &RefCell<EngineContext> {
            &self.0
        }
    }

    #[tokio::test]
    async fn nested_streams_charge_their_own_accounts_and_waits_are_not_charged() {
        let registry = MeterRegistry::new("serve");
        let server =
            Rc::new(TestServer(RefCell::new(EngineContext::published(&registry, "test").unwrap())));
        let (local, mut remote) = duplex(64);
        let inner_stream = MeteredStream::new(local, Rc::clone(&server), Account::Interrupt);
        let mut stream = MeteredStream::new(inner_stream, Rc::clone(&server), Account::Encryption);
        stream.write_all(b"out").await.unwrap();
        let mut buffer = [0; 3];
        remote.read_exact(&mut buffer).await.unwrap();
        remote.write_all(b"in!").await.unwrap();
        stream.read_exact(&mut buffer).await.unwrap();
        let mut engine = server.0.borrow_mut();
        assert_eq!(engine.meter.enter(Account::Outside), Account::Outside);
        let charged_times = [Account::Encryption, Account::Interrupt, Account::Application]
            .map(|account| engine.meter.charged(account) > 0);
        assert_eq!(charged_times, [true, true, false]);
    }
}
