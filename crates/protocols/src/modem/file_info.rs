//! Description of a file in block 0 of YMODEM and in the ZFILE frame of ZMODEM: the name, a NUL, and
//! numbers separated by spaces: the size in decimal, the time of the last change in octal (seconds
//! since 1970), and the mode in octal. All numbers are optional.

use alloc::format;
use alloc::vec::Vec;
use core::str;

/// Octal mode of an ordinary file, in the convention of Unix.
const REGULAR_FILE: u32 = 0o100_644;

/// Description of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// Name, which may contain any bytes except NUL. It is not checked.
    pub name: Vec<u8>,
    /// Size in bytes, if the sender knows it.
    pub size: Option<u64>,
    /// Time of the last change in seconds since 1970, if the sender knows it.
    pub modified_unix_s: Option<u64>,
}

impl FileInfo {
    /// Parses a description; `None` if it contains no name. Invalid numbers are ignored.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let (name, rest) = bytes.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        let numbers = rest.get(1..).unwrap_or_default().split(|byte| *byte == 0).next();
        let numbers = str::from_utf8(numbers.unwrap_or_default()).unwrap_or_default();
        let mut numbers = numbers.split_ascii_whitespace();
        let size = numbers.next().and_then(|number| number.parse().ok());
        let modified = numbers.next().and_then(|number| u64::from_str_radix(number, 8).ok());
        let modified_unix_s = modified.filter(|seconds| *seconds != 0);
        Some(Self { name: name.to_vec(), size, modified_unix_s })
    }

    /// Returns the encoded description. A NUL in the name ends the name.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.name.iter().copied().take_while(|byte| *byte != 0).collect();
        bytes.push(0);
        if let Some(size) = self.size {
            let modified = self.modified_unix_s.unwrap_or(0);
            bytes.extend_from_slice(format!("{size} {modified:o} {REGULAR_FILE:o}").as_bytes());
        }
        bytes.push(0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    #[test]
    fn a_description_of_lrzsz_is_parsed() {
        let info = FileInfo::parse(b"notes.txt\x00612 14770645431 100644 0 1 612\0\0\0").unwrap();
        assert_eq!(info.name, b"notes.txt");
        assert_eq!((info.size, info.modified_unix_s), (Some(612), Some(0o14_770_645_431)));
    }

    #[test]
    fn a_description_without_a_name_or_without_an_end_is_rejected() {
        assert_eq!(FileInfo::parse(b"\x0012"), None);
        assert_eq!(FileInfo::parse(b"name"), None);
        assert_eq!(FileInfo::parse(b""), None);
    }

    #[test]
    fn an_invalid_number_is_unknown() {
        let info = FileInfo::parse(b"a\0-5 9 x").unwrap();
        assert_eq!((info.size, info.modified_unix_s), (None, None));
    }

    proptest! {
        #[test]
        fn a_description_is_parsed_to_itself(
            name: String, size: Option<u64>, modified in 1_u64..1 << 60,
        ) {
            let name: Vec<u8> = name.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
            let modified_unix_s = size.map(|_| modified);
            let info = FileInfo { name, size, modified_unix_s };
            let parsed = FileInfo::parse(&info.emit());
            prop_assert_eq!(parsed, (!info.name.is_empty()).then_some(info));
        }
    }
}
