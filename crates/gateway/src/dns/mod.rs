//! A DNS forwarder for one guest: it sends the guest's queries to the resolvers of the host.
//!
//! The guest sends UDP datagrams to the gateway's DNS address. Connections to it are relayed to the
//! first resolver like any other connection. Nothing is cached, so that a forged response reaches at most
//! the query that it answers, and no check of its bailiwick is needed.
//!
//! ```text
//!  guest ── query ──► Forwarder ── Ask ──► new socket ── query ──► resolver
//!        ◄─ response ─          ◄──────── socket ◄───── response ──
//! ```
//!
//! **Forged responses** (row 106 of the attack table). The guest may choose predictable identifiers
//! and ports. Each attempt therefore has a random identifier of its own, and the driver opens a new
//! socket with a random port for it ([`Event::Ask`]). A response must come from the resolver that was
//! asked, to this socket, with this identifier, and with the question of the query, byte by byte. The
//! identifiers are a keyed hash of a counter, so that a resolver that has seen many of them cannot
//! predict the next one. A socket that received several wrong responses is closed, and the query is
//! asked again. The limit on outstanding queries also limits attacks by many queries for one name.
//!
//! **Malformed messages** (row 107). Queries and responses are parsed completely. A malformed
//! response is dropped, and the query waits for another one. A response that is longer than the guest
//! accepts is replaced by a truncated one, and the guest repeats its query over TCP. EDNS options
//! pass unchanged.
//!
//! **Failover.** The resolvers are asked in their order. If a resolver does not answer within a
//! second, the next one is asked as well, and the first response wins; after the last resolver
//! follows the first one again, up to four attempts. A resolver that answers SERVFAIL, NOTIMP or
//! REFUSED, or that is unreachable, is not asked again for this query, and the next one is asked at
//! once. If all of them fail, the guest gets the last failure; if none answers, it gets SERVFAIL, in
//! less than the five seconds after which the resolver of glibc repeats a query.
//!
//! Only standard queries are forwarded. Other operations, such as dynamic updates, get NOTIMP.

mod message;
#[cfg(test)]
mod tests;

use message::{Query, QueryError, Response, ResponseCode, ResponseError};
use net::time::{Duration, Instant};
use net::{Cx, rng::Rng};
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::net::SocketAddr;

/// Time after which a query without a response is sent to the next resolver.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of attempts for a query.
const ATTEMPTS_MAX: usize = 4;
/// Time after the last attempt until the guest gets a failure.
const LAST_TIMEOUT: Duration = Duration::from_millis(1500);
/// Wrong responses to one socket after which it is closed. Fewer than this number are expected from
/// an attacker who does not know the port.
const WRONG_RESPONSES_MAX: u32 = 8;
/// Maximum length of a response in bytes. The sizes that resolvers recommend are smaller (DNS Flag
/// Day 2020: 1232).
const RESPONSE_MAX_LEN: usize = 4096;
/// Maximum length of a query in bytes.
const QUERY_MAX_LEN: usize = 1232;
/// Default limit of outstanding queries.
const OUTSTANDING_MAX: usize = 64;
/// Maximum number of queued responses; one more is dropped.
const REPLIES_LIMIT: usize = 64;
/// Maximum number of events after which no further query is accepted until the driver has processed
/// them.
const EVENTS_LIMIT: usize = 512;

/// Settings of a forwarder.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The resolvers in the order in which they are asked.
    pub resolvers: Vec<SocketAddr>,
    /// Maximum number of outstanding queries; one more gets SERVFAIL.
    pub outstanding_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { resolvers: Vec::new(), outstanding_max: OUTSTANDING_MAX }
    }
}

/// Identifies one attempt to ask a resolver. An identifier is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(u64);

/// Actions that the driver carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open a socket with a random port, send `payload` to `server`, and pass each datagram that the
    /// socket receives to [`Forwarder::receive`].
    Ask {
        /// The attempt to which the socket belongs.
        query: QueryId,
        /// The resolver.
        server: SocketAddr,
        /// The query.
        payload: Vec<u8>,
    },
    /// Close the socket of this attempt.
    Close {
        /// The attempt.
        query: QueryId,
    },
}

/// A response to the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The address to which the guest has sent its query.
    pub source: SocketAddr,
    /// The address and port of the guest.
    pub destination: SocketAddr,
    /// The DNS message.
    pub payload: Vec<u8>,
}

