//! The ranking of causes, and the lower bounds of their gains.

use super::{MS, described, flow, path_with_mss, session, spaced, view};
use crate::verdict::cause::{Cause, CauseKind, Operation, rank};
use crate::verdict::flow_causes;
use crate::verdict::flow_view::View;
use crate::verdict::{
    Answers, Direction, Echoes, Flow, FlowCounts, Observation, Path, is_small_loss,
    without_consequences,
};

fn cause(kind: CauseKind, operation: Operation, gain_ns: u64, total_ns: u64) -> Cause {
    Cause {
        kind,
        operation,
        cost_ns: gain_ns,
        gain_ns,
        total_ns,
        subject: "Subject".to_owned(),
        advice: "advice".to_owned(),
    }
}

#[test]
fn a_cause_stands_out_from_its_noticeable_delay_and_a_tenth_of_the_total_on() {
    let cases = [
        (Operation::Echo, 25),
        (Operation::EchoTrain, 25),
        (Operation::Screenful, 20),
        (Operation::Answer, 20),
        (Operation::EchoUnderLoad, 50),
        (Operation::Transfer, 100),
        (Operation::Login, 150),
        (Operation::Session, 150),
    ];
    for (operation, ms) in cases {
        let stands_out =
            |kind, gain_ns, total_ns| cause(kind, operation, gain_ns, total_ns).stands_out();
        let ns = ms * MS;
        let kind = CauseKind::RemoteHost;
        assert!(stands_out(kind, ns, ns * 10) && !stands_out(kind, ns - 1, ns), "{operation:?}");
        assert!(!stands_out(kind, ns, ns * 10 + 1), "{operation:?}");
        let distance = [50 * MS - 1, 50 * MS].map(|ns| stands_out(CauseKind::Distance, ns, ns));
        assert_eq!(distance, [false, true], "{operation:?}");
    }
}

#[test]
fn a_weight_is_half_of_the_share_at_the_unnoticeable_delay() {
    let weight = |kind, gain_ms: u64, total_ms: u64| {
        cause(kind, Operation::Transfer, gain_ms * MS, total_ms * MS).weight()
    };
    assert_eq!(weight(CauseKind::Loss, 100, 200), 250_000);
    assert_eq!(weight(CauseKind::Loss, 300, 400), 562_500);
    assert_eq!(weight(CauseKind::Loss, 300, 200), 750_000);
    assert_eq!(weight(CauseKind::Loss, 0, 0), 0);
    // Only another link would help.
    assert_eq!(weight(CauseKind::Distance, 100, 200), 62_500);
    assert_eq!(weight(CauseKind::LineRate, 100, 200), 62_500);
}

#[test]
fn a_gain_below_nineteen_twentieths_of_the_cost_is_mentioned() {
    let sentence = |gain_ns: u64| {
        let cause = cause(CauseKind::Loss, Operation::Transfer, gain_ns, 1_000 * MS);
        Cause { cost_ns: 400 * MS, ..cause }.sentence()
    };
    assert_eq!(
        sentence(380 * MS),
        "Subject costs 400 ms of the 1.00 s of the transfer (40 %): advice."
    );
    assert_eq!(
        sentence(380 * MS - 1),
        "Subject costs 400 ms of the 1.00 s of the transfer (40 %), but removing it saves only \
         380 ms, because other waits remain: advice."
    );
}

#[test]
fn causes_are_ranked_by_weight_and_each_kind_once() {
    let of = |kind, ms: u64| cause(kind, Operation::Transfer, ms * MS, 1_000 * MS);
    let kinds = |causes: Vec<Cause>| {
        rank(causes).iter().map(|cause| (cause.kind, cause.gain_ns / MS)).collect::<Vec<_>>()
    };
    let [loss, line, small] = [CauseKind::Loss, CauseKind::LineRate, CauseKind::SmallPackets];
    assert_eq!(
        kinds(vec![of(loss, 200), of(loss, 300), of(CauseKind::Tls, 250), of(CauseKind::Tls, 99)]),
        [(loss, 300), (CauseKind::Tls, 250)]
    );
    // Headers can be removed from a line.
    assert_eq!(kinds(vec![of(line, 900), of(small, 100)]), [(small, 100), (line, 900)]);
    assert_eq!(kinds(vec![of(line, 200), of(small, 300)]), [(small, 300), (line, 200)]);
    assert_eq!(
        kinds(vec![of(line, 900), of(small, 100), of(loss, 110)]),
        [(small, 100), (line, 900), (loss, 110)]
    );
}

