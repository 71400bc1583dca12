//! Fast Open (RFC 7413): a SYN may carry data if the client has proven its address in an earlier
//! connection.
//!
//! The proof is a cookie: a keyed hash of both addresses. When a client requests a cookie in its
//! SYN, the server returns it in the answer, and the client stores it. A SYN with a valid cookie is
//! considered genuine, and its data is delivered to the application before the end of the
//! handshake. The number of half-open connections with data is limited per listener (§5.1). Beyond
//! the limit a SYN is treated as if it had no cookie. Fast Open is off unless a profile enables it.

use super::arrives::Arrival;
use super::connection::Connection;
use super::header::{Flags, Header};
use super::keyed_hash::Key;
use super::lifecycle::State;
use super::status::Event;
use crate::cx::Cx;
use crate::meter::Counter;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::IpAddr;

/// Maximum number of half-open connections with data per listener.
pub(super) const PENDING_MAX: usize = 16;
/// Maximum number of servers whose cookies a client stores.
const STORED_COOKIES_MAX: usize = 64;
/// Bytes of a SYN reserved for options and not available for data.
const SYN_OPTIONS_MAX: u16 = 40;
/// Length of the cookies issued here, in bytes.
const COOKIE_LEN: u8 = 8;
const COOKIE_LEN_MAX: usize = 16;

/// A cookie: an even number of bytes from 4 to 16 (RFC 7413 §4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    bytes: [u8; COOKIE_LEN_MAX],
    len: u8,
}

impl Cookie {
    /// Parses the cookie of an option. Returns `None` if the length is not allowed.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let is_valid = (4..=COOKIE_LEN_MAX).contains(&bytes.len()) && bytes.len().is_multiple_of(2);
        let len = u8::try_from(bytes.len()).ok().filter(|_| is_valid)?;
        let mut cookie = Self { bytes: [0; COOKIE_LEN_MAX], len };
        cookie.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(cookie)
    }

    /// Returns the bytes of the cookie.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// The Fast Open option of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastOpen {
    /// The client has no cookie and requests one.
    Request,
    /// A cookie: from the client as its proof, from the server as the answer to a request.
    Cookie(Cookie),
}

impl FastOpen {
    /// Returns the bytes of the cookie; empty for a request.
    pub(super) fn cookie_bytes(&self) -> &[u8] {
        match self {
            Self::Request => &[],
            Self::Cookie(cookie) => cookie.bytes(),
        }
    }

    /// Returns the number of bytes that pad the option to whole 32-bit words.
    pub(super) fn padding(&self) -> usize {
        (2 + self.cookie_bytes().len()).next_multiple_of(4) - 2 - self.cookie_bytes().len()
    }
}

/// State of Fast Open of a connection, until the connection is established.
#[derive(Debug, Default)]
pub(super) struct ConnectionHandshake(Option<Box<Handshake>>);

/// State of Fast Open of a connection that is being opened.
#[derive(Debug)]
struct Handshake {
    /// The option of the local SYN.
    offer: FastOpen,
    /// Maximum number of data bytes on the local SYN.
    data_max: u32,
    /// The cookie in the peer's answer.
    granted_cookie: Option<Cookie>,
    /// Whether the local SYN with the cookie was not answered in time.
    is_lost: bool,
}

impl Connection {
    /// Adds the option to the local SYN. The SYN may contain `data_max` data bytes.
    pub(super) fn offer_fast_open(&mut self, offer: FastOpen, data_max: u32) {
        let handshake = Handshake { offer, data_max, granted_cookie: None, is_lost: false };
        self.fast_open.0 = Some(Box::new(handshake));
    }

    /// Returns the option of the local SYN. A client sends it only once, because a middlebox may
    /// drop SYNs with the option.
    pub(super) fn fast_open_option(&self) -> Option<FastOpen> {
        let is_due = self.state() == State::SynReceived || self.snd.max() == self.snd.iss();
        self.fast_open.0.as_ref().filter(|_| is_due).map(|handshake| handshake.offer)
    }

    /// Returns the number of data bytes on the local SYN.
    pub(super) fn syn_data_len(&self) -> u32 {
        if self.state() != State::SynSent || self.snd.max() != self.snd.iss() {
            return 0;
        }
        let handshake = self.fast_open.0.as_ref();
        self.snd.buffered_len().min(handshake.map_or(0, |handshake| handshake.data_max))
    }

    /// Processes the answer to the local SYN: its Fast Open option, and the amount of data that it
    /// acknowledges.
    pub(super) fn process_syn_answer(&mut self, answer: &Header) {
        if let (Some(handshake), Some(FastOpen::Cookie(cookie))) =
            (&mut self.fast_open.0, answer.options.fast_open)
        {
            handshake.granted_cookie = Some(cookie);
        }
        let acknowledged_len = self.snd.acknowledge_syn_sent(answer.ack);
        self.statistics.count_bytes_acknowledged(acknowledged_len);
    }

    /// Removes and returns the cookie that the peer has sent, with the peer's segment size.
    pub(super) fn take_fast_open_cookie(&mut self) -> Option<(Cookie, u16)> {
        let granted_cookie = self.fast_open.0.as_mut()?.granted_cookie.take()?;
        self.fast_open.0 = None;
        Some((granted_cookie, u16::try_from(self.snd.mss()).unwrap_or(u16::MAX)))
    }