/// Counters of a forwarder, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams of the guest.
    pub queries: u64,
    /// Datagrams of the guest that are not a query or are too short or too long for one.
    pub ignored_queries: u64,
    /// Repeated queries that are still outstanding.
    pub repeated_queries: u64,
    /// Malformed queries, answered with FORMERR.
    pub malformed_queries: u64,
    /// Operations other than a query, answered with NOTIMP.
    pub unsupported_queries: u64,
    /// Queries refused because too many are outstanding, answered with SERVFAIL.
    pub refused_queries: u64,
    /// Attempts to ask a resolver.
    pub attempts: u64,
    /// Attempts after the first of a query.
    pub repeated_attempts: u64,
    /// Responses of resolvers passed to the guest.
    pub answered: u64,
    /// Queries that no resolver has answered, answered with SERVFAIL.
    pub unanswered: u64,
    /// Responses with SERVFAIL, NOTIMP or REFUSED.
    pub resolver_failures: u64,
    /// Attempts whose resolver was unreachable.
    pub unreachable: u64,
    /// Datagrams for an attempt that has ended.
    pub late_responses: u64,
    /// Responses from another address than the resolver's.
    pub wrong_sources: u64,
    /// Responses with another identifier.
    pub wrong_identifiers: u64,
    /// Responses with another question.
    pub wrong_questions: u64,
    /// Malformed responses.
    pub malformed_responses: u64,
    /// Sockets closed because they received too many wrong responses.
    pub closed_for_wrong_responses: u64,
    /// Responses shortened because they are too long for the guest.
    pub shortened: u64,
    /// Replies queued for the guest.
    pub replies: u64,
    /// Replies dropped because too many are queued.
    pub replies_dropped: u64,
}

/// A DNS forwarder for one guest.
#[derive(Debug)]
pub struct Forwarder {
    resolvers: Vec<SocketAddr>,
    outstanding_max: usize,
    outstanding: Vec<Outstanding>,
    identifiers: Identifiers,
    replies: VecDeque<Reply>,
    events: VecDeque<Event>,
    counters: Counters,
}

/// A query of the guest that is not answered yet.
#[derive(Debug)]
struct Outstanding {
    guest: SocketAddr,
    local: SocketAddr,
    query: Query,
    attempts: Vec<Attempt>,
    /// Number of attempts so far, with those that have ended.
    attempts_made: usize,
    /// Index of the resolver to ask next.
    next_resolver: usize,
    /// Resolvers that have failed.
    failed: Vec<SocketAddr>,
    /// The last failure that a resolver has sent.
    failure: Option<Vec<u8>>,
    /// Time of the next attempt, or of the failure after the last one.
    due: Instant,
}

/// An attempt whose socket is open.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    query: QueryId,
    server: SocketAddr,
    id: u16,
    wrong_responses: u32,
}

/// The source of identifiers: a keyed hash of a counter.
#[derive(Clone, Debug)]
struct Identifiers {
    key: (u64, u64),
    next: u64,
}

