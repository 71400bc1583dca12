//! Bytes that are lost because they arrive faster than the interrupt routine processes them (TM-233
//! §6.2.3).
//!
//! A byte that arrives while the routine is busy with the previous one waits in the serial adapter.
//! The adapter holds one byte, and the next byte overwrites it (§1.1). Most bytes have the cost of
//! table 6-1. Some bytes take longer, as the thesis concludes from its observations; the scenario
//! specifies the fraction of these bytes and their additional time. Packets are sent with the LLP
//! of `protocols`. A packet counts as received correctly if its bytes are the same at both ends,
//! because a checksum would detect any difference.

use super::experiments::{MTU, text};
use super::scenario::Scenario;
use crate::sample::exponential_time;
use net::Cx;
use net::link::{Event, Llp};
use net::meter::{Clock, Meter};
use net::packet::Pool;
use net::rng::Rng;
use net::time::{Duration, Instant};
use simulator::transmission_line::Line;

/// Length of the TCP and IP headers, in bytes.
const HEADER_LEN: usize = 40;

/// The sender and the receiver of a line; only the receiver's interrupt routine may be too slow.
#[derive(Debug)]
struct LineEnds {
    sender: Llp,
    receiver: Llp,
    pool: Pool,
    meter: Meter,
    rng: Rng,
    now: Instant,
    /// Time until which the interrupt routine of the receiver is busy.
    busy_until: Instant,
    /// Byte in the receiver's serial adapter that the interrupt routine has not read yet.
    adapter_byte: Option<u8>,
}

/// Returns the fraction of packets that are received incorrectly at `rate_bps`.
pub(super) fn damaged_fraction(scenario: &Scenario, rate_bps: u64) -> f64 {
    let mut line_ends = LineEnds::new(scenario.seed);
    let packets = scenario.interrupt.packets.max(1);
    let damaged_count =
        (0..packets).filter(|_| !line_ends.send_packet(scenario, Line::serial(rate_bps))).count();
    damaged_count as f64 / packets as f64
}

impl LineEnds {
    fn new(seed: u64) -> Self {
        Self {
            sender: Llp::new(MTU),
            receiver: Llp::new(MTU),
            pool: Pool::new(4, MTU),
            meter: Meter::new(Clock::None),
            rng: Rng::from_seed(seed),
            now: Instant::ZERO,
            busy_until: Instant::ZERO,
            adapter_byte: None,
        }
    }

    /// Sends one packet and returns whether it arrived unchanged.
    fn send_packet(&mut self, scenario: &Scenario, line: Line) -> bool {
        let mut datagram: Vec<u8> = Vec::new();
        datagram.resize_with(HEADER_LEN, || self.rng.next_u64().to_le_bytes()[0]);
        datagram.extend(text(scenario.interrupt.data_bytes));
        let Some(mut packet) = self.pool.take(&mut self.meter) else { return false };
        packet.extend(&datagram);
        let mut cx = Cx { now: self.now, rng: &mut self.rng, meter: &mut self.meter };
        if let Err(packet) = self.sender.send(packet, &mut cx) {
            self.pool.put(packet);
            return false;
        }
        while !self.is_sent() && self.transfer_byte(scenario, line) {}
        self.finish_interrupts(scenario);
        let mut is_unchanged = false;
        while let Some(event) = self.receiver.event() {
            let Some(packet) = event.into_packet() else { continue };
            is_unchanged |= packet.data() == datagram;
            self.pool.put(packet);
        }
        is_unchanged
    }

    fn is_sent(&mut self) -> bool {
        let Some(event) = self.sender.event() else { return false };
        let is_sent = matches!(event, Event::Sent(_));
        if let Some(packet) = event.into_packet() {
            self.pool.put(packet);
        }
        is_sent
    }

