//! Tests of the session loop with clients that are always ready, or that are not read.

use super::*;
use crate::client_stream::Read;
use crate::configuration_loader::ConfigurationLoader;
use crate::flags::Flags;
use crate::login_server::{LoginPlan, LoginState};
use crate::login_session::LoginSession;
use crate::session_shutdown::SessionShutdown;
use carrier::meters::MeterRegistry;
use protocols::telnet::OptionSet;
use std::cell::Cell;
use tokio::task::{LocalSet, spawn_local, yield_now};

/// Number of reads after which [`EndlessClient`] closes the connection.
const READS_MAX: usize = 100_000;

/// Client that always has NOP commands to read, and accepts all output.
struct EndlessClient {
    reads: Rc<Cell<usize>>,
}

impl ClientStream for EndlessClient {
    async fn ready(&mut self, wants_read: bool, wants_write: bool) -> io::Result<Ready> {
        Ok(Ready { can_read: wants_read, can_write: wants_write, is_urgent: false })
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<Read>> {
        self.reads.set(self.reads.get() + 1);
        let is_open = self.reads.get() < READS_MAX;
        for pair in bytes.chunks_exact_mut(2) {
            pair.copy_from_slice(&[255, 241]);
        }
        let count = if is_open { bytes.len() / 2 * 2 } else { 0 };
        Ok(Some(Read { count, ends_urgent: false }))
    }

    fn write(&mut self, bytes: &[u8], _urgent: Option<usize>) -> io::Result<Option<usize>> {
        Ok(Some(bytes.len()))
    }

    fn unacknowledged_len(&self) -> usize {
        0
    }

    async fn close(&mut self) {}
}

/// Client that has closed its half of the connection.
#[derive(Default)]
struct ClosingClient {
    /// Whether urgent data is announced.
    is_urgent: bool,
    write_error: Option<ErrorKind>,
}

impl ClientStream for ClosingClient {
    async fn ready(&mut self, wants_read: bool, _wants_write: bool) -> io::Result<Ready> {
        let is_urgent = std::mem::take(&mut self.is_urgent);
        if !wants_read && !is_urgent {
            std::future::pending::<()>().await;
        }
        Ok(Ready { can_read: wants_read, can_write: false, is_urgent })
    }

    fn read(&mut self, _bytes: &mut [u8]) -> io::Result<Option<Read>> {
        Ok(Some(Read { count: 0, ends_urgent: false }))
    }

    fn write(&mut self, bytes: &[u8], _urgent: Option<usize>) -> io::Result<Option<usize>> {
        self.write_error.map_or(Ok(Some(bytes.len())), |kind| Err(kind.into()))
    }

    fn unacknowledged_len(&self) -> usize {
        0
    }

    async fn close(&mut self) {}
}

/// Returns the end of a session with `client` whose typed input is full from the start.
fn end_with_full_input(client: ClosingClient) -> SessionEnd {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let back_end = LoginSession::new();
        // With TLS required, typed input starts no program.
        let mut session =
            TelnetSession::new(client, peer, login_server(), StartTls::Required, back_end);
        session.client.typed_input = vec![b'x'; TYPED_MAX_LEN];
        session.run().await.unwrap()
    })
}

#[test]
fn a_synch_is_noticed_while_the_typed_input_is_full_and_discards_it() {
    let client = ClosingClient { is_urgent: true, ..ClosingClient::default() };
    assert_eq!(end_with_full_input(client), SessionEnd::ClientClosed);
}

#[test]
fn a_failed_write_ends_the_session() {
    let write_error = Some(ErrorKind::ConnectionReset);
    let client = ClosingClient { write_error, ..ClosingClient::default() };
    assert_eq!(end_with_full_input(client), SessionEnd::ClientClosed);
}

fn login_server() -> Rc<LoginServer> {
    let mut flags = Flags::default();
    flags.login.exec = Some(vec!["/bin/true".to_owned()]);
    let loader = ConfigurationLoader::open(&flags).unwrap();
    let login_state =
        LoginState::new(LoginPlan::prepare(loader.login().unwrap()).unwrap(), flags.log());
    let registry = MeterRegistry::new("test");
    Rc::new(LoginServer::open(login_state, &registry, SessionShutdown::default()).unwrap())
}

/// Returns the number of reads from [`EndlessClient`] during ten turns of another task.
fn reads_in_ten_turns<B: SessionBackend + 'static>(back_end: B) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let reads = Rc::new(Cell::new(0));
        let client = EndlessClient { reads: Rc::clone(&reads) };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut session = TelnetSession::new(client, peer, login_server(), StartTls::Off, back_end);
        let running = spawn_local(async move { session.run().await.map(drop) });
        for _ in 0..10 {
            yield_now().await;
        }
        running.abort();
        reads.get()
    })
}

#[test]
fn a_session_that_is_always_ready_ends_when_the_server_stops() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let client = EndlessClient { reads: Rc::default() };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let server = login_server();
        let back_end = LoginSession::new();
        let mut session =
            TelnetSession::new(client, peer, Rc::clone(&server), StartTls::Off, back_end);
        let running = spawn_local(async move { session.run().await.unwrap() });
        yield_now().await;
        server.shutdown.close().await;
        assert_eq!(running.await.unwrap(), SessionEnd::ServerStopped);
    });
}

#[test]
fn a_client_that_is_always_ready_does_not_starve_other_tasks() {
    let reads = reads_in_ten_turns(LoginSession::new());
    assert!((1..READS_MAX).contains(&reads), "{reads} reads");
}

