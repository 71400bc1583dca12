//! Impairment of the packets between the client's and the server's network namespace: a model in
//! virtual time, without I/O.
//!
//! One [`Wire`] has two directions. A packet passes, in this order: the size limit (dropped without
//! ICMP, RFC 2923), outages and pauses ([`super::variation`]), the policer, random or burst loss
//! (Gilbert's two states), the shaper, the queue of the link (its rate, and drops when it is full)
//! or the half-duplex medium, the delay with jitter, reordering and duplication. The model decides
//! all of this when the packet enters, so that it needs no events of its own: [`Wire::push`]
//! computes when the packet leaves, and [`Wire::pop`] returns packets that are due. The model
//! shares no code with `crates/simulator`.
//!
//! Times are nanoseconds since the start of the relay.

use super::link::Link;
use super::rng::{Rng, rounded};
use super::variation::{Variation, VariationState};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Loss of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Loss {
    #[default]
    None,
    /// Each packet is lost independently with this probability.
    Random(f64),
    /// Packets are lost in bursts of the mean `length`, in packets; the bursts contain this `share`
    /// of all packets.
    Burst { share: f64, length: f64 },
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bucket {
    pub(super) bits_per_second: u64,
    pub(super) bytes: u64,
    /// Whether a packet without tokens is dropped (policer) instead of delayed (shaper).
    pub(super) drops: bool,
}

/// Delays that a TFTP server adds to its blocks, like a slow disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockDelay {
    pub(super) first_ns: u64,
    pub(super) each_ns: u64,
}

/// Impairments of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) delay_ns: u64,
    /// Largest additional delay; packets keep their order.
    pub(super) jitter_ns: u64,
    pub(super) loss: Loss,
    pub(super) policer_or_shaper: Option<Bucket>,
    pub(super) link: Option<Link>,
    /// Probability that a packet is held back, and its additional delay, ns.
    pub(super) reordering: Option<(f64, u64)>,
    pub(super) duplication: f64,
    /// Packets with more bytes are dropped.
    pub(super) size_limit: Option<usize>,
    /// The first SYN of each connection to this port is dropped.
    pub(super) drops_first_syn_to: Option<u16>,
    pub(super) blocks: BlockDelay,
    pub(super) variation: Variation,
}

/// A half-duplex medium: it carries one direction at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Medium {
    pub(super) bits_per_second: u64,
    /// Pause between two packets of different directions.
    pub(super) turnaround_ns: u64,
    /// Capacity of the queue in each direction, bytes.
    pub(super) queue_bytes: u64,
}

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Towards {
    Client,
    Server,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at_ns: u64,
    order: u64,
    packet: Vec<u8>,
}

#[derive(Debug)]
struct Direction {
    settings: Settings,
    rng: Rng,
    is_in_burst: bool,
    changes: VariationState,
    /// Tokens in the bucket, bits, as of `filled_at_ns`.
    tokens: f64,
    filled_at_ns: u64,
    /// Times at which the last packet left the shaper, the link, the server's disk, and the wire in
    /// this direction.
    shaped_at_ns: u64,
    free_at_ns: u64,
    read_at_ns: u64,
    last_ns: u64,
    seen_syns: BTreeSet<[u8; 4]>,
    /// Time at which the first block for each client port has been read.
    first_blocks: BTreeMap<u16, u64>,
    waiting: BinaryHeap<Reverse<Due>>,
    order: u64,
}

/// The model of both directions.
#[derive(Debug)]
pub(super) struct Wire {
    client: Direction,
    server: Direction,
    medium: Option<(Medium, u64, Towards)>,
}

impl Wire {
    /// Returns a wire; `seed` determines which packets are lost, late and duplicated.
    pub(super) fn new(
        to_client: Settings,
        to_server: Settings,
        medium: Option<Medium>,
        seed: u64,
    ) -> Self {
        Self {
            client: Direction::new(to_client, Rng::new(seed, 1)),
            server: Direction::new(to_server, Rng::new(seed, 2)),
            medium: medium.map(|medium| (medium, 0, Towards::Client)),
        }
    }

