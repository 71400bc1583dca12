//! Input: arbitrary bytes from the peer into a Telnet client and server. Checked: split or whole,
//! the bytes are interpreted as the same data and events, and the output queue keeps its limit. Two
//! ends whose messages cross become idle and agree on every option. Every option is allowed, every
//! inspector record is formatted, and data after the start of compression is inflated.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use protocols::telnet::{
    ComPortCommand, Command, Decompressor, EnvironmentVariable, Event, FlowControl, LinemodeMode,
    OptionCode, OptionSet, ServerSettings, Side, SlcFunction, SpecialCharacter, Telnet,
    UserSettings,
};

const OUTPUT_LIMIT_BYTES: usize = 512;
/// Limit of the output queue, bytes: the limit for data, plus the reserve for commands and answers.
const MAX_OUTPUT_BYTES: usize = OUTPUT_LIMIT_BYTES + 4096;
/// Upper bound on the round trips that two correct ends need to agree on all options.
const MAX_ROUND_TRIPS: usize = 64;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let starts = choice & 1 != 0;
    let cut = usize::from(choice >> 4) + 1;
    for make in [user, server] {
        let whole = interpretation(&mut make(starts), [bytes]);
        let cut_up = interpretation(&mut make(starts), bytes.chunks(cut));
        assert_eq!(whole, cut_up);
    }
    for make in [user, server] {
        run_user_script(&mut make(starts), Script(bytes));
    }
    run_until_idle(user(starts), server(starts), Script(bytes));
    for is_user in [false, true] {
        assert_ends_with_tls(&mut with_tls(is_user), bytes);
    }
    inflate(bytes, cut);
});

/// Checks that nothing is received or sent after the start of TLS.
fn assert_ends_with_tls(telnet: &mut Telnet, mut bytes: &[u8]) {
    let mut bench = Bench::default();
    while let Some(event) = telnet.receive(&mut bytes, &mut bench.cx()) {
        if event == Event::StartTls {
            let unread_bytes = bytes;
            let pending_len = telnet.output().len();
            assert!(telnet.receive(&mut bytes, &mut bench.cx()).is_none());
            assert_eq!((bytes, telnet.send(b"clear", &mut bench.cx())), (unread_bytes, 0));
            assert_eq!(telnet.output().len(), pending_len);
            return;
        }
    }
    assert!(bytes.is_empty());
}

/// Checks that a compressed stream inflates to the same data split or whole.
fn inflate(bytes: &[u8], cut: usize) {
    let inflated = |cut: usize| {
        let mut bench = Bench::default();
        let mut decompressor = Decompressor::default();
        let mut all = Vec::new();
        let mut buffer = [0; 512];
        decompressor.start();
        for mut piece in bytes.chunks(cut) {
            while decompressor.is_on() {
                let Ok(written) = decompressor.inflate(&mut piece, &mut buffer, &mut bench.cx())
                else {
                    return (all, true);
                };
                all.extend_from_slice(&buffer[..written]);
                if piece.is_empty() && written < buffer.len() {
                    break;
                }
            }
            if !decompressor.is_on() {
                break;
            }
        }
        (all, false)
    };
    let (whole, whole_failed) = inflated(bytes.len().max(1));
    let (pieces, pieces_failed) = inflated(cut);
    assert_eq!(whole_failed, pieces_failed);
    assert!(whole_failed || whole == pieces);
}

/// Returns every option except START_TLS, after which no input is processed.
fn all_but_start_tls() -> OptionSet {
    (0..=254).map(OptionCode).fold(OptionSet::NONE, OptionSet::with).without(OptionCode::START_TLS)
}

fn user(starts_negotiation: bool) -> Telnet {
    Telnet::user(&UserSettings {
        starts_negotiation,
        output_limit_bytes: OUTPUT_LIMIT_BYTES,
        other_terminal_types: vec!["VT100".into()],
        environment: vec![EnvironmentVariable::new("LANG", "C")],
        display: ":0".into(),
        allowed_options: all_but_start_tls(),
        ..UserSettings::default()
    })
}

fn server(starts_negotiation: bool) -> Telnet {
    Telnet::server(&ServerSettings {
        starts_negotiation,
        output_limit_bytes: OUTPUT_LIMIT_BYTES,
        terminal_types_max: 4,
        environment: vec!["LANG".into(), "USER".into()],
        allowed_options: all_but_start_tls(),
        ..ServerSettings::default()
    })
}

/// Returns an end that also allows START_TLS.
fn with_tls(is_user: bool) -> Telnet {
    let allowed_options = all_but_start_tls().with(OptionCode::START_TLS);
    if is_user {
        Telnet::user(&UserSettings { allowed_options, ..UserSettings::default() })
    } else {
        Telnet::server(&ServerSettings { allowed_options, ..ServerSettings::default() })
    }
}

