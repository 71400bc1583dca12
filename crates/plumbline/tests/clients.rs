//! Tests of `plumb serve` and `plumb login` with clients and servers of other projects: plink,
//! curl, telnetlib3 and tmux.
//!
//! Each test has its own network namespace, in which the servers listen at 10.0.0.1. If the program
//! of a test is not installed, the test reports this and is skipped.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::serve_process::{PORT, ServeProcess, unique};
use login_harness::{SERVER, Server, TerminalUser, in_new_network};
use os::process::Program;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use test_support::peers;

/// Options of `plumb serve` that run a shell with a fixed prompt.
const SHELL: &[&str] = &["--exec", "env", "PS1=ready:", "/bin/sh"];

#[test]
#[ignore = "needs root or a user namespace, and plink"]
fn plink_logs_in_to_plumb_serve() {
    in_new_network(|| {
        let server = ServeProcess::start(SHELL);
        let mut command = peers::PLINK.command();
        // plink stores its state in HOME, so each run gets its own.
        command.args(["-telnet", "-P", PORT, SERVER]).env("HOME", unique("home"));
        let mut user = TerminalUser::run(command);
        user.wait_for_text("ready:");
        user.type_keys("echo $((6*7))\r");
        user.wait_for_text("\n42\nready:");
        user.type_keys("stty size\r");
        user.wait_for_text("24 80\nready:");
        user.type_keys("cat\r");
        user.wait_for_text("ready:cat\n");
        user.type_keys("meow\r");
        user.wait_for_text("meow\nmeow");
        user.type_keys("\x03");
        user.wait_for_text("^C\nready:");
        user.type_keys("exit\r");
        server.wait_for_log("the program exited");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and curl"]
fn curl_sends_a_file_to_plumb_serve_and_receives_the_answer() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let mut command = peers::CURL.command();
        command.args([
            "--silent",
            "--no-buffer",
            "--max-time",
            "10",
            &format!("telnet://{SERVER}:{PORT}"),
        ]);
        // curl waits for more input from a pipe before it reads the connection, so stdin is a file.
        let keys = unique("keys");
        std::fs::write(&keys, "echo $((6*7))\nexit\n").unwrap();
        command.stdin(std::fs::File::open(&keys).unwrap());
        let output = command.output().unwrap();
        let messages = String::from_utf8_lossy(&output.stdout);
        assert!(messages.contains("42"), "{messages}");
        std::fs::remove_file(keys).unwrap();
    });
}

/// A telnetlib3 client that waits for the prompt, runs commands, and checks that the server knows
/// its terminal type and window size.
const CLIENT: &str = r#"
import asyncio, telnetlib3
async def main():
    reader, writer = await telnetlib3.open_connection("10.0.0.1", 2323, term="vt220", cols=100, rows=40)
    async def until(text):
        said = ""
        while text not in said:
            piece = await asyncio.wait_for(reader.read(4096), 10)
            assert piece, said
            said += piece
        return said
    await until("ready:")
    writer.write("stty size; echo term-$TERM; echo do''ne\r\n")
    said = await until("\ndone")
    assert "40 100" in said, said
    assert "term-vt220" in said, said
    writer.write("exit\r\n")
    await asyncio.wait_for(reader.read(), 10)
asyncio.run(main())
"#;