    /// Accepts a packet that enters at `now_ns`.
    pub(super) fn push(&mut self, towards: Towards, now_ns: u64, packet: Vec<u8>) {
        let direction = match towards {
            Towards::Client => &mut self.client,
            Towards::Server => &mut self.server,
        };
        let Some(mut at_ns) = direction.admit(now_ns, &packet) else { return };
        if let Some((medium, free_at_ns, last)) = &mut self.medium {
            let turn_ns = if *last == towards { 0 } else { medium.turnaround_ns };
            let bits = packet.len() as u64 * 8;
            let start_ns = at_ns.max(free_at_ns.saturating_add(turn_ns));
            let rate = medium.bits_per_second.max(1);
            let queue_ns = medium.queue_bytes * 8_000_000_000 / rate;
            if start_ns - at_ns > queue_ns + 2 * medium.turnaround_ns {
                return;
            }
            at_ns = start_ns + bits * 1_000_000_000 / rate;
            *free_at_ns = at_ns;
            *last = towards;
        }
        direction.schedule(at_ns, packet);
    }

    /// Returns a packet that has left the wire by `now_ns`, if any.
    pub(super) fn pop(&mut self, towards: Towards, now_ns: u64) -> Option<Vec<u8>> {
        let direction = match towards {
            Towards::Client => &mut self.client,
            Towards::Server => &mut self.server,
        };
        let is_due = direction.waiting.peek().is_some_and(|Reverse(due)| due.at_ns <= now_ns);
        if is_due { direction.waiting.pop().map(|Reverse(due)| due.packet) } else { None }
    }

    /// Returns the time at which the next packet leaves.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let heads = [self.client.waiting.peek(), self.server.waiting.peek()];
        heads.into_iter().flatten().map(|Reverse(due)| due.at_ns).min()
    }
}

impl Direction {
    fn new(settings: Settings, rng: Rng) -> Self {
        let tokens = settings.policer_or_shaper.map_or(0.0, |bucket| bucket.bytes as f64 * 8.0);
        Self {
            settings,
            rng,
            is_in_burst: false,
            changes: VariationState::default(),
            tokens,
            filled_at_ns: 0,
            shaped_at_ns: 0,
            free_at_ns: 0,
            read_at_ns: 0,
            last_ns: 0,
            seen_syns: BTreeSet::new(),
            first_blocks: BTreeMap::new(),
            waiting: BinaryHeap::new(),
            order: 0,
        }
    }

    /// Returns the time at which the packet leaves the slowest link, or `None` if it is dropped.
    fn admit(&mut self, now_ns: u64, packet: &[u8]) -> Option<u64> {
        let bits = packet.len() as u64 * 8;
        if self.settings.size_limit.is_some_and(|limit| packet.len() > limit)
            || self.is_first_syn(packet)
        {
            return None;
        }
        let variation = self.settings.variation;
        let now_ns = self.changes.enter(&variation, now_ns, packet, &mut self.rng)?;
        let now_ns = self.read_from_disk(now_ns, packet);
        let mut at_ns = now_ns;
        if let Some(bucket) = self.settings.policer_or_shaper.filter(|bucket| bucket.drops) {
            at_ns = self.pass_bucket(bucket, at_ns, bits)?;
        }
        if self.is_lost() {
            return None;
        }
        if let Some(bucket) = self.settings.policer_or_shaper.filter(|bucket| !bucket.drops) {
            at_ns = self.pass_bucket(bucket, at_ns.max(self.shaped_at_ns), bits)?;
            self.shaped_at_ns = at_ns;
        }
        self.pass_link(at_ns, bits)
    }

    /// Returns the time at which the link has sent the packet, or `None` if its queue drops it.
    fn pass_link(&mut self, at_ns: u64, bits: u64) -> Option<u64> {
        let Some(link) = self.settings.link else { return Some(at_ns) };
        let variation = self.settings.variation;
        self.changes.add_cross_traffic(&variation, link, at_ns, &mut self.free_at_ns);
        let rate = variation.rate(link, at_ns);
        let wait_ns = self.free_at_ns.saturating_sub(at_ns);
        let backlog = u128::from(wait_ns) * u128::from(rate) / 8_000_000_000;
        let backlog = u64::try_from(backlog).unwrap_or(u64::MAX);
        let is_dropped_by_red = variation.red.is_some_and(|red| red.drops(backlog, &mut self.rng));
        if backlog > link.queue_bytes || is_dropped_by_red {
            return None;
        }
        let serial_ns = bits * 1_000_000_000 / rate + variation.packet_ns;
        self.free_at_ns = at_ns.max(self.free_at_ns) + serial_ns;
        Some(self.free_at_ns)
    }

