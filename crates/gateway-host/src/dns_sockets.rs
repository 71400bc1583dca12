//! The host's sockets of DNS queries: a new one with a random port for each attempt.

use crate::poll::{Poll, Source};
use crate::resolv_conf;
use gateway::Guest;
use gateway::dns::{Event, QueryId};
use net::time::Duration;
use net::{Cx, Instant};
use os::datagram::{DatagramSocket, Inbox};
use os::outbound::Outbound;
use rustix::event::epoll::EventFlags;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task;

/// Time between two looks at the file with the resolvers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The sockets of the DNS queries of one guest.
#[derive(Debug, Default)]
pub(crate) struct DnsSockets {
    sockets: Vec<Option<(QueryId, DatagramSocket)>>,
    checked_at: Option<Instant>,
    version: Option<resolv_conf::Version>,
    follows_file: bool,
}

impl DnsSockets {
    /// Creates the sockets of a guest. `follows_file` means that the resolvers are always those of
    /// /etc/resolv.conf.
    pub(crate) fn new(follows_file: bool) -> Self {
        Self { follows_file, ..Self::default() }
    }

    /// Carries out an action of the forwarder.
    pub(crate) fn execute(
        &mut self,
        guest: &mut Guest,
        (number, event): (usize, Event),
        [outbound4, outbound6]: [&Outbound; 2],
        poll: &Poll,
        cx: &mut Cx<'_>,
    ) {
        match event {
            Event::Ask { query, server, payload } => {
                let outbound = if server.is_ipv4() { outbound4 } else { outbound6 };
                if self.ask((number, query), server, &payload, (outbound, poll)).is_err() {
                    guest.change_dns(|dns, cx| dns.unreachable(query, cx), cx);
                }
            }
            Event::Close { query } => {
                for slot in &mut self.sockets {
                    if slot.as_ref().is_some_and(|(known, _)| *known == query) {
                        *slot = None;
                    }
                }
            }
        }
    }

    /// Reads the resolvers again if their file has changed. The driver calls this before it reads the
    /// queries of the guest: a forwarder without resolvers asks for nothing, and would never learn of
    /// the first one.
    pub(crate) fn check_resolvers(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) {
        let is_recent = self.checked_at.is_some_and(|at| cx.now - at < CHECK_INTERVAL);
        if !self.follows_file || is_recent {
            return;
        }
        self.checked_at = Some(cx.now);
        let version = resolv_conf::version();
        // The first check reads the file too, which may have changed since the guest was created.
        if std::mem::replace(&mut self.version, version) != version {
            guest.change_dns(|dns, cx| dns.set_resolvers(resolv_conf::read(), cx), cx);
        }
    }

    fn ask(
        &mut self,
        (number, query): (usize, QueryId),
        server: SocketAddr,
        payload: &[u8],
        (outbound, poll): (&Outbound, &Poll),
    ) -> io::Result<()> {
        let any = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let local = SocketAddr::new(outbound.address.unwrap_or(any), 0);
        let socket = DatagramSocket::bind_to(local, outbound)?;
        let index = self.sockets.iter().position(Option::is_none).unwrap_or_else(|| {
            self.sockets.push(None);
            self.sockets.len() - 1
        });
        poll.add(&socket, Source::Dns(number, index), EventFlags::IN)?;
        let task::Poll::Ready(Ok(_)) = socket.send(payload, &[payload.len()], server) else {
            return Err(io::ErrorKind::HostUnreachable.into());
        };
        if let Some(slot) = self.sockets.get_mut(index) {
            *slot = Some((query, socket));
        }
        Ok(())
    }

    /// Passes the datagrams that a socket has received to the forwarder.
    pub(crate) fn receive(
        &self,
        guest: &mut Guest,
        index: usize,
        inbox: &mut Inbox,
        cx: &mut Cx<'_>,
    ) {
        let Some(Some((query, socket))) = self.sockets.get(index) else { return };
        let mut is_unreachable = false;
        while socket.datagram_error().is_some() {
            is_unreachable = true;
        }
        if is_unreachable {
            guest.change_dns(|dns, cx| dns.unreachable(*query, cx), cx);
        }
        let task::Poll::Ready(Ok(_)) = socket.receive(inbox) else { return };
        for received in inbox.datagrams() {
            let receive = |dns: &mut gateway::dns::Forwarder, cx: &mut Cx<'_>| {
                dns.receive(*query, received.from, received.data, cx);
            };
            guest.change_dns(receive, cx);
        }
    }
}
