//! Timing of one message from host to host, and of its RFNM and allocation.

use super::interface::Interface;
use net::time::{Duration, Instant};

/// Length of a full message, in bits.
pub(super) const MESSAGE_BITS: u64 = 8_063;
/// Length of a full packet, in bits; a message has eight packets.
const PACKET_BITS: u64 = 1_008;
/// Overhead of a packet on a line between IMPs, in bits.
const PACKET_OVERHEAD_BITS: u64 = 152;
/// Length of the leader before each message on a host's cable, in bits.
const LEADER_BITS: u64 = 32;
/// Length of an NCP control message with one ALL command, including leader and prefix, in bits.
const ALLOCATE_BITS: u64 = 40 + 80;
/// Line rate of the ARPANET in bit/s.
const LINE_BPS: u64 = 50_000;
/// Processing time of an IMP per packet: the only value of the subnet without an exact source in
/// the reference documents.
const PROCESSING: Duration = Duration::from_millis(1);
/// Time after which the buffer reservation of an RFNM expires (RFC 619).
const RESERVATION_LIFETIME: Duration = Duration::from_millis(125);

/// Parameters of every IMP and every line of a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Processing time of an IMP per packet.
    pub processing: Duration,
    /// Rate of the lines, in bits per second; not 0.
    pub line_bps: u64,
    /// Time after which the buffer reservation of an RFNM expires.
    pub reservation_lifetime: Duration,
}

impl Subnet {
    /// The ARPANET of 1973.
    pub(crate) const ARPANET: Self = Self {
        processing: PROCESSING,
        line_bps: LINE_BPS,
        reservation_lifetime: RESERVATION_LIFETIME,
    };

    fn time_of(&self, bits: u64) -> Duration {
        Duration::from_nanos(bits.saturating_mul(1_000_000_000) / self.line_bps.max(1))
    }
}

/// The path between the two IMPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Parameters of the IMPs and their lines.
    pub subnet: Subnet,
    /// Number of lines in series; 0 if both hosts have the same IMP.
    pub hops: u32,
    /// Propagation delay of one line.
    pub propagation: Duration,
}

impl Path {
    /// The path between two hosts on the same IMP.
    pub const LOCAL: Self = Self::of_hops(0);

    /// Returns a path of `hops` ARPANET lines without propagation delay.
    #[must_use]
    pub(crate) const fn of_hops(hops: u32) -> Self {
        Self { subnet: Subnet::ARPANET, hops, propagation: Duration::ZERO }
    }

    /// Returns the times at which packets are complete in the last IMP. `packets` has for each
    /// packet the time at which it is complete in the first IMP, and its length in bits.
    fn carry(&self, mut packets: Vec<(Instant, u64)>) -> Vec<(Instant, u64)> {
        for _ in 0..self.hops {
            let mut line_free_at = Instant::ZERO;
            for (ready, bits) in &mut packets {
                let begins_at = (*ready + self.subnet.processing).max(line_free_at);
                line_free_at = begins_at + self.subnet.time_of(*bits + PACKET_OVERHEAD_BITS);
                *ready = line_free_at + self.propagation;
            }
        }
        packets
    }

    /// Returns the time of one packet of `bits` bits from the first IMP to the last.
    fn packet_time(&self, bits: u64) -> Duration {
        self.carry(vec![(Instant::ZERO, bits)])
            .first()
            .map_or(Duration::ZERO, |(ready, _)| ready.since(Instant::ZERO))
    }
}

/// The parts of the time from one message to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSplit {
    /// Time on the two hosts' cables.
    pub interfaces: Duration,
    /// Time in the IMPs and on the lines between them.
    pub subnet: Duration,
    /// Processing time of the hosts before the next message can be sent.
    pub hosts: Duration,
}

impl TimeSplit {
    /// Returns the total time per message.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.interfaces + self.subnet + self.hosts
    }

    /// Returns the data rate of consecutive full messages, in kbit/s.
    #[must_use]
    pub fn kbps(&self) -> f64 {
        MESSAGE_BITS as f64 / self.total().as_secs_f64() / 1000.0
    }
}

