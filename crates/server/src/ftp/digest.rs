//! File digests for HASH and the related commands.

use md5::{Digest as _, Md5};
use protocols::ftp::HashAlgorithm;
use ring::digest::{self, Context};

pub(super) enum Digest {
    Crc32(u32),
    Md5(Box<Md5>),
    Ring(Box<Context>),
}

impl Digest {
    pub(super) fn new(algorithm: HashAlgorithm) -> Self {
        match algorithm {
            HashAlgorithm::Crc32 => Self::Crc32(u32::MAX),
            HashAlgorithm::Sha1 => {
                Self::Ring(Box::new(Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)))
            }
            HashAlgorithm::Sha256 => Self::Ring(Box::new(Context::new(&digest::SHA256))),
            HashAlgorithm::Sha512 => Self::Ring(Box::new(Context::new(&digest::SHA512))),
            HashAlgorithm::Md5 => Self::Md5(Box::default()),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(crc) => *crc = bytes.iter().fold(*crc, |crc, byte| crc32(crc, *byte)),
            Self::Md5(md5) => md5.update(bytes),
            Self::Ring(context) => context.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc32(crc) => format!("{:08x}", !crc).into_bytes(),
            Self::Md5(md5) => hexadecimal(&md5.finalize()),
            Self::Ring(context) => hexadecimal(context.finish().as_ref()),
        }
    }
}

fn hexadecimal(octets: &[u8]) -> Vec<u8> {
    octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>().into_bytes()
}

/// Adds one octet to the CRC-32 of Ethernet, in its bit-reflected form.
fn crc32(crc: u32, octet: u8) -> u32 {
    (0..8).fold(crc ^ u32::from(octet), |crc, _| {
        let shifted = crc >> 1;
        if crc & 1 == 1 { shifted ^ 0xEDB8_8320 } else { shifted }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(algorithm: HashAlgorithm, bytes: &[u8]) -> String {
        let mut digest = Digest::new(algorithm);
        digest.update(bytes);
        String::from_utf8(digest.finish()).unwrap()
    }

    #[test]
    fn digests_match_the_published_check_values() {
        assert_eq!(digits(HashAlgorithm::Crc32, b"123456789"), "cbf43926");
        assert_eq!(digits(HashAlgorithm::Md5, b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let sha1 = digits(HashAlgorithm::Sha1, b"abc");
        assert_eq!(sha1, "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert!(digits(HashAlgorithm::Sha256, b"abc").starts_with("ba7816bf8f01cfea"));
    }
}
