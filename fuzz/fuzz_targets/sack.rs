//! Input: a script of transmissions, acknowledgments and SACK blocks into the record of a
//! connection's outstanding data. Checked: after every step the record agrees with a model of each
//! byte.
#![no_main]

use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use net::time::Instant;
use net::transport::tcp::flight::{Delivery, Flight, LossVerdict};
use net::transport::tcp::seq::Seq;

/// First sequence number, chosen so that sequence numbers wrap around within a script.
const FIRST_SEQ: Seq = Seq(0xFFFF_FE00);
/// Maximum number of outstanding bytes in the model; a larger number would only make the target
/// slower.
const MAX_OUTSTANDING_BYTES: usize = 4096;

/// State of one outstanding byte.
#[derive(Clone, Copy, Default)]
struct Byte {
    sent_at: u64,
    is_sacked: bool,
    is_lost: bool,
}

struct FlightAndModel {
    flight: Flight,
    /// Outstanding bytes. The first byte has the sequence number `una`.
    bytes: Vec<Byte>,
    una: Seq,
    now: u64,
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let mut flight_and_model = FlightAndModel {
        flight: Flight::new(FIRST_SEQ),
        bytes: Vec::new(),
        una: FIRST_SEQ,
        now: 0,
    };
    while let (Some(verb), Some(word)) = (script.byte(), script.word()) {
        flight_and_model.run_step(verb, word, &mut script);
        flight_and_model.assert_agreement();
    }
});

impl FlightAndModel {
    fn run_step(&mut self, verb: u8, word: u16, script: &mut Script<'_>) {
        let len = usize::from(word) % 300 + 1;
        match verb % 8 {
            0 | 1 => self.send(len),
            2 => self.acknowledge(len),
            3 | 4 => self.sack(usize::from(script.word().unwrap_or(0)), len),
            5 => self.retransmit(len),
            6 => self.lose_older_than(u64::from(word) % 16),
            _ => self.time_out(),
        }
        self.now += u64::from(verb >> 6);
    }

    fn seq_at(&self, offset: usize) -> Seq {
        self.una + u32::try_from(offset).unwrap_or(0)
    }

    fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    fn send(&mut self, len: usize) {
        if self.bytes.len() + len <= MAX_OUTSTANDING_BYTES {
            let len_out = u32::try_from(len).unwrap_or(0);
            self.flight.sent(len_out, len_out.div_ceil(16), self.instant());
            let byte = Byte { sent_at: self.now, ..Byte::default() };
            self.bytes.resize(self.bytes.len() + len, byte);
        }
    }

    fn acknowledge(&mut self, len: usize) {
        let len = len.min(self.bytes.len());
        let mut delivery = Delivery::default();
        self.flight.acknowledge(self.seq_at(len), &mut delivery, self.instant());
        let newly_delivered = self.bytes.drain(..len).filter(|byte| !byte.is_sacked).count();
        assert_eq!(delivery.delivered, newly_delivered as u64);
        self.una = self.una + u32::try_from(len).unwrap_or(0);
    }

    /// Applies a SACK block. A block that begins before the outstanding bytes or ends after them
    /// changes nothing.
    fn sack(&mut self, start: usize, len: usize) {
        let start = start % (MAX_OUTSTANDING_BYTES + 100);
        let end = start + len;
        let mut delivery = Delivery::default();
        let block = (self.seq_at(start), self.seq_at(end));
        self.flight.sack(block, &mut delivery, self.instant());
        self.flight.end_sack_blocks();
        if end <= self.bytes.len() && delivery.refused == 0 {
            for byte in &mut self.bytes[start..end] {
                *byte = Byte { is_sacked: true, is_lost: false, ..*byte };
            }
        }
    }

    fn retransmit(&mut self, len: usize) {
        let max = u32::try_from(len).unwrap_or(0);
        let Some((seq, len)) = self.flight.next_lost(max) else {
            return assert!(self.bytes.iter().all(|byte| !byte.is_lost));
        };
        self.flight.sent_again(seq, len, self.instant());
        let start = seq.since(self.una) as usize;
        for byte in &mut self.bytes[start..start + len as usize] {
            assert!(byte.is_lost, "only lost data is retransmitted");
            *byte = Byte { sent_at: self.now, ..Byte::default() };
        }
    }

    fn lose_older_than(&mut self, age: u64) {
        let limit = self.now.saturating_sub(age);
        let limit_at = Instant::from_nanos(limit);
        self.flight.classify(|sent_at, _| {
            if sent_at < limit_at { LossVerdict::Lost } else { LossVerdict::Open }
        });
        for byte in &mut self.bytes {
            byte.is_lost |= !byte.is_sacked && byte.sent_at < limit;
        }
    }

    fn time_out(&mut self) {
        if self.flight.has_reneged() {
            self.flight.forget_blocks();
            self.bytes.iter_mut().for_each(|byte| byte.is_sacked = false);
        }
        self.flight.mark_all_lost();
        self.bytes.iter_mut().for_each(|byte| byte.is_lost = !byte.is_sacked);
    }

    fn assert_agreement(&self) {
        let count = |of: fn(&Byte) -> bool| self.bytes.iter().filter(|byte| of(byte)).count();
        assert_eq!(self.flight.outstanding(), self.bytes.len() as u64);
        assert_eq!(self.flight.sacked(), count(|byte| byte.is_sacked) as u64);
        assert_eq!(self.flight.lost(), count(|byte| byte.is_lost) as u64);
        assert_eq!(self.flight.pipe(), count(|byte| !byte.is_sacked && !byte.is_lost) as u64);
    }
}
