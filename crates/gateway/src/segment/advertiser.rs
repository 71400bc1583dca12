//! Router advertisements to the guest: their content and their times (RFC 4861 §6.2).
//!
//! Unsolicited advertisements are sent at the start, then after random intervals between a third of
//! the maximum and the maximum; the first three intervals are at most 16 seconds long (RFC 4861
//! §6.2.4). A solicitation is answered at once. RFC 4861 §6.2.6 delays the answer by up to half a
//! second, so that several routers do not answer at the same time; this segment has one router, and
//! the guest has no address before the answer. Multicast advertisements are at least three seconds
//! apart.
//!
//! The lifetimes of the prefix are those of RFC 9096 §3.1, so that a guest soon stops using the
//! addresses of a gateway that no longer exists. The search list (RFC 8106 §5.2) is appended here,
//! because `net::internet::nd` has no such option.

use crate::domain_name::DomainName;
use net::internet::icmpv6;
use net::internet::nd::{ALL_NODES, Message, Prefix, RouterAdvertisement};
use net::link::ethernet::MacAddress;
use net::time::{Duration, Instant};
use net::{Cx, internet};
use std::net::Ipv6Addr;

/// MAX_INITIAL_RTR_ADVERT_INTERVAL and MAX_INITIAL_RTR_ADVERTISEMENTS (RFC 4861 §10).
const INITIAL_INTERVAL_MAX: Duration = Duration::from_secs(16);
const INITIAL_ADVERTISEMENTS: u8 = 3;
/// MIN_DELAY_BETWEEN_RAS (RFC 4861 §10).
const MULTICAST_INTERVAL_MIN: Duration = Duration::from_secs(3);
/// MaxRtrAdvInterval (RFC 4861 §6.2.1).
const INTERVAL_MAX: Duration = Duration::from_secs(600);
/// MinRtrAdvInterval (RFC 4861 §6.2.1).
const INTERVAL_MIN: Duration = Duration::from_secs(200);
/// AdvDefaultLifetime (RFC 4861 §6.2.1), which is also the lifetime of the name servers (RFC 8106
/// §5.1).
const ROUTER_LIFETIME_S: u16 = 1800;
/// ND_PREFERRED_LIMIT and ND_VALID_LIMIT (RFC 9096 §3.1).
const PREFERRED_LIFETIME_S: u32 = 2700;
const VALID_LIFETIME_S: u32 = 5400;
/// AdvCurHopLimit (RFC 4861 §6.2.1).
const HOP_LIMIT: u8 = 64;
/// DNS Search List (RFC 8106 §5.2).
const SEARCH_LIST: u8 = 31;
/// Maximum length of the names in a search list, so that the advertisement fits into every MTU.
const SEARCH_LIST_MAX_LEN: usize = 512;
/// Maximum number of name servers in an advertisement.
const DNS_SERVERS_MAX: usize = 8;

/// The content of the router advertisements.
#[derive(Clone, Debug)]
pub struct Advertisement {
    /// The prefix of the guest's network, of 64 bits, in which the guest forms its addresses.
    pub prefix: Ipv6Addr,
    /// MTU of the link in bytes.
    pub mtu: u32,
    /// Name servers; at most eight are sent.
    pub dns_servers: Vec<Ipv6Addr>,
    /// Search list of the guest's resolver, up to 512 bytes.
    pub search_domains: Vec<DomainName>,
}

/// The times of the advertisements.
#[derive(Debug)]
pub(super) struct Advertiser {
    content: Advertisement,
    /// Unsolicited advertisements that are still sent at the short interval.
    initial_left: u8,
    state: State,
    next_at: Instant,
    multicast_at: Option<Instant>,
    is_due: bool,
    /// M: the guest's address is available by DHCPv6.
    is_managed: bool,
}

/// Whether the gateway is a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Advertising,
    Withdrawn,
}

impl Advertiser {
    /// Returns the advertiser of a gateway that starts now: an advertisement is due at once.
    pub(super) fn new(content: Advertisement) -> Self {
        Self {
            content,
            initial_left: INITIAL_ADVERTISEMENTS,
            state: State::Advertising,
            next_at: Instant::ZERO,
            multicast_at: None,
            is_due: false,
            is_managed: false,
        }
    }

