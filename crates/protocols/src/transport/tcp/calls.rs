//! The user calls on one connection (RFC 9293 §3.10.2 to §3.10.6).

use super::connection::{Connection, State};
use super::seq::Seq;
use super::status::{Ending, Status};

impl Connection {
    /// SEND: queues as much of `data` as there is room for.
    pub(super) fn send(&mut self, data: &[u8]) -> usize {
        if self.is_closing || !self.state.takes_data() { 0 } else { self.send.put(data) }
    }

    /// SEND with the urgent flag: what is queued so far, and `data`, is urgent.
    pub(super) fn send_urgent(&mut self, data: &[u8]) -> usize {
        let taken = self.send(data);
        if taken > 0 {
            self.snd_up = Some(self.send_start + self.send.len());
        }
        taken
    }

    /// RECEIVE: drops `count` bytes that the user has read.
    pub(super) fn consume(&mut self, count: usize) {
        self.receive.consume(count);
        self.rcv_up = self.rcv_up.filter(|up| up.is_after(self.read_up_to()));
        self.owe_window_update();
    }

    /// Returns how many bytes must be read until the urgent data is behind the reader.
    pub(super) fn urgent_ahead(&self) -> Option<usize> {
        self.rcv_up.map(|up| up.since(self.read_up_to()) as usize)
    }

    fn read_up_to(&self) -> Seq {
        self.rcv_nxt - u32::try_from(self.receive.readable()).unwrap_or(0)
    }

    /// CLOSE: a FIN follows what is queued; receiving goes on.
    pub(super) fn close(&mut self) {
        match self.state {
            State::SynSent => self.end(Ending::Aborted),
            State::SynReceived => self.is_closing = true,
            State::Established => {
                self.is_closing = true;
                self.state = State::FinWait1;
            }
            State::CloseWait => {
                self.is_closing = true;
                self.state = State::LastAck;
            }
            _ => {}
        }
    }

    /// Returns whether an ABORT has to tell the peer by a reset.
    pub(super) fn abort_tells_peer(&self) -> bool {
        !matches!(self.state, State::SynSent | State::TimeWait | State::Closed)
    }

    /// STATUS.
    pub(super) fn status(&self) -> Status {
        let threshold = self.congestion.ssthresh();
        Status {
            local: self.ends.local,
            remote: self.ends.remote,
            state: self.state,
            ending: self.ending,
            send_window: self.snd_wnd,
            receive_window: self.rcv_wnd(),
            congestion_window: self.congestion.cwnd(),
            slow_start_threshold: (threshold < u32::MAX).then_some(threshold),
            send_mss: self.snd_mss,
            send_queue: self.send.len(),
            receive_queue: self.receive.readable(),
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            statistics: self.statistics,
        }
    }
}
