//! Tests of `plumb measure` and `plumb demo` with real peers: Debian's Telnet servers.
//!
//! Each test of `plumb measure` has its own network namespace, with a server at 10.0.0.1 and a TUN
//! on which plumb has 10.0.0.2. `plumb demo` creates a network namespace itself.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use net::time::Duration;
use os::process::Program;
use records::Layer::{
    self, InterruptOrSystemCall, RemoteHostAndNetwork, RunQueue, Telnet, Terminal,
};
use records::Measurement;
use records::measurement::{PromptKind, ScreenfulMethod};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");
const POLL_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `test` in a new network namespace with a TUN for plumb.
fn in_new_network(test: impl FnOnce() + Send + 'static) {
    let arguments: [&[&str]; 4] = [
        &["tuntap", "add", "plumb0", "mode", "tun"],
        &["address", "add", "10.0.0.1/24", "dev", "plumb0"],
        &["address", "add", "2001:db8::1/64", "dev", "plumb0", "nodad"],
        &["link", "set", "plumb0", "up"],
    ];
    test_support::in_configured_network(os::namespace::enter_new_network, &arguments, test);
}

/// Measures the login at a new server that starts the program `server` for its one client.
fn measure(server: Command, arguments: &[&str]) -> Output {
    measure_at("10.0.0.1:0", server, arguments)
}

/// Like [`measure`], with the server listening at `address`.
fn measure_at(address: &str, mut server: Command, arguments: &[&str]) -> Output {
    let listener = TcpListener::bind(address).unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let server_thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        server.stdout(OwnedFd::from(stream.try_clone().unwrap()));
        Program::start(server.stdin(OwnedFd::from(stream))).unwrap()
    });
    let mut command = Command::new(PLUMB);
    command.args(["measure", &target]).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    drop(server_thread.join().unwrap());
    output
}

/// Returns a Telnet server that serves one connection on its standard input and output, and runs
/// `program`.
fn telnetd(program: &Path) -> Command {
    let mut command = test_support::peers::BUSYBOX.command();
    command.args(["telnetd", "-i", "-l"]).arg(program);
    command
}

fn shell() -> Command {
    telnetd(Path::new("/bin/sh"))
}

fn record_of(output: &Output) -> Measurement {
    assert!(output.status.success(), "{output:?}");
    Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap()
}

/// Checks the contents of a complete record of a shell login, with any transport.
fn assert_complete(record: &Measurement) {
    let echo = record.echo.as_ref().unwrap();
    let screenful = record.screenful.as_ref().unwrap();
    assert_eq!(echo.samples, 200);
    assert_eq!(echo.layers.iter().map(|part| part.ns).sum::<u64>(), echo.p50_ns);
    let layers: u64 = screenful.layers.iter().map(|part| part.ns).sum();
    assert_eq!(layers, screenful.total_ns());
    assert!(screenful.first_byte_wait_ns.is_some_and(|ns| ns > 0));
    let errors = [echo.error.unwrap(), screenful.error.unwrap()];
    assert!(errors.iter().all(|error| error.excess_ns == 0), "{errors:?}");
    assert_eq!(screenful.method, Some(ScreenfulMethod::Command));
    assert_eq!((screenful.cells, screenful.bytes), (1_920, 1_968));
    assert_eq!(record.phases.prompt, Some(PromptKind::Shell));
    assert!(record.phases.negotiation_ns.is_some() && record.tcp.is_some());
}

