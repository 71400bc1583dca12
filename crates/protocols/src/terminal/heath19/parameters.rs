//! The parameters of a control sequence in ANSI mode.
//!
//! A sequence has at most 15 parameters, separated by semicolons. They are decimal 8-bit numbers
//! that wrap around. Any other byte is the final byte, even a control. As in the original terminal,
//! the final byte is stored in the work area after the parameters. A parameter list therefore ends
//! at the first value equal to the final byte. A cursor position with one parameter uses the final
//! byte as the column.

/// Capacity of the work area in bytes, including the final byte.
const WORK_MAX: usize = 16;

/// The parameters received so far of one control sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// The private prefix, `?` or `>`.
    pub(super) prefix: Option<u8>,
    work: [u8; WORK_MAX],
    at: usize,
    /// Whether a digit was received. A semicolon before the first digit is the final byte, not a
    /// separator.
    pub(super) has_received_byte: bool,
    pub(super) has_number: bool,
    /// Whether the number being read has at least one digit so far.
    is_building: bool,
}

impl Parameters {
    /// Returns an empty list after a private prefix.
    pub(super) fn with_prefix(prefix: u8) -> Self {
        Self { prefix: Some(prefix), ..Self::default() }
    }

    pub(super) fn digit(&mut self, digit: u8) {
        if let Some(number) = self.work.get_mut(self.at) {
            *number = number.wrapping_mul(10).wrapping_add(digit);
        }
        self.has_received_byte = true;
        self.has_number = true;
        self.is_building = true;
    }

    pub(super) fn separator(&mut self) {
        // The last two entries are reserved for the last number and the final byte: further numbers
        // replace the last one.
        if self.at + 2 < WORK_MAX {
            self.at += 1;
        }
        if let Some(number) = self.work.get_mut(self.at) {
            *number = 0;
        }
        self.is_building = false;
    }

    pub(super) fn end(&mut self, last: u8) {
        self.at += usize::from(self.is_building);
        if let Some(place) = self.work.get_mut(self.at) {
            *place = last;
        }
    }

    pub(super) fn get(&self, place: usize) -> u8 {
        self.work.get(place).copied().unwrap_or(0)
    }

    pub(super) fn first(&self) -> Option<u8> {
        self.has_number.then(|| self.get(0))
    }

    /// Returns the first number; 0 or a missing number means 1.
    pub(super) fn count(&self) -> usize {
        self.first().unwrap_or(0).max(1).into()
    }

    /// Returns the numbers before the final byte `last`. A number equal to the final byte also ends
    /// the list.
    pub(super) fn list(&self, last: u8) -> impl Iterator<Item = u8> {
        let numbers = self.work.iter().copied().take_while(move |number| *number != last);
        numbers.take(if self.has_number { WORK_MAX } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixteenth_number_replaces_the_fifteenth_and_precedes_the_final_byte() {
        let mut parameters = Parameters::default();
        for digit in 1..=16 {
            parameters.digit(digit);
            if digit < 16 {
                parameters.separator();
            }
        }
        parameters.end(b'm');
        assert_eq!([13, 14, 15].map(|place| parameters.get(place)), [14, 16, b'm']);
    }
}
