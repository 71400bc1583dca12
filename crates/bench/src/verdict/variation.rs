//! Impairments of one direction of the path that depend on time, packet length, or the traffic of
//! other hosts: a model in virtual time, part of `super::impairment`.
//!
//! Not modeled: packets that overtake others when a route becomes shorter (packets keep their
//! order), the average queue length of random early detection (Floyd and Jacobson, 1993: here the
//! current length decides), and competing flows that react to the delay.

use super::link::Link;
use super::rng::Rng;

/// Size of a full packet of the competing flow, bits.
const CROSS_PACKET_BITS: u64 = 12_000;
/// After a drop the competing flow pauses until three tenths of the queue have drained (CUBIC's
/// multiplicative decrease, RFC 9438 section 4.6).
const DECREASE_TENTHS: u64 = 3;

/// A repeating interval: the last `for_ns` of each period of `every_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Periodic {
    pub(super) every_ns: u64,
    pub(super) for_ns: u64,
}

impl Periodic {
    /// Returns the end of the interval that contains `at_ns`, or `None` if `at_ns` is between
    /// intervals.
    pub(super) fn end(self, at_ns: u64) -> Option<u64> {
        let every_ns = self.every_ns.max(1);
        let in_period_ns = at_ns % every_ns;
        let end_ns = at_ns - in_period_ns + every_ns;
        (in_period_ns + self.for_ns >= every_ns).then_some(end_ns)
    }
}

/// A radio that sleeps after `idle_ns` without a packet, and needs `delay_ns` to wake up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RadioSleep {
    pub(super) idle_ns: u64,
    pub(super) delay_ns: u64,
}

/// Random early detection: between the two queue lengths the drop probability grows to
/// `most_per_mille`; above the larger one every packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Red {
    pub(super) least_bytes: u64,
    pub(super) most_bytes: u64,
    pub(super) most_per_mille: u64,
}

/// Variations of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variation {
    /// Intervals with a longer route, and the additional delay, ns.
    pub(super) longer_route: Option<(Periodic, u64)>,
    /// Intervals in which all packets are held, until the end of the interval.
    pub(super) pauses: Option<Periodic>,
    /// Intervals in which packets are lost.
    pub(super) outages: Option<Periodic>,
    pub(super) wake: Option<RadioSleep>,
    /// Packet length and loss rate: longer packets are lost with this probability, per mille.
    pub(super) loss_above: Option<(usize, u64)>,
    /// TCP destination port whose segments are held back, and their additional delay, ns.
    pub(super) held_port: Option<(u16, u64)>,
    /// The first SYN of each connection to any port other than this one is dropped.
    pub(super) drops_first_syn_beside: Option<u16>,
    /// Intervals in which the link has another rate, and this rate, bit/s.
    pub(super) slow_phase: Option<(Periodic, u64)>,
    /// Time that the link needs for each packet in addition to the time of its bits.
    pub(super) packet_ns: u64,
    pub(super) red: Option<Red>,
    /// Intervals in which a bulk flow of other hosts sends.
    pub(super) cross: Option<Periodic>,
}

/// The state of a [`Variation`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VariationState {
    last_packet_ns: Option<u64>,
    awake_at_ns: u64,
    cross: CompetingFlow,
}

/// The competing flow.
#[derive(Clone, Copy, Debug, Default)]
struct CompetingFlow {
    next_ns: u64,
    has_lost_packet: bool,
}

impl VariationState {
    /// Returns the time at which a packet that enters at `now_ns` continues, or `None` if it is
    /// lost.
    pub(super) fn enter(
        &mut self,
        settings: &Variation,
        now_ns: u64,
        packet: &[u8],
        rng: &mut Rng,
    ) -> Option<u64> {
        let is_in_outage = settings.outages.is_some_and(|outages| outages.end(now_ns).is_some());
        let is_too_long = |(length, _): (usize, u64)| packet.len() > length;
        let loss = settings.loss_above.filter(|loss| is_too_long(*loss));
        if is_in_outage || loss.is_some_and(|(_, per_mille)| rng.is(per_mille as f64 / 1e3)) {
            return None;
        }
        let at_ns = self.wake(settings, now_ns, packet);
        Some(settings.pauses.and_then(|pauses| pauses.end(at_ns)).unwrap_or(at_ns))
    }

    /// Returns the time at which the radio is awake. IPv6 packets do not wake the radio, because
    /// the kernels send them without traffic of the test.
    fn wake(&mut self, settings: &Variation, now_ns: u64, packet: &[u8]) -> u64 {
        let Some(wake) = settings.wake.filter(|_| packet.first().is_some_and(|b| b >> 4 == 4))
        else {
            return now_ns;
        };
        let idle_ns = self.last_packet_ns.map_or(u64::MAX, |last| now_ns.saturating_sub(last));
        if idle_ns > wake.idle_ns {
            self.awake_at_ns = now_ns + wake.delay_ns;
        }
        let at_ns = now_ns.max(self.awake_at_ns);
        self.last_packet_ns = Some(at_ns);
        at_ns
    }

