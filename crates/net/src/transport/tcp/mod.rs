//! TCP (RFC 9293).
//!
//! # Theory of operation
//!
//! A [`Tcp`] holds all connections of a station. Its inputs are received segments
//! ([`Tcp::receive`]), the user calls of RFC 9293 §3.10, and the time ([`Tcp::timeout`]). They only
//! change the state of a connection, and add it to the list of connections with output.
//! [`Tcp::transmit`] then creates the segments of these connections. The application runs before
//! that, so its answer, the acknowledgment and the window are sent in one segment (TM-233 §3.3).
//!
//! The files follow the sections of the RFC: `calls.rs` §3.10.1 to §3.10.6, `arrives.rs` §3.10.7,
//! `listen.rs` its LISTEN, `timeouts.rs` §3.10.8, `keep_alive.rs` §3.8.4, `user_timeout.rs` §3.8.3,
//! and `icmp_error.rs` §3.9.2.2. `path_search.rs` determines the length of segments,
//! `receive_tuning.rs` the size of the buffers, and `transmit.rs` the next segment.
//! `sack_report.rs` reports early and repeated data. `connection.rs` is the transmission control
//! block. [`Profile`] contains the policies of a connection.
//!
//! Loss detection and congestion control are in `recovery.rs`. Their state is allocated when the
//! first data is sent, and does not depend on the rest of a connection.
//!
//! Data received in order is copied at most once, from the segment into the receive buffer. A long
//! segment stays in its packet. Sent data is copied from the send buffer into the packet, unless
//! the device gathers it.
//!
//! Not implemented: security and compartment, source routes.

mod acknowledgments;
mod arrives;
mod bbr;
mod calls;
mod congestion_window;
mod connection;
mod cubic;
mod fast_open;
pub mod flight;
pub mod header;
mod hystart;
mod icmp_error;
mod idle_state;
mod isn;
mod keep_alive;
mod keyed_hash;
mod limited_time;
mod listen;
mod loss_recovery;
mod lower_level;
mod negotiated_options;
mod newreno;
mod pacing;
mod path_search;
mod ports;
mod profile;
mod prr;
mod rack;
mod ranges;
mod receive_buffer;
mod receive_tuning;
mod receive_variables;
mod recovery;
mod rtt;
mod sack;
mod sack_report;
mod send_buffer;
mod send_variables;
mod sent_segments;
pub mod seq;
mod settings;
mod sharing;
mod status;
mod syn_cookie;
mod table;
#[cfg(test)]
mod tests;
mod time_wait;
mod timeouts;
mod timers;
mod transmit;
mod user_timeout;

pub use connection::State;
pub use fast_open::{Cookie, FastOpen};
pub use keep_alive::KeepAlive;
pub use limited_time::LimitTimes;
pub use lower_level::{LowerLevel, Segment, Tail};
pub use profile::{
    Acknowledgment, BlackHoleDetection, Congestion, Marking, Profile, ReceiveWindow,
    Retransmission, SendLimit, WindowUpdate,
};
pub use recovery::Phase;
pub use sack::{Block, Blocks};
pub use status::{CloseReason, Event, RecoveryStatus, Statistics, Status};
pub use user_timeout::UserTimeout;

use crate::cx::Cx;
use crate::internet;
use crate::meter::{Account, Counter, Work};
use crate::mutants::{Mutant, is_enabled};
use crate::packet::{ChecksumState, Packet, Pool};
use crate::time::Instant;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use arrives::{Answer, Arrival};
use connection::{Connection, Endpoints, Start};
use core::net::{IpAddr, SocketAddr};
use header::{Flags, Header, Options};
use isn::{Purpose, Secret};
use listen::{CookieAnswer, Listener, LocalEnd};
use path_search::WITHOUT_PATH_MTU_MAX;
use ports::Ports;
use seq::Seq;
use settings::SUSPECTS_MAX;
use syn_cookie::SynCookies;
use table::{AddressPair, Table};
use transmit::Outgoing;

