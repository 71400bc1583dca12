//! Initial sequence numbers (RFC 6528): a clock plus a keyed hash of the two ends, so that nobody
//! outside can compute the next one from the last (MUST-8, MUST-9; attack row 31).

use super::seq::Seq;
use crate::chance::Chance;
use crate::time::Instant;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use siphasher::sip::SipHasher13;

/// What only this host knows.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    key: (u64, u64),
}

impl Secret {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        Self { key: (chance.next_u64(), chance.next_u64()) }
    }

    /// Returns the initial sequence number of a connection that is opened now.
    pub(super) fn isn(&self, local: SocketAddr, remote: SocketAddr, now: Instant) -> Seq {
        // The clock of RFC 9293 §3.4.1 ticks every 4 microseconds.
        let clock = low_bits(now.as_nanos() / 4_000);
        Seq(clock.wrapping_add(low_bits(self.hash(local, remote, 0))))
    }

    /// Returns where the timestamp clock of a connection starts.
    pub(super) fn timestamp_offset(&self, local: SocketAddr, remote: SocketAddr) -> u32 {
        low_bits(self.hash(local, remote, 1))
    }

    /// Returns a key for the table of connections, which tells nothing about the numbers.
    pub(super) fn table_key(&self) -> (u64, u64) {
        let half = |use_: u8| {
            let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
            hasher.write_u8(use_);
            hasher.finish()
        };
        (half(2), half(3))
    }

    fn hash(&self, local: SocketAddr, remote: SocketAddr, use_: u8) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        hasher.write_u8(use_);
        for end in [local, remote] {
            match end.ip() {
                IpAddr::V4(address) => hasher.write(&address.octets()),
                IpAddr::V6(address) => hasher.write(&address.octets()),
            }
            hasher.write(&end.port().to_be_bytes());
        }
        hasher.finish()
    }
}

fn low_bits(value: u64) -> u32 {
    let [_, _, _, _, b3, b2, b1, b0] = value.to_be_bytes();
    u32::from_be_bytes([b3, b2, b1, b0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn numbers_differ_between_ports_and_move_with_the_clock() {
        let secret = Secret::draw(&mut Chance::from_seed(1));
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 23));
        let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 4001));
        let isn = secret.isn(local, remote, Instant::ZERO);
        assert_ne!(isn, secret.isn(other, remote, Instant::ZERO));
        let later = secret.isn(local, remote, Instant::from_nanos(8_000));
        assert_eq!(later.since(isn), 2);
    }
}
