//! The messages of DHCP (RFC 2131 §2) and their options (RFC 2132).
//!
//! A message is parsed completely or rejected: a field or an option that extends beyond the message
//! makes it invalid. Options may also be in the fields for a server name and a boot file
//! (RFC 2132 §9.3), and a list may be split over several options (RFC 3396). Only the first four
//! addresses of a list are kept.

use crate::link::ethernet::MacAddress;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// Lease time of a lease that does not expire.
pub const INFINITE: u32 = u32::MAX;
/// Maximum length in bytes of a message that every host must accept (RFC 2131 §2).
pub const MESSAGE_MAX_LEN: u16 = 576;

/// Minimum length of a BOOTP message in bytes, which some relays require.
const MESSAGE_MIN_LEN: usize = 300;
const MAGIC_COOKIE: [u8; 4] = [99, 130, 83, 99];
const ETHERNET: u8 = 1;
const MAC_LEN: u8 = 6;
const BROADCAST_FLAG: u16 = 0x8000;
/// Maximum number of addresses stored from an option that lists addresses.
const LISTED_ADDRESSES_MAX: usize = 4;
/// Minimum accepted MTU in bytes: the size that every host must be able to receive
/// (RFC 1122 §3.3.2).
const MTU_MIN: u16 = 576;

const PAD: u8 = 0;
const SUBNET_MASK: u8 = 1;
const ROUTERS: u8 = 3;
const DNS_SERVERS: u8 = 6;
const HOST_NAME: u8 = 12;
const INTERFACE_MTU: u8 = 26;
const REQUESTED_ADDRESS: u8 = 50;
const LEASE_TIME: u8 = 51;
const OVERLOAD: u8 = 52;
const MESSAGE_KIND: u8 = 53;
const SERVER_ID: u8 = 54;
const PARAMETERS: u8 = 55;
const MESSAGE_SIZE: u8 = 57;
const RENEWAL_TIME: u8 = 58;
const REBINDING_TIME: u8 = 59;
const CLIENT_ID: u8 = 61;
const END: u8 = 255;

/// Whether a message comes from a client or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// 1: from a client.
    Request,
    /// 2: from a server.
    Reply,
}

/// Type of a DHCP message (RFC 2132 §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 1: a client looks for servers.
    Discover,
    /// 2: a server offers an address.
    Offer,
    /// 3: a client requests an address, or the extension of its lease.
    Request,
    /// 4: a client found that the address is already in use.
    Decline,
    /// 5: a server grants the request.
    Ack,
    /// 6: a server refuses the request.
    Nak,
    /// 7: a client releases its address.
    Release,
    /// 8: a client requests configuration without an address.
    Inform,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Discover,
        Self::Offer,
        Self::Request,
        Self::Decline,
        Self::Ack,
        Self::Nak,
        Self::Release,
        Self::Inform,
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    fn code(self) -> u8 {
        match self {
            Self::Discover => 1,
            Self::Offer => 2,
            Self::Request => 3,
            Self::Decline => 4,
            Self::Ack => 5,
            Self::Nak => 6,
            Self::Release => 7,
            Self::Inform => 8,
        }
    }
}

/// The options that are parsed or written; absent options are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Prefix length of the network in bits, from the subnet mask.
    pub prefix_len: Option<u8>,
    /// Routers in order of preference; at most four are kept.
    pub routers: Vec<Ipv4Addr>,
    /// Name servers in order of preference; at most four are kept.
    pub dns_servers: Vec<Ipv4Addr>,
    /// MTU of the link in bytes, at least 576.
    pub mtu: Option<u16>,
    /// Address that a client requests.
    pub requested_address: Option<Ipv4Addr>,
    /// Lease time in seconds, or [`INFINITE`].
    pub lease_s: Option<u32>,
    /// Seconds until the client asks the same server to renew (T1).
    pub renewal_s: Option<u32>,
    /// Seconds until the client asks any server to renew (T2).
    pub rebinding_s: Option<u32>,
    /// Server identifier: the address of the server that sent the message or that is to process it.
    pub server: Option<Ipv4Addr>,
    /// Client identifier; at most 255 bytes are written.
    pub client_id: Vec<u8>,
    /// Host name of the client; at most 255 bytes are written. It is not parsed from received
    /// messages.
    pub host_name: Vec<u8>,
}

