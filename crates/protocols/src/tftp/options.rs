//! Option negotiation before the first block: RFC 2347, with blksize (RFC 2348), timeout and tsize
//! (RFC 2349) and windowsize (RFC 7440).
//!
//! An option is a name and a value, each terminated by NUL. A server answers with the options that
//! it accepts. It may lower the block size and the window size, fills in the file size of a read,
//! and omits options that it does not know or accept. A value outside the range of its RFC is
//! treated as if the option were absent.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// Block size in bytes without negotiation (RFC 1350).
pub const BLOCK_SIZE_DEFAULT: u16 = 512;
const BLOCK_SIZES: RangeInclusive<u16> = 8..=65_464;
const TIMEOUTS_S: RangeInclusive<u8> = 1..=255;
/// Memory in bytes that we assume a Linux kernel charges for a datagram in addition to its content.
const DATAGRAM_CHARGE_BYTES: usize = 768;
/// Maximum window size in blocks (our choice): half of all block numbers, so that earlier and later
/// blocks cannot be confused.
const WINDOW_SIZE_MAX: u16 = 32_767;

/// Options of a request or of its answer; `None` means absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Block size in bytes, 8 to 65,464 (RFC 2348).
    pub block_size: Option<u16>,
    /// Seconds before a packet is retransmitted, 1 to 255 (RFC 2349).
    pub timeout_s: Option<u8>,
    /// File size in bytes; 0 in a read request asks for the size (RFC 2349).
    pub transfer_size: Option<u64>,
    /// Window size in blocks, from 1 (RFC 7440).
    pub window_size: Option<u16>,
}

/// Reason why bytes cannot be parsed as options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsError {
    /// A name or a value lacks its terminating NUL.
    Unterminated,
}

/// Maximum values that a server agrees to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum block size in bytes; blocks that fit the path MTU avoid fragmentation.
    pub block_size_max: u16,
    /// Maximum window size in blocks.
    pub window_size_max: u16,
    /// Maximum window size in bytes: the capacity of the receiving socket.
    pub window_max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { block_size_max: 65_464, window_size_max: 64, window_max_bytes: 65_536 }
    }
}

/// Parameters that both ends have agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedParameters {
    /// Size of a full block in bytes.
    pub block_size: u16,
    /// Window size: number of blocks before an acknowledgment.
    pub window_size: u16,
    /// Seconds before a packet is retransmitted, or `None` to use the measured round trip.
    pub timeout_s: Option<u8>,
    /// File size in bytes, if the sender reported it. In netascii the number of bytes sent differs.
    pub transfer_size: Option<u64>,
}

/// Returns the largest window, at least one block, that fits a socket buffer of
/// `receive_buffer_bytes`.
///
/// The kernel charges each datagram for its bookkeeping and rounds its memory up to a power of two.
#[must_use]
pub fn window_size_for(receive_buffer_bytes: usize, block_size: u16) -> u16 {
    let charged_bytes = 2 * usize::from(block_size) + DATAGRAM_CHARGE_BYTES;
    let blocks = receive_buffer_bytes / charged_bytes;
    u16::try_from(blocks).unwrap_or(u16::MAX).clamp(1, WINDOW_SIZE_MAX)
}

impl Options {
    /// Parses the options of an OACK, or the options after the mode of a request.
    ///
    /// # Errors
    ///
    /// Returns [`OptionsError::Unterminated`] if a name or a value lacks its NUL.
    pub fn parse(mut bytes: &[u8]) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        while !bytes.is_empty() {
            let (name, rest) = next_string(bytes).ok_or(OptionsError::Unterminated)?;
            let (value, rest) = next_string(rest).ok_or(OptionsError::Unterminated)?;
            options.set(name, value);
            bytes = rest;
        }
        Ok(options)
    }

    /// Sets one option. Each option may occur once (RFC 2347); the first occurrence counts.
    fn set(&mut self, name: &[u8], value: &[u8]) {
        let number = core::str::from_utf8(value).ok().and_then(number);
        match name.to_ascii_lowercase().as_slice() {
            b"blksize" => set_first_valid(&mut self.block_size, number, &BLOCK_SIZES),
            b"timeout" => set_first_valid(&mut self.timeout_s, number, &TIMEOUTS_S),
            b"tsize" => set_first_valid(&mut self.transfer_size, number, &(0..=u64::MAX)),
            b"windowsize" => set_first_valid(&mut self.window_size, number, &(1..=u16::MAX)),
            _ => {}
        }
    }

    /// Appends the options in wire format.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let values = [
            ("blksize", self.block_size.map(u64::from)),
            ("timeout", self.timeout_s.map(u64::from)),
            ("tsize", self.transfer_size),
            ("windowsize", self.window_size.map(u64::from)),
        ];
        for (name, value) in values {
            let Some(value) = value else { continue };
            out.extend_from_slice(name.as_bytes());
            out.push(0);
            out.extend_from_slice(value.to_string().as_bytes());
            out.push(0);
        }
    }

    /// Returns whether no option is present.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a server's answer to these options: the OACK and the parameters that it agrees to.
    ///
    /// `file_bytes` is the size of a file that is to be read, if known. For a write, the size is
    /// the user's claim, which the owner has already checked.
    #[must_use]
    pub fn grant(&self, limits: &Limits, file_bytes: Option<u64>) -> (Self, AgreedParameters) {
        let block_size =
            self.block_size.map(|requested| requested.min(limits.block_size_max.max(8)));
        let bytes = usize::from(block_size.unwrap_or(BLOCK_SIZE_DEFAULT));
        let buffer_blocks = u16::try_from(limits.window_max_bytes / bytes).unwrap_or(u16::MAX);
        let window_size_max = limits.window_size_max.min(buffer_blocks).clamp(1, WINDOW_SIZE_MAX);
        let answer = Self {
            block_size,
            timeout_s: self.timeout_s,
            transfer_size: self.transfer_size.and(file_bytes),
            window_size: self.window_size.map(|requested| requested.min(window_size_max)),
        };
        (answer, answer.agreed())
    }

    /// Returns the parameters that `answer` establishes for the user, or `None` if the answer is
    /// invalid: it has an option that was not requested, or a value above the requested one
    /// (RFC 2347, 2348, 7440).
    pub(super) fn agreed_with(&self, answer: &Self) -> Option<AgreedParameters> {
        let is_within_request = is_at_most(answer.block_size, self.block_size)
            && is_at_most(answer.window_size, self.window_size)
            && (answer.timeout_s.is_none() || answer.timeout_s == self.timeout_s)
            && (answer.transfer_size.is_none() || self.transfer_size.is_some());
        is_within_request.then(|| answer.agreed())
    }

    /// Returns the parameters that this answer establishes. Without options they are the parameters
    /// of RFC 1350.
    pub(super) fn agreed(&self) -> AgreedParameters {
        AgreedParameters {
            block_size: self.block_size.unwrap_or(BLOCK_SIZE_DEFAULT),
            window_size: self.window_size.unwrap_or(1),
            timeout_s: self.timeout_s,
            transfer_size: self.transfer_size,
        }
    }

    /// Returns the options with the window limited to half the block numbers.
    pub(super) fn with_limited_window(mut self) -> Self {
        self.window_size = self.window_size.map(|requested| requested.clamp(1, WINDOW_SIZE_MAX));
        self
    }
}