    /// Adds the packets that the competing flow sends until `now_ns`. `free_at_ns` is the time at
    /// which the link's queue becomes empty.
    pub(super) fn add_cross_traffic(
        &mut self,
        settings: &Variation,
        link: Link,
        now_ns: u64,
        free_at_ns: &mut u64,
    ) {
        let Some(active) = settings.cross else { return };
        let rate = link.bits_per_second.max(1);
        let serial_ns = CROSS_PACKET_BITS * 1_000_000_000 / rate;
        let queue_ns = link.queue_bytes * 8_000_000_000 / rate;
        while self.cross.next_ns <= now_ns {
            let at_ns = self.cross.next_ns;
            if active.end(at_ns).is_none() {
                // The competing flow starts again in the next interval.
                let every_ns = active.every_ns.max(1);
                let pause_ns = every_ns.saturating_sub(active.for_ns);
                self.cross.next_ns = at_ns - at_ns % every_ns + pause_ns.max(1);
                self.cross.has_lost_packet = false;
                continue;
            }
            if free_at_ns.saturating_sub(at_ns) > queue_ns {
                self.cross.has_lost_packet = true;
                self.cross.next_ns = at_ns + serial_ns + queue_ns * DECREASE_TENTHS / 10;
                continue;
            }
            *free_at_ns = at_ns.max(*free_at_ns) + serial_ns;
            // Before the first drop the flow doubles its rate (slow start); after the drop,
            // acknowledgments clock the flow, and its window grows.
            let interval_ns =
                if self.cross.has_lost_packet { serial_ns * 9 / 10 } else { serial_ns / 2 };
            self.cross.next_ns = at_ns + interval_ns.max(1);
        }
    }
}

impl Variation {
    /// Returns the additional delay of the route at `at_ns`.
    pub(super) fn longer_by_ns(&self, at_ns: u64) -> u64 {
        self.longer_route
            .filter(|(periodic, _)| periodic.end(at_ns).is_some())
            .map_or(0, |(_, extra_ns)| extra_ns)
    }

    /// Returns the rate of the link at `at_ns`, bit/s.
    pub(super) fn rate(&self, link: Link, at_ns: u64) -> u64 {
        let slow = self.slow_phase.filter(|(periodic, _)| periodic.end(at_ns).is_some());
        slow.map_or(link.bits_per_second, |(_, rate)| rate).max(1)
    }
}