/// A DHCP message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether the message comes from a client or a server.
    pub op: Op,
    /// Message type.
    pub kind: Kind,
    /// Transaction identifier, which matches replies to requests.
    pub transaction: u32,
    /// Seconds since the client began to acquire or renew its address (`secs`).
    pub elapsed_s: u16,
    /// Whether the reply must be a broadcast.
    pub is_broadcast: bool,
    /// Address that the client already uses.
    pub client: Ipv4Addr,
    /// Address that the server assigns to the client.
    pub your_address: Ipv4Addr,
    /// Address of the relay agent.
    pub relay: Ipv4Addr,
    /// Link-layer address of the client.
    pub mac: MacAddress,
    /// The DHCP options of the message.
    pub options: Options,
}

/// Reason why bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The message or one of its options is truncated.
    Truncated,
    /// The hardware type is not Ethernet, or the operation is neither request nor reply.
    Link,
    /// The magic cookie before the options is missing: the message is BOOTP, not DHCP.
    Cookie,
    /// The message type is missing or unknown.
    Kind,
    /// An option has an invalid length.
    OptionLength,
}

impl Message {
    /// Parses a message that occupies all of `bytes`.
    ///
    /// # Errors
    ///
    /// Returns [`MessageError`] if the message is truncated, or is not a DHCP message for Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let (&[op, hardware, hardware_len, _hops], rest) = split_array::<4>(bytes)?;
        let (transaction, rest) = split_array(rest)?;
        let (&[s0, s1, f0, f1], rest) = split_array::<4>(rest)?;
        let (client, rest) = split_array::<4>(rest)?;
        let (your_address, rest) = split_array::<4>(rest)?;
        let (_next_server, rest) = split_array::<4>(rest)?;
        let (relay, rest) = split_array::<4>(rest)?;
        let (hardware_address, rest) = split_array::<16>(rest)?;
        let (server_name, rest) = split_array::<64>(rest)?;
        let (file, rest) = split_array::<128>(rest)?;
        let (cookie, rest) = split_array::<4>(rest)?;
        let op = match (op, hardware, hardware_len) {
            (1, ETHERNET, MAC_LEN) => Op::Request,
            (2, ETHERNET, MAC_LEN) => Op::Reply,
            _ => return Err(MessageError::Link),
        };
        if *cookie != MAGIC_COOKIE {
            return Err(MessageError::Cookie);
        }
        let mut fields = Fields::default();
        fields.parse_options(rest)?;
        let overload = fields.overload;
        if overload & 1 != 0 {
            fields.parse_options(file)?;
        }
        if overload & 2 != 0 {
            fields.parse_options(server_name)?;
        }
        let mac = hardware_address.first_chunk().ok_or(MessageError::Truncated)?;
        Ok(Self {
            op,
            kind: fields.kind.ok_or(MessageError::Kind)?,
            transaction: u32::from_be_bytes(*transaction),
            elapsed_s: u16::from_be_bytes([s0, s1]),
            is_broadcast: u16::from_be_bytes([f0, f1]) & BROADCAST_FLAG != 0,
            client: (*client).into(),
            your_address: (*your_address).into(),
            relay: (*relay).into(),
            mac: MacAddress::new(*mac),
            options: fields.options,
        })
    }

    /// Returns the message in wire format.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let op = match self.op {
            Op::Request => 1,
            Op::Reply => 2,
        };
        let flags = if self.is_broadcast { BROADCAST_FLAG } else { 0 };
        let mut bytes = Vec::with_capacity(MESSAGE_MIN_LEN);
        bytes.extend([op, ETHERNET, MAC_LEN, 0]);
        bytes.extend(self.transaction.to_be_bytes());
        bytes.extend(self.elapsed_s.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        for address in [self.client, self.your_address, Ipv4Addr::UNSPECIFIED, self.relay] {
            bytes.extend(address.octets());
        }
        bytes.extend(self.mac.octets());
        // The rest of the hardware address, the server name and the boot file.
        bytes.extend([0; 10 + 64 + 128]);
        bytes.extend(MAGIC_COOKIE);
        push_option(&mut bytes, MESSAGE_KIND, &[self.kind.code()]);
        self.options.push_all(&mut bytes);
        if self.op == Op::Request {
            push_option(&mut bytes, MESSAGE_SIZE, &MESSAGE_MAX_LEN.to_be_bytes());
            let address_parameters = [SUBNET_MASK, ROUTERS, DNS_SERVERS, INTERFACE_MTU];
            let time_parameters = [LEASE_TIME, RENEWAL_TIME, REBINDING_TIME];
            if matches!(self.kind, Kind::Discover | Kind::Request) {
                push_option(
                    &mut bytes,
                    PARAMETERS,
                    &[&address_parameters[..], &time_parameters].concat(),
                );
            }
        }
        bytes.push(END);
        let len = bytes.len().max(MESSAGE_MIN_LEN);
        bytes.resize(len, PAD);
        bytes
    }
}

