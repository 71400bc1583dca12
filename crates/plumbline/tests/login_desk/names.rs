//! Names that only one program knows.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A folder that plumb sees as /etc: its names and its name servers.
#[derive(Debug)]
pub(crate) struct Names(PathBuf);

impl Names {
    /// Makes one for the test `test`, with these hosts and these settings of the resolver.
    pub(crate) fn new(test: &str, hosts: &str, resolver: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plumb-{test}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("hosts"), hosts).unwrap();
        fs::write(folder.join("resolv.conf"), resolver).unwrap();
        fs::write(folder.join("nsswitch.conf"), "hosts: files dns\n").unwrap();
        // A name may have several addresses (host.conf(5)).
        fs::write(folder.join("host.conf"), "multi on\n").unwrap();
        Self(folder)
    }

    /// Returns a command that runs plumb with these arguments where it sees the names. An interrupt
    /// ends it: a shell that runs the tests behind itself would have it ignored (POSIX, 2.11).
    pub(crate) fn plumb(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc && exec \"$@\"";
        command.args(["--mount", "env", "--default-signal=INT", "sh", "-c", script]).arg(&self.0);
        command.arg(env!("CARGO_BIN_EXE_plumb")).args(arguments).env("TERM", "dumb");
        command
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
