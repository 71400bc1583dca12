//! Random times for simulations.

use net::rng::Rng;
use net::time::Duration;

/// Returns a random time from the exponential distribution with this mean.
pub(crate) fn exponential_time(mean: Duration, rng: &mut Rng) -> Duration {
    const PARTS: u64 = 1 << 40;
    let part = (rng.below(PARTS) + 1) as f64 / PARTS as f64;
    mean.mul_f64((-part.ln()).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_of_many_samples_is_the_mean() {
        let mut rng = Rng::from_seed(1);
        let mean = Duration::from_secs(100);
        let total: Duration = (0..10_000).map(|_| exponential_time(mean, &mut rng)).sum();
        assert!((98.0..102.0).contains(&(total.as_secs_f64() / 10_000.0)), "{total:?}");
    }
}
