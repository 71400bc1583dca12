//! Runs the commands of docs/coming-from.md, and compares exit code and output with the page.
//!
//! The commands run in a network namespace with the servers that the page describes. The names of
//! the page have addresses of this namespace, and `/dev/ttyUSB0` is a pseudo-terminal.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod ftp_harness;
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use ftp_harness::TestDirectories;
use login_harness::names::Names;
use login_harness::serve_process::ServeProcess;
use login_harness::{TerminalUser, in_configured_network};
use os::clock::Monotonic;
use os::pty::Pty;
use os::readiness::{self, PollFd, PollFlags};
use os::tty::WindowSize;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::Stdio;
use std::thread;

const PAGE: &str = include_str!("../../../docs/coming-from.md");
/// Sections of the page.
const SECTIONS: [&str; 7] = [
    "ssh and telnet",
    "PuTTY and plink",
    "ser2net and conserver",
    "curl",
    "lftp",
    "vsftpd",
    "ping, mtr and iperf3",
];
/// Text that the serial device prints after each line end or other key that it receives.
const DEVICE_OUTPUT: &[u8] = b"line one\r\n";
const HOSTS: &str = "127.0.0.1 host\n::1 host\n127.0.0.1 localhost\n";

/// A row of the page.
#[derive(Debug)]
struct Row {
    command: String,
    /// Keys typed when the session is open, in caret notation.
    keys: String,
    /// Exit code; `None` if the session continues.
    exit_code: Option<i32>,
    output: String,
}

/// Returns the rows of the table of a section of the page.
fn rows(section: &str) -> Vec<Row> {
    let heading = format!("\n## {section}\n");
    let text = PAGE.split(&heading).nth(1).unwrap().split("\n## ").next().unwrap();
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| known"));
    lines
        .map(|line| {
            let line = line.replace("\\|", "\u{1}");
            let cells: Vec<String> =
                line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
            let [_, _, command, exit_code, output, _] = cells.try_into().unwrap();
            let code = |cell: &str, number: usize| {
                cell.split('`').nth(2 * number + 1).unwrap_or_default().to_owned()
            };
            // Other text in a cell is for the reader.
            let keys =
                if command.contains("`, then `") { code(&command, 1) } else { String::new() };
            let output = code(&output, 0);
            Row { command: code(&command, 0), keys, exit_code: exit_code.parse().ok(), output }
        })
        .collect()
}

/// The servers of the page.
struct Servers {
    directories: TestDirectories,
    names: Names,
    line: String,
    _programs: Vec<ServeProcess>,
    _files: ftp_harness::Server,
}

impl Servers {
    fn start(section: &str) -> Self {
        let directories = TestDirectories::new();
        let line = directories.local_path("ttyUSB0").display().to_string();
        for number in 0..2 {
            let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
            let name = if number == 0 { line.clone() } else { format!("{line}.served") };
            std::os::unix::fs::symlink(pty.path(), name).unwrap();
            thread::spawn(move || run_device(&pty));
        }
        write_server_files(&directories);
        serve_tcp("127.0.0.1:7", |mut client| {
            let mut bytes = [0; 100];
            while let Ok(count @ 1..) = client.read(&mut bytes) {
                client.write_all(&bytes[..count]).unwrap();
            }
        });
        serve_tcp("127.0.0.1:22", |mut client| {
            _ = client.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
            _ = client.read(&mut [0; 100]);
        });
        let users = ServeProcess::users("ann", "secret", "exec = [\"/bin/cat\"]");
        let listen = ["--listen", "127.0.0.1:23", "--listen", "[::1]:23"];
        let tls = ["--listen-tls", "127.0.0.1:992", "--users", &users];
        let served_line = format!("{line}.served");
        let programs = vec![
            ServeProcess::start_with(&[&listen[..], &tls].concat()),
            ServeProcess::start_with(&[
                "--listen",
                "127.0.0.1:2323",
                "--exec",
                "env",
                "PS1=ready:",
                "/bin/sh",
            ]),
            ServeProcess::start_with(&["--console", &served_line, "--listen", "127.0.0.1:2217"]),
        ];
        let root = directories.remote_path("").display().to_string();
        let ftp_users = directories.users_file(&format!("root = {root:?}\nrights = \"writable\""));
        let configuration = directories.local_path("ftp.toml");
        let ftp_table = format!("[ftp]\nanonymous = true\nusers = {ftp_users:?}\n");
        fs::write(&configuration, ftp_table).unwrap();
        let mut arguments = vec!["--config", configuration.to_str().unwrap(), "--writable"];
        arguments.extend(["--ftp-listen", "127.0.0.1:21", "--ftp-listen", "[::1]:21"]);
        arguments.extend(["--tftp", "--tftp-listen", "127.0.0.1:69"]);
        let files = ftp_harness::Server::start(&directories, &arguments);
        let names = Names::new(&section.replace(' ', "-"), HOSTS, "");
        Self { directories, names, line, _programs: programs, _files: files }
    }

