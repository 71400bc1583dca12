//! podman and rootlesskit as an ordinary user, with slirp4netns of the distribution and with plumb
//! under this name.
//!
//! Each test runs `gateway_callers/callers.sh` in new mount, process and network namespaces, so that
//! nothing remains. The tests need root of the machine and `PLUMB_LONG=1`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::{is_root_of_the_machine, not_configured};

/// Gateway that the callers find as `slirp4netns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gateway {
    Distribution,
    Plumb,
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gateway_callers/callers.sh");
/// Time limit of a case in seconds, after which its namespaces end.
const CASE_TIMEOUT_S: &str = "60";

/// A directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    /// The path of the API socket, below this directory, has at most 107 bytes.
    fn make(case: &str, gateway: Gateway) -> Self {
        let initial = case.get(..1).unwrap_or_default();
        let name =
            format!("{initial}{}{}", u8::from(gateway == Gateway::Plumb), std::process::id());
        let path = Path::new("/tmp").join(name);
        std::fs::create_dir_all(&path).expect("the directory is created");
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned).filter(|_| output.status.success())
}

/// Returns whether everything is available, or reports what is not.
fn is_configured(programs: &[&str]) -> bool {
    if std::env::var_os("PLUMB_LONG").is_none_or(|value| value != "1") {
        not_configured("PLUMB_LONG", "the test takes long");
        return false;
    }
    let missing = programs.iter().find(|program| version(Path::new(program)).is_none());
    if let Some(program) = missing {
        not_configured(program, "it is not installed");
    }
    missing.is_none() && is_root_of_the_machine()
}

/// Runs a case of the script, and returns its output. Returns `None` if it is not configured.
fn run(case: &str, gateway: Gateway) -> Option<String> {
    if !is_configured(&["slirp4netns", case]) {
        return None;
    }
    let directory = Directory::make(case, gateway);
    let programs = directory.0.join("programs");
    std::fs::create_dir(&programs).expect("the directory is created");
    if gateway == Gateway::Plumb {
        let link = programs.join("slirp4netns");
        symlink(env!("CARGO_BIN_EXE_plumb"), &link).expect("the link is created");
        let name = version(&link).filter(|text| text.starts_with("slirp4netns"));
        if name.is_none() {
            not_configured("plumb gateway", "plumb cannot be started as slirp4netns");
            return None;
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", CASE_TIMEOUT_S, "unshare", "--mount", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc", "--net", "sh", SCRIPT, "prepare", case]);
    command.env("PATH", format!("{}:{path}", programs.display()));
    command.env("DIRECTORY", &directory.0).stdin(Stdio::null());
    let output = command.output().expect("timeout starts");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    Some(stdout)
}

#[track_caller]
fn assert_contains(output: &str, texts: &[&str]) {
    for text in texts {
        assert!(output.contains(text), "'{text}' is missing:\n{output}");
    }
}

fn podman(gateway: Gateway) {
    let Some(output) = run("podman", gateway) else { return };
    assert_contains(
        &output,
        &[
            "mtu 65520",
            "inet 10.0.2.100/24",
            "inet6 fd00::",
            "default via 10.0.2.2 dev tap0",
            "nameserver 10.0.2.3",
            "from the host",
            "from the container",
            "the gateway has ended",
        ],
    );
}

fn rootlesskit(gateway: Gateway) {
    let Some(output) = run("rootlesskit", gateway) else { return };
    assert_contains(
        &output,
        &[
            "mtu 1400",
            "inet 10.0.2.100/24",
            "default via 10.0.2.2 dev tap0",
            "from the host",
            "127.0.0.1    8082",
            "the gateway has ended",
        ],
    );
}

#[test]
#[ignore = "needs root, podman and slirp4netns"]
fn a_container_of_podman_reaches_the_host_and_is_reached_by_slirp4netns() {
    podman(Gateway::Distribution);
}

#[test]
#[ignore = "needs root, podman and slirp4netns"]
fn a_container_of_podman_reaches_the_host_and_is_reached_by_plumb() {
    podman(Gateway::Plumb);
}

#[test]
#[ignore = "needs root, rootlesskit and slirp4netns"]
fn rootlesskit_configures_the_interface_of_slirp4netns_and_forwards_ports() {
    rootlesskit(Gateway::Distribution);
}

#[test]
#[ignore = "needs root, rootlesskit and slirp4netns"]
fn rootlesskit_configures_the_interface_of_plumb_and_forwards_ports() {
    rootlesskit(Gateway::Plumb);
}