#[test]
#[ignore = "needs root or a user namespace, and telnetlib3"]
fn telnetlib3_logs_in_to_plumb_serve_and_sends_its_terminal_and_window_size() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let output = peers::TELNETLIB3.command().args(["-c", CLIENT]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

/// A telnetlib3 server that asks for a name and prints it with the terminal type and window size of
/// the client.
const SERVER_OF_TELNETLIB3: &str = r#"
import asyncio, telnetlib3
async def shell(reader, writer):
    writer.write("\r\nname? ")
    name = ""
    while not name.endswith("\r"):
        key = await reader.read(1)
        if not key: return
        name += key
        writer.echo(key)
    size = "%sx%s" % (writer.get_extra_info("cols"), writer.get_extra_info("rows"))
    term = writer.get_extra_info("TERM") or writer.get_extra_info("term")
    writer.write("\r\nhello %s at %s of %s\r\n" % (name.strip(), term, size))
    await writer.drain()
    writer.close()
async def main():
    server = await telnetlib3.create_server(host="10.0.0.1", port=6023, shell=shell, timeout=0)
    print("listening", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"#;

#[test]
#[ignore = "needs root or a user namespace, and telnetlib3"]
fn plumb_logs_in_to_a_telnetlib3_server() {
    in_new_network(|| {
        let mut command = peers::TELNETLIB3.command();
        command.args(["-c", SERVER_OF_TELNETLIB3]).stdout(Stdio::piped());
        let mut server = Program::start(&mut command).unwrap();
        let mut line = String::new();
        BufReader::new(server.child().stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        let mut command = login_harness::plumb();
        command.args([SERVER, "6023"]).env("TERM", "xterm-256color");
        let mut user = TerminalUser::run(command);
        user.wait_for_text("name? ");
        user.type_keys("mike\r");
        user.wait_for_text("hello mike at xterm-256color of 80x24");
        assert_eq!(user.wait_for_exit().code(), Some(0));
    });
}

/// A tmux server with its own socket, killed on drop.
struct Tmux(PathBuf);

impl Tmux {
    /// Starts tmux with a window of 60 columns and 12 rows that runs the command `words`.
    fn start(words: &[&str]) -> Self {
        let tmux = Self(unique("tmux"));
        let session = ["-f", "/dev/null", "new-session", "-d", "-x", "60", "-y", "12"];
        tmux.run(&[&session, words].concat());
        tmux
    }

    fn run(&self, words: &[&str]) -> String {
        let mut command = peers::TMUX.command();
        command.arg("-S").arg(&self.0).args(words).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn type_keys(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// Waits until the text on the screen ends with `lines`.
    fn wait_for_lines(&self, lines: &str) {
        let mut screen = String::new();
        let clock = os::clock::Monotonic::start();
        let limit = clock.now() + net::time::Duration::from_secs(10);
        while !screen.trim_end().ends_with(lines) {
            assert!(clock.now() < limit, "not\n{lines}\nbut\n{screen}");
            screen = self.run(&["capture-pane", "-p"]);
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        _ = peers::TMUX.command().arg("-S").arg(&self.0).arg("kill-server").output();
        _ = std::fs::remove_file(&self.0);
    }
}

#[test]
#[ignore = "needs root or a user namespace, and tmux"]
fn in_tmux_the_screen_equals_that_of_the_remote_host() {
    in_new_network(|| {
        let _server = ServeProcess::start(SHELL);
        let plumb = Path::new(env!("CARGO_BIN_EXE_plumb")).to_str().unwrap();
        let tmux = Tmux::start(&[plumb, "login", SERVER, PORT]);
        tmux.wait_for_lines("ready:");
        tmux.type_keys(&["stty size", "Enter"]);
        tmux.wait_for_lines("ready:stty size\n12 60\nready:");
        tmux.type_keys(&["echo abX", "BSpace", "c", "Enter"]);
        tmux.wait_for_lines("ready:echo abc\nabc\nready:");
        // Colors, a cursor movement, and a line that is partly erased.
        tmux.type_keys(&[
            "-l",
            r"printf '\033[2J\033[3;5H\033[31mred\033[0m\033[5;1Hlong line\033[5;5H\033[K\n'",
        ]);
        tmux.type_keys(&["Enter"]);
        tmux.wait_for_lines("\n    red\n\nlong\nready:");
        tmux.type_keys(&["cat", "Enter"]);
        tmux.type_keys(&["meow", "Enter"]);
        tmux.wait_for_lines("meow\nmeow");
        tmux.type_keys(&["C-c"]);
        tmux.wait_for_lines("^C\nready:");
        tmux.type_keys(&["C-]"]);
        tmux.type_keys(&["close", "Enter"]);
    });
}

#[test]
#[ignore = "needs root or a user namespace, tmux and Debian's telnetd"]
fn in_tmux_lines_are_edited_locally_if_the_server_requests_it() {
    in_new_network(|| {
        let server = Server::InetutilsLinemode.start();
        let plumb = Path::new(env!("CARGO_BIN_EXE_plumb")).to_str().unwrap();
        let tmux = Tmux::start(&[plumb, "login", SERVER, &server.port().to_string()]);
        tmux.wait_for_lines("#");
        tmux.type_keys(&["PS1=rea''dy:", "Enter"]);
        tmux.wait_for_lines("\nready:");
        // On Linux this telnetd's terminal echoes each line a second time, also with the Telnet
        // client of inetutils.
        tmux.type_keys(&["wrong", "C-u", "echo one twX", "BSpace", "C-w", "two", "Enter"]);
        tmux.wait_for_lines("\nready:echo one two\necho one two\none two\nready:");
        tmux.type_keys(&["cat", "Enter"]);
        tmux.wait_for_lines("ready:cat\ncat");
        tmux.type_keys(&["meow", "Enter"]);
        tmux.wait_for_lines("meow\nmeow\nmeow");
        tmux.type_keys(&["C-d"]);
        tmux.wait_for_lines("meow\nready:");
        tmux.type_keys(&["C-]"]);
        tmux.type_keys(&["close", "Enter"]);
    });
}
