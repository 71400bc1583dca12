//! Initial sequence numbers (RFC 6528): a clock plus a keyed hash of the two ends. Without the key,
//! the next initial sequence number cannot be computed from earlier ones (MUST-8, MUST-9; row 31 of
//! the attack table).

use super::keyed_hash::{Key, low_bits};
use super::seq::Seq;
use crate::rng::Rng;
use crate::time::Instant;
use core::net::SocketAddr;

/// The secret of this host.
#[derive(Clone, Debug)]
pub(super) struct Secret {
    key: Key,
    /// Start value of the clock. RFC 6528 §3 does not specify it.
    pub(super) clock_start: u32,
}

/// Purposes of the keys that are derived from the secret. A derived key reveals nothing about the
/// initial sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Table = 2,
    Ports = 3,
    SynCookies = 4,
    FastOpen = 5,
}

impl Secret {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let key = Key::draw(rng);
        let clock_start = low_bits(key.hash(6).finish());
        Self { key, clock_start }
    }

    /// Returns the initial sequence number of a connection that is opened now.
    pub(super) fn isn(&self, local: SocketAddr, remote: SocketAddr, now: Instant) -> Seq {
        // The clock of RFC 9293 §3.4.1 ticks every 4 microseconds.
        let clock = low_bits(now.as_nanos() / 4_000).wrapping_add(self.clock_start);
        Seq(clock.wrapping_add(low_bits(self.hash(local, remote, 0))))
    }

    /// Returns the start value of a connection's timestamp clock.
    pub(super) fn timestamp_offset(&self, local: SocketAddr, remote: SocketAddr) -> u32 {
        low_bits(self.hash(local, remote, 1))
    }

    /// Returns the derived key for `purpose`.
    pub(super) fn key_for(&self, purpose: Purpose) -> Key {
        self.key.derive(purpose as u8)
    }

    fn hash(&self, local: SocketAddr, remote: SocketAddr, purpose: u8) -> u64 {
        self.key.hash(purpose).end(local).end(remote).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    // req RFC9293:MUST-8
    #[test]
    fn numbers_differ_between_ports_and_move_with_the_clock() {
        let secret = Secret::draw(&mut Rng::from_seed(1));
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 23));
        let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 4001));
        let isn = secret.isn(local, remote, Instant::ZERO);
        assert_ne!(isn, secret.isn(other, remote, Instant::ZERO));
        let later = secret.isn(local, remote, Instant::from_nanos(8_000));
        assert_eq!(later.since(isn), 2);
    }

    #[test]
    fn the_offset_of_timestamps_does_not_reveal_that_of_sequence_numbers() {
        let secret = Secret::draw(&mut Rng::from_seed(1));
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 23));
        let isn = secret.isn(local, remote, Instant::ZERO);
        let offset = isn.0.wrapping_sub(secret.clock_start);
        assert_ne!(offset, secret.timestamp_offset(local, remote));
    }
}
