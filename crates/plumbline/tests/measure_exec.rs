//! Tests of `plumb measure --exec` and `--compare` with programs on a pseudo-terminal: a shell, the SSH
//! client of OpenSSH with the server Dropbear, and mosh.
//!
//! The server runs in a mount namespace of its own, in which the password file of the test replaces
//! that of the machine. The home directory and the keys of its user belong to the test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use os::process::Program;
use records::Measurement;
use records::measurement::{PromptKind, ScreenfulMethod};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");
const PASSWORD: &str = "open sesame";
/// Hash of [`PASSWORD`], by `openssl passwd -6 -salt plumb`.
const PASSWORD_HASH: &str = "$6$plumb$Z9njJHDdcIg54R5Wty3fgxW.Duq29Lt1mb./jNaS9fjTfWJuBbHannQ.UmDHRMS6563/trkDEtgOevQkTKQs..";

/// Runs `test` in a new network namespace in which only the loopback interface is up.
fn in_new_network(test: impl FnOnce() + Send + 'static) {
    let arguments: [&[&str]; 1] = [&["link", "set", "lo", "up"]];
    test_support::in_configured_network(os::namespace::enter_new_network, &arguments, test);
}

/// A temporary directory, removed on drop.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("plumb-exec-{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn measure(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PLUMB);
        command.arg("measure").args(arguments).stdin(Stdio::null());
        command.env("HOME", &self.0).env("XDG_STATE_HOME", &self.0).env("LC_ALL", "C.UTF-8");
        command.output().unwrap()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A remaining temporary directory does no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn record_of(output: &Output) -> Measurement {
    assert!(output.status.success(), "{output:?}");
    Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap()
}

fn assert_failed(output: &Output, code: i32, beginning: &str) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let messages = String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap();
    assert!(messages.replace('\n', " ").starts_with(beginning), "{messages}");
}

/// A Dropbear on port 2222 of the loopback interface, and the keys of its user.
struct SshServer {
    directory: TestDirectory,
    _server: Program,
}

impl SshServer {
    fn start(name: &str) -> Self {
        let directory = TestDirectory::new(name);
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            assert!(output.status.success(), "{program}: {output:?}");
        };
        let [host, key] = ["host", "key"].map(|name| directory.path(name));
        run("dropbearkey", &["-t", "ed25519", "-f", &host]);
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &key]);
        let home = directory.0.join("home");
        fs::create_dir_all(home.join(".ssh")).unwrap();
        for path in [&home, &home.join(".ssh")] {
            fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        }
        let public_key = fs::read(directory.path("key.pub")).unwrap();
        fs::write(home.join(".ssh/authorized_keys"), public_key).unwrap();
        let user = format!("root:{PASSWORD_HASH}:0:0:root:{}:/bin/sh\n", home.display());
        fs::write(directory.path("passwd"), user).unwrap();
        fs::write(directory.path("shadow"), format!("root:{PASSWORD_HASH}:1::::::\n")).unwrap();
        fs::write(directory.path("password"), PASSWORD).unwrap();
        let dropbear = test_support::peers::DROPBEAR.path();
        let script = format!(
            "mount --bind {0}/passwd /etc/passwd && mount --bind {0}/shadow /etc/shadow && \
             exec {1} -F -m -r {0}/host -p 127.0.0.1:2222 -P {0}/pid",
            directory.0.display(),
            dropbear.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Program::start(&mut command).unwrap();
        let is_up = || std::net::TcpStream::connect("127.0.0.1:2222").ok();
        drop(test_support::poll_until_timeout(is_up));
        Self { directory, _server: server }
    }

    /// Returns an SSH command with further options.
    fn ssh(&self, options: &str) -> String {
        format!(
            "{} -F none -p 2222 -i {} -o UserKnownHostsFile={} {options}",
            test_support::peers::SSH.path().display(),
            self.directory.path("key"),
            self.directory.path("known_hosts"),
        )
    }

    /// Returns an SSH command that accepts a new host key, with further options.
    fn accepting_ssh(&self, options: &str) -> String {
        self.ssh(&format!("-o StrictHostKeyChecking=accept-new {options}"))
    }
}

#[test]
fn a_shell_on_a_pseudo_terminal_is_measured_without_tcp() {
    let directory = TestDirectory::new("shell");
    let record = record_of(&directory.measure(&["--json", "--keys", "30", "--exec", "/bin/sh -i"]));
    assert_eq!((record.via.as_str(), record.target.as_str()), ("exec", "/bin/sh -i"));
    assert_eq!(record.phases.prompt, Some(PromptKind::Shell));
    assert_eq!(record.echo.unwrap().samples, 30);
    let screenful = record.screenful.unwrap();
    assert_eq!(screenful.method, Some(ScreenfulMethod::Command));
    assert!(screenful.cells >= 1_920, "{}", screenful.cells);
    assert!(record.paced_echo.is_some() && record.echo_during_output.is_some());
    assert_eq!((record.tcp, record.phases.connect_ns), (None, None));
}

#[test]
fn a_program_that_is_missing_or_ends_at_once_has_its_reason_and_exit_code() {
    let directory = TestDirectory::new("ends");
    let measure = |command: &str| directory.measure(&["--timeout", "5", "--exec", command]);
    let missing = measure("plumb-none x");
    assert_failed(&missing, 2, "plumb: error: cannot run 'plumb-none': No such file");
    let ended = measure("sh -c 'echo no route; exit 7'");
    assert_failed(&ended, 1, "FAILED: the program ended (exit status: 7): no route");
    let killed = measure("sh -c 'kill -9 $$'");
    assert_failed(&killed, 1, "FAILED: the program ended (signal: 9 (SIGKILL))");
    let unbalanced = measure("sh 'x");
    assert_failed(&unbalanced, 2, "plumb: error: invalid value 'sh 'x'");
}

