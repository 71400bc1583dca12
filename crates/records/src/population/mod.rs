//! Synthetic transfers, drawn from a seed: for tests, benchmarks and examples.
//!
//! The same seed gives the same transfers. Sizes span six powers of ten. A transfer takes a fixed
//! time plus a time that grows with its size, and some transfers do not complete.

pub mod rfc573;

use crate::transfer::{
    Command, Format, Identifier, Mode, Outcome, Role, Stack, Structure, Text, Transfer, Type,
};
use std::net::{Ipv4Addr, SocketAddr};

/// Start time of the first transfer: 1 November 2026, ns of Unix time.
pub const START_UNIX_NS: u64 = 1_793_491_200_000_000_000;

/// Parameters of the synthetic transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Seed of the random number generator.
    pub seed: u64,
    /// Number of remote hosts.
    pub hosts: u64,
    /// Number of users.
    pub users: u64,
    /// Interval between the starts of two transfers, ns.
    pub every_ns: u64,
}

/// An infinite sequence of transfers.
#[derive(Clone, Debug)]
pub struct Population {
    settings: Settings,
    random: u64,
    generated_count: u64,
}

impl Population {
    /// Returns the transfers of `settings`, in order of their start.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, random: settings.seed, generated_count: 0 }
    }

    /// Returns the next random number below `limit`, which must not be 0 (SplitMix64).
    fn next_below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit.max(1)
    }

    fn size_bytes(&mut self) -> u64 {
        let digits = self.next_below(20);
        (32 << digits) + self.next_below(32 << digits)
    }

    fn outcome(&mut self) -> Outcome {
        match self.next_below(100) {
            0..97 => Outcome::Complete,
            97 => Outcome::AbortedByPeer,
            98 => Outcome::Timeout,
            _ => Outcome::AbortedByUser,
        }
    }
}

impl Iterator for Population {
    type Item = Transfer;

    fn next(&mut self) -> Option<Transfer> {
        let Settings { hosts, users, every_ns, .. } = self.settings;
        let start = START_UNIX_NS + self.generated_count * every_ns;
        self.generated_count += 1;
        let mut transfer = Transfer::new(Identifier::new(start, self.next_below(u64::MAX)));
        let host = self.next_below(hosts);
        let user = self.next_below(users);
        let host = u32::try_from(host).unwrap_or(0);
        let role = self.next_below(4);
        let is_get = self.next_below(3) > 0;
        let identity = &mut transfer.identity;
        identity.role = Some(if role == 0 { Role::User } else { Role::Server });
        identity.session_id = Some(Identifier(u128::from(self.generated_count / 8)));
        identity.seq = Some(self.generated_count % 8 + 1);
        identity.program = Some(Text::from("plumb"));
        identity.stack = Some(Stack::Kernel);
        let remote_ip = Ipv4Addr::from(0x0a00_0000 | host);
        identity.control_remote = Some(SocketAddr::from((remote_ip, 21)));
        identity.remote_name = Some(Text::from(&format!("host-{host}.example")));
        identity.user = Some(Text::from(&format!("user-{user}")));

        let bytes = self.size_bytes();
        let is_text = self.next_below(5) == 0;
        let request = &mut transfer.request;
        request.command = Some(if is_get { Command::Retr } else { Command::Stor });
        request.representation = Some(if is_text { Type::Ascii } else { Type::Image });
        request.format = is_text.then_some(Format::NonPrint);
        request.byte_size = Some(8);
        request.mode = Some(Mode::Stream);
        request.structure = Some(Structure::File);
        let path = format!("pub/file-{}.tar", self.generated_count);
        request.path_requested = Some(Text::from(&path));
        let outcome = self.outcome();
        transfer.result.outcome = Some(outcome);
        transfer.result.final_reply = Some(if outcome == Outcome::Complete { 226 } else { 426 });

        // 0.5 ms to 0.7 ms fixed, plus 8 ns to 16 ns per byte.
        let real_ns = 500_000 + self.next_below(200_000) + bytes * (8 + self.next_below(9));
        transfer.size.file_bytes = Some(bytes);
        transfer.size.wire_bytes = Some(bytes);
        transfer.size.bits = Some(bytes * 8);
        transfer.time.start_unix_ns = Some(start);
        transfer.time.transfer_ns = Some(real_ns);
        transfer.time.total_ns = Some(real_ns + 300_000);
        transfer.cpu.cpu_user_ns = Some(20_000 + bytes * if is_text { 2 } else { 0 });
        transfer.cpu.cpu_sys_ns = Some(40_000 + self.next_below(9_000) + bytes / 5);
        transfer.tcp.rtt_us = Some(200 + self.next_below(400));
        transfer.tcp.busy_us = Some(real_ns / 1_000 * (20 + self.next_below(75)) / 100);
        transfer.tcp.rwnd_limited_us =
            Some(if host.is_multiple_of(7) { real_ns / 1_500 } else { 0 });
        transfer.tcp.bytes_retrans = Some(if self.next_below(50) == 0 { 1_448 } else { 0 });
        Some(transfer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_transfers() {
        let settings = Settings { seed: 7, hosts: 5, users: 3, every_ns: 1_000 };
        let [one, other] = [(); 2].map(|()| Population::new(settings).take(50).collect::<Vec<_>>());
        assert_eq!(one, other);
        assert!(one.iter().is_sorted_by_key(|transfer| transfer.record_id));
    }

    /// Returns a checksum of the lines of `transfers` (FNV-1a).
    pub(super) fn checksum(transfers: &[Transfer]) -> u64 {
        let lines: String = transfers.iter().map(Transfer::to_line).collect();
        lines.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn the_transfers_of_a_seed_never_change() {
        let settings = Settings { seed: 7, hosts: 50, users: 3, every_ns: 1_000 };
        let transfers: Vec<Transfer> = Population::new(settings).take(2_000).collect();
        let first = &transfers[0];
        assert_eq!(first.time.start_unix_ns, Some(START_UNIX_NS));
        assert_eq!(transfers[9].time.start_unix_ns, Some(START_UNIX_NS + 9_000));
        assert_eq!(checksum(&transfers), 0xcdfc_705d_2d4d_91cb);
        // Sizes span six powers of ten.
        let sizes = transfers.iter().filter_map(|one| one.size.file_bytes);
        assert_eq!(sizes.clone().min().map(u64::ilog2), Some(5));
        assert_eq!(sizes.max().map(u64::ilog2), Some(24));
    }
}