impl Options {
    fn push_all(&self, bytes: &mut Vec<u8>) {
        if let Some(len) = self.prefix_len {
            let mask = !u32::MAX.checked_shr(len.into()).unwrap_or(0);
            push_option(bytes, SUBNET_MASK, &mask.to_be_bytes());
        }
        for (code, list) in [(ROUTERS, &self.routers), (DNS_SERVERS, &self.dns_servers)] {
            let list: Vec<u8> = list.iter().flat_map(Ipv4Addr::octets).collect();
            push_nonempty_option(bytes, code, &list);
        }
        push_nonempty_option(bytes, HOST_NAME, &self.host_name);
        if let Some(mtu) = self.mtu {
            push_option(bytes, INTERFACE_MTU, &mtu.to_be_bytes());
        }
        let addresses = [(REQUESTED_ADDRESS, self.requested_address), (SERVER_ID, self.server)];
        for (code, address) in addresses {
            address.iter().for_each(|address| push_option(bytes, code, &address.octets()));
        }
        let times = [
            (LEASE_TIME, self.lease_s),
            (RENEWAL_TIME, self.renewal_s),
            (REBINDING_TIME, self.rebinding_s),
        ];
        for (code, seconds) in times {
            seconds.iter().for_each(|seconds| push_option(bytes, code, &seconds.to_be_bytes()));
        }
        push_nonempty_option(bytes, CLIENT_ID, &self.client_id);
    }
}

/// The options collected during parsing.
#[derive(Debug, Default)]
struct Fields {
    kind: Option<Kind>,
    overload: u8,
    options: Options,
}

impl Fields {
    fn parse_options(&mut self, mut bytes: &[u8]) -> Result<(), MessageError> {
        while let Some((code, rest)) = bytes.split_first() {
            match *code {
                PAD => bytes = rest,
                END => return Ok(()),
                code => {
                    let (len, rest) = rest.split_first().ok_or(MessageError::Truncated)?;
                    let body = rest.split_at_checked(usize::from(*len));
                    let (body, rest) = body.ok_or(MessageError::Truncated)?;
                    self.set_option(code, body).ok_or(MessageError::OptionLength)?;
                    bytes = rest;
                }
            }
        }
        Ok(())
    }

