//! Causes of waiting before the first transfer of an FTP session.
//!
//! Each step takes at least one round trip of the path. Time beyond that is charged to the name
//! server or the server. The greeting is a separate step: a server that is silent after the
//! connection is established does not wait for the check of a password.

use super::observed::{Exchange, FileSession};
use super::reply_delays;
use crate::format::{count, duration};
use crate::verdict::cause::{Cause, CauseKind, Operation};

/// A SYN is retransmitted after one second (RFC 6298 section 2.1), less the granularity of the
/// timer.
const SYN_TIMEOUT_NS: u64 = 950_000_000;
/// Round-trip times below this are near: 5,000 km of fiber in each direction.
pub(super) const MIN_DISTANT_TRIP_NS: u64 = 50_000_000;
/// Round trips of a TLS 1.2 handshake (RFC 5246 section 7.3); TLS 1.3 needs one.
const TLS_TRIPS: u64 = 2;
/// Commands by which a user logs in (RFC 959 section 4.1.1).
const LOGIN_VERBS: [&str; 3] = ["USER", "PASS", "ACCT"];

/// Returns the causes that delay the steps before the first transfer. `trip_ns` is the round-trip
/// time of the path.
///
/// `path_impairment` is set if the data shows that packets are lost or late. Packets of these steps
/// may then be lost or late, too.
pub(super) fn causes(
    session: &FileSession,
    trip_ns: Option<u64>,
    path_impairment: Option<CauseKind>,
) -> Vec<Cause> {
    let trip = trip_ns.unwrap_or(0);
    let steps = Steps { session, trip, total_ns: total_ns(session) };
    let mut causes = vec![steps.name_server()];
    causes.extend(trip_ns.and_then(|_| steps.lost_syn()));
    if trip_ns.is_some() {
        causes.extend([steps.tls(), steps.greeting(), steps.login()]);
        causes.extend(steps.slowest_command());
        causes.push(steps.distance());
    }
    causes.push(steps.processor());
    match path_impairment {
        Some(kind) => causes.into_iter().map(|cause| attributed_to_path(cause, kind)).collect(),
        None => causes,
    }
}

/// Delays due to the repair of a lost packet on a control connection, ns: timers start at 200 ms in
/// most kernels, or at one second if the round-trip time is unknown (RFC 6298), and double.
const REPAIRS_NS: [std::ops::RangeInclusive<u64>; 3] =
    [0..=700_000_000, 950_000_000..=1_150_000_000, 2_950_000_000..=3_250_000_000];
/// Maximum delay of a reordered packet, ns.
const LATEST_PACKET_NS: u64 = 500_000_000;

/// Returns whether the impairment `kind` of the path can delay a step by `delay_ns`.
pub(super) fn can_path_delay(kind: CauseKind, delay_ns: u64) -> bool {
    match kind {
        CauseKind::Reordering => delay_ns <= LATEST_PACKET_NS,
        _ => REPAIRS_NS.iter().any(|range| range.contains(&delay_ns)),
    }
}

/// Attributes a late step of the server to the path, if the impairment `kind` of the path can
/// explain the delay.
fn attributed_to_path(cause: Cause, kind: CauseKind) -> Cause {
    let is_step = matches!(
        cause.kind,
        CauseKind::SlowGreeting | CauseKind::SlowLogin | CauseKind::SlowCommand
    );
    if !is_step || !can_path_delay(kind, cause.cost_ns) {
        return cause;
    }
    let subject = if kind == CauseKind::Loss { "Packet loss" } else { "Reordering on the path" };
    let advice = format!(
        "a packet of the control connection arrived {} late, and packets of the data connections \
         as well. Find the link that loses or delays packets",
        duration(cause.cost_ns)
    );
    Cause { kind, subject: subject.to_owned(), advice, ..cause }
}

fn total_ns(session: &FileSession) -> u64 {
    let known = [session.resolve_ns, session.connect_ns, session.tls_ns, session.login_ns];
    known.into_iter().flatten().fold(0, u64::saturating_add)
}

struct Steps<'a> {
    session: &'a FileSession,
    trip: u64,
    total_ns: u64,
}

