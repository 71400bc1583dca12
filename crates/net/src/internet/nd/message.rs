//! The messages of Neighbor Discovery (RFC 4861 §4), and their validation.
//!
//! A message is accepted only with a hop limit of 255, which proves that no router forwarded it,
//! and with the addresses that RFC 4861 requires for its type. An option of length zero invalidates
//! the whole message (RFC 4861 §4.6). An option with any other invalid length is skipped and
//! counted. The number of prefixes and of name servers that are read is limited.

use crate::checksum::Sum;
use crate::link::ethernet::MacAddress;
use crate::time::Duration;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Hop limit of every message. A message with another hop limit may have been forwarded by a
/// router.
pub const HOP_LIMIT: u8 = 255;
/// The protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// A lifetime without end.
pub const INFINITE: u32 = u32::MAX;

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

const SOURCE_MAC: u8 = 1;
const TARGET_MAC: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;
/// Option type of Nonce (RFC 3971 §5.3.2), used to recognize looped-back solicitations (RFC 7527).
const NONCE: u8 = 14;
/// Option type of Recursive DNS Server (RFC 8106 §5.1).
const DNS_SERVERS: u8 = 25;

/// Maximum number of prefixes, and of name servers, read from one message.
const LIST_LEN_MAX: usize = 16;

/// A random number in a solicitation, by which a host recognizes its own solicitations (RFC 7527).
pub type Nonce = [u8; 6];

/// The preference of a router (RFC 4191 §2.1), in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preference {
    /// 11: the router is used only if there is no other one.
    Low,
    /// 00; the reserved value 10 counts as this one.
    #[default]
    Medium,
    /// 01: the router is used before other routers.
    High,
}

/// A prefix that a router advertises (RFC 4861 §4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix. The bits after the first `len` bits are zero.
    pub prefix: Ipv6Addr,
    /// Length of the prefix in bits, at most 128.
    pub len: u8,
    /// L: the addresses of the prefix are on-link.
    pub is_on_link: bool,
    /// A: hosts may form addresses in it.
    pub is_autonomous: bool,
    /// Lifetime of the properties L and A of the prefix in seconds, or [`INFINITE`].
    pub valid_s: u32,
    /// Preferred lifetime of the addresses of the prefix in seconds, or [`INFINITE`].
    pub preferred_s: u32,
}

/// The content of a Router Advertisement (RFC 4861 §4.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// Hop limit for output; 0 if unspecified.
    pub hop_limit: u8,
    /// M: addresses are available by DHCPv6.
    pub is_managed: bool,
    /// O: other configuration is available by DHCPv6.
    pub has_other: bool,
    /// Preference of the router.
    pub preference: Preference,
    /// Lifetime as a default router in seconds; 0 if the sender is not a default router.
    pub lifetime_s: u16,
    /// Time for which a neighbor counts as reachable; `None` if unspecified.
    pub reachable_time: Option<Duration>,
    /// Time between two solicitations of a neighbor (Retrans Timer); `None` if unspecified.
    pub retrans_timer: Option<Duration>,
    /// The router's hardware address.
    pub source_mac: Option<MacAddress>,
    /// MTU of the link, in bytes.
    pub mtu: Option<u32>,
    /// Prefixes, at most 16.
    pub prefixes: Vec<Prefix>,
    /// Name servers, at most 16, each with its lifetime in seconds (RFC 8106).
    pub dns_servers: Vec<(Ipv6Addr, u32)>,
}

/// A message of Neighbor Discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Router Solicitation of a host.
    RouterSolicitation {
        /// Hardware address of the host.
        source_mac: Option<MacAddress>,
    },
    /// Router Advertisement.
    RouterAdvertisement(RouterAdvertisement),
    /// Neighbor Solicitation: a request for a neighbor, or a check whether an address is free.
    NeighborSolicitation {
        /// Address of the neighbor.
        target: Ipv6Addr,
        /// Hardware address of the sender.
        source_mac: Option<MacAddress>,
        /// Random number by which a host recognizes its own solicitation.
        nonce: Option<Nonce>,
    },
    /// Neighbor Advertisement.
    NeighborAdvertisement {
        /// Address of the neighbor.
        target: Ipv6Addr,
        /// R: the neighbor is a router.
        is_router: bool,
        /// S: the advertisement answers a solicitation.
        is_solicited: bool,
        /// O: the advertisement overrides the cached address.
        is_override: bool,
        /// Hardware address of the neighbor.
        target_mac: Option<MacAddress>,
    },
    /// Redirect: a router names a better first hop.
    Redirect {
        /// The better hop, or the destination itself if it is a neighbor.
        target: Ipv6Addr,
        /// The destination for which the target is the better hop.
        destination: Ipv6Addr,
        /// Hardware address of the better hop.
        target_mac: Option<MacAddress>,
    },
}

