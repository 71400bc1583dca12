//! LISTEN (RFC 9293 §3.10.7.2): the listeners, their limit of half-open connections, and the answer
//! to a SYN beyond that limit (RFC 4987).
//!
//! A listener has a port, at one local address or at all of them (MUST-43), and a limited number of
//! half-open connections. When the limit is reached, a further SYN is answered by a cookie, and no
//! state is stored ([`super::syn_cookie`]). If the client returns the cookie in its acknowledgment,
//! the connection is created in the same state as without a cookie. A forged SYN therefore costs
//! only one answer, and no memory (row 33 of the attack table).

use super::arrives::{Answer, Arrival};
use super::connection::{Connection, shift_for};
use super::fast_open::{FastOpen, PENDING_MAX};
use super::header::{Flags, Header, Options};
use super::lifecycle::State;
use super::seq::Seq;
use super::status::CloseReason;
use super::syn_cookie::OfferedOptions;
use super::table::AddressPair;
use super::transmit::Outgoing;
use super::{ConnectionId, LowerLevel, Profile, Segment, Tcp};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::packet::Packet;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};

/// Reasons why a listener cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Another listener has the same local end.
    InUse,
}

/// Maximum number of half-open connections per listener.
pub(super) const BACKLOG: usize = 64;
/// Maximum number of cookies queued for output.
const PENDING_COOKIES_MAX: usize = 64;
/// Time after the last cookie during which a client may return it: two time spans of
/// [`super::syn_cookie`].
const COOKIE_RETURN_TIMEOUT: Duration = Duration::from_secs(128);

/// The local end of a listener: its port and its address. The address is `None` if it listens at
/// all addresses.
pub(super) type LocalEnd = (u16, Option<IpAddr>);

#[derive(Debug)]
pub(super) struct Listener {
    profile: Arc<Profile>,
    /// The half-open connections, the oldest first.
    half_open: VecDeque<ConnectionId>,
    /// Time until which cookies may be returned.
    cookies_until: Option<Instant>,
}

/// A queued SYN cookie: the answer to a SYN for which no state is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct CookieAnswer {
    ends: AddressPair,
    header: Header,
}

impl CookieAnswer {
    pub(super) fn into_segment(self, packet: Packet, lower: &LowerLevel) -> Segment {
        let outgoing = Outgoing { header: self.header, offset: 0, len: 0, segment_size: 0, ecn: 0 };
        let (local, remote) = self.ends;
        lower.segment(&outgoing, (local.ip(), remote.ip()), packet)
    }
}

impl Tcp {
    /// OPEN, passive: accepts connections to `port` at any local address. They use `profile`. Each
    /// new connection is reported by [`super::Event::Established`].
    ///
    /// # Errors
    ///
    /// Returns an error if there is a listener for `port` already.
    pub fn listen(&mut self, port: u16, profile: Profile) -> Result<(), ListenError> {
        self.listen_in((port, None), profile)
    }

    /// OPEN, passive, at one local address only (MUST-43). This listener takes precedence over that
    /// of [`Self::listen`].
    ///
    /// # Errors
    ///
    /// Returns an error if there is a listener for `local` already.
    pub fn listen_at(&mut self, local: SocketAddr, profile: Profile) -> Result<(), ListenError> {
        self.listen_in((local.port(), Some(local.ip())), profile)
    }

    fn listen_in(&mut self, local_end: LocalEnd, profile: Profile) -> Result<(), ListenError> {
        if self.listeners.contains_key(&local_end) {
            return Err(ListenError::InUse);
        }
        let half_open = VecDeque::new();
        let profile = Arc::new(profile);
        let listener = Listener { profile, half_open, cookies_until: None };
        self.listeners.insert(local_end, listener);
        Ok(())
    }

    /// Stops accepting connections to `port`. Established connections remain. Half-open connections
    /// are dropped, because no listener could accept them.
    pub fn stop_listening(&mut self, port: u16) {
        self.stop_listening_in((port, None));
    }

    /// Stops a listener started by [`Self::listen_at`].
    pub fn stop_listening_at(&mut self, local: SocketAddr) {
        self.stop_listening_in((local.port(), Some(local.ip())));
    }

    fn stop_listening_in(&mut self, local_end: LocalEnd) {
        let listener = self.listeners.remove(&local_end);
        for id in listener.into_iter().flat_map(|listener| listener.half_open) {
            // A connection that has received early data was already reported to the user.
            if self.table.get(id).is_ok_and(|connection| !connection.lifecycle.has_early_data()) {
                self.end_silently(id);
            }
        }
    }

    /// Returns the local end of the listener for `local`.
    fn local_end_for(&self, local: SocketAddr) -> Option<LocalEnd> {
        let local_ends = [(local.port(), Some(local.ip())), (local.port(), None)];
        local_ends.into_iter().find(|local_end| self.listeners.contains_key(local_end))
    }

