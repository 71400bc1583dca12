//! A keyed hash (SipHash-1-3) for initial sequence numbers, ports and cookies. Without the key, no
//! hash can be predicted from other hashes.

use crate::rng::Rng;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use siphasher::sip::SipHasher13;

/// The secret key of this host.
#[derive(Clone, Debug)]
pub(super) struct Key(u64, u64);

impl Key {
    /// Draws a random key.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        Self(rng.next_u64(), rng.next_u64())
    }

    /// Derives a key for one `purpose`. The derived key reveals nothing about `self`.
    pub(super) fn derive(&self, purpose: u8) -> Self {
        let half = |half| self.hash(purpose).word(half).finish();
        Self(half(0), half(1))
    }

    /// Returns the two words of the key, for another hasher.
    pub(super) fn words(&self) -> (u64, u64) {
        (self.0, self.1)
    }

    /// Starts a hash for one `purpose`. Hashes for different purposes are independent.
    pub(super) fn hash(&self, purpose: u8) -> KeyedHash {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write_u8(purpose);
        KeyedHash(hasher)
    }
}

/// A hash under construction.
pub(super) struct KeyedHash(SipHasher13);

impl KeyedHash {
    /// Adds an address to the hash. An IPv4 and an IPv6 address never collide.
    pub(super) fn address(mut self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => {
                self.0.write_u8(4);
                self.0.write(&v4.octets());
            }
            IpAddr::V6(v6) => {
                self.0.write_u8(6);
                self.0.write(&v6.octets());
            }
        }
        self
    }

    /// Adds an address and its port.
    pub(super) fn end(self, end: SocketAddr) -> Self {
        self.address(end.ip()).word(u64::from(end.port()))
    }

    /// Adds a number.
    pub(super) fn word(mut self, word: u64) -> Self {
        self.0.write(&word.to_be_bytes());
        self
    }

    /// Returns the hash.
    pub(super) fn finish(self) -> u64 {
        self.0.finish()
    }
}

/// Returns the low 32 bits.
pub(super) fn low_bits(value: u64) -> u32 {
    let [_, _, _, _, b3, b2, b1, b0] = value.to_be_bytes();
    u32::from_be_bytes([b3, b2, b1, b0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_hash_depends_on_the_purpose_and_on_every_address() {
        let key = Key::draw(&mut Rng::from_seed(1));
        let addresses = ["10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2"];
        let addresses = addresses.map(|text| text.parse::<IpAddr>().unwrap());
        let hashes: BTreeSet<u64> = [1, 2]
            .into_iter()
            .flat_map(|purpose| addresses.map(|it| key.hash(purpose).address(it).finish()))
            .collect();
        assert_eq!(hashes.len(), 8);
    }
}