    /// Returns the time at which the bucket has enough tokens for the packet. Returns `None` if the
    /// policer drops the packet, or if the packet would wait more than two seconds in the shaper.
    fn pass_bucket(&mut self, bucket: Bucket, now_ns: u64, bits: u64) -> Option<u64> {
        let rate = bucket.bits_per_second.max(1) as f64 / 1e9;
        let since_ns = now_ns.saturating_sub(self.filled_at_ns) as f64;
        let filled = (self.tokens + since_ns * rate).min(bucket.bytes as f64 * 8.0);
        let missing = bits as f64 - filled;
        if missing <= 0.0 {
            self.tokens = filled - bits as f64;
            self.filled_at_ns = now_ns;
            return Some(now_ns);
        }
        let wait_ns = rounded(missing / rate);
        if bucket.drops || wait_ns > 2_000_000_000 {
            self.tokens = filled;
            self.filled_at_ns = now_ns;
            return None;
        }
        self.tokens = 0.0;
        self.filled_at_ns = now_ns + wait_ns;
        Some(now_ns + wait_ns)
    }

    fn is_lost(&mut self) -> bool {
        match self.settings.loss {
            Loss::None => false,
            Loss::Random(share) => self.rng.is(share),
            Loss::Burst { share, length } => {
                // The Markov chain is in its bad state for `share` of all packets.
                let leave = 1.0 / length.max(1.0);
                let enter = leave * share / (1.0 - share).max(0.01);
                let change = if self.is_in_burst { leave } else { enter };
                if self.rng.is(change) {
                    self.is_in_burst = !self.is_in_burst;
                }
                self.is_in_burst
            }
        }
    }

    /// Returns whether the packet is the first SYN of a connection, and the settings drop that SYN.
    fn is_first_syn(&mut self, packet: &[u8]) -> bool {
        let to = self.settings.drops_first_syn_to;
        let exempt_port = self.settings.variation.drops_first_syn_beside;
        let Some((ports, port, is_syn)) = segment(packet) else { return false };
        let is_to_port =
            to == Some(port) || exempt_port.is_some_and(|exempt_port| exempt_port != port);
        is_to_port && is_syn && self.seen_syns.insert(ports)
    }

    /// Returns the time for which a firewall holds the packet back, ns.
    fn firewall_delay_ns(&self, packet: &[u8]) -> u64 {
        let Some((held, for_ns)) = self.settings.variation.held_port else { return 0 };
        if segment(packet).is_some_and(|(_, port, _)| port == held) { for_ns } else { 0 }
    }

    /// Returns the time at which a TFTP block has been read from disk, or `now_ns` for any other
    /// packet. A retransmitted first block leaves no later than the original.
    fn read_from_disk(&mut self, now_ns: u64, packet: &[u8]) -> u64 {
        let BlockDelay { first_ns, each_ns } = self.settings.blocks;
        if first_ns == 0 && each_ns == 0 {
            return now_ns;
        }
        let Some(datagram) = payload(packet, 17) else { return now_ns };
        // RFC 1350: opcode 3 is DATA, and its block number follows.
        match (datagram.get(8..12), datagram.get(2..4)) {
            (Some([0, 3, 0, 1]), Some([high, low])) if first_ns > 0 => {
                let client = u16::from_be_bytes([*high, *low]);
                let read_at_ns = *self.first_blocks.entry(client).or_insert(now_ns + first_ns);
                now_ns.max(read_at_ns)
            }
            (Some([0, 3, ..]), _) => {
                self.read_at_ns = self.read_at_ns.max(now_ns) + each_ns;
                self.read_at_ns
            }
            _ => now_ns,
        }
    }

    fn schedule(&mut self, at_ns: u64, packet: Vec<u8>) {
        let Settings { delay_ns, jitter_ns, reordering, duplication, .. } = self.settings;
        let jitter_ns = rounded(self.rng.unit() * jitter_ns as f64);
        let longer_ns = self.settings.variation.longer_by_ns(at_ns);
        let held_ns = self.firewall_delay_ns(&packet);
        let mut due_ns = at_ns + delay_ns + longer_ns + jitter_ns;
        if held_ns > 0 {
            // Later packets overtake this one.
            self.enqueue(due_ns + held_ns, packet);
            return;
        }
        match reordering.filter(|(share, _)| self.rng.is(*share)) {
            Some((_, late_ns)) => due_ns += late_ns,
            None => {
                due_ns = due_ns.max(self.last_ns);
                self.last_ns = due_ns;
            }
        }
        if duplication > 0.0 && self.rng.is(duplication) {
            self.enqueue(due_ns, packet.clone());
        }
        self.enqueue(due_ns, packet);
    }