    /// Records that a connection is no longer half-open.
    pub(super) fn leave_backlog(&mut self, local_end: LocalEnd, id: ConnectionId) {
        if let Some(listener) = self.listeners.get_mut(&local_end) {
            listener.half_open.retain(|half_open| *half_open != id);
        }
    }

    /// Processes a segment without a connection: CLOSED and LISTEN (§3.10.7.1, §3.10.7.2).
    pub(super) fn no_connection(
        &mut self,
        ends: AddressPair,
        arrival: &mut Arrival<'_>,
        cx: &mut Cx<'_>,
    ) {
        let flags = arrival.header.flags;
        let Some(local_end) = self.local_end_for(ends.0) else {
            if self.defer(ends, arrival.header, None, cx) {
                return;
            }
            return self.refuse(ends, arrival, cx);
        };
        if flags.has(Flags::RST) {
            return;
        }
        match (flags.has(Flags::ACK), flags.has(Flags::SYN)) {
            (true, false) => self.process_cookie(ends, local_end, arrival, cx),
            (true, true) => self.refuse(ends, arrival, cx),
            // Only port scanners send a SYN with a FIN.
            (false, true) if flags.has(Flags::FIN) => cx.meter.count(Counter::TcpOpensRefused),
            (false, true) => self.accept(ends, local_end, arrival, None, cx),
            (false, false) => {}
        }
    }

    /// Accepts a SYN for the listener at `local_end`. If the new connection replaces one in
    /// TIME-WAIT, `last` is the last sequence number of the old connection, and the new sequence
    /// numbers begin after it.
    pub(super) fn accept(
        &mut self,
        ends: AddressPair,
        local_end: LocalEnd,
        arrival: &mut Arrival<'_>,
        last: Option<Seq>,
        cx: &mut Cx<'_>,
    ) {
        let Some(listener) = self.listeners.get(&local_end) else { return };
        let profile = Arc::clone(&listener.profile);
        if listener.half_open.len() >= BACKLOG {
            return self.queue_cookie(ends, local_end, &arrival.header, cx);
        }
        let created = self.make(ends, profile, State::SynReceived, cx);
        let Some(mut connection) = created else { return };
        if let Some(last) = last.filter(|last| !connection.snd.iss().is_after(*last)) {
            connection.snd.begin_at(last + 1);
        }
        connection.synchronize(&arrival.header);
        connection.statistics.count_segment_in();
        self.process_fast_open_option(&mut connection, local_end, arrival, cx);
        let Some(id) = self.insert(connection, Some(local_end)) else { return };
        cx.meter.count(Counter::TcpPassiveOpens);
        if let Some(listener) = self.listeners.get_mut(&local_end) {
            listener.half_open.push_back(id);
        }
        self.reschedule(id);
    }

    /// Processes the Fast Open option of a SYN (RFC 7413 §4.2.2).
    fn process_fast_open_option(
        &self,
        connection: &mut Connection,
        local_end: LocalEnd,
        arrival: &Arrival<'_>,
        cx: &mut Cx<'_>,
    ) {
        let request = arrival.header.options.fast_open.filter(|_| connection.profile.fast_open);
        let Some(request) = request else { return };
        let local = connection.ends.local().ip();
        let remote = connection.ends.remote().ip();
        let expected_cookie = FastOpen::Cookie(self.fast_open.cookie(local, remote));
        if request == FastOpen::Request {
            connection.offer_fast_open(expected_cookie, 0);
        } else if request != expected_cookie {
            cx.meter.count(Counter::TcpFastOpensRefused);
            connection.offer_fast_open(expected_cookie, 0);
        } else if self.early_connections(local_end) < PENDING_MAX {
            connection.open_early(arrival, cx);
        } else {
            cx.meter.count(Counter::TcpFastOpensRefused);
        }
    }

    /// Returns the number of half-open connections of a listener that have received data.
    fn early_connections(&self, local_end: LocalEnd) -> usize {
        let half_open = self.listeners.get(&local_end).into_iter().flat_map(|l| &l.half_open);
        half_open
            .filter(|id| self.table.get(**id).is_ok_and(|c| c.lifecycle.has_early_data()))
            .count()
    }

