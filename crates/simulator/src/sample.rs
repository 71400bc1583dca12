//! Random times drawn from a seed.

use protocols::chance::Chance;
use protocols::time::Duration;

/// Draws an exponentially distributed time with this mean.
pub(crate) fn without_memory(mean: Duration, chance: &mut Chance) -> Duration {
    const PARTS: u64 = 1 << 40;
    let part = (chance.below(PARTS) + 1) as f64 / PARTS as f64;
    mean.mul_f64((-part.ln()).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_many_is_the_mean() {
        let (mut chance, mean) = (Chance::from_seed(1), Duration::from_secs(100));
        let total: Duration = (0..10_000).map(|_| without_memory(mean, &mut chance)).sum();
        assert!((98.0..102.0).contains(&(total.as_secs_f64() / 10_000.0)), "{total:?}");
    }
}