impl Steps<'_> {
    fn cause(&self, kind: CauseKind, ns: u64, subject: &str, advice: String) -> Cause {
        let ns = ns.min(self.total_ns);
        Cause {
            kind,
            operation: Operation::Session,
            cost_ns: ns,
            gain_ns: ns,
            total_ns: self.total_ns,
            subject: subject.to_owned(),
            advice,
        }
    }

    fn name_server(&self) -> Cause {
        let advice = "the lookup of the host name took that long. Check the DNS servers in \
                      /etc/resolv.conf, or add the address to /etc/hosts"
            .to_owned();
        let ns = self.session.resolve_ns.unwrap_or(0);
        self.cause(CauseKind::NameServer, ns, "Name resolution", advice)
    }

    fn lost_syn(&self) -> Option<Cause> {
        let delay_ns = self.session.connect_ns?.saturating_sub(self.trip);
        let advice = format!(
            "it was retransmitted after a timeout of 1 s, and the round-trip time is only {}. If \
             this recurs, check the links of the path for errors, and the listen backlog of the \
             server",
            duration(self.trip)
        );
        let cause = self.cause(CauseKind::LostSyn, delay_ns, "A lost SYN", advice);
        (delay_ns >= SYN_TIMEOUT_NS).then_some(cause)
    }

    fn tls(&self) -> Cause {
        let known_ns = self.trip.saturating_mul(TLS_TRIPS);
        let ns = self.session.tls_ns.unwrap_or(0).saturating_sub(known_ns);
        let advice = "it took that long beyond its round trips. Check the load there, and use an \
                      elliptic-curve key instead of RSA, which costs the server most"
            .to_owned();
        self.cause(CauseKind::RemoteHost, ns, "The TLS handshake of the server", advice)
    }

    fn greeting(&self) -> Cause {
        let greeting_ns = self.session.greeting_ns.unwrap_or(0);
        let advice = format!(
            "reply 220 arrived {} after the connection was established, and the round-trip time is \
             {}. Check there for a reverse lookup of this host's address or an ident request \
             (RFC 1413) that times out, and for a connection limit",
            duration(greeting_ns),
            duration(self.trip)
        );
        let delay_ns = greeting_ns.saturating_sub(self.trip);
        self.cause(CauseKind::SlowGreeting, delay_ns, "The server's late greeting", advice)
    }

    fn login(&self) -> Cause {
        let is_login = |exchange: &Exchange| LOGIN_VERBS.contains(&exchange.verb.as_str());
        let ns = reply_delays::delay_ns(&self.session.login, self.trip, is_login);
        let advice = format!(
            "the replies to USER and PASS arrived that much later than their round trips of {}. \
             Check the authentication there (PAM, directory service) and the scripts that run at \
             login",
            duration(self.trip)
        );
        self.cause(CauseKind::SlowLogin, ns, "The server's login check", advice)
    }

    /// Returns the cost of the slowest command of the login, except the commands with user,
    /// password and account.
    fn slowest_command(&self) -> Option<Cause> {
        let others = self.session.login.iter();
        let others = others.filter(|one| !LOGIN_VERBS.contains(&one.verb.as_str()));
        let late = |one: &Exchange| {
            reply_delays::delay_ns(&self.session.login, self.trip, |other| std::ptr::eq(one, other))
        };
        let slowest_reply = others.max_by_key(|one| late(one))?;
        let subject = format!("The server's slow reply to {}", slowest_reply.verb);
        let advice = format!(
            "it arrived that much later than one round trip of {}. Check the load there, and what \
             this command does",
            duration(self.trip)
        );
        Some(self.cause(CauseKind::SlowCommand, late(slowest_reply), &subject, advice))
    }

    fn distance(&self) -> Cause {
        let trips = reply_delays::trips(&self.session.login).saturating_add(2);
        let ns = self.trip.saturating_mul(trips);
        let advice = format!(
            "the connection, the greeting and each command of the login take {}, in {} round \
             trips. Use a server nearby, or keep connections open",
            duration(self.trip),
            count(trips)
        );
        let far_ns = if self.trip >= MIN_DISTANT_TRIP_NS { ns } else { 0 };
        self.cause(CauseKind::Distance, far_ns, "The round-trip time of the path", advice)
    }

    fn processor(&self) -> Cause {
        let ns = self.session.login_wait_ns.unwrap_or(0);
        let advice =
            "plumb waited that long in the run queue of a processor. Stop other processes on \
                      this host"
                .to_owned();
        self.cause(CauseKind::LocalProcessor, ns, "This host's busy processor", advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn exchange(verb: &str, sent_ms: u64, replied_ms: u64) -> Exchange {
        Exchange {
            verb: verb.to_owned(),
            sent_ns: sent_ms * MS,
            replied_ns: Some(replied_ms * MS),
            ..Exchange::default()
        }
    }

    /// Returns a login over a path of 20 ms with the given delays of greeting and password, ms.
    fn session(greeting_ms: u64, password_ms: u64) -> FileSession {
        let user_at = greeting_ms + 20;
        let granted_at = user_at + password_ms;
        FileSession {
            resolve_ns: Some(MS),
            connect_ns: Some(20 * MS),
            greeting_ns: Some(greeting_ms * MS),
            login_ns: Some(granted_at * MS),
            login: vec![
                exchange("USER", greeting_ms, user_at),
                exchange("PASS", user_at, granted_at),
            ],
            ..FileSession::default()
        }
    }

    fn named(session: &FileSession) -> Vec<(CauseKind, u64)> {
        let causes = causes(session, Some(20 * MS), None);
        let causes = causes.into_iter().filter(Cause::stands_out);
        causes.map(|cause| (cause.kind, cause.cost_ns / MS)).collect()
    }

    #[test]
    fn a_late_greeting_is_not_charged_to_the_login() {
        assert_eq!(named(&session(1_020, 20)), [(CauseKind::SlowGreeting, 1_000)]);
    }

    #[test]
    fn a_late_answer_to_the_password_is_charged_to_the_login() {
        assert_eq!(named(&session(20, 620)), [(CauseKind::SlowLogin, 600)]);
    }

    #[test]
    fn a_step_that_takes_only_its_round_trips_is_not_a_cause() {
        assert_eq!(named(&session(20, 20)), []);
        assert_eq!(named(&session(120, 20)), []);
    }

    #[test]
    fn a_connection_that_takes_a_second_longer_lost_its_syn() {
        let connecting = |ms: u64| FileSession { connect_ns: Some(ms * MS), ..session(20, 20) };
        assert_eq!(named(&connecting(1_020)), [(CauseKind::LostSyn, 1_000)]);
        assert_eq!(named(&connecting(900)), []);
    }

    #[test]
    fn another_command_that_is_answered_late_is_named_by_its_verb() {
        let mut session = session(20, 20);
        session.login.push(exchange("FEAT", 60, 580));
        session.login_ns = Some(580 * MS);
        let causes = causes(&session, Some(20 * MS), None);
        let slow = causes.iter().find(|cause| cause.kind == CauseKind::SlowCommand).unwrap();
        assert_eq!(
            (slow.cost_ns, slow.subject.as_str()),
            (500 * MS, "The server's slow reply to FEAT")
        );
    }

    #[test]
    fn the_round_trips_of_a_far_login_are_counted() {
        let far = FileSession {
            connect_ns: Some(100 * MS),
            greeting_ns: Some(100 * MS),
            login_ns: Some(300 * MS),
            login: vec![exchange("USER", 100, 200), exchange("PASS", 200, 300)],
            ..FileSession::default()
        };
        let causes = causes(&far, Some(100 * MS), None);
        let causes: Vec<_> = causes.iter().filter(|cause| cause.stands_out()).collect();
        assert_eq!(causes.len(), 1);
        assert_eq!((causes[0].kind, causes[0].cost_ns), (CauseKind::Distance, 400 * MS));
    }

    /// Returns a session with each step late, over a path of 60 ms.
    fn late_session() -> FileSession {
        FileSession {
            resolve_ns: Some(400 * MS),
            connect_ns: Some(1_060 * MS),
            tls_ns: Some(620 * MS),
            greeting_ns: Some(560 * MS),
            login_ns: Some(3_000 * MS),
            login: vec![
                exchange("USER", 560, 720),
                exchange("PASS", 720, 980),
                exchange("ACCT", 980, 1_540),
                exchange("FEAT", 1_540, 1_900),
                exchange("OPTS", 1_900, 2_360),
                exchange("CWD", 2_360, 2_470),
            ],
            login_wait_ns: Some(310 * MS),
            ..FileSession::default()
        }
    }

    #[test]
    fn each_late_step_is_charged_beyond_its_round_trips() {
        let causes = causes(&late_session(), Some(60 * MS), None);
        insta::assert_snapshot!(crate::verdict::tests::described(&causes), @"
        name server of connection set-up: 400000000 ns, 400000000 ns of 5080000000 ns
          Name resolution costs 400 ms of the 5.08 s of connection set-up (8 %): the lookup of the
          host name took that long. Check the DNS servers in /etc/resolv.conf, or add the address
          to /etc/hosts.
        lost SYN of connection set-up: 1000000000 ns, 1000000000 ns of 5080000000 ns
          A lost SYN costs 1.00 s of the 5.08 s of connection set-up (20 %): it was retransmitted
          after a timeout of 1 s, and the round-trip time is only 60.0 ms. If this recurs, check
          the links of the path for errors, and the listen backlog of the server.
        remote host of connection set-up: 500000000 ns, 500000000 ns of 5080000000 ns
          The TLS handshake of the server costs 500 ms of the 5.08 s of connection set-up (10 %):
          it took that long beyond its round trips. Check the load there, and use an
          elliptic-curve key instead of RSA, which costs the server most.
        slow greeting of connection set-up: 500000000 ns, 500000000 ns of 5080000000 ns
          The server's late greeting costs 500 ms of the 5.08 s of connection set-up (10 %): reply
          220 arrived 560 ms after the connection was established, and the round-trip time is 60.0
          ms. Check there for a reverse lookup of this host's address or an ident request (RFC
          1413) that times out, and for a connection limit.
        slow login of connection set-up: 800000000 ns, 800000000 ns of 5080000000 ns
          The server's login check costs 800 ms of the 5.08 s of connection set-up (16 %): the
          replies to USER and PASS arrived that much later than their round trips of 60.0 ms.
          Check the authentication there (PAM, directory service) and the scripts that run at
          login.
        slow command of connection set-up: 400000000 ns, 400000000 ns of 5080000000 ns
          The server's slow reply to OPTS costs 400 ms of the 5.08 s of connection set-up (8 %):
          it arrived that much later than one round trip of 60.0 ms. Check the load there, and
          what this command does.
        distance of connection set-up: 480000000 ns, 480000000 ns of 5080000000 ns
          The round-trip time of the path costs 480 ms of the 5.08 s of connection set-up (9 %):
          the connection, the greeting and each command of the login take 60.0 ms, in 8 round
          trips. Use a server nearby, or keep connections open.
        own processor of connection set-up: 310000000 ns, 310000000 ns of 5080000000 ns
          This host's busy processor costs 310 ms of the 5.08 s of connection set-up (6 %): plumb
          waited that long in the run queue of a processor. Stop other processes on this host.
        ");
    }

    #[test]
    fn without_a_round_trip_time_only_local_steps_are_charged() {
        let kinds = causes(&late_session(), None, None).iter().map(|cause| cause.kind).collect();
        let kinds: Vec<CauseKind> = kinds;
        assert_eq!(kinds, [CauseKind::NameServer, CauseKind::LocalProcessor]);
    }

    #[test]
    fn a_syn_is_repeated_after_950_ms_at_the_earliest() {
        let is_lost = |connect_ns: u64| {
            let session = FileSession { connect_ns: Some(connect_ns), ..late_session() };
            let causes = causes(&session, Some(60 * MS), None);
            causes.iter().any(|cause| cause.kind == CauseKind::LostSyn)
        };
        assert_eq!([1_010 * MS - 1, 1_010 * MS].map(is_lost), [false, true]);
    }

    #[test]
    fn the_round_trips_of_a_login_count_from_50_ms_on() {
        let distance = |trip: u64| {
            let causes = causes(&late_session(), Some(trip), None);
            causes.iter().find(|cause| cause.kind == CauseKind::Distance).unwrap().cost_ns
        };
        assert_eq!([50 * MS - 1, 50 * MS].map(distance), [0, 8 * 50 * MS]);
    }

    #[test]
    fn late_replies_of_an_impaired_path_are_charged_to_the_path() {
        let texts = |kind: CauseKind, greeting_ms: u64| {
            let session = FileSession { greeting_ns: Some(greeting_ms * MS), ..late_session() };
            let causes = causes(&session, Some(60 * MS), Some(kind));
            let of_path = |cause: &&Cause| {
                [CauseKind::Loss, CauseKind::Reordering, CauseKind::SlowGreeting]
                    .contains(&cause.kind)
            };
            let causes: Vec<Cause> = causes.iter().filter(of_path).cloned().collect();
            crate::verdict::tests::described(&causes)
        };
        // A timer does not explain a delay of 800 ms, and reordering none of more than 500 ms.
        let all = [
            texts(CauseKind::Loss, 560),
            texts(CauseKind::Loss, 860),
            texts(CauseKind::Reordering, 560),
            texts(CauseKind::Reordering, 561),
        ];
        insta::assert_snapshot!(all.join("\n\n"), @"
        loss of connection set-up: 500000000 ns, 500000000 ns of 5080000000 ns
          Packet loss costs 500 ms of the 5.08 s of connection set-up (10 %): a packet of the
          control connection arrived 500 ms late, and packets of the data connections as well.
          Find the link that loses or delays packets.
        loss of connection set-up: 400000000 ns, 400000000 ns of 5080000000 ns
          Packet loss costs 400 ms of the 5.08 s of connection set-up (8 %): a packet of the
          control connection arrived 400 ms late, and packets of the data connections as well.
          Find the link that loses or delays packets.

        slow greeting of connection set-up: 800000000 ns, 800000000 ns of 5080000000 ns
          The server's late greeting costs 800 ms of the 5.08 s of connection set-up (16 %): reply
          220 arrived 860 ms after the connection was established, and the round-trip time is 60.0
          ms. Check there for a reverse lookup of this host's address or an ident request (RFC
          1413) that times out, and for a connection limit.
        loss of connection set-up: 400000000 ns, 400000000 ns of 5080000000 ns
          Packet loss costs 400 ms of the 5.08 s of connection set-up (8 %): a packet of the
          control connection arrived 400 ms late, and packets of the data connections as well.
          Find the link that loses or delays packets.

        reordering of connection set-up: 500000000 ns, 500000000 ns of 5080000000 ns
          Reordering on the path costs 500 ms of the 5.08 s of connection set-up (10 %): a packet
          of the control connection arrived 500 ms late, and packets of the data connections as
          well. Find the link that loses or delays packets.
        reordering of connection set-up: 400000000 ns, 400000000 ns of 5080000000 ns
          Reordering on the path costs 400 ms of the 5.08 s of connection set-up (8 %): a packet
          of the control connection arrived 400 ms late, and packets of the data connections as
          well. Find the link that loses or delays packets.

        slow greeting of connection set-up: 501000000 ns, 501000000 ns of 5080000000 ns
          The server's late greeting costs 501 ms of the 5.08 s of connection set-up (10 %): reply
          220 arrived 561 ms after the connection was established, and the round-trip time is 60.0
          ms. Check there for a reverse lookup of this host's address or an ident request (RFC
          1413) that times out, and for a connection limit.
        reordering of connection set-up: 400000000 ns, 400000000 ns of 5080000000 ns
          Reordering on the path costs 400 ms of the 5.08 s of connection set-up (8 %): a packet
          of the control connection arrived 400 ms late, and packets of the data connections as
          well. Find the link that loses or delays packets.
        ");
    }
}