    /// Runs the command of a row in a new directory, and checks its exit code and its output.
    fn check(&self, number: usize, row: &Row) {
        let directory = self.directories.local_path(&format!("row-{number}"));
        write_files(&directory, &self.line);
        let incoming = self.directories.remote_path("incoming");
        _ = fs::remove_dir_all(&incoming);
        fs::create_dir(&incoming).unwrap();
        fs::write(incoming.join("old.txt"), "old").unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_plumb"));
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        let mut command = self.names.shell(&row.command.replace("/dev/ttyUSB0", &self.line));
        command.env("PATH", path).env("HOME", self.directories.local_path(""));
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        command.current_dir(directory);
        let Some(exit_code) = row.exit_code else {
            let mut user = TerminalUser::run(command);
            if !row.keys.is_empty() {
                user.wait_for_text(if row.keys.starts_with('^') {
                    "write access"
                } else {
                    "ready:"
                });
                user.type_keys(&typed(&row.keys));
            }
            return user.wait_for_text(&row.output);
        };
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert_eq!(output.status.code(), Some(exit_code), "{text}");
        assert!(text.contains(&row.output), "{text}");
    }
}

/// Converts caret notation to control characters.
fn typed(keys: &str) -> String {
    let mut typed = String::new();
    let mut letters = keys.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '^' => typed.push(char::from(letters.next().unwrap() as u8 & 0x1f)),
            letter => typed.push(letter),
        }
    }
    typed
}

/// Answers every received byte with a line of text.
fn run_device(pty: &Pty) {
    let mut bytes = [0; 64];
    loop {
        match pty.read(&mut bytes) {
            Ok(Some(_)) => _ = pty.write(DEVICE_OUTPUT),
            Ok(None) => {
                let mut readable = [PollFd::new(pty, PollFlags::IN)];
                readiness::wait(&mut readable, &Monotonic::start(), None).unwrap();
            }
            Err(_) => return,
        }
    }
}

/// Writes the local files that the commands use into a new directory.
fn write_files(directory: &Path, line: &str) {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("file.txt", "text\n");
    write("site/index.html", "<p>text\n");
    write("script.lftp", "cd pub\nget README\n");
    write("commands", "send \"echo \\$((6*7))\\r\"\nexpect /42/\nexit 0\n");
    let console = |number: u16| {
        format!("[[console]]\ndevice = \"{line}\"\nlisten = [\"127.0.0.1:{number}\"]\n")
    };
    write("consoles.toml", &format!("{}{}", console(2218), console(2219)));
    write("wrong.toml", "[[console]]\ndevise = \"/dev/ttyUSB0\"\n");
    write("serve.toml", PAGE.split("```toml\n").nth(1).unwrap().split("```").next().unwrap());
    fs::copy(directory.with_file_name("users.toml"), directory.join("users.toml")).unwrap();
}

/// Writes the files of the server, and the user's configuration.
fn write_server_files(directories: &TestDirectories) {
    fs::create_dir_all(directories.remote_path("pub/tree")).unwrap();
    fs::write(directories.remote_path("pub/README"), "Hello, world\n").unwrap();
    fs::write(directories.remote_path("pub/image.iso"), ftp_harness::pattern(300_000)).unwrap();
    fs::write(directories.remote_path("pub/tree/a"), "a\n").unwrap();
    let configuration = directories.local_path(".config/plumb");
    fs::create_dir_all(&configuration).unwrap();
    let router = "[host.router]\ntarget = \"telnet://host:2217\"\n";
    fs::write(configuration.join("config.toml"), router).unwrap();
}

/// Accepts connections at `address`, each in a thread of its own.
fn serve_tcp(address: &str, serve: fn(std::net::TcpStream)) {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            thread::spawn(move || serve(client.unwrap()));
        }
    });
}

/// Runs all commands of a section, and reports those that do not do what the page says.
fn check_section(section: &'static str) {
    in_configured_network(&[&["link", "set", "lo", "up"]], move || {
        let servers = Servers::start(section);
        let rows = rows(section);
        assert!(rows.len() >= 19, "{}", rows.len());
        let mut failures = Vec::new();
        // A measurement takes ten seconds.
        let is_long = std::env::var_os("PLUMB_LONG").is_some_and(|value| value == "1");
        let step = if section.starts_with("ping") && !is_long { 4 } else { 1 };
        for (number, row) in rows.iter().enumerate().step_by(step) {
            let check = AssertUnwindSafe(|| servers.check(number, row));
            if let Err(reason) = panic::catch_unwind(check) {
                let reason = reason.downcast::<String>().unwrap_or_default();
                failures.push(format!("{row:?}\n{reason}"));
            }
        }
        let count = failures.len();
        assert!(failures.is_empty(), "{count} of {}:\n{}", rows.len(), failures.join("\n"));
    });
}

#[test]
fn every_section_of_the_page_is_tested() {
    let sections: Vec<_> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, SECTIONS);
    let count: usize = sections.iter().map(|section| rows(section).len()).sum();
    assert!(count >= 140, "{count}");
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_commands_of_ssh_and_telnet_have_equivalents() {
    check_section(SECTIONS[0]);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_commands_of_putty_and_plink_have_equivalents() {
    check_section(SECTIONS[1]);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_commands_of_ser2net_and_conserver_have_equivalents() {
    check_section(SECTIONS[2]);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_commands_of_curl_have_equivalents() {
    check_section(SECTIONS[3]);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_commands_of_lftp_have_equivalents() {
    check_section(SECTIONS[4]);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_commands_of_vsftpd_have_equivalents() {
    check_section(SECTIONS[5]);
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_commands_of_ping_mtr_and_iperf3_have_equivalents() {
    check_section(SECTIONS[6]);
}
