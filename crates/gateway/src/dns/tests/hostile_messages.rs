//! Forged and malformed messages.

use super::*;
use net::rng::Rng;
use proptest::prelude::*;

// attack row 106
#[test]
fn row_106_a_response_counts_only_with_all_fields_of_its_query() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(GUEST_ID)).remove(0);
    let good = response(asked.id);
    let other_server = Asked { server: end("192.0.2.54:53"), ..asked.clone() };
    let other_port = Asked { server: end("192.0.2.53:54"), ..asked.clone() };
    fixture.receive(&other_server, &good);
    fixture.receive(&other_port, &good);
    fixture.receive(&asked, &response(asked.id ^ 1));
    // Another name, another case of a letter, another type, and another class.
    for (at, value) in [(13, b'b'), (13, b'A'), (24, 28), (26, 3)] {
        let mut wrong = good.clone();
        wrong[at] = value;
        fixture.receive(&asked, &wrong);
    }
    assert!(fixture.replies().is_empty());
    let counters = fixture.counters();
    assert_eq!((counters.wrong_sources, counters.wrong_identifiers), (2, 1));
    assert_eq!((counters.wrong_questions, counters.answered), (4, 0));
    fixture.receive(&asked, &good);
    assert_eq!(fixture.replies(), [response(GUEST_ID)]);
}

// attack row 106
#[test]
fn row_106_the_case_of_the_guests_letters_is_kept_and_compared() {
    let mut fixture = Fixture::default();
    let question = b"\x01A\x07eXaMpLe\0\0\x01\0\x01";
    let asked = fixture.query(&message(GUEST_ID, QUERY, [1, 0, 0, 0], &[question])).remove(0);
    assert_eq!(asked.payload[12..], question[..]);
    fixture.receive(&asked, &response(asked.id));
    assert_eq!(fixture.counters().wrong_questions, 1);
}

// attack row 106
#[test]
fn row_106_a_socket_with_many_wrong_responses_is_closed_and_the_query_asked_again() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(GUEST_ID)).remove(0);
    for wrong in 1..=8_u16 {
        fixture.receive(&asked, &response(asked.id ^ wrong));
    }
    assert!(fixture.open.is_empty());
    // The right identifier comes too late.
    fixture.receive(&asked, &response(asked.id));
    assert!(fixture.replies().is_empty());
    assert_eq!(fixture.counters().closed_for_wrong_responses, 1);
    let second = fixture.asked_at_deadline().remove(0);
    fixture.receive(&second, &response(second.id));
    assert_eq!(fixture.replies(), [response(GUEST_ID)]);
}

// attack row 106
#[test]
fn row_106_a_query_or_another_operation_is_no_response() {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(GUEST_ID)).remove(0);
    // QR is clear, and a notification (RFC 1996).
    for flags in [QUERY, [0xA1, 0x80]] {
        fixture.receive(&asked, &message(asked.id, flags, [1, 1, 0, 0], &[QUESTION, ANSWER]));
    }
    assert!(fixture.replies().is_empty());
    assert_eq!(fixture.counters().malformed_responses, 2);
}

/// Returns the identifiers of the queries of a guest that always uses the same one.
fn identifiers(seed: u64, count: usize) -> Vec<u16> {
    let mut context = OwnedCx::with_seed(seed);
    let settings = Settings { resolvers: vec![end("192.0.2.53:53")], ..Settings::default() };
    let forwarder = Forwarder::new(settings, &mut context.cx());
    let mut fixture = Fixture { forwarder, context, open: BTreeMap::new() };
    (0..count)
        .map(|_| {
            let asked = fixture.query(&query(GUEST_ID)).remove(0);
            fixture.receive(&asked, &response(asked.id));
            fixture.replies();
            asked.id
        })
        .collect()
}

// attack row 106
#[test]
fn row_106_identifiers_are_uniform_and_differ_with_the_seed() {
    let ids = identifiers(1, 25_600);
    // 256 bins of 100 expected identifiers; for both bytes of the identifier.
    for shift in [0, 8] {
        let mut bins = [0_i64; 256];
        ids.iter().for_each(|id| bins[usize::from(id >> shift & 0xFF)] += 1);
        let chi_square: i64 = bins.iter().map(|bin| (bin - 100) * (bin - 100)).sum::<i64>() / 100;
        // 255 degrees of freedom: 99.99 % are between 176 and 349.
        assert!((176..349).contains(&chi_square), "{chi_square}");
    }
    let steps: std::collections::BTreeSet<u16> =
        ids.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(steps.len() > 20_000, "{} different steps", steps.len());
    let other = identifiers(2, 1000);
    let same = ids.iter().zip(&other).filter(|(one, other)| one == other).count();
    assert!(same < 5, "{same}");
}

