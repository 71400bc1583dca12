//! OPEN, active (RFC 9293 §3.10.1), and the creation of connections.

use super::Tcp;
use super::connection::{Connection, Start};
use super::connection_id::ConnectionId;
use super::endpoints::Endpoints;
use super::lifecycle::State;
use super::listen::{self, LocalEnd};
use super::path_search::WITHOUT_PATH_MTU_MAX;
use super::profile::Profile;
use super::status::CloseReason;
use super::table::AddressPair;
use crate::cx::Cx;
use crate::meter::Counter;
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};

/// Reasons why a connection cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The remote address is not a unicast address (MUST-46), or the remote port is 0.
    BadRemote,
    /// The station has reached its limit of connections.
    TooMany,
    /// No local port is free for this remote end.
    NoPort,
}

impl Tcp {
    /// OPEN, active: a SYN is sent at the next output.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(
        &mut self,
        local: IpAddr,
        remote: SocketAddr,
        profile: Profile,
        cx: &mut Cx<'_>,
    ) -> Result<ConnectionId, OpenError> {
        if !is_unicast(remote.ip()) || remote.port() == 0 || local.is_ipv4() != remote.is_ipv4() {
            return Err(OpenError::BadRemote);
        }
        let local = self.free_end(local, remote, cx).ok_or(OpenError::NoPort)?;
        self.open_between((local, remote), profile, cx)
    }

    /// OPEN, active, from a given local port. A gateway uses it to keep the source of a forwarded
    /// connection.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. A connection between the same ends is [`OpenError::NoPort`].
    pub fn open_at(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        profile: Profile,
        cx: &mut Cx<'_>,
    ) -> Result<ConnectionId, OpenError> {
        if !is_unicast(remote.ip()) || remote.port() == 0 || local.is_ipv4() != remote.is_ipv4() {
            return Err(OpenError::BadRemote);
        }
        if local.port() == 0 || self.table.holds((local, remote)) {
            return Err(OpenError::NoPort);
        }
        self.open_between((local, remote), profile, cx)
    }

    fn open_between(
        &mut self,
        (local, remote): AddressPair,
        profile: Profile,
        cx: &mut Cx<'_>,
    ) -> Result<ConnectionId, OpenError> {
        let mut connection = self
            .make((local, remote), Arc::new(profile), State::SynSent, cx)
            .ok_or(OpenError::TooMany)?;
        if profile.fast_open {
            let (offer, data_max) = self.fast_open_client.offer_to(remote.ip());
            connection.offer_fast_open(offer, data_max);
        }
        let id = self.insert(connection, None).ok_or(OpenError::TooMany)?;
        cx.meter.count(Counter::TcpActiveOpens);
        self.reschedule(id);
        Ok(id)
    }

    /// Selects a free local port (RFC 6056).
    fn free_end(
        &mut self,
        local: IpAddr,
        remote: SocketAddr,
        cx: &mut Cx<'_>,
    ) -> Option<SocketAddr> {
        let Self { ports, port_share, table, listeners, .. } = self;
        let port = ports.choose(local, remote, cx.rng, |port| {
            let end = SocketAddr::new(local, port);
            let is_taken = table.holds((end, remote));
            port_share.has(port) && !is_taken && !listen::is_listened_on(listeners, port)
        });
        port.map(|port| SocketAddr::new(local, port))
    }

    /// Adds a connection with new initial sequence numbers.
    pub(super) fn make(
        &mut self,
        (local, remote): AddressPair,
        profile: Arc<Profile>,
        state: State,
        cx: &mut Cx<'_>,
    ) -> Option<Connection> {
        if self.table.is_full() {
            self.evict_starved(cx);
        }
        if self.table.is_full() {
            cx.meter.count(Counter::TcpOpensRefused);
            return None;
        }
        let start = Start {
            iss: self.secret.isn(local, remote, cx.now),
            ts_offset: self.secret.timestamp_offset(local, remote),
            now: cx.now,
        };
        let ends = Endpoints::new((local, remote), self.lower.mss_to(remote.ip()));
        let mut connection = Connection::new(ends, profile, start, state);
        connection.expect_to_leave(cx.now);
        Some(connection)
    }

    pub(super) fn insert(
        &mut self,
        connection: Connection,
        half_open_on: Option<LocalEnd>,
    ) -> Option<ConnectionId> {
        let id = self.table.insert(connection, half_open_on)?;
        // If the queue is full, the connection learns its path MTU when its first segment is too
        // long.
        if self.without_path_mtu.len() < WITHOUT_PATH_MTU_MAX {
            self.without_path_mtu.push_back(id);
        }
        Some(id)
    }

    /// Evicts the oldest connection in TIME-WAIT, or else the one whose peer has had a zero window
    /// for the longest time (RFC 6429 §3, row 34 of the attack table).
    fn evict_starved(&mut self, cx: &mut Cx<'_>) {
        if let Some(oldest) = self.table.oldest_in_time_wait() {
            return self.end_silently(oldest);
        }
        let Some(starved) = self.table.longest_starved(cx.now) else { return };
        let Ok(connection) = self.table.get_mut(starved) else { return };
        cx.meter.count(Counter::TcpReaped);
        let reset = connection.abort(cx.now);
        connection.reports.replace_close_reason(CloseReason::TimedOut);
        if let Some(reset) = reset {
            self.queue_reset(reset, cx);
        }
        self.reschedule(starved);
    }
}

/// Returns whether `address` may be an end of a connection: a unicast address (MUST-46, MUST-57).
fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || is_broadcast)
}
