//! Tests without servers of other projects: with plumb's own server, and with a faulty server that
//! deviates from the protocol during a transfer.

use crate::faulty_ftp::{Cut, FaultyFtpServer, Quirk};
use crate::login_harness::{TerminalUser, poll_until_timeout};
use os::process::Program;
use os::pty::Pty;
use os::tty::WindowSize;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use test_support::ProgramLog;

/// A working directory with a subdirectory `there` for a server.
pub(crate) struct TestDirectory(pub(crate) PathBuf);

impl TestDirectory {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("plumb-own-server-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("there")).unwrap();
        Self(path)
    }

    pub(crate) fn plumb(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.current_dir(&self.0).env("HOME", &self.0).env("XDG_STATE_HOME", &self.0);
        command.env("XDG_CONFIG_HOME", self.0.join("config")).env("TERM", "xterm");
        command
    }

    pub(crate) fn run_ok(&self, words: &[&str]) {
        let (code, _, messages) = self.run(words);
        assert_eq!(code, Some(0), "{words:?}: {messages}");
    }

    /// Runs plumb, and returns its exit code, standard output and standard error.
    pub(crate) fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = self.plumb().args(words).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Runs the interactive client with `lines` as input, all of them even if one fails, and returns
    /// its standard output and standard error.
    pub(crate) fn run_shell(&self, url: &str, lines: &str) -> (String, String) {
        let mut command = self.plumb();
        command.args(["ftp", "--continue-on-error", url]).stdin(Stdio::piped());
        let mut shell = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut shell.stdin.take().unwrap(), lines.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }

    /// Starts plumb's server with `lines` in its table `[ftp]`, and returns it with its URL.
    pub(crate) fn serve(&self, lines: &str) -> (Program, String) {
        let configuration = self.0.join("serve.toml");
        fs::write(&configuration, format!("[ftp]\nrights = \"writable\"\n{lines}")).unwrap();
        let mut command = self.plumb();
        command.args(["serve", "--ftp", "--ftp-listen", "127.0.0.1:0", "--root"]);
        command.arg(self.0.join("there")).arg("--config").arg(configuration);
        command.stderr(Stdio::piped());
        let mut server = Program::start(&mut command).unwrap();
        let log = ProgramLog::read(server.child().stderr.take().unwrap());
        let line = log.wait_for("serving FTP at ");
        let address = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
        (server, format!("ftp://{address}"))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A remaining temporary directory does no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn words_of_36_bits_are_transferred_in_every_format() {
    let directory = TestDirectory::new("words");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("text"), "HELLO, WORLD\nTHIS IS TEXT OF 36 BITS.\n").unwrap();
    let remote_url = format!("{url}/words");
    directory.run_ok(&["put", "--type", "L 36", "--store", "text", "text", &remote_url]);
    directory.run_ok(&["get", "--type", "L36", "--store", "h36", &remote_url, "h36"]);
    for format in ["h36", "c36", "a36", "u36", "data8", "oct", "text"] {
        let local_name = format!("w.{format}");
        let second_url = format!("{url}/again.{format}");
        directory.run_ok(&["get", "--type", "L36", "--store", format, &remote_url, &local_name]);
        directory.run_ok(&["put", "--store", format, &local_name, &second_url]);
        let downloaded_name = format!("back.{format}");
        directory.run_ok(&["get", "--store", "h36", &second_url, &downloaded_name]);
        assert_eq!(directory.read(&downloaded_name), directory.read("h36"), "{format}");
    }
    assert_eq!(directory.read("w.text"), directory.read("text"));
    assert_eq!(directory.read("w.data8").len() / 8, directory.read("w.c36").len() / 5);
}

#[test]
fn words_of_other_sizes_are_unchanged_after_a_round_trip() {
    let directory = TestDirectory::new("sizes");
    let (_server, url) = directory.serve("");
    let bytes: Vec<u8> = (0..7200_u32).map(|at| u8::try_from(at * 7 % 256).unwrap()).collect();
    fs::write(directory.0.join("bits"), &bytes).unwrap();
    for size in ["L8", "L16", "L32", "L64", "L 9", "L1"] {
        let remote_url = format!("{url}/of-{}", size.replace(' ', ""));
        let downloaded_name = format!("b{size}");
        directory.run_ok(&["put", "--type", size, "--store", "h36", "bits", &remote_url]);
        directory.run_ok(&["get", "--type", size, "--store", "h36", &remote_url, &downloaded_name]);
        assert!(directory.read(&downloaded_name) == bytes, "{size}");
    }
}

#[test]
fn mail_is_delivered_only_to_an_existing_mailbox() {
    let directory = TestDirectory::new("mail");
    fs::create_dir_all(directory.0.join("spool/ann")).unwrap();
    let spool = directory.0.join("spool").display().to_string();
    let lines = format!("mail-spool = \"{spool}\"\nmail-from-anonymous = true\n");
    let (_server, url) = directory.serve(&lines);
    fs::write(directory.0.join("letter"), "dear ann\n.\nbye\n").unwrap();
    directory.run_ok(&["mail", "letter", &format!("{url}/ann")]);
    let mails = fs::read_dir(directory.0.join("spool/ann/new")).unwrap();
    let texts = mails.map(|mail| fs::read_to_string(mail.unwrap().path()).unwrap());
    let texts: Vec<_> = texts.collect();
    assert!(
        matches!(texts.as_slice(), [text] if text.ends_with("dear ann\n.\nbye\n")),
        "{texts:?}"
    );
    let output =
        directory.plumb().args(["mail", "letter", &format!("{url}/bob")]).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), messages.lines().count()), (Some(1), 1), "{messages}");
    assert!(messages.contains("cannot mail to 'bob': the server replied 550"), "{messages}");
}