    fn set_option(&mut self, code: u8, body: &[u8]) -> Option<()> {
        let options = &mut self.options;
        match code {
            MESSAGE_KIND => self.kind = Kind::from_code(u8::from_be_bytes(body.try_into().ok()?)),
            OVERLOAD => self.overload = u8::from_be_bytes(body.try_into().ok()?),
            SUBNET_MASK => options.prefix_len = prefix_len(parse_u32(body)?),
            ROUTERS => extend(&mut options.routers, body)?,
            DNS_SERVERS => extend(&mut options.dns_servers, body)?,
            INTERFACE_MTU => {
                let mtu = u16::from_be_bytes(body.try_into().ok()?);
                options.mtu = (mtu >= MTU_MIN).then_some(mtu);
            }
            REQUESTED_ADDRESS => options.requested_address = Some(parse_u32(body)?.into()),
            SERVER_ID => options.server = Some(parse_u32(body)?.into()),
            LEASE_TIME => options.lease_s = Some(parse_u32(body)?),
            RENEWAL_TIME => options.renewal_s = Some(parse_u32(body)?),
            REBINDING_TIME => options.rebinding_s = Some(parse_u32(body)?),
            CLIENT_ID => options.client_id = body.into(),
            _ => {}
        }
        Some(())
    }
}

/// Appends the addresses in the body of an option to `list`, up to [`LISTED_ADDRESSES_MAX`].
/// Returns `None` if the body is empty or its length is not a multiple of four bytes.
fn extend(list: &mut Vec<Ipv4Addr>, body: &[u8]) -> Option<()> {
    if body.is_empty() || !body.len().is_multiple_of(4) {
        return None;
    }
    let addresses = body.chunks_exact(4).filter_map(parse_u32).map(Ipv4Addr::from_bits);
    list.extend(addresses.take(LISTED_ADDRESSES_MAX.saturating_sub(list.len())));
    Some(())
}

fn parse_u32(body: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(body.try_into().ok()?))
}

/// Returns the prefix length of a mask; `None` if the one bits of the mask are not contiguous.
fn prefix_len(mask: u32) -> Option<u8> {
    let one_bits = mask.leading_ones();
    (mask.count_ones() == one_bits).then(|| u8::try_from(one_bits).ok())?
}

fn push_option(bytes: &mut Vec<u8>, code: u8, body: &[u8]) {
    let len = u8::try_from(body.len()).unwrap_or(u8::MAX);
    bytes.extend([code, len]);
    bytes.extend(body.iter().take(usize::from(len)));
}

/// Writes an option unless its body is empty.
fn push_nonempty_option(bytes: &mut Vec<u8>, code: u8, body: &[u8]) {
    if !body.is_empty() {
        push_option(bytes, code, body);
    }
}