/// A parsed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The message.
    pub message: Message,
    /// Number of options skipped because of their length or their number.
    pub options_skipped: usize,
}

/// Reasons why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The bytes end inside the message or its last option.
    Truncated,
    /// The message is not one of Neighbor Discovery.
    Kind,
    /// The hop limit is not 255: the message may be from another link.
    HopLimit,
    /// The code is not 0.
    Code,
    /// An option has length zero.
    OptionLength,
    /// Source, destination or target is not allowed in this message.
    Address,
}

impl Message {
    /// Returns whether an ICMPv6 message of this type is one of Neighbor Discovery.
    #[must_use]
    pub const fn is_type(message_type: u8) -> bool {
        matches!(message_type, ROUTER_SOLICITATION..=REDIRECT)
    }

    /// Parses an ICMPv6 message with a correct checksum, from a packet with these addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if RFC 4861 §6.1, §7.1 or §8.1 requires that it be discarded.
    pub fn parse(
        bytes: &[u8],
        source: Ipv6Addr,
        destination: Ipv6Addr,
        hop_limit: u8,
    ) -> Result<Parsed, MessageError> {
        let ([message_type, code, _, _, b4, b5, b6, b7], rest) = split::<8>(bytes)?;
        if !Self::is_type(*message_type) {
            return Err(MessageError::Kind);
        }
        if hop_limit != HOP_LIMIT {
            return Err(MessageError::HopLimit);
        }
        if *code != 0 {
            return Err(MessageError::Code);
        }
        let word = [*b4, *b5, *b6, *b7];
        let mut options = Options::default();
        let message = match *message_type {
            ROUTER_SOLICITATION => {
                options.read(rest)?;
                Self::RouterSolicitation { source_mac: options.source_mac }
            }
            ROUTER_ADVERTISEMENT => {
                Self::RouterAdvertisement(router_advertisement(word, rest, &mut options)?)
            }
            NEIGHBOR_SOLICITATION => {
                let target = target(rest, &mut options)?;
                let Options { source_mac, nonce, .. } = options;
                Self::NeighborSolicitation { target, source_mac, nonce }
            }
            NEIGHBOR_ADVERTISEMENT => {
                let target = target(rest, &mut options)?;
                let [is_router, is_solicited, is_override] =
                    [0x80, 0x40, 0x20].map(|f| b4 & f != 0);
                let target_mac = options.target_mac;
                Self::NeighborAdvertisement {
                    target,
                    is_router,
                    is_solicited,
                    is_override,
                    target_mac,
                }
            }
            _ => {
                let (target, rest) = split::<16>(rest)?;
                let (destination, rest) = split::<16>(rest)?;
                options.read(rest)?;
                let target = (*target).into();
                let destination = (*destination).into();
                Self::Redirect { target, destination, target_mac: options.target_mac }
            }
        };
        if !message.has_valid_addresses(source, destination) {
            return Err(MessageError::Address);
        }
        Ok(Parsed { message, options_skipped: options.skipped })
    }

    /// RFC 4861 §6.1.1, §6.1.2, §7.1.1, §7.1.2 and §8.1: messages with other addresses MUST be
    /// silently discarded.
    fn has_valid_addresses(&self, source: Ipv6Addr, destination: Ipv6Addr) -> bool {
        match *self {
            Self::RouterSolicitation { source_mac } => {
                !source.is_unspecified() || source_mac.is_none()
            }
            Self::RouterAdvertisement(_) => is_link_local(source),
            Self::NeighborSolicitation { target, source_mac, .. } => {
                let is_duplicate_check = source.is_unspecified();
                let is_valid_check = destination == solicited_node(target) && source_mac.is_none();
                !target.is_multicast() && (!is_duplicate_check || is_valid_check)
            }
            Self::NeighborAdvertisement { target, is_solicited, .. } => {
                !(target.is_multicast() || destination.is_multicast() && is_solicited)
            }
            Self::Redirect { target, destination: to, .. } => {
                is_link_local(source)
                    && !to.is_multicast()
                    && (target == to || is_link_local(target))
            }
        }
    }

