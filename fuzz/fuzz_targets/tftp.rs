//! Input: requests, and a script of datagrams to both ends of a transfer. Checked: all output fits
//! the negotiated sizes, and if the ends are connected, the receiver's file is a prefix of the
//! sender's.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use protocols::tftp::{
    Direction, Event, HEADER_LEN, Limits, Mode, Options, Receiver, Request, Sender, Settings,
};

const PORT: u16 = 2000;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    // A request that can be parsed and fits into a packet survives a round trip through `emit`.
    if let Ok(request) = Request::parse(input)
        && let Some(packet) = request.emit()
    {
        assert_eq!(Request::parse(&packet), Ok(request));
    }
    let mut script = Script(input);
    let options = Options {
        block_size: Some(8 + u16::from(script.byte().unwrap_or(0))),
        window_size: Some(1 + u16::from(script.byte().unwrap_or(0))),
        ..Options::default()
    };
    let mut bench = Bench::default();
    let settings = Settings::default();
    let now = bench.cx().now;
    let granted_options = options.grant(&Limits::default(), None);
    let request = Request { direction: Direction::Read, name: b"f".to_vec(), mode: Mode::Octet, options };
    let mut receiver = Receiver::for_user(&request, &settings, now).unwrap();
    let mut sender = Sender::for_server(Mode::Octet, PORT, granted_options, &settings, now);
    let mut sent_bytes = Vec::new();
    let mut received_bytes = Vec::new();
    let mut out = Vec::new();
    let mut is_genuine = true;
    while let Some(verb) = script.byte() {
        match verb & 7 {
            0 | 1 => {
                let piece = script.piece(usize::from(verb)).to_vec();
                let count = sender.write(&piece);
                sent_bytes.extend_from_slice(&piece[..count]);
            }
            2 => sender.finish(),
            3 => bench.advance_to(sender.deadline()),
            4 => bench.advance_to(receiver.deadline()),
            5 => {
                is_genuine = false;
                let piece = script.piece(usize::from(verb >> 3)).to_vec();
                let _ = sender.receive(PORT, &piece, &mut bench.cx());
                if let Ok(data) = receiver.receive(PORT, &piece, &mut bench.cx()) {
                    received_bytes.extend_from_slice(data);
                }
            }
            // Any other verb of the script is a network event: one datagram in each direction is
            // delivered or lost.
            lossy => {
                out.clear();
                if sender.transmit(&mut out, &mut bench.cx()).is_some() && lossy == 6 {
                    assert!(out.len() <= HEADER_LEN + 263);
                    if let Ok(data) = receiver.receive(PORT, &out, &mut bench.cx()) {
                        received_bytes.extend_from_slice(data);
                    }
                }
                out.clear();
                if receiver.transmit(&mut out, &mut bench.cx()).is_some() && lossy == 6 {
                    let _ = sender.receive(PORT, &out, &mut bench.cx());
                }
            }
        }
        sender.timeout(&mut bench.cx());
        receiver.timeout(&mut bench.cx());
        while let Some(event) = receiver.event() {
            if event == Event::Received {
                receiver.confirm_stored(&mut bench.cx());
            }
        }
        while sender.event().is_some() {}
    }
    assert!(!is_genuine || sent_bytes.starts_with(&received_bytes));
});

fn seeds() -> Vec<Vec<u8>> {
    vec![
        b"\0\x01boot/kernel\0octet\0blksize\x001428\0windowsize\x0016\0".to_vec(),
        b"\0\x02text\0netascii\0".to_vec(),
        vec![8, 4, 48, 1, 2, 3, 4, 5, 6, 7, 8, 2, 6, 6, 6, 6, 6, 6],
    ]
}
