//! Tests of file transfers of `plumb login` by XMODEM, YMODEM and ZMODEM, with the programs of lrzsz
//! as peers: over Telnet, over plain TCP with faults, and over a serial line.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "modem/blocks_over_telnet.rs"]
mod blocks_over_telnet;
#[path = "modem/boards.rs"]
mod boards;
#[path = "modem/cancelled.rs"]
mod cancelled;
#[path = "modem/killed_receiver.rs"]
mod killed_receiver;
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;
#[path = "modem/recorded_ends.rs"]
mod recorded_ends;
#[path = "modem/remote_shell.rs"]
mod remote_shell;
#[path = "modem/without_binary.rs"]
mod without_binary;

use login_harness::serve_process::{PORT, ServeProcess, unique};
use login_harness::{SERVER, Server, TerminalUser, in_new_network, plumb};
use remote_shell::{Fault, RemoteShell};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::peers;

/// A directory of the remote host and one of the user, removed on drop.
struct Directories {
    remote: PathBuf,
    local: PathBuf,
}

impl Directories {
    fn new() -> Self {
        // Fails with the name of the package if lrzsz is missing.
        drop(peers::LRZSZ.command());
        let directories = Self { remote: unique("remote"), local: unique("local") };
        for directory in [&directories.remote, &directories.local] {
            fs::create_dir(directory).unwrap();
        }
        directories
    }

    /// Writes files of several sizes to a directory; returns their names.
    fn write_files(directory: &Path) -> [&'static str; 3] {
        fs::write(directory.join("empty"), b"").unwrap();
        fs::write(directory.join("byte"), b"\x11").unwrap();
        fs::write(directory.join("large.bin"), content()).unwrap();
        ["empty", "byte", "large.bin"]
    }

    fn download_option(&self) -> String {
        format!("--download-directory={}", self.local.display())
    }

    /// Starts `plumb login` with downloads to the local directory.
    fn log_in(&self, arguments: &[&str]) -> TerminalUser {
        let mut command = plumb();
        command.arg(self.download_option()).args(arguments);
        TerminalUser::run(command)
    }

    /// Logs in to a remote shell, whose directory is the remote one.
    fn log_in_to(&self, shell: &RemoteShell, arguments: &[&str]) -> TerminalUser {
        let mut user = self.log_in(&[arguments, &[&shell.destination]].concat());
        user.type_keys("\r");
        self.enter_directory(&mut user);
        user
    }

    fn enter_directory(&self, user: &mut TerminalUser) {
        user.wait_for_text("ready:");
        user.type_keys(&format!("cd {} && echo in-''directory\r", self.remote.display()));
        user.wait_for_text("in-directory");
    }

    fn assert_same(&self, names: &[&str]) {
        for name in names {
            assert_eq_files(&self.remote.join(name), &self.local.join(name));
        }
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.remote);
        _ = fs::remove_dir_all(&self.local);
    }
}

fn assert_eq_files(one: &Path, other: &Path) {
    assert!(fs::read(one).unwrap() == fs::read(other).unwrap(), "{one:?} {other:?}");
}

/// Returns one megabyte of all byte values and many pairs of them.
fn content() -> Vec<u8> {
    (0..1_000_000_u32)
        .map(|at| (at ^ at >> 8 ^ at.wrapping_mul(31) >> 16).to_le_bytes()[0])
        .collect()
}

/// Checks that the shell executes commands.
fn assert_shell_works(user: &mut TerminalUser) {
    user.type_keys("echo answer-$((6*7))\r");
    user.wait_for_text("answer-42");
}

/// Maximum time of an upload. lrzsz discards its input after each answer, and on a busy machine the
/// next block with it; it requests a lost block after 6 s.
const UPLOAD_TIMEOUT: net::time::Duration = net::time::Duration::from_secs(60);

