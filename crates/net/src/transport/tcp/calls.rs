//! The user calls on a connection (RFC 9293 §3.10.2 to §3.10.6).

use super::Tcp;
use super::congestion_window::initial_window;
use super::connection::{Connection, send_limit};
use super::connection_id::{ConnectionId, NoConnection};
use super::lifecycle::State;
use super::loss_recovery::RecoveryForm;
use super::profile::Profile;
use super::reset::Reset;
use super::status::{CloseReason, Status};
use crate::cx::Cx;
use crate::packet::Packet;
use crate::time::{Duration, Instant};
use alloc::sync::Arc;
use alloc::vec::Vec;

impl Tcp {
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

    /// Returns the number of bytes that [`Self::send`] would queue now. Returns 0 if the connection
    /// no longer exists or the user has closed it.
    #[must_use]
    pub fn send_space(&self, id: ConnectionId) -> usize {
        self.table.get(id).map_or(0, Connection::send_space)
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

    /// RECEIVE of all readable bytes, in contiguous pieces. There are none if the connection no
    /// longer exists.
    pub fn received_pieces(&self, id: ConnectionId) -> impl Iterator<Item = &[u8]> {
        self.table.get(id).into_iter().flat_map(|connection| connection.rcv.buffer().pieces())
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

    /// Returns the total time up to `now` during which the peer's window was full: zero if the
    /// connection no longer exists.
    #[must_use]
    pub fn peer_window_time(&self, id: ConnectionId, now: Instant) -> Duration {
        let connection = self.table.get(id);
        connection.map_or(Duration::ZERO, |known| known.peer_window_time(now))
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
}

impl Connection {
    /// SEND: queues as much of `data` as there is space for, and returns the number of queued
    /// bytes.
    pub(super) fn send(&mut self, data: &[u8]) -> usize {
        if self.state().takes_data() { self.snd.put(data) } else { 0 }
    }

    /// Returns the number of bytes that [`Self::send`] would queue.
    fn send_space(&self) -> usize {
        if self.state().takes_data() { self.snd.free_space() } else { 0 }
    }

    fn peer_window_time(&self, now: Instant) -> Duration {
        let limits = self.recovery.form().map(RecoveryForm::limits);
        limits.map_or(Duration::ZERO, |limits| limits.peer_window_time(now))
    }

    /// SEND without a copy: queues the bytes of `data` from `start` on.
    pub(super) fn share(&mut self, data: &Arc<[u8]>, start: usize) -> usize {
        if self.state().takes_data() { self.snd.share(data, start) } else { 0 }
    }

    /// Replaces the policies, except those that the SYN has already negotiated.
    pub(super) fn set_profile(&mut self, profile: Profile) {
        self.profile.replace(profile);
        if self.state().emits_data() {
            self.start_keep_alive_timer();
        }
        self.snd.set_limit(send_limit(&profile, self.snd.mss()));
    }

    /// SEND with the urgent flag: all queued data, including `data`, is urgent.
    pub(super) fn send_urgent(&mut self, data: &[u8]) -> usize {
        let queued_len = self.send(data);
        if queued_len > 0 {
            self.snd.set_urgent();
            // A zero window must not delay the notification (RFC 9293 §3.8.5), so a segment without
            // data is sent.
            if self.state().emits_data() && self.snd.outstanding() >= self.snd.wnd() {
                self.acks.send_now();
            }
        }
        queued_len
    }

    /// RECEIVE: removes `count` bytes that the user has read, and moves their packets to `spent`.
    pub(super) fn consume(&mut self, count: usize, spent: &mut Vec<Packet>) {
        self.rcv.consume(count, spent);
        self.schedule_window_update();
    }

    /// CLOSE: a FIN follows the queued data; receiving continues.
    pub(super) fn close(&mut self) {
        match self.state() {
            State::SynSent => self.end(CloseReason::Aborted),
            State::SynReceived => self.snd.close(),
            State::Established | State::CloseWait => {
                self.snd.close();
                self.lifecycle.close();
            }
            _ => {}
        }
    }

    /// CLOSE in both directions: later data from the peer is not read.
    pub(super) fn release(&mut self) {
        let is_open =
            self.state().expects_data() || self.state() == State::CloseWait || self.is_open_early();
        let must_abort = is_open && self.rcv.buffer().readable() > 0;
        if !must_abort {
            self.close();
        }
        self.lifecycle.release(must_abort);
        if self.state() != State::Closed {
            // The current time is unknown in this function. The timer is therefore set when it is
            // first checked.
            self.timers.limit_released(None);
        }
    }

    /// ABORT: ends the connection and returns the reset for the peer, if one is required.
    pub(super) fn abort(&mut self, now: Instant) -> Option<Reset> {
        let reset = Reset {
            local: self.ends.local(),
            remote: self.ends.remote(),
            seq: self.snd.acceptable_seq(),
            ack: Some(self.rcv.nxt()),
            options: self.negotiated.timestamps_option(now),
        };
        let resets_peer = !matches!(self.state(), State::SynSent | State::TimeWait | State::Closed);
        self.end(CloseReason::Aborted);
        resets_peer.then_some(reset)
    }

    /// STATUS: returns the state of the connection.
    pub(super) fn status(&self) -> Status {
        let threshold = self.recovery.form().map_or(u32::MAX, RecoveryForm::ssthresh);
        let window = self.recovery.form().map(RecoveryForm::cwnd);
        Status {
            local: self.ends.local(),
            remote: self.ends.remote(),
            state: self.state(),
            close_reason: self.reports.close_reason(),
            soft_error: self.reports.soft_error(),
            send_window: self.snd.wnd(),
            receive_window: self.rcv.wnd(),
            congestion: self.profile.congestion,
            congestion_window: window.unwrap_or_else(|| initial_window(self.snd.mss())),
            slow_start_threshold: (threshold < u32::MAX).then_some(threshold),
            send_mss: self.snd.mss(),
            send_queue: self.snd.buffered_len(),
            receive_queue: self.rcv.buffer().readable(),
            send_buffer: self.snd.limit(),
            receive_buffer: self.rcv.buffer().window(),
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            recovery: self.recovery.form().map(RecoveryForm::status).unwrap_or_default(),
            has_sack: self.negotiated.has_sack(),
            has_ecn: self.negotiated.has_ecn(),
            statistics: *self.statistics.values(),
        }
    }
}
