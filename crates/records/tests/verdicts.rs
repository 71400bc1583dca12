//! Tests of the decision table of the verdict, case by case.

use records::measurement::{Echo, Screenful, TcpStats};
use records::verdict::{LoginLimit, limit, verdict};
use records::{Layer, LayerTime, Measurement};

const MS: u64 = 1_000_000;

/// Returns the committed sample without the values that a verdict depends on.
fn blank_measurement() -> Measurement {
    let json = include_str!("../samples/measurement-1.json");
    let mut measured = Measurement::from_json(json).expect("it parses");
    measured.echo = None;
    measured.screenful = None;
    measured.tcp = None;
    measured.phases.connect_ns = None;
    measured
}

fn echo(total_ns: u64, parts: &[(Layer, u64)]) -> Echo {
    Echo {
        samples: 200,
        reduced_from: None,
        min_ns: total_ns / 2,
        p50_ns: total_ns,
        p90_ns: total_ns * 2,
        p99_ns: total_ns * 3,
        max_ns: total_ns * 4,
        layers: layers(total_ns, parts),
        layer_spreads: Vec::new(),
        cpu_ns_per_key: None,
        times_ns: Vec::new(),
        error: None,
    }
}

fn screenful(total_ns: u64, gap_ns: u64, parts: &[(Layer, u64)]) -> Screenful {
    Screenful {
        method: None,
        bytes: 2_000,
        cells: 1_920,
        first_to_last_ns: total_ns,
        request_to_last_ns: None,
        first_byte_wait_ns: None,
        error: None,
        segments_in: Some(4),
        longest_gap_ns: Some(gap_ns),
        layers: layers(total_ns, parts),
        arrivals: Vec::new(),
    }
}

fn layers(total_ns: u64, parts: &[(Layer, u64)]) -> Vec<LayerTime> {
    let parts: Vec<_> = parts.iter().map(|&(layer, ns)| LayerTime { layer, ns }).collect();
    records::statistics::split(total_ns, &parts)
}

/// Returns the verdict, wrapped to 80 columns.
fn verdict_text(measured: &Measurement) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in verdict(measured).split(' ') {
        let length = word.chars().count();
        if column > 0 {
            let is_full = column + 1 + length > 80;
            text.push(if is_full { '\n' } else { ' ' });
            column = if is_full { 0 } else { column + 1 };
        }
        text.push_str(word);
        column += length;
    }
    text
}

fn tcp(rtt_ns: u64, retransmissions: u64) -> TcpStats {
    TcpStats {
        rtt_ns: Some(rtt_ns),
        retransmissions: Some(retransmissions),
        segments_out: Some(400),
        ..Default::default()
    }
}

#[test]
fn without_echo_and_screenful_there_is_no_verdict() {
    assert_eq!(limit(&blank_measurement()), LoginLimit::NothingMeasured);
    insta::assert_snapshot!(verdict_text(&blank_measurement()), @r"
    The cause is unknown: neither an echo nor a screenful was measured.
    ");
}

#[test]
fn seven_echoes_are_too_few() {
    let mut measured = blank_measurement();
    measured.echo = Some(Echo { samples: 7, ..echo(2 * MS, &[]) });
    assert_eq!(limit(&measured), LoginLimit::TooFewSamples);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    Only 7 echoes were measured, with a median of 2.00 ms. A verdict requires at
    least 20, and a 99th percentile requires 200.
    ");
}

#[test]
fn one_retransmission_in_a_hundred_segments_is_the_limiting_factor() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(20 * MS, &[]));
    measured.tcp = Some(tcp(18 * MS, 4));
    assert_eq!(limit(&measured), LoginLimit::Retransmissions);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    Packet loss limits this login: 4 of 400 segments (1 %) were retransmitted, and
    the longest echo took 80.0 ms; the shortest, without loss, took 10.0 ms. Check
    the links of the path for errors.
    ");
}

#[test]
fn fewer_retransmissions_are_mentioned() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(80 * MS, &[]));
    measured.tcp = Some(tcp(75 * MS, 1));
    assert_eq!(limit(&measured), LoginLimit::RoundTrip);
    insta::assert_snapshot!(verdict_text(&measured), @"
    The round-trip time of the network, 75.0 ms, is 94 % of an echo of 80.0 ms; no
    setting on this host can reduce it; 1 of 400 segments was retransmitted.
    ");
}

#[test]
fn a_gap_of_forty_milliseconds_is_nagle_with_a_delayed_ack() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(MS / 5, &[]));
    measured.screenful = Some(screenful(43_500_000, 42_100_000, &[]));
    measured.tcp = Some(tcp(MS / 10, 0));
    assert_eq!(limit(&measured), LoginLimit::NagleStall);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    Nagle's algorithm on the remote host costs 42.1 ms of the 43.5 ms of a screenful
    (97 %): it waits for a delayed ACK from this host, without which the screenful
    takes 1.40 ms. Set TCP_NODELAY there, or disable delayed acknowledgments here.
    ");
}

