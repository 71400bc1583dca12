//! A DHCP server for one guest (RFC 2131 §4.3): one address, which is never given to another host.
//!
//! The guest has a network of its own, so the server needs no table of leases and no check whether
//! the address is in use. It answers at once:
//!
//! | message | condition | answer |
//! |---|---|---|
//! | DHCPDISCOVER | | DHCPOFFER |
//! | DHCPREQUEST | another server identifier | none; the offer is withdrawn |
//! | DHCPREQUEST | requests the address, or uses it already | DHCPACK |
//! | DHCPREQUEST | requests or uses another address | DHCPNAK |
//! | DHCPREQUEST | neither requests nor uses an address | none, invalid |
//! | DHCPINFORM | uses the address | DHCPACK without address and lease |
//! | DHCPRELEASE, DHCPDECLINE | | none; an [`Event`] |
//!
//! A DHCPREQUEST in INIT-REBOOT for another address is answered by DHCPNAK even without a record of
//! the client, because no other server is on the segment (RFC 2131 §4.3.2). A declined address is
//! offered again: the guest has no other one, and waits ten seconds before it asks (RFC 2131
//! §3.1 5).
//!
//! The hardware address in a message must be the guest's. Relay agents are not supported: a message
//! from one is counted and dropped. Replies that the client asks to be broadcast are sent to
//! 255.255.255.255, as are all DHCPNAK (RFC 2131 §4.1). Other replies are sent to the address that
//! the client has or gets. The client identifier is returned unchanged (RFC 6842).
//!
//! The formats are those of the client, `net::application::dhcp`. This server adds the domain name
//! (option 15) and the search list (option 119, RFC 3397). The parameter request list is ignored:
//! every reply contains all options. A datagram has at most 576 bytes (RFC 2131 §2), unless the
//! client identifier is longer than 200 bytes.

#[cfg(test)]
mod tests;

use crate::domain_name::DomainName;
use net::application::dhcp::{INFINITE, Kind, MESSAGE_MAX_LEN, Message, Op, Options};
use net::link::ethernet::MacAddress;
use net::time::Duration;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Maximum number of queued replies; one more is dropped.
const REPLIES_LIMIT: usize = 4;
/// Maximum number of queued events; one more is dropped.
const EVENTS_LIMIT: usize = 8;
/// Minimum length of a reply, as of a BOOTP message, in bytes.
const REPLY_MIN_LEN: usize = 300;
/// Maximum length of a reply in bytes, without the IP and UDP headers.
const REPLY_MAX_LEN: usize = MESSAGE_MAX_LEN as usize - 28;
/// Maximum length of the value of an option, in bytes.
const OPTION_MAX_LEN: usize = 255;

const DOMAIN_NAME: u8 = 15;
const DOMAIN_SEARCH: u8 = 119;
const PAD: u8 = 0;
const END: u8 = 255;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the server, which is its identifier.
    pub server: Ipv4Addr,
    /// The address of the guest.
    pub address: Ipv4Addr,
    /// Length of the prefix of the guest's network, in bits.
    pub prefix_len: u8,
    /// The router of the guest.
    pub router: Option<Ipv4Addr>,
    /// Name servers in order of preference; at most four are sent.
    pub dns_servers: Vec<Ipv4Addr>,
    /// Search list of the guest's resolver. The first name is also the domain name of the guest.
    /// Names that do not fit into a reply are left out.
    pub search_domains: Vec<DomainName>,
    /// MTU of the link in bytes, if it is to be sent.
    pub mtu: Option<u16>,
    /// Lease time; `None` for a lease without end.
    pub lease_time: Option<Duration>,
}

/// Counters of a server, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages received.
    pub received: u64,
    /// Replies queued.
    pub replies: u64,
    /// DHCPNAK among the replies.
    pub refusals: u64,
    /// Messages that are not DHCP, damaged, or invalid in their state.
    pub malformed: u64,
    /// Messages with the hardware address of another host.
    pub other_hosts: u64,
    /// Messages from a relay agent.
    pub relayed: u64,
    /// Messages to another server.
    pub other_servers: u64,
    /// Replies dropped because too many are queued.
    pub replies_dropped: u64,
}

/// Events of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The guest has the address, for the first time or again after a release.
    Bound,
    /// The guest has released the address.
    Released,
    /// The guest reports that another host uses the address.
    Declined,
}

/// A UDP message from the port of servers to the port of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Address of the server.
    pub source: Ipv4Addr,
    /// Address of the guest, or the broadcast address. The guest may not have the address yet, so
    /// that it does not answer ARP.
    pub destination: Ipv4Addr,
    /// The DHCP message.
    pub payload: Vec<u8>,
}

/// A DHCP server for one guest.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    state: State,
    replies: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    counters: Counters,
}

/// Whether the guest has the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Offered,
    Bound,
}

impl Server {
    /// Returns a server with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Free,
            replies: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Processes the DHCP message in a datagram of the guest with the hardware address `guest`.
    pub fn receive(&mut self, payload: &[u8], guest: MacAddress) {
        self.counters.received += 1;
        let Ok(message) = Message::parse(payload) else {
            self.counters.malformed += 1;
            return;
        };
        if message.op != Op::Request {
            self.counters.malformed += 1;
        } else if message.mac != guest {
            self.counters.other_hosts += 1;
        } else if !message.relay.is_unspecified() {
            self.counters.relayed += 1;
        } else {
            self.process(&message);
        }
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

    /// Returns the next event.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Replaces the settings. A guest that has another address gets a DHCPNAK when it renews its
    /// lease.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
        self.state = State::Free;
    }

