//! Both ends of a transfer by XMODEM, and arbitrary bytes; see [`fuzz::modem`].
#![no_main]

use fuzz::corpus::write_seeds;
use fuzz::modem::seeds;
use libfuzzer_sys::fuzz_target;
use protocols::xmodem::{Receiver, Sender};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    fuzz::modem_exchange!(
        input,
        start: |now| (Sender::new(true, now), Receiver::new()),
        put_data: |sender, data, _cx| sender.put_data(data),
        transmit: |sender, out, cx| sender.transmit(out, cx),
        accept: |receiver, cx| receiver.accept(cx),
        next_file: |_sender, _file, _cx| ()
    );
});
