//! Tests of the whole table of RFC 1661 §4.1, and of the counters and timers of a negotiation.

use super::*;
use crate::cx::OwnedCx;
use std::format;
use std::string::String;

const STATES: [State; 10] = [
    State::Initial,
    State::Starting,
    State::Closed,
    State::Stopped,
    State::Closing,
    State::Stopping,
    State::RequestSent,
    State::AckReceived,
    State::AckSent,
    State::Opened,
];

/// The events in the order of RFC 1661. Each is listed with its abbreviation in the RFC, and with
/// the abbreviation of the action that sends an answer.
const EVENTS: [(Event, &str, &str); 16] = [
    (Event::Up, "Up", ""),
    (Event::Down, "Down", ""),
    (Event::Open, "Open", ""),
    (Event::Close, "Close", ""),
    (Event::Timeout, "TO+", ""),
    (Event::LastTimeout, "TO-", ""),
    (Event::GoodRequest, "RCR+", "sca"),
    (Event::BadRequest, "RCR-", "scn"),
    (Event::Ack, "RCA", ""),
    (Event::Nak, "RCN", ""),
    (Event::TerminateRequest, "RTR", ""),
    (Event::TerminateAck, "RTA", ""),
    (Event::UnknownCode, "RUC", "scj"),
    (Event::MildReject, "RXJ+", ""),
    (Event::FatalReject, "RXJ-", ""),
    (Event::Echo, "RXR", "ser"),
];