    fn process(&mut self, message: &Message) {
        match message.kind {
            Kind::Discover => {
                if self.state == State::Free {
                    self.state = State::Offered;
                }
                self.reply(message, Kind::Offer);
            }
            Kind::Request => self.process_request(message),
            Kind::Inform if message.client == self.settings.address => {
                self.reply(message, Kind::Ack);
            }
            Kind::Release => self.end_lease(message, Event::Released),
            Kind::Decline => self.end_lease(message, Event::Declined),
            // A client sends no other types.
            Kind::Inform | Kind::Offer | Kind::Ack | Kind::Nak => self.counters.malformed += 1,
        }
    }

    /// RFC 2131 §4.3.2: the fields of a DHCPREQUEST depend on the state of the client.
    fn process_request(&mut self, message: &Message) {
        let server = message.options.server;
        if server.is_some_and(|server| server != self.settings.server) {
            self.counters.other_servers += 1;
            if self.state == State::Offered {
                self.state = State::Free;
            }
            return;
        }
        // SELECTING and INIT-REBOOT request an address; RENEWING and REBINDING use one already.
        let client = Some(message.client).filter(|address| !address.is_unspecified());
        let Some(address) = message.options.requested_address.or(client) else {
            self.counters.malformed += 1;
            return;
        };
        if address != self.settings.address {
            self.counters.refusals += 1;
            return self.reply(message, Kind::Nak);
        }
        if self.state != State::Bound {
            self.state = State::Bound;
            self.report(Event::Bound);
        }
        self.reply(message, Kind::Ack);
    }

    fn end_lease(&mut self, message: &Message, event: Event) {
        let server = message.options.server;
        if server.is_some_and(|server| server != self.settings.server) {
            self.counters.other_servers += 1;
            return;
        }
        self.state = State::Free;
        self.report(event);
    }

    fn report(&mut self, event: Event) {
        if self.events.len() < EVENTS_LIMIT {
            self.events.push_back(event);
        }
    }

    fn reply(&mut self, request: &Message, kind: Kind) {
        if self.replies.len() >= REPLIES_LIMIT {
            self.counters.replies_dropped += 1;
            return;
        }
        self.counters.replies += 1;
        let address = self.settings.address;
        let gets_address = kind != Kind::Nak && request.kind != Kind::Inform;
        let reply = Message {
            op: Op::Reply,
            kind,
            transaction: request.transaction,
            elapsed_s: 0,
            is_broadcast: request.is_broadcast,
            // RFC 2131 table 3: ciaddr of DHCPACK is that of the request.
            client: if kind == Kind::Ack { request.client } else { Ipv4Addr::UNSPECIFIED },
            your_address: if gets_address { address } else { Ipv4Addr::UNSPECIFIED },
            relay: Ipv4Addr::UNSPECIFIED,
            mac: request.mac,
            options: self.options(request, kind),
        };
        let uses_address = request.client == address;
        let destination = match kind {
            Kind::Nak => Ipv4Addr::BROADCAST,
            _ if request.is_broadcast && !uses_address => Ipv4Addr::BROADCAST,
            _ => address,
        };
        let mut payload = reply.emit();
        if kind != Kind::Nak {
            self.push_domains(&mut payload);
        }
        self.replies.push_back(Outgoing { source: self.settings.server, destination, payload });
    }

    fn options(&self, request: &Message, kind: Kind) -> Options {
        let settings = &self.settings;
        let client_id = request.options.client_id.clone();
        let identification =
            Options { server: Some(settings.server), client_id, ..Options::default() };
        if kind == Kind::Nak {
            return identification;
        }
        let mut options = Options {
            prefix_len: Some(settings.prefix_len),
            routers: settings.router.into_iter().collect(),
            dns_servers: settings.dns_servers.iter().copied().take(4).collect(),
            mtu: settings.mtu,
            ..identification
        };
        // RFC 2131 §4.3.5: the answer to DHCPINFORM has no lease time.
        if request.kind != Kind::Inform {
            let seconds = settings.lease_time.map(|time| {
                u32::try_from(time.as_secs()).unwrap_or(INFINITE).clamp(1, INFINITE - 1)
            });
            options.lease_s = Some(seconds.unwrap_or(INFINITE));
            // RFC 2131 §4.4.5: T1 is half, and T2 seven eighths of the lease.
            options.renewal_s = seconds.map(|lease| lease / 2);
            options.rebinding_s = seconds.map(|lease| lease - lease / 8);
        }
        options
    }

    /// Appends the domain name and the search list to the options of a message in wire format.
    fn push_domains(&self, payload: &mut Vec<u8>) {
        let Some(first) = self.settings.search_domains.first() else { return };
        // The message ends with the end option and padding, which are written again.
        while payload.pop_if(|last| *last == PAD).is_some() {}
        payload.pop();
        let name = first.to_string();
        push_option(payload, DOMAIN_NAME, name.trim_end_matches('.').as_bytes());
        let mut list = Vec::new();
        for domain in &self.settings.search_domains {
            let len = list.len() + domain.wire().len();
            if len <= OPTION_MAX_LEN && payload.len() + 2 + len < REPLY_MAX_LEN {
                list.extend(domain.wire());
            }
        }
        push_option(payload, DOMAIN_SEARCH, &list);
        payload.push(END);
        payload.resize(payload.len().max(REPLY_MIN_LEN), PAD);
    }
}

/// Appends an option, unless its value is empty or does not fit.
fn push_option(payload: &mut Vec<u8>, code: u8, value: &[u8]) {
    let Ok(len) = u8::try_from(value.len()) else { return };
    // The end option follows.
    if len > 0 && payload.len() + 2 + value.len() < REPLY_MAX_LEN {
        payload.extend([code, len]);
        payload.extend(value);
    }
}
