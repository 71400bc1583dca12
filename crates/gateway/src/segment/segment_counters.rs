//! Counters of a segment.

/// Counters of a segment, in frames, datagrams or messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received from the guest.
    pub frames_in: u64,
    /// Frames that the segment has sent itself, without those that carry the gateway's datagrams.
    pub frames_out: u64,
    /// Datagrams passed to the gateway.
    pub datagrams_in: u64,
    /// Frames that are truncated, or whose source is not the address of one interface.
    pub malformed_frames: u64,
    /// Frames of a VLAN.
    pub vlan_frames: u64,
    /// Frames with a length in place of a type (LLC).
    pub llc_frames: u64,
    /// Frames of another protocol than IPv4, IPv6 and ARP, or of a version of IP that is off.
    pub unknown_types: u64,
    /// Frames with another source than the guest's address (row 105 of the attack table).
    pub spoofed_frames: u64,
    /// Changes of the guest's hardware address after the first frame.
    pub address_changes: u64,
    /// Frames to another host.
    pub misdirected_frames: u64,
    /// Datagrams that are truncated, or of another version of IP than the frame.
    pub malformed_datagrams: u64,
    /// Datagrams of IPv4 whose source is not the lease (row 105).
    pub spoofed_ipv4: u64,
    /// Packets of IPv6 whose source is neither link-local nor in the guest's prefix, or is the anycast
    /// address of the routers (row 105).
    pub spoofed_ipv6: u64,
    /// Packets of IPv6 from a link-local address to another link.
    pub beyond_scope: u64,
    /// Frames to all hosts, or to a group, whose datagram is to one host.
    pub group_frames: u64,
    /// Datagrams to multicast groups or broadcast addresses, which are not forwarded.
    pub group_datagrams: u64,
    /// ARP packets that are malformed.
    pub malformed_arp: u64,
    /// ARP packets with another sender than the guest and its lease (row 105).
    pub spoofed_arp: u64,
    /// ARP requests answered.
    pub arp_answers: u64,
    /// ARP packets that need no answer: probes and requests for the lease, and replies.
    pub arp_ignored: u64,
    /// Messages of Neighbor Discovery that are malformed, or that only a router sends.
    pub malformed_discovery: u64,
    /// Neighbor solicitations answered.
    pub neighbor_answers: u64,
    /// Router solicitations for which an advertisement was queued.
    pub router_solicitations: u64,
    /// Messages of Neighbor Discovery that need no answer, such as checks whether an address is
    /// free.
    pub discovery_ignored: u64,
    /// Router advertisements sent.
    pub advertisements: u64,
    /// DHCP and DHCPv6 messages that are damaged.
    pub malformed_dhcp: u64,
    /// Answers dropped because too many are queued.
    pub answers_dropped: u64,
}
