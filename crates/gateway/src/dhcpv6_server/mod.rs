//! A DHCPv6 server for one guest (RFC 8415 §18.3): one address, for the first identity association
//! of a message.
//!
//! | message | identifiers | answer |
//! |---|---|---|
//! | Solicit | client | Advertise, or Reply with Rapid Commit |
//! | Request, Renew | client and server | Reply with the address |
//! | Rebind | client | Reply with the address |
//! | Confirm | client | Reply: Success if all addresses are in the prefix, NotOnLink otherwise |
//! | Release, Decline | client and server | Reply: Success |
//! | Information-request | | Reply with the name servers |
//!
//! A message with other identifiers is counted and dropped (RFC 8415 §16). Further associations get
//! the status NoAddrsAvail. Addresses that a client has from another server get lifetimes of zero
//! when they are renewed. Temporary addresses, delegated prefixes, relay agents and unicast are not
//! supported. The option request is ignored: every answer contains name servers and search list.
//!
//! As the DHCP server for IPv4, this one keeps no state: the guest cannot conflict with another host.

mod client_message;
#[cfg(test)]
mod tests;

use crate::domain_name::DomainName;
use client_message::{
    Association, CLIENT_ID, DNS_SERVERS, DOMAIN_LIST, IA_ADDRESS, IA_NA, Kind, Message,
    RAPID_COMMIT, SERVER_ID, STATUS_CODE, push_option,
};
use net::internet::nd::prefix_of;
use net::link::ethernet::MacAddress;
use net::time::Duration;
use std::collections::VecDeque;
use std::net::Ipv6Addr;

/// UDP port of clients (RFC 8415 §7.2).
pub const CLIENT_PORT: u16 = 546;
/// UDP port of servers (RFC 8415 §7.2).
pub const SERVER_PORT: u16 = 547;
/// All_DHCP_Relay_Agents_and_Servers (RFC 8415 §7.1).
pub const SERVERS: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 1, 2);

/// Maximum number of queued replies; one more is dropped.
const REPLIES_LIMIT: usize = 4;
/// Maximum number of name servers in a reply.
const DNS_SERVERS_MAX: usize = 8;
/// Maximum length of a search list in bytes, so that a reply fits into 1280 bytes.
const SEARCH_LIST_MAX_LEN: usize = 256;
/// A lifetime without end (RFC 8415 §7.7).
const INFINITE: u32 = u32::MAX;
/// Length of the prefix of the guest's network, in bits.
const PREFIX_LEN: u8 = 64;

const ADVERTISE: u8 = 2;
const REPLY: u8 = 7;
const SUCCESS: [u8; 2] = [0, 0];
const NO_ADDRESSES: [u8; 2] = [0, 2];
const NOT_ON_LINK: [u8; 2] = [0, 4];

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hardware address of the gateway, from which the server's identifier is formed (DUID-LL).
    pub mac: MacAddress,
    /// The address of the guest, in a network with a prefix of 64 bits.
    pub address: Ipv6Addr,
    /// Name servers in order of preference; at most eight are sent.
    pub dns_servers: Vec<Ipv6Addr>,
    /// Search list of the guest's resolver, up to 256 bytes.
    pub search_domains: Vec<DomainName>,
    /// Valid and preferred lifetime of the address; `None` for no end.
    pub lifetime: Option<Duration>,
}

/// Counters of a server, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages received.
    pub received: u64,
    /// Replies queued.
    pub replies: u64,
    /// Messages that are malformed, or not from a client.
    pub malformed: u64,
    /// Messages to another server, or without an identifier that they need.
    pub wrong_identifiers: u64,
    /// Replies dropped because too many are queued.
    pub replies_dropped: u64,
}

/// A UDP message from the port of servers to the port of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Address of the guest.
    pub destination: Ipv6Addr,
    /// The DHCPv6 message.
    pub payload: Vec<u8>,
}

/// A DHCPv6 server for one guest.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    id: [u8; 10],
    replies: VecDeque<Outgoing>,
    counters: Counters,
}