fn number(value: &str) -> Option<u64> {
    // `parse` would accept a sign.
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
}

fn set_first_valid<T: TryFrom<u64> + PartialOrd>(
    option: &mut Option<T>,
    value: Option<u64>,
    allowed: &RangeInclusive<T>,
) {
    let value = value.and_then(|value| T::try_from(value).ok());
    if option.is_none() {
        *option = value.filter(|value| allowed.contains(value));
    }
}

fn is_at_most(answer: Option<u16>, requested: Option<u16>) -> bool {
    match (answer, requested) {
        (None, _) => true,
        (Some(answer), Some(requested)) => answer <= requested,
        (Some(_), None) => false,
    }
}

/// Splits a NUL-terminated string off the front.
pub(super) fn next_string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let (string, rest) = bytes.split_at_checked(end)?;
    Some((string, rest.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requested_options() -> Options {
        Options {
            block_size: Some(1428),
            timeout_s: Some(3),
            transfer_size: Some(0),
            window_size: Some(64),
        }
    }

    #[test]
    fn a_server_grants_no_more_than_the_request_or_its_limits() {
        let limits = Limits { block_size_max: 1024, window_size_max: 16, window_max_bytes: 8192 };
        let (answer, agreed) = requested_options().grant(&limits, Some(70_000));
        assert_eq!(answer.block_size, Some(1024));
        assert_eq!(answer.window_size, Some(8));
        assert_eq!(answer.transfer_size, Some(70_000));
        assert_eq!(agreed.timeout_s, Some(3));
    }

    #[test]
    fn an_unrequested_message_is_not_answered() {
        let (answer, agreed) = Options::default().grant(&Limits::default(), Some(9));
        assert!(answer.is_empty());
        assert_eq!((agreed.block_size, agreed.window_size), (BLOCK_SIZE_DEFAULT, 1));
    }

    #[test]
    fn an_answer_that_exceeds_the_request_is_invalid() {
        let larger_block = Options { block_size: Some(1429), ..Options::default() };
        assert_eq!(requested_options().agreed_with(&larger_block), None);
        let unrequested = Options { window_size: Some(1), ..Options::default() };
        assert_eq!(Options::default().agreed_with(&unrequested), None);
    }

    #[test]
    fn a_value_out_of_range_or_with_a_sign_is_ignored() {
        let options = Options::parse(b"blksize\x007\0timeout\x00+5\0windowsize\x000\0").unwrap();
        assert!(options.is_empty());
    }

    #[test]
    fn option_names_ignore_case_and_the_first_of_two_counts() {
        let options = Options::parse(b"BlkSize\x00512\0blksize\x001024\0unknown\x001\0").unwrap();
        assert_eq!(options, Options { block_size: Some(512), ..Options::default() });
    }

    #[test]
    fn a_window_has_at_least_one_block_and_counts_the_bookkeeping_of_small_blocks() {
        assert_eq!(window_size_for(0, 65_464), 1);
        assert_eq!(window_size_for(425_984, 8), 543);
        assert_eq!(window_size_for(425_984, 1428), 117);
        assert_eq!(window_size_for(usize::MAX, 512), WINDOW_SIZE_MAX);
    }

    proptest! {
        #[test]
        fn emitted_options_are_parsed_back_equal(
            block_size in proptest::option::of(8_u16..=65_464),
            timeout_s in proptest::option::of(1_u8..),
            transfer_size in proptest::option::of(any::<u64>()),
            window_size in proptest::option::of(1_u16..),
        ) {
            let options = Options { block_size, timeout_s, transfer_size, window_size };
            let mut bytes = Vec::new();
            options.emit(&mut bytes);
            prop_assert_eq!(Options::parse(&bytes), Ok(options));
        }
    }
}