// attack row 107
#[test]
fn row_107_a_response_cut_at_any_byte_is_dropped() {
    let records = [QUESTION, ANSWER, EDNS];
    let whole = |id| message(id, RESPONSE, [1, 1, 0, 1], &records);
    for len in 0..whole(0).len() {
        let mut fixture = Fixture::default();
        let asked = fixture.query(&query(GUEST_ID)).remove(0);
        fixture.receive(&asked, &whole(asked.id)[..len]);
        assert!(fixture.replies().is_empty(), "{len}");
        assert_eq!(fixture.counters().malformed_responses, 1, "{len}");
    }
}

// attack row 107
#[test]
fn row_107_a_query_cut_at_any_byte_is_not_forwarded() {
    let whole = message(GUEST_ID, QUERY, [1, 0, 0, 1], &[QUESTION, EDNS]);
    for len in 0..whole.len() {
        let mut fixture = Fixture::default();
        assert!(fixture.query(&whole[..len]).is_empty(), "{len}");
        let counters = fixture.counters();
        assert_eq!(counters.ignored_queries + counters.malformed_queries, 1, "{len}");
        // The answer to a malformed query has 12 bytes, all of its own.
        assert!(fixture.replies().iter().all(|reply| reply.len() == 12));
    }
}

/// Passes a response with this answer section to a query, and returns whether it is accepted.
fn accepts(answers: u8, section: &[u8]) -> bool {
    let mut fixture = Fixture::default();
    let asked = fixture.query(&query(GUEST_ID)).remove(0);
    let response = message(asked.id, RESPONSE, [1, answers, 0, 0], &[QUESTION, section]);
    fixture.receive(&asked, &response);
    let counters = fixture.counters();
    assert_eq!(counters.answered + counters.malformed_responses, 1);
    counters.answered == 1
}

/// Returns a record for the name at offset 12 with this type and data.
fn record(kind: u8, data: &[u8]) -> Vec<u8> {
    let [l0, l1] = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&[0xC0, 0x0C, 0, kind, 0, 1, 0, 0, 0, 0, l0, l1], data].concat()
}

// attack row 107
#[test]
fn row_107_counts_and_lengths_that_exceed_the_message_are_malformed() {
    assert!(accepts(1, ANSWER));
    assert!(!accepts(2, ANSWER));
    assert!(!accepts(255, ANSWER));
    let mut long_data = ANSWER.to_vec();
    long_data[11] = 5;
    assert!(!accepts(1, &long_data));
}

// attack row 107
#[test]
fn row_107_names_in_the_data_of_records_are_checked() {
    // The data begins at offset 39, and the name of SRV at 45: a pointer to itself.
    let loops = b"\x01x\xC0\x29";
    let srv_loops = b"\x01x\xC0\x2D";
    let soa_end = [0; 20];
    let mx_start = [0, 10];
    let srv_start = [0, 1, 0, 2, 0, 53];
    let name = b"\x01x\xC0\x0C";
    let check = |kind, good: &[&[u8]], bad: &[&[u8]]| {
        assert!(accepts(1, &record(kind, &good.concat())), "{kind}");
        assert!(!accepts(1, &record(kind, &bad.concat())), "{kind}");
    };
    check(2, &[name], &[loops]);
    check(5, &[name], &[name, b"x"]);
    check(6, &[name, b"\0", &soa_end], &[name, &soa_end]);
    check(12, &[name], &[b"\x40a\0"]);
    check(15, &[&mx_start, name], &[&mx_start]);
    check(33, &[&srv_start, name], &[&srv_start, srv_loops]);
    check(39, &[b"\x01y\0"], &[b"\x01"]);
    // The data of other types is not interpreted.
    assert!(accepts(1, &record(16, loops)));
}

