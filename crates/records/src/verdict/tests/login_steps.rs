//! Boundaries of the rules for the steps of a login.

use super::{MS, described, session, spaced};
use crate::verdict::cause::{Cause, CauseKind};
use crate::verdict::steps::causes;
use crate::verdict::{FlowCounts, Observation, Steps};

fn login(steps: Steps) -> Observation {
    Observation { steps, ..session(20 * MS, 20 * MS) }
}

fn cost(observed: &Observation, kind: CauseKind) -> Option<u64> {
    let causes = causes(observed);
    causes.iter().find(|cause| cause.kind == kind).map(|cause| cause.cost_ns)
}

#[test]
fn each_step_is_charged_beyond_its_round_trips() {
    let steps = Steps {
        is_program: false,
        resolve_ns: Some(300 * MS),
        connect_ns: Some(20 * MS),
        greeting_ns: Some(400 * MS),
        tls_ns: Some(500 * MS),
        tls_cpu_ns: Some(60 * MS),
        negotiation_ns: Some(600 * MS),
        prompt_ns: Some(700 * MS),
        password_prompt_ns: None,
        login_ns: Some(800 * MS),
        own_wait_ns: Some(10 * MS),
    };
    insta::assert_snapshot!(described(&causes(&login(steps))), @"
    own processor of the way to the prompt: 10000000 ns, 10000000 ns of 2920000000 ns
      Waiting for a processor on this host costs 10.0 ms of the 2.92 s of session set-up (< 1
      %): plumb was runnable but not scheduled for that time. Stop other processes on this
      host, or run plumb with a higher priority (nice).
    slow greeting of the way to the prompt: 510000000 ns, 510000000 ns of 2920000000 ns
      The remote host's late greeting costs 510 ms of the 2.92 s of session set-up (17 %): it
      was silent for that time after the connection was established, beyond the round trips.
      Check there for a reverse lookup of this host's address that times out, for a service
      that starts slowly, and for overload.
    name server of the way to the prompt: 300000000 ns, 300000000 ns of 2920000000 ns
      Name resolution costs 300 ms of the 2.92 s of session set-up (10 %): the lookup of the
      host name took that long. Check the DNS servers in /etc/resolv.conf, or add the address
      to /etc/hosts.
    slow prompt of the way to the prompt: 670000000 ns, 670000000 ns of 2920000000 ns
      The remote host's late prompt costs 670 ms of the 2.92 s of session set-up (23 %): it
      arrived that much later than one round trip. Check there for a reverse lookup of this
      host's address that times out, and for a slow login program or slow scripts of the
      shell.
    slow login of the way to the prompt: 770000000 ns, 770000000 ns of 2920000000 ns
      The login check on the remote host costs 770 ms of the 2.92 s of session set-up (26 %):
      the response to the credentials arrived that much later than one round trip. Check the
      authentication there (PAM, directory service) and the scripts that run at login.
    TLS here of the way to the prompt: 60000000 ns, 60000000 ns of 2920000000 ns
      TLS on this host's processor costs 60.0 ms of the 2.92 s of session set-up (2 %): the
      handshake used that much processor time here. Use a certificate with an elliptic-curve
      key, or session resumption.
    remote host of the way to the prompt: 400000000 ns, 400000000 ns of 2920000000 ns
      The remote host's TLS handshake costs 400 ms of the 2.92 s of session set-up (14 %): it
      took that long beyond its round trips and the processor time of this host. Check the
      load there, and use an elliptic-curve key instead of RSA, which costs the server most.
    ");
}

#[test]
fn a_greeting_takes_one_round_trip_and_the_negotiation_three() {
    let silent = |greeting_ms: u64, negotiation_ms: u64| {
        let observed = login(Steps {
            greeting_ns: Some(greeting_ms * MS),
            negotiation_ns: Some(negotiation_ms * MS),
            ..Steps::default()
        });
        cost(&observed, CauseKind::SlowGreeting).map(|ns| ns / MS)
    };
    assert_eq!(silent(20, 80), Some(0));
    assert_eq!(silent(21, 81), Some(1));
    assert_eq!(silent(20, 82), Some(2));
    assert_eq!(silent(90, 50), Some(30));
    let observed = login(Steps { greeting_ns: Some(500 * MS), ..Steps::default() });
    assert_eq!(cost(&observed, CauseKind::SlowGreeting), None);
}

#[test]
fn a_late_prompt_for_a_password_is_charged_beyond_its_round_trip() {
    let steps = Steps { password_prompt_ns: Some(5_020 * MS), ..Steps::default() };
    insta::assert_snapshot!(described(&causes(&login(steps))), @"
    own processor of the way to the prompt: 0 ns, 0 ns of 5020000000 ns
      Waiting for a processor on this host costs 0 ns of the 5.02 s of session set-up (0 %):
      plumb was runnable but not scheduled for that time. Stop other processes on this host,
      or run plumb with a higher priority (nice).
    slow prompt of the way to the prompt: 5000000000 ns, 5000000000 ns of 5020000000 ns
      The remote host's late prompt for a password costs 5.00 s of the 5.02 s of session
      set-up (> 99 %): it arrived that much later than one round trip after the user name.
      Check there for a lookup of the user in a directory service that times out.
    ");
}

#[test]
fn the_wait_for_the_processor_is_at_most_the_time_beyond_the_round_trips() {
    let waiting = |own_wait_ms: u64, connect_ms: u64| {
        let observed = login(Steps {
            connect_ns: Some(connect_ms * MS),
            negotiation_ns: Some(0),
            login_ns: Some(100 * MS),
            own_wait_ns: Some(own_wait_ms * MS),
            ..Steps::default()
        });
        cost(&observed, CauseKind::LocalProcessor).map(|ns| ns / MS)
    };
    assert_eq!(waiting(30, 20), Some(30));
    // Two of the steps took a round trip of 20 ms each.
    assert_eq!(waiting(300, 20), Some(80));
    // The connection took less.
    assert_eq!(waiting(300, 5), Some(95));
}

#[test]
fn a_step_of_a_lossy_session_may_have_waited_for_a_lost_packet() {
    let prompt = |change: fn(&mut Observation)| {
        let mut observed = login(Steps { prompt_ns: Some(1_000 * MS), ..Steps::default() });
        change(&mut observed);
        cost(&observed, CauseKind::SlowPrompt).map(|ns| ns / MS)
    };
    let lossy = |observed: &mut Observation| {
        let echo = observed.echo.as_mut().unwrap();
        echo.counts = FlowCounts { retransmissions: Some(1), ..FlowCounts::default() };
    };
    assert_eq!(prompt(|_| ()), Some(980));
    // A late echo alone proves no loss.
    let late_echo = |observed: &mut Observation| {
        observed.echo.as_mut().unwrap().samples_ns[0] = 120 * MS;
    };
    assert_eq!(prompt(late_echo), Some(980));
    // A retransmission takes at least 200 ms.
    assert_eq!(prompt(lossy), Some(780));
    let with_late_echo = |observed: &mut Observation| {
        let echo = observed.echo.as_mut().unwrap();
        echo.samples_ns[0] = 420 * MS;
        echo.counts = FlowCounts { retransmissions: Some(1), ..FlowCounts::default() };
    };
    assert_eq!(prompt(with_late_echo), Some(580));
    let without_echo = |observed: &mut Observation| {
        let mut flow = spaced(20 * MS, 1_000, &[]);
        flow.counts = FlowCounts {
            out_of_order_in: Some(1),
            retransmissions: Some(0),
            ..FlowCounts::default()
        };
        observed.screenful = Some(flow);
        observed.echo = None;
    };
    assert_eq!(prompt(without_echo), Some(780));
    let reordered = |observed: &mut Observation| {
        let mut flow = spaced(20 * MS, 1_000, &[]);
        flow.counts.duplicates_in = Some(2);
        observed.screenful = Some(flow);
        observed.echo.as_mut().unwrap().samples_ns[0] = 50 * MS;
    };
    assert_eq!(prompt(reordered), Some(950));
}

fn connection(connect_ns: u64, rate_bps: Option<u64>) -> Option<Cause> {
    let mut observed = session(20 * MS, 20 * MS);
    observed.steps.connect_ns = Some(connect_ns);
    if let Some(rate_bps) = rate_bps {
        let each_ns = 8_000_000_000_000 / rate_bps;
        observed.screenful = Some(spaced(20 * MS + each_ns, 1_000, &[each_ns; 9]));
    }
    let causes = causes(&observed);
    causes.into_iter().find(|cause| cause.cost_ns > 0 && cause.operation.name().contains("prompt"))
}

#[test]
fn a_connection_later_by_the_timeouts_of_a_syn_lost_it() {
    let kind = |late_ns: u64| connection(20 * MS + late_ns, None).map(|cause| cause.kind);
    assert_eq!(kind(950 * MS - 1), None);
    let [loss, unknown] = [Some(CauseKind::Loss), Some(CauseKind::Unknown)];
    for seconds in [1, 3, 7, 15, 31, 63] {
        let timers = seconds * 1_000 * MS;
        assert_eq!([timers - 50 * MS, timers + 100 * MS].map(kind), [loss; 2], "{seconds}");
        assert_eq!(kind(timers + 100 * MS + 1), unknown, "{seconds}");
        assert!(seconds == 1 || kind(timers - 50 * MS - 1) == unknown, "{seconds}");
    }
    assert_eq!(kind(127_000 * MS), unknown);
}

#[test]
fn a_connection_waits_behind_at_most_a_mebibyte_of_other_traffic() {
    // 2^20 bytes take 1.048576 s at 8 Mbit/s, and half as long at 16 Mbit/s.
    let kind = |late_ns: u64| connection(20 * MS + late_ns, Some(4_000_000)).unwrap().kind;
    let limit_ns = 2_097_152_000;
    assert_eq!(kind(limit_ns + 1_999), CauseKind::LineRate);
    assert_eq!(kind(limit_ns + 2_000), CauseKind::Unknown);
    let all = [
        connection(1_020 * MS, None),
        connection(2_020 * MS, None),
        connection(2_020 * MS, Some(4_000_000)),
    ];
    insta::assert_snapshot!(described(&all.map(Option::unwrap)), @"
    loss of the way to the prompt: 1000000000 ns, 1000000000 ns of 1020000000 ns
      A lost SYN costs 1.00 s of the 1.02 s of session set-up (98 %): it was retransmitted
      after a timeout, and the round-trip time is only 20.0 ms. Check the links of the path
      for errors, and the listen backlog of the server.
    unknown of the way to the prompt: 2000000000 ns, 2000000000 ns of 2020000000 ns
      Either a lost connection request or other traffic ahead of it costs 2.00 s of the 2.02 s
      of session set-up (99 %): the connection took 2.02 s, the round-trip time is 20.0 ms,
      and no TCP timeout explains the difference. To tell them apart, repeat without other
      traffic on the path.
    line rate of the way to the prompt: 2000000000 ns, 2000000000 ns of 2020000000 ns
      The slowest link of the path costs 2.00 s of the 2.02 s of session set-up (99 %): it
      carries 4,000,000 bit/s of data, and about 1,000,000 bytes of other traffic were ahead
      of the connection request or its reply. Repeat without other traffic, or use a faster
      link.
    ");
}

#[test]
fn the_prompt_of_a_program_is_a_cause_if_it_takes_a_second() {
    let gain_ns = |prompt_ns| {
        let steps = Steps { prompt_ns: Some(prompt_ns), is_program: true, ..Steps::default() };
        let all = causes(&login(steps));
        let of_program = all.iter().filter(|one| one.subject == "The program's late prompt");
        of_program.map(|one| (one.kind, one.gain_ns)).collect::<Vec<_>>()
    };
    assert_eq!(gain_ns(900 * MS), [(CauseKind::SlowPrompt, 0)]);
    assert_eq!(gain_ns(1_200 * MS), [(CauseKind::SlowPrompt, 1_200 * MS)]);
}
