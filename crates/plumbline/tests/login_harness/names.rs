//! Host names and resolver settings for one plumb process.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A directory that plumb sees as /etc, with its own hosts file and resolver settings.
#[derive(Debug)]
pub(crate) struct Names(PathBuf);

impl Names {
    /// Creates the directory for the test `test`, with these hosts and resolver settings.
    pub(crate) fn new(test: &str, hosts: &str, resolver: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("plumb-{test}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("hosts"), hosts).unwrap();
        fs::write(directory.join("resolv.conf"), resolver).unwrap();
        fs::write(directory.join("nsswitch.conf"), "hosts: files dns\n").unwrap();
        // A name may have several addresses (host.conf(5)).
        fs::write(directory.join("host.conf"), "multi on\n").unwrap();
        Self(directory)
    }

    /// Returns a command that runs plumb with this directory as /etc. SIGINT has its default
    /// action, even if a shell runs the tests in the background and ignores SIGINT for them (POSIX,
    /// 2.11).
    pub(crate) fn plumb(&self, arguments: &[&str]) -> Command {
        let mut command = self.run(env!("CARGO_BIN_EXE_plumb"));
        command.args(arguments);
        command
    }

    /// Returns a command that runs `script` in a shell with this directory as /etc.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = self.run("sh");
        command.args(["-c", script]);
        command
    }

    fn run(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc && exec \"$@\"";
        command.args(["--mount", "env", "--default-signal=INT", "sh", "-c", script]).arg(&self.0);
        command.arg(program).env("TERM", "dumb");
        command
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