impl Forwarder {
    /// Returns a forwarder without outstanding queries.
    #[must_use]
    pub fn new(settings: Settings, cx: &mut Cx<'_>) -> Self {
        Self {
            resolvers: settings.resolvers,
            outstanding_max: settings.outstanding_max,
            outstanding: Vec::new(),
            identifiers: Identifiers::draw(cx.rng),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Processes a datagram that `guest` has sent to the DNS address `local` of the gateway.
    pub fn receive_query(
        &mut self,
        guest: SocketAddr,
        local: SocketAddr,
        payload: &[u8],
        cx: &mut Cx<'_>,
    ) {
        self.counters.queries += 1;
        if payload.len() > QUERY_MAX_LEN {
            self.counters.ignored_queries += 1;
            return;
        }
        let query = match Query::parse(payload) {
            Ok(query) => query,
            Err(error) => return self.reject(guest, local, payload, error),
        };
        let is_repeated = |known: &Outstanding| {
            known.guest == guest && known.local == local && known.query == query
        };
        if self.outstanding.iter().any(is_repeated) {
            self.counters.repeated_queries += 1;
            return;
        }
        let is_full = self.outstanding.len() >= self.outstanding_max;
        if is_full || self.events.len() >= EVENTS_LIMIT {
            self.counters.refused_queries += 1;
            let payload = query.error(ResponseCode::SERVER_FAILURE);
            return self.reply(guest, local, payload);
        }
        let mut outstanding = Outstanding {
            guest,
            local,
            query,
            attempts: Vec::new(),
            attempts_made: 0,
            next_resolver: 0,
            failed: Vec::new(),
            failure: None,
            due: cx.now,
        };
        if self.ask_next(&mut outstanding, cx) {
            self.outstanding.push(outstanding);
        } else {
            self.finish(outstanding);
        }
    }

    /// Processes a datagram from `source` that the socket of an attempt has received.
    pub fn receive(&mut self, query: QueryId, source: SocketAddr, payload: &[u8], cx: &mut Cx<'_>) {
        let Some((index, attempt)) = self.find(query) else {
            self.counters.late_responses += 1;
            return;
        };
        let Some(outstanding) = self.outstanding.get(index) else { return };
        let is_from_server = canonical(source) == canonical(attempt.server);
        let response = is_from_server
            .then(|| outstanding.query.parse_response(payload, attempt.id, RESPONSE_MAX_LEN));
        match response {
            Some(Ok(response)) if response.code.is_failure() => {
                self.counters.resolver_failures += 1;
                self.fail(index, attempt, Some(response.message), cx);
            }
            Some(Ok(response)) => self.answer(index, response),
            wrong => {
                *match wrong {
                    Some(Err(ResponseError::Identifier)) => &mut self.counters.wrong_identifiers,
                    Some(Err(ResponseError::Question)) => &mut self.counters.wrong_questions,
                    Some(_) => &mut self.counters.malformed_responses,
                    None => &mut self.counters.wrong_sources,
                } += 1;
                self.count_wrong_response(index, query);
            }
        }
    }

    /// Reports that the resolver of an attempt is unreachable, or that its socket cannot be opened.
    pub fn unreachable(&mut self, query: QueryId, cx: &mut Cx<'_>) {
        let Some((index, attempt)) = self.find(query) else { return };
        self.counters.unreachable += 1;
        self.fail(index, attempt, None, cx);
    }

    /// Returns the next response to be sent to the guest.
    pub fn transmit(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Returns the next action of the driver.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.outstanding.iter().map(|outstanding| outstanding.due).min()
    }

    /// Asks the next resolver for each query that waits too long, and answers the queries whose last
    /// attempt has timed out.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        for mut outstanding in std::mem::take(&mut self.outstanding) {
            if outstanding.due > cx.now || self.ask_next(&mut outstanding, cx) {
                self.outstanding.push(outstanding);
            } else {
                self.finish(outstanding);
            }
        }
    }

    /// Replaces the resolvers. The next attempt of each outstanding query asks the first of them at
    /// once.
    pub fn set_resolvers(&mut self, resolvers: Vec<SocketAddr>, cx: &mut Cx<'_>) {
        self.resolvers = resolvers;
        for outstanding in &mut self.outstanding {
            outstanding.next_resolver = 0;
            outstanding.failed.clear();
            outstanding.due = cx.now;
        }
        self.timeout(cx);
    }

    /// Forgets all queries and responses: the guest is gone.
    pub fn end_all(&mut self) {
        self.replies.clear();
        for outstanding in std::mem::take(&mut self.outstanding) {
            let attempts = outstanding.attempts.into_iter();
            self.events.extend(attempts.map(|attempt| Event::Close { query: attempt.query }));
        }
    }

    /// Returns the resolvers in the order in which they are asked.
    #[must_use]
    pub fn resolvers(&self) -> &[SocketAddr] {
        &self.resolvers
    }

