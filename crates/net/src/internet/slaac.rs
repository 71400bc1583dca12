//! The addresses of an IPv6 host: formation, Duplicate Address Detection, and lifetimes (RFC 4862).
//!
//! The interface identifier is a keyed hash of the prefix (RFC 7217). A host therefore has the same
//! address whenever it returns to a network, and a different one in every other network. It cannot
//! be tracked by its address, and the address cannot be derived from the hardware. Temporary
//! addresses (RFC 8981) are not formed.
//!
//! An address is *tentative* until Duplicate Address Detection has found no other host that uses or
//! probes the address. It is then *preferred*, later *deprecated*, and finally removed. If another
//! host has the address, the next identifier is tried, up to three identifiers in total (RFC 7217
//! §6). If a loop returns a solicitation of this host, the host recognizes it by its nonce (RFC
//! 7527). The state machine of the detection is `duplicate_detection`, which IPv4 shares.
//!
//! An advertisement cannot shorten the lifetime of an address to less than two hours, unless the
//! lifetime was shorter already (RFC 4862 §5.5.3 e). Otherwise a forged advertisement could remove
//! all addresses of the host.

use super::duplicate_detection::{Defense, Detection, Parameters, Reaction, Step};
use super::nd::{INFINITE, Message, Nonce, Prefix, prefix_of, solicited_node};
use crate::cx::Cx;
use crate::link::ethernet::MacAddress;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::Ipv6Addr;
use siphasher::sip::SipHasher13;

/// Duplicate Address Detection (RFC 4862 §5.4).
const PARAMETERS: Parameters = Parameters {
    // MAX_RTR_SOLICITATION_DELAY (RFC 4861 §10): the delay is shorter than one second.
    start_delay_max: Duration::from_nanos(999_999_999),
    // DupAddrDetectTransmits (RFC 4862 §5.1)
    probes: 1,
    // RETRANS_TIMER (RFC 4861 §10)
    probe_interval: (RETRANS_TIMER, RETRANS_TIMER),
    answer_timeout: RETRANS_TIMER,
    announcements: 0,
    announcement_interval: Duration::ZERO,
    // RFC 4862 §5.4.4 specifies no action. If this host gave the address up, an attacker could
    // remove it.
    defense_interval: None,
};
/// RETRANS_TIMER (RFC 4861 §10).
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// IDGEN_RETRIES (RFC 7217 §6).
const IDENTIFIERS_MAX: u8 = 3;
/// Remaining lifetime that an advertisement cannot shorten (RFC 4862 §5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(2 * 3600);
/// Maximum number of addresses of an interface; one more is refused.
const ADDRESSES_LIMIT: usize = 16;
const EVENTS_LIMIT: usize = 64;
/// Length in bits of the prefix of every address formed here.
const PREFIX_LEN: u8 = 64;

/// The secret key of this host, from which its addresses are derived. It should be the same in
/// every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(pub [u64; 2]);

/// An event of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An address is ready for use.
    Assigned {
        /// The address.
        address: Ipv6Addr,
        /// Length of its prefix in bits.
        prefix_len: u8,
    },
    /// An address should no longer be the source of new connections.
    Deprecated(Ipv6Addr),
    /// An address is preferred again.
    Preferred(Ipv6Addr),
    /// An address was removed.
    Removed(Ipv6Addr),
    /// Another host has an address that this host tried.
    Duplicate(Ipv6Addr),
}

/// An address in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix in bits.
    pub prefix_len: u8,
    /// Whether the address should be the source of new connections.
    pub is_preferred: bool,
}

/// A message of Duplicate Address Detection; its source is `::`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The destination group.
    pub destination: Ipv6Addr,
    /// The message.
    pub message: Message,
}