const STALLED_TRANSFER: &[Quirk] = &[Quirk::Cut(30_000, Cut::Stalled)];

#[test]
fn an_interrupt_ends_the_transfer_and_not_the_shell() {
    let directory = TestDirectory::new("shell");
    let file = vec![7; 100_000];
    let server = FaultyFtpServer::start(STALLED_TRANSFER, &[("file", file.clone())]);
    let mut command = directory.plumb();
    command.args(["ftp", &format!("127.0.0.1:{}", server.port)]);
    let mut user = TerminalUser::run(command);
    user.wait_for_text("ftp 127.0.0.1:/>");
    user.type_keys("get file\r");
    poll_until_timeout(|| server.received().iter().any(|verb| verb == "RETR").then_some(()));
    user.type_keys("\x03");
    user.wait_for_text("interrupted");
    user.type_keys("get file whole\r");
    user.wait_for_text("downloaded '/file': 100,000 bytes");
    assert!(directory.read("whole") == file);
    user.type_keys("quit\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
}

#[test]
fn sigterm_ends_the_shell_at_its_prompt() {
    let directory = TestDirectory::new("told");
    let server = FaultyFtpServer::start(&[], &[("file", vec![7; 9])]);
    let mut command = directory.plumb();
    command.args(["ftp", &format!("127.0.0.1:{}", server.port)]);
    let mut user = TerminalUser::run(command);
    user.wait_for_text("ftp 127.0.0.1:/>");
    user.send_signal(rustix::process::Signal::TERM);
    assert_eq!(user.wait_for_exit().code(), Some(143));
    user.assert_sane_terminal();
}

#[test]
fn progress_fits_a_terminal_of_40_columns() {
    let directory = TestDirectory::new("narrow");
    let server = FaultyFtpServer::start(&[], &[("file", vec![7; 100_000])]);
    let mut command = directory.plumb();
    let url = format!("ftp://127.0.0.1:{}/file", server.port);
    command.args(["get", "--limit-rate", "60K", &url]);
    let pty = Pty::open(WindowSize { rows: 24, columns: 40 }).unwrap().start(command).unwrap();
    let mut output = Vec::new();
    let mut room = [0; 4096];
    poll_until_timeout(|| match pty.read(&mut room).unwrap() {
        Some(0) => Some(()),
        Some(count) => {
            output.extend_from_slice(&room[..count]);
            None
        }
        None => None,
    });
    let text = String::from_utf8_lossy(&output).into_owned();
    let bars: Vec<_> = text.split(['\r', '\n', '\x1b']).filter(|part| part.contains('%')).collect();
    assert!(!bars.is_empty(), "{text:?}");
    let widths = bars.iter().map(|bar| bar.trim_start_matches("[2K").trim_end().chars().count());
    assert!(widths.max().unwrap() <= 40, "{bars:?}");
}

#[test]
fn a_download_writes_into_an_existing_pipe() {
    let directory = TestDirectory::new("pipe");
    let server = FaultyFtpServer::start(&[], &[("file", vec![7; 300_000])]);
    let pipe = directory.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    directory.run_ok(&["get", "-f", &format!("ftp://127.0.0.1:{}/file", server.port), "pipe"]);
    assert!(reader.join().unwrap() == vec![7; 300_000]);
    assert!(!fs::symlink_metadata(&pipe).unwrap().is_file());
}

#[test]
fn a_refused_connection_is_reported_without_retrying() {
    let directory = TestDirectory::new("nobody");
    let unused_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output =
        directory.plumb().args(["get", &format!("ftp://{unused_address}/file")]).output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(messages.contains("refuses") && !messages.contains("attempt"), "{messages}");
}

#[test]
fn attempts_are_counted_on_after_the_server_has_gone() {
    let directory = TestDirectory::new("gone");
    let (server, url) = directory.serve("");
    fs::write(directory.0.join("there/file"), vec![7; 3_000_000]).unwrap();
    let from = format!("{url}/file");
    let get = ["get", "--limit-rate", "300K", "--tries", "3", &from];
    let (mut program, messages) = start_transfer(&directory, &get);
    drop(server);
    let status = poll_until_timeout(|| program.exit_status().unwrap());
    assert_eq!(status.code(), Some(1));
    let messages: Vec<String> = messages.iter().collect();
    let attempt = |line: &String| line.split("; attempt ").nth(1)?.chars().next();
    let attempts: Vec<char> = messages.iter().filter_map(attempt).collect();
    assert_eq!(attempts, ['2', '3'], "{messages:?}");
}

#[test]
fn names_with_line_ends_are_omitted_and_reported() {
    let directory = TestDirectory::new("line-ends");
    let (_server, url) = directory.serve("");
    fs::create_dir(directory.0.join("there/d")).unwrap();
    for name in ["d/plain", "d/a\nb", "d/a\rb", "d/bell\x07"] {
        fs::write(directory.0.join("there").join(name), name).unwrap();
    }
    let run = |words: &[&str]| {
        let output = directory.plumb().args(words).stdin(Stdio::null()).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), messages)
    };
    let (code, shown, messages) = run(&["ls", &format!("{url}/d/")]);
    assert_eq!((code, shown.as_str()), (Some(0), "bell?\nplain\n"));
    assert!(messages.contains("skipped 2 names of 'd/' on the server"), "{messages}");
    // A local file with a line end in its name may have a counterpart on the server, so the mirror
    // does not delete the file.
    fs::create_dir(directory.0.join("copy")).unwrap();
    for name in ["copy/a\nb", "copy/old"] {
        fs::write(directory.0.join(name), "x").unwrap();
    }
    let from = format!("{url}/d");
    let (code, _, messages) = run(&["mirror", "--delete", &from, "copy"]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(
        messages.contains("2 names of 'd' on") && messages.contains("1 name in the local"),
        "{messages}"
    );
    assert!(messages.contains("skipped 'bell\\x07': it is not a valid local name"), "{messages}");
    assert!(messages.ends_with("plumb: error: 4 names were skipped, see above\n"), "{messages}");
    assert_eq!(directory.read("copy/plain"), b"d/plain");
    assert!(directory.0.join("copy/a\nb").exists() && !directory.0.join("copy/old").exists());
    let (code, _, messages) = run(&["mirror", "copy", &format!("{url}/back")]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.ends_with("plumb: error: 1 name was skipped, see above\n"), "{messages}");
    assert_eq!(directory.read("there/back/plain"), b"d/plain");
    assert!(!directory.0.join("there/back/a\nb").exists());
}