/// Returns the interpretation of the bytes: the data, the other events with their positions in the
/// data, and the answers.
fn interpretation<'a>(
    telnet: &mut Telnet,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, Vec<(usize, String)>, Vec<u8>) {
    let mut bench = Bench::default();
    let mut data = Vec::new();
    let mut rest = Vec::new();
    telnet.set_inspection(true);
    telnet.start(&mut bench.cx());
    for mut piece in pieces {
        while let Some(event) = telnet.receive(&mut piece, &mut bench.cx()) {
            match event {
                Event::Data(run) => {
                    assert!(!run.is_empty());
                    data.extend_from_slice(run);
                }
                other => rest.push((data.len(), format!("{other:?}"))),
            }
        }
        assert!(piece.is_empty(), "all of the input is processed");
    }
    assert!(telnet.output().len() <= MAX_OUTPUT_BYTES);
    while let Some(record) = telnet.take_record() {
        assert!(!record.to_string().chars().any(char::is_control));
    }
    (data, rest, telnet.output().to_vec())
}

/// Runs a script of user calls and peer input.
fn run_user_script(telnet: &mut Telnet, mut script: Script<'_>) {
    let mut bench = Bench::default();
    telnet.start(&mut bench.cx());
    while let Some(verb) = script.byte() {
        let count = usize::from(verb >> 3);
        match verb & 7 {
            0 | 1 => {
                let mut piece = script.piece(count + 1);
                while telnet.receive(&mut piece, &mut bench.cx()).is_some() {}
            }
            2 => telnet.urgent(),
            3 => telnet.urgent_ended(),
            4 => telnet.sent(count),
            _ => make_user_call(telnet, verb, &mut script, &mut bench),
        }
        is_within_limits(telnet);
    }
}

/// Makes the user call that the script selects.
fn make_user_call(telnet: &mut Telnet, verb: u8, script: &mut Script<'_>, bench: &mut Bench) {
    let count = usize::from(verb >> 3);
    let cx = &mut bench.cx();
    match verb & 7 {
        5 => {
            let data = script.piece(count);
            assert!(telnet.send(data, cx) <= data.len());
        }
        6 => {
            let side = if count & 1 == 0 { Side::Local } else { Side::Remote };
            let option = OptionCode(script.byte().unwrap_or(0));
            _ = telnet.ask(side, option, count & 2 == 0, cx);
        }
        _ if count >= 16 && count < 30 => make_option_call(telnet, count, script, bench),
        _ if count == 30 => _ = telnet.ask_status(cx),
        _ if count == 31 => telnet.resize(255, 255, cx),
        _ => _ = telnet.command(Command::ALL[count % Command::ALL.len()], cx),
    }
}

/// Makes a user call that concerns one option.
fn make_option_call(telnet: &mut Telnet, which: usize, script: &mut Script<'_>, bench: &mut Bench) {
    let byte = script.byte().unwrap_or(0);
    if which == 29 {
        bench.advance_millis(60);
        telnet.timeout(&mut bench.cx());
        return;
    }
    let cx = &mut bench.cx();
    match which {
        16 => _ = telnet.go_ahead(cx),
        17 => _ = telnet.end_of_record(cx),
        18 => _ = telnet.flow_control(FlowControl::RestartAny, cx),
        19 => _ = telnet.ask_charset(cx),
        20 => _ = telnet.ask_linemode(LinemodeMode::EDIT, cx),
        21 => _ = telnet.ask_forward_mask(&[byte; 32], cx),
        22 => {
            let character = SpecialCharacter::variable(byte);
            _ = telnet.set_special_character(SlcFunction::EC, character, cx);
        }
        23 => _ = telnet.com_port(&ComPortCommand::DataSize(byte), cx),
        24 => _ = telnet.com_port(&ComPortCommand::Suspend, cx),
        _ => _ = telnet.com_port(&ComPortCommand::Resume, cx),
    }
}

fn is_within_limits(telnet: &Telnet) {
    assert!(telnet.output().len() <= MAX_OUTPUT_BYTES);
    assert!(telnet.urgent_mark().is_none_or(|mark| mark <= telnet.output().len()));
}