impl Red {
    /// Returns whether a packet that finds `backlog` bytes in the queue is dropped.
    pub(super) fn drops(self, backlog: u64, rng: &mut Rng) -> bool {
        if backlog >= self.most_bytes {
            return true;
        }
        let above = backlog.saturating_sub(self.least_bytes) as f64;
        let width = self.most_bytes.saturating_sub(self.least_bytes).max(1) as f64;
        above > 0.0 && rng.is(above / width * self.most_per_mille as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::impairment::{Settings, Towards, Wire};
    use super::*;

    const MS: u64 = 1_000_000;

    fn wire(variation: Variation, link: Option<Link>) -> Wire {
        let settings = Settings { variation, link, ..Settings::default() };
        Wire::new(settings, Settings::default(), None, 1)
    }

    /// Sends packets of `bytes` at `times_ns`, and returns the time of arrival of each.
    fn arrivals(wire: &mut Wire, bytes: usize, times_ns: &[u64]) -> Vec<u64> {
        for at in times_ns {
            let mut packet = vec![0; bytes];
            packet[0] = 0x45;
            wire.push(Towards::Client, *at, packet);
        }
        let mut out = Vec::new();
        while let Some(at) = wire.next_ns() {
            wire.pop(Towards::Client, at);
            out.push(at);
        }
        out
    }

    #[test]
    fn an_interval_is_the_end_of_its_period() {
        let periodic = Periodic { every_ns: 10, for_ns: 3 };
        let ends: Vec<Option<u64>> = (5..12).map(|at| periodic.end(at)).collect();
        assert_eq!(ends, [None, None, Some(10), Some(10), Some(10), None, None]);
    }

    #[test]
    fn a_route_becomes_longer_and_short_again_and_packets_keep_their_order() {
        let periodic = Periodic { every_ns: 100 * MS, for_ns: 50 * MS };
        let variation =
            Variation { longer_route: Some((periodic, 20 * MS)), ..Variation::default() };
        let times = [0, 60 * MS, 99 * MS, 101 * MS, 130 * MS];
        let expected = [0, 80 * MS, 119 * MS, 119 * MS, 130 * MS];
        assert_eq!(arrivals(&mut wire(variation, None), 100, &times), expected);
    }

    #[test]
    fn a_pause_holds_packets_and_an_outage_loses_them() {
        let periodic = Some(Periodic { every_ns: 100 * MS, for_ns: 40 * MS });
        let pauses = Variation { pauses: periodic, ..Variation::default() };
        let times = [10 * MS, 70 * MS, 80 * MS, 100 * MS];
        let held = arrivals(&mut wire(pauses, None), 100, &times);
        assert_eq!(held, [10 * MS, 100 * MS, 100 * MS, 100 * MS]);
        let outages = Variation { outages: periodic, ..Variation::default() };
        assert_eq!(arrivals(&mut wire(outages, None), 100, &times), [10 * MS, 100 * MS]);
    }

    #[test]
    fn a_radio_wakes_up_for_the_first_packet_after_an_idle_time() {
        let wake = Some(RadioSleep { idle_ns: 50 * MS, delay_ns: 30 * MS });
        let variation = Variation { wake, ..Variation::default() };
        let times = [0, 10 * MS, 70 * MS, 130 * MS];
        let expected = [30 * MS, 30 * MS, 70 * MS, 160 * MS];
        assert_eq!(arrivals(&mut wire(variation, None), 100, &times), expected);
    }

    #[test]
    fn long_packets_are_lost_and_short_ones_are_not() {
        let variation = Variation { loss_above: Some((700, 250)), ..Variation::default() };
        let times: Vec<u64> = (0..4_000).collect();
        let long = arrivals(&mut wire(variation, None), 701, &times).len();
        assert!((2_850..3_150).contains(&long), "{long}");
        assert_eq!(arrivals(&mut wire(variation, None), 700, &times).len(), 4_000);
    }

    #[test]
    fn a_link_is_slower_in_its_slow_phase_and_each_packet_takes_its_time() {
        let link = Some(Link { bits_per_second: 8_000_000, queue_bytes: 100_000 });
        let periodic = Periodic { every_ns: 100 * MS, for_ns: 50 * MS };
        let slow = Variation { slow_phase: Some((periodic, 800_000)), ..Variation::default() };
        let arrived = arrivals(&mut wire(slow, link), 1_000, &[0, 60 * MS]);
        assert_eq!(arrived, [MS, 70 * MS]);
        let each = Variation { packet_ns: 3 * MS, ..Variation::default() };
        assert_eq!(arrivals(&mut wire(each, link), 1_000, &[0, 0]), [4 * MS, 8 * MS]);
    }

    #[test]
    fn early_detection_drops_more_the_longer_the_queue_is() {
        let red = Red { least_bytes: 3_000, most_bytes: 9_000, most_per_mille: 200 };
        let mut rng = Rng::new(1, 1);
        let mut drops = |backlog| (0..10_000).filter(|_| red.drops(backlog, &mut rng)).count();
        assert_eq!(drops(3_000), 0);
        let middle = drops(6_000);
        let end = drops(8_999);
        assert!((900..1_100).contains(&middle) && (1_850..2_150).contains(&end), "{middle} {end}");
        assert_eq!(drops(9_000), 10_000);
    }

    #[test]
    fn a_competing_flow_keeps_more_than_half_of_the_queue_full() {
        // At this rate, a full queue takes 400 ms to drain.
        let link = Link { bits_per_second: 1_000_000, queue_bytes: 50_000 };
        let always = Some(Periodic { every_ns: 1, for_ns: 1 });
        let variation = Variation { cross: always, ..Variation::default() };
        let times: Vec<u64> = (0..100).map(|number| (2_000 + number * 100) * MS).collect();
        let mut wire = wire(variation, Some(link));
        let mut waits = Vec::new();
        for at in times {
            wire.push(Towards::Client, at, vec![0x45; 60]);
            let Some(due) = wire.next_ns() else { continue };
            wire.pop(Towards::Client, due);
            waits.push((due - at) / MS);
        }
        let mean = waits.iter().sum::<u64>() / waits.len() as u64;
        assert!((250..=400).contains(&mean) && waits.len() > 80, "{mean} {}", waits.len());
    }

    #[test]
    fn a_competing_flow_is_silent_between_its_intervals() {
        let link = Link { bits_per_second: 1_000_000, queue_bytes: 50_000 };
        let cross = Some(Periodic { every_ns: 4_000 * MS, for_ns: 2_000 * MS });
        let variation = Variation { cross, ..Variation::default() };
        // The queue empties within 400 ms of the end of an interval.
        let arrived = arrivals(&mut wire(variation, Some(link)), 125, &[3_900 * MS, 5_000 * MS]);
        assert!(arrived[0] > 4_000 * MS, "{arrived:?}");
        assert_eq!(arrived[1], 5_001 * MS);
    }
}
