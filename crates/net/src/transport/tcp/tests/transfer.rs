//! Tests of whole connections: open, transfer under faults, close.

use super::*;
use crate::meter::Counter;

#[test]
fn a_connection_opens_in_three_segments_and_both_sides_report_it() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(Profile::BULK);
    assert_eq!(pair.state(Side::Client, client), State::Established);
    assert_eq!(pair.state(Side::Server, server), State::Established);
    let flags: Vec<_> = pair.trace.iter().map(|t| t.2.flags).collect();
    assert_eq!(flags, [Flags::SYN, Flags::SYN.with(Flags::ACK), Flags::ACK]);
    assert!(pair.events.contains(&(Side::Client, client, Event::Established)));
}

#[test]
fn a_megabyte_arrives_whole_in_both_directions() {
    let mut pair = Pair::new(2);
    let (client, server) = pair.connect(Profile::BULK);
    let data = pattern(1 << 20);
    assert!(pair.transfer(Side::Client, (client, server), &data) == data);
    assert!(pair.transfer(Side::Server, (server, client), &data) == data);
    assert_eq!(pair.context.counted(Counter::TcpRetransmissions), 0);
}

#[test]
fn an_interactive_screenful_needs_no_window_update_before_its_end() {
    let mut pair = Pair::new(3);
    let (client, server) = pair.connect(Profile::INTERACTIVE);
    let data = pattern(2000);
    assert!(pair.transfer(Side::Server, (server, client), &data) == data);
}

#[test]
fn one_lost_segment_of_a_flight_is_repaired_without_a_timeout() {
    let mut pair = Pair::new(4);
    let (client, server) = pair.connect(Profile::BULK);
    pair.fate = Box::new(|number, _, _| number != 8);
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, (client, server), &data) == data);
    assert_eq!(pair.context.counted(Counter::TcpFastRetransmits), 1);
    assert_eq!(pair.context.counted(Counter::TcpTimeouts), 0);
}

#[test]
fn everything_arrives_when_every_fifth_segment_is_lost() {
    let mut pair = Pair::new(5);
    let (client, server) = pair.connect(Profile::BULK);
    pair.fate = Box::new(|number, _, _| number % 5 != 0);
    let data = pattern(200_000);
    assert!(pair.transfer(Side::Client, (client, server), &data) == data);
}

#[test]
fn close_by_one_side_and_then_the_other_leads_through_time_wait() {
    let mut pair = Pair::new(6);
    let (client, server) = pair.connect(Profile::BULK);
    pair.client.close(client).unwrap();
    pair.drive();
    assert_eq!(pair.state(Side::Client, client), State::FinWait2);
    assert_eq!(pair.state(Side::Server, server), State::CloseWait);
    pair.server.close(server).unwrap();
    pair.drive();
    assert_eq!(pair.state(Side::Client, client), State::TimeWait);
    assert_eq!(pair.state(Side::Server, server), State::Closed);
    pair.run(Duration::from_secs(61));
    assert_eq!(pair.state(Side::Client, client), State::Closed);
}

#[test]
fn a_changed_profile_applies_from_the_next_segment_on() {
    let mut script = Script::established(PLAIN);
    script.send(b"a");
    assert_eq!(texts(&script.send(b"b")), [""; 0]);
    let id = script.id.unwrap();
    script.tcp.set_profile(id, Profile { nagle: false, ..PLAIN }).unwrap();
    assert_eq!(extents(&script.output()), [(2, 1)]);
}

#[test]
fn shared_data_is_sent_without_another_call() {
    let mut script = Script::established(PLAIN);
    let data = pattern(500).into();
    assert_eq!(script.tcp.send_shared(script.id.unwrap(), &data, 100), Ok(400));
    assert_eq!(extents(&script.output()), [(1, 400)]);
}

#[test]
fn each_segment_is_charged_to_the_meter() {
    let mut script = Script::established(PLAIN);
    let units =
        |script: &Script| script.context.meter.counter_block().snapshot(0).units(Work::Segment);
    let before = units(&script);
    assert_eq!(script.send(&pattern(3000)).len(), 3);
    assert_eq!(units(&script) - before, 3);
}

#[test]
fn a_super_segment_ends_short_unless_nagle_delays_its_end() {
    let sent = |nagle| {
        let mut script = Script::established(Profile { nagle, ..PLAIN });
        script.tcp.lower.tso = true;
        extents(&script.send(&pattern(1500)))
    };
    assert_eq!((sent(false), sent(true)), (Vec::from([(1, 1500)]), Vec::from([(1, 1000)])));
}