#[test]
fn the_consequences_of_another_cause_are_omitted() {
    let kinds_beside = |first: CauseKind, gain_ms: u64| {
        let mut causes = vec![cause(first, Operation::Transfer, gain_ms * MS, 200 * MS)];
        let of = |kind, operation| cause(kind, operation, 200 * MS, 200 * MS);
        causes.extend(CauseKind::ALL.map(|kind| of(kind, Operation::Echo)).into_iter().filter(
            |cause| {
                !matches!(
                    cause.kind,
                    CauseKind::HalfDuplex
                        | CauseKind::RateLimiter
                        | CauseKind::SmallWindow
                        | CauseKind::SmallSendBuffer
                )
            },
        ));
        causes.push(of(CauseKind::LineRate, Operation::Transfer));
        let all: Vec<_> = causes.iter().map(|cause| (cause.kind, cause.operation)).collect();
        let kept = without_consequences(causes);
        let kept: Vec<_> = kept.iter().map(|cause| (cause.kind, cause.operation)).collect();
        all.into_iter().filter(|one| !kept.contains(one)).collect::<Vec<_>>()
    };
    let queue = (CauseKind::Queue, Operation::Echo);
    let [distance, host, nagle, loss] =
        [CauseKind::Distance, CauseKind::RemoteHost, CauseKind::Nagle, CauseKind::Loss]
            .map(|kind| (kind, Operation::Echo));
    assert_eq!(kinds_beside(CauseKind::HalfDuplex, 100), [host, distance, queue, nagle, loss]);
    let line = (CauseKind::LineRate, Operation::Transfer);
    assert_eq!(kinds_beside(CauseKind::RateLimiter, 100), [queue, line]);
    assert_eq!(kinds_beside(CauseKind::SmallWindow, 100), [queue]);
    assert_eq!(kinds_beside(CauseKind::SmallSendBuffer, 100), [queue]);
    // A cause that does not stand out explains nothing.
    for kind in [
        CauseKind::HalfDuplex,
        CauseKind::RateLimiter,
        CauseKind::SmallWindow,
        CauseKind::SmallSendBuffer,
        CauseKind::Tls,
    ] {
        assert_eq!(kinds_beside(kind, 99), [], "{kind:?}");
    }
}

#[test]
fn a_half_duplex_path_also_explains_a_limiter_and_a_window() {
    let of = |kind| cause(kind, Operation::Transfer, 100 * MS, 200 * MS);
    for kind in [CauseKind::RateLimiter, CauseKind::SmallWindow, CauseKind::SmallSendBuffer] {
        let kept = without_consequences(vec![of(CauseKind::HalfDuplex), of(kind)]);
        assert_eq!(kept, [of(CauseKind::HalfDuplex)], "{kind:?}");
    }
}

#[test]
fn a_small_loss_takes_a_tenth_of_its_total() {
    let is_small = |kind, gain, total| is_small_loss(&cause(kind, Operation::Echo, gain, total));
    assert!(is_small(CauseKind::Loss, 10, 100) && !is_small(CauseKind::Loss, 10, 101));
    assert!(is_small(CauseKind::RetransmissionTimeouts, 1, 1));
    assert!(!is_small(CauseKind::Loss, 0, 0) && !is_small(CauseKind::RemoteHost, 10, 10));
}

/// Returns the gain of `kind` at the cost of a whole flow of 60,000 bytes, ms. The flow takes
/// 2,000 ms over a path of 100 ms, its first bytes arrive after 300 ms, and its rate is
/// 1 Mbit/s.
fn gain_ms(kind: CauseKind, change: impl Fn(&mut Flow, &mut Path)) -> u64 {
    let mut flow = flow(&[(300 * MS, 10_000), (2_000 * MS, 50_000)]);
    let mut path = Path::default();
    change(&mut flow, &mut path);
    let mut view: View<'_> = view(&flow, &path, 100 * MS);
    view.burst_bps = Some(1_000_000);
    let cause = view.cause(kind, 9_000 * MS, "Subject", "advice".to_owned());
    assert_eq!((cause.cost_ns, cause.total_ns), (2_000 * MS, 2_000 * MS));
    cause.gain_ns / MS
}

#[test]
fn a_gain_leaves_the_time_that_other_limits_take() {
    let gain = |kind| gain_ms(kind, |_, _| ());
    // The link takes 480 ms after the first byte.
    assert_eq!(gain(CauseKind::Nagle), 2_000 - 300 - 480);
    // Without a loss, the first byte takes a round trip.
    let early = [CauseKind::Loss, CauseKind::RetransmissionTimeouts, CauseKind::PathMtuBlackHole];
    assert_eq!(early.map(gain), [2_000 - 100 - 480; 3]);
    // A program does not show the rate of the link.
    assert_eq!(gain(CauseKind::RemoteHost), 2_000 - 100);
    let local = [CauseKind::Terminal, CauseKind::Tls, CauseKind::LocalProcessor];
    assert_eq!(local.map(gain), [2_000 - 300; 3]);
    // The first bytes take 80 ms on the link.
    let link = [CauseKind::LineRate, CauseKind::RateLimiter, CauseKind::SmallPackets];
    assert_eq!(link.map(gain), [2_000 - 220; 3]);
}