#[test]
fn a_gap_that_the_network_explains_is_no_nagle() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(42 * MS, &[]));
    measured.screenful = Some(screenful(45 * MS, 41 * MS, &[]));
    measured.tcp = Some(tcp(40 * MS, 0));
    assert_eq!(limit(&measured), LoginLimit::RoundTrip);
}

#[test]
fn a_gap_that_the_line_explains_is_no_nagle() {
    let mut measured = blank_measurement();
    measured.screenful = Some(screenful(400 * MS, 50 * MS, &[(Layer::Line, 390 * MS)]));
    assert_eq!(limit(&measured), LoginLimit::Line);
}

#[test]
fn two_personal_computers_wait_for_the_line_and_for_the_screen() {
    let mut measured = blank_measurement();
    measured.via = "serial:/dev/ttyS0?baud=9600&link=llp".to_owned();
    let echo_layers = [(Layer::Line, 100 * MS), (Layer::TcpFixed, 20 * MS), (Layer::Terminal, MS)];
    measured.echo = Some(echo(121_600_000, &echo_layers));
    let screenful_layers = [(Layer::Terminal, 2_129 * MS), (Layer::TcpPerByte, 600 * MS)];
    measured.screenful = Some(screenful(2_799 * MS, 500 * MS, &screenful_layers));
    assert_eq!(limit(&measured), LoginLimit::Line);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The serial line at 9,600 bit/s takes 82 % of an echo of 122 ms; without other
    parts it would take 100 ms, and 22.9 ms with compressed headers (RFC 1144),
    which save 77.1 ms; the terminal takes 76 % of a screenful of 2.80 s, which
    would take 2.13 s without other parts.
    ");
}

#[test]
fn a_line_with_compressed_headers_has_nothing_more_to_save() {
    let mut measured = blank_measurement();
    measured.via = "serial:/dev/ttyS0?baud=9600&link=slip".to_owned();
    measured.echo = Some(echo(20 * MS, &[(Layer::Line, 18 * MS)]));
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The serial line at 9,600 bit/s takes 90 % of an echo of 20.0 ms; without other
    parts it would take 18.0 ms; users do not notice less than 25 ms.
    ");
}

#[test]
fn a_line_of_unknown_rate_is_named_without_a_rate() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(400 * MS, &[(Layer::Line, 300 * MS)]));
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The serial line takes 75 % of an echo of 400 ms; without other parts it would
    take 300 ms; more than 250 ms is unacceptable to users.
    ");
}

#[test]
fn a_far_network_is_named_with_its_round_trip() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(300 * MS, &[(Layer::Terminal, MS)]));
    measured.phases.connect_ns = Some(280 * MS);
    measured.tcp = Some(tcp(290 * MS, 0));
    assert_eq!(limit(&measured), LoginLimit::RoundTrip);
    insta::assert_snapshot!(verdict_text(&measured), @"
    The round-trip time of the network, 280 ms, is 93 % of an echo of 300 ms; no
    setting on this host can reduce it; more than 250 ms is unacceptable to users.
    ");
}

#[test]
fn a_slow_host_on_a_fast_network_is_named() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(30 * MS, &[(Layer::Terminal, MS)]));
    measured.tcp = Some(tcp(2 * MS, 0));
    assert_eq!(limit(&measured), LoginLimit::RemoteHost);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The remote host takes 90 % of an echo of 30.0 ms, and the round trip of the
    network only 2.00 ms; without the local parts it would take 29.0 ms.
    ");
}

#[test]
fn without_a_round_trip_time_remote_host_and_network_are_not_distinguished() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(210_000, &[(Layer::Telnet, 8_000)]));
    assert_eq!(limit(&measured), LoginLimit::RemoteHostAndNetwork);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The remote host and the network take 96 % of an echo of 210 µs; without the
    local parts it would take 202 µs; users do not notice less than 25 ms.
    ");
}

#[test]
fn the_local_software_is_named_with_its_most_expensive_layer() {
    let mut measured = blank_measurement();
    let echo_layers = [(Layer::Terminal, 2 * MS), (Layer::Telnet, MS / 2)];
    measured.echo = Some(echo(3 * MS, &echo_layers));
    assert_eq!(limit(&measured), LoginLimit::LocalProcessor);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The local software takes 83 % of an echo of 3.00 ms (largest part: terminal,
    2.00 ms); without this time, an echo would take 500 µs; users do not notice less
    than 25 ms.
    ");
}

