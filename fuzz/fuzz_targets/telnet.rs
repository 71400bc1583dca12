//! Any bytes from the other side into a Telnet user and server: cut or whole they mean the same,
//! and the queue to the transport has its limit; two ends whose words cross come to rest and agree.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::plant;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use protocols::application::telnet::{
    Command, Event, OptionCode, ServerSettings, Side, Telnet, UserSettings,
};

const OUTPUT_LIMIT_BYTES: usize = 512;
/// The limit for data, and what is reserved for commands and answers.
const WAITING_MAX: usize = OUTPUT_LIMIT_BYTES + 4096;
/// Far more than two honest ends need to agree about everything.
const ROUNDS_MAX: usize = 64;

fuzz_target!(init: plant(&seeds()), |input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let starts = choice & 1 != 0;
    let cut = usize::from(choice >> 4) + 1;
    for make in [user, server] {
        let whole = meaning(&mut make(starts), [bytes]);
        let cut_up = meaning(&mut make(starts), bytes.chunks(cut));
        assert_eq!(whole, cut_up);
    }
    for make in [user, server] {
        with_nonsense(&mut make(starts), Script(bytes));
    }
    come_to_rest(user(starts), server(starts), Script(bytes));
});

fn user(starts_negotiation: bool) -> Telnet {
    Telnet::user(&UserSettings {
        starts_negotiation,
        output_limit_bytes: OUTPUT_LIMIT_BYTES,
        ..UserSettings::default()
    })
}

fn server(starts_negotiation: bool) -> Telnet {
    Telnet::server(&ServerSettings {
        starts_negotiation,
        output_limit_bytes: OUTPUT_LIMIT_BYTES,
        ..ServerSettings::default()
    })
}

/// What the bytes were taken for: the data, what else there was and where, and the answers.
fn meaning<'a>(
    telnet: &mut Telnet,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, Vec<(usize, String)>, Vec<u8>) {
    let (mut bench, mut data, mut rest) = (Bench::default(), Vec::new(), Vec::new());
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
        assert!(piece.is_empty(), "all of the input is read");
    }
    assert!(telnet.output().len() <= WAITING_MAX);
    (data, rest, telnet.output().to_vec())
}

/// Lets the user do, and the peer send, what the script says.
fn with_nonsense(telnet: &mut Telnet, mut script: Script<'_>) {
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
            _ => asks(telnet, verb, &mut script, &mut bench),
        }
        is_within_limits(telnet);
    }
}

/// Lets the user do what the script says.
fn asks(telnet: &mut Telnet, verb: u8, script: &mut Script<'_>, bench: &mut Bench) {
    let (count, cx) = (usize::from(verb >> 3), &mut bench.cx());
    match verb & 7 {
        5 => {
            let data = script.piece(count);
            assert!(telnet.send(data, cx) <= data.len());
        }
        6 => {
            let side = if count & 1 == 0 { Side::Us } else { Side::Him };
            let option = OptionCode(script.byte().unwrap_or(0) % 40);
            _ = telnet.ask(side, option, count & 2 == 0, cx);
        }
        _ if count == 30 => _ = telnet.ask_status(cx),
        _ if count == 31 => telnet.resize(255, 255, cx),
        _ => _ = telnet.command(Command::ALL[count % Command::ALL.len()], cx),
    }
}

fn is_within_limits(telnet: &Telnet) {
    assert!(telnet.output().len() <= WAITING_MAX);
    assert!(telnet.urgent_mark().is_none_or(|mark| mark <= telnet.output().len()));
}

/// Two ends whose users do what the script says, and whose words cross: every answer that an
/// answer calls for ends somewhere (RFC 1143), and then both believe the same.
fn come_to_rest(mut one: Telnet, mut other: Telnet, mut script: Script<'_>) {
    let mut bench = Bench::default();
    one.start(&mut bench.cx());
    other.start(&mut bench.cx());
    while let Some(verb) = script.byte() {
        let count = usize::from(verb >> 3);
        match verb & 7 {
            0 | 1 => carry(&mut one, &mut other, count, &mut bench),
            2 | 3 => carry(&mut other, &mut one, count, &mut bench),
            4 => asks(&mut other, script.byte().unwrap_or(0) | 5, &mut script, &mut bench),
            _ => asks(&mut one, verb, &mut script, &mut bench),
        }
        // Who sends more than the other reads goes without an answer, and may believe anything.
        if one.output().len().max(other.output().len()) > OUTPUT_LIMIT_BYTES {
            return;
        }
    }
    let mut rounds = 0;
    while !one.output().is_empty() || !other.output().is_empty() {
        rounds += 1;
        assert!(rounds < ROUNDS_MAX, "two ends answer each other without end");
        carry(&mut one, &mut other, usize::MAX, &mut bench);
        carry(&mut other, &mut one, usize::MAX, &mut bench);
    }
    assert!(one.negotiation_is_quiet() && other.negotiation_is_quiet());
    for row in one.options() {
        let ours = other.is_enabled(Side::Him, row.option);
        let his = other.is_enabled(Side::Us, row.option);
        assert_eq!(one.is_enabled(Side::Us, row.option), ours, "{}", row.option.0);
        assert_eq!(one.is_enabled(Side::Him, row.option), his, "{}", row.option.0);
    }
}

fn carry(from: &mut Telnet, to: &mut Telnet, count: usize, bench: &mut Bench) {
    let bytes = from.output()[..count.min(from.output().len())].to_vec();
    from.sent(bytes.len());
    let mut rest = &bytes[..];
    while to.receive(&mut rest, &mut bench.cx()).is_some() {}
}

fn seeds() -> Vec<Vec<u8>> {
    let wire: [&[u8]; 8] = [
        b"login: \r\nx\r\0y\xff\xffz",
        b"\xff\xfd\x18\xff\xfd\x1f\xff\xfb\x01\xff\xfb\x03\xff\xfa\x18\x01\xff\xf0",
        b"\xff\xfb\x18\xff\xfa\x18\x00xterm\xff\xf0",
        b"\xff\xfb\x1f\xff\xfa\x1f\x00\x50\x00\x18\xff\xf0",
        b"\xff\xfd\x05\xff\xfa\x05\x01\xff\xf0\xff\xfb\x05\xff\xfa\x05\x00\xfb\x01\xff\xf0",
        b"\xff\xfb\x00\xff\xfd\x00ab\r\ncd\r\xff\xfc\x00\xff\xfe\x00",
        b"\xff\xfd\x06\xff\xf5\xff\xf2\xff\xf6\xff\xf7\xff\xf8\xff\xf4\xff\xf9\xff\xf1",
        b"\xff\xfa\x27\x00\x00USER\x01root\xff\xf0\xff\xfa\xff\xff\xff\xf3",
    ];
    (0..2).flat_map(|choice| wire.map(|bytes| [&[choice | 0x20], bytes].concat())).collect()
}