fn layers_of_echo(record: &Measurement) -> Vec<Layer> {
    record.echo.as_ref().unwrap().layers.iter().map(|part| part.layer).collect()
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_measurement_over_kernel_tcp_has_no_userspace_layers() {
    in_new_network(|| {
        let record = record_of(&measure(shell(), &["--json"]));
        assert_complete(&record);
        let ours = [InterruptOrSystemCall, Telnet, Terminal, RunQueue, RemoteHostAndNetwork];
        assert_eq!(layers_of_echo(&record), ours);
        assert_eq!(record.screenful.unwrap().segments_in, None);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_measurement_over_userspace_tcp_has_every_layer_except_the_serial_line() {
    in_new_network(|| {
        let record = record_of(&measure(shell(), &["--json", "--via", "tun:plumb0"]));
        assert_complete(&record);
        assert_eq!(layers_of_echo(&record), Layer::ALL[1..]);
        assert!(record.screenful.unwrap().segments_in.is_some_and(|count| count > 0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_shell_is_measured_over_ipv6_with_kernel_and_userspace_tcp() {
    in_new_network(|| {
        for via in ["kernel", "tun:plumb0"] {
            let arguments = ["--json", "-6", "--via", via];
            let record = record_of(&measure_at("[2001:db8::1]:0", shell(), &arguments));
            assert_complete(&record);
            assert!(record.address.unwrap().starts_with("[2001:db8::1]:"));
        }
    });
}

/// Measures a host that prints `question`, and returns the record of the measurement.
fn record_of_question(question: &str) -> Measurement {
    let directory = TempDirectory::new(&format!("ask-{}", question.len()));
    let ask = directory.0.join("ask");
    fs::write(&ask, format!("#!/bin/sh\nprintf '{question}'\nread -r name\n")).unwrap();
    fs::set_permissions(&ask, Permissions::from_mode(0o755)).unwrap();
    record_of(&measure(telnetd(&ask), &["--json", "--keys", "30"]))
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn at_an_unknown_prompt_the_screenful_is_the_echo_of_two_thousand_keys() {
    in_new_network(|| {
        let record = record_of_question("terminal type? ");
        let screenful = record.screenful.unwrap();
        assert_eq!(record.phases.prompt, Some(PromptKind::Silence));
        assert_eq!(screenful.method, Some(ScreenfulMethod::TypedEcho));
        assert_eq!((screenful.cells, screenful.bytes), (2_000, 2_000));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn at_a_login_prompt_no_screenful_is_typed() {
    in_new_network(|| {
        let record = record_of_question("host login: ");
        assert_eq!(record.phases.prompt, Some(PromptKind::Login));
        assert_eq!(record.echo.unwrap().samples, 30);
        assert_eq!(record.screenful, None);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_host_without_echo_is_reported_with_exit_code_3() {
    in_new_network(|| {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("600");
        let output = measure(sleeper, &["--timeout", "1"]);
        assert_eq!(output.status.code(), Some(3));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.starts_with("FAILED: the remote host does not echo typed characters"),
            "{text}"
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_refused_login_is_failed_with_exit_code_1() {
    in_new_network(|| {
        let directory = TempDirectory::new("refuse");
        let password = directory.0.join("password");
        fs::write(&password, "wrong\n").unwrap();
        let refuse = directory.0.join("refuse");
        let script = "#!/bin/sh\nprintf 'host login: '\nread -r name\nprintf 'Password: '\n\
                      read -r password\nprintf 'Login incorrect\\nhost login: '\nread -r name\n";
        fs::write(&refuse, script).unwrap();
        fs::set_permissions(&refuse, Permissions::from_mode(0o755)).unwrap();
        let arguments = ["--user", "me", "--password-file", password.to_str().unwrap()];
        let output = measure(telnetd(&refuse), &arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let refusal = "FAILED: the login was refused: 'Login incorrect'; check --user and";
        assert!(text.starts_with(refusal), "{text}");
        assert!(text.lines().count() <= 8, "{text}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_report_has_at_most_eight_lines_without_verbose() {
    in_new_network(|| {
        let lines = |arguments: &[&str]| {
            let output = measure(shell(), &[&["--keys", "20"], arguments].concat());
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let short = lines(&[]);
        assert!(short.len() <= 8, "{short:?}");
        assert!(short[0].starts_with("OK: echo ") || short[0].starts_with("SLOW: "), "{short:?}");
        let is_title = |line: &String| line == "The six measures of RFC 573";
        let verbose = lines(&["--verbose"]);
        assert!(verbose.len() > 30 && !verbose.iter().any(is_title), "{verbose:?}");
        assert!(lines(&["--rfc573"]).iter().any(is_title));
        assert!(lines(&["--color", "always"])[0].starts_with("\x1b[1;3"));
    });
}

fn is_refused_by(via: &str) {
    let mut command = Command::new(PLUMB);
    let output = command.args(["measure", "10.0.0.1:9", "--via", via]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("plumb: error: 10.0.0.1:9 refuses the connection"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn a_closed_port_causes_exit_code_1_and_one_error_line() {
    in_new_network(|| {
        is_refused_by("kernel");
        is_refused_by("tun:plumb0");
    });
}

/// A world-writable temporary directory, removed on drop.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("plumbline-{name}-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        Self(directory)
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn shows_a_login_and_leaves_its_report(command: &mut Command, directory: &TempDirectory) {
    let output = command.current_dir(&directory.0).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("$ uname -a\n  Linux "), "{text}");
    assert!(text.contains("Where the time of the median echo went (200 echoes"), "{text}");
    let report = fs::read_to_string(directory.0.join("plumbline-report.html")).unwrap();
    for part in ["figure 6-1 of TM-233", "One keystroke, from key to cell", "Today and 1982"] {
        assert!(report.contains(part), "{part}");
    }
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn the_demonstration_shows_a_login_and_leaves_a_report() {
    let directory = TempDirectory::new("demo");
    shows_a_login_and_leaves_its_report(Command::new(PLUMB).arg("demo"), &directory);
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn the_demonstration_needs_no_root() {
    if !test_support::is_root_of_the_machine() {
        return;
    }
    let mut become_nobody = Command::new("setpriv");
    become_nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    let directory = TempDirectory::new("nobody");
    let copy = directory.0.join("plumb");
    fs::copy(PLUMB, &copy).unwrap();
    shows_a_login_and_leaves_its_report(become_nobody.arg(copy).arg("demo"), &directory);
}

/// Returns the number of running programs with `mark` in their environment.
fn marked_processes(mark: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let environments =
        processes.filter_map(|process| fs::read(process.path().join("environ")).ok());
    environments.filter(|text| String::from_utf8_lossy(text).contains(mark)).count()
}

/// Polls until `condition` returns true: programs ended by a hangup take a moment to exit.
fn poll_until_true(condition: impl Fn() -> bool) -> bool {
    let clock = os::clock::Monotonic::start();
    let until = clock.now() + POLL_TIMEOUT;
    while !condition() {
        if clock.now() > until {
            return false;
        }
        thread::yield_now();
    }
    true
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's telnet servers"]
fn an_interrupted_demonstration_ends_all_its_processes() {
    let directory = TempDirectory::new("interrupted");
    let mut command = Command::new(PLUMB);
    command.arg("demo").current_dir(&directory.0).stdin(Stdio::null()).stdout(Stdio::piped());
    let mark = directory.0.display().to_string();
    command.env("PLUMBLINE_TEST", &mark);
    let mut program = Program::start(&mut command).unwrap();
    let mut output = program.child().stdout.take().unwrap();
    // The first part of the demonstration, which is the login, has started.
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("1. A real login") {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        text.extend(byte);
    }
    program.signal(Signal::INT).unwrap();
    output.read_to_end(&mut text).unwrap();
    let status = program.wait_for_end(POLL_TIMEOUT).unwrap().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(poll_until_true(|| marked_processes(&mark) == 0));
    assert!(!directory.0.join("plumbline-report.html").exists());
}