#[test]
fn without_a_link_slow_start_and_the_window_remain() {
    let with_mss = |_: &mut Flow, path: &mut Path| path.mss_bytes = Some(1_000);
    // 10,000 and 20,000 bytes precede the rest.
    assert_eq!(gain_ms(CauseKind::LineRate, with_mss), 2_000 - 220 - 200);
    let with_window = |flow: &mut Flow, path: &mut Path| {
        path.mss_bytes = Some(1_000);
        flow.counts.window_bytes = Some(10_000);
    };
    assert_eq!(gain_ms(CauseKind::LineRate, with_window), 2_000 - 220 - 500);
    // A window takes 80 ms of a round trip of 100 ms, and the last one only 80 ms.
    assert_eq!(gain_ms(CauseKind::Nagle, with_window), 2_000 - 300 - 580);
    let window = [
        CauseKind::SmallWindow,
        CauseKind::SmallSendBuffer,
        CauseKind::ZeroWindow,
        CauseKind::DelayedAck,
    ];
    assert_eq!(window.map(|kind| gain_ms(kind, with_window)), [2_000 - 300 - 480; 4]);
    let closed = |flow: &mut Flow, _: &mut Path| flow.counts.window_bytes = Some(0);
    assert_eq!(gain_ms(CauseKind::Nagle, closed), 2_000 - 300 - 480);
    let upload = |flow: &mut Flow, _: &mut Path| flow.direction = Direction::Outgoing;
    assert_eq!(gain_ms(CauseKind::Nagle, upload), 2_000 - 300);
    let without_arrivals = |flow: &mut Flow, _: &mut Path| flow.arrivals.clear();
    assert_eq!(gain_ms(CauseKind::Nagle, without_arrivals), 2_000 - 100 - 480);
    assert_eq!(gain_ms(CauseKind::LineRate, without_arrivals), 2_000 - 100);
}

#[test]
fn without_a_round_trip_time_the_whole_cost_is_the_gain() {
    let flow = flow(&[(300 * MS, 10_000)]);
    let path = Path::default();
    let mut view = view(&flow, &path, 0);
    view.trip_ns = None;
    let cause = view.cause(CauseKind::Nagle, 200 * MS, "Subject", "advice".to_owned());
    assert_eq!((cause.cost_ns, cause.gain_ns), (200 * MS, 200 * MS));
}

#[test]
fn windows_and_losses_of_one_flow_affect_the_whole_session() {
    let kinds = |change: fn(&mut Observation)| {
        let mut observed = session(10 * MS, 10 * MS);
        let fast_and_slow = [vec![MS; 15], vec![10 * MS; 30]].concat();
        observed.transfers = vec![spaced(10 * MS, 1_000, &fast_and_slow)];
        observed.screenful = Some(flow(&[(10 * MS, 500)]));
        observed.screenful_delayed_ack = Some(flow(&[(50 * MS, 500)]));
        change(&mut observed);
        let causes = flow_causes::causes(&observed);
        [CauseKind::RateLimiter, CauseKind::Nagle, CauseKind::Loss]
            .map(|kind| causes.iter().any(|cause| cause.kind == kind))
    };
    assert_eq!(kinds(|_| ()), [true, true, false]);
    let in_windows = |observed: &mut Observation| {
        let windows = spaced(10 * MS, 3_000, &[10 * MS; 9]);
        observed.sustained = Some(windows);
    };
    assert_eq!(kinds(in_windows), [false, true, false]);
    let lossy = |observed: &mut Observation| {
        let mut second = spaced(10 * MS, 1_000, &[MS; 9]);
        second.counts = FlowCounts { out_of_order_in: Some(1), ..FlowCounts::default() };
        observed.transfers.push(second);
    };
    assert_eq!(kinds(lossy), [true, false, true]);
    let late = |observed: &mut Observation| {
        observed.echo.as_mut().unwrap().samples_ns[..3].fill(500 * MS);
    };
    assert_eq!(kinds(late), [true, false, false]);
    let answers = |observed: &mut Observation| {
        let times = vec![MS; 4];
        observed.answers = Some(Answers { quick_ack_ns: times.clone(), delayed_ack_ns: times });
    };
    assert_eq!(kinds(answers), [true, false, false]);
}

#[test]
fn a_blocked_output_is_tested_for_a_black_hole_only() {
    let causes = |late_echoes: usize, is_sustained: bool| {
        let mut observed = session(10 * MS, 10 * MS);
        let blocked = flow(&[(10 * MS, 400), (700 * MS, 600), (701 * MS, 600), (702 * MS, 600)]);
        let echo: &mut Echoes = observed.echo.as_mut().unwrap();
        echo.samples_ns[..late_echoes].fill(500 * MS);
        if is_sustained {
            observed.sustained = Some(blocked);
        } else {
            observed.blocked = Some(blocked);
        }
        flow_causes::causes(&observed)
    };
    insta::assert_snapshot!(described(&causes(0, false)), @r#"
    path MTU black hole of a screenful: 689000000 ns, 688333334 ns of 702000000 ns
      A path MTU black hole costs 689 ms of the 702 ms of a screenful (98 %): packets with
      1,000 bytes of data are dropped without an ICMP error, and those with 600 arrive. Allow
      ICMP "packet too big", or set the MTU to the size that the path carries.
    "#);
    assert_eq!((causes(3, false), causes(0, true)), (Vec::new(), Vec::new()));
    assert_eq!(path_with_mss(9).mss_bytes, Some(9));
}
