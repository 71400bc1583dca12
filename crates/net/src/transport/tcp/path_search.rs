//! Black hole detection: if a path drops long datagrams without an ICMP error, TCP searches for the
//! path MTU with its own segments (packetization layer path MTU discovery, RFC 4821, RFC 8899).
//!
//! A connection trusts ICMP errors until retransmissions longer than the minimum MTU have timed out
//! as often as its profile allows ([`BlackHoleDetection`]). The search is allocated only then, so
//! that it costs nothing on other paths. Segments then have the base length. They have the minimum
//! length if the base length is lost too, or if an interactive user would wait too long for the
//! next timeout. While no data is missing, one new segment is occasionally longer. If this probe is
//! acknowledged without a retransmission, later segments have its length. If only a probe is lost,
//! this is no sign of congestion and does not change the window (RFC 4821 §7.6.1).

use super::Tcp;
use super::connection::Connection;
use super::connection_id::{ConnectionId, NoConnection};
use super::lifecycle::State;
use super::profile::BlackHoleDetection;
use super::seq::Seq;
use crate::cx::Cx;
use crate::internet::ipv6;
use crate::internet::path_mtu::IPV4_FLOOR;
use crate::internet::path_mtu::search::{self, Search};
use crate::meter::Counter;
use crate::mutants::{Mutant, is_enabled};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use core::net::IpAddr;

/// Length of a datagram in bytes that nearly every path supports: the minimum MTU of IPv6, which
/// tunnels support too.
const BASE: u16 = 1280;
/// Maximum time that an interactive connection waits for another timeout with the base length. If
/// the timeout would take longer, the connection skips the base length.
const BASE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Maximum number of new connections that wait for the MTU of their path.
pub(super) const WITHOUT_PATH_MTU_MAX: usize = 64;

/// The search of a connection. It is allocated when segments are lost that may be too long for the
/// path (RFC 8899).
#[derive(Debug, Default)]
pub(super) struct ConnectionPath(Option<Box<PathSearch>>);

impl ConnectionPath {
    /// Returns whether segments were lost that may be too long for the path.
    pub(super) const fn has_search(&self) -> bool {
        self.0.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
struct PathSearch {
    search: Search,
    probe: Option<Probe>,
}

/// An outstanding segment that probes a greater length.
#[derive(Clone, Copy, Debug)]
struct Probe {
    start: Seq,
    end: Seq,
    /// Length of the probe's datagram, in bytes.
    len: u16,
}

impl Tcp {
    /// Returns the next new connection, and its peer. The layer below should then report the path
    /// MTU with [`Self::packet_too_big`] (RFC 1191 §6.2).
    pub fn new_connection(&mut self) -> Option<(ConnectionId, IpAddr)> {
        while let Some(id) = self.without_path_mtu.pop_front() {
            if let Ok(connection) = self.table.get(id) {
                return Some((id, connection.ends.remote().ip()));
            }
        }
        None
    }

    /// Limits the datagrams of a connection to `mtu` bytes. The value comes from the layer below
    /// and is trusted. Returns whether the segments of the connection have become shorter.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn packet_too_big(
        &mut self,
        id: ConnectionId,
        mtu: u16,
        cx: &mut Cx<'_>,
    ) -> Result<bool, NoConnection> {
        let is_lower = self.table.get_mut(id)?.packet_too_big(mtu, cx.now);
        if is_lower {
            self.reschedule(id);
        }
        Ok(is_lower)
    }
}

impl Connection {
    /// Returns the length of all headers in front of the data, in bytes.
    fn headers_len(&self, now: Instant) -> u16 {
        let options = u16::try_from(self.negotiated.timestamps_option(now).len()).unwrap_or(0);
        self.ends.fixed_headers_len() + options
    }

    /// Returns the length of the datagram of a segment with `len` bytes of data.
    fn datagram_len(&self, len: u32, now: Instant) -> u16 {
        u16::try_from(len).unwrap_or(u16::MAX).saturating_add(self.headers_len(now))
    }

    /// Limits the segments to datagrams of `mtu` bytes. Outstanding data is retransmitted
    /// immediately in smaller segments. This is no sign of congestion (RFC 1191). Returns whether
    /// the segments have become shorter.
    pub(super) fn packet_too_big(&mut self, mtu: u16, now: Instant) -> bool {
        self.ends.limit_path(mtu);
        if self.state() == State::SynSent {
            // The segment size is set later, when the peer has announced its maximum.
            return false;
        }
        if let Some(path) = &mut self.path.0 {
            path.search.packet_too_big(mtu, now);
        }
        let mtu = self.path.0.as_ref().map_or(mtu, |path| path.search.mtu().min(mtu));
        let mss = u32::from(mtu.saturating_sub(self.headers_len(now)).max(1));
        if mss >= self.snd.mss() || is_enabled(Mutant::IgnoresPacketTooBig) {
            return false;
        }
        self.set_send_mss(mss);
        if let Some(recovery) = self.recovery.full_mut() {
            recovery.flight.mark_all_lost();
        }
        true
    }

    fn set_send_mss(&mut self, mss: u32) {
        self.snd.set_mss(mss);
        if let Some(recovery) = self.recovery.full_mut() {
            recovery.window.set_mss(mss);
        }
    }