/// Runs two ends whose users follow the script and whose messages cross. Checks that the chain of
/// answers ends (RFC 1143), and that both ends then agree on every option.
fn run_until_idle(mut one: Telnet, mut other: Telnet, mut script: Script<'_>) {
    let mut bench = Bench::default();
    one.start(&mut bench.cx());
    other.start(&mut bench.cx());
    while let Some(verb) = script.byte() {
        let count = usize::from(verb >> 3);
        match verb & 7 {
            0 | 1 => carry(&mut one, &mut other, count, &mut bench),
            2 | 3 => carry(&mut other, &mut one, count, &mut bench),
            4 => {
                make_user_call(&mut other, script.byte().unwrap_or(0) | 5, &mut script, &mut bench)
            }
            _ => make_user_call(&mut one, verb, &mut script, &mut bench),
        }
        // If one end sends more than the other reads, answers are dropped and the ends may
        // disagree.
        if one.output().len().max(other.output().len()) > OUTPUT_LIMIT_BYTES {
            return;
        }
    }
    let mut rounds = 0;
    while !one.output().is_empty() || !other.output().is_empty() {
        rounds += 1;
        assert!(rounds < MAX_ROUND_TRIPS, "two ends answer each other endlessly");
        carry(&mut one, &mut other, usize::MAX, &mut bench);
        carry(&mut other, &mut one, usize::MAX, &mut bench);
    }
    assert!(one.negotiation_is_quiet() && other.negotiation_is_quiet());
    for row in one.options() {
        let ours = other.is_enabled(Side::Remote, row.option);
        let theirs = other.is_enabled(Side::Local, row.option);
        assert_eq!(one.is_enabled(Side::Local, row.option), ours, "{}", row.option.0);
        assert_eq!(one.is_enabled(Side::Remote, row.option), theirs, "{}", row.option.0);
    }
}

fn carry(from: &mut Telnet, to: &mut Telnet, count: usize, bench: &mut Bench) {
    let bytes = from.output()[..count.min(from.output().len())].to_vec();
    from.sent(bytes.len());
    let mut rest = &bytes[..];
    while to.receive(&mut rest, &mut bench.cx()).is_some() {}
}

fn seeds() -> Vec<Vec<u8>> {
    let wire: [&[u8]; 17] = [
        b"login: \r\nx\r\0y\xff\xffz",
        b"\xff\xfd\x18\xff\xfd\x1f\xff\xfb\x01\xff\xfb\x03\xff\xfa\x18\x01\xff\xf0",
        b"\xff\xfb\x18\xff\xfa\x18\x00xterm\xff\xf0",
        b"\xff\xfb\x1f\xff\xfa\x1f\x00\x50\x00\x18\xff\xf0",
        b"\xff\xfd\x05\xff\xfa\x05\x01\xff\xf0\xff\xfb\x05\xff\xfa\x05\x00\xfb\x01\xff\xf0",
        b"\xff\xfb\x00\xff\xfd\x00ab\r\ncd\r\xff\xfc\x00\xff\xfe\x00",
        b"\xff\xfd\x06\xff\xf5\xff\xf2\xff\xf6\xff\xf7\xff\xf8\xff\xf4\xff\xf9\xff\xf1",
        b"\xff\xfa\x27\x00\x00USER\x01root\xff\xf0\xff\xfa\xff\xff\xff\xf3",
        b"\xff\xfd\x27\xff\xfb\x27\xff\xfa\x27\x01\x00USER\x03LANG\xff\xf0\xff\xfa\x27\x00\x03LANG\x01\x02\x01\xff\xf0",
        b"\xff\xfd\x22\xff\xfa\x22\x01\x03\xff\xf0\xff\xfa\x22\x03\x0a\x02\x08\x00\x03\x00\xc8\x02\x01\xff\xf0\xff\xfa\x22\xfd\x02\x01\x02\xff\xf0",
        b"\xff\xfb\x2a\xff\xfd\x2a\xff\xfa\x2a\x01 UTF-8 CP437\xff\xf0\xff\xfa\x2a\x02UTF-8\xff\xf0\xff\xfa\x2a\x04\x01\xff\xf0",
        b"\xff\xfd\x2c\xff\xfb\x2c\xff\xfa\x2c\x65\x00\x00\x25\x80\xff\xf0\xff\xfa\x2c\x01\x00\x00\x25\x80\xff\xf0\xff\xfa\x2c\x08\xff\xf0",
        b"\xff\xfd\x2e\xff\xfb\x2e\xff\xfb\x01\xff\xfa\x2e\x01\xff\xf0\x16\x03\x01",
        b"\xff\xfb\x56\xff\xfd\x56\xff\xfa\x56\xff\xf0\xff\xfd\x57\xff\xfb\x57\xff\xfa\x57\xff\xf0",
        b"\xff\xfb\x45\xff\xfa\x45\x01A\x02\x03\x01B\x02\x05\x02c\x06\x04\xff\xf0\xff\xfb\x46\xff\xfa\x46\x01A\x02b\xff\xf0",
        b"\xff\xfb\xc9\xff\xfd\xc9\xff\xfa\xc9Core.Hello {}\xff\xf0\xff\xfb\xdd\xff\xfd\xdd\xff\xfa\xdd\0\0\0\0\0\0\0\x01\xff\xf0",
        b"\x78\x9c\xcb\xc9\x4f\xcf\xcc\xb3\x52\x00\x00\x0b\x3c\x02\x8a",
    ];
    (0..2).flat_map(|choice| wire.map(|bytes| [&[choice | 0x20], bytes].concat())).collect()
}
