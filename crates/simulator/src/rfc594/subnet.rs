//! One message from host to host, and the answer to it.

use super::interface::Interface;
use protocols::time::{Duration, Instant};

/// Bits of a full message.
pub(super) const MESSAGE_BITS: u64 = 8_063;
/// Bits of a full packet: a message has eight.
const PACKET_BITS: u64 = 1_008;
/// What a packet carries beside its data on a line between IMPs.
const PACKET_OVERHEAD_BITS: u64 = 152;
/// The leader in front of each message on a host's cable.
const LEADER_BITS: u64 = 32;
/// A control message of the host's NCP: leader, prefix, and an ALL command.
const ALLOCATE_BITS: u64 = 40 + 80;
/// The lines of the ARPANET.
const LINE_BPS: u64 = 50_000;
/// What an IMP does with a packet: the one figure of the subnet that no document of the set has
/// exactly.
const PROCESSING: Duration = Duration::from_millis(1);
/// How long the source IMP keeps the room that came with a RFNM (RFC 619).
const ROOM_LASTS: Duration = Duration::from_millis(125);

/// What every IMP and every line of a subnet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// What an IMP takes for a packet.
    pub processing: Duration,
    /// The lines, in bits per second; not 0.
    pub line_bps: u64,
    /// How long the source IMP keeps the room that came with a RFNM.
    pub room_lasts: Duration,
}

impl Subnet {
    /// The ARPANET of 1973.
    pub const ARPANET: Self =
        Self { processing: PROCESSING, line_bps: LINE_BPS, room_lasts: ROOM_LASTS };

    fn time_of(&self, bits: u64) -> Duration {
        Duration::from_nanos(bits.saturating_mul(1_000_000_000) / self.line_bps.max(1))
    }
}

/// What lies between the two IMPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The IMPs and their lines.
    pub subnet: Subnet,
    /// Lines in a row; 0 if both hosts have the same IMP.
    pub hops: u32,
    /// How long a bit is on its way over one of them.
    pub propagation: Duration,
}

impl Path {
    /// Two hosts of one IMP.
    pub const LOCAL: Self = Self::of_hops(0);

    /// Returns a path of `hops` lines between places near each other.
    #[must_use]
    pub const fn of_hops(hops: u32) -> Self {
        Self { subnet: Subnet::ARPANET, hops, propagation: Duration::ZERO }
    }

    /// Returns when packets that are ready in the first IMP at these moments are ready in the last.
    fn carry(&self, mut packets: Vec<(Instant, u64)>) -> Vec<(Instant, u64)> {
        for _ in 0..self.hops {
            let mut line_free = Instant::ZERO;
            for (ready, bits) in &mut packets {
                let begins = (*ready + self.subnet.processing).max(line_free);
                line_free = begins + self.subnet.time_of(*bits + PACKET_OVERHEAD_BITS);
                *ready = line_free + self.propagation;
            }
        }
        packets
    }

    /// Returns how long one short packet takes from IMP to IMP.
    fn short(&self, bits: u64) -> Duration {
        self.carry(vec![(Instant::ZERO, bits)])
            .first()
            .map_or(Duration::ZERO, |(ready, _)| ready.since(Instant::ZERO))
    }
}

/// Where the time of one message goes. The parts add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// The two hosts' cables.
    pub interfaces: Duration,
    /// The IMPs and the lines between them.
    pub subnet: Duration,
    /// What the hosts do before the next message can leave.
    pub hosts: Duration,
}

impl Split {
    /// Returns the time of the message.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.interfaces + self.subnet + self.hosts
    }

    /// Returns kbit/s, if one full message follows another.
    #[must_use]
    pub fn kbps(&self) -> f64 {
        MESSAGE_BITS as f64 / self.total().as_secs_f64() / 1000.0
    }
}

/// Returns the time from one full message to the next, over `path` between two hosts with the same
/// kind of interface, which together need `hosts` for it.
#[must_use]
pub fn message_time(interface: &Interface, path: &Path, hosts: Duration) -> Split {
    let processing = path.subnet.processing;
    // Packets are in the IMP as soon as their last bit is.
    let mut packets = Vec::new();
    let mut sent = LEADER_BITS;
    while sent < LEADER_BITS + MESSAGE_BITS {
        let bits = PACKET_BITS.min(LEADER_BITS + MESSAGE_BITS - sent);
        sent += bits;
        packets.push((Instant::ZERO + interface.to_imp(sent), bits));
    }
    let in_source = interface.to_imp(sent);
    let together = path.carry(packets).iter().map(|(ready, _)| *ready + processing).max();
    let over = together.map_or(in_source, |at| at.since(Instant::ZERO));
    let to_host = interface.to_host(LEADER_BITS + MESSAGE_BITS);
    // The RFNM leaves with the first packet; the allocation, when the host has the message.
    let rfnm = interface.to_host(LEADER_BITS + PACKET_BITS)
        + path.short(0)
        + processing
        + interface.to_host(LEADER_BITS);
    let allocate_cables = interface.to_imp(ALLOCATE_BITS) + interface.to_host(ALLOCATE_BITS);
    let allocate_subnet = path.short(ALLOCATE_BITS) + processing;
    let answered = rfnm.max(to_host + allocate_cables + allocate_subnet);
    let interfaces = in_source + to_host + allocate_cables;
    // The next message comes too late for the room that this one's RFNM has brought.
    let idle = answered + hosts + interface.to_imp(LEADER_BITS + PACKET_BITS);
    let asks = idle.saturating_sub(rfnm) > path.subnet.room_lasts;
    let room = if asks { path.short(0) * 2 + processing } else { Duration::ZERO };
    Split { interfaces, subnet: room + over + answered - interfaces, hosts }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WORK: Duration = Duration::ZERO;

    #[test]
    fn a_message_holds_an_interface_of_100_kbit_for_81_ms() {
        assert_eq!(Interface::BEFORE.to_imp(MESSAGE_BITS), Duration::from_micros(80_630));
    }

    #[test]
    fn every_hop_makes_a_message_later_and_the_lines_are_a_pipeline() {
        let time = |hops| message_time(&Interface::BEFORE, &Path::of_hops(hops), NO_WORK).total();
        let full = Subnet::ARPANET.time_of(PACKET_BITS + PACKET_OVERHEAD_BITS);
        for hops in 1..8 {
            let more = time(hops + 1) - time(hops);
            // One packet, and the allocation that comes back: not the whole message.
            assert!(more > full && more < full * 2, "{hops}: {more:?}");
        }
    }

    #[test]
    fn a_host_that_takes_its_time_asks_for_room_again() {
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