/// Mask of the ECN bits of a datagram. The same value reports congestion (RFC 3168 §5).
const ECN: u8 = 0b11;
const CONGESTION_EXPERIENCED: u8 = 0b11;
/// Maximum number of resets queued for output.
const MAX_PENDING_RESETS: usize = 16;
/// Default maximum number of connections of a station.
const CONNECTIONS_MAX: usize = 1024;
/// Default maximum number of bytes by which all buffers together may grow.
const GROWTH_MAX: usize = 256 << 20;

/// Identifies a connection. An identifier is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    slot: u32,
    generation: u32,
}

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

/// Reasons why a listener cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Another listener has the same local end.
    InUse,
}

/// The connection no longer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoConnection;

/// A queued reset that belongs to no connection.
#[derive(Clone, Copy, Debug)]
struct Reset {
    local: SocketAddr,
    remote: SocketAddr,
    seq: Seq,
    /// Acknowledgment number; `None` if the answered segment had one itself.
    ack: Option<Seq>,
    /// The options of the reset connection. RFC 7323 §3.2 allows them.
    options: Options,
}

/// All connections of one station.
#[derive(Debug)]
pub struct Tcp {
    secret: Secret,
    lower: LowerLevel,
    table: Table,
    listeners: BTreeMap<LocalEnd, Listener>,
    ports: Ports,
    port_share: sharing::PortShare,
    syn_cookies: SynCookies,
    fast_open: fast_open::Server,
    fast_open_client: fast_open::Client,
    resets: VecDeque<Reset>,
    pending_cookies: VecDeque<CookieAnswer>,
    /// Destinations that do not answer. They are reported to the layer below.
    suspect_destinations: VecDeque<IpAddr>,
    /// The peer that last acknowledged data. It is reported to the layer below.
    progress: Option<IpAddr>,
    /// New connections whose path MTU is not known yet.
    without_path_mtu: VecDeque<ConnectionId>,
    /// Maximum number of bytes by which all buffers together may grow beyond their initial sizes.
    growth_max: usize,
}

impl Tcp {
    /// Returns a TCP layer without connections. `lower` describes the lower level.
    #[must_use]
    pub fn new(lower: LowerLevel, cx: &mut Cx<'_>) -> Self {
        let secret = Secret::draw(cx.rng);
        let table = Table::new(CONNECTIONS_MAX, secret.key_for(Purpose::Table).words());
        Self {
            ports: Ports::new(secret.key_for(Purpose::Ports)),
            port_share: sharing::PortShare::ALL,
            syn_cookies: SynCookies::new(secret.key_for(Purpose::SynCookies)),
            fast_open: fast_open::Server::new(secret.key_for(Purpose::FastOpen)),
            fast_open_client: fast_open::Client::default(),
            secret,
            lower,
            table,
            listeners: BTreeMap::new(),
            resets: VecDeque::new(),
            pending_cookies: VecDeque::new(),
            suspect_destinations: VecDeque::new(),
            progress: None,
            without_path_mtu: VecDeque::new(),
            growth_max: GROWTH_MAX,
        }
    }

    /// Advances the clock of the initial sequence numbers by `ticks`.
    pub fn advance_isn_clock(&mut self, ticks: u32) {
        self.secret.clock_start = self.secret.clock_start.wrapping_add(ticks);
    }

    /// Sets the maximum number of connections, in any state.
    pub fn set_connections_max(&mut self, connections_max: usize) {
        self.table.set_connections_max(connections_max);
    }

    /// Sets the maximum number of bytes by which the buffers of all connections together may grow
    /// beyond their initial sizes. Buffers that have already grown keep their size.
    pub fn set_growth_max(&mut self, growth_max: usize) {
        self.growth_max = growth_max;
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
        connection.close_reason = Some(CloseReason::TimedOut);
        if let Some(reset) = reset {
            self.queue_reset(reset, cx);
        }
        self.reschedule(starved);
    }

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
    fn make(
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
        let link_mss = self.lower.mss_to(remote.ip());
        let ends = Endpoints { local, remote, link_mss, path_mss: u16::MAX };
        let mut connection = Connection::new(ends, profile, start, state);
        connection.expect_to_leave(cx.now);
        Some(connection)
    }