    /// Transfers one byte in one of the two directions. Returns false if neither end had a byte to
    /// send.
    fn transfer_byte(&mut self, scenario: &Scenario, line: Line) -> bool {
        let mut byte = Vec::new();
        let mut cx = Cx { now: self.now, rng: &mut self.rng, meter: &mut self.meter };
        if self.sender.transmit_into(&mut byte, 1, &mut cx) > 0 {
            self.now = self.now + line.serial_time(1);
            byte.drain(..).for_each(|byte| self.receive_byte(byte, scenario));
            return true;
        }
        if self.adapter_byte.is_some() {
            self.finish_interrupts(scenario);
            return true;
        }
        if self.receiver.transmit_into(&mut byte, 1, &mut cx) == 0 {
            // The REQ was lost: it is retransmitted when its timer expires.
            let Some(deadline) = self.sender.deadline() else { return false };
            self.now = self.now.max(deadline);
            cx.now = self.now;
            self.sender.timeout(&mut cx);
            return true;
        }
        self.now = self.now + line.serial_time(1);
        cx.now = self.now;
        // The sender has no other work, so it processes every byte in time.
        self.sender.receive(&byte, &mut self.pool, &mut cx);
        true
    }

    /// Stores an arriving byte in the receiver's serial adapter.
    fn receive_byte(&mut self, byte: u8, scenario: &Scenario) {
        if self.now >= self.busy_until {
            self.process_adapter_byte(scenario);
        }
        if self.now >= self.busy_until {
            self.interrupt(byte, self.now, scenario);
        } else {
            // The new byte overwrites a byte that the adapter still holds; the old byte is lost.
            self.adapter_byte = Some(byte);
        }
    }

    /// Waits until the interrupt routine has processed all received bytes.
    fn finish_interrupts(&mut self, scenario: &Scenario) {
        self.now = self.now.max(self.busy_until);
        self.process_adapter_byte(scenario);
    }

    /// Runs the interrupt routine for the byte in the serial adapter, if any.
    fn process_adapter_byte(&mut self, scenario: &Scenario) {
        if let Some(byte) = self.adapter_byte.take() {
            self.interrupt(byte, self.busy_until, scenario);
        }
    }

    /// Runs the interrupt routine for `byte`, starting at `now`.
    fn interrupt(&mut self, byte: u8, now: Instant, scenario: &Scenario) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.receiver.receive(&[byte], &mut self.pool, &mut cx);
        self.busy_until = now + routine_time(scenario, &mut self.rng);
    }
}

/// Returns a random duration of the interrupt routine for one byte.
fn routine_time(scenario: &Scenario, rng: &mut Rng) -> Duration {
    let price = Duration::from_nanos(scenario.costs.line_byte_ns);
    if !rng.random_bool(scenario.interrupt.long_ppm) {
        return price;
    }
    price + exponential_time(Duration::from_micros(scenario.interrupt.long_mean_us), rng)
}

#[cfg(test)]
mod tests {
    use super::super::scenario::tests::built_in;
    use super::*;

    #[test]
    fn at_9600_bits_per_second_nothing_is_lost() {
        assert_eq!(damaged_fraction(&built_in(), 9_600), 0.0);
    }

    fn without_long_bytes() -> Scenario {
        let mut scenario = built_in();
        scenario.interrupt.long_ppm = 0;
        scenario
    }

    #[test]
    fn above_43290_bits_per_second_every_packet_is_damaged_without_long_bytes() {
        assert_eq!(damaged_fraction(&without_long_bytes(), 43_000), 0.0);
        assert_eq!(damaged_fraction(&without_long_bytes(), 43_500), 1.0);
    }

    #[test]
    fn a_byte_is_lost_if_the_next_one_arrives_before_the_routine_starts() {
        let scenario = without_long_bytes();
        let mut line_ends = LineEnds::new(scenario.seed);
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        for (us, adapter_byte) in [(0, None), (100, Some(2)), (240, Some(3)), (300, Some(4))] {
            line_ends.now = at(us);
            line_ends.receive_byte(adapter_byte.unwrap_or(1), &scenario);
            // At 231 µs the routine has read the second byte. At 300 µs the fourth byte overwrites
            // the third.
            assert_eq!(line_ends.adapter_byte, adapter_byte);
        }
        assert_eq!(line_ends.busy_until, at(2 * 231));
    }
}