    fn enqueue(&mut self, at_ns: u64, packet: Vec<u8>) {
        self.order += 1;
        self.waiting.push(Reverse(Due { at_ns, order: self.order, packet }));
    }
}

/// Returns the bytes of both ports of a TCP segment, the destination port, and `true` for a SYN
/// without ACK.
fn segment(packet: &[u8]) -> Option<([u8; 4], u16, bool)> {
    let segment = payload(packet, 6)?;
    let ports = *segment.first_chunk::<4>()?;
    let [_, _, high, low] = ports;
    let is_syn = segment.get(13)? & 0x12 == 0x02;
    Some((ports, u16::from_be_bytes([high, low]), is_syn))
}

/// Returns the payload of an IPv4 packet of `protocol` that is not fragmented or is the first
/// fragment; otherwise returns `None`.
fn payload(packet: &[u8], protocol: u8) -> Option<&[u8]> {
    let first = *packet.first()?;
    let is_first = packet
        .get(6..8)
        .is_some_and(|offset| matches!(offset, [high, low] if high & 0x1F == 0 && *low == 0));
    if first >> 4 != 4 || packet.get(9) != Some(&protocol) || !is_first {
        return None;
    }
    packet.get(usize::from(first & 0x0F) * 4..)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn wire(settings: Settings) -> Wire {
        Wire::new(settings, Settings::default(), None, 1)
    }

    /// Sends packets of `bytes` at `times_ns`. Returns the arrival time and the index of each
    /// packet that arrives.
    fn arrivals(wire: &mut Wire, bytes: usize, times_ns: &[u64]) -> Vec<(u64, usize)> {
        let mut out = Vec::new();
        for (number, at) in times_ns.iter().enumerate() {
            let mut packet = vec![0; bytes];
            packet[..8].copy_from_slice(&(number as u64).to_be_bytes());
            wire.push(Towards::Client, *at, packet);
        }
        while let Some(at) = wire.next_ns() {
            let packet = wire.pop(Towards::Client, at).unwrap();
            let number = u64::from_be_bytes(packet[..8].try_into().unwrap());
            out.push((at, usize::try_from(number).unwrap()));
        }
        out
    }

    #[test]
    fn a_packet_arrives_after_the_delay_and_the_other_direction_is_not_touched() {
        let mut wire = wire(Settings { delay_ns: 20 * MS, ..Settings::default() });
        assert_eq!(arrivals(&mut wire, 100, &[5 * MS]), [(25 * MS, 0)]);
        wire.push(Towards::Server, 7, vec![1]);
        assert_eq!(wire.pop(Towards::Server, 7), Some(vec![1]));
        assert_eq!(wire.pop(Towards::Server, 8), None);
    }

    #[test]
    fn jitter_stays_in_its_range_and_keeps_the_order() {
        let settings = Settings { delay_ns: 10 * MS, jitter_ns: 8 * MS, ..Settings::default() };
        let times: Vec<u64> = (0..1_000).map(|number| number * MS).collect();
        let arrived = arrivals(&mut wire(settings), 100, &times);
        assert!(arrived.iter().map(|(_, number)| *number).eq(0..1_000));
        let late = arrived.iter().zip(&times).map(|((at, _), sent)| at - sent - 10 * MS);
        let min_ns = late.clone().min().unwrap();
        let max_ns = late.max().unwrap();
        assert!(min_ns < MS && (6 * MS..=8 * MS).contains(&max_ns), "{min_ns} {max_ns}");
    }

    #[test]
    fn random_loss_has_its_rate_and_no_memory() {
        let settings = Settings { loss: Loss::Random(0.03), ..Settings::default() };
        let times: Vec<u64> = (0..50_000).collect();
        let arrived = arrivals(&mut wire(settings), 100, &times);
        let lost = 50_000 - arrived.len();
        assert!((1_400..1_600).contains(&lost), "{lost}");
        assert!(mean_burst(&arrived) < 1.1);
    }

    #[test]
    fn burst_loss_has_its_share_and_its_mean_length() {
        let loss = Loss::Burst { share: 0.04, length: 5.0 };
        let times: Vec<u64> = (0..100_000).collect();
        let arrived = arrivals(&mut wire(Settings { loss, ..Settings::default() }), 100, &times);
        let lost = 100_000 - arrived.len();
        assert!((3_400..4_600).contains(&lost), "{lost}");
        let length = mean_burst(&arrived);
        assert!((4.4..5.6).contains(&length), "{length}");
    }

    fn mean_burst(arrived: &[(u64, usize)]) -> f64 {
        let gaps = arrived.windows(2).map(|two| two[1].1 - two[0].1 - 1).filter(|gap| *gap > 0);
        let gaps: Vec<usize> = gaps.collect();
        gaps.iter().sum::<usize>() as f64 / gaps.len().max(1) as f64
    }

    #[test]
    fn a_link_sends_at_its_rate_and_drops_what_its_queue_does_not_hold() {
        let link = Some(Link { bits_per_second: 8_000_000, queue_bytes: 10_000 });
        let settings = Settings { link, ..Settings::default() };
        // 1,000 bytes take 1 ms. All packets enter at once: one is on the link, and the queue holds
        // ten full packets.
        let arrived = arrivals(&mut wire(settings), 1_000, &[0; 50]);
        let expected: Vec<(u64, usize)> =
            (0..11).map(|number| ((number as u64 + 1) * MS, number)).collect();
        assert_eq!(arrived, expected);
    }

    #[test]
    fn a_shaper_passes_a_full_bucket_and_then_limits_to_its_rate() {
        let bucket = Bucket { bits_per_second: 800_000, bytes: 20_000, drops: false };
        let settings = Settings { policer_or_shaper: Some(bucket), ..Settings::default() };
        let arrived = arrivals(&mut wire(settings), 1_000, &[0; 40]);
        assert_eq!(arrived.len(), 40);
        assert!(arrived[..20].iter().all(|(at, _)| *at == 0));
        // In the middle of the transfer 1,000 bytes take 10 ms.
        let times = arrived[20..].iter().map(|(at, _)| *at / MS);
        assert!(times.eq((1..=20).map(|number| number * 10)));
    }

    #[test]
    fn a_policer_drops_what_exceeds_its_bucket_and_its_rate() {
        let bucket = Bucket { bits_per_second: 800_000, bytes: 20_000, drops: true };
        let settings = Settings { policer_or_shaper: Some(bucket), ..Settings::default() };
        // The test sends at ten times the rate for two seconds: the initial content of the bucket
        // and its refill pass.
        let times: Vec<u64> = (0..2_000).map(|number| number * MS).collect();
        let arrived = arrivals(&mut wire(settings), 1_000, &times);
        assert!((215..=221).contains(&arrived.len()), "{}", arrived.len());
        assert!(arrived.iter().all(|(at, number)| *at == *number as u64 * MS));
    }

    #[test]
    fn late_packets_are_overtaken_by_the_others() {
        let settings =
            Settings { reordering: Some((0.1, 5 * MS)), delay_ns: MS, ..Settings::default() };
        let times: Vec<u64> = (0..1_000).map(|number| number * MS).collect();
        let arrived = arrivals(&mut wire(settings), 100, &times);
        assert_eq!(arrived.len(), 1_000);
        let late = arrived.iter().filter(|(at, number)| *at == times[*number] + 6 * MS).count();
        assert!((70..130).contains(&late), "{late}");
    }

    #[test]
    fn duplicates_arrive_twice() {
        let settings = Settings { duplication: 0.3, ..Settings::default() };
        let times: Vec<u64> = (0..1_000).collect();
        let count = arrivals(&mut wire(settings), 100, &times).len();
        assert!((1_250..1_350).contains(&count), "{count}");
    }

    #[test]
    fn a_packet_that_is_longer_than_the_limit_vanishes() {
        let settings = Settings { size_limit: Some(600), ..Settings::default() };
        assert_eq!(arrivals(&mut wire(settings), 600, &[1]).len(), 1);
        assert_eq!(arrivals(&mut wire(settings), 601, &[1]).len(), 0);
    }

    #[test]
    fn a_half_duplex_medium_pauses_when_the_direction_changes() {
        let medium =
            Medium { bits_per_second: 800_000, turnaround_ns: 30 * MS, queue_bytes: 100_000 };
        let mut wire = Wire::new(Settings::default(), Settings::default(), Some(medium), 1);
        wire.push(Towards::Client, 0, vec![0; 1_000]);
        wire.push(Towards::Client, 0, vec![0; 1_000]);
        wire.push(Towards::Server, 0, vec![0; 1_000]);
        assert_eq!(wire.next_ns(), Some(10 * MS));
        assert!(wire.pop(Towards::Client, 20 * MS).is_some());
        assert!(wire.pop(Towards::Client, 20 * MS).is_some());
        assert_eq!(wire.next_ns(), Some(60 * MS));
    }

    /// Returns an IPv4 packet of `protocol` with `payload`.
    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet.extend(payload);
        packet
    }

    #[test]
    fn the_first_syn_of_each_connection_to_the_port_is_dropped() {
        let settings = Settings { drops_first_syn_to: Some(2323), ..Settings::default() };
        let mut wire = Wire::new(Settings::default(), settings, None, 1);
        let mut syn = vec![0; 20];
        syn[..4].copy_from_slice(&[0x80, 1, 0x09, 0x13]);
        syn[13] = 0x02;
        let mut other = syn.clone();
        other[1] = 2;
        for (segment, is_passed) in [(&syn, false), (&syn, true), (&other, false)] {
            wire.push(Towards::Server, 1, packet(6, segment));
            assert_eq!(wire.pop(Towards::Server, 1).is_some(), is_passed);
        }
        syn[13] = 0x10;
        wire.push(Towards::Server, 1, packet(6, &syn));
        assert!(wire.pop(Towards::Server, 1).is_some());
    }

    #[test]
    fn a_firewall_drops_first_syns_except_to_one_port_and_delays_segments_to_a_port() {
        let variation = Variation {
            drops_first_syn_beside: Some(2121),
            held_port: Some((2121, 10)),
            ..Variation::default()
        };
        let settings = Settings { variation, ..Settings::default() };
        let mut wire = Wire::new(Settings::default(), settings, None, 1);
        let syn = |port: u16| {
            let mut syn = vec![0; 20];
            syn[2..4].copy_from_slice(&port.to_be_bytes());
            syn[13] = 0x02;
            syn
        };
        for (port, is_passed) in [(40_001, false), (40_001, true)] {
            wire.push(Towards::Server, 1, packet(6, &syn(port)));
            assert_eq!(wire.pop(Towards::Server, 1).is_some(), is_passed, "{port}");
        }
        wire.push(Towards::Server, 1, packet(6, &syn(2121)));
        wire.push(Towards::Server, 2, packet(17, &[0; 8]));
        let arrivals = [(2, 17), (11, 6)];
        for (at_ns, protocol) in arrivals {
            assert_eq!(wire.next_ns(), Some(at_ns));
            assert_eq!(wire.pop(Towards::Server, at_ns).unwrap()[9], protocol);
        }
    }

    fn block(number: u8) -> Vec<u8> {
        packet(17, &[&[0; 8][..], &[0, 3, 0, number, 7]].concat())
    }

    #[test]
    fn tftp_blocks_wait_for_the_disk_one_after_the_other() {
        let blocks = BlockDelay { first_ns: 0, each_ns: 10 * MS };
        let mut wire = wire(Settings { blocks, ..Settings::default() });
        wire.push(Towards::Client, 0, block(1));
        wire.push(Towards::Client, 0, block(2));
        assert_eq!(wire.next_ns(), Some(10 * MS));
        assert!(wire.pop(Towards::Client, 10 * MS).is_some());
        assert_eq!(wire.next_ns(), Some(20 * MS));
    }

    #[test]
    fn a_first_block_that_is_sent_again_is_not_later_than_the_first_time() {
        let blocks = BlockDelay { first_ns: 50 * MS, each_ns: 0 };
        let mut wire = wire(Settings { blocks, ..Settings::default() });
        wire.push(Towards::Client, 0, block(1));
        wire.push(Towards::Client, 30 * MS, block(1));
        for _ in 0..2 {
            assert_eq!(wire.next_ns(), Some(50 * MS));
            assert!(wire.pop(Towards::Client, 50 * MS).is_some());
        }
        wire.push(Towards::Client, 60 * MS, block(2));
        assert_eq!(wire.next_ns(), Some(60 * MS));
    }
}
