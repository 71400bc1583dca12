//! Both ends of a transfer by YMODEM, and arbitrary bytes; see [`fuzz::modem`].
#![no_main]

use fuzz::corpus::write_seeds;
use fuzz::modem::seeds;
use libfuzzer_sys::fuzz_target;
use protocols::ymodem::{Receiver, Sender};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    fuzz::modem_exchange!(
        input,
        start: |now| (Sender::new(now), Receiver::new(now)),
        put_data: |sender, data, _cx| sender.put_data(data),
        transmit: |sender, out, cx| sender.transmit(out, cx),
        accept: |receiver, cx| receiver.accept(cx),
        next_file: |sender, file, cx| match file {
            Some(info) => sender.offer(&info, cx),
            None => sender.finish(cx),
        }
    );
});
