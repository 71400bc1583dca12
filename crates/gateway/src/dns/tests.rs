//! Tests of the DNS forwarder, with messages written by hand from RFC 1035 §4.1.

use super::*;
use net::OwnedCx;
use std::collections::BTreeMap;

mod failover;
mod hostile_messages;

/// Flags of a query with RD, and of a response with RD and RA.
const QUERY: [u8; 2] = [0x01, 0x00];
const RESPONSE: [u8; 2] = [0x81, 0x80];
/// The question "a.example IN A".
const QUESTION: &[u8] = b"\x01a\x07example\0\0\x01\0\x01";
/// The answer 192.0.2.1 for the name at offset 12, with a lifetime of one hour.
const ANSWER: &[u8] = b"\xC0\x0C\0\x01\0\x01\0\0\x0E\x10\0\x04\xC0\0\x02\x01";
/// EDNS with a response size of 1232 bytes and a cookie (RFC 7873).
const EDNS: &[u8] = b"\0\0\x29\x04\xD0\0\0\0\0\0\x0C\0\x0A\0\x08cookie12";
const GUEST_ID: u16 = 0x0102;

fn message(id: u16, flags: [u8; 2], counts: [u8; 4], sections: &[&[u8]]) -> Vec<u8> {
    let [i0, i1] = id.to_be_bytes();
    let [questions, answers, authorities, additional] = counts;
    let header =
        [i0, i1, flags[0], flags[1], 0, questions, 0, answers, 0, authorities, 0, additional];
    [&header, &sections.concat()[..]].concat()
}

fn query(id: u16) -> Vec<u8> {
    message(id, QUERY, [1, 0, 0, 0], &[QUESTION])
}

fn response(id: u16) -> Vec<u8> {
    message(id, RESPONSE, [1, 1, 0, 0], &[QUESTION, ANSWER])
}

fn failure(id: u16, code: u8) -> Vec<u8> {
    message(id, [0x81, 0x80 | code], [1, 0, 0, 0], &[QUESTION])
}

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn guest() -> SocketAddr {
    end("10.0.2.100:40000")
}

fn local() -> SocketAddr {
    end("10.0.2.3:53")
}

/// An attempt as the driver sees it.
#[derive(Clone, Debug)]
struct Asked {
    query: QueryId,
    server: SocketAddr,
    id: u16,
    payload: Vec<u8>,
}

struct Fixture {
    forwarder: Forwarder,
    context: OwnedCx,
    /// Open sockets.
    open: BTreeMap<QueryId, Asked>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self::with_resolvers(&["192.0.2.53:53", "[2001:db8::53]:53"])
    }
}

impl Fixture {
    fn with_resolvers(resolvers: &[&str]) -> Self {
        let mut context = OwnedCx::default();
        let resolvers = resolvers.iter().map(|text| end(text)).collect();
        let settings = Settings { resolvers, ..Settings::default() };
        let forwarder = Forwarder::new(settings, &mut context.cx());
        Self { forwarder, context, open: BTreeMap::new() }
    }

    /// Passes a query to the forwarder, and returns the attempts that it makes.
    fn query(&mut self, payload: &[u8]) -> Vec<Asked> {
        self.forwarder.receive_query(guest(), local(), payload, &mut self.context.cx());
        self.asked()
    }

    /// Passes a datagram from a resolver to the forwarder, and returns the attempts that it makes.
    fn receive(&mut self, asked: &Asked, payload: &[u8]) -> Vec<Asked> {
        let mut cx = self.context.cx();
        self.forwarder.receive(asked.query, asked.server, payload, &mut cx);
        self.asked()
    }

    /// Processes the events as a driver does, and returns the new attempts.
    fn asked(&mut self) -> Vec<Asked> {
        let mut new = Vec::new();
        while let Some(event) = self.forwarder.event() {
            match event {
                Event::Ask { query, server, payload } => {
                    let id = u16::from_be_bytes([payload[0], payload[1]]);
                    let asked = Asked { query, server, id, payload };
                    assert!(self.open.insert(query, asked.clone()).is_none());
                    new.push(asked);
                }
                Event::Close { query } => assert!(self.open.remove(&query).is_some()),
            }
        }
        new
    }

