//! A DHCP client (RFC 2131): obtains an address and its configuration from a server on the link.
//!
//! ```text
//!  Init ──discover──► Selecting ──offer──► Requesting ──ack──► Checking ──free──► Bound
//!   ▲                                          │                  │                │ T1
//!   │◄────────────── refused ──────────────────┤◄─── in use ──────┘                ▼
//!   │                                          │      (decline)                Renewing
//!   │◄──────── refused, or the lease ends ─────┴──────────────────────────┐       │ T2
//!   │                                                                     │       ▼
//!   └─────────────────────────────────────────────────────────────────────┴── Rebinding
//! ```
//!
//! The client requests two operations from its owner. One is to send a UDP message, from 0.0.0.0
//! while the client has no address. The other is to check with ARP whether an address is in use
//! ([`Event::Check`], RFC 2131 §4.4.1): the owner claims the address, as RFC 5227 §2.1 specifies, by
//! the state machine that IPv4 and IPv6 share (`duplicate_detection`). The client asks servers for
//! broadcast replies, since a host without an address accepts no unicast replies.
//!
//! A reply is accepted only with the transaction identifier of the current request and the local
//! hardware address. Once the client has accepted an offer, it accepts replies only from the server
//! of that offer, except in REBINDING. The client accepts the first usable offer. If the offer of a
//! server did not lead to a lease, the client prefers the first offer of another server that
//! arrives before the next DHCPDISCOVER. All values from the link are validated: an address must be
//! a valid host address in its network, routers must be other hosts in the same network, and the
//! prefix must have at least 8 bits. Retransmission intervals double from 4 to 64 seconds, each
//! randomized by up to one second in either direction (RFC 2131 §4.1). Addresses are not remembered
//! across runs (INIT-REBOOT), and configuration without an address (DHCPINFORM) is not requested.

mod message;
#[cfg(test)]
mod tests;

pub use message::{INFINITE, Kind, MESSAGE_MAX_LEN, Message, MessageError, Op, Options};

use crate::cx::Cx;
use crate::link::ethernet::MacAddress;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// The UDP port of clients.
pub const CLIENT_PORT: u16 = 68;
/// The UDP port of servers.
pub const SERVER_PORT: u16 = 67;

/// Maximum delay before the first message. RFC 2131 §4.4.1 specifies 1 to 10 seconds; one second
/// suffices to desynchronize hosts that start together, and the user has to wait for this delay.
const START_DELAY_MAX: Duration = Duration::from_secs(1);
/// First retransmission interval (RFC 2131 §4.1).
const INITIAL_RETRY_INTERVAL: Duration = Duration::from_secs(4);
/// Maximum number of times the retransmission interval doubles: from 4 to 64 seconds (RFC 2131
/// §4.1).
const RETRY_DOUBLINGS_MAX: u32 = 4;
/// Number of DHCPREQUEST messages for one offer before the client discards the offer.
const REQUESTS_PER_OFFER_MAX: u32 = 4;
/// Minimum interval between two requests to renew (RFC 2131 §4.4.5).
const RENEW_RETRY_INTERVAL_MIN: Duration = Duration::from_secs(60);
/// Delay after an address is declined, before the search starts again (RFC 2131 §3.1 5).
const DECLINE_DELAY: Duration = Duration::from_secs(10);
/// Minimum accepted prefix length in bits: that of a class A network (RFC 791 §3.2).
const PREFIX_LEN_MIN: u8 = 8;
/// Maximum number of queued messages; at the limit the oldest message is dropped.
const PENDING_MESSAGES_MAX: usize = 4;
const EVENTS_MAX: usize = 8;

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Link-layer address of the interface.
    pub mac: MacAddress,
    /// Host name to send to the server; empty for none.
    pub host_name: Vec<u8>,
}

/// Lease granted by a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Prefix length of the network in bits.
    pub prefix_len: u8,
    /// Routers in order of preference, at most four.
    pub routers: Vec<Ipv4Addr>,
    /// Name servers in order of preference, at most four.
    pub dns_servers: Vec<Ipv4Addr>,
    /// MTU of the link in bytes, if the server specifies it.
    pub mtu: Option<u16>,
    /// The server that granted the lease.
    pub server: Ipv4Addr,
    /// T1: time at which the server is asked to renew; `None` for never.
    pub renew_at: Option<Instant>,
    /// T2: time at which any server is asked to renew; `None` for never.
    pub rebind_at: Option<Instant>,
    /// Time at which the lease expires; `None` for never.
    pub expires_at: Option<Instant>,
}

