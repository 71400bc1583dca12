//! Input: arbitrary bytes, split at any even offset. Checked: the Internet checksum is the same
//! over one piece and over two, and a packet that contains its checksum verifies.
#![no_main]

use libfuzzer_sys::fuzz_target;
use net::checksum::Sum;

fuzz_target!(|input: &[u8]| {
    let Some((cut, bytes)) = input.split_first() else { return };
    // Only the last piece of a checksummed buffer may have an odd length.
    let cut = usize::from(*cut) * 2;
    let (front, back) = bytes.split_at(cut.min(bytes.len() & !1));
    let whole = Sum::default().bytes(bytes);
    assert_eq!(whole.finish(), Sum::default().bytes(front).bytes(back).finish());
    assert!(whole.word(whole.finish()).is_good());
});