fn name(action: Action, answer: &'static str) -> &'static str {
    match action {
        Action::ThisLayerUp => "tlu",
        Action::ThisLayerDown => "tld",
        Action::ThisLayerStarted => "tls",
        Action::ThisLayerFinished => "tlf",
        Action::InitializeRestartCount => "irc",
        Action::ZeroRestartCount => "zrc",
        Action::SendConfigureRequest => "scr",
        Action::SendAnswer => answer,
        Action::SendTerminateRequest => "str",
        Action::SendTerminateAck => "sta",
    }
}

fn entry(state: State, event: Event, answer: &'static str) -> String {
    let Some((actions, next)) = state.on(event) else { return String::from("-") };
    let number = STATES.iter().position(|state| *state == next).unwrap();
    let mut names: Vec<_> = actions.iter().map(|action| name(*action, answer)).collect();
    if names.is_empty() {
        return format!("{number}");
    }
    let last = names.pop().unwrap();
    names.iter().map(|name| format!("{name},")).collect::<String>() + &format!("{last}/{number}")
}

/// Returns the columns of the table for `states`. The first column has the number `first`.
fn table(first: usize, states: &[State]) -> String {
    let numbers: String =
        (first..).zip(states).map(|(number, _)| format!("{number:>14}")).collect();
    let mut rows = std::vec![format!("     {numbers}")];
    rows.extend(EVENTS.iter().map(|(event, name, answer)| {
        let cells = states.iter().map(|state| format!("{:>14}", entry(*state, *event, answer)));
        format!("{name:<5}{}", cells.collect::<String>())
    }));
    rows.join("\n")
}

#[test]
fn the_table_without_negotiation_states_equals_the_rfc() {
    insta::assert_snapshot!(table(0, &STATES[..6]), @"
                      0             1             2             3             4             5
    Up                2     irc,scr/6             -             -             -             -
    Down              -             -             0         tls/1             0             1
    Open          tls/1             1     irc,scr/6             3             5             5
    Close             0         tlf/0             2             2             4             4
    TO+               -             -             -             -         str/4         str/5
    TO-               -             -             -             -         tlf/2         tlf/3
    RCR+              -             -         sta/2 irc,scr,sca/8             4             5
    RCR-              -             -         sta/2 irc,scr,scn/6             4             5
    RCA               -             -         sta/2         sta/3             4             5
    RCN               -             -         sta/2         sta/3             4             5
    RTR               -             -         sta/2         sta/3         sta/4         sta/5
    RTA               -             -             2             3         tlf/2         tlf/3
    RUC               -             -         scj/2         scj/3         scj/4         scj/5
    RXJ+              -             -             2             3             4             5
    RXJ-              -             -         tlf/2         tlf/3         tlf/2         tlf/3
    RXR               -             -             2             3             4             5
    ");
}

#[test]
fn the_table_with_negotiation_states_equals_the_rfc() {
    insta::assert_snapshot!(table(6, &STATES[6..]), @"
                      6             7             8             9
    Up                -             -             -             -
    Down              1             1             1         tld/1
    Open              6             7             8             9
    Close     irc,str/4     irc,str/4     irc,str/4 tld,irc,str/4
    TO+           scr/6         scr/6         scr/8             -
    TO-           tlf/3         tlf/3         tlf/3             -
    RCR+          sca/8     sca,tlu/9         sca/8 tld,scr,sca/8
    RCR-          scn/6         scn/7         scn/6 tld,scr,scn/6
    RCA           irc/7         scr/6     irc,tlu/9     tld,scr/6
    RCN       irc,scr/6         scr/6     irc,scr/8     tld,scr/6
    RTR           sta/6         sta/6         sta/6 tld,zrc,sta/5
    RTA               6             6             8     tld,scr/6
    RUC           scj/6         scj/7         scj/8         scj/9
    RXJ+              6             6             8             9
    RXJ-          tlf/3         tlf/3         tlf/3 tld,irc,str/5
    RXR               6             7             8         ser/9
    ");
}

/// Options with one number for each direction: the number that this end requests, and the number
/// that it accepts from the peer.
#[derive(Debug, Default)]
struct Number {
    ours: u8,
    accepted: u8,
    theirs: u8,
    naks: usize,
    rejects: usize,
}

impl Options for Number {
    fn request(&mut self, options: &mut Vec<u8>, _cx: &mut Cx<'_>) {
        control_packet::put_option(1, &[self.ours], options);
    }

    fn begin(&mut self) {}

    fn evaluate(&mut self, kind: u8, value: &[u8], _cx: &mut Cx<'_>) -> Verdict {
        match (kind, value) {
            (1, [number]) if *number == self.accepted => Verdict::Ack,
            (1, _) => Verdict::Nak(Vec::from([self.accepted])),
            _ => Verdict::Reject,
        }
    }

    fn accept(&mut self) {
        self.theirs = self.accepted;
    }

    fn process_nak(&mut self, _kind: u8, _value: &[u8], _cx: &mut Cx<'_>) {
        self.naks += 1;
    }

    fn process_reject(&mut self, _kind: u8) {
        self.rejects += 1;
    }

    fn restart(&mut self, _cx: &mut Cx<'_>) {}
}

fn end(ours: u8, accepted: u8, context: &mut OwnedCx) -> Negotiation<Number> {
    let mut end = Negotiation::new(Number { ours, accepted, ..Number::default() });
    end.drive(Event::Open, &mut context.cx());
    end.drive(Event::Up, &mut context.cx());
    end
}

fn exchange(a: &mut Negotiation<Number>, b: &mut Negotiation<Number>, context: &mut OwnedCx) {
    while a.has_output() || b.has_output() {
        if let Some(packet) = a.transmit() {
            b.receive(&packet, &mut context.cx());
        }
        if let Some(packet) = b.transmit() {
            a.receive(&packet, &mut context.cx());
        }
    }
}

fn all_events(end: &mut Negotiation<Number>) -> Vec<NegotiationEvent> {
    core::iter::from_fn(|| end.next_event()).collect()
}

#[test]
fn two_ends_that_accept_each_other_open_without_timers() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 2, &mut context);
    let mut b = end(2, 1, &mut context);
    exchange(&mut a, &mut b, &mut context);
    for end in [&mut a, &mut b] {
        assert!(end.is_opened() && end.deadline().is_none());
        assert_eq!(all_events(end), [NegotiationEvent::Up]);
    }
    assert_eq!((a.options.theirs, b.options.theirs), (2, 1));
}

#[test]
fn two_ends_that_never_agree_reject_and_then_give_up() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 9, &mut context);
    let mut b = end(2, 1, &mut context);
    for _ in 0..100 {
        if let Some(packet) = a.transmit() {
            b.receive(&packet, &mut context.cx());
        }
        if let Some(packet) = b.transmit() {
            a.receive(&packet, &mut context.cx());
        }
    }
    assert_eq!(b.options.naks, usize::try_from(NAKS_MAX).unwrap());
    assert!(b.options.rejects > 0 && !b.is_opened());
}