/// Events of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The owner is to check whether the address is in use, and to report the result with
    /// [`Client::accept`] or [`Client::decline`].
    Check(Ipv4Addr),
    /// A lease was obtained or renewed.
    Bound(Lease),
    /// The address may no longer be used.
    Lost(Ipv4Addr),
}

/// A UDP message from [`CLIENT_PORT`] to [`SERVER_PORT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Local address, or 0.0.0.0.
    pub source: Ipv4Addr,
    /// Address of the server, or the broadcast address.
    pub destination: Ipv4Addr,
    /// The DHCP message.
    pub payload: Vec<u8>,
}

/// A DHCP client on one interface.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    state: State,
    transaction: u32,
    began_at: Instant,
    /// Time at which the outstanding request was sent. The lease time counts from this time.
    requested_at: Instant,
    /// Server whose last offer did not lead to a lease. The offers of this server are ignored after
    /// the first DHCPDISCOVER, and accepted again after the second.
    avoided_server: Option<Ipv4Addr>,
    pending: VecDeque<Outgoing>,
    events: VecDeque<Event>,
}

#[derive(Clone, Debug)]
enum State {
    Idle,
    Init { due: Instant },
    Selecting { sent: u32, due: Instant },
    Requesting { offer: Offer, sent: u32, due: Instant },
    Checking { lease: Lease },
    Bound { lease: Lease },
    Renewing { lease: Lease, due: Instant },
    Rebinding { lease: Lease, due: Instant },
}

#[derive(Clone, Copy, Debug)]
struct Offer {
    address: Ipv4Addr,
    server: Ipv4Addr,
}

impl Client {
    /// Creates a client that is idle until it is started.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Idle,
            transaction: 0,
            began_at: Instant::ZERO,
            requested_at: Instant::ZERO,
            avoided_server: None,
            pending: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Starts the search for a server.
    pub fn start(&mut self, cx: &mut Cx<'_>) {
        let wait = cx.rng.below(nanos(START_DELAY_MAX));
        self.begin_discovery(Duration::from_nanos(wait), cx);
    }

    /// Releases the address, if the client has one, and stops.
    pub fn release(&mut self, cx: &mut Cx<'_>) {
        let state = core::mem::replace(&mut self.state, State::Idle);
        let (State::Bound { lease }
        | State::Renewing { lease, .. }
        | State::Rebinding { lease, .. }) = state
        else {
            return;
        };
        let options = Options { server: Some(lease.server), ..Options::default() };
        let message = self.message(Kind::Release, lease.address, options, cx);
        self.enqueue(&message, lease.address, lease.server);
        self.push_event(Event::Lost(lease.address), cx);
    }

    /// Returns the lease, if its address may be used.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound { lease }
            | State::Renewing { lease, .. }
            | State::Rebinding { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// Reports that the address of [`Event::Check`] is free.
    pub fn accept(&mut self, address: Ipv4Addr, cx: &mut Cx<'_>) {
        if let State::Checking { lease } = &self.state
            && lease.address == address
        {
            let lease = lease.clone();
            self.avoided_server = None;
            self.push_event(Event::Bound(lease.clone()), cx);
            self.state = State::Bound { lease };
        }
    }

    /// Reports that another host uses the address of [`Event::Check`] or of the lease
    /// (RFC 2131 §3.1 5, RFC 5227 §2.4).
    pub fn decline(&mut self, address: Ipv4Addr, cx: &mut Cx<'_>) {
        let (lease, is_bound) = match &self.state {
            State::Checking { lease } => (lease, false),
            State::Bound { lease }
            | State::Renewing { lease, .. }
            | State::Rebinding { lease, .. } => (lease, true),
            _ => return,
        };
        if lease.address != address {
            return;
        }
        let requested_address = Some(address);
        let server = Some(lease.server);
        let options = Options { requested_address, server, ..Options::default() };
        let message = self.message(Kind::Decline, Ipv4Addr::UNSPECIFIED, options, cx);
        self.enqueue(&message, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        cx.meter.count(Counter::DhcpDeclines);
        if is_bound {
            self.push_event(Event::Lost(address), cx);
        }
        self.begin_discovery(DECLINE_DELAY, cx);
    }

    /// Processes a message received from [`SERVER_PORT`] on [`CLIENT_PORT`].
    pub fn receive(&mut self, payload: &[u8], cx: &mut Cx<'_>) {
        cx.meter.count(Counter::DhcpIn);
        let Ok(message) = Message::parse(payload) else {
            return cx.meter.count(Counter::DhcpErrors);
        };
        let is_answer = message.op == Op::Reply
            && message.transaction == self.transaction
            && message.mac == self.settings.mac;
        if !is_answer || !self.accept_reply(&message, cx) {
            cx.meter.count(Counter::DhcpIgnored);
        }
    }

    /// Returns the next message to send.
    pub fn transmit(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        let outgoing = self.pending.pop_front()?;
        cx.meter.count(Counter::DhcpOut);
        Some(outgoing)
    }

    /// Returns whether a message is queued for sending.
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
        match &self.state {
            State::Idle => None,
            State::Init { due } | State::Selecting { due, .. } | State::Requesting { due, .. } => {
                Some(*due)
            }
            State::Checking { lease } => lease.expires_at,
            State::Bound { lease } => earliest(lease.renew_at, lease.expires_at),
            State::Renewing { lease, due } => earliest(Some(*due), lease.rebind_at),
            State::Rebinding { lease, due } => earliest(Some(*due), lease.expires_at),
        }
    }

    /// Processes the expired timers: sends or retransmits a request, or discards the offer or the
    /// lease.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        // A failed attempt restarts with a deadline that may be due already, so the loop continues
        // until a request is pending.
        while self.deadline().is_some_and(|due| due <= cx.now) {
            self.advance(cx);
        }
    }

