//! Input: a script of faults on the line between both ends of a transfer, and arbitrary bytes.
//! Checked: only events and counters report errors, and if all bytes are genuine, the received file
//! is a prefix of the sent file.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use protocols::modem::{FileInfo, ReceiverEvent, SenderEvent};
use protocols::zmodem::{Receiver, Sender};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut script = Script(input);
    let mut bench = Bench::default();
    let content: Vec<u8> = (0..=255).cycle().take(usize::from(script.word().unwrap_or(0))).collect();
    let size = u64::try_from(content.len()).ok();
    let mut next_file = Some(FileInfo { name: b"f".to_vec(), size, modified_unix_s: None });
    let mut sender = Sender::new(bench.now);
    let mut receiver = Receiver::new(bench.now);
    let mut received = Vec::new();
    let mut is_genuine = true;
    while let Some(verb) = script.byte() {
        while let Some(request) = sender.data_request() {
            let rest = content.get(usize::try_from(request.position).unwrap()..).unwrap_or_default();
            let data = &rest[..rest.len().min(request.max_len)];
            sender.put_data(data, &mut bench.cx());
        }
        let mut to_receiver = Vec::new();
        let mut to_sender = Vec::new();
        while sender.transmit(&mut to_receiver).is_some() {}
        while receiver.transmit(&mut to_sender).is_some() {}
        match verb & 7 {
            0 => bench.advance_to(sender.deadline()),
            1 => bench.advance_to(receiver.deadline()),
            2 => {
                is_genuine = false;
                to_receiver.extend_from_slice(script.piece(usize::from(verb)));
            }
            3 => {
                is_genuine = false;
                to_sender.extend_from_slice(script.piece(usize::from(verb >> 3)));
            }
            4 => to_receiver.clear(),
            5 => to_sender.clear(),
            _ => {}
        }
        sender.timeout(&mut bench.cx());
        receiver.timeout(&mut bench.cx());
        let mut input = to_receiver.as_slice();
        loop {
            receiver.receive(&mut input, &mut bench.cx());
            match receiver.event() {
                Some(ReceiverEvent::Offer(_)) => receiver.accept(0, &mut bench.cx()),
                Some(ReceiverEvent::Data(data)) => received.extend_from_slice(data),
                Some(_) => {}
                None => break,
            }
        }
        let mut input = to_sender.as_slice();
        loop {
            sender.receive(&mut input, &mut bench.cx());
            match sender.event() {
                Some(SenderEvent::NextFile) => match next_file.take() {
                    Some(info) => sender.offer(&info, &mut bench.cx()),
                    None => sender.finish(&mut bench.cx()),
                },
                Some(_) => {}
                None => break,
            }
        }
    }
    // Each received block or subpacket has a CRC, which no script without the content forges.
    assert!(!is_genuine || content.starts_with(&received));
});

fn seeds() -> Vec<Vec<u8>> {
    vec![[vec![4, 0], vec![7; 60]].concat(), [vec![9, 1], [7, 7, 4, 7, 0, 1].repeat(20)].concat()]
}