/// Answers of a resolver: right, wrong, malformed or none.
fn random_step(fixture: &mut Fixture, rng: &mut Rng) {
    let choose = |rng: &mut Rng, count: usize| usize::try_from(rng.below(count as u64)).unwrap();
    if rng.below(3) == 0 {
        let id = u16::try_from(rng.below(200)).unwrap();
        let mut payload = if rng.below(2) == 0 {
            query(id)
        } else {
            message(id, QUERY, [1, 0, 0, 1], &[QUESTION, EDNS])
        };
        mutate(&mut payload, rng);
        fixture.query(&payload);
    }
    if rng.below(4) == 0 {
        let resolvers = (0..rng.below(4)).map(|n| end(&format!("192.0.2.{n}:53"))).collect();
        fixture.forwarder.set_resolvers(resolvers, &mut fixture.context.cx());
    }
    let open: Vec<Asked> = fixture.open.values().cloned().collect();
    if !open.is_empty() {
        let asked = &open[choose(rng, open.len())];
        let code = u8::try_from(rng.below(6)).unwrap();
        let mut payload = match rng.below(4) {
            0 => failure(asked.id, code),
            1 => message(asked.id, RESPONSE, [1, 1, 0, 1], &[QUESTION, ANSWER, EDNS]),
            2 => {
                fixture.forwarder.unreachable(asked.query, &mut fixture.context.cx());
                Vec::new()
            }
            _ => response(asked.id),
        };
        mutate(&mut payload, rng);
        fixture.receive(asked, &payload);
    }
    fixture.context.advance_millis(rng.below(700));
    fixture.forwarder.timeout(&mut fixture.context.cx());
    fixture.asked();
}

fn mutate(payload: &mut Vec<u8>, rng: &mut Rng) {
    if payload.is_empty() || rng.below(2) == 0 {
        return;
    }
    for _ in 0..rng.below(3) {
        let at = usize::try_from(rng.below(payload.len() as u64)).unwrap();
        payload[at] = rng.next_u64().to_be_bytes()[0];
    }
    if rng.below(4) == 0 {
        payload.truncate(usize::try_from(rng.below(payload.len() as u64)).unwrap());
    }
}

/// Every query is answered once, ignored or outstanding.
fn assert_every_query_is_counted(fixture: &Fixture) {
    let counters = fixture.counters();
    let ignored = counters.ignored_queries + counters.repeated_queries;
    let rejected =
        counters.malformed_queries + counters.unsupported_queries + counters.refused_queries;
    let answered = counters.answered + counters.unanswered;
    let outstanding = fixture.forwarder.outstanding() as u64;
    assert_eq!(counters.queries, ignored + rejected + answered + outstanding);
    assert_eq!(counters.replies + counters.replies_dropped, rejected + answered);
}

// attack rows 106, 107
#[test]
fn row_106_and_107_random_queries_and_responses_are_answered_once() {
    for seed in 0..20 {
        let mut rng = Rng::from_seed(seed);
        let mut fixture = Fixture::default();
        for _ in 0..500 {
            random_step(&mut fixture, &mut rng);
            assert_every_query_is_counted(&fixture);
            assert!(fixture.forwarder.outstanding() <= 64 && fixture.open.len() <= 64 * 4);
            fixture.replies();
        }
        // Without further input, everything ends.
        while fixture.forwarder.deadline().is_some() {
            fixture.asked_at_deadline();
        }
        assert!(fixture.open.is_empty(), "seed {seed}");
        assert_every_query_is_counted(&fixture);
    }
}

proptest! {
    // attack row 107
    #[test]
    fn row_107_any_bytes_as_a_query_are_forwarded_or_rejected(
        bytes in prop::collection::vec(any::<u8>(), 0..120), has_question: bool,
    ) {
        let mut fixture = Fixture::default();
        let start = if has_question { query(GUEST_ID) } else { Vec::new() };
        let mut payload = [start, bytes].concat();
        if let Some(additional) = payload.get_mut(11).filter(|_| has_question) {
            *additional = 1;
        }
        let asked = fixture.query(&payload);
        for asked in asked {
            prop_assert_eq!(&asked.payload[2..], &payload[2..asked.payload.len()]);
        }
        assert_every_query_is_counted(&fixture);
    }

    // attack row 107
    #[test]
    fn row_107_any_bytes_as_records_are_passed_unchanged_or_dropped(
        bytes in prop::collection::vec(any::<u8>(), 0..200), counts in [0_u8..3, 0..3, 0..3],
    ) {
        let mut fixture = Fixture::default();
        let asked = fixture.query(&query(GUEST_ID)).remove(0);
        let [answers, authorities, additional] = counts;
        let counts = [1, answers, authorities, additional];
        let response = message(asked.id, RESPONSE, counts, &[QUESTION, &bytes]);
        fixture.receive(&asked, &response);
        for reply in fixture.replies() {
            prop_assert_eq!(&reply[2..], &response[2..reply.len()]);
        }
        assert_every_query_is_counted(&fixture);
    }
}