#[test]
fn system_calls_are_separate_from_the_local_software() {
    let mut measured = blank_measurement();
    let parts = [(Layer::InterruptOrSystemCall, 250_800), (Layer::TcpFixed, 3_200)];
    measured.echo = Some(echo(301_000, &parts));
    assert_eq!(limit(&measured), LoginLimit::SystemCalls);
    insta::assert_snapshot!(verdict_text(&measured), @"
    System calls take 83 % of an echo of 301 µs, and the local layers 3.20 µs;
    without the calls it would take 50.2 µs; if the remote host is on this machine,
    the calls include kernel work for both hosts; users do not notice less than 25
    ms.
    ");
}

#[test]
fn a_screenful_alone_may_be_limited_by_the_terminal() {
    let mut measured = blank_measurement();
    measured.screenful = Some(screenful(10 * MS, MS, &[(Layer::Terminal, 8 * MS)]));
    assert_eq!(limit(&measured), LoginLimit::Terminal);
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The terminal takes 80 % of a screenful of 10.0 ms; without other parts it would
    take 8.00 ms.
    ");
}

#[test]
fn a_screenful_alone_on_a_line_saves_the_headers_of_its_segments() {
    let mut measured = blank_measurement();
    measured.via = "serial:/dev/ttyS0?baud=19200".to_owned();
    measured.screenful = Some(screenful(1_300 * MS, MS, &[(Layer::Line, 1_100 * MS)]));
    insta::assert_snapshot!(verdict_text(&measured), @r"
    The serial line at 19,200 bit/s takes 85 % of a screenful of 1.30 s; without
    other parts it would take 1.10 s, and 1.02 s with compressed headers (RFC 1144),
    which save 77.1 ms.
    ");
}

#[test]
fn an_echo_without_any_layer_is_of_unknown_cause() {
    let mut measured = blank_measurement();
    measured.echo = Some(Echo { layers: Vec::new(), ..echo(30 * MS, &[]) });
    assert_eq!(limit(&measured), LoginLimit::Unknown);
    assert_eq!(verdict_text(&measured), "An echo takes 30.0 ms, and its parts are unknown.");
}

#[test]
fn retransmissions_are_mentioned_if_the_number_of_segments_is_unknown() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(80 * MS, &[]));
    measured.tcp = Some(TcpStats { segments_out: None, ..tcp(75 * MS, 3) });
    assert_eq!(limit(&measured), LoginLimit::RoundTrip);
    insta::assert_snapshot!(verdict_text(&measured), @"
    The round-trip time of the network, 75.0 ms, is 94 % of an echo of 80.0 ms; no
    setting on this host can reduce it; 3 segments were retransmitted.
    ");
}

#[test]
fn one_retransmission_in_a_short_run_is_not_the_limiting_factor() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(80 * MS, &[]));
    measured.tcp = Some(TcpStats { segments_out: Some(40), ..tcp(75 * MS, 1) });
    assert_eq!(limit(&measured), LoginLimit::RoundTrip);
}

#[test]
fn an_echo_of_microseconds_has_the_same_verdict_for_either_larger_part() {
    let mut one = blank_measurement();
    one.tcp = Some(tcp(20_000, 0));
    let calls = Layer::InterruptOrSystemCall;
    let verdict_text: Vec<LoginLimit> = [(8_000, 20_000), (20_000, 8_000), (9_000, 9_000)]
        .map(|(echo_layers, call)| {
            one.echo = Some(echo(42_000, &[(Layer::Telnet, echo_layers), (calls, call)]));
            limit(&one)
        })
        .to_vec();
    assert_eq!(verdict_text, [LoginLimit::NothingStandsOut; 3]);
    assert_eq!(
        verdict(&one),
        "The remote host with the network takes 24.0 µs and system calls 9.00 µs of an echo of \
         42.0 µs: the difference is within the error of 100 µs; users do not notice less than 25 \
         ms."
    );
}

#[test]
fn a_short_wait_in_equal_parts_is_charged_to_neither_network_nor_host() {
    let mut measured = blank_measurement();
    measured.echo = Some(echo(200_000, &[]));
    for rtt_ns in [90_000, 110_000] {
        measured.tcp = Some(tcp(rtt_ns, 0));
        assert_eq!(limit(&measured), LoginLimit::NothingStandsOut);
    }
    measured.tcp = Some(tcp(180_000, 0));
    assert_eq!(limit(&measured), LoginLimit::RoundTrip);
}

#[test]
fn on_a_busy_machine_the_parts_of_an_echo_are_random() {
    let mut measured = blank_measurement();
    for (echo_ns, rtt_ns) in [(2_810_000, 1_370_000), (4_130_000, 1_320_000)] {
        measured.echo = Some(Echo { min_ns: 90_000, ..echo(echo_ns, &[]) });
        measured.tcp = Some(tcp(rtt_ns, 0));
        assert_eq!(limit(&measured), LoginLimit::NothingStandsOut);
    }
    assert_eq!(
        verdict(&measured),
        "The round trip of the network takes 1.32 ms and the remote host 2.81 ms of an echo of \
         4.13 ms: the difference is within the error of 2.02 ms; users do not notice less than 25 \
         ms."
    );
}
