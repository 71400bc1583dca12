//! Chance from the kernel, to seed the engines' own.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Returns 64 bits that nobody can foresee, for `protocols::chance::Chance::from_seed`.
///
/// # Errors
///
/// Only where the kernel has no `getrandom`.
pub fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    loop {
        // Up to 256 bytes come whole or not at all; only an early boot makes the call wait.
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(_) => return Ok(u64::from_ne_bytes(bytes)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seeds_differ() {
        assert_ne!(seed().unwrap(), seed().unwrap());
    }
}