    /// Returns the bytes of the ICMPv6 message, with the checksum for these addresses.
    #[must_use]
    pub fn emit(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::RouterSolicitation { source_mac } => {
                bytes.extend([ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
                push_mac(&mut bytes, SOURCE_MAC, *source_mac);
            }
            Self::RouterAdvertisement(advertisement) => advertisement.push(&mut bytes),
            Self::NeighborSolicitation { target, source_mac, nonce } => {
                bytes.extend([NEIGHBOR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend(target.octets());
                push_mac(&mut bytes, SOURCE_MAC, *source_mac);
                if let Some(nonce) = nonce {
                    bytes.extend([NONCE, 1]);
                    bytes.extend(nonce);
                }
            }
            Self::NeighborAdvertisement {
                target,
                is_router,
                is_solicited,
                is_override,
                target_mac,
            } => {
                let flags = [(*is_router, 0x80), (*is_solicited, 0x40), (*is_override, 0x20)];
                let flags = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum();
                bytes.extend([NEIGHBOR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
                bytes.extend(target.octets());
                push_mac(&mut bytes, TARGET_MAC, *target_mac);
            }
            Self::Redirect { target, destination, target_mac } => {
                bytes.extend([REDIRECT, 0, 0, 0, 0, 0, 0, 0]);
                bytes.extend(target.octets());
                bytes.extend(destination.octets());
                push_mac(&mut bytes, TARGET_MAC, *target_mac);
            }
        }
        seal(&mut bytes, source, destination);
        bytes
    }
}

impl RouterAdvertisement {
    fn push(&self, bytes: &mut Vec<u8>) {
        let preference = match self.preference {
            Preference::Low => 0x18,
            Preference::Medium => 0,
            Preference::High => 0x08,
        };
        let managed_flag = if self.is_managed { 0x80 } else { 0 };
        let other_flag = if self.has_other { 0x40 } else { 0 };
        let flags = managed_flag | other_flag | preference;
        bytes.extend([ROUTER_ADVERTISEMENT, 0, 0, 0, self.hop_limit, flags]);
        bytes.extend(self.lifetime_s.to_be_bytes());
        for time in [self.reachable_time, self.retrans_timer] {
            let millis = time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
            bytes.extend(millis.to_be_bytes());
        }
        push_mac(bytes, SOURCE_MAC, self.source_mac);
        if let Some(mtu) = self.mtu {
            bytes.extend([MTU, 1, 0, 0]);
            bytes.extend(mtu.to_be_bytes());
        }
        for prefix in &self.prefixes {
            let on_link = if prefix.is_on_link { 0x80 } else { 0 };
            let autonomous = if prefix.is_autonomous { 0x40 } else { 0 };
            bytes.extend([PREFIX, 4, prefix.len, on_link | autonomous]);
            bytes.extend(prefix.valid_s.to_be_bytes());
            bytes.extend(prefix.preferred_s.to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(prefix.prefix.octets());
        }
        for (server, lifetime_s) in &self.dns_servers {
            bytes.extend([DNS_SERVERS, 3, 0, 0]);
            bytes.extend(lifetime_s.to_be_bytes());
            bytes.extend(server.octets());
        }
    }
}

/// Returns whether an address is a link-local unicast address.
#[must_use]
pub const fn is_link_local(address: Ipv6Addr) -> bool {
    let [first, ..] = address.segments();
    first & 0xFFC0 == 0xFE80
}

/// Returns the solicited-node group of an address (RFC 4291 §2.7.1).
#[must_use]
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = address.segments();
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00 | high & 0xFF, low)
}

/// Returns the first `len` bits of an address, followed by zeros.
#[must_use]
pub fn prefix_of(address: Ipv6Addr, len: u8) -> Ipv6Addr {
    let host_bits = u128::MAX.checked_shr(len.into()).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & !host_bits)
}

/// The parsed options of a message.
#[derive(Debug, Default)]
struct Options {
    source_mac: Option<MacAddress>,
    target_mac: Option<MacAddress>,
    mtu: Option<u32>,
    nonce: Option<Nonce>,
    prefixes: Vec<Prefix>,
    dns_servers: Vec<(Ipv6Addr, u32)>,
    skipped: usize,
}

impl Options {
    fn read(&mut self, mut bytes: &[u8]) -> Result<(), MessageError> {
        while let Some((head, _)) = bytes.split_first_chunk::<2>() {
            let [kind, eights] = *head;
            if eights == 0 {
                return Err(MessageError::OptionLength);
            }
            let len = usize::from(eights) * 8;
            let (option, rest) = bytes.split_at_checked(len).ok_or(MessageError::Truncated)?;
            let body = option.get(2..).unwrap_or_default();
            if self.parse_option(kind, body).is_none() {
                self.skipped += 1;
            }
            bytes = rest;
        }
        if bytes.is_empty() { Ok(()) } else { Err(MessageError::Truncated) }
    }

    /// Parses the body of an option of type `kind`: the bytes after its length. Returns `None` if
    /// the length is invalid for this type.
    fn parse_option(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        match kind {
            SOURCE_MAC => self.source_mac = Some(unicast(body)?),
            TARGET_MAC => self.target_mac = Some(unicast(body)?),
            NONCE => self.nonce = Some(body.try_into().ok()?),
            MTU => {
                let [_, _, mtu @ ..] = <[u8; 6]>::try_from(body).ok()?;
                self.mtu = Some(u32::from_be_bytes(mtu));
            }
            PREFIX => {
                let prefix = prefix(body.try_into().ok()?)?;
                (self.prefixes.len() < LIST_LEN_MAX).then(|| self.prefixes.push(prefix))?;
            }
            DNS_SERVERS => self.parse_dns_servers(body)?,
            _ => {}
        }
        Some(())
    }

    /// RFC 8106 §5.3.1: the length is odd and at least 3, because the option contains whole
    /// addresses.
    fn parse_dns_servers(&mut self, body: &[u8]) -> Option<()> {
        let (head, addresses) = body.split_first_chunk::<6>()?;
        let [_, _, lifetime @ ..] = *head;
        if addresses.is_empty() || !addresses.len().is_multiple_of(16) {
            return None;
        }
        let lifetime_s = u32::from_be_bytes(lifetime);
        for address in addresses.chunks_exact(16) {
            let address = <[u8; 16]>::try_from(address).ok()?;
            (self.dns_servers.len() < LIST_LEN_MAX)
                .then(|| self.dns_servers.push((address.into(), lifetime_s)))?;
        }
        Some(())
    }
}

fn router_advertisement(
    word: [u8; 4],
    rest: &[u8],
    options: &mut Options,
) -> Result<RouterAdvertisement, MessageError> {
    let (reachable, rest) = split(rest)?;
    let (retrans, rest) = split(rest)?;
    options.read(rest)?;
    let [hop_limit, flags, l0, l1] = word;
    let time = |bytes: &[u8; 4]| {
        let millis = u32::from_be_bytes(*bytes);
        (millis != 0).then_some(Duration::from_millis(millis.into()))
    };
    let preference = match flags & 0x18 {
        0x08 => Preference::High,
        0x18 => Preference::Low,
        // RFC 4191 §2.2: the reserved value counts as medium.
        _ => Preference::Medium,
    };
    Ok(RouterAdvertisement {
        hop_limit,
        is_managed: flags & 0x80 != 0,
        has_other: flags & 0x40 != 0,
        preference,
        lifetime_s: u16::from_be_bytes([l0, l1]),
        reachable_time: time(reachable),
        retrans_timer: time(retrans),
        source_mac: options.source_mac,
        mtu: options.mtu,
        prefixes: core::mem::take(&mut options.prefixes),
        dns_servers: core::mem::take(&mut options.dns_servers),
    })
}

fn target(rest: &[u8], options: &mut Options) -> Result<Ipv6Addr, MessageError> {
    let (target, rest) = split::<16>(rest)?;
    options.read(rest)?;
    Ok((*target).into())
}

fn prefix(body: &[u8; 30]) -> Option<Prefix> {
    let ([len, flags], rest) = body.split_first_chunk()?;
    let (valid, rest) = rest.split_first_chunk()?;
    let (preferred, rest) = rest.split_first_chunk()?;
    let address = Ipv6Addr::from(*rest.last_chunk::<16>()?);
    let prefix = Prefix {
        prefix: prefix_of(address, *len),
        len: *len,
        is_on_link: flags & 0x80 != 0,
        is_autonomous: flags & 0x40 != 0,
        valid_s: u32::from_be_bytes(*valid),
        preferred_s: u32::from_be_bytes(*preferred),
    };
    (prefix.len <= 128).then_some(prefix)
}

fn unicast(body: &[u8]) -> Option<MacAddress> {
    let mac = MacAddress::new(body.try_into().ok()?);
    mac.is_unicast().then_some(mac)
}

fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), MessageError> {
    bytes.split_first_chunk().ok_or(MessageError::Truncated)
}

fn push_mac(bytes: &mut Vec<u8>, kind: u8, mac: Option<MacAddress>) {
    if let Some(mac) = mac {
        bytes.extend([kind, 1]);
        bytes.extend(mac.octets());
    }
}

/// Writes the checksum into a message that is otherwise complete (RFC 4443 §2.3).
fn seal(bytes: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let sum = Sum::default()
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .word(len)
        .word(ICMPV6.into())
        .bytes(bytes)
        .finish();
    if let Some(field) = bytes.get_mut(2..4) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}