#[test]
fn a_client_that_sends_without_end_does_not_starve_other_tasks_while_the_session_closes() {
    let reads = reads_in_ten_turns(ExitedBackend);
    assert!((1..READS_MAX).contains(&reads), "{reads} reads");
}

/// Client that closes its half of the connection before it accepts output.
struct SlowClient {
    has_closed: bool,
}

impl ClientStream for SlowClient {
    async fn ready(&mut self, wants_read: bool, wants_write: bool) -> io::Result<Ready> {
        Ok(Ready { can_read: wants_read, can_write: wants_write, is_urgent: false })
    }

    fn read(&mut self, _bytes: &mut [u8]) -> io::Result<Option<Read>> {
        self.has_closed = true;
        Ok(Some(Read { count: 0, ends_urgent: false }))
    }

    fn write(&mut self, bytes: &[u8], _urgent: Option<usize>) -> io::Result<Option<usize>> {
        Ok(self.has_closed.then_some(bytes.len()))
    }

    fn unacknowledged_len(&self) -> usize {
        0
    }

    async fn close(&mut self) {}
}

/// Back end whose program has exited.
struct ExitedBackend;

impl SessionBackend for ExitedBackend {
    const OPTIONS: OptionSet = OptionSet::NONE;

    type Wakeup = ();

    fn advance(&mut self, _client: &mut TelnetClient) -> Result<Option<SessionEnd>> {
        Ok(None)
    }

    fn ending(&self) -> Option<SessionEnd> {
        Some(SessionEnd::ProgramExited)
    }

    fn deadline(&self, _client: &TelnetClient) -> Option<Instant> {
        None
    }

    async fn ready(&mut self, _client: &TelnetClient) -> Result<()> {
        std::future::pending().await
    }

    fn on_ready(&mut self, _client: &mut TelnetClient, (): ()) -> Result<()> {
        Ok(())
    }

    fn on_event(&mut self, _client: &mut TelnetClient, _event: Event<'_>) {}

    fn forward_input(&mut self, _client: &mut TelnetClient) -> Result<()> {
        Ok(())
    }

    fn end(&mut self) {}
}

#[test]
fn a_half_close_does_not_discard_the_last_output() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let client = SlowClient { has_closed: false };
        let mut session =
            TelnetSession::new(client, peer, login_server(), StartTls::Off, ExitedBackend);
        session.client.queue_output(b"last output");
        assert_eq!(session.run().await.unwrap(), SessionEnd::ProgramExited);
        assert!(session.traffic().bytes_out >= 11);
        assert!(session.client.accepted_at.is_some());
    });
}

/// Client that accepts one byte of its send queue whenever the queue is looked at, and neither sends
/// data nor closes the connection.
struct QueueingClient {
    unacknowledged_len: Cell<usize>,
    closes: Rc<Cell<usize>>,
}

impl ClientStream for QueueingClient {
    async fn ready(&mut self, _wants_read: bool, _wants_write: bool) -> io::Result<Ready> {
        std::future::pending().await
    }

    fn read(&mut self, _bytes: &mut [u8]) -> io::Result<Option<Read>> {
        Ok(None)
    }

    fn write(&mut self, bytes: &[u8], _urgent: Option<usize>) -> io::Result<Option<usize>> {
        Ok(Some(bytes.len()))
    }

    fn unacknowledged_len(&self) -> usize {
        let len = self.unacknowledged_len.get();
        self.unacknowledged_len.replace(len.saturating_sub(1))
    }

    async fn close(&mut self) {
        self.closes.set(self.closes.get() + 1);
    }
}

/// Returns a session with `len` bytes in the send queue, and the number of its attempts to close.
fn session_with_send_queue(
    len: usize,
) -> (TelnetSession<QueueingClient, ExitedBackend>, Rc<Cell<usize>>) {
    let closes = Rc::new(Cell::new(0));
    let client = QueueingClient { unacknowledged_len: Cell::new(len), closes: Rc::clone(&closes) };
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let session = TelnetSession::new(client, peer, login_server(), StartTls::Off, ExitedBackend);
    (session, closes)
}

#[test]
fn acknowledged_output_of_a_full_send_queue_counts_as_accepted() {
    let (mut session, _) = session_with_send_queue(9);
    session.count_acknowledged();
    assert_eq!(session.client.accepted_at, None);
    session.unacknowledged_len = Some(9);
    session.count_acknowledged();
    assert_eq!(session.client.accepted_at, None);
    session.unacknowledged_len = Some(9);
    session.count_acknowledged();
    assert!(session.client.accepted_at.is_some());
}

#[test]
fn a_session_waits_for_a_client_that_empties_the_send_queue_slowly() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut session, closes) = session_with_send_queue(4);
    session.close_timeout = Duration::from_millis(1);
    let ending = LocalSet::new().block_on(&runtime, session.run()).unwrap();
    assert_eq!((ending, closes.get()), (SessionEnd::ProgramExited, 3));
}

#[test]
fn accepted_output_extends_the_time_for_the_last_output_up_to_a_limit() {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut client = TelnetClient::new(peer, login_server(), StartTls::Off, OptionSet::NONE, &[]);
    let ended_at = Instant::now();
    let seconds_left = |client: &TelnetClient| {
        (client.last_output_deadline(ended_at, Duration::from_secs(3)) - ended_at).as_secs()
    };
    assert_eq!(seconds_left(&client), 3);
    for (accepted_after_s, left_s) in [(10, 13), (59, 60)] {
        client.accepted_at = Some(ended_at + Duration::from_secs(accepted_after_s));
        assert_eq!(seconds_left(&client), left_s);
    }
}
