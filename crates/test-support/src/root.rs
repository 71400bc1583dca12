//! Detection of root outside a user namespace, which some tests need, for example to change the
//! user.

use crate::not_configured;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns whether the calling test runs as root of the machine, not only of a user namespace. If
/// false, the test has been reported as not configured and must return.
#[must_use]
pub fn is_root_of_the_machine() -> bool {
    // A process owns its directory in /proc. The UID map of the initial namespace is the identity.
    let is_root = fs::metadata("/proc/self").is_ok_and(|status| status.uid() == 0);
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_identity = map.split_whitespace().eq(["0", "0", "4294967295"]);
    if !is_root || !is_identity {
        not_configured("root", "the test needs root of the machine, not of a user namespace");
    }
    is_root && is_identity
}
