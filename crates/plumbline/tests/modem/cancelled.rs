//! Uploads that the user cancels or completes on a bulletin board, and downloads from programs that
//! are ended.

use super::login_harness::poll_until_timeout;
use super::*;
use net::time::Duration;
use rustix::process::{Pid, Signal, kill_process};

/// Maximum time until the end of a download from a killed program is noticed: ten times the goal.
const KILLED_TIMEOUT: Duration = Duration::from_secs(100);

/// Creates a file that contains no text, and is not transferred before it is cancelled.
fn write_random_file(directory: &Path) {
    let mut content: Vec<u8> = content().iter().map(|byte| byte | 0x80).collect();
    for _ in 0..6 {
        content.extend_from_within(..);
    }
    fs::write(directory.join("huge"), content).unwrap();
}

/// Cancels an upload to `program`, and checks that the remote shell continues without its remains.
fn cancel_upload(program: &str, prompt: &str, send: &str) {
    let directories = Directories::new();
    write_random_file(&directories.local);
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char", "--encoding", "cp437"]);
    user.type_keys(&format!("{program}; echo end-''of-it\r"));
    user.wait_for_text(prompt);
    user.type_keys(&format!("{send} {}/huge\r", directories.local.display()));
    user.wait_for_text("kB ");
    user.type_keys("\x03");
    user.wait_for_text("Upload cancelled.");
    user.wait_for_text("end-of-it");
    assert_shell_works(&mut user);
    // The cancel characters, and the line end of a header.
    let screen = user.screen();
    assert!(!screen.contains(['\u{2191}', '\u{e8}', '\u{25d8}']), "{screen}");
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_cancelled_upload_by_zmodem_leaves_no_characters_on_a_bulletin_board() {
    cancel_upload("rz", "The remote host waits for files", "send");
}

#[test]
#[ignore = "needs lrzsz"]
fn a_cancelled_upload_by_ymodem_ends_the_remote_program() {
    cancel_upload("rb", "rb waiting to receive", "\x1dsend --protocol ymodem");
}

#[test]
#[ignore = "needs lrzsz"]
fn a_cancelled_upload_by_xmodem_ends_the_remote_program() {
    let send = "\x1dsend --protocol xmodem-1k";
    cancel_upload("rx name", "rx: ready to receive name", send);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_complete_upload_by_zmodem_leaves_no_characters_on_a_bulletin_board() {
    let directories = Directories::new();
    Directories::write_files(&directories.local);
    let shell = RemoteShell::over_serial_line();
    let mut user = directories.log_in_to(&shell, &["--encoding", "cp437"]);
    user.type_keys("rz; echo end-''of-it\r");
    user.wait_for_text("The remote host waits for files");
    user.type_keys(&format!("send {}/*.bin\r", directories.local.display()));
    user.wait_for_text("Sent large.bin: 1,000,000 bytes");
    user.wait_for_text("end-of-it");
    assert_shell_works(&mut user);
    assert!(!user.screen().contains('\u{e8}'), "{}", user.screen());
    close(&mut user);
}

/// Terminates plumb during a transfer with `program`, and checks that the program ends.
fn terminate_plumb(program: &str, directory: impl Fn(&Directories) -> &Path) {
    let directories = Directories::new();
    write_huge_file(directory(&directories));
    let shell = RemoteShell::over_serial_line();
    let mut user = directories.log_in_to(&shell, &["--download-limit", "4G"]);
    user.type_keys(&format!("{program}; touch ended\r"));
    if program == "rz" {
        user.wait_for_text("The remote host waits for files");
        user.type_keys(&format!("send {}/huge\r", directories.local.display()));
    }
    user.wait_for_text(" MB/s");
    user.send_signal(Signal::TERM);
    assert_eq!(user.read_until_exit().code(), Some(143));
    user.assert_sane_terminal();
    poll_until_timeout(|| directories.remote.join("ended").exists().then_some(()));
}

#[test]
#[ignore = "needs lrzsz"]
fn a_terminated_plumb_ends_the_remote_sender() {
    terminate_plumb("sz huge", |directories| &directories.remote);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_terminated_plumb_ends_the_remote_receiver() {
    terminate_plumb("rz", |directories| &directories.local);
}

/// Starts a download from `program`, and sends `signal` to the program while data flows. Returns when
/// the end of the download is displayed.
fn end_program(
    program: &str,
    receive: &str,
    signal: Signal,
) -> (Directories, RemoteShell, TerminalUser) {
    let directories = Directories::new();
    write_random_file(&directories.remote);
    // The program is ended long before it has sent the whole file.
    let huge = File::options().write(true).open(directories.remote.join("huge")).unwrap();
    huge.set_len(2_000_000_000).unwrap();
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char", "--download-limit", "4G"]);
    user.type_keys(&format!("sh -c 'echo $$ > pid; exec {program} huge'\r"));
    user.wait_for_text("receive command now");
    user.type_keys(receive);
    user.wait_for_text("kB ");
    signal_program(&directories, signal);
    user.wait_for_text("Transfer cancelled by the remote program.");
    user.wait_for_text("ready:");
    (directories, shell, user)
}

/// Sends `signal` to the program that has written its process number to the remote directory.
pub(super) fn signal_program(directories: &Directories, signal: Signal) {
    let pid = fs::read_to_string(directories.remote.join("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Kills `sz` while data flows, and checks that the transfer ends because of the remote program and
/// not because of its silence.
fn kill_sz(directories: &Directories, user: &mut TerminalUser) {
    write_random_file(&directories.remote);
    let huge = File::options().write(true).open(directories.remote.join("huge")).unwrap();
    huge.set_len(2_000_000_000).unwrap();
    user.type_keys("sh -c 'echo $$ > pid; exec sz huge'\r");
    user.wait_for_text("Receiving by ZMODEM; ^C cancels.");
    user.wait_for_text(" MB/s");
    signal_program(directories, Signal::KILL);
    user.wait_for_text_within("Transfer cancelled by the remote program.", KILLED_TIMEOUT);
    user.wait_for_text("huge.part is kept; ZMODEM continues it next time.");
    user.wait_for_text("Killed");
    let screen = user.screen();
    let [cancelled, kept, killed] =
        ["Transfer cancelled", "is kept", "Killed"].map(|text| screen.find(text).unwrap());
    assert!(cancelled < kept && kept < killed, "{screen}");
}

#[test]
#[ignore = "needs lrzsz"]
fn a_download_by_zmodem_from_a_killed_program_ends_although_the_terminal_does_not_echo() {
    let directories = Directories::new();
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = directories.log_in_to(&shell, &["--char", "--download-limit", "4G"]);
    kill_sz(&directories, &mut user);
    close(&mut user);
}

#[test]
#[ignore = "needs root or a user namespace, lrzsz and busybox"]
fn a_download_by_zmodem_from_a_killed_program_ends_at_the_prompt_of_the_shell() {
    in_new_network(|| {
        let directories = Directories::new();
        let server = Server::Busybox.start();
        let port = server.port().to_string();
        let mut user = directories.log_in(&["--download-limit", "4G", SERVER, &port]);
        user.wait_for_text("# ");
        user.type_keys("PS1=rea''dy: exec bash --norc\r");
        directories.enter_directory(&mut user);
        kill_sz(&directories, &mut user);
        assert_shell_works(&mut user);
        close(&mut user);
    });
}

#[test]
#[ignore = "needs lrzsz"]
fn a_download_by_xmodem_from_a_killed_program_ends_at_the_prompt_of_the_shell() {
    let (_directories, _shell, mut user) =
        end_program("sx", "\x1dreceive --protocol xmodem-1k x\r", Signal::KILL);
    close(&mut user);
}

#[test]
#[ignore = "needs lrzsz"]
fn a_terminated_program_leaves_no_acknowledgment_on_the_command_line() {
    let is_command_line_empty = || {
        let (_directories, _shell, mut user) =
            end_program("sx", "\x1dreceive --protocol xmodem x\r", Signal::TERM);
        user.type_keys("echo answer-$((6*7)); echo d''one\r");
        user.wait_for_text("done");
        let is_empty = user.screen().contains("answer-42");
        close(&mut user);
        is_empty
    };
    // sx discards its input, and leaves raw mode with the next system call. The shell has read an
    // acknowledgment that arrives between the two as a line without an end, which nothing erases.
    assert!((0..3).any(|_| is_command_line_empty()));
}