/// The addresses of one interface.
#[derive(Debug)]
pub struct Addresses {
    mac: MacAddress,
    secret: Secret,
    entries: Vec<Entry>,
    pending: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: Ipv6Addr,
    prefix_len: u8,
    /// Number of identifiers tried before this one; `None` if the user configured the address.
    identifiers_tried: Option<u8>,
    /// Duplicate Address Detection; the address is tentative until it has succeeded.
    detection: Detection,
    /// The nonce of this host's solicitations (RFC 7527 §4.1).
    nonce: Nonce,
    /// Whether the address is usable only for existing communication.
    is_deprecated: bool,
    /// End of the preferred lifetime of the address; `None` for no limit.
    preferred_until: Option<Instant>,
    /// End of the valid lifetime of the address; `None` for no limit.
    valid_until: Option<Instant>,
}

impl Addresses {
    /// Returns the state of the interface at `mac`, without an address.
    #[must_use]
    pub fn new(mac: MacAddress, secret: Secret) -> Self {
        Self { mac, secret, entries: Vec::new(), pending: VecDeque::new(), events: VecDeque::new() }
    }

    /// Forms a link-local address, which every interface needs (RFC 4862 §5.3).
    pub fn make_link_local(&mut self, cx: &mut Cx<'_>) {
        let prefix = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0);
        self.form_address(prefix, 0, None, None, cx);
    }

    /// Adds an address that the user has configured, without a time limit. Duplicate Address
    /// Detection starts.
    pub fn add(&mut self, address: Ipv6Addr, prefix_len: u8, cx: &mut Cx<'_>) {
        self.try_address(address, prefix_len, None, None, None, cx);
    }

    /// Forms an address in an advertised prefix, or renews the existing one (RFC 4862 §5.5.3).
    pub fn advertise(&mut self, prefix: &Prefix, cx: &mut Cx<'_>) {
        let Prefix { valid_s, preferred_s, .. } = *prefix;
        let is_usable = prefix.is_autonomous
            && prefix.len == PREFIX_LEN
            && preferred_s <= valid_s
            && !super::nd::is_link_local(prefix.prefix)
            && !prefix.prefix.is_multicast();
        if !is_usable {
            return;
        }
        let known_entry = self.entries.iter_mut().find(|entry| {
            entry.identifiers_tried.is_some()
                && prefix_of(entry.address, PREFIX_LEN) == prefix.prefix
        });
        let Some(entry) = known_entry else {
            if valid_s != 0 {
                let preferred = until(preferred_s, cx);
                let valid = until(valid_s, cx);
                self.form_address(prefix.prefix, 0, preferred, valid, cx);
            }
            return;
        };
        entry.preferred_until = until(preferred_s, cx);
        let advertised = Duration::from_secs(valid_s.into());
        let remaining = entry.valid_until.map(|at| at.since(cx.now));
        if valid_s == INFINITE {
            entry.valid_until = None;
        } else if advertised > TWO_HOURS
            || remaining.is_some_and(|remaining| advertised > remaining)
        {
            entry.valid_until = Some(cx.now + advertised);
        } else if remaining.is_none_or(|remaining| remaining > TWO_HOURS) {
            entry.valid_until = Some(cx.now + TWO_HOURS);
        }
        if entry.is_deprecated && entry.preferred_until.is_none_or(|at| at > cx.now) {
            entry.is_deprecated = false;
            let address = entry.address;
            self.push_event(Event::Preferred(address), cx);
        }
    }

    /// Returns the addresses that are ready for use.
    pub fn iter(&self) -> impl Iterator<Item = Address> + '_ {
        self.entries.iter().filter(|entry| entry.is_ours()).map(|entry| Address {
            address: entry.address,
            prefix_len: entry.prefix_len,
            is_preferred: !entry.is_deprecated,
        })
    }

    /// Returns whether an address is a local one that is ready for use.
    #[must_use]
    pub fn holds(&self, address: Ipv6Addr) -> bool {
        self.iter().any(|ours| ours.address == address)
    }

    /// Returns the link-local address, if it is ready for use.
    #[must_use]
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.iter().map(|ours| ours.address).find(|ours| super::nd::is_link_local(*ours))
    }

    /// Returns every address at which packets must be received. Tentative addresses are included.
    pub fn receive_addresses(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.entries.iter().map(|entry| entry.address)
    }

    /// Processes a solicitation of a host that checks whether `target` is free (RFC 4862 §5.4.3).
    /// Returns whether `target` is a tentative address of this host.
    pub fn process_probe(
        &mut self,
        target: Ipv6Addr,
        nonce: Option<Nonce>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let tentative_entry =
            self.entries.iter().find(|entry| entry.address == target && !entry.is_ours());
        let Some(ours) = tentative_entry.map(|entry| entry.nonce) else { return false };
        if nonce == Some(ours) {
            cx.meter.count(Counter::NdIgnored);
        } else {
            self.give_up(target, cx);
        }
        true
    }

    /// Records that another host has the address `target`. If `target` is a tentative address of
    /// this host, gives it up (RFC 4862 §5.4.4). Returns whether `target` is an address of this
    /// host, tentative or not.
    pub fn process_claim(&mut self, target: Ipv6Addr, cx: &mut Cx<'_>) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.address == target) else {
            return false;
        };
        match entry.detection.conflict(&PARAMETERS, Defense::Keep, cx) {
            Reaction::GiveUp => self.give_up(target, cx),
            Reaction::Announce | Reaction::Ignore => cx.meter.count(Counter::NdDuplicates),
        }
        true
    }

    /// Returns the next message to send.
    pub fn transmit(&mut self) -> Option<Outgoing> {
        self.pending.pop_front()
    }

    /// Returns whether a message is queued.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.entries.iter().filter_map(Entry::due).min()
    }

    /// Sends solicitations, assigns the addresses that no other host has, and applies expired
    /// lifetimes.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        let mut entries = core::mem::take(&mut self.entries);
        entries.retain_mut(|entry| {
            let is_due = entry.due().is_some_and(|due| due <= cx.now);
            !is_due || self.advance(entry, cx)
        });
        self.entries = entries;
    }

    /// Processes the timers of one address. Returns false if it is removed.
    fn advance(&mut self, entry: &mut Entry, cx: &mut Cx<'_>) -> bool {
        let address = entry.address;
        if entry.valid_until.is_some_and(|at| at <= cx.now) {
            if entry.is_ours() {
                self.push_event(Event::Removed(address), cx);
            }
            return false;
        }
        if entry.is_ours() {
            entry.is_deprecated = true;
            self.push_event(Event::Deprecated(address), cx);
            return true;
        }
        match entry.detection.advance(&PARAMETERS, cx) {
            Some(Step::Probe) => {
                let message = Message::NeighborSolicitation {
                    target: address,
                    source_mac: None,
                    nonce: Some(entry.nonce),
                };
                self.pending.push_back(Outgoing { destination: solicited_node(address), message });
            }
            Some(Step::Acquire) => {
                let prefix_len = entry.prefix_len;
                self.push_event(Event::Assigned { address, prefix_len }, cx);
            }
            Some(Step::Announce) | None => {}
        }
        true
    }

    /// Gives up an address that another host has, and tries the next identifier.
    fn give_up(&mut self, address: Ipv6Addr, cx: &mut Cx<'_>) {
        let Some(place) = self.entries.iter().position(|entry| entry.address == address) else {
            return;
        };
        let entry = self.entries.remove(place);
        self.pending.retain(|pending| pending.destination != solicited_node(address));
        cx.meter.count(Counter::NdDuplicates);
        self.push_event(Event::Duplicate(address), cx);
        let Some(tried) = entry.identifiers_tried else { return };
        if tried + 1 < IDENTIFIERS_MAX {
            let prefix = prefix_of(address, PREFIX_LEN);
            self.form_address(prefix, tried + 1, entry.preferred_until, entry.valid_until, cx);
        }
    }

    fn form_address(
        &mut self,
        prefix: Ipv6Addr,
        tried: u8,
        preferred: Option<Instant>,
        valid: Option<Instant>,
        cx: &mut Cx<'_>,
    ) {
        let identifier = u128::from(self.identifier(prefix, tried));
        let address = Ipv6Addr::from_bits(prefix.to_bits() | identifier);
        self.try_address(address, PREFIX_LEN, Some(tried), preferred, valid, cx);
    }

    fn try_address(
        &mut self,
        address: Ipv6Addr,
        prefix_len: u8,
        identifiers_tried: Option<u8>,
        preferred_until: Option<Instant>,
        valid_until: Option<Instant>,
        cx: &mut Cx<'_>,
    ) {
        if self.entries.iter().any(|entry| entry.address == address) {
            return;
        }
        if self.entries.len() >= ADDRESSES_LIMIT {
            return cx.meter.count(Counter::NdEntriesRefused);
        }
        let [_, _, nonce @ ..] = cx.rng.next_u64().to_be_bytes();
        let detection = Detection::claim(&PARAMETERS, cx);
        self.entries.push(Entry {
            address,
            prefix_len,
            identifiers_tried,
            detection,
            nonce,
            is_deprecated: false,
            preferred_until,
            valid_until,
        });
    }

    /// Returns the stable, opaque identifier of this interface in a network (RFC 7217 §5).
    fn identifier(&self, prefix: Ipv6Addr, tried: u8) -> u64 {
        let Secret([key0, key1]) = self.secret;
        let hash = |extra: u8| {
            let mut hasher = SipHasher13::new_with_keys(key0, key1);
            hasher.write(&prefix.octets());
            hasher.write(&self.mac.octets());
            hasher.write(&[tried, extra]);
            hasher.finish()
        };
        (0..=u8::MAX).map(hash).find(|identifier| !is_reserved(*identifier)).unwrap_or(1)
    }

    fn push_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(event);
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
        }
    }
}

