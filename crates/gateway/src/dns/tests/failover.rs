//! Resolvers that do not answer, fail, or change.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_next_resolver_is_asked_after_a_second_and_the_first_response_wins() {
    let mut fixture = Fixture::default();
    let first = fixture.query(&query(GUEST_ID)).remove(0);
    let second = fixture.asked_at_deadline().remove(0);
    assert_eq!(fixture.context.now, Instant::ZERO + SECOND);
    assert_eq!(second.server, end("[2001:db8::53]:53"));
    // Each attempt has a socket and an identifier of its own.
    assert_ne!((first.query, first.id), (second.query, second.id));
    assert_eq!(fixture.open.len(), 2);
    // The first resolver is slow, but not too slow.
    fixture.receive(&first, &response(first.id));
    assert_eq!(fixture.replies(), [response(GUEST_ID)]);
    assert!(fixture.open.is_empty());
    fixture.receive(&second, &response(second.id));
    assert!(fixture.replies().is_empty());
    assert_eq!(fixture.counters().late_responses, 1);
}

#[test]
fn a_resolver_that_fails_is_replaced_at_once() {
    // SERVFAIL, NOTIMP and REFUSED.
    for code in [2, 4, 5] {
        let mut fixture = Fixture::default();
        let first = fixture.query(&query(GUEST_ID)).remove(0);
        let second = fixture.receive(&first, &failure(first.id, code)).remove(0);
        assert_eq!(second.server, end("[2001:db8::53]:53"));
        assert_eq!(fixture.context.now, Instant::ZERO);
        fixture.receive(&second, &response(second.id));
        assert_eq!(fixture.replies(), [response(GUEST_ID)]);
        assert_eq!(fixture.counters().resolver_failures, 1);
    }
}

#[test]
fn if_all_resolvers_fail_the_guest_gets_the_last_failure() {
    let mut fixture = Fixture::default();
    let first = fixture.query(&query(GUEST_ID)).remove(0);
    let second = fixture.receive(&first, &failure(first.id, 2)).remove(0);
    assert!(fixture.receive(&second, &failure(second.id, 5)).is_empty());
    assert_eq!(fixture.replies(), [failure(GUEST_ID, 5)]);
    assert!(fixture.open.is_empty());
}

#[test]
fn a_failure_without_a_question_is_accepted() {
    let mut fixture = Fixture::default();
    let first = fixture.query(&query(GUEST_ID)).remove(0);
    let refused = message(first.id, [0x81, 0x85], [0; 4], &[]);
    let second = fixture.receive(&first, &refused).remove(0);
    // The resolver does not know EDNS: the guest has to know.
    let format_error = message(second.id, [0x81, 0x81], [0; 4], &[]);
    assert!(fixture.receive(&second, &format_error).is_empty());
    assert_eq!(fixture.replies(), [failure(GUEST_ID, 1)]);
}

#[test]
fn a_single_resolver_is_asked_four_times_from_new_sockets() {
    let mut fixture = Fixture::with_resolvers(&["192.0.2.53:53"]);
    let mut attempts = fixture.query(&query(GUEST_ID));
    for second in 1..4 {
        attempts.extend(fixture.asked_at_deadline());
        assert_eq!(fixture.context.now, Instant::ZERO + SECOND * second);
    }
    let sockets: std::collections::BTreeSet<QueryId> =
        attempts.iter().map(|asked| asked.query).collect();
    assert_eq!(sockets.len(), 4);
    assert!(fixture.asked_at_deadline().is_empty());
    assert_eq!(fixture.context.now, Instant::ZERO + Duration::from_millis(4500));
    assert_eq!(fixture.replies(), [failure(GUEST_ID, 2)]);
    assert!(fixture.open.is_empty());
    assert_eq!((fixture.counters().attempts, fixture.counters().unanswered), (4, 1));
}

#[test]
fn a_resolver_that_does_not_answer_is_asked_again_after_the_others() {
    let resolvers = ["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53"];
    let mut fixture = Fixture::with_resolvers(&resolvers);
    let mut attempts = fixture.query(&query(GUEST_ID));
    (0..3).for_each(|_| attempts.extend(fixture.asked_at_deadline()));
    let servers: Vec<SocketAddr> = attempts.iter().map(|asked| asked.server).collect();
    let [one, two, three] = resolvers.map(end);
    assert_eq!(servers, [one, two, three, one]);
}

#[test]
fn a_failed_resolver_is_not_asked_again() {
    let mut fixture = Fixture::default();
    let first = fixture.query(&query(GUEST_ID)).remove(0);
    let second = fixture.asked_at_deadline().remove(0);
    // The first resolver may still answer.
    assert!(fixture.receive(&second, &failure(second.id, 2)).is_empty());
    assert!(fixture.replies().is_empty());
    let third = fixture.asked_at_deadline().remove(0);
    assert_eq!(third.server, first.server);
    fixture.receive(&third, &response(third.id));
    assert_eq!(fixture.replies(), [response(GUEST_ID)]);
}

#[test]
fn an_unreachable_resolver_is_replaced_at_once() {
    let mut fixture = Fixture::default();
    let first = fixture.query(&query(GUEST_ID)).remove(0);
    fixture.forwarder.unreachable(first.query, &mut fixture.context.cx());
    let second = fixture.asked().remove(0);
    fixture.forwarder.unreachable(second.query, &mut fixture.context.cx());
    assert!(fixture.asked().is_empty());
    assert_eq!(fixture.replies(), [failure(GUEST_ID, 2)]);
    assert_eq!((fixture.counters().unreachable, fixture.counters().unanswered), (2, 1));
}

#[test]
fn without_a_resolver_the_guest_gets_a_failure_at_once() {
    let mut fixture = Fixture::with_resolvers(&[]);
    assert!(fixture.query(&query(GUEST_ID)).is_empty());
    assert_eq!(fixture.replies(), [failure(GUEST_ID, 2)]);
}

#[test]
fn new_resolvers_are_asked_at_once_for_outstanding_queries() {
    let mut fixture = Fixture::default();
    fixture.query(&query(GUEST_ID));
    let resolvers = vec![end("192.0.2.99:53")];
    fixture.forwarder.set_resolvers(resolvers, &mut fixture.context.cx());
    let second = fixture.asked().remove(0);
    assert_eq!((second.server, fixture.context.now), (end("192.0.2.99:53"), Instant::ZERO));
    fixture.receive(&second, &response(second.id));
    assert_eq!(fixture.replies(), [response(GUEST_ID)]);
}
