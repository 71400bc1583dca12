//! Records and messages of transfers that a lost connection or a signal ends.

use super::*;
use rustix::process::Signal;
use std::process::Stdio;

/// A login with a directory of its own for records.
struct RecordedLogin {
    directories: Directories,
    state: PathBuf,
}

impl RecordedLogin {
    fn new() -> Self {
        let directories = Directories::new();
        let file = File::create(directories.remote.join("huge")).unwrap();
        file.set_len(2_000_000_000).unwrap();
        Self { directories, state: unique("state") }
    }

    fn command(&self, shell: &RemoteShell, arguments: &[&str]) -> Command {
        let mut command = plumb();
        command.arg(self.directories.download_option()).args(["--download-limit", "4G"]);
        command.args(arguments).arg(&shell.destination).env("XDG_STATE_HOME", &self.state);
        command
    }

    /// Starts a login and a download in it. Returns while data flows.
    fn start_download(&self, shell: &RemoteShell) -> TerminalUser {
        let mut user = TerminalUser::run(self.command(shell, &[]));
        user.type_keys("\r");
        self.directories.enter_directory(&mut user);
        user.type_keys("sz huge\r");
        user.wait_for_text("Receiving by ZMODEM; ^C cancels.");
        user.wait_for_text(" MB/s");
        user
    }

    /// Checks that the statistics have one transfer, with this outcome and some bytes.
    fn assert_recorded(&self, outcome: &str) {
        let mut stats = Command::new(env!("CARGO_BIN_EXE_plumb"));
        stats.args(["stats", "list", "--outcome", "all", "--csv"]);
        let output = stats.env("XDG_STATE_HOME", &self.state).output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        let mut lines = table.lines();
        let names: Vec<_> = lines.next().unwrap().split(',').collect();
        let rows: Vec<Vec<_>> = lines.map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 1, "{table}");
        assert!(rows[0].contains(&outcome) && rows[0].contains(&"ZMODEM-RECEIVE"), "{table}");
        let bits = names.iter().position(|name| *name == "bits").unwrap();
        assert!(rows[0][bits].parse::<u64>().unwrap() > 0, "{table}");
    }
}

impl Drop for RecordedLogin {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.state);
    }
}

#[test]
#[ignore = "needs lrzsz"]
fn a_lost_connection_is_the_recorded_cause_of_the_end_of_a_download() {
    let login = RecordedLogin::new();
    let shell = RemoteShell::over_tcp(Fault::None);
    let mut user = login.start_download(&shell);
    drop(shell);
    // A socket that is closed with unread data resets the connection.
    user.wait_for_text("Download failed: the remote host ");
    user.wait_for_text("huge.part is kept");
    user.read_until_exit();
    let output = user.all_output();
    let is_named = ["closed the connection.", "reset the connection."]
        .iter()
        .any(|cause| output.contains(&format!("Download failed: the remote host {cause}")));
    assert!(is_named, "{output}");
    login.assert_recorded("aborted-by-peer");
}

#[test]
#[ignore = "needs lrzsz"]
fn a_lost_serial_line_is_the_recorded_cause_of_the_end_of_a_download() {
    let login = RecordedLogin::new();
    let shell = RemoteShell::over_serial_line();
    let mut user = login.start_download(&shell);
    drop(shell);
    user.wait_for_text("Download failed: the serial line was lost.");
    assert_eq!(user.read_until_exit().code(), Some(4));
    // The error has a line of its own.
    let output = user.all_output();
    assert!(output.contains("\nplumb: error: lost the serial line"), "{output}");
    login.assert_recorded("local");
}

#[test]
#[ignore = "needs lrzsz"]
fn a_signal_is_the_recorded_cause_of_the_end_of_a_download() {
    for (signal, name, code) in
        [(Signal::TERM, "SIGTERM", 143), (Signal::HUP, "SIGHUP", 129), (Signal::INT, "SIGINT", 130)]
    {
        let login = RecordedLogin::new();
        let shell = RemoteShell::over_tcp(Fault::None);
        let mut user = login.start_download(&shell);
        user.send_signal(signal);
        user.wait_for_text(&format!("Download cancelled by {name}."));
        assert_eq!(user.read_until_exit().code(), Some(code));
        user.assert_sane_terminal();
        login.assert_recorded("aborted-by-user");
    }
}

#[test]
#[ignore = "needs lrzsz"]
fn a_terminated_script_records_its_download() {
    let login = RecordedLogin::new();
    let shell = RemoteShell::over_tcp(Fault::None);
    let remote = login.directories.remote.display();
    let script =
        format!("send \"\\r\"\nexpect /ready:/\nsend \"cd {remote}; sz huge\\r\"\nreceive\n");
    let path = login.directories.local.join("script");
    fs::write(&path, script).unwrap();
    let mut command = login.command(&shell, &["--script", path.to_str().unwrap()]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let part = login.directories.local.join("huge.part");
    login_harness::poll_until_timeout(|| {
        part.metadata().ok().filter(|metadata| metadata.len() > 0)
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    login.assert_recorded("aborted-by-user");
}
