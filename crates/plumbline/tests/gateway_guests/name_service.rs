//! The DNS forwarder with resolvers that are hostile, unreachable, or replaced.

use super::gateway_harness::{
    DNS, GUEST, Gateway, Guest, HOST, TIMEOUT, TestFile, accept, command, in_host_network,
    receive_from, with_mount,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::symlink;
use std::thread;
use test_support::poll_until_timeout;

const DOMAIN_PORT: u16 = 53;
/// The name `www.example.test`, its type A and the class IN.
const QUESTION: &[u8] = b"\x03www\x07example\x04test\0\0\x01\0\x01";
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const HEADER_LEN: usize = 12;
const OTHER_HOST: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);

/// A resolver of the host, of which the test is the server.
struct Resolver {
    socket: UdpSocket,
}

/// A query that a resolver has received.
struct Received {
    message: Vec<u8>,
    from: SocketAddr,
}

impl Resolver {
    fn at(address: Ipv4Addr) -> Self {
        let socket = UdpSocket::bind((address, DOMAIN_PORT)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { socket }
    }

    fn receive(&self) -> Received {
        let mut buffer = [0; 2048];
        let (len, from) = receive_from(&self.socket, &mut buffer);
        Received { message: buffer[..len].to_vec(), from }
    }

    /// Answers the next query with `answer`.
    fn answer(&self, answer: [u8; 4]) {
        let query = self.receive();
        self.send(&query, &response(&query.id(), QUESTION, &[&record(answer)]));
    }

    /// Answers all queries with `answer`, as long as the test runs.
    fn answer_all(self, answer: [u8; 4]) {
        // Without queries, a receive fails after some time, and the thread ends.
        thread::spawn(move || {
            loop {
                self.answer(answer);
            }
        });
    }

    fn send(&self, query: &Received, message: &[u8]) {
        self.socket.send_to(message, query.from).unwrap();
    }
}

impl Received {
    fn id(&self) -> [u8; 2] {
        [self.message[0], self.message[1]]
    }
}

/// Returns a record of type A whose name is that of the question.
fn record(address: [u8; 4]) -> Vec<u8> {
    [&[0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4][..], &address].concat()
}

/// Returns a response with this question and these answers.
fn response(id: &[u8; 2], question: &[u8], answers: &[&[u8]]) -> Vec<u8> {
    let count = u16::try_from(answers.len()).unwrap().to_be_bytes();
    let header = [id[0], id[1], 0x81, 0x80, 0, 1, count[0], count[1], 0, 0, 0, 0];
    [&header, question, &answers.concat()].concat()
}

/// Sends a query from a new socket of the guest.
fn ask(guest: &Guest, id: u16) -> UdpSocket {
    guest.run(move || {
        let socket = UdpSocket::bind((GUEST, 0)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let id = id.to_be_bytes();
        let header = [id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        socket.send_to(&[&header, QUESTION].concat(), (DNS, DOMAIN_PORT)).unwrap();
        socket
    })
}

/// Returns the response code and the last four bytes of the response.
fn outcome(socket: &UdpSocket) -> (u8, [u8; 4]) {
    let mut buffer = [0; 2048];
    let (len, from) = receive_from(socket, &mut buffer);
    assert_eq!(from, SocketAddr::new(DNS.into(), DOMAIN_PORT));
    assert!(len >= HEADER_LEN + QUESTION.len());
    (buffer[3] & 15, buffer[len - 4..len].try_into().unwrap())
}

fn resolv_conf(addresses: &[Ipv4Addr]) -> String {
    addresses.iter().map(|address| format!("nameserver {address}\n")).collect()
}

fn resolv_conf_file(addresses: &[Ipv4Addr]) -> TestFile {
    TestFile::new("resolv", resolv_conf(addresses).as_bytes())
}

// attack row 106
#[test]
fn each_query_has_a_port_and_an_identifier_of_its_own() {
    in_host_network(|| {
        let resolver = Resolver::at(HOST);
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let mut identifiers = Vec::new();
        let mut seen = BTreeSet::new();
        let mut ports = BTreeSet::new();
        for number in 0..32 {
            // A careless guest: the same identifier for all queries.
            let client = ask(&guest, 7);
            let query = resolver.receive();
            identifiers.push(u16::from_be_bytes(query.id()));
            seen.insert(query.id());
            ports.insert(query.from.port());
            resolver
                .send(&query, &response(&query.id(), QUESTION, &[&record([192, 0, 2, number])]));
            assert_eq!(outcome(&client), (NO_ERROR, [192, 0, 2, number]));
        }
        // Of 32 random values, at most a few are equal.
        assert!(seen.len() > 28 && ports.len() > 24, "{seen:?} {ports:?}");
        assert!(!seen.contains(&[0, 7]) || seen.len() > 31);
        // An identifier does not follow from the one before.
        let steps = identifiers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
        assert!(steps.collect::<BTreeSet<_>>().len() > 28, "{identifiers:?}");
    });
}

// attack row 106
#[test]
fn a_forged_response_does_not_reach_the_guest() {
    in_host_network(|| {
        let resolver = Resolver::at(HOST);
        let attacker = Resolver::at(OTHER_HOST);
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let client = ask(&guest, 7);
        let query = resolver.receive();
        let forged = record([203, 0, 113, 66]);
        let id = query.id();
        let other_id = [id[0], id[1] ^ 1];
        let other_question = b"\x03www\x07example\x03com\0\0\x01\0\x01";
        attacker.send(&query, &response(&id, QUESTION, &[&forged]));
        resolver.send(&query, &response(&other_id, QUESTION, &[&forged]));
        resolver.send(&query, &response(&id, other_question, &[&forged]));
        let other_type = [&QUESTION[..QUESTION.len() - 3], b"\x1c\0\x01"].concat();
        resolver.send(&query, &response(&id, &other_type, &[&forged]));
        let other_case = QUESTION.to_ascii_uppercase();
        resolver.send(&query, &response(&id, &other_case, &[&forged]));
        resolver.send(&query, &response(&id, QUESTION, &[&record([192, 0, 2, 1])]));
        assert_eq!(outcome(&client), (NO_ERROR, [192, 0, 2, 1]));
    });
}

// attack row 106
#[test]
fn a_socket_that_receives_many_forged_responses_is_closed_and_another_asks_again() {
    in_host_network(|| {
        let resolver = Resolver::at(HOST);
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let client = ask(&guest, 7);
        let query = resolver.receive();
        let [high, low] = query.id();
        let forged = record([203, 0, 113, 66]);
        for guess in 1..=8 {
            resolver.send(&query, &response(&[high, low ^ guess], QUESTION, &[&forged]));
        }
        // The right identifier is guessed too late.
        resolver.send(&query, &response(&query.id(), QUESTION, &[&forged]));
        let second = resolver.receive();
        assert_ne!((second.id(), second.from), (query.id(), query.from));
        resolver.send(&second, &response(&second.id(), QUESTION, &[&record([192, 0, 2, 1])]));
        assert_eq!(outcome(&client), (NO_ERROR, [192, 0, 2, 1]));
    });
}

// attack row 106
#[test]
fn a_guest_that_asks_many_times_at_once_gets_a_failure() {
    in_host_network(|| {
        let _silent = Resolver::at(HOST);
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let socket = guest.run(|| {
            let socket = UdpSocket::bind((GUEST, 0)).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            for id in 0..65 {
                let header = [0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
                socket.send_to(&[&header, QUESTION].concat(), (DNS, DOMAIN_PORT)).unwrap();
            }
            socket
        });
        // The first answer is that to the last query; the others wait for the resolver.
        let mut buffer = [0; 2048];
        receive_from(&socket, &mut buffer);
        assert_eq!((buffer[..2].to_vec(), buffer[3] & 15), (vec![0, 64], SERVER_FAILURE));
    });
}

// attack row 107
#[test]
fn a_malformed_response_is_dropped_and_the_query_waits_for_another() {
    in_host_network(|| {
        let resolver = Resolver::at(HOST);
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let rest = [0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 66];
        let record_at = u8::try_from(HEADER_LEN + QUESTION.len()).unwrap();
        let label = [&[63][..], &[b'x'; 63]].concat();
        let names: [(&str, Vec<u8>); 6] = [
            ("a pointer to itself", vec![0xC0, record_at]),
            ("two pointers to each other", vec![0xC0, record_at + 2, 0xC0, record_at]),
            ("a pointer forwards", vec![0xC0, record_at + 4]),
            ("a pointer behind the message", vec![0xFF, 0xFF]),
            ("a name of 320 bytes", [&label.repeat(5)[..], &[0]].concat()),
            ("a label type that does not exist", vec![0x80, 1, 0]),
        ];
        for (description, name) in names {
            let client = ask(&guest, 7);
            let query = resolver.receive();
            let malformed = [&name[..], &rest].concat();
            resolver.send(&query, &response(&query.id(), QUESTION, &[&malformed]));
            // More records than the message contains.
            let mut counts = response(&query.id(), QUESTION, &[&record([203, 0, 113, 66])]);
            counts[6..12].fill(0xFF);
            resolver.send(&query, &counts);
            let mut cut = response(&query.id(), QUESTION, &[&record([203, 0, 113, 66])]);
            cut.truncate(cut.len() - 2);
            resolver.send(&query, &cut);
            // A CNAME whose data is a pointer to itself.
            let alias = [0xC0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xC0, record_at + 12];
            let alias = response(&query.id(), QUESTION, &[&alias, &record([203, 0, 113, 66])]);
            resolver.send(&query, &alias);
            resolver.send(&query, &response(&query.id(), QUESTION, &[&record([192, 0, 2, 1])]));
            assert_eq!(outcome(&client), (NO_ERROR, [192, 0, 2, 1]), "{description}");
        }
    });
}

// attack row 107
#[test]
fn a_long_response_is_truncated_to_the_length_that_the_guest_accepts() {
    in_host_network(|| {
        let resolver = Resolver::at(HOST);
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let client = ask(&guest, 7);
        let query = resolver.receive();
        let record = record([192, 0, 2, 1]);
        resolver.send(&query, &response(&query.id(), QUESTION, &vec![&record[..]; 60]));
        let mut buffer = [0; 2048];
        let (len, _) = receive_from(&client, &mut buffer);
        // Without EDNS, a message has at most 512 bytes.
        assert!(len <= 512 && buffer[2] & 2 != 0, "{len} bytes, flags {:x}", buffer[2]);
    });
}

#[test]
fn a_connection_to_the_dns_address_leads_to_the_resolver() {
    in_host_network(|| {
        let server = TcpListener::bind((HOST, DOMAIN_PORT)).unwrap();
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[HOST]);
        // The guest may not reach the address of the resolver itself.
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let _client = guest.connect(SocketAddr::new(DNS.into(), DOMAIN_PORT)).unwrap();
        accept(&server);
        let other_port = guest.connect(SocketAddr::new(DNS.into(), 80)).unwrap_err();
        assert_eq!(other_port.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn an_unreachable_resolver_is_followed_by_the_next_one() {
    in_host_network(|| {
        let resolver = Resolver::at(HOST);
        let guest = Guest::new();
        // No program listens at the first address, and there is no route to the second one.
        let unused = Ipv4Addr::new(127, 0, 0, 2);
        let resolvers = resolv_conf_file(&[unused, Ipv4Addr::new(192, 0, 2, 53), HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let client = ask(&guest, 7);
        resolver.answer([192, 0, 2, 1]);
        assert_eq!(outcome(&client), (NO_ERROR, [192, 0, 2, 1]));
    });
}

#[test]
fn a_guest_learns_at_once_that_no_resolver_is_reachable() {
    in_host_network(|| {
        let guest = Guest::new();
        let unused = Ipv4Addr::new(127, 0, 0, 2);
        let resolvers = resolv_conf_file(&[unused, Ipv4Addr::new(192, 0, 2, 53)]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        let client = ask(&guest, 7);
        assert_eq!(outcome(&client).0, SERVER_FAILURE);
    });
}

/// Asks until the guest gets this address: the file with the resolvers is looked at once a second.
fn wait_for_answer(guest: &Guest, answer: [u8; 4]) {
    poll_until_timeout(|| (outcome(&ask(guest, 7)) == (NO_ERROR, answer)).then_some(()));
}

#[test]
fn a_gateway_started_without_resolvers_uses_those_that_are_configured_later() {
    in_host_network(|| {
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        assert_eq!(outcome(&ask(&guest, 7)).0, SERVER_FAILURE);
        Resolver::at(HOST).answer_all([192, 0, 2, 1]);
        fs::write(&resolvers.0, resolv_conf(&[HOST])).unwrap();
        wait_for_answer(&guest, [192, 0, 2, 1]);
    });
}

#[test]
fn resolvers_that_change_are_replaced() {
    in_host_network(|| {
        Resolver::at(OTHER_HOST).answer_all([192, 0, 2, 1]);
        Resolver::at(HOST).answer_all([192, 0, 2, 2]);
        let guest = Guest::new();
        let resolvers = resolv_conf_file(&[OTHER_HOST]);
        let _gateway = Gateway::start_with_resolvers(&guest, &resolvers, &[]);
        wait_for_answer(&guest, [192, 0, 2, 1]);
        fs::write(&resolvers.0, resolv_conf(&[HOST])).unwrap();
        wait_for_answer(&guest, [192, 0, 2, 2]);
    });
}

#[test]
fn resolvers_behind_a_link_are_used_and_replaced_with_it() {
    in_host_network(|| {
        Resolver::at(OTHER_HOST).answer_all([192, 0, 2, 1]);
        Resolver::at(HOST).answer_all([192, 0, 2, 2]);
        let guest = Guest::new();
        let [one, other] = [OTHER_HOST, HOST].map(|address| resolv_conf_file(&[address]));
        let etc = TestFile::directory("etc");
        let link = etc.join("resolv.conf");
        symlink(&one.0, &link).unwrap();
        let gateway = command(&format!("netns:{}", guest.namespace), &[]);
        let _gateway = Gateway::start_command(with_mount(&etc, "/etc", &gateway));
        wait_for_answer(&guest, [192, 0, 2, 1]);
        symlink(&other.0, etc.join("new")).unwrap();
        fs::rename(etc.join("new"), &link).unwrap();
        wait_for_answer(&guest, [192, 0, 2, 2]);
    });
}

#[test]
fn a_file_of_resolvers_that_cannot_be_read_to_its_end_does_not_stop_the_gateway() {
    in_host_network(|| {
        Resolver::at(HOST).answer_all([192, 0, 2, 1]);
        let guest = Guest::new();
        let etc = TestFile::directory("etc");
        let path = etc.join("resolv.conf");
        let gateway = command(&format!("netns:{}", guest.namespace), &[]);
        fs::write(&path, resolv_conf(&[HOST])).unwrap();
        let _gateway = Gateway::start_command(with_mount(&etc, "/etc", &gateway));
        let fifo = etc.join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let long = etc.join("long");
        fs::write(&long, format!("#{}\nnameserver {HOST}\n", "x".repeat(1 << 20))).unwrap();
        for unreadable in [fifo, "/dev/zero".to_owned(), long] {
            wait_for_answer(&guest, [192, 0, 2, 1]);
            symlink(&unreadable, etc.join("new")).unwrap();
            fs::rename(etc.join("new"), &path).unwrap();
            poll_until_timeout(|| (outcome(&ask(&guest, 7)).0 == SERVER_FAILURE).then_some(()));
            fs::write(etc.join("new"), resolv_conf(&[HOST])).unwrap();
            fs::rename(etc.join("new"), &path).unwrap();
        }
        wait_for_answer(&guest, [192, 0, 2, 1]);
    });
}