    /// Queues the answer to a SYN for which no state is kept.
    fn queue_cookie(
        &mut self,
        ends: AddressPair,
        local_end: LocalEnd,
        syn: &Header,
        cx: &mut Cx<'_>,
    ) {
        let Some(listener) = self.listeners.get_mut(&local_end) else { return };
        if self.pending_cookies.len() >= PENDING_COOKIES_MAX {
            return cx.meter.count(Counter::TcpOpensRefused);
        }
        listener.cookies_until = Some(cx.now + COOKIE_RETURN_TIMEOUT);
        let profile = Arc::clone(&listener.profile);
        let mss = profile.mss_max.unwrap_or(u16::MAX).min(self.lower.mss_to(ends.1.ip()));
        let stamps = profile.extensions && profile.timestamps;
        let stamp = syn.options.timestamps.filter(|_| stamps);
        // The offered options can be returned only in an echoed timestamp.
        let window_scale = syn.options.window_scale.filter(|_| stamp.is_some());
        let sack = syn.options.sack_permitted && stamp.is_some();
        let offered = OfferedOptions { window_scale, sack, ecn: false };
        let clock = millis(cx.now);
        let offset = self.secret.timestamp_offset(ends.0, ends.1);
        let options = Options {
            mss: Some(mss),
            window_scale: window_scale.map(|_| shift_for(profile.receive_window.limit())),
            sack_permitted: sack,
            timestamps: stamp.map(|(value, _)| (offered.stamp(clock).wrapping_add(offset), value)),
            ..Options::default()
        };
        let peer_mss = syn.options.mss.unwrap_or(Connection::default_mss(ends.1.ip()));
        let header = Header {
            source_port: ends.0.port(),
            destination_port: ends.1.port(),
            seq: self.syn_cookies.make(ends, syn.seq, peer_mss, cx.now),
            ack: syn.seq + 1,
            flags: Flags::SYN.with(Flags::ACK),
            window: u16::try_from(profile.receive_window.start()).unwrap_or(u16::MAX),
            urgent: 0,
            options,
        };
        cx.meter.count(Counter::TcpSynCookiesOut);
        self.pending_cookies.push_back(CookieAnswer { ends, header });
    }

    /// Processes an acknowledgment that returns a cookie. Creates the connection that the cookie
    /// encodes.
    fn process_cookie(
        &mut self,
        ends: AddressPair,
        local_end: LocalEnd,
        arrival: &mut Arrival<'_>,
        cx: &mut Cx<'_>,
    ) {
        let header = arrival.header;
        // The data must be copied, because the caller does not know the connection of the packet.
        arrival.may_keep = false;
        let listener = self.listeners.get(&local_end);
        let cookie_listener =
            listener.filter(|l| l.cookies_until.is_some_and(|until| cx.now <= until));
        let Some(profile) = cookie_listener.map(|listener| Arc::clone(&listener.profile)) else {
            return self.refuse(ends, arrival, cx);
        };
        let irs = header.seq - 1;
        let iss = header.ack - 1;
        let Some(mss) = self.syn_cookies.check(ends, irs, iss, cx.now) else {
            cx.meter.count(Counter::TcpSynCookiesWrong);
            return self.refuse(ends, arrival, cx);
        };
        let stamps = profile.extensions && profile.timestamps;
        let stamp = header.options.timestamps.filter(|_| stamps);
        let offset = self.secret.timestamp_offset(ends.0, ends.1);
        let offered = stamp.map(|(_, echo)| OfferedOptions::from_stamp(echo.wrapping_sub(offset)));
        let syn = Header {
            seq: irs,
            flags: Flags::SYN,
            options: Options {
                mss: Some(mss),
                window_scale: offered.and_then(|offered| offered.window_scale),
                sack_permitted: offered.is_some_and(|offered| offered.sack),
                timestamps: stamp,
                ..Options::default()
            },
            ..header
        };
        let created = self.make(ends, profile, State::SynReceived, cx);
        let Some(mut connection) = created else { return };
        connection.snd.begin_at(iss);
        connection.synchronize(&syn);
        connection.snd.syn_was_sent();
        let Some(id) = self.insert(connection, Some(local_end)) else { return };
        cx.meter.count(Counter::TcpPassiveOpens);
        cx.meter.count(Counter::TcpSynCookiesIn);
        if let Ok(connection) = self.table.get_mut(id)
            && connection.segment_arrives(arrival, cx) == Answer::Reset
        {
            self.refuse(ends, arrival, cx);
        }
        self.reschedule(id);
    }

    /// Replaces a connection in TIME-WAIT by a new one if the SYN cannot be an old duplicate.
    /// Returns whether the SYN was accepted.
    pub(super) fn replace_time_wait(
        &mut self,
        ends: AddressPair,
        arrival: &mut Arrival<'_>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let Some(local_end) = self.local_end_for(ends.0) else { return false };
        let listener = self.listeners.get(&local_end);
        let uses_timestamps =
            listener.is_some_and(|l| l.profile.extensions && l.profile.timestamps);
        let Some((id, old)) = self.table.find(ends) else { return false };
        if !old.can_be_replaced_by(&arrival.header, uses_timestamps) {
            return false;
        }
        let last = old.snd.max();
        old.end(CloseReason::Closed);
        cx.meter.count(Counter::TcpTimeWaitsReused);
        self.reschedule(id);
        self.accept(ends, local_end, arrival, Some(last), cx);
        true
    }
}

/// Returns whether there is a listener for `port` at any address.
pub(super) fn is_listened_on(listeners: &BTreeMap<LocalEnd, Listener>, port: u16) -> bool {
    listeners.range((port, None)..).next().is_some_and(|((first, _), _)| *first == port)
}

/// Returns the timestamp clock, without the offset of a connection.
fn millis(now: Instant) -> u32 {
    u32::try_from((now.as_nanos() / 1_000_000) & 0xFFFF_FFFF).unwrap_or(0)
}