    /// Returns the number of outstanding queries.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn reject(&mut self, guest: SocketAddr, local: SocketAddr, payload: &[u8], error: QueryError) {
        let code = match error {
            QueryError::NotAQuery => {
                self.counters.ignored_queries += 1;
                return;
            }
            QueryError::Format => {
                self.counters.malformed_queries += 1;
                ResponseCode::FORMAT_ERROR
            }
            QueryError::Operation => {
                self.counters.unsupported_queries += 1;
                ResponseCode::NOT_IMPLEMENTED
            }
        };
        if let Some(payload) = message::error_without_question(payload, code) {
            self.reply(guest, local, payload);
        }
    }

    /// Returns the index of the query of an attempt whose socket is open, and the attempt.
    fn find(&self, query: QueryId) -> Option<(usize, Attempt)> {
        self.outstanding.iter().enumerate().find_map(|(index, outstanding)| {
            let attempt = outstanding.attempts.iter().find(|attempt| attempt.query == query);
            Some((index, *attempt?))
        })
    }

    /// Asks the next resolver. Returns false if there is none, or after the last attempt.
    fn ask_next(&mut self, outstanding: &mut Outstanding, cx: &Cx<'_>) -> bool {
        if outstanding.attempts_made >= ATTEMPTS_MAX {
            return false;
        }
        let candidates = (0..self.resolvers.len()).map(|offset| outstanding.next_resolver + offset);
        let mut candidates = candidates.filter_map(|index| {
            let server = self.resolvers.get(index % self.resolvers.len())?;
            (!outstanding.failed.contains(server)).then_some((index, *server))
        });
        let Some((index, server)) = candidates.next() else { return false };
        outstanding.next_resolver = index + 1;
        outstanding.attempts_made += 1;
        let is_last = outstanding.attempts_made == ATTEMPTS_MAX;
        outstanding.due = cx.now + if is_last { LAST_TIMEOUT } else { ATTEMPT_INTERVAL };
        self.counters.attempts += 1;
        self.counters.repeated_attempts += u64::from(outstanding.attempts_made > 1);
        let (query, id) = self.identifiers.next();
        outstanding.attempts.push(Attempt { query, server, id, wrong_responses: 0 });
        let payload = outstanding.query.with_id(id);
        self.events.push_back(Event::Ask { query, server, payload });
        true
    }

    /// Ends an attempt whose resolver has failed, and asks the next resolver.
    fn fail(&mut self, index: usize, attempt: Attempt, failure: Option<Vec<u8>>, cx: &mut Cx<'_>) {
        let mut outstanding = self.outstanding.remove(index);
        self.close(&mut outstanding, attempt.query);
        outstanding.failed.push(attempt.server);
        outstanding.failure = failure.or(outstanding.failure.take());
        let has_unasked = outstanding.attempts_made < self.resolvers.len();
        let is_waiting = !outstanding.attempts.is_empty();
        // A resolver that was asked before may still answer. It is asked again when it is due.
        let is_asked = (has_unasked || !is_waiting) && self.ask_next(&mut outstanding, cx);
        if is_asked || is_waiting {
            self.outstanding.push(outstanding);
        } else {
            self.finish(outstanding);
        }
    }

    /// Counts a wrong response to an attempt. Too many of them close its socket; the query is asked
    /// again when it is due.
    fn count_wrong_response(&mut self, index: usize, query: QueryId) {
        let Some(outstanding) = self.outstanding.get_mut(index) else { return };
        let Some(attempt) = outstanding.attempts.iter_mut().find(|a| a.query == query) else {
            return;
        };
        attempt.wrong_responses += 1;
        if attempt.wrong_responses >= WRONG_RESPONSES_MAX {
            outstanding.attempts.retain(|attempt| attempt.query != query);
            self.counters.closed_for_wrong_responses += 1;
            self.events.push_back(Event::Close { query });
        }
    }

    fn close(&mut self, outstanding: &mut Outstanding, query: QueryId) {
        outstanding.attempts.retain(|attempt| attempt.query != query);
        self.events.push_back(Event::Close { query });
    }

    /// Passes a response to the guest.
    fn answer(&mut self, index: usize, response: Response) {
        let outstanding = self.outstanding.remove(index);
        self.counters.answered += 1;
        self.counters.shortened += u64::from(response.is_shortened);
        self.end(&outstanding, response.message);
    }

    /// Answers a query that no resolver has answered.
    fn finish(&mut self, mut outstanding: Outstanding) {
        let message = match outstanding.failure.take() {
            Some(failure) => {
                self.counters.answered += 1;
                failure
            }
            None => {
                self.counters.unanswered += 1;
                outstanding.query.error(ResponseCode::SERVER_FAILURE)
            }
        };
        self.end(&outstanding, message);
    }

    fn end(&mut self, outstanding: &Outstanding, message: Vec<u8>) {
        for attempt in &outstanding.attempts {
            self.events.push_back(Event::Close { query: attempt.query });
        }
        let payload = message::with_id(message, outstanding.query.id());
        self.reply(outstanding.guest, outstanding.local, payload);
    }

    fn reply(&mut self, guest: SocketAddr, local: SocketAddr, payload: Vec<u8>) {
        if self.replies.len() < REPLIES_LIMIT {
            self.counters.replies += 1;
            self.replies.push_back(Reply { source: local, destination: guest, payload });
        } else {
            self.counters.replies_dropped += 1;
        }
    }
}

impl Identifiers {
    fn draw(rng: &mut Rng) -> Self {
        Self { key: (rng.next_u64(), rng.next_u64()), next: 0 }
    }

    /// Returns the identifier of an attempt, and that of its query.
    fn next(&mut self) -> (QueryId, u16) {
        let query = QueryId(self.next);
        self.next += 1;
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write_u64(query.0);
        let [high, low, ..] = hasher.finish().to_be_bytes();
        (query, u16::from_be_bytes([high, low]))
    }
}

/// Returns an address without flow information and scope, and a mapped address as an IPv4 address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