    fn advance(&mut self, cx: &mut Cx<'_>) {
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Idle => {}
            State::Init { .. } => {
                self.transaction = cx.rng.next_u32();
                self.began_at = cx.now;
                self.discover(0, cx);
            }
            State::Selecting { sent, .. } => self.discover(sent, cx),
            State::Requesting { offer, sent, .. } if sent >= REQUESTS_PER_OFFER_MAX => {
                self.avoided_server = Some(offer.server);
                self.begin_discovery(Duration::ZERO, cx);
            }
            State::Requesting { offer, sent, .. } => self.request(offer, sent, cx),
            // The lease expired before the check of its address ended.
            State::Checking { lease } => {
                self.avoided_server = Some(lease.server);
                self.begin_discovery(INITIAL_RETRY_INTERVAL, cx);
            }
            State::Bound { lease }
            | State::Renewing { lease, .. }
            | State::Rebinding { lease, .. } => self.request_renewal(lease, cx),
        }
    }

    /// Processes a reply to the current request. Returns false if the reply is not acceptable now.
    fn accept_reply(&mut self, message: &Message, cx: &mut Cx<'_>) -> bool {
        match (&self.state, message.kind) {
            (State::Selecting { sent, .. }, Kind::Offer) => {
                let Some(server) = message.options.server else { return false };
                let is_usable = is_host(server)
                    && server != message.your_address
                    && is_assignable(message.your_address, &message.options)
                    && message.options.lease_s != Some(0);
                if !is_usable || (self.avoided_server == Some(server) && *sent <= 1) {
                    return false;
                }
                let offer = Offer { address: message.your_address, server };
                self.request(offer, 0, cx);
                true
            }
            (State::Requesting { offer, .. }, Kind::Ack) => {
                let Offer { address, server } = *offer;
                // RFC 2131 table 3: the server identifier MUST be present. The transaction
                // identifier alone proves nothing, since every host on the link has received it.
                if message.options.server != Some(server) {
                    return false;
                }
                let Some(lease) = self.granted_lease(message, address, server, cx) else {
                    return false;
                };
                self.push_event(Event::Check(address), cx);
                self.state = State::Checking { lease };
                true
            }
            (State::Requesting { offer, .. }, Kind::Nak) => {
                let is_from_server = message.options.server == Some(offer.server);
                if is_from_server {
                    self.avoided_server = Some(offer.server);
                    self.begin_discovery(INITIAL_RETRY_INTERVAL, cx);
                }
                is_from_server
            }
            (State::Renewing { lease, .. } | State::Rebinding { lease, .. }, Kind::Ack) => {
                let address = lease.address;
                let server = lease.server;
                // In REBINDING any server may answer. The server that answers becomes the server of
                // the lease.
                let server = match (&self.state, message.options.server) {
                    (State::Rebinding { .. }, Some(other)) if is_host(other) => other,
                    _ => server,
                };
                let Some(lease) = self.granted_lease(message, address, server, cx) else {
                    return false;
                };
                self.push_event(Event::Bound(lease.clone()), cx);
                self.state = State::Bound { lease };
                true
            }
            (State::Renewing { lease, .. }, Kind::Nak)
                if message.options.server != Some(lease.server) =>
            {
                false
            }
            (State::Renewing { lease, .. } | State::Rebinding { lease, .. }, Kind::Nak) => {
                let address = lease.address;
                self.push_event(Event::Lost(address), cx);
                self.begin_discovery(INITIAL_RETRY_INTERVAL, cx);
                true
            }
            _ => false,
        }
    }

    /// Returns the lease that an acknowledgment grants, if it matches the request.
    fn granted_lease(
        &self,
        message: &Message,
        address: Ipv4Addr,
        server: Ipv4Addr,
        cx: &mut Cx<'_>,
    ) -> Option<Lease> {
        let options = &message.options;
        let lease_s = options.lease_s.filter(|seconds| *seconds > 0)?;
        let is_from_other_server = options.server.is_some_and(|other| other != server);
        if message.your_address != address
            || is_from_other_server
            || !is_assignable(address, options)
        {
            return None;
        }
        let prefix_len = prefix_len(address, options);
        let time_after_request = |seconds: u64| self.requested_at + Duration::from_secs(seconds);
        let is_endless = lease_s == INFINITE;
        let lease_s = u64::from(lease_s);
        // RFC 2131 §4.4.5: T1 and T2 are one half and seven eighths of the lease. Values from the
        // server replace them if T1, T2 and the lease time are in ascending order.
        let lease_times = (options.renewal_s.map(u64::from), options.rebinding_s.map(u64::from));
        let (renew_s, rebind_s) = match lease_times {
            (Some(t1), Some(t2)) if 0 < t1 && t1 < t2 && t2 < lease_s => (t1, t2),
            _ => (lease_s / 2, lease_s - lease_s / 8),
        };
        // T1 is moved earlier by a random time of up to 2 %, so that hosts that started together do
        // not renew together.
        let renewal_jitter = Duration::from_millis(cx.rng.below(renew_s.saturating_mul(20) + 1));
        let renew_at = time_after_request(renew_s);
        let renew_at =
            Instant::from_nanos(renew_at.as_nanos().saturating_sub(nanos(renewal_jitter)));
        Some(Lease {
            address,
            prefix_len,
            routers: options
                .routers
                .iter()
                .copied()
                .filter(|router| is_router_for(*router, address, prefix_len))
                .collect(),
            dns_servers: options.dns_servers.iter().copied().filter(|a| is_host(*a)).collect(),
            mtu: options.mtu,
            server,
            renew_at: (!is_endless).then_some(renew_at),
            rebind_at: (!is_endless).then(|| time_after_request(rebind_s)),
            expires_at: (!is_endless).then(|| time_after_request(lease_s)),
        })
    }

    fn begin_discovery(&mut self, wait: Duration, cx: &Cx<'_>) {
        self.state = State::Init { due: cx.now + wait };
    }

    fn discover(&mut self, sent: u32, cx: &mut Cx<'_>) {
        count_retransmission(sent, cx);
        let message = self.message(Kind::Discover, Ipv4Addr::UNSPECIFIED, Options::default(), cx);
        self.enqueue(&message, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        let due = retry_at(sent, cx);
        self.state = State::Selecting { sent: sent.saturating_add(1), due };
    }

    fn request(&mut self, offer: Offer, sent: u32, cx: &mut Cx<'_>) {
        let requested_address = Some(offer.address);
        let server = Some(offer.server);
        let options = Options { requested_address, server, ..Options::default() };
        let message = self.message(Kind::Request, Ipv4Addr::UNSPECIFIED, options, cx);
        self.enqueue(&message, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        count_retransmission(sent, cx);
        self.requested_at = cx.now;
        let due = retry_at(sent, cx);
        self.state = State::Requesting { offer, sent: sent.saturating_add(1), due };
    }

    /// Requests an extension of the lease: from its server until T2, then from any server until the
    /// lease expires.
    fn request_renewal(&mut self, lease: Lease, cx: &mut Cx<'_>) {
        if lease.expires_at.is_some_and(|expiry| expiry <= cx.now) {
            self.push_event(Event::Lost(lease.address), cx);
            return self.begin_discovery(Duration::ZERO, cx);
        }
        // A new request gets a new transaction identifier; a retransmission keeps it.
        if lease.renew_at.is_some_and(|at| self.requested_at < at) {
            self.transaction = cx.rng.next_u32();
            self.began_at = cx.now;
        }
        let message = self.message(Kind::Request, lease.address, Options::default(), cx);
        let is_rebinding = lease.rebind_at.is_some_and(|at| at <= cx.now);
        let destination = if is_rebinding { Ipv4Addr::BROADCAST } else { lease.server };
        self.enqueue(&message, lease.address, destination);
        self.requested_at = cx.now;
        // RFC 2131 §4.4.5: retry after half of the remaining time, but after at least one minute.
        let end = if is_rebinding { lease.expires_at } else { lease.rebind_at };
        let remaining = end.map_or(Duration::ZERO, |end| end.since(cx.now));
        let due = cx.now + (remaining / 2).max(RENEW_RETRY_INTERVAL_MIN);
        self.state = if is_rebinding {
            State::Rebinding { lease, due }
        } else {
            State::Renewing { lease, due }
        };
    }

    fn message(&self, kind: Kind, client: Ipv4Addr, mut options: Options, cx: &Cx<'_>) -> Message {
        options.client_id = [&[1][..], &self.settings.mac.octets()].concat();
        if matches!(kind, Kind::Discover | Kind::Request) {
            options.host_name.clone_from(&self.settings.host_name);
        }
        let elapsed = cx.now.since(self.began_at).as_secs();
        Message {
            op: Op::Request,
            kind,
            transaction: self.transaction,
            elapsed_s: u16::try_from(elapsed).unwrap_or(u16::MAX),
            is_broadcast: client.is_unspecified() && kind != Kind::Decline,
            client,
            your_address: Ipv4Addr::UNSPECIFIED,
            relay: Ipv4Addr::UNSPECIFIED,
            mac: self.settings.mac,
            options,
        }
    }

    fn enqueue(&mut self, message: &Message, source: Ipv4Addr, destination: Ipv4Addr) {
        if self.pending.len() >= PENDING_MESSAGES_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back(Outgoing { source, destination, payload: message.emit() });
    }

    fn push_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            cx.meter.count(Counter::NeighborEventsDropped);
        }
    }
}

