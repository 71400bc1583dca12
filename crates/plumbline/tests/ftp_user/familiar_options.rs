//! Tests of the options that users of curl, wget and cp know, and of the exit codes.

use crate::own_server::TestDirectory;
use os::process::Program;
use std::fs;
use std::process::{Command, Stdio};

/// Returns a directory whose server has the files `a`, `b` and `d/c`.
fn with_files(name: &str) -> TestDirectory {
    let directory = TestDirectory::new(name);
    fs::create_dir_all(directory.0.join("there/d")).unwrap();
    for file in ["a", "b", "d/c"] {
        fs::write(directory.0.join("there").join(file), file).unwrap();
    }
    directory
}

#[test]
fn an_existing_file_has_the_same_exit_code_alone_and_among_several() {
    let directory = with_files("familiar-existing");
    let (_server, url) = directory.serve("");
    let urls = ["a", "b"].map(|name| format!("{url}/{name}"));
    directory.run_ok(&["get", "-O", &urls[0], &urls[1]]);
    let (code, _, messages) = directory.run(&["get", &urls[0]]);
    let expected = "plumb: error: a exists: use -f to replace it, or name another file\n";
    assert_eq!((code, messages.as_str()), (Some(2), expected));
    let (code, _, messages) = directory.run(&["get", &urls[0], &urls[1]]);
    let expected = "plumb: error: 'a' exists: use -f to replace it, or name another file\n\
        plumb: error: 2 of 2 files failed; 2 exist: use -f to replace them\n";
    assert_eq!((code, messages.as_str()), (Some(2), expected));
}

#[test]
fn files_are_downloaded_although_another_url_denotes_none() {
    let directory = with_files("familiar-missing");
    let (_server, url) = directory.serve("");
    let urls = ["a", "missing", "d", "none*", "b"].map(|name| format!("{url}/{name}"));
    let arguments = ["get"].into_iter().chain(urls.iter().map(String::as_str));
    let (code, _, messages) = directory.run(&arguments.collect::<Vec<_>>());
    let lines: Vec<_> = messages.lines().collect();
    assert_eq!(lines[0], format!("plumb: error: {url}/missing does not exist"));
    assert!(lines[1].starts_with(&format!("plumb: error: {url}/d is a directory")), "{messages}");
    assert_eq!(lines[2], format!("plumb: error: nothing on the server matches {url}/none*"));
    assert_eq!(
        (code, &lines[3..]),
        (Some(1), &["plumb: error: 3 of 5 files failed"][..]),
        "{messages}"
    );
    assert_eq!((directory.read("a"), directory.read("b")), (b"a".into(), b"b".into()));
    let (code, _, messages) = directory.run(&["get", "-f", &urls[1], &urls[0]]);
    assert_eq!((code, messages.lines().count()), (Some(1), 2), "{messages}");
}

#[test]
fn a_directory_without_r_has_the_same_exit_code_for_get_put_rm_and_cat() {
    let directory = with_files("familiar-directory");
    let (_server, url) = directory.serve("");
    fs::create_dir(directory.0.join("local")).unwrap();
    let remote = format!("{url}/d");
    for words in [["get", &remote].as_slice(), &["put", "local", &remote], &["rm", &remote]] {
        let (code, _, messages) = directory.run(words);
        assert_eq!((code, messages.lines().count()), (Some(2), 1), "{words:?}: {messages}");
        assert!(messages.contains("use -r"), "{words:?}: {messages}");
    }
    let (code, _, messages) = directory.run(&["cat", &remote]);
    let expected = "plumb: error: 'd' is a remote directory: list it with ls\n";
    assert_eq!((code, messages.as_str()), (Some(2), expected));
}

#[test]
fn no_clobber_skips_existing_files_in_both_directions() {
    let directory = with_files("familiar-clobber");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("a"), "local").unwrap();
    let (code, _, messages) = directory.run(&["put", "--no-clobber", "a", &format!("{url}/a")]);
    assert_eq!((code, messages.as_str()), (Some(0), "'a' exists and was kept\n"));
    assert_eq!(directory.read("there/a"), b"a");
    let urls = ["a", "b"].map(|name| format!("{url}/{name}"));
    let (code, _, messages) = directory.run(&["get", "--no-clobber", &urls[0], &urls[1]]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("downloaded 1 file (1 existing and kept)"), "{messages}");
    assert_eq!((directory.read("a"), directory.read("b")), (b"local".into(), b"b".into()));
    directory.run_ok(&["put", "--force", "-p", "a", &urls[0]]);
    assert_eq!(directory.read("there/a"), b"local");
}

#[test]
fn names_that_cannot_be_transferred_or_stored_have_a_reason() {
    let directory = with_files("familiar-names");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("two\nlines"), "").unwrap();
    let (code, _, messages) = directory.run(&["put", "two\nlines", &format!("{url}/")]);
    let expected =
        "plumb: error: 'two\\nlines': FTP cannot transfer a file name that contains a line break\n";
    assert_eq!((code, messages.as_str()), (Some(2), expected));
    let (code, _, messages) = directory.run(&["get", &format!("{url}/*"), "-o", "missing"]);
    assert!(
        messages.starts_with("plumb: error: missing is not a directory: several files"),
        "{messages}"
    );
    assert_eq!((code, messages.contains("os error")), (Some(2), false), "{messages}");
}

#[test]
fn create_dirs_creates_the_directories_of_the_destination() {
    let directory = with_files("familiar-dirs");
    let (_server, url) = directory.serve("");
    let from = format!("{url}/a");
    let (code, _, messages) = directory.run(&["get", &from, "x/y/a"]);
    assert_eq!(code, Some(2), "{messages}");
    directory.run_ok(&["get", "--create-dirs", &from, "x/y/a"]);
    directory.run_ok(&["put", "--ftp-create-dirs", "x/y/a", &format!("{url}/p/q/r")]);
    assert_eq!(directory.read("there/p/q/r"), b"a");
    let (code, _, messages) = directory.run(&["put", "x/y/a", &format!("{url}/other/r")]);
    assert_eq!(code, Some(1), "{messages}");
}

