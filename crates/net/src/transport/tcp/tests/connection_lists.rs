//! Tests of the lists of connections: those with events, with timers and with output.

use super::*;

#[test]
fn an_event_of_a_connection_with_pending_output_is_reported() {
    let mut script = Script::syn_sent(PLAIN);
    script.context.now = script.tcp.deadline().unwrap();
    script.tcp.timeout(&mut script.context.cx());
    // The answer arrives before the SYN is retransmitted.
    script.deliver(SYN_ACK, 0, 1, b"");
    assert_eq!(script.tcp.event().map(|(_, event)| event), Some(Event::Established));
}

#[test]
fn the_deadline_is_that_of_the_postponed_timer() {
    let mut script = Script::established(PLAIN);
    script.send(b"a");
    let first_deadline = script.tcp.deadline().unwrap();
    assert_eq!(script.wait_millis(50), []);
    script.send(b"b");
    assert_eq!(script.wait_millis(50), []);
    script.peer(Flags::ACK, 1, 2, b"");
    let deadline = script.tcp.deadline().unwrap();
    assert!(deadline > first_deadline);
    assert_eq!(extents(&script.wait(deadline - script.context.now)), [(2, 1)]);
}

#[test]
fn the_time_without_a_packet_for_the_device_is_measured() {
    let mut script = Script::established(PLAIN);
    let mut empty_pool = Pool::new(0, 2000);
    assert_eq!(script.send(b"a").len(), 1);
    script.tcp.send(script.id.unwrap(), b"b").unwrap();
    assert!(script.tcp.transmit(&mut empty_pool, &mut script.context.cx()).is_none());
    script.context.now = script.context.now + Duration::from_millis(300);
    script.output();
    assert_eq!(script.status().recovery.limited.device, Duration::from_millis(300));
}
