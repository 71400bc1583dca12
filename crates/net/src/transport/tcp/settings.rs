//! Settings that the user can change while a connection is open (RFC 9293 §3.9.1), and reports
//! about destinations to the layer below.

use super::Tcp;
use super::connection_id::{ConnectionId, NoConnection};
use super::keep_alive::KeepAlive;
use super::lifecycle::State;
use super::profile::Marking;
use super::user_timeout::UserTimeout;
use core::net::IpAddr;

/// Maximum number of destinations queued for a report to the layer below.
pub(super) const SUSPECTS_MAX: usize = 16;

impl Tcp {
    /// Switches keep-alive on or off (MUST-24).
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn set_keep_alive(
        &mut self,
        id: ConnectionId,
        keep_alive: Option<KeepAlive>,
    ) -> Result<(), NoConnection> {
        let connection = self.table.get_mut(id)?;
        connection.profile.set_keep_alive(keep_alive);
        if !matches!(connection.state(), State::SynSent | State::SynReceived | State::Closed) {
            connection.start_keep_alive_timer();
        }
        self.reschedule(id);
        Ok(())
    }

    /// Sets R1, R2 and the user timeout (MUST-21).
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn set_user_timeout(
        &mut self,
        id: ConnectionId,
        user_timeout: UserTimeout,
    ) -> Result<(), NoConnection> {
        let connection = self.table.get_mut(id)?;
        connection.profile.set_user_timeout(user_timeout);
        connection.negotiated.set_must_send_user_timeout(user_timeout.is_shared);
        if user_timeout.is_shared && connection.state().emits_data() {
            connection.acks.send_now();
        }
        self.reschedule(id);
        Ok(())
    }

    /// Sets the differentiated services field and the time to live of segments sent from now on
    /// (MUST-48, MUST-49, SHLD-21).
    ///
    /// # Errors
    ///
    /// Returns an error if the connection no longer exists.
    pub fn set_marking(&mut self, id: ConnectionId, marking: Marking) -> Result<(), NoConnection> {
        self.table.get_mut(id)?.profile.set_marking(marking);
        Ok(())
    }

    /// Removes and returns the next destination that did not answer R1 retransmissions. The layer
    /// below should try another route to it (RFC 9293 §3.8.3, MUST-20).
    pub fn take_suspect_destination(&mut self) -> Option<IpAddr> {
        self.suspect_destinations.pop_front()
    }

    /// Removes and returns the peer whose acknowledgment arrived last. The route to it works (RFC
    /// 4861 §7.3.1).
    pub fn take_progress(&mut self) -> Option<IpAddr> {
        self.progress.take()
    }
}