#[test]
#[ignore = "needs root or a user namespace, dropbear and ssh"]
fn an_ssh_login_by_key_is_measured() {
    in_new_network(|| {
        let server = SshServer::start("key");
        let ssh = server.accepting_ssh("root@127.0.0.1");
        let output = server.directory.measure(&["--json", "--keys", "30", "--exec", &ssh]);
        let record = record_of(&output);
        assert_eq!(record.phases.prompt, Some(PromptKind::Shell));
        assert_eq!(record.echo.unwrap().samples, 30);
        assert!(record.screenful.is_some() && record.echo_during_output.is_some());
    });
}

#[test]
#[ignore = "needs root or a user namespace, dropbear and ssh"]
fn an_ssh_login_by_password_is_timed_from_the_password_to_the_prompt() {
    in_new_network(|| {
        let server = SshServer::start("password");
        let ssh = server.accepting_ssh("-o PubkeyAuthentication=no root@127.0.0.1");
        let password = server.directory.path("password");
        let user = ["--user", "root", "--password-file", &password];
        let words = [&["--json", "--keys", "20", "--exec", &ssh][..], &user].concat();
        let record = record_of(&server.directory.measure(&words));
        assert_eq!(record.phases.prompt, Some(PromptKind::Password));
        assert!(record.phases.login_ns.is_some_and(|ns| ns > 0));
        assert!(record.screenful.is_some());
        let wrong = server.directory.path("wrong");
        fs::write(&wrong, "no").unwrap();
        let user = ["--user", "root", "--password-file", &wrong];
        let words = [&["--exec", &ssh][..], &user].concat();
        assert_failed(&server.directory.measure(&words), 1, "FAILED: the login was refused");
        let without = server.directory.measure(&["--exec", &ssh]);
        assert_failed(&without, 1, "FAILED: the program asks for a password: use --user");
    });
}

#[test]
#[ignore = "needs root or a user namespace, dropbear and ssh"]
fn the_question_for_an_unknown_host_key_is_not_answered() {
    in_new_network(|| {
        let server = SshServer::start("question");
        let ssh = server.ssh("root@127.0.0.1");
        let output = server.directory.measure(&["--exec", &ssh]);
        assert_failed(&output, 1, "FAILED: a question must be answered before the login");
        assert!(!fs::exists(server.directory.path("known_hosts")).unwrap());
    });
}

#[test]
fn a_comparison_is_also_written_as_a_page() {
    let directory = TestDirectory::new("page");
    let page = directory.path("page.html");
    let options = ["--keys", "20", "--rounds", "1", "--html", &page, "--compare"];
    let output = directory.measure(&[&options[..], &["/bin/sh -i", "/bin/sh -i +m"]].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let verdict = text.lines().next().unwrap();
    assert!(verdict.starts_with("OK: ") || verdict.starts_with("SLOW: "), "{text}");
    let html = fs::read_to_string(&page).unwrap();
    let lead = html.split("<p class=\"lead\">").nth(1).unwrap();
    assert!(verdict.starts_with(lead.split_once(':').unwrap().0), "{html}");
    assert!(html.contains("<h2>Programs side by side</h2>"), "{html}");
    for figure in ["echo, median", "echo, 95th percentile", "screenful", "during other output"] {
        assert!(html.contains(figure), "{figure}");
    }
    assert!(html.contains("/bin/sh -i +m: echo, median, "), "{html}");
}

#[test]
#[ignore = "needs root or a user namespace, dropbear, ssh and mosh"]
fn ssh_mosh_and_plumb_are_compared_in_turn() {
    in_new_network(|| {
        let server = SshServer::start("compare");
        let mut telnet = Command::new(PLUMB);
        telnet.args(["serve", "--listen", "127.0.0.1:2323", "--exec", "/bin/sh"]);
        telnet.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        telnet.env("HOME", &server.directory.0).env("XDG_STATE_HOME", &server.directory.0);
        let _telnet = Program::start(&mut telnet).unwrap();
        let is_up = || std::net::TcpStream::connect("127.0.0.1:2323").ok();
        drop(test_support::poll_until_timeout(is_up));
        let ssh = server.accepting_ssh("");
        let mosh = format!(
            "{} --ssh='{ssh}' --server='env LC_ALL=C.UTF-8 mosh-server' root@127.0.0.1",
            test_support::peers::MOSH.path().display()
        );
        let commands =
            [format!("{ssh} root@127.0.0.1"), mosh, format!("{PLUMB} login 127.0.0.1:2323")];
        let [first, second, third] = commands.each_ref().map(String::as_str);
        let options = ["--json", "--keys", "20", "--rounds", "1", "--compare"];
        let output = server.directory.measure(&[&options[..], &[first, second, third]].concat());
        assert!(output.status.success(), "{output:?}");
        let programs: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for (program, command) in programs.as_array().unwrap().iter().zip(&commands) {
            assert_eq!(program["program"], *command);
            for figure in ["echo_p50_ns", "paced_echo_ns", "screenful_ns", "prompt_ns"] {
                assert!(program[figure].as_u64().is_some_and(|ns| ns > 0), "{command}: {figure}");
            }
        }
    });
}