    /// Records that the SYN has to be retransmitted.
    pub(super) fn syn_timed_out(&mut self) {
        if self.state() == State::SynSent
            && let Some(handshake) = &mut self.fast_open.0
        {
            handshake.is_lost = handshake.offer != FastOpen::Request;
        }
    }

    /// Returns whether a SYN with a cookie was not answered in time.
    pub(super) fn lost_early_data(&mut self) -> bool {
        self.fast_open.0.as_mut().is_some_and(|handshake| core::mem::take(&mut handshake.is_lost))
    }

    /// Delivers the data of a SYN with a valid cookie to the application immediately.
    pub(super) fn open_early(&mut self, syn: &Arrival<'_>, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::TcpFastOpensIn);
        self.lifecycle.accept_early_data();
        self.reports.push(Event::Established);
        let mut rest = Arrival { may_keep: false, kept: None, ..*syn };
        rest.header.seq = syn.header.seq + 1;
        rest.header.flags = syn.header.flags.without(Flags::SYN);
        let _ = self.process_text(&mut rest, cx);
    }
}

/// The server's part of Fast Open: the key with which cookies are computed and checked.
#[derive(Clone, Debug)]
pub(super) struct Server {
    key: Key,
}

impl Server {
    pub(super) fn new(key: Key) -> Self {
        Self { key }
    }

    /// Returns the cookie of the host at `client` for the local address `local`.
    pub(super) fn cookie(&self, local: IpAddr, client: IpAddr) -> Cookie {
        let hash = self.key.hash(0).address(local).address(client).finish().to_be_bytes();
        let mut bytes = [0; COOKIE_LEN_MAX];
        bytes.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Cookie { bytes, len: COOKIE_LEN }
    }
}

/// The cookies that a client stores, the most recently used last.
#[derive(Debug, Default)]
pub(super) struct Client {
    servers: VecDeque<ServerEntry>,
}

/// The data stored for one server (RFC 7413 §4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ServerEntry {
    server: IpAddr,
    cookie: Cookie,
    /// Segment size for the data on a SYN.
    mss: u16,
}

impl Client {
    /// Stores the cookie of `server`. In a full table it replaces the least recently used cookie.
    pub(super) fn keep(&mut self, server: IpAddr, cookie: Cookie, mss: u16) {
        self.forget(server);
        if self.servers.len() == STORED_COOKIES_MAX {
            self.servers.pop_front();
        }
        self.servers.push_back(ServerEntry { server, cookie, mss });
    }

    /// Returns the option to send to `server`, and the maximum number of data bytes on the SYN.
    pub(super) fn offer_to(&mut self, server: IpAddr) -> (FastOpen, u32) {
        match self.find(server) {
            Some(entry) => {
                let data_max = entry.mss.saturating_sub(SYN_OPTIONS_MAX);
                (FastOpen::Cookie(entry.cookie), u32::from(data_max))
            }
            None => (FastOpen::Request, 0),
        }
    }

    /// Returns the entry of `server`.
    fn find(&mut self, server: IpAddr) -> Option<ServerEntry> {
        let index = self.servers.iter().position(|entry| entry.server == server)?;
        let entry = self.servers.remove(index)?;
        self.servers.push_back(entry);
        Some(entry)
    }

    /// Deletes a cookie, because the SYN with it was lost. A middlebox may drop such SYNs.
    pub(super) fn forget(&mut self, server: IpAddr) {
        self.servers.retain(|entry| entry.server != server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use core::net::{Ipv4Addr, Ipv6Addr};

    fn host(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + number))
    }

    #[test]
    fn a_cookie_is_valid_for_one_pair_of_addresses() {
        let with_key = |seed| Server::new(Key::draw(&mut Rng::from_seed(seed)));
        let server = with_key(1);
        let cookie = server.cookie(host(1), host(2));
        assert_eq!(cookie, server.cookie(host(1), host(2)));
        assert_ne!(cookie, server.cookie(host(1), host(3)));
        assert_ne!(cookie, server.cookie(host(3), host(2)));
        assert_ne!(cookie, with_key(2).cookie(host(1), host(2)));
        assert_eq!(cookie.bytes().len(), 8);
    }

    #[test]
    fn a_cookie_has_4_to_16_bytes_in_pairs() {
        let valid_lens = (0..40).filter(|len| Cookie::new(&[7; 40][..*len]).is_some());
        assert!(valid_lens.eq([4, 6, 8, 10, 12, 14, 16]));
    }

    #[test]
    fn the_least_recently_used_of_more_than_64_cookies_is_evicted() {
        let mut client = Client::default();
        let cookie = Cookie::new(&[1; 8]).unwrap();
        for number in 0..64 {
            client.keep(host(number), cookie, 1460);
        }
        assert!(client.find(host(0)).is_some());
        client.keep(IpAddr::V6(Ipv6Addr::LOCALHOST), cookie, 1440);
        assert_eq!(client.servers.len(), STORED_COOKIES_MAX);
        assert!(client.find(host(0)).is_some() && client.find(host(1)).is_none());
        client.forget(host(0));
        assert!(client.find(host(0)).is_none());
    }
}
