//! A temporary directory of the bench with keys, client state and a long text; removed at the end.

use super::arguments::os_strings;
use crate::driver::{SCREEN_COLUMNS, screen_text};
use crate::telnetd::{program, shell};
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};

#[derive(Debug)]
pub(super) struct TemporaryDirectory {
    pub(super) path: PathBuf,
}

impl TemporaryDirectory {
    pub(super) fn make() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("plumb-login-{}", process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {path:?}"))?;
        Ok(Self { path })
    }

    /// Writes a text of `megabytes` megabytes. Returns its path and the number of characters that
    /// it displays.
    pub(super) fn write_long_text(&self, megabytes: usize) -> Result<(PathBuf, usize)> {
        let path = self.path.join("long");
        let screen = screen_text();
        let screens = megabytes.saturating_mul(1_000_000).div_ceil(screen.len());
        let mut file = BufWriter::new(File::create(&path)?);
        for _ in 0..screens {
            file.write_all(screen.as_bytes())?;
        }
        file.flush()?;
        Ok((path, screens * screen.lines().count() * SCREEN_COLUMNS))
    }

    /// Creates keys for an OpenSSH server, and returns the server's arguments.
    pub(super) fn prepare_ssh(&self) -> Result<Vec<OsString>> {
        for name in ["host", "user"] {
            if self.path.join(name).exists() {
                continue;
            }
            let mut command = Command::new(program("ssh-keygen", "openssh-client")?);
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(self.path.join(name));
            ensure!(
                command.stdin(Stdio::null()).status()?.success(),
                "ssh-keygen failed to create a key"
            );
        }
        let text = format!(
            "HostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PrintMotd no\nPrintLastLog no\nPidFile none\nLogLevel ERROR\n",
            self.path.display()
        );
        let configuration = self.path.join("sshd_config");
        fs::write(&configuration, text)?;
        if !fs::exists("/run/sshd")? {
            // sshd's chroot directory, which the package creates only when it starts the service.
            fs::create_dir("/run/sshd").context("cannot create /run/sshd, which sshd requires")?;
        }
        Ok(os_strings(&["-i", "-f", &configuration.display().to_string()]))
    }

    /// Returns the arguments of the OpenSSH client.
    pub(super) fn ssh_arguments(&self, port: &str) -> Vec<OsString> {
        let key = self.path.join("user").display().to_string();
        let mut arguments = os_strings(&["-tt", "-F", "/dev/null", "-i", &key, "-p", port]);
        for option in [
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
        ] {
            arguments.extend(os_strings(&["-o", option]));
        }
        arguments.extend(os_strings(&["127.0.0.1", "exec", &shell().display().to_string(), "-i"]));
        arguments
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Leftovers are in a temporary directory.
        _ = fs::remove_dir_all(&self.path);
    }
}
