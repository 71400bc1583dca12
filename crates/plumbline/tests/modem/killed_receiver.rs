//! Uploads whose receiver is killed while data flows. A shell then reads the data in flight: no part of
//! it may be executed, and the session must be usable.

use super::cancelled::signal_program;
use super::*;
use net::time::Duration;
use rustix::process::Signal;

/// Maximum time until the end of the receiver is noticed: several times the goal of 10 s, because
/// the editor of a shell may be slow to process the data in flight.
const KILLED_TIMEOUT: Duration = Duration::from_secs(50);

/// A receiver of lrzsz and the command that sends a file to it.
#[derive(Clone, Copy)]
struct Receiver {
    program: &'static str,
    prompt: &'static str,
    send: &'static str,
}

const RZ: Receiver =
    Receiver { program: "rz", prompt: "The remote host waits for files", send: "send" };
const RB: Receiver =
    Receiver { program: "rb", prompt: "rb waiting to receive", send: "\x1dsend --protocol ymodem" };
const RX: Receiver = Receiver {
    program: "rx huge",
    prompt: "rx: ready to receive huge",
    send: "\x1dsend --protocol xmodem-1k",
};

/// Shell that continues after the receiver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shell {
    /// It sets the modes of the terminal before each command line.
    WithEditor,
    /// It leaves the terminal in the mode of the killed program.
    WithoutEditor,
}

/// Returns lines that create a file if a shell executes one of them.
fn commands() -> Vec<u8> {
    b"touch executed\n".repeat(4_000_000)
}

/// Returns pseudo-random bytes.
fn random_bytes() -> Vec<u8> {
    let mut state = 1_u32;
    let byte = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..60_000_000).map(byte).collect()
}

/// Kills the receiver of an upload of `content`, and checks that nothing was executed and that the shell
/// executes the next command.
fn kill_receiver(
    directories: &Directories,
    user: &mut TerminalUser,
    receiver: Receiver,
    content: &[u8],
    shell: Shell,
) {
    fs::write(directories.local.join("huge"), content).unwrap();
    user.type_keys(&format!("sh -c 'echo $$ > pid; exec {}'\r", receiver.program));
    user.wait_for_text(receiver.prompt);
    user.type_keys(&format!("{} {}/huge\r", receiver.send, directories.local.display()));
    user.wait_for_text("kB ");
    signal_program(directories, Signal::KILL);
    user.wait_for_text_within("Transfer failed: the remote program has ended.", KILLED_TIMEOUT);
    if shell == Shell::WithoutEditor {
        user.wait_for_text("type stty sane and press ^J.");
        user.type_keys("\n");
        user.type_keys("stty sane; echo is-''sane\n");
        user.wait_for_text("is-sane");
    }
    user.wait_for_text("ready:");
    assert_shell_works(user);
    let output = user.all_output();
    // The number of a block may be a line end.
    assert!(receiver.program != RZ.program || !output.contains("not found"), "{output}");
    let entries = fs::read_dir(&directories.remote).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["huge", "pid"]);
}

/// Kills the receiver under a shell on plain TCP.
fn kill_under(program: &str, receiver: Receiver, content: &[u8], shell: Shell) {
    let directories = Directories::new();
    let remote = RemoteShell::running(program);
    let mut user = directories.log_in_to(&remote, &["--char"]);
    kill_receiver(&directories, &mut user, receiver, content, shell);
    close(&mut user);
}

/// Kills rz under bash, behind a Telnet server.
fn kill_rz_through(server: Server) {
    in_new_network(move || {
        for content in [commands(), random_bytes()] {
            let directories = Directories::new();
            let server = server.start();
            let mut user = directories.log_in(&[SERVER, &server.port().to_string()]);
            user.wait_for_text("# ");
            user.type_keys("PS1=rea''dy: LC_ALL=C.UTF-8 exec bash --norc\r");
            directories.enter_directory(&mut user);
            kill_receiver(&directories, &mut user, RZ, &content, Shell::WithEditor);
            close(&mut user);
        }
    });
}

#[test]
#[ignore = "needs lrzsz"]
fn commands_in_an_upload_by_zmodem_are_not_executed_by_bash_after_the_receiver_was_killed() {
    kill_under("bash --norc", RZ, &commands(), Shell::WithEditor);
}

#[test]
#[ignore = "needs lrzsz"]
fn random_bytes_of_an_upload_by_zmodem_do_not_end_bash_after_the_receiver_was_killed() {
    kill_under("bash --norc", RZ, &random_bytes(), Shell::WithEditor);
}

#[test]
#[ignore = "needs lrzsz"]
fn commands_in_an_upload_by_zmodem_are_not_executed_by_dash_after_the_receiver_was_killed() {
    kill_under("dash", RZ, &commands(), Shell::WithoutEditor);
}

#[test]
#[ignore = "needs lrzsz"]
fn random_bytes_of_an_upload_by_zmodem_do_not_end_dash_after_the_receiver_was_killed() {
    kill_under("dash", RZ, &random_bytes(), Shell::WithoutEditor);
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and busybox"]
fn the_data_in_flight_is_not_executed_behind_the_server_of_busybox() {
    kill_rz_through(Server::Busybox);
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and inetutils"]
fn the_data_in_flight_is_not_executed_behind_the_server_of_inetutils() {
    kill_rz_through(Server::Inetutils);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_killed_receiver_of_ymodem_is_noticed_and_no_block_is_repeated_to_the_shell() {
    // The block in flight is not escaped, so it contains no line end.
    kill_under("dash", RB, &[b'a'; 20_000_000], Shell::WithoutEditor);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_killed_receiver_of_xmodem_is_noticed_and_no_block_is_repeated_to_the_shell() {
    kill_under("dash", RX, &[b'a'; 20_000_000], Shell::WithoutEditor);
}