/// Starts plumb and waits until the server has started the transfer (150).
fn start_transfer(
    directory: &TestDirectory,
    words: &[&str],
) -> (Program, std::sync::mpsc::Receiver<String>) {
    let mut command = directory.plumb();
    command.args(words).arg("--verbose").stdin(Stdio::null()).stderr(Stdio::piped());
    let mut program = Program::start(&mut command).unwrap();
    let mut lines = BufReader::new(program.child().stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("< 150")));
    let (sender, messages) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.for_each(|line| _ = sender.send(line.unwrap())));
    (program, messages)
}

/// Maximum time from an interrupt to the end of plumb, ten times the expected time. At the limited
/// rate, the data in the kernel's buffers would take longer.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends SIGINT, and returns the exit code and the messages printed afterwards.
fn interrupt(
    (mut program, messages): (Program, std::sync::mpsc::Receiver<String>),
) -> (Option<i32>, Vec<String>) {
    let interrupted_at = Instant::now();
    program.signal(rustix::process::Signal::INT).unwrap();
    let status = poll_until_timeout(|| program.exit_status().unwrap());
    assert!(interrupted_at.elapsed() < INTERRUPT_TIMEOUT, "{:?}", interrupted_at.elapsed());
    let is_message = |line: &String| !line.starts_with('<') && !line.starts_with('>');
    let messages = messages.iter().filter(is_message).collect();
    (status.code(), messages)
}

