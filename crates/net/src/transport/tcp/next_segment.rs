//! Output of a station: the next segment of any connection, the queued resets and SYN cookies.

use super::Tcp;
use super::connection_id::ConnectionId;
use super::lower_level::{Segment, Tail};
use crate::cx::Cx;
use crate::meter::{Account, Counter, Work};
use crate::packet::Pool;

impl Tcp {
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

    /// Removes and returns the next connection that may have output, for a caller that schedules the
    /// connections itself, and calls [`Self::transmit_connection`] until it returns `None`. A
    /// connection is returned again when it changes.
    pub fn ready_connection(&mut self) -> Option<ConnectionId> {
        self.table.take_ready()
    }

    /// Returns the next complete segment of a connection of [`Self::ready_connection`].
    pub fn transmit_connection(
        &mut self,
        id: ConnectionId,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Segment> {
        self.return_spent_packets(pool);
        let mut packet = Some(pool.take(cx.meter)?);
        let caller = cx.meter.enter(Account::TcpFixed);
        let Self { table, lower, .. } = self;
        let super_segment_max = lower.super_segment_max();
        let output = table.output_of(id, |connection| {
            let outgoing = connection.transmit(super_segment_max, cx)?;
            let ends = (connection.ends.local().ip(), connection.ends.remote().ip());
            let mut segment = lower.segment(&outgoing, ends, packet.take()?);
            connection.profile.marking.apply_to(&mut segment.lower);
            segment.connection = Some(id);
            Some((segment, Tail { connection: id, offset: outgoing.offset, len: outgoing.len }))
        });
        packet.into_iter().for_each(|packet| pool.put(packet));
        let segment = output.map(|(segment, tail)| self.complete(segment, &tail, cx));
        cx.meter.enter(caller);
        segment
    }

    /// Returns the next segment that belongs to no connection: a reset, or the answer to a SYN for
    /// which no state is kept.
    pub fn transmit_stateless(&mut self, pool: &mut Pool, cx: &mut Cx<'_>) -> Option<Segment> {
        self.return_spent_packets(pool);
        if self.resets.is_empty() && self.pending_cookies.is_empty() {
            return None;
        }
        let packet = pool.take(cx.meter)?;
        cx.meter.count(Counter::TcpSegmentsOut);
        if let Some(reset) = self.resets.pop_front() {
            cx.meter.count(Counter::TcpResetsOut);
            return Some(reset.into_segment(packet, &self.lower));
        }
        let answer = self.pending_cookies.pop_front()?;
        Some(answer.into_segment(packet, &self.lower))
    }

    /// Counts a segment of a connection, and copies its data after its header.
    fn complete(&mut self, mut segment: Segment, tail: &Tail, cx: &mut Cx<'_>) -> Segment {
        cx.meter.count(Counter::TcpSegmentsOut);
        cx.meter.work(Work::Segment, 1);
        if tail.len > 0 {
            let caller = cx.meter.enter(Account::TcpByte);
            self.lower.append(&mut segment, self.tail(tail));
            cx.meter.work(Work::SegmentByte, tail.len as usize);
            cx.meter.enter(caller);
        }
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
            let ends = (connection.ends.local().ip(), connection.ends.remote().ip());
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