/// Returns the time from one full message to the next over `path`. Both hosts have the interface
/// `interface`, and together they need the processing time `hosts` per message.
#[must_use]
pub(crate) fn message_time(interface: &Interface, path: &Path, hosts: Duration) -> TimeSplit {
    let processing = path.subnet.processing;
    // The IMP has a packet when the last bit of the packet has arrived.
    let mut packets = Vec::new();
    let mut sent_bits = LEADER_BITS;
    while sent_bits < LEADER_BITS + MESSAGE_BITS {
        let bits = PACKET_BITS.min(LEADER_BITS + MESSAGE_BITS - sent_bits);
        sent_bits += bits;
        packets.push((Instant::ZERO + interface.to_imp(sent_bits), bits));
    }
    let in_source = interface.to_imp(sent_bits);
    let last_ready_at = path.carry(packets).iter().map(|(ready, _)| *ready + processing).max();
    let transit_time = last_ready_at.map_or(in_source, |at| at.since(Instant::ZERO));
    let to_host = interface.to_host(LEADER_BITS + MESSAGE_BITS);
    // The destination IMP sends the RFNM after the first packet has crossed the host's cable. The
    // host sends the allocation after it has received the whole message.
    let rfnm_time = interface.to_host(LEADER_BITS + PACKET_BITS)
        + path.packet_time(0)
        + processing
        + interface.to_host(LEADER_BITS);
    let allocate_cables = interface.to_imp(ALLOCATE_BITS) + interface.to_host(ALLOCATE_BITS);
    let allocate_subnet = path.packet_time(ALLOCATE_BITS) + processing;
    let reply_time = rfnm_time.max(to_host + allocate_cables + allocate_subnet);
    let interfaces = in_source + to_host + allocate_cables;
    // The buffer reservation in the RFNM may expire before the next message arrives.
    let next_packet_time = reply_time + hosts + interface.to_imp(LEADER_BITS + PACKET_BITS);
    let is_reservation_lost =
        next_packet_time.saturating_sub(rfnm_time) > path.subnet.reservation_lifetime;
    let request_time =
        if is_reservation_lost { path.packet_time(0) * 2 + processing } else { Duration::ZERO };
    TimeSplit { interfaces, subnet: request_time + transit_time + reply_time - interfaces, hosts }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WORK: Duration = Duration::ZERO;

    #[test]
    fn a_message_occupies_a_100_kbit_interface_for_81_ms() {
        assert_eq!(Interface::BEFORE.to_imp(MESSAGE_BITS), Duration::from_micros(80_630));
    }

    #[test]
    fn every_hop_delays_a_message_and_the_lines_form_a_pipeline() {
        let time = |hops| message_time(&Interface::BEFORE, &Path::of_hops(hops), NO_WORK).total();
        let full = Subnet::ARPANET.time_of(PACKET_BITS + PACKET_OVERHEAD_BITS);
        for hops in 1..8 {
            let added_time = time(hops + 1) - time(hops);
            // A hop adds the time of one packet and of the returning allocation, not of the whole
            // message.
            assert!(added_time > full && added_time < full * 2, "{hops}: {added_time:?}");
        }
    }

    #[test]
    fn a_slow_host_requests_an_allocation_again() {
        let time = |millis| {
            let work = Duration::from_millis(millis);
            message_time(&Interface::distant(342), &Path::of_hops(5), work).subnet
        };
        // Two short packets over five lines, and an IMP at each end.
        assert_eq!(
            time(150) - time(50),
            (PROCESSING + Subnet::ARPANET.time_of(152)) * 10 + PROCESSING
        );
    }

    #[test]
    fn the_parts_of_a_message_add_up_to_its_time() {
        let work = Duration::from_millis(10);
        let with = message_time(&Interface::distant(342), &Path::of_hops(3), work);
        let without = message_time(&Interface::distant(342), &Path::of_hops(3), NO_WORK);
        assert_eq!(with.total() - without.total(), work);
    }
}