/// Waits until a file that plumb writes below `directory`, under any name, has at least `len`
/// bytes.
fn wait_for_growth(directory: &TestDirectory, program: &Program, len: u64) {
    let directory_path = format!("/proc/{}/fd", program.id());
    let is_download = |path: &Path| {
        // Libraries, which are open during startup, and files in plumb's own state directory do not
        // count.
        let target = fs::read_link(path).unwrap_or_default();
        target.starts_with(&directory.0) && !target.starts_with(directory.0.join("plumb"))
    };
    poll_until_timeout(|| {
        let files = fs::read_dir(&directory_path).unwrap().flatten().map(|entry| entry.path());
        let mut files =
            files.filter(|path| is_download(path)).filter_map(|path| fs::metadata(path).ok());
        files.any(|file| file.is_file() && file.len() >= len).then_some(())
    });
}

#[test]
fn an_interrupted_upload_keeps_the_old_file_in_every_state() {
    let directory = TestDirectory::new("interrupted");
    fs::write(directory.0.join("up"), vec![7; 30_000_000]).unwrap();
    // In the first case the client's own rate limit causes the waits, in the second case a slow
    // server.
    for (limit, lines) in [("500K", ""), ("900M", "bytes-per-second-max = 500000\n")] {
        let (_server, url) = directory.serve(lines);
        fs::write(directory.0.join("there/up"), "old").unwrap();
        let put =
            start_transfer(&directory, &["put", "--limit-rate", limit, "up", &format!("{url}/up")]);
        let (code, messages) = interrupt(put);
        assert_eq!((code, messages), (Some(130), vec!["plumb: error: interrupted".to_owned()]));
        assert_eq!(directory.read("there/up"), b"old", "{limit}");
    }
}

