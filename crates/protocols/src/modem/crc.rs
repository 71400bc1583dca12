//! The CRC of 16 bits of XMODEM, YMODEM and ZMODEM (polynomial x^16 + x^12 + x^5 + 1, initially 0,
//! most significant bit first), and the CRC-32 of ZMODEM (IEEE 802.3).

const TABLE_16: [u16; 256] = table_16();
const TABLE_32: [u32; 256] = table_32();

#[expect(clippy::indexing_slicing, reason = "a constant expression; the index is below 256")]
const fn table_16() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "a constant expression; the index is below 256")]
const fn table_32() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte: u32 = 0;
    while byte < 256 {
        let mut crc = byte;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xedb8_8320 };
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

/// Returns the CRC of 16 bits of the bytes that had the CRC `crc`, followed by `bytes`.
pub(crate) fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, byte| {
        let [high, _] = crc.to_be_bytes();
        crc << 8 ^ TABLE_16.get(usize::from(high ^ byte)).copied().unwrap_or(0)
    })
}

/// Returns the CRC of 16 bits of `bytes`.
pub(crate) fn crc16_of(bytes: &[u8]) -> u16 {
    crc16(0, bytes)
}

/// A CRC-32 in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Crc32 {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |crc, byte| {
            let [low, ..] = crc.to_le_bytes();
            crc >> 8 ^ TABLE_32.get(usize::from(low ^ byte)).copied().unwrap_or(0)
        });
    }

    /// Returns the CRC of the bytes so far.
    #[must_use]
    pub const fn value(self) -> u32 {
        !self.0
    }

    /// Returns the CRC of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u32 {
        let mut crc = Self::default();
        crc.update(bytes);
        crc.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_both_crcs_are_those_of_the_catalogue() {
        assert_eq!(crc16_of(b"123456789"), 0x31c3);
        assert_eq!(Crc32::of(b"123456789"), 0xcbf4_3926);
    }
}