/// Ends the session.
fn close(user: &mut TerminalUser) {
    user.type_keys("\x1dclose\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
}

/// Downloads by sz, and uploads to rz.
fn transfer_by_zmodem(directories: &Directories, user: &mut TerminalUser) {
    directories.enter_directory(user);
    let names = Directories::write_files(&directories.remote);
    user.type_keys("sz empty byte large.bin; echo end-''of-1\r");
    user.wait_for_text("Received large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-1");
    assert_shell_works(user);
    directories.assert_same(&names);
    for name in names {
        fs::remove_file(directories.remote.join(name)).unwrap();
    }
    user.type_keys("rz; echo end-''of-2\r");
    user.wait_for_text("The remote host waits for files");
    let local = directories.local.display();
    user.type_keys(&format!("send {local}/empty {local}/byte {local}/large.bin\r"));
    user.wait_for_text("Sent large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-2");
    assert_shell_works(user);
    directories.assert_same(&names);
}

#[test]
#[ignore = "needs root or a user namespace, and lrzsz"]
fn files_are_transferred_by_zmodem_through_plumb_serve() {
    in_new_network(|| {
        let directories = Directories::new();
        let _server = ServeProcess::start(&["--exec", "env", "PS1=ready:", "/bin/sh"]);
        let mut user = directories.log_in(&[SERVER, PORT]);
        transfer_by_zmodem(&directories, &mut user);
        close(&mut user);
    });
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and inetutils"]
fn files_are_transferred_by_zmodem_through_the_server_of_inetutils() {
    in_new_network(|| {
        let directories = Directories::new();
        let server = Server::Inetutils.start();
        let mut user = directories.log_in(&[SERVER, &server.port().to_string()]);
        user.wait_for_shell();
        user.type_keys("\r");
        transfer_by_zmodem(&directories, &mut user);
        close(&mut user);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and lrzsz"]
fn files_are_transferred_by_zmodem_over_userspace_tcp() {
    in_new_network(|| {
        let directories = Directories::new();
        let _server = ServeProcess::start(&["--exec", "env", "PS1=ready:", "/bin/sh"]);
        let mut user = directories.log_in(&["--via", "tun:plumb0", SERVER, PORT]);
        transfer_by_zmodem(&directories, &mut user);
        close(&mut user);
    });
}

#[test]
#[ignore = "needs lrzsz"]
fn files_are_transferred_by_zmodem_over_plain_tcp() {
    let directories = Directories::new();
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char"]);
    user.type_keys("\r");
    transfer_by_zmodem(&directories, &mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn files_are_transferred_by_zmodem_over_a_serial_line() {
    let directories = Directories::new();
    let shell = RemoteShell::over_serial_line();
    let mut user = directories.log_in_to(&shell, &[]);
    user.type_keys("\r");
    transfer_by_zmodem(&directories, &mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn files_are_transferred_by_ymodem_over_a_serial_line() {
    let directories = Directories::new();
    let shell = RemoteShell::over_serial_line();
    let mut user = directories.log_in_to(&shell, &[]);
    let names = Directories::write_files(&directories.remote);
    user.type_keys("echo in-''batch; sb empty byte large.bin; echo end-''of-3\r");
    user.wait_for_text("in-batch");
    user.type_keys("\x1dreceive --protocol ymodem\r");
    user.wait_for_text("Received large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-3");
    assert_shell_works(&mut user);
    directories.assert_same(&names);
    for name in names {
        fs::remove_file(directories.remote.join(name)).unwrap();
    }
    user.type_keys("rb; echo end-''of-4\r");
    user.wait_for_text("rb waiting to receive");
    let local = directories.local.display();
    // rb of lrzsz 0.12.21 crashes at the third header of a batch, so the batch has one file.
    fs::write(directories.local.join("medium"), &content()[..50_000]).unwrap();
    user.type_keys(&format!("\x1dsend --protocol ymodem {local}/medium\r"));
    user.wait_for_text_within("Sent medium: 50,000 bytes", UPLOAD_TIMEOUT);
    user.wait_for_text("end-of-4");
    assert_shell_works(&mut user);
    directories.assert_same(&["medium"]);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_file_is_transferred_by_xmodem_over_a_serial_line() {
    let directories = Directories::new();
    let shell = RemoteShell::over_serial_line();
    let mut user = directories.log_in_to(&shell, &[]);
    // A multiple of the block length, so that no padding is added.
    let content = &content()[..128 * 40];
    fs::write(directories.remote.join("a"), content).unwrap();
    user.type_keys("sx a; echo end-''of-5\r");
    user.wait_for_text("XMODEM receive command now");
    user.type_keys("\x1dreceive --protocol xmodem b\r");
    user.wait_for_text("Received b: 5,120 bytes");
    user.wait_for_text("end-of-5");
    assert_shell_works(&mut user);
    assert!(fs::read(directories.local.join("b")).unwrap() == content);
    for (protocol, name) in [("xmodem", "c"), ("xmodem-1k", "d")] {
        user.type_keys(&format!("rx {name}; echo end-''of-{name}\r"));
        user.wait_for_text(&format!("rx: ready to receive {name}"));
        let local = directories.local.display();
        user.type_keys(&format!("\x1dsend --protocol {protocol} {local}/b\r"));
        user.wait_for_text_within(&format!("end-of-{name}"), UPLOAD_TIMEOUT);
        assert_shell_works(&mut user);
        let received = fs::read(directories.remote.join(name)).unwrap();
        assert!(received.starts_with(content) && received.len() < content.len() + 1024);
        user.type_keys("clear\r");
    }
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_file_arrives_by_zmodem_over_a_line_that_damages_bytes() {
    let directories = Directories::new();
    Directories::write_files(&directories.remote);
    let shell = RemoteShell::over_tcp(Fault::ToUser { first: 20_000, interval: 90_000 });
    let mut user = directories.log_in_to(&shell, &["--char"]);
    user.type_keys("sz large.bin; echo end-''of-6\r");
    user.wait_for_text("Received large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-6");
    directories.assert_same(&["large.bin"]);
    assert!(shell.faults() > 5, "{}", shell.faults());
    close(&mut user);
    let shell = RemoteShell::over_tcp(Fault::ToHost { first: 20_000, interval: 90_000 });
    let mut user = directories.log_in_to(&shell, &["--char"]);
    fs::remove_file(directories.remote.join("large.bin")).unwrap();
    user.type_keys("rz; echo end-''of-7\r");
    user.wait_for_text("The remote host waits for files");
    user.type_keys(&format!("send {}/large.bin\r", directories.local.display()));
    user.wait_for_text("Sent large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-7");
    directories.assert_same(&["large.bin"]);
    assert!(shell.faults() > 5, "{}", shell.faults());
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_file_arrives_by_ymodem_over_a_line_that_damages_a_byte() {
    let directories = Directories::new();
    Directories::write_files(&directories.remote);
    let shell = RemoteShell::over_tcp(Fault::ToUser { first: 20_000, interval: 700_000 });
    let mut user = directories.log_in_to(&shell, &["--char"]);
    user.type_keys("echo in-''batch; sb large.bin; echo end-''of-8\r");
    user.wait_for_text("in-batch");
    user.type_keys("\x1dreceive --protocol ymodem\r");
    user.wait_for_text("Received large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-8");
    directories.assert_same(&["large.bin"]);
    assert_eq!(shell.faults(), 2);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_partial_file_is_continued_if_its_content_is_the_same() {
    let directories = Directories::new();
    Directories::write_files(&directories.remote);
    let shell = RemoteShell::over_tcp(Fault::None);
    fs::write(directories.local.join("large.bin.part"), &content()[..600_000]).unwrap();
    let mut user = directories.log_in_to(&shell, &["--char"]);
    user.type_keys("sz large.bin; echo end-''of-9\r");
    user.wait_for_text("Continuing large.bin after");
    user.wait_for_text("Received large.bin: 1,000,000 bytes, 600,000 transferred before and");
    user.wait_for_text("end-of-9");
    directories.assert_same(&["large.bin"]);
    assert!(!directories.local.join("large.bin.part").exists());
    // A partial file of another file, and a complete file of the same name.
    fs::write(directories.local.join("large-1.bin.part"), b"other").unwrap();
    user.type_keys("sz large.bin; echo end-''of-10\r");
    user.wait_for_text("large.bin.part belongs to another file");
    user.wait_for_text("Received large-2.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-10");
    assert_eq_files(&directories.remote.join("large.bin"), &directories.local.join("large-2.bin"));
    assert_eq!(fs::read(directories.local.join("large-1.bin.part")).unwrap(), b"other");
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn an_upload_continues_the_partial_file_of_the_remote_host() {
    let directories = Directories::new();
    Directories::write_files(&directories.local);
    fs::write(directories.remote.join("large.bin"), &content()[..600_000]).unwrap();
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char"]);
    user.type_keys("rz --resume; echo end-''of-11\r");
    user.wait_for_text("The remote host waits for files");
    user.type_keys(&format!("send {}/large.bin\r", directories.local.display()));
    user.wait_for_text("Sent large.bin: 1,000,000 bytes, ");
    user.wait_for_text(" transferred before and ");
    user.wait_for_text("end-of-11");
    directories.assert_same(&["large.bin"]);
    close(&mut user);
}

/// Creates a file that is not transferred before it is cancelled.
fn write_huge_file(directory: &Path) {
    File::create(directory.join("huge")).unwrap().set_len(2_000_000_000).unwrap();
}

#[test]
#[ignore = "needs lrzsz"]
fn a_cancelled_download_keeps_the_partial_file_and_the_session() {
    let directories = Directories::new();
    write_huge_file(&directories.remote);
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char", "--download-limit", "4G"]);
    user.type_keys("sz huge; echo end-''of-12\r");
    user.wait_for_text(" MB/s");
    user.type_keys("\x03");
    user.wait_for_text("Download cancelled.");
    user.wait_for_text("huge.part is kept");
    user.wait_for_text("end-of-12");
    assert_shell_works(&mut user);
    assert!(directories.local.join("huge.part").metadata().unwrap().len() > 0);
    assert!(!directories.local.join("huge").exists());
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_cancelled_upload_ends_the_remote_program() {
    let directories = Directories::new();
    write_huge_file(&directories.local);
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char"]);
    user.type_keys("rz; echo end-''of-14\r");
    user.wait_for_text("The remote host waits for files");
    user.type_keys(&format!("send {}/huge\r", directories.local.display()));
    user.wait_for_text(" MB/s");
    user.type_keys("\x03");
    user.wait_for_text("Upload cancelled.");
    user.wait_for_text("end-of-14");
    assert_shell_works(&mut user);
    // The user refuses to send files.
    user.type_keys("rz; echo end-''of-15\r");
    user.wait_for_text("An empty line refuses.\nplumb> ");
    user.type_keys("\r");
    assert_shell_works(&mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_file_that_cannot_be_written_cancels_the_download_but_not_the_session() {
    let directories = Directories::new();
    Directories::write_files(&directories.remote);
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char"]);
    fs::remove_dir(&directories.local).unwrap();
    user.type_keys("sz large.bin; echo end-''of-16\r");
    user.wait_for_text("Download cancelled: cannot write to");
    user.wait_for_text("end-of-16");
    assert_shell_works(&mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_full_disk_cancels_the_download_but_not_the_session() {
    let directories = Directories::new();
    Directories::write_files(&directories.remote);
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut command = Command::new("/bin/sh");
    // The limit of the file size stands for a full disk: a write fails in the middle of the file.
    command.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$@\"", "sh"]);
    command.args([env!("CARGO_BIN_EXE_plumb"), "login", "--char", &directories.download_option()]);
    command.arg(&shell.destination).env("TERM", "dumb");
    let mut user = TerminalUser::run(command);
    user.type_keys("\r");
    directories.enter_directory(&mut user);
    user.type_keys("sz large.bin; echo end-''of-17\r");
    user.wait_for_text("Download cancelled: cannot write to");
    user.wait_for_text("large.bin.part is kept");
    user.wait_for_text("end-of-17");
    assert_shell_works(&mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_file_above_the_limit_is_refused() {
    let directories = Directories::new();
    Directories::write_files(&directories.remote);
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char", "--download-limit", "900K"]);
    user.type_keys("sz large.bin; echo end-''of-18\r");
    user.wait_for_text("large.bin of 1,000,000 bytes was refused.");
    user.wait_for_text("--download-limit");
    user.wait_for_text("end-of-18");
    assert_shell_works(&mut user);
    assert_eq!(fs::read_dir(&directories.local).unwrap().count(), 0);
    // The limit is for all files of the session: three of these files fit, and the fourth does not.
    fs::write(directories.remote.join("third"), &content()[..300 * 1024]).unwrap();
    user.type_keys("cp third a; cp third b; cp third c; sz third a b c; echo end-''of-19\r");
    user.wait_for_text("c of 307,200 bytes was refused.");
    user.wait_for_text("end-of-19");
    directories.assert_same(&["third", "a", "b"]);
    assert_shell_works(&mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn the_files_are_in_the_statistics_and_in_the_log() {
    let directories = Directories::new();
    Directories::write_files(&directories.remote);
    let log = unique("log");
    let state = unique("state");
    let shell = RemoteShell::over_serial_line();
    let mut command = plumb();
    command.args([&directories.download_option(), "--log", log.to_str().unwrap()]);
    command.arg(&shell.destination).env("XDG_STATE_HOME", &state);
    let mut user = TerminalUser::run(command);
    user.type_keys("\r");
    directories.enter_directory(&mut user);
    user.type_keys("sz byte large.bin; echo end-''of-20\r");
    user.wait_for_text("Received large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-20");
    user.type_keys("rx copy; echo end-''of-21\r");
    user.wait_for_text("rx: ready to receive copy");
    let local = directories.local.display();
    user.type_keys(&format!("\x1dsend --protocol xmodem {local}/byte\r"));
    user.wait_for_text_within("end-of-21", UPLOAD_TIMEOUT);
    close(&mut user);
    let mut stats = Command::new(env!("CARGO_BIN_EXE_plumb"));
    let output = stats.args(["stats", "list", "--csv"]).env("XDG_STATE_HOME", &state).output();
    let table = String::from_utf8(output.unwrap().stdout).unwrap();
    for (command, bits, path) in [
        ("ZMODEM-RECEIVE", "8", "byte"),
        ("ZMODEM-RECEIVE", "8000000", "large.bin"),
        ("XMODEM-SEND", "8", "byte"),
    ] {
        let is_row = |line: &&str| {
            let cells: Vec<_> = line.split(',').collect();
            cells.contains(&command) && cells.contains(&bits) && cells.contains(&path)
        };
        assert!(table.lines().any(|line| is_row(&line)), "{command} {path}:\n{table}");
    }
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("\n[Received large.bin: 1,000,000 bytes in "), "{text}");
    fs::remove_file(log).unwrap();
    fs::remove_dir_all(state).unwrap();
}

#[test]
#[ignore = "needs lrzsz"]
fn a_script_sends_and_receives_files() {
    let directories = Directories::new();
    Directories::write_files(&directories.local);
    let shell = RemoteShell::over_tcp(Fault::None);
    let [remote, local] = [&directories.remote, &directories.local].map(|path| path.display());
    let script = format!(
        r#"timeout 9
        send "\r"
        expect /ready:/
        send "cd {remote}; rz\r"
        send file "{local}/large.bin"
        expect /ready:/
        send "mv large.bin other; sz other\r"
        receive
        expect /ready:/
        send "mv other third; echo in-''batch; sb third\r"
        expect /in-batch/
        receive by ymodem
        expect /ready:/
        send "rz\r"
        on failure exit 7
        send file "{local}/missing"
        "#
    );
    let path = directories.local.join("script");
    fs::write(&path, script).unwrap();
    let mut command = plumb();
    command.args(["--char", &directories.download_option(), "--script"]).arg(path);
    command.arg(&shell.destination).stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{messages}");
    assert!(messages.contains("Cannot read"), "{messages}");
    for name in ["other", "third"] {
        assert!(fs::read(directories.local.join(name)).unwrap() == content(), "{name}");
    }
}
