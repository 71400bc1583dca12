//! Dropped packets of a guest by reason, for the metrics and for the control socket.

use gateway::{Guest, segment};

/// Reason, and the function that returns its count.
type Count = (&'static str, fn(&segment::Counters) -> u64);

/// Returns the numbers of dropped packets of a guest by reason.
pub(crate) fn drops(guest: &Guest) -> Vec<(&'static str, u64)> {
    let of_segment: [Count; 12] = [
        ("malformed frame", |counters| counters.malformed_frames),
        ("VLAN", |counters| counters.vlan_frames),
        ("LLC", |counters| counters.llc_frames),
        ("unknown type", |counters| counters.unknown_types),
        ("spoofed frame", |counters| counters.spoofed_frames),
        ("misdirected frame", |counters| counters.misdirected_frames),
        ("malformed datagram", |counters| counters.malformed_datagrams),
        ("spoofed ARP", |counters| counters.spoofed_arp),
        ("link-local source", |counters| counters.beyond_scope),
        ("group frame", |counters| counters.group_frames),
        ("group destination", |counters| counters.group_datagrams),
        ("answer queue full", |counters| counters.answers_dropped),
    ];
    let udp = guest.udp().counters();
    let segment = guest.segment().map(segment::Segment::counters);
    let [spoofed4, spoofed6] =
        segment.map_or([0, 0], |counters| [counters.spoofed_ipv4, counters.spoofed_ipv6]);
    let sources = guest.source_errors();
    let mut drops = vec![
        ("UDP queue full", udp.queue_full),
        ("unsolicited", udp.filtered),
        ("spoofed IPv4 source", spoofed4 + sources.ipv4),
        ("spoofed IPv6 source", spoofed6 + sources.ipv6),
    ];
    if segment.is_none() {
        drops.push(("above the MTU", guest.packets_above_mtu()));
    }
    if let Some(counters) = guest.output_counters() {
        drops.push(("delay", counters.dropped_for_delay));
        drops.push(("output full", counters.dropped_when_full));
    }
    if let Some(counters) = segment {
        drops.extend(of_segment.map(|(reason, count)| (reason, count(&counters))));
    }
    drops
}
