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
//! The files follow the sections of the RFC: `open.rs` §3.10.1, `calls.rs` §3.10.2 to §3.10.6,
//! `arrives.rs` §3.10.7, `listen.rs` its LISTEN, `timeouts.rs` §3.10.8, `keep_alive.rs` §3.8.4,
//! `user_timeout.rs` §3.8.3, `reset.rs` §3.5.2 and `icmp_error.rs` §3.9.2.2. `path_search.rs`
//! determines the length of segments, `receive_tuning.rs` the size of the buffers, `transmit.rs`
//! the next segment of a connection, and `next_segment.rs` that of the station. `sack_report.rs`
//! reports early and repeated data. [`Profile`] contains the policies of a connection.
//!
//! `connection.rs` is the transmission control block. Its variables are grouped, and only one file
//! changes each group: `endpoints.rs`, `lifecycle.rs` (§3.3.2), `send_variables.rs` and
//! `receive_variables.rs` (§3.3.1), `receive_tuning.rs`, `acknowledgments.rs` (§3.8.6.3, and the
//! limit of challenges, RFC 5961 §7), `negotiated_options.rs`, `rtt.rs`, `loss_recovery.rs`,
//! `timers.rs`, `fast_open.rs`, `path_search.rs`, `activity.rs`, `reports.rs`, `statistics.rs` and,
//! for its policies, `profile.rs`.
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
mod activity;
mod arrives;
mod bbr;
mod calls;
mod congestion_window;
mod connection;
mod connection_id;
mod cubic;
mod deferred_open;
mod endpoints;
mod fast_open;
pub mod flight;
pub mod header;
mod hystart;
mod icmp_error;
mod idle_state;
mod isn;
mod keep_alive;
mod keyed_hash;
mod lifecycle;
mod limited_time;
mod listen;
mod loss_recovery;
mod lower_level;
mod negotiated_options;
mod newreno;
mod next_segment;
mod open;
mod pacing;
mod path_search;
mod phase;
mod ports;
mod profile;
mod prr;
mod rack;
mod ranges;
mod receive_buffer;
mod receive_tuning;
mod receive_variables;
mod recovery;
mod reports;
mod reset;
mod rtt;
mod sack;
mod sack_report;
mod send_buffer;
mod send_variables;
mod sent_segments;
pub mod seq;
mod settings;
mod sharing;
mod statistics;
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

pub use connection_id::{ConnectionId, NoConnection};
pub use deferred_open::DeferredOpen;
pub use fast_open::{Cookie, FastOpen};
pub use keep_alive::KeepAlive;
pub use lifecycle::State;
pub use limited_time::LimitTimes;
pub use listen::ListenError;
pub use lower_level::{LowerLevel, Segment, Tail};
pub use open::OpenError;
pub use phase::Phase;
pub use profile::{
    Acknowledgment, BlackHoleDetection, Congestion, Marking, Profile, ReceiveWindow,
    Retransmission, SendLimit, WindowUpdate,
};
pub use sack::{Block, Blocks};
pub use statistics::Statistics;
pub use status::{CloseReason, Event, RecoveryStatus, Status};
pub use user_timeout::UserTimeout;

use crate::cx::Cx;
use crate::internet;
use crate::meter::{Account, Counter, Work};
use crate::mutants::{Mutant, is_enabled};
use crate::packet::{ChecksumState, Packet};
use crate::time::Instant;
use alloc::collections::{BTreeMap, VecDeque};
use arrives::{Answer, Arrival};
use connection::Connection;
use core::net::{IpAddr, SocketAddr};
use header::{Flags, Header};
use isn::{Purpose, Secret};
use listen::{CookieAnswer, Listener, LocalEnd};
use ports::Ports;
use reset::Reset;
use settings::SUSPECTS_MAX;
use syn_cookie::SynCookies;
use table::Table;

/// Mask of the ECN bits of a datagram. The same value reports congestion (RFC 3168 §5).
const ECN: u8 = 0b11;
const CONGESTION_EXPERIENCED: u8 = 0b11;
/// Default maximum number of connections of a station.
const CONNECTIONS_MAX: usize = 1024;
/// Default maximum number of bytes by which all buffers together may grow.
const GROWTH_MAX: usize = 256 << 20;

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
    deferred_opens: deferred_open::DeferredOpens,
    /// Destinations that do not answer. They are reported to the layer below.
    suspect_destinations: VecDeque<IpAddr>,
    /// The peer that last acknowledged data. It is reported to the layer below.
    progress: Option<IpAddr>,
    /// New connections whose path MTU is not known yet.
    without_path_mtu: VecDeque<ConnectionId>,
    /// Maximum number of bytes by which all buffers together may grow beyond their initial sizes.
    growth_max: usize,
    /// Number of segments after which a buffer did not grow because of that limit.
    growth_refusals: u64,
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
            deferred_opens: deferred_open::DeferredOpens::default(),
            suspect_destinations: VecDeque::new(),
            progress: None,
            without_path_mtu: VecDeque::new(),
            growth_max: GROWTH_MAX,
            growth_refusals: 0,
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

    /// Returns the number of received segments after which a buffer did not grow, because the limit
    /// of [`Self::set_growth_max`] was reached.
    #[must_use]
    pub fn growth_refusals(&self) -> u64 {
        self.growth_refusals
    }

    /// Ends a connection without a segment to the peer. The answer to the peer's next segment
    /// informs the peer.
    fn end_silently(&mut self, id: ConnectionId) {
        if let Ok(connection) = self.table.get_mut(id) {
            connection.end(CloseReason::Aborted);
            self.reschedule(id);
        }
    }

    /// Returns the number of connections, in any state.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.table.len()
    }

    /// Returns the number of connections in TIME-WAIT that their users have released. They neither
    /// send nor receive data.
    #[must_use]
    pub fn released_in_time_wait(&self) -> usize {
        self.table.released_in_time_wait()
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
                self.fast_open_client.forget(connection.ends.remote().ip());
            }
            let is_suspect = connection.reports.take_suspicion();
            let suspect = is_suspect.then(|| connection.ends.remote().ip());
            let is_full = self.suspect_destinations.len() >= SUSPECTS_MAX;
            self.suspect_destinations.extend(suspect.filter(|_| !is_full));
            let reset =
                if connection.lifecycle.must_abort() { connection.abort(cx.now) } else { None };
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

    /// Sets whether the device segments super-segments. A paced output takes single segments from
    /// such a device too, because a super-segment would delay other flows.
    pub fn set_tso(&mut self, tso: bool) {
        self.lower.tso = tso;
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
                    Arrival { data, is_marked, may_keep, growth_max, ..Arrival::of_header(header) };
                let id = self.segment_arrives(lower, &mut arrival, cx);
                self.growth_refusals += u64::from(arrival.is_growth_refused);
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
        if connection.state() == State::TimeWait
            && (self.replace_time_wait((local, remote), arrival, cx)
                || self.defer_replacement((local, remote), arrival.header, cx))
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
}
