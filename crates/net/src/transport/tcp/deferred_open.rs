//! Opens that the user accepts or refuses: passive OPEN for every local end (RFC 9293 §3.10.1).
//!
//! A gateway ends the connections of its guests, and answers a SYN only when it knows whether the
//! remote host accepts the connection. A SYN for which there is no listener is therefore queued and
//! not refused. The user removes it by [`Tcp::deferred_open`], and then accepts or refuses it. Only
//! the ends and the header of the SYN are stored, in a queue of limited length. Data in the SYN is
//! dropped, and the peer retransmits it.
//!
//! The peer retransmits its SYN while the user decides, or it restarts and sends another SYN from
//! the same port. If the user has not yet accepted or refused an open between the same ends, it
//! passes the later one to [`DeferredOpen::update`]. After the answer, the retransmission belongs
//! to the connection.

use super::arrives::Arrival;
use super::connection_id::ConnectionId;
use super::header::Header;
use super::lifecycle::State;
use super::open::OpenError;
use super::profile::Profile;
use super::seq::Seq;
use super::status::CloseReason;
use super::table::AddressPair;
use super::{Flags, Tcp};
use crate::cx::Cx;
use crate::meter::Counter;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::SocketAddr;

/// A SYN that the user has to accept or to refuse.
#[derive(Clone, Copy, Debug)]
pub struct DeferredOpen {
    ends: AddressPair,
    header: Header,
    /// The last sequence number of the connection in TIME-WAIT that the new one replaces.
    last: Option<Seq>,
}

impl DeferredOpen {
    /// Returns the destination of the SYN.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.ends.0
    }

    /// Returns the source of the SYN.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.ends.1
    }

    /// Returns the sequence number of the SYN, which an ICMP error about it quotes.
    #[must_use]
    pub fn sequence_number(&self) -> u32 {
        self.header.seq.0
    }

    /// Replaces the SYN by a later one between the same ends, which is then the one that is
    /// answered.
    pub fn update(&mut self, later: &Self) {
        self.header = later.header;
        self.last = later.last.or(self.last);
    }
}

/// The queue of deferred opens. Its limit is 0 unless the user has enabled deferred opens.
#[derive(Debug, Default)]
pub(super) struct DeferredOpens {
    queue: VecDeque<DeferredOpen>,
    limit: usize,
}

impl Tcp {
    /// Defers opens for which there is no listener, and queues at most `limit` of them until
    /// [`Self::deferred_open`] removes them. With a limit of 0, the default, they are refused.
    pub fn defer_opens(&mut self, limit: usize) {
        self.deferred_opens.limit = limit;
    }

    /// Returns the next deferred open.
    pub fn deferred_open(&mut self) -> Option<DeferredOpen> {
        self.deferred_opens.queue.pop_front()
    }

    /// Accepts a deferred open: the SYN is answered at the next output.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError::NoPort`] if there is already a connection between these ends, and
    /// [`OpenError::TooMany`] if the limit of connections is reached.
    pub fn accept_deferred(
        &mut self,
        open: &DeferredOpen,
        profile: Profile,
        cx: &mut Cx<'_>,
    ) -> Result<ConnectionId, OpenError> {
        if self.table.holds(open.ends) {
            return Err(OpenError::NoPort);
        }
        let created = self.make(open.ends, Arc::new(profile), State::SynReceived, cx);
        let mut connection = created.ok_or(OpenError::TooMany)?;
        if let Some(last) = open.last.filter(|last| !connection.snd.iss().is_after(*last)) {
            connection.snd.begin_at(last + 1);
        }
        connection.synchronize(&open.header);
        connection.statistics.count_segment_in();
        let id = self.insert(connection, None).ok_or(OpenError::TooMany)?;
        cx.meter.count(Counter::TcpPassiveOpens);
        self.reschedule(id);
        Ok(id)
    }

    /// Refuses a deferred open: the SYN is answered by a reset.
    pub fn refuse_deferred(&mut self, open: &DeferredOpen, cx: &mut Cx<'_>) {
        self.refuse(open.ends, &Arrival::of_header(open.header), cx);
    }

    /// Queues a SYN for which there is no listener. Returns false if opens are not deferred.
    pub(super) fn defer(
        &mut self,
        ends: AddressPair,
        header: Header,
        last: Option<Seq>,
        cx: &mut Cx<'_>,
    ) -> bool {
        let DeferredOpens { queue, limit } = &mut self.deferred_opens;
        let is_request = header.flags.has(Flags::SYN)
            && ![Flags::ACK, Flags::RST, Flags::FIN].iter().any(|f| header.flags.has(*f));
        if *limit == 0 || !is_request {
            return false;
        }
        if queue.len() >= *limit {
            cx.meter.count(Counter::TcpOpensRefused);
        } else {
            queue.push_back(DeferredOpen { ends, header, last });
        }
        true
    }

    /// Replaces a connection in TIME-WAIT by a deferred open if the SYN cannot be an old duplicate.
    /// Returns whether the SYN was processed.
    pub(super) fn defer_replacement(
        &mut self,
        ends: AddressPair,
        header: Header,
        cx: &mut Cx<'_>,
    ) -> bool {
        if self.deferred_opens.limit == 0 {
            return false;
        }
        let Some((id, old)) = self.table.find(ends) else { return false };
        let uses_timestamps = old.profile.extensions && old.profile.timestamps;
        if !old.can_be_replaced_by(&header, uses_timestamps) {
            return false;
        }
        let last = old.snd.max();
        old.end(CloseReason::Closed);
        cx.meter.count(Counter::TcpTimeWaitsReused);
        self.reschedule(id);
        self.defer(ends, header, Some(last), cx)
    }
}