impl Entry {
    fn is_ours(&self) -> bool {
        self.detection.is_ours()
    }

    fn due(&self) -> Option<Instant> {
        let next = match self.is_ours() {
            false => self.detection.due(),
            true => self.preferred_until.filter(|_| !self.is_deprecated),
        };
        [next, self.valid_until].into_iter().flatten().min()
    }
}

/// Returns whether an identifier is reserved (RFC 5453): Subnet-Router anycast, IANA's Ethernet
/// block, and reserved anycast.
fn is_reserved(identifier: u64) -> bool {
    identifier == 0
        || (0x0200_5EFF_FE00_0000..=0x0200_5EFF_FEFF_FFFF).contains(&identifier)
        || (0xFDFF_FFFF_FFFF_FF80..=0xFDFF_FFFF_FFFF_FFFF).contains(&identifier)
}

fn until(lifetime_s: u32, cx: &Cx<'_>) -> Option<Instant> {
    (lifetime_s != INFINITE).then(|| cx.now + Duration::from_secs(lifetime_s.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;

    const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
    const PREFIX: Prefix = Prefix {
        prefix: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0),
        len: 64,
        is_on_link: true,
        is_autonomous: true,
        valid_s: 86_400,
        preferred_s: 14_400,
    };

    struct Fixture {
        addresses: Addresses,
        context: OwnedCx,
    }

    impl Default for Fixture {
        fn default() -> Self {
            let addresses = Addresses::new(MAC, Secret([1, 2]));
            Self { addresses, context: OwnedCx::default() }
        }
    }

    impl Fixture {
        fn advertise(&mut self, valid_s: u32, preferred_s: u32) {
            let prefix = Prefix { valid_s, preferred_s, ..PREFIX };
            self.addresses.advertise(&prefix, &mut self.context.cx());
        }

        fn run_seconds(&mut self, seconds: u64) {
            let end = self.context.now + Duration::from_secs(seconds);
            while let Some(at) = self.addresses.deadline().filter(|at| *at <= end) {
                self.context.now = self.context.now.max(at);
                self.addresses.timeout(&mut self.context.cx());
            }
            self.context.now = end;
        }

        fn events(&mut self) -> Vec<Event> {
            core::iter::from_fn(|| self.addresses.event()).collect()
        }

        fn only_address(&self) -> Address {
            let mut all = self.addresses.iter();
            let first = all.next().unwrap();
            assert_eq!(all.next(), None);
            first
        }
    }

    #[test]
    fn an_address_is_assigned_after_one_unanswered_solicitation() {
        let mut fixture = Fixture::default();
        fixture.addresses.make_link_local(&mut fixture.context.cx());
        assert_eq!(fixture.addresses.link_local(), None);
        fixture.run_seconds(3);
        let ours = fixture.addresses.link_local().unwrap();
        let sent = fixture.addresses.transmit().unwrap();
        assert_eq!(sent.destination, solicited_node(ours));
        assert_eq!(fixture.addresses.transmit(), None);
        assert_eq!(fixture.events(), [Event::Assigned { address: ours, prefix_len: 64 }]);
    }

    #[test]
    fn the_address_is_the_same_in_the_same_network_and_another_in_another() {
        let addresses = Addresses::new(MAC, Secret([1, 2]));
        let other_prefix = Ipv6Addr::new(0x2001, 0xDB8, 1, 0, 0, 0, 0, 0);
        let first_identifier = addresses.identifier(PREFIX.prefix, 0);
        let second_identifier = Addresses::new(MAC, Secret([1, 2])).identifier(PREFIX.prefix, 0);
        assert_eq!(first_identifier, second_identifier);
        assert_ne!(first_identifier, addresses.identifier(other_prefix, 0));
        assert_ne!(
            first_identifier,
            Addresses::new(MAC, Secret([1, 3])).identifier(PREFIX.prefix, 0)
        );
    }

    #[test]
    fn reserved_identifiers_are_known() {
        let reserved = [0, 0x0200_5EFF_FE00_0001, 0xFDFF_FFFF_FFFF_FFFE];
        assert!(reserved.into_iter().all(is_reserved));
        assert!(!is_reserved(1));
    }

    #[test]
    fn a_duplicate_address_is_replaced_by_the_next_until_three_were_tried() {
        let mut fixture = Fixture::default();
        fixture.addresses.make_link_local(&mut fixture.context.cx());
        for _ in 0..3 {
            let tried_address = fixture.addresses.receive_addresses().next().unwrap();
            assert!(fixture.addresses.process_claim(tried_address, &mut fixture.context.cx()));
        }
        assert_eq!(fixture.addresses.receive_addresses().count(), 0);
        assert_eq!(fixture.context.counted(Counter::NdDuplicates), 3);
    }

    #[test]
    fn two_hosts_that_try_the_same_address_both_give_it_up() {
        let mut fixture = Fixture::default();
        fixture.addresses.make_link_local(&mut fixture.context.cx());
        let tried_address = fixture.addresses.receive_addresses().next().unwrap();
        assert!(fixture.addresses.process_probe(tried_address, None, &mut fixture.context.cx()));
        assert_eq!(fixture.events(), [Event::Duplicate(tried_address)]);
    }

    #[test]
    fn a_looped_back_solicitation_is_no_duplicate() {
        let mut fixture = Fixture::default();
        fixture.addresses.make_link_local(&mut fixture.context.cx());
        fixture.run_seconds(1);
        let Some(Outgoing { message: Message::NeighborSolicitation { target, nonce, .. }, .. }) =
            fixture.addresses.transmit()
        else {
            panic!("a solicitation")
        };
        assert!(fixture.addresses.process_probe(target, nonce, &mut fixture.context.cx()));
        fixture.run_seconds(3);
        assert_eq!(fixture.addresses.link_local(), Some(target));
    }

    #[test]
    fn an_assigned_address_is_not_given_up_because_of_a_claim() {
        let mut fixture = Fixture::default();
        fixture.advertise(86_400, 14_400);
        fixture.run_seconds(3);
        let ours = fixture.only_address().address;
        assert!(fixture.addresses.process_claim(ours, &mut fixture.context.cx()));
        assert!(fixture.addresses.holds(ours));
    }

    #[test]
    fn an_address_is_deprecated_and_then_removed() {
        let mut fixture = Fixture::default();
        fixture.advertise(86_400, 14_400);
        fixture.run_seconds(3);
        let address = fixture.only_address().address;
        fixture.run_seconds(14_400);
        assert!(!fixture.only_address().is_preferred);
        fixture.run_seconds(86_400);
        assert_eq!(fixture.addresses.iter().count(), 0);
        let assigned = Event::Assigned { address, prefix_len: 64 };
        let expected = [assigned, Event::Deprecated(address), Event::Removed(address)];
        assert_eq!(fixture.events(), expected);
    }

    #[test]
    fn an_advertisement_makes_a_deprecated_address_preferred_again() {
        let mut fixture = Fixture::default();
        fixture.advertise(86_400, 10);
        fixture.run_seconds(20);
        assert!(!fixture.only_address().is_preferred);
        let address = fixture.only_address().address;
        fixture.events();
        fixture.advertise(86_400, 10);
        assert!(fixture.only_address().is_preferred);
        assert_eq!(fixture.events(), [Event::Preferred(address)]);
        fixture.advertise(86_400, 10);
        assert_eq!(fixture.events(), []);
    }

    #[test]
    fn an_advertisement_cannot_shorten_a_lifetime_below_two_hours() {
        let mut fixture = Fixture::default();
        fixture.advertise(86_400, 14_400);
        fixture.run_seconds(3);
        fixture.advertise(0, 0);
        fixture.run_seconds(7199);
        assert_eq!(fixture.addresses.iter().count(), 1);
        fixture.run_seconds(2);
        assert_eq!(fixture.addresses.iter().count(), 0);
    }

    #[test]
    fn a_lifetime_below_two_hours_is_not_shortened() {
        let mut fixture = Fixture::default();
        fixture.advertise(3600, 3600);
        fixture.run_seconds(3);
        fixture.advertise(10, 10);
        fixture.run_seconds(3590);
        assert_eq!(fixture.addresses.iter().count(), 1);
        fixture.run_seconds(10);
        assert_eq!(fixture.addresses.iter().count(), 0);
    }

    #[test]
    fn an_infinite_lifetime_can_be_shortened_to_two_hours() {
        let mut fixture = Fixture::default();
        fixture.advertise(INFINITE, INFINITE);
        fixture.run_seconds(3);
        fixture.advertise(60, 60);
        fixture.run_seconds(7100);
        assert_eq!(fixture.addresses.iter().count(), 1);
        fixture.run_seconds(200);
        assert_eq!(fixture.addresses.iter().count(), 0);
    }

    #[test]
    fn a_prefix_unsuitable_for_addresses_is_ignored() {
        let unsuitable_prefixes = [
            Prefix { is_autonomous: false, ..PREFIX },
            Prefix { len: 48, ..PREFIX },
            Prefix { preferred_s: 86_401, ..PREFIX },
            Prefix { valid_s: 0, preferred_s: 0, ..PREFIX },
            Prefix { prefix: Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0), ..PREFIX },
        ];
        let mut fixture = Fixture::default();
        unsuitable_prefixes
            .iter()
            .for_each(|prefix| fixture.addresses.advertise(prefix, &mut fixture.context.cx()));
        assert_eq!(fixture.addresses.receive_addresses().count(), 0);
    }

    #[test]
    fn a_flood_of_prefixes_uses_bounded_memory() {
        let mut fixture = Fixture::default();
        for third in 0..1000 {
            let prefix = Ipv6Addr::new(0x2001, 0xDB8, third, 0, 0, 0, 0, 0);
            fixture.addresses.advertise(&Prefix { prefix, ..PREFIX }, &mut fixture.context.cx());
        }
        assert_eq!(fixture.addresses.receive_addresses().count(), ADDRESSES_LIMIT);
        assert_eq!(fixture.context.counted(Counter::NdEntriesRefused), 1000 - 16);
    }
}
