//! Status of a login: the remote host, the traffic, and the request for a status page.

use net::Cx;
use net::meter::Account;
use net::time::Instant;
use os::clock::{Calibration, TickRate};

/// Traffic of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoginTraffic {
    /// Time at which the connection opened.
    pub(super) opened_at: Option<Instant>,
    /// Bytes received, including Telnet commands.
    pub(super) bytes_in: u64,
    /// Bytes sent, including Telnet commands.
    pub(super) bytes_out: u64,
}

/// A pending request for the status of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusRequest {
    /// Time of the request.
    pub(super) now: Instant,
    /// Ticks charged to each account of the meter at the time of the request.
    pub(super) accounts: [u64; Account::COUNT],
}

/// Status part of a login.
pub(super) struct SessionStatus {
    /// Description of the remote host and the route.
    peer: String,
    traffic: LoginTraffic,
    /// Time of the last key for the remote host, or of its last data.
    active_at: Option<Instant>,
    /// Status request from the prompt, to be answered by the carrier.
    request: Option<StatusRequest>,
    calibration: Calibration,
}

impl SessionStatus {
    /// Creates the status of a session that has not begun; `peer` describes the remote host.
    pub(super) fn new(peer: String) -> Self {
        let traffic = LoginTraffic::default();
        Self { peer, traffic, active_at: None, request: None, calibration: Calibration::start() }
    }

    /// Returns the description of the remote host and the route.
    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    /// Returns the description of the remote host, for a new connection to it.
    pub(super) fn into_peer(self) -> String {
        self.peer
    }

    /// Returns the traffic.
    pub(super) fn traffic(&self) -> &LoginTraffic {
        &self.traffic
    }

    /// Records that the connection has opened.
    pub(super) fn opened(&mut self, now: Instant) {
        self.traffic.opened_at = Some(now);
    }

    /// Counts received bytes.
    pub(super) fn received(&mut self, count: usize, now: Instant) {
        self.traffic.bytes_in += count as u64;
        self.active_at = Some(now);
    }

    /// Records that a key for the remote host was typed.
    pub(super) fn key_typed(&mut self, now: Instant) {
        self.active_at = Some(now);
    }

    /// Returns the time of the last key for the remote host, or of its last data.
    pub(super) fn active_at(&self) -> Option<Instant> {
        self.active_at
    }

    /// Counts sent bytes.
    pub(super) fn sent(&mut self, count: usize) {
        self.traffic.bytes_out += count as u64;
    }

    /// Requests a status page.
    pub(super) fn request(&mut self, cx: &mut Cx<'_>) {
        cx.meter.settle();
        self.request = Some(StatusRequest { now: cx.now, accounts: cx.meter.accounts() });
    }

    /// Returns whether a status page is requested.
    pub(super) fn is_requested(&self) -> bool {
        self.request.is_some()
    }

    /// Returns and removes the request for a status page.
    pub(super) fn take_request(&mut self) -> Option<StatusRequest> {
        self.request.take()
    }

    /// Returns the duration of a tick of the meter's clock, measured since the session was created.
    pub(super) fn tick_rate(&self) -> TickRate {
        self.calibration.finish()
    }
}