fn count_retransmission(sent: u32, cx: &mut Cx<'_>) {
    if sent > 0 {
        cx.meter.count(Counter::DhcpRetransmissions);
    }
}

/// Returns the time of the next retransmission after `sent` messages (RFC 2131 §4.1).
fn retry_at(sent: u32, cx: &mut Cx<'_>) -> Instant {
    let one_second = Duration::from_secs(1);
    let wait = INITIAL_RETRY_INTERVAL * 2_u32.pow(sent.min(RETRY_DOUBLINGS_MAX)) - one_second;
    cx.now + wait + Duration::from_nanos(cx.rng.below(nanos(one_second * 2)))
}

fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// Returns the classful prefix length of an address, for networks without a mask (RFC 791 §3.2).
fn natural_prefix_len(address: Ipv4Addr) -> u8 {
    match address.octets() {
        [..=127, ..] => 8,
        [128..=191, ..] => 16,
        _ => 24,
    }
}

/// Returns the prefix length of the network of `address`, from the subnet mask of the server. If
/// the mask is missing, or so short that much of the Internet would appear to be on the link, the
/// result is the classful prefix length.
fn prefix_len(address: Ipv4Addr, options: &Options) -> u8 {
    let prefix_len = options.prefix_len.filter(|len| *len >= PREFIX_LEN_MIN);
    prefix_len.unwrap_or_else(|| natural_prefix_len(address))
}

