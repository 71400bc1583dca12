//! Random faults of a line.

use net::rng::Rng;
use net::time::Duration;

/// Probability of each fault, in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Loss of a datagram, or of a byte on a serial line.
    pub loss_ppm: u32,
    /// Duplication of a datagram, or of a byte on a serial line.
    pub duplication_ppm: u32,
    /// Delay of a datagram, so that later datagrams overtake it. Does not apply to bytes on a
    /// serial line.
    pub reordering_ppm: u32,
    /// Maximum delay of a reordered datagram.
    pub reordering_delay_max: Duration,
    /// Inversion of a bit.
    pub bit_error_ppm: u32,
}

impl Faults {
    /// Applies the faults to `bytes`: returns the copies that arrive, each with its additional
    /// delay.
    pub(crate) fn apply(&self, bytes: Vec<u8>, rng: &mut Rng) -> Vec<(Duration, Vec<u8>)> {
        if rng.random_bool(self.loss_ppm) {
            return Vec::new();
        }
        let bytes = self.damage(bytes, rng);
        let copies = if rng.random_bool(self.duplication_ppm) { 2 } else { 1 };
        (0..copies).map(|_| (self.delay(rng), bytes.clone())).collect()
    }

    fn delay(&self, rng: &mut Rng) -> Duration {
        if !rng.random_bool(self.reordering_ppm) {
            return Duration::ZERO;
        }
        let longest = u64::try_from(self.reordering_delay_max.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(rng.below(longest))
    }

    fn damage(&self, mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
        if self.bit_error_ppm > 0 {
            for byte in &mut bytes {
                for bit in 0..8 {
                    if rng.random_bool(self.bit_error_ppm) {
                        *byte ^= 1 << bit;
                    }
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_faults_bytes_arrive_once_and_without_delay() {
        let arrived = Faults::default().apply(vec![1, 2, 3], &mut Rng::from_seed(1));
        assert_eq!(arrived, [(Duration::ZERO, vec![1, 2, 3])]);
    }

    #[test]
    fn each_fault_occurs_with_its_configured_probability() {
        let faults = Faults {
            loss_ppm: 100_000,
            duplication_ppm: 100_000,
            reordering_ppm: 100_000,
            reordering_delay_max: Duration::from_millis(10),
            bit_error_ppm: 1_000,
        };
        let mut rng = Rng::from_seed(1);
        let mut lost = 0;
        let mut duplicated = 0;
        let mut delayed = 0;
        let mut damaged = 0;
        for _ in 0..100_000 {
            let arrived = faults.apply(vec![0; 10], &mut rng);
            lost += u32::from(arrived.is_empty());
            duplicated += u32::from(arrived.len() == 2);
            delayed += u32::from(arrived.first().is_some_and(|(delay, _)| !delay.is_zero()));
            damaged += u32::from(arrived.first().is_some_and(|(_, b)| b.iter().any(|b| *b != 0)));
        }
        assert!((9_500..10_500).contains(&lost), "{lost}");
        assert!((8_500..9_500).contains(&duplicated), "{duplicated}");
        assert!((8_500..9_500).contains(&delayed), "{delayed}");
        // Of the datagrams that arrive, the fraction 1 - 0.999^80 is damaged.
        assert!((6_500..7_300).contains(&damaged), "{damaged}");
    }
}
