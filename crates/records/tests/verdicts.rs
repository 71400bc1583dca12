//! The decision table of the verdict, case by case.

use records::measurement::{Echo, Screenful, TcpFigures};
use records::verdict::{Limit, limit, verdict};
use records::{Layer, LayerTime, Measurement};

const MS: u64 = 1_000_000;

/// Returns the committed sample without the values that a verdict depends on.
fn blank() -> Measurement {
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
        asked_to_last_ns: None,
        first_byte_wait_ns: None,
        error: None,
        segments_in: Some(4),
        stalls_ns: Some(gap_ns),
        layers: layers(total_ns, parts),
        arrivals: Vec::new(),
    }
}

fn layers(total_ns: u64, parts: &[(Layer, u64)]) -> Vec<LayerTime> {
    let parts: Vec<_> = parts.iter().map(|&(layer, ns)| LayerTime { layer, ns }).collect();
    records::statistics::split(total_ns, &parts)
}

/// Returns the verdict, wrapped to 80 columns.
fn said(measured: &Measurement) -> String {
    records::table::wrap(&verdict(measured), 80).join("\n")
}

fn tcp(rtt_ns: u64, retransmissions: u64) -> TcpFigures {
    TcpFigures {
        rtt_ns: Some(rtt_ns),
        retransmissions: Some(retransmissions),
        segments_out: Some(400),
        ..Default::default()
    }
}