    fn insert(
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

    /// Ends a connection without a segment to the peer. The answer to the peer's next segment
    /// informs the peer.
    fn end_silently(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.table.get_mut(id) {
            connection.end(CloseReason::Aborted);
            self.reschedule(id);
        }
    }

    /// SEND: queues as much of `data` as there is space for, and returns the number of queued
    /// bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn send(&mut self, id: ConnectionId, data: &[u8]) -> Result<usize, NoConnection> {
        let queued_len = self.table.get_mut(id)?.send(data);
        self.reschedule(id);
        Ok(queued_len)
    }

    /// SEND of shared data: queues as many bytes of `data` from `start` on as there is space for,
    /// and returns their number. Large pieces are sent without a copy. The user must not change
    /// them before the peer has acknowledged them.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn send_shared(
        &mut self,
        id: ConnectionId,
        data: &Arc<[u8]>,
        start: usize,
    ) -> Result<usize, NoConnection> {
        let queued_len = self.table.get_mut(id)?.share(data, start);
        self.reschedule(id);
        Ok(queued_len)
    }

    /// SEND with the urgent flag: all queued data, including `data`, becomes urgent (RFC 6093).
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn send_urgent(&mut self, id: ConnectionId, data: &[u8]) -> Result<usize, NoConnection> {
        let queued_len = self.table.get_mut(id)?.send_urgent(data);
        self.reschedule(id);
        Ok(queued_len)
    }

    /// RECEIVE: returns the first contiguous readable bytes; more may follow them.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn received(&self, id: ConnectionId) -> Result<&[u8], NoConnection> {
        Ok(self.table.get(id)?.rcv.buffer().data())
    }

    /// RECEIVE with lookahead: returns contiguous readable bytes that begin `offset` bytes after
    /// the next unread byte. The result is empty after the last readable byte.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn received_from(&self, id: ConnectionId, offset: usize) -> Result<&[u8], NoConnection> {
        Ok(self.table.get(id)?.rcv.buffer().data_from(offset))
    }

    /// RECEIVE: removes `count` bytes that the user has read.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn consume(&mut self, id: ConnectionId, count: usize) -> Result<(), NoConnection> {
        self.table.consume(id, count)?;
        self.reschedule(id);
        Ok(())
    }

    /// Acknowledges the received data at the next output, even if the profile specifies a delay.
    /// The peer may be waiting for the acknowledgment (Nagle's algorithm, RFC 9293 §3.7.4).
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn acknowledge(&mut self, id: ConnectionId) -> Result<(), NoConnection> {
        if self.table.get_mut(id)?.acks.expedite() {
            self.reschedule(id);
        }
        Ok(())
    }

    /// Returns the number of bytes from the next unread byte to the end of the urgent data.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn urgent_ahead(&self, id: ConnectionId) -> Result<Option<usize>, NoConnection> {
        Ok(self.table.get(id)?.rcv.urgent_ahead())
    }

    /// CLOSE: a FIN is sent after the queued data. Receiving continues.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn close(&mut self, id: ConnectionId) -> Result<(), NoConnection> {
        self.table.get_mut(id)?.close();
        self.reschedule(id);
        Ok(())
    }

    /// ABORT: ends the connection and sends a reset to the peer.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn abort(&mut self, id: ConnectionId, cx: &mut Cx<'_>) -> Result<(), NoConnection> {
        let reset = self.table.get_mut(id)?.abort(cx.now);
        if let Some(reset) = reset {
            self.queue_reset(reset, cx);
        }
        self.reschedule(id);
        Ok(())
    }

    /// STATUS: returns the state of a connection.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn status(&self, id: ConnectionId) -> Result<Status, NoConnection> {
        Ok(self.table.get(id)?.status())
    }

    /// Replaces the policies of a connection, except the options negotiated with the peer.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn set_profile(&mut self, id: ConnectionId, profile: Profile) -> Result<(), NoConnection> {
        self.table.change(id, |connection| connection.set_profile(profile))?;
        self.reschedule(id);
        Ok(())
    }

    /// STATUS of every connection, in unspecified order.
    pub fn statuses(&self) -> impl Iterator<Item = Status> {
        self.table.connections().map(Connection::status)
    }

    /// Releases the connection: closes it if it is open, and deletes it once it has ended.
    ///
    /// If received data was not read, or more data arrives, the peer gets a reset (RFC 9293 §3.6.1,
    /// SHLD-3). If the peer does not close its side or open its window, the connection ends after a
    /// minute.
    pub fn release(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.table.get_mut(id) {
            connection.release();
            self.table.release(id);
            self.reschedule(id);
        }
    }

    /// Returns the number of connections, in any state.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    fn reschedule(&mut self, id: ConnectionId) {
        if let Some(place) = self.table.reschedule(id) {
            self.leave_backlog(place, id);
        }
    }

    /// Returns when [`Self::timeout`] has to be called. The time may be earlier than the next
    /// timer.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.table.deadline()
    }

    /// Processes the timers that are due. Returns false if none was due, because [`Self::deadline`]
    /// may be early.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut was_due = false;
        while let Some((id, connection)) = self.table.next_due(cx.now) {
            was_due = true;
            connection.timeout(cx);
            if connection.lost_early_data() {
                self.fast_open_client.forget(connection.ends.remote.ip());
            }
            let suspect = connection.suspects_route.then(|| connection.ends.remote.ip());
            connection.suspects_route = false;
            let is_full = self.suspect_destinations.len() >= SUSPECTS_MAX;
            self.suspect_destinations.extend(suspect.filter(|_| !is_full));
            let reset = if connection.must_abort { connection.abort(cx.now) } else { None };
            if let Some(reset) = reset {
                self.queue_reset(reset, cx);
            }
            self.reschedule(id);
        }
        was_due
    }

    /// Returns the next event of any connection.
    pub fn event(&mut self) -> Option<(ConnectionId, Event)> {
        self.table.next_event()
    }

    /// Sets the length of the longest datagram, in bytes, for connections opened from now on.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.lower.mtu = mtu;
    }

    /// Processes a segment with the Internet header `lower`. Returns the packet, unless the data
    /// stays in the packet until the user reads it.
    ///
    /// `may_keep` allows the data to stay in the packet. Set it only if enough packets are free.
    pub fn receive(
        &mut self,
        lower: &internet::Header,
        mut packet: Packet,
        may_keep: bool,
        cx: &mut Cx<'_>,
    ) -> Option<Packet> {
        let segment = packet.data();
        let (caller, sum) = match packet.offload.checksum {
            ChecksumState::InPacket => {
                let caller = cx.meter.enter(Account::TcpByte);
                let sum = self.lower.sum(lower.source, lower.destination, segment);
                cx.meter.enter(Account::TcpFixed);
                (caller, sum)
            }
            ChecksumState::Verified | ChecksumState::Partial { .. } => {
                (cx.meter.enter(Account::TcpFixed), lower_level::GOOD)
            }
        };
        let parsed = Header::parse(segment, sum, cx.meter);
        cx.meter.count(Counter::TcpSegmentsIn);
        cx.meter.work(Work::Segment, 1);
        let kept = match parsed {
            Ok((header, len)) => {
                packet.pull(len);
                cx.meter.work(Work::SegmentByte, packet.len());
                let data = packet.data();
                let is_marked = lower.dscp_ecn & ECN == CONGESTION_EXPERIENCED;
                let growth_max = self.growth_max.saturating_sub(self.table.growth());
                let mut arrival =
                    Arrival { header, data, is_marked, may_keep, growth_max, kept: None };
                let id = self.segment_arrives(lower, &mut arrival, cx);
                id.zip(arrival.kept)
            }
            Err(error) => {
                let is_damaged = error == header::HeaderError::Checksum;
                let counter =
                    if is_damaged { Counter::TcpChecksumErrors } else { Counter::TcpHeaderErrors };
                cx.meter.count(counter);
                if is_enabled(Mutant::LeaksPacket) {
                    return None;
                }
                None
            }
        };
        cx.meter.enter(caller);
        let Some((id, (skip, len))) = kept else { return Some(packet) };
        let Ok(connection) = self.table.get_mut(id) else { return Some(packet) };
        packet.pull(skip);
        packet.resize(len);
        connection.rcv.keep(packet);
        None
    }

    fn segment_arrives(
        &mut self,
        lower: &internet::Header,
        arrival: &mut Arrival<'_>,
        cx: &mut Cx<'_>,
    ) -> Option<ConnectionId> {
        let local = SocketAddr::new(lower.destination, arrival.header.destination_port);
        let remote = SocketAddr::new(lower.source, arrival.header.source_port);
        let Some((id, connection)) = self.table.find((local, remote)) else {
            self.no_connection((local, remote), arrival, cx);
            return None;
        };
        if connection.state == State::TimeWait
            && self.replace_time_wait((local, remote), arrival, cx)
        {
            return None;
        }
        let arrives = |connection: &mut Connection| {
            let una = connection.snd.una();
            let answer = connection.segment_arrives(arrival, cx);
            (answer, connection.snd.una().is_after(una), connection.take_fast_open_cookie())
        };
        let (answer, has_advanced, granted_cookie) = self.table.change(id, arrives).ok()?;
        if has_advanced {
            self.progress = Some(remote.ip());
        }
        if let Some((cookie, mss)) = granted_cookie {
            self.fast_open_client.keep(remote.ip(), cookie, mss);
        }
        if answer == Answer::Reset {
            self.refuse((local, remote), arrival, cx);
        }
        self.reschedule(id);
        Some(id)
    }

    /// Answers a segment without a connection (RFC 9293 §3.5.2, group 1). A reset is never answered
    /// by a reset (row 46 of the attack table).
    fn refuse(&mut self, (local, remote): AddressPair, arrival: &Arrival<'_>, cx: &mut Cx<'_>) {
        let header = arrival.header;
        if header.flags.has(Flags::RST) {
            return;
        }
        let data = u32::try_from(arrival.data.len()).unwrap_or(u32::MAX);
        let controls = [Flags::SYN, Flags::FIN].iter().filter(|f| header.flags.has(**f)).count();
        let seg_len = data + u32::try_from(controls).unwrap_or(0);
        let (seq, ack) = if header.flags.has(Flags::ACK) {
            (header.ack, None)
        } else {
            (Seq(0), Some(header.seq + seg_len))
        };
        self.queue_reset(Reset { local, remote, seq, ack, options: Options::default() }, cx);
    }

    fn queue_reset(&mut self, reset: Reset, cx: &mut Cx<'_>) {
        if self.resets.len() < MAX_PENDING_RESETS {
            self.resets.push_back(reset);
        } else {
            cx.meter.count(Counter::TcpResetsSuppressed);
        }
    }

    /// Returns whether [`Self::transmit`] may return a segment, or return packets to the pool.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.table.has_output()
            || !self.resets.is_empty()
            || !self.pending_cookies.is_empty()
            || self.has_spent()
    }

    /// Returns whether [`Self::transmit`] returns packets to the pool, even if none is free.
    #[must_use]
    pub fn has_spent(&self) -> bool {
        !self.table.spent.is_empty()
    }

    /// Returns the next complete segment; call until `None`. Nothing is lost if no packet is free.
    pub fn transmit(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Segment> {
        let (mut segment, tail) = self.transmit_in_parts(pool, cx)?;
        if let Some(tail) = tail {
            let caller = cx.meter.enter(Account::TcpByte);
            self.lower.append(&mut segment, self.tail(&tail));
            cx.meter.work(Work::SegmentByte, tail.len as usize);
            cx.meter.enter(caller);
        }
        Some(segment)
    }

    /// Returns the next segment without its data. The data stays in the send buffer, and
    /// [`Self::tail`] returns it until the state of the connection changes.
    pub fn transmit_in_parts(
        &mut self,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<(Segment, Option<Tail>)> {
        self.return_spent_packets(pool);
        if !self.has_output() {
            return None;
        }
        let caller = cx.meter.enter(Account::TcpFixed);
        let segment = self.next_segment(pool, cx);
        if segment.is_some() {
            cx.meter.count(Counter::TcpSegmentsOut);
            cx.meter.work(Work::Segment, 1);
        }
        cx.meter.enter(caller);
        segment
    }

    /// Records that output has stopped before [`Self::transmit`] returned `None`, for example
    /// because the link is full. The timers of the connections that wait for output run even if
    /// output never resumes.
    pub fn output_stopped(&mut self) {
        self.table.output_stopped();
    }

    /// Returns the packets whose data was read to `pool`. Output does this too.
    pub(crate) fn return_spent_packets(&mut self, pool: &mut Pool) {
        self.table.spent.drain(..).for_each(|packet| pool.put(packet));
    }

    /// Returns whether [`Self::transmit_in_parts`] leaves data in the send buffer. The device that
    /// gathers the data then completes the checksum.
    #[must_use]
    pub fn leaves_data_in_place(&self) -> bool {
        self.lower.checksum_offload
    }

    /// Returns the data of a segment as two slices of the send buffer. The second one is usually
    /// empty.
    #[must_use]
    pub fn tail(&self, tail: &Tail) -> [&[u8]; 2] {
        let connection = self.table.get(tail.connection).ok();
        connection.map_or([&[], &[]], |connection| connection.snd.range(tail.offset, tail.len))
    }

    fn next_segment(
        &mut self,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<(Segment, Option<Tail>)> {
        let Some(packet) = pool.take(cx.meter) else {
            self.table.record_device_limit(cx.now);
            self.table.output_stopped();
            return None;
        };
        if let Some(reset) = self.resets.pop_front() {
            cx.meter.count(Counter::TcpResetsOut);
            return Some((reset.into_segment(packet, &self.lower), None));
        }
        if let Some(answer) = self.pending_cookies.pop_front() {
            return Some((answer.into_segment(packet, &self.lower), None));
        }
        let lower = &self.lower;
        let mut packet = Some(packet);
        let super_segment_max = lower.super_segment_max();
        let output = self.table.next_output(|connection| {
            let outgoing = connection.transmit(super_segment_max, cx)?;
            let ends = (connection.ends.local.ip(), connection.ends.remote.ip());
            let mut segment = lower.segment(&outgoing, ends, packet.take()?);
            connection.profile.marking.apply_to(&mut segment.lower);
            let is_output_complete = connection.has_sent_all(cx);
            Some(((segment, outgoing.offset, outgoing.len), is_output_complete))
        });
        let Some((id, (mut segment, offset, len))) = output else {
            packet.into_iter().for_each(|packet| pool.put(packet));
            return None;
        };
        segment.connection = Some(id);
        let tail = Tail { connection: id, offset, len };
        Some((segment, (len > 0).then_some(tail)))
    }
}

impl Reset {
    fn into_segment(self, packet: Packet, lower: &LowerLevel) -> Segment {
        let flags = if self.ack.is_some() { Flags::RST.with(Flags::ACK) } else { Flags::RST };
        let header = Header {
            source_port: self.local.port(),
            destination_port: self.remote.port(),
            seq: self.seq,
            ack: self.ack.unwrap_or(Seq(0)),
            flags,
            options: self.options,
            ..Header::default()
        };
        let outgoing = Outgoing { header, offset: 0, len: 0, segment_size: 0, ecn: 0 };
        lower.segment(&outgoing, (self.local.ip(), self.remote.ip()), packet)
    }
}

/// Returns whether `address` may be an end of a connection: a unicast address (MUST-46, MUST-57).
fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || is_broadcast)
}