    fn replies(&mut self) -> Vec<Vec<u8>> {
        let replies = std::iter::from_fn(|| self.forwarder.transmit());
        replies
            .map(|reply| {
                assert_eq!((reply.source, reply.destination), (local(), guest()));
                reply.payload
            })
            .collect()
    }

    /// Advances the time to the deadline, and returns the attempts made then.
    fn asked_at_deadline(&mut self) -> Vec<Asked> {
        self.context.now = self.forwarder.deadline().unwrap();
        self.forwarder.timeout(&mut self.context.cx());
        self.asked()
    }

    fn counters(&self) -> Counters {
        self.forwarder.counters()
    }
}

#[test]
fn a_query_is_sent_to_the_first_resolver_and_answered_with_the_guests_identifier() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(GUEST_ID));
    let [asked] = &asked[..] else { panic!("one attempt") };
    assert_eq!(asked.server, end("192.0.2.53:53"));
    assert_eq!(asked.payload, query(asked.id));
    assert!(fixture.receive(asked, &response(asked.id)).is_empty());
    assert_eq!(fixture.replies(), [response(GUEST_ID)]);
    assert!(fixture.open.is_empty());
    assert_eq!(fixture.forwarder.deadline(), None);
}

#[test]
fn edns_options_pass_in_both_directions() {
    let mut fixture = Fixture::default();
    let query = message(GUEST_ID, QUERY, [1, 0, 0, 1], &[QUESTION, EDNS]);
    let asked = fixture.query(&query).remove(0);
    assert_eq!(asked.payload[2..], query[2..]);
    let response = message(asked.id, RESPONSE, [1, 1, 0, 1], &[QUESTION, ANSWER, EDNS]);
    fixture.receive(&asked, &response);
    assert_eq!(fixture.replies()[0][2..], response[2..]);
}

#[test]
fn a_name_error_is_an_answer() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(GUEST_ID)).remove(0);
    assert!(fixture.receive(&asked, &failure(asked.id, 3)).is_empty());
    assert_eq!(fixture.replies(), [failure(GUEST_ID, 3)]);
    assert_eq!(fixture.counters().answered, 1);
}

#[test]
fn a_truncated_response_is_passed_to_the_guest() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(GUEST_ID)).remove(0);
    let truncated = [0x83, 0x80];
    // The second answer is cut.
    let response = message(asked.id, truncated, [1, 2, 0, 0], &[QUESTION, ANSWER, &ANSWER[..5]]);
    fixture.receive(&asked, &response);
    let expected = message(GUEST_ID, truncated, [1, 0, 0, 0], &[QUESTION]);
    assert_eq!(fixture.replies(), [expected]);
    assert_eq!(fixture.counters().shortened, 0);
}

#[test]
fn a_response_that_is_too_long_for_the_guest_is_truncated() {
    let answers: Vec<&[u8]> = [&[QUESTION][..], &[ANSWER; 40]].concat();
    for (section, is_shortened) in [(&b""[..], true), (EDNS, false)] {
        let mut fixture = Fixture::default();
        let additional = u8::from(!section.is_empty());
        let query = message(GUEST_ID, QUERY, [1, 0, 0, additional], &[QUESTION, section]);
        let asked = fixture.query(&query).remove(0);
        let response = message(asked.id, RESPONSE, [1, 40, 0, 0], &answers);
        assert!((513..1232).contains(&response.len()));
        fixture.receive(&asked, &response);
        let replies = fixture.replies();
        if is_shortened {
            let expected = message(GUEST_ID, [0x83, 0x80], [1, 0, 0, 0], &[QUESTION]);
            assert_eq!(replies, [expected]);
        } else {
            assert_eq!(replies[0].len(), response.len());
        }
        assert_eq!(fixture.counters().shortened, u64::from(is_shortened));
    }
}

#[test]
fn a_response_has_at_most_4096_bytes_however_many_the_guest_accepts() {
    const EDNS_8192: &[u8] = b"\0\0\x29\x20\0\0\0\0\0\0\0";
    for (answers, is_shortened) in [(254, false), (255, true)] {
        let mut fixture = Fixture::default();
        let query = message(GUEST_ID, QUERY, [1, 0, 0, 1], &[QUESTION, EDNS_8192]);
        let asked = fixture.query(&query).remove(0);
        let sections = [&[QUESTION][..], &vec![ANSWER; answers.into()]].concat();
        let response = message(asked.id, RESPONSE, [1, answers, 0, 0], &sections);
        assert_eq!(response.len() > 4096, is_shortened);
        fixture.receive(&asked, &response);
        assert_eq!(fixture.counters().shortened, u64::from(is_shortened));
    }
}

