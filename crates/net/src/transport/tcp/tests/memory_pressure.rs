//! Tests of peers that hold connections open without using them: row 34 of docs/ledger/attacks.txt.

use super::*;

/// Number of peers. The table has space for fewer connections.
const PEERS: u16 = 10_000;
/// Maximum number of connections of the station.
const CONNECTIONS_MAX: usize = 2000;

/// A server that sends to every client.
struct Server {
    script: Script,
    refused: usize,
}

impl Server {
    fn new(profile: Profile) -> Self {
        let mut script = Script::listening(profile);
        script.tcp.set_connections_max(CONNECTIONS_MAX);
        Self { script, refused: 0 }
    }

    /// Delivers a segment from `port` to the server, and returns the header of its answer.
    fn deliver(&mut self, port: u16, header: Header) -> Option<Header> {
        let header = Header { source_port: port, destination_port: PORT, ..header };
        let ends = (SocketAddr::new(CLIENT, port), SocketAddr::new(SERVER, PORT));
        let packet = make(header, ends, b"");
        deliver_bytes(
            &mut self.script.tcp,
            (CLIENT, SERVER),
            packet.data(),
            &mut self.script.context.cx(),
        );
        self.script.output().last().map(|sent| sent.header)
    }

    /// Connects from `port`, makes the server send data, and closes the peer's window.
    fn connect_and_starve(&mut self, port: u16) {
        let syn = Header { flags: Flags::SYN, window: 1000, ..Header::default() };
        let Some(answer) = self.deliver(port, syn) else {
            self.refused += 1;
            return;
        };
        let ack =
            Header { flags: Flags::ACK, seq: Seq(1), ack: answer.seq + 1, ..Header::default() };
        self.deliver(port, ack);
        let newest = self.script.newest();
        self.script.tcp.send(newest, b"a page").unwrap();
        self.script.discard_output();
    }

    /// Advances the time. The peers do not answer the probes.
    fn wait(&mut self, time: Duration) {
        let end = self.script.context.now + time;
        while let Some(at) = self.script.tcp.deadline().filter(|at| *at <= end) {
            self.script.context.now = self.script.context.now.max(at);
            self.script.tcp.timeout(&mut self.script.context.cx());
            self.script.discard_output();
        }
        self.script.context.now = end;
    }
}

// attack row 34
#[test]
fn ten_thousand_peers_with_zero_windows_do_not_exceed_the_connection_limit() {
    let mut server = Server::new(PLAIN);
    for port in 0..PEERS {
        server.connect_and_starve(10_000 + port);
        server.script.context.advance(Duration::from_millis(10));
    }
    assert!(server.script.tcp.connections() <= CONNECTIONS_MAX);
    assert!(server.refused > 0, "no window has been shut for a minute yet");
}

// attack row 34
#[test]
fn a_new_peer_replaces_the_longest_zero_window() {
    let mut server = Server::new(PLAIN);
    for port in 0..u16::try_from(CONNECTIONS_MAX).unwrap() {
        server.connect_and_starve(10_000 + port);
    }
    assert_eq!(server.script.tcp.connections(), CONNECTIONS_MAX);
    server.wait(Duration::from_secs(61));
    assert_eq!(
        server.script.tcp.connections(),
        CONNECTIONS_MAX,
        "each is probed for longer than that"
    );
    server.script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(server.script.state(), Some(State::SynReceived));
    assert_eq!(server.script.counted(Counter::TcpReaped), 1);
}

// attack row 34
#[test]
fn a_user_timeout_ends_all_connections_although_the_peers_answer_every_probe() {
    let user_timeout = UserTimeout { r2: Some(Duration::from_secs(30)), ..UserTimeout::DEFAULT };
    let mut script = Script::established(Profile { user_timeout, ..PLAIN });
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(b"a page");
    for _ in 0..40 {
        script.wait(Duration::from_secs(1));
        script.peer(Flags::ACK, 1, 1, b"");
    }
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

// attack row 34
#[test]
fn peers_that_answer_nothing_are_given_up_within_minutes() {
    let mut server = Server::new(PLAIN);
    for port in 0..100 {
        server.connect_and_starve(10_000 + port);
    }
    server.wait(Duration::from_secs(300));
    assert_eq!(server.script.tcp.connections(), 0);
}

#[test]
fn a_reopened_window_protects_from_eviction() {
    let mut script = Script::established(PLAIN);
    script.tcp.set_connections_max(1);
    script.window = 0;
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(b"x");
    script.wait(Duration::from_secs(100));
    script.window = 1000;
    script.peer(Flags::ACK, 1, 1, b"");
    script.peer(Flags::ACK, 1, 2, b"");
    let remote = SocketAddr::new(CLIENT, 9);
    let open_result = script.tcp.open(SERVER, remote, PLAIN, &mut script.context.cx());
    assert_eq!(open_result, Err(OpenError::TooMany));
    assert_eq!(script.state(), Some(State::Established));
}

#[test]
fn a_peer_that_closes_its_window_again_is_evicted_after_the_others() {
    let mut server = Server::new(PLAIN);
    server.script.tcp.set_connections_max(2);
    server.connect_and_starve(10_000);
    let first = server.script.id.unwrap();
    server.wait(Duration::from_secs(1));
    server.connect_and_starve(10_001);
    let second = server.script.newest();
    server.wait(Duration::from_secs(50));
    let sequence = {
        let connection = server.script.tcp.table.get(first).unwrap();
        (connection.rcv.nxt(), connection.snd.una())
    };
    let window = |window| Header {
        flags: Flags::ACK,
        seq: sequence.0,
        ack: sequence.1 + 1,
        window,
        ..Header::default()
    };
    server.deliver(10_000, window(1));
    server.deliver(10_000, Header { ack: sequence.1 + 2, ..window(0) });
    server.wait(Duration::from_secs(15));
    server.script.peer(Flags::SYN, 0, 0, b"");
    assert_eq!(server.script.state(), Some(State::SynReceived));
    let close_reason = |id| server.script.tcp.status(id).unwrap().close_reason;
    assert_eq!((close_reason(first), close_reason(second)), (None, Some(CloseReason::TimedOut)));
}
