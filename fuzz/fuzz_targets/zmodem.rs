//! Both ends of a transfer by ZMODEM, and arbitrary bytes; see [`fuzz::modem`].
#![no_main]

use fuzz::corpus::write_seeds;
use fuzz::modem::seeds;
use libfuzzer_sys::fuzz_target;
use protocols::zmodem::{Receiver, Sender};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    fuzz::modem_exchange!(
        input,
        start: |now| (Sender::new(now), Receiver::new(now)),
        put_data: |sender, data, cx| sender.put_data(data, cx),
        transmit: |sender, out, _cx| sender.transmit(out),
        accept: |receiver, cx| receiver.accept(0, cx),
        next_file: |sender, file, cx| match file {
            Some(info) => sender.offer(&info, cx),
            None => sender.finish(cx),
        }
    );
});