    /// Processes an expired retransmission timer: the first segment may be too long for the path.
    pub(super) fn path_timed_out(&mut self, cx: &mut Cx<'_>) {
        let detection = self.profile.black_hole_detection;
        let timeouts_max = match detection {
            BlackHoleDetection::Off => return,
            BlackHoleDetection::AtThirdTimeout => search::MAX_CONSECUTIVE_LOSSES,
            BlackHoleDetection::AtFirstTimeout => 1,
        };
        if is_enabled(Mutant::NeverProbesPathMtu) || !self.state().emits_data() {
            return;
        }
        let len = self.snd.mss().min(self.snd.max().since(self.snd.una()));
        let len = self.datagram_len(len, cx.now);
        if self.path.0.is_none() {
            let min = if self.ends.remote().is_ipv4() { IPV4_FLOOR } else { ipv6::MTU_MIN };
            if len <= min {
                return;
            }
            let max = self.datagram_len(self.snd.mss(), cx.now);
            let limits = search::Limits { min, base: BASE, max };
            let search =
                Search::optimistic(limits, cx.now).with_consecutive_losses_max(timeouts_max);
            self.path.0 = Some(Box::new(PathSearch { search, probe: None }));
        }
        let rto = self.rtt.rto();
        let Some(path) = &mut self.path.0 else { return };
        if path.search.state() == search::State::Base {
            // The retransmitted segment was the probe of the base length.
            path.search.lost(path.search.base(), cx.now);
        } else if path.search.datagram_lost(len) {
            cx.meter.count(Counter::TcpBlackHoles);
        }
        let is_rto_long = detection == BlackHoleDetection::AtFirstTimeout && rto > BASE_WAIT_MAX;
        if path.search.state() == search::State::Base {
            if is_rto_long {
                path.search.skip_base();
            } else {
                path.search.transmit(rto, cx.now);
            }
        }
        self.use_path_mtu(cx.now);
    }

    /// Records an acknowledgment up to `ack` that acknowledges `count` new sequence numbers.
    pub(super) fn path_acknowledged(&mut self, ack: Seq, count: u32, now: Instant) {
        if self.path.0.is_none() {
            return;
        }
        let len = self.datagram_len(count.min(self.snd.mss()), now);
        let Some(path) = &mut self.path.0 else { return };
        if let Some(probe) = path.probe.take_if(|probe| !ack.is_before(probe.end)) {
            path.search.acknowledged(probe.len, now);
        } else {
            path.search.acknowledged(len, now);
        }
        self.use_path_mtu(now);
    }

    /// Records that the sequence numbers from `start` to `end` are retransmitted. If they contain a
    /// probe, the probe is lost.
    pub(super) fn path_sent_again(&mut self, start: Seq, end: Seq, now: Instant) {
        let Some(path) = &mut self.path.0 else { return };
        let overlaps = |probe: &mut Probe| start.is_before(probe.end) && probe.start.is_before(end);
        if let Some(probe) = path.probe.take_if(overlaps) {
            path.search.lost(probe.len, now);
        }
    }

    /// Returns whether a probe is the only lost data.
    pub(super) fn only_probe_is_lost(&self) -> bool {
        let Some(recovery) = self.recovery.full() else { return false };
        let Some(probe) = self.path.0.as_ref().and_then(|path| path.probe) else { return false };
        let len = probe.end.since(probe.start);
        let first = recovery.flight.next_lost(1).map(|(seq, _)| seq);
        recovery.flight.lost() <= u64::from(len)
            && first.is_some_and(|seq| seq.is_in_window(probe.start, len))
    }

    /// Sets the segment size to the result of the search.
    fn use_path_mtu(&mut self, now: Instant) {
        let Some(path) = &self.path.0 else { return };
        let mss = u32::from(path.search.mtu().saturating_sub(self.headers_len(now)).max(1));
        if mss != self.snd.mss() {
            self.set_send_mss(mss);
        }
    }

    /// Returns the data length of a path MTU probe, if a probe is due and no data is missing.
    /// `usable` is the number of new bytes that can be sent now. It must be enough for the probe
    /// and one more segment: only data that is sent after the probe reveals its loss within a round
    /// trip (RFC 4821 §7.4).
    pub(super) fn path_probe(&mut self, usable: u32, cx: &mut Cx<'_>) -> Option<u32> {
        let has_nothing_missing =
            self.recovery.full().is_some_and(|recovery| recovery.has_nothing_missing());
        let rto = self.rtt.rto();
        let headers = self.headers_len(cx.now);
        let seq = self.snd.nxt();
        let mss = self.data_mss();
        let path =
            self.path.0.as_mut().filter(|path| path.probe.is_none() && has_nothing_missing)?;
        if let search::State::Complete { .. } = path.search.state() {
            path.search.timeout(cx.now);
        }
        let mut search = path.search;
        let datagram_len = search.transmit(rto, cx.now)?;
        let len = u32::from(datagram_len.saturating_sub(headers));
        if len <= mss || len.saturating_add(mss) > usable {
            return None;
        }
        path.search = search;
        path.probe = Some(Probe { start: seq, end: seq + len, len: datagram_len });
        cx.meter.count(Counter::TcpPathProbes);
        Some(len)
    }

    /// Returns whether the new segment that begins at `seq` is a probe. A device must not split it.
    pub(super) fn is_path_probe(&self, seq: Seq) -> bool {
        self.path.0.as_ref().is_some_and(|path| path.probe.is_some_and(|probe| probe.start == seq))
    }
}
