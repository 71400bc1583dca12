//! The versions of the gateways.

use anyhow::{Context, Result};
use std::process::Command;

/// Returns the first line that a program prints.
pub(super) fn first_line(command: &mut Command) -> Result<String> {
    let output = command.output().context("it is not installed")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned).context("it prints no version")
}

/// Adds the version of the Debian package, because pasta of Debian 12 does not know its own.
pub(super) fn with_package(version: String, package: &str) -> String {
    let query = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    match query {
        Ok(output) if output.status.success() => {
            format!("{version} ({package} {})", String::from_utf8_lossy(&output.stdout))
        }
        _ => version,
    }
}
