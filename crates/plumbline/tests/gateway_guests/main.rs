//! Tests of `plumb gateway` with real programs, virtual machines and serial peers as guests, with
//! attacks of guests, and with failures of each part.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

mod attacks;
mod endings;
#[path = "../gateway_harness/mod.rs"]
mod gateway_harness;
mod host_changes;
mod initial_file_system;
mod lossy_path;
mod malformed_frames;
mod name_service;
mod raw_machine;
mod real_programs;
mod serial_peers;
mod start_failures;
mod virtual_machine;

use std::fmt::Write;

/// Returns whether tests that take long are to be run, and reports the calling test otherwise.
fn is_long_run() -> bool {
    let is_long = std::env::var_os("PLUMB_LONG").is_some_and(|value| value == "1");
    if !is_long {
        test_support::not_configured("PLUMB_LONG", "the test takes long");
    }
    is_long
}

/// Returns the hexadecimal SHA-256 digest of `data`.
fn sha256(data: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, data);
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
