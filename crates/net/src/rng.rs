//! A seeded pseudorandom number generator: the same seed reproduces the same run.
//!
//! xoshiro256** seeded by splitmix64 (Blackman and Vigna). It serves simulation, ports and jitter.
//! It is not cryptographically secure: an observer of enough of its output can compute the rest.
//! The key of the initial sequence numbers is the first number drawn from the generator. On a real
//! network the driver must obtain the 64-bit seed from the operating system. The key is as strong
//! as the seed, as long as no attacker has collected many of the ports drawn later.

/// A seeded pseudorandom number generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Returns a generator whose sequence is determined by `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut mixed = seed;
        let mut next = || {
            mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Self { state: [next(), next(), next(), next()] }
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// Returns the next 32 bits, the upper half of [`Self::next_u64`].
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Returns a number from 0 up to, not including, `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(limit);
        (product >> 64) as u64
    }

    /// Returns true with a probability of `parts_per_million` in a million.
    pub fn random_bool(&mut self, parts_per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(parts_per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let mut a = Rng::from_seed(7);
        let mut b = Rng::from_seed(7);
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
    }

    #[test]
    fn a_rate_of_one_in_ten_is_met_within_one_percent_of_a_million_tries() {
        let mut rng = Rng::from_seed(1);
        let hits = (0..1_000_000).filter(|_| rng.random_bool(100_000)).count();
        assert!((99_000..=101_000).contains(&hits), "{hits}");
    }
}