#[test]
fn without_echo_and_screenful_nothing_is_said() {
    assert_eq!(limit(&blank()), Limit::NothingMeasured);
    insta::assert_snapshot!(said(&blank()), @r"
    Neither an echo nor a screenful was measured, so what limits this login is
    unknown.
    ");
}

#[test]
fn seven_echoes_are_too_few() {
    let mut measured = blank();
    measured.echo = Some(Echo { samples: 7, ..echo(2 * MS, &[]) });
    assert_eq!(limit(&measured), Limit::TooFewSamples);
    insta::assert_snapshot!(said(&measured), @r"
    Only 7 echoes were measured, with a median of 2.00 ms: 20 are the least for a
    verdict, and 200 for a 99th percentile.
    ");
}

#[test]
fn one_segment_in_a_hundred_sent_again_is_the_limit() {
    let mut measured = blank();
    measured.echo = Some(echo(20 * MS, &[]));
    measured.tcp = Some(tcp(18 * MS, 4));
    assert_eq!(limit(&measured), Limit::Retransmissions);
    insta::assert_snapshot!(said(&measured), @r"
    Loss limits this login: 4 of 400 segments (1 %) had to be sent again and the
    longest echo took 80.0 ms; without loss it could be the shortest, 10.0 ms.
    ");
}

#[test]
fn fewer_segments_sent_again_are_mentioned() {
    let mut measured = blank();
    measured.echo = Some(echo(80 * MS, &[]));
    measured.tcp = Some(tcp(75 * MS, 1));
    assert_eq!(limit(&measured), Limit::RoundTrip);
    insta::assert_snapshot!(said(&measured), @"
    The network's round trip of 75.0 ms is 94 % of an echo of 80.0 ms; nothing on
    this side can make it less than 75.0 ms; 1 of 400 segments had to be sent again.
    ");
}

#[test]
fn a_gap_of_forty_milliseconds_is_nagle_against_a_delayed_ack() {
    let mut measured = blank();
    measured.echo = Some(echo(MS / 5, &[]));
    measured.screenful = Some(screenful(43_500_000, 42_100_000, &[]));
    measured.tcp = Some(tcp(MS / 10, 0));
    assert_eq!(limit(&measured), Limit::NagleStall);
    insta::assert_snapshot!(said(&measured), @r"
    A screenful of 43.5 ms holds one stall of 42.1 ms, where Nagle's algorithm on
    the far side waits for a delayed ACK from this side; with TCP_NODELAY there, or
    with every segment acknowledged at once here, it could be 1.40 ms.
    ");
}

#[test]
fn a_gap_that_the_network_explains_is_no_nagle() {
    let mut measured = blank();
    measured.echo = Some(echo(42 * MS, &[]));
    measured.screenful = Some(screenful(45 * MS, 41 * MS, &[]));
    measured.tcp = Some(tcp(40 * MS, 0));
    assert_eq!(limit(&measured), Limit::RoundTrip);
}

#[test]
fn a_gap_that_the_line_explains_is_no_nagle() {
    let mut measured = blank();
    measured.screenful = Some(screenful(400 * MS, 50 * MS, &[(Layer::Line, 390 * MS)]));
    assert_eq!(limit(&measured), Limit::Line);
}

#[test]
fn two_personal_computers_wait_for_the_line_and_for_the_screen() {
    let mut measured = blank();
    measured.via = "serial:/dev/ttyS0?baud=9600&link=llp".to_owned();
    let own = [(Layer::Line, 100 * MS), (Layer::TcpFixed, 20 * MS), (Layer::Terminal, MS)];
    measured.echo = Some(echo(121_600_000, &own));
    let drawn = [(Layer::Terminal, 2_129 * MS), (Layer::TcpPerByte, 600 * MS)];
    measured.screenful = Some(screenful(2_799 * MS, 500 * MS, &drawn));
    assert_eq!(limit(&measured), Limit::Line);
    insta::assert_snapshot!(said(&measured), @r"
    The line at 9,600 bit/s takes 82 % of an echo of 122 ms; with nothing but the
    line it could be 100 ms, and 22.9 ms with compressed headers (RFC 1144), which
    save 77.1 ms; the terminal takes 76 % of a screenful of 2.80 s, which could be
    2.13 s.
    ");
}

#[test]
fn a_line_with_compressed_headers_has_nothing_more_to_save() {
    let mut measured = blank();
    measured.via = "serial:/dev/ttyS0?baud=9600&link=slip".to_owned();
    measured.echo = Some(echo(20 * MS, &[(Layer::Line, 18 * MS)]));
    insta::assert_snapshot!(said(&measured), @r"
    The line at 9,600 bit/s takes 90 % of an echo of 20.0 ms; with nothing but the
    line it could be 18.0 ms, and less than 25 ms is not noticed.
    ");
}

#[test]
fn a_line_of_unknown_rate_is_named_without_it() {
    let mut measured = blank();
    measured.echo = Some(echo(400 * MS, &[(Layer::Line, 300 * MS)]));
    insta::assert_snapshot!(said(&measured), @r"
    The line takes 75 % of an echo of 400 ms; with nothing but the line it could be
    300 ms, while a person finds more than 250 ms unacceptable.
    ");
}

#[test]
fn a_far_network_is_named_with_its_round_trip() {
    let mut measured = blank();
    measured.echo = Some(echo(300 * MS, &[(Layer::Terminal, MS)]));
    measured.phases.connect_ns = Some(280 * MS);
    measured.tcp = Some(tcp(290 * MS, 0));
    assert_eq!(limit(&measured), Limit::RoundTrip);
    insta::assert_snapshot!(said(&measured), @"
    The network's round trip of 280 ms is 93 % of an echo of 300 ms; nothing on this
    side can make it less than 280 ms, while a person finds more than 250 ms
    unacceptable.
    ");
}

#[test]
fn a_slow_host_on_a_fast_network_is_named() {
    let mut measured = blank();
    measured.echo = Some(echo(30 * MS, &[(Layer::Terminal, MS)]));
    measured.tcp = Some(tcp(2 * MS, 0));
    assert_eq!(limit(&measured), Limit::FarSide);
    insta::assert_snapshot!(said(&measured), @r"
    The far host takes 90 % of an echo of 30.0 ms, and the network's round trip only
    2.00 ms; with nothing but the far side it could be 29.0 ms.
    ");
}

#[test]
fn without_a_round_trip_far_side_and_network_are_one() {
    let mut measured = blank();
    measured.echo = Some(echo(210_000, &[(Layer::Telnet, 8_000)]));
    assert_eq!(limit(&measured), Limit::FarSideAndNetwork);
    insta::assert_snapshot!(said(&measured), @r"
    Far side and network take 96 % of an echo of 210 µs; with nothing but the far
    side it could be 202 µs, and less than 25 ms is not noticed.
    ");
}

#[test]
fn our_own_software_is_named_with_its_dearest_layer() {
    let mut measured = blank();
    let own = [(Layer::Terminal, 2 * MS), (Layer::Telnet, MS / 2)];
    measured.echo = Some(echo(3 * MS, &own));
    assert_eq!(limit(&measured), Limit::OwnProcessor);
    insta::assert_snapshot!(said(&measured), @r"
    Our own software takes 83 % of an echo of 3.00 ms (most of it: terminal, 2.00
    ms); if it cost nothing it could be 500 µs, and less than 25 ms is not noticed.
    ");
}

#[test]
fn system_calls_are_kept_apart_from_our_own_software() {
    let mut measured = blank();
    let parts = [(Layer::InterruptOrSystemCall, 250_800), (Layer::TcpFixed, 3_200)];
    measured.echo = Some(echo(301_000, &parts));
    assert_eq!(limit(&measured), Limit::SystemCalls);
    insta::assert_snapshot!(said(&measured), @"
    System calls take 83 % of an echo of 301 µs, and where the far side is on this
    machine the kernel works in them for both; our own layers take 3.20 µs, and if
    the calls cost nothing it could be 50.2 µs, and less than 25 ms is not noticed.
    ");
}

#[test]
fn a_screenful_alone_may_be_limited_by_the_terminal() {
    let mut measured = blank();
    measured.screenful = Some(screenful(10 * MS, MS, &[(Layer::Terminal, 8 * MS)]));
    assert_eq!(limit(&measured), Limit::Terminal);
    insta::assert_snapshot!(said(&measured), @r"
    The terminal takes 80 % of a screenful of 10.0 ms; with nothing but the terminal
    it could be 8.00 ms.
    ");
}

#[test]
fn a_screenful_alone_on_a_line_saves_the_headers_of_its_segments() {
    let mut measured = blank();
    measured.via = "serial:/dev/ttyS0?baud=19200".to_owned();
    measured.screenful = Some(screenful(1_300 * MS, MS, &[(Layer::Line, 1_100 * MS)]));
    insta::assert_snapshot!(said(&measured), @r"
    The line at 19,200 bit/s takes 85 % of a screenful of 1.30 s; with nothing but
    the line it could be 1.10 s, and 1.02 s with compressed headers (RFC 1144),
    which save 77.1 ms.
    ");
}

#[test]
fn an_echo_without_any_layer_is_of_unknown_cause() {
    let mut measured = blank();
    measured.echo = Some(Echo { layers: Vec::new(), ..echo(30 * MS, &[]) });
    assert_eq!(limit(&measured), Limit::Unknown);
    assert_eq!(said(&measured), "An echo takes 30.0 ms, and where the time goes is unknown.");
}

#[test]
fn segments_sent_again_are_mentioned_when_those_sent_are_unknown() {
    let mut measured = blank();
    measured.echo = Some(echo(80 * MS, &[]));
    measured.tcp = Some(TcpFigures { segments_out: None, ..tcp(75 * MS, 3) });
    assert_eq!(limit(&measured), Limit::RoundTrip);
    insta::assert_snapshot!(said(&measured), @"
    The network's round trip of 75.0 ms is 94 % of an echo of 80.0 ms; nothing on
    this side can make it less than 75.0 ms; 3 segments had to be sent again.
    ");
}

#[test]
fn one_segment_sent_again_in_a_short_run_is_no_limit() {
    let mut measured = blank();
    measured.echo = Some(echo(80 * MS, &[]));
    measured.tcp = Some(TcpFigures { segments_out: Some(40), ..tcp(75 * MS, 1) });
    assert_eq!(limit(&measured), Limit::RoundTrip);
}

#[test]
fn an_echo_of_microseconds_has_the_same_verdict_whichever_part_is_larger() {
    let mut one = blank();
    one.tcp = Some(tcp(20_000, 0));
    let calls = Layer::InterruptOrSystemCall;
    let said: Vec<Limit> = [(8_000, 20_000), (20_000, 8_000), (9_000, 9_000)]
        .map(|(own, call)| {
            one.echo = Some(echo(42_000, &[(Layer::Telnet, own), (calls, call)]));
            limit(&one)
        })
        .to_vec();
    assert_eq!(said, [Limit::NothingStandsOut; 3]);
    assert_eq!(
        verdict(&one),
        "Of an echo of 42.0 µs the far side with the network takes 24.0 µs and system calls 9.00 µs: \
         neither exceeds the other by more than chance, 100 µs, and less than 25 ms is not noticed."
    );
}

#[test]
fn half_of_a_short_way_is_no_more_the_networks_than_the_hosts() {
    let mut measured = blank();
    measured.echo = Some(echo(200_000, &[]));
    for rtt_ns in [90_000, 110_000] {
        measured.tcp = Some(tcp(rtt_ns, 0));
        assert_eq!(limit(&measured), Limit::NothingStandsOut);
    }
    measured.tcp = Some(tcp(180_000, 0));
    assert_eq!(limit(&measured), Limit::RoundTrip);
}

#[test]
fn on_a_busy_machine_the_parts_of_an_echo_are_chance() {
    let mut measured = blank();
    for (echo_ns, rtt_ns) in [(2_810_000, 1_370_000), (4_130_000, 1_320_000)] {
        measured.echo = Some(Echo { min_ns: 90_000, ..echo(echo_ns, &[]) });
        measured.tcp = Some(tcp(rtt_ns, 0));
        assert_eq!(limit(&measured), Limit::NothingStandsOut);
    }
    assert_eq!(
        verdict(&measured),
        "Of an echo of 4.13 ms the network's round trip takes 1.32 ms and the far host 2.81 ms: neither \
         exceeds the other by more than chance, 2.02 ms, and less than 25 ms is not noticed."
    );
}