#[test]
fn an_interrupted_download_reports_its_partial_file_and_resumes_it() {
    let directory = TestDirectory::new("kept");
    let (_server, url) = directory.serve("");
    let file: Vec<u8> = (0..30_000_000_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    fs::write(directory.0.join("there/file"), &file).unwrap();
    let from = format!("{url}/file");
    let download = start_transfer(&directory, &["get", "--limit-rate", "2M", &from]);
    wait_for_growth(&directory, &download.0, 100_000);
    let (code, messages) = interrupt(download);
    assert_eq!((code, messages.len()), (Some(130), 2), "{messages:?}");
    assert!(messages[0].contains(" bytes of 'file' in 'file.part'"), "{messages:?}");
    assert_eq!(messages[1], "plumb: error: interrupted");
    let partial_len = directory.read("file.part").len();
    let output = directory.plumb().args(["get", "--continue", &from]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(directory.read("file") == file && !directory.0.join("file.part").exists(), "{stderr}");
    let rest = records::format::count(u64::try_from(file.len() - partial_len + 4096).unwrap());
    assert!(stderr.contains(&format!("downloaded 'file': {rest} bytes")), "{stderr}");
}

#[test]
fn an_interrupted_mirror_is_reported_once_and_the_next_one_resumes() {
    let directory = TestDirectory::new("mirror-again");
    let (_server, url) = directory.serve("");
    fs::create_dir(directory.0.join("there/d")).unwrap();
    let file = vec![7; 20_000_000];
    for name in ["a", "b"] {
        fs::write(directory.0.join("there/d").join(name), &file).unwrap();
    }
    let from = format!("{url}/d");
    let mut command = directory.plumb();
    command.args(["mirror", "--limit-rate", "2M", &from, "here"]).stderr(Stdio::piped());
    let mut mirror = Program::start(&mut command).unwrap();
    wait_for_growth(&directory, &mirror, 100_000);
    mirror.signal(rustix::process::Signal::INT).unwrap();
    let mut messages = String::new();
    std::io::Read::read_to_string(&mut mirror.child().stderr.take().unwrap(), &mut messages)
        .unwrap();
    assert_eq!(messages.matches("interrupted").count(), 1, "{messages}");
    assert!(directory.0.join("here/a.part").exists(), "{messages}");
    let output = directory.plumb().args(["mirror", "--delete", &from, "here"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("mirrored 2 files") && !stderr.contains("40,000,000"), "{stderr}");
    assert!(directory.read("here/a") == file && directory.read("here/b") == file);
    assert!(!directory.0.join("here/a.part").exists());
}

#[test]
fn a_reader_that_closes_its_pipe_causes_no_message() {
    let directory = TestDirectory::new("enough");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("there/file"), vec![b'\n'; 10_000_000]).unwrap();
    let mut command = directory.plumb();
    command.args(["cat", &format!("{url}/file")]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut cat = Program::start(&mut command).unwrap();
    let mut byte = [0];
    std::io::Read::read_exact(&mut cat.child().stdout.take().unwrap(), &mut byte).unwrap();
    let mut messages = String::new();
    std::io::Read::read_to_string(&mut cat.child().stderr.take().unwrap(), &mut messages).unwrap();
    assert_eq!(messages, "");
}

#[test]
fn non_ascii_names_are_displayed_and_unusual_names_are_listed_and_removed() {
    let directory = TestDirectory::new("letters");
    let (_server, url) = directory.serve("");
    fs::create_dir(directory.0.join("there/d")).unwrap();
    for name in ["d/grün", "d/-dash", "d/c:colon", "d/back\\slash"] {
        fs::write(directory.0.join("there").join(name), "x").unwrap();
    }
    let run = |words: &[&str]| {
        let output = directory.plumb().args(words).stdin(Stdio::null()).output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), messages)
    };
    let (_, shown, _) = run(&["ls", &format!("{url}/d")]);
    assert_eq!(shown, "-dash\nback\\slash\nc:colon\ngrün\n");
    let (code, _, messages) = run(&["get", "-r", &format!("{url}/d")]);
    assert_eq!(code, Some(1));
    assert!(messages.contains("skipped 3 names that are not valid local names"), "{messages}");
    assert_eq!(directory.read("d/grün"), b"x");
    let (_, _, messages) = run(&["get", &format!("{url}/d/grün")]);
    assert!(messages.contains("downloaded 'd/grün': 1 bytes"), "{messages}");
    assert_eq!(run(&["rm", "-r", &format!("{url}/d")]).0, Some(0));
    assert!(!directory.0.join("there/d").exists());
    let (code, _, messages) = run(&["ls", &format!("{url}/no*")]);
    assert_eq!(
        (code, messages.as_str()),
        (Some(1), "plumb: error: nothing on the server matches 'no*'\n")
    );
}

#[test]
fn the_shell_explains_errors_in_known_commands() {
    let directory = TestDirectory::new("arity");
    let (_server, url) = directory.serve("");
    fs::create_dir(directory.0.join("there/d")).unwrap();
    let (_, messages) =
        directory.run_shell(&url, "get\nfrobnicate\nmkdir d\nget no*\ngte a\nquit\n");
    let messages: Vec<_> = messages.lines().collect();
    let usage = "plumb: error: wrong arguments for 'get', usage: get [-cf] NAME [LOCAL]";
    assert_eq!(messages[0], usage, "{messages:?}");
    assert_eq!(messages[1], "plumb: error: unknown command: 'help' lists all");
    assert_eq!(messages[4], "plumb: error: unknown command 'gte': did you mean 'get'?");
    assert!(
        messages[2].contains("cannot create the directory '/d': the server replied 550"),
        "{messages:?}"
    );
    assert_eq!(messages[3], "plumb: error: nothing on the server matches 'no*'");
}