impl Server {
    /// Returns a server with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let [m0, m1, m2, m3, m4, m5] = settings.mac.octets();
        // RFC 8415 §11.4: type 3, hardware type Ethernet.
        let id = [0, 3, 0, 1, m0, m1, m2, m3, m4, m5];
        Self { settings, id, replies: VecDeque::new(), counters: Counters::default() }
    }

    /// Processes the DHCPv6 message in a datagram from `source` to [`SERVERS`].
    pub fn receive(&mut self, payload: &[u8], source: Ipv6Addr) {
        self.counters.received += 1;
        let Some(message) = Message::parse(payload) else {
            self.counters.malformed += 1;
            return;
        };
        if !self.has_valid_identifiers(&message) {
            self.counters.wrong_identifiers += 1;
            return;
        }
        let Some(payload) = self.answer(&message) else {
            self.counters.malformed += 1;
            return;
        };
        if self.replies.len() >= REPLIES_LIMIT {
            self.counters.replies_dropped += 1;
            return;
        }
        self.counters.replies += 1;
        self.replies.push_back(Outgoing { destination: source, payload });
    }

    /// Returns the next reply to be sent.
    pub fn transmit(&mut self) -> Option<Outgoing> {
        self.replies.pop_front()
    }

    /// Returns whether a reply is queued.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// RFC 8415 §16: the identifiers that each message must and must not contain.
    fn has_valid_identifiers(&self, message: &Message<'_>) -> bool {
        let is_for_us = message.server_id == Some(&self.id);
        match message.kind {
            Kind::Solicit | Kind::Confirm | Kind::Rebind => {
                message.client_id.is_some() && message.server_id.is_none()
            }
            Kind::Request | Kind::Renew | Kind::Release | Kind::Decline => {
                message.client_id.is_some() && is_for_us
            }
            Kind::InformationRequest => message.server_id.is_none() || is_for_us,
        }
    }

    /// Returns the answer to a message, or `None` if the message is invalid.
    fn answer(&self, message: &Message<'_>) -> Option<Vec<u8>> {
        let is_committed = message.kind != Kind::Solicit || message.has_rapid_commit;
        let [t0, t1, t2] = message.transaction;
        let mut reply = vec![if is_committed { REPLY } else { ADVERTISE }, t0, t1, t2];
        push_option(&mut reply, SERVER_ID, &self.id);
        if let Some(client_id) = message.client_id {
            push_option(&mut reply, CLIENT_ID, client_id);
        }
        match message.kind {
            Kind::Solicit | Kind::Request | Kind::Renew | Kind::Rebind => {
                if message.kind == Kind::Solicit && message.has_rapid_commit {
                    push_option(&mut reply, RAPID_COMMIT, &[]);
                }
                for (index, association) in message.associations.iter().enumerate() {
                    let value = self.association(association, index == 0, message.kind);
                    push_option(&mut reply, IA_NA, &value);
                }
            }
            Kind::Confirm => {
                let addresses = message.associations.iter().flat_map(|ia| &ia.addresses);
                let mut on_link = addresses.map(|address| self.is_on_link(*address)).peekable();
                // RFC 8415 §18.3.3: without an address there is nothing to confirm.
                on_link.peek()?;
                let status =
                    if on_link.all(|is_on_link| is_on_link) { SUCCESS } else { NOT_ON_LINK };
                push_option(&mut reply, STATUS_CODE, &status);
            }
            Kind::Release | Kind::Decline => push_option(&mut reply, STATUS_CODE, &SUCCESS),
            // RFC 8415 §16.12: the message must not contain an association.
            Kind::InformationRequest => message.associations.is_empty().then_some(())?,
        }
        self.push_configuration(&mut reply);
        Some(reply)
    }

    fn is_on_link(&self, address: Ipv6Addr) -> bool {
        prefix_of(address, PREFIX_LEN) == prefix_of(self.settings.address, PREFIX_LEN)
    }

    /// Returns the value of an identity association in the answer.
    fn association(&self, requested: &Association, gets_address: bool, kind: Kind) -> Vec<u8> {
        let lifetime_s = self.lifetime_s();
        let renewal = match self.settings.lifetime {
            // RFC 8415 §14.2: half, and eight tenths of the preferred lifetime.
            Some(_) => [lifetime_s / 2, lifetime_s - lifetime_s / 5],
            None => [INFINITE; 2],
        };
        let mut value = requested.id.to_vec();
        value.extend(renewal.iter().flat_map(|seconds| seconds.to_be_bytes()));
        if !gets_address {
            push_option(&mut value, STATUS_CODE, &NO_ADDRESSES);
            return value;
        }
        push_address(&mut value, self.settings.address, lifetime_s);
        // RFC 8415 §18.3.4: addresses that the client must not use any more.
        if matches!(kind, Kind::Renew | Kind::Rebind) {
            let others = requested.addresses.iter();
            for other in others.filter(|address| **address != self.settings.address) {
                push_address(&mut value, *other, 0);
            }
        }
        value
    }

    fn lifetime_s(&self) -> u32 {
        self.settings.lifetime.map_or(INFINITE, |lifetime| {
            u32::try_from(lifetime.as_secs()).unwrap_or(INFINITE).clamp(1, INFINITE - 1)
        })
    }

    fn push_configuration(&self, reply: &mut Vec<u8>) {
        let servers = self.settings.dns_servers.iter().take(DNS_SERVERS_MAX);
        let servers: Vec<u8> = servers.flat_map(Ipv6Addr::octets).collect();
        if !servers.is_empty() {
            push_option(reply, DNS_SERVERS, &servers);
        }
        let mut names = Vec::new();
        for domain in &self.settings.search_domains {
            if names.len() + domain.wire().len() <= SEARCH_LIST_MAX_LEN {
                names.extend(domain.wire());
            }
        }
        if !names.is_empty() {
            push_option(reply, DOMAIN_LIST, &names);
        }
    }
}

/// Appends an address with its preferred and valid lifetimes (RFC 8415 §21.6).
fn push_address(bytes: &mut Vec<u8>, address: Ipv6Addr, lifetime_s: u32) {
    let lifetime = lifetime_s.to_be_bytes();
    push_option(bytes, IA_ADDRESS, &[&address.octets()[..], &lifetime, &lifetime].concat());
}
