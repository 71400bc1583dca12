//! Tests of `plumb measure` with targets other than cleartext Telnet: vsftpd, tftpd-hpa, a shell on
//! a serial line, a login in TLS, and a session recorded by `plumb login`. Other tests check
//! invalid targets, the report page, and the number of attempts.
//!
//! Each test with a server has its own network namespace and directory.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::serve_process::ServeProcess;
use login_harness::{
    SERVER, Server, TerminalUser, in_configured_network, in_new_network, poll_until_timeout,
    start_busybox, terminal_relay,
};
use os::process::Program;
use os::pty::Pty;
use os::tty::WindowSize;
use records::Measurement;
use records::measures::AttemptOutcome;
use records::sizes::Direction;
use rustix::process::Signal;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use test_support::peers;

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");
const SIZE: WindowSize = WindowSize { rows: 24, columns: 80 };
/// Size of the file on the servers.
const FILE_BYTES: u64 = 300_000;

/// A directory with the files that a server serves.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("plumb-targets-{}-{count}", std::process::id()));
        for directory in ["root/pub", "root/incoming", "empty"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(path.join("root/incoming"), open).unwrap();
        let length = usize::try_from(FILE_BYTES).unwrap();
        let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect();
        fs::write(path.join("root/pub/file"), &bytes).unwrap();
        fs::write(path.join("root/pub/small"), &bytes[..900]).unwrap();
        fs::write(path.join("root/pub/medium"), &bytes[..20_000]).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Starts vsftpd at port 2121, optionally with implicit TLS.
    fn vsftpd(&self, is_implicit: bool) -> Program {
        let status = peers::OPENSSL
            .command()
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3"])
            .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&self.0)
            .output();
        assert!(status.unwrap().status.success());
        let base = self.0.display();
        let implicit_tls = if is_implicit { "YES" } else { "NO" };
        let text = format!(
            "listen=YES\nlisten_address={SERVER}\nlisten_port=2121\nbackground=NO\n\
             anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
             anon_other_write_enable=YES\nanon_umask=022\nanon_root={base}/root\n\
             no_anon_password=YES\nftp_username=games\nsecure_chroot_dir={base}/empty\n\
             ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_data_ssl=NO\nforce_anon_logins_ssl=NO\n\
             require_ssl_reuse=YES\nrsa_cert_file={base}/cert.pem\nrsa_private_key_file={base}/key.pem\n\
             implicit_ssl={implicit_tls}\nseccomp_sandbox=NO\nisolate_network=NO\n"
        );
        let file = self.path("vsftpd.conf");
        fs::write(&file, text).unwrap();
        let mut command = peers::VSFTPD.command();
        command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Program::start(&mut command).unwrap();
        poll_until_timeout(|| TcpStream::connect((SERVER, 2121)).ok());
        server
    }

    /// Starts tftpd-hpa at port 6970.
    fn tftpd(&self) -> Program {
        let mut command = peers::TFTPD_HPA.command();
        command.args(["-L", "-c", "-p", "-u", "root", "-a", "0.0.0.0:6970", "-s"]);
        let server = Program::start(command.arg(self.path("root"))).unwrap();
        let url = format!("tftp://{SERVER}:6970/pub/small");
        poll_until_timeout(|| {
            let output = self.plumb(&["get", "-q", &url, "/dev/null"]);
            output.status.success().then_some(())
        });
        server
    }

    fn plumb(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PLUMB);
        command.args(words).env("XDG_STATE_HOME", &self.0).env("HOME", &self.0);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs `plumb measure`, checks that it succeeds, and returns its record.
    fn measure(&self, words: &[&str]) -> Measurement {
        let output = self.plumb(&[&["measure", "--json"], words].concat());
        assert!(output.status.success(), "{words:?}: {output:?}");
        Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A remaining temporary directory does no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a test with vsftpd in a new network namespace.
fn with_vsftpd(is_implicit: bool, test: impl FnOnce(&TestDirectory) + Send + 'static) {
    let network: &[&[&str]] =
        &[&["link", "set", "lo", "up"], &["address", "add", "10.0.0.1/32", "dev", "lo"]];
    in_configured_network(network, move || {
        let directory = TestDirectory::new();
        let _server = directory.vsftpd(is_implicit);
        test(&directory);
    });
}

/// Returns the sizes of the downloads, in ascending order.
fn received_sizes(record: &Measurement) -> Vec<u64> {
    let sizes = record.transfers.as_ref().unwrap().sizes(Direction::Received);
    sizes.iter().map(|size| size.bytes).collect()
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_file_on_vsftpd_is_measured_with_exponentially_growing_parts() {
    with_vsftpd(false, |directory| {
        let record = directory.measure(&["ftp://10.0.0.1:2121/pub/file"]);
        assert_eq!(received_sizes(&record), [1_024, 4_096, 16_384, 65_536, 262_144, FILE_BYTES]);
        let transfers = record.transfers.as_ref().unwrap();
        assert_eq!(transfers.samples.len(), 18);
        assert!(transfers.samples.iter().all(|one| {
            one.command_ns.is_some() && one.data_connect_ns.is_some() && one.data_ns.is_some()
        }));
        let received_bytes: u64 = transfers.sequence.iter().map(|arrival| arrival.bytes).sum();
        assert_eq!(received_bytes, FILE_BYTES);
        assert!(record.phases.connect_ns.is_some() && record.phases.login_ns.is_some());
        assert_eq!(
            (record.phases.tls_ns, record.address.as_deref()),
            (None, Some("10.0.0.1:2121"))
        );
        assert!(record.tcp.unwrap().rtt_ns.is_some());
    });
}

fn assert_measured_in_tls(scheme: &'static str, is_implicit: bool) {
    with_vsftpd(is_implicit, move |directory| {
        let url = format!("{scheme}://10.0.0.1:2121/pub/medium");
        let record = directory.measure(&["--rounds", "1", &url]);
        assert!(record.phases.tls_ns.is_some_and(|ns| ns > 0));
        let transfers = record.transfers.unwrap();
        assert!(transfers.samples.iter().all(|one| one.data_tls_ns.is_some_and(|ns| ns > 0)));
        assert_eq!(transfers.samples.len(), 4);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn tls_handshakes_are_reported_separately_from_login_and_data() {
    assert_measured_in_tls("ftpes", false);
    assert_measured_in_tls("ftps", true);
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_directory_is_measured_by_its_files_nearest_to_the_sizes() {
    with_vsftpd(false, |directory| {
        let record = directory.measure(&["--rounds", "1", "ftp://10.0.0.1:2121/pub/"]);
        assert_eq!(received_sizes(&record), [900, 4_096, 20_000, 65_536, FILE_BYTES]);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn a_test_file_on_vsftpd_is_compared_and_removed() {
    with_vsftpd(false, |directory| {
        let words = ["--write", "--pattern", "--bytes", "64K", "--rounds", "2"];
        let record = directory.measure(&[&words[..], &["ftp://10.0.0.1:2121/incoming/"]].concat());
        let sent_sizes = record.transfers.as_ref().unwrap().sizes(Direction::Sent);
        assert_eq!(sent_sizes.len(), 4);
        let accuracy = record.measures.unwrap().accuracy.unwrap();
        assert_eq!((accuracy.files, accuracy.bytes), (8, 2 * (1_024 + 4_096 + 16_384 + 65_536)));
        assert!(accuracy.units().iter().all(|(_, all, wrong)| *all > 0 && *wrong == 0));
        assert_eq!(fs::read_dir(directory.path("root/incoming")).unwrap().count(), 0);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn read_and_write_errors_are_one_error_line() {
    with_vsftpd(false, |directory| {
        let assert_rejected = |words: &[&str], code: i32, sentence: &str| {
            let output = directory.plumb(&[&["measure"], words].concat());
            let messages = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{messages}");
            assert!(messages.contains(sentence) && messages.lines().count() == 1, "{messages}");
        };
        assert_rejected(&["ftp://10.0.0.1:2121/pub/none"], 2, "the server has no 'pub/none'");
        assert_rejected(&["ftp://10.0.0.1:2121/incoming/"], 2, "no readable file in the directory");
        assert_rejected(
            &["--write", "ftp://10.0.0.1:2121/pub/file"],
            2,
            "--write requires a directory",
        );
        assert_rejected(&["ftp://10.0.0.1:9/x"], 1, "refuses the connection");
        let output = directory.plumb(&["measure", "--write", "ftp://10.0.0.1:2121/pub/"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and tftpd-hpa"]
fn a_file_on_tftpd_is_measured_by_its_prefixes() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let _server = directory.tftpd();
        let record = directory.measure(&["tftp://10.0.0.1:6970/pub/file"]);
        assert_eq!(received_sizes(&record), [1_024, 4_096, 16_384, 65_536, 262_144, FILE_BYTES]);
        let samples = record.transfers.unwrap().samples;
        assert_eq!(samples.iter().filter(|one| !one.is_partial).count(), 3);
        let measures = record.measures.unwrap();
        assert!(measures.response_ns.is_some() && measures.rate_peak_bps.is_some());
    });
}

#[test]
#[ignore = "needs root or a user namespace, and tftpd-hpa"]
fn a_test_file_on_tftpd_is_compared() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let _server = directory.tftpd();
        let words = ["--write", "--pattern", "--bytes", "16K", "--rounds", "1"];
        let record = directory.measure(&[&words[..], &["tftp://10.0.0.1:6970/incoming/"]].concat());
        let accuracy = record.measures.unwrap().accuracy.unwrap();
        assert_eq!((accuracy.files, accuracy.bits_wrong), (3, 0));
        let uploaded = fs::read(directory.path("root/incoming/plumb-measure")).unwrap();
        assert_eq!(uploaded.len(), 16_384);
    });
}

/// A shell at the other end of a serial line, killed on drop.
struct ShellOnALine {
    device: PathBuf,
    /// Dropping this socket ends the relay, and the end of the relay ends the shell.
    _held: UnixStream,
}

impl ShellOnALine {
    fn start() -> Self {
        let mut command = Command::new("/bin/sh");
        command.env("PS1", "$ ");
        let shell = Pty::open(SIZE).unwrap().start(command).unwrap();
        let line = Pty::open(SIZE).unwrap();
        // Raw mode: data that arrives before the line is opened must not be echoed.
        let mut attributes = tcgetattr(line.terminal()).unwrap();
        attributes.make_raw();
        tcsetattr(line.terminal(), OptionalActions::Now, &attributes).unwrap();
        let device = line.path().to_owned();
        let (held, ended) = UnixStream::pair().unwrap();
        thread::spawn(move || terminal_relay::run(&line, &shell, &ended));
        Self { device, _held: held }
    }
}

#[test]
fn a_shell_on_a_serial_line_is_measured_without_a_network() {
    let directory = TestDirectory::new();
    let line = ShellOnALine::start();
    let target = format!("serial:{}?baud=115200", line.device.display());
    let record = directory.measure(&["--keys", "30", "--pattern", &target]);
    assert_eq!((record.via.as_str(), record.address), (target.as_str(), None));
    let echo = record.echo.unwrap();
    assert_eq!((echo.samples, echo.times_ns.len()), (30, 30));
    let screenful = record.screenful.unwrap();
    assert!(screenful.cells >= 1_920, "{screenful:?}");
    // The measured rate differs from the line's nominal rate, because a pseudo-terminal has no rate
    // limit.
    assert_eq!(record.refuted_line_bps, Some(115_200));
    let arrived_bytes: u64 = screenful.arrivals.iter().map(|arrival| arrival.bytes).sum();
    assert_eq!(arrived_bytes, screenful.bytes);
    assert_eq!((record.tcp, record.phases.connect_ns), (None, None));
    let accuracy = record.measures.unwrap().accuracy.unwrap();
    assert_eq!((accuracy.bytes, accuracy.bits_wrong), (30, 0));
}

#[test]
fn attempts_on_a_serial_line_require_an_echo() {
    let directory = TestDirectory::new();
    let line = ShellOnALine::start();
    let target = format!("serial:{}", line.device.display());
    let words = ["--keys", "5", "--count", "3", "--every", "100ms"];
    let record = directory.measure(&[&words[..], &[&target]].concat());
    assert_eq!(record.tries.len(), 3);
    assert!(record.tries.iter().all(|one| one.response_ns.is_some()), "{:?}", record.tries);
    assert_eq!(record.measures.unwrap().availability, Some(1.0));
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_tls_handshake_of_a_login_is_reported_separately() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let address = format!("{SERVER}:992");
        let _server = ServeProcess::start_with(&["--listen-tls", &address, "--exec", "/bin/sh"]);
        let record = directory.measure(&["--keys", "30", "telnets://10.0.0.1"]);
        assert!(record.phases.tls_ns.is_some_and(|ns| ns > 0));
        assert_eq!(record.echo.unwrap().samples, 30);
        assert_eq!(record.target, "telnets://10.0.0.1");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn input_at_a_login_is_echoed_unchanged() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::Busybox.start();
        let target = format!("{SERVER}:{}", server.port());
        let record = directory.measure(&["--keys", "50", "--pattern", &target]);
        let accuracy = record.measures.unwrap().accuracy.unwrap();
        assert_eq!((accuracy.bytes, accuracy.files, accuracy.bits_wrong), (50, 4, 0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn the_first_attempt_is_measured_and_all_attempts_count_for_availability() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::Busybox.start();
        let target = format!("{SERVER}:{}", server.port());
        let words = ["--keys", "5", "--every", "100ms", "--tries", "3"];
        let record = directory.measure(&[&words[..], &[&target]].concat());
        assert!(
            record.tries.iter().all(|one| one.outcome == AttemptOutcome::Ok),
            "{:?}",
            record.tries
        );
        let measures = record.measures.unwrap();
        assert_eq!((measures.tries, measures.tries_failed), (3, 0));
        assert_eq!((measures.availability, measures.between_failures_ns), (Some(1.0), None));
        assert!(record.echo.is_some());
        assert!(record.tries.iter().all(|one| one.echo_p50_ns.is_some()), "{:?}", record.tries);
        let words = ["--keys", "5", "--every", "100ms", "--tries", "3", "--color", "never"];
        let output = directory.plumb(&[&["measure"], &words[..], &[&target]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_try = |line: &&str| line.get(10..).is_some_and(|rest| rest.contains("  echo "));
        let is_grade = |line: &str| line.contains("  OK      ") || line.contains("  SLOW    ");
        let tries: Vec<_> = text.lines().filter(is_try).collect();
        assert_eq!(tries.len(), 3, "{text}");
        // A loaded machine may be slow. The first try has the grade of the whole measurement.
        assert!(is_grade(tries[0]), "{text}");
    });
}

/// Writes a login program that asks for a name and a password, appends both to the file `logins`, and
/// starts a shell after the password "secret". Returns the program and the file of the password.
fn login_program(directory: &TestDirectory, password: &str) -> (String, String) {
    let program = directory.path("login");
    let log = directory.path("logins");
    let script = format!(
        "#!/bin/sh\nprintf 'host login: '\nread -r name\nprintf 'Password: '\nstty -echo\n\
         read -r password\nstty echo\necho \"$name:$password\" >> {log}\n\
         [ \"$password\" = secret ] && exec /bin/sh -i\n\
         printf '\\nLogin incorrect\\nhost login: '\nread -r name\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let file = directory.path("password");
    fs::write(&file, format!("{password}\n")).unwrap();
    (program, file)
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn each_try_logs_in_with_the_credentials() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let (program, password) = login_program(&directory, "secret");
        let server = start_busybox(&program);
        let target = format!("{SERVER}:{}", server.port());
        let login = ["--user", "me", "--password-file", &password, "--keys", "5"];
        let words = [&login[..], &["--every", "100ms", "--tries", "3", &target]].concat();
        let record = directory.measure(&words);
        assert_eq!(fs::read_to_string(directory.path("logins")).unwrap(), "me:secret\n".repeat(3));
        assert!(record.phases.password_prompt_ns.is_some(), "{:?}", record.phases);
        for one in &record.tries {
            assert_eq!(one.outcome, AttemptOutcome::Ok, "{:?}", record.tries);
            assert!(
                one.login_total_ns.is_some() && one.echo_p50_ns.is_some(),
                "{:?}",
                record.tries
            );
        }
        // The next tries are refused, and each of them is a failure.
        let first = fs::read_to_string(&program).unwrap();
        let refusing = first.replace("[ \"$password\" = secret ]", "[ $(wc -l < LOG) = 1 ]");
        fs::remove_file(directory.path("logins")).unwrap();
        fs::write(&program, refusing.replace("LOG", &directory.path("logins"))).unwrap();
        let output = directory.plumb(&[&["measure", "--json"], &words[..]].concat());
        let record = Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap();
        let outcomes: Vec<_> = record.tries.iter().map(|one| one.outcome).collect();
        let expected = [AttemptOutcome::Ok, AttemptOutcome::NotUsable, AttemptOutcome::NotUsable];
        assert_eq!(outcomes, expected);
        let error = record.tries[2].error.as_deref().unwrap();
        assert!(error.starts_with("the login was refused"), "{error}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn after_a_refused_login_no_further_try_is_made() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let (program, password) = login_program(&directory, "wrong");
        let server = start_busybox(&program);
        let target = format!("{SERVER}:{}", server.port());
        let login = ["--user", "me", "--password-file", &password];
        let words = [&login[..], &["--every", "100ms", "--tries", "3", &target]].concat();
        let output = directory.plumb(&[&["measure"], &words[..]].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(fs::read_to_string(directory.path("logins")).unwrap(), "me:wrong\n");
    });
}

#[test]
fn an_interrupted_measurement_is_marked_in_its_record_with_the_exit_code_of_the_signal() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = TestDirectory::new();
        let echoes = directory.path("echoes");
        let mut command = Command::new(PLUMB);
        command.args(["measure", "--json", "--keys", "100000", "--exec"]);
        command.arg(format!("script -qfc '/bin/sh -i' {echoes}")).stdin(Stdio::null());
        command.env("HOME", &directory.0).env("XDG_STATE_HOME", &directory.0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Program::start(&mut command).unwrap();
        // The shell has echoed some of the keys.
        poll_until_timeout(|| (fs::metadata(&echoes).ok()?.len() > 500).then_some(()));
        program.signal(signal).unwrap();
        let mut text = String::new();
        program.child().stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(program.child().wait().unwrap().code(), Some(code), "{text}");
        let record = Measurement::from_json(&text).unwrap();
        assert!(record.is_interrupted, "{record:?}");
        assert!(record.echo.is_some_and(|echo| echo.samples < 100_000));
    }
}

#[test]
fn a_followed_series_fills_the_terminal_at_each_width_until_q() {
    let directory = TestDirectory::new();
    let mut command = Command::new(PLUMB);
    command.args([
        "measure",
        "--follow",
        "--every",
        "100ms",
        "--keys",
        "5",
        "--exec",
        "/bin/sh -i",
    ]);
    command.env("HOME", &directory.0).env("XDG_STATE_HOME", &directory.0).env("LC_ALL", "C.UTF-8");
    let mut user = TerminalUser::run(command);
    user.wait_for_text("3 tries, 0 failed");
    for columns in [40, 80, 120] {
        user.set_window_size(WindowSize { rows: 20, columns });
        let axis = "─".repeat(usize::from(columns) - 11);
        // The table follows the axis, and only the screen has both without escape sequences.
        user.wait_for_text(&format!("0 {axis}\n\npart "));
    }
    user.wait_for_text("q: quit");
    user.type_keys("q");
    assert!(user.read_until_exit().success(), "{}", user.screen());
    user.assert_sane_terminal();
    // The short report follows on the normal screen.
    assert!(user.all_output().contains("tries failed"), "{}", user.all_output());
}

/// Starts a measurement of `target` that prompts for the password of a user, and answers `keys`.
fn measure_with_password_prompt(
    directory: &TestDirectory,
    target: &str,
    keys: &str,
) -> TerminalUser {
    let mut command = Command::new(PLUMB);
    command.args(["measure", "--keys", "100000", target]);
    command.env("HOME", &directory.0).env("XDG_STATE_HOME", &directory.0).env("LC_ALL", "C.UTF-8");
    let mut user = TerminalUser::run(command);
    user.wait_for_text("Password of me");
    user.type_keys(keys);
    user
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn an_interrupt_after_the_prompt_for_the_password_still_gives_the_report() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::Busybox.start();
        let target = format!("me@{SERVER}:{}", server.port());
        let mut user = measure_with_password_prompt(&directory, &target, "secret\r");
        user.wait_for_text("00 of 100000");
        user.type_keys("\x03");
        assert_eq!(user.read_until_exit().code(), Some(130), "{}", user.screen());
        user.assert_sane_terminal();
        let text = user.all_output();
        assert!(text.contains("\necho ") && text.contains("interrupted"), "{text}");
    });
}

#[test]
fn an_interrupt_at_the_prompt_for_the_password_is_not_an_error() {
    let directory = TestDirectory::new();
    let mut user = measure_with_password_prompt(&directory, "me@192.0.2.1", "\x03");
    assert_eq!(user.read_until_exit().code(), Some(130), "{}", user.screen());
    user.assert_sane_terminal();
    assert!(!user.all_output().contains("error"), "{}", user.screen());
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_host_that_refuses_every_attempt_is_unavailable_with_exit_code_1() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let words = ["measure", "--json", "--count", "2", "--every", "100ms", "10.0.0.1:9"];
        let output = directory.plumb(&words);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let record = Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap();
        let measures = record.measures.unwrap();
        assert_eq!((measures.tries_failed, measures.failures), (2, 1));
        assert_eq!((measures.availability, measures.response_ns), (Some(0.0), None));
        assert!(record.tries.iter().all(|one| one.outcome == AttemptOutcome::NoConnection));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_unresolved_name_and_a_refused_connection_fail_at_different_steps() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        for (target, outcome) in [
            ("ftp://nosuch.invalid/", AttemptOutcome::NoAddress),
            ("ftp://10.0.0.1:9/", AttemptOutcome::NoConnection),
        ] {
            let output =
                directory.plumb(&["measure", "--json", "--count", "2", "--every", "100ms", target]);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let record = Measurement::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap();
            assert_eq!(record.tries.len(), 2, "{target}");
            let has_expected_outcome = record.tries.iter().all(|one| one.outcome == outcome);
            assert!(has_expected_outcome, "{target}: {:?}", record.tries);
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn echoes_are_measured_from_a_recorded_session() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::Busybox.start();
        let cast = directory.path("session.cast");
        let port = server.port().to_string();
        let mut user =
            TerminalUser::with_arguments(&["--record", &cast, "--record-input", SERVER, &port]);
        user.wait_for_shell();
        let mut expected_text = String::from("ready:");
        for key in "echo hu".chars() {
            user.type_keys(&key.to_string());
            expected_text.push(key);
            user.wait_for_text(expected_text.trim_end());
        }
        user.type_keys("\r");
        user.wait_for_text("hu\n");
        user.type_keys("exit\r");
        assert_eq!(user.wait_for_exit().code(), Some(0));
        let record = directory.measure(&[&cast]);
        let echo = record.echo.unwrap();
        assert!(echo.samples >= 1 && echo.layers.is_empty(), "{echo:?}");
        let recording = record.recording.unwrap();
        assert!(recording.keys >= 7 && recording.bytes > 0 && recording.duration_ns > 0);
        assert_eq!((record.measures, record.tries), (None, Vec::new()));
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_running_plumb_serve_is_measured_by_its_meters() {
    in_new_network(|| {
        let state = TestDirectory::new();
        let mut server = ServeProcess::start(&["--exec", "/bin/sh"]);
        let target = format!("pid:{}", server.program.id());
        let record = poll_until_timeout(|| {
            let output = state.plumb(&["measure", "--json", "--for", "200ms", &target]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success().then(|| Measurement::from_json(&text).unwrap())
        });
        let running = record.running.unwrap();
        assert_eq!((running.pid, running.command.as_str()), (server.program.id(), "serve"));
        assert!(running.window_ns >= 200_000_000);
        assert_eq!((record.measures, record.tries), (None, Vec::new()));
        drop(server.program.exit_status());
    });
}

#[test]
fn each_kind_of_invalid_target_is_one_error_line() {
    let directory = TestDirectory::new();
    fs::write(directory.path("text.cast"), "no recording\n").unwrap();
    let assert_rejected = |words: &[&str], code: i32, sentence: &str| {
        let output = directory.plumb(&[&["measure"], words].concat());
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{messages}");
        assert!(messages.contains(sentence) && messages.lines().count() == 1, "{messages}");
    };
    assert_rejected(&["ssh://host"], 2, "unsupported URL scheme 'ssh://': use");
    assert_rejected(&["pid:me"], 2, "plumb meters --list");
    assert_rejected(&["pid:1"], 3, "no plumb process 1 of this user");
    assert_rejected(&["/etc/passwd"], 2, "is not a target");
    assert_rejected(&["serial:/dev/plumb-none"], 4, "there is no serial device");
    assert_rejected(&["none.cast"], 4, "no such file: none.cast");
    assert_rejected(&[&directory.path("text.cast")], 1, "is not a recording");
    assert_rejected(&["--write", "host"], 2, "--write requires a file server");
    assert_rejected(&["--pattern", "ftp://host/x"], 2, "--pattern requires --write");
    assert_rejected(&["--count", "2", "x.cast"], 2, "do not apply to a recording");
    assert_rejected(&["--every", "1s", "host"], 2, "needs an end");
    assert_rejected(&["--via", "tun:x", "serial:/dev/x"], 2, "--via applies only to hosts");
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn the_report_page_of_a_transfer_has_its_charts() {
    with_vsftpd(false, |directory| {
        // A chart needs three arrivals, and a smaller file can arrive in fewer on an idle machine.
        fs::write(directory.path("root/pub/large"), vec![7; 8 << 20]).unwrap();
        let page = directory.path("page.html");
        directory.measure(&["--html", &page, "ftp://10.0.0.1:2121/pub/large"]);
        let text = fs::read_to_string(Path::new(&page)).unwrap();
        for title in ["Throughput against size", "Time-sequence graph of the largest transfer"] {
            assert!(text.contains(&format!("<h2>{title}</h2>")), "{title}");
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and busybox"]
fn the_report_page_of_a_login_has_its_charts() {
    in_new_network(|| {
        let directory = TestDirectory::new();
        let server = Server::Busybox.start();
        let page = directory.path("page.html");
        let target = format!("{SERVER}:{}", server.port());
        directory.measure(&["--html", &page, &target]);
        let text = fs::read_to_string(Path::new(&page)).unwrap();
        for title in [
            "The login, step by step",
            "One keystroke, from key to cell",
            "Echo histogram",
            "Share of keystrokes echoed within a time",
            "Where the time is spent",
        ] {
            assert!(text.contains(&format!("<h2>{title}</h2>")), "{title}");
        }
    });
}
