//! Streams and tasks whose processor time is charged to an account of the server's meter.
//!
//! ```text
//! session ── Charged(encryption) ── TLS ── Charged(interrupt) ── socket
//! ```
//!
//! Each call enters its account and restores the previous one on return. TLS is thus separated from
//! the system calls below it, and waiting is charged to neither.

use crate::carry::Bench;
use protocols::meter::Account;
use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Server with a meter.
pub(super) trait Metered {
    /// Returns the engine context that contains the meter.
    fn metered_bench(&self) -> &RefCell<Bench>;

    /// Charges `call` to `account`.
    fn charge<T>(&self, account: Account, call: impl FnOnce() -> T) -> T {
        let left = self.metered_bench().borrow_mut().meter.enter(account);
        let result = call();
        self.metered_bench().borrow_mut().meter.enter(left);
        result
    }

    /// Awaits `work` and charges its processing, but not its waits, to `account`.
    async fn charge_work<T>(&self, account: Account, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| self.charge(account, || work.as_mut().poll(context))).await
    }
}

/// Stream whose calls are charged to an account.
pub(super) struct Charged<S, M> {
    stream: S,
    server: Rc<M>,
    account: Account,
}

impl<S: fmt::Debug, M> fmt::Debug for Charged<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, account, .. } = self;
        f.debug_struct("Charged").field("stream", stream).field("account", account).finish()
    }
}

impl<S, M> Charged<S, M> {
    /// Wraps `stream` and charges its calls to `account`.
    pub(super) const fn new(stream: S, server: Rc<M>, account: Account) -> Self {
        Self { stream, server, account }
    }

    /// Returns the stream below.
    pub(super) const fn inner(&self) -> &S {
        &self.stream
    }

    /// Returns the wrapped stream, without further charging.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin, M: Metered> AsyncRead for Charged<S, M> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, server, account } = &mut *self;
        server.charge(*account, || Pin::new(stream).poll_read(context, room))
    }
}

impl<S: AsyncWrite + Unpin, M: Metered> AsyncWrite for Charged<S, M> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meters::Registry;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    struct House(RefCell<Bench>);

    impl Metered for House {
        fn metered_bench(&self) -> &RefCell<Bench> {
            &self.0
        }
    }

    #[tokio::test]
    async fn a_stream_on_a_stream_charges_each_to_its_own_account_and_the_wait_to_none() {
        let board = Registry::new("serve");
        let house = Rc::new(House(RefCell::new(Bench::shown_on(&board, "test").unwrap())));
        let (near, mut far) = duplex(64);
        let below = Charged::new(near, Rc::clone(&house), Account::Interrupt);
        let mut stream = Charged::new(below, Rc::clone(&house), Account::Encryption);
        stream.write_all(b"out").await.unwrap();
        let mut room = [0; 3];
        far.read_exact(&mut room).await.unwrap();
        far.write_all(b"in!").await.unwrap();
        stream.read_exact(&mut room).await.unwrap();
        let mut bench = house.0.borrow_mut();
        assert_eq!(bench.meter.enter(Account::Outside), Account::Outside);
        let charged = [Account::Encryption, Account::Interrupt, Account::Application]
            .map(|account| bench.meter.charged(account) > 0);
        assert_eq!(charged, [true, true, false]);
    }
}