    /// Advertises that the guest's address is available by DHCPv6.
    pub(super) fn set_managed(&mut self) {
        self.is_managed = true;
    }

    /// Starts again, for a guest that has just connected.
    pub(super) fn restart(&mut self, cx: &Cx<'_>) {
        self.initial_left = INITIAL_ADVERTISEMENTS;
        self.state = State::Advertising;
        self.next_at = cx.now;
        self.multicast_at = None;
    }

    /// Makes a last advertisement due, in which the gateway is no router (RFC 4861 §6.2.5).
    pub(super) fn withdraw(&mut self) {
        self.state = State::Withdrawn;
        self.is_due = true;
    }

    /// Requests a multicast advertisement, in answer to a solicitation without a source.
    pub(super) fn solicited(&mut self, cx: &Cx<'_>) {
        if self.state == State::Withdrawn {
            return;
        }
        let earliest = self.multicast_at.map_or(cx.now, |at| at + MULTICAST_INTERVAL_MIN);
        self.next_at = self.next_at.min(earliest.max(cx.now));
        if self.next_at <= cx.now {
            self.timeout(cx);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.state == State::Advertising && !self.is_due).then_some(self.next_at)
    }

    pub(super) fn timeout(&mut self, cx: &Cx<'_>) {
        if self.state == State::Advertising && self.next_at <= cx.now {
            self.is_due = true;
        }
    }

    /// Returns whether a multicast advertisement is due.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Notes that a multicast advertisement is sent now, and schedules the next one.
    pub(super) fn sent(&mut self, cx: &mut Cx<'_>) {
        self.is_due = false;
        self.multicast_at = Some(cx.now);
        let spread = (INTERVAL_MAX - INTERVAL_MIN).as_nanos();
        let jitter = cx.rng.below(u64::try_from(spread).unwrap_or(u64::MAX));
        let mut interval = INTERVAL_MIN + Duration::from_nanos(jitter);
        if self.initial_left > 0 {
            self.initial_left -= 1;
            interval = interval.min(INITIAL_INTERVAL_MAX);
        }
        self.next_at = cx.now + interval;
    }

    /// Returns the advertisement of the router at `source` as an ICMPv6 message.
    pub(super) fn message(&self, mac: MacAddress, source: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
        let is_router = self.state == State::Advertising;
        let lifetime_s = if is_router { ROUTER_LIFETIME_S } else { 0 };
        let prefix = Prefix {
            prefix: internet::nd::prefix_of(self.content.prefix, 64),
            len: 64,
            is_on_link: true,
            is_autonomous: true,
            valid_s: VALID_LIFETIME_S,
            preferred_s: if is_router { PREFERRED_LIFETIME_S } else { 0 },
        };
        let servers = self.content.dns_servers.iter().take(DNS_SERVERS_MAX);
        let advertisement = RouterAdvertisement {
            hop_limit: HOP_LIMIT,
            is_managed: self.is_managed,
            lifetime_s,
            source_mac: Some(mac),
            mtu: Some(self.content.mtu),
            prefixes: vec![prefix],
            dns_servers: servers.map(|server| (*server, lifetime_s.into())).collect(),
            ..RouterAdvertisement::default()
        };
        let mut message = Message::RouterAdvertisement(advertisement).emit(source, to);
        self.push_search_list(&mut message, lifetime_s);
        icmpv6::seal(source, to, &mut message);
        message
    }

    fn push_search_list(&self, message: &mut Vec<u8>, lifetime_s: u16) {
        let mut names = Vec::new();
        for domain in &self.content.search_domains {
            if names.len() + domain.wire().len() <= SEARCH_LIST_MAX_LEN {
                names.extend(domain.wire());
            }
        }
        // RFC 8106 §5.2: the names are padded with zeros to a multiple of eight bytes.
        names.resize(names.len().next_multiple_of(8), 0);
        let Ok(eights) = u8::try_from(names.len() / 8 + 1) else { return };
        if names.is_empty() {
            return;
        }
        message.extend([SEARCH_LIST, eights, 0, 0]);
        message.extend(u32::from(lifetime_s).to_be_bytes());
        message.extend(names);
    }
}

/// The destination of an advertisement that no single host has solicited.
pub(super) const MULTICAST: Ipv6Addr = ALL_NODES;
