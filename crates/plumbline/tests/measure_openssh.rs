//! Tests of `plumb measure --exec` with the client and the server of OpenSSH.
//!
//! The server runs in a mount namespace of its own, in which the password file of the test replaces
//! that of the machine. Its configuration and all keys belong to the test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use os::process::Program;
use records::Measurement;
use records::measurement::PromptKind;
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::peers;

const CONFIGURATION: &str = "\
Port 2222
ListenAddress 127.0.0.1
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
# The directory for temporary files is writable by every user.
StrictModes no
";

/// A server of OpenSSH on port 2222 of the loopback interface, and its directory.
struct OpenSsh {
    directory: PathBuf,
    _server: Program,
}

impl OpenSsh {
    fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("plumb-openssh-{}", std::process::id()));
        let home = directory.join("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        fs::set_permissions(&home, Permissions::from_mode(0o700)).unwrap();
        for name in ["host", "key"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(name));
            assert!(command.status().unwrap().success());
        }
        fs::copy(directory.join("key.pub"), home.join(".ssh/authorized_keys")).unwrap();
        let path = directory.display();
        let configuration = format!("{CONFIGURATION}HostKey {path}/host\n");
        fs::write(directory.join("config"), configuration).unwrap();
        // The user of the unprivileged part of the server.
        let users = format!(
            "root:x:0:0:root:{}:/bin/sh\nsshd:x:65534:65534::/run/sshd:/bin/false\n",
            home.display()
        );
        fs::write(directory.join("passwd"), users).unwrap();
        let script = format!(
            "mount --bind {path}/passwd /etc/passwd && mount -t tmpfs none /run && \
             mkdir /run/sshd && exec {} -D -f {path}/config",
            peers::SSHD.path().display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Program::start(&mut command).unwrap();
        drop(test_support::poll_until_timeout(|| TcpStream::connect("127.0.0.1:2222").ok()));
        Self { directory, _server: server }
    }

    /// Returns an SSH command that logs in by key.
    fn ssh(&self) -> String {
        let path = |name: &str| self.directory.join(name).display().to_string();
        format!(
            "{} -F none -p 2222 -i {} -o UserKnownHostsFile={} \
             -o StrictHostKeyChecking=accept-new root@127.0.0.1",
            peers::SSH.path().display(),
            path("key"),
            path("known_hosts"),
        )
    }
}

impl Drop for OpenSsh {
    fn drop(&mut self) {
        // A remaining temporary directory does no harm.
        _ = fs::remove_dir_all(&self.directory);
    }
}

fn measure(home: &Path, arguments: &[&str]) -> Measurement {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(["measure", "--json"]).args(arguments).stdin(Stdio::null());
    command.env("HOME", home).env("XDG_STATE_HOME", home).env("LC_ALL", "C.UTF-8");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap()
}

#[test]
#[ignore = "needs root or a user namespace, openssh-server and ssh"]
fn an_ssh_login_to_the_server_of_openssh_is_measured() {
    let arguments: [&[&str]; 1] = [&["link", "set", "lo", "up"]];
    test_support::in_configured_network(os::namespace::enter_new_network, &arguments, || {
        let server = OpenSsh::start();
        // At the prompt of a shell, the measurement takes longer; measure_exec tests it with another
        // server.
        let command = format!("{} -tt \"printf 'login: '; exec cat\"", server.ssh());
        let record = measure(&server.directory, &["--keys", "20", "--exec", &command]);
        assert_eq!(record.phases.prompt, Some(PromptKind::Login));
        assert_eq!(record.echo.unwrap().samples, 20);
        assert!(record.paced_echo.is_some());
    });
}
