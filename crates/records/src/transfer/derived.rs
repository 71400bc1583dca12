//! Values computed from a record when it is displayed: rate, cost, and limiting factor.
//!
//! The real time is the time from the first byte to the last or, if that is unknown, the time of
//! the whole command. All values are integers, rounded down, so that statistics do not depend on
//! the order of evaluation.

use super::enums::{Role, TransferLimit};
use super::schema::Transfer;

const NS_PER_S: u128 = 1_000_000_000;
/// A file of at most this size is sent without waiting for an acknowledgment: the initial window of
/// RFC 6928 with segments of 1,460 bytes.
const INITIAL_WINDOW_BYTES: u64 = 14_600;
/// Time below which such a file has no limiting factor. Our choice: on a path with a longer
/// round-trip time, waiting for the network is measurable.
const SHORT_TRANSFER_NS: u64 = 100_000_000;

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
    ///
    /// A short transfer of a small file has none: a processor that copies ten bytes is busy for all of
    /// the time between the first byte and the last, but a faster one would not be noticed.
    #[must_use]
    pub fn limit(&self) -> Option<TransferLimit> {
        let is_small = self.bits().is_some_and(|bits| bits <= 8 * INITIAL_WINDOW_BYTES);
        if is_small && self.real_ns().is_some_and(|real| real < SHORT_TRANSFER_NS) {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{Command, Identifier, Text};

    /// Returns a transfer of a millisecond in which the server sends or receives.
    fn transfer(is_sending: bool) -> Transfer {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.identity.role = Some(Role::Server);
        transfer.request.command = Some(if is_sending { Command::Retr } else { Command::Stor });
        transfer.time.transfer_ns = Some(1_000_000);
        transfer
    }

    fn limit(is_sending: bool, change: impl Fn(&mut Transfer)) -> Option<TransferLimit> {
        let mut transfer = transfer(is_sending);
        change(&mut transfer);
        transfer.limit()
    }

    #[test]
    fn a_processor_that_is_busy_for_four_fifths_limits_a_transfer() {
        let cpu = |ns| limit(true, |one| one.cpu.cpu_ns = Some(ns));
        assert_eq!([799_999, 800_000].map(cpu), [None, Some(TransferLimit::Processor)]);
        let parts = |user, system| {
            limit(true, |one| {
                one.cpu.cpu_user_ns = user;
                one.cpu.cpu_sys_ns = system;
            })
        };
        assert_eq!(parts(Some(300_000), Some(500_000)), Some(TransferLimit::Processor));
        assert_eq!(parts(None, Some(800_000)), Some(TransferLimit::Processor));
        assert_eq!(parts(Some(300_000), None), None);
        assert_eq!([0, 1].map(|ns| limit(true, |one| one.time.transfer_ns = Some(ns))), [None; 2]);
    }

    #[test]
    fn nothing_limits_a_small_file_that_takes_no_noticeable_time() {
        let limit = |bytes, ns| {
            limit(true, |one| {
                one.size.file_bytes = Some(bytes);
                one.time.transfer_ns = Some(ns);
                one.cpu.cpu_ns = Some(ns);
            })
        };
        let processor = Some(TransferLimit::Processor);
        assert_eq!([10, 14_600].map(|bytes| limit(bytes, 1_000_000)), [None; 2]);
        assert_eq!(limit(14_601, 1_000_000), processor);
        assert_eq!([99_999_999, 100_000_000].map(|ns| limit(10, ns)), [None, processor]);
    }

    #[test]
    fn a_wait_of_half_of_the_time_limits_a_transfer() {
        let disk = |ns| limit(true, |one| one.time.disk_wait_ns = Some(ns));
        assert_eq!([499_999, 500_000].map(disk), [None, Some(TransferLimit::Disk)]);
        let files = |read, write| {
            limit(true, |one| {
                one.time.file_read_ns = read;
                one.time.file_write_ns = write;
                one.time.disk_wait_ns = Some(9);
            })
        };
        assert_eq!(files(Some(200_000), Some(300_000)), Some(TransferLimit::Disk));
        assert_eq!(files(Some(499_999), None), None);
        let network = |is_sending, ns| limit(is_sending, |one| one.time.network_wait_ns = Some(ns));
        assert_eq!(
            [499_999, 500_000].map(|ns| network(false, ns)),
            [None, Some(TransferLimit::Network)]
        );
        assert_eq!(network(true, 500_000), None);
    }

    #[test]
    fn a_sender_is_limited_by_the_peer_the_application_or_the_network() {
        let tcp = |peer, buffer, busy| {
            limit(true, |one| {
                one.tcp.rwnd_limited_us = peer;
                one.tcp.sndbuf_limited_us = buffer;
                one.tcp.busy_us = busy;
            })
        };
        let [peer, application, network] =
            [TransferLimit::Peer, TransferLimit::Application, TransferLimit::Network].map(Some);
        assert_eq!([tcp(Some(499), None, None), tcp(Some(500), None, None)], [None, peer]);
        assert_eq!([tcp(None, Some(499), None), tcp(None, Some(500), None)], [None, application]);
        assert_eq!(
            [tcp(None, None, Some(499)), tcp(None, None, Some(500))],
            [application, network]
        );
        assert_eq!(tcp(Some(100), Some(200), Some(800)), network);
        assert_eq!(tcp(Some(100), Some(200), Some(799)), None);
        assert_eq!(tcp(Some(500), Some(500), Some(900)), peer);
    }

    #[test]
    fn bits_rate_and_cost_are_computed_from_the_known_values() {
        let mut one = transfer(true);
        one.size.file_bytes = Some(1_000);
        one.cpu.cpu_ns = Some(4_000);
        assert_eq!((one.bits(), one.rate_bps()), (Some(8_000), Some(8_000_000)));
        assert_eq!(one.cpu_fs_per_bit(), Some(500_000));
        one.size.bits = Some(7);
        one.time.total_ns = Some(9);
        assert_eq!((one.bits(), one.real_ns()), (Some(7), Some(1_000_000)));
        one.time.transfer_ns = None;
        assert_eq!(one.real_ns(), Some(9));
        assert_eq!((rate_bps(1, 0), cpu_fs_per_bit(1, 0)), (None, None));
        assert_eq!((rate_bps(3, 1), cpu_fs_per_bit(3, 1)), (Some(3_000_000_000), Some(3_000_000)));
        assert_eq!(rate_bps(u64::MAX, 1), Some(u64::MAX));
    }

    #[test]
    fn a_host_is_named_or_has_an_address_without_its_port() {
        let mut one = transfer(true);
        assert_eq!(one.remote_host(), None);
        one.identity.data_remote = Some("[::ffff:10.0.0.2]:20".parse().unwrap());
        assert_eq!(one.remote_host(), Some(b"10.0.0.2".to_vec()));
        one.identity.control_remote = Some("10.0.0.1:21".parse().unwrap());
        assert_eq!(one.remote_host(), Some(b"10.0.0.1".to_vec()));
        one.identity.remote_name = Some(Text::from("a.example"));
        assert_eq!(one.remote_host(), Some(b"a.example".to_vec()));
        assert_eq!((one.is_sending(), one.program_text()), (Some(true), Some("server sending")));
        assert_eq!(transfer(false).program_text(), Some("server receiving"));
        let texts = [true, false].map(|is_sending| program_text(Role::User, is_sending));
        assert_eq!(texts, ["user sending", "user receiving"]);
    }
}
