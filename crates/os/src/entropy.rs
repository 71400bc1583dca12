//! Random numbers from the kernel, to seed the engines' own generator.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// Returns 64 unpredictable bits, for `net::rng::Rng::from_seed`.
///
/// # Errors
///
/// Returns an error only where the kernel has no `getrandom(2)`.
pub fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    loop {
        // `getrandom` never returns fewer than requested for up to 256 bytes; it blocks only early
        // at boot.
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