#[test]
fn write_out_prints_a_text_after_each_transfer() {
    let directory = with_files("familiar-write-out");
    let (_server, url) = directory.serve("");
    let format = r"%{size_download}\t%{response_code} %{url_effective} %{filename_effective}\n";
    let urls = ["a", "d/c"].map(|name| format!("{url}/{name}"));
    let (_, stdout, _) = directory.run(&["get", "-w", format, &urls[0], &urls[1]]);
    assert_eq!(stdout, format!("1\t226 {url}/a a\n3\t226 {url}/d/c c\n"));
    let (_, stdout, _) = directory.run(&["put", "-w", "%{size_upload}", "c", &format!("{url}/e")]);
    assert_eq!(stdout, "3");
    let (code, _, messages) = directory.run(&["get", "-w", "%{http_code}", &urls[0]]);
    assert_eq!(code, Some(2), "{messages}");
}

#[test]
fn u_is_a_user_with_a_password() {
    let directory = with_files("familiar-user");
    let mut hasher = Command::new(env!("CARGO_BIN_EXE_plumb"));
    hasher.args(["serve", "--hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hasher = hasher.spawn().unwrap();
    std::io::Write::write_all(&mut hasher.stdin.take().unwrap(), b"se:cret").unwrap();
    let hash = String::from_utf8(hasher.wait_with_output().unwrap().stdout).unwrap();
    let users = directory.0.join("users.toml");
    let root = directory.0.join("there").display().to_string();
    fs::write(&users, format!("[ann]\npassword = \"{}\"\nroot = \"{root}\"\n", hash.trim()))
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&users, mode).unwrap();
    let (_server, url) = directory.serve(&format!("users = \"{}\"\n", users.display()));
    let from = format!("{url}/a");
    let (code, stdout, messages) = directory.run(&["cat", "-u", "ann:se:cret", &from]);
    assert_eq!((code, stdout.as_str()), (Some(0), "a"), "{messages}");
    let (code, _, messages) = directory.run(&["cat", "-u", "ann:secret", &from]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains("530") && !messages.contains("secret"), "{messages}");
}

#[test]
fn insecure_accepts_a_changed_certificate_and_saves_none() {
    let directory = with_files("familiar-insecure");
    let known_hosts = directory.0.join("plumb/known_hosts");
    let (_server, url) = directory.serve("");
    let host = url.strip_prefix("ftp://").unwrap();
    let from = format!("ftpes://{host}/a");
    let (code, stdout, messages) = directory.run(&["cat", "-k", &from]);
    assert_eq!((code, stdout.as_str()), (Some(0), "a"), "{messages}");
    assert!(!known_hosts.exists());
    let other_fingerprint = "00:".repeat(31) + "00";
    fs::write(&known_hosts, format!("{host} {other_fingerprint}\n")).unwrap();
    let (code, _, messages) = directory.run(&["cat", &from]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains("changed"), "{messages}");
    let (code, stdout, messages) = directory.run(&["cat", "--insecure", &from]);
    assert_eq!((code, stdout.as_str()), (Some(0), "a"), "{messages}");
}

#[test]
fn verbose_prints_commands_and_replies_in_order_without_the_password() {
    let directory = with_files("familiar-verbose");
    let (_server, url) = directory.serve("");
    let (code, _, messages) = directory.run(&["get", "-v", &format!("{url}/a")]);
    assert_eq!(code, Some(0), "{messages}");
    let lines = messages.lines();
    let lines: Vec<_> = lines.map(|line| line.get(..6).unwrap_or(line)).collect();
    assert_eq!(lines[..5], ["< 220 ", "> USER", "< 331 ", "> PASS", "< 230 "], "{messages}");
    assert!(messages.contains("> PASS ****\n"), "{messages}");
    let position = |text| lines.iter().position(|line| *line == text).unwrap();
    assert!(position("> RETR") < position("< 150 "), "{messages}");
    assert!(position("< 226 ") < position("> QUIT"), "{messages}");
    let (code, ..) = directory.run(&["get", "-qv", &format!("{url}/b")]);
    assert_eq!(code, Some(2));
}

#[test]
fn a_user_without_a_state_directory_gets_no_message_about_records() {
    let directory = with_files("familiar-stateless");
    let (_server, url) = directory.serve("");
    // Not even root can create a directory in sysfs.
    let mut command = directory.plumb();
    command.args(["get", "-q", &format!("{url}/a")]).env("XDG_STATE_HOME", "/sys/kernel/none");
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_closed_pipe_ends_the_command_silently_with_exit_code_141() {
    let directory = TestDirectory::new("familiar-pipe");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("there/file"), vec![b'\n'; 10_000_000]).unwrap();
    for (command, url) in [("get", format!("{url}/file")), ("cat", format!("{url}/file"))] {
        let mut command_line = directory.plumb();
        command_line.args([command, &url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        if command == "get" {
            command_line.arg("-");
        }
        let mut program = Program::start(&mut command_line).unwrap();
        let mut byte = [0];
        let mut stdout = program.child().stdout.take().unwrap();
        std::io::Read::read_exact(&mut stdout, &mut byte).unwrap();
        drop(stdout);
        let messages = std::io::read_to_string(program.child().stderr.take().unwrap()).unwrap();
        let status = crate::login_harness::poll_until_timeout(|| program.exit_status().unwrap());
        assert_eq!((status.code(), messages.as_str()), (Some(141), ""), "{command}");
    }
}