fn split_array<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), MessageError> {
    bytes.split_first_chunk().ok_or(MessageError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer() -> Message {
        Message {
            op: Op::Reply,
            kind: Kind::Offer,
            transaction: 7,
            elapsed_s: 0,
            is_broadcast: true,
            client: Ipv4Addr::UNSPECIFIED,
            your_address: Ipv4Addr::new(10, 0, 0, 5),
            relay: Ipv4Addr::UNSPECIFIED,
            mac: MacAddress::new([2, 0, 0, 0, 0, 1]),
            options: Options {
                prefix_len: Some(24),
                routers: [[10, 0, 0, 1].into()].into(),
                lease_s: Some(3600),
                server: Some(Ipv4Addr::new(10, 0, 0, 1)),
                ..Options::default()
            },
        }
    }

    /// Returns a DHCPOFFER in wire format whose options are replaced by `options`.
    fn offer_with_options(options: &[u8]) -> Vec<u8> {
        let mut bytes = offer().emit();
        bytes.truncate(240);
        bytes.extend_from_slice(options);
        bytes
    }

    // attack row 101
    #[test]
    fn row_101_a_message_truncated_in_its_fixed_part_is_rejected() {
        let bytes = offer().emit();
        let truncated_results = (0..240).map(|len| Message::parse(&bytes[..len]));
        assert!(truncated_results.into_iter().all(|parsed| parsed == Err(MessageError::Truncated)));
    }

    // attack row 101
    #[test]
    fn row_101_an_option_that_extends_beyond_the_message_makes_it_invalid() {
        let overlong_options =
            (2..=255).map(|len| offer_with_options(&[MESSAGE_KIND, 1, 2, 43, len, 0]));
        assert!(
            overlong_options
                .into_iter()
                .all(|m| Message::parse(&m) == Err(MessageError::Truncated))
        );
    }

    #[test]
    fn an_option_of_a_wrong_length_makes_the_message_invalid() {
        for code in [1, 3, 6, 26, 50, 51, 52, 53, 54, 58, 59] {
            let bytes = offer_with_options(&[MESSAGE_KIND, 1, 2, code, 3, 0, 0, 0, END]);
            assert_eq!(Message::parse(&bytes), Err(MessageError::OptionLength), "{code}");
        }
    }

    #[test]
    fn options_are_also_parsed_from_the_name_fields() {
        let mut bytes = offer_with_options(&[MESSAGE_KIND, 1, 2, OVERLOAD, 1, 3, END]);
        bytes[44..51].copy_from_slice(&[LEASE_TIME, 4, 0, 0, 0, 60, END]);
        bytes[108..115].copy_from_slice(&[SERVER_ID, 4, 10, 0, 0, 9, END]);
        let options = Message::parse(&bytes).unwrap().options;
        assert_eq!(options.lease_s, Some(60));
        assert_eq!(options.server, Some(Ipv4Addr::new(10, 0, 0, 9)));
    }

    #[test]
    fn a_list_may_be_split_and_only_its_first_four_addresses_are_stored() {
        let mut options = [MESSAGE_KIND, 1, 2].to_vec();
        (1..=6).for_each(|last| options.extend([DNS_SERVERS, 4, 10, 0, 0, last]));
        let servers = Message::parse(&offer_with_options(&options)).unwrap().options.dns_servers;
        assert!(servers.iter().map(|server| server.octets()[3]).eq([1, 2, 3, 4]));
    }

    #[test]
    fn a_mask_with_holes_and_an_mtu_that_is_too_small_are_not_accepted() {
        let options = [MESSAGE_KIND, 1, 2, SUBNET_MASK, 4, 255, 0, 255, 0, INTERFACE_MTU, 2, 0, 68];
        let parsed_options = Message::parse(&offer_with_options(&options)).unwrap().options;
        assert_eq!((parsed_options.prefix_len, parsed_options.mtu), (None, None));
    }

    #[test]
    fn a_message_without_a_type_or_a_cookie_is_rejected() {
        assert_eq!(Message::parse(&offer_with_options(&[END])), Err(MessageError::Kind));
        let mut bytes = offer().emit();
        bytes[236] = 0;
        assert_eq!(Message::parse(&bytes), Err(MessageError::Cookie));
    }

    fn options() -> impl Strategy<Value = Options> {
        let addresses = || prop::collection::vec(any::<u32>().prop_map(Ipv4Addr::from_bits), 0..=4);
        let address = || any::<Option<u32>>().prop_map(|bits| bits.map(Ipv4Addr::from_bits));
        let lists = (addresses(), addresses(), prop::collection::vec(any::<u8>(), 0..40));
        let numbers = (prop::option::of(0..=32_u8), prop::option::of(MTU_MIN..));
        let times = any::<[Option<u32>; 3]>();
        (lists, numbers, (address(), address()), times).prop_map(
            |((routers, dns_servers, client_id), (prefix_len, mtu), addresses, times)| {
                let [lease_s, renewal_s, rebinding_s] = times;
                let (requested_address, server) = addresses;
                Options {
                    prefix_len,
                    routers,
                    dns_servers,
                    mtu,
                    requested_address,
                    lease_s,
                    renewal_s,
                    rebinding_s,
                    server,
                    client_id,
                    host_name: Vec::new(),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn an_emitted_message_is_parsed_back_equal(
            is_reply: bool, kind in prop::sample::select(Kind::ALL.to_vec()), transaction: u32,
            elapsed_s: u16, is_broadcast: bool, addresses: [u32; 3], mac: [u8; 6],
            options in options(),
        ) {
            let op = if is_reply { Op::Reply } else { Op::Request };
            let [client, your_address, relay] = addresses.map(Ipv4Addr::from_bits);
            let mac = MacAddress::new(mac);
            let message = Message {
                op, kind, transaction, elapsed_s, is_broadcast, client, your_address, relay, mac, options,
            };
            prop_assert_eq!(Message::parse(&message.emit()), Ok(message));
        }
    }
}