#[test]
fn an_unanswered_request_is_sent_ten_times_and_then_the_layer_is_finished() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 2, &mut context);
    let mut requests = 0;
    while let Some(deadline) = a.deadline() {
        requests += usize::from(a.transmit().is_some());
        context.now = deadline;
        a.timeout(&mut context.cx());
    }
    assert_eq!((requests, a.state), (10, State::Stopped));
    assert_eq!(all_events(&mut a), [NegotiationEvent::Finished]);
    assert_eq!(context.now, Instant::ZERO + RESTART_INTERVAL * 10);
}

#[test]
fn an_unanswered_terminate_request_is_sent_twice() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 2, &mut context);
    let mut b = end(2, 1, &mut context);
    exchange(&mut a, &mut b, &mut context);
    a.drive(Event::Close, &mut context.cx());
    let mut terminate_requests = 0;
    while let Some(deadline) = a.deadline() {
        terminate_requests += usize::from(a.transmit().is_some());
        context.now = deadline;
        a.timeout(&mut context.cx());
    }
    assert_eq!((terminate_requests, a.state), (2, State::Closed));
    assert_eq!(
        all_events(&mut a),
        [NegotiationEvent::Up, NegotiationEvent::Down, NegotiationEvent::Finished]
    );
}

#[test]
fn an_answer_to_another_request_is_counted_and_changes_nothing() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 2, &mut context);
    let request = a.transmit().unwrap();
    let stale_answer =
        control_packet::emit(Code::CONFIGURE_ACK, request[1].wrapping_add(1), &request[4..]);
    a.receive(&stale_answer, &mut context.cx());
    let changed_answer = control_packet::emit(Code::CONFIGURE_ACK, request[1], &[1, 3, 9]);
    a.receive(&changed_answer, &mut context.cx());
    assert_eq!((a.state, context.counted(Counter::PppControlErrors)), (State::RequestSent, 2));
}

#[test]
fn an_unknown_option_is_rejected_alone() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 2, &mut context);
    a.transmit();
    let requested_options = [1, 3, 7, 200, 4, 5, 6];
    a.receive(
        &control_packet::emit(Code::CONFIGURE_REQUEST, 9, &requested_options),
        &mut context.cx(),
    );
    assert_eq!(
        a.transmit().unwrap(),
        control_packet::emit(Code::CONFIGURE_REJECT, 9, &[200, 4, 5, 6])
    );
}

#[test]
fn a_new_request_of_an_end_that_was_open_takes_the_layer_down_and_up_again() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 2, &mut context);
    let mut b = end(2, 1, &mut context);
    exchange(&mut a, &mut b, &mut context);
    b = end(2, 1, &mut context);
    exchange(&mut a, &mut b, &mut context);
    assert_eq!(
        all_events(&mut a),
        [NegotiationEvent::Up, NegotiationEvent::Down, NegotiationEvent::Up]
    );
    assert!(a.is_opened() && b.is_opened());
}

#[test]
fn more_packets_than_the_queue_holds_are_dropped_and_counted() {
    let mut context = OwnedCx::default();
    let mut a = end(1, 2, &mut context);
    for _ in 0..OUTPUT_LIMIT {
        a.receive(&control_packet::emit(Code::TERMINATE_REQUEST, 1, &[]), &mut context.cx());
    }
    assert_eq!(context.counted(Counter::PppControlDropped), 1);
}
