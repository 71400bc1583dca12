//! Tests of `plumb login` other than cleartext Telnet: TLS, serial lines, scripts, and recordings.
//!
//! The peers are pseudo-terminals and threads of the test, or openssl in a separate network
//! namespace.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "login/lines.rs"]
mod lines;
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;
#[path = "login/recordings.rs"]
mod recordings;
#[path = "login/scripts.rs"]
mod scripts;
#[path = "login/tls.rs"]
mod tls;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary directory, removed on drop.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("plumb-{test}-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs plumb without a terminal and without input.
fn plumb(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(arguments).env("TERM", "dumb").stdin(std::process::Stdio::null());
    command.output().unwrap()
}

/// Checks that plumb exited with `code` and printed one line that contains all of `words`.
fn assert_error(output: &Output, code: i32, words: &[&str]) {
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{messages}");
    assert_eq!(messages.lines().count(), 1, "{messages}");
    assert!(
        messages.starts_with("plumb: ") && words.iter().all(|word| messages.contains(word)),
        "{messages}"
    );
}
