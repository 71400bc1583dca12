//! The random number generator of the generated cases: SplitMix64 (Steele, Lea and Flood, OOPSLA
//! 2014), seeded. The product does not use it, so that a change of the product's generators does
//! not change the cases of a seed.

/// A deterministic sequence of numbers.
#[derive(Clone, Debug)]
pub(super) struct Rng {
    state: u64,
}

impl Rng {
    /// Returns the generator of the random stream number `stream` of `seed`.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self { state: seed };
        rng.state = rng.next() ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        rng.next();
        rng
    }

    /// Returns the next 64 random bits.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number in the range [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns `true` with this probability.
    pub(super) fn is(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns a number from `min` to `max` whose logarithm is uniformly distributed.
    pub(super) fn log_uniform(&mut self, min: u64, max: u64) -> u64 {
        let low = (min.max(1) as f64).ln();
        let high = (max.max(1) as f64).ln();
        let drawn = (low + self.unit() * (high - low)).exp();
        rounded(drawn).clamp(min, max)
    }

    /// Returns one element of `all`, or `None` if it is empty.
    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        all.get(usize::try_from(self.next() % count).ok()?)
    }
}

/// Returns the nearest whole number, or 0 for a negative `value`.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
#[expect(clippy::cast_sign_loss, reason = "negative values become 0")]
pub(super) fn rounded(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_streams_differ() {
        let numbers = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.next(), rng.next(), rng.next()]
        };
        assert_eq!(numbers(1, 7), numbers(1, 7));
        assert_ne!(numbers(1, 7), numbers(1, 8));
        assert_ne!(numbers(1, 7), numbers(2, 7));
    }

    #[test]
    fn a_log_uniform_number_is_below_the_geometric_mean_half_of_the_time() {
        let mut rng = Rng::new(1, 0);
        let drawn: Vec<u64> = (0..10_000).map(|_| rng.log_uniform(10, 1_000)).collect();
        assert!(drawn.iter().all(|number| (10..=1_000).contains(number)));
        let below = drawn.iter().filter(|number| **number < 100).count();
        assert!((4_800..5_200).contains(&below), "{below}");
    }

    #[test]
    fn an_event_happens_as_often_as_its_probability_says() {
        let mut rng = Rng::new(3, 0);
        let count = (0..100_000).filter(|_| rng.is(0.05)).count();
        assert!((4_700..5_300).contains(&count), "{count}");
    }
}
