//! Exchange between both ends of a transfer by XMODEM, YMODEM or ZMODEM.

/// Runs a script of faults on the line between both ends, and arbitrary bytes. Only events and counters
/// report errors, and if all bytes are genuine, the received file is a prefix of the sent file.
///
/// The arguments are the calls that differ between the protocols.
#[macro_export]
macro_rules! modem_exchange {
    (
        $input:expr,
        start: |$now:ident| $ends:expr,
        put_data: |$put_sender:ident, $data:ident, $put_cx:ident| $put:expr,
        transmit: |$out_sender:ident, $out:ident, $out_cx:ident| $transmit:expr,
        accept: |$receiver:ident, $accept_cx:ident| $accept:expr,
        next_file: |$file_sender:ident, $file:ident, $file_cx:ident| $next_file:expr
    ) => {{
        use protocols::modem::{FileInfo, ReceiverEvent, SenderEvent};
        let mut script = $crate::script::Script($input);
        let mut bench = $crate::bench::Bench::default();
        let content: Vec<u8> =
            (0..=255).cycle().take(usize::from(script.word().unwrap_or(0))).collect();
        let size = u64::try_from(content.len()).ok();
        let mut next_file = Some(FileInfo { name: b"f".to_vec(), size, modified_unix_s: None });
        let $now = bench.now;
        let (mut sender, mut receiver) = $ends;
        let mut received = Vec::new();
        let mut is_genuine = true;
        while let Some(verb) = script.byte() {
            while let Some(request) = sender.data_request() {
                let position = usize::try_from(request.position).unwrap();
                let rest = content.get(position..).unwrap_or_default();
                let $data = &rest[..rest.len().min(request.max_len)];
                let $put_sender = &mut sender;
                let $put_cx = &mut bench.cx();
                $put;
            }
            let mut to_receiver = Vec::new();
            let mut to_sender = Vec::new();
            let $out_sender = &mut sender;
            let $out = &mut to_receiver;
            let $out_cx = &mut bench.cx();
            while $transmit.is_some() {}
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
                    Some(ReceiverEvent::Offer(_)) => {
                        let $receiver = &mut receiver;
                        let $accept_cx = &mut bench.cx();
                        $accept;
                    }
                    Some(ReceiverEvent::Data(data)) => received.extend_from_slice(data),
                    Some(_) => {}
                    None => break,
                }
            }
            let mut input = to_sender.as_slice();
            loop {
                sender.receive(&mut input, &mut bench.cx());
                match sender.event() {
                    Some(SenderEvent::NextFile) => {
                        let $file: Option<FileInfo> = next_file.take();
                        let $file_sender = &mut sender;
                        let $file_cx = &mut bench.cx();
                        $next_file;
                    }
                    Some(_) => {}
                    None => break,
                }
            }
        }
        // Each received block or subpacket has a CRC, which no script without the content forges.
        // XMODEM, which has no names and no sizes, pads the last block.
        let common_len = received.len().min(content.len());
        let has_size = next_file.is_none();
        assert!(!is_genuine || received[..common_len] == content[..common_len]);
        assert!(!is_genuine || !has_size || received.len() <= content.len());
    }};
}

/// Returns scripts of complete transfers, with and without losses.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    vec![[vec![4, 0], vec![7; 60]].concat(), [vec![9, 1], [7, 7, 4, 7, 0, 1].repeat(20)].concat()]
}
