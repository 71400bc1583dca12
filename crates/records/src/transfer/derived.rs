//! Values computed from a record when it is displayed: rate, cost, and limiting factor.
//!
//! The real time is the time from the first byte to the last or, if that is unknown, the time of
//! the whole command. All values are integers, rounded down, so that statistics do not depend on
//! the order of evaluation.

use super::enums::{Role, TransferLimit};
use super::schema::Transfer;

const NS_PER_S: u128 = 1_000_000_000;

impl Transfer {
    /// Returns the real time, ns.
    #[must_use]
    pub fn real_ns(&self) -> Option<u64> {
        self.time.transfer_ns.or(self.time.total_ns)
    }

    /// Returns the CPU time, ns.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<u64> {
        self.cpu.cpu_ns.or(match (self.cpu.cpu_user_ns, self.cpu.cpu_sys_ns) {
            (Some(user), Some(system)) => Some(user.saturating_add(system)),
            (one, other) => one.or(other),
        })
    }

    /// Returns the bits of the file, computed from its bytes if they are not recorded.
    #[must_use]
    pub fn bits(&self) -> Option<u64> {
        self.size.bits.or_else(|| self.size.file_bytes?.checked_mul(8))
    }

    /// Returns the rate, bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> Option<u64> {
        rate_bps(self.bits()?, self.real_ns()?)
    }

    /// Returns the CPU time per bit, fs; 10^9 fs are one microsecond, RFC 573's unit.
    #[must_use]
    pub fn cpu_fs_per_bit(&self) -> Option<u64> {
        cpu_fs_per_bit(self.cpu_ns()?, self.bits()?)
    }

    /// Returns whether the program that wrote the record sent the file.
    #[must_use]
    pub fn is_sending(&self) -> Option<bool> {
        Some(self.request.command?.is_sent_by(self.identity.role?))
    }

    /// Returns the program and direction as in RFC 573's table II: `server sending`.
    #[must_use]
    pub fn program_text(&self) -> Option<&'static str> {
        Some(program_text(self.identity.role?, self.is_sending()?))
    }

    /// Returns the limiting factor of the transfer, if the record shows it.
    ///
    /// The limiting factor is the processor if it was busy for four fifths of the time. Otherwise
    /// it is the resource that the transfer waited for in at least half of the time. A receiver
    /// cannot distinguish the network from the peer.
    #[must_use]
    pub fn limit(&self) -> Option<TransferLimit> {
        let real = u128::from(self.real_ns().filter(|real| *real > 0)?);
        let is_half_or_more = |ns: Option<u64>| u128::from(ns.unwrap_or(0)) * 2 >= real;
        let us_to_ns = |time: Option<u64>| time.map(|us| us.saturating_mul(1_000));
        if u128::from(self.cpu_ns().unwrap_or(0)) * 5 >= real * 4 {
            return Some(TransferLimit::Processor);
        }
        let disk = match (self.time.file_read_ns, self.time.file_write_ns) {
            (None, None) => self.time.disk_wait_ns,
            (read, write) => Some(read.unwrap_or(0).saturating_add(write.unwrap_or(0))),
        };
        let peer = us_to_ns(self.tcp.rwnd_limited_us);
        let buffer = us_to_ns(self.tcp.sndbuf_limited_us);
        let busy = us_to_ns(self.tcp.busy_us);
        let network = busy
            .map(|busy| busy.saturating_sub(peer.unwrap_or(0)).saturating_sub(buffer.unwrap_or(0)));
        let is_sending = self.is_sending();
        if is_half_or_more(disk.max(self.time.disk_wait_ns)) {
            Some(TransferLimit::Disk)
        } else if is_sending != Some(true) {
            is_half_or_more(self.time.network_wait_ns).then_some(TransferLimit::Network)
        } else if is_half_or_more(peer) {
            Some(TransferLimit::Peer)
        } else if is_half_or_more(buffer) {
            Some(TransferLimit::Application)
        } else if is_half_or_more(network) {
            Some(TransferLimit::Network)
        } else {
            busy.is_some_and(|busy| u128::from(busy) * 2 < real)
                .then_some(TransferLimit::Application)
        }
    }

    /// Returns the remote host: its name, or else its address without the port.
    #[must_use]
    pub fn remote_host(&self) -> Option<Vec<u8>> {
        let identity = &self.identity;
        let address = || identity.control_remote.or(identity.data_remote);
        let name = identity.remote_name.as_ref().map(|name| name.as_bytes().to_vec());
        name.or_else(|| Some(address()?.ip().to_canonical().to_string().into_bytes()))
    }
}

/// Returns program and direction as in RFC 573's table II.
#[must_use]
pub const fn program_text(role: Role, is_sending: bool) -> &'static str {
    match (role, is_sending) {
        (Role::Server, true) => "server sending",
        (Role::Server, false) => "server receiving",
        (Role::User, true) => "user sending",
        (Role::User, false) => "user receiving",
    }
}

/// Returns the rate of `bits` in `real_ns`, bit/s; `None` if the time is 0.
#[must_use]
pub fn rate_bps(bits: u64, real_ns: u64) -> Option<u64> {
    let rate = (u128::from(bits) * NS_PER_S).checked_div(real_ns.into())?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Returns the CPU time per bit, fs; `None` if `bits` is 0.
#[must_use]
pub fn cpu_fs_per_bit(cpu_ns: u64, bits: u64) -> Option<u64> {
    let cost = (u128::from(cpu_ns) * 1_000_000).checked_div(bits.into())?;
    Some(u64::try_from(cost).unwrap_or(u64::MAX))
}