#[test]
fn bytes_after_the_last_record_are_removed() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&[&query(GUEST_ID), &b"rest"[..]].concat()).remove(0);
    assert_eq!(asked.payload, query(asked.id));
    fixture.receive(&asked, &[&response(asked.id), &b"rest"[..]].concat());
    assert_eq!(fixture.replies(), [response(GUEST_ID)]);
}

#[test]
fn a_repeated_query_is_not_sent_again() {
    let mut fixture = Fixture::default();
    assert_eq!(fixture.query(&query(GUEST_ID)).len(), 1);
    assert!(fixture.query(&query(GUEST_ID)).is_empty());
    assert_eq!(fixture.query(&query(GUEST_ID + 1)).len(), 1);
    assert_eq!(fixture.counters().repeated_queries, 1);
}

#[test]
fn queries_beyond_the_limit_get_a_failure() {
    let mut fixture = Fixture::default();
    for id in 0..66 {
        fixture.query(&query(id));
    }
    assert_eq!(fixture.forwarder.outstanding(), 64);
    assert_eq!(fixture.counters().refused_queries, 2);
    let [first, second] = &fixture.replies()[..] else { panic!("two failures") };
    assert_eq!((first, second), (&failure(64, 2), &failure(65, 2)));
}

#[test]
fn queries_get_a_failure_while_the_driver_has_too_many_events() {
    let mut fixture = Fixture::with_resolvers(&["192.0.2.53:53"]);
    // The driver opens a socket and closes it for each query.
    for number in 0..257_u16 {
        let mut cx = fixture.context.cx();
        fixture.forwarder.receive_query(guest(), local(), &query(number), &mut cx);
        fixture.forwarder.unreachable(QueryId(number.into()), &mut cx);
        assert_eq!(fixture.replies(), [failure(number, 2)]);
    }
    assert_eq!((fixture.counters().unanswered, fixture.counters().refused_queries), (256, 1));
    fixture.asked();
    assert_eq!(fixture.query(&query(GUEST_ID)).len(), 1);
}

#[test]
fn replies_beyond_the_limit_are_dropped_and_counted() {
    let mut fixture = Fixture::with_resolvers(&[]);
    (0..70).for_each(|id| assert!(fixture.query(&query(id)).is_empty()));
    assert_eq!(fixture.replies().len(), 64);
    assert_eq!((fixture.counters().replies, fixture.counters().replies_dropped), (64, 6));
}

#[test]
fn malformed_queries_and_other_operations_get_an_error() {
    let mut fixture = Fixture::default();
    // No question, two questions, and a record that the message does not have.
    for counts in [[0, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 1]] {
        assert!(fixture.query(&message(7, QUERY, counts, &[QUESTION])).is_empty());
        assert_eq!(fixture.replies(), [message(7, [0x81, 0x81], [0; 4], &[])]);
    }
    // A dynamic update (RFC 2136).
    assert!(fixture.query(&message(7, [0x28, 0], [1, 0, 0, 0], &[QUESTION])).is_empty());
    assert_eq!(fixture.replies(), [message(7, [0xA8, 0x84], [0; 4], &[])]);
    // A response, and a query that is too long for one.
    assert!(fixture.query(&response(7)).is_empty());
    assert!(fixture.query(&[&query(7), &[0; 1300][..]].concat()).is_empty());
    assert!(fixture.replies().is_empty());
    let counters = fixture.counters();
    assert_eq!((counters.malformed_queries, counters.unsupported_queries), (3, 1));
    assert_eq!(counters.ignored_queries, 2);
}

#[test]
fn the_queries_of_a_guest_that_is_gone_are_forgotten() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(7)).remove(0);
    let answered = fixture.query(&query(8)).remove(0);
    fixture.receive(&answered, &response(answered.id));
    fixture.forwarder.end_all();
    assert_eq!((fixture.asked().len(), fixture.open.len()), (0, 0));
    assert_eq!(fixture.forwarder.outstanding(), 0);
    fixture.receive(&asked, &response(asked.id));
    assert!(fixture.forwarder.transmit().is_none());
}