/// Returns whether a server can assign `address`. It must be a host address, but neither the first
/// nor the last address of its network: the first denotes the network itself, and the last one all
/// of its hosts (RFC 1122 §3.2.1.3).
fn is_assignable(address: Ipv4Addr, options: &Options) -> bool {
    is_host(address) && is_host_within(address, prefix_len(address, options))
}

/// Returns whether the host part of `address` denotes a single host. Prefixes of 31 and 32 bits
/// have no special addresses (RFC 3021).
fn is_host_within(address: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
    let host = address.to_bits() & hosts;
    hosts <= 1 || (host != 0 && host != hosts)
}

/// Returns whether the host with `address` can use `router`: another host of the same network. With
/// a prefix of 32 bits the router may have any host address.
fn is_router_for(router: Ipv4Addr, address: Ipv4Addr, prefix_len: u8) -> bool {
    let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
    let is_on_link = (router.to_bits() ^ address.to_bits()) & !hosts == 0;
    let is_other = router != address && is_host(router);
    is_other && (hosts == 0 || (is_on_link && is_host_within(router, prefix_len)))
}

/// Returns whether `address` can be the address of a single host.
fn is_host(address: Ipv4Addr) -> bool {
    !matches!(address.octets(), [0 | 127 | 224..=255, ..])
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
