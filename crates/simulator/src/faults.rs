//! Faults of a line, drawn from a seed.

use protocols::chance::Chance;
use protocols::time::Duration;

/// Probability of each fault, in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Loss of a datagram, or of a byte on a serial line.
    pub loss_ppm: u32,
    /// Duplication of a datagram, or of a byte on a serial line.
    pub duplication_ppm: u32,
    /// Delay of a datagram, so that later ones overtake it. Does not apply to bytes on a serial
    /// line.
    pub reordering_ppm: u32,
    /// Upper bound of that delay.
    pub held_back: Duration,
    /// Inversion of a bit.
    pub bit_error_ppm: u32,
}

impl Faults {
    /// Applies the faults to `bytes`: returns the copies that arrive, each with its additional
    /// delay.
    pub(crate) fn befall(&self, bytes: Vec<u8>, chance: &mut Chance) -> Vec<(Duration, Vec<u8>)> {
        if chance.happens(self.loss_ppm) {
            return Vec::new();
        }
        let bytes = self.damage(bytes, chance);
        let copies = if chance.happens(self.duplication_ppm) { 2 } else { 1 };
        (0..copies).map(|_| (self.delay(chance), bytes.clone())).collect()
    }

    fn delay(&self, chance: &mut Chance) -> Duration {
        if !chance.happens(self.reordering_ppm) {
            return Duration::ZERO;
        }
        let longest = u64::try_from(self.held_back.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(chance.below(longest))
    }

    fn damage(&self, mut bytes: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
        if self.bit_error_ppm > 0 {
            for byte in &mut bytes {
                for bit in 0..8 {
                    if chance.happens(self.bit_error_ppm) {
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
    fn without_faults_what_is_sent_arrives_once_and_at_once() {
        let arrived = Faults::default().befall(vec![1, 2, 3], &mut Chance::from_seed(1));
        assert_eq!(arrived, [(Duration::ZERO, vec![1, 2, 3])]);
    }

    #[test]
    fn each_fault_happens_as_often_as_it_is_set() {
        let faults = Faults {
            loss_ppm: 100_000,
            duplication_ppm: 100_000,
            reordering_ppm: 100_000,
            held_back: Duration::from_millis(10),
            bit_error_ppm: 1_000,
        };
        let mut chance = Chance::from_seed(1);
        let (mut lost, mut twice, mut late, mut damaged) = (0, 0, 0, 0);
        for _ in 0..100_000 {
            let arrived = faults.befall(vec![0; 10], &mut chance);
            lost += u32::from(arrived.is_empty());
            twice += u32::from(arrived.len() == 2);
            late += u32::from(arrived.first().is_some_and(|(delay, _)| !delay.is_zero()));
            damaged += u32::from(arrived.first().is_some_and(|(_, b)| b.iter().any(|b| *b != 0)));
        }
        assert!((9_500..10_500).contains(&lost), "{lost}");
        assert!((8_500..9_500).contains(&twice), "{twice}");
        assert!((8_500..9_500).contains(&late), "{late}");
        // 1 - 0.999^80 of those that arrive.
        assert!((6_500..7_300).contains(&damaged), "{damaged}");
    }
}
